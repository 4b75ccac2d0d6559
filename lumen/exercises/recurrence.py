"""Exercise set *recurrence*: a step, a whole sequence, the way back, clipping, and the count.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers. Sequences are batch
first, and weights stand as torch has them: (out, in).
"""

from __future__ import annotations

import torch
from torch import nn

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# recurrence.step


def recurrent_step(x, h, w_ih, w_hh, b_ih, b_hh):
    return torch.tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)


def _step_cases(seed):
    draw = Draw(seed)

    def case(label, batch, d, hidden, dtype=F32, size=0.5):
        def some(*shape):
            return size * draw.normal(*shape, dtype=dtype)

        args = {
            "x": some(batch, d),
            "h": some(batch, hidden),
            "w_ih": some(hidden, d),
            "w_hh": some(hidden, hidden),
            "b_ih": some(hidden),
            "b_hh": some(hidden),
        }
        return Case(label, args, upstream=draw.normal(batch, hidden, dtype=dtype))

    return [
        case("a batch", draw.between(3, 4), draw.between(5, 6), 7),
        case("one sequence", 1, 4, 3),
        case("as many inputs as numbers in the state", 4, 4, 4),
        case("as many sequences as numbers in the state", 5, 3, 5, F64),
        case("an input of one number", 3, 1, 4),
        case("a state of one number", 3, 2, 1),
        case("large weights, in float64", 2, 5, 6, F64, 1.0),
        case("a quiet network, in float64", 6, 2, 3, F64, 0.01),
    ]


def _pre(x, h, w_ih, w_hh, b_ih, b_hh):
    return x @ w_ih.T + b_ih + h @ w_hh.T + b_hh


def _side_by_side(x, h, w_ih, w_hh, b_ih, b_hh):
    both = torch.cat([x, h], dim=1) @ torch.cat([w_ih, w_hh], dim=1).T
    return torch.tanh(both + (b_ih + b_hh))


def _cell(x, h, w_ih, w_hh, b_ih, b_hh):
    cell = nn.RNNCell(x.size(1), h.size(1), dtype=x.dtype)
    names = {"weight_ih": w_ih, "weight_hh": w_hh, "bias_ih": b_ih, "bias_hh": b_hh}
    return torch.func.functional_call(cell, names, (x, h))


_HALF_BIAS = (
    "Close, and shifted by a constant. Torch keeps two offsets, one beside each matrix. They act as"
    " one, but only if both are there."
)

STEP = Question(
    name="recurrence.step",
    target="recurrent_step",
    points=3,
    cases=_step_cases,
    reference=recurrent_step,
    mistakes={
        "no-bias-hh": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + b_ih + h @ w_hh.T),
            _HALF_BIAS,
        ),
        "no-bias-ih": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + h @ w_hh.T + b_hh),
            _HALF_BIAS,
        ),
        "no-bias": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + h @ w_hh.T),
            "Shifted by a constant for each number of the state: what else stands in the bracket"
            " besides the two products?",
        ),
        "transposed": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + b_ih + h @ w_hh + b_hh),
            "The square matrix fits either way round, and yours is the other one. Rows of a weight"
            " belong to its outputs.",
        ),
        "no-tanh": (
            _pre,
            "These are the pre-activations. The state is what the bend makes of them.",
        ),
        "tanh-each": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: (
                torch.tanh(x @ w_ih.T + b_ih) + torch.tanh(h @ w_hh.T + b_hh)
            ),
            "Some of your numbers may lie beyond 1, and a state cannot. Is the bend applied to the"
            " sum, or is a sum made of what was bent?",
        ),
        "input-only-bent": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + b_ih) + h @ w_hh.T + b_hh,
            "What the past says passes unbent in yours. The bend comes after the sum.",
        ),
        "carried": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: h + torch.tanh(_pre(x, h, w_ih, w_hh, b_ih, b_hh)),
            "Yours adds to the old state. That is a good idea of later years; here the new state"
            " replaces the old one.",
        ),
        "relu": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.relu(_pre(x, h, w_ih, w_hh, b_ih, b_hh)),
            "Nothing of yours is below zero. The bend of this layer has two sides.",
        ),
        "sigmoid": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.sigmoid(_pre(x, h, w_ih, w_hh, b_ih, b_hh)),
            "Your state lies between 0 and 1. The bend asked for is centred on zero.",
        ),
        "no-past": (
            lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(x @ w_ih.T + b_ih + b_hh),
            "The old state does not come in. Then nothing is ever remembered.",
        ),
    },
    alternatives={
        "side-by-side": _side_by_side,
        "cell": _cell,
        "einsum": lambda x, h, w_ih, w_hh, b_ih, b_hh: torch.tanh(
            torch.einsum("bd,hd->bh", x, w_ih) + torch.einsum("bk,hk->bh", h, w_hh) + b_hh + b_ih
        ),
    },
)


