"""A decoder before it has weights: what it will weigh, multiply and keep.

``GPT`` is built from its configuration.
"""

from dataclasses import dataclass

from lumen.count.attention import attention_params, kv_cache_bytes
from lumen.count.block import mlp_params
from lumen.count.config import StackConfig
from lumen.count.layers import embedding_params, norm_params
from lumen.count.table import Row, Table


@dataclass(frozen=True)
class DecoderConfig(StackConfig):
    """A stack of causal blocks under a vocabulary: GPT-2, Llama, Mistral.

    Args:
        vocab_size: tokens V there are.
        d_model: numbers d in a token.
        n_layers: blocks L.
        n_heads: heads of queries.
        n_kv_heads: heads of keys and values. None: n_heads of them.
        d_ff: width inside the MLP. None: 4 d, or 8/3 d where it is gated.
        n_positions: tokens that fit; rows P of the table if one is learned.
        positions: "learned", "rope" (halves) or "none".
        rope_base: as in ``rope``.
        norm: "layer" or "rms".
        norm_first: pre-norm, with one more norm behind the stack. False is
            post-norm without it, as in the first GPT.
        eps: of the norms. None: 1e-5 or 1e-6, as the norms have it.
        mlp: "gelu", "gelu_tanh" or "swiglu".
        bias: whether projections and MLP have offsets.
        tied: whether the vocabulary's table also makes the logits.
        dropout: probability of dropping while training.
        source: where the numbers stand.

    Weights:
        ``V · d + P · d + L · (12 · d² + 13 · d) + 2 · d`` for GPT-2,
        ``2 · V · d + L · (2 · d² + 2 · d · d_kv + 3 · d · d_ff + 2 · d) + d``
        for Llama

    Raises:
        ValueError: n_heads does not divide d_model, or n_kv_heads n_heads;
            heads of odd width should turn by rope.

    Example:
        >>> gpt2 = DecoderConfig(50_257, 768, n_layers=12, n_heads=12)
        >>> gpt2.table()
        tokens          50257 × 768   38,597,376
        positions       1024 × 768       786,432
        12 × attention                28,348,416
        12 × MLP                      56,669,184
        12 × norms                        36,864
        final norm      768                1,536
        head            50257 × 768     = tokens
        total                        124,439,808
        >>> gpt2.parameters()
        124439808
        >>> gpt2.non_embedding_parameters()
        85056000
        >>> gpt2.kv_cache_bytes(1024) // 2**20  # MiB
        36
    """

    CHOICES = {
        "positions": ("learned", "rope", "none"),
        "norm": ("layer", "rms"),
        "mlp": ("gelu", "gelu_tanh", "swiglu"),
    }

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
    norm_first: bool = True
    eps: float | None = None
    mlp: str = "gelu_tanh"
    bias: bool = True
    tied: bool = True
    dropout: float = 0.0
    source: str = ""

    def __post_init__(self):
        super().__post_init__()
        self._block(self.bias)
        if self.positions == "rope" and self.d_head % 2:
            given = self.d_head
            raise ValueError(f"rope wants an even d_head, got {given}")

    def table(self) -> Table:
        """Say what each part weighs."""
        d = self.d_model
        norm = norm_params(d, rms=self.norm == "rms")
        rows = [self._tokens()]
        if self.positions == "learned":
            shape = self.n_positions, d
            rows.append(Row("positions", shape, embedding_params(*shape)))
        rows += self._stack(norm, self.bias)
        if self.norm_first:
            rows.append(Row("final norm", (d,), norm))
        return Table((*rows, self._head()))

    def matmul_parameters(self) -> int:
        """Count the weights N that multiply each token.

        All matrices and the head, tied or not; neither the tables as such
        nor norms nor offsets.
        """
        head = self.vocab_size * self.d_model
        return self.n_layers * sum(self.matrices().values()) + head

    def kv_cache_bytes(
        self,
        tokens: int,
        *,
        batch: int = 1,
        bytes_per_value: int = 2,
    ) -> int:
        """Count the bytes of the keys and values kept of the tokens read.

        A sliding window, as in the first Mistral, keeps no more tokens
        than its width.
        """
        return kv_cache_bytes(
            tokens,
            layers=self.n_layers,
            n_kv_heads=self.n_kv_heads or self.n_heads,
            d_head=self.d_head,
            batch=batch,
            bytes_per_value=bytes_per_value,
        )

    def _block(self, bias: bool) -> tuple[int, int]:
        """The weights of one block: of its attention, and of its MLP."""
        d, shared = self.d_model, {"n_kv_heads": self.n_kv_heads}
        gated = {"gated": self.mlp == "swiglu"}
        attention = attention_params(d, self.n_heads, bias=bias, **shared)
        return attention, mlp_params(d, self.d_ff, bias=bias, **gated)
