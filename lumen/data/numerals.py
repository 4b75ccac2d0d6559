"""Numerals: German number words into English, where the order turns.

In *zwei und vierzig* the units come before the tens, in *forty two* behind
them. So a translator has to look back at the right word, which is not the
next one; and which words belong together is known.
"""

import torch
from torch import Tensor

from lumen.data.draw import at_least, generator, one_of

PARTS = ("train", "test", "all")
LARGEST, TEST = 9_999, 1_999  # number, and numbers kept for testing
SOURCE, TARGET = 7, 8  # places that the longest number takes
MARKS = ("[PAD]", "[START]", "[STOP]")

NUMERALS = """
ein zwei drei vier fünf sechs sieben acht neun |
zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn
neunzehn |
zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig |

one two three four five six seven eight nine |
ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen |
twenty thirty forty fifty sixty seventy eighty ninety
"""
TABLE = [words.split() for words in NUMERALS.split("|")]
EIN, ZEHN, ZWANZIG, ONE, TEN, TWENTY = TABLE
GERMAN = (*MARKS, *EIN, "eins", *ZEHN, *ZWANZIG)
GERMAN += ("und", "hundert", "tausend")
ENGLISH = (*MARKS, *ONE, *TEN, *TWENTY, "hundred", "thousand")


def german(number: int) -> list[str]:
    """Say a number in German, the one long word taken to pieces.

    Raises:
        ValueError: the number is not from 1 to 9,999.

    Example:
        >>> " ".join(german(342)), " ".join(german(1001))
        ('drei hundert zwei und vierzig', 'ein tausend eins')
    """
    words, tens, units = _large(number, EIN, "tausend", "hundert")
    if tens == 1:
        return [*words, ZEHN[units]]
    if tens > 1:
        before = [EIN[units - 1], "und"] if units else []
        return [*words, *before, ZWANZIG[tens - 2]]
    last = "eins" if units == 1 else EIN[units - 1]
    return [*words, last] if units else words


def english(number: int) -> list[str]:
    """Say a number in English, word by word.

    Raises:
        ValueError: the number is not from 1 to 9,999.

    Example:
        >>> " ".join(english(342)), " ".join(english(1001))
        ('three hundred forty two', 'one thousand one')
    """
    words, tens, units = _large(number, ONE, "thousand", "hundred")
    if tens == 1:
        return [*words, TEN[units]]
    words += [TWENTY[tens - 2]] if tens else []
    return words + ([ONE[units - 1]] if units else [])


def translation(
    n: int,
    *,
    seed: int | torch.Generator,
    part: str = "train",
) -> tuple[Tensor, Tensor, Tensor]:
    """Give numbers in German and in English, as ids of words.

    The task: translate. The two differ in length, *und* has no fellow,
    *ein* and *eins* have the same, and units and tens change places.
    Numbers are drawn with repeats from 1 to 9,999; a fixed shuffle keeps
    1,999 of them for testing.

    Args:
        n: pairs.
        seed: where chance starts, or a generator to go on with.
        part: ``"train"``, ``"test"`` or ``"all"``.

    Shape:
        → source (n, 7), places in ``GERMAN``; target (n, 8), places in
        ``ENGLISH``, from ``[START]`` to ``[STOP]``; numbers (n). What is
        shorter is filled up with 0, which is ``[PAD]`` in both.

    Raises:
        ValueError: n is below 1, or there is no such part.

    Source:
        ours.

    Example:
        >>> source, target, numbers = translation(1, seed=0)
        >>> " ".join(GERMAN[word] for word in source[0])
        'acht tausend zwei hundert ein und siebzig'
        >>> " ".join(ENGLISH[word] for word in target[0])
        '[START] eight thousand two hundred seventy one [STOP]'
    """
    at_least(1, n=n)
    one_of(PARTS, part=part)
    shuffled = 1 + torch.randperm(LARGEST, generator=generator(0))
    train, test = shuffled[:-TEST], shuffled[-TEST:]
    pool = {"train": train, "test": test, "all": shuffled}[part]
    drawn = torch.randint(len(pool), (n,), generator=generator(seed))
    numbers = pool[drawn]
    source, target = [], []
    for number in numbers.tolist():
        source.append(_ids(german(number), GERMAN, SOURCE))
        framed = ["[START]", *english(number), "[STOP]"]
        target.append(_ids(framed, ENGLISH, TARGET))
    return torch.tensor(source), torch.tensor(target), numbers


def _large(
    number: int,
    ones: list[str],
    thousand: str,
    hundred: str,
) -> tuple[list[str], int, int]:
    if not isinstance(number, int) or not 1 <= number <= LARGEST:
        wanted = f"a whole number from 1 to {LARGEST}"
        raise ValueError(f"only {wanted} can be said, got {number!r}")
    thousands, rest = divmod(number, 1000)
    hundreds, rest = divmod(rest, 100)
    words = [ones[thousands - 1], thousand] if thousands else []
    words += [ones[hundreds - 1], hundred] if hundreds else []
    return words, *divmod(rest, 10)


def _ids(
    said: list[str],
    vocabulary: tuple[str, ...],
    places: int,
) -> list[int]:
    ids = [vocabulary.index(word) for word in said]
    return ids + [0] * (places - len(ids))
