"""Exercise set *gates*: a step of an LSTM and of a GRU, their weights, and the offset of a span.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from lumen.grading.draw import Draw
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


# gates.lstm


def lstm_once(x, h, c, weight, bias):
    sums = torch.cat([h, x], dim=1) @ weight.T + bias
    i, f, g, o = sums.chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return torch.cat([o.sigmoid() * c.tanh(), c], dim=1)


def _lstm_cases(seed):
    draw = Draw(seed)
    n, d_in, d_h = draw.between(2, 3), draw.between(4, 5), draw.between(6, 7)

    def case(label, n, d_in, d_h, dtype=F32, size=1.0):
        inputs = {
            "x": draw.normal(n, d_in, dtype=dtype),
            "h": draw.normal(n, d_h, dtype=dtype).tanh(),
            "c": size * draw.normal(n, d_h, dtype=dtype),
            "weight": draw.normal(4 * d_h, d_h + d_in, dtype=dtype) / d_h**0.5,
            "bias": draw.normal(4 * d_h, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(n, 2 * d_h, dtype=dtype))

    return [
        case("a small batch", n, d_in, d_h),
        case("more input than state", n, d_h, 3),
        case("as much input as state", n, d_in, d_in),
        case("a cell that has counted far", n, d_in, d_h, size=9.0),
        case("one example", 1, d_in, d_h),
        case("one number of input", n, 1, d_h),
        case("one number of state", n, d_in, 1),
        case("in float64", n, d_in, d_h, F64),
    ]


def _lstm(
    order="ifgo",
    gate=torch.sigmoid,
    content=torch.tanh,
    shown=torch.tanh,
    cell=None,
    show=None,
    join=None,
):
    """The reference, with some of its parts replaced."""

    def wrong(x, h, c, weight, bias):
        sums = (join or (lambda h, x: torch.cat([h, x], 1)))(h, x) @ weight.T + bias
        gates = dict(zip(order, sums.chunk(4, dim=1), strict=True))
        i, f, o = (gate(gates[name]) for name in "ifo")
        g = content(gates["g"])
        new = cell(i, f, g, c) if cell else f * c + i * g
        out = show(o, new, c) if show else o * shown(new)
        return torch.cat([out, new], dim=1)

    return wrong


_ORDERS = ("ifog", "igfo", "iofg", "figo", "fiog", "fgio")
_ORDER = (
    "All parts are there, and two of them read the rows of each other. The shapes cannot tell you:"
    " read in the question in which order the four blocks of rows come."
)


def _by_hand(x, h, c, weight, bias):
    d_h = h.size(1)
    w_h, w_x = weight[:, :d_h], weight[:, d_h:]
    i, f, g, o = (
        h @ w_h[k * d_h : (k + 1) * d_h].T
        + x @ w_x[k * d_h : (k + 1) * d_h].T
        + bias[k * d_h : (k + 1) * d_h]
        for k in range(4)
    )
    new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.cat([torch.sigmoid(o) * torch.tanh(new), new], 1)


def _by_cell(x, h, c, weight, bias):
    return torch.cat(torch._VF.lstm_cell(x, (h, c), *_torchs(h, weight, bias)), dim=1)


def _torchs(h, weight, bias):
    d_h = h.size(1)
    return weight[:, d_h:], weight[:, :d_h], bias, torch.zeros_like(bias)


def _one_at_a_time(x, h, c, weight, bias):
    rows = []
    for x_b, h_b, c_b in zip(x, h, c, strict=True):
        i, f, g, o = (weight @ torch.cat([h_b, x_b]) + bias).view(4, -1)
        new = torch.sigmoid(f) * c_b + torch.sigmoid(i) * torch.tanh(g)
        rows.append(torch.cat([torch.sigmoid(o) * torch.tanh(new), new]))
    return torch.stack(rows)


LSTM = Question(
    name="gates.lstm",
    target="lstm_once",
    points=3,
    cases=_lstm_cases,
    reference=lstm_once,
    mistakes={
        **{f"order-{order}": (_lstm(order), _ORDER) for order in _ORDERS},
        "sigmoid-content": (
            _lstm(content=torch.sigmoid),
            "Your cell can be raised and never lowered. Gates are shares of something; one of the"
            " four is no gate, and has to be able to say less than nothing.",
        ),
        "cell-shown-bare": (
            _lstm(shown=lambda c: c),
            "The new cell is right. What is shown of it has no bound yet: in one of your cases it"
            " has counted far, and the gates of the next step would be pinned.",
        ),
        "cell-bent": (
            _lstm(cell=lambda i, f, g, c: torch.tanh(f * c + i * g)),
            "There is a bend in the cell itself. That one stands in the way of everything that"
            " the layer was made for: the cell is a sum, and is bent only where it is shown.",
        ),
        "old-cell-shown": (
            _lstm(show=lambda o, new, c: o * torch.tanh(c)),
            "The new cell is right, and what you show is the old one: what this step wrote is not"
            " in it.",
        ),
        "sigmoid-shown": (
            _lstm(shown=torch.sigmoid),
            "The new cell is right. What is shown should be able to fall below zero, like the"
            " content that was written.",
        ),
        "tied": (
            _lstm(cell=lambda i, f, g, c: f * c + (1 - f) * g),
            "You write what you do not keep. That is a rival's saving: here, writing has a gate of"
            " its own.",
        ),
        "no-write-gate": (
            _lstm(cell=lambda i, f, g, c: f * c + g),
            "All content is written, whatever its gate says. Which of the four goes unused?",
        ),
        "never-forgets": (
            _lstm(cell=lambda i, f, g, c: c + i * g),
            "Your cell keeps everything. So did that of 1997; which of the four goes unused?",
        ),
        "forget-turned-round": (
            _lstm(cell=lambda i, f, g, c: (1 - f) * c + i * g),
            "An open forget gate makes your cell let go. In spite of its name it says what is"
            " kept.",
        ),
        "all-shown": (
            _lstm(show=lambda o, new, c: torch.tanh(new)),
            "The new cell is right, and all of it is shown. Which of the four goes unused?",
        ),
        "shown-share-bent": (
            _lstm(show=lambda o, new, c: torch.tanh(o * new)),
            "The new cell is right. You bend the share that is shown; a share of the bent cell is"
            " asked for, and the two are not the same.",
        ),
        "tanh-gates": (
            _lstm(gate=torch.tanh),
            "Your gates can be negative, and then turn the sign of a memory. A share lies between"
            " none and all.",
        ),
        "input-first": (
            _lstm(join=lambda h, x: torch.cat([x, h], 1)),
            "Shapes fit and numbers do not: the columns of the weight read two things, side by"
            " side. Which of them do they read first?",
        ),
        "no-offsets": (
            lambda x, h, c, weight, bias: lstm_once(x, h, c, weight, 0 * bias),
            "The offsets go unused. They say where a gate stands before there is anything to see.",
        ),
        "interleaved": (
            lambda x, h, c, weight, bias: lstm_once(
                x,
                h,
                c,
                *(
                    w.reshape(-1, 4, *w.shape[1:]).transpose(0, 1).reshape(w.shape)
                    for w in (weight, bias)
                ),
            ),
            "You deal the rows out in turn, as if each unit had its four side by side. They come"
            " in four blocks, one for each part of the step.",
        ),
        "cell-first": (
            lambda x, h, c, weight, bias: torch.cat(
                lstm_once(x, h, c, weight, bias).chunk(2, 1)[::-1], 1
            ),
            "Both halves are right and stand in each other's place.",
        ),
    },
    alternatives={"blocks": _by_hand, "torch": _by_cell, "examples": _one_at_a_time},
)


# gates.gru


def gru_once(x, h, w_in, w_state, b_in, b_state):
    r_in, z_in, n_in = (x @ w_in.T + b_in).chunk(3, dim=1)
    r_state, z_state, n_state = (h @ w_state.T + b_state).chunk(3, dim=1)
    r, z = (r_in + r_state).sigmoid(), (z_in + z_state).sigmoid()
    n = (n_in + r * n_state).tanh()
    return (1 - z) * n + z * h


def _gru_cases(seed):
    draw = Draw(seed)
    n, d_in, d_h = draw.between(2, 3), draw.between(4, 5), draw.between(6, 7)

    def case(label, n, d_in, d_h, dtype=F32):
        inputs = {
            "x": draw.normal(n, d_in, dtype=dtype),
            "h": draw.normal(n, d_h, dtype=dtype).tanh(),
            "w_in": draw.normal(3 * d_h, d_in, dtype=dtype) / d_in**0.5,
            "w_state": draw.normal(3 * d_h, d_h, dtype=dtype) / d_h**0.5,
            "b_in": draw.normal(3 * d_h, dtype=dtype),
            "b_state": draw.normal(3 * d_h, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(n, d_h, dtype=dtype))

    return [
        case("a small batch", n, d_in, d_h),
        case("more input than state", n, d_h, 3),
        case("as much input as state", n, d_in, d_in),
        case("one example", 1, d_in, d_h),
        case("one number of input", n, 1, d_h),
        case("one number of state", n, d_in, 1),
        case("in float64", n, d_in, d_h, F64),
    ]


def _gru(order="rzn", new=None, mix=None, gate=torch.sigmoid, content=torch.tanh):
    """The reference, with some of its parts replaced."""

    def wrong(x, h, w_in, w_state, b_in, b_state):
        said = dict(zip(order, (x @ w_in.T + b_in).chunk(3, dim=1), strict=True))
        held = dict(zip(order, (h @ w_state.T + b_state).chunk(3, dim=1), strict=True))
        r, z = (gate(said[name] + held[name]) for name in "rz")
        if new:
            block = order.index("n")
            w, b = w_state.chunk(3)[block], b_state.chunk(3)[block]
            n = content(new(said["n"], h, w, b, r))
        else:
            n = content(said["n"] + r * held["n"])
        return mix(n, z, h) if mix else (1 - z) * n + z * h

    return wrong


def _turned(n, z, h):
    return z * n + (1 - z) * h


_BEFORE = (
    "This is the paper's form: you reset the state before the matrix. Asked for is torch's, where"
    " the reset meets what the matrix has made of the state. With the same weights these are two"
    " functions."
)
_ROUND = (
    "You keep where you should write. There are two customs for this gate; read in the question"
    " which of the two shares it is here."
)


def _gru_torch(x, h, w_in, w_state, b_in, b_state):
    return torch._VF.gru_cell(x, h, w_in, w_state, b_in, b_state)


def _gru_blocks(x, h, w_in, w_state, b_in, b_state):
    d = h.size(1)
    a, s = x @ w_in.T + b_in, h @ w_state.T + b_state
    gates = torch.sigmoid(a[:, : 2 * d] + s[:, : 2 * d])
    n = torch.tanh(a[:, 2 * d :] + gates[:, :d] * s[:, 2 * d :])
    return n + gates[:, d:] * (h - n)


def _gru_lerp(x, h, w_in, w_state, b_in, b_state):
    r_in, z_in, n_in = nn.functional.linear(x, w_in, b_in).split(h.size(1), 1)
    r_h, z_h, n_h = nn.functional.linear(h, w_state, b_state).split(h.size(1), 1)
    return torch.lerp(torch.tanh(n_in + torch.sigmoid(r_in + r_h) * n_h), h, (z_in + z_h).sigmoid())


GRU = Question(
    name="gates.gru",
    target="gru_once",
    points=3,
    cases=_gru_cases,
    reference=gru_once,
    mistakes={
        "before": (_gru(new=lambda a, h, w, b, r: a + (r * h) @ w.T + b), _BEFORE),
        "turned-round": (_gru(mix=_turned), _ROUND),
        "before-and-turned": (
            _gru(new=lambda a, h, w, b, r: a + (r * h) @ w.T + b, mix=_turned),
            "Two customs at once that are not torch's: where the reset stands, and which of two"
            " shares the other gate is. Read the lines above the table again.",
        ),
        "offset-outside": (
            _gru(new=lambda a, h, w, b, r: a + r * (h @ w.T) + b),
            "Nearly: one offset of the candidate stands outside of the reset, as if the two were"
            " interchangeable. In this form they are not.",
        ),
        "both-inside": (
            _gru(new=lambda a, h, w, b, r: r * (a + h @ w.T + b)),
            "You reset what the input says as well. The reset is there to make the candidate"
            " ignore the past, not the present.",
        ),
        "reset-turned-round": (
            _gru(new=lambda a, h, w, b, r: a + (1 - r) * (h @ w.T + b)),
            "Where the reset is open, your candidate ignores the past. It should see the past"
            " there: the share says how much of it.",
        ),
        "offsets-exchanged": (
            lambda x, h, w_in, w_state, b_in, b_state: gru_once(x, h, w_in, w_state, b_state, b_in),
            "Both gates are right. In the candidate each offset stands where the other belongs,"
            " and the reset tells them apart.",
        ),
        "no-reset": (
            _gru(new=lambda a, h, w, b, r: a + h @ w.T + b),
            "Your candidate always sees the past. One of the gates goes unused.",
        ),
        **{
            f"order-{order}": (
                _gru(order),
                "All parts are there, and some read the rows of others. That is the order of"
                " another library, or of another layer: here it is that of the question.",
            )
            for order in ("zrn", "nrz", "rnz", "nzr")
        },
        "order-zrn-turned": (
            _gru("zrn", mix=_turned),
            "Two things at once, and both are customs: the order of the blocks, and which of two"
            " shares the gate is.",
        ),
        "no-offsets": (
            lambda x, h, w_in, w_state, b_in, b_state: gru_once(
                x, h, w_in, w_state, 0 * b_in, 0 * b_state
            ),
            "The offsets go unused. They say where a gate stands before there is anything to see.",
        ),
        "state-not-kept": (
            _gru(mix=lambda n, z, h: (1 - z) * n),
            "What is not written must be kept: a share of the old state is missing.",
        ),
        "all-written": (
            _gru(mix=lambda n, z, h: n + z * h),
            "Your state can outgrow its bounds. The two shares should make up one whole.",
        ),
        "candidate-only": (
            _gru(mix=lambda n, z, h: n),
            "That is the candidate. The new state is a mixture of it and the old one.",
        ),
        "sigmoid-content": (
            _gru(content=torch.sigmoid),
            "Your candidate is never below zero. Gates are shares; the candidate is no gate.",
        ),
    },
    alternatives={"torch": _gru_torch, "blocks": _gru_blocks, "lerp": _gru_lerp},
)


# gates.count


def gated_params(kind, d_in, d_h, layers=1, biases=2):
    blocks = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
    first = d_in + d_h + biases
    above = (layers - 1) * (2 * d_h + biases)
    return blocks * d_h * (first + above)


def _count_cases(seed):
    draw = Draw(seed)
    d_in, d_h = draw.between(5, 9), draw.between(11, 19)

    def case(label, kind, d_in, d_h, **kwargs):
        return Case(label, {"kind": kind, "d_in": d_in, "d_h": d_h}, kwargs)

    return [
        case("torch's LSTM, 512 and 512", "lstm", 512, 512),
        case("the paper's LSTM, 512 and 512", "lstm", 512, 512, biases=1),
        case("torch's GRU", "gru", d_in, d_h),
        case("the paper's GRU", "gru", d_in, d_h, biases=1),
        case("a plain layer", "rnn", d_in, d_h),
        case("an LSTM of other sizes", "lstm", d_h, d_in),
        case("two layers", "lstm", d_in, d_h, layers=2),
        case("several layers", "gru", d_in, d_h, layers=draw.between(3, 5)),
        case("several layers, one offset", "rnn", d_in, d_h, layers=4, biases=1),
        case("one of everything", "gru", 1, 1),
    ]


def _counted(
    blocks=(1, 3, 4),
    first=lambda i, h, b: i + h + b,
    above=lambda i, h, b: 2 * h + b,
    biases=lambda b: b,
):
    def wrong(kind, d_in, d_h, layers=1, biases_=2, **named):
        b = biases(named.get("biases", biases_))
        k = dict(zip(("rnn", "gru", "lstm"), blocks, strict=True))[kind]
        return k * d_h * (first(d_in, d_h, b) + (layers - 1) * above(d_in, d_h, b))

    return wrong


def _shared_offsets(kind, d_in, d_h, layers=1, biases=2):
    bare = gated_params(kind, d_in, d_h, layers, 0)
    return bare + layers * biases * d_h


def _built_params(kind, d_in, d_h, layers=1, biases=2):
    build = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind]
    layer = build(d_in, d_h, layers, device="meta")
    names = [
        (name, p) for name, p in layer.named_parameters() if biases == 2 or "bias_hh" not in name
    ]
    return sum(p.numel() for _, p in names)


def _listed_params(kind, d_in, d_h, layers=1, biases=2):
    blocks = {"r": 1, "g": 3}.get(kind[0], 4)
    reads = [d_in] + [d_h] * (layers - 1)
    return sum(blocks * (n * d_h + d_h * d_h + biases * d_h) for n in reads)


COUNT = Question(
    name="gates.count",
    target="gated_params",
    points=2,
    cases=_count_cases,
    reference=gated_params,
    mistakes={
        "one-offset": (
            _counted(biases=lambda b: 1),
            "Right for a paper. Torch has two offsets for each row, one for either matrix, and one"
            " of the arguments says how many to count.",
        ),
        "two-offsets": (
            _counted(biases=lambda b: 2),
            "Right for the library. A paper has one offset for each row; one of the arguments"
            " says how many to count.",
        ),
        "no-offsets": (
            _counted(biases=lambda b: 0),
            "The matrices are right. Each row has an offset as well, or two.",
        ),
        "gates-only": (
            _counted(blocks=(1, 2, 3)),
            "You count gates. In each of the gated layers there is one more block of rows: which"
            " part of the step is no gate and has weights all the same?",
        ),
        "lstm-three": (
            _counted(blocks=(1, 3, 3)),
            "The GRU is right. How many dense layers stand in the six lines of the other?",
        ),
        "gru-four": (
            _counted(blocks=(1, 4, 4)),
            "The LSTM is right. The GRU saves a gate, and with it a block of rows.",
        ),
        "gru-two": (
            _counted(blocks=(1, 2, 4)),
            "The LSTM is right. The GRU has two gates, and something that is no gate.",
        ),
        "no-recurrence": (
            _counted(first=lambda i, h, b: i + b, above=lambda i, h, b: h + b),
            "You count what reads the input. Every block reads the last state too.",
        ),
        "all-alike": (
            _counted(above=lambda i, h, b: i + h + b),
            "Right for one layer. The layers above do not read the input of the whole: what do"
            " they read?",
        ),
        "no-above": (
            _counted(above=lambda i, h, b: 0),
            "Right for one layer. You were asked for a stack of them.",
        ),
        "above-bare": (
            _counted(above=lambda i, h, b: h + b),
            "Right for one layer. Those above read two things, like the first: the layer below,"
            " and their own state.",
        ),
        "above-no-offsets": (
            _counted(above=lambda i, h, b: 2 * h),
            "Right for one layer, and right for all matrices. The rows of the layers above have"
            " their offsets too.",
        ),
        "offsets-of-one-block": (
            _shared_offsets,
            "Right where there is a single block. With more of them, each row of each has an"
            " offset of its own.",
        ),
        "input-squared": (
            _counted(first=lambda i, h, b: 2 * i + b),
            "The state is read by a square matrix. Which of the two sizes is its side?",
        ),
    },
    alternatives={"modules": _built_params, "layers": _listed_params},
)


# gates.offset


def forget_offset(steps, kept=0.5):
    gate = kept ** (1 / steps)
    return torch.log(gate / (1 - gate))


def _offset_cases(seed):
    draw = Draw(seed)
    n, m = draw.between(3, 5), draw.between(6, 9)

    def case(label, *shape, dtype=F32, least=1.01, most=61.0, **kwargs):
        u = torch.rand(shape, generator=draw.generator, dtype=dtype, device="cpu")
        upstream = draw.normal(*shape, dtype=dtype)
        return Case(label, {"steps": least + (most - least) * u**2}, kwargs, upstream)

    return [
        case("half-lives", n),
        case("half-lives, in float64", m, dtype=F64),
        case("half-lives of two layers", 2, m),
        case("one unit", 1),
        case("less than a step", n, least=0.3, most=0.9),
        case("nine tenths are left", m, kept=0.9),
        case("a hundredth is left", n, kept=0.01),
        case("a third is left, in float64", n, 2, kept=1 / 3, dtype=F64),
        case("a drawn share is left", m + 1, kept=draw.between(60, 80) / 100),
    ]


def _logit(gate):
    return torch.log(gate / (1 - gate))


def _left(kept, steps):
    return torch.exp(math.log(kept) / steps)


OFFSET = Question(
    name="gates.offset",
    target="forget_offset",
    points=2,
    cases=_offset_cases,
    reference=forget_offset,
    mistakes={
        "gate": (
            lambda steps, kept=0.5: _left(kept, steps),
            "That is the gate. Asked for is the offset that puts a sigmoid there.",
        ),
        "chrono": (
            lambda steps, kept=0.5: torch.log(steps - 1),
            "That is the rule of thumb for a span, which leaves about 0.37 of a content whatever"
            " you ask for. Here the share is given.",
        ),
        "log-steps": (
            lambda steps, kept=0.5: torch.log(steps),
            "Close for long spans and one certain share, and never exact. Write down what is left"
            " after all steps, solve that for the gate, and then for the offset.",
        ),
        "always-half": (
            lambda steps, kept=0.5: _logit(_left(0.5, steps)),
            "Right for half-lives. Another share may be asked for.",
        ),
        "once": (
            lambda steps, kept=0.5: _logit(kept + 0 * steps),
            "Yours leaves that share after a single step. What must one step leave, so that all of"
            " them together leave it?",
        ),
        "dealt-out": (
            lambda steps, kept=0.5: _logit(1 - (1 - kept) / steps),
            "You deal the loss out evenly, as if each step lost a part of the original. Each loses"
            " a part of what is left.",
        ),
        "lost": (
            lambda steps, kept=0.5: _logit(_left(1 - kept, steps)),
            "Right for half-lives, where what is left and what is lost are alike. For other shares"
            " you have taken one for the other.",
        ),
        "turned-round": (
            lambda steps, kept=0.5: -forget_offset(steps, kept),
            "The right size, and the wrong sign: your gate is as shut as it should be open.",
        ),
        "tanh": (
            lambda steps, kept=0.5: torch.atanh(_left(kept, steps)),
            "The gate is right, and you have undone the wrong bend: it is a tanh that has this"
            " value there.",
        ),
        "power": (
            lambda steps, kept=0.5: _logit((kept**steps).clamp(1e-30)),
            "That gate is nearly shut. You have taken what is left after so many steps of a gate"
            " that stands at the share. It is the other way round.",
        ),
        "e-fold": (
            lambda steps, kept=0.5: -torch.log(torch.expm1(1 / steps)),
            "Your gate leaves one part in e after so many steps. Which share was asked for?",
        ),
        "at-least-one": (
            lambda steps, kept=0.5: forget_offset(steps.clamp(min=1), kept),
            "Right from one step on. A content can be gone sooner than that: such a gate has an"
            " offset as well, and nothing needs to be held back.",
        ),
        "detached": (
            lambda steps, kept=0.5: forget_offset(steps.detach(), kept),
            "The numbers are right, and no gradient comes back. Did one of your steps leave torch?",
        ),
    },
    alternatives={
        "solved": lambda steps, kept=0.5: -torch.log(torch.exp(-math.log(kept) / steps) - 1),
        "logarithms": lambda steps, kept=0.5: (
            math.log(kept) / steps - torch.log(-torch.expm1(math.log(kept) / steps))
        ),
        "torch": lambda steps, kept=0.5: torch.logit(kept ** steps.reciprocal()),
    },
)


QUESTIONS = (LSTM, GRU, COUNT, OFFSET)
