"""Element-wise functions: operands broadcast and promote (rlx._dtypes), and Python's numbers are weak."""

import builtins
import math
import operator
import textwrap

import numpy as np

from .. import _dtypes, ops
from .._array import WIDE_NUMBERS, Array, as_array, at_once, convert, convert_weakly, current_trace, is_number, is_weak, number_beside

# What rlx.numpy takes from here; the rest serves the package.
__all__ = ["abs", "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
           "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_arrays", "broadcast_shapes",
           "broadcast_to", "cbrt", "ceil", "clip", "conj", "conjugate", "cos", "cosh", "divide", "equal", "exp",
           "exp2", "expm1", "floor", "floor_divide", "fmod", "greater", "greater_equal", "imag", "invert", "isfinite",
           "isinf", "isnan", "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp",
           "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply",
           "negative", "not_equal", "positive", "power", "real", "reciprocal", "remainder", "right_shift", "rint",
           "round", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide", "trunc",
           "where"]


def _promotion(xs):
    """The operands as arrays, None for Python's numbers, and the dtype of all. NumPy's float64, which is a Python float (so that np.sqrt(2)
    is one), and its int64 and complex128 count as numbers beside an array."""
    beside = [as_array(x).dtype_name for x in xs if isinstance(x, (Array, np.ndarray))]
    xs = [number_beside(x, beside) if beside and type(x) in WIDE_NUMBERS else x for x in xs]
    strong = [x if isinstance(x, Array) else None if is_number(x) else as_array(x) for x in xs]
    dtype, weak = None, []
    for x in strong:
        if x is not None and is_weak(x):
            weak.append(x.dtype_name)
        elif x is not None:
            dtype = x.dtype_name if dtype is None else _dtypes.promote(dtype, x.dtype_name)
    weak += [_dtypes.weak_dtype(x) for x in xs if is_number(x)]
    for name in weak:
        dtype = name if dtype is None else _dtypes.beside_weak(dtype, name)
    return strong, xs, dtype


def promoted(*xs):
    """The operands as arrays of one dtype."""
    strong, xs, dtype = _promotion(xs)
    return [as_array(x, dtype) if s is None else convert_weakly(s, dtype) for s, x in zip(strong, xs)]


def broadcast_shapes(*shapes):
    """NumPy's rule: right-aligned, extents of 1 stretch."""
    for s in shapes:
        if not isinstance(s, (tuple, list, Array, np.ndarray)):
            raise TypeError(f"broadcast_shapes takes shapes, such as (2, 3), not a {type(s).__name__}")
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for d in range(rank):
        extents = [s[d - rank + len(s)] for s in shapes if d - rank + len(s) >= 0]
        wide = [e for e in extents if e != 1]
        if any(e != wide[0] for e in wide):
            raise ValueError("operands could not be broadcast together with shapes " + " ".join(map(str, shapes)))
        result.append(wide[0] if wide else 1)
    return tuple(result)


def broadcast_to(array, shape):
    """The array repeated to `shape`: right-aligned, extents of 1 stretch."""
    x = as_array(array)
    shape = (shape,) if isinstance(shape, (int, str)) else tuple(shape)
    if x.shape == shape:
        return x
    if len(x.shape) > len(shape) or broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {shape}")
    return ops.broadcast_in_dim(x, dims=shape, axes=range(len(shape) - x.ndim, len(shape)))


