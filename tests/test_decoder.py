"""lumen.decoder against Hugging Face's GPT-2, Llama and Mistral, and against no cache."""

import math
from copy import copy, deepcopy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from lumen.attention import KVCache
from lumen.block import MLP, LayerNorm, RMSNorm, SwiGLU
from lumen.count import (
    DecoderConfig,
    attention_params,
    block_params,
    count,
    kv_cache_bytes,
    linear_flops,
    mixing_flops,
    mlp_flops,
    mlp_params,
    projection_flops,
)
from lumen.decoder import GPT, logit_lens, token_shares
from tests.oracle import normal, shaken

V = 31
LLAMA = {"positions": "rope", "norm": "rms", "mlp": "swiglu", "n_kv_heads": 2, "bias": False}
KINDS = {
    "gpt2": {},
    "llama": LLAMA | {"tied": False, "rope_base": 500_000.0, "eps": 1e-5},
    "blind": {"positions": "none", "mlp": "gelu", "n_kv_heads": 1, "bias": False},
}


def config(**options):
    sizes = {"vocab_size": V, "d_model": 16, "n_layers": 3, "n_heads": 4, "n_positions": 32}
    return DecoderConfig(**sizes | options)


def made(kind, **options):
    return shaken(GPT(config(**KINDS[kind] | options)))


def tokens(*shape, seed=0, high=V):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


# ---- weights carried over from Hugging Face

OF_LLAMA = {
    "ln1": "input_layernorm",
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.o_proj",
    "ln2": "post_attention_layernorm",
    "mlp.w_gate": "mlp.gate_proj",
    "mlp.w_up": "mlp.up_proj",
    "mlp.w_down": "mlp.down_proj",
}


def from_llama(theirs, n_layers):
    """Their tensors, weights or gradients, under our names."""
    table = theirs["model.embed_tokens.weight"]
    ours = {"tokens.weight": table, "head.weight": theirs.get("lm_head.weight", table)}
    ours["norm.weight"] = theirs["model.norm.weight"]
    for i in range(n_layers):
        for mine, other in OF_LLAMA.items():
            ours[f"blocks.{i}.{mine}.weight"] = theirs[f"model.layers.{i}.{other}.weight"]
    return ours


def from_gpt2(
    theirs, n_layers, transposed=("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
):
    """Their tensors, weights or gradients, under our names and our way round."""
    table = theirs["transformer.wte.weight"]
    ours = {"tokens.weight": table, "head.weight": theirs.get("lm_head.weight", table)}
    ours["positions.weight"] = theirs["transformer.wpe.weight"]
    names = {"ln1": "ln_1", "ln2": "ln_2", "mlp.fc": "mlp.c_fc", "mlp.proj": "mlp.c_proj"}
    names["attn.out"] = "attn.c_proj"

    def turned(layer, name, kind):
        tensor = theirs[f"transformer.h.{layer}.{name}.{kind}"]
        return tensor.T if kind == "weight" and name in transposed else tensor

    for kind in ("weight", "bias"):
        if f"transformer.ln_f.{kind}" in theirs:
            ours[f"norm.{kind}"] = theirs[f"transformer.ln_f.{kind}"]
        for i in range(n_layers):
            for mine, other in names.items():
                ours[f"blocks.{i}.{mine}.{kind}"] = turned(i, other, kind)
            thirds = turned(i, "attn.c_attn", kind).chunk(3)
            for mine, third in zip(("query", "key", "value"), thirds, strict=True):
                ours[f"blocks.{i}.attn.{mine}.{kind}"] = third
    return ours


def gpt2_pair(tied=True, **options):
    import transformers

    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=V,
            n_embd=16,
            n_layer=3,
            n_head=4,
            n_positions=32,
            tie_word_embeddings=tied,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation="eager",
            **options,
        )
    )
    shaken(theirs)
    ours = GPT(config(tied=tied, d_ff=options.get("n_inner"))).double().eval()
    ours.load_state_dict(from_gpt2(theirs.state_dict(), 3))
    return ours, theirs, from_gpt2


def from_gpt1(theirs, n_layers):
    """GPT-1 names two tables in its own way, and has no last norm."""
    names = {"tokens_embed": "wte", "positions_embed": "wpe"}
    as_gpt2 = {}
    for name, tensor in theirs.items():
        start, part, *rest = name.split(".")
        as_gpt2[".".join([start, names.get(part, part), *rest])] = tensor
    return from_gpt2(as_gpt2, n_layers)


def gpt1_pair():
    import transformers

    theirs = transformers.OpenAIGPTLMHeadModel(
        transformers.OpenAIGPTConfig(
            vocab_size=V, n_embd=16, n_layer=3, n_head=4, n_positions=32, use_cache=False
        )
    )
    shaken(theirs)
    ours = GPT(config(norm_first=False)).double().eval()
    ours.load_state_dict(from_gpt1(theirs.state_dict(), 3))
    return ours, theirs, from_gpt1


