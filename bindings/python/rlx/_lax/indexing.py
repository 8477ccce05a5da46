"""The functions of jax.lax that take elements out of arrays and put them in where indices say."""

import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, is_number
from .._jit import Traced
from .._native import Error, at_user_line
from .. import tree
from ..numpy import _elementwise as ew
from ..numpy._shape import axis_of, reshape
from .types import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

_MODES = {None: "fill", "fill": "fill", "drop": "fill", "clip": "clip", "promise_in_bounds": "clip",
          GatherScatterMode.FILL_OR_DROP: "fill", GatherScatterMode.CLIP: "clip", GatherScatterMode.PROMISE_IN_BOUNDS: "clip"}


def _mode(name, mode):
    if isinstance(mode, int) and not isinstance(mode, bool):
        mode = GatherScatterMode(mode)
    if mode not in _MODES:
        raise ValueError(at_user_line(f"the mode of lax.{name} is {mode!r}; it is None, \"fill\", \"drop\", \"clip\", \"promise_in_bounds\" "
                                      "or one of these of GatherScatterMode"))
    return _MODES[mode]


def gather(operand, start_indices, dimension_numbers, slice_sizes, *, unique_indices=False, indices_are_sorted=False, mode=None,
           fill_value=None):
    """Slices of the operand that begin where start_indices say, index vectors along their last dim (GatherDimensionNumbers). A slice
    that does not lie within it is moved there; with mode "fill" it is filled, with fill_value, or NaN, the lowest signed or the highest
    unsigned integer. unique_indices and indices_are_sorted are promises that nothing here needs."""
    x, indices = as_array(operand), as_array(start_indices)
    mode = "clip" if mode is None else _mode("gather", mode)
    if fill_value is not None and mode == "clip":
        raise ValueError(at_user_line("the fill_value of lax.gather goes with mode \"fill\""))
    numbers = GatherDimensionNumbers(*dimension_numbers)
    if not _dtypes.is_integer(indices.dtype_name):
        raise TypeError(at_user_line(f"the indices of lax.gather are integers, not {_dtypes.long_name(indices.dtype_name)}"))
    settings = dict(offset_dims=tuple(numbers.offset_dims), collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
                    operand_batching_dims=tuple(numbers.operand_batching_dims),
                    start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
                    start_index_map=tuple(numbers.start_index_map), index_vector_dim=indices.ndim - 1, slice_sizes=tuple(slice_sizes))
    made = ops.gather(x, indices, out_of_range=mode, **settings)
    if fill_value is None:
        return made
    from .. import numpy as rnp
    is_there = ops.gather(rnp.ones(x.shape, "int8"), indices, out_of_range="fill", **settings) == 1
    return rnp.where(is_there, made, as_array(np.asarray(fill_value, x.dtype)) if is_number(fill_value) else convert(as_array(fill_value), x.dtype_name))


def _scattered(name, kind, operand, scatter_indices, updates, dimension_numbers, mode, body=None):
    x, indices, updates = as_array(operand), as_array(scatter_indices), as_array(updates)
    if updates.dtype_name != x.dtype_name:
        raise TypeError(at_user_line(f"lax.{name} takes updates of the operand's dtype {x.dtype_name}, got {updates.dtype_name}"))
    if not _dtypes.is_integer(indices.dtype_name):
        raise TypeError(at_user_line(f"the indices of lax.{name} are integers, not {_dtypes.long_name(indices.dtype_name)}"))
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    if _mode(name, mode) == "clip" and mode not in ("promise_in_bounds", GatherScatterMode.PROMISE_IN_BOUNDS):
        indices = _moved_inside(x, indices, updates, numbers)
    settings = dict(update_window_dims=tuple(numbers.update_window_dims), inserted_window_dims=tuple(numbers.inserted_window_dims),
                    input_batching_dims=tuple(numbers.operand_batching_dims),
                    scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
                    scatter_dims_to_operand_dims=tuple(numbers.scatter_dims_to_operand_dims), index_vector_dim=indices.ndim - 1)
    made = ops.scatter([x], indices, [updates], kind=kind, body=body, **settings)
    return made if isinstance(made, Array) else made[0]


