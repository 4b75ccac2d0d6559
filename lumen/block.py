"""The transformer block: gather from other tokens, then think alone.

Attention moves information between positions, the MLP works on each by
itself, and both only add to what passes by. A block hands on the shape it
was given, so blocks stack. What comes before the first of them and after
the last is not here: a pre-norm stack wants one more norm at its end.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from lumen.activation import gelu, relu, silu
from lumen.attention import (
    KVCache,
    MultiHeadAttention,
    attention,
    merge_heads,
    split_heads,
)
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
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let the tokens of x read one another, then think.

        Args:
            x: the tokens.
            mask: True = may attend; as in ``MultiHeadAttention``, like all
                that follow.
            causal: hide the future.
            cache: keys and values read before; those of x join them.
            positions: of the tokens, for rope.
            return_weights: return the weights of all heads too.
        """
        how = {"mask": mask, "causal": causal, "return_weights": True}
        how |= {"cache": cache, "positions": positions}
        if self.norm_first:
            gathered, weights = self.attn(self.ln1(x), **how)
            x = x + self.drop(gathered)
            x = x + self.mlp(self.ln2(x))
        else:
            gathered, weights = self.attn(x, **how)
            x = self.ln1(x + self.drop(gathered))
            x = self.ln2(x + self.mlp(x))
        return (x, weights) if return_weights else x

    def extra_repr(self) -> str:
        return f"norm_first={self.norm_first}"


