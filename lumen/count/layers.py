"""What one layer costs: weights and FLOPs, as closed formulas.

A FLOP is one multiply or one add, so the product of an (n, k) and a (k, m)
matrix costs 2 n k m.
"""

from math import prod

from lumen.count.whole import whole


def linear_params(n_in: int, n_out: int, bias: bool = True) -> int:
    """Count the weights of a dense layer.

    ``n_in · n_out + n_out``

    Example:
        >>> linear_params(784, 100)
        78500
    """
    n_in, n_out = whole(n_in=n_in, n_out=n_out)
    return n_in * n_out + (n_out if bias else 0)


def linear_flops(n_in: int, n_out: int) -> int:
    """Count the FLOPs of a dense layer at one position.

    ``2 · n_in · n_out``

    An offset adds nothing: n products and an offset make n adds.

    Example:
        >>> linear_flops(784, 100)
        156800
    """
    n_in, n_out = whole(n_in=n_in, n_out=n_out)
    return 2 * n_in * n_out


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


def embedding_params(n_rows: int, d: int) -> int:
    """Count the weights of a table with a row for each id or position.

    ``n_rows · d``

    Example:
        >>> embedding_params(128_000, 4096)
        524288000
    """
    n_rows, d = whole(n_rows=n_rows, d=d)
    return n_rows * d


def norm_params(d: int, *, rms: bool = False) -> int:
    """Count the weights of a LayerNorm or BatchNorm, or of an RMSNorm.

    ``2 · d``, or ``d``

    Example:
        >>> norm_params(768), norm_params(768, rms=True)
        (1536, 768)
    """
    (d,) = whole(d=d)
    return d if rms else 2 * d


def norm_flops(d: int, *, rms: bool = False) -> int:
    """Count the FLOPs of a LayerNorm, or of an RMSNorm, at one position.

    ``7 · d``, or ``4 · d``

    Example:
        >>> norm_flops(768), norm_flops(768, rms=True)
        (5376, 3072)
    """
    (d,) = whole(d=d)
    return 4 * d if rms else 7 * d


RECURRENT = {"rnn": 1, "gru": 3, "lstm": 4}  # products with the state


def recurrent_params(
    kind: str,
    input_size: int,
    hidden_size: int,
    layers: int = 1,
    directions: int = 1,
    *,
    biases: int = 2,
) -> int:
    """Count the weights of an RNN, an LSTM or a GRU.

    ``k · H · (D + H + biases)``, k = 1, 4 or 3, for each layer and direction

    A layer above the first reads directions · H numbers instead of D.
    torch keeps two offsets for each product, textbooks one.

    Example:
        >>> recurrent_params("lstm", 512, 512)
        2101248
        >>> recurrent_params("lstm", 512, 512, biases=1)
        2099200
    """
    sizes = input_size, hidden_size, layers, directions
    rows, pairs = _recurrent(kind, *sizes)
    (biases,) = whole(biases=biases, least=0)
    if biases > 2:
        raise ValueError(f"biases wants 0, 1 or 2, got {biases}")
    return sum(rows * (n_in + n_h + biases) for n_in, n_h in pairs)


def recurrent_flops(
    kind: str,
    input_size: int,
    hidden_size: int,
    layers: int = 1,
    directions: int = 1,
) -> int:
    """Count the FLOPs of an RNN, an LSTM or a GRU at one position.

    ``2 · k · H · (D + H)``, for each layer and direction

    What the gates do to single numbers, some 10 H, is left out.

    Example:
        >>> recurrent_flops("lstm", 512, 512)
        4194304
    """
    sizes = input_size, hidden_size, layers, directions
    rows, pairs = _recurrent(kind, *sizes)
    return sum(2 * rows * (n_in + n_h) for n_in, n_h in pairs)


def batch_norm_flops(d: int, *, training: bool = True) -> int:
    """Count the FLOPs of a BatchNorm of d channels at one position.

    ``6 · d``, or ``3 · d`` in eval, where the statistics are constants

    Example:
        >>> batch_norm_flops(64), batch_norm_flops(64, training=False)
        (384, 192)
    """
    (d,) = whole(d=d)
    return 6 * d if training else 3 * d


