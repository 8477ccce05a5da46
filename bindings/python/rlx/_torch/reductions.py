"""Reductions, running sums, order."""

import math

import numpy as np

from .. import _dtypes, lax, nn, ops
from .. import numpy as rnp
from .._array import as_array, convert
from .._associative_scan import associative_scan
from ..numpy._elementwise import inexact
from ..numpy._shape import slice_axis
from .table import dtype_of, mapped, of


def _axes(dim, x):
    """The dims to reduce over; a number has none, whatever is named."""
    if x.ndim == 0:
        return ()
    return None if dim is None or dim in ([], ()) else tuple(dim) if isinstance(dim, (list, tuple)) else dim


@of("sum.default", "sum.dim_IntList")
def _sum(x, dim=None, keepdim=False, dtype=None):
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return rnp.sum(x, _axes(dim, x), "int64" if wide else None if dtype is None else _dtypes.long_name(dtype_of(dtype)), keepdims=keepdim)


@of("mean.default", "mean.dim")
def _mean(x, dim=None, keepdim=False, dtype=None):
    return rnp.mean(x if dtype is None else convert(x, dtype_of(dtype)), _axes(dim, x), keepdims=keepdim)


@of("amax.default")
def _amax(x, dim=(), keepdim=False):
    return rnp.max(x, _axes(dim, x), keepdims=keepdim)


@of("amin.default")
def _amin(x, dim=(), keepdim=False):
    return rnp.min(x, _axes(dim, x), keepdims=keepdim)


@of("prod.default", "prod.dim_int")
def _prod(x, dim=None, keepdim=False, dtype=None):
    dim = _axes(dim, x)
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return rnp.prod(x, dim, "int64" if wide else None if dtype is None else _dtypes.long_name(dtype_of(dtype)), keepdims=keepdim)


@of("any.default", "any.dim", "any.dims")
def _any(x, dim=None, keepdim=False):
    return rnp.any(x, _axes(dim, x), keepdims=keepdim)


@of("all.default", "all.dim", "all.dims")
def _all(x, dim=None, keepdim=False):
    return rnp.all(x, _axes(dim, x), keepdims=keepdim)


@of("prims.sum.default")
def _prims_sum(x, dims, output_dtype=None):
    return _sum(x, dims, False, output_dtype) if dims is None or dims else x


@of("prims.prod.default")
def _prims_prod(x, dims, output_dtype=None):
    for d in sorted(range(x.ndim) if dims is None else dims, reverse=True):
        x = _prod(x, d, False, output_dtype)
    return x


def _dof(unbiased, correction):
    return (1 if correction is None else correction) if unbiased is None else int(unbiased)


@of("var.correction", "var.dim", "prims.var.default")
def _var(x, dim=None, unbiased=None, correction=None, keepdim=False, output_dtype=None):
    return rnp.var(x, _axes(dim, x), ddof=_dof(unbiased, correction), keepdims=keepdim)


@of("std.correction", "std.dim")
def _std(x, dim=None, unbiased=None, correction=None, keepdim=False):
    return rnp.sqrt(_var(x, dim, unbiased, correction, keepdim))


@of("var_mean.correction", "var_mean.dim")
def _var_mean(x, dim=None, unbiased=None, correction=None, keepdim=False):
    return _var(x, dim, unbiased, correction, keepdim), rnp.mean(x, _axes(dim, x), keepdims=keepdim)


@of("std_mean.correction", "std_mean.dim")
def _std_mean(x, dim=None, unbiased=None, correction=None, keepdim=False):
    return _std(x, dim, unbiased, correction, keepdim), rnp.mean(x, _axes(dim, x), keepdims=keepdim)


@of("logsumexp.default")
def _logsumexp(x, dim, keepdim=False):
    return nn.logsumexp(x, _axes(dim, x), keepdims=keepdim)


@of("argmax.default")
def _argmax(x, dim=None, keepdim=False):
    return rnp.astype(rnp.argmax(x, dim if x.ndim else None, keepdims=keepdim), "int64")


