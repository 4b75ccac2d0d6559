"""What attention costs: weights, FLOPs, the scores, and the cache.

Weights and projections grow with d², the pairs of tokens with n².
"""

from math import prod

from lumen.count.layers import linear_flops, linear_params
from lumen.count.whole import whole


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
