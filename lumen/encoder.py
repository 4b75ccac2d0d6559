"""The encoder: every token reads the whole text, before it and behind it.

Three tables say which token stands where and in which of two texts. Blocks
let the tokens read one another, and out comes a vector for each token that
knows its surroundings. Nothing is written: what the vectors are good for is
said by a head. ``Pooler`` and ``ClassificationHead`` read the first token,
``mean_pool`` reads all, ``MLMHead`` guesses what was hidden.
"""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from lumen.activation import gelu, tanh
from lumen.block import TransformerBlock
from lumen.count import EncoderConfig
from lumen.dense import Linear, linear
from lumen.dropout import Dropout
from lumen.embedding import Embedding
from lumen.norm import LayerNorm
from lumen.position import LearnedPositions
from lumen.pretrained import read_bert, to_our_names


class Pooler(nn.Module):
    """Let the first token speak for the text.

    ``y = tanh(x₁ Wᵀ + b)``

    The token [CLS] stands there, and means nothing by itself. Training
    decides what it gathers.

    Args:
        d_model: numbers in a token.

    Shape:
        (B, T, d_model) → (B, d_model)

    Weights:
        ``d_model · d_model + d_model``

    Cost:
        ``2 · d_model · d_model`` FLOPs per text, and d_model tanhs.

    Raises:
        ValueError: d_model is below 1, or the states are of another shape
            or hold no token.

    Differs from:
        nothing in torch.nn, which has no such layer.

    Source:
        Devlin, Chang, Lee and Toutanova (2019), BERT, section 3.1; the
        dense layer and the tanh stand in its published code.

    Example:
        >>> Pooler(64)(torch.zeros(2, 7, 64)).shape
        torch.Size([2, 64])
    """

    def __init__(self, d_model: int):
        super().__init__()
        self.dense = Linear(d_model, d_model)

    def forward(self, states: Tensor) -> Tensor:
        if states.ndim != 3 or states.shape[1] < 1:
            wanted, given = "(B, T, D) with T ≥ 1", tuple(states.shape)
            raise ValueError(f"Pooler wants states {wanted}, got {given}")
        return tanh(self.dense(states[:, 0]))


