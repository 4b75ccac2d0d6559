"""What chapters use to speak: named numbers, code, exact memory, the palette, widgets."""

import json
import re
from decimal import Decimal
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb

import lumen.book
from lumen.book import (
    Bars,
    Choice,
    Grid,
    Heat,
    Lines,
    Plane,
    Slider,
    Text,
    facts,
    measured,
    source,
    widget,
)
from lumen.book.facts import _stable
from lumen.book.memory import peak_bytes
from lumen.book.palette import DARK, LIGHT

HERE = Path(lumen.book.__file__).parent


def printed(capsys, function, **values):
    function(**values)
    return capsys.readouterr().out


# facts


@pytest.mark.parametrize(
    "value, text",
    [
        (150_528, "150,528"),
        (-1_234, "-1,234"),
        (np.int64(4096), "4,096"),
        (torch.tensor(7), "7"),
        (0.0748, "0.0748"),
        (2 / 3, "0.666667"),
        (2.675958e-8, "2.67596e-08"),
        (16110.2264, "16110.2"),
        (torch.tensor(0.5, dtype=torch.float64), "0.5"),
        ([0.25, 0.75], "(0.25, 0.75)"),
        (torch.tensor([1, 0, 2]), "(1, 0, 2)"),
        (np.array([0.5]), "(0.5)"),
        (0, "0"),
    ],
)
def test_facts_prints_integers_in_full_and_floats_to_six_digits(capsys, value, text):
    assert printed(capsys, facts, name=value) == f"name = {text}\n"


def test_facts_prints_one_line_for_each_name_in_order(capsys):
    assert printed(capsys, facts, b=1, a=2) == "b = 1\na = 2\n"


@pytest.mark.parametrize("value", ["12", None, True, [1, "2"], torch.zeros(2, 2), 1j, {"a": 1}])
def test_facts_refuses_what_is_no_number(value):
    with pytest.raises(TypeError, match="name must be a number or a flat sequence of numbers, got"):
        facts(name=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")]])
def test_facts_refuses_what_is_not_finite(value):
    with pytest.raises(ValueError, match="name must be finite"):
        facts(name=value)


def test_facts_refuses_an_empty_sequence():
    with pytest.raises(ValueError, match="name has no numbers"):
        facts(name=[])


# measured

STEPS = (-1 / 25, 1 / 25)


@pytest.mark.parametrize(
    "value, digits, text",
    [
        (1.23156, 3, "1.23"),
        (0.99999, 3, "1.00"),
        (1234.0, 3, "1,230"),
        (-0.0456789, 2, "-0.046"),
        (0.12349, 3, "0.12"),  # 0.123|49 stands on an edge: a digit less
        (1.4e-7, 2, "1.4e-07"),
        (8, 2, "8.0"),
    ],
)
def test_measured_prints_stable_digits(capsys, value, digits, text):
    measured(digits=digits, name=value)
    assert capsys.readouterr().out == f"name = {text}\n"


@given(st.floats(1e-6, 1e6), st.sampled_from([1, 2, 3]))
def test_measured_never_prints_near_an_edge(value, most):
    """A twenty-fifth of a unit more or less would have been printed with the same digits."""
    try:
        shown = Decimal(_stable("name", value, most).replace(",", ""))
    except ValueError as error:
        assert "rounding edge" in str(error)
        return
    written = [d for d in range(1, most + 1) if Decimal(f"{value:.{d - 1}e}") == shown]
    units = [10.0 ** (Decimal(f"{value:e}").adjusted() - d + 1) for d in written]
    assert any(
        all(round((Decimal(value + step * unit) - shown) / Decimal(unit)) == 0 for step in STEPS)
        for unit in units
    )


def test_measured_refuses_an_edge_at_every_digit():
    with pytest.raises(ValueError, match="name = 4.5 stands on a rounding edge"):
        measured(digits=1, name=4.5)


@pytest.mark.parametrize("digits", [0, 4, 2.5, "3"])
def test_measured_refuses_other_numbers_of_digits(digits):
    with pytest.raises(ValueError, match="measured prints 1, 2 or 3 significant digits"):
        measured(digits=digits, name=1.0)


def test_measured_refuses_zero():
    with pytest.raises(ValueError, match="name is exactly 0"):
        measured(name=0.0)


# source


class Example:
    """A class."""

    size = 3

    def double(self, x):
        """Twice."""
        return 2 * x


def example(x):
    """A function.

    Example:
        >>> example(1)
    """
    # kept
    return x + 1


def test_source_shows_the_code_without_docstrings():
    assert repr(source(example)) == "def example(x):\n    # kept\n    return x + 1"
    assert repr(source(Example)) == (
        "class Example:\n\n    size = 3\n\n    def double(self, x):\n        return 2 * x"
    )
    assert repr(source(example, example)).count("\n\n\ndef example") == 1


def test_source_is_highlighted_where_markdown_is_rendered():
    assert source(example)._repr_markdown_() == f"```python\n{source(example)!r}\n```"


@pytest.mark.parametrize("item", [3, "name", len, None])
def test_source_refuses_what_has_no_source(item):
    with pytest.raises(TypeError, match="source needs a function or a class of the package, got"):
        source(item)


def test_source_refuses_nothing():
    with pytest.raises(TypeError, match="got nothing"):
        source()


# memory


def test_peak_bytes_counts_what_is_alive_at_once():
    x = torch.zeros(1000)
    assert peak_bytes(lambda x: x + 1, x) == 4000
    assert peak_bytes(lambda x: (x + 1) * 2, x) == 8000


def test_peak_bytes_lets_go_of_what_is_freed():
    def chain(x):
        for _ in range(50):
            x = x + 1
        return x

    assert peak_bytes(chain, torch.zeros(1000)) == 8000


def test_peak_bytes_counts_neither_arguments_nor_views():
    x = torch.zeros(10, 100)
    assert peak_bytes(lambda x: x.T[1:].reshape(10, 99)[2:], x) == 10 * 99 * 4
    assert peak_bytes(lambda x: x.T, x) == 0


def test_peak_bytes_of_attention_is_three_tables():
    from lumen.attention import attention

    q = torch.zeros(1, 2, 256, 8)
    table = 2 * 256 * 256 * 4
    assert 3 * table <= peak_bytes(attention, q, q, q) <= 3.1 * table


# palette and style


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_knows_its_ends():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "wash"])
def test_every_text_colour_is_readable(palette, ground):
    for name in set(palette) - {"paper", "wash", "line"}:
        assert contrast(palette[name], palette[ground]) >= 4.5, name


