#!/usr/bin/env python3
"""One row a family of ops: RLX and PyTorch in turn on the same arrays, values and gradients.

    bench/families.py [--threads T] [--rounds N] [--json] [ROW...]      rows by the start of their names; default: all

Needs the Python package (PYTHONPATH=bindings/python with RLX_LIBRARY=build/release/lib/librlx_c.so, or installed) and
PyTorch. Each round runs both, the first one changing; the time of a row is the fastest of all. `ratio` is PyTorch's time
over RLX's: above 1 RLX is faster. Both results are compared before they are timed; a row that differs is an error.
A call from Python adds some microseconds to either.
"""
import argparse
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import rlx
import rlx.numpy as rnp
from rlx import ops

random = np.random.default_rng(0)
ROWS = {}


def f32(*dims):
    return (random.random(dims, dtype=np.float32) - 0.5) * 2


def row(name, arrays, ours, theirs, gradient=(), tolerance=2e-4):
    """`ours` and `theirs` of the same arrays; `gradient` names the arguments of which the gradient is timed instead, with
    the value, for cotangents of ones."""
    ROWS[name] = (arrays, ours, theirs, tuple(gradient), tolerance)


def both(name, arrays, ours, theirs, wrt, tolerance=2e-4):
    row(name, arrays, ours, theirs, tolerance=tolerance)
    row(name + "_gradient", arrays, ours, theirs, wrt, tolerance)


def attention_heads(q, k, v):
    return ops.attention(q, k, v, heads=q.shape[1], causal=True)


