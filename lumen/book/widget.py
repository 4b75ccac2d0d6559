"""Figures that move without a kernel: every setting is computed here, and the page only shows
what was computed.

A widget is declared by its controls, its panels, and a function that gives the panels' data for
one setting of the controls. The function runs once for each setting when the cell runs; the
numbers, rounded, travel inside the output, so nbval compares them like any other. One renderer
(``widget.js``) draws lines, bars, heat maps, grids, planes and text from them, in the notebook and
in the book, offline, by mouse and by keyboard.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from html import escape
from itertools import product
from math import isfinite
from pathlib import Path

from lumen.book.palette import DARK, LIGHT

STILL = (
    "This figure moves where scripts may run, as in the book and in Colab; "
    "the figure beside it shows the same standing still."
)


@dataclass(frozen=True)
class Slider:
    """A control that moves through ordered values.

    Args:
        name: the argument of the widget's function.
        label: what the reader sees.
        values: the values in order.
        start: the value shown first; the first of ``values`` if None.
    """

    name: str
    label: str
    values: tuple
    start: object = None
    kind: str = "slider"


@dataclass(frozen=True)
class Choice:
    """A control that picks one of a few named values. The arguments are those of ``Slider``."""

    name: str
    label: str
    values: tuple
    start: object = None
    kind: str = "choice"


@dataclass(frozen=True)
class Bars:
    """A panel of bars. Its data: one number for each label, in units of the axis.

    Args:
        name: the key of its data.
        title: written above it.
        labels: one for each bar.
        low, high: ends of the axis.
        digits: decimals written above the bars.
        color: a name of the palette.
    """

    name: str
    title: str
    labels: tuple
    low: float = 0.0
    high: float = 1.0
    digits: int = 2
    color: str = "blue"
    kind: str = "bars"


@dataclass(frozen=True)
class Lines:
    """A panel of curves with a marker. Its data: ``{"curves": [[y, …], …], "mark": x or None}``.

    Args:
        name: the key of its data.
        title: written above it.
        x: the places of the points, shared by all curves.
        curves: a label for each curve.
        colors: a name of the palette for each curve.
        x_label: written under the axis.
        low, high: ends of the vertical axis.
        log_x: space the horizontal axis by powers of two.
        digits: decimals written beside the marked points.
    """

    name: str
    title: str
    x: tuple
    curves: tuple
    colors: tuple = ("blue", "orange", "teal", "red", "purple", "quiet")
    x_label: str = ""
    low: float = 0.0
    high: float = 1.0
    log_x: bool = False
    digits: int = 2
    kind: str = "lines"


@dataclass(frozen=True)
class Heat:
    """A panel of shaded cells with their numbers. Its data: one row of numbers for each row
    label; None is blank.

    Args:
        name: the key of its data.
        title: written above it.
        rows, columns: their labels.
        low, high: the values of the lightest and the darkest shade.
        digits: decimals written in the cells.
    """

    name: str
    title: str
    rows: tuple
    columns: tuple
    low: float = 0.0
    high: float = 1.0
    digits: int = 2
    kind: str = "heat"


@dataclass(frozen=True)
class Grid:
    """A panel of cells, each in one of a few named states. Its data: rows of state numbers, from
    0.

    Args:
        name: the key of its data.
        title: written above it.
        states: the name of each state, as its legend.
        colors: a name of the palette for each state.
    """

    name: str
    title: str
    states: tuple
    colors: tuple
    kind: str = "grid"


@dataclass(frozen=True)
class Plane:
    """A panel of named points in the plane. Its data: ``{"sizes": [share, …], "arrow": (x, y) or
    None, "dot": (x, y) or None}``: the share that each point's disc shows, an arrow from the
    origin, and one more point.

    Args:
        name: the key of its data.
        title: written above it.
        points: (x, y) of each point.
        labels: one for each point.
        reach: the axes run from −reach to reach.
        outline: join the points, in their order, to a shape.
    """

    name: str
    title: str
    points: tuple
    labels: tuple
    reach: float = 1.0
    outline: bool = False
    kind: str = "plane"


@dataclass(frozen=True)
class Text:
    """A panel of one sentence that says what the setting shows; it is also read out by screen
    readers.

    Args:
        name: the key of its data.
    """

    name: str
    kind: str = "text"


def widget(title, controls, panels, compute, *, digits=4):
    """A figure whose controls switch between settings that were all computed when the cell ran.

    Args:
        title: what the figure lets the reader do; its accessible name.
        controls: ``Slider`` and ``Choice`` objects.
        panels: ``Bars``, ``Lines``, ``Heat``, ``Grid``, ``Plane`` and ``Text`` objects, at least
            one of them ``Text``.
        compute: takes one value for each control by name and returns the data of every panel by
            name.
        digits: significant digits kept of every number.

    Raises:
        ValueError: no control, no panel, no ``Text``; a name used twice; a start that is no
            value; more than 4,000 settings; data missing, of a wrong length, or not finite.
    """
    _refuse_bad_declaration(controls, panels)
    settings = {}
    for values in product(*(control.values for control in controls)):
        data = compute(
            **{control.name: value for control, value in zip(controls, values, strict=True)}
        )
        key = ",".join(
            str(control.values.index(value))
            for control, value in zip(controls, values, strict=True)
        )
        settings[key] = {panel.name: _clean(panel, data, values, digits) for panel in panels}
    return Widget(
        {
            "title": title,
            "controls": [_declared(control) for control in controls],
            "panels": [asdict(panel) for panel in panels],
            "settings": settings,
        }
    )


class Widget:
    """Shows itself as HTML with its data and its renderer inside, as a line of text elsewhere."""

    def __init__(self, content):
        self.content = content

    def __repr__(self):
        names = " × ".join(f"{len(c['values'])} of {c['label']}" for c in self.content["controls"])
        return f"Interactive figure: {self.content['title']} ({names})"

    def _repr_html_(self):
        data = json.dumps(self.content, ensure_ascii=False, separators=(",", ":")).replace(
            "</", "<\\/"
        )
        name = "lumen-widget-" + hashlib.sha256(data.encode()).hexdigest()[:10]
        title = escape(self.content["title"])
        return (
            f'<div class="lumen-widget" id="{name}" role="group" aria-label="{title}">\n'
            f"<style>{_colours()}{_file('widget.css')}</style>\n"
            f'<p class="lumen-widget-still">{title}. {STILL}</p>\n'
            f'<script type="application/json">{data}</script>\n'
            f"<script>{_file('widget.js')}</script>\n"
            "</div>"
        )


def _file(name):
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _colours():
    """The palette as the widget's own variables: light by default, dark where the page says so."""
    light = "".join(f"--{name}:var(--lumen-{name},{value});" for name, value in LIGHT.items())
    dark = "".join(f"--{name}:var(--lumen-{name},{value});" for name, value in DARK.items())
    dark_page = "html[data-theme=dark] .lumen-widget,html[theme=dark] .lumen-widget"
    return f".lumen-widget{{{light}}}{dark_page}{{{dark}}}"


