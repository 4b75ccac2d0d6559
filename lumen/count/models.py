"""Whole models, before they have weights: a configuration each.

``GPT``, ``Bert`` and ``EncoderDecoder`` are built from these, and what they
will weigh can be told from them alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DecoderConfig:
    """A stack of causal blocks under a vocabulary: GPT-2, Llama, Mistral.

    Args:
        vocab_size: tokens V there are.
        d_model: numbers d in a token.
        n_layers: blocks L.
        n_heads: heads of queries.
        n_kv_heads: heads of keys and values. None: n_heads of them.
        d_ff: width inside the MLP. None: 4 d, or 8/3 d where it is gated.
        n_positions: tokens that fit; rows of the table if one is learned.
        positions: "learned", "rope" (halves) or "none".
        rope_base: as in ``rope``.
        norm: "layer" or "rms".
        eps: of the norms. None: 1e-5 or 1e-6, as the norms have it.
        mlp: "gelu", "gelu_tanh" or "swiglu".
        bias: whether projections and MLP have offsets.
        tied: whether the vocabulary's table also makes the logits.
        dropout: probability of dropping while training.
        source: where the numbers stand.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int | None = None
    d_ff: int | None = None
    n_positions: int = 1024
    positions: str = "learned"
    rope_base: float = 10000.0
    norm: str = "layer"
    eps: float | None = None
    mlp: str = "gelu_tanh"
    bias: bool = True
    tied: bool = True
    dropout: float = 0.0
    source: str = ""


@dataclass(frozen=True)
class EncoderConfig:
    """A stack of post-norm blocks that read both ways: BERT, MiniLM.

    Args:
        vocab_size: tokens V there are.
        d_model: numbers d in a token.
        n_layers: blocks L.
        n_heads: heads.
        d_ff: width inside the MLP. None: 4 d.
        n_positions: rows of the table of positions.
        n_types: rows of the table of token types.
        eps: of the norms.
        pooler: whether a dense layer reads the first token.
        dropout: probability of dropping while training.
        source: where the numbers stand.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int | None = None
    n_positions: int = 512
    n_types: int = 2
    eps: float = 1e-12
    pooler: bool = True
    dropout: float = 0.0
    source: str = ""


@dataclass(frozen=True)
class EncoderDecoderConfig:
    """A stack that reads a source, and a stack that writes a target: T5.

    Args:
        vocab_size: tokens V there are, one vocabulary for both sides.
        d_model: numbers d in a token.
        n_layers: blocks in each of the two stacks.
        n_heads: heads.
        d_ff: width inside the MLP. None: 4 d.
        n_positions: tokens that fit on either side.
        positions: "sinusoidal", or "relative": T5's 32 learned offsets of
            the scores for each head, one table in each stack.
        norm: "layer" or "rms".
        norm_first: pre-norm, with one more norm behind each stack.
        mlp: "relu" or "gelu".
        bias: whether projections and MLP have offsets.
        tied: whether the vocabulary's table also makes the logits.
        dropout: probability of dropping while training.
        source: where the numbers stand.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int | None = None
    n_positions: int = 512
    positions: str = "sinusoidal"
    norm: str = "layer"
    norm_first: bool = True
    mlp: str = "relu"
    bias: bool = True
    tied: bool = True
    dropout: float = 0.0
    source: str = ""
