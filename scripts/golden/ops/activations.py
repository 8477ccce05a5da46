"""Activations and other element-wise composites, where they saturate, overflow or cancel."""
import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from .case import *
from .elementwise import HARD

X = [v for v in HARD if v == v and abs(v) != np.inf] + [3.0, -3.0, 6.0, -6.0, 0.044715, -40.0, 100.0, -100.0]
EDGES = [np.inf, -np.inf, np.nan]


def torched(function):
    return lambda *arrays: function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)).numpy()


ACTIVATIONS = {  # op: (f64 function, where from)
    "relu": (torched(F.relu), "torch relu"), "gelu": (lambda x: x * scipy.special.ndtr(x), "x * scipy.special.ndtr(x)"),
    "gelu_tanh": (torched(lambda x: F.gelu(x, approximate="tanh")), "torch gelu, approximate='tanh'"), "silu": (torched(F.silu), "torch silu"),
    "softplus": (lambda x: np.logaddexp(0, x), "numpy.logaddexp(0, x)"), "hard_swish": (torched(F.hardswish), "torch hardswish"),
    "hard_sigmoid": (torched(F.hardsigmoid), "torch hardsigmoid"), "mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), "x tanh(logaddexp(0, x)) in numpy"),
    "softsign": (torched(F.softsign), "torch softsign"), "log_sigmoid": (lambda x: -np.logaddexp(0, -x), "-numpy.logaddexp(0, -x)"),
    "reciprocal": (lambda x: 1 / x, "1 / x in numpy"), "square": (np.square, "numpy.square"), "atan": (np.arctan, "numpy.arctan"),
}


def activations(f):
    for op, (function, source) in ACTIVATIONS.items():
        for dtype in (f64, f32):
            x = np.array(X, dtype)
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x], in_f64(function, x), source + " in f64")
    for op in ("relu", "gelu", "gelu_tanh", "silu", "softplus", "mish"):
        for dtype in (f16, bf16):
            x = np.concatenate([normal(op, (40,), f64, 3), [0, -20, 20, 1e-3]]).astype(dtype)
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x], in_f64(ACTIVATIONS[op][0], x), ACTIVATIONS[op][1] + " in f64, rounded once")
    for op in ("relu", "softplus", "log_sigmoid", "hard_sigmoid", "softsign"):
        x = np.array([v for v in EDGES if op != "softsign" or v != v], f32)  # softsign: inf / inf is NaN for most
        f.add(f"{op}_edges", op, [x], in_f64(ACTIVATIONS[op][0], x), ACTIVATIONS[op][1])
    for dtype in (f64, f32):
        x = np.array(X, dtype)
        for alpha in (1.0, 0.3):
            f.add(f"elu_{alpha}_{NAMES[dtype][0]}".replace(".", "_"), "elu", [x], in_f64(lambda v: np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0))), x),
                  "where(x > 0, x, alpha * expm1(x)) in numpy", alpha=alpha)
        f.add(f"clamp_{NAMES[dtype][0]}", "clamp", [x], [np.clip(x, dtype.type(-1.5), dtype.type(6.25))], "numpy.clip", min=-1.5, max=6.25)
    a, b, c = (normal("fma" + s, (64,)) for s in "abc")
    c[:32] = -(a * b)[:32]  # cancels: a second rounding would show
    f.add("fma_f32", "fma", [a, b, c], in_f64(lambda a, b, c: a * b + c, a, b, c), "a * b + c in f64, where the product is exact")
    x, y = np.array([5.5, -5.5, 5.5, -5.5, 0.0, 1e10, 3.0], f64), np.array([2.0, 2.0, -2.0, -2.0, 3.0, 7.0, np.inf], f64)
    f.add("mod_f64", "mod", [x, y], [np.fmod(x, y)], "numpy.fmod")


def cases():
    f = Family("activations")
    activations(f)
    return [f]
