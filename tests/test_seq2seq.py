"""lumen.seq2seq against torch.nn.Transformer, Hugging Face's T5, and itself without a cache."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from lumen.attention import KVCache, causal_mask
from lumen.block import CrossAttentionBlock, RMSNorm, TransformerBlock
from lumen.count import (
    EncoderDecoderConfig,
    block_flops,
    count,
    kv_cache_bytes,
    linear_flops,
    mixing_flops,
    mlp_flops,
)
from lumen.norm import layer_norm
from lumen.position import sinusoidal
from lumen.seq2seq import EncoderDecoder, relative_bucket
from tests.oracle import normal, shaken
from tests.test_block import OF_DECODER, from_torch

V = 29
KINDS = {
    "pre": {},
    "post": {"norm_first": False},
    "t5": {"positions": "relative", "norm": "rms", "bias": False},
}
REAL = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]).bool()


def config(**options):
    sizes = {"vocab_size": V, "d_model": 16, "n_layers": 3, "n_heads": 4, "d_ff": 24}
    return EncoderDecoderConfig(**sizes | {"n_positions": 32} | options)


def made(kind, **options):
    return shaken(EncoderDecoder(config(**KINDS[kind] | options)))


def tokens(*shape, seed=0):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


# ---- torch.nn.Transformer

OF_ENCODER = {"ln1": "norm1", "attn": "self_attn", "ln2": "norm2"}
OF_ENCODER |= {"mlp.fc": "linear1", "mlp.proj": "linear2"}


def stacks(norm_first, act="relu", last=None):
    """torch's two stacks; like ours, with a last norm only where they are pre-norm."""
    how = (16, 4, 24, 0.0, act)
    options = {"batch_first": True, "norm_first": norm_first}
    last = norm_first if last is None else last
    ends = [nn.LayerNorm(16) if last else None for _ in range(2)]
    encoder = nn.TransformerEncoderLayer(*how, **options)
    encoder = nn.TransformerEncoder(encoder, 3, ends[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*how, **options), 3, ends[1])
    whole = {"custom_encoder": encoder, "custom_decoder": decoder, "batch_first": True}
    return nn.Transformer(16, 4, **whole)


def carried(theirs):
    """Tensors of torch's stacks, weights or gradients, under the names of ours."""
    ours = {}
    for side, names in (("encoder", OF_ENCODER), ("decoder", OF_DECODER)):
        for i in range(3):
            layer = f"{side}.layers.{i}."
            inside = {k.removeprefix(layer): t for k, t in theirs.items() if k.startswith(layer)}
            for name, tensor in from_torch(inside, names).items():
                ours[f"{side}.{i}.{name}"] = tensor
        for kind in ("weight", "bias"):
            if f"{side}.norm.{kind}" in theirs:
                ours[f"{side}_norm.{kind}"] = theirs[f"{side}.norm.{kind}"]
    return ours


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mlp", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [True, False])
def test_equals_torch(norm_first, mlp, padded):
    theirs = shaken(stacks(norm_first, mlp)).train()
    ours = EncoderDecoder(config(norm_first=norm_first, mlp=mlp)).double()
    missing, extra = ours.load_state_dict(carried(theirs.state_dict()), strict=False)
    assert missing == ["tokens.weight", "head.weight"] and extra == []
    table = ours.tokens.weight.detach().clone().requires_grad_()
    source, target = tokens(3, 7), tokens(3, 5, seed=1)
    waves = sinusoidal(7, 16).double()
    embedded = [4 * F.embedding(ids, table) + waves[: ids.shape[1]] for ids in (source, target)]
    hidden = {"tgt_mask": ~causal_mask(5, 5)}
    if padded:
        hidden |= {"src_key_padding_mask": ~REAL, "memory_key_padding_mask": ~REAL}
    wanted = theirs(*embedded, **hidden) @ table.T
    y = ours(source, target, mask=REAL if padded else None)
    assert_close(y, wanted, rtol=1e-12, atol=1e-12)
    upstream = normal(3, 5, V, seed=2)
    y.backward(upstream)
    wanted.backward(upstream)
    gradients = carried({name: p.grad for name, p in theirs.named_parameters()})
    gradients["tokens.weight"] = table.grad
    mine = dict(ours.named_parameters())
    assert mine.keys() == gradients.keys()
    for name, parameter in mine.items():
        close = {"rtol": 1e-11, "atol": 1e-11}
        assert_close(parameter.grad, gradients[name], **close, msg=lambda m, n=name: f"{n}: {m}")


