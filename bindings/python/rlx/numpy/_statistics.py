"""Statistics: quantiles, histograms, covariances, numbers that leave NaN out."""

import builtins
import math

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert
from . import _elementwise as ew
from ._creation import arange, full, linspace
from ._indexing import take, take_along_axis
from ._linear import matmul
from ._reductions import any, check_keepdims, count_nonzero, max, mean, min, sum
from ._shape import axes_of, moveaxis, ravel, reshape, stack
from ._sorting import searchsorted, sort


def nansum(x, axis=None, keepdims=False):
    """The sum of what is not NaN."""
    x = as_array(x)
    return sum(ew.where(ew.isnan(x), ew.constant_like(x, 0), x), axis, keepdims=keepdims)


def nanmean(x, axis=None, keepdims=False):
    """The mean of what is not NaN; NaN where nothing is left."""
    x = ew.inexact(x)
    count = sum(convert(ew.logical_not(ew.isnan(x)), _dtypes.real_part(x.dtype_name)), axis, keepdims=keepdims)
    return ew.divide(nansum(x, axis, keepdims), count)


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(x, q, axis, keepdims, method, skip_nan):
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}; it is one of {', '.join(_METHODS)}")
    check_keepdims(keepdims)
    x = ew.inexact(x)
    q = as_array(q, x.dtype_name)
    if not q.is_traced and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
        raise ValueError(f"quantiles are from 0 to 1 (percentiles from 0 to 100), got {np.asarray(q).tolist()}")
    axes = axes_of(axis, x.ndim)
    kept = [d for d in range(x.ndim) if d not in axes]
    n = math.prod(x.shape[a] for a in axes)
    lanes = reshape(ops.transpose(x, permutation=kept + list(axes)), [x.shape[d] for d in kept] + [n])
    ordered = sort(lanes, -1)
    nans = ew.isnan(lanes)
    if skip_nan:
        count = convert(sum(ew.logical_not(nans), -1, keepdims=True), x.dtype_name)
    else:
        count = full([1] * lanes.ndim, n, x.dtype_name)
    flat_q = ravel(q)
    place = ew.multiply(ew.maximum(ew.subtract(count, 1), 0), flat_q)  # [..., q]
    low, high = ew.floor(place), ew.ceil(place)
    shape = list(lanes.shape[:-1]) + [flat_q.shape[0]]
    place, low, high = (ew.broadcast_to(v, shape) for v in (place, low, high))
    at = lambda v: take_along_axis(ordered, convert(v, "i32"), -1)
    if method == "lower":
        made = at(low)
    elif method == "higher":
        made = at(high)
    elif method == "nearest":
        made = at(ew.rint(place))
    else:
        t = ew.subtract(place, low) if method == "linear" else full(shape, 0.5, x.dtype_name)
        if method == "midpoint":
            t = ew.where(ew.equal(low, high), ew.constant_like(t, 0), t)
        a, b = at(low), at(high)
        made = ew.where(ew.equal(a, b), a, ew.add(a, ew.multiply(ew.subtract(b, a), t)))
    spoiled = ew.equal(count, 0) if skip_nan else any(nans, -1, keepdims=True)
    made = ew.where(spoiled, ew.constant_like(made, np.nan), made)
    made = moveaxis(made, -1, 0)
    if keepdims:
        made = reshape(made, [flat_q.shape[0]] + [1 if d in axes else m for d, m in enumerate(x.shape)])
    return reshape(made, q.shape + made.shape[1:])


def quantile(x, q, axis=None, keepdims=False, method="linear"):
    """The q-quantiles over these axes; NaN if there is one. The dims of q come first."""
    return _quantile(x, q, axis, keepdims, method, False)


def nanquantile(x, q, axis=None, keepdims=False, method="linear"):
    """The q-quantiles of what is not NaN."""
    return _quantile(x, q, axis, keepdims, method, True)


def percentile(x, q, axis=None, keepdims=False, method="linear"):
    """quantile, in hundredths."""
    if not isinstance(q, Array):
        return quantile(x, np.true_divide(q, 100), axis, keepdims, method)
    return quantile(x, ew.divide(convert(q, ew.inexact(x).dtype_name), 100), axis, keepdims, method)


def median(x, axis=None, keepdims=False):
    """The middle one in order, or the mean of the two."""
    return quantile(x, 0.5, axis, keepdims)


