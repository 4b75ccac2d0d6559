"""lumen.block against the layers of torch.nn.Transformer, and against the sums it is made of."""

import math
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen import block, norm
from lumen.activation import gelu, relu
from lumen.attention import KVCache, MultiHeadAttention, causal_mask
from lumen.block import (
    MLP,
    CrossAttentionBlock,
    SwiGLU,
    TransformerBlock,
    kept_length,
    mlp_named,
    norm_named,
)
from lumen.count import count
from lumen.norm import LayerNorm, RMSNorm
from tests.oracle import agree, normal

# ---- MLP and SwiGLU


def test_the_worked_example():
    # facts_000_003, section 8; its 0.79 and −0.21 come from rounding the hidden numbers first
    layer = MLP(2, 4, bias=False).double()
    ask = torch.tensor([[1, 0, -1, 1], [0, 1, 1, 1]]).double()
    write = torch.tensor([[1, 0], [0, 1], [1, 1], [1, -1]]).double()
    layer.load_state_dict({"fc.weight": ask.T, "proj.weight": write.T})
    x = torch.tensor([1, -1]).double()
    asked = layer.fc(x)
    assert_close(asked, torch.tensor([1, -1, -2, 0]).double())
    hidden = torch.tensor([0.8413, -0.1587, -0.0455, 0]).double()
    assert_close(layer.act(asked), hidden, rtol=0, atol=5e-5)
    assert_close(layer(x), torch.tensor([0.7958, -0.2042]).double(), rtol=0, atol=5e-5)
    assert_close(x + layer(x), torch.tensor([1.7958, -1.2042]).double(), rtol=0, atol=5e-5)


def test_a_unit_that_adds_cannot_ask_for_first_and_not_second():
    # errata_000_003, 36: (1, 0) does not look at the second number, (½, −½) does
    x = torch.tensor([[1.0, -1.0], [1.0, 1.0]])
    assert (x @ torch.tensor([1.0, 0.0])).tolist() == [1, 1]
    assert (x @ torch.tensor([0.5, -0.5])).tolist() == [1, 0]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("act", "theirs"),
    [
        (gelu, F.gelu),
        (relu, F.relu),
        (partial(gelu, approximate="tanh"), partial(F.gelu, approximate="tanh")),
    ],
)
def test_mlp_equals_torch(act, theirs, bias):
    ours = MLP(5, 7, act=act, bias=bias).double()
    fc, proj = ours.fc, ours.proj

    def other(x):
        return F.linear(theirs(F.linear(x, fc.weight, fc.bias)), proj.weight, proj.bias)

    params = [(p, p) for p in ours.parameters()]
    assert len(params) == (4 if bias else 2)
    agree(ours, other, normal(2, 3, 5), params=params)


def test_swiglu_equals_torch():
    ours = SwiGLU(5, 7).double()
    gate, up, down = (w.weight for w in (ours.w_gate, ours.w_up, ours.w_down))

    def other(x):
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    params = [(p, p) for p in ours.parameters()]
    agree(ours, other, normal(2, 3, 5), params=params)


def test_swiglu_equals_the_mlp_of_llama():
    import transformers
    from transformers.models.llama.modeling_llama import LlamaMLP

    config = transformers.LlamaConfig(hidden_size=12, intermediate_size=20, num_attention_heads=3)
    theirs, ours = LlamaMLP(config).double(), SwiGLU(12, 20).double()
    names = {"w_gate": "gate_proj", "w_up": "up_proj", "w_down": "down_proj"}
    state = theirs.state_dict()
    ours.load_state_dict({f"{a}.weight": state[f"{b}.weight"] for a, b in names.items()})
    params = [(getattr(ours, a).weight, getattr(theirs, b).weight) for a, b in names.items()]
    agree(ours, theirs, normal(2, 3, 12), params=params)


def test_each_token_is_treated_alone_and_all_alike():
    for layer in (MLP(8).double(), SwiGLU(8).double()):
        x = normal(1, 30, 8)
        x[0, 23] = x[0, 5]
        y = layer(x)
        assert_close(y[0, 5], y[0, 23], rtol=0, atol=1e-15)
        assert_close(y[:, 5], layer(x[:, 5]))


