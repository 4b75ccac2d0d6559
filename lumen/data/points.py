"""Points: a plane that no straight line can part.

Two numbers for each example, so that what a net has made of the plane can
be drawn.
"""

import math

import torch
from torch import Tensor

from lumen.data.draw import at_least, generator


def spirals(
    n: int,
    *,
    seed: int | torch.Generator,
    arms: int = 2,
    turns: float = 1.0,
    noise: float = 0.05,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Give points on spiral arms that wind about each other.

    The task: which arm is a point on? A line through the plane is right for
    little more than one in ``arms``.

    Args:
        n: points, the arms in turn: label i is the rest of i by ``arms``.
        seed: where chance starts, or a generator to go on with.
        arms: how many there are, 2 or more.
        turns: how often an arm goes round the middle.
        noise: how far a point may lie off its arm, along each axis.
        dtype: of the points.

    Shape:
        → points (n, 2), which lie within a radius of 1 but for the noise;
        labels (n)

    Raises:
        ValueError: n is below 1, arms below 2, or noise below 0.

    Source:
        after Lang and Witbrock (1988), Learning to Tell Two Spirals Apart.

    Example:
        >>> points, labels = spirals(6, seed=0)
        >>> points.shape, labels
        (torch.Size([6, 2]), tensor([0, 1, 0, 1, 0, 1]))
    """
    at_least(1, n=n)
    at_least(2, arms=arms)
    if not noise >= 0:
        raise ValueError(f"noise is a distance from 0 up, got {noise}")
    labels = torch.arange(n) % arms
    drawn = torch.randint(2**24, (3, n), generator=generator(seed))
    along, *off = drawn.double() / 2**24
    radius = along.sqrt()  # as many points on each bit of the plane
    angle = 2 * math.pi * (turns * radius + labels / arms)
    points = torch.stack((angle.cos(), angle.sin()), 1) * radius[:, None]
    points += noise * (2 * torch.stack(off, 1) - 1)
    return points.to(dtype), labels
