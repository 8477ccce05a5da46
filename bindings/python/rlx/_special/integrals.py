"""Integrals of elementary functions: exponential, sine, cosine, Fresnel's, Dawson's, Owen's, the dilogarithm, and functions close to
them. Near 0 by series or by Gauss's rule, far out by continued fractions or asymptotic series (NIST Handbook of Mathematical Functions, chapters 6 to 8 and 25)."""

import math
import operator

import numpy as np

from .. import ops
from .._native import at_user_line
from ..numpy import _elementwise as ew
from .shared import floats, in_f32

EULER = 0.5772156649015329


def _sum_of(term, x, count):
    """The sum over k from 1 on of t_k / k, t_k = t_(k - 1) term / k, t_0 = 1."""
    from .. import numpy as rnp
    from .._control import scan

    def step(state, k):
        power, total = state
        power = power * term / k
        return (power, total + power / k), None

    k = np.arange(1, count + 1).astype(x.dtype)
    return scan(step, (rnp.ones_like(x), rnp.zeros_like(x)), k)[0][1]


def _exponential_fraction(n, x, steps):
    """e^x E_n(x) by its continued fraction, from the inside out."""
    made = x
    for k in range(steps, 0, -1):
        made = x + (n + (k - 1)) / (1 + k / made)
    return 1 / made


def exp1(x):
    """The integral of e^-t / t from x on, for x >= 0; infinite at 0, NaN below."""
    from .. import numpy as rnp

    @in_f32
    def of(x):
        is_near = x < 2
        near, far = rnp.where(is_near & (x > 0), x, 1), rnp.where(is_near, 2, x)
        series = -EULER - ops.log(near) - _sum_of(-near, near, 40)
        fraction = ops.exp(-far) * _exponential_fraction(rnp.ones_like(far), far, 60)
        made = rnp.where(is_near, series, rnp.where(x == np.inf, 0.0, fraction))
        return rnp.where(x == 0, np.inf, rnp.where(x < 0, np.nan, made))

    return of(*floats(x))


def expi(x):
    """The principal value of the integral of e^t / t up to x; -infinite at 0."""
    from .. import numpy as rnp

    @in_f32
    def of(x):
        border = 40.0 if x.dtype_name == "f64" else 20.0
        is_far = x > border
        near, far = rnp.where((x > 0) & ~is_far, x, 1), rnp.where(is_far, x, border)
        series = EULER + ops.log(near) + _sum_of(near, near, 150 if x.dtype_name == "f64" else 80)
        total = rnp.ones_like(far)
        for k in range(int(border) - 2, 0, -1):
            total = 1 + k / far * total
        made = rnp.where(is_far, ops.exp(far) / far * total, series)
        made = rnp.where(x < 0, -exp1(rnp.where(x < 0, -x, 1)), made)
        return rnp.where(x == 0, -np.inf, made)

    return of(*floats(x))


def expn(n, x):
    """The integral of e^(-x t) / t^n from 1 on, for whole numbers n >= 0 and x >= 0; NaN for others."""
    from .. import numpy as rnp
    from .._control import scan

    @in_f32
    def of(n, x):
        is_good = (n >= 0) & (x >= 0) & (n == ops.floor(n))
        m = rnp.where(is_good & (n > 0), n, 1)
        is_near = x < 1
        near, far = rnp.where(is_near & (x > 0), x, 0.5), rnp.where(is_near, 1, x)
        fraction = ops.exp(-far) * _exponential_fraction(m, far, 120 if x.dtype_name == "f64" else 60)

        def step(state, k):
            power, total = state
            is_pole = k == m - 1
            total = total - rnp.where(is_pole, 0, power / rnp.where(is_pole, 1, k - m + 1))
            return (power * -near / (k + 1), total), None

        series = scan(step, (rnp.ones_like(near), rnp.zeros_like(near)), np.arange(30).astype(x.dtype))[0][1]
        sign = rnp.where(ops.rem(m, ew.constant_like(m, 2)) == 0, -1.0, 1.0)
        pole = sign * ops.exp((m - 1) * ops.log(near) - ops.lgamma(m)) * (ops.digamma(m) - ops.log(near))
        made = rnp.where(is_near, series + pole, rnp.where(x == np.inf, 0.0, fraction))
        made = rnp.where(x == 0, rnp.where(m > 1, 1 / rnp.where(m > 1, m - 1, 1), np.inf), made)
        is_zeroth = n == 0
        made = rnp.where(is_zeroth, ops.exp(-x) / x, made)
        return rnp.where(is_good, made, np.nan)

    return of(*floats(n, x))


