"""Statistics: quantiles, histograms, covariances, numbers that leave NaN out."""

import builtins
import math

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert
from . import _elementwise as ew
from ._creation import full, linspace
from ._indexing import take_along_axis
from ._linear import matmul
from ._reductions import any, check_keepdims, cumsum, max, mean, min, sum
from ._shape import axes_of, moveaxis, ravel, reshape, stack
from ._sorting import argsort, searchsorted, sort


# The place of a quantile q among n elements, counted from 0, is n q + alpha + q (1 - alpha - beta) - 1, for these alpha and beta:
# R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50 (1996).
_PLOTTED = {"linear": (1, 1), "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0), "median_unbiased": (1 / 3, 1 / 3),
            "normal_unbiased": (3 / 8, 3 / 8)}
_METHODS = ("lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf", "closest_observation", *_PLOTTED)


def _weighted_quantile(x, q, axis, keepdims, weights, skip_nan):
    """The first element in order up to which lies the part q of the weights: the method inverted_cdf."""
    x = ew.inexact(x)
    q, w = as_array(q, x.dtype_name), as_array(weights)
    if _dtypes.is_complex(w.dtype_name):
        raise TypeError(f"weights are real numbers, got {w.dtype_name}")
    w = convert(w, x.dtype_name)
    if w.shape != x.shape:
        if axis is None:
            raise TypeError(f"weights of shape {w.shape} for an array of shape {x.shape}; name the axis that they are along")
        at = axes_of(axis, x.ndim)
        if w.shape != tuple(x.shape[a] for a in at):
            raise ValueError(f"weights of shape {w.shape} for axis {axis} of an array of shape {x.shape}")
        w = ops.transpose(w, permutation=np.argsort(at).tolist())
        w = ew.broadcast_to(reshape(w, [n if d in at else 1 for d, n in enumerate(x.shape)]), x.shape)
    lanes, axes = _lanes(x, axis)
    w, nans = _lanes(w, axis)[0], ew.isnan(lanes)
    if skip_nan:
        w = ew.where(nans, ew.constant_like(w, 0), w)
    order = argsort(lanes, -1)
    ordered, passed = take_along_axis(lanes, order, -1), cumsum(take_along_axis(w, order, -1), -1)
    total = passed[..., -1:]
    wanted = ew.multiply(total, ravel(q))  # [..., q]
    before = ew.less(reshape(passed, passed.shape[:-1] + (1, passed.shape[-1])), reshape(wanted, wanted.shape + (1,)))
    # Nothing in front of the first element that weighs anything counts.
    weightless = sum(ew.equal(passed, 0), -1, keepdims=True)
    at = ew.clip(ew.maximum(sum(before, -1), weightless), 0, lanes.shape[-1] - 1)
    made = take_along_axis(ordered, at, -1)
    spoiled = ew.equal(total, 0) if skip_nan else any(nans, -1, keepdims=True)
    return _of_quantiles(ew.where(spoiled, ew.constant_like(made, np.nan), made), q, x, axes, keepdims)


def _lanes(x, axis):
    """x with the elements over these axes in the last dim, and the axes."""
    axes = axes_of(axis, x.ndim)
    kept = [d for d in range(x.ndim) if d not in axes]
    n = math.prod(x.shape[a] for a in axes)
    return reshape(ops.transpose(x, permutation=kept + list(axes)), [x.shape[d] for d in kept] + [n]), axes


def _of_quantiles(made, q, x, axes, keepdims):
    """The result, whose last dim are the quantiles so far: q's dims come first."""
    made = moveaxis(made, -1, 0)
    if keepdims:
        made = reshape(made, [made.shape[0]] + [1 if d in axes else m for d, m in enumerate(x.shape)])
    return reshape(made, q.shape + made.shape[1:])


