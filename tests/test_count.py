"""lumen.count against counted modules, counted products, and the numbers of the book."""

import importlib
import pkgutil
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import lumen
from lumen import (
    attention,
    block,
    conv,
    dense,
    dropout,
    embedding,
    norm,
    pooling,
    position,
    residual,
)
from lumen.attention import KVCache, MultiHeadAttention
from lumen.block import MLP, CrossAttentionBlock, SwiGLU, TransformerBlock
from lumen.conv import Conv1d, Conv2d
from lumen.count import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    Row,
    attention_flops,
    attention_params,
    batch_norm_flops,
    block_flops,
    block_params,
    conv_flops,
    conv_params,
    count,
    embedding_params,
    kv_cache_bytes,
    linear_flops,
    linear_params,
    mixing_flops,
    mlp_flops,
    mlp_params,
    norm_flops,
    norm_params,
    projection_flops,
    receptive_field,
    recurrent_flops,
    recurrent_params,
    score_bytes,
    transformer_params,
)
from lumen.decoder import GPT
from lumen.dense import Linear
from lumen.embedding import Embedding
from lumen.encoder import Bert, ClassificationHead, MLMHead, Pooler
from lumen.norm import BatchNorm1d, BatchNorm2d, LayerNorm, RMSNorm
from lumen.recurrent import GRU, LSTM, RNN
from lumen.seq2seq import EncoderDecoder

# ---- counted against torch


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("d_model", "n_heads", "n_kv_heads"), [(8, 1, 1), (12, 6, 2), (12, 6, 6), (16, 4, 1)]
)
def test_attention_params_equal_the_module(d_model, n_heads, n_kv_heads, bias):
    layer = MultiHeadAttention(d_model, n_heads, n_kv_heads=n_kv_heads, bias=bias)
    wanted = sum(p.numel() for p in layer.parameters())
    assert attention_params(d_model, n_heads, n_kv_heads=n_kv_heads, bias=bias) == wanted
    assert count(layer).total == wanted


@pytest.mark.parametrize(
    ("n_kv_heads", "context"),
    [(4, None), (2, None), (1, None), (4, 7), (2, 3)],
)
def test_attention_flops_equal_the_products_that_torch_counts(n_kv_heads, context):
    layer = MultiHeadAttention(16, 4, n_kv_heads=n_kv_heads, bias=False)
    with FlopCounterMode(display=False) as counter:
        layer(torch.ones(1, 5, 16), context=None if context is None else torch.ones(1, context, 16))
    assert (
        attention_flops(5, 16, 4, n_kv_heads=n_kv_heads, keys=context) == counter.get_total_flops()
    )


def test_flops_of_one_cached_step_equal_the_products_that_torch_counts():
    layer, cache = MultiHeadAttention(16, 4, bias=False), KVCache()
    layer(torch.ones(1, 9, 16), cache=cache)
    with FlopCounterMode(display=False) as counter:
        layer(torch.ones(1, 1, 16), cache=cache)
    assert projection_flops(1, 16, 4) + mixing_flops(1, 16, keys=10) == counter.get_total_flops()


BLOCKS = [
    {},
    {"d_ff": 20},
    {"n_kv_heads": 2},
    {"n_kv_heads": 1, "bias": False, "gated": True, "rms": True},
    {"gated": True, "d_ff": 7, "rms": True},
]


def built(options):
    """The block that options of block_params speak of."""
    options = dict(options)
    gated, rms, bias = (options.pop(name, None) for name in ("gated", "rms", "bias"))
    bias = True if bias is None else bias
    parts = {"norm": RMSNorm if rms else LayerNorm, "mlp": SwiGLU if gated else MLP}
    return TransformerBlock(16, 4, bias=bias, **parts, **options)


@pytest.mark.parametrize("options", BLOCKS)
def test_block_params_equal_the_module(options):
    assert block_params(16, 4, **options) == count(built(options)).total


@pytest.mark.parametrize("options", BLOCKS)
def test_block_flops_equal_the_products_that_torch_counts(options):
    with FlopCounterMode(display=False) as counter:
        built(options)(torch.ones(1, 5, 16))
    sizes = {name: v for name, v in options.items() if name not in ("bias", "rms")}
    assert block_flops(5, 16, 4, **sizes) == counter.get_total_flops()


