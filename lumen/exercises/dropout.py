"""Exercise set *dropout*: the mask, what a loss and a norm make of it, and lost links of attention.

Chance is an argument: each question is given the draws, uniform from 0 to 1, so that an answer is
exact. For each question: the reference, its cases, the wrong answers that learners give (each with
a hint that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


def _uniform(draw, *shape, dtype=F32):
    """Multiples of 1/64 from 0 to 63/64: exact in every dtype, and some of them equal to p."""
    whole = torch.randint(64, shape, generator=draw.generator, device="cpu")
    return whole.to(dtype) / 64


_NO_SCALE = (
    "The right numbers are lost. But the sum that the next layer makes is smaller on average than"
    " it was: what happens to those that stay?"
)
_BY_P = (
    "Those that stay are divided by the wrong one of two chances. Take p near zero, where hardly"
    " anything is lost: by how much should the rest be scaled up then?"
)
_P_KEEPS = (
    "You take p for the chance to stay. Here it is the chance of being lost: at p = 0.1 most"
    " numbers are still there."
)
_EVAL = "In training all is right. Afterwards something is still done that should not be. "
_NAN = "Where p is 1 you return NaN or infinity. Nothing stays there, so nothing need be scaled."
_CUT = (
    "What goes forward is right, and no gradient comes back to one of your inputs. Which step cuts"
    " it from the graph?"
)
_NOT_DRAWS = "Chance is in the draws you were given. Your answer does not depend on all of them: "


# dropout.mask


def drop_out(x, draws, p, training=True):
    if not training:
        return x
    kept = x.masked_fill(draws < p, 0.0)
    return kept / (1 - p) if p < 1 else kept


def _mask_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(3, 5), draw.between(6, 9)

    def case(label, shape, p, dtype=F32, **kwargs):
        inputs = {
            "x": 3 * draw.normal(*shape, dtype=dtype) + 2,
            "draws": _uniform(draw, *shape, dtype=dtype),
            "p": p,
        }
        if shape[-1] > 1:  # one that stands on the edge, one below and one above
            inputs["draws"].view(-1)[:3] = torch.tensor(
                [p if p < 1 else 0.5, 0, 63 / 64], dtype=dtype
            )
        return Case(label, inputs, kwargs, upstream=draw.normal(*shape, dtype=dtype))

    return [
        case("half are lost", (n, d), 0.5),
        case("a quarter is lost", (2, n, d), 0.25),
        case("few are lost, in float64", (n, 4, d), 0.125, F64),
        case("most are lost", (4 * d,), 0.875),
        case("none is lost", (n, d + 1), 0.0),
        case("all are lost", (n, d), 1.0),
        case("all are lost, in float64", (d,), 1.0, F64),
        case("as many rows as columns, in float64", (5, 5), 0.375, F64),
        case("a single number", (1,), 0.5),
        case("said to be training", (n, d + 2), 0.75, training=True),
        case("not training", (n, d), 0.5, training=False),
        case("not training, in float64", (2, n, d), 0.25, F64, training=False),
        case("not training, p is 1", (n, d), 1.0, training=False),
    ]


def _mask(
    keep=lambda draws, p: draws >= p,
    scale=lambda p: 1 / (1 - p) if p < 1 else 0.0,
    after=lambda x, p: x + 0,
    live=lambda training: training,
):
    """Dropout, with some of its choices replaced."""

    def wrong(x, draws, p, training=True):
        if not live(training):
            return after(x, p)
        return x * keep(draws, p) * scale(p)

    return wrong


def _same_mean(x, draws, p, training=True):
    if not training:
        return x + 0
    keep = (draws >= p).to(x.dtype)
    return x * keep * (keep.numel() / keep.sum().clamp_min(1))


def _row_mask(x, draws, p, training=True):
    rows = draws.reshape(-1, draws.size(-1))[:1].expand(x.numel() // x.size(-1), -1)
    return drop_out(x, rows.reshape(x.shape), p, training)


def _where(x, draws, p, training=True):
    if training and p > 0:
        kept = x / (1 - p) if p < 1 else torch.zeros_like(x) * x
        return torch.where(draws < p, torch.zeros_like(x), kept)
    return x.clone()


def _number_by_number(x, draws, p, training=True):
    if not training:
        return 1 * x
    pairs = zip(x.flatten(), draws.flatten().tolist(), strict=True)
    return torch.stack([v * (0 if u < p else 1 / (1 - p)) for v, u in pairs]).reshape(x.shape)


MASK = Question(
    name="dropout.mask",
    target="drop_out",
    points=3,
    cases=_mask_cases,
    reference=drop_out,
    mistakes={
        "unscaled": (_mask(scale=lambda p: 1.0), _NO_SCALE),
        "scaled-at-the-exam": (
            _mask(scale=lambda p: 1.0, after=lambda x, p: x * (1 - p)),
            "That is dropout as it was first published: nothing is scaled in training, and all is"
            " scaled down afterwards. Here it is the other way round, so that nothing is left to do"
            " in use.",
        ),
        "scaled-down": (
            _mask(scale=lambda p: 1 - p),
            "You scale down what stays. Some numbers are gone, so the others have to make up for"
            " them: in which direction?",
        ),
        "by-p": (_mask(scale=lambda p: 1 / p if p > 0 else 1.0), _BY_P),
        "p-keeps": (
            _mask(keep=lambda draws, p: draws < p, scale=lambda p: 1 / p if p > 0 else 0.0),
            _P_KEEPS,
        ),
        "wrong-side": (
            _mask(keep=lambda draws, p: draws < p),
            "The scale is right. But the share p of the draws lies below p, and you keep those.",
        ),
        "upper-end": (
            _mask(keep=lambda draws, p: draws < 1 - p),
            "The right share is lost, and the scale is right. But you lose the largest draws; here"
            " those below p are the lost ones.",
        ),
        "spread-kept": (
            _mask(scale=lambda p: (1 - p) ** -0.5 if p < 1 else 0.0),
            "Your scale keeps the mean of the squares. What the next layer needs kept is the mean"
            " of the number itself.",
        ),
        "edge": (
            _mask(keep=lambda draws, p: draws > p),
            "Right but for one draw in a great many: where p is zero, a draw of exactly zero must"
            " not cost a number.",
        ),
        "nan-at-one": (
            _mask(scale=lambda p: 1 / (1 - p) if p < 1 else math.nan),
            _NAN,
        ),
        "identity-at-one": (
            _mask(
                keep=lambda draws, p: (draws >= p) | (p == 1),
                scale=lambda p: 1 / (1 - p) if p < 1 else 1.0,
            ),
            "Where p is 1 you hand everything on. Nothing stays there.",
        ),
        "still-on": (
            _mask(live=lambda training: True),
            _EVAL + "One argument of yours is never looked at.",
        ),
        "turned-round": (
            _mask(live=lambda training: not training),
            "You do in training what is meant for afterwards, and the other way round.",
        ),
        "scaled-twice": (
            _mask(after=lambda x, p: x * (1 - p)),
            _EVAL + "The mean was kept in training already.",
        ),
        "scaled-always": (
            _mask(after=lambda x, p: x / (1 - p) if p < 1 else x + 0),
            _EVAL + "Nothing is missing, so there is nothing to make up for.",
        ),
        "same-mean": (
            _same_mean,
            "You scale by the share that happened to stay. Then what becomes of one number depends"
            " on the luck of all others. Use what was to be expected.",
        ),
        "row-mask": (
            _row_mask,
            _NOT_DRAWS + "all rows lose the same places in it.",
        ),
        "detached": (
            lambda x, draws, p, training=True: drop_out(x.detach(), draws, p, training),
            _CUT,
        ),
        "straight-through": (
            lambda x, draws, p, training=True: x + (drop_out(x, draws, p, training) - x).detach(),
            "What goes forward is right. But a lost number gets a gradient as though it had been"
            " there, and the others get too little.",
        ),
    },
    alternatives={
        "where": _where,
        "number-by-number": _number_by_number,
        "filled": lambda x, draws, p, training=True: (
            (x / max(1 - p, 1e-9)).masked_fill(draws < p, 0.0) if training else x * 1.0
        ),
    },
)


# dropout.loss


def mean_loss(x, w, target, p):
    return (x @ w).sub(target).square() + p / (1 - p) * (x * w).square().sum(-1)


def _loss_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(3, 5), draw.between(4, 7)

    def case(label, shape, p, dtype=F32):
        inputs = {
            "x": draw.normal(*shape, dtype=dtype) + 0.5,
            "w": draw.normal(shape[-1], dtype=dtype),
            "target": draw.normal(*shape[:-1], dtype=dtype),
            "p": p,
        }
        return Case(label, inputs, upstream=draw.normal(*shape[:-1], dtype=dtype))

    return [
        case("a batch", (n, d), 0.5),
        case("a batch, few are lost", (n + 1, d), 0.1),
        case("a batch of sequences, in float64", (2, n, d), 0.3, F64),
        case("most are lost, in float64", (n, d + 1), 0.9, F64),
        case("none is lost", (n, d), 0.0),
        case("one number in each", (n, 1), 0.2, F64),
        case("one example", (1, d), 0.25),
        case("as many examples as numbers", (4, 4), 0.6),
    ]


def _loss(tax):
    return lambda x, w, target, p: (x @ w - target).square() + tax(x, w, p)


def _over_masks(x, w, target, p):
    """Every mask by its chance."""
    total = 0
    for index in range(2 ** x.size(-1)):
        keep = torch.tensor([index >> j & 1 for j in range(x.size(-1))], dtype=x.dtype)
        stay = int(keep.sum())
        chance = (1 - p) ** stay * p ** (x.size(-1) - stay)
        total = total + chance * ((x * keep / (1 - p)) @ w - target).square()
    return total


_TAX = "Without dropout all is right. What is added for the masks is not. "

LOSS = Question(
    name="dropout.loss",
    target="mean_loss",
    points=2,
    cases=_loss_cases,
    reference=mean_loss,
    mistakes={
        "no-tax": (
            _loss(lambda x, w, p: 0),
            "The mean of the sum is what it was, but the mean of a square is more than the square"
            " of the mean. By how much?",
        ),
        "unscaled-mask": (
            _loss(lambda x, w, p: p * (1 - p) * (x * w).square().sum(-1)),
            _TAX + "You have the variance of a mask of zeros and ones. Those that stay are also"
            " scaled.",
        ),
        "unscaled": (
            lambda x, w, target, p: (
                ((1 - p) * (x @ w) - target).square() + p * (1 - p) * (x * w).square().sum(-1)
            ),
            "That is the mean loss of a dropout that leaves what stays as it was. Here it is"
            " scaled up.",
        ),
        "scaled-square": (
            _loss(lambda x, w, p: p / (1 - p) ** 2 * (x * w).square().sum(-1)),
            _TAX + "It is too large by a factor that grows with p. Work out the variance of one"
            " number: a mask's own variance has two factors.",
        ),
        "squared-factor": (
            _loss(lambda x, w, p: (p / (1 - p)) ** 2 * (x * w).square().sum(-1)),
            _TAX + "The parts are squared in it; is what stands in front of them squared as well?",
        ),
        "weights-bare": (
            _loss(lambda x, w, p: p / (1 - p) * (x.square() @ w)),
            _TAX + "You square the inputs and not their weights: it can come out below zero, and a"
            " variance cannot.",
        ),
        "not-squared": (
            _loss(lambda x, w, p: p / (1 - p) * (x @ w)),
            _TAX + "You add up the parts as they are: it can come out below zero, and a variance"
            " cannot.",
        ),
        "lengths": (
            _loss(lambda x, w, p: p / (1 - p) * x.square().sum(-1) * w.square().sum()),
            _TAX + "You multiply two sums of squares. Each number meets its own weight only.",
        ),
        "sum-of-batch": (
            _loss(lambda x, w, p: p / (1 - p) * (x * w).square().sum()),
            _TAX + "Every example pays for all examples in yours. Along which axis do you sum?",
        ),
        "only-p": (
            _loss(lambda x, w, p: p * (x * w).square().sum(-1)),
            _TAX + "Let p go to 1: does yours grow beyond every bound?",
        ),
        "by-keep": (
            _loss(lambda x, w, p: (1 - p) / p * (x * w).square().sum(-1) if p else 0),
            _TAX + "Let p go to zero: yours grows, and it should vanish.",
        ),
        "keep-only": (
            _loss(lambda x, w, p: (x * w).square().sum(-1) / (1 - p)),
            _TAX + "It is not zero where nothing is lost. You may have the mean of the square where"
            " the variance is wanted.",
        ),
        "square-of-sum": (
            _loss(lambda x, w, p: p / (1 - p) * (x @ w).square()),
            _TAX + "You square the sum. Variances of independent numbers add up: sum the squares.",
        ),
        "weights-only": (
            _loss(lambda x, w, p: p / (1 - p) * w.square().sum() + 0 * x.sum(-1)),
            _TAX + "A weight is taxed also for how large the number is that it reads.",
        ),
        "inputs-only": (
            _loss(lambda x, w, p: p / (1 - p) * x.square().sum(-1)),
            _TAX + "What is lost is a number times its weight.",
        ),
        "mean-square": (
            _loss(lambda x, w, p: p / (1 - p) * (x * w).square().mean(-1)),
            _TAX + "You average over the parts of the sum. Every part adds its own noise.",
        ),
        "spread": (
            _loss(lambda x, w, p: (p / (1 - p) * (x * w).square().sum(-1)).clamp_min(1e-30).sqrt()),
            _TAX + "You add a standard deviation to a square. Look at the units.",
        ),
        "scaled-sum": (
            lambda x, w, target, p: (
                ((1 - p) * (x @ w) - target).square() + p / (1 - p) * (x * w).square().sum(-1)
            ),
            "You shrink the sum. What stays is scaled up, so the mean of the sum is what it was.",
        ),
        "over-batch": (
            lambda x, w, target, p: (
                (x @ w - target).square() + p / (1 - p) * (x * w).square().sum(-1).mean()
            ),
            _TAX + "One tax is charged to all examples. Each has its own.",
        ),
        "detached": (
            lambda x, w, target, p: (
                (x @ w - target).square() + p / (1 - p) * (x * w).detach().square().sum(-1)
            ),
            _CUT,
        ),
    },
    alternatives={
        "over-masks": _over_masks,
        "variance-of-parts": lambda x, w, target, p: (
            torch.einsum("...d,...d,d,d->...", x, x, w, w) * (1 / (1 - p) - 1)
            + F.mse_loss(x @ w, target, reduction="none")
        ),
        "second-moment": lambda x, w, target, p: (
            target**2
            - 2 * target * (x @ w)
            + (x @ w) ** 2
            + p * ((x * w) ** 2 @ torch.ones_like(w)) / (1 - p)
        ),
    },
)


# dropout.norm


def seen_by_norm(x, p):
    by_rows = x.var(0, correction=0)
    return torch.stack([x.mean(0), by_rows + p / (1 - p) * x.square().mean(0)])


def _norm_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(5, 8), draw.between(3, 4)

    def case(label, shape, p, dtype=F32, change=lambda x: x):
        x = change(2 * draw.normal(*shape, dtype=dtype) + 1)
        return Case(label, {"x": x, "p": p}, upstream=draw.normal(2, shape[1], dtype=dtype))

    def behind_relu(x):
        return x.clamp_min(0) + 0.125

    return [
        case("half are lost", (n, d), 0.5),
        case("few are lost", (n + 1, d), 0.1),
        case("none is lost", (n, d + 1), 0.0),
        case("most are lost, in float64", (n, d), 0.9, F64),
        case("numbers above zero, in float64", (2 * n, d), 0.5, F64, behind_relu),
        case("channels with mean zero", (n, d + 2), 0.3, F32, lambda x: x - x.mean(0)),
        case("a channel of equal numbers, in float64", (n, 2), 0.4, F64, lambda x: x * 0 + 3),
        case("one row", (1, d), 0.25, F64),
        case("as many rows as channels", (4, 4), 0.6),
        case("a single channel", (n, 1), 0.2),
    ]


def _norm(variance, mean=lambda x, p: x.mean(0)):
    return lambda x, p: torch.stack([mean(x, p), variance(x, p)])


def _var(x):
    return x.var(0, unbiased=False)


def _odds(p):
    return p / (1 - p)


def _by_moments(x, p):
    mean = x.mean(0)
    return torch.stack([mean, x.square().mean(0) / (1 - p) - mean.square()])


def _by_channel(x, p):
    rows = []
    for channel in x.unbind(1):
        squares = channel @ channel / len(channel)
        spread = torch.var(channel, correction=0)
        rows.append(torch.stack([channel.sum() / len(channel), spread + squares * p / (1 - p)]))
    return torch.stack(rows, dim=1)


_MEAN = "The variance is right, the mean is not. "
_VAR = "The means are right, the variances are not. "

NORM = Question(
    name="dropout.norm",
    target="seen_by_norm",
    points=2,
    cases=_norm_cases,
    reference=seen_by_norm,
    mistakes={
        "undropped": (
            _norm(lambda x, p: _var(x) + 0 * p),
            _VAR + "That is the spread of the data alone. In training the masks add theirs.",
        ),
        "centred-only": (
            _norm(lambda x, p: _var(x) / (1 - p)),
            _VAR + "Yours holds for channels with mean zero. A number far from zero falls far when"
            " it is lost, even in a channel where all are equal.",
        ),
        "masks-only": (
            _norm(lambda x, p: _odds(p) * x.square().mean(0)),
            _VAR + "Where nothing is lost, yours is zero. The data differ, too.",
        ),
        "unscaled-mask": (
            _norm(lambda x, p: _var(x) + p * (1 - p) * x.square().mean(0)),
            _VAR + "That is the variance of a mask of zeros and ones. Those that stay are scaled.",
        ),
        "unscaled": (
            _norm(
                lambda x, p: (1 - p) * x.square().mean(0) - ((1 - p) * x.mean(0)).square(),
                lambda x, p: (1 - p) * x.mean(0),
            ),
            "Both rows belong to a dropout that does not scale what stays.",
        ),
        "scaled-mean": (
            _norm(
                lambda x, p: _var(x) + _odds(p) * x.square().mean(0),
                lambda x, p: (1 - p) * x.mean(0),
            ),
            _MEAN + "What stays is scaled up: what is the mean over all masks?",
        ),
        "scaled-up-mean": (
            _norm(
                lambda x, p: _var(x) + _odds(p) * x.square().mean(0),
                lambda x, p: x.mean(0) / (1 - p),
            ),
            _MEAN + "What stays is scaled up, and some is lost: what do both do together?",
        ),
        "mean-square": (
            _norm(lambda x, p: x.square().mean(0) / (1 - p)),
            _VAR + "That is the mean of the squares behind dropout. What is still to be taken off?",
        ),
        "no-factor": (
            _norm(lambda x, p: _var(x) + 0 * p + x.square().mean(0)),
            _VAR + "The masks' part does not depend on p in yours. Is it there where nothing is"
            " lost?",
        ),
        "only-p": (
            _norm(lambda x, p: _var(x) + p * x.square().mean(0)),
            _VAR + "Let p go to 1: do yours grow beyond every bound?",
        ),
        "by-keep": (
            _norm(lambda x, p: _var(x) + ((1 - p) / p if p else 0) * x.square().mean(0)),
            _VAR + "Let p go to zero: the masks' part grows in yours, and it should vanish.",
        ),
        "sum": (
            _norm(lambda x, p: _var(x) + _odds(p) * x.square().sum(0)),
            _VAR + "The masks' part grows with the number of rows in yours. A variance is a mean.",
        ),
        "swapped": (
            lambda x, p: seen_by_norm(x, p).flip(0),
            "Both rows are right, and they stand in the other order.",
        ),
        "nan-for-one-row": (
            _norm(
                lambda x, p: (
                    (x - x.mean(0)).square().sum(0) / (0 * x[0].detach() + len(x) - 1)
                    + _odds(p) * x.square().mean(0)
                )
            ),
            _VAR + "They are a little too large, and NaN where there is a single row. By how many"
            " do you divide, or does `var` for you?",
        ),
        "bessel": (
            _norm(
                lambda x, p: (
                    (x - x.mean(0)).square().sum(0) / max(len(x) - 1, 1)
                    + _odds(p) * x.square().mean(0)
                )
            ),
            _VAR + "They are a little too large, and the more so the fewer rows. By how many do"
            " you divide?",
        ),
        "square-of-mean": (
            _norm(lambda x, p: _var(x) + _odds(p) * x.mean(0).square()),
            _VAR + "For the masks' part you square the mean. Each number is lost by itself: take"
            " the mean of the squares.",
        ),
        "spread": (
            _norm(lambda x, p: (_var(x) + _odds(p) * x.square().mean(0)).clamp_min(1e-30).sqrt()),
            _VAR + "A norm remembers squares; you return their roots.",
        ),
        "ratio": (
            _norm(lambda x, p: 1 + _odds(p) * x.square().mean(0) / _var(x).clamp_min(1e-30)),
            _VAR
            + "You return by how much the variance grows, as a factor. Wanted is the variance.",
        ),
        "over-channels": (
            lambda x, p: seen_by_norm(x.T, p) if x.size(0) == x.size(1) else seen_by_norm(x, p) * 0,
            "You average over the wrong axis: a channel is a column.",
        ),
        "over-all": (
            lambda x, p: torch.stack(
                [
                    x.mean().expand(x.size(1)),
                    (_odds(p) * x.square().mean() + x.var(unbiased=False)).expand(x.size(1)),
                ]
            ),
            "One mean and one variance serve all channels in your answer.",
        ),
        "detached": (
            _norm(lambda x, p: _var(x.detach()) + _odds(p) * x.detach().square().mean(0)),
            _CUT,
        ),
    },
    alternatives={
        "moments": _by_moments,
        "channel-by-channel": _by_channel,
        "shares": lambda x, p: torch.stack(
            [x.mean(0), (x.var(0, correction=0) + p * x.mean(0) ** 2) / (1 - p)]
        ),
    },
)


# dropout.attend


def drop_attention(scores, v, draws, p):
    weights = torch.softmax(scores, -1)
    return weights.masked_fill(draws < p, 0.0) @ v / (1 - p)


def _attend_cases(seed):
    draw = Draw(seed)
    n, m, d = draw.between(3, 4), draw.between(5, 6), draw.between(2, 4)

    def case(label, shape, d, p, dtype=F32, size=1.0, level=0.0):
        scores = size * draw.normal(*shape, dtype=dtype) + level
        inputs = {
            "scores": scores,
            "v": draw.normal(*shape[:-2], shape[-1], d, dtype=dtype) + 1,
            "draws": _uniform(draw, *shape, dtype=dtype),
            "p": p,
        }
        inputs["draws"].view(-1)[:2] = torch.tensor([p, 0], dtype=dtype)
        out = draw.normal(*shape[:-1], d, dtype=dtype)
        return Case(label, inputs, upstream=out)

    gone = case("a query that loses all its links", (n, m), d, 0.5)
    gone.args["draws"][1] = 0
    none = case("a query that loses none, in float64", (n, m), d, 0.25, F64)
    none.args["draws"][1] = 0.5
    return [
        case("one sequence", (n, m), d, 0.25),
        case("a batch", (2, n, m), d, 0.125),
        case("heads, in float64", (2, 3, n, m), d, 0.5, F64),
        case("as many queries as keys as channels", (4, 4), 4, 0.375),
        case("sharp attention, large scores", (n, m), d, 0.25, F32, 30.0, 200.0),
        case("none is lost", (n, m + 1), d, 0.0),
        case("one key, in float64", (m, 1), d, 0.5, F64),
        gone,
        none,
    ]


def _attend(weights=lambda scores: torch.softmax(scores, -1), drop=None, end=None):
    """Attention with dropout, with some of its choices replaced."""

    def wrong(scores, v, draws, p):
        dropped = (drop or drop_out)(weights(scores), draws, p)
        out = (dropped if end is None else end(dropped)) @ v
        return out

    return wrong


def _to_one(weights):
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)


def _key_by_key(scores, v, draws, p):
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    out = 0
    for j in range(scores.size(-1)):
        share = e[..., j : j + 1] / e.sum(-1, keepdim=True)
        kept = (draws[..., j : j + 1] >= p).to(scores.dtype)
        out = out + kept * share * v[..., j : j + 1, :] / (1 - p)
    return out


_ROWS = (
    "Your rows of weights sum to 1 whatever is lost. Dropout keeps that sum on average only: what"
    " one link gets must not depend on the luck of the others. Did you divide by a sum, or rule"
    " links out before the softmax?"
)

ATTEND = Question(
    name="dropout.attend",
    target="drop_attention",
    points=3,
    cases=_attend_cases,
    reference=drop_attention,
    mistakes={
        "back-to-one": (_attend(end=_to_one), _ROWS),
        "minus-infinity": (
            lambda scores, v, draws, p: (
                torch.softmax(scores.masked_fill(draws < p, -math.inf), -1) @ v
            ),
            _ROWS + " And a query that loses all its links gets NaN.",
        ),
        "minus-a-billion": (
            lambda scores, v, draws, p: torch.softmax(scores.masked_fill(draws < p, -1e9), -1) @ v,
            _ROWS + " And a query that loses all its links gets the mean of all values.",
        ),
        "infinity-scaled": (
            lambda scores, v, draws, p: (
                torch.softmax(scores.masked_fill(draws < p, -math.inf), -1) @ v / (1 - p)
            ),
            "You rule links out before the softmax, which shares their weight out among the rest,"
            " and then scale up what has been made up for already.",
        ),
        "scaled-twice": (
            lambda scores, v, draws, p: drop_attention(scores, v, draws, p) / (1 - p),
            "The right links are lost, and what stays is scaled up twice.",
        ),
        "scaled-again": (
            lambda scores, v, draws, p: drop_attention(scores / v.size(-1) ** 0.5, v, draws, p),
            "You divide the scores by a root. They were scaled before you got them.",
        ),
        "unstable": (
            lambda scores, v, draws, p: (
                (
                    torch.where(draws >= p, scores.exp(), torch.zeros_like(scores))
                    / scores.exp().sum(-1, keepdim=True)
                )
                @ v
                / (1 - p)
            ),
            "All is right for small scores. The exponential of a large one is infinite: what may be"
            " taken off a row before it?",
        ),
        "by-p": (
            _attend(drop=lambda weights, draws, p: weights * (draws >= p) / (p or 1)),
            _BY_P,
        ),
        "outputs": (
            lambda scores, v, draws, p: drop_out(torch.softmax(scores, -1) @ v, draws[..., :1], p),
            "You drop whole outputs: all links of a query, or none. Links are lost one by one,"
            " before the values are mixed.",
        ),
        "one-mask": (
            _attend(
                drop=lambda weights, draws, p: drop_out(
                    weights, draws.flatten(0, -3)[0] if draws.dim() > 2 else draws, p
                )
            ),
            _NOT_DRAWS + "all sequences and heads lose the same links in it.",
        ),
        "dropped-scores": (
            lambda scores, v, draws, p: torch.softmax(drop_out(scores, draws, p), -1) @ v,
            "You drop scores. A score of zero is no silence: after the softmax it is a weight like"
            " any other.",
        ),
        "unscaled": (
            _attend(drop=lambda weights, draws, p: weights * (draws >= p)),
            _NO_SCALE,
        ),
        "scaled-down": (
            _attend(drop=lambda weights, draws, p: weights * (draws >= p) * (1 - p)),
            "You scale down what stays. In which direction must it go, if others are gone?",
        ),
        "wrong-side": (
            _attend(drop=lambda weights, draws, p: weights * (draws < p) / (1 - p)),
            "The share p of the draws lies below p, and you keep those.",
        ),
        "p-keeps": (
            _attend(drop=lambda weights, draws, p: weights * (draws < p) / p if p else weights * 0),
            _P_KEEPS,
        ),
        "edge": (
            _attend(drop=lambda weights, draws, p: weights * (draws > p) / (1 - p)),
            "Right but for one draw in a great many: where p is zero, a draw of exactly zero must"
            " not cost a link.",
        ),
        "eval": (
            _attend(drop=lambda weights, draws, p: weights),
            _NOT_DRAWS + "it is attention as after training.",
        ),
        "whole-keys": (
            _attend(
                drop=lambda weights, draws, p: drop_out(
                    weights, draws[..., :1, :].expand(draws.shape), p
                )
            ),
            _NOT_DRAWS + "all queries lose the same keys in it.",
        ),
        "over-queries": (
            _attend(weights=lambda scores: torch.softmax(scores, -2)),
            "The softmax runs along the wrong axis: a query shares out one whole among the keys.",
        ),
        "detached": (
            _attend(weights=lambda scores: torch.softmax(scores.detach(), -1)),
            _CUT,
        ),
    },
    alternatives={
        "key-by-key": _key_by_key,
        "einsum": lambda scores, v, draws, p: torch.einsum(
            "...nm,...md->...nd",
            F.softmax(scores, dim=-1).masked_fill(draws < p, 0.0),
            v / (1 - p),
        ),
        "logarithms": lambda scores, v, draws, p: (
            torch.where(draws < p, 0.0, (scores.log_softmax(-1) - math.log(1 - p)).exp()) @ v
        ),
    },
)


QUESTIONS = (MASK, LOSS, NORM, ATTEND)
