"""Configurations against models built from lumen's blocks, and what they refuse."""

import re
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lumen.activation import relu
from lumen.attention import KVCache, MultiHeadAttention
from lumen.block import MLP, SwiGLU, TransformerBlock
from lumen.count import (
    MODELS,
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    ResNetConfig,
    VggConfig,
    count,
    flops_per_token,
)
from lumen.dense import Linear
from lumen.embedding import Embedding
from lumen.norm import LayerNorm, RMSNorm
from lumen.position import LearnedPositions

# ---- the whole against what is built from lumen's blocks


class Gpt(nn.Module):
    """A decoder of DecoderConfig's making, with as little code as it takes."""

    def __init__(self, c):
        super().__init__()
        norm = RMSNorm if c.norm == "rms" else LayerNorm
        mlp = SwiGLU if c.mlp == "swiglu" else MLP
        size = {"n_kv_heads": c.n_kv_heads, "bias": c.bias, "norm_first": c.norm_first}
        size |= {"norm": norm, "mlp": mlp}
        self.tokens = Embedding(c.vocab_size, c.d_model)
        self.learned = c.positions == "learned"
        if self.learned:
            self.positions = LearnedPositions(c.n_positions, c.d_model)
        self.blocks = nn.ModuleList(
            TransformerBlock(c.d_model, c.n_heads, c.d_ff, **size) for _ in range(c.n_layers)
        )
        self.norm = norm(c.d_model) if c.norm_first else nn.Identity()
        self.head = Linear(c.d_model, c.vocab_size, bias=False)
        if c.tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        if self.learned:
            x = x + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, causal=True)
        return self.head(self.norm(x))


DECODERS = [
    {},
    {"tied": False, "d_ff": 10},
    {"positions": "none", "n_kv_heads": 2},
    {"norm_first": False, "mlp": "gelu"},
    {"norm": "rms", "mlp": "swiglu", "bias": False, "n_kv_heads": 1, "tied": False},
    {"norm": "rms", "mlp": "swiglu", "d_ff": 7, "positions": "rope"},
]


@pytest.mark.parametrize("options", DECODERS)
def test_a_decoder_weighs_and_computes_what_it_says(options):
    config = DecoderConfig(11, 16, 3, 4, n_positions=9, **options)
    model = Gpt(config)
    assert config.parameters() == count(model).total
    with FlopCounterMode(display=False) as counter:
        model(torch.arange(7)[None])
    assert 7 * flops_per_token(config, 7) == counter.get_total_flops()
    tables = count(model.tokens).total if config.tied else 2 * count(model.tokens).total
    learned = 9 * 16 if config.positions == "learned" else 0
    head = 0 if config.tied else count(model.head).total
    assert config.non_embedding_parameters() == count(model).total - tables - learned + head


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_a_decoder_keeps_what_it_says(n_kv_heads):
    config = DecoderConfig(11, 16, 3, 4, n_kv_heads=n_kv_heads)
    caches = [KVCache() for _ in range(3)]
    for cache in caches:
        layer = MultiHeadAttention(16, 4, n_kv_heads=n_kv_heads)
        layer(torch.ones(2, 5, 16), cache=cache)
    held = sum(t.numel() * t.element_size() for c in caches for t in (c.keys, c.values))
    assert config.kv_cache_bytes(5, batch=2, bytes_per_value=4) == held


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens = Embedding(c.vocab_size, c.d_model)
        self.positions = Embedding(c.n_positions, c.d_model)
        self.types = Embedding(c.n_types, c.d_model)
        self.norm = LayerNorm(c.d_model)
        blocks = (
            TransformerBlock(c.d_model, c.n_heads, c.d_ff, norm_first=False)
            for _ in range(c.n_layers)
        )
        self.blocks = nn.Sequential(*blocks)
        self.pooler = Linear(c.d_model, c.d_model) if c.pooler else nn.Identity()

    def forward(self, ids):
        steps = torch.arange(ids.shape[1])
        return self.blocks(self.norm(self.tokens(ids) + self.positions(steps) + self.types(ids)))


@pytest.mark.parametrize("options", [{}, {"d_ff": 10, "n_types": 3}, {"pooler": False}])
def test_an_encoder_weighs_and_computes_what_it_says(options):
    config = EncoderConfig(11, 16, 3, 4, n_positions=9, **options)
    model = Encoder(config)
    assert config.parameters() == count(model).total
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 7, dtype=torch.long))
    assert 7 * flops_per_token(config, 7) == counter.get_total_flops()
    tables = count(model.tokens).total + count(model.positions).total + count(model.types).total
    assert config.non_embedding_parameters() == count(model).total - tables