@of("argmin.default")
def _argmin(x, dim=None, keepdim=False):
    return rnp.astype(rnp.argmin(x, dim if x.ndim else None, keepdims=keepdim), "int64")


@of("max.default")
def _max(x):
    return rnp.max(x)


@of("min.default")
def _min(x):
    return rnp.min(x)


def _at_places(x, places, dim, keepdim):
    """The elements at those places along dim, one for each of the rest, and the places."""
    values = rnp.take_along_axis(x, places, dim)
    return tuple(v if keepdim else rnp.squeeze(v, dim) for v in (values, rnp.astype(places, "int64")))


def _of_rank_0(f):
    """f of a number as of a vector of one element."""
    def of_any(x, *args, **kwargs):
        if x.ndim:
            return f(x, *args, **kwargs)
        return mapped(f(rnp.reshape(x, (1,)), *args, **kwargs), lambda y: rnp.reshape(y, ()) if y.size == 1 else y)
    return of_any


@of("max.dim")
@_of_rank_0
def _max_dim(x, dim, keepdim=False):
    return _at_places(x, rnp.argmax(x, dim, keepdims=True), dim, keepdim)


@of("min.dim")
@_of_rank_0
def _min_dim(x, dim, keepdim=False):
    return _at_places(x, rnp.argmin(x, dim, keepdims=True), dim, keepdim)


@of("aminmax.default")
def _aminmax(x, dim=None, keepdim=False):
    return rnp.min(x, dim if x.ndim else None, keepdims=keepdim), rnp.max(x, dim if x.ndim else None, keepdims=keepdim)


# ---- running results ----
def _wide_dtype(x, dtype):
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return "int64" if wide else None if dtype is None else _dtypes.long_name(dtype_of(dtype))


@of("cumsum.default")
def _cumsum(x, dim, dtype=None):
    return rnp.cumsum(x, dim if x.ndim else None, _wide_dtype(x, dtype)) if x.ndim else rnp.astype(x, _wide_dtype(x, dtype) or x.dtype)


@of("cumprod.default")
def _cumprod(x, dim, dtype=None):
    return rnp.cumprod(x, dim, _wide_dtype(x, dtype)) if x.ndim else rnp.astype(x, _wide_dtype(x, dtype) or x.dtype)


@of("logcumsumexp.default")
@_of_rank_0
def _logcumsumexp(x, dim):
    return associative_scan(rnp.logaddexp, x, axis=dim) if x.size else x