def _quantile(x, q, axis, keepdims, method, skip_nan, weights=None):
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}; it is one of {', '.join(_METHODS)}")
    check_keepdims(keepdims)
    if weights is not None:
        if method != "inverted_cdf":
            raise ValueError(f"weights go with the method inverted_cdf alone, and method is {method!r}")
        return _weighted_quantile(x, q, axis, keepdims, weights, skip_nan)
    x = ew.inexact(x)
    if _dtypes.is_complex(x.dtype_name):
        raise TypeError(f"quantiles are of real numbers, got {x.dtype_name}; complex numbers have no order")
    q = as_array(q, x.dtype_name)
    if not q.is_traced and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
        raise ValueError(f"quantiles are from 0 to 1 (percentiles from 0 to 100), got {np.asarray(q).tolist()}")
    lanes, axes = _lanes(x, axis)
    n = lanes.shape[-1]
    ordered = sort(lanes, -1)
    nans = ew.isnan(lanes)
    if skip_nan:
        count = convert(sum(ew.logical_not(nans), -1, keepdims=True), x.dtype_name)
    else:
        count = full([1] * lanes.ndim, n, x.dtype_name)
    flat_q = ravel(q)
    # The place among the elements, counted from 0: [..., q].
    if method in ("lower", "higher", "midpoint", "nearest", "linear"):
        place = ew.multiply(ew.maximum(ew.subtract(count, 1), 0), flat_q)
    else:
        alpha, beta = _PLOTTED.get(method, (0, 1))
        place = ew.subtract(ew.add(ew.multiply(count, flat_q), ew.add(ew.multiply(flat_q, 1 - alpha - beta), alpha)), 1)
        if method == "closest_observation":  # halves to the even one, counted from 1
            place = ew.subtract(place, 0.5)
            even = ew.logical_and(ew.equal(place, ew.floor(place)), ew.equal(ew.remainder(place, 2), 1))
            place = ew.where(even, place, ew.floor(ew.add(place, 1)))
        elif method == "inverted_cdf":
            place = ew.ceil(place)
        # Between two elements both count half; else the next one alone.
        halves = ew.equal(place, ew.floor(place)) if method == "averaged_inverted_cdf" else None
        if halves is not None:
            place = ew.where(halves, ew.add(place, 0.5), ew.ceil(place))
        place = ew.clip(place, 0, ew.maximum(ew.subtract(count, 1), 0))
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
        t = ew.subtract(place, low) if method != "midpoint" else full(shape, 0.5, x.dtype_name)
        if method == "midpoint":
            t = ew.where(ew.equal(low, high), ew.constant_like(t, 0), t)
        a, b = at(low), at(high)
        made = ew.where(ew.equal(a, b), a, ew.add(a, ew.multiply(ew.subtract(b, a), t)))
    spoiled = ew.equal(count, 0) if skip_nan else any(nans, -1, keepdims=True)
    return _of_quantiles(ew.where(spoiled, ew.constant_like(made, np.nan), made), q, x, axes, keepdims)


def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """The q-quantiles over these axes; NaN if there is one. The dims of q come first. `method` is NumPy's; `weights`, of a's shape or one
    for each place along the axes, go with inverted_cdf. Arrays do not change, so that `overwrite_input`, a permission, is not used."""
    ew.no_out(out)
    return _quantile(a, q, axis, keepdims, method, False, weights)


def nanquantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """The q-quantiles of what is not NaN, with quantile's parameters."""
    ew.no_out(out)
    return _quantile(a, q, axis, keepdims, method, True, weights)


def _hundredths(q, a):
    return ew.divide(convert(q, ew.inexact(a).dtype_name), 100) if isinstance(q, Array) else np.true_divide(q, 100)


def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """quantile, in hundredths."""
    return quantile(a, _hundredths(q, a), axis, out, overwrite_input, method, keepdims, weights=weights)


def nanpercentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """nanquantile, in hundredths."""
    return nanquantile(a, _hundredths(q, a), axis, out, overwrite_input, method, keepdims, weights=weights)


