"""Normalizations: every axis, large offsets (where variances cancel), constant rows, low precision."""
import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from .case import *


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def layer_norm(x, gamma=None, beta=None, eps=1e-5, axis=-1):
    return F.layer_norm(t(x), x.shape[axis:], *(None if p is None else t(p) for p in (gamma, beta)), eps).numpy()


def rms_norm(x, gamma=1.0, beta=0.0, eps=1e-6, axis=-1):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt(np.mean(x * x, axes, keepdims=True) + eps) * gamma + beta


def layers(f):
    for op, function, source in (("layer_norm", layer_norm, "torch layer_norm in f64"), ("rms_norm", rms_norm, "numpy in f64")):
        for name, dims, dtype, epsilon, offset, axis in (
                ("matrix", (5, 16), f64, 1e-5, 0, -1), ("rank3", (2, 3, 8), f64, 1e-12, 0, -1), ("vector", (9,), f64, 1e-5, 0, 0), ("wide", (2, 384), f32, 1e-12, 0, -1),
                ("odd", (3, 37), f32, 1e-5, 0, -1), ("offset", (4, 64), f32, 1e-5, 300, -1), ("one", (4, 1), f32, 1e-5, 1, -1),
                ("trailing2", (3, 6, 4), f64, 1e-5, 0, 1), ("everything", (3, 2, 4), f32, 1e-3, 1, 0), ("f16", (3, 50), f16, 1e-5, 0, -1),
                ("bf16", (3, 50), bf16, 1e-5, 0, -1)):
            x = (normal(op + name, dims, f64) + offset).astype(dtype)
            inner = dims[axis:]
            gamma, beta = (1 + normal(name + "gamma", inner, f64, 0.3)).astype(dtype), normal(name + "beta", inner, dtype)
            f.add(f"{op}_{name}", op, [x, gamma, beta], in_f64(lambda x, g, b: function(x, g, b, epsilon, axis), x, gamma, beta), source, axis=axis,
                  epsilon=epsilon)
        x, gamma = normal(op + "bare", (3, 10)), normal(op + "bare_gamma", (10,))
        f.add(f"{op}_bare", op, [x], in_f64(lambda x: function(x, eps=1e-5), x), source, epsilon=1e-5, has_gamma=False, has_beta=False)
        f.add(f"{op}_gamma", op, [x, gamma], in_f64(lambda x, g: function(x, g, eps=1e-5), x, gamma), source, epsilon=1e-5, has_beta=False)
        x, one, zero = np.full((2, 6), 3.0, f32), np.ones(6, f32), np.zeros(6, f32)
        f.add(f"{op}_constant_row", op, [x, one, zero], in_f64(lambda x, g, b: function(x, g, b, 1e-5), x, one, zero), source, epsilon=1e-5)


def images(f):
    for dims, groups, dtype in (((2, 6, 3, 4), 3, f64), ((1, 8, 5, 5), 1, f32), ((3, 4, 2, 2), 4, f32), ((2, 6, 7), 2, f32), ((1, 4, 2, 3, 2), 2, f64)):
        name = f"group_norm_{'x'.join(map(str, dims))}_{groups}"
        x, g, b = normal(name, dims, dtype), normal(name + "g", dims[1:2], dtype), normal(name + "b", dims[1:2], dtype)
        f.add(name, "group_norm", [x, g, b], in_f64(lambda x, g, b: F.group_norm(t(x), groups, t(g), t(b), 1e-5).numpy(), x, g, b),
              "torch group_norm in f64", num_groups=groups, epsilon=1e-5)
    x, g, b = normal("image", (2, 5, 3, 4)), normal("image_g", (5,)), normal("image_b", (5,))
    f.add("instance_norm", "instance_norm", [x, g, b], in_f64(lambda x, g, b: F.instance_norm(t(x), None, None, t(g), t(b), eps=1e-5).numpy(), x, g, b),
          "torch instance_norm in f64", epsilon=1e-5)
    f.add("layer_norm_2d", "layer_norm_2d", [x, g, b],
          in_f64(lambda x, g, b: np.moveaxis(layer_norm(np.moveaxis(x, 1, -1), g, b, 1e-6), -1, 1), x, g, b), "torch layer_norm over channels in f64",
          epsilon=1e-6)
    for axis in (1, -1):
        features = x.shape[axis]
        g, b, mean = (normal(f"bn{axis}{s}", (features,)) for s in "gbm")
        var = uniform(f"bnv{axis}", (features,), 0.1, 3)

        def batch_norm(x, g, b, mean, var):
            y = F.batch_norm(t(np.moveaxis(x, axis, 1)), t(mean), t(var), t(g), t(b), eps=1e-3).numpy()
            return np.moveaxis(y, 1, axis)

        f.add(f"batch_norm_inference_axis{axis % 4}", "batch_norm_inference", [x, g, b, mean, var], in_f64(batch_norm, x, g, b, mean, var),
              "torch batch_norm in f64", feature_axis=axis, epsilon=1e-3)
    x = np.concatenate([normal("l2", (3, 4, 5)), np.zeros((1, 4, 5), f32)])
    for axis in (-1, 1):
        f.add(f"l2_normalize_axis{axis % 3}", "l2_normalize", [x], in_f64(lambda v: F.normalize(t(v), dim=axis).numpy(), x), "torch normalize in f64", axis=axis,
              epsilon=1e-12)


