"""Signals and sound: SciPy, PyTorch, and, where neither has the operation, NumPy by its definition. The transform in fixed
point is bit by bit what NumPy's i64 makes of the same sums, and must be near scipy.fft."""
import math

import scipy.fft
import scipy.signal
import torch

from .case import *
from .derivative import by_torch, cotangents_of


def bumps(x, grid):
    n, low, high = grid
    h = (high - low) / (n - 1) if n > 1 else 1.0
    centres = low + h * torch.arange(n, dtype=torch.float64)
    return torch.exp(-((x[..., None] - centres) / h) ** 2)


def splines(f):
    for name, dims, grid, dtype in (("plain", (6, 4), (5, -1.0, 1.0), f32), ("odd", (2, 3, 7), (8, -2.0, 2.0), f32), ("one", (3, 5), (1, 0.5, 0.5), f32),
                                    ("row", (9,), (3, -1.0, 1.5), f32), ("f64", (4, 3), (6, -2.0, 1.0), f64), ("bf16", (3, 5), (4, -1.0, 1.0), bf16),
                                    ("f16", (3, 5), (4, -1.0, 1.0), f16)):
        n, low, high = grid
        x, coeff = normal("sp" + name, dims, dtype), normal("spc" + name, (dims[-1], n), dtype)
        attributes = dict(grid_min=low, grid_max=high)
        f.add_derivative(f"spline_activation_{name}", "spline_activation", [x, coeff], by_torch, lambda x, c: (bumps(x, grid) * c).sum(-1), "torch in f64", **attributes)
        ct = normal("spt" + name, dims, dtype)
        wide = [torch.from_numpy(v.astype(f64)).requires_grad_() for v in (x, coeff)]
        (bumps(wide[0], grid) * wide[1]).sum(-1).backward(torch.from_numpy(ct.astype(f64)))
        f.add(f"spline_activation_backward_x_{name}", "spline_activation_backward_x", [x, coeff, ct], [wide[0].grad.numpy().astype(dtype)], "torch in f64", **attributes)
        f.add(f"spline_activation_backward_coeff_{name}", "spline_activation_backward_coeff", [x, ct], [wide[1].grad.numpy().astype(dtype)], "torch in f64",
              num_basis=n, **attributes)


def codebooks(f):
    for name, dims, rows, blocks, entries, width, dtype, index in (("plain", (4, 12), 5, 3, 7, 4, f32, u8), ("odd", (2, 3, 35), 3, 5, 11, 7, f32, i32), ("row", (6,), 4, 6, 3, 1, f32, i64),
                                                                   ("whole", (3, 5), 4, 1, 2, 5, f32, u8), ("f64", (3, 8), 6, 2, 9, 4, f64, u8), ("bf16", (3, 8), 6, 2, 9, 4, bf16, u8)):
        x, indices, book = normal("cx" + name, dims, dtype), integers("ci" + name, (rows, blocks), 0, entries, index), normal("cb" + name, (entries, width), dtype)
        weights = lambda i, c: c[i.long()].reshape(rows, blocks * width)
        f.add_derivative(f"synth_reconstruct_{name}", "synth_reconstruct", [indices, book], by_torch, weights, "torch indexing")
        f.add_derivative(f"synth_matmul_{name}", "synth_matmul", [x, indices, book], by_torch, lambda x, i, c: x @ weights(i, c).T, "torch in f64")
        ct = normal("cc" + name, (*dims[:-1], rows), dtype)
        wide = [torch.from_numpy(v.astype(f64)).requires_grad_() for v in (x, book)]
        (wide[0] @ weights(torch.from_numpy(indices.astype(i64)), wide[1]).T).backward(torch.from_numpy(ct.astype(f64)))
        f.add(f"synth_matmul_backward_{name}", "synth_matmul_backward", [x, indices, book, ct], [w.grad.numpy().astype(dtype) for w in wide], "torch in f64")


def in_blocks(z):
    return np.concatenate([z.real, z.imag], axis=-1)


def power_of(t, bins):
    if t.is_complex():
        return t[..., :bins].abs() ** 2
    n = t.shape[-1] // 2
    return t[..., :bins] ** 2 + t[..., n:n + bins] ** 2


def log_mels(t, filters, clip):
    energy = power_of(t, filters.shape[1]) @ filters.T
    mel = torch.log10(torch.clamp(energy, min=1e-10))
    top = mel.detach().amax(dim=(-2, -1) if clip else -1, keepdim=True)
    return (torch.maximum(mel, top - 8) + 4) / 4