# recurrence.unroll


def read_all(x, w_ih, w_hh, bias):
    a, states = x @ w_ih.T + bias, []
    h = torch.zeros_like(a[:, 0])
    for a_t in a.unbind(1):
        h = torch.tanh(a_t + h @ w_hh.T)
        states.append(h)
    return torch.stack(states, dim=1)


def _read_cases(seed):
    draw = Draw(seed)

    def case(label, batch, n, d, hidden, dtype=F32):
        args = {
            "x": draw.normal(batch, n, d, dtype=dtype),
            "w_ih": 0.5 * draw.normal(hidden, d, dtype=dtype),
            "w_hh": 0.5 * draw.normal(hidden, hidden, dtype=dtype),
            "bias": 0.5 * draw.normal(hidden, dtype=dtype),
        }
        return Case(label, args, upstream=draw.normal(batch, n, hidden, dtype=dtype))

    return [
        case("a batch of sequences", 3, draw.between(5, 6), 4, 7),
        case("one sequence", 1, 6, 3, 4),
        case("one step", 4, 1, 3, 5),
        case("as many sequences as steps", 4, 4, 3, 5, F64),
        case("all sizes alike", 3, 3, 3, 3),
        case("a state of one number", 2, 5, 2, 1),
        case("an input of one number, in float64", 2, 5, 1, 4, F64),
        case("many steps, in float64", 2, 30, 2, 3, F64),
    ]


def _reading(step=None, order=lambda rows: rows, pick=lambda rows: torch.stack(rows, 1)):
    def wrong(x, w_ih, w_hh, bias):
        h, states = x.new_zeros(x.size(0), w_hh.size(0)), []
        for x_t in order(x.unbind(1)):
            h = (step or _usual)(x_t, h, w_ih, w_hh, bias)
            states.append(h)
        return pick(states)

    return wrong


def _usual(x, h, w_ih, w_hh, bias):
    return torch.tanh(x @ w_ih.T + h @ w_hh.T + bias)


def _cut(x, w_ih, w_hh, bias):
    return _reading(lambda x_t, h, *rest: _usual(x_t, h.detach(), *rest))(x, w_ih, w_hh, bias)


def _across_batch(x, w_ih, w_hh, bias):
    return read_all(x.transpose(0, 1), w_ih, w_hh, bias).transpose(0, 1)


def _one_behind(x, w_ih, w_hh, bias):
    states = read_all(x, w_ih, w_hh, bias)
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)


