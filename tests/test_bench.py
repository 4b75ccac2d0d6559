"""The bench: every way computes the same, turns are taken, and no layer is left out."""

import gc
import importlib
import inspect
import pkgutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread
from torch import nn
from torch.testing import assert_close

import bench.__main__
import lumen
from bench.__main__ import main
from bench.case import Case, Entry, Table, Way
from bench.layers import LAYERS
from bench.measure import TORCH, Result, made, measure, peaks
from bench.models import MODELS
from bench.report import by_hand, machine, memory, ratios, verdict
from bench.timing import ROUNDS, SAMPLE, Duel, Spread, duel, settle
from tests.test_house import FLOORS

ENTRIES = [pytest.param(entry, id=entry.name) for entry in [*LAYERS, *MODELS]]
PAGE = Path(bench.__main__.__file__).parent / "results" / "table.md"
RANDOM = "Dropout"


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# ---- every way computes the same


def gradients(way, inputs):
    """By the name of what they belong to."""
    names = [f"input {i}" for i, x in enumerate(inputs) if x.is_floating_point()]
    return dict(zip([*names, *way.weights], way.backward(inputs)(), strict=True))


def same(way, wanted, inputs, trains=True):
    """One output and one gradient for all that both have. The names of those that were compared."""
    y = way.forward(inputs)()
    assert not y.requires_grad
    assert_close(y, wanted.forward(inputs)(), rtol=1e-10, atol=1e-10)
    if not trains:
        return set()
    ours, theirs = gradients(way, inputs), gradients(wanted, inputs)
    shared = set(ours) & set(theirs)
    for name in shared:
        assert_close(ours[name], theirs[name], rtol=1e-9, atol=1e-9)
    return shared


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_way_computes_what_torch_does(entry, double):
    case = made(entry, larger=False)
    if entry.name == RANDOM:
        for way in (case.ours, case.theirs):
            y = way.forward(case.inputs)()
            assert_close(y[y != 0], (case.inputs[0] / 0.9)[y != 0])
            assert 0.8 < (y != 0).double().mean() < 1
        return
    wanted = case.theirs or case.ours
    floats = {f"input {i}" for i, x in enumerate(case.inputs) if x.is_floating_point()}
    assert same(case.ours, wanted, case.inputs, entry.trains) >= (floats if entry.trains else set())
    for way in case.by_hand.values():
        compared = same(way, wanted, case.inputs, entry.trains)
        assert not entry.trains or compared == floats | set(wanted.weights)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, w: x @ w.T + 1e-6,
        lambda x, w: x @ w.T.detach(),
        lambda x, w: (x.detach() @ w.T) + 0 * x.sum(),
        lambda x, w: x @ w,
    ],
)
def test_a_wrong_way_is_found(wrong, double):
    x, w = torch.randn(4, 3), torch.randn(3, 3, requires_grad=True)
    right = Way(lambda x: x @ w.T, {"w": w})
    assert same(right, right, (x,)) == {"input 0", "w"}
    with pytest.raises((AssertionError, RuntimeError)):
        same(Way(lambda x: wrong(x, w), {"w": w}), right, (x,))


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_larger_size_is_larger_and_against_the_same_rivals(entry):
    small, large = (made(entry, larger) for larger in (False, True))
    assert small.size != large.size
    assert (small.theirs is None) == (large.theirs is None)
    assert set(large.by_hand) <= set(small.by_hand)
    assert small.theirs or small.by_hand


def test_every_layer_has_a_row():
    """A layer added later has to join bench/layers.py. Whole models are made of these."""
    rooms = {room.name for room in pkgutil.iter_modules(lumen.__path__)} - FLOORS[-1]
    layers = {
        name
        for room in rooms
        for name, thing in vars(importlib.import_module(f"lumen.{room}")).items()
        if isinstance(thing, type) and issubclass(thing, nn.Module)
        if not name.startswith("_")
    }
    assert len(layers) > 20
    assert layers <= {entry.name.split(",")[0] for entry in LAYERS}


# ---- turns are taken


