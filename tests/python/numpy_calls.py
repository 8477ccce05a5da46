"""Calls that are made with NumPy and with rlx.numpy, on the same arrays: the function's name, the call, the arrays, and how it is checked
beyond that: j traced by jit, v under vmap, g its gradient beside finite differences of NumPy's own result."""

import numpy as np

CALLS = []


def draw(shape, dtype, lo=-2.0, hi=2.0):
    """Stands for a random array."""
    return ("draw", shape, dtype, lo, hi)


F = lambda *shape, lo=-2.0, hi=2.0: draw(shape, "f8", lo, hi)
I = lambda *shape, lo=-4, hi=5: draw(shape, "i4", lo, hi)
B = lambda *shape: draw(shape, "b1", 0, 1)
C = lambda *shape: draw(shape, "c16", -2.0, 2.0)
U = lambda *shape: draw(shape, "u1", 0, 255)


def call(name, f, *arrays, how="jvg"):
    CALLS.append((name, f, arrays, how))


NAN = np.array([[1.0, np.nan, 3.0, -2.0], [np.nan, np.nan, 0.5, 4.0], [2.5, 1.5, np.nan, -1.0]])
ALL_NAN = np.array([[np.nan, 1.0], [np.nan, 2.0]])

# ---- reductions: initial, where, out of order positions ----
MASK = np.array([[True, False, True, True], [False, True, True, True], [True, True, False, False]])
for axis in (None, 0, -1, (0, 1)):
    for name in ("sum", "prod"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, initial=1.5), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, where=MASK, keepdims=True), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, where=MASK, initial=2), I(3, 4), how="jv")
    for name in ("max", "min", "amax", "amin"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, initial=0.25), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, initial=-1.0, where=MASK), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, initial=3, where=MASK), I(3, 4), how="jv")
    for name in ("mean", "var", "std"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, where=MASK), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, where=MASK, keepdims=True), C(3, 4), how="j")
    for name in ("any", "all"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, where=MASK), B(3, 4), how="jv")
    for name in ("var", "std"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, correction=1), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, mean=n.mean(x, axis=axis, keepdims=True)), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, ddof=1, where=MASK), F(3, 4))
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis, np.float64), I(3, 4), how="j")
    call("ptp", lambda n, x, axis=axis: n.ptp(x, axis=axis, keepdims=True), F(3, 4))
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis), NAN, how="j")
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, keepdims=True), F(2, 3, 4))
    for name in ("nansum", "nanprod"):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis, where=MASK, initial=2.0), NAN, how="j")
    call("nanmean", lambda n, x, axis=axis: n.nanmean(x, axis=axis, where=MASK), NAN, how="j")
    for name in ("nanmedian",):
        call(name, lambda n, x, name=name, axis=axis: getattr(n, name)(x, axis=axis), NAN, how="j")
    call("nanpercentile", lambda n, x, axis=axis: n.nanpercentile(x, [25, 60], axis=axis), NAN, how="j")
    call("nanvar", lambda n, x, axis=axis: n.nanvar(x, axis=axis, ddof=1), NAN, how="j")
for axis in (None, 0, 1):
    call("nancumsum", lambda n, x, axis=axis: n.nancumsum(x, axis=axis), NAN, how="j")
    call("nancumprod", lambda n, x, axis=axis: n.nancumprod(x, axis=axis), NAN, how="j")
    call("nanargmax", lambda n, x, axis=axis: n.nanargmax(x, axis=axis), NAN, how="j")
    call("nanargmin", lambda n, x, axis=axis: n.nanargmin(x, axis=axis, keepdims=True), NAN, how="j")
