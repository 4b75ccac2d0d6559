"""lumen.attention against torch's two attentions, plain loops, and numbers worked by hand."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.activation import softmax
from lumen.attention import (
    KVCache,
    MultiHeadAttention,
    attention,
    causal_mask,
    hide,
    masked_softmax,
    merge_heads,
    share_heads,
    split_heads,
)
from lumen.count import attention_params, count
from lumen.position import rope, sinusoidal
from tests.oracle import agree, normal

INF = math.inf


def qkv(*lead, t=4, s=4, d_k=8, d_v=8, dtype=torch.float64):
    shapes = [(t, d_k), (s, d_k), (s, d_v)]
    return [normal(*lead, *shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


def some_mask(*shape, seed=7):
    """Random, with the first key open to all, so that torch's NaN stay out of the comparison."""
    mask = normal(*shape, seed=seed) > 0
    mask[..., 0] = True
    return mask


def added(mask):
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -INF)


# ---- the function against scaled_dot_product_attention


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize(
    ("t", "s", "d_k", "d_v"), [(4, 4, 8, 8), (1, 1, 1, 1), (3, 5, 7, 2), (5, 1, 2, 3)]
)
def test_equals_torch(lead, t, s, d_k, d_v):
    inputs = qkv(*lead, t=t, s=s, d_k=d_k, d_v=d_v)
    agree(attention, F.scaled_dot_product_attention, *inputs)


def test_equals_torch_in_float32():
    inputs = qkv(2, 3, t=30, s=30, d_k=64, d_v=64, dtype=torch.float32)
    agree(attention, F.scaled_dot_product_attention, *inputs, tolerance=1e-5)


def test_equals_torch_under_a_causal_mask():
    agree(
        lambda q, k, v: attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *qkv(2, 3, t=6, s=6),
    )


@pytest.mark.parametrize(
    "shape", [(4, 5), (1, 5), (4, 1), (1, 1), (5,), (3, 4, 5), (2, 1, 4, 5), (2, 3, 4, 5)]
)
@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_equals_torch_under_masks_that_broadcast(shape, kind):
    mask = some_mask(*shape)
    mask = mask if kind == "boolean" else added(mask)
    agree(
        lambda q, k, v: attention(q, k, v, mask=mask),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask.expand(2, 3, 4, 5)),
        *qkv(2, 3, t=4, s=5),
    )


def test_a_float_mask_may_hold_any_number_and_learn():
    # A bias by distance, say; its gradient is the scores' own.
    agree(
        lambda q, k, v, bias: attention(q, k, v, mask=bias),
        lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
        *qkv(2, 3),
        normal(4, 4, seed=5),
    )


def test_a_float_mask_does_not_change_the_dtype():
    q, k, v = qkv(dtype=torch.float32)
    out = attention(q, k, v, mask=torch.zeros(4, 4, dtype=torch.float64))
    assert_close(out, attention(q, k, v))


def by_loops(q, k, v, mask):
    """One query at a time, with no softmax to overflow: the oracle that knows what no key means."""
    out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for i in range(q.shape[0]):
        open_keys = mask[i].nonzero().flatten()
        if len(open_keys):
            scores = k[open_keys] @ q[i] / math.sqrt(len(q[i]))
            shares = (scores - scores.logsumexp(0)).exp()
            out[i] = shares @ v[open_keys]
    return out


@settings(max_examples=40)
@given(
    *[st.integers(1, 5)] * 4,
    st.booleans(),
    st.sampled_from(["boolean", "float"]),
    st.integers(0, 10_000),
)
def test_equals_loops_for_any_shape_and_mask(t, s, d_k, d_v, causal, kind, seed):
    mask = normal(t, s, seed=seed) > 0
    given_mask = mask if kind == "boolean" else added(mask)
    visible = mask & causal_mask(t, s) if causal else mask
    agree(
        lambda q, k, v: (
            attention(q, k, v, mask=given_mask, causal=causal) + 0 * (q.sum() + k.sum() + v.sum())
        ),
        lambda q, k, v: by_loops(q, k, v, visible) + 0 * (q.sum() + k.sum() + v.sum()),
        *qkv(t=t, s=s, d_k=d_k, d_v=d_v),
        tolerance=1e-11,
    )


def test_gradient_by_finite_differences_with_a_masked_row():
    mask = torch.tensor([[True, True, False], [False] * 3, [True, False, True]])
    inputs = [x.requires_grad_() for x in qkv(2, t=3, s=3, d_k=2, d_v=2)]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, mask=mask), inputs)


def test_takes_input_that_is_not_contiguous():
    q, k, v = (normal(8, 4, 3, seed=i).permute(2, 1, 0) for i in range(3))
    assert not q.is_contiguous()
    agree(attention, F.scaled_dot_product_attention, q, k, v)


def test_keys_may_be_shared_by_a_batch():
    q, k, v = qkv(2, 3)[0], *qkv()[1:]
    assert_close(attention(q, k, v), attention(q, k.expand(2, 3, 4, 8), v.expand(2, 3, 4, 8)))


def test_no_queries_give_no_rows():
    q, k, v = qkv(2, t=0)
    assert attention(q, k, v, causal=True).shape == (2, 0, 8)