def test_names_and_widths():
    mlp, gated = MLP(6), SwiGLU(6)
    assert [name for name, _ in mlp.named_children()] == ["fc", "proj", "drop"]
    assert [name for name, _ in gated.named_children()] == ["w_gate", "w_up", "w_down", "drop"]
    assert mlp.fc.weight.shape == (24, 6) and gated.w_gate.weight.shape == (16, 6)
    assert SwiGLU(8).w_down.weight.shape == (8, 22)  # 21.3 rounded up
    assert all(".bias" not in name for name, _ in gated.named_parameters())


@pytest.mark.parametrize("layer", [MLP, SwiGLU])
def test_dropout_acts_on_the_output_in_training_only(layer):
    torch.manual_seed(0)
    dropped, x = layer(8, 16, 0.5), normal(4, 50, 8, dtype=torch.float32)
    plain = layer(8, 16)
    plain.load_state_dict(dropped.state_dict())
    y, whole = dropped(x), plain(x)
    lost = y == 0
    assert 0.4 < lost.float().mean() < 0.6
    assert_close(y[~lost], 2 * whole[~lost])
    assert torch.equal(dropped.eval()(x), whole)


@pytest.mark.parametrize("layer", [MLP, SwiGLU])
@pytest.mark.parametrize(("d_model", "d_ff"), [(0, 4), (-1, 4), (4, 0), (4, -2), (0, None)])
def test_mlps_refuse_sizes_without_sense(layer, d_model, d_ff):
    with pytest.raises(ValueError, match=f"{layer.__name__} wants sizes ≥ 1, got {d_model} and "):
        layer(d_model, d_ff)


@pytest.mark.parametrize("layer", [MLP, SwiGLU])
def test_mlps_refuse_another_width_and_no_probability(layer):
    with pytest.raises(ValueError, match=r"linear wants x \(\.\.\., 8\), got \(2, 7\)"):
        layer(8)(torch.ones(2, 7))
    with pytest.raises(ValueError, match="dropout wants p from 0 to 1, got -0.1"):
        layer(8, 4, -0.1)


# ---- the block against torch.nn.TransformerEncoderLayer

ACTS = {"gelu": gelu, "relu": relu}


def pair(d_model, n_heads, d_ff, norm_first, act="gelu", bias=True, dtype=torch.float64, eps=1e-5):
    """Torch's layer with random gains and offsets, ours with its weights, and the pairs of both."""
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        d_model,
        n_heads,
        d_ff,
        0.0,
        act,
        eps,
        batch_first=True,
        norm_first=norm_first,
        bias=bias,
        dtype=dtype,
    )
    for name, parameter in theirs.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=1.0 if name.startswith("norm") else 0.0)
    mlp = partial(MLP, act=ACTS[act], bias=bias)
    made = partial(LayerNorm, eps=eps)
    ours = TransformerBlock(
        d_model, n_heads, d_ff, norm_first=norm_first, norm=made, mlp=mlp, bias=bias
    ).to(dtype)
    names = {"ln1": "norm1", "ln2": "norm2", "attn.out": "self_attn.out_proj"}
    names |= {"mlp.fc": "linear1", "mlp.proj": "linear2"}
    state = theirs.state_dict()
    mine = {}
    for name in ours.state_dict():
        part, kind = name.rsplit(".", 1)
        if part in names:
            mine[name] = state.get(f"{names[part]}.{kind}", torch.zeros(d_model, dtype=dtype))
    for kind in ("weight", "bias") if bias else ("weight",):
        thirds = state[f"self_attn.in_proj_{kind}"].chunk(3)
        for name, third in zip(("query", "key", "value"), thirds, strict=True):
            mine[f"attn.{name}.{kind}"] = third
    ours.load_state_dict(mine)
    return ours, theirs, names


