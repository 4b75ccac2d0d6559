"""lumen.data: the same whole numbers everywhere, and tasks that are what they say they are."""

import builtins
import math
import re
from collections import Counter

import pytest
import torch
from torch.testing import assert_close

from lumen import data
from lumen.data import (
    adding,
    counting,
    digits,
    encode,
    entropy,
    images,
    language,
    log_probability,
    photo,
    place,
    placed_digits,
    recall,
    repeats,
    sentences,
    shapes,
    spirals,
    text,
    translation,
)
from lumen.data.draw import at_least, generator, one_of
from lumen.data.language import ALPHABET, NOUNS, RULES, VERBS, VOCABULARY, WORDS
from lumen.data.numerals import ENGLISH, GERMAN, english, german

SCANNED, CUT = 2_741_086_809, 4_609_557
PLACED = [75_579_569, 5_608, 15_602]
DRAWN = [10_459_857_969, 50_176_866]
TOKENS = [
    10_178_370_801_844,
    1_867_585,
    4_027,
    434_759,
    479_657,
    5_950_967,
    5_924_391,
    1_098_577,
    1_023_351,
    7_224_701,
    2_658_968,
    1_152_988_290,
]


def checksum(whole):
    """A number that changes with any entry and with their order; whole numbers only."""
    flat = whole.flatten().long()
    return int((flat * (torch.arange(len(flat)) % 9973 + 1)).sum())


# ---- chance


SEEDED = {
    "placed_digits": lambda n, seed: placed_digits(n, seed=seed),
    "shapes": lambda n, seed: shapes(n, seed=seed),
    "spirals": lambda n, seed: spirals(n, seed=seed),
    "adding": lambda n, seed: adding(n, 10, seed=seed),
    "recall": lambda n, seed: recall(n, 10, seed=seed),
    "repeats": lambda n, seed: repeats(n, seed=seed),
    "counting": lambda n, seed: counting(n, 50, seed=seed),
    "translation": lambda n, seed: translation(n, seed=seed),
    "sentences": lambda n, seed: [as_numbers(s) for s in sentences(n, seed=seed)],
    "text": lambda n, seed: [as_numbers(text(n, seed=seed))],
}
WITHOUT_CHANCE = {"digits", "photo", "place", "encode", "entropy", "log_probability"}


def as_numbers(words):
    return torch.tensor([ord(character) for character in words])


def test_every_draw_is_tested_here():
    assert set(SEEDED) | WITHOUT_CHANCE == set(data.__all__)


def same(first, second):
    pairs = zip(first, second, strict=True)
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_chance_comes_from_the_seed_alone(make):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = make(5, 7)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert same(first, make(5, 7)) and not same(first, make(5, 8))


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_a_generator_goes_on_where_a_number_starts_over(make):
    draw = torch.Generator().manual_seed(7)
    assert same(make(5, draw), make(5, 7))
    assert not same(make(5, draw), make(5, 7))


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
@pytest.mark.parametrize("seed", [None, 0.5, "0", True, torch.Generator])
def test_refuses_what_is_no_seed(make, seed):
    said = re.escape(f"a whole number or a torch.Generator on the CPU, got {seed!r}")
    with pytest.raises(ValueError, match=f"seed wants {said}"):
        make(1, seed)


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
@pytest.mark.parametrize("n", [0, -1, 1.5, "3", None, True])
def test_refuses_what_is_no_number_of_examples(make, n):
    with pytest.raises(ValueError, match=rf"n\w* is a whole number from 1 up, got {n!r}"):
        make(n, 0)


def test_a_generator_is_handed_back():
    draw = torch.Generator()
    assert generator(draw) is draw
    assert generator(5).initial_seed() == 5


def test_refusals_name_what_was_given():
    with pytest.raises(ValueError, match="width is a whole number from 3 up, got 2"):
        at_least(3, height=3, width=2)
    with pytest.raises(ValueError, match="name is one of ann, bob, got 'cat'"):
        one_of(("ann", "bob"), name="cat")


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
    for make in (
        digits,
        lambda part: placed_digits(1, seed=0, part=part),
        lambda part: translation(1, seed=0, part=part),
    ):
        with pytest.raises(ValueError, match="part is one of train, test, all, got 'dev'"):
            make("dev")
    with pytest.raises(ValueError, match="name is one of china, flower, got 'cat'"):
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
        with pytest.raises(ImportError, match="scikit-learn has the images: install it"):
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


