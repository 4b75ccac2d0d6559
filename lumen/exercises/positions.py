"""Exercise set *positions*: the gradient of a table, waves, turned pairs, their layouts, weights.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers. Ids and places are
tuples of whole numbers; a pair has one frequency, whatever its columns.
"""

from __future__ import annotations

import math

import torch

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# positions.gradient


def table_gradient(ids, upstream, n_rows):
    gradient = upstream.new_zeros(n_rows, upstream.size(1))
    return gradient.index_add(0, torch.tensor(ids), upstream)


def _gradient_cases(seed):
    draw = Draw(seed)

    def case(label, ids, d, n_rows, dtype=F32):
        upstream = draw.normal(len(ids), d, dtype=dtype)
        sent = draw.normal(n_rows, d, dtype=dtype)
        return Case(label, {"ids": ids, "upstream": upstream, "n_rows": n_rows}, upstream=sent)

    once, twice, rows = draw.between(0, 2), draw.between(3, 5), draw.between(8, 12)
    return [
        case("every id once", (once, 6, twice), 4, rows),
        case("an id twice", (twice, once, twice, 7), 3, rows),
        case("an id in every place", (once,) * 5, 2, rows - 1),
        case("a single token", (twice,), 5, rows),
        case("two ids in turn, in float64", (once, twice) * 3, 6, rows + 2, F64),
        case("id 0, and the last row unread", (0, once, 0, twice), 2, rows),
        case("the last row read", (rows - 1, 0, rows - 1), 3, rows),
        case("as many tokens as columns", (1, 0, 1), 3, 3),
        case("one row", (0, 0), 1, 1, F64),
    ]


def _one_by_one(combine):
    """Walk over the tokens; ``combine`` takes what a row holds and what arrives, a pair each."""

    def gradient(ids, upstream, n_rows):
        rows = [[] for _ in range(n_rows)]
        for row, arrives in zip(ids, upstream, strict=True):
            rows[row].append(arrives)
        none = torch.zeros_like(upstream[0])
        return torch.stack([combine(found) if found else none for found in rows])

    return gradient


def _written(dtype=None):
    """Read rows, add, and write them back, as an indexed ``+=`` does."""

    def gradient(ids, upstream, n_rows):
        found = torch.zeros(n_rows, upstream.size(1), dtype=dtype or upstream.dtype)
        rows = torch.tensor(ids)
        return found.index_put((rows,), (found[rows] + upstream).to(found.dtype))

    return gradient


def _one_hot(ids, upstream, n_rows):
    one_hot = torch.nn.functional.one_hot(torch.tensor(ids), n_rows)
    return one_hot.to(upstream.dtype).T @ upstream


def _by_autograd(ids, upstream, n_rows):
    table = upstream.new_zeros(n_rows, upstream.size(1)).requires_grad_()
    picked = table[torch.tensor(ids)]
    return torch.autograd.grad(picked, table, upstream, create_graph=True)[0]


def _put(ids, upstream, n_rows):
    found = torch.zeros(n_rows, upstream.size(1), dtype=upstream.dtype)
    return found.index_put((torch.tensor(ids),), upstream, accumulate=True)


_LAST_WINS = (
    "Right while every id occurs once. Where one occurs again, your row keeps what came last and"
    " forgets the rest. An indexed sum that reads, adds and writes back does the same: all its"
    " writes to one row start from the same old value."
)


