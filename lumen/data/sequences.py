"""Sequences: tasks that ask a recurrence what it can carry, and how far.

Each has an answer that is known, and a score that guessing cannot beat. So a
layer that fails says which of the two it lacks: a memory that lasts, a
counter, or the means to find a place again.
"""

import torch
from torch import Tensor

from lumen.data.draw import at_least, generator

A, B, END = 0, 1, 2  # the symbols of counting


def adding(
    n: int,
    span: int,
    *,
    seed: int | torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Give sequences of numbers, two of them marked, and the sum of the two.

    The task: carry two numbers over up to ``span`` steps and add them. One
    mark is in the first half, one in the second. Numbers are even between 0
    and 1, so whoever always says 1 has a mean squared error of 1/6.

    Args:
        n: sequences.
        span: steps in a sequence, 2 or more.
        seed: where chance starts, or a generator to go on with.
        dtype: of what comes out.

    Shape:
        → inputs (n, span, 2): number and mark of each step; sums (n)

    Raises:
        ValueError: n is below 1, or span below 2.

    Source:
        Hochreiter and Schmidhuber (1997), Long Short-Term Memory, section
        5.4, in the form with numbers from 0 to 1.

    Example:
        >>> inputs, sums = adding(1, 4, seed=0)
        >>> inputs[0, :, 1]
        tensor([0., 1., 0., 1.])
    """
    at_least(1, n=n)
    at_least(2, span=span)
    draw, half = generator(seed), span // 2
    numbers = torch.randint(2**24, (n, span), generator=draw) / 2**24
    first = torch.randint(half, (n, 1), generator=draw)
    second = torch.randint(half, span, (n, 1), generator=draw)
    step = torch.arange(span)
    marks = (step == first) | (step == second)
    sums = (numbers * marks).to(dtype).sum(1)
    return torch.stack((numbers, marks), 2).to(dtype), sums


def recall(
    n: int,
    span: int,
    symbols: int = 8,
    *,
    seed: int | torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Give sequences of symbols, and the symbol that each began with.

    The task: say at the end what came first. All symbols are drawn alike,
    so what lies between says nothing, and guessing costs ln(symbols) nats.

    Args:
        n: sequences.
        span: steps from the first symbol to the last.
        symbols: how many there are, 2 or more.
        seed: where chance starts, or a generator to go on with.

    Shape:
        → tokens (n, span + 1), wanted (n)

    Raises:
        ValueError: n or span is below 1, or symbols below 2.

    Source:
        after Hochreiter and Schmidhuber (1997), section 5.2.

    Example:
        >>> tokens, wanted = recall(2, 3, seed=0)
        >>> tokens, wanted
        (tensor([[4, 7, 5, 0],
                [3, 3, 3, 7]]), tensor([4, 3]))
    """
    at_least(1, n=n, span=span)
    at_least(2, symbols=symbols)
    many = (n, span + 1)
    tokens = torch.randint(symbols, many, generator=generator(seed))
    return tokens, tokens[:, 0].clone()


def repeats(
    n: int,
    length: int = 24,
    symbols: int = 20,
    *,
    seed: int | torch.Generator,
    shortest: int = 4,
    longest: int = 12,
) -> tuple[Tensor, Tensor, Tensor]:
    """Give a round of distinct symbols, over and over, and what comes next.

    The task: find the place where you have been before, and say what came
    next there. Symbols and the length of a round are drawn anew for each
    sequence, so there is nothing to learn by heart. The first symbol of the
    second round cannot be known: no one says that a round is over.

    Args:
        n: sequences.
        length: symbols in a sequence.
        symbols: how many there are to draw from.
        seed: where chance starts, or a generator to go on with.
        shortest, longest: symbols in a round, both ends included.

    Shape:
        → tokens (n, length − 1), wanted (n, length − 1): the symbol after
        each, known (n, length − 1): True where that can be known

    Raises:
        ValueError: n is below 1; rounds do not fit between 1 and symbols;
            or length leaves nothing to know, which takes longest + 2.

    Source:
        Elhage et al. (2021), A Mathematical Framework for Transformer
        Circuits, where heads that do this are called induction heads.

    Example:
        >>> tokens, wanted, known = repeats(1, 8, seed=0, longest=4)
        >>> tokens[0], wanted[0][known[0]]
        (tensor([12,  2,  3, 18, 12,  2,  3]), tensor([ 2,  3, 18]))
    """
    at_least(1, n=n, shortest=shortest)
    at_least(shortest, longest=longest)
    at_least(longest, symbols=symbols)
    at_least(longest + 2, length=length)
    draw = generator(seed)
    shuffled = torch.rand(n, symbols, generator=draw)
    order = shuffled.argsort(dim=1, stable=True)
    period = torch.randint(shortest, longest + 1, (n, 1), generator=draw)
    tokens = order.gather(1, torch.arange(length) % period)
    known = torch.arange(1, length) > period
    return tokens[:, :-1], tokens[:, 1:], known


def counting(
    n: int,
    longest: int,
    *,
    seed: int | torch.Generator,
    shortest: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Give as many b as there were a, then the end, and what comes next.

    ``aᵏ bᵏ end``

    The task: say when the b are over, which takes a counter. How many a
    there will be cannot be known; from the first b on, all can. The number
    k is drawn evenly. Shorter sequences are filled up with ends, which do
    not count as known.

    Args:
        n: sequences.
        longest: the largest k.
        seed: where chance starts, or a generator to go on with.
        shortest: the smallest k.

    Shape:
        → tokens (n, 2 · longest), wanted (n, 2 · longest): the symbol after
        each, known (n, 2 · longest): True where that can be known; a is 0,
        b is 1, the end is 2

    Raises:
        ValueError: n or shortest is below 1, or longest below shortest.

    Source:
        Gers and Schmidhuber (2001), LSTM Recurrent Networks Learn Simple
        Context-Free and Context-Sensitive Languages; Weiss, Goldberg and
        Yahav (2018), On the Practical Computational Power of Finite
        Precision RNNs, for the GRU's failure.

    Example:
        >>> tokens, wanted, known = counting(1, 3, seed=0)
        >>> tokens[0], wanted[0][known[0]]
        (tensor([0, 0, 0, 1, 1, 1]), tensor([1, 1, 2]))
    """
    at_least(1, n=n, shortest=shortest)
    at_least(shortest, longest=longest)
    draw = generator(seed)
    k = torch.randint(shortest, longest + 1, (n, 1), generator=draw)
    step = torch.arange(2 * longest + 1)
    tokens = (step >= k).long() + (step >= 2 * k)
    known = (step >= k) & (step < 2 * k)
    return tokens[:, :-1], tokens[:, 1:], known[:, :-1]
