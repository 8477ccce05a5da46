"""Derivatives of the calls in tests/python/gradient_cases.py, backward and forward, in f64 by JAX; where JAX has no rule or another definition, by
PyTorch or from the derivative's formula in SciPy and mpmath.

usage: python_gradients.py [NAME...]    (such as np.sum, or np for a module; the other names keep what is written)
writes tests/golden/python_gradients/: cases.safetensors with, for the call NUMBER of NAME, NAME/NUMBER/in0 ... (inputs, in numbers that f32 has),
ct0 ... (cotangents of the float results), d0 ... (those of the inputs), t0 ... (tangents), jv0 ... (the tangents of the results).
safetensors has no c128: a complex array is one of pairs, its name ending in z.
"""
import pathlib
import sys
import warnings
import zlib

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import scipy.special as sp
import torch
from safetensors.numpy import load_file, save_file

import recorded

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "python"))
import gradient_cases as table

jax.config.update("jax_enable_x64", True)
lax, jsp = jax.lax, jax.scipy


def narrow(x):
    """Numbers that f32 has, as f64."""
    x = np.asarray(x)
    return x.astype(np.complex64).astype(np.complex128) if x.dtype.kind == "c" else x.astype(np.float32).astype(np.float64)


def draw(drawn, rng):
    if drawn.values is not None:
        return narrow(drawn.values)
    if drawn.lo is None:
        part = lambda: rng.normal(size=drawn.shape)
    else:
        part = lambda: rng.uniform(drawn.lo, drawn.hi, size=drawn.shape)
    return narrow(part() + 1j * part() if drawn.complex else part())


def normal_like(x, rng):
    x = np.asarray(x)
    return narrow(rng.normal(size=x.shape) + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else rng.normal(size=x.shape))


# What is spelled otherwise in JAX.

def conv(x, w, strides, padding, dilation, groups):
    return lax.conv_general_dilated(x, w, strides, padding, rhs_dilation=dilation, feature_group_count=groups)


def reduce_window(x, kind, init, window, strides, padding, dilation=None):
    """Windows by their indices: element i of axis d of window o stands at o stride + i dilation."""
    x = jnp.pad(x, padding, constant_values=init)
    dilation = dilation or (1,) * x.ndim
    for d, (size, stride, dilated) in enumerate(zip(window, strides, dilation)):
        count = (x.shape[2 * d] - (size - 1) * dilated - 1) // stride + 1
        at = np.arange(count)[:, None] * stride + np.arange(size)[None] * dilated
        x = jnp.take(x, at, axis=2 * d)
    return {"max": jnp.max, "min": jnp.min, "add": jnp.sum, "mul": jnp.prod}[kind](x, axis=tuple(range(1, 2 * len(window), 2)))


def index_update(combine):
    """x[index] combined with what goes there, however often: for each element, over the rows of a table of who goes where."""
    neutral = {"mul": 1.0, "max": -np.inf, "min": np.inf}[combine]

    def f(x, index, v):
        positions = np.arange(x.size).reshape(x.shape)[index]
        v = jnp.broadcast_to(v, positions.shape).ravel()
        here = jnp.where(positions.ravel()[:, None] == np.arange(x.size)[None], v[:, None], neutral)
        every = jnp.concatenate([x.reshape(1, -1), here])
        return {"mul": jnp.prod, "max": jnp.max, "min": jnp.min}[combine](every, 0).reshape(x.shape)
    return f


def solve_triangular(a, b, lower=False, unit_diagonal=False):
    one = lambda a, b: jsp.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)
    return jax.vmap(one)(a, b) if a.ndim == 3 else one(a, b)


def cholesky(a):
    return jnp.linalg.cholesky(a, symmetrize_input=True)