GRADIENT = Question(
    name="positions.gradient",
    target="table_gradient",
    points=2,
    cases=_gradient_cases,
    reference=table_gradient,
    mistakes={
        "last-wins": (
            _one_by_one(lambda found: found[-1]),
            _LAST_WINS,
        ),
        "written": (_written(), _LAST_WINS),
        "written-float32": (
            _written(F32),
            both(_LAST_WINS, "And zeros are made in float32 unless you say otherwise."),
        ),
        "first-wins": (
            _one_by_one(lambda found: found[0]),
            "Right while every id occurs once. Where one occurs again, your row keeps what came"
            " first. The row was read at each of these places, and each sends something back.",
        ),
        "mean": (
            _one_by_one(lambda found: sum(found) / len(found)),
            "Right while every id occurs once. Nobody divides by the number of occurrences: a"
            " small change of the row changes the output at each place, and the effects add.",
        ),
        "padding": (
            lambda ids, upstream, n_rows: torch.cat(
                [upstream.new_zeros(1, upstream.size(1)), table_gradient(ids, upstream, n_rows)[1:]]
            ),
            "Row 0 gets nothing in your answer. Some layers have such a row for padding; here 0 is"
            " an id like any other.",
        ),
        "gather": (
            lambda ids, upstream, n_rows: upstream,
            "You hand back what arrived, one row for each token. Asked for is the gradient of the"
            " table: one row for each id that there could be.",
        ),
        "too-short": (
            lambda ids, upstream, n_rows: table_gradient(ids, upstream, max(ids) + 1),
            "Your gradient ends with the largest id of the batch. It must have the shape of the"
            " table, with zeros for ids that did not occur.",
        ),
        "transposed": (
            lambda ids, upstream, n_rows: table_gradient(ids, upstream, n_rows).T,
            "You have a column for each id. In the table each id has a row.",
        ),
        "averaged-loss": (
            lambda ids, upstream, n_rows: table_gradient(ids, upstream, n_rows) / len(ids),
            "You divide by the number of tokens. If the loss is a mean, that is in the gradient"
            " that arrives already.",
        ),
        "counts": (
            _one_by_one(lambda found: len(found) * sum(found)),
            "Right while every id occurs once. Where one occurs again you count twice over: the"
            " sum of what arrives has a term for each occurrence as it is.",
        ),
    },
    alternatives={"one-hot": _one_hot, "autograd": _by_autograd, "put": _put},
)


# positions.waves


