"""Reductions, and what is made of them."""

import builtins
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, at_once_with, convert, strong
from ._elementwise import (add, broadcast_to, constant_like, divide, documented, inexact, maximum, minimum, multiply, no_out, sqrt, square,
                           subtract, truth, where as choose)
from ._shape import axes_of, axis_of, ravel, reshape


OF_RUNNING = "The axis may be left out of an array of rank 1 alone. Bools and integers of 8 and 16 bits are summed as int32 or uint32."


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
        return strong(convert(x, _dtypes.name_of(dtype)))
    return convert(x, _SUMMED.get(x.dtype_name, x.dtype_name))


# Integers narrower than the default ones are summed as those: a few bytes overflow soon.
_SUMMED = {"bool": "i32", "i8": "i32", "i16": "i32", "u8": "u32", "u16": "u32"}


def only(x, where, neutral):
    """x, with the neutral element in place of what `where` leaves out; None leaves out nothing."""
    if where is None:
        return x
    return choose(broadcast_to(truth(where), x.shape), x, bool(neutral) if x.dtype_name == "bool" else neutral)


def _begun(made, initial, combine):
    """The result of a reduction that starts from `initial`."""
    if initial is None:
        return made
    initial = as_array(initial)
    if initial.ndim:
        raise ValueError(f"initial is a number, got the shape {initial.shape}")
    return combine(made, convert(initial, made.dtype_name))


def _total_of(a, kind, combine, neutral, axis, dtype, out, keepdims, initial, where, promote_integers):
    no_out(out)
    x = as_array(a)
    x = _summed_dtype(x, dtype) if promote_integers or dtype is not None or x.dtype_name == "bool" else x
    return _begun(_reduced(only(x, where, neutral), kind, axis, keepdims), initial, combine)


@at_once_with
def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True):
    """The sum over these axes, all for None, and of `initial`; where `where` is false elements are left out. Bools and integers of
    8 and 16 bits are summed as int32 or uint32, unless `promote_integers` is False."""
    return _total_of(a, "sum", add, 0, axis, dtype, out, keepdims, initial, where, promote_integers)


@at_once_with
def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True):
    """The product over these axes, times `initial`; where `where` is false elements are left out. Of bools and integers of 8 and 16
    bits as int32 or uint32, unless `promote_integers` is False."""
    return _total_of(a, "prod", multiply, 1, axis, dtype, out, keepdims, initial, where, promote_integers)


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


def lowest(x):
    """What no element of x's dtype is less than, as a scalar of it; -inf of floats."""
    return _limit(x, "min", -np.inf)


def highest(x):
    """What no element of x's dtype is greater than."""
    return _limit(x, "max", np.inf)


def _limit(x, which, infinite):
    if x.dtype_name == "bool":
        return as_array(which == "max")
    if _dtypes.is_integer(x.dtype_name):
        return as_array(x.dtype.type(getattr(np.iinfo(x.dtype), which)))
    return as_array(np.asarray(complex(infinite, infinite) if _dtypes.is_complex(x.dtype_name) else infinite, x.dtype))


def _extreme(name, kind):
    combine = maximum if kind == "max" else minimum

    def f(a, axis=None, out=None, keepdims=False, initial=None, where=None):
        no_out(out)
        x = as_array(a)
        if where is not None and initial is None:
            raise ValueError(f"{name} of what `where` leaves has no value where nothing is left; give an initial one")
        if initial is not None:
            check_keepdims(keepdims)
            x = only(x, where, lowest(x) if kind == "max" else highest(x))
            axes = axes_of(axis, x.ndim)
            if 0 in [x.shape[d] for d in axes]:
                shape = [1 if d in axes else n for d, n in enumerate(x.shape) if keepdims or d not in axes]
                return broadcast_to(convert(as_array(initial), x.dtype_name), shape)
            return _begun(f(x, axis, None, keepdims), initial, combine)
        for d in axes_of(axis, x.ndim):
            if x.shape[d] == 0:
                raise ValueError(f"{name} over an axis without elements has no value; give an initial one")
        if _dtypes.is_complex(x.dtype_name):
            return _complex_extreme(x, kind, axis, keepdims)
        if x.dtype_name == "bool":
            return _reduced(x, "any" if kind == "max" else "all", axis, keepdims)
        return _reduced(x, kind, axis, keepdims)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"The {'greatest' if kind == 'max' else 'least'} element over these axes, or `initial`; NaN if there is one."
    return f


max = amax = at_once_with(_extreme("max", "max"))
min = amin = at_once_with(_extreme("min", "min"))


@at_once_with
def any(a, axis=None, out=None, keepdims=False, *, where=None):
    """One element is true, of those where `where` is."""
    no_out(out)
    return _reduced(only(truth(a), where, False), "any", axis, keepdims)


@at_once_with
def all(a, axis=None, out=None, keepdims=False, *, where=None):
    """Every element is true, of those where `where` is."""
    no_out(out)
    return _reduced(only(truth(a), where, True), "all", axis, keepdims)


def _count(x, axes):
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def _is_open(x, axes):
    """Whether how many elements lie along these axes is known when the graph runs, not when it is traced."""
    return str in [type(x.shape[a]) for a in axes]


def _counted_where(x, where, axis, keepdims):
    """How many elements are left, in floats of x's width."""
    return sum(convert(broadcast_to(truth(where), x.shape), _dtypes.real_part(x.dtype_name)), axis, keepdims=keepdims)


