"""Tests of the tests: every known mistake is refused by name, every right answer accepted."""

import ast
import doctest
import inspect
import math
import re
import sys
import textwrap
from functools import partial
from itertools import cycle
from pathlib import Path

import jupytext
import pytest
import torch
import torch.nn.functional as F

from lumen.exercises import SETS, check, depth, score
from lumen.exercises import attention as bank
from lumen.grading.check import PUBLIC_SEEDS, WIDTH, one_thread
from lumen.grading.check import check as judge
from lumen.grading.question import compare, pack, run
from tools import exercises as texts

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = {question.name: question for set_ in SETS.values() for question in set_}
MISTAKES = [f"{name}: {id_}" for name, q in QUESTIONS.items() for id_ in q.mistakes]
ALTERNATIVES = [f"{name}: {id_}" for name, q in QUESTIONS.items() for id_ in q.alternatives]
SECRET_SEEDS = range(1000, 1050)
INF = math.inf


@pytest.fixture(autouse=True, scope="module")
def on_one_thread():
    with one_thread():
        yield


def split(id_):
    name, _, key = id_.partition(": ")
    return QUESTIONS[name], key


def verdict(function, question, seeds=PUBLIC_SEEDS):
    return judge(partial(run, function), question, seeds)


# The bank


@pytest.mark.parametrize("id_", MISTAKES)
def test_a_known_mistake_is_refused_and_named(id_):
    question, mistake = split(id_)
    wrong, hint = question.mistakes[mistake]
    found = check(question.name)(wrong)
    assert (found.ok, found.points, found.mistake) == (False, 0, mistake)
    shown = repr(found)
    assert squeezed(hint) in squeezed(shown)
    assert all(len(line) <= WIDTH for line in shown.splitlines())
    assert shown.startswith(f"{question.name}: 0 of {question.points} points\nNot yet in ")
    assert not re.search(r"\bcorrect\b|Traceback", shown)


@pytest.mark.parametrize("id_", MISTAKES)
def test_a_known_mistake_is_refused_and_named_with_secret_seeds(id_):
    question, mistake = split(id_)
    seeds = SECRET_SEEDS[:1]
    assert verdict(question.mistakes[mistake][0], question, seeds).mistake == mistake


@pytest.mark.parametrize("id_", ALTERNATIVES)
def test_another_right_answer_is_accepted(id_):
    question, alternative = split(id_)
    found = check(question.name)(question.alternatives[alternative])
    assert found.ok and found.points == question.points, found


@pytest.mark.parametrize("name", QUESTIONS)
def test_reference_and_alternatives_agree_for_50_seeds(name):
    question = QUESTIONS[name]
    for seed, alternative in zip(SECRET_SEEDS, cycle(question.alternatives), strict=False):
        for case in question.cases(seed):
            expected = run(question.reference, case)
            difference = compare(expected, run(question.alternatives[alternative], case))
            assert difference is None, (seed, case.label, alternative, difference)


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_mistake_slips_through_for_50_seeds(name):
    question = QUESTIONS[name]
    refused = {}
    for seed in SECRET_SEEDS:
        asked = [(case, run(question.reference, case)) for case in question.cases(seed)]
        for mistake, (wrong, _) in question.mistakes.items():
            # the case that refused it for the last seed is asked first
            order = sorted(asked, key=lambda pair: pair[0].label != refused.get(mistake))
            labels = (case.label for case, right in order if compare(right, run(wrong, case)))
            refused[mistake] = next(labels, None)
            assert refused[mistake], (seed, mistake)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_complete(name):
    question = QUESTIONS[name]
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", name) and question.target.isidentifier()
    assert question.points >= 1
    assert len(question.mistakes) >= 4 and len(question.alternatives) >= 2
    assert len(question.cases(0)) >= 5


def test_no_two_questions_ask_for_a_function_of_one_name():
    targets = [question.target for question in QUESTIONS.values()]
    assert len(set(targets)) == len(targets)


@pytest.mark.parametrize("set_name", SETS)
def test_a_set_is_complete(set_name):
    questions = SETS[set_name]
    assert len(questions) >= 3 and sum(question.points for question in questions) % 10 == 0
    assert len({question.target for question in questions}) == len(questions)
    assert all(question.name.startswith(f"{set_name}.") for question in questions)


# The cases


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_cases_are_the_same_for_the_same_seed_and_others_for_another(name):
    def packed(seed):
        return [
            (case.label, pack([*case.args.values(), *case.kwargs.values(), case.upstream]))
            for case in QUESTIONS[name].cases(seed)
        ]

    first = packed(3)
    torch.manual_seed(99)
    assert packed(3) == first
    assert packed(3) != packed(4)
    labels = [label for label, _ in first]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_notebooks_default_dtype_changes_no_verdict(name):
    question = QUESTIONS[name]
    before = [pack(list(case.args.values())) for case in question.cases(0)]
    torch.set_default_dtype(torch.float64)
    try:
        assert [pack(list(case.args.values())) for case in question.cases(0)] == before
        assert verdict(question.reference, question).ok
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_cases_vary_every_input(name):
    question = QUESTIONS[name]
    cases = question.cases(0)
    parameters = inspect.signature(question.reference).parameters
    for name, parameter in parameters.items():
        given = [case.args.get(name, case.kwargs.get(name)) for case in cases]
        tensors = [value for value in given if type(value) is torch.Tensor]
        if tensors:
            assert len({value.shape for value in tensors}) >= 4, name
            kinds = {value.dtype for value in tensors}
            assert kinds in ({torch.bool}, {torch.float32, torch.float64}), name
        else:
            values = {*given, parameter.default} - {None, inspect.Parameter.empty}
            assert len(values) >= 2, name
        if parameter.default is not inspect.Parameter.empty:
            left_out = [name not in case.args and name not in case.kwargs for case in cases]
            assert any(left_out) and not all(left_out), name
            others = {value for value in given if value is not None} - {parameter.default}
            assert others, name


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_degenerate_input_is_there(name):
    def ones(case):
        values = [*case.args.values(), *case.kwargs.values()]
        sizes = [value.shape for value in values if type(value) is torch.Tensor]
        sizes += [(len(value), *value) for value in values if type(value) is tuple]
        return any(1 in shape for shape in sizes) or any(type(v) is int and v == 1 for v in values)

    assert any(ones(case) for case in QUESTIONS[name].cases(0))


