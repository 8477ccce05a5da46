"""Cotangents of element-wise ops, activations and products in f32 and f64, by JAX and PyTorch, away from kinks."""
import jax
import jax.numpy as jnp
import jax.scipy.special as special
import torch
import torch.nn.functional as F

from .case import *
from .derivative import by_jax, by_torch

UNARY = {  # op: (function in JAX, lowest and highest operand)
    "abs": (jnp.abs, 0.1, 3), "neg": (jnp.negative, -3, 3), "exp": (jnp.exp, -4, 4), "expm1": (jnp.expm1, -4, 4), "log": (jnp.log, 0.05, 9),
    "log1p": (jnp.log1p, -0.9, 9), "sqrt": (jnp.sqrt, 0.05, 9), "rsqrt": (jax.lax.rsqrt, 0.05, 9), "cbrt": (jnp.cbrt, 0.05, 9),
    "sin": (jnp.sin, -9, 9), "cos": (jnp.cos, -9, 9), "tan": (jnp.tan, -1.4, 1.4), "tanh": (jnp.tanh, -4, 4), "logistic": (jax.nn.sigmoid, -9, 9),
    "erf": (special.erf, -3, 3), "square": (jnp.square, -3, 3), "reciprocal": (jnp.reciprocal, 0.2, 5), "exp2": (jnp.exp2, -4, 4),
    "log2": (jnp.log2, 0.05, 9), "log10": (jnp.log10, 0.05, 9), "erfc": (special.erfc, -3, 3), "asin": (jnp.arcsin, -0.95, 0.95),
    "acos": (jnp.arccos, -0.95, 0.95), "atan": (jnp.arctan, -9, 9), "sinh": (jnp.sinh, -4, 4), "cosh": (jnp.cosh, -4, 4), "asinh": (jnp.arcsinh, -9, 9),
    "acosh": (jnp.arccosh, 1.1, 9), "atanh": (jnp.arctanh, -0.95, 0.95)}
BINARY = {
    "add": (jnp.add, -3, 3), "sub": (jnp.subtract, -3, 3), "mul": (jnp.multiply, -3, 3), "div": (jnp.divide, 0.3, 3), "pow": (jnp.power, 0.2, 3),
    "maximum": (jnp.maximum, -3, 3), "minimum": (jnp.minimum, -3, 3), "atan2": (jnp.arctan2, 0.2, 3), "rem": (jnp.fmod, 0.7, 9),
    "squared_difference": (lambda x, y: jnp.square(x - y), -3, 3), "logaddexp": (jnp.logaddexp, -9, 9)}
ACTIVATIONS = {  # op: (function in PyTorch, attributes)
    "relu": (F.relu, {}), "relu6": (F.relu6, {}), "gelu": (F.gelu, {}), "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), {}), "silu": (F.silu, {}),
    "softplus": (lambda x: F.softplus(x, threshold=1e9), {}), "log_sigmoid": (F.logsigmoid, {}), "mish": (F.mish, {}), "softsign": (F.softsign, {}),
    "selu": (F.selu, {}), "hard_swish": (F.hardswish, {}), "hard_sigmoid": (lambda x: F.relu6(x + 3) / 6, {}),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), {"slope": 0.2}), "elu": (lambda x: F.elu(x, 1.5), {"alpha": 1.5}),
    "celu": (lambda x: F.celu(x, 1.5), {"alpha": 1.5})}
PRODUCTS = [  # (op, dims of the operands, function in JAX, attributes)
    ("matmul", [(3, 4), (4, 5)], jnp.matmul, {}), ("matmul", [(2, 3, 4), (4, 5)], jnp.matmul, {}), ("matmul", [(2, 1, 3, 4), (5, 4, 2)], jnp.matmul, {}),
    ("matmul", [(4,), (4, 3)], jnp.matmul, {}), ("matmul", [(3, 4), (4,)], jnp.matmul, {}), ("matmul", [(7,), (7,)], jnp.matmul, {}),
    ("matmul", [(1, 17), (17, 1)], jnp.matmul, {}),
    ("linear", [(2, 3, 4), (5, 4)], lambda x, w: x @ w.T, {}), ("linear", [(3, 4), (5, 4), (5,)], lambda x, w, b: x @ w.T + b, {}),
    ("lora_matmul", [(3, 4), (4, 5), (4, 2), (2, 5)], lambda x, w, a, b: x @ w + 0.5 * (x @ a) @ b, {"scale": 0.5}),
    ("fused_swiglu", [(3, 8)], lambda x: x[..., :4] * jax.nn.silu(x[..., 4:]), {}),
    ("glu", [(3, 8)], lambda x: x[..., :4] * jax.nn.sigmoid(x[..., 4:]), {}),
    ("fma", [(3, 4), (3, 4), (3, 4)], lambda x, y, z: x * y + z, {})]


def cases():
    f = Family("elementwise_gradients")
    for dtype in (f64, f32):
        name = NAMES[dtype][0]
        for op, (function, low, high) in UNARY.items():
            f.add_derivative(f"d_{op}_{name}", op, [uniform(f"d_{op}", (3, 7), low, high, dtype)], by_jax, function, f"jax.vjp of {function.__name__} in f64")
        for op, (function, low, high) in BINARY.items():
            x, y = (uniform(f"d_{op}_{side}", (3, 7), low, high, dtype) for side in "xy")
            f.add_derivative(f"d_{op}_{name}", op, [x, y], by_jax, function, "jax.vjp in f64")
        for op, (function, attributes) in ACTIVATIONS.items():
            f.add_derivative(f"d_{op}_{name}", op, [uniform(f"d_{op}", (5, 9), -6, 6, dtype)], by_torch, function, "torch autograd in f64", **attributes)
        x = uniform("d_clamp", (4, 5), -3, 3, dtype)
        f.add_derivative(f"d_clamp_{name}", "clamp", [x], by_torch, lambda v: torch.clamp(v, -1, 1.5), "torch autograd of clamp in f64", min=-1, max=1.5)
    g = Family("product_gradients")
    for dtype in (f64, f32):
        for i, (op, dims, function, attributes) in enumerate(PRODUCTS):
            inputs = [normal(f"d_{op}_{i}_{n}", d, dtype) for n, d in enumerate(dims)]
            g.add_derivative(f"d_{op}_{i}_{NAMES[dtype][0]}", op, inputs, by_jax, function, "jax.vjp in f64", **attributes)
    return [f, g]
