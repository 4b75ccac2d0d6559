"""Exercise set *attention*: scores, softmax, masks, heads, and what they cost.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers. In a mask, True means
"may attend".
"""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

INF = math.inf


# attention.scaled


def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def _scaled_cases(seed):
    draw = Draw(seed)
    n, m, d = draw.between(3, 4), draw.between(5, 6), draw.between(10, 15)

    def case(label, q_shape, m, dtype=torch.float32, length=1):
        *lead, n, d = q_shape
        q, k = draw.normal(*lead, n, d, dtype=dtype), draw.normal(*lead, m, d, dtype=dtype)
        return Case(
            label, {"q": length * q, "k": k}, upstream=draw.normal(*lead, n, m, dtype=dtype)
        )

    return [
        case("one sequence, no batch", (n, d), m),
        case("a batch, as many keys as queries", (2, n, d), n),
        case("a batch with heads", (2, 3, n, d), m),
        case("one query against many keys", (2, 2, 1, d), m),
        case("three axes in front", (2, 1, 3, n, 5), m),
        case("every axis of the same size", (3, 3, 3, 3), 3),
        case("width 1", (2, n, 1), m),
        # a width whose root is exact, for those who take the root in float32
        case("wide keys and long queries, in float64", (2, n, 64), m, torch.float64, 100),
    ]


def _loop_scores(q, k):
    rows = [
        torch.stack([(q[..., i, :] * k[..., j, :]).sum(-1) for j in range(k.size(-2))], -1)
        for i in range(q.size(-2))
    ]
    return torch.stack(rows, -2) / q.size(-1) ** 0.5


def _scores_with(turned):
    return lambda q, k: q @ turned(k) / math.sqrt(q.size(-1))


_AXES_OF_K = {
    "wrong-axes": _scores_with(lambda k: k.transpose(0, 1)),
    "wrong-axes-batch": _scores_with(lambda k: k.transpose(1, 2)),
    "wrong-axes-all": _scores_with(lambda k: k.permute(*reversed(range(k.dim())))),
    "wrong-axes-bmm": lambda q, k: torch.bmm(q, k.mT) / math.sqrt(q.size(-1)),
    "wrong-axes-bmm-batch": lambda q, k: torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1)),
}
_NO_ROOT = (
    "A division by two is at work and no root: a power binds more tightly than a division. What is"
    " the exponent in your line?"
)
_FROM_THE_END = (
    "Right with one number of axes, wrong with others, and any number may stand in front. Which two"
    " axes of k trade places, counted from the end? And does each of your steps let the rest be?"
)


SCALED = Question(
    name="attention.scaled",
    target="scaled_scores",
    points=2,
    cases=_scaled_cases,
    reference=scaled_scores,
    mistakes={
        "no-scale": (
            lambda q, k: q @ k.mT,
            "The wider the keys, the wider your scores spread, and the sooner softmax picks one key"
            " and starves the rest. How large is the spread of a sum of d_k independent products,"
            " and what brings it back to 1?",
        ),
        "by-width": (
            lambda q, k: q @ k.mT / q.size(-1),
            "Your scores shrink as the keys get wider, until softmax is nearly flat. You have"
            " cancelled the variance of the dot product where its standard deviation was meant.",
        ),
        "by-half-width": (lambda q, k: q @ k.mT / (q.size(-1) / 2), _NO_ROOT),
        "by-twice-width": (lambda q, k: q @ k.mT / (q.size(-1) * 2), _NO_ROOT),
        "by-d-model": (
            lambda q, k: q @ k.mT / math.sqrt(q.size(-1) * (q.size(-3) if q.dim() > 2 else 1)),
            "Right for one matrix, too small as soon as there are heads. Over how many products"
            " does the dot product of one head run? Your divisor counts more than those.",
        ),
        "by-keys": (
            lambda q, k: q @ k.mT / math.sqrt(k.size(-2)),
            "Your scale follows the length of the sequence. A score belongs to one query and one"
            " key, and the number of other keys is nothing to it. Over what does it sum?",
        ),
        "by-queries": (
            lambda q, k: q @ k.mT / math.sqrt(q.size(-2)),
            "Your scale follows the number of queries. A score belongs to one query and one key,"
            " and the number of other queries is nothing to it. Over what does it sum?",
        ),
        "fixed-8": (
            lambda q, k: q @ k.mT / 8,
            "Right for keys of one width only. The divisor is a number that was true of one model:"
            " ask the tensors for theirs.",
        ),
        "whole-root": (
            lambda q, k: q @ k.mT / math.isqrt(q.size(-1)),
            "Right where the width is a square number and a little off elsewhere. A fraction gets"
            " lost between the width and your divisor.",
        ),
        "multiplied": (
            lambda q, k: q @ k.mT * math.sqrt(q.size(-1)),
            "The spread of your scores grows with d_k twice over: once through the sum, and once"
            " through your scale, which works in the wrong direction.",
        ),
        "keys-ask": (
            lambda q, k: k @ q.mT / math.sqrt(q.size(-1)),
            "Rows and columns have changed places. Entry (i, j) is what query i makes of key j; in"
            " yours the keys do the asking.",
        ),
        **{name: (wrong, _FROM_THE_END) for name, wrong in _AXES_OF_K.items()},
        "weights": (
            lambda q, k: torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), -1),
            "Your rows are positive and sum to 1: they are weights already. Asked for is what goes"
            " into softmax.",
        ),
        "cosine": (
            lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT,
            "Make a query twice as long, and your scores stay as they are: they are cosines."
            " Attention lets the lengths count, and corrects for the width alone.",
        ),
        "float32": (
            lambda q, k: (q.float() @ k.float().mT / math.sqrt(q.size(-1))).to(q.dtype),
            "Right to about seven digits. What you were given can carry more, and somewhere on the"
            " way they are dropped: in which type does each of your steps compute?",
        ),
        "clamped": (
            lambda q, k: (q @ k.mT / math.sqrt(q.size(-1))).clamp(-80, 80),
            "Right while scores are small; large ones that differ come out alike. Keeping exp in"
            " range is the business of softmax, and it can do that without losing anything.",
        ),
    },
    alternatives={
        "loops": _loop_scores,
        "einsum": lambda q, k: torch.einsum("...id,...jd->...ij", q, k) * q.size(-1) ** -0.5,
        "query-first": lambda q, k: (q / math.sqrt(k.shape[-1])).matmul(k.mT),
        "not-contiguous": lambda q, k: (k @ (q * k.size(-1) ** -0.5).mT).mT,
        "root-of-tensor": lambda q, k: q @ k.mT / torch.sqrt(torch.tensor(k.size(-1))),
        "float64": lambda q, k: (q.double() @ k.double().mT / q.size(-1) ** 0.5).to(q.dtype),
        "broadcast": lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / q.size(-1) ** 0.5,
    },
)


