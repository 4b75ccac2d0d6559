"""Pooling: keep the news of a neighbourhood, drop its exact place.

A small shift leaves the maximum of a window as it was only while the peak
stays in that window and nothing larger comes in. With the usual stride, the
windows do not overlap and each pooling halves height and width. Nothing is
learned here.
"""

import torch
from torch import Tensor, nn

Size = int | tuple[int, int]


def max_pool2d(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    *,
    ceil_mode: bool = False,
) -> Tensor:
    """Keep the largest number of every window.

    ``y[i, j] = max_u,v x[s·i + u, s·j + v]``

    The gradient goes to the largest number alone; of equal ones, to the
    first in reading order. What is padded never wins: it is −inf.

    Args:
        x: images of floating-point numbers.
        kernel_size: pixels of a window, one number or (k_h, k_w).
        stride: pixels from one window to the next; None is kernel_size.
        padding: pixels around the image, at most half a window.
        ceil_mode: keep a last window that hangs over the edge, if it starts
            inside the image or its padding before it.

    Shape:
        (..., H, W) → (..., H', W'), H' = ⌊(H + 2 p − k_h) / s⌋ + 1, or ⌈ ⌉

    Raises:
        ValueError: a setting has no sense, there are no two axes, or the
            padded image is smaller than a window.

    Example:
        >>> x = torch.tensor([[1.0, 5.0, 2.0], [3.0, 0.0, 4.0]])
        >>> max_pool2d(x, 2, stride=1)
        tensor([[5., 5.]])
    """
    how = _settings("max_pool2d", kernel_size, stride, padding)
    kernel, stride, padding = how
    ends = _ends("max_pool2d", x, kernel, stride, padding, ceil_mode)
    x = _pad(x, padding, ends, -torch.inf)
    # the first of the firsts is the first in reading order
    x = x.unfold(-1, kernel[1], stride[1]).max(-1).values
    return x.unfold(-2, kernel[0], stride[0]).max(-1).values


def avg_pool2d(
    x: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Take the mean of every window.

    ``y[i, j] = Σ_u,v x[s·i + u, s·j + v] / n[i, j]``

    n is the number of places in the window: k_h · k_w, less those beyond
    the padding, and, if asked, less those of the padding too.

    Args:
        x: images of floating-point numbers.
        kernel_size: pixels of a window, one number or (k_h, k_w).
        stride: pixels from one window to the next; None is kernel_size.
        padding: zeros around the image, at most half a window.
        ceil_mode: keep a last window that hangs over the edge, if it starts
            inside the image or its padding before it.
        count_include_pad: whether the zeros of the padding count as numbers.

    Shape:
        (..., H, W) → (..., H', W'), H' = ⌊(H + 2 p − k_h) / s⌋ + 1, or ⌈ ⌉

    Raises:
        ValueError: as in ``max_pool2d``.

    Example:
        >>> x = torch.tensor([[1.0, 5.0], [3.0, 3.0]])
        >>> avg_pool2d(x, 2), avg_pool2d(x, 2, padding=1)
        (tensor([[3.]]), tensor([[0.2500, 1.2500],
                [0.7500, 0.7500]]))
    """
    how = _settings("avg_pool2d", kernel_size, stride, padding)
    kernel, stride, padding = how
    ends = _ends("avg_pool2d", x, kernel, stride, padding, ceil_mode)
    total = _window_sums(_pad(x, padding, ends, 0.0), kernel, stride)
    beyond = [e - p for e, p in zip(ends, padding, strict=True)]
    if not any(beyond if count_include_pad else ends):
        return total / (kernel[0] * kernel[1])
    counted = x.new_ones(x.shape[-2:])
    counted = _pad(counted, padding, padding, float(count_include_pad))
    counted = _pad(counted, (0, 0), beyond, 0.0)
    return total / _window_sums(counted, kernel, stride)


def global_avg_pool2d(x: Tensor) -> Tensor:
    """Take the mean of every plane.

    ``y = Σ_i,j x[i, j] / (H · W)``

    Shape:
        (..., H, W) → (...)

    Raises:
        ValueError: there are no two axes, or one of them is empty.

    Example:
        >>> global_avg_pool2d(torch.tensor([[[1.0, 5.0], [3.0, 3.0]]]))
        tensor([3.])
    """
    if x.ndim < 2 or 0 in x.shape[-2:]:
        wanted, given = "x (..., H, W) with H, W ≥ 1", tuple(x.shape)
        raise ValueError(f"global_avg_pool2d wants {wanted}, got {given}")
    return x.mean(dim=(-2, -1))


class MaxPool2d(nn.Module):
    """Keep the largest number of every window of an image.

    ``y[i, j] = max_u,v x[s·i + u, s·j + v]``

    Args:
        kernel_size: pixels of a window, one number or (k_h, k_w).
        stride: pixels from one window to the next; None is kernel_size.
        padding: pixels of −inf around the image, at most half a window.
        ceil_mode: keep a last window that hangs over the edge.

    Shape:
        (..., H, W) → (..., H', W'), H' = ⌊(H + 2 p − k_h) / s⌋ + 1, or ⌈ ⌉

    Weights:
        ``0``

    Cost:
        ``k_h · k_w - 1`` comparisons per number of the output.

    Raises:
        ValueError: a setting has no sense, x has no two axes, or the padded
            image is smaller than a window.

    Differs from:
        ``torch.nn.MaxPool2d``: no dilation, so ceil_mode wants its name; no
        indices to return; any number of axes before H. Where a border window
        holds nothing but −inf, the gradient may fall on the padding.

    Source:
        Weng, Ahuja and Huang (1992), Cresceptron; with Scherer, Müller and
        Behnke (2010), Evaluation of Pooling Operations in Convolutional
        Architectures for Object Recognition, section 3.2.

    Example:
        >>> MaxPool2d(2)(torch.ones(1, 64, 32, 32)).shape
        torch.Size([1, 64, 16, 16])
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        *,
        ceil_mode: bool = False,
    ):
        _settings("MaxPool2d", kernel_size, stride, padding)
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        how = (self.kernel_size, self.stride, self.padding)
        return max_pool2d(x, *how, ceil_mode=self.ceil_mode)

    def extra_repr(self) -> str:
        said = f"{self.kernel_size}, stride={self.stride}"
        said += f", padding={self.padding}"
        return f"{said}, ceil_mode={self.ceil_mode}"