def broadcast_arrays(*xs):
    """All operands, repeated to their common shape."""
    arrays = [as_array(x) for x in xs]
    shape = broadcast_shapes(*[x.shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]


def together(*xs):
    """Promoted and broadcast."""
    strong, xs, dtype = _promotion(xs)
    shapes = [s.shape for s in strong if s is not None]
    shape = shapes[0] if shapes and all(s == shapes[0] for s in shapes) else broadcast_shapes(*shapes)
    trace = current_trace()
    return [(trace.number(x, dtype, shape) if trace is not None else broadcast_to(as_array(x, dtype), shape)) if s is None
            else broadcast_to(convert_weakly(s, dtype), shape) for s, x in zip(strong, xs)]


def inexact(x):
    """As floats: integers and bools become float32."""
    x = as_array(x)
    return x if _dtypes.is_inexact(x.dtype_name) else convert_weakly(x, "f32")


def not_complex(x, name):
    """x, which must not be complex: complex numbers have no order."""
    x = as_array(x)
    if _dtypes.is_complex(x.dtype_name):
        raise TypeError(f"{name} takes real numbers, got {x.dtype_name}{list(x.shape)}; complex numbers have no order")
    return x


def no_out(out):
    """Refuses NumPy's `out`."""
    if out is not None:
        raise TypeError("arrays do not change, so that out= has nothing to write to")


def constant_like(x, value):
    """A scalar of x's dtype, broadcast to it."""
    return broadcast_to(as_array(np.asarray(value, x.dtype)), x.shape)


OF_ONE = "x has any shape, and the result has it too. Floats and complex numbers keep their dtype; integers and bools become float32."
OF_TWO = ("The operands broadcast to one shape (ValueError where they do not) and promote to one dtype, Python's numbers to the other "
          "operand's; the result has both.")
OF_TWO_FLOATS = OF_TWO + " Integers and bools become float32."
COMPARED = ("The operands broadcast to one shape (ValueError where they do not) and promote to one dtype; the result has that shape and "
            "is bool. A comparison with NaN is false, but for not_equal.")


def documented(f, name, doc, rest, arity=None):
    """f as a public function of that name. `rest` says what holds for all of its kind: shapes, dtypes, errors. With an arity it is
    one program where it is called without a trace."""
    if arity:
        f.__name__ = name
        f = at_once(arity)(f)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc + "\n\n    " + "\n    ".join(textwrap.wrap(rest, 110)) + "\n    "
    return f


def _unary(name, op, doc):
    def f(x):
        return op(inexact(x))
    return documented(f, name, doc, OF_ONE, 1)


def _binary(name, op, doc, floats=False):
    def f(x1, x2):
        a, b = together(x1, x2)
        if floats:
            a, b = inexact(a), inexact(b)
        return op(a, b)
    return documented(f, name, doc, OF_TWO_FLOATS if floats else OF_TWO, 2)


sqrt = _unary("sqrt", ops.sqrt, "The square root.")
cbrt = _unary("cbrt", ops.cbrt, "The real cube root.")
exp = _unary("exp", ops.exp, "e^x.")
expm1 = _unary("expm1", ops.expm1, "e^x - 1, accurate near 0.")
log = _unary("log", ops.log, "The natural logarithm.")
log1p = _unary("log1p", ops.log1p, "ln(1 + x), accurate near 0.")
sin = _unary("sin", ops.sin, "The sine of x in radians.")
cos = _unary("cos", ops.cos, "The cosine of x in radians.")
tan = _unary("tan", ops.tan, "The tangent of x in radians.")
tanh = _unary("tanh", ops.tanh, "The hyperbolic tangent.")


def _through_exp(name, real_op, complex_form, doc):
    """Functions whose op takes real numbers only; complex ones by a formula."""
    def f(x):
        x = inexact(x)
        return complex_form(x) if _dtypes.is_complex(x.dtype_name) else real_op(x)
    return documented(f, name, doc, OF_ONE, 1)


def _parts(z):
    return ops.real(z), ops.imag(z)


def _plus(z, shift):
    """z + shift for a real shift: the sign of a zero imaginary part stays, on which side of a cut z lies."""
    re, im = _parts(z)
    return ops.complex(add(re, shift), im)


def _one_minus(z):
    re, im = _parts(z)
    return ops.complex(subtract(1, re), ops.neg(im))


def _times_i(z):
    re, im = _parts(z)
    return ops.complex(ops.neg(im), re)


def _over_i(z):
    re, im = _parts(z)
    return ops.complex(im, ops.neg(re))


def _complex_sinh(z):
    re, im = _parts(z)
    return ops.complex(multiply(sinh(re), cos(im)), multiply(cosh(re), sin(im)))


def _complex_cosh(z):
    re, im = _parts(z)
    return ops.complex(multiply(cosh(re), cos(im)), multiply(sinh(re), sin(im)))


# The inverse functions: W. Kahan, "Branch cuts for complex elementary functions" (1987).
def _kept_apart(a, b):
    """Im(conj(a) b), and Re(a) Re(b) - Im(a) Im(b)."""
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return subtract(multiply(ar, bi), multiply(ai, br)), subtract(multiply(ar, br), multiply(ai, bi))


def _complex_arcsin(z):
    under, over = sqrt(_one_minus(z)), sqrt(_plus(z, 1))
    im, product = _kept_apart(under, over)
    return ops.complex(ops.atan2(ops.real(z), product), ops.asinh(im))


def _complex_arccos(z):
    under, over = sqrt(_one_minus(z)), sqrt(_plus(z, 1))
    im, _ = _kept_apart(over, under)
    return ops.complex(multiply(ops.atan2(ops.real(under), ops.real(over)), 2), ops.asinh(im))


def _complex_arccosh(z):
    under, over = sqrt(_plus(z, -1)), sqrt(_plus(z, 1))
    (ur, ui), (vr, vi) = _parts(under), _parts(over)
    return ops.complex(ops.asinh(add(multiply(ur, vr), multiply(ui, vi))), multiply(ops.atan2(ui, vr), 2))


def _complex_arctanh(z):
    re, im = _parts(z)
    square_im = ops.square(im)
    real_part = ops.log1p(divide(multiply(re, 4), add(ops.square(subtract(1, re)), square_im)))
    # From the larger side: close to -1 the quotient is close to -1 itself.
    mirrored = ops.neg(ops.log1p(divide(multiply(re, -4), add(ops.square(add(re, 1)), square_im))))
    angle = ops.atan2(multiply(im, 2), subtract(multiply(subtract(1, re), add(re, 1)), square_im))
    return ops.complex(multiply(ops.select(less(re, 0), mirrored, real_part), 0.25), multiply(angle, 0.5))


exp2 = _through_exp("exp2", ops.exp2, lambda z: exp(multiply(z, math.log(2))), "2^x.")
log2 = _through_exp("log2", ops.log2, lambda z: divide(log(z), math.log(2)), "The logarithm to the base 2.")
log10 = _through_exp("log10", ops.log10, lambda z: divide(log(z), math.log(10)), "The logarithm to the base 10.")
sinh = _through_exp("sinh", ops.sinh, _complex_sinh, "The hyperbolic sine.")
cosh = _through_exp("cosh", ops.cosh, _complex_cosh, "The hyperbolic cosine.")
arcsin = _through_exp("arcsin", ops.asin, _complex_arcsin, "The angle in [-pi/2, pi/2] whose sine is x.")
arccos = _through_exp("arccos", ops.acos, _complex_arccos, "The angle in [0, pi] whose cosine is x.")
arctan = _through_exp("arctan", ops.atan, lambda z: _over_i(_complex_arctanh(_times_i(z))),
                      "The angle in (-pi/2, pi/2) whose tangent is x.")
arcsinh = _through_exp("arcsinh", ops.asinh, lambda z: _over_i(_complex_arcsin(_times_i(z))),
                       "The number whose hyperbolic sine is x.")
arccosh = _through_exp("arccosh", ops.acosh, _complex_arccosh, "The number whose hyperbolic cosine is x.")
arctanh = _through_exp("arctanh", ops.atanh, _complex_arctanh, "The number whose hyperbolic tangent is x.")


def abs(x):
    """|x|; of a complex number its magnitude."""
    x = as_array(x)
    return x if x.dtype_name == "bool" or x.dtype_name[0] == "u" else ops.abs(x)


absolute = abs


def negative(x):
    """-x."""
    return ops.neg(as_array(x))


def positive(x):
    """x."""
    return as_array(x)


def sign(x):
    """-1, 0 or 1; of a complex number x / |x|."""
    return ops.sign(as_array(x))


def _rounding(name, op, doc):
    def f(x):
        x = not_complex(x, name)
        return op(x) if _dtypes.is_float(x.dtype_name) else x
    return documented(f, name, doc, "x has any shape, and the result has it and x's dtype; integers are themselves. TypeError of complex "
                                    "numbers, which have no order.")


floor = _rounding("floor", ops.floor, "The largest whole number <= x.")
ceil = _rounding("ceil", ops.ceil, "The least whole number >= x.")
rint = _rounding("rint", ops.round_nearest_even, "The nearest whole number, halves to the even one.")


def trunc(x):
    """x without its fraction."""
    x = not_complex(x, "trunc")
    if not _dtypes.is_float(x.dtype_name):
        return x
    return ops.select(less(x, 0), ops.ceil(x), ops.floor(x))


def round(a, decimals=0, out=None):
    """Rounded to so many decimals, halves to the even digit."""
    no_out(out)
    x, decimals = as_array(a), operator.index(decimals)
    if _dtypes.is_complex(x.dtype_name):
        return ops.complex(round(ops.real(x), decimals), round(ops.imag(x), decimals))
    if not _dtypes.is_float(x.dtype_name):
        if decimals >= 0:
            return x
        scale = 10 ** -decimals
        return convert(multiply(rint(divide(convert(x, "f64"), scale)), scale), x.dtype_name)
    if decimals == 0:
        return ops.round_nearest_even(x)
    scale = 10.0 ** builtins.abs(decimals)
    scaled = multiply(x, scale) if decimals > 0 else divide(x, scale)
    nearest = ops.round_nearest_even(scaled)
    return divide(nearest, scale) if decimals > 0 else multiply(nearest, scale)


def square(x):
    """x * x."""
    x = as_array(x)
    return ops.square(x if x.dtype_name != "bool" else convert(x, "i32"))


@at_once(1)
def reciprocal(x):
    """1 / x."""
    return ops.reciprocal(inexact(x))


def _arithmetic(name, op, on_bool, doc):
    def f(x1, x2):
        a, b = together(x1, x2)
        return on_bool(a, b) if a.dtype_name == "bool" else op(a, b)
    return documented(f, name, doc, OF_TWO + " Integers wrap around.", 2)


def _no_bool(name):
    def refuse(a, b):
        raise TypeError(f"{name} of bools; use logical_xor, or convert them")
    return refuse


add = _arithmetic("add", ops.add, ops.bitwise_or, "x1 + x2.")
subtract = _arithmetic("subtract", ops.sub, _no_bool("subtract"), "x1 - x2.")
multiply = _arithmetic("multiply", ops.mul, ops.bitwise_and, "x1 * x2.")
divide = _binary("divide", ops.div, "x1 / x2, as floats.", floats=True)
true_divide = divide


def _complex_compare(a, b, direction):
    """Complex numbers in order of their real parts, equal ones of their imaginary parts: lexicographically, as NumPy."""
    strict = {"le": "lt", "ge": "gt"}.get(direction, direction)
    first = ops.compare(ops.real(a), ops.real(b), direction=strict)
    tie = ops.compare(ops.real(a), ops.real(b), direction="eq")
    return ops.bitwise_or(first, ops.bitwise_and(tie, ops.compare(ops.imag(a), ops.imag(b), direction=direction)))


def _extremum(op, direction):
    def of(a, b):
        if not _dtypes.is_complex(a.dtype_name):
            return op(a, b)
        first = ops.bitwise_or(ops.compare(a, a, direction="ne"), _complex_compare(a, b, direction))
        return ops.select(ops.bitwise_and(first, ops.compare(b, b, direction="eq")), a,
                          ops.select(ops.compare(a, a, direction="ne"), a, b))
    return of


maximum = _binary("maximum", _extremum(ops.maximum, "ge"), "The greater one; NaN if either is. Complex numbers lexicographically.")
minimum = _binary("minimum", _extremum(ops.minimum, "le"), "The lesser one; NaN if either is. Complex numbers lexicographically.")
arctan2 = _binary("arctan2", ops.atan2, "The angle of the point (x2, x1), in (-pi, pi].", floats=True)
logaddexp = _binary("logaddexp", ops.logaddexp, "ln(e^x1 + e^x2).", floats=True)
bitwise_and = _binary("bitwise_and", ops.bitwise_and, "Bits set in both.")
bitwise_or = _binary("bitwise_or", ops.bitwise_or, "Bits set in either.")
bitwise_xor = _binary("bitwise_xor", ops.bitwise_xor, "Bits set in one of them.")
left_shift = _binary("left_shift", ops.shift_left, "x1 shifted left by x2 bits.")


@at_once(2)
def right_shift(x1, x2):
    """x1 shifted right by x2 bits; copies of the sign come in."""
    a, b = together(x1, x2)
    return ops.shift_right_arithmetic(a, b) if a.dtype_name[0] == "i" else ops.shift_right_logical(a, b)


def bitwise_not(x):
    """Every bit inverted; of a bool its negation."""
    return ops.bitwise_not(as_array(x))


invert = bitwise_not


def power(x1, x2):
    """x1 to the power x2. Integers stay integers; negative powers of theirs are an error, or 0 or 1 where they are not known before the
    graph runs."""
    if is_number(x2) and isinstance(x2, int) and not isinstance(x2, bool) and 0 <= x2 <= 3 and not is_number(x1):
        x = as_array(x1)
        if x.dtype_name != "bool":
            return [lambda: constant_like(x, 1), lambda: x, lambda: ops.square(x), lambda: ops.mul(ops.square(x), x)][x2]()
    a, b = together(x1, x2)
    if a.dtype_name == "bool":
        a, b = convert(a, "i32"), convert(b, "i32")
    is_negative = is_number(x2) and not isinstance(x2, complex) and x2 < 0
    if b.dtype_name in ("i8", "i16", "i32", "i64") and (is_negative or not b.is_traced and b.size and b.numpy().min() < 0):
        raise ValueError("integers to negative powers are no integers; make one of the operands a float")
    return ops.pow(a, b)


@at_once(2)
def remainder(x1, x2):
    """x1 modulo x2, with the sign of x2."""
    a, b = together(x1, x2)
    return ops.floor_mod(a, b)


mod = remainder


@at_once(2)
def fmod(x1, x2):
    """x1 modulo x2, with the sign of x1."""
    a, b = together(x1, x2)
    return ops.rem(a, b)


@at_once(2)
def floor_divide(x1, x2):
    """The largest whole number <= x1 / x2."""
    a, b = together(x1, x2)
    return ops.floor_div(a, b)


_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _beyond(x, number):
    """1 where a Python integer is greater than x's integers can be, -1 where it is less, else 0."""
    if not _dtypes.is_integer(x.dtype_name):
        return 0
    info = np.iinfo(x.dtype)
    return (number > info.max) - (number < info.min)


def _comparison(name, direction, doc):
    def f(x1, x2):
        for x, n, side in ((x1, x2, direction), (x2, x1, _MIRRORED.get(direction, direction))):
            if isinstance(n, int) and not is_number(x) and not isinstance(n, bool):
                outside = _beyond(as_array(x), n)
                if outside:  # every element is less than n, or greater
                    holds = side == "ne" or side[0] == ("l" if outside > 0 else "g")
                    return broadcast_to(as_array(holds), as_array(x).shape)
        a, b = together(x1, x2)
        if direction not in ("eq", "ne") and _dtypes.is_complex(a.dtype_name):
            return _complex_compare(a, b, direction)
        return ops.compare(a, b, direction=direction)
    return documented(f, name, doc, COMPARED, 2)


equal = _comparison("equal", "eq", "x1 == x2.")
not_equal = _comparison("not_equal", "ne", "x1 != x2.")
less = _comparison("less", "lt", "x1 < x2; complex numbers lexicographically.")
less_equal = _comparison("less_equal", "le", "x1 <= x2.")
greater = _comparison("greater", "gt", "x1 > x2.")
greater_equal = _comparison("greater_equal", "ge", "x1 >= x2.")


def truth(x):
    """All but 0 is true."""
    return convert(as_array(x), "bool")


@at_once(2)
def logical_and(x1, x2):
    """Both are true."""
    return ops.bitwise_and(*broadcast_arrays(truth(x1), truth(x2)))


@at_once(2)
def logical_or(x1, x2):
    """One of them is true, or both."""
    return ops.bitwise_or(*broadcast_arrays(truth(x1), truth(x2)))


@at_once(2)
def logical_xor(x1, x2):
    """One of them is true, and not both."""
    return ops.bitwise_xor(*broadcast_arrays(truth(x1), truth(x2)))


@at_once(1)
def logical_not(x):
    """Not true."""
    return ops.bitwise_not(truth(x))


@at_once(1)
def isnan(x):
    """x is NaN, or a part of it is."""
    x = as_array(x)
    return ops.compare(x, x, direction="ne")


@at_once(1)
def isfinite(x):
    """x is neither infinite nor NaN."""
    x = as_array(x)
    if _dtypes.is_complex(x.dtype_name):
        return ops.bitwise_and(ops.is_finite(ops.real(x)), ops.is_finite(ops.imag(x)))
    return ops.is_finite(x) if _dtypes.is_float(x.dtype_name) else constant_like(ops.compare(x, x), True)


@at_once(1)
def isinf(x):
    """x is infinite, or a part of it is."""
    x = as_array(x)
    if not _dtypes.is_inexact(x.dtype_name):
        return constant_like(ops.compare(x, x), False)
    if _dtypes.is_complex(x.dtype_name):
        return ops.bitwise_or(isinf(ops.real(x)), isinf(ops.imag(x)))
    return equal(ops.abs(x), np.inf)


def where(condition, x, y):
    """x where the condition holds, else y."""
    a, b = promoted(x, y)
    c = truth(condition)
    shape = broadcast_shapes(c.shape, a.shape, b.shape)
    return ops.select(broadcast_to(c, shape), broadcast_to(a, shape), broadcast_to(b, shape))


def clip(a, min=None, max=None, out=None, *, a_min=None, a_max=None):
    """Limited to [min, max], which are also called a_min and a_max; None is no limit."""
    no_out(out)
    if min is not None and a_min is not None or max is not None and a_max is not None:
        raise TypeError("min and a_min are one limit, and so are max and a_max; give one of each")
    x, min, max = as_array(a), a_min if min is None else min, a_max if max is None else max
    low, high = _within(min, x), _within(max, x)
    if min is not None:
        x = maximum(x, low)
    if max is not None:
        x = minimum(x, high)
    return x


def _within(bound, x):
    """A Python integer that x's integers cannot hold becomes the nearest that they can."""
    if not (isinstance(bound, int) and _dtypes.is_integer(x.dtype_name)):
        return bound
    info = np.iinfo(x.dtype)
    return builtins.min(builtins.max(bound, int(info.min)), int(info.max))


def real(x):
    """The real part."""
    x = as_array(x)
    return ops.real(x) if _dtypes.is_complex(x.dtype_name) else x


def imag(x):
    """The imaginary part."""
    x = as_array(x)
    return ops.imag(x) if _dtypes.is_complex(x.dtype_name) else constant_like(x, 0)


def conj(x):
    """The complex conjugate."""
    x = as_array(x)
    return ops.complex(ops.real(x), ops.neg(ops.imag(x))) if _dtypes.is_complex(x.dtype_name) else x


conjugate = conj
