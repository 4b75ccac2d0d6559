"""Every chapter has the book's anatomy, shows in plain Markdown, and its links lead somewhere.

Each rule is a function from a chapter to its faults. The rules are first shown to bite: a small
chapter that obeys them all is broken in one place, and the one rule must say so.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from urllib.parse import unquote

import jupytext
import nbformat
import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from myst_parser.mdit_to_docutils.base import default_slugify

from tools import exercises, notebooks

ROOT = notebooks.ROOT
ANATOMY = [
    "The bet",
    "The mechanism",
    "Worked by hand",
    "In code",
    "The cost",
    "What breaks",
    "Kin",
    "The bet, settled",
    "Questions",
    "Sources",
]
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)


@dataclass
class Piece:
    """A code cell, or what one Markdown cell says under one heading."""

    h2: str | None
    h3: str | None
    cell: nbformat.NotebookNode
    words: str = ""


@dataclass
class Chapter:
    """A text as the book has it: what was written, its cells, and the notebook that was run."""

    root: Path
    path: Path
    raw: str
    cells: list
    seconds: int
    executed: list

    @property
    def markdown(self):
        return [cell.source for cell in self.cells if cell.cell_type == "markdown"]

    @property
    def pieces(self):
        """The cells with their headings, in order."""
        h2 = h3 = None
        for cell in self.cells:
            if cell.cell_type == "code":
                yield Piece(h2, h3, cell)
                continue
            words = []
            for line, heading in _lines(cell.source):
                if heading and len(heading[1]) in (2, 3):
                    yield Piece(h2, h3, cell, "\n".join(words))
                    h2, h3 = (heading[2], None) if len(heading[1]) == 2 else (h2, heading[2])
                    words = []
                words.append(line)
            yield Piece(h2, h3, cell, "\n".join(words))

    def code(self, section):
        return [
            piece.cell.source
            for piece in self.pieces
            if piece.h2 == section and piece.cell.cell_type == "code"
        ]

    def words(self, section):
        return "\n".join(piece.words for piece in self.pieces if piece.h2 == section)


def load(path, root):
    raw = path.read_bytes().decode("utf-8")
    written = jupytext.reads(raw, fmt="md:myst")
    stored = path.with_suffix(".ipynb")
    executed = nbformat.read(str(stored), as_version=4).cells if stored.exists() else []
    return Chapter(root, path, raw, written.cells, written.metadata.lumen.seconds, executed)


def _lines(source):
    """Lines with the heading each one is, if it is one; code fences hold none."""
    fence = None
    for line in source.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence is None and mark:
            fence = mark[1]
        elif fence and line.strip() == fence:
            fence = None
            yield line, None
            continue
        yield line, None if fence else re.fullmatch(r"(#{1,6}) +(.*?) *", line)


def _tokens(source):
    """All Markdown tokens, those inside lines included."""
    for token in MARKDOWN.parse(source):
        yield token
        yield from token.children or []


# The rules


def anatomy(chapter):
    found = [heading[2] for heading in _headings(chapter) if len(heading[1]) == 2]
    if found != ANATOMY:
        return [f"the headings are {found}, they must be {ANATOMY}"]
    if not chapter.cells[1].source.startswith("## The bet"):
        return ["the cell below the title must start with `## The bet`"]
    return []


def _headings(chapter):
    lines = (pair for source in chapter.markdown for pair in _lines(source))
    return [heading for _, heading in lines if heading]


def title_block(chapter):
    title, *paragraphs = chapter.cells[0].source.split("\n\n")
    promise = [text for text in paragraphs if not text.startswith("**")]
    needs = [text for text in paragraphs if text.startswith("**Needs** ")]
    faults = [] if len(promise) == 1 else ["the title wants one paragraph of promise below it"]
    return faults if len(needs) == 1 else [*faults, "the title wants a line `**Needs** …`"]


def one_title(chapter):
    titles = [heading[2] for heading in _headings(chapter) if len(heading[1]) == 1]
    return [] if len(titles) == 1 else [f"a chapter has one title, this one has {titles}"]


def run_time(chapter):
    return [] if chapter.seconds <= 25 else [f"{chapter.seconds} s; a chapter runs in 25 s"]


ANSWER = re.compile(r"<details>\n<summary>[^\n]+</summary>\n\n\S.*?\n\n</details>", re.DOTALL)


def questions(chapter):
    words = chapter.words("Questions")
    opened, folded = words.count("<details"), len(ANSWER.findall(words))
    if opened != folded or words.count("</details>") != folded:
        wanted = "`<details>`, `<summary>…</summary>`, blank line, answer, blank line, `</details>`"
        return [f"{opened} answers are folded, {folded} of them as {wanted}"]
    return (
        [] if 5 <= folded <= 8 else [f"five to eight questions with folded answers, not {folded}"]
    )


def graded_set(chapter):
    wanted = f"../exercises/{chapter.path.stem}.ipynb"
    links = [target for target in _links(chapter.words("Questions")) if target == wanted]
    return [] if links else [f"the questions must link to the graded set, [words]({wanted})"]


def _figures(chapter):
    """Pairs of an executed cell with a picture and what stands below it."""
    pairs = zip_longest(chapter.executed, chapter.executed[1:])
    return [pair for pair in pairs if _pictures(pair[0])]


def _pictures(cell):
    """The outputs of a cell that are pictures."""
    kinds = [list(output.get("data", {})) for output in cell.get("outputs", [])]
    return [names for names in kinds if any(name.startswith("image/") for name in names)]


def _alt(cell):
    return (cell.metadata.get("mystnb", {}).get("image") or {}).get("alt", "")


def figures(chapter):
    found = _figures(chapter)
    return [] if len(found) >= 3 else [f"three figures at least, the notebook holds {len(found)}"]


def one_figure_a_cell(chapter):
    cells = [cell for cell, _ in _figures(chapter) if len(_pictures(cell)) > 1]
    return [f"{_first(cell)} shows {len(_pictures(cell))} pictures; one a cell" for cell in cells]


def alt_texts(chapter):
    return [
        f"{_first(cell)} draws a figure without `mystnb: {{image: {{alt: …}}}}` of some words"
        for cell, _ in _figures(chapter)
        if len(_alt(cell).split()) < 4
    ]


def captions(chapter):
    return [
        f"{_first(cell)} draws a figure; a cell `*Figure …*` or `**Figure …**` must follow it"
        for cell, below in _figures(chapter)
        if below is None or not re.match(r"([*_]{1,2})Figure\b.*\1", below.source, re.DOTALL)
    ]


def different_alts(chapter):
    tokens = [token for source in chapter.markdown for token in _tokens(source)]
    alts = [token.content for token in tokens if token.type == "image"]
    alts += re.findall(r"<img\b[^>]*?\balt=\"([^\"]*)\"", "\n".join(chapter.markdown))
    alts += [_alt(cell) for cell, _ in _figures(chapter)]
    pictures = "\n".join(chapter.markdown).count("<img")
    faults = [f"two pictures have the alt text {alt!r}" for alt in alts if alts.count(alt) > 1]
    if "" in alts or pictures > len(re.findall(r"<img\b[^>]*?\balt=", "\n".join(chapter.markdown))):
        faults.append("a picture in the text has no alt text")
    return faults


def _first(cell):
    return f"the cell `{cell.source.splitlines()[0]}`"


def interactive(chapter):
    """A figure that moves, and beside it one that stands still, for readers without scripts."""
    section, still, moving = None, set(), set()
    for cell in chapter.executed:
        if cell.cell_type == "markdown":
            found = [heading[2] for _, heading in _lines(cell.source) if heading]
            section = found[-1] if found else section
        elif _pictures(cell):
            still.add(section)
        elif any("lumen-widget" in _html(output) for output in cell.outputs):
            moving.add(section)
    if not moving:
        return ["at least one interactive figure, by `widget(…)`"]
    return [f"no still figure beside the one that moves in {name!r}" for name in moving - still]


def _html(output):
    return output.get("data", {}).get("text/html", "")


def experiments(chapter):
    pieces = [piece for piece in chapter.pieces if piece.h2 == "What breaks" and piece.h3]
    run = {piece.h3 for piece in pieces if piece.cell.cell_type == "code"}
    faults = [] if len(run) >= 2 else [f"two experiments under What breaks, not {len(run)}"]
    idle = [name for name in {piece.h3 for piece in pieces} if name not in run]
    return faults + [f"the experiment {name!r} has no code" for name in idle]


def bound_numbers(chapter):
    count = len(re.findall(r"<!--=\w+-->", "\n".join(chapter.markdown)))
    return [] if count >= 15 else [f"fifteen bound numbers at least, not {count}"]


def own_code(chapter):
    shown = any(re.search(r"\bsource\(", code) for code in chapter.code("In code"))
    return [] if shown else ["a cell of In code must show the package's own code by `source(…)`"]


def oracle(chapter):
    code = "\n".join(chapter.code("In code"))
    return (
        [] if re.search(r"\bnn\.\w|\bF\.\w", code) else ["In code must set ours against torch.nn"]
    )


DIALECT = {
    r":::": "a colon fence",
    r"\([\w-]+\)=\s*$": "a target",
    r"\s*>\s*\[!": "a GitHub callout; write > **Note.** …",
    r"\$\$\s*\([\w:-]+\)\s*$": "a label of an equation; write \\tag{…} inside",
}


def plain_markdown(chapter):
    """Nothing that Colab or GitHub would show raw."""
    faults = []
    for source in chapter.markdown:
        for token in MARKDOWN.parse(source):
            if token.type == "fence" and token.info.strip().startswith(("{", "mermaid")):
                faults.append(f"```{token.info.strip()} is a directive")
            for before, after in zip(
                token.children or [], (token.children or [])[1:], strict=False
            ):
                role = re.search(r"\{[\w:+-]+\}$", before.content)
                if before.type == "text" and after.type == "code_inline" and role:
                    faults.append(f"{role[0]}`{after.content}` is a role")
        faults += [
            f"`{line.strip()}` is {what}"
            for line in _outside_fences(source)
            for pattern, what in DIALECT.items()
            if re.match(pattern, line)
        ]
    return faults


def _outside_fences(source):
    lines = source.split("\n")
    for token in MARKDOWN.parse(source):
        if token.type == "fence":
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
    return lines


def clean_blanks(chapter):
    faults = []
    for number, line in enumerate(chapter.raw.split("\n"), 1):
        if line != line.rstrip():
            faults.append(f"line {number} ends in blanks")
        if "\t" in line or "\u00a0" in line:
            faults.append(f"line {number} holds a tab or a hard space")
    if not chapter.raw.endswith("\n") or chapter.raw.endswith("\n\n"):
        faults.append("the file must end in one newline")
    for cell in chapter.cells:
        if cell.source != cell.source.strip():
            faults.append(f"a cell starts or ends in blanks: {cell.source.strip()[:40]!r}")
    return faults


def code_width(chapter):
    code = (cell.source for cell in chapter.cells if cell.cell_type == "code")
    lines = (line for source in code for line in source.split("\n"))
    return [f"{len(line)} characters: {line}" for line in lines if len(line) > 76]


def links(chapter):
    faults = []
    for target in (target for source in chapter.markdown for target in _links(source)):
        if why := _dead(chapter, unquote(target)):
            faults.append(f"({target}): {why}")
    return faults


def _links(source):
    html = [token.content for token in _tokens(source) if token.type.startswith("html_")]
    found = [token.attrGet("href") for token in _tokens(source) if token.type == "link_open"]
    return found + re.findall(r"href=\"([^\"]*)\"", "\n".join(html))


def _dead(chapter, target):
    """Why a link leads nowhere; None if it leads somewhere."""
    if re.match(r"[a-z]+:", target):
        return None if target.startswith("https://") else "wanted https"
    name, _, anchor = target.partition("#")
    path = (chapter.path.parent / name).resolve() if name else chapter.path
    text = path.with_suffix(".md")
    if path.suffix not in (".ipynb", ".md") or not text.exists():
        return None if path.exists() and not anchor else "there is no such page"
    if path.suffix == ".md" and name and re.match(r"\d", path.name):
        return "a chapter is linked as .ipynb"
    if text.name == "sources.md":
        known = keys(chapter.root / "references.bib")
        return None if not anchor or anchor in known else "no such key in references.bib"
    return None if not anchor or anchor in anchors(text) else f"{text.name} has no such heading"


@cache
def keys(path):
    return set(re.findall(r"^@\w+\{\s*([^,\s]+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def anchors(path):
    """What can be linked on a page: headings to the third level, and a page's own targets."""
    source = path.read_text(encoding="utf-8")
    source = re.sub(r"\A---\n.*?\n---\n", "", source, flags=re.DOTALL)
    found = set(re.findall(r"^\(([\w-]+)\)=$", source, re.MULTILINE))
    tokens = MARKDOWN.parse(source)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.tag in ("h1", "h2", "h3"):
            words = [c.content for c in inline.children if c.type in ("text", "code_inline")]
            slug = unique = default_slugify("".join(words))
            count = 1
            while unique in found:
                unique = f"{slug}-{count}"
                count += 1
            found.add(unique)
    return found