def same_as_torch(ours, theirs, names, x, tolerance=1e-11, mask=None, **hidden):
    """The output, the gradient of the input and those of all weights."""
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, wanted = ours(a, mask=mask), theirs(b, **hidden)
    upstream = normal(*x.shape, seed=11, dtype=x.dtype)
    y.backward(upstream)
    wanted.backward(upstream)
    correct = {name: p.grad for name, p in theirs.named_parameters()}
    seen = {"y": (y, wanted), "x": (a.grad, b.grad)}
    for kind in ("weight", "bias"):
        whole = correct.pop(f"self_attn.in_proj_{kind}", None)
        if whole is not None:
            parts = [getattr(getattr(ours.attn, n), kind).grad for n in ("query", "key", "value")]
            seen[f"in_proj_{kind}"] = torch.cat(parts), whole
    mine = dict(ours.named_parameters())
    for ours_name, their_name in names.items():
        for kind in ("weight", "bias"):
            gradient = correct.pop(f"{their_name}.{kind}", None)
            if gradient is not None:
                seen[f"{ours_name}.{kind}"] = mine[f"{ours_name}.{kind}"].grad, gradient
    assert correct == {}
    for name, (gradient, right) in seen.items():
        assert_close(
            gradient, right, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(("d_model", "n_heads", "d_ff"), [(8, 2, 32), (12, 3, 7), (6, 6, 1)])
def test_equals_torch(d_model, n_heads, d_ff, act, norm_first):
    # harvardnlp/annotated-transformer#1, #92, harvardnlp/harvardnlp.github.io#6: the paper is
    # post-norm, its code pre-norm
    both = pair(d_model, n_heads, d_ff, norm_first, act)
    same_as_torch(*both, normal(3, 5, d_model))


@pytest.mark.parametrize("norm_first", [True, False])
def test_equals_torch_without_offsets(norm_first):
    # torch's layer without bias has norms without offset: ours holds zeros there
    same_as_torch(*pair(8, 2, 16, norm_first, bias=False), normal(3, 5, 8))


@pytest.mark.parametrize("norm_first", [True, False])
def test_equals_torch_in_float32(norm_first):
    both = pair(32, 4, 64, norm_first, dtype=torch.float32)
    same_as_torch(*both, normal(2, 9, 32, dtype=torch.float32), tolerance=1e-4)


@pytest.mark.parametrize("norm_first", [True, False])
def test_equals_torch_with_the_eps_of_bert(norm_first):
    # lucidrains/x-transformers#37, huggingface/transformers#1089: 1e-12, and the GELU with erf
    same_as_torch(*pair(8, 2, 16, norm_first, eps=1e-12), normal(3, 5, 8))


@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 3), st.integers(2, 4), st.booleans())
def test_equals_torch_for_any_shape(batch, tokens, n_heads, d_head, norm_first):
    both = pair(n_heads * d_head, n_heads, 5, norm_first)
    same_as_torch(*both, normal(batch, tokens, n_heads * d_head), tolerance=1e-9)


@pytest.mark.parametrize("norm_first", [True, False])
def test_masks_reach_attention(norm_first):
    both = pair(8, 2, 16, norm_first)
    past = causal_mask(5, 5)
    same_as_torch(*both, normal(3, 5, 8), mask=past, src_mask=~past)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
    hidden = {"src_key_padding_mask": ~real}
    both = pair(8, 2, 16, norm_first)
    same_as_torch(*both, normal(3, 5, 8), mask=real[:, None, :], **hidden)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_fully_masked_row_is_finite(norm_first):
    layer = TransformerBlock(8, 2, norm_first=norm_first)
    x = normal(1, 3, 8, dtype=torch.float32).requires_grad_()
    y = layer(x, mask=torch.zeros(3, 3, dtype=torch.bool))
    y.backward(normal(1, 3, 8, seed=1, dtype=torch.float32))
    assert y.isfinite().all() and x.grad.isfinite().all()


# ---- what passes through