def spence(x):
    """The dilogarithm of 1 - x: the integral of ln t / (1 - t) from 1 to x; NaN below 0."""
    from .. import numpy as rnp

    @in_f32
    def of(x):
        is_large = x > 1
        y = rnp.where(is_large, 1 / rnp.where(is_large, x, 1), x)
        is_small = y < 0.5
        inside = rnp.where(is_small, 1 - y, y)
        u = -ops.log(inside)
        square = ops.square(u)
        # The sum of B_k u^(k + 1) / (k + 1)!, which converges for |u| < 2 pi; here |u| is at most ln 2.
        total = rnp.zeros_like(u)
        for k, b in reversed([(2, 1 / 6), (4, -1 / 30), (6, 1 / 42), (8, -1 / 30), (10, 5 / 66), (12, -691 / 2730), (14, 7 / 6)]):
            total = (total + b / math.factorial(k + 1)) * square
        made = u * (1 - u / 4 + total)
        log_y = ops.log(rnp.where(y > 0, y, 1))
        made = rnp.where(is_small, math.pi**2 / 6 - log_y * ops.log1p(-rnp.where(is_small & (y > 0), y, 0)) - made, made)
        made = rnp.where(is_large, -made - ops.square(log_y) / 2, made)
        return rnp.where(x < 0, np.nan, rnp.where(x == 0, math.pi**2 / 6, made))

    return of(*floats(x))


def dawsn(x):
    """e^-x^2 times the integral of e^t^2 from 0 to x (Rybicki, "Dawson's integral and the sampling theorem", 1989)."""
    from .. import numpy as rnp

    @in_f32
    def of(x):
        h = 0.25  # the error is of the order e^-(pi / 2 h)^2
        size = ops.abs(x)
        is_near, is_far = size < 0.3, size > 1e4
        near, middle = rnp.where(is_near, x, 0), rnp.where(is_near | is_far, 1, size)
        square, series = ops.square(near), rnp.ones_like(x)
        for k in range(12, 0, -1):
            series = 1 - 2 * square / (2 * k + 1) * series
        even = 2 * ops.stop_gradient(ops.round_nearest_even(middle / (2 * h)))
        offset = middle - even * h
        total = rnp.zeros_like(x)
        for k in range(-27, 28, 2):
            total = total + ops.exp(-ops.square(offset - k * h)) / (even + k)
        far = 0.5 / rnp.where(is_far, size, 1)
        return rnp.where(is_near, near * series, ops.sign(x) * rnp.where(is_far, far, total / math.sqrt(math.pi)))

    return of(*floats(x))


def _by_gauss(f, x, count):
    """The integral of f from 0 to x by Gauss's rule."""
    from .. import numpy as rnp
    places, weights = np.polynomial.legendre.leggauss(count)
    t = rnp.expand_dims(x, -1) * ((places + 1) / 2).astype(x.dtype)
    return x * rnp.sum(f(t) * (weights / 2).astype(x.dtype), -1)


def _auxiliary(w, first, ratios, count):
    """first times the alternating sum of products of ratios(k) w: an asymptotic series from the inside out."""
    total = 1.0
    for k in range(count, 0, -1):
        total = 1 - ratios(k) * w * total
    return first * total


def fresnel(x):
    """(the integral of sin(pi t^2 / 2), that of cos(pi t^2 / 2)) from 0 to x."""
    from .. import numpy as rnp

    @in_f32
    def of(x):
        size = ops.abs(x)
        is_far = size > 5
        near, far = rnp.where(is_far, 0, size), rnp.where(is_far, rnp.minimum(size, 1e15), 5)
        sine = _by_gauss(lambda t: ops.sin(math.pi / 2 * ops.square(t)), near, 64)
        cosine = _by_gauss(lambda t: ops.cos(math.pi / 2 * ops.square(t)), near, 64)
        w = 1 / ops.square(math.pi * ops.square(far))
        f = _auxiliary(w, 1 / (math.pi * far), lambda k: (4 * k - 3) * (4 * k - 1), 12)
        g = _auxiliary(w, 1 / (math.pi**2 * far * far * far), lambda k: (4 * k - 1) * (4 * k + 1), 12)
        # far^2 / 4 loses whole turns first, so that the angle keeps its digits.
        turns = ops.rem(ops.square(far), ew.constant_like(far, 4))
        s, c = ops.sin(math.pi / 2 * turns), ops.cos(math.pi / 2 * turns)
        sine = rnp.where(is_far, 0.5 - f * c - g * s, sine)
        cosine = rnp.where(is_far, 0.5 + f * s - g * c, cosine)
        return ops.sign(x) * sine, ops.sign(x) * cosine

    return of(*floats(x))


