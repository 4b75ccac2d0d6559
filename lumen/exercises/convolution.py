"""Exercise set *convolution*: sizes, the sliding sum, how far a stack sees, weights, separation.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers. Kernels are not
flipped.
"""

from __future__ import annotations

from functools import reduce

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# convolution.side


def map_side(n, kernel, stride=1, padding=0, dilation=1):
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise ValueError("the padded side is shorter than the kernel")
    return room // stride + 1


def _side_cases(seed):
    draw = Draw(seed)
    n, k = draw.between(30, 70), draw.between(4, 6)

    def case(label, n, kernel, **settings):
        return Case(label, {"n": n, "kernel": kernel}, settings)

    return [
        case("no settings", 32, 3),
        case("padding that keeps the size", 224, 3, padding=1),
        case("the stem of ResNet", 224, 7, stride=2, padding=3),
        case("a hop that leaves something over", 10, 3, stride=2),
        case("hops of 3 that leave a little over", 10, 3, stride=3),
        case("dilation", n, 3, dilation=2),
        case("dilation that padding makes good", n, 5, padding=4, dilation=2),
        case("all settings at once", n, k, stride=3, padding=2, dilation=4),
        case("an even kernel", n, 4, padding=2),
        case("one tap", n, 1, stride=2, dilation=3),
        case("a side of 1, padded", 1, 3, padding=1),
        case("a kernel that fits exactly", 9, 5, stride=4, dilation=2),
        case("a kernel that does not fit", 4, 5),
        case("a dilated kernel that does not fit", 6, 3, dilation=3),
        case("a kernel that does not fit in spite of its padding", 2, 7, stride=2, padding=2),
    ]