def test_a_last_norm_is_redundant_behind_post_norm():
    # pytorch/pytorch#24930, #50086, #74092, #51447; hkproj/pytorch-transformer#32
    theirs = stacks(norm_first=False, last=True).double()
    ours = EncoderDecoder(config(norm_first=False)).double()
    state = carried(theirs.state_dict())
    for side in ("encoder", "decoder"):
        for kind in ("weight", "bias"):
            state.pop(f"{side}_norm.{kind}")
    ours.load_state_dict(state, strict=False)
    source, target = tokens(3, 7), tokens(3, 5, seed=1)
    states = ours.encode(source)
    wanted = theirs(ours.embed(source), ours.embed(target), tgt_mask=~causal_mask(5, 5))
    assert_close(theirs.encoder(ours.embed(source)), states, rtol=0, atol=5e-5)
    assert_close(wanted @ ours.head.weight.T, ours(source, target), rtol=0, atol=5e-4)
    assert_close(layer_norm(layer_norm(states)), layer_norm(states), rtol=0, atol=5e-5)


def weighed(*sizes, **options):
    with torch.device("meta"):
        return count(EncoderDecoder(EncoderDecoderConfig(*sizes, **options))).total


def test_weights_equal_those_of_torch():
    # pytorch/pytorch#24930; huggingface's and torch's default of d_ff is 4 · 512 as well
    with torch.device("meta"):
        theirs = nn.Transformer(batch_first=True)
    assert count(theirs).total == 44_140_544
    table, norms = 1000 * 512, 2 * 2 * 512
    assert weighed(1000, 512, 6, 8) == 44_140_544 + table
    assert weighed(1000, 512, 6, 8, norm_first=False) == 44_140_544 + table - norms
    assert 6 * 3_152_384 + 6 * 4_204_032 == 44_138_496 == 44_140_544 - norms
    # karpathy/nanoGPT#629 and RUCAIBox/LLMSurvey#89: heads do not count
    assert weighed(1000, 512, 6, 1) == weighed(1000, 512, 6, 8)


# ---- T5

OF_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}


def from_t5(theirs, gradient=False):
    """Tensors of T5 under our names; what T5 does not scale, its weights have to hold.

    It has no √d at its table and no 1/√d_head at its scores. A weight that is s times theirs has
    a gradient that is theirs / s.
    """
    root = {"table": 1 / math.sqrt(16), "query": math.sqrt(4)}
    scale = {key: 1 / s if gradient else s for key, s in root.items()}
    ours = {"tokens.weight": theirs["shared.weight"] * scale["table"]}
    for side, parts in (
        ("encoder", {"attn": "SelfAttention"}),
        ("decoder", {"attn": "SelfAttention", "cross": "EncDecAttention"}),
    ):
        ours[f"{side}_norm.weight"] = theirs[f"{side}.final_layer_norm.weight"]
        far = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        ours[f"{side}_offsets.weight"] = theirs[far]
        for i in range(3):
            for j, (mine, other) in enumerate(parts.items()):
                layer = f"{side}.block.{i}.layer.{j}"
                ours[f"{side}.{i}.ln{j + 1}.weight"] = theirs[f"{layer}.layer_norm.weight"]
                for name, letter in OF_ATTENTION.items():
                    tensor = theirs[f"{layer}.{other}.{letter}.weight"]
                    ours[f"{side}.{i}.{mine}.{name}.weight"] = tensor * scale.get(name, 1)
            layer, n = f"{side}.block.{i}.layer.{len(parts)}", len(parts) + 1
            ours[f"{side}.{i}.ln{n}.weight"] = theirs[f"{layer}.layer_norm.weight"]
            for name, letters in {"fc": "wi", "proj": "wo"}.items():
                tensor = theirs[f"{layer}.DenseReluDense.{letters}.weight"]
                ours[f"{side}.{i}.mlp.{name}.weight"] = tensor
    return ours