@at_once_with
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=None):
    """The mean over these axes, in floats, or as `dtype`; of the elements where `where` is true."""
    no_out(out)
    if dtype is not None and not _dtypes.is_inexact(_dtypes.name_of(dtype)):
        return convert(mean(a, axis, keepdims=keepdims, where=where), _dtypes.name_of(dtype))
    x = inexact(a) if dtype is None else convert(as_array(a), _dtypes.name_of(dtype))
    axes = axes_of(axis, x.ndim)
    if where is not None:
        dtype = x.dtype_name
        x = convert(only(x, where, 0), "f32" if dtype in ("f16", "bf16") else dtype)  # a count of 2049 is no f16
        return convert(divide(_reduced(x, "sum", axis, keepdims), _counted_where(x, where, axis, keepdims)), dtype)
    if _is_open(x, axes):
        return ops.mean(x, axes=axes, keep_dims=keepdims)
    n, dtype = _count(x, axes), x.dtype_name
    if dtype in ("f16", "bf16"):  # neither their sum nor their number need be one of these
        x = convert(x, "f32")
    total = _reduced(x, "sum", axis, keepdims)
    return convert(divide(total, constant_like(total, n)), dtype)


def _var_about(x, axis, ddof, keepdims, where, about):
    """The variance of what `where` leaves, about a mean that is given or its own."""
    if about is None:
        about = mean(x, axis, keepdims=True, where=where)
    apart = only(subtract(x, about), where, 0)
    squares = add(square(ops.real(apart)), square(ops.imag(apart))) if _dtypes.is_complex(apart.dtype_name) else square(apart)
    n = _counted_where(squares, True if where is None else where, axis, keepdims)
    return divide(_reduced(squares, "sum", axis, keepdims), maximum(subtract(n, ddof), 0))


def _correction(ddof, correction):
    if correction is not None and ddof != 0:
        raise ValueError("ddof and correction are one number; give one of them")
    ddof = ddof if correction is None else correction
    if np.ndim(ddof):
        raise ValueError(f"ddof and correction are one number, got the shape {np.shape(ddof)}")
    return ddof


@at_once_with
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The variance over these axes: squares of distances from the mean, divided by the count less `ddof`, which is also called
    `correction`. Of the elements where `where` is true; about `mean` if it is given, which has the dims of `keepdims`."""
    no_out(out)
    ddof = _correction(ddof, correction)
    if dtype is not None and not _dtypes.is_inexact(_dtypes.name_of(dtype)):
        raise TypeError(f"a variance is of floats, and dtype is {_dtypes.name_of(dtype)}; convert the result")
    x = inexact(a)
    kept = dtype
    if dtype is not None:
        name = _dtypes.name_of(dtype)
        if _dtypes.is_complex(x.dtype_name) and not _dtypes.is_complex(name):  # parts of that width, as the result is real
            name = "c128" if name == "f64" else "c64"
        x = strong(convert(x, name))
        kept = _dtypes.real_part(_dtypes.name_of(dtype))
    axes = axes_of(axis, x.ndim)
    if where is not None or mean is not None:
        width = "f32" if x.dtype_name in ("f16", "bf16") else x.dtype_name
        return convert(_var_about(convert(x, width), axis, ddof, keepdims, where, mean), kept or _dtypes.real_part(x.dtype_name))
    if _dtypes.is_complex(x.dtype_name):
        parts = [var(part, axis, ddof=ddof, keepdims=keepdims) for part in (ops.real(x), ops.imag(x))]
        return convert(add(*parts), kept or parts[0].dtype_name)
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
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The root of the variance, with var's parameters."""
    return sqrt(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def _arg(name, op):
    def f(a, axis=None, out=None, keepdims=False):
        no_out(out)
        x = as_array(a)
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
    def f(a, axis=None, dtype=None, out=None):
        no_out(out)
        x = _summed_dtype(as_array(a), dtype)
        if axis is None:
            x, axis = ravel(x), 0
        return op(x, axis=axis_of(axis, x.ndim))
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


cumsum = _cumulative("cumsum", ops.cumsum, "The running sum along an axis; of the flattened elements for None.")
cumprod = _cumulative("cumprod", ops.cumprod, "The running product along an axis; of the flattened elements for None.")


@at_once_with
def count_nonzero(a, axis=None, keepdims=False):
    """How many elements are not 0, int32."""
    return sum(truth(a), axis, keepdims=keepdims)


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """The mean, weighted: `weights` have the shape of a, or are one for each place along the axis. With `returned` the sum of the
    weights too."""
    if weights is None:
        made, x = mean(a, axis, keepdims=keepdims), as_array(a)
        return (made, constant_like(made, _count(x, axes_of(axis, x.ndim)))) if returned else made
    x, w = inexact(a), inexact(weights)
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
    total = sum(w, axis, keepdims=keepdims)
    made = divide(sum(multiply(x, w), axis, keepdims=keepdims), total)
    return (made, broadcast_to(convert(total, made.dtype_name), made.shape)) if returned else made


def ptp(a, axis=None, out=None, keepdims=False):
    """From the least element to the greatest."""
    no_out(out)
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _running(f, neutral):
    def running(x, *, axis=None, dtype=None, include_initial=False):
        x = as_array(x)
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"an array of rank {x.ndim} runs along an axis that is named")
            axis = 0
        axis = axis_of(axis, x.ndim)
        made = f(x, axis, dtype)
        if not include_initial:
            return made
        from ._shape import concatenate
        shape = [1 if d == axis else n for d, n in enumerate(made.shape)]
        return concatenate([broadcast_to(as_array(neutral, made.dtype_name), shape), made], axis)
    return running


cumulative_sum = documented(_running(cumsum, 0), "cumulative_sum", "The running sum along an axis, with 0 in front where `include_initial`.",
                            OF_RUNNING)
cumulative_prod = documented(_running(cumprod, 1), "cumulative_prod", "The running product along an axis, with 1 in front where "
                             "`include_initial`.", OF_RUNNING)
