"""Convolutional networks, before they have weights: ResNet and VGG.

Their weights follow from kernels and channels, their FLOPs from the size of
the picture too, and how far a unit sees from kernels and strides.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from lumen.count.config import Config
from lumen.count.conv import conv_flops, conv_params
from lumen.count.layers import linear_flops, linear_params, norm_params
from lumen.count.table import Row, Table
from lumen.count.whole import whole


class _Step(NamedTuple):
    """A convolution, with its channels in and out, or a pooling without.

    ``beside`` tells one that stands on a shortcut, beside the block.
    """

    stage: str
    kernel: int
    stride: int
    channels: tuple[int, int] | None = None
    beside: bool = False


class VisionConfig(Config):
    """A convolutional network that is not built yet."""

    NORMED = False

    def table(self) -> Table:
        """Say what each stage weighs."""
        stages = {}
        for step in self._steps():
            if step.channels:
                before = stages.get(step.stage, 0)
                stages[step.stage] = before + self._weights(step)
        rows = [Row(stage, (), n) for stage, n in stages.items()]
        for n_in, n_out in pairwise(self._head()):
            weights = linear_params(n_in, n_out)
            rows.append(Row("dense", (n_out, n_in), weights))
        return Table(tuple(rows))

    def layers(self) -> list[tuple[int, int]]:
        """List the kernel and stride of each convolution and pooling.

        As ``receptive_field`` wants them; a shortcut sees no further.
        """
        steps = self._steps()
        return [(s.kernel, s.stride) for s in steps if not s.beside]

    def flops(self, size: int = 224) -> int:
        """Count the FLOPs of the matrix products for one square picture.

        Norms, poolings, activations and sums are left out.
        """
        (n,) = whole(size=size)
        flops = 0
        for step in self._steps():
            if not step.beside:
                padded = n + 2 * ((step.kernel - 1) // 2)
                n = (padded - step.kernel) // step.stride + 1
            if step.channels:
                flops += n * n * conv_flops(*step.channels, step.kernel)
        dense = pairwise(self._head(n))
        return flops + sum(linear_flops(*widths) for widths in dense)

    def _weights(self, step: _Step) -> int:
        """A convolution with offsets, or with a BatchNorm instead."""
        norm = norm_params(step.channels[1]) if self.NORMED else 0
        bias = not self.NORMED
        return conv_params(*step.channels, step.kernel, bias=bias) + norm


@dataclass(frozen=True)
class ResNetConfig(VisionConfig):
    """Residual blocks of convolutions, with a BatchNorm behind each.

    A 7 × 7 convolution and a max-pool, each of stride 2, come before the
    stages; each stage but the first halves the sides and doubles the
    channels. A global mean and a dense layer read the last one.

    Args:
        blocks: how many there are in each stage.
        bottleneck: whether a block is 1 × 1, 3 × 3, 1 × 1, with four times
            the channels at its end, instead of 3 × 3 twice.
        n_classes: what the dense layer tells apart.
        in_channels: of the picture.
        width: channels of the stem, and of 3 × 3 in the first stage.
        source: where the numbers stand.

    Differs from:
        The paper's bottleneck strides in its first 1 × 1, this one in its
        3 × 3, as torchvision's does. The weights are the same.

    Source:
        He et al. 2016, Deep residual learning for image recognition,
        table 1.

    Example:
        >>> resnet = ResNetConfig((3, 4, 6, 3), bottleneck=True)
        >>> resnet.table()
        stem                       9,536
        stage 1                  215,808
        stage 2                1,219,584
        stage 3                7,098,368
        stage 4               14,964,736
        dense    1000 × 2048   2,049,000
        total                 25,557,032
        >>> resnet.flops(224)
        8178368512
        >>> from lumen.count import receptive_field
        >>> receptive_field(resnet.layers())[-1]
        (427, 32)
    """

    NORMED = True

    blocks: tuple[int, ...]
    bottleneck: bool = False
    n_classes: int = 1000
    in_channels: int = 3
    width: int = 64
    source: str = ""

    def _steps(self) -> Iterator[_Step]:
        yield _Step("stem", 7, 2, (self.in_channels, self.width))
        yield _Step("stem", 3, 2)
        n_in = self.width
        for i, blocks in enumerate(self.blocks):
            stage, width = f"stage {i + 1}", self.width * 2**i
            for block in range(blocks):
                stride = 2 if i > 0 and block == 0 else 1
                if self.bottleneck:
                    n_out = 4 * width
                    yield _Step(stage, 1, 1, (n_in, width))
                    yield _Step(stage, 3, stride, (width, width))
                    yield _Step(stage, 1, 1, (width, n_out))
                else:
                    n_out = width
                    yield _Step(stage, 3, stride, (n_in, width))
                    yield _Step(stage, 3, 1, (width, width))
                if stride > 1 or n_in != n_out:
                    ends = n_in, n_out
                    yield _Step(stage, 1, stride, ends, beside=True)
                n_in = n_out

    def _head(self, n: int = 1) -> tuple[int, ...]:
        """The widths of the dense layers; n × n places become one mean."""
        width = self.width * 2 ** (len(self.blocks) - 1)
        return width * (4 if self.bottleneck else 1), self.n_classes


@dataclass(frozen=True)
class VggConfig(VisionConfig):
    """Stages of 3 × 3 convolutions, and three dense layers.

    A max-pool halves the sides behind each stage, and the channels double
    up to eight times the first.

    Args:
        convolutions: how many there are in each stage.
        n_classes: what the last dense layer tells apart.
        in_channels: of the picture.
        width: channels of the first stage.
        n_hidden: numbers between the dense layers.
        grid: places on a side that the first dense layer reads.
        source: where the numbers stand.

    Raises:
        ValueError: ``flops`` of a picture that leaves another grid. Five
            stages leave 7 places of 224 to 255 pixels.

    Source:
        Simonyan and Zisserman 2015, Very deep convolutional networks for
        large-scale image recognition, table 1.

    Example:
        >>> vgg = VggConfig((2, 2, 3, 3, 3))
        >>> vgg.table()
        stage 1                     38,720
        stage 2                    221,440
        stage 3                  1,475,328
        stage 4                  5,899,776
        stage 5                  7,079,424
        dense    4096 × 25088  102,764,544
        dense    4096 × 4096    16,781,312
        dense    1000 × 4096     4,097,000
        total                  138,357,544
    """

    convolutions: tuple[int, ...]
    n_classes: int = 1000
    in_channels: int = 3
    width: int = 64
    n_hidden: int = 4096
    grid: int = 7
    source: str = ""

    def _steps(self) -> Iterator[_Step]:
        n_in = self.in_channels
        for i, convolutions in enumerate(self.convolutions):
            stage, n_out = f"stage {i + 1}", self._width(i)
            for _ in range(convolutions):
                yield _Step(stage, 3, 1, (n_in, n_out))
                n_in = n_out
            yield _Step(stage, 2, 2)

    def _width(self, i: int) -> int:
        """The channels of a stage."""
        return self.width * min(2**i, 8)

    def _head(self, n: int | None = None) -> tuple[int, ...]:
        """The widths of the dense layers, behind n × n places."""
        if n not in (None, self.grid):
            wanted = f"{self.grid} × {self.grid} places of the picture"
            raise ValueError(f"the head wants {wanted}, got {n} × {n}")
        width = self._width(len(self.convolutions) - 1)
        flat = width * self.grid**2
        return flat, self.n_hidden, self.n_hidden, self.n_classes