OPTIONS = {
    "gpt": {},
    "post": {"norm_first": False},
    "llama": {"norm": RMSNorm, "mlp": SwiGLU, "n_kv_heads": 2, "bias": False, "rope": "halves"},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_causal_is_the_causal_mask_and_hides_the_future(kind):
    layer, x = TransformerBlock(16, 4, **OPTIONS[kind]).double(), normal(2, 6, 16)
    y = layer(x, causal=True)
    assert_close(y, layer(x, mask=causal_mask(6, 6)), rtol=0, atol=0)
    later = x.clone()
    later[:, 4:] = normal(2, 2, 16, seed=1)
    assert torch.equal(layer(later, causal=True)[:, :4], y[:, :4])
    assert (layer(later)[:, :4] - layer(x)[:, :4]).abs().max() > 1e-4


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("chunks", [[1] * 6, [4, 2], [1, 5]])
def test_reading_in_pieces_with_a_cache_equals_reading_at_once(kind, chunks):
    layer, x = TransformerBlock(16, 4, **OPTIONS[kind]).double(), normal(2, 6, 16)
    cache = KVCache()
    pieces = [layer(part, causal=True, cache=cache) for part in x.split(chunks, dim=1)]
    assert cache.length == 6
    assert_close(torch.cat(pieces, dim=1), layer(x, causal=True), rtol=0, atol=1e-12)


def test_positions_reach_rope():
    layer, x = TransformerBlock(16, 4, **OPTIONS["llama"]).double(), normal(2, 4, 16)
    places = torch.tensor([0, 3, 4, 9])
    assert_close(layer(x, positions=torch.arange(4)), layer(x), rtol=0, atol=0)
    wanted = x + layer.attn(layer.ln1(x), positions=places)
    wanted = wanted + layer.mlp(layer.ln2(wanted))
    assert_close(layer(x, positions=places), wanted, rtol=0, atol=0)
    assert (layer(x, positions=places) - layer(x)).abs().max() > 1e-4
    with pytest.raises(ValueError, match="positions want a layer made with rope"):
        TransformerBlock(16, 4)(x.float(), positions=places)


def test_equals_a_layer_of_llama():
    import transformers
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=24,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs = LlamaDecoderLayer(config, layer_idx=0).double()
    for name, p in theirs.named_parameters():
        nn.init.normal_(p, mean=float("norm" in name), std=0.3)
    options = OPTIONS["llama"] | {"norm": partial(RMSNorm, eps=1e-5)}
    ours = TransformerBlock(16, 4, 24, **options).double()
    names = {
        "ln1": "input_layernorm",
        "ln2": "post_attention_layernorm",
        "attn.query": "self_attn.q_proj",
        "attn.key": "self_attn.k_proj",
        "attn.value": "self_attn.v_proj",
        "attn.out": "self_attn.o_proj",
        "mlp.w_gate": "mlp.gate_proj",
        "mlp.w_up": "mlp.up_proj",
        "mlp.w_down": "mlp.down_proj",
    }
    state = theirs.state_dict()
    ours.load_state_dict({f"{a}.weight": state.pop(f"{b}.weight") for a, b in names.items()})
    assert not state
    x = normal(2, 5, 16)
    turns = LlamaRotaryEmbedding(config).double()(x, torch.arange(5)[None])
    hidden = torch.zeros(1, 1, 5, 5).double().masked_fill(~causal_mask(5, 5), -math.inf)
    wanted = theirs(x, attention_mask=hidden, position_embeddings=turns)
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    # its norm is taken in float32
    assert_close(ours(x, causal=True), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", OPTIONS)
def test_hands_back_the_weights_of_its_attention(kind):
    layer, x = TransformerBlock(16, 4, **OPTIONS[kind]).double(), normal(2, 6, 16)
    y, weights = layer(x, causal=True, return_weights=True)
    read = layer.ln1(x) if layer.norm_first else x
    _, wanted = layer.attn(read, causal=True, return_weights=True)
    assert torch.equal(y, layer(x, causal=True)) and torch.equal(weights, wanted)
    assert weights.shape == (2, 4, 6, 6)


# ---- the block with cross-attention against torch.nn.TransformerDecoderLayer

OF_DECODER = {
    "ln1": "norm1",
    "attn": "self_attn",
    "ln2": "norm2",
    "cross": "multihead_attn",
    "ln3": "norm3",
    "mlp.fc": "linear1",
    "mlp.proj": "linear2",
}


def from_torch(theirs, names):
    """Tensors of a layer of torch, weights or gradients, under the names of ours."""
    ours = {}
    for mine, other in names.items():
        for kind in ("weight", "bias"):
            if f"{other}.in_proj_{kind}" in theirs:
                thirds = theirs[f"{other}.in_proj_{kind}"].chunk(3)
                for part, third in zip(("query", "key", "value"), thirds, strict=True):
                    ours[f"{mine}.{part}.{kind}"] = third
                ours[f"{mine}.out.{kind}"] = theirs[f"{other}.out_proj.{kind}"]
            elif f"{other}.{kind}" in theirs:
                ours[f"{mine}.{kind}"] = theirs[f"{other}.{kind}"]
    return ours


def cross_pair(norm_first, act="relu", bias=True, d_ff=16):
    torch.manual_seed(0)
    options = {"batch_first": True, "norm_first": norm_first, "bias": bias}
    theirs = nn.TransformerDecoderLayer(8, 2, d_ff, 0.0, act, **options).double()
    for name, parameter in theirs.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=float("norm" in name and "weight" in name))
    mlp = mlp_named(act, bias)
    ours = CrossAttentionBlock(8, 2, d_ff, norm_first=norm_first, mlp=mlp, bias=bias).double()
    missing, extra = ours.load_state_dict(from_torch(theirs.state_dict(), OF_DECODER), strict=False)
    assert extra == [] and missing == ([] if bias else ["ln1.bias", "ln2.bias", "ln3.bias"])
    return ours, theirs


def same_as_decoder_layer(ours, theirs, how, other, shape=(3, 5, 6)):
    batch, n, n_source = shape
    inputs = normal(batch, n, 8), normal(batch, n_source, 8, seed=1)
    mine = [x.clone().requires_grad_() for x in inputs]
    yours = [x.clone().requires_grad_() for x in inputs]
    y, wanted = ours(*mine, **how), theirs(*yours, **other)
    upstream = normal(batch, n, 8, seed=11)
    y.backward(upstream)
    wanted.backward(upstream)
    seen = {"y": (y, wanted), "x": (mine[0].grad, yours[0].grad)}
    seen["context"] = mine[1].grad, yours[1].grad
    correct = from_torch({name: p.grad for name, p in theirs.named_parameters()}, OF_DECODER)
    parameters = dict(ours.named_parameters())
    seen |= {name: (parameters[name].grad, gradient) for name, gradient in correct.items()}
    assert len(seen) == 3 + sum(1 for _ in theirs.parameters()) + 4 * (
        2 if theirs.linear1.bias is not None else 1
    )
    for name, (given_, right) in seen.items():
        close = {"rtol": 1e-11, "atol": 1e-11}
        assert_close(given_, right, **close, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("bias", [True, False])
def test_cross_block_equals_torch(norm_first, act, bias):
    same_as_decoder_layer(*cross_pair(norm_first, act, bias), {}, {})


@pytest.mark.parametrize("norm_first", [True, False])
def test_masks_of_both_attentions_equal_those_of_torch(norm_first):
    past = causal_mask(5, 5)
    real = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]]).bool()
    how = {"causal": True, "context_mask": real[:, None, None, :]}
    other = {"tgt_mask": ~past, "memory_key_padding_mask": ~real}
    same_as_decoder_layer(*cross_pair(norm_first), how, other)
    own = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]).bool()
    how, other = {"mask": own[:, None, :]}, {"tgt_key_padding_mask": ~own}
    same_as_decoder_layer(*cross_pair(norm_first), how, other)


