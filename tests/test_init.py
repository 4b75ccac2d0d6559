"""lumen.init: what is drawn, how widely, and what is left alone."""

import copy
import math

import pytest
import torch
from torch import nn

from lumen.attention import MultiHeadAttention
from lumen.block import MLP, RMSNorm, SwiGLU, TransformerBlock
from lumen.dense import Linear
from lumen.embedding import Embedding
from lumen.init import gpt2_init_
from lumen.norm import BatchNorm1d, LayerNorm
from lumen.position import LearnedPositions

STD = 0.02


class Model(nn.Module):
    """The parts of a small GPT, its head tied to its table."""

    def __init__(self, n_layers=3, d=64, **options):
        super().__init__()
        self.tokens = Embedding(500, d)
        self.positions = LearnedPositions(100, d)
        self.blocks = nn.ModuleList(TransformerBlock(d, 4, **options) for _ in range(n_layers))
        self.norm = LayerNorm(d)
        self.head = Linear(d, 500, bias=False)
        self.head.weight = self.tokens.weight


def is_normal(weight, std):
    """Mean and spread within 5 standard errors, and tails as long as a normal's."""
    n = weight.numel()
    assert abs(weight.mean().item()) < 5 * std / math.sqrt(n)
    assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * n))
    beyond = (weight.abs() > 2 * std).double().mean().item()
    assert beyond == pytest.approx(0.0455, abs=5 * math.sqrt(0.0455 / n))


@pytest.mark.parametrize("n_layers", [1, 3, 12, 48])
def test_writers_are_smaller_by_the_root_of_2l(n_layers):
    torch.manual_seed(0)
    model = gpt2_init_(Model(), n_layers)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            writes = name.endswith(("attn.out.weight", "mlp.proj.weight"))
            is_normal(weight.detach(), STD / math.sqrt(2 * n_layers) if writes else STD)


@pytest.mark.parametrize(("n_layers", "std"), [(12, 0.00408), (48, 0.00204), (80, 0.00158)])
def test_the_numbers_of_the_book(n_layers, std):
    # facts_000_003, section 18
    torch.manual_seed(0)
    layer = gpt2_init_(TransformerBlock(256, 4), n_layers)
    assert layer.mlp.proj.weight.std().item() == pytest.approx(std, rel=0.01)
    assert layer.attn.out.weight.std().item() == pytest.approx(std, rel=0.02)


def test_the_output_of_swiglu_is_a_writer_too():
    # errata_000_003, 42
    torch.manual_seed(0)
    model = gpt2_init_(Model(mlp=SwiGLU, norm=RMSNorm, n_kv_heads=2), 8)
    for block in model.blocks:
        is_normal(block.mlp.w_down.weight.detach(), STD / 4)
        is_normal(block.attn.out.weight.detach(), STD / 4)
        is_normal(block.mlp.w_gate.weight.detach(), STD)
        is_normal(block.mlp.w_up.weight.detach(), STD)


def test_offsets_are_zero_and_norms_untouched():
    model = Model()
    model.batch = BatchNorm1d(64)
    for module in model.modules():
        if isinstance(module, LayerNorm | BatchNorm1d):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    before = copy.deepcopy(model.state_dict())
    gpt2_init_(model, 3)
    norms = ("ln1", "ln2", "norm", "batch")
    for name, tensor in model.state_dict().items():
        if name.split(".")[-2] in norms:
            assert torch.equal(tensor, before[name]), name
        elif name.endswith("bias"):
            assert not tensor.any(), name
        else:
            assert not torch.equal(tensor, before[name]), name


def test_ties_stay_and_are_drawn_once():
    torch.manual_seed(0)
    model = gpt2_init_(Model(n_layers=1), 3)
    assert model.head.weight is model.tokens.weight
    torch.manual_seed(0)
    untied = Model(n_layers=1)
    untied.head = Linear(64, 500, bias=False)
    del untied.head
    torch.manual_seed(7)
    gpt2_init_(model, 3)
    torch.manual_seed(7)
    gpt2_init_(untied, 3)
    mine, other = model.state_dict(), untied.state_dict()
    assert all(torch.equal(mine[name], tensor) for name, tensor in other.items())


