"""The weights of a module that exists, line by line.

Each tensor counts once, however many names it has.
"""

from dataclasses import dataclass

from lumen.count.whole import whole


@dataclass(frozen=True)
class Row:
    """One line of a table: a tensor, or all tensors of a part."""

    name: str
    shape: tuple[int, ...]
    weights: int
    tied_to: str | None = None


@dataclass(frozen=True)
class Table:
    """The weights of a module, line by line; it prints as a table."""

    rows: tuple[Row, ...]

    @property
    def total(self) -> int:
        """All weights, each tensor once."""
        return sum(row.weights for row in self.rows)

    def __repr__(self) -> str:
        lines = []
        for row in self.rows:
            tied = f"= {row.tied_to}" if row.tied_to else None
            shape = " × ".join(map(str, row.shape))
            lines.append((row.name, shape, tied or f"{row.weights:,}"))
        lines.append(("total", "", f"{self.total:,}"))
        a, b, c = (max(len(line[i]) for line in lines) for i in range(3))
        text = (f"{x:{a}}  {y:{b}}  {z:>{c}}" for x, y, z in lines)
        return "\n".join(text)


def count(module, depth: int | None = None) -> Table:
    """Count the weights of a module, each tensor once.

    A tensor with two names counts under the first; the line of the second
    points there. Buffers are not weights and are left out.

    Args:
        module: anything with the ``named_parameters`` of a torch module.
        depth: how many parts of a name to keep, so that one line sums up a
            block. None gives each tensor its line.

    Raises:
        ValueError: there are no named_parameters, or depth is below 1.

    Example:
        >>> from lumen.dense import Linear
        >>> count(Linear(784, 100))
        weight  100 × 784  78,400
        bias    100           100
        total              78,500
    """
    if not hasattr(module, "named_parameters"):
        given = type(module).__name__
        raise ValueError(f"count wants a torch module, got {given}")
    if depth is not None:
        (depth,) = whole(depth=depth)
    rows, owner = {}, {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        first = owner.setdefault(id(tensor), name)
        part = ".".join(name.split(".")[:depth])
        shape, weights = tuple(tensor.shape), tensor.numel()
        if first != name:
            rows[name] = Row(name, shape, 0, tied_to=first)
        elif part == name:
            rows[name] = Row(name, shape, weights)
        else:
            before = rows[part].weights if part in rows else 0
            rows[part] = Row(part, (), before + weights)
    return Table(tuple(rows.values()))