@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(1, 9), st.booleans())
def test_cross_block_equals_torch_for_any_shape(batch, n, n_source, d_ff, norm_first):
    same_as_decoder_layer(*cross_pair(norm_first, d_ff=d_ff), {}, {}, (batch, n, n_source))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("chunks", [[1] * 5, [3, 2], [1, 4]])
def test_cross_block_reads_in_pieces_and_the_source_once(norm_first, chunks):
    layer = CrossAttentionBlock(8, 2, norm_first=norm_first).double()
    x, context, cache = normal(2, 5, 8), normal(2, 6, 8, seed=1), (KVCache(), KVCache())
    wanted, near, far = layer(x, context, causal=True, return_weights=True)
    assert near.shape == (2, 2, 5, 5) and far.shape == (2, 2, 5, 6)
    pieces = []
    for piece in x.split(chunks, dim=1):
        pieces.append(layer(piece, context, causal=True, cache=cache))
        context = torch.full_like(context, math.nan)  # nobody looks again
    assert_close(torch.cat(pieces, dim=1), wanted, rtol=0, atol=1e-12)
    assert [kept.length for kept in cache] == [5, 6]
    assert not near.triu(1).any() and far.min() > 0


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_source_that_may_not_be_read_says_its_offset_alone(norm_first):
    layer = CrossAttentionBlock(8, 2, norm_first=norm_first).double()
    nobody = torch.zeros(2, 1, 1, 6, dtype=torch.bool)
    x = normal(2, 5, 8).requires_grad_()
    a, b = (layer(x, normal(2, 6, 8, seed=i), context_mask=nobody) for i in (1, 2))
    a.backward(normal(2, 5, 8, seed=3))
    assert torch.equal(a, b) and a.isfinite().all() and x.grad.isfinite().all()


