"""Calls of rlx.numpy beside the same calls of NumPy, over dtypes, axes and odd shapes: (name, arguments, keywords).

An argument that is a tuple ("a", shape, lo, hi) stands for a random array, drawn in each dtype of `dtypes_of(name)`.
"""

import numpy as np

A = lambda *shape, lo=-2.0, hi=2.0: ("a", shape, lo, hi)
FLOATS, INTS, ALL, COMPLEX = "f4 f8 f2", "i4 i8 u1", "f4 f8 f2 i4 i8 u1 b1 c8", "c8 c16"

# name: (dtypes, [(arguments, keywords), ...])
CASES = {}


def case(names, dtypes, *calls):
    for name in names.split():
        CASES.setdefault(name, []).extend((dtypes, call[0], call[1] if len(call) > 1 else {}) for call in calls)


SHAPES = [(), (1,), (0, 3), (3, 4), (2, 1, 3)]
each = lambda lo=-2.0, hi=2.0: [([A(*s, lo=lo, hi=hi)],) for s in SHAPES]
case("sin cos tanh exp expm1 sinh cosh square negative positive arctan arcsinh cbrt exp2 sinc deg2rad rad2deg", FLOATS, *each())
case("sin cos tan tanh exp sqrt log sinh cosh arcsin arccos arctan arcsinh arccosh arctanh", COMPLEX, *each(0.2, 0.9))
case("square negative reciprocal conj real imag abs sign angle isnan isinf isfinite isreal", COMPLEX, *each())
case("tan", FLOATS, *each(-1.2, 1.2))
case("log log2 log10 log1p sqrt reciprocal", FLOATS, *each(0.1, 4))
case("arcsin arccos arctanh", FLOATS, *each(-0.9, 0.9))
case("arccosh", FLOATS, *each(1.1, 4))
case("floor ceil trunc round abs sign isnan isinf isfinite isneginf isposinf signbit", FLOATS, *each(-5, 5))
case("abs sign negative square floor ceil trunc positive", INTS.replace(" u1", ""), *each(-9, 9))
case("round", "f4 f8", ([A(3, 4, lo=-99, hi=99), 1],), ([A(3, 4, lo=-999, hi=999), -2],), ([A(2, 3), 3],))
PAIRS = [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((0, 2), (1, 2)), ((2, 1, 3), (4, 1))]
both = lambda lo=-2.0, hi=2.0: [([A(*p, lo=lo, hi=hi), A(*q, lo=lo, hi=hi)],) for p, q in PAIRS]
case("add subtract multiply maximum minimum equal not_equal less less_equal greater greater_equal", FLOATS + " i4 i8", *both())
case("add multiply equal not_equal", COMPLEX, *both())
case("divide true_divide arctan2 hypot logaddexp logaddexp2 copysign fmax fmin heaviside", FLOATS, *both(0.3, 3))
case("divide subtract", COMPLEX, *both(0.3, 3))
case("power", FLOATS, *both(0.3, 3))
case("power", "i4 i8", *both(0, 5))
case("remainder fmod floor_divide", FLOATS, *both(0.5, 9))
case("remainder floor_divide gcd lcm", "i4 i8", *both(1, 30))
case("fmod", "i4 i8", *both(1, 30))
case("bitwise_and bitwise_or bitwise_xor", "i4 i8 u1 b1", *both(0, 99))
case("left_shift right_shift", "i4 i8", *both(0, 7))
case("bitwise_not", "i4 i8 u1 b1", *each(0, 99))
case("logical_and logical_or logical_xor", ALL, *both(-1, 1))
case("logical_not", ALL, *each(-1, 1))
case("nextafter", "f4 f8", *both())
case("frexp", "f4 f8", *each(-99, 99))
case("where", FLOATS + " i4", ([("m", (3, 4)), A(3, 4), A(4)],), ([("m", (3, 1)), A(1, 4), A()],))
case("clip", FLOATS, ([A(3, 4), -0.5, 0.5],), ([A(3, 4), None, 0.5],))
case("clip", "i4", ([A(3, 4, lo=-9, hi=9), -3, 4],))
case("nan_to_num", FLOATS, ([A(3, 4)],))
case("isclose allclose array_equal", FLOATS, ([A(3, 4), A(3, 4)],), ([A(4), A(4)], ))