def attention_params(
    d_model: int,
    n_heads: int,
    *,
    n_kv_heads: int | None = None,
    bias: bool = True,
) -> int:
    """Count the weights of multi-head attention: its four projections.

    ``2 · d · (d + d_kv) + 2 · (d + d_kv)``,
    ``d_kv = n_kv_heads · d / n_heads``

    That is 4 d² + 4 d when each query head has keys of its own, whatever
    the number of heads.

    Example:
        >>> attention_params(512, 8), attention_params(512, 1)
        (1050624, 1050624)
        >>> attention_params(4096, 32, n_kv_heads=8, bias=False)
        41943040
    """
    d, d_kv = _widths(d_model, n_heads, n_kv_heads)
    return 2 * linear_params(d, d, bias) + 2 * linear_params(d, d_kv, bias)


def projection_flops(
    tokens: int,
    d_model: int,
    n_heads: int,
    *,
    n_kv_heads: int | None = None,
    keys: int | None = None,
) -> int:
    """Count the FLOPs of the four projections of multi-head attention.

    ``4 · d · (n · d + s · d_kv)``

    n tokens ask, s tokens answer; None means s = n. It is 8 n d² then, when
    each query head has keys of its own.

    Example:
        >>> projection_flops(1024, 768, 12)
        4831838208
    """
    d, d_kv = _widths(d_model, n_heads, n_kv_heads)
    keys = tokens if keys is None else keys
    n, s = whole(tokens=tokens, keys=keys, least=0)
    return 2 * n * linear_flops(d, d) + 2 * s * linear_flops(d, d_kv)


def mixing_flops(
    tokens: int,
    d_model: int,
    *,
    keys: int | None = None,
    causal: bool = False,
) -> int:
    """Count the FLOPs of scoring all pairs and mixing the values.

    ``4 · pairs · d``, ``pairs = n · s``

    A score and a mix take 2 d_head each, and all heads together are d wide:
    their number does not matter. The softmax is left out; it adds about 5
    for each score. ``causal`` counts only the pairs that the mask leaves,
    about half; explicit products compute them all.

    Example:
        >>> mixing_flops(1024, 768)
        3221225472
        >>> mixing_flops(4, 1, causal=True) // 4  # 1 + 2 + 3 + 4 pairs
        10
    """
    (d,) = whole(d_model=d_model)
    keys = tokens if keys is None else keys
    n, s = whole(tokens=tokens, keys=keys, least=0)
    rows = min(n, s)  # earlier queries have no key behind them
    pairs = rows * s - rows * (rows - 1) // 2 if causal else n * s
    return 4 * pairs * d


def attention_flops(
    tokens: int,
    d_model: int,
    n_heads: int,
    *,
    n_kv_heads: int | None = None,
    keys: int | None = None,
    causal: bool = False,
) -> int:
    """Count the FLOPs of multi-head attention: projections and mixing.

    ``8 · n · d² + 4 · n² · d``, for n tokens that read one another

    Example:
        >>> attention_flops(1024, 768, 12)
        8053063680
    """
    size = {"n_kv_heads": n_kv_heads, "keys": keys}
    projections = projection_flops(tokens, d_model, n_heads, **size)
    mixing = mixing_flops(tokens, d_model, keys=keys, causal=causal)
    return projections + mixing


def mlp_params(
    d_model: int,
    d_ff: int | None = None,
    *,
    bias: bool = True,
    gated: bool = False,
) -> int:
    """Count the weights of an MLP, or of a gated one such as SwiGLU.

    ``2 · d · d_ff + d_ff + d``, or ``3 · d · d_ff``, which has no offsets

    None for d_ff means 4 d, or 8/3 d rounded up. Both come to 8 d².

    Example:
        >>> mlp_params(768), mlp_params(768, gated=True)
        (4722432, 4718592)
        >>> mlp_params(4096, 11_008, gated=True)
        135266304
    """
    d, d_ff = _inner(d_model, d_ff, gated)
    if gated:
        return 3 * linear_params(d, d_ff, bias=False)
    return linear_params(d, d_ff, bias) + linear_params(d_ff, d, bias)


def mlp_flops(
    d_model: int,
    d_ff: int | None = None,
    *,
    gated: bool = False,
) -> int:
    """Count the FLOPs of an MLP, or of a gated one, at one position.

    ``4 · d · d_ff``, or ``6 · d · d_ff``

    The activations are left out.

    Example:
        >>> mlp_flops(768), mlp_flops(768, gated=True)
        (9437184, 9437184)
    """
    d, d_ff = _inner(d_model, d_ff, gated)
    return (6 if gated else 4) * d * d_ff


