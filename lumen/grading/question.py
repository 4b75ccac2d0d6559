"""A question, its cases, and the two halves of asking it.

A case is put to a function on the learner's side (``run``) and the answer is judged on the other
(``compare``). In a notebook both happen in one process. They are written as if they did not:

    judge                                    learner
    question.cases(seed) -> Case
        pack(inputs)          ---------->    unpack, call, differentiate, pack: run(function, case)
    compare(expected, answer) <----------    Answer

Only plain data crosses: numbers, text, lists, tuples, and tensors as ``Array`` (dtype, shape,
bytes). So a process boundary with a wire can stand on the two arrows without either half changing.
A case's label, the reference and the expected answer stay on the judge's side. ``compare`` never
calls a method of what the learner returned: ``pack`` takes exact types only and names the type of
anything else, and the comparison works on Python numbers read from bytes, without torch.
"""

from __future__ import annotations

import linecache
import math
import os.path
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

FORMATS = {
    "bool": "?",
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}
# relative; absolute as a share of the largest expected number; absolute at least
TOLERANCES = {
    "float16": (1e-2, 1e-3, 1e-3),
    "float32": (1e-4, 1e-5, 1e-6),
    "float64": (1e-9, 1e-10, 1e-12),
}
MOST_BYTES = 1 << 20
MOST_ITEMS = 10_000
DEEPEST = 4
LONGEST_MESSAGE = 200


