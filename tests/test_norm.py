"""lumen.norm against LayerNorm, RMSNorm, BatchNorm1d and BatchNorm2d of torch.nn."""

import copy
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.count import count, norm_params
from lumen.norm import (
    BatchNorm1d,
    BatchNorm2d,
    LayerNorm,
    RMSNorm,
    batch_norm,
    layer_norm,
    rms_norm,
)
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


@settings(max_examples=15)
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
    # harvardnlp/annotated-transformer#122, #119, codertimo/BERT-pytorch#30,
    # hkproj/pytorch-transformer#31
    x = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    wrong = (x - x.mean()) / x.std()
    assert_close(wrong, torch.tensor([1.5, -0.5, -0.5, -0.5]).double())
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
    # pytorch/pytorch#63541, torch/nn#744; with another upstream gradient there is one
    x = normal(3, 16).requires_grad_()
    layer_norm(x).sum().backward()
    assert x.grad.abs().max() < 1e-12
    layer_norm(x).backward(normal(3, 16, seed=1))
    assert x.grad.abs().max() > 0.5


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
    # pytorch/pytorch#24930, #50086, #74092, #51447, hkproj/pytorch-transformer#32: a final norm
    # after a post-norm block does next to nothing
    x = normal(5, 32)
    assert_close(layer_norm(layer_norm(x)), layer_norm(x), rtol=0, atol=1e-4)


def test_layer_norm_forgets_shift_and_scale():
    # errata_000_003, 43: gain and offset are one for all tokens and cannot bring them back
    x = normal(5, 32)
    assert_close(layer_norm(3 * x + 7, eps=0.0), layer_norm(x, eps=0.0), rtol=0, atol=1e-12)
    assert (rms_norm(3 * x + 7) - rms_norm(x)).abs().max() > 0.1


def test_takes_the_eps_of_bert():
    # lucidrains/x-transformers#37, idiap/fast-transformers#103
    ours, theirs, params = pair(PAIRS["layer"], 16, eps=1e-12)
    agree(ours, theirs, normal(3, 16), params=params, tolerance=1e-11)


def test_eps_may_be_zero(kinds):
    ours, theirs, params = pair(kinds, 5, eps=0.0)
    agree(ours, theirs, normal(3, 5), params=params, tolerance=1e-11)


def test_default_eps():
    # pytorch/pytorch#155527, #173039: torch's RMSNorm takes finfo.eps, ours says 1e-6
    assert LayerNorm(4).eps == nn.LayerNorm(4).eps == 1e-5
    assert RMSNorm(4).eps == 1e-6
    assert nn.RMSNorm(4).eps is None
    x = torch.full((1, 4), 1e-4)
    wanted = torch.full((1, 4), 1e-4 / math.sqrt(1e-8 + torch.finfo(torch.float32).eps))
    assert_close(nn.RMSNorm(4)(x).detach(), wanted)


