"""Special functions that PyTorch has and SciPy has not under the same form: polynomials of a degree for each element, and others."""

import math

from .. import ops, special
from .. import numpy as rnp
from .._array import Array, as_array, convert
from .._control import while_loop
from ..numpy._elementwise import inexact
from .table import of


@of("polygamma.default", "special_polygamma.default")
def _polygamma(n, x):
    return special.polygamma(n, x)


@of("mvlgamma.default", "special_multigammaln.default")
def _mvlgamma(x, p):
    return special.multigammaln(x, p)


@of("special_modified_bessel_i0.default")
def _i0(x):
    return ops.i0(inexact(x))


@of("special_modified_bessel_i1.default")
def _i1(x):
    return ops.i1(inexact(x))


@of("special_spherical_bessel_j0.default", "prims.spherical_bessel_j0.default")
def _spherical_bessel_j0(x):
    x = inexact(x)
    return ops.sinc(x / math.pi)


# ---- orthogonal polynomials: p(n + 1) from p(n) and p(n - 1), up to the degree that each element asks for ----
_SHIFTED = lambda x: 2 * x - 1
_NEXT = {  # first polynomial, and the next one of x, the degree k reached, p(k) and p(k - 1)
    "chebyshev_polynomial_t": (lambda x: x, lambda x, k, p, q: 2 * x * p - q),
    "chebyshev_polynomial_u": (lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - q),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, lambda x, k, p, q: 2 * x * p - q),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, lambda x, k, p, q: 2 * x * p - q),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - 2 * k * q),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, p, q: x * p - k * q),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}
_NEXT.update({f"shifted_{_name}": (lambda x, f=_f: f(_SHIFTED(x)), lambda x, k, p, q, g=_g: g(_SHIFTED(x), k, p, q))
              for _name, (_f, _g) in list(_NEXT.items()) if _name.startswith("chebyshev")})


def _polynomial(first, following, x, n):
    x = inexact(x if isinstance(x, Array) else as_array(x, n.dtype_name))
    x, n = rnp.broadcast_arrays(x, rnp.astype(n, x.dtype) if isinstance(n, Array) else as_array(n, x.dtype_name))
    n = convert(rnp.trunc(n), "i32")
    one = rnp.ones_like(x)

    def step(state):
        k, p, q = state
        return k + 1, rnp.where(k < n, following(x, convert(k, x.dtype_name), p, q), p), rnp.where(k < n, p, q)

    _, p, _ = while_loop(lambda state: rnp.any(state[0] < n), step, (as_array(1, "i32"), first(x), one))
    return rnp.where(n < 0, rnp.zeros_like(x), rnp.where(n == 0, one, p))


for _name, (_f, _g) in _NEXT.items():
    of(*(f"special_{_name}.{overload}" for overload in ("default", "x_scalar", "n_scalar")))(lambda x, n, f=_f, g=_g: _polynomial(f, g, x, n))
