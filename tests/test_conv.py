"""lumen.conv against torch.nn.Conv1d, torch.nn.Conv2d and sums written out."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.conv import Conv1d, Conv2d, conv1d, conv2d
from lumen.count import conv_params, count, receptive_field
from lumen.dense import linear
from tests.oracle import agree, normal

PAIRS = {1: (Conv1d, nn.Conv1d), 2: (Conv2d, nn.Conv2d)}


def pair(n, *sizes, dtype=torch.float64, **settings):
    """Ours holds torch's weights."""
    torch.manual_seed(0)
    theirs = PAIRS[n][1](*sizes, dtype=dtype, **settings)
    ours = PAIRS[n][0](*sizes, **settings).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    params = [(p, dict(theirs.named_parameters())[name]) for name, p in ours.named_parameters()]
    return ours, theirs, params


# ---- against torch


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_equals_torch_with_every_setting(n, bias, groups, kernel):
    size = (9, 8)[:n]
    for stride, padding, dilation in itertools.product((1, 2, 3), (0, 1, 2), (1, 2)):
        how = {"stride": stride, "padding": padding, "dilation": dilation}
        layers = pair(n, 4, 8, kernel, groups=groups, bias=bias, **how)
        agree(*layers[:2], normal(2, 4, *size), params=layers[2])


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_same_equals_torch(n, groups, dilation, kernel):
    # pytorch/pytorch#67551, #3867: 9 stays 9 for an even kernel too, one more zero at the end
    size = (9, 6)[:n]
    layers = pair(n, 4, 4, kernel, groups=groups, dilation=dilation, padding="same")
    x = normal(2, 4, *size)
    assert layers[0](x).shape == x.shape
    agree(*layers[:2], x, params=layers[2])


def test_each_axis_has_settings_of_its_own():
    how = {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 3)}
    layers = pair(2, 4, 6, (2, 3), groups=2, **how)
    agree(*layers[:2], normal(3, 4, 7, 10), params=layers[2])
    layers = pair(2, 4, 6, [2, 3], padding="same", dilation=(3, 1))
    agree(*layers[:2], normal(3, 4, 7, 10), params=layers[2])


@settings(max_examples=60)
@given(st.data())
def test_equals_torch_for_any_shape(data):
    def whole(low, high):
        return data.draw(st.integers(low, high))

    n, groups = whole(1, 2), whole(1, 3)
    kernel = tuple(whole(1, 4) for _ in range(n))
    dilation = tuple(whole(1, 3) for _ in range(n))
    padding = tuple(whole(0, 3) for _ in range(n))
    stride = tuple(whole(1, 4) for _ in range(n))
    size = [
        max(1, d * (k - 1) + 1 - 2 * p) + whole(0, 5)
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    ]
    channels = groups * whole(1, 3), groups * whole(1, 3)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    ours, theirs, params = pair(n, *channels, kernel, **how)
    agree(ours, theirs, normal(whole(1, 3), channels[0], *size), params=params, tolerance=1e-11)


@pytest.mark.parametrize("n", [1, 2])
def test_equals_torch_in_float32(n):
    ours, theirs, params = pair(n, 16, 24, 3, padding=1, dtype=torch.float32)
    x = normal(4, 16, *(15, 12)[:n], dtype=torch.float32)
    agree(ours, theirs, x, params=params, tolerance=5e-5)


@pytest.mark.parametrize("n", [1, 2])
def test_the_functions_equal_those_of_torch(n):
    x, size = normal(2, 4, *(9, 8)[:n]), (3, 2)[:n]
    weight, bias = normal(6, 2, *size, seed=2), normal(6, seed=3)
    ours, theirs = ((conv1d, F.conv1d), (conv2d, F.conv2d))[n - 1]
    for args in [(), (2,), (2, 1), (2, 1, 2)]:
        for offset in (bias, None):
            agree(
                lambda *t, o=offset, a=args: ours(*t, o, *a, groups=2),
                lambda *t, o=offset, a=args: theirs(*t, o, *a, groups=2),
                x,
                weight,
            )


@pytest.mark.parametrize("n", [1, 2])
def test_an_empty_batch_gives_an_empty_batch(n):
    ours, theirs, params = pair(n, 4, 6, 3, padding=1, stride=2)
    agree(ours, theirs, normal(0, 4, *(9, 8)[:n]), params=params)