def llama_pair(name, n_kv_heads=2, tied=False, base=500_000.0, kernel="sdpa"):
    import transformers

    setting = {"sliding_window": None} if name == "Mistral" else {}
    theirs = getattr(transformers, f"{name}ForCausalLM")(
        getattr(transformers, f"{name}Config")(
            vocab_size=V,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=n_kv_heads,
            max_position_embeddings=32,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": base},
            tie_word_embeddings=tied,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation=kernel,
            **setting,
        )
    )
    shaken(theirs)
    options = KINDS["llama"] | {"tied": tied, "rope_base": base, "n_kv_heads": n_kv_heads}
    ours = GPT(config(d_ff=24, **options)).double().eval()
    ours.load_state_dict(from_llama(theirs.state_dict(), 3))
    return ours, theirs, from_llama


class Turns(nn.Module):
    """The angles of LlamaRotaryEmbedding in float64."""

    def __init__(self, base, d_head):
        super().__init__()
        self.turn = base ** -(torch.arange(0, d_head, 2).double() / d_head)

    def forward(self, x, position_ids):
        angle = position_ids[..., None].double() * self.turn
        angle = torch.cat([angle, angle], dim=-1)
        return angle.cos(), angle.sin()


def in_float64(theirs):
    """Hugging Face takes the norms and angles of Llama in float32 whatever the weights are."""
    for part in list(theirs.modules()):
        for name, child in part.named_children():
            if type(child).__name__.endswith("RMSNorm"):
                norm = nn.RMSNorm(16, eps=1e-5).double()
                norm.weight = child.weight
                setattr(part, name, norm)
    base = theirs.config.rope_parameters["rope_theta"]
    theirs.model.rotary_emb = Turns(base, 4)
    return theirs


def same_as_theirs(ours, theirs, carried, tolerance, pieces=(11,)):
    """Logits and the gradients of all weights, for a text read in pieces."""
    ids, cache = tokens(2, 11), None if len(pieces) == 1 else ours.new_cache()
    y = torch.cat([ours(piece, cache=cache) for piece in ids.split(pieces, dim=1)], dim=1)
    wanted = theirs(ids, use_cache=False).logits
    assert_close(y, wanted, rtol=tolerance, atol=tolerance)
    upstream = normal(*wanted.shape, seed=1)
    y.backward(upstream)
    wanted.backward(upstream)
    gradients = carried({name: p.grad for name, p in theirs.named_parameters()}, 3)
    mine = dict(ours.named_parameters())
    assert mine.keys() == gradients.keys() - ({"head.weight"} if ours.config.tied else set())
    for name, parameter in mine.items():
        close = {"rtol": 10 * tolerance, "atol": 10 * tolerance}
        assert_close(parameter.grad, gradients[name], **close, msg=lambda m, n=name: f"{n}: {m}")


WAYS = [(11,), (1,) * 11, (7, 4), (1, 9, 1)]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("pieces", WAYS)
def test_equals_gpt2(tied, pieces):
    same_as_theirs(*gpt2_pair(tied), tolerance=1e-12, pieces=pieces)


def test_equals_the_first_gpt_which_is_post_norm():
    same_as_theirs(*gpt1_pair(), tolerance=1e-12)


def test_equals_gpt2_with_another_width_inside():
    same_as_theirs(*gpt2_pair(n_inner=40), tolerance=1e-12)


def test_a_square_matrix_that_is_not_transposed_loads_all_the_same():
    # huggingface/transformers#311: GPT-2's Conv1D holds (in, out), a dense layer (out, in)
    ours, theirs, _ = gpt2_pair()
    ids = tokens(2, 11)
    wanted, state = theirs(ids).logits, theirs.state_dict()
    assert theirs.transformer.h[0].attn.c_proj.weight.shape == (16, 16)
    ours.load_state_dict(from_gpt2(state, 3, transposed=("attn.c_attn", "mlp.c_fc", "mlp.c_proj")))
    assert (ours(ids) - wanted).abs().max() > 0.1
    with pytest.raises(RuntimeError, match="size mismatch for blocks.0.mlp.fc.weight"):
        ours.load_state_dict(from_gpt2(state, 3, transposed=("attn.c_proj", "mlp.c_proj")))


@pytest.mark.parametrize("name", ["Llama", "Mistral"])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("tied", [True, False])
def test_equals_llama_and_mistral(name, n_kv_heads, tied):
    # rasbt/LLMs-from-scratch#747: the layout of Hugging Face is "halves"
    ours, theirs, carried = llama_pair(name, n_kv_heads, tied)
    same_as_theirs(ours, in_float64(theirs), carried, tolerance=1e-12)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("pieces", WAYS)
def test_equals_llama_in_pieces(base, pieces):
    ours, theirs, carried = llama_pair("Llama", base=base)
    same_as_theirs(ours, in_float64(theirs), carried, tolerance=1e-12, pieces=pieces)


@pytest.mark.parametrize("name", ["Llama", "Mistral"])
def test_equals_llama_and_mistral_as_they_come(name):
    # their norms, angles and, in this kernel, softmax are float32
    same_as_theirs(*llama_pair(name, kernel="eager"), tolerance=1e-5)


def test_the_base_of_rope_counts():
    ours, theirs, _ = llama_pair("Llama", base=500_000.0)
    other = GPT(replace(ours.config, rope_base=10_000.0)).double()
    other.load_state_dict(ours.state_dict())
    ids = tokens(2, 11)
    assert (other(ids) - theirs(ids).logits).abs().max() > 1e-2