call("nanmax", lambda n, x: n.nanmax(x, axis=0), ALL_NAN, how="j")
call("nanmax", lambda n, x: n.nanmax(x, axis=0, initial=-9.0), ALL_NAN, how="j")
call("nanmin", lambda n, x: n.nanmin(x, axis=0), I(3, 2), how="j")
call("nanmax", lambda n, x: n.nanmax(x), C(3, 2), how="j")
call("sum", lambda n, x: n.sum(x, axis=1, initial=3.0), F(2, 0))
call("max", lambda n, x: n.max(x, axis=1, initial=3.0), F(2, 0), how="j")
call("min", lambda n, x: n.min(x, axis=(0, 1), initial=3.0, keepdims=True), F(2, 0), how="j")
call("cumulative_sum", lambda n, x: n.cumulative_sum(x, axis=1, include_initial=True), F(3, 4))
call("cumulative_sum", lambda n, x: n.cumulative_sum(x), F(4))
call("cumulative_prod", lambda n, x: n.cumulative_prod(x, axis=-1, include_initial=True), F(3, 4))
call("cumulative_prod", lambda n, x: n.cumulative_prod(x, axis=0, dtype=np.float64), I(3, 4), how="jv")
call("average", lambda n, x, w: n.average(x, axis=1, weights=w, returned=True, keepdims=True), F(3, 4), F(4, lo=0.5))
call("average", lambda n, x: n.average(x, axis=0, returned=True), F(3, 4))
for method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
               "median_unbiased", "normal_unbiased"):
    call("quantile", lambda n, x, method=method: n.quantile(x, [0.0, 0.25, 0.4, 0.5, 0.75, 1.0], axis=1, method=method), F(3, 8), how="jv")
    call("percentile", lambda n, x, method=method: n.percentile(x, [12.5, 62.5], method=method), F(3, 5), how="j")
call("quantile", lambda n, x, w: n.quantile(x, [0.1, 0.5, 0.9], axis=1, method="inverted_cdf", weights=w), F(3, 6), F(6, lo=0.1), how="j")
call("quantile", lambda n, x, w: n.quantile(x, 0.3, method="inverted_cdf", weights=w), F(3, 6), F(3, 6, lo=0.1), how="j")
call("nanquantile", lambda n, x: n.nanquantile(x, 0.5, axis=1, method="inverted_cdf", weights=np.ones((3, 1)) * [1.0, 2.0, 0.5, 1.5]), NAN, how="j")
call("median", lambda n, x: n.median(x, axis=(0, -1), keepdims=True), F(2, 3, 4))

# ---- elementwise ----
for name in ("acos", "asin", "atanh"):
    call(name, lambda n, x, name=name: getattr(n, name)(x), F(3, 4, lo=-0.9, hi=0.9))
for name in ("atan", "asinh", "fabs", "i0"):
    call(name, lambda n, x, name=name: getattr(n, name)(x), F(3, 4))
call("acosh", lambda n, x: n.acosh(x), F(5, lo=1.1, hi=3))
call("atan2", lambda n, x, y: n.atan2(x, y), F(3, 1), F(4))
call("pow", lambda n, x, y: n.pow(x, y), F(3, 1, lo=0.2), F(4))
call("around", lambda n, x: n.around(x, decimals=2), F(4), how="jv")
call("float_power", lambda n, x, y: n.float_power(x, y), F(3, lo=0.2), F(2, 1))
call("divmod", lambda n, x, y: n.divmod(x, y), F(3, 1), F(4, lo=0.5), how="jv")
call("divmod", lambda n, x, y: n.divmod(x, y), I(3, 1), I(4, lo=1), how="jv")
call("modf", lambda n, x: n.modf(x), F(3, 4))
call("modf", lambda n, x: n.modf(x), np.array([np.inf, -np.inf, np.nan, 0.0, -1.75]), how="jv")
call("bitwise_count", lambda n, x: n.bitwise_count(x), I(3, 4, lo=-99, hi=99), how="jv")
call("bitwise_count", lambda n, x: n.bitwise_count(x), U(5), how="j")
call("bitwise_invert", lambda n, x: n.bitwise_invert(x), I(4), how="jv")
call("bitwise_left_shift", lambda n, x: n.bitwise_left_shift(x, 3), I(4), how="jv")
call("bitwise_right_shift", lambda n, x: n.bitwise_right_shift(x, 1), I(4), how="jv")
call("spacing", lambda n, x: n.spacing(x), np.array([0.0, 1.0, -1.0, 1e300, -3e-310, np.nan]), how="jv")
call("spacing", lambda n, x: n.spacing(x), np.float32([0.0, 1.0, -1.0, 3e38, 1e-45]), how="j")
call("unwrap", lambda n, x: n.unwrap(x), F(9, lo=-9, hi=9))
call("unwrap", lambda n, x: n.unwrap(x, axis=0, period=3.0, discont=2.0), F(5, 2, lo=-9, hi=9))
call("unwrap", lambda n, x: n.unwrap(x, period=4), np.int32([0, 1, 2, -1, 0, 3, 1]), how="j")
call("array_equiv", lambda n, x: n.array_equiv(x, n.stack([x, x])), F(3), how="j")
call("array_equiv", lambda n, x: n.array_equiv(x, x[:2]), F(3), how="j")
call("nan_to_num", lambda n, x: n.nan_to_num(x, nan=7.0), NAN, how="j")
call("clip", lambda n, x: n.clip(x, a_min=-1, a_max=None), F(5))
call("round", lambda n, x: n.round(a=x, decimals=1), F(5), how="j")

