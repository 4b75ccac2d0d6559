"""Exercise set *decoders*: a loss, a cut, a step beside a cache, what a cache saves, what it takes.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers. Ids are tuples of
whole numbers.
"""

from __future__ import annotations

import itertools
import math
from itertools import takewhile

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# decoders.loss


def mean_surprise(logits, ids, ignore=None):
    asked = [at for at in range(1, len(ids)) if ids[at] != ignore]
    logarithms = logits.log_softmax(1)
    return -sum(logarithms[at - 1, ids[at]] for at in asked) / len(asked)


def _loss_cases(seed):
    draw = Draw(seed)
    a, b, c = draw.between(1, 2), draw.between(3, 4), draw.between(5, 6)

    def case(label, ids, vocab, dtype=F32, size=2.0, surprised=False, **kwargs):
        logits = size * draw.normal(len(ids), vocab, dtype=dtype)
        if surprised:  # whatever is drawn, one answer is far from the likeliest
            logits[0, ids[1]] = logits[0].min() - size
        inputs = {"logits": logits, "ids": ids}
        return Case(label, inputs, kwargs, upstream=draw.normal(dtype=dtype))

    return [
        case("a text", (0, a, b, c, a, 7), 9),
        case("another, in float64", (b, c, a, b), 8, F64),
        case("two tokens: a single answer", (a, b), 6),
        case("one token over and over", (a, a, a, a, a), 4),
        case("as many tokens as the vocabulary has", (c, 1, b, 0, 6, a, 2), 7),
        case("padding behind the text", (a, b, c, b, 0, 0, 0), 7, ignore=0),
        case("padding that is another id", (0, a, c, 7, 7), 8, ignore=7),
        case("a start token that is ignored", (0, b, a, c), 8, F64, ignore=0),
        case("an id to ignore that is not there", (a, b, c), 10, ignore=9),
        case("a hole in the text", (a, 0, b, 0, c), 7, F64, ignore=0),
        case("logits far apart", (b, a, c, b), 7, size=300.0, surprised=True),
        case("a vocabulary of one", (0, 0, 0), 1),
        case("id 0 beside one that is ignored", (a, 0, b, 7, c), 8, ignore=7),
    ]


def _loss(shift=1, reduce=None, wanted=lambda ids, at: at, ignoring=True, of=None):
    """The loss, with some of its choices replaced; a reason to leave one out is an ``ignore``."""

    def wrong(logits, ids, ignore=None):
        logarithms = (of or (lambda logits: logits.log_softmax(-1)))(logits)
        pairs = [(at - shift, at) for at in range(shift, len(ids))]
        asked = [pair for pair in pairs if not ignoring or ids[pair[1]] != ignore] or pairs[:1]
        found = [-logarithms[place, ids[at]] for place, at in asked]
        return (reduce or (lambda found, ids: sum(found) / len(found)))(found, ids)

    return wrong


def _ignored_by_place(logits, ids, ignore=None):
    places = [at for at in range(len(ids) - 1) if ids[at] != ignore]
    logarithms = logits.log_softmax(-1)
    return -sum(logarithms[at, ids[at + 1]] for at in places) / max(len(places), 1)


def _backwards(logits, ids, ignore=None):
    asked = [at for at in range(len(ids) - 1) if ids[at] != ignore]
    logarithms = logits.log_softmax(-1)
    return -sum(logarithms[at + 1, ids[at]] for at in asked) / max(len(asked), 1)


def _zeroed(logits, ids, ignore=None):
    answers = torch.tensor(ids[1:])
    each = F.cross_entropy(logits[:-1], answers, reduction="none")
    return (each * torch.tensor([id_ != ignore for id_ in ids[1:]])).mean()


def _wrapped(logits, ids, ignore=None):
    answers = torch.tensor(ids).roll(-1)
    return F.cross_entropy(logits, answers, ignore_index=-100 if ignore is None else ignore)


def _ignoring(left_out):
    """The loss without the answers that ``left_out(id, ignore)`` names."""

    def wrong(logits, ids, ignore=None):
        asked = [at for at in range(1, len(ids)) if not left_out(ids[at], ignore)]
        logarithms = logits.log_softmax(1)
        found = sum((-logarithms[at - 1, ids[at]] for at in asked), logits.sum() * 0)
        return found / len(asked) if asked else found + math.nan

    return wrong


def _torn_out(logits, ids, ignore=None):
    kept = [at for at, id_ in enumerate(ids) if id_ != ignore]
    asked = [(place, ids[at]) for place, at in itertools.pairwise(kept)]
    logarithms = logits.log_softmax(1)
    return -sum(logarithms[place, id_] for place, id_ in asked) / max(len(asked), 1)


def _by_real_tokens(logits, ids, ignore=None):
    asked = sum(id_ != ignore for id_ in ids[1:])
    real = sum(id_ != ignore for id_ in ids)
    return mean_surprise(logits, ids, ignore) * asked / real


def _until_ignored(logits, ids, ignore=None):
    asked = list(takewhile(lambda at: ids[at] != ignore, range(1, len(ids))))
    logarithms = logits.log_softmax(1)
    found = sum((-logarithms[at - 1, ids[at]] for at in asked), logits.sum() * 0)
    return found / max(len(asked), 1)


