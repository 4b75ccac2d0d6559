"""What a formula says in numbers: its identities are computed; what is left over needs a source.

A formula is cut into statements (at commas and line breaks) and these into sides (at relations).
Sides that are set equal, by ``=`` or ``\\approx``, and hold numbers only are an identity, if one of
them is more than a number written down: ``3\\cdot 64 = 192``,
``\\frac{1}{\\sqrt{d_k}} = \\frac{1}{\\sqrt{64}} = 0.125``. Any two of them agree to the last digit
shown; where all relations between them are ``=``, an integer is exact.
"""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations

from tools.reading.arithmetic import BRACES, MP, NotNumeric, evaluate, is_numeric, slack
from tools.reading.literal import Literal, free, scan
from tools.reading.tex import ill_written, simplified, tree

EQUAL = {"=", "\\approx", "\\simeq", "\\equiv"}
OTHER_RELATIONS = {"<", ">", ":"} | {
    f"\\{name}"
    for name in (
        *("lt", "gt", "le", "leq", "ge", "geq", "ll", "gg", "ne", "neq", "sim", "propto", "mid"),
        *("in", "notin", "to", "rightarrow", "leftarrow", "mapsto", "Rightarrow", "implies", "iff"),
    )
}
SEPARATORS = {",", ";", ".", "\\quad", "\\qquad"}
CONJUNCTION = re.compile(
    r"\W*(?:and|or|for|if|where|so|but|with|then|hence|at|when)\b.*", re.DOTALL
)
SIGN_FOLLOWS = {"+", "-", "/", "\\cdot", "\\times", "^", "_", "\\div"}


@dataclass
class Formula:
    """What ``read_formula`` found.

    ``pending`` are the numbers that are neither free nor part of an identity, in order; ``tail`` is
    what the formula ends in, if that is a number, a computation or a tuple of these; ``flaws`` are
    messages, each with the number of lines above it in the formula.
    """

    tex: str
    pending: list[Literal] = field(default_factory=list)
    tail: list[Literal] = field(default_factory=list)
    last: Literal | None = None
    identities: int = 0
    flaws: list[tuple[int, str]] = field(default_factory=list)

    def lines_before(self, literal):
        return self.tex.count("\n", 0, literal.start)

    def readings(self):
        """What a comment behind the formula may bind, each a list of literals.

        That is its tail, and if this is a computation with one number that needs a source, also
        this number. Without a tail it is the last number that needs a source, else the last one.
        """
        if not self.tail:
            number = self.pending[-1] if self.pending else self.last
            return [[number]] if number else []
        inside = [literal for literal in self.pending if literal.start >= self.tail[0].start]
        lone = len(self.tail) == len(inside) == 1 and inside != self.tail and inside[0].unit
        return [self.tail, inside] if lone else [self.tail]


@dataclass
class Side:
    nodes: list
    value: object = None
    literal: Literal | None = None

    @property
    def computed(self):
        return self.literal is None or self.literal.unit == 0


def read_formula(tex):
    simple = simplified(tex)
    formula = Formula(simple, flaws=list(ill_written(tex)))
    formula.tail = _Reading(formula).settle(tree(simple))
    return formula


