"""Operators that compute element by element."""

from .. import _dtypes, nn, ops
from .. import numpy as rnp
from .._array import Array, as_array, convert
from .table import of


for _name, _f in {"neg": rnp.negative, "exp": rnp.exp, "exp2": rnp.exp2, "expm1": rnp.expm1, "log": rnp.log, "log2": rnp.log2, "log10": rnp.log10,
                  "log1p": rnp.log1p, "sqrt": rnp.sqrt, "sin": rnp.sin, "cos": rnp.cos, "tan": rnp.tan, "sinh": rnp.sinh, "cosh": rnp.cosh,
                  "tanh": rnp.tanh, "asin": rnp.arcsin, "acos": rnp.arccos, "atan": rnp.arctan, "asinh": rnp.arcsinh, "acosh": rnp.arccosh,
                  "atanh": rnp.arctanh, "abs": rnp.abs, "floor": rnp.floor, "ceil": rnp.ceil, "trunc": rnp.trunc, "round": rnp.round,
                  "sign": rnp.sign, "reciprocal": rnp.reciprocal, "isnan": rnp.isnan, "isinf": rnp.isinf, "logical_not": rnp.logical_not,
                  "bitwise_not": rnp.bitwise_not, "sigmoid": nn.sigmoid, "relu": nn.relu, "silu": nn.silu, "mish": nn.mish,
                  "erf": lambda x: ops.erf(rnp.astype(x, "f32") if _dtypes.is_integer(x.dtype_name) else x), "rsqrt": lambda x: 1 / rnp.sqrt(x),
                  "hardsigmoid": lambda x: rnp.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * rnp.clip(x + 3, 0, 6) / 6}.items():
    of(f"{_name}.default")(_f)
for _name, _f in {"mul": rnp.multiply, "maximum": rnp.maximum, "minimum": rnp.minimum, "atan2": rnp.arctan2, "eq": rnp.equal, "ne": rnp.not_equal,
                  "lt": rnp.less, "le": rnp.less_equal, "gt": rnp.greater, "ge": rnp.greater_equal, "fmod": rnp.fmod, "remainder": rnp.remainder,
                  "pow": rnp.power, "logical_and": rnp.logical_and, "logical_or": rnp.logical_or, "logical_xor": rnp.logical_xor,
                  "bitwise_and": rnp.bitwise_and, "bitwise_or": rnp.bitwise_or, "bitwise_xor": rnp.bitwise_xor}.items():
    of(*(f"{_name}.{kind}" for kind in ("default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")))(
        lambda x, y, f=_f: f(_array(x) if not isinstance(x, (int, float, complex)) else x, y))


def _array(x):
    return as_array(x)


@of("add.Tensor", "add.Scalar")
def _add(x, y, alpha=1):
    return rnp.add(x, y if alpha == 1 else rnp.multiply(y, alpha))


@of("sub.Tensor", "sub.Scalar")
def _sub(x, y, alpha=1):
    return rnp.subtract(x, y if alpha == 1 else rnp.multiply(y, alpha))


@of("rsub.Scalar", "rsub.Tensor")
def _rsub(x, y, alpha=1):
    return _sub(y, x, alpha)


@of("div.Tensor", "div.Scalar")
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


@of("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(condition, x, y):
    return rnp.where(condition, x, y)
