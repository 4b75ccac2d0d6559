"""lumen.recurrent against torch.nn, the paper's GRU in plain loops, and steps worked by hand."""

import math
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lumen.count import count, recurrent_params
from lumen.recurrent import GRU, LSTM, RNN, gru_step, lstm_step, rnn_step, unroll
from tests.oracle import agree, normal

KINDS = {"RNN": (RNN, nn.RNN), "LSTM": (LSTM, nn.LSTM), "GRU": (GRU, nn.GRU)}
RUN = ("input_size", "hidden_size", "num_layers", "bidirectional")
CELLS = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


def pair(name, *sizes, dtype=torch.float64, **options):
    """Ours with the weights of torch's, larger than at the start so that the gates move."""
    torch.manual_seed(0)
    theirs = KINDS[name][1](*sizes, batch_first=True, dtype=dtype, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(2)
    ours = KINDS[name][0](*sizes, **options).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    named = dict(theirs.named_parameters())
    return ours, theirs, [(p, named[n]) for n, p in ours.named_parameters()]


def flat(layer):
    """Outputs and all last states as one row for each example, and the state from loose tensors."""

    def run(x, *state):
        state = state or None
        if state and not isinstance(layer, LSTM | nn.LSTM):
            (state,) = state
        y, last = layer(x, state)
        lasts = last if isinstance(last, tuple) else (last,)
        return torch.cat([y.flatten(1), *(s.transpose(0, 1).flatten(1) for s in lasts)], dim=1)

    return run


def states(name, runs, batch, hidden, dtype=torch.float64):
    n = 2 if name == "LSTM" else 1
    return [normal(runs, batch, hidden, seed=3 + i, dtype=dtype) for i in range(n)]


# ---- against torch: outputs, last states, gradients of input, states and all weights


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_equals_torch(name, layers, bidirectional):
    ours, theirs, params = pair(name, 5, 4, num_layers=layers, bidirectional=bidirectional)
    start = states(name, layers * (1 + bidirectional), 3, 4)
    agree(flat(ours), flat(theirs), normal(3, 7, 5), *start, params=params, tolerance=1e-11)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_equals_torch_without_a_state(name, bidirectional):
    ours, theirs, params = pair(name, 5, 4, num_layers=2, bidirectional=bidirectional)
    agree(flat(ours), flat(theirs), normal(3, 7, 5), params=params, tolerance=1e-11)


def test_equals_torch_in_float32(name):
    ours, theirs, params = pair(name, 24, 32, num_layers=2, bidirectional=True, dtype=torch.float32)
    start = states(name, 4, 5, 32, dtype=torch.float32)
    x = normal(5, 20, 24, dtype=torch.float32)
    agree(flat(ours), flat(theirs), x, *start, params=params, tolerance=3e-5)


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(KINDS)),
    *[st.integers(1, 5)] * 2,
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 3),
    st.integers(1, 6),
    st.booleans(),
)
def test_equals_torch_for_any_shape(name, d, h, layers, bidirectional, batch, steps, with_state):
    ours, theirs, params = pair(name, d, h, num_layers=layers, bidirectional=bidirectional)
    start = states(name, layers * (1 + bidirectional), batch, h) if with_state else []
    agree(flat(ours), flat(theirs), normal(batch, steps, d), *start, params=params, tolerance=1e-11)


def test_shapes_are_those_of_torch(name):
    ours, theirs, _ = pair(name, 5, 4, num_layers=2, bidirectional=True)
    x = normal(3, 7, 5)
    (y, last), (wanted, wanted_last) = ours(x), theirs(x)
    assert y.shape == wanted.shape == (3, 7, 8)
    assert type(last) is type(wanted_last)
    for ours, theirs in zip(last, wanted_last, strict=True):
        assert ours.shape == theirs.shape


def test_takes_input_that_is_not_contiguous(name):
    ours, theirs, params = pair(name, 5, 4)
    x = normal(5, 7, 3).permute(2, 1, 0)
    assert not x.is_contiguous()
    agree(flat(ours), flat(theirs), x, params=params, tolerance=1e-11)


def test_gradient_by_finite_differences(name):
    ours, _, _ = pair(name, 2, 3, bidirectional=True)
    inputs = [normal(2, 3, 2), *states(name, 2, 2, 3)]
    assert torch.autograd.gradcheck(flat(ours), [x.requires_grad_() for x in inputs])


