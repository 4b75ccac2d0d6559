"""Arithmetic that fits in a head: what a transformer weighs and computes.

12 L d² weights and a vocabulary, 2 FLOPs for each weight and token, 6 to
train, and attention on top, which grows with the context.
"""

from lumen.count.config import StackConfig
from lumen.count.encoder import EncoderConfig
from lumen.count.layers import embedding_params, norm_params
from lumen.count.whole import whole


def transformer_params(
    d: int,
    layers: int,
    vocab: int,
    ffn_mult: int = 4,
    tie_embeddings: bool = True,
) -> int:
    """Count the weights of a plain decoder.

    ``layers · (4 · d² + 2 · ffn_mult · d² + 4 · d) + vocab · d``

    Attention takes 4 d², the MLP 2 · ffn_mult · d², two norms 4 d, and an
    untied head vocab · d once more. Left out are the final norm (2 d), all
    offsets, and positions. ``DecoderConfig`` has them, and shared keys and
    gates too.

    Example:
        >>> transformer_params(4096, 32, 128_000)
        6967263232
        >>> transformer_params(4096, 32, 128_000, tie_embeddings=False)
        7491551232
    """
    d, layers, vocab = whole(d=d, layers=layers, vocab=vocab)
    (ffn_mult,) = whole(ffn_mult=ffn_mult)
    block = 4 * d**2 + 2 * d * (ffn_mult * d) + 2 * norm_params(d)
    tables = embedding_params(vocab, d) * (1 if tie_embeddings else 2)
    return layers * block + tables


def flops_per_token(
    config: StackConfig,
    context: int,
    *,
    causal: bool = False,
) -> int:
    """Count the FLOPs of one token on its way forward.

    ``2 · N + 4 · n · d · L``, or ``2 · N + 2 · n · d · L`` where causal

    N counts the weights that multiply: ``matmul_parameters``. Looking up a
    row of a table is no arithmetic; the head is, tied or not. Scoring n
    keys and mixing n values takes 4 n d in each of L blocks.

    Args:
        config: of a decoder or an encoder.
        context: n, how many tokens one reads.
        causal: whether to count the mean over a text of n tokens, each of
            which reads itself and those before it: n / 2, or to be exact
            (n + 1) / 2. It is what a kernel computes that skips the rest.

    Raises:
        ValueError: there is no one stack that each token runs through, or
            an encoder should be causal.

    Example:
        >>> from lumen.count import MODELS
        >>> flops_per_token(MODELS["gpt2"], 0)
        247064064
        >>> flops_per_token(MODELS["gpt2"], 1024)
        284812800
    """
    _check(config, causal)
    (n,) = whole(context=context, least=0)
    pair = (2 if causal else 4) * config.d_model * config.n_layers
    return 2 * config.matmul_parameters() + n * pair


def training_flops(
    config: StackConfig,
    tokens: int,
    context: int = 0,
    *,
    causal: bool = False,
) -> int:
    """Count the FLOPs of training on so many tokens.

    ``6 · N · tokens``, and attention where a context is given

    Three times the way forward: the way back computes two products for
    each one, the gradient of its input and that of its weights.

    Example:
        >>> from lumen.count import MODELS
        >>> f"{training_flops(MODELS['gpt2'], 10**10):.2e}"
        '7.41e+18'
    """
    (tokens,) = whole(tokens=tokens, least=0)
    return 3 * tokens * flops_per_token(config, context, causal=causal)


def crossover(
    config: StackConfig,
    part: str = "block",
    *,
    causal: bool = False,
) -> int:
    """Find the context at which attention costs as much as a part.

    ``n = N_part / (2 · d)``, or ``n = N_part / d`` where causal, rounded up

    Attention here is what grows with n: scoring and mixing, 4 n d. With
    keys for each head and an MLP four times as wide, they meet the four
    projections at n = 2 d, the MLP at 4 d, the whole block at 6 d, and
    with the causal saving at 4 d, 8 d and 12 d. Projections, scoring and
    mixing together meet the MLP at 4 d − 2 d = 2 d.

    Args:
        config: of a decoder or an encoder.
        part: "projections", "mlp" or "block", which is both.
        causal: as in ``flops_per_token``.

    Raises:
        ValueError: as in ``flops_per_token``, or there is no such part.

    Example:
        >>> from lumen.count import MODELS
        >>> gpt2 = MODELS["gpt2"]
        >>> [crossover(gpt2, part) // 768 for part in ("mlp", "block")]
        [4, 6]
        >>> crossover(gpt2, causal=True)
        9216
    """
    _check(config, causal)
    parts = config.matrices()
    parts["block"] = sum(parts.values())
    if part not in parts:
        raise ValueError(f"part wants one of {[*parts]}, got {part!r}")
    per_key = (1 if causal else 2) * config.d_model
    return -(-parts[part] // per_key)


def _check(config: StackConfig, causal: bool) -> None:
    """Refuse what has not one stack for all tokens, and no such mask."""
    if not isinstance(config, StackConfig):
        wanted = "a DecoderConfig or an EncoderConfig"
        given = type(config).__name__
        raise ValueError(f"config wants {wanted}, got {given}")
    if causal and isinstance(config, EncoderConfig):
        raise ValueError("an encoder reads both ways: it is never causal")
