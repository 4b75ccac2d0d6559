"""Attention: look up by content, softly.

A dictionary hands out the value whose key equals the query. Attention
scores every key against the query, turns the scores into shares and hands
out the values mixed in those shares: a look-up that has a gradient. It bets
that relevance can be read off content. Order and distance it does not see.

The products are explicit, so the scores of all pairs stand in memory. Fused
kernels compute the same numbers without that.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lumen.dense import Linear
from lumen.dropout import Dropout
from lumen.position import rope


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    drop: Callable[[Tensor], Tensor] | None = None,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Mix values by how well their keys answer each query.

    ``attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V``

    A dot product of d_k independent terms of variance 1 has variance d_k.
    The root brings it back to 1, where the softmax still has slope.

    Args:
        q: what each of T positions looks for.
        k: what each of S positions advertises.
        v: what each of S positions hands over.
        mask: boolean, True = may attend; or float, added to the scores
            (0 keeps, −inf hides). A query that may attend nowhere gets 0.
        causal: hide the future. The last query stands at the last key.
        drop: applied to the weights before they mix the values.
        return_weights: return the weights too, as they were before drop.

    Shape:
        q (..., T, d_k), k (..., S, d_k), v (..., S, d_v) → (..., T, d_v);
        the weights and the mask are (..., T, S), the mask by broadcasting

    Weights:
        ``0``: what makes queries and keys is learned elsewhere.

    Cost:
        ``4 · S · d_k`` FLOPs per query when d_v = d_k, half to score and
        half to mix; the softmax adds about 5 S. T · S numbers in memory.

    Raises:
        ValueError: shapes do not fit, there is no key, or the mask is
            neither boolean nor float.

    Differs from:
        ``torch.nn.functional.scaled_dot_product_attention`` when T ≠ S and
        causal: torch puts the first query at the first key. In
        ``torch.nn.MultiheadAttention`` True in a mask means hidden.

    Source:
        Vaswani et al. (2017), Attention Is All You Need, section 3.2.1.

    Example:
        >>> q = torch.tensor([[1.0, 2.0, 0.0, 1.0]])
        >>> k = torch.tensor([[0.0, 0, 1, 0], [1, 2, 0, 1], [0, 1, 0, 1]])
        >>> attention(q, k, v=k, return_weights=True)[1]
        tensor([[0.0391, 0.7856, 0.1753]])
    """
    _check(q, k, v)
    d_k, n_queries, n_keys = q.shape[-1], q.shape[-2], k.shape[-2]
    scores = (q / math.sqrt(d_k)) @ k.transpose(-2, -1)  # (..., T, S)
    if causal:
        scores = hide(scores, causal_mask(n_queries, n_keys, q.device))
    if mask is not None:
        scores = hide(scores, mask)
    weights = masked_softmax(scores)
    out = (weights if drop is None else drop(weights)) @ v
    return (out, weights) if return_weights else out


def causal_mask(
    n_queries: int,
    n_keys: int,
    device: torch.device | str | None = None,
) -> Tensor:
    """Let each query see its own position and those before it.

    ``M[i, j] = (j ≤ i + n_keys − n_queries)``, True = may attend

    Shape:
        → (n_queries, n_keys), boolean

    Example:
        >>> causal_mask(2, 4).int()
        tensor([[1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)
    """
    every = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return every.tril(n_keys - n_queries)


def hide(scores: Tensor, mask: Tensor) -> Tensor:
    """Put the scores of forbidden pairs at −inf, whose share is zero.

    ``s if mask else −inf`` (boolean), ``s + mask`` (float)

    Shape:
        scores (..., T, S), mask broadcastable to it → (..., T, S)

    Raises:
        ValueError: the mask does not fit, or holds integers, in which 0
            might mean "hide" or "add nothing".

    Example:
        >>> hide(torch.tensor([5.0, 7.0]), torch.tensor([True, False]))
        tensor([5., -inf])
    """
    wanted, given = tuple(scores.shape), tuple(mask.shape)
    if not _broadcasts(given, wanted):
        raise ValueError(f"a mask must broadcast to {wanted}, got {given}")
    if mask.dtype == torch.bool:
        return torch.where(mask, scores, -math.inf)
    if mask.is_floating_point():
        return scores + mask.to(scores.dtype)
    raise ValueError(f"a mask must be boolean or float, got {mask.dtype}")


