"""The engine: what crosses between learner and judge, how answers differ, what a verdict says."""

import base64
import dataclasses
import json
import linecache
import math
import textwrap
from functools import partial

import pytest
import torch

from lumen.grading import question as engine
from lumen.grading.check import ADVICE, WIDTH, check, missing, one_thread
from lumen.grading.question import (
    Answer,
    Array,
    Case,
    Difference,
    Fault,
    Foreign,
    Question,
    compare,
    pack,
    run,
    unpack,
)

NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True, scope="module")
def on_one_thread():
    with one_thread():
        yield


def double(x, times=2):
    return x * times


def toy(reference=double, cases=None, mistakes=None):
    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        x, upstream = torch.randn(2, 3, 4, generator=generator)
        return [
            Case("default", {"x": x}, upstream=upstream),
            Case("three times", {"x": x}, {"times": 3}),
        ]

    known = {
        "square": (lambda x, times=2: x**2, "It grows with itself."),
        "fixed": (lambda x, times=2: x * 2, "Look at every argument."),
    }
    return Question("toy.double", "double", 3, cases or drawn, reference, mistakes or known, {})


def ask(function, question=None, seeds=(0,)):
    return check(partial(run, function), question or toy(), seeds)


class Liar:
    """Equal to everything, and of whatever class is wanted."""

    __class__ = torch.Tensor
    dtype, shape, requires_grad = torch.float32, torch.Size([3, 4]), False

    def __eq__(self, other):
        return True

    __hash__ = None


class Vague(torch.Tensor):
    pass


class Real(float):
    def __eq__(self, other):
        return True

    __hash__ = None


class Whole(int):
    pass


class Renamed(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name for you")


class Nameless(metaclass=Renamed):
    pass


def written_into(x):
    e = torch.exp(x)
    e /= e.sum()
    return e


# What crosses


@pytest.mark.parametrize("dtype", sorted(engine.FORMATS))
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (4,), (2, 3)], ids=str)
def test_a_tensor_crosses_and_comes_back(dtype, shape):
    tensor = torch.randint(0, 2, shape).to(getattr(torch, dtype))
    packed = pack(tensor)
    back = unpack(packed)
    assert (packed.dtype, packed.shape) == (dtype, shape)
    assert type(packed.data) is bytes
    assert back.dtype == tensor.dtype and torch.equal(back, tensor)
    assert list(packed.numbers()) == tensor.flatten().tolist()


def test_what_was_packed_shares_nothing_with_what_is_unpacked():
    tensor = torch.zeros(3)
    first, second = unpack(pack(tensor)), unpack(pack(tensor))
    first += 1
    assert tensor.sum() == 0 and second.sum() == 0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.arange(10.0)[::3],
        torch.ones(1).expand(4),
        torch.complex(torch.ones(2), torch.arange(2.0)).conj().imag,
        torch.arange(3.0, requires_grad=True) * 2,
    ],
    ids=["transposed", "strided", "expanded", "negative view", "with gradient"],
)
def test_views_cross_by_value(tensor):
    assert torch.equal(unpack(pack(tensor)), tensor.detach())


@pytest.mark.parametrize(
    "plain", [None, True, 3, 2.5, "text", [1, (2.0, None)], (), 2**80], ids=str
)
def test_plain_values_cross_as_they_are(plain):
    assert unpack(pack(plain)) == plain
    assert type(pack(plain)) is type(plain)


def test_an_ellipsis_is_nothing_yet():
    assert pack(...) is None


def a_list_in_itself():
    loop = []
    loop.append(loop)
    return loop


