"""The functions of jax.lax that make and rearrange arrays."""

import builtins
import math
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, is_number
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy import concatenate as _concatenate
from ..numpy._creation import shape_tuple
from ..numpy._shape import axis_of, reshape as _reshape
from .elementwise import operands_of


def dims_of(name, dims, rank):
    """Dims of the array, each once."""
    dims = [axis_of(d, rank) for d in ((dims,) if isinstance(dims, int) else dims)]
    if len(set(dims)) != len(dims):
        raise ValueError(at_user_line(f"lax.{name} was given a dim twice: {tuple(dims)}"))
    return tuple(dims)


def iota(dtype, size):
    """0, 1, ... as many as `size`."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype, shape, dimension):
    """An array of this shape in which each element is its place along a dim."""
    shape = shape_tuple(shape)
    name = "i32" if dtype is int else _dtypes.name_of(dtype)
    return ops.iota(type=f"{name}[{', '.join(map(str, shape))}]", axis=axis_of(dimension, len(shape)))


def full(shape, fill_value, dtype=None):
    """An array of this shape, all elements of which are fill_value."""
    value = as_array(fill_value)
    return ew.broadcast_to(value if dtype is None else convert(value, _dtypes.name_of(dtype)), shape_tuple(shape))


def full_like(x, fill_value, dtype=None, shape=None):
    """As full, with x's shape and dtype where none is given."""
    if is_number(x):
        x = as_array(x)
    return full(x.shape if shape is None else shape, fill_value, x.dtype if dtype is None else dtype)


def empty(shape, dtype):
    """An array of this shape; its elements are 0."""
    return full(shape, 0, dtype)


def broadcast_shapes(*shapes):
    """The shape to which arrays of these shapes broadcast, right-aligned."""
    return ew.broadcast_shapes(*shapes)


def broadcast(operand, sizes):
    """The array repeated along new dims of these extents before its own."""
    x = as_array(operand)
    return ew.broadcast_to(x, shape_tuple(sizes) + x.shape)


def broadcast_in_dim(operand, shape, broadcast_dimensions):
    """The array repeated to `shape`, in which its dims are the broadcast_dimensions, in growing order; extents of 1 stretch."""
    return ops.broadcast_in_dim(as_array(operand), dims=shape_tuple(shape), axes=tuple(broadcast_dimensions))


def broadcast_to_rank(x, rank):
    """The array with new dims of extent 1 before its own, until it has this rank."""
    x = as_array(x)
    if rank < x.ndim:
        raise ValueError(at_user_line(f"an array of rank {x.ndim} does not broadcast to rank {rank}"))
    return _reshape(x, (1,) * (rank - x.ndim) + x.shape)


def broadcast_like(arr, like_arr):
    """The array repeated to the other one's shape."""
    return ew.broadcast_to(arr, as_array(like_arr).shape)


def reshape(operand, new_sizes, dimensions=None):
    """The elements in another shape; with `dimensions` those of the transpose by them."""
    x = as_array(operand)
    if dimensions is not None:
        x = transpose(x, dimensions)
    sizes = shape_tuple(new_sizes)
    if any(isinstance(n, int) and n < 0 for n in sizes):
        raise ValueError(at_user_line(f"the sizes of lax.reshape are given, got {sizes}; rlx.numpy.reshape finds one out"))
    return _reshape(x, sizes)


def transpose(operand, permutation):
    """The dims in this order."""
    x = as_array(operand)
    permutation = tuple(operator.index(d) for d in permutation)
    if sorted(permutation) != list(range(x.ndim)):
        raise ValueError(at_user_line(f"transpose takes a permutation of the {x.ndim} dims, got {permutation}"))
    return ops.transpose(x, permutation=permutation) if permutation != tuple(range(x.ndim)) else x


def rev(operand, dimensions):
    """The elements in opposite order along these dims."""
    x = as_array(operand)
    return ops.reverse(x, axes=dims_of("rev", dimensions, x.ndim))


def squeeze(array, dimensions):
    """The array without these dims, whose extents are 1."""
    x = as_array(array)
    dims = dims_of("squeeze", dimensions, x.ndim)
    if any(x.shape[d] != 1 for d in dims):
        raise ValueError(at_user_line(f"squeeze takes dims of extent 1, got {dims} of {x.shape}"))
    return _reshape(x, tuple(n for d, n in enumerate(x.shape) if d not in dims))


def expand_dims(array, dimensions):
    """New dims of extent 1 at these places of the result."""
    from ..numpy import expand_dims as expanded
    return expanded(array, tuple(dimensions))