def t5_pair(tied):
    import transformers

    theirs = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=V,
            d_model=16,
            d_kv=4,
            d_ff=24,
            num_layers=3,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            eos_token_id=None,
            tie_word_embeddings=tied,
            attn_implementation="eager",
        )
    )
    if not tied:  # the configuration alone only leaves out the scale of the logits
        theirs.lm_head.weight = nn.Parameter(torch.empty(V, 16))
    shaken(theirs)
    for part in list(theirs.modules()):  # T5 takes its mean square in float32
        for name, child in part.named_children():
            if type(child).__name__ == "T5LayerNorm":
                norm = nn.RMSNorm(16, eps=1e-6).double()
                norm.weight = child.weight
                setattr(part, name, norm)
    ours = EncoderDecoder(config(**KINDS["t5"], tied=tied)).double()
    state = from_t5(theirs.state_dict())
    state["head.weight"] = state["tokens.weight"] if tied else theirs.lm_head.weight
    ours.load_state_dict(state)
    return ours, theirs


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("lengths", [(7, 5), (7, 31), (31, 3)])
def test_equals_t5(tied, lengths):
    # huggingface/transformers#13397, #10221, #18284: no 1/√d_k, one table of distances in a stack
    ours, theirs = t5_pair(tied)
    source, target = tokens(3, lengths[0]), tokens(3, lengths[1], seed=1)
    mask = torch.arange(lengths[0]) < torch.tensor([[lengths[0]], [4], [1]])
    options = {"decoder_input_ids": target, "attention_mask": mask.long(), "use_cache": False}
    wanted = theirs(source, **options).logits
    y = ours(source, target, mask=mask)
    assert_close(y, wanted, rtol=1e-12, atol=1e-12)
    upstream = normal(*wanted.shape, seed=2)
    y.backward(upstream)
    wanted.backward(upstream)
    gradients = from_t5({name: p.grad for name, p in theirs.named_parameters()}, gradient=True)
    if not tied:
        gradients["head.weight"] = theirs.lm_head.weight.grad
    mine = dict(ours.named_parameters())
    assert mine.keys() == gradients.keys()
    for name, parameter in mine.items():
        close = {"rtol": 1e-11, "atol": 1e-11}
        assert_close(parameter.grad, gradients[name], **close, msg=lambda m, n=name: f"{n}: {m}")


