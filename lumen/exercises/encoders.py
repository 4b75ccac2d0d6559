"""Exercise set *encoders*: what is seen and asked, its price, two ways to one vector, and a count.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64
NOT_ASKED = -100


# encoders.hide


def mlm_input(ids, choose, die, others, mask_id, first_word, share=0.15):
    seen, targets = [], []
    for at, token in enumerate(ids):
        asked = token >= first_word and choose[at] < share
        shown = mask_id if die[at] < 0.8 else token if die[at] < 0.9 else others[at]
        seen.append(shown if asked else token)
        targets.append(token if asked else NOT_ASKED)
    return torch.tensor([seen, targets])


def _shares(draw, n):
    return [draw.between(0, 99) / 100 for _ in range(n)]


def _hide_cases(seed):
    draw = Draw(seed)

    def case(label, n, mask_id=3, first_word=4, choose=None, die=None, padded=0, **kwargs):
        words = [draw.between(first_word, 60) for _ in range(n - padded)]
        inputs = {
            "ids": tuple(words + [0] * padded),
            "choose": choose or tuple(_shares(draw, n)),
            "die": die or tuple(_shares(draw, n)),
            "others": tuple(draw.between(61, 90) for _ in range(n)),
            "mask_id": mask_id,
            "first_word": first_word,
        }
        return Case(label, inputs, kwargs)

    every = tuple([0.0] * 6)
    throws = (0.0, 0.3, 0.79, 0.8, 0.9, 0.99)
    framed = case("the first and the last token are no words", 6, choose=every, die=throws)
    ids = (1, *framed.args["ids"][1:-1], 2)
    framed.args["ids"] = ids
    edge = (0.05, 0.14, 0.15, 0.16, 0.3, 0.9)
    kept = tuple([0.85] * 5)
    small = case("the smallest word is a word", 4, choose=every[:4], die=throws[:4])
    small.args["ids"] = (4, 5, 3, 4)
    return [
        case("a long text", 80),
        case("a long text, one half asked", 60, share=0.5),
        case("all are asked, every throw of the die", 6, choose=every, die=throws),
        case("throws on the edges", 6, choose=every, die=(0.8, 0.9, 0.79, 0.89, 0.81, 0.91)),
        case("lots on the edge of the share", 6, choose=edge, die=(0.1,) * 6),
        case("all are asked and all stay", 5, choose=(0.0,) * 5, die=kept),
        case("none is asked", 5, choose=(0.9,) * 5),
        case("a share of one", 12, share=1.0),
        case("padding at the end", 30, padded=12, share=0.9),
        case("other numbers for the marks", 40, mask_id=103, first_word=10, share=0.6),
        case("a text of one word", 1, choose=(0.1,), die=(0.5,)),
        framed,
        small,
    ]


def _hide(
    asks=lambda token, lot, share, first: token >= first and lot < share,
    become=lambda token, throw, other, mask: (
        mask if throw < 0.8 else other if throw >= 0.9 else token
    ),
    target=lambda asked, token, seen: token if asked else NOT_ASKED,
    always=False,
):
    """The input of masked language modelling, with some of its choices replaced."""

    def wrong(ids, choose, die, others, mask_id, first_word, share=0.15):
        seen, targets = [], []
        for token, lot, throw, other in zip(ids, choose, die, others, strict=True):
            asked = asks(token, lot, share, first_word)
            now = become(token, throw, other, mask_id) if asked or always else token
            seen.append(now)
            targets.append(target(asked, token, now))
        return torch.tensor([seen, targets])

    return wrong


def _by_tensors(ids, choose, die, others, mask_id, first_word, share=0.15):
    token = torch.tensor(ids)
    lot, throw = torch.tensor([choose, die], dtype=F64)
    asked = (token >= first_word) & (lot < share)
    seen = torch.where(asked & (throw >= 0.9), torch.tensor(others), token)
    seen = seen.masked_fill(asked & (throw < 0.8), mask_id)
    return torch.stack([seen, token.masked_fill(~asked, NOT_ASKED)])


def _by_places(ids, choose, die, others, mask_id, first_word, share=0.15):
    seen, targets = list(ids), [NOT_ASKED] * len(ids)
    for at in range(len(ids)):
        if ids[at] < first_word or choose[at] >= share:
            continue
        targets[at] = ids[at]
        if die[at] < 0.8:
            seen[at] = mask_id
        if die[at] >= 0.9:
            seen[at] = others[at]
    return torch.tensor([seen, targets])


def _only_masked(ids, choose, die, others, mask_id, first_word, share=0.15):
    seen, targets = mlm_input(ids, choose, die, others, mask_id, first_word, share)
    return torch.stack([seen, targets.masked_fill(seen != mask_id, NOT_ASKED)])


_KEPT = (
    "What the model sees is right. It is asked too little: a chosen word that happens to look as"
    " before is still chosen."
)
_EDGE = (
    "Right but for a throw that falls exactly on an edge of the die. Which side does the edge"
    " belong to?"
)
_IGNORED = (
    "You ask for the right words. Where nothing is asked stands a number that torch's cross-entropy"
    " does not ignore."
)
_MARKS = "Padding and the marks at both ends are no words. Whether a token may be chosen depends on"

HIDE = Question(
    name="encoders.hide",
    target="mlm_input",
    points=3,
    cases=_hide_cases,
    reference=mlm_input,
    mistakes={
        "only-changed": (
            _hide(target=lambda asked, token, seen: token if token != seen else NOT_ASKED),
            _KEPT,
        ),
        # the most common form in public code: only [MASK] is asked for
        "only-masked": (
            _only_masked,
            "What the model sees is right. You ask for one of three kinds of chosen words: the loss"
            " looks at all of them.",
        ),
        "asked-everywhere": (
            _hide(target=lambda asked, token, seen: token),
            "What the model sees is right. You ask it for every token, and most of them it can"
            " read off.",
        ),
        "targets-seen": (
            _hide(target=lambda asked, token, seen: seen if asked else NOT_ASKED),
            "You ask in the right places, for what the model was shown. It is to say what stood"
            " there.",
        ),
        "always-masked": (
            _hide(become=lambda token, throw, other, mask: mask),
            "The right words are asked for, and all of them are covered. What is the die for?",
        ),
        "never-other": (
            _hide(become=lambda token, throw, other, mask: mask if throw < 0.8 else token),
            "Two of the three outcomes of the die are there. One argument of yours is never used.",
        ),
        "never-kept": (
            _hide(become=lambda token, throw, other, mask: mask if throw < 0.8 else other),
            "Two of the three outcomes of the die are there. In a tenth of the cases nothing"
            " happens to a chosen word.",
        ),
        "other-before-kept": (
            _hide(
                become=lambda token, throw, other, mask: (
                    mask if throw < 0.8 else other if throw < 0.9 else token
                )
            ),
            "The three outcomes have the right shares, and the last two stand in each other's"
            " place on the die.",
        ),
        "ninety": (
            _hide(
                become=lambda token, throw, other, mask: (
                    mask if throw < 0.9 else other if throw >= 0.95 else token
                )
            ),
            "The three outcomes are there, with other shares than asked: look at the two edges.",
        ),
        "edge-of-covering": (
            _hide(
                become=lambda token, throw, other, mask: (
                    mask if throw <= 0.8 else other if throw >= 0.9 else token
                )
            ),
            _EDGE,
        ),
        "edge-of-keeping": (
            _hide(
                become=lambda token, throw, other, mask: (
                    mask if throw < 0.8 else other if throw > 0.9 else token
                )
            ),
            _EDGE,
        ),
        "shares-of-all": (
            lambda ids, choose, die, others, mask_id, first_word, share=0.15: _hide(
                become=lambda token, throw, other, mask: (
                    mask if throw < 0.8 * share else other if throw >= 0.9 * share else token
                )
            )(ids, choose, die, others, mask_id, first_word, share),
            "The right words are asked for. Your edges of the die are shares of all words; it is"
            " thrown for chosen ones only.",
        ),
        "one-lot": (
            lambda ids, choose, die, others, mask_id, first_word, share=0.15: mlm_input(
                ids, choose, [lot / share for lot in choose], others, mask_id, first_word, share
            ),
            "The right words are asked for. What becomes of them you read off the lot that chose"
            " them; there is a throw for that.",
        ),
        "minus-one": (
            _hide(target=lambda asked, token, seen: token if asked else -1),
            _IGNORED,
        ),
        "zero": (_hide(target=lambda asked, token, seen: token if asked else 0), _IGNORED),
        "die-for-all": (
            _hide(always=True),
            "Words that were not chosen change too. The die is thrown for the chosen ones only.",
        ),
        "marks-too": (
            _hide(asks=lambda token, lot, share, first: lot < share),
            _MARKS + " its number too.",
        ),
        "padding-only": (
            _hide(asks=lambda token, lot, share, first: token > 0 and lot < share),
            _MARKS + " one more thing than being zero.",
        ),
        "first-left-out": (
            _hide(asks=lambda token, lot, share, first: token > first and lot < share),
            "One word is never chosen, the one with the smallest number of all.",
        ),
        "edge": (
            _hide(asks=lambda token, lot, share, first: token >= first and lot <= share),
            "Right but for a lot that falls exactly on the share.",
        ),
        "fixed-share": (
            lambda ids, choose, die, others, mask_id, first_word, share=0.15: mlm_input(
                ids, choose, die, others, mask_id, first_word
            ),
            "Right until somebody asks for another share than the usual one.",
        ),
        "swapped": (
            lambda *args, **kwargs: mlm_input(*args, **kwargs).flip(0),
            "Both rows are right, in the wrong order: first what is seen, then what is asked.",
        ),
    },
    alternatives={"tensors": _by_tensors, "places": _by_places},
)


# encoders.price


def mlm_price(logits, targets):
    places = [at for at, word in enumerate(targets) if word != NOT_ASKED]
    if not places:
        raise ValueError("no word is asked for")
    words = [targets[at] for at in places]
    return -logits.log_softmax(1)[places, words].mean()


def _price_cases(seed):
    draw = Draw(seed)

    def case(label, n, vocabulary, asked, dtype=F32, size=1.0):
        targets = [NOT_ASKED] * n
        for at in asked:
            targets[at] = draw.between(0, vocabulary - 1)
        inputs = {
            "logits": size * draw.normal(n, vocabulary, dtype=dtype),
            "targets": tuple(targets),
        }
        return Case(label, inputs, upstream=draw.normal(dtype=dtype))

    n = draw.between(6, 9)
    first = case("the word numbered 0 is asked for", 4, 5, (1, 2))
    first.args["targets"] = (NOT_ASKED, 0, 3, NOT_ASKED)
    equal = case("equal logits, in float64", 3, 7, (0, 1, 2), F64, 0.0)
    return [
        case("two words of a text", n, 6, (1, 4)),
        case("one word of a text", n + 1, 5, (2,)),
        case("every word", 4, 8, range(4)),
        case("the last word only, in float64", n, 4, (n - 1,), F64),
        case("logits of ±1000", 5, 6, (0, 2, 3), F32, 1000.0),
        case("small logits, in float64", n + 2, 9, (0, 3, 5), F64, 1e-3),
        case("as many words as places", 5, 5, (1, 2, 4), F64),
        case("a text of one word", 1, 3, (0,)),
        case("nothing is asked", 4, 4, ()),
        first,
        equal,
    ]


def _price(rows):
    """The price of the asked words, by a rule for their log-probabilities."""

    def wrong(logits, targets):
        asked = [(at, word) for at, word in enumerate(targets) if word != NOT_ASKED]
        if not asked:
            raise ValueError("nothing is asked")
        return rows(logits, asked)

    return wrong


def _picked(logits, asked):
    log = logits.log_softmax(-1)
    return torch.stack([log[at, word] for at, word in asked])


def _without_guard(logits, asked):
    e = logits.exp()
    shares = e / e.sum(-1, keepdim=True)
    return -torch.stack([shares[at, word].log() for at, word in asked]).mean()


def _softmax_then_log(logits, asked):
    shares = logits.softmax(-1)
    return -torch.stack([shares[at, word].log() for at, word in asked]).mean()


def _unrefused(logits, targets):
    return F.cross_entropy(logits, torch.tensor(targets))


def _zero_if_none(logits, targets):
    return mlm_price(logits, targets) if max(targets) >= 0 else logits.sum() * 0


def _last_counts(logits, targets):
    words = torch.tensor(targets)
    if (words < 0).all():
        raise ValueError("nothing is asked")
    log = logits.log_softmax(-1)
    return -log.gather(-1, words.clamp(min=0)[:, None]).mean()


def _squares(logits, asked):
    rows = logits.softmax(-1)[[at for at, _ in asked]]
    wanted = F.one_hot(torch.tensor([word for _, word in asked]), logits.size(-1))
    return (rows - wanted).square().sum(-1).mean()


def _by_torch(logits, targets):
    if all(word == NOT_ASKED for word in targets):
        raise ValueError("nothing is asked")
    return F.cross_entropy(logits, torch.tensor(targets), ignore_index=NOT_ASKED)


_ONE = "For each place you take the right number. "

PRICE = Question(
    name="encoders.price",
    target="mlm_price",
    points=2,
    cases=_price_cases,
    reference=mlm_price,
    mistakes={
        "over-all-places": (
            lambda logits, targets: (
                mlm_price(logits, targets) * sum(word >= 0 for word in targets) / len(targets)
            ),
            "The price falls when words are added that nobody is asked for. By how many do you"
            " divide?",
        ),
        "sum": (_price(lambda *a: -_picked(*a).sum()), _ONE + "Wanted is the price of *a* guess."),
        "sign": (
            _price(lambda *a: _picked(*a).mean()),
            "A price is not negative. A good guess costs little.",
        ),
        "bits": (
            _price(lambda *a: -_picked(*a).mean() / torch.log(torch.tensor(2.0, dtype=F64)).item()),
            "You pay in bits, and are asked for nats: which logarithm is that?",
        ),
        "no-softmax": (
            _price(lambda logits, asked: -torch.stack([logits[i, w] for i, w in asked]).mean()),
            "You take the logits as they are. A price is of a probability, and these add up to one"
            " over the vocabulary.",
        ),
        "softmax-twice": (
            _price(lambda logits, asked: -_picked(logits.softmax(-1), asked).mean()),
            "However sure and right a guess is, your price stays well above zero: logits are made"
            " into shares, and the shares once more.",
        ),
        "log-base-ten": (
            _price(
                lambda *a: -_picked(*a).mean() / torch.log(torch.tensor(10.0, dtype=F64)).item()
            ),
            "Your price is too low by the same factor everywhere: which logarithm do nats take?",
        ),
        "perplexity": (
            _price(lambda *a: (-_picked(*a).mean()).exp()),
            "A perfect guess costs one in your answer. The price is one step before that.",
        ),
        "over-vocabulary": (
            _price(lambda logits, asked: -_picked(logits, asked).mean() / logits.size(-1)),
            "The larger the vocabulary, the cheaper your guesses. Over what do you take the mean?",
        ),
        "bounded": (
            _price(
                lambda logits, asked: (
                    -torch.stack(
                        [logits.softmax(-1)[at, word].clamp(min=1e-12).log() for at, word in asked]
                    ).mean()
                )
            ),
            "Right for small logits. A floor under the share keeps the price finite, and false: at"
            " large logits it is to grow with them. In what form does the share never appear?",
        ),
        "probability": (
            _price(lambda *a: -_picked(*a).exp().mean()),
            "You add up probabilities. A certain guess must cost nothing, and one that has no"
            " chance without limit.",
        ),
        "log-of-mean": (
            _price(lambda *a: -_picked(*a).exp().mean().log()),
            "You take the logarithm of a mean. Each guess is paid by itself, then the prices are"
            " averaged.",
        ),
        "overflow": (
            _price(_without_guard),
            "Right for small logits. Large ones overflow when they are exponentiated, and infinity"
            " by infinity is no number. Only differences of logits count.",
        ),
        "underflow": (
            _price(_softmax_then_log),
            "Right for small logits. At large ones a share becomes exactly zero, and its logarithm"
            " infinite, though the price is finite. In what form does the share never appear?",
        ),
        "over-places": (
            _price(
                lambda logits, asked: (
                    -torch.stack([logits.log_softmax(0)[i, w] for i, w in asked]).mean()
                )
            ),
            "Your shares add up to one over the places of the text. They are to do so over the"
            " vocabulary.",
        ),
        "marks-priced": (
            _last_counts,
            "Places where nothing is asked have a price in your answer.",
        ),
        "squares": (
            _price(_squares),
            "That is the squared error. It pushes hardly at all where the guess is surely wrong.",
        ),
        "zero-left-out": (
            lambda logits, targets: _price(lambda *a: -_picked(*a).mean())(
                logits, [word if word > 0 else NOT_ASKED for word in targets]
            ),
            "Right until a word has the number 0. That is a number like any other; only one value"
            " says that nothing is asked.",
        ),
        "not-a-number": (
            _unrefused,
            "Right where anything is asked. Where nothing is, your mean is over nothing and is no"
            " number: refuse, with a ValueError.",
        ),
        "zero-if-none": (
            _zero_if_none,
            "Right where anything is asked. Where nothing is, zero would pass for a perfect model:"
            " refuse, with a ValueError.",
        ),
    },
    alternatives={
        "torch": _by_torch,
        "one-by-one": _price(
            lambda logits, asked: (
                sum(logits[at].logsumexp(0) - logits[at, word] for at, word in asked) / len(asked)
            )
        ),
        "gathered": _price(lambda *a: -_picked(*a).mean()),
    },
)


# encoders.pool


def text_vector(states, mask):
    total = (states * mask[..., None]).sum(1)
    return total / mask.sum(1, keepdim=True).clamp(min=1)


def _pool_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(4, 6), draw.between(3, 5)

    def case(label, shape, lengths, dtype=F32, size=1.0):
        batch, places, _ = shape
        mask = torch.arange(places) < torch.tensor(lengths)[:, None]
        inputs = {"states": size * draw.normal(*shape, dtype=dtype) + size, "mask": mask}
        return Case(label, inputs, upstream=draw.normal(batch, shape[-1], dtype=dtype))

    holes = case("padding on the left and between, in float64", (3, n + 1, d), (n,) * 3, F64)
    holes.args["mask"] = draw.mask(3, n + 1)
    holes.args["mask"][0, 0] = False
    holes.args["mask"][0, -1] = True
    silent = case("a token whose state is zero", (2, n, d), (n, n - 1))
    silent.args["states"][0, 1] = 0.0
    return [
        case("texts of different lengths", (3, n, d), (n, 2, n - 1)),
        case("texts without padding", (2, n, d + 1), (n, n)),
        case("a text of one token beside a long one", (2, n + 2, d), (1, n + 2)),
        case("one text", (1, n, d), (n - 1,)),
        case("as many texts as places and numbers", (4, 4, 4), (4, 1, 3, 2), F64),
        case("a text without a token", (3, n, d), (2, 0, n)),
        case("no text has a token, in float64", (2, 3, d), (0, 0), F64),
        case("one place, one number", (2, 1, 1), (1, 1)),
        case("small numbers, in float64", (2, n, d), (2, n), F64, 1e-6),
        case("large numbers", (2, n, d + 2), (3, n), F32, 1e4),
        holes,
        silent,
    ]


def _pool(
    kept=lambda mask: mask,
    by=lambda mask, states: mask.sum(1, keepdim=True).clamp(min=1),
):
    def wrong(states, mask):
        total = (states * kept(mask)[..., None]).sum(1)
        return total / by(mask, states)

    return wrong


def _each_text(states, mask):
    vectors = []
    for text, real in zip(states, mask, strict=True):
        tokens = text[real]
        vectors.append(tokens.mean(0) if len(tokens) else text.sum(0) * 0)
    return torch.stack(vectors)


def _product(states, mask):
    shares = mask.to(states.dtype)
    shares = shares / shares.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("btd,bt->bd", states, shares)


def _masked(states, mask):
    total = states.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=-2)
    return total / torch.count_nonzero(mask, dim=1).clamp_min(1).unsqueeze(1)


_DIVISOR = "What you add up is right. A text's vector becomes shorter, though, "

POOL = Question(
    name="encoders.pool",
    target="text_vector",
    points=2,
    cases=_pool_cases,
    reference=text_vector,
    mistakes={
        # the mean over all places, padding included
        "padding-in": (
            lambda states, mask: states.mean(1) + 0 * mask.sum(),
            "A text has another vector beside a longer one: what fills it up is averaged in.",
        ),
        "by-places": (
            _pool(by=lambda mask, states: states.size(1)),
            _DIVISOR + "the more it is filled up. By how many do you divide?",
        ),
        "by-longest": (
            _pool(by=lambda mask, states: mask.sum(1).max().clamp(min=1)),
            _DIVISOR + "the longer its neighbours are. Each text has its own number of tokens.",
        ),
        "padding-in-the-sum": (
            _pool(kept=torch.ones_like),
            "You divide by the right number. What fills the texts up is in the sum all the same.",
        ),
        "from-the-front": (
            lambda states, mask: text_vector(
                states, torch.arange(mask.size(1)) < mask.sum(1, keepdim=True)
            ),
            "Right as long as padding stands behind the text. Here it may stand in front, or"
            " between; the mask says where, and not only how much.",
        ),
        "without-the-first": (
            lambda states, mask: text_vector(states[:, 1:], mask[:, 1:]),
            "You leave the first token out. [CLS] is a token of the text like any other.",
        ),
        "guard-for-all": (
            _pool(by=lambda mask, states: mask.sum(1, keepdim=True) + 1e-6),
            "Nearly right everywhere. What keeps the division safe for a text without a token is"
            " added for all others too.",
        ),
        "sum": (
            _pool(by=lambda mask, states: 1),
            "Padding has no say. But a long text gets a long vector: the mean is wanted, not the"
            " sum.",
        ),
        "inverted": (
            _pool(kept=lambda mask: ~mask, by=lambda m, s: (~m).sum(1, keepdim=True).clamp(min=1)),
            "You average what fills the texts up and leave the tokens out. In a mask of this book,"
            " what does True say?",
        ),
        "zeros-left-out": (
            _pool(
                by=lambda mask, states: (
                    (mask & (states != 0).any(-1)).sum(1, keepdim=True).clamp(min=1)
                )
            ),
            "Right until a token's state is zero. It is a token all the same; the mask says which"
            " are.",
        ),
        "not-a-number": (
            _pool(by=lambda mask, states: mask.sum(1, keepdim=True)),
            "Right, but for a text without a token, where you divide by zero.",
        ),
        "one-more": (
            _pool(by=lambda mask, states: mask.sum(1, keepdim=True) + 1),
            "Every vector is too short, and that of a text of one token by half. Something keeps"
            " the division safe at everybody's cost.",
        ),
        "first-token": (
            lambda states, mask: states[:, 0] + 0 * mask.sum(),
            "You take the state of the first token. Here every token has a say.",
        ),
        "over-batch": (
            lambda states, mask: (
                (states * mask[..., None]).sum((0, 1)) / mask.sum().clamp(min=1)
            ).expand(states.size(0), -1),
            "All texts get the same vector: you average over the batch as well.",
        ),
        "largest": (
            lambda states, mask: torch.where(
                mask.any(1, keepdim=True),
                states.masked_fill(~mask[..., None], -torch.inf).amax(1),
                0 * states.sum(1),
            ),
            "You take the largest number of each channel. Asked for is the mean.",
        ),
        "unit": (
            lambda states, mask: F.normalize(text_vector(states, mask)),
            "Your vectors have length one. That comes later, when two are compared.",
        ),
    },
    alternatives={"each-text": _each_text, "einsum": _product, "masked": _masked},
)


# encoders.head


def class_logits(states, pooler, classifier):
    pooled = (states[:, 0] @ pooler[:, :-1].T + pooler[:, -1]).tanh()
    return pooled @ classifier[:, :-1].T + classifier[:, -1]


def _head_cases(seed):
    draw = Draw(seed)

    def case(label, shape, classes, dtype=F32, size=1.0):
        d = shape[-1]
        inputs = {
            "states": size * draw.normal(*shape, dtype=dtype),
            "pooler": draw.normal(d, d + 1, dtype=dtype),
            "classifier": draw.normal(classes, d + 1, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(shape[0], classes, dtype=dtype))

    n, d = draw.between(3, 5), draw.between(4, 6)
    return [
        case("a batch of texts", (3, n, d), 3),
        case("one text", (1, n, d), 2),
        case("texts of one token", (2, 1, d), 3),
        case("one class", (2, n, d), 1),
        case("width one, in float64", (3, 2, 1), 2, F64),
        case("as many texts, tokens, numbers and classes", (4, 4, 4), 4, F64),
        case("large states, in float64", (2, n, d + 3), 5, F64, 30.0),
        case("small states", (2, n + 1, d + 2), 4, F32, 1e-2),
    ]


def _dense(x, weights):
    return F.linear(x, weights[:, :-1], weights[:, -1])


def _head(
    take=lambda states: states[:, 0],
    between=torch.tanh,
    end=lambda logits: logits,
    pool=_dense,
):
    return lambda states, pooler, classifier: end(
        _dense(between(pool(take(states), pooler)), classifier)
    )


_BEND = "The pooler bends by another function. Look at (16.4)."

HEAD = Question(
    name="encoders.head",
    target="class_logits",
    points=1,
    cases=_head_cases,
    reference=class_logits,
    mistakes={
        "no-pooler": (
            lambda states, pooler, classifier: _dense(states[:, 0], classifier) + 0 * pooler[0, 0],
            "One dense layer is missing: two stand between the first token and the logits.",
        ),
        "no-tanh": (
            _head(between=lambda x: x),
            "Two dense layers with nothing between them are one. What bends stands in between?",
        ),
        "tanh-last": (
            _head(between=lambda x: x, end=torch.tanh),
            "Your logits all lie between −1 and 1. The bend is at another place.",
        ),
        "tanh-twice": (
            _head(end=torch.tanh),
            "Right up to the last step. Logits may be as large as they like.",
        ),
        "tanh-first": (
            _head(take=lambda states: states[:, 0].tanh(), between=lambda x: x),
            "You bend the state itself. The pooler is a dense layer first.",
        ),
        "relu": (
            _head(between=torch.relu),
            _BEND,
        ),
        "gelu": (_head(between=F.gelu), _BEND),
        "sigmoid": (_head(between=torch.sigmoid), _BEND),
        "last-token": (
            _head(take=lambda states: states[:, -1]),
            "You read the last token of the text. [CLS] stands elsewhere.",
        ),
        "mean": (
            _head(take=lambda states: states.mean(1)),
            "You average the tokens. This head reads one of them.",
        ),
        "shares": (
            _head(end=lambda logits: logits.softmax(-1)),
            "You return probabilities. Asked for are the logits they are made of.",
        ),
        "log-shares": (
            _head(end=lambda logits: logits.log_softmax(-1)),
            "You return logarithms of probabilities. Asked for are the logits, before any softmax.",
        ),
        "pooler-transposed": (
            _head(pool=lambda x, w: x @ w[:, :-1] + w[:, -1]),
            "The shapes fit, because the pooler is square. Its rows make outputs, as in every dense"
            " layer of this book.",
        ),
        "no-offset": (
            _head(pool=lambda x, w: x @ w[:, :-1].T + 0 * w[:, -1]),
            "The last column of the pooler is not used. What stands in it?",
        ),
        "no-offset-at-the-end": (
            lambda states, pooler, classifier: (
                class_logits(states, pooler, classifier) - classifier[:, -1]
            ),
            "The last column of the classifier is not used. What stands in it?",
        ),
        "no-offsets": (
            lambda states, pooler, classifier: (
                _head(pool=lambda x, w: x @ w[:, :-1].T + 0 * w[:, -1])(states, pooler, classifier)
                - classifier[:, -1]
            ),
            "Neither of the two last columns is used. What stands in them?",
        ),
        "late-offset": (
            lambda states, pooler, classifier: _dense(
                (states[:, 0] @ pooler[:, :-1].T).tanh() + pooler[:, -1], classifier
            ),
            "The pooler's offset comes too late: it goes through the bend with the rest.",
        ),
        "mean-of-pooled": (
            lambda states, pooler, classifier: _dense(
                _dense(states, pooler).tanh().mean(1), classifier
            ),
            "You let all tokens through the pooler and average. This head reads one of them.",
        ),
    },
    alternatives={
        "dense": _head(),
        "ones": lambda states, pooler, classifier: (
            F.pad((F.pad(states[:, 0], (0, 1), value=1.0) @ pooler.T).tanh(), (0, 1), value=1.0)
            @ classifier.T
        ),
        "einsum": lambda states, pooler, classifier: (
            torch.einsum(
                "bd,cd->bc",
                torch.tanh(torch.einsum("bd,ed->be", states[:, 0], pooler[:, :-1]) + pooler[:, -1]),
                classifier[:, :-1],
            )
            + classifier[:, -1]
        ),
    },
)


# encoders.count


def bert_params(vocab, d, layers, positions=512, types=2, pooler=True):
    tables = (vocab + positions + types + 2) * d
    block = 12 * d * d + 13 * d
    return tables + layers * block + pooler * (d * d + d)


def _count_cases(seed):
    draw = Draw(seed)
    d = 4 * draw.between(2, 9)

    def case(label, vocab, d, layers, **kwargs):
        return Case(label, {"vocab": vocab, "d": d, "layers": layers}, kwargs)

    return [
        case("BERT-large", 30_522, 1024, 24),
        case("MiniLM", 30_522, 384, 6),
        case("a small one", draw.between(20, 90), d, 2),
        case("one layer", draw.between(20, 90), d, 1),
        case("no layer", draw.between(20, 90), d, 0),
        case("width one", draw.between(20, 90), 1, 3),
        case("no pooler", draw.between(20, 90), d + 4, 3, pooler=False),
        case("other positions", draw.between(20, 90), d, 2, positions=draw.between(8, 64)),
        case("one type", draw.between(20, 90), d, 4, types=1),
        case("three types, no pooler", 50, d, 5, types=3, pooler=False, positions=16),
    ]


def _off(change):
    """The count, off by what is given."""

    def wrong(vocab, d, layers, positions=512, types=2, pooler=True):
        right = bert_params(vocab, d, layers, positions, types, pooler)
        return right + change(vocab, d, layers, positions, types, pooler)

    return wrong


def _on_meta(vocab, d, layers, positions=512, types=2, pooler=True):
    def dense(out, into):
        return out * into + out

    total = sum(rows * d for rows in (vocab, positions, types)) + 2 * d
    for _ in range(layers):
        total += 4 * dense(d, d) + dense(4 * d, d) + dense(d, 4 * d) + 2 * 2 * d
    return total + (dense(d, d) if pooler else 0)


def _in_powers(vocab, d, layers, positions=512, types=2, pooler=True):
    squares = 12 * layers + bool(pooler)
    singles = vocab + positions + types + 2 + 13 * layers + bool(pooler)
    return squares * d**2 + singles * d


_FIXED = "Right until somebody asks for another value than the usual one of "

COUNT = Question(
    name="encoders.count",
    target="bert_params",
    points=2,
    cases=_count_cases,
    reference=bert_params,
    mistakes={
        "no-offsets": (
            _off(lambda v, d, layers, *_: -9 * layers * d),
            "Too few in each block, by a multiple of the width: dense layers here have offsets.",
        ),
        "only-squares": (
            _off(lambda v, d, layers, *_: -13 * layers * d),
            "Too few in each block. The rule of thumb counts the matrices; offsets and norms are"
            " weights too.",
        ),
        "no-norms": (
            _off(lambda v, d, layers, *_: -4 * layers * d),
            "Too few in each block, by four times the width. Two norms hold that much, and so do"
            " the offsets of attention. Which did you leave out?",
        ),
        "no-norms-anywhere": (
            _off(lambda v, d, layers, *_: -(4 * layers + 2) * d),
            "Too few, and by what all norms hold together. They have weights too.",
        ),
        "no-offsets-anywhere": (
            _off(
                lambda v, d, layers, p, t, pooler: -(9 * layers + bool(pooler)) * d,
            ),
            "Too few, in each block and in the pooler, by a multiple of the width: dense layers"
            " here have offsets.",
        ),
        "three-matrices": (
            _off(lambda v, d, layers, *_: -layers * (d * d + d)),
            "Too few in each block, by one square dense layer. Queries, keys and values are three;"
            " what happens to what the heads bring back?",
        ),
        "two-small-offsets": (
            _off(lambda v, d, layers, *_: -3 * layers * d),
            "Too few in each block, by a multiple of the width. A dense layer has one offset for"
            " each *output*: how many has the first of the MLP?",
        ),
        "two-large-offsets": (
            _off(lambda v, d, layers, *_: 3 * layers * d),
            "Too many in each block, by a multiple of the width. A dense layer has one offset for"
            " each *output*: how many has the second of the MLP?",
        ),
        "no-mlp-offsets": (
            _off(lambda v, d, layers, *_: -5 * layers * d),
            "Too few in each block, by a multiple of the width. The two layers of its MLP have"
            " offsets too.",
        ),
        "one-norm": (
            _off(lambda v, d, layers, *_: -2 * layers * d),
            "Too few in each block, by one norm: each of its two sums has one.",
        ),
        "norms-without-offset": (
            _off(lambda v, d, layers, *_: -(2 * layers + 1) * d),
            "Every norm is there, with half of its weights. These norms shift as well as scale.",
        ),
        "no-entry-norm": (
            _off(lambda v, d, *_: -2 * d),
            "Off by twice the width, however many layers there are. What happens to the sum of the"
            " three rows?",
        ),
        "final-norm": (
            _off(lambda v, d, *_: 2 * d),
            "Off by twice the width, however many layers there are. Post-norm stacks end in a norm"
            " that is counted with its block already.",
        ),
        "no-types": (
            _off(lambda v, d, layers, positions, types, pooler: -types * d),
            "A table is missing, the smallest of three. Its rows say which text a token is from.",
        ),
        "no-positions": (
            _off(lambda v, d, layers, positions, types, pooler: -positions * d),
            "A table is missing. Its rows are the places that a token can stand at.",
        ),
        "no-pooler": (
            _off(lambda v, d, layers, p, t, pooler: -(d * d + d) if pooler else 0),
            "Right where no pooler is asked for. With one, a whole layer is missing.",
        ),
        "always-pooler": (
            _off(lambda v, d, layers, p, t, pooler: 0 if pooler else d * d + d),
            "Right unless somebody wants no pooler: one of your arguments has no effect.",
        ),
        "pooler-no-offset": (
            _off(lambda v, d, layers, p, t, pooler: -d if pooler else 0),
            "Off by the width where there is a pooler. It is a dense layer like any other.",
        ),
        "head-too": (
            _off(lambda v, d, *_: v * d),
            "You count the token table twice. This encoder has no head, and one that it had would"
            " be tied.",
        ),
        "mlm-head": (
            _off(lambda v, d, *_: d * d + 3 * d + v),
            "You count the head that guesses hidden words. It is not asked for.",
        ),
        "words-only": (
            _off(lambda v, d, layers, positions, types, pooler: -(positions + types) * d),
            "Two of three tables are missing: a token comes in as a sum of three rows.",
        ),
        "fixed-positions": (
            _off(lambda v, d, layers, positions, *_: (512 - positions) * d),
            _FIXED + "positions.",
        ),
        "fixed-types": (
            _off(lambda v, d, layers, positions, types, pooler: (2 - types) * d),
            _FIXED + "types.",
        ),
        "squares-no-pooler": (
            _off(
                lambda v, d, layers, p, t, pooler: -13 * layers * d - (d * d + d if pooler else 0)
            ),
            both(
                "The blocks are counted by the rule of thumb, without offsets and norms.",
                "The pooler is missing.",
            ),
        ),
    },
    alternatives={"layer-by-layer": _on_meta, "powers": _in_powers},
)


QUESTIONS = (HIDE, PRICE, POOL, HEAD, COUNT)
