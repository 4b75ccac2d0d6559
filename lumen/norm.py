"""Normalisation: bring the numbers of a token back to one scale.

LayerNorm and RMSNorm look at one token at a time, along the last axis. No
other token and no other example takes part.
"""

import torch
from torch import Tensor, nn


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each row to mean 0 and variance 1, then scale and shift it.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    The mean comes first and the variance second, as the mean square of what
    is left. The one-pass form E[x²] − E[x]² loses every digit once the mean
    is large against the spread, and can come out negative.

    Args:
        x: the rows; the last axis is normalised.
        weight: the gain of each coordinate, or None.
        bias: the offset of each coordinate, or None.
        eps: added to the variance, inside the root.

    Shape:
        x (..., d), weight (d), bias (d) → (..., d)

    Example:
        >>> layer_norm(torch.tensor([1.0, 0.0, 0.0, 0.0]))
        tensor([ 1.7320, -0.5773, -0.5773, -0.5773])
    """
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    y = centred * torch.rsqrt(variance + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Bring each row to mean square 1, then scale each coordinate.

    ``y = x / √(mean(x²) + eps) ⊙ weight``

    Args:
        x: the rows; the last axis is normalised.
        weight: the gain of each coordinate, or None.
        eps: added to the mean square, inside the root.

    Shape:
        x (..., d), weight (d) → (..., d)

    Example:
        >>> rms_norm(torch.tensor([3.0, 4.0, 0.0, 0.0]))
        tensor([1.2000, 1.6000, 0.0000, 0.0000])
    """
    mean_square = x.square().mean(dim=-1, keepdim=True)
    y = x * torch.rsqrt(mean_square + eps)
    return y if weight is None else y * weight


class LayerNorm(nn.Module):
    """Bring each token to mean 0 and variance 1, then to a learned scale.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    μ and σ² are the mean and the variance (divided by d, not d − 1) of the
    d numbers of one token. A constant token has variance 0 and comes out as
    ``bias``, thanks to eps.

    Args:
        d: numbers in a token.
        eps: added to the variance, inside the root.

    Shape:
        (..., d) → (..., d)

    Weights:
        ``2 · d``: the gains start at 1, the offsets at 0.

    Cost:
        ``7 · d`` FLOPs per position: two means, subtract, square, scale,
        gain, offset.

    Raises:
        ValueError: d is below 1, eps is negative, or x is not d wide.

    Differs from:
        ``torch.nn.LayerNorm``: one axis only, and in float16 the squares
        are not taken in float32, so they overflow beyond 255.

    Source:
        Ba, Kiros and Hinton (2016), Layer Normalization, section 3.

    Example:
        >>> x = torch.tensor([[2.0, 4.0, 6.0, 8.0], [5.0, 5.0, 5.0, 5.0]])
        >>> LayerNorm(4)(x).detach()
        tensor([[-1.3416, -0.4472,  0.4472,  1.3416],
                [ 0.0000,  0.0000,  0.0000,  0.0000]])
    """

    def __init__(self, d: int, eps: float = 1e-5):
        _check_sizes("LayerNorm", d, eps)
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))
        self.bias = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        _check_width("LayerNorm", x, len(self.weight))
        return layer_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class RMSNorm(nn.Module):
    """Bring each token to mean square 1, then to a learned scale.

    ``y = x / √(mean(x²) + eps) ⊙ weight``

    LayerNorm without the mean and without the offset: one reduction instead
    of two, d weights instead of 2 d.

    Args:
        d: numbers in a token.
        eps: added to the mean square, inside the root.

    Shape:
        (..., d) → (..., d)

    Weights:
        ``d``: the gains start at 1.

    Cost:
        ``4 · d`` FLOPs per position: square, mean, scale, gain.

    Raises:
        ValueError: d is below 1, eps is negative, or x is not d wide.

    Differs from:
        ``torch.nn.RMSNorm``: its eps is by default the spacing of the
        number format at 1, 1.2e-7 in float32. Llama 2 uses 1e-5. In float16
        the squares are not taken in float32.

    Source:
        Zhang and Sennrich (2019), Root Mean Square Layer Normalization,
        section 4.

    Example:
        >>> RMSNorm(4)(torch.tensor([3.0, 4.0, 0.0, 0.0])).detach()
        tensor([1.2000, 1.6000, 0.0000, 0.0000])
    """

    def __init__(self, d: int, eps: float = 1e-6):
        _check_sizes("RMSNorm", d, eps)
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        _check_width("RMSNorm", x, len(self.weight))
        return rms_norm(x, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


def _check_sizes(layer: str, d: int, eps: float) -> None:
    if d < 1 or not eps >= 0:
        given = f"d={d}, eps={eps}"
        raise ValueError(f"{layer} wants d ≥ 1 and eps ≥ 0, got {given}")


def _check_width(layer: str, x: Tensor, d: int) -> None:
    if x.ndim == 0 or x.shape[-1] != d:
        given = tuple(x.shape)
        raise ValueError(f"{layer} wants x (..., {d}), got {given}")
