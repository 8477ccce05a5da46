"""Order, search, sets. Where the number of results depends on elements, `size` says it while tracing."""

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, current_trace
from . import _elementwise as ew
from ._creation import arange, full
from ._indexing import take
from ._reductions import sum
from ._shape import axis_of, moveaxis, ravel, reshape
from ._more_shape import unravel_index


def _complex_keys(x):
    return ops.real(x), ops.imag(x)


def _one_order(kind, order):
    """What NumPy's sorts are asked for besides: all of its ways to sort give the same here, and there are no fields."""
    if kind not in (None, "quicksort", "heapsort", "mergesort", "stable"):
        raise ValueError(f"kind is {kind!r}; it is quicksort, heapsort, mergesort or stable, which are all one here")
    if order is not None:
        raise ValueError("order names the fields of an array that has some; arrays of RLX have none")


def sort(x, axis=-1, kind=None, order=None, *, descending=False, stable=True):
    """In order along an axis (of the flattened elements for None); NaN comes last. Complex numbers by real, then imaginary part."""
    _one_order(kind, order)
    x = as_array(x)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    if _dtypes.is_complex(x.dtype_name):
        from ._indexing import take_along_axis
        return take_along_axis(x, argsort(x, axis, descending=descending), axis)
    if x.dtype_name == "bool":
        return convert(ops.sort_values(convert(x, "u8"), axis=axis, descending=descending), "bool")
    return ops.sort_values(x, axis=axis, descending=descending)


def argsort(x, axis=-1, kind=None, order=None, *, descending=False, stable=True):
    """Where the elements in order stood, int32; equal ones in order of place."""
    _one_order(kind, order)
    x = as_array(x)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    if _dtypes.is_complex(x.dtype_name):
        # Twice, stably: by the imaginary part, then by the real one.
        from ._indexing import take_along_axis
        first = ops.argsort(ops.imag(x), axis=axis, descending=descending)
        second = ops.argsort(take_along_axis(ops.real(x), first, axis), axis=axis, descending=descending)
        return take_along_axis(first, second, axis)
    return ops.argsort(convert(x, "u8") if x.dtype_name == "bool" else x, axis=axis, descending=descending)


def searchsorted(a, v, side="left"):
    """Where v would be inserted into the sorted vector a, int32."""
    a, v = ew.promoted(a, v)
    if a.ndim != 1:
        raise ValueError(f"searchsorted takes a sorted vector, got rank {a.ndim}")
    if side not in ("left", "right"):
        raise ValueError(f"side is {side!r}; it is left or right")
    flat = reshape(v, (v.size, 1))
    row = reshape(a, (1, a.shape[0]))
    # NaN is larger than everything, as in sort.
    before = ew.less(row, flat) if side == "left" else ew.less_equal(row, flat)
    if _dtypes.is_float(a.dtype_name):
        nan_a, nan_v = ew.isnan(row), ew.isnan(flat)
        before = ew.where(nan_v, ew.logical_not(nan_a) if side == "left" else ew.logical_or(nan_v, nan_a), before)
    return reshape(sum(before, 1), v.shape)


def digitize(x, bins, right=False):
    """The bin of each element, for bins in increasing order."""
    return searchsorted(bins, x, "left" if right else "right")


def nonzero(x, size=None, fill_value=0):
    """The indices of elements that are not 0, one vector for each dim. While tracing, `size` says how many there are room
    for; places beyond hold `fill_value`."""
    x = as_array(x)
    if size is None:
        if x.is_traced or current_trace() is not None:
            raise TypeError("how many elements are not 0 is not known while tracing; give nonzero a size")
        return tuple(as_array(i.astype(np.int32)) for i in np.nonzero(x.numpy()))
    flags = convert(reshape(ew.truth(x), (x.size,)), "i32")
    # The k-th nonzero element stands where the running count reaches k + 1.
    running = ops.cumsum(flags, axis=0)
    at = searchsorted(running, arange(1, size + 1, dtype="i32"), "left")
    there = ew.less(arange(size, dtype="i32"), running[-1] if x.size else 0)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * max(x.ndim, 1)
    return tuple(ew.where(there, i, f) for i, f in zip(unravel_index(at, x.shape or (1,)), fills))


