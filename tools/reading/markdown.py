"""What a reader sees of a chapter's Markdown: text without markup, each character with its line.

A chapter is read in two houses, on the site and as a raw notebook, so it holds plain Markdown only.
What the site alone understands (directives, roles, targets, colon fences) is noted on the way.
"""

import re
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.rules_inline import backtick
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin

MATH, OPAQUE = "\ue000", "\ufffc"
FREE_TAGS = {"a", "code", "pre", "kbd", "script", "style"}
INLINE_TAGS = {"b", "i", "em", "strong", "sup", "sub", "span", "u", "s", "small", "mark", "var"}
BINDING = re.compile(r"<!-*\s*[=@]")
NOT_PLAIN_BLOCKS = {
    "myst_target": "A MyST target",
    "myst_line_comment": "A MyST comment",
    "math_block_label": "A label behind a formula",
}


@dataclass
class Run:
    """A paragraph, a cell of a table, a displayed formula or a stretch of HTML, as it is seen.

    One character stands for a formula, one for each piece whose numbers are free: code, links,
    images. ``breaks`` are the places in the text where markup stands. All lists end in a line.
    """

    line: int
    text: str = ""
    lines: list[int] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)
    comments: list[tuple[int, str, int]] = field(default_factory=list)  # place, source
    formulas: dict[int, tuple[str, int]] = field(default_factory=dict)  # at its place, its TeX
    images: list[tuple[str, int]] = field(default_factory=list)  # alternative text
    links: list[tuple[str, int]] = field(default_factory=list)
    not_plain: list[tuple[str, int]] = field(default_factory=list)

    def add(self, text):
        self.text += text
        self.lines += [self.line] * len(text)

    def add_part(self, mark, lines=0):
        self.breaks.add(len(self.text))
        self.add(mark)
        self.breaks.add(len(self.text))
        self.line += lines

    def add_math(self, tex):
        self.formulas[len(self.text)] = (tex, self.line)
        self.add_part(MATH, tex.count("\n"))


def runs(text):
    """The runs of a chapter. A comment on the line below a displayed formula is part of its run."""
    parser = _parser()
    run, line, before = None, 1, None
    for token in parser.parse(text):
        if run and not (token.type == "html_block" and run.text == MATH):
            yield run
            run = None
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            run = Run(line)
            heading = before.type == "heading_open" and before.markup.startswith("#")
            _flatten(token.children, run, hidden=int(heading))
        elif token.type in ("math_block", "amsmath"):
            run = Run(line)
            run.add_math(token.content)
        elif token.type == "html_block":
            run = run or Run(line)
            run.line = line
            _flatten(parser.parseInline(token.content)[0].children, run)
        elif what := _not_plain(token):
            yield Run(line, not_plain=[(what, line)])
        before = token
    if run:
        yield run


def code_cells(text):
    """The lines on which the code cells of a chapter begin."""
    fences = (token for token in _parser().parse(text) if token.type == "fence")
    return [fence.map[0] + 1 for fence in fences if fence.info.startswith("{code-cell}")]


def _parser():
    md = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    # Indented lines are read as prose, not as code: four spaces hide no number.
    md.disable("code")
    md.inline.ruler.at("backticks", _code_span)
    md.use(front_matter_plugin).use(footnote_plugin).use(myst_block_plugin)
    return md.use(dollarmath_plugin, double_inline=True).use(amsmath_plugin)


def _code_span(state, silent):
    """The parser's own rule, which forgets how many lines a span of code runs over."""
    start, count = state.pos, len(state.tokens)
    found = backtick(state, silent)
    if len(state.tokens) > count and state.tokens[-1].type == "code_inline":
        state.tokens[-1].meta["lines"] = state.src.count("\n", start, state.pos)
    return found


def _not_plain(token):
    if token.type == "fence" and re.match(r"\{(?!code-cell\})", token.info):
        return f"The directive {token.info.split()[0]}"
    return NOT_PLAIN_BLOCKS.get(token.type)


def _flatten(tokens, run, hidden=0):
    """Add what is seen of the tokens to the run; while ``hidden`` is not 0, numbers are free."""
    for token in tokens:
        if token.type == "text":
            marker = re.match(r":::\S*|\[!\w+\]", token.content)
            if marker and (not run.text or run.text.endswith("\n")):
                run.not_plain.append((marker[0], run.line))
            run.add(OPAQUE if hidden and token.content else token.content)
        elif token.type in ("softbreak", "hardbreak"):
            run.add("\n")
            run.line += 1
        elif token.type == "code_inline":
            if role := re.search(r"\{[\w:.+-]+\}$", run.text):
                run.not_plain.append((f"The role {role[0]}", run.line))
            run.add_part(OPAQUE, token.meta["lines"])
        elif token.type.startswith("math_") and not hidden:
            run.add_math(token.content)
        elif token.type.startswith("math_"):
            run.add_part(OPAQUE, token.content.count("\n"))
        elif token.type == "image":
            run.images.append((_alternative(token), run.line))
            run.add_part(OPAQUE, token.content.count("\n"))
        elif token.type == "link_open":
            run.links.append((str(token.attrs["href"]), run.line))
            run.breaks.add(len(run.text))
            hidden += 1
        elif token.type == "link_close":
            run.breaks.add(len(run.text))
            hidden -= 1
        elif token.type == "html_inline":
            hidden = max(0, hidden + _html(token.content, run))
        else:
            run.breaks.add(len(run.text))


def _html(html, run):
    """Note a tag or a comment; return by how much it hides what follows."""
    run.breaks.add(len(run.text))
    line, run.line = run.line, run.line + html.count("\n")
    if not (tag := re.match(r"<(/?)([a-z][\w-]*)", html.lower())):
        if BINDING.match(html):
            run.comments.append((len(run.text), html, line))
        return 0
    closing, name = tag.groups()
    if name in FREE_TAGS:
        run.add(OPAQUE)
        return -1 if closing else 1
    if name == "sup" and not closing:
        run.add_part("^")
    elif name not in INLINE_TAGS:
        run.add(" ")
    return 0


def _alternative(image):
    breaks = ("softbreak", "hardbreak")
    parts = image.children or []
    return "".join("\n" if part.type in breaks else part.content for part in parts)
