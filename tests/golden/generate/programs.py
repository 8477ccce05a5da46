"""Values and cotangents of the programs in tests/e2e/programs_test.cpp, by other means than theirs where there are some.

usage: programs.py
writes tests/golden/programs/: NAME.safetensors (in0, ..., ct0, ..., out0, ..., d0, ...: what goes in, the cotangents of
what comes out, what comes out, the cotangents of what went in), versions.json
"""
import jax
import jax.numpy as jnp
import numpy as np
import recorded
import torch
import torch.nn.functional as F
from ops.case import integers, normal, uniform, write_safetensors

jax.config.update("jax_enable_x64", True)
f64 = np.float64


def write(out, name, inputs, outputs, cotangents, gradients):
    tensors = {}
    for kind, values in (("in", inputs), ("out", outputs), ("ct", cotangents), ("d", gradients)):
        tensors |= {f"{kind}{i}": np.asarray(v) if np.asarray(v).dtype.kind == "i" else np.asarray(v, f64) for i, v in enumerate(values)}
    write_safetensors(out / f"{name}.safetensors", tensors)
    print(f"{name}: {len(inputs)} inputs, {len(outputs)} outputs")


def by_torch(function, inputs, cotangents):
    tensors = [torch.from_numpy(x).requires_grad_() for x in inputs]
    values = function(*tensors)
    torch.autograd.backward(values, [torch.from_numpy(ct) for ct in cotangents])
    return [v.detach().numpy() for v in values], [t.grad.numpy() for t in tensors]


def lstm(out):
    """nn.LSTM's own kernel and derivative; the program is a scan over a cell. Seq first."""
    steps, batch, width, hidden = 7, 3, 5, 4
    inputs = [normal(f"lstm{i}", dims, f64, 0.6) for i, dims in enumerate([(steps, batch, width), (4 * hidden, width), (4 * hidden, hidden), (4 * hidden,), (batch, hidden), (batch, hidden)])]
    cotangents = [normal(f"lstm ct{i}", dims, f64) for i, dims in enumerate([(steps, batch, hidden), (batch, hidden), (batch, hidden)])]

    def run(x, w, u, b, h, c):
        y, h_n, c_n = torch.lstm(x, (h[None], c[None]), [w, u, b, torch.zeros_like(b)], True, 1, 0.0, False, False, False)
        return y, h_n[0], c_n[0]

    write(out, "lstm", inputs, *(lambda y, d: (y, cotangents, d))(*by_torch(run, inputs, cotangents)))


def fixed_point(out):
    """z = tanh(w z + x). The program iterates; here: the derivative of what z solves, (I - diag(1 - z^2) w)^-1."""
    w, x, ct = normal("fixed w", (6, 6), f64, 0.2), normal("fixed x", (6,), f64), normal("fixed ct", (6,), f64)
    z = np.zeros(6)
    for _ in range(500):
        z = np.tanh(w @ z + x)
    slope = 1 - z ** 2
    adjoint = np.linalg.solve((np.eye(6) - slope[:, None] * w).T, ct) * slope
    write(out, "fixed_point", [w, x], [z], [ct], [np.outer(adjoint, z), adjoint])


def attention(out):
    """Projections, soft-capped attention in a causal window with grouped heads, and an output projection."""
    batch, length, width, heads, kv, head = 2, 9, 12, 4, 2, 6
    inputs = [normal(f"attention{i}", dims, f64, 0.5) for i, dims in enumerate([(batch, length, width), (width, heads * head), (width, kv * head), (width, kv * head), (heads * head, width)])]
    ct = normal("attention ct", (batch, length, width), f64)

    def run(x, wq, wk, wv, wo):
        split = lambda y, n: y.reshape(batch, length, n, head).transpose(1, 2)
        q, k, v = split(x @ wq, heads), split(x @ wk, kv).repeat_interleave(heads // kv, 1), split(x @ wv, kv).repeat_interleave(heads // kv, 1)
        scores = 2.0 * torch.tanh(q @ k.transpose(2, 3) * 0.4 / 2.0)
        at = torch.arange(length)
        behind = at[:, None] - at[None]
        scores = scores.masked_fill((behind < 0) | (behind > 3), -torch.inf)
        return ((F.softmax(scores, -1) @ v).transpose(1, 2).flatten(2) @ wo,)

    values, gradients = by_torch(run, inputs, [ct])
    write(out, "attention", inputs, values, [ct], gradients)


def solve(out):
    """x of a x = b, for a batch; the cotangent of b solves the transposed system."""
    a = normal("solve a", (3, 5, 5), f64, 0.3) + 2 * np.eye(5)
    b, ct = normal("solve b", (3, 5), f64), normal("solve ct", (3, 5), f64)
    x = np.linalg.solve(a, b[..., None])[..., 0]
    d_b = np.linalg.solve(a.transpose(0, 2, 1), ct[..., None])[..., 0]
    write(out, "solve", [a, b], [x], [ct], [-d_b[:, :, None] * x[:, None], d_b])


def descent(out):
    """The loss after ten steps of gradient descent, differentiated by the first guess and by the rate: a derivative of
    derivatives, in a loop."""
    x, y, w, rate = normal("descent x", (8, 4), f64), normal("descent y", (8,), f64), normal("descent w", (4,), f64), np.asarray(0.07)
    loss = lambda w, x, y: jnp.mean(jnp.square(jnp.tanh(x @ w) - y))

    def run(x, y, w, rate):
        for _ in range(10):
            w = w - rate * jax.grad(loss)(w, x, y)
        return loss(w, x, y)

    inputs = [x, y, w, rate]
    value, pull = jax.vjp(run, *inputs)
    write(out, "descent", inputs, [value], [1.0], pull(jnp.asarray(1.0)))


def fft_convolution(out):
    """The full linear convolution of signals with a filter, and its derivatives: by sums over places, without a transform."""
    x, h, ct = normal("fft x", (3, 13), f64), normal("fft h", (5,), f64), normal("fft ct", (3, 17), f64)
    y = np.stack([np.convolve(row, h) for row in x])
    d_x = np.stack([np.correlate(row, h, "valid") for row in ct])
    d_h = sum(np.correlate(row, signal, "valid") for row, signal in zip(ct, x))
    write(out, "fft_convolution", [x, h], [y], [ct], [d_x, d_h])


def int4_matmul(out):
    """x times weights of four bits, [k, n] with a scale and a zero point for 8 rows each: the weights widened in NumPy."""
    k, n, block = 24, 7, 8
    x, q = normal("int4 x", (5, k), f64), integers("int4 q", (k, n), -8, 8, np.dtype(np.int8))
    scale, zero = uniform("int4 scale", (k // block, n), 0.05, 0.2, np.dtype(f64)), integers("int4 zero", (k // block, n), -3, 4, np.dtype(np.int8))
    ct = normal("int4 ct", (5, n), f64)
    codes = q.astype(f64) - np.repeat(zero.astype(f64), block, 0)
    w = codes * np.repeat(scale, block, 0)
    d_scale = (codes * (x.T @ ct)).reshape(k // block, block, n).sum(1)
    write(out, "int4_matmul", [x, q, scale, zero], [x @ w], [ct], [ct @ w.T, d_scale])


if __name__ == "__main__":
    folder = recorded.folder("programs")
    for program in (lstm, fixed_point, attention, solve, fft_convolution, int4_matmul, descent):
        program(folder)
    recorded.write_versions(folder, "programs.py", ["numpy", "torch", "jax"])
