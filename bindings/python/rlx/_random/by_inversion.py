"""Distributions whose numbers are a function of one uniform number: the inverse of the distribution function."""

import math

import numpy as np

from .. import _dtypes, ops
from .._array import convert
from .._native import at_user_line
from ..numpy import _elementwise as ew
from ..numpy._creation import shape_tuple
from .draws import as_parameter, bits, drawn_shape, float_name, integer_name, uniform


def cauchy(key, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the Cauchy distribution, 1 / (pi (1 + x^2))."""
    dtype = float_name("cauchy", dtype)
    u = uniform(key, shape, dtype, float(_dtypes.finfo(dtype).eps), 1.0, algorithm)
    return ops.tan((u - 0.5) * math.pi)


def exponential(key, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the exponential distribution, e^-x for x >= 0."""
    return -ops.log1p(-uniform(key, shape, float_name("exponential", dtype), algorithm=algorithm))


def gumbel(key, shape=(), dtype="f32", mode=None, *, algorithm="philox"):
    """Numbers of the Gumbel distribution, e^-(x + e^-x). `mode`: "low" (None) takes one uniform number of the dtype for each, "high"
    two, which reaches further out, "highest" of float32 64 bits."""
    dtype, shape = float_name("gumbel", dtype), shape_tuple(shape)
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(at_user_line(f"mode is {mode!r}; it is None, \"low\", \"high\" or \"highest\""))
    info = _dtypes.finfo(dtype)
    if mode in (None, "low"):
        return -ops.log(-ops.log(uniform(key, shape, dtype, float(info.tiny), 1.0, algorithm)))
    from .. import numpy as rnp
    if mode == "highest" and dtype == "f32":
        return _gumbel_of_64_bits(key, shape, algorithm)
    u = uniform(key, (2,) + shape, dtype, algorithm=algorithm)
    high, low = u[0], u[1]
    x = rnp.where(high >= 0.5, high, high + low * 2.0**-info.nmant + float(info.tiny))
    return -ops.log(-ops.log1p(-x))


def _gumbel_of_64_bits(key, shape, algorithm):
    """A number of 64 bits behind the point, from its nearer end: x = u below 1/2, else x = 1 - u, with 24 bits each, however small."""
    from .. import numpy as rnp
    drawn = bits(key, (2,) + shape, "uint32", algorithm)
    u = (convert(drawn[0], "u64") << np.uint64(32)) | convert(drawn[1], "u64")
    is_low = drawn[0] < np.uint32(2**31)
    near = rnp.where(is_low, u, rnp.zeros_like(u) - u)
    zeros = rnp.minimum(ops.clz(near), np.uint64(63))
    leading = convert((near << zeros) >> np.uint64(40), "f32")
    power = ops.bitcast(convert(np.uint64(127 - 24) - zeros, "u32") << np.uint32(23), dtype="f32")
    x = leading * power
    return -ops.log(-rnp.where(is_low, ops.log1p(-x), ops.log(x)))


def laplace(key, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the Laplace distribution, e^-|x| / 2."""
    dtype = float_name("laplace", dtype)
    u = uniform(key, shape, dtype, -1.0 + float(_dtypes.finfo(dtype).epsneg), 1.0, algorithm)
    return ops.sign(u) * ops.log1p(-ops.abs(u))


def logistic(key, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the logistic distribution, e^-x / (1 + e^-x)^2."""
    dtype = float_name("logistic", dtype)
    u = uniform(key, shape, dtype, float(_dtypes.finfo(dtype).tiny), 1.0, algorithm)
    return ops.log(u) - ops.log1p(-u)


def pareto(key, b, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the Pareto distribution, b / x^(b + 1) for x >= 1."""
    dtype = float_name("pareto", dtype)
    b = as_parameter("pareto", b, dtype)
    return ops.exp(exponential(key, drawn_shape("pareto", shape, b), dtype, algorithm=algorithm) / b)


def rayleigh(key, scale, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the Rayleigh distribution: the length of a pair of normal numbers of this standard deviation."""
    dtype = float_name("rayleigh", dtype)
    scale = as_parameter("rayleigh", scale, dtype)
    return scale * ops.sqrt(ops.log(uniform(key, drawn_shape("rayleigh", shape, scale), dtype, algorithm=algorithm)) * -2)


def triangular(key, left, mode, right, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the distribution whose density rises from `left` to `mode` and falls to `right`."""
    from .. import numpy as rnp
    dtype = float_name("triangular", dtype)
    left, mode, right = [as_parameter("triangular", x, dtype) for x in (left, mode, right)]
    u = uniform(key, drawn_shape("triangular", shape, left, mode, right), dtype, algorithm=algorithm)
    width = right - left
    return rnp.where(u < (mode - left) / width, left + ew.sqrt(u * width * (mode - left)), right - ew.sqrt((1 - u) * width * (right - mode)))


def weibull_min(key, scale, concentration, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the Weibull distribution: `scale` times an exponential number to the power 1 / concentration."""
    dtype = float_name("weibull_min", dtype)
    scale, concentration = as_parameter("weibull_min", scale, dtype), as_parameter("weibull_min", concentration, dtype)
    return ew.power(exponential(key, shape, dtype, algorithm=algorithm), 1 / concentration) * scale


def geometric(key, p, shape=None, dtype="i32", *, algorithm="philox"):
    """How many coins, of which each shows heads with probability p, it takes until the first one does."""
    from .. import numpy as rnp
    dtype = integer_name("geometric", dtype)
    p = ew.inexact(ew.not_complex(p, "geometric"))
    u = uniform(key, drawn_shape("geometric", shape, p), p.dtype_name, algorithm=algorithm)
    return convert(ops.floor(ops.log(rnp.where(u == 0, 1, u)) / ops.log1p(-p)) + 1, dtype)