def test_rms_norm_is_that_of_llama():
    # NVIDIA/cutlass#1112, jingyaogong/minimind#301: eps 1e-5, no mean taken off, no offset, and the
    # squares in float32 whatever comes in, which ours leaves to its caller
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    theirs, ours = LlamaRMSNorm(16, eps=1e-5), RMSNorm(16, eps=1e-5)
    nn.init.normal_(theirs.weight)
    ours.load_state_dict(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == ["weight"]
    x = 1e-2 * normal(5, 16, dtype=torch.float32) + 1
    assert ours(x).mean(-1).abs().min() > 0.1
    agree(ours, theirs, x, params=[(ours.weight, theirs.weight)], tolerance=1e-6)
    large = torch.zeros(1, 16, dtype=torch.float16)
    large[0, 0] = 300  # its square is no float16
    assert_close(theirs(large).float(), ours(large.float()), rtol=1e-3, atol=0)
    assert ours.half()(large)[0, 0] == 0


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


# ---- BatchNorm

BATCH = {"1d": (BatchNorm1d, nn.BatchNorm1d), "2d": (BatchNorm2d, nn.BatchNorm2d)}
BUFFERS = ["running_mean", "running_var", "num_batches_tracked"]
PLACES = {"1d": [(), (1,), (5,)], "2d": [(1, 1), (2, 3)]}
PER_CHANNEL = [(name, places) for name, kinds in PLACES.items() for places in kinds]


def batch_pair(kinds, channels, eps=1e-2, momentum=0.3, dtype=torch.float64):
    ours, theirs = (kind(channels, eps=eps, momentum=momentum).to(dtype) for kind in kinds)
    torch.manual_seed(0)
    for tensor in theirs.state_dict().values():
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.5, 2)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def same_memory(ours, theirs, tolerance):
    assert [name for name, _ in ours.named_buffers()] == BUFFERS
    for name, buffer in theirs.named_buffers():
        given = dict(ours.named_buffers())[name]
        assert given.dtype == buffer.dtype and given.shape == buffer.shape
        assert_close(given, buffer, rtol=tolerance, atol=tolerance)


def equals_torch(kinds, *shape, tolerance=1e-11, steps=3, **options):
    """Three steps of training with all gradients and the memory after each, then eval."""
    ours, theirs = batch_pair(kinds, shape[1], **options)
    params = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    dtype = options.get("dtype", torch.float64)
    for step in range(steps):
        x = 3 + 2 * normal(*shape, seed=step, dtype=dtype)
        agree(ours, theirs, x, params=params, tolerance=tolerance)
        same_memory(ours, theirs, tolerance)
    ours.eval(), theirs.eval()
    agree(ours, theirs, normal(*shape, dtype=dtype), params=params, tolerance=tolerance)
    same_memory(ours, theirs, tolerance)


@settings(max_examples=20)
@given(st.sampled_from(PER_CHANNEL), st.integers(2, 6), st.integers(1, 5))
def test_batch_norm_equals_torch_for_any_shape(kind, batch, channels):
    name, places = kind
    equals_torch(BATCH[name], batch, channels, *places)


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("momentum", [None, 0.0, 0.1, 1.0])
def test_momentum_weighs_the_new_batch_as_in_torch(name, momentum):
    # pytorch/pytorch#41559, pytorch/examples#289, d2l-ai/d2l-en#2213,
    # affinelayer/pix2pix-tensorflow#126
    equals_torch(BATCH[name], 4, 3, *PLACES[name][-1], momentum=momentum)


def test_the_function_takes_the_moments_it_is_given_or_tells_those_of_the_batch():
    x, gain, offset = normal(5, 3, 2), normal(3, seed=1), normal(3, seed=2)
    mean, variance = normal(3, seed=3), normal(3, seed=4).exp()
    y, told = batch_norm(x, gain, offset, 1e-2, moments=(mean, variance))
    wanted = nn.functional.batch_norm(x, mean, variance, gain, offset, eps=1e-2)
    assert_close(y, wanted, rtol=0, atol=1e-12)
    assert told[0] is mean and told[1] is variance
    y, (mean, variance) = batch_norm(x)
    wanted = nn.functional.batch_norm(x, None, None, training=True)
    assert_close(y, wanted, rtol=0, atol=1e-12)
    assert_close(mean, x.mean((0, 2)))
    assert_close(variance, x.var((0, 2), correction=0))


def test_momentum_is_the_share_of_the_new_batch():
    layer = BatchNorm1d(1, momentum=0.1)
    layer(torch.tensor([[10.0], [20.0]]))
    assert layer.running_mean.item() == pytest.approx(0.9 * 0 + 0.1 * 15)
    assert layer.running_var.item() == pytest.approx(0.9 * 1 + 0.1 * 50)


def test_batch_norm_equals_torch_in_float32():
    equals_torch(BATCH["1d"], 16, 8, dtype=torch.float32, tolerance=2e-5)
    equals_torch(BATCH["2d"], 4, 8, 5, 5, dtype=torch.float32, tolerance=2e-5)


