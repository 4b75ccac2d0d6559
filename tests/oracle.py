"""How this suite sets a layer against another way to compute it."""

import torch
from torch import nn
from torch.testing import assert_close


def normal(*shape, seed=0, dtype=torch.float64):
    """Standard normal numbers, the same in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def agree(ours, theirs, *inputs, params=(), tolerance=1e-12):
    """Both give the same output, input gradients and weight gradients.

    The upstream gradient is random: after ``.sum()`` the gradients of a softmax or a LayerNorm
    are zero whatever they do. ``params`` holds pairs (ours, theirs) of one shape.
    """
    our_inputs = [x.detach().requires_grad_() for x in inputs]
    their_inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y, wanted = ours(*our_inputs), theirs(*their_inputs)
    assert_close(y, wanted, rtol=tolerance, atol=tolerance)
    upstream = normal(*wanted.shape, seed=1, dtype=wanted.dtype)
    our_leaves = our_inputs + [ours for ours, _ in params]
    their_leaves = their_inputs + [theirs for _, theirs in params]
    gradients = torch.autograd.grad(y, our_leaves, upstream)
    expected = torch.autograd.grad(wanted, their_leaves, upstream)
    for gradient, correct in zip(gradients, expected, strict=True):
        assert_close(gradient, correct, rtol=10 * tolerance, atol=10 * tolerance)


def shaken(model):
    """In float64, with weights large enough for every part to be felt."""
    torch.manual_seed(0)
    for name, p in model.double().named_parameters():
        gain = p.ndim == 1 and name.endswith("weight")
        nn.init.normal_(p, mean=float(gain), std=0.3)
    return model.eval()
