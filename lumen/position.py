"""Where a token stands: attention cannot see it, so it has to be said.

Three ways: add fixed waves (``sinusoidal``), add a learned row
(``LearnedPositions``), or turn queries and keys so that their product feels
only the distance between them (``rope``).
"""

import torch
from torch import Tensor, nn

from lumen.embedding import embedding


def sinusoidal(n: int, d: int, *, base: float = 10000.0) -> Tensor:
    """Describe each of n positions by d waves, from fast to slow.

    ``P[t, 2i] = sin(t / base^(2i/d))``,
    ``P[t, 2i+1] = cos(t / base^(2i/d))``

    i counts pairs: columns 2i and 2i + 1 are the sine and the cosine of one
    angle. That is what turns a step of s positions into a rotation that is
    the same everywhere, and makes P Pᵀ depend on distances only. An odd
    width ends with a sine whose cosine is cut off.

    Args:
        n: positions, counted from 0.
        d: columns.
        base: the slowest wave takes nearly 2π · base positions.

    Shape:
        → (n, d), in torch's default dtype

    Raises:
        ValueError: n is negative or d is below 1.

    Differs from:
        Implementations that use the column for i, which pairs each sine
        with another wave's cosine, and those that put all sines before all
        cosines, which is the same up to the order of columns.

    Source:
        Vaswani et al. (2017), Attention Is All You Need, section 3.5.

    Example:
        >>> sinusoidal(3, 4)
        tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
                [ 0.8415,  0.5403,  0.0100,  0.9999],
                [ 0.9093, -0.4161,  0.0200,  0.9998]])
    """
    if n < 0 or d < 1:
        given = f"n={n}, d={d}"
        raise ValueError(f"sinusoidal wants n ≥ 0 and d ≥ 1, got {given}")
    position = torch.arange(n, dtype=torch.float64)
    column = torch.arange(d, dtype=torch.float64)
    pair = column // 2
    angle = position[:, None] * base ** (-2 * pair / d)
    table = torch.where(column % 2 == 0, angle.sin(), angle.cos())
    return table.to(torch.get_default_dtype())


class LearnedPositions(nn.Module):
    """Give every position up to a limit a vector of its own.

    ``y = onehot(positions) W``, which is row ``positions`` of ``W``

    An embedding whose ids are places. It cannot say anything about a place
    it has never been trained on, and has no row at all beyond its limit.

    Args:
        n_positions: rows there are, for positions from 0.
        d: width of each.

    Shape:
        positions (...) → (..., d)

    Weights:
        ``n_positions · d``

    Cost:
        ``0`` FLOPs per position.

    Raises:
        ValueError: a size is below 1, or a position has no row.

    Differs from:
        BERT and GPT-2, which hold such a table, in its start only: theirs
        is drawn with a standard deviation of 0.01 or 0.02, ours is N(0, 1)
        like the ``Embedding`` it is added to.

    Source:
        Gehring et al. (2017), Convolutional Sequence to Sequence Learning,
        section 3.1.

    Example:
        >>> positions = LearnedPositions(512, 16)
        >>> positions(torch.arange(3)).shape
        torch.Size([3, 16])
    """

    def __init__(self, n_positions: int, d: int):
        if n_positions < 1 or d < 1:
            given = f"{n_positions} and {d}"
            raise ValueError(f"positions want sizes ≥ 1, got {given}")
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_positions, d))

    def forward(self, positions: Tensor) -> Tensor:
        return embedding(positions, self.weight)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)