def _moved_inside(x, indices, updates, numbers):
    """The indices, where a slice would reach out of the array those at which it ends with it."""
    from .. import numpy as rnp
    missing = set(numbers.inserted_window_dims) | set(numbers.operand_batching_dims)
    window = iter(numbers.update_window_dims)
    extents = [1 if d in missing else updates.shape[next(window)] for d in range(x.ndim)]
    last = np.asarray([x.shape[d] - extents[d] for d in numbers.scatter_dims_to_operand_dims], np.int64)
    limits = np.minimum(last, _dtypes.iinfo(indices.dtype).max).astype(indices.dtype)
    return rnp.clip(indices, np.zeros_like(limits), limits)


def _scatter(name, kind, doc):
    def f(operand, scatter_indices, updates, dimension_numbers, *, indices_are_sorted=False, unique_indices=False, mode=None):
        return _scattered(name, kind, operand, scatter_indices, updates, dimension_numbers, mode)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc + """ Index vectors stand along the last dim of the indices (ScatterDimensionNumbers). A
    slice that does not lie within the operand is dropped; with mode "clip" it is moved there. indices_are_sorted and unique_indices
    are promises that nothing here needs."""
    return f


scatter = _scatter("scatter", "update", "The operand with slices put in where the indices say; of several at a place the last one stays.")
scatter_add = _scatter("scatter_add", "add", "The operand with slices added where the indices say.")
scatter_mul = _scatter("scatter_mul", "mul", "The operand multiplied by slices where the indices say.")
scatter_min = _scatter("scatter_min", "min", "The lesser ones of the operand and of slices where the indices say.")
scatter_max = _scatter("scatter_max", "max", "The greater ones of the operand and of slices where the indices say.")


def scatter_sub(operand, scatter_indices, updates, dimension_numbers, *, indices_are_sorted=False, unique_indices=False, mode=None):
    """The operand with slices subtracted where the indices say; else as scatter_add."""
    return scatter_add(operand, scatter_indices, ew.negative(as_array(updates)), dimension_numbers, mode=mode)


def scatter_apply(operand, scatter_indices, func, dimension_numbers, *, update_shape=(), indices_are_sorted=False, unique_indices=False,
                  mode=None):
    """The operand with func(x) for each element x where the indices say, as often as they say it; update_shape is what a scatter's
    updates would have. func takes a scalar and uses nothing else that is traced."""
    from .. import numpy as rnp
    x, indices = as_array(operand), as_array(scatter_indices)
    t = (x.dtype_name, ())
    traced = Traced(lambda old, _: func(old), tree.structure((0, 0)), [t, t], printless="lax.scatter_apply")
    if traced.captured or traced.out_types != [t]:
        raise Error(at_user_line("the function of lax.scatter_apply takes a scalar, gives one of its dtype, and uses nothing else that is traced"),
                    "unsupported")
    return _scattered("scatter_apply", "custom", x, indices, rnp.zeros(tuple(update_shape), x.dtype), dimension_numbers, mode, traced.graph)


# ---- where a number says that is found while running ----
def _starts(x, start_indices, allow_negative_indices):
    if isinstance(start_indices, (Array, np.ndarray)):
        given = as_array(start_indices)
        if given.ndim != 1:
            raise TypeError(at_user_line(f"start_indices are a sequence of scalars or an array with one dim, got the shape {given.shape}"))
        start_indices = [given[i] for i in range(given.shape[0])]
    if len(start_indices) != x.ndim:
        raise ValueError(at_user_line(f"there is a start for each of the {x.ndim} dims, got {len(start_indices)}"))
    wraps = allow_negative_indices if isinstance(allow_negative_indices, (tuple, list)) else [allow_negative_indices] * x.ndim
    return [_start(i, n, wrap) for i, n, wrap in zip(start_indices, x.shape, wraps)]


