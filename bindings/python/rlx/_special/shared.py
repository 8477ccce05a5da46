"""What the special functions that are composed of others share."""

from .. import ops
from .._array import convert
from ..numpy import _elementwise as ew


def floats(*xs):
    """The operands broadcast to one shape and promoted to one float dtype."""
    return [ew.not_complex(ew.inexact(x), "a special function") for x in ew.together(*xs)]


def in_f32(f):
    """f, whose sums want at least f32: what has fewer bits is widened for it."""
    def wide(*xs):
        narrow = xs[0].dtype_name
        if narrow not in ("f16", "bf16"):
            return f(*xs)
        made = f(*(convert(x, "f32") for x in xs))
        return tuple(convert(y, narrow) for y in made) if isinstance(made, tuple) else convert(made, narrow)
    return wide


def sign_of_gamma(x):
    """The sign of the gamma function: it turns at each pole, 0, -1, -2 and so on, where it counts as NaN but at 0."""
    from .. import numpy as rnp
    is_odd = ops.rem(ops.floor(x), ew.constant_like(x, 2)) != 0
    return rnp.where((x < 0) & is_odd, -1.0, 1.0)
