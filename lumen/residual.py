"""Residual: let a layer say what to change, not what to be.

A layer that has to hand on what it was given must first learn to copy. With
its input added back, doing nothing is the start: f = 0 gives the identity.
"""

from collections.abc import Callable

from torch import Tensor, nn


def residual(x: Tensor, change: Tensor) -> Tensor:
    """Add to x a change of exactly its shape.

    ``y = x + change``

    Shape:
        x and change the same → the same

    Raises:
        ValueError: the shapes differ. A sum that broadcasts would hide it.

    Example:
        >>> import torch
        >>> residual(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]))
        tensor([1.5000, 2.0000])
    """
    if change.shape != x.shape:
        given = f"{tuple(x.shape)} → {tuple(change.shape)}"
        raise ValueError(f"residual wants x's shape back, got {given}")
    return x + change


class Residual(nn.Module):
    """Add what a layer makes of its input to that input.

    ``y = x + f(x)``

    The slope is I + J, with J that of f: one path leads straight through,
    and 2ᴸ paths lead through L of them. This is no lower bound. f(x) = −x
    gives a slope of 0.

    Args:
        f: a layer, or any function, that keeps the shape.

    Shape:
        any that f keeps → the same

    Weights:
        ``0`` beyond those of f.

    Cost:
        ``1`` FLOP per number beyond those of f.

    Raises:
        ValueError: f changes the shape.

    Differs from:
        He et al. (2016a) put a ReLU behind the sum; He et al. (2016b) leave
        the sum alone, as here. torch.nn has no such layer.

    Source:
        He, Zhang, Ren and Sun (2016a), Deep Residual Learning for Image
        Recognition, section 3; (2016b), Identity Mappings in Deep Residual
        Networks, section 2.

    Example:
        >>> import torch
        >>> Residual(lambda x: 0.5 * x)(torch.tensor([2.0, 4.0]))
        tensor([3., 6.])
    """

    def __init__(self, f: Callable[..., Tensor]):
        super().__init__()
        self.f = f

    def forward(self, x: Tensor, **options) -> Tensor:
        """Run f on x, with any options that it takes, and add x."""
        return residual(x, self.f(x, **options))