FOREIGN = {
    "liar": (Liar(), "Liar"),
    "float": (Real(1.0), "Real"),
    "int": (Whole(1), "Whole"),
    "tensor": (torch.zeros(2).as_subclass(Vague), "Vague"),
    "parameter": (torch.nn.Parameter(torch.zeros(2)), "Parameter"),
    "sparse": (torch.zeros(2).to_sparse(), "tensor without plain storage"),
    "meta": (torch.zeros(2, device="meta"), "tensor without plain storage"),
    "nameless": (Nameless(), "Nameless"),
    "dict": ({"a": 1}, "dict"),
    "long list": ([0] * (engine.MOST_ITEMS + 1), "list"),
    "long text": ("x" * (engine.MOST_ITEMS + 1), "str"),
    "function": (double, "function"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_anything_else_crosses_as_the_name_of_its_type(case):
    value, name = FOREIGN[case]
    assert pack(value) == Foreign(name)


def test_a_list_in_itself_ends_somewhere():
    packed = pack(a_list_in_itself())
    for _ in range(engine.DEEPEST):
        packed = packed[0]
    assert packed == Foreign("list")


def test_attributes_of_a_tensor_cannot_stand_before_its_methods():
    tensor = torch.zeros(2)
    tensor.detach = tensor.cpu = lambda: torch.ones(2)
    assert pack(tensor) == pack(torch.zeros(2))


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(1).expand(2**40), torch.zeros(2, dtype=torch.complex64)],
    ids=["huge", "complex"],
)
def test_a_tensor_never_wanted_crosses_without_its_numbers(tensor):
    packed = pack(tensor)
    assert packed.data is None and packed.shape == tuple(tensor.shape)


def through_json(plain):
    """What a wire could do: to text and back, with nothing but plain data in between."""

    def out(value):
        if type(value) is Array:
            data = None if value.data is None else base64.b64encode(value.data).decode()
            return {"array": [value.dtype, list(value.shape), data]}
        if type(value) is Foreign:
            return {"foreign": value.name}
        if type(value) in (list, tuple):
            return {type(value).__name__: [out(item) for item in value]}
        return value

    def back(value):
        if type(value) is not dict:
            return value
        [(kind, held)] = value.items()
        if kind == "array":
            data = None if held[2] is None else base64.b64decode(held[2])
            return Array(held[0], tuple(held[1]), data)
        if kind == "foreign":
            return Foreign(held)
        return {"list": list, "tuple": tuple}[kind](back(item) for item in held)

    return back(json.loads(json.dumps(out(plain))))


def across(function):
    """A call in which both the inputs and the answer have gone through text."""

    def call(case):
        received = Case(
            "",
            {name: unpack(through_json(pack(value))) for name, value in case.args.items()},
            {name: unpack(through_json(pack(value))) for name, value in case.kwargs.items()},
            unpack(through_json(pack(case.upstream))),
        )
        answer = run(function, received)
        fault = answer.fault and Fault(*through_json(dataclasses.astuple(answer.fault)))
        return Answer(
            through_json(answer.value),
            {name: through_json(found) for name, found in answer.gradients.items()},
            through_json(answer.changed),
            fault,
        )

    return call


ANSWERS = {
    "right": double,
    "known": lambda x, times=2: x * 2,
    "wrong": lambda x, times=2: x * times + 1,
    "subclass": lambda x, times=2: (x * times).as_subclass(Vague),
    "pair": lambda x, times=2: (x, [x]),
    "raises": lambda x, times=2: x @ x,
    "fails on the way back": lambda x, times=2: written_into(x),
    "changes": lambda x, times=2: x.mul_(times),
    "cut": lambda x, times=2: (x * times).detach(),
    "nothing": lambda x, times=2: None,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_verdict_is_the_same_across_a_wire(name):
    function = ANSWERS[name]
    assert check(across(function), toy()) == ask(function)
    assert ask(function).ok == (name == "right")


# The learner's side


def test_the_function_works_on_copies():
    x = torch.ones(2)
    case = Case("", {"x": x, "items": [1, 2]}, {"k": x}, upstream=torch.ones(2))

    def spoil(x, items, k):
        x += 1
        items.append(3)
        return x * k

    answer = run(spoil, case)
    assert answer.changed == ("x", "items")
    assert x.sum() == 2 and case.args["items"] == [1, 2]
    assert torch.equal(unpack(answer.value), torch.tensor([2.0, 2.0]))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x.zero_(),
        lambda x: x.data.zero_(),
        lambda x: x.t_(),
        lambda x: setattr(x, "data", x.data.double()),
        lambda x: x.detach().fill_(NAN),
        lambda x: x.zero_() / 0 + x.undefined,
    ],
    ids=["zero_", "data", "t_", "dtype", "detach", "then an error"],
)
@pytest.mark.parametrize("upstream", [None, torch.ones(2, 3)], ids=["plain", "with gradient"])
def test_a_changed_argument_is_noticed(spoil, upstream):
    case = Case("", {"x": torch.ones(2, 3)}, upstream=upstream)

    def function(x):
        spoil(x)
        return torch.ones(2, 3)

    assert run(function, case).changed == ("x",)


