#!/usr/bin/env python3
"""Writes tests/ops/derivatives_cases.inc: derivatives of element-wise ops at kinks, poles, infinities and NaN, by JAX.

Each row is an op, its attributes, its operands and for each operand the derivative of the op's sum. Run by hand when a row
is added, with jax 0.10 and torch 2.15; the test only reads what it wrote. Where JAX and PyTorch differ, or both give what
cannot be meant, the row says whose value it is, or why it is ours.
"""
import pathlib

import jax
import jax.nn as nn
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import torch
from jax import lax

jax.config.update("jax_enable_x64", True)
HERE = pathlib.Path(__file__).parent
inf, nan = np.inf, np.nan
ROWS = []


def number(v):
    v = float(v)
    return "nan" if np.isnan(v) else "inf" if v == inf else "-inf" if v == -inf else repr(v)


def text(x):
    x = np.asarray(x, np.float64)
    return f"f64[{len(x)}] [{', '.join(map(number, x))}]"


def row(op, inputs, derivatives, source, attrs=""):
    quote = lambda s: '"' + s + '"'
    ROWS.append(f"{{{quote(source)},\n {quote(op)}, {quote(attrs)},\n {{{', '.join(quote(text(x)) for x in inputs)}}},\n"
                f" {{{', '.join(quote(text(d)) for d in derivatives)}}}}},\n")


def by_jax(op, function, *inputs, attrs=""):
    inputs = [jnp.asarray(x, jnp.float64) for x in inputs]
    y, pull = jax.vjp(function, *inputs)
    row(op, inputs, pull(jnp.ones_like(y)), "JAX", attrs)


def by_torch(op, function, *inputs, attrs=""):
    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in inputs]
    function(*inputs).sum().backward()
    row(op, [x.detach().numpy() for x in inputs], [x.grad.numpy() for x in inputs], "PyTorch", attrs)


EDGE = [-inf, -1e300, -100.0, -1.0, -1e-300, 0.0, 1e-300, 1.0, 100.0, 1e300, inf, nan]
FINITE = [-100.0, -3.0, -1.0, 0.0, 0.5, 3.0, 100.0]


def pairs(values):
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


