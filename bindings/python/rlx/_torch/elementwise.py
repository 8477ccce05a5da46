"""Operators that compute element by element."""

import math

import numpy as np

from .. import _dtypes, nn, ops, special
from .. import numpy as rnp
from .._array import Array, as_array, convert
from .._native import Error
from ..numpy._elementwise import inexact
from .table import of


def _of_floats(op):
    return lambda x: op(inexact(x))


_OF_ONE = {
    "abs": rnp.abs, "neg": rnp.negative, "positive": lambda x: x, "square": rnp.square, "reciprocal": rnp.reciprocal, "sign": rnp.sign,
    "signbit": rnp.signbit, "floor": rnp.floor, "ceil": rnp.ceil, "trunc": rnp.trunc, "round": rnp.round, "real": rnp.real, "imag": rnp.imag,
    "exp": rnp.exp, "exp2": rnp.exp2, "expm1": rnp.expm1, "log": rnp.log, "log2": rnp.log2, "log10": rnp.log10, "log1p": rnp.log1p,
    "sqrt": rnp.sqrt, "rsqrt": lambda x: 1 / rnp.sqrt(x),
    "sin": rnp.sin, "cos": rnp.cos, "tan": rnp.tan, "sinh": rnp.sinh, "cosh": rnp.cosh, "tanh": rnp.tanh, "sinc": rnp.sinc,
    "asin": rnp.arcsin, "acos": rnp.arccos, "atan": rnp.arctan, "asinh": rnp.arcsinh, "acosh": rnp.arccosh, "atanh": rnp.arctanh,
    "deg2rad": rnp.deg2rad, "rad2deg": rnp.rad2deg,
    "isnan": rnp.isnan, "isinf": rnp.isinf, "isfinite": rnp.isfinite, "isposinf": rnp.isposinf, "isneginf": rnp.isneginf,
    "logical_not": rnp.logical_not, "bitwise_not": rnp.bitwise_not,
    "sigmoid": nn.sigmoid, "relu": nn.relu, "relu6": nn.relu6, "silu": nn.silu, "mish": nn.mish, "log_sigmoid": nn.log_sigmoid,
    "hardsigmoid": lambda x: rnp.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * rnp.clip(x + 3, 0, 6) / 6,
    "erf": _of_floats(ops.erf), "erfc": _of_floats(ops.erfc), "erfinv": _of_floats(ops.erfinv), "lgamma": _of_floats(ops.lgamma),
    "digamma": _of_floats(ops.digamma), "i0": _of_floats(ops.i0), "special_i0e": _of_floats(ops.i0e), "special_i1": _of_floats(ops.i1),
    "special_i1e": _of_floats(ops.i1e), "special_erfcx": _of_floats(ops.erfcx), "special_ndtri": _of_floats(ops.ndtri),
    "special_log_ndtr": _of_floats(ops.log_ndtr), "special_entr": _of_floats(ops.entr),
}
_OF_TWO = {
    "mul": rnp.multiply, "true_divide": rnp.divide, "floor_divide": rnp.floor_divide, "fmod": rnp.fmod, "remainder": rnp.remainder, "pow": rnp.power,
    "maximum": rnp.maximum, "minimum": rnp.minimum, "fmax": rnp.fmax, "fmin": rnp.fmin, "atan2": rnp.arctan2, "hypot": rnp.hypot,
    "copysign": rnp.copysign, "nextafter": rnp.nextafter, "heaviside": rnp.heaviside, "gcd": rnp.gcd, "lcm": rnp.lcm,
    "logaddexp": rnp.logaddexp, "logaddexp2": rnp.logaddexp2, "xlogy": special.xlogy, "special_xlog1py": special.xlog1py,
    "special_zeta": special.zeta, "igamma": special.gammainc, "igammac": special.gammaincc,
    "eq": rnp.equal, "ne": rnp.not_equal, "lt": rnp.less, "le": rnp.less_equal, "gt": rnp.greater, "ge": rnp.greater_equal,
    "logical_and": rnp.logical_and, "logical_or": rnp.logical_or, "logical_xor": rnp.logical_xor, "bitwise_and": rnp.bitwise_and,
    "bitwise_or": rnp.bitwise_or, "bitwise_xor": rnp.bitwise_xor, "bitwise_left_shift": rnp.left_shift, "bitwise_right_shift": rnp.right_shift,
    "__lshift__": rnp.left_shift, "__rshift__": rnp.right_shift,
}
_OVERLOADS = ("default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "self", "other", "self_scalar", "other_scalar")
for _name, _f in _OF_ONE.items():
    of(f"{_name}.default", f"prims.{_name}.default")(_f)
for _name, _f in _OF_TWO.items():
    of(f"prims.{_name}.default", *(f"{_name}.{overload}" for overload in _OVERLOADS))(
        lambda x, y, f=_f: f(as_array(x) if not isinstance(x, (int, float, complex)) else x, y))


@of("add.Tensor", "add.Scalar", "prims.add.default")
def _add(x, y, alpha=1):
    return rnp.add(x, y if alpha == 1 else rnp.multiply(y, alpha))


@of("sub.Tensor", "sub.Scalar", "prims.sub.default")
def _sub(x, y, alpha=1):
    return rnp.subtract(x, y if alpha == 1 else rnp.multiply(y, alpha))


@of("rsub.Scalar", "rsub.Tensor")
def _rsub(x, y, alpha=1):
    return _sub(y, x, alpha)


@of("div.Tensor", "div.Scalar", "prims.div.default")
def _div(x, y):
    return rnp.divide(x, y)


@of("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(x, y, rounding_mode=None):
    if rounding_mode is None:
        return rnp.divide(x, y)
    if rounding_mode == "floor":
        return rnp.floor_divide(x, y)
    dtype = (as_array(x) if not isinstance(x, Array) else x).dtype_name
    return convert(rnp.trunc(rnp.divide(x, y)), dtype) if _dtypes.is_integer(dtype) else rnp.trunc(rnp.divide(x, y))


@of("gelu.default")
def _gelu(x, approximate="none"):
    return nn.gelu(x, approximate=approximate == "tanh")


@of("leaky_relu.default")
def _leaky_relu(x, negative_slope=0.01):
    return nn.leaky_relu(x, negative_slope)


@of("elu.default")
def _elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    return rnp.where(x > 0, x * scale, alpha * scale * rnp.expm1(rnp.minimum(x, 0) * input_scale))


@of("softplus.default")
def _softplus(x, beta=1.0, threshold=20.0):
    return rnp.where(x * beta > threshold, x, nn.softplus(x * beta) / beta)


@of("clamp.default", "clamp.Tensor")
def _clamp(x, min=None, max=None):
    return rnp.clip(x, min, max)


@of("hardtanh.default")
def _hardtanh(x, min_val=-1.0, max_val=1.0):
    return rnp.clip(x, min_val, max_val)


@of("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", "prims.where.default")
def _where(condition, x, y):
    return rnp.where(condition, x, y)


# ---- signs, roundings, parts of numbers ----
@of("round.decimals")
def _round(x, decimals=0):
    return rnp.round(x, decimals)


@of("frac.default")
def _frac(x):
    return x - rnp.trunc(x)


@of("sgn.default")
def _sgn(x):
    return rnp.sign(x)


@of("frexp.Tensor")
def _frexp(x):
    return rnp.frexp(x)


@of("_conj.default", "conj.default", "_conj_physical.default", "conj_physical.default")
def _conj(x):
    return rnp.conj(x)


@of("angle.default")
def _angle(x):
    if _dtypes.is_complex(x.dtype_name):
        return rnp.angle(x)
    x = inexact(x)
    return rnp.where(rnp.isnan(x), x, rnp.where(x < 0, np.float32(math.pi), rnp.zeros_like(x)))


@of("complex.default")
def _complex(re, im):
    re, im = rnp.broadcast_arrays(re, im)
    return ops.complex(re, im)


@of("polar.default")
def _polar(size, angle):
    return _complex(size * rnp.cos(angle), size * rnp.sin(angle))


@of("view_as_real.default", "view_as_real_copy.default")
def _view_as_real(x):
    return rnp.stack([rnp.real(x), rnp.imag(x)], -1)


@of("view_as_complex.default", "view_as_complex_copy.default")
def _view_as_complex(x):
    return ops.complex(x[..., 0], x[..., 1])


# ---- of two or more ----
@of("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def _float_power(x, y):
    wide = lambda v: convert(v, "c128" if _dtypes.is_complex(v.dtype_name) else "f64") if isinstance(v, Array) else v
    return rnp.power(wide(x), wide(y))


@of("lerp.Scalar", "lerp.Tensor")
def _lerp(x, y, weight):
    return x + weight * (y - x)


@of("addcmul.default")
def _addcmul(x, a, b, value=1):
    return x + (a * b if value == 1 else value * (a * b))


@of("addcdiv.default")
def _addcdiv(x, a, b, value=1):
    return x + (a / b if value == 1 else value * a / b)


@of("clamp_min.default", "clamp_min.Tensor")
def _clamp_min(x, low):
    return _clamp(x, low)


@of("clamp_max.default", "clamp_max.Tensor")
def _clamp_max(x, high):
    return _clamp(x, None, high)


@of("isclose.default")
def _isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    return rnp.isclose(x, y, rtol, atol, equal_nan)


# ---- activations ----
@of("_prelu_kernel.default")
def _prelu(x, weight):
    return rnp.where(x > 0, x, weight * x)


@of("threshold.default")
def _threshold(x, threshold, value):
    return rnp.where(x <= threshold, as_array(value, x.dtype_name), x)


@of("selu.default")
def _selu(x):
    return nn.selu(x)


@of("celu.default")
def _celu(x, alpha=1.0):
    return nn.celu(x, alpha)


@of("logit.default")
def _logit(x, eps=None):
    x = inexact(x)
    return ops.logit(x if eps is None else rnp.where(x < eps, as_array(eps, x.dtype_name), rnp.minimum(x, 1 - eps)))


@of("rrelu_with_noise.default", "rrelu_with_noise_functional.default")
def _rrelu(x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    if training:
        raise Error("rrelu in training draws random numbers", "unsupported")
    return rnp.where(x >= 0, x, x * ((lower + upper) / 2))


@of("nan_to_num.default")
def _nan_to_num(x, nan=None, posinf=None, neginf=None):
    return rnp.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)
