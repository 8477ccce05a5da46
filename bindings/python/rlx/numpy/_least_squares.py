"""Least squares, which polyfit has too, and not linalg alone."""

import numpy as np

from .. import _dtypes, ops
from . import _elementwise as ew
from ._creation import zeros
from ._linear import matmul
from ._reductions import max as max_of, sum
from ._shape import expand_dims, reshape, squeeze


def matrix_of(x, what="a matrix"):
    """x, with at least two dims, of floats."""
    x = ew.inexact(x)
    if x.ndim < 2:
        raise ValueError(f"{what} has at least two dims, got the shape {x.shape}")
    return x


def largest(s):
    """The largest of each row of singular values; 0 where there are none."""
    return max_of(s, axis=-1, keepdims=True) if s.shape[-1] != 0 else zeros((*s.shape[:-1], 1), s.dtype)


def lstsq_solution(a, b, rcond=None):
    """The least-squares solution of least norm of a x = b, alone."""
    a, b = ew.promoted(a, b)
    vector = b.ndim == 1
    x = ops.lstsq(matrix_of(a), expand_dims(ew.inexact(b), 1) if vector else ew.inexact(b), cutoff=-1 if rcond is None else float(rcond))
    return squeeze(x, -1) if vector else x


def lstsq(a, b, rcond=None, *, numpy_resid=False):
    """(x, residuals, rank, singular values): the least-squares solution of least norm of a x = b, the squared lengths of what is left of
    each column of b, and how many singular values exceed rcond times the largest. NumPy has no residuals where the rank is less than
    a's columns or there are no more rows than columns; `numpy_resid` asks for that, which must be known, so not traced."""
    x = lstsq_solution(a, b, rcond)
    a, b = (ew.inexact(v) for v in ew.promoted(a, b))
    s = ops.svd(a, full=False)[1]
    m, n = a.shape[-2:]
    cutoff = max(m, n) * float(np.finfo(s.dtype).eps) if rcond is None or rcond < 0 else float(rcond)
    rank = sum(ew.greater(s, ew.multiply(largest(s), cutoff)), -1)
    if numpy_resid:
        if rank.is_traced:
            raise TypeError("whether there are residuals depends on the rank, which is not known while tracing; leave numpy_resid out")
        if a.ndim == 2 and (int(rank) < n or m <= n):
            return x, zeros((0,), s.dtype), rank, s
    apart = ew.subtract(b, matmul(a, x))
    residuals = sum(ew.square(ew.abs(apart)) if _dtypes.is_complex(apart.dtype_name) else ew.square(apart), -1 if b.ndim == 1 else -2)
    return x, reshape(residuals, (1,)) if b.ndim == 1 else residuals, rank, s