JAX = {
    "rlx.stop_gradient": lax.stop_gradient, "rlx.top_k": lambda x, k: lax.top_k(x, k), "rlx.scan": lax.scan, "rlx.conv": conv, "rlx.reduce_window": reduce_window,
    "rlx.index_set": lambda x, i, v: x.at[i].set(v), "rlx.index_add": lambda x, i, v: x.at[i].add(v),
    **{f"rlx.index_{kind}": index_update(kind) for kind in ("mul", "max", "min")},
    "linalg.solve_triangular": solve_triangular, "linalg.cholesky": cholesky, "linalg.expm": jsp.linalg.expm, "linalg.lu": lambda a: lax.linalg.lu(a)[:1],
    "np.bincount": lambda x, w, n: jnp.zeros(n, w.dtype).at[x].add(w),
    "np.astype": lambda x, dtype: jnp.asarray(x).astype(dtype),
}


def by_jax(name):
    if name in JAX:
        return JAX[name], jnp
    module, _, attribute = name.partition(".")
    return getattr({"np": jnp, "nn": jax.nn, "special": jsp.special, "linalg": jnp.linalg, "fft": jnp.fft}[module], attribute), jnp


def jax_derivatives(name, arguments, keywords, inputs, seeds, number):
    function, numpy = by_jax(name)
    f = lambda *xs: table.called(function, numpy, arguments, keywords, xs)
    xs = [jnp.asarray(x) for x in inputs]
    values = jax.eval_shape(f, *xs)
    tangents, cotangents = seeds(inputs, [np.zeros(v.shape, v.dtype) for v in values])

    @jax.jit
    def both(xs, cts, ts):
        return jax.vjp(f, *xs)[1](cts), jax.jvp(f, tuple(xs), tuple(ts))[1]

    d, jv = both(xs, [jnp.asarray(c, v.dtype) for c, v in zip(cotangents, values)], [jnp.asarray(t) for t in tangents])
    return cotangents, d, tangents, jv


# PyTorch, of real inputs; its cotangents are the conjugates of ours (docs/ir.md).

def torch_conv_transpose(x, w, strides, padding, output_padding, dilation, groups):
    f = (torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d, torch.nn.functional.conv_transpose3d)[x.ndim - 3]
    return f(x, w, None, strides, padding, output_padding, groups, dilation)


TORCH = {
    "np.abs/3": torch.abs,  # 0 at 0, as ours; JAX has 1 there
    "rlx.conv_transpose": torch_conv_transpose, "linalg.householder_product": torch.linalg.householder_product, "linalg.eig": torch.linalg.eig,
}


def torch_derivatives(name, arguments, keywords, inputs, seeds, number):
    f = lambda *xs: table.called(TORCH.get(f"{name}/{number}") or TORCH[name], torch, arguments, keywords, xs)
    xs = [torch.from_numpy(x.copy()).requires_grad_() for x in inputs]
    assert not any(x.is_complex() for x in xs)
    values = f(*xs)
    tangents, cotangents = seeds(inputs, [v.detach().numpy() for v in values])
    d = torch.autograd.grad(values, xs, [torch.from_numpy(c).conj().resolve_conj() for c in cotangents], allow_unused=True)
    jv = torch.func.jvp(lambda *xs: tuple(f(*xs)), tuple(x.detach() for x in xs), tuple(torch.from_numpy(t) for t in tangents))[1]
    return cotangents, [np.zeros(x.shape) if g is None else g for g, x in zip(d, inputs)], tangents, [v.numpy() for v in jv]


# Formulas: value and partial derivatives of element-wise functions.

def numeric(f, *xs):
    """An mpmath derivative of f in its first argument, to more digits than f64 has."""
    with mpmath.workdps(40):
        return np.vectorize(lambda x, *rest: float(mpmath.diff(lambda v: f(v, *rest), mpmath.mpf(x))))(*xs)


def lower_gamma(a, x):
    return mpmath.gammainc(a, 0, x, regularized=True)