def test_writes_what_t5_writes():
    ours, theirs = t5_pair(tied=True)
    source = tokens(6, 7)
    wanted = theirs.generate(source, max_new_tokens=20, do_sample=False)
    assert torch.equal(ours.generate(source, 20, start=0), wanted)
    assert wanted.unique().numel() > 2


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("n_buckets", "furthest"), [(32, 128), (32, 64), (8, 20), (64, 1000)])
def test_buckets_equal_those_of_t5(causal, n_buckets, furthest):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-1200, 1200).reshape(3, 800)
    wanted = T5Attention._relative_position_bucket(
        distance, bidirectional=not causal, num_buckets=n_buckets, max_distance=furthest
    )
    size = {"n_buckets": n_buckets, "furthest": furthest}
    bucket = relative_bucket(distance, causal=causal, **size)
    assert torch.equal(bucket, wanted) and bucket.dtype == torch.int64
    unused = set() if causal else {n_buckets // 2}  # distance 0 is bucket 0
    assert set(bucket.flatten().tolist()) == set(range(n_buckets)) - unused


def test_buckets_widen():
    back = relative_bucket(-torch.arange(200), causal=True)
    assert back[:16].tolist() == list(range(16))
    assert (back.diff() >= 0).all() and back[128:].eq(31).all() and back[100] < 31
    both = relative_bucket(torch.arange(-200, 201), causal=False)
    assert torch.equal(both[201:], both[:200].flip(0) + 16)


@pytest.mark.parametrize(
    ("name", "sizes", "wanted"),
    [
        ("t5-small", (32_128, 512, 6, 8), 60_506_624),
        ("t5-base", (32_128, 768, 12, 12), 222_903_552),
        ("t5-large", (32_128, 1024, 24, 16), 737_668_096),
    ],
)
def test_weights_of_t5(name, sizes, wanted):
    # huggingface/transformers#13397
    assert weighed(*sizes, **KINDS["t5"]) == wanted


# ---- what depends on what


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_target_changes_nothing_before(kind):
    model, source, target = made(kind), tokens(3, 7), tokens(3, 6, seed=1)
    logits = model(source, target)
    for place in range(1, 6):
        later = target.clone()
        later[:, place:] = (later[:, place:] + 1) % V
        changed = (model(source, later) - logits).abs().amax(dim=(0, 2))
        assert not changed[:place].any() and changed[place:].min() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_token_reaches_every_target(kind):
    model, source, target = made(kind), tokens(1, 7), tokens(1, 4, seed=1)
    logits = model(source, target)
    for place in range(7):
        other = source.clone()
        other[:, place] = (other[:, place] + 1) % V
        assert (model(other, target) - logits).abs().amax(dim=-1).min() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_the_padding_changes_nothing(kind):
    model, source, target = made(kind), tokens(3, 7), tokens(3, 5, seed=1)
    logits = model(source, target, mask=REAL)
    other = torch.where(REAL, source, (source + 1) % V)
    assert torch.equal(model(other, target, mask=REAL), logits)
    assert not torch.equal(model(other, target), model(source, target))
    written = [model.generate(ids, 6, start=1, mask=REAL) for ids in (source, other)]
    assert torch.equal(*written)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_as_if_it_were_not_there(kind):
    model, source, target = made(kind), tokens(3, 7), tokens(3, 5, seed=1)
    logits = model(source, target, mask=REAL)
    for i, n in enumerate(REAL.sum(dim=1)):
        alone = model(source[i : i + 1, :n], target[i : i + 1])
        assert_close(logits[i : i + 1], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_nothing_but_padding_is_finite(kind):
    model, nobody = made(kind), torch.zeros(2, 5, dtype=torch.bool)
    y = model(tokens(2, 5), tokens(2, 4, seed=1), mask=nobody)
    y.backward(normal(2, 4, V))
    grads = [p.grad for p in model.parameters()]
    assert y.isfinite().all() and all(g.isfinite().all() for g in grads)
    assert torch.equal(y, model(tokens(2, 5, seed=3), tokens(2, 4, seed=1), mask=nobody))


# ---- once, and each time


@pytest.mark.parametrize("kind", KINDS)
def test_encoding_once_equals_encoding_each_time(kind):
    model, source, target = made(kind), tokens(3, 7), tokens(3, 5, seed=1)
    states = model.encode(source, mask=REAL)
    assert states.shape == (3, 7, 16)
    for n in range(1, 6):
        each = model(source, target[:, :n], mask=REAL)
        assert torch.equal(model.decode(target[:, :n], states, mask=REAL), each)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunks", [[1] * 6, [4, 2], [1, 5]])
def test_reading_in_pieces_equals_reading_at_once(kind, chunks):
    model, source, target = made(kind), tokens(3, 7), tokens(3, 6, seed=1)
    states, cache = model.encode(source, mask=REAL), model.new_cache()
    pieces = [
        model.decode(piece, states, mask=REAL, cache=cache) for piece in target.split(chunks, 1)
    ]
    wanted = model(source, target, mask=REAL)
    assert_close(torch.cat(pieces, dim=1), wanted, rtol=0, atol=1e-12)
    assert [(own.length, fixed.length) for own, fixed in cache] == [(6, 7)] * 3


@settings(max_examples=25)
@given(
    st.sampled_from(["sinusoidal", "relative"]),
    st.sampled_from(["layer", "rms"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 2), (2, 1), (3, 4)]),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_pieces_and_padding_for_any_shape(positions, norm, first, tied, heads, chunks, n, batch):
    size = {"n_heads": heads[0], "d_model": heads[0] * heads[1], "n_layers": 2, "d_ff": 5}
    how = {"positions": positions, "norm": norm, "norm_first": first, "tied": tied}
    model = shaken(EncoderDecoder(config(**size, **how)))
    source, target = tokens(batch, n), tokens(batch, sum(chunks), seed=1)
    mask = torch.arange(n) < torch.arange(1, batch + 1)[:, None]
    states, cache = model.encode(source, mask=mask), model.new_cache()
    pieces = [
        model.decode(piece, states, mask=mask, cache=cache) for piece in target.split(chunks, 1)
    ]
    wanted = model(torch.where(mask, source, 0), target, mask=mask)
    assert_close(torch.cat(pieces, dim=1), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 2, 9, 31])
def test_writes_the_same_with_and_without_a_cache(kind, n):
    model, source = made(kind), tokens(3, 7)
    plain = model.generate(source, n, start=2, mask=REAL, use_cache=False)
    assert plain.shape == (3, 1 + n) and (plain[:, 0] == 2).all()
    assert torch.equal(model.generate(source, n, start=2, mask=REAL), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_the_likeliest_of_each_place(kind):
    model, source, target = made(kind), tokens(3, 7), torch.full((3, 1), 5)
    for _ in range(8):
        new = model(source, target, mask=REAL)[:, -1:].argmax(dim=-1)
        target = torch.cat([target, new], dim=1)
    assert torch.equal(model.generate(source, 8, start=5, mask=REAL), target)


def test_the_source_is_encoded_once_and_its_keys_are_made_once():
    model, source, calls = made("pre"), tokens(2, 7), []
    model.encoder[0].register_forward_hook(lambda *_: calls.append("encoder"))
    model.decoder[0].cross.key.register_forward_hook(lambda *_: calls.append("key"))
    model.generate(source, 9, start=0)
    assert calls == ["encoder", "key"]
    model.generate(source, 9, start=0, use_cache=False)
    assert calls[2:] == ["encoder"] + ["key"] * 9


def test_one_source_serves_many_targets():
    model, source, cache = made("pre"), tokens(2, 7), None
    states, cache = model.encode(source), model.new_cache()
    model.decode(tokens(2, 4), states, cache=cache)
    for seed in (1, 2):
        again = [(KVCache(), fixed) for _, fixed in cache]
        target = tokens(2, 5, seed=seed)
        y = model.decode(target, states, cache=again)
        assert_close(y, model(source, target), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_maps_of_both_attentions(kind):
    model, source, target = made(kind), tokens(3, 7), tokens(3, 5, seed=1)
    states = model.encode(source, mask=REAL)
    logits, maps = model.decode(target, states, mask=REAL, return_weights=True)
    assert torch.equal(logits, model.decode(target, states, mask=REAL)) and len(maps) == 3
    for near, far in maps:
        assert near.shape == (3, 4, 5, 5) and far.shape == (3, 4, 5, 7)
        for weights in (near, far):
            assert_close(weights.sum(dim=-1), torch.ones(3, 4, 5).double())
        assert not near.triu(1).any() and not far.movedim(-1, 1)[~REAL].any()


# ---- what is built


def test_the_parts_and_their_names():
    model = EncoderDecoder(config())
    parts = [name for name, _ in model.named_children()]
    assert parts == ["tokens", "drop", "encoder", "encoder_norm", "decoder", "decoder_norm", "head"]
    assert all(type(block) is TransformerBlock for block in model.encoder)
    assert all(type(block) is CrossAttentionBlock for block in model.decoder)
    post = EncoderDecoder(config(norm_first=False))
    assert post.encoder_norm is post.decoder_norm is None
    assert not any(block.norm_first for block in [*post.encoder, *post.decoder])
    t5 = EncoderDecoder(config(**KINDS["t5"]))
    assert t5.waves is None and t5.encoder_offsets.weight.shape == (32, 4)
    assert t5.encoder_offsets.weight is not t5.decoder_offsets.weight
    assert isinstance(t5.decoder_norm, RMSNorm) and t5.decoder_norm.eps == 1e-6
    assert not any("bias" in name for name, _ in t5.named_parameters())


def test_rows_are_scaled_before_the_waves_are_added():
    # pytorch/tutorials#2849, SamLynnEvans/Transformer#10: section 3.4 of the paper
    model, ids = made("pre"), tokens(2, 6)
    wanted = 4 * model.tokens.weight[ids] + sinusoidal(6, 16)
    assert_close(model.embed(ids), wanted, rtol=0, atol=1e-12)
    assert_close(model.embed(ids[:, 4:], start=4), wanted[:, 4:], rtol=0, atol=1e-12)
    t5 = made("t5")
    assert_close(t5.embed(ids, start=3), 4 * t5.tokens.weight[ids], rtol=0, atol=1e-12)


def test_starts_with_numbers_of_one_size():
    torch.manual_seed(0)
    model = EncoderDecoder(EncoderDecoderConfig(1000, 256, 2, 8))
    ids = torch.arange(1000)[None, :500]
    rows = model.embed(ids) - model.waves[:500]
    assert rows.std().item() == pytest.approx(1, abs=0.02)
    assert model(ids[:, :40], ids[:, 40:80]).std().item() == pytest.approx(1, abs=0.1)
    assert model.waves.square().mean().item() == pytest.approx(0.5)


def test_a_tied_head_is_the_table():
    # huggingface/transformers#14960
    tied, free = EncoderDecoder(config()), EncoderDecoder(config(tied=False))
    assert tied.head.weight is tied.tokens.weight
    assert count(free).total - count(tied).total == V * 16
    assert sum(t.numel() for t in tied.state_dict().values()) == count(free).total
    assert "waves" not in tied.state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_a_tied_table_is_moved_by_all_three_uses(kind):
    tied, free = made(kind), made(kind, tied=False)
    free.load_state_dict(tied.state_dict())
    source, target, upstream = tokens(2, 6), tokens(2, 5, seed=1), normal(2, 5, V, seed=2)
    for model in (tied, free):
        model(source, target).backward(upstream)
    used, wrote = free.tokens.weight.grad, free.head.weight.grad
    assert_close(tied.tokens.weight.grad, used + wrote, rtol=1e-12, atol=1e-12)
    unread = [i for i in range(V) if i not in source and i not in target]
    assert used[source].abs().amax(-1).min() > 0 and used[target].abs().amax(-1).min() > 0
    assert not used[unread].any() and wrote[unread].any()


@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_round(kind):
    first, second = made(kind), EncoderDecoder(config(**KINDS[kind])).double().eval()
    source, target = tokens(2, 6), tokens(2, 5, seed=1)
    assert not torch.equal(first(source, target), second(source, target))
    assert second.load_state_dict(first.state_dict()) == ([], [])
    assert torch.equal(first(source, target), second(source, target))


def test_dropout_is_on_in_training_only():
    torch.manual_seed(0)
    model, plain = EncoderDecoder(config(dropout=0.3)), EncoderDecoder(config())
    plain.load_state_dict(model.state_dict())
    drops = (model.drop, model.encoder[0].drop, model.decoder[2].drop, model.decoder[0].mlp.drop)
    assert [drop.p for drop in drops] == [0.3] * 4
    source, target = tokens(2, 6), tokens(2, 5, seed=1)
    assert not torch.equal(model(source, target), model(source, target))
    assert torch.equal(model.eval()(source, target), plain(source, target))
    assert torch.equal(model.generate(source, 5, start=0), plain.generate(source, 5, start=0))


def test_writing_keeps_no_gradients_and_draws_nothing():
    model, before, graphs = made("pre"), torch.get_rng_state(), []
    model.encoder[0].register_forward_hook(lambda layer, x, y: graphs.append(y.requires_grad))
    model.head.register_forward_hook(lambda layer, x, y: graphs.append(y.requires_grad))
    model.generate(tokens(2, 6), 5, start=0)
    assert graphs == [False] * 6
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


# ---- counted


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_as_many_as_counted(kind):
    model, source, target = made(kind), tokens(1, 7), tokens(1, 6, seed=1)
    with FlopCounterMode(display=False) as counter:
        states = model.encode(source)
    assert counter.get_total_flops() == 3 * block_flops(7, 16, 4, 24)
    cache = model.new_cache()
    for n, seen in ((4, 0), (1, 4), (1, 5)):
        with FlopCounterMode(display=False) as counter:
            model.decode(target[:, seen : seen + n], states, cache=cache)
        own = n * 4 * linear_flops(16, 16) + mixing_flops(n, 16, keys=seen + n)
        cross = n * 2 * linear_flops(16, 16) + mixing_flops(n, 16, keys=7)
        source_once = 0 if seen else 7 * 2 * linear_flops(16, 16)
        block = own + cross + source_once + n * mlp_flops(16, 24)
        assert counter.get_total_flops() == 3 * block + n * linear_flops(16, V)


def test_the_cache_is_as_large_as_counted():
    model, cache = made("pre"), EncoderDecoder.new_cache(made("pre"))
    model.decode(tokens(2, 5), model.encode(tokens(2, 7)), cache=cache)
    held = [
        sum(t.numel() * t.element_size() for kept in side for t in (kept.keys, kept.values))
        for side in zip(*cache, strict=True)
    ]
    size = {"layers": 3, "n_kv_heads": 4, "d_head": 4, "batch": 2, "bytes_per_value": 8}
    assert held == [kv_cache_bytes(n, **size) for n in (5, 7)]


# ---- refusals, devices


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"positions": "learned"}, r"positions wants one of \['sinusoidal', 'relative'\], got 'l"),
        ({"norm": "batch"}, r"norm wants one of \['layer', 'rms'\], got 'batch'"),
        ({"mlp": "tanh"}, r"mlp wants one of \['relu', 'gelu'\], got 'tanh'"),
        ({"n_layers": 0}, "n_layers wants a whole number ≥ 1, got 0"),
        ({"n_positions": 0}, "n_positions wants a whole number ≥ 1, got 0"),
        ({"vocab_size": 0}, "vocab_size wants a whole number ≥ 1, got 0"),
        ({"n_heads": 3}, "n_heads must divide d_model, got 3 and 16"),
        ({"dropout": -0.5}, "dropout wants p from 0 to 1, got -0.5"),
    ],
)
def test_refuses_a_configuration_without_sense(options, said):
    with pytest.raises(ValueError, match=said):
        EncoderDecoder(config(**options))


