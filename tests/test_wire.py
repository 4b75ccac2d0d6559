"""The wire: what is sent comes back the same, and what nobody agreed on is refused unread."""

import base64
import json
import math
import os
import threading
import time

import pytest
import torch

from lumen.exercises import SETS
from lumen.grading import wire
from lumen.grading.question import Answer, Array, Case, Fault, Foreign, pack, run
from lumen.grading.wire import Channel, Garbled, Gone, Silent, decode, encode

SOON = 0.2
QUESTIONS = {question.name: question for set_ in SETS.values() for question in set_}


def across(coded):
    return json.loads(json.dumps(coded))


def later(seconds=10.0):
    return time.monotonic() + seconds


# ---- data


@pytest.mark.parametrize(
    "plain",
    [
        None,
        True,
        0,
        -(2**200),
        0.1,
        5e-324,
        math.inf,
        "déjà vu \ud800",
        [1, [2.0, (3, None)]],
        (),
        ([], ((), [])),
        Foreign("set"),
        Array("float32", (3,), None),
        Array("int64", (0, 4), b""),
        Array("uint8", (2, 1), b"\x00\xff"),
    ],
    ids=repr,
)
def test_plain_data_comes_back_with_its_types(plain):
    back = decode(across(encode(plain)))
    assert back == plain and type(back) is type(plain)


def test_a_list_is_no_tuple_and_an_int_no_bool_and_no_float():
    back = decode(across(encode([(1,), [1], True, 1, 1.0])))
    assert [type(item) for item in back] == [tuple, list, bool, int, float]


def test_not_a_number_crosses():
    assert math.isnan(decode(across(encode(math.nan))))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_tensors_of_whole_numbers_cross_bit_by_bit(dtype):
    tensor = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype))
    assert decode(across(encode(pack(tensor)))) == pack(tensor)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tensors_of_real_numbers_cross_bit_by_bit(dtype):
    tensor = torch.tensor([0.1, -0.0, math.inf, -math.inf, math.nan], dtype=getattr(torch, dtype))
    assert decode(across(encode(pack(tensor)))) == pack(tensor)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_case_reaches_the_box_and_its_answer_the_judge(name):
    question = QUESTIONS[name]
    for case in question.cases(0):
        sent = across(wire.encode_case(case))
        there = wire.decode_case(sent)
        answer = run(question.reference, there)
        assert wire.decode_answer(across(wire.encode_answer(answer))) == run(
            question.reference, case
        )


def test_a_case_leaves_its_label_at_home():
    case = Case("the secret", {"x": torch.ones(2)}, {"times": 3}, torch.ones(2))
    assert "secret" not in json.dumps(wire.encode_case(case))
    assert wire.decode_case(across(wire.encode_case(case))).label == ""


def test_an_answer_crosses_with_its_gradients_changes_and_fault():
    fault = Fault("ValueError", "no", "line 3: raise", ("ValueError", "Exception"), "backward")
    answer = Answer((1, 2.0), {"x": pack(torch.ones(2)), "y": None}, ("x",), fault)
    assert wire.decode_answer(across(wire.encode_answer(answer))) == answer


def test_an_int_without_end_is_not_sent():
    assert decode(across(encode(10**100_000))) == Foreign("int of more than 1,024 bits")


EIGHT = base64.b64encode(bytes(8)).decode()


@pytest.mark.parametrize(
    "coded",
    [
        1 << 2000,
        "x" * 100_000,
        [0] * 10_001,
        [[[[[[[]]]]]]],
        {},
        {"tuple": [], "foreign": "x"},
        {"tuple": "abc"},
        {"pickle": "gASV"},
        {"foreign": 3},
        {"array": []},
        {"array": ["float32", [2], EIGHT, 0]},
        {"array": [5, [2], EIGHT]},
        {"array": ["float32", 2, EIGHT]},
        {"array": ["float32", [-1, -2], EIGHT]},
        {"array": ["float32", [2.0], EIGHT]},
        {"array": ["float32", [True, 2], EIGHT]},
        {"array": ["float32", [1] * 65, EIGHT]},
        {"array": ["float32", [3], EIGHT]},
        {"array": ["float32", [1 << 62, 1 << 62], "AAAA"]},
        {"array": ["float32", [1 << 64], None]},
        {"array": ["object", [1], EIGHT]},
        {"array": ["float32", [2], EIGHT[:-2] + "!="]},
        {"array": ["float32", [2], "é" * len(EIGHT)]},
        {"array": ["float32", [2], [EIGHT]]},
    ],
    ids=lambda coded: repr(coded)[:40],
)
def test_what_encode_cannot_have_made_is_refused(coded):
    with pytest.raises(Garbled, match="over the wire"):
        decode(coded)