def test_torch_loads_our_weights_too(name):
    sizes = {"input_size": 5, "hidden_size": 4, "num_layers": 2, "bidirectional": True}
    ours = KINDS[name][0](**sizes)
    theirs = KINDS[name][1](**sizes, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = normal(3, 7, 5, dtype=torch.float32)
    assert_close(ours(x)[0], theirs(x)[0])


@pytest.mark.parametrize("sizes", [(5, 4), (48, 20, 2, True)])
def test_starts_where_torch_starts(name, sizes):
    torch.manual_seed(3)
    ours = KINDS[name][0](*sizes)
    torch.manual_seed(3)
    theirs = KINDS[name][1](**dict(zip(RUN, sizes, strict=False)))
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    assert all(torch.equal(w, state[n]) for n, w in ours.state_dict().items())
    bound = 1 / math.sqrt(sizes[1])
    assert all(w.abs().max() <= bound for w in ours.parameters())


def test_a_step_is_a_cell_of_torch(name):
    torch.manual_seed(0)
    cell = CELLS[name](5, 4).double()
    x, start = normal(3, 5), [s[0] for s in states(name, 1, 3, 4)]
    ours, _, _ = pair(name, 5, 4)
    ours.load_state_dict({f"{n}_l0": w for n, w in cell.state_dict().items()})
    wanted = cell(x, tuple(start) if name == "LSTM" else start[0])
    w, b = cell.weight_hh, cell.bias_hh
    a = x @ cell.weight_ih.T + cell.bias_ih
    got = {
        "RNN": lambda: rnn_step(a + b, start[0], w),
        "LSTM": lambda: lstm_step(a + b, tuple(start), w),
        "GRU": lambda: gru_step(a, start[0], w, b),
    }[name]()
    assert_close(got, wanted, rtol=0, atol=1e-12)
    first = [s.unsqueeze(0) for s in start]
    y, _ = ours(x.unsqueeze(1), tuple(first) if name == "LSTM" else first[0])
    assert_close(y[:, 0], wanted[0] if name == "LSTM" else wanted, rtol=0, atol=1e-12)


# ---- a cell that somebody trained: silero-vad, which tells speech from silence


@pytest.fixture(scope="module")
def silero():
    """The trained model for 16 kHz, two sets of weights of its cell, and what the cell reads.

    The package ships two trainings: their cells differ. The sound is a gliding hum of two seconds
    that swells and fades, cut and seen by the layers below the cell. Nothing of it is imported.
    """
    found = find_spec("silero_vad")
    assert found, "the trained weights of requirements-weights.txt are not installed"
    from safetensors.torch import load_file

    folder = Path(found.origin).parent / "data"
    model = torch.jit.load(folder / "silero_vad.jit", map_location="cpu")._model
    cells = {"jit": {name: w.detach() for name, w in model.decoder.rnn.named_parameters()}}
    tensors = load_file(folder / "silero_vad_16k.safetensors")
    cells["file"] = {n: tensors[f"lstm_cell.{n}"] for n in cells["jit"]}
    time = torch.arange(60 * 512 + 64) / 16_000
    pitch = 2 * math.pi * (120 + 40 * torch.sin(3 * time)) * time
    hum = sum(torch.sin(k * pitch) / k for k in range(1, 9))
    hum = 0.3 * torch.sin(math.pi * time) ** 2 * hum
    with torch.no_grad():
        x = model.encoder(model.run_extractors(hum.unfold(0, 576, 512))).squeeze(-1)
    return model, cells, x


def steps(cell, x):
    """Outputs and cells of all positions, one step after the other."""
    state, shown = None, []
    for x_t in x.split(1):
        state = cell(x_t, state)
        shown.append(state)
    return [torch.cat(part) for part in zip(*shown, strict=True)]


def trained_lstm(weights):
    layer = LSTM(128, 128)
    layer.load_state_dict({f"{name}_l0": w for name, w in weights.items()})
    return layer


@pytest.mark.filterwarnings("ignore:.*torch.jit.load.*deprecated")
@pytest.mark.parametrize("of", ["jit", "file"])
def test_the_trained_cell_of_silero_equals_torch(silero, of):
    _, cells, x = silero
    theirs = nn.LSTMCell(128, 128).double()
    theirs.load_state_dict(cells[of])
    y, wanted_c = steps(theirs, x.double())
    ours = trained_lstm(cells[of]).double()
    got, (h, c) = ours(x.double().unsqueeze(0))
    assert_close(got[0], y, rtol=0, atol=1e-12)
    assert_close((h[0], c[0]), (y[-1:], wanted_c[-1:]), rtol=0, atol=1e-12)
    assert y.std() > 0.2 and wanted_c.abs().max() > 10  # the gates move, and the cell counts


@pytest.mark.filterwarnings("ignore:.*torch.jit.load.*deprecated")
def test_the_trained_cell_of_silero_says_what_its_own_code_says(silero):
    model, cells, x = silero
    with torch.no_grad():
        wanted, wanted_c = steps(model.decoder.rnn, x)
        got, (_, c) = trained_lstm(cells["jit"])(x.unsqueeze(0))
        heard, right = (model.decoder.decoder(h.unsqueeze(-1)) for h in (got[0], wanted))
    # seen: 3e-6 in h and, where c is 15, in c
    assert_close(got[0], wanted, rtol=0, atol=1e-5)
    assert_close(c[0], wanted_c[-1:], rtol=0, atol=1e-5)
    assert_close(heard, right, rtol=0, atol=1e-5)
    assert heard.min() < 0.1 and heard.max() > 0.4  # it hears something, and not everywhere


# ---- what it means to read in order


def test_reading_in_two_pieces_is_reading_once(name):
    ours, _, _ = pair(name, 5, 4, num_layers=2)
    x = normal(3, 9, 5)
    y, last = ours(x)
    y_1, half = ours(x[:, :4])
    y_2, end = ours(x[:, 4:], half)
    assert_close(torch.cat([y_1, y_2], dim=1), y, rtol=0, atol=1e-12)
    assert_close(end, last, rtol=0, atol=1e-12)


def test_the_future_is_not_seen_and_the_past_is(name):
    ours, _, _ = pair(name, 5, 4, num_layers=2)
    x = normal(1, 6, 5)
    changed = x.clone()
    changed[0, 3] += 1
    moved = (ours(x)[0] != ours(changed)[0]).any(-1)
    assert moved.tolist() == [[False] * 3 + [True] * 3]
    both, _, _ = pair(name, 5, 4, bidirectional=True)
    assert (both(x)[0] != both(changed)[0]).any(-1).all()


def test_the_last_state_is_the_last_output_of_each_direction(name):
    ours, _, _ = pair(name, 5, 4, num_layers=2, bidirectional=True)
    y, last = ours(normal(3, 6, 5))
    h = last[0] if name == "LSTM" else last
    assert torch.equal(h[2], y[:, -1, :4]) and torch.equal(h[3], y[:, 0, 4:])


def test_the_reverse_direction_is_the_other_one_read_backwards(name):
    ours, _, _ = pair(name, 5, 4, bidirectional=True)
    one, _, _ = pair(name, 5, 4)
    state = ours.state_dict()
    one.load_state_dict({n: state[f"{n}_reverse"] for n in one.state_dict()})
    x = normal(3, 6, 5)
    assert_close(ours(x)[0][..., 4:], one(x.flip(1))[0].flip(1), rtol=0, atol=1e-12)


def test_examples_do_not_see_one_another(name):
    ours, _, _ = pair(name, 5, 4, num_layers=2, bidirectional=True)
    x = normal(3, 6, 5)
    each = torch.cat([ours(x[i : i + 1])[0] for i in range(3)])
    assert_close(ours(x)[0], each, rtol=0, atol=1e-12)


def test_unroll_takes_any_step():
    a = normal(2, 5, 3)
    y, last = unroll(lambda a, h: a + h, a, torch.zeros(2, 3).double())
    assert_close(y, a.cumsum(1))
    assert_close(last, a.sum(1))
    y, last = unroll(lambda a, h: a + h, a, torch.zeros(2, 3).double(), reverse=True)
    assert_close(y, a.flip(1).cumsum(1).flip(1))
    assert_close(last, y[:, 0])


# ---- one step by hand


def column(*numbers):
    return torch.tensor([numbers], dtype=torch.float64)


def gate(x):
    return 1 / (1 + math.exp(-x))


def test_one_rnn_step_by_hand():
    # W = [[1, 2], [0, -1]], so W h = (0.5 + 2 · -0.25, 0.25) = (0, 0.25)
    h = rnn_step(column(0.3, 0.1), column(0.5, -0.25), torch.tensor([[1.0, 2], [0, -1]]).double())
    assert h.tolist()[0] == pytest.approx([math.tanh(0.3), math.tanh(0.35)], abs=1e-15)


def test_one_lstm_step_by_hand():
    # h = 0.5 reaches the gates i, f, g, o with the weights 2, -2, 1, 4
    weight = column(2.0, -2.0, 1.0, 4.0).T
    h, c = lstm_step(column(0.0, 3.0, 0.5, -1.0), (column(0.5), column(2.0)), weight)
    wanted = gate(2.0) * 2 + gate(1.0) * math.tanh(1.0)
    assert c.item() == pytest.approx(wanted, abs=1e-15) == pytest.approx(2.3183641, abs=1e-7)
    assert h.item() == pytest.approx(gate(1.0) * math.tanh(wanted), abs=1e-15)


def test_one_gru_step_by_hand():
    # h = 0.5, W = (1, 2, -4) for r, z, n, b = (0.5, 0, 1)
    weight, bias = column(1.0, 2.0, -4.0).T, column(0.5, 0.0, 1.0)[0]
    a, h = column(-1.0, 0.0, 0.25), column(0.5)
    r, z = gate(-1 + 0.5 + 0.5), gate(0 + 1.0)
    after = math.tanh(0.25 + r * (-2 + 1))
    before = math.tanh(0.25 - 4 * (r * 0.5) + 1)
    assert r == 0.5
    for n, form in [(after, True), (before, False)]:
        wanted = (1 - z) * n + z * 0.5
        got = gru_step(a, h, weight, bias, reset_after=form).item()
        assert got == pytest.approx(wanted, abs=1e-15)


def test_the_order_of_the_gates_is_that_of_torch():
    # keras-team/keras#8720, tensorflow/tensorflow#29308, ndrplz/ConvLSTM_pytorch#6: i, f, g, o
    state = column(0.0), column(1.0)
    shut, open_ = -1e3, 1e3

    def cell(*a):
        h, c = lstm_step(column(*a), state, torch.zeros(4, 1).double())
        return h.item(), c.item()

    assert cell(shut, open_, 9.0, open_) == pytest.approx((math.tanh(1), 1))  # keeps
    assert cell(shut, shut, 9.0, open_) == pytest.approx((0, 0))  # forgets
    assert cell(open_, shut, 0.5, open_) == pytest.approx(
        (math.tanh(math.tanh(0.5)), math.tanh(0.5))
    )
    assert cell(open_, open_, 0.5, shut) == pytest.approx((0, 1 + math.tanh(0.5)))  # hides


def test_z_keeps_the_old_state():
    # pytorch/pytorch#20129, #60645, tracel-ai/burn#2704; errata_004, E26: r, z, n, and not 1 - z
    h, weight, bias = column(0.25), torch.zeros(3, 1).double(), torch.zeros(3).double()
    for z, wanted in [(1e3, 0.25), (-1e3, math.tanh(0.5))]:
        assert gru_step(column(0.0, z, 0.5), h, weight, bias).item() == pytest.approx(wanted)


# ---- two forms of the GRU


def gru_of_the_paper(layer, x, h):
    """Cho et al. (2014), equations 5 to 8, one number at a time."""
    w, u, b, c = (
        getattr(layer, f"{p}_l0") for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    size, rows = layer.hidden_size, []

    def soft(v):
        return 1 / (1 + torch.exp(-v))

    for x_b, h_b in zip(x, h[0], strict=True):
        shown = []
        for x_t in x_b:
            old = h_b
            r = [soft(w[j] @ x_t + u[j] @ old + b[j] + c[j]) for j in range(size)]
            new = []
            for j in range(size):
                k, m = size + j, 2 * size + j
                z = soft(w[k] @ x_t + u[k] @ old + b[k] + c[k])
                reset = sum(u[m, i] * r[i] * old[i] for i in range(size))
                n = torch.tanh(w[m] @ x_t + reset + b[m] + c[m])
                new.append(z * old[j] + (1 - z) * n)
            h_b = torch.stack(new)
            shown.append(h_b)
        rows.append(torch.stack([*shown, h_b]).flatten())
    return torch.stack(rows)


def test_with_the_reset_before_it_is_the_gru_of_the_paper():
    after, theirs, _ = pair("GRU", 3, 4)
    before = GRU(3, 4, reset_after=False).double()
    before.load_state_dict(theirs.state_dict())
    twin = GRU(3, 4, reset_after=False).double()
    twin.load_state_dict(theirs.state_dict())
    agree(
        flat(before),
        lambda x, h: gru_of_the_paper(twin, x, h),
        normal(2, 5, 3),
        normal(1, 2, 4, seed=3),
        params=list(zip(before.parameters(), twin.parameters(), strict=True)),
        tolerance=1e-11,
    )


def forms(seed=0):
    torch.manual_seed(seed)
    after = GRU(5, 7).double()
    before = GRU(5, 7, reset_after=False).double()
    before.load_state_dict(after.state_dict())
    return after, before


@pytest.mark.parametrize("seed", range(3))
def test_the_two_forms_are_two_functions(seed):
    # pytorch/pytorch#99531, #8153; errata_004, E26
    (after, before), x = forms(seed), normal(4, 9, 5)
    gap = (after(x)[0] - before(x)[0]).abs().max().item()
    assert 0.05 < gap < 0.5


def test_the_two_forms_agree_where_nothing_is_reset():
    (after, before), x = forms(), normal(4, 9, 5)
    for layer in (after, before):
        layer.bias_ih_l0.data[:7] = 50  # r = 1
    assert_close(after(x)[0], before(x)[0], rtol=0, atol=1e-12)
    after, before = forms()
    assert (after(x[:, :1])[0] != before(x[:, :1])[0]).all()
    for layer in (after, before):
        layer.bias_hh_l0.data[14:] = 0  # b_hn: from a state of zeros it is the whole difference
    assert_close(after(x[:, :1])[0], before(x[:, :1])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "same"), [(RNN, True), (LSTM, True), (GRU, False), ("before", True)]
)
def test_two_offsets_are_one_except_inside_the_reset(layer, same):
    # pytorch/pytorch#36905, #95056, #15843, #750; discuss.pytorch.org/t/45025, /t/94282;
    # forums.developer.nvidia.com/t/296765; errata_004, E25
    torch.manual_seed(0)
    layer = GRU(3, 4, reset_after=False) if layer == "before" else layer(3, 4)
    x = normal(2, 6, 3, dtype=torch.float32)
    y, _ = layer(x)
    with torch.no_grad():
        layer.bias_ih_l0 += layer.bias_hh_l0
        layer.bias_hh_l0.zero_()
    gap = (layer(x)[0] - y).abs().max().item()
    assert gap < 1e-6 if same else gap > 1e-2


def test_torch_warns_of_a_dropout_with_nothing_to_drop():
    # pytorch/pytorch#5985: it acts between layers; ours has none
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(3, 4, dropout=0.5)
    with pytest.raises(TypeError):
        LSTM(3, 4, dropout=0.5)


def test_outputs_side_by_side_are_one_matrix_for_each_example():
    # fastai/fastbook#338, #95: gathering the steps of a cell by stack adds an axis, by cat none
    steps = [normal(64, 5, seed=t) for t in range(2)]
    assert torch.stack(steps, dim=1).shape == (64, 2, 5) and torch.cat(steps, 1).shape == (64, 10)
    y, _ = RNN(3, 5)(torch.zeros(64, 2, 3))
    assert y.shape == (64, 2, 5)


# ---- what the gates buy


def test_forget_offsets_and_how_long_they_last():
    # errata_004, E24
    def left(b, steps):
        a = column(-1e3, b, 0.0, 0.0).expand(1, steps, 4)
        w = torch.zeros(4, 1).double()
        _, (_, c) = unroll(lambda a, s: lstm_step(a, s, w), a, (column(0.0), column(1.0)))
        return c.item()

    assert left(1.0, 100) == pytest.approx(2.5e-14, rel=0.02)
    assert left(2.0, 100) == pytest.approx(3.1e-6, rel=0.02)
    assert left(0.0, 10) == pytest.approx(9.8e-4, rel=0.01)
    for b, half_life in [(0, 1.0), (1, 2.2), (2, 5.5)]:
        assert -math.log(2) / math.log(left(float(b), 1)) == pytest.approx(half_life, abs=0.05)
    for b, f in [(4.60, 0.99), (2.94, 0.95)]:
        assert left(b, 1) == pytest.approx(f, abs=5e-4)
    for span in (10, 100, 1000):  # b = ln(T - 1) makes f = 1 - 1/T: a share of about 1/e is left
        assert left(math.log(span - 1), span) == pytest.approx(math.exp(-1), abs=0.02)


def cells(layer, a, h, cut):
    """The cell after all positions as a function of the cell before, and the forget gates."""
    n, weight = layer.hidden_size, layer.weight_hh_l0.detach()
    gates = []

    def last(c):
        state = (h, c)
        for a_t in a.unbind(1):
            shown = state[0].detach() if cut else state[0]
            gates.append(torch.sigmoid(a_t + shown @ weight.T)[:, n : 2 * n].detach())
            state = lstm_step(a_t, (shown, state[1]), weight)
        return state[1]

    return last, gates


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_the_direct_path_is_the_product_of_forget_gates_and_not_the_whole(scale):
    # errata_004, E23
    torch.manual_seed(0)
    layer = LSTM(64, 64).double()
    for parameter in layer.parameters():
        parameter.data *= scale
    a = normal(1, 20, 64) @ layer.weight_ih_l0.detach().T
    h, c = torch.zeros(1, 64).double(), normal(1, 64, seed=1)
    jacobians = {}
    for cut in (True, False):
        last, gates = cells(layer, a, h, cut)
        jacobians[cut] = torch.autograd.functional.jacobian(last, c)[0, :, 0]
        direct = torch.stack(gates[:20]).prod(0)[0].diag()
        if cut:
            assert_close(jacobians[True], direct, rtol=1e-10, atol=1e-300)
    missed = ((jacobians[False] - direct).norm() / jacobians[False].norm()).item()
    assert 0.3 < missed < 0.6 if scale == 0.1 else missed > 0.9


def test_the_gradient_of_an_rnn_is_a_product_in_order():
    # errata_004, E19: D_T W … D_2 W, times the gradient at the end
    layer, _, _ = pair("RNN", 3, 4)
    h_0 = normal(1, 1, 4, seed=3).requires_grad_()
    y, last = layer(normal(1, 8, 3), h_0)
    upstream = normal(1, 1, 4, seed=4)
    (gradient,) = torch.autograd.grad(last, h_0, upstream)
    wanted = upstream[0, 0]
    for h in reversed(y[0].detach()):
        wanted = wanted @ ((1 - h**2).diag() @ layer.weight_hh_l0.detach())
    assert_close(gradient[0, 0], wanted, rtol=0, atol=1e-13)
    slopes = (1 - y.detach() ** 2).amax(-1).prod()
    bound = upstream.norm() * slopes * torch.linalg.matrix_norm(layer.weight_hh_l0, 2) ** 8
    assert gradient.norm() <= bound


def test_twice_an_orthogonal_matrix_explodes_and_the_bound_of_two_holds():
    # errata_004, E17, E20 and E28: max tanh' is 1, not 0.42; s > 1 may explode, and s = 1 holds
    n = 64
    q = torch.linalg.qr(normal(n, n))[0]

    def spread(scale, noise):
        h = torch.zeros(1, n).double().requires_grad_()
        _, last = unroll(
            lambda a, h: rnn_step(a, h, scale * q), noise * normal(1, 100, n, seed=2), h
        )
        upstream = normal(1, n, seed=5)
        (gradient,) = torch.autograd.grad(last, h, upstream)
        return (gradient.norm() / upstream.norm()).item()

    assert spread(2.0, 0.1) > 1e3 and spread(2.0, 0.1) <= 2.0**100
    assert spread(0.8, 0.1) <= 0.8**100
    assert 0.5 < spread(1.0, 1e-3) <= 1


def test_an_lstm_counts_and_a_gru_cannot():
    # errata_004, E27
    ones = torch.full((1, 100, 1), 50.0, dtype=torch.float64)
    w = torch.zeros(4, 1).double()
    start = column(0.0), column(0.0)
    _, (_, c) = unroll(lambda a, s: lstm_step(a, s, w), ones.expand(1, 100, 4), start)
    assert c.item() == pytest.approx(100)
    gru, b = torch.zeros(3, 1).double(), torch.zeros(3).double()
    for z in (-50.0, 0.0, 50.0):
        a = torch.tensor([0.0, z, 50.0]).double().expand(1, 100, 3)
        _, h = unroll(lambda a, h: gru_step(a, h, gru, b), a, column(0.0))
        assert 0 <= h.item() <= 1


@pytest.mark.parametrize("form", [True, False])
def test_the_state_of_a_gru_stays_between_minus_one_and_one(form):
    gru = GRU(3, 5, reset_after=form).double()
    y, _ = gru(100 * normal(4, 50, 3), 2 * torch.rand(1, 4, 5).double() - 1)
    assert y.abs().max() <= 1


def test_large_inputs_saturate_and_stay_finite(name):
    layer, _, _ = pair(name, 3, 4, dtype=torch.float32)
    x = (1e6 * normal(2, 5, 3, dtype=torch.float32)).requires_grad_()
    y, _ = layer(x)
    y.backward(torch.ones_like(y))
    assert y.isfinite().all() and x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


# ---- counts, refusals, devices


@pytest.mark.parametrize(
    ("name", "sizes", "weights"),
    [
        ("RNN", (10, 20), 640),
        ("LSTM", (10, 20), 2_560),
        ("GRU", (10, 20), 1_920),
        ("LSTM", (10, 20, 2, True), 15_040),
        ("RNN", (512, 512), 525_312),
        ("LSTM", (512, 512), 2_101_248),
        ("GRU", (512, 512), 1_575_936),
    ],
)
def test_weights(name, sizes, weights):
    # cases 31 and 34; errata_004, E25
    with torch.device("meta"):
        assert count(KINDS[name][0](*sizes)).total == weights
    *sizes, both = sizes if len(sizes) == 4 else (*sizes, 1, False)
    assert recurrent_params(name.lower(), *sizes, 1 + both) == weights


@pytest.mark.parametrize("sizes", [(0, 4), (3, 0), (3, -1), (3, 4, 0)])
def test_refuses_sizes_without_sense(name, sizes):
    given = re.escape(str((*sizes, 1)[:3]))
    with pytest.raises(ValueError, match=f"{name} wants sizes and layers ≥ 1, got {given}"):
        KINDS[name][0](*sizes)


@pytest.mark.parametrize("shape", [(), (3,), (7, 3), (2, 7, 4), (2, 0, 3), (1, 2, 7, 3)])
def test_refuses_what_is_no_batch_of_sequences(name, shape):
    wanted = re.escape(f"{name} wants x (B, T, 3) with T ≥ 1, got {shape}")
    with pytest.raises(ValueError, match=wanted):
        KINDS[name][0](3, 4)(torch.ones(shape))


def test_torch_refuses_an_empty_sequence_as_well(name):
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
        KINDS[name][1](3, 4, batch_first=True)(torch.ones(2, 0, 3))


@pytest.mark.parametrize("shape", [(2, 4), (1, 2, 4), (4, 2, 5), (4, 3, 4), (2, 4, 4)])
def test_refuses_a_state_that_does_not_fit(name, shape):
    n = 2 if name == "LSTM" else 1
    state = [torch.zeros(shape)] * n
    wanted = re.escape(f"{name} wants a state {[(4, 2, 4)] * n}, got {[shape] * n}")
    with pytest.raises(ValueError, match=wanted):
        KINDS[name][0](3, 4, 2, True)(torch.ones(2, 7, 3), state if n == 2 else state[0])


def test_an_lstm_wants_two_states_and_the_others_one():
    x, h = torch.ones(2, 7, 3), torch.zeros(1, 2, 4)
    wanted = "LSTM wants a state [(1, 2, 4), (1, 2, 4)], got [(1, 2, 4)]"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        LSTM(3, 4)(x, h)
    wanted = "GRU wants a state [(1, 2, 4)], got [(1, 2, 4), (1, 2, 4)]"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        GRU(3, 4)(x, (h, h))


def test_works_on_another_device(name):
    with torch.device("meta"):
        layer = KINDS[name][0](3, 4, 2, True)
    y, _ = layer(torch.ones(2, 5, 3, device="meta"))
    assert y.device.type == "meta" and y.shape == (2, 5, 8)


def test_says_what_it_is():
    assert repr(RNN(3, 4)) == "RNN(3, 4, num_layers=1, bidirectional=False)"
    assert repr(LSTM(3, 4, 2, True)) == "LSTM(3, 4, num_layers=2, bidirectional=True)"
    assert repr(GRU(3, 4, reset_after=False)) == (
        "GRU(3, 4, num_layers=1, bidirectional=False, reset_after=False)"
    )