@pytest.mark.parametrize("shape", [(5,), (2, 0), (1, 2, 3)])
def test_refuses_ids_of_another_shape(shape):
    model, ids = made("pre"), torch.zeros(shape, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"a source wants ids \(B, T\), T > 0, got \("):
        model.encode(ids)
    with pytest.raises(ValueError, match=r"a target wants ids \(B, T\), T > 0, got \("):
        model.decode(ids, torch.zeros(len(ids), 3, 16).double())


def test_refuses_ids_that_are_no_tokens():
    model, ids = made("pre"), torch.tensor([[1, V]])
    with pytest.raises(ValueError, match=f"embedding wants ids from 0 to {V - 1}, got"):
        model.encode(ids)
    with pytest.raises(ValueError, match=f"embedding wants ids from 0 to {V - 1}, got"):
        model.decode(ids, model.encode(tokens(1, 3)))


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_more_tokens_than_positions(kind):
    model = made(kind)
    states = model.encode(tokens(1, 32))
    with pytest.raises(ValueError, match="a source has 32 positions, got 0 kept and 33 given"):
        model.encode(tokens(1, 33))
    with pytest.raises(ValueError, match="a target has 32 positions, got 0 kept and 33 given"):
        model.decode(tokens(1, 33), states)
    cache = model.new_cache()
    model.decode(tokens(1, 30), states, cache=cache)
    with pytest.raises(ValueError, match="a target has 32 positions, got 30 kept and 3 given"):
        model.decode(tokens(1, 3), states, cache=cache)
    assert model.decode(tokens(1, 2), states, cache=cache).shape == (1, 2, V)


