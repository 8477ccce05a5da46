"""What the library draws itself: bits, uniform and normal numbers, integers, coins."""

import math

from .. import _dtypes, ops
from .._array import as_array, convert, is_number
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy._creation import shape_tuple
from .keys import split_for


# ---- what the functions ask of their arguments ----
def float_name(name, dtype):
    """RLX's name of a float dtype; None is float32."""
    dtype = "f32" if dtype is None else _dtypes.name_of(dtype)
    if not _dtypes.is_float(dtype) or _dtypes.bits(_short(dtype)) < 16:
        raise ValueError(at_user_line(f"{name} draws float16, bfloat16, float32 and float64, not {_dtypes.long_name(dtype)}"))
    return dtype


def _short(dtype):
    return dtype if dtype in ("f16", "bf16", "f32", "f64") else "u8"


def integer_name(name, dtype, default="i32"):
    """RLX's name of an integer dtype."""
    dtype = default if dtype is None else _dtypes.name_of(dtype)
    if not _dtypes.is_integer(dtype):
        raise TypeError(at_user_line(f"{name} draws integers, not {_dtypes.long_name(dtype)}"))
    return dtype


def drawn_shape(name, shape, *parameters):
    """The shape of what is drawn: that of the parameters together where none is given, else one that they broadcast to."""
    together = ew.broadcast_shapes(*[p.shape for p in parameters])
    if shape is None:
        return together
    shape = shape_tuple(shape)
    try:
        fits = ew.broadcast_shapes(shape, together) == shape
    except ValueError:
        fits = False
    if not fits:
        raise Error(at_user_line(f"{name} of shape {shape} with parameters of shapes "
                                 f"{', '.join(str(p.shape) for p in parameters)}; they must broadcast to it"), "shape_mismatch")
    return shape


def as_parameter(name, x, dtype):
    """A real parameter in the dtype of what is drawn."""
    x = ew.not_complex(x, name)
    return convert(x, dtype)


# ---- draws ----
def bits(key, shape=(), dtype="u32", algorithm="philox"):
    """Random bits."""
    dtype = "u32" if dtype is None else _dtypes.name_of(dtype)
    return ops.rng_bits(key, dims=shape_tuple(shape), dtype=dtype, algorithm=algorithm)


def uniform(key, shape=(), dtype="f32", minval=0.0, maxval=1.0, algorithm="philox"):
    """Numbers in [minval, maxval), which may be arrays."""
    dtype, shape = float_name("uniform", dtype), shape_tuple(shape)
    if is_number(minval) and is_number(maxval):
        return ops.rng_uniform(key, dims=shape, dtype=dtype, low=minval, high=maxval, algorithm=algorithm)
    low, high = as_parameter("uniform", minval, dtype), as_parameter("uniform", maxval, dtype)
    drawn_shape("uniform", shape, low, high)
    unit = ops.rng_uniform(key, dims=shape, dtype=dtype, algorithm=algorithm)
    return ew.maximum(low, ew.add(ew.multiply(unit, ew.subtract(high, low)), low))


def normal(key, shape=(), dtype="f32", algorithm="philox"):
    """Numbers of the normal distribution with mean 0 and variance 1; complex ones have the variance 1 too, half of it each part's."""
    dtype = "f32" if dtype is None else _dtypes.name_of(dtype)
    if not _dtypes.is_complex(dtype):
        return ops.rng_normal(key, dims=shape_tuple(shape), dtype=float_name("normal", dtype), algorithm=algorithm)
    re, im = [ops.rng_normal(k, dims=shape_tuple(shape), dtype=_dtypes.real_part(dtype), algorithm=algorithm)
              for k in split_for(algorithm, key)]
    return ops.complex(ew.divide(re, math.sqrt(2)), ew.divide(im, math.sqrt(2)))


def truncated_normal(key, lower, upper, shape=None, dtype="f32", algorithm="philox"):
    """Numbers of the normal distribution between two bounds, which may be arrays."""
    dtype = float_name("truncated_normal", dtype)
    if is_number(lower) and is_number(upper):
        return ops.rng_truncated_normal(key, dims=() if shape is None else shape_tuple(shape), dtype=dtype, lower=lower, upper=upper,
                                        algorithm=algorithm)
    from .. import numpy as rnp
    lower, upper = as_parameter("truncated_normal", lower, dtype), as_parameter("truncated_normal", upper, dtype)
    shape = drawn_shape("truncated_normal", shape, lower, upper)
    root = math.sqrt(2)
    u = uniform(key, shape, dtype, ops.erf(lower / root), ops.erf(upper / root), algorithm)
    within = [ops.stop_gradient(x) for x in (rnp.nextafter(lower, math.inf), rnp.nextafter(upper, -math.inf))]
    return rnp.clip(ops.erfinv(u) * root, *within)


