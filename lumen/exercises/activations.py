"""Exercise set *activations*: sigmoid, GELU, SiLU, dead units, and the width of a gate.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

ROOT_2 = math.sqrt(2)
ROOT_2_PI = math.sqrt(2 / math.pi)


def _numbers(values, dtype):
    return torch.tensor(values, dtype=dtype, device="cpu")


def _bend_cases(seed):
    """Inputs for a function of single numbers: all shapes, both sides, the middle, far out."""
    draw = Draw(seed)
    n, m = draw.between(3, 5), draw.between(6, 9)

    def case(label, x):
        return Case(label, {"x": x}, upstream=draw.normal(*x.shape, dtype=x.dtype))

    def right(label, x):
        # a single number has one upstream gradient, so it stands alone
        return case(label, x.abs() + 0.1)

    far = [-1000.0, -100.0, -90.0, 90.0, 100.0, 1000.0]
    return [
        case("a matrix", draw.normal(n, m)),
        case("a vector in float64", 2 * draw.normal(m, dtype=torch.float64)),
        case("three axes", draw.normal(2, n, m)),
        right("positive numbers only", draw.normal(n, 2)),
        case("negative numbers only", -draw.normal(m, 2).abs() - 0.1),
        case("a single number", draw.normal(1)),
        case("between -8 and 8, in float64", torch.linspace(-8, 8, 33, dtype=torch.float64)),
        case("zero among others", _numbers([-1.0, 0.0, 1.0], torch.float32)),
        case("far out", _numbers(far, torch.float32)),
        case("far out, in float64", _numbers([8 * x for x in far], torch.float64)),
        case("to the left, in float64", torch.linspace(-30, -20, 11, dtype=torch.float64)),
    ]


def _by_hand(x):
    """The logistic function as its formula reads; its gradient overflows on the left."""
    return 1 / (1 + torch.exp(-x))


def _erf(x, below=ROOT_2):
    return 0.5 * (1 + torch.erf(x / below))


def _loop(function):
    """A function of one number, asked for every number of x by itself."""

    def over(x):
        numbers = [function(number) for number in x.reshape(-1)]
        return torch.stack(numbers).reshape(x.shape)

    return over


_OVERFLOW = (
    "What comes out is right, what comes back is not a number: far from zero an exponential is"
    " infinite, and its gradient is infinity over infinity. Find a form that overflows on neither"
    " side. Which known function takes its numbers from both sides alike?"
)
_BRANCHES = (
    "What comes out is right, what comes back is not a number. Both branches of a `where` are"
    " computed, and the one that you hide still sends its gradient: infinity times zero. Make its"
    " input harmless before the exponential, not its output afterwards."
)


# activations.sigmoid


def sigmoid(x):
    return 0.5 * (1 + torch.tanh(0.5 * x))


def _hidden_branch(x):
    e = torch.exp(x)
    return torch.where(x >= 0, _by_hand(x), e / (1 + e))


def _safe_branches(x, size=lambda x: torch.where(x >= 0, x, -x)):
    e = torch.exp(-size(x))
    return torch.where(x >= 0, 1 / (1 + e), e / (1 + e))


SIGMOID = Question(
    name="activations.sigmoid",
    target="sigmoid",
    points=4,
    cases=_bend_cases,
    reference=sigmoid,
    mistakes={
        "overflow": (_by_hand, _OVERFLOW),
        "overflow-right": (
            lambda x: torch.exp(x) / (1 + torch.exp(x)),
            "Right on the left and in the middle. On the right the exponential overflows, and"
            " infinity over infinity is not a number. Dividing both parts by it moves the trouble"
            " to the other side. Is there a form that has it on neither?",
        ),
        "hidden-branch": (_hidden_branch, _BRANCHES),
        "absolute": (
            lambda x: _safe_branches(x, torch.abs),
            "Right in value everywhere, and in slope everywhere but in one place. Torch takes the"
            " slope of an absolute value at zero as 0, so nothing comes back from there.",
        ),
        "mirrored": (
            lambda x: sigmoid(-x),
            "Yours falls from one to zero. It should rise: look at the sign in the exponent.",
        ),
        "mirrored-overflow": (
            lambda x: 1 / (1 + torch.exp(x)),
            "Yours falls from one to zero. It should rise: look at the sign in the exponent. And"
            " when that is right, look at what comes back from far out: an exponential overflows.",
        ),
        "tanh": (
            torch.tanh,
            "That runs from minus one to one. The shape is right, in other units: what stretch and"
            " shift bring it to where it should be?",
        ),
        "unhalved": (
            lambda x: 0.5 * (1 + torch.tanh(x)),
            "It runs from zero to one and is too steep by a factor of two. Compare the slopes at"
            " zero: yours is one half. Where must the missing half go, inside or outside?",
        ),
        "hard": (
            F.hardsigmoid,
            "Yours is made of straight pieces, and exactly zero and one outside of them. The"
            " function asked for reaches neither.",
        ),
        **{
            f"clamped-{bound}": (
                lambda x, bound=bound: _by_hand(x.clamp(-bound, bound)),
                "Nothing overflows any more, but beyond your bounds the value stands still and the"
                " slope is exactly zero: what was cut off is lost. Change the form, not the"
                " input.",
            )
            for bound in (5, 6, 10, 15, 20)
        },
        "bell": (
            lambda x: sigmoid(x) * (1 - sigmoid(x)),
            "That is the slope. Asked for is the function itself.",
        ),
        "normal": (
            _erf,
            "Close, and too steep: you give the chance that a normal draw lies below x. It has"
            " nearly the same shape, and is another function.",
        ),
        **{
            name: (
                shares,
                "Your numbers depend on their neighbours: they share out one whole. Each number"
                " should be treated by itself.",
            )
            for name, shares in {
                "softmax": lambda x: torch.softmax(x, -1),
                "shares": lambda x: torch.exp(x) / torch.exp(x).sum(),
            }.items()
        },
    },
    alternatives={
        "torch": torch.sigmoid,
        "branches": _safe_branches,
        "softmax-of-two": lambda x: torch.softmax(torch.stack([x, torch.zeros_like(x)]), 0)[0],
        "logarithm": lambda x: torch.exp(-F.softplus(-x)),
        "loop": _loop(lambda number: 0.5 + 0.5 * torch.tanh(number / 2)),
    },
)


# activations.gelu


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _tanh_fit(x, inner=ROOT_2_PI, cubic=0.044715):
    return 0.5 * x * (1 + torch.tanh(inner * (x + cubic * x**3)))


def _bell(x):
    return torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


_FIT = (
    "You are within a thousandth, and that is not rounding: this is the fit by tanh that GPT-2"
    " takes. Asked for is the exact function, with the chance that a normal draw lies below x."
)
_CONSTANT = (
    "A fit by tanh, and one of its constants is not what it should be. Leave the fit alone: asked"
    " for is the exact function, with the chance that a normal draw lies below x."
)

GELU = Question(
    name="activations.gelu",
    target="gelu",
    points=4,
    cases=_bend_cases,
    reference=gelu,
    mistakes={
        "tanh-fit": (_tanh_fit, _FIT),
        "tanh-fit-decimal": (lambda x: _tanh_fit(x, 0.44715), _CONSTANT),
        "tanh-fit-cubic": (lambda x: _tanh_fit(x, cubic=0.44715), _CONSTANT),
        "tanh-fit-inverted": (lambda x: _tanh_fit(x, 1 / ROOT_2_PI), _CONSTANT),
        "tanh-fit-bracket": (
            lambda x: 0.5 * x * (1 + torch.tanh(ROOT_2_PI * x + 0.044715 * x**3)),
            "A fit by tanh, with a bracket in the wrong place. Leave the fit alone: asked for is"
            " the exact function, with the chance that a normal draw lies below x.",
        ),
        "tanh-fit-root": (lambda x: _tanh_fit(x, 2 / math.pi), _CONSTANT),
        "sigmoid-fit": (
            lambda x: x * sigmoid(1.702 * x),
            "You are within two hundredths: this is a fit by a sigmoid. Asked for is the exact"
            " function, with the chance that a normal draw lies below x.",
        ),
        "silu": (
            lambda x: x * sigmoid(x),
            "The right idea with another switch: yours opens by the logistic function, and more"
            " slowly. The switch asked for is the chance that a normal draw lies below x.",
        ),
        "relu": (
            torch.relu,
            "Yours has a corner at zero, and nothing at all below it. The switch asked for is a"
            " chance: between its ends it is half open.",
        ),
        "density": (
            lambda x: x * _bell(x),
            "Yours dies out on both sides. You have multiplied by how *dense* normal draws are"
            " at x. Asked for is how many of them lie *below* x.",
        ),
        "no-root": (
            lambda x: x * _erf(x, 1),
            "The right shape, too steep. The error function belongs to a bell of another width"
            " than the standard normal one: by what is its argument divided?",
        ),
        "root-times": (
            lambda x: x * _erf(x, 1 / ROOT_2),
            "The right shape, too steep. The width of the bell goes into the argument of the error"
            " function, and yours goes the wrong way.",
        ),
        "root-outside": (
            lambda x: 0.5 * x * (1 + torch.erf(x) / ROOT_2),
            "Far out your numbers are not those that went in: the switch never opens all the way."
            " A root stands outside of the error function that belongs inside.",
        ),
        "half-inside": (
            lambda x: x * _erf(x, 2),
            "The right shape, not steep enough. The argument of the error function is divided by"
            " something smaller than two.",
        ),
        "above": (
            lambda x: x * _erf(-x),
            "Yours opens to the left: you give the chance that a draw lies *above* x.",
        ),
        "unhalved": (
            lambda x: 2 * gelu(x),
            "Twice too much everywhere. The error function runs from minus one to one; a chance"
            " runs from zero to one.",
        ),
        "erf-alone": (
            lambda x: x * torch.erf(x / ROOT_2),
            "Positive on both sides. The error function runs from minus one to one; the chance"
            " that is asked for runs from zero to one.",
        ),
        "switch-alone": (
            _erf,
            "That is the switch alone, from zero to one. What does it switch?",
        ),
        "slope": (
            lambda x: _erf(x) + x * _bell(x),
            "That is the slope. Asked for is the function itself.",
        ),
    },
    alternatives={
        "torch": F.gelu,
        "erfc": lambda x: 0.5 * x * torch.erfc(-x / ROOT_2),
        "cdf": lambda x: x * torch.distributions.Normal(0.0, 1.0).cdf(x),
        "special": lambda x: x * torch.special.ndtr(x),
        "loop": _loop(lambda number: number * (1 + torch.erf(number * 0.5**0.5)) / 2),
    },
)


# activations.silu


def silu(x):
    return 0.5 * x * (1 + torch.tanh(0.5 * x))


def _positive_only(x):
    return torch.where(x > 0, silu(x), torch.zeros_like(x))


SILU = Question(
    name="activations.silu",
    target="silu",
    points=4,
    cases=_bend_cases,
    reference=silu,
    mistakes={
        "zero-left": (
            _positive_only,
            "Right on the right. On the left yours is zero, as a ReLU is; but the gate there is"
            " only half shut, and what it lets pass is negative.",
        ),
        "of-absolute": (
            lambda x: silu(x.abs()),
            "Right on the right. On the left yours rises again: something has lost its sign before"
            " it came to the gate.",
        ),
        "absolute-number": (
            lambda x: x.abs() * sigmoid(x),
            "Right on the right. On the left yours has the right size and the wrong sign.",
        ),
        "absolute-gate": (
            lambda x: x * sigmoid(x.abs()),
            "Right on the right. On the left your gate is open: it must shut there, and it cannot"
            " tell the sides apart.",
        ),
        "overflow": (lambda x: x * _by_hand(x), _OVERFLOW),
        "overflow-right": (
            lambda x: x * torch.exp(x) / (1 + torch.exp(x)),
            "Right on the left and in the middle. On the right the exponential overflows, and"
            " infinity over infinity is not a number.",
        ),
        "hidden-branch": (lambda x: x * _hidden_branch(x), _BRANCHES),
        "gate-alone": (
            sigmoid,
            "That is the gate alone, from zero to one. What passes through it?",
        ),
        "mirrored": (
            lambda x: x * sigmoid(-x),
            "Your gate opens to the left. It should let large numbers pass.",
        ),
        "mirrored-overflow": (
            lambda x: x / (1 + torch.exp(x)),
            "Your gate opens to the left. It should let large numbers pass. And when that is right,"
            " look at what comes back from far out: an exponential overflows.",
        ),
        "softmax": (
            lambda x: x * torch.softmax(x, -1),
            "Your numbers depend on their neighbours: the gates share out one whole. Each number"
            " should open its own.",
        ),
        "gelu": (
            gelu,
            "The right idea with another gate: yours opens like the chance of a normal draw. The"
            " gate asked for is the logistic function.",
        ),
        "gelu-fit": (
            lambda x: x * sigmoid(1.702 * x),
            "Your gate is steeper than the one asked for. The constant in it makes a GELU out of"
            " this function.",
        ),
        "relu": (
            torch.relu,
            "Yours has a corner at zero, and nothing at all below it. The gate asked for is the"
            " logistic function: at zero it is half open.",
        ),
        "tanh-gate": (
            lambda x: x * torch.tanh(x),
            "Positive on both sides. Your gate runs from minus one to one and turns the sign of"
            " what it should shut out.",
        ),
        "softplus-gate": (
            lambda x: x * torch.tanh(F.softplus(x)),
            "A relative of the function asked for, and steeper. The gate here is the logistic"
            " function alone.",
        ),
        "slope": (
            lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
            "That is the slope. Asked for is the function itself.",
        ),
    },
    alternatives={
        "torch": F.silu,
        "sigmoid": lambda x: x * torch.sigmoid(x),
        "branches": lambda x: x * _safe_branches(x),
        "loop": _loop(lambda number: number * torch.sigmoid(number)),
    },
)


# activations.dead


def dead_units(z):
    return int((z <= 0).flatten(0, -2).all(0).sum())


def _dead_cases(seed):
    draw = Draw(seed)
    n, units = draw.between(6, 9), draw.between(10, 14)

    def layer(*shape, dead, dtype=torch.float32):
        """Pre-activations of which the given units are below zero throughout."""
        z = draw.normal(*shape, dtype=dtype)
        z[..., 0, :] = -z[..., 0, :].abs() - 0.1
        z[..., 1, :] = z[..., 1, :].abs() + 0.1
        z[..., dead] = -z[..., dead].abs() - 0.1
        return z

    edge = layer(n, units, dead=[0, 2])
    edge[:, 4] = 0
    edge[:, 5] = 0
    edge[2, 5] = 0.01
    edge[:, 6] = -0.01
    edge[2, 6] = 0
    rows = layer(n, units, dead=[1, 2, 3])
    rows[3] = -1
    rows[4] = -2
    part = layer(3, n, units, dead=[])
    part[:2, :, 0] = -1
    part[2, :, 1] = -1
    drift = layer(n, units, dead=[3])
    drift[:, 5] = -5
    drift[2, 5] = 1
    drift[:, 7] = 5
    drift[2, 7] = -1
    return [
        Case("a matrix", {"z": layer(n, units, dead=[0, 3, 4])}),
        Case("no unit is dead", {"z": layer(n, units, dead=[])}),
        Case("all units are dead", {"z": layer(n, units, dead=list(range(units)))}),
        Case("exactly zero", {"z": edge}),
        Case("two examples silence everyone", {"z": rows}),
        Case("a unit that is low on average, and one that is low once", {"z": drift}),
        Case("a batch of sequences", {"z": layer(2, n, units, dead=[1, 5])}),
        Case("silent in one sequence, not in another", {"z": part}),
        Case("four axes, in float64", {"z": layer(2, 2, 3, units, dead=[2], dtype=torch.float64)}),
        Case("one example", {"z": _numbers([[-1.0, 2.0, -0.5]], torch.float32)}),
        Case("one unit", {"z": -draw.normal(n, 1).abs() - 0.1}),
        Case("a gentle layer", {"z": 0.001 * layer(n, units, dead=[1, 2])}),
    ]


def _flat(z):
    return z.flatten(0, -2)


def _loop_dead(z):
    rows = z.reshape(-1, z.size(-1)).tolist()
    return sum(1 for unit in zip(*rows, strict=True) if max(unit) <= 0)


_SLOPE_AT_ZERO = (
    "Right except where a pre-activation is exactly zero. What slope does ReLU have there, and does"
    " a gradient get through?"
)

DEAD = Question(
    name="activations.dead",
    target="dead_units",
    points=4,
    cases=_dead_cases,
    reference=dead_units,
    mistakes={
        "outputs": (
            lambda z: int((z <= 0).sum()),
            "You count outputs. About half of all outputs of a ReLU are zero when all is well."
            " A unit is dead when *none* of its outputs is above zero.",
        ),
        "examples": (
            lambda z: int((_flat(z) <= 0).all(1).sum()),
            "You count the examples on which all units are silent. Wanted are the units that are"
            " silent on all examples: which axis holds what?",
        ),
        "some": (
            lambda z: int((_flat(z) <= 0).any(0).sum()),
            "You count units that are silent on *some* example. That is what makes them useful: a"
            " unit that is never silent bends nothing.",
        ),
        "alive": (
            lambda z: z.size(-1) - dead_units(z),
            "These are the others: the units that some example switches on.",
        ),
        "strict": (lambda z: int((_flat(z) < 0).all(0).sum()), _SLOPE_AT_ZERO),
        "average": (
            lambda z: int((_flat(z).mean(0) <= 0).sum()),
            "A unit may be low on average and still have an example that switches it on. One is"
            " enough for a gradient.",
        ),
        "first": (
            lambda z: int((_flat(z)[0] <= 0).sum()),
            "You look at a single example. A unit is dead when it is silent on all of them.",
        ),
        "share": (
            lambda z: dead_units(z) / z.size(-1),
            "That is the share of dead units. Asked for is how many there are, a whole number.",
        ),
        "tensor": (
            lambda z: (_flat(z) <= 0).all(0).sum(),
            "The number is right, and it comes in a tensor. Asked for is a Python integer.",
        ),
        "which": (
            lambda z: (_flat(z) <= 0).all(0),
            "You say which units are dead. Asked for is how many.",
        ),
        "first-axis": (
            lambda z: int((z <= 0).all(0).sum()),
            "Right for a matrix. With more axes you count places: the last axis holds the units,"
            " and all axes in front of it hold examples.",
        ),
        "by-sequence": (
            lambda z: int((z <= 0).all(-2).sum()),
            "Right for a matrix. With more axes you count a unit once for each sequence: it must be"
            " silent in all of them, and it is still one unit.",
        ),
        "any-sequence": (
            lambda z: int((z <= 0).all(-2).reshape(-1, z.size(-1)).any(0).sum()),
            "A unit that is silent in one sequence may well speak in another. Take all axes in"
            " front of the last together.",
        ),
        "nearly": (
            lambda z: int((_flat(z) <= 0.05).all(0).sum()),
            "Small is not dead: a unit a little above zero has a slope of one.",
        ),
        "zero-only": (
            lambda z: int((_flat(z) == 0).all(0).sum()),
            "You look for exact zeros. They are what comes *out* of a ReLU; you are given what goes"
            " in.",
        ),
    },
    alternatives={
        "largest": lambda z: int((_flat(z).amax(0) <= 0).sum()),
        "relu": lambda z: int((torch.relu(_flat(z)).sum(0) == 0).sum()),
        "loop": _loop_dead,
        "all-but-the-living": lambda z: z.size(-1) - int((_flat(z) > 0).any(0).sum()),
    },
)


# activations.width


def swiglu_width(d, multiple_of=256):
    d_ff = 8 * d // 3
    return (d_ff + multiple_of - 1) // multiple_of * multiple_of


def _width_cases(seed):
    draw = Draw(seed)
    d, multiple = draw.between(400, 900), draw.between(5, 60)

    def case(label, d, **kwargs):
        return Case(label, {"d": d}, kwargs)

    return [
        case("a token of 4,096 numbers", 4096),
        case("a token of 5,120 numbers", 5120),
        case("a token of 768 numbers", 768),
        case("another width", d),
        case("another multiple", d, multiple_of=multiple),
        case("a width that divides by three", 3 * d, multiple_of=8),
        case("multiples of one", 4096, multiple_of=1),
        case("a multiple below the exact width", 4, multiple_of=10),
        case("a narrow token", 1),
        Case("all by position", {"d": 2 * d, "multiple_of": 64}),
        case("a coarse multiple", 8192, multiple_of=4096),
    ]


def _rounded(wanted, up=True):
    """A width by Llama's rounding, from another width wanted."""

    def wrong(d, multiple_of=256):
        d_ff = wanted(d)
        return int(-(-d_ff // multiple_of) if up else d_ff // multiple_of) * multiple_of

    return wrong


def _loop_width(d, multiple_of=256):
    d_ff = int(Fraction(8, 3) * d)
    extra = -d_ff % multiple_of
    return d_ff + extra


WIDTH = Question(
    name="activations.width",
    target="swiglu_width",
    points=4,
    cases=_width_cases,
    reference=swiglu_width,
    mistakes={
        "four": (
            _rounded(lambda d: 4 * d),
            "Yours costs half as much again as the dense pair: three matrices of the width that"
            " was meant for two. Write down the weights of both, and solve for the width.",
        ),
        "two-thirds": (
            _rounded(lambda d: 2 * d // 3),
            "You take two thirds of the token's width. The factor belongs to the width of the dense"
            " pair's hidden layer, which is four times that.",
        ),
        "two": (
            _rounded(lambda d: 2 * d),
            "You shared out the weights as if there were four matrices. Count them again.",
        ),
        "three-halves": (
            _rounded(lambda d: 6 * d),
            "More matrices for the same weights must be narrower, not wider.",
        ),
        "not-rounded": (
            lambda d, multiple_of=256: 8 * d // 3,
            "The width for equal weights, and right so far. It should end on a multiple.",
        ),
        "not-rounded-up": (
            lambda d, multiple_of=256: math.ceil(Fraction(8 * d, 3)),
            "The width for equal weights. It should end on a multiple, and before that its"
            " fraction is dropped.",
        ),
        "nearest-exact": (
            lambda d, multiple_of=256: round(Fraction(8 * d, 3 * multiple_of)) * multiple_of,
            "You end on the nearest multiple. The rule drops the fraction, then goes up to a"
            " multiple, and stays where one is met.",
        ),
        "down": (
            _rounded(lambda d: 8 * d // 3, up=False),
            "You end on the multiple below. The rule goes up, and stays where a multiple is met.",
        ),
        "nearest": (
            lambda d, multiple_of=256: round(8 * d // 3 / multiple_of) * multiple_of,
            "You end on the nearest multiple. The rule goes up, and stays where a multiple is met.",
        ),
        "one-more": (
            lambda d, multiple_of=256: (8 * d // 3 // multiple_of + 1) * multiple_of,
            "Right until the width is a multiple already. Then it should stay as it is.",
        ),
        "ceiling-first": (
            lambda d, multiple_of=256: math.ceil(Fraction(8 * d, 3 * multiple_of)) * multiple_of,
            "Nearly always right. Before the multiples come in, the fraction is dropped; yours is"
            " rounded up first.",
        ),
        "fixed-multiple": (
            lambda d, multiple_of=256: swiglu_width(d),
            "Right for multiples of one number only. It is an argument.",
        ),
        "float": (
            lambda d, multiple_of=256: float(swiglu_width(d, multiple_of)),
            "The number is right, its type is not. There is no part of a unit: keep to whole"
            " numbers.",
        ),
        "weights": (
            lambda d, multiple_of=256: 3 * d * swiglu_width(d, multiple_of),
            "That is the number of weights. Asked for is the width.",
        ),
    },
    alternatives={
        "negative": lambda d, multiple_of=256: -(-(8 * d // 3) // multiple_of) * multiple_of,
        "remainder": _loop_width,
        "floats": lambda d, multiple_of=256: multiple_of * math.ceil(int(8 * d / 3) / multiple_of),
        "llama": lambda d, multiple_of=256: (
            multiple_of * ((2 * (4 * d) // 3 + multiple_of - 1) // multiple_of)
        ),
    },
)


QUESTIONS = (SIGMOID, GELU, SILU, DEAD, WIDTH)
