"""Sequence models and fused blocks with their cotangents.

lstm, gru and rnn by PyTorch's own. The others by formulas that are not the recurrences of the op table: selective_scan and
mamba2 in closed form, every pair of steps at once (Dao, Gu, arXiv:2405.21060, section 3: the quadratic dual); the delta
rule by products of its transition matrices (Yang et al., arXiv:2412.06464, equation 10). JAX differentiates these.
"""
import math

import jax
import jax.numpy as jnp
import torch
import torch.nn.functional as F

from .case import *
from .derivative import by_jax, by_torch

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def flat_weights(kind, inputs, hidden, layers, directions):
    """The packed vectors of the op as torch.lstm wants them: w_ih, w_hh, b_ih, b_hh of each layer and direction."""
    rows = GATES[kind] * hidden
    w_ih, w_hh, biases = inputs[1], inputs[2], inputs[3:5] if kind == "gru" else [inputs[3], torch.zeros_like(inputs[3])]
    flat, at, width = [], 0, inputs[0].shape[-1]
    for block in range(layers * directions):
        columns = width if block < directions else directions * hidden
        flat += [w_ih[at:at + rows * columns].reshape(rows, columns), w_hh[block * rows * hidden:(block + 1) * rows * hidden].reshape(rows, hidden)]
        flat += [b[block * rows:(block + 1) * rows] for b in biases]
        at += rows * columns
    assert at == w_ih.shape[0]
    return flat


def by_module(kind, relu, hidden, layers, directions):
    def run(*inputs):
        flat = flat_weights(kind, inputs, hidden, layers, directions)
        fixed = 5 if kind == "gru" else 4
        states = list(inputs[fixed:]) or [inputs[0].new_zeros(layers * directions, inputs[0].shape[0], hidden)] * (2 if kind == "lstm" else 1)
        function = {"lstm": torch.lstm, "gru": torch.gru, "rnn": torch.rnn_relu if relu else torch.rnn_tanh}[kind]
        return function(inputs[0], states if kind == "lstm" else states[0], flat, True, layers, 0.0, False, directions == 2, True)

    return run


def check_against_module():
    """torch.lstm with our packing is nn.LSTM with its own parameters."""
    module = torch.nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, dtype=torch.float64)
    p = dict(module.named_parameters())
    names = [f"l{layer}{end}" for layer in range(2) for end in ("", "_reverse")]
    packed = [torch.cat([p[f"{kind}_{n}"].reshape(-1) for n in names]) for kind in ("weight_ih", "weight_hh")]
    bias = torch.cat([p[f"bias_ih_{n}"] + p[f"bias_hh_{n}"] for n in names])
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    y, (h, c) = module(x)
    for got, wanted in zip(by_module("lstm", False, 4, 2, 2)(x, *packed, bias), (y, h, c)):
        assert torch.allclose(got, wanted, atol=1e-12)


def stacked(f, kind):
    def add(name, batch=2, steps=5, width=3, hidden=4, layers=1, both=False, states=False, dtype=f32, relu=False, scale=0.5):
        d, rows = 2 if both else 1, GATES[kind] * hidden
        count = rows * width * d + rows * d * hidden * d * (layers - 1)
        case = f"{kind}_{name}"
        inputs = [normal(case + "x", (batch, steps, width), dtype), normal(case + "w", (count,), dtype, scale),
                  normal(case + "u", (layers * d * rows * hidden,), dtype, scale)]
        inputs += [normal(f"{case}b{i}", (layers * d * rows,), dtype, scale) for i in range(2 if kind == "gru" else 1)]
        if states:
            inputs += [normal(f"{case}s{i}", (layers * d, batch, hidden), dtype, 0.7) for i in range(2 if kind == "lstm" else 1)]
        f.add_derivative(case, kind, inputs, by_torch, by_module(kind, relu, hidden, layers, d), f"torch.{kind}, f64", hidden_size=hidden,
                         num_layers=layers, bidirectional=both, **({"relu": True} if relu else {}))

    for layers in (1, 2, 3):
        for both in (False, True):
            for states in (False, True):
                add(f"{layers}{'_both' if both else ''}{'_states' if states else ''}", layers=layers, both=both, states=states)
    add("f64", layers=2, both=True, states=True, dtype=f64)
    add("f16", states=True, dtype=f16)
    add("bf16", both=True, dtype=bf16)
    add("one_unit", hidden=1, width=1, batch=1)
    add("one_step", steps=1, states=True)
    add("long", steps=60, hidden=6, scale=0.3)
    add("wide", batch=3, steps=4, width=33, hidden=37, scale=0.15, states=True)
    add("many_sequences", batch=19, steps=3, width=5, hidden=9, both=True)
    add("saturated", scale=4, dtype=f64)
    if kind == "rnn":
        add("relu", relu=True, layers=2, both=True, states=True)
        add("relu_wide", relu=True, hidden=21, scale=0.2)