FORMULAS = {
    "special.erfcx": lambda x: (sp.erfcx(x), [2 * x * sp.erfcx(x) - 2 / np.sqrt(np.pi)]),
    "special.i0": lambda x: (sp.i0(x), [sp.i1(x)]),  # JAX has 1 at 0
    "special.zeta": lambda s, q: (sp.zeta(s, q), [numeric(lambda s, q: mpmath.zeta(s, q), s, q), -s * sp.zeta(s + 1, q)]),
    "special.gammainc": lambda a, x: (sp.gammainc(a, x), [numeric(lower_gamma, a, x), np.exp(-x + (a - 1) * np.log(x) - sp.gammaln(a))]),
    "special.gammaincc": lambda a, x: (sp.gammaincc(a, x), [-numeric(lower_gamma, a, x), -np.exp(-x + (a - 1) * np.log(x) - sp.gammaln(a))]),
    # The result moves with x1, a step of one unit beside it; x2 is a direction.
    "np.nextafter": lambda a, b: (np.nextafter(a, b), [np.ones(a.shape), np.zeros(b.shape)]),
    # The derivative of the mantissa is that of x 2^-e with e fixed, which it is between powers of two.
    "np.frexp": lambda x: (np.frexp(x)[0], [2.0 ** -np.frexp(x)[1].astype(np.float64)]),
}


def summed_to(x, shape):
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(d for d, n in enumerate(shape) if n == 1), keepdims=True)


def formula_derivatives(name, arguments, keywords, inputs, seeds, number):
    assert len(table.drawn_of(arguments, keywords)) == len(arguments)
    wide = np.broadcast_arrays(*inputs)
    value, partials = FORMULAS[name](*wide)
    tangents, cotangents = seeds(inputs, [value])
    d = [summed_to(cotangents[0] * p, x.shape) for p, x in zip(partials, inputs)]
    return cotangents, d, tangents, [sum(p * t for p, t in zip(partials, tangents))]


def how(name, number):
    if name in FORMULAS:
        return formula_derivatives
    return torch_derivatives if name in TORCH or f"{name}/{number}" in TORCH else jax_derivatives


def derivatives(name, number, arguments, keywords):
    rng = np.random.default_rng(zlib.crc32(f"{name} {number}".encode()))
    inputs = [draw(x, rng) for x in table.drawn_of(arguments, keywords)]
    seeds = lambda inputs, values: ([normal_like(x, rng) for x in inputs], [normal_like(v, rng) for v in values])
    ct, d, t, jv = how(name, number)(name, arguments, keywords, inputs, seeds, number)
    key = f"{name}/{number}"
    made = {}
    for role, arrays in (("in", inputs), ("ct", ct), ("d", d), ("t", t), ("jv", jv)):
        for i, x in enumerate(map(np.asarray, arrays)):
            if x.dtype.kind == "c":
                made[f"{key}/{role}{i}z"] = np.stack([x.real, x.imag], -1).astype(np.float64)
            else:
                made[f"{key}/{role}{i}"] = np.array(x, np.float64, order="C")
    return made


def main(names):
    out = recorded.folder("python_gradients")
    path = out / "cases.safetensors"
    wanted = {f"{name}/{number}" for name, calls in table.CASES.items() for number in range(len(calls))}
    tensors, failed = {}, False
    if names:
        tensors = {key: x for key, x in load_file(path).items() if key.rpartition("/")[0] in wanted}
    for name, calls in table.CASES.items():
        if names and name not in names and name.partition(".")[0] not in names:
            continue
        for number, (arguments, keywords) in enumerate(calls):
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    made = derivatives(name, number, arguments, keywords)
            except Exception as e:
                print(f"{name}/{number}: {type(e).__name__}: {str(e)[:300]}")
                failed = True
                continue
            odd = [key for key, x in made.items() if np.isnan(x).any() and "/in" not in key]
            if odd:
                print(f"{name}/{number}: not a number in {', '.join(odd)}")
            tensors.update(made)
        print(name, flush=True)
    if failed:
        sys.exit("nothing is written")
    save_file(tensors, path)
    sources = [how(name, number).__name__.partition("_")[0] for name, calls in table.CASES.items() for number in range(len(calls))]
    recorded.write_versions(out, "python_gradients.py", ["numpy", "scipy", "jax", "jaxlib", "torch", "mpmath", "safetensors"], names=len(table.CASES),
                            cases=len(sources), **{source: sources.count(source) for source in sorted(set(sources))})


if __name__ == "__main__":
    main(sys.argv[1:])