@pytest.mark.parametrize("options", [{}, {"d_ff": 7}, {"bias": False}])
def test_mlp_params_equal_the_module(options):
    assert mlp_params(6, **options) == count(MLP(6, **options)).total
    sizes = {name: v for name, v in options.items() if name != "bias"}
    assert mlp_params(6, gated=True, **sizes) == count(SwiGLU(6, **sizes)).total


def test_a_block_holds_12d2_and_13d():
    # facts_000_003, sections 8, 14 and 16; numbers of BERT-base and of GPT-2 small
    for d in (64, 768, 1024):
        assert block_params(d, d // 64) == 12 * d**2 + 13 * d
    assert block_params(64, 8) == 49_984 and block_params(768, 12) == 7_087_872
    assert attention_params(768, 12, bias=False) == 2_359_296
    assert mlp_params(768, bias=False) == 4_718_592
    assert mlp_params(768) / block_params(768, 12) == pytest.approx(0.6663, abs=5e-5)
    assert mlp_params(1024) / block_params(1024, 16) == pytest.approx(0.6664, abs=5e-5)


def test_gates_keep_the_weights_only_before_rounding():
    # errata_004, E66: 11,008 is 8/3 of 4,096 rounded up to a multiple of 256
    rounded, plain = mlp_params(4096, 11_008, gated=True), mlp_params(4096, bias=False)
    assert (rounded, plain) == (135_266_304, 134_217_728)
    assert rounded / plain == pytest.approx(1.0078, abs=5e-5)
    assert mlp_params(4096, gated=True) == 3 * 4096 * 10_923


def test_two_thirds_of_a_block_is_no_law():
    # errata_000_003, 45: Llama-3-70B has 10.5 d² of 12.75 d² in its MLP
    d = 8192
    mlp = mlp_params(d, 28_672, gated=True)
    whole = block_params(d, 64, 28_672, n_kv_heads=8, bias=False, rms=True, gated=True)
    assert mlp == 21 * d**2 // 2 and whole == 51 * d**2 // 4 + 2 * d
    assert mlp / whole == pytest.approx(0.82, abs=5e-3)
    assert block_params(4096, 32, n_kv_heads=8) < 12 * 4096**2  # errata_004, E75


def test_linear_flops_equal_the_products_that_torch_counts():
    with FlopCounterMode(display=False) as counter:
        Linear(7, 11)(torch.ones(3, 7))
    assert 3 * linear_flops(7, 11) == counter.get_total_flops()


KINDS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
SHAPES = [(1, 1, 1, 1), (10, 20, 1, 1), (5, 7, 3, 1), (7, 5, 1, 2), (10, 20, 2, 2), (3, 4, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_params_equal_the_modules(kind, shape):
    wanted = recurrent_params(kind, *shape)
    *sizes, directions = shape
    ours = KINDS[kind](*sizes, directions == 2)
    theirs = getattr(nn, kind.upper())(*sizes, bidirectional=directions == 2)
    bare = getattr(nn, kind.upper())(*sizes, bidirectional=directions == 2, bias=False)
    assert count(ours).total == count(theirs).total == wanted
    assert count(bare).total == recurrent_params(kind, *shape, biases=0)
    assert 2 * recurrent_params(kind, *shape, biases=1) == wanted + count(bare).total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_flops_equal_the_products_that_torch_counts(kind, shape):
    *sizes, directions = shape
    layer = KINDS[kind](*sizes, directions == 2)
    with FlopCounterMode(display=False) as counter:
        layer(torch.ones(3, 5, shape[0]))
    assert 3 * 5 * recurrent_flops(kind, *shape) == counter.get_total_flops()


def test_where_the_reset_stands_costs_nothing():
    with FlopCounterMode(display=False) as counter:
        GRU(3, 4, reset_after=False)(torch.ones(1, 6, 3))
    assert 6 * recurrent_flops("gru", 3, 4) == counter.get_total_flops()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv_params_equal_the_module(groups, bias):
    # PiLab-CAU/ComputerVision-2401#59
    for ours, theirs, kernel in [(Conv2d, nn.Conv2d, (3, 5)), (Conv1d, nn.Conv1d, (3,))]:
        wanted = conv_params(4, 8, kernel, groups=groups, bias=bias)
        size = kernel if len(kernel) == 2 else kernel[0]
        for layer in (ours, theirs):
            assert count(layer(4, 8, size, groups=groups, bias=bias)).total == wanted
    assert conv_params(4, 8, 3) == conv_params(4, 8, (3, 3)) == conv_params(4, 8, [3, 3])


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv_flops_equal_the_products_that_torch_counts(groups):
    for layer in (Conv2d(4, 8, (3, 5), groups=groups), nn.Conv2d(4, 8, (3, 5), groups=groups)):
        with FlopCounterMode(display=False) as counter:
            positions = layer(torch.ones(2, 4, 6, 7))[:, 0].numel()
        assert positions * conv_flops(4, 8, (3, 5), groups=groups) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("tokens", "keys"), [(1, 1), (5, 5), (2, 6), (1, 6), (6, 2), (0, 3), (3, 0)]
)
def test_causal_pairs_equal_the_mask(tokens, keys):
    pairs = int(attention.causal_mask(tokens, keys).sum())
    assert mixing_flops(tokens, 16, keys=keys, causal=True) == 4 * 16 * pairs


def test_cache_bytes_equal_the_cache():
    cache = KVCache()
    MultiHeadAttention(16, 4, n_kv_heads=2)(torch.ones(3, 5, 16), cache=cache)
    held = sum(t.numel() * t.element_size() for t in (cache.keys, cache.values))
    assert held == kv_cache_bytes(5, layers=1, n_kv_heads=2, d_head=4, batch=3, bytes_per_value=4)


def test_score_bytes_equal_the_weights():
    _, weights = MultiHeadAttention(16, 4)(torch.ones(3, 5, 16), return_weights=True)
    assert weights.numel() * weights.element_size() == score_bytes(5, 4, batch=3)


# ---- the numbers of the book


def test_attention_costs_8nd2_and_4n2d():
    n, d = 2048, 512
    assert projection_flops(n, d, 8) == 8 * n * d**2
    assert mixing_flops(n, d) == 4 * n**2 * d
    assert attention_flops(n, d, 8) == 8 * n * d**2 + 4 * n**2 * d
    assert mixing_flops(n, d, causal=True) == 2 * n * (n + 1) * d
    saved = attention_flops(n, d, 8) - attention_flops(n, d, 8, causal=True)
    assert saved == 2 * n * (n - 1) * d


def test_attention_meets_its_projections_at_2d_and_a_block_at_6d():
    # facts_004, section 15; errata_004, E72 and E73
    d = 4096
    assert mixing_flops(2 * d, d) == projection_flops(2 * d, d, 32)
    n = 6 * d
    assert n == 24_576 and mixing_flops(n, d) == n * 24 * d**2


def test_scores_of_a_long_context():
    # facts_004, section 7; errata_004, E33 and E38
    assert score_bytes(8192, 32, bytes_per_value=2) == 4 * 2**30
    assert score_bytes(8192, 1, bytes_per_value=2) == 2**30 // 8
    assert score_bytes(2048, 8) == 134_217_728


@pytest.mark.parametrize(
    ("layers", "n_kv_heads", "d_head", "kib"),
    [
        (12, 12, 64, 36),  # GPT-2 small
        (48, 25, 64, 300),  # GPT-2 XL
        (32, 32, 128, 512),  # Llama-2-7B
        (80, 8, 128, 320),  # Llama-2-70B, Llama-3-70B
        (32, 8, 128, 128),  # Llama-3-8B, Mistral-7B
        (32, 1, 128, 16),  # all queries on one head
    ],
)
def test_cache_bytes_per_token(layers, n_kv_heads, d_head, kib):
    # numbers.csv EXT-022 to EXT-031; facts_004, section 15, rule 3
    size = {"layers": layers, "n_kv_heads": n_kv_heads, "d_head": d_head}
    assert kv_cache_bytes(1, **size) == kib * 2**10
    assert kv_cache_bytes(8192, **size) == kib * 2**23
    assert 2 * kv_cache_bytes(1, **size, bytes_per_value=1) == kv_cache_bytes(1, **size)
    assert kv_cache_bytes(0, **size) == 0


def test_doubling_a_width_does_not_quadruple_the_work():
    # harvard-edge/cs249r_book#1630
    def flops(*widths):
        return sum(linear_flops(a, b) for a, b in zip(widths, widths[1:], strict=False))

    assert flops(784, 256, 256, 10) / flops(784, 128, 128, 10) == pytest.approx(2.28, abs=0.005)


def test_one_offset_or_two():
    # errata_004, E25; facts_004, section 6: a textbook counts one, torch keeps two
    one = {kind: recurrent_params(kind, 512, 512, biases=1) for kind in KINDS}
    two = {kind: recurrent_params(kind, 512, 512) for kind in KINDS}
    assert one == {"rnn": 524_800, "lstm": 2_099_200, "gru": 1_574_400}
    assert two == {"rnn": 525_312, "lstm": 2_101_248, "gru": 1_575_936}
    assert 4 * one["gru"] == 3 * one["lstm"] and 4 * two["gru"] == 3 * two["lstm"]


def test_counts_that_learners_asked_for():
    # pytorch/pytorch#36905, #95056, #15843, #750; discuss.pytorch.org, "Why LSTM has two bias
    # parameters" and "LSTMCell bias question"; forums.developer.nvidia.com/t/296765
    assert recurrent_params("lstm", 10, 20) == 4 * (10 * 20 + 20 * 20 + 2 * 20) == 2_560
    assert recurrent_params("lstm", 10, 20, biases=1) == 2_480
    assert recurrent_params("rnn", 10, 20) == 640
    assert recurrent_params("gru", 10, 20) == 1_920
    assert recurrent_params("lstm", 10, 20, layers=2, directions=2) == 15_040
    # stats.stackexchange.com/q/458685: Keras, with the reset after the product or before it
    assert recurrent_params("gru", 32, 32) == 6_336
    assert recurrent_params("gru", 13, 20) == 2_100
    assert recurrent_params("gru", 13, 20, biases=1) == 2_040
    # pytorch/pytorch#99531
    assert recurrent_params("gru", 5, 7) == 294
    assert recurrent_params("gru", 5, 7, biases=1) == 273


def test_grouped_heads_of_llama_3_70b():
    # meta-llama/llama#1111; numbers.csv N070: 2.25 d²
    assert attention_params(8192, 64, n_kv_heads=8, bias=False) == 9 * 8192**2 // 4


def test_convolution_beside_a_dense_layer():
    # facts_004, section 3; errata_004, E06
    n_pixels = 224 * 224
    assert conv_params(3, 64, 3) == 1_792
    assert linear_params(3 * n_pixels, 1000) // conv_params(3, 64, 3) == 84_000
    assert conv_flops(3, 64, 3) * n_pixels == 2 * 86_704_128
    assert linear_params(3 * n_pixels, 64 * n_pixels) == 483_388_358_656


def test_groups_cut_the_weights():
    # yonghenglh6/DepthwiseConvolution#12, PiLab-CAU/ComputerVision-2401#59
    assert conv_params(64, 128, 3) == 73_856
    assert conv_params(64, 128, 3, groups=32) == 2_432
    assert conv_params(64, 64, 3, groups=64) == 640
    depthwise = conv_params(32, 32, 3, groups=32, bias=False)
    pointwise = conv_params(32, 64, 1, bias=False)
    assert (depthwise, pointwise) == (288, 2_048)
    assert depthwise + pointwise == 2_336 and conv_params(32, 64, 3, bias=False) == 18_432


VGG_BLOCK = [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1), (3, 1)]


def test_receptive_field_of_the_vgg_block():
    # facts_004, section 3; the wrong order, stride before kernel, ends at 75
    assert receptive_field(VGG_BLOCK) == [
        *[(3, 1), (5, 1), (6, 2), (10, 2), (14, 2), (16, 4)],
        *[(24, 4), (32, 4), (36, 8), (52, 8), (68, 8)],
    ]
    assert receptive_field([]) == []
    assert receptive_field([(1, 1)] * 9)[-1] == (1, 1)


@pytest.mark.parametrize(
    ("layers", "r", "j"),
    [
        # https://blog.csdn.net/qq_38742161 (receptive-field article)
        ([(3, 1), (2, 2), (3, 1), (2, 2), (3, 1), (3, 1), (2, 2)], 30, 8),
        # sfzhang15/SFD#69: conv3_3 of VGG, then with the detection head
        ([(3, 1), (3, 1), (2, 2)] * 2 + [(3, 1)] * 3, 40, 4),
        ([(3, 1), (3, 1), (2, 2)] * 2 + [(3, 1)] * 4, 48, 4),
        # Fangyh09/pytorch-receptive-field#6
        ([(3, 1, 2)], 5, 1),
        ([(3, 1, 1), (3, 1, 2), (3, 1, 4), (3, 1, 8)], 31, 1),
        # errata_004, E02 and E03
        ([(7, 2), (3, 1), (3, 2)], 15, 4),
        ([(7, 2), (3, 2)], 11, 4),
        ([(7, 1), (3, 1), (3, 1)], 11, 1),
        ([(3, 2), (3, 1), (3, 1), (3, 2)], 15, 4),
        ([(3, 1)] * 3, 7, 1),
        ([(3, 1)] * 112, 225, 1),
    ],
)
def test_receptive_field_of(layers, r, j):
    assert receptive_field(layers)[-1] == (r, j)
    assert receptive_field([list(layer) for layer in layers])[-1] == (r, j)


def test_receptive_field_of_vgg_16_is_smaller_than_its_image():
    twice, thrice = [(3, 1)] * 2 + [(2, 2)], [(3, 1)] * 3 + [(2, 2)]
    fields = receptive_field(twice * 2 + thrice * 3)
    assert fields[-2:] == [(196, 16), (212, 32)]


@pytest.mark.parametrize("layer", [(3,), (3, 1, 1, 1), 3, "31", None])
def test_receptive_field_refuses_a_layer_of_another_form(layer):
    with pytest.raises(ValueError, match=r"a layer wants \(kernel, stride\) or .*, got "):
        receptive_field([(3, 1), layer])


@pytest.mark.parametrize("bad", [0, -1, 2.0, "3", True])
@pytest.mark.parametrize("name", ["kernel", "stride", "dilation"])
def test_receptive_field_refuses_what_is_no_whole_number(name, bad):
    layer = {"kernel": 3, "stride": 1, "dilation": 1} | {name: bad}
    with pytest.raises(ValueError, match=f"{name} wants a whole number ≥ 1, got {bad!r}"):
        receptive_field([tuple(layer.values())])


def test_receptive_field_gives_python_integers():
    ((r, j),) = receptive_field([(np.int8(100), np.int8(100), np.int8(100))])
    assert type(r) is type(j) is int and (r, j) == (9901, 100)


# ---- the table


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = Embedding(100, 8)
        self.blocks = nn.ModuleList(MultiHeadAttention(8, 2) for _ in range(2))
        self.norm = LayerNorm(8)
        self.head = Linear(8, 100, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros(5))


def test_a_tied_tensor_counts_once_and_is_named():
    # huggingface/transformers#14960, #6291; karpathy/nanoGPT#209
    tied = nn.Sequential(Embedding(100, 16), Linear(16, 100, bias=False))
    assert count(tied).total == 3_200
    tied[1].weight = tied[0].weight
    assert count(tied).total == 1_600 == sum(p.numel() for p in tied.parameters())
    assert sum(t.numel() for t in tied.state_dict().values()) == 3_200
    assert count(tied).rows == (
        Row("0.weight", (100, 16), 1_600),
        Row("1.weight", (100, 16), 0, tied_to="0.weight"),
    )


def test_the_table_prints():
    assert repr(count(Tied(), depth=2)) == (
        "embed.weight  100 × 8             800\n"
        "blocks.0                          288\n"
        "blocks.1                          288\n"
        "norm.weight   8                     8\n"
        "norm.bias     8                     8\n"
        "head.weight   100 × 8  = embed.weight\n"
        "total                           1,392"
    )
    table = count(Tied())
    assert len(table.rows) == 1 + 2 * 8 + 2 + 1 and table.total == 1_392
    assert [row.weights for row in count(Tied(), depth=1).rows] == [800, 576, 16, 0]
    assert not any(line.endswith(" ") for line in repr(table).splitlines())


def test_a_module_without_weights_has_a_table_too():
    assert repr(count(nn.ReLU())) == "total    0"
    assert count(nn.ReLU()).rows == ()


def test_a_table_is_a_record():
    table = count(Linear(3, 2))
    assert table == count(Linear(3, 2)) != count(Linear(2, 3))
    for thing, name in [(table, "rows"), (table.rows[0], "weights")]:
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, 0)


