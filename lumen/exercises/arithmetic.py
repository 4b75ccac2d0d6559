"""Exercise set *arithmetic*: weights, FLOPs, a cache that fits, a crossover, and the hours.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from operator import floordiv

from lumen.count import DecoderConfig, kv_cache_bytes
from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

_FLOAT = (
    "The number is right, its type is not. Weights, tokens and bytes come in whole numbers, and a"
    " float cannot count beyond 2^53. Where does yours stop being whole?"
)

_DIVIDED = (
    "Right while the numbers are small. A large one is off by one: `/` makes a float of its"
    " quotient, and rounds it before you do. Python has a division that stays among integers."
)


_ROUNDED = (
    "Right while the numbers are small. In a huge one the last digits are gone: somewhere on the"
    " way yours became a float, and `int` at the end does not bring back what that lost."
)


def _changed(reference, change):
    """The right answer, with something done to it."""
    return lambda *args, **kwargs: change(reference(*args, **kwargs))


# arithmetic.weights


def llama_params(d, layers, vocab, d_ff, n_heads, n_kv_heads, tied=False):
    d_kv = n_kv_heads * (d // n_heads)
    block = 2 * d * (d + d_kv) + 3 * d * d_ff + 2 * d
    tables = vocab * d * (1 if tied else 2)
    return layers * block + tables + d


def _sizes(draw, shared=2, groups=3):
    """A width that its heads divide, and the heads."""
    d_head = 2 * draw.between(5, 9)
    return {
        "d": groups * shared * d_head,
        "n_heads": groups * shared,
        "n_kv_heads": groups,
    }


def _weights_cases(seed):
    draw = Draw(seed)

    def case(label, d, layers, vocab, d_ff, n_heads, n_kv_heads, **kwargs):
        names = ("d", "layers", "vocab", "d_ff", "n_heads", "n_kv_heads")
        values = (d, layers, vocab, d_ff, n_heads, n_kv_heads)
        return Case(label, dict(zip(names, values, strict=True)), kwargs)

    def drawn(label, shared, groups, **kwargs):
        rest = {
            "layers": draw.between(3, 40),
            "vocab": draw.between(500, 900),
            "d_ff": draw.between(300, 400),
        }
        return case(label, **_sizes(draw, shared, groups), **rest, **kwargs)

    return [
        case("Llama 2, the smallest", 4096, 32, 32_000, 11_008, 32, 32),
        case("Llama 3, the smallest", 4096, 32, 128_256, 14_336, 32, 8),
        case("Llama 3.2, the smallest", 2048, 16, 128_256, 8192, 32, 8, tied=True),
        drawn("keys shared by two", 2, 3),
        drawn("keys shared by five, untied in so many words", 5, 2, tied=False),
        drawn("one head of keys for all", 4, 1),
        drawn("a tied head", 3, 2, tied=True),
        drawn("nothing shared, tied", 1, 4, tied=True),
        case("one block, one head", 6, 1, 11, 7, 1, 1),
        case("wider than anybody builds", 30_000_006, 301, 999_983, 90_000_001, 6, 3),
    ]


def _weighed(
    matrices=3,
    norms=2,
    final=1,
    tables=None,
    offsets=0,
    keys=None,
    blocks=None,
    maps=(2, 2),
    inside=lambda d, d_ff: d_ff,
):
    """The count, with some of its choices replaced; maps are those of full width, and the rest."""

    def wrong(d, layers, vocab, d_ff, n_heads, n_kv_heads, tied=False):
        heads = keys(n_heads, n_kv_heads) if keys else n_kv_heads
        d_kv, d_ff = heads * d // n_heads, inside(d, d_ff)
        block = d * (maps[0] * d + maps[1] * d_kv) + matrices * d * d_ff + norms * d
        block += offsets * (3 * d + 2 * d_kv + 2 * d_ff)
        times = tables(tied) if tables else 1 if tied else 2
        return (blocks(layers) if blocks else layers) * block + times * vocab * d + final * d

    return wrong


def _from_rule(d, layers, vocab, d_ff, n_heads, n_kv_heads, tied=False):
    return 12 * layers * d**2 + vocab * d * (1 if tied else 2)


def _layer_by_layer(d, layers, vocab, d_ff, n_heads, n_kv_heads, tied=False):
    total = vocab * d + d
    if not tied:
        total += d * vocab
    d_kv = d * n_kv_heads // n_heads
    for _ in range(layers):
        total += sum((d * d, d * d_kv, d * d_kv, d * d))
        total += sum((d * d_ff, d * d_ff, d_ff * d)) + d + d
    return total


def _configured(d, layers, vocab, d_ff, n_heads, n_kv_heads, tied=False):
    sizes = {"n_kv_heads": n_kv_heads, "d_ff": d_ff, "tied": tied}
    kind = {"positions": "none", "norm": "rms", "mlp": "swiglu", "bias": False}
    return DecoderConfig(vocab, d, layers, n_heads, **sizes, **kind).parameters()


WEIGHTS = Question(
    name="arithmetic.weights",
    target="llama_params",
    points=3,
    cases=_weights_cases,
    reference=llama_params,
    mistakes={
        "two-matrices": (
            _weighed(matrices=2),
            "Too small, the more so the wider the MLP. How many matrices does a gated one have?",
        ),
        "four-matrices": (
            _weighed(matrices=4),
            "Too large, the more so the wider the MLP. Count its matrices again: in, gate, and?",
        ),
        "never-shared": (
            _weighed(keys=lambda h, kv: h),
            "Right where every head has keys of its own, too large where they are shared. Which two"
            " of the four projections get narrower?",
        ),
        "group-size": (
            _weighed(keys=lambda h, kv: h // kv),
            "Read `n_kv_heads` again: it says how many heads of keys there are, not how many heads"
            " of queries share one. The more there are, the wider keys and values get together.",
        ),
        "one-shared": (
            _weighed(keys=lambda h, kv: 1),
            "Right with a single head of keys. Where there are several, keys and values are as wide"
            " as all of them together.",
        ),
        "head-as-wide": (
            _weighed(keys=lambda h, kv: h * kv),
            "Too large. The heads share the width of the model among them: how wide is one?",
        ),
        "keys-shared-only": (
            _weighed(maps=(3, 1)),
            "Right where every head has keys of its own, too large where they are shared. Keys are"
            " narrower in yours; with whom do they go in pairs?",
        ),
        "output-shared": (
            _weighed(maps=(1, 3)),
            "Right where every head has keys of its own, too small where they are shared. You make"
            " three projections narrower: which of them does not read keys or values?",
        ),
        "all-shared": (
            _weighed(maps=(0, 4)),
            "Right where every head has keys of its own, too small where they are shared. Queries"
            " are not shared, and what the heads have read is put side by side again.",
        ),
        "no-output": (
            _weighed(maps=(1, 2)),
            "Too small by a square in each block. What the heads have read is put side by side:"
            " what does it go through next?",
        ),
        "four-d": (
            _weighed(inside=lambda d, d_ff: 4 * d),
            "Right where the MLP is four times as wide as the model. An argument of yours says how"
            " wide it is here.",
        ),
        "tie-ignored": (
            _weighed(tables=lambda tied: 2),
            "Right for untied models. A tied head is no tensor of its own.",
        ),
        "always-tied": (
            _weighed(tables=lambda tied: 1),
            "Right for tied models. Untied, the vocabulary has two tables: one is looked up, and"
            " the other?",
        ),
        "tie-turned": (
            _weighed(tables=lambda tied: 2 if tied else 1),
            "You have the two cases of the tie the wrong way round. Which of them shares a tensor?",
        ),
        "no-tables": (
            _weighed(tables=lambda tied: 0),
            "You count the blocks. The vocabulary is missing altogether.",
        ),
        "no-final-norm": (
            _weighed(final=0),
            "Right but for one small tensor. What stands between the last block and the head?",
        ),
        "no-norms": (
            _weighed(norms=0, final=0),
            "All matrices are there. Each block has two small tensors besides, and one more stands"
            " behind the last block.",
        ),
        "no-norms-in-blocks": (
            _weighed(norms=0),
            "All matrices are there, and the last norm. Has a block none?",
        ),
        "one-norm": (
            _weighed(norms=1),
            "A little too small, by the same amount in each block. How many norms has a block?",
        ),
        "layer-norms": (
            _weighed(norms=4, final=2),
            "A little too large, in each block and at the end. An RMSNorm has gains, no offsets.",
        ),
        "layer-norms-in-blocks": (
            _weighed(norms=4),
            "A little too large in each block. An RMSNorm has gains and no offsets.",
        ),
        "final-in-each-block": (
            _weighed(norms=3, final=0),
            "A little too large, the more so the deeper the model. Which norm is there only once?",
        ),
        "offsets": (
            _weighed(offsets=1),
            "You give every projection an offset. This family has none.",
        ),
        "one-block": (
            _weighed(blocks=lambda layers: 1),
            "Right for a model of one block. How many are there?",
        ),
        "rule": (
            _from_rule,
            "That is the rule for plain blocks. Here the MLP has a width of its own and a gate,"
            " and keys may be shared: go through the matrices of a block one by one.",
        ),
        "rounded": (_changed(llama_params, lambda n: int(float(n))), _ROUNDED),
        "float": (_changed(llama_params, float), _FLOAT),
    },
    alternatives={"layer-by-layer": _layer_by_layer, "configuration": _configured},
)


# arithmetic.flops


def token_flops(params, looked_up, d, layers, context, training=False):
    forward = 2 * (params - looked_up) + 4 * context * d * layers
    return 3 * forward if training else forward


def _flops_cases(seed):
    draw = Draw(seed)

    def case(label, params, looked_up, d, layers, context, **kwargs):
        names = ("params", "looked_up", "d", "layers", "context")
        values = (params, looked_up, d, layers, context)
        return Case(label, dict(zip(names, values, strict=True)), kwargs)

    def drawn(label, context=None, looked_up=None, **kwargs):
        lost = draw.between(1000, 5000) if looked_up is None else looked_up
        n = draw.between(10, 900) if context is None else context
        return case(
            label,
            draw.between(10_000, 90_000),
            lost,
            draw.between(20, 60),
            draw.between(5, 19),
            n,
            **kwargs,
        )

    return [
        case("GPT-2, no context", 124_318_464, 786_432, 768, 12, 0),
        case("GPT-2, full context", 124_318_464, 786_432, 768, 12, 1024),
        case("an untied model of 7 billion", 6_738_149_376, 131_072_000, 4096, 32, 4096),
        drawn("a tied model without positions", looked_up=0),
        drawn("a model with tables"),
        drawn("one that reads one token", context=1, training=False),
        drawn("training, no context", context=0, training=True),
        drawn("training, with a context", training=True),
        drawn("training, nothing looked up", looked_up=0, training=True),
        case("more weights than a float can count", 10**17 + 1, 10**9, 10**5, 999, 131_071),
    ]


def _priced(
    weight=2,
    pair=4,
    lost=lambda x: x,
    deep=lambda x: x,
    times=3,
    both=True,
    power=1,
    reads=lambda n: n,
):
    def wrong(params, looked_up, d, layers, context, training=False):
        matrices = weight * (params - lost(looked_up))
        mixing = pair * reads(context) ** power * d * deep(layers)
        if training:
            return times * matrices + (times if both else 1) * mixing
        return matrices + mixing

    return wrong


def _whole_text(params, looked_up, d, layers, context, training=False):
    return context * token_flops(params, looked_up, d, layers, context, training)


def _always_training(params, looked_up, d, layers, context, training=False):
    return token_flops(params, looked_up, d, layers, context, training=True)


def _summed(params, looked_up, d, layers, context, training=False):
    passes = ("forward", "input", "weight") if training else ("forward",)
    total = 0
    for _ in passes:
        total += 2 * params
        total -= looked_up * 2
        total += sum(2 * context * d + 2 * d * context for _ in range(layers))
    return total


def _factored(params, looked_up, d, layers, context, training=False):
    half = params - looked_up + 2 * d * layers * context
    return (6 if training else 2) * half


FLOPS = Question(
    name="arithmetic.flops",
    target="token_flops",
    points=2,
    cases=_flops_cases,
    reference=token_flops,
    mistakes={
        "tables-multiplied": (
            _priced(lost=lambda x: 0),
            "Right where nothing is only looked up. What does reading a row of a table multiply?",
        ),
        "tables-added": (
            _priced(lost=lambda x: -x),
            "Too much, and right where nothing is only looked up. These weights are among those you"
            " were given: are they to be added once more?",
        ),
        "rule-of-thumb": (
            _priced(lost=lambda x: 0, pair=0),
            "That is the short rule, so many FLOPs for each weight there is. Two things are wrong"
            " with it: not every weight multiplies, and reading a context costs something too.",
        ),
        "one-a-weight": (
            _priced(weight=1),
            "The context's part is right, that of the weights is half of it. Each weight takes part"
            " in a multiplication, and in what else?",
        ),
        "all-halved": (
            _priced(weight=1, pair=2),
            "Half of everything. You count multiplications; an addition is a FLOP as well.",
        ),
        "scores-only": (
            _priced(pair=2),
            "Right without a context. A token scores every key: what does it do with every value?",
        ),
        "no-context": (
            _priced(pair=0),
            "Right without a context. Scoring and mixing have no weights, and still cost.",
        ),
        "one-layer": (
            _priced(deep=lambda x: 1),
            "Right without a context. In how many blocks is it read?",
        ),
        "all-pairs": (
            _priced(power=2),
            "Right without a context, far too much with one. The square of the context is what all"
            " its tokens cost together; asked for is one.",
        ),
        "whole-text": (
            _whole_text,
            "Far too much, but for a token that reads itself alone. That is the bill of a whole"
            " text; asked for is one token of it.",
        ),
        "itself-again": (
            _priced(reads=lambda n: n + 1),
            "Too much by what one more token costs to read. The token itself is among those that"
            " `context` counts.",
        ),
        "itself-left-out": (
            _priced(reads=lambda n: n - 1),
            "Too little by what one token costs to read. A token reads itself as well.",
        ),
        "eight-a-pair": (
            _priced(pair=8),
            "Right without a context, and twice too much for it. A score takes a multiplication"
            " and an addition for each of the d numbers of a key; so does mixing. Together?",
        ),
        "training-doubled": (
            _priced(times=2),
            "Forward is right. The way back alone costs two products for each one forward, and the"
            " way forward has to be gone as well.",
        ),
        "training-four": (
            _priced(times=4),
            "Forward is right. Training is too much: how many products has the way back for each"
            " one of the way forward?",
        ),
        "training-weights-only": (
            _priced(both=False),
            "Right in training without a context. Scoring and mixing are gone through on the way"
            " back too.",
        ),
        "never-training": (
            _priced(times=1),
            "Right on the way forward. There is an argument that your answer does not look at.",
        ),
        "always-training": (
            _always_training,
            "Right in training. Without it there is no way back.",
        ),
        "rounded": (_changed(token_flops, lambda n: int(float(n))), _ROUNDED),
        "float": (_changed(token_flops, float), _FLOAT),
    },
    alternatives={"summed": _summed, "factored": _factored},
)


# arithmetic.room


def tokens_that_fit(memory, params, layers, n_kv_heads, d_head, texts=1, itemsize=2):
    left = memory - params * itemsize
    if left < 0:
        raise ValueError("the weights alone need more memory")
    return left // (2 * layers * n_kv_heads * d_head * itemsize * texts)


def _room_cases(seed):
    draw = Draw(seed)

    def case(label, memory, params, layers, n_kv_heads, d_head, **kwargs):
        names = ("memory", "params", "layers", "n_kv_heads", "d_head")
        values = (memory, params, layers, n_kv_heads, d_head)
        return Case(label, dict(zip(names, values, strict=True)), kwargs)

    def drawn(label, tokens, over=0, **kwargs):
        params = draw.between(5000, 9000)
        layers, heads, d_head = draw.between(3, 6), draw.between(2, 5), draw.between(7, 11)
        size, texts = kwargs.get("itemsize", 2), kwargs.get("texts", 1)
        token = 2 * layers * heads * d_head * size * texts
        memory = params * size + tokens * token + over
        return case(label, memory, params, layers, heads, d_head, **kwargs)

    return [
        case("Llama 3 of 8 billion in 80 GB", 80 * 10**9, 8_030_261_248, 32, 8, 128),
        case("the same, for 32 texts", 80 * 10**9, 8_030_261_248, 32, 8, 128, texts=32),
        case("the same, in single bytes", 80 * 10**9, 8_030_261_248, 32, 8, 128, itemsize=1),
        drawn("tokens that fit exactly", draw.between(40, 90)),
        drawn("a byte too little for one more", draw.between(40, 90), over=-1),
        drawn("several texts, in four bytes", draw.between(40, 90), 5, texts=3, itemsize=4),
        drawn("several texts", draw.between(400, 900), 3, texts=draw.between(4, 7)),
        drawn("two bytes, said", draw.between(40, 90), 1, itemsize=2, texts=1),
        drawn("one head of keys", 1, 1),
        drawn("a huge memory, a byte too little for one more", 10**17, over=-1),
        drawn("memory for the weights only", 0),
        drawn("memory for less than the weights", 0, over=-1),
        drawn("memory for far less, in four bytes", 0, over=-4000, itemsize=4),
    ]


def _stored(
    kv=2,
    weights=lambda params, size: params * size,
    size=None,
    texts=None,
    guard=True,
    divided=floordiv,
    once=lambda texts: 1,
    deep=lambda layers: layers,
    heads=lambda n: n,
):
    def wrong(memory, params, layers, n_kv_heads, d_head, texts_=1, itemsize_=2, **kwargs):
        many = kwargs.get("texts", texts_)
        bytes_ = kwargs.get("itemsize", itemsize_)
        left = memory - once(many) * weights(params, bytes_)
        if guard and memory < params * bytes_:
            raise ValueError("the weights do not fit")
        token = kv * deep(layers) * heads(n_kv_heads) * d_head * (size or bytes_)
        return divided(left, token * (texts or many))

    return wrong


def _all_texts(memory, params, layers, n_kv_heads, d_head, texts=1, itemsize=2):
    return texts * tokens_that_fit(memory, params, layers, n_kv_heads, d_head, 1, itemsize)


def _begun(memory, params, layers, n_kv_heads, d_head, texts=1, itemsize=2):
    fit = tokens_that_fit(memory, params, layers, n_kv_heads, d_head, texts, itemsize)
    token = 2 * layers * n_kv_heads * d_head * itemsize * texts
    return fit if memory == params * itemsize + fit * token else fit + 1


def _zero_for_none(*args, **kwargs):
    try:
        return tokens_that_fit(*args, **kwargs)
    except ValueError:
        return 0


def _refuses_full(memory, params, layers, n_kv_heads, d_head, texts=1, itemsize=2):
    if memory <= params * itemsize:
        raise ValueError("no room")
    return tokens_that_fit(memory, params, layers, n_kv_heads, d_head, texts, itemsize)


def _halving(memory, params, layers, n_kv_heads, d_head, texts=1, itemsize=2):
    if memory < params * itemsize:
        raise ValueError("the weights do not fit")
    token = kv_cache_bytes(
        1,
        layers=layers,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        batch=texts,
        bytes_per_value=itemsize,
    )
    low, high = 0, memory + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = params * itemsize + middle * token <= memory
        low, high = (middle, high) if fits else (low, middle)
    return low


def _in_numbers(memory, params, layers, n_kv_heads, d_head, texts=1, itemsize=2):
    numbers = Fraction(memory, itemsize) - params
    if numbers < 0:
        raise ValueError(f"{params} weights do not fit into {memory} bytes")
    return int(numbers / (layers * texts * (d_head * n_kv_heads + n_kv_heads * d_head)))


ROOM = Question(
    name="arithmetic.room",
    target="tokens_that_fit",
    points=2,
    cases=_room_cases,
    reference=tokens_that_fit,
    mistakes={
        "keys-only": (
            _stored(kv=1),
            "Twice too many. A token leaves a key behind, and what else?",
        ),
        "weights-forgotten": (
            _stored(weights=lambda params, size: 0),
            "Too many: your cache lies where the weights are. What is left beside them?",
        ),
        "weights-in-bytes": (
            _stored(weights=lambda params, size: params),
            "Right in single bytes. Else the weights take more room than you give them: their"
            " number is one thing, their bytes another.",
        ),
        "cache-in-numbers": (
            _stored(size=1),
            "Right in single bytes. You divide bytes by numbers: how many bytes has a number of the"
            " cache?",
        ),
        "two-bytes": (
            _stored(size=2),
            "Right in two bytes a number. There is an argument that says how many they are.",
        ),
        "texts-forgotten": (
            _stored(texts=1),
            "Right for one text. Each text has a cache of its own, and the memory is one.",
        ),
        "texts-multiplied": (
            _all_texts,
            "Right for one text. More texts in the same memory: does each of them get longer?",
        ),
        "weights-for-each": (
            _stored(once=lambda texts: texts),
            "Right for one text. Each has a cache of its own; how often are the weights there?",
        ),
        "one-block": (
            _stored(deep=lambda layers: 1),
            "Far too many. A token leaves something behind in more than one place: in how many?",
        ),
        "one-head": (
            _stored(heads=lambda n: 1),
            "Right with one head of keys, too many where there are several: each of them keeps its"
            " own.",
        ),
        "rounded-up": (
            _begun,
            "One too many, unless the tokens fit exactly. A token whose cache is not all there"
            " cannot be read.",
        ),
        "unguarded": (
            _stored(guard=False),
            "Less room than the weights need leaves a negative number of tokens. That is no answer:"
            " refuse it.",
        ),
        "zero-for-none": (
            _zero_for_none,
            "Where not even the weights fit, nothing runs at all. The caller should be told so, by"
            " a ValueError, and not by a number.",
        ),
        "refuses-full": (
            _refuses_full,
            "You refuse a memory that holds the weights and not a byte more. They fit: for how many"
            " tokens is there room then?",
        ),
        "true-division": (_stored(divided=lambda a, b: int(a / b)), _DIVIDED),
        "float": (_changed(tokens_that_fit, float), _FLOAT),
    },
    alternatives={"halving": _halving, "in-numbers": _in_numbers},
)


# arithmetic.crossing


def even_context(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
    d_kv = n_kv_heads * (d // n_heads)
    matrices = 2 * d * (d + d_kv) + (3 if gated else 2) * d * d_ff
    return -(-2 * matrices // ((2 if causal else 4) * d))


def _crossing_cases(seed):
    draw = Draw(seed)

    def case(label, d, d_ff, n_heads, n_kv_heads, **kwargs):
        names = ("d", "d_ff", "n_heads", "n_kv_heads")
        return Case(label, dict(zip(names, (d, d_ff, n_heads, n_kv_heads), strict=True)), kwargs)

    def drawn(label, shared, groups, odd=0, **kwargs):
        d_ff = 2 * draw.between(150, 300) + odd
        return case(label, **_sizes(draw, shared, groups), d_ff=d_ff, **kwargs)

    return [
        case("a plain block of width 768", 768, 3072, 12, 12),
        case("the same, averaged over a causal text", 768, 3072, 12, 12, causal=True),
        case("Llama 3, the smallest", 4096, 14_336, 32, 8, gated=True),
        drawn("keys shared by three", 3, 2),
        drawn("keys shared by two, gated, in a causal text", 2, 3, gated=True, causal=True),
        drawn("one head of keys, not causal in so many words", 4, 1, causal=False, gated=False),
        drawn("gated and odd, so that nothing is even", 1, 3, odd=1, gated=True),
        drawn("odd and causal", 5, 2, odd=1, gated=True, causal=True),
        case("one head of one number", 1, 4, 1, 1, gated=True),
    ]


def _crossed(
    attention=1, mlp=1, pair=4, causal_pair=2, keys=None, gate=3, plain=2, up=True, wide=None
):
    def wrong(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
        heads = keys(n_heads, n_kv_heads) if keys else n_kv_heads
        matrices = attention * 2 * d * (d + heads * d // n_heads)
        matrices += mlp * (gate if gated else plain) * d * (wide(d) if wide else d_ff)
        per_key = (causal_pair if causal else pair) * d
        return -(-2 * matrices // per_key) if up else 2 * matrices // per_key

    return wrong


def _narrow_scores(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
    d_kv = n_kv_heads * (d // n_heads)
    matrices = 2 * d * (d + d_kv) + (3 if gated else 2) * d * d_ff
    return -(-2 * matrices // ((2 if causal else 4) * d_kv))


def _doubled_late(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
    return even_context(d, d_ff, n_heads, n_kv_heads, gated) * (2 if causal else 1)


def _one_more(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
    d_kv = n_kv_heads * (d // n_heads)
    matrices = 2 * d * (d + d_kv) + (3 if gated else 2) * d * d_ff
    return 2 * matrices // ((2 if causal else 4) * d) + 1


def _searched(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
    d_kv = d * n_kv_heads // n_heads
    fixed = 4 * d * d + 4 * d * d_kv + (6 if gated else 4) * d * d_ff
    low, high = 0, 1
    while (2 if causal else 4) * high * d < fixed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        reached = (2 if causal else 4) * middle * d >= fixed
        low, high = (low, middle) if reached else (middle, high)
    return high


def _exact(d, d_ff, n_heads, n_kv_heads, gated=False, causal=False):
    widths = 2 * d + 2 * Fraction(d * n_kv_heads, n_heads) + (3 if gated else 2) * d_ff
    return ceil(widths if causal else widths / 2)


CROSSING = Question(
    name="arithmetic.crossing",
    target="even_context",
    points=2,
    cases=_crossing_cases,
    reference=even_context,
    mistakes={
        "six-d": (
            lambda d, d_ff, n_heads, n_kv_heads, gated=False, causal=False: (
                (12 if causal else 6) * d
            ),
            "Right for plain blocks. Here the MLP has a width of its own, may be gated, and keys"
            " may be shared: what do the matrices of this block cost?",
        ),
        "mlp-only": (
            _crossed(attention=0),
            "Too early. That is where the MLP alone is reached; the projections are matrices of the"
            " block as well.",
        ),
        "projections-only": (
            _crossed(mlp=0),
            "Far too early. That is where the projections are reached; the MLP is missing.",
        ),
        "whole-attention": (
            _crossed(attention=-1),
            "Too early. That is where all of attention, projections included, costs what the MLP"
            " does. Asked is for scoring and mixing against all matrices, those included.",
        ),
        "shared-scores": (
            _narrow_scores,
            "Right where every head has keys of its own. Shared keys are fewer, but every head of"
            " queries still scores each token and mixes its value: how many products is that?",
        ),
        "four-d": (
            _crossed(wide=lambda d: 4 * d),
            "Right where the MLP is four times as wide as the model. An argument says how wide it"
            " is here.",
        ),
        "scores-only": (
            _crossed(pair=2, causal_pair=1),
            "Twice too late. A token does two things with every token it reads; you count one.",
        ),
        "causal-ignored": (
            _crossed(causal_pair=4),
            "Right for one token. Over a causal text the average token reads half of it.",
        ),
        "causal-turned": (
            _crossed(causal_pair=8),
            "Over a causal text the average token reads half of it, so it has to be a longer text,"
            " and not a shorter one.",
        ),
        "always-causal": (
            _crossed(pair=2),
            "Right over a causal text. Else the token in question reads all of its context.",
        ),
        "doubled-late": (
            _doubled_late,
            "Right but for some odd widths, where you double a number that was rounded up already."
            " Round once, at the end.",
        ),
        "always-gated": (
            _crossed(plain=3),
            "Right with a gate. Without one the MLP has a matrix less.",
        ),
        "gate-turned": (
            _crossed(gate=2, plain=3),
            "You have the two cases of the gate the wrong way round. Which of them has a matrix"
            " more?",
        ),
        "gate-ignored": (
            _crossed(gate=2),
            "Right without a gate. With it the MLP has one matrix more.",
        ),
        "never-shared": (
            _crossed(keys=lambda h, kv: h),
            "Right where every head has keys of its own. Shared keys make two projections cheaper.",
        ),
        "group-size": (
            _crossed(keys=lambda h, kv: h // kv),
            "Read `n_kv_heads` again: it says how many heads of keys there are, not how many heads"
            " of queries share one.",
        ),
        "rounded-down": (
            _crossed(up=False),
            "Right where it comes out even. Where it does not, your context is a token short.",
        ),
        "one-more": (
            _one_more,
            "Right where it does not come out even. Where it does, your context is a token too"
            " long.",
        ),
        "per-weight": (
            _crossed(pair=8, causal_pair=4),
            "Half of what it should be. A weight costs two FLOPs; you count one.",
        ),
        "float": (_changed(even_context, float), _FLOAT),
    },
    alternatives={"searched": _searched, "exact": _exact},
)


# arithmetic.hours


def training_hours(params, tokens, devices, speed, percent=40):
    work = 6 * params * tokens * 100
    return -(-work // (devices * speed * percent * 3600))


def _hours_cases(seed):
    draw = Draw(seed)

    def case(label, params, tokens, devices, speed, **kwargs):
        names = ("params", "tokens", "devices", "speed")
        return Case(label, dict(zip(names, (params, tokens, devices, speed), strict=True)), kwargs)

    def drawn(label, **kwargs):
        return case(
            label,
            draw.between(10**6, 10**7),
            draw.between(10**8, 10**9),
            draw.between(2, 5),
            draw.between(10**6, 10**7),
            **kwargs,
        )

    return [
        case("GPT-2 on one machine", 123_532_032, 10**10, 1, 312 * 10**12),
        case("70 billion weights", 70 * 10**9, 15 * 10**12, 16_384, 989 * 10**12),
        case("a run of hours that come out even", 600, 10**6, 1, 500, percent=50),
        case("a run of one hour, begun", 1, 1, 1, 10**6, percent=50),
        case("one token more than come out even", 600, 10**18 + 1, 1, 2 * 10**15, percent=50),
        drawn("a slow machine"),
        drawn("a slow machine, half used", percent=50),
        drawn("a slow machine, all used", percent=100),
        drawn("a slow machine, hardly used", percent=draw.between(3, 9)),
    ]


def _timed(flops=6, percent=lambda p: p, hour=3600, many=lambda n: n, up=True, hundred=100):
    def wrong(params, tokens, devices, speed, percent_=40, **kwargs):
        used = percent(kwargs.get("percent", percent_))
        work = flops * params * tokens * hundred
        by = many(devices) * speed * used * hour
        return -(-work // by) if up else work // by

    return wrong


def _wrong_way(params, tokens, devices, speed, percent=40):
    return -(-6 * params * tokens * percent // (100 * devices * speed * 3600))


def _nearest_hour(params, tokens, devices, speed, percent=40):
    return round(Fraction(600 * params * tokens, devices * speed * percent * 3600))


def _one_hour_more(params, tokens, devices, speed, percent=40):
    return 600 * params * tokens // (devices * speed * percent * 3600) + 1


def _device_hours(params, tokens, devices, speed, percent=40):
    return devices * training_hours(params, tokens, devices, speed, percent)


def _begun_hour(params, tokens, devices, speed, percent=40):
    hours, rest = divmod(600 * params * tokens, 3600 * percent * speed * devices)
    return hours + 1 if rest else hours


def _fraction_of_hours(params, tokens, devices, speed, percent=40):
    seconds = Fraction(6 * params * tokens, devices * speed) / Fraction(percent, 100)
    return ceil(seconds / 3600)


HOURS = Question(
    name="arithmetic.hours",
    target="training_hours",
    points=1,
    cases=_hours_cases,
    reference=training_hours,
    mistakes={
        "forward-only": (
            _timed(flops=2),
            "A third of the time. That is the way forward; training goes back as well.",
        ),
        "one-a-weight": (
            _timed(flops=3),
            "Half of the time. A weight takes part in a multiplication and in an addition.",
        ),
        "back-only": (
            _timed(flops=4),
            "Two thirds of the time. That is the way back; to get there it went forward first.",
        ),
        "peak": (
            _timed(percent=lambda p: 100),
            "Right for a machine that is always at its best. Only a share of that is used.",
        ),
        "fixed-share": (
            _timed(percent=lambda p: 40),
            "Right for the usual share. An argument of yours is never looked at.",
        ),
        "share-turned": (
            _wrong_way,
            "A machine that is used less should need longer. Yours needs less time.",
        ),
        "per-cent": (
            _timed(hundred=1),
            "A hundred times too short: 40 per cent are not 40.",
        ),
        "one-machine": (
            _timed(many=lambda n: 1),
            "Right for one machine. Several of them share the work, and are done sooner.",
        ),
        "slower-together": (
            _timed(many=lambda n: Fraction(1, n)),
            "Right for one machine. With more of them yours takes longer; it should take less.",
        ),
        "device-hours": (
            _device_hours,
            "Right for one machine. You add up the hours of all of them, but they run side by side:"
            " for how long do you book them?",
        ),
        "minutes": (
            _timed(hour=60),
            "Sixty times too long. What you count are minutes, and asked for are hours.",
        ),
        "seconds": (
            _timed(hour=1),
            "Far too long. What you count are seconds, as a FLOP/s is one FLOP in each. Asked for"
            " are hours.",
        ),
        "rounded-down": (
            _timed(up=False),
            "An hour short, unless it comes out even. An hour that has begun is asked for as well.",
        ),
        "nearest": (
            _nearest_hour,
            "Right for some runs, an hour short for others: you round to the nearest. An hour that"
            " has begun is booked, however little of it is used.",
        ),
        "one-more": (
            _one_hour_more,
            "Right but where it comes out even. There no further hour has begun.",
        ),
        "true-division": (
            lambda params, tokens, devices, speed, percent=40: ceil(
                600 * params * tokens / (devices * speed * percent * 3600)
            ),
            _DIVIDED,
        ),
        "float": (_changed(training_hours, float), _FLOAT),
    },
    alternatives={"begun": _begun_hour, "fraction": _fraction_of_hours},
)


QUESTIONS = (WEIGHTS, FLOPS, ROOM, CROSSING, HOURS)
