"""Linear algebra as numpy.linalg has it, on stacks of matrices: batch dims stand in front. Integers become float32."""

import collections
import functools
import operator

import numpy as np

from . import _dtypes, ops
from ._array import as_array
from . import numpy as rnp
from .numpy._elementwise import inexact, promoted
from .numpy._linear import matmul, tensordot  # noqa: F401: the module's own, too
from .numpy._products import matrix_transpose, vecdot  # noqa: F401

LinAlgError = np.linalg.LinAlgError
QRResult = collections.namedtuple("QRResult", "Q R")
SVDResult = collections.namedtuple("SVDResult", "U S Vh")
EighResult = collections.namedtuple("EighResult", "eigenvalues eigenvectors")
EigResult = collections.namedtuple("EigResult", "eigenvalues eigenvectors")
SlogdetResult = collections.namedtuple("SlogdetResult", "sign logabsdet")


def _matrix(x, what="a matrix"):
    x = inexact(x)
    if x.ndim < 2:
        raise ValueError(f"{what} has at least two dims, got the shape {x.shape}")
    return x


def cholesky(a, upper=False, symmetrize_input=True):
    """L with a = L Lᴴ, lower triangular (U with a = Uᴴ U where `upper`); NaN where a is not positive definite.

    (a + aᴴ) / 2 is decomposed, as in jax.numpy.linalg, so that the gradient is symmetric; with `symmetrize_input` False only the
    lower triangle of a is read (the upper one where `upper`), and the gradient is that of the triangle.
    """
    a = _matrix(a)
    if symmetrize_input:
        a = rnp.multiply(rnp.add(a, rnp.conj(rnp.swapaxes(a, -1, -2))), 0.5)
    return ops.cholesky(a, lower=not upper, reads="upper" if upper else "lower")


def qr(a, mode="reduced"):
    """(Q, R) with a = Q R. mode: reduced, complete, or r for R alone."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"mode is {mode!r}; it is reduced, complete or r")
    q, r = ops.qr(_matrix(a), full=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def _hermitian_svd(a):
    """By the eigenvalues: their magnitudes in descending order, and the vectors with the signs on one side."""
    values, vectors = eigh(a)
    s = rnp.abs(values)
    order = rnp.argsort(s, -1, descending=True)
    s, sign = rnp.take_along_axis(s, order, -1), rnp.take_along_axis(rnp.where(rnp.less(values, 0), -1, rnp.ones_like(values)), order, -1)
    u = rnp.take_along_axis(vectors, rnp.expand_dims(order, -2), -1)
    return u, s, _adjoint(rnp.multiply(u, rnp.expand_dims(sign, -2)))


def _adjoint(m):
    return rnp.conj(rnp.swapaxes(m, -1, -2))


def svd(a, full_matrices=True, compute_uv=True, hermitian=False, subset_by_index=None):
    """(U, S, Vh) with a = U diag(S) Vh; S descending. S alone where not `compute_uv`. Of a `hermitian` matrix by its eigenvalues.
    `subset_by_index`, (first, end), leaves out the other singular values, and their vectors, which are then not full."""
    u, s, vh = _hermitian_svd(a) if hermitian else ops.svd(_matrix(a), full=full_matrices and compute_uv)
    if subset_by_index is not None:
        first, end = (operator.index(i) for i in subset_by_index)
        n = s.shape[-1]
        if not 0 <= first < end <= n:
            raise ValueError(f"subset_by_index is {subset_by_index!r}; it is (first, end) with 0 <= first < end <= {n}")
        if compute_uv and full_matrices and (first, end) != (0, n):
            raise ValueError("a subset has no full matrices; give full_matrices=False")
        if (first, end) != (0, n):
            u, s, vh = u[..., :, first:end], s[..., first:end], vh[..., first:end, :]
    return SVDResult(u, s, vh) if compute_uv else s


def svdvals(a):
    """The singular values, descending."""
    return svd(a, compute_uv=False)


def eigh(a, UPLO="L", symmetrize_input=False):
    """(values, vectors) of a Hermitian matrix, ascending; the vectors are columns. UPLO: which triangle is read, as in NumPy. With
    `symmetrize_input`, which is JAX's default, (a + aᴴ) / 2 is decomposed."""
    a, UPLO = _matrix(a), "L" if UPLO is None else UPLO
    if UPLO not in ("L", "U"):
        raise ValueError(f"UPLO is {UPLO!r}; it is L or U")
    if symmetrize_input:
        a = rnp.multiply(rnp.add(a, _adjoint(a)), 0.5)
    return EighResult(*ops.eigh(a, reads="lower" if UPLO == "L" else "upper"))


def eigvalsh(a, UPLO="L", *, symmetrize_input=False):
    """The eigenvalues of a Hermitian matrix, ascending."""
    return eigh(a, UPLO, symmetrize_input)[0]


