"""Exercise set *shapes*: sizes, axes, a loss, the way back through a layer, and a step downhill.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

from itertools import product

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# shapes.follow


def follow_side(side, layers):
    n = side
    for kernel, stride, padding in layers:
        if n + 2 * padding < kernel:
            raise ValueError(f"a window of {kernel} does not fit")
        n = (n + 2 * padding - kernel) // stride + 1
    return n


def _follow_cases(seed):
    draw = Draw(seed)
    side, k = draw.between(20, 90), draw.between(4, 6)

    def case(label, side, *layers):
        return Case(label, {"side": side, "layers": layers})

    return [
        case("a 3-window that keeps the size", 224, (3, 1, 1)),
        case("a window of 2 that halves it", 56, (2, 2, 0)),
        case("windows that leave something over", 10, (3, 2, 0), (2, 2, 0)),
        case("the chapter's classifier", 224, (3, 2, 1), (2, 2, 0), (3, 1, 1), (2, 2, 0)),
        case("a stack of another size", side, (k, 3, 2), (3, 1, 1), (2, 2, 0)),
        case("an odd side", 2 * (side // 2) + 1, (3, 2, 1), (5, 1, 0)),
        case("a step wider than the window", side, (1, 2, 0), (2, 3, 0)),
        case("no layer at all", side),
        case("a side of 1, padded", 1, (3, 1, 1), (2, 1, 1)),
        case("a window that fits exactly, thanks to its padding", 2, (4, 1, 1)),
        case("a window that does not fit", 3, (5, 1, 0)),
        case("a window that does not fit in spite of its padding", 2, (5, 1, 1)),
        case("a window that does not fit any more", 12, (2, 2, 0), (3, 2, 0), (3, 1, 0)),
    ]


def _followed(formula, guarded=True):
    def wrong(side, layers):
        for kernel, stride, padding in layers:
            if guarded and side + 2 * padding < kernel:
                raise ValueError("the window does not fit")
            side = formula(side, kernel, stride, padding)
        return side

    return wrong


def _returned_at_once(side, layers):
    for layer in layers:
        return follow_side(side, (layer,))


def _guarded_too_early(side, layers):
    for kernel, stride, padding in layers:
        if kernel > side:
            raise ValueError("the window does not fit")
        side = (side + 2 * padding - kernel) // stride + 1
    return side


def _only_layer(at):
    return lambda side, layers: follow_side(side, layers[at : at + 1 or None])


_NO_GUARD = (
    "A window larger than the padded side has no place to stand, and a size of zero or less is no"
    " answer: test for that in each layer, before the division."
)
_SIDES = {
    "padding-once": (
        lambda n, k, s, p: (n + p - k) // s + 1,
        "Right without padding, too small with it. At how many ends of a side is it added?",
    ),
    "no-padding": (
        lambda n, k, s, p: (n - k) // s + 1,
        "Right without padding, too small with it. The window slides over the padded side.",
    ),
    "steps": (
        lambda n, k, s, p: (n + 2 * p - k) // s,
        "One too few in every layer. You count the steps that the window takes; how many places"
        " does it stand on, if it takes none?",
    ),
    "one-more-first": (
        lambda n, k, s, p: (n + 2 * p - k + 1) // s,
        "Right for a stride of 1. The window takes whole steps first, and then the place where it"
        " started counts as well: which of your two operations comes too early?",
    ),
    "rounded-up": (
        lambda n, k, s, p: -(-(n + 2 * p - k) // s) + 1,
        "One too many where the steps leave something over. A window that would hang out at the"
        " end is left out, so which way do you round?",
    ),
    "fraction": (
        lambda n, k, s, p: (n + 2 * p - k) / s + 1,
        "Sides are whole numbers, and yours stops being one. Which division drops what is over?",
    ),
    "stride-only": (
        lambda n, k, s, p: n // s,
        "You divide by the stride and ask neither the window nor the padding. Take a side of 10 and"
        " a window of 3: on how many places can it stand?",
    ),
    "same": (
        lambda n, k, s, p: -(-n // s),
        "That is what padding called *same* would give. Here the padding is a number of its own,"
        " and the window may cost something at the ends.",
    ),
    "window-only": (
        lambda n, k, s, p: n + 2 * p - k + 1,
        "Right for a stride of 1. A larger stride leaves places out.",
    ),
}


def _loop_side(side, layers):
    for kernel, stride, padding in layers:
        places = [at for at in range(side + 2 * padding - kernel + 1) if at % stride == 0]
        if not places:
            raise ValueError("nowhere to stand")
        side = len(places)
    return side


def _pooled_side(side, layers):
    for kernel, stride, padding in layers:
        if side + 2 * padding < kernel:
            raise ValueError("too small")
        line = torch.zeros(side + 2 * padding, device="cpu")
        side = line.unfold(0, kernel, stride).size(0)
    return side


FOLLOW = Question(
    name="shapes.follow",
    target="follow_side",
    points=2,
    cases=_follow_cases,
    reference=follow_side,
    mistakes={
        **{
            name + end: (_followed(formula, not end), both(hint, _NO_GUARD) if end else hint)
            for name, (formula, hint) in _SIDES.items()
            for end in ("", "-unguarded")
        },
        "unguarded": (
            _followed(lambda n, k, s, p: (n + 2 * p - k) // s + 1, guarded=False),
            _NO_GUARD,
        ),
        "first-layer": (
            _only_layer(0),
            "Right for one layer. What comes out of it goes into the next: does your loop come"
            " round a second time?",
        ),
        "returned-at-once": (
            _returned_at_once,
            "Right for one layer. Does your loop come round a second time, or is something in it"
            " over too soon? And what do you give back when there is no layer at all?",
        ),
        "guard-without-padding": (
            _guarded_too_early,
            "You refuse windows that fit thanks to their padding. Which side is it that a window"
            " must not be larger than?",
        ),
        "last-layer": (
            _only_layer(-1),
            "Right for one layer. In a stack, yours measures the last one against the original"
            " side: what it gets is what the layer before put out.",
        ),
    },
    alternatives={
        "loops": _loop_side,
        "unfold": _pooled_side,
        "recursion": lambda side, layers: (
            _loop_side(_loop_side(side, layers[:1]), layers[1:]) if layers else side
        ),
    },
)


# shapes.channels


def channels_first(images):
    return images.movedim(-1, -3)


def _channels_cases(seed):
    draw = Draw(seed)
    high, wide = draw.between(4, 5), draw.between(6, 7)

    def case(label, *shape, dtype=F32):
        *lead, h, w, c = shape
        images = draw.normal(*shape, dtype=dtype)
        return Case(label, {"images": images}, upstream=draw.normal(*lead, c, h, w, dtype=dtype))

    return [
        case("a batch of pictures", 2, high, wide, 3),
        case("one picture, no batch", high, wide, 3),
        case("square pictures", 2, wide, wide, 3),
        case("every axis of the same size", 3, 3, 3, 3),
        case("a film: frames in a batch", 2, 4, high, wide, 3),
        case("one channel", 2, high, wide, 1),
        case("a single row of pixels", 2, 1, wide, 3),
        case("in float64", 2, high, wide, 2, dtype=F64),
    ]


def _shaped(move):
    def wrong(images):
        *lead, h, w, c = images.shape
        return move(images, lead, h, w, c)

    return wrong


def _loop_channels(images):
    return torch.stack([images[..., c] for c in range(images.size(-1))], -3)


_ANY_AXES = (
    "Right with one number of axes, an error with others, and any number may stand in front. Which"
    " axis moves, and to where, counted from the end?"
)


CHANNELS = Question(
    name="shapes.channels",
    target="channels_first",
    points=2,
    cases=_channels_cases,
    reference=channels_first,
    mistakes={
        "reshape": (
            _shaped(lambda x, lead, h, w, c: x.reshape(*lead, c, h, w)),
            "The shape is right and the pictures are scrambled: each plane holds a mixture of the"
            " channels. You have cut the row in memory into other lengths. Which operation lets"
            " every number keep its coordinates, and lists them in another order?",
        ),
        "turned": (
            lambda images: images.transpose(-1, -3),
            "The channels stand first, and every picture lies on its side: rows and columns have"
            " changed places. Exchanging two axes is not enough, three have to move.",
        ),
        "turned-one-batch": (
            lambda images: images.transpose(1, 3),
            "Two things. Rows and columns have changed places, as exchanging two axes moves only"
            " two of three. And you count the axes from the front, where any number may stand.",
        ),
        "turned-permuted": (
            lambda images: images.permute(0, 3, 2, 1),
            "Two things. Behind the channels, columns stand before rows: every picture lies on its"
            " side. And you name four axes, where any number may stand in front.",
        ),
        "all-turned": (
            lambda images: images.permute(*reversed(range(images.dim()))),
            "Every axis has changed places, those in front of the pictures as well. Only the last"
            " three have anything to do with it, and rows stay before columns.",
        ),
        "swapped": (
            lambda images: images.transpose(-1, -2),
            "The channels have moved by one place only and stand between rows and columns.",
        ),
        "other-way": (
            lambda images: images.movedim(-3, -1),
            "That is the way back: it brings a first axis to the end. Here the last axis is to go"
            " in front of the other two.",
        ),
        "scrambled-turned": (
            _shaped(lambda x, lead, h, w, c: x.reshape(*lead, c, w, h)),
            "Each plane holds a mixture of the channels, and rows and columns have changed places"
            " in its shape. Begin with the operation: which one lets every number keep its"
            " coordinates?",
        ),
        "one-picture": (lambda images: images.permute(2, 0, 1), _ANY_AXES),
        "one-batch": (lambda images: images.permute(0, 3, 1, 2), _ANY_AXES),
        "picture-or-batch": (
            lambda images: images.permute((0, 3, 1, 2) if images.dim() == 4 else (2, 0, 1)),
            _ANY_AXES,
        ),
        "to-the-front": (
            lambda images: images.movedim(-1, 0),
            "Right for one picture. In a batch your channels stand before the pictures, and should"
            " stand inside each of them.",
        ),
        "not-moved": (
            lambda images: images.clone(),
            "The axes stand as they stood. The last one, with the channels, should come before"
            " rows and columns.",
        ),
    },
    alternatives={
        "stack": _loop_channels,
        "two-swaps": lambda images: images.transpose(-1, -2).transpose(-2, -3),
        "einsum": lambda images: torch.einsum("...hwc->...chw", images),
        "contiguous": lambda images: images.movedim(-1, -3).contiguous(),
        "permute": lambda images: images.permute(
            *range(images.dim() - 3), images.dim() - 1, images.dim() - 3, images.dim() - 2
        ),
    },
)


# shapes.loss


def mean_square(predicted, wanted):
    if len(predicted) != len(wanted):
        raise ValueError("as many predictions as wanted values, please")
    return ((predicted.squeeze(1) - wanted) ** 2).mean()


def _loss_cases(seed):
    draw = Draw(seed)
    n, m = draw.between(4, 6), draw.between(7, 9)

    def case(label, n, m=None, dtype=F32):
        predicted, wanted = draw.normal(n, 1, dtype=dtype), draw.normal(m or n, dtype=dtype)
        return Case(
            label,
            {"predicted": predicted, "wanted": wanted},
            upstream=draw.normal(dtype=dtype),
        )

    return [
        case("a small batch", n),
        case("a larger batch", m),
        case("two examples", 2),
        case("a batch of one", 1),
        case("in float64", 3, dtype=F64),
        case("one prediction for many wanted values", 1, n),
        case("many predictions for one wanted value", n, 1),
        case("two sizes that cannot be meant", n, m),
    ]


def _measured(measure, aligned, guarded=True):
    def wrong(predicted, wanted):
        if guarded and len(predicted) != len(wanted):
            raise ValueError("not as many")
        return measure((predicted[:, 0] if aligned else predicted) - wanted)

    return wrong


_PAIRS = (
    "A column minus a list is a table: every prediction meets every wanted value, and the mean runs"
    " over all pairs. Print the shape of the difference. It should have one entry for each example."
)
_SIZES = (
    "Different numbers of predictions and wanted values are the caller's mistake, also where"
    " broadcasting would make something of them. Refuse them first."
)
_MEASURES = {
    "": (lambda off: (off**2).mean(), ""),
    "sum": (
        lambda off: (off**2).sum(),
        "Your loss grows with the size of the batch: it adds up where it should average.",
    ),
    "root": (
        lambda off: (off**2).mean().sqrt(),
        "You take the root of the mean square. It has the same lowest point and other gradients;"
        " asked for is the mean square itself.",
    ),
    "half": (
        lambda off: (off**2).mean() / 2,
        "Half of what is wanted. Some books divide by two to make the derivative shorter; this one"
        " does not.",
    ),
    "half-sum": (
        lambda off: (off**2).sum() / 2,
        "You add up where you should average, and halve what should be whole: asked for is the"
        " plain mean of the squares.",
    ),
    "absolute": (
        lambda off: off.abs().mean(),
        "You average distances. Asked for are their squares.",
    ),
    "signed": (
        lambda off: off.mean(),
        "Errors above and below cancel in your mean. What makes both of them count as bad?",
    ),
}


def _mistaken_losses():
    """Every wrong measure, of all pairs or not, with and without a look at the sizes."""
    found = {}
    kinds = product(_MEASURES.items(), (("", True), ("all-pairs", False)), ("", "unguarded"))
    for (name, (measure, hint)), (pairs, aligned), end in kinds:
        names = [part for part in (pairs, name, end) if part]
        hints = [said for said in ("" if aligned else _PAIRS, hint, _SIZES if end else "") if said]
        # all pairs of signed errors have the mean of the signed errors
        told = names and len(hints) < 3 and (aligned or name != "signed")
        if told:
            said = hints[0] if len(hints) == 1 else both(*hints)
            found["-".join(names)] = (_measured(measure, aligned, not end), said)
    return found


def _loop_loss(predicted, wanted):
    if predicted.shape[0] != wanted.shape[0]:
        raise ValueError("sizes differ")
    return sum((p[0] - t) ** 2 for p, t in zip(predicted, wanted, strict=True)) / len(wanted)


def _column_loss(predicted, wanted):
    if predicted.numel() != wanted.numel():
        raise ValueError("sizes differ")
    return F.mse_loss(predicted, wanted[:, None])


LOSS = Question(
    name="shapes.loss",
    target="mean_square",
    points=1,
    cases=_loss_cases,
    reference=mean_square,
    mistakes=_mistaken_losses(),
    alternatives={"loops": _loop_loss, "columns": _column_loss},
)


# shapes.back


def back_through(g, x, weight, bias):
    let_through = x @ weight.T + bias > 0
    return (g * let_through) @ weight


def _back_cases(seed):
    draw = Draw(seed)
    batch, n_in, n_out = draw.between(3, 4), draw.between(5, 6), draw.between(7, 8)

    def case(label, batch, n_in, n_out, dtype=F32, change=lambda x, weight, bias: None):
        g, x = draw.normal(batch, n_out, dtype=dtype), draw.normal(batch, n_in, dtype=dtype)
        weight, bias = draw.normal(n_out, n_in, dtype=dtype), draw.normal(n_out, dtype=dtype)
        change(x, weight, bias)
        inputs = {"g": g, "x": x, "weight": weight, "bias": bias}
        return Case(label, inputs, upstream=draw.normal(batch, n_in, dtype=dtype))

    def border(x, weight, bias):
        # whole numbers, so that sums are exact; the first unit stands on the border
        x.copy_(torch.randint(-2, 3, x.shape, generator=draw.generator))
        weight.copy_(torch.randint(-2, 3, weight.shape, generator=draw.generator))
        weight[0], bias[0] = 1, -x[0].sum()

    def shut(x, weight, bias):
        bias.copy_(-100 - bias.abs())

    def wide_open(x, weight, bias):
        bias.copy_(100 + bias.abs())

    return [
        case("a batch", batch, n_in, n_out),
        case("fewer units than inputs", batch, n_out, n_in),
        case("as many units as inputs", batch, n_in, n_in),
        case("everything of the same size", 3, 3, 3),
        case("a batch of one", 1, n_in, n_out),
        case("one input", batch, 1, n_out),
        case("one unit", batch, n_in, 1),
        case("all units cut off", batch, n_in, n_out, change=shut),
        case("no unit cut off", batch, n_in, n_out, change=wide_open),
        case("units exactly on the border", batch, n_in, n_out, F64, border),
        case("in float64", batch, n_in, n_out, F64),
    ]


def _sent_back(mask):
    def wrong(g, x, weight, bias):
        return (g * mask(g, x, weight, bias)) @ weight

    return wrong


def _jacobians(g, x, weight, bias):
    rows = []
    for one, up in zip(x, g, strict=True):
        slope = ((weight @ one + bias) > 0).to(weight.dtype)
        rows.append(up @ (torch.diag(slope) @ weight))
    return torch.stack(rows)


def _by_autograd(g, x, weight, bias, keep=True):
    y = F.relu(F.linear(x, weight, bias))
    return torch.autograd.grad(y, x, g, create_graph=keep)[0]


_WAY = (
    "The axes do not fit, or fit by luck where the layer is square. Forward, the sum ran over the"
    " inputs; on the way back it runs over the units. Along which axis of the weights do these lie?"
)


BACK = Question(
    name="shapes.back",
    target="back_through",
    points=3,
    cases=_back_cases,
    reference=back_through,
    mistakes={
        "no-mask": (
            lambda g, x, weight, bias: g @ weight,
            "Right where no unit is cut off. A unit whose sum was below zero put out zero whatever"
            " its inputs did: how much of its gradient comes through?",
        ),
        "no-bias": (
            _sent_back(lambda g, x, weight, bias: x @ weight.T > 0),
            "The bias has no part in your gradient, and should not. But it does decide which units"
            " were cut off.",
        ),
        "at-the-border": (
            _sent_back(lambda g, x, weight, bias: x @ weight.T + bias >= 0),
            "Right but for units whose sum is exactly zero. The bend has no slope there; torch and"
            " this book agree on one of the two sides, the one that lets nothing through.",
        ),
        "turned": (
            _sent_back(lambda g, x, weight, bias: x @ weight.T + bias < 0),
            "You let through what was cut off, and cut off what went through.",
        ),
        "mask-by-gradient": (
            _sent_back(lambda g, x, weight, bias: g > 0),
            "You cut off negative gradients. What matters is the sign of the sum on the way"
            " forward; a gradient may have any sign.",
        ),
        "mask-by-input": (
            lambda g, x, weight, bias: (g @ weight) * (x > 0),
            "You mask by the sign of the inputs. The bend came after the sums: it is the sums that"
            " decide, and they have as many entries as there are units.",
        ),
        "times-output": (
            _sent_back(lambda g, x, weight, bias: F.relu(x @ weight.T + bias)),
            "You multiply by what the layer put out. The chain rule asks for the slope of the bend,"
            " which is one or zero.",
        ),
        "times-output-clamped": (
            _sent_back(lambda g, x, weight, bias: (x @ weight.T + bias).clamp(min=0)),
            "You multiply by what the layer put out. The chain rule asks for the slope of the bend,"
            " which is one or zero.",
        ),
        "times-sum": (
            _sent_back(lambda g, x, weight, bias: x @ weight.T + bias),
            "You multiply by the sums themselves. The chain rule asks for the slope of the bend at"
            " each of them, which is one or zero.",
        ),
        "for-the-weights": (
            lambda g, x, weight, bias: (g * (x @ weight.T + bias > 0)).T @ x,
            "That is the gradient of the weights, and it is right. Asked for is that of the input,"
            " which is handed on to the layer before.",
        ),
        "not-handed-on": (
            lambda g, x, weight, bias: g * (x @ weight.T + bias > 0),
            "That is the gradient of the sums, half of the way. One product is left, through the"
            " weights to the inputs.",
        ),
        "not-turned": (
            lambda g, x, weight, bias: (g * (x @ weight.T + bias > 0)) @ weight.T,
            _WAY,
        ),
        "not-turned-no-mask": (lambda g, x, weight, bias: g @ weight.T, _WAY),
        "with-bias": (
            lambda g, x, weight, bias: F.relu(x @ weight.T + bias) @ weight,
            "The gradient that came back to the layer does not enter your answer. It is what is"
            " multiplied by the slopes and by the weights.",
        ),
        "tape": (
            lambda g, x, weight, bias: _by_autograd(g, x, weight, bias, keep=False),
            "The numbers are right, and torch's autograd has found them for you. Write down what it"
            " does: one mask and one product.",
        ),
    },
    alternatives={
        "jacobians": _jacobians,
        "where": lambda g, x, weight, bias: torch.where(F.linear(x, weight, bias) > 0, g, 0).matmul(
            weight
        ),
        "einsum": lambda g, x, weight, bias: torch.einsum(
            "bo,oi->bi", g * (torch.einsum("oi,bi->bo", weight, x) + bias > 0), weight
        ),
        "sign": lambda g, x, weight, bias: (
            (weight.T @ (g * F.relu(x @ weight.T + bias).sign()).T).T
        ),
        "autograd": _by_autograd,
    },
)


# shapes.step


def one_step(weight, x, wanted, rate):
    off = x @ weight.T - wanted
    gradient = 2 * off.T @ x / len(x)
    return weight - rate * gradient


def _step_cases(seed):
    draw = Draw(seed)
    batch, n_in, n_out = draw.between(8, 9), draw.between(6, 7), draw.between(4, 5)

    def case(label, batch, n_in, n_out, rate, dtype=F32):
        inputs = {
            "weight": draw.normal(n_out, n_in, dtype=dtype),
            "x": draw.normal(batch, n_in, dtype=dtype),
            "wanted": draw.normal(batch, n_out, dtype=dtype),
            "rate": rate,
        }
        return Case(label, inputs, upstream=draw.normal(n_out, n_in, dtype=dtype))

    return [
        case("a batch", batch, n_in, n_out, 0.1),
        case("more outputs than inputs", batch, n_out, n_in, 0.3),
        case("as many outputs as inputs", batch, n_in, n_in, 0.1),
        case("everything of the same size", 3, 3, 3, 0.2),
        case("one input", batch, 1, n_out, 0.2),
        case("one output", batch, n_in, 1, 0.2),
        case("one example", 1, n_in, n_out, 0.1),
        case("a step of size 1", batch, n_in, n_out, 1.0),
        case("a step of size 0", batch, n_in, n_out, 0.0),
        case("in float64", batch, n_in, n_out, 0.01, F64),
    ]


def _stepped(two=2, over=len, sign=-1, gradient=lambda off, x: off.T @ x):
    def wrong(weight, x, wanted, rate):
        off = x @ weight.T - wanted
        return weight + sign * rate * two * gradient(off, x) / over(off)

    return wrong


_STEP_SLIPS = {
    "uphill": (
        {"sign": 1},
        "You walk uphill: the loss grows. The gradient points to where it rises, or your error has"
        " its sign turned.",
    ),
    "no-two": (
        {"two": 1},
        "Each step is half as long as it should be. What is the derivative of a square?",
    ),
    "sum": (
        {"over": lambda off: 1},
        "Your steps grow with the batch. The loss is a mean over the examples, so its gradient is"
        " one as well.",
    ),
    "all-entries": (
        {"over": torch.numel},
        "Your steps shrink as the outputs get more. The mean runs over the examples; over the"
        " outputs of one example the squares are added up.",
    ),
}


def _step_mistakes():
    """The slips, alone and together; two of them exclude each other."""
    found = {}
    for used in product((False, True), repeat=len(_STEP_SLIPS)):
        slips = [name for name, there in zip(_STEP_SLIPS, used, strict=True) if there]
        if slips and not {"sum", "all-entries"} <= set(slips):
            options = {k: v for name in slips for k, v in _STEP_SLIPS[name][0].items()}
            hint = " ".join(_STEP_SLIPS[name][1] for name in slips)
            found["-".join(slips)] = (_stepped(**options), hint)
    return found


def _distance(weight, x, wanted):
    return ((x @ weight.T - wanted) ** 2).sum(1).mean()


def _by_backward(weight, x, wanted, rate, keep=True):
    loss = _distance(weight, x, wanted)
    return weight - rate * torch.autograd.grad(loss, weight, create_graph=keep)[0]


def _loop_step(weight, x, wanted, rate):
    total = torch.zeros_like(weight)
    for one, t in zip(x, wanted, strict=True):
        total = total + 2 * torch.outer(weight @ one - t, one)
    return weight - rate * total / len(x)


STEP = Question(
    name="shapes.step",
    target="one_step",
    points=2,
    cases=_step_cases,
    reference=one_step,
    mistakes={
        **_step_mistakes(),
        "no-input": (
            _stepped(gradient=lambda off, x: off.sum(0)[:, None]),
            "All weights of a row move by the same amount. The chain rule has one factor more: how"
            " much does the output change when this weight does?",
        ),
        "one-for-all": (
            _stepped(over=lambda off: 1, gradient=lambda off, x: (off.T @ x).mean()),
            "All weights move by the same amount: your mean runs over the weights. Over which axis"
            " only should it?",
        ),
        "turned": (
            lambda weight, x, wanted, rate: (
                weight - rate * 2 * x.T @ (x @ weight.T - wanted) / len(x)
            ),
            "The rows and columns of your gradient have changed places. It has the shape of the"
            " weights: row i, column j belongs to output i and input j.",
        ),
        "no-error": (
            _stepped(two=1, gradient=lambda off, x: x.sum(0).expand(off.size(1), -1)),
            "Your step does not ask how far off the outputs are. Which factor comes from the"
            " square?",
        ),
        "squared": (
            _stepped(two=1, gradient=lambda off, x: (off**2).T @ x),
            "You multiply by the squared error. Going back through the square multiplies by its"
            " derivative.",
        ),
        "no-rate": (
            lambda weight, x, wanted, rate: one_step(weight, x, wanted, 1.0),
            "Right for a step of size 1. The size is an argument.",
        ),
        "gradient": (
            lambda weight, x, wanted, rate: weight - one_step(weight, x, wanted, 1.0),
            "That is the gradient, and it is right. Asked for are the weights after the step.",
        ),
        "change": (
            lambda weight, x, wanted, rate: one_step(weight, x, wanted, rate) - weight,
            "That is the change. Asked for are the weights after it.",
        ),
        "tape": (
            lambda *args: _by_backward(*args, keep=False),
            "The numbers are right, and torch's autograd has found the gradient for you. Write it"
            " down: it has three factors, from the square, from the product, and from the mean.",
        ),
    },
    alternatives={
        "autograd": _by_backward,
        "loops": _loop_step,
        "einsum": lambda weight, x, wanted, rate: (
            weight - 2 * rate / len(x) * torch.einsum("bo,bi->oi", x @ weight.T - wanted, x)
        ),
        "broadcast": lambda weight, x, wanted, rate: (
            weight + rate * (2 * (wanted - F.linear(x, weight))[..., None] * x[:, None]).mean(0)
        ),
    },
)


QUESTIONS = (FOLLOW, CHANNELS, LOSS, BACK, STEP)