class CrossAttentionBlock(nn.Module):
    """Add to each token what its past says, what a source says, and an MLP.

    ``x ← x + drop(attn(ln1(x)))``, ``x ← x + drop(cross(ln2(x), c))``,
    ``x ← x + mlp(ln3(x))``

    In cross-attention the queries come from x, keys and values from the
    source's states c. There is no order between the two, so no causal mask,
    and the keys and values of c are the same for every token of x.
    Post-norm puts each norm behind its sum, as in ``TransformerBlock``.

    Args:
        d_model: numbers in a token.
        n_heads: heads, in both attentions.
        d_ff: width inside the MLP; None: what ``mlp`` takes by itself.
        dropout: as in ``TransformerBlock``, in both attentions.
        norm_first: pre-norm; False: post-norm.
        norm: makes a norm from d_model.
        mlp: makes the MLP from d_model, d_ff and dropout.
        bias: whether the projections of attention have offsets.

    Shape:
        x (B, T, d_model), context (B, S, d_model) → (B, T, d_model)

    Weights:
        ``16 · d_model · d_model + 19 · d_model`` as it comes: a
        ``TransformerBlock`` with 4 d² + 4 d more of attention and 2 d of a
        third norm.

    Cost:
        ``28 · d_model · d_model + 4 · (T + S) · d_model`` FLOPs per
        position as it comes, with T tokens of its own and S of the source;
        and 4 d² once for each position of the source.

    Raises:
        ValueError: as ``MultiHeadAttention`` and the parts given for norm
            and mlp do.

    Differs from:
        ``torch.nn.TransformerDecoderLayer``: pre-norm and GELU by default,
        no dropout inside the MLP, and in a mask True means may attend.

    Source:
        Vaswani et al. (2017), Attention Is All You Need, section 3.1.

    Example:
        >>> import torch
        >>> block, x = CrossAttentionBlock(64, 8), torch.zeros(2, 7, 64)
        >>> block(x, torch.zeros(2, 9, 64), causal=True).shape
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
        bias: bool = True,
    ):
        super().__init__()
        self.norm_first = norm_first
        how = {"bias": bias, "dropout": dropout}
        self.ln1 = norm(d_model)
        self.attn = MultiHeadAttention(d_model, n_heads, **how)
        self.ln2 = norm(d_model)
        self.cross = MultiHeadAttention(d_model, n_heads, **how)
        self.ln3 = norm(d_model)
        self.mlp = mlp(d_model, d_ff, dropout)
        self.drop = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        context: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        context_mask: Tensor | None = None,
        cache: tuple[KVCache, KVCache] | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """Let the tokens of x read one another, then the source, and think.

        Args:
            x: the tokens.
            context: what was made of the source.
            mask: between tokens of x, as in ``MultiHeadAttention``.
            causal: hide the future of x.
            context_mask: True = may attend; broadcasts to (B, h, T, S).
            cache: keys and values of x, which grow, and of the context,
                which are made once and then taken as they are.
            return_weights: return those of both attentions too.
        """
        own, fixed = (None, None) if cache is None else cache
        how = {"mask": mask, "causal": causal, "cache": own}
        seen = (context, context_mask, fixed)
        if self.norm_first:
            past, near = self.attn(self.ln1(x), return_weights=True, **how)
            x = x + self.drop(past)
            said, far = self._look(self.ln2(x), *seen)
            x = x + self.drop(said)
            x = x + self.mlp(self.ln3(x))
        else:
            past, near = self.attn(x, return_weights=True, **how)
            x = self.ln1(x + self.drop(past))
            said, far = self._look(x, *seen)
            x = self.ln2(x + self.drop(said))
            x = self.ln3(x + self.mlp(x))
        return (x, near, far) if return_weights else x

    def extra_repr(self) -> str:
        return f"norm_first={self.norm_first}"

    def _look(self, x, context, mask, fixed) -> tuple[Tensor, Tensor]:
        """Cross-attention, whose keys and values are made once if kept."""
        cross, h = self.cross, self.cross.n_heads
        if fixed is None or fixed.keys is None:
            k = split_heads(cross.key(context), h)  # (B, h, S, d_head)
            v = split_heads(cross.value(context), h)
        else:
            k, v = fixed.keys, fixed.values
        q = split_heads(cross.query(x), h)
        how = {"mask": mask, "drop": cross.drop, "return_weights": True}
        mixed, weights = attention(q, k, v, **how)
        if fixed is not None:
            fixed.keys, fixed.values = k, v
        return cross.out(merge_heads(mixed)), weights


def norm_named(
    name: str,
    eps: float | None = None,
) -> Callable[[int], nn.Module]:
    """Find the norm that a configuration names.

    Args:
        name: "layer" or "rms".
        eps: of the norm; None: as the norm has it.

    Raises:
        ValueError: there is no norm of this name.

    Example:
        >>> norm_named("rms", eps=1e-5)(64)
        RMSNorm(64, eps=1e-05)
    """
    norm = _named("norm", name, {"layer": LayerNorm, "rms": RMSNorm})
    return norm if eps is None else partial(norm, eps=eps)


def mlp_named(name: str, bias: bool = True) -> Callable[..., nn.Module]:
    """Find the MLP that a configuration names.

    Args:
        name: "relu", "gelu", "gelu_tanh" or "swiglu".
        bias: whether there are offsets; "swiglu" never has them.

    Raises:
        ValueError: there is no MLP of this name.

    Example:
        >>> mlp_named("relu", bias=False)(64).fc
        Linear(64, 256, bias=False)
    """
    acts = {"relu": relu, "gelu": gelu}
    acts["gelu_tanh"] = partial(gelu, approximate="tanh")
    mlps = {act: partial(MLP, act=acts[act], bias=bias) for act in acts}
    return _named("mlp", name, mlps | {"swiglu": SwiGLU})


def kept_length(
    caches: list[KVCache],
    layers: list[MultiHeadAttention],
    batch: int,
) -> int:
    """Tell how many tokens the caches of a stack hold, one for each layer.

    Raises:
        ValueError: there are more caches or fewer than layers, they do not
            hold the same number of tokens, or not those of this batch and
            of these heads.

    Example:
        >>> kept_length([KVCache()], [MultiHeadAttention(8, 2)], batch=1)
        0
    """
    n, heads = len(layers), layers[0].n_kv_heads
    keys = [kept.keys for kept in caches]
    given = [k if k is None else tuple(k.shape) for k in keys]
    length = caches[0].length if caches else 0
    d_head = len(layers[0].key.weight) // heads
    if given not in ([None] * n, [(batch, heads, length, d_head)] * n):
        wanted = f"{n} of them, empty or ({batch}, {heads}, T, {d_head})"
        raise ValueError(f"caches want {wanted}, got {given}")
    return length


def _named(kind: str, name: str, options: dict):
    if name not in options:
        raise ValueError(f"{kind} wants one of {[*options]}, got {name!r}")
    return options[name]


def _check_sizes(layer: str, d_model: int, d_ff: int) -> None:
    if d_model < 1 or d_ff < 1:
        given = f"{d_model} and {d_ff}"
        raise ValueError(f"{layer} wants sizes ≥ 1, got {given}")
