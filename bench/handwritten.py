"""The usual ways to write a layer by hand, as tutorials and homework have them.

Each takes the input and then the weights of torch's layer, in torch's order. They are right, and
here because they are common.
"""

import math

import torch
import torch.nn.functional as F

# ---- dense layers and look-ups


def one_output_at_a_time(x, weight, bias):
    """A dense layer as a loop over its rows."""
    outputs = [(x * row).sum(-1) + b for row, b in zip(weight, bias, strict=True)]
    return torch.stack(outputs, dim=-1)


def onehot_product(ids, weight):
    """An embedding as the product that it stands for."""
    return F.one_hot(ids, len(weight)).to(weight.dtype) @ weight


# ---- attention


def one_query_at_a_time(q, k, v):
    """Attention as a loop over the queries."""
    rows = []
    for i in range(q.shape[-2]):
        scores = (k @ q[..., i, :, None]).squeeze(-1) / math.sqrt(q.shape[-1])
        rows.append((torch.softmax(scores, dim=-1)[..., None, :] @ v).squeeze(-2))
    return torch.stack(rows, dim=-2)


def head_by_head(x, in_weight, in_bias, out_weight, out_bias, *, n_heads):
    """Multi-head attention as a loop over heads, each with its own slices of the weights."""
    d = x.shape[-1] // n_heads
    (w_q, w_k, w_v), (b_q, b_k, b_v) = in_weight.chunk(3), in_bias.chunk(3)
    heads = []
    for i in range(n_heads):
        own = slice(i * d, (i + 1) * d)
        q = x @ w_q[own].T + b_q[own]
        k = x @ w_k[own].T + b_k[own]
        v = x @ w_v[own].T + b_v[own]
        scores = q @ k.transpose(-2, -1) / math.sqrt(d)
        heads.append(torch.softmax(scores, dim=-1) @ v)
    return torch.cat(heads, dim=-1) @ out_weight.T + out_bias


def softmax_without_a_shift(x):
    """Softmax as its first formula, which overflows above 88."""
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


# ---- norms


def mean_and_var(x, weight, bias, *, dims=-1, eps=1e-5):
    """LayerNorm, or over other axes BatchNorm, by ``x.mean`` and ``x.var``."""
    mean = x.mean(dims, keepdim=True)
    var = x.var(dims, correction=0, keepdim=True)
    if dims != -1:  # the weights belong to axis 1
        weight, bias = (w.view(-1, *[1] * (x.ndim - 2)) for w in (weight, bias))
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def root_mean_square(x, weight, *, eps):
    """RMSNorm as its formula."""
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


# ---- recurrence: at each step a product for the input, and one for each gate


def rnn_step_by_step(x, w_ih, w_hh, b_ih, b_hh):
    """An RNN with both products inside the loop."""
    h = x.new_zeros(len(x), w_hh.shape[1])
    outputs = []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh)
        outputs.append(h)
    return torch.stack(outputs, dim=1)


def lstm_gate_by_gate(x, w_ih, w_hh, b_ih, b_hh):
    """An LSTM with eight products inside the loop."""
    gates = [w.chunk(4) for w in (w_ih, w_hh, b_ih, b_hh)]
    h = c = x.new_zeros(len(x), w_hh.shape[1])
    outputs = []
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t] @ w.T + b + h @ u.T + c_ for w, u, b, c_ in zip(*gates, strict=True))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, dim=1)


def gru_gate_by_gate(x, w_ih, w_hh, b_ih, b_hh):
    """A GRU with six products inside the loop."""
    (w_r, w_z, w_n), (u_r, u_z, u_n) = w_ih.chunk(3), w_hh.chunk(3)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = b_ih.chunk(3), b_hh.chunk(3)
    h = x.new_zeros(len(x), w_hh.shape[1])
    outputs = []
    for t in range(x.shape[1]):
        r = torch.sigmoid(x[:, t] @ w_r.T + b_r + h @ u_r.T + c_r)
        z = torch.sigmoid(x[:, t] @ w_z.T + b_z + h @ u_z.T + c_z)
        n = torch.tanh(x[:, t] @ w_n.T + b_n + r * (h @ u_n.T + c_n))
        h = (1 - z) * n + z * h
        outputs.append(h)
    return torch.stack(outputs, dim=1)


# ---- convolution, at stride 1 with a border of zeros that keeps the size


def four_loops(x, weight, bias):
    """A convolution as loops over images, kernels, rows and columns."""
    (batch, _, rows, columns), k = x.shape, weight.shape[-1]
    x = F.pad(x, [k // 2] * 4)
    numbers = [
        (x[b, :, i : i + k, j : j + k] * weight[o]).sum() + bias[o]
        for b in range(batch)
        for o in range(len(weight))
        for i in range(rows)
        for j in range(columns)
    ]
    return torch.stack(numbers).view(batch, -1, rows, columns)


def loops_over_the_kernel(x, weight, bias):
    """A convolution as a sum of shifted images, one for each tap."""
    (*_, rows, columns), k = x.shape, weight.shape[-1]
    x, y = F.pad(x, [k // 2] * 4), 0
    for u in range(k):
        for v in range(k):
            shifted = x[:, :, u : u + rows, v : v + columns]
            y = y + torch.einsum("oc,bchw->bohw", weight[:, :, u, v], shifted)
    return y + bias[:, None, None]


def unfold_and_multiply(x, weight, bias):
    """A convolution as one product, the windows laid out by ``F.unfold``."""
    columns = F.unfold(x, weight.shape[-1], padding=weight.shape[-1] // 2)
    return (weight.flatten(1) @ columns + bias[:, None]).view(len(x), -1, *x.shape[2:])


def depthwise_over_the_kernel(x, weight, bias):
    """A depthwise convolution as a sum of shifted images."""
    (*_, rows, columns), k = x.shape, weight.shape[-1]
    x, y = F.pad(x, [k // 2] * 4), 0
    for u in range(k):
        for v in range(k):
            y = y + weight[:, 0, u, v, None, None] * x[:, :, u : u + rows, v : v + columns]
    return y + bias[:, None, None]


def one_step_at_a_time(x, weight, bias):
    """A convolution in time as a loop over the steps."""
    steps, k = x.shape[-1], weight.shape[-1]
    x = F.pad(x, [k // 2] * 2)
    outputs = [torch.einsum("ock,bck->bo", weight, x[..., t : t + k]) + bias for t in range(steps)]
    return torch.stack(outputs, dim=-1)


# ---- pooling, windows side by side


def windows_in_a_loop(x, *, k, reduce):
    """Pooling as a loop over windows."""
    rows, columns = x.shape[-2] // k, x.shape[-1] // k
    numbers = [
        reduce(x[..., i * k : i * k + k, j * k : j * k + k], dim=(-2, -1))
        for i in range(rows)
        for j in range(columns)
    ]
    return torch.stack(numbers, dim=-1).unflatten(-1, (rows, columns))
