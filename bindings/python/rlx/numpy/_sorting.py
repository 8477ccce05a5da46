"""Order, search, sets. Where the number of results depends on elements, `size` says it while tracing."""

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from . import _elementwise as ew
from ._creation import arange, full
from ._indexing import take
from ._reductions import sum
from ._shape import axis_of, moveaxis, ravel, reshape
from ._more_shape import unravel_index


def _complex_keys(x):
    return ops.real(x), ops.imag(x)


_KINDS = (None, "quicksort", "heapsort", "mergesort", "stable")


def _check_kind(kind, order):
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; it is {', '.join(_KINDS[1:])}, and all of them are one stable sort")
    if order is not None:
        raise ValueError("order names the fields of structured arrays, and there are none of those; see lexsort")


def sort(a, axis=-1, kind=None, order=None, *, stable=True, descending=False):
    """In order along an axis (of the flattened elements for None); NaN comes last. Complex numbers by real, then imaginary part.
    Each `kind` is one stable sort."""
    _check_kind(kind, order)
    x = as_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    if _dtypes.is_complex(x.dtype_name):
        from ._indexing import take_along_axis
        return take_along_axis(x, argsort(x, axis, descending=descending), axis)
    if x.dtype_name == "bool":
        return convert(ops.sort_values(convert(x, "u8"), axis=axis, descending=descending), "bool")
    return ops.sort_values(x, axis=axis, descending=descending)


def argsort(a, axis=-1, kind=None, order=None, *, stable=True, descending=False, dtype=None):
    """Where the elements in order stood, int32 unless `dtype` says otherwise; equal ones in order of place."""
    _check_kind(kind, order)
    if dtype is not None:
        name = _dtypes.name_of(dtype)
        if not _dtypes.is_integer(name):
            raise TypeError(f"places are integers, and dtype is {name}")
        return convert(argsort(a, axis, stable=stable, descending=descending), name)
    x = as_array(a)
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


_SEARCHES = (None, "scan", "scan_unrolled", "sort", "compare_all", "default")


def _check_search(method):
    if method not in _SEARCHES:
        raise ValueError(f"method is {method!r}; it is {', '.join(_SEARCHES[1:])}, and the result is the same")


def searchsorted(a, v, side="left", sorter=None, *, method="scan"):
    """Where v would be inserted into the sorted vector a, int32; `sorter` are the places that sort a, if it is not. JAX's `method`
    makes no difference: v is compared with all of a."""
    _check_search(method)
    a, v = ew.promoted(a, v)
    if sorter is not None:
        if a.ndim != 1 or as_array(sorter).shape != a.shape:
            raise ValueError(f"sorter has a place for each element, got the shapes {a.shape} and {as_array(sorter).shape}")
        a = take(a, sorter)
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


def digitize(x, bins, right=False, *, method=None):
    """The bin of each element, for bins in increasing order, or in decreasing order. `method` is searchsorted's."""
    _check_search(method)
    bins = as_array(bins)
    if bins.ndim != 1:
        raise ValueError(f"bins are a vector, got rank {bins.ndim}")
    if not _dtypes.is_float(bins.dtype_name) and not _dtypes.is_integer(bins.dtype_name):
        raise TypeError(f"bins are real numbers, got {bins.dtype_name}")
    rising = searchsorted(bins, x, "left" if right else "right")
    if bins.shape[0] < 2:
        return rising
    # Of falling bins what is in front of x counts from the other end.
    falling = bins.shape[0] - searchsorted(bins[::-1], x, "left" if right else "right")
    return ew.where(ew.less_equal(bins[0], bins[-1]), rising, falling)


