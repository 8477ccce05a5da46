"""Linear algebra on stacks of matrices. What LAPACK reports as `info` is computed from the results: RLX gives NaN where a matrix has no
factors, and raises nothing."""

import math

import numpy as np

from .. import linalg, ops
from .. import numpy as rnp
from .._array import convert
from .._native import Error
from ..numpy._least_squares import largest, lstsq_solution
from .table import OPERATORS, of

# It raises where info is not 0; there is nothing to compute.
OPERATORS["_linalg_check_errors.default"] = lambda *args, **kwargs: None


def _adjoint(x):
    return rnp.conj(rnp.swapaxes(x, -1, -2))


def _nothing(x):
    return rnp.zeros((0,), x.dtype)


def _first(flags):
    """The 1-based place of the first True along the last dim, 0 where there is none: LAPACK's info."""
    return rnp.astype(rnp.where(rnp.any(flags, -1), rnp.argmax(flags, -1) + 1, 0), "int32") if flags.shape[-1] else rnp.zeros(flags.shape[:-1], "int32")


def _zero_pivots(packed):
    return _first(rnp.diagonal(packed, 0, -2, -1) == 0)


def _lu(x):
    """The packed factors, LAPACK's 1-based pivots, and the permutation."""
    packed, pivots, permutation = linalg.lu(x)
    return packed, rnp.astype(pivots, "int32") + 1, permutation


def _permutation_of(pivots, n):
    """Which rows the swaps that LAPACK's pivots say bring where."""
    places = rnp.arange(n, dtype="int32")
    order = rnp.broadcast_to(places, pivots.shape[:-1] + (n,))
    for i in range(pivots.shape[-1]):
        other = rnp.astype(pivots[..., i:i + 1], "int32") - 1
        mine, theirs = order[..., i:i + 1], rnp.take_along_axis(order, other, -1)
        order = rnp.where(places == i, theirs, rnp.where(places == other, mine, order))
    return order


def _permutation_matrix(order, dtype):
    n = order.shape[-1]
    return rnp.astype(rnp.expand_dims(rnp.arange(n, dtype="int32"), 1) == rnp.expand_dims(order, -2), dtype)


def _triangles(packed):
    m, n = packed.shape[-2:]
    k = min(m, n)
    return rnp.tril(packed[..., :k], -1) + rnp.eye(m, k, dtype=packed.dtype), rnp.triu(packed[..., :k, :])


@of("linalg_lu_factor_ex.default")
def _lu_factor(x, pivot=True, check_errors=False):
    if not pivot:
        raise Error("an LU factorization without pivots", "unsupported")
    packed, pivots, _ = _lu(x)
    return packed, pivots, _zero_pivots(packed)


@of("linalg_lu.default")
def _lu_parts(x, pivot=True):
    packed, _, permutation = _lu(x)
    return _permutation_matrix(permutation, x.dtype), *_triangles(packed)


@of("lu_unpack.default")
def _lu_unpack(packed, pivots, unpack_data=True, unpack_pivots=True):
    order = _permutation_of(pivots, packed.shape[-2])
    p = _permutation_matrix(order, packed.dtype) if unpack_pivots else _nothing(packed)
    return (p, *_triangles(packed)) if unpack_data else (p, _nothing(packed), _nothing(packed))


@of("linalg_lu_solve.default")
def _lu_solve(packed, pivots, b, left=True, adjoint=False):
    if not left:
        return _adjoint(_lu_solve(packed, pivots, _adjoint(b), True, not adjoint))
    batch = rnp.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    packed, b = (rnp.broadcast_to(x, batch + x.shape[-2:]) for x in (packed, b))
    order = rnp.expand_dims(rnp.broadcast_to(_permutation_of(pivots, packed.shape[-1]), batch + packed.shape[-1:]), -1)
    solve = lambda b, lower: linalg.solve_triangular(packed, b, 2 if adjoint else 0, lower, unit_diagonal=lower)
    if adjoint:  # Aᴴ = Uᴴ Lᴴ Pᵀ
        return rnp.take_along_axis(solve(solve(b, False), True), rnp.argsort(order, -2), -2)
    return solve(solve(rnp.take_along_axis(b, order, -2), True), False)


@of("_linalg_det.default")
def _det(x):
    packed, pivots, _ = _lu(x)
    return linalg.det(x), packed, pivots


@of("_linalg_slogdet.default")
def _slogdet(x):
    packed, pivots, _ = _lu(x)
    return *linalg.slogdet(x), packed, pivots