def test_huge_scores_do_not_overflow():
    q, k, v = (1000 * x for x in qkv())
    agree(attention, F.scaled_dot_product_attention, q, k, v, tolerance=1e-9)
    assert attention(*(x.float() for x in (q, k, v))).isfinite().all()


def test_nan_in_a_score_is_not_hidden():
    q, k, v = qkv()
    q[1, 0] = math.nan
    assert attention(q, k, v).isnan().any(-1).tolist() == [False, True, False, False]


# ---- scale


def test_variance_of_a_score_is_d_k_and_one_after_the_scale():
    # lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11, coreylowman/dfdx#171,
    # juho-lee/set_transformer#18
    q, k = normal(300, 64), normal(300, 64, seed=1)
    raw = q @ k.T
    assert raw.var().item() == pytest.approx(64, rel=0.05)
    assert (raw / math.sqrt(64)).var().item() == pytest.approx(1, rel=0.05)
    _, weights = attention(q, k, k, return_weights=True)
    assert_close(weights, softmax(raw / 8, -1), rtol=0, atol=1e-12)


def test_the_scale_is_that_of_a_head_and_not_of_the_model():
    layer = MultiHeadAttention(64, 4).double()
    x = normal(1, 5, 64)
    _, weights = layer(x, return_weights=True)
    q, k = split_heads(layer.query(x), 4), split_heads(layer.key(x), 4)
    assert_close(weights, softmax(q @ k.mT / math.sqrt(16), -1))
    assert (weights - softmax(q @ k.mT / math.sqrt(64), -1)).abs().max() > 1e-3


def test_the_softmax_is_taken_over_keys():
    # jadore801120/attention-is-all-you-need-pytorch#52
    q, k, v = qkv(t=3, s=5)
    _, weights = attention(q, k, v, return_weights=True)
    assert_close(weights.sum(-1), torch.ones(3).double())
    assert (weights.sum(-2) - 3 / 5).abs().max() > 0.1


def test_scaling_the_queries_first_is_the_same():
    # getalp/Flaubert#45
    q, k = normal(10, 64), normal(10, 64, seed=1)
    assert torch.equal((q / math.sqrt(64)) @ k.T, q @ k.T / math.sqrt(64))


# ---- worked numbers

CAT = {
    "q": [[1, 2, 0, 1]],
    "k": [[0, 0, 1, 0], [1, 2, 0, 1], [0, 1, 0, 1], [1, 0, 0, 0]],
    "v": [[0.1, 0, 0.2, 0], [0.9, 0.2, 0.1, 0.4], [0.2, 0.8, 0, 0.3], [0, 0.1, 0.7, 0.1]],
}


def near(tensor, *numbers, within=5e-4):
    assert tensor.flatten().tolist() == pytest.approx(numbers, abs=within)


def test_what_sat_looks_up():
    # facts_004, section 7; errata_004, E31: the exact weights, for the rounded ones sum to 1.001
    q, k, v = (torch.tensor(CAT[name], dtype=torch.float64) for name in "qkv")
    assert (q @ k.T).tolist() == [[0, 6, 3, 1]]
    out, weights = attention(q, k, v, return_weights=True)
    near(weights, 0.03674316349, 0.7380061671, 0.1646714342, 0.06057923521, within=1e-10)
    near(out, 0.701, 0.285, 0.124, 0.351)
    seen = torch.tensor([True, True, True, False])
    out, weights = attention(q, k, v, mask=seen, return_weights=True)
    near(weights, 0.03911257327, 0.7855970346, 0.1752903921, 0, within=1e-10)
    near(out, 0.74601, 0.29735, 0.08638, 0.36683, within=5e-6)
    near(softmax(q @ k.T, -1), 0.00234, 0.94428, 0.04701, 0.00636, within=5e-6)


def test_a_mask_after_the_softmax_loses_mass():
    # facts_004, section 7: 0.939 is left
    q, k, v = (torch.tensor(CAT[name], dtype=torch.float64) for name in "qkv")
    _, weights = attention(q, k, v, return_weights=True)
    late = weights * torch.tensor([1, 1, 1, 0])
    assert late.sum().item() == pytest.approx(0.9394207648, abs=1e-9)
    near(late @ v, 0.70081, 0.27934, 0.08115, 0.3446, within=5e-6)


def test_three_tokens():
    # facts_000_003, section 4; errata 05 to 07
    x = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]], dtype=torch.float64)
    z, a = attention(x, x, x, return_weights=True)
    near(a, 0.5065, 0.1863, 0.3072, 0.1863, 0.5065, 0.3072, 0.2741, 0.2741, 0.4519, within=5e-5)
    near(z[0], 0.8137, 0.4935, 0.5065, 0.1863, within=5e-5)
    near(z[2], 0.7259, 0.7259, 0.2741, 0.2741, within=5e-5)
    near((z - x).norm(dim=-1), 0.746, 0.746, 0.548)  # the third token moves least
    near(softmax(x @ x.T, -1)[0], 0.6652, 0.0900, 0.2447, within=5e-5)