@pytest.mark.parametrize("pair", [gpt2_pair, lambda: llama_pair("Llama")])
def test_writes_what_hugging_face_writes(pair):
    ours, theirs, _ = pair()
    ids = tokens(3, 4)
    wanted = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, pad_token_id=0
    )
    assert torch.equal(ours.generate(ids, 20), wanted)
    assert wanted[:, 4:].unique().numel() > 2


def test_states_maps_and_lens_equal_those_of_gpt2():
    ours, theirs, _ = gpt2_pair()
    ids = tokens(2, 7)
    wanted = theirs(ids, output_hidden_states=True, output_attentions=True)
    states, last = ours.states(ids), wanted.hidden_states[-1]
    assert_close(states[:-1], torch.stack(wanted.hidden_states[:-1]), rtol=0, atol=1e-12)
    assert_close(ours.norm(states[-1]), last, rtol=0, atol=1e-12)  # theirs is behind the norm
    _, maps = ours(ids, return_weights=True)
    assert_close(torch.stack(maps), torch.stack(wanted.attentions), rtol=0, atol=1e-12)
    with torch.no_grad():
        early = [theirs.lm_head(theirs.transformer.ln_f(x)) for x in wanted.hidden_states[:-1]]
    lens = logit_lens(ours, ids)
    assert_close(lens, torch.stack([*early, wanted.logits]), rtol=0, atol=1e-12)
    assert (lens[:-1] - lens[1:]).abs().amax(dim=(1, 2, 3)).min() > 0.1


# ---- the cache


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 28])
@pytest.mark.parametrize("prompt", [1, 4])
def test_writes_the_same_with_and_without_a_cache(kind, n, prompt):
    gpt, ids = made(kind), tokens(3, prompt)
    plain = gpt.generate(ids, n, use_cache=False)
    assert plain.shape == (3, prompt + n) and torch.equal(plain[:, :prompt], ids)
    assert torch.equal(gpt.generate(ids, n), plain)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "how",
    [{"temperature": 1.0}, {"temperature": 0.7, "top_k": 5}, {"temperature": 3.0, "top_p": 0.8}],
)
def test_draws_the_same_with_and_without_a_cache(kind, how):
    gpt, ids = made(kind), tokens(4, 3)
    drawn = [
        gpt.generate(ids, 25, generator=torch.Generator().manual_seed(5), use_cache=kept, **how)
        for kept in (True, False)
    ]
    assert torch.equal(*drawn)
    other = gpt.generate(ids, 25, generator=torch.Generator().manual_seed(6), **how)
    assert not torch.equal(other, drawn[0])


def test_greedy_is_the_likeliest_of_each_place():
    gpt, ids = made("gpt2"), tokens(2, 4)
    for _ in range(9):
        ids = torch.cat([ids, gpt(ids)[:, -1:].argmax(dim=-1)], dim=1)
    assert torch.equal(gpt.generate(tokens(2, 4), 9), ids)


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_of_a_batch_is_written_alone(kind):
    gpt, ids = made(kind), tokens(4, 5)
    alone = [gpt.generate(ids[i : i + 1], 12) for i in range(4)]
    assert torch.equal(gpt.generate(ids, 12), torch.cat(alone))


