"""Reductions, running sums, order."""

from .. import _dtypes, ops
from .. import numpy as rnp
from .._array import convert
from .table import dtype_of, of


def _axes(dim):
    return None if dim is None or dim == [] else tuple(dim) if isinstance(dim, (list, tuple)) else dim


@of("sum.default", "sum.dim_IntList")
def _sum(x, dim=None, keepdim=False, dtype=None):
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return rnp.sum(x, _axes(dim), "int64" if wide else None if dtype is None else _dtypes.long_name(dtype_of(dtype)), keepdim)


@of("mean.default", "mean.dim")
def _mean(x, dim=None, keepdim=False, dtype=None):
    return rnp.mean(x if dtype is None else convert(x, dtype_of(dtype)), _axes(dim), keepdims=keepdim)


@of("amax.default")
def _amax(x, dim=(), keepdim=False):
    return rnp.max(x, _axes(list(dim)), keepdims=keepdim)


@of("amin.default")
def _amin(x, dim=(), keepdim=False):
    return rnp.min(x, _axes(list(dim)), keepdims=keepdim)


@of("prod.default", "prod.dim_int")
def _prod(x, dim=None, keepdim=False, dtype=None):
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return rnp.prod(x, dim, "int64" if wide else None if dtype is None else _dtypes.long_name(dtype_of(dtype)), keepdim)


@of("any.default", "any.dim", "any.dims")
def _any(x, dim=None, keepdim=False):
    return rnp.any(x, _axes(dim), keepdim)


@of("var.correction", "var.dim")
def _var(x, dim=None, unbiased=None, correction=1, keepdim=False):
    return rnp.var(x, _axes(dim), ddof=correction if unbiased is None else int(unbiased), keepdims=keepdim)


@of("argmax.default")
def _argmax(x, dim=None, keepdim=False):
    return rnp.astype(rnp.argmax(x, dim, keepdims=keepdim), "int64")


@of("argmin.default")
def _argmin(x, dim=None, keepdim=False):
    return rnp.astype(rnp.argmin(x, dim, keepdims=keepdim), "int64")


@of("max.default")
def _max(x):
    return rnp.max(x)


@of("min.default")
def _min(x):
    return rnp.min(x)


@of("max.dim")
def _max_dim(x, dim, keepdim=False):
    return rnp.max(x, dim, keepdims=keepdim), _argmax(x, dim, keepdim)


@of("min.dim")
def _min_dim(x, dim, keepdim=False):
    return rnp.min(x, dim, keepdims=keepdim), _argmin(x, dim, keepdim)


@of("cumsum.default")
def _cumsum(x, dim, dtype=None):
    return rnp.cumsum(x, dim, None if dtype is None else _dtypes.long_name(dtype_of(dtype)))


@of("topk.default")
def _topk(x, k, dim=-1, largest=True, sorted=True):
    values, places = ops.top_k(x if largest else rnp.negative(x), k, dim)
    return (values if largest else rnp.negative(values)), rnp.astype(places, "int64")