def _running_extreme(sign):
    @_of_rank_0
    def of_any(x, dim):
        if not x.size:
            return x, rnp.zeros(x.shape, "int64")
        signed = rnp.astype(x, "int32") * sign if x.dtype_name == "bool" else x if sign == 1 else rnp.negative(x)
        best = lax.cummax(signed, dim)
        at = rnp.reshape(rnp.arange(x.shape[dim], dtype="int32"), [-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
        taken = (signed == best) | rnp.isnan(signed)  # of equal ones the last
        places = lax.cummax(rnp.where(taken, at, 0), dim)
        return rnp.take_along_axis(x, places, dim), rnp.astype(places, "int64")
    return of_any


of("cummax.default")(_running_extreme(1))
of("cummin.default")(_running_extreme(-1))


# ---- order ----
@of("topk.default")
@_of_rank_0
def _topk(x, k, dim=-1, largest=True, sorted=True):
    values, places = ops.top_k(x if largest else rnp.negative(x), k, dim)
    return (values if largest else rnp.negative(values)), rnp.astype(places, "int64")


@of("sort.default")
@_of_rank_0
def _sort(x, dim=-1, descending=False):
    order = rnp.argsort(x, dim, descending=descending)
    return rnp.take_along_axis(x, order, dim), rnp.astype(order, "int64")


@of("sort.stable")
def _sort_stable(x, stable=True, dim=-1, descending=False):
    return _sort(x, dim, descending)


@of("argsort.default")
def _argsort(x, dim=-1, descending=False):
    return _sort(x, dim, descending)[1]


@of("argsort.stable")
def _argsort_stable(x, stable=True, dim=-1, descending=False):
    return _sort(x, dim, descending)[1]


@of("kthvalue.default")
@_of_rank_0
def _kthvalue(x, k, dim=-1, keepdim=False):
    order = rnp.argsort(x, dim)
    return _at_places(x, slice_axis(order, dim % x.ndim, k - 1, k), dim, keepdim)


@of("median.dim")
@_of_rank_0
def _median_dim(x, dim=-1, keepdim=False):
    """The lower one of the two in the middle; a NaN wins."""
    order = rnp.argsort(x, dim)
    middle = slice_axis(order, dim % x.ndim, (x.shape[dim] - 1) // 2, (x.shape[dim] - 1) // 2 + 1)
    spoiled = rnp.isnan(x)
    places = rnp.where(rnp.any(spoiled, dim, keepdims=True), rnp.argmax(spoiled, dim, keepdims=True), middle)
    return _at_places(x, places, dim, keepdim)


@of("nanmedian.dim")
@_of_rank_0
def _nanmedian_dim(x, dim=-1, keepdim=False):
    order = rnp.argsort(x, dim)
    count = rnp.sum(rnp.logical_not(rnp.isnan(x)), dim, keepdims=True)
    return _at_places(x, rnp.take_along_axis(order, rnp.maximum(rnp.floor_divide(count - 1, 2), 0), dim), dim, keepdim)


@of("median.default")
def _median(x):
    return _median_dim(rnp.ravel(x), 0)[0] if x.size else rnp.full((), np.nan, x.dtype)


@of("nanmedian.default")
def _nanmedian(x):
    return _nanmedian_dim(rnp.ravel(x), 0)[0] if x.size else rnp.full((), np.nan, x.dtype)


@of("mode.default")
@_of_rank_0
def _mode(x, dim=-1, keepdim=False):
    """The most frequent element, of equally frequent ones the least, and where it lies last."""
    order = rnp.argsort(x, dim)
    ordered = rnp.moveaxis(rnp.take_along_axis(x, order, dim), dim, -1)
    count = rnp.sum(rnp.expand_dims(ordered, -1) == rnp.expand_dims(ordered, -2), -1)
    best = rnp.take_along_axis(ordered, rnp.argmax(count, -1, keepdims=True), -1)
    same = rnp.moveaxis(x, dim, -1) == best
    last = x.shape[dim] - 1 - rnp.argmax(rnp.flip(same, -1), -1, keepdims=True)
    return _at_places(x, rnp.moveaxis(last, -1, dim), dim, keepdim)


# ---- histograms, search ----
@of("histc.default")
def _histc(x, bins=100, min=0, max=0):
    x = rnp.ravel(inexact(x))
    low, high = (rnp.min(x), rnp.max(x)) if min == max and x.size else (as_array(min, x.dtype_name), as_array(max, x.dtype_name))
    same = low == high
    low, high = rnp.where(same, low - 1, low), rnp.where(same, high + 1, high)
    place = rnp.minimum(rnp.astype(rnp.floor((x - low) / (high - low) * bins), "int32"), bins - 1)
    inside = (x >= low) & (x <= high)
    return rnp.zeros((bins,), x.dtype).at[rnp.where(inside, place, bins)].add(rnp.ones(x.shape, x.dtype))


@of("histogram.bin_ct")
def _histogram(x, bins=100, range=None, weight=None, density=False):
    counts, edges = rnp.histogram(x, bins, None if range is None else tuple(range), density=density, weights=weight)
    return rnp.astype(counts, x.dtype), rnp.astype(edges, x.dtype)


@of("histogram.bins_tensor")
def _histogram_of_edges(x, bins, weight=None, density=False):
    counts, edges = rnp.histogram(x, bins, density=density, weights=weight)
    return rnp.astype(counts, x.dtype), edges


def _columns(x):
    return [rnp.ravel(x[..., d]) for d in range(x.shape[-1])]


def _ranges(range, n):
    return None if range is None else [(range[2 * d], range[2 * d + 1]) for d in np.arange(n)]


@of("_histogramdd_bin_edges.default")
def _histogramdd_edges(x, bins, range=None, weight=None, density=False):
    ranges = _ranges(range, len(bins)) or [None] * len(bins)
    return [rnp.astype(rnp.histogram_bin_edges(c, b, r), x.dtype) for c, b, r in zip(_columns(x), bins, ranges)]


@of("_histogramdd_from_bin_cts.default")
def _histogramdd(x, bins, range=None, weight=None, density=False):
    weight = None if weight is None else rnp.ravel(weight)
    return rnp.astype(rnp.histogramdd(_columns(x), list(bins), _ranges(range, len(bins)), density, weight)[0], x.dtype)


@of("_histogramdd_from_bin_tensors.default")
def _histogramdd_of_edges(x, bins, weight=None, density=False):
    weight = None if weight is None else rnp.ravel(weight)
    return rnp.astype(rnp.histogramdd(_columns(x), list(bins), None, density, weight)[0], x.dtype)


@of("searchsorted.Tensor", "searchsorted.Scalar")
def _searchsorted(ordered, x, out_int32=False, right=False, side=None, sorter=None):
    """Where x would be inserted: how many elements of its own row stand before it."""
    if sorter is not None:
        ordered = rnp.take_along_axis(ordered, sorter, -1)
    x = as_array(x, ordered.dtype_name) if isinstance(x, (int, float)) else x
    right = right or side == "right"
    row = rnp.expand_dims(ordered, -2) if ordered.ndim > 1 else ordered
    element = rnp.expand_dims(x, -1)
    before = row <= element if right else row < element
    if _dtypes.is_float(x.dtype_name):  # NaN stands behind all numbers
        before = rnp.where(rnp.isnan(element), right | rnp.logical_not(rnp.isnan(row)), before)
    return rnp.astype(rnp.sum(before, -1), "int32" if out_int32 else "int64")


@of("bucketize.Tensor", "bucketize.Scalar")
def _bucketize(x, boundaries, out_int32=False, right=False):
    return _searchsorted(boundaries, x, out_int32, right)


@of("bincount.default")
def _bincount(x, weights=None, minlength=0):
    counts = rnp.bincount(x, weights, minlength)
    return rnp.astype(counts, "int64") if weights is None else counts


# ---- equality of all elements: a bool of Python, for which they must be known ----
@of("equal.default")
def _equal(x, y):
    return bool(rnp.array_equal(x, y))


@of("allclose.default")
def _allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    return bool(rnp.allclose(x, y, rtol, atol, equal_nan))


# ---- segments of a dim ----
@of("segment_reduce.default")
def _segment_reduce(x, reduce, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Each segment along a dim reduced; lengths say how long they are, or offsets where they begin and the last one ends."""
    if offsets is None:
        ends = rnp.cumsum(lengths, -1)
        begins = ends - lengths
    else:
        begins, ends = offsets[..., :-1], offsets[..., 1:]
    at = rnp.arange(x.shape[axis], dtype="int64")
    inside = (at >= rnp.expand_dims(begins, -1)) & (at < rnp.expand_dims(ends, -1))  # [..., segment, element]
    inside = rnp.reshape(inside, inside.shape + (1,) * (x.ndim - axis - 1))
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    first = neutral if initial is None else initial
    wide = rnp.where(inside, rnp.expand_dims(x, axis), as_array(neutral, x.dtype_name))
    if reduce in ("max", "min"):
        y = (rnp.max if reduce == "max" else rnp.min)(wide, axis + 1)
        return y if initial is None else (rnp.maximum if reduce == "max" else rnp.minimum)(y, first)
    if reduce == "prod":
        return rnp.prod(wide, axis + 1) * first
    y = rnp.sum(wide, axis + 1) + first
    if reduce == "sum":
        return y
    count = rnp.astype(rnp.sum(inside, axis + 1), x.dtype)
    return rnp.where(count == 0, math.nan if initial is None else first, y / rnp.maximum(count, 1))