EVERYWHERE = [one_title, plain_markdown, clean_blanks, code_width, links]
CHAPTERS_ONLY = [
    anatomy,
    title_block,
    run_time,
    questions,
    graded_set,
    figures,
    one_figure_a_cell,
    alt_texts,
    captions,
    different_alts,
    interactive,
    experiments,
    bound_numbers,
    own_code,
    oracle,
]


# The book


def names(folder):
    return [path.relative_to(ROOT).as_posix() for path in notebooks.sources(ROOT, [folder])]


@cache
def loaded(name):
    return load(ROOT / name, ROOT)


def test_there_is_a_chapter():
    assert names("chapters")


def test_texts_and_notebooks_agree():
    found = notebooks.check(ROOT)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("rule", CHAPTERS_ONLY + EVERYWHERE, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", names("chapters"))
def test_chapter(name, rule):
    found = rule(loaded(name))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", names("exercises"))
def test_exercise(name, rule):
    found = rule(loaded(name))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", names("exercises"))
def test_an_exercise_keeps_its_solutions(name):
    source = (ROOT / name).read_text(encoding="utf-8")
    assert len(exercises.solutions(source)) >= 3
    executed = nbformat.read(str((ROOT / name).with_suffix(".ipynb")), as_version=4)
    assert exercises.leaks(source, executed) == []


@pytest.mark.parametrize("name", names("chapters") + names("exercises"))
def test_every_chapter_has_its_exercises_and_they_have_their_chapter(name):
    other = {"chapters": "exercises", "exercises": "chapters"}[Path(name).parent.name]
    assert (ROOT / other / Path(name).name).exists()


# The rules bite

QUESTION = """\
**1.** Why?

<details>
<summary>Answer</summary>

Because.

</details>
"""

GOOD = """\
---
kernelspec: {display_name: Python 3, language: python, name: python3}
lumen:
  seconds: 25
---

# Tiny

A promise in
one sentence.

**Needs** nothing.

+++

## The bet

See [below](#what-breaks) and [the mean](01_tiny.ipynb#the-mean--of-three).

## The mechanism

### The *mean* $x_i$ of `three`

```{code-cell}
:mystnb: {image: {alt: a curve that falls}}
draw(1)
```

*Figure 1.1. It falls, more than
you think.*

![a hand-drawn tree](../_static/tree.svg)

```{code-cell}
widget(1)
```

NUMBERS, as [He](sources.md#he2015) and [others](https://example.org/a) say. Braces: `{x}`.

```text
:::
# no heading
```

## Worked by hand

```{code-cell}
:mystnb: {image: {alt: a curve that rises}}
draw(2)
```

**Figure 1.2.** It rises.

## In code

```{code-cell}
source(Linear)
```

```{code-cell}
from torch import nn
nn.Linear(1, 1)
```

## The cost

Words.

## What breaks

Words.

### First

```{code-cell}
:mystnb: {image: {alt: a curve that stays}}
draw(3)
```

*Figure 1.3. It stays.*

### Second

```{code-cell}
print(1)
```

## Kin

Words.

## The bet, settled

Words.

## Questions

QUESTIONS

Then [the graded set](../exercises/01_tiny.ipynb).

## Sources

- [He](sources.md#he2015)
"""
GOOD = GOOD.replace("NUMBERS", " ".join(f"{n}<!--=x_{n}-->" for n in range(15)))
GOOD = GOOD.replace("QUESTIONS\n", "\n".join([QUESTION] * 5))

SHOWN = {
    "draw": [{"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}],
    "twice": [{"image/png": "iVBORw0KGgo="}, {"image/svg+xml": "<svg></svg>"}],
    "widget": [{"text/html": '<div class="lumen-widget"></div>'}],
}


def planted(root, text):
    """A chapter as if it had been run: cells show what their first word promises."""
    files = {
        "_config.yml": "repository: {url: https://github.com/owner/book, branch: main}\n",
        "references.bib": "@article{he2015,\n  title={Deep}\n}\n",
        "_static/tree.svg": "<svg></svg>",
        "chapters/sources.md": "# Sources\n",
        "chapters/notation.md": "# Notation\n\n(masks-true)=\n## Masks\n",
        "chapters/01_tiny.md": text,
        "exercises/01_tiny.md": "# Set\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode())
    path = root / "chapters/01_tiny.md"
    notebook = jupytext.reads(text, fmt="md:myst")
    for cell in notebook.cells:
        shown = SHOWN.get(cell.source.split("(")[0])
        if cell.cell_type == "code" and shown:
            cell.outputs = [nbformat.v4.new_output("display_data", data=data) for data in shown]
    path.with_suffix(".ipynb").write_text(nbformat.v4.writes(notebook), encoding="utf-8")
    return load(path, root)


@pytest.mark.parametrize("rule", CHAPTERS_ONLY + EVERYWHERE, ids=lambda rule: rule.__name__)
def test_a_good_chapter_breaks_no_rule(tmp_path, rule):
    assert rule(planted(tmp_path, GOOD)) == []


FAULTS = [
    (anatomy, "## The cost\n\nWords.\n\n", ""),
    (anatomy, "## Kin", "## Kith"),
    (anatomy, "## Kin", "## More\n\n## Kin"),
    (anatomy, "## The bet\n", "Hello.\n\n## The bet\n"),
    (title_block, "A promise in\none sentence.\n\n", ""),
    (title_block, "one sentence.\n", "one sentence.\n\nAnd another.\n"),
    (title_block, "**Needs** nothing.\n", ""),
    (one_title, "## Kin", "# Kin"),
    (run_time, "seconds: 25", "seconds: 26"),
    (questions, QUESTION + "\n", ""),
    (questions, QUESTION, "\n".join([QUESTION] * 5)),
    (questions, "</summary>\n\nBecause", "</summary>\nBecause"),
    (questions, "<summary>Answer</summary>\n", ""),
    (questions, "Because.\n\n", ""),
    (questions, "Because.\n\n</details>\n", "Because.\n"),
    (graded_set, "../exercises/01_tiny", "../exercises/02_other"),
    (graded_set, "[the graded set](../exercises/01_tiny.ipynb)", "`../exercises/01_tiny.ipynb`"),
    (figures, "draw(3)", "print(3)"),
    (one_figure_a_cell, "draw(3)", "twice(3)"),
    (alt_texts, ":mystnb: {image: {alt: a curve that stays}}\n", ""),
    (alt_texts, "a curve that stays", "plot"),
    (captions, "*Figure 1.3. It stays.*", "It stays."),
    (captions, "*Figure 1.3. It stays.*\n", "Words.\n\n*Figure 1.3. It stays.*\n"),
    (different_alts, "a curve that rises", "a curve that falls"),
    (different_alts, "a hand-drawn tree", "a curve that falls"),
    (different_alts, "![a hand-drawn tree]", "![]"),
    (different_alts, "![a hand-drawn tree](../_static/tree.svg)", '<img src="../_static/a.svg">'),
    (interactive, "widget(1)", "print(1)"),
    (interactive, "```{code-cell}\nwidget(1)\n```", "## Kin\n\n```{code-cell}\nwidget(1)\n```"),
    (experiments, "### Second\n\n", ""),
    (experiments, "### Second\n\n", "### Second\n\nWords.\n\n### Third\n\n"),
    (bound_numbers, "<!--=x_7-->", ""),
    (own_code, "source(Linear)", "print(Linear)"),
    (own_code, "source(Linear)", "resource(Linear)"),
    (own_code, "## In code\n\n", "## In code\n\nWords.\n\n## The mechanism\n\n"),
    (oracle, "from torch import nn\nnn.Linear(1, 1)", "print(1)"),
    (plain_markdown, "He](sources.md#he2015) and", "He](sources.md#he2015) {cite}`he2015` and"),
    (plain_markdown, "```text", "```{note}"),
    (plain_markdown, "```text", "```mermaid"),
    (plain_markdown, "## Kin\n\nWords.", "## Kin\n\n:::{tip}\nWords.\n:::"),
    (plain_markdown, "## Kin\n", "(kin)=\n## Kin\n"),
    (plain_markdown, "## Kin\n", "## Kin\n\n> [!NOTE]\n> Words.\n"),
    (plain_markdown, "## Kin\n", "## Kin\n\n$$\nx\n$$ (eq-x)\n"),
    (clean_blanks, "A promise in\n", "A promise in  \n"),
    (clean_blanks, "A promise in\n", "A\tpromise in\n"),
    (clean_blanks, "A promise in\n", "A\u00a0promise in\n"),
    (clean_blanks, "A promise in\n", "A promise in\r\n"),
    (clean_blanks, "print(1)\n", "  \n\nprint(1)\n"),
    (clean_blanks, GOOD, GOOD + "\n"),
    (clean_blanks, GOOD, GOOD.rstrip("\n")),
    (code_width, "source(Linear)", "source(Linear)" + "  # long" * 9),
    (links, "#what-breaks", "#what-holds"),
    (links, "01_tiny.ipynb#the-mean--of-three", "01_tiny.ipynb#the-median"),
    (links, "01_tiny.ipynb#the-mean--of-three", "02_next.ipynb"),
    (links, "01_tiny.ipynb#the-mean--of-three", "01_tiny.md"),
    (links, "01_tiny.ipynb#the-mean--of-three", "notation.md#units"),
    (links, "01_tiny.ipynb#the-mean--of-three", "missing.md"),
    (links, "sources.md#he2015) and", "sources.md#he2016) and"),
    (links, "https://example.org/a", "http://example.org/a"),
    (links, "[others](https://example.org/a)", '<a href="missing.md">others</a>'),
]


@pytest.mark.parametrize(("rule", "old", "new"), FAULTS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_planted_fault_is_found(tmp_path, rule, old, new):
    assert old in GOOD
    assert rule(planted(tmp_path, GOOD.replace(old, new, 1))) != []


def test_the_faults_cover_every_rule():
    assert {rule for rule, _, _ in FAULTS} == set(CHAPTERS_ONLY + EVERYWHERE)


def test_links_to_other_pages_and_their_headings_resolve(tmp_path):
    for target in ("notation.md#masks", "notation.md#masks-true", "notation.md", "sources.md"):
        chapter = planted(tmp_path, GOOD.replace("01_tiny.ipynb#the-mean--of-three", target))
        assert links(chapter) == []


def test_the_paragraphs_that_are_searched_are_the_front_pages():
    front = (ROOT / "intro.md").read_text(encoding="utf-8").split("```{lumen-tree}")[0]
    text = (ROOT / "chapters" / "16_encoders.md").read_text(encoding="utf-8")
    paragraphs = text.split('book = """\n')[1].split('\n"""')[0].split("\n\n")
    bets = re.findall(r"^ +bet: (.*)\n +fails: (.*)$", front, re.MULTILINE)
    assert [" ".join(p.split()) for p in paragraphs] == [f"{bet} {fails}" for bet, fails in bets]
