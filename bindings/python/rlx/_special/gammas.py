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
    return _betaln(*floats(a, b))[0]


def _betaln(a, b):
    """ln |beta|, and the sign of beta. Where one of a and b is 0 or a negative integer, beta is finite if the other is a positive integer
    that is not above it, for two poles meet then: beta(n, k) = (-1)^k beta(1 - n - k, k)."""
    from .. import numpy as rnp
    is_a, is_b = ((x <= 0) & (x == ops.floor(x)) & (x > -np.inf) for x in (a, b))
    n, other = rnp.where(is_a, a, b), rnp.where(is_a, b, a)
    is_reflected = (is_a | is_b) & (other == ops.floor(other)) & (1 - n - other > 0)
    is_pole = (is_a | is_b) & ~(is_reflected & (other > 0))
    a, b = rnp.where(is_reflected, 1 - n - other, a), rnp.where(is_reflected, other, b)
    a, b = rnp.where(is_pole, 1, a), rnp.where(is_pole, 1, b)
    parity = 1 - 2 * rnp.abs(ops.rem(other, ew.constant_like(other, 2)))
    sign = rnp.where(is_reflected, parity, rnp.where(is_pole, 1, sign_of_gamma(a) * sign_of_gamma(b) * sign_of_gamma(a + b)))
    a, b = rnp.minimum(a, b), rnp.maximum(a, b)
    is_large = (a > 0) & (b >= 8) & (b < np.inf)
    safe_a, safe_b = rnp.where(is_large, a, 1), rnp.where(is_large, b, 8)
    made = rnp.where(is_large, ops.lgamma(safe_a) + _log_quotient(safe_a, safe_b), ops.lgamma(a) + (ops.lgamma(b) - ops.lgamma(a + b)))
    made = rnp.where((a > 0) & (a < np.inf) & (b == np.inf), -np.inf, made)
    return rnp.where(is_pole, np.inf, made), sign


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
    size, sign = _betaln(*floats(a, b))
    return sign * ops.exp(size)


def betainc(a, b, x):
    """The regularized incomplete beta function."""
    return _betainc(*floats(a, b, x))


def quotient_of_gammas(a, b):
    """gamma(a) / gamma(b)."""
    from .. import numpy as rnp
    is_large = (b >= 8) & (a > b) & (a <= 2 * b) & (a < np.inf)  # where the logarithms have few digits behind the point
    base, rise = rnp.where(is_large, b, 8), rnp.where(is_large, a - b, 1)
    near = ops.exp(-_log_quotient(rise, base))
    return rnp.where(is_large, near, _quotient_of_gammas(a, b))


def _quotient_of_gammas(a, b):
    return sign_of_gamma(a) * sign_of_gamma(b) * ew.exp(ops.lgamma(a) - ops.lgamma(b))