def _declared(control):
    start = control.values[0] if control.start is None else control.start
    return asdict(control) | {
        "values": [str(v) for v in control.values],
        "start": control.values.index(start),
    }


def _refuse_bad_declaration(controls, panels):
    if not controls:
        raise ValueError("a widget needs at least one control, got none")
    if not any(panel.kind == "text" for panel in panels):
        raise ValueError("a widget needs a Text panel: it says in words what the picture shows")
    names = [part.name for part in (*controls, *panels)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} names more than one control or panel")
    count = 1
    for control in controls:
        if control.start is not None and control.start not in control.values:
            raise ValueError(
                f"{control.name} starts at {control.start!r}, "
                f"which is none of its values {control.values}"
            )
        count *= len(control.values)
    if not 1 <= count <= 4000:
        raise ValueError(f"a widget holds 1 to 4,000 settings, these controls make {count:,}")


def _clean(panel, data, setting, digits):
    """The panel's data for one setting, checked against its declaration and rounded."""
    if panel.name not in data:
        raise ValueError(f"compute gave no data for panel {panel.name!r} at {setting}")
    values = data[panel.name]
    if panel.kind == "text":
        return str(values)
    if panel.kind == "lines":
        curves = [
            _row(panel, curve, len(panel.x), setting, digits) for curve in _list(values["curves"])
        ]
        _refuse_length(panel, curves, len(panel.curves), setting)
        mark = values.get("mark")
        return {
            "curves": curves,
            "mark": None if mark is None else _rounded(panel, mark, setting, digits),
        }
    if panel.kind == "plane":
        plane = {"sizes": _row(panel, values["sizes"], len(panel.points), setting, digits)}
        for name in ("arrow", "dot"):
            place = values.get(name)
            plane[name] = None if place is None else _row(panel, place, 2, setting, digits)
        return plane
    if panel.kind == "bars":
        return _row(panel, values, len(panel.labels), setting, digits)
    rows = [_row(panel, row, None, setting, digits) for row in _list(values)]
    if panel.kind == "heat":
        _refuse_length(panel, rows, len(panel.rows), setting)
        for row in rows:
            _refuse_length(panel, row, len(panel.columns), setting)
    return rows


def _list(values):
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _row(panel, values, length, setting, digits):
    row = [_rounded(panel, value, setting, digits) for value in _list(values)]
    if length is not None:
        _refuse_length(panel, row, length, setting)
    return row


def _rounded(panel, value, setting, digits):
    if value is None:
        return None
    value = float(value)
    if not isfinite(value):
        raise ValueError(
            f"panel {panel.name!r} has {value} at {setting}: only finite numbers can be drawn"
        )
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def _refuse_length(panel, values, wanted, setting):
    if len(values) != wanted:
        raise ValueError(
            f"panel {panel.name!r} wants {wanted} entries at {setting}, got {len(values)}"
        )
