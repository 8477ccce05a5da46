"""Distributions that are made of normal numbers."""

import operator

from .. import _dtypes, ops
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy._creation import shape_tuple
from .draws import as_parameter, drawn_shape, float_name, normal, rademacher, uniform
from .keys import split_for


def lognormal(key, sigma=1.0, shape=None, dtype="f32", *, algorithm="philox"):
    """e to the power of normal numbers with the standard deviation sigma."""
    dtype = "f32" if dtype is None else _dtypes.name_of(dtype)
    sigma = as_parameter("lognormal", sigma, dtype)
    return ew.exp(normal(key, drawn_shape("lognormal", shape, sigma), dtype, algorithm) * sigma)


def maxwell(key, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the Maxwell distribution: the length of three normal numbers."""
    n = normal(key, shape_tuple(shape) + (3,), float_name("maxwell", dtype), algorithm)
    return ops.norm(n, kind="l2", axes=(-1,))


def double_sided_maxwell(key, loc, scale, shape=(), dtype="f32", *, algorithm="philox"):
    """loc plus scale times a number of the Maxwell distribution with either sign. `shape` goes before that of loc and scale."""
    dtype = float_name("double_sided_maxwell", dtype)
    loc, scale = as_parameter("double_sided_maxwell", loc, dtype), as_parameter("double_sided_maxwell", scale, dtype)
    of_parameters = ew.broadcast_shapes(loc.shape, scale.shape)
    shape = (shape_tuple(shape) or of_parameters) + of_parameters
    lengths, signs = split_for(algorithm, key)
    return rademacher(signs, shape, dtype, algorithm=algorithm) * maxwell(lengths, shape, dtype, algorithm=algorithm) * scale + loc


def wald(key, mean, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the inverse Gaussian distribution of this mean, with scale 1 (Michael, Schucany, Haas 1976)."""
    from .. import numpy as rnp
    dtype = float_name("wald", dtype)
    mean = as_parameter("wald", mean, dtype)
    shape = drawn_shape("wald", shape, mean)
    for_normal, for_uniform = split_for(algorithm, key)
    y = ops.square(normal(for_normal, shape, dtype, algorithm))
    squared = mean * mean
    x = mean + squared * y / 2 - mean / 2 * ops.sqrt(mean * 4 * y + squared * (y * y))
    return rnp.where(uniform(for_uniform, shape, dtype, algorithm=algorithm) <= mean / (mean + x), x, squared / x)


def multivariate_normal(key, mean, cov, shape=None, dtype=None, method="cholesky", *, algorithm="philox"):
    """Normal vectors of these means mean[..., n] with the covariances cov[..., n, n], of which `method` ("cholesky", "eigh", "svd")
    takes a root. `shape` is that of what stands before the n."""
    from .. import linalg, numpy as rnp
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(at_user_line(f"method is {method!r}; it is \"cholesky\", \"eigh\" or \"svd\""))
    mean, cov = ew.promoted(ew.inexact(mean), cov)
    dtype = float_name("multivariate_normal", mean.dtype_name if dtype is None else dtype)
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise Error(at_user_line(f"multivariate_normal takes mean[..., n] and cov[..., n, n], got {mean.shape} and {cov.shape}"),
                    "shape_mismatch")
    batch = drawn_shape("multivariate_normal", shape, mean[..., 0], cov[..., 0, 0])
    if method == "cholesky":
        root = linalg.cholesky(cov)
    else:
        values, vectors = linalg.eigh(cov) if method == "eigh" else linalg.svd(cov)[1::-1]
        root = vectors * ew.sqrt(values)[..., None, :]
    drawn = normal(key, batch + mean.shape[-1:], dtype, algorithm)
    return mean + rnp.matmul(root, drawn[..., None])[..., 0]


def orthogonal(key, n, shape=(), dtype="f32", m=None, *, algorithm="philox"):
    """Matrices of n rows and m columns (None: n) with orthonormal rows or columns, whichever are fewer, uniform over all of them;
    complex ones are unitary (Mezzadri, "How to generate random matrices from the classical compact groups", 2007)."""
    from .. import linalg, numpy as rnp
    dtype = "f32" if dtype is None else _dtypes.name_of(dtype)
    n = operator.index(n)
    m = n if m is None else operator.index(m)
    q, r = linalg.qr(normal(key, shape_tuple(shape) + (max(n, m), min(n, m)), dtype, algorithm))
    q = q * rnp.expand_dims(ew.sign(rnp.diagonal(r, 0, -2, -1)), -2)
    return rnp.swapaxes(q, -1, -2) if n < m else q
