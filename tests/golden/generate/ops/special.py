"""Special functions: values by mpmath with 60 digits, rounded once, where it has the function, else by SciPy; derivatives
by JAX and PyTorch. tests/ops/special_test.cpp asks for more digits than the comparison of all golden cases does."""
import jax.numpy as jnp
import jax.scipy.special as jsp
import jax.scipy.stats
import mpmath as mp
import numpy as np
import scipy.special
import torch

from .case import *
from .derivative import by_jax, by_torch

mp.mp.dps = 60  # some differences below lose 20 of them
ROOT2 = mp.sqrt(2)


def erfcinv(c):
    """Of 0 < c <= 1, by Newton's method on ln erfc."""
    y = mp.sqrt(max(-mp.log(c) - 1, mp.mpf(0))) if c < mp.mpf("0.1") else (1 - c)
    for _ in range(200):
        e = mp.erfc(y)
        step = mp.log(e / c) * e / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mp.mpf(10) ** -36:
            break
    return y


def ndtri(p):
    return -ROOT2 * erfcinv(2 * p) if p < 0.5 else ROOT2 * erfcinv(2 * (1 - p))


def erfinv(x):
    if abs(x) < mp.mpf(10) ** -20:
        return x * mp.sqrt(mp.pi) / 2
    return mp.sign(x) * erfcinv(1 - abs(x))


def zeta(s, q):
    """Five hundred terms, the rest by the Euler-Maclaurin formula (mpmath's own loses 50 digits at s = 30, q = 1000)."""
    a = q + 500
    total = mp.fsum((q + k) ** -s for k in range(500)) + a ** (1 - s) / (s - 1) + a**-s / 2
    term = s / a * a**-s
    for j in range(1, 20):
        total += mp.bernoulli(2 * j) / mp.factorial(2 * j) * term
        term *= (s + 2 * j - 1) * (s + 2 * j) / a**2
    return total


def log_ndtr(x):
    return mp.log(mp.erfc(-x / ROOT2) / 2) if x < 5 else mp.log1p(-mp.erfc(x / ROOT2) / 2)


def digamma(x):
    return mp.digamma(x)


def lgamma(x):
    return mp.log(abs(mp.gamma(x))) if x < 0 else mp.loggamma(x).real


def incomplete(a, x):
    """(lower, upper), regularized: DLMF 8.7.1 below the peak, 8.9.2 (modified Lentz) above."""
    front = mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))
    if x < a + 1 or x < 2:
        term = total = mp.mpf(1)
        n = 0
        while abs(term) > mp.mpf(10) ** -45 * total:
            n += 1
            term *= x / (a + n)
            total += term
        return front * total, 1 - front * total
    tiny = mp.mpf(10) ** -300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    h, n = d, 0
    while True:
        n += 1
        an = -n * (n - a)
        b += 2
        d = 1 / (an * d + b or tiny)
        c = b + an / c or tiny
        h *= d * c
        if abs(d * c - 1) < mp.mpf(10) ** -40:
            return 1 - front * a * h, front * a * h


SYMMETRIC = [0.0, 1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.25, 0.3, 0.5, 0.7, 0.99, 1.0, 1.3, 1.9, 2.0, 2.5, 3.0, 4.75, 6.1, 7.99, 8.0, 8.01, 9.5, 12.0, 15.5, 19.9, 25.0]
SIGNED = [s * v for v in SYMMETRIC for s in (1, -1)]
INSIDE = [s * v for v in [0.0, 1e-300, 1e-12, 1e-3, 0.1, 0.3, 0.5, 0.77, 0.9, 0.97, 0.995, 0.9999, 1 - 1e-6, 1 - 1e-10, 1 - 2.0**-50, 1 - 2.0**-53] for s in (1, -1)]
PROBABILITIES = [5e-324, 1e-300, 1e-100, 1e-38, 1e-20, 1e-10, 1e-5, 1e-3, 0.02, 0.1, 0.2, 0.25, 0.3, 0.45, 0.4999999, 0.5, 0.5000001, 0.6, 0.75, 0.76, 0.9, 0.99, 1 - 1e-8, 1 - 2.0**-53]
POSITIVE = [1e-300, 1e-20, 1e-5, 0.01, 0.2, 0.46163214, 0.5, 0.75, 0.99, 0.999999, 1.0, 1.000001, 1.1, 1.4616321, 1.5, 1.7, 1.99, 1.9999999, 2.0, 2.0000001, 2.2, 2.9, 3.0, 3.7,
            4.5, 5.9, 6.99, 7.0, 7.5, 7.999, 8.0, 8.3, 10.0, 17.5, 33.3, 100.0, 1234.5, 1e6, 1e15, 1e100]
