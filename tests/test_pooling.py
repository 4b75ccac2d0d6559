"""lumen.pooling against torch.nn's pooling layers."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.count import count, linear_params
from lumen.pooling import (
    AvgPool2d,
    GlobalAvgPool2d,
    MaxPool2d,
    avg_pool2d,
    global_avg_pool2d,
    max_pool2d,
)
from tests.oracle import agree, normal

PAIRS = {"max": (MaxPool2d, nn.MaxPool2d), "avg": (AvgPool2d, nn.AvgPool2d)}


@pytest.fixture(params=PAIRS)
def kinds(request):
    return PAIRS[request.param]


def pads_of(kinds):
    """What only an average can be asked."""
    return [{}] if kinds[0] is MaxPool2d else [{"count_include_pad": c} for c in (True, False)]


# ---- against torch


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("size", [(4, 4), (7, 5), (8, 9), (10, 11)])
def test_equals_torch_with_every_setting(kinds, size, ceil_mode):
    x = normal(2, 3, *size)
    for kernel, stride in itertools.product((1, 2, 3, 4), (None, 1, 2, 3, 5)):
        for padding, more in itertools.product(range(kernel // 2 + 1), pads_of(kinds)):
            how = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode} | more
            agree(kinds[0](kernel, **how), kinds[1](kernel, **how), x)


@settings(max_examples=100)
@given(st.data())
def test_equals_torch_for_any_shape(data):
    def whole(low, high):
        return data.draw(st.integers(low, high))

    kinds = data.draw(st.sampled_from(list(PAIRS.values())))
    kernel = whole(1, 5), whole(1, 5)
    stride = whole(1, 6), whole(1, 6)
    padding = tuple(whole(0, k // 2) for k in kernel)
    size = [max(1, k - 2 * p) + whole(0, 6) for k, p in zip(kernel, padding, strict=True)]
    how = {"stride": stride, "padding": padding, "ceil_mode": data.draw(st.booleans())}
    how |= data.draw(st.sampled_from(pads_of(kinds)))
    x = normal(whole(1, 2), whole(1, 3), *size)
    agree(kinds[0](kernel, **how), kinds[1](kernel, **how), x)


@settings(max_examples=100)
@given(st.data())
def test_the_gradient_of_equal_maxima_goes_where_torch_sends_it(data):
    # whole numbers from 0 to 2 make ties in nearly every window; windows overlap or not
    kernel = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    stride = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    how = {"stride": stride, "padding": padding, "ceil_mode": data.draw(st.booleans())}
    most = data.draw(st.integers(1, 3))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    x = torch.randint(most, (2, 2, 7, 6), generator=generator).double()
    agree(MaxPool2d(kernel, **how), nn.MaxPool2d(kernel, **how), x)


def test_equals_torch_in_float32(kinds):
    x = normal(4, 16, 15, 12, dtype=torch.float32)
    agree(kinds[0](3, 2, 1), kinds[1](3, 2, 1), x, tolerance=1e-6)
    agree(
        GlobalAvgPool2d(), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), x, tolerance=1e-6
    )


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=2), st.integers(1, 9), st.integers(1, 9))
def test_global_mean_equals_torch_for_any_shape(leading, height, width):
    x = normal(*leading, height, width)
    if 0 in leading:
        assert GlobalAvgPool2d()(x).shape == tuple(leading)
    else:
        agree(GlobalAvgPool2d(), lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), x)


def test_the_functions_equal_those_of_torch():
    x = normal(2, 3, 7, 8)
    for args in [(2,), (3, 1), ((2, 3), (1, 2), 1), (3, 2, 1)]:
        agree(lambda x, a=args: max_pool2d(x, *a), lambda x, a=args: F.max_pool2d(x, *a), x)
        agree(lambda x, a=args: avg_pool2d(x, *a), lambda x, a=args: F.avg_pool2d(x, *a), x)
    agree(lambda x: avg_pool2d(x, 3, 2, 1, True), lambda x: F.avg_pool2d(x, 3, 2, 1, True), x)
    without = {"kernel_size": [3, 3], "padding": [1, 1], "count_include_pad": False}
    agree(lambda x: avg_pool2d(x, **without), lambda x: F.avg_pool2d(x, **without), x)


def test_any_axes_may_come_first(kinds):
    x, layer = normal(2, 3, 4, 5, 6), kinds[0](3, 2, 1)
    assert_close(layer(x), kinds[1](3, 2, 1)(x.flatten(0, 1)).view(2, 3, 4, 3, 3))
    assert_close(layer(x[0, 0, 0]), layer(x)[0, 0, 0])


def test_an_empty_batch_gives_an_empty_batch(kinds):
    agree(kinds[0](2), kinds[1](2), normal(0, 3, 6, 7))


def test_takes_input_that_is_not_contiguous(kinds):
    agree(kinds[0](3, 2, 1), kinds[1](3, 2, 1), normal(8, 7, 4, 2).permute(3, 2, 0, 1))
    agree(kinds[0](2), kinds[1](2), normal(2, 3, 14, 18)[:, :, ::2, 1::2])
    x = normal(8, 7, 4, 2).permute(3, 2, 0, 1)
    assert_close(global_avg_pool2d(x), global_avg_pool2d(x.contiguous()))


def test_what_comes_out_can_be_viewed_and_is_not_the_input(kinds):
    x = normal(2, 3, 6, 6)
    before = x.clone()
    y = kinds[0](1)(x)
    y.view(2, -1).add_(1)
    assert torch.equal(x, before)
    assert kinds[0](3, 2, 1)(x).is_contiguous()


def test_gradients_equal_differences(kinds):
    x = normal(1, 2, 5, 6).requires_grad_()
    assert torch.autograd.gradcheck(kinds[0](3, 2, 1, ceil_mode=True), x)
    assert torch.autograd.gradgradcheck(kinds[0](3, 2, 1, ceil_mode=True), x)


@pytest.mark.parametrize("values", [(float("nan"), 1.0), (1.0, float("nan"))])
def test_a_nan_stays_one(kinds, values):
    x = torch.tensor(values * 2).view(1, 1, 2, 2)
    assert kinds[0](2)(x).isnan().all() and kinds[1](2)(x).isnan().all()


def test_minus_infinity_passes(kinds):
    x = torch.full((1, 1, 4, 4), -torch.inf)
    assert torch.equal(kinds[0](2)(x), kinds[1](2)(x))
    assert torch.equal(kinds[0](3, 2, 1)(x), kinds[1](3, 2, 1)(x))


# ---- against what it says


def test_padding_never_wins():
    x = torch.full((1, 1, 4, 4), -5.0)
    assert MaxPool2d(2, padding=1)(x).unique().tolist() == [-5]


def test_of_equal_maxima_the_first_in_reading_order_learns():
    x = torch.ones(1, 1, 3, 4, requires_grad=True)
    MaxPool2d((3, 2))(x).sum().backward()
    assert x.grad[0, 0].tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    max_pool2d(x, 2).sum().backward()
    assert x.grad.tolist() == [[0, 1], [0, 0]]  # reading order, not down the columns


def test_what_an_average_counts():
    x = torch.ones(1, 1, 3, 3)
    assert avg_pool2d(x, 2, padding=1)[0, 0].tolist() == [[0.25, 0.5], [0.5, 1]]
    ones = avg_pool2d(x, 2, padding=1, count_include_pad=False)
    assert ones.unique().tolist() == [1]
    # a window that hangs over counts what is there: one row of the image and of its padding
    assert avg_pool2d(x, 2, ceil_mode=True).unique().tolist() == [1]
    over = avg_pool2d(torch.ones(1, 1, 4, 4), 3, 2, 1, True)[0, 0]
    assert over[0].tolist() == pytest.approx([4 / 9, 6 / 9, 2 / 6])


def test_a_window_that_starts_in_the_padding_below_is_left_out():
    x = normal(1, 1, 4, 4)
    how = {"stride": 3, "padding": 1, "ceil_mode": True}
    assert MaxPool2d(2, **how)(x).shape == nn.MaxPool2d(2, **how)(x).shape == (1, 1, 2, 2)
    assert MaxPool2d(2, stride=3, ceil_mode=True)(x).shape == (1, 1, 2, 2)
    assert MaxPool2d(2, stride=3)(x).shape == (1, 1, 1, 1)


def test_sizes_of_a_small_network():
    # tensorflow/tensorflow#33824: 30 → 15 and 13 → 6, the last row and column are dropped
    assert MaxPool2d(2)(torch.ones(1, 32, 30, 30)).shape == (1, 32, 15, 15)
    assert MaxPool2d(2)(torch.ones(1, 64, 13, 13)).shape == (1, 64, 6, 6)


@pytest.mark.parametrize("kind", [max_pool2d, avg_pool2d])
def test_pooling_widens_what_a_unit_reads(kind):
    # https://blog.csdn.net/qq_38742161 (receptive-field article): a 2 × 2 pool reads one more
    x = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kind(kind(x, 2), 2)[0, 0, 1, 1].backward()
    rows = x.grad[0, 0].nonzero()
    assert rows.min() >= 4 and len(rows) == (1 if kind is max_pool2d else 16)


def test_a_lone_peak_may_move_by_one_half_of_the_time():
    # errata_004, E07: as long as it stays in its window
    peaks = torch.eye(16, dtype=torch.float64).view(16, 1, 1, 16)[:-1]
    pooled, moved = (max_pool2d(p, (1, 2)) for p in (peaks, peaks.roll(1, -1)))
    same = (pooled == moved).flatten(1).all(-1)
    assert same.tolist() == [i % 2 == 0 for i in range(15)]


def test_a_maximum_moves_in_two_of_three():
    # errata_004, E07: it stays when the largest of 2 × 3 numbers is in the middle column
    x = normal(1, 1, 400, 401)
    before, after = max_pool2d(x[..., :-1], 2), max_pool2d(x[..., 1:], 2)
    assert (before == after).double().mean().item() == pytest.approx(1 / 3, abs=0.01)


def test_pooling_cuts_the_numbers_by_four_and_by_two_when_channels_double():
    # errata_004, E09
    x = torch.ones(1, 64, 32, 32)
    y = MaxPool2d(2)(x)
    assert x.numel() == 4 * y.numel()
    assert x.numel() == 2 * torch.cat([y, y], 1).numel()


def test_a_global_mean_spares_a_dense_layer():
    # errata_004, E08; facts_004, section 4
    x = torch.ones(1, 512, 7, 7)
    flat, mean = x.flatten(1).shape[1], GlobalAvgPool2d()(x).shape[1]
    assert linear_params(flat, 1000, bias=False) == 25_088_000
    assert linear_params(mean, 1000, bias=False) == 512_000
    assert (linear_params(flat, 1000), linear_params(mean, 1000)) == (25_089_000, 513_000)


def test_a_global_mean_forgets_the_place():
    x = normal(2, 3, 5, 7)
    assert_close(global_avg_pool2d(x.roll((2, 3), (-2, -1))), global_avg_pool2d(x))
    assert_close(global_avg_pool2d(x), avg_pool2d(x, (5, 7))[..., 0, 0])


def test_has_nothing_to_learn(kinds):
    for layer in (kinds[0](2), GlobalAvgPool2d()):
        assert count(layer).total == 0 and layer.state_dict() == {}


# ---- refusals


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", True, (), (2,), (1, 1, 1), (2, 0), (1, 2.0)])
@pytest.mark.parametrize("name", ["kernel_size", "stride", "padding"])
def test_refuses_settings_without_sense(kinds, name, bad):
    if name == "padding" and bad in (0, (2, 0)):
        bad = (0, -1)
    least = 0 if name == "padding" else 1
    with pytest.raises(ValueError) as said:
        kinds[0](**{"kernel_size": 4} | {name: bad})
    wanted = f"{kinds[0].__name__} wants whole {name} ≥ {least}, one number or two, got {bad!r}"
    assert str(said.value) == wanted


def test_a_dilation_in_torchs_place_is_refused():
    with pytest.raises(TypeError):
        MaxPool2d(3, 2, 1, 1)  # torch reads dilation here, which ours has not
    with pytest.raises(TypeError):
        max_pool2d(torch.ones(4, 4), 3, 2, 1, 1)


def test_refuses_more_padding_than_half_a_window(kinds):
    name = kinds[0].__name__
    for kernel, padding in [(3, 2), ((4, 1), 1)]:
        with pytest.raises(ValueError, match=f"{name} wants padding of at most half of"):
            kinds[0](kernel, padding=padding)
    with pytest.raises(RuntimeError, match="at most half"):
        kinds[1](3, padding=2)(torch.ones(1, 1, 8, 8))
    kinds[0]((4, 2), padding=(2, 1))


def test_refuses_an_image_smaller_than_a_window(kinds):
    with pytest.raises(ValueError, match=r"padded image of at least \(5, 5\), got \(4, 8\)"):
        kinds[0](5, padding=1)(torch.ones(1, 1, 2, 6))
    with pytest.raises(ValueError, match=r"padded image of at least \(3, 3\), got \(2, 8\)"):
        kinds[0](3, ceil_mode=True)(torch.ones(1, 1, 2, 8))


@pytest.mark.parametrize("x", [torch.tensor(1.0), torch.ones(4), torch.ones(4, 4).long()])
def test_refuses_another_input(kinds, x):
    name = kinds[0].__name__.lower().replace("pool", "_pool")
    with pytest.raises(ValueError) as said:
        kinds[0](2)(x)
    given = f"{tuple(x.shape)} of {x.dtype}"
    assert str(said.value) == f"{name} wants floats x (..., H, W), got {given}"


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 0, 4), (2, 3, 4, 0)])
def test_a_global_mean_refuses_no_image(shape):
    with pytest.raises(ValueError) as said:
        GlobalAvgPool2d()(torch.ones(shape))
    wanted = f"global_avg_pool2d wants x (..., H, W) with H, W ≥ 1, got {shape}"
    assert str(said.value) == wanted


# ---- the rest


def test_works_on_another_device(kinds):
    with torch.device("meta"):
        x = torch.ones(2, 3, 7, 8)
        for more in pads_of(kinds):
            y = kinds[0](3, 2, 1, ceil_mode=True, **more)(x)
            assert y.device.type == "meta" and y.shape == kinds[1](3, 2, 1, ceil_mode=True)(x).shape
        assert GlobalAvgPool2d()(x).device.type == "meta"


def test_says_what_it_is():
    assert repr(MaxPool2d(2)) == "MaxPool2d(2, stride=2, padding=0, ceil_mode=False)"
    assert repr(AvgPool2d((2, 3), 1, 1, True, False)) == (
        "AvgPool2d((2, 3), stride=1, padding=1, ceil_mode=True, count_include_pad=False)"
    )
    assert repr(GlobalAvgPool2d()) == "GlobalAvgPool2d()"
