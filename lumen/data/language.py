"""Language: English-like sentences whose entropy is known exactly.

A grammar throws dice at a few places, and the sentence tells how they fell.
So the surprise in a sentence is that of its dice, and on average no model
can do better, however large. On real text a loss leaves open what is
missing; here the distance to the best possible can be read off.
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from lumen.data.draw import at_least, generator, one_of

GRAMMAR = """
S     = ONE HOW DOES . | MANY HOW DO .
ONE   = THE LIKE CAT | THE LIKE CAT | THE CAT near THE THING
MANY  = THE LIKE CATS | THE LIKE CATS | THE CATS near THE THING
THING = CAT | CATS
THE   = the | the | my | no
LIKE  = | | small | old | hungry | red
CAT   = cat | dog | owl | fox | child | mouse | sailor | goose
CATS  = cats | dogs | owls | foxes | children | mice | sailors | geese
HOW   = | WHEN | WAY | WHEN WAY
WHEN  = often | never | always | seldom
WAY   = quietly | gladly | slowly | badly
DOES  = sings | sleeps | waits | runs | SEES THE THING | SEES THE THING
DO    = sing | sleep | wait | run | SEE THE THING | SEE THE THING
SEES  = sees | hears | follows | helps
SEE   = see | hear | follow | help
"""
LINES = [line.split("=") for line in GRAMMAR.strip().splitlines()]
RULES = {
    name.strip(): [tuple(way.split()) for way in alternatives.split("|")]
    for name, alternatives in LINES
}
WORDS = tuple(sorted(set(GRAMMAR.split()) - set(RULES) - {"=", "|"}))
VOCABULARY = ("[PAD]", "[CLS]", "[MASK]", *WORDS)
ALPHABET = "".join(sorted(set(" ".join(WORDS))))

SIDES = math.lcm(*map(len, RULES.values()))  # fair to every rule
DICE = 16  # no sentence throws more
CHUNK = 64  # sentences that a text draws at a time


def _pairs(*rules: tuple[str, str]) -> dict[str, str]:
    """Give for each word of a rule its fellow in the other, both ways."""
    pairs = [
        (one[0], many[0])
        for ones, manies in rules
        for one, many in zip(RULES[ones], RULES[manies], strict=True)
        if len(one) == 1
    ]
    return dict(pairs) | {many: one for one, many in pairs}


NOUNS = _pairs(("CAT", "CATS"))  # dog → dogs and dogs → dog
VERBS = _pairs(("DOES", "DO"), ("SEES", "SEE"))  # sings → sing, and back


def sentences(n: int, *, seed: int | torch.Generator) -> list[str]:
    """Draw sentences from the grammar, a space between any two words.

    Tasks: what comes next; which word is masked; does the verb agree with
    its noun? Up to two adverbs stand between the two, and sometimes another
    noun, which may be of the other number. Articles, adjectives and adverbs
    say nothing about number.

    Alternatives of a rule are equally likely, and one that is written twice
    is twice as likely. ``NOUNS`` and ``VERBS`` give for each its other
    number, so that ``VERBS["sings"]`` is ``"sing"``.

    Args:
        n: sentences.
        seed: where chance starts, or a generator to go on with.

    Raises:
        ValueError: n is below 1.

    Source:
        ours; for agreement over a distance, Linzen, Dupoux and Goldberg
        (2016), Assessing the Ability of LSTMs to Learn Syntax-Sensitive
        Dependencies.

    Example:
        >>> for sentence in sentences(2, seed=1):
        ...     print(sentence)
        the cats near no foxes seldom sing .
        my hungry sailor always helps the child .
    """
    at_least(1, n=n)
    rows = torch.randint(SIDES, (n, DICE), generator=generator(seed))
    return [" ".join(_said("S", iter(row))) for row in rows.tolist()]


def encode(sentences: list[str]) -> Tensor:
    """Turn sentences into ids, shorter ones filled up with 0.

    An id is the place of a word in ``VOCABULARY``, which starts with
    ``[PAD]``, ``[CLS]`` and ``[MASK]``; all three may be written in a
    sentence.

    Shape:
        n sentences → (n, words of the longest)

    Raises:
        ValueError: there are no sentences, or a word is not in the
            vocabulary.

    Example:
        >>> encode(["the owl sings .", "[CLS] my dogs [MASK] ."])
        tensor([[49, 32, 44,  3,  0],
                [ 1, 26, 11,  2,  3]])
    """
    if not sentences:
        raise ValueError("encode wants at least one sentence, got none")
    place = {word: i for i, word in enumerate(VOCABULARY)}
    rows = [sentence.split() for sentence in sentences]
    for word in {word for row in rows for word in row} - set(place):
        raise ValueError(f"encode wants words of VOCABULARY, got {word!r}")
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor([place[word] for word in row])
    return ids


def text(n_characters: int, *, seed: int | torch.Generator) -> str:
    """Draw a text of so many characters, sentence after sentence.

    The task: which character comes next? A full stop stands at its word,
    a space behind it, and all letters are small; ``ALPHABET`` has every
    character there is. The text starts with a sentence, and its last may be
    cut. A shorter text from one seed is the beginning of a longer one.

    Args:
        n_characters: how many to give.
        seed: where chance starts, or a generator to go on with.

    Raises:
        ValueError: n_characters is below 1.

    Source:
        ours.

    Example:
        >>> text(60, seed=1)
        'the cats near no foxes seldom sing. my hungry sailor always '
    """
    at_least(1, n_characters=n_characters)
    draw, pieces, length = generator(seed), [], 0
    while length < n_characters:
        said = " ".join(sentences(CHUNK, seed=draw)) + " "
        pieces.append(said.replace(" .", "."))
        length += len(pieces[-1])
    return "".join(pieces)[:n_characters]


def entropy(unit: str = "character") -> float:
    """Give the entropy of the language in nats for each unit, exactly.

    The best possible loss. Per character or word it is the entropy of a
    sentence by the mean number of units in one: the rate of a long text,
    for a reader who has seen all that stands before. The full stop counts
    as a word; characters are those of ``text``.

    Args:
        unit: ``"character"``, ``"word"`` or ``"sentence"``.

    Raises:
        ValueError: there is no such unit.

    Source:
        Shannon (1948), A Mathematical Theory of Communication, sections 6
        and 7.

    Example:
        >>> round(entropy("sentence"), 2), round(entropy(), 3)
        (12.83, 0.394)
    """
    one_of(COSTS, unit=unit)
    return _entropy("S") / _length("S", unit)


def log_probability(sentence: str) -> float:
    """Give the logarithm of a sentence's probability, in nats, exactly.

    It is −∞ for what the grammar does not say. All ways to read the
    sentence are added up, though there is never more than one.

    Raises:
        ValueError: there are no words.

    Example:
        >>> round(log_probability("the owl sings ."), 2)
        -8.15
        >>> log_probability("the owl sing .")
        -inf
    """
    words = tuple(sentence.split())
    if not words:
        raise ValueError("log_probability wants a sentence, got no words")
    whole = _ends("S", words, 0)[len(words)]
    return math.log(whole) if whole else -math.inf


COSTS = {
    "character": lambda word: 1 if word == "." else len(word) + 1,
    "word": lambda word: 1,
    "sentence": lambda word: word == ".",
}


def _said(symbol: str, dice: Iterator[int]) -> list[str]:
    if symbol not in RULES:
        return [symbol]
    way = RULES[symbol][next(dice) % len(RULES[symbol])]
    return [word for part in way for word in _said(part, dice)]


def _ways(symbol: str) -> list[tuple[float, tuple[str, ...]]]:
    times = Counter(RULES[symbol])
    return [(many / times.total(), way) for way, many in times.items()]


@cache
def _entropy(symbol: str) -> float:
    if symbol not in RULES:
        return 0.0
    total = 0.0
    for p, way in _ways(symbol):
        total += p * (sum(map(_entropy, way)) - math.log(p))
    return total


@cache
def _length(symbol: str, unit: str) -> float:
    if symbol not in RULES:
        return COSTS[unit](symbol)
    total = 0.0
    for p, way in _ways(symbol):
        total += p * sum(_length(part, unit) for part in way)
    return total


def _ends(symbol: str, words: tuple[str, ...], start: int) -> Counter:
    """Give where a symbol can end that starts here, with probabilities."""
    if symbol not in RULES:
        here = words[start : start + 1] == (symbol,)
        return Counter({start + 1: 1.0} if here else {})
    found = Counter()
    for p, way in _ways(symbol):
        reached = Counter({start: p})
        for part in way:
            further = Counter()
            for here, q in reached.items():
                for end, r in _ends(part, words, here).items():
                    further[end] += q * r
            reached = further
        found.update(reached)
    return found