NEGATIVE = [-1e-20, -0.01, -0.2, -0.3, -0.7, -1.2, -1.75, -2.2, -3.1, -5.4, -7.5, -9.8, -20.3, -100.25]

UNARY = {  # op: (function, points)
    "erfinv": (erfinv, INSIDE), "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x) if x < 100 else mp.mpf(float(scipy.special.erfcx(float(x)))), SIGNED + [30.0, 90.0, 1e3, 1e10]),
    "erfc": (mp.erfc, SIGNED + [26.0, 26.5]), "ndtr": (mp.ncdf, SIGNED + [-30.0, -37.0]),
    "log_ndtr": (log_ndtr, SIGNED + [-30.0, -100.0, -1e4, 30.0]), "ndtri": (ndtri, PROBABILITIES),
    "logit": (lambda p: mp.log(p) - mp.log1p(-p), PROBABILITIES[1:]), "entr": (lambda x: -x * mp.log(x), POSITIVE),
    "sinc": (lambda x: mp.sincpi(x), SIGNED + [1e5 + 0.25, 1e-5]),
    "i0": (lambda x: mp.besseli(0, x), SIGNED + [100.0, -500.0, 700.0]), "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), SIGNED + [100.0, -500.0, 1e4]),
    "i1": (lambda x: mp.besseli(1, x), SIGNED + [100.0, -500.0, 700.0]), "i1e": (lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), SIGNED + [100.0, -500.0, 1e4]),
    "lgamma": (lgamma, POSITIVE + NEGATIVE), "digamma": (digamma, POSITIVE + NEGATIVE),
}


def exactly(function, *inputs):
    """Each element by mpmath, rounded to f64."""
    return np.array([float(function(*(mp.mpf(float(v)) for v in values))) for values in zip(*(x.ravel() for x in inputs))]).reshape(inputs[0].shape)


def usable(points, dtype):
    """As numbers of the dtype: without those that f32 turns into 0 or infinity."""
    x = np.array(points, f64).astype(dtype)
    return x[(np.isfinite(x)) & ((x != 0) | (np.array(points) == 0))]


def representable(x, y, dtype):
    """Pairs whose result is a normal number of the dtype, or 0."""
    small = np.finfo(dtype).tiny
    keep = (np.abs(y) <= np.finfo(dtype).max) & ((np.abs(y) >= small) | (y == 0))
    return [v[keep] for v in x], y[keep].astype(dtype)


