"""Indices: of grids, diagonals and triangles, and of elements in row-major order."""

import math
import operator

import numpy as np

from .. import _dtypes
from .._array import as_array, convert
from . import _elementwise as ew
from ._creation import arange, full, meshgrid, ones, shape_tuple
from ._more_shape import tril_indices, triu_indices
from ._reductions import any as reduce_any
from ._shape import reshape, stack
from ._sorting import nonzero


def ix_(*args):
    """Vectors as indices of the grid that they span: each along a dim of its own. Of bools the places where they are true, which
    must be known, so not traced."""
    made = []
    for i, x in enumerate(args):
        x = as_array(x)
        if x.ndim != 1:
            raise ValueError(f"ix_ takes vectors, got rank {x.ndim}")
        x = nonzero(x)[0] if x.dtype_name == "bool" else x if x.size else convert(x, "i32")
        made.append(reshape(x, [x.shape[0] if d == i else 1 for d in range(len(args))]))
    return tuple(made)


def indices(dimensions, dtype=None, sparse=False):
    """The index of each place of a grid, along a first axis with one for each dim; where `sparse`, a tuple of them with extents of 1."""
    dims = [operator.index(d) for d in shape_tuple(dimensions)]
    made = meshgrid(*[arange(d, dtype="i32" if dtype is None else dtype) for d in dims], indexing="ij", sparse=sparse)
    if sparse:
        return tuple(made)
    return stack(made) if made else full((0,), 0, "i32" if dtype is None else dtype)


def fromfunction(function, shape, *, dtype=float, **kwargs):
    """What the function gives for the indices of a grid, of which it is given one array for each dim: as NumPy calls it, once."""
    return function(*indices(shape, dtype), **kwargs)


def diag_indices(n, ndim=2):
    """The indices of the main diagonal of an array of so many dims, n in each."""
    return (arange(n, dtype="i32"),) * ndim


def diag_indices_from(arr):
    """The indices of the main diagonal of an array, whose extents are one."""
    x = as_array(arr)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        raise ValueError(f"an array of rank 2 or more whose extents are one is needed, got the shape {x.shape}")
    return diag_indices(x.shape[0], x.ndim)


def _matrix_shape(arr):
    x = as_array(arr)
    if x.ndim != 2:
        raise ValueError(f"a triangle is one of a matrix, got rank {x.ndim}")
    return x.shape


def tril_indices_from(arr, k=0):
    """The indices of the lower triangle of a matrix."""
    n, m = _matrix_shape(arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr, k=0):
    """The indices of the upper triangle of a matrix."""
    n, m = _matrix_shape(arr)
    return triu_indices(n, k, m)


def mask_indices(n, mask_func, k=0, *, size=None):
    """The indices where mask_func(ones((n, n)), k) is not 0, as those of `triu` or `tril`. While tracing, `size` says how many there is
    room for."""
    return nonzero(mask_func(ones((n, n)), k), size=size)


def ravel_multi_index(multi_index, dims, mode="raise", order="C", *, dtype=None):
    """The place in row-major order (or for the order "F" with the first index running fastest) of indices, one for each dim. `mode` says what
    an index out of range does: raise (they must be known, so not traced), clip or wrap, one for all dims or one for each; ignore
    computes with them."""
    dims = [operator.index(d) for d in shape_tuple(dims)]
    given = [as_array(i) for i in multi_index]
    if len(given) != len(dims):
        raise ValueError(f"there is an index for each of the {len(dims)} dims, got {len(given)}")
    name = "i32" if dtype is None else _dtypes.name_of(dtype)
    for i in given:
        if not _dtypes.is_integer(i.dtype_name):
            raise TypeError(f"indices are integers, got {i.dtype_name}")
        name = _dtypes.promote(name, i.dtype_name) if dtype is None else name
    if not _dtypes.is_integer(name):
        raise TypeError(f"places are integers, and dtype is {name}")
    if math.prod(dims) - 1 > np.iinfo(_dtypes.numpy_of(name)).max:
        raise ValueError(f"{name} does not hold the places of an array of shape {tuple(dims)}; give a wider dtype")
    modes = (mode,) * len(dims) if isinstance(mode, str) else tuple(mode)
    if order not in ("C", "F"):
        raise ValueError(f"order is {order!r}; it is C or F")
    if len(modes) != len(dims) or set(modes) - {"raise", "clip", "wrap", "ignore"}:
        raise ValueError(f"mode is {mode!r}; it is raise, clip, wrap or ignore, or one of them for each of the {len(dims)} dims")
    place, stride = as_array(0, name), 1
    each = list(zip(given, dims, modes))
    for i, n, how in each if order == "F" else each[::-1]:
        if how == "clip":
            i = ew.clip(i, 0, n - 1)
        elif how == "wrap":
            i = ew.remainder(i, n)
        elif how == "raise":
            if i.is_traced:
                raise TypeError("whether an index is out of range is not known while tracing; give ravel_multi_index the mode clip or wrap")
            if bool(reduce_any(ew.logical_or(ew.less(i, 0), ew.greater_equal(i, n)))):
                raise ValueError(f"an index is out of range for a dim of extent {n}")
        place = ew.add(place, ew.multiply(convert(i, name), stride))
        stride *= n
    return place