def _rnn(x, w_ih, w_hh, bias):
    layer = nn.RNN(x.size(2), w_hh.size(0), batch_first=True, dtype=x.dtype)
    named = {"weight_ih_l0": w_ih, "weight_hh_l0": w_hh}
    named |= {"bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    return torch.func.functional_call(layer, named, (x,))[0]


def _by_index(x, w_ih, w_hh, bias):
    states = [torch.tanh(x[:, 0] @ w_ih.T + bias)]
    for t in range(1, x.size(1)):
        states.append(torch.tanh(x[:, t] @ w_ih.T + states[-1] @ w_hh.T + bias))
    return torch.stack(states, 1)


def _from(x, w_ih, w_hh, bias, start):
    h, states = x.new_full((x.size(0), w_hh.size(0)), start), []
    for x_t in x.unbind(1):
        h = _usual(x_t, h, w_ih, w_hh, bias)
        states.append(h)
    return torch.stack(states, 1)


UNROLL = Question(
    name="recurrence.unroll",
    target="read_all",
    points=4,
    cases=_read_cases,
    reference=read_all,
    mistakes={
        "forgets": (
            lambda x, w_ih, w_hh, bias: torch.tanh(x @ w_ih.T + bias),
            "Right at the first step only. Later steps know nothing of what came before: where does"
            " the state go when a step is done?",
        ),
        "last-only": (
            _reading(pick=lambda rows: rows[-1]),
            "That is the last state. Asked for are the states of all steps.",
        ),
        "time-first": (
            _reading(pick=lambda rows: torch.stack(rows, 0)),
            "The numbers are there, with the steps in front. The batch comes first.",
        ),
        "end-to-end": (
            _reading(pick=lambda rows: torch.cat(rows, 1)),
            "The states lie end to end on the axis of the state. Each step wants a place of its"
            " own: which function makes a new axis?",
        ),
        "backwards": (
            _reading(order=lambda rows: rows[::-1], pick=lambda rows: torch.stack(rows[::-1], 1)),
            "Your last step knows least and your first one most: you read from the end.",
        ),
        "over-the-batch": (
            _across_batch,
            "Your state walks over the wrong axis: from one sequence of the batch to the next.",
        ),
        "cut-gradient": (
            _cut,
            "All numbers are right. What comes back is not: somewhere in your loop the state loses"
            " its history, so each step is told only of its own output.",
        ),
        "before-the-step": (
            _one_behind,
            "One step late. Each row should hold the state *after* its token was read.",
        ),
        "starts-at-one": (
            lambda x, w_ih, w_hh, bias: _from(x, w_ih, w_hh, bias, 1.0),
            "The first step is off already, and the others inherit it: from which state do you"
            " start?",
        ),
        "transposed": (
            _reading(lambda x, h, w_ih, w_hh, bias: torch.tanh(x @ w_ih.T + h @ w_hh + bias)),
            "Right at the first step, where the state is zero. The square matrix fits either way"
            " round, and yours is the other one.",
        ),
        "adds": (
            _reading(lambda x, h, *rest: h + _usual(x, h, *rest)),
            "Right at the first step. Afterwards your state piles up: a step replaces the state.",
        ),
        "no-bend": (
            _reading(lambda x, h, w_ih, w_hh, bias: x @ w_ih.T + h @ w_hh.T + bias),
            "Your states can leave the range from -1 to 1. What keeps them in?",
        ),
    },
    alternatives={"torch": _rnn, "by-index": _by_index},
)


# recurrence.back


def sent_back(g, states, w_hh):
    for h in reversed(states.unbind(1)):
        g = (g * (1 - h**2)) @ w_hh
    return g


def _back_cases(seed):
    draw = Draw(seed)

    def case(label, batch, span, hidden, dtype=F32, size=0.7):
        args = {
            "g": draw.normal(batch, hidden, dtype=dtype),
            "states": torch.tanh(draw.normal(batch, span, hidden, dtype=dtype)),
            "w_hh": size * draw.normal(hidden, hidden, dtype=dtype),
        }
        return Case(label, args, upstream=draw.normal(batch, hidden, dtype=dtype))

    return [
        case("a few steps", 3, draw.between(3, 4), 5),
        case("one step", 2, 1, 4),
        case("two steps of one sequence, in float64", 1, 2, 3, F64),
        case("as many sequences as steps and as numbers in the state", 4, 4, 4, F64),
        case("a state of one number", 2, 3, 1),
        case("a longer span, in float64", 2, 12, 6, F64),
        case("small weights, in float64", 5, 3, 7, F64, 0.1),
    ]


def _jacobians(g, states, w_hh):
    rows = []
    for row, sequence in zip(g, states, strict=True):
        for h in reversed(sequence):
            row = row @ (torch.diag(1 - h**2) @ w_hh)
        rows.append(row)
    return torch.stack(rows)


def _by_einsum(g, states, w_hh):
    slopes = 1 - states * states
    for t in range(states.size(1) - 1, -1, -1):
        g = torch.einsum("bi,bi,ij->bj", g, slopes[:, t], w_hh)
    return g


def _going(slope=lambda h: 1 - h**2, order=reversed, step=None):
    def wrong(g, states, w_hh):
        for h in order(states.unbind(1)):
            g = step(g, slope(h), w_hh) if step else (g * slope(h)) @ w_hh
        return g

    return wrong


BACK = Question(
    name="recurrence.back",
    target="sent_back",
    points=5,
    cases=_back_cases,
    reference=sent_back,
    mistakes={
        "first-step-first": (
            _going(order=lambda states: states),
            "Right for one step. Then the factors come in the wrong order: which step does a"
            " gradient that starts at the end meet first?",
        ),
        "weight-first": (
            _going(step=lambda g, slope, w: (g @ w) * slope),
            "Your gradient meets the matrix before the slope. Forward the product comes first and"
            " the bend after it; on the way back it is the other way round.",
        ),
        "transposed": (
            _going(step=lambda g, slope, w: (g * slope) @ w.T),
            "You multiply as on the way forward. A gradient goes back through the rows: what"
            " reaches number j of the old state is a sum over all numbers of the new one.",
        ),
        "no-slope": (
            _going(slope=torch.ones_like),
            "Yours shrinks too little, or grows too much: each bend on the way multiplies by its"
            " own slope.",
        ),
        "slope-of-state": (
            _going(slope=lambda h: 1 - torch.tanh(h) ** 2),
            "You have bent what was bent already. What is given are states, and the slope can be"
            " told from them directly.",
        ),
        "one-minus": (
            _going(slope=lambda h: 1 - h),
            "A slope of tanh lies between 0 and 1, and is the same for a state and for its"
            " negative. Yours is not.",
        ),
        "sigmoid-slope": (
            _going(slope=lambda h: h * (1 - h)),
            "That is how the slope of a sigmoid is told from its output. This bend is a tanh.",
        ),
        "no-weight": (
            _going(step=lambda g, slope, w: g * slope),
            "Each number goes back by itself in yours. Between two states stands a matrix as well.",
        ),
        "one-too-few": (
            lambda g, states, w_hh: sent_back(g, states[:, 1:], w_hh),
            "One factor is missing: each of the given states was made by a step, and all of these"
            " steps are on the way.",
        ),
        "last-matrix-missing": (
            lambda g, states, w_hh: sent_back(g, states[:, 1:], w_hh) * (1 - states[:, 0] ** 2),
            "You stop in the middle of a step, behind its bend. The state before it lies on the"
            " other side of the matrix.",
        ),
        "gradient-forgotten": (
            lambda g, states, w_hh: sent_back(torch.ones_like(g), states, w_hh),
            "Your answer does not depend on the gradient that you were given. What the loss sends"
            " is the first factor.",
        ),
        "batch-reversed": (
            lambda g, states, w_hh: sent_back(g, states.flip(0), w_hh),
            "Right for one sequence. You turned the batch round as well, or instead: which axis"
            " holds the steps?",
        ),
        "length": (
            lambda g, states, w_hh: sent_back(g, states, w_hh).norm(dim=1),
            "That is how long each gradient is. Asked for is the gradient.",
        ),
    },
    alternatives={"jacobians": _jacobians, "einsum": _by_einsum},
)


# recurrence.clip


def clip_norm(grads, limit):
    return grads * (limit / grads.norm()).clamp(max=1)


def _clip_cases(seed):
    draw = Draw(seed)
    n, m = draw.between(3, 4), draw.between(5, 7)

    def case(label, grads, length, limit, asked=True):
        """Gradients whose norm, over all of them, is the length given."""
        if length is not None:
            grads = grads * (length / grads.norm())
        upstream = draw.normal(*grads.shape, dtype=grads.dtype) if asked else None
        return Case(label, {"grads": grads, "limit": limit}, upstream=upstream)

    uneven = draw.normal(n, m)
    uneven[0] = 20 * uneven[0]
    spike = 0.01 * draw.normal(n, m)
    spike[1, 2] = 3.0
    return [
        case("long gradients", draw.normal(n, m), 7.0, 1.0),
        case("short gradients, in float64", draw.normal(n, m, dtype=F64), 0.3, 1.0),
        case("one array much larger than the others", uneven, 9.0, 1.0),
        case("each array short, all together long", draw.normal(16, m), 2.0, 1.0),
        case("one number stands out", spike, None, 0.5),
        case("another limit", draw.normal(m, n), 12.0, 5.0),
        case("a limit below 1", draw.normal(n, 2), 0.6, 0.25),
        case("short, with a high limit", draw.normal(2, m, dtype=F64), 3.0, 10.0),
        case("one array", draw.normal(1, m), 4.0, 2.0),
        case("one number, too large", torch.tensor([[-8.0]], dtype=F32, device="cpu"), None, 1.0),
        case("no gradient at all", torch.zeros(n, m, dtype=F32, device="cpu"), None, 1.0, False),
    ]


def _scaled(norm, above=True):
    def wrong(grads, limit):
        size = norm(grads)
        share = torch.where(size > 0, limit / size.clamp(min=1e-30), torch.ones_like(size))
        return grads * (share.clamp(max=1.0) if above else share)

    return wrong


def _rows(grads):
    return grads.norm(dim=1, keepdim=True)


def _all(grads):
    return grads.norm()


def _where(grads, limit):
    squares = (grads * grads).sum()
    safe = torch.where(squares > 0, squares, torch.ones_like(squares)).sqrt()
    return torch.where(safe > limit, grads * limit / safe, grads)


def _as_torch_does(grads, limit):
    """With the millionth that `clip_grad_norm_` adds to the length."""
    return grads * (limit / (torch.linalg.vector_norm(grads) + 1e-6)).clamp(max=1.0)


def _divided(grads, limit):
    flat = grads.flatten()
    over = torch.sqrt(flat @ flat) / limit if bool((flat != 0).any()) else flat.new_ones(())
    return grads / torch.clamp(over, min=1.0)


CLIP = Question(
    name="recurrence.clip",
    target="clip_norm",
    points=5,
    cases=_clip_cases,
    reference=clip_norm,
    mistakes={
        "always": (
            _scaled(_all, above=False),
            "Right for long gradients. Short ones come out longer than they went in: a limit is not"
            " a target. When should nothing happen?",
        ),
        "each-array": (
            _scaled(_rows),
            "You limit each array by itself. All of them are one step in one space: how long is"
            " *that*? And what becomes of its direction, if its parts shrink by different amounts?",
        ),
        "each-array-always": (
            _scaled(_rows, above=False),
            "Two things. Each array is brought to length by itself, where all together are one"
            " vector; and short ones are made longer.",
        ),
        "each-column": (
            _scaled(lambda g: g.norm(dim=0, keepdim=True)),
            "You limit columns. All numbers of all arrays together are one vector.",
        ),
        "by-value": (
            lambda grads, limit: grads.clamp(-limit, limit),
            "You limit each number by itself, which turns the direction. Asked for is a limit on"
            " the length of the whole, and one factor for all.",
        ),
        "by-largest": (
            _scaled(lambda g: g.abs().max()),
            "You measure the largest number. The length of a vector counts all of them.",
        ),
        "sum-of-sizes": (
            _scaled(lambda g: g.abs().sum()),
            "You add up sizes. The length of a vector adds up something else.",
        ),
        "squared": (
            _scaled(lambda g: (g**2).sum()),
            "You compare the *square* of the length with the limit. Something is missing above your"
            " sum.",
        ),
        "mean": (
            _scaled(lambda g: (g**2).mean().sqrt()),
            "You take the root of the *mean* square. Then a model with more weights may take longer"
            " steps. The length is a sum.",
        ),
        "sum-of-norms": (
            _scaled(lambda g: g.norm(dim=1).sum()),
            "You add up the lengths of the arrays. Together they are one vector, and the lengths of"
            " parts at right angles do not add up.",
        ),
        "largest-array": (
            _scaled(lambda g: g.norm(dim=1).max()),
            "You measure the longest array. The others are part of the step as well.",
        ),
        "to-length-one": (
            lambda grads, limit: _scaled(_all)(grads, 1.0),
            "Right for a limit of 1, and for no other. The limit is an argument.",
        ),
        "zeroed": (
            lambda grads, limit: grads * (grads.norm() <= limit),
            "A gradient that is too long is dropped in yours. It should be kept, at the limit.",
        ),
        "inverted": (
            lambda grads, limit: grads * torch.clamp(grads.norm() / limit, max=1.0),
            "Long gradients pass untouched in yours, and short ones shrink: the fraction stands on"
            " its head.",
        ),
        "untouched": (
            lambda grads, limit: grads * 1.0,
            "Nothing is limited: what is too long comes out as it went in.",
        ),
        "no-guard": (
            lambda grads, limit: grads / grads.norm() * grads.norm().clamp(max=limit),
            "Right until no gradient is there at all: then something is divided by a length of"
            " zero.",
        ),
        "plus-epsilon": (
            lambda grads, limit: grads * (limit / (grads.norm() + 0.01)).clamp(max=1.0),
            "A little too short: what you add to the length against division by zero is large"
            " enough to show.",
        ),
        "detached": (
            lambda grads, limit: grads * min(1.0, limit / max(grads.norm().item(), 1e-30)),
            "All numbers are right. Your factor has left the graph, so it counts as a constant on"
            " the way back, though it depends on every number. Keep the length a tensor.",
        ),
    },
    alternatives={
        "where": _where,
        "divided": _divided,
        "stacked": _scaled(_all),
        "as-torch-does": _as_torch_does,
    },
)


# recurrence.count


def recurrent_params(input_size, hidden_size, num_layers=1, bidirectional=False, biases=2):
    directions = 2 if bidirectional else 1
    total = 0
    for layer in range(num_layers):
        width = directions * hidden_size if layer else input_size
        total += directions * hidden_size * (width + hidden_size + biases)
    return total


def _count_cases(seed):
    draw = Draw(seed)
    d, h = draw.between(5, 40), draw.between(50, 90)

    def case(label, input_size, hidden_size, **settings):
        return Case(label, {"input_size": input_size, "hidden_size": hidden_size}, settings)

    return [
        case("10 inputs, a state of 20", 10, 20),
        case("other sizes", d, h),
        case("one offset, as in textbooks", d, h, biases=1),
        case("no offsets", d, h, biases=0),
        case("two layers", d, h, num_layers=2),
        case("both directions", d, h, bidirectional=True),
        case("three layers, both directions", d, h, num_layers=3, bidirectional=True),
        case("more inputs than state", h, d, num_layers=2, biases=1),
        case("one input, a state of one number", 1, 1),
        Case(
            "all by position",
            dict(input_size=h, hidden_size=d, num_layers=4, bidirectional=True, biases=1),
        ),
    ]


def _counting(one=None, of=None):
    """A count from one layer's, or from the right total."""

    def wrong(input_size, hidden_size, num_layers=1, bidirectional=False, biases=2):
        args = (input_size, hidden_size, num_layers, bidirectional, biases)
        if of:
            return of(recurrent_params(*args), *args)
        ways, total = 1 + bidirectional, 0
        for layer in range(num_layers):
            total += one(layer, input_size, hidden_size, ways, biases)
        return total

    return wrong


def _layer(layer, d, h, ways, biases, below=None):
    width = d if layer == 0 else (ways * h if below is None else below)
    return ways * h * (width + h + biases)


def _rnn_count(input_size, hidden_size, num_layers=1, bidirectional=False, biases=2):
    layer = nn.RNN(input_size, hidden_size, num_layers, bidirectional=bidirectional, device="meta")
    sizes = {name: p.numel() for name, p in layer.named_parameters()}
    gone = {0: ("bias_ih", "bias_hh"), 1: ("bias_hh",), 2: ()}[biases]
    return sum(n for name, n in sizes.items() if not name.startswith(gone or ("-",)))


def _summed(input_size, hidden_size, num_layers=1, bidirectional=False, biases=2):
    h, ways = hidden_size, 2 if bidirectional else 1
    first = h * input_size + h * h + biases * h
    above = h * ways * h + h * h + biases * h
    return ways * (first + (num_layers - 1) * above)


COUNT = Question(
    name="recurrence.count",
    target="recurrent_params",
    points=3,
    cases=_count_cases,
    reference=recurrent_params,
    mistakes={
        "one-bias": (
            _counting(lambda i, d, h, ways, biases: _layer(i, d, h, ways, min(biases, 1))),
            "Right with one offset or none. Torch keeps one beside each of the two matrices.",
        ),
        "always-two": (
            _counting(lambda i, d, h, ways, biases: _layer(i, d, h, ways, 2)),
            "Right with two offsets. How many there are is an argument.",
        ),
        "input-for-all": (
            _counting(lambda i, d, h, ways, biases: _layer(i, d, h, ways, biases, below=d)),
            "Right for one layer. What does the second layer read, and how wide is that?",
        ),
        "one-direction-above": (
            _counting(lambda i, d, h, ways, biases: _layer(i, d, h, ways, biases, below=h)),
            "Right for one layer, and for one direction. A layer above two directions reads what"
            " both of them put out, side by side.",
        ),
        "directions-once": (
            _counting(lambda i, d, h, ways, biases: _layer(i, d, h, ways, biases) // ways),
            "You count one direction. The other one has weights of its own.",
        ),
        "no-recurrent-matrix": (
            _counting(lambda i, d, h, ways, biases: _layer(i, d, h, ways, biases) - ways * h * h),
            "That would be a stack of dense layers. The past comes in through a matrix as well.",
        ),
        "times-steps": (
            _counting(of=lambda right, d, h, *rest: right * d),
            "Far too many. Each weight is counted once, however often it is used.",
        ),
        "lstm": (
            _counting(of=lambda right, *rest: 4 * right),
            "That is the count of a layer with four products. This one has one.",
        ),
        "bias-of-inputs": (
            _counting(
                lambda i, d, h, ways, biases: (
                    _layer(i, d, h, ways, 0) + ways * (biases > 0) * (h + (biases > 1) * d)
                )
            ),
            "Right with one offset or none. An offset is added to what a matrix puts *out*: how"
            " many numbers does the second one have?",
        ),
        "float": (
            _counting(of=lambda right, *rest: float(right)),
            "The number is right, its type is not. There is no half weight: keep to whole numbers.",
        ),
    },
    alternatives={"torch": _rnn_count, "in-one-go": _summed},
)


QUESTIONS = (STEP, UNROLL, BACK, CLIP, COUNT)
