"""Element-wise functions of the Array API and of NumPy that are made of others: quotients with remainders, parts of numbers, steps."""

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from . import _elementwise as ew
from ._more_elementwise import array_equal, copysign, nextafter
from ._more_shape import diff
from ._reductions import cumsum
from ._shape import axis_of, concatenate, slice_axis


def fabs(x):
    """|x| of real numbers, as floats."""
    return ew.abs(ew.inexact(ew.not_complex(x, "fabs")))


def float_power(x, y):
    """x to the power y, as floats or complex numbers."""
    x, y = ew.promoted(x, y)
    return ew.power(ew.inexact(x), ew.inexact(y))


def divmod(x1, x2):
    """(floor_divide(x1, x2), remainder(x1, x2))."""
    return ew.floor_divide(x1, x2), ew.remainder(x1, x2)


def modf(x, out=None):
    """(the fraction, the whole number) of x, both with its sign."""
    ew.no_out(out)
    x = ew.inexact(ew.not_complex(x, "modf"))
    whole = ew.trunc(x)
    return ew.where(ew.isinf(x), ew.constant_like(x, 0), ew.subtract(x, whole)), whole


def bitwise_count(x):
    """How many bits of |x| are set, uint8."""
    x = as_array(x)
    if not _dtypes.is_integer(x.dtype_name) and x.dtype_name != "bool":
        raise TypeError(f"bitwise_count counts the bits of integers, got {x.dtype_name}")
    return convert(x if x.dtype_name == "bool" else ops.popcnt(ew.abs(x)), "u8")


def spacing(x):
    """From x to the next number away from 0."""
    x = ew.inexact(ew.not_complex(x, "spacing"))
    # In float16 NumPy's goes toward inf on both sides of 0.
    away = ew.constant_like(x, np.inf) if x.dtype_name == "f16" else copysign(np.inf, x)
    made = ew.subtract(nextafter(x, away), x)
    least = float(_dtypes.finfo(x.dtype).smallest_subnormal)
    return ew.where(ew.equal(made, 0), copysign(ew.constant_like(x, least), x), made)


def i0(x):
    """The modified Bessel function of order 0."""
    return ops.i0(ew.inexact(ew.not_complex(x, "i0")))


def unwrap(p, discont=None, axis=-1, *, period=2 * np.pi):
    """Numbers that are known up to multiples of a period, with those added that make neighbours along the axis differ least. Steps that
    are less than `discont`, half a period by default, stay as they are."""
    p = ew.promoted(ew.not_complex(p, "unwrap"), period)[0]
    axis = axis_of(axis, p.ndim)
    if not p.shape[axis]:
        return p
    half = ew.floor_divide(period, 2) if _dtypes.is_integer(p.dtype_name) else ew.divide(period, 2)
    steps = diff(p, axis=axis)
    small = ew.subtract(ew.remainder(ew.add(steps, half), period), half)
    small = ew.where(ew.logical_and(ew.equal(small, ew.negative(half)), ew.greater(steps, 0)), half, small)
    change = ew.where(ew.less(ew.abs(steps), ew.divide(period, 2) if discont is None else discont), 0, ew.subtract(small, steps))
    rest = ew.add(slice_axis(p, axis, 1, p.shape[axis]), cumsum(change, axis))
    return concatenate([slice_axis(p, axis, 0, 1), rest], axis)


def array_equiv(a1, a2):
    """The arrays broadcast to one shape, and are equal there."""
    a, b = as_array(a1), as_array(a2)
    try:
        shape = ew.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return as_array(False)
    return array_equal(ew.broadcast_to(a, shape), ew.broadcast_to(b, shape))