# ---- points


def test_spirals_lie_on_their_arms():
    points, labels = spirals(3000, seed=0, arms=3, turns=1.5, noise=0.0, dtype=torch.float64)
    assert labels.bincount().tolist() == [1000] * 3 and labels[:4].tolist() == [0, 1, 2, 0]
    radius = points.norm(dim=1)
    angle = torch.atan2(points[:, 1], points[:, 0])
    turned = angle / (2 * math.pi) - 1.5 * radius - labels / 3
    assert (turned - turned.round()).abs().max() < 1e-9
    assert radius.max() < 1 and ((radius < 0.5).double().mean() - 0.25).abs() < 0.03
    assert spirals(3, seed=0)[0].dtype == torch.float32


def test_spirals_stray_no_further_than_their_noise():
    still = spirals(500, seed=1, noise=0.0, dtype=torch.float64)[0]
    moved = spirals(500, seed=1, noise=0.1, dtype=torch.float64)[0] - still
    assert 0.095 < moved.abs().max() <= 0.1
    assert moved.mean(0).abs().max() < 0.01


def test_no_line_parts_two_spirals():
    points, labels = spirals(2000, seed=0)
    turns = torch.linspace(0, math.pi, 60)
    projected = points @ torch.stack((turns.cos(), turns.sin()))
    best = 0.0
    for heights in projected.T:
        right = labels[heights.argsort()].cumsum(0) - torch.arange(2000) // 2
        best = max(best, 0.5 + right.abs().max().item() / 2000)
    assert 0.5 < best < 0.75


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arms": 1}, "arms is a whole number from 2 up, got 1"),
        ({"noise": -0.1}, "noise is a distance from 0 up, got -0.1"),
        ({"noise": math.nan}, "noise is a distance from 0 up, got nan"),
    ],
)
def test_spirals_refuse(options, said):
    with pytest.raises(ValueError, match=said):
        spirals(5, seed=0, **options)


# ---- sequences


@pytest.mark.parametrize("span", [2, 3, 10, 51])
def test_adding_marks_one_number_in_each_half(span):
    inputs, sums = adding(400, span, seed=0, dtype=torch.float64)
    assert inputs.shape == (400, span, 2) and sums.shape == (400,)
    numbers, marks = inputs.unbind(2)
    assert marks.unique().tolist() == ([0, 1] if span > 2 else [1])
    half = span // 2
    assert (marks[:, :half].sum(1) == 1).all() and (marks[:, half:].sum(1) == 1).all()
    assert (marks.sum(0) > 0).all()
    assert numbers.min() >= 0 and numbers.max() < 1
    assert torch.equal(
        sums,
        torch.stack([row[mark == 1].sum() for row, mark in zip(*inputs.unbind(2), strict=True)]),
    )


def test_adding_costs_a_sixth_to_guess():
    inputs, sums = adding(200_000, 2, seed=1, dtype=torch.float64)
    assert ((sums - 1) ** 2).mean().item() == pytest.approx(1 / 6, abs=2e-3)
    single, _ = adding(5, 4, seed=1)
    assert single.dtype == torch.float32


def test_recall_wants_what_came_first():
    tokens, wanted = recall(20_000, 6, 5, seed=0)
    assert tokens.shape == (20_000, 7) and torch.equal(wanted, tokens[:, 0])
    for step in range(1, 7):
        assert (tokens[:, step] == wanted).double().mean().item() == pytest.approx(0.2, abs=0.02)
    tokens[:, 0] = 9
    assert wanted.max() == 4