@pytest.mark.parametrize(
    ("power", "largest", "entropy"),
    [(0.0, 0.791, 0.591), (0.5, 0.0162, 6.438), (1.0, 0.0013, 6.928)],
)
def test_what_the_scale_does_to_1024_keys(power, largest, entropy):
    # facts_004, section 7; errata_004, E34
    q, k = normal(500, 128), normal(1024, 128, seed=1)
    weights = masked_softmax(q @ k.T / 128**power)
    assert weights.amax(-1).mean().item() == pytest.approx(largest, rel=0.05)
    assert torch.special.entr(weights).sum(-1).mean().item() == pytest.approx(entropy, rel=0.06)


# ---- masks


def test_causal_mask_ends_at_the_last_key():
    # errata_004, E40
    assert causal_mask(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal_mask(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert causal_mask(1, 4).all()
    assert causal_mask(3, 1).int().tolist() == [[0], [0], [1]]
    assert causal_mask(2, 3).dtype == torch.bool


@pytest.mark.parametrize(("t", "s"), [(1, 6), (2, 6), (6, 6)])
def test_causal_queries_are_the_last_of_the_full_pass(t, s):
    q, k, v = qkv(2, t=s, s=s)
    full = attention(q, k, v, causal=True)
    assert_close(attention(q[:, -t:], k, v, causal=True), full[:, -t:], rtol=0, atol=1e-12)


def test_torch_aligns_its_causal_mask_to_the_first_key():
    q, k, v = qkv(t=2, s=4)
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(theirs, attention(q, k, v, mask=torch.ones(2, 4, dtype=torch.bool).tril()))
    assert (theirs - attention(q, k, v, causal=True)).abs().max() > 0.1


def test_causal_and_mask_both_hold():
    q, k, v = qkv(t=5, s=5)
    mask = some_mask(5, 5)
    both = attention(q, k, v, mask=mask & causal_mask(5, 5))
    assert_close(attention(q, k, v, mask=mask, causal=True), both)
    assert_close(attention(q, k, v, mask=added(mask), causal=True), both)


@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_a_query_that_may_attend_nowhere_gets_zeros(kind):
    # pytorch/pytorch#41508, #40932, #160064, #27968, #131060; errata_004, E40
    mask = some_mask(4, 4)
    mask[1] = False
    mask = mask if kind == "boolean" else added(mask)
    inputs = [x.requires_grad_() for x in qkv(2)]
    out, weights = attention(*inputs, mask=mask, return_weights=True)
    assert (out[:, 1] == 0).all() and (weights[:, 1] == 0).all()
    assert_close(weights.sum(-1), torch.tensor([1, 0, 1, 1]).double().expand(2, 4))
    assert_close(out, F.scaled_dot_product_attention(*inputs, attn_mask=mask))  # zeros in torch too
    out.backward(normal(2, 4, 8, seed=9))
    assert all(x.grad.isfinite().all() for x in inputs)
    assert (inputs[0].grad[:, 1] == 0).all() and (inputs[0].grad[:, 0] != 0).any()


@pytest.mark.parametrize("mask", [torch.zeros(4, 4, dtype=torch.bool), torch.full((4, 4), -INF)])
def test_when_everything_is_hidden_everything_is_zero(mask):
    inputs = [x.requires_grad_() for x in qkv()]
    out = attention(*inputs, mask=mask)
    out.backward(torch.ones_like(out))
    assert (out == 0).all() and all((x.grad == 0).all() for x in inputs)


def test_early_queries_without_a_key_behind_them_get_zeros():
    q, k, v = qkv(t=4, s=2)
    out = attention(q, k, v, causal=True)
    assert (out[:2] == 0).all()
    assert_close(out[2:], attention(q[2:], k, v, causal=True))


def test_multihead_of_torch_gives_nan_for_a_fully_masked_row_only_with_weights():
    # pytorch/pytorch#41508, allenai/allennlp#890: as torch 2.13 has it
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    x, hidden = normal(1, 3, 8, dtype=torch.float32), torch.zeros(3, 3, dtype=torch.bool)
    hidden[1] = True
    assert theirs(x, x, x, attn_mask=hidden)[0][0].isnan().any(-1).tolist() == [False, True, False]
    assert theirs(x, x, x, attn_mask=hidden, need_weights=False)[0].isfinite().all()


def test_a_float_mask_of_ones_and_zeros_lets_the_future_through():
    # pytorch/pytorch#120668: it is added, so 0 hides nothing, here and in torch
    q, k, v = qkv()
    ones = torch.ones(4, 4, dtype=torch.float64).tril()
    out, weights = attention(q, k, v, mask=ones, return_weights=True)
    assert (weights > 0).all()
    assert_close(out, F.scaled_dot_product_attention(q, k, v, attn_mask=ones))


def test_masked_softmax_is_softmax_wherever_there_is_a_key():
    scores = 50 * normal(6, 9)
    assert_close(masked_softmax(scores), softmax(scores, -1), rtol=0, atol=1e-15)
    scores[2, 3:] = -INF
    agree(masked_softmax, lambda x: softmax(x, -1), scores)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        row = torch.full((2,), -INF, dtype=dtype)
        assert masked_softmax(row).tolist() == [0, 0] and masked_softmax(row).dtype == dtype


def test_a_mask_of_integers_is_refused():
    with pytest.raises(ValueError, match="a mask must be boolean or float, got torch.int64"):
        hide(torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.int64))


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 4, 4), (1, 1, 4, 4)])
def test_a_mask_that_does_not_fit_is_refused(shape):
    q, k, v = qkv(3)
    wanted = rf"a mask must broadcast to \(3, 4, 4\), got {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=wanted):
        attention(q, k, v, mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((4, 8), (4, 7), (4, 8)),  # widths
        ((4, 8), (5, 8), (4, 8)),  # keys and values
        ((2, 4, 8), (3, 4, 8), (3, 4, 8)),  # batches
        ((2, 4, 8), (2, 4, 8), (3, 4, 8)),
        ((8,), (4, 8), (4, 8)),  # axes
        ((4, 8), (8,), (4, 8)),
        ((4, 8), (4, 8), ()),
        ((4, 0), (4, 0), (4, 8)),  # nothing to compare
        ((4, 8), (0, 8), (0, 8)),  # no key
    ],
)
def test_shapes_that_do_not_fit_are_refused(q, k, v):
    wanted = "attention wants q (..., T, d_k), k (..., S, d_k), v (..., S, d_v), S > 0"
    with pytest.raises(ValueError, match=re.escape(f"{wanted}, got [{q}, {k}, {v}]")):
        attention(torch.ones(q), torch.ones(k), torch.ones(v))


