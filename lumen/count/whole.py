"""Whole numbers, and nothing that only looks like one.

True is no size, and 2.0 is none either.
"""

from numbers import Integral


def whole(*, least: int = 1, **numbers: int) -> list[int]:
    """Refuse what is no whole number; make Python integers of the rest.

    Raises:
        ValueError: a value is no integer, or is below the least.

    Example:
        >>> whole(layers=12, width=768)
        [12, 768]
    """
    for name, value in numbers.items():
        integral = isinstance(value, Integral)
        if not integral or isinstance(value, bool) or value < least:
            wanted = f"a whole number ≥ {least}"
            raise ValueError(f"{name} wants {wanted}, got {value!r}")
    return [int(value) for value in numbers.values()]
