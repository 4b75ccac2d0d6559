"""Exercise set *block*: the MLP, the gate, the two sums, the votes of a memory, and the bill.

For each question: the reference, its cases, the wrong answers that learners give (each with a hint
that says what the symptom shows and where to look), and other right answers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from lumen.grading.draw import Draw, both
from lumen.grading.question import Case, Question

F32, F64 = torch.float32, torch.float64


def _shapes(draw):
    """Tokens and hidden units: a label, the shape of x, d_ff, the dtype."""
    n, d = draw.between(3, 4), draw.between(5, 7)
    return [
        ("a batch of sequences", (2, n, d), 4 * d, F32),
        ("one token", (d,), 3 * d, F32),
        ("one sequence", (n, d), 2 * d + 1, F32),
        ("as many hidden units as numbers", (2, 4, 4), 4, F32),
        ("fewer hidden units than numbers", (n, d + 2), 2, F32),
        ("one hidden unit, tokens of one number", (n, 1), 1, F32),
        ("in float64", (2, n, d + 1), 2 * d, F64),
    ]


# block.mlp


def mlp(x, w_fc, b_fc, w_proj, b_proj):
    return F.gelu(x @ w_fc.T + b_fc) @ w_proj.T + b_proj


def _mlp_cases(seed):
    draw = Draw(seed)

    def case(label, shape, d_ff, dtype, size=1.0):
        d = shape[-1]
        inputs = {
            "x": size * draw.normal(*shape, dtype=dtype),
            "w_fc": draw.normal(d_ff, d, dtype=dtype),
            "b_fc": draw.normal(d_ff, dtype=dtype),
            "w_proj": draw.normal(d, d_ff, dtype=dtype),
            "b_proj": draw.normal(d, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(*shape, dtype=dtype))

    small = case("small numbers, in float64", (3, 5), 7, F64, size=1e-2)
    return [*(case(*each) for each in _shapes(draw)), small]


def _mlp(act=F.gelu, last=lambda y: y, hidden=1, end=1):
    """The MLP, with some of its choices replaced."""

    def wrong(x, w_fc, b_fc, w_proj, b_proj):
        return last(act(x @ w_fc.T + hidden * b_fc) @ w_proj.T + end * b_proj)

    return wrong


def _added(x, w_fc, b_fc, w_proj, b_proj):
    return x + mlp(x, w_fc, b_fc, w_proj, b_proj)


def _unit_by_unit(x, w_fc, b_fc, w_proj, b_proj):
    out = b_proj.expand(x.shape)
    for pattern, offset, written in zip(w_fc, b_fc, w_proj.T, strict=True):
        fit = (x * pattern).sum(-1, keepdim=True) + offset
        out = out + fit * torch.special.ndtr(fit) * written
    return out


MLP = Question(
    name="block.mlp",
    target="mlp",
    points=2,
    cases=_mlp_cases,
    reference=mlp,
    mistakes={
        "no-bend": (
            _mlp(act=lambda h: h),
            "Double the input, offsets aside, and your output doubles: two matrices in a row are"
            " one. Something stands between them.",
        ),
        "relu": (
            _mlp(act=F.relu),
            "Right where a fit is large. Near zero and a little below it yours has a corner, and"
            " the bend that was asked for has none.",
        ),
        "silu": (_mlp(act=F.silu), "A smooth bend, but another one: its gate is another curve."),
        "tanh-gelu": (
            _mlp(act=lambda h: F.gelu(h, approximate="tanh")),
            "Off in the fourth digit. You use the approximation; asked for is the exact form.",
        ),
        "sigmoid-gelu": (
            _mlp(act=lambda h: h * torch.sigmoid(1.702 * h)),
            "Close to the bend that was asked for, and off in the second digit: yours is the quick"
            " stand-in for it. Asked for is the exact form.",
        ),
        "erf-of-the-fit": (
            _mlp(act=lambda h: 0.5 * h * (1 + torch.erf(h))),
            "Nearly the bend, a little too steep: the error function is no normal distribution"
            " function until its argument is scaled.",
        ),
        "gate-only": (
            _mlp(act=torch.special.ndtr),
            "Your units fire between zero and one, however well a pattern fits. A good fit should"
            " come out about as large as it went in.",
        ),
        "tanh": (
            _mlp(act=torch.tanh),
            "Your units are cut off at one, on both sides. The bend that was asked for lets large"
            " fits through as they are.",
        ),
        "offset-behind-the-bend": (
            lambda x, w_fc, b_fc, w_proj, b_proj: (F.gelu(x @ w_fc.T) + b_fc) @ w_proj.T + b_proj,
            "The first offset comes too late: it should move where a unit bends, and in yours it"
            " moves what is written.",
        ),
        "normed": (
            lambda x, w_fc, b_fc, w_proj, b_proj: mlp(_norm(x), w_fc, b_fc, w_proj, b_proj),
            "Make a token ten times as large, and nothing of yours changes. The norm belongs to"
            " the block; the dense half takes the token as it comes.",
        ),
        "bend-last": (
            _mlp(act=lambda h: h, last=F.gelu),
            "You bend what is written. What is bent is how well each pattern fits.",
        ),
        "bend-twice": (
            _mlp(last=F.gelu),
            "What leaves is never below −0.17. The last step of this net bends nothing.",
        ),
        "no-hidden-offset": (
            _mlp(hidden=0),
            "An offset has no effect on what you return: the one that moves where a unit bends.",
        ),
        "no-last-offset": (
            _mlp(end=0),
            "All is off by one row, the same for each token. An offset has no effect.",
        ),
        "no-offsets": (
            _mlp(hidden=0, end=0),
            "Neither of the two offsets has any effect on what you return.",
        ),
        "added": (
            _added,
            "You add the input. The sum belongs to the block; here the change alone is wanted.",
        ),
        "shares": (
            _mlp(act=lambda h: h.softmax(-1)),
            "Your units compete: their factors add up to one. That is attention. Here each unit is"
            " bent by itself.",
        ),
    },
    alternatives={
        "linear": lambda x, w_fc, b_fc, w_proj, b_proj: F.linear(
            F.gelu(F.linear(x, w_fc, b_fc)), w_proj, b_proj
        ),
        "erf": _mlp(act=lambda h: 0.5 * h * (1 + torch.erf(h / 2**0.5))),
        "unit-by-unit": _unit_by_unit,
    },
)


# block.gate


def gated_mlp(x, w_gate, w_up, w_down):
    return (F.silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T


def _gate_cases(seed):
    draw = Draw(seed)

    def case(label, shape, d_ff, dtype, size=1.0):
        d = shape[-1]
        inputs = {
            "x": size * draw.normal(*shape, dtype=dtype),
            "w_gate": draw.normal(d_ff, d, dtype=dtype),
            "w_up": draw.normal(d_ff, d, dtype=dtype),
            "w_down": draw.normal(d, d_ff, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(*shape, dtype=dtype))

    small = case("small numbers, in float64", (3, 5), 7, F64, size=1e-2)
    return [*(case(*each) for each in _shapes(draw)), small]


def _gate(gate=F.silu, up=lambda u: u, join=torch.mul):
    def wrong(x, w_gate, w_up, w_down):
        return join(gate(x @ w_gate.T), up(x @ w_up.T)) @ w_down.T

    return wrong


def _gate_of_itself(x, w_gate, w_up, w_down):
    fit = x @ w_gate.T
    return (F.silu(fit) * fit) @ w_down.T


def _gate_unit_by_unit(x, w_gate, w_up, w_down):
    out = torch.zeros_like(x)
    for gate, up, down in zip(w_gate, w_up, w_down.T, strict=True):
        opened = (x * gate).sum(-1, keepdim=True)
        out = out + opened / (1 + torch.exp(-opened)) * (x * up).sum(-1, keepdim=True) * down
    return out


GATE = Question(
    name="block.gate",
    target="gated_mlp",
    points=2,
    cases=_gate_cases,
    reference=gated_mlp,
    mistakes={
        "other-half": (
            _gate(gate=lambda g: g, up=F.silu),
            "The two halves have changed places: it is the gate that is bent.",
        ),
        "sigmoid": (
            _gate(gate=torch.sigmoid),
            "Your gate lies between zero and one. That is the older gate; the one asked for may be"
            " as large as the number that opens it.",
        ),
        "gelu": (
            _gate(gate=F.gelu),
            "A near relative of what is asked for, with another curve in its gate.",
        ),
        "relu": (_gate(gate=F.relu), "Your gate is shut for all that is negative. It should leak."),
        "no-bend": (
            _gate(gate=lambda g: g),
            "A product of two linear maps: flip the sign of a token, and nothing changes.",
        ),
        "both": (_gate(up=F.silu), "Both halves are bent. One of them goes through as it is."),
        "bent-product": (
            _gate(gate=lambda g: g, join=lambda g, u: F.silu(g * u)),
            "You multiply, then bend. The bend comes first, and only on one side.",
        ),
        "sum": (
            _gate(join=torch.add),
            "You add the two halves. A gate decides how much of a number counts.",
        ),
        "sigmoid-of-the-other": (
            _gate(gate=lambda g: g, up=torch.sigmoid),
            "Your gate lies between zero and one, and it is made of the wrong half. If a function"
            " of torch did this for you: it is the older gate.",
        ),
        "softmax": (
            _gate(gate=lambda g: g.softmax(-1)),
            "Your units compete: the gates of a token add up to one. Here each opens by itself.",
        ),
        "gate-twice": (
            _gate_of_itself,
            "One matrix has no effect. What goes through is a projection of its own.",
        ),
        "nothing-through": (
            lambda x, w_gate, w_up, w_down: F.silu(x @ w_gate.T) @ w_down.T,
            "One matrix has no effect: you open the gate and send nothing through it.",
        ),
        "bend-last": (
            lambda x, w_gate, w_up, w_down: F.silu(((x @ w_gate.T) * (x @ w_up.T)) @ w_down.T),
            "What you return is never below −0.28: you bend what leaves. The bend is inside.",
        ),
        "normed": (
            lambda x, w_gate, w_up, w_down: gated_mlp(_norm(x), w_gate, w_up, w_down),
            "Make a token ten times as large, and nothing of yours changes. The norm belongs to"
            " the block; the dense half takes the token as it comes.",
        ),
        "no-gate": (
            lambda x, w_gate, w_up, w_down: F.silu(x @ w_up.T) @ w_down.T,
            "One matrix has no effect. That is a plain MLP without offsets.",
        ),
        "added": (
            lambda x, w_gate, w_up, w_down: x + gated_mlp(x, w_gate, w_up, w_down),
            "You add the input. The sum belongs to the block; here the change alone is wanted.",
        ),
    },
    alternatives={
        "linear": lambda x, w_gate, w_up, w_down: F.linear(
            F.linear(x, w_up) * F.silu(F.linear(x, w_gate)), w_down
        ),
        "one-product": lambda x, w_gate, w_up, w_down: (
            (lambda g, u: g * torch.sigmoid(g) * u)(
                *F.linear(x, torch.cat([w_gate, w_up])).chunk(2, dim=-1)
            )
            @ w_down.T
        ),
        "unit-by-unit": _gate_unit_by_unit,
    },
)


# block.sums


def _norm(x):
    return F.layer_norm(x, (x.size(-1),))


def one_block(x, shares, w_fc, w_proj, norm_first=True):
    if norm_first:
        x = x + shares @ _norm(x)
        return x + F.gelu(_norm(x) @ w_fc.T) @ w_proj.T
    x = _norm(x + shares @ x)
    return _norm(x + F.gelu(x @ w_fc.T) @ w_proj.T)


def _sum_cases(seed):
    draw = Draw(seed)
    n, d = draw.between(3, 5), draw.between(6, 8)

    def case(label, shape, d_ff, norm_first=True, dtype=F32, size=3.0, given=True):
        *_, n, d = shape
        inputs = {
            "x": size * draw.normal(*shape, dtype=dtype) + 1,
            "shares": draw.normal(n, n, dtype=dtype).softmax(-1),
            "w_fc": draw.normal(d_ff, d, dtype=dtype) / d**0.5,
            "w_proj": draw.normal(d, d_ff, dtype=dtype) / d_ff**0.5,
        }
        kwargs = {"norm_first": norm_first} if given else {}
        return Case(label, inputs, kwargs, upstream=draw.normal(*shape, dtype=dtype))

    return [
        case("as it comes", (2, n, d), 2 * d, given=False),
        case("pre-norm: one sequence", (n, d), 3 * d),
        case("pre-norm: one place", (1, d), d),
        case("pre-norm: as many places as numbers, in float64", (5, 5), 5, dtype=F64),
        case("pre-norm: large numbers", (2, n + 3, d), d + 1, size=30.0),
        case("post-norm: a batch", (2, n, d), 2 * d, False),
        case("post-norm: one sequence", (n + 1, d + 1), d, False),
        case("post-norm: one place", (1, d), d, False),
        case("post-norm: in float64", (2, n, d), 2 * d, False, F64),
    ]


def _pre(rule):
    """A wrong way to put the norms first; post-norm is right."""

    def wrong(x, shares, w_fc, w_proj, norm_first=True):
        if not norm_first:
            return one_block(x, shares, w_fc, w_proj, norm_first)
        return rule(x, lambda t: shares @ t, lambda t: F.gelu(t @ w_fc.T) @ w_proj.T)

    return wrong


def _post(rule):
    """A wrong way to put the norms last; pre-norm is right."""

    def wrong(x, shares, w_fc, w_proj, norm_first=True):
        if norm_first:
            return one_block(x, shares, w_fc, w_proj, norm_first)
        return rule(x, lambda t: shares @ t, lambda t: F.gelu(t @ w_fc.T) @ w_proj.T)

    return wrong


def _bends(bend=F.gelu, norm=None):
    """The wiring right, with another bend or another norm."""

    def wrong(x, shares, w_fc, w_proj, norm_first=True):
        level = norm or _norm
        if norm_first:
            x = x + shares @ level(x)
            return x + bend(level(x) @ w_fc.T) @ w_proj.T
        x = level(x + shares @ x)
        return level(x + bend(x @ w_fc.T) @ w_proj.T)

    return wrong


def _each(pre, post):
    """Wrong in both placements."""

    def wrong(x, shares, w_fc, w_proj, norm_first=True):
        return (_pre(pre) if norm_first else _post(post))(x, shares, w_fc, w_proj, norm_first)

    return wrong


def _without_mean(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def _by_sample(x):
    if x.size(-1) == 1:
        return 0 * x
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def _then(first, second):
    """Two rules, one after the other."""
    return lambda x, mix, think: second(first(x, mix, think), mix, think)


def _loop(x, shares, w_fc, w_proj, norm_first=True):
    def mix(t):
        return torch.einsum("ij,...jd->...id", shares, t)

    def think(t):
        return F.linear(F.gelu(F.linear(t, w_fc)), w_proj)

    for half in (mix, think):
        x = x + half(_norm(x)) if norm_first else _norm(x + half(x))
    return x


def _by_hand(x, shares, w_fc, w_proj, norm_first=True):
    def norm(t):
        left = t - t.mean(-1, keepdim=True)
        return left * (left.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    inner, outer = (norm, lambda t: t) if norm_first else (lambda t: t, norm)
    x = outer(torch.matmul(shares, inner(x)) + x)
    return outer(torch.matmul(F.gelu(torch.matmul(inner(x), w_fc.T)), w_proj.T) + x)


def _everywhere(x, shares, w_fc, w_proj, norm_first=True):
    """The norm taken over all the places of a sequence at once."""

    def norm(t):
        return F.layer_norm(t, t.shape[-2:])

    if norm_first:
        x = x + shares @ norm(x)
        return x + F.gelu(norm(x) @ w_fc.T) @ w_proj.T
    x = norm(x + shares @ x)
    return norm(x + F.gelu(x @ w_fc.T) @ w_proj.T)


SUMS = Question(
    name="block.sums",
    target="one_block",
    points=3,
    cases=_sum_cases,
    reference=one_block,
    mistakes={
        # harvardnlp/annotated-transformer#1, #92
        "exchanged": (
            lambda x, shares, w_fc, w_proj, norm_first=True: one_block(
                x, shares, w_fc, w_proj, not norm_first
            ),
            "The two placements have changed places. In one of them the input itself is never"
            " normalised, however many blocks it passes: which?",
        ),
        "always-pre": (
            lambda x, shares, w_fc, w_proj, norm_first=True: one_block(x, shares, w_fc, w_proj),
            "One argument of yours is never looked at: the norms always stand first.",
        ),
        "always-post": (
            lambda x, shares, w_fc, w_proj, norm_first=True: one_block(
                x, shares, w_fc, w_proj, False
            ),
            "One argument of yours is never looked at: the norms always stand last.",
        ),
        "norm-on-the-road": (
            _pre(
                _then(
                    lambda x, mix, think: _norm(x) + mix(_norm(x)),
                    lambda x, mix, think: _norm(x) + think(_norm(x)),
                )
            ),
            "Pre-norm, and large tokens leave it small: you add to the normalised token. What is"
            " added to is what came in.",
        ),
        "parallel": (
            _pre(lambda x, mix, think: x + mix(_norm(x)) + think(_norm(x))),
            "Both halves read the same token, as in some large models. Here the second reads what"
            " the first has left.",
        ),
        "old-input": (
            _pre(lambda x, mix, think: x + think(_norm(x + mix(_norm(x))))),
            "What was mixed reaches the MLP and then is lost: the second sum goes back to the token"
            " that came in.",
        ),
        "no-first-sum": (
            _pre(_then(lambda x, mix, think: mix(_norm(x)), lambda x, m, t: x + t(_norm(x)))),
            "With the norms first, the token that came in is gone behind the first half.",
        ),
        "no-second-sum": (
            _pre(_then(lambda x, mix, think: x + mix(_norm(x)), lambda x, m, t: t(_norm(x)))),
            "With the norms first, you return what the MLP makes, without what it is added to.",
        ),
        "one-norm": (
            _pre(_then(lambda x, mix, think: x + mix(_norm(x)), lambda x, m, t: x + t(x))),
            "With the norms first, the MLP reads a token as large as it happens to be.",
        ),
        "last-norm": (
            _pre(lambda x, mix, think: _norm((lambda y: y + think(_norm(y)))(x + mix(_norm(x))))),
            "With the norms first, a norm more stands at the end. A stack has one there, behind its"
            " last block; a block has not.",
        ),
        "branch-normed": (
            _post(
                _then(
                    lambda x, mix, think: x + _norm(mix(x)),
                    lambda x, mix, think: x + _norm(think(x)),
                )
            ),
            "With the norms last, yours normalise what is added. They belong behind the sum.",
        ),
        "norm-behind-the-branch": (
            _pre(
                _then(
                    lambda x, mix, think: x + _norm(mix(x)),
                    lambda x, mix, think: x + _norm(think(x)),
                )
            ),
            "With the norms first, make the tokens ten times as large: what your halves read grows"
            " with them. On which side of a half does your norm stand?",
        ),
        "post-normed-inside": (
            _post(
                _then(
                    lambda x, mix, think: _norm(x + mix(_norm(x))),
                    lambda x, mix, think: _norm(x + think(_norm(x))),
                )
            ),
            "With the norms last, the size of the tokens does not reach your first half. Count the"
            " norms that you apply.",
        ),
        "norm-over-all": (
            _everywhere,
            "Right for one place. Otherwise what one place holds changes how another is"
            " normalised: what does the norm average over?",
        ),
        "post-once": (
            _post(_then(lambda x, mix, think: x + mix(x), lambda x, m, t: _norm(x + t(x)))),
            "With the norms last, one is missing: there are two sums.",
        ),
        "no-norms": (
            _bends(norm=lambda x: x),
            "Nothing in yours ever brings a token to one scale, in either placement.",
        ),
        "pre-without-norms": (
            _pre(_then(lambda x, mix, think: x + mix(x), lambda x, m, t: x + t(x))),
            "With the norms first, nothing is normalised: make the tokens ten times as large, and"
            " what your halves read grows with them.",
        ),
        "post-without-norms": (
            _post(_then(lambda x, mix, think: x + mix(x), lambda x, m, t: x + t(x))),
            "With the norms last, nothing is normalised: what leaves has no fixed scale.",
        ),
        "no-sums": (
            _each(
                lambda x, mix, think: think(_norm(mix(_norm(x)))),
                lambda x, mix, think: _norm(think(_norm(mix(x)))),
            ),
            "Each half replaces the token instead of adding to it, in both placements.",
        ),
        "pre-without-sums": (
            _pre(lambda x, mix, think: think(_norm(mix(_norm(x))))),
            "With the norms first, each half replaces the token instead of adding to it.",
        ),
        "post-without-sums": (
            _post(lambda x, mix, think: _norm(think(_norm(mix(x))))),
            "With the norms last, each half replaces the token instead of adding to it.",
        ),
        "post-no-first-sum": (
            _post(_then(lambda x, mix, think: _norm(mix(x)), lambda x, m, t: _norm(x + t(x)))),
            "Right for one place. With the norms last, the token that came in is gone behind the"
            " first half.",
        ),
        "post-no-second-sum": (
            _post(_then(lambda x, mix, think: _norm(x + mix(x)), lambda x, m, t: _norm(t(x)))),
            "With the norms last, what the MLP makes is added to nothing.",
        ),
        "post-one-norm-early": (
            _post(_then(lambda x, mix, think: _norm(x + mix(x)), lambda x, m, t: x + t(x))),
            "With the norms last, what leaves your block has no fixed scale: behind one of the two"
            " sums stands nothing.",
        ),
        "post-parallel": (
            _post(lambda x, mix, think: _norm(x + mix(x) + think(x))),
            "With the norms last, both halves read the same token. The second should read what the"
            " first has left.",
        ),
        "post-old-input": (
            _post(lambda x, mix, think: _norm(x + think(_norm(x + mix(x))))),
            "With the norms last, what was mixed reaches the MLP and then is lost: the second sum"
            " goes back to the token that came in.",
        ),
        "old-input-in-both": (
            _each(
                lambda x, mix, think: x + think(_norm(x + mix(_norm(x)))),
                lambda x, mix, think: _norm(x + think(_norm(x + mix(x)))),
            ),
            "In both placements the second sum goes back to the token that came in, and what was"
            " mixed is lost.",
        ),
        "post-order": (
            _post(_then(lambda x, m, think: _norm(x + think(x)), lambda x, m, t: _norm(x + m(x)))),
            "With the norms last, you compute and then mix. The block does the reverse.",
        ),
        "order-in-both": (
            _each(
                _then(lambda x, m, think: x + think(_norm(x)), lambda x, m, t: x + m(_norm(x))),
                _then(lambda x, m, think: _norm(x + think(x)), lambda x, m, t: _norm(x + m(x))),
            ),
            "In both placements you compute and then mix. The block does the reverse.",
        ),
        "normed-at-the-door": (
            _pre(_then(lambda x, mix, think: _norm(x) + mix(_norm(x)), lambda x, m, t: x + t(x))),
            "You normalise once, at the door, and go on with that. With the norms first the token"
            " itself goes past, and only what a half reads is normalised.",
        ),
        "second-on-the-road": (
            _pre(
                _then(
                    lambda x, mix, think: x + mix(_norm(x)),
                    lambda x, m, think: _norm(x) + think(_norm(x)),
                )
            ),
            "With the norms first, your second sum adds to the normalised token. What is added to"
            " is what the first half left, as it is.",
        ),
        "no-bend": (
            _bends(lambda h: h),
            "The wiring is right, but two of your matrices in a row are one: nothing stands"
            " between them.",
        ),
        "relu": (
            _bends(F.relu),
            "The wiring is right. The bend has a corner, and the one that was asked for has none.",
        ),
        "tanh-gelu": (
            _bends(lambda h: F.gelu(h, approximate="tanh")),
            "The wiring is right, and the numbers are off in the fourth digit. You use the"
            " approximate bend; asked for is the exact one.",
        ),
        "no-mlp": (
            _each(lambda x, mix, think: x + mix(_norm(x)), lambda x, mix, think: _norm(x + mix(x))),
            "Two of the matrices have no effect: your block mixes, and nothing is computed.",
        ),
        "second-norm-only": (
            _pre(_then(lambda x, mix, think: x + mix(x), lambda x, m, t: x + t(_norm(x)))),
            "With the norms first, attention reads a token as large as it happens to be.",
        ),
        "no-mean-taken": (
            _bends(norm=_without_mean),
            "The wiring is right. Add the same number to all of a token, and yours changes: your"
            " norm takes off no mean.",
        ),
        "sample-spread": (
            _bends(norm=_by_sample),
            "The wiring is right. Your norm is off by one in what it divides the squares by.",
        ),
        "other-default": (
            lambda x, shares, w_fc, w_proj, norm_first=False: one_block(
                x, shares, w_fc, w_proj, norm_first
            ),
            "Right wherever the placement is given. Where it is not, the caller expects the other"
            " one.",
        ),
        "order": (
            _pre(_then(lambda x, m, think: x + think(_norm(x)), lambda x, m, t: x + m(_norm(x)))),
            "With the norms first, you compute and then mix. The block does the reverse.",
        ),
        "transposed": (
            lambda x, shares, w_fc, w_proj, norm_first=True: one_block(
                x, shares.T, w_fc, w_proj, norm_first
            ),
            "Right for one place. The shares are read by columns: row i belongs to the place that"
            " asks.",
        ),
    },
    alternatives={"loop": _loop, "by-hand": _by_hand},
)


# block.votes


def votes(x, w_fc, w_proj, direction):
    return F.gelu(x @ w_fc.T) * (direction @ w_proj)


def _vote_cases(seed):
    draw = Draw(seed)

    def case(label, shape, d_ff, dtype):
        d = shape[-1]
        inputs = {
            "x": draw.normal(*shape, dtype=dtype),
            "w_fc": draw.normal(d_ff, d, dtype=dtype),
            "w_proj": draw.normal(d, d_ff, dtype=dtype),
            "direction": draw.normal(d, dtype=dtype),
        }
        return Case(label, inputs, upstream=draw.normal(*shape[:-1], d_ff, dtype=dtype))

    return [case(*each) for each in _shapes(draw)]


def _vote_loop(x, w_fc, w_proj, direction):
    said = [
        F.gelu((x * pattern).sum(-1)) * (written * direction).sum()
        for pattern, written in zip(w_fc, w_proj.T, strict=True)
    ]
    return torch.stack(said, dim=-1)


VOTES = Question(
    name="block.votes",
    target="votes",
    points=1,
    cases=_vote_cases,
    reference=votes,
    mistakes={
        "summed": (
            lambda x, w_fc, w_proj, direction: F.gelu(x @ w_fc.T) @ w_proj.T @ direction,
            "That is what all units say together. Wanted is each unit's own part, which adds up to"
            " it.",
        ),
        "no-bend": (
            lambda x, w_fc, w_proj, direction: (x @ w_fc.T) * (direction @ w_proj),
            "Your units speak by how well a pattern fits, before the bend. A unit that fits badly"
            " should be nearly silent.",
        ),
        "relu": (
            lambda x, w_fc, w_proj, direction: F.relu(x @ w_fc.T) * (direction @ w_proj),
            "Units that fit badly say nothing at all in yours. Which bend leaves them a whisper?",
        ),
        "silu": (
            lambda x, w_fc, w_proj, direction: F.silu(x @ w_fc.T) * (direction @ w_proj),
            "A smooth bend, but another one: its gate is another curve.",
        ),
        "tanh-gelu": (
            lambda x, w_fc, w_proj, direction: (
                F.gelu(x @ w_fc.T, approximate="tanh") * (direction @ w_proj)
            ),
            "Off in the fourth digit. You use the approximation; asked for is the exact form.",
        ),
        "patterns-along": (
            lambda x, w_fc, w_proj, direction: F.gelu(x @ w_fc.T) * (w_fc @ direction),
            "You ask how far a unit's *pattern* points along the direction. What counts is what"
            " the unit writes.",
        ),
        "mean": (
            lambda x, w_fc, w_proj, direction: votes(x, w_fc, w_proj, direction) / len(direction),
            "Too small by the same factor everywhere, the number of numbers in a token: a mean"
            " stands where a sum should.",
        ),
        "shares": (
            lambda x, w_fc, w_proj, direction: (lambda v: v / v.sum(-1, keepdim=True))(
                votes(x, w_fc, w_proj, direction)
            ),
            "Your parts add up to one. They should add up to the change along the direction.",
        ),
        "share-of-one": (
            lambda x, w_fc, w_proj, direction: votes(x, w_fc, w_proj, direction).softmax(-1),
            "Your parts are shares: none below zero, all of them one together. A part may be"
            " against, and all of them are the change along the direction.",
        ),
        "size-of-the-vote": (
            lambda x, w_fc, w_proj, direction: F.gelu(x @ w_fc.T) * (direction @ w_proj).abs(),
            "You take the size of what a unit says and lose on which side it says it.",
        ),
        "size-only": (
            lambda x, w_fc, w_proj, direction: votes(x, w_fc, w_proj, direction).abs(),
            "No vote of yours is ever against. Where does the sign go?",
        ),
        "no-direction": (
            lambda x, w_fc, w_proj, direction: F.gelu(x @ w_fc.T),
            "How strongly a unit fires is half of its vote. The other half is what it writes, seen"
            " along the direction.",
        ),
        "vote-only": (
            lambda x, w_fc, w_proj, direction: (direction @ w_proj).expand(*x.shape[:-1], -1),
            "Every token gets the same votes. What a unit would say is one half; whether it speaks"
            " for this token is the other.",
        ),
        "length": (
            lambda x, w_fc, w_proj, direction: F.gelu(x @ w_fc.T) * w_proj.norm(dim=0),
            "You weigh by how much a unit writes, not by where it points: no vote of yours can be"
            " against.",
        ),
        "unit-direction": (
            lambda x, w_fc, w_proj, direction: votes(x, w_fc, w_proj, direction / direction.norm()),
            "Right up to a factor: your votes do not add up to the change along the direction as it"
            " was given.",
        ),
        "bent-vote": (
            lambda x, w_fc, w_proj, direction: F.gelu((x @ w_fc.T) * (direction @ w_proj)),
            "You bend the vote. It is the fit that is bent, before anything is written.",
        ),
    },
    alternatives={
        "loop": _vote_loop,
        "einsum": lambda x, w_fc, w_proj, direction: torch.einsum(
            "...f,df,d->...f", F.gelu(F.linear(x, w_fc)), w_proj, direction
        ),
    },
)


# block.bill


def block_weights(d, heads, kv_heads, d_ff, gated=False):
    kv = d // heads * kv_heads
    attention = 2 * d * d + 2 * d * kv
    if gated:
        return attention + 3 * d * d_ff + 2 * d
    offsets = 2 * d + 2 * kv + d_ff + d
    return attention + 2 * d * d_ff + offsets + 4 * d


def _bill_cases(seed):
    draw = Draw(seed)
    head = 2 * draw.between(3, 40)

    def case(label, heads, kv_heads, d_ff, **kwargs):
        d = head * heads
        args = {"d": d, "heads": heads, "kv_heads": kv_heads, "d_ff": d_ff}
        return Case(label, args, kwargs)

    return [
        case("a plain block", 4, 4, 16 * head),
        case("one head", 1, 1, 5 * head),
        case("plain, with shared keys", 8, 2, 30 * head),
        case("plain, with one head of keys", 6, 1, 7 * head + 1),
        case("a gated block", 4, 4, 11 * head, gated=True),
        case("gated, with shared keys", 8, 2, 28 * head, gated=True),
        case("gated, one head of keys", 12, 1, 33 * head, gated=True),
    ]


def _bill(
    kv=lambda d, h, k: d // h * k,
    matrices=lambda gated: 3 if gated else 2,
    offsets=lambda d, kv, d_ff, gated: 0 if gated else 3 * d + 2 * kv + d_ff,
    norms=lambda d, gated: 2 * d if gated else 4 * d,
    attention=lambda d, kv: 2 * d * d + 2 * d * kv,
):
    def wrong(d, heads, kv_heads, d_ff, gated=False):
        shared = kv(d, heads, kv_heads)
        dense = matrices(gated) * d * d_ff
        rest = offsets(d, shared, d_ff, gated) + norms(d, gated)
        return attention(d, shared) + dense + rest

    return wrong


def _bill_by_shapes(d, heads, kv_heads, d_ff, gated=False):
    kv = d * kv_heads // heads
    shapes = [(d, d), (kv, d), (kv, d), (d, d)]
    shapes += [(d_ff, d), (d_ff, d), (d, d_ff)] if gated else [(d_ff, d), (d, d_ff)]
    total = 2 * d
    for rows, columns in shapes:
        total += rows * columns if gated else rows * (columns + 1)
    return total if gated else total + 2 * d


BILL = Question(
    name="block.bill",
    target="block_weights",
    points=2,
    cases=_bill_cases,
    reference=block_weights,
    mistakes={
        "unshared": (
            _bill(kv=lambda d, h, k: d),
            "Right where each head has keys of its own. Otherwise two matrices are narrower than"
            " you count them.",
        ),
        "shared-queries": (
            _bill(attention=lambda d, kv: d * d + 3 * d * kv),
            "Right where each head has keys of its own. Sharing narrows two of the four matrices of"
            " attention, and you narrow three.",
        ),
        "head-wide": (
            _bill(kv=lambda d, h, k: d // h),
            "Right for one head of keys. Heads of keys stand beside one another: how wide are they"
            " all together?",
        ),
        # EleutherAI/cookbook#36
        "two-matrices": (
            _bill(matrices=lambda gated: 2),
            "Right for the plain block. A gate has a matrix of its own.",
        ),
        "always-gated": (
            _bill(matrices=lambda gated: 3),
            "Right for the gated block. The plain one has no gate.",
        ),
        "no-output-matrix": (
            _bill(attention=lambda d, kv: d * d + 2 * d * kv),
            "Too few by the square of the width, in every case. What happens to the heads once they"
            " are joined?",
        ),
        "no-attention-offsets": (
            _bill(offsets=lambda d, kv, d_ff, gated: 0 if gated else d + d_ff),
            "A little too few for the plain block: the layers of attention are dense layers too.",
        ),
        "no-mlp-offsets": (
            _bill(offsets=lambda d, kv, d_ff, gated: 0 if gated else 2 * d + 2 * kv),
            "A little too few for the plain block: attention has its offsets, its neighbour has"
            " none.",
        ),
        "no-key-offsets": (
            _bill(offsets=lambda d, kv, d_ff, gated: 0 if gated else 3 * d + d_ff),
            "A little too few for the plain block: two of the four layers of attention lack their"
            " offsets.",
        ),
        "one-offset-too-few": (
            _bill(offsets=lambda d, kv, d_ff, gated: 0 if gated else 2 * d + 2 * kv + d_ff),
            "A width too few for the plain block: a layer that leads back to the token has offsets"
            " as well.",
        ),
        "gains-only": (
            _bill(norms=lambda d, gated: 2 * d),
            "Right for the gated block. The norms of the plain one have offsets as well as gains.",
        ),
        "one-key-head-inverted": (
            _bill(kv=lambda d, h, k: d // k),
            "Right for one head. By which of the two numbers of heads is the width shared out, and"
            " how many of the pieces do keys take?",
        ),
        "last-norm": (
            _bill(norms=lambda d, gated: 3 * d if gated else 6 * d),
            "One norm too many. The one at the end belongs to the stack, not to the block.",
        ),
        "keys-without-values": (
            _bill(attention=lambda d, kv: 2 * d * d + d * kv),
            "One matrix of attention is missing. Heads of keys have something beside them that is"
            " as wide.",
        ),
        "every-head-full": (
            lambda d, heads, kv_heads, d_ff, gated=False: (
                block_weights(d, heads, kv_heads, d_ff, gated)
                + 2 * (d * d - d * d // heads * kv_heads)
                + (heads - 1) * 2 * d * d
            ),
            "Right for one head. Heads share out the width; they do not multiply it.",
        ),
        "matrices-only": (
            _bill(offsets=lambda *_: 0, norms=lambda *_: 0),
            "You count the matrices. Norms have weights too, and dense layers may have offsets.",
        ),
        "no-offsets": (
            _bill(offsets=lambda d, kv, d_ff, gated: 0),
            "A little too few for the plain block: each dense layer in it has a row of offsets.",
        ),
        "offsets-everywhere": (
            _bill(
                offsets=lambda d, kv, d_ff, gated: (
                    3 * d + 2 * kv + d_ff if not gated else 3 * d + 2 * kv + 2 * d_ff
                )
            ),
            "A little too many for the gated block: its dense layers have no offsets.",
        ),
        "no-norms": (
            _bill(norms=lambda d, gated: 0),
            "A few times d too few. What stands in front of each half has weights too.",
        ),
        "one-norm": (
            _bill(norms=lambda d, gated: d if gated else 2 * d),
            "A little too few in every case. How many norms has a block?",
        ),
        "same-norms": (
            _bill(norms=lambda d, gated: 4 * d),
            "Right for the plain block. The norm of the gated one has gains only.",
        ),
        "wide-offsets": (
            _bill(offsets=lambda d, kv, d_ff, gated: 0 if gated else 5 * d + d_ff),
            "Right where each head has keys of its own. Offsets are as many as a layer has outputs,"
            " and two layers have fewer.",
        ),
        "twelve": (
            lambda d, heads, kv_heads, d_ff, gated=False: 12 * d * d,
            "That is the rule for the head: four matrices of d by d, a plain MLP four times as"
            " wide, nothing else. Here the sizes are given.",
        ),
        "both": (
            _bill(matrices=lambda gated: 2, norms=lambda d, gated: 4 * d),
            both(
                "Right for the plain block. A gate has a matrix of its own.",
                "The norm of the gated block has gains only.",
            ),
        ),
    },
    alternatives={
        "by-shapes": _bill_by_shapes,
        "parts": _bill(),
    },
)


QUESTIONS = (MLP, GATE, SUMS, VOTES, BILL)