def eig(a):
    """(values, vectors) of any square matrix, complex; the vectors are columns."""
    return EigResult(*ops.eig(_matrix(a)))


def eigvals(a):
    """The eigenvalues of any square matrix, complex."""
    return eig(a)[0]


def lu(a):
    """(packed lu, pivots, permutation), 0-based: U and below it L without its diagonal of ones; a[permutation] = L U."""
    return ops.lu(_matrix(a))


def solve(a, b):
    """x with a x = b. b of rank 1 is a vector; otherwise its last two dims are a matrix (of one rank less than a: as
    NumPy 2, a stack of matrices)."""
    a, b = promoted(a, b)
    a, b = _matrix(a), inexact(b)
    if b.ndim == 1:
        batch = a.shape[:-2]
        x = ops.solve(a, rnp.broadcast_to(rnp.expand_dims(b, 1), batch + (b.shape[0], 1)))
        return rnp.squeeze(x, -1)
    batch = rnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return ops.solve(rnp.broadcast_to(a, batch + a.shape[-2:]), rnp.broadcast_to(b, batch + b.shape[-2:]))


def solve_triangular(a, b, lower=False, trans=0, unit_diagonal=False):
    """x with a x = b for a triangular a; the other triangle is not read. trans: 0, 1 or "T", 2 or "C"."""
    a, b = promoted(a, b)
    a, b = _matrix(a), inexact(b)
    vector = b.ndim == a.ndim - 1 and b.ndim == 1
    if vector:
        b = rnp.expand_dims(b, 1)
    batch = rnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    kind = {0: "none", "N": "none", 1: "transpose", "T": "transpose", 2: "adjoint", "C": "adjoint"}[trans]
    x = ops.triangular_solve(rnp.broadcast_to(a, batch + a.shape[-2:]), rnp.broadcast_to(b, batch + b.shape[-2:]), lower=lower,
                             transposition=kind, unit_diagonal=unit_diagonal)
    return rnp.squeeze(x, -1) if vector else x


def inv(a):
    """The inverse."""
    return ops.inverse(_matrix(a))


def _largest(s):
    """The largest of each row of singular values; 0 where there are none."""
    return rnp.max(s, axis=-1, keepdims=True) if s.shape[-1] != 0 else rnp.zeros((*s.shape[:-1], 1), s.dtype)


def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    """The Moore-Penrose inverse; singular values below rcond times the largest count as 0. `rcond`, which is also called `rtol`, is a
    number, or an array with one for each matrix of a stack, which may be traced. Of a `hermitian` matrix by its eigenvalues."""
    if rcond is not None and rtol is not None:
        raise ValueError("rcond and rtol are one number; give one of them")
    a, rcond = _matrix(a), rtol if rcond is None else rcond
    if not hermitian and (rcond is None or isinstance(rcond, (int, float))):
        return ops.pinv(a, cutoff=-1 if rcond is None else float(rcond))
    if rcond is None:
        rcond = 10 * max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)  # that of jax.numpy.linalg.pinv
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    least = rnp.multiply(rnp.expand_dims(rnp.astype(rcond, s.dtype), -1), _largest(s))
    counts = rnp.greater(s, least)
    inverse = rnp.where(counts, rnp.reciprocal(rnp.where(counts, s, 1)), 0)
    return matmul(rnp.multiply(_adjoint(vh), rnp.expand_dims(inverse, -2)), _adjoint(u))


def _least_squares(a, b, rcond=None):
    """The solution alone of `lstsq`."""
    a, b = promoted(a, b)
    vector = b.ndim == 1
    x = ops.lstsq(_matrix(a), rnp.expand_dims(inexact(b), 1) if vector else inexact(b), cutoff=-1 if rcond is None else float(rcond))
    return rnp.squeeze(x, -1) if vector else x


def lstsq(a, b, rcond=None, *, numpy_resid=False):
    """(x, residuals, rank, singular values): the least-squares solution of least norm of a x = b, the squared lengths of what is left of
    each column of b, and how many singular values exceed rcond times the largest. NumPy has no residuals where the rank is less than
    a's columns or there are no more rows than columns; `numpy_resid` asks for that, which must be known, so not traced."""
    x = _least_squares(a, b, rcond)
    a, b = (inexact(v) for v in promoted(a, b))
    s = svdvals(a)
    m, n = a.shape[-2:]
    cutoff = max(m, n) * float(np.finfo(s.dtype).eps) if rcond is None or rcond < 0 else float(rcond)
    rank = rnp.sum(rnp.greater(s, rnp.multiply(_largest(s), cutoff)), -1)
    if numpy_resid:
        if rank.is_traced:
            raise TypeError("whether there are residuals depends on the rank, which is not known while tracing; leave numpy_resid out")
        if a.ndim == 2 and (int(rank) < n or m <= n):
            return x, rnp.zeros((0,), s.dtype), rank, s
    apart = rnp.subtract(b, matmul(a, x))
    residuals = rnp.sum(rnp.square(rnp.abs(apart)) if _dtypes.is_complex(apart.dtype_name) else rnp.square(apart), -1 if b.ndim == 1 else -2)
    return x, rnp.reshape(residuals, (1,)) if b.ndim == 1 else residuals, rank, s