# attention.softmax


def softmax(x, dim):
    top = x.amax(dim, keepdim=True)
    top = top.masked_fill(top == -INF, 0)
    e = torch.exp(x - top)
    total = e.sum(dim, keepdim=True)
    return e / total.masked_fill(total == 0, 1)


def _softmax_cases(seed):
    draw = Draw(seed)
    n, m = draw.between(3, 5), draw.between(6, 8)

    def case(label, x, dim):
        return Case(label, {"x": x, "dim": dim}, upstream=draw.normal(*x.shape, dtype=x.dtype))

    def far(label, x, dim):
        # near 1000, float32 steps by 6e-5: too coarse to compare gradients of two ways to compute
        return Case(label, {"x": x, "dim": dim})

    apart = torch.tensor([[1000.0], [0], [-1000]], dtype=torch.float32, device="cpu")
    holes = draw.normal(n, m).masked_fill(~draw.mask(n, m), -INF)
    low = draw.normal(n, m, dtype=torch.float64) - 100_000
    low = low.masked_fill(~draw.mask(n, m), -INF)
    empty = draw.normal(3, m)
    empty[1] = -INF
    columns = draw.normal(2, m, 3)
    columns[1, :, 2] = -INF
    depths = torch.tensor([[-3e30, -2e30, -INF]], dtype=torch.float32, device="cpu")
    level = draw.normal(n, m, dtype=torch.float64)
    level[-1], level[-1, 0] = -3, 0
    even = Case(
        "a gradient that is the same all along dim, in float64",
        {"x": level, "dim": -1},
        # what comes back is zero, or the shares do not sum to 1
        upstream=torch.linspace(0.5, 1, n, dtype=torch.float64)[:, None].expand(n, m),
    )
    return [
        case("rows of a matrix", draw.normal(n, m), -1),
        case("columns of a matrix", draw.normal(n, m), 0),
        case("a single vector", draw.normal(m), 0),
        case("the middle axis of three", draw.normal(2, m, 3), 1),
        case("the last but one of four", draw.normal(2, 3, m, 2), -2),
        case("an axis of size 1", draw.normal(n, 1), 1),
        far("logits around 1000", draw.normal(n, m) + 1000, 1),
        far("logits around -1000", draw.normal(n, m) - 1000, -1),
        far("one logit far above the rest", 300 * draw.normal(n, m), -1),
        far("rows 1000 apart", draw.normal(3, m) + apart, -1),
        case("rows 1000 apart, in float64", draw.normal(3, m, dtype=torch.float64) + apart, -1),
        case("some logits of -inf", holes, -1),
        case("some of -inf, the others near -100,000", low, -1),
        far("one of -inf, the others near -1e30", depths, -1),
        case("a row of -inf throughout", empty, -1),
        case("a column of -inf throughout", columns, 1),
        case("float64", 3 * draw.normal(n, m, dtype=torch.float64), -1),
        even,
    ]


def _top(x, dim):
    return x.amax(dim, keepdim=True)


def _safe_top(x, dim):
    return _top(x, dim).clamp(min=torch.finfo(x.dtype).min)


def _total(e, dim):
    return e.sum(dim, keepdim=True)


def _safe_total(e, dim):
    return _total(e, dim).masked_fill(_total(e, dim) == 0, 1)


def _softmax_after(shift, total=_total):
    def wrong(x, dim):
        e = torch.exp(x - shift(x, dim))
        return e / total(e, dim)

    return wrong


def _last_axis(step):
    return lambda x, dim: step(x, -1)


_EMPTY_NAN = (
    "Right except in a slice that is -inf throughout. Its largest logit is -inf too, and -inf minus"
    " -inf is NaN. Such a slice needs a harmless shift and a harmless divisor."
)
_NO_DIM = "wrong along any other: at least one step does not use `dim`."
_HALF_LAST = (
    "Right along the last axis, wrong along any other: one of your two steps along an axis uses"
    " `dim`, the other does not."
)
_LOST_AXIS = (
    "A maximum or a sum along an axis loses that axis, and what is left meets the wrong axis of x,"
    " or one of another size. Ask for it to stay, with size 1."
)
_EPSILON = (
    "Your shares sum to a little less than 1: what you add to the divisor is added in every slice."
    " It is needed in one kind of slice only."
)
_FLOOR = (
    "Logits can be lower than the number that you put for -inf, and then what was ruled out is the"
    " best there is, or as good as the rest. -inf is below them all: leave it as it is."
)
_EVEN = (
    "And a slice of -inf throughout is shared out evenly among entries that were all ruled out."
    " Nothing may be chosen there, so nothing is shared."
)
_UNGUARDED = "-unguarded", lambda hint: both(hint, _EMPTY_NAN)
_HALF_RIGHT = {
    **{
        f"last-axis-{step}{end}": (_softmax_after(top, total), more(_HALF_LAST))
        for step, end, more, top, total in (
            ("max", "", str, _last_axis(_safe_top), _safe_total),
            ("sum", "", str, _safe_top, _last_axis(_safe_total)),
            ("max", *_UNGUARDED, _last_axis(_top), _total),
            ("sum", *_UNGUARDED, _top, _last_axis(_total)),
            # max sends NaN back to one place of a slice, amax to all
            ("max-pair", *_UNGUARDED, lambda x, dim: x.max(-1, keepdim=True).values, _total),
        )
    },
    "lost-axis-max": (_softmax_after(torch.amax, _total), _LOST_AXIS),
    "lost-axis-sum": (_softmax_after(_top, torch.sum), _LOST_AXIS),
    "lost-axis": (_softmax_after(torch.amax, torch.sum), _LOST_AXIS),
}


_FLOORS = {
    "floor": lambda x: x.clamp(min=-1e9),
    "replaced": lambda x: x.masked_fill(x == -INF, -1e9),
}


def _floored(floor, guarded):
    def wrong(x, dim):
        shares = torch.softmax(floor(x), dim)
        return shares * (x > -INF) if guarded else shares

    return wrong


def _loop_softmax(x, dim):
    slices = []
    for row in x.movedim(dim, -1).reshape(-1, x.size(dim)):
        seen = row > -INF
        e = torch.exp(row - row.max()) if seen.any() else torch.zeros_like(row)
        slices.append(e / e.sum() if seen.any() else e)
    return torch.stack(slices).reshape(x.movedim(dim, -1).shape).movedim(-1, dim)


def _torch_softmax(x, dim):
    empty = (x == -INF).all(dim, keepdim=True)
    return torch.where(empty, 0, F.softmax(torch.where(empty, 0, x), dim))


def _softmax_by_logs(x, dim):
    empty = (x == -INF).all(dim, keepdim=True)
    x = x.masked_fill(empty, 0)
    return (x - x.logsumexp(dim, keepdim=True)).exp().masked_fill(empty, 0)


