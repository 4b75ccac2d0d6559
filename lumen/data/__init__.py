"""The small data sets of the book's experiments, the same on every machine.

Nothing is downloaded. What is random takes a seed, or a ``torch.Generator``
to go on with; digits and photographs come with scikit-learn.
"""

from lumen.data.images import digits, photo, place, placed_digits, shapes

__all__ = ["digits", "place", "placed_digits", "shapes", "photo"]