def test_batch_norm_defaults_and_state_are_those_of_torch():
    for ours, theirs in BATCH.values():
        a, b = ours(5), theirs(5)
        assert (a.eps, a.momentum) == (b.eps, b.momentum) == (1e-5, 0.1)
        assert list(a.state_dict()) == list(b.state_dict())
        b.load_state_dict(a.state_dict())
        assert all(torch.equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


def test_batch_norm_takes_input_that_is_not_contiguous():
    ours, theirs = batch_pair(BATCH["1d"], 6)
    agree(ours, theirs, normal(4, 5, 6).transpose(1, 2), tolerance=1e-11)
    ours, theirs = batch_pair(BATCH["2d"], 6)
    agree(ours, theirs, normal(4, 5, 5, 6).permute(0, 3, 1, 2), tolerance=1e-11)


def test_biased_in_use_and_unbiased_in_memory():
    # keras-team/keras#10443; facts_004, E51: 44/6 in use, 44/5 = 8.8 kept
    layer = BatchNorm1d(1, eps=0.0, momentum=1.0).double()
    y = layer(torch.tensor([[1.0], [2.0], [3.0], [4.0]]).double())
    assert_close(y.flatten()[-1].item(), 1.5 / math.sqrt(1.25))
    assert layer.running_var.item() == pytest.approx(5 / 3)
    column = torch.tensor([-1.0, 3, 6, 4, 0, 6]).double()[:, None]
    _, (_, variance) = batch_norm(column)
    assert variance.item() == pytest.approx(44 / 6)
    layer(column)
    assert layer.running_var.item() == pytest.approx(8.8)


@pytest.mark.parametrize(("n", "gap"), [(32, 0.046), (4, 0.227)])
def test_bessel_in_use_would_be_seen(n, gap):
    # karpathy/nn-zero-to-hero#44
    x = normal(n, 100)
    right, _ = batch_norm(x, eps=0.0)
    wrong = (x - x.mean(0)) / x.std(0)
    assert_close(wrong, right * math.sqrt((n - 1) / n))
    assert (wrong - right).abs().max().item() > gap / 2


def test_the_24_numbers():
    # facts_004, section 9: one number moves, and another example feels it
    x = torch.tensor(
        [[[4, 1, -1, 4], [1, 0, 3, 0], [3, 0, 6, 3]], [[2, 2, 4, 0], [0, 3, 0, 1], [2, 0, 6, 4]]]
    ).double()
    _, (mean, variance) = batch_norm(x.transpose(1, 2))
    assert_close(mean, torch.tensor([2.0, 1, 3, 2]).double())
    spread = torch.tensor([1.29, 1.15, 2.71, 1.73]).double()
    assert_close(variance.sqrt(), spread, rtol=0, atol=5e-3)
    layer = BatchNorm1d(4, eps=0.0).double()
    before = layer(x.transpose(1, 2)).transpose(1, 2)
    assert_close(before[1, 0], torch.tensor([0, 0.87, 0.37, -1.15]).double(), rtol=0, atol=5e-3)
    changed = x.clone()
    changed[0, 2, 2] = 12
    after = layer(changed.transpose(1, 2)).transpose(1, 2)
    assert_close(after[1, 0], torch.tensor([0, 0.87, 0, -1.15]).double(), rtol=0, atol=5e-3)
    moved = (after - before).abs() > 1e-12
    assert moved[1].sum() == 3 and moved[..., 2].all() and moved.sum() == 6


def test_in_training_the_past_sees_the_future_and_in_eval_nothing_sees_anything():
    # errata_004, E47 and E49
    layer, x = BatchNorm1d(4).double(), normal(1, 4, 6)
    later = x.clone()
    later[..., 5] += 3
    assert (layer(later)[..., 0] - layer(x)[..., 0]).abs().max() > 0.1
    layer.eval()
    assert torch.equal(layer(later)[..., :5], layer(x)[..., :5])
    rows = normal(8, 4)
    assert torch.equal(layer(rows)[:1], layer(rows[:1]))


def test_eval_remembers_nothing():
    layer = BatchNorm2d(3).eval()
    before = copy.deepcopy(layer.state_dict())
    layer(normal(2, 3, 4, 4, dtype=torch.float32))
    assert all(torch.equal(before[name], now) for name, now in layer.state_dict().items())


@pytest.mark.parametrize("mean", [1e4, -1e4])
def test_a_large_mean_costs_batch_norm_no_more_than_torch_pays(mean):
    x = (normal(256, 8) + mean).float()
    exact = nn.functional.batch_norm(x.double(), None, None, training=True)
    layer = BatchNorm1d(8, momentum=1.0)
    assert (layer(x).double() - exact).abs().max() < 2e-3
    assert_close(layer.running_var.double(), x.double().var(0), rtol=1e-4, atol=0)


def test_a_constant_channel_comes_out_as_the_offset():
    layer = BatchNorm1d(3)
    nn.init.normal_(layer.bias)
    x = torch.full((4, 3), 7.0, requires_grad=True)
    y = layer(x)
    assert torch.equal(y, layer.bias.expand(4, 3))
    y.backward(normal(4, 3, dtype=torch.float32))
    assert x.grad.isfinite().all() and (layer.running_var == 0.9).all()


class Wrong(BatchNorm2d):
    """A BatchNorm2d written in another way, with room for one fault."""

    fault = None

    def forward(self, x):
        axes = {"per pixel": (0,), "per example": (2, 3)}.get(self.fault, (0, 2, 3))
        mean = x.mean(axes, keepdim=True)
        batch_mean, batch_variance = (t.mean((0, 2, 3)) for t in (x, (x - mean).square()))
        variance = (x - mean).square().mean(axes, keepdim=True)
        n = x.numel() // x.shape[1]
        if self.training:
            self._keep(batch_mean.detach(), batch_variance.detach(), n)
        if not self.training and self.fault != "eval uses the batch":
            mean, variance = self.running_mean, self.running_var
            if self.fault == "eval ignores running_var":
                variance = torch.ones_like(variance)
            mean, variance = (t[:, None, None] for t in (mean, variance))
        elif self.fault == "Bessel in use":
            variance = variance * n / (n - 1)
        if self.fault == "statistics detached":
            mean, variance = mean.detach(), variance.detach()
        inside = 0.0 if self.fault in ("no eps", "eps outside") else self.eps
        root = (variance + inside).sqrt() + (self.eps if self.fault == "eps outside" else 0)
        y = (x if self.fault == "mean not subtracted" else x - mean) / root
        gain, offset = (t[:, None, None] for t in (self.weight, self.bias))
        unused = 0 * (gain.sum() + offset.sum())
        if self.fault == "gain and offset unused":
            return y + unused
        if self.fault == "gain missing":
            return y + offset + unused
        if self.fault == "offset multiplies":
            return y * gain * offset
        return y * gain - offset if self.fault == "offset subtracted" else y * gain + offset

    def _keep(self, mean, variance, n):
        rate = 1 - self.momentum if self.fault == "momentum reversed" else self.momentum
        kept = variance if self.fault == "running_var biased" else variance * n / (n - 1)
        kept = kept.sqrt() if self.fault == "running_var holds the root" else kept
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean, rate)
        if self.fault == "running_var replaced":
            rate = 1.0
        if self.fault != "running_var never updated":
            self.running_var.lerp_(kept, rate)