def test_takes_input_that_is_not_contiguous():
    ours, theirs, params = pair(2, 4, 6, 3)
    agree(ours, theirs, normal(7, 8, 4, 2).permute(3, 2, 0, 1), params=params)
    agree(ours, theirs, normal(2, 4, 14, 18)[:, :, ::2, 1::2], params=params)
    agree(ours, theirs, normal(1, 4, 7, 8).expand(3, -1, -1, -1), params=params)
    ours, theirs, params = pair(1, 4, 6, 3)
    agree(ours, theirs, normal(2, 9, 4).transpose(1, 2), params=params)


@pytest.mark.parametrize("n", [1, 2])
def test_what_comes_out_can_be_viewed(n):
    y = PAIRS[n][0](4, 6, 3)(torch.ones(2, 4, *(9, 8)[:n]))
    assert y.is_contiguous() and y.view(2, -1).shape[0] == 2


def test_the_input_stays_as_it_was():
    x = normal(1, 4, 5, 5, dtype=torch.float32)
    before = x.clone()
    Conv2d(4, 2, 1)(x).add_(1)
    Conv2d(4, 2, 3, padding=1)(x).add_(1)
    assert torch.equal(x, before)


def test_has_a_gradient_of_its_gradient():
    weight, bias = normal(4, 2, 2, 2, seed=2), normal(4, seed=3)
    tensors = [t.requires_grad_() for t in (normal(2, 4, 4, 3), weight, bias)]
    assert torch.autograd.gradgradcheck(lambda *t: conv2d(*t, 2, 1, 1, 2), tensors)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("groups", [1, 4])
