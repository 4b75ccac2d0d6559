"""What a number looks like, in running text and in TeX, and which numbers need no source.

A literal is read with all that belongs to it: ``~``, sign, thousands separators, exponent and unit.
So ``7.5 %`` is 0.075, ``524.3M`` and ``524.3 million`` are 524,300,000, ``2 KiB`` is 2,048,
``2.7 × 10⁻⁸`` and ``2.7e-8`` are the same, and the ``×`` of ``84,000×`` changes nothing.
"""

import re
from dataclasses import dataclass, replace
from decimal import Decimal

PREFIXES = {"k": 3, "K": 3, "M": 6, "B": 9, "G": 9, "T": 12}
WORDS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
SCALES = {
    **dict.fromkeys(("%", "percent"), Decimal("0.01")),
    **{name: Decimal(10) ** power for name, power in (PREFIXES | WORDS).items()},
    **{f"{name}iB": Decimal(1024) ** power for power, name in enumerate("KMGT", 1)},
    **{
        name + what: Decimal(10) ** PREFIXES[name]
        for name in "kMGT"
        for what in ("B", "FLOP", "FLOPs", "MAC", "MACs")
    },
}
UNITS = "|".join(sorted((unit for unit in SCALES if len(unit) > 1), key=len, reverse=True))
LARGEST_POWER = 999
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻−", "0123456789+--")


def _grammar(sign, digits, exponent, times, ten, unit):
    return (
        rf"{sign}(?:(?P<ten>{ten})|(?P<digits>{digits})(?:{exponent}|{times}(?P<power>{ten}))?)"
        rf"(?P<unit>{unit})?"
    )


# Wrong separators (1,50,528 or 150 528 or 150_528) are read as part of the number, to be refused.
PROSE = _grammar(
    sign=r"(?P<approx>~)?(?P<sign>(?<![\w)\]%])[-+−])?(?:(?<!\w)|(?<=\dx))",
    digits=r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?![\w-])"
    r"|\d+(?:[,_'’]\d+)*(?:\.\d+)*|(?<![.\w])\.\d+",
    exponent=r"[eE](?P<e>[-+−]?\d+)(?!\w)",
    times=r"\s?[×·]\s?",
    ten=r"10(?:[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^\{?[-+−]?\d+\}?)",
    unit=rf"\s?%|\s?(?:{UNITS}|per cent)(?![^\W_])|[kKMBGT](?!\w)"
    r"|×(?![\w(\ue000])|x(?!\w)",
)
# Signs are left to the reader of formulas: in TeX, the neighbours tell a sign from a subtraction.
GAP = r"(?:\\[ ,;:!]|~|\s)*"
TEX = _grammar(
    sign=r"(?P<approx>\\sim\s*)?(?P<sign>)",
    digits=r"\d+(?:\{,\}\d+)*(?:\.\d+)?|\.\d+",
    exponent=r"(?P<e>(?!))",
    times=r"\s*\\(?:times|cdot)\s*",
    ten=r"10\s*\^\s*\{\s*[-+]?\d+\s*\}",
    unit=rf"{GAP}\\%|{GAP}\\(?:text|mathrm|textrm)\{{{GAP}(?:{UNITS}|[kKMBGT]){GAP}\}}"
    r"|\s*\\times(?=\s*(?:$|\\text|[.,;)]))",
)
# A word that holds digits is a name, and so is one with a capital that a number is hyphened to:
# fp16, W1, GPT-2, ResNet-50, Qwen2.5-72B, Llama-3-8B. In "top-100" the number is a number.
NAME = (
    r"(?<!\w)(?:[^\W\d]\w*?\d\w*|(?=\w*[A-Z])[^\W\d]\w*(?=[-‑]\d))(?:[-‑.]\w+)*"
    r"|https?://\S+|arXiv:\s?\d{4}\.\d{4,5}|#\d+|(?<!\w)\d[\d,]*(?:st|nd|rd|th)\b"
)
SCANNER = re.compile(f"(?P<name>{NAME})|{PROSE}")
GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d*(?:\.\d+)?")