def det(a):
    """The determinant."""
    return ops.det(_matrix(a))


def slogdet(a, *, method=None):
    """(sign, log) with det a = sign e^log, by LU, which is the one `method`."""
    if method not in (None, "lu"):
        raise ValueError(f"method is {method!r}; it is lu")
    return SlogdetResult(*ops.slogdet(_matrix(a)))


def householder_product(a, tau):
    """The product of the reflections that the columns of a below the diagonal and tau describe: LAPACK's orgqr."""
    a, tau = promoted(a, tau)
    return ops.householder_product(_matrix(a), inexact(tau))


def expm(a):
    """e^a, the exponential of a matrix."""
    return ops.expm(_matrix(a))


def matrix_power(a, n):
    """a multiplied by itself, n - 1 times; the identity for 0, powers of the inverse for negative n."""
    a = as_array(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"matrix_power takes square matrices, got the shape {a.shape}")
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else matmul(result, a)
        n >>= 1
        if n:
            a = matmul(a, a)
    return rnp.broadcast_to(rnp.eye(a.shape[-1], dtype=a.dtype), a.shape) if result is None else result


def multi_dot(arrays):
    """The product of several matrices, in the order that needs the fewest multiplications."""
    arrays = [as_array(x) for x in arrays]
    if len(arrays) < 2:
        raise ValueError(f"multi_dot takes two arrays or more, got {len(arrays)}")
    rows = 1 if arrays[0].ndim == 1 else arrays[0].shape[0]
    sizes = [rows] + [x.shape[0] if x.ndim == 1 else x.shape[1] for x in arrays]
    if arrays[0].ndim == 1:
        sizes[1] = arrays[0].shape[0]
    if arrays[-1].ndim == 1:
        sizes[-1] = 1

    @functools.lru_cache(None)
    def best(i, j):
        if i == j:
            return 0, i
        return min((best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        if i == j:
            return arrays[i]
        k = best(i, j)[1]
        return matmul(product(i, k), product(k + 1, j))

    return product(0, len(arrays) - 1)


def tensorsolve(a, b, axes=None):
    """x with tensordot(a, x, x.ndim) = b."""
    a, b = promoted(a, b)
    if axes is not None:
        rest = [d for d in range(a.ndim) if d not in [x % a.ndim for x in axes]]
        a = rnp.transpose(a, rest + [x % a.ndim for x in axes])
    shape = a.shape[b.ndim:]
    return rnp.reshape(solve(rnp.reshape(a, (b.size, int(np.prod(shape)))), rnp.ravel(b)), shape)


def tensorinv(a, ind=2):
    """The inverse of a with respect to tensordot over its first `ind` dims."""
    a = inexact(a)
    if ind <= 0:
        raise ValueError(f"ind is {ind}; it is at least 1")
    head, tail = a.shape[:ind], a.shape[ind:]
    return rnp.reshape(inv(rnp.reshape(a, (int(np.prod(head)), int(np.prod(tail))))), tail + head)


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors or matrices, as numpy.linalg.norm."""
    x = inexact(x)
    size = rnp.abs(x)
    if ord is None or (ord == 2 and isinstance(axis, int)) or (ord == 2 and axis is None and x.ndim == 1) or ord == "fro":
        return rnp.sqrt(rnp.sum(rnp.square(size), axis, keepdims=keepdims))
    axes = (axis,) if isinstance(axis, int) else tuple(range(x.ndim)) if axis is None else tuple(axis)
    if len(axes) == 1:
        if ord == np.inf:
            return rnp.max(size, axes, keepdims=keepdims)
        if ord == -np.inf:
            return rnp.min(size, axes, keepdims=keepdims)
        if ord == 0:
            return rnp.sum(rnp.astype(rnp.not_equal(x, 0), size.dtype), axes, keepdims=keepdims)
        return rnp.power(rnp.sum(rnp.power(size, float(ord)), axes, keepdims=keepdims), 1.0 / ord)
    row, column = [a % x.ndim for a in axes]
    if ord in (1, -1, np.inf, -np.inf):
        over = row if abs(ord) == 1 else column
        sums = rnp.sum(size, over, keepdims=True)
        made = (rnp.max if ord > 0 else rnp.min)(sums, (row, column), keepdims=True)
    elif ord in (2, -2, "nuc"):
        s = svdvals(rnp.moveaxis(x, (row, column), (-2, -1)))
        one = rnp.sum(s, -1) if ord == "nuc" else (rnp.max if ord > 0 else rnp.min)(s, -1)
        made = rnp.expand_dims(one, (row, column)) if keepdims else one
        return made
    else:
        raise ValueError(f"there is no matrix norm of order {ord!r}")
    return made if keepdims else rnp.squeeze(made, (row, column))


def matrix_rank(M, tol=None, hermitian=False, *, rtol=None):
    """How many singular values exceed `tol`, or `rtol` times the largest one: eps times the larger extent by default. A vector has rank 1
    unless it is 0. Of a `hermitian` matrix by its eigenvalues."""
    if tol is not None and rtol is not None:
        raise ValueError("tol and rtol are two ways to say one thing; give one of them")
    a = inexact(M)
    if a.ndim < 2:
        return rnp.astype(rnp.any(rnp.not_equal(a, 0)), "i32")
    s = svd(a, compute_uv=False, hermitian=hermitian)
    if tol is None:
        rtol = max(a.shape[-2:]) * float(np.finfo(s.dtype).eps) if rtol is None else rnp.expand_dims(rtol, -1)
        tol = rnp.multiply(_largest(s), rtol)
    else:
        tol = rnp.expand_dims(tol, -1)
    return rnp.sum(rnp.greater(s, tol), -1)


def matrix_norm(x, *, keepdims=False, ord="fro"):
    """The norm of matrices, which are the last two dims: fro, nuc, 1, -1, 2, -2, inf or -inf."""
    x = _matrix(x)
    return norm(x, "fro" if ord is None else ord, (-2, -1), keepdims)


def vector_norm(x, *, axis=None, keepdims=False, ord=2):
    """The norm of all elements over these axes, all for None, as of one vector."""
    x = inexact(x)
    if isinstance(ord, str):
        raise ValueError(f"there is no vector norm of order {ord!r}; an order is a number, rlx.numpy.inf among them")
    size = rnp.abs(x)
    if ord is None or ord == 2:
        return rnp.sqrt(rnp.sum(rnp.square(size), axis, keepdims=keepdims))
    if ord == np.inf:
        return rnp.max(size, axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return rnp.min(size, axis, keepdims=keepdims)
    if ord == 0:
        return rnp.sum(rnp.astype(rnp.not_equal(x, 0), size.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return rnp.sum(size, axis, keepdims=keepdims)
    return rnp.power(rnp.sum(rnp.power(size, float(ord)), axis, keepdims=keepdims), 1.0 / ord)


def cond(x, p=None):
    """The condition number, the norm of a matrix times that of its inverse; of the order 2 by default, by singular values."""
    a = _matrix(x)
    if 0 in a.shape[-2:]:
        raise ValueError(f"a matrix without elements has no condition number, got the shape {a.shape}")
    if p is None or p in (2, -2):
        s = svdvals(a)
        made = rnp.divide(s[..., 0], s[..., -1]) if p != -2 else rnp.divide(s[..., -1], s[..., 0])
    else:
        if a.shape[-1] != a.shape[-2]:
            raise ValueError(f"a condition number of the order {p!r} is one of square matrices, got the shape {a.shape}")
        made = rnp.multiply(norm(a, p, (-2, -1)), norm(inv(a), p, (-2, -1)))
    # NaN comes of a matrix that has no inverse, unless it was there.
    spoiled = rnp.logical_and(rnp.isnan(made), rnp.logical_not(rnp.any(rnp.isnan(a), (-2, -1))))
    return rnp.where(spoiled, np.inf, made)


def cross(x1, x2, *, axis=-1):
    """The vector product of vectors of 3 elements along an axis."""
    x1, x2 = as_array(x1), as_array(x2)
    for x in (x1, x2):
        if x.ndim == 0 or x.shape[axis] != 3:
            raise ValueError(f"cross takes vectors of 3 elements along the axis {axis}, got the shape {x.shape}")
    return rnp.cross(x1, x2, axis=axis)


def diagonal(x, *, offset=0):
    """A diagonal of the last two dims."""
    return rnp.diagonal(x, offset, -2, -1)


def trace(x, *, offset=0, dtype=None):
    """The sum of a diagonal of the last two dims."""
    return rnp.trace(x, offset, -2, -1, dtype)


def outer(x1, x2):
    """Each element of one vector times each of another."""
    x1, x2 = as_array(x1), as_array(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer takes vectors, got ranks {x1.ndim} and {x2.ndim}; rlx.numpy.outer flattens")
    return rnp.outer(x1, x2)