def masked_softmax(scores: Tensor) -> Tensor:
    """Turn the last axis into shares, or into zeros if all of it is −inf.

    ``w = e^(s − m) / max(1, Σ e^(s − m))``, ``m = max s``

    This is ``softmax`` with two guards. The largest score contributes
    e⁰ = 1, so the sum is below 1 only where all is hidden; there 0 / 1 is a
    zero with a zero gradient, and 0 / 0 would be NaN.

    Shape:
        (..., S) → (..., S)

    Example:
        >>> row = torch.tensor([-torch.inf, -torch.inf])
        >>> masked_softmax(row)
        tensor([0., 0.])
    """
    lowest = torch.finfo(scores.dtype).min  # −inf − (−inf) would be NaN
    peak = scores.detach().amax(dim=-1, keepdim=True).clamp(min=lowest)
    # eˣ as 2^(x / ln 2), for torch.exp can be slow where x is −inf
    exp = torch.exp2((scores - peak) / math.log(2))
    total = exp.sum(dim=-1, keepdim=True).clamp(min=1)
    return exp * total.reciprocal()


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut the last axis into heads and bring them before the tokens.

    Shape:
        (..., T, D) → (..., n_heads, T, D / n_heads)

    Raises:
        ValueError: n_heads does not divide D.

    Example:
        >>> split_heads(torch.zeros(2, 5, 12), 3).shape
        torch.Size([2, 3, 5, 4])
    """
    if n_heads < 1 or x.shape[-1] % n_heads:
        width = x.shape[-1]
        raise ValueError(f"n_heads must divide {width}, got {n_heads}")
    # (..., T, D) → (..., T, h, D/h) → (..., h, T, D/h)
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of each token side by side again.

    Shape:
        (..., n_heads, T, d) → (..., T, n_heads · d)

    Example:
        >>> merge_heads(torch.zeros(2, 3, 5, 4)).shape
        torch.Size([2, 5, 12])
    """
    # (..., h, T, d) → (..., T, h, d) → (..., T, h·d)
    return x.transpose(-3, -2).flatten(-2)


def share_heads(x: Tensor, n_heads: int) -> Tensor:
    """Let neighbouring query heads read one head of keys or of values.

    Shape:
        (..., n_kv_heads, S, d) → (..., n_heads, S, d)

    Example:
        >>> share_heads(torch.tensor([[[1]], [[2]]]), n_heads=4).flatten()
        tensor([1, 1, 2, 2])
    """
    group = n_heads // x.shape[-3]
    return x if group == 1 else x.repeat_interleave(group, dim=-3)


