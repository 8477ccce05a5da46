"""The element-wise functions of jax.lax: operands have one dtype, a Python number takes the other's, and one shape, or are
scalars."""

import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, is_number, strong
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy._more_elementwise import nextafter as _nextafter
from .types import RoundingMethod, check_accuracy


def operands_of(name, *xs):
    """Operands of one dtype and shape. TypeError where dtypes differ: nothing is promoted here."""
    arrays = [None if is_number(x) else as_array(x) for x in xs]
    names = {x.dtype_name for x in arrays if x is not None}
    if len(names) > 1:
        kinds = ", ".join(x.dtype_name for x in arrays if x is not None)
        raise TypeError(at_user_line(f"lax.{name} takes operands of one dtype, got {kinds}; convert them, or call the function of "
                                     "rlx.numpy, which promotes"))
    if names:
        dtype = names.pop()
        for x in xs:
            if is_number(x) and _dtypes.with_weak(dtype, x) != dtype:
                raise TypeError(at_user_line(f"lax.{name} takes operands of one dtype, got {dtype} and the number {x!r}"))
        arrays = [as_array(x, dtype) if a is None else a for x, a in zip(xs, arrays)]
    else:
        arrays = ew.promoted(*xs)
    shapes = {x.shape for x in arrays if x.shape}
    if len(shapes) > 1:
        raise Error(at_user_line(f"lax.{name} takes operands of one shape, or scalars, got {', '.join(str(x.shape) for x in arrays)}; "
                                 "broadcast them, or call the function of rlx.numpy"), "shape_mismatch")
    shape = shapes.pop() if shapes else ()
    return [ew.broadcast_to(x, shape) for x in arrays]


def _kinds(name, x, allowed):
    """x as an array, of a dtype that the function takes: b(ool), i(nteger), f(loat), c(omplex)."""
    x = as_array(x)
    dtype = x.dtype_name
    kind = "b" if dtype == "bool" else "i" if _dtypes.is_integer(dtype) else "c" if _dtypes.is_complex(dtype) else "f"
    if kind not in allowed:
        words = {"b": "bools", "i": "integers", "f": "floats", "c": "complex numbers"}
        raise TypeError(at_user_line(f"lax.{name} takes {' and '.join(words[k] for k in allowed)}, got {_dtypes.long_name(dtype)}"))
    return x


def _of_one(name, compute, doc, kinds="fc", takes_accuracy=False):
    if takes_accuracy:
        def f(x, *, accuracy=None):
            check_accuracy(name, accuracy)
            return compute(_kinds(name, x, kinds))
    else:
        def f(x):
            return compute(_kinds(name, x, kinds))
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _of_two(name, compute, doc, kinds="ifc"):
    def f(x, y):
        a, b = operands_of(name, x, y)
        return compute(_kinds(name, a, kinds), b)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


