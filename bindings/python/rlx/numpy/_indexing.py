"""Indexing: x[index] and x.at[index], for integers, slices, None, ..., integer arrays and static masks, as NumPy has them.

An index out of range reads as NaN (of integers an extreme value) and is dropped by updates: shapes cannot depend on it.
"""

import math

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, is_number
from ._creation import arange, zeros
from ._elementwise import add, broadcast_arrays, broadcast_to, less, multiply, no_out, where
from ._shape import axis_of, expand_dims, flip, reshape, slice_axis, transpose


class _MaskPart(np.ndarray):
    """The places along one dim that a mask selects. `extent` is the mask's own extent of that dim."""


def _parts(mask):
    if mask.ndim == 0:
        raise TypeError("an index of True or False; use expand_dims")
    for places, extent in zip(np.nonzero(mask), mask.shape):
        part = places.astype(np.int32 if extent < 2**31 else np.int64).view(_MaskPart)
        part.extent = extent
        yield part


def _normal(index, shape):
    """The index as a list with one entry for each dim, None and the dims of masks spelled out."""
    rank = len(shape)
    index = list(index) if isinstance(index, tuple) else [index]
    entries = []
    for i in index:
        if isinstance(i, (list, np.ndarray, np.generic)) and not isinstance(i, (np.bool_,)):
            i = np.asarray(i)
        if isinstance(i, Array) and i.dtype_name == "bool":
            if i.is_traced:
                raise TypeError("a mask that is traced selects a number of elements that is not known while tracing; use "
                                "rlx.numpy.where(mask, x, other), x.at[mask].set(...) with one value for all, or "
                                "nonzero(mask, size=...)")
            i = i.numpy()
        if isinstance(i, np.ndarray) and i.dtype == np.bool_:
            entries += _parts(i)
        elif isinstance(i, np.ndarray) and i.size == 0 and i.dtype.kind == "f":
            entries.append(i.astype(np.int32))
        elif isinstance(i, (bool, np.bool_)):
            raise TypeError("an index of True or False; use expand_dims")
        else:
            entries.append(i)
    used = sum(1 for i in entries if i is not None and i is not Ellipsis)
    if used > rank:
        raise IndexError(f"{used} indices for an array of rank {rank}")
    dots = [k for k, i in enumerate(entries) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has one ... at most")
    at = dots[0] if dots else len(entries)
    fill = [slice(None)] * (rank - used)
    entries = entries[:at] + fill + entries[at + 1:] if dots else entries + fill
    for axis, i in enumerate(i for i in entries if i is not None):
        if isinstance(i, _MaskPart) and i.extent != shape[axis]:
            raise IndexError(f"a mask with extent {i.extent} for axis {axis}, whose extent is {shape[axis]}; a mask has the extents "
                             "of the dims that it selects from")
    return [i.view(np.ndarray) if isinstance(i, _MaskPart) else i for i in entries]


def _is_array(i):
    return isinstance(i, (np.ndarray, Array))


def _integer(i):
    return isinstance(i, (int, np.integer)) or (hasattr(i, "__index__") and not _is_array(i))


def getitem(x, index):
    """x[index]."""
    entries = _normal(index, x.shape)
    # First what is basic: integers, slices and None. Arrays stay as whole dims.
    dims, picked, arrays, at = [], x, [], 0
    for i in entries:
        if i is None:
            dims.append(1)
            continue
        n = x.shape[at]
        if isinstance(i, slice):
            if i != slice(None):
                if isinstance(n, str):
                    raise IndexError(f"a slice of the symbolic dim {n}")
                start, stop, step = i.indices(n)
                count = len(range(start, stop, step))
                if step > 0:
                    picked = slice_axis(picked, at, start, start + (count - 1) * step + 1 if count else start, step)
                else:
                    last = start + (count - 1) * step
                    picked = slice_axis(picked, at, last, start + 1, -step) if count else slice_axis(picked, at, 0, 0)
                    picked = flip(picked, at)
            dims.append(picked.shape[at])
            arrays.append(None)
        elif _is_array(i):
            i = as_array(i)
            if not _dtypes.is_integer(i.dtype_name):
                raise IndexError(f"an index of {i.dtype_name}; indices are integers, slices, None, ... and masks")
            dims.append(n)
            arrays.append(i)
        elif _integer(i):
            k = i.__index__()
            if not isinstance(n, str) and not -n <= k < n:
                raise IndexError(f"index {k} is out of range for axis {at} of extent {n}")
            arrays.append(as_array(np.int32(k)) if _any_array(entries) else k % n)
            if not _any_array(entries):
                picked = slice_axis(picked, at, k % n, k % n + 1)
            else:
                dims.append(n)
        else:
            raise IndexError(f"an index of {type(i).__name__}; indices are integers, slices, None, ... and arrays of integers")
        at += 1
    if not _any_array(entries):
        return reshape(picked, dims)
    return _gathered(picked, entries, arrays)


def _any_array(entries):
    return any(_is_array(i) for i in entries)


def _gathered(x, entries, arrays):
    """x, whose slices were taken, at the arrays of indices: they broadcast, and stand where they stood if they were next
    to each other, else in front."""
    where_arrays = [d for d, a in enumerate(arrays) if a is not None]
    rest = [d for d in range(x.ndim) if d not in where_arrays]
    index = broadcast_arrays(*[_from_front(arrays[d], x.shape[d]) for d in where_arrays])
    shape = index[0].shape
    if len(where_arrays) == 1 and rest == [d for d in range(x.ndim) if d != where_arrays[0]] and all(i is not None for i in entries):
        return ops.take(x, index[0], axis=where_arrays[0])
    fronted = transpose(x, where_arrays + rest)
    extents = [x.shape[d] for d in where_arrays]
    flat = reshape(fronted, (math.prod(extents),) + fronted.shape[len(extents):])
    position, inside = None, None
    for i, n in zip(index, extents):
        fits = ops.bitwise_and(ops.compare(i, broadcast_to(as_array(np.zeros((), i.dtype)), i.shape), direction="ge"), less(i, n))
        inside = fits if inside is None else ops.bitwise_and(inside, fits)
        position = i if position is None else add(multiply(position, n), i)
    taken = ops.take(flat, where(inside, position, -1), axis=0)  # -1 is out of range for `take`: it fills
    # Where the dims of the indices belong, counting what the result has in front of them.
    kinds = ["none" if i is None else "slice" if isinstance(i, slice) else "array" for i in entries]
    places = [k for k, kind in enumerate(kinds) if kind == "array"]
    together = places == list(range(places[0], places[-1] + 1))
    before = sum(kind != "array" for kind in kinds[: places[0]]) if together else 0
    extra = iter(taken.shape[len(shape):])
    tail = [1 if kind == "none" else next(extra) for kind in kinds if kind != "array"]
    full = reshape(taken, shape + tuple(tail))
    if before:
        n = len(shape)
        full = transpose(full, list(range(n, n + before)) + list(range(n)) + list(range(n + before, full.ndim)))
    return full


def _from_front(i, n):
    """Negative indices count from the end."""
    i = convert(i, "i32") if _dtypes.bits(i.dtype_name) < 32 else i
    return i if i.dtype_name[0] == "u" else where(less(i, 0), add(i, n), i)


_SCATTER = {"set": "none", "add": "add", "multiply": "mul", "min": "min", "max": "max"}


_COMBINE = {"set": lambda x, values: values, "add": ops.add, "multiply": ops.mul, "min": ops.minimum, "max": ops.maximum}


def _traced_mask(index):
    """The mask, where the index is one whose elements are not known while tracing; else None."""
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    return index if isinstance(index, Array) and index.dtype_name == "bool" and index.is_traced else None


def _updated_by_mask(x, mask, values, how):
    """The same by a choice for each element, for a mask that is traced: each of the selected places gets the same values."""
    if mask.ndim > x.ndim or mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} for an array of shape {x.shape}; a mask has the extents of the first dims of "
                         "what it selects from")
    rest = x.shape[mask.ndim:]
    if values.ndim == len(rest) + 1 and values.shape[0] == 1:
        values = reshape(values, values.shape[1:])
    if values.ndim > len(rest):
        raise TypeError(f"values of shape {values.shape} for a mask that is traced: how many places it selects is not known while "
                        f"tracing, so all get the same values, of shape {rest}; use rlx.numpy.where(mask, values, x)")
    chosen = broadcast_to(reshape(mask, mask.shape + (1,) * len(rest)), x.shape)
    return where(chosen, _COMBINE[how](x, broadcast_to(values, x.shape)), x)