def test_cross_block_by_its_parts():
    layer, plain = CrossAttentionBlock(64, 8), TransformerBlock(64, 8)
    parts = [name for name, _ in layer.named_children()]
    assert parts == ["ln1", "attn", "ln2", "cross", "ln3", "mlp", "drop"]
    assert count(layer).total == 16 * 64**2 + 19 * 64
    assert count(layer).total - count(plain).total == 4 * 64**2 + 6 * 64
    # pytorch/pytorch#24930
    assert count(CrossAttentionBlock(512, 8)).total == 4_204_032
    assert count(TransformerBlock(512, 8)).total == 3_152_384
    assert repr(layer).startswith("CrossAttentionBlock(\n  norm_first=True\n  (ln1)")


def test_cross_block_drops_in_training_only():
    layer = CrossAttentionBlock(8, 2, dropout=0.5).double()
    plain = CrossAttentionBlock(8, 2).double()
    plain.load_state_dict(layer.state_dict())
    drops = (layer.attn.drop, layer.cross.drop, layer.mlp.drop, layer.drop)
    assert [drop.p for drop in drops] == [0.5] * 4
    x, context = normal(2, 9, 8), normal(2, 4, 8, seed=1)
    assert (layer(x, context) - plain(x, context)).abs().max() > 0.01
    assert torch.equal(layer.eval()(x, context), plain(x, context))
    assert torch.equal(CrossAttentionBlock(8, 2, dropout=1.0).double()(x, context), x)


def test_weights_of_the_source_are_dropped_too():
    layer, x = CrossAttentionBlock(8, 2).double(), normal(2, 5, 8)
    layer.cross.drop.p = 1.0
    nobody = torch.zeros(5, 6, dtype=torch.bool)
    y, wanted = (layer(x, normal(2, 6, 8), context_mask=mask) for mask in (None, nobody))
    assert torch.equal(y, wanted) and not torch.equal(layer.eval()(x, normal(2, 6, 8)), y)


def test_cross_block_refuses_what_its_parts_refuse():
    with pytest.raises(ValueError, match="n_heads must divide d_model, got 3 and 8"):
        CrossAttentionBlock(8, 3)
    layer, x = CrossAttentionBlock(8, 2), torch.ones(2, 3, 8)
    with pytest.raises(ValueError, match=r"linear wants x \(\.\.\., 8\), got \(2, 4, 7\)"):
        layer(x, torch.ones(2, 4, 7))
    cache = KVCache(), KVCache()
    with pytest.raises(ValueError, match=r"a mask must broadcast to \(2, 2, 3, 4\), got \(2, 4\)"):
        layer(x, torch.ones(2, 4, 8), context_mask=torch.ones(2, 4).bool(), cache=cache)
    assert cache[1].length == 0


@pytest.mark.parametrize("norm_first", [True, False])
def test_cross_block_works_on_another_device(norm_first):
    with torch.device("meta"):
        layer = CrossAttentionBlock(16, 4, dropout=0.1, norm_first=norm_first)
    x, context = torch.ones(2, 5, 16, device="meta"), torch.ones(2, 3, 16, device="meta")
    assert layer(x, context, causal=True, cache=(KVCache(), KVCache())).device.type == "meta"


# ---- the caches of a stack


def filled(batch=2, heads=2, length=3, d_head=4):
    cache = KVCache()
    cache.append(*torch.zeros(2, batch, heads, length, d_head))
    return cache


def test_caches_of_a_stack_have_one_length():
    layers = [MultiHeadAttention(16, 4, n_kv_heads=2)] * 3
    assert kept_length([KVCache()] * 3, layers, 2) == 0
    assert kept_length([filled()] * 3, layers, 2) == 3


@pytest.mark.parametrize(
    "caches",
    [
        [],
        [KVCache()] * 2,
        [KVCache()] * 4,
        [filled(batch=1)] * 3,
        [filled(heads=4)] * 3,
        [filled(d_head=8)] * 3,
        [filled(), filled(), filled(length=2)],
        [filled(length=2), filled(), filled()],
        [filled(), filled(), KVCache()],
        [KVCache(), filled(), filled()],
    ],
)
def test_refuses_caches_that_do_not_fit_a_stack(caches):
    layers = [MultiHeadAttention(16, 4, n_kv_heads=2)] * 3
    with pytest.raises(ValueError, match=r"caches want 3 of them, empty or \(2, 2, T, 4\), got \["):
        kept_length(caches, layers, 2)