AXES = [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, -1)}, {"axis": 1, "keepdims": True}, {"keepdims": True}]
over = lambda *shape, lo=-2.0, hi=2.0: [([A(*shape, lo=lo, hi=hi)], k) for k in AXES]
case("sum mean var std max min", FLOATS, *over(3, 4), *over(2, 3, 4), ([A()], {}), ([A(2, 0, 3)], {"axis": 0}))
case("sum prod max min", "i4 i8", *over(3, 4, lo=1, hi=4))
case("prod", FLOATS, *over(2, 3, lo=0.5, hi=1.5), ([A(0)], {}))
case("sum mean prod var", COMPLEX, *over(2, 3))
case("any all count_nonzero", ALL, *[([A(3, 4, lo=-1, hi=1)], k) for k in ({}, {"axis": 0}, {"axis": (0, 1)})])
case("var std", FLOATS, ([A(3, 4)], {"ddof": 1}), ([A(3, 4)], {"axis": 1, "ddof": 1}))
case("argmax argmin", FLOATS + " i4", ([A(3, 4)], {}), ([A(3, 4)], {"axis": 0}), ([A(2, 3, 4)], {"axis": -1, "keepdims": True}))
case("cumsum cumprod", FLOATS + " i4", ([A(3, 4, lo=0.5, hi=1.5)], {"axis": 0}), ([A(3, 4, lo=1, hi=2)], {"axis": -1}), ([A(2, 3, lo=1, hi=2)], {}))
case("nansum nanmean", "f4 f8", *over(3, 4))
case("quantile nanquantile", "f4 f8", *[([A(3, 5), 0.3], {"axis": a, "method": m}) for a in (None, 0, 1)
                                       for m in ("linear", "lower", "higher", "midpoint", "nearest")],
     ([A(2, 3, 4), 0.75], {"axis": (0, 2), "keepdims": True}))
case("cov corrcoef", "f4 f8", ([A(3, 6)],), ([A(7)],))
case("cov", "f4 f8", ([A(3, 6)], {"ddof": 0}))
case("gradient", "f4 f8", ([A(6)],), ([A(4, 5), 0.5],), ([A(4, 5)], {"axis": 1}))
case("diff", FLOATS + " i4", ([A(6)],), ([A(3, 5)], {"n": 2}), ([A(3, 5)], {"axis": 0}))

case("reshape", ALL, ([A(2, 6), (3, 4)],), ([A(2, 6), (-1, 2)],), ([A(), (1, 1)],), ([A(0, 3), (3, 0, 2)],))
case("transpose", ALL, ([A(2, 3, 4)],), ([A(2, 3, 4), (1, 2, 0)],), ([A(3)],))
case("ravel atleast_1d atleast_2d atleast_3d", ALL, ([A(2, 3)],), ([A()],), ([A(4)],), ([A(2, 1, 3)],))
case("squeeze", ALL, ([A(1, 3, 1)],), ([A(1, 3, 1), 0],), ([A(1, 3, 1)], {"axis": (0, -1)}))
case("expand_dims", ALL, ([A(2, 3), 0],), ([A(2, 3), -1],), ([A(2, 3), (0, 2)],))
case("moveaxis", "f4", ([A(2, 3, 4), 0, -1],), ([A(2, 3, 4), (0, 1), (2, 0)],))
case("swapaxes", "f4", ([A(2, 3, 4), 0, 2],), ([A(2, 3, 4), -1, 1],))
case("flip", ALL, ([A(2, 3)],), ([A(2, 3), 1],), ([A(2, 3, 2), (0, 2)],))
case("fliplr flipud", "f4 i4", ([A(2, 3)],))
case("rot90", "f4", ([A(2, 3), 1],), ([A(2, 3), 2],), ([A(2, 3), 3],), ([A(2, 3, 4), 1, (1, 2)],))
case("roll", "f4 i4", ([A(2, 5), 2],), ([A(2, 5), -3, 1],), ([A(3, 4), (1, 2), (0, 1)],))
case("tile", "f4 i4", ([A(2, 3), 2],), ([A(2, 3), (2, 1, 3)],), ([A(), 3],))
case("repeat", "f4 i4", ([A(2, 3), 2],), ([A(2, 3), 3], {"axis": 0}), ([A(2, 3), [1, 0, 2]], {"axis": 1}))
case("pad", "f4 i4", ([A(2, 3), 1],), ([A(2, 3), ((1, 2), (0, 3))], {"constant_values": 7}),
     *[([A(4, 5), ((1, 2), (3, 0))], {"mode": m}) for m in ("edge", "reflect", "symmetric", "wrap")])