abs = _of_one("abs", ew.abs, "|x|; of a complex number its magnitude.", "ifc")
neg = _of_one("neg", ew.negative, "-x.", "ifc")
sign = _of_one("sign", ew.sign, "-1, 0 or 1 as x is below, at or above 0; of a complex number x / |x|.", "ifc")
floor = _of_one("floor", ops.floor, "The largest integer that is not greater.", "f")
ceil = _of_one("ceil", ops.ceil, "The smallest integer that is not less.", "f")
is_finite = _of_one("is_finite", ops.is_finite, "Whether x is neither infinite nor NaN.", "f")
exp = _of_one("exp", ew.exp, "e^x.", takes_accuracy=True)
exp2 = _of_one("exp2", ew.exp2, "2^x.", takes_accuracy=True)
expm1 = _of_one("expm1", ew.expm1, "e^x - 1, accurate near 0.", takes_accuracy=True)
log = _of_one("log", ew.log, "The natural logarithm.", takes_accuracy=True)
log1p = _of_one("log1p", ew.log1p, "ln(1 + x), accurate near 0.", takes_accuracy=True)
sqrt = _of_one("sqrt", ew.sqrt, "The square root.", takes_accuracy=True)
cbrt = _of_one("cbrt", ops.cbrt, "The real cube root.", "f", takes_accuracy=True)
sin = _of_one("sin", ew.sin, "The sine of x in radians.", takes_accuracy=True)
cos = _of_one("cos", ew.cos, "The cosine of x in radians.", takes_accuracy=True)
tan = _of_one("tan", ew.tan, "The tangent of x in radians.", takes_accuracy=True)
tanh = _of_one("tanh", ew.tanh, "The hyperbolic tangent.", takes_accuracy=True)
sinh = _of_one("sinh", ew.sinh, "The hyperbolic sine.")
cosh = _of_one("cosh", ew.cosh, "The hyperbolic cosine.")
asin = _of_one("asin", ew.arcsin, "The angle in [-pi/2, pi/2] whose sine is x.")
acos = _of_one("acos", ew.arccos, "The angle in [0, pi] whose cosine is x.")
atan = _of_one("atan", ew.arctan, "The angle in (-pi/2, pi/2) whose tangent is x.")
asinh = _of_one("asinh", ew.arcsinh, "The number whose hyperbolic sine is x.")
acosh = _of_one("acosh", ew.arccosh, "The number whose hyperbolic cosine is x.")
atanh = _of_one("atanh", ew.arctanh, "The number whose hyperbolic tangent is x.")
real = _of_one("real", ops.real, "The real part.", "c")
imag = _of_one("imag", ops.imag, "The imaginary part.", "c")
square = _of_one("square", ew.square, "x x.", "ifc")
reciprocal = _of_one("reciprocal", ew.reciprocal, "1 / x.")
bitwise_not = _of_one("bitwise_not", ops.bitwise_not, "Each bit turned; of bools whether x is false.", "bi")
population_count = _of_one("population_count", ops.popcnt, "How many bits are 1.", "i")
clz = _of_one("clz", ops.clz, "How many bits are 0 before the first 1.", "i")


def logistic(x, *, accuracy=None):
    """1 / (1 + e^-x)."""
    from ..nn import sigmoid
    check_accuracy("logistic", accuracy)
    return sigmoid(_kinds("logistic", x, "fc"))


def rsqrt(x, *, accuracy=None):
    """1 / sqrt(x)."""
    check_accuracy("rsqrt", accuracy)
    x = ew.inexact(x)
    return ew.reciprocal(ew.sqrt(x)) if _dtypes.is_complex(x.dtype_name) else ops.rsqrt(x)


def conj(x):
    """The complex conjugate, complex also of floats."""
    x = _kinds("conj", x, "fc")
    return ops.conjugate(convert(x, "c128" if x.dtype_name == "f64" else "c64"))


def round(x, rounding_method=RoundingMethod.AWAY_FROM_ZERO):
    """The nearest integer as a float."""
    x = _kinds("round", x, "f")
    return ops.round_nearest_even(x) if RoundingMethod(rounding_method) is RoundingMethod.TO_NEAREST_EVEN else ops.round_nearest_afz(x)


def mul(x, y, *, out_dtype=None):
    """x y."""
    if out_dtype is not None:
        out_dtype = _dtypes.name_of(out_dtype)
        x, y = convert(as_array(x), out_dtype), convert(as_array(y), out_dtype)
    a, b = operands_of("mul", x, y)
    return ew.multiply(a, b)


add = _of_two("add", ew.add, "x + y; of bools whether either holds.", "bifc")
sub = _of_two("sub", ew.subtract, "x - y.")
div = _of_two("div", ops.div, "x / y; of integers towards 0.")
rem = _of_two("rem", ops.rem, "What is left of x / y, whose quotient goes towards 0: with the sign of x.", "if")
max = _of_two("max", ops.maximum, "The greater one.", "bif")
min = _of_two("min", ops.minimum, "The lesser one.", "bif")
atan2 = _of_two("atan2", ops.atan2, "The angle of the point (y, x), in [-pi, pi].", "f")
bitwise_and = _of_two("bitwise_and", ops.bitwise_and, "Bits that are 1 in both.", "bi")
bitwise_or = _of_two("bitwise_or", ops.bitwise_or, "Bits that are 1 in either.", "bi")
bitwise_xor = _of_two("bitwise_xor", ops.bitwise_xor, "Bits that are 1 in one.", "bi")
shift_left = _of_two("shift_left", ops.shift_left, "x moved by y bits to the left; 0 where y is not below the number of bits.", "i")
shift_right_arithmetic = _of_two("shift_right_arithmetic", ops.shift_right_arithmetic,
                                 "x moved by y bits to the right, where the sign moves in.", "i")
shift_right_logical = _of_two("shift_right_logical", ops.shift_right_logical,
                              "x moved by y bits to the right, where 0 moves in.", "i")
