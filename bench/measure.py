"""Set lumen against each other way, and keep what was seen."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bench.case import Case, Entry, Way
from bench.timing import Duel, duel
from lumen.book.memory import peak_bytes

TORCH = "torch"


@dataclass(frozen=True)
class Result:
    """One duel. Lumen comes first in it against torch, so small is good; by hand it is second."""

    entry: Entry
    larger: bool
    size: str
    backward: bool
    rival: str
    duel: Duel

    @property
    def aim(self) -> float | None:
        """What the ratio should be at most; by hand, at least. There is one at the larger size."""
        if not self.larger:
            return None
        if self.rival != TORCH:
            return self.entry.by_hand
        return self.entry.backward if self.backward else self.entry.forward

    @property
    def holds(self) -> bool:
        """Whether the median keeps to the aim, to the two decimals that are printed."""
        ratio = round(self.duel.ratio.middle, 2)
        return self.aim is None or (ratio <= self.aim if self.rival == TORCH else ratio >= self.aim)


def measure(entry: Entry, larger: bool, seconds: float) -> Iterator[Result]:
    """Every duel of one case, each of about so many seconds."""
    case = made(entry, larger)
    for backward in (False, True)[: 1 + entry.trains]:

        def run(way: Way, backward=backward):
            return way.backward(case.inputs) if backward else way.forward(case.inputs)

        def result(rival: str, first: Way, second: Way, run=run, backward=backward):
            seen = duel(run(first), run(second), seconds)
            return Result(entry, larger, case.size, backward, rival, seen)

        if case.theirs:
            yield result(TORCH, case.ours, case.theirs)
        for name, way in case.by_hand.items():
            yield result(name, way, case.ours)


def peaks(entry: Entry) -> dict[str, int]:
    """The most bytes that each way holds at once in a forward pass, weights and input left out."""
    case = made(entry, larger=True)
    ways = {"lumen": case.ours, entry.against: case.theirs} | case.by_hand
    return {name: _peak(way, case) for name, way in ways.items()}


def made(entry: Entry, larger: bool) -> Case:
    """The case, the same in every run."""
    torch.manual_seed(0)
    return entry.make(larger)


def _peak(way: Way, case: Case) -> int:
    known = *case.inputs, *way.weights.values()
    return peak_bytes(lambda *_: way.run(*case.inputs), *known)