def sici(x):
    """(the integral of sin t / t from 0 to x, Euler's number + ln |x| + the integral of (cos t - 1) / t); the second is NaN below 0."""
    from .. import numpy as rnp

    @in_f32
    def of(x):
        size = ops.abs(x)
        border = 40.0 if x.dtype_name == "f64" else 20.0
        is_far = size > border
        near, far = rnp.where(is_far, 0, size), rnp.where(is_far, rnp.minimum(size, 1e30 if x.dtype_name == "f64" else 1e15), border)
        sine = _by_gauss(lambda t: rnp.sinc(t / math.pi), near, 64)
        # (cos t - 1) / t = -sin(t / 2) sinc(t / 2), without the difference.
        cosine = EULER + ops.log(rnp.where(near > 0, near, 1)) - _by_gauss(lambda t: ops.sin(t / 2) * rnp.sinc(t / (2 * math.pi)), near, 64)
        w = 1 / ops.square(far)
        f = _auxiliary(w, 1 / far, lambda k: (2 * k - 1) * (2 * k), 18 if x.dtype_name == "f64" else 8)
        g = _auxiliary(w, w, lambda k: (2 * k) * (2 * k + 1), 18 if x.dtype_name == "f64" else 8)
        s, c = ops.sin(far), ops.cos(far)
        sine = rnp.where(is_far, math.pi / 2 - f * c - g * s, sine)
        cosine = rnp.where(is_far, f * s - g * c, cosine)
        cosine = rnp.where(x == 0, -np.inf, rnp.where(x < 0, np.nan, cosine))
        return ops.sign(x) * sine, rnp.where(x == np.inf, 0.0, cosine)

    return of(*floats(x))


def owens_t(h, a):
    """The integral of e^(-h^2 (1 + x^2) / 2) / (1 + x^2) from 0 to a, over 2 pi (Owen, "Tables for computing bivariate normal
    probabilities", 1956)."""
    from .. import numpy as rnp

    @in_f32
    def of(h, a):
        height, size = ops.abs(h), ops.abs(a)
        is_large = size > 1
        # Of an a above 1 from that of 1 / a and a h, by Owen's equation 2.3.
        b = rnp.where(is_large, 1 / rnp.where(is_large, size, 1), size)
        k = rnp.where(is_large, size * height, height)
        inner = _by_gauss(lambda x: ops.exp(-ops.square(rnp.expand_dims(k, -1)) * (1 + ops.square(x)) / 2) / (1 + ops.square(x)), b, 40) / (2 * math.pi)
        p, q = ops.erfc(height / math.sqrt(2)), ops.erfc(k / math.sqrt(2))
        made = rnp.where(is_large, (p + q - p * q) / 4 - inner, inner)
        return rnp.where(a < 0, -made, made)

    return of(*floats(h, a))


def _faddeeva_coefficients(n):
    """The polynomial of Weideman's rational approximation, the highest power first, and its scale."""
    m, scale = 2 * n, math.sqrt(n / math.sqrt(2))
    t = scale * np.tan(np.arange(-m + 1, m) * math.pi / m / 2)
    values = np.concatenate([[0], np.exp(-t * t) * (scale * scale + t * t)])
    return np.real(np.fft.fft(np.fft.fftshift(values)))[1:n + 1][::-1] / (2 * m), scale


def wofz(z):
    """Faddeeva's function e^(-z^2) erfc(-i z), complex (Weideman, "Computation of the complex error function", 1994)."""
    from .. import numpy as rnp
    z = ew.inexact(z)
    if not z.dtype_name.startswith("c"):
        z = ops.complex(z, rnp.zeros_like(z))
    is_below = ops.imag(z) < 0
    above = rnp.where(is_below, -z, z)  # of the half plane where it is bounded
    coefficients, scale = _faddeeva_coefficients(48)
    turned = ops.complex(-ops.imag(above), ops.real(above))  # i z
    under = 1 / (scale - turned)
    ratio = (scale + turned) * under
    total = ratio * 0
    for c in coefficients:
        total = total * ratio + float(c)
    made = 2 * total * under * under + under / math.sqrt(math.pi)
    return rnp.where(is_below, 2 * ew.exp(-above * above) - made, made)


def bessel_jn(z, *, v, n_iter=50):
    """The Bessel functions of the first kind of orders 0 to v, along a new first dim, for real z. They come by Miller's backward recurrence
    from the order n_iter, which must be well above |z| and v."""
    from .. import numpy as rnp
    v, n_iter = operator.index(v), operator.index(n_iter)
    if not 0 <= v < n_iter:
        raise ValueError(at_user_line(f"bessel_jn takes 0 <= v < n_iter, got v {v} and n_iter {n_iter}"))
    z, = floats(z)
    is_zero = z == 0
    x = rnp.where(is_zero, 1, z)
    limit = 1e-30 if z.dtype_name == "f64" else 1e-10
    above, here, kept, total = rnp.zeros_like(x), ew.constant_like(x, limit), {}, rnp.zeros_like(x)
    for n in range(n_iter, 0, -1):
        above, here = here, (2 * n / x) * here - above  # here is of the order n - 1
        is_large = ops.abs(here) > 1 / limit
        shrink = rnp.where(is_large, limit, 1)
        above, here, total = above * shrink, here * shrink, total * shrink
        kept = {k: y * shrink for k, y in kept.items()}
        if n - 1 <= v:
            kept[n - 1] = here
        if (n - 1) % 2 == 0:
            total = total + (here if n == 1 else 2 * here)
    return rnp.stack([rnp.where(is_zero, 1.0 if k == 0 else 0.0, kept[k] / total) for k in range(v + 1)])
