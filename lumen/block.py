"""The transformer block: gather from other tokens, then think alone.

Attention moves information between positions, the MLP works on each by
itself, and both only add to what passes by. A block hands on the shape it
was given, so blocks stack. What comes before the first of them and after
the last is not here: a pre-norm stack wants one more norm at its end.
"""

from collections.abc import Callable

from torch import Tensor, nn

from lumen.activation import gelu, silu
from lumen.attention import KVCache, MultiHeadAttention
from lumen.dense import Linear
from lumen.dropout import Dropout
from lumen.norm import LayerNorm
from lumen.norm import RMSNorm as RMSNorm


class MLP(nn.Module):
    """Ask each token many questions, and write down what the answers say.

    ``y = drop(act(x W_fcᵀ + b_fc) W_projᵀ + b_proj)``

    A row of W_fc is a pattern, and the activation keeps how well it fits.
    The column of W_proj behind it is what is written then. Each token is
    treated alone, and all alike.

    Args:
        d_model: numbers in a token.
        d_ff: patterns; None: 4 · d_model.
        dropout: probability of losing a number of the output in training.
        act: the activation. GPT-2 has ``partial(gelu, approximate="tanh")``,
            the first transformer ``relu``.
        bias: whether there are offsets.

    Shape:
        (..., d_model) → (..., d_model)

    Weights:
        ``2 · d_model · d_ff + d_ff + d_model``, which is 8 d² + 5 d for
        d_ff = 4 d; without bias the last two terms go.

    Cost:
        ``4 · d_model · d_ff`` FLOPs per position, and d_ff activations.

    Raises:
        ValueError: a size is below 1, dropout is outside [0, 1], or x is
            not d_model wide.

    Differs from:
        the inside of ``torch.nn.TransformerEncoderLayer``, which drops once
        more, behind the activation, and has relu unless told otherwise.

    Source:
        Vaswani et al. (2017), section 3.3; for its reading as a memory,
        Geva, Schuster, Berant and Levy (2021), section 2.

    Example:
        >>> import torch
        >>> MLP(64)(torch.zeros(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        dropout: float = 0.0,
        *,
        act: Callable[[Tensor], Tensor] = gelu,
        bias: bool = True,
    ):
        d_ff = 4 * d_model if d_ff is None else d_ff
        _check_sizes("MLP", d_model, d_ff)
        super().__init__()
        self.act = act
        self.fc = Linear(d_model, d_ff, bias)
        self.proj = Linear(d_ff, d_model, bias)
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.proj(self.act(self.fc(x))))


class SwiGLU(nn.Module):
    """Let one half of the questions decide how much of the other counts.

    ``y = drop((silu(x W_gateᵀ) ⊙ x W_upᵀ) W_downᵀ)``

    Three matrices in place of the two of an MLP. With d_ff = 8/3 d_model
    they hold as much as an MLP's two with 4 d_model: 8 d².

    Args:
        d_model: numbers in a token.
        d_ff: gates; None: 8/3 · d_model, rounded up. Llama rounds on to a
            multiple of 256.
        dropout: probability of losing a number of the output in training.

    Shape:
        (..., d_model) → (..., d_model)

    Weights:
        ``3 · d_model · d_ff``: there are no offsets.

    Cost:
        ``6 · d_model · d_ff`` FLOPs per position, d_ff gates and products.

    Raises:
        ValueError: a size is below 1, dropout is outside [0, 1], or x is
            not d_model wide.

    Differs from:
        nothing in torch.nn, which has no such layer; the names there are
        Shazeer's W, V and W₂. Llama calls them gate, up and down.

    Source:
        Shazeer (2020), GLU Variants Improve Transformer, section 2.

    Example:
        >>> import torch
        >>> SwiGLU(64)(torch.zeros(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        dropout: float = 0.0,
    ):
        d_ff = -(-8 * d_model // 3) if d_ff is None else d_ff
        _check_sizes("SwiGLU", d_model, d_ff)
        super().__init__()
        self.w_gate = Linear(d_model, d_ff, bias=False)
        self.w_up = Linear(d_model, d_ff, bias=False)
        self.w_down = Linear(d_ff, d_model, bias=False)
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        gated = silu(self.w_gate(x)) * self.w_up(x)
        return self.drop(self.w_down(gated))


class TransformerBlock(nn.Module):
    """Add to each token what attention gathers, then what an MLP makes of it.

    ``x ← x + drop(attn(ln1(x)))``, ``x ← x + mlp(ln2(x))``

    That is pre-norm: x itself is never normalised, so a slope of 1 leads
    straight through, and its variance grows from block to block. Post-norm,
    ``x ← ln1(x + drop(attn(x)))``, ``x ← ln2(x + mlp(x))``, brings it back
    to one scale after each sum, and then no path leads past a norm.

    Args:
        d_model: numbers in a token.
        n_heads: heads of queries; divides d_model.
        d_ff: width inside the MLP; None: what ``mlp`` takes by itself.
        dropout: probability of losing a weight of attention, a number of
            its output, or one of the MLP's output, while training.
        norm_first: pre-norm, as in GPT-2 and Llama; False: post-norm, as
            in the first transformer and BERT.
        norm: makes a norm from d_model. BERT's is
            ``partial(LayerNorm, eps=1e-12)``.
        mlp: makes the MLP from d_model, d_ff and dropout.
        n_kv_heads: as in ``MultiHeadAttention``, like the next three.
        bias: whether the projections of attention have offsets.
        rope: "halves" or "pairs" to turn queries and keys by position.
        rope_base: as in ``rope``.

    Shape:
        (B, T, d_model) → (B, T, d_model)

    Weights:
        ``12 · d_model · d_model + 13 · d_model`` as it comes: 4 d² + 4 d of
        attention, 8 d² + 5 d of the MLP, 4 d of the norms.

    Cost:
        ``24 · d_model · d_model + 4 · S · d_model`` FLOPs per position as
        it comes, with S keys. Norms, softmax, GELU and sums are left out.

    Raises:
        ValueError: as ``MultiHeadAttention`` and the parts given for norm
            and mlp do.

    Differs from:
        ``torch.nn.TransformerEncoderLayer``: pre-norm and GELU by default,
        no dropout inside the MLP, and in a mask True means may attend.

    Source:
        Vaswani et al. (2017), section 3.1, for post-norm; Radford et al.
        (2019), section 2.3, for pre-norm; Xiong et al. (2020), section 3,
        for what the difference does.

    Example:
        >>> import torch
        >>> block = TransformerBlock(64, 8, norm=RMSNorm, mlp=SwiGLU)
        >>> block(torch.zeros(2, 7, 64), causal=True).shape
        torch.Size([2, 7, 64])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        dropout: float = 0.0,
        *,
        norm_first: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        mlp: Callable[..., nn.Module] = MLP,
        n_kv_heads: int | None = None,
        bias: bool = True,
        rope: str | None = None,
        rope_base: float = 10000.0,
    ):
        super().__init__()
        self.norm_first = norm_first
        self.ln1 = norm(d_model)
        self.attn = MultiHeadAttention(
            d_model,
            n_heads,
            n_kv_heads=n_kv_heads,
            bias=bias,
            dropout=dropout,
            rope=rope,
            rope_base=rope_base,
        )
        self.ln2 = norm(d_model)
        self.mlp = mlp(d_model, d_ff, dropout)
        self.drop = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Let the tokens of x read one another, then think.

        Args:
            x: the tokens.
            mask: True = may attend; as in ``MultiHeadAttention``, like all
                that follow.
            causal: hide the future.
            cache: keys and values read before; those of x join them.
            positions: of the tokens, for rope.
        """
        how = {"mask": mask, "causal": causal}
        how |= {"cache": cache, "positions": positions}
        if self.norm_first:
            x = x + self.drop(self.attn(self.ln1(x), **how))
            return x + self.mlp(self.ln2(x))
        x = self.ln1(x + self.drop(self.attn(x, **how)))
        return self.ln2(x + self.mlp(x))

    def extra_repr(self) -> str:
        return f"norm_first={self.norm_first}"


def _check_sizes(layer: str, d_model: int, d_ff: int) -> None:
    if d_model < 1 or d_ff < 1:
        given = f"{d_model} and {d_ff}"
        raise ValueError(f"{layer} wants sizes ≥ 1, got {given}")
