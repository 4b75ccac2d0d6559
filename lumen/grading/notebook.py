"""A learner's notebook as the judge reads it: code cells, out of bytes nobody vouches for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from lumen.grading.question import Question

MOST_NOTEBOOK = 20 << 20
MOST_CELLS = 1_000


class Unreadable(ValueError):
    """This is no notebook; the message says what it is instead."""


def code_cells(content: bytes) -> list[str]:
    """The sources of the code cells, in order. All but them is ignored: metadata, ids, outputs."""
    if len(content) > MOST_NOTEBOOK:
        raise Unreadable(f"the file is larger than {MOST_NOTEBOOK >> 20} MiB")
    if not content.strip():
        raise Unreadable("the file is empty")
    try:
        notebook = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("the file is not UTF-8 text, so it is no notebook") from None
    except (ValueError, RecursionError):
        raise Unreadable("the file is not JSON, so it is no notebook") from None
    cells = _cells(notebook)
    if cells is None:
        raise Unreadable("the file is JSON without a list of cells, so it is no notebook")
    found = [
        _source(cell)
        for cell in cells[:MOST_CELLS]
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
    ]
    if not found:
        raise Unreadable("the notebook holds no code cell")
    return found


def _cells(notebook: object) -> list | None:
    if not isinstance(notebook, dict):
        return None
    cells = notebook.get("cells")
    if cells is None and isinstance(notebook.get("worksheets"), list):  # format 3 and older
        sheets = [sheet for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets for cell in sheet.get("cells") or ()]
    return cells if isinstance(cells, list) else None


def _source(cell: dict) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def set_of(cells: Sequence[str], sets: Mapping[str, Sequence[Question]]) -> str | None:
    """The set that a notebook answers: named in its calls, or else the one whose functions it has.

    Only one that stands out is taken; of two that fit alike, none is.
    """
    code = "\n".join(cells)
    named = set(re.findall(r"""\bscore\(\s*["'](\w+)["']""", code)) & set(sets)
    if len(named) == 1:
        return named.pop()
    called = set(re.findall(r"""\bcheck\(\s*["'](\w+)\.""", code)) & set(sets)
    if len(called) == 1:
        return called.pop()
    # by their look alone: to parse what a stranger wrote may take all memory there is
    written = set(re.findall(r"^(?:async )?def\s+(\w+)", code, re.MULTILINE))
    hits = {name: sum(q.target in written for q in questions) for name, questions in sets.items()}
    most = max(hits.values(), default=0)
    best = [name for name, n in hits.items() if n == most]
    return best[0] if most and len(best) == 1 else None