def values(f):
    for op, (function, points) in UNARY.items():
        for dtype in (f64, f32):
            x = np.unique(usable(points, dtype))
            if op in ("logit", "ndtri", "erfinv"):
                x = x[np.abs(x) < 1]
            inputs, y = representable([x], exactly(function, x), dtype)
            f.add(f"{op}_{NAMES[dtype][0]}", op, inputs, [y], "mpmath, 60 digits")
    for dtype in (f64, f32):
        tag = NAMES[dtype][0]
        grid = lambda a, b: [v.ravel() for v in np.meshgrid(usable(a, dtype), usable(b, dtype))]
        s, q = grid([1.001, 1.5, 2.0, 3.0, 5.5, 10.0, 30.0, 100.0], [0.01, 0.3, 1.0, 1.5, 2.0, 7.0, 20.0, 1000.0])
        f.add(f"zeta_{tag}", "zeta", *wrap(*representable([s, q], exactly(zeta, s, q), dtype)), "mpmath, 60 digits")
        s, q = grid([2.0, 3.0, 4.0, 7.0], [-0.3, -1.4, -2.25, -7.6, -30.4])
        f.add(f"zeta_negative_{tag}", "zeta", *wrap(*representable([s, q], exactly(zeta, s, q), dtype)), "mpmath, 60 digits")
        # Not half-way between two poles: odd powers cancel there, whoever adds them.
        for n in (1, 2, 3, 6):
            x = usable([0.01, 0.3, 1.0, 1.5, 2.0, 4.5, 10.0, 33.0, 1000.0, -0.25, -1.4, -3.7], dtype)
            inputs, y = representable([x], exactly(lambda v: (-1) ** (n + 1) * mp.factorial(n) * zeta(mp.mpf(n + 1), v), x), dtype)
            f.add(f"polygamma_{n}_{tag}", "polygamma", inputs, [y], "mpmath, 60 digits", n=n)
        a, x = incomplete_points(dtype)
        for op, function in (("igamma", lambda a, x: incomplete(a, x)[0]), ("igammac", lambda a, x: incomplete(a, x)[1])):
            f.add(f"{op}_{tag}", op, *wrap(*representable([a, x], exactly(function, a, x), dtype)), "mpmath, 60 digits")
        x, y = grid([0.0, 0.3, 1.0, 5.0, -2.0], [1e-30, 0.1, 0.5, 1.0, 2.0, 1e20])
        f.add(f"xlogy_{tag}", "xlogy", [x, y], in_f64(scipy.special.xlogy, x, y), "scipy.special.xlogy")
        x, y = grid([0.0, 0.3, 1.0, 5.0, -2.0], [-1.0, -0.9, -1e-10, 0.0, 1e-20, 1e-3, 2.0, 1e20])
        f.add(f"xlog1py_{tag}", "xlog1py", [x, y], in_f64(scipy.special.xlog1py, x, y), "scipy.special.xlog1py")
        x, y = grid([0.0, 1e-30, 3.0, -4.0, 1e30, np.finfo(dtype).max / 2], [0.0, 4.0, -1e-10, 2e30])
        f.add(f"hypot_{tag}", "hypot", [x, y], in_f64(np.hypot, x, y), "numpy.hypot")


def wrap(inputs, y):
    return inputs, [y]


def incomplete_points(dtype):
    pairs = [(a, x) for a in (1e-6, 0.01, 0.3, 0.9, 1.0, 2.5, 7.0, 15.0, 19.9) for x in (1e-8, 0.01, 0.4, 1.0, 1.4, 1.6, 3.0, 8.0, 19.0, 21.5, 60.0)]
    pairs += [(a, a * r) for a in (20.0, 21.5, 50.0, 200.0, 5000.0, 1e6) for r in (0.1, 0.45, 0.55, 0.8, 0.95, 0.999, 1.0, 1.001, 1.05, 1.3, 1.9, 2.2)]
    a, x = (np.array(v).astype(dtype) for v in zip(*pairs))
    return a, x


