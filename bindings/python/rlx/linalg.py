"""Linear algebra as numpy.linalg has it, on stacks of matrices: batch dims stand in front. Integers become float32."""

import collections
import functools
import operator

import numpy as np

from . import _dtypes, ops
from ._array import as_array
from . import numpy as rnp
from .numpy._elementwise import inexact, promoted
from .numpy._least_squares import largest as _largest, lstsq, matrix_of as _matrix
from .numpy._linear import matmul, tensordot  # noqa: F401: the module's own, too
from .numpy._products import matrix_transpose, vecdot  # noqa: F401
from .numpy._shape import axes_of

LinAlgError = np.linalg.LinAlgError
QRResult = collections.namedtuple("QRResult", "Q R")
SVDResult = collections.namedtuple("SVDResult", "U S Vh")
EighResult = collections.namedtuple("EighResult", "eigenvalues eigenvectors")
EigResult = collections.namedtuple("EigResult", "eigenvalues eigenvectors")
SlogdetResult = collections.namedtuple("SlogdetResult", "sign logabsdet")

# Which triangle of a Hermitian matrix is read.
_TRIANGLES = {None: "lower", "L": "lower", "U": "upper"}


def cholesky(a, upper=False, symmetrize_input=True):
    """L with a = L Lᴴ, lower triangular (U with a = Uᴴ U where `upper`); NaN where a is not positive definite.

    (a + aᴴ) / 2 is decomposed, as in jax.numpy.linalg, so that the gradient is symmetric; with `symmetrize_input` False only the
    lower triangle of a is read (the upper one where `upper`), and the gradient is that of the triangle.
    """
    a = _matrix(a)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"cholesky takes square matrices, got the shape {a.shape}")
    if symmetrize_input:
        a = rnp.multiply(rnp.add(a, _adjoint(a)), 0.5)
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
    reads = _TRIANGLES.get(UPLO.upper() if isinstance(UPLO, str) else UPLO)
    if reads is None:
        raise ValueError(f"UPLO is {UPLO!r}; it is L or U")
    a = _matrix(a)
    if symmetrize_input:
        a = rnp.multiply(rnp.add(a, _adjoint(a)), 0.5)
    return EighResult(*ops.eigh(a, reads=reads))


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


_TRANSPOSED = {0: "none", "N": "none", 1: "transpose", "T": "transpose", 2: "adjoint", "C": "adjoint"}


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False):
    """x with a x = b for a triangular a; the other triangle is not read. trans: 0, 1 or "T", 2 or "C". The order is SciPy's."""
    if isinstance(trans, bool) or trans not in _TRANSPOSED:
        raise ValueError(f"trans is {trans!r}; it is 0 or 'N', 1 or 'T' (transposed), 2 or 'C' (transposed and conjugate)")
    a, b = promoted(a, b)
    a, b = _matrix(a), inexact(b)
    vector = b.ndim == a.ndim - 1 and b.ndim == 1
    if vector:
        b = rnp.expand_dims(b, 1)
    batch = rnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = ops.triangular_solve(rnp.broadcast_to(a, batch + a.shape[-2:]), rnp.broadcast_to(b, batch + b.shape[-2:]), lower=lower,
                             transposition=_TRANSPOSED[trans], unit_diagonal=unit_diagonal)
    return rnp.squeeze(x, -1) if vector else x


def inv(a):
    """The inverse."""
    return ops.inverse(_matrix(a))