def make_rows():
    square, image = f32(1024, 1024), f32(8, 64, 56, 56)
    ids = random.integers(0, 8192, (4096,))
    labels = random.integers(0, 8192, (256,))
    both("gelu", [square], ops.gelu, F.gelu, [0])
    row("tanh", [square], rnp.tanh, torch.tanh)
    row("log1p", [np.abs(square)], rnp.log1p, torch.log1p)
    row("lgamma", [np.abs(square) + 0.1], ops.lgamma, torch.lgamma)
    row("sum_rows", [square], lambda x: rnp.sum(x, axis=1), lambda x: x.sum(1))
    row("sum_columns", [square], lambda x: rnp.sum(x, axis=0), lambda x: x.sum(0))
    row("variance", [square], lambda x: rnp.var(x, axis=1), lambda x: x.var(1, unbiased=False))
    row("argmax", [square], lambda x: rnp.argmax(x, axis=1), lambda x: x.argmax(1))
    row("transpose", [f32(64, 128, 256)], lambda x: rnp.transpose(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1).contiguous())
    row("concatenate", [square, square], lambda x, y: rnp.concatenate([x, y], 1), lambda x, y: torch.cat([x, y], 1))
    row("pad_reflect", [image], lambda x: ops.pad_mode(x, mode="reflect", low=(0, 0, 1, 1), high=(0, 0, 1, 1)),
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"))
    row("cumsum", [square], lambda x: rnp.cumsum(x, axis=1), lambda x: x.cumsum(1), tolerance=1e-3)
    row("sort", [square], lambda x: rnp.sort(x, axis=1), lambda x: x.sort(1)[0])
    distinct = random.permuted(np.tile(np.arange(1024, dtype=np.float32), (1024, 1)), axis=1)
    row("argsort", [distinct], lambda x: ops.argsort(x, axis=1), lambda x: x.sort(1)[1])
    row("top_k", [square], lambda x: ops.top_k(x, k=16, axis=-1)[0], lambda x: x.topk(16)[0])
    both("take", [f32(8192, 256), ids], lambda t, i: ops.take(t, i), lambda t, i: F.embedding(i, t), [0])
    row("scatter_add", [f32(4096, 256), ids], lambda u, i: ops.scatter_add_rows(u, i, size=8192),
        lambda u, i: torch.zeros(8192, 256).index_add_(0, i, u))
    both("matmul", [square, square], rnp.matmul, torch.matmul, [0, 1], 1e-3)
    both("batched_matmul", [f32(64, 128, 64), f32(64, 64, 128)], rnp.matmul, torch.matmul, [0, 1], 1e-3)
    both("softmax", [square], lambda x: ops.softmax(x * x), lambda x: F.softmax(x * x, -1), [0])
    both("layer_norm", [square, f32(1024), f32(1024)], lambda x, g, b: ops.layer_norm(x, g, b),
         lambda x, g, b: F.layer_norm(x, (1024,), g, b), [0, 1, 2], 2e-3)
    both("rms_norm", [square, f32(1024)], lambda x, g: ops.rms_norm(x, g),
         lambda x, g: F.rms_norm(x, (1024,), g, 1e-5), [0, 1], 2e-3)
    both("group_norm", [image, f32(64), f32(64)], lambda x, g, b: ops.group_norm(x, g, b, num_groups=8),
         lambda x, g, b: F.group_norm(x, 8, g, b), [0, 1, 2], 0.05)
    both("attention", [f32(2, 8, 256, 64) for _ in range(3)], attention_heads,
         lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [0, 1, 2])
    both("conv2d", [image, f32(64, 64, 3, 3)], lambda x, w: ops.conv(x, w, padding=(1, 1)),
         lambda x, w: F.conv2d(x, w, padding=1), [0, 1], 0.2)
    both("conv1d", [f32(8, 64, 1024), f32(64, 64, 5)], lambda x, w: ops.conv(x, w, padding=(2,)),
         lambda x, w: F.conv1d(x, w, padding=2), [0, 1], 0.05)
    both("depthwise", [image, f32(64, 1, 3, 3)], lambda x, w: ops.conv(x, w, padding=(1, 1), groups=64),
         lambda x, w: F.conv2d(x, w, padding=1, groups=64), [0, 1], 0.05)
    both("conv_transpose", [f32(4, 64, 28, 28), f32(64, 32, 4, 4)],
         lambda x, w: ops.conv_transpose(x, w, stride=(2, 2), padding=(1, 1)),
         lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), [0, 1], 0.05)
    both("max_pool", [image], lambda x: ops.pool(x, kind="max", kernel_size=(2, 2), stride=(2, 2)),
         lambda x: F.max_pool2d(x, 2), [0])
    both("avg_pool", [image], lambda x: ops.pool(x, kind="mean", kernel_size=(2, 2), stride=(2, 2)),
         lambda x: F.avg_pool2d(x, 2), [0])
    row("interpolate", [f32(4, 32, 64, 64)], lambda x: ops.interpolate(x, size=(128, 128)),
        lambda x: F.interpolate(x, size=(128, 128), mode="nearest"))
    both("cross_entropy", [f32(256, 8192), labels],
         lambda x, t: rnp.mean(ops.softmax_cross_entropy_with_logits(x, t)), F.cross_entropy, [0])
    both("bce", [f32(1024, 1024), np.abs(f32(1024, 1024))], ops.binary_cross_entropy_with_logits,
         F.binary_cross_entropy_with_logits, [0])
    for kind, gates in (("lstm", 4), ("gru", 3)):
        recurrent_row(kind, gates)
    splat_row(400, 128)
    both("fft", [f32(64, 1024)], lambda x: rnp.abs(rlx.fft.fft(x)), lambda x: torch.fft.fft(x).abs(), [0], 2e-3)
    row("rfft", [f32(64, 1000)], lambda x: rnp.abs(rlx.fft.rfft(x)), lambda x: torch.fft.rfft(x).abs(), tolerance=2e-3)
    positive = f32(256, 256)
    positive = positive @ positive.T + 64 * np.eye(256, dtype=np.float32)
    both("cholesky", [positive], lambda x: rlx.linalg.cholesky((x + x.T) / 2), lambda x: torch.linalg.cholesky((x + x.T) / 2),
         [0], 0.05)
    both("solve", [positive, f32(256, 16)], rlx.linalg.solve, torch.linalg.solve, [0, 1], 2e-3)
    row("eigh", [positive], lambda x: rlx.linalg.eigh(x)[0], lambda x: torch.linalg.eigh(x)[0], tolerance=2e-2)
    row("svd", [f32(256, 128)], lambda x: rlx.linalg.svd(x, full_matrices=False)[1],
        lambda x: torch.linalg.svd(x, full_matrices=False)[1], tolerance=2e-3)
    row("quantize", [square], lambda x: ops.quantize(x, np.float32(1 / 128), np.int8(3)),
        lambda x: torch.quantize_per_tensor(x, 1 / 128, 3, torch.qint8).int_repr())
    row("fake_quantize", [square], lambda x: ops.clamp(ops.round_nearest_even(x * 128), min=-128, max=127) / 128,
        lambda x: torch.fake_quantize_per_tensor_affine(x, 1 / 128, 0, -128, 127))


