"""The small data sets of the book's experiments, the same on every machine.

Nothing is downloaded. What is random takes a seed, or a ``torch.Generator``
to go on with; digits and photographs come with scikit-learn.
"""

from lumen.data.images import digits, photo, place, placed_digits
from lumen.data.language import (
    encode,
    entropy,
    log_probability,
    sentences,
    text,
)
from lumen.data.numerals import translation
from lumen.data.points import spirals
from lumen.data.segmentation import shapes
from lumen.data.sequences import adding, counting, recall, repeats

__all__ = [
    "digits",
    "place",
    "placed_digits",
    "shapes",
    "photo",
    "spirals",
    "adding",
    "recall",
    "repeats",
    "counting",
    "sentences",
    "encode",
    "text",
    "entropy",
    "log_probability",
    "translation",
]