class Bert(nn.Module):
    """Give each token a vector that knows the whole text.

    ``x₀ = drop(norm(token[ids] + token_type[types] + position[0 … T−1]))``,
    ``xₗ = blockₗ(xₗ₋₁)``

    The blocks are post-norm and hide nothing but padding: a token reads to
    its right as well. So it cannot be trained to say what comes next, which
    it would see; it is trained to say what was hidden.

    Args:
        config: V tokens, P positions, N token types, L blocks, width d and
            the rest, as in ``EncoderConfig``.

    Shape:
        ids (B, T) → (B, T, d)

    Weights:
        ``(V + P + N + 2) · d + L · (12 · d + 13) · d + (d + 1) · d`` for
        d_ff = 4 d: tables and their norm, blocks, pooler. Without a pooler
        the last term goes.

    Cost:
        ``L · (24 · d · d + 4 · T · d)`` FLOPs per position for d_ff = 4 d.
        Norms, softmax, GELU, sums and the pooler are left out.

    Raises:
        ValueError: a part refuses its size; when
            called, T is 0 or beyond the positions, an id or a type has no
            row, or mask and token types are of another shape or kind.

    Differs from:
        ``torch.nn.TransformerEncoder``, which has no tables and drops once
        more, inside the MLP. BERT starts from N(0, 0.02²); here each layer
        starts as it does alone, until ``gpt2_init_`` says otherwise.

    Source:
        Devlin, Chang, Lee and Toutanova (2019), BERT, section 3.

    Example:
        >>> bert = Bert(EncoderConfig(1000, 64, n_layers=2, n_heads=4))
        >>> ids = torch.tensor([[5, 8, 2], [7, 3, 0]])
        >>> bert(ids, mask=ids != 0).shape
        torch.Size([2, 3, 64])
        >>> bert.pooler(bert(ids, mask=ids != 0)).shape
        torch.Size([2, 64])
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.config, d = config, config.d_model
        norm = partial(LayerNorm, eps=config.eps)
        self.token = Embedding(config.vocab_size, d)
        self.position = LearnedPositions(config.n_positions, d)
        self.token_type = Embedding(config.n_types, d)
        self.norm = norm(d)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            TransformerBlock(
                d,
                config.n_heads,
                config.d_ff,
                config.dropout,
                norm_first=False,
                norm=norm,
            )
            for _ in range(config.n_layers)
        )
        self.pooler = Pooler(d) if config.pooler else None

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> Tensor:
        """Read the texts, and hand back the states behind the last block.

        Args:
            ids: the tokens.
            mask: boolean (B, T), True = a token, False = padding that none
                may attend to. What stands at padding means nothing.
            token_types: 0 in the first text, 1 in the second; None: all 0.
        """
        return self.states(ids, mask=mask, token_types=token_types)[-1]

    def states(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> list[Tensor]:
        """Hand back what enters the first block, and what leaves each.

        Shape:
            ids (B, T) → L + 1 of (B, T, d)
        """
        self._check(ids, mask, token_types)
        if token_types is None:
            token_types = torch.zeros_like(ids)
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.token(ids) + self.token_type(token_types)
        states = [self.drop(self.norm(x + self.position(places)))]
        for block in self.blocks:
            states.append(block(states[-1], mask=_keys(mask)))
        return states

    def maps(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> Tensor:
        """Hand back who read whom: the weights of all heads of all blocks.

        Each block's attention runs once more, on the states it had read.

        Shape:
            ids (B, T) → (L, B, n_heads, T, T)
        """
        states = self.states(ids, mask=mask, token_types=token_types)
        how = {"mask": _keys(mask), "return_weights": True}
        read = zip(self.blocks, states[:-1], strict=True)
        return torch.stack([block.attn(x, **how)[1] for block, x in read])

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Bert":
        """Take sizes and weights from a folder as Hugging Face writes it.

        The model comes in eval mode and in the file's dtype. It has a
        pooler if the file has one. Of a file whose names start with
        ``bert.`` the rest, a head, is left alone. Attention drops with the
        rate of the states.

        Args:
            folder: with ``config.json`` and ``model.safetensors``.

        Raises:
            ValueError: a file is missing; the model is not a BERT with
                GELU and a table of positions; a tensor is missing, unknown
                or of another shape.
        """
        config, tensors = read_bert(folder)
        with torch.device("meta"):
            bert = cls(config)
        tensors = to_our_names(tensors, bert.state_dict())
        bert.load_state_dict(tensors, assign=True)
        return bert.eval()

    def _check(self, ids, mask, token_types):
        most, given = self.config.n_positions, tuple(ids.shape)
        if ids.ndim != 2 or not 1 <= ids.shape[1] <= most:
            wanted = f"ids (B, T) with 1 ≤ T ≤ {most}"
            raise ValueError(f"Bert wants {wanted}, got {given}")
        if token_types is not None and token_types.shape != ids.shape:
            wanted, given = f"token types {given}", tuple(token_types.shape)
            raise ValueError(f"Bert wants {wanted}, got {given}")
        if mask is not None:
            _check_mask("Bert", mask, given)


class ClassificationHead(nn.Module):
    """Say to which class a text belongs, by its first token.

    ``y = drop(pooler(x)) Wᵀ + b``

    Args:
        d_model: numbers in a token.
        n_classes: classes there are.
        dropout: probability of losing a number of the pooler's in training.

    Shape:
        (B, T, d_model) → logits (B, n_classes)

    Weights:
        ``d_model · d_model + d_model + d_model · n_classes + n_classes``

    Cost:
        ``2 · d_model · d_model + 2 · d_model · n_classes`` FLOPs per text.

    Raises:
        ValueError: a size is below 1, dropout is outside [0, 1], or the
            states are of another shape or hold no token.

    Differs from:
        BERT's code in owning a pooler. To go on from the trained one, say
        ``head.pooler = bert.pooler``. Dropout is 0.1 there.

    Source:
        Devlin, Chang, Lee and Toutanova (2019), BERT, section 4.1.

    Example:
        >>> ClassificationHead(64, 3)(torch.zeros(2, 7, 64)).shape
        torch.Size([2, 3])
    """

    def __init__(self, d_model: int, n_classes: int, dropout: float = 0.0):
        super().__init__()
        self.pooler = Pooler(d_model)
        self.drop = Dropout(dropout)
        self.out = Linear(d_model, n_classes)

    def forward(self, states: Tensor) -> Tensor:
        return self.out(self.drop(self.pooler(states)))


class MLMHead(nn.Module):
    """Say for each position which token stands there.

    ``y = norm(gelu(x Wᵀ + b)) Eᵀ + c``

    E is the table that the tokens came in by, the same tensor and not a
    copy: to say a token is to be near its row.

    Args:
        token: the table E, ``bert.token``.
        eps: of the norm.

    Shape:
        (..., d_model) → logits (..., vocab_size)

    Weights:
        ``d_model · (d_model + 3) + vocab_size + vocab_size · d_model``, the
        last term being E, which counts once in a model that has it already.

    Cost:
        ``2 · d_model · d_model + 2 · d_model · vocab_size`` FLOPs per
        position. GELU and norm are left out.

    Raises:
        ValueError: eps is negative, or the states are not d_model wide.

    Differs from:
        ``torch.nn.Linear``, in its last step, by the tied weight only. In
        Hugging Face's files the offset c has two names.

    Source:
        Devlin, Chang, Lee and Toutanova (2019), BERT, section 3.1; Press
        and Wolf (2017), Using the Output Embedding to Improve Language
        Models, for the tied table.

    Example:
        >>> bert = Bert(EncoderConfig(1000, 64, n_layers=2, n_heads=4))
        >>> head = MLMHead(bert.token)
        >>> head(bert(torch.tensor([[5, 8, 2]]))).shape
        torch.Size([1, 3, 1000])
        >>> head.weight is bert.token.weight
        True
    """

    def __init__(self, token: Embedding, eps: float = 1e-12):
        super().__init__()
        vocab_size, d_model = token.weight.shape
        self.dense = Linear(d_model, d_model)
        self.norm = LayerNorm(d_model, eps)
        self.weight = token.weight
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: Tensor) -> Tensor:
        x = self.norm(gelu(self.dense(states)))
        return linear(x, self.weight, self.bias)


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """Take the mean of each text's tokens, and leave padding out.

    ``y = Σₜ mₜ xₜ / Σₜ mₜ``, or 0 where there is no token

    A plain mean would depend on how far a text was padded, that is on the
    longest text beside it.

    Args:
        states: the vectors of the tokens.
        mask: boolean, True = a token, False = padding.

    Shape:
        states (B, T, D), mask (B, T) → (B, D)

    Raises:
        ValueError: the states are of another shape, or the mask is not
            boolean or does not fit.

    Source:
        Reimers and Gurevych (2019), Sentence-BERT, section 3.

    Example:
        >>> states = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]]])
        >>> mean_pool(states, torch.tensor([[True, True, False]]))
        tensor([[2., 4.]])
    """
    if states.ndim != 3:
        given = tuple(states.shape)
        raise ValueError(f"mean_pool wants states (B, T, D), got {given}")
    _check_mask("mean_pool", mask, tuple(states.shape[:2]))
    padding = ~mask.unsqueeze(-1)  # (B, T) → (B, T, 1)
    total = states.masked_fill(padding, 0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def _keys(mask: Tensor | None) -> Tensor | None:
    # (B, T) → (B, 1, T): every query may see the same keys
    return None if mask is None else mask.unsqueeze(1)


def _check_mask(name: str, mask: Tensor, shape: tuple) -> None:
    # ones and zeros as floats would be added to the scores
    if mask.dtype != torch.bool or mask.shape != shape:
        given = f"{tuple(mask.shape)} of {mask.dtype}"
        wanted = f"a boolean mask {shape}"
        raise ValueError(f"{name} wants {wanted}, got {given}")