def lstm_layer(reverse):
    """torch.lstm step by step, its inputs given as products: the weights of the inputs are the identity."""
    def run(products, w_hh, h, c):
        eye, gates, cells, ys = torch.eye(products.shape[2], dtype=products.dtype), [], [], []
        order = range(products.shape[1])
        for t in reversed(order) if reverse else order:
            i, f, g, o = (products[:, t] + h @ w_hh.T).chunk(4, 1)
            gates.append(torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1))
            _, h, c = (x[0] for x in torch.lstm(products[:, t:t + 1], (h[None], c[None]), [eye, w_hh], False, 1, 0.0, False, False, True))
            ys.append(h), cells.append(c)
        stacked = [torch.stack(list(reversed(x)) if reverse else x, 1) for x in (ys, gates, cells)]
        return stacked[0], h, c, stacked[1], stacked[2]

    return run


def lstm_layer_backward(reverse):
    """The transpose, which JAX makes, of how small changes of products, h0 and c0 move the results."""
    def run(gates, cells, w_hh, c0, *cts):
        i, f, g, o = jnp.split(gates, 4, 2)
        order = range(gates.shape[1])
        order = list(reversed(order)) if reverse else list(order)

        def tangents(d_products, d_h, d_c):
            found, before = {}, c0
            for t in order:
                d_i, d_f, d_g, d_o = jnp.split(d_products[:, t] + d_h @ w_hh.T, 4, 1)
                d_i, d_f, d_g, d_o = d_i * i[:, t] * (1 - i[:, t]), d_f * f[:, t] * (1 - f[:, t]), d_g * (1 - g[:, t] ** 2), d_o * o[:, t] * (1 - o[:, t])
                d_c = f[:, t] * d_c + d_f * before + d_i * g[:, t] + i[:, t] * d_g
                squashed = jnp.tanh(cells[:, t])
                d_h = d_o * squashed + o[:, t] * (1 - squashed ** 2) * d_c
                before = cells[:, t]
                found[t] = d_h, jnp.concatenate([d_i, d_f, d_g, d_o], 1), d_c
            y, d_gates, d_cells = (jnp.stack([found[t][k] for t in sorted(found)], 1) for k in range(3))
            return (y, d_h, d_c) + ((d_gates, d_cells) if len(cts) > 3 else ())

        return jax.vjp(tangents, jnp.zeros_like(gates), jnp.zeros_like(c0), jnp.zeros_like(c0))[1](cts)

    return run


