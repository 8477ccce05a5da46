"""Polynomials as vectors of coefficients, the highest power first. Trimming leading zeros depends on the elements, and so does not happen
in what is traced."""

import operator

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from . import _elementwise as ew
from ._creation import arange, ones, zeros
from ._filters import convolve
from ._insertion import trim_zeros
from ._least_squares import lstsq
from ._linear import matmul, outer
from ._more_shape import atleast_1d, diag
from ._reductions import all, argmin, sum
from ._shape import concatenate, expand_dims, reshape


def vander(x, N=None, increasing=False):
    """The powers of each element along a row, N of them (as many as elements for None), the highest first unless `increasing`."""
    x = as_array(x)
    if x.ndim != 1:
        raise ValueError(f"vander takes a vector, got rank {x.ndim}")
    n = x.shape[0] if N is None else operator.index(N)
    if n < 0:
        raise ValueError(f"N is {n}; there are 0 powers or more")
    if x.dtype_name == "bool":
        x = convert(x, "i32")
    # Products, as NumPy has them: exact for integers, and 0 to the power 0 is 1 with a derivative that is a number.
    powers = [ew.constant_like(x, 1)]
    while len(powers) < n:
        powers.append(ew.multiply(powers[-1], x))
    powers = powers[:n] if increasing else powers[:n][::-1]
    return concatenate([expand_dims(p, 1) for p in powers], 1) if n else zeros((x.shape[0], 0), x.dtype)


def _no_tracing(p, name, remedy):
    if p.is_traced:
        raise TypeError(f"how many leading coefficients are 0 is not known while tracing; give {name} {remedy}")


def roots(p, *, strip_zeros=True):
    """The roots, complex, as the eigenvalues of the companion matrix. While tracing, `strip_zeros` must be False: for each leading
    coefficient that is 0 a root is NaN then."""
    p = atleast_1d(ew.inexact(p))
    if p.ndim != 1:
        raise ValueError(f"roots takes the vector of coefficients, got rank {p.ndim}")
    if strip_zeros:
        _no_tracing(p, "roots", "strip_zeros=False, which gives NaN for them")
        p = trim_zeros(p, "f")
        n = p.shape[0]
        p = trim_zeros(p, "b")
        at_zero = n - p.shape[0]  # they make roots that are 0
        made = _eigenvalues(p)
        return concatenate([made, zeros((at_zero,), made.dtype)]) if at_zero else made
    n = p.shape[0]
    if n < 2:
        return _eigenvalues(p)
    leading = ew.where(all(ew.equal(p, 0)), n, argmin(ew.equal(p, 0)))
    p = ew.where(ew.equal(leading, n), 1.0, p)
    made = _eigenvalues(p[ew.remainder(ew.add(arange(n, dtype="i32"), leading), n)])
    # The leading zeros stand at the end now, and make roots that are 0; those of the polynomial itself that are 0 come with them.
    from ._sorting import argsort
    made = made[argsort(ew.equal(made, 0))]
    return ew.where(ew.less(arange(n - 1, dtype="i32"), ew.subtract(n - 1, leading)), made, complex(np.nan, np.nan))


def _eigenvalues(p):
    n = p.shape[0]
    name = p.dtype_name if _dtypes.is_complex(p.dtype_name) else "c128" if p.dtype_name == "f64" else "c64"
    if n < 2:
        return zeros((0,), name)
    p = convert(p, "f32") if p.dtype_name in ("f16", "bf16") else p
    below = diag(ones((n - 2,), p.dtype), -1)
    return ops.eig(below.at[0, :].set(ew.divide(ew.negative(p[1:]), p[0])))[0]


def poly(seq_of_zeros):
    """The coefficients of the polynomial with these roots, or with the eigenvalues of a square matrix."""
    x = atleast_1d(ew.inexact(seq_of_zeros))
    if x.ndim == 2 and x.shape[0] == x.shape[1] and x.shape[0]:
        is_real = not _dtypes.is_complex(x.dtype_name)
        made = poly(ops.eig(x)[0])
        return ew.real(made) if is_real else made  # eigenvalues of real matrices come in conjugate pairs
    if x.ndim != 1:
        raise ValueError(f"poly takes a vector of roots or a square matrix, got the shape {x.shape}")
    made = ones((1,), x.dtype)
    for k in range(x.shape[0]):
        made = convolve(made, concatenate([ones((1,), x.dtype), ew.negative(x[k: k + 1])]))
    return made if x.shape[0] else reshape(made, ())


def polyval(p, x, *, unroll=16):
    """The value at x, by Horner's rule. `unroll`, of JAX's loop, makes no difference."""
    p, x = ew.promoted(p, x)
    p = atleast_1d(p)
    shape = ew.broadcast_shapes(p.shape[1:], x.shape)
    made, x = zeros(shape, x.dtype), ew.broadcast_to(x, shape)
    for k in range(p.shape[0]):
        made = ew.add(ew.multiply(made, x), p[k])
    return made


def polyadd(a1, a2):
    """The sum."""
    a, b = (atleast_1d(x) for x in ew.promoted(a1, a2))
    n = max(a.shape[0], b.shape[0])
    a, b = (concatenate([zeros((n - x.shape[0],), x.dtype), x]) for x in (a, b))
    return ew.add(a, b)


def polysub(a1, a2):
    """The difference."""
    a, b = (atleast_1d(x) for x in ew.promoted(a1, a2))
    return polyadd(a, ew.negative(b))


def polymul(a1, a2, *, trim_leading_zeros=False):
    """The product; without leading zeros of the factors where that is asked for, which must be known then, so not traced."""
    a, b = (atleast_1d(x) for x in ew.promoted(a1, a2))
    if trim_leading_zeros:
        a, b = (_trimmed(x, "polymul") for x in (a, b))
    a, b = (x if x.shape[0] else zeros((1,), x.dtype) for x in (a, b))
    return convolve(a, b)