def _softmax_constant_top(x, dim):
    top = x.detach().max(dim, keepdim=True).values.clamp(min=torch.finfo(x.dtype).min)
    e = (x - top).exp()
    return e / e.sum(dim, keepdim=True).clamp(min=1e-30)


SOFTMAX = Question(
    name="attention.softmax",
    target="softmax",
    points=3,
    cases=_softmax_cases,
    reference=softmax,
    mistakes={
        "no-shift": (
            _softmax_after(lambda x, dim: 0),
            "Small logits are right, large ones give infinity over infinity: in float32, exp is out"
            " of range from about 89 on. Adding the same number to all logits of a slice leaves"
            " softmax as it is. Choose that number so that exp cannot overflow.",
        ),
        "global-max": (
            _softmax_after(lambda x, dim: x.max()),
            "One slice is right and those far below it are 0/0. Each slice is a softmax of its own,"
            " so what keeps it in range must come from that slice alone.",
        ),
        "fixed-shift": (
            _softmax_after(lambda x, dim: 100),
            "A fixed shift moves the trouble without removing it: there is always a logit out of"
            " its reach, above or below. Let the logits themselves say how far to move.",
        ),
        "mean-shift": (
            _softmax_after(lambda x, dim: x.mean(dim, keepdim=True)),
            "Most slices are right. But a logit can stand far above the middle of its slice, and a"
            " single -inf drags the middle down with it. What bounds every logit from above?",
        ),
        "clamped": (
            lambda x, dim: torch.softmax(x.clamp(-80, 80), dim),
            "Nothing overflows any more, but two large logits that differ come out alike: what was"
            " cut off is lost. Move the logits instead of bounding them.",
        ),
        **{
            f"{word}-axis{end}": (
                lambda x, dim, way=way, axis=axis: way(x, axis),
                more(f"Right along the {word} axis, {_NO_DIM}"),
            )
            for axis, word in ((-1, "last"), (0, "first"), (1, "second"))
            for way, end, more in ((softmax, "", str), (torch.softmax, *_UNGUARDED))
        },
        **_HALF_RIGHT,
        **{
            f"epsilon-{epsilon:g}{end}": (
                _softmax_after(top, lambda e, dim, epsilon=epsilon: _total(e, dim) + epsilon),
                more(_EPSILON),
            )
            for epsilon in (1e-10, 1e-9, 1e-8, 1e-6)
            for top, end, more in ((_safe_top, "", str), (_top, *_UNGUARDED))
        },
        **{
            f"{name}{end}": (_floored(floor, end), f"{_FLOOR}{more}")
            for name, floor in _FLOORS.items()
            for end, more in (("", f" {_EVEN}"), ("-guarded", ""))
        },
        "total": (
            lambda x, dim: softmax(x.flatten(), 0).reshape(x.shape),
            "All your numbers together sum to 1. Each slice along `dim` should do so by itself:"
            " look at what you divide by, and at its shape.",
        ),
        "empty-nan": (torch.softmax, _EMPTY_NAN),
        "empty-uniform": (
            lambda x, dim: torch.softmax(x.clamp(min=torch.finfo(x.dtype).min), dim),
            "Right except in a slice that is -inf throughout: yours shares itself out evenly among"
            " entries that were all ruled out. Nothing may be chosen there, so nothing is shared.",
        ),
        "nan-hidden": (
            lambda x, dim: torch.softmax(x, dim).nan_to_num(0.0),
            "The output is right, the gradient of an empty slice is NaN. Replacing a NaN afterwards"
            " mends the way forward only: going back, zero times NaN is still NaN. See to it that"
            " the NaN never arises.",
        ),
    },
    alternatives={
        "loops": _loop_softmax,
        "torch": _torch_softmax,
        "logarithms": _softmax_by_logs,
        "constant-top": _softmax_constant_top,
        "float64": lambda x, dim: _torch_softmax(x.double(), dim).to(x.dtype),
        "not-contiguous": lambda x, dim: softmax(x.movedim(dim, 0), 0).movedim(0, dim),
    },
)


# attention.causal


def causal_mask(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)


def _causal_cases(seed):
    draw = Draw(seed)
    n, more = draw.between(3, 6), draw.between(2, 4)
    shapes = {
        "as many queries as keys": (n, n),
        "one query, one key": (1, 1),
        "a few new queries after cached keys": (n, n + more),
        "one new query after cached keys": (1, n),
        "two new queries after a long text": (2, 1100 + n),
        "more queries than keys": (n + more, n),
    }
    return [
        Case(label, {"n_queries": rows, "n_keys": columns})
        for label, (rows, columns) in shapes.items()
    ]


def _loop_mask(n_queries, n_keys):
    mask = torch.zeros((n_queries, n_keys), dtype=torch.bool)
    for i in range(n_queries):
        for j in range(n_keys):
            mask[i, j] = j <= n_keys - n_queries + i
    return mask


def _ones(n, m, dtype=torch.bool):
    return torch.ones(n, m, dtype=dtype)


_INVERTED = (
    "Your mask says the opposite: it is True where attending is forbidden. That is how"
    " nn.MultiheadAttention reads masks; here True means that the query may attend."
)
_CACHED = (
    "With cached keys, your first query stands at the first key as if nothing had gone before. The"
    " newest query and the newest key are the same token; count from there."
)
_FIRST_ALIGNED = f"Right for a square mask. {_CACHED}"
_NUMBERS = (
    "Ones and zeros in the right places, but as numbers. A mask of numbers is added to the scores,"
    " and a zero added forbids nothing: the future would leak without an error."
)
_ALL_AT_ONCE = (
    "Your ones stand where attending is forbidden, they are numbers, and they are counted from the"
    " first key. Asked for are booleans, True where a query may attend; and the newest query stands"
    " at the newest key."
)
_ADDED_MASK = (
    "This is the other kind of mask, the one that is added to the scores. Asked for is the one that"
    " answers yes or no."
)