# ---- order


def test_without_a_mask_order_is_not_seen():
    # UDL 12_1; facts_004, section 7; errata_004, E39
    x, order = normal(6, 8), torch.tensor([3, 0, 5, 1, 4, 2])
    out = attention(x, x, x)
    assert_close(attention(x[order], x[order], x[order]), out[order], rtol=0, atol=1e-12)
    causal = attention(x, x, x, causal=True)
    permuted = attention(x[order], x[order], x[order], causal=True)
    assert (permuted - causal[order]).abs().max() > 0.5


def test_the_verb_cannot_tell_who_bit_whom_until_order_is_said():
    # numbers.csv S07-073
    dog, bit, man = normal(3, 16).unbind()
    ours, theirs = torch.stack([dog, bit, man]), torch.stack([man, bit, dog])

    def middle(x, **options):
        return attention(x, x, x, **options)[1]

    assert_close(middle(ours), middle(theirs), rtol=0, atol=1e-12)
    assert (middle(ours, causal=True) - middle(theirs, causal=True)).abs().max() > 0.1
    places = sinusoidal(3, 16).double()
    assert (middle(ours + places) - middle(theirs + places)).abs().max() > 0.01
    turned = [rope(x, torch.arange(3)) for x in (ours, theirs)]
    left, right = (attention(t, t, x)[1] for t, x in zip(turned, (ours, theirs), strict=True))
    assert (left - right).abs().max() > 0.01


