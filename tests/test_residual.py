"""lumen.residual against the sum it is, and against what is said of its slope."""

import math

import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian
from torch.testing import assert_close

from lumen.attention import MultiHeadAttention
from lumen.count import count
from lumen.dense import Linear
from lumen.residual import Residual, residual
from tests.oracle import agree, normal


def test_is_the_sum_with_all_gradients():
    f = Linear(6, 6).double()
    params = [(p, p) for p in f.parameters()]
    agree(
        Residual(f),
        lambda x: x + nn.functional.linear(x, f.weight, f.bias),
        normal(3, 6),
        params=params,
    )


def test_owns_the_weights_of_f_and_no_other():
    layer = Residual(Linear(4, 4))
    assert [name for name, _ in layer.named_parameters()] == ["f.weight", "f.bias"]
    assert count(layer).total == 20
    assert count(Residual(torch.tanh)).total == 0


def test_with_f_at_zero_it_is_the_identity():
    f = Linear(4, 4)
    for parameter in f.parameters():
        nn.init.zeros_(parameter)
    x = normal(3, 4, dtype=torch.float32)
    assert torch.equal(Residual(f)(x), x)


def test_slope_is_the_identity_and_that_of_f():
    f, x = Linear(5, 5).double(), normal(5)
    assert_close(jacobian(Residual(f), x), torch.eye(5).double() + f.weight.detach())


def test_one_is_no_lower_bound_of_the_slope():
    # errata_000_003, 03; errata_004, E52: J = −I gives 0, and −0.2 I at 50 layers a plain net's
    x = normal(3).requires_grad_()
    Residual(lambda t: -t)(x).backward(torch.ones(3).double())
    assert torch.equal(x.grad, torch.zeros(3).double())
    deep = nn.Sequential(*(Residual(lambda t: -0.2 * t) for _ in range(50)))
    slope = jacobian(deep, normal(1)).item()
    assert slope == pytest.approx(0.8**50) == pytest.approx(1.4e-5, abs=5e-7)


def test_two_to_the_l_paths():
    # facts_004, section 10: ∏(I + J) is the sum over all subsets
    a, b = normal(4, 4), normal(4, 4, seed=1)
    deep = nn.Sequential(Residual(lambda x: x @ a.T), Residual(lambda x: x @ b.T))
    eye = torch.eye(4).double()
    assert_close(jacobian(deep, normal(4)), eye + a + b + b @ a)
    assert 2**50 == 1_125_899_906_842_624 and math.isclose(2**50, 1.1259e15, rel_tol=1e-4)


def test_options_reach_f():
    f, x = MultiHeadAttention(8, 2).double(), normal(1, 4, 8)
    assert_close(Residual(f)(x, causal=True), x + f(x, causal=True))


@pytest.mark.parametrize("shape", [(3, 1), (1, 4), (4,), (), (3, 5), (1, 3, 4)])
def test_refuses_a_change_of_another_shape(shape):
    said = rf"residual wants x's shape back, got \(3, 4\) → \({str(shape)[1:-1]}\)"
    with pytest.raises(ValueError, match=said):
        Residual(lambda x: torch.zeros(shape))(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="x's shape back"):
        residual(torch.zeros(3, 4), torch.zeros(shape))


def test_works_on_another_device():
    assert Residual(torch.tanh)(torch.ones(2, 3, device="meta")).device.type == "meta"