CAUSAL = Question(
    name="attention.causal",
    target="causal_mask",
    points=2,
    cases=_causal_cases,
    reference=causal_mask,
    mistakes={
        "inverted": (lambda n, m: ~causal_mask(n, m), _INVERTED),
        "inverted-first-aligned": (
            lambda n, m: _ones(n, m).triu(1),
            both(_INVERTED, _CACHED),
        ),
        "sees-next": (
            lambda n, m: _ones(n, m).tril(m - n + 1),
            "Each query sees one key too many, and that key is the very token it is to predict. The"
            " loss would fall beautifully. Where does the diagonal belong?",
        ),
        "blind-to-self": (
            lambda n, m: _ones(n, m).tril(m - n - 1),
            "No query sees its own key, and the first of a square mask sees nothing at all. Is a"
            " token's own position part of its past here?",
        ),
        "first-aligned": (lambda n, m: _ones(n, m).tril(), _FIRST_ALIGNED),
        "first-rows": (lambda n, m: _ones(m, m).tril()[:n], _FIRST_ALIGNED),
        "never-before-the-first": (
            lambda n, m: _ones(n, m).tril(max(m - n, 0)),
            "Right until there are more queries than keys. The last query and the last key still"
            " belong together then: which keys are left for the first query?",
        ),
        "offset-turned": (
            lambda n, m: _ones(n, m).tril(n - m),
            "Right for a square mask. Your diagonal moves by the right number of places, to the"
            " wrong side: with cached keys a query sees more of them, and never fewer.",
        ),
        "looks-ahead": (
            lambda n, m: _ones(n, m).triu(m - n),
            "Your queries see themselves and what comes after. Rows are queries and columns are"
            " keys: on which side of the diagonal is a key older than its query?",
        ),
        "scores": (
            lambda n, m: torch.zeros(n, m).masked_fill(~causal_mask(n, m), -INF),
            _ADDED_MASK,
        ),
        "scores-first-aligned": (
            lambda n, m: torch.full((n, m), -INF).triu(1),
            both(_ADDED_MASK, _CACHED),
        ),
        **{
            f"ones-{str(dtype).removeprefix('torch.')}{end}": (
                lambda n, m, place=place, dtype=dtype: place(_ones(n, m, dtype), m - n),
                hint,
            )
            for dtype in (torch.float32, torch.int64, torch.uint8)
            for end, place, hint in (
                ("", torch.tril, _NUMBERS),
                ("-triu", lambda ones, _: ones.triu(1), _ALL_AT_ONCE),
            )
        },
        "square": (
            lambda n, m: _ones(m, m).tril(),
            "Your mask has a row for every key. With a cache there are fewer queries than keys, and"
            " only the queries have rows.",
        ),
        "all": (
            lambda n, m: _ones(n, m),
            "Every query sees every key, the future too. Only the last query may see all of them.",
        ),
    },
    alternatives={
        "loops": _loop_mask,
        "positions": lambda n, m: (torch.arange(n)[:, None] + (m - n)) >= torch.arange(m)[None],
        "not-future": lambda n, m: ~_ones(n, m).triu(m - n + 1),
        "last-rows": lambda n, m: F.pad(_ones(m, m).tril(), (0, 0, n, 0))[m:],
        "not-contiguous": lambda n, m: _ones(m, n).triu(n - m).T,
    },
)


# attention.masked


def masked_attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return softmax(scores.masked_fill(~mask, -INF), -1) @ v


def _masked_cases(seed):
    draw = Draw(seed)
    n, m, wide = draw.between(3, 4), draw.between(5, 7), draw.between(2, 3)
    width = draw.between(10, 12)

    def case(label, lead, n, m, mask, dtype=torch.float32):
        d = 9 if dtype is torch.float64 else width
        q, k = draw.normal(*lead, n, d, dtype=dtype), draw.normal(*lead, m, d, dtype=dtype)
        v = draw.normal(*lead, m, wide, dtype=dtype)
        inputs = {"q": q, "k": k, "v": v, "mask": mask}
        return Case(label, inputs, upstream=draw.normal(*lead, n, wide, dtype=dtype))

    causal = causal_mask(n, m)
    some_empty = draw.mask(n, m)
    some_empty[1] = False
    rows = draw.mask(n, 1)
    rows[1] = False
    padded = torch.ones(2, 1, 1, m, dtype=torch.bool)
    padded[1, ..., m - 2 :] = False
    blank = padded.clone()
    blank[1] = False
    return [
        case("one sequence, a random mask", (), n, m, draw.mask(n, m)),
        case("a causal mask for a batch with heads", (2, 3), n, m, causal),
        case("as many keys as queries", (2,), n, n, causal_mask(n, n)),
        case("everything allowed", (2,), n, m, torch.ones(n, m, dtype=torch.bool)),
        case("padding at the end of one sequence", (2, 2), n, m, padded),
        case("one row of a mask for all queries", (2, 3), n, m, draw.mask(1, m)),
        case("a mask of its own for each sequence", (2,), n, m, draw.mask(2, n, m)),
        case("a mask of its own for each head", (2, 2), n, m, draw.mask(2, 2, n, m)),
        case("one query, one key allowed", (2,), 1, m, torch.eye(m, dtype=torch.bool)[2:3]),
        case("float64", (2,), n, m, draw.mask(n, m), torch.float64),
        case("a mask of one axis", (2,), n, m, draw.mask(m)),
        case("all keys or none for each query", (2,), n, m, rows),
        case("a query that may attend to nothing", (2,), n, m, some_empty),
        case("a sequence of nothing but padding", (2, 2), n, m, blank),
        _far_case(draw, n, m, wide),
    ]


def _far_case(draw, n, m, wide):
    """Allowed scores down to -7e12, masked ones up to 7e12, each far from the next: no gradient."""
    mask = draw.mask(n, m)
    mask[:] = mask[0]
    mask[:, [0, -1]], mask[:, 1:3] = False, True
    size = 5e5 * torch.arange(1, m + 1, dtype=torch.float64)[:, None]
    q = torch.full((n, 16), 5e5, dtype=torch.float64)
    k = torch.where(mask[0][:, None], -size, size).expand(m, 16)
    v = draw.normal(m, wide, dtype=torch.float64)
    label = "masked scores far above the allowed ones"
    return Case(label, {"q": q, "k": k, "v": v, "mask": mask})


def _weighing(forbid, shares=torch.softmax, axis=-1, scores=scaled_scores, guarded=False):
    """Attention step by step: how scores are forbidden, and how they are shared out."""

    def wrong(q, k, v, mask):
        weights = shares(forbid(scores(q, k), mask), axis)
        return (weights * mask.any(-1, keepdim=True) if guarded else weights) @ v

    return wrong


def _ruled_out(scores, mask):
    return scores.masked_fill(~mask, -INF)


def _filled(value, guarded=False):
    return _weighing(lambda scores, mask: scores.masked_fill(~mask, value), guarded=guarded)


def _shifted(value, guarded=False):
    return _weighing(lambda scores, mask: scores + (~mask) * value, guarded=guarded)


def _renormalised(least):
    def wrong(q, k, v, mask):
        weights = torch.softmax(scaled_scores(q, k), -1) * mask
        return weights / weights.sum(-1, keepdim=True).clamp(min=least) @ v

    return wrong


def _frozen(q, k, v, mask):
    return softmax(_ruled_out(scaled_scores(q, k), mask), -1).detach() @ v


def _by_value_width(q, k, v, mask):
    return softmax(_ruled_out(q @ k.mT / math.sqrt(v.size(-1)), mask), -1) @ v


