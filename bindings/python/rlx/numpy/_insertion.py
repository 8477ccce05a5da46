"""Elements put in and taken out, as new arrays. What NumPy does in place takes `inplace=False` here, as in JAX."""

import operator

import numpy as np

from .. import _dtypes
from .._array import as_array, convert
from . import _elementwise as ew
from ._creation import arange, full, zeros
from ._indexing import take
from ._reductions import cumsum, sum
from ._shape import axes_of, axis_of, concatenate, moveaxis, ravel, reshape, slice_axis, tile
from ._sorting import argsort, sort


def append(arr, values, axis=None):
    """values behind arr along an axis; both flattened for None."""
    return concatenate([arr, values], axis)


def _flat_or(x, axis):
    """The array and its axis, counted from the front; flattened for None."""
    x = as_array(x)
    return (ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim))


def _in_extent(places, n):
    """Places from 0 to n - 1, of which some count from the end; IndexError out of range."""
    places = np.asarray(places)
    if places.size and (places.dtype.kind not in "iu"):
        raise TypeError(f"places are integers or bools, got {places.dtype}")
    places = places.astype(np.int64).ravel()
    out = places[(places < -n) | (places >= n)]
    if out.size:
        raise IndexError(f"index {out[0]} is out of range for an axis of {n} elements")
    return places % n if n else places


def delete(arr, obj, axis=None, *, assume_unique_indices=False):
    """arr without the elements at these places along an axis (of the flattened array for None): an index, a slice, several indices, or
    a mask. Indices that are traced must be distinct, which `assume_unique_indices` says: their number is how many are taken out."""
    x, axis = _flat_or(arr, axis)
    n = x.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(n)[obj]
    if getattr(obj, "is_traced", False):
        if obj.dtype_name == "bool" or not assume_unique_indices:
            raise TypeError("how many elements traced places take out is not known while tracing; if they are distinct indices, say "
                            "assume_unique_indices=True")
        places = ravel(obj)
        places = ew.clip(ew.where(ew.less(places, 0), ew.add(places, n), places), 0, n)
        places = ew.subtract(sort(places), arange(places.size, dtype=places.dtype))
        kept = arange(n - places.size, dtype=places.dtype)
        kept = ew.add(kept, sum(ew.less_equal(reshape(places, (-1, 1)), kept), 0, dtype=places.dtype))
        return take(x, kept, axis)
    obj = np.asarray(obj)
    if obj.dtype == np.bool_:
        if obj.shape != (n,):
            raise ValueError(f"a mask of shape {obj.shape} for an axis of {n} elements")
        kept = ~obj
    else:
        kept = np.ones(n, bool)
        kept[_in_extent(obj, n)] = False
    return take(x, np.flatnonzero(kept).astype(np.int32), axis)


def insert(arr, obj, values, axis=None):
    """arr with values in front of these places along an axis (of the flattened array for None): an index, a slice, or several indices,
    which count in arr as it was. The values take arr's dtype."""
    x, axis = _flat_or(arr, axis)
    n = x.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(n)[obj].astype(np.int32)
    places = as_array(obj)
    if places.dtype_name == "bool":
        if places.is_traced:
            raise TypeError("how many places a traced mask names is not known while tracing; give insert the places")
        places = as_array(np.flatnonzero(places.numpy()).astype(np.int32))
    if not places.size:
        places = convert(places, "i32")
    if places.ndim > 1 or not _dtypes.is_integer(places.dtype_name):
        raise ValueError(f"the places are an index, a slice or a vector of indices, got {places.dtype_name}{list(places.shape)}")
    known = None if places.is_traced else places.numpy()
    if known is not None and ((known < -n) | (known > n)).any():
        raise IndexError(f"places {known.tolist()} for an axis of {n} elements; they are from {-n} to {n}")
    values = as_array(values, x.dtype_name)
    values = reshape(values, (1,) * (x.ndim - values.ndim) + values.shape)
    if places.size == 1:
        if places.ndim == 0:
            values = moveaxis(values, 0, axis)
        places = ew.broadcast_to(ravel(places), (values.shape[axis],))
    count = places.shape[0]
    shape = x.shape[:axis] + (count,) + x.shape[axis + 1:]
    values = ew.broadcast_to(values, shape)
    if not count:
        return x
    places = ew.clip(ew.where(ew.less(places, 0), ew.add(places, n), places), 0, n)
    # Where the values come to stand, in order of place, and from where each element of the result is taken.
    order = argsort(places)
    stand = ew.add(take(places, order), arange(count, dtype=places.dtype))
    is_new = full((n + count,), False, "bool").at[stand].set(True)
    old = ew.subtract(cumsum(ew.logical_not(is_new)), 1)
    from_values = zeros((n + count,), "i32").at[stand].set(ew.add(order, n))
    return take(concatenate([x, values], axis), ew.where(is_new, from_values, old), axis)