@pytest.mark.parametrize(
    "mask", [torch.ones(2, 5).bool(), torch.ones(2, 6), torch.ones(1, 6).bool(), torch.ones(6) > 0]
)
def test_refuses_masks_that_do_not_fit(mask):
    model, source = made("pre"), tokens(2, 6)
    said = r"a mask wants booleans \(2, 6\), got torch\."
    for call in (
        lambda: model.encode(source, mask=mask),
        lambda: model.decode(source, model.encode(source), mask=mask),
        lambda: model(source, source, mask=mask),
        lambda: model.generate(source, 2, start=0, mask=mask),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.parametrize("shape", [(2, 16), (1, 5, 16), (2, 5, 15), (2, 5, 16, 1)])
def test_refuses_states_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"decode wants states \(2, S, 16\), got \("):
        made("pre").decode(tokens(2, 3), torch.zeros(shape).double())


def test_refuses_caches_that_do_not_fit():
    model, ids = made("pre"), tokens(2, 4)
    states, one, more = model.encode(ids), model.new_cache(), model.new_cache()
    model.decode(ids[:1], states[:1], cache=one)
    for bad in ([], model.new_cache()[:2], [*model.new_cache(), (KVCache(), KVCache())], one):
        lengths = [(own.length, fixed.length) for own, fixed in bad]
        with pytest.raises(
            ValueError, match=r"caches want 3 of them, empty or \(2, 4, T, 4\), got"
        ):
            model.decode(ids, states, cache=bad)
        assert [(own.length, fixed.length) for own, fixed in bad] == lengths
    own = [(mine, fixed) for (mine, _), (_, fixed) in zip(one, model.new_cache(), strict=True)]
    with pytest.raises(ValueError, match=r"caches want 3 of them, empty or \(2, 4, T, 4\), got"):
        model.decode(ids, states, cache=own)
    model.decode(ids[:, :1], states, cache=more)
    with pytest.raises(ValueError, match="decode wants one source, got 4 tokens kept and 3 states"):
        model.decode(ids[:, 1:2], states[:, :3], cache=more)
    assert [(own.length, fixed.length) for own, fixed in more] == [(1, 4)] * 3


