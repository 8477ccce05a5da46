"""Functions that move elements and compute none."""

import math
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert
from .._native import Error, at_user_line
from ._elementwise import broadcast_to, no_out, promoted


def axis_of(axis, rank):
    """`axis` counted from the front."""
    if isinstance(axis, (bool, np.bool_)):
        raise TypeError(f"an axis is an integer, not {axis}")
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise Error(at_user_line(f"axis {axis} is out of range for an array of rank {rank}"), "axis_out_of_range")
    return axis % rank


def axes_of(axis, rank):
    """One axis or several, counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis_of(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"an axis is named twice in {axis}")
    return axes


def check_order(order, orders="CFA"):
    """Whether columns come first. Arrays lie in row-major order, so that "A" and "K", the order that they are in, are "C"."""
    if order not in tuple(orders):
        raise ValueError(f"order is {order!r}; it is {', '.join(orders)}")
    return order == "F"


def reshape(a, shape, *rest, order="C", copy=None):
    """The same elements under another shape, in row-major order, or for the order "F" with the first index running fastest; one
    extent may be -1. Arrays do not change, so that `copy` makes no difference."""
    x = as_array(a)
    if len(rest) == 1 and rest[0] in ("C", "F", "A") and not isinstance(shape, (int, str, np.integer)):  # as NumPy, the third one
        order, rest = rest[0], ()
    if check_order(order):
        dims = (shape,) if isinstance(shape, (int, str, np.integer)) else tuple(shape)
        return transpose(reshape(transpose(x), (dims + rest)[::-1]))
    if isinstance(shape, Array) and shape.ndim == 0:
        shape = operator.index(shape)  # says why it cannot be one, where it is traced
    if rest and not isinstance(shape, (int, str, np.integer)):
        raise TypeError(f"reshape takes a shape, or its extents one by one, not {shape!r} and {rest!r}")
    shape = (shape,) if isinstance(shape, (int, str, np.integer)) else tuple(shape)
    shape = [d if isinstance(d, str) else operator.index(d) for d in shape + tuple(rest)]
    if -1 in shape:
        at = shape.index(-1)
        others = math.prod(d for d in shape if d != -1)
        if shape.count(-1) > 1 or (others and x.size % others) or not others:
            raise ValueError(f"an array of shape {x.shape} cannot become {tuple(shape)}")
        shape[at] = x.size // others
    return x if tuple(shape) == x.shape else ops.reshape(x, dims=shape)


def ravel(a, order="C"):
    """The elements in one dim, in row-major order; for the order "F" with the first index running fastest."""
    x = transpose(a) if check_order(order, "CFAK") else as_array(a)
    return reshape(x, -1) if x.size else reshape(x, (0,))


def transpose(a, axes=None):
    """The dims in another order, reversed where none is given."""
    x = as_array(a)
    order = tuple(range(x.ndim))[::-1] if axes is None else axes_of(axes, x.ndim)
    return x if order == tuple(range(x.ndim)) else ops.transpose(x, permutation=order)


permute_dims = transpose


def moveaxis(a, source, destination):
    """Axes moved to other places; the rest keep their order."""
    if source is None or destination is None:
        raise TypeError("moveaxis takes an axis or several, not None")
    x = as_array(a)
    source, destination = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError("source and destination must name equally many axes")
    order = [a for a in range(x.ndim) if a not in source]
    for to, come in sorted(zip(destination, source)):
        order.insert(to, come)
    return transpose(x, order)


def swapaxes(a, axis1, axis2):
    """Two axes exchanged."""
    x = as_array(a)
    order = list(range(x.ndim))
    first, second = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[first], order[second] = order[second], order[first]
    return transpose(x, order)


def expand_dims(a, axis):
    """New dims of extent 1 at these places of the result."""
    x = as_array(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = axes_of(tuple(axes), x.ndim + len(axes))
    rest = iter(x.shape)
    return reshape(x, [1 if d in axes else next(rest) for d in range(x.ndim + len(axes))])


def squeeze(a, axis=None):
    """Without dims of extent 1."""
    x = as_array(a)
    axes = tuple(d for d in range(x.ndim) if x.shape[d] == 1) if axis is None else axes_of(axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"axis {a} has extent {x.shape[a]} and cannot be squeezed")
    return reshape(x, [d for i, d in enumerate(x.shape) if i not in axes])


def concatenate(arrays, axis=0, dtype=None):
    """The arrays one after another along `axis`; None flattens them first."""
    arrays = promoted(*arrays)
    if axis is not None and any(x.ndim == 0 for x in arrays):
        raise ValueError("arrays of rank 0 have no axis to be concatenated along; stack them")
    if dtype is not None:
        arrays = [convert(x, _dtypes.name_of(dtype)) for x in arrays]
    if axis is None:
        arrays, axis = [ravel(x) for x in arrays], 0
    axis = axis_of(axis, arrays[0].ndim)
    return arrays[0] if len(arrays) == 1 else ops.concatenate(*arrays, axis=axis)


concat = concatenate


def stack(arrays, axis=0, out=None, dtype=None):
    """The arrays along a new axis."""
    no_out(out)
    arrays = promoted(*arrays)
    rank = arrays[0].ndim + 1
    return concatenate([expand_dims(x, axis_of(axis, rank)) for x in arrays], axis_of(axis, rank), dtype)


def _check_sections(sections):
    if isinstance(sections, (bool, np.bool_)) or sections < 1:
        raise ValueError(f"an array splits into 1 part or more, not into {sections}")


def split(ary, indices_or_sections, axis=0):
    """Parts along an axis: so many equal ones, or cut before these indices."""
    x = as_array(ary)
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        _check_sections(indices_or_sections)
        if n % indices_or_sections:
            raise ValueError(f"{n} elements do not split into {indices_or_sections} equal parts; see array_split")
        cuts = list(range(0, n + 1, n // indices_or_sections)) if n else [0] * (indices_or_sections + 1)
    else:
        cuts = [0] + [min(max(int(c) + (n if c < 0 else 0), 0), n) for c in indices_or_sections] + [n]
    return [slice_axis(x, axis, a, max(a, b)) for a, b in zip(cuts, cuts[1:])]


def array_split(ary, indices_or_sections, axis=0):
    """Like split; parts may differ by one."""
    x = as_array(ary)
    n = x.shape[axis_of(axis, x.ndim)]
    if isinstance(indices_or_sections, (int, np.integer)):
        _check_sections(indices_or_sections)
        each, extra = divmod(n, indices_or_sections)
        sizes = [each + 1] * extra + [each] * (indices_or_sections - extra)
        indices_or_sections = list(np.cumsum(sizes)[:-1])
    return split(x, indices_or_sections, axis)


def slice_axis(x, axis, start, stop, step=1):
    """start, start + step, ... before stop, along one axis; step is positive."""
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, stop, step
    return ops.slice(x, starts=starts, limits=limits, strides=strides)


def flip(m, axis=None):
    """The elements in opposite order along these axes, all for None."""
    x = as_array(m)
    return ops.reverse(x, axes=axes_of(axis, x.ndim))


def roll(a, shift, axis=None):
    """Elements moved around cyclically."""
    x = as_array(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)  # one that is named twice is moved twice
    shifts = (shift,) * len(axes) if isinstance(shift, (int, np.integer)) else tuple(shift)
    if len(axes) == 1:
        axes = axes * len(shifts)
    if len(axes) != len(shifts) or not axes:
        raise ValueError(f"roll takes one shift for each axis, got {len(shifts)} for {len(axes)}")
    for d, s in zip(axes, shifts):
        d, s = axis_of(d, x.ndim), int(s)
        n = x.shape[d]
        if n and s % n:
            s %= n
            x = concatenate([slice_axis(x, d, n - s, n), slice_axis(x, d, 0, n - s)], d)
    return x


def tile(A, reps):
    """The array repeated as a whole."""
    x = as_array(A)
    reps = (reps,) if isinstance(reps, (int, np.integer)) else tuple(reps)
    rank = max(x.ndim, len(reps))
    x = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    reps = (1,) * (rank - len(reps)) + reps
    pairs = [d for n, r in zip(x.shape, reps) for d in (r, n)]
    wide = broadcast_to(reshape(x, [d for n in x.shape for d in (1, n)]), pairs)
    return reshape(wide, [n * r for n, r in zip(x.shape, reps)])


def _repeated_so_many(x, repeats, axis, total):
    """`total` elements along the axis: what is missing at the end is the last element's, what is too many falls away."""
    n = x.shape[axis]
    counts = broadcast_to(convert(as_array(repeats), "i32"), (n,))
    if n == 0 or total == 0:
        return slice_axis(x, axis, 0, 0)
    starts = ops.sub(ops.cumsum(counts, axis=0), counts)
    begun = ops.cumsum(broadcast_to(as_array(np.int32(0)), (total,)).at[starts].add(1), axis=0)
    return ops.take(x, begun - 1, axis=axis)


