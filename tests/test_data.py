"""lumen.data: the same whole numbers everywhere, and tasks that are what they say they are."""

import builtins
import re

import pytest
import torch
from torch.testing import assert_close

from lumen.data import digits, images, photo, place, placed_digits, shapes
from lumen.data.draw import at_least, generator

SCANNED, CUT = 2_741_086_809, 4_609_557
PLACED = [75_579_569, 5_608, 15_602]
DRAWN = [10_459_857_969, 50_176_866]


def checksum(whole):
    """A number that changes with any entry and with their order; whole numbers only."""
    flat = whole.flatten().long()
    return int((flat * (torch.arange(len(flat)) % 9973 + 1)).sum())


# ---- chance


def test_a_number_starts_over_and_a_generator_goes_on():
    first, again = placed_digits(4, seed=3), placed_digits(4, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    draw = torch.Generator().manual_seed(3)
    same, later = placed_digits(4, seed=draw), placed_digits(4, seed=draw)
    assert torch.equal(same[0], first[0]) and not torch.equal(later[0], first[0])


SEEDED = {
    "placed_digits": lambda seed: placed_digits(3, seed=seed),
    "shapes": lambda seed: shapes(3, seed=seed),
}


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_chance_comes_from_the_seed_alone(make):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = make(7)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(first, make(7), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, make(8), strict=True))


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
@pytest.mark.parametrize("seed", [None, 0.5, "0", True, torch.Generator])
def test_refuses_what_is_no_seed(make, seed):
    said = re.escape(f"a whole number or a torch.Generator on the CPU, got {seed!r}")
    with pytest.raises(ValueError, match=f"seed wants {said}"):
        make(seed)


def test_a_generator_is_handed_back():
    draw = torch.Generator()
    assert generator(draw) is draw
    assert generator(5).initial_seed() == 5


@pytest.mark.parametrize("size", [0, -1, 1.5, "3", None])
def test_refuses_what_is_no_size(size):
    with pytest.raises(ValueError, match=f"width is a whole number from 1 up, got {size!r}"):
        at_least(1, width=size)
    with pytest.raises(ValueError, match="n is a whole number from 1 up"):
        placed_digits(size, seed=0)
    with pytest.raises(ValueError, match="n is a whole number from 1 up"):
        shapes(size, seed=0)


# ---- digits


def test_digits_are_those_of_their_source():
    pixels, labels = digits()
    assert pixels.shape == (1797, 1, 8, 8) and pixels.dtype == torch.float32
    assert labels.dtype == torch.int64
    assert (pixels.min(), pixels.max()) == (0, 1)
    assert (16 * pixels).sum().item() == 561_718 and checksum(16 * pixels) == SCANNED
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert labels[:10].tolist() == list(range(10))


def test_parts_share_nothing_and_are_all():
    (train, seen), (test, unseen), (whole, labels) = (
        digits(part) for part in ("train", "test", "all")
    )
    assert len(train) == len(seen) == 1437 and len(test) == len(unseen) == 360

    def rows(pixels, labels):
        marked = torch.cat([(16 * pixels).long().flatten(1), labels[:, None]], 1)
        return {tuple(row) for row in marked.tolist()}

    assert not rows(train, seen) & rows(test, unseen)
    assert rows(train, seen) | rows(test, unseen) == rows(whole, labels)
    assert len(rows(whole, labels)) == 1797
    assert checksum(seen) == CUT and unseen.bincount().min() >= 25


def test_images_come_in_double_precision_too():
    for make in (
        lambda dtype: digits(dtype=dtype)[0],
        lambda dtype: placed_digits(3, seed=0, dtype=dtype)[0],
        lambda dtype: shapes(3, seed=0, dtype=dtype)[0],
        lambda dtype: photo(dtype=dtype, shrink=3),
    ):
        single, double = make(torch.float32), make(torch.float64)
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        assert_close(single, double.float())


