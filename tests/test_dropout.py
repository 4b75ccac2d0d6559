"""lumen.dropout: statistics and not masks, which differ between machines."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lumen.count import count
from lumen.dropout import Dropout, dropout
from tests.oracle import normal


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_drops_a_share_p_and_keeps_the_mean(p):
    torch.manual_seed(0)
    y = dropout(torch.full((200_000,), 2.0, dtype=torch.float64), p, training=True)
    assert (y == 0).double().mean().item() == pytest.approx(p, abs=0.005)
    assert y.mean().item() == pytest.approx(2, abs=0.04)
    assert y.unique().tolist() == pytest.approx([0, 2 / (1 - p)], rel=1e-12)


def test_kept_values_of_the_book():
    # facts_004, section 11: 2 becomes 2.222 at p = 0.1
    # rasbt/LLMs-from-scratch#57, #519, pytorch/pytorch#121595, #84030: masks differ between
    # machines, but 1 becomes 1.42857 at p = 0.3, whatever the mask
    torch.manual_seed(0)
    assert dropout(torch.full((99,), 2.0), 0.1, training=True).max().item() == pytest.approx(
        2.2222, abs=1e-4
    )
    assert dropout(torch.ones(99), 0.3, training=True).max().item() == pytest.approx(
        1.42857, abs=1e-5
    )


def test_gradient_goes_where_the_values_went():
    torch.manual_seed(0)
    x = normal(50).requires_grad_()
    upstream = normal(50, seed=1)
    y = dropout(x, 0.4, training=True)
    y.backward(upstream)
    mask = (y / x).detach()
    torch.testing.assert_close(x.grad, upstream * mask, rtol=1e-12, atol=1e-12)


def test_draws_a_new_mask_each_time_and_the_same_under_one_seed():
    x = torch.ones(1000)
    layer = Dropout(0.5)
    torch.manual_seed(1)
    first, second = layer(x), layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("layer", [Dropout, nn.Dropout])
def test_is_the_identity_in_eval_mode_as_in_torch(layer):
    x = normal(10, dtype=torch.float32)
    assert torch.equal(layer(0.9).eval()(x), x)


def test_at_the_ends_of_the_range():
    x = normal(10).requires_grad_()
    assert torch.equal(dropout(x, 0.0, training=True), x)
    y = dropout(x, 1.0, training=True)
    assert torch.equal(y, F.dropout(x, 1.0, training=True)) and (y == 0).all()
    y.sum().backward()
    assert (x.grad == 0).all()


def test_has_no_default_for_training():
    # pytorch/pytorch#26338, #11999: F.dropout does not hear of eval(), its training is True
    x = torch.ones(1000)
    assert (F.dropout(x, 0.5) == 0).any()
    with pytest.raises(TypeError, match="training"):
        dropout(x, 0.5)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("make", [Dropout, lambda p: dropout(torch.ones(2), p, training=False)])
def test_refuses_what_is_no_probability(make, p):
    with pytest.raises(ValueError, match=f"dropout wants p from 0 to 1, got {p}"):
        make(p)


def test_has_no_weights_and_says_what_it_is():
    assert count(Dropout(0.1)).total == 0
    assert repr(Dropout(0.1)) == "Dropout(p=0.1)"
    assert Dropout().p == nn.Dropout().p


def test_works_on_another_device():
    assert Dropout(0.5)(torch.ones(3, device="meta")).device.type == "meta"