def argwhere(x, size=None, fill_value=0):
    """The indices of elements that are not 0, one row each."""
    from ._shape import stack
    x = as_array(x)
    found = nonzero(x if x.ndim else reshape(x, (1,)), size, fill_value)
    return stack(found, 1) if x.ndim else full((found[0].shape[0], 0), 0, "i32")


def bincount(x, weights=None, minlength=0, length=None):
    """How often each of 0, 1, 2, ... occurs, or the sum of its weights. While tracing, `length` or `minlength` says how many, and
    negative numbers count for nothing; else they are a ValueError."""
    x = as_array(x)
    if x.ndim != 1 or weights is not None and as_array(weights).shape != x.shape:
        raise ValueError(f"bincount takes x of rank 1 and as many weights, got shapes {x.shape}"
                         + ("" if weights is None else f" and {as_array(weights).shape}"))
    x = convert(x, "i32") if x.dtype_name == "bool" else x
    if not _dtypes.is_integer(x.dtype_name):
        raise TypeError(f"bincount counts integers, got {x.dtype_name}")
    if not x.is_traced and x.size and x.numpy().min() < 0:
        raise ValueError(f"bincount counts 0, 1, 2, ..., and there is a {x.numpy().min()}")
    if length is None:
        if x.is_traced:
            if not minlength:
                raise TypeError("how many bins there are is not known while tracing; give bincount a length")
            length = minlength
        else:
            length = max(int(x.numpy().max()) + 1 if x.size else 0, minlength)
    values = full(x.shape, 1, "i32") if weights is None else ravel(weights)
    values = convert(values, "f32") if values.dtype_name == "bool" else values
    start = full((length,), 0, values.dtype)
    return start if x.size == 0 or length == 0 else start.at[x].add(values)


def isin(x, test_elements, assume_unique=False, invert=False):
    """Whether each element is among the others. `assume_unique` changes nothing here."""
    if not isinstance(invert, (bool, np.bool_)):
        raise TypeError(f"invert is True or False, not {invert!r}")
    a, b = ew.promoted(x, test_elements)
    if b.size == 0:
        found = ew.constant_like(ew.equal(a, a), False)
    else:
        from ._reductions import any
        found = any(ew.equal(reshape(a, a.shape + (1,)), ravel(b)), -1)
    return ew.logical_not(found) if invert else found


def unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, size=None, fill_value=None):
    """The distinct elements (or slices along `axis`) in order. While tracing, `size` says how many there is room for."""
    x = as_array(x)
    if size is None:
        if x.is_traced or current_trace() is not None:
            raise TypeError("how many distinct elements there are is not known while tracing; give unique a size")
        out = np.unique(x.numpy(), return_index, return_inverse, return_counts, axis=axis)
        parts = out if isinstance(out, tuple) else (out,)
        parts = (as_array(parts[0]),) + tuple(as_array(p.astype(np.int32)) for p in parts[1:])
        return parts if len(parts) > 1 else parts[0]
    if axis is not None:
        raise TypeError("unique along an axis is not traced; flatten, or call it outside")
    flat = ravel(x)
    order = argsort(flat)
    ordered = take(flat, order)
    n = flat.shape[0]
    first = ew.logical_or(ew.equal(arange(n, dtype="i32"), 0), ew.not_equal(ordered, take(ordered, ew.clip(arange(n, dtype="i32") - 1, 0))))
    group = ops.cumsum(convert(first, "i32"), axis=0) - 1
    starts = nonzero(first, size, n)[0]
    there = ew.less(starts, n)
    fill = take(ordered, 0) if fill_value is None else fill_value
    values = ew.where(there, take(ordered, ew.clip(starts, 0, n - 1)), fill)
    out = [values]
    if return_index:
        out.append(ew.where(there, take(order, ew.clip(starts, 0, n - 1)), 0))
    if return_inverse:
        out.append(reshape(full((n,), 0, "i32").at[order].set(group), x.shape))
    if return_counts:
        out.append(full((size,), 0, "i32").at[group].add(1))
    return out[0] if len(out) == 1 else tuple(out)