def _start(i, n, wraps):
    if isinstance(i, (int, np.integer)) and not isinstance(i, bool):
        return as_array(int(i) + n if wraps and i < 0 and isinstance(n, int) else int(i), "i32")
    i = as_array(i)
    if not _dtypes.is_integer(i.dtype_name):
        raise TypeError(at_user_line(f"a start index is an integer, not {_dtypes.long_name(i.dtype_name)}"))
    if i.ndim:
        raise TypeError(at_user_line(f"a start index is one integer, got the shape {i.shape}"))
    i = convert(i, "i32")
    if not wraps or not isinstance(n, int):
        return i
    return ops.select(ew.less(i, 0), ew.add(i, n), i)


def dynamic_slice(operand, start_indices, slice_sizes, *, allow_negative_indices=True):
    """The block of these extents that begins at start_indices, one for each dim, moved to lie within the array where it would
    reach out of it. Negative starts count from the end, unless allow_negative_indices (for all, or for each dim) says no."""
    x = as_array(operand)
    return ops.dynamic_slice(x, *_starts(x, start_indices, allow_negative_indices), sizes=tuple(slice_sizes))


def dynamic_update_slice(operand, update, start_indices, *, allow_negative_indices=True):
    """operand with `update` at start_indices, moved to lie within the array where it would reach out of it. Negative starts as in
    dynamic_slice."""
    x = as_array(operand)
    update = as_array(update, x.dtype_name) if is_number(update) else as_array(update)
    return ops.dynamic_update_slice(x, update, *_starts(x, start_indices, allow_negative_indices))


def dynamic_slice_in_dim(operand, start_index, slice_size, axis=0, *, allow_negative_indices=True):
    """As dynamic_slice, along one axis."""
    x = as_array(operand)
    axis = axis_of(axis, x.ndim)
    sizes = [slice_size if d == axis else n for d, n in enumerate(x.shape)]
    return dynamic_slice(x, [start_index if d == axis else 0 for d in range(x.ndim)], sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(operand, index, axis=0, keepdims=True, *, allow_negative_indices=True):
    """What stands at one place along an axis."""
    x = as_array(operand)
    axis = axis_of(axis, x.ndim)
    made = dynamic_slice_in_dim(x, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return made if keepdims else reshape(made, x.shape[:axis] + x.shape[axis + 1:])


def dynamic_update_slice_in_dim(operand, update, start_index, axis, *, allow_negative_indices=True):
    """As dynamic_update_slice, along one axis."""
    x = as_array(operand)
    axis = axis_of(axis, x.ndim)
    return dynamic_update_slice(x, update, [start_index if d == axis else 0 for d in range(x.ndim)], allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(operand, update, index, axis, *, allow_negative_indices=True):
    """The operand with `update`, with the axis or without it, at one place along it."""
    x = as_array(operand)
    axis = axis_of(axis, x.ndim)
    update = as_array(update, x.dtype_name) if is_number(update) else as_array(update)
    if update.ndim != x.ndim:
        update = reshape(update, update.shape[:axis] + (1,) + update.shape[axis:])
    return dynamic_update_slice_in_dim(x, update, index, axis, allow_negative_indices=allow_negative_indices)


def index_take(src, idxs, axes):
    """What stands where the indices, one array for each of the axes, say: the axes stand first, as one dim of the indices."""
    from .. import numpy as rnp
    x = as_array(src)
    axes = [axis_of(operator.index(a), x.ndim) for a in axes]
    indices = tuple(as_array(i) for i in idxs)
    if len(axes) != len(indices):
        raise ValueError(at_user_line(f"index_take takes an array of indices for each axis, got {len(indices)} for {len(axes)}"))
    return rnp.moveaxis(x, axes, tuple(range(len(axes))))[tuple(ew.broadcast_to(i, ew.broadcast_shapes(*[j.shape for j in indices])) for i in indices)]