def test_repeats_repeat_and_only_then_are_known():
    tokens, wanted, known = repeats(300, 24, 20, seed=0)
    assert tokens.shape == wanted.shape == known.shape == (300, 23)
    assert torch.equal(tokens[:, 1:], wanted[:, :-1]) and known.dtype == torch.bool
    lengths = Counter()
    for row, goal, told in zip(tokens.tolist(), wanted.tolist(), known.tolist(), strict=True):
        period = len(set(row + goal[-1:]))
        lengths[period] += 1
        assert len(set(row[:period])) == period
        for i, (symbol, after) in enumerate(zip(row, goal, strict=True)):
            earlier = row[:i]
            if told[i]:
                assert after == row[earlier.index(symbol) + 1]
            else:
                assert symbol not in earlier
    assert set(lengths) == set(range(4, 13)) and min(lengths.values()) > 15


def test_repeats_are_those_that_the_chapter_on_attention_plays_with():
    draw = torch.Generator().manual_seed(0)
    order = torch.rand(16, 20, generator=draw).argsort(dim=1)
    period = torch.randint(4, 13, (16, 1), generator=draw)
    played = order.gather(1, torch.arange(24) % period)
    tokens, wanted, known = repeats(16, seed=0)
    assert torch.equal(tokens, played[:, :-1]) and torch.equal(wanted, played[:, 1:])
    assert torch.equal(known, torch.arange(1, 24) > period)


def test_the_shortest_repeats_leave_one_to_know():
    tokens, wanted, known = repeats(1, 3, 2, seed=0, shortest=1, longest=1)
    assert tokens.unique().numel() == 1 and known.tolist() == [[False, True]]


def test_counting_by_hand():
    tokens, wanted, known = counting(1, 4, seed=0, shortest=4)
    assert tokens.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]
    assert wanted.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2]]
    assert known.tolist() == [[False] * 4 + [True] * 4]
    tokens, wanted, known = counting(500, 3, seed=0)
    rows = {
        (tuple(t), tuple(w), tuple(k))
        for t, w, k in zip(tokens.tolist(), wanted.tolist(), known.tolist(), strict=True)
    }
    assert {t + w[-1:] for t, w, _ in rows} == {
        (0, 1, 2, 2, 2, 2, 2),
        (0, 0, 1, 1, 2, 2, 2),
        (0, 0, 0, 1, 1, 1, 2),
    }


