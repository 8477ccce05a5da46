"""Relative entropies, transformations of data, sums of exponentials."""


import numpy as np

from .. import ops
from ..numpy import _elementwise as ew
from .shared import floats


def rel_entr(p, q):
    """p ln(p / q); 0 where p is 0 and q is not negative, infinite where either is negative."""
    from .. import numpy as rnp
    p, q = floats(p, q)
    is_inside, is_zero = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    a, b = rnp.where(is_inside, p, 1), rnp.where(is_inside, q, 1)
    is_close = (a < 2 * b) & (b < 2 * a)  # where the difference of logarithms has few digits
    logs = rnp.where(is_close, ops.log1p((a - b) / rnp.where(is_close, b, 1)), ops.log(a) - ops.log(b))
    made = rnp.where(is_inside, a * logs, rnp.where(is_zero, 0.0, np.inf))
    return rnp.where(rnp.isnan(p) | rnp.isnan(q), np.nan, made)


def kl_div(p, q):
    """rel_entr(p, q) - p + q."""
    p, q = floats(p, q)
    return rel_entr(p, q) - p + q


def _over(power, x):
    """(e^(power x) - 1) / power, x where power is 0."""
    from .. import numpy as rnp
    is_zero = power == 0
    safe = rnp.where(is_zero, 1, power)
    return rnp.where(is_zero, x, ops.expm1(safe * x) / safe)


def boxcox(x, lmbda):
    """(x^lmbda - 1) / lmbda, ln x where lmbda is 0."""
    x, lmbda = floats(x, lmbda)
    return _over(lmbda, ops.log(x))


def boxcox1p(x, lmbda):
    """boxcox(1 + x, lmbda), accurate near 0."""
    x, lmbda = floats(x, lmbda)
    return _over(lmbda, ops.log1p(x))


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False, where=None):
    """ln of the sum of b e^a over these axes, as rlx.nn.logsumexp has it."""
    from ..nn import logsumexp
    return logsumexp(a, axis, b, keepdims, return_sign, where)


def _all_axes(x, axis):
    return tuple(range(ew.inexact(x).ndim)) if axis is None else axis


def softmax(x, axis=None):
    """e^x over its sum over these axes."""
    from ..nn import softmax
    return softmax(x, _all_axes(x, axis))


def log_softmax(x, axis=None):
    """The logarithm of softmax."""
    from ..nn import log_softmax
    return log_softmax(x, _all_axes(x, axis))
