"""Fake quantization: values by torch.fake_quantize_* and by NumPy, gradients by torch's autograd, through functions that say
what an estimator is: round(x) as (round(x) - x).detach() + x (Esser et al., ICLR 2020, appendix A)."""
import numpy as np
import torch

from .case import *
from .derivative import by_torch, cotangents_of


def kept(x, axes):
    """The axes that are summed over for a scale of extents `axes`."""
    return tuple(d for d in range(x.ndim) if d not in [a % x.ndim for a in axes])


def stretched(s, x, axes):
    """A scale over all of x."""
    shape = [x.shape[d] if d in [a % x.ndim for a in axes] else 1 for d in range(x.ndim)]
    return s.reshape(shape) if hasattr(s, "reshape") else s


def batch_scale(x, q, axes):
    largest = np.abs(x.astype(f64)).max(axis=kept(x, axes)) if x.size else np.zeros([x.shape[a] for a in axes])
    return np.maximum(largest / q, 1e-12)


def rounded_to(x, s, q, axes):
    s = stretched(np.asarray(s, f64), x, axes)
    return np.clip(np.rint(x.astype(f64) / s), -q, q) * s


def away_from_ties(x, s, q, axes):
    """Moves what lies within 1e-3 of a half, or between q and q + 1/2, where two formulas may differ by a rounding."""
    wide = stretched(np.asarray(s, f64), x, axes)
    z = x.astype(f64) / wide
    near = np.abs(z - np.floor(z) - 0.5) < 0.02
    z = np.where(near, np.floor(z) + 0.3, z)
    z = np.where((np.abs(z) > q - 0.1) & (np.abs(z) < q + 0.6), np.sign(z) * (q - 0.2), z)
    return (z * wide).astype(x.dtype)


def estimator(kind, x, s, q):
    """What stands for the derivative, from x and the scale stretched over it, in f64."""
    return {"identity": np.ones_like(x), "clipped_identity": (np.abs(x) <= q * s).astype(f64), "tanh": 1 - np.tanh(x / s) ** 2,
            "hard_tanh": np.maximum(0, 1 - np.abs(x / (q * s)))}[kind]


KINDS = ("identity", "clipped_identity", "tanh", "hard_tanh")


def fake(f):
    for bits, dims, axes, dtype in ((8, (4, 9), (), f32), (4, (4, 9), (0,), f32), (2, (4, 9), (-1,), f32), (8, (2, 3, 5), (1,), f32), (4, (2, 3, 4), (0, 2), f32),
                                    (8, (3, 7), (), f64), (4, (7,), (), f64), (8, (), (), f32), (3, (5, 4), (1,), f32)):
        q, name = 2 ** (bits - 1) - 1, f"{bits}_{'x'.join(map(str, dims)) or 'scalar'}_{'_'.join(map(str, axes)).replace('-', 'm')}_{NAMES[dtype][0]}"
        for ste in KINDS:
            x = normal("fq" + name, dims, dtype)
            s = batch_scale(x, q, axes)
            x = away_from_ties(x, s, q, axes) if dims else x
            s = batch_scale(x, q, axes)  # that of what is left
            wide = stretched(s, x, axes)
            z = x.astype(f64) / wide
            assert (np.abs(z - np.floor(z) - 0.5) > 1e-4).all(), name
            y = rounded_to(x, s, q, axes).astype(dtype)
            case = f"fake_quantize_{name}_{ste}"
            ct = cotangents_of(case, [y])
            # Of the largest element |x| = q s exactly: it is inside, and hard_tanh is 0 there.
            inside = estimator(ste, x.astype(f64), wide, q) if ste != "clipped_identity" else np.ones(dims)
            gradient = (ct[0].astype(f64) * inside).astype(dtype)
            attributes = dict(bits=bits, axes=list(axes), ste=ste)
            f.add(case, "fake_quantize", [x], [y], "numpy in f64; the estimator's formula", ct, [gradient], **attributes)
            f.add(f"fake_quantize_backward_{name}_{ste}", "fake_quantize_backward", [x, ct[0]], [gradient], "the estimator's formula, numpy in f64", **attributes)


