"""lumen.norm against torch.nn.LayerNorm and torch.nn.RMSNorm."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.count import count, norm_params
from lumen.norm import LayerNorm, RMSNorm, layer_norm, rms_norm
from tests.oracle import agree, normal

PAIRS = {"layer": (LayerNorm, nn.LayerNorm), "rms": (RMSNorm, nn.RMSNorm)}


@pytest.fixture(params=PAIRS)
def kinds(request):
    return PAIRS[request.param]


def pair(kinds, d, eps=1e-2, dtype=torch.float64):
    """Both with random gains and offsets: at 1 and 0 a layer that never used them would pass."""
    torch.manual_seed(0)
    theirs = kinds[1](d, eps=eps, dtype=dtype)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = kinds[0](d, eps=eps).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    params = [(p, dict(theirs.named_parameters())[name]) for name, p in ours.named_parameters()]
    return ours, theirs, params


@settings(deadline=None, max_examples=15, derandomize=True)
@given(st.sampled_from(sorted(PAIRS)), st.integers(1, 9), st.lists(st.integers(0, 3), max_size=3))
def test_equals_torch_for_any_shape(name, d, leading):
    ours, theirs, params = pair(PAIRS[name], d)
    agree(ours, theirs, 3 + normal(*leading, d), params=params, tolerance=1e-11)


def test_equals_torch_in_float32(kinds):
    ours, theirs, params = pair(kinds, 64, dtype=torch.float32)
    agree(
        ours, theirs, 2 * normal(3, 5, 64, dtype=torch.float32) + 1, params=params, tolerance=1e-5
    )


def test_takes_input_that_is_not_contiguous(kinds):
    ours, theirs, params = pair(kinds, 6)
    agree(ours, theirs, normal(6, 4).T, params=params, tolerance=1e-11)


def test_the_functions_need_neither_gain_nor_offset():
    x = normal(4, 6)
    assert_close(layer_norm(x), nn.functional.layer_norm(x, (6,)), rtol=0, atol=1e-12)
    assert_close(rms_norm(x), nn.functional.rms_norm(x, (6,), eps=1e-6), rtol=0, atol=1e-12)


def test_variance_is_biased_and_eps_inside_the_root():
    # harvardnlp/annotated-transformer#122, codertimo/BERT-pytorch#30
    x = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    assert_close(
        layer_norm(x), torch.tensor([3.0, -1, -1, -1]).double() / math.sqrt(3), rtol=0, atol=1e-4
    )
    inside = 0.75 / math.sqrt(3 / 16 + 0.25)
    assert layer_norm(x, eps=0.25)[0].item() == pytest.approx(inside, abs=1e-12)


@pytest.mark.parametrize(("d", "gap"), [(8, 0.166), (64, 0.033), (512, 0.0048)])
def test_an_unbiased_variance_would_be_seen(d, gap):
    # hyunwoongko/transformer#7: the factor is √((d − 1)/d), the gap at the largest entry
    torch.manual_seed(0)
    x = normal(2000, d)
    wrong = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    ratio = (wrong / layer_norm(x, eps=0.0)).median().item()
    assert ratio == pytest.approx(math.sqrt((d - 1) / d), abs=1e-9)
    assert (wrong - layer_norm(x, eps=0.0)).abs().max().item() > gap / 2


def test_normalises_each_token_and_nothing_else():
    # huggingface/transformers#14385; and the 24 numbers of facts_004, section 9
    x = torch.tensor(
        [[[4, 1, -1, 4], [1, 0, 3, 0], [3, 0, 6, 3]], [[2, 2, 4, 0], [0, 3, 0, 1], [2, 0, 6, 4]]]
    ).double()
    y = layer_norm(x, eps=0.0)
    assert_close(y.mean(-1), torch.zeros(2, 3).double(), rtol=0, atol=1e-12)
    assert_close(y.square().mean(-1), torch.ones(2, 3).double(), rtol=0, atol=1e-12)
    token = torch.tensor([0, 0, math.sqrt(2), -math.sqrt(2)]).double()
    assert_close(y[1, 0], token, rtol=0, atol=1e-6)
    changed = x.clone()
    changed[0, 2, 2] = 12
    moved = (layer_norm(changed, eps=0.0) != y).any(-1)
    assert moved.tolist() == [[False, False, True], [False, False, False]]


def test_the_sum_of_a_layer_norm_has_no_gradient():
    # pytorch/pytorch#63541
    x = normal(3, 16).requires_grad_()
    layer_norm(x).sum().backward()
    assert x.grad.abs().max() < 1e-12


@pytest.mark.parametrize("mean", [1e4, -1e4])
def test_a_large_mean_costs_no_more_than_torch_pays(mean):
    x = (normal(200, 64) + mean).float()
    exact = nn.functional.layer_norm(x.double(), (64,))
    off = (layer_norm(x).double() - exact).abs().max()
    assert off < 2e-3
    one_pass = x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
    naive = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(one_pass + 1e-5)
    assert not ((naive.double() - exact).abs().max() < 0.5)  # far off, or NaN


@pytest.mark.parametrize("value", [0.0, 7.0, -100.0])
def test_a_constant_row_is_finite_with_a_finite_gradient(kinds, value):
    ours, theirs, params = pair(kinds, 8, eps=1e-5)
    agree(
        ours, theirs, torch.full((2, 8), value, dtype=torch.float64), params=params, tolerance=1e-9
    )


def test_a_constant_row_comes_out_as_the_offset():
    layer = LayerNorm(4)
    nn.init.normal_(layer.bias)
    assert torch.equal(layer(torch.full((3, 4), 5.0)), layer.bias.expand(3, 4))


def test_twice_is_nearly_once():
    # pytorch/pytorch#24930: a final norm after a post-norm block does next to nothing
    x = normal(5, 32)
    assert_close(layer_norm(layer_norm(x)), layer_norm(x), rtol=0, atol=1e-4)


def test_layer_norm_forgets_shift_and_scale():
    # errata_000_003, 43: gain and offset are one for all tokens and cannot bring them back
    x = normal(5, 32)
    assert_close(layer_norm(3 * x + 7, eps=0.0), layer_norm(x, eps=0.0), rtol=0, atol=1e-12)
    assert (rms_norm(3 * x + 7) - rms_norm(x)).abs().max() > 0.1


def test_takes_the_eps_of_bert():
    # lucidrains/x-transformers#37
    ours, theirs, params = pair(PAIRS["layer"], 16, eps=1e-12)
    agree(ours, theirs, normal(3, 16), params=params, tolerance=1e-11)


def test_eps_may_be_zero(kinds):
    ours, theirs, params = pair(kinds, 5, eps=0.0)
    agree(ours, theirs, normal(3, 5), params=params, tolerance=1e-11)


def test_default_eps():
    # pytorch/pytorch#155527: torch's RMSNorm takes finfo.eps, ours says 1e-6
    assert LayerNorm(4).eps == nn.LayerNorm(4).eps == 1e-5
    assert RMSNorm(4).eps == 1e-6
    assert nn.RMSNorm(4).eps is None
    x = torch.full((1, 4), 1e-4)
    wanted = torch.full((1, 4), 1e-4 / math.sqrt(1e-8 + torch.finfo(torch.float32).eps))
    assert_close(nn.RMSNorm(4)(x).detach(), wanted)


def test_float16_overflows_as_the_docstring_says():
    x = torch.tensor([300.0, 0, 0, 0], dtype=torch.float16)
    assert rms_norm(x)[0] == 0 and nn.functional.rms_norm(x, (4,))[0] == 2


def test_gain_and_offset_are_weights_that_learn():
    # harvard-edge/cs249r_book#1504
    for layer, weights in [(LayerNorm(6), 12), (RMSNorm(6), 6)]:
        assert count(layer).total == weights == norm_params(6, rms=isinstance(layer, RMSNorm))
        layer(normal(3, 6, dtype=torch.float32)).backward(normal(3, 6, seed=1, dtype=torch.float32))
        assert all((p.grad != 0).all() for p in layer.parameters())


@pytest.mark.parametrize("shape", [(), (3,), (4, 5)])
def test_refuses_another_width(kinds, shape):
    name = kinds[0].__name__
    given = str(shape).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=rf"{name} wants x \(\.\.\., 4\), got {given}"):
        kinds[0](4)(torch.ones(shape))


@pytest.mark.parametrize(("d", "eps"), [(0, 1e-5), (-1, 1e-5), (4, -1.0), (4, float("nan"))])
def test_refuses_sizes_without_sense(kinds, d, eps):
    name = kinds[0].__name__
    with pytest.raises(ValueError, match=f"{name} wants d ≥ 1 and eps ≥ 0, got d={d}, eps={eps}"):
        kinds[0](d, eps=eps)


def test_works_on_another_device(kinds):
    with torch.device("meta"):
        assert kinds[0](4)(torch.ones(2, 4)).device.type == "meta"


def test_says_what_it_is():
    assert repr(LayerNorm(4)) == "LayerNorm(4, eps=1e-05)"
    assert repr(RMSNorm(4)) == "RMSNorm(4, eps=1e-06)"