class Both(nn.Module):
    """Two stacks with pre-norm, or with post-norm and then none behind them."""

    def __init__(self, c):
        super().__init__()
        d, norm = c.d_model, RMSNorm if c.norm == "rms" else LayerNorm
        attention = partial(MultiHeadAttention, d, c.n_heads, bias=c.bias)
        mlp = partial(MLP, d, c.d_ff, act=relu, bias=c.bias)

        def block(n):
            return nn.ModuleList([*(attention() for _ in range(n)), mlp(), *self.norms(n + 1)])

        self.norms = lambda n: [norm(d) for _ in range(n)]
        self.tokens = Embedding(c.vocab_size, d)
        self.reads = nn.ModuleList(block(1) for _ in range(c.n_layers))
        self.writes = nn.ModuleList(block(2) for _ in range(c.n_layers))
        self.final = nn.ModuleList(self.norms(2) if c.norm_first else [])
        self.relative = nn.Parameter(torch.zeros(2, 32, c.n_heads))
        if c.positions != "relative":
            del self.relative
        self.head = Linear(d, c.vocab_size, bias=False)
        if c.tied:
            self.head.weight = self.tokens.weight

    def forward(self, source, target):
        x, y = self.tokens(source), self.tokens(target)
        for own, mlp, *norms in self.reads:
            x = x + own(norms[0](x))
            x = x + mlp(norms[1](x))
        for own, cross, mlp, *norms in self.writes:
            y = y + own(norms[0](y), causal=True)
            y = y + cross(norms[1](y), context=x)
            y = y + mlp(norms[2](y))
        return self.head(y)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"d_ff": 10, "norm_first": False},
        {"positions": "relative", "norm": "rms", "bias": False},
        {"tied": False, "mlp": "gelu"},
    ],
)
def test_an_encoder_decoder_weighs_and_computes_what_it_says(options):
    config = EncoderDecoderConfig(11, 16, 3, 4, **options)
    model = Both(config)
    assert config.parameters() == count(model).total
    offsets = 2 * 32 * 4 if config.positions == "relative" else 0
    tables = count(model.tokens).total + offsets
    assert config.non_embedding_parameters() == count(model).total - tables
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 6, dtype=torch.long), torch.zeros(1, 4, dtype=torch.long))
    assert config.flops(6, 4) == counter.get_total_flops()
    assert config.flops(0, 0) == 0


# ---- what a configuration takes


KINDS = {
    DecoderConfig: {"vocab_size": 11, "d_model": 16, "n_layers": 3, "n_heads": 4},
    EncoderConfig: {"vocab_size": 11, "d_model": 16, "n_layers": 3, "n_heads": 4},
    EncoderDecoderConfig: {"vocab_size": 11, "d_model": 16, "n_layers": 3, "n_heads": 4},
    ResNetConfig: {"blocks": (1, 2)},
    VggConfig: {"convolutions": (1, 2)},
}


def of_type(*types):
    """Each configuration with each of its fields that is of one of these types."""
    return [(kind, f.name) for kind in KINDS for f in fields(kind) if f.type in types]


def test_a_configuration_is_a_record():
    for kind, sizes in KINDS.items():
        config = kind(**sizes)
        assert config == kind(**sizes) and hash(config) == hash(kind(**sizes))
        assert config != replace(config, source="elsewhere")
        with pytest.raises(FrozenInstanceError):
            config.source = "elsewhere"


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_become_python_integers(kind):
    def small(size):
        return tuple(map(np.int8, size)) if isinstance(size, tuple) else np.int8(size)

    config = kind(**{name: small(size) for name, size in KINDS[kind].items()})
    assert config == kind(**KINDS[kind])
    assert type(config.parameters()) is int
    assert config.parameters() == kind(**KINDS[kind]).parameters()
    for name in KINDS[kind]:
        value = getattr(config, name)
        assert {type(n) for n in (value if isinstance(value, tuple) else [value])} == {int}


@pytest.mark.parametrize("bad", [0, -1, 2.0, "3", True])
@pytest.mark.parametrize(("kind", "name"), of_type(int, int | None))
def test_refuses_what_is_no_size(kind, name, bad):
    with pytest.raises(ValueError, match=f"{name} wants a whole number ≥ 1, got {bad!r}"):
        kind(**KINDS[kind] | {name: bad})


@pytest.mark.parametrize(("kind", "name"), of_type(int))
def test_refuses_nothing_where_a_size_has_to_be(kind, name):
    with pytest.raises(ValueError, match=f"{name} wants a whole number ≥ 1, got None"):
        kind(**KINDS[kind] | {name: None})


@pytest.mark.parametrize("bad", [(), 3, "22", None, {1: 2}])
@pytest.mark.parametrize(("kind", "name"), of_type(tuple[int, ...]))
def test_refuses_what_are_no_stages(kind, name, bad):
    wanted = f"{name} wants a whole number for each stage, got {re.escape(repr(bad))}"
    with pytest.raises(ValueError, match=wanted):
        kind(**{name: bad})
    with pytest.raises(ValueError, match=f"{name} wants a whole number ≥ 1, got 0"):
        kind(**{name: (2, 0)})
    assert kind(**{name: [2, 1]}) == kind(**{name: (2, 1)})


