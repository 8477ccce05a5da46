"""The special functions of jax.lax, of floats."""

import math

import numpy as np

from .. import _dtypes, ops
from .._array import convert
from .._native import at_user_line
from ..numpy import _elementwise as ew
from .elementwise import _of_one, operands_of


def _floats(name, *xs):
    arrays = operands_of(name, *xs)
    if not _dtypes.is_float(arrays[0].dtype_name):
        raise TypeError(at_user_line(f"lax.{name} takes floats, got {_dtypes.long_name(arrays[0].dtype_name)}"))
    return arrays


def _real(name, op, doc):
    """Of integers too, which become float32."""
    f = _of_one(name, lambda x: op(ew.inexact(x)), doc, "bif")
    return f


erf = _real("erf", ops.erf, "The error function.")
erfc = _real("erfc", ops.erfc, "1 - erf(x), accurate where erf(x) is close to 1.")
erf_inv = _real("erf_inv", ops.erfinv, "The number whose error function is x.")
lgamma = _real("lgamma", ops.lgamma, "ln |gamma(x)|.")
digamma = _real("digamma", ops.digamma, "The derivative of lgamma.")
bessel_i0e = _real("bessel_i0e", ops.i0e, "e^-|x| times the modified Bessel function of the first kind of order 0.")
bessel_i1e = _real("bessel_i1e", ops.i1e, "e^-|x| times the modified Bessel function of the first kind of order 1.")


def igamma(a, x):
    """The regularized lower incomplete gamma function."""
    return ops.igamma(*_floats("igamma", a, x))


def igammac(a, x):
    """The regularized upper incomplete gamma function."""
    return ops.igammac(*_floats("igammac", a, x))


def zeta(x, q):
    """The Hurwitz zeta function: the sum of (k + q)^-x."""
    return ops.zeta(*_floats("zeta", x, q))


def polygamma(m, x):
    """The derivative of order m of digamma, for any array of orders that are whole numbers; NaN for others."""
    m, x = _floats("polygamma", m, x)
    from .. import numpy as rnp
    sign = rnp.where(ops.rem(m, ew.constant_like(m, 2)) == 0, -1.0, 1.0)
    high = sign * ops.exp(ops.lgamma(m + 1)) * ops.zeta(m + 1, x)
    made = rnp.where(m == 0, ops.digamma(x), high)
    return convert(rnp.where((m < 0) | (m != ops.floor(m)), np.nan, made), x.dtype_name)


def igamma_grad_a(a, x):
    """The derivative of igamma by its first operand."""
    from .. import numpy as rnp
    from .._transforms import jvp
    a, x = _floats("igamma_grad_a", a, x)
    return jvp(ops.igamma, (a, x), (rnp.ones_like(a), rnp.zeros_like(x)))[1]


def random_gamma_grad(a, x):
    """The derivative by `a` of a number x of the gamma distribution of shape a: that of the distribution function by a, over that by
    x, with the sign turned."""
    from .. import numpy as rnp
    from .._transforms import jvp
    a, x = _floats("random_gamma_grad", a, x)
    # From whichever side of the distribution has less, so that the difference to 1 costs no digits.
    wide = "f64"
    b, y = convert(a, wide), convert(x, wide)
    ones, zeros = rnp.ones_like(b), rnp.zeros_like(b)
    lower, upper = (jvp(op, (b, y), (ones, zeros))[1] for op in (ops.igamma, ops.igammac))
    log_density = (b - 1) * ops.log(y) - y - ops.lgamma(b)
    return convert(rnp.where(y < b, -lower, upper) * ops.exp(-log_density), a.dtype_name)


def _beta_fraction(a, b, x, steps):
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), by the method of Lentz."""
    from .. import numpy as rnp
    from .._control import fori_loop
    tiny = 1e-30
    kept = lambda v: rnp.where(ops.abs(v) < tiny, tiny, v)
    d = 1 / kept(1 - (a + b) * x / (a + 1))

    def step(i, state):
        made, c, d = state
        m = convert(i, x.dtype_name) + 1
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / kept(1 + even * d)
        c = kept(1 + even / c)
        made = made * (d * c)
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / kept(1 + odd * d)
        c = kept(1 + odd / c)
        return made * (d * c), c, d

    return fori_loop(0, steps, step, (d, rnp.ones_like(d), d))[0]


def betainc(a, b, x):
    """The regularized incomplete beta function: the integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x over that from 0 to 1."""
    from .. import numpy as rnp
    a, b, x = _floats("betainc", a, b, x)
    dtype = a.dtype_name
    if dtype in ("f16", "bf16"):
        return convert(betainc(*(convert(v, "f32") for v in (a, b, x))), dtype)
    is_good = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    is_inside = is_good & (x > 0) & (x < 1)
    p, q, y = rnp.where(is_good, a, 1), rnp.where(is_good, b, 1), rnp.where(is_inside, x, 0.5)
    is_far = y > (p + 1) / (p + q + 2)  # where the fraction converges for the other end
    first, second = rnp.where(is_far, q, p), rnp.where(is_far, p, q)
    near, rest = rnp.where(is_far, 1 - y, y), rnp.where(is_far, y, 1 - y)
    logs = first * ew.log(near) + second * ew.log(rest) + ops.lgamma(p + q) - ops.lgamma(p) - ops.lgamma(q)
    made = ops.exp(logs) / first * _beta_fraction(first, second, near, 200 if dtype == "f32" else 600)
    made = rnp.where(is_far, 1 - made, made)
    # At the ends the value is known, and the derivative by x is the density, where that is finite.
    density = ops.exp(ops.xlogy(p - 1, x) + ops.xlog1py(q - 1, -x) + ops.lgamma(p + q) - ops.lgamma(p) - ops.lgamma(q))
    density = ops.stop_gradient(rnp.where(rnp.isfinite(density), density, 0))
    edge = rnp.where(x >= 1, 1.0, 0.0) + density * (x - ops.stop_gradient(x))
    made = rnp.where(is_inside, made, edge)
    return convert(rnp.where(is_good, made, math.nan), dtype)