def wave_table(n, d, base=10000.0):
    column = torch.arange(d)
    speed = base ** (-2 * (column // 2) / d)
    angle = torch.arange(n)[:, None] * speed
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def _wave_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(9, 20), 2 * draw.between(4, 8)

    def case(label, n, d, **kwargs):
        return Case(label, {"n": n, "d": d}, kwargs)

    return [
        case("places and columns", n, d),
        case("two columns", n + 1, 2),
        case("as many places as columns", 6, 6),
        case("an odd width", n, d + 1),
        case("one column", n, 1),
        case("one place", 1, d),
        case("another base", n, d, base=float(draw.between(20, 90))),
        Case("an odd width, another base, by position", dict(n=4, d=5, base=50.0)),
    ]


def _waves(exponent, even=torch.sin, odd=torch.cos, first=0, base=None):
    """A table with another exponent of 1/base for each column, or other functions and places."""

    def table(n, d, base_given=10000.0):
        column = torch.arange(d)
        power = exponent(column, d) * torch.ones(d)
        speed = (base_given if base is None else base) ** -power
        angle = (torch.arange(n) + first)[:, None] * speed
        return torch.where(column % 2 == 0, even(angle), odd(angle))

    return lambda n, d, base=10000.0: table(n, d, base)


def _by_pair(column, d):
    return 2 * (column // 2) / d


def _sines_first(n, d, base=10000.0):
    table = wave_table(n, d, base)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


def _alternating_rows(n, d, base=10000.0):
    angle = torch.arange(n)[:, None] * base ** (-_by_pair(torch.arange(d), d))
    return torch.where(torch.arange(n)[:, None] % 2 == 0, angle.sin(), angle.cos())


def _entry_by_entry(n, d, base=10000.0):
    rows = []
    for t in range(n):
        angles = [t / base ** (2 * (c // 2) / d) for c in range(d)]
        rows.append([math.cos(a) if c % 2 else math.sin(a) for c, a in enumerate(angles)])
    return torch.tensor(rows)


def _shifted_sine(n, d, base=10000.0):
    column = torch.arange(d)
    angle = torch.arange(n)[:, None] * torch.exp(-_by_pair(column, d) * math.log(base))
    return torch.sin(angle + math.pi / 2 * (column % 2))


def _stacked(n, d, base=10000.0):
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d]


WAVES = Question(
    name="positions.waves",
    target="wave_table",
    points=2,
    cases=_wave_cases,
    reference=wave_table,
    mistakes={
        "column": (
            _waves(lambda column, d: 2 * column / d),
            "Your even columns run too fast through the speeds, and a sine has not the speed of"
            " the cosine beside it. In the formula i counts pairs. Which pair is column 5 in?",
        ),
        "column-half": (
            _waves(lambda column, d: column / d),
            "The sines are right. Each cosine has a speed of its own, a little slower than that of"
            " the sine beside it. The two columns of a pair are hands of one clock.",
        ),
        "pair-half": (
            _waves(lambda column, d: (column // 2) / d),
            "Your slowest wave is far too fast: the exponents reach one half instead of nearly one."
            " There are half as many pairs as columns.",
        ),
        "up-to-one": (
            _waves(lambda column, d: (column // 2) / max(math.ceil(d / 2) - 1, 1)),
            "Your last pair has the full base as its wavelength over 2π. Some libraries space the"
            " speeds like that. In the formula here the exponent is divided by the width, and does"
            " not reach one.",
        ),
        "cosine-first": (
            _waves(_by_pair, even=torch.cos, odd=torch.sin),
            "Sines and cosines have changed places. At place 0 a sine is zero: which columns are"
            " zero there?",
        ),
        "halves": (
            _sines_first,
            "The right columns in another order: all sines, then all cosines. A model could be"
            " trained with that; asked for is each sine beside its cosine.",
        ),
        "only-sines": (
            _waves(_by_pair, odd=torch.sin),
            "All your columns are sines. Two equal columns say no more than one; what does the"
            " second of a pair hold?",
        ),
        "from-one": (
            _waves(_by_pair, first=1),
            "Your table starts with place 1. Places are counted from 0, where every sine is zero"
            " and every cosine is one.",
        ),
        "base-fixed": (
            _waves(_by_pair, base=10000.0),
            "Right for the usual base. But the base is an argument, and in some cases it is given.",
        ),
        "rounded-up": (
            _waves(lambda column, d: 2 * (column // 2) / (d + d % 2)),
            "Right for even widths. For an odd one your speeds are those of a table one column"
            " wider: the exponent is divided by the width that was given.",
        ),
        "grows": (
            _waves(lambda column, d: -_by_pair(column, d)),
            "Your waves get faster from left to right. They should get slower: the angle is divided"
            " by the power of the base.",
        ),
        "rows": (
            _alternating_rows,
            "You take the sine for even places and the cosine for odd ones. It is the columns that"
            " alternate.",
        ),
        "transposed": (
            lambda n, d, base=10000.0: wave_table(n, d, base).T,
            "You have a column for each place. A place is a row.",
        ),
        "even-only": (
            lambda n, d, base=10000.0: wave_table(n, d - d % 2, base),
            "Right for even widths. For an odd one a column is missing: the last pair has a sine"
            " and no cosine.",
        ),
    },
    alternatives={
        "entry-by-entry": _entry_by_entry,
        "shifted-sine": _shifted_sine,
        "stacked": _stacked,
    },
)


# positions.rope


def turn_pairs(x, positions, base=10000.0):
    d = x.size(-1)
    if d % 2:
        raise ValueError(f"pairs want an even width, got {d}")
    speed = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle = torch.tensor(positions)[:, None] * speed
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def _rope_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(3, 5), 2 * draw.between(3, 5)
    later = draw.between(6, 30)

    def case(label, shape, positions, dtype=F32, **kwargs):
        x, upstream = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        return Case(label, {"x": x, "positions": positions}, kwargs, upstream=upstream)

    return [
        case("one sequence", (n, d), tuple(range(n))),
        case("a batch with heads", (2, 3, n, d), tuple(range(n))),
        case("places that do not start at 0", (2, n, 4), tuple(range(later, later + n))),
        case("places out of order", (3, d), (later, 1, 7)),
        case("a new token after the others", (2, 1, d), (later,)),
        case("another base", (n, d), tuple(range(n)), base=float(draw.between(20, 90))),
        case("a single pair", (4, 2), (5, 0, 3, 1)),
        case("every axis of the same size", (4, 4, 4), (3, 0, 1, 2)),
        case("in float64", (n, d + 2), tuple(range(2, n + 2)), F64),
        case("an odd width", (2, 5), (0, 1)),
        case("a width of one", (3, 1), (4, 1, 2)),
    ]


def _rope(
    exponent=lambda pair, d: 2 * pair / d,
    places=lambda positions: positions,
    base=None,
    turn=lambda a, b, cos, sin: (a * cos - b * sin, a * sin + b * cos),
    halves=False,
):
    """Rotary positions that are wrong in one way."""

    def turned(x, positions, base_given=10000.0):
        d = x.size(-1)
        if d % 2:
            raise ValueError("odd")
        pair = torch.arange(d // 2, dtype=x.dtype)
        power = exponent(pair, d) * torch.ones_like(pair)
        speed = (base_given if base is None else base) ** -power
        angle = torch.tensor(places(positions), dtype=x.dtype)[:, None] * speed
        a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
        pairs = turn(a, b, angle.cos(), angle.sin())
        if halves:
            return torch.cat(pairs, dim=-1)
        return torch.stack(pairs, dim=-1).flatten(-2)

    return lambda x, positions, base=10000.0: turned(x, positions, base)


def _unstacked(x, positions, base=10000.0):
    """The parts of the turned pairs side by side, all first ones before all second ones."""
    turned = turn_pairs(x, positions, base)
    return torch.cat([turned[..., 0::2], turned[..., 1::2]], dim=-1)


def _unrefused(x, positions, base=10000.0):
    even = x.size(-1) - x.size(-1) % 2
    if not even:
        return x * 1
    return torch.cat([turn_pairs(x[..., :even], positions, base), x[..., even:]], dim=-1)


def _unchecked(dtype=None):
    """Right for even widths; an odd one is left to fail on its own."""

    def turned(x, positions, base=10000.0):
        d = x.size(-1)
        exponent = torch.arange(0, d, 2, dtype=dtype or x.dtype) / d
        angle = torch.tensor(positions)[:, None] * base**-exponent
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    return turned


def _float32_angles(x, positions, base=10000.0):
    if x.size(-1) % 2:
        raise ValueError("odd")
    return _unchecked(F32)(x, positions, base)


def _complex(x, positions, base=10000.0):
    if x.size(-1) % 2:
        raise ValueError("an odd width has no pairs")
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    exponent = torch.arange(pairs.size(-1), dtype=x.dtype) / pairs.size(-1)
    angle = torch.tensor(positions, dtype=x.dtype).unsqueeze(-1) / base**exponent
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def _swapped_pairs(x, positions, base=10000.0):
    d = x.size(-1)
    if d % 2 == 1:
        raise ValueError("odd")
    exponent = torch.arange(d, dtype=x.dtype) // 2 * 2 / d
    angle = torch.tensor(positions, dtype=x.dtype)[:, None] * base**-exponent
    other = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).reshape(x.shape)
    return x * angle.cos() + other * angle.sin()


def _matrices(x, positions, base=10000.0):
    d = x.size(-1)
    if d % 2:
        raise ValueError("odd")
    turned = []
    for j, place in enumerate(positions):
        turn = torch.zeros(d, d, dtype=x.dtype)
        for i in range(0, d, 2):
            angle = place * base ** (-i / d)
            cos, sin = math.cos(angle), math.sin(angle)
            turn[i : i + 2, i : i + 2] = torch.tensor([[cos, -sin], [sin, cos]], dtype=x.dtype)
        turned.append(x[..., j, :] @ turn.T)
    return torch.stack(turned, dim=-2)


_REFUSE = (
    "Right for even widths. For an odd one the last number has no partner, and asked for is a"
    " refusal of your own, before any arithmetic."
)
_IN_FLOAT32 = (
    "Right in float32. In float64 your numbers are off in the eighth digit: somewhere an angle is"
    " computed in float32. Of which dtype are your exponents?"
)


ROPE = Question(
    name="positions.rope",
    target="turn_pairs",
    points=2,
    cases=_rope_cases,
    reference=turn_pairs,
    mistakes={
        "halves": (
            _rope(halves=True),
            "You pair each coordinate with the one half a width away. That is the other layout in"
            " use; asked for are neighbours.",
        ),
        "ignores-positions": (
            _rope(places=lambda positions: tuple(range(len(positions)))),
            "Right for places 0, 1, 2 and so on. In other cases you turn as if the sequence began"
            " at 0: with a cache a new token stands alone, and its place is not 0.",
        ),
        "from-first": (
            _rope(
                places=lambda positions: tuple(range(positions[0], positions[0] + len(positions)))
            ),
            "Right where the places follow one another. You count on from the first; each token has"
            " a place of its own among those given, and they may come in any order.",
        ),
        "base-fixed": (
            _rope(base=10000.0),
            "Right for the usual base. But the base is an argument, and in some cases it is given.",
        ),
        "from-one": (
            _rope(places=lambda positions: tuple(t + 1 for t in positions)),
            "You turn each token by one place too far. Scores would not show it, since they see"
            " differences; what should a token at place 0 look like?",
        ),
        "backwards": (
            _rope(turn=lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin)),
            "You turn the other way round. Take the pair (1, 0) and a small angle: does the second"
            " number become positive?",
        ),
        "mirrored": (
            _rope(turn=lambda a, b, cos, sin: (a * cos - b * sin, a * sin - b * cos)),
            "Your second number has a wrong sign in it, and what you do is a reflection. A rotation"
            " by the angle zero changes nothing.",
        ),
        "both-plus": (
            _rope(turn=lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)),
            "Your pairs change their length. A rotation has one minus sign in it, and where it"
            " stands decides the direction.",
        ),
        "only-first": (
            _rope(turn=lambda a, b, cos, sin: (a * cos - b * sin, b)),
            "The first number of each pair is right and the second is as it came. Both move.",
        ),
        "overwritten": (
            _rope(
                turn=lambda a, b, cos, sin: (
                    a * cos - b * sin,
                    (a * cos - b * sin) * sin + b * cos,
                )
            ),
            "The first number of each pair is right. For the second you have used the first as it"
            " is after the turn; the formula wants it as it was before.",
        ),
        "pair-half": (
            _rope(exponent=lambda pair, d: pair / d),
            "Your slowest pair is far too fast: the exponents reach one half instead of nearly one."
            " There are half as many pairs as coordinates.",
        ),
        "column": (
            _rope(exponent=lambda pair, d: 4 * pair / d),
            "Your pairs slow down too fast. The exponent is 2i over the width, where i counts"
            " pairs: 0, 1, 2 and so on. Do you multiply a number by two that is doubled already?",
        ),
        "one-speed": (
            _rope(exponent=lambda pair, d: 0 * pair),
            "All your pairs turn at the same speed, one radian a place. Each pair has its own.",
        ),
        "grows": (
            _rope(exponent=lambda pair, d: -2 * pair / d),
            "Your pairs turn faster and faster from left to right. Later ones should be slower.",
        ),
        "side-by-side": (
            _unstacked,
            "The right numbers in another order: all first ones of the pairs, then all second ones."
            " Each turned pair goes back to the places from which it came.",
        ),
        "unrefused": (_unrefused, _REFUSE),
        "unchecked": (_unchecked(), _REFUSE),
        "float32": (_float32_angles, _IN_FLOAT32),
        "unchecked-float32": (_unchecked(F32), both(_REFUSE, _IN_FLOAT32)),
    },
    alternatives={
        "complex": _complex,
        "swapped-pairs": _swapped_pairs,
        "matrices": _matrices,
    },
)


# positions.layout


def rows_to_halves(weight, n_heads):
    heads = weight.unflatten(0, (n_heads, -1, 2))
    return heads.transpose(1, 2).flatten(0, 2)


def _layout_cases(seed):
    draw = Draw(seed)
    h, d = draw.between(2, 4), draw.between(5, 9)

    def case(label, n_heads, d_head, d_in, dtype=F32):
        shape = (n_heads * d_head, d_in)
        weight, upstream = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        return Case(label, {"weight": weight, "n_heads": n_heads}, upstream=upstream)

    return [
        case("several heads", h, 6, d),
        case("one head", 1, 8, d),
        case("as wide as high", 2, 4, 8),
        case("heads of one pair", h, 2, d),
        case("three heads of four", 3, 4, d + 1),
        case("in float64", h + 1, 10, 3, F64),
        case("one input", 2, 6, 1),
    ]


def _reordered(order):
    """Reorder the rows of each head by the places that ``order`` gives for its width."""

    def reorder(weight, n_heads):
        heads = weight.unflatten(0, (n_heads, -1))
        return heads[:, order(heads.size(1))].flatten(0, 1)

    return reorder


def _evens_then_odds(d):
    return torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])


def _row_by_row(weight, n_heads):
    d_head, rows = len(weight) // n_heads, []
    for head in range(n_heads):
        for part in (0, 1):
            rows += [weight[head * d_head + i] for i in range(part, d_head, 2)]
    return torch.stack(rows)


def _permutation(weight, n_heads):
    n = weight.size(0)
    places = torch.arange(n).view(n_heads, n // n_heads // 2, 2)
    matrix = torch.eye(n, dtype=weight.dtype)[places.mT.reshape(-1)]
    return matrix @ weight


LAYOUT = Question(
    name="positions.layout",
    target="rows_to_halves",
    points=2,
    cases=_layout_cases,
    reference=rows_to_halves,
    mistakes={
        "across-heads": (
            lambda weight, n_heads: rows_to_halves(weight, 1),
            "Right for one head. With several you have sorted the rows of the whole matrix, and"
            " heads are mixed: each head keeps its own block of rows.",
        ),
        "the-way-back": (
            _reordered(lambda d: _evens_then_odds(d).argsort()),
            "You go the other way: from halves to pairs. Which rows of yours does a head find at"
            " its first half? They should be those that were first in their pairs.",
        ),
        "odds-first": (
            _reordered(lambda d: _evens_then_odds(d).roll(d // 2)),
            "The halves have changed places. The first number of each pair goes to the first half.",
        ),
        "columns": (
            lambda weight, n_heads: weight[:, _evens_then_odds(weight.size(1))],
            "You have reordered columns, that is, what the projection reads. The layout is one of"
            " what it puts out.",
        ),
        "untouched": (
            lambda weight, n_heads: weight * 1,
            "The rows are where they were. With these weights the other layout would turn numbers"
            " together that never were a pair.",
        ),
        "swapped": (
            _reordered(lambda d: torch.arange(d).view(-1, 2).flip(1).flatten()),
            "You have exchanged the two numbers of each pair, and they are neighbours still. In the"
            " other layout they lie half a head apart.",
        ),
        "reversed": (
            _reordered(lambda d: torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2).flip(0)])),
            "The first half is right, the second runs backwards. Both halves list the pairs in"
            " the same order.",
        ),
        "heads-inside": (
            lambda weight, n_heads: (
                weight.unflatten(0, (-1, n_heads, 2)).transpose(1, 2).flatten(0, 2)
            ),
            "Number of heads and width of a head have changed places: you cut the rows into blocks"
            " of twice the number of heads. How many rows belong to one head?",
        ),
        "stay-apart": (
            lambda weight, n_heads: (
                weight.unflatten(0, (n_heads, -1, 2)).transpose(0, 2).flatten(0, 2)
            ),
            "Your pairs are taken apart across all heads. Each head keeps its block of rows, and"
            " within the block the halves form.",
        ),
    },
    alternatives={
        "order": _reordered(_evens_then_odds),
        "row-by-row": _row_by_row,
        "permutation": _permutation,
    },
)


# positions.count


def language_model_params(vocab, d, layers, n_positions=0, tied=True):
    tables = vocab if tied else 2 * vocab
    return d * (tables + n_positions) + layers * 12 * d * d


def _count_cases(seed):
    draw = Draw(seed)
    vocab, d, layers = draw.between(100, 900), draw.between(5, 60), draw.between(3, 9)
    places = draw.between(20, 90)

    def case(label, vocab, d, layers, **kwargs):
        return Case(label, {"vocab": vocab, "d": d, "layers": layers}, kwargs)

    return [
        case("a table of the chapter", 128_000, 4096, 32),
        case("the same, untied", 128_000, 4096, 32, tied=False),
        case("other sizes", vocab, d, layers),
        case("learned positions", vocab, d, layers, n_positions=places),
        case("learned positions, untied", vocab, d, layers, n_positions=places, tied=False),
        case("one of each", 1, 1, 1),
        case("no block, untied", vocab, d, 0, tied=False),
        Case(
            "all by position",
            dict(vocab=vocab, d=d + 1, layers=layers, n_positions=7, tied=False),
        ),
    ]


def _on_meta(vocab, d, layers, n_positions=0, tied=True):
    def tensor(*shape):
        return torch.empty(shape, device="meta")

    words = tensor(vocab, d)
    head = words if tied else tensor(vocab, d)
    everything = [words, head, tensor(n_positions, d)]
    for _ in range(layers):
        everything += [tensor(d, d) for _ in range(4)] + [tensor(4 * d, d), tensor(d, 4 * d)]
    return sum(each.numel() for each in {id(each): each for each in everything}.values())


def _part_by_part(vocab, d, layers, n_positions=0, tied=True):
    total = vocab * d + n_positions * d
    if not tied:
        total += vocab * d
    for _ in range(layers):
        total += 4 * d**2 + 8 * d**2
    return total


def _off(change):
    """The right count, changed by what the sizes give."""

    def count(vocab, d, layers, n_positions=0, tied=True):
        right = language_model_params(vocab, d, layers, n_positions, tied)
        return change(right, vocab, d, layers, n_positions, tied)

    return count


COUNT = Question(
    name="positions.count",
    target="language_model_params",
    points=2,
    cases=_count_cases,
    reference=language_model_params,
    mistakes={
        "listed-twice": (
            _off(lambda right, v, d, n, p, tied: right + tied * v * d),
            "Right where the ends have a table each. A tied table has two names and is one tensor:"
            " a list of names counts it twice.",
        ),
        "once-always": (
            _off(lambda right, v, d, n, p, tied: right - (not tied) * v * d),
            "Right where the table serves both ends. Untied, the output has one of its own.",
        ),
        "turned-round": (
            _off(lambda right, v, d, n, p, tied: right + (v * d if tied else -v * d)),
            "You count a table more where the ends share one, and one less where they do not. Does"
            " tying save weights or cost them?",
        ),
        "no-positions": (
            _off(lambda right, v, d, n, p, tied: right - p * d),
            "Right without learned positions. Where there are some, each place has a row as wide as"
            " that of a word.",
        ),
        "positions-bare": (
            _off(lambda right, v, d, n, p, tied: right - p * d + p),
            "You count one number for each place. Each place has a whole row.",
        ),
        "positions-each-layer": (
            _off(lambda right, v, d, n, p, tied: right + (n - 1) * p * d),
            "Your learned positions are there once for each block. They are added to the tokens"
            " once, before the first.",
        ),
        "positions-twice": (
            _off(lambda right, v, d, n, p, tied: right + (not tied) * p * d),
            "Untied, you have doubled the positions together with the words. The output scores"
            " words, and no places.",
        ),
        "no-words": (
            _off(lambda right, v, d, n, p, tied: right - v * d * (1 if tied else 2)),
            "You have left out the tables of words. Looking a row up costs no arithmetic, but the"
            " rows are weights.",
        ),
        "attention-alone": (
            _off(lambda right, v, d, n, p, tied: right - 8 * n * d * d),
            "Your blocks have their attention and no dense net. With one four times as wide there"
            " are two matrices more, and large ones.",
        ),
        "offsets-too": (
            _off(lambda right, v, d, n, p, tied: right + n * 13 * d),
            "You count the offsets and the norms of the blocks as well. They are 13 widths a block"
            " in such models, and the question leaves them out.",
        ),
        "one-block": (
            _off(lambda right, v, d, n, p, tied: right - (n - 1) * 12 * d * d),
            "You have counted one block. How many there are is an argument.",
        ),
        "float": (
            _off(lambda right, v, d, n, p, tied: float(right)),
            "The number is right, its type is not: there is no half weight.",
        ),
    },
    alternatives={"meta-tensors": _on_meta, "part-by-part": _part_by_part},
)


QUESTIONS = (GRADIENT, WAVES, ROPE, LAYOUT, COUNT)