def mels(f):
    for name, dims, n, count, dtype, clip, loud in (("frame", (5,), 16, 6, f32, False, 1), ("clip", (2, 4), 16, 6, f32, True, 1), ("odd", (3,), 21, 4, f32, False, 1),
                                                    ("floor", (6,), 16, 5, f32, False, 9), ("clip_floor", (6,), 16, 5, f32, True, 9), ("f64", (3, 2), 10, 3, f64, True, 1),
                                                    ("bf16", (4,), 8, 3, bf16, False, 1), ("one_frame", (), 12, 3, f32, False, 1), ("quiet", (3,), 8, 3, f32, False, 0)):
        bins = n // 2 + 1
        x = normal("lm" + name, (*dims, 2 * n), f64)
        if loud != 1:  # frames and bins whose energies are many decades apart
            x *= 10.0 ** uniform("lml" + name, (*dims, 1), -loud if loud else -9, loud / 2 if loud else -6, f64)
            x *= np.tile(10.0 ** np.round(uniform("lmn" + name, (n,), -loud, 0, f64)), 2)
        x, filters = x.astype(dtype), uniform("lmf" + name, (count, bins), 0, 1, dtype) * (uniform("lmz" + name, (count, bins), 0, 1) > 0.5).astype(dtype)
        filters[:, 0] = 0.25
        attributes = dict(maximum="clip" if clip else None)
        wide = [torch.from_numpy(v.astype(f64)).requires_grad_() for v in (x, filters)]
        y = log_mels(*wide, clip)
        out = y.detach().numpy().astype(dtype)
        ct = normal("lmc" + name, out.shape, dtype)
        y.backward(torch.from_numpy(ct.astype(f64)))
        gradients = [w.grad.numpy().astype(dtype) for w in wide]
        f.add(f"log_mel_{name}", "log_mel", [x, filters], [out], "torch in f64", [ct], gradients, **attributes)
        f.add(f"log_mel_backward_{name}", "log_mel_backward", [x, filters, ct], gradients, "torch in f64", **attributes)
    for name, dims, bins, clip, dtype in (("complex", (4, 9), 7, False, c64), ("complex_clip", (2, 3, 9), 9, True, c64)):
        real = f32 if dtype == c64 else f64
        z = (normal("lz" + name, dims, f64) + 1j * normal("ly" + name, dims, f64)).astype(dtype)
        filters = uniform("lzf" + name, (3, bins), 0, 1, real)
        attributes = dict(maximum="clip" if clip else None)
        wide = [torch.from_numpy(z.astype(c128)).requires_grad_(), torch.from_numpy(filters.astype(f64)).requires_grad_()]
        y = log_mels(*wide, clip)
        out = y.detach().numpy().astype(real)
        ct = normal("lzc" + name, out.shape, real)
        y.backward(torch.from_numpy(ct.astype(f64)))
        # PyTorch's gradient is the conjugate of the cotangent (derivative.py).
        gradients = [np.conj(wide[0].grad.numpy()).astype(dtype), wide[1].grad.numpy().astype(real)]
        f.add(f"log_mel_{name}", "log_mel", [z, filters], [out], "torch in f64", [ct], gradients, **attributes)
        f.add(f"log_mel_backward_{name}", "log_mel_backward", [z, filters, ct], gradients, "torch in f64", **attributes)


def peaks(f):
    for name, batch, segments, n, k, dtype in (("even", 3, 4, 16, 3, f32), ("odd", 2, 5, 21, 4, f32), ("one", 4, 1, 8, 5, f32), ("all", 2, 3, 7, 4, f64), ("two", 2, 2, 2, 2, f32),
                                               ("bf16", 2, 3, 12, 2, bf16)):
        time = normal("wp" + name, (batch * segments, n), f64)
        x = in_blocks(scipy.fft.fft(time)).astype(dtype)
        bins = n // 2 + 1
        power = x.astype(f64)[:, :bins] ** 2 + x.astype(f64)[:, n:n + bins] ** 2
        if dtype == f64:  # SciPy's own, of segments that do not overlap
            _, theirs = scipy.signal.welch(time.reshape(batch, -1), window="boxcar", nperseg=n, noverlap=0, detrend=False, scaling="spectrum")
            own = power.reshape(batch, segments, bins).mean(axis=1)
            own[:, 1:bins - (n % 2 == 0)] *= 2
            assert np.allclose(own / n ** 2, theirs, rtol=1e-12)
        mean = power.reshape(batch, segments, bins).mean(axis=1)
        mean[:, 1:bins - (n % 2 == 0)] *= 2
        order = np.argsort(-mean, axis=-1, kind="stable")[:, :k]
        f.add(f"welch_peaks_{name}", "welch_peaks", [x], [order.astype(i64), np.take_along_axis(mean, order, axis=-1).astype(dtype)], "numpy in f64, scipy.signal.welch",
              k=k, n_segments=segments)
    ties = np.zeros((1, 8), f32)
    ties[0, 1:3] = 3
    f.add("welch_peaks_ties", "welch_peaks", [ties], [np.array([[1, 2, 0]], i64), np.array([[18, 9, 0]], f32)], "by hand", k=3, n_segments=1)