@pytest.mark.parametrize("name", QUESTIONS)
def test_gradients_are_asked_wherever_there_is_something_to_learn(name):
    question = QUESTIONS[name]
    takes_floats = [
        any(
            type(value) is torch.Tensor and value.is_floating_point()
            for value in case.args.values()
        )
        for case in question.cases(0)
    ]
    asked = [case.upstream is not None for case in question.cases(0)]
    first = question.cases(0)[0]
    if any(takes_floats) and floats(question.reference(*first.args.values(), **first.kwargs)):
        assert sum(asked) >= len(asked) / 2
    for case in question.cases(0):
        if case.upstream is not None:
            assert case.upstream.numel() == 1 or case.upstream.unique().numel() > 1


# Right numbers: the references against torch and against figures known from elsewhere


def test_scores_are_those_of_torchs_attention():
    q, k = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    shares = F.scaled_dot_product_attention(q, k, torch.eye(6).expand(2, 3, 6, 6))
    assert torch.allclose(bank.scaled_scores(q, k).softmax(-1), shares, atol=1e-6)


def test_heads_are_those_of_torchs_layer():
    layer = torch.nn.MultiheadAttention(12, 3, bias=False, batch_first=True)
    x = torch.randn(2, 5, 12)
    q, k, v = (bank.split_heads(x @ w.T, 3) for w in layer.in_proj_weight.chunk(3))
    past = bank.causal_mask(5, 5)
    ours = bank.merge_heads(bank.masked_attention(q, k, v, past)) @ layer.out_proj.weight.T
    theirs, _ = layer(x, x, x, attn_mask=~past)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_counts_known_from_elsewhere():
    assert bank.attention_params(512, 8) == 1_050_624
    assert bank.attention_params(512, 8, bias=False) == 1_048_576
    assert bank.attention_params(4096, 1, bias=False) == 67_108_864
    assert bank.attention_params(4096, 4096, bias=False) == 67_108_864
    assert bank.score_bytes(8192, 32) == 4 * 2**30
    assert bank.score_bytes(8192, 1) == 2**30 // 8


# What only looks right


class Liar:
    __class__ = torch.Tensor

    def __eq__(self, other):
        return True

    __hash__ = None


class Vague(torch.Tensor):
    pass


class Pair(tuple):
    pass


class Whole(int):
    def __eq__(self, other):
        return True

    __hash__ = None


def overwrite(values):
    for value in values:
        if type(value) is torch.Tensor:
            value.data.zero_()


def changing(question, *args, **kwargs):
    out = question.reference(*args, **kwargs)
    overwrite(args)
    return out


def subclassed(plain):
    return Pair(plain) if type(plain) is tuple else Whole(plain)


def exchanged(plain):
    """The same in the type that is nearest: a float for an int, an int for a float, a list."""
    kinds = {int: float, bool: float, float: int, tuple: list}
    return kinds[type(plain)](plain)


HOSTILE = {
    "nothing": (lambda out: None, "nothing"),
    "lying equality": (lambda out: Liar(), "type"),
    "subclass": (lambda out: out.as_subclass(Vague) if tensor(out) else subclassed(out), "type"),
    "in a list": (lambda out: [out], "type"),
    "a tensor or a number": (lambda out: 1.0 if tensor(out) else torch.tensor(out), "type"),
    "float for int": (lambda out: out.tolist() if tensor(out) else exchanged(out), "type"),
    "NaN": (lambda out: out * math.nan if floats(out) else math.nan, None),
    "dtype": (lambda out: out.to(torch.float16) if tensor(out) else out == 1, None),
    "an axis more": (lambda out: out[None] if tensor(out) else (out,), None),
    "flat": (lambda out: out.reshape(-1) if tensor(out) else str(out), None),
    "zero": (lambda out: out * 0, None),
    "one": (lambda out: torch.ones_like(out) if tensor(out) else 1, None),
    "a little more": (lambda out: ~out if not floats(out) else out * 1.001, None),
}


def tensor(out):
    return type(out) is torch.Tensor


def floats(out):
    return tensor(out) and out.is_floating_point()


@pytest.mark.parametrize("disguise", HOSTILE)
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_only_looks_right_is_refused(name, disguise):
    question = QUESTIONS[name]
    wrap, kind = HOSTILE[disguise]
    found = check(name)(lambda *args, **kwargs: wrap(question.reference(*args, **kwargs)))
    assert not found.ok and found.points == 0
    assert found.difference.kind == kind or kind is None


WITH_TENSORS = [name for name, q in QUESTIONS.items() if "upstream" in inspect.getsource(q.cases)]


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_a_changed_argument_is_refused(name):
    found = check(name)(partial(changing, QUESTIONS[name]))
    assert found.difference.kind == "changed"
    assert found.difference.detail.endswith("came back changed")


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_a_cut_gradient_is_refused(name):
    found = check(name)(lambda *args: QUESTIONS[name].reference(*args).detach())
    assert found.difference.kind == "gradient"


def only(condition, right, wrong=lambda *args: None):
    """Right where the condition holds for the inputs."""

    def function(*args, **kwargs):
        return (right if condition(*args, **kwargs) else wrong)(*args, **kwargs)

    return function


def remembering_scores():
    """The scale of the first call, for ever."""
    width = []

    def function(q, k):
        width.append(q.size(-1))
        return q @ k.mT / math.sqrt(width[0])

    return function


def softmax_with(shift=None, empty=0.0, fill=None):
    def function(x, dim):
        if fill is not None:
            x = x.masked_fill(x == -INF, fill)
        gone = (x == -INF).all(dim, keepdim=True)
        x = x.masked_fill(gone, 0)
        e = torch.exp(x - (x.amax(dim, keepdim=True) if shift is None else shift(x, dim)))
        return (e / e.sum(dim, keepdim=True)).masked_fill(gone, empty)

    return function


def attention_with(scores=lambda s: s, q_scale=None, zero=True, fill=-INF, cast=None):
    def function(q, k, v, mask):
        dtype = q.dtype
        if cast:
            q, k, v = q.to(cast), k.to(cast), v.to(cast)
        s = scores(q @ k.mT / math.sqrt((q_scale or (lambda q, k, v: q.size(-1)))(q, k, v)))
        s = s.masked_fill(~mask, s.min() + fill if callable(fill) else fill)
        empty = ~mask.any(-1, keepdim=True)
        weights = torch.softmax(s.masked_fill(empty, 0), -1)
        return ((weights.masked_fill(empty, 0) if zero else weights) @ v).to(dtype)

    return function