def _twice(logits, ids, ignore=None):
    return mean_surprise(logits.softmax(-1), ids, ignore)


_BY_TORCH = (
    "Right where nothing is to be ignored. The mean is over the answers that count, and so is the"
    " number that you divide by."
)
_NONE_IGNORED = (
    "Right where nothing is to be ignored. One argument names an id that is no exercise, and your"
    " answer asks for it all the same."
)


LOSS = Question(
    name="decoders.loss",
    target="mean_surprise",
    points=3,
    cases=_loss_cases,
    reference=mean_surprise,
    mistakes={
        "not-shifted": (
            _loss(shift=0),
            "You ask each place for the token that stands there, which it has read. A model"
            " trained so learns to copy. Which token does place 0 have to say?",
        ),
        "shifted-twice": (
            _loss(shift=2),
            "You ask each place for the token after the next. Has something been moved twice?",
        ),
        "backwards": (
            _backwards,
            "You ask each place for the token *before* it, which it has read. Turn the shift"
            " round: which of the two, scores or ids, loses its first entry?",
        ),
        "wrapped": (
            _wrapped,
            "Nearly right: you have asked the last place too, and for the first token. Whatever"
            " moves ids round in a ring brings them back at the other end.",
        ),
        "sum": (
            _loss(reduce=lambda found, ids: sum(found)),
            "You add the surprises up. Wanted is their mean, so that a long text does not count as"
            " worse than a short one.",
        ),
        "by-length": (
            _loss(reduce=lambda found, ids: sum(found) / len(ids)),
            "You divide by the number of tokens. There is an answer fewer than there are tokens,"
            " and fewer still where some are ignored.",
        ),
        "by-places": (_zeroed, _BY_TORCH),
        "all-asked": (_loss(ignoring=False), _NONE_IGNORED),
        "zero-as-none": (
            _ignoring(lambda id_, ignore: bool(ignore) and id_ == ignore),
            "Right unless the id to ignore is 0. Python counts 0 as false, so `if ignore` and"
            " `ignore or ...` take it for nothing given. Ask whether it `is None`.",
        ),
        "none-as-zero": (
            _ignoring(lambda id_, ignore: id_ == (ignore or 0)),
            "Right wherever an id to ignore is given. Where none is, every answer counts, and id 0"
            " is a token like any other.",
        ),
        "zero-always": (
            _ignoring(lambda id_, ignore: id_ == 0),
            "You always leave out id 0. It is padding in some vocabularies; here the argument says"
            " which id is none of the exercises, or that all are.",
        ),
        "zero-too": (
            _ignoring(lambda id_, ignore: id_ in (0, ignore)),
            "You leave out id 0 beside the one that is named. Only what is named is no exercise.",
        ),
        "torn-out": (
            _torn_out,
            "You take the ignored tokens out before you move the answers. That makes neighbours of"
            " tokens that were none: first move, then leave out.",
        ),
        "by-real-tokens": (
            _by_real_tokens,
            "Your divisor counts the tokens that are not ignored. Count the *answers* that are not:"
            " the first token is none.",
        ),
        "until-ignored": (
            _until_ignored,
            "You stop at the first ignored answer. Behind it more may come that count.",
        ),
        "ignored-by-place": (
            _ignored_by_place,
            "You leave out places where the ignored id is *read*. It is to be left out where it is"
            " the *answer*.",
        ),
        "probability": (
            _loss(of=lambda logits: logits.softmax(-1)),
            "Your number lies between minus one and zero: it is the mean of the shares. Surprise"
            " is the negative logarithm of a share.",
        ),
        "raw": (
            _loss(of=lambda logits: logits),
            "You take the scores as they are. A score says nothing alone: add 5 to all of them and"
            " no share changes, but your loss does.",
        ),
        "wrong-axis": (
            _loss(of=lambda logits: logits.log_softmax(0)),
            "Your shares add up to one over the *places*. At each place they are shared out among"
            " the tokens of the vocabulary.",
        ),
        "softmax-twice": (
            _twice,
            "You have turned the scores into shares and then treated the shares as scores. Some"
            " losses take scores and do the first step themselves.",
        ),
        "sign": (
            _loss(reduce=lambda found, ids: -sum(found) / len(found)),
            "The size is right, the sign is not. Surprise is never below zero.",
        ),
        "base-2": (
            lambda logits, ids, ignore=None: mean_surprise(logits, ids, ignore) / math.log(2),
            "That is in bits. Losses in this book are in nats, with the natural logarithm.",
        ),
        "log-of-softmax": (
            _loss(of=lambda logits: logits.softmax(-1).log()),
            "Right for tame scores. Where one is far above the others, a share is rounded to zero"
            " and its logarithm is not finite. Take both steps at once.",
        ),
        "floored": (
            _loss(of=lambda logits: (logits.softmax(-1) + 1e-8).log()),
            "Right for tame scores. A small number added to each share keeps its logarithm finite,"
            " and makes it wrong where the share is smaller still. Take both steps at once.",
        ),
        "clamped": (
            _loss(of=lambda logits: logits.softmax(-1).clamp_min(1e-8).log()),
            "Right for tame scores. A least share keeps its logarithm finite, and makes it wrong"
            " where the true one is smaller still. Take both steps at once.",
        ),
        "perplexity": (
            lambda logits, ids, ignore=None: mean_surprise(logits, ids, ignore).exp(),
            "That is the perplexity, e to the power of what is wanted.",
        ),
    },
    alternatives={
        "torch": lambda logits, ids, ignore=None: F.cross_entropy(
            logits[:-1],
            torch.tensor(ids[1:]),
            ignore_index=-100 if ignore is None else ignore,
        ),
        "gather": lambda logits, ids, ignore=None: _by_gather(logits, ids, ignore),
        "logsumexp": lambda logits, ids, ignore=None: _by_logsumexp(logits, ids, ignore),
    },
)


