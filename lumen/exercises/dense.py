"""Exercise set *dense*: a count, the way back, the starting range, an order, and a transpose.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
from itertools import product

import torch

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# dense.count


def mlp_params(n_in, width, n_out, hidden=1, bias=True):
    weights = n_in * width + (hidden - 1) * width * width + width * n_out
    return weights + (hidden * width + n_out if bias else 0)


def _count_cases(seed):
    draw = Draw(seed)
    n_in, width, n_out = draw.between(5, 9), draw.between(10, 14), draw.between(2, 4)

    def case(label, n_in, width, n_out, **kwargs):
        return Case(label, {"n_in": n_in, "width": width, "n_out": n_out}, kwargs)

    return [
        case("784 → 200 → 10", 784, 200, 10),
        case("one output", 10, 8, 1),
        case("sizes of another net", n_in, width, n_out),
        case("two hidden layers", 784, 128, 10, hidden=2),
        case("several hidden layers", n_in, width, n_out, hidden=draw.between(3, 6)),
        case("no offsets", n_in, width, n_out, bias=False),
        case("several hidden layers, no offsets", n_in, width, n_out, hidden=4, bias=False),
        case("a hidden layer of one unit", n_in, 1, n_out, hidden=3),
        case("one of everything", 1, 1, 1),
    ]


def _counted(offsets, between=lambda width, hidden: (hidden - 1) * width * width):
    def wrong(n_in, width, n_out, hidden=1, bias=True):
        weights = n_in * width + between(width, hidden) + width * n_out
        return weights + (offsets(n_in, width, n_out, hidden) if bias else 0)

    return wrong


def _offsets(n_in, width, n_out, hidden):
    return hidden * width + n_out


def _listed_params(n_in, width, n_out, hidden=1, bias=True):
    sizes = [n_in, *[width] * hidden, n_out]
    pairs = zip(sizes, sizes[1:], strict=False)
    return sum(n * m + (m if bias else 0) for n, m in pairs)


def _built_params(n_in, width, n_out, hidden=1, bias=True):
    sizes = [n_in, *[width] * hidden, n_out]
    layers = [
        torch.nn.Linear(n, m, bias=bias, device="meta")
        for n, m in zip(sizes, sizes[1:], strict=False)
    ]
    return sum(p.numel() for layer in layers for p in layer.parameters())


_ONE_HIDDEN = "Right for one hidden layer. "


COUNT = Question(
    name="dense.count",
    target="mlp_params",
    points=1,
    cases=_count_cases,
    reference=mlp_params,
    mistakes={
        "one-offset": (
            _counted(lambda n_in, width, n_out, hidden: hidden + 1),
            "You give each layer a single offset. A checking program on the web once did the same."
            " Each output is a sum of its own: which of them could share an offset?",
        ),
        "input-offsets": (
            _counted(lambda n_in, width, n_out, hidden: n_in + hidden * width),
            "You count an offset for what goes into each layer. It is added to what comes out.",
        ),
        "all-offsets": (
            _counted(lambda n_in, width, n_out, hidden: n_in + hidden * width + n_out),
            "Too many by as many as there are inputs. The input is no layer: nothing is computed"
            " there, and nothing is added.",
        ),
        "no-last-offsets": (
            _counted(lambda n_in, width, n_out, hidden: hidden * width),
            "The last layer is a dense layer like the others, offsets and all.",
        ),
        "first-offsets": (
            _counted(lambda n_in, width, n_out, hidden: width + n_out),
            _ONE_HIDDEN + "With more of them, some layers go without offsets in your count.",
        ),
        "never-offsets": (
            lambda n_in, width, n_out, hidden=1, bias=True: mlp_params(
                n_in, width, n_out, hidden, False
            ),
            "You count the matrices. With a bias, each layer also has an offset for every output.",
        ),
        "always-offsets": (
            lambda n_in, width, n_out, hidden=1, bias=True: mlp_params(n_in, width, n_out, hidden),
            "You add offsets even where there are none: one of the arguments says so.",
        ),
        "one-too-many": (
            _counted(_offsets, lambda width, hidden: hidden * width * width),
            "Too many by one square matrix. Draw three hidden layers as columns of dots: how many"
            " gaps between hidden and hidden are there?",
        ),
        "no-squares": (
            _counted(_offsets, lambda width, hidden: 0),
            _ONE_HIDDEN + "Between one hidden layer and the next stands a matrix as well.",
        ),
        "squares-as-sums": (
            _counted(_offsets, lambda width, hidden: (hidden - 1) * width),
            _ONE_HIDDEN + "Between two hidden layers every unit of the one has a weight for every"
            " unit of the other. You count as if each had one weight in all.",
        ),
        "flops": (
            lambda n_in, width, n_out, hidden=1, bias=True: (
                2 * mlp_params(n_in, width, n_out, hidden, False)
            ),
            "That is the work, a multiply and an add for each weight. Asked for are the weights.",
        ),
    },
    alternatives={"pairs": _listed_params, "modules": _built_params},
)


# dense.back


def gradient(of, g, x, weight):
    if of == "bias":
        return g.reshape(-1, g.size(-1)).sum(0)
    if of == "input":
        return g @ weight
    return g.reshape(-1, g.size(-1)).T @ x.reshape(-1, x.size(-1))


def _back_cases(seed):
    draw = Draw(seed)
    n, n_in, n_out = draw.between(3, 4), draw.between(5, 6), draw.between(7, 8)

    def case(of, label, lead, n_in, n_out, dtype=F32):
        g, x = draw.normal(*lead, n_out, dtype=dtype), draw.normal(*lead, n_in, dtype=dtype)
        weight = draw.normal(n_out, n_in, dtype=dtype)
        shape = {"bias": (n_out,), "input": (*lead, n_in), "weight": (n_out, n_in)}[of]
        inputs = {"of": of, "g": g, "x": x, "weight": weight}
        return Case(f"{of}: {label}", inputs, upstream=draw.normal(*shape, dtype=dtype))

    sizes = [
        ("a batch", (n,), n_in, n_out),
        ("a batch of sequences", (2, n), n_in, n_out),
        ("as many outputs as inputs", (n,), n_in, n_in),
        ("everything of the same size", (3, 3), 3, 3),
        ("one example, no batch", (), n_in, n_out),
        ("a batch of one", (1,), n_in, n_out),
        ("one output", (n,), n_in, 1),
        ("one input", (2, n), 1, n_out),
        ("three axes in front, in float64", (2, 1, n), n_in, n_out, F64),
    ]
    return [case(of, *size) for of, size in product(("weight", "input", "bias"), sizes)]


def _going(**parts):
    """The reference, with some of its three answers replaced."""

    def wrong(of, g, x, weight):
        return parts[of](g, x, weight) if of in parts else gradient(of, g, x, weight)

    return wrong


def _rows(t):
    return t.reshape(-1, t.size(-1))


def _count(g):
    return _rows(g).size(0)


def _turned(t):
    """What ``t.T`` gives for any number of axes, without its warning."""
    return t.permute(*reversed(range(t.dim())))


def _weight(g, x):
    return _rows(g).T @ _rows(x)


_FRONT = (
    "Right for one axis in front, wrong for others. Every example and every position uses the same"
    " weights, so all axes in front are summed over, however many there are. A reshape makes one"
    " of them."
)
_MEAN = (
    "Too small by the number of examples. If the loss averages over the batch, that division has"
    " already arrived inside g. What does a derivative do with a letter that occurs in many terms?"
)
_BACK = {
    "weight-transposed": (
        {"weight": lambda g, x, w: _weight(g, x).T},
        "The gradient of the weight lies on its side: where the layer is square, nothing would"
        " complain. Which of its axes counts outputs, the first or the second?",
    ),
    "weight-mean": ({"weight": lambda g, x, w: _weight(g, x) / _count(g)}, _MEAN),
    "bias-mean": ({"bias": lambda g, x, w: _rows(g).mean(0)}, _MEAN),
    "means": (
        {
            "weight": lambda g, x, w: _weight(g, x) / _count(g),
            "bias": lambda g, x, w: _rows(g).mean(0),
        },
        _MEAN,
    ),
    "all-means": (
        {
            "weight": lambda g, x, w: _weight(g, x) / _count(g),
            "bias": lambda g, x, w: _rows(g).mean(0),
            "input": lambda g, x, w: g @ w / _count(g),
        },
        _MEAN,
    ),
    "sums-first": (
        {"weight": lambda g, x, w: torch.outer(_rows(g).sum(0), _rows(x).sum(0))},
        "You add up over examples first and multiply then, so every example meets the gradient of"
        " every other. Each example makes a product of its own; these are added up.",
    ),
    "last-example": (
        {"weight": lambda g, x, w: torch.outer(_rows(g)[-1], _rows(x)[-1])},
        "One example alone has a say in your gradient of the weight. The others used it as well.",
    ),
    "weight-per-batch": ({"weight": lambda g, x, w: g.mT @ x}, _FRONT),
    "weight-one-axis": ({"weight": lambda g, x, w: _turned(g) @ x}, _FRONT),
    "bias-one-axis": ({"bias": lambda g, x, w: g.sum(0)}, _FRONT),
    "one-axis": (
        {"weight": lambda g, x, w: _turned(g) @ x, "bias": lambda g, x, w: g.sum(0)},
        _FRONT,
    ),
    "per-batch": (
        {"weight": lambda g, x, w: g.mT @ x, "bias": lambda g, x, w: g.sum(0)},
        _FRONT,
    ),
    "per-batch-both": (
        {"weight": lambda g, x, w: g.mT @ x, "bias": lambda g, x, w: g.sum(-2)},
        _FRONT,
    ),
    "bias-per-batch": ({"bias": lambda g, x, w: g.sum(-2)}, _FRONT),
    "input-turned": (
        {"input": lambda g, x, w: g @ w.T},
        "Right nowhere, and without an error where the layer is square. On the way back the"
        " outputs are summed over: which axis of the weight counts those?",
    ),
    "bias-over-outputs": (
        {"bias": lambda g, x, w: g.sum(-1)},
        "You add up over the outputs. Each output has an offset of its own; what is added up are"
        " the examples that used it.",
    ),
    "bias-not-summed": (
        {"bias": lambda g, x, w: g.clone()},
        "There is one offset for each output and not one for each example: they share it, so what"
        " they want of it adds up.",
    ),
    "bias-kept": (
        {"bias": lambda g, x, w: _rows(g).sum(0, keepdim=True)},
        "The numbers are right, and there is an axis too many: the offsets are a plain list.",
    ),
    "bias-no-axes": (
        {"bias": lambda g, x, w: g.sum(tuple(range(g.dim() - 1)))},
        "Right with axes in front, wrong with none. A single example has nothing to add up, and"
        " torch takes a sum over an empty list of axes for a sum over all of them.",
    ),
    "bias-total": (
        {"bias": lambda g, x, w: g.sum()},
        "You add up everything to one number. There is an offset for every output.",
    ),
    "of-x-for-all": (
        {"weight": lambda g, x, w: g @ w, "bias": lambda g, x, w: g @ w},
        "You always answer with the gradient of the input. The first argument says whose is asked.",
    ),
}


def _written(of, g, x, weight):
    letters = {"weight": "ni,nj->ij", "input": "...i,ij->...j", "bias": "ni->i"}[of]
    given = {"weight": (_rows(g), _rows(x)), "input": (g, weight), "bias": (_rows(g),)}[of]
    return torch.einsum(letters, *given)


def _one_by_one(of, g, x, weight):
    pairs = list(zip(_rows(g), _rows(x), strict=True))
    if of == "weight":
        return sum(torch.outer(up, seen) for up, seen in pairs)
    if of == "bias":
        return sum(up for up, _ in pairs)
    return torch.stack([weight.T @ up for up, _ in pairs]).reshape(x.shape)


def _by_autograd(of, g, x, weight):
    if of == "bias":
        bias = torch.zeros_like(weight[:, 0]).requires_grad_()
        y = (x @ weight.T + bias) * 1
        return torch.autograd.grad(y, bias, g, create_graph=True)[0]
    y = x @ weight.T
    return torch.autograd.grad(y, x if of == "input" else weight, g, create_graph=True)[0]


BACK = Question(
    name="dense.back",
    target="gradient",
    points=3,
    cases=_back_cases,
    reference=gradient,
    mistakes={name: (_going(**parts), hint) for name, (parts, hint) in _BACK.items()},
    alternatives={"einsum": _written, "examples": _one_by_one, "autograd": _by_autograd},
)


# dense.start


def starting_weight(u):
    return (2 * u - 1) / math.sqrt(u.size(1))


def _start_cases(seed):
    draw = Draw(seed)
    n_in, n_out = draw.between(5, 8), draw.between(10, 14)

    def case(label, n_out, n_in, dtype=F32):
        shape = n_out, n_in
        u = torch.rand(shape, generator=draw.generator, dtype=dtype, device="cpu")
        return Case(label, {"u": u}, upstream=draw.normal(*shape, dtype=dtype))

    return [
        case("64 inputs", 3, 64),
        case("more outputs than inputs", n_out, n_in),
        case("fewer outputs than inputs", n_in, n_out),
        case("a square layer", n_in, n_in),
        case("one input", n_out, 1),
        case("one output", 1, n_in),
        case("in float64", n_out, n_in + 1, dtype=F64),
    ]


def _ranged(bound, spread=lambda u: 2 * u - 1):
    return lambda u: spread(u) * bound(u.size(1), u.size(0))


_NOT_HE = (
    "That is He's range. The name of the function that torch calls says so too; what its argument"
    " a = √5 leaves of it is something smaller."
)


START = Question(
    name="dense.start",
    target="starting_weight",
    points=2,
    cases=_start_cases,
    reference=starting_weight,
    mistakes={
        "by-outputs": (
            _ranged(lambda n, m: m**-0.5),
            "Right for a square layer. The bound keeps a *sum* in range: over what does one output"
            " sum, and which axis of the weight counts that?",
        ),
        "by-entries": (
            _ranged(lambda n, m: (n * m) ** -0.5),
            "You count all entries of the weight. One output sums over its own row alone: how many"
            " terms has that sum?",
        ),
        "he": (_ranged(lambda n, m: math.sqrt(6 / n)), _NOT_HE),
        "he-deviation": (_ranged(lambda n, m: math.sqrt(2 / n)), _NOT_HE),
        "glorot": (
            _ranged(lambda n, m: math.sqrt(6 / (n + m))),
            "That is Glorot's range, which asks inputs and outputs. torch's dense layer asks the"
            " inputs alone.",
        ),
        "unit-variance": (
            _ranged(lambda n, m: math.sqrt(3 / n)),
            "With this range a layer would hand on the whole of the mean square. torch's hands on"
            " a third of it.",
        ),
        "deviation": (
            _ranged(lambda n, m: math.sqrt(1 / (3 * n))),
            "Your bound is the standard deviation that the weights are to have. A uniform draw"
            " spreads less than its bound.",
        ),
        "no-root": (
            _ranged(lambda n, m: 1 / n),
            "Too small. The variance of a sum grows with the number of its terms, and its"
            " deviation with the root of that.",
        ),
        "variance": (
            _ranged(lambda n, m: 1 / (3 * n)),
            "Your bound is the variance that the weights are to have. What is the bound of a"
            " uniform draw of that variance?",
        ),
        "positive": (
            _ranged(lambda n, m: n**-0.5, lambda u: u),
            "All your weights are positive, so all outputs start nearly alike. The range lies on"
            " both sides of zero.",
        ),
        "half": (
            _ranged(lambda n, m: n**-0.5, lambda u: u - 0.5),
            "Centred at zero, and half as wide as it should be. Where do your largest draws end?",
        ),
        "twice": (
            _ranged(lambda n, m: 2 * n**-0.5),
            "Twice as wide as it should be. The bound holds on each side of zero.",
        ),
        "negated": (
            _ranged(lambda n, m: n**-0.5, lambda u: 1 - 2 * u),
            "The range is right and turned round: a draw near zero should go to its lower end.",
        ),
        "no-width": (
            _ranged(lambda n, m: 1),
            "Your range does not ask how many inputs there are. The more terms in a sum, the"
            " smaller each has to be.",
        ),
    },
    alternatives={
        "from-the-bound": lambda u: (
            -(u.shape[-1] ** -0.5) + 2 * u.shape[-1] ** -0.5 * u  # low + (high − low) u
        ),
        "kaiming": lambda u: (2 * u - 1) * math.sqrt(3) * math.sqrt(2 / (1 + 5)) / u.size(1) ** 0.5,
        "centred": lambda u: (u - 0.5) * (2 / math.sqrt(u.size(1))),
    },
)


# dense.order


def in_new_order(weight, order):
    return weight[:, list(order)]


def _order_cases(seed):
    draw = Draw(seed)
    n_in, n_out = draw.between(5, 7), draw.between(8, 9)

    def case(label, n_out, order, dtype=F32):
        weight = draw.normal(n_out, len(order), dtype=dtype)
        inputs = {"weight": weight, "order": tuple(order)}
        return Case(label, inputs, upstream=draw.normal(n_out, len(order), dtype=dtype))

    def ring(n):
        """One cycle through all places: it and its inverse differ everywhere."""
        places = torch.randperm(n, generator=draw.generator, device="cpu").tolist()
        onward = dict(zip(places, places[1:] + places[:1], strict=True))
        return [onward[place] for place in range(n)]

    return [
        case("a few inputs", n_out, ring(n_in)),
        case("more inputs than outputs", 3, ring(n_in)),
        case("as many outputs as inputs", n_in, ring(n_in)),
        case("the first input goes last", n_out, [*range(1, n_in), 0]),
        case("the order turned round", n_in, range(n_in)[::-1]),
        case("the order as it was", n_out, range(n_in)),
        case("one input", n_out, [0]),
        case("one output, in float64", 1, ring(n_in), F64),
        case("in float64", n_out, ring(n_in + 1), F64),
    ]


def _inverse(order):
    return sorted(range(len(order)), key=order.__getitem__)


def _placed(weight, order):
    columns = {at: weight[:, one] for at, one in enumerate(order)}
    return torch.stack([columns[at] for at in range(len(order))], 1)


ORDER = Question(
    name="dense.order",
    target="in_new_order",
    points=2,
    cases=_order_cases,
    reference=in_new_order,
    mistakes={
        "inverse": (
            lambda weight, order: weight[:, _inverse(order)],
            "Right only where an order is its own inverse. Slot 0 of the new input holds what was"
            " in slot order[0]: whose weights belong to it?",
        ),
        "rows": (
            lambda weight, order: weight[list(order)],
            "You move the rows, which belong to outputs. It is the inputs that come in another"
            " order; where an error is missing, the layer was square.",
        ),
        "rows-inverse": (
            lambda weight, order: weight[_inverse(order)],
            "You move the rows, which belong to outputs, and by the inverse of the order. Which"
            " axis counts inputs?",
        ),
        "both": (
            lambda weight, order: weight[list(order)][:, list(order)],
            "You move rows and columns. Nothing was said about the outputs: they stay.",
        ),
        "unchanged": (
            lambda weight, order: weight.clone(),
            "The weight is what it was, and now every input meets the weight of another.",
        ),
        "turned-round": (
            lambda weight, order: weight.flip(1),
            "That is the order turned round, whatever order was asked for.",
        ),
        "on-its-side": (
            lambda weight, order: weight.T[list(order)],
            "The right rows of the transpose: what you give back lies on its side.",
        ),
    },
    alternatives={
        "index-select": lambda weight, order: weight.index_select(1, torch.tensor(order)),
        "stack": _placed,
        "matrix": lambda weight, order: weight @ torch.eye(len(order)).to(weight)[:, list(order)],
        "transposed": lambda weight, order: weight.T[list(order)].T,
    },
)


# dense.load


def to_linear(name, weight):
    turned = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    return weight.T if turned else weight


def _load_cases(seed):
    draw = Draw(seed)
    d, words, at = draw.between(4, 6), draw.between(9, 11), draw.between(0, 9)

    def case(name, *shape, dtype=F32, turned=False):
        out = shape[::-1] if turned else shape
        inputs = {"name": name, "weight": draw.normal(*shape, dtype=dtype)}
        sizes = " × ".join(map(str, shape))
        return Case(f"{name}, {sizes}", inputs, upstream=draw.normal(*out, dtype=dtype))

    block = f"h.{at}."
    return [
        case(block + "attn.c_attn.weight", d, 3 * d, turned=True),
        case(block + "attn.c_attn.bias", 3 * d),
        case(block + "attn.c_proj.weight", d, d, turned=True),
        case(block + "attn.c_proj.bias", d),
        case(block + "mlp.c_fc.weight", d, 4 * d, turned=True),
        case(block + "mlp.c_fc.bias", 4 * d),
        case(block + "mlp.c_proj.weight", 4 * d, d, turned=True),
        case(block + "ln_1.weight", d),
        case("ln_f.bias", d),
        case("wte.weight", words, d),
        case("wpe.weight", d, d),
        case("h.0.attn.c_proj.weight", 1, 1, turned=True),
        case("h.11.mlp.c_fc.weight", d, 4 * d, dtype=F64, turned=True),
    ]


def _conv1d(name):
    layer, _, kind = name.rpartition(".")
    return kind == "weight" and layer.rpartition(".")[2] in ("c_attn", "c_proj", "c_fc")


def _turning(which):
    return lambda name, weight: weight.T if which(name, weight) else weight.clone()


def _square(weight):
    return weight.shape[0] == weight.shape[-1]


_SQUARE = (
    "Right where the two sizes differ, and wrong for a square matrix: its shape does not tell which"
    " way round it is, and yours goes through unturned. What does tell?"
)
_TABLES = (
    "You turn over tables of embeddings too. They hold a row for each word or place in both worlds;"
    " only what the code calls Conv1D is stored the other way round."
)


LOAD = Question(
    name="dense.load",
    target="to_linear",
    points=2,
    cases=_load_cases,
    reference=to_linear,
    mistakes={
        "never": (
            lambda name, weight: weight.clone(),
            "You let everything through as it is. The square layer would load without a word, and"
            " the others would not load at all.",
        ),
        "unless-square": (_turning(lambda name, w: _conv1d(name) and not _square(w)), _SQUARE),
        "all-matrices": (_turning(lambda name, w: w.dim() == 2), _TABLES),
        "all-unless-square": (
            _turning(lambda name, w: w.dim() == 2 and not _square(w)),
            both(_SQUARE, "You also turn over tables of embeddings."),
        ),
        "no-proj": (
            _turning(lambda name, w: _conv1d(name) and "c_proj" not in name),
            "One kind of layer goes through unturned. It occurs twice in each block, and one of the"
            " two is square.",
        ),
        "attention-only": (
            _turning(lambda name, w: _conv1d(name) and ".attn." in name),
            "Right in attention. The two layers of the MLP are stored the same way.",
        ),
        "mlp-only": (
            _turning(lambda name, w: _conv1d(name) and ".mlp." in name),
            "Right in the MLP. The two layers of attention are stored the same way.",
        ),
        "reshaped": (
            lambda name, weight: (
                weight.reshape(weight.shape[::-1]) if _conv1d(name) else weight.clone()
            ),
            "The shape is right and the numbers are scrambled: you have cut the row in memory into"
            " other lengths. Which operation lets rows become columns?",
        ),
        "all-but-tables": (
            _turning(lambda name, w: w.dim() == 2 and not name.startswith("wte")),
            "One table too many is turned over. There is one for words and another for places, and"
            " both have a row for each.",
        ),
    },
    alternatives={
        "by-layer": lambda name, weight: weight.mT if _conv1d(name) else weight,
        "by-block": lambda name, weight: (
            weight.swapaxes(0, 1)
            if name.startswith("h.") and name.endswith("weight") and ".ln_" not in name
            else weight
        ),
        "contiguous": lambda name, weight: weight.T.contiguous() if _conv1d(name) else weight,
        "einsum": lambda name, weight: torch.einsum("io->oi", weight) if _conv1d(name) else weight,
    },
)


QUESTIONS = (COUNT, BACK, START, ORDER, LOAD)
