"""Embedding: ids carry no geometry, so give each a row that training moves.

Token 4,021 is no nearer to 4,022 than to 7. Feeding ids as numbers would
say otherwise; a table with a free row for each says nothing.
"""

import torch
from torch import Tensor, nn

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """Fetch from a table the row of each id.

    ``y = onehot(ids) W``, which is row ``ids`` of ``W``

    Args:
        ids: whole numbers from 0 up to the number of rows.
        weight: the table W, one row for each id.

    Shape:
        ids (...), weight (num, dim) → (..., dim)

    Raises:
        ValueError: ids are not integers, or one of them has no row.

    Example:
        >>> table = torch.tensor([[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]])
        >>> embedding(torch.tensor([2, 0]), table)
        tensor([[2.0000, 2.1000],
                [0.0000, 0.1000]])
    """
    if ids.dtype not in INTEGERS:
        raise ValueError(f"embedding wants integer ids, got {ids.dtype}")
    known = ids.numel() > 0 and ids.device.type != "meta"
    if known and (ids.min() < 0 or ids.max() >= len(weight)):
        raise ValueError(
            f"embedding wants ids from 0 to {len(weight) - 1}, "
            f"got ids from {int(ids.min())} to {int(ids.max())}"
        )
    return weight[ids.long()]  # torch takes uint8 ids for a mask


class Embedding(nn.Module):
    """Give every id of a vocabulary a vector of its own.

    ``y = onehot(ids) W``, which is row ``ids`` of ``W``

    The table starts with independent N(0, 1) entries: no two ids are alike
    until training says so.

    Args:
        num_embeddings: ids there are; they run from 0 to one below this.
        embedding_dim: width of each vector.

    Shape:
        ids (...) → (..., embedding_dim)

    Weights:
        ``num_embeddings · embedding_dim``

    Cost:
        ``0`` FLOPs per position: the one-hot product is done as a look-up.

    Raises:
        ValueError: a size is below 1; ids are not integers, or one of them
            has no row. A negative id does not count from the end.

    Differs from:
        ``torch.nn.Embedding``: no padding row, no norm limit, no sparse
        gradients; a bad id is a ValueError rather than an IndexError.
        Vaswani et al. (2017, section 3.4) multiply the rows by √d; this
        does not, and neither do BERT and GPT-2.

    Source:
        Bengio, Ducharme, Vincent and Jauvin (2003), A Neural Probabilistic
        Language Model, section 2.

    Example:
        >>> Embedding(1000, 16)(torch.tensor([[4, 8, 15]])).shape
        torch.Size([1, 3, 16])
    """

    def __init__(self, num_embeddings: int, embedding_dim: int):
        if num_embeddings < 1 or embedding_dim < 1:
            given = f"{num_embeddings} and {embedding_dim}"
            raise ValueError(f"Embedding wants sizes ≥ 1, got {given}")
        super().__init__()
        table = torch.randn(num_embeddings, embedding_dim)
        self.weight = nn.Parameter(table)

    def forward(self, ids: Tensor) -> Tensor:
        return embedding(ids, self.weight)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)
