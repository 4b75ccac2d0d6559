"""The wire between the judge and the box: numbered frames of JSON, read without trust.

A frame is a length in eight bytes and that many bytes of JSON. A tensor is its dtype, its shape and
its bytes in base64. Every size is checked before anything is made from it, and nothing is ever
unpickled. Whoever reads gets the plain data of ``lumen.grading.question``, or ``Garbled``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import select
import struct
import time
from collections.abc import Mapping
from typing import Any

from lumen.grading.question import (
    DEEPEST,
    FORMATS,
    MOST_BYTES,
    MOST_ITEMS,
    Answer,
    Array,
    Case,
    Fault,
    Foreign,
    pack,
    unpack,
)

HEADER = struct.Struct(">Q")
MOST_FRAME = 16 << 20
MOST_FORMS = 200_000
MOST_BITS = 1024
MOST_TEXT = 20_000
MOST_DIMENSIONS = 64


class Garbled(ValueError):
    """What came over the wire is not what was agreed."""


class Silent(TimeoutError):
    """Nothing came, or nothing was taken, until the deadline."""


class Gone(EOFError):
    """The other side has closed the wire."""


# ---- plain data as JSON, and back


def encode(plain: Any) -> Any:
    """Plain data, as ``pack`` makes it, in the forms of JSON."""
    kind = type(plain)
    if kind is int and plain.bit_length() > MOST_BITS:
        return {"foreign": f"int of more than {MOST_BITS:,} bits"}
    if kind is list:
        return [encode(item) for item in plain]
    if kind is tuple:
        return {"tuple": [encode(item) for item in plain]}
    if kind is Array:
        data = None if plain.data is None else base64.b64encode(plain.data).decode("ascii")
        return {"array": [plain.dtype, list(plain.shape), data]}
    if kind is Foreign:
        return {"foreign": plain.name}
    return plain


def decode(coded: Any, depth: int = 0) -> Any:
    """The plain data of what ``encode`` made; ``Garbled`` for anything that it cannot have made."""
    kind = type(coded)
    if coded is None or kind in (bool, float):
        return coded
    if kind is int:
        _agreed(coded.bit_length() <= MOST_BITS, "an int that is too long")
        return coded
    if kind is str:
        return _text(coded)
    if kind is list:
        return _items(coded, depth)
    _agreed(kind is dict and len(coded) == 1, "neither a value nor one of its forms")
    ((form, content),) = coded.items()
    if form == "tuple":
        _agreed(type(content) is list, "a tuple without a list")
        return tuple(_items(content, depth))
    if form == "foreign":
        return Foreign(_text(content))
    _agreed(form == "array", "a form that is not known")
    return _array(content)


def _items(coded: list, depth: int) -> list:
    _agreed(len(coded) <= MOST_ITEMS and depth <= DEEPEST, "a list that is too long or too deep")
    return [decode(item, depth + 1) for item in coded]


def _array(content: Any) -> Array:
    _agreed(type(content) is list and len(content) == 3, "an array without its three parts")
    dtype, shape, data = content
    _text(dtype)
    _agreed(
        type(shape) is list
        and len(shape) <= MOST_DIMENSIONS
        and all(type(n) is int and 0 <= n < 1 << 63 for n in shape),
        "a shape that is none",
    )
    if data is None:
        return Array(dtype, tuple(shape), None)
    _agreed(dtype in FORMATS, "numbers of a dtype that does not cross")
    wanted = math.prod(shape) * struct.calcsize("=" + FORMATS[dtype])
    _agreed(wanted <= MOST_BYTES, "an array that is too large")
    _agreed(type(data) is str and len(data) == 4 * math.ceil(wanted / 3), "bytes of another length")
    try:
        found = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Garbled("bytes that are not base64 came over the wire") from None
    _agreed(len(found) == wanted, "bytes of another length")
    return Array(dtype, tuple(shape), found)


def _text(value: Any) -> str:
    _agreed(type(value) is str and len(value) <= MOST_TEXT, "a text that is none, or too long")
    return value


def _agreed(condition: bool, found: str) -> None:
    if not condition:
        raise Garbled(f"{found} came over the wire")


def encode_case(case: Case) -> dict:
    """A case without its label: what the function needs and nothing more."""
    return {
        "args": [[name, encode(pack(value))] for name, value in case.args.items()],
        "kwargs": [[name, encode(pack(value))] for name, value in case.kwargs.items()],
        "upstream": encode(pack(case.upstream)),
    }


def decode_case(coded: Mapping) -> Case:
    args, kwargs = (
        {name: unpack(decode(value)) for name, value in coded[part]} for part in ("args", "kwargs")
    )
    return Case("", args, kwargs, unpack(decode(coded["upstream"])))


def encode_answer(answer: Answer) -> dict:
    fault = answer.fault and {
        "kind": answer.fault.kind,
        "message": answer.fault.message,
        "line": answer.fault.line,
        "bases": list(answer.fault.bases),
        "phase": answer.fault.phase,
    }
    return {
        "value": encode(answer.value),
        "gradients": [[name, encode(value)] for name, value in answer.gradients.items()],
        "changed": list(answer.changed),
        "fault": fault,
    }


def decode_answer(coded: Any) -> Answer:
    parts = _record(coded, "value", "gradients", "changed", "fault")
    gradients = {}
    for pair in _list(parts["gradients"]):
        _agreed(type(pair) is list and len(pair) == 2, "a gradient without a name")
        gradients[_text(pair[0])] = decode(pair[1])
    changed = tuple(_text(name) for name in _list(parts["changed"]))
    fault = parts["fault"]
    if fault is not None:
        fault = _record(fault, "kind", "message", "line", "bases", "phase")
        _agreed(fault["phase"] in ("forward", "backward"), "a phase that is none")
        fault = Fault(
            _text(fault["kind"]),
            _text(fault["message"]),
            _text(fault["line"]),
            tuple(_text(base) for base in _list(fault["bases"])),
            fault["phase"],
        )
    return Answer(decode(parts["value"]), gradients, changed, fault)


def _record(coded: Any, *keys: str) -> dict:
    _agreed(type(coded) is dict and set(coded) == set(keys), "a record with other parts")
    return coded


def _list(coded: Any) -> list:
    _agreed(type(coded) is list and len(coded) <= MOST_ITEMS, "a list that is none, or too long")
    return coded


# ---- frames


def to_frame(message: Mapping) -> bytes:
    body = json.dumps(message).encode("ascii")
    return HEADER.pack(len(body)) + body


def from_body(body: bytes) -> dict:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbled("a frame that is not JSON came over the wire") from None
    _agreed(type(message) is dict, "a frame that is no record")
    return message


def body_size(header: bytes) -> int:
    (size,) = HEADER.unpack(header)
    _agreed(size <= MOST_FRAME, f"a frame of {size:,} bytes")
    return size


class Channel:
    """The judge's end: no read and no write waits longer than its deadline.

    Deadlines are seconds of ``time.monotonic``. Both ends are the judge's own and become
    non-blocking.
    """

    def __init__(self, reader: int, writer: int):
        self.reader, self.writer = reader, writer
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)

    def send(self, message: Mapping, deadline: float) -> None:
        rest = memoryview(to_frame(message))
        while rest:
            self._wait([], [self.writer], deadline)
            try:
                rest = rest[os.write(self.writer, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Gone("the box has closed the wire") from None

    def receive(self, deadline: float) -> dict:
        size = body_size(self._read(HEADER.size, deadline))
        body = self._read(size, deadline)
        # counted before they are made: an empty list takes three bytes here and sixty in memory
        forms = body.count(b"[") + body.count(b"{")
        _agreed(forms <= MOST_FORMS, f"a frame of {forms:,} lists and records")
        return from_body(body)

    def _read(self, size: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._wait([self.reader], [], deadline)
            try:
                piece = os.read(self.reader, min(size - len(found), 1 << 16))
            except BlockingIOError:
                continue
            except OSError:
                piece = b""
            if not piece:
                raise Gone("the box has closed the wire")
            found += piece
        return bytes(found)

    def _wait(self, readers: list[int], writers: list[int], deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not any(select.select(readers, writers, [], left)):
            raise Silent("nothing came over the wire in time")