def recurrent_row(kind, gates, steps=64, batch=16, width=128):
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](width, width, batch_first=True)
    weights = [p.detach().numpy() for p in module.parameters()]
    names = [n for n, _ in module.named_parameters()]

    def theirs(x, *given):
        return torch.func.functional_call(module, dict(zip(names, given)), (x,))[0]

    def ours(x, w_ih, w_hh, b_ih, b_hh):
        w_ih, w_hh = rnp.reshape(w_ih, (-1,)), rnp.reshape(w_hh, (-1,))
        if kind == "lstm":
            return ops.lstm(x, w_ih, w_hh, b_ih + b_hh, hidden_size=width)[0]
        return ops.gru(x, w_ih, w_hh, b_ih, b_hh, hidden_size=width)[0]

    both(kind, [f32(batch, steps, width), *weights], ours, theirs, range(5), 1e-2)


def splat_row(n, side):
    """A scene of n Gaussians as EWA splats against what one writes in PyTorch: all pixels and all Gaussians as one array."""
    scene = [f32(n, 3), f32(n, 3) * 0.5 - 3, f32(n, 4), f32(n) * 2, np.full((n, 3), 0.5, np.float32), f32(n, 4, 3) * 0.5]
    camera = np.array([0.3, 0.2, -3, 0, 0, 0, 0, 1, 0, 0.8], np.float32)
    background = np.array([0.1, 0.2, 0.3], np.float32)

    def ours(*operands):
        return ops.gaussian_splat_render(*operands, width=side, height=side, gamma=1.0, footprint="ewa", low_pass=0.3, alpha_cutoff=0.0)

    def theirs(positions, log_scales, rotations, opacities, colors, sh, camera, background):
        forward = F.normalize(camera[3:6] - camera[:3], dim=0)
        right = F.normalize(torch.linalg.cross(forward, camera[6:9]), dim=0)
        axes = torch.stack([right, torch.linalg.cross(forward, right), forward])
        focal = side / 2 / torch.tan(camera[9] / 2)
        toward = positions - camera[:3]
        m = toward @ axes.T
        order = torch.argsort(m[:, 2])
        m, toward = m[order], toward[order]
        u, v = m[:, 0] / m[:, 2], m[:, 1] / m[:, 2]
        x, y, z, w = F.normalize(rotations[order], dim=1).unbind(1)
        r = torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z),
                         2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1).reshape(-1, 3, 3)
        a = axes @ r * torch.exp(log_scales[order])[:, None]
        flat = torch.stack([a[:, 0] - u[:, None] * a[:, 2], a[:, 1] - v[:, None] * a[:, 2]], 1) * (focal / m[:, 2])[:, None, None]
        conic = torch.linalg.inv(flat @ flat.mT + 0.3 * torch.eye(2))
        d = F.normalize(toward, dim=1)
        basis = torch.stack([torch.full_like(u, 0.28209479), -0.48860251 * d[:, 1], 0.48860251 * d[:, 2], -0.48860251 * d[:, 0]], 1)
        shade = torch.relu(colors[order] + (basis[:, :, None] * sh[order]).sum(1))
        pixel = torch.arange(side) + 0.5
        dx = pixel[None, :, None] - (side / 2 + focal * u)
        dy = pixel[:, None, None] - (side / 2 + focal * v)
        q = conic[:, 0, 0] * dx * dx + 2 * conic[:, 0, 1] * dx * dy + conic[:, 1, 1] * dy * dy
        alpha = torch.where(q <= 9, torch.sigmoid(opacities[order]) * torch.exp(-q / 2), 0)
        light = torch.cumprod(1 - alpha, 2)
        before = torch.cat([torch.ones_like(light[:, :, :1]), light[:, :, :-1]], 2)
        return torch.cat([(before * alpha) @ shade + light[:, :, -1:] * background, 1 - light[:, :, -1:]], 2)

    # A pixel at the edge of a splat may count it or not, as its distance is rounded.
    both("splats", [*scene, camera, background], ours, theirs, range(6), 2e-2)


