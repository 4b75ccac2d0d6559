"""lumen.activation against torch.nn.functional."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from lumen.activation import gelu, leaky_relu, relu, sigmoid, silu, softmax, tanh
from tests.oracle import agree, normal

PAIRS = {
    "relu": (relu, F.relu),
    "leaky_relu": (leaky_relu, F.leaky_relu),
    "leaky_relu 0.3": (lambda x: leaky_relu(x, 0.3), lambda x: F.leaky_relu(x, 0.3)),
    "tanh": (tanh, torch.tanh),
    "sigmoid": (sigmoid, torch.sigmoid),
    "gelu": (gelu, F.gelu),
    "gelu tanh": (
        lambda x: gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "silu": (silu, F.silu),
}


@pytest.fixture(params=PAIRS)
def both(request):
    return PAIRS[request.param]


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (200,), (3, 4, 5)])
def test_equals_torch(both, shape):
    torch.manual_seed(0)
    agree(*both, 3 * normal(*shape))


def test_equals_torch_in_float32(both):
    agree(*both, torch.linspace(-20, 20, 401), tolerance=1e-6)


def test_equals_torch_where_it_is_delicate(both):
    # Zero, where slopes jump; 1000, where exponentials overflow.
    x = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 100.0, -100.0, 1000.0, -1000.0])
    agree(*both, x.double())
    agree(*both, x, tolerance=1e-6)


def test_does_not_swallow_nan(both):
    ours, _ = both
    assert ours(torch.tensor([math.nan, 1.0])).isnan().tolist() == [True, False]


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "tanh", "sigmoid"])
def test_has_the_limits_of_torch_at_infinity(name):
    ours, theirs = PAIRS[name]
    x = torch.tensor([math.inf, -math.inf])
    assert_close(ours(x), theirs(x))


def test_takes_input_that_is_not_contiguous(both):
    agree(*both, normal(4, 6).T[::2])


def test_slopes_and_minima_of_the_table():
    # facts_004, section 13
    x = torch.linspace(-6, 6, 120_001, dtype=torch.float64)
    for function, place, value, slope in [
        (gelu, -0.752, -0.170, 1.129),
        (silu, -1.278, -0.278, 1.0998),
    ]:
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        y.sum().backward()
        assert x[y.argmin()].item() == pytest.approx(place, abs=5e-4)
        assert y.min().item() == pytest.approx(value, abs=5e-4)
        assert leaf.grad.max().item() == pytest.approx(slope, abs=5e-4)


def test_the_two_gelus_are_near_but_not_the_same():
    x = torch.linspace(-6, 6, 10_001, dtype=torch.float64)
    gap = (gelu(x) - gelu(x, approximate="tanh")).abs().max()
    assert 4e-4 < gap < 5e-4


def test_sigmoid_differs_from_torch_by_less_than_it_says():
    x = torch.linspace(-40, 0, 4001)
    assert (sigmoid(x).double() - torch.sigmoid(x.double())).abs().max() < 3e-8
    below = torch.tensor([-18.1, -30.0])
    assert (sigmoid(below) == 0).all() and (torch.sigmoid(below) > 0).all()


def test_gelu_refuses_another_approximation():
    with pytest.raises(ValueError, match="gelu wants 'none' or 'tanh', got 'erf'"):
        gelu(torch.ones(1), approximate="erf")


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_softmax_equals_torch_along_any_axis(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = 5 * normal(*shape)
    agree(lambda x: softmax(x, dim), lambda x: F.softmax(x, dim), x)


def test_softmax_equals_torch_in_float32():
    x = 10 * normal(7, 50, dtype=torch.float32)
    agree(lambda x: softmax(x, -1), lambda x: F.softmax(x, -1), x, tolerance=1e-6)


def test_softmax_of_a_scalar_and_of_no_rows():
    assert softmax(torch.tensor(3.0), -1) == 1
    assert softmax(torch.ones(0, 3), -1).shape == (0, 3)


def test_softmax_subtracts_the_largest_of_its_own_axis():
    # A shift by one maximum for all rows would underflow the small ones.
    x = torch.tensor([[1000.0, 999.0], [-1000.0, -1001.0]], dtype=torch.float64)
    wanted = torch.tensor([0.7310585786, 0.2689414214], dtype=torch.float64)
    assert_close(softmax(x, -1), wanted.expand(2, 2), rtol=0, atol=1e-10)
    agree(lambda x: softmax(x, -1), lambda x: F.softmax(x, -1), x)


def test_softmax_gives_a_hidden_score_nothing():
    x = torch.tensor([2.0, -math.inf, 2.0], dtype=torch.float64)
    agree(lambda x: softmax(x, 0), lambda x: F.softmax(x, 0), x)
    assert softmax(x, 0).tolist() == [0.5, 0, 0.5]


def test_softmax_of_nothing_but_minus_infinity_is_nan_as_in_torch():
    # pytorch/pytorch#41508
    row = torch.full((3,), -math.inf)
    assert softmax(row, -1).isnan().all()
    assert F.softmax(row, -1).isnan().all()


def test_softmax_wants_its_axis_named():
    # pytorch/pytorch#5733
    with pytest.raises(TypeError, match="dim"):
        softmax(torch.ones(2, 2))


def test_softmax_refuses_an_axis_without_scores():
    with pytest.raises(ValueError, match=r"softmax wants a score in dim -1, got \(2, 0\)"):
        softmax(torch.ones(2, 0), -1)


def test_softmax_does_not_feel_a_shift_but_a_scale():
    # numbers.csv N161, N162
    s = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)
    assert_close(softmax(s + 100, 0), softmax(s, 0), rtol=0, atol=1e-12)
    wanted = torch.tensor([0.7856, 0.0391, 0.1753], dtype=torch.float64)
    assert_close(softmax(3 * s, 0), wanted, rtol=0, atol=5e-5)


@pytest.mark.parametrize(
    ("d_k", "largest", "entropy"),
    [
        (1, 0.40544, 1.37917),
        (8, 0.688423, 0.853992),
        (64, 0.959275, 0.177209),
        (512, 0.999883, 0.00117888),
    ],
)
def test_five_scores_without_the_scale(d_k, largest, entropy):
    # numbers.csv N002 to N012
    p = softmax(torch.tensor([1.0, 0.6, 0.2, -0.3, -1.6], dtype=torch.float64) * math.sqrt(d_k), 0)
    assert p.max().item() == pytest.approx(largest, abs=1e-6)
    assert -(p * p.log()).sum().item() == pytest.approx(entropy, abs=2e-6)


def test_a_second_softmax_on_logits_floors_the_loss():
    # jindongwang/Deep-learning-activity-recognition#10, tflearn/tflearn#562
    logits, target = torch.tensor([[10.0, 0.0, 0.0]]), torch.tensor([0])
    assert F.cross_entropy(logits, target).item() == pytest.approx(9.08e-5, rel=1e-3)
    assert F.cross_entropy(softmax(logits, -1), target).item() == pytest.approx(0.5515, abs=1e-4)
    certain = torch.tensor([[1.0, 0.0, 0.0]])
    assert F.cross_entropy(certain, target).item() == pytest.approx(0.5514, abs=1e-4)


def test_softmax_is_not_idempotent_but_its_logarithm_is():
    # bhanML/Co-teaching#4
    torch.manual_seed(0)
    x = normal(4, 5, dtype=torch.float32)
    assert (softmax(softmax(x, -1), -1) - softmax(x, -1)).abs().max() > 0.1
    logs = softmax(x, -1).log()
    assert_close(softmax(logs, -1).log(), logs)


def test_the_sum_of_a_softmax_has_no_gradient():
    # pytorch/pytorch#63541: why every gradient test here takes a random upstream gradient
    x = normal(3, 4).requires_grad_()
    softmax(x, -1).sum().backward()
    assert x.grad.abs().max() < 1e-15


def test_works_on_another_device():
    x = torch.ones(2, 3, device="meta")
    for ours, _ in PAIRS.values():
        assert ours(x).shape == (2, 3)
    assert softmax(x, -1).device.type == "meta"