REFERENCE = re.compile(
    r"(?:\b(?:chapter|section|sec\.|figure|fig\.|table|equation|eq\.|appendix|page|exercise"
    r"|question)s?|§+)\s?\(?(?:[\d.]+(?:,| and| or| to)?[\s–])*$",
    re.IGNORECASE,
)
PRODUCT = re.compile(
    r"\b(?:Python|PyTorch|[Tt]orch|Num[Pp]y|numpy|[Mm]atplotlib|CUDA|JAX|Keras|TensorFlow|Debian"
    r"|Jupyter Book|Llama|GPT|Qwen|Gemma|Mistral|Phi|[Vv]ersion)\s(?:[≥>]=?\s?)?$"
)
AL = re.compile(r"\bal\.,?\s\(?$")
YEAR_AFTER_NAME = re.compile(
    r"\([^()]*[A-Z][\w’'-]+,?\s$|(?<![.!?:]\s)(?<!\A)\b[A-Z][\w’'-]{2,}\s$"
)
YEAR_AFTER_BRACKET = re.compile(r"[A-Z][\w’'-]+\s\($")
YEAR_IN_TIME = re.compile(r"\b(?:in|since|until|between)\s$", re.IGNORECASE)
COUNTED = re.compile(r"\s(?!(?:is|was|has|as|this|its)\b)[a-z]+s\b")


@dataclass(frozen=True)
class Literal:
    """A number as it is written.

    ``unit`` is what one step of its last digit is worth (with ``~``, of its last digit that is
    not zero), and 0 where nothing is rounded: in ``10^6``, or in a value computed from others.
    ``plain`` is an integer that no unit or exponent scales. ``flaw`` says what is wrong with the
    writing.
    """

    start: int
    end: int
    text: str
    value: Decimal = Decimal(0)
    unit: Decimal = Decimal(0)
    scale: Decimal = Decimal(1)
    plain: bool = False
    flaw: str = ""

    def agrees(self, value):
        return abs(self.value - value) <= self.unit / 2

    @property
    def small(self):
        return self.plain and abs(self.value) <= 12 and not self.flaw

    @property
    def shown(self):
        return " ".join(self.text.split())

    def negative(self):
        return replace(self, start=self.start - 1, text="-" + self.text, value=-self.value)

    def moved(self, by):
        return replace(self, start=self.start + by, end=self.end + by)


def read(match):
    """The literal of a match of PROSE or TEX."""
    group = match.groupdict()
    place = (match.start(), match.end(), match[0])
    grouped = (group["digits"] or "1").replace("{,}", ",")
    if not GROUPED.fullmatch(grouped):
        return Literal(*place, flaw=_ill_grouped(grouped))
    digits = grouped.replace(",", "")
    raised = group["e"] or (group["power"] or group["ten"] or "")[2:]
    power = int(re.sub(r"[\s^{}]", "", raised).translate(SUPERSCRIPTS) or 0)
    if abs(power) > LARGEST_POWER:
        return Literal(*place, flaw="is too large or too small to be checked")
    unit = re.sub(r"\\[a-z]+|[^A-Za-z%]", "", group["unit"] or "")
    scale = SCALES.get(unit, Decimal(1)).scaleb(power)
    number = Decimal(digits)
    last = (number.normalize() if group["approx"] else number).as_tuple().exponent
    exact = group["ten"] and not group["approx"]
    return Literal(
        *place,
        value=number * scale * (-1 if group["sign"] in ("-", "−") else 1),
        unit=Decimal(0) if exact else scale.scaleb(last),
        scale=scale,
        plain="." not in digits and scale == 1 and not raised,
    )


def _ill_grouped(digits):
    only = re.sub(r"[^\d.]", "", digits)
    such = "" if only.count(".") > 1 else f", as in {Decimal(only):,}"
    return f"is no number: write thousands in groups of three, with commas{such}"