_TOWERING = (
    "Nearly always right. But softmax sees the forbidden scores first, and where they tower above"
    " the others nothing is left to share out again. Keep them out of it."
)
_LOWER = (
    "Scores can be lower than the number you fill in, and then your forbidden keys are the best"
    " there are. Which score is below every other?"
)
_HIGHER = (
    "What you add can be outweighed: a forbidden score that is high enough still stands above the"
    " others. Do not move such a score, replace it. By which number, so that it is below every"
    " other?"
)
_ALL_FORBIDDEN = "Where all keys are forbidden, all get the same share; none should get any."


def _loop_attention(q, k, v, mask):
    mask = mask.expand(*q.shape[:-1], k.size(-2)).reshape(-1, q.size(-2), k.size(-2))
    batches = zip(*(x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)), mask, strict=True)
    rows = []
    for queries, keys, values, seen in batches:
        for query, may in zip(queries, seen, strict=True):
            weights = torch.softmax(keys[may] @ query / keys.size(-1) ** 0.5, 0)
            rows.append(weights @ values[may])
    return torch.stack(rows).reshape(*q.shape[:-1], v.size(-1))


def _lowest_then_zero(q, k, v, mask):
    lowest = torch.finfo(q.dtype).min
    weights = torch.softmax(scaled_scores(q, k).masked_fill(~mask, lowest), -1)
    return (weights * mask) @ v


def _added(q, k, v, mask):
    empty = ~mask.any(-1, keepdim=True)
    bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~(mask | empty), -INF)
    weights = torch.einsum("...nd,...md->...nm", q, k) * q.size(-1) ** -0.5 + bias
    return torch.einsum("...nm,...mv->...nv", weights.softmax(-1).masked_fill(empty, 0), v)


MASKED = Question(
    name="attention.masked",
    target="masked_attention",
    points=5,
    cases=_masked_cases,
    reference=masked_attention,
    mistakes={
        "no-mask": (
            lambda q, k, v, mask: torch.softmax(scaled_scores(q, k), -1) @ v,
            "Right where everything is allowed, and only there: your output does not depend on the"
            " mask.",
        ),
        "inverted": (
            lambda q, k, v, mask: masked_attention(q, k, v, ~mask),
            "Your queries attend exactly where they must not. In this mask True means may attend.",
        ),
        "after-softmax": (
            lambda q, k, v, mask: (torch.softmax(scaled_scores(q, k), -1) * mask) @ v,
            "The forbidden values are gone, and yet the output is too small: the weights that are"
            " left sum to less than 1, because the forbidden keys had their share already when the"
            " sum was taken. Which step must the mask come before?",
        ),
        "renormalised": (_renormalised(1e-9), _TOWERING),
        "renormalised-nan": (
            _renormalised(0),
            both(_TOWERING, "Where nothing is left, zero is divided by zero."),
        ),
        "fill-zero": (
            _filled(0.0),
            "A score of 0, or of 1e-9, is no ban: exp makes about 1 of it, as large a share as an"
            " average key gets. Which score does exp turn into nothing?",
        ),
        "fill-minus-1": (
            _filled(-1.0),
            "The forbidden keys are held down and not out: exp(-1) is more than a third. Which"
            " score does exp turn into nothing, however low the others are?",
        ),
        "fill-minus-10": (
            _filled(-10.0),
            "Nearly right: the forbidden keys keep a sliver, since exp(-10) is small and not zero."
            " Which score does exp turn into nothing, however low the others are?",
        ),
        "fill-finite": (_filled(-1e9), both(_LOWER, _ALL_FORBIDDEN)),
        "fill-finite-guarded": (_filled(-1e9, guarded=True), _LOWER),
        "shifted": (_shifted(-1e9), both(_HIGHER, _ALL_FORBIDDEN)),
        "shifted-guarded": (_shifted(-1e9, guarded=True), _HIGHER),
        "zero-times-infinity": (
            _shifted(-INF),
            "NaN wherever a key is allowed: zero times infinity is no number, so a mask of zeros"
            " and ones cannot be made into one of zeros and infinities by a product. Choose"
            " between the two values instead.",
        ),
        "added": (
            lambda q, k, v, mask: torch.softmax(scaled_scores(q, k) + mask, -1) @ v,
            "Adding the mask raises the allowed scores by 1 and forbids nothing: the others keep"
            " their share.",
        ),
        "empty-nan": (
            _filled(-INF),
            "Right except where a query may attend to nothing: there, softmax has no finite score,"
            " and you get NaN where zeros are asked for. Question 2 has met such a slice.",
        ),
        "empty-mean": (
            _filled(-1e30),
            "Right except where a query may attend to nothing: all its keys are equally forbidden,"
            " so softmax shares itself out evenly, and the output is the mean of values that must"
            " not be seen. Zeros are asked for.",
        ),
        "nan-hidden": (
            lambda q, k, v, mask: (_filled(-INF)(q, k, v, mask)).nan_to_num(0.0),
            "The output is right, and the gradient of v is NaN: yours has been through the weighted"
            " sum before you replace it, and going back, zero times NaN is NaN. One padded sequence"
            " would ruin all weights at the next step. See to it that no NaN gets that far.",
        ),
        "no-scale": (
            _weighing(_ruled_out, softmax, scores=lambda q, k: q @ k.mT),
            "Your weights are too sharp, and the sharper the wider the keys. Question 1 comes"
            " before the mask.",
        ),
        "scaled-twice": (
            _weighing(
                _ruled_out, softmax, scores=lambda q, k: scaled_scores(q, k) / q.size(-1) ** 0.5
            ),
            "Your weights are too flat, and the flatter the wider the keys. How often is a score"
            " divided on its way, if you count what question 1 does?",
        ),
        "by-value-width": (
            _by_value_width,
            "Right where values are as wide as keys, and only there. The values take no part in a"
            " score: over what does the product of a query and a key sum?",
        ),
        "over-queries": (
            _weighing(_ruled_out, softmax, -2),
            "Each key hands out a sum of 1 among the queries; it is each query that should do so"
            " among the keys. Along which axis of the scores do the keys lie?",
        ),
        **{
            f"over-axis-{axis}": (
                _weighing(_ruled_out, softmax, axis),
                "Your softmax runs along an axis counted from the front, and how many axes stand in"
                " front is open. Along which one do the keys lie, counted from the end?",
            )
            for axis in (0, 1)
        },
        "frozen": (
            _frozen,
            "The output is right, and no gradient comes back to q and k: they would never learn."
            " Something between the scores and the weighted sum cuts the graph.",
        ),
    },
    alternatives={
        "loops": _loop_attention,
        "torch": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        "einsum": _added,
        "lowest-then-zero": _lowest_then_zero,
        "float64": lambda q, k, v, mask: masked_attention(
            q.double(), k.double(), v.double(), mask
        ).to(q.dtype),
        "not-contiguous": lambda q, k, v, mask: masked_attention(
            q.mT.contiguous().mT, k.mT.contiguous().mT, v.mT.contiguous().mT, mask
        ),
    },
)