def test_a_frozen_weight_is_a_weight():
    assert count(Linear(3, 2).requires_grad_(False)).total == 8


def test_counts_torch_layers_as_well():
    assert count(nn.MultiheadAttention(512, 8)).total == 1_050_624


def test_counts_anything_that_names_its_parameters():
    class Weight:
        shape = (3, 4)

        def numel(self):
            return 12

    class Stranger:
        def named_parameters(self, remove_duplicate):
            return [("w", Weight())]

    assert repr(count(Stranger())) == "w      3 × 4  12\ntotal         12"


def test_count_needs_neither_torch_nor_numpy():
    code = "import sys, lumen.count; print({'torch', 'numpy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# ---- refusals

RECURRENT = {"input_size": 3, "hidden_size": 4, "layers": 2, "directions": 2}
COUNTS = {
    linear_params: {"n_in": 3, "n_out": 4},
    linear_flops: {"n_in": 3, "n_out": 4},
    conv_params: {"in_channels": 8, "out_channels": 12, "kernel_size": 3, "groups": 4},
    conv_flops: {"in_channels": 8, "out_channels": 12, "kernel_size": 3, "groups": 4},
    embedding_params: {"n_rows": 3, "d": 4},
    norm_params: {"d": 4},
    norm_flops: {"d": 4},
    partial(recurrent_params, "gru"): RECURRENT | {"biases": 1},
    partial(recurrent_flops, "gru"): RECURRENT,
    batch_norm_flops: {"d": 4},
    attention_params: {"d_model": 8, "n_heads": 4, "n_kv_heads": 2},
    projection_flops: {"tokens": 3, "d_model": 8, "n_heads": 4, "n_kv_heads": 2, "keys": 5},
    mixing_flops: {"tokens": 3, "d_model": 8, "keys": 5},
    attention_flops: {"tokens": 3, "d_model": 8, "n_heads": 4, "n_kv_heads": 2, "keys": 5},
    mlp_params: {"d_model": 8, "d_ff": 6},
    mlp_flops: {"d_model": 8, "d_ff": 6},
    block_params: {"d_model": 8, "n_heads": 4, "d_ff": 6, "n_kv_heads": 2},
    block_flops: {
        "tokens": 3,
        "d_model": 8,
        "n_heads": 4,
        "d_ff": 6,
        "n_kv_heads": 2,
        "keys": 5,
    },
    score_bytes: {"tokens": 3, "n_heads": 4, "keys": 5, "batch": 2, "bytes_per_value": 2},
    kv_cache_bytes: {
        "tokens": 3,
        "layers": 2,
        "n_kv_heads": 2,
        "d_head": 4,
        "batch": 2,
        "bytes_per_value": 2,
    },
    transformer_params: {"d": 4, "layers": 2, "vocab": 3, "ffn_mult": 3},
}


