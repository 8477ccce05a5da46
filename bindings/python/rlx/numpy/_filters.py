"""Along one axis: convolution, interpolation, integrals, differences."""

import numpy as np

from .. import _dtypes
from .._array import as_array, convert
from . import _elementwise as ew
from ._indexing import take
from ._linear import in_dtype
from ._more_shape import diff
from ._reductions import sum
from ._shape import concatenate, expand_dims, flip, moveaxis, ravel, reshape
from ._sorting import argsort, searchsorted


def _convolved(x, y, mode):
    """Sums of products of two vectors, y moved along the longer x."""
    if mode == "valid":
        padding = (0, 0)
    elif mode == "same":
        padding = (y.shape[0] // 2, y.shape[0] - y.shape[0] // 2 - 1)
    elif mode == "full":
        padding = (y.shape[0] - 1, y.shape[0] - 1)
    else:
        raise ValueError(f"mode is {mode!r}; it is full, same or valid")
    from .._windows import conv
    dtype = x.dtype_name
    if dtype == "bool":
        x, y = convert(x, "i32"), convert(y, "i32")
    made = conv(reshape(x, (1, 1, -1)), reshape(y, (1, 1, -1)), 1, [padding])
    return convert(reshape(made, (-1,)), dtype)


def _vectors(name, a, v):
    a, v = ew.promoted(a, v)
    a, v = (reshape(x, (1,)) if x.ndim == 0 else x for x in (a, v))
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"{name} takes vectors, got ranks {a.ndim} and {v.ndim}")
    if not a.shape[0] or not v.shape[0]:
        raise ValueError(f"{name} takes vectors with elements, got shapes {a.shape} and {v.shape}")
    return a, v


def convolve(a, v, mode="full", *, preferred_element_type=None):
    """The convolution of two vectors: where they overlap at all (full), as many elements as the longer one has (same), or where all of
    the shorter one overlaps (valid)."""
    if preferred_element_type is not None:
        return in_dtype(convolve, preferred_element_type, a, v, mode=mode)
    a, v = _vectors("convolve", a, v)
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    return _convolved(a, flip(v), mode)


def correlate(a, v, mode="valid", *, preferred_element_type=None):
    """The cross-correlation of two vectors, the sums over n of a[n + k] conj(v[n]); `mode` is convolve's."""
    if preferred_element_type is not None:
        return in_dtype(correlate, preferred_element_type, a, v, mode=mode)
    if not as_array(a).ndim or not as_array(v).ndim:
        raise ValueError("correlate takes vectors, got a number")
    a, v = _vectors("correlate", a, v)
    v = ew.conj(v)
    if a.shape[0] < v.shape[0]:
        return flip(_convolved(v, a, mode))
    return _convolved(a, v, mode)


def interp(x, xp, fp, left=None, right=None, period=None):
    """The values at x of the line through the points (xp, fp), xp in increasing order; `left` and `right` are the values outside, by default
    those of the ends. With a period xp need not be in order, and nothing is outside."""
    x, xp = (ew.inexact(v) for v in ew.promoted(x, xp))
    fp = ew.inexact(fp)
    if _dtypes.is_complex(x.dtype_name):
        raise TypeError(f"interp takes real coordinates, got {x.dtype_name}")
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.shape[0]:
        raise ValueError(f"interp takes as many values as coordinates, and 1 or more, got shapes {xp.shape} and {fp.shape}")
    if _dtypes.real_part(fp.dtype_name) != x.dtype_name:
        width = _dtypes.promote(x.dtype_name, _dtypes.real_part(fp.dtype_name))
        x, xp = convert(x, width), convert(xp, width)
        fp = convert(fp, _dtypes.promote(fp.dtype_name, width))
    if period is not None:
        known = as_array(period)
        if known.ndim or not known.is_traced and float(known) == 0:
            raise ValueError(f"period is a number that is not 0, got {period!r}")
        period = ew.abs(convert(known, x.dtype_name))
        x, xp = ew.remainder(x, period), ew.remainder(xp, period)
        order = argsort(xp)
        xp, fp = take(xp, order), take(fp, order)
        xp = concatenate([ew.subtract(xp[-1:], period), xp, ew.add(xp[:1], period)])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    after = ew.clip(searchsorted(xp, x, "right"), min(1, n - 1), n - 1)
    before = ew.maximum(ew.subtract(after, 1), 0)
    x0, f0 = take(xp, before), take(fp, before)
    width = ew.subtract(take(xp, after), x0)
    flat = ew.equal(width, 0)
    slope = ew.divide(ew.subtract(take(fp, after), f0), ew.where(flat, ew.constant_like(width, 1), width))
    made = ew.add(ew.where(flat, ew.constant_like(slope, 0), slope) * ew.subtract(x, x0), f0)
    if period is None:
        made = ew.where(ew.less(x, xp[0]), fp[0] if left is None else convert(as_array(left), fp.dtype_name), made)
        # At the last coordinate itself the value is its own, to the bit.
        made = ew.where(ew.equal(x, xp[-1]), fp[-1], made)
        made = ew.where(ew.greater(x, xp[-1]), fp[-1] if right is None else convert(as_array(right), fp.dtype_name), made)
    return ew.where(ew.isnan(x), ew.constant_like(made, np.nan), made)


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral along an axis by trapezoids, of samples that are `dx` apart or stand at x."""
    y = ew.inexact(y)
    if x is None:
        y, apart = (ew.inexact(v) for v in ew.promoted(y, dx))
        if apart.ndim:
            apart = moveaxis(expand_dims(apart, tuple(range(y.ndim - apart.ndim))) if apart.ndim < y.ndim else apart, axis, -1)
    else:
        y, x = (ew.inexact(v) for v in ew.promoted(y, x))
        apart = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    y = moveaxis(y, axis, -1)
    return ew.multiply(sum(ew.multiply(apart, ew.add(y[..., 1:], y[..., :-1])), -1), 0.5)


def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of neighbours in the flattened array, between what is to begin and to end."""
    x = ravel(ary)
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, ravel(as_array(to_begin, x.dtype_name)))
    if to_end is not None:
        parts.append(ravel(as_array(to_end, x.dtype_name)))
    return concatenate(parts)