class Clock:
    """Time passes only where a run lets it pass."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def __call__(self):
        return self.now

    def run(self, name, *times):
        """Takes each of these times in turn, and then the last again and again."""
        times = list(times)

        def run():
            self.calls.append(name)
            self.now += times.pop(0) if len(times) > 1 else times[0]

        return run


def test_two_ways_run_in_turns():
    clock = Clock()
    seen = duel(clock.run("a", 1), clock.run("b", 2), 0, clock)
    assert clock.calls == ["a", "b"] + ["a", "b"] * ROUNDS.start  # each once to see how long
    assert seen == Duel(1, 2, Spread(0.5, 0.5, 0.5))


def test_a_quick_way_is_repeated_within_its_turn():
    clock = Clock()
    seen = duel(clock.run("a", SAMPLE / 4), clock.run("b", 1), 0, clock)
    assert clock.calls == ["a"] * 2 + ["b"] + (["a"] * 4 + ["b"]) * ROUNDS.start
    assert (seen.a, seen.b) == pytest.approx((SAMPLE / 4, 1))
    slow_at_first = Clock()
    duel(
        slow_at_first.run("a", 10 * SAMPLE, SAMPLE / 4), slow_at_first.run("b", 1), 0, slow_at_first
    )
    assert slow_at_first.calls[3:8] == ["a"] * 4 + ["b"]


def test_it_goes_on_for_the_seconds_asked_but_not_forever():
    clock = Clock()
    duel(clock.run("a", 1), clock.run("b", 2), 30, clock)
    assert clock.calls.count("b") == 1 + 10
    clock = Clock()
    duel(clock.run("a", 1), clock.run("b", 1), 1e9, clock)
    assert clock.calls.count("b") == 1 + ROUNDS.stop


def test_medians_and_quartiles_are_those_of_the_rounds():
    clock = Clock()
    seen = duel(clock.run("a", 1, 1, 3, 2, 90, 4), clock.run("b", 2), 0, clock)
    assert (seen.a, seen.b) == (3, 2)  # 1 3 2 90 4
    assert seen.ratio == Spread(1, 1.5, 2)


def test_the_ratio_is_that_of_neighbours():
    """Both slow down threefold in the middle, as on a busy machine: the ratio does not move."""
    clock = Clock()
    both = [1, 1, 1, 3, 3, 3]
    seen = duel(clock.run("a", *both), clock.run("b", *(2 * t for t in both)), 0, clock)
    assert seen.ratio == Spread(0.5, 0.5, 0.5)


def test_processor_time_counts():
    assert inspect.signature(duel).parameters["clock"].default is time.process_time
    seen = duel(lambda: time.sleep(0.002), lambda: sum(range(100_000)), 0)
    assert seen.ratio.middle < 0.5


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_rests_meanwhile_and_is_left_as_it_was(collects):
    seen = []
    try:
        gc.enable() if collects else gc.disable()
        duel(lambda: seen.append(gc.isenabled()), lambda: None, 0)
        assert gc.isenabled() is collects and seen[-1] is False
        with pytest.raises(ZeroDivisionError):
            duel(lambda: 1 / 0, lambda: None, 0)
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_one_thread():
    settle()
    assert torch.get_num_threads() == 1


# ---- what is said of it


def result(ratio, *, larger=True, both=False, rival=TORCH, **aims):
    entry = Entry("Some", lambda larger: None, **aims)
    return Result(entry, larger, "2×3", both, rival, Duel(0.002, 0.001, Spread(1, ratio, 900)))


def test_an_aim_holds_or_is_missed():
    aims = {"forward": 2, "backward": 3, "by_hand": 5}
    assert result(2.004, **aims).holds and not result(2.006, **aims).holds
    assert result(3, both=True, **aims).holds and not result(3.01, both=True, **aims).holds
    assert result(5, rival="loops", **aims).holds and not result(4.9, rival="loops", **aims).holds
    assert result(99, larger=False, **aims).holds and result(99).holds
    assert result(99, larger=False, **aims).aim is None is result(99).aim


def test_the_tables_say_what_was_measured():
    aims = {"forward": 2, "by_hand": 5}
    seen = [result(1.5, **aims), result(4, both=True, **aims), result(7, rival="loops", **aims)]
    assert ratios(seen).splitlines()[2:] == [
        "| Some | 2×3 | torch.nn | 2 | 1.50 [1.00, 900] | ≤ 2 holds | 2 | 4.00 [1.00, 900] |  |"
    ]
    assert by_hand(seen).splitlines()[2:] == [
        "| Some | 2×3 | loops | 7.00 [1.00, 900] |  | ≥ 5 holds |"
    ]
    assert verdict(seen) == "Of 2 aims 2 hold."
    seen += [result(9, **aims), result(4.4, rival="loops", **aims)]
    assert verdict(seen) == "Of 4 aims 2 hold. Missed: Some 9.00 (≤ 2); Some: loops 4.40 (≥ 5)."
    assert "| ≤ 2 **missed** |" in ratios(seen[-2:-1])
    assert memory({"Some": {"lumen": 3 * 2**19}}).endswith("| Some | lumen | 1.5 |")
    assert torch.__version__ in machine()


def test_one_number_aims_at_both_directions():
    table = Table()
    table.entry("A", 2)(None), table.entry("B", 4, 3)(None), table.entry("C")(None)
    assert [(e.forward, e.backward) for e in table] == [(2, 2), (4, 3), (None, None)]


def test_peaks_leave_out_what_was_there_before():
    x, w = torch.ones(256), torch.ones(256, requires_grad=True)
    ways = Way(lambda x: x * w + 1, {"w": w}), Way(lambda x: w.view(-1) * x, {"w": w})
    entry = Entry("Some", lambda larger: Case((x,), *ways))
    assert peaks(entry) == {"lumen": 2048, "torch.nn": 1024}


def test_a_case_is_the_same_in_every_run():
    first, second = (made(LAYERS[0], larger=False) for _ in range(2))
    assert torch.equal(first.inputs[0], second.inputs[0])
    assert torch.equal(first.ours.weights["weight"], second.ours.weights["weight"])


def test_every_way_is_set_against_lumen():
    conv = next(entry for entry in LAYERS if entry.name == "Conv2d")
    seen = list(measure(replace(conv), larger=False, seconds=0))
    ways = [TORCH, *made(conv, larger=False).by_hand]
    assert [(r.backward, r.rival) for r in seen] == [(b, w) for b in (False, True) for w in ways]
    loops = [r.duel.ratio.middle for r in seen if r.rival == "four loops"]
    assert min(loops) > 20  # by hand ÷ lumen


# ---- the command


def test_a_quick_run_has_a_row_for_each(capsys):
    main(["--quick"])
    said = capsys.readouterr().out
    for entry in [*LAYERS, *MODELS]:
        assert f"| {entry.name} | " in said


def test_a_whole_run_writes_a_page_and_a_picture(tmp_path, monkeypatch, capsys):
    few = [e for e in LAYERS if e.name in ("Linear", "softmax", "attention")]
    monkeypatch.setattr(bench.__main__, "LAYERS", few)
    monkeypatch.setattr(bench.__main__, "MODELS", [])
    main(["--seconds", "0"], folder=tmp_path / "results")
    text = (tmp_path / "results" / "table.md").read_text(encoding="utf-8")
    assert "](ratios.png)" in text and "Of 4 aims" in text
    assert text.count("| Linear | ") == 3 and "| attention | query by query | " in text
    image = imread(tmp_path / "results" / "ratios.png")
    assert image.shape[1] == 1600 and image[0, 0, :3].tolist() == [1, 1, 1]
    main(["--only", "LINEAR", "--quick"], folder=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert "| Linear | " in capsys.readouterr().out


def test_an_unknown_layer_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "Perceptron"])
    assert "no layer has 'Perceptron' in its name" in capsys.readouterr().err


def test_the_page_in_the_repository_has_a_row_for_each():
    page = PAGE.read_text(encoding="utf-8")
    for entry in [*LAYERS, *MODELS]:
        assert f"| {entry.name} | " in page, "make bench"
    assert (PAGE.parent / "ratios.png").is_file()
