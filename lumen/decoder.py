"""The decoder: at every place, say which token comes next.

Causal blocks between a vocabulary and itself. Nothing later is read into a
place, so each place of a text is an exercise whose answer stands beside it.
For the same reason what was read is never read again: its keys and values
stay as they are, and a cache keeps them.
"""

import math

import torch
from torch import Tensor, nn

from lumen.activation import softmax
from lumen.attention import KVCache
from lumen.block import (
    TransformerBlock,
    kept_length,
    mlp_named,
    norm_named,
)
from lumen.count.models import DecoderConfig
from lumen.count.whole import whole
from lumen.dense import Linear
from lumen.dropout import Dropout
from lumen.embedding import Embedding
from lumen.init import gpt2_init_
from lumen.position import LearnedPositions


class GPT(nn.Module):
    """Score, after each token, every token that could come next.

    ``x ← E[ids] + P``, ``x ← block(x)`` L times,
    ``logits = norm(x) W_headᵀ``

    The blocks are causal and pre-norm; post-norm ones, as in the first GPT,
    have no last norm. P is a table of learned rows, or nothing: then rope
    turns queries and keys instead, or the causal mask is all there is to
    tell places apart. In a tied model W_head is E itself, one tensor with
    two gradients.

    Args:
        config: a ``DecoderConfig``. As it comes it makes a GPT-2; Llama and
            Mistral are "rope", "rms", "swiglu", no bias and fewer heads of
            keys.

    Shape:
        ids (B, T) → (B, T, vocab_size)

    Weights:
        ``(V + P + 2) · d + L · (12 · d · d + 13 · d)`` as it comes, with
        V = vocab_size, P = n_positions, d = d_model, L = n_layers. Without
        learned positions P goes; untied, V · d comes again.

    Cost:
        ``L · (24 · d · d + 4 · S · d) + 2 · V · d`` FLOPs per position as
        it comes, with S tokens read so far.

    Raises:
        ValueError: when called, ids are not (B, T) integers below
            vocab_size, tokens outrun n_positions, or the cache does not
            fit.

    Differs from:
        GPT-2: without bias, only projections and MLP lose their offsets,
        norms keep them. Llama and Mistral: rope stops at n_positions too,
        and no window slides. All start as ``gpt2_init_`` draws.

    Source:
        Radford et al. (2019), Language Models are Unsupervised Multitask
        Learners, section 2.3; Touvron et al. (2023), LLaMA, section 2.2;
        for the tie, Press and Wolf (2017), section 3.

    Example:
        >>> tiny = DecoderConfig(50, d_model=16, n_layers=2, n_heads=4)
        >>> GPT(tiny)(torch.tensor([[4, 8, 15, 16, 23, 42]])).shape
        torch.Size([1, 6, 50])
    """

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config = config
        d, L = config.d_model, config.n_layers
        norm = norm_named(config.norm, config.eps)
        self.tokens = Embedding(config.vocab_size, d)
        self.positions = None
        if config.positions == "learned":
            self.positions = LearnedPositions(config.n_positions, d)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(self._block(norm) for _ in range(L))
        self.norm = norm(d) if config.norm_first else None
        self.head = Linear(d, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        gpt2_init_(self, L)

    def forward(
        self,
        ids: Tensor,
        *,
        cache: list[KVCache] | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Read the tokens and score what could follow each of them.

        Args:
            ids: the tokens; behind those in the cache, if there is one.
                Texts of different lengths are padded on the right, where
                nobody before them looks.
            cache: from ``new_cache``; it keeps what is read.
            return_weights: return those of attention too, for each block
                (B, n_heads, T, S).
        """
        x, maps = self.embed(ids, self._start(ids, cache)), []
        for i, block in enumerate(self.blocks):
            how = {"cache": None if cache is None else cache[i]}
            x, weights = block(x, causal=True, return_weights=True, **how)
            maps += [weights] if return_weights else []
        logits = self.unembed(x)
        return (logits, maps) if return_weights else logits

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Give each id its row, and that of its place from start on."""
        x = self.tokens(ids)
        if self.positions is not None:
            stop = start + ids.shape[-1]
            places = torch.arange(start, stop, device=ids.device)
            x = x + self.positions(places)
        return self.drop(x)

    def unembed(self, x: Tensor) -> Tensor:
        """Turn states into logits: the last norm, if any, then the head."""
        return self.head(x if self.norm is None else self.norm(x))

    def states(self, ids: Tensor) -> Tensor:
        """Give the stream as it enters and after each block.

        The last of them has not been through the final norm.

        Shape:
            ids (B, T) → (n_layers + 1, B, T, d_model)
        """
        states = [self.embed(ids, self._start(ids, None))]
        for block in self.blocks:
            states.append(block(states[-1], causal=True))
        return torch.stack(states)

    def new_cache(self) -> list[KVCache]:
        """Make an empty cache, one ``KVCache`` for each block.

        To go on twice from one beginning, give the second run a copy:
        ``[copy(kept) for kept in cache]``, which shares the memory.
        """
        return [KVCache() for _ in self.blocks]

    @torch.no_grad()
    def generate(
        self,
        ids: Tensor,
        n: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
        use_cache: bool = True,
    ) -> Tensor:
        """Write n tokens behind those given, one at a time.

        Args:
            ids: where to begin, at least one token.
            n: how many to write.
            temperature: 0 takes the likeliest; above it is drawn, as in
                ``token_shares``.
            top_k: draw from the k likeliest only.
            top_p: draw from the likeliest that hold this share only.
            generator: what to draw with; None: torch's own.
            use_cache: read each token once. False reads all again for each
                new one and writes the same, up to rounding.

        Shape:
            ids (B, T) → (B, T + n)

        Raises:
            ValueError: ids and n together outrun n_positions, dropout is
                on, or as ``forward`` and ``token_shares``; all before
                anything is computed.
        """
        how = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        _check_sampling(self.config.vocab_size, **how)
        (n,) = whole(n=n, least=0)
        self._start(ids, None, new=n)
        if self.training and self.config.dropout > 0:
            raise ValueError("generate wants no dropout: call eval() first")
        cache = self.new_cache() if use_cache else None
        for _ in range(n):
            seen = cache[0].length if use_cache else 0
            logits = self(ids[:, seen:], cache=cache)[:, -1]
            if temperature == 0:
                new = logits.argmax(dim=-1, keepdim=True)
            else:
                shares = token_shares(logits, **how)
                new = torch.multinomial(shares, 1, generator=generator)
            ids = torch.cat([ids, new], dim=1)
        return ids

    def _block(self, norm) -> TransformerBlock:
        config = self.config
        return TransformerBlock(
            config.d_model,
            config.n_heads,
            config.d_ff,
            config.dropout,
            norm_first=config.norm_first,
            norm=norm,
            mlp=mlp_named(config.mlp, config.bias),
            n_kv_heads=config.n_kv_heads,
            bias=config.bias,
            rope="halves" if config.positions == "rope" else None,
            rope_base=config.rope_base,
        )

    def _start(self, ids, cache, new: int = 0) -> int:
        """How many tokens were read before; refuses what does not fit."""
        if ids.ndim != 2 or ids.shape[1] == 0:
            given = tuple(ids.shape)
            raise ValueError(f"GPT wants ids (B, T), T > 0, got {given}")
        layers = [block.attn for block in self.blocks]
        start = 0 if cache is None else kept_length(cache, layers, len(ids))
        parts, room = (start, ids.shape[1], new), self.config.n_positions
        if sum(parts) > room:
            given = "{} kept, {} given and {} to write".format(*parts)
            raise ValueError(f"GPT has {room} positions, got {given}")
        return start


def token_shares(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Turn logits into the shares by which the next token is drawn.

    ``softmax(logits / temperature)``, cut to the likeliest and brought back
    to sum 1

    Args:
        logits: a score for each token of the vocabulary.
        temperature: above 1 flattens, below 1 sharpens; 0 leaves all to the
            likeliest. Of equal scores the lower id counts as likelier.
        top_k: keep the k likeliest.
        top_p: of what top_k left, keep the fewest likeliest tokens that
            hold this share together.

    Shape:
        (..., V) → (..., V)

    Raises:
        ValueError: temperature is below 0 or infinite, top_k is no whole
            number from 1 to V, or top_p is not above 0 and at most 1.

    Source:
        Fan, Lewis and Dauphin (2018), section 5.4, for top_k; Holtzman et
        al. (2020), section 3.1, for top_p.

    Example:
        >>> logits = torch.tensor([0.5, 0.3, 0.2]).log()
        >>> token_shares(logits, top_k=2)
        tensor([0.6250, 0.3750, 0.0000])
        >>> token_shares(logits, temperature=0.5, top_p=0.8)
        tensor([0.7353, 0.2647, 0.0000])
    """
    _check_sampling(logits.shape[-1], temperature, top_k, top_p)
    if temperature == 0:
        temperature, top_k = 1.0, 1
    ranked, ids = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    if top_k is not None:
        ranked = ranked.masked_fill(rank >= top_k, -math.inf)
    shares = softmax((ranked - ranked[..., :1]) / temperature, dim=-1)
    if top_p is not None and top_p < 1:
        likelier = shares.cumsum(dim=-1) - shares
        shares = torch.where(likelier < top_p, shares, 0)
        shares = shares / shares.sum(dim=-1, keepdim=True)
    return torch.zeros_like(shares).scatter(-1, ids, shares)


def logit_lens(gpt: GPT, ids: Tensor) -> Tensor:
    """Read the stream after each block as if no other block came.

    ``norm(xₗ) W_headᵀ`` for l = 0, the embedding, up to n_layers

    All blocks add to one stream, so a norm and a head that were trained
    for its end say something half way as well.

    Args:
        gpt: the model.
        ids: the tokens to read.

    Shape:
        ids (B, T) → (n_layers + 1, B, T, V); the last is ``gpt(ids)``

    Raises:
        ValueError: as ``GPT`` does.

    Source:
        nostalgebraist (2020), interpreting GPT: the logit lens.

    Example:
        >>> tiny = DecoderConfig(50, d_model=16, n_layers=2, n_heads=4)
        >>> logit_lens(GPT(tiny), torch.tensor([[4, 8, 15]])).shape
        torch.Size([3, 1, 3, 50])
    """
    return gpt.unembed(gpt.states(ids))


def _check_sampling(vocab_size, temperature, top_k, top_p) -> None:
    if not 0 <= temperature < math.inf:
        wanted = "temperature wants a number ≥ 0"
        raise ValueError(f"{wanted}, got {temperature}")
    if top_k is not None and whole(top_k=top_k)[0] > vocab_size:
        raise ValueError(f"top_k wants at most {vocab_size}, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p wants 0 < top_p ≤ 1, got {top_p}")