class AvgPool2d(nn.Module):
    """Take the mean of every window of an image.

    ``y[i, j] = Σ_u,v x[s·i + u, s·j + v] / n[i, j]``

    Args:
        kernel_size: pixels of a window, one number or (k_h, k_w).
        stride: pixels from one window to the next; None is kernel_size.
        padding: zeros around the image, at most half a window.
        ceil_mode: keep a last window that hangs over the edge.
        count_include_pad: whether the zeros of the padding count as numbers.

    Shape:
        (..., H, W) → (..., H', W'), H' = ⌊(H + 2 p − k_h) / s⌋ + 1, or ⌈ ⌉

    Weights:
        ``0``

    Cost:
        ``k_h · k_w`` FLOPs per number of the output: adds and a division.

    Raises:
        ValueError: a setting has no sense, x has no two axes, or the padded
            image is smaller than a window.

    Differs from:
        ``torch.nn.AvgPool2d``: no divisor of one's own, and any number of
        axes before H.

    Source:
        LeCun et al. (1989), Handwritten Digit Recognition with a
        Back-Propagation Network, section 3.

    Example:
        >>> AvgPool2d(2)(torch.ones(1, 64, 32, 32)).shape
        torch.Size([1, 64, 16, 16])
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        _settings("AvgPool2d", kernel_size, stride, padding)
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        how = (self.kernel_size, self.stride, self.padding, self.ceil_mode)
        return avg_pool2d(x, *how, self.count_include_pad)

    def extra_repr(self) -> str:
        said = f"{self.kernel_size}, stride={self.stride}"
        said += f", padding={self.padding}, ceil_mode={self.ceil_mode}"
        return f"{said}, count_include_pad={self.count_include_pad}"


class GlobalAvgPool2d(nn.Module):
    """Take the mean of every plane: one number for each channel.

    ``y = Σ_i,j x[i, j] / (H · W)``

    Where a thing stood no longer matters, and images of any size give the
    same number of features to the dense layer that follows.

    Args:
        none

    Shape:
        (B, C, H, W) → (B, C)

    Weights:
        ``0``

    Cost:
        ``H · W`` FLOPs per number of the output: adds and a division.

    Raises:
        ValueError: x has no two axes, or one of them is empty.

    Differs from:
        ``torch.nn.AdaptiveAvgPool2d(1)``, which keeps two axes of length 1.

    Source:
        Lin, Chen and Yan (2013), Network in Network, section 3.2.

    Example:
        >>> GlobalAvgPool2d()(torch.ones(1, 512, 7, 7)).shape
        torch.Size([1, 512])
    """

    def forward(self, x: Tensor) -> Tensor:
        return global_avg_pool2d(x)


def _window_sums(x: Tensor, kernel, stride) -> Tensor:
    x = x.unfold(-1, kernel[1], stride[1]).sum(-1)
    return x.unfold(-2, kernel[0], stride[0]).sum(-1)


def _pad(x: Tensor, starts, ends, value: float) -> Tensor:
    """Put a value around an image: above and left, below and right."""
    sides = [starts[1], ends[1], starts[0], ends[0]]
    return torch.constant_pad_nd(x, sides, value) if any(sides) else x


def _ends(layer: str, x: Tensor, kernel, stride, padding, ceil_mode):
    """How far the windows reach beyond the image, below and to the right."""
    if x.ndim < 2 or not x.is_floating_point():
        given = f"{tuple(x.shape)} of {x.dtype}"
        raise ValueError(f"{layer} wants floats x (..., H, W), got {given}")
    ends, padded = list(padding), []
    for axis, size in enumerate(x.shape[-2:]):
        k, s, p = kernel[axis], stride[axis], padding[axis]
        padded.append(size + 2 * p)
        left = (size + 2 * p - k) % s  # pixels after the last whole window
        start = size + 2 * p - left - k + s  # of the one that hangs over
        if ceil_mode and left and start < size + p:
            ends[axis] += s - left
    if padded[0] < kernel[0] or padded[1] < kernel[1]:
        wanted = f"a padded image of at least {tuple(kernel)}"
        raise ValueError(f"{layer} wants {wanted}, got {tuple(padded)}")
    return ends


def _settings(layer: str, kernel_size, stride, padding):
    """Window, stride and padding, each as (down, across)."""
    stride = kernel_size if stride is None else stride
    named = {"kernel_size": kernel_size, "stride": stride}
    named["padding"] = padding
    pairs = []
    for name, value in named.items():
        least = 0 if name == "padding" else 1
        pair = (value, value) if type(value) is int else value
        whole = isinstance(pair, tuple | list) and len(pair) == 2
        if not whole or any(type(v) is not int or v < least for v in pair):
            wanted = f"whole {name} ≥ {least}, one number or two"
            raise ValueError(f"{layer} wants {wanted}, got {value!r}")
        pairs.append(tuple(pair))
    kernel, stride, padding = pairs
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        wanted = f"padding of at most half of {kernel}"
        raise ValueError(f"{layer} wants {wanted}, got {padding}")
    return kernel, stride, padding
