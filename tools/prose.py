"""The rule for numbers in prose: each is bound, computed, cited or free. Any other is a fault.

    python tools/prose.py [FILE…] [--list]

checks ``chapters/NN_slug.md`` against the outputs stored in the ``.ipynb`` beside it, and the pages
without cells, ``intro.md`` and ``chapters/slug.md``, against those of all chapters.

Bound     ``150,528<!--=n_inputs-->``: the literal, read with its sign, exponent and unit, equals
          the fact to half a unit of its last digit; with ``~``, of its last digit that is not 0.
          The comment stands directly behind the number and its unit, behind the emphasis or the
          formula that ends in it, or on the line below a displayed formula. A tuple (or a matrix,
          row after row) is bound whole. A computation in math is bound by its value,
          ``$4\\cdot 768^2$``, or by its number if it has one only, ``$e^{1000}$``.
Quoted    ``150,528<!--=chapters/03_dense:n_inputs-->``: the same on a page without cells.
Computed  an identity in math: see ``tools/reading/formula.py``.
Cited     ``60 million<!--@krizhevsky2012-->``: the key is in ``references.bib``, as must be that
          of a link to ``sources.md#key``.
Free      integers up to 12 that no unit scales; code, headings, links, footnote marks; names with
          digits, ordinals; years after a name or after "in", "since", "until", "between"; versions
          after a product; numbers of chapters, sections, figures, equations; subscripts.

No comment fits into an alternative text, nor into a caption among a cell's options. There a number
is free, or agrees with a fact that the same cell or the one before it prints, or with an exact
integer that any cell prints.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path

from pybtex.database import parse_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.reading.formula import read_formula  # noqa: E402
from tools.reading.literal import (  # noqa: E402
    UNITS,
    free,
    literal_before,
    rewritten,
    scan,
    trailing_literal,
    wrong_size,
)
from tools.reading.markdown import MATH, code_cells, runs  # noqa: E402

__all__ = [
    "Fact",
    "Fault",
    "all_facts",
    "check_chapter",
    "check_page",
    "misquoted",
    "read_facts",
    "trailing_literal",
]

SPEAKS = re.compile(r"\b(facts|measured)\(")
FACT = re.compile(r"([A-Za-z_]\w*) = (\(.+\)|\S+)")
COMMENT = re.compile(r"<!--([=@])([A-Za-z_]\w*)-->")
QUOTED = re.compile(r"<!--=([\w/]+):([A-Za-z_]\w*)-->")
ON_A_PAGE = re.compile(r"<!--([=@])((?<==)[\w/]+:[A-Za-z_]\w*|(?<=@)[A-Za-z_]\w*)-->")
SOURCE = re.compile(r"(?:\.\./chapters/)?sources\.(?:md|html)#(.+)")
# What stands against a formula and belongs to a number inside it: $7.5$ %, ~$84$, $150$,528.
TORN_BEFORE = re.compile(r"(?:\d[.,]?|(?<!\w)[~−-])$")
TORN_BEHIND = re.compile(rf"[.,]?\d|\s?%|\s?(?:{UNITS})\b|[kKMBGT×](?!\w)")


@dataclass(frozen=True)
class Fault:
    file: str
    line: int
    message: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Fact:
    """A line ``name = text`` that a cell prints; ``value`` is a Decimal or a tuple of these."""

    name: str
    text: str
    value: Decimal | tuple[Decimal, ...]
    cell: int
    rounded: bool = False
    """Printed by ``measured`` alone: the text shows all digits that are known."""

    @property
    def values(self):
        return self.value if isinstance(self.value, tuple) else (self.value,)

    @property
    def exact(self):
        return not any(self.step(index) for index in range(len(self.values)))

    def step(self, index):
        """What one step of its last known digit (shown, or the sixth) is worth; 0 if exact."""
        text, value = self.text.strip("()").split(", ")[index], self.values[index]
        if re.fullmatch(r"-?[\d,]+", text) or value == 0:
            return Decimal(0)
        return Decimal(1).scaleb(
            value.as_tuple().exponent if self.rounded else value.adjusted() - 5
        )


def read_facts(notebook):
    """The facts of a notebook (its dict, or its path) by name; of two with one name the first."""
    if isinstance(notebook, Path):
        notebook = json.loads(notebook.read_text(encoding="utf-8"))
    facts = {}
    for fact in _facts(notebook):
        facts.setdefault(fact.name, fact)
    return facts


def _facts(notebook):
    for index, cell in enumerate(notebook["cells"]):
        speaks = set(SPEAKS.findall("".join(cell["source"]))) if cell["cell_type"] == "code" else ()
        if not speaks:
            continue
        stdout = "".join(
            "".join(output["text"]) for output in cell["outputs"] if output.get("name") == "stdout"
        )
        for line in stdout.splitlines():
            match = FACT.fullmatch(line)
            value = _value(match[2]) if match else None
            if value is not None:
                yield Fact(match[1], match[2], value, index, speaks == {"measured"})


def _value(text):
    entries = text[1:-1].removesuffix(",").split(", ") if text.startswith("(") else [text]
    try:
        values = tuple(Decimal(entry.replace(",", "")) for entry in entries)
    except InvalidOperation:
        return None
    if not all(value.is_finite() for value in values):
        return None
    return values if text.startswith("(") else values[0]


# ------------------------------------------------------------------------------------ the rule


class Chapter:
    comment, form, printer = COMMENT, "<!--=name-->", "No cell of the chapter prints"
    plain = True

    def __init__(self, text, notebook, keys, name, facts=None):
        self.source, self.notebook, self.keys, self.name = text, notebook, keys, name
        self.facts = read_facts(notebook) if facts is None else facts
        self.faults, self.uses = [], {}
        self.counts = dict.fromkeys(("bound", "evaluated", "cited"), 0)
        self.tags = set(re.findall(r"\\tag\{([\d.]+)\}", text))
        self.cells = [i for i, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code"]
        # The notebook has the set-up cell, which the text has not, before all others.
        self.lines = dict(zip(reversed(self.cells), reversed(code_cells(text)), strict=False))
        for run in runs(text):
            self.check(run)
        self.check_alternatives()
        self.check_facts()
        self.faults.sort(key=lambda fault: fault.line)

    def fault(self, line, message):
        self.faults.append(Fault(self.name, line, message))

    def check(self, run):
        for what, line in run.not_plain if self.plain else ():
            self.fault(line, f"{what}: the site alone would read it. Chapters are plain Markdown.")
        for href, line in run.links:
            key = SOURCE.fullmatch(href)
            if key and key[1] not in self.keys:
                self.stale(line, key[1])
        for alternative, line in run.images:
            self.check_unbindable(alternative, self.facts.values(), line)
        self.check_numbers(run)

    def check_numbers(self, run):
        literals = scan(run.text)
        formulas = {at: read_formula(tex) for at, (tex, _) in run.formulas.items()}
        torn = {literal for literal in literals if self.is_torn(run, literal)}
        settled, bound_at = set(torn), set()
        for at, comment, line in run.comments:
            choices, used = _targets(run, at, literals, formulas)
            if any(literal.start < at < literal.end for literal in torn):
                choices = []
            elif at in bound_at or not choices:
                choices = []
                self.fault(line, f"{comment} binds nothing: {_advice(run, at, literals)}.")
            self.bind(line, comment, choices)
            bound_at.add(at)
            settled |= used
        for literal in literals:
            if literal not in settled and not free(run.text, literal, self.tags):
                self.refuse(run.lines[literal.start], literal)
        for at, formula in formulas.items():
            self.check_formula(run, at, formula, settled)

    def check_formula(self, run, at, formula, settled):
        tex, line = run.formulas[at]
        self.counts["evaluated"] += formula.identities
        for lines, message in formula.flaws:
            self.fault(line + lines, f"{message}.")
        for literal in formula.pending:
            if (at, literal) not in settled:
                self.refuse(line + formula.lines_before(literal), literal)
        before = re.match(r"\s*[\d.]", tex) and TORN_BEFORE.search(run.text[:at])
        behind = re.search(r"\d\}?\s*$", tex) and TORN_BEHIND.match(run.text[at + 1 :])
        if before or behind:
            self.fault(
                line, f"${tex.strip()}$ is part of a number: sign, digits and unit belong inside."
            )

    def is_torn(self, run, literal):
        torn = any(literal.start < at < literal.end for at in run.breaks)
        if torn:
            self.fault(
                run.lines[literal.start],
                f"{literal.shown} is split by markup: keep sign, digits and unit together, "
                "and the comment behind them.",
            )
        return torn

    def bind(self, line, comment, choices):
        """Hold a number, for which there may be several readings, to what the comment names."""
        match = self.comment.fullmatch(comment)
        if not match:
            self.fault(line, f"{comment}: write {self.form} for a fact, <!--@key--> for a source.")
            return
        mark, name = match.groups()
        if mark == "@":
            self.counts["cited"] += bool(choices)
            if name not in self.keys:
                self.stale(line, name)
        elif name not in self.facts:
            self.fault(line, f"{self.printer} {name}.{_guess(name, self.facts)}")
        else:
            self.uses.setdefault(name, []).append(line)
            self.counts["bound"] += bool(choices)
            wrong = [_disagreement(literals, self.facts[name]) for literals in choices]
            if wrong and all(wrong):
                self.fault(line, wrong[-1])

    def stale(self, line, key):
        self.fault(line, f"references.bib has no {key}.{_guess(key, self.keys)}")

    def refuse(self, line, literal):
        if literal.flaw:
            self.fault(line, f"{literal.shown} {literal.flaw}.")
            return
        same = [fact.name for fact in self.facts.values() if _is_one_of(literal, fact)]
        hint = f" It agrees with {', '.join(same)}." if 0 < len(same) < 4 else ""
        self.fault(
            line,
            f"{literal.shown} has no source: bind it to a fact with {self.form}, cite one with "
            f"<!--@key-->, or write out its computation in math.{hint}",
        )

    def check_alternatives(self):
        for before, index in zip([None, *self.cells], self.cells, strict=False):
            options = self.notebook["cells"][index]["metadata"].get("mystnb", {})
            facts = [
                fact for fact in self.facts.values() if fact.cell in (before, index) or fact.exact
            ]
            for part, key in (("image", "alt"), ("figure", "caption")):
                text = options.get(part, {}).get(key, "")
                self.check_unbindable(text, facts, self.lines.get(index, 1))

    def check_unbindable(self, text, facts, line):
        for literal in scan(text):
            known = free(text, literal, self.tags) or any(
                _is_one_of(literal, fact) for fact in facts
            )
            if literal.flaw or not known:
                self.fault(
                    self.line_of(literal.text, line),
                    f"{literal.shown}, in an alternative text or caption, is no fact that this "
                    "cell or the one before it prints: print it there, or say it in words.",
                )

    def check_facts(self):
        seen = set()
        for fact in _facts(self.notebook):
            line = self.line_of(f"{fact.name}=", self.lines.get(fact.cell, 1))
            if fact.name in seen:
                self.fault(
                    line,
                    f"{fact.name} is printed twice (cells {self.facts[fact.name].cell} and "
                    f"{fact.cell}): give the second another name.",
                )
            elif fact.name not in self.uses:
                self.fault(
                    line,
                    f"{fact.name} = {fact.text} is printed (cell {fact.cell}) and never used: "
                    f"bind a number to it with <!--={fact.name}-->, or do not print it as a fact.",
                )
            seen.add(fact.name)

    def line_of(self, words, line):
        """Where ``words`` stand in the cell that begins on ``line``, else ``line`` itself."""
        for number, row in enumerate(self.source.splitlines()[line - 1 :], line):
            if words in row:
                return number
            if number > line and row.startswith("```"):
                break
        return line


class Page(Chapter):
    """A page without cells. It quotes the facts of all chapters, and may hold directives."""

    comment, form, printer = ON_A_PAGE, "<!--=chapters/NN_slug:name-->", "No chapter prints"
    plain = False

    def __init__(self, text, facts, keys, name):
        super().__init__(text, {"cells": []}, keys, name, facts)


def _targets(run, at, literals, formulas):
    """What a comment at ``at`` may bind, and all the literals that it settles."""
    if run.text[at - 1 : at] == MATH:
        choices = formulas[at - 1].readings()
        start = min((one.start for literals in choices for one in literals), default=0)
        used = {(at - 1, one) for one in formulas[at - 1].pending if one.start >= start}
        return choices, used
    found = literal_before(run.text, at, literals)
    if not found:
        return [], set()
    start, bound = found
    return [bound], {one for one in literals if start <= one.start and one.end <= at}


def _disagreement(literals, fact):
    """What is wrong with literals that are bound to a fact, or None."""
    if len(literals) != len(fact.values):
        return (
            f"{len(literals)} number{'s' * (len(literals) > 1)} bound to {fact.name}, which has "
            f"{len(fact.values)}: {fact.text} (cell {fact.cell}). Show all, or print another fact."
        )
    wrong = [_difference(literal, fact, index) for index, literal in enumerate(literals)]
    return next(filter(None, wrong), None)


def _difference(literal, fact, index):
    if literal.flaw:
        return f"{literal.shown} {literal.flaw}."
    value, step = fact.values[index], fact.step(index)
    told = f"{literal.shown} is bound to {fact.name}, which is {fact.text} (cell {fact.cell})"
    if literal.unit == 0:
        same = abs(literal.value - value) <= step / 2
        return None if same else f"{told}. Correct it, or change the cell."
    if literal.agrees(value):
        known = literal.unit >= step
        return None if known else f"{told}: it shows more digits than are known. Drop some."
    if literal.value * value < 0:
        return f"{told}: the sign is wrong. Correct it, or change the cell."
    if wrong_size(literal, value):
        return f"{told}: the digits agree, the size does not. Correct its unit or exponent."
    right = rewritten(literal, value) if literal.unit >= step else None
    return f"{told}. {f'Write {right}' if right else 'Correct it'}, or change the cell."


def _is_one_of(literal, fact):
    return any(_difference(literal, fact, index) is None for index in range(len(fact.values)))


def _advice(run, at, literals):
    for literal in reversed(literals):
        if re.fullmatch(r"(?:[\s-][^\W\d]+){1,3}", run.text[literal.end : at]):
            return f"move it directly behind {literal.shown}"
    return "it must stand directly behind a number and its unit"


def _guess(name, names):
    close = get_close_matches(name, list(names), n=1)
    return f" Do you mean {close[0]}?" if close else ""


# ------------------------------------------------------------------------------------ command


def check_chapter(text, notebook, keys, name):
    """The faults of a chapter's text, held to its executed notebook and the sources' keys."""
    return Chapter(text, notebook, keys, name).faults


def check_page(text, facts, keys, name):
    """The faults of a page without cells, held to the facts of all chapters (``all_facts``)."""
    return Page(text, facts, keys, name).faults


def all_facts(root):
    """The facts of all chapters, by page and name: ``chapters/03_dense:n_inputs``."""
    return {
        f"chapters/{path.stem}:{name}": fact
        for path in sorted((root / "chapters").glob("[0-9]*.ipynb"))
        for name, fact in read_facts(path).items()
    }


def misquoted(text, formula, fact):
    """What is wrong with the number at the end of a text, or in a formula, that quotes a fact."""
    if formula:
        choices = read_formula(text).readings()
    else:
        found = literal_before(text, len(text), scan(text))
        choices = [found[1]] if found else []
    wrong = [_disagreement(literals, fact) for literals in choices]
    return wrong[-1] if wrong and all(wrong) else None


def read_keys(path):
    return set(parse_file(str(path)).entries.keys()) if path.exists() else set()


def check_file(path, listing=False):
    """Check one file, print its faults and its counts; return the number of faults."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    if path.suffix != ".md" or not path.is_file():
        print(f"{name}: wanted a text that is there and ends in .md")
        return 1
    notebook, text = path.with_suffix(".ipynb"), path.read_text(encoding="utf-8")
    root = path.parent.parent if path.parent.name == "chapters" else path.parent
    keys = read_keys(root / "references.bib")
    if not path.name[0].isdigit():
        chapter = Page(text, all_facts(root), keys, name)
    elif not notebook.exists():
        print(f"{name}:1: there is no {notebook.name} beside it. Run make notebooks.")
        return 1
    else:
        chapter = Chapter(text, json.loads(notebook.read_text(encoding="utf-8")), keys, name)
    print(*chapter.faults, sep="\n", end="\n" if chapter.faults else "")
    if listing:
        for fact_name, fact in chapter.facts.items():
            lines = ", ".join(map(str, chapter.uses.get(fact_name, ())))
            if lines or chapter.plain:
                print(f"  {fact_name} = {fact.text}  (cell {fact.cell})  lines {lines or '-'}")
    counts = ", ".join(f"{count} {what}" for what, count in chapter.counts.items())
    print(f"{path.name}: {counts}, {len(chapter.faults)} faults")
    return len(chapter.faults)


def pages(root):
    """The pages of the book that have no cells."""
    return [root / "intro.md", *sorted((root / "chapters").glob("[a-z]*.md"))]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: all of them")
    parser.add_argument("--list", action="store_true", help="show each fact and where it is used")
    options = parser.parse_args(arguments)
    chapters = sorted((ROOT / "chapters").glob("[0-9]*.md"))
    if not (options.files or chapters):
        print("There are no chapters.")
        return 1
    files = options.files or [*chapters, *pages(ROOT)]
    return int(sum([check_file(path.resolve(), options.list) for path in files]) > 0)


if __name__ == "__main__":
    sys.exit(main())
