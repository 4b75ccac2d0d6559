"""The site's extension, on small books that are built with the book's own settings."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lumen.book import palette
from tools import sphinx_lumen
from tools.pages import assets

ROOT = Path(__file__).resolve().parents[1]
HOME = ("https://github.com/lumen-book/lumen", "main")
FORK = ("https://github.com/some.one/else-where", "dev")

TOC = "format: jb-book\nroot: intro\nchapters:\n- file: chapters/page\n- file: chapters/sources\n"
INTRO = """# Front

[to the page](chapters/page.ipynb), which counts 150,528<!--=chapters/page:n_inputs-->,
some ~151,000<!--=chapters/page:n_inputs-->.

```{lumen-map}
legend: What the circles mean.
parts:
  - part: A part
    chapters:
      - {number: "01", name: Written, file: chapters/page, glyph: dense, bet: "a < b", fails: F}
      - {number: "02", name: Unwritten, file: chapters/none, glyph: dense, bet: B, fails: breaks}
```

```{lumen-tree}
question: What is it?
answers:
  - {answer: A thing., name: Written, file: chapters/page, bet: B, fails: F}
  - answer: Another.
    question: Which?
    answers:
      - {answer: That one., name: Unwritten, file: chapters/none, bet: B, fails: F}
```
"""

CALLOUTS = """# Page

> **Note.** A word with $x$.

> **Trap.** One.
>
> Two.

> **Key idea.**
>
> Alone.

> **Error in the sources.** They say so.

> **Note** without a stop is a quotation.

> Plain quotation.
"""

NUMBERS = """## Numbers

The price is 150,528<!--=n_inputs-->, about ~84,000×<!--=ratio--> or $0.84$<!--=factor-->, and
**7.5 %**<!--=share-->; *it falls to 0.0002*<!--=small-->, or −0.5<!--=minus-->.
All: $(0.25,\\ 0.75)$<!--=weights-->, (0.25, 0.75)<!--=weights-->.

$$(0.25,\\ 0.75)$$<!--=weights-->

$$
\\begin{pmatrix} a \\\\ b \\end{pmatrix} \\tag{1.1}
$$

| what | size |
|---|---|
| inputs | 150,528<!--=n_inputs--> |
| factor | $0.84$<!--=factor--> |