def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle one in order, or the mean of the two. `overwrite_input`, a permission, is not used."""
    return quantile(a, 0.5, axis, out, overwrite_input, keepdims=keepdims)


def _in_dtype(x, dtype):
    """x as floats, of the dtype if one is given."""
    if dtype is None:
        return ew.inexact(x)
    name = _dtypes.name_of(dtype)
    if not _dtypes.is_inexact(name):
        raise TypeError(f"covariances are floats or complex numbers, and dtype is {name}")
    return convert(as_array(x), name)


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """The covariance matrix of variables that are rows (columns where not `rowvar`), in floats, or computed in `dtype`."""
    x = m
    if not isinstance(rowvar, (bool, int, np.bool_)) or not isinstance(bias, (bool, int, np.bool_)):
        raise TypeError(f"rowvar and bias are True or False, not {rowvar!r} and {bias!r}")
    x = _in_dtype(x, dtype)
    x = reshape(x, (1, x.shape[0])) if x.ndim == 1 else x if rowvar else x.T
    if y is not None:
        from ._shape import concatenate
        y = _in_dtype(y, dtype)
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


def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """Correlation coefficients of variables that are rows."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.size == 1:
        return reshape(ew.divide(c, c), ())
    from ._linear import diagonal
    d = ew.sqrt(ew.real(diagonal(c)))
    return ew.clip(ew.divide(ew.divide(c, reshape(d, (d.shape[0], 1))), d), -1, 1) if not _dtypes.is_complex(c.dtype_name) \
        else ew.divide(ew.divide(c, reshape(d, (d.shape[0], 1))), d)


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """The edges of so many equal bins over the range of the elements, or over `range`. Equal bins do not depend on `weights`, which have
    the elements' shape."""
    if weights is not None and as_array(weights).shape != as_array(a).shape:
        raise ValueError(f"there is a weight for each element, got the shapes {as_array(a).shape} and {as_array(weights).shape}")
    x = ew.inexact(ravel(a))
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


def histogram(a, bins=10, range=None, density=False, weights=None):
    """(counts, edges). Counts are int32, or of the weights' dtype; the last bin includes its right edge. The weights have a's shape (ValueError)."""
    x = a
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


def histogram2d(x, y, bins=10, range=None, density=False, weights=None):
    """(counts over a grid, the edges along x, those along y) of points, as histogramdd has them."""
    if not isinstance(bins, (int, np.integer)) and (as_array(bins).ndim == 1 if not isinstance(bins, (tuple, list)) else len(bins) != 2):
        bins = (bins, bins)  # the edges along both
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second


def _one_sided(at, n, d):
    """The derivatives at both ends of the parabola through three points; d are the two distances at each end, or one for all."""
    (h1, h2), (g1, g2) = d
    parts = []
    for p, q, places in ((h1, h2, (0, 1, 2)), (g2, g1, (n - 1, n - 2, n - 3))):
        near, mid, far = (at(i, i + 1) for i in places)
        slope = ew.add(ew.add(ew.multiply(near, -(p * 2 + q) / (p * (p + q))), ew.multiply(mid, (p + q) / (p * q))),
                       ew.multiply(far, -p / (q * (p + q))))
        parts.append(slope if places[0] == 0 else ew.negative(slope))
    return parts


def gradient(f, *varargs, axis=None, edge_order=1):
    """Central differences inside, one-sided ones at the ends (of two points, or of three for an `edge_order` of 2), along each axis (a
    list) or one. `varargs` are the spacings: one for all axes or one for each, a number or the coordinates along it."""
    from ._shape import concatenate, slice_axis
    if edge_order not in (1, 2):
        raise ValueError(f"edge_order is {edge_order!r}; it is 1 or 2")
    x, spacing = as_array(f), varargs
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
        if n < edge_order + 1:
            raise ValueError(f"gradient needs {edge_order + 1} elements along axis {a}, got {n}")
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
            if edge_order == 2:
                first, last = _one_sided(at, n, ((h, h), (h, h)))
        else:
            d = convert(h[1:] - h[:-1], x.dtype_name)
            wide = lambda v: reshape(v, [-1 if k == a else 1 for k in np.arange(x.ndim)])
            before, after = wide(d[:-1]), wide(d[1:])
            inner = ew.add(ew.add(ew.multiply(at(0, n - 2), -after / (before * (before + after))),
                                  ew.multiply(at(1, n - 1), (after - before) / (before * after))),
                           ew.multiply(at(2, n), before / (after * (before + after))))
            first = ew.divide(ew.subtract(at(1, 2), at(0, 1)), wide(d[:1]))
            last = ew.divide(ew.subtract(at(n - 1, n), at(n - 2, n - 1)), wide(d[-1:]))
            if edge_order == 2:
                first, last = _one_sided(at, n, ((wide(d[:1]), wide(d[1:2])), (wide(d[-2:-1]), wide(d[-1:]))))
        out.append(concatenate([first, inner, last], a))
    return out[0] if len(out) == 1 else out
