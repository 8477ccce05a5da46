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
    """ln |beta(a, b)|."""
    a, b = floats(a, b)
    return ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)


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
