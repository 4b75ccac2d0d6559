"""Normalisation: bring numbers back to one scale.

LayerNorm and RMSNorm look at one token at a time, along the last axis. No
other token and no other example takes part. BatchNorm looks at one channel
at a time, across all examples and places: only the averaged axes differ.
"""

import torch
from torch import Tensor, nn


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each row to mean 0 and variance 1, then scale and shift it.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    The mean comes first and the variance second, as the mean square of what
    is left. The one-pass form E[x²] − E[x]² loses every digit once the mean
    is large against the spread, and can come out negative.

    Args:
        x: the rows; the last axis is normalised.
        weight: the gain of each coordinate, or None.
        bias: the offset of each coordinate, or None.
        eps: added to the variance, inside the root.

    Shape:
        x (..., d), weight (d), bias (d) → (..., d)

    Example:
        >>> layer_norm(torch.tensor([1.0, 0.0, 0.0, 0.0]))
        tensor([ 1.7320, -0.5773, -0.5773, -0.5773])
    """
    d = x.shape[-1]  # not mean(): its gradient would divide all of x by d
    centred = x - x.sum(dim=-1, keepdim=True) / d
    variance = centred.square().sum(dim=-1, keepdim=True) / d
    y = centred * torch.rsqrt(variance + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y.add_(bias)


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Bring each row to mean square 1, then scale each coordinate.

    ``y = x / √(mean(x²) + eps) ⊙ weight``

    Args:
        x: the rows; the last axis is normalised.
        weight: the gain of each coordinate, or None.
        eps: added to the mean square, inside the root.

    Shape:
        x (..., d), weight (d) → (..., d)

    Example:
        >>> rms_norm(torch.tensor([3.0, 4.0, 0.0, 0.0]))
        tensor([1.2000, 1.6000, 0.0000, 0.0000])
    """
    mean_square = x.square().sum(dim=-1, keepdim=True) / x.shape[-1]
    y = x * torch.rsqrt(mean_square + eps)
    return y if weight is None else y * weight