@pytest.mark.parametrize("bad", [-1, 2.0, "3", True])
@pytest.mark.parametrize(
    ("function", "name"), [(function, name) for function, sizes in COUNTS.items() for name in sizes]
)
def test_refuses_what_is_no_whole_number(function, name, bad):
    least = 0 if name in ("tokens", "keys", "biases") else 1
    with pytest.raises(ValueError, match=f"{name} wants a whole number ≥ {least}, got {bad!r}"):
        function(**COUNTS[function] | {name: bad})


@pytest.mark.parametrize("function", COUNTS)
def test_gives_python_integers_for_any_integer_type(function):
    wanted = function(**COUNTS[function])
    given = function(**{name: np.int8(size) for name, size in COUNTS[function].items()})
    assert type(given) is type(wanted) is int and given == wanted


def test_integers_do_not_overflow():
    assert linear_params(np.int32(2**30), np.int32(2**30), bias=False) == 2**60


@pytest.mark.parametrize(
    "function", [attention_params, projection_flops, attention_flops, block_params, block_flops]
)
def test_refuses_heads_that_do_not_divide(function):
    with pytest.raises(ValueError, match="n_heads must divide d_model, got 3 and 8"):
        function(**COUNTS[function] | {"n_heads": 3})
    with pytest.raises(ValueError, match="n_kv_heads must divide n_heads, got 3 and 4"):
        function(**COUNTS[function] | {"n_kv_heads": 3})


