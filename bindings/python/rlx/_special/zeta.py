"""Riemann's zeta function on the whole real line."""

import math

import numpy as np

from .. import ops
from ..numpy import _elementwise as ew
from .shared import floats, in_f32

_TERMS = 24  # the error is below 3 (3 + sqrt(8))^-24


def _weights():
    """(-1)^k (1 - d_k / d_n) of "An efficient algorithm for the Riemann zeta function", Borwein (2000), algorithm 2."""
    n = _TERMS
    parts = [n * math.factorial(n + i - 1) * 4**i / (math.factorial(n - i) * math.factorial(2 * i)) for i in range(n + 1)]
    return [(-1)**k * (1 - sum(parts[:k + 1]) / sum(parts)) for k in range(n)]


def riemann_zeta(x):
    """The sum of k^-x over k from 1 on; below 1 what continues it analytically."""
    return _riemann_zeta(*floats(x))


@in_f32
def _riemann_zeta(x):
    from .. import numpy as rnp
    at_right = rnp.where(x > 1, x, 2)
    between = rnp.where((x >= 0) & (x < 1), x, 0.5)
    left = rnp.where(x < 0, x, -1)
    # The alternating sum of k^-x, which converges here, is (1 - 2^(1 - x)) times zeta.
    powers = rnp.exp(-rnp.log(np.arange(1, _TERMS + 1, dtype=x.dtype)) * between[..., None])
    alternating = rnp.sum(powers * np.asarray(_weights(), x.dtype), -1)
    below_one = alternating / -rnp.expm1((1 - between) * math.log(2))
    # The functional equation, with the sine of pi left / 2, which is 0 at even numbers, exactly.
    turns = rnp.round(left / 2)
    sine = rnp.sin((left / 2 - turns) * math.pi) * (1 - 2 * rnp.remainder(turns, 2))
    size = rnp.exp(ops.lgamma(1 - left) + left * math.log(2 * math.pi)) / math.pi
    reflected = sine * rnp.where((sine == 0) & (size == np.inf), 0, size) * ops.zeta(1 - left, ew.constant_like(left, 1))
    continued = rnp.where(x < 0, reflected, below_one)
    made = rnp.where(x > 1, ops.zeta(at_right, ew.constant_like(x, 1)), continued)
    return rnp.where(x == 1, np.inf, rnp.where(rnp.isnan(x) | (x == -np.inf), np.nan, made))