def _by_gather(logits, ids, ignore):
    answers = torch.tensor(ids[1:])
    each = -logits[:-1].log_softmax(-1).gather(1, answers[:, None])[:, 0]
    return each[[id_ != ignore for id_ in ids[1:]]].mean()


def _by_logsumexp(logits, ids, ignore):
    each = [
        row.logsumexp(0) - row[answer]
        for row, answer in zip(logits, ids[1:], strict=False)
        if answer != ignore
    ]
    return torch.stack(each).mean()


# decoders.top_p


def nucleus(shares, p):
    ranked, order = shares.sort(-1, descending=True)
    likelier = ranked.cumsum(-1) - ranked
    kept = torch.where(likelier < p, ranked, 0)
    return torch.zeros_like(shares).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


def _top_p_cases(seed):
    draw = Draw(seed)
    v = draw.between(6, 9)

    def case(label, p, *shape, dtype=F32, heat=1.0):
        shares = (heat * draw.normal(*shape, dtype=dtype)).softmax(-1)
        return Case(label, {"shares": shares, "p": p}, upstream=draw.normal(*shape, dtype=dtype))

    def exact(label, p, *shares, dtype=F32):
        turned = torch.tensor(shares, dtype=dtype).roll(draw.between(0, 3))
        inputs = {"shares": turned, "p": p}
        return Case(label, inputs, upstream=draw.normal(len(shares), dtype=dtype))

    return [
        case("one row", 0.7, v),
        case("a batch of rows", 0.5, 4, v),
        case("rows of sequences, in float64", 0.8, 2, 3, v, dtype=F64),
        case("as many rows as tokens", 0.6, 5, 5),
        case("a small share: the likeliest alone", 0.01, 3, v + 1),
        case("everything", 1.0, 3, v),
        case("flat shares", 0.9, 2, 2 * v, heat=0.1),
        case("steep shares", 0.9, 3, v, dtype=F64, heat=5.0),
        exact("a share reached exactly", 0.5, 0.5, 0.375, 0.125),
        exact("reached exactly by two", 0.75, 0.5, 0.25, 0.15625, 0.09375, dtype=F64),
        exact("missed by a little", 0.8125, 0.5, 0.25, 0.15625, 0.09375, dtype=F64),
        case("a vocabulary of one", 0.3, 2, 1),
    ]


def _cut(keep, again=True):
    """Sort, keep what ``keep`` says of the ranked shares and p, and put back."""

    def wrong(shares, p):
        ranked, order = shares.sort(-1, descending=True)
        kept = torch.where(keep(ranked, p), ranked, 0)
        if again:
            kept = kept / kept.sum(-1, keepdim=True).clamp_min(1e-30)
        return torch.zeros_like(shares).scatter(-1, order, kept)

    return wrong


def _ascending(shares, p):
    ranked, order = shares.sort(-1)
    kept = torch.where(ranked.cumsum(-1) - ranked < p, ranked, 0)
    return torch.zeros_like(shares).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


def _in_order(shares, p):
    kept = torch.where(shares.cumsum(-1) - shares < p, shares, 0)
    return kept / kept.sum(-1, keepdim=True)


def _left_sorted(shares, p):
    ranked = shares.sort(-1, descending=True).values
    return _in_order(ranked, p)


def _softmaxed(shares, p):
    kept = nucleus(shares, p)
    return torch.where(kept > 0, shares, -math.inf).softmax(-1)


def _first_axis(shares, p):
    ranked, order = shares.sort(0, descending=True)
    kept = torch.where(ranked.cumsum(0) - ranked < p, ranked, 0)
    return torch.zeros_like(shares).scatter(0, order, kept / kept.sum(0, keepdim=True))


def _evenly_drawn(shares, p):
    kept = (nucleus(shares, p) > 0).to(shares.dtype) + 0 * shares
    return kept / kept.sum(-1, keepdim=True)


def _by_p(shares, p):
    return torch.where(nucleus(shares, p) > 0, shares, 0) / p


def _over_all_rows(shares, p):
    kept = torch.where(nucleus(shares, p) > 0, shares, 0)
    return kept / kept.sum()


def _gathered(shares, p):
    ranked, order = shares.sort(-1, descending=True)
    kept = torch.where(ranked.cumsum(-1) - ranked < p, ranked, 0)
    return (kept / kept.sum(-1, keepdim=True)).gather(-1, order)


def _longest_row(shares, p):
    ranked, order = shares.sort(-1, descending=True)
    most = ((ranked.cumsum(-1) - ranked) < p).sum(-1).max()
    kept = torch.where(torch.arange(ranked.size(-1)) < most, ranked, 0)
    return torch.zeros_like(shares).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