def batch_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    moments: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Bring each channel to one scale, and say by which mean and variance.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    μ and σ² are taken over every axis but axis 1. The variance is biased:
    divided by the n numbers seen, not by n − 1.

    Args:
        x: the examples; axis 1 holds the channels.
        weight: the gain of each channel, or None.
        bias: the offset of each channel, or None.
        eps: added to the variance, inside the root.
        moments: μ and σ² to use in place of those of x.

    Shape:
        x (B, C, ...), all others (C) → (B, C, ...) and two of (C)

    Example:
        >>> batch_norm(torch.tensor([[1.0], [3.0]]))[0].flatten()
        tensor([-1.0000,  1.0000])
        >>> batch_norm(torch.tensor([[1.0], [3.0]]))[1]
        (tensor([2.]), tensor([1.]))
    """
    axes, n = [0, *range(2, x.ndim)], x.numel() // x.shape[1]
    mean, variance = moments or (x.sum(axes) / n, None)
    centred = x - _per_channel(mean, x)
    if variance is None:
        variance = centred.square().sum(axes) / n
    scale = torch.rsqrt(variance + eps)
    scale = scale if weight is None else scale * weight
    y = centred * _per_channel(scale, x)
    y = y if bias is None else y.add_(_per_channel(bias, x))
    return y, (mean, variance)


class LayerNorm(nn.Module):
    """Bring each token to mean 0 and variance 1, then to a learned scale.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    μ and σ² are the mean and the variance (divided by d, not d − 1) of the
    d numbers of one token. A constant token has variance 0 and comes out as
    ``bias``, thanks to eps.

    Args:
        d: numbers in a token.
        eps: added to the variance, inside the root.

    Shape:
        (..., d) → (..., d)

    Weights:
        ``2 · d``: the gains start at 1, the offsets at 0.

    Cost:
        ``7 · d`` FLOPs per position: two means, subtract, square, scale,
        gain, offset.

    Raises:
        ValueError: d is below 1, eps is negative, or x is not d wide.

    Differs from:
        ``torch.nn.LayerNorm``: one axis only, and in float16 the squares
        are not taken in float32, so they overflow beyond 255.

    Source:
        Ba, Kiros and Hinton (2016), Layer Normalization, section 3.

    Example:
        >>> x = torch.tensor([[2.0, 4.0, 6.0, 8.0], [5.0, 5.0, 5.0, 5.0]])
        >>> LayerNorm(4)(x).detach()
        tensor([[-1.3416, -0.4472,  0.4472,  1.3416],
                [ 0.0000,  0.0000,  0.0000,  0.0000]])
    """

    def __init__(self, d: int, eps: float = 1e-5):
        _check_sizes("LayerNorm", d, eps)
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))
        self.bias = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        _check_width("LayerNorm", x, len(self.weight))
        return layer_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class RMSNorm(nn.Module):
    """Bring each token to mean square 1, then to a learned scale.

    ``y = x / √(mean(x²) + eps) ⊙ weight``

    LayerNorm without the mean and without the offset: one reduction instead
    of two, d weights instead of 2 d.

    Args:
        d: numbers in a token.
        eps: added to the mean square, inside the root.

    Shape:
        (..., d) → (..., d)

    Weights:
        ``d``: the gains start at 1.

    Cost:
        ``4 · d`` FLOPs per position: square, mean, scale, gain.

    Raises:
        ValueError: d is below 1, eps is negative, or x is not d wide.

    Differs from:
        ``torch.nn.RMSNorm``: its eps is by default the spacing of the
        number format at 1, 1.2e-7 in float32. Llama 2 uses 1e-5. In float16
        the squares are not taken in float32.

    Source:
        Zhang and Sennrich (2019), Root Mean Square Layer Normalization,
        section 4.

    Example:
        >>> RMSNorm(4)(torch.tensor([3.0, 4.0, 0.0, 0.0])).detach()
        tensor([1.2000, 1.6000, 0.0000, 0.0000])
    """

    def __init__(self, d: int, eps: float = 1e-6):
        _check_sizes("RMSNorm", d, eps)
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        _check_width("RMSNorm", x, len(self.weight))
        return rms_norm(x, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class _BatchNorm(nn.Module):
    """What BatchNorm1d and BatchNorm2d share: all but the shapes."""

    shapes: tuple[str, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
    ):
        wild = momentum is not None and not 0 <= momentum <= 1
        if num_features < 1 or not eps >= 0 or wild:
            wanted = "num_features ≥ 1, eps ≥ 0, momentum in [0, 1] or None"
            given = f"{num_features}, {eps}, {momentum}"
            name = type(self).__name__
            raise ValueError(f"{name} wants {wanted}, got {given}")
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        known = (self.running_mean, self.running_var)
        y, seen = batch_norm(
            x,
            self.weight,
            self.bias,
            self.eps,
            moments=None if self.training else known,
        )
        if self.training:
            self._remember(*seen, x.numel() // x.shape[1])
        return y

    def extra_repr(self) -> str:
        size = f"{len(self.weight)}, eps={self.eps}"
        return f"{size}, momentum={self.momentum}"

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, n: int) -> None:
        self.num_batches_tracked += 1
        rate = self.momentum
        if rate is None:
            rate = 1 / self.num_batches_tracked.to(self.running_mean.dtype)
        unbiased = variance * (n / (n - 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), rate)

    def _check(self, x: Tensor) -> None:
        name, channels = type(self).__name__, len(self.weight)
        given = tuple(x.shape)
        axes = [shape.count(",") + 1 for shape in self.shapes]
        if x.ndim not in axes or x.shape[1] != channels:
            wanted = " or ".join(self.shapes).replace("C", str(channels))
            raise ValueError(f"{name} wants x {wanted}, got {given}")
        if self.training and x.numel() < 2 * channels:
            wanted = "2 or more numbers in each channel to train on"
            raise ValueError(f"{name} wants {wanted}, got {given}")


class BatchNorm1d(_BatchNorm):
    """Bring each channel to one scale by what the batch shows of it.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    In training, μ and σ² are those of the batch, over all examples and
    places, and σ² is biased. They are also remembered in ``running_mean``
    and ``running_var``, the variance unbiased (times n / (n − 1)):
    ``running = (1 − momentum) · running + momentum · batch``. In eval mode
    the two are constants, and no example depends on another.

    A sequence (B, T, D) has its channels last and wants ``transpose(1, 2)``
    first. In training each position then sees all others, the later ones
    too, whatever mask attention has.

    Args:
        num_features: channels C.
        eps: added to the variance, inside the root.
        momentum: weight of the newest batch in what is remembered. None:
            all batches weigh the same.

    Shape:
        (B, C) or (B, C, T) → the same

    Weights:
        ``2 · num_features``: the gains start at 1, the offsets at 0. The
        three buffers are not weights.

    Cost:
        ``6 · num_features`` FLOPs per position in training: two means,
        subtract, square, scale, offset. 3 · num_features in eval.

    Raises:
        ValueError: num_features is below 1, eps is negative, momentum is
            outside [0, 1]; x is of another shape; or, in training, a
            channel has fewer than 2 numbers, of which there is no spread.

    Differs from:
        ``torch.nn.BatchNorm1d``: always with gain, offset and memory, and
        an empty batch is refused in training. In TensorFlow and in the
        usual exponential average ``momentum`` weighs the old value.

    Source:
        Ioffe and Szegedy (2015), Batch Normalization, sections 3 and 3.1.

    Example:
        >>> layer = BatchNorm1d(1)
        >>> layer(torch.tensor([[1.0], [2.0], [3.0], [4.0]])).flatten().data
        tensor([-1.3416, -0.4472,  0.4472,  1.3416])
        >>> layer.running_mean, layer.running_var
        (tensor([0.2500]), tensor([1.0667]))
    """

    shapes = ("(B, C)", "(B, C, T)")


class BatchNorm2d(_BatchNorm):
    """Bring each channel of images to one scale by what the batch shows.

    ``y = (x − μ) / √(σ² + eps) ⊙ weight + bias``

    As ``BatchNorm1d``, with B · H · W numbers in each channel. A filter
    means the same at every pixel, so all pixels share μ and σ².

    Args:
        num_features: channels C.
        eps: added to the variance, inside the root.
        momentum: weight of the newest batch in what is remembered. None:
            all batches weigh the same.

    Shape:
        (B, C, H, W) → the same

    Weights:
        ``2 · num_features``: the gains start at 1, the offsets at 0. The
        three buffers are not weights.

    Cost:
        ``6 · num_features`` FLOPs per pixel in training, 3 · num_features
        in eval.

    Raises:
        ValueError: as for ``BatchNorm1d``. One image is enough to train on
            as long as it has more than one pixel.

    Differs from:
        ``torch.nn.BatchNorm2d`` as ``BatchNorm1d`` from torch's.

    Source:
        Ioffe and Szegedy (2015), Batch Normalization, section 3.2.

    Example:
        >>> layer = BatchNorm2d(3)
        >>> layer(torch.zeros(1, 3, 4, 4)).shape
        torch.Size([1, 3, 4, 4])
    """

    shapes = ("(B, C, H, W)",)


def _per_channel(numbers: Tensor, x: Tensor) -> Tensor:
    # (C) → (C, 1, ...), so that it meets axis 1 of x
    return numbers.reshape(-1, *[1] * (x.ndim - 2))


def _check_sizes(layer: str, d: int, eps: float) -> None:
    if d < 1 or not eps >= 0:
        given = f"d={d}, eps={eps}"
        raise ValueError(f"{layer} wants d ≥ 1 and eps ≥ 0, got {given}")


def _check_width(layer: str, x: Tensor, d: int) -> None:
    if x.ndim == 0 or x.shape[-1] != d:
        given = tuple(x.shape)
        raise ValueError(f"{layer} wants x (..., {d}), got {given}")