class _Reading:
    def __init__(self, formula):
        self.formula = formula

    def settle(self, nodes):
        """Settle every number among the nodes; return what the last side of all comes to."""
        tail = []
        for statement in _cut(nodes, _separates):
            sides = [_side(part) for part in _cut(statement, _relates)]
            relations = [node.kind for node in statement if _relates(node)]
            settled = self.identities(sides, relations)
            for index, side in enumerate(sides):
                if index not in settled:
                    self.collect(side.nodes)
            tail = self.parts(sides[-1]) if statement else tail
        return tail

    def identities(self, sides, relations):
        """Check the numeric sides that are set equal; return the indices of those in identities."""
        equal, settled = [[]], set()
        for index, side in enumerate(sides):
            if index and relations[index - 1] not in EQUAL:
                equal.append([])
            if side.value is not None:
                equal[-1].append(index)
        for run in equal:
            self.check(sides, relations, run)
            if len(run) > 1 and any(sides[index].computed for index in run):
                self.formula.identities += len(run) - 1
                settled |= set(run)
        return settled

    def check(self, sides, relations, run):
        for i, j in combinations(run, 2):
            exact = set(relations[i:j]) == {"="}
            if not _agree(sides[i], sides[j], exact):
                left, right = self.source(sides[i].nodes), self.source(sides[j].nodes)
                values = " and ".join(
                    f"{self.source(side.nodes)} is {_rounded(side.value)}"
                    for side in (sides[i], sides[j])
                    if side.computed
                )
                relation = f"{left} {'=' if exact else '≈'} {right}"
                why = f": {values}" if values else ""
                self.flaw(sides[i].nodes[0], f"{relation} does not hold{why}. Correct it")
                return

    def collect(self, nodes):
        """Note the numbers of a side that is part of no identity. Subscripts are names."""
        index, before, annotated = 0, None, False
        while index < len(nodes):
            node, used = nodes[index], 1
            if before is not None and before.kind == "num" and _starts_with_number(node):
                self.flaw(
                    node, f"{self.source([before, node])} puts a number behind a number: join them"
                )
            if node.kind == "_" and not annotated:
                used = 2
            elif node.kind == "num":
                power = nodes[index : index + 3]
                if len(power) == 3 and power[1].kind == "^" and is_numeric(power):
                    self.note(self.computed(power))
                    used = 3
                else:
                    self.note(_signed(nodes, index))
            elif node.kind == "text":
                self.formula.pending += [
                    literal.moved(node.start)
                    for literal in scan(node.words)
                    if literal.flaw or not free(node.words, literal)
                ]
            elif node.kind == "group":
                self.settle(node.children)
            annotated = node.kind == "group" and before is not None and before.kind in BRACES
            before = node
            index += used

    def note(self, literal):
        self.formula.last = literal
        if literal.flaw or not literal.small:
            self.formula.pending.append(literal)

    def parts(self, side):
        if side.value is not None:
            return [side.literal or self.computed(side.nodes)]
        if len(side.nodes) == 1 and side.nodes[0].kind == "group":
            entries = [_side(entry) for entry in _cut(side.nodes[0].children, _separates) if entry]
            if len(entries) > 1 and all(entry.value is not None for entry in entries):
                return [entry.literal or self.computed(entry.nodes) for entry in entries]
        return []

    def computed(self, nodes):
        value = Decimal(MP.nstr(evaluate(nodes), 40))
        place = (nodes[0].start, nodes[-1].end)
        plain = value == value.to_integral_value()
        return Literal(*place, self.source(nodes), value, Decimal(0), plain=plain)

    def source(self, nodes):
        return " ".join(self.formula.tex[nodes[0].start : nodes[-1].end].split())

    def flaw(self, node, message):
        self.formula.flaws.append((self.formula.tex.count("\n", 0, node.start), message))


def _cut(nodes, at):
    parts = [[]]
    for node in nodes:
        if at(node):
            parts.append([])
        else:
            parts[-1].append(node)
    return parts


def _separates(node):
    return node.kind in SEPARATORS or (node.kind == "text" and CONJUNCTION.fullmatch(node.words))


def _relates(node):
    return node.kind in EQUAL or node.kind in OTHER_RELATIONS


def _starts_with_number(node):
    """Braces show nothing: 9{9} is seen as 99."""
    braced = node.words == "{" and node.children
    return node.kind == "num" or (braced and _starts_with_number(node.children[0]))


def _side(nodes):
    try:
        return Side(nodes, evaluate(nodes), _only_literal(nodes))
    except NotNumeric:
        return Side(nodes)


def _only_literal(nodes):
    """The literal, if there is nothing else but a sign and words behind it."""
    bare = [node for node in nodes if node.kind != "text"]
    signed = bare[0].kind in ("+", "-")
    if bare[-1].kind == "num" and len(bare) == 1 + signed:
        return _signed(bare, len(bare) - 1)


def _signed(nodes, index):
    """The literal at ``index``, with the minus before it if that is a sign and no subtraction."""
    minus = index > 0 and nodes[index - 1].kind == "-"
    sign = minus and (index == 1 or nodes[index - 2].kind in SIGN_FOLLOWS)
    literal = nodes[index].literal
    return literal.negative() if sign else literal


def _agree(a, b, exact):
    if a.computed and b.computed:
        allowed = slack(a.nodes) + slack(b.nodes)
    else:
        shown = [side.literal for side in (a, b) if not side.computed]
        exact = exact and all(literal.plain for literal in shown)
        allowed = 0 if exact else MP.mpf(str(max(literal.unit for literal in shown))) / 2
    return abs(a.value - b.value) <= allowed + MP.mpf(10) ** -30 * max(1, abs(a.value))


def _rounded(value):
    whole = value == int(value) and abs(value) < 10**15
    return f"{int(value):,}" if whole else MP.nstr(value, 6)
