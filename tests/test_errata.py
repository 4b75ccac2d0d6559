"""What is often said, and what is true: all rows are there, and each leads to what shows it."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests import test_chapters

anchors = cache(test_chapters.anchors)
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "chapters" / "errata.md"
IDS = {f"{n:02}" for n in range(1, 58)} | {f"E{n:02}" for n in range(1, 81)}
ROW = re.compile(r"- \*\*(?P<said>.+?)\*\* (?P<truth>.+?) `(?P<id>E?\d\d)`")
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)#([^)]+)\)")


def lines_of(text):
    return [line for line in text.splitlines() if line.startswith("- ")]


def faults(text, root=ROOT):
    """What is wrong with the rows of the page."""
    rows = [(line, ROW.fullmatch(line)) for line in lines_of(text)]
    found = [f"no row: {line[:60]}" for line, row in rows if row is None]
    rows = [row for _, row in rows if row]
    ids = [row["id"] for row in rows]
    found += [f"{name} is missing" for name in sorted(IDS - set(ids))]
    found += [f"{name} stands there twice" for name in sorted({n for n in ids if ids.count(n) > 1})]
    for row in rows:
        if re.sub(r"<!--.*?-->", "", row["said"])[-1] not in ".?":
            found.append(f"{row['id']}: what is said is no sentence")
        found += [f"{row['id']}: {why}" for why in leads(row["truth"], root)]
    return found


def leads(truth, root):
    """Why a row does not lead to a heading of a chapter, or to literature that it names so."""
    links = LINK.findall(truth)
    shown = [(page, anchor) for page, anchor in links if page.endswith(".ipynb")]
    cited = [anchor for page, anchor in links if page == "sources.md"]
    for page, anchor in shown:
        text = (root / "chapters" / page).with_suffix(".md")
        if not text.exists() or anchor not in anchors(text):
            yield f"{page}#{anchor} leads nowhere"
    for key in cited:
        if key not in test_chapters.keys(root / "references.bib"):
            yield f"references.bib has no {key}"
    if bool(cited) != ("Literature" in truth):
        yield "literature is cited and not named, or named and not cited"
    if not shown and not cited:
        yield "leads to no chapter"


def test_all_rows_are_there_and_lead_somewhere():
    found = faults(PAGE.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


def test_rows_stand_under_the_chapter_that_shows_them():
    """A heading names a chapter, and each row below leads to it, in the order of the book."""
    titles = {}
    for path in sorted((ROOT / "chapters").glob("[0-9]*.md")):
        titles[re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.M)[1]] = path.stem
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    headings = [section.splitlines()[0] for section in sections]
    assert headings == [title for title in titles if title in headings]
    for heading, section in zip(headings, sections, strict=True):
        for line in lines_of(section):
            assert f"({titles[heading]}.ipynb" in line, line


GOOD = next(line for line in lines_of(PAGE.read_text(encoding="utf-8")) if line.endswith("`E78`"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("`E78`", "`E77`", "E78 is missing"),
        ("`E78`", "`E77`", "E77 stands there twice"),
        (" `E78`", "", "no row: - **A dense layer"),
        ("nothing.**", "nothing**", "E78: what is said is no sentence"),
        ("#what-it", "#how-it", "E78: 03_dense.ipynb#how-it-does-not-assume leads nowhere"),
        ("](03_dense.ipynb#what-it-does-not-assume)", "]", "E78: leads to no chapter"),
        ("Nothing about", "Literature says nothing about", "E78: literature is cited and not"),
        (" `E78`", " [x](sources.md#nobody1900) `E78`", "references.bib has no nobody1900"),
    ],
)
def test_a_fault_is_found(old, new, said):
    text = PAGE.read_text(encoding="utf-8")
    assert GOOD.count(old) == 1
    found = "\n".join(faults(text.replace(GOOD, GOOD.replace(old, new))))
    assert said in found