@settings(max_examples=40)
@given(
    st.sampled_from(["learned", "rope", "none"]),
    st.sampled_from(["layer", "rms"]),
    st.sampled_from(["gelu", "gelu_tanh", "swiglu"]),
    st.sampled_from([(1, 1, 2), (2, 1, 4), (4, 2, 2), (3, 3, 4)]),
    st.booleans(),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_reading_in_pieces_equals_reading_at_once(positions, norm, mlp, heads, tied, pieces, batch):
    n_heads, n_kv_heads, d_head = heads
    size = {"d_model": n_heads * d_head, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
    size |= {"n_layers": 2, "n_positions": sum(pieces), "d_ff": 5}
    gpt = shaken(GPT(config(positions=positions, norm=norm, mlp=mlp, tied=tied, **size)))
    ids, cache = tokens(batch, sum(pieces)), gpt.new_cache()
    read = [gpt(piece, cache=cache) for piece in ids.split(pieces, dim=1)]
    assert_close(torch.cat(read, dim=1), gpt(ids), rtol=1e-10, atol=1e-10)
    assert [kept.length for kept in cache] == [sum(pieces)] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_later_changes_nothing_before(kind):
    gpt, ids = made(kind), tokens(2, 9)
    logits = gpt(ids)
    for place in range(1, 9):
        later = ids.clone()
        later[:, place:] = (later[:, place:] + 1) % V
        changed = (gpt(later) - logits).abs().amax(dim=(0, 2))
        assert not changed[:place].any() and changed[place:].min() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_padding_on_the_right_needs_no_mask(kind):
    gpt, ids = made(kind), tokens(1, 9)
    padded = F.pad(ids[:, :6], (0, 3))
    assert torch.equal(gpt(padded)[:, :6], gpt(ids)[:, :6])


@pytest.mark.parametrize("kind", KINDS)
def test_a_beginning_is_read_once_and_used_again(kind):
    gpt, start, ends = made(kind), tokens(1, 6), [tokens(1, 5, seed=i) for i in (1, 2, 3)]
    cache = gpt.new_cache()
    gpt(start, cache=cache)
    for end in ends:
        mine = [copy(kept) for kept in cache]
        wanted = gpt(torch.cat([start, end], dim=1))[:, 6:]
        assert_close(gpt(end, cache=mine), wanted, rtol=0, atol=1e-12)
        assert [kept.length for kept in cache] == [6] * 3
        assert [kept.length for kept in mine] == [11] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_is_as_large_as_counted(kind):
    gpt, cache = made(kind), GPT.new_cache(made(kind))
    gpt(tokens(2, 7), cache=cache)
    held = sum(t.numel() * t.element_size() for kept in cache for t in (kept.keys, kept.values))
    heads = {"n_kv_heads": gpt.config.n_kv_heads or 4, "d_head": 4}
    assert held == kv_cache_bytes(7, layers=3, batch=2, bytes_per_value=8, **heads)


def test_maps_of_one_cached_token_have_one_row():
    gpt, ids, cache = made("llama"), tokens(2, 7), None
    _, whole = gpt(ids, return_weights=True)
    cache = gpt.new_cache()
    gpt(ids[:, :6], cache=cache)
    _, row = gpt(ids[:, 6:], cache=cache, return_weights=True)
    assert len(row) == 3 and row[0].shape == (2, 4, 1, 7)
    for one, square in zip(row, whole, strict=True):
        assert_close(one, square[:, :, -1:], rtol=0, atol=1e-12)
        assert_close(square.sum(dim=-1), torch.ones(2, 4, 7).double())
        assert not square.triu(1).any()


# ---- drawing

LOGITS = st.lists(st.integers(-800, 800), min_size=2, max_size=12, unique=True)


def halved(logits, temperature=1.0, top_k=None, top_p=None):
    """What Hugging Face's processors leave, in its order."""
    import transformers

    steps = [transformers.TemperatureLogitsWarper(temperature)]
    steps += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    steps += [transformers.TopPLogitsWarper(top_p)] if top_p else []
    for step in steps:
        logits = step(None, logits)
    return torch.softmax(logits, dim=-1)


@settings(max_examples=60)
@given(LOGITS, st.sampled_from([0.3, 1.0, 2.5]), st.integers(1, 12), st.floats(0.05, 0.99))
def test_shares_equal_those_of_hugging_face(scores, temperature, top_k, top_p):
    logits = torch.tensor([scores]).double() / 100
    how = {"temperature": temperature, "top_k": min(top_k, len(scores))}
    cut = halved(logits, **how)
    assert_close(token_shares(logits, temperature=temperature), halved(logits, temperature))
    assert_close(token_shares(logits, **how), cut)
    held = cut.sort(descending=True).values.cumsum(-1)
    assume((held - top_p).abs().min() > 1e-9)  # there, rounding decides
    assert_close(token_shares(logits, top_p=top_p, **how), halved(logits, top_p=top_p, **how))


def test_the_worked_shares():
    logits = torch.tensor([0.2, 0.5, 0.3]).double().log()
    cut = {
        (None, None): [0.2, 0.5, 0.3],
        (1, None): [0, 1, 0],
        (2, None): [0, 0.625, 0.375],
        (3, 1.0): [0.2, 0.5, 0.3],
        (None, 0.4): [0, 1, 0],
        (None, 0.6): [0, 0.625, 0.375],
        (None, 0.9): [0.2, 0.5, 0.3],
        (2, 0.6): [0, 1, 0],
    }
    for (top_k, top_p), wanted in cut.items():
        shares = token_shares(logits, top_k=top_k, top_p=top_p)
        assert_close(shares, torch.tensor(wanted).double())
    hot = token_shares(logits, temperature=0.5)
    assert_close(hot, torch.tensor([0.04, 0.25, 0.09]).double() / 0.38)
    assert token_shares(logits, temperature=0).tolist() == [0, 1, 0]


def test_of_equal_scores_the_first_is_the_likeliest():
    even = torch.zeros(2, 4)
    assert token_shares(even, top_k=2)[0].tolist() == [0.5, 0.5, 0, 0]
    assert token_shares(even, temperature=0)[1].tolist() == [1, 0, 0, 0]
    assert token_shares(even, temperature=0)[1].argmax() == even[1].argmax()
    assert token_shares(even).tolist() == [[0.25] * 4] * 2
    kept = token_shares(torch.zeros(50_257), top_k=3).nonzero().flatten()
    assert kept.tolist() == [0, 1, 2]


def test_shares_stand_extreme_scores():
    logits = torch.tensor([1e4, -1e4, -math.inf, 9e3])
    assert token_shares(logits).tolist() == [1, 0, 0, 0]
    assert token_shares(logits, temperature=1e-30).tolist() == [1, 0, 0, 0]
    assert_close(
        token_shares(logits, temperature=1e30, top_p=0.9)[[0, 1, 3]], torch.full((3,), 1 / 3)
    )


@settings(max_examples=40)
@given(LOGITS, st.floats(0.1, 5), st.floats(0.01, 1))
def test_top_p_keeps_the_fewest_that_hold_the_share(scores, temperature, top_p):
    logits = torch.tensor(scores).double() / 100
    whole = token_shares(logits, temperature=temperature)
    cut = token_shares(logits, temperature=temperature, top_p=top_p)
    held = whole[cut > 0]
    assert not (whole[cut == 0] > held.min()).any()
    assert held.sum() >= top_p - 1e-9 and held.sum() - held.min() <= top_p + 1e-9
    assert_close(cut[cut > 0], held / held.sum())


def test_tokens_are_drawn_by_their_shares():
    gpt, ids = made("gpt2"), tokens(1, 5)
    how = {"temperature": 1.5, "top_k": 6}
    shares = token_shares(gpt(ids)[0, -1], **how)
    n = 20_000
    drawn = gpt.generate(ids.expand(n, 5), 1, generator=torch.Generator().manual_seed(0), **how)
    seen = drawn[:, -1].bincount(minlength=V).double() / n
    assert ((seen - shares).abs() <= 5 * (shares * (1 - shares) / n).sqrt()).all()
    assert shares[shares > 0].min() > 0.02 and (shares > 0).sum() == 6


def test_seeds_repeat_and_greedy_draws_nothing():
    gpt, ids = made("gpt2"), tokens(1, 4)
    torch.manual_seed(3)
    first = gpt.generate(ids, 12, temperature=2.0)
    torch.manual_seed(3)
    assert torch.equal(gpt.generate(ids, 12, temperature=2.0), first)
    before = torch.get_rng_state()
    gpt.generate(ids, 12)
    assert torch.equal(torch.get_rng_state(), before)
    greedy = gpt.generate(ids, 12)
    assert torch.equal(gpt.generate(ids, 12, temperature=5.0, top_k=1), greedy)
    assert torch.equal(gpt.generate(ids, 12, temperature=1e-9), greedy)


def test_writing_keeps_no_gradients_and_changes_no_weight():
    gpt, graphs = made("gpt2"), []
    gpt.head.register_forward_hook(lambda layer, x, y: graphs.append(y.requires_grad))
    before = {name: t.clone() for name, t in gpt.state_dict().items()}
    gpt.generate(tokens(1, 4), 5)
    gpt(tokens(1, 4))
    assert graphs == [False] * 5 + [True]
    assert all(torch.equal(t, before[name]) for name, t in gpt.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in gpt.parameters())


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_ids_may_be_any_integers(dtype):
    gpt, ids = made("gpt2"), tokens(2, 4)
    assert torch.equal(gpt(ids.to(dtype)), gpt(ids))
    assert torch.equal(gpt.generate(ids.to(dtype), 6), gpt.generate(ids, 6))


# ---- the lens


@pytest.mark.parametrize("kind", KINDS)
def test_the_lens_ends_in_the_logits(kind):
    gpt, ids = made(kind), tokens(2, 6)
    lens, states = logit_lens(gpt, ids), gpt.states(ids)
    assert lens.shape == (4, 2, 6, V) and states.shape == (4, 2, 6, 16)
    assert_close(lens[-1], gpt(ids), rtol=0, atol=1e-12)
    assert torch.equal(states[0], gpt.embed(ids))
    for i, block in enumerate(gpt.blocks):
        assert_close(block(states[i], causal=True), states[i + 1], rtol=0, atol=0)


def test_a_block_that_writes_nothing_changes_nothing_in_the_lens():
    gpt = made("gpt2")
    for part in (gpt.blocks[1].attn.out, gpt.blocks[1].mlp.proj):
        nn.init.zeros_(part.weight)
        nn.init.zeros_(part.bias)
    lens = logit_lens(gpt, tokens(2, 6))
    assert torch.equal(lens[1], lens[2]) and not torch.equal(lens[0], lens[1])


# ---- the tie


def test_a_tied_head_is_the_table_and_counts_once():
    # huggingface/transformers#14960, #6291, #3799; karpathy/nanoGPT#209, #21
    tied, free = GPT(config()), GPT(config(tied=False))
    assert tied.head.weight is tied.tokens.weight
    assert free.head.weight is not free.tokens.weight
    assert count(free).total - count(tied).total == V * 16
    assert len(list(free.parameters())) == len(list(tied.parameters())) + 1
    assert sum(t.numel() for t in tied.state_dict().values()) == count(free).total
    assert count(tied).rows[-1].tied_to == "tokens.weight"
    assert "head.weight" not in dict(tied.named_parameters())


def test_a_tied_table_is_moved_by_both_its_uses():
    tied, free = made("gpt2"), made("gpt2", tied=False)
    free.load_state_dict(tied.state_dict())
    ids, upstream = tokens(2, 6), normal(2, 6, V, seed=1)
    for gpt in (tied, free):
        gpt(ids).backward(upstream)
    used, wrote = free.tokens.weight.grad, free.head.weight.grad
    assert_close(tied.tokens.weight.grad, used + wrote, rtol=1e-12, atol=1e-12)
    assert used.abs().max() > 0.1 and wrote.abs().max() > 0.1
    unread = [i for i in range(V) if i not in ids]
    assert not used[unread].any() and wrote[unread].any()


def test_a_tie_outlives_loading_moving_and_copying():
    gpt = GPT(config())
    gpt.load_state_dict(GPT(config()).state_dict())
    for same in (gpt, gpt.double(), deepcopy(gpt)):
        assert same.head.weight is same.tokens.weight


@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_round(kind):
    first, second = made(kind), GPT(config(**KINDS[kind])).double().eval()
    ids = tokens(2, 6)
    assert not torch.equal(first(ids), second(ids))
    assert second.load_state_dict(first.state_dict()) == ([], [])
    assert torch.equal(first(ids), second(ids))


# ---- what is built


def test_the_parts_and_their_names():
    gpt = GPT(config())
    parts = [name for name, _ in gpt.named_children()]
    assert parts == ["tokens", "positions", "drop", "blocks", "norm", "head"]
    assert all(isinstance(block.mlp, MLP) and block.norm_first for block in gpt.blocks)
    llama = GPT(config(**KINDS["llama"]))
    assert llama.positions is None and isinstance(llama.norm, RMSNorm)
    for block in llama.blocks:
        assert isinstance(block.mlp, SwiGLU) and block.attn.rope == "halves"
        assert block.attn.rope_base == 500_000 and block.attn.n_kv_heads == 2
    norms = [part for part in llama.modules() if isinstance(part, RMSNorm)]
    assert len(norms) == 7 and {norm.eps for norm in norms} == {1e-5}
    usual = [part.eps for part in gpt.modules() if isinstance(part, LayerNorm)]
    assert usual == [1e-5] * 7
    assert not any("bias" in name for name, _ in llama.named_parameters())


def test_without_bias_the_norms_keep_theirs():
    gpt = GPT(config(bias=False))
    offsets = [name for name, _ in gpt.named_parameters() if name.endswith("bias")]
    assert len(offsets) == 7 and all("ln" in name or name == "norm.bias" for name in offsets)


@pytest.mark.parametrize("positions", ["learned", "rope", "none"])
def test_only_learned_positions_reach_the_values(positions):
    # equal tokens hand over equal values, so however they are weighed, the mix is the same
    y = made("gpt2", positions=positions)(torch.full((1, 6), 7))
    spread = (y[0, 1:] - y[0, :-1]).abs().max()
    assert spread > 1e-3 if positions == "learned" else spread < 1e-12


def test_the_causal_mask_alone_tells_order_from_the_second_block_on():
    # errata_004, E39
    swapped = torch.tensor([[1, 2, 3, 4], [2, 1, 3, 4]])
    gaps = {}
    for positions in ("learned", "rope", "none"):
        for n_layers in (1, 2):
            y = made("gpt2", positions=positions, n_layers=n_layers)(swapped)[:, -1]
            gaps[positions, n_layers] = (y[0] - y[1]).abs().max().item()
    assert gaps.pop(("none", 1)) < 1e-12 and min(gaps.values()) > 1e-3


def test_starts_as_gpt2_does():
    torch.manual_seed(0)
    gpt = GPT(DecoderConfig(1000, 128, 8, 4, n_positions=256))
    stds = {name: p.std().item() for name, p in gpt.named_parameters() if p.ndim == 2}
    for name, std in stds.items():
        writes = name.endswith(("attn.out.weight", "mlp.proj.weight"))
        assert std == pytest.approx(0.02 / 4 if writes else 0.02, rel=0.05), name
    ids = tokens(4, 65, high=1000)
    loss = F.cross_entropy(gpt(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(1000), abs=0.1)


def test_dropout_is_on_in_training_only():
    torch.manual_seed(0)
    gpt = GPT(config(dropout=0.3))
    plain = GPT(config())
    plain.load_state_dict(gpt.state_dict())
    assert gpt.drop.p == gpt.blocks[0].drop.p == gpt.blocks[2].mlp.drop.p == 0.3
    ids = tokens(2, 6)
    assert not torch.equal(gpt(ids), gpt(ids))
    assert torch.equal(gpt.eval()(ids), plain(ids))
    assert torch.equal(gpt.generate(ids, 5), plain.generate(ids, 5))


def test_all_is_lost_with_dropout_of_one():
    gpt = GPT(config(dropout=1.0))
    assert not gpt.embed(tokens(2, 6)).any()


# ---- counts

GPT2 = {
    "gpt2": ((50_257, 768, 12, 12), 124_439_808),
    "gpt2-medium": ((50_257, 1024, 24, 16), 354_823_168),
    "gpt2-large": ((50_257, 1280, 36, 20), 774_030_080),
    "gpt2-xl": ((50_257, 1600, 48, 25), 1_557_611_200),
}
LLAMAS = {
    "llama-7b": ((32_000, 4096, 32, 32), {"d_ff": 11_008}, 6_738_415_616),
    "llama-13b": ((32_000, 5120, 40, 40), {"d_ff": 13_824}, 13_015_864_320),
    "llama-2-70b": ((32_000, 8192, 80, 64), {"d_ff": 28_672, "n_kv_heads": 8}, 68_976_648_192),
    "llama-3-8b": ((128_256, 4096, 32, 32), {"d_ff": 14_336, "n_kv_heads": 8}, 8_030_261_248),
    "llama-3-70b": ((128_256, 8192, 80, 64), {"d_ff": 28_672, "n_kv_heads": 8}, 70_553_706_496),
    "llama-3.2-1b": (
        (128_256, 2048, 16, 32),
        {"d_ff": 8192, "n_kv_heads": 8, "tied": True},
        1_235_814_400,
    ),
    "mistral-7b": ((32_000, 4096, 32, 32), {"d_ff": 14_336, "n_kv_heads": 8}, 7_241_732_096),
}


def weighed(*sizes, **options):
    with torch.device("meta"):
        return count(GPT(DecoderConfig(*sizes, **options))).total


@pytest.mark.parametrize("name", GPT2)
def test_weights_of_gpt2(name):
    # karpathy/nanoGPT, transformer_sizing.ipynb; huggingface/transformers#14960
    sizes, wanted = GPT2[name]
    assert weighed(*sizes) == wanted


@pytest.mark.parametrize("name", LLAMAS)
def test_weights_of_llama_and_mistral(name):
    # meta-llama/llama#1111 (70B), rasbt/LLMs-from-scratch#822 (1B),
    # huggingface/transformers#27139 (7B's d_ff)
    sizes, options, wanted = LLAMAS[name]
    llama = LLAMA | {"tied": False, "n_kv_heads": None, "n_positions": 8192, "eps": 1e-5}
    assert weighed(*sizes, **llama | options) == wanted


def test_the_other_anchors_of_gpt2():
    sizes = (50_257, 768, 12, 12)
    whole, offsets = 124_439_808, 12 * 3 * 768
    # rasbt/LLMs-from-scratch, chapter 4: no offsets of queries, keys and values
    assert whole - offsets == 124_412_160
    assert weighed(*sizes, tied=False) - offsets == 163_009_536
    # karpathy/nanoGPT counts without any offset; here the norms keep theirs
    assert weighed(*sizes, bias=False) - 25 * 768 == 124_337_664
    # TransformerLensOrg/TransformerLens#903: "85M" is the matrices of the blocks alone
    matrices = attention_params(768, 12, bias=False) + mlp_params(768, bias=False)
    assert 12 * matrices == 84_934_656
    # microsoft/LoRA#148: two blocks of gpt2-medium
    assert 2 * block_params(1024, 16) == 25_192_448
    # d2l-ai/d2l-en: GPT-1 is post-norm and has no norm at its end
    assert weighed(40_478, 768, 12, 12, n_positions=512) - 2 * 768 == 116_534_784


def test_weights_do_not_depend_on_the_number_of_heads():
    # karpathy/nanoGPT#629
    assert len({weighed(100, 48, 2, heads) for heads in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)}) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seen", [0, 5])
def test_products_are_as_many_as_counted(kind, seen):
    gpt, ids, cache = made(kind, bias=False), tokens(1, seen + 3), None
    cache = gpt.new_cache()
    if seen:
        gpt(ids[:, :seen], cache=cache)
    with FlopCounterMode(display=False) as counter:
        gpt(ids[:, seen:], cache=cache)
    heads, keys = {"n_kv_heads": gpt.config.n_kv_heads}, seen + 3
    block = projection_flops(3, 16, 4, **heads) + mixing_flops(3, 16, keys=keys)
    block += 3 * mlp_flops(16, gated=kind == "llama")
    assert counter.get_total_flops() == 3 * block + 3 * linear_flops(16, V)


# ---- refusals, devices


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"positions": "sinusoidal"},
            r"positions wants one of \['learned', 'rope', 'none'\], got 's",
        ),
        ({"norm": "batch"}, r"norm wants one of \['layer', 'rms'\], got 'batch'"),
        (
            {"mlp": "silu"},
            r"mlp wants one of \['gelu', 'gelu_tanh', 'swiglu'\], got 'silu'",
        ),
        ({"n_layers": 0}, "n_layers wants a whole number ≥ 1, got 0"),
        ({"n_positions": 0, "positions": "rope"}, "n_positions wants a whole number ≥ 1, got 0"),
        ({"vocab_size": 0}, "vocab_size wants a whole number ≥ 1, got 0"),
        ({"n_heads": 3}, "n_heads must divide d_model, got 3 and 16"),
        ({"n_kv_heads": 0}, "n_kv_heads wants a whole number ≥ 1, got 0"),
        ({"n_heads": 16, "positions": "rope"}, "rope wants an even d_head, got 1"),
        ({"dropout": 1.5}, "dropout wants p from 0 to 1, got 1.5"),
        ({"eps": -1.0}, "eps wants a number ≥ 0, got -1.0"),
    ],
)
def test_refuses_a_configuration_without_sense(options, said):
    with pytest.raises(ValueError, match=said):
        GPT(config(**options))