class Unused(nn.Module):
    def forward(self, x):
        raise AssertionError("something was computed")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": -1}, "n wants a whole number ≥ 0, got -1"),
        ({"n": 1.0}, "n wants a whole number ≥ 0, got 1.0"),
        ({"n": 32}, "a target has 32 positions, got start and 32 to write"),
        ({"start": -1}, "start wants a whole number ≥ 0, got -1"),
        ({"start": V}, f"start wants an id below {V}, got {V}"),
        ({"start": None}, "start wants a whole number ≥ 0, got None"),
    ],
)
def test_refuses_to_write_without_sense_before_it_begins(options, said):
    model = made("pre")
    model.tokens = Unused()
    with pytest.raises(ValueError, match=said):
        model.generate(tokens(2, 6), **{"n": 2, "start": 0} | options)


def test_refuses_to_write_with_dropout_on():
    model = EncoderDecoder(config(dropout=0.1))
    with pytest.raises(ValueError, match=r"generate wants no dropout: call eval\(\) first"):
        model.generate(tokens(1, 3), 2, start=0)
    assert EncoderDecoder(config()).train().generate(tokens(1, 3), 2, start=0).shape == (1, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_works_on_another_device(kind):
    with torch.device("meta"):
        model = EncoderDecoder(config(**KINDS[kind]))
    ids, cache = torch.zeros(2, 5, dtype=torch.int64, device="meta"), model.new_cache()
    mask = torch.ones(2, 5, dtype=torch.bool, device="meta")
    states = model.encode(ids, mask=mask)
    logits, maps = model.decode(ids, states, mask=mask, cache=cache, return_weights=True)
    assert logits.is_meta and logits.shape == (2, 5, V) and maps[2][1].shape == (2, 4, 5, 5)
    assert model.decode(ids[:, :1], states, cache=cache).is_meta and cache[0][1].keys.is_meta
    written = [model.generate(ids, 3, start=0, mask=mask, use_cache=kept) for kept in (True, False)]
    assert all(ids.is_meta and ids.shape == (2, 4) for ids in written)