def test_counting_draws_evenly_and_knows_the_b_alone():
    tokens, wanted, known = counting(6000, 6, seed=1)
    assert torch.equal(known, tokens == 1)
    k = (tokens == 0).sum(1)
    assert torch.equal(k, known.sum(1)) and ((wanted == 2) & known).sum(1).eq(1).all()
    assert (k.bincount(minlength=7)[1:] / 6000 - 1 / 6).abs().max() < 0.02


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: adding(1, 1, seed=0), "span is a whole number from 2 up, got 1"),
        (lambda: recall(1, 0, seed=0), "span is a whole number from 1 up, got 0"),
        (lambda: recall(1, 5, 1, seed=0), "symbols is a whole number from 2 up, got 1"),
        (lambda: repeats(1, seed=0, shortest=0), "shortest is a .* from 1 up, got 0"),
        (lambda: repeats(1, seed=0, longest=3), "longest is a .* from 4 up, got 3"),
        (lambda: repeats(1, 24, 11, seed=0), "symbols is a .* from 12 up, got 11"),
        (lambda: repeats(1, 13, seed=0), "length is a .* from 14 up, got 13"),
        (lambda: counting(1, 0, seed=0), "longest is a .* from 1 up, got 0"),
        (lambda: counting(1, 5, seed=0, shortest=0), "shortest is a .* from 1 up, got 0"),
        (lambda: counting(1, 5, seed=0, shortest=6), "longest is a .* from 6 up, got 5"),
    ],
)
def test_sequences_refuse(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_tokens_are_the_same_everywhere():
    numbers, _ = adding(50, 20, seed=0, dtype=torch.float64)
    drawn = [2**24 * numbers, *recall(50, 20, seed=0), *counting(50, 9, seed=0)[:2]]
    drawn += [*repeats(50, seed=0)[:2], *translation(50, seed=0)]
    drawn += [encode(sentences(50, seed=0)), as_numbers(text(5000, seed=0))]
    assert [checksum(tokens) for tokens in drawn] == TOKENS


# ---- language


def spoken(symbol):
    """Every string of words that a symbol may become, with its probability, by brute force."""
    if symbol not in RULES:
        return Counter({(symbol,): 1.0})
    said = Counter()
    for way in RULES[symbol]:
        strings = Counter({(): 1 / len(RULES[symbol])})
        for part in way:
            tails = spoken(part)
            strings = Counter(
                {head + tail: p * q for head, p in strings.items() for tail, q in tails.items()}
            )
        for string, p in strings.items():
            said[string] += p
    return said


def surprise(said):
    return -sum(p * math.log(p) for p in said.values())


@pytest.mark.parametrize("symbol", sorted(set(RULES) - {"S", "ONE", "MANY", "DO", "DOES"}))
def test_entropy_of_a_rule_is_that_of_the_strings_it_says(symbol):
    said = spoken(symbol)
    assert sum(said.values()) == pytest.approx(1, rel=1e-12)
    assert language._entropy(symbol) == pytest.approx(surprise(said), rel=1e-12)
    words = sum(p * len(string) for string, p in said.items())
    assert language._length(symbol, "word") == pytest.approx(words, rel=1e-12)


@pytest.fixture
def small_talk(monkeypatch):
    """The same grammar with fewer words in it, so that all it says can be written down."""
    for name in ("CAT", "CATS", "WHEN", "WAY", "SEES", "SEE"):
        monkeypatch.setitem(RULES, name, RULES[name][:2])
    monkeypatch.setitem(RULES, "LIKE", RULES["LIKE"][:3])
    for verb in ("DOES", "DO"):
        monkeypatch.setitem(RULES, verb, RULES[verb][2:])
    language._entropy.cache_clear(), language._length.cache_clear()
    yield
    language._entropy.cache_clear(), language._length.cache_clear()


def test_entropy_is_that_of_all_sentences_there_are(small_talk):
    said = spoken("S")
    assert len(said) == 2 * (3 * 2 * 2 + 3 * 2 * 3 * 4) * 9 * (2 + 2 * 3 * 4)
    assert sum(said.values()) == pytest.approx(1, rel=1e-9)
    assert entropy("sentence") == pytest.approx(surprise(said), rel=1e-9)
    words = sum(p * len(string) for string, p in said.items())
    assert entropy("word") == pytest.approx(surprise(said) / words, rel=1e-9)
    written = sum(p * len(" ".join(s).replace(" .", ".") + " ") for s, p in said.items())
    assert entropy("character") == pytest.approx(surprise(said) / written, rel=1e-9)
    for string, p in list(said.items())[::97]:
        assert log_probability(" ".join(string)) == pytest.approx(math.log(p), rel=1e-12)


def test_entropy_is_the_mean_surprise_of_what_is_drawn():
    drawn = sentences(4000, seed=5)
    surprises = -torch.tensor([log_probability(s) for s in drawn], dtype=torch.float64)
    error = surprises.std() / 4000**0.5
    assert abs(surprises.mean() - entropy("sentence")) < 3 * error < 0.15
    per_word = surprises.sum() / sum(len(s.split()) for s in drawn)
    assert per_word.item() == pytest.approx(entropy("word"), rel=0.01)


def test_entropy_of_the_text_is_that_of_its_sentences():
    said = text(100_000, seed=2)
    whole = re.findall(r"[^.]+\.", said)
    surprises = [log_probability(sentence.replace(".", " .")) for sentence in whole]
    used = sum(len(sentence) for sentence in whole)
    assert used > 99_900
    assert -sum(surprises) / used == pytest.approx(entropy(), rel=0.01)
    assert entropy() == entropy("character") == pytest.approx(0.394, abs=5e-4)


def test_no_sentence_can_be_read_in_two_ways():
    thrown = 0
    for sentence, row in zip(
        sentences(300, seed=8),
        torch.randint(language.SIDES, (300, language.DICE), generator=generator(8)).tolist(),
        strict=True,
    ):
        dice, p = iter(row), 1.0
        stack, said = ["S"], []
        while stack:
            symbol = stack.pop()
            if symbol in RULES:
                ways = RULES[symbol]
                way = ways[next(dice) % len(ways)]
                p *= ways.count(way) / len(ways)
                stack += reversed(way)
            else:
                said.append(symbol)
        thrown = max(thrown, language.DICE - len(list(dice)))
        assert " ".join(said) == sentence
        assert log_probability(sentence) == pytest.approx(math.log(p), rel=1e-12)
    assert 10 < thrown <= language.DICE


def test_a_sentence_never_runs_out_of_dice():
    def most(symbol):
        ways = RULES.get(symbol)
        return 1 + max(sum(map(most, way)) for way in ways) if ways else 0

    assert most("S") == 15 < language.DICE
    assert all(language.SIDES % len(ways) == 0 for ways in RULES.values())


@pytest.mark.parametrize(
    "said",
    [
        "the owl sing .",
        "the owls sings .",
        "the owl near the dogs sing .",
        "owl the sings .",
        "the owl sings",
        "the owl sings . the",
        "the cat meows .",
        "the owl quietly often sings .",
    ],
)
def test_what_the_grammar_does_not_say_has_no_probability(said):
    assert log_probability(said) == -math.inf


def test_probability_by_hand():
    # one of two numbers; a plain subject 2/3, the 1/2, no adjective 1/3, one noun of eight;
    # no adverb 1/4; one verb of six
    by_hand = 1 / 2 * 2 / 3 * 1 / 2 * 1 / 3 * 1 / 8 * 1 / 4 * 1 / 6
    assert log_probability("the owl sings .") == pytest.approx(math.log(by_hand), rel=1e-12)


def test_verbs_agree_with_their_noun_whatever_stands_between():
    seen = Counter()
    for sentence in sentences(1500, seed=3):
        words = sentence.split()
        (verb,) = (i for i, word in enumerate(words) if word in VERBS)
        nouns = [i for i, word in enumerate(words) if word in NOUNS]
        wrong = [*words[:verb], VERBS[words[verb]], *words[verb + 1 :]]
        assert log_probability(sentence) > -math.inf == log_probability(" ".join(wrong))
        before = [i for i in nouns if i < verb]
        many = {i: (words[i],) in RULES["CATS"] for i in before}
        assert many[before[0]] == any((words[verb],) in RULES[name] for name in ("DO", "SEE"))
        seen["adverbs", verb - before[-1] - 1] += 1
        seen["attracted"] += len(before) == 2 and len(set(many.values())) == 2
    assert {n for key, n in [k for k in seen if k != "attracted"]} == {0, 1, 2}
    assert seen["adverbs", 2] / 1500 == pytest.approx(1 / 4, abs=0.03)
    assert seen["attracted"] / 1500 == pytest.approx(1 / 6, abs=0.03)


def test_words_come_in_pairs_and_in_one_number_only():
    assert len(NOUNS) == 16 and len(VERBS) == 16
    for pairs in (NOUNS, VERBS):
        assert all(pairs[other] == word != other for word, other in pairs.items())
    assert NOUNS["mouse"] == "mice" and VERBS["see"] == "sees"
    assert set(WORDS) == {word for s in sentences(4000, seed=0) for word in s.split()}


def test_text_is_written_with_its_alphabet_and_goes_on():
    said = text(20_000, seed=6)
    assert len(said) == 20_000 and set(said) == set(ALPHABET) and len(ALPHABET) == 25
    assert list(ALPHABET) == sorted(ALPHABET)
    assert text(100, seed=6) == said[:100] and len(text(1, seed=6)) == 1
    first = sentences(3, seed=6)
    assert said.startswith(" ".join(first).replace(" .", "."))
    assert "  " not in said and " ." not in said and not re.search(r"\.[^ ]", said)


def test_encode_is_the_place_in_the_vocabulary():
    drawn = sentences(50, seed=0)
    ids = encode(drawn)
    assert ids.shape == (50, max(len(s.split()) for s in drawn)) and ids.dtype == torch.int64
    assert [" ".join(VOCABULARY[i] for i in row if i) for row in ids.tolist()] == drawn
    assert VOCABULARY[:3] == ("[PAD]", "[CLS]", "[MASK]") and len(set(VOCABULARY)) == 52
    assert encode(["[CLS] the [MASK]", "owl"]).tolist()[0][0::2] == [1, 2]


def test_language_refuses():
    with pytest.raises(ValueError, match="encode wants words of VOCABULARY, got 'meows'"):
        encode(["the cat sleeps .", "the cat meows ."])
    with pytest.raises(ValueError, match="encode wants at least one sentence, got none"):
        encode([])
    with pytest.raises(ValueError, match="unit is one of character, word, sentence, got 'bit'"):
        entropy("bit")
    with pytest.raises(ValueError, match="log_probability wants a sentence, got no words"):
        log_probability(" ")


# ---- translation


@pytest.mark.parametrize(
    ("number", "in_german", "in_english"),
    [
        (1, "eins", "one"),
        (7, "sieben", "seven"),
        (10, "zehn", "ten"),
        (12, "zwölf", "twelve"),
        (17, "siebzehn", "seventeen"),
        (20, "zwanzig", "twenty"),
        (21, "ein und zwanzig", "twenty one"),
        (30, "dreißig", "thirty"),
        (99, "neun und neunzig", "ninety nine"),
        (100, "ein hundert", "one hundred"),
        (101, "ein hundert eins", "one hundred one"),
        (616, "sechs hundert sechzehn", "six hundred sixteen"),
        (1000, "ein tausend", "one thousand"),
        (2040, "zwei tausend vierzig", "two thousand forty"),
        (
            9999,
            "neun tausend neun hundert neun und neunzig",
            "nine thousand nine hundred ninety nine",
        ),
    ],
)
def test_numbers_are_said_as_germans_and_americans_say_them(number, in_german, in_english):
    assert " ".join(german(number)) == in_german
    assert " ".join(english(number)) == in_english


def test_every_number_is_said_in_its_own_way_with_the_words_there_are():
    for say, vocabulary, longest in ((german, GERMAN, 7), (english, ENGLISH, 6)):
        said = [tuple(say(number)) for number in range(1, 10_000)]
        assert len(set(said)) == 9_999 and max(map(len, said)) == longest
        assert set(vocabulary) == {"[PAD]", "[START]", "[STOP]"}.union(*said)
        assert len(set(vocabulary)) == len(vocabulary)


def test_english_means_the_number():
    worth = dict(zip(ENGLISH[3:30], [*range(1, 20), *range(20, 100, 10)], strict=True))
    for number in range(1, 10_000):
        total = 0
        for word in english(number):
            times = {"hundred": 100, "thousand": 1000}.get(word)
            if times:
                total += (times - 1) * (total % 10)
            else:
                total += worth[word]
        assert total == number


def test_translations_are_those_of_their_numbers():
    source, target, numbers = translation(200, seed=0, part="all")
    assert source.shape == (200, 7) and target.shape == (200, 8) and numbers.shape == (200,)
    for ids, goal, number in zip(source.tolist(), target.tolist(), numbers.tolist(), strict=True):
        said = [GERMAN[i] for i in ids if i]
        meant = [ENGLISH[i] for i in goal if i]
        assert said == german(number) and ids[len(said) :] == [0] * (7 - len(said))
        assert meant == ["[START]", *english(number), "[STOP]"]
        assert goal[len(meant) :] == [0] * (8 - len(meant))


def test_train_and_test_numbers_are_apart():
    train = set(translation(30_000, seed=0)[2].tolist())
    test = set(translation(20_000, seed=0, part="test")[2].tolist())
    assert not train & test
    assert 7_700 < len(train) <= 8_000 and 1_990 < len(test) <= 1_999
    assert min(train | test) >= 1 and max(train | test) <= 9_999


@pytest.mark.parametrize("number", [0, -3, 10_000, 1.5, "7"])
@pytest.mark.parametrize("say", [german, english])
def test_refuses_a_number_that_it_cannot_say(say, number):
    said = f"only a whole number from 1 to 9999 can be said, got {number!r}"
    with pytest.raises(ValueError, match=said):
        say(number)