def layers_of_lstm(f):
    def add(name, batch=2, steps=5, hidden=4, reverse=False, dtype=f32, of_gates=False):
        case = f"lstm_layer_{name}"
        given = {"reverse": True} if reverse else {}
        state, y = (batch, hidden), (batch, steps, hidden)
        w_hh = normal(case + "u", (4 * hidden, hidden), dtype, 0.5 * (4 / max(hidden, 4)) ** 0.5)
        f.add_derivative(case, "lstm_layer", [normal(case + "x", (batch, steps, 4 * hidden), dtype), w_hh, normal(case + "h", state, dtype, 0.7),
                                              normal(case + "c", state, dtype, 0.7)], by_torch, lstm_layer(reverse), "torch.lstm, f64", **given)
        back = f"lstm_layer_backward_{name}"
        inputs = [uniform(back + "gates", (batch, steps, 4 * hidden), 0.05, 0.95, dtype), normal(back + "cells", y, dtype), w_hh, normal(back + "c", state, dtype),
                  normal(back + "y_ct", y, dtype), normal(back + "h_ct", state, dtype), normal(back + "c_ct", state, dtype)]
        if of_gates:
            inputs += [normal(back + "gates_ct", (batch, steps, 4 * hidden), dtype), normal(back + "cells_ct", y, dtype)]
        f.add_derivative(back, "lstm_layer_backward", inputs, by_jax, lstm_layer_backward(reverse), "the transpose of its tangents, jax.vjp, f64", **given)

    add("plain")
    add("reverse", reverse=True)
    add("f64", dtype=f64, reverse=True)
    add("f16", dtype=f16)
    add("bf16", dtype=bf16, reverse=True)
    add("one_step", steps=1)
    add("one_unit", hidden=1, batch=1)
    add("wide", batch=3, steps=3, hidden=37)
    add("whole_vectors", batch=7, steps=3, hidden=16, reverse=True)
    add("of_gates", of_gates=True)
    add("of_gates_reverse_f64", of_gates=True, reverse=True, dtype=f64)


def selective(x, delta, a, b, c, state=None):
    """y_t = c_t . (exp(a sum of delta up to t) s_0 + sum over r <= t of exp(a sum of delta between) delta_r x_r b_r)"""
    total = jnp.cumsum(delta, axis=1)
    steps = x.shape[1]
    between = jnp.where(jnp.tril(jnp.ones((steps, steps)))[None, :, :, None] > 0, total[:, :, None] - total[:, None], 0)  # b t r h
    weight = jnp.exp(between[..., None] * a) * jnp.tril(jnp.ones((steps, steps)))[None, :, :, None, None]  # b t r h n
    states = jnp.einsum("btrhn,brh,brn->bthn", weight, delta * x, b)
    if state is not None:
        states = states + jnp.exp(total[..., None] * a) * state[:, None]
    return jnp.einsum("bthn,btn->bth", states, c), states[:, -1]


def dual(x, dt, a, b, c, state=None):
    total = jnp.cumsum(dt * a, axis=1)  # b t h
    steps = x.shape[1]
    lower = jnp.tril(jnp.ones((steps, steps)))[None, :, :, None]
    decay = jnp.exp(jnp.where(lower > 0, total[:, :, None] - total[:, None], 0)) * lower  # b t r h
    y = jnp.einsum("bthn,brhn,btrh,brh,brhp->bthp", c, b, decay, dt, x)
    last = jnp.einsum("brh,brh,brhp,brhn->bhpn", decay[:, -1], dt, x, b)
    if state is not None:
        y = y + jnp.einsum("bthn,bth,bhpn->bthp", c, jnp.exp(total), state)
        last = last + jnp.exp(total[:, -1])[..., None, None] * state
    return y, last


def delta_rule(q, k, v, g, beta, state=None):
    """S_t = (I - beta k k') diag(exp g) S_(t-1) + beta k v'"""
    batch, steps, heads, n = q.shape
    s = jnp.zeros((batch, heads, n, v.shape[-1])) if state is None else state
    g = jnp.broadcast_to(g[..., None], q.shape) if g.ndim == 3 else g
    out = []
    for t in range(steps):
        kt, bt = k[:, t], beta[:, t][..., None, None]
        transition = (jnp.eye(n) - bt * kt[..., :, None] * kt[..., None, :]) * jnp.exp(g[:, t])[..., None, :]
        s = transition @ s + bt * kt[..., :, None] * v[:, t][..., None, :]
        out.append(jnp.einsum("bhn,bhnm->bhm", q[:, t], s) * n ** -0.5)
    return jnp.stack(out, 1), s