def convolutions(f):
    for name, dims, taps, block, dtype in (("plain", (2, 100), 37, 16, f32), ("odd_block", (75,), 20, 5, f32), ("long_response", (2, 2, 9), 50, 8, f32), ("one_tap", (3, 11), 1, 4, f32),
                                           ("one_block", (30,), 7, 64, f32), ("f64", (2, 65), 33, 32, f64), ("bf16", (2, 40), 9, 8, bf16), ("f16", (2, 40), 9, 8, f16)):
        x, h = normal("pc" + name, dims, dtype), normal("pch" + name, (taps,), dtype)
        y = scipy.signal.convolve(x.astype(f64), h.astype(f64).reshape((1,) * (len(dims) - 1) + (-1,)), method="direct")
        case = f"partitioned_conv_{name}"
        ct = cotangents_of(case, [y.astype(dtype)])
        wide, rows = ct[0].astype(f64), x.astype(f64).reshape(-1, dims[-1])
        lanes = wide.reshape(-1, y.shape[-1])
        dx = np.stack([np.correlate(l, h.astype(f64), "valid") for l in lanes]).reshape(dims)
        dh = sum(np.correlate(l, r, "valid") for l, r in zip(lanes, rows))
        f.add(case, "partitioned_conv", [x, h], [y.astype(dtype)], "scipy.signal.convolve in f64", ct, [dx.astype(dtype), dh.astype(dtype)], block=block)


def halved(v, bits):
    return v if bits == 0 else (v + (1 << (bits - 1))) >> bits


def fixed_transform(x, inverse, scale, norm):
    """Stage by stage in Python's integers, which hold any sum."""
    n = x.shape[-1] // 2
    bits = n.bit_length() - 1
    order = [int(format(i, f"0{bits}b")[::-1], 2) if bits else 0 for i in range(n)]
    re, im = (np.array([[int(v) for v in lane] for lane in part.reshape(-1, n)], object)[:, order] for part in (x[..., :n], x[..., n:]))
    wrap = lambda v: (v + (1 << 31)) % (1 << 32) - (1 << 31)
    clip = lambda v: np.minimum(np.maximum(v, -(1 << 31)), (1 << 31) - 1)
    for s in range(bits):
        h = 1 << s
        for k in range(h):
            angle = (2 if inverse else -2) * math.pi * k / (2 * h)
            wr, wi = (int(math.floor(v * 2 ** 30 + 0.5)) if v >= 0 else -int(math.floor(-v * 2 ** 30 + 0.5)) for v in (math.cos(angle), math.sin(angle)))
            for p in range(k, n, 2 * h):
                q = p + h
                tr, ti = halved(re[:, q] * wr - im[:, q] * wi, 30), halved(re[:, q] * wi + im[:, q] * wr, 30)
                results = [re[:, p] + tr, im[:, p] + ti, re[:, p] - tr, im[:, p] - ti]
                if scale == "per_stage" or (scale == "every_other" and s % 2 == 0):
                    results = [halved(v, 1) for v in results]
                re[:, p], im[:, p], re[:, q], im[:, q] = (wrap(v) if scale == "none" else clip(v) for v in results)
    if norm == "ortho":
        factor = int(math.floor(2 ** 30 / math.sqrt(n) + 0.5))
        re, im = halved(re * factor, 30), halved(im * factor, 30)
    elif norm and inverse == (norm == "backward"):
        re, im = halved(re, bits), halved(im, bits)
    return np.concatenate([re, im], axis=-1).astype(i64).reshape(x.shape).astype(i32)


