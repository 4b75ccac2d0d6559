"""Recurrence: read in order, and keep all that was read in one state.

The same step, with the same weights, at every position: sharing along time.
It bets that the past fits a vector of fixed size. The state costs the same
after ten tokens and after a million; what does not fit is lost, and no step
can start before the one before it is done.

The product with the input waits for nobody and is done for all positions at
once. The steps below take its result, ``a``, and add what the state says.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lumen.activation import sigmoid, tanh
from lumen.dense import linear

State = Tensor | tuple[Tensor, Tensor]


def rnn_step(a: Tensor, h: Tensor, weight: Tensor) -> Tensor:
    """Replace the state by a blend of itself and the input.

    ``h' = tanh(a + W h)``

    Args:
        a: what the input says, ``W_ih x + b_ih + b_hh``.
        h: the state before.
        weight: the matrix W, ``weight_hh``.

    Shape:
        a (B, H), h (B, H), weight (H, H) → (B, H)

    Example:
        >>> zero, one = torch.zeros(1, 1), torch.ones(1, 1)
        >>> rnn_step(one, zero, 2 * one)
        tensor([[0.7616]])
    """
    return tanh(a + h @ weight.T)


def lstm_step(
    a: Tensor,
    state: tuple[Tensor, Tensor],
    weight: Tensor,
) -> tuple[Tensor, Tensor]:
    """Keep a share of the cell, add something new, and show a share of it.

    ``i, f, g, o = a + W h``,
    ``c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)``, ``h' = σ(o) ⊙ tanh(c')``

    Along the direct path dc'/dc is the forget gate σ(f), chosen anew for
    each channel and step. c is also shown as h, which the gates of this step
    read, so that is not the whole derivative.

    Args:
        a: what the input says, ``W_ih x + b_ih + b_hh``, for the gates in
            torch's order: input, forget, new (g), output.
        state: what was shown, h, and what was kept, c.
        weight: the matrix W of all four, ``weight_hh``.

    Shape:
        a (B, 4 · H), h and c (B, H), weight (4 · H, H) → two (B, H)

    Example:
        >>> a = torch.tensor([[-50.0, 50.0, 0.0, 50.0]])  # keep, show
        >>> zero, one = torch.zeros(1, 1), torch.ones(1, 1)
        >>> lstm_step(a, (zero, one), torch.zeros(4, 1))
        (tensor([[0.7616]]), tensor([[1.]]))
    """
    h, c = state
    i, f, g, o = (a + h @ weight.T).chunk(4, dim=-1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def gru_step(
    a: Tensor,
    h: Tensor,
    weight: Tensor,
    bias: Tensor,
    reset_after: bool = True,
) -> Tensor:
    """Move the state towards something new, by a share of its own choice.

    ``r, z = σ(a + W h + b)``, ``h' = (1 − z) ⊙ n + z ⊙ h``, where
    ``n = tanh(a + r ⊙ (W h + b))``, or before the product
    ``n = tanh(a + W (r ⊙ h) + b)``

    z keeps and 1 − z writes: one gate does what the LSTM has two for. So
    the state never leaves [−1, 1], if it starts there, and cannot count.

    Args:
        a: what the input says, ``W_ih x + b_ih``, in torch's order: reset
            r, keep z, new n.
        h: the state before.
        weight: the matrix W of all three, ``weight_hh``.
        bias: the offset b of all three, ``bias_hh``.
        reset_after: whether r comes after the product, as in torch, or
            before it, as in the paper. With the same weights these are
            two different functions.

    Shape:
        a (B, 3 · H), h (B, H), weight (3 · H, H), bias (3 · H) → (B, H)

    Example:
        >>> a = torch.tensor([[0.0, 0.0, 50.0]])  # half old, half 1
        >>> h, weight, bias = (torch.zeros(n) for n in [(1, 1), (3, 1), 3])
        >>> gru_step(a, h, weight, bias)
        tensor([[0.5000]])
    """
    widths = [2 * h.shape[-1], h.shape[-1]]
    a_gates, a_new = a.split(widths, dim=-1)
    if reset_after:
        gates, new = (h @ weight.T + bias).split(widths, dim=-1)
        r, z = sigmoid(a_gates + gates).chunk(2, dim=-1)
        n = tanh(a_new + r * new)
    else:
        (w, w_new), (b, b_new) = weight.split(widths), bias.split(widths)
        r, z = sigmoid(a_gates + h @ w.T + b).chunk(2, dim=-1)
        n = tanh(a_new + (r * h) @ w_new.T + b_new)
    return torch.lerp(n, h, z)  # (1 − z) n + z h


def unroll(
    step: Callable[[Tensor, State], State],
    a: Tensor,
    state: State,
    reverse: bool = False,
) -> tuple[Tensor, State]:
    """Apply one step at every position, each time to the state it left.

    ``state ← step(aₜ, state)`` for t = 1 … T, or T … 1 in reverse

    Args:
        step: takes the input of one position and the state before.
        a: what the input says at each position.
        state: before the first step: h, or the pair (h, c).
        reverse: read from the last position to the first. Each output
            still stands at the position that it was read at.

    Shape:
        a (B, T, n) → h of each position (B, T, H), and the last state

    Example:
        >>> a = torch.tensor([[[1.0], [2.0], [3.0]]])
        >>> total, last = unroll(torch.add, a, torch.zeros(1, 1))
        >>> total.flatten(), last
        (tensor([1., 3., 6.]), tensor([[6.]]))
    """
    # unbind, not a[:, t]: each index would have a gradient as long as a
    inputs, shown = a.unbind(1), []
    for a_t in reversed(inputs) if reverse else inputs:
        state = step(a_t, state)
        shown.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(shown[::-1] if reverse else shown, dim=1), state


class _Recurrent(nn.Module):
    """Own the weights of all layers and directions, and run each in turn.

    A kind says how many products a step has, ``gates``, how many tensors a
    state has, ``states``, and how one direction of one layer runs, ``_run``.
    """

    gates: int
    states = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
    ):
        sizes = input_size, hidden_size, num_layers
        if min(sizes) < 1:
            wanted = f"{type(self).__name__} wants sizes and layers ≥ 1"
            raise ValueError(f"{wanted}, got {sizes}")
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.bidirectional = num_layers, bidirectional
        rows, directions = self.gates * hidden_size, 1 + bidirectional
        bound = 1 / math.sqrt(hidden_size)
        for layer, reverse in self._order():
            width = directions * hidden_size if layer else input_size
            shapes = [(rows, width), (rows, hidden_size), (rows,), (rows,)]
            names = self._names(layer, reverse)
            for name, shape in zip(names, shapes, strict=True):
                start = torch.empty(shape).uniform_(-bound, bound)
                self.register_parameter(name, nn.Parameter(start))

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
    ) -> tuple[Tensor, State]:
        """Read x, and hand back the outputs and the last state.

        Args:
            x: the sequences.
            state: before the first step, one row for each layer and
                direction; None means zeros. A pair (h, c) for the LSTM.
        """
        starts, lasts, read = self._starts(x, state), [], []
        for row, (layer, reverse) in enumerate(self._order()):
            names = self._names(layer, reverse)
            weights = [getattr(self, name) for name in names]
            start = [part[row] for part in starts]
            y, last = self._run(x, start, weights, reverse)
            read.append(y)
            lasts.append(last if self.states == 2 else (last,))
            if len(read) == 1 + self.bidirectional:
                # the directions side by side are what the next layer reads
                x, read = torch.cat(read, dim=-1), []
        last = [torch.stack(part) for part in zip(*lasts, strict=True)]
        return x, tuple(last) if self.states == 2 else last[0]

    def extra_repr(self) -> str:
        shape = f"{self.input_size}, {self.hidden_size}"
        layers = f"num_layers={self.num_layers}"
        return f"{shape}, {layers}, bidirectional={self.bidirectional}"

    def _order(self):
        directions = range(1 + self.bidirectional)
        return [(i, j) for i in range(self.num_layers) for j in directions]

    def _names(self, layer, reverse):
        end = f"l{layer}_reverse" if reverse else f"l{layer}"
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [f"{part}_{end}" for part in parts]

    def _starts(self, x, state):
        kind, given = type(self).__name__, tuple(x.shape)
        if x.ndim != 3 or given[2] != self.input_size or given[1] < 1:
            wanted = f"x (B, T, {self.input_size}) with T ≥ 1"
            raise ValueError(f"{kind} wants {wanted}, got {given}")
        wanted = len(self._order()), given[0], self.hidden_size
        if state is None:
            return [x.new_zeros(wanted)] * self.states
        parts = [state] if isinstance(state, Tensor) else list(state)
        given = [tuple(part.shape) for part in parts]
        if given != [wanted] * self.states:
            wanted = [wanted] * self.states
            raise ValueError(f"{kind} wants a state {wanted}, got {given}")
        return parts


class RNN(_Recurrent):
    """Read a sequence into one vector that every step overwrites.

    ``hₜ = tanh(W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh)``

    Back through the span from t to k the gradient meets t − k factors
    ``diag(1 − h²) W_hh``: the same matrix each time, and slopes of at most
    1. It shrinks unless W_hh makes up for the slopes.

    Args:
        input_size: numbers in a position of the input, D.
        hidden_size: numbers in the state, H.
        num_layers: layers; each reads the outputs of the one below.
        bidirectional: whether each layer also reads from the end, with
            weights of its own, and hands on both outputs side by side.

    Shape:
        x (B, T, D), state (num_layers · directions, B, H) →
        outputs (B, T, directions · H), last state as the first

    Weights:
        ``hidden_size · (input_size + hidden_size + 2)`` for one layer in one
        direction. A layer above reads directions · H numbers. The weights
        start uniform between −1/√H and 1/√H.

    Cost:
        ``2 · hidden_size · (input_size + hidden_size)`` FLOPs per position,
        likewise. T steps, one after the other.

    Raises:
        ValueError: a size is below 1; x is not (B, T, D) or has no
            position; the state does not fit.

    Differs from:
        ``torch.nn.RNN``: batch first, always in a batch, tanh only, and
        no dropout between layers. The paper has one offset: b_ih and b_hh
        only ever act as a sum, and torch keeps both for cuDNN's sake.

    Source:
        Elman (1990), Finding Structure in Time.

    Example:
        >>> outputs, last = RNN(3, 5)(torch.zeros(2, 7, 3))
        >>> outputs.shape, last.shape
        (torch.Size([2, 7, 5]), torch.Size([1, 2, 5]))
    """

    gates = 1

    def _run(self, x, start, weights, reverse):
        w_ih, w_hh, b_ih, b_hh = weights
        a = linear(x, w_ih, b_ih + b_hh)
        return unroll(lambda a, h: rnn_step(a, h, w_hh), a, *start, reverse)


class LSTM(_Recurrent):
    """Read a sequence into a cell that gates write, keep and show.

    ``i, f, g, o = W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh``,
    ``cₜ = σ(f) ⊙ cₜ₋₁ + σ(i) ⊙ tanh(g)``, ``hₜ = σ(o) ⊙ tanh(cₜ)``

    After t steps with a forget offset of b the cell holds σ(b)ᵗ of what it
    held: half of it after 1.0, 2.2 or 5.5 steps for b = 0, 1 or 2. A span
    of T wants b ≈ ln(T − 1).

    Args:
        input_size: numbers in a position of the input, D.
        hidden_size: numbers in the cell, H.
        num_layers: layers; each reads the outputs of the one below.
        bidirectional: whether each layer also reads from the end, with
            weights of its own, and hands on both outputs side by side.

    Shape:
        x (B, T, D), h and c (num_layers · directions, B, H) →
        outputs (B, T, directions · H), the last (h, c) as the first

    Weights:
        ``4 · hidden_size · (input_size + hidden_size + 2)`` for one layer in
        one direction, the rows in the order i, f, g, o. A layer above reads
        directions · H numbers. Textbooks have one offset: ``+ 1``. The
        weights start uniform between −1/√H and 1/√H, the forget offset too.

    Cost:
        ``8 · hidden_size · (input_size + hidden_size)`` FLOPs per position,
        likewise. T steps, one after the other.

    Raises:
        ValueError: a size is below 1; x is not (B, T, D) or has no
            position; the state is no pair, or does not fit.

    Differs from:
        ``torch.nn.LSTM``: batch first, always in a batch, no projection,
        and no dropout between layers. The paper of 1997 has no forget gate
        and cuts the gradient through h.

    Source:
        Hochreiter and Schmidhuber (1997), Long Short-Term Memory; Gers,
        Schmidhuber and Cummins (2000), Learning to Forget.

    Example:
        >>> layer = LSTM(3, 5, num_layers=2, bidirectional=True)
        >>> outputs, (h, c) = layer(torch.zeros(2, 7, 3))
        >>> outputs.shape, h.shape, c.shape
        (torch.Size([2, 7, 10]), torch.Size([4, 2, 5]), torch.Size([4, 2, 5]))
    """

    gates, states = 4, 2

    def _run(self, x, start, weights, reverse):
        w_ih, w_hh, b_ih, b_hh = weights
        a = linear(x, w_ih, b_ih + b_hh)
        state = tuple(start)
        return unroll(lambda a, s: lstm_step(a, s, w_hh), a, state, reverse)


class GRU(_Recurrent):
    """Read a sequence into one vector that two gates guard.

    ``r = σ(W_ir xₜ + b_ir + W_hr hₜ₋₁ + b_hr)``, z likewise,
    ``n = tanh(W_in xₜ + b_in + r ⊙ (W_hn hₜ₋₁ + b_hn))``,
    ``hₜ = (1 − z) ⊙ n + z ⊙ hₜ₋₁``

    Args:
        input_size: numbers in a position of the input, D.
        hidden_size: numbers in the state, H.
        num_layers: layers; each reads the outputs of the one below.
        bidirectional: whether each layer also reads from the end, with
            weights of its own, and hands on both outputs side by side.
        reset_after: whether r comes after the product, as above, or before
            it: ``n = tanh(W_in xₜ + b_in + W_hn (r ⊙ hₜ₋₁) + b_hn)``.

    Shape:
        x (B, T, D), state (num_layers · directions, B, H) →
        outputs (B, T, directions · H), last state as the first

    Weights:
        ``3 · hidden_size · (input_size + hidden_size + 2)`` for one layer in
        one direction, the rows in the order r, z, n. A layer above reads
        directions · H numbers. The weights start uniform between −1/√H and
        1/√H.

    Cost:
        ``6 · hidden_size · (input_size + hidden_size)`` FLOPs per position,
        likewise. T steps, one after the other.

    Raises:
        ValueError: a size is below 1; x is not (B, T, D) or has no
            position; the state does not fit.

    Differs from:
        ``torch.nn.GRU``: batch first, always in a batch, no dropout between
        layers; torch has no ``reset_after=False``. That is the paper's
        form, which has one offset: there b_ih and b_hh act as a sum, while
        after the product b_hn sits inside r ⊙ (…). Chung et al. (2014)
        write z for our 1 − z.

    Source:
        Cho et al. (2014), Learning Phrase Representations using RNN
        Encoder–Decoder, section 2.3.

    Example:
        >>> outputs, last = GRU(3, 5)(torch.zeros(2, 7, 3))
        >>> outputs.shape, last.shape
        (torch.Size([2, 7, 5]), torch.Size([1, 2, 5]))
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        *,
        reset_after: bool = True,
    ):
        super().__init__(input_size, hidden_size, num_layers, bidirectional)
        self.reset_after = reset_after

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, reset_after={self.reset_after}"

    def _run(self, x, start, weights, reverse):
        w_ih, w_hh, b_ih, b_hh = weights

        def step(a, h):
            return gru_step(a, h, w_hh, b_hh, self.reset_after)

        return unroll(step, linear(x, w_ih, b_ih), *start, reverse)
