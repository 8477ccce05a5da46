"""Reductions, and what is made of them."""

import builtins
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, at_once_with, convert
from ._elementwise import add, broadcast_to, constant_like, divide, inexact, multiply, sqrt, truth
from ._shape import axes_of, axis_of, ravel, reshape


def check_keepdims(keepdims):
    if not isinstance(keepdims, (bool, np.bool_)) and operator.index(keepdims) not in (0, 1):
        raise TypeError(f"keepdims is True or False, not {keepdims!r}")


def _reduced(x, kind, axis, keepdims):
    check_keepdims(keepdims)
    axes = axes_of(axis, x.ndim)
    made = ops.reduce(x, kind=kind, axes=axes) if axes else x
    return reshape(made, [1 if d in axes else n for d, n in enumerate(x.shape)]) if keepdims else made


def _summed_dtype(x, dtype):
    if dtype is not None:
        return convert(x, _dtypes.name_of(dtype))
    return convert(x, _SUMMED.get(x.dtype_name, x.dtype_name))


# Integers narrower than the default ones are summed as those: a few bytes overflow soon.
_SUMMED = {"bool": "i32", "i8": "i32", "i16": "i32", "u8": "u32", "u16": "u32"}


@at_once_with
def sum(x, axis=None, dtype=None, keepdims=False):
    """The sum over these axes, all for None. Bools and integers of 8 and 16 bits are summed as int32 or uint32."""
    return _reduced(_summed_dtype(as_array(x), dtype), "sum", axis, keepdims)


@at_once_with
def prod(x, axis=None, dtype=None, keepdims=False):
    """The product over these axes; of bools and integers of 8 and 16 bits as int32 or uint32."""
    return _reduced(_summed_dtype(as_array(x), dtype), "prod", axis, keepdims)


def _complex_extreme(x, kind, axis, keepdims):
    """By the real part, among equals by the imaginary one, as NumPy orders complex numbers; NaN if there is one."""
    check_keepdims(keepdims)
    re, im = ops.real(x), ops.imag(x)
    first = _reduced(re, kind, axis, True)
    worst = constant_like(im, -np.inf if kind == "max" else np.inf)
    tied = ops.compare(re, broadcast_to(first, re.shape), direction="eq")
    second = _reduced(ops.select(tied, im, worst), kind, axis, True)
    spoiled = _reduced(ops.compare(x, x, direction="ne"), "any", axis, True)
    nan = constant_like(first, np.nan)
    made = ops.complex(ops.select(spoiled, nan, first), ops.select(spoiled, nan, second))
    return made if keepdims else reshape(made, [n for d, n in enumerate(x.shape) if d not in axes_of(axis, x.ndim)])


def _extreme(name, kind):
    def f(x, axis=None, keepdims=False):
        x = as_array(x)
        for a in axes_of(axis, x.ndim):
            if x.shape[a] == 0:
                raise ValueError(f"{name} over an axis without elements has no value")
        if _dtypes.is_complex(x.dtype_name):
            return _complex_extreme(x, kind, axis, keepdims)
        if x.dtype_name == "bool":
            return _reduced(x, "any" if kind == "max" else "all", axis, keepdims)
        return _reduced(x, kind, axis, keepdims)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"The {'greatest' if kind == 'max' else 'least'} element over these axes; NaN if there is one."
    return f


max = amax = at_once_with(_extreme("max", "max"))
min = amin = at_once_with(_extreme("min", "min"))


@at_once_with
def any(x, axis=None, keepdims=False):
    """One element is true."""
    return _reduced(truth(x), "any", axis, keepdims)


@at_once_with
def all(x, axis=None, keepdims=False):
    """Every element is true."""
    return _reduced(truth(x), "all", axis, keepdims)


def _count(x, axes):
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def _is_open(x, axes):
    """Whether how many elements lie along these axes is known when the graph runs, not when it is traced."""
    return str in [type(x.shape[a]) for a in axes]


@at_once_with
def mean(x, axis=None, dtype=None, keepdims=False):
    """The mean over these axes, in floats, or as `dtype`."""
    if dtype is not None and not _dtypes.is_inexact(_dtypes.name_of(dtype)):
        return convert(mean(x, axis, None, keepdims), _dtypes.name_of(dtype))
    x = inexact(x) if dtype is None else convert(as_array(x), _dtypes.name_of(dtype))
    axes = axes_of(axis, x.ndim)
    if _is_open(x, axes):
        return ops.mean(x, axes=axes, keep_dims=keepdims)
    n = _count(x, axes)
    total = _reduced(x, "sum", axis, keepdims)
    return divide(total, constant_like(total, n))