@of("_linalg_solve_ex.default")
def _solve(a, b, left=True, check_errors=False):
    packed, pivots, _ = _lu(a)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    b = rnp.expand_dims(b, -1) if vector else b
    x = linalg.solve(a, b) if left or vector else rnp.swapaxes(linalg.solve(rnp.swapaxes(a, -1, -2), rnp.swapaxes(b, -1, -2)), -1, -2)
    return rnp.squeeze(x, -1) if vector else x, packed, pivots, _zero_pivots(packed)


@of("linalg_inv_ex.default")
def _inverse(x, check_errors=False):
    return linalg.inv(x), _zero_pivots(linalg.lu(x)[0])


@of("linalg_cholesky_ex.default")
def _cholesky(x, upper=False, check_errors=False):
    factor = linalg.cholesky(x, upper)
    return factor, _first(rnp.isnan(rnp.real(rnp.diagonal(factor, 0, -2, -1))))


@of("cholesky_solve.default")
def _cholesky_solve(b, factor, upper=False):
    """The other triangle of the factor is not read, and yet has a derivative, as in PyTorch."""
    triangle = factor + ops.stop_gradient((rnp.triu if upper else rnp.tril)(factor) - factor)
    first, second = (_adjoint(triangle), triangle) if upper else (triangle, _adjoint(triangle))
    return linalg.solve(second, linalg.solve(first, b))


@of("cholesky_inverse.default")
def _cholesky_inverse(factor, upper=False):
    return _cholesky_solve(rnp.broadcast_to(rnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape), factor, upper)


@of("linalg_solve_triangular.default")
def _solve_triangular(a, b, upper, left=True, unitriangular=False):
    if left:
        return linalg.solve_triangular(a, b, 0, not upper, unitriangular)
    return rnp.swapaxes(linalg.solve_triangular(a, rnp.swapaxes(b, -1, -2), 1, not upper, unitriangular), -1, -2)


@of("triangular_solve.default")
def _triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    batch = rnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return linalg.solve_triangular(a, b, int(transpose), not upper, unitriangular), rnp.broadcast_to(a, batch + a.shape[-2:])


@of("_linalg_svd.default")
def _svd(x, full_matrices=False, compute_uv=True, driver=None):
    if not compute_uv:
        return _nothing(x), linalg.svdvals(x), _nothing(x)
    return linalg.svd(x, full_matrices)


def _hermitian_eigh(x, UPLO="L"):
    """The other triangle is not read; the derivative is that of a matrix that is Hermitian already, as PyTorch's."""
    half = rnp.tril(x) if UPLO == "L" else rnp.triu(x)
    strict = rnp.tril(x, -1) if UPLO == "L" else rnp.triu(x, 1)
    whole = half + _adjoint(strict)
    return ops.eigh(x + ops.stop_gradient(whole - x), reads="both")


@of("_linalg_eigh.default")
def _eigh(x, UPLO="L", compute_v=True):
    values, vectors = _hermitian_eigh(x, UPLO)
    return values, vectors if compute_v else _nothing(x)


@of("linalg_eig.default")
def _eig(x):
    return linalg.eig(x)


@of("_linalg_eigvals.default", "linalg_eigvals.default")
def _eigvals(x):
    return linalg.eigvals(x)


@of("linalg_qr.default")
def _qr(x, mode="reduced"):
    return (_nothing(x), linalg.qr(x, "r")) if mode == "r" else linalg.qr(x, mode)


@of("geqrf.default")
def _geqrf(x):
    return ops.geqrf(x)


@of("linalg_householder_product.default")
def _householder_product(x, tau):
    return linalg.householder_product(x, tau)


@of("ormqr.default")
def _ormqr(reflections, tau, x, left=True, transpose=False):
    """x times the whole square Q that the reflections make."""
    n = x.shape[-2 if left else -1]
    missing = n - reflections.shape[-1]
    wide = rnp.pad(reflections, [(0, 0)] * (x.ndim - 1) + [(0, missing)]) if missing > 0 else reflections[..., :n]
    q = linalg.householder_product(wide, tau)
    q = _adjoint(q) if transpose else q
    return rnp.matmul(q, x) if left else rnp.matmul(x, q)