def scan(text):
    """The literals of a running text; names with digits are none."""
    found = []
    for match in SCANNER.finditer(text):
        if match["name"]:
            continue
        literal = read(match)
        if re.match(r"\^|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]", text[literal.end :]):
            flaw = "is raised to a power: write that in math, as in $2^{10}$"
            literal = replace(literal, flaw=flaw)
        elif re.search(r"(?:^|[\s(])[–—]$", text[: literal.start]):
            literal = replace(literal, flaw="follows a dash that reads as a minus: write − or -")
        found.append(literal)
    return found


def tuple_before(text, end):
    """Where a tuple that ends at ``end`` starts, and its literals; or None."""
    if text[end - 1 : end] not in (")", "]"):
        return None
    start = max(text.rfind(opening, 0, end) for opening in "([")
    literals, at = [], start + 1
    for part in re.split(r"([,;]\s+)", text[at : end - 1]):
        if not re.fullmatch(r"[,;]\s+", part):
            inside = scan(part)
            if [one.text for one in inside] != [part.strip()] or inside[0].flaw:
                return None
            literals.append(inside[0].moved(at))
        at += len(part)
    return (start, literals) if start >= 0 and len(literals) > 1 else None


def literal_before(text, end, literals):
    """Where the number or tuple that ends at ``end`` starts, and its literals; or None."""
    if found := tuple_before(text, end):
        return found
    return next(((one.start, [one]) for one in literals if one.end == end), None)


def trailing_literal(text):
    """The span of the number or tuple at the very end, with its ``~``, sign and unit; or None."""
    found = literal_before(text, len(text), scan(text))
    return (found[0], len(text)) if found else None


def free(text, literal, tags=()):
    """Does this literal of ``text`` need no source? ``tags`` are the chapter's equation numbers."""
    before, after = text[: literal.start], text[literal.end :]
    if literal.small:
        return True
    if not re.fullmatch(r"\d+(?:\.\d+)*", literal.text):
        return False
    tagged = before.endswith("(") and after.startswith(")") and literal.text in tags
    version = re.match(r"\d\d?\b", literal.text) and PRODUCT.search(before)
    reference = len(literal.text) < 6 and REFERENCE.search(before)
    return bool(tagged or version or reference) or _is_year(before, literal.text, after)


def _is_year(before, digits, after):
    if not re.fullmatch(r"\d{4}", digits) or not 1800 <= int(digits) < 2040:
        return False
    if earlier := re.search(r"(\d{4})(?:[,;]\s|–|\sand\s|\sto\s)$", before):
        return _is_year(before[: earlier.start()], earlier[1], after)
    if AL.search(before) or (YEAR_AFTER_BRACKET.search(before) and after[:1] in (")", ",", ";")):
        return True
    dated = YEAR_AFTER_NAME.search(before) or YEAR_IN_TIME.search(before)
    return bool(dated) and not COUNTED.match(after)


def rewritten(literal, value):
    """The literal in the same form with the digits of ``value``; None where that cannot be."""
    match = re.search(r"\d[\d,{}]*(?:\.\d+)?|\.\d+", literal.text)
    step = literal.unit / literal.scale
    number = (abs(value) / literal.unit).to_integral_value() * step
    if number == 0 and value != 0:
        return None
    decimals = len(match[0].partition(".")[2])
    digits = f"{number:,.{decimals}f}"
    if "\\" in literal.text or "{" in literal.text:
        digits = digits.replace(",", "{,}")
    return literal.text[: match.start()] + digits + literal.text[match.end() :]


def wrong_size(literal, value):
    """Would the digits agree with ``value``, were it not for the unit or the exponent?"""
    if literal.scale == 1 and abs(literal.value / literal.unit) < 100:
        return False
    factors = [Decimal(10) ** n for n in range(-40, 41)]
    if re.search(r"[kKMGT]i?B", literal.text):
        factors += [Decimal(base) ** n for base in ("1024", "1.024") for n in range(-4, 5)]
    return any(abs(literal.value * f - value) <= literal.unit * f / 2 for f in factors)