def delta_rule_backward(q, k, v, g, beta, state, y_ct, state_ct):
    return jax.vjp(delta_rule, q, k, v, g, beta, state)[1]((y_ct, state_ct))


def linear_recurrences(f):
    def scan(name, batch=2, steps=5, channels=4, n=3, state=False, dtype=f32):
        case = f"selective_scan_{name}"
        inputs = [normal(case + "x", (batch, steps, channels), dtype), uniform(case + "delta", (batch, steps, channels), 0.02, 0.9, dtype),
                  uniform(case + "a", (channels, n), -2, -0.1, dtype), normal(case + "b", (batch, steps, n), dtype), normal(case + "c", (batch, steps, n), dtype)]
        if state:
            inputs.append(normal(case + "s", (batch, channels, n), dtype))
        f.add_derivative(case, "selective_scan", inputs, by_jax, selective, "closed form in jax, f64")

    def mamba(name, batch=2, steps=5, heads=2, width=3, n=4, state=False, dtype=f32):
        case = f"mamba2_{name}"
        inputs = [normal(case + "x", (batch, steps, heads, width), dtype), uniform(case + "dt", (batch, steps, heads), 0.02, 0.9, dtype),
                  uniform(case + "a", (heads,), -2, -0.1, dtype), normal(case + "b", (batch, steps, heads, n), dtype), normal(case + "c", (batch, steps, heads, n), dtype)]
        if state:
            inputs.append(normal(case + "s", (batch, heads, width, n), dtype))
        f.add_derivative(case, "mamba2", inputs, by_jax, dual, "quadratic dual form in jax, f64")

    def delta(name, batch=2, steps=5, heads=2, n=4, m=None, state=False, per_channel=False, dtype=f32, backward=False):
        case, m = f"gated_delta_net{'_backward' if backward else ''}_{name}", m or n
        unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
        inputs = [unit(normal(case + "q", (batch, steps, heads, n), f64)).astype(dtype), unit(normal(case + "k", (batch, steps, heads, n), f64)).astype(dtype),
                  normal(case + "v", (batch, steps, heads, m), dtype), uniform(case + "g", (batch, steps, heads) + ((n,) if per_channel else ()), -1.5, 0, dtype),
                  uniform(case + "beta", (batch, steps, heads), 0, 1, dtype)]
        if state or backward:
            inputs.append(normal(case + "s", (batch, heads, n, m), dtype))
        if backward:
            inputs += [normal(case + "y_ct", (batch, steps, heads, m), dtype), normal(case + "s_ct", (batch, heads, n, m), dtype)]
            f.add_derivative(case, "gated_delta_net_backward", inputs, by_jax, delta_rule_backward, "jax.vjp of products of transition matrices, f64")
        else:
            f.add_derivative(case, "gated_delta_net", inputs, by_jax, delta_rule, "products of transition matrices in jax, f64")

    for add in (scan, mamba, delta):
        add("plain")
        add("state", state=True)
        add("f64", dtype=f64, state=True)
        add("f16", dtype=f16)
        add("bf16", dtype=bf16, state=True)
        add("one_step", steps=1, state=True)
        add("one_sequence", batch=1)
        add("long", steps=70, batch=1, state=True)
        add("state_of_one", n=1)
        add("state_of_19", n=19, state=True)
        add("state_of_64", n=64, batch=1, steps=4)
    scan("channels_37", channels=37, state=True)
    scan("channels_1", channels=1)
    mamba("heads_1", heads=1, state=True)
    mamba("heads_5", heads=5, width=17)
    mamba("width_1", width=1)
    for wide in (False, True):
        end = "_wide" if wide else ""
        delta("values" + end, n=3, m=17 if wide else 2, state=True)
        delta("per_channel" + end, n=21 if wide else 4, per_channel=True, state=True)
        delta("plain" + end, n=9 if wide else 3, backward=True)
        delta("per_channel" + end, n=3, m=9 if wide else 2, per_channel=True, backward=True)
    delta("per_channel_f64", per_channel=True, dtype=f64)
    delta("per_channel_stateless", per_channel=True)
    delta("f64", dtype=f64, backward=True)
    delta("one_step", steps=1, backward=True)


ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
               "sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu6": F.relu6, "hard_swish": F.hardswish}


