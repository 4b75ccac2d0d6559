"""Draw: chance that comes out the same on every machine.

A seed alone does not do that. Normal numbers differ in their last digits
from one processor to the next, and a sort may break ties as it likes. Whole
numbers from a generator on the CPU are the same everywhere, so all data
sets of the book are made from these.
"""

from collections.abc import Iterable

import torch


def generator(seed: int | torch.Generator) -> torch.Generator:
    """Hand back the generator given, or make the one that starts at a seed.

    Whoever passes a generator goes on where the last draw ended; whoever
    passes a number gets the same again.

    Raises:
        ValueError: seed is neither a whole number nor a generator on the
            CPU.

    Example:
        >>> torch.randint(10, (5,), generator=generator(0))
        tensor([4, 9, 3, 0, 3])
    """
    if isinstance(seed, torch.Generator) and seed.device.type == "cpu":
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        wanted = "a whole number or a torch.Generator on the CPU"
        raise ValueError(f"seed wants {wanted}, got {seed!r}")
    return torch.Generator().manual_seed(seed)


def at_least(lowest: int, **sizes: int) -> None:
    """Refuse sizes that are too small, or no whole numbers.

    Raises:
        ValueError: a size is no whole number, or below the lowest.

    Example:
        >>> at_least(1, n=0)
        Traceback (most recent call last):
        ValueError: n is a whole number from 1 up, got 0
    """
    for name, size in sizes.items():
        whole = isinstance(size, int) and not isinstance(size, bool)
        if not whole or size < lowest:
            wanted = f"a whole number from {lowest} up"
            raise ValueError(f"{name} is {wanted}, got {size!r}")


def one_of(choices: Iterable[str], **given: str) -> None:
    """Refuse what is not among the choices.

    Raises:
        ValueError: a word given is none of them.

    Example:
        >>> one_of(("train", "test"), part="dev")
        Traceback (most recent call last):
        ValueError: part is one of train, test, got 'dev'
    """
    for name, word in given.items():
        if word not in choices:
            wanted = ", ".join(choices)
            raise ValueError(f"{name} is one of {wanted}, got {word!r}")