def cov(x, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None):
    """The covariance matrix of variables that are rows (columns where not `rowvar`)."""
    if not isinstance(rowvar, (bool, int, np.bool_)) or not isinstance(bias, (bool, int, np.bool_)):
        raise TypeError(f"rowvar and bias are True or False, not {rowvar!r} and {bias!r}")
    x = ew.inexact(x)
    x = reshape(x, (1, x.shape[0])) if x.ndim == 1 else x if rowvar else x.T
    if y is not None:
        from ._shape import concatenate
        y = ew.inexact(y)
        x = concatenate([x, reshape(y, (1, y.shape[0])) if y.ndim == 1 else y if rowvar else y.T], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None and as_array(weights).shape != x.shape[1:]:
            raise ValueError(f"{name} has one number for each of the {x.shape[1]} observations, got the shape {as_array(weights).shape}")
        if weights is not None and _dtypes.is_complex(as_array(weights).dtype_name):
            raise TypeError(f"{name} are real numbers, got {as_array(weights).dtype_name}")
    w = None
    if fweights is not None:
        w = convert(as_array(fweights), _dtypes.real_part(x.dtype_name))
    if aweights is not None:
        aweights = a = convert(as_array(aweights), _dtypes.real_part(x.dtype_name))
        w = a if w is None else ew.multiply(w, a)
    if w is None:
        centred, total = ew.subtract(x, mean(x, 1, keepdims=True)), None
        return _of_one(ew.divide(matmul(centred, ew.conj(centred).T), float(builtins.max(x.shape[1] - ddof, 0))))
    total = sum(w)
    centred = ew.subtract(x, ew.divide(sum(ew.multiply(x, w), 1, keepdims=True), total))
    if ddof == 0:
        factor = total
    elif aweights is None:
        factor = ew.subtract(total, ddof)
    else:
        factor = ew.subtract(total, ew.divide(ew.multiply(sum(ew.multiply(w, aweights)), ddof), total))
    return _of_one(ew.divide(matmul(ew.multiply(centred, w), ew.conj(centred).T), ew.maximum(factor, 0)))


def _of_one(c):
    """The variance of a single variable is a number."""
    return reshape(c, ()) if c.size == 1 else c


def corrcoef(x, y=None, rowvar=True):
    """Correlation coefficients of variables that are rows."""
    c = cov(x, y, rowvar)
    if c.size == 1:
        return reshape(ew.divide(c, c), ())
    from ._linear import diagonal
    d = ew.sqrt(ew.real(diagonal(c)))
    return ew.clip(ew.divide(ew.divide(c, reshape(d, (d.shape[0], 1))), d), -1, 1) if not _dtypes.is_complex(c.dtype_name) \
        else ew.divide(ew.divide(c, reshape(d, (d.shape[0], 1))), d)


def histogram_bin_edges(x, bins=10, range=None):
    """The edges of so many equal bins over the range of x, or over `range`."""
    x = ew.inexact(ravel(x))
    if _dtypes.is_complex(x.dtype_name):
        raise TypeError(f"bins are of real numbers, got {x.dtype_name}")
    if not isinstance(bins, (int, np.integer)):
        edges = as_array(bins)
        if edges.ndim != 1 or not edges.is_traced and (np.diff(edges.numpy().astype(np.float64)) < 0).any():
            raise ValueError(f"bins is a number, or the edges in ascending order, got {bins!r}")
        return edges
    if bins < 1:
        raise ValueError(f"bins is {bins}; a histogram has 1 or more")
    if range is None:
        low, high = (min(x), max(x)) if x.size else (0.0, 1.0)
    else:
        low, high = range
        if as_array(low).ndim or as_array(high).ndim:
            raise ValueError(f"range is a pair of numbers, got {range!r}")
        if not as_array(low).is_traced and not as_array(high).is_traced and not float(low) <= float(high):
            raise ValueError(f"range goes from {float(low)} to {float(high)}; the second number is not below the first")
    low, high = as_array(low), as_array(high)
    if not low.is_traced and not high.is_traced and not np.isfinite([float(low), float(high)]).all():
        raise ValueError(f"the bins' range is [{float(low)}, {float(high)}]: there are elements that are not finite; give a range")
    same = ew.equal(low, high)
    low, high = ew.where(same, ew.subtract(low, 0.5), low), ew.where(same, ew.add(high, 0.5), high)
    return convert(linspace(convert(low, x.dtype_name), convert(high, x.dtype_name), bins + 1), x.dtype_name)


def histogram(x, bins=10, range=None, density=False, weights=None):
    """(counts, edges). Counts are int32, or of the weights' dtype; the last bin includes its right edge. The weights have x's shape (ValueError)."""
    if weights is not None and as_array(weights).shape != as_array(x).shape:
        raise ValueError(f"histogram takes a weight for each element, got the shapes {as_array(x).shape} and {as_array(weights).shape}")
    x = ravel(x)
    edges = histogram_bin_edges(x, bins, range)
    counts = _counted([x], [edges], weights)
    if weights is not None and as_array(weights).dtype_name == "bool":
        counts = ew.greater(counts, 0)
    if density:
        from ._more_shape import diff
        counts = ew.divide(counts, ew.multiply(diff(edges), sum(ew.inexact(counts))))
    return counts, edges


def _counted(columns, edges, weights):
    """Weights summed over the cells of a grid; what lies outside counts nowhere."""
    n = columns[0].shape[0]
    shape = [e.shape[0] - 1 for e in edges]
    cell, inside = full((n,), 0, "i32"), full((n,), True, "bool")
    for x, e, m in zip(columns, edges, shape):
        x, e = ew.promoted(x, e)
        at = searchsorted(e, x, "right") - 1
        at = ew.where(ew.equal(x, e[-1]), m - 1, at)
        inside = ew.logical_and(inside, ew.logical_and(ew.greater_equal(at, 0), ew.less(at, m)))
        cell = ew.add(ew.multiply(cell, m), at)
    total = math.prod(shape)
    if weights is not None and as_array(weights).size != n:
        raise ValueError(f"there is a weight for each of the {n} elements, got the shape {as_array(weights).shape}")
    values = full((n,), 1, "i32") if weights is None else ravel(weights)
    if values.dtype_name == "bool":
        values = convert(values, "f32")
    return reshape(full((total,), 0, values.dtype).at[ew.where(inside, cell, total)].add(values), shape)


def histogramdd(sample, bins=10, range=None, density=False, weights=None):
    """(counts over a grid, as floats, and a list of edges) of points that are rows, or of a list of coordinates."""
    if isinstance(sample, (tuple, list)):
        columns = [as_array(c) for c in sample]
        if columns and builtins.all(c.ndim == 0 for c in columns):  # the numbers of one coordinate
            columns = [stack(columns)]
        if builtins.any(c.ndim != 1 for c in columns):
            raise ValueError(f"coordinates are arrays of rank 1, got shapes {[c.shape for c in columns]}")
        if len({c.shape for c in columns}) > 1:
            raise ValueError(f"each point has all coordinates, got {[c.shape[0] for c in columns]} of them")
    else:
        sample = as_array(sample)
        sample = reshape(sample, (sample.shape[0], 1)) if sample.ndim == 1 else sample
        columns = [sample[:, d] for d in np.arange(sample.shape[1])]
    each = bins if isinstance(bins, (tuple, list)) else [bins] * len(columns)
    ranges = [None] * len(columns) if range is None else range
    if len(each) != len(columns) or len(ranges) != len(columns):
        raise ValueError(f"there are {len(columns)} coordinates, {len(each)} bins and {len(ranges)} ranges; give one for each")
    if weights is not None and columns and as_array(weights).shape != columns[0].shape:
        raise ValueError(f"histogramdd takes a weight for each of the {columns[0].shape[0]} points, got the shape {as_array(weights).shape}")
    edges = [histogram_bin_edges(c, b, r) for c, b, r in zip(columns, each, ranges)]
    counts = _counted(columns, edges, weights)
    if weights is None:
        counts = convert(counts, edges[0].dtype_name)  # floats, as NumPy has them here
    if density:
        from ._more_shape import diff
        counts = ew.divide(counts, sum(ew.inexact(counts)))
        for d, e in enumerate(edges):
            counts = ew.divide(counts, reshape(diff(e), [-1 if k == d else 1 for k in np.arange(len(edges))]))
    return counts, edges


def gradient(x, *spacing, axis=None):
    """Central differences inside, one-sided ones at the ends, along each axis (a list) or one."""
    from ._shape import concatenate, slice_axis
    x = as_array(x)
    if x.dtype_name == "bool":
        raise TypeError("gradient subtracts, and bools have no difference; convert them to numbers first")
    x = ew.inexact(x)
    axes = axes_of(axis, x.ndim)
    steps = list(spacing) * len(axes) if len(spacing) == 1 else list(spacing) or [1.0] * len(axes)
    if len(steps) != len(axes):
        raise ValueError(f"gradient along {len(axes)} axes takes as many spacings, got {len(steps)}")
    out = []
    for a, h in zip(axes, steps):
        n = x.shape[a]
        if n < 2:
            raise ValueError(f"gradient needs 2 elements along axis {a}, got {n}")
        at = lambda i, j: slice_axis(x, a, i, j)
        h = as_array(h)
        if h.ndim > 1:
            raise ValueError(f"the spacing along axis {a} is a number, or the coordinates along it, got the shape {h.shape}")
        if h.ndim == 1 and h.shape[0] != n:
            raise ValueError(f"the coordinates along axis {a} are {h.shape[0]}, its elements {n}")
        if h.ndim == 0:
            h = convert(h, x.dtype_name)
            inner = ew.divide(ew.subtract(at(2, n), at(0, n - 2)), ew.multiply(h, 2))
            first, last = ew.divide(ew.subtract(at(1, 2), at(0, 1)), h), ew.divide(ew.subtract(at(n - 1, n), at(n - 2, n - 1)), h)
        else:
            d = convert(h[1:] - h[:-1], x.dtype_name)
            wide = lambda v: reshape(v, [-1 if k == a else 1 for k in np.arange(x.ndim)])
            before, after = wide(d[:-1]), wide(d[1:])
            inner = ew.add(ew.add(ew.multiply(at(0, n - 2), -after / (before * (before + after))),
                                  ew.multiply(at(1, n - 1), (after - before) / (before * after))),
                           ew.multiply(at(2, n), before / (after * (before + after))))
            first = ew.divide(ew.subtract(at(1, 2), at(0, 1)), wide(d[:1]))
            last = ew.divide(ew.subtract(at(n - 1, n), at(n - 2, n - 1)), wide(d[-1:]))
        out.append(concatenate([first, inner, last], a))
    return out[0] if len(out) == 1 else out