def test_numbers_on_every_shade_of_a_still_heat_map_are_readable():
    for share in torch.linspace(0, 1, 101).tolist():
        fig, ax = plt.subplots()
        lumen.book.heat(ax, [[share]], ["a"], ["b"], high=1.0)
        shade = to_hex(lumen.book.plot.BLUES(share))
        written = to_hex(ax.texts[0].get_color())
        best = max(contrast(shade, ink) for ink in ("#ffffff", LIGHT["ink"]))
        assert contrast(shade, written) > max(3.8, 0.95 * best), share
        plt.close(fig)


@pytest.mark.parametrize(("palette", "place"), [(LIGHT, 0), (DARK, 1)], ids=["light", "dark"])
def test_numbers_on_every_shade_of_a_moving_heat_map_are_readable(palette, place):
    style = Path(lumen.book.__file__).with_name("widget.css").read_text()
    deepest = re.findall(r"--heat:color-mix\(in srgb,var\(--blue\) (\d+)%,var\(--paper\)\)", style)
    assert len(deepest) == 2
    for share in torch.linspace(0, int(deepest[place]) / 100, 101).tolist():
        both = (to_rgb(palette["blue"]), to_rgb(palette["paper"]))
        shade = to_hex([share * b + (1 - share) * p for b, p in zip(*both, strict=True)])
        assert contrast(shade, palette["ink"]) >= 4.5, share


def test_both_themes_name_the_same_colours():
    assert set(LIGHT) == set(DARK)


def test_the_style_uses_the_palette():
    style = (HERE / "lumen.mplstyle").read_text(encoding="utf-8")
    used = set(re.findall(r"\b[0-9a-f]{6}\b", style))
    assert used and used <= {colour[1:] for colour in LIGHT.values()}


def test_setup_sets_one_thread_the_seed_and_the_style():
    with matplotlib.rc_context():
        lumen.book.setup(seed=5)
        first = torch.rand(3)
        lumen.book.setup(seed=5)
        assert torch.equal(first, torch.rand(3))
        assert torch.get_num_threads() == 1
        assert not plt.rcParams["axes.spines.top"]


# figures


def test_plot_helpers_draw_and_return_none():
    fig, ax = plt.subplots()
    assert lumen.book.bars(ax, torch.tensor([0.2, 0.8]), ["a", "b"]) is None
    assert [text.get_text() for text in ax.texts] == ["0.200", "0.800"]
    assert [patch.get_height() for patch in ax.patches] == pytest.approx([0.2, 0.8])
    fig, ax = plt.subplots()
    matrix = torch.tensor([[0.0, 0.25], [float("nan"), 1.0]])
    assert lumen.book.heat(ax, matrix, ["a", "b"], ["c", "d"]) is None
    assert [text.get_text() for text in ax.texts] == ["0.00", "0.25", "1.00"]
    assert lumen.book.label(ax, 0, 0, "here", color="blue") is None
    assert ax.texts[-1].get_color() == LIGHT["blue"]
    plt.close("all")


