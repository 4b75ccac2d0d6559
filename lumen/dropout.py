"""Dropout: silence each number at random while training, none afterwards.

A unit that cannot count on its neighbours has to be of use by itself. The
survivors are scaled up at once, so that nothing need be done later.
"""

import torch
from torch import Tensor, nn


def dropout(x: Tensor, p: float, *, training: bool) -> Tensor:
    """Zero each number with probability p, and scale up the others.

    ``y = x ⊙ m / (1 − p)``, ``m ~ Bernoulli(1 − p)``

    Args:
        x: the numbers.
        p: the probability of losing one.
        training: whether to drop at all. There is no default: a dropout
            that is still on at evaluation is the classic mistake.

    Shape:
        any → the same

    Raises:
        ValueError: p is not between 0 and 1.

    Example:
        >>> dropout(torch.ones(3), 0.5, training=False)
        tensor([1., 1., 1.])
    """
    _check(p)
    if not training or p == 0:
        return x
    keep = torch.rand_like(x) >= p
    scale = 1 / (1 - p) if p < 1 else 0.0
    return x * keep * scale


class Dropout(nn.Module):
    """Drop numbers at random in training mode; change nothing in eval mode.

    ``y = x ⊙ m / (1 − p)``, ``m ~ Bernoulli(1 − p)``

    Dividing by 1 − p keeps the mean: E[y] = x, so evaluation needs no
    correction.

    Args:
        p: the probability of losing a number.

    Shape:
        any → the same

    Weights:
        ``0``

    Cost:
        ``2`` FLOPs per number in training, and a random draw; 0 in eval.

    Raises:
        ValueError: p is not between 0 and 1.

    Differs from:
        ``torch.nn.Dropout`` in the order of random draws, so masks differ
        under one seed (they differ between machines as well), and in having
        no ``inplace``. Srivastava et al. scale at evaluation instead.

    Source:
        Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov (2014),
        Dropout, section 4 and, for this scaling, section 10.

    Example:
        >>> drop = Dropout(0.1).eval()
        >>> drop(torch.ones(3))
        tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5):
        _check(p)
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, training=self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout wants p from 0 to 1, got {p}")
