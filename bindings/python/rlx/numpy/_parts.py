"""Arrays in parts, and of parts: splits along named axes, blocks."""

from .._array import as_array
from . import _elementwise as ew
from ._shape import axis_of, concatenate, moveaxis, reshape, slice_axis, split


def _split_along(name, axis, least):
    def f(ary, indices_or_sections):
        x = as_array(ary)
        if x.ndim < least:
            raise ValueError(f"{name} takes arrays of rank {least} or more, got rank {x.ndim}")
        return split(x, indices_or_sections, 0 if x.ndim == 1 else axis)
    return f


hsplit = ew.documented(_split_along("hsplit", 1, 1), "hsplit", "Parts along the second axis, of vectors along the first, as `split`.", "ary has any "
                       "shape; its rank is 1 or more.")
vsplit = ew.documented(_split_along("vsplit", 0, 2), "vsplit", "Parts along the first axis, as `split`.", "ary has any shape; its rank is 2 or more.")
dsplit = ew.documented(_split_along("dsplit", 2, 3), "dsplit", "Parts along the third axis, as `split`.", "ary has any shape; its rank is 3 or more.")


def unstack(x, *, axis=0):
    """The slices along an axis, as a tuple."""
    x = as_array(x)
    axis = axis_of(axis, x.ndim)
    rest = x.shape[:axis] + x.shape[axis + 1:]
    return tuple(reshape(slice_axis(x, axis, i, i + 1), rest) for i in range(x.shape[axis]))


def rollaxis(a, axis, start=0):
    """An axis moved in front of the one at `start`; see moveaxis, whose destination is easier to tell."""
    x = as_array(a)
    axis = axis_of(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"start is {start}; it is from {-x.ndim} to {x.ndim} for an array of rank {x.ndim}")
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - 1 if start > axis else start)


def block(arrays):
    """An array of blocks in nested lists: the innermost ones are joined along the last axis, those around them along the one before, and
    so on."""
    def depth_of(x):
        if isinstance(x, tuple):
            raise TypeError("block takes blocks in lists, not in tuples")
        if not isinstance(x, list):
            return 0
        if not x:
            raise ValueError("a list of blocks is empty")
        depths = {depth_of(each) for each in x}
        if len(depths) > 1:
            raise ValueError("the blocks stand in lists of different depths")
        return 1 + depths.pop()

    def leaves(x):
        return [leaf for each in x for leaf in leaves(each)] if isinstance(x, list) else [as_array(x)]

    depth = depth_of(arrays)
    rank = max([depth] + [x.ndim for x in leaves(arrays)])

    def joined(x, level):
        if not isinstance(x, list):
            x = as_array(x)
            return reshape(x, (1,) * (rank - x.ndim) + x.shape)
        return concatenate([joined(each, level + 1) for each in x], rank - depth + level)
    return joined(arrays, 0)