def repeat(a, repeats, axis=None, *, total_repeat_length=None):
    """Each element repeated; with a list, each its own number of times. Of numbers that are traced, `total_repeat_length` says how
    many elements there are in the end: what is missing is the last element's, what is too many falls away."""
    x = as_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    if total_repeat_length is not None:
        return _repeated_so_many(x, repeats, axis, operator.index(total_repeat_length))
    if getattr(repeats, "is_traced", False):
        raise TypeError("how many elements traced repeats make is not known while tracing; give repeat a total_repeat_length")
    if isinstance(repeats, (int, np.integer)):
        wide = broadcast_to(expand_dims(x, axis + 1), x.shape[: axis + 1] + (int(repeats),) + x.shape[axis + 1:])
        return reshape(wide, x.shape[:axis] + (x.shape[axis] * int(repeats),) + x.shape[axis + 1:])
    counts = np.broadcast_to(np.asarray(repeats), (x.shape[axis],))
    index = as_array(np.repeat(np.arange(x.shape[axis], dtype=np.int32), counts))
    return ops.take(x, index, axis=axis)


def _pad_width(pad_width, rank):
    width = np.asarray(pad_width)
    if width.dtype.kind not in "iu":
        raise TypeError(f"pad_width is integers, not {pad_width!r}")
    if (width < 0).any():
        raise ValueError(f"pad_width is {pad_width!r}; elements are added, so that none of it is negative (slice to take some away)")
    if width.ndim > 1 and not rank:
        raise ValueError(f"pad_width is {pad_width!r} for an array of rank 0, which has no dims")
    width = np.broadcast_to(width, (rank, 2)) if rank else np.zeros((0, 2), int)
    return [(int(a), int(b)) for a, b in width]


