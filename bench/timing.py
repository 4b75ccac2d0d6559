"""CPU time of two ways to do one thing, taken in turns: A B A B …

A machine that is shared, hot or busy slows both alike, so the ratio of neighbours says more than
two means taken one after the other. CPU time leaves out the moments in which somebody else had
the processor.
"""

import ctypes
import gc
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from time import process_time

import torch

SAMPLE = 0.002  # seconds; a quicker call is repeated until it takes as long
ROUNDS = range(5, 200)
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Spread:
    """The quartiles of a sample."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """Those of two or more values."""
        return cls(*quantiles(values, method="inclusive"))


@dataclass(frozen=True)
class Duel:
    """What one call of each took, in seconds, and how many times as long a took as b."""

    a: float
    b: float
    ratio: Spread


def settle():
    """One thread, and no page faults, so that no case depends on those before it.

    Left to itself glibc hands freed memory back to the system, or keeps it, as the blocks before
    have taught it. To get a page again can cost more than to fill it.
    """
    torch.set_num_threads(1)
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(TRIM_THRESHOLD, 2**30)
        libc.mallopt(MMAP_THRESHOLD, 2**25)  # the most that it takes


def duel(a: Run, b: Run, seconds: float, clock: Clock = process_time) -> Duel:
    """Run a and b in turns for about so many seconds, five rounds at the least.

    The ratio is taken in each round, and its median and quartiles over all rounds.
    """
    loops = [_loops(run, clock) for run in (a, b)]
    rounds, end = [], clock() + seconds
    collects = gc.isenabled()
    gc.disable()
    try:
        while len(rounds) < ROUNDS.start or (len(rounds) < ROUNDS.stop and clock() < end):
            rounds.append([_sample(run, n, clock) for run, n in zip((a, b), loops, strict=True)])
    finally:
        if collects:
            gc.enable()
    first, second = zip(*rounds, strict=True)
    return Duel(median(first), median(second), Spread.of([x / y for x, y in rounds]))


def _loops(run: Run, clock: Clock) -> int:
    """How often to call it in one sample. Quick ones are called once before, to warm up."""
    took = _sample(run, 1, clock)
    if took < 50 * SAMPLE:
        took = _sample(run, 1, clock)
    return max(1, math.ceil(SAMPLE / max(took, 1e-9)))


def _sample(run: Run, loops: int, clock: Clock) -> float:
    """The time of one call, as the mean of so many."""
    start = clock()
    for _ in range(loops):
        run()
    return (clock() - start) / loops
