"""Encoder and decoder together, before they have weights.

``EncoderDecoder`` is built from its configuration.
"""

from dataclasses import dataclass
from math import prod

from lumen.count.attention import (
    attention_flops,
    attention_params,
    kv_cache_bytes,
)
from lumen.count.block import mlp_flops, mlp_params
from lumen.count.config import TransformerConfig
from lumen.count.layers import linear_flops, norm_params
from lumen.count.table import Row, Table
from lumen.count.whole import whole

BUCKETS = 32  # distances that T5 tells apart


@dataclass(frozen=True)
class EncoderDecoderConfig(TransformerConfig):
    """A stack that reads a source, and a stack that writes a target: T5.

    Args:
        vocab_size: tokens V there are, one vocabulary for both sides.
        d_model: numbers d in a token.
        n_layers: blocks L in each of the two stacks.
        n_heads: heads h.
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

    Weights:
        ``V · d + 64 · h + L · (12 · d² + 4 · d · d_ff + 5 · d) + 2 · d``
        for T5: 4 d² in each of three attentions

    Raises:
        ValueError: n_heads does not divide d_model.

    Example:
        >>> small = {"n_layers": 6, "n_heads": 8, "positions": "relative"}
        >>> small |= {"norm": "rms", "bias": False}
        >>> t5 = EncoderDecoderConfig(32_128, 512, **small)
        >>> t5.table()
        tokens                        32128 × 512  16,449,536
        offsets                       2 × 32 × 8          512
        encoder: 6 × attention                      6,291,456
        encoder: 6 × MLP                           12,582,912
        encoder: 6 × norms                              6,144
        encoder: final norm           512                 512
        decoder: 6 × attention                      6,291,456
        decoder: 6 × cross-attention                6,291,456
        decoder: 6 × MLP                           12,582,912
        decoder: 6 × norms                              9,216
        decoder: final norm           512                 512
        head                          32128 × 512    = tokens
        total                                      60,506,624
        >>> t5.kv_cache_bytes(1), t5.kv_cache_bytes(0, source=1)
        (12288, 12288)
    """

    CHOICES = {
        "positions": ("sinusoidal", "relative"),
        "norm": ("layer", "rms"),
        "mlp": ("relu", "gelu"),
    }

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

    def table(self) -> Table:
        """Say what each part weighs."""
        rows = [self._tokens()]
        if self.positions == "relative":
            shape = 2, BUCKETS, self.n_heads
            rows.append(Row("offsets", shape, prod(shape)))
        rows += self._stack("encoder: ", "attention")
        rows += self._stack("decoder: ", "attention", "cross-attention")
        return Table((*rows, self._head()))

    def _stack(self, stack: str, *attentions: str) -> list[Row]:
        """One of the two stacks: a norm for each part of a block."""
        d, bias = self.d_model, self.bias
        attention = attention_params(d, self.n_heads, bias=bias)
        norm = norm_params(d, rms=self.norm == "rms")
        parts = dict.fromkeys(attentions, attention)
        parts["MLP"] = mlp_params(d, self.d_ff, bias=bias)
        parts["norms"] = len(parts) * norm
        rows = [self._blocks(part, n, stack) for part, n in parts.items()]
        if self.norm_first:
            rows.append(Row(f"{stack}final norm", (d,), norm))
        return rows

    def flops(self, source: int, target: int) -> int:
        """Count the FLOPs of the matrix products of one pass.

        The source runs through the encoder and gives the keys and values
        of each cross-attention, the target runs through the decoder and
        the head.
        """
        s, t = whole(source=source, target=target, least=0)
        d, heads = self.d_model, self.n_heads
        reads = attention_flops(s, d, heads)
        writes = attention_flops(t, d, heads)
        crosses = attention_flops(t, d, heads, keys=s)
        mlps = (s + t) * mlp_flops(d, self.d_ff)
        head = t * linear_flops(d, self.vocab_size)
        return self.n_layers * (reads + writes + crosses + mlps) + head

    def kv_cache_bytes(
        self,
        tokens: int,
        *,
        source: int = 0,
        batch: int = 1,
        bytes_per_value: int = 2,
    ) -> int:
        """Count the bytes of the keys and values that the decoder keeps.

        Those of the tokens written grow; those of the source, which its
        cross-attentions read, are made once.
        """
        n, s = whole(tokens=tokens, source=source, least=0)
        return kv_cache_bytes(
            n + s,
            layers=self.n_layers,
            n_kv_heads=self.n_heads,
            d_head=self.d_head,
            batch=batch,
            bytes_per_value=bytes_per_value,
        )
