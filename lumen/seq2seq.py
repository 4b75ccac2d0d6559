"""The encoder-decoder: read one text whole, then write another from it.

Two stacks. The first reads the source both ways and is done with it. The
second writes the target, one token after another, and in each block looks
once at its own past and once at what the first one made of the source.
"""

import math

import torch
from torch import Tensor, nn

from lumen.attention import KVCache
from lumen.block import (
    CrossAttentionBlock,
    TransformerBlock,
    kept_length,
    mlp_named,
    norm_named,
)
from lumen.count.models import EncoderDecoderConfig
from lumen.count.whole import whole
from lumen.dense import Linear
from lumen.dropout import Dropout
from lumen.embedding import Embedding
from lumen.position import sinusoidal

N_BUCKETS, FURTHEST = 32, 128  # of T5's table of distances


class EncoderDecoder(nn.Module):
    """Encode a source once, and score the tokens of a target against it.

    ``c = encoder(√d · E[source] + P)``,
    ``logits = decoder(√d · E[target] + P, c) W_headᵀ``

    One table E serves both sides, and the head if tied. It starts with a
    variance of 1/d, so that √d · E has numbers of size 1, like the waves
    of P, and the products of the head with a normalised state as well.

    Args:
        config: an ``EncoderDecoderConfig``. "sinusoidal" positions are
            added as P; "relative" ones have no P and add to each score of
            self-attention what a table says of the distance.

    Shape:
        source (B, S), target (B, T) → (B, T, vocab_size)

    Weights:
        ``V · d + L · (28 · d · d + 32 · d) + 4 · d`` as it comes, with
        V = vocab_size, d = d_model, L = n_layers in each stack. Post-norm,
        the 4 d of two last norms go; "relative" adds 64 · n_heads.

    Cost:
        ``L · (28 · d · d + 4 · (T + S) · d) + 2 · V · d`` FLOPs per
        position of the target as it comes, and L · (28 d² + 4 S d) per
        position of the source, once.

    Raises:
        ValueError: when called, ids, states, masks or caches do not fit
            each other, or tokens outrun n_positions.

    Differs from:
        ``torch.nn.Transformer``, which has no table and no head, and puts a
        last norm behind post-norm stacks as well, where it is redundant.
        T5 has no √d at E and divides the logits by it instead, and has no
        1/√d_head: the same functions, with E / √d and W_Q · √d_head.

    Source:
        Vaswani et al. (2017), section 3; for relative positions, Raffel et
        al. (2020), Exploring the Limits of Transfer Learning, section 2.1.

    Example:
        >>> tiny = EncoderDecoderConfig(50, d_model=16, n_layers=2, n_heads=4)
        >>> source, target = torch.tensor([[4, 8, 15]]), torch.tensor([[0, 16]])
        >>> EncoderDecoder(tiny)(source, target).shape
        torch.Size([1, 2, 50])
    """

    def __init__(self, config: EncoderDecoderConfig):
        super().__init__()
        self.config = config
        d, L = config.d_model, config.n_layers
        norm = norm_named(config.norm)
        size = (d, config.n_heads, config.d_ff, config.dropout)
        how = {"norm_first": config.norm_first, "norm": norm}
        how["mlp"] = mlp_named(config.mlp, config.bias)
        how["bias"] = config.bias
        encoder = [TransformerBlock(*size, **how) for _ in range(L)]
        decoder = [CrossAttentionBlock(*size, **how) for _ in range(L)]
        self.tokens = Embedding(config.vocab_size, d)
        self.drop = Dropout(config.dropout)
        self.encoder = nn.ModuleList(encoder)
        self.encoder_norm = norm(d) if config.norm_first else None
        self.decoder = nn.ModuleList(decoder)
        self.decoder_norm = norm(d) if config.norm_first else None
        self.head = Linear(d, config.vocab_size, bias=False)
        waves = self.encoder_offsets = self.decoder_offsets = None
        if config.positions == "sinusoidal":
            waves = sinusoidal(config.n_positions, d)
        else:
            self.encoder_offsets = Embedding(N_BUCKETS, config.n_heads)
            self.decoder_offsets = Embedding(N_BUCKETS, config.n_heads)
        self.register_buffer("waves", waves, persistent=False)
        for part in self.modules():
            if isinstance(part, Embedding):
                nn.init.normal_(part.weight, std=1 / math.sqrt(d))
        if config.tied:
            self.head.weight = self.tokens.weight

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Read the source, and score what could follow each target token.

        Args:
            source: the text to read.
            target: the text to write, from its start token on. Padding on
                its right needs no mask: nobody before it looks there.
            mask: of the source, (B, S); True = a real token, False =
                padding.
        """
        states = self.encode(source, mask=mask)
        return self.decode(target, states, mask=mask)

    def encode(
        self,
        source: Tensor,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Read the source, both ways.

        Shape:
            source (B, S), mask (B, S) → (B, S, d_model)
        """
        self._check_ids("a source", source)
        self._check_mask(mask, tuple(source.shape))
        n = source.shape[1]
        x, may = self.embed(source), _over_keys(mask)
        if self.encoder_offsets is not None:
            far = _offsets(self.encoder_offsets, n, n, causal=False)
            may = far if may is None else torch.where(may, far, -math.inf)
        for block in self.encoder:
            x = block(x, mask=may)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def decode(
        self,
        target: Tensor,
        states: Tensor,
        *,
        mask: Tensor | None = None,
        cache: list[tuple[KVCache, KVCache]] | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Score what could follow each token of the target.

        Args:
            target: its tokens; behind those in the cache, if there is one.
            states: what ``encode`` made of the source.
            mask: of the source, as given to ``encode``.
            cache: from ``new_cache``. It belongs to one source: states are
                read when it is empty, and not again.
            return_weights: return those of attention too, for each block a
                pair (B, h, T, T) and (B, h, T, S).

        Shape:
            target (B, T), states (B, S, d_model) → (B, T, vocab_size)
        """
        self._check_states(states, len(target))
        self._check_mask(mask, tuple(states.shape[:2]))
        start = self._kept(cache, states)
        self._check_ids("a target", target, start)
        x, maps, n = self.embed(target, start), [], target.shape[1]
        how = {"causal": True, "context_mask": _over_keys(mask)}
        if self.decoder_offsets is not None:
            size = (n, start + n)
            how["mask"] = _offsets(self.decoder_offsets, *size, causal=True)
        for i, block in enumerate(self.decoder):
            how["cache"] = None if cache is None else cache[i]
            x, *both = block(x, states, return_weights=True, **how)
            maps += [tuple(both)] if return_weights else []
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return (self.head(x), maps) if return_weights else self.head(x)

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Give each id √d times its row, and the waves of its place."""
        x = math.sqrt(self.config.d_model) * self.tokens(ids)
        if self.waves is not None:
            x = x + self.waves[start : start + ids.shape[-1]]
        return self.drop(x)

    def new_cache(self) -> list[tuple[KVCache, KVCache]]:
        """Make an empty cache, for each block one to grow and one to stay.

        A second target for the same source may start from
        ``[(KVCache(), fixed) for _, fixed in cache]``.
        """
        return [(KVCache(), KVCache()) for _ in self.decoder]

    @torch.no_grad()
    def generate(
        self,
        source: Tensor,
        n: int,
        *,
        start: int,
        mask: Tensor | None = None,
        use_cache: bool = True,
    ) -> Tensor:
        """Write the n likeliest tokens behind start, one at a time.

        Args:
            source: the text to read, which is done once.
            n: how many tokens to write.
            start: the token every target begins with.
            mask: of the source, (B, S); True = a real token.
            use_cache: read each token once. False reads the target again
                for each new token and writes the same, up to rounding.

        Shape:
            source (B, S) → (B, 1 + n)

        Raises:
            ValueError: 1 + n outruns n_positions, start is no token,
                dropout is on, or as ``encode``; all before anything is
                computed.
        """
        n, start = whole(n=n, start=start, least=0)
        V, room = self.config.vocab_size, self.config.n_positions
        if start >= V:
            raise ValueError(f"start wants an id below {V}, got {start}")
        if 1 + n > room:
            given = f"start and {n} to write"
            raise ValueError(f"a target has {room} positions, got {given}")
        if self.training and self.config.dropout > 0:
            raise ValueError("generate wants no dropout: call eval() first")
        states = self.encode(source, mask=mask)
        target = source.new_full((len(source), 1), start, dtype=torch.int64)
        cache = self.new_cache() if use_cache else None
        for _ in range(n):
            unread = target[:, -1:] if use_cache else target
            logits = self.decode(unread, states, mask=mask, cache=cache)
            new = logits[:, -1:].argmax(dim=-1)
            target = torch.cat([target, new], dim=1)
        return target

    def _check_ids(self, what: str, ids: Tensor, start: int = 0) -> None:
        given, room = tuple(ids.shape), self.config.n_positions
        if ids.ndim != 2 or ids.shape[1] == 0:
            raise ValueError(f"{what} wants ids (B, T), T > 0, got {given}")
        if start + ids.shape[1] > room:
            given = f"{start} kept and {ids.shape[1]} given"
            raise ValueError(f"{what} has {room} positions, got {given}")

    def _check_states(self, states: Tensor, batch: int) -> None:
        d, given = self.config.d_model, tuple(states.shape)
        if states.ndim != 3 or given != (batch, states.shape[1], d):
            wanted = f"({batch}, S, {d})"
            raise ValueError(f"decode wants states {wanted}, got {given}")

    def _check_mask(self, mask: Tensor | None, wanted: tuple) -> None:
        if mask is None:
            return
        if mask.dtype != torch.bool or tuple(mask.shape) != wanted:
            given = f"{mask.dtype} {tuple(mask.shape)}"
            raise ValueError(f"a mask wants booleans {wanted}, got {given}")

    def _kept(self, cache, states: Tensor) -> int:
        """How much of the target was read before."""
        if cache is None:
            return 0
        batch, n, _ = states.shape
        own, fixed = ([pair[i] for pair in cache] for i in (0, 1))
        crosses = [block.cross for block in self.decoder]
        read = kept_length(fixed, crosses, batch)
        if read not in (0, n):
            given = f"{read} tokens kept and {n} states"
            raise ValueError(f"decode wants one source, got {given}")
        layers = [block.attn for block in self.decoder]
        return kept_length(own, layers, batch)


def relative_bucket(
    distance: Tensor,
    *,
    causal: bool,
    n_buckets: int = N_BUCKETS,
    furthest: int = FURTHEST,
) -> Tensor:
    """Sort distances into buckets: one each while near, wider further out.

    ``b = r`` below m, ``b = m + ⌊m · ln(r/m) / ln(furthest/m)⌋`` from there
    on, at most 2 m − 1

    r is how far back a key stands, and m half the buckets. If the future
    can be seen as well, it gets the second half of the buckets, and m is a
    quarter of them; the first bucket of the future stays unused, for
    distance 0 has gone to the past.

    Args:
        distance: place of the key minus place of the query.
        causal: whether keys behind the query are never seen; they share
            bucket 0.
        n_buckets: rows in the table.
        furthest: from here on all is one bucket.

    Shape:
        any → the same, integers from 0 to n_buckets − 1

    Source:
        Raffel et al. (2020), section 2.1, and the code of T5.

    Example:
        >>> relative_bucket(torch.tensor([0, -1, -15, -20, -999]), causal=True)
        tensor([ 0,  1, 15, 17, 31])
        >>> relative_bucket(torch.tensor([-1, 0, 1]), causal=False)
        tensor([ 1,  0, 17])
    """
    side = n_buckets if causal else n_buckets // 2
    r = (-distance).clamp(min=0) if causal else distance.abs()
    m = side // 2
    steps = torch.log(r.clamp(min=m) / m) / math.log(furthest / m) * m
    wide = (m + steps.long()).clamp(max=side - 1)
    bucket = torch.where(r < m, r, wide)
    return bucket if causal else bucket + side * (distance > 0)


def _offsets(table, n_queries, n_keys, *, causal: bool) -> Tensor:
    """What a table says of all distances, (1, h, T, S)."""
    key = torch.arange(n_keys, device=table.weight.device)
    query = key[n_keys - n_queries :, None]
    rows = table(relative_bucket(key - query, causal=causal))
    return rows.movedim(-1, 0)[None]  # (T, S, h) → (1, h, T, S)


def _over_keys(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask[:, None, None, :]  # (B, 1, 1, S)