def test_a_resized_argument_is_noticed():
    assert run(lambda x: x.resize_(1), Case("", {"x": torch.ones(2)})).changed == ("x",)


def test_gradients_are_asked_of_every_float_tensor_and_no_other():
    x, y = torch.randn(2, 3), torch.randn(3, dtype=torch.float32)
    inputs = {"x": x, "mask": torch.ones(3, dtype=torch.bool), "n": 2}
    upstream = torch.randn(2, 3)
    answer = run(lambda x, mask, n, *, y: x * mask * n * y, Case("", inputs, {"y": y}, upstream))
    assert list(answer.gradients) == ["x", "y"]
    assert torch.allclose(unpack(answer.gradients["x"]), upstream * 2 * y)
    assert torch.allclose(unpack(answer.gradients["y"]), (upstream * 2 * x).sum(0))


def test_without_an_upstream_gradient_none_is_computed():
    seen = []
    run(lambda x: seen.append(x.requires_grad), Case("", {"x": torch.ones(1)}))
    assert seen == [False]


def test_gradients_are_there_even_where_the_notebook_has_switched_them_off():
    case = Case("", {"x": torch.ones(2)}, upstream=torch.ones(2))
    with torch.no_grad():
        answer = run(double, case)
    assert unpack(answer.gradients["x"]).tolist() == [2, 2]


@pytest.mark.parametrize(
    "output",
    [
        lambda x: x.detach(),
        lambda x: torch.ones(2),
        lambda x: x.sum(),
        lambda x: x.double(),
        lambda x: [x],
        lambda x: x.as_subclass(Vague),
    ],
    ids=["cut", "unrelated", "shape", "dtype", "list", "subclass"],
)
def test_an_output_that_cannot_take_the_upstream_gradient_gives_none(output):
    answer = run(output, Case("", {"x": torch.ones(2)}, upstream=torch.ones(2)))
    assert answer.gradients == {"x": None} and answer.fault is None


