"""lumen.position against slow formulas, complex numbers, and the properties each way promises."""

import cmath
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.attention import split_heads
from lumen.count import count, embedding_params
from lumen.dense import linear
from lumen.position import LearnedPositions, halves_to_pairs, pairs_to_halves, rope, sinusoidal
from tests.oracle import normal

ROTATIONS = ["halves", "pairs"]


def waves(n, d):
    """The table entry by entry, from the formula of the paper."""
    table = torch.empty(n, d)
    for t in range(n):
        for column in range(d):
            angle = t / 10000 ** (2 * (column // 2) / d)
            table[t, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 2), (5, 6), (4, 5), (3, 1), (50, 16), (0, 4)])
def test_sinusoidal_equals_the_formula_also_at_odd_widths(n, d):
    assert_close(sinusoidal(n, d), waves(n, d))


def test_sinusoidal_is_exact_far_out():
    # With frequencies in float32 the angles would be off by more than 1e-3 here.
    row = sinusoidal(8192, 64)[8191]
    angles = [8191 / 10000 ** (2 * i / 64) for i in range(32)]
    wanted = [f(angle) for angle in angles for f in (math.sin, math.cos)]
    assert row.tolist() == pytest.approx(wanted, abs=1e-7)


def test_columns_of_a_pair_share_a_frequency():
    # SamLynnEvans/Transformer#25, jadore801120/attention-is-all-you-need-pytorch#32,
    # Kyubyong/transformer#38, shenweichen/DeepCTR#379, maxjcohen/transformer#62: products then
    # depend on distance alone, P Pᵀ is a Toeplitz matrix
    table = sinusoidal(64, 32).double()
    gram = table @ table.T
    assert (gram[1:, 1:] - gram[:-1, :-1]).abs().max() < 1e-5
    column = torch.arange(32)
    angle = torch.arange(64.0)[:, None] / 10000 ** (2 * column / 32)  # the column for the pair
    wrong = torch.where(column % 2 == 0, angle.sin(), angle.cos()).double()
    gram = wrong @ wrong.T
    assert (gram[1:, 1:] - gram[:-1, :-1]).abs().max() > 0.5
    assert (wrong - table).abs().max() > 1.9


def test_a_step_is_one_rotation_everywhere():
    table = sinusoidal(100, 8).double().unflatten(-1, (4, 2))
    sine, cosine = table.unbind(-1)
    turned = torch.complex(cosine, sine)
    step = turned[7] / turned[0]
    assert_close(turned[:-7] * step, turned[7:], rtol=0, atol=1e-6)


def test_sines_first_is_the_same_up_to_the_order_of_columns():
    # tensorflow/text#1122
    table = sinusoidal(9, 6)
    apart = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    assert_close(apart @ apart.T, table @ table.T)
    assert not torch.equal(apart, table)


def test_sinusoidal_takes_another_base_and_the_default_dtype():
    assert sinusoidal(5, 4, base=1.0)[3].tolist() == pytest.approx([math.sin(3), math.cos(3)] * 2)
    torch.set_default_dtype(torch.float64)
    try:
        assert sinusoidal(2, 2).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("n", "d"), [(-1, 4), (4, 0), (4, -2)])
def test_sinusoidal_refuses_sizes_without_sense(n, d):
    with pytest.raises(ValueError, match=f"sinusoidal wants n ≥ 0 and d ≥ 1, got n={n}, d={d}"):
        sinusoidal(n, d)


def test_learned_positions_are_an_embedding_of_places():
    theirs = nn.Embedding(10, 4)
    ours = LearnedPositions(10, 4)
    ours.load_state_dict(theirs.state_dict())
    places = torch.tensor([[0, 1, 2], [7, 8, 9]])
    assert torch.equal(ours(places), theirs(places))
    upstream = normal(2, 3, 4, dtype=torch.float32)
    ours(places).backward(upstream)
    theirs(places).backward(upstream)
    assert torch.equal(ours.weight.grad, theirs.weight.grad)
    assert count(ours).total == embedding_params(10, 4)
    assert repr(ours) == "LearnedPositions(10, 4)"
    assert LearnedPositions(1, 1)(torch.tensor([0])).shape == (1, 1)


