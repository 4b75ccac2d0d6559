"""Exercise set *initialisation*: one layer, a chain of them, a rule by name, a measured start.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
import re
from functools import reduce

import torch

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# initialisation.spread


def weight_std(shape, share=0.5, fan="in"):
    n_out, n_in, *kernel = shape
    width = n_in if fan == "in" else n_out
    return 1 / math.sqrt(width * math.prod(kernel) * share)


def _spread_cases(seed):
    draw = Draw(seed)
    n, m, k = draw.between(20, 40), draw.between(50, 90), draw.between(2, 4)

    def case(label, *shape, **kwargs):
        return Case(label, {"shape": shape}, kwargs)

    return [
        case("a dense layer", m, n),
        case("a square layer", n, n),
        case("one number in", m, 1),
        case("no bend behind it", m, n, share=1),
        case("a bend that keeps a quarter", n, m, share=0.25),
        case("another share", n, m, share=0.3 + draw.between(1, 9) / 100),
        case("a convolution", m, n, 3, 3),
        case("a convolution along one axis", n, m, k),
        case("fan-out", m, n, fan="out"),
        case("a convolution, fan-out, no bend", m, n, k + 1, k, share=1.0, fan="out"),
    ]


def _std(
    fans=lambda n_in, n_out, fan: n_in if fan == "in" else n_out,
    kernel=math.prod,
    end=lambda n, share: 1 / math.sqrt(n * share),
):
    """The spread, with some of its choices replaced."""

    def wrong(shape, share=0.5, fan="in"):
        n_out, n_in, *sizes = shape
        return end(fans(n_in, n_out, fan) * kernel(sizes), share)

    return wrong


def _by_meta(shape, share=0.5, fan="in"):
    weight = torch.empty(shape, device="meta")
    rows = weight[0] if fan == "in" else weight[:, 0]
    return (rows.numel() * share) ** -0.5


def _as_gain(shape, share=0.5, fan="in"):
    n = reduce(lambda a, b: a * b, shape[2:], shape[1] if fan == "in" else shape[0])
    return math.exp(-0.5 * (math.log(n) + math.log(share)))


_KERNEL = (
    "Right for dense layers. One output of a convolution is a sum over every channel, and over"
    " what else?"
)
_SWAPPED = (
    "Right where as many numbers go in as come out. Which of the first two sizes counts the terms"
    " of one output's sum?"
)

SPREAD = Question(
    name="initialisation.spread",
    target="weight_std",
    points=3,
    cases=_spread_cases,
    reference=weight_std,
    mistakes={
        "swapped": (_std(lambda n_in, n_out, fan: n_out if fan == "in" else n_in), _SWAPPED),
        "always-in": (
            _std(lambda n_in, n_out, fan: n_in),
            "One of the arguments never changes your answer: it says which of the two sums is to"
            " be kept.",
        ),
        "always-out": (
            _std(lambda n_in, n_out, fan: n_out),
            both(_SWAPPED, "And one of the arguments never changes your answer."),
        ),
        "middle": (
            _std(lambda n_in, n_out, fan: (n_in + n_out) / 2),
            "You take the middle of both fans. Asked for is the one that is named, kept exactly.",
        ),
        "no-kernel": (_std(kernel=lambda sizes: 1), _KERNEL),
        "one-side": (
            _std(kernel=lambda sizes: sizes[0] if sizes else 1),
            "Right unless a kernel has two sides. How many places does it cover?",
        ),
        "variance": (
            _std(end=lambda n, share: 1 / (n * share)),
            "That is the variance of a weight. The draw is asked for its standard deviation.",
        ),
        "share-above": (
            _std(end=lambda n, share: math.sqrt(share / n)),
            "A bend that hands on less needs larger weights in front of it. Yours get smaller.",
        ),
        "no-share": (
            _std(end=lambda n, share: 1 / math.sqrt(n)),
            "Right where there is no bend. Else your layer hands on only what the bend leaves.",
        ),
        "always-two": (
            _std(end=lambda n, share: math.sqrt(2 / n)),
            "Right behind ReLU only. Its half is one share among many, and you were given it.",
        ),
        "share-outside": (
            _std(end=lambda n, share: 1 / (share * math.sqrt(n))),
            "The share is one of mean squares, and your spread is not squared. On which side of"
            " the root does it belong?",
        ),
        "bound": (
            _std(end=lambda n, share: math.sqrt(3 / (n * share))),
            "That is how far a *uniform* draw must reach to have the spread that is asked for.",
        ),
    },
    alternatives={"by-meta": _by_meta, "as-gain": _as_gain},
)


# initialisation.chain


def kept(widths, variances):
    signal = gradient = 1.0
    for n, m, v in zip(widths, widths[1:], variances, strict=False):
        signal = signal * n * v / 2
        gradient = gradient * m * v / 2
    return signal, gradient


def _chain_cases(seed):
    draw = Draw(seed)

    def widths(layers):
        return tuple(draw.between(8, 60) for _ in range(layers + 1))

    def case(label, sizes, rule):
        pairs = zip(sizes, sizes[1:], strict=False)
        return Case(label, {"widths": sizes, "variances": tuple(rule(n, m) for n, m in pairs)})

    wide, long = draw.between(16, 32), draw.between(20, 40)
    return [
        case("one layer", widths(1), lambda n, m: 1 / n),
        case("fan-in", widths(3), lambda n, m: 2 / n),
        case("fan-out", widths(4), lambda n, m: 2 / m),
        case("the middle, wider and back", (wide, 4 * wide, wide), lambda n, m: 2 / (n + m)),
        case("one number in, one out", (1, wide, 1), lambda n, m: 0.3),
        case("a constant variance", widths(5), lambda n, m: 0.02),
        case("a long stack", (wide,) * long, lambda n, m: 1 / (3 * n)),
        case("another variance for each layer", widths(4), lambda n, m: draw.between(1, 9) / 50),
    ]


def _chain(
    signal=lambda n, m, v: n * v / 2,
    gradient=lambda n, m, v: m * v / 2,
    last=lambda both: both,
):
    def wrong(widths, variances):
        layers = list(zip(widths, widths[1:], variances, strict=False))
        ends = [math.prod(rule(*layer) for layer in layers) for rule in (signal, gradient)]
        return tuple(last(ends))

    return wrong


def _by_fans(widths, variances):
    scale = math.prod(variances) / 2 ** len(variances)
    return math.prod(widths[:-1]) * scale, math.prod(widths[1:]) * scale


def _in_logarithms(widths, variances):
    halves = sum(math.log(v / 2) for v in variances)
    logs = [math.log(width) for width in widths]
    return math.exp(halves + sum(logs) - logs[-1]), math.exp(halves + sum(logs) - logs[0])


_HALF = "Your numbers are too large, more so with each layer. What does a ReLU hand on, and "

CHAIN = Question(
    name="initialisation.chain",
    target="kept",
    points=2,
    cases=_chain_cases,
    reference=kept,
    mistakes={
        "no-bend": (
            _chain(lambda n, m, v: n * v, lambda n, m, v: m * v),
            _HALF + "what is the mean square of its slope?",
        ),
        "half-forward": (
            _chain(gradient=lambda n, m, v: m * v),
            "The signal is right. For the gradient, half of the slopes are zero as well.",
        ),
        "half-back": (
            _chain(signal=lambda n, m, v: n * v),
            "The gradient is right. Of the signal, each bend lets a share through.",
        ),
        "same-fan": (
            _chain(gradient=lambda n, m, v: n * v / 2),
            "The signal is right. On the way back a sum runs over what came *out* of the layer.",
        ),
        "exchanged": (
            _chain(lambda n, m, v: m * v / 2, lambda n, m, v: n * v / 2),
            "Two right numbers in each other's place. How many terms has a sum on the way up?",
        ),
        "spreads": (
            _chain(lambda n, m, v: n * v * v / 2, lambda n, m, v: m * v * v / 2),
            "You square what is a variance already.",
        ),
        "roots": (
            _chain(last=lambda ends: [math.sqrt(end) for end in ends]),
            "You give factors of sizes. Asked for are factors of mean *squares*.",
        ),
        "once": (
            lambda widths, variances: (
                widths[0] * variances[0] / 2,
                widths[1] * variances[0] / 2,
            ),
            "Right for one layer. The others have a say too.",
        ),
        "one-half": (
            _chain(
                lambda n, m, v: n * v,
                lambda n, m, v: m * v,
                lambda ends: [end / 2 for end in ends],
            ),
            "Right for one layer. With more of them there is more than one bend.",
        ),
        "inverted": (
            _chain(last=lambda ends: [1 / end for end in ends]),
            "You say by how much the end is too small. Asked for is what is left.",
        ),
    },
    alternatives={"by-fans": _by_fans, "in-logarithms": _in_logarithms},
)


# initialisation.rule


def drawn_std(name, n_layers, std=0.02):
    if name.endswith(".bias"):
        return 0.0
    if name.endswith((".attn.out.weight", ".mlp.proj.weight", ".mlp.w_down.weight")):
        return std / math.sqrt(2 * n_layers)
    return std


_WRITERS = ("attn.out", "mlp.proj", "mlp.w_down")


def _rule_cases(seed):
    draw = Draw(seed)
    at, layers = draw.between(0, 9), draw.between(10, 48)

    def case(name, n_layers=layers, **kwargs):
        label = name + (f", {n_layers} blocks" if n_layers != layers else "")
        return Case(label, {"name": name, "n_layers": n_layers}, kwargs)

    return [
        case("tokens.weight"),
        case(f"blocks.{at}.attn.q.weight"),
        case(f"blocks.{at}.attn.out.weight"),
        case(f"blocks.{at}.attn.out.bias"),
        case(f"blocks.{at}.mlp.fc.weight"),
        case(f"blocks.{at}.mlp.proj.weight"),
        case(f"blocks.{at}.mlp.fc.bias"),
        case(f"blocks.{at}.mlp.proj.bias", std=0.1),
        case(f"blocks.{at}.mlp.w_down.weight"),
        case(f"blocks.{at}.mlp.w_up.weight"),
        case("blocks.0.mlp.w_gate.weight", std=0.01),
        case("blocks.0.mlp.w_down.weight", 1),
        case("blocks.0.attn.out.weight", 1, std=0.5),
        case("patches.proj.weight"),
        case("head.out.weight", std=0.05),
    ]


def _rule(
    writers=_WRITERS,
    found=lambda name, writers: name.removesuffix(".weight").endswith(writers),
    scaled=lambda std, n_layers: std / math.sqrt(2 * n_layers),
    offset=lambda std, n_layers, writes: 0.0,
):
    """The rule, with some of its parts replaced."""

    def wrong(name, n_layers, std=0.02):
        if name.endswith("bias"):
            return offset(std, n_layers, found(name.replace("bias", "weight"), writers))
        return scaled(std, n_layers) if found(name, writers) else std

    return wrong


def _by_parts(name, n_layers, std=0.02):
    *_, layer, matrix, kind = ["", "", *name.split(".")]
    if kind == "bias":
        return 0.0
    writes = (layer, matrix) in {("attn", "out"), ("mlp", "proj"), ("mlp", "w_down")}
    return std * (2 * n_layers) ** (-0.5 if writes else 0)


def _by_pattern(name, n_layers, std=0.02):

    if re.search(r"\.bias$", name):
        return 0.0
    if re.search(r"\.(attn\.out|mlp\.(proj|w_down))\.weight$", name):
        return (std**2 / (2 * n_layers)) ** 0.5
    return std


_TWICE = "Count the writes to the stream again. A block adds to it more than once."

RULE = Question(
    name="initialisation.rule",
    target="drawn_std",
    points=2,
    cases=_rule_cases,
    reference=drawn_std,
    mistakes={
        # the published rule, and a layer that came later
        "no-swiglu": (
            _rule(_WRITERS[:2]),
            "Right for GPT-2. A gated MLP writes to the stream through a matrix of another name.",
        ),
        "no-attention": (
            _rule(_WRITERS[1:]),
            "The MLPs are right. Who else writes to the stream?",
        ),
        "no-mlp": (
            _rule(_WRITERS[:1]),
            "Attention is right. Who else writes to the stream?",
        ),
        # huggingface/transformers#47478
        "whole-name": (
            _rule(found=lambda name, writers: name in writers),
            "No writer is ever found. Print a name that you are given, and one that you compare"
            " it with.",
        ),
        "last-part": (
            _rule(found=lambda name, writers: name.split(".")[-2] in ("out", "proj", "w_down")),
            "You find too many. A matrix of that name need not belong to a block's branch.",
        ),
        "all-gates": (
            _rule((*_WRITERS, "mlp.w_up", "mlp.w_gate")),
            "Three matrices of a gated MLP are drawn smaller in your answer. Only one of them"
            " writes; the others read.",
        ),
        "all-branches": (
            _rule(found=lambda name, writers: name.startswith("blocks.")),
            "You draw whole branches smaller. What is written is settled by their last matrix"
            " alone, or the write shrinks more than once.",
        ),
        "once": (_rule(scaled=lambda std, n_layers: std / math.sqrt(n_layers)), _TWICE),
        "no-root": (
            _rule(scaled=lambda std, n_layers: std / (2 * n_layers)),
            "Independent writes add in variance, not in size. Yours come to less and less with"
            " depth.",
        ),
        "two-outside": (
            _rule(scaled=lambda std, n_layers: std / (2 * math.sqrt(n_layers))),
            "Nearly: the two counts writes as the other factor does. Where does it belong?",
        ),
        "offsets-drawn": (
            _rule(offset=lambda std, n_layers, writes: std),
            "The matrices are right. Offsets are not drawn.",
        ),
        "offsets-scaled": (
            _rule(
                offset=lambda std, n_layers, writes: (
                    std / math.sqrt(2 * n_layers) if writes else std
                )
            ),
            "The matrices are right. You treat an offset like the matrix beside it, and offsets"
            " are not drawn.",
        ),
        "fixed-std": (
            lambda name, n_layers, std=0.02: drawn_std(name, n_layers),
            "Right until somebody asks for another spread than the usual one. An argument of yours"
            " is never looked at.",
        ),
    },
    alternatives={"by-parts": _by_parts, "by-pattern": _by_pattern},
)


# initialisation.measured


def rescaled(x, weights):
    scaled = []
    for weight in weights:
        z = x @ weight.mT
        size = z.square().mean().sqrt()
        scaled.append(weight / size)
        x = torch.relu(z / size)
    return torch.stack(scaled)


def _measured_cases(seed):
    draw = Draw(seed)
    b, n = draw.between(9, 14), draw.between(5, 8)

    def case(label, examples, width, layers, dtype=F32, spread=1.0, far=0.0):
        inputs = {
            "x": draw.normal(examples, width, dtype=dtype) + far,
            "weights": spread * draw.normal(layers, width, width, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(layers, width, width, dtype=dtype))

    return [
        case("three layers", b, n, 3),
        case("one layer", b + 1, n, 1),
        case("as many examples as units, in float64", n + 2, n + 2, 2, F64),
        case("one number in one layer, in float64", b, 1, 1, F64),
        case("weights far too small, in float64", b + 2, n, 4, F64, 1e-3),
        case("weights far too large", b, n + 1, 2, spread=100.0),
        case("inputs far from zero, in float64", b, n + 3, 3, F64, far=3.0),
    ]


def _measure(
    product=lambda x, weight: x @ weight.mT,
    size=lambda z: z.square().mean().sqrt(),
    on=lambda z, size: torch.relu(z / size),
    cut=lambda size: size,
):
    """Layer by layer, with some of the steps replaced."""

    def wrong(x, weights):
        scaled = []
        for weight in weights:
            z = product(x, weight)
            by = cut(size(z))
            scaled.append(weight / by)
            x = on(z, by)
        return torch.stack(scaled)

    return wrong


def _by_ratios(x, weights):
    # a ReLU does not mind a factor, so sizes of the stack as it came are enough
    sizes, ones = [], torch.ones((), dtype=x.dtype)
    for weight in weights:
        z = torch.einsum("bi,oi->bo", x, weight)
        sizes.append((z * z).sum().div(z.numel()) ** 0.5)
        x = z.clamp(min=0)
    before = torch.stack([ones, *sizes[:-1]])
    return weights * (before / torch.stack(sizes))[:, None, None]


def _by_norm(x, weights):
    done = []
    for weight in weights.unbind(0):
        z = torch.nn.functional.linear(x, weight)
        factor = math.sqrt(z.numel()) / torch.linalg.vector_norm(z)
        done.append(factor * weight)
        x = torch.nn.functional.relu(factor * z)
    return torch.stack(done, 0)


MEASURED = Question(
    name="initialisation.measured",
    target="rescaled",
    points=3,
    cases=_measured_cases,
    reference=rescaled,
    mistakes={
        "centred": (
            _measure(size=lambda z: z.std(unbiased=False)),
            "You divide by the spread around the mean. What is to be one is the mean square, and a"
            " mean is part of it.",
        ),
        "centred-less-one": (
            _measure(size=lambda z: z.std()),
            "You divide by the spread around the mean, and by one number less. What is to be one"
            " is the mean square, over all numbers.",
        ),
        "no-root": (
            _measure(size=lambda z: z.square().mean()),
            "Double the weights you were given, and what you return halves. In what units is a"
            " mean square?",
        ),
        "no-bend": (
            _measure(on=lambda z, size: z / size),
            "Right for one layer. Something stands between a layer and the next.",
        ),
        "not-handed-on": (
            _measure(on=lambda z, size: torch.relu(z)),
            "Right for one layer. What does the second layer receive, once the first has been"
            " rescaled?",
        ),
        "each-alone": (
            lambda x, weights: torch.stack(
                [weight / (x @ weight.mT).square().mean().sqrt() for weight in weights]
            ),
            "Right for one layer. You show every layer the inputs of the first.",
        ),
        "behind-the-bend": (
            _measure(size=lambda z: torch.relu(z).square().mean().sqrt()),
            "You measure behind the bend. Asked for is one in front of it.",
        ),
        "transposed": (
            _measure(product=lambda x, weight: x @ weight),
            "Shapes agree, since the layers are square. Which axis of a weight meets the input?",
        ),
        "per-unit": (
            _measure(size=lambda z: z.square().mean(0).sqrt()),
            "You scale each unit, or each input, by a factor of its own. Asked for is one factor"
            " for the whole layer.",
        ),
        "by-formula": (
            lambda x, weights: weights * math.sqrt(2 / weights.size(-1)),
            "You apply a formula to weights that were drawn with any spread. Here nothing is"
            " known about them: measure.",
        ),
        "detached": (
            _measure(cut=lambda size: size.detach()),
            "What goes forward is right. What comes back treats the measured sizes as constants,"
            " but they move with the weights.",
        ),
        "mean-size": (
            _measure(size=lambda z: z.abs().mean()),
            "You divide by the mean of the sizes. The root of the mean square is larger, unless"
            " all sizes are equal.",
        ),
    },
    alternatives={"by-ratios": _by_ratios, "by-norm": _by_norm},
)


QUESTIONS = (SPREAD, CHAIN, RULE, MEASURED)