def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    """The Moore-Penrose inverse; singular values below rcond times the largest count as 0. `rcond`, which is also called `rtol`, is a
    number, or an array with one for each matrix of a stack, which may be traced. Of a `hermitian` matrix the lower triangle is read,
    as by eigh."""
    if rcond is not None and rtol is not None:
        raise ValueError("rcond and rtol are one number; give one of them")
    a, rcond = _matrix(a), rtol if rcond is None else rcond
    if hermitian:
        if a.shape[-1] != a.shape[-2]:
            raise ValueError(f"a Hermitian matrix is square, got the shape {a.shape}")
        below = rnp.tril(a, -1)
        diagonal = rnp.multiply(rnp.astype(rnp.real(a), a.dtype), rnp.eye(a.shape[-1], dtype=a.dtype))
        a = rnp.add(rnp.add(below, _adjoint(below)), diagonal)
    if rcond is None or isinstance(rcond, (int, float)) and rcond >= 0:  # a negative attribute, or NaN, would be the default
        return ops.pinv(a, cutoff=-1 if rcond is None else float(rcond))
    rcond = as_array(rcond)
    if rcond.ndim > a.ndim - 2:
        raise ValueError(f"rcond has a number for each matrix of a stack, got the shape {rcond.shape} for matrices of shape {a.shape}")
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    least = rnp.multiply(rnp.expand_dims(rnp.astype(rcond, s.dtype), -1), _largest(s))
    counts = rnp.greater(s, least)
    inverse = rnp.where(counts, rnp.reciprocal(rnp.where(counts, s, 1)), 0)
    return matmul(rnp.multiply(_adjoint(vh), rnp.expand_dims(inverse, -2)), _adjoint(u))


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
    shapes = [x.shape for x in arrays]
    if any(len(shape) != 2 for shape in shapes[1:-1]) or any(len(shape) not in (1, 2) for shape in shapes):
        raise ValueError(f"multi_dot takes matrices, and vectors at its ends, got the shapes {shapes}")
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
        axes = axes_of(tuple(axes), a.ndim)
        a = rnp.transpose(a, [d for d in range(a.ndim) if d not in axes] + list(axes))
    shape = a.shape[-(a.ndim - b.ndim):]  # all of them where b has as many dims as a, as in NumPy
    return rnp.reshape(solve(rnp.reshape(a, (b.size, int(np.prod(shape)))), rnp.ravel(b)), shape)


def tensorinv(a, ind=2):
    """The inverse of a with respect to tensordot over its first `ind` dims."""
    a = inexact(a)
    if ind <= 0 or a.ndim == 0:
        raise ValueError(f"ind is {ind}, of an array of rank {a.ndim}; both are at least 1")
    head, tail = a.shape[:ind], a.shape[ind:]
    return rnp.reshape(inv(rnp.reshape(a, (int(np.prod(head)), int(np.prod(tail))))), tail + head)


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors or matrices, as numpy.linalg.norm."""
    x = inexact(x)
    size = rnp.abs(x)
    if axis is None and (ord is None or (ord == "fro" and x.ndim == 2) or (ord == 2 and x.ndim == 1)):
        return rnp.sqrt(rnp.sum(rnp.square(size), keepdims=keepdims))
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        if ord is None or ord == 2:
            return rnp.sqrt(rnp.sum(rnp.square(size), axes, keepdims=keepdims))
        if isinstance(ord, str):
            raise ValueError(f"there is no norm of order {ord!r} of vectors")
        if ord == np.inf:
            return rnp.max(size, axes, keepdims=keepdims)
        if ord == -np.inf:
            return rnp.min(size, axes, keepdims=keepdims)
        if ord == 0:
            return rnp.sum(rnp.astype(rnp.not_equal(x, 0), size.dtype), axes, keepdims=keepdims)
        return rnp.power(rnp.sum(rnp.power(size, float(ord)), axes, keepdims=keepdims), 1.0 / ord)
    if len(axes) != 2:
        raise ValueError(f"a norm is one of vectors or of matrices, so along one axis or two, got {len(axes)}")
    row, column = axes
    if ord is None or ord == "fro":
        return rnp.sqrt(rnp.sum(rnp.square(size), axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        over = row if abs(ord) == 1 else column
        sums = rnp.sum(size, over, keepdims=True)
        made = (rnp.max if ord > 0 else rnp.min)(sums, axes, keepdims=True)
    elif ord in (2, -2, "nuc"):
        s = svdvals(rnp.moveaxis(x, axes, (-2, -1)))
        one = rnp.sum(s, -1) if ord == "nuc" else (rnp.max if ord > 0 else rnp.min)(s, -1)
        return rnp.expand_dims(one, axes) if keepdims else one
    else:
        raise ValueError(f"there is no matrix norm of order {ord!r}")
    return made if keepdims else rnp.squeeze(made, axes)


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