# ---- shapes ----
call("reshape", lambda n, x: n.reshape(x, (3, 4), order="F"), F(2, 6))
call("reshape", lambda n, x: n.reshape(x, (-1, 2, 3), "F"), F(4, 3))
call("ravel", lambda n, x: n.ravel(x, order="F"), F(2, 3))
call("append", lambda n, x, y: n.append(x, y), F(2, 3), F(2))
call("append", lambda n, x, y: n.append(x, y, axis=1), F(2, 3), F(2, 1))
for at in (0, 2, -1, 3):
    call("insert", lambda n, x, at=at: n.insert(x, at, 7.0), F(3))
    call("insert", lambda n, x, y, at=at: n.insert(x, at, y, axis=1), F(2, 3), F(2))
    call("insert", lambda n, x, y, at=at: n.insert(x, at, y, axis=0), F(3, 2), F(2))
    call("insert", lambda n, x, at=at: n.insert(x, [at], [[5.0], [6.0]], axis=1), F(2, 3), how="j")
call("insert", lambda n, x, y: n.insert(x, [0, 2, 2, -1], y), F(4), F(4))
call("insert", lambda n, x: n.insert(x, [3, 1], [10.0, 20.0]), F(4))
call("insert", lambda n, x, y: n.insert(x, slice(0, 3, 2), y, axis=0), F(3, 2), F(2, 2))
call("insert", lambda n, x: n.insert(x, np.array([], int), []), F(3))
for obj in (0, -1, [0, 2], [-1, 1, 1], slice(0, 3, 2), np.array([True, False, True, False]), []):
    call("delete", lambda n, x, obj=obj: n.delete(x, obj), F(4))
    call("delete", lambda n, x, obj=obj: n.delete(x, obj, axis=-1), F(2, 4))
call("resize", lambda n, x: n.resize(x, (3, 5)), F(2, 3))
call("resize", lambda n, x: n.resize(x, 4), F(2, 3))
call("resize", lambda n, x: n.resize(x, (2, 0)), F(2, 3), how="j")
call("unstack", lambda n, x: n.unstack(x, axis=1), F(2, 3))
call("hsplit", lambda n, x: n.hsplit(x, 2), F(3, 4))
call("hsplit", lambda n, x: n.hsplit(x, [1, 3]), F(4))
call("vsplit", lambda n, x: n.vsplit(x, [1]), F(3, 4))
call("dsplit", lambda n, x: n.dsplit(x, 2), F(2, 3, 4))
for axis, start in ((0, 0), (2, 0), (-1, 1), (0, 3), (1, -1), (3, 2)):
    call("rollaxis", lambda n, x, axis=axis, start=start: n.rollaxis(x, axis, start), F(2, 3, 4, 5), how="j")