LOST = {"none": lambda b: 0, "saturating": lambda b: 0, "every_other": lambda b: (b + 1) // 2, "per_stage": lambda b: b}


def fixed(f):
    for scale in LOST:
        for inverse in (False, True):
            for norm in (None, "backward", "ortho", "forward"):
                for dims, n, reach in (((2,), 16, 1 << 24), ((), 64, 1 << 20), ((3,), 2, 1 << 28), ((2, 2), 8, 1 << 31), ((2,), 1, 1 << 31)):
                    if norm and n not in (16, 8):
                        continue
                    name = f"{scale}_{'inverse' if inverse else 'forward'}_{norm or 'plain'}_{n}"
                    x = integers("fq" + name, (*dims, 2 * n), -reach, reach)
                    y = fixed_transform(x, inverse, scale, norm)
                    if reach * n < 1 << 31:  # nothing overflows: as SciPy has it, but for what the shifts lose
                        z = x[..., :n].astype(f64) + 1j * x[..., n:]
                        bits = n.bit_length() - 1
                        wanted = (scipy.fft.ifft(z, norm="forward") if inverse else scipy.fft.fft(z)) / 2.0 ** LOST[scale](bits)
                        wanted /= math.sqrt(n) if norm == "ortho" else n if norm and inverse == (norm == "backward") else 1
                        assert np.abs(in_blocks(wanted) - y).max() <= 2 + 2 * bits, name
                    f.add(f"fft_q_{name}", "fft_q", [x], [y], "Python's integers, scipy.fft", inverse=inverse or None, scale=scale if scale != "none" else None, norm=norm)


def stages(f):
    for name, batch, n, stage, dtype in (("first", 2, 8, 0, f32), ("last", 3, 16, 3, f32), ("odd", 1, 12, 1, f32), ("f64", 2, 8, 1, f64), ("bf16", 2, 8, 2, bf16)):
        h = 1 << stage

        def one(state, gate, swapped, wr, wi):
            z, w = torch.complex(state[..., 0], state[..., 1]), torch.complex(wr, wi)
            out = [None] * n
            for j in range(n // 2):
                p = 2 * h * (j // h) + j % h
                t = w[j] * z[:, p + h]
                top, bottom = z[:, p] + gate[j] * t, (1 - gate[j]) * z[:, p + h] + gate[j] * (z[:, p] - t)
                out[p], out[p + h] = (1 - swapped[j]) * top + swapped[j] * bottom, (1 - swapped[j]) * bottom + swapped[j] * top
            y = torch.stack(out, dim=1)
            return torch.stack([y.real, y.imag], dim=-1)

        inputs = [normal("bs" + name, (batch, n, 2), dtype)] + [uniform(f"bs{i}" + name, (n // 2,), low, 1, dtype) for i, low in enumerate((0, 0, -1, -1))]
        f.add_derivative(f"fft_butterfly_stage_{name}", "fft_butterfly_stage", inputs, by_torch, one, "torch in f64", stage=stage or None)
    # A whole stage, and one that does nothing
    n, x = 8, normal("bsw", (2, 8, 2))
    z = x[..., 0].astype(f64) + 1j * x[..., 1]
    angle = -2 * np.pi * (np.arange(4) % 2) / 4
    ones, zeros = np.ones(4, f32), np.zeros(4, f32)
    even, odd = z.reshape(2, 2, 2, 2)[:, :, 0], z.reshape(2, 2, 2, 2)[:, :, 1] * np.exp(angle[:2] * 1j)
    y = np.stack([even + odd, even - odd], axis=2).reshape(2, 8)
    twiddles = [np.cos(angle).astype(f32), np.sin(angle).astype(f32)]
    whole = np.stack([y.real, y.imag], axis=-1).astype(f32)
    f.add("fft_butterfly_stage_whole", "fft_butterfly_stage", [x, ones, zeros, *twiddles], [whole], "numpy", stage=1)
    f.add("fft_butterfly_stage_swapped", "fft_butterfly_stage", [x, ones, ones, *twiddles],
          [whole.reshape(2, 2, 2, 2, 2)[:, :, ::-1].reshape(2, 8, 2)], "numpy", stage=1)
    f.add("fft_butterfly_stage_copied", "fft_butterfly_stage", [x, zeros, zeros, *twiddles], [x], "numpy", stage=1)


def cases():
    f, g, h, i = Family("spline"), Family("synth"), Family("signal"), Family("fft_fixed")
    splines(f)
    codebooks(g)
    mels(h)
    peaks(h)
    convolutions(h)
    stages(h)
    fixed(i)
    return [f, g, h, i]