def pad(array, pad_width, mode="constant", constant_values=0):
    """Elements added around the array. Modes: constant, edge, reflect, symmetric, wrap. constant_values is one number, or (before,
    after), or one such pair for each axis."""
    x = as_array(array)
    width = _pad_width(pad_width, x.ndim)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ValueError(f"mode is {mode!r}; it is constant, edge, reflect, symmetric or wrap")
    if mode == "constant":
        value = convert(as_array(constant_values), x.dtype_name)
        if not value.ndim:
            return ops.pad(x, value, low=[a for a, _ in width], high=[b for _, b in width])
        values = broadcast_to(value, (x.ndim, 2))  # (before, after) for each axis
        for axis, pair in enumerate(width):
            for side, n in enumerate(pair):
                only = [n if d == axis else 0 for d in range(x.ndim)]
                none = [0] * x.ndim
                one = reshape(slice_axis(slice_axis(values, 0, axis, axis + 1), 1, side, side + 1), ())
                x = ops.pad(x, one, low=none if side else only, high=only if side else none)
        return x
    for axis, (before, after) in enumerate(width):
        n = x.shape[axis]
        if not before and not after:
            continue
        places = np.pad(np.arange(n, dtype=np.int32), (before, after), mode=mode)
        x = ops.take(x, as_array(places), axis=axis)
    return x
