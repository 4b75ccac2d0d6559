"""What every configuration can do: refuse nonsense, and say what it weighs.

A configuration is a frozen dataclass with a ``table`` of its parts. The types
of its fields say what they may hold, and ``CHOICES`` says which words.
"""

from dataclasses import fields
from math import inf
from numbers import Real

from lumen.count.attention import attention_params
from lumen.count.layers import embedding_params
from lumen.count.table import Row
from lumen.count.whole import whole

NUMBERS = {
    "dropout": (lambda p: 0 <= p <= 1, "p from 0 to 1"),
    "eps": (lambda eps: 0 <= eps < inf, "a number ≥ 0"),
    "rope_base": (lambda base: 0 < base < inf, "a number > 0"),
}


class Config:
    """A model that is not built yet.

    Raises:
        ValueError: a size is no whole number ≥ 1, a word is not among the
            choices, a switch is neither True nor False, or another number
            is out of range.

    Example:
        >>> from lumen.count import EncoderConfig
        >>> EncoderConfig(vocab_size=100, d_model=8, n_layers=0, n_heads=2)
        Traceback (most recent call last):
        ValueError: n_layers wants a whole number ≥ 1, got 0
    """

    CHOICES: dict[str, tuple[str, ...]] = {}

    def __post_init__(self):
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if field.type in (int, int | None):
                (value,) = whole(**{name: value})
            elif field.type == tuple[int, ...]:
                value = _stages(name, value)
            else:
                self._check(name, field.type, value)
            object.__setattr__(self, name, value)

    def _check(self, name: str, kind: type, value) -> None:
        """Refuse a word, a switch or a number that means nothing."""
        fit, wanted = True, ""
        if name in self.CHOICES:
            words = self.CHOICES[name]
            fit, wanted = value in words, f"one of {[*words]}"
        elif kind is bool:
            fit, wanted = isinstance(value, bool), "True or False"
        elif name in NUMBERS:
            number = isinstance(value, Real) and not isinstance(value, bool)
            fits, wanted = NUMBERS[name]
            fit = number and fits(value)
        if not fit:
            raise ValueError(f"{name} wants {wanted}, got {value!r}")

    def parameters(self) -> int:
        """Count the weights: all rows of the table, a tied tensor once."""
        return self.table().total


class TransformerConfig(Config):
    """A transformer that is not built yet.

    Raises:
        ValueError: n_heads does not divide d_model.
    """

    LOOKED_UP = ("tokens", "positions", "types", "offsets")

    def __post_init__(self):
        super().__post_init__()
        attention_params(self.d_model, self.n_heads)

    @property
    def d_head(self) -> int:
        """The numbers in a key of one head."""
        return self.d_model // self.n_heads

    def non_embedding_parameters(self) -> int:
        """Count the weights outside the tables that are only looked up.

        A head of its own is no such table: it multiplies, and stays.
        """
        rows = self.table().rows
        kept = (row for row in rows if row.name not in self.LOOKED_UP)
        return sum(row.weights for row in kept)

    def _blocks(self, part: str, weights: int, stack: str = "") -> Row:
        """One part of all blocks of a stack."""
        name = f"{stack}{self.n_layers} × {part}"
        return Row(name, (), self.n_layers * weights)

    def _tokens(self) -> Row:
        """The vocabulary's table."""
        shape = self.vocab_size, self.d_model
        return Row("tokens", shape, embedding_params(*shape))

    def _head(self) -> Row:
        """What makes logits of the last states, in a decoder."""
        shape = self.vocab_size, self.d_model
        if self.tied:
            return Row("head", shape, 0, tied_to="tokens")
        return Row("head", shape, embedding_params(*shape))


class StackConfig(TransformerConfig):
    """A transformer of one stack, in which each token meets each matrix."""

    def matrices(self) -> dict[str, int]:
        """Count the weights of one block's matrices, part by part."""
        attention, mlp = self._block(bias=False)
        return {"projections": attention, "mlp": mlp}

    def _stack(self, norm: int, bias: bool = True) -> list[Row]:
        """The blocks, each with two norms."""
        attention, mlp = self._block(bias)
        parts = {"attention": attention, "MLP": mlp, "norms": 2 * norm}
        return [self._blocks(part, n) for part, n in parts.items()]


def _stages(name: str, values) -> tuple[int, ...]:
    """A whole number for each stage."""
    if not isinstance(values, tuple | list) or not values:
        wanted = "a whole number for each stage"
        raise ValueError(f"{name} wants {wanted}, got {values!r}")
    return tuple(whole(**{name: value})[0] for value in values)
