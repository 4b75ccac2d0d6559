"""Each layer of lumen beside torch's own, and beside the usual ways by hand.

Every case comes at two sizes: as in the chapters, where a call costs more than its arithmetic, and
larger, as in use. For tokens the larger one is that of MiniLM: 8 texts of 128 tokens, 384 numbers
each, 12 heads.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench import handwritten
from bench.case import Case, Table, Way, pair
from lumen import activation, attention, block, conv, dense, embedding, norm, pooling, recurrent
from lumen.dropout import Dropout
from lumen.position import LearnedPositions
from lumen.residual import Residual

LAYERS = Table()


def tokens(larger: bool, width: int | None = None) -> Tensor:
    return torch.randn(8, 128, width or 384) if larger else torch.randn(2, 16, width or 64)


def images(larger: bool) -> Tensor:
    return torch.randn(32, 32, 32, 32) if larger else torch.randn(8, 16, 16, 16)


# ---- dense layers, activations, look-ups


@LAYERS.entry("Linear", 1.1)
def _(larger):
    x = tokens(larger)
    d = x.shape[-1]
    loop = {} if larger else {"output_by_output": handwritten.one_output_at_a_time}
    return pair(x, dense.Linear(d, d), nn.Linear(d, d), **loop)


@LAYERS.entry("gelu")
def _(larger):
    x = tokens(larger, 1536 if larger else 256)
    return Case((x,), Way(activation.gelu), Way(F.gelu))


@LAYERS.entry("softmax")
def _(larger):
    x = torch.randn(8, 12, 128, 128) if larger else torch.randn(2, 4, 16, 16)
    ours, theirs = (Way(partial(f, dim=-1)) for f in (activation.softmax, torch.softmax))
    return Case((x,), ours, theirs, {"without a shift": Way(handwritten.softmax_without_a_shift)})


@LAYERS.entry("Embedding")
def _(larger):
    shape, rows, d = ((8, 128), 30522, 384) if larger else ((2, 16), 1000, 64)
    ids = torch.randint(rows, shape)
    product = {} if larger else {"one_hot_product": handwritten.onehot_product}
    return pair(ids, embedding.Embedding(rows, d), nn.Embedding(rows, d), **product)


@LAYERS.entry("LearnedPositions")
def _(larger):
    n, d = (128, 384) if larger else (16, 64)
    return pair(torch.arange(n), LearnedPositions(n, d), nn.Embedding(n, d))


@LAYERS.entry("Dropout")
def _(larger):
    return pair(tokens(larger), Dropout(0.1), nn.Dropout(0.1))


@LAYERS.entry("Residual")
def _(larger):
    x = tokens(larger)
    inner = nn.Linear(x.shape[-1], x.shape[-1])
    theirs = Way(lambda x: x + inner(x), dict(inner.named_parameters()))
    return Case((x,), Way.of(Residual(inner)), theirs)


# ---- norms


@LAYERS.entry("LayerNorm", 3)
def _(larger):
    x = tokens(larger)
    layers = norm.LayerNorm(x.shape[-1]), nn.LayerNorm(x.shape[-1])
    return pair(x, *layers, mean_and_var=handwritten.mean_and_var)


@LAYERS.entry("RMSNorm", 1.2)
def _(larger):
    x, eps = tokens(larger), 1e-6
    layers = norm.RMSNorm(x.shape[-1], eps), nn.RMSNorm(x.shape[-1], eps)
    return pair(x, *layers, root_of_a_mean=partial(handwritten.root_mean_square, eps=eps))


@LAYERS.entry("BatchNorm1d", 1.6)
def _(larger):
    x = torch.randn(256, 512) if larger else torch.randn(32, 64)
    layers = norm.BatchNorm1d(x.shape[1]), nn.BatchNorm1d(x.shape[1])
    return pair(x, *layers, mean_and_var=partial(handwritten.mean_and_var, dims=0))


@LAYERS.entry("BatchNorm2d", 1.6)
def _(larger):
    x = images(larger)
    layers = norm.BatchNorm2d(x.shape[1]), nn.BatchNorm2d(x.shape[1])
    return pair(x, *layers, mean_and_var=partial(handwritten.mean_and_var, dims=(0, 2, 3)))


# ---- attention and the block


def load_attention(ours, theirs):
    """Give the three projections their thirds of torch's one."""
    thirds = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    projections = (ours.query, ours.key, ours.value)
    for projection, weight, bias in zip(projections, *thirds, strict=True):
        projection.load_state_dict({"weight": weight, "bias": bias})
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def load_mlp(ours, theirs):
    ours.fc.load_state_dict(theirs[0].state_dict())
    ours.proj.load_state_dict(theirs[2].state_dict())


def load_block(ours, theirs):
    load_attention(ours.attn, theirs.self_attn)
    load_mlp(ours.mlp, (theirs.linear1, None, theirs.linear2))
    ours.ln1.load_state_dict(theirs.norm1.state_dict())
    ours.ln2.load_state_dict(theirs.norm2.state_dict())
    if hasattr(ours, "cross"):
        load_attention(ours.cross, theirs.multihead_attn)
        ours.ln3.load_state_dict(theirs.norm3.state_dict())


class SelfAttention(nn.MultiheadAttention):
    """Torch's layer, asked as self-attention and without its weights, which is its fastest way."""

    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


