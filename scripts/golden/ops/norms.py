"""Normalizations: every axis, large offsets (where variances cancel), constant rows, low precision."""
import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from .case import *


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def layer_norm(x, gamma, beta, eps):
    return F.layer_norm(t(x), x.shape[-1:], t(gamma), t(beta), eps).numpy()


def rms_norm(x, gamma, beta, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * gamma + beta


def layers(f):
    for op, function, source in (("layer_norm", layer_norm, "torch layer_norm in f64"), ("rms_norm", rms_norm, "numpy in f64")):
        for name, dims, dtype, eps, offset in (
                ("2d", (5, 16), f64, 1e-5, 0), ("3d", (2, 3, 8), f64, 1e-12, 0), ("1d", (9,), f64, 1e-5, 0), ("wide", (2, 384), f32, 1e-12, 0),
                ("odd", (3, 37), f32, 1e-5, 0), ("offset", (4, 64), f32, 1e-5, 300), ("one", (4, 1), f32, 1e-5, 1),
                ("f16", (3, 50), f16, 1e-5, 0), ("bf16", (3, 50), bf16, 1e-5, 0)):
            x = (normal(op + name, dims, f64) + offset).astype(dtype)
            gamma, beta = (1 + normal(name + "gamma", dims[-1:], f64, 0.3)).astype(dtype), normal(name + "beta", dims[-1:], dtype)
            f.add(f"{op}_{name}", op, [x, gamma, beta], in_f64(lambda x, g, b: function(x, g, b, eps), x, gamma, beta), source, eps=eps)
        x, one, zero = np.full((2, 6), 3.0, f32), np.ones(6, f32), np.zeros(6, f32)
        f.add(f"{op}_constant_row", op, [x, one, zero], in_f64(lambda x, g, b: function(x, g, b, 1e-5), x, one, zero), source, eps=1e-5)
    x, g, b = normal("ln_axis", (3, 6, 4), f64), normal("ln_axis_g", (6,), f64), normal("ln_axis_b", (6,), f64)
    turned = layer_norm(x.transpose(0, 2, 1), g, b, 1e-5).transpose(0, 2, 1).copy()
    f.add("layer_norm_axis1", "layer_norm", [x, g, b], [turned], "torch layer_norm in f64, transposed", axis=1, eps=1e-5)
    turned = rms_norm(x.transpose(0, 2, 1), g, b, 1e-5).transpose(0, 2, 1).copy()
    f.add("rms_norm_axis1", "rms_norm", [x, g, b], [turned], "numpy in f64, transposed", axis=1, eps=1e-5)


def images(f):
    for dims, groups, dtype in (((2, 6, 3, 4), 3, f64), ((1, 8, 5, 5), 1, f32), ((3, 4, 2, 2), 4, f32), ((2, 6, 7), 2, f32), ((1, 4, 2, 3, 2), 2, f64)):
        name = f"group_norm_{'x'.join(map(str, dims))}_{groups}"
        x, g, b = normal(name, dims, dtype), normal(name + "g", dims[1:2], dtype), normal(name + "b", dims[1:2], dtype)
        f.add(name, "group_norm", [x, g, b], in_f64(lambda x, g, b: F.group_norm(t(x), groups, t(g), t(b), 1e-5).numpy(), x, g, b),
              "torch group_norm in f64", num_groups=groups, eps=1e-5)
    x, g, b = normal("ln2d", (2, 5, 3, 4)), normal("ln2dg", (5,)), normal("ln2db", (5,))
    f.add("layer_norm2d", "layer_norm2d", [x, g, b],
          in_f64(lambda x, g, b: np.moveaxis(layer_norm(np.moveaxis(x, 1, -1), g, b, 1e-6), -1, 1), x, g, b), "torch layer_norm over channels in f64", eps=1e-6)
    x, (g, b, mean) = normal("bn", (4, 3, 5)), (normal("bn" + s, (5,)) for s in "gbm")
    var = uniform("bnv", (5,), 0.1, 3)
    f.add("batch_norm_inference", "batch_norm_inference", [x, g, b, mean, var],
          in_f64(lambda x, g, b, m, v: (x - m) / np.sqrt(v + 1e-3) * g + b, x, g, b, mean, var), "numpy in f64", eps=1e-3)


def softmaxes(f):
    for op, function in (("softmax", scipy.special.softmax), ("log_softmax", scipy.special.log_softmax)):
        for name, dims, axis, dtype in (("last", (3, 7), -1, f64), ("axis0", (5, 4), 0, f64), ("axis1", (2, 3, 5), 1, f32), ("1d", (11,), 0, f32),
                                        ("one", (3, 1), 1, f32), ("wide", (2, 1000), -1, f32), ("f16", (3, 33), -1, f16), ("bf16", (3, 33), -1, bf16)):
            x = normal(op + name, dims, dtype, 4)
            f.add(f"{op}_{name}", op, [x], in_f64(lambda v: function(v, axis=axis), x), f"scipy.special.{op} in f64", axis=axis)
        x = np.array([[1e4, 0, -1e4], [3.4e38, 3.4e38, 0], [-3.4e38, -3.4e38, -3.4e38], [0, -np.inf, 1]], f32)
        f.add(f"{op}_extreme", op, [x], in_f64(lambda v: function(v, axis=1), x), f"scipy.special.{op} in f64", axis=1)


def losses(f):
    logits = normal("logits", (6, 9), f64, 5)
    logits[0, 3], logits[1, 2] = 800, -800
    labels = integers("labels", (6,), 0, 9)
    for dtype in (f64, f32):
        x = logits.astype(dtype)
        f.add(f"softmax_cross_entropy_with_logits_{NAMES[dtype][0]}", "softmax_cross_entropy_with_logits", [x, labels],
              in_f64(lambda v, l: F.cross_entropy(t(v), t(l).long(), reduction="none").numpy(), x, labels), "torch cross_entropy in f64")
        targets = scipy.special.softmax(normal("targets", (6, 9), f64), axis=1).astype(dtype)
        f.add(f"softmax_cross_entropy_{NAMES[dtype][0]}", "softmax_cross_entropy", [x, targets],
              in_f64(lambda v, p: F.cross_entropy(t(v), t(p), reduction="none").numpy(), x, targets), "torch cross_entropy in f64")


def cases():
    f, g = Family("norms"), Family("softmax")
    layers(f)
    images(f)
    softmaxes(g)
    losses(g)
    return [f, g]