@at_once_with
def var(x, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The variance over these axes: squares of distances from the mean, divided by the count less `ddof`; in floats, or computed as the
    float `dtype`. `out` is None, as arrays do not change."""
    if out is not None:
        raise TypeError("arrays do not change, so that out= has nothing to write to")
    x = inexact(x)
    if dtype is not None:
        dtype = _dtypes.name_of(dtype)
        if not _dtypes.is_float(dtype) or _dtypes.is_complex(x.dtype_name):
            raise TypeError(f"the variance of {x.dtype_name} is not computed as {dtype}")
        x = convert(x, dtype)
    axes = axes_of(axis, x.ndim)
    if _dtypes.is_complex(x.dtype_name):
        return add(var(ops.real(x), axis, ddof=ddof, keepdims=keepdims), var(ops.imag(x), axis, ddof=ddof, keepdims=keepdims))
    dtype = x.dtype_name
    if dtype in ("f16", "bf16"):  # as mean does, in f32: their squares overflow and lose digits
        x = convert(x, "f32")
    if ddof == int(ddof):
        y = ops.variance(x, axes=axes, keep_dims=keepdims, correction=int(ddof))
    elif _is_open(x, axes):
        raise ValueError(f"ddof is {ddof}; over an axis whose extent is open it must be a whole number")
    else:
        y, n = ops.variance(x, axes=axes, keep_dims=keepdims), _count(x, axes)
        with np.errstate(all="ignore"):
            y = multiply(y, constant_like(y, np.float64(n) / builtins.max(n - ddof, 0)))
    return convert(y, dtype)


@at_once_with
def std(x, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The root of the variance."""
    return sqrt(var(x, axis, dtype, out, ddof, keepdims))


def _arg(name, op):
    def f(x, axis=None, keepdims=False):
        x = as_array(x)
        check_keepdims(keepdims)
        if x.dtype_name == "bool":
            x = convert(x, "u8")
        if _dtypes.is_complex(x.dtype_name):  # where what max and min give stands: an index is its own order there
            best = (max if name == "argmax" else min)(x, axis, keepdims=True)
            found = ops.compare(x, broadcast_to(best, x.shape), direction="eq")
            spoiled = ops.compare(x, x, direction="ne")
            x = convert(ops.bitwise_or(found, spoiled), "u8") if name == "argmax" else \
                convert(ops.bitwise_not(ops.bitwise_or(found, spoiled)), "u8")
        if axis is None:
            at = op(ravel(x), axis=0)
            return reshape(at, (1,) * x.ndim) if keepdims else at
        axis = axis_of(axis, x.ndim)
        if x.shape[axis] == 0:
            raise ValueError(f"{name} over an axis without elements has no value")
        return op(x, axis=axis, keep_dims=keepdims)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"Where the {'greatest' if name == 'argmax' else 'least'} element stands, int32: the first of equals, the first NaN."
    return f


argmax = _arg("argmax", ops.argmax)
argmin = _arg("argmin", ops.argmin)


def _cumulative(name, op, doc):
    def f(x, axis=None, dtype=None):
        x = _summed_dtype(as_array(x), dtype)
        if axis is None:
            x, axis = ravel(x), 0
        return op(x, axis=axis_of(axis, x.ndim))
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


cumsum = _cumulative("cumsum", ops.cumsum, "The running sum along an axis; of the flattened elements for None.")
cumprod = _cumulative("cumprod", ops.cumprod, "The running product along an axis; of the flattened elements for None.")


@at_once_with
def count_nonzero(x, axis=None, keepdims=False):
    """How many elements are not 0, int32."""
    return sum(truth(x), axis, keepdims=keepdims)


def average(x, axis=None, weights=None):
    """The mean, weighted: `weights` have the shape of x, or are one for each place along the axis."""
    if weights is None:
        return mean(x, axis)
    x, w = inexact(x), inexact(weights)
    if w.shape != x.shape:
        if axis is None:
            raise TypeError(f"weights of shape {w.shape} for an array of shape {x.shape}; name the axis that they are along")
        axes = axes_of(axis, x.ndim)
        if w.shape != tuple(x.shape[a] for a in axes):
            raise ValueError(f"weights of shape {w.shape} for axis {axis} of an array of shape {x.shape}; they have the shape of the "
                             "array, or of what is along the axis")
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        w = ops.transpose(w, permutation=order)
        w = broadcast_to(reshape(w, [n if d in axes else 1 for d, n in enumerate(x.shape)]), x.shape)
    return divide(sum(multiply(x, w), axis), sum(w, axis))
