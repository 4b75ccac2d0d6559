"""What one layer costs: weights and FLOPs, as closed formulas.

A FLOP is one multiply or one add, so the product of an (n, k) and a (k, m)
matrix costs 2 n k m.
"""

from lumen.count.whole import whole


def linear_params(n_in: int, n_out: int, bias: bool = True) -> int:
    """Count the weights of a dense layer.

    ``n_in · n_out + n_out``

    Example:
        >>> linear_params(784, 100)
        78500
    """
    n_in, n_out = whole(n_in=n_in, n_out=n_out)
    return n_in * n_out + (n_out if bias else 0)


def linear_flops(n_in: int, n_out: int) -> int:
    """Count the FLOPs of a dense layer at one position.

    ``2 · n_in · n_out``

    An offset adds nothing: n products and an offset make n adds.

    Example:
        >>> linear_flops(784, 100)
        156800
    """
    n_in, n_out = whole(n_in=n_in, n_out=n_out)
    return 2 * n_in * n_out


def embedding_params(n_rows: int, d: int) -> int:
    """Count the weights of a table with a row for each id or position.

    ``n_rows · d``

    Example:
        >>> embedding_params(128_000, 4096)
        524288000
    """
    n_rows, d = whole(n_rows=n_rows, d=d)
    return n_rows * d


def norm_params(d: int, *, rms: bool = False) -> int:
    """Count the weights of a LayerNorm or BatchNorm, or of an RMSNorm.

    ``2 · d``, or ``d``

    Example:
        >>> norm_params(768), norm_params(768, rms=True)
        (1536, 768)
    """
    (d,) = whole(d=d)
    return d if rms else 2 * d


def norm_flops(d: int, *, rms: bool = False) -> int:
    """Count the FLOPs of a LayerNorm, or of an RMSNorm, at one position.

    ``7 · d``, or ``4 · d``

    Example:
        >>> norm_flops(768), norm_flops(768, rms=True)
        (5376, 3072)
    """
    (d,) = whole(d=d)
    return 4 * d if rms else 7 * d


def batch_norm_flops(d: int, *, training: bool = True) -> int:
    """Count the FLOPs of a BatchNorm of d channels at one position.

    ``6 · d``, or ``3 · d`` in eval, where the statistics are constants

    Example:
        >>> batch_norm_flops(64), batch_norm_flops(64, training=False)
        (384, 192)
    """
    (d,) = whole(d=d)
    return 6 * d if training else 3 * d


RECURRENT = {"rnn": 1, "gru": 3, "lstm": 4}  # products with the state


def recurrent_params(
    kind: str,
    input_size: int,
    hidden_size: int,
    layers: int = 1,
    directions: int = 1,
    *,
    biases: int = 2,
) -> int:
    """Count the weights of an RNN, an LSTM or a GRU.

    ``k · H · (D + H + biases)``, k = 1, 4 or 3, for each layer and direction

    A layer above the first reads directions · H numbers instead of D.
    torch keeps two offsets for each product, textbooks one.

    Example:
        >>> recurrent_params("lstm", 512, 512)
        2101248
        >>> recurrent_params("lstm", 512, 512, biases=1)
        2099200
    """
    sizes = input_size, hidden_size, layers, directions
    rows, pairs = _recurrent(kind, *sizes)
    (biases,) = whole(biases=biases, least=0)
    if biases > 2:
        raise ValueError(f"biases wants 0, 1 or 2, got {biases}")
    return sum(rows * (n_in + n_h + biases) for n_in, n_h in pairs)


def recurrent_flops(
    kind: str,
    input_size: int,
    hidden_size: int,
    layers: int = 1,
    directions: int = 1,
) -> int:
    """Count the FLOPs of an RNN, an LSTM or a GRU at one position.

    ``2 · k · H · (D + H)``, for each layer and direction

    What the gates do to single numbers, some 10 H, is left out.

    Example:
        >>> recurrent_flops("lstm", 512, 512)
        4194304
    """
    sizes = input_size, hidden_size, layers, directions
    rows, pairs = _recurrent(kind, *sizes)
    return sum(2 * rows * (n_in + n_h) for n_in, n_h in pairs)


def _recurrent(
    kind: str,
    input_size: int,
    hidden_size: int,
    layers: int,
    directions: int,
) -> tuple[int, list[tuple[int, int]]]:
    """The rows of a matrix, and the widths of input and state of each run."""
    if kind not in RECURRENT:
        raise ValueError(f"kind wants one of {[*RECURRENT]}, got {kind!r}")
    d, h = whole(input_size=input_size, hidden_size=hidden_size)
    layers, directions = whole(layers=layers, directions=directions)
    if directions > 2:
        raise ValueError(f"directions wants 1 or 2, got {directions}")
    widths = [d] + [directions * h] * (layers - 1)
    return RECURRENT[kind] * h, [(n, h) for n in widths] * directions