def test_learned_positions_end():
    with pytest.raises(ValueError, match="wants ids from 0 to 511, got ids from 0 to 512"):
        LearnedPositions(512, 4)(torch.arange(513))


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (-1, 4)])
def test_learned_positions_refuse_sizes_below_one(sizes):
    with pytest.raises(
        ValueError, match=f"positions want sizes ≥ 1, got {sizes[0]} and {sizes[1]}"
    ):
        LearnedPositions(*sizes)


def turned_by_hand(x, positions, layout, base=10000.0):
    """Each pair as one complex number, multiplied by e^(iθ)."""
    out, d = x.clone(), x.shape[-1]
    for t, position in enumerate(positions):
        for i in range(d // 2):
            a, b = (i, i + d // 2) if layout == "halves" else (2 * i, 2 * i + 1)
            z = complex(x[t, a], x[t, b]) * cmath.exp(1j * position / base ** (2 * i / d))
            out[t, a], out[t, b] = z.real, z.imag
    return out


@settings(max_examples=20)
@given(st.lists(st.integers(0, 300), max_size=4), st.integers(1, 4), st.sampled_from(ROTATIONS))
def test_rope_equals_a_complex_product(positions, pairs, layout):
    x = normal(len(positions), 2 * pairs)
    turned = rope(x, torch.tensor(positions, dtype=torch.int64), layout=layout, base=50.0)
    assert_close(turned, turned_by_hand(x, positions, layout, base=50.0), rtol=0, atol=1e-11)
    turned = rope(x, torch.tensor(positions, dtype=torch.int64), layout=layout)
    assert_close(turned, turned_by_hand(x, positions, layout), rtol=0, atol=1e-11)


@pytest.mark.parametrize("layout", ROTATIONS)
def test_rope_scores_depend_on_the_offset_only(layout):
    # numbers.csv S07-074: positions (5, 2) + {0, 100, 5000}
    q, k = normal(1, 64), normal(1, 64, seed=1)
    scores = [
        (
            rope(q, torch.tensor([5 + s]), layout=layout)
            * rope(k, torch.tensor([2 + s]), layout=layout)
        ).sum()
        for s in (0, 100, 5000)
    ]
    assert_close(scores[0], scores[1], rtol=0, atol=1e-9)
    assert_close(scores[0], scores[2], rtol=0, atol=1e-9)
    other = (
        rope(q, torch.tensor([6]), layout=layout) * rope(k, torch.tensor([2]), layout=layout)
    ).sum()
    assert (scores[0] - other).abs() > 0.1


@pytest.mark.parametrize("layout", ROTATIONS)
def test_rope_keeps_lengths_and_leaves_position_zero(layout):
    x = normal(2, 3, 5, 8)
    turned = rope(x, torch.arange(5), layout=layout)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=0, atol=1e-12)
    assert torch.equal(turned[..., 0, :], x[..., 0, :])


@pytest.mark.parametrize("layout", ROTATIONS)
def test_rope_gradient_turns_back(layout):
    x = normal(5, 8).requires_grad_()
    upstream = normal(5, 8, seed=1)
    rope(x, torch.arange(5), layout=layout).backward(upstream)
    assert_close(x.grad, rope(upstream, -torch.arange(5), layout=layout), rtol=0, atol=1e-12)


def test_the_layouts_agree_once_the_coordinates_are_reordered():
    # rasbt/LLMs-from-scratch#746, #747, #750, #838, huggingface/transformers#25199, #40462,
    # naklecha/llama3-from-scratch#20
    q, k, places = normal(6, 8), normal(6, 8, seed=1), torch.arange(6)
    turned = rope(pairs_to_halves(q), places, layout="halves")
    assert_close(turned, pairs_to_halves(rope(q, places, layout="pairs")), rtol=0, atol=1e-12)

    def scores(q, k, layout):
        return rope(q, places, layout=layout) @ rope(k, places, layout=layout).T

    pairs = scores(q, k, "pairs")
    assert_close(
        scores(pairs_to_halves(q), pairs_to_halves(k), "halves"), pairs, rtol=0, atol=1e-12
    )
    assert (scores(q, k, "halves") - pairs).abs().max() > 0.1


def test_weights_move_between_the_layouts_head_by_head():
    # Meta's checkpoints hold pairs, Hugging Face's halves: the rows of each head are reordered
    x, places, n_heads = normal(5, 12), torch.arange(5), 3
    weight, bias = normal(12, 12, seed=1), normal(12, seed=2)
    moved_weight = pairs_to_halves(weight.unflatten(0, (n_heads, -1)), 1).flatten(0, 1)
    moved_bias = pairs_to_halves(bias.unflatten(0, (n_heads, -1)), 1).flatten(0, 1)
    meta = rope(split_heads(linear(x, weight, bias), n_heads), places, layout="pairs")
    face = rope(split_heads(linear(x, moved_weight, moved_bias), n_heads), places, layout="halves")
    assert_close(pairs_to_halves(meta), face, rtol=0, atol=1e-12)
    assert_close(meta @ meta.mT, face @ face.mT, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_the_reorderings_undo_each_other_along_any_axis(dim):
    x = normal(4, 6, 8)
    halves = pairs_to_halves(x, dim)
    assert torch.equal(halves_to_pairs(halves, dim), x)
    size = x.shape[dim]
    order = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])  # evens, then odds
    assert torch.equal(halves, x.index_select(dim, order))
    assert torch.equal(pairs_to_halves(x), pairs_to_halves(x, -1))
    assert torch.equal(halves_to_pairs(x), halves_to_pairs(x, -1))