@pytest.mark.parametrize("function", [recurrent_params, recurrent_flops])
def test_refuses_kinds_and_directions_that_there_are_not(function):
    wanted = r"kind wants one of \['rnn', 'gru', 'lstm'\], got 'LSTM'"
    with pytest.raises(ValueError, match=wanted):
        function("LSTM", 3, 4)
    with pytest.raises(ValueError, match="directions wants 1 or 2, got 3"):
        function("lstm", 3, 4, directions=3)


def test_refuses_a_third_offset():
    with pytest.raises(ValueError, match="biases wants 0, 1 or 2, got 3"):
        recurrent_params("lstm", 3, 4, biases=3)


@pytest.mark.parametrize("function", [conv_params, conv_flops])
def test_refuses_groups_that_do_not_divide(function):
    for n_in, n_out in [(6, 8), (8, 6)]:
        with pytest.raises(ValueError, match=f"divide the channels, got 4 and {n_in}, {n_out}"):
            function(n_in, n_out, 3, groups=4)
    with pytest.raises(ValueError, match="kernel_size wants a whole number ≥ 1, got 0"):
        function(4, 4, (3, 0))


def test_count_refuses_what_has_no_parameters():
    with pytest.raises(ValueError, match="count wants a torch module, got list"):
        count([1, 2])


