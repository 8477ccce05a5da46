"""Fourier transforms by numpy.fft, in c128, and complex numbers; derivatives by JAX, in c64 and in c128."""
import jax.numpy as jnp
import numpy as np

from .case import *
from .derivative import by_jax, complex_normal

KINDS = {"fft": (np.fft.fftn, jnp.fft.fftn), "ifft": (np.fft.ifftn, jnp.fft.ifftn), "rfft": (np.fft.rfftn, jnp.fft.rfftn),
         "irfft": (np.fft.irfftn, jnp.fft.irfftn)}


def operand(case, kind, dims, dtype):
    """`dtype`: c64 or c128."""
    return normal(case, dims, f32 if dtype == c64 else f64) if kind == "rfft" else complex_normal(case, dims, dtype)


def lengths(dims, axes, length):
    """irfftn's `s`, if it is not the default."""
    return [*(dims[a] for a in axes[:-1]), length] if length else None


def add(f, kind, dims, axes, dtype, norm="backward", length=None, derivative=False):
    tag = f"{kind}_{NAMES[dtype][0]}_{'x'.join(map(str, dims))}_axes{'_'.join(map(str, axes))}_{norm}".replace("-", "m")
    if length:
        tag += f"_to{length}"
    x = operand(tag, kind, dims, dtype)
    attributes = {"kind": kind, "axes": list(axes), "norm": norm, "length": length}
    keywords = {"axes": axes, "norm": norm} | ({"s": lengths(dims, axes, length)} if length else {})
    if derivative:
        f.add_derivative(tag + "_d", "fft", [x], by_jax, lambda v: KINDS[kind][1](v, **keywords), f"jax.numpy.fft.{kind}n", **attributes)
        return
    wide = x.astype(f64 if kind == "rfft" else c128)
    y = KINDS[kind][0](wide, **keywords)
    out = {"rfft": dtype, "irfft": f32 if dtype == c64 else f64}.get(kind, dtype)
    f.add(tag, "fft", [x], [y.astype(out)], f"numpy.fft.{kind}n", **attributes)


def transforms(f):
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 22, 30, 32, 49, 60, 64, 65, 67, 81, 97, 100, 121, 125, 128, 169, 210, 243,
              256, 257, 343, 360, 500, 512, 1000, 1009, 1024):
        for kind in ("fft", "ifft"):
            add(f, kind, (2, n) if n < 300 else (n,), (-1,), c64)
    for n in (2, 3, 4, 5, 6, 8, 9, 10, 15, 16, 30, 31, 64, 67, 100, 134, 256, 1000):
        add(f, "rfft", (3, n), (-1,), c64)
        add(f, "irfft", (3, n // 2 + 1), (-1,), c64, length=n)
    add(f, "irfft", (5,), (0,), c64)
    for kind in KINDS:
        for norm in ("backward", "ortho", "forward"):
            add(f, kind, (4, 6, 5), (1,), c64, norm)
            add(f, kind, (4, 6, 5), (0, 2), c64, norm)
            add(f, kind, (4, 6, 5), (2, 0, 1), c64, norm)
    add(f, "fft", (20, 33), (0,), c64)
    add(f, "ifft", (3, 67, 5), (1,), c64)
    add(f, "fft", (40, 3), (0,), c64)
    add(f, "rfft", (18, 19), (0,), c64)
    add(f, "irfft", (10, 17), (0,), c64, length=19)
    add(f, "fft", (100, 6), (1,), c64)
    add(f, "rfft", (33, 40), (1,), c64)


def derivatives(f):
    for dtype in (c64, c128):
        for kind in KINDS:
            for norm in ("backward", "ortho", "forward"):
                add(f, kind, (3, 6), (-1,), dtype, norm, derivative=True)
                add(f, kind, (3, 5, 4), (0, 1), dtype, norm, derivative=True)
        for length in (7, 8):
            add(f, "irfft", (2, length // 2 + 1), (1,), dtype, length=length, derivative=True)
            add(f, "rfft", (2, length), (1,), dtype, derivative=True)
        add(f, "fft", (70,), (0,), dtype, derivative=True)


def complex_numbers(f):
    for dtype, tag in ((c64, "c64"),):
        z, g = complex_normal("z", (3, 4), dtype), normal("g", (3, 4))
        f.add_derivative(f"conjugate_{tag}", "conjugate", [z], by_jax, jnp.conj, "jax.numpy.conj")
        f.add_derivative(f"complex_norm_sq_{tag}", "complex_norm_sq", [z], by_jax, lambda v: jnp.real(v) ** 2 + jnp.imag(v) ** 2, "real^2 + imag^2 in JAX")
        f.add(f"complex_norm_sq_backward_{tag}", "complex_norm_sq_backward", [z, g], in_f64(lambda z, g: z * g, z, g), "z * g in numpy")
        edges = np.array([complex(0, 0), complex(3, -4), complex(np.inf, 1), complex(1e-30, 0), complex(-0.0, -0.0)], dtype)
        f.add(f"conjugate_edges_{tag}", "conjugate", [edges], [np.conj(edges)], "numpy.conj")
    # Arithmetic and functions of complex numbers: the pairing without a conjugation.
    functions = {"mul": jnp.multiply, "div": jnp.divide, "add": jnp.add, "sub": jnp.subtract, "pow": jnp.power}
    for op, function in functions.items():
        f.add_derivative(f"{op}_c64_d", op, [complex_normal(op + "x", (5,), c64), complex_normal(op + "y", (5,), c64)], by_jax, function, f"jax.numpy.{function.__name__}")
    unary = {"exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh, "abs": jnp.abs, "real": jnp.real, "imag": jnp.imag,
             "reciprocal": lambda z: 1 / z, "square": jnp.square, "neg": jnp.negative}
    for op, function in unary.items():
        f.add_derivative(f"{op}_c64_d", op, [complex_normal(op, (6,), c64)], by_jax, function, f"{op} in JAX")
    f.add_derivative("complex_d", "complex", [normal("re", (4,)), normal("im", (4,))], by_jax, lambda a, b: a + 1j * b, "a + i b in JAX")


def cases():
    f, g = Family("fft"), Family("complex")
    transforms(f)
    derivatives(f)
    complex_numbers(g)
    return [f, g]