def with_state(f):
    for bits, dims, axes in ((8, (4, 9), ()), (4, (4, 9), (0,)), (8, (2, 3, 5), (1,)), (2, (6,), ())):
        q, name = 2 ** (bits - 1) - 1, f"{bits}_{len(dims)}_{len(axes)}"
        extents = [dims[a] for a in axes]
        s = uniform("fs" + name, extents, 0.8 / q, 2 / q)
        x = away_from_ties(normal("fx" + name, dims), s, q, axes)
        wide = stretched(s.astype(f64), x, axes)
        y = rounded_to(x, s, q, axes)
        torch_x, torch_s = torch.from_numpy(x).requires_grad_(), torch.from_numpy(s)
        if axes:
            by = torch.fake_quantize_per_channel_affine(torch_x, torch_s, torch.zeros(len(s), dtype=torch.int32), axes[0], -q, q)
        else:
            by = torch.fake_quantize_per_tensor_affine(torch_x, float(s), 0, -q, q)
        assert np.abs(by.detach().numpy() - y).max() < 1e-5
        for ste in KINDS:
            case = f"fake_quantize_fixed_{name}_{ste}"
            ct = cotangents_of(case, [y.astype(f32)])
            gradient = (ct[0].astype(f64) * estimator(ste, x.astype(f64), wide, q)).astype(f32)
            source = "numpy in f64; the estimator's formula"
            if ste == "clipped_identity":
                torch_x.grad = None
                by.backward(torch.from_numpy(ct[0]), retain_graph=True)
                gradient, source = torch_x.grad.numpy().copy(), "torch.fake_quantize_per_tensor_affine, per_channel_affine and their backward"
            attributes = dict(bits=bits, axes=list(axes), ste=ste)
            f.add(case, "fake_quantize", [x, s], [by.detach().numpy() if ste == "clipped_identity" else y.astype(f32)], source, ct, [gradient],
                  scale_mode="fixed", **attributes)
            f.add(f"fake_quantize_backward_scale_{name}_{ste}", "fake_quantize_backward", [x, ct[0], s], [gradient], source, **attributes)
        for decay, state in ((0.9, s), (0.5, s), (0.9, np.zeros_like(s)), (0.75, -s)):
            case = f"fake_quantize_ema_{name}_{str(decay)[2:]}_{'started' if (np.asarray(state) > 0).all() else 'zero' if (np.asarray(state) == 0).all() else 'negative'}"
            current = batch_scale(x, q, axes)
            new = np.where(state > 0, decay * state.astype(f64) + (1 - decay) * current, current).astype(f32)
            z = x.astype(f64) / stretched(new.astype(f64), x, axes)
            assert (np.abs(z - np.floor(z) - 0.5) > 1e-5).all(), case
            f.add(case, "fake_quantize", [x, state], [rounded_to(x, new, q, axes).astype(f32), new], "numpy in f64", scale_mode="ema", decay=decay, bits=bits, axes=list(axes))
    f.add("fake_quantize_zeros", "fake_quantize", [np.zeros((3, 4), f32)], [np.zeros((3, 4), f32)], "the definition")
    f.add("fake_quantize_empty", "fake_quantize", [np.zeros((0, 4), f32)], [np.zeros((0, 4), f32)], "the definition", axes=[1])


def round_through(z):
    return (z.round() - z).detach() + z


def learnt(f):
    for bits, dims, axes, dtype in ((8, (4, 9), (), f32), (4, (4, 9), (0,), f32), (2, (4, 9), (1,), f32), (4, (2, 3, 5), (1,), f32), (8, (3, 5), (), f64), (2, (7,), (), f64),
                                    (4, (2, 3, 4), (0, 2), f32)):
        q, name = 2 ** (bits - 1) - 1, f"{bits}_{'x'.join(map(str, dims))}_{'_'.join(map(str, axes))}_{NAMES[dtype][0]}"
        s = uniform("ls" + name, [dims[a] for a in axes], 0.5 / q, 1.5 / q, dtype)
        x = away_from_ties(normal("lx" + name, dims, dtype), s, q, axes)

        def lsq(x, s):
            wide = stretched(s, x, axes)
            return round_through(torch.clamp(x / wide, -q, q)) * wide

        case, attributes = f"fake_quantize_lsq_{name}", dict(bits=bits, axes=list(axes))
        outputs, cts, (dx, ds) = by_torch(case, lsq, [x, s])
        f.add(case, "fake_quantize_lsq", [x, s], outputs, "torch, LSQ's own formula and autograd, in f64", cts, [dx, ds], **attributes)
        f.add(f"fake_quantize_lsq_backward_x_{name}", "fake_quantize_lsq_backward_x", [x, s, cts[0]], [dx], "torch's autograd of LSQ", **attributes)
        f.add(f"fake_quantize_lsq_backward_scale_{name}", "fake_quantize_lsq_backward_scale", [x, s, cts[0]], [ds], "torch's autograd of LSQ", **attributes)


