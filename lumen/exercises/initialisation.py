"""Exercise set *initialisation*: one layer, a chain of them, a rule by name, a measured start.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
import re

import torch

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# initialisation.spread


def scaled_draw(draws, share=0.5, fan="in"):
    n_out, n_in, *kernel = draws.shape
    width = n_in if fan == "in" else n_out
    return draws / math.sqrt(width * math.prod(kernel) * share)


def _spread_cases(seed):
    draw = Draw(seed)
    n, m, k = draw.between(6, 9), draw.between(10, 13), draw.between(2, 4)

    def case(label, *shape, dtype=F32, **kwargs):
        upstream = draw.normal(*shape, dtype=dtype)
        return Case(label, {"draws": draw.normal(*shape, dtype=dtype)}, kwargs, upstream=upstream)

    return [
        case("a dense layer", m, n),
        case("a square layer, in float64", n, n, dtype=F64),
        case("one number in", m, 1),
        case("no bend behind it", m, n, share=1.0),
        case("a bend that keeps a quarter", n, m, share=0.25),
        case("another share, in float64", n, m, dtype=F64, share=0.3 + draw.between(1, 9) / 100),
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

    def wrong(draws, share=0.5, fan="in"):
        n_out, n_in, *sizes = draws.shape
        return draws * end(fans(n_in, n_out, fan) * kernel(sizes), share)

    return wrong


def _last_size(draws, share=0.5, fan="in"):
    return draws / math.sqrt(draws.size(-1 if fan == "in" else 0) * share)


def _kernel_one_way(draws, share=0.5, fan="in"):
    return draws / math.sqrt((draws[0].numel() if fan == "in" else draws.size(0)) * share)


def _own_spread(draws, share=0.5, fan="in"):
    return scaled_draw(draws / draws.std(), share, fan)


def _by_rows(draws, share=0.5, fan="in"):
    rows = draws[0] if fan == "in" else draws[:, 0]
    return (rows.numel() * share) ** -0.5 * draws


def _by_logarithm(draws, share=0.5, fan="in"):
    sizes = list(draws.size())
    del sizes[0 if fan == "in" else 1]
    return draws * math.exp(-0.5 * sum(math.log(size) for size in [*sizes, share]))


_KERNEL = (
    "Right for dense layers. One output of a convolution is a sum over every channel, and over"
    " what else?"
)
_SIDES = "Right unless a kernel has two sides. How many places does it cover?"
_SWAPPED = (
    "Right where as many numbers go in as come out. Which of the first two sizes counts the terms"
    " of one output's sum?"
)

SPREAD = Question(
    name="initialisation.spread",
    target="scaled_draw",
    points=3,
    cases=_spread_cases,
    reference=scaled_draw,
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
        "xavier": (
            _std(lambda n_in, n_out, fan: (n_in + n_out) / 2, end=lambda n, share: n**-0.5),
            "You take the middle of both fans, and no bend. Asked for is the fan that is named,"
            " kept exactly, behind a bend that leaves a share.",
        ),
        "no-kernel": (_std(kernel=lambda sizes: 1), _KERNEL),
        "one-side": (
            _std(kernel=lambda sizes: sizes[0] if sizes else 1),
            _SIDES,
        ),
        "sides-added": (_std(kernel=lambda sizes: sum(sizes) or 1), _SIDES),
        "last-size": (
            _last_size,
            "Right for dense layers. The last size of a kernel is a side of it. Where are its"
            " inputs counted, and over what else does one output's sum run?",
        ),
        "kernel-one-way": (
            _kernel_one_way,
            "Right but for kernels on the way back. There a sum runs over the places of a kernel"
            " too.",
        ),
        "all-sizes": (
            _std(lambda n_in, n_out, fan: n_in * n_out),
            "You count every number of the weight. How many of them meet in one sum?",
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
        "always-he": (
            _std(lambda n_in, n_out, fan: n_in, end=lambda n, share: math.sqrt(2 / n)),
            "One formula for all layers: right behind a ReLU, for the signal. Two arguments say"
            " what comes behind and what is to be kept.",
        ),
        "share-outside": (
            _std(end=lambda n, share: 1 / (share * math.sqrt(n))),
            "The share is one of mean squares, and your spread is not squared. On which side of"
            " the root does it belong?",
        ),
        "torch-default": (
            _std(lambda n_in, n_out, fan: n_in, end=lambda n, share: (3 * n) ** -0.5),
            "That is the spread which a dense layer of torch gives itself. It keeps no mean"
            " square, with a bend or without, and two arguments never change it.",
        ),
        "multiplied": (
            _std(end=lambda n, share: math.sqrt(n * share)),
            "The more terms a sum has, the larger your weights. What keeps such a sum at its size?",
        ),
        "own-spread": (
            _own_spread,
            "You divide by the spread that these numbers happen to have. One is the variance that"
            " they were drawn with, and a sample may stray: only the shape and the share say by"
            " how much to scale.",
        ),
        "bound": (
            _std(end=lambda n, share: math.sqrt(3 / (n * share))),
            "That is how far a *uniform* draw must reach to have the spread that is asked for.",
        ),
    },
    alternatives={"by-rows": _by_rows, "by-logarithm": _by_logarithm},
)


# initialisation.chain


def kept(widths, variances):
    sizes = torch.tensor(widths, dtype=variances.dtype)
    signal = (sizes[:-1] * variances / 2).prod(-1)
    gradient = (sizes[1:] * variances / 2).prod(-1)
    return torch.stack([signal, gradient], -1)


def _chain_cases(seed):
    draw = Draw(seed)

    def widths(layers):
        return tuple(draw.between(8, 60) for _ in range(layers + 1))

    def case(label, sizes, rule, ways=(), dtype=F32):
        pairs = zip(sizes, sizes[1:], strict=False)
        variances = torch.tensor([rule(n, m) for n, m in pairs], dtype=dtype)
        variances = variances * (0.5 + draw.normal(*ways, 1, dtype=dtype).square())
        upstream = draw.normal(*ways, 2, dtype=dtype)
        return Case(label, {"widths": sizes, "variances": variances}, upstream=upstream)

    wide, long = draw.between(16, 32), draw.between(8, 12)
    return [
        case("one layer", widths(1), lambda n, m: 1 / n),
        case("by fan-in, several ways", widths(3), lambda n, m: 2 / n, (4,)),
        case("by fan-out, in float64", widths(4), lambda n, m: 2 / m, dtype=F64),
        case("by the middle, wider and back", (wide, 4 * wide, wide), lambda n, m: 2 / (n + m)),
        case("one number in, one out", (1, wide, 1), lambda n, m: 0.3),
        case("as many ways as layers", widths(5), lambda n, m: 0.02, (5,)),
        case("two axes of ways", widths(2), lambda n, m: 2 / n, (2, 3)),
        case("a long stack, in float64", (wide,) * long, lambda n, m: 1 / (3 * n), dtype=F64),
        case("another variance for each layer", widths(4), lambda n, m: draw.between(1, 9) / 50),
    ]


def _chain(
    signal=lambda n, m, v: n * v / 2,
    gradient=lambda n, m, v: m * v / 2,
    last=lambda ends: ends,
):
    """Both factors, with some of the steps replaced."""

    def wrong(widths, variances):
        layers = list(zip(widths, widths[1:], variances.unbind(-1), strict=False))
        ends = [math.prod(rule(*layer) for layer in layers) for rule in (signal, gradient)]
        return last(torch.stack(ends, -1))

    return wrong


def _by_loop(widths, variances):
    up = down = 1.0
    for layer in range(variances.size(-1)):
        up = up * widths[layer] * variances[..., layer] * 0.5
        down = down * widths[layer + 1] * variances[..., layer] * 0.5
    return torch.stack([up, down], dim=-1)


def _in_logarithms(widths, variances):
    logs = torch.tensor(widths, dtype=variances.dtype).log()
    both_ways = torch.stack([logs.sum() - logs[-1], logs.sum() - logs[0]])
    return torch.exp(both_ways + (variances / 2).log().sum(-1, keepdim=True))


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
            "You square what is a variance already, as if it were a standard deviation.",
        ),
        "roots": (
            _chain(last=lambda ends: ends.sqrt()),
            "You give factors of sizes. Asked for are factors of mean *squares*.",
        ),
        "once": (
            lambda widths, variances: torch.stack(
                [width * variances[..., 0] / 2 for width in widths[:2]], -1
            ),
            "Right for one layer. With more of them, those above the first have a say too.",
        ),
        "one-half": (
            _chain(
                lambda n, m, v: n * v,
                lambda n, m, v: m * v,
                lambda ends: ends / 2,
            ),
            "Right for one layer. With more of them there is more than one bend.",
        ),
        "one-bend-less": (
            lambda widths, variances: 2 * kept(widths, variances),
            "Too large by the same factor, however many layers there are. Count the bends again:"
            " what stands behind the last layer?",
        ),
        "ends-exchanged": (
            lambda widths, variances: torch.stack(
                [
                    kept(widths, variances)[..., 0],
                    kept(widths, variances)[..., 0] * widths[0] / widths[-1],
                ],
                -1,
            ),
            "The signal is right. It is true that only the first width and the last tell the two"
            " apart, but you have them the wrong way round: check with one layer.",
        ),
        "added": (
            lambda widths, variances: torch.stack(
                [
                    (torch.tensor(part, dtype=variances.dtype) * variances / 2).sum(-1)
                    for part in (widths[:-1], widths[1:])
                ],
                -1,
            ),
            "Right for one layer. What one layer leaves is what the next one gets: how do two such"
            " factors combine?",
        ),
        "inverted": (
            _chain(last=lambda ends: 1 / ends),
            "You say by how much the end is too small. Asked for is what is left.",
        ),
    },
    alternatives={"by-loop": _by_loop, "in-logarithms": _in_logarithms},
)


# initialisation.rule


def drawn_by_name(name, draws, n_layers, std=0.02):
    if name.endswith(".bias"):
        return torch.zeros_like(draws)
    if name.endswith((".attn.out.weight", ".mlp.proj.weight", ".mlp.w_down.weight")):
        std = std / math.sqrt(2 * n_layers)
    return draws * std


_WRITERS = ("attn.out", "mlp.proj", "mlp.w_down")


def _rule_cases(seed):
    draw = Draw(seed)
    at, layers = draw.between(0, 9), draw.between(10, 48)

    def case(name, *shape, n_layers=layers, dtype=F32, **kwargs):
        label = name + (f", {n_layers} block" if n_layers == 1 else "")
        args = {"name": name, "draws": draw.normal(*shape, dtype=dtype), "n_layers": n_layers}
        # offsets are not drawn, so nothing comes back through them
        upstream = None if name.endswith("bias") else draw.normal(*shape, dtype=dtype)
        return Case(label, args, kwargs, upstream=upstream)

    return [
        case("tokens.weight", 9, 4),
        case(f"blocks.{at}.attn.q.weight", 4, 4),
        case(f"blocks.{at}.attn.out.weight", 4, 4),
        case(f"blocks.{at}.attn.out.bias", 4),
        case(f"blocks.{at}.mlp.fc.weight", 8, 4, dtype=F64),
        case(f"blocks.{at}.mlp.proj.weight", 4, 8, dtype=F64),
        case(f"blocks.{at}.mlp.fc.bias", 8),
        case(f"blocks.{at}.mlp.proj.bias", 4, std=0.1),
        case(f"blocks.{at}.mlp.w_down.weight", 4, 6),
        case(f"blocks.{at}.mlp.w_up.weight", 6, 4),
        case("blocks.0.mlp.w_gate.weight", 6, 4, std=0.01),
        case("blocks.0.mlp.w_down.weight", 4, 6, n_layers=1),
        case("blocks.0.attn.out.weight", 1, 1, n_layers=1, std=0.5),
        case("patches.proj.weight", 4, 9),
        case(f"blocks.{at}.mlp.proj_in.weight", 8, 4),
        case("layout.attn.q.weight", 4, 4),
        case("head.out.weight", 9, 4, std=0.05),
    ]


def _rule(
    writers=_WRITERS,
    found=lambda name, writers: name.removesuffix(".weight").endswith(writers),
    scaled=lambda std, n_layers: std / math.sqrt(2 * n_layers),
    offset=lambda std, n_layers, writes: 0.0,
):
    """The rule, with some of its parts replaced."""

    def wrong(name, draws, n_layers, std=0.02):
        if name.endswith("bias"):
            return draws * offset(std, n_layers, found(name.replace("bias", "weight"), writers))
        return draws * (scaled(std, n_layers) if found(name, writers) else std)

    return wrong


def _by_depth(name, draws, n_layers, std=0.02):
    block = [int(part) for part in name.split(".") if part.isdigit()]
    return drawn_by_name(name, draws, block[0] + 1 if block else n_layers, std)


def _by_parts(name, draws, n_layers, std=0.02):
    *_, layer, matrix, kind = ["", "", *name.split(".")]
    if kind == "bias":
        return 0 * draws
    writes = (layer, matrix) in {("attn", "out"), ("mlp", "proj"), ("mlp", "w_down")}
    return std * draws * (2 * n_layers) ** (-0.5 if writes else 0)


def _by_pattern(name, draws, n_layers, std=0.02):
    if re.search(r"\.bias$", name):
        return torch.zeros(draws.shape, dtype=draws.dtype)
    if re.search(r"\.(attn\.out|mlp\.(proj|w_down))\.weight$", name):
        return draws * (std**2 / (2 * n_layers)) ** 0.5
    return draws * std


def _by_axes(name, draws, n_layers, std=0.02):
    # of what is asked about, only offsets have one axis
    if draws.ndim == 1:
        return torch.zeros_like(draws)
    return drawn_by_name(name, draws, n_layers, std)


_TOO_MANY = "You find too many. "
_READS = (
    "Attention and the plain MLP are right. Of a gated MLP's three matrices you have found one that"
    " reads the stream. Which one writes to it?"
)
_TWICE = "Count the writes to the stream again. A block adds to it more than once."

RULE = Question(
    name="initialisation.rule",
    target="drawn_by_name",
    points=2,
    cases=_rule_cases,
    reference=drawn_by_name,
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
            _TOO_MANY + "A matrix of that name need not belong to a block's branch.",
        ),
        "words-anywhere": (
            _rule(found=lambda name, writers: any(w in name for w in ("out", "proj", "w_down"))),
            _TOO_MANY + "A word may stand anywhere in a name, in another part of the model or"
            " inside a longer word. Which parts of a name say that it writes?",
        ),
        "two-words-anywhere": (
            _rule(
                found=lambda name, writers: any(
                    all(word in name for word in writer.split(".")) for writer in writers
                )
            ),
            _TOO_MANY + "Both words may be in a name and not say what you think, inside a longer"
            " word, say. Compare whole parts, and mind where they stand.",
        ),
        "held": (
            _rule(found=lambda name, writers: any(writer in name for writer in writers)),
            _TOO_MANY + "A longer name may hold a writer's name and go on. What has to come last?",
        ),
        "up": (_rule(("attn.out", "mlp.proj", "mlp.w_up")), _READS),
        "gate": (_rule(("attn.out", "mlp.proj", "mlp.w_gate")), _READS),
        "everything": (
            _rule(found=lambda name, writers: True),
            "You draw all matrices smaller. Only what is added to the stream adds up with depth.",
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
        "variance": (
            lambda name, draws, n_layers, std=0.02: (
                draws * drawn_by_name(name, torch.ones_like(draws), n_layers, std).square()
            ),
            "Far too small, all of them: what you multiply by is the variance that is wanted. The"
            " draw is asked for its standard deviation.",
        ),
        "larger": (
            _rule(scaled=lambda std, n_layers: std * math.sqrt(2 * n_layers)),
            "Your writers are larger than the rest. Where many writes add up, what does each have"
            " to be?",
        ),
        "by-depth": (
            _by_depth,
            "In your answer a writer's spread depends on where its block stands. What counts is"
            " how many blocks write in all.",
        ),
        "two-outside": (
            _rule(scaled=lambda std, n_layers: std / (2 * math.sqrt(n_layers))),
            "Nearly: the two counts writes as the other factor does. Where does it belong?",
        ),
        "offsets-drawn": (
            _rule(offset=lambda std, n_layers, writes: std),
            "The matrices are right. The offsets are drawn too, and they should not be.",
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
            lambda name, draws, n_layers, std=0.02: drawn_by_name(name, draws, n_layers),
            "Right until somebody asks for another spread than the usual one. An argument of yours"
            " is never looked at.",
        ),
    },
    alternatives={"by-parts": _by_parts, "by-pattern": _by_pattern, "by-axes": _by_axes},
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


def _per_output(x, weights):
    scaled = []
    for weight in weights:
        z = x @ weight.mT
        size = z.square().mean(0).sqrt()
        scaled.append(weight / size[:, None])
        x = torch.relu(z / size)
    return torch.stack(scaled)


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


_ONE_FACTOR = (
    "You scale each unit, or each input, by a factor of its own. Asked for is one factor for the"
    " whole layer."
)

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
            _ONE_FACTOR,
        ),
        "per-output": (_per_output, _ONE_FACTOR),
        "by-weights": (
            lambda x, weights: (
                weights
                * math.sqrt(2 / weights.size(-1))
                / weights.square().mean((1, 2), keepdim=True).sqrt()
            ),
            "You measure the weights, and put them where a formula wants them. What is to be one"
            " is a size of the *outputs*, on this batch.",
        ),
        "bend-first": (
            lambda x, weights: rescaled(torch.relu(x), weights),
            "You bend the batch before it has met a layer. A ReLU stands *behind* each of them.",
        ),
        "batch-rescaled": (
            lambda x, weights: rescaled(x / x.square().mean().sqrt(), weights),
            "You rescale the batch as well. The layers will see it as it came, so it is the first"
            " layer's factor that has to make up for its size.",
        ),
        "two": (
            _measure(size=lambda z: (z.square().mean() / 2).sqrt()),
            "You aim at two, so that one is left behind the bend. Asked for is one in front of it.",
        ),
        "sum": (
            _measure(size=lambda z: z.square().sum().sqrt()),
            "What comes to one is the *sum* of your squares. Your outputs get smaller the more"
            " examples the batch has.",
        ),
        "with-epsilon": (
            _measure(size=lambda z: (z.square().mean() + 1e-5).sqrt()),
            "Right unless outputs are very small. Beside them, what you add in front of the root"
            " is not.",
        ),
        "cut-between": (
            _measure(on=lambda z, size: torch.relu(z / size).detach()),
            "What goes forward is right. What comes back stops between two layers, but what the"
            " second one measures depends on the first.",
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