def compress(condition, a, axis=None, out=None, *, size=None, fill_value=0):
    """The slices along an axis (elements of the flattened array for None) for which the condition, a vector, holds. While tracing, `size`
    says how many there is room for, and `fill_value` what stands beyond."""
    ew.no_out(out)
    x, axis = _flat_or(a, axis)
    condition = ew.truth(condition)
    if condition.ndim != 1:
        raise ValueError(f"the condition is a vector, got rank {condition.ndim}")
    n = min(condition.shape[0], x.shape[axis])
    if size is None:
        if condition.is_traced:
            raise TypeError("how many slices a traced condition leaves is not known while tracing; give compress a size")
        known = condition.numpy()
        if known[n:].any():
            raise IndexError(f"the condition holds beyond the {n} slices along the axis")
        return take(x, np.flatnonzero(known).astype(np.int32), axis)
    size = operator.index(size)
    if not 0 <= size <= n:
        raise ValueError(f"size is {size}, and there are {n} slices")
    condition, x = slice_axis(condition, 0, 0, n), slice_axis(x, axis, 0, n)
    kept = ew.where(reshape(condition, [n if d == axis else 1 for d in range(x.ndim)]), x, convert(as_array(fill_value), x.dtype_name))
    return take(kept, slice_axis(argsort(condition, descending=True), 0, 0, size), axis)