# ---- parts by name


def test_norms_by_name():
    assert isinstance(norm_named("layer")(8), LayerNorm)
    assert isinstance(norm_named("rms")(8), RMSNorm)
    for name, usual in (("layer", 1e-5), ("rms", 1e-6)):
        assert norm_named(name)(8).eps == usual
        assert norm_named(name, 0.25)(8).eps == 0.25 and norm_named(name, 0.0)(8).eps == 0


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("relu", F.relu), ("gelu", F.gelu), ("gelu_tanh", partial(F.gelu, approximate="tanh"))],
)
def test_mlps_by_name(name, theirs):
    x = normal(50, dtype=torch.float32)
    for bias in (True, False):
        layer = mlp_named(name, bias)(8, 12, 0.5)
        assert isinstance(layer, MLP) and layer.drop.p == 0.5
        assert layer.fc.weight.shape == (12, 8) and (layer.proj.bias is not None) == bias
        assert_close(layer.act(x), theirs(x))
    assert mlp_named(name)(8).fc.bias is not None


def test_swiglu_by_name():
    for bias in (True, False):
        layer = mlp_named("swiglu", bias)(8, 12, 0.5)
        assert isinstance(layer, SwiGLU) and layer.w_up.weight.shape == (12, 8)
        assert layer.drop.p == 0.5


def test_refuses_names_that_there_are_not():
    with pytest.raises(ValueError, match=r"norm wants one of \['layer', 'rms'\], got 'LayerNorm'"):
        norm_named("LayerNorm")
    wanted = r"mlp wants one of \['relu', 'gelu', 'gelu_tanh', 'swiglu'\], got None"
    with pytest.raises(ValueError, match=wanted):
        mlp_named(None)


# ---- pre and post


@pytest.mark.parametrize("kind", OPTIONS)
def test_blocks_stack_for_they_keep_the_shape(kind):
    x = normal(2, 7, 64, dtype=torch.float32)
    stack = nn.Sequential(*(TransformerBlock(64, 8, **OPTIONS[kind]) for _ in range(3)))
    assert stack(x).shape == (2, 7, 64)


def silenced(norm_first):
    layer = TransformerBlock(8, 2, norm_first=norm_first).double()
    for part in (layer.attn.out, layer.mlp.proj):
        nn.init.zeros_(part.weight)
        nn.init.zeros_(part.bias)
    return layer


def test_pre_norm_that_writes_nothing_is_the_identity_and_post_norm_is_not():
    x = 3 * normal(2, 4, 8)
    assert torch.equal(silenced(norm_first=True)(x), x)
    assert_close(silenced(norm_first=False)(x), norm.layer_norm(norm.layer_norm(x)))


@pytest.mark.parametrize("norm_first", [True, False])
def test_weights_are_as_many_in_both(norm_first):
    # harvardnlp/annotated-transformer#1: torch counts 68,752 at d = 16 with its d_ff of 2,048
    theirs = nn.TransformerEncoderLayer(16, 2, norm_first=norm_first)
    ours = TransformerBlock(16, 2, 2048, norm_first=norm_first)
    assert count(ours).total == count(theirs).total == 68_752


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("heads", [1, 8])
def test_where_the_weights_of_torchs_transformer_are(heads):
    # pytorch/pytorch#24930, #50086, #74092, #51447: two norms behind the stacks that the paper has
    # not; RUCAIBox/LLMSurvey#89: no more weights for more heads
    with torch.device("meta"):
        last, cross = LayerNorm(512), MultiHeadAttention(512, heads)
        encoder = count(TransformerBlock(512, heads, 2048)).total
        decoder = encoder + count(cross).total + count(last).total
        whole = count(nn.Transformer(nhead=heads)).total
    assert (encoder, decoder) == (3_152_384, 4_204_032)
    assert 6 * encoder + 6 * decoder == 44_138_496
    assert whole == 44_138_496 + 2 * count(last).total == 44_140_544