def test_starts_as_torch_starts(n, groups):
    ours, theirs = PAIRS[n]
    torch.manual_seed(0)
    mine = ours(4, 8, 3, groups=groups).state_dict()
    torch.manual_seed(0)
    wanted = theirs(4, 8, 3, groups=groups).state_dict()
    assert list(mine) == list(wanted) == ["weight", "bias"]
    for name in mine:
        assert_close(mine[name], wanted[name], rtol=1e-6, atol=0)
    bound = (4 // groups * 3**n) ** -0.5
    big = ours(4, 4000, 3, groups=groups).weight
    assert 0.99 * bound < big.abs().max() <= bound
    assert big.var().item() == pytest.approx(bound**2 / 3, rel=0.05)


# ---- against what it says


def test_the_kernel_is_not_flipped():
    # pytorch/pytorch#117534: its ramp and its kernel, then both axes
    ramp, kernel = torch.arange(10.0).view(1, 1, 5, 2), torch.tensor([[[[1.0], [2.0]]]])
    assert conv2d(ramp, kernel)[0, 0].tolist() == [[4, 7], [10, 13], [16, 19], [22, 25]]
    flipped = conv2d(ramp, kernel.flip(-1, -2))
    assert flipped[0, 0].tolist() == [[2, 5], [8, 11], [14, 17], [20, 23]]
    x = torch.arange(15.0).view(1, 1, 5, 3)
    sum_of_diagonal = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    assert conv2d(x, sum_of_diagonal).shape == (1, 1, 4, 2)
    one = torch.tensor([[[[0.0, 0.0], [0.0, 1.0]]]])  # its last tap looks down and right
    assert conv2d(x, one)[0, 0].tolist() == [[4, 5], [7, 8], [10, 11], [13, 14]]
    assert conv2d(x, one.flip(-1, -2))[0, 0].tolist() == [[0, 1], [3, 4], [6, 7], [9, 10]]
    assert conv1d(torch.tensor([[[1.0, 2, 4]]]), torch.tensor([[[3.0, 1.0]]])).tolist() == [
        [[5, 10]]
    ]


def test_equals_the_sum_written_out():
    x, w, b = normal(2, 4, 6, 7), normal(6, 2, 2, 3, seed=2), normal(6, seed=3)
    y = conv2d(x, w, b, stride=(2, 1), dilation=(1, 2), groups=2)
    assert y.shape == (2, 6, 3, 3)
    for e, o, i, j in itertools.product(range(2), range(6), range(3), range(3)):
        total = b[o].item()
        for c, u, v in itertools.product(range(2), range(2), range(3)):
            total += (w[o, c, u, v] * x[e, o // 3 * 2 + c, 2 * i + u, j + 2 * v]).item()
        assert y[e, o, i, j].item() == pytest.approx(total, abs=1e-12)


def test_a_kernel_of_one_is_a_dense_layer_at_each_pixel():
    x, w, b = normal(2, 4, 5, 3), normal(6, 4, seed=2), normal(6, seed=3)
    dense = linear(x.permute(0, 2, 3, 1), w, b).permute(0, 3, 1, 2)
    assert_close(conv2d(x, w[:, :, None, None], b), dense, rtol=0, atol=1e-12)


def test_a_kernel_as_large_as_the_image_is_a_dense_layer():
    x, w = normal(2, 4, 5, 3), normal(6, 4, 5, 3, seed=2)
    wanted = linear(x.flatten(1), w.flatten(1))
    assert_close(conv2d(x, w).flatten(1), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [15, 16])
def test_the_gradient_is_a_transposed_convolution(size):
    # pytorch/pytorch#8816, tensorflow/tensorflow#2118: 15 and 16 both come to 8, so the way back
    # has to be told; what it adds is computed, not zero
    weight = normal(4, 2, 3, 3, seed=2)
    x = normal(1, 2, size, size).requires_grad_()
    y = conv2d(x, weight, stride=2, padding=1)
    assert y.shape == (1, 4, 8, 8)
    upstream = normal(1, 4, 8, 8, seed=1)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    how = {"stride": 2, "padding": 1}
    back = F.conv_transpose2d(upstream, weight, output_padding=size - 15, **how)
    assert back.shape == (1, 2, size, size)
    assert_close(gradient, back, rtol=0, atol=1e-12)
    assert_close(back[..., :15, :15], F.conv_transpose2d(upstream, weight, **how))
    assert (back[..., -1, :] != 0).all()


def test_groups_do_not_see_one_another():
    # yonghenglh6/DepthwiseConvolution#12
    x = normal(1, 6, 5, 5, dtype=torch.float32)
    layer = Conv2d(6, 12, 3, groups=3)
    changed = x.clone()
    changed[:, 2:4] += 1
    moved = (layer(changed) != layer(x)).flatten(2).any(-1)[0]
    assert moved.tolist() == [False] * 4 + [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("sizes", "groups", "weights"),
    [
        # yonghenglh6/DepthwiseConvolution#12, PiLab-CAU/ComputerVision-2401#59
        ((64, 128, 3), 1, 73_856),
        ((64, 128, 3), 32, 2_432),
        ((64, 64, 3), 64, 640),
        # facts_004, section 3
        ((3, 64, 3), 1, 1_792),
    ],
)
def test_weights(sizes, groups, weights):
    assert count(Conv2d(*sizes, groups=groups)).total == weights
    assert conv_params(*sizes, groups=groups) == weights


def test_sizes_of_a_small_network():
    # tensorflow/tensorflow#33824: 32 → 30 → 15 → 13 → 6 → 4, so 1024 numbers and not 576
    x = torch.ones(1, 3, 32, 32)
    x = Conv2d(32, 64, 3)(Conv2d(3, 32, 3)(x)[:, :, ::2, ::2])
    assert x.shape == (1, 64, 13, 13)
    assert Conv2d(64, 64, 3)(x[:, :, :12:2, :12:2]).flatten(1).shape == (1, 1024)


def test_only_one_convolution_of_a_block_takes_the_stride():
    # keon/3-min-pytorch#29, pytorch/vision#191
    x = torch.ones(1, 4, 16, 16)
    short = Conv2d(4, 8, 1, stride=2)(x)
    first = Conv2d(4, 8, 3, stride=2, padding=1)(x)
    assert Conv2d(8, 8, 3, padding=1)(first).shape == short.shape == (1, 8, 8, 8)
    assert Conv2d(8, 8, 3, stride=2, padding=1)(first).shape != short.shape
    for strides in [(2, 1), (1, 2)]:  # of the 1 × 1 or of the 3 × 3: one shape, one count
        a, b = Conv2d(4, 2, 1, stride=strides[0]), Conv2d(2, 2, 3, strides[1], padding=1)
        assert b(a(x)).shape == (1, 2, 8, 8) and count(a).total + count(b).total == 48


def test_an_even_kernel_with_equal_padding_grows_the_image():
    # pytorch/pytorch#45667
    x = torch.ones(1, 1, 9, 9)
    assert Conv2d(1, 1, 4, padding=2)(x).shape[-2:] == (10, 10)
    assert Conv2d(1, 1, 4, padding="same")(x).shape[-2:] == (9, 9)
    first = conv1d(torch.ones(1, 1, 9), torch.ones(1, 1, 4), padding="same")[0, 0]
    assert first.tolist() == [3, 4, 4, 4, 4, 4, 4, 3, 2]  # one zero before, two after


def test_shifts_go_through_where_no_border_is_near():
    # errata_004, E04 and E05
    x, w = normal(1, 1, 20), normal(1, 1, 3, seed=2)
    y = conv1d(x, w, padding="same")
    moved = conv1d(x.roll(1, -1), w, padding="same")
    assert_close(moved[..., 2:-1], y.roll(1, -1)[..., 2:-1], rtol=0, atol=1e-12)
    assert (moved - y.roll(1, -1))[..., [0, 1, -1]].abs().max() > 0.1
    round_trip = torch.cat([x, x[..., :2]], -1)
    shifted = torch.cat([x.roll(2, -1), x.roll(2, -1)[..., :2]], -1)
    halved = conv1d(round_trip, w, stride=2)  # the ring has no border
    assert_close(conv1d(shifted, w, stride=2), halved.roll(1, -1), rtol=0, atol=1e-12)
    by_one = torch.cat([x.roll(1, -1), x.roll(1, -1)[..., :2]], -1)
    for steps in range(10):
        gap = conv1d(by_one, w, stride=2) - halved.roll(steps, -1)
        assert gap.abs().max() > 0.1


def footprint(layers, size):
    """The inputs that the middle unit reads, by the gradient."""
    x = torch.zeros(1, 1, size, dtype=torch.float64, requires_grad=True)
    y = x
    for k, s, d in layers:
        y = conv1d(y, torch.ones(1, 1, k, dtype=torch.float64), stride=s, dilation=d)
    y[0, 0, y.shape[-1] // 2].backward()
    return x.grad[0, 0].nonzero().flatten()


@pytest.mark.parametrize(
    ("layers", "r", "read"),
    [
        ([(3, 1, 1)], 3, 3),  # errata_004, E01: k − 1 over both sides
        ([(3, 1, 2)], 5, 3),  # Fangyh09/pytorch-receptive-field#6
        ([(3, 1, d) for d in (1, 2, 4, 8)], 31, 31),
        ([(3, 1, 2)] * 4, 17, 9),
        ([(k, s, 1) for k, s in [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1)] * 2], 68, 68),
    ],
)
def test_receptive_field_is_the_footprint(layers, r, read):
    touched = footprint(layers, 256)
    assert (touched[-1] - touched[0] + 1).item() == r == receptive_field(layers)[-1][0]
    assert len(touched) == read


# ---- refusals


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", True, None, (), (1, 1, 1), (2, 0)])
@pytest.mark.parametrize("name", ["kernel_size", "stride", "dilation", "padding"])
def test_refuses_settings_without_sense(n, name, bad):
    if name == "padding" and bad in (0, (2, 0)) and bad is not False:
        bad = -1
    how = {"kernel_size": 3} | {name: bad}
    least = 0 if name == "padding" else 1
    with pytest.raises(ValueError) as said:
        PAIRS[n][0](4, 4, **how)
    wanted = f"Conv{n}d wants whole {name} ≥ {least}, one number or {n}, got {bad!r}"
    assert str(said.value) == wanted


def test_refuses_another_word_for_padding():
    with pytest.raises(ValueError, match="whole padding ≥ 0, one number or 2, got 'valid'"):
        Conv2d(1, 1, 3, padding="valid")


@pytest.mark.parametrize("layer", [Conv1d, Conv2d])
def test_same_refuses_a_stride(layer):
    # pytorch/pytorch#67551: so does torch
    with pytest.raises(ValueError, match="wants stride 1 for 'same', got 2"):
        layer(4, 4, 3, stride=2, padding="same")
    with pytest.raises(ValueError, match="padding='same' is not supported for strided"):
        nn.Conv2d(4, 4, 3, stride=2, padding="same")
    # TensorFlow's means ceil(n / s); with an odd kernel that is what half of it at each end gives
    for n in (8, 9):
        assert Conv1d(4, 4, 3, stride=2, padding=1)(torch.ones(1, 4, n)).shape[-1] == -(-n // 2)
    with pytest.raises(ValueError, match=r"conv2d wants stride 1 for 'same', got \(1, 2\)"):
        conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2), stride=(1, 2), padding="same")


@pytest.mark.parametrize("sizes", [(0, 4, 1), (4, 0, 1), (4, 4, 0), (4.0, 4, 1), (4, 4, True)])
def test_refuses_channels_without_sense(sizes):
    with pytest.raises(ValueError, match="Conv2d wants channels and groups ≥ 1, got in "):
        Conv2d(*sizes[:2], 3, groups=sizes[2])


def test_refuses_groups_that_do_not_divide():
    for n_in, n_out in [(4, 6), (6, 4)]:
        given = f"got in {n_in}, out {n_out}, groups 4"
        with pytest.raises(ValueError, match=f"Conv2d wants groups that divide its .*, {given}"):
            Conv2d(n_in, n_out, 3, groups=4)
    with pytest.raises(ValueError, match="conv1d wants groups that divide its channels, got in 4"):
        conv1d(torch.ones(1, 4, 9), torch.ones(3, 2, 2), groups=2)


@pytest.mark.parametrize("shape", [(), (3, 8, 8), (1, 4, 8, 8), (1, 3, 8, 8, 8)])
def test_refuses_another_input(shape):
    with pytest.raises(ValueError) as said:
        Conv2d(3, 4, 3)(torch.ones(shape))
    assert str(said.value) == f"conv2d wants x (B, 3, H, W), got {shape}"


@pytest.mark.parametrize("shape", [(3, 8), (1, 5, 8)])
def test_refuses_another_signal(shape):
    with pytest.raises(ValueError) as said:
        Conv1d(6, 4, 3, groups=2)(torch.ones(shape))
    assert str(said.value) == f"conv1d wants x (B, 6, T), got {shape}"


def test_refuses_an_image_smaller_than_the_kernel():
    with pytest.raises(ValueError, match=r"padded input of at least \(5, 5\), got \(4, 8\)"):
        Conv2d(1, 1, 3, dilation=2, padding=1)(torch.ones(1, 1, 2, 6))
    with pytest.raises(ValueError, match=r"conv1d wants a padded input of at least \(3,\), got"):
        Conv1d(1, 1, 3)(torch.ones(1, 1, 0))


def test_refuses_another_weight_or_bias():
    x = torch.ones(1, 3, 8, 8)
    for shape in [(4, 3, 2), (0, 3, 2, 2), (4, 3, 0, 2)]:
        with pytest.raises(ValueError, match=r"conv2d wants weight \(out, in / groups, k_h, k_w\)"):
            conv2d(x, torch.ones(shape))
    with pytest.raises(ValueError, match=r"conv1d wants weight \(out, in / groups, k\), got \(4,"):
        conv1d(x[0], torch.ones(4, 3))
    with pytest.raises(ValueError, match=r"conv2d wants bias \(4,\), got \(3,\)"):
        conv2d(x, torch.ones(4, 3, 2, 2), torch.ones(3))


# ---- the rest


@pytest.mark.parametrize("n", [1, 2])
def test_works_on_another_device(n):
    with torch.device("meta"):
        y = PAIRS[n][0](4, 8, 3, padding="same", groups=2)(torch.ones(2, 4, *(9, 8)[:n]))
    assert y.device.type == "meta" and y.shape == (2, 8, *(9, 8)[:n])


def test_says_what_it_is():
    assert repr(Conv2d(3, 4, 3)) == "Conv2d(3, 4, (3, 3))"
    assert repr(Conv1d(4, 4, 3, 2, 1, 2, 4, False)) == (
        "Conv1d(4, 4, (3,), stride=2, padding=1, dilation=2, groups=4, bias=False)"
    )
    assert repr(Conv2d(3, 4, 3, padding="same")) == "Conv2d(3, 4, (3, 3), padding='same')"
