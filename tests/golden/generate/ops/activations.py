"""Activations and other element-wise composites, where they saturate, overflow or cancel."""
import math
from fractions import Fraction

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
    "relu6": (torched(F.relu6), "torch relu6"), "selu": (torched(F.selu), "torch selu"),
}
ELEMENTARY = {  # op: (f64 function, low, high, where from)
    "square": (np.square, -9, 9, "numpy.square"), "reciprocal": (lambda x: 1 / x, -9, 9, "1 / x in numpy"), "exp2": (np.exp2, -60, 60, "numpy.exp2"),
    "log2": (np.log2, 0, 99, "numpy.log2"), "log10": (np.log10, 0, 999, "numpy.log10"), "erfc": (scipy.special.erfc, -6, 9, "scipy.special.erfc"),
    "asin": (np.arcsin, -1, 1, "numpy.arcsin"), "acos": (np.arccos, -1, 1, "numpy.arccos"), "atan": (np.arctan, -99, 99, "numpy.arctan"),
    "sinh": (np.sinh, -20, 20, "numpy.sinh"), "cosh": (np.cosh, -20, 20, "numpy.cosh"), "asinh": (np.arcsinh, -99, 99, "numpy.arcsinh"),
    "acosh": (np.arccosh, 1, 99, "numpy.arccosh"), "atanh": (np.arctanh, -1, 1, "numpy.arctanh"),
}
PAIRED = {
    "floor_mod": (np.mod, "numpy.mod"), "floor_div": (np.floor_divide, "numpy.floor_divide"),
    "squared_difference": (lambda x, y: (x - y) ** 2, "(x - y)^2 in numpy"), "logaddexp": (np.logaddexp, "numpy.logaddexp"),
}


def exactly(q, dtype):
    """A fraction rounded once, to nearest, ties to even. Zero is positive."""
    info = ml_dtypes.finfo(dtype)
    digits, lowest = info.nmant + 1, info.minexp
    if q == 0:
        return 0.0
    exponent = abs(q.numerator).bit_length() - q.denominator.bit_length()
    exponent -= abs(q) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, lowest) - digits + 1)
    y = round(q / unit) * unit  # of fractions, to even
    return float(y) if abs(y) <= Fraction(float(info.max)) else math.inf if y > 0 else -math.inf


def fused(f):
    """x * y + z in fractions, compared bit by bit: where a second rounding, by way of f32 or of f64, would give another."""
    for dtype, bits in ((f64, u64), (f32, u32), (f16, u16), (bf16, u16)):
        name, digits = NAMES[dtype][0], ml_dtypes.finfo(dtype).nmant + 1
        x, y, z = (normal("fused" + side + name, (96,), dtype) for side in "xyz")
        unit = 2.0 ** (1 - digits)  # of numbers in [1, 2)
        z[:16] = -(x * y)[:16]  # cancels: what is left is what the product's rounding would lose
        k = np.arange(16)
        for at, turn in ((16, 1), (32, -1)):  # z + unit / 2 and a little less or more, which only the exact sum shows
            x[at:at + 16] = (unit / 2 * (1 + k * unit)).astype(dtype)
            y[at:at + 16] = (1 - turn * k * unit).astype(dtype)
            z[at:at + 16] = (1 + k * unit).astype(dtype)
        tiny = 2.0 ** (ml_dtypes.finfo(dtype).minexp // 2)
        x[48:64], y[48:64], z[48:64] = x[48:64] * dtype.type(tiny), y[48:64] * dtype.type(tiny), z[48:64] * dtype.type(tiny * tiny)  # subnormal
        x[64:70], y[64:70] = dtype.type(ml_dtypes.finfo(dtype).max), dtype.type(1.5)  # beyond the largest, and back
        z[64:67], z[67:70] = -dtype.type(ml_dtypes.finfo(dtype).max), dtype.type(1)
        sums = [exactly(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), dtype) for a, b, c in zip(x, y, z)]
        out = np.array(sums, f64).astype(dtype)
        assert np.array_equal(out.astype(f64), sums)
        nodes = Nodes([x, y, z])
        result, = nodes("fma", range(3), type_text(out))
        results = nodes("bitcast", [result], type_text(out.view(bits)), dtype=bits)
        f.add_graph(f"fma_{name}_bits", nodes, results, [x, y, z], [out.view(bits)], "x * y + z in Python's fractions, rounded once; its bits")


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
        for slope in (0.01, 0.3):
            f.add(f"leaky_relu_{slope}_{NAMES[dtype][0]}".replace(".", "_"), "leaky_relu", [x], in_f64(lambda v: np.where(v < 0, slope * v, v), x),
                  "where(x < 0, slope * x, x) in numpy", slope=slope)
        f.add(f"celu_{NAMES[dtype][0]}", "celu", [x], in_f64(torched(lambda v: F.celu(v, 0.6)), x), "torch celu in f64", alpha=0.6)
        f.add(f"hard_sigmoid_onnx_{NAMES[dtype][0]}", "hard_sigmoid", [x], in_f64(lambda v: np.clip(0.2 * v + 0.5, 0, 1), x),
              "clip(0.2 x + 0.5, 0, 1) in numpy, the default of ONNX", alpha=0.2, beta=0.5)
    a, b, c = (normal("fma" + s, (64,)) for s in "abc")
    c[:32] = -(a * b)[:32]  # cancels: a second rounding would show
    f.add("fma_f32", "fma", [a, b, c], in_f64(lambda a, b, c: a * b + c, a, b, c), "a * b + c in f64, where the product is exact")


def elementary(f):
    for op, (function, low, high, source) in ELEMENTARY.items():
        for dtype in (f64, f32):
            x = np.concatenate([uniform(op, (30,), low, high, dtype), np.array([low, high, max(low, 1e-5), max(low, -1e-5), max(low, 0.5)], dtype)])
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x], in_f64(function, x), source + " in f64")
    for op, (function, source) in PAIRED.items():
        for dtype in (f64, f32) + (() if op == "logaddexp" else (i32, i8)):
            scale = 100 if op == "logaddexp" else 9
            x, y = (uniform(op + side, (40,), -scale, scale).round(1 if is_real(dtype) else 0).astype(dtype) for side in "xy")
            y[y == 0] = 3
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x, y], in_f64(function, x, y) if is_real(dtype) else [function(x, y)], source)
    x, y = np.array([np.inf, -np.inf, -np.inf, 3.4e38, 800], f32), np.array([1, -np.inf, 5, 3.4e38, -800], f32)
    f.add("logaddexp_edges", "logaddexp", [x, y], in_f64(np.logaddexp, x, y), "numpy.logaddexp in f64")


def cases():
    f, g = Family("activations"), Family("elementary")
    activations(f)
    fused(f)
    elementary(g)
    return [f, g]