case("broadcast_to", ALL, ([A(3, 1), (2, 3, 4)],), ([A(), (2, 2)],))
case("tril triu", "f4 i4 c8", ([A(3, 4)],), ([A(4, 3), 1],), ([A(2, 3, 3), -1],), ([A(3)],))
case("diag", "f4 i4", ([A(4), 0],), ([A(3), 1],), ([A(3), -2],), ([A(3, 4), 1],))
case("diagflat", "f4", ([A(2, 2), 1],), ([A(3), 0],))
case("diagonal", "f4", ([A(3, 4), 0, 0, 1],), ([A(3, 4), -1, 0, 1],), ([A(2, 3, 4), 1, 1, 2],), ([A(2, 3, 4), 0, 0, 2],))
case("trace", "f4 i4", ([A(3, 4)],), ([A(2, 3, 3)],))
case("split array_split", "f4", ([A(6, 2), 3, 0],), ([A(2, 6), 2, 1],), ([A(6), [2, 5], 0],))
case("array_split", "f4", ([A(7), 3, 0],))
case("concatenate", "f4 i4", ([[A(2, 3), A(1, 3)], 0],), ([[A(2, 3), A(2, 2)], 1],), ([[A(2), A(2, 2)], None],))
case("stack", "f4 i4", ([[A(2, 3), A(2, 3)], 0],), ([[A(2, 3), A(2, 3)], -1],))
case("hstack vstack dstack column_stack", "f4", ([[A(3), A(3)]],), ([[A(3, 2), A(3, 2)]],))
case("broadcast_arrays", "f4", ([A(3, 1), A(4)],))
case("unravel_index", "i4", ([A(5, lo=0, hi=24), (2, 3, 4)],))

case("matmul", "f4 f8 i4 c8", ([A(3, 4), A(4, 2)],), ([A(4), A(4)],), ([A(4), A(4, 2)],), ([A(3, 4), A(4)],), ([A(2, 1, 3, 4), A(5, 4, 2)],), ([A(3, 0), A(0, 2)],))
case("dot", "f4 f8 i4", ([A(3, 4), A(4, 2)],), ([A(4), A(4)],), ([A(), A(3)],), ([A(2, 3, 4), A(5, 4, 2)],))
case("vdot inner", "f4 c8", ([A(4), A(4)],))
case("inner", "f4", ([A(2, 4), A(3, 4)],))
case("outer", "f4 i4", ([A(3), A(2, 2)],))
case("kron", "f4 i4", ([A(2, 3), A(3, 2)],), ([A(3), A(2, 2)],))
case("tensordot", "f4 f8", ([A(2, 3, 4), A(4, 3, 5), ([1, 2], [1, 0])],), ([A(2, 3, 4), A(3, 4, 5), 2],), ([A(2), A(3), 0],))
case("cross", "f4", ([A(3), A(3)],), ([A(4, 3), A(3)],), ([A(3, 4), A(3, 4)], {"axis": 0}))
case("einsum", "f4 f8", (["ij,jk->ik", A(2, 3), A(3, 4)],), (["ii->i", A(3, 3)],), (["ii", A(3, 3)],), (["...ij,...jk", A(2, 1, 3, 4), A(5, 4, 2)],),
     (["bhqd,bhkd->bhqk", A(2, 2, 3, 4), A(2, 2, 5, 4)],), (["i,j,k->kji", A(2), A(3), A(4)],), (["ijk->kj", A(2, 3, 4)],), (["ij,ij->", A(2, 3), A(2, 3)],))

case("sort argsort", FLOATS + " i4", *[([A(*s)], {"stable": True, **k}) for s, k in (((3, 5), {}), ((3, 5), {"axis": 0}), ((7,), {}))])
case("sort", COMPLEX, ([A(6)],))
case("searchsorted", "f4 f8", ([("s", (8,)), A(3, 4)],), ([("s", (8,)), A(5)], {"side": "right"}))
case("take", "f4 i4", ([A(4, 5), [[0, 3], [2, 1]]], {"axis": 1}), ([A(4, 5), [0, -1, 7]], {}), ([A(4), [1, 9, -7]], {"mode": "clip"}), ([A(4), [1, 9, -7]], {"mode": "wrap"}))
case("take_along_axis", "f4", ([A(3, 4), np.array([[0, 1, 2, 0], [2, 1, 0, 1]])], {"axis": 0}))
case("bincount", "i4", ([A(9, lo=0, hi=5)],), ([A(9, lo=0, hi=5)], {"minlength": 8}))
case("histogram", "f4 f8", ([A(50)],), ([A(50)], {"bins": 5, "range": (-1, 1)}), ([A(50)], {"bins": 4, "density": True}))
case("histogramdd", "f8", ([A(40, 2)], {"bins": 3}))
case("nonzero argwhere", "f4 i4", ([("m", (3, 4))],))
case("isin", "i4", ([A(3, 4, lo=0, hi=9), [1, 4, 7]],))
case("unique", "i4 f4", ([A(12, lo=0, hi=5)],), ([A(12, lo=0, hi=5)], {"return_counts": True, "return_inverse": True}))
case("meshgrid", "f4", ([A(3), A(2)],), ([A(3), A(2)], {"indexing": "ij"}))

