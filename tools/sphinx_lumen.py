"""The site's own Sphinx extension: what a chapter's plain Markdown means on the site.

Chapters hold plain Markdown, because Colab shows anything else raw. Here a block quote that opens
with ``**Note.**`` becomes a callout; a number with a comment behind it becomes a link to the output
line that printed it, or to its entry among the sources; and links to the repository follow
``BOOK_REPOSITORY_URL`` and ``BOOK_REPOSITORY_BRANCH``.
"""

import os
import re
import sys
from html import escape
from pathlib import Path

from docutils import nodes
from pybtex.plugin import register_plugin
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.pages import assets, drawings, sources  # noqa: E402
from tools.prose import (  # noqa: E402
    COMMENT,
    QUOTED,
    misquoted,
    read_facts,
    trailing_literal,
)

log = logging.getLogger(__name__)

SOURCES = "chapters/sources"
MAKES_TREES = ["_config.yml", "_toc.yml", "tools/**/*.py"]
MAKES_LOOKS = ["_static/*", "lumen/book/palette.py"]
MAKES_PAGES = ["intro.md", "references.bib", "tools/*.inv", "lumen/**/*.py"]
MAKES_PAGES += ["chapters/[a-z]*.md", "chapters/*.ipynb", "exercises/*.ipynb"]

# --------------------------------------------------------------------------- callouts and captions

CALLOUTS = {"Note": "note", "Trap": "trap", "Key idea": "key", "Error in the sources": "erratum"}


class Callouts(SphinxTransform):
    """A block quote that opens with ``**Note.**`` (or one of its kin) is an admonition."""

    default_priority = 300

    def apply(self):
        for quote in list(self.document.findall(nodes.block_quote)):
            opening = _opening(quote.children[0])
            title = opening.removesuffix(".")
            if title not in CALLOUTS or title == opening:
                continue
            words = quote.children[0]
            words.remove(_first(words))
            if isinstance(_first(words), nodes.Text):
                words.replace(_first(words), nodes.Text(_first(words).lstrip()))
            body = quote.children if _first(words) else quote.children[1:]
            box = nodes.admonition("", nodes.title("", title), *body, classes=[CALLOUTS[title]])
            quote.replace_self(box)


class Furniture(SphinxTransform):
    """Mark a chapter's needs and run time and the captions of figures; set formulas as written."""

    default_priority = 310

    def apply(self):
        for formula in self.document.findall(nodes.math_block):
            # Sphinx would put one with \\ into an environment of its own, where \tag is an error.
            if not formula["nowrap"]:
                written = formula.astext()
                formula.clear()
                formula += nodes.Text(rf"\[{written}\]")
                formula["nowrap"] = True
        for paragraph in self.document.findall(nodes.paragraph):
            opening = _opening(paragraph)
            if opening in ("Needs", "Runs"):
                paragraph["classes"].append("chapter-facts")
            elif re.match(r"Figure \d", opening):
                paragraph["classes"].append("figure-caption")


class Together(SphinxTransform):
    """A formula and the punctuation behind it stay on one line."""

    default_priority = 330

    def apply(self):
        for formula in list(self.document.findall(nodes.math)):
            piece = formula.parent if isinstance(formula.parent, bound) else formula
            behind = piece.next_node(descend=False, siblings=True)
            if isinstance(behind, nodes.Text) and (stop := re.match(r"[^\w\s(\[–—]+", behind)):
                parent, rest = piece.parent, nodes.Text(behind[stop.end() :])
                pair = nodes.inline("", "", classes=["together"])
                _swap(parent, piece, pair)
                _swap(parent, behind, rest)
                pair += [piece, nodes.Text(stop[0])]


def _swap(parent, old, *new):
    """Put nodes in the place of this very child; ``replace`` takes the first text that is equal."""
    place = next(i for i, child in enumerate(parent.children) if child is old)
    parent[place : place + 1] = new


def _first(paragraph):
    """The first node that says anything; the parser leaves empty texts around markup."""
    return next((child for child in paragraph.children if child.astext()), None)


def _opening(paragraph):
    """The bold words that a paragraph starts with."""
    first = _first(paragraph) if isinstance(paragraph, nodes.paragraph) else None
    return first.astext() if isinstance(first, nodes.strong) else ""


# --------------------------------------------------------------------------------- bound numbers


class bound(nodes.Inline, nodes.TextElement):
    """A number that links to where it was made: a line of output, or one of the sources."""


def visit_bound(self, node):
    page = node["page"]
    if page:
        page = self.builder.get_relative_uri(self.builder.current_docname, page)
    address, tip = f"{page}#{node['target']}", escape(node["tip"])
    self.body.append(f'<a class="{node["kind"]}" href="{address}" title="{tip}">')


def depart_bound(self, node):
    self.body.append("</a>")


