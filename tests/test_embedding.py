"""lumen.embedding against torch.nn.Embedding and against the product it stands for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.count import count, embedding_params
from lumen.dense import linear
from lumen.embedding import Embedding, embedding
from tests.oracle import normal


@settings(max_examples=20)
@given(st.integers(1, 12), st.integers(1, 5), st.lists(st.integers(0, 3), max_size=3))
def test_equals_torch_for_any_shape(rows, width, shape):
    theirs = nn.Embedding(rows, width, dtype=torch.float64)
    ours = Embedding(rows, width).double()
    ours.load_state_dict(theirs.state_dict())
    ids = torch.randint(rows, shape)
    y, wanted = ours(ids), theirs(ids)
    assert torch.equal(y, wanted)
    upstream = normal(*wanted.shape, seed=1)
    y.backward(upstream)
    wanted.backward(upstream)
    assert_close(ours.weight.grad, theirs.weight.grad, rtol=0, atol=1e-12)


def test_is_a_product_with_one_hot_rows():
    ids, table = torch.tensor([[3, 0, 3]]), normal(5, 4)
    one_hot = nn.functional.one_hot(ids, 5).double()
    assert torch.equal(embedding(ids, table), linear(one_hot, table.T))


def test_a_row_used_twice_gets_both_gradients_and_an_unused_one_none():
    layer = Embedding(4, 2)
    layer(torch.tensor([1, 1, 2])).backward(torch.tensor([[1.0, 2], [10, 20], [5, 5]]))
    assert layer.weight.grad.tolist() == [[0, 0], [11, 22], [5, 5], [0, 0]]


def test_starts_where_torch_starts():
    torch.manual_seed(3)
    ours = Embedding(30, 7)
    torch.manual_seed(3)
    assert torch.equal(ours.weight, nn.Embedding(30, 7).weight)


def test_hands_the_row_on_as_it_is():
    # pytorch/tutorials#2849, SamLynnEvans/Transformer#10, google/gemma_pytorch#29: the paper and
    # Gemma multiply by √d, this does not
    layer = Embedding(3, 4)
    assert torch.equal(layer(torch.tensor(2)), layer.weight[2])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_takes_every_integer_type(dtype):
    # A uint8 index means a mask to torch; two ids would then select nothing like two rows.
    table = torch.arange(6.0).reshape(3, 2)
    assert embedding(torch.tensor([2, 0], dtype=dtype), table).tolist() == [[4, 5], [0, 1]]


def test_count():
    # facts_004, section 12
    assert embedding_params(128_000, 4096) == 524_288_000
    assert count(Embedding(30, 7)).total == embedding_params(30, 7) == 210


@pytest.mark.parametrize("ids", [[1.0, 2.0], [True, False]])
def test_refuses_ids_that_are_not_integers(ids):
    ids = torch.tensor(ids)
    with pytest.raises(ValueError, match=f"embedding wants integer ids, got {ids.dtype}"):
        Embedding(4, 2)(ids)


@pytest.mark.parametrize(
    ("ids", "span"), [([0, 4], "0 to 4"), ([-1, 2], "-1 to 2"), ([9], "9 to 9")]
)
def test_refuses_ids_without_a_row(ids, span):
    with pytest.raises(ValueError, match=f"wants ids from 0 to 3, got ids from {span}"):
        Embedding(4, 2)(torch.tensor(ids))


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (-2, 3)])
def test_refuses_sizes_below_one(sizes):
    with pytest.raises(
        ValueError, match=f"Embedding wants sizes ≥ 1, got {sizes[0]} and {sizes[1]}"
    ):
        Embedding(*sizes)


def test_works_on_another_device():
    with torch.device("meta"):
        assert Embedding(4, 3)(torch.zeros(2, 5, dtype=torch.int64)).shape == (2, 5, 3)


def test_says_what_it_is():
    assert repr(Embedding(4, 3)) == "Embedding(4, 3)"