@dataclass(frozen=True, eq=False)
class Case:
    """One input: data only.

    ``args`` are given by position, in their order; their names serve the hints. Where ``upstream``
    is set, the gradient of every floating-point tensor is asked too, for that upstream gradient.
    """

    label: str
    args: Mapping[str, Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    upstream: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked, what answers it, and the wrong answers that are known by name.

    ``name`` is ``set.idea``; ``target`` is the name that the learner's notebook gives the function.
    ``mistakes`` maps an id to a wrong function and its hint, ``alternatives`` an id to a right one.
    """

    name: str
    target: str
    points: int
    cases: Callable[[int], Sequence[Case]] = field(repr=False)
    reference: Callable = field(repr=False)
    mistakes: Mapping[str, tuple[Callable, str]] = field(repr=False)
    alternatives: Mapping[str, Callable] = field(repr=False)


@dataclass(frozen=True)
class Array:
    """A tensor as it crosses; without data where it is too large or of a dtype never wanted."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | None

    def numbers(self) -> tuple:
        return struct.unpack(f"={math.prod(self.shape)}{FORMATS[self.dtype]}", self.data)


@dataclass(frozen=True)
class Foreign:
    """Something that does not cross: only the name of its type does."""

    name: str


@dataclass(frozen=True)
class Fault:
    """An exception: its type, the first line of its message, and the learner's own line.

    ``bases`` are the names of the types it is one of; ``phase`` is ``forward`` where the function
    raised it, ``backward`` where the gradient did that was sent through what came back.
    """

    kind: str
    message: str = ""
    line: str = ""
    bases: tuple[str, ...] = ()
    phase: str = "forward"


@dataclass(frozen=True)
class Answer:
    """What came back for one case, in plain data."""

    value: Any = None
    gradients: Mapping[str, Array | Foreign | None] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    fault: Fault | None = None


@dataclass(frozen=True)
class Difference:
    """How an answer differs: its kind, and types, shapes and places, but never a wanted value.

    Kinds: nothing, changed, error, backward, wrong error, not refused, type, dtype, shape,
    not finite, values, number, gradient.
    """

    kind: str
    detail: str


def pack(value: Any, depth: int = 0) -> Any:
    """The value as plain data; ``None`` and ``...`` are both nothing."""
    kind = type(value)
    if value is None or value is ...:
        return None
    if kind in (bool, int, float) or (kind is str and len(value) <= MOST_ITEMS):
        return value
    if kind in (list, tuple) and len(value) <= MOST_ITEMS and depth < DEEPEST:
        return kind([pack(item, depth + 1) for item in value])
    if kind is torch.Tensor:
        return _pack_tensor(value)
    return Foreign(type_name(value))


def type_name(value: Any) -> str:
    """The name of a value's type. A metaclass may lie about it, the slot of ``type`` does not."""
    return type.__dict__["__name__"].__get__(type(value))


def _pack_tensor(tensor: torch.Tensor) -> Array | Foreign:
    # detach of the class: an attribute of the instance could stand before the method
    tensor = torch.Tensor.detach(tensor)
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.device.type == "meta":
        return Foreign("tensor without plain storage")
    dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    if dtype not in FORMATS or tensor.numel() * tensor.element_size() > MOST_BYTES:
        return Array(dtype, shape, None)
    flat = tensor.cpu().resolve_neg().contiguous().reshape(-1)
    return Array(dtype, shape, bytes(flat.view(torch.uint8).tolist()))


def unpack(plain: Any) -> Any:
    """A fresh value from plain data: no storage is shared with what was packed."""
    if type(plain) in (list, tuple):
        return type(plain)([unpack(item) for item in plain])
    if type(plain) is not Array:
        return plain
    dtype = getattr(torch, plain.dtype)
    if not plain.data:
        return torch.empty(plain.shape, dtype=dtype)
    return torch.frombuffer(bytearray(plain.data), dtype=dtype).reshape(plain.shape)


def run(function: Callable, case: Case) -> Answer:
    """The learner's side: call the function on copies of the inputs and collect the answer.

    Whatever the function raises becomes a ``Fault``; only a pressed stop button gets through.
    """
    names = [*case.args, *case.kwargs]
    sent = [pack(value) for value in (*case.args.values(), *case.kwargs.values())]
    leaves = dict(zip(names, map(unpack, sent), strict=True))
    with torch.enable_grad():
        # clones: a function that writes into its inputs is told so, instead of failing on a leaf
        given = {name: _follow(leaf, case.upstream) for name, leaf in leaves.items()}
        args, kwargs = [given[name] for name in case.args], {k: given[k] for k in case.kwargs}
        value, gradients, fault, phase = None, {}, None, "forward"
        try:
            output = function(*args, **kwargs)
            value, phase = pack(output), "backward"
            gradients = _gradients(output, leaves, case.upstream)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            fault = _fault(error, phase)
    changed = tuple(
        name
        for name, before in zip(names, sent, strict=True)
        if type(before) in (Array, list) and pack(given[name]) != before
    )
    return Answer(value, gradients, changed, fault)


def _follow(leaf: Any, upstream: torch.Tensor | None) -> Any:
    if upstream is None or type(leaf) is not torch.Tensor or not leaf.is_floating_point():
        return leaf
    return leaf.requires_grad_().clone()


def _gradients(output: Any, leaves: Mapping, upstream: torch.Tensor | None) -> dict:
    if upstream is None:
        return {}
    wanted = {
        name: leaf
        for name, leaf in leaves.items()
        if type(leaf) is torch.Tensor and leaf.requires_grad
    }
    if (
        type(output) is not torch.Tensor
        or not output.requires_grad
        or output.shape != upstream.shape
        or output.dtype != upstream.dtype
    ):
        return dict.fromkeys(wanted)
    found = torch.autograd.grad(
        output, list(wanted.values()), upstream.to(output.device), allow_unused=True
    )
    return {name: pack(gradient) for name, gradient in zip(wanted, found, strict=True)}


def _fault(error: BaseException, phase: str) -> Fault:
    try:
        message = str.__str__(str(error))
    except Exception:
        message = ""
    # torch puts a long "Hint:" about its own debugging behind some messages
    message = message.strip().partition("\n")[0].partition(" Hint:")[0][:LONGEST_MESSAGE]
    types = type.__dict__["__mro__"].__get__(type(error))
    bases = tuple(type.__dict__["__name__"].__get__(base) for base in types)
    line = _own_lines(error) if phase == "forward" else ""
    return Fault(type_name(error), message, line, bases, phase)


def _own_lines(error: BaseException) -> str:
    """The deepest line in the file that run called, and the one that it led to in another cell."""
    # the first frame is run's own
    frames = [(f.f_code, n) for f, n in traceback.walk_tb(error.__traceback__)][1:]
    if not frames or frames[0][0].co_filename == __file__:
        return ""
    first = frames[0][0].co_filename
    code, number = [frame for frame in frames if frame[0].co_filename == first][-1]
    lines = [_line(code, number, "")]
    code, number = [frame for frame in frames if _is_own(*frame, first)][-1]
    if code.co_filename != first:
        lines.append(_line(code, number, f" of {code.co_name}"))
    return "\n".join(lines)


def _is_own(code: Any, number: int, first: str) -> bool:
    """Whether a line is the learner's: in the first file, or in a cell, which is no file at all."""
    file = code.co_filename
    return file == first or (not os.path.exists(file) and linecache.getline(file, number) != "")


def _line(code: Any, number: int, where: str) -> str:
    source = linecache.getline(code.co_filename, number).strip()
    return f"line {number}{where}: {source}" if source else f"line {number}{where}"


def compare(expected: Answer, got: Answer) -> Difference | None:
    """The judge's side: how the answer differs from the expected one, or None."""
    if set(got.changed) != set(expected.changed):
        return Difference("changed", f"{' and '.join(got.changed)} came back changed")
    return (
        _faults_differ(expected.fault, got.fault)
        or _differ(expected.value, got.value)
        or (None if got.fault else _gradients_differ(expected, got))
    )


def _faults_differ(expected: Fault | None, got: Fault | None) -> Difference | None:
    if got is None:
        return expected and Difference("not refused", f"{expected.kind} is wanted")
    if expected is None or got.phase != expected.phase:
        kind = "backward" if got.phase == "backward" else "error"
        text = f"{got.kind}: {got.message}" if got.message else got.kind
        return Difference(kind, f"{text}\n{got.line}" if got.line else text)
    if expected.kind not in (got.kind, *got.bases):
        return Difference("wrong error", f"{got.kind} was raised, {expected.kind} is wanted")
    if expected.message and not got.message:
        return Difference("wrong error", f"the {got.kind} says nothing")
    return None


def _differ(expected: Any, got: Any) -> Difference | None:
    if got is None and expected is not None:
        return Difference("nothing", "nothing came back")
    if type(got) is not type(expected) or type(got) is Foreign:
        if type(got) is Foreign and got == expected:
            return None
        return Difference("type", f"{_noun(got)} came back, {_noun(expected)} is wanted")
    if type(got) is Array:
        return _arrays_differ(expected, got)
    if type(got) in (list, tuple):
        if len(got) != len(expected):
            return Difference("shape", f"{len(got)} items came back, {len(expected)} are wanted")
        pairs = zip(expected, got, strict=True)
        return next((found for pair in pairs if (found := _differ(*pair))), None)
    if type(got) is float:
        if math.isfinite(expected) and not math.isfinite(got):
            return Difference("not finite", "the number is not finite")
        relative, _, least = TOLERANCES["float64"]
        same = _close(expected, got, relative, least)
    else:
        same = got == expected
    if same:
        return None
    if type(got) in (int, float) and (got > expected or got < expected):
        size = "large" if got > expected else "small"
        return Difference("number", f"the number is too {size}")
    return Difference("values", "the value is wrong")


def _arrays_differ(expected: Array, got: Array) -> Difference | None:
    if got.dtype != expected.dtype:
        return Difference("dtype", f"{got.dtype} came back, {expected.dtype} is wanted")
    if got.shape != expected.shape:
        detail = f"shape {got.shape} came back, {expected.shape} is wanted"
        return Difference("shape", detail)
    if expected.data is None or got.data is None or len(got.data) != len(expected.data):
        same = expected.data is None and got.data is None
        return None if same else Difference("values", "the numbers could not be read")
    if got.data == expected.data:
        return None
    wanted, found = expected.numbers(), got.numbers()
    lost = [
        at
        for at, (e, g) in enumerate(zip(wanted, found, strict=True))
        if math.isfinite(e) and not math.isfinite(g)
    ]
    if lost:
        return Difference("not finite", _places("not finite", lost, got.shape))
    relative, share, least = TOLERANCES.get(got.dtype, (0, 0, 0))
    largest = max((abs(e) for e in wanted if math.isfinite(e)), default=0)
    absolute = max(share * largest, least)
    wrong = [
        at
        for at, (e, g) in enumerate(zip(wanted, found, strict=True))
        if not _close(e, g, relative, absolute)
    ]
    return Difference("values", _places("wrong", wrong, got.shape)) if wrong else None


def _close(expected: float, got: float, relative: float, absolute: float) -> bool:
    if math.isfinite(expected):
        return abs(got - expected) <= max(relative * abs(expected), absolute)
    return got == expected or (math.isnan(got) and math.isnan(expected))


def _places(what: str, at: list[int], shape: tuple[int, ...]) -> str:
    index, flat = [], at[0]
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.insert(0, place)
    return f"{what} in {len(at)} of {math.prod(shape)} places, the first at {index}"


def _gradients_differ(expected: Answer, got: Answer) -> Difference | None:
    for name, wanted in expected.gradients.items():
        found = got.gradients.get(name)
        if found is None and not _is_zero(wanted):
            return Difference("gradient", f"no gradient reaches {name}")
        if found is None or (wanted is None and _is_zero(found)):
            continue
        difference = _differ(wanted, found)
        if difference:
            return Difference("gradient", f"in the gradient of {name}, {difference.detail}")
    return None


def _is_zero(gradient: Any) -> bool:
    if gradient is None:
        return True
    return type(gradient) is Array and gradient.data is not None and not any(gradient.numbers())


def _noun(plain: Any) -> str:
    if plain is None:
        return "nothing"
    if type(plain) is Foreign:
        return f"an object of type {plain.name}"
    name = "tensor" if type(plain) is Array else type(plain).__name__
    return f"an {name}" if name == "int" else f"a {name}"