def nonzero(a, *, size=None, fill_value=None):
    """The indices of elements that are not 0, one vector for each dim. While tracing, `size` says how many there are room
    for; places beyond hold `fill_value`, 0 by default."""
    fill_value = 0 if fill_value is None else fill_value
    x = as_array(a)
    if size is None:
        if x.is_traced:
            raise TypeError("how many elements are not 0 is not known while tracing; give nonzero a size")
        return tuple(as_array(i.astype(np.int32)) for i in np.nonzero(x.numpy()))
    flags = convert(reshape(ew.truth(x), (x.size,)), "i32")
    # The k-th nonzero element stands where the running count reaches k + 1.
    running = ops.cumsum(flags, axis=0)
    at = searchsorted(running, arange(1, size + 1, dtype="i32"), "left")
    there = ew.less(arange(size, dtype="i32"), running[-1] if x.size else 0)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * max(x.ndim, 1)
    return tuple(ew.where(there, i, f) for i, f in zip(unravel_index(at, x.shape or (1,)), fills))


def where(condition, x=None, y=None, *, size=None, fill_value=None):
    """x where the condition holds, else y. Without both of them the places where it holds, as `nonzero` has them."""
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise TypeError("where takes both x and y, or neither of them")
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value are of where without x and y, which gives places")
    return ew.where(condition, x, y)


def flatnonzero(a, *, size=None, fill_value=None):
    """The places in the flattened array of elements that are not 0; `size` and `fill_value` are those of `nonzero`."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a, *, size=None, fill_value=None):
    """The indices of elements that are not 0, one row each; `size` and `fill_value` are those of `nonzero`."""
    from ._shape import stack
    x = as_array(a)
    found = nonzero(x if x.ndim else reshape(x, (1,)), size=size, fill_value=fill_value)
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


def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None, method="auto"):
    """Whether each element is among the others. That they are unique is a promise that nothing here needs, and NumPy's `kind` and JAX's
    `method` make no difference: each element is compared with all others."""
    if kind not in (None, "sort", "table"):
        raise ValueError(f"kind is {kind!r}; it is sort or table, and the result is the same")
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"method is {method!r}; it is auto, compare_all, binary_search or sort, and the result is the same")
    if not isinstance(invert, (bool, np.bool_)):
        raise TypeError(f"invert is True or False, not {invert!r}")
    a, b = ew.promoted(element, test_elements)
    if b.size == 0:
        found = ew.constant_like(ew.equal(a, a), False)
    else:
        from ._reductions import any
        found = any(ew.equal(reshape(a, a.shape + (1,)), ravel(b)), -1)
    return ew.logical_not(found) if invert else found


def lexsort(keys, axis=-1):
    """Where the elements in order stood, int32: by the last of the keys, among equals by the one before, and so on."""
    from ._indexing import take_along_axis
    keys = list(keys) if isinstance(keys, (tuple, list)) else list(keys) if (keys := as_array(keys)).ndim else []
    if not keys:
        raise TypeError("lexsort takes a key or several")
    keys = [as_array(k) for k in keys]
    if len({k.shape for k in keys}) > 1:
        raise ValueError(f"the keys have one shape, got {[k.shape for k in keys]}")
    if keys[0].ndim == 0:
        axis_of(axis, 1)
        return as_array(np.int32(0))
    axis = axis_of(axis, keys[0].ndim)
    order = argsort(keys[0], axis)
    for key in keys[1:]:  # each a stable sort of what the ones before left
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


def _kth(kth, n):
    """The places that kth names, counted from the front."""
    places = [kth] if np.ndim(kth) == 0 else list(kth)
    return [axis_of(k, n) for k in places]


def partition(a, kth, axis=-1, kind="introselect", order=None):
    """The elements along an axis, the kth (or several) where it stands in order, lesser ones in front of it: all in order."""
    if kind != "introselect":
        raise ValueError(f"kind is {kind!r}; it is introselect")
    x = as_array(a)
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    _kth(kth, x.shape[axis_of(axis, x.ndim)])
    return sort(x, axis, order=order)


def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    """Where the elements stood that `partition` gives, int32."""
    if kind != "introselect":
        raise ValueError(f"kind is {kind!r}; it is introselect")
    x = as_array(a)
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    _kth(kth, x.shape[axis_of(axis, x.ndim)])
    return argsort(x, axis, order=order)


def sort_complex(a):
    """The elements in order as complex numbers: by the real part, then by the imaginary one."""
    x = sort(a)
    return x if _dtypes.is_complex(x.dtype_name) else convert(x, "c128" if x.dtype_name in ("f64", "i64", "u64") else "c64")
