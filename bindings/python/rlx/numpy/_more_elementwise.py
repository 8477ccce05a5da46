"""Element-wise functions that are less common, made of the others."""

import math

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from .._control import while_loop
from . import _elementwise as ew


def _real(name, *arrays):
    """The arrays, none of which is complex: such a function has no value there."""
    arrays = [as_array(x) for x in arrays]
    for x in arrays:
        if _dtypes.is_complex(x.dtype_name):
            raise TypeError(f"{name} takes real numbers, got {x.dtype_name}")
    return arrays


def deg2rad(x):
    """Degrees as radians."""
    x = _real("deg2rad", x)[0]
    return ew.multiply(ew.inexact(x), math.pi / 180)


def rad2deg(x):
    """Radians as degrees."""
    x = _real("rad2deg", x)[0]
    return ew.multiply(ew.inexact(x), 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def angle(z, deg=False):
    """The angle of a complex number; 0 or pi of a real one."""
    x = ew.inexact(z)
    a = ew.arctan2(ew.imag(x), ew.real(x))
    return rad2deg(a) if deg else a


def sinc(x):
    """sin(pi x) / (pi x), 1 at 0."""
    x = ew.inexact(x)
    if not _dtypes.is_complex(x.dtype_name):
        return ops.sinc(x)
    zero = ew.equal(x, 0)
    y = ew.multiply(ew.where(zero, ew.constant_like(x, 1), x), math.pi)
    return ew.where(zero, ew.constant_like(x, 1), ew.divide(ew.sin(y), y))


def hypot(x1, x2):
    """sqrt(x1^2 + x2^2), without overflow on the way."""
    _real("hypot", x1, x2)
    a, b = ew.together(x1, x2)
    a, b = ew.abs(ew.inexact(a)), ew.abs(ew.inexact(b))
    large, small = ew.maximum(a, b), ew.minimum(a, b)
    infinite = ew.logical_or(ew.isinf(a), ew.isinf(b))
    safe = ew.where(ew.logical_or(ew.equal(large, 0), ew.isinf(large)), ew.constant_like(large, 1), large)
    made = ew.where(ew.equal(large, 0), large, ew.multiply(large, ew.sqrt(ew.add(ew.square(ew.divide(small, safe)), 1))))
    return ew.where(infinite, ew.constant_like(large, np.inf), made)


def logaddexp2(x1, x2):
    """log2(2^x1 + 2^x2)."""
    _real("logaddexp2", x1, x2)
    a, b = ew.together(x1, x2)
    a, b = ew.inexact(a), ew.inexact(b)
    # From the larger one on; equal ones, infinities among them, are 0 apart.
    apart = ew.where(ew.equal(a, b), ew.constant_like(a, 0), ew.abs(ew.subtract(a, b)))
    return ew.add(ew.maximum(a, b), ew.multiply(ew.log1p(ew.exp2(ew.negative(apart))), 1 / math.log(2)))


def _signs(x):
    """Whether the sign bit is set."""
    x = as_array(x)
    if not _dtypes.is_float(x.dtype_name):
        return ew.less(x, 0)
    bits = _dtypes.bits(x.dtype_name)
    return ew.less(ops.bitcast(x, dtype=f"i{bits}"), 0)


def signbit(x):
    """The sign bit is set: also of -0."""
    return _signs(_real("signbit", x)[0])


def copysign(x1, x2):
    """x1 with the sign of x2."""
    _real("copysign", x1, x2)
    a, b = ew.together(x1, x2)
    a, b = ew.inexact(a), ew.inexact(b)
    magnitude = ew.abs(a)
    return ew.where(_signs(b), ew.negative(magnitude), magnitude)


def fmax(x1, x2):
    """The greater one; a NaN gives way to a number."""
    a, b = ew.together(x1, x2)
    return ew.where(ew.isnan(a), b, ew.where(ew.isnan(b), a, ew.maximum(a, b)))


def fmin(x1, x2):
    """The lesser one; a NaN gives way to a number."""
    a, b = ew.together(x1, x2)
    return ew.where(ew.isnan(a), b, ew.where(ew.isnan(b), a, ew.minimum(a, b)))


def heaviside(x1, x2):
    """0 below 0, 1 above, x2 at 0."""
    _real("heaviside", x1, x2)
    a, b = ew.together(x1, x2)
    a, b = ew.inexact(a), ew.inexact(b)
    step = ew.where(ew.less(a, 0), ew.constant_like(a, 0), ew.where(ew.equal(a, 0), b, ew.constant_like(a, 1)))
    return ew.where(ew.isnan(a), a, step)


def isneginf(x, out=None):
    """x is -inf."""
    ew.no_out(out)
    return ew.equal(ew.inexact(ew.not_complex(x, "isneginf")), -np.inf)


def isposinf(x, out=None):
    """x is inf."""
    ew.no_out(out)
    return ew.equal(ew.inexact(ew.not_complex(x, "isposinf")), np.inf)


def isreal(x):
    """The imaginary part is 0."""
    x = as_array(x)
    return ew.equal(ew.imag(x), 0)


def iscomplex(x):
    """The imaginary part is not 0."""
    return ew.logical_not(isreal(x))


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """NaN and the infinities as numbers: 0, the largest and the lowest of the dtype unless said otherwise. The result is an array
    of its own, as arrays do not change: `copy` may be NumPy's True alone."""
    if copy is not True:
        raise ValueError(f"copy is {copy!r}; arrays do not change, so that nan_to_num makes another one. The number for NaN is nan=...")
    x = as_array(x)
    if not _dtypes.is_inexact(x.dtype_name):
        return x
    if _dtypes.is_complex(x.dtype_name):
        return ops.complex(*[nan_to_num(part, True, nan, posinf, neginf) for part in (ops.real(x), ops.imag(x))])
    _real("nan_to_num", *[each for each in (nan, posinf, neginf) if each is not None])
    largest = float(np.finfo(x.dtype).max) if x.dtype_name != "bf16" else 3.3895313892515355e38
    y = ew.where(ew.isnan(x), ew.constant_like(x, nan), x)
    y = ew.where(ew.equal(x, np.inf), ew.constant_like(x, largest if posinf is None else posinf), y)
    return ew.where(ew.equal(x, -np.inf), ew.constant_like(x, -largest if neginf is None else neginf), y)


def nextafter(x1, x2):
    """The next number after x1 toward x2."""
    a, b = ew.together(x1, x2)
    a, b = ew.inexact(a), ew.inexact(b)
    bits = f"i{_dtypes.bits(a.dtype_name)}"
    whole = ops.bitcast(a, dtype=bits)
    least = ops.bitcast(ew.broadcast_to(as_array(np.ones((), _dtypes.numpy_of(bits))), a.shape), dtype=a.dtype_name)
    away = ew.equal(ew.less(a, 0), ew.less(b, a))  # the magnitude grows
    stepped = ops.bitcast(ew.where(away, ew.add(whole, 1), ew.subtract(whole, 1)), dtype=a.dtype_name)
    from_zero = ew.where(ew.less(b, 0), ew.negative(least), least)
    y = ew.where(ew.equal(a, 0), from_zero, stepped)
    y = ew.where(ew.equal(a, b), b, y)
    y = ew.where(ew.logical_or(ew.isnan(a), ew.isnan(b)), ew.constant_like(a, np.nan), y)
    # Bits have no derivative: y moves with x1, by a difference that is 0.
    finite = ew.where(ew.isfinite(a), a, ew.constant_like(a, 0))
    return ew.subtract(ops.stop_gradient(y), ew.subtract(ops.stop_gradient(finite), finite))


def frexp(x):
    """(m, e) with x = m 2^e, 0.5 <= |m| < 1, and e int32; (0, 0) of 0."""
    x = ew.inexact(ew.not_complex(x, "frexp"))
    if x.dtype_name in ("f16", "bf16"):
        m, e = frexp(convert(x, "f32"))
        return convert(m, x.dtype_name), e
    wide, bias, mantissa = ("i64", 1022, 52) if x.dtype_name == "f64" else ("i32", 126, 23)
    # Subnormal numbers are scaled into the range of the others first.
    tiny = float(np.finfo(x.dtype).tiny)
    small = ew.logical_and(ew.less(ew.abs(x), tiny), ew.not_equal(x, 0))
    scale = 2.0 ** (mantissa + 1)
    y = ew.where(small, ew.multiply(x, scale), x)
    bits = ops.bitcast(y, dtype=wide)
    field = ew.bitwise_and(ew.right_shift(bits, mantissa), (1 << (11 if wide == "i64" else 8)) - 1)
    keep = np.asarray(~(((1 << (11 if wide == "i64" else 8)) - 1) << mantissa), _dtypes.numpy_of(wide))
    half = np.asarray(bias << mantissa, _dtypes.numpy_of(wide))
    m = ops.bitcast(ew.bitwise_or(ew.bitwise_and(bits, keep), half), dtype=x.dtype_name)
    e = ew.subtract(convert(field, "i32"), ew.where(small, bias + mantissa + 1, bias))
    special = ew.logical_or(ew.equal(x, 0), ew.logical_not(ew.isfinite(x)))
    # Bits have no derivative: that of m is 2^-e, put on a difference that is 0.
    slope = ew.exp2(convert(ew.clip(ew.negative(e), -bias, bias), x.dtype_name))
    finite = ew.where(special, ew.constant_like(x, 0), x)
    m = ew.add(ew.where(special, x, ops.stop_gradient(m)), ew.multiply(ew.subtract(finite, ops.stop_gradient(finite)), ops.stop_gradient(slope)))
    return m, ew.where(special, 0, e)


def ldexp(x1, x2):
    """x1 2^x2, for integers x2."""
    _real("ldexp", x1, x2)
    if not _dtypes.is_integer(as_array(x2).dtype_name) and as_array(x2).dtype_name != "bool":
        raise TypeError(f"ldexp takes integers for exponents, got {as_array(x2).dtype_name}")
    x = ew.inexact(x1)
    return ew.multiply(x, ew.exp2(convert(as_array(x2), x.dtype_name)))


def gcd(x1, x2):
    """The greatest common divisor of integers, by Euclid."""
    a, b = ew.together(x1, x2)
    if not _dtypes.is_integer(a.dtype_name):
        raise TypeError(f"gcd takes integers, got {a.dtype_name}")
    a, b = ew.abs(a), ew.abs(b)

    def step(state):
        a, b = state
        done = ew.equal(b, 0)
        safe = ew.where(done, ew.constant_like(b, 1), b)
        return ew.where(done, a, b), ew.where(done, b, ew.fmod(a, safe))

    from ._reductions import any
    return while_loop(lambda s: any(ew.not_equal(s[1], 0)), step, (a, b))[0]


def lcm(x1, x2):
    """The least common multiple of integers."""
    a, b = ew.together(x1, x2)
    d = gcd(a, b)
    zero = ew.equal(d, 0)
    return ew.where(zero, d, ew.multiply(ew.abs(a), ew.floor_divide(ew.abs(b), ew.where(zero, ew.constant_like(d, 1), d))))


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """|a - b| <= atol + rtol |b|; infinities equal themselves."""
    a, b = ew.together(a, b)
    a, b = ew.inexact(a), ew.inexact(b)
    near = ew.less_equal(ew.abs(ew.subtract(a, b)), ew.add(ew.multiply(ew.abs(b), rtol), atol))
    near = ew.logical_or(ew.equal(a, b), ew.logical_and(ew.logical_and(ew.isfinite(a), ew.isfinite(b)), near))
    return ew.logical_or(near, ew.logical_and(ew.isnan(a), ew.isnan(b))) if equal_nan else near


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """isclose everywhere."""
    from ._reductions import all
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1, a2, equal_nan=False):
    """One shape, and equal everywhere."""
    from ._reductions import all
    a, b = as_array(a1), as_array(a2)
    if a.shape != b.shape:
        return as_array(False)
    same = ew.equal(a, b)
    if equal_nan:
        same = ew.logical_or(same, ew.logical_and(ew.isnan(a), ew.isnan(b)))
    return all(same)
