"""Every entry of the glossary is one sentence, in its place, and leads to where it is made."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests import test_chapters

anchors = cache(test_chapters.anchors)
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "chapters" / "glossary.md"
ENTRY = re.compile(r"- \*\*\[(?P<term>.+)\]\((?P<page>[^)#]+)(?:#(?P<anchor>[^)]+))?\)\*\*: (.+)")


def order(term):
    """Terms stand by their letters and figures; marks count as nothing, hyphens as a gap."""
    return re.sub(r"[^a-z0-9 ]", "", re.sub("[-–]", " ", term.casefold()))


def faults(text):
    found, terms, letter = [], [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            letter = line.removeprefix("## ")
        if not line.startswith("- "):
            continue
        entry = ENTRY.fullmatch(line)
        if entry is None:
            found.append(f"no entry: {line[:60]}")
            continue
        term, page, anchor, sentence = entry.groups()
        if order(term)[0].upper() != letter:
            found.append(f"{term} stands under {letter}")
        if not sentence.endswith(".") or re.search(r"[.?!:;](?=\s)", sentence):
            found.append(f"{term}: not one sentence")
        path = (PAGE.parent / page).with_suffix(".md")
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(f"{term}: {page}#{anchor} leads nowhere")
        terms.append(order(term))
    found += [
        f"{term} stands there twice" for term in sorted({t for t in terms if terms.count(t) > 1})
    ]
    found += [f"{b} stands behind {a}" for a, b in zip(terms, terms[1:], strict=False) if b < a]
    return found, terms


def test_entries_are_sentences_in_order_that_lead_somewhere():
    found, terms = faults(PAGE.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)
    assert len(terms) >= 150


def test_letters_stand_in_order_and_none_is_empty():
    text = PAGE.read_text(encoding="utf-8")
    letters = re.findall(r"^## (.+)$", text, re.M)
    assert letters == sorted(set(letters))
    assert all("\n- " in section for section in re.split(r"^## ", text, flags=re.M)[1:])


AXIS = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if "**[axis]" in line)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[axis]", "[batch]", "batch stands under A"),
        ("[axis]", "[batch]", "batch stands there twice"),
        ("[axis]", "[Abacus]", "abacus stands behind average pooling"),
        ("**:", "**", "no entry"),
        ("laid out.", "laid out", "axis: not one sentence"),
        ("laid out.", "laid out. See there.", "axis: not one sentence"),
        ("#a-block-and-its-shape", "#a-block", "axis: 01_shapes.ipynb#a-block leads nowhere"),
        ("01_shapes", "00_shapes", "axis: 00_shapes.ipynb#a-block-and-its-shape leads nowhere"),
    ],
)
def test_a_fault_is_found(old, new, said):
    text = PAGE.read_text(encoding="utf-8")
    assert AXIS.count(old) == 1
    found, _ = faults(text.replace(AXIS, AXIS.replace(old, new)))
    assert said in "\n".join(found)