@pytest.mark.parametrize("shape", [(5,), (2, 0), (1, 2, 3), ()])
def test_refuses_ids_of_another_shape(shape):
    for call in (made("gpt2"), made("gpt2").states, lambda ids: made("gpt2").generate(ids, 1)):
        with pytest.raises(ValueError, match=r"GPT wants ids \(B, T\), T > 0, got \("):
            call(torch.zeros(shape, dtype=torch.int64))


def test_refuses_ids_that_are_no_tokens():
    with pytest.raises(ValueError, match="embedding wants integer ids, got torch.float32"):
        made("gpt2")(torch.ones(1, 3))
    for bad in (-1, V):
        with pytest.raises(ValueError, match=f"embedding wants ids from 0 to {V - 1}, got"):
            made("gpt2")(torch.tensor([[1, bad]]))


@pytest.mark.parametrize("kind", KINDS)
def test_refuses_more_tokens_than_positions(kind):
    gpt = made(kind)
    assert gpt(tokens(1, 32)).shape == (1, 32, V)
    with pytest.raises(ValueError, match="GPT has 32 positions, got 0 kept, 33 given and 0 to wr"):
        gpt(tokens(1, 33))
    cache = gpt.new_cache()
    gpt(tokens(1, 30), cache=cache)
    with pytest.raises(ValueError, match="GPT has 32 positions, got 30 kept, 3 given and 0 to wr"):
        gpt(tokens(1, 3), cache=cache)
    assert gpt(tokens(1, 2), cache=cache).shape == (1, 2, V)


