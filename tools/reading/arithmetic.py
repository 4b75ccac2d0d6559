"""The value of a computation in math, or the honest answer that it is none.

It knows ``+ - \\cdot \\times /``, fractions, powers, roots, floor and ceiling, ``e^{}``, ``\\pi``,
``\\exp \\ln \\log`` (natural unless it has a base), ``\\tanh \\sin \\cos``, brackets, units and
plain words behind a number. What is ambiguous it does not compute: ``2\\tfrac12``,
``\\cos 2\\pi``, ``1/2\\pi``.

sympy's LaTeX reader would be the obvious choice. It stops at ``1{,}792``, at ``\\approx`` and at
a chain ``a = b = c``, takes ``2\\tfrac12`` for 1 and leaves ``\\tanh 0.5`` open. So this is a
reader of its own, on mpmath (the numbers under sympy) at fifty digits.
"""

import re

from mpmath import MPContext

MP = MPContext()
MP.dps = 50

FRACTIONS = ("\\frac", "\\dfrac", "\\tfrac", "\\cfrac")
FUNCTIONS = {
    "\\exp": MP.exp,
    "\\ln": MP.log,
    "\\log": MP.log,
    "\\tanh": MP.tanh,
    "\\sin": MP.sin,
    "\\cos": MP.cos,
}
ROUNDINGS = {"\\lfloor": MP.floor, "\\lceil": MP.ceil}
BRACES = ("\\underbrace", "\\overbrace")
LARGEST_EXPONENT = 10**5
LARGEST = MP.mpf(10) ** 9999


class NotNumeric(Exception):
    """This is no computation, or none that the reader understands."""


def evaluate(nodes, nudged=None):
    """The value of a computation; with the literal of the node ``nudged`` half a unit off."""
    try:
        value = _Reader(nodes, nudged).all()
    except (ArithmeticError, ValueError) as error:
        raise NotNumeric from error
    if not isinstance(value, MP.mpf) or not abs(value) < LARGEST:
        raise NotNumeric
    return value


def is_numeric(nodes):
    try:
        evaluate(nodes)
    except NotNumeric:
        return False
    return True


def slack(nodes):
    """How far the rounding of its decimals can move a computation."""
    rounded = [node for node in _all(nodes) if node.kind == "num" and not node.literal.plain]
    return sum(abs(evaluate(nodes, node) - evaluate(nodes)) for node in rounded)


def _all(nodes):
    for node in nodes:
        yield node
        yield from _all(node.children)


class _Reader:
    def __init__(self, nodes, nudged):
        self.nodes, self.nudged, self.at = list(nodes), nudged, 0

    def next(self, ahead=0):
        at = self.at + ahead
        return self.nodes[at].kind if at < len(self.nodes) else None

    def take(self, *kinds):
        if self.next() in kinds:
            self.at += 1
            return self.nodes[self.at - 1]

    def inside(self, group):
        return _Reader(group.children, self.nudged).all()

    def all(self):
        total = MP.mpf(0)
        while True:
            sign = self.take("+", "-")
            total += self.product() * (-1 if sign and sign.kind == "-" else 1)
            if self.next() is None:
                return total
            if self.next() not in ("+", "-"):
                raise NotNumeric

    def product(self):
        value, divided = self.power(), False
        while True:
            if self.take("\\cdot", "\\times", "*"):
                value *= self.power()
            elif self.take("/", "\\div"):
                value /= self.power()
                divided = True
            elif self.juxtaposed():
                after_number = self.nodes[self.at - 1].kind == "num"
                if divided or (after_number and (self.next() in FRACTIONS or self.at_bracket("{"))):
                    raise NotNumeric
                value *= self.power()
            else:
                return value

    def juxtaposed(self):
        return self.next() in ("group", "\\sqrt", "\\pi", "e", *FUNCTIONS, *FRACTIONS)

    def power(self):
        value = self.atom()
        if self.take("^"):
            exponent = self.argument()
            if abs(exponent) > LARGEST_EXPONENT:
                raise NotNumeric
            value = value**exponent
        while words := self.take("text"):
            if self.next() in ("group", "_", "^", "num") or re.search(r"\d", words.words):
                raise NotNumeric
        return value

    def atom(self):
        if number := self.take("num"):
            if number.literal.flaw:
                raise NotNumeric
            off = number.literal.unit / 2 if number is self.nudged else 0
            return MP.mpf(str(number.literal.value + off))
        if group := self.take("group"):
            return ROUNDINGS.get(group.words, lambda value: value)(self.inside(group))
        if self.take(*FRACTIONS):
            return self.argument() / self.argument()
        if self.take("\\sqrt"):
            degree = self.argument("[") if self.at_bracket("[") else 2
            return MP.root(self.argument(), int(degree))
        if function := self.take(*FUNCTIONS):
            return self.function(function.kind)
        if self.take(*BRACES):
            value = self.argument()
            if self.take("_", "^"):
                self.pass_over()
            return value
        if self.take("\\pi"):
            return +MP.pi
        if self.take("e") and self.take("^"):
            return MP.exp(self.argument())
        raise NotNumeric

    def pass_over(self):
        """Skip what is written at a brace, if that claims no number of its own."""
        note = self.nodes[self.at : self.at + 1]
        if any(node.kind == "num" and not node.literal.small for node in _all(note)):
            raise NotNumeric
        self.at += 1

    def function(self, name):
        base = [self.argument()] if self.take("_") and name == "\\log" else []
        if self.next() in ("_", "^"):
            raise NotNumeric
        if group := self.take("group"):
            return FUNCTIONS[name](self.inside(group), *base)
        value = self.power()
        if self.juxtaposed():
            raise NotNumeric
        return FUNCTIONS[name](value, *base)

    def argument(self, opening="{"):
        if self.at_bracket(opening):
            return self.inside(self.take("group"))
        raise NotNumeric

    def at_bracket(self, opening):
        return self.next() == "group" and self.nodes[self.at].words == opening