def affine(f):
    """torch's fake quantization with zero points; of learnt scales, its own LSQ, whose gradient of the scale is times a factor.
    (Zero points are above 0: that of a tensor it rounds by adding 1/2 and cutting off, which for others gives the next.)"""
    for low, high, dims, axes, zero, factor in ((-128, 127, (4, 9), (), 37, 0.125), (0, 255, (5, 7), (), 128, 0.02), (-7, 7, (4, 9), (0,), None, 0.5), (-128, 127, (2, 3, 5), (1,), 20, 0.25),
                                                (-127, 127, (3, 2, 2, 2), (0,), None, 1.0), (-8, 7, (3, 5), (-1,), 3, 0.3)):
        name, extents = f"{low}_{high}_{'x'.join(map(str, dims))}".replace("-", "m"), [dims[a] for a in axes]
        s = uniform("as" + name, extents, 2.5 / (high - low), 4 / (high - low))
        z = np.zeros(extents, i32) if zero is None else integers("az" + name, extents, zero - 2, zero + 3)
        x = normal("ax" + name, dims)
        wide_s, wide_z = stretched(s.astype(f64), x, axes), stretched(np.asarray(z), x, axes)
        codes = x / wide_s  # no ties, and nothing at the ends of the codes, where two roundings may differ
        codes = np.where(np.abs(codes - np.floor(codes) - 0.5) < 0.05, np.floor(codes) + 0.3, codes)
        x = (codes * wide_s).astype(f32)
        clamped = (np.rint(codes) + wide_z < low) | (np.rint(codes) + wide_z > high)
        assert 0 < clamped.sum() < x.size, name
        for learnt in (False, True):
            tx, ts, tz = torch.from_numpy(x).requires_grad_(), torch.from_numpy(np.array(s, f32, ndmin=1)).requires_grad_(), torch.from_numpy(np.array(z, f32, ndmin=1))
            if learnt and axes:
                by = torch._fake_quantize_learnable_per_channel_affine(tx, ts, tz, axes[0] % x.ndim, low, high, factor)
            elif learnt:
                by = torch._fake_quantize_learnable_per_tensor_affine(tx, ts, tz, low, high, factor)
            elif axes:
                by = torch.fake_quantize_per_channel_affine(tx, ts.detach(), tz.int(), axes[0] % x.ndim, low, high)
            else:
                by = torch.fake_quantize_per_tensor_affine(tx, float(s), int(z), low, high)
            y = by.detach().numpy()
            case = f"fake_quantize_affine_{name}{'_learnt' if learnt else ''}"
            ct = cotangents_of(case, [y])
            by.backward(torch.from_numpy(ct[0]))
            operands = [x, s] + ([] if zero is None else [z])
            gradients = [tx.grad.numpy().copy(), ts.grad.numpy().reshape(extents).copy() if learnt else None] + ([] if zero is None else [None])
            attributes = dict(low=low, high=high, axes=list(axes), gradient_scale=factor if learnt else None)
            f.add(case, "fake_quantize_affine", operands, [y], "torch's fake_quantize_per_tensor_affine and per_channel_affine, learnable where the scale is", ct, gradients, **attributes)
            if not learnt:
                f.add(case + "_identity", "fake_quantize_affine", operands, [y], "the same; the gradient as it came", ct, [ct[0]] + [None] * (len(operands) - 1), ste="identity", **attributes)


def cases():
    f = Family("qat")
    fake(f)
    with_state(f)
    learnt(f)
    affine(f)
    return [f]