class KVCache:
    """Keep the keys and values of the tokens already read.

    ``K ← [K; k]``, ``V ← [V; v]``

    Under a causal mask they depend on nothing that comes later, so each is
    computed once. ``keys`` and ``values`` hold them, at first nothing.

    Shape:
        keys and values (B, n_kv_heads, length, d_head)

    Raises:
        ValueError: new keys and values differ in shape from each other, or
            from those kept in anything but length. Nothing is lost by it.

    Example:
        >>> cache = KVCache()
        >>> for token in torch.zeros(3, 2, 4, 1, 16):
        ...     keys, values = cache.append(token, token)
        >>> cache.length, keys.shape
        (3, torch.Size([2, 4, 3, 16]))
    """

    def __init__(self):
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        """How many tokens are kept."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep new keys and values behind the old, and hand back all."""
        self.keys, self.values = self.joined(k, v)
        return self.keys, self.values

    def joined(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Hand back what append would, but keep nothing."""
        given = tuple(k.shape)
        if k.ndim != 4 or k.shape != v.shape:
            given = f"{given} and {tuple(v.shape)}"
            raise ValueError(f"KVCache wants two (B, h, T, d), got {given}")
        if self.keys is None:
            return k, v
        batch, heads, _, d = self.keys.shape
        if given != (batch, heads, k.shape[-2], d):
            wanted = f"({batch}, {heads}, T, {d})"
            raise ValueError(f"KVCache holds {wanted}, got {given}")
        k = torch.cat([self.keys, k], dim=-2)
        return k, torch.cat([self.values, v], dim=-2)


class MultiHeadAttention(nn.Module):
    """Read the same tokens through several attentions at once.

    ``head_i = attention(x W_Qᵢ, c W_Kᵢ, c W_Vᵢ)``,
    ``y = [head_1 … head_h] W_O``

    One softmax gives one blend. h heads of width d_head = d_model / h give
    h of them for the same weights, each from a narrower look. c is x, or in
    cross-attention the context.

    Args:
        d_model: numbers in a token.
        n_heads: heads of queries; divides d_model.
        n_kv_heads: heads of keys and values; divides n_heads, and each
            serves n_heads / n_kv_heads neighbours. None: n_heads of them.
            1 is called multi-query, anything between grouped-query.
        bias: whether the projections have offsets.
        dropout: probability of dropping a weight while training.
        rope: "halves" or "pairs" to turn queries and keys by position.
        rope_base: as in ``rope``.

    Shape:
        x (B, T, d_model), context (B, S, d_model) → (B, T, d_model); the
        weights are (B, n_heads, T, S)

    Weights:
        ``2 · d_model · (d_model + d_kv) + 2 · (d_model + d_kv)`` with
        d_kv = n_kv_heads · d_head. That is 4 d² + 4 d for d_kv = d, however
        many heads; without bias the second term goes.

    Cost:
        ``4 · d_model · (d_model + d_kv) + 4 · S · d_model`` FLOPs per
        position: projections, then scores and mixing. n_heads · T · S
        scores in memory.

    Raises:
        ValueError: heads do not divide, dropout is outside [0, 1], or rope
            is unknown or meets an odd d_head; when called, shapes do not
            fit, a context meets a cache or rope, or positions come without
            rope.

    Differs from:
        ``torch.nn.MultiheadAttention``: True in a mask means may attend;
        ``query``, ``key`` and ``value`` are the thirds of its
        ``in_proj_weight`` and start like ``Linear``; the weights are given
        for each head, before dropout.

    Source:
        Vaswani et al. (2017), section 3.2.2; Shazeer (2019), Fast
        Transformer Decoding; Ainslie et al. (2023), GQA.

    Example:
        >>> layer = MultiHeadAttention(64, 8, n_kv_heads=2)
        >>> layer(torch.zeros(2, 5, 64), causal=True).shape
        torch.Size([2, 5, 64])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rope: str | None = None,
        rope_base: float = 10000.0,
    ):
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        d_head = _head_width(d_model, n_heads, n_kv_heads, rope)
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.rope, self.rope_base = rope, rope_base
        self.query = Linear(d_model, n_heads * d_head, bias)
        self.key = Linear(d_model, n_kv_heads * d_head, bias)
        self.value = Linear(d_model, n_kv_heads * d_head, bias)
        self.out = Linear(n_heads * d_head, d_model, bias)
        self.drop = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let the tokens of x read one another, or those of a context.

        Args:
            x: the tokens that ask.
            context: the tokens that answer; None means x.
            mask: as in ``attention``, (T, S), (B, T, S) or (B, h, T, S).
                For padding: ``real[:, None, :]``, with real (B, S).
            causal: as in ``attention``.
            cache: keys and values read before; those of x join them.
            positions: of the tokens, (T) or (B, T), for rope. None counts
                on from the cache.
            return_weights: return the weights of all heads too.
        """
        self._check_call(context, cache, positions)
        read = x if context is None else context
        q = split_heads(self.query(x), self.n_heads)  # (B, h, T, d_head)
        k = split_heads(self.key(read), self.n_kv_heads)
        v = split_heads(self.value(read), self.n_kv_heads)
        if self.rope is not None:
            q, k = self._turned(q, k, cache, positions)
        if cache is not None:
            k, v = cache.joined(k, v)
        if mask is not None and mask.ndim == 3:
            mask = mask.unsqueeze(1)  # (B, T, S) → (B, 1, T, S)
        mixed, weights = attention(
            q,
            share_heads(k, self.n_heads),
            share_heads(v, self.n_heads),
            mask=mask,
            causal=causal,
            drop=self.drop,
            return_weights=True,
        )
        if cache is not None:
            cache.keys, cache.values = k, v  # a refused call keeps nothing
        y = self.out(merge_heads(mixed))
        return (y, weights) if return_weights else y

    def extra_repr(self) -> str:
        return f"n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}"

    def _turned(self, q, k, cache, positions):
        if positions is None:
            start = 0 if cache is None else cache.length
            stop = start + q.shape[-2]
            positions = torch.arange(start, stop, device=q.device)
        positions = positions.unsqueeze(-2)  # (B, T) → (B, 1, T)
        how = {"base": self.rope_base, "layout": self.rope}
        return rope(q, positions, **how), rope(k, positions, **how)

    def _check_call(self, context, cache, positions):
        if context is not None and (cache is not None or self.rope):
            raise ValueError("context wants neither a cache nor rope")
        if positions is not None and self.rope is None:
            raise ValueError("positions want a layer made with rope")


def _head_width(d_model, n_heads, n_kv_heads, rope):
    if d_model < 1 or n_heads < 1 or d_model % n_heads:
        given = f"{n_heads} and {d_model}"
        raise ValueError(f"n_heads must divide d_model, got {given}")
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        given = f"{n_kv_heads} and {n_heads}"
        raise ValueError(f"n_kv_heads must divide n_heads, got {given}")
    if rope not in (None, "halves", "pairs"):
        raise ValueError(f"rope wants 'halves' or 'pairs', got {rope!r}")
    d_head = d_model // n_heads
    if rope is not None and d_head % 2:
        raise ValueError(f"rope wants an even d_head, got {d_head}")
    return d_head


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    given = [tuple(t.shape) for t in (q, k, v)]
    try:
        if len(outer := {shape[:-2] for shape in given}) > 1:
            torch.broadcast_shapes(*outer)
        (_, d_q), (n, d_k), (n_v, _) = (shape[-2:] for shape in given)
        fits = d_q == d_k > 0 and n == n_v > 0
    except (RuntimeError, ValueError):
        fits = False
    if not fits:
        wanted = "q (..., T, d_k), k (..., S, d_k), v (..., S, d_v), S > 0"
        raise ValueError(f"attention wants {wanted}, got {given}")


def _broadcasts(given: tuple, wanted: tuple) -> bool:
    """Whether one shape stretches to another, which stays as it is."""
    axes = zip(reversed(given), reversed(wanted), strict=False)
    return len(given) <= len(wanted) and all(a in (1, b) for a, b in axes)
