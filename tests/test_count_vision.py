"""ResNet and VGG: their configurations against nets built from torch.nn, layer by layer."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lumen.count import MODELS, ResNetConfig, Row, VggConfig, count, receptive_field

RESNETS = {
    "resnet-18": ([2, 2, 2, 2], False),
    "resnet-34": ([3, 4, 6, 3], False),
    "resnet-50": ([3, 4, 6, 3], True),
    "resnet-101": ([3, 4, 23, 3], True),
}
# Simonyan and Zisserman, table 1: a number is the channels of a convolution, M a max-pool
VGGS = {
    "vgg-11": "64 M 128 M 256 256 M 512 512 M 512 512 M",
    "vgg-13": "64 64 M 128 128 M 256 256 M 512 512 M 512 512 M",
    "vgg-16": "64 64 M 128 128 M 256 256 256 M 512 512 512 M 512 512 512 M",
    "vgg-19": "64 64 M 128 128 M 256 256 256 256 M 512 512 512 512 M 512 512 512 512 M",
}


def normed(n_in, n_out, k, stride=1):
    return [nn.Conv2d(n_in, n_out, k, stride, k // 2, bias=False), nn.BatchNorm2d(n_out)]


class Block(nn.Module):
    def __init__(self, n_in, width, stride, bottleneck):
        super().__init__()
        if bottleneck:
            n_out = 4 * width
            layers = normed(n_in, width, 1) + [nn.ReLU()]
            layers += normed(width, width, 3, stride) + [nn.ReLU()]
            layers += normed(width, n_out, 1)
        else:
            n_out = width
            layers = normed(n_in, width, 3, stride) + [nn.ReLU()] + normed(width, width, 3)
        self.body = nn.Sequential(*layers)
        same = stride == 1 and n_in == n_out
        self.short = nn.Identity() if same else nn.Sequential(*normed(n_in, n_out, 1, stride))

    def forward(self, x):
        return (self.body(x) + self.short(x)).relu()


def resnet(depths, bottleneck, channels=3, width=64, classes=1000, pool=nn.MaxPool2d):
    """The trunk, and the head behind it."""
    layers = [*normed(channels, width, 7, 2), nn.ReLU(), pool(3, 2, 1)]
    n_in = width
    for stage, depth in enumerate(depths):
        inside = width * 2**stage
        for block in range(depth):
            stride = 2 if block == 0 and stage > 0 else 1
            layers.append(Block(n_in, inside, stride, bottleneck))
            n_in = inside * (4 if bottleneck else 1)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, classes)]
    return nn.Sequential(*layers), nn.Sequential(*head)


def vgg(plan, channels=3, grid=7, hidden=4096, classes=1000, pool=nn.MaxPool2d):
    layers, n_in = [], channels
    for word in plan.split():
        if word == "M":
            layers.append(pool(2, 2))
        else:
            layers += [nn.Conv2d(n_in, int(word), 3, padding=1), nn.ReLU()]
            n_in = int(word)
    head = [nn.Flatten(), nn.Linear(n_in * grid**2, hidden), nn.ReLU()]
    head += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return nn.Sequential(*layers), nn.Sequential(*head)


def built(name, **options):
    if name in VGGS:
        return vgg(VGGS[name], **options)
    return resnet(*RESNETS[name], **options)


NAMES = [*RESNETS, *VGGS]


@pytest.mark.parametrize("name", NAMES)
def test_a_net_weighs_and_computes_what_it_says(name):
    config = MODELS[name]
    with torch.device("meta"):
        trunk, head = built(name)
        assert config.parameters() == count(trunk).total + count(head).total
        sizes = (224, 225, 255) if name in VGGS else (224, 225, 97, 1)
        for size in sizes:
            with FlopCounterMode(display=False) as counter:
                head.eval()(trunk.eval()(torch.ones(1, 3, size, size)))
            assert config.flops(size) == counter.get_total_flops()
    assert config.flops() == config.flops(224)


def test_every_net_of_convolutions_is_built():
    nets = [name for name, config in MODELS.items() if isinstance(config, ResNetConfig | VggConfig)]
    assert nets == NAMES


@pytest.mark.parametrize("bottleneck", [False, True])
def test_a_small_resnet_of_other_sizes(bottleneck):
    config = ResNetConfig((1, 2, 1), bottleneck, n_classes=10, in_channels=1, width=4)
    trunk, head = resnet([1, 2, 1], bottleneck, channels=1, width=4, classes=10)
    assert config.parameters() == count(trunk).total + count(head).total
    with FlopCounterMode(display=False) as counter:
        assert head(trunk(torch.ones(2, 1, 8, 8))).shape == (2, 10)
    assert 2 * config.flops(8) == counter.get_total_flops()


def test_a_small_vgg_of_other_sizes():
    config = VggConfig((1, 2), n_classes=10, in_channels=1, width=4, n_hidden=5, grid=2)
    trunk, head = vgg("4 M 8 8 M", channels=1, grid=2, hidden=5, classes=10)
    assert config.parameters() == count(trunk).total + count(head).total
    with FlopCounterMode(display=False) as counter:
        assert head(trunk(torch.ones(1, 1, 9, 9))).shape == (1, 10)
    assert config.flops(9) == counter.get_total_flops()


def seen(trunk, size):
    """The first and last row of a picture that the middle unit of the map reads."""
    trunk = trunk.double().eval()
    for parameter in trunk.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    x = torch.ones(1, 1, size, size, dtype=torch.float64, requires_grad=True)
    y = trunk(x)
    middle = y.shape[-1] // 2
    (gradient,) = torch.autograd.grad(y[0, 0, middle, middle], x)
    rows = gradient[0, 0].abs().sum(1).nonzero()
    return rows.min().item(), rows.max().item()


@pytest.mark.parametrize(
    ("name", "r"),
    [("resnet-18", 435), ("resnet-50", 427), ("vgg-16", 212)],
)
def test_a_unit_of_the_last_map_sees_so_far(name, r):
    # facts_004, section 3; numbers.csv S03-058 to S03-060. The gradient of a max-pool takes one
    # place of each window, that of a mean takes them all: it shows the whole of what is read.
    config = MODELS[name]
    assert receptive_field(config.layers())[-1] == (r, 32)
    if name in VGGS:
        narrow = " ".join("M" if word == "M" else "1" for word in VGGS[name].split())
        trunk, _ = vgg(narrow, channels=1, pool=nn.AvgPool2d, hidden=1)
    else:
        trunk, _ = built(name, channels=1, width=1, pool=nn.AvgPool2d)
    first, last = seen(trunk, 768)
    assert last - first + 1 == r


def test_vgg_16_sees_less_than_its_picture():
    # numbers.csv S03-058
    assert receptive_field(MODELS["vgg-16"].layers())[-2:] == [(196, 16), (212, 32)]


def test_the_stem_of_resnet():
    # errata_004, E02
    assert MODELS["resnet-50"].layers()[:2] == [(7, 2), (3, 2)]
    assert receptive_field(MODELS["resnet-50"].layers())[:2] == [(7, 2), (11, 4)]


def test_where_the_weights_of_vgg_16_are():
    # numbers.csv EXT-019
    rows = MODELS["vgg-16"].table().rows
    dense = sum(row.weights for row in rows if row.name == "dense")
    assert dense == 123_642_856 and MODELS["vgg-16"].parameters() - dense == 14_714_688
    assert rows[5] == Row("dense", (4096, 25_088), 102_764_544)


def test_where_a_bottleneck_strides_changes_no_weight():
    # pytorch/vision#191: in its first 1 × 1, as in the paper, or in its 3 × 3
    block = Block(256, 128, 2, bottleneck=True)
    convolutions = [layer for layer in block.body if isinstance(layer, nn.Conv2d)]
    assert [layer.stride for layer in convolutions] == [(1, 1), (2, 2), (1, 1)]
    before = count(block).total
    convolutions[0].stride, convolutions[1].stride = (2, 2), (1, 1)
    assert block(torch.ones(2, 256, 8, 8)).shape == (2, 512, 4, 4)
    assert count(block).total == before


@pytest.mark.parametrize("size", [223, 256, 31, 1])
def test_the_head_of_vgg_reads_one_size_of_map(size):
    places = size // 32
    wanted = f"the head wants 7 × 7 places of the picture, got {places} × {places}"
    with pytest.raises(ValueError, match=wanted):
        MODELS["vgg-16"].flops(size)
    if places:
        assert replace(MODELS["vgg-16"], grid=places).flops(size) > 0


@pytest.mark.parametrize("bad", [0, -1, 2.0, True])
@pytest.mark.parametrize("name", ["resnet-18", "vgg-16"])
def test_refuses_a_picture_of_no_size(name, bad):
    with pytest.raises(ValueError, match=f"size wants a whole number ≥ 1, got {bad}"):
        MODELS[name].flops(bad)
