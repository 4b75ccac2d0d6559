"""Exercise set *faults*: marks of broken models, and what they say.

The inputs are made when they are asked for: small models, built of the package's own parts, are
really broken and run. For each question: the reference, its cases, the wrong answers that learners
give (each with a hint that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F

from lumen.activation import relu
from lumen.attention import attention, causal_mask
from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question
from lumen.norm import batch_norm, layer_norm

F32, F64 = torch.float32, torch.float64
TOKENS, WIDTH = 5, 8


# What is broken: a small decoder on bare tensors, all in float64


def _drawn(draw, layers, spread):
    """A table, and for each layer a query, a key, a value, two matrices and an offset."""

    def matrix(n_in, n_out):
        return draw.normal(n_in, n_out, dtype=F64) / n_in**0.5

    table = draw.normal(TOKENS, WIDTH, dtype=F64)
    stack = [
        [
            spread * matrix(WIDTH, WIDTH),
            spread * matrix(WIDTH, WIDTH),
            matrix(WIDTH, WIDTH),
            matrix(WIDTH, 2 * WIDTH),
            draw.normal(2 * WIDTH, dtype=F64) / 8,
            matrix(2 * WIDTH, WIDTH) / 4,
        ]
        for _ in range(layers)
    ]
    return table, stack


def _norm(x, over_batch):
    return batch_norm(x.flatten(0, 1))[0].view(x.shape) if over_batch else layer_norm(x)


def _forward(table, stack, ids, *, causal=True, over_batch=False, cut=None, lone=None):
    """Logits, the stream, what stands behind each ReLU, and the maps of attention."""
    x = table[ids] + 0.5 * table.roll(1, 0)[torch.arange(ids.size(1)) % TOKENS]
    states, hidden, maps = [x], [], []
    for at, (query, key, value, fc, offset, proj) in enumerate(stack):
        x = x.detach() if at == cut else x
        y = _norm(x, over_batch)
        mixed, weights = attention(
            y @ query, y @ key, y @ value, causal=causal, return_weights=True
        )
        x = x + (mixed.detach() if at == lone else mixed)
        hidden.append(relu(_norm(x, over_batch) @ fc + offset))
        wrote = hidden[-1] @ proj
        x = x + (wrote.detach() if at == lone else wrote)
        states.append(x)
        maps.append(weights)
    return _norm(x, over_batch) @ table.T, states, hidden, maps


def _ids(draw, rows, n):
    return torch.randint(TOKENS, (rows, n), generator=draw.generator, device="cpu")


# faults.even


def evenness(weights, seen):
    keys = seen.sum(-1).to(weights.dtype)
    return torch.special.entr(weights).sum(-1) / keys.clamp_min(2).log()


@cache
def _even_cases(seed):
    draw = Draw(seed)
    n = draw.between(4, 6)

    def case(label, rows, queries, keys, spread, mask=None, dtype=F64, heads=True, twice=False):
        q = draw.normal(rows, 2, queries, WIDTH, dtype=F64)
        k = draw.normal(rows, 2, keys, WIDTH, dtype=F64)
        k = k[..., : keys // 2, :].repeat(1, 1, 2, 1) if twice else k  # each word comes again
        seen = torch.ones(queries, keys, dtype=torch.bool) if mask is None else mask
        _, weights = attention(spread * q, k, k, mask=seen, return_weights=True)
        weights = (weights if heads else weights[0, 0]).to(dtype)
        whole = mask is None and bool((weights > 0).all())
        upstream = draw.normal(*weights.shape[:-1], dtype=dtype) if whole else None
        return Case(label, {"weights": weights, "seen": seen}, upstream=upstream)

    some = draw.mask(2, 1, n, n + 1)
    empty = draw.mask(n, n)
    empty[1] = False
    return [
        case("one head, all keys", 1, n, n + 1, 1.0, heads=False),
        case("heads, all keys", 2, n, 5, 1.0),
        case("scores that were divided twice", 2, 3, n + 2, 0.05),
        case("in float32", 1, n, n, 1.0, dtype=F32),
        case("one query", 2, 1, n, 0.5),
        case("as many rows as keys, few of them", 1, 3, 3, 1.0, heads=False),
        case("the future is hidden", 2, n, n, 1.0, causal_mask(n, n)),
        case("the future is hidden, in float32", 1, 5, 5, 1.0, causal_mask(5, 5), F32),
        case("scores far too large", 2, n, n, 400.0, causal_mask(n, n)),
        case("scores far too large, each word twice", 2, n, 6, 400.0, twice=True),
        case("another mask for each text", 2, n, n + 1, 1.0, some),
        case("a query that sees nothing", 2, n, n, 1.0, empty),
    ]


def _even(entropy=lambda w: torch.special.entr(w).sum(-1), most=None):
    """Evenness, with one of its two parts replaced."""

    def wrong(weights, seen):
        keys = seen.sum(-1).to(weights.dtype)
        return entropy(weights) / (keys.clamp_min(2).log() if most is None else most(weights, keys))

    return wrong


def _row_by_row(weights, seen):
    flat, mask = (
        weights.reshape(-1, weights.size(-1)),
        seen.expand(weights.shape).reshape(-1, weights.size(-1)),
    )
    rows = []
    for row, may in zip(flat, mask, strict=True):
        shares = row[row > 0]
        entropy = -(shares * shares.log()).sum()
        rows.append(entropy / math.log(max(int(may.sum()), 2)))
    return torch.stack(rows).reshape(weights.shape[:-1])


_NAN = "A share of zero adds nothing to an entropy. In your answer it adds NaN."
_MOST = "The entropy is right. What it is compared with is not: "

EVEN = Question(
    name="faults.even",
    target="evenness",
    points=3,
    cases=_even_cases,
    reference=evenness,
    mistakes={
        "nan": (_even(lambda w: -(w * w.log()).sum(-1)), _NAN),
        "seen-filled": (
            lambda weights, seen: (
                -(weights * weights.log().masked_fill(~seen, 0)).sum(-1)
                / seen.sum(-1).to(weights.dtype).clamp_min(2).log()
            ),
            _NAN + " You took care of the hidden keys. A key that is seen can get zero, too.",
        ),
        **{
            f"epsilon-{n}": (
                _even(lambda w, n=n: -(w * (w + 10.0**-n).log()).sum(-1)),
                "You add a small number inside the logarithm, and that moves every share a little."
                " Only a share of zero needs care: leave its term out.",
            )
            for n in (6, 8, 9)
        },
        "mean": (
            _even(lambda w: torch.special.entr(w).mean(-1)),
            "An entropy is a sum over the keys. You take their mean.",
        ),
        "no-most": (
            _even(most=lambda w, keys: 1.0),
            "That is the entropy itself. It grows with the number of keys, so two rows of a causal"
            " map cannot be compared. Divide by what would be the most.",
        ),
        "all-keys": (
            _even(most=lambda w, keys: math.log(max(w.size(-1), 2))),
            _MOST + "a query that may see three keys cannot spread over all of them.",
        ),
        "keys-used": (
            _even(most=lambda w, keys: (w > 0).sum(-1).to(w.dtype).clamp_min(2).log()),
            _MOST + "you count the keys that got something. A key that may be read and is not is"
            " what makes a row uneven.",
        ),
        "by-row": (
            _even(
                most=lambda w, keys: (
                    torch.arange(1, w.size(-2) + 1, dtype=w.dtype).clamp_min(2).log()
                )
            ),
            _MOST + "you count on the first query to see one key, the second two, and so on. How"
            " many it really sees stands in `seen`.",
        ),
        "one-key": (
            _even(most=lambda w, keys: keys.log()),
            "A query with one key or none has no choice, and you divide by the logarithm of that."
            " Look at the first row of a causal map.",
        ),
        "bits": (
            _even(lambda w: torch.special.entr(w).sum(-1) / math.log(2)),
            "Entropy and its most have to be in one unit. One of yours is in bits.",
        ),
        "sign": (
            _even(lambda w: -torch.special.entr(w).sum(-1)),
            "Logarithms of shares are negative, an entropy is not.",
        ),
        "by-count": (
            _even(most=lambda w, keys: keys.clamp_min(1)),
            _MOST + "you divide by the number of keys. What is the entropy of n equal shares?",
        ),
        "from-one": (
            lambda weights, seen: 1 - evenness(weights, seen),
            "Yours is 0 where all shares are equal. It should be 1 there.",
        ),
        "no-choice-is-one": (
            lambda weights, seen: evenness(weights, seen).masked_fill(seen.sum(-1) < 2, 1),
            "A query that sees one key or none has no choice. The text asks for another number"
            " there.",
        ),
        "worth-of-keys": (
            lambda weights, seen: (
                torch.special.entr(weights).sum(-1).exp() / seen.sum(-1).to(weights.dtype)
            ),
            "The exponential of an entropy says how many keys it is worth. Its share of all keys is"
            " a mark, too, and one-hot would not be 0. Divide the entropies themselves.",
        ),
        "largest": (
            lambda weights, seen: 1 - weights.amax(-1),
            "The largest share is a mark, too, but another one: it does not see how the rest is"
            " spread.",
        ),
        "other-axis": (
            lambda weights, seen: (
                torch.special.entr(weights).sum(-2)
                / seen.sum(-2).to(weights.dtype).clamp_min(2).log()
            ),
            "One number for each query is wanted, and you give one for each key. Shares sum to 1"
            " along the last axis.",
        ),
        "averaged": (
            lambda weights, seen: (
                evenness(weights, seen).mean(-1, keepdim=True).expand(weights.shape[:-1])
            ),
            "All rows of a map get the same number. Do not average them.",
        ),
        "detached": (
            lambda weights, seen: evenness(weights.detach(), seen),
            "What goes forward is right, and no gradient comes back. Which step cuts it?",
        ),
    },
    alternatives={
        "row-by-row": _row_by_row,
        "xlogy": lambda weights, seen: (
            -torch.special.xlogy(weights, weights).sum(-1)
            / torch.log(seen.sum(-1).clamp(min=2).to(weights.dtype))
        ),
        "filled": lambda weights, seen: (
            -(weights * weights.masked_fill(weights == 0, 1).log()).sum(-1)
            / seen.to(weights.dtype).sum(-1).clamp_min(2).log()
        ),
    },
)


# faults.leaks


def leaks(before, after, place, by=1e-6):
    moved = (after - before).abs().amax(-1) > by
    return moved.masked_fill(torch.arange(moved.size(-1)) >= place, False)


@cache
def _leak_cases(seed):
    draw = Draw(seed)

    def case(label, rows, n, place, dtype=F64, layers=1, first=False, again=False, by=None, **how):
        table, stack = _drawn(draw, layers, 1.0)
        ids, other = _ids(draw, rows, n), _ids(draw, rows, n)
        other = torch.where(other == ids, (ids + 1) % TOKENS, other)  # another one everywhere
        other[:, :place] = ids[:, :place]
        before = _forward(table, stack, ids, **how)[0].to(dtype)
        after = before.clone() if again else _forward(table, stack, other, **how)[0].to(dtype)
        bound = {} if by is None else {"by": by((after - before)[:, :place])}
        if first:
            before, after = before[0], after[0]
        return Case(label, {"before": before, "after": after, "place": place}, bound)

    def between(one, other):
        """A bound between two sizes of a step, so that it matters which of them counts."""
        return lambda step: ((one(step) + other(step)) / 2).item()

    def largest(step):
        return step.abs().amax(-1)[0, 0]

    def fallen(step):
        """The place where most of the step is downwards, by its two sizes."""
        down, up = -step.amin(-1).flatten(), step.amax(-1).flatten()
        at = (down - up).argmax()
        return (down[at] + up[at]) / 2

    n = draw.between(5, 7)
    texts = between(largest, lambda step: step.abs().amax(-1)[1, 0])
    mean = between(largest, lambda step: step.abs().mean(-1)[0, 0])
    total = between(largest, lambda step: step.sum(-1).abs()[0, 0])
    length = between(largest, lambda step: step.norm(dim=-1)[0, 0])

    def hair(step):
        return largest(step).item() * (1 - 1e-8)

    def nobody(step):
        return 2 * step.abs().sum(-1).max().item()

    return [
        case("a causal model", 2, n, 3),
        case("a causal model, two layers, in float32", 3, n, 2, F32, layers=2),
        case("no mask", 2, n, 3, causal=False),
        case("no mask, one text", 1, n, 4, first=True, causal=False),
        case("no mask, in float32", 2, n + 1, 1, F32, causal=False),
        case("BatchNorm", 3, n, 2, over_batch=True),
        case("BatchNorm, one text", 2, 8, 5, first=True, over_batch=True),
        case("no mask, small steps do not count", 2, n, 3, causal=False, by=texts),
        case("BatchNorm, small steps do not count", 3, n, 3, over_batch=True, by=mean),
        case("no mask, another bound", 2, n, 4, F32, causal=False, by=total),
        case("BatchNorm, another bound", 4, n, 4, over_batch=True, by=lambda s: fallen(s).item()),
        case("no mask, a bound for each logit by itself", 2, n, 3, causal=False, by=length),
        case("no mask, a step just beyond the bound", 2, n, 3, causal=False, by=hair),
        case("no mask, a bound that nothing reaches", 2, n, 3, causal=False, by=nobody),
        case("nothing was exchanged", 2, n, 3, again=True, by=lambda step: 0.0),
        case("all was exchanged", 2, n, 0, causal=False),
        case("a single token", 1, 1, 1, F32, again=True),
    ]


def _leaks(size=lambda step: step.abs().amax(-1), early=lambda at, place: at < place, by=None):
    """The answer, with some of its choices replaced."""

    def wrong(before, after, place, by_=1e-6):
        moved = size(after - before) > (by_ if by is None else by)
        return moved & early(torch.arange(moved.size(-1)), place)

    return lambda before, after, place, by=1e-6: wrong(before, after, place, by)


def _loop(before, after, place, by=1e-6):
    step = (before - after).abs()
    found = torch.zeros(before.shape[:-1], dtype=torch.bool)
    for at in range(place):
        found[..., at] = (step[..., at, :] > by).any(-1)
    return found


LEAKS = Question(
    name="faults.leaks",
    target="leaks",
    points=2,
    cases=_leak_cases,
    reference=leaks,
    mistakes={
        "all-places": (
            _leaks(early=lambda at, place: at >= 0),
            "You report every place that moved. Those from `place` on were meant to move: their"
            " own token is another one.",
        ),
        "late-places": (
            _leaks(early=lambda at, place: at >= place),
            "You report the places that were exchanged, and those behind. A leak shows in front.",
        ),
        "one-too-many": (
            _leaks(early=lambda at, place: at <= place),
            "One place too many: the token *at* `place` is exchanged, so its logits must move.",
        ),
        "one-too-few": (
            _leaks(early=lambda at, place: at < place - 1),
            "One place too few: the one right in front of `place` must stand still, too.",
        ),
        "signed": (
            _leaks(size=lambda step: step.amax(-1)),
            "Some logits rise and some fall. One that fell has moved as well.",
        ),
        "summed": (
            _leaks(size=lambda step: step.sum(-1).abs()),
            "You add up the steps of all logits. Some rise and some fall.",
        ),
        "summed-sizes": (
            _leaks(size=lambda step: step.abs().sum(-1)),
            "You add up the sizes of the steps. Many small ones make a large sum; what counts is"
            " whether *one* logit moved by more than `by`.",
        ),
        "length": (
            _leaks(size=lambda step: step.norm(dim=-1)),
            "You take the length of the whole step, and many small ones make it long. What counts"
            " is whether *one* logit moved by more than `by`.",
        ),
        "squared": (
            _leaks(size=lambda step: step.square().amax(-1)),
            "You square the steps, and compare the squares with `by`.",
        ),
        "all-logits": (
            _leaks(size=lambda step: step.abs().amin(-1)),
            "You wait until all logits of a place have moved. One is enough.",
        ),
        "close": (
            lambda before, after, place, by=1e-6: (
                ~torch.isclose(before, after, rtol=1e-5, atol=by).all(-1)
                & (torch.arange(before.size(-2)) < place)
            ),
            "What torch calls close has a second measure, `rtol`, which grows with the logits and"
            " is not zero unless you say so. Only `by` should count.",
        ),
        "any-text": (
            lambda before, after, place, by=1e-6: (
                leaks(before, after, place, by)
                .reshape(-1, before.size(-2))
                .any(0)
                .expand(before.shape[:-1])
            ),
            "A place counts as moved in all texts once it moved in one. Each text has an answer of"
            " its own.",
        ),
        "mean-step": (
            _leaks(size=lambda step: step.abs().mean(-1)),
            "You average over the logits. One that moved by more than `by` is enough.",
        ),
        "guess": (
            lambda before, after, place, by=1e-6: (
                (before.argmax(-1) != after.argmax(-1)) & (torch.arange(before.size(-2)) < place)
            ),
            "You look whether the first guess changed. A leak can be real long before it changes"
            " a guess.",
        ),
        "own-threshold": (
            _leaks(by=1e-6),
            "One argument of yours is never looked at: how large a step has to be.",
        ),
        "not-less": (
            lambda before, after, place, by=1e-6: (
                ((after - before).abs().amax(-1) >= by) & (torch.arange(before.size(-2)) < place)
            ),
            "Where nothing was exchanged and `by` is zero, nothing has moved. *More* than `by`.",
        ),
        "cut": (
            lambda before, after, place, by=1e-6: leaks(before, after, place, by)[..., :place],
            "The values are right, but there should be one for every place, False from `place` on.",
        ),
    },
    alternatives={
        "loop": _loop,
        "norm": lambda before, after, place, by=1e-6: (
            torch.linalg.vector_norm(after - before, math.inf, dim=-1)
            .gt(by)
            .logical_and(torch.arange(after.size(-2)).lt(place))
        ),
        "in-place": lambda before, after, place, by=1e-6: (
            ((before - after).abs() > by)
            .any(-1)
            .index_fill(-1, torch.arange(place, before.size(-2)), False)
        ),
    },
)


# faults.first


def first_bad_layer(states, most=65504.0):
    bad = [at for at, layer in enumerate(states) if not (layer.abs() <= most).all()]
    return bad[0] if bad else -1


@cache
def _first_cases(seed):
    draw = Draw(seed)

    def grown(layers, gain, n=4, dtype=F64):
        """What a stack of ReLU layers hands on, drawn too large by a gain."""
        states = [draw.normal(n, WIDTH, dtype=F64)]
        for _ in range(layers):
            states.append(relu(states[-1] @ draw.normal(WIDTH, WIDTH, dtype=F64)) * gain)
        return torch.stack(states).to(dtype)

    def masked(layers, at, n=5, dtype=F64):
        """A stack whose attention sees an empty row in one layer, with a plain softmax."""
        states = [draw.normal(n, WIDTH, dtype=F64)]
        for layer in range(layers):
            x = states[-1]
            scores = (x @ x.T / WIDTH**0.5).masked_fill(~causal_mask(n, n), -math.inf)
            if layer == at:
                scores[draw.between(0, n - 1)] = -math.inf
            states.append(layer_norm(x + F.softmax(scores, -1) @ x))
        return torch.stack(states).to(dtype)

    late = grown(6, 300.0)
    tall, wide = grown(3, 2.0, n=3), grown(2, 0.1, n=5)
    size = wide[0].abs()
    return [
        Case("all is well", {"states": grown(3, 0.1)}),
        Case("all is well, in float32", {"states": grown(4, 0.2, dtype=F32)}),
        Case("grows beyond fp16", {"states": late}),
        Case("grows beyond float32", {"states": grown(8, 1e9, n=3, dtype=F32)}, {"most": 3e38}),
        Case("grows beyond a bound of ten", {"states": grown(5, 2.0, n=6)}, {"most": 10.0}),
        Case("an empty row", {"states": masked(4, 2)}),
        Case("an empty row in the first layer, in float32", {"states": masked(3, 0, dtype=F32)}),
        Case("an empty row at the end", {"states": masked(5, 4, n=7)}),
        Case("exactly as large as it may be", {"states": tall}, {"most": tall.abs().max().item()}),
        Case("the largest is negative", {"states": -late}),
        Case(
            "one number of many", {"states": wide}, {"most": (size.mean() + size.max()).item() / 2}
        ),
        Case("bad from the start", {"states": late.flip(0)}),
        Case("the input alone", {"states": grown(0, 1.0, n=1)}),
    ]


def _first(bad, none=-1, shift=0):
    """The first layer that is bad in the sense given."""

    def wrong(states, most=65504.0):
        found = [at for at, layer in enumerate(states) if bad(layer, most)]
        return found[0] + shift if found else none

    return wrong


def _is_bad(layer, most):
    return not bool((layer.abs() <= most).all())


FIRST = Question(
    name="faults.first",
    target="first_bad_layer",
    points=2,
    cases=_first_cases,
    reference=first_bad_layer,
    mistakes={
        "finite-only": (
            _first(lambda layer, most: not layer.isfinite().all()),
            "You look for NaN and infinity only. A number beyond `most` is one that half precision"
            " could not have held.",
        ),
        "nan-only": (
            _first(lambda layer, most: bool(layer.isnan().any())),
            "You look for NaN only. A number can be there, and be too large.",
        ),
        "length": (
            _first(lambda layer, most: not bool((layer.norm(dim=-1) <= most).all())),
            "You measure the length of a token's vector. Each number is held by itself: what counts"
            " is the size of one.",
        ),
        "input-skipped": (
            lambda states, most=65504.0: next(
                (at for at in range(1, len(states)) if _is_bad(states[at], most)), -1
            ),
            "You never look at the stream as it enters. It can be bad already.",
        ),
        "end-skipped": (
            lambda states, most=65504.0: next(
                (at for at in range(len(states) - 1) if _is_bad(states[at], most)), -1
            ),
            "You stop before the last layer. How many entries has a stream of L layers?",
        ),
        "last-token": (
            _first(lambda layer, most: _is_bad(layer[-1], most)),
            "You look at the last token. Any of them can be the bad one.",
        ),
        "nan-slips": (
            _first(lambda layer, most: bool((layer.abs() > most).any())),
            "Where a layer holds NaN you find nothing. How does NaN compare with `most`, and with"
            " everything else?",
        ),
        "infinite-slips": (
            _first(
                lambda layer, most: bool(
                    layer.isnan().any() or (layer[layer.isfinite()].abs() > most).any()
                )
            ),
            "You leave infinities out of the comparison. They are the largest of all.",
        ),
        "signed": (
            _first(lambda layer, most: not bool((layer <= most).all())),
            "A number can be too large on the other side of zero.",
        ),
        "mean": (
            _first(lambda layer, most: not bool(layer.abs().mean() <= most)),
            "You average over the layer. A single number is enough.",
        ),
        "all-bad": (
            _first(lambda layer, most: not bool((layer.abs() <= most).any())),
            "You wait until every number of a layer is bad. One is enough.",
        ),
        "edge": (
            _first(lambda layer, most: not bool((layer.abs() < most).all())),
            "A number exactly as large as `most` can still be held.",
        ),
        "last": (
            lambda states, most=65504.0: max(
                (at for at, layer in enumerate(states) if _is_bad(layer, most)), default=-1
            ),
            "You give the last layer that is bad. What is bad once stays bad: the first is where to"
            " look.",
        ),
        "counted-from-one": (
            _first(_is_bad, shift=1),
            "You count from one. The stream before any layer has number zero.",
        ),
        "layer-before": (
            _first(_is_bad, shift=-1),
            "You give the last one that was still good. The first bad one is asked for.",
        ),
        "zero-if-none": (
            _first(_is_bad, none=0),
            "Where all is well you say zero, and zero is the place of the first.",
        ),
        "length-if-none": (
            lambda states, most=65504.0: next(
                (at for at, layer in enumerate(states) if _is_bad(layer, most)), len(states)
            ),
            "Where all is well you give the number of layers. The text asks for another number.",
        ),
        "own-bound": (
            lambda states, most=65504.0: first_bad_layer(states),
            "One argument of yours is never looked at: the largest size that is allowed.",
        ),
    },
    alternatives={
        "argmin": lambda states, most=65504.0: (
            -1
            if (good := (states.abs() <= most).flatten(1).all(1)).all()
            else int(good.long().argmin())
        ),
        "index": lambda states, most=65504.0: next(
            (at for at in range(states.size(0)) if _is_bad(states[at], most)), -1
        ),
        "nan-to-infinity": lambda states, most=65504.0: next(
            iter(
                [
                    *torch.nonzero(
                        states.nan_to_num(math.inf, math.inf, -math.inf).abs().amax((1, 2)) > most
                    )
                    .flatten()
                    .tolist(),
                    -1,
                ]
            )
        ),
    },
)


# faults.name


def name_fault(losses, silent, even, slopes, floor, low=0.05, high=0.95):
    if not losses.isfinite().all():
        return 1
    if losses[-3:].mean() < floor:
        return 2
    if silent.max() > high:
        return 3
    if even.max() < low:
        return 4
    if even.min() > high:
        return 5
    if slopes.min() == 0:
        return 6
    return 0


def _log(draw, layers, steps, dtype=F64, *, rate=0.02, later=None, moved=True, **how):
    """A program of that fault is run: its losses, and three marks of each layer at the end.

    ``spread`` of the queries and keys, and how far ``below`` zero the offsets are drawn, are one
    number for all layers or one for each. Below layer ``cut`` nothing learns, and at layer
    ``lone`` that one does not. The batch at step ``bad`` overflows and is left out, and ``shrink``
    multiplies the loss.
    """
    cut, lone, bad = (how.pop(name, None) for name in ("cut", "lone", "bad"))
    shrink = how.pop("shrink", 1.0)
    wanted = {"spread": 1.6, "below": 0.0} | how
    each = {name: v if isinstance(v, tuple) else (v,) * layers for name, v in wanted.items()}
    table, stack = _drawn(draw, layers, 1.0)
    for layer, spread, below in zip(stack, each["spread"], each["below"], strict=True):
        layer[0] *= spread
        layer[1] *= spread
        layer[4] -= below
    weights = [table, *(w for layer in stack for w in layer)]
    for w in weights:
        w.requires_grad_()
    losses = []
    with torch.enable_grad():
        for step in range(steps):
            ids = _ids(draw, 3, 7)
            logits, _, hidden, maps = _forward(table, stack, ids[:, :-1], cut=cut, lone=lone)
            logits = (1e6 * logits).half().to(F64) if step == bad else logits
            answers = ids[:, 1:] if moved else ids[:, :-1]
            loss = shrink * F.cross_entropy(logits.flatten(0, 1), answers.flatten())
            losses.append(loss.detach())
            if step == bad:
                continue
            slopes = torch.autograd.grad(loss, weights, allow_unused=True)
            pace = rate if later is None or step == 0 else later
            with torch.no_grad():
                for w, slope in zip(weights, slopes, strict=True):
                    if slope is not None:
                        w -= pace * slope
    seen, zero = causal_mask(6, 6), torch.zeros((), dtype=F64)
    by_layer = [slopes[1 + 6 * at : 7 + 6 * at] for at in range(layers)]
    norms = [sum((s.square().sum() for s in layer if s is not None), zero) for layer in by_layer]
    marks = {
        "losses": losses,
        "silent": [(h == 0).flatten(0, 1).all(0).double().mean() for h in hidden],
        "even": [evenness(m, seen)[:, 1:].mean() for m in maps],
        "slopes": [norm.sqrt() for norm in norms],
    }
    return {name: torch.stack(mark).detach().to(dtype) for name, mark in marks.items()}


@cache
def _name_cases(seed):
    draw = Draw(seed)
    floor = 0.8 * math.log(TOKENS)  # tokens are drawn by chance; nobody gets far below ln 5

    def case(label, log, floor=floor, **bounds):
        return Case(label, {**log, "floor": floor}, bounds)

    small = _log(draw, 1, 3, F32)
    echo = _log(draw, 2, 7, moved=False, rate=0.3)
    silent, even = small["silent"].max().item(), small["even"].max().item()
    last = echo["losses"][-3:].mean().item()
    about = (last + echo["losses"][-1].item()) / 2
    beside = (last + echo["losses"][-3:].median().item()) / 2
    sharp, flat = _log(draw, 2, 3, spread=(400.0, 1.6)), _log(draw, 2, 3, spread=(1.6, 0.02))
    not_all = (sharp["even"].mean() + sharp["even"].max()).item() / 2
    not_one = (flat["even"].mean() + flat["even"].min()).item() / 2
    quiet = _log(draw, 2, 3, below=1.0)
    return [
        case("a healthy run", _log(draw, 2, 5)),
        case("a healthy run of one layer, in float32", small),
        case("a rate far too large", _log(draw, 2, 4, rate=1e200)),
        case("one step far too long, in float32", _log(draw, 2, 3, F32, rate=1e41, later=0.0)),
        case(
            "one step far too long, and offsets below zero",
            _log(draw, 2, 3, F32, rate=1e41, later=0.0, below=9.0),
        ),
        case("answers not moved", echo),
        case("answers not moved, just below the floor", echo, last + 1e-4),
        case("answers not moved, exactly at the floor", echo, last),
        case("answers not moved, about at the floor", echo, about),
        case("answers not moved, the floor beside the middle loss", echo, beside),
        case("one batch that overflowed", _log(draw, 2, 6, bad=1)),
        case(
            "one batch that overflowed, answers not moved",
            _log(draw, 2, 9, moved=False, rate=0.3, bad=0),
        ),
        case(
            "answers not moved, offsets below zero",
            _log(draw, 2, 9, moved=False, rate=0.3, below=9.0),
        ),
        case(
            "answers not moved, scores too small, and cut",
            _log(draw, 2, 9, moved=False, rate=0.3, spread=0.02, cut=1),
        ),
        case("offsets far below zero", _log(draw, 3, 3, below=9.0)),
        case("offsets far below zero in one layer", _log(draw, 3, 3, below=(0.0, 9.0, 0.0))),
        case("offsets below zero, scores too small", _log(draw, 2, 3, below=9.0, spread=0.02)),
        case(
            "offsets below zero, scores too large, and cut",
            _log(draw, 2, 3, below=9.0, spread=400.0, cut=1),
        ),
        case("scores far too large", _log(draw, 2, 3, spread=400.0)),
        case("scores far too large in one layer", sharp, low=not_all),
        case("scores far too large, and cut", _log(draw, 3, 3, F32, spread=400.0, cut=1)),
        case("scores far too small", _log(draw, 3, 3, spread=0.02)),
        case("scores far too small in one layer", flat),
        case("scores far too small in one layer, a stricter bound", flat, high=not_one),
        case("scores far too small, and cut", _log(draw, 2, 3, spread=0.02, cut=1)),
        case("cut in the middle", _log(draw, 4, 3, cut=2)),
        case("cut in the middle, in float32", _log(draw, 2, 3, F32, cut=1)),
        case("one layer cut off, and none below it", _log(draw, 3, 3, lone=1)),
        case("a loss that was divided by a million million", _log(draw, 2, 3, shrink=1e-12), 0.0),
        case("as silent as allowed", small, low=0.0, high=silent),
        case("as uneven as allowed", small, low=even),
        case("as even as allowed", small, high=even),
        case(
            "stricter about silent ones", quiet, low=0.0, high=quiet["silent"].max().item() - 0.01
        ),
        case("stricter about sharp ones", small, low=even + 0.01),
        case("stricter about even ones", small, high=even - 0.01),
    ]


def _name(order=(1, 2, 3, 4, 5, 6), **rules):
    """The list, with some of its rules replaced or in another order."""
    right = {
        1: lambda log: not log["losses"].isfinite().all(),
        2: lambda log: log["losses"][-3:].mean() < log["floor"],
        3: lambda log: log["silent"].max() > log["high"],
        4: lambda log: log["even"].max() < log["low"],
        5: lambda log: log["even"].min() > log["high"],
        6: lambda log: log["slopes"].min() == 0,
    }
    used = right | {int(name[1:]): rule for name, rule in rules.items()}

    def wrong(losses, silent, even, slopes, floor, low=0.05, high=0.95):
        log = {
            "losses": losses,
            "silent": silent,
            "even": even,
            "slopes": slopes,
            "floor": floor,
            "low": low,
            "high": high,
        }
        return next((number for number in order if bool(used[number](log))), 0)

    return wrong


_ORDER = "Each rule is right, their order is not. "

NAME = Question(
    name="faults.name",
    target="name_fault",
    points=3,
    cases=_name_cases,
    reference=name_fault,
    mistakes={
        "nan-only": (
            _name(_1=lambda log: log["losses"].isnan().any()),
            "Infinity is no number that a loss may have, either.",
        ),
        "infinity-only": (
            _name(_1=lambda log: log["losses"].isinf().any()),
            "NaN is no number that a loss may have, either: ask for all that is finite.",
        ),
        "last-loss-finite": (
            _name(_1=lambda log: not log["losses"][-1].isfinite()),
            "You ask the last loss only. One that was not finite, at any step, is enough.",
        ),
        "all-lost": (
            _name(_1=lambda log: not log["losses"].isfinite().any()),
            "You wait until no loss is finite. One that is not is enough.",
        ),
        "one-loss": (
            _name(_2=lambda log: log["losses"][-1] < log["floor"]),
            "You go by one loss. The mean of the last three is asked for: a single batch may be"
            " lucky.",
        ),
        "other-losses": (
            _name(_2=lambda log: log["losses"].mean() < log["floor"]),
            "You average over other losses than the last three. What counts is where it ended.",
        ),
        "median": (
            _name(_2=lambda log: log["losses"][-3:].median() < log["floor"]),
            "You take the one in the middle. The mean of the last three is asked for.",
        ),
        "floor-included": (
            _name(_2=lambda log: log["losses"][-3:].mean() <= log["floor"]),
            "Exactly at the floor is possible. Only below it is not.",
        ),
        "above-floor": (
            _name(_2=lambda log: log["losses"][-3:].mean() > log["floor"]),
            "You call it too good where it is above the floor. Above is possible, below is not.",
        ),
        "all-silent": (
            _name(_3=lambda log: log["silent"].min() > log["high"]),
            "One silent layer is enough to cut off what lies below, whichever it is. You wait for"
            " more, or look at another one.",
        ),
        "wholly-silent": (
            _name(_3=lambda log: log["silent"].max() == 1),
            "You wait until a layer is silent altogether. A share above `high` is enough.",
        ),
        "silent-at-bound": (
            _name(_3=lambda log: log["silent"].max() >= log["high"]),
            "A silent share of exactly `high` is still allowed. *Above* it is not.",
        ),
        "any-sharp": (
            _name(_4=lambda log: log["even"].min() < log["low"]),
            "One sharp layer is no fault, nor a low average: a head that looks at one token may be"
            " what the task needs. *Every* layer must be below.",
        ),
        "any-even": (
            _name(_5=lambda log: log["even"].max() > log["high"]),
            "One even layer is no fault. All of them must be above.",
        ),
        "mean-even": (
            _name(_5=lambda log: log["even"].mean() > log["high"]),
            "You average evenness over the layers. *Every* layer must be above `high`.",
        ),
        "low-included": (
            _name(_4=lambda log: log["even"].max() <= log["low"]),
            "An evenness of exactly `low` is still allowed. *Below* it is not.",
        ),
        "high-included": (
            _name(_5=lambda log: log["even"].min() >= log["high"]),
            "An evenness of exactly `high` is still allowed. *Above* it is not.",
        ),
        "sharp-and-even": (
            _name(
                _4=lambda log: log["even"].min() > log["high"],
                _5=lambda log: log["even"].max() < log["low"],
            ),
            "You have the two ends of evenness the wrong way round: 0 is one-hot, 1 is uniform.",
        ),
        "one-slope": (
            _name(_6=lambda log: log["slopes"][-1] == 0),
            "One layer whose slope is zero is enough, whichever it is. A cut leaves nothing for"
            " the layers below it, and those above go on learning.",
        ),
        "lowest-slope": (
            _name(_6=lambda log: log["slopes"][0] == 0),
            "You look at the first layer's slope. A layer can be cut off by itself, when what it"
            " adds is cut and the stream goes on.",
        ),
        "small-slope": (
            _name(_6=lambda log: log["slopes"].min() < 1e-6),
            "A small slope is no cut: a loss that is divided by much has small ones everywhere. Ask"
            " for zero, exactly.",
        ),
        **{
            f"cut-before-{before}": (
                _name(order),
                _ORDER + "Ask for the cut last, as the list does.",
            )
            for before, order in {
                "all": (6, 1, 2, 3, 4, 5),
                "silence": (1, 2, 6, 3, 4, 5),
                "sharp": (1, 2, 3, 6, 4, 5),
                "even": (1, 2, 3, 4, 6, 5),
            }.items()
        },
        "even-before-silent": (
            _name((1, 2, 4, 5, 3, 6)),
            _ORDER + "Silence comes before evenness.",
        ),
        "silence-before-floor": (
            _name((1, 3, 2, 4, 5, 6)),
            _ORDER + "Ask for the floor before you ask for silence.",
        ),
        "silence-first": (
            _name((3, 1, 2, 4, 5, 6)),
            _ORDER + "Whether all losses are finite comes first.",
        ),
        "floor-first": (
            _name((2, 1, 3, 4, 5, 6)),
            _ORDER + "Whether all losses are finite comes first, wherever the run ended.",
        ),
        "last-line": (
            _name((6, 5, 4, 3, 2, 1)),
            "You give the *last* line that is true. The first is asked for.",
        ),
        "counted-from-zero": (
            lambda losses, silent, even, slopes, floor, low=0.05, high=0.95: max(
                name_fault(losses, silent, even, slopes, floor, low, high) - 1, 0
            ),
            "You count the lines from zero. The first has number 1, and 0 says that none is true.",
        ),
        "minus-one-if-none": (
            lambda losses, silent, even, slopes, floor, low=0.05, high=0.95: (
                name_fault(losses, silent, even, slopes, floor, low, high) or -1
            ),
            "Where no line is true you give another number than the text asks for.",
        ),
        "own-bounds": (
            lambda losses, silent, even, slopes, floor, low=0.05, high=0.95: name_fault(
                losses, silent, even, slopes, floor
            ),
            "Two arguments of yours are never looked at: the bounds of the list.",
        ),
    },
    alternatives={
        "listed": _name(),
        "unrolled": lambda losses, silent, even, slopes, floor, low=0.05, high=0.95: (
            1
            if any(not math.isfinite(loss) for loss in losses.tolist())
            else 2
            if losses[len(losses) - 3 :].mean().item() < floor
            else 3
            if any(share > high for share in silent)
            else 4
            if all(each < low for each in even)
            else 5
            if all(each > high for each in even)
            else 6
            if not slopes.all()
            else 0
        ),
    },
)


QUESTIONS = (EVEN, LEAKS, FIRST, NAME)