def main():
    by_torch("abs", torch.abs, EDGE)  # JAX gives 1 at 0
    for op, function in {"neg": jnp.negative, "sign": jnp.sign, "exp": jnp.exp, "expm1": jnp.expm1, "tanh": jnp.tanh, "erf": lax.erf, "cbrt": jnp.cbrt,
                         "atan": jnp.arctan, "relu": nn.relu, "square": jnp.square, "reciprocal": lambda x: 1 / x, "floor": jnp.floor,
                         "asinh": jnp.arcsinh, "erfc": lax.erfc, "exp2": jnp.exp2}.items():
        by_jax(op, function, EDGE)
    for op, function in {"log": jnp.log, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "log2": jnp.log2, "log10": jnp.log10}.items():
        by_jax(op, function, [-1.0, 0.0, 1e-300, 1.0, 4.0, inf, nan])
    by_jax("log1p", jnp.log1p, [-2.0, -1.0, -0.5, 0.0, 1e-300, inf, nan])
    for op, function in {"asin": jnp.arcsin, "acos": jnp.arccos, "atanh": jnp.arctanh}.items():
        by_jax(op, function, [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, nan])
    by_jax("acosh", jnp.arccosh, [0.5, 1.0, 2.0, 1e10, inf, nan])
    for op, function in {"logistic": nn.sigmoid, "sinh": jnp.sinh, "cosh": jnp.cosh, "silu": nn.silu, "gelu": lambda x: nn.gelu(x, approximate=False),
                         "gelu_tanh": nn.gelu, "softplus": nn.softplus, "log_sigmoid": nn.log_sigmoid, "softsign": nn.soft_sign, "selu": nn.selu,
                         "elu": nn.elu, "celu": nn.celu}.items():
        by_jax(op, function, FINITE + [nan])
    by_jax("leaky_relu", nn.leaky_relu, FINITE)
    by_jax("elu", lambda x: nn.elu(x, 1.7), FINITE, attrs="{alpha = 1.7}")
    by_jax("celu", lambda x: nn.celu(x, 0.6), FINITE, attrs="{alpha = 0.6}")
    by_jax("leaky_relu", lambda x: nn.leaky_relu(x, -0.5), FINITE, attrs="{slope = -0.5}")
    by_torch("mish", torch.nn.functional.mish, FINITE + [nan])
    by_torch("relu6", torch.nn.functional.relu6, [-1.0, 0.0, 3.0, 6.0, 7.0, inf, -inf])
    # PyTorch's 1/6 is that of f32.
    by_torch("hard_sigmoid", lambda x: 6 * torch.nn.functional.hardsigmoid(x) / 6.0000000000000001, [-4.0, -3.0, 3.0, 4.0, inf, -inf])
    row("hard_sigmoid", [[-2.9, 0.0, 2.9]], [[1 / 6] * 3], "1/6 inside")
    # At -3 and 3 PyTorch takes the limit from inside, -1/2 and 3/2: neither side's slope of the published definition.
    by_torch("hard_swish", torch.nn.functional.hardswish, [-4.0, -2.9, -1.0, 0.0, 2.9, 4.0, 100.0])
    row("hard_swish", [[-3.0, 3.0]], [[0.0, 1.0]], "ops.md: 0 up to -3, 1 from 3 on")
    by_torch("clamp", lambda x: x.clamp(-1.0, 2.0), [-inf, -2.0, 0.0, 3.0, inf, nan], attrs="{min = -1, max = 2}")
    by_torch("clamp", lambda x: x.clamp(min=0.5), [-1.0, 3.0, inf], attrs="{min = 0.5}")
    # At the bounds JAX lets half of it pass, PyTorch up to 2.8 all and since then nothing.
    row("clamp", [[-1.0, 2.0]], [[1.0, 1.0]], "ops.md: it passes where min <= x <= max", "{min = -1, max = 2}")

    a, b = pairs([-inf, -2.0, 0.0, 1.0, inf])
    for op, function in {"maximum": jnp.maximum, "minimum": jnp.minimum}.items():
        by_jax(op, function, a, b)
        by_jax(op, function, [nan, 1.0, nan], [1.0, nan, nan])
    a, b = pairs([0.0, 0.5, 1.0, 2.0, 3.0, inf])
    by_torch("pow", torch.pow, a, b)  # JAX gives NaN at 0, 0
    by_torch("pow", torch.pow, [-2.0, -2.0, -1.0, 0.0, 0.0, 2.0], [2.0, 3.0, 0.0, -1.0, -0.5, -1.0])
    a, b = pairs([-1000.0, -1.0, 0.0, 2.0, 1000.0])
    by_jax("logaddexp", jnp.logaddexp, a, b)
    by_torch("logaddexp", torch.logaddexp, [-inf, 0.0, inf, -1e308], [3.0, -inf, 0.0, 1e308])
    # JAX gives 1 and 1, NaN and NaN: halves are what equal finite numbers give.
    row("logaddexp", [[inf, -inf], [inf, -inf]], [[0.5, 0.5], [0.5, 0.5]], "the limit of equal finite numbers")
    by_jax("atan2", jnp.arctan2, [0.0, 0.0, 1.0, -1.0, 0.0], [1.0, -1.0, 0.0, 0.0, 0.0])
    by_jax("div", jnp.divide, [1.0, 0.0, 1.0, inf, 2.0], [0.0, 0.0, inf, 2.0, 4.0])
    by_jax("rem", lax.rem, [5.5, -5.5, 5.5, 0.0, 6.0], [2.0, 2.0, -2.0, 3.0, 3.0])
    by_jax("floor_mod", jnp.remainder, [5.5, -5.5, 5.5, 0.0], [2.0, 2.0, -2.0, 3.0])
    # JAX's derivative of hypot at 0, 0 is NaN in one operand and 0 in the other; PyTorch's NaN in both.
    by_torch("hypot", torch.hypot, [3.0, 0.0, -1e200, 1e-200], [4.0, -2.0, 1e200, 1e-200])
    row("hypot", [[0.0], [0.0]], [[0.0], [0.0]], "as abs has it at 0")
    by_jax("xlogy", jsp.xlogy, [0.0, 0.0, 2.0, 1.0], [3.0, 1.0, 0.5, 0.0])
    by_jax("xlog1py", jsp.xlog1py, [0.0, 0.0, 2.0, 1.0], [3.0, 0.0, 0.5, -1.0])
    by_jax("logit", jsp.logit, [0.0, 0.5, 1.0])
    by_torch("ndtri", torch.special.ndtri, [0.0, 0.5, 1.0])  # JAX gives 0 where the slope is infinite
    by_jax("entr", jsp.entr, [0.0, 1.0, 1e-300, inf])
    by_jax("sinc", jnp.sinc, [0.0, 1.0, -2.0, 0.25, 0.2499, 10.5])
    row("sinc", [[1e-9, -1e-5]], [[-np.pi**2 / 3 * 1e-9, np.pi**2 / 3 * 1e-5 - np.pi**4 / 30 * 1e-15]], "its Taylor series, where JAX gives 0")
    for op in ("i0", "i0e", "i1", "i1e"):  # JAX gives 1 for i0 at 0
        by_torch(op, getattr(torch.special, op), [0.0, 1e-10, -1e-10, 8.0, -8.0])
    by_torch("log_ndtr", torch.special.log_ndtr, [-100.0, -20.0, 0.0, 20.0])
    by_jax("erfinv", jsp.erfinv, [0.0, 1e-300, 1.0, -1.0])
    head = "// Written by derivatives.py: do not edit. clang-format off\n"
    (HERE / "derivatives_cases.inc").write_text(head + "".join(ROWS) + "// clang-format on\n")


if __name__ == "__main__":
    main()