call("block", lambda n, x, y: n.block([[x, y], [n.zeros((1, 5))]]), F(2, 3), F(2, 2))
call("block", lambda n, x: n.block([x, 1.0, x]), F(3))
call("block", lambda n, x: n.block([[1.0, 2.0], [x, x]]), F())
call("trim_zeros", lambda n, x: n.trim_zeros(x), np.array([0.0, 0, 1, 0, 2, 0]), how="")
call("trim_zeros", lambda n, x: n.trim_zeros(x, "f"), np.array([0, 0, 1, 0, 2, 0]), how="")
call("trim_zeros", lambda n, x: n.trim_zeros(x), np.zeros(3), how="")
call("diff", lambda n, x: n.diff(x, prepend=1.0, append=[2.0, 3.0]), F(4))
call("diff", lambda n, x, y: n.diff(x, n=2, axis=0, prepend=y), F(3, 2), F(1, 2))
call("ediff1d", lambda n, x: n.ediff1d(x, to_end=[9.0, 8.0], to_begin=-1.0), F(2, 3))
call("tile", lambda n, x: n.tile(A=x, reps=(2, 1)), F(2, 3))
for name, key in (("flip", "m"), ("fliplr", "m"), ("flipud", "m"), ("tril", "m"), ("triu", "m"), ("diag", "v"), ("diagflat", "v"), ("ravel", "a"),
                  ("transpose", "a"), ("squeeze", "a"), ("sum", "a"), ("prod", "a"), ("mean", "a"), ("var", "a"), ("std", "a"), ("max", "a"), ("min", "a"),
                  ("argmax", "a"), ("argmin", "a"), ("cumsum", "a"), ("cumprod", "a"), ("sort", "a"), ("argsort", "a"), ("trace", "a"),
                  ("diagonal", "a"), ("count_nonzero", "a"), ("any", "a"), ("all", "a"), ("median", "a"), ("nansum", "a"), ("nanmean", "a"),
                  ("rot90", "m"), ("average", "a"), ("zeros_like", "a"), ("ones_like", "a"), ("diff", "a"), ("cov", "m"), ("angle", "z")):
    call(name, lambda n, x, name=name, key=key: getattr(n, name)(**{key: x}), F(3, 3), how="j")
call("vstack", lambda n, x: n.vstack(tup=[x, x], dtype=np.float32), F(2, 3), how="j")
call("hstack", lambda n, x: n.hstack([x, x], dtype=np.float32), F(2, 3), how="j")
call("stack", lambda n, x: n.stack([x, x], axis=-1, dtype=np.float32), F(2, 3), how="j")
call("column_stack", lambda n, x: n.column_stack(tup=(x, x)), F(3), how="j")
call("dstack", lambda n, x: n.dstack(tup=(x, x)), F(3), how="j")
call("array", lambda n, x: n.array(x, ndmin=3), F(2), how="j")
call("copy", lambda n, x: n.copy(x), F(2))
call("empty_like", lambda n, x: n.empty_like(x) * 0, F(2, 3), how="j")
call("meshgrid", lambda n, x, y: n.meshgrid(x, y, sparse=True), F(3), F(2))
call("linspace", lambda n, x, y: n.linspace(x, y, 5, axis=-1, retstep=True), F(2), F(2))
call("linspace", lambda n, x, y: n.linspace(x, y, 4, endpoint=False, axis=1), F(2, 3), F(3))
call("logspace", lambda n, x, y: n.logspace(x, y, 4, axis=-1), F(2), F(2))
call("geomspace", lambda n, x, y: n.geomspace(x, y, 6), F(2, lo=0.5), F(2, lo=0.5))
call("geomspace", lambda n, x, y: n.geomspace(x, y, 6, endpoint=False, axis=1), F(2, lo=0.5), F(lo=2.5, hi=9))
call("geomspace", lambda n, x: n.geomspace(-x, -1000.0, 4), F(lo=0.5), how="j")
call("geomspace", lambda n, x: n.geomspace(1j, x, 4), np.array(1 + 2j), how="")

# ---- selection, indices ----
call("select", lambda n, x: n.select([x < -0.5, x > 0.5], [x ** 2, -x], default=9.0), F(3, 4))
call("select", lambda n, x, y: n.select([x > 0], [y]), F(3, 1), I(4), how="j")
call("piecewise", lambda n, x: n.piecewise(x, [x < 0, x >= 1], [-1.0, lambda v: v * 3, lambda v: v ** 2]), F(5))
call("piecewise", lambda n, x: n.piecewise(x, [x < 0, x >= 1], [-1.0, 2.0]), F(2, 3), how="j")
call("choose", lambda n, a, x, y: n.choose(a, [x, y, 3.0]), np.int32([[0, 1, 2], [2, 1, 0]]), F(3), F(2, 1), how="")
for mode in ("wrap", "clip"):
    call("choose", lambda n, a, x, y, mode=mode: n.choose(a, [x, y], mode=mode), I(2, 3), F(3), F(2, 1), how="j")
