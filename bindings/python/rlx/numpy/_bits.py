"""Bits in bytes."""

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from . import _elementwise as ew
from ._reductions import sum
from ._shape import axis_of, ravel, reshape, slice_axis, swapaxes


def _weights(bitorder):
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder is {bitorder!r}; it is big or little")
    bits = np.uint8(1) << np.arange(8, dtype=np.uint8)
    return as_array(bits[::-1].copy() if bitorder == "big" else bits)


def _along_last(x, axis):
    x, axis = (ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    return swapaxes(x, axis, -1), axis


def _to_extent(x, n):
    """The last dim cut, or continued by 0."""
    if n <= x.shape[-1]:
        return slice_axis(x, x.ndim - 1, 0, n)
    return ops.pad(x, as_array(0, x.dtype_name), low=[0] * x.ndim, high=[0] * (x.ndim - 1) + [n - x.shape[-1]])


def packbits(a, axis=None, bitorder="big"):
    """Eight elements along an axis (of the flattened ones for None) as the bits of one uint8: set where an element is not 0. What is
    missing at the end is 0."""
    x, weights = as_array(a), _weights(bitorder)
    if not _dtypes.is_integer(x.dtype_name) and x.dtype_name != "bool":
        raise TypeError(f"packbits takes integers and bools, got {x.dtype_name}")
    x, axis = _along_last(x, axis)
    count = -(-x.shape[-1] // 8)
    bits = _to_extent(convert(ew.truth(x), "u8"), 8 * count)
    bits = reshape(bits, bits.shape[:-1] + (count, 8))
    return swapaxes(convert(sum(ew.multiply(bits, weights), -1), "u8"), axis, -1)


def unpackbits(a, axis=None, count=None, bitorder="big"):
    """The bits of each uint8 along an axis (of the flattened ones for None), as elements of 0 and 1; `count` of them: the rest falls away,
    or is 0. A negative count leaves so many out at the end."""
    x, weights = as_array(a), _weights(bitorder)
    if x.dtype_name != "u8":
        raise TypeError(f"unpackbits takes uint8, got {x.dtype}")
    x, axis = _along_last(x, axis)
    bits = convert(ew.not_equal(ew.bitwise_and(reshape(x, x.shape + (1,)), weights), 0), "u8")
    n = 8 * x.shape[-1]
    bits = reshape(bits, x.shape[:-1] + (n,))
    if count is not None:
        if count < -n:
            raise ValueError(f"count is {count}, and there are {n} bits")
        bits = _to_extent(bits, count if count >= 0 else n + count)
    return swapaxes(bits, axis, -1)