def buffered(size, aligned_last):
    big = torch.ones(size, size, dtype=torch.bool).tril()

    def function(n, m):
        start = size - m if aligned_last else 0
        return big[start + m - n :, start:][:n] if aligned_last else big[m - n : m, :m]

    return function


def kinks_on_a_grid(weight, bias, out):
    x = torch.linspace(-10, 10, 2001)[:, None]
    line = torch.relu(x * torch.tensor(weight) + torch.tensor(bias)) @ torch.tensor(out).float()
    return 1 + int((line.diff(n=2).abs() > 1e-3).sum())


ATT = bank.masked_attention

# Wrong answers that no bank knows: right for most inputs, or nearly right for all.
NEARLY = {
    "attention.scaled": {
        "only without batch": only(lambda q, k: q.dim() == 2, bank.scaled_scores),
        "only with heads": only(lambda q, k: q.dim() == 4, bank.scaled_scores),
        "up to four axes": only(lambda q, k: q.dim() <= 4, bank.scaled_scores),
        "only square": only(lambda q, k: q.size(-2) == k.size(-2), bank.scaled_scores),
        "only oblong": only(lambda q, k: q.size(-2) != k.size(-2), bank.scaled_scores),
        "remembers": remembering_scores(),
        "clamped": lambda q, k: bank.scaled_scores(q, k).clamp(-10, 10),
        "soft cap": lambda q, k: 50 * torch.tanh(bank.scaled_scores(q, k) / 50),
        "single precision": lambda q, k: bank.scaled_scores(q.float(), k.float()).to(q.dtype),
        "half precision": lambda q, k: bank.scaled_scores(q.half(), k.half()).to(q.dtype),
        "always float32": lambda q, k: bank.scaled_scores(q, k).float(),
        "width less one": lambda q, k: q @ k.mT / math.sqrt(max(q.size(-1) - 1, 1)),
        "squeezed": lambda q, k: bank.scaled_scores(q, k).squeeze(),
        "query not learned": lambda q, k: bank.scaled_scores(q.detach(), k),
        "key not learned": lambda q, k: bank.scaled_scores(q, k.detach()),
        "mean product": lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).mean(-1),
        "centred": lambda q, k: bank.scaled_scores(q - q.mean(-1, keepdim=True), k),
        "softmax over queries": lambda q, k: bank.scaled_scores(q, k).softmax(-2),
        "causal already": lambda q, k: bank.scaled_scores(q, k).tril(),
    },
    "attention.softmax": {
        "only matrices": only(lambda x, dim: x.dim() == 2, bank.softmax),
        "no negative dim": only(lambda x, dim: dim >= 0, bank.softmax),
        "shift by the smallest": softmax_with(lambda x, dim: x.amin(dim, keepdim=True)),
        "shift by the middle": softmax_with(lambda x, dim: x.median(dim, keepdim=True).values),
        "shift by the first": softmax_with(lambda x, dim: x.narrow(dim, 0, 1)),
        "-inf as -1000": softmax_with(fill=-1e3),
        "-inf as -10,000": softmax_with(fill=-1e4),
        "empty as ones": softmax_with(empty=1.0),
        "empty as tiny": softmax_with(empty=1e-4),
        "a little in the divisor": lambda x, dim: (
            bank.softmax(x, dim) / (bank.softmax(x, dim).sum(dim, keepdim=True) + 1e-6)
        ),
        "empty only as a whole": lambda x, dim: (
            x * 0 if (x == -INF).all() else torch.softmax(x, dim)
        ),
        "empty along the last axis": lambda x, dim: torch.softmax(
            x.masked_fill((x == -INF).all(-1, keepdim=True), 0), dim
        ).masked_fill((x == -INF).all(-1, keepdim=True), 0),
        "zero where anything is ruled out": lambda x, dim: bank.softmax(x, dim).masked_fill(
            (x == -INF).any(dim, keepdim=True), 0
        ),
        "always float32": lambda x, dim: bank.softmax(x.float(), dim).to(x.dtype),
        "not learned": lambda x, dim: bank.softmax(x.detach(), dim),
        "to the base 2": lambda x, dim: bank.softmax(x * math.log(2), dim),
        "logarithms": lambda x, dim: bank.softmax(x, dim).log(),
        "hard": lambda x, dim: (x == x.amax(dim, keepdim=True)).to(x.dtype),
        "sigmoids shared out": lambda x, dim: x.sigmoid() / x.sigmoid().sum(dim, keepdim=True),
    },
    "attention.causal": {
        "only square": only(lambda n, m: n == m, bank.causal_mask),
        "no more queries than keys": only(lambda n, m: n <= m, bank.causal_mask),
        "out of 1024": buffered(1024, aligned_last=False),
        "out of 1024, from the end": buffered(1024, aligned_last=True),
        "one query sees one": lambda n, m: torch.ones(n, m, dtype=torch.bool).tril(
            m - n if n > 1 else 0
        ),
        "bytes": lambda n, m: bank.causal_mask(n, m).byte(),
        "batch axis": lambda n, m: bank.causal_mask(n, m)[None],
        "window": lambda n, m: bank.causal_mask(n, m).triu(m - n - 3),
        "turned": lambda n, m: bank.causal_mask(m, n).T,
    },
    "attention.masked": {
        "only without batch": only(lambda q, *_: q.dim() == 2, ATT),
        "only with heads": only(lambda q, *_: q.dim() == 4, ATT),
        "only square": only(lambda q, k, v, mask: mask.size(-1) == mask.size(-2), ATT),
        "only masks of two axes": only(lambda q, k, v, mask: mask.dim() == 2, ATT),
        "always causal": lambda q, k, v, mask: ATT(
            q, k, v, bank.causal_mask(q.size(-2), k.size(-2))
        ),
        "first mask for all": lambda q, k, v, mask: ATT(
            q, k, v, mask if mask.dim() == 2 else mask[:1]
        ),
        "first head's mask for all": lambda q, k, v, mask: ATT(
            q, k, v, mask[:, :1] if mask.dim() == 4 else mask
        ),
        "first row for all": lambda q, k, v, mask: ATT(q, k, v, mask[..., :1, :]),
        "scaled by values": attention_with(q_scale=lambda q, k, v: v.size(-1)),
        "scaled by keys": attention_with(q_scale=lambda q, k, v: k.size(-2)),
        "scaled three times too small": attention_with(lambda s: s / 3),
        "clamped": attention_with(lambda s: s.clamp(-50, 50)),
        "soft cap": attention_with(lambda s: 50 * torch.tanh(s / 50)),
        "only masks of two axes or more": only(lambda q, k, v, mask: mask.dim() >= 2, ATT),
        "only masks with a column for each key": only(
            lambda q, k, v, mask: mask.size(-1) == k.size(-2), ATT
        ),
        "fill 1e-9": attention_with(fill=1e-9),
        "empty rows get the mean": attention_with(zero=False),
        "single precision": attention_with(cast=torch.float32),
        "half precision": attention_with(cast=torch.float16),
        "always float32": lambda *args: ATT(*args).float(),
        "with weights": lambda q, k, v, mask: (ATT(q, k, v, mask), mask),
        "keys not learned": lambda q, k, v, mask: ATT(q, k.detach(), v, mask),
        "values not learned": lambda q, k, v, mask: ATT(q, k, v.detach(), mask),
        "ruled out values are zero": lambda q, k, v, mask: (
            torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), -1)
            @ v.masked_fill(~mask.any(-2).unsqueeze(-1), 0)
        ),
        "all kept if one row is empty": lambda q, k, v, mask: ATT(
            q, k, v, mask | ~mask.any(-1, keepdim=True).all()
        ),
        "empty row blanks its batch": lambda q, k, v, mask: ATT(
            q, k, v, mask & mask.any(-1, keepdim=True).all()
        ),
    },
    "attention.heads": {
        "only a batch of two": only(
            lambda x, h: x.size(0) == 2 or x.size(-1) % h, bank.split_heads
        ),
        "always refuses one head": only(lambda x, h: h > 1, bank.split_heads),
        "refuses with KeyError": only(lambda x, h: x.size(-1) % h == 0, bank.split_heads, {}.pop),
        "refuses more heads only": lambda x, h: (
            bank.split_heads(x, h) if x.size(-1) < h else bank._cut_off(x, h)
        ),
        "heads turned round": lambda x, h: bank.split_heads(x, h).flip(1),
        "tokens turned round": lambda x, h: bank.split_heads(x, h).flip(2),
        "always float32": lambda x, h: bank.split_heads(x, h).float(),
    },
    "attention.merge": {
        "only a batch of two": only(lambda heads: heads.size(0) == 2, bank.merge_heads),
        "reshaped unless square": only(
            lambda heads: heads.size(1) == heads.size(2),
            lambda heads: heads.flatten(1, 2).unflatten(1, (heads.size(2), -1)).flatten(2),
            bank.merge_heads,
        ),
        "reshaped if square": only(
            lambda heads: heads.size(1) != heads.size(2),
            bank.merge_heads,
            lambda heads: heads.reshape(heads.size(0), heads.size(2), -1),
        ),
        "heads turned round": lambda heads: bank.merge_heads(heads.flip(1)),
        "largest head": lambda heads: heads.amax(1).repeat(1, 1, heads.size(1)),
        "always float32": lambda heads: bank.merge_heads(heads).float(),
    },
    "attention.count": {
        "only d_model 512": only(lambda d, h, *_, **__: d == 512, bank.attention_params),
        "bias off by default": lambda d, h, n_kv_heads=None, bias=False: bank.attention_params(
            d, h, n_kv_heads, bias
        ),
        "one bias less": lambda d, h, n_kv_heads=None, bias=True: (
            bank.attention_params(d, h, n_kv_heads, bias) - (d if bias else 0)
        ),
        "a bias for each head": lambda d, h, n_kv_heads=None, bias=True: (
            bank.attention_params(d, h, n_kv_heads, False) + (4 * h if bias else 0)
        ),
        "by position alone": lambda d, h, g=None, b=True: bank.attention_params(d, h, g, b),
        "32-bit": lambda *args, **kwargs: bank.attention_params(*args, **kwargs) % 2**24,
    },
    "attention.memory": {
        "kilo": lambda n, n_heads, batch=1, itemsize=2: n * n * n_heads * batch * itemsize // 1000,
        "four by default": lambda n, n_heads, batch=1, itemsize=4: bank.score_bytes(
            n, n_heads, batch, itemsize
        ),
        "two batches by default": lambda n, n_heads, batch=2, itemsize=2: bank.score_bytes(
            n, n_heads, batch, itemsize
        ),
        "32-bit": lambda *args, **kwargs: bank.score_bytes(*args, **kwargs) % 2**32,
        "without the diagonal": lambda n, n_heads, batch=1, itemsize=2: (
            n * (n - 1) * n_heads * batch * itemsize
        ),
        "rounded": lambda *args, **kwargs: bank.score_bytes(*args, **kwargs) // 100 * 100,
    },
    "depth.pieces": {
        "on a grid": kinks_on_a_grid,
        "only two units": only(lambda weight, *_: len(weight) == 2, depth.count_pieces),
        "neighbours merged": lambda weight, bias, out: min(
            depth.count_pieces(weight, bias, out), 5
        ),
    },
    "depth.zigzag": {
        "up to three folds": only(lambda x, folds: folds <= 3, depth.zigzag),
        "always float32": lambda x, folds: depth.zigzag(x.float(), folds),
        "not learned": lambda x, folds: depth.zigzag(x.detach(), folds),
        "rounded": lambda x, folds: depth.zigzag((x * 1000).round() / 1000, folds),
    },
    "depth.fold": {
        "only two units": only(lambda out, offset: len(out) == 2, depth.fold_layer),
        "always float32": lambda out, offset: depth.fold_layer(out.float(), offset),
        "offset in single precision": lambda out, offset: depth.fold_layer(
            out, torch.tensor(offset, dtype=torch.float32).item()
        ),
        "weights not learned": lambda out, offset: depth.fold_layer(out.detach(), offset),
    },
    "depth.params": {
        "only one input": only(lambda n_in, *_, **__: n_in == 1, depth.net_params),
        "two outputs by default": lambda n_in, width, depth_, n_out=2: depth.net_params(
            n_in, width, depth_, n_out
        ),
        "16-bit": lambda *args, **kwargs: depth.net_params(*args, **kwargs) % 2**16,
    },
    "depth.bound": {
        "only one input": only(lambda n_in, *_: n_in == 1, depth.region_bound),
        "only one layer": only(lambda n_in, width, depth_: depth_ == 1, depth.region_bound),
        "sum as a power": lambda n_in, width, depth_: (
            (width // n_in) ** (n_in * (depth_ - 1)) * (width + 1) ** n_in
        ),
    },
}
NEARLY_IDS = [f"{name}: {id_}" for name, wrong in NEARLY.items() for id_ in wrong]


