"""The gamma and beta functions."""

import numpy as np

from .. import ops
from .._lax.special import betainc as _betainc
from ..numpy import _elementwise as ew
from .shared import floats, sign_of_gamma


def gammasgn(x):
    """The sign of the gamma function: 1 at a positive x, NaN at a negative integer."""
    from .. import numpy as rnp
    x, = floats(x)
    sign = rnp.where((x == ops.floor(x)) & (x < 0), np.nan, sign_of_gamma(x))
    return rnp.where(x == 0, rnp.copysign(rnp.ones_like(x), x), rnp.where(x == -np.inf, np.nan, sign))


def gamma(x):
    """The gamma function."""
    x, = floats(x)
    return gammasgn(x) * ops.exp(ops.lgamma(x))


def loggamma(x):
    """ln gamma(x); NaN below 0, where gamma is negative here and there. Of real numbers only."""
    from .. import numpy as rnp
    x, = floats(x)
    return rnp.where(x < 0, np.nan, ops.lgamma(x))


def betaln(a, b):
    """ln |beta(a, b)|; also where both logarithms of gamma are so large that their difference has no digit left."""
    from .. import numpy as rnp
    a, b = floats(a, b)
    a, b = rnp.minimum(a, b), rnp.maximum(a, b)
    is_large = (a > 0) & (b >= 8) & (b < np.inf)
    safe_a, safe_b = rnp.where(is_large, a, 1), rnp.where(is_large, b, 8)
    made = rnp.where(is_large, ops.lgamma(safe_a) + _log_quotient(safe_a, safe_b), ops.lgamma(a) + (ops.lgamma(b) - ops.lgamma(a + b)))
    return rnp.where((a > 0) & (a < np.inf) & (b == np.inf), -np.inf, made)


def _log_quotient(a, b):
    """ln(gamma(b) / gamma(a + b)) for 0 < a <= b, b at least 8: algdiv of Didonato and Morris, ACM TOMS 18 (1992). Stirling's series of
    both, whose difference is taken term by term."""
    h = a / b
    x, t = 1 / (1 + h), ops.square(1 / b)
    series, powers, terms = None, ew.constant_like(x, 1), []
    for c in (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360):
        terms.append(c * powers)  # powers: 1 + x + ... + x^2k
        powers = 1 + x + x * x * powers
    for term in reversed(terms):
        series = term if series is None else series * t + term
    rest = series * (h / (1 + h)) / b
    u, v = (b + (a - 0.5)) * ops.log1p(h), a * (ops.log(b) - 1)
    return ew.where(u <= v, (rest - v) - u, (rest - u) - v)


def beta(a, b):
    """gamma(a) gamma(b) / gamma(a + b)."""
    a, b = floats(a, b)
    return sign_of_gamma(a) * sign_of_gamma(b) * sign_of_gamma(a + b) * ops.exp(betaln(a, b))


def betainc(a, b, x):
    """The regularized incomplete beta function."""
    return _betainc(*floats(a, b, x))


def quotient_of_gammas(a, b):
    """gamma(a) / gamma(b)."""
    return sign_of_gamma(a) * sign_of_gamma(b) * ew.exp(ops.lgamma(a) - ops.lgamma(b))
