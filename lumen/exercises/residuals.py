"""Exercise set *residuals*: a stack with layers left out, its way back, its paths and its growth.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math
from itertools import combinations

import torch

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


def _stacks(draw):
    """Stacks of many shapes: a label, the shape of x, the number of layers, the dtype."""
    n, d = draw.between(3, 4), draw.between(5, 6)
    return [
        ("a batch of sequences", (2, n, d), 3, F32),
        ("one token", (d,), 2, F32),
        ("as many tokens as numbers", (4, 4), 3, F32),
        ("one layer", (n, d), 1, F32),
        ("five layers, in float64", (n, d + 2), 5, F64),
        ("a stream of one number, in float64", (n, 1), 4, F64),
        ("two layers, in float64", (2, 1, n, d), 2, F64),
    ]


def _weights(draw, layers, d, dtype):
    return draw.normal(layers, d, d, dtype=dtype) / d**0.5


# residuals.stack


def run_stack(x, weights, kept):
    h = x
    for W in weights[kept]:
        h = h + torch.tanh(h @ W.T)
    return h


def _stack_cases(seed):
    draw = Draw(seed)

    def case(label, shape, layers, dtype, kept=None):
        kept = draw.mask(layers) if kept is None else torch.tensor(kept)
        inputs = {
            "x": draw.normal(*shape, dtype=dtype),
            "weights": _weights(draw, layers, shape[-1], dtype),
            "kept": kept,
        }
        return Case(label, inputs, upstream=draw.normal(*shape, dtype=dtype))

    return [
        *(case(*each) for each in _stacks(draw)),
        case("all layers kept", (3, 5), 4, F32, [True] * 4),
        case("no layer kept", (3, 5), 3, F32, [False] * 3),
        case("the middle layer left out", (3, 6), 3, F64, [True, False, True]),
        case("the first layer left out", (2, 5), 3, F32, [False, True, True]),
        case("only the first layer", (2, 5), 3, F32, [True, False, False]),
    ]


def _run(step, chosen=lambda weights, kept: weights[kept]):
    def wrong(x, weights, kept):
        h = x
        for W in chosen(weights, kept):
            h = step(h, W, x)
        return h

    return wrong


def _right(h, W, x):
    return h + torch.tanh(h @ W.T)


def _silent(x, weights, kept):
    h = x
    for W, keep in zip(weights, kept, strict=True):
        h = _right(h, W, x) if keep else torch.zeros_like(h) * h
    return h


def _stops(x, weights, kept):
    h = x
    for W, keep in zip(weights, kept, strict=True):
        if not keep:
            break
        h = _right(h, W, x)
    return h


def _gated(x, weights, kept):
    h = x
    for at in range(len(weights)):
        h = h + kept[at] * torch.einsum("...i,oi->...o", h, weights[at]).tanh()
    return h


def _recursive(x, weights, kept):
    if len(weights) == 0:
        return x
    if kept[0]:
        x = torch.add(x, torch.nn.functional.linear(x, weights[0]).tanh())
    return _recursive(x, weights[1:], kept[1:])


STACK = Question(
    name="residuals.stack",
    target="run_stack",
    points=2,
    cases=_stack_cases,
    reference=run_stack,
    mistakes={
        "plain": (
            _run(lambda h, W, x: torch.tanh(h @ W.T)),
            "What a layer was given is gone when it has answered. It is to add its answer to that,"
            " not to put it in its place.",
        ),
        "adds-input": (
            _run(lambda h, W, x: x + torch.tanh(h @ W.T)),
            "Right for one layer. With several, only the last answer arrives: to what does each"
            " layer add?",
        ),
        "reads-input": (
            _run(lambda h, W, x: h + torch.tanh(x @ W.T)),
            "Right for one layer. With several, no layer sees what those before it wrote: what does"
            " each one read?",
        ),
        "untransposed": (
            _run(lambda h, W, x: h + torch.tanh(h @ W)),
            "Your numbers go through the matrix the wrong way round. It is stored as (out, in), and"
            " a token is a row.",
        ),
        "bends-the-stream": (
            _run(lambda h, W, x: torch.tanh(h + h @ W.T)),
            "Nothing in your stream is ever above one: the bend acts on the sum. It belongs inside"
            " the branch, so that the way past it stays bare.",
        ),
        "unbent": (
            _run(lambda h, W, x: h + h @ W.T),
            "Your branch is a matrix and nothing else, so the whole stack is one matrix. A step is"
            " missing in it.",
        ),
        "subtracts": (
            _run(lambda h, W, x: h - torch.tanh(h @ W.T)),
            "The corrections arrive with their sign turned round.",
        ),
        "turned-round": (
            _run(_right, lambda weights, kept: weights[~kept]),
            "You run the layers that were to be left out, and leave out the others.",
        ),
        "keeps-all": (
            _run(_right, lambda weights, kept: weights),
            "Right where every layer is kept. One of your arguments has no effect.",
        ),
        "first-ones": (
            _run(_right, lambda weights, kept: weights[: int(kept.sum())]),
            "The right number of layers runs, but not always the right ones: which of them are"
            " kept, and not only how many, is given.",
        ),
        "backwards": (
            _run(_right, lambda weights, kept: weights[kept].flip(0)),
            "The right layers run, in the wrong order. The first matrix meets x first.",
        ),
        "silent": (
            _silent,
            "A layer that is left out silences everything before it in your answer. What happens to"
            " the stream when a branch is missing?",
        ),
        "stops": (
            _stops,
            "Your stack ends at the first layer that is left out. What becomes of those behind it?",
        ),
        "bends-first": (
            _run(lambda h, W, x: h + torch.tanh(h) @ W.T),
            "Your writes exceed one. In this set the matrix comes first and the bend last, so no"
            " write can.",
        ),
    },
    alternatives={"gated": _gated, "recursive": _recursive},
)


# residuals.back


def through_stack(g, x, weights):
    states = [x]
    for W in weights:
        states.append(states[-1] + torch.tanh(states[-1] @ W.T))
    for at in reversed(range(len(weights))):
        bend = 1 - torch.tanh(states[at] @ weights[at].T) ** 2
        g = g + (g * bend) @ weights[at]
    return g


def _back_cases(seed):
    draw = Draw(seed)

    def case(label, shape, layers, dtype):
        inputs = {
            "g": draw.normal(*shape, dtype=dtype),
            "x": draw.normal(*shape, dtype=dtype),
            "weights": _weights(draw, layers, shape[-1], dtype),
        }
        return Case(label, inputs, upstream=draw.normal(*shape, dtype=dtype))

    against = case("branches that work against the stream, in float64", (3, 4), 3, F64)
    against.args["weights"].copy_(-torch.eye(4, dtype=F64).expand(3, 4, 4))
    against.args["x"].mul_(1e-3)
    return [*(case(*each) for each in _stacks(draw)), against]


def _states(x, weights):
    states = [x]
    for W in weights:
        states.append(states[-1] + torch.tanh(states[-1] @ W.T))
    return states


def _back(
    step=lambda g, bend, W: g + (g * bend) @ W,
    bend=lambda h, W: 1 - torch.tanh(h @ W.T).square(),
    order=lambda layers: reversed(range(layers)),
    states=_states,
):
    def wrong(g, x, weights):
        hs = states(x, weights)
        for at in order(len(weights)):
            g = step(g, bend(hs[at], weights[at]), weights[at])
        return g

    return wrong


def _first_order(g, x, weights):
    hs, total = _states(x, weights), g
    for h, W in zip(hs, weights, strict=False):
        total = total + (g * (1 - torch.tanh(h @ W.T).square())) @ W
    return total


def _plain_states(x, weights):
    states = [x]
    for W in weights:
        states.append(torch.tanh(states[-1] @ W.T))
    return states


def _autograd(g, x, weights):
    if not x.requires_grad:
        x = x.detach().requires_grad_()
    return torch.autograd.grad(_states(x, weights)[-1], x, g, create_graph=True)[0]


def _jacobians(g, x, weights):
    h, whole = x, torch.eye(x.size(-1), dtype=x.dtype)
    for W in weights:
        z = torch.nn.functional.linear(h, W).tanh()
        step = torch.eye(x.size(-1), dtype=x.dtype) + (1 - z * z)[..., None] * W
        h, whole = h + z, step @ whole
    return torch.einsum("...i,...ij->...j", g, whole)


BACK = Question(
    name="residuals.back",
    target="through_stack",
    points=3,
    cases=_back_cases,
    reference=through_stack,
    mistakes={
        "no-way-past": (
            _back(lambda g, bend, W: (g * bend) @ W),
            "Your gradient comes only through the branches, as in a plain stack. A sum has two"
            " sides.",
        ),
        "only-way-past": (
            lambda g, x, weights: g + 0 * x,
            "You hand on what arrives, as if there were no branches. That is one path of many.",
        ),
        "transposed": (
            _back(lambda g, bend, W: g + (g * bend) @ W.T),
            "Your gradient goes through the matrix the same way as the signal does. On the way back"
            " it passes from out to in.",
        ),
        "upwards": (
            _back(order=lambda layers: range(layers)),
            "Right for one layer. With several, the gradient meets the last layer first.",
        ),
        "bend-too-late": (
            _back(lambda g, bend, W: g + (g @ W) * bend),
            "On the way forward the matrix comes first and the bend second. On the way back your"
            " gradient meets them in the same order.",
        ),
        "unbent": (
            _back(bend=lambda h, W: torch.ones_like(h)),
            "You go back through the matrix and not through the bend: right only where the branch"
            " is small.",
        ),
        "slope-not-squared": (
            _back(bend=lambda h, W: 1 - torch.tanh(h @ W.T)),
            "The slope of your bend exceeds one for negative numbers. That of tanh never does.",
        ),
        "slope-of-the-stream": (
            _back(bend=lambda h, W: 1 - torch.tanh(h).square()),
            "You take the slope of the bend at the stream. What is bent is what the matrix makes of"
            " it.",
        ),
        "slope-at-the-input": (
            _back(states=lambda x, weights: [x] * len(weights)),
            "Right for one layer. With several, all your slopes are taken at x, but each layer had"
            " an input of its own.",
        ),
        "slope-behind": (
            _back(states=lambda x, weights: _states(x, weights)[1:]),
            "Wrong for a single layer already: each slope is taken at what the layer gave, its own"
            " write included. The bend met what went in.",
        ),
        "states-of-a-plain-stack": (
            _back(states=_plain_states),
            "Right for one layer. With several, your slopes are taken where a plain stack would"
            " have been: on the way forward something is added, too.",
        ),
        "first-order": (
            _first_order,
            "Right for one layer. With several you count the paths through no branch and through"
            " one. There are longer ones.",
        ),
        "minus": (
            _back(lambda g, bend, W: g - (g * bend) @ W),
            "What comes through the branches has its sign turned round.",
        ),
        "no-graph": (
            lambda g, x, weights: through_stack(g.detach(), x.detach(), weights.detach()),
            "The numbers are right, and the check cannot differentiate them once more. Write the"
            " steps out, and cut nothing.",
        ),
    },
    alternatives={"autograd": _autograd, "jacobians": _jacobians},
)


# residuals.lengths


def by_length(v, jacobians):
    rows = [v]
    for J in jacobians:
        through = [J @ row for row in rows]
        rows = [rows[0]] + [a + b for a, b in zip(rows[1:], through, strict=False)] + [through[-1]]
    return torch.stack(rows)


def _lengths_cases(seed):
    draw = Draw(seed)
    d = draw.between(3, 5)

    def case(label, layers, d, dtype=F32):
        inputs = {
            "v": draw.normal(d, dtype=dtype),
            "jacobians": _weights(draw, layers, d, dtype),
        }
        return Case(label, inputs, upstream=draw.normal(layers + 1, d, dtype=dtype))

    return [
        case("three layers", 3, d),
        case("one layer", 1, d),
        case("two layers", 2, d),
        case("as many layers as numbers", 4, 4),
        case("five layers, in float64", 5, d, F64),
        case("numbers instead of matrices, in float64", 4, 1, F64),
        case("six layers, in float64", 6, 2, F64),
    ]


def _reused(v, jacobians):
    rows = [v, *(torch.zeros_like(v) for _ in jacobians)]
    for J in jacobians:
        for k in range(1, len(rows)):
            rows[k] = rows[k] + J @ rows[k - 1]
    return torch.stack(rows)


def _neighbours(v, jacobians):
    rows = [v]
    for k in range(1, len(jacobians) + 1):
        total = torch.zeros_like(v)
        for start in range(len(jacobians) - k + 1):
            walk = v
            for J in jacobians[start : start + k]:
                walk = J @ walk
            total = total + walk
        rows.append(total)
    return torch.stack(rows)


def _average_layer(v, jacobians):
    layers, rows = len(jacobians), []
    for k in range(layers + 1):
        power = torch.linalg.matrix_power(jacobians.mean(0), k)
        rows.append(math.comb(layers, k) * (power @ v))
    return torch.stack(rows)


def _path_by_path(v, jacobians):
    rows = []
    for k in range(len(jacobians) + 1):
        total = 0
        for path in combinations(range(len(jacobians)), k):
            walk = v
            for at in path:
                walk = torch.einsum("ij,j->i", jacobians[at], walk)
            total = total + walk
        rows.append(total)
    return torch.stack(rows)


def _shifted(v, jacobians):
    rows = v[None]
    for J in jacobians:
        none = torch.zeros_like(v)[None]
        rows = torch.cat([rows, none]) + torch.cat([none, rows @ J.T])
    return rows


def _numbers_of_paths(layers, like):
    counts = [math.comb(layers, k) for k in range(layers + 1)]
    return torch.tensor(counts, dtype=like.dtype)[:, None]


LENGTHS = Question(
    name="residuals.lengths",
    target="by_length",
    points=3,
    cases=_lengths_cases,
    reference=by_length,
    mistakes={
        "last-first": (
            lambda v, jacobians: by_length(v, jacobians.flip(0)),
            "Right where the order of the layers makes no difference. The first matrix meets v"
            " first.",
        ),
        "transposed": (
            lambda v, jacobians: by_length(v, jacobians.mT),
            "Right for numbers, not for matrices: rows and columns are exchanged. Each matrix acts"
            " on v from the left.",
        ),
        "reused": (
            _reused,
            "Right up to length one. Beyond it some of your paths go through one layer more than"
            " once: what was written for this layer is read again for it.",
        ),
        "neighbours": (
            _neighbours,
            "Some paths are missing from three layers on. Between two branches a path may go past"
            " as many layers as it likes.",
        ),
        "average-layer": (
            _average_layer,
            "You put an average layer in the place of each one. Layers differ, and no layer stands"
            " twice in a path.",
        ),
        "average-path": (
            lambda v, jacobians: (
                by_length(v, jacobians) / _numbers_of_paths(len(jacobians), jacobians)
            ),
            "Your rows are averages over the paths of a length. Asked for is what they bring"
            " together.",
        ),
        "up-to": (
            lambda v, jacobians: by_length(v, jacobians).cumsum(0),
            "Your last row is the whole product. Row k is for the paths of exactly that length.",
        ),
        "by-branches-passed": (
            lambda v, jacobians: by_length(v, jacobians).flip(0),
            "Your rows are in the other order: row 0 is for the path that crosses no branch.",
        ),
        "no-empty-path": (
            lambda v, jacobians: torch.cat(
                [torch.zeros_like(v)[None], by_length(v, jacobians)[1:]]
            ),
            "One path is missing: the one through no branch at all.",
        ),
        "without-v": (
            lambda v, jacobians: by_length(torch.ones_like(v), jacobians) + 0 * v,
            "Your answer does not depend on v. What do the paths start from?",
        ),
        "plain-stack": (
            lambda v, jacobians: torch.stack(
                [by_length(v, jacobians[:k])[-1] for k in range(len(jacobians) + 1)]
            ),
            "Row k of yours is the way through the first k branches. There are other choices of k.",
        ),
    },
    alternatives={"path-by-path": _path_by_path, "shifted": _shifted},
)


# residuals.stream


def stream_variance(start, writes, scaled=False):
    if scaled:
        writes = writes / writes.numel()
    return start + writes.flatten().cumsum(0).reshape(writes.shape)


def _stream_cases(seed):
    draw = Draw(seed)

    def case(label, blocks, start, dtype=F64, **kwargs):
        writes = draw.normal(blocks, 2, dtype=dtype).square() + 0.1
        inputs = {"start": start, "writes": writes}
        return Case(label, inputs, kwargs, upstream=draw.normal(blocks, 2, dtype=dtype))

    return [
        case("four blocks", 4, 1.0),
        case("four blocks, scaled", 4, 1.0, scaled=True),
        case("one block", 1, 0.25),
        case("one block, scaled", 1, 0.25, scaled=True),
        case("a small start, in float32", 6, 0.0008, F32),
        case("a small start, scaled", 12, 0.0008, scaled=True),
        case("a start of zero", draw.between(2, 5), 0.0),
        case("two blocks, scaled, in float32", 2, 3.0, F32, scaled=True),
    ]


def _stream(
    divide=lambda writes: writes / writes.numel(),
    each=lambda writes: writes,
    gather=lambda writes: writes.flatten().cumsum(0).reshape(writes.shape),
    end=lambda start, added: start + added,
):
    def wrong(start, writes, scaled=False):
        return end(start, gather(each(divide(writes) if scaled else writes)))

    return wrong


def _write_by_write(start, writes, scaled=False):
    now, course = start, []
    for attention, dense in writes:
        for write in (attention, dense):
            now = now + (write / (2 * len(writes)) if scaled else write)
            course.append(now)
    return torch.stack(course).view(-1, 2)


def _by_a_triangle(start, writes, scaled=False):
    n = 2 * len(writes)
    root = math.sqrt(n) if scaled else 1.0
    below = torch.ones(n, n, dtype=writes.dtype).tril()
    return (below @ (writes.sqrt() / root).square().reshape(n)).reshape(-1, 2) + start


STREAM = Question(
    name="residuals.stream",
    target="stream_variance",
    points=2,
    cases=_stream_cases,
    reference=stream_variance,
    mistakes={
        "root": (
            _stream(lambda writes: writes / math.sqrt(writes.numel())),
            "Your scaled stream still grows with depth. A write is divided by a root; what is given"
            " here is its variance.",
        ),
        "blocks": (
            _stream(lambda writes: writes / len(writes)),
            "Your scaled writes add up to twice what they should. How many are there in all?",
        ),
        "never-scaled": (
            _stream(lambda writes: writes),
            "Right where nothing is scaled. One of your arguments has no effect.",
        ),
        "always-scaled": (
            lambda start, writes, scaled=False: stream_variance(start, writes, True),
            "Right where the writes are scaled. One of your arguments has no effect.",
        ),
        "start-scaled": (
            lambda start, writes, scaled=False: (
                stream_variance(start, writes) / (writes.numel() if scaled else 1)
            ),
            "You scale what enters as well. Only the writes are made smaller.",
        ),
        "spread": (
            _stream(end=lambda start, added: (start + added).sqrt()),
            "Those are standard deviations. Asked for are variances, which add up.",
        ),
        "spreads-add": (
            _stream(
                each=lambda writes: writes.sqrt(),
                end=lambda start, added: (math.sqrt(start) + added).square(),
            ),
            "Your stream grows as if all its parts pulled the same way: you add standard"
            " deviations. Which number adds up when parts are independent?",
        ),
        "writes-so-far": (
            _stream(
                lambda writes: (
                    writes
                    / torch.arange(1, writes.numel() + 1, dtype=writes.dtype).reshape(writes.shape)
                )
            ),
            "Your later writes are made smaller than your earlier ones. All are to be divided by"
            " the same number, that of the whole model.",
        ),
        "squared": (
            _stream(each=lambda writes: writes.square()),
            "You square what is a variance already. Variances of independent writes add up as they"
            " are.",
        ),
        "no-start": (
            _stream(end=lambda start, added: added),
            "Right for a start of zero. What enters the first block is still there behind the"
            " last.",
        ),
        "compound": (
            _stream(
                each=lambda writes: (1 + writes).log(),
                end=lambda start, added: start * added.exp(),
            ),
            "You let each write multiply the stream. That is how the gradient grows; a write has a"
            " variance of its own, whatever the stream is.",
        ),
        "by-kind": (
            _stream(gather=lambda writes: writes.cumsum(0)),
            "Your two columns know nothing of each other. Both kinds of write go to one stream.",
        ),
        "by-block": (
            _stream(gather=lambda writes: writes.cumsum(1)),
            "Right for one block. With several, what the blocks before it wrote is still in the"
            " stream.",
        ),
        "kind-after-kind": (
            _stream(gather=lambda writes: writes.T.flatten().cumsum(0).reshape(2, -1).T),
            "Right for one block. With several, all first writes come before all second ones in"
            " your answer. In a model the two take turns.",
        ),
        "not-summed": (
            _stream(gather=lambda writes: writes),
            "Each of your entries knows one write only. The others before it are in the stream,"
            " too.",
        ),
        "one-late": (
            _stream(
                gather=lambda writes: writes.flatten().cumsum(0).reshape(writes.shape) - writes,
            ),
            "Your entries tell how the stream was before each write. Asked for is how it is behind"
            " it.",
        ),
    },
    alternatives={"write-by-write": _write_by_write, "triangle": _by_a_triangle},
)


QUESTIONS = (STACK, BACK, LENGTHS, STREAM)