call("compress", lambda n, x: n.compress([True, False, True], x, axis=1), F(2, 4))
call("compress", lambda n, x: n.compress([True, False, True], x), F(2, 4))
call("extract", lambda n, x: n.extract(x > 0, x), F(3, 4), how="")
call("flatnonzero", lambda n, x: n.flatnonzero(x), I(3, 4, lo=-1, hi=1), how="")
call("where", lambda n, x: n.where(x), I(3, 4, lo=-1, hi=1), how="")
call("ix_", lambda n, x: n.ix_(x, [True, False, True], n.arange(2)), np.int32([3, 1]), how="j")
call("indices", lambda n: n.indices((2, 3)), how="")
call("indices", lambda n: n.indices((2, 3), sparse=True), how="")
call("indices", lambda n: n.indices((2, 3), np.float32), how="")
call("fromfunction", lambda n: n.fromfunction(lambda i, j: i * 10 + j, (2, 3)), how="")
call("fromfunction", lambda n: n.fromfunction(lambda i, j: i == j, (3, 3), dtype=int), how="")
call("diag_indices", lambda n: n.diag_indices(3, 3), how="")
call("diag_indices_from", lambda n, x: n.diag_indices_from(x), F(3, 3), how="j")
call("tril_indices_from", lambda n, x: n.tril_indices_from(x, 1), F(3, 4), how="j")
call("triu_indices_from", lambda n, x: n.triu_indices_from(x, k=-1), F(3, 4), how="j")
call("mask_indices", lambda n: n.mask_indices(3, n.triu, 1), how="")
for mode in ("clip", "wrap"):
    call("ravel_multi_index", lambda n, i, j, mode=mode: n.ravel_multi_index((i, j), (3, 4), mode=mode), I(5), I(5), how="jv")
call("ravel_multi_index", lambda n, i, j: n.ravel_multi_index((i, j), (3, 4), order="F"), np.int32([0, 2]), np.int32([3, 1]), how="")
call("ravel_multi_index", lambda n, i, j: n.ravel_multi_index((i, j), (3, 4), mode=("clip", "wrap")), I(5), I(5), how="j")
call("lexsort", lambda n, x, y: n.lexsort((x, y)), F(7), I(7, lo=0, hi=2), how="jv")
call("lexsort", lambda n, x: n.lexsort(x, axis=0), I(3, 6, 2, lo=0, hi=2), how="j")
call("sort_complex", lambda n, x: n.sort_complex(x), C(3, 4), how="j")
call("sort_complex", lambda n, x: n.sort_complex(x), F(5), how="j")
call("sort", lambda n, x: n.sort(x, kind="mergesort"), F(5))
call("argsort", lambda n, x: n.argsort(x, stable=True), F(5), how="j")
call("searchsorted", lambda n, x, v: n.searchsorted(x, v, sorter=n.argsort(x)), F(7), F(4), how="j")
call("digitize", lambda n, x: n.digitize(x, [1.5, 0.5, -0.5, -1.5]), np.array([-9.0, -1.5, 0.0, 0.5, 1.5, 9.0]), how="j")
call("digitize", lambda n, x: n.digitize(x, [1.5, 0.5, -0.5, -1.5], right=True), np.array([-9.0, -1.5, 0.0, 0.5, 1.5, 9.0]), how="j")
call("isin", lambda n, x: n.isin(x, [1, 2, 3], assume_unique=True, kind="sort"), np.int32([3, 5, 1]), how="j")
call("take", lambda n, x: n.take(x, [0, 2], 1), F(2, 3))

# ---- bits ----
for order in ("big", "little"):
    for axis in (None, 0, -1):
        call("packbits", lambda n, x, axis=axis, order=order: n.packbits(x, axis=axis, bitorder=order), B(3, 11), how="j")
        call("unpackbits", lambda n, x, axis=axis, order=order: n.unpackbits(x, axis=axis, bitorder=order), U(3, 2), how="j")
for count in (5, 20, -3, None):
    call("unpackbits", lambda n, x, count=count: n.unpackbits(x, axis=1, count=count), U(3, 2), how="j")
call("packbits", lambda n, x: n.packbits(x), I(9, lo=-1, hi=1), how="j")