def turned(x, cos, sin, heads, style):
    """x[B, S, heads D] by tables [S, D / 2], as complex numbers."""
    y = x.reshape(*x.shape[:2], heads, -1)
    half = y.shape[-1] // 2
    first, second = (y[..., :half], y[..., half:]) if style == "neox" else (y[..., ::2], y[..., 1::2])
    z = torch.complex(first, second) * torch.complex(cos, sin)[None, :, None]
    pair = torch.cat([z.real, z.imag], -1) if style == "neox" else torch.stack([z.real, z.imag], -1).flatten(-2)
    return pair.reshape(x.shape)


def attention_block(hidden, mask, qkv_w, out_w, heads, qkv_b=None, out_b=None, cos=None, sin=None, style="neox", causal=False, window=None, kind="key_padding"):
    qkv = hidden @ qkv_w + (0 if qkv_b is None else qkv_b)
    q, k, v = qkv.chunk(3, -1)
    if cos is not None:
        q, k = turned(q, cos, sin, heads, style), turned(k, cos, sin, heads, style)
    q, k, v = (t.reshape(*t.shape[:2], heads, -1).transpose(1, 2) for t in (q, k, v))
    place = torch.arange(hidden.shape[1])
    ahead = place[:, None] - place
    seen = (ahead >= (0 if causal else -len(place))) & (ahead.abs() <= (len(place) if window is None else window))
    if kind == "key_padding": seen = seen & (mask >= 0.5)[:, None, None]
    if kind == "bias": seen = mask.masked_fill(~seen, -math.inf)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return y.transpose(1, 2).flatten(2) @ out_w + (0 if out_b is None else out_b)


def transformer_layer(hidden, mask, qkv_w, out_w, g1, fc1_w, fc2_w, g2, *biases, heads, epsilon, activation, **sees):
    qkv_b, out_b, b1, fc1_b, fc2_b, b2 = biases or [None] * 6
    norm = lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b, epsilon)
    h = norm(hidden + attention_block(hidden, mask, qkv_w, out_w, heads, qkv_b, out_b, **sees), g1, b1)
    inner = ACTIVATIONS[activation](h @ fc1_w + (0 if fc1_b is None else fc1_b))
    return norm(h + inner @ fc2_w + (0 if fc2_b is None else fc2_b), g2, b2)