def _trimmed(x, name):
    _no_tracing(x, name, "trim_leading_zeros=False")
    return trim_zeros(x, "f")


def polydiv(u, v, *, trim_leading_zeros=False):
    """(the quotient, the remainder). The remainder has u's length; without leading zeros where that is asked for, which must be known
    then, so not traced: coefficients that are less than the root of the dtype's eps count as 0."""
    u, v = (atleast_1d(ew.inexact(x)) for x in ew.promoted(u, v))
    if u.ndim > 1 or v.ndim > 1 or not v.shape[0]:
        raise ValueError(f"polydiv takes coefficients, arrays of rank 1, and divides by one or more, got the shapes {u.shape} and {v.shape}")
    m, n = u.shape[0] - 1, v.shape[0] - 1
    quotient = []
    for k in range(m - n + 1):
        d = ew.divide(u[k], v[0])
        quotient.append(reshape(d, (1,)))
        u = u.at[k: k + n + 1].add(ew.negative(ew.multiply(d, v)))
    if trim_leading_zeros:
        _no_tracing(u, "polydiv", "trim_leading_zeros=False")
        small = np.abs(u.numpy()) <= np.sqrt(np.finfo(u.dtype).eps)
        kept = np.flatnonzero(~small)
        u = u[(kept[0] if kept.size else u.shape[0] - 1):]
    return (concatenate(quotient) if quotient else zeros((1,), u.dtype)), u


def _order(m, name):
    m = operator.index(m)
    if m < 0:
        raise ValueError(f"m is {m}; {name} takes 0 or more times")
    return m


def _falling(powers, m):
    """j (j - 1) ... of at most m factors from each power j down to 1. More than 171 of them are infinite in float64."""
    factors = np.ones_like(powers)
    with np.errstate(over="ignore"):
        for i in range(min(m, 171)):
            factors *= np.maximum(powers - i, 1)
    return factors


def polyder(p, m=1):
    """The m-th derivative, in floats."""
    p, m = atleast_1d(ew.inexact(p)), _order(m, "polyder")
    n = p.shape[0]
    if m == 0:
        return p
    if n <= m:
        return zeros((0,), p.dtype)
    powers = np.arange(n - 1, m - 1, -1, dtype=np.float64)  # of what is left of it
    factors = _falling(powers, m)
    return ew.multiply(p[: n - m], convert(as_array(factors), p.dtype_name))


def polyint(p, m=1, k=None):
    """The m-th integral, in floats; k are the constants, in the order in which they come, or one for all."""
    m = _order(m, "polyint")
    p, k = (atleast_1d(ew.inexact(x)) for x in ew.promoted(p, 0 if k is None else k if not isinstance(k, (list, tuple)) else as_array(list(k))))
    if k.shape == (1,):
        k = ew.broadcast_to(k, (m,))
    if k.shape != (m,):
        raise ValueError(f"k is one constant, or {m} of them, got the shape {k.shape}")
    if m == 0:
        return p
    n = p.shape[0] + m
    # What stands for the power j in the end was divided by j, j - 1, ..., as often as it was integrated.
    powers = np.arange(n - 1, -1, -1, dtype=np.float64)
    factors = _falling(powers, m)
    return ew.divide(concatenate([p, k]), convert(as_array(factors), p.dtype_name))


def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """The coefficients of the polynomial of degree `deg` that is nearest to the points, by least squares; w are weights of the distances.
    With `full` also residuals, rank, singular values and rcond; with `cov` also their covariance matrix, "unscaled" if it says so."""
    deg = operator.index(deg)
    if deg < 0:
        raise ValueError(f"deg is {deg}; it is 0 or more")
    x, y = (ew.inexact(v) for v in ew.promoted(x, y))
    if x.ndim != 1 or not x.shape[0]:
        raise TypeError(f"x is a vector with elements, got the shape {x.shape}")
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise TypeError(f"y is a vector, or vectors as columns, as long as x, got the shapes {y.shape} and {x.shape}")
    n, order = x.shape[0], deg + 1
    rcond = n * float(_dtypes.finfo(x.dtype).eps) if rcond is None else float(rcond)
    lhs, rhs = vander(x, order), y
    if w is not None:
        w = convert(as_array(w), x.dtype_name)
        if w.shape != (n,):
            raise TypeError(f"w has a weight for each of the {n} points, got the shape {w.shape}")
        lhs = ew.multiply(lhs, expand_dims(w, 1))
        rhs = ew.multiply(rhs, expand_dims(w, 1) if rhs.ndim == 2 else w)
    scale = ew.sqrt(sum(ew.square(ew.abs(lhs)), 0))  # columns of one length are better conditioned
    lhs = ew.divide(lhs, scale)
    c, residuals, rank, s = lstsq(lhs, rhs, rcond)
    c = ew.divide(c, expand_dims(scale, 1) if c.ndim == 2 else scale)
    if full:
        return c, residuals, rank, s, as_array(rcond, s.dtype_name)
    if cov is False:
        return c
    base = ew.divide(ops.inverse(matmul(lhs.T, lhs)), outer(scale, scale))
    if cov == "unscaled":
        factor = as_array(1.0, base.dtype_name)
    elif n <= order:
        raise ValueError(f"a covariance that is scaled takes more than {order} points, got {n}")
    else:
        factor = ew.divide(residuals, n - order)
    if y.ndim == 1:
        return c, ew.multiply(base, factor if factor.ndim == 0 else factor[0])
    return c, ew.multiply(expand_dims(base, 2), factor)