def _sized(room, unguarded=False, hops=lambda room, s: room // s + 1):
    def wrong(n, kernel, stride=1, padding=0, dilation=1):
        if not unguarded and n + 2 * padding < dilation * (kernel - 1) + 1:
            raise ValueError("the kernel does not fit")
        return hops(room(n, kernel, padding, dilation), stride)

    return wrong


def _right_room(n, k, p, d):
    return n + 2 * p - d * (k - 1) - 1


_NO_ROOM = (
    "A kernel that spans more than the padded side has no place to stand, and a size of zero or"
    " less is no answer: test for that before the division."
)
_SIZES = {
    "padding-once": (
        lambda n, k, p, d: n + p - d * (k - 1) - 1,
        "Right without padding, too small with it. At how many ends of a side are the zeros laid?",
    ),
    "no-padding": (
        lambda n, k, p, d: n - d * (k - 1) - 1,
        "Right without padding, too small with it. The kernel slides over the padded side.",
    ),
    "no-dilation": (
        lambda n, k, p, d: n + 2 * p - k,
        "Right while the taps touch. With dilation there are pixels between two taps, and the"
        " kernel spans them too: how many gaps are there, and how long is each?",
    ),
    "dilation-times-kernel": (
        lambda n, k, p, d: n + 2 * p - d * k,
        "Right while the taps touch. You let every tap take up a whole gap. Draw three taps with a"
        " pixel left out between two of them: how many pixels from the first to the last?",
    ),
    "dilation-added": (
        lambda n, k, p, d: n + 2 * p - (k + d - 1),
        "Right while the taps touch. Dilation stretches every gap between two taps, not one.",
    ),
    "skipped-pixels": (
        lambda n, k, p, d: n + 2 * p - (d + 1) * (k - 1) - 1,
        "Dilation 1 means that the taps touch: it is the distance from one tap to the next, and not"
        " the number of pixels left out between them.",
    ),
}
_HOPS = {
    "hops": (
        lambda room, s: room // s,
        "One too few. You count the hops that the window takes; on how many places does it stand,"
        " if it takes none?",
    ),
    "one-more-first": (
        lambda room, s: (room + 1) // s,
        "Right for a stride of 1. The window hops first, and then the place where it started counts"
        " as well: which of your two operations comes too early?",
    ),
    "rounded-up": (
        lambda room, s: -(-room // s) + 1,
        "One too many where the hops leave something over. A window that would hang out at the end"
        " is left out, so which way do you round?",
    ),
    "fraction": (
        lambda room, s: room / s + 1,
        "Sides are whole numbers, and yours stops being one. Which division drops what is over?",
    ),
    "rounded-nearest": (
        lambda room, s: round(room / s) + 1,
        "Right where the hops come out even. What is left over is too short for another hop, be it"
        " ever so nearly long enough.",
    ),
    "stride-forgotten": (
        lambda room, s: room + 1,
        "Right for a stride of 1. A larger stride skips places.",
    ),
}


def _guarded(fits):
    def wrong(n, kernel, stride=1, padding=0, dilation=1):
        if not fits(n, kernel, padding, dilation):
            raise ValueError("the kernel does not fit")
        return (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1

    return wrong


def _loop_side(n, kernel, stride=1, padding=0, dilation=1):
    taps = range(0, dilation * kernel, dilation)
    places = [at for at in range(0, n + 2 * padding, stride) if at + taps[-1] < n + 2 * padding]
    if not places:
        raise ValueError("nowhere to stand")
    return len(places)


def _torch_side(n, kernel, stride=1, padding=0, dilation=1):
    line = torch.zeros(1, 1, n, dtype=F32)
    taps = torch.zeros(1, 1, kernel, dtype=F32)
    if n + 2 * padding < dilation * (kernel - 1) + 1:
        raise ValueError("too short")
    return F.conv1d(line, taps, None, stride, padding, dilation).size(-1)


SIDE = Question(
    name="convolution.side",
    target="map_side",
    points=2,
    cases=_side_cases,
    reference=map_side,
    mistakes={
        **{
            name + end: (_sized(room, bool(end)), both(hint, _NO_ROOM) if end else hint)
            for name, (room, hint) in _SIZES.items()
            for end in ("", "-unguarded")
        },
        **{
            name + end: (
                _sized(_right_room, bool(end), hops),
                both(hint, _NO_ROOM) if end else hint,
            )
            for name, (hops, hint) in _HOPS.items()
            for end in ("", "-unguarded")
        },
        "unguarded": (_sized(_right_room, True), _NO_ROOM),
        "guard-unpadded": (
            _guarded(lambda n, k, p, d: d * (k - 1) + 1 <= n),
            "You refuse a kernel that fits. It may be longer than the picture, if it is not longer"
            " than the picture and its padding together.",
        ),
        "guard-undilated": (
            _guarded(lambda n, k, p, d: k <= n + 2 * p),
            "The sizes are right, and your refusal comes too late where there is dilation: what has"
            " to fit is all that the kernel spans, and not its taps alone.",
        ),
        "same": (
            lambda n, kernel, stride=1, padding=0, dilation=1: -(-n // stride),
            "That is what padding called *same* gives elsewhere. Here the padding is a number of"
            " its own, and the kernel may cost something at the ends.",
        ),
    },
    alternatives={
        "loops": _loop_side,
        "torch": _torch_side,
        "spanned": lambda n, kernel, stride=1, padding=0, dilation=1: (
            len(range(n + 2 * padding)[::1][kernel * dilation - dilation :: stride])
            or _loop_side(0, 1)
        ),
    },
)


# convolution.slide


def slide(x, weight, bias, stride=1, padding=0):
    x = F.pad(x, (padding,) * 4)
    height, width = weight.shape[2:]
    windows = x.unfold(2, height, stride).unfold(3, width, stride)
    y = torch.einsum("bcijuv,ocuv->boij", windows, weight)
    return y + bias[:, None, None]


def _slide_cases(seed):
    draw = Draw(seed)
    high, wide = draw.between(6, 7), draw.between(8, 9)

    def case(label, x, w, dtype=F32, **settings):
        x, weight = draw.normal(*x, dtype=dtype), draw.normal(*w, dtype=dtype)
        bias = draw.normal(len(weight), dtype=dtype)
        shape = F.conv2d(x, weight, bias, **settings).shape
        inputs = {"x": x, "weight": weight, "bias": bias}
        return Case(label, inputs, settings, upstream=draw.normal(*shape, dtype=dtype))

    return [
        case("one channel, one kernel", (1, 1, 5, 5), (1, 1, 3, 3)),
        case("three channels, four kernels", (2, 3, high, wide), (4, 3, 3, 3)),
        case("padding", (2, 3, high, wide), (2, 3, 3, 3), padding=1),
        case("stride", (2, 2, high, wide), (3, 2, 3, 3), stride=2),
        case("stride and padding", (2, 2, high, wide), (3, 2, 3, 3), stride=2, padding=1),
        case("a stride of 3 that leaves something over", (1, 2, 9, 11), (2, 2, 2, 2), stride=3),
        case("a kernel that is wider than high", (2, 2, high, wide), (2, 2, 2, 4), padding=2),
        case("as many channels in as out", (2, 3, high, wide), (3, 3, 3, 3)),
        case("everything of size 3", (3, 3, 3, 3), (3, 3, 3, 3), padding=1),
        case("one tap", (2, 3, 4, 5), (2, 3, 1, 1)),
        case("a kernel as large as the picture", (2, 2, 4, 5), (3, 2, 4, 5)),
        case("in float64", (1, 2, high, wide), (2, 2, 3, 3), F64, stride=2, padding=2),
    ]


def _windows(x, weight, stride, padding):
    x = F.pad(x, (padding,) * 4)
    return x.unfold(2, weight.size(2), stride).unfold(3, weight.size(3), stride)


def _slid(change_weight=lambda w: w, padded=None, cut=None, offset=lambda b: b[:, None, None]):
    """A wrong layer, made of a right one by changing what goes in and what comes out."""

    def wrong(x, weight, bias, stride=1, padding=0):
        weight = change_weight(weight)
        if padded:
            x, padding = padded(x, padding), 0
        windows = (cut or _windows)(x, weight, stride, padding)
        return torch.einsum("bcijuv,ocuv->boij", windows, weight) + offset(bias)

    return wrong


def _late_stride(x, weight, stride, padding):
    windows = _windows(x, weight, 1, padding)
    start = (stride - 1) % stride
    return windows[:, :, start::stride, start::stride]


def _each_channel(x, weight, bias, stride=1, padding=0):
    windows = _windows(x, weight, stride, padding)
    return torch.einsum("bcijuv,ocuv->boij", windows.mean(1, keepdim=True), weight)


def _loop_slide(x, weight, bias, stride=1, padding=0):
    x = F.pad(x, (padding,) * 4)
    k_h, k_w = weight.shape[2:]
    rows = []
    for i in range(0, x.size(2) - k_h + 1, stride):
        row = []
        for j in range(0, x.size(3) - k_w + 1, stride):
            window = x[:, None, :, i : i + k_h, j : j + k_w]
            row.append((window * weight).sum((2, 3, 4)) + bias)
        rows.append(torch.stack(row, -1))
    return torch.stack(rows, -2)


def _tap_by_tap(x, weight, bias, stride=1, padding=0):
    x = F.pad(x, (padding,) * 4)
    k_h, k_w = weight.shape[2:]
    rows, columns = x.size(2) - k_h + 1, x.size(3) - k_w + 1
    y = bias[:, None, None]
    for u in range(k_h):
        for v in range(k_w):
            seen = x[:, :, u : u + rows : stride, v : v + columns : stride]
            y = y + torch.einsum("bcij,oc->boij", seen, weight[:, :, u, v])
    return y


def _columns(x, weight, bias, stride=1, padding=0):
    rows = (x.size(2) + 2 * padding - weight.size(2)) // stride + 1
    columns = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
    y = weight.flatten(1) @ columns + bias[:, None]
    return y.unflatten(2, (rows, -1))


_FLIPPED = (
    "Your kernel is read backwards, as mathematics and scipy do. The first tap of the kernel"
    " belongs to the first pixel of the window."
)
_NO_STRIDE = (
    "Right for a stride of 1. A larger stride is the distance from one window to the next, in both"
    " directions."
)
_NO_PADDING = "Right without padding. Lay the zeros around the picture before you cut windows."
_NO_BIAS = "Your map is off by the same number everywhere, another one for each kernel. What is it?"


SLIDE = Question(
    name="convolution.slide",
    target="slide",
    points=3,
    cases=_slide_cases,
    reference=slide,
    mistakes={
        "flipped": (_slid(lambda w: w.flip(2, 3)), _FLIPPED),
        "flipped-rows": (
            _slid(lambda w: w.flip(2)),
            both(_FLIPPED, "In yours it is the rows that run the wrong way."),
        ),
        "flipped-columns": (
            _slid(lambda w: w.flip(3)),
            both(_FLIPPED, "In yours it is the columns that run the wrong way."),
        ),
        "flipped-channels": (
            _slid(lambda w: w.flip(1, 2, 3)),
            "The kernel is read backwards, and its channels too. Nothing here is turned round.",
        ),
        "no-stride": (
            lambda x, w, b, stride=1, padding=0: slide(x, w, b, 1, padding),
            _NO_STRIDE,
        ),
        "stride-down-only": (
            _slid(
                cut=lambda x, w, s, p: (
                    F.pad(x, (p,) * 4).unfold(2, w.size(2), s).unfold(3, w.size(3), 1)
                )
            ),
            both(_NO_STRIDE, "Yours hops down the picture and not along it."),
        ),
        "stride-along-only": (
            _slid(
                cut=lambda x, w, s, p: (
                    F.pad(x, (p,) * 4).unfold(2, w.size(2), 1).unfold(3, w.size(3), s)
                )
            ),
            both(_NO_STRIDE, "Yours hops along the picture and not down it."),
        ),
        "stride-late": (
            _slid(cut=_late_stride),
            "Right for a stride of 1. The first window stands at the very corner of the padded"
            " picture; yours starts further in.",
        ),
        "no-padding": (
            lambda x, w, b, stride=1, padding=0: slide(x, w, b, stride),
            _NO_PADDING,
        ),
        "padding-two-sides": (
            _slid(padded=lambda x, p: F.pad(x, (0, p, 0, p))),
            "Right without padding. Your zeros lie below and on the right only: a ring has four"
            " sides.",
        ),
        "padding-columns": (
            _slid(padded=lambda x, p: F.pad(x, (p, p))),
            "Right without padding. Your zeros lie left and right only. Above and below there are"
            " none: in what order does the function that pads take its numbers?",
        ),
        "padding-halved": (
            _slid(padded=lambda x, p: F.pad(x, (p // 2,) * 4)),
            "Right without padding. The padding is given for each side, and not for both together.",
        ),
        "padding-replicated": (
            _slid(padded=lambda x, p: F.pad(x, (p,) * 4, mode="replicate")),
            "Right inside, wrong at the border: you repeat the outermost pixels. What is laid"
            " around the picture is zeros.",
        ),
        "no-bias": (_slid(offset=lambda b: 0 * b[:, None, None]), _NO_BIAS),
        "bias-per-tap": (
            lambda x, w, b, stride=1, padding=0: slide(x, w, b * w[0].numel(), stride, padding),
            "The offset comes in once for each tap. It should be added once, to the finished sum.",
        ),
        "mean": (
            lambda x, w, b, stride=1, padding=0: slide(x, w / w[0].numel(), b, stride, padding),
            "Your answers are too small, by the number of taps: a kernel sums what it sees, and"
            " does not average it.",
        ),
        "mean-of-channels": (
            lambda x, w, b, stride=1, padding=0: slide(x, w / w.size(1), b, stride, padding),
            "Right for one channel. With more, yours is too small by their number: they are added"
            " up as the places of a window are.",
        ),
        "first-channel": (
            lambda x, w, b, stride=1, padding=0: slide(x[:, :1], w[:, :1], b, stride, padding),
            "Right for one channel. Of more, you read the first only: a kernel spans them all.",
        ),
        "channels-kept": (
            lambda x, w, b, stride=1, padding=0: torch.einsum(
                "bcijuv,ocuv->bcij", _windows(x, w, stride, padding), w
            ),
            "You have a map for each channel of the input, in which the kernels are added up. It"
            " is the channels that are added up, for one map of each kernel.",
        ),
        "turned": (
            _slid(lambda w: w.transpose(2, 3)),
            "Your kernel lies on its side: its rows meet the columns of the picture. Check the"
            " order of the axes in the sum.",
        ),
        "constant-weight": (
            lambda x, w, b, stride=1, padding=0: slide(x, w.detach(), b, stride, padding),
            "The map is right, and no gradient comes back to the kernel. Something on the way cuts"
            " it off: a cast, a detour through numpy, or a new tensor made from its numbers.",
        ),
    },
    alternatives={
        "loops": _loop_slide,
        "tap-by-tap": _tap_by_tap,
        "columns": _columns,
        "torch": lambda x, weight, bias, stride=1, padding=0: F.conv2d(
            x, weight, bias, stride, padding
        ),
        "tensordot": lambda x, weight, bias, stride=1, padding=0: (
            torch.tensordot(
                _windows(x, weight, stride, padding), weight, ([1, 4, 5], [1, 2, 3])
            ).movedim(-1, 1)
            + bias.reshape(1, -1, 1, 1)
        ),
    },
)


# convolution.field


def field(layers, r=1, j=1):
    for kernel, stride, dilation in layers:
        r = r + (kernel - 1) * dilation * j
        j = j * stride
    return r


def _field_cases(seed):
    draw = Draw(seed)
    k, d = draw.between(4, 6), draw.between(2, 4)
    conv, pool = (3, 1, 1), (2, 2, 1)

    def case(label, *layers, **start):
        return Case(label, {"layers": layers}, start)

    return [
        case("one layer", conv),
        case("two layers", conv, conv),
        case("a pool first", pool, conv),
        case("a pool last", conv, conv, pool),
        case("the chapter's stack", *[conv, conv, pool] * 3, conv, conv),
        case("the stem of ResNet", (7, 2, 1), (3, 2, 1)),
        case("doubled dilations", (3, 1, 1), (3, 1, 2), (3, 1, 4), (3, 1, 8)),
        case("dilation behind a stride", (3, 2, 1), (k, 1, d), (3, 3, 2)),
        case("everything at once", (k, 3, d), (5, 2, 3), (4, 1, 2)),
        case("one tap, stride 1", (1, 1, 1)),
        case("one tap that strides", (1, 2, 1), conv),
        case("no layer"),
        case("on top of another stack", conv, pool, conv, r=14, j=2),
        case("on top of a picture, said outright", (5, 2, 1), conv, r=1, j=1),
        case("with a jump and no field yet", conv, (3, 2, 2), conv, j=k),
    ]


def _fields(grow, jump=lambda j, s: j * s, jump_first=False):
    def wrong(layers, r=1, j=1):
        for k, s, d in layers:
            before, j = j, jump(j, s)
            r = grow(r, j if jump_first else before, k, s, d)
        return r

    return wrong


def _right_growth(r, j, k, s, d):
    return r + (k - 1) * d * j


_JUMP_FIRST = (
    "Right until something strides, then too large. The taps of a layer lie on units of the layer"
    " *below*, and it is the distance of those that counts: which of your two lines comes too"
    " early?"
)
_NO_DILATION = (
    "Right while the taps touch. With dilation the same taps lie further apart, and the field grows"
    " accordingly."
)
_GROWTHS = {
    "both-sides": (
        lambda r, j, k, s, d: r + 2 * (k - 1) * d * j,
        "You let a layer reach its full span to either side. From the first tap to the last is the"
        " whole of it, both sides together: what does a single layer of three taps see?",
    ),
    "one-side": (
        lambda r, j, k, s, d: r + (k - 1) // 2 * d * j,
        "Too small by about a half. The taps reach to both sides of the middle, and you count one.",
    ),
    "taps": (
        lambda r, j, k, s, d: r + k * d * j,
        "Too large. You count taps; what makes the field grow are the gaps between them.",
    ),
    "no-jump": (
        lambda r, j, k, s, d: r + (k - 1) * d,
        "Right until something strides. Behind a stride, neighbouring units lie several pixels"
        " apart, so each gap covers more of the picture.",
    ),
    "stride-for-jump": (
        lambda r, j, k, s, d: r + (k - 1) * d * s,
        "You multiply by the layer's own stride. What counts is how far apart the units below it"
        " lie: the product of all strides before it.",
    ),
    "dilated-span": (
        lambda r, j, k, s, d: r + (k * d - 1) * j,
        "Right while the taps touch. You stretch every tap; it is the gaps between them that are"
        " stretched, and there is one gap less than there are taps.",
    ),
    "dilation-added": (
        lambda r, j, k, s, d: r + (k - 1 + d - 1) * j,
        "Right while the taps touch. Dilation stretches every gap between two taps, not one.",
    ),
    "multiplied": (
        lambda r, j, k, s, d: r * ((k - 1) * d * j + 1),
        "Right for one layer. Fields add up: two layers of three taps see five pixels, not nine.",
    ),
}


def _backwards(layers, r=1, j=1):
    seen = 1
    for kernel, stride, dilation in reversed(layers):
        seen = stride * (seen - 1) + dilation * (kernel - 1) + 1
    return r + (seen - 1) * j


def _by_gradient(layers, r=1, j=1):
    line = torch.ones(1, 1, 4000, dtype=F64, device="cpu", requires_grad=True)
    y = line
    for kernel, stride, dilation in layers:
        y = y.unfold(2, dilation * (kernel - 1) + 1, stride)[..., ::dilation].mean(-1)
    [g] = torch.autograd.grad(y[0, 0, 0], line)
    return r + g[0, 0].nonzero().max().item() * j


FIELD = Question(
    name="convolution.field",
    target="field",
    points=2,
    cases=_field_cases,
    reference=field,
    mistakes={
        "jump-first": (_fields(_right_growth, jump_first=True), _JUMP_FIRST),
        "jump-first-no-dilation": (
            _fields(lambda r, j, k, s, d: r + (k - 1) * j, jump_first=True),
            both(_JUMP_FIRST, _NO_DILATION),
        ),
        "no-dilation": (_fields(lambda r, j, k, s, d: r + (k - 1) * j), _NO_DILATION),
        **{name: (_fields(growth), hint) for name, (growth, hint) in _GROWTHS.items()},
        "jumps-added": (
            _fields(_right_growth, lambda j, s: j + s - 1),
            "Right for a single stride. Strides do not add up: of every second unit, the next"
            " stride of 2 keeps every second.",
        ),
        "last-stride": (
            _fields(_right_growth, lambda j, s: s),
            "Right while at most one layer strides. You keep the last stride; the units of a layer"
            " lie as far apart as all strides so far have driven them.",
        ),
        "dilated-jump": (
            lambda layers, r=1, j=1: _fields(_right_growth)(
                [(k, s * d, d) for k, s, d in layers], r, j
            ),
            "Dilation spreads the taps of one kernel. It does not move the units of its output"
            " apart: those still stand at every place that the stride leaves.",
        ),
        "always-from-a-pixel": (
            lambda layers, r=1, j=1: field(layers),
            "Right on a picture. The stack may stand on another one, whose units already see `r`"
            " pixels and lie `j` pixels apart: begin there.",
        ),
        "field-not-carried": (
            lambda layers, r=1, j=1: field(layers, 1, j),
            "Right on a picture. Below the first layer each unit already sees `r` pixels: the"
            " stack's own reach comes on top of that.",
        ),
        "field-times-stride": (
            lambda layers, r=1, j=1: reduce(
                lambda at, layer: (
                    (at[0] + (layer[0] - 1) * layer[2] * at[1]) * layer[1],
                    at[1] * layer[1],
                ),
                layers,
                (r, j),
            )[0],
            "Right until something strides, then far too large. A stride drives the units apart;"
            " what each of them sees stays as it was.",
        ),
        "backwards-in-steps": (
            lambda layers, r=1, j=1: (
                r
                + j
                * (
                    reduce(
                        lambda seen, layer: seen * layer[1] + layer[2] * (layer[0] - 1),
                        layers[::-1],
                        1,
                    )
                    - 1
                )
            ),
            "Right until something strides, then too large. Going down through a stride, it is the"
            " gaps between units that become several; how many gaps lie between so many units?",
        ),
        "half-open": (
            lambda layers, r=1, j=1: field(layers, r, j) - 1,
            "One too few everywhere. A unit of the input sees itself, so where do you begin?",
        ),
    },
    alternatives={
        "backwards": _backwards,
        "gradient": _by_gradient,
        "reduce": lambda layers, r=1, j=1: reduce(
            lambda at, layer: (at[0] + (layer[0] - 1) * layer[2] * at[1], at[1] * layer[1]),
            layers,
            (r, j),
        )[0],
    },
)


# convolution.count


def conv_params(in_channels, out_channels, kernel, groups=1, bias=True):
    taps = kernel * kernel * (in_channels // groups)
    return out_channels * taps + (out_channels if bias else 0)


def _count_cases(seed):
    draw = Draw(seed)
    n, m, g = 4 * draw.between(5, 9), 4 * draw.between(10, 14), draw.between(2, 5)

    def case(label, n_in, n_out, kernel, **settings):
        sizes = {"in_channels": n_in, "out_channels": n_out, "kernel": kernel}
        return Case(label, sizes, settings)

    return [
        case("three colours to 64 maps", 3, 64, 3),
        case("a usual layer", 64, 128, 3),
        case("without offsets", 64, 128, 3, bias=False),
        case("with offsets, said outright", 64, 128, 3, groups=1, bias=True),
        case("32 groups", 64, 128, 3, groups=32),
        case("depthwise", 64, 64, 3, groups=64),
        case("depthwise without offsets", n, n, 5, groups=n, bias=False),
        case("a few groups", n, m, 3, groups=4),
        case("a few groups without offsets", g * n, g * m, 7, groups=g, bias=False),
        case("one tap", n, m, 1),
        case("one tap in groups", n, m, 1, groups=2),
        case("one channel", 1, 1, 3),
    ]


def _counted(weights, offsets=lambda n_in, n_out, k, g: n_out):
    def wrong(in_channels, out_channels, kernel, groups=1, bias=True):
        sizes = in_channels, out_channels, kernel, groups
        return weights(*sizes) + (offsets(*sizes) if bias else 0)

    return wrong


def _right_weights(n_in, n_out, k, g):
    return n_out * (n_in // g) * k * k


def _torch_params(in_channels, out_channels, kernel, groups=1, bias=True):
    layer = torch.nn.Conv2d(
        in_channels, out_channels, kernel, groups=groups, bias=bias, device="meta"
    )
    return sum(p.numel() for p in layer.parameters())


def _group_by_group(in_channels, out_channels, kernel, groups=1, bias=True):
    n_in, n_out, total = in_channels // groups, out_channels // groups, 0
    for _ in range(groups):
        total += n_out * (n_in * kernel * kernel + bool(bias))
    return total


COUNT = Question(
    name="convolution.count",
    target="conv_params",
    points=1,
    cases=_count_cases,
    reference=conv_params,
    mistakes={
        "no-groups": (
            _counted(lambda n, m, k, g: n * m * k * k),
            "Right with one group. With more, a kernel sees the channels of its own group only.",
        ),
        "both-divided": (
            _counted(lambda n, m, k, g: (n // g) * (m // g) * k * k),
            "Right with one group. What you count is a single group: how many of them are there?",
        ),
        "divided-at-the-end": (
            lambda n, m, kernel, groups=1, bias=True: conv_params(n, m, kernel, 1, bias) // groups,
            "Right with one group, and right for the taps with more. But each kernel has an offset"
            " of its own, in however many groups: those must not be divided.",
        ),
        "times-groups": (
            _counted(lambda n, m, k, g: n * m * k * k * g),
            "Right with one group. Groups make a layer smaller: what a kernel no longer sees, it"
            " has no taps for.",
        ),
        "kernel-once": (
            _counted(lambda n, m, k, g: m * (n // g) * k),
            "Too small. A kernel has rows *and* columns of taps.",
        ),
        "one-kernel": (
            _counted(lambda n, m, k, g: (n // g) * k * k),
            "That is a single kernel. There is one for each channel of the output.",
        ),
        "no-channels": (
            _counted(lambda n, m, k, g: m * k * k),
            "Your kernels are flat. Each has taps for every channel that it sees.",
        ),
        "no-bias": (
            _counted(_right_weights, lambda n, m, k, g: 0),
            "The taps are right. An offset for each kernel is missing, unless it is switched off.",
        ),
        "always-bias": (
            lambda n, m, kernel, groups=1, bias=True: conv_params(n, m, kernel, groups),
            "Right with offsets. Where they are switched off, yours still counts them.",
        ),
        "bias-per-input": (
            _counted(_right_weights, lambda n, m, k, g: n),
            "The taps are right. Offsets are added to the maps that come out: how many are those?",
        ),
        "bias-per-group": (
            _counted(_right_weights, lambda n, m, k, g: m * g),
            "The taps are right. A kernel belongs to one group only, and has one offset: the groups"
            " do not multiply them.",
        ),
        "one-bias": (
            _counted(_right_weights, lambda n, m, k, g: 1),
            "The taps are right. Each kernel has an offset of its own; you count a single one.",
        ),
        "bias-per-pair": (
            _counted(_right_weights, lambda n, m, k, g: n * m),
            "The taps are right. The channels are added up before the offset comes: it is one for"
            " each map, and not for each pair of channels.",
        ),
        "float": (
            _counted(lambda n, m, k, g: m * (n / g) * k * k),
            "The number is right, its type is not: weights are counted in whole numbers. Which"
            " division gives one?",
        ),
    },
    alternatives={
        "torch": _torch_params,
        "group-by-group": _group_by_group,
        "factored": lambda in_channels, out_channels, kernel, groups=1, bias=True: (
            out_channels * (in_channels * kernel * kernel // groups + int(bias))
        ),
    },
)


# convolution.separable


def separable(x, depth, point):
    _, k, _ = depth.shape
    x = F.pad(x, (k // 2,) * 4)
    windows = x.unfold(2, k, 1).unfold(3, k, 1)
    y = torch.einsum("bcijuv,cuv->bcij", windows, depth)
    return torch.einsum("bcij,oc->boij", y, point)


def _separable_cases(seed):
    draw = Draw(seed)
    high, wide = draw.between(6, 7), draw.between(8, 9)

    def case(label, x, k, n_out, dtype=F32):
        b, c, h, w = x
        inputs = {
            "x": draw.normal(*x, dtype=dtype),
            "depth": draw.normal(c, k, k, dtype=dtype),
            "point": draw.normal(n_out, c, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(b, n_out, h, w, dtype=dtype))

    return [
        case("three channels to five", (2, 3, high, wide), 3, 5),
        case("five channels to two", (2, 5, high, wide), 3, 2),
        case("a larger kernel", (1, 2, high, wide), 5, 3),
        case("as many channels in as out", (2, 3, high, wide), 3, 3),
        case("everything of size 3", (3, 3, 3, 3), 3, 3),
        case("a square picture", (1, 4, 6, 6), 3, 2),
        case("one channel", (2, 1, high, wide), 3, 4),
        case("one tap", (2, 3, high, wide), 1, 2),
        case("a kernel larger than the picture", (2, 2, 2, 3), 7, 2),
        case("in float64", (1, 3, high, wide), 5, 2, F64),
    ]


def _depthwise(x, depth, padding):
    return F.conv2d(x, depth[:, None], padding=padding, groups=len(depth))


def _parted(depth_of=lambda d: d, point_of=lambda p: p, padding=lambda k: k // 2):
    def wrong(x, depth, point):
        y = _depthwise(x, depth_of(depth), padding(depth.size(1)))
        return torch.einsum("bcij,oc->boij", y, point_of(point))

    return wrong


def _square_only(point):
    return point.T if point.size(0) == point.size(1) else point


SEPARABLE = Question(
    name="convolution.separable",
    target="separable",
    points=2,
    cases=_separable_cases,
    reference=separable,
    mistakes={
        "channels-added": (
            lambda x, depth, point: (
                F.conv2d(x, depth[None], padding=depth.size(1) // 2) * point.sum(1)[:, None, None]
            ),
            "You add the channels up in the first step, and every map that comes out is the same"
            " one in another size. First each channel meets its own kernel and stays by itself.",
        ),
        "one-kernel": (
            _parted(lambda d: d[:1].expand_as(d)),
            "Right for one channel. You lay the first kernel over all channels; each has its own.",
        ),
        "no-padding": (
            _parted(padding=lambda k: 0),
            "The maps come out smaller than the picture. How many zeros on each side make up for"
            " what a kernel of `k` taps costs?",
        ),
        "padding-k": (
            _parted(padding=lambda k: k),
            "The maps come out larger than the picture. A kernel costs its reach on each side, and"
            " that is not its whole width.",
        ),
        "padding-1": (
            _parted(padding=lambda k: 1),
            "Right for three taps. The padding that keeps the size depends on the kernel.",
        ),
        "flipped": (
            _parted(lambda d: d.flip(1, 2)),
            "Your kernels are read backwards. The first tap of a kernel belongs to the first pixel"
            " of its window.",
        ),
        "turned": (
            _parted(lambda d: d.transpose(1, 2)),
            "Your kernels lie on their sides: their rows meet the columns of the picture.",
        ),
        "no-point": (
            lambda x, depth, point: _depthwise(x, depth, depth.size(1) // 2),
            "That is the first half. The channels have not been mixed yet, and there are as many"
            " as came in.",
        ),
        "no-depth": (
            lambda x, depth, point: torch.einsum("bcij,oc->boij", x, point),
            "That is the second half: it mixes channels, pixel by pixel. No pixel has seen its"
            " neighbours yet.",
        ),
        "point-turned": (
            _parted(point_of=_square_only),
            "Right, unless there are as many channels in as out: then your second step reads the"
            " table the wrong way. Its rows are the maps that come out.",
        ),
        "relu-between": (
            lambda x, depth, point: torch.einsum(
                "bcij,oc->boij", _depthwise(x, depth, depth.size(1) // 2).relu(), point
            ),
            "There is a bend between your two steps. Networks often have one there; this function"
            " is to be one linear layer, cut in two.",
        ),
        "constant-depth": (
            _parted(lambda d: d.detach()),
            "The maps are right, and no gradient comes back to the kernels. Something on the way"
            " cuts it off: a cast, a detour through numpy, or a new tensor made from its numbers.",
        ),
    },
    alternatives={
        "torch": lambda x, depth, point: F.conv2d(
            _depthwise(x, depth, depth.size(1) // 2), point[:, :, None, None]
        ),
        "one-full-layer": lambda x, depth, point: F.conv2d(
            x, point[:, :, None, None] * depth, padding=depth.size(1) // 2
        ),
        "loops": lambda x, depth, point: torch.einsum(
            "cbij,oc->boij",
            torch.stack(
                [
                    F.conv2d(x[:, c, None], kernel[None, None], padding=len(kernel) // 2)[:, 0]
                    for c, kernel in enumerate(depth)
                ]
            ),
            point,
        ),
    },
)

QUESTIONS = (SIDE, SLIDE, FIELD, COUNT, SEPARABLE)