@pytest.mark.parametrize("id_", NEARLY_IDS)
def test_a_nearly_right_answer_is_refused(id_):
    name, _, key = id_.partition(": ")
    found = [verdict(NEARLY[name][key], QUESTIONS[name], [seed]) for seed in (*PUBLIC_SEEDS, 77)]
    assert not any(each.ok for each in found)


# Wrong answers as learners write them, and the mistake each of them should be told.


def shares(e, x, dim):
    return e / e.sum(dim, keepdim=True)


def scores_of(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def safe(x, dim):
    top = x.max(dim, keepdim=True).values
    return x - torch.where(top == -INF, 0, top)


def filled(fill, empty=False):
    def function(q, k, v, mask):
        out = F.softmax(scores_of(q, k).masked_fill(~mask, fill), dim=-1) @ v
        return out * mask.any(-1, keepdim=True) if empty else out

    return function


def moved(offset):
    return lambda q, k, v, mask: F.softmax(scores_of(q, k) + offset(mask), dim=-1) @ v


def epsilon(epsilon, shift):
    def function(x, dim):
        e = torch.exp(shift(x, dim))
        return e / (e.sum(dim, keepdim=True) + epsilon)

    return function


def first_aligned(**kwargs):
    return lambda n, m: torch.triu(torch.ones(n, m, **kwargs), diagonal=1)


def counting(count):
    return lambda d_model, n_heads, n_kv_heads=None, bias=True: count(
        d_model, n_heads, n_kv_heads, bias
    )


def renormalising(q, k, v, mask):
    p = F.softmax(scores_of(q, k), dim=-1) * mask
    return (p / p.sum(-1, keepdim=True)) @ v


def written(q, k, v, mask, axis=-1, divisor=1):
    scores = scores_of(q, k) / divisor(q) if callable(divisor) else scores_of(q, k)
    return bank.softmax(scores.masked_fill(mask.logical_not(), -INF), axis) @ v


def kv_heads(read):
    def count(d, h, g, bias):
        d_kv = read(d, h, g)
        return 2 * d * (d + d_kv) + (2 * (d + d_kv) if bias else 0)

    return counting(count)


AS_WRITTEN = {
    "attention.scaled": [
        (lambda q, k: q @ k.transpose(1, 2) / q.size(-1) ** 0.5, "wrong-axes-batch"),
        (
            lambda q, k: q @ k.permute(*range(k.dim())[::-1]) / q.size(-1) ** 0.5,
            "wrong-axes-all",
        ),
        (
            lambda q, k: torch.bmm(q, k.transpose(-2, -1)) / math.sqrt(k.shape[-1]),
            "wrong-axes-bmm",
        ),
        (
            lambda q, k: torch.einsum("bnd,bmd->bnm", q, k) / math.sqrt(k.shape[-1]),
            "wrong-axes-bmm",
        ),
        (lambda q, k: q @ k.transpose(-2, -1) / (q.size(-1) ** 1 / 2), "by-half-width"),
        (lambda q, k: q @ k.transpose(-2, -1) / q.size(-1) ** 1 / 2, "by-twice-width"),
        (lambda q, k: torch.matmul(q, k.transpose(-1, -2)) * (2 / k.size(-1)), "by-half-width"),
    ],
    "attention.softmax": [
        (lambda x, dim: torch.softmax(x.clamp(min=-3e5), dim) * (x > -INF), "floor-guarded"),
        (lambda x, dim: F.softmax(x.clamp(-1e9), dim), "floor"),
        (lambda x, dim: F.softmax(torch.where(x == -INF, -1e6, x), dim), "replaced"),
        (
            lambda x, dim: F.softmax(torch.where(x == -INF, -1e6, x), dim) * (x != -INF),
            "replaced-guarded",
        ),
        *((epsilon(e, safe), f"epsilon-{e:g}") for e in (1e-10, 1e-9, 1e-8, 1e-6)),
        *(
            (epsilon(e, lambda x, dim: x - x.amax(dim, True)), f"epsilon-{e:g}-unguarded")
            for e in (1e-10, 1e-9, 1e-8, 1e-6)
        ),
        (
            lambda x, dim: shares(torch.exp(x - x.max(-1, keepdim=True).values), x, dim),
            "last-axis-max-pair-unguarded",
        ),
        (
            lambda x, dim: shares(torch.exp(x - x.amax(-1, keepdim=True)), x, dim),
            "last-axis-max-unguarded",
        ),
        (
            lambda x, dim: shares(torch.exp(x - x.max(dim, True).values), x, -1),
            "last-axis-sum-unguarded",
        ),
        (
            lambda x, dim: shares(torch.exp(x - x.amax(dim, True)), x, -1),
            "last-axis-sum-unguarded",
        ),
        (lambda x, dim: F.softmax(x, 1), "second-axis-unguarded"),
        (lambda x, dim: shares(torch.exp(x - x.max(dim).values), x, dim), "lost-axis-max"),
        (lambda x, dim: (e := torch.exp(x - x.amax(dim, True))) / e.sum(dim), "lost-axis-sum"),
        (lambda x, dim: (e := torch.exp(x - x.amax(dim))) / e.sum(dim), "lost-axis"),
    ],
    "attention.causal": [
        (first_aligned(dtype=torch.bool), "inverted-first-aligned"),
        (first_aligned(), "ones-float32-triu"),
        (first_aligned(dtype=torch.int64), "ones-int64-triu"),
        (lambda n, m: torch.triu(torch.full((n, m), -INF), diagonal=1), "scores-first-aligned"),
        (lambda n, m: torch.tril(torch.ones(n, m, dtype=torch.bool), n - m), "offset-turned"),
        (lambda n, m: torch.ones(m, m, dtype=torch.bool).tril()[:n], "first-rows"),
        (lambda n, m: torch.tril(torch.ones(n, m).int(), m - n).long(), "ones-int64"),
        (lambda n, m: bank.causal_mask(n, m).to(torch.uint8), "ones-uint8"),
        (lambda n, m: bank.causal_mask(n, m).float(), "ones-float32"),
        (
            lambda n, m: torch.ones(n, m, dtype=torch.bool).tril(max(0, m - n)),
            "never-before-the-first",
        ),
    ],
    "attention.masked": [
        *((filled(c), "fill-finite") for c in (-100.0, -1e3, -1e4, -3e4, -1e5, -1e9)),
        *((filled(c, True), "fill-finite-guarded") for c in (-3e4, -1e5, -1e9)),
        (moved(lambda mask: (~mask) * -1e9), "shifted"),
        (moved(lambda mask: (1 - mask.float()) * -INF), "zero-times-infinity"),
        (renormalising, "renormalised-nan"),
        (partial(written, divisor=lambda q: math.sqrt(q.size(-1))), "scaled-twice"),
        (partial(written, axis=0), "over-axis-0"),
        (partial(written, axis=1), "over-axis-1"),
    ],
    "attention.heads": [
        (
            lambda x, h: x.reshape(*x.shape[:2], x.size(-1) // h, h).transpose(1, 2),
            "exchanged-unguarded",
        ),
    ],
    "attention.count": [
        (counting(lambda d, h, g, bias: 4 * d * d), "no-bias-never-shared"),
        (counting(lambda d, h, g, bias: 4 * d * d + 4 * d), "always-bias-never-shared"),
        (counting(lambda d, h, g, bias: 3 * d * d), "no-output-no-bias-never-shared"),
        (counting(lambda d, h, g, bias: 3 * d * d + 3 * d), "no-output-always-bias-never-shared"),
        (
            counting(lambda d, h, g, bias: bank.attention_params(d, h, g, bias) - d * bias),
            "no-output-bias",
        ),
        (kv_heads(lambda d, h, g: d if g is None else d // g), "group-size"),
        (kv_heads(lambda d, h, g: d // h * (h if g is None else h // g)), "group-size"),
        (kv_heads(lambda d, h, g: d // h * (g or 1)), "none-is-one"),
        (kv_heads(lambda d, h, g: d if g is None else d // h), "one-shared"),
    ],
}
WRITTEN_IDS = [f"{name}: {at}" for name, found in AS_WRITTEN.items() for at in range(len(found))]


@pytest.mark.parametrize("id_", WRITTEN_IDS)
def test_a_wrong_answer_as_it_is_written_is_told_its_mistake(id_):
    name, _, at = id_.partition(": ")
    function, mistake = AS_WRITTEN[name][int(at)]
    for seed in (*PUBLIC_SEEDS, 77):
        assert verdict(function, QUESTIONS[name], [seed]).mistake == mistake


def test_a_hint_names_no_number_that_the_learner_did_not_write():
    for function in (filled(-100.0), filled(-1e5), filled(-1e9, True)):
        hint = check("attention.masked")(function).hint
        assert hint.startswith("Scores can be lower than the number you fill in, and then ")
        assert not re.search(r"\d", hint)


STYLES = {
    "attention.softmax": [
        lambda x, dim: torch.exp(y := safe(x, dim)) / torch.exp(y).sum(dim, True).clamp(min=1e-12),
        epsilon(1e-12, safe),
        lambda x, dim: (
            F.softmax(torch.where(x == -INF, torch.finfo(x.dtype).min, x), dim) * (x > -INF)
        ),
    ],
    "attention.masked": [
        filled(-1e30, True),
        filled(torch.finfo(torch.float32).min, True),
        lambda q, k, v, mask: (
            F.softmax(scores_of(q, k).masked_fill(~mask, -INF), dim=-1).nan_to_num(0.0) @ v
        ),
    ],
}


@pytest.mark.parametrize("seed", [*PUBLIC_SEEDS, *SECRET_SEEDS[:8]])
@pytest.mark.parametrize("name", STYLES)
def test_a_right_answer_in_another_style_is_accepted(name, seed):
    for function in STYLES[name]:
        found = verdict(function, QUESTIONS[name], [seed])
        assert found.ok, found


def test_a_refusal_must_be_a_value_error_that_says_something():
    class MyError(ValueError):
        pass

    def refusing(error):
        return only(lambda x, h: x.size(-1) % h == 0, bank.split_heads, lambda x, h: throw(error))

    def throw(error):
        raise error

    heads = check("attention.heads")
    assert heads(refusing(MyError("7 does not divide into 3 heads"))).ok
    assert heads(refusing(ValueError())).mistake == "silent"
    odd = heads(refusing(KeyError("7")))
    assert odd.difference.kind == "wrong error" and "signature" not in odd.hint


def test_an_answer_that_cannot_go_back_is_not_told_to_look_at_its_signature():
    def softmax(x, dim):
        e = torch.exp(safe(x, dim))
        e /= e.sum(dim, keepdim=True)
        return e

    found = check("attention.softmax")(softmax)
    assert found.difference.kind == "backward" and found.mistake is None
    assert "Your function ran" in found.hint and "signature" not in found.hint


# Mutants of the references

OPERATORS = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.FloorDiv: [ast.Div, ast.Mult],
    ast.Mod: [ast.FloorDiv, ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.Eq: [ast.NotEq, ast.GtE],
    ast.NotEq: [ast.Eq],
    ast.Lt: [ast.LtE, ast.Gt],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Is: [ast.IsNot],
    ast.LtE: [ast.Lt, ast.GtE],
}
WORDS = {
    "amax": ["amin", "mean"],
    "exp": ["exp2", "expm1"],
    "sum": ["mean", "amax"],
    "sqrt": ["log1p", "exp"],
    "tril": ["triu"],
    "transpose": ["flatten"],
    "bool": ["uint8"],
    "ones": ["zeros"],
}


def mutants(function):
    """Each mutant of a function: the first line that is another one, and the new source."""
    source = textwrap.dedent(inspect.getsource(function))
    original = ast.unparse(ast.parse(source))
    names = list(inspect.signature(function).parameters)
    found = {}
    for at, node in enumerate(ast.walk(ast.parse(source))):
        for change in _changes(node, names):
            tree = ast.parse(source)
            [target] = [n for i, n in enumerate(ast.walk(tree)) if i == at]
            tree = _Replace(target, change(target)).visit(tree)
            mutant = ast.unparse(ast.fix_missing_locations(tree))
            lines = zip(original.splitlines(), mutant.splitlines(), strict=False)
            found[mutant] = next(new.strip() for old, new in lines if old != new)
    return [(line, mutant) for mutant, line in found.items()]


class _Replace(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


def _setting(name, value):
    def change(node):
        setattr(node, name, value)
        return node

    return change


def _changes(node, names):
    if isinstance(node, ast.BinOp):
        yield from (_setting("op", new()) for new in OPERATORS[type(node.op)])
        yield lambda node: node.left
        yield lambda node: node.right
        if not isinstance(node.op, ast.Add | ast.Mult):
            yield lambda node: ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.Compare):
        yield from (_setting("ops", [new()]) for new in OPERATORS[type(node.ops[0])])
    elif isinstance(node, ast.UnaryOp):
        yield lambda node: node.operand
    elif isinstance(node, ast.IfExp):
        yield lambda node: node.body
        yield lambda node: node.orelse
    elif isinstance(node, ast.If):
        yield lambda node: None
        yield lambda node: ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, [])
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield _setting("value", not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield _setting("value", node.value + 1)
        yield _setting("value", node.value - 1)
    elif isinstance(node, ast.Attribute):
        yield from (_setting("attr", word) for word in WORDS.get(node.attr, ()))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        yield from (_setting("id", other) for other in names if other != node.id)
    elif _is_method(node):
        yield lambda node: node.func.value


def _is_method(node):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) not in ("torch", "math")
    )


# Mutants that no input can tell from the reference, and why.
WIDTHS = "queries and keys have the same width, or there would be no dot product"
FINITE = "any finite shift will do where all logits are -inf: exp gives 0 all the same"
EQUIVALENT = {
    ("attention.scaled", "return q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))"): WIDTHS,
    ("attention.masked", "scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))"): WIDTHS,
    ("attention.softmax", "top = top.masked_fill(top == -INF, 1)"): FINITE,
    ("attention.softmax", "top = top.masked_fill(top == -INF, -1)"): FINITE,
    ("attention.softmax", "return e / total.masked_fill(total == 0, 2)"): (
        "a sum of zero is divided by whatever is not zero: 0 / 2 is 0 / 1"
    ),
    (
        "attention.heads",
        "raise ValueError(f'a width of {d_model} does not divide into {x} heads')",
    ): "the message of a refusal is free, its type is not",
    ("shapes.loss", "return ((wanted - predicted.squeeze(1)) ** 2).mean()"): (
        "a square does not ask which of the two is taken from the other"
    ),
    ("shapes.step", "gradient = 2 * off.T @ x / len(wanted)"): (
        "there are as many wanted rows as inputs, or the difference would fail"
    ),
    (
        "dense.back",
        "return g.reshape(-1, g.size(-1)).T @ x.reshape(-1, weight.size(-1))",
    ): "a weight has a column for each number that goes in",
    ("depth.pieces", "units = zip(weight, bias, out, strict=False)"): (
        "weights, offsets and readings of the same units are equally many"
    ),
    (
        "depth.pieces",
        "for place, jump in [(b / w, v * abs(w)) for w, b, v in units if w]:",
    ): "a line in a mirror has as many kinks",
    ("depth.zigzag", "x = (1 - 2 * x).abs()"): "the absolute value does not see the sign",
    ("recurrence.unroll", "h = torch.zeros_like(a[:, -1])"): "all steps have one shape",
    ("norms.batch", "if training and x.numel() < 2 * running.size(1):"): (
        "what is remembered has a column for each channel of x"
    ),
    (
        "residuals.stream",
        "return start + writes.flatten().cumsum(-1).reshape(writes.shape)",
    ): "what is flat has one axis, which is its first and its last",
    ("norms.back", "centred = x.mean(-1, keepdim=True) - x"): (
        "the pattern enters twice, so its sign does not matter"
    ),
    (
        "decoders.loss",
        "asked = [at for at in range(1, len(logits)) if ids[at] != ignore]",
    ): "there is a row of logits for each token",
    ("faults.leaks", "moved = (before - after).abs().amax(-1) > by"): (
        "a size does not ask which of the two readings came first"
    ),
}


MUTANTS = [
    (name, line, source)
    for name, question in QUESTIONS.items()
    for line, source in mutants(question.reference)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "line", "source"), MUTANTS, ids=[f"{name}: {line}" for name, line, _ in MUTANTS]
)
def test_a_mutant_of_a_reference_is_refused(name, line, source):
    question = QUESTIONS[name]
    namespace = dict(vars(inspect.getmodule(question.reference)))
    namespace = dict(vars(sys.modules[question.reference.__module__]))
    exec(source, namespace)
    found = verdict(namespace[question.reference.__name__], question)
    assert found.ok == ((name, line) in EQUIVALENT)


def test_the_list_of_equivalent_mutants_is_not_out_of_date():
    assert set(EQUIVALENT) <= {(name, line) for name, line, _ in MUTANTS}
    assert all(len(reason) > 20 for reason in EQUIVALENT.values())


# The learner's text


def source(set_name):
    paths = (ROOT / "exercises").glob("[0-9]*.md")
    found = [path.read_text(encoding="utf-8") for path in paths]
    [text] = [text for text in found if f'score("{set_name}", globals())' in text]
    return text


def executed(text):
    """The names that a text's code cells leave behind, and its cells."""
    cells = [c.source for c in jupytext.reads(text, fmt="md:myst").cells if c.cell_type == "code"]
    namespace = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        exec(compile(cell, f"<cell {number}>", "exec"), namespace)
    return namespace, cells


@pytest.mark.parametrize("set_name", SETS)
def test_the_untouched_text_runs_and_scores_nothing(set_name, capsys):
    namespace, _ = executed(texts.learner(source(set_name)))
    found = score(set_name, namespace)
    assert found.points == 0
    assert {each.difference.kind for each in found.verdicts} == {"nothing"}
    assert all("Nothing returned yet." in repr(each) for each in found.verdicts)
    assert repr(namespace["points"]) == repr(found)
    assert capsys.readouterr().out == (
        "Not yet: this cell waits for your last point.\nRun the score again when you have it.\n"
    )


@pytest.mark.parametrize("set_name", SETS)
def test_the_solved_text_scores_full(set_name, capsys):
    namespace, _ = executed(texts.solved(source(set_name)))
    found = score(set_name, namespace)
    assert found.points == found.max_points == sum(q.points for q in SETS[set_name])
    assert repr(namespace["points"]) == repr(found)
    assert capsys.readouterr().out == "Your layer and torch's agree: True\n"


@pytest.mark.parametrize("set_name", SETS)
def test_the_text_shows_a_verdict_on_a_wrong_answer_before_the_first_question(set_name):
    opening = texts.learner(source(set_name)).partition("\n## ")[0]
    namespace = {}
    [cell] = [
        cell.source
        for cell in jupytext.reads(opening, fmt="md:myst").cells
        if cell.cell_type == "code" and "check(" in cell.source
    ]
    exec("from lumen.exercises import check", namespace)
    *lines, last = ast.parse(cell).body
    exec(ast.unparse(lines), namespace)
    found = eval(ast.unparse(last), namespace)
    assert not found.ok and found.mistake


@pytest.mark.parametrize("set_name", SETS)
def test_an_example_does_not_answer_what_the_text_asks_to_guess(set_name):
    shown = texts.learner(source(set_name))
    assert str(bank.score_bytes(8192, 32)) not in shown


@pytest.mark.parametrize("set_name", SETS)
def test_every_column_of_a_table_has_a_name(set_name):
    lines = source(set_name).splitlines()
    heads = [lines[at - 1] for at, line in enumerate(lines) if re.fullmatch(r"[|-]{4,}", line)]
    assert len(heads) >= len(SETS[set_name])
    for head in heads:
        assert all(cell.strip() for cell in head.strip("|").split("|")), head


@pytest.mark.parametrize("set_name", SETS)
def test_every_question_is_asked_in_order_with_an_example_that_is_true(set_name):
    namespace, cells = executed(texts.solved(source(set_name)))
    asked = [cell for cell in cells if cell.startswith("check(")]
    assert asked == [f'check("{q.name}")({q.target})' for q in SETS[set_name]]
    for question in SETS[set_name]:
        function = namespace[question.target]
        assert inspect.signature(function) == inspect.signature(question.reference)
        [test] = doctest.DocTestFinder().find(function, question.target, globs=dict(namespace))
        assert len(test.examples) >= 1
        assert doctest.DocTestRunner().run(test).failed == 0


def squeezed(text):
    return re.sub(r"\s+", "", text)


def solution_lines(set_name):
    lines = [line for found in texts.solutions(source(set_name)) for line in found.lines]
    for question in SETS[set_name]:
        lines += inspect.getsource(question.reference).splitlines()[1:]
    return {squeezed(line).removeprefix("return") for line in lines if len(squeezed(line)) > 8}


@pytest.mark.parametrize("set_name", SETS)
def test_the_learners_text_holds_no_line_of_a_solution(set_name):
    shown = squeezed(texts.learner(source(set_name)))
    assert len(solution_lines(set_name)) >= len(SETS[set_name])
    assert [line for line in solution_lines(set_name) if line in shown] == []
    assert "#solution" not in shown


@pytest.mark.parametrize("set_name", SETS)
def test_no_hint_gives_a_line_away(set_name):
    for question in SETS[set_name]:
        for _, hint in question.mistakes.values():
            assert [line for line in solution_lines(set_name) if line in squeezed(hint)] == []
            # nor any call or formula that would do
            assert not re.search(r"\.\w+\(|torch\.|\*\*|//|@", hint), hint


@pytest.mark.parametrize("id_", MISTAKES)
def test_a_hint_is_a_sentence_or_more(id_):
    question, mistake = split(id_)
    hint = question.mistakes[mistake][1]
    assert 50 <= len(hint) <= 420
    assert hint[0].isupper() and hint[-1] in ".?" and "  " not in hint
    assert not re.search(r"\b(wrong answer|incorrect|obviously|simply|just)\b", hint)


# The two commands


def test_an_unknown_question_is_told_its_neighbours():
    with pytest.raises(ValueError, match=r"no question 'attention.scale'; near it: .*scaled"):
        check("attention.scale")
    with pytest.raises(ValueError, match="attention.causal, attention.count, "):
        check("zzz")
    with pytest.raises(ValueError, match="no set 'attenton'; there are: .*attention"):
        score("attenton", {})


@pytest.mark.parametrize("thing", [None, 3, "scaled_scores", torch.zeros(2), ...], ids=str)
def test_what_is_no_function_is_refused_kindly(thing):
    found = check("attention.scaled")(thing)
    assert (found.ok, found.points) == (False, 0)
    assert "not a function" in repr(found)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_check_that_waits_says_for_what(name):
    target = QUESTIONS[name].target
    line = f'{name} waits for your function: check("{name}")({target})'
    assert repr(check(name)) == line
    with pytest.raises(TypeError, match=f"^{re.escape(line)}$"):
        check(name, QUESTIONS[name].reference)
    with pytest.raises(TypeError, match=f"^{re.escape(line)}$"):
        check(QUESTIONS[name].reference)


def test_a_function_of_any_name_in_the_wrong_place_is_told_the_right_one():
    first = re.escape(f'waits for your function: check("{next(iter(QUESTIONS))}")')
    with pytest.raises(TypeError, match=first):
        check(lambda q, k: q @ k)


def test_a_question_shows_no_hint():
    assert all(len(repr(question)) < 120 for question in QUESTIONS.values())


def test_anything_that_can_be_called_may_answer():
    class Scores(torch.nn.Module):
        def forward(self, q, k):
            return bank.scaled_scores(q, k)

    assert check("attention.scaled")(Scores()).ok
    assert check("attention.scaled")(partial(bank.scaled_scores)).ok
    assert not check("attention.scaled")(Scores).ok


def test_a_score_reads_as_a_table():
    functions = {question.target: question.reference for question in QUESTIONS.values()}
    del functions["softmax"]
    functions["causal_mask"] = lambda n_queries, n_keys: None
    functions["split_heads"] = bank._cut_off
    assert repr(score("attention", functions)) == textwrap.dedent(
        """\
        attention.scaled    2 of  2  passed
        attention.softmax   0 of  3  nothing yet
        attention.causal    0 of  2  nothing yet
        attention.masked    5 of  5  passed
        attention.heads     0 of  2  not yet in 2 of 9 checks
        attention.merge     2 of  2  passed
        attention.count     2 of  2  passed
        attention.memory    2 of  2  passed
        attention          13 of 20  points in all"""
    )
