"""The dense layer: every output is a weighted sum of every input.

It bets on nothing but this: coordinate ``i`` of the input always means the
same thing. All other layers of the book are this one with something taken
away or shared.
"""

import math

import torch
from torch import Tensor, nn


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Map the last axis of ``x`` through one matrix and an offset.

    ``y = x Wᵀ + b``

    Args:
        x: the inputs; every axis but the last is carried along.
        weight: the matrix W, one row for each output.
        bias: the offset b, one number for each output, or None.

    Shape:
        x (..., in), weight (out, in), bias (out) → (..., out)

    Raises:
        ValueError: the width of x is not the number of columns of W.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> linear(x, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        tensor([1., 3.])
    """
    if x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        wanted, given = weight.shape[-1], tuple(x.shape)
        raise ValueError(f"linear wants x (..., {wanted}), got {given}")
    y = x @ weight.T
    return y if bias is None else y + bias


class Linear(nn.Module):
    """Give every output its own weight for every input, and an offset.

    ``y = x Wᵀ + b``

    The weights start uniform between −1/√in and 1/√in. Then Var W is
    1 / (3 in), and inputs of mean square 1 come out with variance about
    1/3, however many they are.

    Args:
        in_features: numbers in.
        out_features: numbers out.
        bias: whether there is an offset b.

    Shape:
        (..., in_features) → (..., out_features)

    Weights:
        ``in_features · out_features + out_features``; without bias the
        last term goes.

    Cost:
        ``2 · in_features · out_features`` FLOPs per position, the offset
        included: a sum of n products and b is n multiplies and n adds.

    Raises:
        ValueError: a size is below 1; the width of x is not in_features.

    Differs from:
        ``torch.nn.Linear`` in nothing: names, shapes, starting range, and
        even the starting values under one seed are the same. torch's code
        speaks of ``kaiming_uniform_`` with a = √5, which comes to the bound
        1/√in and is not He's initialisation.

    Source:
        LeCun, Bottou, Orr and Müller (1998), Efficient BackProp, section
        4.6, for starting weights of a scale 1/√in.

    Example:
        >>> layer = Linear(3, 2)
        >>> layer(torch.ones(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
    ):
        if in_features < 1 or out_features < 1:
            given = f"{in_features} and {out_features}"
            raise ValueError(f"Linear wants sizes ≥ 1, got {given}")
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features)
        self.weight = nn.Parameter(weight.uniform_(-bound, bound))
        self.bias = None
        if bias:
            offset = torch.empty(out_features)
            self.bias = nn.Parameter(offset.uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        n_out, n_in = self.weight.shape
        return f"{n_in}, {n_out}, bias={self.bias is not None}"
