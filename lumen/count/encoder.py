"""An encoder before it has weights: what it will weigh and multiply.

``Bert`` is built from its configuration.
"""

from dataclasses import dataclass

from lumen.count.attention import attention_params
from lumen.count.block import mlp_params
from lumen.count.config import StackConfig
from lumen.count.layers import embedding_params, linear_params, norm_params
from lumen.count.table import Row, Table


@dataclass(frozen=True)
class EncoderConfig(StackConfig):
    """A stack of post-norm blocks that read both ways: BERT, MiniLM.

    It has no head: what reads the states is counted by who adds it.

    Args:
        vocab_size: tokens V there are.
        d_model: numbers d in a token.
        n_layers: blocks L.
        n_heads: heads.
        d_ff: width inside the MLP. None: 4 d.
        n_positions: rows P of the table of positions.
        n_types: rows T of the table of token types.
        eps: of the norms.
        pooler: whether a dense layer reads the first token.
        dropout: probability of dropping while training.
        source: where the numbers stand.

    Weights:
        ``(V + P + T) · d + 2 · d + L · (12 · d² + 13 · d) + d² + d``,
        the last two for the pooler

    Raises:
        ValueError: n_heads does not divide d_model.

    Example:
        >>> bert = EncoderConfig(30_522, 768, n_layers=12, n_heads=12)
        >>> bert.table()
        tokens          30522 × 768   23,440,896
        positions       512 × 768        393,216
        types           2 × 768            1,536
        embedding norm  768                1,536
        12 × attention                28,348,416
        12 × MLP                      56,669,184
        12 × norms                        36,864
        pooler                           590,592
        total                        109,482,240
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

    def table(self) -> Table:
        """Say what each part weighs."""
        d = self.d_model
        norm = norm_params(d)
        positions, types = (self.n_positions, d), (self.n_types, d)
        rows = [
            self._tokens(),
            Row("positions", positions, embedding_params(*positions)),
            Row("types", types, embedding_params(*types)),
            Row("embedding norm", (d,), norm),
            *self._stack(norm),
        ]
        if self.pooler:
            rows.append(Row("pooler", (), linear_params(d, d)))
        return Table(tuple(rows))

    def matmul_parameters(self) -> int:
        """Count the weights N that multiply each token.

        The pooler reads only the first one, and is left out.
        """
        return self.n_layers * sum(self.matrices().values())

    def _block(self, bias: bool) -> tuple[int, int]:
        """The weights of one block: of its attention, and of its MLP."""
        attention = attention_params(self.d_model, self.n_heads, bias=bias)
        return attention, mlp_params(self.d_model, self.d_ff, bias=bias)