@pytest.mark.parametrize("positions", [torch.arange(3), torch.arange(6).reshape(2, 1, 3)])
def test_rope_positions_may_differ_between_examples(positions):
    x = normal(2, 4, 3, 6)
    turned = rope(x, positions)
    every = positions.expand(2, 4, 3)
    for b in range(2):
        for h in range(4):
            assert_close(turned[b, h], rope(x[b, h], every[b, h]), rtol=0, atol=0)


def test_rope_keeps_the_dtype():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert rope(torch.ones(2, 4, dtype=dtype), torch.arange(2)).dtype == dtype
    # Angles are never computed in half precision: 4,097 is not a number of float16.
    turned = rope(torch.tensor([[1.0, 0.0]], dtype=torch.float16), torch.tensor([4097]))
    assert turned[0].tolist() == pytest.approx([math.cos(4097), math.sin(4097)], abs=1e-3)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 1), (4,), ()])
def test_rope_refuses_an_odd_width(shape):
    with pytest.raises(
        ValueError, match=rf"rope wants x \(\.\.\., T, even d\), got {re.escape(str(shape))}"
    ):
        rope(torch.ones(shape), torch.arange(3))


def test_rope_refuses_another_layout():
    with pytest.raises(ValueError, match="rope wants 'halves' or 'pairs', got 'interleaved'"):
        rope(torch.ones(3, 4), torch.arange(3), layout="interleaved")


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 1, 3)])
def test_rope_refuses_positions_that_do_not_fit(shape):
    wanted = rf"rope wants positions \(3,\), got {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=wanted):
        rope(torch.ones(3, 4), torch.ones(shape, dtype=torch.int64))


@pytest.mark.parametrize("reorder", [pairs_to_halves, halves_to_pairs])
def test_reordering_refuses_an_odd_axis(reorder):
    with pytest.raises(ValueError, match=r"pairs want an even dim 1, got \(4, 3\)"):
        reorder(torch.ones(4, 3), 1)


def test_works_on_another_device():
    x = torch.ones(2, 4, device="meta")
    places = torch.arange(2, device="meta")
    assert rope(x, places).device.type == rope(x, places, layout="pairs").device.type == "meta"
    with torch.device("meta"):
        assert LearnedPositions(5, 4)(places).shape == (2, 4)
