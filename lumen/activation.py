"""The functions between layers: without one, two matrices are one matrix.

Each is the formula and nothing else. ``softmax`` is of another kind than
the rest: it looks at a whole axis at once and turns scores into shares.
"""

import math

import torch
from torch import Tensor


def relu(x: Tensor) -> Tensor:
    """Keep what is positive, and hand on zero for the rest.

    ``relu(x) = max(0, x)``

    Shape:
        any → the same

    Cost:
        ``1`` FLOP per number.

    Differs from:
        ``torch.relu`` in nothing: the slope at 0 is 0 there too.

    Source:
        Nair and Hinton (2010), Rectified Linear Units.

    Example:
        >>> relu(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([0., 0., 3.])
    """
    # Not clamp: its slope at 0 is 1. Not x > 0: that would swallow NaN.
    return torch.where(x <= 0, 0.0, x)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Keep what is positive, and shrink the rest instead of erasing it.

    ``leaky_relu(x) = x if x > 0 else negative_slope · x``

    Args:
        x: the numbers.
        negative_slope: the slope below zero.

    Shape:
        any → the same

    Cost:
        ``2`` FLOPs per number.

    Source:
        Maas, Hannun and Ng (2013), Rectifier Nonlinearities, section 2.

    Example:
        >>> leaky_relu(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([-0.0200,  0.0000,  3.0000])
    """
    return torch.where(x > 0, x, negative_slope * x)


def tanh(x: Tensor) -> Tensor:
    """Squeeze every number into (−1, 1), keeping its sign.

    ``tanh(x) = (eˣ − e⁻ˣ) / (eˣ + e⁻ˣ)``

    Taken from torch as it is: in float32 the exponentials overflow beyond
    ±88, and the ways around that teach nothing here.

    Shape:
        any → the same

    Example:
        >>> tanh(torch.tensor([-100.0, 0.0, 1.0]))
        tensor([-1.0000,  0.0000,  0.7616])
    """
    return torch.tanh(x)


def sigmoid(x: Tensor) -> Tensor:
    """Squeeze every number into (0, 1), so that it can serve as a gate.

    ``σ(x) = 1 / (1 + e⁻ˣ) = (1 + tanh(x/2)) / 2``

    The second form is the one computed: it cannot overflow, and neither can
    its gradient.

    Shape:
        any → the same

    Differs from:
        ``torch.sigmoid`` in the left tail: it falls like eˣ, ours is 0 in
        float32 from x = −18.1 down. The error is below 3e-8 everywhere.

    Example:
        >>> sigmoid(torch.tensor([-1000.0, 0.0, 1.0]))
        tensor([0.0000, 0.5000, 0.7311])
    """
    return 0.5 * (1 + tanh(0.5 * x))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Weigh each number by the chance that a normal draw lies below it.

    ``gelu(x) = x · Φ(x) = x · (1 + erf(x/√2)) / 2``

    Args:
        x: the numbers.
        approximate: ``"none"`` for the formula above, which BERT uses;
            ``"tanh"`` for the fit that GPT-2 uses, which is within 5e-4 of
            it: x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2.

    Shape:
        any → the same

    Raises:
        ValueError: approximate is neither of the two.

    Source:
        Hendrycks and Gimpel (2016), Gaussian Error Linear Units, section 2.

    Example:
        >>> gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate == "none":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + tanh(inner))
    raise ValueError(f"gelu wants 'none' or 'tanh', got {approximate!r}")


def silu(x: Tensor) -> Tensor:
    """Let each number be its own gate.

    ``silu(x) = x · σ(x)``

    Shape:
        any → the same

    Source:
        Elfwing, Uchibe and Doya (2018), Sigmoid-weighted linear units; the
        same function is called swish.

    Example:
        >>> silu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.2689,  0.0000,  0.7311])
    """
    return x * sigmoid(x)


def softmax(x: Tensor, dim: int) -> Tensor:
    """Turn scores along one axis into positive shares that sum to one.

    ``softmax(x)ᵢ = e^(xᵢ − m) / Σⱼ e^(xⱼ − m)``, ``m = max x``

    Only differences of scores count. Subtracting the largest changes none
    of them and keeps every exponential at or below e⁰ = 1.

    Args:
        x: the scores. −inf asks for a share of exactly zero.
        dim: the axis along which the shares sum to one; for attention that
            of the keys, −1. There is no default, for no guess is safe.

    Shape:
        any → the same

    Cost:
        ``5`` FLOPs per number: compare, subtract, exponential, add, divide.

    Raises:
        ValueError: there is no score along dim.

    Differs from:
        ``torch.softmax`` in nothing else. A row of nothing but −inf has no
        largest score to measure from and gives NaN, in torch too: what such
        a row should mean is for the caller to say, and attention does.

    Source:
        Bridle (1990), Probabilistic Interpretation of Feedforward
        Classification Network Outputs.

    Example:
        >>> softmax(torch.tensor([1000.0, 1000.0, -torch.inf]), dim=-1)
        tensor([0.5000, 0.5000, 0.0000])
    """
    if x.ndim and x.size(dim) == 0:
        given = tuple(x.shape)
        raise ValueError(f"softmax wants a score in dim {dim}, got {given}")
    # The shift cancels in the result, so it needs no gradient.
    exp = torch.exp(x - x.detach().amax(dim, keepdim=True))
    return exp * exp.sum(dim, keepdim=True).reciprocal()
