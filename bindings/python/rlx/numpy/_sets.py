"""Arrays as sets: distinct elements, unions, what is in both and what is in one. How many there are depends on the elements, so while
tracing `size` says how many there is room for."""

import collections

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from . import _elementwise as ew
from ._creation import arange, full
from ._indexing import take
from ._reductions import any as reduce_any, argmax, sum
from ._shape import axis_of, concatenate, moveaxis, ravel, reshape
from ._sorting import argsort, isin, lexsort, nonzero

UniqueAllResult = collections.namedtuple("UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = collections.namedtuple("UniqueCountsResult", "values counts")
UniqueInverseResult = collections.namedtuple("UniqueInverseResult", "values inverse_indices")


def _eager(name, *xs):
    """The operands' elements, where no size says how many results there are."""
    if any(x.is_traced for x in xs):
        raise TypeError(f"how many distinct elements there are is not known while tracing; give {name} a size")
    return [x.numpy() for x in xs]


def _places(x):
    return as_array(x.astype(np.int32))


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True, size=None,
           fill_value=None):
    """The distinct elements (or slices along `axis`) in order, with where each stood first, which one each element is, and how many of
    it there are, where asked for. While tracing, `size` says how many there is room for: beyond them stands `fill_value`, the least
    element by default. They are sorted also where `sorted` does not ask for it. NaN is one element unless `equal_nan` is False."""
    x = as_array(ar)
    if size is None:
        out = np.unique(_eager("unique", x)[0], return_index, return_inverse, return_counts, axis=axis, equal_nan=equal_nan)
        parts = out if isinstance(out, tuple) else (out,)
        parts = (as_array(parts[0]),) + tuple(_places(p) for p in parts[1:])
        return parts if len(parts) > 1 else parts[0]
    shape = x.shape
    if axis is None:
        x, at = ravel(x), 0
    else:
        at = axis_of(axis, x.ndim)
    values, index, inverse, counts, _ = _distinct(moveaxis(x, at, 0), size, fill_value, equal_nan)
    out = [moveaxis(values, 0, at)]
    if return_index:
        out.append(index)
    if return_inverse:
        out.append(reshape(inverse, shape) if axis is None else inverse)
    if return_counts:
        out.append(counts)
    return out[0] if len(out) == 1 else tuple(out)


def _distinct(x, size, fill_value=None, equal_nan=True):
    """The distinct slices along the first axis: the values, their first places, the number of each slice, counts, and how many
    there are in all."""
    n, rest = x.shape[0], x.shape[1:]
    if n == 0:
        if size and fill_value is None:
            raise ValueError("there are no elements; give unique a fill_value for those that size asks for")
        none = full((size,), 0, "i32")
        fills = full((size,) + rest, 0 if fill_value is None else fill_value, x.dtype)
        return fills, none, full((0,), 0, "i32"), none, as_array(np.int32(0))
    lanes = reshape(x, (n, -1)) if x.size else None
    order = arange(n, dtype="i32") if lanes is None else argsort(lanes[:, 0]) if lanes.shape[1] == 1 else lexsort(lanes.T[::-1])
    ordered = take(x, order, 0)
    if lanes is None:
        changes = ew.constant_like(order[1:] > 0, False)
    else:
        a, b = (reshape(part, (n - 1, -1 if n > 1 else 0)) for part in (ordered[1:], ordered[:-1]))
        differs = ew.not_equal(a, b)
        if equal_nan and _dtypes.is_inexact(x.dtype_name):
            differs = ew.logical_and(differs, ew.logical_not(ew.logical_and(ew.isnan(a), ew.isnan(b))))
        changes = reduce_any(differs, 1)
    first = concatenate([full((1,), True, "bool"), changes])
    group = ops.cumsum(convert(first, "i32"), axis=0) - 1
    count = sum(first)
    starts = nonzero(first, size=size, fill_value=0)[0]
    values = take(ordered, starts, 0)
    if fill_value is not None:
        there = reshape(ew.less(arange(size, dtype="i32"), count), (size,) + (1,) * len(rest))
        values = ew.where(there, values, convert(as_array(fill_value), x.dtype_name))
    inverse = full((n,), 0, "i32").at[order].set(group)
    counts = full((size,), 0, "i32").at[group].add(1)
    return values, take(order, starts), inverse, counts, count


def unique_all(x, *, size=None, fill_value=None):
    """The distinct elements, where each stood first, which one each element is, and how many of it there are. Each NaN is one."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x, *, size=None, fill_value=None):
    """The distinct elements, and how many of each there are. Each NaN is one."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x, *, size=None, fill_value=None):
    """The distinct elements, and which one each element is. Each NaN is one."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x, *, size=None, fill_value=None):
    """The distinct elements. Each NaN is one."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def union1d(ar1, ar2, *, size=None, fill_value=None):
    """The elements that are in one of the arrays or in both, in order. `size` and `fill_value` are those of `unique`."""
    x = concatenate([ar1, ar2], None)
    if size is None:
        _eager("union1d", x)
    return unique(x, size=size, fill_value=fill_value)


