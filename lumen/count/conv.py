"""What a convolution costs, and how far a stack of them sees.

Its weights do not depend on the picture, its FLOPs do: they are counted at
one position of the output.
"""

from math import prod

from lumen.count.whole import whole


def conv_params(
    in_channels: int,
    out_channels: int,
    kernel_size: int | tuple[int, ...],
    *,
    groups: int = 1,
    bias: bool = True,
) -> int:
    """Count the weights of a convolution.

    ``out_channels · (in_channels / groups) · k_h · k_w + out_channels``

    One number for the kernel is a square, (k,) a stretch of a signal.

    Example:
        >>> conv_params(3, 64, 3), conv_params(64, 128, 3)
        (1792, 73856)
        >>> conv_params(64, 64, 3, groups=64)
        640
    """
    channels = (in_channels, out_channels)
    taps, per_group, n_out = _kernels(*channels, kernel_size, groups)
    return n_out * per_group * taps + (n_out if bias else 0)


def conv_flops(
    in_channels: int,
    out_channels: int,
    kernel_size: int | tuple[int, ...],
    *,
    groups: int = 1,
) -> int:
    """Count the FLOPs of a convolution at one position of its output.

    ``2 · out_channels · (in_channels / groups) · k_h · k_w``

    Example:
        >>> conv_flops(3, 64, 3) * 224 * 224
        173408256
    """
    channels = (in_channels, out_channels)
    taps, per_group, n_out = _kernels(*channels, kernel_size, groups)
    return 2 * n_out * per_group * taps


def receptive_field(layers) -> list[tuple[int, int]]:
    """Follow how much of the input one unit reads, after each layer.

    ``r ← r + (k − 1) · d · j``, then ``j ← j · s``, from r = j = 1

    r is in pixels along one axis; j is the distance, in pixels, of two
    neighbouring units. The j that multiplies is the one of the layer's
    input. Padding changes neither, though near a border part of r is
    padding.

    Args:
        layers: convolutions and poolings in order, each as (kernel,
            stride) or (kernel, stride, dilation).

    Raises:
        ValueError: a layer has not two or three whole numbers ≥ 1.

    Example:
        >>> receptive_field([(7, 2), (3, 2)])  # the stem of ResNet
        [(7, 2), (11, 4)]
        >>> receptive_field([(3, 1, 1), (3, 1, 2), (3, 1, 4)])[-1]
        (15, 1)
    """
    r, j, after = 1, 1, []
    for layer in layers:
        if not isinstance(layer, tuple | list) or len(layer) not in (2, 3):
            wanted = "(kernel, stride) or (kernel, stride, dilation)"
            raise ValueError(f"a layer wants {wanted}, got {layer!r}")
        names = ("kernel", "stride", "dilation")
        k, s, *rest = whole(**dict(zip(names, layer, strict=False)))
        r += (k - 1) * (rest[0] if rest else 1) * j
        j *= s
        after.append((r, j))
    return after


def _kernels(n_in, n_out, kernel_size, groups) -> tuple[int, int, int]:
    """The taps of a kernel, the channels it reads, and how many there are."""
    one = not isinstance(kernel_size, tuple | list)
    sides = (kernel_size, kernel_size) if one else kernel_size
    taps = prod(whole(kernel_size=side)[0] for side in sides)
    n_in, n_out = whole(in_channels=n_in, out_channels=n_out)
    (groups,) = whole(groups=groups)
    if n_in % groups or n_out % groups:
        given = f"{groups} and {n_in}, {n_out}"
        raise ValueError(f"groups must divide the channels, got {given}")
    return taps, n_in // groups, n_out
