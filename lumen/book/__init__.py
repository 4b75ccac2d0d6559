"""What chapters use to speak: named numbers, the package's own code, figures that move or not."""

from lumen.book.facts import facts, measured
from lumen.book.memory import peak_bytes
from lumen.book.palette import LIGHT
from lumen.book.plot import bars, heat, label, setup
from lumen.book.source import source
from lumen.book.widget import Bars, Choice, Grid, Heat, Lines, Plane, Slider, Text, widget

__all__ = [
    "LIGHT",
    "Bars",
    "Choice",
    "Grid",
    "Heat",
    "Lines",
    "Plane",
    "Slider",
    "Text",
    "bars",
    "facts",
    "heat",
    "label",
    "measured",
    "peak_bytes",
    "setup",
    "source",
    "widget",
]