def rlx_runner(session, arrays, f, gradient):
    if not gradient:
        compiled = rlx.Jit(f, session=session)
    else:
        def value_and_gradients(*args):
            def of(*given):
                full = list(args)
                for i, x in zip(gradient, given):
                    full[i] = x
                return f(*full)
            value, back = rlx.vjp(of, *[args[i] for i in gradient])
            return (value, *back(rnp.ones_like(value)))
        compiled = rlx.Jit(value_and_gradients, session=session)
    return lambda: compiled(*arrays)


def torch_runner(arrays, f, gradient):
    tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]
    if not gradient:
        def values():
            with torch.inference_mode():
                return f(*tensors)
        return values
    for i in gradient:
        tensors[i].requires_grad_()
    def value_and_gradients():
        value = f(*tensors)
        return (value.detach(), *torch.autograd.grad(value, [tensors[i] for i in gradient], torch.ones_like(value)))
    return value_and_gradients


def check(name, ours, theirs, tolerance):
    ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


def fastest(run, seconds, clock):
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        begin = clock()
        run()
        best = min(best, clock() - begin)
        if time.perf_counter() > end:
            return 1e3 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15, help="of each program in each round")
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    session = rlx.Session("cpu", options.threads)
    # With one thread the processor's time, which other programs on the machine hardly change.
    clock = time.process_time if options.threads == 1 else time.perf_counter
    make_rows()
    chosen = [n for n in ROWS if not options.rows or any(n.startswith(r) for r in options.rows)]
    if not chosen:
        sys.exit(f"bench/families.py: no row begins with {' or '.join(options.rows)}; there are {', '.join(ROWS)}")
    failed = 0
    if not options.json:
        print(f"{'row':24}{'rlx ms':>10}{'torch ms':>10}{'ratio':>8}")
    for name in chosen:
        arrays, ours, theirs, gradient, tolerance = ROWS[name]
        try:
            programs = [rlx_runner(session, arrays, ours, gradient), torch_runner(arrays, theirs, gradient)]
            check(name, *(run() for run in programs), tolerance)
        except (AssertionError, rlx.Error, TypeError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = 1
            continue
        best = [float("inf")] * 2
        for i in range(options.rounds):
            for at in (0, 1) if i % 2 == 0 else (1, 0):
                best[at] = min(best[at], fastest(programs[at], options.seconds, clock))
        mine, other = best
        if options.json:
            print(json.dumps({"row": name, "threads": options.threads, "rlx_ms": round(mine, 4), "torch_ms": round(other, 4), "ratio": round(other / mine, 3)}), flush=True)
        else:
            print(f"{name:24}{mine:10.3f}{other:10.3f}{other / mine:8.2f}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