def updated(x, index, values, how):
    """x with `values` put in, or combined, at x[index]. Of several values for one place `set` keeps the last."""
    x, values = as_array(x), as_array(values)
    rank = lambda name: 3 if _dtypes.is_complex(name) else 2 if _dtypes.is_inexact(name) else 1 if _dtypes.is_integer(name) else 0
    have, given = rank(x.dtype_name), rank(values.dtype_name)
    if given > have and (given == 3 or how != "set"):
        raise TypeError(f"{values.dtype_name} would lose what it is in an array of {x.dtype_name}; convert the array or the values with astype")
    values = convert(values, x.dtype_name)
    mask = _traced_mask(index)
    if mask is not None:
        return _updated_by_mask(x, mask, values, how)
    n = x.size
    positions = getitem(reshape(arange(n, dtype="i32" if n < 2**31 else "i64"), x.shape), index)
    flat = reshape(positions, (positions.size, 1))
    spread = reshape(broadcast_to(values, positions.shape), (positions.size,))
    return reshape(ops.scatter_nd(reshape(x, (n,)), flat, spread, reduction=_SCATTER[how]), x.shape)


class At:
    """x.at: updates of x at an index, as new arrays."""

    def __init__(self, x, index=None):
        self._x, self._index = x, index

    def __getitem__(self, index):
        return At(self._x, (index,) if not isinstance(index, tuple) else index)

    def get(self):
        return getitem(self._x, self._index)

    def set(self, values):
        return updated(self._x, self._index, values, "set")

    def add(self, values):
        return updated(self._x, self._index, values, "add")

    def subtract(self, values):
        return updated(self._x, self._index, ops.neg(as_array(values)), "add")

    def multiply(self, values):
        return updated(self._x, self._index, values, "multiply")

    mul = multiply

    def divide(self, values):
        from ._elementwise import inexact, reciprocal
        return updated(inexact(self._x), self._index, reciprocal(values), "multiply")

    def min(self, values):
        return updated(self._x, self._index, values, "min")

    def max(self, values):
        return updated(self._x, self._index, values, "max")

    def apply(self, f):
        if _traced_mask(self._index) is not None:
            x = as_array(self._x)
            return where(updated(zeros(x.shape, "bool"), self._index, True, "set"), f(x), x)
        return updated(self._x, self._index, f(self.get()), "set")


