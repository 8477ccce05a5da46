"""Arrays out of slices, as NumPy's index tricks: mgrid, ogrid, r_ and c_."""

import operator

import numpy as np

from .._array import Array, as_array
from ._creation import arange, linspace
from ._shape import concatenate, moveaxis, reshape


def _in_defaults(x):
    """NumPy's array in the package's default dtypes."""
    return Array(np.asarray(x, np.float32 if x.dtype.kind == "f" else np.complex64 if x.dtype.kind == "c" else np.int32))


class _Grid:
    """grid[0:3, 0:1:5j]: the coordinates of a grid, of which each slice is an axis; with an imaginary step so many numbers, the last
    one included."""

    def __init__(self, name, sparse):
        self._name, self._sparse = name, sparse

    def __getitem__(self, key):
        if self._sparse and isinstance(key, tuple):
            return tuple(_in_defaults(x) for x in np.ogrid[key])
        return _in_defaults((np.ogrid if self._sparse else np.mgrid)[key])

    def __repr__(self):
        return f"rlx.numpy.{self._name}"


def _directive(text):
    """Axis, least rank and where the dims of an array of lower rank stand, of "0,2,1"."""
    try:
        numbers = [operator.index(int(n)) for n in text.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{text!r} is up to three integers: an axis, the least rank, and the place of the dims")
    return numbers


class _Joined:
    """joined[0:3, x, 5]: slices as ranges, arrays and numbers, one after another along an axis."""

    def __init__(self, name, axis, rank, place):
        self._name, self._usual = name, (axis, rank, place)

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        axis, rank, place = self._usual
        if isinstance(key[0], str):
            given = _directive(key[0])
            key = key[1:]
            axis, rank, place = [*given, *self._usual[len(given):]]
        parts = []
        for each in key:
            if isinstance(each, slice):
                start, step = 0 if each.start is None else each.start, 1 if each.step is None else each.step
                each = linspace(start, each.stop, int(abs(step))) if isinstance(step, complex) else arange(start, each.stop, step)
            x = as_array(each)
            missing = max(rank, 1) - x.ndim
            if x.ndim == 0:
                x = reshape(x, (1,) * max(rank, 1))
            elif missing > 0:  # new dims of 1, with those of x from `place` on
                old = x.ndim
                at = place if place >= 0 else missing + place + 1
                x = reshape(x, (1,) * missing + x.shape)
                x = moveaxis(x, _from(missing, old), _from(at, old))
            parts.append(x)
        return concatenate(parts, axis)

    def __repr__(self):
        return f"rlx.numpy.{self._name}"


def _from(first, count):
    return tuple(range(first, first + count))


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)
r_, c_ = _Joined("r_", 0, 1, -1), _Joined("c_", -1, 2, 0)
