"""What a transformer block costs: attention, an MLP, two norms.

Twelve d² of weights, eight of them in the MLP, unless keys are shared or
the MLP is not four times as wide.
"""

from lumen.count.attention import attention_flops, attention_params
from lumen.count.layers import linear_params, norm_params
from lumen.count.whole import whole


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