@pytest.mark.parametrize("bad", [1, 0, None, "no"])
@pytest.mark.parametrize(("kind", "name"), of_type(bool))
def test_refuses_what_is_no_switch(kind, name, bad):
    with pytest.raises(ValueError, match=f"{name} wants True or False, got {bad!r}"):
        kind(**KINDS[kind] | {name: bad})


NUMBERS = {
    "dropout": ("p from 0 to 1", [0, 0.5, 1], [-0.1, 1.1]),
    "eps": ("a number ≥ 0", [0, 1e-5], [-1e-5, float("inf")]),
    "rope_base": ("a number > 0", [1, 5e5], [0, -1.0, float("inf")]),
}


@pytest.mark.parametrize(("kind", "name"), of_type(float, float | None))
def test_refuses_what_is_no_fitting_number(kind, name):
    wanted, fit, unfit = NUMBERS[name]
    for value in fit:
        assert getattr(kind(**KINDS[kind] | {name: value}), name) == value
    for bad in [*unfit, float("nan"), True, "0.1"]:
        with pytest.raises(ValueError, match=f"{name} wants {wanted}, got {bad!r}"):
            kind(**KINDS[kind] | {name: bad})


WORDS = [(kind, name) for kind in KINDS for name in kind.CHOICES]


@pytest.mark.parametrize(("kind", "name"), WORDS)
def test_refuses_words_that_mean_nothing(kind, name):
    words = kind.CHOICES[name]
    told = kind.__doc__.split(f"\n        {name}: ")[1].split("\n        ")[0]
    assert tuple(re.findall(r'"(\w+)"', told)) == words
    for word in words:
        assert getattr(kind(**KINDS[kind] | {name: word}), name) == word
    for bad in ("LAYER", None, 1):
        wanted = re.escape(f"{name} wants one of {[*words]}, got {bad!r}")
        with pytest.raises(ValueError, match=wanted):
            kind(**KINDS[kind] | {name: bad})


@pytest.mark.parametrize("kind", [DecoderConfig, EncoderConfig, EncoderDecoderConfig])
def test_refuses_heads_that_do_not_divide_the_width(kind):
    with pytest.raises(ValueError, match="n_heads must divide d_model, got 3 and 16"):
        kind(**KINDS[kind] | {"n_heads": 3})


def test_refuses_heads_that_cannot_be_shared():
    with pytest.raises(ValueError, match="n_kv_heads must divide n_heads, got 3 and 4"):
        DecoderConfig(**KINDS[DecoderConfig], n_kv_heads=3)


def test_refuses_to_turn_an_odd_head():
    sizes = KINDS[DecoderConfig] | {"d_model": 12}
    assert DecoderConfig(**sizes).d_head == 3
    with pytest.raises(ValueError, match="rope wants an even d_head, got 3"):
        DecoderConfig(**sizes, positions="rope")


@pytest.mark.parametrize("bad", [-1, 1.5, True])
def test_refuses_tokens_that_are_no_number(bad):
    both = MODELS["t5-small"]
    for call in (MODELS["gpt2"].kv_cache_bytes, both.kv_cache_bytes):
        with pytest.raises(ValueError, match=f"tokens wants a whole number ≥ 0, got {bad}"):
            call(bad)
        for name in ("batch", "bytes_per_value"):
            with pytest.raises(ValueError, match=f"{name} wants a whole number ≥ 1, got {bad}"):
                call(1, **{name: bad})
    for call in (partial(both.kv_cache_bytes, 1), partial(both.flops, target=1)):
        with pytest.raises(ValueError, match=f"source wants a whole number ≥ 0, got {bad}"):
            call(source=bad)
    with pytest.raises(ValueError, match=f"target wants a whole number ≥ 0, got {bad}"):
        both.flops(1, bad)


# ---- the docstrings say the same


FORMULAS = {
    DecoderConfig: [("gpt2", {}), ("llama-3-8b", {"d_kv": 1024, "d_ff": 14_336})],
    EncoderConfig: [("bert-base", {})],
    EncoderDecoderConfig: [("t5-small", {"d_ff": 2048})],
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_weights_of_the_docstrings(kind):
    section = kind.__doc__.split("    Weights:\n")[1].split("\n\n")[0]
    formulas = re.findall(r"``(.+?)``", section)
    for formula, (name, sizes) in zip(formulas, FORMULAS[kind], strict=True):
        config = MODELS[name]
        sizes = sizes | {"V": config.vocab_size, "P": config.n_positions, "T": 2}
        sizes |= {"L": config.n_layers, "d": config.d_model, "h": config.n_heads}
        text = formula.replace("·", "*").replace("²", "**2")
        assert eval(text, {"__builtins__": {}}, sizes) == config.parameters()