def _chosen(x, keep, size, fill_value):
    """x where `keep` holds, so many of them; the rest is `fill_value`, or for None the least of them."""
    count = sum(keep)
    there = ew.less(arange(size, dtype="i32"), count)
    if not x.size:
        return full((size,), 0 if fill_value is None else fill_value, x.dtype)
    values = take(x, nonzero(keep, size=size, fill_value=0)[0])
    if fill_value is not None or not size:
        return ew.where(there, values, convert(as_array(0 if fill_value is None else fill_value), x.dtype_name))
    # They are in order, so that the first one is the least. Where there is none, any element will do.
    return ew.where(there, values, values[0])


def setdiff1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None):
    """The elements of the first array that are not in the second, in order; where `assume_unique`, as they stand. While tracing,
    `size` says how many there is room for, and `fill_value` what stands beyond, 0 by default."""
    a, b = ravel(ar1), ravel(ar2)
    if size is None:
        return as_array(np.setdiff1d(*_eager("setdiff1d", a, b), assume_unique))
    keep = isin(a, b, invert=True)
    if not assume_unique and a.size:
        a, index, _, _, count = _distinct(a, a.size)
        keep = ew.logical_and(take(keep, index), ew.less(arange(a.size, dtype="i32"), count))
    return _chosen(a, keep, size, 0 if fill_value is None else fill_value)


def _of_two(ar1, ar2, assume_unique):
    """Both arrays, one behind the other, and which of the elements are there: of each array each one once."""
    a, b = ew.promoted(ravel(ar1), ravel(ar2))
    index = [arange(x.size, dtype="i32") for x in (a, b)]
    there = [full((x.size,), True, "bool") for x in (a, b)]
    if not assume_unique:
        for i, x in enumerate((a, b)):
            if x.size:
                _, index[i], _, _, count = _distinct(x, x.size)
                there[i] = ew.less(arange(x.size, dtype="i32"), count)
        a, b = (take(x, i) if x.size else x for x, i in zip((a, b), index))
    return a, b, index, there


def _common(a, b, there):
    """For each element of a whether it is in b, and where."""
    if not a.size or not b.size:
        return full((a.size,), False, "bool"), full((a.size,), 0, "i32")
    same = ew.logical_and(ew.equal(reshape(a, (-1, 1)), b), ew.logical_and(reshape(there[0], (-1, 1)), there[1]))
    return reduce_any(same, 1), argmax(same, 1)


def intersect1d(ar1, ar2, assume_unique=False, return_indices=False, *, size=None, fill_value=None):
    """The elements that are in both arrays, in order, with where they stand in each where asked for. While tracing, `size` says how
    many there is room for, and `fill_value` what stands beyond, the least of them by default; places beyond are the arrays' sizes."""
    if size is None:
        a, b = _eager("intersect1d", *ew.promoted(ravel(ar1), ravel(ar2)))
        out = np.intersect1d(a, b, assume_unique, return_indices)
        return (as_array(out[0]), _places(out[1]), _places(out[2])) if return_indices else as_array(out)
    a, b, index, there = _of_two(ar1, ar2, assume_unique)
    found, at = _common(a, b, there)
    if assume_unique and a.size:  # the others are in order
        order = argsort(a)
        a, found, at, index[0] = (take(x, order) for x in (a, found, at, index[0]))
    values = _chosen(a, found, size, fill_value)
    if not return_indices:
        return values
    n, m = a.size, b.size
    firsts = _chosen(index[0], found, size, n)
    seconds = _chosen(take(index[1], at), found, size, m) if n and m else full((size,), m, "i32")
    return values, firsts, seconds


def setxor1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None):
    """The elements that are in one of the arrays and not in the other, in order. While tracing, `size` says how many there is room for,
    and `fill_value` what stands beyond, the least of them by default."""
    if size is None:
        return as_array(np.setxor1d(*_eager("setxor1d", *ew.promoted(ravel(ar1), ravel(ar2))), assume_unique))
    a, b, _, there = _of_two(ar1, ar2, assume_unique)
    keep = concatenate([ew.logical_and(there[0], ew.logical_not(_common(a, b, there)[0])),
                        ew.logical_and(there[1], ew.logical_not(_common(b, a, there[::-1])[0]))])
    x = concatenate([a, b])
    if not x.size:
        return _chosen(x, keep, size, fill_value)
    order = argsort(x)
    return _chosen(take(x, order), take(keep, order), size, fill_value)