def fused(f):
    def conv(name, x, w, activation, bias=False, residual=False, dtype=f32, **attributes):
        case = f"fused_conv_{name}"
        spatial = len(x) - 2
        given = {k: attributes.get(k, [d] * spatial) for k, d in (("stride", 1), ("dilation", 1))}
        low = attributes.get("padding", [0] * spatial)
        edges = [e for pair in zip(low, attributes.get("padding_high", low)) for e in pair]
        groups, last = attributes.get("groups", 1), attributes.get("channels_last", False)
        torch_conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[spatial]

        def plain(x, w, b):
            x = F.pad(x.movedim(-1, 1) if last else x, [e for i in reversed(range(spatial)) for e in edges[2 * i : 2 * i + 2]])
            y = torch_conv(x, w, b, **given, groups=groups)
            return y.movedim(1, -1) if last else y

        def run(x, w, *more):
            y = plain(x, w, more[0] if bias else None)
            return ACTIVATIONS[activation](y + more[-1] if residual else y)

        inputs = [normal(case + "x", x, dtype), normal(case + "w", w, dtype, 0.5)]
        if bias:
            inputs.append(normal(case + "b", (w[0],), dtype))
        if residual:
            shape = plain(torch.zeros(x), torch.zeros(w), None).shape
            inputs.append(normal(case + "r", tuple(shape), dtype))
        f.add_derivative(case, "fused_conv", inputs, by_torch, run, "torch convolution, f64", **attributes, has_bias=bias, has_residual=residual,
                         activation=activation)

    conv("plain", (2, 3, 6, 5), (4, 3, 3, 3), "none")
    conv("bias_relu", (2, 3, 6, 5), (4, 3, 3, 3), "relu", bias=True, padding=[1, 1])
    conv("residual_gelu", (1, 4, 9), (6, 2, 3), "gelu", residual=True, stride=[2], padding=[1], groups=2)
    conv("bias_residual_silu", (1, 2, 4, 5, 4), (3, 2, 2, 2, 2), "silu", bias=True, residual=True)
    conv("bias_residual_tanh_f64", (2, 2, 7), (3, 2, 3), "tanh", bias=True, residual=True, dtype=f64, dilation=[2])
    conv("relu6_uneven", (2, 3, 6, 5), (4, 3, 3, 3), "relu6", bias=True, stride=[2, 2], padding=[0, 0], padding_high=[1, 1])
    conv("hard_swish", (1, 2, 7), (3, 2, 3), "hard_swish", bias=True, residual=True)
    last = dict(channels_last=True)
    conv("last_bias_relu", (2, 6, 5, 3), (4, 3, 3, 3), "relu", bias=True, padding=[1, 1], **last)
    conv("last_depthwise", (1, 7, 12, 21), (21, 1, 3, 3), "relu6", bias=True, residual=True, padding=[1, 1], groups=21, **last)
    conv("last_depthwise_strided", (1, 9, 20, 16), (16, 1, 5, 3), "none", bias=True, stride=[2, 1], padding=[2, 0], padding_high=[1, 2], dilation=[1, 2], groups=16, **last)
    conv("last_depthwise_1d", (2, 12, 5), (5, 1, 4), "silu", stride=[3], padding=[2], groups=5, **last)
    conv("last_pointwise", (2, 5, 4, 24), (40, 24, 1, 1), "relu", bias=True, residual=True, **last)
    conv("last_grouped", (1, 6, 6, 8), (12, 4, 3, 3), "gelu", residual=True, stride=[2, 2], padding=[1, 1], groups=2, **last)
    conv("last_3d", (1, 4, 5, 4, 2), (3, 2, 2, 2, 2), "silu", bias=True, residual=True, **last)
    conv("large", (1, 32, 12, 10), (24, 32, 3, 3), "relu", bias=True, residual=True, padding=[1, 1])
    conv("last_large", (1, 12, 10, 32), (24, 32, 3, 3), "relu", bias=True, residual=True, padding=[1, 1], **last)
    conv("last_large_strided", (1, 21, 14, 32), (17, 32, 3, 3), "hard_swish", bias=True, stride=[2, 2], padding=[1, 1], **last)
    conv("f16", (1, 3, 6, 6), (2, 3, 3, 3), "sigmoid", bias=True, dtype=f16)
    conv("bf16", (1, 3, 6, 6), (2, 3, 3, 3), "gelu_tanh", bias=True, residual=True, dtype=bf16)

    def mask_of(case, kind, dims, heads, dtype):
        """The operand behind the first one, if there is one."""
        b, s, _ = dims
        if kind == "none": return []
        if kind == "bias": return [normal(case + "m", (b, heads, s, s), dtype)]
        mask = np.ones((b, s), dtype)
        mask[-1, s - s // 3:] = 0
        return [mask]

    def with_mask_place(kind, operands):
        return [operands[0], None, *operands[1:]] if kind == "none" else operands

    def block(name, dims=(2, 5, 12), heads=3, width=4, bias=False, style=None, dtype=f32, kind="key_padding", **sees):
        case = f"fused_attention_block_{name}"
        b, s, e = dims
        inputs = [normal(case + "x", dims, dtype), *mask_of(case, kind, dims, heads, dtype), normal(case + "w", (e, 3 * heads * width), dtype, e ** -0.5), normal(case + "o", (heads * width, e), dtype, e ** -0.5)]
        if bias:
            inputs += [normal(case + "qb", (3 * heads * width,), dtype), normal(case + "ob", (e,), dtype)]
        if style:
            angle = np.arange(s)[:, None] / 100.0 ** (np.arange(width // 2) / (width // 2))
            inputs += [np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)]

        def run(*operands):
            hidden, mask, qkv_w, out_w, *more = with_mask_place(kind, operands)
            return attention_block(hidden, mask, qkv_w, out_w, heads, *(more[:2] if bias else (None, None)), *(more[-2:] if style else (None, None)), style or "neox",
                                   kind=kind, **sees)

        f.add_derivative(case, "fused_attention_block", inputs, by_torch, run, "torch scaled_dot_product_attention, f64", heads=heads, has_bias=bias,
                         has_rope=bool(style), rope_style=style, **({} if kind == "key_padding" else {"mask": kind}), **sees)

    block("plain")
    block("bias", bias=True)
    block("neox", style="neox")
    block("gptj_bias", style="gptj", bias=True)
    block("f64", style="neox", bias=True, dtype=f64)
    block("narrow", dims=(1, 3, 5), heads=2, width=6, bias=True)
    block("f16", bias=True, dtype=f16)
    block("causal", kind="none", causal=True, style="neox", bias=True)
    block("window", kind="none", window=1)
    block("bias_window", kind="bias", window=2, bias=True)

    def layer(name, dims=(2, 5, 12), heads=3, inner=20, bias=True, activation="gelu", epsilon=1e-5, dtype=f32, kind="key_padding", **sees):
        case = f"fused_transformer_layer_{name}"
        b, s, e = dims
        one = lambda i, *shape: normal(f"{case}{i}", shape, dtype, shape[0] ** -0.5)
        inputs = [normal(case + "x", dims, dtype), *mask_of(case, kind, dims, heads, dtype), one(0, e, 3 * e), one(1, e, e), 1 + one(2, e), one(3, e, inner), one(4, inner, e), 1 + one(5, e)]
        inputs = [x.astype(dtype) for x in inputs]
        if bias:
            inputs += [one(6, 3 * e), one(7, e), one(8, e), one(9, inner), one(10, e), one(11, e)]
        f.add_derivative(case, "fused_transformer_layer", inputs, by_torch,
                         lambda *all: transformer_layer(*with_mask_place(kind, all), heads=heads, epsilon=epsilon, activation=activation, kind=kind, **sees),
                         "torch functions, f64", heads=heads, epsilon=epsilon, has_bias=bias, activation=activation,
                         **({} if kind == "key_padding" else {"mask": kind}), **sees)

    layer("bert")
    layer("without_bias", bias=False)
    layer("tanh_f64", activation="tanh", dtype=f64, epsilon=1e-12)
    layer("gelu_tanh", activation="gelu_tanh", heads=1)
    layer("relu_narrow", activation="relu", dims=(1, 2, 4), heads=2, inner=3)
    layer("all", kind="none", bias=False)
    layer("causal", kind="none", causal=True)
    layer("sliding_window", kind="none", causal=True, window=1, bias=False)
    layer("padding_causal", causal=True)
    layer("bias", kind="bias", activation="relu")


def cases():
    check_against_module()
    f, g, h = Family("recurrent"), Family("state_space"), Family("fused_blocks")
    for kind in GATES:
        stacked(f, kind)
    layers_of_lstm(f)
    linear_recurrences(g)
    fused(h)
    return [f, g, h]