# ---- heads


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
@pytest.mark.parametrize("n_heads", [1, 2, 3, 12])
def test_split_and_merge_undo_each_other(lead, n_heads):
    x = normal(*lead, 5, 12)
    heads = split_heads(x, n_heads)
    assert heads.shape == (*lead, n_heads, 5, 12 // n_heads)
    width = 12 // n_heads
    for h in range(n_heads):
        assert torch.equal(heads.select(-3, h), x[..., h * width : (h + 1) * width])
    assert torch.equal(merge_heads(heads), x)


@pytest.mark.parametrize("n_heads", [5, 0, -1, 24])
def test_split_refuses_what_does_not_divide(n_heads):
    with pytest.raises(ValueError, match=f"n_heads must divide 12, got {n_heads}"):
        split_heads(torch.ones(2, 3, 12), n_heads)


def test_neighbours_share_a_head():
    x = normal(2, 2, 5, 3)
    shared = share_heads(x, 6)
    assert [torch.equal(shared[:, h], x[:, h // 3]) for h in range(6)] == [True] * 6
    assert share_heads(x, 2) is x


# ---- multi-head attention against torch.nn.MultiheadAttention


def multihead(d_model, n_heads, bias=True, dtype=torch.float64):
    """Torch's layer with random offsets (it starts them at 0), and ours with its weights."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(d_model, n_heads, bias=bias, batch_first=True, dtype=dtype)
    ours = MultiHeadAttention(d_model, n_heads, bias=bias).to(dtype)
    weights = theirs.in_proj_weight.chunk(3)
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    names = ("query", "key", "value")
    state = {f"{name}.weight": part for name, part in zip(names, weights, strict=True)}
    state["out.weight"] = theirs.out_proj.weight
    if bias:
        parts = theirs.in_proj_bias.chunk(3)
        state |= {f"{name}.bias": part for name, part in zip(names, parts, strict=True)}
        state["out.bias"] = theirs.out_proj.bias
    ours.load_state_dict(state)
    return ours, theirs


def stacked_gradients(layer, kind):
    layers = (layer.query, layer.key, layer.value)
    return torch.cat([getattr(part, kind).grad for part in layers])


def same_as_torch(ours, theirs, x, context=None, tolerance=1e-12, mask=None, **hidden):
    """Output, weights of every head, input gradients and all weight gradients."""
    inputs = [x] if context is None else [x, context]
    mine = [t.clone().requires_grad_() for t in inputs]
    yours = [t.clone().requires_grad_() for t in inputs]
    y, weights = ours(
        mine[0], context=None if context is None else mine[1], mask=mask, return_weights=True
    )
    source = yours[-1]
    wanted, correct = theirs(yours[0], source, source, average_attn_weights=False, **hidden)
    upstream = normal(*wanted.shape, seed=11, dtype=wanted.dtype)
    y.backward(upstream)
    wanted.backward(upstream)
    pairs = [
        (y, wanted),
        (weights, correct),
        (stacked_gradients(ours, "weight"), theirs.in_proj_weight.grad),
        (ours.out.weight.grad, theirs.out_proj.weight.grad),
        *((a.grad, b.grad) for a, b in zip(mine, yours, strict=True)),
    ]
    if ours.out.bias is not None:
        pairs.append((stacked_gradients(ours, "bias"), theirs.in_proj_bias.grad))
        pairs.append((ours.out.bias.grad, theirs.out_proj.bias.grad))
    for a, b in pairs:
        assert_close(a, b, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("d_model", "n_heads"), [(8, 1), (8, 2), (12, 3), (6, 6), (1, 1)])
def test_layer_equals_torch(d_model, n_heads, bias):
    # karpathy/minGPT#71: several numbers of heads
    ours, theirs = multihead(d_model, n_heads, bias)
    same_as_torch(ours, theirs, normal(2, 5, d_model))


def test_layer_equals_torch_in_float32():
    ours, theirs = multihead(32, 4, dtype=torch.float32)
    x = normal(3, 10, 32, dtype=torch.float32)
    same_as_torch(ours, theirs, x, tolerance=2e-6)


@pytest.mark.parametrize("s", [1, 4, 9])
def test_cross_attention_equals_torch(s):
    ours, theirs = multihead(8, 2)
    same_as_torch(ours, theirs, normal(2, 5, 8), context=normal(2, s, 8, seed=1))


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_layer_equals_torch_for_any_shape(batch, tokens, n_heads, d_head):
    ours, theirs = multihead(n_heads * d_head, n_heads)
    same_as_torch(ours, theirs, normal(batch, tokens, n_heads * d_head), tolerance=1e-11)


def test_true_means_attend_here_and_hidden_there():
    # rasbt/LLMs-from-scratch#1061, #1062, #1063, pytorch/pytorch#21518, tensorflow/text#894
    ours, theirs = multihead(8, 2)
    x, past = normal(2, 4, 8), causal_mask(4, 4)
    same_as_torch(ours, theirs, x, mask=past, attn_mask=~past)
    q, k, v = qkv()
    assert_close(
        attention(q, k, v, mask=past), F.scaled_dot_product_attention(q, k, v, attn_mask=past)
    )
    future_only = theirs(x, x, x, attn_mask=past)[0]  # hides what should be seen
    assert future_only.isnan().any(-1)[0].tolist() == [False, False, False, True]


def test_causal_layer_equals_torch():
    ours, theirs = multihead(8, 2)
    x, past = normal(2, 6, 8), causal_mask(6, 6)
    wanted, _ = theirs(x, x, x, attn_mask=~past, is_causal=True)
    assert_close(ours(x, causal=True), wanted, rtol=0, atol=1e-12)


def test_padding_is_a_mask_over_keys():
    ours, theirs = multihead(8, 2)
    real = torch.arange(5) < torch.tensor([[5], [3]])
    x = normal(2, 5, 8)
    same_as_torch(ours, theirs, x, mask=real[:, None, :], key_padding_mask=~real)
    alone = ours(x[1:, :3])
    assert_close(ours(x, mask=real[:, None, :])[1:, :3], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_masks_with_two_three_and_four_axes(kind):
    # phlippe/uvadlc_notebooks#67
    layer, x = MultiHeadAttention(8, 2).double(), normal(2, 5, 8)
    per_example = some_mask(2, 5, 5)
    shared = per_example[0]
    if kind == "float":
        per_example, shared = added(per_example), added(shared)
    for mask in (shared, shared[None], shared[None, None]):
        assert_close(layer(x, mask=mask), layer(x, mask=shared.expand(2, 2, 5, 5)))
    wanted = torch.cat([layer(x[b : b + 1], mask=per_example[b]) for b in range(2)])
    assert_close(layer(x, mask=per_example), wanted)  # as many examples as heads: nothing mixed up
    per_head = some_mask(1, 2, 5, 5, seed=8)
    _, weights = layer(x, mask=per_head, return_weights=True)
    assert ((weights > 0) == per_head).all()


@pytest.mark.parametrize(
    ("d_model", "n_heads", "bias", "weights"),
    [
        # discuss.pytorch.org/t/167547, stackoverflow.com/q/66176914, karpathy/nanoGPT#629
        (512, 8, True, 1_050_624),
        (512, 1, True, 1_050_624),
        (512, 8, False, 1_048_576),
        (768, 12, True, 2_362_368),  # BERT-base
        (4096, 32, False, 67_108_864),
        (4096, 4096, False, 67_108_864),
        (4096, 32, True, 67_125_248),
    ],
)
def test_heads_are_free_in_weights(d_model, n_heads, bias, weights):
    # errata_004, E38
    with torch.device("meta"):
        ours = MultiHeadAttention(d_model, n_heads, bias=bias)
        theirs = nn.MultiheadAttention(d_model, n_heads, bias=bias)
    assert count(ours).total == weights == sum(p.numel() for p in theirs.parameters())
    assert attention_params(d_model, n_heads, bias=bias) == weights


def test_shapes_are_what_the_docstring_says():
    # labmlai/annotated_deep_learning_paper_implementations#216
    layer = MultiHeadAttention(12, 6, n_kv_heads=2)
    x, context = torch.ones(3, 4, 12), torch.ones(3, 5, 12)
    y, weights = layer(x, context=context, return_weights=True)
    assert y.shape == (3, 4, 12) and weights.shape == (3, 6, 4, 5)
    assert layer.key.weight.shape == layer.value.weight.shape == (4, 12)
    assert list(layer.state_dict()) == [
        f"{name}.{kind}" for name in ("query", "key", "value", "out") for kind in ("weight", "bias")
    ]
    assert layer(torch.ones(3, 0, 12), context=context).shape == (3, 0, 12)


def test_a_head_is_a_low_rank_bilinear_form():
    # facts_000_003, section 5
    layer = MultiHeadAttention(16, 4, bias=False).double()
    x = normal(1, 6, 16)
    _, weights = layer(x, return_weights=True)
    w_q, w_k = layer.query.weight[:4], layer.key.weight[:4]
    form = w_q.T @ w_k
    assert torch.linalg.matrix_rank(form) == 4
    assert_close(weights[0, 0], softmax(x[0] @ form @ x[0].T / 2, -1), rtol=0, atol=1e-12)


def test_an_output_of_a_head_lies_in_the_hull_of_the_values():
    # errata_000_003, 35
    q, k, v = qkv(t=50, s=4, d_v=3)
    out, weights = attention(10 * q, k, v, return_weights=True)
    assert (weights >= 0).all()
    assert (out <= v.amax(0) + 1e-12).all() and (out >= v.amin(0) - 1e-12).all()


# ---- fewer heads of keys and values


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(4, 1), (4, 2), (6, 3), (6, 2), (4, 4)])
def test_grouped_heads_equal_full_heads_with_repeated_weights(n_heads, n_kv_heads):
    torch.manual_seed(0)
    d_head, group = 2, n_heads // n_kv_heads
    grouped = MultiHeadAttention(n_heads * d_head, n_heads, n_kv_heads=n_kv_heads).double()
    full = MultiHeadAttention(n_heads * d_head, n_heads).double()
    state = grouped.state_dict()
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        heads = state[name].unflatten(0, (n_kv_heads, d_head))
        state[name] = heads.repeat_interleave(group, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    agree(
        lambda x: grouped(x, causal=True),
        lambda x: full(x, causal=True),
        normal(2, 5, n_heads * d_head),
        params=[(grouped.query.weight, full.query.weight), (grouped.out.bias, full.out.bias)],
    )
    grouped(normal(2, 5, n_heads * d_head)).backward(normal(2, 5, n_heads * d_head, seed=1))
    full(normal(2, 5, n_heads * d_head)).backward(normal(2, 5, n_heads * d_head, seed=1))
    parts = full.key.weight.grad.unflatten(0, (n_kv_heads, group, d_head)).sum(1).flatten(0, 1)
    assert_close(grouped.key.weight.grad, parts, rtol=0, atol=1e-11)


def test_grouped_heads_equal_torch():
    layer, x = MultiHeadAttention(24, 6, n_kv_heads=2).double(), normal(2, 5, 24)
    q, k, v = (
        split_heads(part(x), heads)
        for part, heads in [(layer.query, 6), (layer.key, 2), (layer.value, 2)]
    )
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert_close(layer(x, causal=True), layer.out(merge_heads(theirs)), rtol=0, atol=1e-12)


def test_grouped_heads_count():
    # meta-llama/llama#1111; facts_004, section 15: 2.5 d² with 8 heads of keys for 32
    with torch.device("meta"):
        layer = MultiHeadAttention(4096, 32, n_kv_heads=8, bias=False)
    assert count(layer).total == attention_params(4096, 32, n_kv_heads=8, bias=False) == 41_943_040


# ---- cache


@pytest.mark.parametrize("chunks", [[1] * 7, [3, 4], [1, 5, 1], [7], [2, 1, 1, 3]])
@pytest.mark.parametrize(
    "options", [{}, {"n_kv_heads": 1}, {"n_kv_heads": 2, "rope": "halves"}, {"rope": "pairs"}]
)
def test_reading_in_pieces_with_a_cache_equals_reading_at_once(chunks, options):
    # errata_004, E40: the mask must end at the last key
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(16, 4, **options).double(), normal(2, 7, 16)
    cache, pieces = KVCache(), []
    for piece in x.split(chunks, dim=1):
        pieces.append(layer(piece, causal=True, cache=cache))
    assert_close(torch.cat(pieces, dim=1), layer(x, causal=True), rtol=0, atol=1e-12)
    n_kv_heads = options.get("n_kv_heads", 4)
    assert cache.length == 7
    assert cache.keys.shape == cache.values.shape == (2, n_kv_heads, 7, 4)


def test_one_new_token_needs_no_causal_mask():
    layer, x = MultiHeadAttention(8, 2).double(), normal(1, 5, 8)
    cache = KVCache()
    layer(x[:, :4], causal=True, cache=cache)
    assert_close(layer(x[:, 4:], cache=cache), layer(x, causal=True)[:, 4:])


def test_a_mask_covers_the_cached_keys_as_well():
    layer, x = MultiHeadAttention(8, 2).double(), normal(2, 6, 8)
    real = torch.arange(6) >= torch.tensor([[0], [2]])  # the second example is padded on the left
    cache = KVCache()
    layer(x[:, :4], causal=True, cache=cache, mask=real[:, None, :4])
    last = layer(x[:, 4:], causal=True, cache=cache, mask=real[:, None, :])
    assert_close(last, layer(x, causal=True, mask=real[:, None, :])[:, 4:])


def test_cache_starts_empty_and_appends():
    cache = KVCache()
    assert cache.length == 0 and cache.keys is None
    k, v = normal(2, 3, 4, 5), normal(2, 3, 4, 5, seed=1)
    cache.append(k[..., :1, :], v[..., :1, :])
    keys, values = cache.append(k[..., 1:, :], v[..., 1:, :])
    assert torch.equal(keys, k) and torch.equal(values, v) and cache.length == 4
    assert cache.keys is keys and cache.values is values


@pytest.mark.parametrize("shape", [(1, 3, 1, 5), (2, 2, 1, 5), (2, 3, 1, 4), (4, 3, 1, 5)])
def test_cache_refuses_another_batch_heads_or_width_and_loses_nothing(shape):
    cache = KVCache()
    k, _ = cache.append(normal(2, 3, 4, 5), normal(2, 3, 4, 5, seed=1))
    wanted = rf"KVCache holds \(2, 3, T, 5\), got {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=wanted):
        cache.append(normal(*shape), normal(*shape))
    assert cache.keys is k and cache.length == 4


@pytest.mark.parametrize(
    ("k", "v"), [((2, 3, 1, 5), (2, 3, 2, 5)), ((2, 3, 1, 5), (2, 1, 5)), ((3, 1, 5), (3, 1, 5))]
)
def test_cache_refuses_keys_and_values_that_do_not_match(k, v):
    cache = KVCache()
    given = re.escape(f"{k} and {v}")
    with pytest.raises(ValueError, match=rf"KVCache wants two \(B, h, T, d\), got {given}"):
        cache.append(normal(*k), normal(*v))
    assert cache.length == 0


def test_a_refused_call_leaves_the_cache_as_it_was():
    layer, x = MultiHeadAttention(8, 2).double(), normal(2, 3, 8)
    cache = KVCache()
    layer(x, causal=True, cache=cache)
    before = cache.keys
    for bad_mask in (torch.ones(3, 4, dtype=torch.bool), torch.ones(3, 6, dtype=torch.int64)):
        with pytest.raises(ValueError, match="a mask must"):
            layer(x, cache=cache, mask=bad_mask)
    with pytest.raises(ValueError, match=r"KVCache holds \(2, 2, T, 4\)"):
        layer(x[:1], cache=cache)
    assert cache.keys is before and cache.length == 3


# ---- positions


@pytest.mark.parametrize("layout", ["halves", "pairs"])
def test_rope_in_the_layer_turns_queries_and_keys(layout):
    layer, x = MultiHeadAttention(16, 2, rope=layout, rope_base=500.0).double(), normal(2, 5, 16)
    places = torch.tensor([3, 4, 9, 10, 40])
    q, k, v = (split_heads(part(x), 2) for part in (layer.query, layer.key, layer.value))
    q, k = (rope(t, places, base=500.0, layout=layout) for t in (q, k))
    wanted = layer.out(merge_heads(F.scaled_dot_product_attention(q, k, v)))
    assert_close(layer(x, positions=places), wanted, rtol=0, atol=1e-12)


def test_positions_count_from_zero_and_may_differ_between_examples():
    layer, x = MultiHeadAttention(8, 2, rope="halves").double(), normal(2, 4, 8)
    assert_close(layer(x), layer(x, positions=torch.arange(4)), rtol=0, atol=0)
    assert_close(layer(x), layer(x, positions=torch.arange(4) + 100), rtol=0, atol=1e-12)
    places = torch.tensor([[0, 1, 2, 3], [0, 5, 6, 9]])
    each = torch.cat([layer(x[b : b + 1], positions=places[b]) for b in range(2)])
    assert_close(layer(x, positions=places), each)
    assert (each[1] - layer(x)[1]).abs().max() > 1e-4


def test_with_rope_order_is_seen():
    layer, x = MultiHeadAttention(8, 2, rope="halves").double(), normal(1, 4, 8)
    order = torch.tensor([2, 0, 3, 1])
    assert (layer(x[:, order]) - layer(x)[:, order]).abs().max() > 1e-3


@pytest.mark.parametrize("given", [(3,), (2, 3), (3, 4)])
def test_positions_that_do_not_fit_are_refused(given):
    layer = MultiHeadAttention(8, 2, rope="halves")
    with pytest.raises(ValueError, match=r"rope wants positions \(2, 2, 4\), got"):
        layer(torch.ones(2, 4, 8), positions=torch.zeros(given, dtype=torch.int64))


# ---- dropout


def test_dropout_acts_on_the_weights_in_training_only():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2, dropout=0.5).double(), normal(2, 9, 8)
    plain = MultiHeadAttention(8, 2).double()
    plain.load_state_dict(layer.state_dict())
    y, weights = layer(x, return_weights=True)
    # errata_000_003, 53: what is returned is the distribution, not what is left of it
    assert_close(weights.sum(-1), torch.ones(2, 2, 9).double())
    assert (y - plain(x)).abs().max() > 0.01
    assert_close(layer.eval()(x), plain(x), rtol=0, atol=0)


def test_with_every_weight_dropped_only_the_offset_is_left():
    layer = MultiHeadAttention(8, 2, dropout=1.0)
    y = layer(normal(1, 3, 8, dtype=torch.float32))
    assert_close(y, layer.out.bias.expand(1, 3, 8))


def test_drop_is_any_function_of_the_weights():
    q, k, v = qkv()
    out, weights = attention(q, k, v, drop=lambda w: w.tril(), return_weights=True)
    assert_close(out, weights.tril() @ v)
    assert_close(weights, attention(q, k, v, return_weights=True)[1])


# ---- refusals, devices


@pytest.mark.parametrize(
    ("d_model", "n_heads"), [(12, 5), (770, 12), (12, 0), (12, -2), (0, 1), (4, 8)]
)
def test_refuses_heads_that_do_not_divide(d_model, n_heads):
    # errata_000_003, 54
    with pytest.raises(
        ValueError, match=f"n_heads must divide d_model, got {n_heads} and {d_model}"
    ):
        MultiHeadAttention(d_model, n_heads)


@pytest.mark.parametrize("n_kv_heads", [3, 0, -1, 8])
def test_refuses_key_heads_that_do_not_divide(n_kv_heads):
    with pytest.raises(ValueError, match=f"n_kv_heads must divide n_heads, got {n_kv_heads} and 4"):
        MultiHeadAttention(8, 4, n_kv_heads=n_kv_heads)


def test_refuses_a_rope_it_does_not_know_or_that_has_no_pairs():
    with pytest.raises(ValueError, match="rope wants 'halves' or 'pairs', got 'interleaved'"):
        MultiHeadAttention(8, 2, rope="interleaved")
    with pytest.raises(ValueError, match="rope wants an even d_head, got 3"):
        MultiHeadAttention(6, 2, rope="pairs")


def test_refuses_a_dropout_that_is_no_probability():
    with pytest.raises(ValueError, match="dropout wants p from 0 to 1, got 1.5"):
        MultiHeadAttention(8, 2, dropout=1.5)


def test_refuses_what_does_not_go_together():
    x = torch.ones(1, 3, 8)
    with pytest.raises(ValueError, match="context wants neither a cache nor rope"):
        MultiHeadAttention(8, 2)(x, context=x, cache=KVCache())
    with pytest.raises(ValueError, match="context wants neither a cache nor rope"):
        MultiHeadAttention(8, 2, rope="pairs")(x, context=x)
    with pytest.raises(ValueError, match="positions want a layer made with rope"):
        MultiHeadAttention(8, 2)(x, positions=torch.arange(3))


@pytest.mark.parametrize("which", ["x", "context"])
def test_refuses_another_width(which):
    inputs = {"x": torch.ones(2, 3, 8), "context": torch.ones(2, 3, 8)}
    inputs[which] = torch.ones(2, 3, 7)
    with pytest.raises(ValueError, match=r"linear wants x \(\.\.\., 8\), got \(2, 3, 7\)"):
        MultiHeadAttention(8, 2)(inputs["x"], context=inputs["context"])


def test_works_on_another_device():
    # errata_004, E40: a mask made on the CPU would clash with inputs elsewhere
    with torch.device("meta"):
        layer = MultiHeadAttention(8, 4, n_kv_heads=2, rope="halves", dropout=0.1)
    x = torch.ones(2, 5, 8, device="meta")
    cache = KVCache()
    mask = torch.ones(2, 5, 5, dtype=torch.bool, device="meta")
    y, weights = layer(x, mask=mask, causal=True, cache=cache, return_weights=True)
    assert y.shape == (2, 5, 8) and weights.shape == (2, 4, 5, 5)
    assert layer(x[:, :1], causal=True, cache=cache).device.type == "meta"
    assert cache.length == 6
    assert causal_mask(2, 3, "meta").device.type == "meta"


def test_says_how_many_heads():
    assert repr(MultiHeadAttention(8, 4, n_kv_heads=2)).startswith(
        "MultiHeadAttention(\n  n_heads=4, n_kv_heads=2\n  (query): Linear(8, 8, bias=True)"
    )
