"""Segmentation: a drawing in which the class of every pixel is known.

It takes two things that stand in each other's way. What a pixel belongs to
shows some way off, and where that ends shows in the pixel itself.
"""

import torch
from torch import Tensor

from lumen.data.draw import at_least, generator

TILE = 16  # holds one disc at most


def shapes(
    n: int,
    size: int = 32,
    *,
    seed: int | torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Give bright discs in noise, some with a dark core, and name each pixel.

    The task: is this pixel ground, plain disc, or disc with a core? All of
    a disc, its core included, has one class. So a pixel at the rim has to
    know of a core up to seven pixels away, which takes a wide view. Yet
    where the rim runs is told by single pixels, which pooling averages
    away.

    The ground shows whole numbers from 0 to 145, all alike; discs show
    110 more. Each square of 16 × 16 holds one disc of radius 5 to 7, or,
    one time in three, none.

    Args:
        n: images.
        size: side of an image in pixels, a multiple of 16.
        seed: where chance starts, or a generator to go on with.
        dtype: of the images.

    Shape:
        → images (n, 1, size, size) from 0 to 1 in steps of 1/255,
        classes (n, size, size): 0 ground, 1 plain, 2 with a core

    Raises:
        ValueError: n is below 1, or size no multiple of 16.

    Source:
        ours.

    Example:
        >>> images, classes = shapes(2, seed=0)
        >>> images.shape, classes.shape
        (torch.Size([2, 1, 32, 32]), torch.Size([2, 32, 32]))
    """
    at_least(1, n=n)
    at_least(TILE, size=size)
    if size % TILE:
        raise ValueError(f"size is a multiple of {TILE}, got {size}")
    draw, tiles = generator(seed), (n, size // TILE, size // TILE, 1, 1)
    kind = torch.randint(3, tiles, generator=draw)
    radius = torch.randint(5, 8, tiles, generator=draw)
    slack = TILE - 2 * radius
    row = radius + torch.randint(2**24, tiles, generator=draw) % slack
    column = radius + torch.randint(2**24, tiles, generator=draw) % slack
    axis = torch.arange(TILE)
    away = (axis[:, None] - row) ** 2 + (axis - column) ** 2
    disc = (kind > 0) & (away <= radius**2)
    lit = disc & ~((kind == 2) & (away <= 5))  # a core is 5 pixels wide

    def joined(tiles: Tensor) -> Tensor:
        return tiles.transpose(2, 3).reshape(n, size, size)

    noise = torch.randint(146, (n, size, size), generator=draw)
    images = (noise + 110 * joined(lit))[:, None].to(dtype) / 255
    return images, joined(disc * kind)
