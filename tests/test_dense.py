"""lumen.dense against torch.nn.Linear."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.count import count, linear_params
from lumen.dense import Linear, linear
from tests.oracle import agree, normal


def pair(n_in, n_out, bias=True, dtype=torch.float64):
    torch.manual_seed(0)
    theirs = nn.Linear(n_in, n_out, bias=bias, dtype=dtype)
    ours = Linear(n_in, n_out, bias=bias).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    params = [(p, dict(theirs.named_parameters())[name]) for name, p in ours.named_parameters()]
    return ours, theirs, params


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (7, 5), (2, 3, 5), (2, 1, 3, 5), (0, 5)])
def test_equals_torch(shape, bias):
    ours, theirs, params = pair(5, 3, bias)
    agree(ours, theirs, normal(*shape), params=params)


def test_equals_torch_in_float32():
    ours, theirs, params = pair(33, 17, dtype=torch.float32)
    agree(ours, theirs, normal(4, 33, dtype=torch.float32), params=params, tolerance=1e-5)


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(0, 3), max_size=3), st.booleans())
def test_equals_torch_for_any_shape(n_in, n_out, leading, bias):
    ours, theirs, params = pair(n_in, n_out, bias)
    agree(ours, theirs, normal(*leading, n_in), params=params)


def test_takes_input_that_is_not_contiguous():
    ours, theirs, params = pair(4, 6)
    x = normal(4, 3, 2).transpose(0, 2)
    assert not x.is_contiguous()
    agree(ours, theirs, x, params=params)


def test_torch_loads_our_weights_too():
    ours, theirs = Linear(4, 3), nn.Linear(4, 3)
    theirs.load_state_dict(ours.state_dict())
    assert_close(theirs(torch.eye(4)), ours(torch.eye(4)))


def test_starts_where_torch_starts():
    torch.manual_seed(3)
    ours = Linear(48, 20)
    torch.manual_seed(3)
    theirs = nn.Linear(48, 20)
    assert_close(ours.weight, theirs.weight)
    assert_close(ours.bias, theirs.bias)


def test_start_is_uniform_up_to_one_over_root_in():
    # pytorch/pytorch#57109, #15314, #42083
    torch.manual_seed(0)
    layer = Linear(64, 4000)
    for values in (layer.weight, layer.bias):
        assert 0.1249 < values.abs().max() <= 0.125
    # The docstring's variances: W has 1 / (3 in), outputs of unit inputs about 1/3.
    assert layer.weight.var().item() == pytest.approx(1 / 192, rel=0.02)
    assert layer(normal(100, 64, dtype=torch.float32)).var().item() == pytest.approx(
        1 / 3 + 1 / 192, rel=0.05
    )


def test_rows_are_outputs_so_gpt2_weights_are_transposed():
    # huggingface/transformers#311
    conv1d_weight = normal(3, 5, dtype=torch.float32)  # GPT-2 keeps (in, out)
    x = normal(2, 3, dtype=torch.float32)
    assert Linear(3, 5).weight.shape == (5, 3)
    assert_close(linear(x, conv1d_weight.T), x @ conv1d_weight)
    square = normal(3, 3, dtype=torch.float32)  # loads without complaint, and is wrong
    assert (linear(x, square) - x @ square).abs().max() > 0.1


@pytest.mark.parametrize(
    ("sizes", "weights"),
    [
        ((784, 100), 78_500),  # harvard-edge/cs249r_book#1226
        ((10, 8, 1), 97),  # udlbook/udlbook#94
        ((784, 200, 10), 159_010),  # uu-sml/sml-book-page#33
    ],
)
def test_counts(sizes, weights):
    layers = [Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    assert count(nn.Sequential(*layers)).total == weights
    assert sum(linear_params(a, b) for a, b in zip(sizes, sizes[1:], strict=False)) == weights


def test_without_bias_there_is_no_bias():
    layer = Linear(4, 3, bias=False)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight"]


@pytest.mark.parametrize("shape", [(), (4,), (5, 2), (2, 5, 1)])
def test_refuses_another_width(shape):
    given = str(shape).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=rf"linear wants x \(\.\.\., 5\), got {given}"):
        Linear(5, 3)(torch.ones(shape))


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (-1, 3)])
def test_refuses_sizes_below_one(sizes):
    with pytest.raises(ValueError, match=f"sizes ≥ 1, got {sizes[0]} and {sizes[1]}"):
        Linear(*sizes)


def test_works_on_another_device():
    with torch.device("meta"):
        assert Linear(4, 3)(torch.ones(2, 4)).shape == (2, 3)


def test_says_what_it_is():
    assert repr(Linear(4, 3, bias=False)) == "Linear(4, 3, bias=False)"
