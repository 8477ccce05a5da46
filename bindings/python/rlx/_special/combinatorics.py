"""Factorials and what is made of them."""

import fractions
import math
import operator

import numpy as np

from .. import ops
from .._array import as_array
from .._native import at_user_line
from .gammas import quotient_of_gammas
from .shared import floats


def factorial(n, exact=False):
    """n! = gamma(n + 1) as a float; 0 below 0."""
    from .. import numpy as rnp
    if exact:
        raise NotImplementedError(at_user_line("factorial gives floats; exact=True is not there"))
    n, = floats(n)
    return rnp.where(n < 0, rnp.zeros_like(n), ops.exp(ops.lgamma(n + 1)))


def comb(N, k, *, exact=False, repetition=False):
    """In how many ways k of N things are chosen, with `repetition` where each may come again; 0 where k is not in [0, N]."""
    from .. import numpy as rnp
    if exact:
        raise NotImplementedError(at_user_line("comb gives floats; exact=True is not there"))
    N, k = floats(N, k)
    if repetition:
        N = N + k - 1
    fits = (k >= 0) & (N >= 0) & (k <= N)
    n, k = rnp.where(fits, N, 1), rnp.where(fits, k, 0)
    made = ops.exp(ops.lgamma(n + 1) - ops.lgamma(k + 1) - ops.lgamma(n - k + 1))
    return rnp.where(fits, made, rnp.zeros_like(made))


def poch(z, m):
    """gamma(z + m) / gamma(z)."""
    from .. import numpy as rnp
    z, m = floats(z, m)
    return rnp.where(m == 0, rnp.ones_like(z), quotient_of_gammas(z + m, z))


def bernoulli(n):
    """The Bernoulli numbers B0 to Bn, of which B1 is -1/2."""
    n = operator.index(n)
    if n < 0:
        raise ValueError(at_user_line(f"bernoulli takes a number that is not negative, got {n}"))
    made = []
    for m in range(n + 1):
        made.append(fractions.Fraction(1) if m == 0 else fractions.Fraction(0) if m > 1 and m % 2 else
                    -sum(math.comb(m + 1, k) * b for k, b in enumerate(made)) / (m + 1))
    limited = [float(b) if abs(b) < 10**300 else math.copysign(math.inf, b) for b in made]
    with np.errstate(over="ignore"):
        return as_array(np.asarray(limited).astype(np.float32))