def test_padding_does_not_shorten_what_comes_out():
    # pytorch/pytorch#97111, #86120: torch's fast path once cut to the longest sentence
    real = torch.arange(5) < torch.tensor([[3], [2]])
    x = normal(2, 5, 8, dtype=torch.float32)
    ours = TransformerBlock(8, 2).eval()
    assert ours(x, mask=real[:, None, None]).shape == (2, 5, 8)
    theirs = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    stack = nn.TransformerEncoder(theirs, 1).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nested tensors are a prototype
        assert stack(x, src_key_padding_mask=~real).shape == (2, 5, 8)


def test_names_and_their_order():
    layer = TransformerBlock(64, 8)
    parts = [name for name, _ in layer.named_children()]
    assert parts == ["ln1", "attn", "ln2", "mlp", "drop"]
    assert count(layer).total == 49_984 == 12 * 64**2 + 13 * 64
    assert block.LayerNorm is norm.LayerNorm and block.RMSNorm is norm.RMSNorm
    assert isinstance(layer.ln1, LayerNorm) and isinstance(layer.mlp, MLP)


def test_variance_grows_in_pre_norm_and_is_one_in_post_norm():
    # errata_000_003, 04: drift is pre-norm's
    torch.manual_seed(0)
    x = normal(4, 16, 32)
    for norm_first in (True, False):
        stack = nn.Sequential(
            *(TransformerBlock(32, 4, norm_first=norm_first).double() for _ in range(8))
        )
        spread = stack(x).var(unbiased=False).item()
        assert spread > 1.2 if norm_first else spread == pytest.approx(1, abs=0.01)


def test_dropout_acts_in_three_places_in_training_only():
    layer = TransformerBlock(8, 2, dropout=0.5).double()
    plain = TransformerBlock(8, 2).double()
    plain.load_state_dict(layer.state_dict())
    assert layer.attn.drop.p == layer.drop.p == layer.mlp.drop.p == 0.5
    x = normal(2, 9, 8)
    assert (layer(x) - plain(x)).abs().max() > 0.01
    assert torch.equal(layer.eval()(x), plain(x))
    gone = TransformerBlock(8, 2, dropout=1.0).double()
    assert torch.equal(gone(x), x)


def test_dropout_of_the_block_is_on_what_attention_says():
    torch.manual_seed(0)
    layer, x = TransformerBlock(8, 2).double(), normal(2, 40, 8)
    layer.drop.p = 1.0
    assert_close(layer(x), x + layer.mlp(layer.ln2(x)), rtol=0, atol=0)


# ---- refusals, devices


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"d_model": 8, "n_heads": 3}, "n_heads must divide d_model, got 3 and 8"),
        ({"d_model": 8, "n_heads": 4, "n_kv_heads": 3}, "n_kv_heads must divide n_heads"),
        ({"d_model": 8, "n_heads": 2, "dropout": 1.5}, "dropout wants p from 0 to 1, got 1.5"),
        ({"d_model": 8, "n_heads": 2, "d_ff": 0}, "MLP wants sizes ≥ 1, got 8 and 0"),
        ({"d_model": 8, "n_heads": 2, "rope": "whole"}, "rope wants 'halves' or 'pairs'"),
        ({"d_model": 0, "n_heads": 1}, "LayerNorm wants d ≥ 1"),
    ],
)
def test_refuses_what_its_parts_refuse(options, said):
    with pytest.raises(ValueError, match=said):
        TransformerBlock(**options)


def test_refuses_another_width():
    with pytest.raises(ValueError, match=r"LayerNorm wants x \(\.\.\., 8\), got \(2, 3, 7\)"):
        TransformerBlock(8, 2)(torch.ones(2, 3, 7))
    with pytest.raises(ValueError, match=r"linear wants x \(\.\.\., 8\), got \(2, 3, 7\)"):
        TransformerBlock(8, 2, norm_first=False)(torch.ones(2, 3, 7))


@pytest.mark.parametrize("kind", OPTIONS)
def test_works_on_another_device(kind):
    with torch.device("meta"):
        layer = TransformerBlock(16, 4, dropout=0.1, **OPTIONS[kind])
    x = torch.ones(2, 5, 16, device="meta")
    assert layer(x, causal=True, cache=KVCache()).device.type == "meta"


def test_says_where_its_norms_are():
    assert repr(TransformerBlock(8, 2)).startswith("TransformerBlock(\n  norm_first=True\n  (ln1)")