def mixing(larger, causal=False, by_hand=None) -> Case:
    """Attention without projections: queries, keys and values from anywhere."""
    shape = (3, 8, 12, 128, 32) if larger else (3, 2, 4, 16, 16)
    ours = Way(partial(attention.attention, causal=causal))
    theirs = Way(partial(F.scaled_dot_product_attention, is_causal=causal))
    return Case(torch.randn(shape).unbind(), ours, theirs, by_hand or {})


@LAYERS.entry("attention", 1.1)
def _(larger):
    return mixing(larger, by_hand={"query by query": Way(handwritten.one_query_at_a_time)})


@LAYERS.entry("attention, causal")
def _(larger):
    return mixing(larger, causal=True)


@LAYERS.entry("MultiHeadAttention", 1.1)
def _(larger):
    x, heads = tokens(larger), 12 if larger else 4
    d = x.shape[-1]
    ours = attention.MultiHeadAttention(d, heads).eval()
    theirs = SelfAttention(d, heads, batch_first=True).eval()
    loop = partial(handwritten.head_by_head, n_heads=heads)
    return pair(x, ours, theirs, load=load_attention, head_by_head=loop)


@LAYERS.entry("MLP", 1.1)
def _(larger):
    x = tokens(larger)
    d = x.shape[-1]
    theirs = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    return pair(x, block.MLP(d), theirs, load=load_mlp)


@LAYERS.entry("SwiGLU", against="F.silu and nn.Linear")
def _(larger):
    x = tokens(larger)
    ours = block.SwiGLU(x.shape[-1])
    parts = ours.w_gate, ours.w_up, ours.w_down
    gate, up, down = (part.weight for part in parts)

    def theirs(x):
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    weights = dict(ours.named_parameters())
    return Case((x,), Way.of(ours), Way(theirs, weights))


LIKE_OURS = {"activation": F.gelu, "batch_first": True, "norm_first": True}


@LAYERS.entry("TransformerBlock", 1.1)
def _(larger):
    x, heads = tokens(larger), 12 if larger else 4
    d = x.shape[-1]
    theirs = nn.TransformerEncoderLayer(d, heads, 4 * d, 0.0, **LIKE_OURS).eval()
    return pair(x, block.TransformerBlock(d, heads).eval(), theirs, load=load_block)


@LAYERS.entry("CrossAttentionBlock")
def _(larger):
    x, context, heads = tokens(larger), tokens(larger), 12 if larger else 4
    d = x.shape[-1]
    theirs = nn.TransformerDecoderLayer(d, heads, 4 * d, 0.0, **LIKE_OURS).eval()
    ours = block.CrossAttentionBlock(d, heads).eval()
    return pair((x, context), ours, theirs, load=load_block)


# ---- recurrence


def sequences(larger, ours, theirs, **by_hand) -> Case:
    x = torch.randn(16, 32, 256) if larger else torch.randn(8, 16, 64)
    d = x.shape[-1]
    layers = ours(d, d), theirs(d, d, batch_first=True)
    return pair(x, *layers, pick=lambda y: y[0], **by_hand)


@LAYERS.entry("RNN", 1.2)
def _(larger):
    return sequences(larger, recurrent.RNN, nn.RNN, step_by_step=handwritten.rnn_step_by_step)


@LAYERS.entry("LSTM", 3.5)
def _(larger):
    return sequences(larger, recurrent.LSTM, nn.LSTM, gate_by_gate=handwritten.lstm_gate_by_gate)


@LAYERS.entry("GRU", 1.6)
def _(larger):
    return sequences(larger, recurrent.GRU, nn.GRU, gate_by_gate=handwritten.gru_gate_by_gate)


# ---- convolution and pooling


@LAYERS.entry("Conv1d")
def _(larger):
    x = torch.randn(16, 64, 256) if larger else torch.randn(8, 16, 64)
    layers = (kind(x.shape[1], x.shape[1], 3, padding=1) for kind in (conv.Conv1d, nn.Conv1d))
    return pair(x, *layers, step_by_step=handwritten.one_step_at_a_time)


@LAYERS.entry("Conv2d", 4, 2.5)
def _(larger):
    x, out = (images(True), 32) if larger else (torch.randn(2, 3, 12, 12), 8)
    layers = (kind(x.shape[1], out, 3, padding=1) for kind in (conv.Conv2d, nn.Conv2d))
    loops = {} if larger else {"four_loops": handwritten.four_loops}
    loops["loops_over_the_kernel"] = handwritten.loops_over_the_kernel
    return pair(x, *layers, **loops, unfold_and_multiply=handwritten.unfold_and_multiply)


@LAYERS.entry("Conv2d, depthwise")
def _(larger):
    x = images(larger)
    n = x.shape[1]
    layers = (kind(n, n, 3, padding=1, groups=n) for kind in (conv.Conv2d, nn.Conv2d))
    return pair(x, *layers, loops_over_the_kernel=handwritten.depthwise_over_the_kernel)


def pools(larger, ours, theirs, reduce) -> Case:
    loop = partial(handwritten.windows_in_a_loop, k=2, reduce=reduce)
    return pair(images(larger), ours(2), theirs(2), window_by_window=loop)


@LAYERS.entry("MaxPool2d", 3)
def _(larger):
    return pools(larger, pooling.MaxPool2d, nn.MaxPool2d, torch.amax)


@LAYERS.entry("AvgPool2d", 3)
def _(larger):
    return pools(larger, pooling.AvgPool2d, nn.AvgPool2d, torch.mean)


@LAYERS.entry("GlobalAvgPool2d", 3)
def _(larger):
    theirs = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return pair(images(larger), pooling.GlobalAvgPool2d(), theirs)