def test_what_is_handed_out_can_be_written_on():
    pixels, labels = digits()
    pixels.zero_(), labels.zero_(), photo().zero_()
    assert digits()[0].max() == 1 and digits()[1].max() == 9 and photo().max() > 0.9


def test_refuses_a_part_or_a_photograph_that_is_not_there():
    for make in (digits, lambda part: placed_digits(1, seed=0, part=part)):
        with pytest.raises(ValueError, match=r"part is one of \('train', .*\), got 'dev'"):
            make("dev")
    with pytest.raises(ValueError, match=r"photo is one of \('china', 'flower'\), got 'cat'"):
        photo("cat")


def test_says_which_package_is_missing(monkeypatch):
    take = builtins.__import__

    def without(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return take(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    images._scanned.cache_clear(), images._developed.cache_clear()
    for make in (digits, photo, lambda: placed_digits(1, seed=0)):
        with pytest.raises(ImportError, match="install the package scikit-learn"):
            make()
    assert shapes(1, seed=0)


# ---- digits out of place


def test_placed_digits_are_digits_and_lie_where_they_say():
    canvas, labels, places = placed_digits(200, 20, seed=4, part="test")
    assert canvas.shape == (200, 1, 20, 20)
    assert (places.min(), places.max()) == (0, 12)
    known = {}
    for pixels, label in zip(*digits("test"), strict=True):
        known[tuple((16 * pixels).long().flatten().tolist())] = label
    for picture, label, (row, column) in zip(canvas, labels, places.tolist(), strict=True):
        found = picture[:, row : row + 8, column : column + 8]
        assert known[tuple((16 * found).long().flatten().tolist())] == label
        assert picture.sum() == found.sum()


def test_placed_digits_are_the_same_everywhere():
    canvas, labels, places = placed_digits(50, seed=0)
    assert [checksum(16 * canvas), checksum(labels), checksum(places)] == PLACED


def test_places_and_digits_are_drawn_evenly():
    _, labels, places = placed_digits(5000, seed=1)
    assert (labels.bincount() / 5000 - 0.1).abs().max() < 0.02
    for axis in places.T:
        assert (axis.bincount() / 5000 - 1 / 7).abs().max() < 0.02


def test_train_and_test_canvases_share_no_digit():
    def ink(part):
        canvas, _, _ = placed_digits(2000, 8, seed=0, part=part)
        return {tuple(row) for row in (16 * canvas).long().flatten(1).tolist()}

    assert not ink("train") & ink("test")


def test_the_smallest_canvas_has_one_place():
    _, _, places = placed_digits(20, 8, seed=0)
    assert not places.any()
    for size in (7, 0, 8.5):
        with pytest.raises(ValueError, match=f"size is a whole number from 8 up, got {size}"):
            placed_digits(1, size, seed=0)


def test_place_by_hand():
    picture = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).expand(2, 3, 2, 2)
    laid = place(picture, torch.tensor([[0, 0], [1, 2]]), 4)
    assert laid.shape == (2, 3, 4, 4)
    assert laid[0, 0].tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert laid[1, 2].tolist() == [[0, 0, 0, 0], [0, 0, 1, 2], [0, 0, 3, 4], [0, 0, 0, 0]]


@pytest.mark.parametrize("where", [(-1, 0), (0, 3), (3, 0), (0, -1)])
def test_place_refuses_what_reaches_over(where):
    said = re.escape("an image of 2 × 3 on a canvas of 4 has its corner from (0, 0) to (2, 1)")
    with pytest.raises(ValueError, match=said):
        place(torch.ones(1, 1, 2, 3), torch.tensor([where]), 4)


@pytest.mark.parametrize(
    ("pictures", "places"), [((2, 2), (2, 2)), ((3, 1, 2, 2), (2, 2)), ((1, 1, 2, 2), (1, 3))]
)
def test_place_refuses_what_does_not_fit_together(pictures, places):
    said = rf"place wants images \(B, C, H, W\) and places \(B, 2\), got {re.escape(str(pictures))}"
    with pytest.raises(ValueError, match=said):
        place(torch.ones(pictures), torch.zeros(places, dtype=torch.int64), 9)


# ---- shapes


def test_shapes_are_discs_and_the_core_alone_tells_their_class():
    pictures, classes = shapes(300, 48, seed=5)
    assert pictures.shape == (300, 1, 48, 48) and classes.shape == (300, 48, 48)
    values = (255 * pictures[:, 0]).round().long()
    assert_close(values / 255, pictures[:, 0])
    tiles = classes.reshape(300, 3, 16, 3, 16).transpose(2, 3).reshape(-1, 16, 16)
    values = values.reshape(300, 3, 16, 3, 16).transpose(2, 3).reshape(-1, 16, 16)
    kinds = tiles.amax((1, 2))
    assert (kinds.bincount() / len(kinds) - 1 / 3).abs().max() < 0.02
    areas = {(tile > 0).sum().item() for tile in tiles}
    assert areas == {0, 81, 113, 149}  # grid points in a disc of radius 5, 6, 7
    assert all(len(tile.unique()) <= 2 for tile in tiles)
    ground, disc = values[tiles == 0], values[tiles == 1]
    assert (ground.min(), ground.max(), disc.min(), disc.max()) == (0, 145, 110, 255)
    for tile, value in zip(tiles[kinds == 2][:200], values[kinds == 2][:200], strict=True):
        inside = (tile > 0).nonzero()
        row, column = inside.double().mean(0).round().long().tolist()
        dark = ((inside - torch.tensor([row, column])) ** 2).sum(1) <= 5
        assert dark.sum() == 21
        assert value[inside[dark].unbind(1)].max() <= 145
        assert value[inside[~dark].unbind(1)].min() >= 110


def test_shapes_are_the_same_everywhere():
    pictures, classes = shapes(20, seed=0)
    assert [checksum((255 * pictures).round()), checksum(classes)] == DRAWN


def test_no_single_pixel_tells_what_it_is():
    pictures, classes = shapes(100, seed=1)
    bright = 255 * pictures[:, 0]
    best = max(((bright > cut) == (classes > 0)).double().mean().item() for cut in range(256))
    assert 0.8 < best < 0.95
    unsure = (bright >= 110) & (bright <= 145)
    assert 0.2 < unsure.double().mean() < 0.3


@pytest.mark.parametrize("size", [0, 15, 24, 33])
def test_shapes_refuse_a_size_without_whole_squares(size):
    with pytest.raises(ValueError, match=f"size is a .*16.*, got {size}"):
        shapes(1, size, seed=0)


# ---- photographs


@pytest.mark.parametrize("name", ["china", "flower"])
def test_photographs_are_in_colour_and_between_black_and_white(name):
    picture = photo(name)
    assert picture.shape == (3, 427, 640) and picture.dtype == torch.float32
    assert 0 <= picture.min() < 0.02 and 0.98 < picture.max() <= 1
    assert (picture[0] - picture[2]).abs().mean() > 0.05


def test_photographs_hang_the_right_way():
    sky, trees = photo()[:, :80].mean((1, 2)), photo()[:, -80:].mean((1, 2))
    assert sky[2] > sky[0] > 0.6 and trees[1] > trees[2] and trees.max() < 0.4


def test_a_smaller_photograph_is_the_mean_over_squares():
    whole, small = photo(dtype=torch.float64), photo(shrink=4, dtype=torch.float64)
    assert small.shape == (3, 106, 160)
    assert_close(small[:, 7, 9], whole[:, 28:32, 36:40].mean((1, 2)))
    assert torch.equal(photo(shrink=1), photo())
    assert photo(shrink=427).shape == (3, 1, 1)
    for shrink in (0, -2, 2.5):
        with pytest.raises(ValueError, match=f"shrink is a whole number from 1 up, got {shrink}"):
            photo(shrink=shrink)
    with pytest.raises(ValueError, match="photo wants shrink ≤ 427, got 428"):
        photo(shrink=428)