class BoundNumbers(SphinxTransform):
    """``150,528<!--=n_inputs-->`` links to the output line ``n_inputs = 150,528``.

    A page without cells may quote a fact: ``150,528<!--=chapters/03_dense:n_inputs-->``. A name
    that leads nowhere is a warning, which fails the build; so is a number that is another one.
    """

    default_priority = 320

    def apply(self):
        source = Path(self.env.doc2path(self.env.docname))
        self.facts = read_facts(source) if source.suffix == ".ipynb" else {}
        self.shown = set()
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code":
                self.give_places(cell)
        for comment in list(self.document.findall(nodes.raw)):
            text = comment.astext().strip()
            if match := COMMENT.fullmatch(text):
                link = (self.cite if match[1] == "@" else self.bind)(match[2], comment)
            elif match := QUOTED.fullmatch(text):
                link = self.quote(match[1], match[2], comment)
            else:
                continue
            if link is not None and not _wrap_number(comment, link):
                log.warning("%s binds nothing: no number before it", text, location=comment)
            comment.parent.remove(comment)

    def give_places(self, cell):
        """Put the id ``fact-NAME`` on the output line that prints each fact, or on its cell."""
        index = cell["cell_index"]
        names = {name for name, fact in self.facts.items() if fact.cell == index}
        self.shown |= names
        for block in list(cell.findall(nodes.literal_block)):
            if names and "stream" in block["classes"]:
                names = self.name_lines(block, names)
        cell["ids"] += [f"fact-{name}" for name in sorted(names)]

    def name_lines(self, block, names):
        """Name the lines of an output; return the names that it does not print."""
        lines, left = [], set(names)
        for line in block.astext().rstrip("\n").split("\n"):
            name = line.partition(" = ")[0]
            if name in left and line == _printed(self.facts[name]):
                left.remove(name)
                lines.append(nodes.inline("", line, ids=[f"fact-{name}"], classes=["fact"]))
                lines.append(nodes.Text("\n"))
            else:
                lines.append(nodes.Text(line + "\n"))
        if left != names:
            # A block that differs from its raw source is not highlighted, which would lose the ids.
            block.rawsource = ""
            block.clear()
            block.extend(lines)
        return left

    def bind(self, name, comment):
        if name not in self.facts:
            log.warning("no cell of this page prints the fact %s", name, location=comment)
        elif name not in self.shown:
            log.warning("the page does not show the cell that prints %s", name, location=comment)
        else:
            return _link(self.facts[name])

    def cite(self, key, comment):
        entries = self.env.get_domain("cite").bibdata.data.entries
        if key not in entries:
            log.warning("references.bib has no entry %s", key, location=comment)
        else:
            tip = str(sources.in_short(entries[key]))
            return bound(kind="cited", page=SOURCES, target=key, tip=tip)

    def quote(self, page, name, comment):
        notebook = Path(self.env.srcdir, f"{page}.ipynb")
        self.env.note_dependency(str(notebook))
        facts = read_facts(notebook) if notebook.exists() else {}
        if name not in facts:
            log.warning("%s prints no fact %s", page, name, location=comment)
        elif wrong := misquoted(*_text_before(comment), facts[name]):
            log.warning("%s: %s", page, wrong, location=comment)
        else:
            return _link(facts[name], page)


def _printed(fact):
    return f"{fact.name} = {fact.text}"


def _link(fact, page=""):
    return bound(kind="bound", page=page, target=f"fact-{fact.name}", tip=_printed(fact))


def _text_before(comment):
    """What stands before a comment, and whether it is a formula."""
    before = comment.parent.children[: comment.parent.index(comment)]
    pieces = [child for child in before if child.astext()]
    if pieces and isinstance(pieces[-1], nodes.math | nodes.math_block):
        return pieces[-1].astext(), True
    return "".join(child.astext() for child in pieces), False


WHOLE = nodes.math | nodes.math_block | nodes.literal | nodes.strong | nodes.emphasis


def _wrap_number(comment, link):
    """Put the number before the comment into the link, whatever markup it stands in."""
    parent, before = comment.parent, None
    for child in parent.children[: parent.index(comment)]:
        before = child if child.astext() else before
    while isinstance(before, nodes.strong | nodes.emphasis):
        span = trailing_literal(before.astext())
        if span is None or span[0] == 0:
            break
        parent, before = before, before.children[-1]
    if isinstance(before, nodes.Text):
        if (span := trailing_literal(before.astext())) is None:
            return False
        link += nodes.Text(before[slice(*span)])
        _swap(parent, before, nodes.Text(before[: span[0]]), link)
        return True
    if isinstance(before, WHOLE):
        parent.replace(before, link)
        link += before
        return True
    return False


# ------------------------------------------------------------------------------------- repository


def repository(written, environment):
    """Address and branch of the repository: what the environment says, else ``_config.yml``."""
    url = environment.get("BOOK_REPOSITORY_URL", "").strip().rstrip("/").removesuffix(".git")
    branch = environment.get("BOOK_REPOSITORY_BRANCH", "").strip()
    wanted = (url or written[0], branch or written[1])
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", wanted[0]):
        raise ExtensionError(
            "the repository must be https://github.com/OWNER/NAME, because Colab opens no other; "
            f"BOOK_REPOSITORY_URL or _config.yml has {wanted[0]!r}"
        )
    return wanted