# attention.heads


def split_heads(x, n_heads):
    batch, n, d_model = x.shape
    if d_model % n_heads:
        raise ValueError(f"a width of {d_model} does not divide into {n_heads} heads")
    return x.reshape(batch, n, n_heads, d_model // n_heads).transpose(1, 2)


def _heads_cases(seed):
    draw = Draw(seed)
    n, h, d = draw.between(5, 6), draw.between(3, 4), draw.between(2, 3)

    def case(label, shape, n_heads, dtype=torch.float32):
        batch, n, d_model = shape
        args = {"x": draw.normal(*shape, dtype=dtype), "n_heads": n_heads}
        if d_model % n_heads:
            return Case(label, args)
        upstream = draw.normal(batch, n_heads, n, d_model // n_heads, dtype=dtype)
        return Case(label, args, upstream=upstream)

    return [
        case("a batch of two", (2, n, h * d), h),
        case("as many tokens as heads", (2, h, h * d), h),
        case("tokens, heads and head width alike", (3, 3, 9), 3),
        case("one head", (2, n, d), 1),
        case("heads of width 1", (2, n, h), h),
        case("a batch of one, a single token", (1, 1, h * d), h),
        case("float64", (2, n, h * d), h, torch.float64),
        case("a width that does not divide", (2, n, h * d + 1), h),
        case("more heads than width", (2, n, h), h + 1),
    ]


def _layout(arrange, guarded):
    """A split with the axes arranged in some way; unguarded, the error is torch's own."""

    def split(x, n_heads):
        if guarded and x.size(-1) % n_heads:
            raise ValueError
        return arrange(x, *x.shape[:2], n_heads, x.size(-1) // n_heads)

    return split


def _cut_off(x, n_heads):
    d_head = x.size(-1) // n_heads
    return split_heads(x[..., : n_heads * d_head], n_heads)


def _asserted(x, n_heads):
    assert x.size(-1) % n_heads == 0
    return split_heads(x, n_heads)


def _loop_split(x, n_heads):
    if x.size(-1) % n_heads != 0:
        raise ValueError("the heads must share the width evenly")
    d_head = x.size(-1) // n_heads
    parts = [x[:, :, j * d_head : (j + 1) * d_head] for j in range(n_heads)]
    return torch.stack(parts, dim=1)


def _flat_split(x, n_heads):
    if x.size(-1) % n_heads:
        raise ValueError("the heads must share the width evenly")
    return x.unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3).contiguous()


def _einsum_split(x, n_heads):
    d_head, rest = divmod(x.size(-1), n_heads)
    if rest:
        raise ValueError("the heads must share the width evenly")
    picks = torch.eye(x.size(-1), dtype=x.dtype).reshape(-1, n_heads, d_head)
    return torch.einsum("bnd,dhk->bhnk", x, picks)


_LAYOUTS = {
    "plain-view": (
        lambda x, b, n, h, d: x.reshape(b, h, n, d),
        "The shape is right and the numbers are in the wrong places: numbers of one token have"
        " landed in another's row. Reshaping only reads memory on in its old order; it never makes"
        " two axes trade places.",
    ),
    "heads-inside": (
        lambda x, b, n, h, d: x.reshape(b, n, h, d),
        "The width is cut as it should be, but the tokens stand before the heads. Attention works"
        " on the last two axes of each head.",
    ),
    "interleaved": (
        lambda x, b, n, h, d: x.reshape(b, n, d, h).permute(0, 3, 1, 2),
        "Your heads take turns: the first gets every h-th column. Each should get neighbouring"
        " columns. When the width becomes two axes, which of the two runs faster?",
    ),
    "exchanged": (
        lambda x, b, n, h, d: x.reshape(b, n, d, h).transpose(1, 2),
        "You get as many heads as a head should be wide. When the width becomes two axes, the first"
        " of them counts the heads.",
    ),
    "heads-before-batch": (
        lambda x, b, n, h, d: x.reshape(b, n, h, d).permute(2, 0, 1, 3),
        "Every head is right, but the heads stand in front of the batch: look at the order of the"
        " first two axes.",
    ),
    "transposed": (
        lambda x, b, n, h, d: x.reshape(b, n, h, d).permute(0, 2, 3, 1),
        "Inside each head, rows and columns have changed places: a token should be a row.",
    ),
}
_REFUSAL = (
    "A width that the heads cannot share evenly should be refused with a ValueError that says so,"
    " before any reshaping."
)

HEADS = Question(
    name="attention.heads",
    target="split_heads",
    points=2,
    cases=_heads_cases,
    reference=split_heads,
    mistakes={
        **{name: (_layout(way, True), hint) for name, (way, hint) in _LAYOUTS.items()},
        **{
            f"{name}-unguarded": (_layout(way, False), both(hint, _REFUSAL))
            for name, (way, hint) in _LAYOUTS.items()
        },
        "unguarded": (
            _layout(lambda x, b, n, h, d: x.reshape(b, n, h, d).transpose(1, 2), False),
            f"The split is right. {_REFUSAL} What came is a RuntimeError, such as torch's complaint"
            " about a shape, which tells your reader nothing about heads.",
        ),
        "silent": (
            _layout(lambda x, b, n, h, d: x.reshape(b, n, h, d).transpose(1, 2), True),
            "The split is right, and so is the ValueError, but it says nothing. Tell the caller"
            " which width does not divide into how many heads.",
        ),
        "cut-off": (
            _cut_off,
            f"Some columns are silently dropped where the width does not divide. {_REFUSAL}",
        ),
        "asserted": (
            _asserted,
            "You noticed the width that does not divide. But an assert is for your own mistakes and"
            " vanishes under `python -O`; a caller's mistake deserves a ValueError.",
        ),
    },
    alternatives={
        "loops": _loop_split,
        "unflatten": _flat_split,
        "einsum": _einsum_split,
        "not-contiguous": lambda x, n_heads: split_heads(x.mT.contiguous().mT, n_heads),
    },
)


# attention.merge


def merge_heads(heads):
    batch, n_heads, n, d_head = heads.shape
    return heads.transpose(1, 2).reshape(batch, n, n_heads * d_head)


def _merge_cases(seed):
    draw = Draw(seed)
    n, h, d = draw.between(5, 6), draw.between(3, 4), 2

    def case(label, batch, h, n, d, dtype=torch.float32):
        heads = draw.normal(batch, h, n, d, dtype=dtype)
        return Case(label, {"heads": heads}, upstream=draw.normal(batch, n, h * d, dtype=dtype))

    return [
        case("a batch of two", 2, h, n, d),
        case("as many tokens as heads", 2, h, h, d),
        case("every axis of the same size", 3, 3, 3, 3),
        case("one head", 2, 1, n, d),
        case("heads of width 1", 2, h, n, 1),
        case("a batch of one, a single token", 1, h, 1, d),
        case("float64", 2, h, n, d, torch.float64),
    ]


MERGE = Question(
    name="attention.merge",
    target="merge_heads",
    points=2,
    cases=_merge_cases,
    reference=merge_heads,
    mistakes={
        "plain-reshape": (
            lambda heads: heads.reshape(heads.size(0), heads.size(2), -1),
            "The shape is right and the numbers are in the wrong places: rows of different tokens"
            " are glued together. Which two axes must be neighbours, and in which order, before"
            " they can become one?",
        ),
        "interleaved": (
            lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
            "The right numbers reach each token, in the wrong order: your heads take turns. All"
            " numbers of head 0 come first, then all of head 1.",
        ),
        "view": (
            lambda heads: heads.transpose(1, 2).view(heads.size(0), heads.size(2), -1),
            "The order of the axes is right, but a transposed tensor does not lie in memory row by"
            " row, and a view cannot be taken of that. The error's own last words say what can.",
        ),
        "sum": (
            lambda heads: heads.sum(1),
            "The heads are added up, and what each of them read is lost in the sum. Concatenated,"
            " they leave the mixing to the output projection.",
        ),
        "mean": (
            lambda heads: heads.mean(1),
            "The heads are averaged, and what each of them read is lost in the mean. Concatenated,"
            " they leave the mixing to the output projection.",
        ),
        "heads-mixed": (
            lambda heads: heads.transpose(0, 1).reshape(heads.size(0), heads.size(2), -1),
            "Sequences of the batch have been mixed: the batch axis trades places with another. It"
            " should stay where it is.",
        ),
        "columns": (
            lambda heads: heads.permute(0, 1, 3, 2).flatten(1, 2),
            "Everything is there, with tokens as columns. A token should be a row again, as wide as"
            " the model.",
        ),
    },
    alternatives={
        "loops": lambda heads: torch.stack(
            [torch.stack([torch.cat(list(row)) for row in one.unbind(1)]) for one in heads]
        ),
        "cat": lambda heads: torch.cat(heads.unbind(1), dim=-1),
        "flatten": lambda heads: heads.permute(0, 2, 1, 3).contiguous().flatten(2),
        "einsum": lambda heads: torch.einsum("bhnd->bnhd", heads).flatten(2),
        "not-contiguous": lambda heads: heads.mT.flatten(1, 2).mT,
    },
)


# attention.count


def attention_params(d_model, n_heads, n_kv_heads=None, bias=True):
    d_head = d_model // n_heads
    d_kv = d_head * (n_heads if n_kv_heads is None else n_kv_heads)
    outputs = d_model + d_kv + d_kv + d_model
    return d_model * outputs + (outputs if bias else 0)


def _count_cases(seed):
    draw = Draw(seed)
    h, d, groups = 2 * draw.between(2, 4), draw.between(3, 9), 2

    def case(label, d_model, n_heads, **kwargs):
        return Case(label, {"d_model": d_model, "n_heads": n_heads}, kwargs)

    return [
        case("d_model 512, 8 heads", 512, 8),
        case("the same without biases", 512, 8, bias=False),
        case("other sizes", h * d, h),
        case("one head", d, 1),
        case("heads of width 1", h, h),
        case("shared keys and values", h * d, h, n_kv_heads=groups),
        case("shared keys and values, no biases", h * d, h, n_kv_heads=groups, bias=False),
        case("one key and value head for all", h * d, h, n_kv_heads=1, bias=True),
        case("as many key as query heads", h * d, h, n_kv_heads=h, bias=False),
        Case("all by position", dict(d_model=4096, n_heads=32, n_kv_heads=8, bias=False)),
    ]


def _parts(d_model, n_heads, n_kv_heads, bias, *, q, k, v, out):
    """Weights and biases of four projections, each given as (inputs, outputs)."""
    d_kv = d_model // n_heads * (n_heads if n_kv_heads is None else n_kv_heads)
    shapes = [shape(d_model, d_kv) for shape in (q, k, v, out)]
    return sum(rows * columns + (columns if bias else 0) for rows, columns in shapes)


def _square(d_model, d_kv):
    return d_model, d_model


def _narrow(d_model, d_kv):
    return d_model, d_kv


def _none(d_model, d_kv):
    return 0, 0


def _counted(q=_square, k=_narrow, v=_narrow, out=_square, biases=bool, heads=lambda h, g: g):
    """A count that is wrong in some ways: ``heads`` misreads the number of key and value heads."""

    def wrong(d_model, n_heads, n_kv_heads=None, bias=True):
        groups = heads(n_heads, n_kv_heads)
        return _parts(d_model, n_heads, groups, biases(bias), q=q, k=k, v=v, out=out)

    return wrong


_OUTPUT = {
    "": ({}, ""),
    "no-output": (
        {"out": _none},
        "Queries, keys and values are counted. After the heads are concatenated, one more matrix"
        " mixes them.",
    ),
}
_BIASES = {
    "": ({}, ""),
    "no-bias": (
        {"biases": lambda bias: False},
        "Where there are biases, every projection adds one number for each of its outputs.",
    ),
    "always-bias": (
        {"biases": lambda bias: True},
        "You count biases always. The last argument can switch them off.",
    ),
}
_SHARING = {
    "": ({}, ""),
    "never-shared": (
        {"k": _square, "v": _square},
        "Keys and values can be shared. With fewer heads of them, two of the four matrices get"
        " narrower.",
    ),
}


def _miscounted(change):
    """The right count, changed: by the sizes given, and by whether biases are asked for."""

    def wrong(d_model, n_heads, n_kv_heads=None, bias=True):
        right = attention_params(d_model, n_heads, n_kv_heads, bias)
        return change(right, d_model, n_heads, n_kv_heads, bias)

    return wrong


def _miscounts():
    """Every way to leave out the output, to misread the biases and to ignore sharing, together."""
    found = {}
    for kinds in product(_OUTPUT.items(), _BIASES.items(), _SHARING.items()):
        names = [name for name, _ in kinds if name]
        options = {key: value for _, (some, _) in kinds for key, value in some.items()}
        hint = " ".join(hint for _, (_, hint) in kinds if hint)
        if names:
            found["-".join(names)] = (_counted(**options), hint)
    return found


def _layers(d_model, n_heads, n_kv_heads=None, bias=True):
    d_kv = (n_heads if n_kv_heads is None else n_kv_heads) * (d_model // n_heads)
    layers = [
        torch.nn.Linear(d_model, width, bias=bias, device="meta")
        for width in (d_model, d_kv, d_kv, d_model)
    ]
    return sum(weight.numel() for layer in layers for weight in layer.parameters())


def _loop_count(d_model, n_heads, n_kv_heads=None, bias=True):
    total, d_head = 0, d_model // n_heads
    for _ in range(n_heads):
        total += 2 * d_head * d_model + bias * d_head
    for _ in range(n_heads if n_kv_heads is None else n_kv_heads):
        total += 2 * d_head * (d_model + bias)
    return total + bias * d_model


def _multihead(d_model, n_heads, n_kv_heads=None, bias=True):
    layer = torch.nn.MultiheadAttention(d_model, n_heads, bias=bias, device="meta")
    total = sum(weight.numel() for weight in layer.parameters())
    missing = 0 if n_kv_heads is None else n_heads - n_kv_heads
    return total - 2 * missing * (d_model // n_heads) * (d_model + bias)


COUNT = Question(
    name="attention.count",
    target="attention_params",
    points=2,
    cases=_count_cases,
    reference=attention_params,
    mistakes={
        **_miscounts(),
        "no-output-bias": (
            _miscounted(lambda right, d, h, g, bias: right - (d if bias else 0)),
            "Right without biases. With them, one of the four projections has none in your count:"
            " the one that mixes the heads.",
        ),
        "group-size": (
            _counted(heads=lambda h, g: g and h // g),
            "The more key and value heads there are, the wider keys and values get; yours get"
            " narrower. `n_kv_heads` says how many there are. It does not say how many query heads"
            " share one, and the width of a head does not depend on it.",
        ),
        "none-is-one": (
            _counted(heads=lambda h, g: g or 1),
            "Right whenever `n_kv_heads` is given. Where it is not, nothing is shared: how many"
            " key and value heads are there then?",
        ),
        "one-shared": (
            _counted(heads=lambda h, g: g and 1),
            "Right while nothing is shared, or while all query heads share one key and value head."
            " In between there are several of these, and all are counted.",
        ),
        "heads-multiply": (
            _miscounted(lambda right, d, h, g, bias: h * right),
            "Your count grows with the number of heads. But the heads divide the width among them:"
            " how many columns does each get, and how many do they have together?",
        ),
        "one-head": (
            _miscounted(lambda right, d, h, g, bias: right // h),
            "That is the share of a single head. The layer has all of them.",
        ),
        "wide-biases": (
            _miscounted(
                lambda right, d, h, g, bias: attention_params(d, h, g, False) + 4 * d * bias
            ),
            "Right until keys and values are shared: the matrices shrink then, and in your count"
            " the biases do not shrink with them.",
        ),
        "keys-alone": (
            _counted(v=_square),
            "The keys are shared in your count, the values are not. A head that hands out its key"
            " hands out the value that goes with it.",
        ),
        "queries-too": (
            _counted(q=_narrow),
            "Only keys and values are shared. Every query head still asks its own question.",
        ),
        "all-shrink": (
            _counted(q=_narrow, out=lambda d_model, d_kv: (d_kv, d_model)),
            "Sharing leaves the number of query heads as it is: what goes into the output"
            " projection is as wide as before, and so are the queries.",
        ),
        "float": (
            _miscounted(lambda right, *_: float(right)),
            "The number is right, its type is not. There is no half parameter, and beyond 2^53 a"
            " float cannot count any more. Where does your count stop being a whole number?",
        ),
    },
    alternatives={"linear-layers": _layers, "loops": _loop_count, "multihead": _multihead},
)


# attention.memory


def score_bytes(n, n_heads, batch=1, itemsize=2):
    return batch * n_heads * n * n * itemsize


def _memory_cases(seed):
    draw = Draw(seed)
    n, h, batch = draw.between(5, 900), draw.between(3, 40), draw.between(2, 9)

    def case(label, n, n_heads, **kwargs):
        return Case(label, {"n": n, "n_heads": n_heads}, kwargs)

    return [
        case("8,192 tokens, 32 heads", 8192, 32),
        case("other sizes", n, h),
        case("a batch", n, h, batch=batch),
        case("numbers of four bytes", n, h, itemsize=4),
        case("one token, one head", 1, 1),
        case("one byte each", n, 1, batch=batch, itemsize=1),
        Case("all by position", dict(n=n, n_heads=h, batch=batch, itemsize=8)),
    ]


def _scores_on_meta(n, n_heads, batch=1, itemsize=2):
    dtype = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}[itemsize]
    scores = torch.empty(batch, n_heads, n, n, dtype=dtype, device="meta")
    return scores.numel() * scores.element_size()


def _loop_bytes(n, n_heads, batch=1, itemsize=2):
    total = 0
    for _ in range(batch):
        for _ in range(n_heads):
            total += sum([itemsize * n] * n)
    return total


MEMORY = Question(
    name="attention.memory",
    target="score_bytes",
    points=2,
    cases=_memory_cases,
    reference=score_bytes,
    mistakes={
        "one-head": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n * n * itemsize,
            "Heads are free in weights, and not here: each has a softmax of its own, over scores of"
            " its own.",
        ),
        "heads-divide": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n * n * itemsize // n_heads,
            "A head is narrower than the model, but a score is one number however wide the vectors"
            " were. Does the width divide anything here?",
        ),
        "one-sequence": (
            lambda n, n_heads, batch=1, itemsize=2: n_heads * n * n * itemsize,
            "Right for a batch of one. Every sequence of the batch has its own scores.",
        ),
        "numbers": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n_heads * n * n,
            "You have counted the scores. Asked for are the bytes they take.",
        ),
        "bits": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n_heads * n * n * itemsize * 8,
            "Eight times too much: `itemsize` is in bytes already.",
        ),
        "two-bytes": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n_heads * n * n * 2,
            "Right for numbers of two bytes. The size is an argument.",
        ),
        "linear": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n_heads * n * itemsize,
            "Your bytes double when n does. Every query meets every key: what does doubling both do"
            " to the number of meetings?",
        ),
        "triangle": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n_heads * (n * (n + 1) // 2) * itemsize,
            "You keep only what a causal mask allows. The plain program computes the whole matrix"
            " and masks it afterwards, so all of it is held.",
        ),
        "shares-too": (
            lambda n, n_heads, batch=1, itemsize=2: 2 * batch * n_heads * n * n * itemsize,
            "Twice too much. The shares that softmax makes of the scores are a table of their own,"
            " if they are kept apart; asked for is the one before it.",
        ),
        "gibibytes": (
            lambda n, n_heads, batch=1, itemsize=2: batch * n_heads * n * n * itemsize / 2**30,
            "Right in GiB. Asked for are bytes, as a whole number.",
        ),
    },
    alternatives={
        "meta-tensor": _scores_on_meta,
        "loops": _loop_bytes,
        "powers": lambda n, n_heads, batch=1, itemsize=2: math.prod(
            (batch, n_heads, n**2, itemsize)
        ),
    },
)


QUESTIONS = (SCALED, SOFTMAX, CAUSAL, MASKED, HEADS, MERGE, COUNT, MEMORY)