# ---- products, functions of one axis ----
call("vecdot", lambda n, x, y: n.vecdot(x, y), F(2, 3, 4), F(3, 4))
call("vecdot", lambda n, x, y: n.vecdot(x, y, axis=0), C(4, 2), C(4, 2), how="j")
call("matvec", lambda n, x, y: n.matvec(x, y), F(2, 3, 4), F(4))
call("vecmat", lambda n, x, y: n.vecmat(x, y), F(5, 3), F(5, 3, 4))
call("vecmat", lambda n, x, y: n.vecmat(x, y), C(3), C(3, 4), how="j")
call("matrix_transpose", lambda n, x: n.matrix_transpose(x), F(2, 3, 4))
call("cross", lambda n, x, y: n.cross(x, y, axisa=0, axisb=1, axisc=0), F(3, 2), F(2, 3))
call("trace", lambda n, x: n.trace(x, dtype=np.float32), F(3, 3), how="j")
call("outer", lambda n, x, y: n.outer(a=x, b=y), F(2, 2), F(3))
for optimize in (True, False, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)]):
    call("einsum", lambda n, x, y, z, optimize=optimize: n.einsum("ij,jk,kl->il", x, y, z, optimize=optimize), F(2, 3), F(3, 4), F(4, 2))
call("einsum", lambda n, x, y, z: n.einsum("ij,k,kl->jl", x, y, z), F(2, 3), F(4), F(4, 2))
call("einsum", lambda n, x, y, z, w: n.einsum("aij,ajk,kl,b->ail", x, y, z, w), F(2, 2, 3), F(2, 3, 4), F(4, 2), F(3))
call("einsum_path", lambda n, x, y, z: n.einsum_path("ij,jk,kl->il", x, y, z, optimize="greedy")[0], F(2, 9), F(9, 4), F(4, 2), how="skip")
for mode in ("full", "same", "valid"):
    for a, b in ((7, 3), (3, 7), (4, 2), (5, 5), (6, 1)):
        call("convolve", lambda n, x, y, mode=mode: n.convolve(x, y, mode), F(a), F(b))
        call("correlate", lambda n, x, y, mode=mode: n.correlate(x, y, mode), F(a), F(b))
    call("correlate", lambda n, x, y, mode=mode: n.correlate(x, y, mode), C(3), C(6), how="j")
    call("convolve", lambda n, x, y, mode=mode: n.convolve(x, y, mode), I(5), I(3), how="j")
KNOTS = np.array([-1.5, -0.5, 0.25, 1.0, 1.75])
call("interp", lambda n, x, f: n.interp(x, KNOTS, f), F(3, 4), F(5))
call("interp", lambda n, x, f: n.interp(x, KNOTS, f, left=-7.0, right=7.0), F(6), F(5))
call("interp", lambda n, x, f: n.interp(x, [3.0, 0.5, 2.0], f, period=2.5), F(6), F(3), how="jv")
call("interp", lambda n, x, f: n.interp(x, KNOTS, f), np.array([np.nan, -1.5, 1.75, -9.0, 9.0]), F(5), how="j")
call("interp", lambda n, x, f: n.interp(x, KNOTS, f), F(4), C(5), how="j")
call("interp", lambda n, x, f: n.interp(x, [1.0], f), F(4), F(1), how="j")
call("trapezoid", lambda n, y: n.trapezoid(y), F(3, 4))
call("trapezoid", lambda n, y: n.trapezoid(y, dx=0.5, axis=0), F(3, 4))
call("trapezoid", lambda n, y, x: n.trapezoid(y, x), F(3, 4), F(4))
call("trapezoid", lambda n, y, x: n.trapezoid(y, x=x, axis=0), F(3, 4), F(3, 4))
for order in (1, 2):
    call("gradient", lambda n, x, order=order: n.gradient(x, 0.5, edge_order=order), F(6))
    call("gradient", lambda n, x, order=order: n.gradient(x, 2.0, [0.0, 1.0, 1.5, 3.0], edge_order=order), F(3, 4))
    call("gradient", lambda n, x, order=order: n.gradient(x, axis=-1, edge_order=order), F(3, 5))
for M in (0, 1, 2, 5, 8):
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        call(name, lambda n, name=name, M=M: getattr(n, name)(M), how="32")
    call("kaiser", lambda n, M=M: n.kaiser(M, 8.6), how="32")
call("histogram2d", lambda n, x, y: n.histogram2d(x, y, bins=3, range=[[-2, 2], [-1, 1]]), F(20), F(20), how="j")
call("histogram2d", lambda n, x, y: n.histogram2d(x, y, bins=[2, 4], density=True), F(20), F(20), how="")
call("histogram", lambda n, x: n.histogram(x, 4, (-2, 2), True), F(20), how="j")
call("histogram_bin_edges", lambda n, x: n.histogram_bin_edges(x, 4, weights=None), F(20), how="j")
call("cov", lambda n, x: n.cov(x, dtype=np.float32), F(3, 6), how="j")
call("corrcoef", lambda n, x: n.corrcoef(x, dtype=np.float32), F(3, 6), how="j")