def randint(key, shape, minval, maxval, dtype="i32", algorithm="philox"):
    """Integers in [minval, maxval), which may be arrays."""
    dtype, shape = integer_name("randint", dtype), shape_tuple(shape)
    if not all(hasattr(b, "shape") and b.shape != () for b in (minval, maxval)) and \
            all(is_number(b) or (hasattr(b, "item") and not getattr(b, "is_traced", False) and b.shape == ()) for b in (minval, maxval)):
        return ops.rng_randint(key, dims=shape, low=int(minval), high=int(maxval), dtype=dtype, algorithm=algorithm)
    from .. import numpy as rnp
    wide = "i64" if _dtypes.bits(dtype) == 64 else "i32"
    if dtype in ("u32", "u64"):
        raise Error(at_user_line(f"randint of {_dtypes.long_name(dtype)} takes bounds that are numbers; arrays are bounds of integers that "
                                 "have a sign, or of less than 32 bits"), "unsupported")
    limits = _dtypes.iinfo(_dtypes.long_name(dtype))
    low, high = as_array(minval), as_array(maxval)
    drawn_shape("randint", shape, low, high)
    is_past = ew.greater(high, limits.max) if _dtypes.bits(high.dtype_name) > _dtypes.bits(dtype) else None
    low = convert(rnp.clip(low, max(limits.min, _dtypes.iinfo(low.dtype).min), min(limits.max, _dtypes.iinfo(low.dtype).max)), wide)
    top = limits.max if wide == dtype else limits.max + 1
    high = convert(rnp.clip(high, max(limits.min, _dtypes.iinfo(high.dtype).min), min(top, _dtypes.iinfo(high.dtype).max)), wide)
    unsigned = "u" + wide[1:]
    # A number of twice the width modulo the span, as rng_randint draws it: its halves by powers of two.
    upper, lower = [bits(k, shape, _dtypes.long_name(unsigned), algorithm) for k in split_for(algorithm, key)]
    is_ordered = ew.greater(high, low)
    span = rnp.where(is_ordered, ops.bitcast(ew.subtract(high, low), dtype=unsigned), rnp.ones((), unsigned if unsigned == "u32" else "uint64"))
    if wide == dtype and is_past is not None:
        span = rnp.where(is_past & is_ordered, span + 1, span)
    span = ew.broadcast_to(span, shape)
    half = ops.rem(ew.constant_like(span, 2**(_dtypes.bits(wide) // 2)), span)
    half = ops.rem(ew.multiply(half, half), span)
    offset = ops.rem(ew.add(ew.multiply(ops.rem(upper, span), half), ops.rem(lower, span)), span)
    return convert(ew.add(low, ops.bitcast(offset, dtype=wide)), dtype)


def bernoulli(key, p=0.5, shape=None, mode="low", *, algorithm="philox"):
    """True with probability p. `mode` "high" draws twice as many bits: what falls below a p close to 0 or 1 is finer than one
    number can tell."""
    if mode not in ("low", "high"):
        raise ValueError(at_user_line(f"mode is {mode!r}; it is \"low\" or \"high\""))
    p = ew.not_complex(p, "bernoulli")
    shape = drawn_shape("bernoulli", shape, p)
    if mode == "low":
        return ops.rng_bernoulli(key, p, dims=shape, algorithm=algorithm)
    p = ew.inexact(p)
    u = ops.rng_uniform(key, dims=(2,) + shape, dtype=p.dtype_name, algorithm=algorithm)
    return ew.less(u[1] * 2.0 ** -_dtypes.finfo(p.dtype).nmant, ew.subtract(p, u[0]))


def rademacher(key, shape=(), dtype="i32", *, algorithm="philox"):
    """1 or -1, each with probability 1/2."""
    dtype = "i32" if dtype is None else _dtypes.name_of(dtype)
    return convert(bernoulli(key, 0.5, shape_tuple(shape), algorithm=algorithm), dtype) * 2 - 1