FAULTS = """Bessel in use; per pixel; per example; eps outside; no eps; gain and offset unused;
gain missing; offset multiplies; offset subtracted; mean not subtracted; statistics detached;
running_var never updated; running_var biased; running_var replaced; running_var holds the root;
momentum reversed; eval uses the batch; eval ignores running_var"""


def with_fault(fault):
    return type("Faulty", (Wrong,), {"fault": fault}), nn.BatchNorm2d


def test_the_comparison_accepts_another_right_way():
    equals_torch(with_fault(None), 4, 3, 2, 5)


@pytest.mark.parametrize("fault", re.split(r";\s+", FAULTS))
def test_the_comparison_rejects_wrong_batch_norms(fault):
    # callummcdougall/ARENA_2.0 at a654576: its tests accept 16 of 18
    with pytest.raises(AssertionError):
        equals_torch(with_fault(fault), 4, 3, 2, 5)


def test_there_are_eighteen_wrong_batch_norms():
    assert len(set(re.split(r";\s+", FAULTS))) == 18


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (BatchNorm1d, (1, 4)),
        (BatchNorm1d, (1, 4, 1)),
        (BatchNorm1d, (0, 4)),
        (BatchNorm2d, (1, 4, 1, 1)),
    ],
)
def test_refuses_to_train_on_one_number_per_channel(layer, shape):
    # pytorch/pytorch#4534, #13223, zhanghang1989/ResNeSt#46
    given = re.escape(f"{layer.__name__} wants 2 or more numbers in each channel to train on")
    one = layer(4)
    with pytest.raises(ValueError, match=f"{given}, got {re.escape(str(shape))}"):
        one(torch.ones(shape))
    assert one.num_batches_tracked == 0
    assert one.eval()(torch.ones(shape)).shape == shape
    assert one.train()(torch.ones(2, *shape[1:])).shape[0] == 2