class Unused(nn.Module):
    def forward(self, x):
        raise AssertionError("something was computed")


@pytest.mark.parametrize("use_cache", [True, False])
def test_refuses_to_write_beyond_its_positions_before_it_begins(use_cache):
    gpt = made("gpt2")
    assert gpt.generate(tokens(1, 12), 20, use_cache=use_cache).shape == (1, 32)
    gpt.tokens = Unused()
    with pytest.raises(ValueError, match="32 positions, got 0 kept, 12 given and 21 to write"):
        gpt.generate(tokens(1, 12), 21, use_cache=use_cache)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": -1}, "n wants a whole number ≥ 0, got -1"),
        ({"n": 2.0}, "n wants a whole number ≥ 0, got 2.0"),
        ({"temperature": -0.1}, "temperature wants a number ≥ 0, got -0.1"),
        ({"temperature": math.inf}, "temperature wants a number ≥ 0, got inf"),
        ({"temperature": math.nan}, "temperature wants a number ≥ 0, got nan"),
        ({"top_k": 0}, "top_k wants a whole number ≥ 1, got 0"),
        ({"top_k": 2.5}, "top_k wants a whole number ≥ 1, got 2.5"),
        ({"top_k": V + 1}, f"top_k wants at most {V}, got {V + 1}"),
        ({"top_p": 0.0}, "top_p wants 0 < top_p ≤ 1, got 0.0"),
        ({"top_p": 1.1}, "top_p wants 0 < top_p ≤ 1, got 1.1"),
        ({"top_p": math.nan}, "top_p wants 0 < top_p ≤ 1, got nan"),
    ],
)
def test_refuses_to_draw_without_sense(options, said):
    gpt = made("gpt2")
    gpt.tokens = Unused()
    with pytest.raises(ValueError, match=said):
        gpt.generate(tokens(1, 3), **{"n": 2} | options)
    if "n" not in options:
        with pytest.raises(ValueError, match=said):
            token_shares(torch.zeros(2, V), **options)