class Final(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("never")


class Slippery(str):
    def splitlines(self, keepends=False):
        raise RuntimeError("never")

    strip = partition = splitlines


def deep(n):
    return deep(n + 1)


def raising(error):
    def function(x, times=2):
        raise error

    return function


FAULTS = {
    "plain": (raising(ValueError("no")), "ValueError", "no"),
    "two lines": (raising(ValueError("first\nsecond")), "ValueError", "first"),
    "long": (raising(ValueError("x" * 999)), "ValueError", "x" * engine.LONGEST_MESSAGE),
    "no words": (raising(ValueError()), "ValueError", ""),
    "slippery words": (raising(ValueError(Slippery("slips"))), "ValueError", "slips"),
    "no words to be had": (raising(Mute()), "Mute", ""),
    "exit": (raising(SystemExit(0)), "SystemExit", "0"),
    "no Exception": (raising(Final("end")), "Final", "end"),
    "arithmetic": (lambda x, times=2: 1 / 0, "ZeroDivisionError", "division by zero"),
    "too deep": (lambda x, times=2: deep(0), "RecursionError", "maximum recursion"),
    "no such method": (lambda x, times=2: x.backwards(), "AttributeError", "'Tensor' object"),
    "no such argument": (lambda: 0, "TypeError", "<lambda>() got an unexpected keyword"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_is_raised_becomes_a_fault(name):
    function, kind, message = FAULTS[name]
    fault = run(function, toy().cases(0)[-1]).fault
    assert fault.kind == kind and fault.message.startswith(message)
    assert bool(fault.message) == bool(message)
    verdict = ask(function)
    assert verdict.points == 0 and kind in repr(verdict)


def test_the_stop_button_gets_through():
    with pytest.raises(KeyboardInterrupt):
        ask(raising(KeyboardInterrupt()))


def raised(error, case):
    return run(raising(error), case).fault


def written(x, times=2):
    """The same as ``written_into``, with a way back."""
    return torch.exp(x) / torch.exp(x).sum()


def from_cell(source, name="function", cell="<cell>", **namespace):
    """A function as a notebook makes it: from a text that only linecache knows."""
    source = textwrap.dedent(source)
    linecache.cache[cell] = (len(source), None, source.splitlines(True), cell)
    namespace |= {"torch": torch, "double": double}
    exec(compile(source, cell, "exec"), namespace)
    return namespace[name]


def test_the_fault_names_the_learners_own_line():
    function = from_cell(
        """
        def helper(x):
            return torch.nn.functional.softmax(x, dim=5)

        def function(x, times=2):
            y = helper(x)
            return y
        """
    )
    fault = run(function, Case("", {"x": torch.ones(2)})).fault
    assert fault.line == "line 3: return torch.nn.functional.softmax(x, dim=5)"


def test_an_error_in_the_call_itself_has_no_line():
    function = from_cell("def function(x): return x")
    assert run(function, Case("", {"x": 1, "y": 2})).fault.line == ""


def test_an_error_in_a_function_of_another_cell_names_both_lines():
    helper = from_cell("def helper(x):\n    return x @ x.undefined", "helper", "<first>")
    function = from_cell("def function(x):\n    return helper(x)", helper=helper)
    fault = run(function, Case("", {"x": torch.ones(2)})).fault
    assert fault.line == "line 2: return helper(x)\nline 2 of helper: return x @ x.undefined"
    shown = repr(ask(lambda x, times=2: function(x)))
    assert "\n    line 2 of helper: return x @ x.undefined\n" in shown


def test_an_error_inside_torch_names_the_cell_alone():
    function = from_cell("def function(x):\n    return torch.nn.functional.softmax(x, dim=5)")
    fault = run(function, Case("", {"x": torch.ones(2)})).fault
    assert fault.line == "line 2: return torch.nn.functional.softmax(x, dim=5)"


def test_an_error_on_the_way_back_is_a_fault_of_that_phase():
    answer = run(lambda x, times=2: written_into(x), toy().cases(0)[0])
    fault = answer.fault
    assert (fault.kind, fault.line, fault.phase) == ("RuntimeError", "", "backward")
    assert "modified by an inplace operation" in fault.message
    assert not fault.message.rstrip().endswith("Hint:") and answer.value is not None
    assert raised(ValueError("a"), toy().cases(0)[0]).phase == "forward"


def test_an_error_on_the_way_back_is_told_as_one():
    verdict = ask(lambda x, times=2: written_into(x), toy(written))
    assert verdict.difference.kind == "backward" and verdict.hint == ADVICE["backward"]
    shown = " ".join(repr(verdict).split())
    assert "Your function ran;" in shown and "signature" not in shown
    assert "Hint:" not in shown


def test_an_error_on_the_way_back_is_no_error_of_the_call():
    there, back = Fault("RuntimeError", "a"), Fault("RuntimeError", "a", phase="backward")
    assert compare(Answer(1, fault=back), Answer(None, fault=there)).kind == "error"
    assert compare(Answer(None, fault=there), Answer(1, fault=back)).kind == "backward"
    assert compare(Answer(1, fault=back), Answer(1, fault=back)) is None
    assert compare(Answer(1, fault=back), Answer(2, fault=back)).kind == "number"


REMARKED = {
    "a pair": (lambda x, times=2: x - x.max(-1), "comes as a pair"),
    "numpy": (lambda x, times=2: torch.tensor(x.numpy()) * times, "Stay in torch"),
}


@pytest.mark.parametrize("name", REMARKED)
def test_an_error_that_says_its_cause_gets_a_remark_on_it(name):
    function, remark = REMARKED[name]
    verdict = ask(function)
    assert verdict.difference.kind == "error" and remark in verdict.hint


# The judge's side


def array(*numbers, dtype="float32", shape=None):
    tensor = torch.tensor(numbers, dtype=getattr(torch, dtype))
    return pack(tensor if shape is None else tensor.reshape(shape))


SAME = {
    "numbers": (array(1, 2), array(1, 2)),
    "a little off": (array(1, 1000), array(1 + 5e-5, 1000.05)),
    "noise beside large numbers": (array(0, 1000), array(0.005, 1000)),
    "noise around zero": (array(0, 0), array(5e-7, -5e-7)),
    "float64 a little off": (array(1, dtype="float64"), array(1 + 5e-10, dtype="float64")),
    "half": (array(1, dtype="float16"), array(1.005, dtype="float16")),
    "signed zeros": (array(0.0), array(-0.0)),
    "booleans": (array(True, False, dtype="bool"), array(True, False, dtype="bool")),
    "whole numbers": (array(2**53 + 1, dtype="int64"), array(2**53 + 1, dtype="int64")),
    "NaN where NaN is": (array(NAN, 1), array(NAN, 1 + 1e-5)),
    "infinities": (array(INF, -INF), array(INF, -INF)),
    "empty": (array(), array()),
    "float": (0.1 + 0.2, 0.3),
    "int": (7, 7),
    "text": ("a", "a"),
    "nothing": (None, None),
    "a list": ([1, (array(1), 2.0)], [1, (array(1), 2.0)]),
    "foreign and alike": (Foreign("Liar"), Foreign("Liar")),
    "too large, both": (Array("float32", (9,), None), Array("float32", (9,), None)),
}

DIFFERENT = {
    "nothing": (array(1), None),
    "foreign": (array(1), Foreign("Liar")),
    "tensor for a number": (1, array(1)),
    "number for a tensor": (array(1), 1.0),
    "float for int": (1, 1.0),
    "bool for int": (1, True),
    "list for tuple": ((1,), [1]),
    "double": (array(1), array(1, dtype="float64")),
    "int for bool": (array(1, dtype="bool"), array(1, dtype="int64")),
    "an axis more": (array(1, 2), array(1, 2, shape=(1, 2))),
    "transposed": (array(1, 2, shape=(1, 2)), array(1, 2, shape=(2, 1))),
    "scalar": (array(1), array(1, shape=())),
    "too few items": ([1, 2], [1]),
    "NaN": (array(1, 2), array(1, NAN)),
    "infinity": (array(1, 2), array(1, INF)),
    "NaN for a float": (1.0, NAN),
    "off": (array(1, 2), array(1, 2.001)),
    "off beside large numbers": (array(0, 1000), array(0.02, 1000)),
    "off around zero": (array(0, 0), array(0, 5e-6)),
    "float64 from float32": (array(1 / 3, dtype="float64"), array(0.3333333433, dtype="float64")),
    "half off": (array(1, dtype="float16"), array(1.05, dtype="float16")),
    "one boolean": (array(True, False, dtype="bool"), array(True, True, dtype="bool")),
    "whole by one": (array(2**53 + 1, dtype="int64"), array(2**53, dtype="int64")),
    "finite for infinite": (array(INF), array(1e30)),
    "minus infinity": (array(INF), array(-INF)),
    "number for NaN": (array(NAN), array(0)),
    "float off": (1.0, 1.0 + 1e-6),
    "int by one": (2**70 + 1, 2**70),
    "text": ("a", "b"),
    "inside": ([1, (array(1), 2)], [1, (array(2), 2)]),
    "bytes missing": (array(1), Array("float32", (1,), b"\0\0")),
    "no bytes": (array(1), Array("float32", (1,), None)),
    "something for nothing": (None, 1),
}
KINDS = {
    "nothing": ["nothing"],
    "type": [
        "foreign",
        "tensor for a number",
        "number for a tensor",
        "float for int",
        "bool for int",
        "list for tuple",
        "something for nothing",
    ],
    "dtype": ["double", "int for bool"],
    "shape": ["an axis more", "transposed", "scalar", "too few items"],
    "not finite": ["NaN", "infinity", "NaN for a float"],
    "number": ["float off", "int by one"],
}


@pytest.mark.parametrize("name", SAME)
def test_the_same(name):
    expected, got = SAME[name]
    assert compare(Answer(expected), Answer(got)) is None
    assert compare(Answer(got), Answer(expected)) is None


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_and_of_its_kind(name):
    expected, got = DIFFERENT[name]
    kind = next((kind for kind, names in KINDS.items() if name in names), "values")
    assert compare(Answer(expected), Answer(got)).kind == kind
    assert compare(Answer(got), Answer(expected)) is not None


X, ZERO = array(1.0, 2.0), array(0.0, 0.0)


@pytest.mark.parametrize(
    ("expected", "got", "kind"),
    [
        (Answer(1, gradients={"x": X}), Answer(1, gradients={"x": X}), None),
        (Answer(1, gradients={"x": X}), Answer(1, gradients={"x": None}), "gradient"),
        (Answer(1, gradients={"x": X}), Answer(1), "gradient"),
        (Answer(1, gradients={"x": X}), Answer(1, gradients={"x": ZERO}), "gradient"),
        (Answer(1, gradients={"x": X}), Answer(1, gradients={"x": array(1, NAN)}), "gradient"),
        (Answer(1, gradients={"x": X}), Answer(1, gradients={"x": Foreign("?")}), "gradient"),
        (Answer(1, gradients={"x": ZERO}), Answer(1, gradients={"x": None}), None),
        (Answer(1, gradients={"x": None}), Answer(1, gradients={"x": ZERO}), None),
        (Answer(1, gradients={"x": None}), Answer(1, gradients={"x": X}), "gradient"),
        (Answer(1, gradients={"x": X}), Answer(2, gradients={"x": X}), "number"),
        (Answer(1), Answer(1, changed=("x",)), "changed"),
        (Answer(1), Answer(None, changed=("x",), fault=Fault("E")), "changed"),
        (Answer(1), Answer(1, fault=Fault("E")), "error"),
        (Answer(None, fault=Fault("E")), Answer(1), "not refused"),
        (Answer(None, fault=Fault("E")), Answer(None, fault=Fault("F")), "wrong error"),
        (Answer(None, fault=Fault("E")), Answer(None, fault=Fault("F", bases=("F", "E"))), None),
        (
            Answer(None, fault=Fault("F", bases=("F", "E"))),
            Answer(None, fault=Fault("E")),
            "wrong error",
        ),
        (Answer(None, fault=Fault("E", "a")), Answer(None, fault=Fault("E")), "wrong error"),
        (Answer(None, fault=Fault("E", "a")), Answer(None, fault=Fault("E", "b", "c")), None),
    ],
)
def test_gradients_changes_and_faults(expected, got, kind):
    difference = compare(expected, got)
    assert (difference and difference.kind) == kind


def test_a_difference_says_where_and_never_what_was_wanted():
    wanted = torch.full((2, 3), 123456.0)
    got = wanted.clone()
    got[1, 2] = got[1, 0] = 7
    difference = compare(Answer(pack(wanted)), Answer(pack(got)))
    assert difference.detail == "wrong in 2 of 6 places, the first at [1, 0]"
    assert compare(Answer(123456), Answer(7)).detail == "the number is too small"
    assert compare(Answer(7), Answer(10**400)).detail == "the number is too large"
    assert compare(Answer(7.5), Answer(8.5)).detail == "the number is too large"
    assert compare(Answer("7"), Answer("8")).detail == "the value is wrong"
    assert "1234" not in compare(Answer(123456.5), Answer(7.0)).detail
    assert "secret" not in compare(Answer("secret"), Answer("open")).detail


def test_every_kind_of_difference_has_its_advice():
    kinds = {"error", "backward", "wrong error", "not refused"}
    kinds |= {"changed", "gradient", "values", "missing", *KINDS}
    assert set(ADVICE) == kinds
    assert "tensor" not in ADVICE["number"] and "shape" not in ADVICE["number"]
    assert "zero times infinity" in ADVICE["not finite"]


def test_patching_torch_does_not_help(monkeypatch):
    always = lambda *args, **kwargs: True  # noqa: E731
    for name in ("allclose", "equal", "isclose", "all", "isfinite"):
        monkeypatch.setattr(torch, name, always)
    monkeypatch.setattr(torch.Tensor, "__eq__", always)
    monkeypatch.setattr(torch.testing, "assert_close", always)
    assert not ask(lambda x, times=2: x * times + 1).ok
    assert ask(double).ok


# The verdict


def test_a_right_answer():
    verdict = ask(double, seeds=(0, 1, 2))
    assert verdict.ok and (verdict.points, verdict.max_points, verdict.cases) == (3, 3, 6)
    assert (verdict.hint, verdict.mistake, verdict.difference, verdict.failed) == (
        "",
        None,
        None,
        0,
    )
    assert repr(verdict) == "toy.double: 3 of 3 points\nAll public checks passed (6)."


def test_a_known_mistake_is_named_and_its_hint_given():
    verdict = ask(lambda x, times=2: x + x)
    assert (verdict.points, verdict.mistake, verdict.hint) == (
        0,
        "fixed",
        "Look at every argument.",
    )
    assert (verdict.failed, verdict.cases, verdict.label) == (1, 2, "three times")
    assert repr(verdict).splitlines() == [
        "toy.double: 0 of 3 points",
        'Not yet in 1 of 2 checks. The first of them, "three times":',
        "    wrong in 12 of 12 places, the first at [0, 0]",
        "",
        "Look at every argument.",
    ]


def test_a_mistake_is_named_only_if_it_answers_alike_in_all_cases():
    verdict = ask(lambda x, times=2: x**2 if times == 2 else x)
    assert verdict.mistake is None and verdict.hint == ADVICE["values"]


def test_a_mistake_is_told_by_its_gradients_too():
    half_cut = toy(mistakes={"cut": (lambda x, times=2: x + x.detach() * (times - 1), "Cut.")})
    assert ask(lambda x, times=2: x.detach() * (times - 1) + x, half_cut).mistake == "cut"
    assert ask(lambda x, times=2: x.detach() * times, half_cut).mistake is None


def test_a_mistake_is_told_by_its_errors():
    raises = toy(mistakes={"raises": (raising(KeyError("a")), "Mind the key.")})
    assert ask(raising(KeyError("b")), raises).mistake == "raises"
    assert ask(raising(ValueError("a")), raises).mistake is None


@pytest.mark.parametrize("value", [None, ...], ids=["None", "Ellipsis"])
def test_nothing_returned_yet(value):
    verdict = ask(lambda x, times=2: value)
    assert verdict.points == 0 and verdict.difference.kind == "nothing"
    assert repr(verdict).splitlines()[1] == "Nothing returned yet."


def test_nothing_on_one_path_says_on_which():
    verdict = ask(lambda x, times=2: double(x) if times == 2 else None)
    assert '"three times":\n    nothing came back\n' in repr(verdict)


def test_the_first_case_that_differs_is_the_one_that_is_told():
    verdict = ask(lambda x, times=2: x.double())
    assert verdict.label == "default" and verdict.difference.kind == "dtype"
    assert verdict.failed == 2


def test_a_wanted_refusal():
    def halve(n):
        if n % 2:
            raise ValueError(f"{n} is odd")
        return n // 2

    def cases(seed):
        return [Case("even", {"n": 4}), Case("odd", {"n": 5})]

    question = Question("toy.halve", "halve", 1, cases, halve, {}, {})
    assert ask(halve, question).ok
    assert ask(lambda n: n // 2, question).difference.kind == "not refused"
    other = ask(lambda n: n // 2 if n % 2 == 0 else [][0], question)
    detail = "IndexError was raised, ValueError is wanted"
    assert other.difference == Difference("wrong error", detail)
    assert other.hint == ADVICE["wrong error"] and "signature" not in other.hint


class Misfit(ValueError):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("odd"), None),
        (Misfit("odd"), None),
        (ValueError(), "wrong error"),
        (Misfit("  "), "wrong error"),
        (RuntimeError("odd"), "wrong error"),
        (Exception("odd"), "wrong error"),
    ],
    ids=repr,
)
def test_a_refusal_is_of_the_wanted_type_or_one_of_its_kind_and_says_why(error, kind):
    [case] = [Case("odd", {"x": 1})]
    difference = compare(run(raising(ValueError("1 is odd")), case), run(raising(error), case))
    assert (difference and difference.kind) == kind


LOOKS_RIGHT = {
    "lying equality": (lambda x, times=2: Liar(), "type"),
    "subclass": (lambda x, times=2: (x * times).as_subclass(Vague), "type"),
    "parameter": (lambda x, times=2: torch.nn.Parameter(x * times), "type"),
    "list": (lambda x, times=2: (x * times).tolist(), "type"),
    "numpy": (lambda x, times=2: (x * times).detach().numpy(), "type"),
    "changed argument": (lambda x, times=2: x.mul_(times), "changed"),
    "NaN": (lambda x, times=2: x * times * NAN, "not finite"),
    "dtype": (lambda x, times=2: (x * times).double(), "dtype"),
    "an axis more": (lambda x, times=2: (x * times)[None], "shape"),
    "transposed": (lambda x, times=2: (x * times).T, "shape"),
    "no gradient": (lambda x, times=2: (x * times).detach(), "gradient"),
    "a gradient too many": (lambda x, times=2: x * times + (x - x.detach()), "gradient"),
    "zero": (lambda x, times=2: x * 0, "values"),
}


@pytest.mark.parametrize("name", LOOKS_RIGHT)
def test_what_only_looks_right_is_refused(name):
    function, kind = LOOKS_RIGHT[name]
    verdict = ask(function)
    assert (verdict.points, verdict.difference.kind) == (0, kind)
    assert verdict.hint == ADVICE[kind]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_verdict_reads_well_everywhere(name):
    verdict = ask(ANSWERS[name])
    text = repr(verdict)
    assert text == str(verdict) == repr(ask(ANSWERS[name]))
    assert all(len(line) <= WIDTH and line == line.rstrip() for line in text.splitlines())
    assert "correct" not in text.lower() and "Traceback" not in text


def test_there_may_be_no_function():
    verdict = missing(toy(), "There is no function `double` yet.")
    assert (verdict.ok, verdict.points, verdict.max_points, verdict.cases) == (False, 0, 3, 0)
    assert "There is no function `double` yet." in repr(verdict)


def test_checks_use_one_thread_and_give_the_others_back():
    seen = []

    def watch(x, times=2):
        seen.append(torch.get_num_threads())
        raise ValueError

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ask(watch)
        assert set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_expected_answers_are_made_before_the_learners_code_runs():
    order = []

    def reference(x, times=2):
        order.append("reference")
        return x * times

    def learner(x, times=2):
        order.append("learner")
        return x * times

    ask(learner, toy(reference))
    assert order == ["reference"] * 2 + ["learner"] * 2
