"""Convolution: one small kernel, the same at every place.

A dense layer gives each place weights of its own and has to learn a thing
anew wherever it appears. A convolution shares: it bets that what matters is
local, and means the same anywhere. The outputs move with the input,
exactly where no border is near and the stride divides the shift.

Every window is a column of numbers, every kernel a row: laid side by side
they make one matrix product. So each input number is copied once for each
tap of a kernel, for a few images at a time: what fits the processor's cache
need not go through memory.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

Sizes = int | Sequence[int]
AT_ONCE = 2**20  # numbers in the windows of the images that go together


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Lay kernels over every window of an image and sum the products.

    ``y[o, i, j] = b[o] + Σ_c,u,v w[o, c, u, v] · x[c, s·i + d·u, s·j + d·v]``

    The kernel is not flipped, so mathematics calls this cross-correlation.
    The row index counts from the top of the padded image.

    Args:
        x: images; one plane of numbers per channel.
        weight: one kernel for each output channel.
        bias: the offset of each output channel, or None.
        stride: pixels from one window to the next.
        padding: zeros around the image, on each side; or "same", which
            keeps the size at stride 1. An even reach is split in halves,
            of an odd one the larger part goes below and to the right.
        dilation: pixels from one tap of a kernel to the next.
        groups: equal parts of the channels that do not see one another.

    Shape:
        x (B, in, H, W), weight (out, in / groups, k_h, k_w), bias (out) →
        (B, out, H', W'), H' = ⌊(H + 2 p − d (k_h − 1) − 1) / s⌋ + 1

    Raises:
        ValueError: shapes do not fit, groups does not divide the channels,
            a setting has no sense, "same" comes with a stride, or the
            padded image is smaller than the kernel.

    Example:
        >>> x = torch.arange(16.0).view(1, 1, 4, 4)
        >>> conv2d(x, torch.tensor([[[[-1.0, 1.0], [0.0, 2.0]]]]))
        tensor([[[[11., 13., 15.],
                  [19., 21., 23.],
                  [27., 29., 31.]]]])
    """
    return _convolve(2, x, weight, bias, stride, padding, dilation, groups)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Lay kernels over every stretch of a signal and sum the products.

    ``y[o, i] = b[o] + Σ_c,u w[o, c, u] · x[c, s·i + d·u]``

    Args:
        x: signals; one row of numbers per channel.
        weight: one kernel for each output channel.
        bias: the offset of each output channel, or None.
        stride: steps from one window to the next.
        padding: zeros at each end, or "same", as in ``conv2d``.
        dilation: steps from one tap of a kernel to the next.
        groups: equal parts of the channels that do not see one another.

    Shape:
        x (B, in, T), weight (out, in / groups, k), bias (out) →
        (B, out, T'), T' = ⌊(T + 2 p − d (k − 1) − 1) / s⌋ + 1

    Raises:
        ValueError: as in ``conv2d``.

    Example:
        >>> x = torch.tensor([[[0.0, 0, 1, 1, 1, 0]]])
        >>> conv1d(x, torch.tensor([[[-1.0, 1.0]]]))  # where does it rise?
        tensor([[[ 0.,  1.,  0.,  0., -1.]]])
    """
    return _convolve(1, x, weight, bias, stride, padding, dilation, groups)


class _Conv(nn.Module):
    """What the two layers share; ``n`` is the number of axes to slide on."""

    n: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        name = type(self).__name__
        _check_channels(name, in_channels, out_channels, groups)
        kernel = _sizes(name, "kernel_size", kernel_size, self.n)
        _settings(name, kernel, stride, padding, dilation)
        super().__init__()
        self.stride, self.padding = stride, padding
        self.dilation, self.groups = dilation, groups
        per_group = in_channels // groups
        bound = 1 / math.sqrt(per_group * math.prod(kernel))
        weight = torch.empty(out_channels, per_group, *kernel)
        self.weight = nn.Parameter(weight.uniform_(-bound, bound))
        self.bias = None
        if bias:
            offset = torch.empty(out_channels)
            self.bias = nn.Parameter(offset.uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        how = (self.stride, self.padding, self.dilation, self.groups)
        return _convolve(self.n, x, self.weight, self.bias, *how)

    def extra_repr(self) -> str:
        n_out, n_in, *kernel = self.weight.shape
        said = f"{n_in * self.groups}, {n_out}, {tuple(kernel)}"
        plain = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        for name, default in plain.items():
            value = getattr(self, name)
            said += f", {name}={value!r}" if value != default else ""
        return said if self.bias is not None else f"{said}, bias=False"


class Conv2d(_Conv):
    """Slide learned kernels over an image, the same at every place.

    ``y[o, i, j] = b[o] + Σ_c,u,v w[o, c, u, v] · x[c, s·i + d·u, s·j + d·v]``

    The weights start uniform between −1/√n and 1/√n, n = in_channels /
    groups · k_h · k_w: the numbers that one output reads, as in ``Linear``.
    With a 1 × 1 kernel this is a ``Linear`` at every pixel; with groups =
    in_channels each channel keeps to itself ("depthwise").

    Args:
        in_channels: planes in.
        out_channels: planes out, one kernel each.
        kernel_size: pixels, one number or (k_h, k_w).
        stride: pixels from one window to the next.
        padding: zeros on each side, or "same".
        dilation: pixels from one tap to the next.
        groups: equal parts of the channels that do not see one another.
        bias: whether there is an offset b.

    Shape:
        (B, in_channels, H, W) → (B, out_channels, H', W'),
        H' = ⌊(H + 2 p − d (k_h − 1) − 1) / s⌋ + 1

    Weights:
        ``out_channels · (in_channels // groups) · k_h · k_w + out_channels``;
        without bias the last term goes. The size of the image is not in it.

    Cost:
        ``2 · out_channels · (in_channels // groups) · k_h · k_w`` FLOPs per
        position of the output, offset included. The windows take
        in_channels · k_h · k_w numbers per position, in memory while
        training.

    Raises:
        ValueError: a size has no sense, groups does not divide both channel
            counts, "same" comes with a stride, x has other channels, or the
            padded image is smaller than the kernel.

    Differs from:
        ``torch.nn.Conv2d``: zeros are the only padding, "valid" is written
        0, x needs its batch axis, and no fused kernel saves the memory of
        the windows. Names, shapes and, under one seed, starting values are
        the same.

    Source:
        LeCun, Bottou, Bengio and Haffner (1998), Gradient-Based Learning
        Applied to Document Recognition, section II.

    Example:
        >>> layer = Conv2d(3, 64, 3, stride=2, padding=1)
        >>> layer(torch.ones(1, 3, 32, 32)).shape
        torch.Size([1, 64, 16, 16])
    """

    n = 2


class Conv1d(_Conv):
    """Slide learned kernels along a signal, the same at every step.

    ``y[o, i] = b[o] + Σ_c,u w[o, c, u] · x[c, s·i + d·u]``

    Channels come before time, as in torch: a sequence (B, T, D) goes in as
    ``x.transpose(1, 2)``.

    Args:
        in_channels: rows in.
        out_channels: rows out, one kernel each.
        kernel_size: steps.
        stride: steps from one window to the next.
        padding: zeros at each end, or "same".
        dilation: steps from one tap to the next.
        groups: equal parts of the channels that do not see one another.
        bias: whether there is an offset b.

    Shape:
        (B, in_channels, T) → (B, out_channels, T'),
        T' = ⌊(T + 2 p − d (k − 1) − 1) / s⌋ + 1

    Weights:
        ``out_channels · (in_channels // groups) · k + out_channels``;
        without bias the last term goes.

    Cost:
        ``2 · out_channels · (in_channels // groups) · k`` FLOPs per step of
        the output, offset included.

    Raises:
        ValueError: as in ``Conv2d``.

    Differs from:
        ``torch.nn.Conv1d``, as ``Conv2d`` does from its own.

    Source:
        Waibel et al. (1989), Phoneme Recognition Using Time-Delay Neural
        Networks, section II.

    Example:
        >>> layer = Conv1d(8, 4, 3, padding="same", dilation=2)
        >>> layer(torch.ones(1, 8, 10)).shape
        torch.Size([1, 4, 10])
    """

    n = 1


def _convolve(n, x, weight, bias, stride, padding, dilation, groups):
    name = f"conv{n}d"
    _check_weight(name, n, weight, bias, groups)
    out, per_group, *kernel = weight.shape
    how = _settings(name, kernel, stride, padding, dilation)
    stride, pads, dilation = how
    _check_input(name, x, per_group * groups, kernel, pads, dilation)
    sides = [p for ends in reversed(pads) for p in ends]
    x = torch.constant_pad_nd(x, sides) if any(sides) else x
    steps = list(zip(kernel, stride, dilation, strict=True))
    pairs = zip(x.shape[2:], steps, strict=True)
    size = [(m - d * (k - 1) - 1) // s + 1 for m, (k, s, d) in pairs]
    reads = per_group * math.prod(kernel)
    at_once = max(1, AT_ONCE // (groups * reads * math.prod(size)))
    weight = weight.reshape(groups, out // groups, reads)
    # (in, *kernel, B, *size) → (groups, reads, B · H' · W')
    parts = [
        weight @ _windows(images, steps, size).view(groups, reads, -1)
        for images in x.split(at_once)
    ]
    # (groups, out / groups, B · H' · W') → (B, out, *size)
    parts = [y.view(out, -1, *size).transpose(0, 1) for y in parts]
    y = torch.cat(parts)
    return y if bias is None else y.add_(bias.view(-1, *[1] * n))


def _windows(x, steps, size):
    """For each tap a copy of x that starts with the number it reads first.

    (B, in, H, W) → (in, k_h, k_w, B, H', W')
    """
    x = x.transpose(0, 1)
    for i, (k, s, d) in enumerate(steps):
        reach = s * (size[i] - 1) + 1
        rest = [slice(None)] * (len(steps) - 1 - i)
        taps = [slice(d * u, d * u + reach, s) for u in range(k)]
        x = torch.stack([x[(..., tap, *rest)] for tap in taps], dim=1 + i)
    return x


def _sizes(layer: str, name: str, value: Sizes, n: int, least: int = 1):
    """One whole number for each axis."""
    values = [value] * n if isinstance(value, int) else value
    whole = isinstance(values, Sequence) and not isinstance(values, str)
    whole = whole and all(type(v) is int and v >= least for v in values)
    if not whole or len(values) != n:
        wanted = f"whole {name} ≥ {least}, one number or {n}"
        raise ValueError(f"{layer} wants {wanted}, got {value!r}")
    return list(values)


def _settings(layer: str, kernel, stride, padding, dilation):
    """Strides, padding at both ends, and dilations, for each axis."""
    n = len(kernel)
    strides = _sizes(layer, "stride", stride, n)
    dilations = _sizes(layer, "dilation", dilation, n)
    if padding != "same":
        sides = _sizes(layer, "padding", padding, n, least=0)
        return strides, [(p, p) for p in sides], dilations
    if any(s != 1 for s in strides):
        raise ValueError(f"{layer} wants stride 1 for 'same', got {stride}")
    reach = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    return strides, [(r // 2, r - r // 2) for r in reach], dilations


def _check_channels(layer: str, n_in: int, n_out: int, groups: int) -> None:
    counts = {"in": n_in, "out": n_out, "groups": groups}
    given = ", ".join(f"{name} {value!r}" for name, value in counts.items())
    if any(type(v) is not int or v < 1 for v in counts.values()):
        wanted = "channels and groups ≥ 1"
        raise ValueError(f"{layer} wants {wanted}, got {given}")
    if n_in % groups or n_out % groups:
        wanted = "groups that divide its channels"
        raise ValueError(f"{layer} wants {wanted}, got {given}")


def _check_weight(layer: str, n: int, weight, bias, groups: int) -> None:
    given = tuple(weight.shape)
    if weight.ndim != n + 2 or 0 in given:
        axes = ("k",) if n == 1 else ("k_h", "k_w")
        wanted = f"weight (out, in / groups, {', '.join(axes)})"
        raise ValueError(f"{layer} wants {wanted}, got {given}")
    _check_channels(layer, given[1] * groups, given[0], groups)
    if bias is not None and tuple(bias.shape) != given[:1]:
        wanted, given = f"bias ({given[0]},)", tuple(bias.shape)
        raise ValueError(f"{layer} wants {wanted}, got {given}")


def _check_input(layer, x, channels, kernel, pads, dilation) -> None:
    n, given = len(kernel), tuple(x.shape)
    if x.ndim != n + 2 or x.shape[1] != channels:
        axes = "T" if n == 1 else "H, W"
        wanted = f"x (B, {channels}, {axes})"
        raise ValueError(f"{layer} wants {wanted}, got {given}")
    padded = [m + sum(p) for m, p in zip(given[2:], pads, strict=True)]
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(m < span for m, span in zip(padded, spans, strict=True)):
        wanted = f"a padded input of at least {tuple(spans)}"
        raise ValueError(f"{layer} wants {wanted}, got {tuple(padded)}")
