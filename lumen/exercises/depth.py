"""Exercise set *depth*: pieces of a line, folds, and what width and depth cost.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import torch

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

# depth.pieces


def count_pieces(weight, bias, out):
    units = zip(weight, bias, out, strict=True)
    jumps = Counter()
    for place, jump in [(-b / w, v * abs(w)) for w, b, v in units if w]:
        jumps[place] += jump
    return 1 + sum(1 for jump in jumps.values() if jump)


def _pieces_cases(seed):
    draw = Draw(seed)
    n = draw.between(6, 12)
    places = torch.randperm(40, generator=draw.generator)[:n].tolist()
    steep = [(1, -2, 4, -1, 2)[draw.between(0, 4)] for _ in places]
    out = [(3, -1, 2, -5)[draw.between(0, 3)] for _ in places]
    bias = [-w * place / 8 for w, place in zip(steep, places, strict=True)]

    def case(label, weight, bias, out):
        return Case(label, {"weight": tuple(weight), "bias": tuple(bias), "out": tuple(out)})

    # the second half of the units sits where the first half does
    half = n // 2
    twice = [-w * place / 8 for w, place in zip(steep, places[:half] * 2, strict=False)]
    return [
        case("all hinges apart", steep, bias, out),
        case("one fold", (2, -2), (-1, 1), (1, 1)),
        case("one unit", (steep[0],), (bias[0],), (out[0],)),
        case("a hinge at zero", (2, -1, 4), (0, 0, -1), (1, 1, 2)),
        case("hinges in the same place", steep[: 2 * half], twice, [3] * (2 * half)),
        case("a weight of zero", (0, 2, 0), (1, -1, 1), (1, 1, 3)),
        case("a unit that nobody reads", (*steep, 4), (*bias, 44), (*out, 0)),
        case("two that cancel", (2, 1, 4), (-1, -0.5, 3), (1, -2, 1)),
        case("two that cancel, facing each other", (2, -1, 4), (-1, 0.5, 3), (1, -2, 1)),
        case("opposite signs, not equally steep", (2, 1, 4), (-1, -0.5, 3), (1, -1, 1)),
        case("of weights that only seem to cancel", (1, -4, 2), (-2, 8, 1), (4, 1, -1)),
    ]


def _kinks_where(keep, place=lambda w, b: -b / w):
    """One more than the number of different places of the units that are kept."""

    def count(weight, bias, out):
        units = zip(weight, bias, out, strict=True)
        return 1 + len({place(w, b) for w, b, v in units if keep(w, v)})

    return count


def _between_zero_and_one(weight, bias, out):
    units = zip(weight, bias, out, strict=True)
    return 1 + len({-b / w for w, b, v in units if w and v and 0 < -b / w < 1})


def _each_unit(weight, bias, out):
    return 1 + sum(1 for w, v in zip(weight, out, strict=True) if w and v)


def _signed_jumps(weight, bias, out):
    jumps = Counter()
    for w, b, v in zip(weight, bias, out, strict=True):
        if w:
            jumps[-b / w] += v * w
    return 1 + sum(1 for jump in jumps.values() if jump)


def _unweighted_jumps(weight, bias, out):
    jumps = Counter()
    for w, b, v in zip(weight, bias, out, strict=True):
        if w:
            jumps[-b / w] += v
    return 1 + sum(1 for jump in jumps.values() if jump)


def _upward_jumps(weight, bias, out):
    jumps = Counter()
    for w, b, v in zip(weight, bias, out, strict=True):
        if w:
            jumps[-b / w] += v * abs(w)
    return 1 + sum(1 for jump in jumps.values() if jump > 0)


def _by_slopes(weight, bias, out):
    """The slope on each stretch between two hinges, in exact fractions."""
    units = [tuple(map(Fraction, unit)) for unit in zip(weight, bias, out, strict=True)]
    places = sorted({-b / w for w, b, _ in units if w})
    if not places:
        return 1
    middles = [(low + high) / 2 for low, high in zip(places, places[1:], strict=False)]
    probes = [places[0] - 1, *middles, places[-1] + 1]
    slopes = [sum(v * w for w, b, v in units if w * x + b > 0) for x in probes]
    return 1 + sum(a != b for a, b in zip(slopes, slopes[1:], strict=False))


def _by_groups(weight, bias, out):
    units = [(b / w, v * abs(w)) for w, b, v in zip(weight, bias, out, strict=True) if w != 0]
    bends = [
        place for place in {p for p, _ in units} if sum(j for p, j in units if p == place) != 0
    ]
    return len(bends) + 1


PIECES = Question(
    name="depth.pieces",
    target="count_pieces",
    points=2,
    cases=_pieces_cases,
    reference=count_pieces,
    mistakes={
        "units-and-one": (
            lambda weight, bias, out: len(weight) + 1,
            "That is the most that so many units can do. Units may hinge in one place, have no"
            " hinge, or go unread: what must be true of a unit for it to bend the line?",
        ),
        "kinks": (
            lambda weight, bias, out: count_pieces(weight, bias, out) - 1,
            "You have counted the kinks. A line with one kink has two pieces.",
        ),
        "units": (
            lambda weight, bias, out: len(weight),
            "That is the number of units, whatever their weights. Draw the line of a net with one"
            " unit: how many straight pieces has it?",
        ),
        "each-unit": (
            _each_unit,
            "Right while all hinges are apart. Two units whose hinges lie in the same place bend"
            " the line there once, or not at all.",
        ),
        "each-place": (
            _kinks_where(lambda w, v: w and v),
            "Right unless two units in the same place undo each other. The line has a kink where"
            " its slope changes: by how much does each unit change it?",
        ),
        "each-hinge": (
            lambda weight, bias, out: 1 + sum(1 for w in weight if w),
            "You leave out the units that have no hinge. Of those that have one, some share their"
            " place with another, and some are not read at all.",
        ),
        "strip": (
            _between_zero_and_one,
            "You have looked at x from 0 to 1 only. Asked for is the whole line.",
        ),
        "unread": (
            _kinks_where(lambda w, v: w),
            "A unit that is weighted with zero on the way out has a hinge, and the line does not"
            " show it.",
        ),
        "signed": (
            _signed_jumps,
            "Your line loses the kink of a fold. At its hinge a unit that opens to the left and one"
            " that opens to the right bend the line the same way: does the sign of the weight"
            " matter for the change of slope?",
        ),
        "one-way": (
            _upward_jumps,
            "You have counted the bends in which the line turns upward. A hinge that is weighted"
            " below zero on the way out bends it downward, and that makes a piece as well.",
        ),
        "unweighted": (
            _unweighted_jumps,
            "How sharp a bend is depends on the weight on the way out and on that on the way in."
            " Your jumps know only one of them, so you miss some that cancel.",
        ),
        "no-hinge": (
            lambda weight, bias, out: count_pieces(weight, bias, out) + (0 in weight),
            "Right unless a unit has a weight of zero. Such a unit gives the same for every x, so"
            " it lifts the line and bends it nowhere.",
        ),
        "float": (
            lambda weight, bias, out: float(count_pieces(weight, bias, out)),
            "The number is right, its type is not. Pieces are counted in whole numbers.",
        ),
    },
    alternatives={"slopes": _by_slopes, "groups": _by_groups},
)


# depth.zigzag


def zigzag(x, folds):
    for _ in range(folds):
        x = (2 * x - 1).abs()
    return x


def _zigzag_cases(seed):
    draw = Draw(seed)

    def case(label, shape, folds, dtype=torch.float32):
        x = torch.rand(shape, generator=draw.generator, dtype=dtype, device="cpu")
        upstream = draw.normal(*shape, dtype=dtype)
        return Case(label, {"x": x, "folds": folds}, upstream=upstream)

    n = draw.between(5, 9)
    return [
        case("one fold", (n,), 1),
        case("two folds", (n + 1,), 2),
        case("three folds", (2, n), 3),
        case("five folds, a column", (n, 1), 5),
        case("no fold", (3, 2), 0),
        case("eight folds, in float64", (4, n), 8, torch.float64),
        case("a single number", (), 4, torch.float64),
    ]


def _repeat(step):
    def function(x, folds):
        for _ in range(folds):
            x = step(x)
        return x

    return function


def _two_hinges(x, folds):
    for _ in range(folds):
        x = torch.relu(2 * x - 1) + torch.relu(1 - 2 * x)
    return x


def _in_one_step(x, folds):
    if folds == 0:
        return x
    return (2 * torch.remainder(2 ** (folds - 1) * x, 1) - 1).abs()


def _halves(x, folds):
    if folds == 0:
        return x
    return _halves(torch.where(x < 0.5, 1 - 2 * x, 2 * x - 1), folds - 1)


def _fold(x):
    return (2 * x - 1).abs()


ZIGZAG = Question(
    name="depth.zigzag",
    target="zigzag",
    points=2,
    cases=_zigzag_cases,
    reference=zigzag,
    mistakes={
        "tent": (
            _repeat(lambda x: 1 - _fold(x)),
            "Yours is upside down: the middle of the strip goes to 1 and the ends go to 0. The"
            " crease is the place from which the distance is measured.",
        ),
        "right-half": (
            _repeat(lambda x: torch.relu(2 * x - 1)),
            "The left half of your strip all lands on zero. One hinge lifts one half; who lifts"
            " the other?",
        ),
        "left-half": (
            _repeat(lambda x: torch.relu(1 - 2 * x)),
            "The right half of your strip all lands on zero. One hinge lifts one half; who lifts"
            " the other?",
        ),
        "no-fold": (
            _repeat(lambda x: 2 * x - 1),
            "Your strip is stretched and moved, but nothing is folded: the left half ends below"
            " zero.",
        ),
        "unstretched": (
            _repeat(lambda x: (x - 0.5).abs()),
            "The crease is in the right place, but your folded strip is half as long. The next fold"
            " wants a strip from 0 to 1 again.",
        ),
        "once": (
            lambda x, folds: _fold(x),
            "Right for one fold. Each fold takes what the one before has made; yours always takes"
            " the same x, or folds once only.",
        ),
        "never": (
            lambda x, folds: x * 1,
            "Right for no fold at all. Yours gives back what it was given.",
        ),
        "one-more": (
            lambda x, folds: zigzag(x, folds + 1),
            "Yours has one fold more than asked for. With no fold the strip stays as it is.",
        ),
        "one-less": (
            lambda x, folds: zigzag(x, max(folds - 1, 0)),
            "Yours has one fold less than asked for. With one fold the strip has a crease already.",
        ),
        "stretched": (
            lambda x, folds: (2**folds * x - 1).abs(),
            "Right for one fold. For more, your strip is stretched further before it is folded, but"
            " still folded once: count the creases.",
        ),
        "power": (
            lambda x, folds: _fold(x) ** folds,
            "Right for one fold. To fold twice is to put the folded value through the fold again,"
            " which is something else than its square.",
        ),
        "times": (
            lambda x, folds: folds * _fold(x),
            "Right for one fold. Units side by side add up, and so would this; folds are put one"
            " behind the other.",
        ),
    },
    alternatives={"two-hinges": _two_hinges, "in-one-step": _in_one_step, "halves": _halves},
)


# depth.fold


def fold_layer(out, offset):
    right = torch.cat([2 * out, out.new_tensor([2 * offset - 1])])
    return torch.stack([right, -right])


def _fold_cases(seed):
    draw = Draw(seed)

    def case(label, n, offset=None, dtype=torch.float32):
        out = draw.normal(n, dtype=dtype)
        if offset is None:
            offset = draw.between(-40, 40) / 32 + 1 / 64
        upstream = draw.normal(2, n + 1, dtype=dtype)
        return Case(label, {"out": out, "offset": offset}, upstream=upstream)

    return [
        case("two units below", 2),
        case("two units, no offset", 2, 0.0),
        case("one unit below", 1),
        case("three units", 3),
        case("many units, in float64", 7, 0.3, torch.float64),
        case("as many as rows and columns", 5),
    ]


def _fold_with(weights, offsets):
    """A layer from what it makes of the weights and of the offset, a pair of rows each."""

    def layer(out, offset):
        columns = torch.stack(weights(out))
        last = out.new_tensor([[each] for each in offsets(offset)])
        return torch.cat([columns, last], dim=1)

    return layer


def _product(out, offset):
    read = torch.cat([out, out.new_tensor([offset])])
    none = torch.zeros_like(out)
    signs = out.new_tensor([[2.0], [-2.0]])
    shift = torch.cat([none, out.new_tensor([1.0])])
    return signs * read - signs / 2 * shift


def _rows(out, offset):
    rows = out.new_zeros(2, out.numel() + 1)
    for row, sign in enumerate((1, -1)):
        rows[row, :-1] = sign * 2 * out
        rows[row, -1] = sign * (2 * offset - 1)
    return rows


def _wide(out):
    return 2 * out, -2 * out


def _shift(offset):
    return 2 * offset - 1, 1 - 2 * offset


FOLD = Question(
    name="depth.fold",
    target="fold_layer",
    points=2,
    cases=_fold_cases,
    reference=fold_layer,
    mistakes={
        "offset-lost": (
            _fold_with(_wide, lambda offset: (-1, 1)),
            "Right while what you read has no offset. With one, it enters both hinges as well:"
            " write out twice the value less one, term by term.",
        ),
        "offset-lost-float32": (
            lambda out, offset: _fold_with(_wide, lambda offset: (-1, 1))(out, offset).to(
                torch.float32
            ),
            "Right while what you read has no offset and stands in float32. With an offset, it"
            " enters both hinges as well: write out twice the value less one, term by term.",
        ),
        "read-alike": (
            lambda out, offset: fold_layer(0 * out + 1, offset),
            "You read every unit below with weight 1, as in a plain stack of folds. Here the"
            " weights with which they are read are given.",
        ),
        "offset-once": (
            _fold_with(_wide, lambda offset: (offset - 1, 1 - offset)),
            "The weights are doubled and the offset is not. What is doubled is the whole value,"
            " offset included.",
        ),
        "same-rows": (
            _fold_with(lambda out: (2 * out, 2 * out), lambda offset: (2 * offset - 1,) * 2),
            "Both your units open to the same side. A fold needs one for each half.",
        ),
        "left-first": (
            lambda out, offset: fold_layer(out, offset).flip(0),
            "Right but for the order: the first row is the unit that opens to the right.",
        ),
        "undoubled": (
            _fold_with(lambda out: (out, -out), lambda offset: (offset - 0.5, 0.5 - offset)),
            "The crease is in the right place, but the folded strip is half as long as the strip."
            " The next fold wants it from 0 to 1.",
        ),
        "crease-at-one": (
            _fold_with(lambda out: (out, -out), lambda offset: (offset - 1, 1 - offset)),
            "Your crease is at the end of the strip, where the value is 1. Where does the inside of"
            " each ReLU pass through zero, and where should it?",
        ),
        "one-number": (
            lambda out, offset: out.new_tensor([[2.0, -1.0], [-2.0, 1.0]]) + 0 * out.sum(),
            "That layer reads a single number. The value to fold is held by no unit: it is a"
            " weighted sum of all of them, and the weights of that sum belong into your rows.",
        ),
        "transposed": (
            lambda out, offset: fold_layer(out, offset).T,
            "Rows and columns are exchanged: one row for each unit, its weights first and its"
            " offset last.",
        ),
        "offset-first": (
            lambda out, offset: fold_layer(out, offset).roll(1, 1),
            "The numbers are right, and the offset stands in the first column. It goes last.",
        ),
        "offset-not-turned": (
            _fold_with(_wide, lambda offset: (2 * offset - 1,) * 2),
            "The second unit has its weights turned round and its offset not. The inside of the"
            " second ReLU is the inside of the first with the opposite sign, all of it.",
        ),
        "offset-half-turned": (
            _fold_with(_wide, lambda offset: (2 * offset - 1, 2 * offset + 1)),
            "The inside of the second ReLU is that of the first with the opposite sign. Your second"
            " offset has two terms, and only one of them is turned round.",
        ),
        "weights-not-turned": (
            _fold_with(lambda out: (2 * out, 2 * out), _shift),
            "The second unit has its offset turned round and its weights not. The inside of the"
            " second ReLU is the inside of the first with the opposite sign, all of it.",
        ),
    },
    alternatives={"product": _product, "rows": _rows},
)


# depth.params


def net_params(n_in, width, depth, n_out=1):
    first = n_in * width + width
    later = (depth - 1) * (width * width + width)
    return first + later + width * n_out + n_out


def _params_cases(seed):
    draw = Draw(seed)
    n_in, width = draw.between(3, 20), draw.between(21, 60)
    depth, n_out = draw.between(3, 9), draw.between(2, 12)

    def case(label, n_in, width, depth, **kwargs):
        return Case(label, {"n_in": n_in, "width": width, "depth": depth}, kwargs)

    return [
        case("ten folds", 1, 2, 10),
        # udlbook/udlbook#94: 97, where a published check wanted 90
        case("ten inputs, eight units", 10, 8, 1),
        # uu-sml/sml-book-page#33: 159,010
        case("784, 200, 10", 784, 200, 1, n_out=10),
        # harvard-edge/cs249r_book#1226: 78,500 up to the hidden layer
        case("784, 100, 10", 784, 100, 1, n_out=10),
        case("one wide layer", 1, 1023, 1),
        case("several layers", n_in, width, depth),
        case("several outputs", n_in, width, depth, n_out=n_out),
        case("one of each", 1, 1, 1, n_out=1),
        Case("all by position", dict(n_in=n_in, width=width, depth=2, n_out=n_out)),
    ]


def _layer_by_layer(n_in, width, depth, n_out=1):
    widths = [n_in, *[width] * depth, n_out]
    return sum(a * b + b for a, b in zip(widths, widths[1:], strict=False))


def _on_meta(n_in, width, depth, n_out=1):
    widths = [n_in, *[width] * depth, n_out]
    layers = [
        torch.nn.Linear(a, b, device="meta") for a, b in zip(widths, widths[1:], strict=False)
    ]
    return sum(weight.numel() for layer in layers for weight in layer.parameters())


PARAMS = Question(
    name="depth.params",
    target="net_params",
    points=2,
    cases=_params_cases,
    reference=net_params,
    mistakes={
        "no-offsets": (
            lambda n_in, width, depth, n_out=1: (
                n_in * width + (depth - 1) * width * width + width * n_out
            ),
            "You have counted the weights of the sums. Each unit and each output has an offset as"
            " well.",
        ),
        "one-offset-a-layer": (
            lambda n_in, width, depth, n_out=1: (
                n_in * width + 1 + (depth - 1) * (width * width + 1) + width * n_out + 1
            ),
            "An offset for each layer is too few: every unit of the layer has its own.",
        ),
        "no-output-offset": (
            lambda n_in, width, depth, n_out=1: net_params(n_in, width, depth, n_out) - n_out,
            "The last layer has no ReLU, but it has offsets like the others.",
        ),
        "no-output": (
            lambda n_in, width, depth, n_out=1: (
                n_in * width + width + (depth - 1) * (width * width + width)
            ),
            "The hidden layers are all there. What adds up the last one?",
        ),
        "one-layer-more": (
            lambda n_in, width, depth, n_out=1: net_params(n_in, width, depth + 1, n_out),
            "One layer too many. Of the hidden layers, the first reads the input; how many read"
            " another hidden layer?",
        ),
        "one-layer-less": (
            lambda n_in, width, depth, n_out=1: net_params(n_in, width, max(depth - 1, 1), n_out),
            "A layer is missing where there are several. The depth counts the hidden layers, and"
            " the one that adds up comes on top.",
        ),
        "not-squared": (
            lambda n_in, width, depth, n_out=1: (
                n_in * width + width + (depth - 1) * 2 * width + width * n_out + n_out
            ),
            "In the inner layers every unit reads every unit of the layer below, not one of them.",
        ),
        "reads-input": (
            lambda n_in, width, depth, n_out=1: (
                depth * (n_in * width + width) + width * n_out + n_out
            ),
            "Your layers all read the input. That is one wide layer; in a stack, a layer reads the"
            " one below.",
        ),
        "input-offset": (
            lambda n_in, width, depth, n_out=1: net_params(n_in, width, depth, n_out) + n_in,
            "Inputs have no offsets. Only what is computed has.",
        ),
        "one-output": (
            lambda n_in, width, depth, n_out=1: net_params(n_in, width, depth),
            "Right for one output. How many there are is an argument.",
        ),
        "float": (
            lambda n_in, width, depth, n_out=1: float(net_params(n_in, width, depth, n_out)),
            "The number is right, its type is not: there is no half weight.",
        ),
    },
    alternatives={"layer-by-layer": _layer_by_layer, "linear-layers": _on_meta},
)


# depth.bound


def region_bound(n_in, width, depth):
    folding = (width // n_in) ** (n_in * (depth - 1))
    return folding * sum(math.comb(width, j) for j in range(n_in + 1))


def _bound_cases(seed):
    draw = Draw(seed)
    n_in, times = draw.between(2, 4), draw.between(2, 4)
    depth = draw.between(3, 7)

    def case(label, n_in, width, depth):
        return Case(label, {"n_in": n_in, "width": width, "depth": depth})

    return [
        case("one input, ten layers of two", 1, 2, 10),
        case("one wide layer", 1, 1023, 1),
        case("one unit", 1, 1, 1),
        case("a plane", 2, 8, 5),
        case("width a multiple of the inputs", n_in, times * n_in, depth),
        case("width no multiple", n_in, times * n_in + 1, depth),
        case("as wide as the input", n_in, n_in, depth),
        case("one layer, several inputs", n_in, times * n_in + 1, 1),
    ]


def _product_of_layers(n_in, width, depth):
    regions = sum(math.comb(width, j) for j in range(n_in + 1))
    for _ in range(depth - 1):
        for _ in range(n_in):
            regions *= width // n_in
    return regions


def _term_by_term(n_in, width, depth):
    term = total = 1
    for j in range(1, n_in + 1):
        term = term * (width - j + 1) // j
        total += term
    return total * pow(width // n_in, n_in * (depth - 1))


def _cells(n_in, width):
    return sum(math.comb(width, j) for j in range(n_in + 1))


BOUND = Question(
    name="depth.bound",
    target="region_bound",
    points=2,
    cases=_bound_cases,
    reference=region_bound,
    mistakes={
        "short-form": (
            lambda n_in, width, depth: (width // n_in) ** (n_in * (depth - 1)) * width**n_in,
            "That is the short form with numbers put in, and it holds up to a constant only. The"
            " last layer contributes a sum of binomials, not a power of the width.",
        ),
        "short-form-divided": (
            lambda n_in, width, depth: (width / n_in) ** (n_in * (depth - 1)) * width**n_in,
            "That is the short form with numbers put in, and it holds up to a constant only. The"
            " last layer contributes a sum of binomials, and each fold a whole number.",
        ),
        "not-rounded": (
            lambda n_in, width, depth: (width / n_in) ** (n_in * (depth - 1)) * _cells(n_in, width),
            "Units that are left over when the width is shared out among the inputs fold nothing:"
            " how often a layer folds along each axis is a whole number, and so is your answer.",
        ),
        "rounded-late": (
            lambda n_in, width, depth: (
                int((width / n_in) ** (n_in * (depth - 1))) * _cells(n_in, width)
            ),
            "You round down once, at the end. But each layer folds a whole number of times along"
            " each axis: what is rounded is what is raised to the power.",
        ),
        "sum-from-one": (
            lambda n_in, width, depth: (
                (width // n_in) ** (n_in * (depth - 1)) * (_cells(n_in, width) - 1)
            ),
            "Your sum begins one term late. A strip that nobody cuts is one piece.",
        ),
        "all-fold": (
            lambda n_in, width, depth: (width // n_in) ** (n_in * depth) * _cells(n_in, width),
            "One layer too many folds. The last one does the cutting, and the sum stands for it.",
        ),
        "one-axis": (
            lambda n_in, width, depth: (width // n_in) ** (depth - 1) * _cells(n_in, width),
            "Right for one input. With several, a layer folds along every axis, and the folds of"
            " different axes multiply.",
        ),
        "sum-too-short": (
            lambda n_in, width, depth: (
                (width // n_in) ** (n_in * (depth - 1)) * _cells(n_in - 1, width)
            ),
            "Your sum ends one term early. For one input it must give one more than the width.",
        ),
        "last-term": (
            lambda n_in, width, depth: (
                (width // n_in) ** (n_in * (depth - 1)) * math.comb(width, n_in)
            ),
            "You have the last term of the sum. The others count the regions where fewer cuts"
            " meet.",
        ),
        "all-subsets": (
            lambda n_in, width, depth: (width // n_in) ** (n_in * (depth - 1)) * 2**width,
            "Each unit on or off, in any combination: but a line or a plane does not meet them all."
            " The sum goes as far as the number of inputs, not of units.",
        ),
        "upper": (
            lambda n_in, width, depth: (width + 1) ** depth,
            "That is the ceiling for one input. Asked for is what some net has at least.",
        ),
        "exponent-short": (
            lambda n_in, width, depth: (width // n_in) ** n_in * (depth - 1) * _cells(n_in, width),
            "The layers below the last fold one after another, so their factors multiply. In your"
            " code the number of layers has slipped out of the exponent.",
        ),
        "zigzag": (
            lambda n_in, width, depth: 2**depth,
            "That is what the zigzag has, with two units a layer. The theorem promises more for"
            " that size already, since its last layer cuts instead of folding.",
        ),
        "last-layer": (
            lambda n_in, width, depth: _cells(n_in, width),
            "Right for one layer. Where is the folding of the layers below?",
        ),
    },
    alternatives={"layer-by-layer": _product_of_layers, "term-by-term": _term_by_term},
)


QUESTIONS = (PIECES, ZIGZAG, FOLD, PARAMS, BOUND)
