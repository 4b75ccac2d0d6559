"""Images: handwritten digits, digits out of place, and photographs.

They come with scikit-learn. A digit of 8 × 8 pixels is small enough for
seconds on one processor, and real enough to be misread.
"""

from functools import cache

import torch
from torch import Tensor

from lumen.data.draw import at_least, generator, one_of

SIDE = 8  # of a digit
PARTS = ("train", "test", "all")
TEST = 360  # of the 1,797 digits
PHOTOS = ("china", "flower")


def digits(
    part: str = "all",
    *,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Give 1,797 handwritten digits of 8 × 8 pixels, with their labels.

    The task: which of ten digits is it? Two parts, cut once by a fixed
    shuffle, are 1,437 digits to train with and 360 to test with. The same
    thirteen people wrote both, so a test digit is by no stranger.

    Args:
        part: ``"train"``, ``"test"`` or ``"all"``, which alone keeps the
            order of its source.
        dtype: of the images.

    Shape:
        → images (1797, 1, 8, 8) from 0 to 1 in steps of 1/16,
        labels (1797) from 0 to 9; 1437 or 360 for a part

    Raises:
        ValueError: there is no such part.
        ImportError: scikit-learn, which ships the digits, is missing.

    Source:
        Alpaydin and Kaynak (1998), Optical Recognition of Handwritten
        Digits, UCI Machine Learning Repository: the part for testing.

    Example:
        >>> images, labels = digits("test")
        >>> images.shape, labels[:4]
        (torch.Size([360, 1, 8, 8]), tensor([2, 4, 8, 4]))
    """
    one_of(PARTS, part=part)
    inks, labels = _scanned()
    chosen = torch.arange(len(labels))
    if part != "all":
        shuffled = torch.randperm(len(labels), generator=generator(0))
        train, test = shuffled[:-TEST], shuffled[-TEST:]
        chosen = train if part == "train" else test
    return inks[chosen, None].to(dtype) / 16, labels[chosen]


def place(images: Tensor, places: Tensor, size: int) -> Tensor:
    """Lay each image on an empty square canvas, its corner at a place.

    Args:
        images: what to lay down.
        places: row and column of each image's upper left corner.
        size: side of the canvas in pixels.

    Shape:
        images (B, C, H, W), places (B, 2) → (B, C, size, size)

    Raises:
        ValueError: there is not one place for each image, or an image
            would reach over the canvas.

    Example:
        >>> dot = torch.ones(1, 1, 1, 1)
        >>> place(dot, torch.tensor([[0, 2]]), 3)[0, 0]
        tensor([[0., 0., 1.],
                [0., 0., 0.],
                [0., 0., 0.]])
    """
    if images.ndim != 4 or places.shape != (len(images), 2):
        given = f"{tuple(images.shape)} and {tuple(places.shape)}"
        wanted = "images (B, C, H, W) and places (B, 2)"
        raise ValueError(f"place wants {wanted}, got {given}")
    height, width = images.shape[-2:]
    room = torch.tensor([size - height, size - width])
    if (places < 0).any() or (places > room).any():
        raise ValueError(
            f"an image of {height} × {width} on a canvas of {size} has its "
            f"corner from (0, 0) to {tuple(room.tolist())}"
        )
    canvas = images.new_zeros(*images.shape[:2], size, size)
    for i, (row, column) in enumerate(places.tolist()):
        window = canvas[i, :, row : row + height, column : column + width]
        window.copy_(images[i])
    return canvas


def placed_digits(
    n: int,
    size: int = 14,
    *,
    seed: int | torch.Generator,
    part: str = "train",
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor, Tensor]:
    """Give digits at random places of a larger canvas.

    The task: which digit is it, wherever it lies? Or the other way round:
    where does it lie? Digits are drawn with repeats from one part, so that
    training and testing never share one.

    Args:
        n: canvases.
        size: side of a canvas in pixels, 8 or more.
        seed: where chance starts, or a generator to go on with.
        part: ``"train"``, ``"test"`` or ``"all"``, as in ``digits``.
        dtype: of the images.

    Shape:
        → images (n, 1, size, size), labels (n), places (n, 2): row and
        column of the digit's upper left corner, each 0 to size − 8

    Raises:
        ValueError: n is below 1, size below 8, or there is no such part.
        ImportError: scikit-learn is missing.

    Source:
        the digits of ``digits``; the places are ours.

    Example:
        >>> images, labels, places = placed_digits(5, seed=0)
        >>> images.shape, places[0]
        (torch.Size([5, 1, 14, 14]), tensor([2, 6]))
    """
    at_least(1, n=n)
    at_least(SIDE, size=size)
    images, labels = digits(part, dtype=dtype)
    draw = generator(seed)
    drawn = torch.randint(len(labels), (n,), generator=draw)
    places = torch.randint(size - SIDE + 1, (n, 2), generator=draw)
    return place(images[drawn], places, size), labels[drawn], places


def photo(
    name: str = "china",
    *,
    shrink: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Give a photograph in colour.

    Args:
        name: ``"china"``, a tower by a lake, or ``"flower"``.
        shrink: each pixel is the mean over a square of so many by so many;
            what does not fill a square at the lower or right edge is cut.
        dtype: of the image.

    Shape:
        → (3, 427 // shrink, 640 // shrink), red, green and blue from 0 to 1

    Raises:
        ValueError: there is no such photograph, or shrink is below 1 or
            above 427.
        ImportError: scikit-learn, which ships them, is missing, or pillow,
            which unpacks them. Two versions of pillow may differ by 1/255.

    Source:
        danielbuechele (china) and vultilion (flower), on Flickr, CC BY 2.0,
        as scikit-learn ships them.

    Example:
        >>> photo(shrink=4).shape
        torch.Size([3, 106, 160])
    """
    one_of(PHOTOS, name=name)
    at_least(1, shrink=shrink)
    pixels = _developed(name).to(dtype) / 255
    _, height, width = pixels.shape
    if shrink > height:
        raise ValueError(f"photo wants shrink ≤ {height}, got {shrink}")
    rows, columns = height // shrink, width // shrink
    whole = pixels[:, : rows * shrink, : columns * shrink]
    return whole.reshape(3, rows, shrink, columns, shrink).mean((2, 4))


@cache
def _scanned() -> tuple[Tensor, Tensor]:
    source = _sklearn().load_digits()
    inks = torch.tensor(source.images, dtype=torch.int64)
    return inks, torch.tensor(source.target, dtype=torch.int64)


@cache
def _developed(name: str) -> Tensor:
    pixels = torch.tensor(_sklearn().load_sample_image(f"{name}.jpg"))
    return pixels.movedim(-1, 0).contiguous()


def _sklearn():
    try:
        from sklearn import datasets
    except ImportError as missing:
        said = "the package scikit-learn has the images: install it"
        raise ImportError(said) from missing
    return datasets
