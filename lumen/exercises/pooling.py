"""Exercise set *pooling*: the largest and the mean of windows, a gradient, sizes, and heads.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers. Of equal maxima the
first in reading order counts.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

INF = math.inf
F32, F64 = torch.float32, torch.float64

_STRIDE_ONE = (
    "Right where the stride is given. Where it is not, the windows should lie side by side: yours"
    " overlap. Which step takes a window to the next one without a gap?"
)
_STRIDE_LOST = (
    "Right while the windows lie side by side. The stride can be given too, and then windows"
    " overlap, or leave gaps between them."
)
_UNPADDED = (
    "Right without padding. With it the map grows by a border on all four sides before the windows"
    " are laid, and there are more of them."
)
_CEIL = (
    "The last window in a row or a column hangs over the edge in your answer. Here only windows"
    " that lie wholly inside count, so which way do you round?"
)


def _windows(x, kernel, stride, padding=0, value=0.0):
    x = F.pad(x, (padding,) * 4, value=value)
    return x.unfold(-2, kernel, stride).unfold(-2, kernel, stride)


def _loops(x, kernel, stride, padding, one, value):
    """Every window by itself; ``one`` takes a window and its corner."""
    stride = kernel if stride is None else stride
    height, width = x.shape[-2:]
    x = F.pad(x, (padding,) * 4, value=value)
    rows = range(0, height + 2 * padding - kernel + 1, stride)
    columns = range(0, width + 2 * padding - kernel + 1, stride)
    return torch.stack(
        [
            torch.stack([one(x[..., i : i + kernel, j : j + kernel], i, j) for j in columns], -1)
            for i in rows
        ],
        -2,
    )


def _hanging(pool):
    """Windows that hang over the edge are kept, and pooled as far as they go."""

    def wrong(x, kernel, stride=None, padding=0, **more):
        stride = kernel if stride is None else stride
        over = [(n + 2 * padding - kernel) % stride for n in x.shape[-2:]]
        end = [stride - n if n else 0 for n in over]
        x = F.pad(x, (padding, padding + end[1], padding, padding + end[0]), value=-INF)
        return pool(x, kernel, stride, padding, end)

    return wrong


# pooling.largest


def max_pool(x, kernel, stride=None, padding=0):
    stride = kernel if stride is None else stride
    x = F.pad(x, (padding,) * 4, value=-INF)
    return x.unfold(-2, kernel, stride).unfold(-2, kernel, stride).amax((-2, -1))


def _pool_case(draw, label, shape, kernel, *, dtype=F32, x=None, **settings):
    x = draw.normal(*shape, dtype=dtype) if x is None else x
    stride, padding = settings.get("stride") or kernel, settings.get("padding", 0)
    *lead, height, width = x.shape
    sides = [(n + 2 * padding - kernel) // stride + 1 for n in (height, width)]
    return Case(
        label,
        {"x": x, "kernel": kernel},
        settings,
        upstream=draw.normal(*lead, *sides, dtype=x.dtype),
    )


def _largest_cases(seed):
    draw = Draw(seed)
    n = draw.between(3, 4)

    def case(*args, **settings):
        return _pool_case(draw, *args, **settings)

    below = -1 - draw.normal(2, 6, 6).abs()
    return [
        case("one map", (2 * n, 6), 2),
        case("a batch with channels", (2, 3, 4, 2 * n), 2),
        case("windows of 3 that overlap", (2, 7, 9), 3, stride=2),
        case("windows with gaps between", (3, 8, 11), 2, stride=3),
        case("a side that the windows do not fill", (2, 7, 8), 3),
        case("a padded border", (2, 2, 6, 5), 3, stride=2, padding=1),
        case("a padded border, all numbers below zero", None, 3, x=below, padding=1),
        case("all far below zero", None, 2, x=below.double() - 1e12, stride=2, padding=1),
        case("windows of one number", (3, 4), 1),
        case("a map of one number, padded", (1, 1), 2, padding=1),
        case("a window as large as the map", (1, 2, 4, 4), 4, stride=1),
        case("float64", (2, 9, 7), 3, dtype=F64, stride=1, padding=1),
    ]


def _max_padded(value):
    return lambda x, kernel, stride=None, padding=0: _windows(
        x, kernel, kernel if stride is None else stride, padding, value
    ).amax((-2, -1))


def _largest_by(pool, stride=lambda k, s: s or k, padding=lambda p: p, value=-INF):
    def wrong(x, kernel, stride_=None, padding_=0):
        windows = _windows(x, kernel, stride(kernel, stride_), padding(padding_), value)
        return pool(windows)

    return lambda x, kernel, stride=None, padding=0: wrong(x, kernel, stride, padding)


def _top(windows):
    return windows.amax((-2, -1))


def _torch_max(x, kernel, stride=None, padding=0):
    lead = x.shape[:-2]
    y = F.max_pool2d(x.reshape(1, -1, *x.shape[-2:]), kernel, stride, padding)
    return y.reshape(*lead, *y.shape[-2:])


LARGEST = Question(
    name="pooling.largest",
    target="max_pool",
    points=3,
    cases=_largest_cases,
    reference=max_pool,
    mistakes={
        "zero-padding": (
            _max_padded(0.0),
            "Right while every window holds a number above zero. At the border of a map of negative"
            " numbers your padding wins. What should stand there so that it never can?",
        ),
        "finite-padding": (
            _max_padded(-1e9),
            "A map can hold numbers below the one that you pad with, and then the padding wins."
            " There is one number that is below them all.",
        ),
        "smallest-padding": (
            lambda x, kernel, stride=None, padding=0: _max_padded(x.detach().min().item())(
                x, kernel, stride, padding
            ),
            "The numbers are right. But your padding is as large as the smallest number of the map,"
            " so the two tie, and a part of the gradient goes into the border. It must lose.",
        ),
        "stride-one": (_largest_by(_top, stride=lambda k, s: s or 1), _STRIDE_ONE),
        "stride-lost": (_largest_by(_top, stride=lambda k, s: k), _STRIDE_LOST),
        "stride-two": (
            _largest_by(_top, stride=lambda k, s: s or 2),
            "Right where the stride is given, and for windows of 2. Where it is not given, the"
            " windows lie side by side whatever their size.",
        ),
        "no-padding": (_largest_by(_top, padding=lambda p: 0), _UNPADDED),
        "rounded-up": (
            _hanging(lambda x, k, s, p, end: _top(_windows(x, k, s))),
            _CEIL,
        ),
        "torch-as-it-is": (
            lambda x, kernel, stride=None, padding=0: F.max_pool2d(x, kernel, stride, padding),
            "Right for maps with one or two axes in front. torch's function takes no others, and a"
            " lone map has none: give it the axes that it wants, and take them away again.",
        ),
        "axes-from-the-front": (
            lambda x, kernel, stride=None, padding=0: (
                F.pad(x, (padding,) * 4, value=-INF)
                .unfold(2, kernel, kernel if stride is None else stride)
                .unfold(3, kernel, kernel if stride is None else stride)
                .amax((-2, -1))
            ),
            "Right for a batch with channels. Other inputs have fewer axes in front, or none, and"
            " then rows and columns are not where you look. From which end can they be counted?",
        ),
        "mean": (
            _largest_by(lambda w: w.mean((-2, -1)), value=0.0),
            "Each window comes out as its mean, and a lone peak is diluted. Asked for is its"
            " largest number.",
        ),
        "rows-only": (
            lambda x, kernel, stride=None, padding=0: (
                F.pad(x, (padding,) * 4, value=-INF)
                .unfold(-2, kernel, kernel if stride is None else stride)
                .amax(-1)
            ),
            "Height is halved and width is not. A window has rows and columns: your maximum runs"
            " along one of the two axes.",
        ),
        "pairs": (
            lambda x, kernel, stride=None, padding=0: _largest_by(_top)(
                x.abs(), kernel, stride, padding
            ),
            "You compare sizes without their signs. A large negative number is a small number.",
        ),
    },
    alternatives={
        "torch": _torch_max,
        "loops": lambda x, kernel, stride=None, padding=0: _loops(
            x, kernel, stride, padding, lambda w, i, j: w.amax((-2, -1)), -INF
        ),
        "max-of-max": lambda x, kernel, stride=None, padding=0: (
            _windows(x, kernel, stride or kernel, padding, -INF).max(-1).values.max(-1).values
        ),
        "lowest-float": lambda x, kernel, stride=None, padding=0: _max_padded(
            torch.finfo(x.dtype).min
        )(x, kernel, stride, padding),
    },
)


# pooling.mean


def avg_pool(x, kernel, stride=None, padding=0, count_include_pad=True):
    stride = kernel if stride is None else stride
    inside = torch.ones_like(x)
    if count_include_pad:
        total, counted = _sums(x, kernel, stride, padding), kernel * kernel
    else:
        total, counted = (_sums(part, kernel, stride, padding) for part in (x, inside))
    return total / counted


def _sums(x, kernel, stride, padding):
    return _windows(x, kernel, stride, padding).sum((-2, -1))


def _mean_cases(seed):
    draw = Draw(seed)
    n = draw.between(3, 4)

    def case(*args, **settings):
        return _pool_case(draw, *args, **settings)

    sparse = draw.normal(2, 6, 8).relu()
    return [
        case("one map", (2 * n, 6), 2),
        case("a batch with channels", (2, 3, 4, 2 * n), 2),
        case("windows of 3 that overlap", (2, 7, 9), 3, stride=2),
        case("a side that the windows do not fill", (2, 7, 8), 3),
        case("a map with many zeros", None, 2, x=sparse),
        case("padding that counts", (2, 2, 6, 5), 3, stride=2, padding=1),
        case("padding that counts, said", (2, 6, 6), 3, padding=1, count_include_pad=True),
        case("padding that does not count", (2, 6, 7), 3, padding=1, count_include_pad=False),
        case(
            "a map with many zeros, padding that does not count",
            None,
            4,
            x=sparse,
            stride=2,
            padding=2,
            count_include_pad=False,
        ),
        case("no padding, so none to count", (3, 4, 6), 2, count_include_pad=False),
        case("windows of one number", (3, 4), 1),
        case("float64", (2, 9, 7), 3, dtype=F64, stride=1, padding=1, count_include_pad=False),
    ]


def _mean_by(count, total=_sums, stride=lambda k, s: s or k, padding=lambda p: p):
    """A mean that is wrong in one way: ``count`` says what is divided by."""

    def wrong(x, k, s, p, counted):
        s, p = stride(k, s), padding(p)
        return total(x, k, s, p) / count(x, k, s, p, counted)

    return lambda x, kernel, stride=None, padding=0, count_include_pad=True: wrong(
        x, kernel, stride, padding, count_include_pad
    )


def _all(x, k, s, p, counted):
    return k * k


def _present(x, k, s, p, counted):
    return _sums(torch.ones_like(x), k, s, p)


def _right(x, k, s, p, counted):
    return _all(x, k, s, p, True) if counted else _present(x, k, s, p, False)


def _torch_mean(x, kernel, stride=None, padding=0, count_include_pad=True):
    how = {"count_include_pad": count_include_pad}
    y = F.avg_pool2d(x.reshape(1, -1, *x.shape[-2:]), kernel, stride, padding, **how)
    return y.reshape(*x.shape[:-2], *y.shape[-2:])


def _loop_mean(x, kernel, stride=None, padding=0, count_include_pad=True):
    height, width = x.shape[-2:]

    def one(window, i, j):
        rows = sum(padding <= r < height + padding for r in range(i, i + kernel))
        columns = sum(padding <= c < width + padding for c in range(j, j + kernel))
        number = kernel**2 if count_include_pad else rows * columns
        return window.sum((-2, -1)) / number

    return _loops(x, kernel, stride, padding, one, 0.0)


MEAN = Question(
    name="pooling.mean",
    target="avg_pool",
    points=2,
    cases=_mean_cases,
    reference=avg_pool,
    mistakes={
        "always-counted": (
            _mean_by(_all),
            "Right where the padding counts. Where it does not, a window at the border holds fewer"
            " numbers, and your border comes out too dark. How many numbers of the map does each"
            " window hold?",
        ),
        "never-counted": (
            _mean_by(_present),
            "Right where the padding does not count. The default is that its zeros are numbers like"
            " any other, and every window holds the same amount.",
        ),
        "not-zero": (
            _mean_by(lambda x, k, s, p, c: k * k if c else _sums((x != 0).to(x), k, s, p)),
            "A zero of the map is a number of the map. You leave out all zeros where only those of"
            " the padding should go: count places, not values.",
        ),
        "turned-round": (
            _mean_by(lambda x, k, s, p, c: _right(x, k, s, p, not c)),
            "Your flag says the opposite: where `count_include_pad` is true, the zeros of the"
            " padding belong to the amount that you divide by.",
        ),
        "sum": (
            _mean_by(lambda *_: 1),
            "These are the sums of the windows. One step is missing to a mean.",
        ),
        "by-side": (
            _mean_by(
                lambda x, k, s, p, c: k if c else _present(x, k, s, p, c) / k,
            ),
            "You divide by the side of a window. How many numbers does it hold?",
        ),
        "stride-one": (_mean_by(_right, stride=lambda k, s: s or 1), _STRIDE_ONE),
        "stride-lost": (_mean_by(_right, stride=lambda k, s: k), _STRIDE_LOST),
        "no-padding": (_mean_by(_right, padding=lambda p: 0), _UNPADDED),
        "largest": (
            _mean_by(lambda *_: 1, total=lambda *how: _windows(*how).amax((-2, -1))),
            "Each window comes out as its largest number. Asked for is the mean.",
        ),
    },
    alternatives={
        "torch": _torch_mean,
        "loops": _loop_mean,
        "mean-and-mend": lambda x, kernel, stride=None, padding=0, count_include_pad=True: (
            _windows(x, kernel, stride or kernel, padding).mean((-2, -1))
            / (
                1
                if count_include_pad
                else _windows(torch.ones_like(x), kernel, stride or kernel, padding).mean((-2, -1))
            )
        ),
    },
)


# pooling.back


def max_pool_back(x, g):
    *lead, height, width = x.shape
    cut = x.reshape(*lead, height // 2, 2, width // 2, 2)
    cut = cut.transpose(-3, -2).flatten(-2)
    winner = F.one_hot(cut.argmax(-1), 4)
    back = (winner * g[..., None]).unflatten(-1, (2, 2))
    return back.transpose(-3, -2).reshape(x.shape)


def _back_cases(seed):
    draw = Draw(seed)

    def case(label, shape, dtype=F32, x=None, whole=False):
        *lead, h, w = shape
        if x is None:
            x = draw.normal(*shape, dtype=dtype)
        if whole:
            x = (1.2 * x).round()
        g = draw.normal(*lead, h // 2, w // 2, dtype=dtype)
        return Case(label, {"x": x, "g": g}, upstream=draw.normal(*shape, dtype=dtype))

    crossed = torch.tensor([[0, 3, 1, 2], [3, 1, 2, 2]], dtype=F32)
    return [
        case("a single window", (2, 2)),
        case("one map", (4, 6)),
        case("a batch with channels", (2, 3, 4, 4)),
        case("whole numbers, so that there are ties", (2, 6, 8), whole=True),
        case("upper right and lower left are equal", (2, 4), x=crossed),
        case("equal numbers everywhere", (1, 4, 4), x=torch.full((1, 4, 4), -2.5, dtype=F32)),
        case("a map of zeros", (2, 2, 4), x=torch.zeros(2, 2, 4, dtype=F32)),
        case("wide and low", (3, 2, 10), whole=True),
        case("float64, with ties", (2, 8, 6), F64, whole=True),
    ]


def _cut(x):
    *lead, height, width = x.shape
    cut = x.reshape(*lead, height // 2, 2, width // 2, 2)
    return cut.transpose(-3, -2).flatten(-2)


def _whole(cut, shape):
    return cut.unflatten(-1, (2, 2)).transpose(-3, -2).reshape(shape)


def _back_by(share):
    """``share`` says how much of g each of the four numbers of a window gets."""
    return lambda x, g: _whole(share(_cut(x)) * g[..., None], x.shape)


def _is_top(cut):
    return (cut == cut.amax(-1, keepdim=True)).to(cut)


def _one(at):
    return F.one_hot(at, 4)


def _first_by_columns(cut):
    order = [0, 2, 1, 3]
    return _one(cut[..., order].argmax(-1))[..., order].to(cut)


def _loop_back(x, g):
    rows = []
    for i in range(x.size(-2)):
        row = []
        for j in range(x.size(-1)):
            top, left = i // 2 * 2, j // 2 * 2
            window = x[..., top : top + 2, left : left + 2].flatten(-2)
            here = window.argmax(-1) == 2 * (i % 2) + j % 2
            row.append(torch.where(here, g[..., i // 2, j // 2], 0))
        rows.append(torch.stack(row, -1))
    return torch.stack(rows, -2)


def _autograd_back(x, g):
    leaf = x.detach().requires_grad_()
    y = F.max_pool2d(leaf.reshape(1, -1, *x.shape[-2:]), 2)
    return torch.autograd.grad(y, leaf, g.reshape(y.shape), create_graph=True)[0]


def _scatter_back(x, g):
    flat = x.reshape(1, -1, *x.shape[-2:])
    _, at = F.max_pool2d(flat, 2, return_indices=True)
    out = torch.zeros_like(flat).flatten(2)
    return out.scatter(2, at.flatten(2), g.reshape(at.shape).flatten(2)).reshape(x.shape)


BACK = Question(
    name="pooling.back",
    target="max_pool_back",
    points=2,
    cases=_back_cases,
    reference=max_pool_back,
    mistakes={
        "shared": (
            _back_by(lambda cut: _is_top(cut) / _is_top(cut).sum(-1, keepdim=True)),
            "Right without ties. At a tie you share, which is a valid choice too; the rule here is"
            " that of torch's pooling: the first of equal numbers, in reading order, gets it all.",
        ),
        "every-winner": (
            _back_by(_is_top),
            "Right without ties. At a tie each of the equal numbers gets the whole gradient in your"
            " answer, and more comes out of the window than went in. One of them may have it.",
        ),
        "last-winner": (
            _back_by(lambda cut: _one(3 - cut.flip(-1).argmax(-1)).to(cut)),
            "Right without ties. Of equal numbers you let the last one win; the rule names the"
            " first in reading order.",
        ),
        "by-columns": (
            _back_by(_first_by_columns),
            "Right without ties, and nearly right with them. Which of the two comes first in"
            " reading order: upper right, or lower left?",
        ),
        "spread": (
            _back_by(lambda cut: torch.full_like(cut, 0.25)),
            "That is the gradient of a mean: a quarter for everyone. Of a maximum, three of four"
            " numbers can move a little and nothing happens.",
        ),
        "everyone": (
            _back_by(torch.ones_like),
            "All four numbers of a window get the whole gradient. How much does the maximum move if"
            " one that is not the largest moves a little?",
        ),
        "no-upstream": (
            lambda x, g: _whole(_one(_cut(x).argmax(-1)).to(x), x.shape) + 0 * g.sum(),
            "Your answer says who won. What arrives at the winner is what came back to its output,"
            " so `g` has to come in.",
        ),
        "times-value": (
            _back_by(lambda cut: _one(cut.argmax(-1)) * cut.detach()),
            "The gradient is in the right places, multiplied by the numbers of the map. The slope"
            " of a maximum, with respect to the number that is the maximum, is another number.",
        ),
    },
    alternatives={
        "loops": _loop_back,
        "autograd": _autograd_back,
        "scatter": _scatter_back,
    },
)


# pooling.size


def windows_along(size, kernel, stride=None, padding=0, ceil_mode=False):
    stride = kernel if stride is None else stride
    room = size + 2 * padding - kernel
    if ceil_mode:
        return min(-(-room // stride), (size + padding - 1) // stride) + 1
    return room // stride + 1


def _size_cases(seed):
    draw = Draw(seed)
    n, k = draw.between(20, 90), draw.between(3, 6)

    def case(label, size, kernel, **settings):
        return Case(label, {"size": size, "kernel": kernel}, settings)

    return [
        case("a side of 224, halved", 224, 2),
        case("an odd side", 13, 2),
        case("an odd side, rounded up", 13, 2, ceil_mode=True),
        case("the pool of ResNet's stem", 112, 3, stride=2, padding=1),
        case("the same, rounded up", 112, 3, stride=2, padding=1, ceil_mode=True),
        case("other sizes", n, k, stride=2),
        case("other sizes, rounded up", n, k, stride=3, ceil_mode=True),
        case("a stride that leaves nothing over", 11, 3, stride=2, ceil_mode=True),
        case("a last window that would start beyond the map", 3, 2, stride=3, ceil_mode=True),
        case("one that would start in the padding behind", 5, 2, stride=3, padding=1,
             ceil_mode=True),
        case("one that starts on the last number", 4, 2, stride=3, ceil_mode=True),
        case("wide steps and padding", n, 4, stride=7, padding=2, ceil_mode=True),
        case("a map of one number", 1, 1),
        case("a map of one number, padded", 1, 2, padding=1, ceil_mode=False),
        case("not said how to round", n, 5, padding=2),
    ]  # fmt: skip


def _sized(room=lambda n, k, p: n + 2 * p - k, floor=None, ceil=None, stride=None):
    """A size that is wrong in one way."""
    floor = floor or (lambda r, s, n, p: r // s + 1)
    ceil = ceil or (lambda r, s, n, p: min(-(-r // s), (n + p - 1) // s) + 1)

    def wrong(n, k, s, p, up):
        s = stride(k, s) if stride else (k if s is None else s)
        return (ceil if up else floor)(room(n, k, p), s, n, p)

    return lambda size, kernel, stride=None, padding=0, ceil_mode=False: wrong(
        size, kernel, stride, padding, ceil_mode
    )


def _down(r, s, n, p):
    return r // s + 1


def _up(r, s, n, p):
    return -(-r // s) + 1


def _loop_size(size, kernel, stride=None, padding=0, ceil_mode=False):
    stride, start, count = stride or kernel, -padding, 0
    while start < size and (ceil_mode or start + kernel <= size + padding):
        count, start = count + 1, start + stride
        if start - stride + kernel >= size + padding:
            break
    return count


SIZE = Question(
    name="pooling.size",
    target="windows_along",
    points=2,
    cases=_size_cases,
    reference=windows_along,
    mistakes={
        "always-down": (
            _sized(ceil=_down),
            "Right where you round down. With `ceil_mode` a last window that hangs over the edge is"
            " kept.",
        ),
        "always-up": (
            _sized(floor=lambda r, s, n, p: min(-(-r // s), (n + p - 1) // s) + 1),
            "Right where you round up. Without `ceil_mode` a window that hangs over the edge is"
            " left out.",
        ),
        "beyond": (
            _sized(ceil=_up),
            "Nearly: now and then you count one window too many. A window that hangs over the edge"
            " is kept only if it starts inside the map, or in the padding before it. Where does"
            " your last one start?",
        ),
        "beyond-padded": (
            _sized(ceil=lambda r, s, n, p: min(-(-r // s), (n + 2 * p - 1) // s) + 1),
            "Right but for a last window that starts in the padding *behind* the map. It holds no"
            " number of the map, and it is left out.",
        ),
        "beyond-unpadded": (
            _sized(ceil=lambda r, s, n, p: min(-(-r // s), (n - 1) // s) + 1),
            "Right without padding. Windows start in the padding before the map, so the map's own"
            " first number is not where you begin to count.",
        ),
        "padding-once": (
            _sized(room=lambda n, k, p: n + p - k),
            "Right without padding, too small with it. At how many ends of a side does it lie?",
        ),
        "no-padding": (
            _sized(room=lambda n, k, p: n - k),
            "Right without padding, too small with it. The windows run over the padded side.",
        ),
        "steps": (
            _sized(
                floor=lambda r, s, n, p: r // s,
                ceil=lambda r, s, n, p: min(-(-r // s), (n + p - 1) // s),
            ),
            "One too few. You count the steps that a window takes; how many places does it stand"
            " on if it takes none?",
        ),
        "no-kernel": (
            _sized(room=lambda n, k, p: n + 2 * p, floor=lambda r, s, n, p: r // s),
            "Right while the windows lie side by side. Those that overlap need room for all of the"
            " last one: how far can the first one move before its end meets the edge?",
        ),
        "stride-one": (_sized(stride=lambda k, s: s or 1), _STRIDE_ONE),
        "fraction": (
            _sized(floor=lambda r, s, n, p: r / s + 1),
            "Windows are whole. Yours are counted in fractions where something is left over, and"
            " even a whole count comes out as a float: which division drops what is over?",
        ),
    },
    alternatives={
        "torch": lambda size, kernel, stride=None, padding=0, ceil_mode=False: F.max_pool1d(
            torch.zeros(1, size), kernel, stride, padding, ceil_mode=ceil_mode
        ).size(1),
        "one-by-one": _loop_size,
        "drop-later": lambda size, kernel, stride=None, padding=0, ceil_mode=False: (
            lambda s, r: (
                r // s + 1
                if not ceil_mode
                else -(-r // s) + (0 if -(-r // s) * s >= size + padding else 1)
            )
        )(stride or kernel, size + 2 * padding - kernel),
    },
)


# pooling.head


def head_params(channels, height, width, classes, pooled=False, bias=True):
    read = channels if pooled else channels * height * width
    return read * classes + (classes if bias else 0)


def _head_cases(seed):
    draw = Draw(seed)
    c, h, w, n = (draw.between(*ends) for ends in ((17, 40), (3, 6), (7, 11), (12, 16)))

    def case(label, *sizes, **settings):
        names = ("channels", "height", "width", "classes")
        return Case(label, dict(zip(names, sizes, strict=True)), settings)

    return [
        case("VGG-16's last maps, a thousand classes", 512, 7, 7, 1000),
        case("the same without biases", 512, 7, 7, 1000, bias=False),
        case("the same, averaged", 512, 7, 7, 1000, pooled=True),
        case("other sizes", c, h, w, n),
        case("other sizes, averaged", c, h, w, n, pooled=True, bias=True),
        case("other sizes, averaged, no biases", c, h, w, n, pooled=True, bias=False),
        case("a map of one number", c, 1, 1, n),
        case("one channel, two classes", 1, h, w, 2, pooled=False),
    ]


def _headed(read=lambda c, h, w: c * h * w, pooled=lambda c, h, w: c, biases=lambda n, read, b: n):
    def wrong(channels, height, width, classes, pooled_=False, bias=True):
        numbers = (pooled if pooled_ else read)(channels, height, width)
        return numbers * classes + biases(classes, numbers, bias) * bool(bias)

    return lambda channels, height, width, classes, pooled=False, bias=True: wrong(
        channels, height, width, classes, pooled, bias
    )


def _dense(channels, height, width, classes, pooled=False, bias=True):
    read = channels * (1 if pooled else height * width)
    layer = torch.nn.Linear(read, classes, bias=bias, device="meta")
    return sum(weight.numel() for weight in layer.parameters())


def _conv_head(channels, height, width, classes, pooled=False, bias=True):
    kernel = (1, 1) if pooled else (height, width)
    layer = torch.nn.Conv2d(channels, classes, kernel, bias=bias, device="meta")
    return sum(weight.numel() for weight in layer.parameters())


HEAD = Question(
    name="pooling.head",
    target="head_params",
    points=1,
    cases=_head_cases,
    reference=head_params,
    mistakes={
        "never-pooled": (
            _headed(pooled=lambda c, h, w: c * h * w),
            "Right for maps that are flattened. Averaged, each channel is one number, and the dense"
            " layer reads no more than those.",
        ),
        "always-pooled": (
            _headed(read=lambda c, h, w: c),
            "Right for maps that are averaged. Flattened, every place of every channel is read by"
            " a weight of its own.",
        ),
        "no-bias": (
            _headed(biases=lambda n, read, b: 0),
            "Right without biases. Where there are some, every output has one.",
        ),
        "always-bias": (
            lambda channels, height, width, classes, pooled=False, bias=True: head_params(
                channels, height, width, classes, pooled
            ),
            "Right with biases. The last argument can switch them off.",
        ),
        "bias-for-inputs": (
            _headed(biases=lambda n, read, b: read),
            "Right without biases. With them you add one for each number that is read. A bias is"
            " added to an output, so how many are there?",
        ),
        "square": (
            _headed(read=lambda c, h, w: c * h * h),
            "Right for square maps. Height and width may differ.",
        ),
        "places-only": (
            _headed(pooled=lambda c, h, w: h * w),
            "Averaging takes the places away and leaves the channels. In your count it is the other"
            " way round.",
        ),
        "averaged-weights": (
            lambda channels, height, width, classes, pooled=False, bias=True: (
                head_params(channels, height, width, classes, False, bias)
                // (height * width if pooled else 1)
            ),
            "Nearly, when averaged. You divide the whole head by the number of places, and the"
            " biases with it. They depend on the classes alone.",
        ),
    },
    alternatives={
        "linear-layer": _dense,
        "as-a-convolution": _conv_head,
        "per-class": lambda channels, height, width, classes, pooled=False, bias=True: sum(
            channels * (1 if pooled else height * width) + (1 if bias else 0)
            for _ in range(classes)
        ),
    },
)


QUESTIONS = (LARGEST, MEAN, BACK, SIZE, HEAD)