def rope(
    x: Tensor,
    positions: Tensor,
    *,
    base: float = 10000.0,
    layout: str = "halves",
) -> Tensor:
    """Turn each pair of coordinates by an angle that grows with position.

    ``(a, b) → (a cos θ − b sin θ, a sin θ + b cos θ)``,
    ``θ = t / base^(2i/d)`` for pair i at position t

    A query turned by its place and a key turned by its own have the product
    of two vectors that stand at distance t − s from each other, wherever
    they are. Length is kept; nothing is added; nothing is learned.

    Args:
        x: queries or keys.
        positions: the place of each token.
        base: the slowest pair takes nearly 2π · base positions to go round.
        layout: which coordinates make a pair. ``"halves"``: i and i + d/2,
            as in Hugging Face's Llama. ``"pairs"``: 2i and 2i + 1, as in
            the paper and Meta's Llama. Weights fit only one of them.

    Shape:
        x (..., T, d), positions (T) or anything that broadcasts to (..., T)
        → (..., T, d)

    Cost:
        ``3 · d`` FLOPs per position: four multiplies, two adds for a pair.

    Raises:
        ValueError: d is odd, the layout is unknown, or the positions do not
            fit x.

    Source:
        Su et al. (2021), RoFormer, section 3.2.

    Example:
        >>> places = torch.tensor([3, 5, 103, 105])
        >>> turned = rope(torch.ones(4, 2), places)
        >>> (turned @ turned.T)[[1, 3], [0, 2]]  # 5 and 3, 105 and 103
        tensor([-0.8323, -0.8323])
    """
    _check_rope(x, positions, layout)
    d = x.shape[-1]
    wide = torch.promote_types(x.dtype, torch.float32)
    exponent = torch.arange(0, d, 2, dtype=wide, device=x.device) / d
    angle = positions[..., None].to(wide) * base**-exponent  # (..., T, d/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if layout == "halves":
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return turned.flatten(-2)  # (..., d/2, 2) → (..., d)


def pairs_to_halves(x: Tensor, dim: int = -1) -> Tensor:
    """Reorder one axis from rope's layout ``"pairs"`` to ``"halves"``.

    ``(a₀, b₀, a₁, b₁, …) → (a₀, a₁, …, b₀, b₁, …)``

    For the weights w of a query or key projection, do it to the rows of
    each head: split them by ``w.unflatten(0, (n_heads, -1))``, reorder axis
    1, and join them by ``flatten(0, 1)``.

    Args:
        x: coordinates, or weights whose rows make them.
        dim: the axis to reorder.

    Shape:
        any → the same

    Raises:
        ValueError: the axis is odd.

    Example:
        >>> pairs_to_halves(torch.tensor([0, 1, 2, 3, 4, 5]))
        tensor([0, 2, 4, 1, 3, 5])
    """
    return _transposed(x, dim, (-1, 2))


def halves_to_pairs(x: Tensor, dim: int = -1) -> Tensor:
    """Reorder one axis from rope's layout ``"halves"`` to ``"pairs"``.

    ``(a₀, a₁, …, b₀, b₁, …) → (a₀, b₀, a₁, b₁, …)``

    Args:
        x: coordinates, or weights whose rows make them.
        dim: the axis to reorder.

    Shape:
        any → the same

    Raises:
        ValueError: the axis is odd.

    Example:
        >>> halves_to_pairs(torch.tensor([0, 2, 4, 1, 3, 5]))
        tensor([0, 1, 2, 3, 4, 5])
    """
    return _transposed(x, dim, (2, -1))


def _transposed(x: Tensor, dim: int, shape: tuple[int, int]) -> Tensor:
    if x.size(dim) % 2:
        given = tuple(x.shape)
        raise ValueError(f"pairs want an even dim {dim}, got {given}")
    x = x.movedim(dim, -1)
    return x.unflatten(-1, shape).mT.flatten(-2).movedim(-1, dim)


def _check_rope(x: Tensor, positions: Tensor, layout: str) -> None:
    if layout not in ("halves", "pairs"):
        raise ValueError(f"rope wants 'halves' or 'pairs', got {layout!r}")
    if x.ndim < 2 or x.shape[-1] % 2:
        given = tuple(x.shape)
        raise ValueError(f"rope wants x (..., T, even d), got {given}")
    wanted, given = tuple(x.shape[:-1]), tuple(positions.shape)
    try:
        fits = wanted == tuple(torch.broadcast_shapes(wanted, given))
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"rope wants positions {wanted}, got {given}")