def edges(f):
    inf, nan = np.inf, np.nan
    table = {"erfinv": [1, -1, 1.5, nan], "ndtri": [0, 1, -0.1, 1.1, nan], "logit": [0, 1, -0.1, 1.1, nan], "erfcx": [inf, -inf, nan, -27], "ndtr": [inf, -inf, nan, -50, 50],
             "log_ndtr": [inf, -inf, nan], "entr": [0, -1, inf, -inf, nan], "i0": [nan, 1e4], "i0e": [inf, -inf, nan], "i1": [nan, -1e4], "i1e": [inf, -inf, nan],
             "lgamma": [0, -1, -2, inf, nan, -1e20], "digamma": [-1, -2, inf, nan]}
    names = {"lgamma": "gammaln"}
    for op, points in table.items():
        for dtype in (f64, f32):
            x = np.array(points, dtype)
            f.add(f"{op}_edges_{NAMES[dtype][0]}", op, [x], in_f64(getattr(scipy.special, names.get(op, op)), x), f"scipy.special.{names.get(op, op)}")
    x = np.array([inf, -inf], f64)  # SciPy gives NaN
    f.add("i0_infinite", "i0", [x], [np.array([inf, inf])], "its limits")
    f.add("i1_infinite", "i1", [x], [np.array([inf, -inf])], "its limits")
    x = np.array([0.0, -0.0, inf, -inf, nan, 3.0, 1e20], f64)
    f.add("sinc_edges", "sinc", [x], [np.array([1, 1, 0, 0, nan, 0, 0])], "its limits: sin(pi x) of whole x is 0")
    a = np.array([0, 1, 2.5, 2, -1, 2, nan, 3], f64)
    x = np.array([2, 0, inf, -1, 2, 0, 1, nan], f64)
    for op, name in (("igamma", "gammainc"), ("igammac", "gammaincc")):
        f.add(f"{op}_edges", op, [a, x], in_f64(getattr(scipy.special, name), a, x), f"scipy.special.{name}")
    f.add("xlogy_edges", "xlogy", [np.array([0.0, 0.0, 1.0, 0.0]), np.array([0.0, inf, 0.0, nan])], [np.array([0, 0, -inf, nan])], "scipy.special.xlogy")
    f.add("hypot_edges", "hypot", [np.array([inf, nan, 1, -inf]), np.array([nan, -inf, nan, 2])], [np.array([inf, inf, nan, inf])], "numpy.hypot")
    f.add("zeta_edges", "zeta", [np.array([1.0, 0.5, 2, 2, 2.5, nan, 2]), np.array([2.0, 2, 0, -3, -0.5, 1, nan])], [np.array([inf, nan, inf, inf, nan, nan, nan])],
          "scipy.special.zeta")


def derivatives(f):
    unary = {"erfinv": (jsp.erfinv, -0.99, 0.99), "ndtr": (jsp.ndtr, -4, 4), "log_ndtr": (jsp.log_ndtr, -9, 4), "ndtri": (jsp.ndtri, 0.01, 0.99), "logit": (jsp.logit, 0.02, 0.98),
             "entr": (jsp.entr, 0.1, 4), "i0": (jsp.i0, -12, 12), "i0e": (jsp.i0e, -30, 30), "i1": (jsp.i1, -12, 12), "i1e": (jsp.i1e, -30, 30), "lgamma": (jsp.gammaln, 0.1, 20),
             "digamma": (jsp.digamma, 0.1, 20), "sinc": (jnp.sinc, -5, 5)}
    for op, (function, low, high) in unary.items():
        for dtype in (f64, f32):
            f.add_derivative(f"{op}_d_{NAMES[dtype][0]}", op, [uniform(op + "_d", (20,), low, high, dtype)], by_jax, function, f"jax {function.__name__}")
    f.add_derivative("erfcx_d", "erfcx", [uniform("erfcx_d", (20,), -3, 6, f64)], by_torch, torch.special.erfcx, "torch.special.erfcx")
    for n in (1, 2):
        f.add_derivative(f"polygamma_{n}_d", "polygamma", [uniform("polygamma_d", (12,), 0.3, 9, f64)], by_jax, lambda x: jsp.polygamma(n, x), "jax polygamma", n=n)
    f.add_derivative("xlogy_d", "xlogy", [uniform("xlogy_x", (9,), -2, 2, f64), uniform("xlogy_y", (9,), 0.1, 3, f64)], by_jax, jsp.xlogy, "jax xlogy")
    f.add_derivative("xlog1py_d", "xlog1py", [uniform("xlog1py_x", (9,), -2, 2, f64), uniform("xlog1py_y", (9,), -0.9, 3, f64)], by_jax, jsp.xlog1py, "jax xlog1py")
    f.add_derivative("hypot_d", "hypot", [uniform("hypot_x", (9,), -2, 2, f64), uniform("hypot_y", (9,), -2, 2, f64)], by_jax, jnp.hypot, "jax hypot")
    # By both operands, from a series of JAX's own; away from where that loses digits.
    a, x = uniform("igamma_a", (12,), 0.5, 8, f64), uniform("igamma_x", (12,), 0.3, 9, f64)
    f.add_derivative("igamma_d", "igamma", [a, x], by_jax, jsp.gammainc, "jax gammainc")
    f.add_derivative("igammac_d", "igammac", [a, x], by_jax, jsp.gammaincc, "jax gammaincc")


def cases():
    f = Family("special")
    values(f)
    edges(f)
    derivatives(f)
    return [f]