@pytest.mark.parametrize("depth", [0, -1, 1.5])
def test_count_refuses_a_depth_without_sense(depth):
    with pytest.raises(ValueError, match=f"depth wants a whole number ≥ 1, got {depth}"):
        count(Linear(2, 2), depth=depth)


# ---- the docstrings say the same


def formula(thing, section, **sizes):
    """The first literal of a docstring's section, computed."""
    body = thing.__doc__.split(f"    {section}:\n")[1]
    text = re.search(r"``(.+?)``", body).group(1).replace("·", "*")
    return eval(text, {"__builtins__": {}}, sizes)


SIZES = {"d_model": 24, "n_heads": 6, "n_kv_heads": 2}
RUN = {"input_size": 5, "hidden_size": 7}
WIDTHS = {"d_model": 24, "d_kv": 8, "S": 11}

ENCODER = {"V": 50, "P": 16, "N": 3, "L": 2, "d": 24, "T": 11}
HEAD = {"d_model": 6, "n_classes": 3, "vocab_size": 50}

MODEL = {"V": 11, "P": 9, "L": 3, "d": 24, "T": 5, "S": 7}
CROSS_PARAMS = block_params(24, 6) + attention_params(24, 6) + norm_params(24)
CROSS_FLOPS = projection_flops(1, 24, 6) + mixing_flops(1, 24, keys=5) + mlp_flops(24)
CROSS_FLOPS += 2 * linear_flops(24, 24) + mixing_flops(1, 24, keys=7)
CONV = {"in_channels": 4, "out_channels": 6, "groups": 2, "k_h": 3, "k_w": 5, "k": 3}


