"""Activation functions that have no op of their own."""

import math

from .. import ops
from .._array import as_array
from ..numpy import _elementwise as ew
from .. import numpy as rnp


def identity(x):
    """x."""
    return as_array(x)


def tanh(x, /):
    """The hyperbolic tangent."""
    return ew.tanh(x)


def squareplus(x, b=4):
    """(x + sqrt(x^2 + b)) / 2."""
    x, b = ew.promoted(ew.inexact(x), b)
    return (x + ew.sqrt(ew.square(x) + b)) / 2


def sparse_plus(x):
    """0 up to -1, x from 1 on, (x + 1)^2 / 4 between them."""
    x = ew.inexact(x)
    return rnp.where(x <= -1, rnp.zeros_like(x), rnp.where(x >= 1, x, ew.square(x + 1) / 4))


def sparse_sigmoid(x):
    """(x + 1) / 2 limited to [0, 1]."""
    return rnp.clip(ew.inexact(x) + 1, 0, 2) / 2


def log1mexp(x):
    """ln(1 - e^-x) for x > 0, accurate on both sides (Maechler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    x = ew.inexact(x)
    is_small = x < math.log(2)
    small, large = rnp.where(is_small, x, 1), rnp.where(is_small, 1, x)
    return rnp.where(is_small, ops.log(-ops.expm1(-small)), ops.log1p(-ops.exp(-large)))