# ---- polynomials ----
call("vander", lambda n, x: n.vander(x), F(4))
call("vander", lambda n, x: n.vander(x, 3, increasing=True), I(4), how="j")
call("vander", lambda n, x: n.vander(x, 0), F(4), how="")
call("poly", lambda n, x: n.poly(x), F(4))
call("poly", lambda n, x: n.poly(x), np.array([[2.0, 1.0], [1.0, 3.0]]), how="j")
call("poly", lambda n, x: n.poly(x), C(3), how="j")
call("polyval", lambda n, p, x: n.polyval(p, x), F(4), F(2, 3))
call("polyadd", lambda n, p, q: n.polyadd(p, q), F(4), F(2))
call("polysub", lambda n, p, q: n.polysub(p, q), F(2), F(4))
call("polymul", lambda n, p, q: n.polymul(p, q), F(2), F(4))
call("polyder", lambda n, p: n.polyder(p), F(4))
call("polyder", lambda n, p: n.polyder(p, 2), F(5))
call("polyint", lambda n, p: n.polyint(p), F(4))
call("polyint", lambda n, p: n.polyint(p, 2, [3.0, 4.0]), F(4))
call("polyint", lambda n, p: n.polyint(p, m=3, k=2.0), F(4))
call("polydiv", lambda n, p, q: n.polydiv(p, q)[0], F(5), F(3, lo=0.5))
call("polyfit", lambda n, x, y: n.polyfit(x, y, 2), np.linspace(-1, 1, 7), F(7), how="j")
call("polyfit", lambda n, x, y: n.polyfit(x, y, 1, w=n.arange(1, 8) * 0.5), np.linspace(-1, 1, 7), F(7, 2), how="j")
call("polyfit", lambda n, x, y: n.polyfit(x, y, 2, full=True)[:4], np.linspace(-1, 1, 7), F(7), how="j")
for cov in (True, "unscaled"):
    call("polyfit", lambda n, x, y, cov=cov: n.polyfit(x, y, 2, cov=cov), np.linspace(-1, 1, 7), F(7), how="j")
for p in ([1.0, -3.0, 2.0], [0.0, 2.0, 0.0, -8.0, 0.0], [3.0], [0.0, 0.0], [1.0, 2j]):
    call("roots", lambda n, p: n.roots(p), np.array(p), how="roots")

# ---- sets ----
S1, S2 = np.int32([[5, 3, 3], [1, 9, 5]]), np.int32([9, 2, 3, 3, 7])
for name in ("union1d", "setdiff1d", "setxor1d", "intersect1d"):
    call(name, lambda n, x, y, name=name: getattr(n, name)(x, y), S1, S2, how="")
    call(name, lambda n, x, y, name=name: getattr(n, name)(x, y), S1 * 0.5, np.zeros(0), how="")
    if name != "union1d":
        call(name, lambda n, x, y, name=name: getattr(n, name)(x, y, assume_unique=True), np.int32([4, 1, 8]), np.int32([8, 3, 4]), how="")
call("intersect1d", lambda n, x, y: n.intersect1d(x, y, return_indices=True), S1, S2, how="")
for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
    call(name, lambda n, x, name=name: tuple(getattr(n, name)(x)) if name != "unique_values" else n.sort(n.unique_values(x)), S1, how="")
call("unique", lambda n, x: n.unique(x, equal_nan=False), np.array([np.nan, 1.0, np.nan, 1.0]), how="")
call("unique", lambda n, x: n.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=0), np.int32([[1, 2], [0, 5], [1, 2]]), how="")

# ---- putting ----
call("apply_along_axis", lambda n, x: n.apply_along_axis(lambda v: n.cumsum(v) * v[0], 1, x), F(2, 3, 4))
call("apply_along_axis", lambda n, x: n.apply_along_axis(lambda v: n.sum(v), 0, x), F(2, 3, 4))
call("apply_along_axis", lambda n, x: n.apply_along_axis(lambda v, k: n.outer(v, v) * k, 1, x, 2.0), F(2, 3, 2))
call("apply_over_axes", lambda n, x: n.apply_over_axes(n.sum, x, [0, 2]), F(2, 3, 4))
