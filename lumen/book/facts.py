"""Named numbers: what a cell computes and the text may quote.

A cell calls ``facts(n_inputs=224 * 224 * 3)`` and prints ``n_inputs = 150,528``; the text writes
that number with the name beside it in a comment, and ``tools/prose.py`` holds the two together.
``facts`` is for what follows exactly from the code; ``measured`` is for what a run gives, and
prints no more digits than another machine would print too.
"""

from decimal import Decimal
from math import isfinite
from numbers import Integral, Real


def facts(**values):
    """Print each value as ``name = value``, integers in full and floats to six significant digits.

    Args:
        values: a number, or a flat sequence of numbers, for each name. Tensors and arrays of at
            most one axis count.

    Raises:
        TypeError: a value is neither a number nor a flat sequence of numbers.
        ValueError: a number is not finite, or a sequence is empty.

    Example:
        >>> facts(n_inputs=224 * 224 * 3, share=0.0748)
        n_inputs = 150,528
        share = 0.0748
        >>> facts(weights=[0.25, 0.75])
        weights = (0.25, 0.75)
    """
    _print_all(values, _exact)


def measured(*, digits=3, **values):
    """Print each measured value as ``name = value``, to as many digits as are stable from machine
    to machine.

    A number that lies within a twentieth of a unit of a rounding edge is printed with a digit
    less, because there the smallest difference between two machines would show.

    Args:
        digits: the most significant digits to print, 1 to 3.
        values: a number, or a flat sequence of numbers, for each name.

    Raises:
        TypeError: a value is neither a number nor a flat sequence of numbers.
        ValueError: ``digits`` is not 1, 2 or 3; a number is not finite; a sequence is empty; or a
            number stands on a rounding edge at every number of digits.

    Example:
        >>> measured(loss=1.23156, accuracy=0.99999)
        loss = 1.23
        accuracy = 1.00
        >>> measured(edge=0.12349)
        edge = 0.12
    """
    if digits not in (1, 2, 3):
        raise ValueError(f"measured prints 1, 2 or 3 significant digits, not {digits!r}")
    _print_all(values, lambda name, number: _stable(name, number, digits))


def _print_all(values, write):
    for name, value in values.items():
        items, many = _numbers(name, value)
        written = [write(name, item) for item in items]
        print(f"{name} = ({', '.join(written)})" if many else f"{name} = {written[0]}")


def _numbers(name, value):
    """The value as a list of Python numbers, and whether it was a sequence."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    many = isinstance(value, list | tuple)
    items = list(value) if many else [value]
    if many and not items:
        raise ValueError(f"{name} has no numbers to print")
    for item in items:
        if isinstance(item, bool) or not isinstance(item, Real):
            raise TypeError(f"{name} must be a number or a flat sequence of numbers, got {item!r}")
        if not isfinite(item):
            raise ValueError(f"{name} must be finite, got {item!r}")
    return items, many


def _exact(name, number):
    return f"{number:,d}" if isinstance(number, Integral) else f"{float(number):.6g}"


def _stable(name, number, most):
    if isinstance(number, Integral):
        number = float(number)
    if number == 0:
        raise ValueError(
            f"{name} is exactly 0: state it in facts, or measure something that is not"
        )
    for digits in range(most, 0, -1):
        rounded = Decimal(f"{number:.{digits - 1}e}")
        unit = Decimal(1).scaleb(Decimal(f"{number:e}").adjusted() - digits + 1)
        off = abs(Decimal(number) - rounded) / unit
        if off < Decimal("0.45"):
            return f"{rounded:,f}" if abs(number) >= 1e-4 else f"{number:.{digits - 1}e}"
    raise ValueError(
        f"{name} = {number:.6g} stands on a rounding edge: "
        "measure over more runs, or print another quantity"
    )