@pytest.mark.parametrize("first", ["plain", "attn"])
def test_a_writer_by_one_of_its_names_is_a_writer(first):
    torch.manual_seed(0)
    model = nn.ModuleDict({name: MultiHeadAttention(128, 2) for name in (first, "attn", "plain")})
    model["plain"].out.weight = model["attn"].out.weight
    gpt2_init_(model, 8)
    assert model["plain"].out.weight is model["attn"].out.weight
    is_normal(model["attn"].out.weight.detach(), STD / 4)


def test_blocks_that_share_all_weights_are_drawn_once():
    torch.manual_seed(0)
    block = TransformerBlock(64, 4)
    gpt2_init_(nn.Sequential(block, block), 8)
    is_normal(block.mlp.proj.weight.detach(), STD / 4)


def test_only_whole_names_are_writers():
    torch.manual_seed(0)
    model = nn.ModuleDict({"my_attn": MultiHeadAttention(128, 2), "mlp": MLP(64)})
    gpt2_init_(model, 8)
    is_normal(model["my_attn"].out.weight.detach(), STD)
    is_normal(model["mlp"].proj.weight.detach(), STD / 4)


def test_leaves_alone_what_is_no_matrix_of_a_layer():
    model = nn.ModuleDict({"conv": nn.Conv1d(3, 4, 2), "rnn": nn.GRU(3, 4)})
    model.register_parameter("start", nn.Parameter(torch.ones(3, 4)))
    before = copy.deepcopy(model.state_dict())
    gpt2_init_(model, 2)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_layers_of_torch_are_drawn_as_well():
    torch.manual_seed(0)
    model = gpt2_init_(nn.Sequential(nn.Embedding(200, 64), nn.Linear(64, 64)), 2)
    is_normal(model[0].weight.detach(), STD)
    assert not model[1].bias.any()


def test_hands_back_the_model_and_its_gradients_stay_on():
    model = Model()
    assert gpt2_init_(model, 3) is model
    assert all(p.requires_grad and p.is_leaf and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("n", [12, 24, 48])
def test_what_2l_writes_add_up_to(n):
    # errata_000_003, 38: from 1 to 2 with the scale, to 1 + 2 L without
    draw = torch.Generator().manual_seed(0)
    writes = torch.randn(2 * n, 20_000, generator=draw)
    start = torch.randn(20_000, generator=draw)
    plain = (start + writes.sum(0)).var().item()
    scaled = (start + writes.sum(0) / math.sqrt(2 * n)).var().item()
    assert plain == pytest.approx(1 + 2 * n, rel=0.05) and scaled == pytest.approx(2, rel=0.05)


def test_depth_adds_less_to_the_stream_with_the_scale():
    # errata_000_003, 37: it is no identity at the start all the same
    x = STD * torch.randn(1, 16, 64, generator=torch.Generator().manual_seed(0))
    spread = []
    for told in (8, 1):
        torch.manual_seed(0)
        stack = gpt2_init_(nn.ModuleDict({str(i): TransformerBlock(64, 4) for i in range(8)}), told)
        y = x
        for block in stack.values():
            y = block(y)
        spread.append(y.var().item())
    assert spread[0] < spread[1] / 3 and spread[0] > x.var()


@pytest.mark.parametrize("n_layers", [0, -1])
def test_refuses_no_layers(n_layers):
    with pytest.raises(ValueError, match=f"gpt2_init_ wants n_layers ≥ 1, got {n_layers}"):
        gpt2_init_(MLP(4), n_layers)


def test_works_on_another_device():
    with torch.device("meta"):
        model = gpt2_init_(Model(), 3)
    assert model.head.weight is model.tokens.weight and model.head.weight.is_meta