@of("linalg_lstsq.default")
def _lstsq(a, b, rcond=None, driver=None):
    vector = b.ndim == a.ndim - 1
    b = rnp.expand_dims(b, -1) if vector else b
    x = lstsq_solution(a, b, rcond)
    over = a.shape[-2] > a.shape[-1] and driver != "gelsy"
    residuals = rnp.sum(rnp.square(rnp.abs(rnp.matmul(a, x) - b)), -2) if over else _nothing(a)
    s = linalg.svdvals(a)
    least = (np.finfo(a.dtype).eps * max(a.shape[-2:]) if rcond is None else rcond) * largest(s)
    rank = rnp.astype(rnp.sum(s > least, -1), "int64") if driver != "gels" else rnp.zeros((0,), "int64")
    return rnp.squeeze(x, -1) if vector else x, residuals, rank, s if driver in ("gelsd", "gelss") else _nothing(a)


@of("linalg_pinv.atol_rtol_tensor")
def _pinv(x, atol=None, rtol=None, hermitian=False):
    if rtol is None:
        rtol = float(np.finfo(x.dtype).eps) * max(x.shape[-2:])
        rtol = rtol if atol is None else rnp.where(atol > 0, 0.0, rtol)
    wide = lambda v: v if isinstance(v, float) else rnp.expand_dims(convert(v, rnp.real(x).dtype_name), -1)
    inverse = lambda s: rnp.where(counts, 1 / rnp.where(counts, s, 1), 0)
    if hermitian:
        values, vectors = _hermitian_eigh(x)
        sizes = rnp.abs(values)
    else:
        u, values, vh = linalg.svd(x, False)
        sizes = values
    if not math.prod(sizes.shape):
        return rnp.zeros(x.shape[:-2] + x.shape[:-3:-1], x.dtype)
    counts = sizes > rnp.maximum(0.0 if atol is None else wide(atol), wide(rtol) * rnp.max(sizes, -1, keepdims=True))
    scaled = lambda v: v * rnp.expand_dims(inverse(values), -2)
    return rnp.matmul(scaled(vectors), _adjoint(vectors)) if hermitian else rnp.matmul(scaled(_adjoint(vh)), _adjoint(u))


@of("linalg_matrix_exp.default", "matrix_exp.default")
def _matrix_exp(x):
    return linalg.expm(x)


@of("linalg_polar.default")
def _polar(x):
    """U H with H = sqrt(xᴴ x), of the singular vectors."""
    u, s, vh = linalg.svd(x, False)
    return rnp.matmul(u, vh), rnp.matmul(_adjoint(vh) * rnp.expand_dims(s, -2), vh)


@of("linalg_matrix_sqrth.default")
def _matrix_sqrth(x):
    values, vectors = _hermitian_eigh(x)
    return rnp.matmul(vectors * rnp.expand_dims(rnp.sqrt(values), -2), _adjoint(vectors))


# ---- norms and distances ----
def norm_of(x, p, axes=None, keepdims=False):
    """The p-norm over these axes; its derivative where all elements are 0 is 0, as PyTorch's."""
    size = rnp.abs(x)
    if p == 0:
        return rnp.sum(rnp.astype(x != 0, size.dtype), axes, keepdims=keepdims)
    if p in (math.inf, -math.inf):
        return (rnp.max if p > 0 else rnp.min)(size, axes, keepdims=keepdims)
    if p == 1:
        return rnp.sum(size, axes, keepdims=keepdims)
    total = rnp.sum(rnp.square(size) if p == 2 else rnp.where(size == 0, rnp.power(rnp.zeros_like(size), float(p)), rnp.power(rnp.where(size == 0, 1, size), float(p))),
                    axes, keepdims=keepdims)
    root = lambda v: rnp.sqrt(v) if p == 2 else rnp.power(v, 1.0 / p)
    zero = total == 0
    return rnp.where(zero, root(rnp.zeros_like(total)), root(rnp.where(zero, 1, total)))


@of("linalg_vector_norm.default")
def _vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    from .table import dtype_of
    x = x if dtype is None else convert(x, dtype_of(dtype))
    axes = tuple(range(x.ndim)) if dim is None or dim == [] else tuple(dim) if isinstance(dim, (list, tuple)) else (dim,)
    return norm_of(x, ord, tuple(a % x.ndim for a in axes) if x.ndim else (), keepdim)


@of("_cdist_forward.default")
def _cdist(a, b, p, compute_mode=None):
    return norm_of(rnp.expand_dims(a, -2) - rnp.expand_dims(b, -3), p, -1)


@of("_pdist_forward.default")
def _pdist(x, p=2.0):
    rows, columns = np.triu_indices(x.shape[0], 1)
    at = lambda places: rnp.take(x, places.astype(np.int32), axis=0)
    return norm_of(at(rows) - at(columns), p, -1)


@of("dist.default")
def _dist(x, y, p=2):
    return norm_of(x - y, p)
