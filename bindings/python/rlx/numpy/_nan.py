"""Reductions of what is not NaN."""

import numpy as np

from .. import _dtypes
from .._array import as_array
from . import _elementwise as ew
from ._reductions import (all, argmax, argmin, cumprod, cumsum, highest, lowest, max, mean, min, prod, sum, var)
from ._statistics import nanpercentile, nanquantile  # noqa: F401: they are of this subject, and made there


def _without(x, value):
    """x with `value` in place of NaN."""
    return ew.where(ew.isnan(x), ew.constant_like(x, value), x) if _dtypes.is_inexact(x.dtype_name) else x


def _there(x, where):
    """Where x is not NaN, and `where` is true."""
    there = ew.logical_not(ew.isnan(x))
    return there if where is None else ew.logical_and(there, ew.broadcast_to(ew.truth(where), x.shape))


def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The sum of what is not NaN, with sum's parameters."""
    return sum(_without(as_array(a), 0), axis, dtype, out, keepdims, initial, where)


def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The product of what is not NaN, with prod's parameters."""
    return prod(_without(as_array(a), 1), axis, dtype, out, keepdims, initial, where)


def nancumsum(a, axis=None, dtype=None, out=None):
    """The running sum, NaN as 0."""
    return cumsum(_without(as_array(a), 0), axis, dtype, out)


def nancumprod(a, axis=None, dtype=None, out=None):
    """The running product, NaN as 1."""
    return cumprod(_without(as_array(a), 1), axis, dtype, out)


def _extreme(name, f, worst):
    def of(a, axis=None, out=None, keepdims=False, initial=None, where=None):
        x = as_array(a)
        made = f(_without(x, worst(x).numpy()), axis, out, keepdims, initial, where)
        if not _dtypes.is_inexact(x.dtype_name) or initial is not None:
            return made
        return ew.where(all(ew.isnan(x), axis, keepdims=keepdims), ew.constant_like(made, np.nan), made)
    return ew.documented(of, name, f"The {'greatest' if f is max else 'least'} element that is not NaN, with {f.__name__}'s parameters; NaN where "
                         "there is none.", "NaN where all are NaN, unless there is an initial value.")


nanmax = _extreme("nanmax", max, lowest)
nanmin = _extreme("nanmin", min, highest)


def _arg(name, f, worst):
    def of(a, axis=None, out=None, keepdims=False):
        x = as_array(a)
        at = f(_without(x, worst(x).numpy()), axis, out, keepdims)
        if not _dtypes.is_inexact(x.dtype_name):
            return at
        return ew.where(all(ew.isnan(x), axis, keepdims=keepdims), ew.constant_like(at, -1), at)
    return ew.documented(of, name, f"Where the {'greatest' if f is argmax else 'least'} element stands that is not NaN, int32.",
                         "-1 where all are NaN, as in JAX; NumPy raises there, which a result that is not known yet cannot.")


nanargmax = _arg("nanargmax", argmax, lowest)
nanargmin = _arg("nanargmin", argmin, highest)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=None):
    """The mean of what is not NaN, with mean's parameters; NaN where nothing is left."""
    x = as_array(a)
    return mean(x, axis, dtype, out, keepdims, where=_there(x, where))


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The variance of what is not NaN, with var's parameters; NaN where no more than `ddof` elements are left."""
    x = as_array(a)
    there = _there(x, where)
    made = var(x, axis, dtype, out, ddof, keepdims, where=there, mean=mean, correction=correction)
    left = sum(there, axis, keepdims=keepdims)
    return ew.where(ew.greater(left, ddof if correction is None else correction), made, ew.constant_like(made, np.nan))


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The root of nanvar."""
    return ew.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The median of what is not NaN. Arrays do not change, so that `overwrite_input`, a permission, is not used."""
    return nanquantile(a, 0.5, axis, out, overwrite_input, keepdims=keepdims)