eq = _of_two("eq", ew.equal, "Whether x is y.", "bifc")
ne = _of_two("ne", ew.not_equal, "Whether x is not y.", "bifc")
lt = _of_two("lt", ew.less, "Whether x is less than y.", "bif")
le = _of_two("le", ew.less_equal, "Whether x is not greater than y.", "bif")
gt = _of_two("gt", ew.greater, "Whether x is greater than y.", "bif")
ge = _of_two("ge", ew.greater_equal, "Whether x is not less than y.", "bif")


def nextafter(x1, x2):
    """The number next to x1 towards x2."""
    a, b = operands_of("nextafter", x1, x2)
    return _nextafter(_kinds("nextafter", a, "f"), b)


def complex(x, y):
    """x + i y."""
    a, b = operands_of("complex", x, y)
    return ops.complex(_kinds("complex", a, "f"), b)


def pow(x, y):
    """x^y, where y may be an integer beside a float, too."""
    y_kind = as_array(y).dtype_name
    x = as_array(x, None if not is_number(x) or is_number(y) or not _dtypes.is_inexact(y_kind) else y_kind)
    if _dtypes.is_integer(y_kind) and not _dtypes.is_integer(x.dtype_name):
        y = convert(as_array(y), x.dtype_name)
    a, b = operands_of("pow", x, y)
    return ew.power(_kinds("pow", a, "ifc"), b)


def integer_pow(x, y):
    """x^y for a Python integer y."""
    x, y = _kinds("integer_pow", x, "ifc"), operator.index(y)
    if y < 0 and _dtypes.is_integer(x.dtype_name):
        raise TypeError(at_user_line(f"an integer to the power {y} is no integer"))
    made, factor, n = None, x, y if y >= 0 else -y
    while n:
        if n & 1:
            made = factor if made is None else ew.multiply(made, factor)
        n >>= 1
        factor = ew.multiply(factor, factor) if n else factor
    made = ew.constant_like(x, 1) if made is None else made
    return ew.reciprocal(made) if y < 0 else made


def mulhi(x, y, /):
    """The upper half of the bits of x y, for integers."""
    a, b = operands_of("mulhi", x, y)
    name = _kinds("mulhi", a, "i").dtype_name
    n = _dtypes.bits(name)
    if n < 64:
        wide = f"{name[0]}{2 * n}"
        shift = ops.shift_right_arithmetic if name[0] == "i" else ops.shift_right_logical
        product = ew.multiply(convert(a, wide), convert(b, wide))
        return convert(shift(product, ew.constant_like(product, n)), name)
    ua, ub = (ops.bitcast(v, dtype="u64") for v in (a, b))
    low, half = ew.constant_like(ua, 2**32 - 1), ew.constant_like(ua, 32)
    (a0, a1), (b0, b1) = ((ops.bitwise_and(v, low), ops.shift_right_logical(v, half)) for v in (ua, ub))
    middle = a1 * b0 + ops.shift_right_logical(a0 * b0, half)
    other = a0 * b1 + ops.bitwise_and(middle, low)
    high = a1 * b1 + ops.shift_right_logical(middle, half) + ops.shift_right_logical(other, half)
    if name == "i64":  # two's complement: what a negative factor counts too much
        zero = ew.constant_like(ua, 0)
        high = high - ops.select(ew.less(a, 0), ub, zero) - ops.select(ew.less(b, 0), ua, zero)
    return ops.bitcast(high, dtype=name)


def convert_element_type(operand, new_dtype):
    """The elements in another dtype; of complex numbers that become real the real parts."""
    x, dtype = as_array(operand), _dtypes.name_of(new_dtype)
    if _dtypes.is_complex(x.dtype_name) and not _dtypes.is_complex(dtype):
        x = ew.not_equal(x, 0) if dtype == "bool" else ops.real(x)
    return strong(convert(x, dtype))


def bitcast_convert_type(operand, new_dtype):
    """The bits of the elements as another dtype: of fewer bits with a last dim for the parts, of more from such a dim."""
    return ops.bitcast(as_array(operand), dtype=_dtypes.name_of(new_dtype))


