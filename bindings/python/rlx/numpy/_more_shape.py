"""Functions that move elements, less common ones; triangles, diagonals, stacks."""

import math
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import as_array
from . import _elementwise as ew
from ._creation import zeros
from ._shape import axes_of, axis_of, concatenate, expand_dims, flip, ravel, reshape, stack, swapaxes, transpose


def _triangle(x, k, upper):
    x, k = as_array(x), operator.index(k)
    if x.ndim < 2:
        if x.ndim == 0:
            raise ValueError("a triangle is one of an array of rank 1 or more")
        x = ew.broadcast_to(x, (x.shape[0], x.shape[0]))
    shape = f"i32[{x.shape[-2]}, {x.shape[-1]}]"
    rows, columns = ops.iota(type=shape, axis=0), ops.iota(type=shape, axis=1)
    distance = ew.subtract(columns, rows)
    keep = ew.greater_equal(distance, k) if upper else ew.less_equal(distance, k)
    return ew.where(keep, x, ew.constant_like(x, 0))


def tril(m, k=0):
    """Zeros above the k-th diagonal of the last two dims."""
    return _triangle(m, k, False)


def triu(m, k=0):
    """Zeros below the k-th diagonal of the last two dims."""
    return _triangle(m, k, True)


def tril_indices(n, k=0, m=None):
    """The indices of the lower triangle: rows and columns, int32."""
    return tuple(as_array(i.astype(np.int32)) for i in np.tril_indices(n, k, m))


def triu_indices(n, k=0, m=None):
    """The indices of the upper triangle: rows and columns, int32."""
    return tuple(as_array(i.astype(np.int32)) for i in np.triu_indices(n, k, m))


def diag(v, k=0):
    """The k-th diagonal of a matrix, or a matrix with that diagonal of a vector."""
    x = as_array(v)
    if x.ndim == 2:
        from ._linear import diagonal
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix, got rank {x.ndim}")
    n = x.shape[0] + abs(k)
    i = np.arange(x.shape[0], dtype=np.int32)
    return zeros((n, n), x.dtype).at[i + max(-k, 0), i + max(k, 0)].set(x)


def diagflat(v, k=0):
    """A matrix with the flattened v as its k-th diagonal."""
    return diag(ravel(v), k)


def atleast_1d(*xs):
    """With at least one dim."""
    made = [reshape(x, (1,)) if as_array(x).ndim == 0 else as_array(x) for x in xs]
    return made[0] if len(made) == 1 else made


def atleast_2d(*xs):
    """With at least two dims; a vector becomes a row."""
    made = [expand_dims(x, 0) if x.ndim == 1 else x for x in [atleast_1d(x) for x in xs]]
    return made[0] if len(made) == 1 else made


def atleast_3d(*xs):
    """With at least three dims; a vector stands in the middle, a matrix in front."""
    made = []
    for x in xs:
        x = as_array(x)
        made.append(reshape(x, (1, 1, 1)) if x.ndim == 0 else reshape(x, (1,) + x.shape + (1,)) if x.ndim == 1
                    else expand_dims(x, 2) if x.ndim == 2 else x)
    return made[0] if len(made) == 1 else made


def vstack(tup, dtype=None):
    """Rows on rows."""
    return concatenate([atleast_2d(x) for x in tup], 0, dtype)


def hstack(tup, dtype=None):
    """Side by side."""
    arrays = [atleast_1d(x) for x in tup]
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1, dtype)


def dstack(tup, dtype=None):
    """Along the third axis."""
    return concatenate([atleast_3d(x) for x in tup], 2, dtype)


def column_stack(tup):
    """Vectors as columns, matrices side by side."""
    return concatenate([reshape(x, (as_array(x).size, 1)) if as_array(x).ndim < 2 else as_array(x) for x in tup], 1)


def flipud(m):
    """Upside down."""
    return flip(m, 0)


def fliplr(m):
    """The second axis turned around."""
    return flip(m, 1)


def rot90(m, k=1, axes=(0, 1)):
    """Turned by 90 degrees, k times, from the first of the axes toward the second."""
    x = as_array(m)
    a, b = axes_of(tuple(axes), x.ndim)
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (a, b))
    return swapaxes(flip(x, b), a, b) if k == 1 else flip(swapaxes(x, a, b), b)


def unravel_index(indices, shape, order="C"):
    """Flat indices as one index for each dim, in row-major order, or for the order "F" with the first index running fastest. Negative ones
    count from the end; those out of range become the nearest in range, as in JAX."""
    if order == "F":
        return unravel_index(indices, tuple(shape)[::-1] if isinstance(shape, (tuple, list)) else shape)[::-1]
    if order != "C":
        raise ValueError(f"order is {order!r}; it is C or F")
    indices = as_array(indices)
    if not _dtypes.is_integer(indices.dtype_name):
        raise TypeError(f"indices are integers, and these are {indices.dtype_name}")
    shape = [operator.index(n) for n in ((shape,) if isinstance(shape, (int, np.integer)) else shape)]
    total = math.prod(shape)
    if total < 1:
        raise ValueError(f"an array of shape {tuple(shape)} has no elements to be indexed")
    indices = ew.clip(ew.where(ew.less(indices, 0), ew.add(indices, total), indices), 0, total - 1)
    out = []
    for n in reversed(shape):
        out.append(ew.remainder(indices, n))
        indices = ew.floor_divide(indices, n)
    return tuple(reversed(out))


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times. What is to be prepended or appended has one extent along the axis, or is a
    number."""
    from ._shape import slice_axis
    x = as_array(a)
    axis = axis_of(axis, x.ndim)
    if operator.index(n) < 0:
        raise ValueError(f"n is {n}; differences are taken 0 times or more")
    if n == 0:
        return x
    whole = [end if end is None or as_array(end).ndim else ew.broadcast_to(end, [1 if d == axis else m for d, m in enumerate(x.shape)])
             for end in (prepend, append)]
    if prepend is not None or append is not None:
        x = concatenate([part for part in (whole[0], x, whole[1]) if part is not None], axis)
    for _ in range(n):
        extent = x.shape[axis]
        later, earlier = slice_axis(x, axis, min(1, extent), extent), slice_axis(x, axis, 0, max(extent - 1, 0))
        x = ew.not_equal(later, earlier) if x.dtype_name == "bool" else ew.subtract(later, earlier)
    return x