def residuals(f):
    x, r, bias, g, b = normal("res_x", (2, 3, 16)), normal("res_r", (2, 3, 16)), normal("res_bias", (16,)), normal("res_g", (16,)), normal("res_b", (16,))
    both = lambda function: lambda x, r, bias, g, b: (function(x + bias + r, g, b, 1e-5), x + bias + r)
    for dtype in (f32, bf16):
        args = [v.astype(dtype) for v in (x, r, bias, g, b)]
        zero = np.zeros(16)
        for op, function in (("fused_residual_layer_norm", layer_norm), ("fused_residual_rms_norm", rms_norm)):
            name = f"{op}_{NAMES[dtype][0]}"
            f.add(name, op, args, in_f64(both(function), *args), "torch and numpy in f64", epsilon=1e-5, has_bias=True)
            f.add(name + "_bare", op, args[:2] + args[3:4], in_f64(lambda x, r, g: both(function)(x, r, zero, g, zero), *args[:2], args[3]),
                  "torch and numpy in f64", epsilon=1e-5, has_beta=False)
    scale, shift = normal("ada_scale", (2, 1, 16)), normal("ada_shift", (2, 1, 16))
    for kind, function in (("layer_norm", layer_norm), ("rms_norm", rms_norm)):
        f.add(f"ada_layer_norm_{kind}", "ada_layer_norm", [x, scale, shift], in_f64(lambda x, s, h: function(x, eps=1e-6) * (1 + s) + h, x, scale, shift),
              "torch and numpy in f64", kind=kind, epsilon=1e-6)
    f.add("gated_residual", "gated_residual", [x, r, scale], in_f64(lambda x, y, gate: x + gate * y, x, r, scale), "numpy in f64")


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
    for axis in (1, -1):
        x = normal(f"class{axis}", (2, 4, 3), f64)
        labels = integers(f"class{axis}", (2, 3) if axis == 1 else (2, 4), 0, x.shape[axis], i64)
        f.add(f"softmax_cross_entropy_with_logits_axis{axis % 3}", "softmax_cross_entropy_with_logits", [x, labels],
              [F.cross_entropy(t(np.moveaxis(x, axis, 1)), t(labels), reduction="none").numpy()], "torch cross_entropy", axis=axis)
        f.add(f"nll_axis{axis % 3}", "nll", [x, labels], [F.nll_loss(t(np.moveaxis(x, axis, 1)), t(labels), reduction="none").numpy()], "torch nll_loss",
              axis=axis)
    x = np.array([[0, -np.inf, 1], [800, -800, 3]], f64)
    f.add("softmax_cross_entropy_zero_target", "softmax_cross_entropy", [x, np.array([[0.5, 0, 0.5], [1, 0, 0]])],
          [np.array([np.log(1 + np.e) - 0.5, 0.0])], "by hand: log(1 + e) - 1/2, and 0")
    x, target = normal("prediction", (3, 5), f32, 30), uniform("target", (3, 5), 0, 1)
    for reduction in ("none", "mean", "sum"):
        f.add(f"mse_{reduction}", "mse", [x, target], in_f64(lambda p, q: F.mse_loss(t(p), t(q), reduction=reduction).numpy(), x, target), "torch mse_loss in f64",
              reduction=reduction)
        f.add(f"binary_cross_entropy_with_logits_{reduction}", "binary_cross_entropy_with_logits", [x, target],
              in_f64(lambda p, q: F.binary_cross_entropy_with_logits(t(p), t(q), reduction=reduction).numpy(), x, target),
              "torch binary_cross_entropy_with_logits in f64", reduction=reduction)


def gated(f):
    x = normal("glu", (2, 3, 8))
    for axis, kind, function in ((-1, "sigmoid", torch.sigmoid), (-1, "silu", F.silu), (2, "gelu", F.gelu), (-1, "relu", F.relu)):
        for first in (False, True):
            def glu(v):
                a, b = t(v).chunk(2, axis)
                return (b * function(a) if first else a * function(b)).numpy()

            f.add(f"glu_{kind}_{'first' if first else 'second'}", "glu", [x], in_f64(glu, x), "torch in f64", activation=kind, axis=axis, gate_first=first or None)
            if kind == "silu":
                f.add(f"fused_swiglu_{'first' if first else 'second'}", "fused_swiglu", [x], in_f64(glu, x), "torch in f64", gate_first=first or None)
    x = normal("glu1", (3, 4, 5), f64)
    f.add("glu_axis1", "glu", [x], [F.glu(t(x), 1).numpy()], "torch glu", axis=1)


def cases():
    f, g, h, i = Family("norms"), Family("softmax"), Family("losses"), Family("gated")
    layers(f)
    images(f)
    residuals(f)
    softmaxes(g)
    losses(h)
    gated(i)
    return [f, g, h, i]