def collapse(operand, start_dimension, stop_dimension=None):
    """The dims from start_dimension up to, and not including, stop_dimension as one."""
    x = as_array(operand)
    ends = range(x.ndim)[builtins.slice(start_dimension, stop_dimension)]
    start, stop = ends.start, ends.stop
    if stop <= start:
        raise ValueError(at_user_line(f"collapse of no dims: {start_dimension} to {stop_dimension} of rank {x.ndim}"))
    return _reshape(x, x.shape[:start] + (math.prod(x.shape[start:stop]),) + x.shape[stop:])


def concatenate(operands, dimension):
    """Arrays of one dtype behind one another along a dim."""
    operands = [as_array(x) for x in operands]
    if not operands:
        raise ValueError(at_user_line("concatenate takes at least one array"))
    if len({x.dtype_name for x in operands}) > 1:
        raise TypeError(at_user_line(f"lax.concatenate takes arrays of one dtype, got {', '.join(x.dtype_name for x in operands)}; "
                                     "rlx.numpy.concatenate promotes"))
    return _concatenate(operands, axis=dimension)


def split(operand, sizes, axis=0):
    """Parts of these extents along an axis, as a list."""
    x = as_array(operand)
    axis = axis_of(axis, x.ndim)
    if sum(sizes) != x.shape[axis]:
        raise Error(at_user_line(f"split into {tuple(sizes)} of an extent of {x.shape[axis]}"), "shape_mismatch")
    made = ops.split(x, sizes=tuple(sizes), axis=axis)
    return [made] if isinstance(made, Array) else list(made)


def stack(operands, axis=0):
    """Arrays of one shape and dtype along a new dim."""
    operands = operands_of("stack", *operands)
    return ops.stack(*operands, axis=axis_of(axis, operands[0].ndim + 1))


def unstack(x, axis=0):
    """The slices along an axis, without it, as a tuple."""
    x = as_array(x)
    axis = axis_of(axis, x.ndim)
    return tuple(index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis]))


def tile(operand, reps):
    """The array repeated so often along each dim."""
    x, reps = as_array(operand), tuple(operator.index(n) for n in reps)
    if len(reps) != x.ndim:
        raise ValueError(at_user_line(f"lax.tile takes a number for each of the {x.ndim} dims, got {reps}"))
    return ops.tile(x, reps=reps)


def pad(operand, padding_value, padding_config):
    """padding_value before, behind and between the elements: (low, high, interior) for each dim, of which low and high may be
    negative."""
    x, value = as_array(operand), padding_value
    value = as_array(value, x.dtype_name) if is_number(value) else as_array(value)
    if value.dtype_name != x.dtype_name:
        raise TypeError(at_user_line(f"lax.pad takes a value of the array's dtype {x.dtype_name}, got {value.dtype_name}"))
    if len(padding_config) != x.ndim or any(len(each) != 3 or each[2] < 0 for each in padding_config):
        raise ValueError(at_user_line(f"lax.pad takes (low, high, interior) for each of the {x.ndim} dims, interior not negative, got "
                                      f"{padding_config}"))
    low, high, interior = zip(*padding_config) if x.ndim else ((), (), ())
    return ops.pad(x, value, low=low, high=high, interior=interior)


def slice(operand, start_indices, limit_indices, strides=None):
    """The elements from start_indices up to, and not including, limit_indices, every strides-th of them."""
    x = as_array(operand)
    starts, limits = tuple(start_indices), tuple(limit_indices)
    strides = (1,) * x.ndim if strides is None else tuple(strides)
    if not len(starts) == len(limits) == len(strides) == x.ndim:
        raise ValueError(at_user_line(f"lax.slice takes a start, a limit and a stride for each of the {x.ndim} dims, got {starts}, {limits}, "
                                      f"{strides}"))
    return ops.slice(x, starts=starts, limits=limits, strides=strides)


def slice_in_dim(operand, start_index, limit_index, stride=1, axis=0):
    """As slice, along one axis; negative indices count from the end, None is the one or the other end."""
    x = as_array(operand)
    axis, stride = axis_of(axis, x.ndim), operator.index(stride)
    if stride < 1:
        raise ValueError(at_user_line(f"the stride of slice_in_dim is positive, got {stride}"))
    n = x.shape[axis]
    start = 0 if start_index is None else operator.index(start_index)
    limit = n if limit_index is None else operator.index(limit_index)
    start, limit = (i + n if i < 0 else i for i in (start, limit))
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return slice(x, starts, limits, strides)


def index_in_dim(operand, index, axis=0, keepdims=True):
    """What stands at one place along an axis."""
    x, index = as_array(operand), operator.index(index)
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    if not -n <= index < n:
        raise IndexError(at_user_line(f"index {index} is out of bounds for axis {axis} with extent {n}"))
    made = slice_in_dim(x, index % n, index % n + 1, 1, axis)
    return made if keepdims else squeeze(made, (axis,))


def shape_as_value(shape):
    """The extents as an array."""
    return as_array(np.asarray(shape, np.int32))
