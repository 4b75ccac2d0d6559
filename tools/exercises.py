"""An exercise's text holds its solutions; the learner's text is derived from it.

Inside a function of a code cell, a solution stands between two comment lines:

    def scores(q, k):
        # solution: return ...
        return q @ k.T / q.shape[-1] ** 0.5
        # end solution

The learner finds ``return ...`` in their place.

    python tools/exercises.py [FILE…]    build the learners' notebooks
"""

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CELL = re.compile(r"(`{3,}|~{3,})\{code-cell\}")
OPTION = re.compile(r"\s*:[\w-]+:")
START = re.compile(r"(\s*)# solution: (\S.*)")
END = re.compile(r"\s*# end solution")
ALMOST = re.compile(r"\s*#+\s*((begin|start|end)\s*(of\s*)?)?solution\s*(:.*)?", re.IGNORECASE)


class Mistake(ValueError):
    """A mistake in a text: the line where it stands, and what to do about it."""

    def __init__(self, line, message):
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


@dataclass(frozen=True)
class Solution:
    """What stands between two markers; ``first`` and ``last`` are the markers' line numbers."""

    first: int
    last: int
    stub: str
    lines: tuple[str, ...]


def solutions(text):
    """All solutions of a text, in order; a ``Mistake`` for a marker that cannot be followed."""
    lines = text.splitlines()
    cells = _code_cells(lines)
    inside = {number for first, last in cells for number in range(first, last + 1)}
    for number, line in enumerate(lines, 1):
        if number not in inside and (START.fullmatch(line) or END.fullmatch(line)):
            raise Mistake(number, "this marker stands outside a code cell")
    return [solution for first, last in cells for solution in _in_cell(lines, first, last)]


def learner_lines(text):
    """The learner's text as pairs of a line and its number in the source."""
    pairs = [(line, number) for number, line in enumerate(text.splitlines(), 1)]
    for solution in reversed(solutions(text)):
        pairs[solution.first - 1 : solution.last] = [(solution.stub, solution.first)]
    return pairs


def learner(text):
    """The text with every solution replaced by its stub."""
    return _joined(line for line, _ in learner_lines(text))


def solved(text):
    """The text with every solution in place and no marker left."""
    markers = {n for solution in solutions(text) for n in (solution.first, solution.last)}
    return _joined(line for n, line in enumerate(text.splitlines(), 1) if n not in markers)


def leaks(source, notebook):
    """The solution lines of a source that can be read in a notebook, outputs included.

    Lines that give nothing away (short ones, or names alone, as in ``return out``) are free.
    """
    shown = _squeezed("\n".join(_everything_said(notebook)))
    lines = (line.strip() for solution in solutions(source) for line in solution.lines)
    return [line for line in lines if _tells(line) and _squeezed(line) in shown]


def _code_cells(lines):
    """The first and the last line number of the code in each code cell, options left out."""
    cells, fence, first = [], None, 0
    for number, line in enumerate(lines, 1):
        if fence is None:
            if opening := CELL.match(line):
                fence, first = opening[1], number + 1
        elif line.startswith(fence) and not line.strip(fence[0]).strip():
            cells.append((_after_options(lines, first), number - 1))
            fence = None
    if fence is not None:
        raise Mistake(first - 1, "this code cell is never closed")
    return cells


def _after_options(lines, first):
    """The line number where code starts, below ``:key: value`` lines or a ``---`` block."""
    if lines[first - 1].startswith("---"):
        below = range(first + 1, len(lines) + 1)
        return next((n + 1 for n in below if lines[n - 1].startswith("---")), first)
    while OPTION.match(lines[first - 1]):
        first += 1
    return first


def _in_cell(lines, first, last):
    """The solutions of the code cell between two line numbers."""
    found, opened = [], None
    for number in range(first, last + 1):
        line = lines[number - 1]
        if start := START.fullmatch(line):
            if opened:
                raise Mistake(number, f"the solution of line {opened} is not ended above this one")
            opened, stub = number, start[1] + start[2]
        elif END.fullmatch(line):
            if not opened:
                raise Mistake(number, "there is no `# solution: STUB` above this end")
            body = tuple(lines[opened : number - 1])
            if not "".join(body).strip():
                raise Mistake(opened, "this solution is empty")
            found.append(Solution(opened, number, stub, body))
            opened = None
        elif ALMOST.fullmatch(line):
            raise Mistake(number, "write this as `# solution: STUB` or as `# end solution`")
    if opened:
        raise Mistake(opened, "this solution has no `# end solution`")
    if found:
        _refuse_broken_code(lines[first - 1 : last], first, found)
    return found


def _refuse_broken_code(code, first, found):
    """Solutions stand inside functions; the cell is Python with them and without them."""
    tree = _tree(code, first, "a cell with a solution must be plain Python")
    spans = [
        range(first + node.lineno, first + node.end_lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    stubbed = list(code)
    for solution in reversed(found):
        full = [n for n, line in enumerate(solution.lines, solution.first + 1) if line.strip()]
        if not any(full[0] in span and full[-1] in span for span in spans):
            raise Mistake(solution.first, "this solution stands outside a function")
        stubbed[solution.first - first : solution.last - first + 1] = [solution.stub]
    _tree(stubbed, first, "with the stub in place of the solution this cell is not Python")


def _tree(code, first, complaint):
    try:
        return ast.parse("\n".join(code))
    except SyntaxError as error:
        raise Mistake(first + (error.lineno or 1) - 1, f"{complaint}: {error.msg}") from None


def _everything_said(notebook):
    for cell in notebook["cells"]:
        yield _whole(cell["source"])
        for output in cell.get("outputs", []):
            yield _whole(output.get("text", ""))
            data = output.get("data", {})
            yield from (_whole(value) for kind, value in data.items() if kind.startswith("text/"))


def _whole(text):
    return "".join(text) if isinstance(text, list) else text


def _tells(line):
    return len(_squeezed(line)) >= 8 and re.search(r"[-+*/@%<>=|&^~(\[#]", line) is not None


def _squeezed(text):
    return re.sub(r"\s+", "", text)


def _joined(lines):
    return "\n".join(lines) + "\n"


def main(files):
    """Build the learners' notebooks of the files given, or of all exercises."""
    sys.path.insert(0, str(ROOT))
    from tools import notebooks

    files = files or [str(path) for path in notebooks.sources(ROOT, ["exercises"])]
    if not files:
        print("There are no exercises yet.")
        return 0
    return notebooks.main(["build", *files])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