# widgets


def declared(**changes):
    parts = {
        "title": "Move it",
        "controls": [Slider("a", "size", (1, 2, 4), start=2), Choice("b", "kind", ("x", "y"))],
        "panels": [
            Bars("bars", "shares", ("p", "q")),
            Lines("lines", "course", (1, 2, 4), ("up",)),
            Heat("heat", "table", ("r",), ("c", "d")),
            Grid("grid", "cells", ("off", "on"), ("paper", "blue")),
            Plane("plane", "points", ((0, 1), (1, 0)), ("n", "e")),
            Text("words"),
        ],
        "compute": compute,
    }
    return widget(**(parts | changes))


def compute(a, b, **changes):
    return {
        "bars": torch.tensor([1 / 3, a]),
        "lines": {"curves": [[0.1, 0.2, 0.3]], "mark": a},
        "heat": [[0.5, None]],
        "grid": [[0, 1], [1, 0]],
        "plane": {"sizes": [0.5, 0.5], "arrow": (0.6, a), "dot": None},
        "words": f"{a} and {b} </script>",
    } | changes


def content(html):
    found = re.search(r'<script type="application/json">(.*?)</script>', html, re.S)
    return json.loads(found[1])


def test_a_widget_holds_every_setting_rounded():
    spec = content(declared()._repr_html_())
    assert set(spec["settings"]) == {"0,0", "0,1", "1,0", "1,1", "2,0", "2,1"}
    assert spec["settings"]["2,1"]["bars"] == [0.3333, 4]
    assert spec["settings"]["2,1"]["lines"] == {"curves": [[0.1, 0.2, 0.3]], "mark": 4}
    assert spec["settings"]["1,1"]["plane"] == {"sizes": [0.5, 0.5], "arrow": [0.6, 2], "dot": None}
    assert spec["settings"]["0,0"]["heat"] == [[0.5, None]]
    assert spec["settings"]["1,0"]["words"] == "2 and x </script>"
    assert [control["start"] for control in spec["controls"]] == [1, 0]


def test_a_widget_is_the_same_each_time_and_names_itself_by_its_content():
    assert declared()._repr_html_() == declared()._repr_html_()
    name = re.compile(r'id="(lumen-widget-[0-9a-f]{10})"')
    other = declared(title="Move that")._repr_html_()
    assert name.search(declared()._repr_html_())[1] != name.search(other)[1]


def test_a_widget_is_self_contained_and_described():
    html = declared()._repr_html_()
    assert 'role="group" aria-label="Move it"' in html
    assert "http:" not in html.replace("http://www.w3.org/2000/svg", "") and "https:" not in html
    assert repr(declared()) == "Interactive figure: Move it (3 of size × 2 of kind)"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"controls": []}, "at least one control, got none"),
        ({"panels": [Bars("bars", "shares", ("p", "q"))]}, "needs a Text panel"),
        ({"panels": [Text("a")]}, "'a' names more than one control or panel"),
        ({"controls": [Slider("a", "size", (1, 2), start=3)]}, "a starts at 3, which is none of"),
        ({"controls": [Slider("a", "size", tuple(range(4001)))]}, "these controls make 4,001"),
        ({"controls": [Slider("a", "size", ())]}, "these controls make 0"),
        ({"compute": lambda a, b: {}}, r"no data for panel 'bars' at \(1, 'x'\)"),
        ({"compute": lambda a, b: compute(a, b, bars=[1])}, "'bars' wants 2 entries at"),
        ({"compute": lambda a, b: compute(a, b, bars=[1, float("nan")])}, "only finite numbers"),
        ({"compute": lambda a, b: compute(a, b, heat=[[1]])}, "'heat' wants 2 entries"),
        ({"compute": lambda a, b: compute(a, b, heat=[])}, "'heat' wants 1 entries"),
        ({"compute": lambda a, b: compute(a, b, plane={"sizes": [1]})}, "'plane' wants 2 entries"),
        (
            {"compute": lambda a, b: compute(a, b, plane={"sizes": [0, 1], "dot": [0]})},
            "'plane' wants 2 entries",
        ),
        ({"compute": lambda a, b: compute(a, b, lines={"curves": []})}, "'lines' wants 1 entries"),
    ],
)
def test_a_badly_declared_widget_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        declared(**changes)