# Without arrays.
case("zeros ones", None, ([(2, 3)],), ([()],), ([(0, 2), "i4"],))
case("full", None, ([(2, 3), 7.5],), ([(2,), 3, "f8"],))
case("arange", None, ([5],), ([2, 9, 3],), ([0.5, 3.0, 0.25],), ([5, 0, -2], {"dtype": "i8"}))
case("linspace", None, ([0, 1, 5],), ([-2.0, 3.0, 7], {"endpoint": False}), ([2, 3, 1],))
case("logspace", None, ([0, 2, 5],), ([1, 3, 4], {"base": 2.0}))
case("eye", None, ([3],), ([3, 4],), ([4, 3, 1],), ([3, 3, -1],))
case("tril_indices triu_indices", None, ([4],), ([3, 1, 5],))
case("zeros_like ones_like", "f4 i4 c8", ([A(2, 3)],))
case("full_like", "f4 i4", ([A(2, 3), 3],))
case("astype", "f4 f8 i4", ([A(3, 4, lo=-5, hi=5), "i8"],), ([A(3, 4), "f8"],), ([A(3, 4), "b1"],), ([A(3), "c8"],))

# What comparisons over all dtypes, axes and odd shapes have found wrong once.
NARROW = "i1 i2 u1 u2"
case("sum cumsum", NARROW, ([A(40, lo=60, hi=99)],), ([A(3, 9, lo=60, hi=99)], {"axis": 1}))
case("prod cumprod", NARROW, ([A(4, lo=30, hi=60)],), ([A(3, 4, lo=30, hi=60)], {"axis": 1}))
case("trace", NARROW, ([A(3, 3, lo=100, hi=120)],))
case("einsum", "i1 b1", (["ii", A(3, 3)],), (["ij->i", A(2, 3)],), (["ij,jk->ik", A(2, 3), A(3, 4)],))
case("matmul dot", "b1", ([A(3, 4), A(4, 2)],), ([A(4), A(4)],), ([A(2, 3, 0), A(0, 2)],))
case("inner vdot", "b1", ([A(4), A(4)],))
case("tensordot", "b1", ([A(2, 3), A(2, 3), 2],))
case("exp2 log2 log10 sinh cosh arcsin arccos arctan arcsinh arccosh arctanh", "c16", ([A(3, 4, lo=-3, hi=3)],), ([A(3, 4, lo=-300, hi=300)],),
     ([A(3, lo=-1e-7, hi=1e-7)],))
case("less less_equal greater greater_equal maximum minimum", COMPLEX, *both(-1, 1))
case("max min argmax argmin", COMPLEX, ([A(3, 4)],), ([A(3, 4)], {"axis": 0}))
case("argwhere", "f4 i4 b1", ([A()],))
case("roll", "f4", ([A(3, 4), (1, -2), (0, 0)],), ([A(3, 4), (1, 2), 1],))
case("pad", "f4 u1", ([A(4), 2], {"constant_values": ((1, 2),)}), ([A(2, 2), 2], {"constant_values": ((1, 2), (3, 4))}), ([A(2, 3), (1, 2)], {"constant_values": (5, 6)}))
case("cross", "u1", ([A(3), A(4, 3)],))
case("bincount", "b1", ([A(9)],), ([A(9)], {"minlength": 8}))
case("percentile", "f8", ([A(4, 5), 30.0], {"axis": 0}), ([A(7), [30, 40.5]],))
case("cov", "f8", ([A(3, 6)], {"fweights": np.array([1, 2, 3, 1, 1, 2]), "aweights": np.array([1, 2, 0.5, 1, 1, 2]), "ddof": 2}))
case("clip", "u1 i1", ([A(3, 4, lo=-9, hi=99), -1, 300],), ([A(3, 4), None, 2],))
case("less less_equal greater greater_equal equal not_equal", "u1 i1", ([A(3, 4), -200],), ([A(3, 4), 300],), ([300, A(3, 4)],), ([-200, A(3, 4)],))
case("take", "f4", ([A(3, 4), np.zeros((1, 0), np.int32)], {"axis": 1}))