AlexNet has about 60 million<!--@krizhevsky2012--> weights, and
[this paper](sources.md#vaswani2017) has none. Open it
[in Colab](https://colab.research.google.com/github/lumen-book/lumen/blob/main/chapters/page.ipynb),
or see [the repository](https://github.com/lumen-book/lumen) and
[a file](https://github.com/lumen-book/lumen/blob/main/Makefile).

**Needs** a head.

**Sum**: $s$: **so** it is. *Here*, $t$, $u$; **there**: $v$.

**Figure 1.1.** A caption.
"""

FACTS = """n_inputs = 150,528
a line between
ratio = 84,000.6
factor = 0.84
share = 0.0748
"""


def code(source, printed, **metadata):
    outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
    return new_code_cell(source, outputs=outputs, execution_count=1, metadata=metadata)


def notebook(*cells):
    book = new_notebook(cells=list(cells))
    book.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    return nbformat.writes(book)


GOOD = notebook(
    new_markdown_cell(CALLOUTS),
    code("import lumen", None, tags=["remove-cell"]),
    new_markdown_cell(NUMBERS),
    code("facts(n_inputs=n_inputs, ratio=ratio, factor=factor, share=share)", FACTS),
    code("facts(small=small, minus=minus)", "small = 0.0002\nminus = -0.5\n", tags=["hide-input"]),
    code("facts(weights=weights)", "weights = (0.25, 0.75)\n", tags=["hide-cell"]),
)
BAD = notebook(
    new_markdown_cell(
        "# Page\n\n1<!--=unknown--> 2<!--=removed--> word<!--=n--> 3<!--@nobody1900-->\n\n"
        "[nowhere](nowhere.md) [gone](sources.md#nobody1900)"
    ),
    code("facts(removed=2)", "removed = 2\n", tags=["remove-cell"]),
    code("facts(n=1)", "n = 1\n"),
)


def build(folder, page, doctrees, intro=INTRO, **environment):
    """Build a book of three pages as ``make book`` does; the finished process."""
    (folder / "chapters").mkdir(parents=True)
    for name in ("_config.yml", "references.bib", "_static", "tools", "lumen"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "_toc.yml").write_text(TOC, encoding="utf-8")
    (folder / "intro.md").write_text(intro, encoding="utf-8")
    (folder / "chapters/page.ipynb").write_text(page, encoding="utf-8")
    (folder / "chapters/sources.md").symlink_to(ROOT / "chapters/sources.md")
    (folder / "_build").mkdir()
    (folder / "_build/.doctrees").symlink_to(doctrees)
    return make(folder, **environment)


def make(folder, **environment):
    command = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    own = {name: value for name, value in os.environ.items() if not name.startswith("BOOK_")}
    return subprocess.run(
        [sys.executable, "-c", command, "build", str(folder), "-W", "-n", "--keep-going"],
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def read(folder, page):
    text = (folder / f"_build/html/{page}.html").read_text(encoding="utf-8")
    return BeautifulSoup(text, "html.parser")


@pytest.fixture(scope="module")
def doctrees(tmp_path_factory):
    return tmp_path_factory.mktemp("doctrees")


@pytest.fixture(scope="module")
def book(tmp_path_factory, doctrees):
    folder = tmp_path_factory.mktemp("book")
    done = build(folder, GOOD, doctrees)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def page(book):
    return read(book, "chapters/page")


def test_each_kind_of_block_quote_becomes_its_callout(page):
    kinds = {"note", "trap", "key", "erratum"}
    boxes = {(set(box["class"]) & kinds).pop(): box for box in page.select("div.admonition")}
    assert set(boxes) == kinds
    titles = {kind: box.select_one(".admonition-title").text for kind, box in boxes.items()}
    assert titles == {
        "note": "Note",
        "trap": "Trap",
        "key": "Key idea",
        "erratum": "Error in the sources",
    }
    assert [p.text for p in boxes["trap"].select("p")] == ["Trap", "One.", "Two."]
    assert [p.text for p in boxes["key"].select("p")] == ["Key idea", "Alone."]
    assert boxes["note"].select("p")[1].text.startswith("A word with")


def test_other_block_quotes_stay_what_they_are(page):
    quotes = [quote.text.strip() for quote in page.select("blockquote")]
    assert quotes == ["Note without a stop is a quotation.", "Plain quotation."]


def test_a_bound_number_links_to_the_line_that_printed_it(page):
    link = page.select_one("a.bound")
    assert link.text == "150,528"
    assert link["href"] == "#fact-n_inputs"
    assert link["title"] == "n_inputs = 150,528"
    assert link.attrs.keys() == {"class", "href", "title"}
    line = page.select_one("#fact-n_inputs")
    assert line.text == "n_inputs = 150,528"
    assert line.find_parent("pre") and line.find_parent(class_="cell_output")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ratio", "~84,000×"),
        ("factor", r"\(0.84\)"),
        ("share", "7.5 %"),
        ("small", "0.0002"),
        ("minus", "−0.5"),
        ("weights", r"\((0.25,\ 0.75)\)"),
    ],
)
def test_the_link_holds_the_number_with_all_that_belongs_to_it(page, name, shown):
    link = page.select_one(f'a.bound[href="#fact-{name}"]')
    assert link.text == shown
    assert link["title"].startswith(f"{name} = ")
    assert len(page.select(f"#fact-{name}")) == 1


def test_markup_around_a_number_stays_outside_or_goes_along(page):
    assert page.select_one('a[href="#fact-share"] > strong').text == "7.5 %"
    assert page.select_one('em:has(a[href="#fact-small"])').text == "it falls to 0.0002"


def test_tuples_and_displayed_formulas_are_bound_whole(page):
    shown = [link.text.strip() for link in page.select('a.bound[href="#fact-weights"]')]
    assert shown == [r"\((0.25,\ 0.75)\)", "(0.25, 0.75)", r"\[(0.25,\ 0.75)\]"]


def test_formulas_are_set_as_written_and_keep_their_stop(page):
    (matrix,) = (box for box in page.select("div.math") if "pmatrix" in box.text)
    assert matrix.text.strip().startswith(r"\[") and "split" not in matrix.text
    kept = [pair.text for pair in page.select(".together")][:3]
    assert kept == [r"\(x\).", r"\(0.84\),", r"\((0.25,\ 0.75)\),"]


def test_a_stop_that_stands_before_a_formula_too_is_neither_lost_nor_doubled(page):
    (line,) = (p.text for p in page.select("p") if p.text.startswith("Sum"))
    assert line == r"Sum: \(s\): so it is. Here, \(t\), \(u\); there: \(v\)."


def test_numbers_in_tables_are_bound(page):
    assert [link.text for link in page.select("td a.bound")] == ["150,528", r"\(0.84\)"]


def test_no_comment_is_left_and_outputs_read_as_printed(page):
    assert "<!--=" not in str(page) and "<!--@" not in str(page)
    assert page.select_one("#fact-n_inputs").find_parent("pre").text == FACTS


def test_folded_cells_keep_their_lines(page):
    assert page.select_one("#fact-small").find_parent("details") is None
    assert page.select_one("#fact-weights").find_parent("details") is not None


def test_another_page_may_quote_a_number_in_full_or_rounded(book):
    links = read(book, "intro").select("a.bound")
    assert [link.text for link in links] == ["150,528", "~151,000"]
    for link in links:
        assert link["href"] == "chapters/page.html#fact-n_inputs"
        assert link["title"] == "n_inputs = 150,528"


def test_a_cited_number_links_to_its_source(book, page):
    link = page.select_one("a.cited")
    assert link.text == "60 million"
    assert link["href"] == "sources.html#krizhevsky2012"
    assert link["title"] == "Krizhevsky et al., 2012"
    assert "ImageNet" in read(book, "chapters/sources").select_one("#krizhevsky2012").text


def test_a_plain_link_to_a_source_finds_it(book, page):
    (link,) = (link for link in page.select("a") if link.text == "this paper")
    assert link["href"] == "sources.html#vaswani2017"
    entry = read(book, "chapters/sources").select_one("li#vaswani2017")
    assert entry.text.strip().startswith("Vaswani et al., 2017. Attention Is All You Need.")
    assert entry.select_one("a")["href"] == "https://arxiv.org/abs/1706.03762"


def test_needs_and_captions_are_marked(page):
    assert page.select_one("p.chapter-facts").text == "Needs a head."
    assert page.select_one("p.figure-caption").text == "Figure 1.1. A caption."


def test_the_map_links_what_is_out_and_says_what_is_not(book):
    front = read(book, "intro")
    written, unwritten = front.select(".map-stop")
    assert written.select_one(".map-name a")["href"] == "chapters/page.html"
    assert "is-out" in written["class"] and "is-out" not in unwritten["class"]
    assert unwritten.select_one("a") is None
    assert unwritten.select_one(".map-name").text == "Unwritten (not yet out)"
    assert written.select_one(".map-bet").text == "a < b"
    for use in front.select(".map-stop use"):
        assert front.select_one(f"symbol{use['href']}") is not None


def test_the_tree_is_nested_lists(book):
    tree = read(book, "intro").select_one(".lumen-tree")
    assert [p.text for p in tree.select(".tree-question")] == ["What is it?", "Which?"]
    assert tree.select_one("ul ul .tree-layer").text == "Unwritten (not yet out)"
    assert tree.select_one("ul > li .tree-layer a")["href"] == "chapters/page.html"


def test_the_words_of_the_map_are_found_by_the_search(book):
    index = (book / "_build/html/searchindex.js").read_text(encoding="utf-8")
    assert re.search(r'"?unwritten"?:', index)


def test_no_page_loads_anything_from_a_host(book):
    for file in (book / "_build/html").rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        loaded = re.findall(
            r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="(https?:[^"]+)', text
        )
        assert not loaded, f"{file.name} loads {loaded}"
        assert not re.search(r"unpkg|jsdelivr|cdnjs|thebe|fontawesome\.js", text), file.name


def test_the_site_is_light(book):
    static = book / "_build/html/_static"
    weights = {file.name: file.stat().st_size for file in static.rglob("*.*") if file.is_file()}
    assert sum(weights.values()) < 4_500_000, sorted(weights.items(), key=lambda item: -item[1])[:9]
    assert not {"fontawesome.js", "sphinx-thebe.js", "togglebutton.js"} & weights.keys()


def test_the_stylesheet_of_colours_is_the_palette(book):
    css = (book / "_build/html/_static/palette.css").read_text(encoding="utf-8")
    light, dark = css.split('html[data-theme="dark"]')
    for text, colours in ((light, palette.LIGHT), (dark, palette.DARK)):
        assert dict(re.findall(r"--lumen-(\w+): (#\w+);", text)) == colours


def test_mathematics_and_letters_come_along_with_their_licence(book):
    static = book / "_build/html/_static"
    assert (static / "mathjax/tex-chtml.js").stat().st_size > 1_000_000
    assert len(list((static / "mathjax/output/chtml/fonts/woff-v2").glob("*.woff"))) > 20
    assert sum(file.stat().st_size for file in (static / "mathjax").rglob("*.*")) < 2_000_000
    css = (static / "fonts/fonts.css").read_text(encoding="utf-8")
    named = re.findall(r'url\("([^"]+)"\)', css)
    assert len(named) == len(assets.FACES)
    assert all((static / "fonts" / name).exists() for name in named)
    assert "SIL OPEN FONT LICENSE" in (static / "fonts/lumen-serif-licence.txt").read_text()


def test_cut_fonts_do_not_carry_the_reserved_name(book):
    from fontTools.ttLib import TTFont

    for file in (book / "_build/html/_static/fonts").glob("*.woff"):
        with TTFont(file) as font:
            names = {r.nameID: r.toUnicode() for r in font["name"].names if r.nameID in (1, 4, 6)}
            assert set(names) == {1, 4, 6}
            assert all(name.startswith("Lumen") for name in names.values()), names
            assert {ord(letter) for letter in "Aé×−√"} <= font.getBestCmap().keys()


def test_what_has_not_changed_is_not_built_again(book):
    page = book / "_build/html/chapters/page.html"
    before = page.stat().st_mtime_ns
    done = make(book)
    assert done.returncode == 0 and page.stat().st_mtime_ns == before
    signature = (book / "_build/html/built-from.txt").read_text(encoding="utf-8").strip()
    assert signature == sphinx_lumen.built_from(book)


def test_links_to_the_repository_follow_the_environment(tmp_path, doctrees):
    place = {"BOOK_REPOSITORY_URL": FORK[0] + ".git", "BOOK_REPOSITORY_BRANCH": FORK[1]}
    done = build(tmp_path, GOOD, doctrees, **place)
    assert done.returncode == 0, done.stdout + done.stderr
    links = {link["href"] for link in read(tmp_path, "chapters/page").select("a[href]")}
    colab = (
        "https://colab.research.google.com/github/some.one/else-where/blob/dev/chapters/page.ipynb"
    )
    assert {colab, FORK[0], f"{FORK[0]}/blob/dev/Makefile"} <= links
    assert not [link for link in links if "lumen-book" in link]
    buttons = read(tmp_path, "chapters/page").select(".article-header-buttons a")
    assert {colab, FORK[0]} <= {button["href"] for button in buttons}


def test_what_leads_nowhere_fails_the_build_and_is_named(tmp_path, doctrees):
    done = build(tmp_path, BAD, doctrees)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for message in (
        "no cell of this page prints the fact unknown",
        "the page does not show the cell that prints removed",
        "<!--=n--> binds nothing",
        "references.bib has no entry nobody1900",
        "nowhere.md",
        "local id not found in doc 'chapters/sources': 'nobody1900'",
    ):
        assert message in said, message
    assert not (tmp_path / "_build/html/built-from.txt").exists()
    again = make(tmp_path)
    assert again.returncode != 0 and "fact unknown" in again.stdout + again.stderr


def test_quotations_that_are_wrong_fail_the_build(tmp_path, doctrees):
    wrong = {
        "150,528<!--=chapters/page:none-->": "chapters/page prints no fact none",
        "150,528<!--=chapters/none:n_inputs-->": "chapters/none prints no fact n_inputs",
        "150,000<!--=chapters/page:n_inputs-->": "150,000 is bound to n_inputs, which is 150,528",
        "$150{,}000$<!--=chapters/page:n_inputs-->": "150{,}000 is bound to n_inputs, which is",
    }
    done = build(tmp_path, GOOD, doctrees, intro="# Front\n\n" + "\n\n".join(wrong))
    assert done.returncode != 0
    for message in wrong.values():
        assert message in done.stdout + done.stderr


def test_a_map_that_is_not_yaml_fails_the_build(tmp_path, doctrees):
    done = build(tmp_path, GOOD, doctrees, intro="# Front\n\n```{lumen-map}\n{a: [\n```\n")
    assert done.returncode != 0
    assert "lumen-map is not YAML" in done.stdout + done.stderr


def test_a_repository_elsewhere_than_github_is_refused(tmp_path, doctrees):
    done = build(tmp_path, GOOD, doctrees, BOOK_REPOSITORY_URL="https://example.org/a/b")
    assert done.returncode != 0
    assert "https://github.com/OWNER/NAME" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, HOME),
        ({"BOOK_REPOSITORY_URL": "", "BOOK_REPOSITORY_BRANCH": ""}, HOME),
        ({"BOOK_REPOSITORY_URL": FORK[0] + "/"}, (FORK[0], "main")),
        ({"BOOK_REPOSITORY_BRANCH": "dev"}, (HOME[0], "dev")),
    ],
)
def test_the_environment_wins_where_it_speaks(environment, wanted):
    assert sphinx_lumen.repository(HOME, environment) == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HOME[0], FORK[0]),
        (f"{HOME[0]}/issues", f"{FORK[0]}/issues"),
        (f"{HOME[0]}/tree/main/lumen", f"{FORK[0]}/tree/dev/lumen"),
        (f"{HOME[0]}/tree/maintenance", f"{FORK[0]}/tree/maintenance"),
        (f"{HOME[0]}-two/blob/main/a", f"{HOME[0]}-two/blob/main/a"),
        (f"git+{HOME[0]}", f"git+{FORK[0]}"),
        ("https://github.com/pytorch/pytorch", "https://github.com/pytorch/pytorch"),
    ],
)
def test_only_addresses_of_the_repository_change(before, after):
    assert sphinx_lumen.follow(before, HOME, FORK) == after
    assert sphinx_lumen.follow(before, HOME, HOME) == before


def test_a_digest_changes_with_content_and_with_names(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    first = assets.digest(tmp_path, ["*.txt"])
    assert assets.digest(tmp_path, ["*.txt"]) == first
    (tmp_path / "b.md").write_text("not counted")
    assert assets.digest(tmp_path, ["*.txt"]) == first
    (tmp_path / "a.txt").write_text("two")
    second = assets.digest(tmp_path, ["*.txt"])
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    assert len({first, second, assets.digest(tmp_path, ["*.txt"])}) == 3