def reduce_precision(operand, exponent_bits, mantissa_bits):
    """Floats rounded to what so many bits of exponent and mantissa hold, ties to even; greater ones become infinite, and those less
    than the least normal one 0."""
    x = _kinds("reduce_precision", operand, "f")
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(at_user_line(f"reduce_precision takes at least 1 bit of exponent and 0 of mantissa, got {exponent_bits} and "
                                      f"{mantissa_bits}"))
    info = _dtypes.finfo(x.dtype)
    word = f"u{_dtypes.bits(x.dtype_name)}"
    own_mantissa, own_exponent = int(info.nmant), _dtypes.bits(x.dtype_name) - 1 - int(info.nmant)
    bits = ops.bitcast(x, dtype=word)
    number = lambda value: ew.constant_like(bits, value)
    sign = ops.bitwise_and(bits, number(1 << (own_mantissa + own_exponent)))
    magnitude = ops.bitwise_xor(bits, sign)
    if mantissa_bits < own_mantissa:
        drop = own_mantissa - mantissa_bits
        last = ops.bitwise_and(ops.shift_right_logical(magnitude, number(drop)), number(1))
        magnitude = ops.bitwise_and(magnitude + number((1 << (drop - 1)) - 1) + last, number(((1 << (own_mantissa + own_exponent)) - 1) ^ ((1 << drop) - 1)))
    if exponent_bits < own_exponent:
        own_bias, bias = (1 << (own_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = ops.shift_right_logical(magnitude, number(own_mantissa))
        infinity = number(((1 << own_exponent) - 1) << own_mantissa)
        magnitude = ops.select(ew.greater(exponent, number(own_bias + bias)), infinity, magnitude)
        magnitude = ops.select(ew.less_equal(exponent, number(own_bias - bias)), number(0), magnitude)
    made = ops.bitcast(ops.bitwise_or(magnitude, sign), dtype=x.dtype_name)
    return ops.select(ops.compare(x, x, direction="ne"), x, made)


def select(pred, on_true, on_false):
    """on_true where pred holds, else on_false: arrays of one shape and dtype; pred has that shape or is a scalar."""
    pred = as_array(pred)
    on_true, on_false = operands_of("select", on_true, on_false)
    if pred.ndim and pred.shape != on_true.shape:
        raise Error(at_user_line(f"lax.select takes a condition of its cases' shape {on_true.shape}, or a scalar, got {pred.shape}"),
                    "shape_mismatch")
    return ops.select(ew.broadcast_to(pred, on_true.shape), on_true, on_false)


def select_n(which, *cases):
    """Of several arrays of one shape and dtype each element from the one that `which` says: an int32, or a bool for two."""
    which = as_array(which)
    if not cases:
        raise TypeError(at_user_line("select_n takes at least one case"))
    cases = operands_of("select_n", *cases)
    if which.dtype_name not in ("bool", "i32"):
        raise TypeError(at_user_line(f"select_n takes a bool or an int32, got {_dtypes.long_name(which.dtype_name)}"))
    if which.dtype_name == "bool" and len(cases) > 2:
        raise TypeError(at_user_line(f"a bool selects of two cases at most, got {len(cases)}"))
    if which.ndim and which.shape != cases[0].shape:
        raise Error(at_user_line(f"select_n takes a `which` of its cases' shape {cases[0].shape}, or a scalar, got {which.shape}"),
                    "shape_mismatch")
    which = ew.broadcast_to(which, cases[0].shape)
    made = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        is_it = ops.bitwise_not(which) if which.dtype_name == "bool" else ew.less_equal(which, i)
        made = ops.select(is_it, case, made)
    return made


def clamp(min, x, max):
    """x limited to [min, max], whose shapes are x's or ()."""
    low, x, high = operands_of("clamp", min, x, max)
    return ops.minimum(ops.maximum(x, low), high)


def optimization_barrier(operand, /):
    """The operand, a tree of arrays, of which all is computed before what uses any of it."""
    from .. import tree
    leaves, structure = tree.flatten(operand)
    made = ops.optimization_barrier(*[as_array(x) for x in leaves]) if leaves else []
    return tree.unflatten(structure, [made] if isinstance(made, Array) else list(made))


def stop_gradient(x):
    """x, through which no gradient flows; also for trees of arrays."""
    from .. import tree
    return tree.map(ops.stop_gradient, x)


def dtype(x):
    """The dtype of an array or of a number."""
    return np.dtype(_dtypes.numpy_of(_dtypes._name_in(x))) if not hasattr(x, "dtype") else x.dtype