def block_params(
    d_model: int,
    n_heads: int,
    d_ff: int | None = None,
    *,
    n_kv_heads: int | None = None,
    bias: bool = True,
    rms: bool = False,
    gated: bool = False,
) -> int:
    """Count the weights of a transformer block: attention, MLP, two norms.

    ``12 · d² + 13 · d`` with nothing but d_model and n_heads given

    Example:
        >>> block_params(64, 8), block_params(768, 12)
        (49984, 7087872)
        >>> llama = {"n_kv_heads": 8, "bias": False, "rms": True}
        >>> block_params(4096, 32, 14_336, gated=True, **llama)
        218112000
    """
    size = {"n_kv_heads": n_kv_heads, "bias": bias}
    attention = attention_params(d_model, n_heads, **size)
    mlp = mlp_params(d_model, d_ff, bias=bias, gated=gated)
    return attention + mlp + 2 * norm_params(d_model, rms=rms)


def block_flops(
    tokens: int,
    d_model: int,
    n_heads: int,
    d_ff: int | None = None,
    *,
    n_kv_heads: int | None = None,
    keys: int | None = None,
    causal: bool = False,
    gated: bool = False,
) -> int:
    """Count the FLOPs of the matrix products of a transformer block.

    ``24 · n · d² + 4 · n² · d``, for n tokens that read one another

    Norms, softmax, activations and sums are left out.

    Example:
        >>> block_flops(1024, 768, 12)
        17716740096
    """
    size = {"n_kv_heads": n_kv_heads, "keys": keys, "causal": causal}
    attention = attention_flops(tokens, d_model, n_heads, **size)
    return attention + int(tokens) * mlp_flops(d_model, d_ff, gated=gated)


def score_bytes(
    tokens: int,
    n_heads: int,
    *,
    keys: int | None = None,
    batch: int = 1,
    bytes_per_value: int = 4,
) -> int:
    """Count the bytes of the scores of one attention layer.

    ``batch · n_heads · n · s · bytes_per_value``

    The shares that the softmax makes of them take as much again.

    Example:
        >>> score_bytes(8192, 32, bytes_per_value=2) // 2**30
        4
    """
    keys = tokens if keys is None else keys
    n, s = whole(tokens=tokens, keys=keys, least=0)
    size = {"batch": batch, "bytes_per_value": bytes_per_value}
    return n * s * prod(whole(n_heads=n_heads, **size))


def kv_cache_bytes(
    tokens: int,
    *,
    layers: int,
    n_kv_heads: int,
    d_head: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Count the bytes of the keys and values kept of the tokens read.

    ``2 · layers · tokens · n_kv_heads · d_head · batch · bytes_per_value``

    Example:
        >>> kv_cache_bytes(1, layers=32, n_kv_heads=32, d_head=128)
        524288
    """
    (n,) = whole(tokens=tokens, least=0)
    heads = whole(layers=layers, n_kv_heads=n_kv_heads, d_head=d_head)
    size = whole(batch=batch, bytes_per_value=bytes_per_value)
    return 2 * n * prod(heads) * prod(size)


def _inner(
    d_model: int,
    d_ff: int | None,
    gated: bool,
) -> tuple[int, int]:
    """The width of a token, and that inside its MLP."""
    (d,) = whole(d_model=d_model)
    usual = -(-8 * d // 3) if gated else 4 * d
    (d_ff,) = whole(d_ff=usual if d_ff is None else d_ff)
    return d, d_ff


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


def _widths(
    d_model: int,
    n_heads: int,
    n_kv_heads: int | None,
) -> tuple[int, int]:
    """The width of all queries together, and that of all keys."""
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    d, h = whole(d_model=d_model, n_heads=n_heads)
    (h_kv,) = whole(n_kv_heads=n_kv_heads)
    if d % h:
        raise ValueError(f"n_heads must divide d_model, got {h} and {d}")
    if h % h_kv:
        given = f"{h_kv} and {h}"
        raise ValueError(f"n_kv_heads must divide n_heads, got {given}")
    return d, h_kv * (d // h)


def _recurrent(
    kind: str,
    input_size: int,
    hidden_size: int,
    layers: int,
    directions: int,
) -> tuple[int, list[tuple[int, int]]]:
    """The rows of a matrix, and the widths of input and state of each run."""
    if kind not in RECURRENT:
        raise ValueError(f"kind wants one of {[*RECURRENT]}, got {kind!r}")
    d, h = whole(input_size=input_size, hidden_size=hidden_size)
    layers, directions = whole(layers=layers, directions=directions)
    if directions > 2:
        raise ValueError(f"directions wants 1 or 2, got {directions}")
    widths = [d] + [directions * h] * (layers - 1)
    return RECURRENT[kind] * h, [(n, h) for n in widths] * directions