def follow(text, written, wanted):
    """The same text with every address in the written repository turned into one in the wanted."""
    (old, old_branch), (new, new_branch) = written, wanted
    host = "https://github.com/"
    colab = "https://colab.research.google.com/github/"
    places = [(f"{colab}{old.removeprefix(host)}", f"{colab}{new.removeprefix(host)}"), (old, new)]
    for before, after in places:
        text = re.sub(
            rf"{re.escape(before)}/(blob|tree|raw|edit)/{re.escape(old_branch)}(?![\w.-])",
            lambda match, after=after: f"{after}/{match[1]}/{new_branch}",
            text,
        )
    return re.sub(rf"{re.escape(old)}(?![\w.-])", lambda match: new, text)


def links_follow(app, doctree, docname):
    written, wanted = app.config.lumen_repository
    for link in doctree.findall(nodes.reference):
        if "refuri" in link:
            link["refuri"] = follow(link["refuri"], written, wanted)
    for raw in doctree.findall(nodes.raw):
        if written[0] in raw.astext():
            text = follow(raw.astext(), written, wanted)
            raw.clear()
            raw += nodes.Text(text)


# -------------------------------------------------------------------------------------- the build

# Jupyter Book loads these into every page. The first two call other hosts; the book uses none.
UNUSED = ("sphinx_thebe", "sphinx_comments", "sphinx_togglebutton", "sphinx_design.extension")
UNUSED_FILES = re.compile(r"thebe|togglebutton|sphinx-design|design-tabs|let toggle")
# What themes copy and no page asks for.
UNREAD = ["scripts/fontawesome.js*", "**/*.map", "**/*.ttf", "locales/*/*/*", "*macros.html"]


def configure(app, config):
    for event, listeners in app.events.listeners.items():
        modules = [getattr(listener.handler, "__module__", "") for listener in listeners]
        kept = [one for one, name in zip(listeners, modules, strict=True) if name not in UNUSED]
        app.events.listeners[event] = kept
    options = config.html_theme_options
    written = (options["repository_url"].rstrip("/"), options["repository_branch"])
    wanted = repository(written, os.environ)
    options["repository_url"], options["repository_branch"] = wanted
    config.lumen_repository = (written, wanted)
    config.lumen_trees = assets.digest(ROOT, MAKES_TREES)
    config.lumen_looks = assets.digest(ROOT, MAKES_LOOKS)

    staged = Path(app.doctreedir) / "lumen"
    assets.stage(staged)
    config.html_static_path.append(str(staged / "static"))
    config.templates_path.append(str(staged / "templates"))
    config.mathjax_path = "mathjax/tex-chtml.js"


EMPTY_HEAD = re.compile(r"<th class=\"head\b[^>]*>\s*(<p></p>)?\s*</th>")


def tidy(app, pagename, templatename, context, doctree):
    """Drop what the book does not use; a column without a name has no header to be read out."""
    context["body"] = EMPTY_HEAD.sub("<td></td>", context.get("body") or "")
    for kind in ("css_files", "script_files"):
        context[kind] = [
            file
            for file in context[kind]
            if not UNUSED_FILES.search(f"{file.filename} {file.attributes.get('body')}")
        ]


def built_from(root):
    """A name for everything that the site is made of."""
    return assets.digest(root, MAKES_TREES + MAKES_LOOKS + MAKES_PAGES)


def finish(app, error):
    """Clear away what no page reads, and sign the site, so that a test can tell a stale one.

    A build that warned has failed. It is not signed, and what it remembers of the pages is thrown
    away: the next build would not read those pages again, and would pass in silence.
    """
    if error is not None or app.builder.format != "html":
        return
    for pattern in UNREAD:
        for file in Path(app.outdir, "_static").glob(pattern):
            file.unlink(missing_ok=True)
    signature = Path(app.outdir, "built-from.txt")
    if app._warncount:
        signature.unlink(missing_ok=True)
        Path(app.doctreedir, "environment.pickle").unlink(missing_ok=True)
    else:
        signature.write_text(built_from(app.srcdir) + "\n", encoding="utf-8")


def setup(app):
    app.add_config_value("lumen_repository", None, "html", tuple)
    app.add_config_value("lumen_trees", "", "env", str)
    app.add_config_value("lumen_looks", "", "html", str)
    register_plugin("pybtex.style.formatting", "lumen", sources.BookStyle)
    app.add_node(bound, html=(visit_bound, depart_bound))
    app.add_node(drawings.drawing, html=(drawings.visit_drawing, None))
    app.add_directive("lumen-map", drawings.Drawing)
    app.add_directive("lumen-tree", drawings.Drawing)
    for transform in (Callouts, Furniture, BoundNumbers, Together):
        app.add_transform(transform)
    app.add_css_file("palette.css", priority=190)
    app.add_css_file("fonts/fonts.css", priority=190)
    app.connect("config-inited", configure)
    app.connect("doctree-read", sources.make_anchors)
    app.connect("doctree-resolved", links_follow)
    app.connect("html-page-context", tidy, priority=900)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