def _filled(x, made, there, fill_value):
    """What was taken, with `fill_value` where the index was out of range; None leaves it as it is."""
    if fill_value is None:
        return made
    fill_value = as_array(fill_value, x.dtype_name)
    if fill_value.ndim:
        raise ValueError(f"fill_value is a number, got the shape {fill_value.shape}")
    return where(there, made, fill_value)


def _in_range(indices, n):
    return ops.bitwise_and(ops.compare(indices, broadcast_to(as_array(0, indices.dtype_name), indices.shape), direction="ge"), less(indices, n))


def take(a, indices, axis=None, out=None, mode=None, unique_indices=False, indices_are_sorted=False, fill_value=None):
    """Elements at these places along an axis; of the flattened array for None. `mode`: "fill" (`fill_value` out of range, NaN where
    that is None; the default), "clip", "wrap", or "raise" (IndexError out of range; the indices must be known, so not traced).
    That the indices are unique or sorted is a promise that nothing here needs."""
    no_out(out)
    x, indices = as_array(a), as_array(indices)
    if mode not in (None, "fill", "clip", "wrap", "raise"):
        raise ValueError(f"mode is {mode!r}; it is fill, clip, wrap or raise")
    if not _dtypes.is_integer(indices.dtype_name):
        if indices.size:
            raise TypeError(f"indices are integers, got {indices.dtype_name}")
        indices = convert(indices, "i32")  # an empty list
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    there = None
    if mode == "wrap":
        from ._elementwise import remainder
        indices = remainder(indices, n)
    elif mode == "clip":
        from ._elementwise import clip
        indices = clip(indices, 0, n - 1)
    else:
        if mode == "raise":
            known = np.asarray(indices)
            out = known[(known < -n) | (known >= n)]
            if out.size:
                raise IndexError(f"index {out[0]} is out of range for axis {axis} of {n} elements")
        indices = _from_front(indices, n)
        there = None if fill_value is None else _in_range(indices, n)
    made = ops.take(x, indices, axis=axis)
    if there is not None:
        made = _filled(x, made, reshape(there, there.shape + (1,) * (x.ndim - axis - 1)), fill_value)
    return made


def take_along_axis(arr, indices, axis=-1, mode=None, fill_value=None, *, wrap_negative_indices=True):
    """For each place, the element at that index along the axis. `mode` is "fill" (`fill_value` out of range, NaN where that is None; the
    default) or "clip"; without `wrap_negative_indices` those are out of range, instead of counting from the end."""
    if mode not in (None, "fill", "clip"):
        raise ValueError(f"mode is {mode!r}; it is fill or clip")
    x, indices = as_array(arr), as_array(indices)
    if axis is None:
        x, indices, axis = reshape(x, (x.size,)), reshape(indices, (indices.size,)), 0
    axis = axis_of(axis, x.ndim)
    shape = [a if b == 1 else b for a, b in zip(indices.shape, x.shape)]
    x = broadcast_to(x, [x.shape[d] if d == axis else n for d, n in enumerate(shape)])
    indices = broadcast_to(indices, [indices.shape[d] if d == axis else n for d, n in enumerate(shape)])
    n = x.shape[axis]
    if wrap_negative_indices:
        indices = _from_front(indices, n)
    if mode == "clip":
        from ._elementwise import clip
        indices = clip(indices, 0, n - 1)
    elif not wrap_negative_indices:
        indices = where(_in_range(indices, n), indices, n)
    made = ops.take_along_axis(x, indices, axis=axis)
    return made if fill_value is None or mode == "clip" else _filled(x, made, _in_range(indices, n), fill_value)