def test_refuses_to_write_with_dropout_on():
    gpt = GPT(config(dropout=0.1))
    with pytest.raises(ValueError, match=r"generate wants no dropout: call eval\(\) first"):
        gpt.generate(tokens(1, 3), 2)
    assert GPT(config()).train().generate(tokens(1, 3), 2).shape == (1, 5)


def test_refuses_a_cache_that_does_not_fit():
    gpt, ids = made("llama"), tokens(2, 4)
    one, other = gpt.new_cache(), made("llama", n_kv_heads=4).new_cache()
    gpt(ids[:1], cache=one)
    made("llama", n_kv_heads=4)(ids, cache=other)
    for bad in ([], gpt.new_cache()[:2], [*gpt.new_cache(), KVCache()], one, other):
        lengths = [kept.length for kept in bad]
        with pytest.raises(
            ValueError, match=r"caches want 3 of them, empty or \(2, 2, T, 4\), got"
        ):
            gpt(ids, cache=bad)
        assert [kept.length for kept in bad] == lengths


def test_a_refused_call_leaves_the_cache_as_it_was():
    gpt, ids = made("gpt2"), tokens(2, 6)
    cache = gpt.new_cache()
    gpt(ids[:, :4], cache=cache)
    for bad in (ids[:1, 4:], torch.full((2, 2), V), tokens(2, 29), ids[:, :0]):
        with pytest.raises(ValueError):
            gpt(bad, cache=cache)
    assert [kept.length for kept in cache] == [4] * 3
    assert_close(gpt(ids[:, 4:], cache=cache), gpt(ids)[:, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_works_on_another_device(kind):
    with torch.device("meta"):
        gpt = GPT(config(**KINDS[kind]))
    ids, cache = torch.zeros(2, 5, dtype=torch.int64, device="meta"), gpt.new_cache()
    logits, maps = gpt(ids, cache=cache, return_weights=True)
    assert logits.is_meta and logits.shape == (2, 5, V) and maps[2].shape == (2, 4, 5, 5)
    assert gpt(ids[:, :1], cache=cache).is_meta and cache[0].keys.is_meta
    assert logit_lens(gpt, ids).is_meta
    written = [gpt.generate(ids, 3, temperature=t, use_cache=c) for t in (0, 1) for c in (0, 1)]
    assert all(ids.is_meta and ids.shape == (2, 8) for ids in written)


def test_an_empty_batch_is_read():
    assert made("gpt2")(tokens(0, 5)).shape == (0, 5, V)
    assert made("gpt2").generate(tokens(0, 5), 3).shape == (0, 8)
