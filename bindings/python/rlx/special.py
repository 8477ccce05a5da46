"""Special functions as scipy.special has them. Integers become float32; operands broadcast."""

import inspect
import math
import operator

import numpy as np

from . import ops
from ._special.combinatorics import bernoulli, comb, factorial, poch
from ._special.gammas import beta, betainc, betaln, gamma, gammasgn, loggamma
from ._special.hypergeometric import hyp1f1
from ._special.integrals import bessel_jn, dawsn, exp1, expi, expn, fresnel, owens_t, sici, spence, wofz
from ._special.statistics import boxcox, boxcox1p, kl_div, log_softmax, logsumexp, rel_entr, softmax
from ._special.zeta import riemann_zeta as _riemann_zeta
from .numpy._elementwise import OF_ONE, OF_TWO_FLOATS, documented, inexact, together
from . import numpy as rnp


def _unary(name, op, doc, operand="x"):
    def f(x):
        return op(inexact(x))
    if operand != "x":
        of_x = f

        def f(p):
            return of_x(p)
    return documented(f, name, doc, OF_ONE.replace("and complex numbers keep", "keep") + " Of real numbers only: rlx.Error otherwise.")


def _binary(name, op, doc, names=("x", "y")):
    """A function of two operands that have these names."""
    def f(*args, **kwargs):
        a, b = together(*signature.bind(*args, **kwargs).args)
        return op(inexact(a), inexact(b))
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    f.__signature__ = signature
    return documented(f, name, doc, OF_TWO_FLOATS + " Of real numbers only: rlx.Error otherwise.")


erf = _unary("erf", ops.erf, "2 / sqrt(pi) times the integral of e^-t^2 from 0 to x.")
erfc = _unary("erfc", ops.erfc, "1 - erf(x), accurate for large x.")
erfcx = _unary("erfcx", ops.erfcx, "e^(x^2) erfc(x).")
erfinv = _unary("erfinv", ops.erfinv, "The number whose erf is x.")
gammaln = _unary("gammaln", ops.lgamma, "ln |gamma(x)|.")
digamma = _unary("digamma", ops.digamma, "The derivative of ln gamma.")
logit = _unary("logit", ops.logit, "ln(x / (1 - x)).")
ndtr = _unary("ndtr", ops.ndtr, "The distribution function of the normal distribution.")


def log_ndtr(x, series_order=3):
    """The logarithm of ndtr, accurate far below 0, too. series_order is taken as JAX has it: how many terms its series has there; here
    the result is as exact as the dtype whatever it is. Of real numbers only."""
    return ops.log_ndtr(inexact(x))


ndtri = _unary("ndtri", ops.ndtri, "The number whose ndtr is p.", "p")
entr = _unary("entr", ops.entr, "-x ln x; 0 at 0, -inf below.")
i0 = _unary("i0", ops.i0, "The modified Bessel function of the first kind of order 0.")
i1 = _unary("i1", ops.i1, "The modified Bessel function of the first kind of order 1.")
i0e = _unary("i0e", ops.i0e, "i0(x) e^-|x|.")
i1e = _unary("i1e", ops.i1e, "i1(x) e^-|x|.")
xlogy = _binary("xlogy", ops.xlogy, "x ln y, 0 where x is 0.")
xlog1py = _binary("xlog1py", ops.xlog1py, "x ln(1 + y), 0 where x is 0.")


def zeta(x, q=None):
    """The Hurwitz zeta function: the sum of (k + q)^-x over k from 0 on, NaN where x is below 1. Without q Riemann's, that of k^-x over k
    from 1 on and what continues it below 1. Of real numbers only."""
    if q is None:
        return _riemann_zeta(x)
    a, b = together(x, q)
    return ops.zeta(inexact(a), inexact(b))


gammainc = _binary("gammainc", ops.igamma, "The regularized lower incomplete gamma function.", ("a", "x"))
gammaincc = _binary("gammaincc", ops.igammac, "The regularized upper incomplete gamma function.", ("a", "x"))


def expit(x):
    """1 / (1 + e^-x); also of complex numbers."""
    from .nn import sigmoid
    return sigmoid(x)


def polygamma(n, x):
    """The n-th derivative of digamma; n is a whole number, or an array of them."""
    orders = np.asarray(n)
    if orders.dtype.kind not in "iuf" or orders.size and not np.all((orders == np.floor(orders)) & (orders >= 0)):
        raise ValueError(f"polygamma is of orders 0, 1, 2, ..., not {n!r}")
    if orders.ndim == 0:
        return ops.polygamma(inexact(x), n=int(orders))
    x = inexact(x)  # each order is a function of its own
    shape = np.broadcast_shapes(orders.shape, x.shape)
    orders, x = np.broadcast_to(orders, shape), rnp.broadcast_to(x, shape)
    made = rnp.zeros_like(x)
    for order in np.unique(orders):
        made = rnp.where(orders == order, polygamma(int(order), x), made)
    return made


def multigammaln(a, d):
    """ln of the multivariate gamma function of dimension d."""
    if isinstance(d, bool) or operator.index(d) < 1:
        raise ValueError(f"multigammaln is of a dimension 1, 2, ..., not {d!r}")
    a = inexact(a)
    total = rnp.full_like(a, d * (d - 1) / 4 * math.log(math.pi))
    for i in range(d):
        total = total + gammaln(a - i / 2)
    return total