def extract(condition, arr, *, size=None, fill_value=0):
    """The elements for which the condition holds, as a vector; `size` and `fill_value` are those of `compress`."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def _no_inplace(inplace, name):
    if inplace:
        raise ValueError(f"arrays do not change: {name} gives a new one, with inplace=False")


def _as_many(values, n):
    """The flattened values, as often as n elements take."""
    values = ravel(values)
    return slice_axis(tile(values, -(-n // values.size)), 0, 0, n) if values.size else values


def place(arr, mask, vals, *, inplace=True):
    """arr with the vals one after another, as often as it takes, where the mask is true; as a new array, for which `inplace` must be
    False."""
    _no_inplace(inplace, "place")
    x, mask = as_array(arr), ew.truth(mask)
    if x.size != mask.size:
        raise ValueError(f"the mask has an element for each of the {x.size}, got the shape {mask.shape}")
    vals = ravel(as_array(vals, x.dtype_name))
    if not vals.size:
        if x.size and (mask.is_traced or mask.numpy().any()):
            raise ValueError("there are no vals to be placed")
        return x
    mask = ravel(mask)
    number = ew.remainder(ew.subtract(cumsum(mask), 1), vals.size)
    return reshape(ew.where(mask, take(vals, number), ravel(x)), x.shape)


def put(a, ind, v, mode=None, *, inplace=True):
    """a with v at these places of the flattened array, as a new one, for which `inplace` must be False. `mode` says what a place out of
    range does: None drops it, clip takes the nearest, wrap goes around, raise refuses (the places must be known, so not traced)."""
    _no_inplace(inplace, "put")
    if mode not in (None, "clip", "wrap", "raise"):
        raise ValueError(f"mode is {mode!r}; it is clip, wrap or raise")
    x, places, v = as_array(a), ravel(ind), as_array(v)
    if not x.size or not places.size or not v.size:
        return x
    n = x.size
    if mode == "clip":
        places = ew.clip(places, 0, n - 1)
    elif mode == "wrap":
        places = ew.remainder(places, n)
    elif mode == "raise":
        places = as_array(_in_extent(np.asarray(places), n).astype(np.int32))
    return reshape(ravel(x).at[places].set(_as_many(v, places.size)), x.shape)


def put_along_axis(arr, indices, values, axis, inplace=True, *, mode=None):
    """arr with values at these indices along an axis, as a new array, for which `inplace` must be False. `mode` says what an index out of
    range does: None and "drop" drop it, clip takes the nearest."""
    _no_inplace(inplace, "put_along_axis")
    if mode not in (None, "drop", "clip"):
        raise ValueError(f"mode is {mode!r}; it is drop or clip")
    x, indices = as_array(arr), as_array(indices)
    shape = x.shape
    if axis is None:
        x, axis = ravel(x), 0
    if x.ndim != indices.ndim:
        raise ValueError(f"the indices have as many dims as the array, got the shapes {indices.shape} and {x.shape}")
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    if mode == "clip":
        indices = ew.clip(indices, 0, n - 1)
    values = ew.broadcast_to(values, indices.shape)
    wide = ew.broadcast_shapes(indices.shape, [1 if d == axis else m for d, m in enumerate(x.shape)])
    indices, values = ew.broadcast_to(indices, wide), ew.broadcast_to(values, wide)
    grid = [indices if d == axis else reshape(arange(m, dtype="i32"), [m if k == d else 1 for k in range(x.ndim)])
            for d, m in enumerate(x.shape)]
    return reshape(x.at[tuple(grid)].set(values), shape)


def fill_diagonal(a, val, wrap=False, *, inplace=True):
    """a with val on its main diagonal, one after another, as often as it takes; as a new array, for which `inplace` must be False. With
    `wrap` the diagonal of a tall matrix begins anew below its end."""
    _no_inplace(inplace, "fill_diagonal")
    x, val = as_array(a), as_array(val)
    if x.ndim < 2:
        raise ValueError(f"a diagonal is one of an array of rank 2 or more, got rank {x.ndim}")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(f"beyond rank 2 all extents are one, got the shape {x.shape}")
    step = x.shape[1] + 1 if x.ndim == 2 else int(np.sum(np.cumprod((1,) + x.shape[:0:-1])))
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    places = np.arange(0, end, step, dtype=np.int32)
    if not places.size or not val.size:
        return x
    return reshape(ravel(x).at[places].set(_as_many(val, places.size)), x.shape)


def trim_zeros(filt, trim="fb", axis=None):
    """Without what is 0 in front (f) and behind (b), along all axes or some. The elements must be known, so not traced."""
    x = as_array(filt)
    if x.is_traced:
        raise TypeError("how many zeros there are is not known while tracing; trim outside of the traced function")
    if not isinstance(trim, str) or set(trim := trim.lower()) - set("fb"):
        raise ValueError(f"trim is {trim!r}; it is of the letters f and b")
    known = x.numpy()
    for d in axes_of(axis, x.ndim):
        places = np.flatnonzero((known != 0).any(axis=tuple(k for k in range(x.ndim) if k != d)))
        first, last = (int(places[0]), int(places[-1]) + 1) if places.size else (0, 0)
        start, stop = first if "f" in trim else 0, last if "b" in trim else x.shape[d]
        if not places.size:
            start, stop = (0, 0) if trim else (0, x.shape[d])
        x = slice_axis(x, d, start, stop)
    return x


def resize(a, new_shape):
    """The elements under another shape, one after another, as often as it takes; what is too many falls away."""
    shape = (new_shape,) if isinstance(new_shape, (int, np.integer)) else tuple(operator.index(d) for d in new_shape)
    if any(d < 0 for d in shape):
        raise ValueError(f"extents are not negative, got {shape}")
    x, n = ravel(a), int(np.prod(shape))
    if not x.size or not n:
        return zeros(shape, x.dtype)
    return reshape(_as_many(x, n), shape)