def test_one_image_is_enough_if_it_has_pixels():
    assert BatchNorm2d(4)(torch.ones(1, 4, 4, 4)).shape == (1, 4, 4, 4)


@pytest.mark.parametrize(
    ("layer", "shape", "wanted"),
    [
        (BatchNorm1d, (4,), "(B, 4) or (B, 4, T)"),
        (BatchNorm1d, (2, 3), "(B, 4) or (B, 4, T)"),
        (BatchNorm1d, (2, 3, 4), "(B, 4) or (B, 4, T)"),
        (BatchNorm1d, (2, 4, 3, 3), "(B, 4) or (B, 4, T)"),
        (BatchNorm2d, (2, 4), "(B, 4, H, W)"),
        (BatchNorm2d, (2, 3, 4, 4), "(B, 4, H, W)"),
    ],
)
def test_batch_norm_refuses_other_shapes(layer, shape, wanted):
    said = re.escape(f"{layer.__name__} wants x {wanted}, got {shape}")
    with pytest.raises(ValueError, match=said):
        layer(4)(torch.ones(shape))


@pytest.mark.parametrize("layer", [BatchNorm1d, BatchNorm2d])
@pytest.mark.parametrize(
    ("channels", "eps", "momentum"),
    [(0, 1e-5, 0.1), (4, -1.0, 0.1), (4, float("nan"), 0.1), (4, 1e-5, 1.5), (4, 1e-5, -0.1)],
)
def test_batch_norm_refuses_sizes_without_sense(layer, channels, eps, momentum):
    said = f"{layer.__name__} wants num_features ≥ 1, eps ≥ 0, momentum in [0, 1] or None, got "
    with pytest.raises(ValueError, match=re.escape(f"{said}{channels}, {eps}, {momentum}")):
        layer(channels, eps=eps, momentum=momentum)


def test_batch_norm_works_on_another_device_and_says_what_it_is():
    with torch.device("meta"):
        assert BatchNorm1d(4)(torch.ones(2, 4)).device.type == "meta"
        assert BatchNorm2d(4, momentum=None)(torch.ones(2, 4, 3, 3)).device.type == "meta"
    assert repr(BatchNorm2d(4)) == "BatchNorm2d(4, eps=1e-05, momentum=0.1)"
