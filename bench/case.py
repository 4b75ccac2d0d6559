"""What a row of the table is: one layer at two sizes, and all the ways to compute it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Way:
    """One way to compute a layer: a function of the inputs, and the weights in it."""

    run: Callable[..., Tensor]
    weights: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, module: nn.Module, pick: Callable = lambda y: y) -> "Way":
        """A module, and what to pick from its output."""
        return cls(lambda *inputs: pick(module(*inputs)), dict(module.named_parameters()))

    def forward(self, inputs: tuple[Tensor, ...]) -> Callable[[], Tensor]:
        """One pass without gradients."""

        def run():
            with torch.no_grad():
                return self.run(*inputs)

        return run

    def backward(self, inputs: tuple[Tensor, ...]) -> Callable[[], tuple[Tensor, ...]]:
        """One pass, and the gradients of inputs and weights for a random upstream gradient."""
        floats = [x.requires_grad_() for x in inputs if x.is_floating_point()]
        leaves = [*floats, *self.weights.values()]
        shape = self.forward(inputs)().shape
        upstream = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        return lambda: torch.autograd.grad(self.run(*inputs), leaves, upstream)


@dataclass(frozen=True)
class Case:
    """One layer at one size, and all ways. ``theirs`` is None where torch has nothing like it."""

    inputs: tuple[Tensor, ...]
    ours: Way
    theirs: Way | None
    by_hand: dict[str, Way] = field(default_factory=dict)
    said: str = ""

    @property
    def size(self) -> str:
        """What is said of it, or else the shape of the first input."""
        return self.said or "×".join(map(str, self.inputs[0].shape))


@dataclass(frozen=True)
class Entry:
    """A row of the table: its name, which starts with that of the layer, and what is aimed at.

    ``forward`` and ``backward`` (which includes the forward pass) are the most that lumen may take
    of torch's time at the larger size; ``by_hand`` the least by which it beats the way by hand.
    """

    name: str
    make: Callable[[bool], Case]
    forward: float | None = None
    backward: float | None = None
    by_hand: float | None = None
    trains: bool = True
    against: str = "torch.nn"


class Table(list[Entry]):
    """Entries in the order in which they stand on the page."""

    def entry(self, name: str, forward: float | None = None, backward: float | None = None, **more):
        """Enter the function below, which makes the case. One number aims at both directions."""

        def enter(make):
            self.append(Entry(name, make, forward, backward or forward, **more))
            return make

        return enter


def pair(x, ours, theirs, pick=lambda y: y, load=None, **by_hand) -> Case:
    """A layer and torch's with the same weights; by hand with torch's own tensors."""
    load(ours, theirs) if load else ours.load_state_dict(theirs.state_dict())
    weights = dict(theirs.named_parameters())
    ways = {
        name.replace("_", " "): Way(lambda x, f=f: f(x, *weights.values()), weights)
        for name, f in by_hand.items()
    }
    inputs = x if isinstance(x, tuple) else (x,)
    return Case(inputs, Way.of(ours, pick), Way.of(theirs, pick), ways)