def test_weights_of_the_docstrings():
    layers = [
        (dense.Linear(5, 7), {"in_features": 5, "out_features": 7}, linear_params(5, 7)),
        (
            embedding.Embedding(5, 7),
            {"num_embeddings": 5, "embedding_dim": 7},
            embedding_params(5, 7),
        ),
        (position.LearnedPositions(5, 7), {"n_positions": 5, "d": 7}, embedding_params(5, 7)),
        (LayerNorm(7), {"d": 7}, norm_params(7)),
        (RMSNorm(7), {"d": 7}, norm_params(7, rms=True)),
        (RNN(**RUN), RUN, recurrent_params("rnn", **RUN)),
        (LSTM(**RUN), RUN, recurrent_params("lstm", **RUN)),
        (GRU(**RUN), RUN, recurrent_params("gru", **RUN)),
        (BatchNorm1d(7), {"num_features": 7}, norm_params(7)),
        (BatchNorm2d(7), {"num_features": 7}, norm_params(7)),
        (dropout.Dropout(0.1), {}, 0),
        (residual.Residual(torch.tanh), {}, 0),
        (MLP(6, 10), {"d_model": 6, "d_ff": 10}, mlp_params(6, 10)),
        (SwiGLU(6, 10), {"d_model": 6, "d_ff": 10}, mlp_params(6, 10, gated=True)),
        (TransformerBlock(24, 6), {"d_model": 24}, block_params(24, 6)),
        (CrossAttentionBlock(24, 6), {"d_model": 24}, CROSS_PARAMS),
        (
            GPT(DecoderConfig(11, 24, 3, 6, n_positions=9)),
            MODEL,
            embedding_params(11 + 9, 24) + 3 * block_params(24, 6) + norm_params(24),
        ),
        (
            EncoderDecoder(EncoderDecoderConfig(11, 24, 3, 6)),
            MODEL,
            embedding_params(11, 24)
            + 3 * (block_params(24, 6) + CROSS_PARAMS)
            + 2 * norm_params(24),
        ),
        (MultiHeadAttention(**SIZES), WIDTHS, attention_params(**SIZES)),
        (conv.Conv2d(4, 6, (3, 5), groups=2), CONV, conv_params(4, 6, (3, 5), groups=2)),
        (conv.Conv1d(4, 6, 3, groups=2), CONV, conv_params(4, 6, (3,), groups=2)),
        (pooling.MaxPool2d(2), {}, 0),
        (pooling.AvgPool2d(2), {}, 0),
        (pooling.GlobalAvgPool2d(), {}, 0),
        (
            Bert(EncoderConfig(50, 24, 2, 6, n_positions=16, n_types=3)),
            ENCODER,
            embedding_params(50 + 16 + 3, 24)
            + norm_params(24)
            + 2 * block_params(24, 6)
            + linear_params(24, 24),
        ),
        (Pooler(6), HEAD, linear_params(6, 6)),
        (ClassificationHead(6, 3), HEAD, linear_params(6, 6) + linear_params(6, 3)),
        (
            MLMHead(Embedding(50, 6)),
            HEAD,
            linear_params(6, 6) + norm_params(6) + linear_params(6, 50),
        ),
    ]
    for layer, sizes, wanted in layers:
        assert formula(type(layer), "Weights", **sizes) == wanted == count(layer).total