def _detached(shares, p):
    kept = torch.where(nucleus(shares, p) > 0, shares, 0)
    return kept / kept.sum(-1, keepdim=True).detach()


_EXCLUSIVE = (
    "One token too few. The token that brings the sum to the share still belongs to it: ask how"
    " much the likelier ones hold *before* it."
)


TOP_P = Question(
    name="decoders.top_p",
    target="nucleus",
    points=2,
    cases=_top_p_cases,
    reference=nucleus,
    mistakes={
        "too-few": (_cut(lambda ranked, p: ranked.cumsum(-1) <= p), _EXCLUSIVE),
        "too-few-strict": (_cut(lambda ranked, p: ranked.cumsum(-1) < p), _EXCLUSIVE),
        "too-few-but-one": (
            _cut(lambda ranked, p: (ranked.cumsum(-1) <= p) | (ranked == ranked[..., :1])),
            both(_EXCLUSIVE, "Keeping the likeliest in any case hides that where p is small."),
        ),
        "one-too-many": (
            _cut(lambda ranked, p: ranked.cumsum(-1) - ranked <= p),
            "Right unless the likelier ones hold the share exactly. Then they are enough, and you"
            " keep one token more.",
        ),
        "not-again": (
            _cut(lambda ranked, p: ranked.cumsum(-1) - ranked < p, again=False),
            "The right tokens are left, but their shares no longer add up to one.",
        ),
        "threshold": (
            _cut(lambda ranked, p: (ranked >= p) | (ranked == ranked[..., :1])),
            "You keep each token whose own share is large. Wanted are the likeliest that hold the"
            " share *together*.",
        ),
        "relative": (
            _cut(lambda ranked, p: ranked >= p * ranked[..., :1]),
            "You compare each share with the largest. That is another cut, called min-p. This one"
            " adds shares up.",
        ),
        "unlikeliest": (
            _ascending,
            "You keep the *unlikeliest* tokens: your shares are added up from the smallest on.",
        ),
        "unsorted": (
            _in_order,
            "You add the shares up in the order of their ids. The likeliest come first.",
        ),
        "left-sorted": (
            _left_sorted,
            "The shares are right, and stand in the wrong places: after sorting, place 0 is no"
            " longer token 0. Put each share back where it came from.",
        ),
        "put-back-twice": (
            _gathered,
            "The shares are right, and stand in the wrong places. The order says where each sorted"
            " share came *from*; to send it back there is the opposite of gathering by it.",
        ),
        "evenly": (
            _evenly_drawn,
            "The right tokens are left, and all alike. They keep their shares, in proportion.",
        ),
        "divided-by-p": (
            _by_p,
            "The right tokens are left, and divided by p. They hold p or *more*: divide by what"
            " they hold.",
        ),
        "over-all-rows": (
            _over_all_rows,
            "Right for one row. In a batch you divide by what is left of all rows together, and"
            " each is to add up to one.",
        ),
        "longest-row": (
            _longest_row,
            "Right for one row. In a batch you keep as many tokens in each row as the one that"
            " needs most. Each row is cut by itself.",
        ),
        "sum-detached": (
            _detached,
            "Forward all is right. The sum that you divide by depends on the shares, and its"
            " gradient is missing.",
        ),
        "softmax-again": (
            _softmaxed,
            "The right tokens are left. To bring shares back to sum 1 divide by their sum: a"
            " softmax takes scores, and makes shares flatter.",
        ),
        "first-axis": (
            _first_axis,
            "Right for one row. In a batch you cut along the rows' axis, and rows are readers that"
            " know nothing of each other.",
        ),
        "top-k": (
            lambda shares, p: _cut(
                lambda ranked, p: torch.arange(ranked.size(-1)) < max(1, round(p * ranked.size(-1)))
            )(shares, p),
            "You keep a share of the *tokens*. Wanted are the fewest tokens that hold a share of"
            " the *probability*.",
        ),
    },
    alternatives={
        "row-by-row": lambda shares, p: _row_by_row(shares, p),
        "cut-by-value": lambda shares, p: _cut_by_value(shares, p),
    },
)


def _row_by_row(shares, p):
    rows = []
    for row in shares.reshape(-1, shares.size(-1)):
        held, kept = 0.0, []
        for id_ in row.argsort(descending=True).tolist():
            if held < p:
                kept.append(id_)
                held = row[kept].sum().item()
        inside = torch.zeros(len(row), dtype=torch.bool)
        inside[kept] = True
        rows.append(torch.where(inside, row, 0) / row[kept].sum())
    return torch.stack(rows).reshape(shares.shape)


def _cut_by_value(shares, p):
    above = shares.unsqueeze(-2) > shares.unsqueeze(-1)
    kept = shares * ((above * shares.unsqueeze(-2)).sum(-1) < p)
    return kept / kept.sum(-1, keepdim=True)


# decoders.step


def step_with_cache(x, w_q, w_k, w_v, keys, values):
    keys = torch.cat([keys, (x @ w_k.T)[:, None]], 1)
    values = torch.cat([values, (x @ w_v.T)[:, None]], 1)
    scores = keys @ (x @ w_q.T)[:, :, None] / math.sqrt(keys.size(-1))
    return (scores.softmax(1) * values).sum(1)


