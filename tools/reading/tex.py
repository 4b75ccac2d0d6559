"""TeX's math as a tree: numbers, commands, characters and groups; what only concerns looks is gone.

A matrix becomes a tuple of its entries, row after row, and a line break within an alignment ends a
statement unless a relation follows it.
"""

import re
from dataclasses import dataclass

from tools.reading import literal
from tools.reading.literal import Literal

TEXT = r"\\(?:text|mathrm|textrm|operatorname\*?|mathsf|textit|mbox)\s*\{(?P<words>[^{}]*)\}"
TOKEN = re.compile(
    rf"(?P<gap>\s+|\\[ ,;:!]|~)|(?P<num>{literal.TEX})|(?P<text>{TEXT})"
    r"|(?P<other>\\[A-Za-z]+\*?|\\.|\{,\}|.)",
    re.DOTALL,
)
CLOSING = {
    **dict.fromkeys("([", (")", "]")),
    "{": ("}",),
    "\\{": ("\\}",),
    "\\lfloor": ("\\rfloor",),
    "\\lceil": ("\\rceil",),
}
CLOSERS = {closer for closers in CLOSING.values() for closer in closers}

MATRIX = re.compile(
    r"\\begin\{([pbvBV]?matrix|smallmatrix|array)\}(?:\{[^{}]*\})?(.*?)\\end\{\1\}", re.DOTALL
)
NEW_LINE = r"\\\\(?:\[[^\]]*\])?"
RELATION_NEXT = r"(?=\s*&?\s*(?:=|<|>|\\(?:approx|simeq|equiv|le|ge|to|in)\b))"
REWRITINGS = [
    (r"(?<!\\)%.*", ""),
    ("−", "-"),
    ("×", r"\\times "),
    ("·", r"\\cdot "),
    ("≈", r"\\approx "),
    (r"\\(?:tag|label|hspace|vspace|color)\*?\s*\{[^{}]*\}", ""),
    (r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\.?", ""),
    (r"\\(?:(?:display|text|script)style|(?:no)?limits|[vh]phantom|mathstrut)(?![A-Za-z])", ""),
    (r"\\(?:mathbf|boldsymbol|bm|boxed|mathit)(?![A-Za-z])", ""),
    (NEW_LINE + RELATION_NEXT, " "),
    (NEW_LINE, ";"),
    (r"(?<!\\)&", " "),
    (r"\\(?:begin|end)\{[a-z*]+\}(?:\{[^{}]*\})?", " "),
    (r"([\^_]|\\sqrt)(\s*)(\d)", r"\1\2{\3}"),
    (r"(\\[dtc]?frac)(\s*)(\d)", r"\1\2{\3}"),
    (r"(\\[dtc]?frac\s*\{[^{}]*\})(\s*)(\d)", r"\1\2{\3}"),
]
ILL_WRITTEN = {
    r"(?:[\^_]|\\sqrt\s*)\d(?:\d|\.\d)+": "reaches one digit only: put the number in braces",
    r"(?<![\d.,}])\d{1,3}(?:,\d{3})+(?!\d)": "reads as several numbers in math: write {,} for the "
    "comma of thousands, or a space behind the comma",
}


@dataclass(frozen=True)
class Node:
    """``kind`` is num, text, group, or what the TeX says: a command or a character."""

    kind: str
    start: int
    end: int
    literal: Literal | None = None
    words: str = ""
    """A text's words; a group's opening bracket."""
    children: tuple = ()


def ill_written(tex):
    """What TeX shows otherwise than meant: the number of lines above it, and a message."""
    for pattern, message in ILL_WRITTEN.items():
        for match in re.finditer(pattern, tex):
            yield tex.count("\n", 0, match.start()), f"{match[0]} {message}"


def simplified(tex):
    """The formula without what only concerns looks; offsets still tell lines, as none is lost."""
    tex = MATRIX.sub(_row, tex)
    for pattern, by in REWRITINGS:
        tex = re.sub(pattern, lambda match, by=by: _with_lines(match, match.expand(by)), tex)
    return tex


def _row(match):
    return "(" + re.sub(rf"{NEW_LINE}|(?<!\\)&", ", ", match[2]) + ")"


def _with_lines(match, new):
    return new + "\n" * (match[0].count("\n") - new.count("\n"))


def tree(tex):
    """The nodes of a simplified formula."""
    nodes, rest = _grouped(list(_tokens(tex)))
    while rest:  # a bracket that closes nothing
        more, rest = _grouped(rest[1:])
        nodes += more
    return nodes


def _tokens(tex):
    for match in TOKEN.finditer(tex):
        if match["num"]:
            yield Node("num", *match.span(), literal=literal.read(match))
        elif match["text"]:
            yield Node("text", *match.span(), words=match["words"])
        elif not match["gap"]:
            yield Node(match[0], *match.span())


def _grouped(tokens):
    """Nest what stands in brackets; return also the tokens from a closing bracket too many on."""
    nodes = []
    while tokens and tokens[0].kind not in CLOSERS:
        token, tokens = tokens[0], tokens[1:]
        if token.kind not in CLOSING:
            nodes.append(token)
            continue
        inner, tokens = _grouped(tokens)
        if tokens and tokens[0].kind in CLOSING[token.kind]:
            span = (token.start, tokens[0].end)
            nodes.append(Node("group", *span, words=token.kind, children=tuple(inner)))
            tokens = tokens[1:]
        else:
            nodes += inner
    return nodes, tokens