def test_costs_of_the_docstrings():
    costs = [
        (dense.Linear, {"in_features": 5, "out_features": 7}, linear_flops(5, 7)),
        (embedding.Embedding, {}, 0),
        (position.LearnedPositions, {}, 0),
        (norm.LayerNorm, {"d": 7}, norm_flops(7)),
        (norm.RMSNorm, {"d": 7}, norm_flops(7, rms=True)),
        (RNN, RUN, recurrent_flops("rnn", **RUN)),
        (LSTM, RUN, recurrent_flops("lstm", **RUN)),
        (GRU, RUN, recurrent_flops("gru", **RUN)),
        (norm.BatchNorm1d, {"num_features": 7}, batch_norm_flops(7)),
        (norm.BatchNorm2d, {"num_features": 7}, batch_norm_flops(7)),
        (conv.Conv2d, CONV, conv_flops(4, 6, (3, 5), groups=2)),
        (conv.Conv1d, CONV, conv_flops(4, 6, (3,), groups=2)),
        (pooling.MaxPool2d, CONV, 3 * 5 - 1),
        (pooling.AvgPool2d, CONV, 3 * 5),
        (pooling.GlobalAvgPool2d, {"H": 7, "W": 7}, 49),
        (attention.attention, {"S": 11, "d_k": 24}, mixing_flops(1, 24, keys=11)),
        (
            MultiHeadAttention,
            WIDTHS,
            projection_flops(1, **SIZES) + mixing_flops(1, 24, keys=11),
        ),
        (block.MLP, {"d_model": 6, "d_ff": 10}, mlp_flops(6, 10)),
        (block.SwiGLU, {"d_model": 6, "d_ff": 10}, mlp_flops(6, 10, gated=True)),
        (
            block.TransformerBlock,
            {"d_model": 24, "S": 11},
            block_flops(1, 24, 6) + mixing_flops(1, 24, keys=11) - mixing_flops(1, 24),
        ),
        (Bert, ENCODER, 2 * block_flops(11, 24, 6) // 11),
        (Pooler, HEAD, linear_flops(6, 6)),
        (ClassificationHead, HEAD, linear_flops(6, 6) + linear_flops(6, 3)),
        (MLMHead, HEAD, linear_flops(6, 6) + linear_flops(6, 50)),
        (block.CrossAttentionBlock, {"d_model": 24, "T": 5, "S": 7}, CROSS_FLOPS),
        (
            GPT,
            MODEL,
            3 * (projection_flops(1, 24, 6) + mixing_flops(1, 24, keys=7) + mlp_flops(24))
            + linear_flops(24, 11),
        ),
        (EncoderDecoder, MODEL, 3 * CROSS_FLOPS + linear_flops(24, 11)),
    ]
    for thing, sizes, wanted in costs:
        assert formula(thing, "Cost", **sizes) == wanted


def test_every_layer_with_a_formula_is_compared():
    """A layer added later, in whichever room, has to join the two tests above."""
    names = [room.name for room in pkgutil.iter_modules(lumen.__path__)]
    rooms = [importlib.import_module(f"lumen.{name}") for name in names]
    layers = {
        name
        for room in rooms
        for name, thing in vars(room).items()
        if isinstance(thing, type) and issubclass(thing, nn.Module)
        if not name.startswith("_")
    }
    compared = "AvgPool2d BatchNorm1d BatchNorm2d Conv1d Conv2d Dropout Embedding GRU LSTM "
    compared += "GlobalAvgPool2d LayerNorm LearnedPositions Linear MLP MaxPool2d RNN RMSNorm "
    compared += "MultiHeadAttention Residual SwiGLU TransformerBlock "
    compared += "Bert ClassificationHead MLMHead Pooler CrossAttentionBlock GPT EncoderDecoder"
    assert layers == set(compared.split())
