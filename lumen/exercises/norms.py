"""Exercise set *norms*: two norms of a token, two lives of BatchNorm, and the way back.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


def _tokens(draw, shape, kind, dtype):
    x = draw.normal(*shape, dtype=dtype)
    if kind == "small":
        return x * 1e-3
    if kind == "equal":
        return x[..., :1].expand(shape).contiguous()
    if kind == "far":
        return x + 1e5
    return 3 * x + 2


def _shapes(draw):
    """Tokens of many shapes: a label, the shape, what is special, the dtype."""
    n, d = draw.between(3, 4), draw.between(5, 8)
    return [
        ("a batch of sequences", (2, n, d), "", F32),
        ("one token", (d,), "", F32),
        ("a batch of tokens", (n, d), "", F32),
        ("as many places as numbers", (3, 3, 3), "", F32),
        ("four axes", (2, 1, n, 2 * d), "", F32),
        ("tokens of small numbers", (n, d + 1), "small", F32),
        ("tokens of equal numbers, in float64", (n, 4), "equal", F64),
        ("tokens of one number, in float64", (2, n, 1), "", F64),
        ("tokens of two numbers, in float64", (n, 2), "", F64),
        ("tokens far from zero, in float64", (2, n, d), "far", F64),
    ]


_SMALL = (
    "Nearly right for tokens of ordinary size, wrong for small ones. What is added keeps a division"
    " safe. To what is it added, to the spread or to its square?"
)
_CONSTANTS = (
    "What goes forward is right. What comes back treats the statistics as constants, but they are"
    " made of the input and move with it. Which step cuts them from the graph?"
)
_NO_EPS = (
    "A group of equal numbers has no spread, and your division by it gives NaN or infinity. One"
    " argument is there to prevent that."
)
_FIXED = (
    "Right until somebody asks for another value than the usual one. An argument of yours is never"
    " looked at."
)
_DIGITS = (
    "Right near zero. Far from it, you take the difference of two huge numbers that are nearly"
    " equal, and their digits are gone. What could be subtracted earlier?"
)
_GAINS = "The statistics are right. Two learned numbers for each channel come after them. "


# norms.layer


def layer_norm(x, gain, offset, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / (variance + eps).sqrt() * gain + offset


def _layer_cases(seed):
    draw = Draw(seed)

    def case(label, shape, kind, dtype, **kwargs):
        inputs = {
            "x": _tokens(draw, shape, kind, dtype),
            "gain": draw.normal(shape[-1], dtype=dtype),
            "offset": draw.normal(shape[-1], dtype=dtype),
        }
        return Case(label, inputs, kwargs, upstream=draw.normal(*shape, dtype=dtype))

    wide = case("a large eps", (2, 3, 6), "", F32, eps=0.5)
    return [*(case(*each) for each in _shapes(draw)), wide]


def _layer(of=lambda x: (-1,), unbiased=False, spread=None, statistics=lambda x: x):
    """LayerNorm, with some of its choices replaced."""

    def wrong(x, gain, offset, eps=1e-5):
        axes, source = of(x), statistics(x)
        centred = x - source.mean(axes, keepdim=True)
        variance = source.var(axes, unbiased=unbiased, keepdim=True)
        by = (variance + eps).sqrt() if spread is None else spread(variance, eps)
        return centred / by * gain + offset

    return wrong


def _outside(variance, eps):
    # no gradient of a root at zero: torch's would be infinite
    return variance.clamp_min(1e-30).sqrt() + eps


def _one_pass(x, gain, offset, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (_one_pass_variance(x, -1) + eps).sqrt() * gain + offset


def _with_ends(gain_of=lambda hat, gain, offset: hat * gain + offset):
    def wrong(x, gain, offset, eps=1e-5):
        one, zero = torch.ones_like(gain), torch.zeros_like(offset)
        return gain_of(layer_norm(x, one, zero, eps), gain, offset)

    return wrong


def _one_pass_variance(x, axes, keepdim=True):
    return x.square().mean(axes, keepdim=keepdim) - x.mean(axes, keepdim=keepdim).square()


def _token_by_token(x, gain, offset, eps=1e-5):
    rows = []
    for row in x.reshape(-1, x.size(-1)):
        left = row - sum(row) / len(row)
        rows.append(left * torch.rsqrt(left @ left / len(row) + eps) * gain + offset)
    return torch.stack(rows).reshape(x.shape)


def _var_mean(x, gain, offset, eps=1e-5):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return (x - mean) / torch.sqrt(variance + eps) * gain + offset


_BESSEL = (
    "Every output is a little too small, and the more so the fewer numbers there are. The mean"
    " square is over all the numbers of the group: by how many do you divide?"
)
_AXES = "Right where only one token is given. Otherwise tokens leak into each other: "


LAYER = Question(
    name="norms.layer",
    target="layer_norm",
    points=2,
    cases=_layer_cases,
    reference=layer_norm,
    mistakes={
        "bessel": (_layer(unbiased=True), _BESSEL),
        "eps-outside": (_layer(spread=_outside), _SMALL),
        # harvardnlp/annotated-transformer#122
        "bessel-outside": (
            _layer(unbiased=True, spread=_outside),
            both(_BESSEL, "What is added belongs to the square of the spread."),
        ),
        "detached": (_layer(statistics=lambda x: x.detach()), _CONSTANTS),
        "no-eps": (_layer(spread=lambda variance, eps: variance.sqrt()), _NO_EPS),
        "no-root": (
            _layer(spread=lambda variance, eps: variance + eps),
            "Double a token, and what you return halves. The variance is in squared units: what"
            " brings it back to the units of the token?",
        ),
        "over-batch": (
            _layer(of=lambda x: (0,)),
            _AXES + "you average over the first axis, which counts examples.",
        ),
        "over-places": (
            _layer(of=lambda x: (-2,) if x.dim() > 1 else (-1,)),
            _AXES + "you average over the places, so a later place has a say in an earlier one.",
        ),
        "over-example": (
            _layer(of=lambda x: tuple(range(1, x.dim())) or (0,)),
            _AXES + "you average over whole examples, all places at once. Each token stands alone.",
        ),
        "over-all": (
            _layer(of=lambda x: tuple(range(x.dim()))),
            _AXES + "one mean and one spread serve all of them in your answer.",
        ),
        "one-pass": (
            _one_pass,
            _DIGITS,
        ),
        "no-gain": (_with_ends(lambda hat, gain, offset: hat + offset), _GAINS + "One is missing."),
        "no-offset": (
            _with_ends(lambda hat, gain, offset: hat * gain),
            _GAINS + "The one that a token of equal numbers comes out as is missing.",
        ),
        "bare": (
            _with_ends(lambda hat, gain, offset: hat + 0 * (gain + offset)),
            _GAINS + "Neither has an effect on what you return.",
        ),
        "offset-first": (
            _with_ends(lambda hat, gain, offset: (hat + offset) * gain),
            "Both learned numbers are used, in the wrong order: a token of equal numbers must come"
            " out as the offset itself, whatever the gain is.",
        ),
        "fixed-eps": (
            lambda x, gain, offset, eps=1e-5: layer_norm(x, gain, offset),
            _FIXED,
        ),
        "not-centred": (
            lambda x, gain, offset, eps=1e-5: (
                x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gain + offset
            ),
            "That is the other norm of a token, the one that keeps the mean.",
        ),
    },
    alternatives={
        "torch": lambda x, gain, offset, eps=1e-5: F.layer_norm(
            x, (x.size(-1),), gain, offset, eps
        ),
        "var-mean": _var_mean,
        "token-by-token": _token_by_token,
    },
)


# norms.rms


def rms_norm(x, gain, eps=1e-6):
    mean_square = x.square().mean(-1, keepdim=True)
    return x / (mean_square + eps).sqrt() * gain


def _rms_cases(seed):
    draw = Draw(seed)

    def case(label, shape, kind, dtype, **kwargs):
        inputs = {
            "x": _tokens(draw, shape, kind, dtype),
            "gain": draw.normal(shape[-1], dtype=dtype),
        }
        return Case(label, inputs, kwargs, upstream=draw.normal(*shape, dtype=dtype))

    zeros = case("tokens of zeros", (3, 4), "", F32)
    zeros.args["x"].zero_()
    wide = case("a large eps", (2, 3, 6), "", F32, eps=0.5)
    return [*(case(*each) for each in _shapes(draw)), zeros, wide]


def _root(of, spread=lambda square, eps: (square + eps).sqrt()):
    return lambda x, gain, eps=1e-6: x / spread(of(x), eps) * gain


def _square(x):
    return x.square().mean(-1, keepdim=True)


RMS = Question(
    name="norms.rms",
    target="rms_norm",
    points=1,
    cases=_rms_cases,
    reference=rms_norm,
    mistakes={
        "centred": (
            lambda x, gain, eps=1e-6: layer_norm(x, gain, torch.zeros_like(gain), eps),
            "You subtract the mean. This norm does not look at it: a token of equal numbers keeps"
            " its direction.",
        ),
        "by-variance": (
            _root(lambda x: x.var(-1, unbiased=False, keepdim=True)),
            "You divide by the spread around the mean and keep the mean. What is divided by here is"
            " the size of the numbers as they are, around zero.",
        ),
        "by-length": (
            _root(lambda x: x.square().sum(-1, keepdim=True)),
            "Your tokens have length one. Wanted is a mean square of one, so the size of a number"
            " does not depend on how many there are.",
        ),
        "by-length-outside": (
            _root(lambda x: x.square().sum(-1, keepdim=True), _outside),
            "Your tokens have length one. Wanted is a mean square of one. And what is added belongs"
            " to that mean square, under the root.",
        ),
        "eps-in-sum": (
            lambda x, gain, eps=1e-6: rms_norm(x, gain, eps / x.size(-1)),
            "Right but for tokens of small numbers. What is added belongs to the mean of the"
            " squares: is it the mean that you have when you add it?",
        ),
        "fixed-eps": (lambda x, gain, eps=1e-6: rms_norm(x, gain), _FIXED),
        "clamped": (
            _root(_square, lambda square, eps: square.clamp_min(1e-30).sqrt().clamp_min(eps)),
            "A lower limit is safe as well, but it is another formula, and small tokens show it:"
            " here something is added, to the mean square.",
        ),
        "eps-outside": (
            _root(_square, lambda square, eps: square.clamp_min(1e-30).sqrt() + eps),
            _SMALL,
        ),
        "no-eps": (_root(_square, lambda square, eps: square.sqrt()), _NO_EPS),
        "no-root": (
            _root(_square, lambda square, eps: square + eps),
            "Double a token, and what you return halves. The mean square is in squared units.",
        ),
        "detached": (_root(lambda x: _square(x.detach())), _CONSTANTS),
        "one-plus-gain": (
            lambda x, gain, eps=1e-6: rms_norm(x, 1 + gain, eps),
            "You add one to the gain. Some models store it that way; here it is used as given.",
        ),
        "no-gain": (
            lambda x, gain, eps=1e-6: rms_norm(x, torch.ones_like(gain), eps) + 0 * gain,
            "The size is right. A learned number for each channel has no effect yet.",
        ),
        "over-all": (
            _root(lambda x: x.square().mean()),
            _AXES + "one size serves all of them in your answer.",
        ),
        "over-places": (
            _root(lambda x: x.square().mean(-2 if x.dim() > 1 else -1, keepdim=True)),
            _AXES + "you average over the places.",
        ),
        "mean-size": (
            _root(lambda x: x.abs().mean(-1, keepdim=True), lambda size, eps: size + eps),
            "You divide by the mean of the sizes. The root of the mean of the squares is larger,"
            " unless all the sizes are equal.",
        ),
    },
    alternatives={
        "torch": lambda x, gain, eps=1e-6: F.rms_norm(x, (x.size(-1),), gain, eps),
        "rsqrt": lambda x, gain, eps=1e-6: gain * (x * torch.rsqrt(x.pow(2).mean(-1, True) + eps)),
        "einsum": lambda x, gain, eps=1e-6: (
            x * gain / (torch.einsum("...d,...d->...", x, x)[..., None] / x.size(-1) + eps) ** 0.5
        ),
    },
)


# norms.batch


def batch_norm(x, gain, offset, running, training, eps=1e-5):
    if training and x.numel() < 2 * x.size(1):
        raise ValueError("one number in a channel has no spread")
    last = x.transpose(1, -1)
    rows = last.flatten(0, -2)
    mean, variance = running
    if training:
        mean, variance = rows.mean(0), rows.var(0, unbiased=False)
    return ((last - mean) / (variance + eps).sqrt() * gain + offset).transpose(1, -1)


def _batch_cases(seed):
    draw = Draw(seed)
    n, c = draw.between(4, 6), draw.between(3, 5)

    def case(label, shape, training, dtype=F32, size=1.0, far=0.0, **kwargs):
        channels = shape[1]
        spread = draw.normal(channels, dtype=dtype).square() + 0.5
        inputs = {
            "x": size * (3 * draw.normal(*shape, dtype=dtype) + 2) + far,
            "gain": draw.normal(channels, dtype=dtype),
            "offset": draw.normal(channels, dtype=dtype),
            "running": torch.stack([draw.normal(channels, dtype=dtype), spread * size**2]),
            "training": training,
        }
        return Case(label, inputs, kwargs, upstream=draw.normal(*shape, dtype=dtype))

    equal = case("training: equal numbers in a channel, in float64", (n, c), True, F64)
    equal.args["x"].copy_(equal.args["x"][:1].clone().expand(n, c))
    return [
        case("training: a batch of rows", (n, c), True),
        case("training: sequences, channels on axis 1", (2, c, n), True),
        case("training: images", (2, c + 1, 3, n), True),
        case("training: all axes of the same size", (3, 3, 3, 3), True),
        case("training: small numbers", (n, c + 2), True, size=1e-3),
        equal,
        case("training: one image of many pixels", (1, c, 4, 4), True),
        case("training: two numbers in the only channel", (2, 1), True, F64, eps=0.1),
        case("training: in float64", (n, c + 3, 2), True, F64),
        case("training: far from zero, in float64", (n, c), True, F64, far=1e5),
        case("training: one row", (1, c), True),
        case("training: one image of one pixel", (1, c, 1, 1), True),
        case("eval: a batch of rows", (n, c), False),
        case("eval: one row", (1, c), False),
        case("eval: images", (2, c + 1, 3, n), False, eps=0.1),
        case("eval: sequences of one place, small, in float64", (n, c, 1), False, F64, 1e-3),
    ]


def _batch(
    of=lambda x: (0, *range(2, x.dim())),
    unbiased=False,
    variance=None,
    spread=lambda variance, eps: (variance + eps).sqrt(),
    end=lambda hat, gain, offset: hat * gain + offset,
    statistics=lambda x: x,
    memory=lambda mean, variance, running: running,
    live=lambda training: training,
    refuse=True,
):
    """BatchNorm, with some of its choices replaced."""

    def wrong(x, gain, offset, running, training, eps=1e-5):
        if refuse and training and x.numel() < 2 * x.size(1):
            raise ValueError("too few")
        shape = (1, -1, *[1] * (x.dim() - 2))
        source = statistics(x)
        mean = source.mean(of(x), keepdim=True)
        squares = source.var(of(x), unbiased=unbiased, keepdim=True)
        if variance is not None:
            squares = variance(source, of(x))
        if not live(training):
            remembered = [numbers.reshape(shape) for numbers in running]
            mean, squares = memory(mean, squares, remembered)
        hat = (x - mean) / spread(squares, eps)
        return end(hat, gain.reshape(shape), offset.reshape(shape))

    return wrong


def _per_channel(x, gain, offset, running, training, eps=1e-5):
    if training and x[:, 0].numel() == 1:
        raise ValueError("a channel needs two numbers to train on")
    out = []
    for at, channel in enumerate(x.unbind(1)):
        mean, variance = running[0, at], running[1, at]
        if training:
            mean = channel.mean()
            variance = (channel - mean).pow(2).mean()
        out.append((channel - mean) * torch.rsqrt(variance + eps) * gain[at] + offset[at])
    return torch.stack(out, 1)


def _torchs(x, gain, offset, running, training, eps=1e-5):
    mean, variance = running.detach().clone() if training else running
    if not training:  # torch's own has no gradient of what is remembered
        return _per_channel(x, gain, offset, running, training, eps)
    return F.batch_norm(x, mean, variance, gain, offset, training, 0.1, eps)


BATCH = Question(
    name="norms.batch",
    target="batch_norm",
    points=3,
    cases=_batch_cases,
    reference=batch_norm,
    mistakes={
        "bessel": (_batch(unbiased=True), _BESSEL),
        "per-place": (
            _batch(of=lambda x: (0,)),
            "Right for rows. With places or pixels, a channel means the same at each of them, so"
            " they all share one mean: over which axes do you average?",
        ),
        "per-example": (
            _batch(of=lambda x: tuple(range(1, x.dim()))),
            "You normalise every example by itself. Here a channel is compared with itself in the"
            " other examples.",
        ),
        "per-token": (
            _batch(of=lambda x: (1,)),
            "You average over the channels, as the norm of a token does. Which axis must be left"
            " out of the average here?",
        ),
        "all-at-once": (
            _batch(of=lambda x: tuple(range(x.dim()))),
            "One mean and one spread serve all channels in your answer. Each has its own.",
        ),
        "one-pass": (_batch(variance=_one_pass_variance), _DIGITS),
        "eps-outside": (_batch(spread=_outside), _SMALL),
        "no-eps": (_batch(spread=lambda variance, eps: variance.sqrt()), _NO_EPS),
        "bare": (
            _batch(end=lambda hat, gain, offset: hat + 0 * (gain + offset)),
            _GAINS + "Neither has an effect on what you return.",
        ),
        "no-gain": (
            _batch(end=lambda hat, gain, offset: hat + offset),
            _GAINS + "One of them is missing.",
        ),
        "no-offset": (
            _batch(end=lambda hat, gain, offset: hat * gain),
            _GAINS + "The one that a channel of equal numbers comes out as is missing.",
        ),
        "offset-multiplies": (
            _batch(end=lambda hat, gain, offset: hat * gain * offset),
            "The second learned number is an offset. Yours scales, and a channel of equal numbers"
            " comes out as zero.",
        ),
        "offset-subtracted": (
            _batch(end=lambda hat, gain, offset: hat * gain - offset),
            "The offset arrives with its sign turned round: a channel of equal numbers shows it.",
        ),
        "detached": (_batch(statistics=lambda x: x.detach()), _CONSTANTS),
        "always-batch": (
            _batch(live=lambda training: True),
            "Right in training. Afterwards no example may depend on another: what is there to be"
            " used in place of the statistics of the batch?",
        ),
        "never-batch": (
            _batch(live=lambda training: False),
            "Right after training. In training the batch itself says what its mean and spread are.",
        ),
        "turned-round": (
            _batch(live=lambda training: not training),
            "Your two lives are exchanged: memory is used in training and the batch afterwards.",
        ),
        "mean-only": (
            _batch(memory=lambda mean, variance, running: (running[0], variance)),
            "Half of the memory is unused: afterwards the spread still comes from the batch.",
        ),
        "spread-ignored": (
            _batch(memory=lambda mean, variance, running: (running[0], torch.ones_like(mean))),
            "Half of the memory is unused: afterwards you subtract, and divide by nothing.",
        ),
        "memory-cut": (
            _batch(memory=lambda mean, variance, running: [each.detach() for each in running]),
            "What goes forward is right. After training the check also asks what comes back to the"
            " memory, and yours is cut from the graph. Ready-made functions cut it, too.",
        ),
        "fixed-eps": (
            lambda x, gain, offset, running, training, eps=1e-5: batch_norm(
                x, gain, offset, running, training
            ),
            _FIXED,
        ),
        "memory-is-spread": (
            _batch(memory=lambda mean, variance, running: (running[0], running[1].square())),
            "Right in training. The second row of the memory is a variance, not its root.",
        ),
        # pytorch/pytorch#4534
        "no-refusal": (
            _batch(refuse=False),
            "You answer even where a channel shows a single number to train on. A spread needs two:"
            " count the numbers of a channel before any arithmetic.",
        ),
        "refuses-one-example": (
            lambda x, gain, offset, running, training, eps=1e-5: (
                _refuse()
                if training and len(x) < 2
                else _batch()(x, gain, offset, running, training, eps)
            ),
            "One example is refused even where it has many places. What must there be two of, for a"
            " channel to have a spread?",
        ),
        "refuses-always": (
            lambda x, gain, offset, running, training, eps=1e-5: (
                _refuse()
                if x.numel() < 2 * x.size(1)
                else _batch()(x, gain, offset, running, training, eps)
            ),
            "A single example is refused even after training, where nothing is taken from the batch"
            " and nothing can be missing.",
        ),
    },
    alternatives={"per-channel": _per_channel, "torch": _torchs, "keepdim": _batch()},
)


def _refuse():
    raise ValueError("too few")


# norms.memory


def remember(running, x, momentum=0.1):
    rows = x.transpose(1, -1).flatten(0, -2)
    seen = torch.stack([rows.mean(0), rows.var(0)])
    return (1 - momentum) * running + momentum * seen


def _memory_cases(seed):
    draw = Draw(seed)
    n, c = draw.between(4, 6), draw.between(3, 5)

    def case(label, shape, dtype=F32, far=0.0, **kwargs):
        channels = shape[1]
        running = draw.normal(2, channels, dtype=dtype)
        running[0] -= far  # the mean ends near zero, so that the variance is seen
        running[1] = running[1].square() + 0.5
        inputs = {"running": running, "x": 2 * draw.normal(*shape, dtype=dtype) + 1 + far}
        return Case(label, inputs, kwargs, upstream=draw.normal(2, channels, dtype=dtype))

    return [
        case("a batch of rows", (n, c)),
        case("two rows", (2, c + 1)),
        case("sequences, channels on axis 1", (2, c, n)),
        case("images", (2, c + 2, 3, n), momentum=0.01),
        case("all axes of the same size", (3, 3, 3), momentum=0.7),
        case("one image", (1, c, 2, 2)),
        case("one channel", (n, 1)),
        case("only the newest batch", (n, c), momentum=1.0),
        case("in float64", (n, c + 3, 2), F64, momentum=0.3),
        case("far from zero, in float64", (n, c), F64, 1e5, momentum=0.5),
    ]


def _remembering(of=lambda x: (0, *range(2, x.dim())), variance=None, mix=None):
    def wrong(running, x, momentum=0.1):
        axes = of(x)
        spread = x.var(axes) if variance is None else variance(x, axes)
        seen = torch.stack([x.mean(axes), spread])
        if mix is None:
            return torch.lerp(running, seen, momentum)
        return mix(running, seen, momentum)

    return wrong


def _row_by_row(running, x, momentum=0.1):
    old = zip(*running, strict=True)
    new = []
    for channel, (mean, variance) in zip(x.unbind(1), old, strict=True):
        numbers = channel.reshape(-1)
        middle = numbers.sum() / len(numbers)
        spread = ((numbers - middle) ** 2).sum() / (len(numbers) - 1)
        new.append(
            torch.stack(
                [
                    mean + momentum * (middle - mean),
                    variance + momentum * (spread - variance),
                ]
            )
        )
    return torch.stack(new, 1)


MEMORY = Question(
    name="norms.memory",
    target="remember",
    points=2,
    cases=_memory_cases,
    reference=remember,
    mistakes={
        # keras-team/keras#10443
        "biased": (
            _remembering(variance=lambda x, axes: x.var(axes, unbiased=False)),
            "The mean is right, the variance is a little small. It is kept as an estimate for data"
            " to come, and for that another divisor is right than for the batch at hand.",
        ),
        "one-pass": (
            _remembering(
                variance=lambda x, axes: (
                    _one_pass_variance(x, axes, False) * (x[:, 0].numel() / (x[:, 0].numel() - 1))
                )
            ),
            _DIGITS,
        ),
        "spread": (
            _remembering(variance=lambda x, axes: x.std(axes)),
            "The second row keeps variances. You mix in a standard deviation.",
        ),
        # pytorch/pytorch#41559
        "reversed": (
            _remembering(mix=lambda old, new, m: m * old + (1 - m) * new),
            "Your memory is of the last batch and little else. In this convention the number weighs"
            " what is new; other frameworks let it weigh what was.",
        ),
        "replaced": (
            _remembering(mix=lambda old, new, m: new + 0 * old),
            "What was remembered is gone. The newest batch is one voice among many.",
        ),
        "untouched": (
            lambda running, x, momentum=0.1: running.clone(),
            "The memory is what it was before. The batch left no trace in it.",
        ),
        "added": (
            _remembering(mix=lambda old, new, m: old + m * new),
            "Feed the same batch again and again: your memory grows without end. What must the two"
            " weights add up to?",
        ),
        "fixed-momentum": (lambda running, x, momentum=0.1: remember(running, x), _FIXED),
        "detached": (
            lambda running, x, momentum=0.1: remember(running, x.detach(), momentum),
            "The numbers are right, and no gradient reaches the batch. In a layer that is as it"
            " should be. Here the check wants to see who takes part.",
        ),
        "mean-only": (
            _remembering(
                mix=lambda old, new, m: torch.stack([torch.lerp(old[0], new[0], m), old[1]])
            ),
            "The mean is remembered, the variance is what it was before.",
        ),
        "rows-exchanged": (
            _remembering(mix=lambda old, new, m: torch.lerp(old, new.flip(0), m)),
            "Means are mixed into variances and variances into means: the first row keeps means.",
        ),
        "per-place": (
            lambda running, x, momentum=0.1: torch.lerp(
                running,
                torch.stack(
                    [
                        x.mean((0, *range(2, x.dim()))),
                        x.var(0, unbiased=x.size(0) > 1).flatten(1).mean(1)
                        if x.dim() > 2
                        else x.var(0),
                    ]
                ),
                momentum,
            ),
            "Right for rows. With places or pixels you take a variance at each of them and average"
            " those; a channel has one, over everything that belongs to it.",
        ),
        "old-biased": (
            _remembering(
                variance=lambda x, axes: x.var(axes, unbiased=False),
                mix=lambda old, new, m: m * old + (1 - m) * new,
            ),
            "Two things at once. The number weighs what is new, and the variance that is kept has"
            " another divisor than the one that is used on the batch.",
        ),
    },
    alternatives={
        "lerp": _remembering(),
        "loops": _row_by_row,
        "difference": _remembering(mix=lambda old, new, m: old - m * (old - new)),
    },
)


# norms.back


def through_layer_norm(g, x, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    s = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    hat = centred / s
    return (g - g.mean(-1, keepdim=True) - hat * (g * hat).mean(-1, keepdim=True)) / s


def _back_cases(seed):
    draw = Draw(seed)

    def case(label, shape, kind, dtype, **kwargs):
        inputs = {
            "g": draw.normal(*shape, dtype=dtype),
            "x": _tokens(draw, shape, kind, dtype),
        }
        return Case(label, inputs, kwargs, upstream=draw.normal(*shape, dtype=dtype))

    ones = case("a gradient of ones", (2, 5), "", F64)
    ones.args["g"].fill_(1.0)
    wide = case("a large eps", (2, 3, 6), "", F32, eps=0.5)
    return [*(case(*each) for each in _shapes(draw)), ones, wide]


def _parts(x, eps, unbiased=False, one_pass=False):
    mean = x.mean(-1, keepdim=True)
    s = (x - mean).square().mean(-1, keepdim=True)
    if one_pass:
        s = _one_pass_variance(x, -1)
    if unbiased:
        s = s * (x.size(-1) / max(x.size(-1) - 1, 1))
    s = (s + eps).sqrt()
    return (x - mean) / s, s


def _back(rule, **kwargs):
    return lambda g, x, eps=1e-5: rule(g, *_parts(x, eps, **kwargs))


def _mean(t):
    return t.mean(-1, keepdim=True)


def _by_autograd(g, x, eps=1e-5):
    y = F.layer_norm(x, (x.size(-1),), eps=eps)
    return torch.autograd.grad(y, x, g, create_graph=True)[0]


def _by_jacobian(g, x, eps=1e-5):
    hat, s = _parts(x, eps)
    d = x.size(-1)
    eye = torch.eye(d, dtype=x.dtype)
    slopes = (eye - 1 / d - hat[..., :, None] * hat[..., None, :] / d) / s[..., None]
    return (g[..., None, :] @ slopes)[..., 0, :]


BACK = Question(
    name="norms.back",
    target="through_layer_norm",
    points=2,
    cases=_back_cases,
    reference=through_layer_norm,
    mistakes={
        # pytorch/pytorch#63541: a gradient of ones proves little
        "constants": (
            _back(lambda g, hat, s: g / s),
            "You treat mean and spread as constants. A gradient of ones must come out as zero,"
            " since the outputs of a token add up to a constant.",
        ),
        "no-mean": (
            _back(lambda g, hat, s: (g - hat * _mean(g * hat)) / s),
            "One direction is taken out, one is left. Moving all numbers of a token together"
            " changes nothing: which part of the gradient says so?",
        ),
        "no-pattern": (
            _back(lambda g, hat, s: (g - _mean(g)) / s),
            "One direction is taken out, one is left. Stretching the pattern of a token changes"
            " nothing: which part of the gradient says so?",
        ),
        "no-spread": (
            _back(lambda g, hat, s: g - _mean(g) - hat * _mean(g * hat)),
            "The directions are right, the size is not: a token with large numbers must get a small"
            " gradient.",
        ),
        "sums": (
            _back(
                lambda g, hat, s: (g - g.sum(-1, True) - hat * (g * hat).sum(-1, keepdim=True)) / s
            ),
            "What you take out is too large by the width of the token: each of the two is an"
            " average over it.",
        ),
        "plus": (
            _back(lambda g, hat, s: (g - _mean(g) + hat * _mean(g * hat)) / s),
            "A sign is turned round: the part along the pattern is doubled where it should go.",
        ),
        "input-for-pattern": (
            _back(lambda g, hat, s: (g - _mean(g) - hat * s * _mean(g * hat * s)) / s),
            "The last term is in other units than the rest. It wants the normalised token, not the"
            " token with its mean taken off.",
        ),
        "variance": (
            _back(lambda g, hat, s: (g - _mean(g) - hat * _mean(g * hat)) / s.square()),
            "You divide by a variance. Double the token: the gradient should halve, and yours falls"
            " to a quarter.",
        ),
        "bessel": (
            _back(lambda g, hat, s: (g - _mean(g) - hat * _mean(g * hat)) / s, unbiased=True),
            _BESSEL,
        ),
        "one-pass": (
            _back(lambda g, hat, s: (g - _mean(g) - hat * _mean(g * hat)) / s, one_pass=True),
            _DIGITS,
        ),
        "over-all": (
            _back(lambda g, hat, s: (g - g.mean() - hat * (g * hat).mean()) / s),
            _AXES + "the two averages are over all of them in your answer.",
        ),
        "fixed-eps": (lambda g, x, eps=1e-5: through_layer_norm(g, x), _FIXED),
        "no-graph": (
            lambda g, x, eps=1e-5: through_layer_norm(g.detach(), x.detach(), eps),
            "The numbers are right, and the check cannot differentiate them once more. Write the"
            " formula out, and cut nothing.",
        ),
        "uncentred": (
            lambda g, x, eps=1e-5: _back(
                lambda g, hat, s: (g - _mean(g) - hat * _mean(g * x) / s) / s
            )(g, x, eps),
            "Your last term weighs what arrives by the token as it came in. It must not notice"
            " where the token lies: what of the token belongs there?",
        ),
        "forward": (
            lambda g, x, eps=1e-5: _parts(x, eps)[0] * g,
            "That is the normalised token times what arrives, as for a gain. Asked for is what goes"
            " on to the token itself.",
        ),
    },
    alternatives={"autograd": _by_autograd, "jacobian": _by_jacobian},
)


QUESTIONS = (LAYER, RMS, BATCH, MEMORY, BACK)