GOOD = {"value": None, "gradients": [], "changed": [], "fault": None}
FAULT = {"kind": "E", "message": "", "line": "", "bases": [], "phase": "forward"}


@pytest.mark.parametrize(
    "coded",
    [
        None,
        [],
        {},
        GOOD | {"points": 10},
        GOOD | {"gradients": {}},
        GOOD | {"gradients": [["x"]]},
        GOOD | {"gradients": [[1, None]]},
        GOOD | {"changed": [1]},
        GOOD | {"changed": "x"},
        GOOD | {"fault": "E"},
        GOOD | {"fault": FAULT | {"phase": "sideways"}},
        GOOD | {"fault": FAULT | {"bases": [None]}},
        GOOD | {"fault": FAULT | {"more": 1}},
    ],
    ids=lambda coded: repr(coded)[:60],
)
def test_what_is_no_answer_is_refused(coded):
    with pytest.raises(Garbled):
        wire.decode_answer(coded)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"9" * 5000])
def test_a_frame_that_is_no_record_is_refused(body):
    with pytest.raises(Garbled):
        wire.from_body(body)


# ---- the channel


@pytest.fixture
def pipes():
    """The judge's channel, and the ends of the box: where it reads, where it writes."""
    there_in, here_out = os.pipe()
    here_in, there_out = os.pipe()
    yield Channel(here_in, here_out), there_in, there_out
    for end in (there_in, here_out, here_in, there_out):
        try:
            os.close(end)
        except OSError:
            continue


def test_a_frame_comes_over_in_pieces(pipes):
    channel, _, there_out = pipes
    frame = wire.to_frame({"id": "7", "found": "x" * 5000})

    def drip():
        for at in range(0, len(frame), 700):
            os.write(there_out, frame[at : at + 700])
            time.sleep(0.001)

    writer = threading.Thread(target=drip)
    writer.start()
    assert channel.receive(later())["id"] == "7"
    writer.join()


def test_nothing_that_comes_is_silence(pipes):
    started = time.monotonic()
    with pytest.raises(Silent):
        pipes[0].receive(later(SOON))
    assert time.monotonic() - started < 5


def test_a_box_that_drips_for_ever_does_not_hold_the_judge(pipes):
    channel, _, there_out = pipes
    stop = threading.Event()

    def drip():
        while not stop.wait(0.01):
            os.write(there_out, b"\0")

    writer = threading.Thread(target=drip)
    writer.start()
    try:
        with pytest.raises((Silent, Garbled)):
            channel.receive(later(SOON))
    finally:
        stop.set()
        writer.join()


def test_a_box_that_does_not_read_does_not_hold_the_judge(pipes):
    with pytest.raises(Silent):
        pipes[0].send({"source": "x" * (1 << 21)}, later(SOON))


def test_a_closed_wire_is_noticed_by_reader_and_writer(pipes):
    channel, there_in, there_out = pipes
    os.close(there_out)
    with pytest.raises(Gone):
        channel.receive(later())
    os.close(there_in)
    with pytest.raises(Gone):
        channel.send({"source": "x"}, later())


@pytest.mark.parametrize("size", [wire.MOST_FRAME + 1, 1 << 62])
def test_a_header_that_wants_too_much_is_refused_before_anything_is_read(pipes, size):
    channel, _, there_out = pipes
    os.write(there_out, wire.HEADER.pack(size))
    with pytest.raises(Garbled, match="a frame of"):
        channel.receive(later())


def test_a_frame_that_would_swell_is_refused_before_it_is_made(pipes, monkeypatch):
    channel, _, there_out = pipes
    monkeypatch.setattr(wire, "MOST_FORMS", 10)
    os.write(there_out, wire.to_frame({"a": [[]] * 8}))
    assert channel.receive(later()) == {"a": [[]] * 8}
    os.write(there_out, wire.to_frame({"a": [[]] * 9}))
    with pytest.raises(Garbled, match="11 lists and records"):
        channel.receive(later())