def _step_cases(seed):
    draw = Draw(seed)

    def case(label, b, n, d, d_k, d_v, dtype=F32, size=1.0):
        inputs = {
            "x": size * draw.normal(b, d, dtype=dtype),
            "w_q": draw.normal(d_k, d, dtype=dtype) / d**0.5,
            "w_k": draw.normal(d_k, d, dtype=dtype) / d**0.5,
            "w_v": draw.normal(d_v, d, dtype=dtype) / d**0.5,
            "keys": size * draw.normal(b, n, d_k, dtype=dtype),
            "values": draw.normal(b, n, d_v, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(b, d_v, dtype=dtype))

    n = draw.between(4, 6)
    return [
        case("two texts", 2, n, 7, 3, 8),
        case("one text, in float64", 1, n + 1, 6, 2, 4, F64),
        case("one token kept", 3, 1, 5, 2, 4),
        case("nothing kept yet", 2, 0, 6, 4, 3),
        case("all sizes the same", 4, 4, 4, 4, 4, F64),
        case("wide keys", 2, n, 3, 16, 5),
        case("scores far apart", 3, n, 6, 5, 2, size=12.0),
        case("keys of one number", 2, n + 2, 4, 1, 3, F64),
    ]


def _step(own=True, kept=True, scale=lambda keys, values: math.sqrt(keys.size(-1)), axis=1):
    def wrong(x, w_q, w_k, w_v, keys, values):
        q, k, v = x @ w_q.T, (x @ w_k.T)[:, None], (x @ w_v.T)[:, None]
        parts = [(keys, values)] if kept or not own else []
        parts += [(k, v)] if own else []
        all_k, all_v = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        scores = all_k @ q[:, :, None] / scale(all_k, all_v)
        return (scores.softmax(axis) * all_v).sum(1)

    return wrong


def _by_input_width(x, w_q, w_k, w_v, keys, values):
    return step_with_cache(x, w_q * math.sqrt(w_q.size(0) / x.size(-1)), w_k, w_v, keys, values)


def _times_root(x, w_q, w_k, w_v, keys, values):
    return step_with_cache(x, w_q * w_q.size(0), w_k, w_v, keys, values)


def _scaled_late(x, w_q, w_k, w_v, keys, values):
    root = math.sqrt(w_q.size(0))
    return step_with_cache(x, w_q * root, w_k, w_v, keys, values) / root


def _no_softmax(x, w_q, w_k, w_v, keys, values):
    keys = torch.cat([keys, (x @ w_k.T)[:, None]], 1)
    values = torch.cat([values, (x @ w_v.T)[:, None]], 1)
    scores = keys @ (x @ w_q.T)[:, :, None] / math.sqrt(keys.size(-1))
    return (scores * values).sum(1)


def _texts_mixed(x, w_q, w_k, w_v, keys, values):
    keys = torch.cat([keys, (x @ w_k.T)[:, None]], 1).flatten(0, 1)
    values = torch.cat([values, (x @ w_v.T)[:, None]], 1).flatten(0, 1)
    scores = (x @ w_q.T) @ keys.T / math.sqrt(keys.size(-1))
    return scores.softmax(-1) @ values


def _first_only(x, w_q, w_k, w_v, keys, values):
    keys = torch.cat([keys, (x @ w_k.T)[:, None]], 1)
    values = torch.cat([values, (x @ w_v.T)[:, None]], 1)
    # is_causal puts the one query at the first key
    out = F.scaled_dot_product_attention((x @ w_q.T)[:, None], keys, values, is_causal=True)
    return out[:, 0]


def _swapped(x, w_q, w_k, w_v, keys, values):
    return step_with_cache(x, w_k, w_q, w_v, keys, values)


def _in_front(shift):
    def wrong(x, w_q, w_k, w_v, keys, values):
        k, v = (x @ w_k.T)[:, None], (x @ w_v.T)[:, None]
        keys = torch.cat([keys, k], 1)
        values = torch.cat([v, values] if shift else [values, v], 1)
        scores = keys @ (x @ w_q.T)[:, :, None] / math.sqrt(keys.size(-1))
        return (scores.softmax(1) * values).sum(1)

    return wrong


def _newest_dropped(x, w_q, w_k, w_v, keys, values):
    keys = torch.cat([keys, (x @ w_k.T)[:, None]], 1)[:, 1:]
    values = torch.cat([values, (x @ w_v.T)[:, None]], 1)[:, 1:]
    if not keys.size(1):
        return x @ w_v.T * 0
    scores = keys @ (x @ w_q.T)[:, :, None] / math.sqrt(keys.size(-1))
    return (scores.softmax(1) * values).sum(1)


STEP = Question(
    name="decoders.step",
    target="step_with_cache",
    points=2,
    cases=_step_cases,
    reference=step_with_cache,
    mistakes={
        "own-missing": (
            _step(own=False),
            "The new token reads those before it and not itself. Its own key and value join the"
            " kept ones before it asks.",
        ),
        "own-alone": (
            _step(kept=False),
            "The new token reads itself alone, so nothing that was kept has an effect.",
        ),
        "first-only": (
            _first_only,
            "The new token reads the *first* key alone. A causal mask that is aligned at the first"
            " key does that to a single query. The newest token may read all: is a mask needed?",
        ),
        "no-scale": (
            _step(scale=lambda keys, values: 1),
            "The scores are not divided by the root of the width of a key.",
        ),
        "by-width": (
            _step(scale=lambda keys, values: keys.size(-1)),
            "The scores are divided by the width of a key, and not by its root.",
        ),
        "by-input-width": (
            _by_input_width,
            "The divisor is taken from the width of the stream. A score is a sum over the width of"
            " a *key*, and grows with that.",
        ),
        "times-root": (
            _times_root,
            "You multiply by the root where the scores are to be divided by it.",
        ),
        "scaled-late": (
            _scaled_late,
            "What comes out is divided by the root. It belongs to the scores, before the softmax.",
        ),
        "no-softmax": (
            _no_softmax,
            "The scores themselves weigh the values. They are to become shares first, which add up"
            " to one over the tokens.",
        ),
        "lone-axis": (
            _step(axis=2),
            "Every token is read in full: the values are added up. A softmax along an axis of size"
            " one gives ones. Along which axis do your tokens stand?",
        ),
        "texts-mixed": (
            _texts_mixed,
            "Right for one text. In a batch each new token reads the tokens of all texts. Which"
            " product keeps the batch apart?",
        ),
        "by-tokens": (
            _step(scale=lambda keys, values: math.sqrt(keys.size(1))),
            "The divisor depends on how many tokens are kept. It belongs to the width of a key,"
            " which is the same for a short text and a long one.",
        ),
        "by-value-width": (
            _step(scale=lambda keys, values: math.sqrt(values.size(-1))),
            "The divisor is taken from the values. Scores are products of queries and keys.",
        ),
        "wrong-axis": (
            _step(axis=0),
            "The shares add up to one over the *texts* of the batch. They are shared out among the"
            " tokens of each text.",
        ),
        "swapped": (
            _swapped,
            "The new token asks with its key and is found by its query. Which of the maps makes"
            " what it looks for?",
        ),
        "misaligned": (
            _in_front(True),
            "The keys stand in one order and the values in another: the new value is in front, the"
            " new key behind.",
        ),
        "window": (
            _newest_dropped,
            "The oldest token is gone as soon as a new one comes. Nothing here asks for that: all"
            " that was kept may be read.",
        ),
        "evenly": (
            _step(scale=lambda keys, values: math.inf),
            "All tokens are read alike, whatever they hold. Where do the scores get lost?",
        ),
    },
    alternatives={
        "torch": lambda x, w_q, w_k, w_v, keys, values: F.scaled_dot_product_attention(
            (x @ w_q.T)[:, None],
            torch.cat([keys, (x @ w_k.T)[:, None]], 1),
            torch.cat([values, (x @ w_v.T)[:, None]], 1),
        )[:, 0],
        "two-sums": lambda x, w_q, w_k, w_v, keys, values: _two_sums(
            x, w_q, w_k, w_v, keys, values
        ),
        "text-by-text": lambda x, w_q, w_k, w_v, keys, values: torch.stack(
            [
                F.softmax(torch.cat([k, (w_k @ t)[None]]) @ (w_q @ t) / w_q.size(0) ** 0.5, 0)
                @ torch.cat([v, (w_v @ t)[None]])
                for t, k, v in zip(x, keys, values, strict=True)
            ]
        ),
    },
)


def _two_sums(x, w_q, w_k, w_v, keys, values):
    q = F.linear(x, w_q) * w_q.size(0) ** -0.5
    old = torch.einsum("bnk,bk->bn", keys, q)
    new = (F.linear(x, w_k) * q).sum(-1, keepdim=True)
    shares = torch.cat([new, old], 1).softmax(1)
    return shares[:, :1] * F.linear(x, w_v) + torch.einsum("bn,bnv->bv", shares[:, 1:], values)


# decoders.reuse


def reusable(ids, kept):
    pairs = zip(ids[:-1], kept, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _reuse_cases(seed):
    draw = Draw(seed)
    a, b, c, d = (draw.between(10 * i, 10 * i + 9) for i in range(1, 5))

    def case(label, ids, kept):
        return Case(label, {"ids": ids, "kept": kept})

    return [
        case("a shared beginning", (a, b, c, d, a), (a, b, d, c, a)),
        case("the text goes on", (a, b, c, d, b, a), (a, b, c)),
        case("the same text again", (a, b, c, d), (a, b, c, d)),
        case("a text that was read further", (a, b, c), (a, b, c, d, a)),
        case("nothing in common", (a, b, c), (d, a, b, c)),
        case("only the first differs", (a, b, c, d), (b, b, c, d)),
        case("agreement again behind a difference", (a, b, c, d, a, b), (a, c, c, d, a, b)),
        case("the last but one differs", (a, b, c, d, a), (a, b, c, a, a)),
        case("only the last differs", (a, b, c, d), (a, b, c, a)),
        case("one token, read before", (a,), (a, b)),
        case("one token, not read before", (c,), (a,)),
        case("an empty cache", (a, b, c), ()),
        case("a token twice", (a, a, b, a, a, c), (a, a, b, a, c)),
    ]


def _common(ids, kept):
    at = 0
    while at < min(len(ids), len(kept)) and ids[at] == kept[at]:
        at += 1
    return at


def _later(ids, kept):
    pairs = zip(reversed(ids), reversed(kept), strict=False)
    return min(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), len(ids) - 1)


def _whole_or(found):
    """Right, except where the cache holds the whole text: there what ``found`` gives."""

    def wrong(ids, kept):
        common = _common(ids, kept)
        return common if common < len(ids) else found(ids, kept)

    return wrong


def _last_compared(ids, kept):
    for at, (mine, theirs) in enumerate(zip(ids, kept, strict=False)):
        if mine != theirs:
            return at
    return min(len(ids), len(kept)) - 1


def _longest_run(ids, kept):
    starts = itertools.product(range(len(ids)), range(len(kept)))
    longest = max((_common(ids[i:], kept[j:]) for i, j in starts), default=0)
    return min(longest, len(ids) - 1)


_NO_DIFFERENCE = (
    "Right where a difference is found. Where there is none and the text goes on behind the cache,"
    " your count stops at the place compared last, and that one agreed as well."
)


REUSE = Question(
    name="decoders.reuse",
    target="reusable",
    points=1,
    cases=_reuse_cases,
    reference=reusable,
    mistakes={
        "all-of-it": (
            _common,
            "Right but where the whole text was read before. If nothing is read anew, where do the"
            " scores for the next token come from?",
        ),
        "nothing-of-a-whole": (
            _whole_or(lambda ids, kept: 0),
            "Right but where the whole text was read before. One token has to be read again for its"
            " scores. Does that make the others worthless?",
        ),
        "same-text-alone": (
            _whole_or(lambda ids, kept: len(ids) - (ids == kept)),
            "Right but where the cache has read further than the text. There too the whole text is"
            " kept, and nothing would be left to read.",
        ),
        "cache-longer": (
            lambda ids, kept: reusable(ids, kept) if len(kept) < len(ids) else 0,
            "You use nothing of a cache that is as long as the text or longer. Its end can be"
            " thrown away, and its beginning serves.",
        ),
        "last-compared": (lambda ids, kept: max(_last_compared(ids, kept), 0), _NO_DIFFERENCE),
        "last-compared-or-below": (
            _last_compared,
            both(_NO_DIFFERENCE, "And of an empty cache less than nothing can serve."),
        ),
        "to-be-read": (
            lambda ids, kept: len(ids) - reusable(ids, kept),
            "That is how many tokens are still to be read. Asked is how many need not be.",
        ),
        "thrown-away": (
            lambda ids, kept: len(kept) - reusable(ids, kept),
            "That is how many tokens of the cache are thrown away. Asked is how many can serve.",
        ),
        "longest-run": (
            _longest_run,
            "You look for the longest piece that both share, wherever it stands. A key depends on"
            " all that stands before it: only a beginning can serve.",
        ),
        "equal-places": (
            lambda ids, kept: min(
                sum(a == b for a, b in zip(ids, kept, strict=False)), len(ids) - 1
            ),
            "You count agreements behind a difference as well. A key there was made by a text in"
            " which something earlier was different.",
        ),
        "shared-tokens": (
            lambda ids, kept: min(len(set(ids) & set(kept)), len(ids) - 1),
            "You compare which tokens occur, and not where. A token in another place, behind other"
            " tokens, has another key.",
        ),
        "all-or-nothing": (
            lambda ids, kept: len(kept) if ids[: len(kept)] == kept and len(kept) < len(ids) else 0,
            "You reuse the cache whole or not at all. Its beginning may serve where its end does"
            " not: what stands behind has no effect on it.",
        ),
        "one-less": (
            lambda ids, kept: max(_common(ids, kept) - 1, 0),
            "One too few where texts differ, or where the cache ends first. A token has to be read"
            " anew only if the whole text was read before.",
        ),
        "one-more": (
            lambda ids, kept: min(_common(ids, kept) + 1, len(ids) - 1),
            "You reuse a token too many: the first that differs, or one that was never read.",
        ),
        "from-the-end": (
            _later,
            "You compare from the end. What two texts share at the end was read behind different"
            " beginnings.",
        ),
        "length-alone": (
            lambda ids, kept: min(len(kept), len(ids) - 1),
            "You go by the lengths. Have you looked whether the tokens agree?",
        ),
    },
    alternatives={
        "while": lambda ids, kept: min(_common(ids, kept), len(ids) - 1),
        "by-slices": lambda ids, kept: max(n for n in range(len(ids)) if ids[:n] == kept[:n]),
    },
)


# decoders.memory


def cache_bytes(tokens, layers, d_model, n_heads, n_kv_heads=None, window=None, itemsize=2):
    kept = tokens if window is None else min(tokens, window)
    d_kv = d_model if n_kv_heads is None else n_kv_heads * d_model // n_heads
    return 2 * layers * kept * d_kv * itemsize


def _memory_cases(seed):
    draw = Draw(seed)
    layers, heads, width = draw.between(3, 7), draw.between(2, 3) * 4, draw.between(5, 9)
    tokens, d = draw.between(100, 400), heads * width

    def case(label, *sizes, **kwargs):
        names = ("tokens", "layers", "d_model", "n_heads")
        return Case(label, dict(zip(names, sizes, strict=True)), kwargs)

    return [
        case("a model of the chapter", 1000, 32, 4096, 32),
        case("the same with shared keys", 1000, 32, 4096, 32, n_kv_heads=8),
        case("other sizes", tokens, layers, d, heads),
        case("one head of keys for all", tokens, layers, d, heads, n_kv_heads=1),
        case("two heads of keys", tokens, layers, d, heads, n_kv_heads=2),
        case("a window that is full", tokens, layers, d, heads, window=64),
        case("a window that is not full yet", tokens, layers, d, heads, window=tokens + 9),
        case("four bytes a number", tokens, layers, d, heads, itemsize=4),
        case("all at once", tokens, layers, d, heads, n_kv_heads=4, window=32, itemsize=1),
        case("nothing read yet", 0, layers, d, heads),
        case("one of each", 1, 1, 1, 1, n_kv_heads=1, itemsize=1),
    ]


def _bytes(change):
    """The right count, changed by what the sizes give."""

    def count(tokens, layers, d_model, n_heads, n_kv_heads=None, window=None, itemsize=2):
        sizes = tokens, layers, d_model, n_heads, n_kv_heads, window, itemsize
        return change(*sizes)

    return count


def _on_meta(tokens, layers, d_model, n_heads, n_kv_heads, window, itemsize):
    kept = min(tokens, window or tokens)
    shape = (2, layers, kept, n_kv_heads or n_heads, d_model // n_heads)
    return torch.empty(shape, dtype=torch.uint8, device="meta").numel() * itemsize


def _head_by_head(tokens, layers, d_model, n_heads, n_kv_heads, window, itemsize):
    one = 2 * (d_model // n_heads) * itemsize
    token = sum(one for _ in range(layers) for _ in range(n_kv_heads or n_heads))
    return token * (tokens if window is None or tokens < window else window)


MEMORY = Question(
    name="decoders.memory",
    target="cache_bytes",
    points=2,
    cases=_memory_cases,
    reference=cache_bytes,
    mistakes={
        "keys-alone": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g, w, b) // 2),
            "Half of what is wanted. A token leaves a key *and* something to be read once the key"
            " is found.",
        ),
        "queries-too": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g, w, b) // 2 * 3),
            "Half as much again as is wanted. Does anybody ask an old question twice?",
        ),
        "one-layer": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, 1, d, h, g, w, b)),
            "You have counted one layer. Each of them has keys of its own.",
        ),
        "one-token": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(1, n, d, h, g, w, b)),
            "That is what one token leaves in the cache. How many of them are kept?",
        ),
        "last-unread": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(max(t - 1, 0), n, d, h, g, w, b)),
            "One token too few. The token written last is not read yet, but the count that is given"
            " is of those that were.",
        ),
        "one-head": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d // h, 1, None, w, b)),
            "You have counted one head. Each head of keys and values has its own.",
        ),
        "scores-kept": (
            _bytes(lambda t, n, d, h, g, w, b: n * h * t * t * b),
            "You have counted scores, one for each pair of tokens. They are made anew; what is kept"
            " is a key and a value for each token.",
        ),
        "bits": (
            _bytes(lambda t, n, d, h, g, w, b: 8 * cache_bytes(t, n, d, h, g, w, b)),
            "That is in bits, eight times as much. Bytes are asked for.",
        ),
        "kib": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g, w, b) // 1024),
            "That is in KiB, of 1024 bytes each. Bytes are asked for.",
        ),
        "never-shared": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, None, w, b)),
            "Right where each query head has its own keys. Where heads share, the narrower keys are"
            " kept once.",
        ),
        "group-size": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g and max(h // g, 1), w, b)),
            "What you have is the size of a group, or the whole width divided by the heads of keys."
            " A head is as wide as a query head; count how many of them are kept.",
        ),
        "none-is-one": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g or 1, w, b)),
            "Right where the number of shared heads is given. Where it is not, each query head has"
            " its own.",
        ),
        "heads-of-full-width": (
            _bytes(lambda t, n, d, h, g, w, b: 2 * n * min(t, w or t) * d * (g or h) * b),
            "You give each head the whole width of the model. Heads divide it among them.",
        ),
        "window-ignored": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g, None, b)),
            "Right where all tokens are kept. With a window the oldest go as new ones come.",
        ),
        "window-always-full": (
            _bytes(
                lambda t, n, d, h, g, w, b: cache_bytes(t if w is None else w, n, d, h, g, None, b)
            ),
            "Right once the window is full. A text that is shorter than the window leaves fewer"
            " tokens.",
        ),
        "numbers": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g, w, 1)),
            "You count numbers. How many bytes each takes is an argument.",
        ),
        "two-bytes": (
            _bytes(lambda t, n, d, h, g, w, b: cache_bytes(t, n, d, h, g, w)),
            "Right for two bytes a number. How many they take is an argument.",
        ),
        "float": (
            _bytes(lambda t, n, d, h, g, w, b: float(cache_bytes(t, n, d, h, g, w, b))),
            "The number is right, its type is not: there is no half byte. Which of the two"
            " divisions keeps whole numbers whole?",
        ),
    },
    alternatives={
        "meta-tensors": _bytes(_on_meta),
        "head-by-head": _bytes(_head_by_head),
    },
)


QUESTIONS = (LOSS, TOP_P, STEP, REUSE, MEMORY)
