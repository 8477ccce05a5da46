"""Calls of every name of the namespace whose derivatives are compared, and why the other names have none.

`tests/golden/generate/python_gradients.py` draws what stands for an array (A, Z and D below) and has JAX, PyTorch or closed forms differentiate
the same call; `test_gradients.py` differentiates it with RLX. A call is a name, arguments and keywords; `_via=f` calls
f(function, its numpy, *arguments) instead, where the name's own results are not unique (a sign, a phase) or its argument must be
of a kind (symmetric, triangular), so that what is compared is smooth and the same for everybody.
"""

import numpy as np


class Drawn:
    """An array of normal or uniform numbers (complex ones too), or given numbers, that derivatives are taken for."""

    def __init__(self, shape, lo=None, hi=None, complex=False, values=None):
        self.shape, self.lo, self.hi, self.complex, self.values = shape, lo, hi, complex, values


def A(*shape, lo=None, hi=None):
    return Drawn(shape, lo, hi)


def Z(*shape, lo=None, hi=None):
    return Drawn(shape, lo, hi, complex=True)


def D(*values):
    """These numbers: ties, borders, zeros."""
    return Drawn(np.shape(values), values=np.array(values))


def C(*arguments, **keywords):
    return arguments, keywords


CASES = {}


def case(module, names, *calls):
    for name in names.split():
        CASES.setdefault(f"{module}.{name}", []).extend(calls)


I = lambda *values: np.array(values, np.int32)
COUNTING = "counts or positions: integers"
TRUTH = "truth values"
WHOLE = "functions of integers"
FIXED = "made of sizes alone: no operand reaches the result"

# name: why it has no derivative
NO_DERIVATIVE = {f"np.{name}": reason for reason, names in {
    COUNTING: "argmax argmin argsort nonzero argwhere searchsorted count_nonzero unravel_index",
    TRUTH: "any all isnan isfinite isinf isneginf isposinf isreal signbit equal not_equal less less_equal greater greater_equal logical_and"
           " logical_or logical_xor logical_not isin isclose allclose array_equal",
    WHOLE: "bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift gcd lcm",
    FIXED: "zeros ones eye arange tril_indices triu_indices",
}.items() for name in names.split()}
NO_DERIVATIVE["nn.one_hot"] = "its operand is an integer, and what it is put at is 0 and 1"

# Element-wise, one operand.
one = lambda lo=None, hi=None: (C(A(2, 3, lo=lo, hi=hi)), C(A(lo=lo, hi=hi)))
case("np", "sin cos tanh exp expm1 sinh cosh square negative positive arctan arcsinh exp2 sinc deg2rad rad2deg nan_to_num abs real conj", *one())
case("np", "tan", *one(-1.2, 1.2))
case("np", "log log2 log10 log1p sqrt reciprocal", *one(0.2, 4))
case("np", "arcsin arccos arctanh", *one(-0.9, 0.9))
case("np", "arccosh", *one(1.2, 4))
case("np", "sign trunc floor ceil", C(A(2, 3)))
case("np", "round", C(A(2, 3)), C(A(2, 3), 1))
case("np", "imag angle", C(A(2, 3)), C(Z(2, 3)))
case("np", "sin cos tan tanh exp sqrt log sinh cosh arcsin arccos arctan arcsinh arccosh arctanh log2 log10 log1p expm1 reciprocal", C(Z(2, 3, lo=0.2, hi=0.9)))
case("np", "square negative positive abs real conj nan_to_num exp2", C(Z(2, 3)))
case("np", "abs", C(D(0.0, -0.0, 2.0)))
case("np", "sinc", C(D(0.0, 1.0, 0.5)))
case("np", "nan_to_num", C(D(np.nan, np.inf, -np.inf, 1.0)))
case("np", "sign", C(D(0.0, 1.0)))
case("np", "square", C(D(0.0)))
case("np", "frexp", C(A(4, lo=0.1, hi=99)))

# Element-wise, two operands that broadcast.
two = lambda lo=None, hi=None: (C(A(2, 3, lo=lo, hi=hi), A(2, 3, lo=lo, hi=hi)), C(A(2, 1, lo=lo, hi=hi), A(3, lo=lo, hi=hi)), C(A(lo=lo, hi=hi), A(2, 2, lo=lo, hi=hi)))
case("np", "add subtract multiply maximum minimum fmax fmin hypot logaddexp logaddexp2 arctan2 copysign", *two())
case("np", "true_divide power remainder fmod", *two(0.3, 3))
case("np", "floor_divide heaviside", C(A(2, 3, lo=0.3, hi=3), A(3, lo=0.3, hi=3)))
case("np", "add subtract multiply true_divide", C(Z(2, 3), Z(3)), C(A(2, 3), Z(2, 1)))
case("np", "power", C(Z(2, 3), Z(3)), C(A(2, 3), 2), C(A(2, 3), 3), C(A(2, 3, lo=0.3, hi=3), -1.5), C(2.0, A(3)), C(D(0.0, 0.0, 0.0, 2.0), D(2.0, 1.0, 3.0, 0.0)),
     C(D(0.0, 1.0), 2), C(D(-2.0, -1.5), D(2.0, 3.0), _via=lambda f, np, x, n: f(x, 2) * n))
case("np", "remainder fmod", C(D(-5.3, 5.3, -5.3), D(2.0, -2.0, -2.0)))
case("np", "maximum minimum", C(D(1.0, 2.0, 3.0), D(1.0, 3.0, 2.0)), C(A(3), 0.25))
case("np", "fmax fmin", C(D(1.0, 2.0, 3.0), D(2.0, 1.0, 5.0)))
case("np", "multiply", C(A(3), 2.5))
case("np", "copysign", C(D(1.0, -2.0, 3.0), D(-1.0, 1.0, -3.0)))
case("np", "logaddexp", C(D(800.0, -800.0, 0.0), D(799.0, -801.0, -1e3)))
case("np", "where", C(np.array([[True, False, True], [False, False, True]]), A(2, 3), A(3)), C(np.array([True, False]), A(), A(2, 2)),
     C(np.array([True, False]), Z(2), A(2)), C(np.array([True, False]), D(1.0, np.nan), D(np.inf, 2.0)))
case("np", "clip", C(A(2, 3), -0.5, 0.5), C(A(2, 3), A(3, lo=-2, hi=-1), A(2, 1, lo=0, hi=1)))
case("np", "nextafter", C(A(3), A(3), _via=lambda f, np, x, y: f(x, y) * 1.0))

# Reductions.
AXES = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"keepdims": True}]
over = lambda make: [C(make(2, 3, 4), **k) for k in AXES]
case("np", "sum mean var max min prod", *over(A))
case("np", "sum mean prod var", C(Z(2, 3)), C(Z(2, 3), axis=1))
case("np", "var", C(A(2, 4), axis=1, ddof=1), C(A(2, 4), ddof=2, keepdims=True))
case("np", "sum", C(A(2, 3), 1), C(A()), C(A(0, 2), axis=0), C(A(3, 0)))
case("np", "prod", C(D(0.0, 2.0, 3.0)), C(D(0.0, 2.0, 0.0)), C(D((0.0, 1.5), (2.0, 0.5)), axis=1), C(A(0)))
case("np", "max min", C(D(3.0, 1.0, 3.0, 1.0)), C(D((2.0, 2.0, 2.0), (1.0, 5.0, 5.0)), axis=1))
case("np", "cumsum cumprod", C(A(3, 4), axis=0), C(A(3, 4), axis=-1), C(A(2, 3)), C(Z(4), axis=0), C(A(3), axis=0, dtype="f8"))
case("np", "cumprod", C(D(2.0, 0.0, 3.0, 0.5), axis=0), C(D(0.0, 2.0, 0.0, 3.0), axis=0))
case("np", "nansum nanmean", C(A(3, 4)), C(A(3, 4), axis=0, keepdims=True), C(D((1.0, np.nan, 2.0), (3.0, 4.0, np.nan)), axis=1),
     C(D((1.0, np.nan, 2.0), (3.0, 4.0, np.nan)), axis=0))
METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
case("np", "quantile nanquantile", *[C(A(3, 5), 0.3, axis=a, method=m) for a in (None, 1) for m in METHODS],
     C(A(2, 3, 4), 0.7, axis=(0, 2), keepdims=True), C(A(7), np.array([0.1, 0.5, 0.9]), axis=0))
case("np", "nanquantile", C(D(1.0, np.nan, 5.0, 2.0, 3.5), 0.4))
case("np", "cov", C(A(3, 6)), C(A(3, 6), ddof=0), C(A(3, 6), fweights=I(1, 2, 3, 1, 1, 2)), C(A(3, 4), aweights=A(4, lo=0.5, hi=2)),
     C(A(2, 4), fweights=I(1, 2, 3, 1), aweights=A(4, lo=0.5, hi=2), ddof=2), C(A(5)), C(Z(2, 4)))
case("np", "corrcoef", C(A(3, 6)), C(A(2, 5)))
case("np", "histogram", C(np.array([0.1, 0.5, 0.7, 0.2, 0.9]), 4, weights=A(5), _via=lambda f, np, x, n, weights: f(x, n, weights=weights)[0]),
     C(np.array([0.1, 0.5, 0.7, 0.2, 0.9]), 3, weights=A(5, lo=0.5, hi=2), _via=lambda f, np, x, n, weights: f(x, n, weights=weights, density=True)[0]))
case("np", "histogramdd", C(np.array([[0.1, 0.3], [0.5, 0.9], [0.7, 0.2], [0.2, 0.6]]), weights=A(4, lo=0.5, hi=2),
                            _via=lambda f, np, x, weights: f(x, [2, 3], weights=weights)[0]),
     C(np.array([[0.1, 0.3], [0.5, 0.9], [0.7, 0.2], [0.2, 0.6]]), weights=A(4, lo=0.5, hi=2),
       _via=lambda f, np, x, weights: f(x, [2, 2], [(0, 1), (0, 1)], density=True, weights=weights)[0]))
case("np", "bincount", C(I(0, 3, 1, 3, 0), A(5), 5), C(I(2, 2), A(2), 3))

# Shapes.
case("np", "asarray ravel", C(A(2, 3)), C(A()), C(Z(2, 2)))
case("np", "asarray", C(A(2, 3), dtype="f8"))
case("np", "astype", C(A(2, 3), "f8"), C(A(2, 3), "c16"), C(Z(2, 3), "c16"))
case("np", "reshape", C(A(2, 6), (3, 4)), C(A(2, 6), (-1, 2)), C(A(), (1, 1)), C(A(0, 3), (3, 0)))
case("np", "transpose", C(A(2, 3, 4)), C(A(2, 3, 4), (1, 2, 0)), C(Z(2, 3)))
case("np", "squeeze", C(A(1, 3, 1)), C(A(1, 3, 1), 0), C(A(1, 3, 1), (0, -1)))
case("np", "expand_dims", C(A(2, 3), 0), C(A(2, 3), -1), C(A(2, 3), (0, 2)))
case("np", "moveaxis", C(A(2, 3, 4), 0, -1), C(A(2, 3, 4), (0, 1), (2, 0)))
case("np", "swapaxes", C(A(2, 3, 4), 0, 2), C(A(2, 3, 4), -1, 1))
case("np", "flip", C(A(2, 3)), C(A(2, 3), 1), C(A(2, 3, 2), (0, 2)))
case("np", "fliplr flipud", C(A(2, 3)))
case("np", "rot90", *[C(A(2, 3), k, (0, 1)) for k in (1, 2, 3, 4)], C(A(2, 3, 4), 1, (1, 2)))
case("np", "roll", C(A(2, 5), 2, None), C(A(2, 5), -3, 1), C(A(3, 4), (1, 2), (0, 1)))
case("np", "tile", C(A(2, 3), 2), C(A(2, 3), (2, 1, 3)), C(A(), 3))
case("np", "repeat", C(A(2, 3), 2), C(A(2, 3), 3, axis=0), C(A(2, 3), I(1, 0, 2), axis=1, _via=lambda f, np, x, n, axis: f(x, n, axis=axis)))
case("np", "pad", C(A(2, 3), 1), C(A(2, 3), ((1, 2), (0, 3)), constant_values=7), C(A(2, 2), ((1, 0), (0, 1)), mode="constant", constant_values=A()),
     *[C(A(4, 5), ((1, 2), (3, 0)), mode=m) for m in ("edge", "reflect", "symmetric", "wrap")], C(A(3), ((7, 8),), mode="wrap"), C(A(3), ((7, 8),), mode="reflect"))
case("np", "broadcast_to", C(A(3, 1), (2, 3, 4)), C(A(), (2, 2)), C(A(1, 3), (0, 3)))
case("np", "broadcast_arrays", C(A(3, 1), A(4), A(), A(2, 1, 1)))
case("np", "meshgrid", C(A(3), A(2)), C(A(3), A(2), indexing="ij"), C(A(2), A(3), A(2)), C(A(3)))
case("np", "tril triu", C(A(3, 4)), C(A(4, 3), 1), C(A(2, 3, 3), -1), C(Z(3, 3)))
case("np", "diag", C(A(4), 0), C(A(3), 1), C(A(3), -2), C(A(3, 4), 1))
case("np", "diagflat", C(A(2, 2), 1), C(A(3), 0))
case("np", "diagonal", C(A(3, 4), 0, 0, 1), C(A(3, 4), -1, 0, 1), C(A(2, 3, 4), 1, 1, 2), C(A(2, 3, 4), 0, 0, 2))
case("np", "trace", C(A(3, 4)), C(A(2, 3, 3)))
case("np", "split array_split", C(A(6, 2), 3, 0), C(A(2, 6), 2, 1), C(A(6), [2, 5], 0))
case("np", "array_split", C(A(7), 3, 0))
case("np", "concatenate", C([A(2, 3), A(1, 3)], 0), C([A(2, 3), A(2, 2)], 1), C([A(2), A(2, 2)], None), C([A(2), Z(3)], 0))
case("np", "stack", C([A(2, 3), A(2, 3)]), C([A(2, 3), A(2, 3), A(2, 3)], -1))
case("np", "hstack vstack dstack column_stack", C([A(3), A(3)]), C([A(3, 2), A(3, 2)]))
case("np", "atleast_1d atleast_2d atleast_3d", C(A()), C(A(4)), C(A(2, 3)))
case("np", "zeros_like ones_like", C(A(2, 3)))
case("np", "full_like", C(A(2, 3), A()), C(A(2, 3), A(3)))
case("np", "full", C((2, 3), A(), _via=lambda f, np, shape, v: f(shape, v)), C((2, 3), A(3), _via=lambda f, np, shape, v: f(shape, v)))
case("np", "linspace", C(A(), A(), 5), C(A(3), A(), 4), C(A(), A(), 1))
case("np", "logspace", C(A(lo=0, hi=1), A(lo=1, hi=2), 5), C(A(lo=0, hi=1), A(lo=1, hi=2), 4, base=2.0))
case("np", "diff", C(A(6), 1, -1), C(A(3, 5), 2, -1), C(A(3, 5), 1, 0))
case("np", "gradient", C(A(6), 1.0), C(A(4, 5), 0.5), C(A(4, 5), 2.0, axis=1), C(A(5), np.array([0.0, 0.5, 2.0, 2.5, 4.0]), axis=0))

# Sorting and taking.
case("np", "sort", C(A(3, 5)), C(A(3, 5), axis=0), C(A(7)), C(A(3, 4), axis=None), C(D(2.0, 1.0, 2.0, 1.0)))
case("np", "unique", C(D(3.0, 1.0, 2.0, 1.0, 3.0), size=4, fill_value=0))
case("np", "take", C(A(4, 5), I([0, 3], [2, 1]), axis=1), C(A(4, 5), I(0, -1, 7, 0)), C(A(4), I(1, 9, -7), mode="clip"), C(A(4), I(1, 9, -7), mode="wrap"),
     C(A(3, 2), 1, axis=0), C(A(4, 2), I(1, 1, 1), axis=0, mode="fill"), C(Z(4), I(3, 3, 0)))
case("np", "take_along_axis", C(A(3, 4), I([0, 1, 2, 0], [2, 1, 0, 1]), axis=0), C(A(3, 4), I([3], [0], [3]), axis=1), C(A(3, 4), I([3, 3], [0, 0], [3, 1]), axis=1))

# Products.
case("np", "matmul", C(A(3, 4), A(4, 2)), C(A(4), A(4)), C(A(4), A(4, 2)), C(A(3, 4), A(4)), C(A(2, 1, 3, 4), A(5, 4, 2)), C(A(3, 0), A(0, 2)), C(Z(2, 3), Z(3, 2)),
     C(A(2, 3, 4), A(4, 2)))
case("np", "dot", C(A(3, 4), A(4, 2)), C(A(4), A(4)), C(A(), A(3)), C(A(2, 3, 4), A(5, 4, 2)))
case("np", "vdot inner", C(A(4), A(4)), C(Z(4), Z(4)))
case("np", "inner", C(A(2, 4), A(3, 4)))
case("np", "outer", C(A(3), A(2, 2)))
case("np", "kron", C(A(2, 3), A(3, 2)), C(A(3), A(2, 2)))
case("np", "tensordot", C(A(2, 3, 4), A(4, 3, 5), ([1, 2], [1, 0])), C(A(2, 3, 4), A(3, 4, 5), 2), C(A(2), A(3), 0))
case("np", "cross", C(A(3), A(3)), C(A(4, 3), A(3)), C(A(3, 4), A(3, 4), axis=0))
case("np", "einsum", C("ij,jk->ik", A(2, 3), A(3, 4)), C("ii->i", A(3, 3)), C("ii", A(3, 3)), C("...ij,...jk", A(2, 1, 3, 4), A(5, 4, 2)),
     C("bhqd,bhkd->bhqk", A(2, 2, 3, 4), A(2, 2, 5, 4)), C("i,j,k->kji", A(2), A(3), A(4)), C("ijk->kj", A(2, 3, 4)), C("ij,ij->", A(2, 3), A(2, 3)),
     C("ij,jk->ik", Z(2, 3), A(3, 2)))

# The package's top level.
case("rlx", "stop_gradient", C(A(3)), C(A(3), _via=lambda f, np, x: f(x) * x))
case("rlx", "top_k", C(A(3, 5), 2), C(A(4), 4))
case("rlx", "scan", C(A(2, 2), A(2), A(4, 2), _via=lambda f, np, w, h, x: f(lambda h, r: (np.tanh(np.matmul(h, w) + r), np.sum(h * r)), h, x)),
     C(A(3), A(), _via=lambda f, np, x, s: f(lambda c, r: ((c[0] * s + r, c[1] + c[0]), c[1] * r), (s, s * s), x)))
case("rlx", "index_set index_add index_mul index_max index_min", C(A(4, 3), 1, A(3)), C(A(4, 3), (slice(None), 2), A(4)), C(A(4, 3), (I(0, 2), I(1, 2)), A(2)),
     C(A(5), I(4, 0, 2), A()), C(A(3, 4), slice(1, 3), A(2, 4)), C(A(4, 2), (slice(None, None, 2),), A(2)))
case("rlx", "index_add", C(A(4), I(1, 1, 3, 1), A(4)), C(A(3, 2), I(2, 2), A(2, 2)), C(Z(3), I(0, 0), Z(2)))
case("rlx", "index_mul index_max index_min", C(A(4), I(1, 1, 3, 1), A(4)))
case("rlx", "reduce_window", C(A(5, 6), "max", -np.inf, (2, 3), (1, 2), [(0, 0), (1, 1)], _via=lambda f, np, *a: f(*a)), C(A(5, 6), "min", np.inf, (2, 2), (2, 2), [(0, 1), (0, 0)]),
     C(A(5, 6), "add", 0.0, (2, 3), (1, 2), [(0, 0), (1, 1)]), C(A(4, 5), "mul", 1.0, (2, 2), (1, 1), [(0, 1), (0, 0)]), C(A(7, 3), "max", -np.inf, (2, 1), (1, 1), [(0, 0), (0, 0)], (3, 1)),
     C(A(1, 2, 4, 4), "max", -np.inf, (1, 1, 3, 3), (1, 1, 1, 1), [(0, 0), (0, 0), (1, 1), (1, 1)]))
PAIR = [(1, 2), (0, 1)]
case("rlx", "conv", C(A(2, 3, 7), A(4, 3, 3), (1,), [(0, 0)], (1,), 1), C(A(2, 4, 6, 5), A(6, 2, 3, 2), (2, 1), PAIR, (1, 2), 2), C(A(1, 2, 5, 5), A(3, 2, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
     C(A(1, 4, 5, 4), A(4, 1, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 4), C(A(1, 2, 4, 4, 3), A(2, 2, 2, 2, 2), (1, 2, 1), [(0, 0), (1, 0), (0, 1)], (1, 1, 1), 1),
     C(A(1, 1, 4, 4), A(2, 1, 2, 2), (3, 3), [(0, 0), (0, 0)], (1, 1), 1))
case("rlx", "conv_transpose", C(A(2, 3, 4), A(3, 2, 3), (2,), (1,), (1,), (1,), 1), C(A(1, 4, 3, 4), A(4, 2, 3, 2), (2, 1), (1, 0), (0, 0), (1, 2), 2),
     C(A(1, 2, 3, 3), A(2, 3, 2, 2), (2, 2), (0, 0), (0, 0), (1, 1), 1), C(A(1, 2, 2, 3, 2), A(2, 1, 2, 2, 2), (1, 1, 2), (0, 1, 0), (0, 0, 1), (1, 1, 1), 1))

# Neural networks.
case("nn", "relu relu6 silu selu leaky_relu mish softplus log_sigmoid hard_sigmoid hard_silu sigmoid", C(A(2, 3)), C(A(2, 4, lo=-8, hi=8)), C(D(-40.0, 40.0)))
case("nn", "gelu", C(A(2, 3)), C(A(2, 3), approximate=False), C(A(2, 3), approximate=True), C(D(-12.0, 12.0), approximate=False))
case("nn", "leaky_relu", C(A(2, 3), 0.2))
case("nn", "elu celu", C(A(2, 3), 1.0), C(A(2, 3), 0.7), C(D(-40.0, 40.0), 1.3))
case("nn", "relu", C(D(0.0, -1.0, 1.0)))
case("nn", "glu", C(A(2, 6), -1), C(A(4, 3), 0))
case("nn", "softmax log_softmax", C(A(2, 5)), C(A(3, 4), axis=0), C(A(2, 3, 2), axis=(0, 2)), C(D(900.0, 0.0, -900.0)))
case("nn", "logsumexp", C(A(2, 5)), C(A(3, 4), axis=0), C(A(2, 3, 2), axis=(0, 2), keepdims=True), C(D(900.0, 899.0, -900.0)), C(D(-np.inf, 1.0, 2.0)))

# Special functions.
POSITIVE = (C(A(2, 3, lo=0.3, hi=4)),)
case("special", "gammaln digamma entr", *POSITIVE)
case("special", "gammaln digamma", C(A(3, lo=-2.9, hi=-2.1)))
case("special", "erf erfc erfcx ndtr log_ndtr i0 i1 i0e i1e", C(A(2, 3)), C(A(3, lo=-6, hi=6)))
case("special", "i0 i1 i0e i1e", C(D(0.0)))
case("special", "erfinv", C(A(2, 3, lo=-0.95, hi=0.95)))
case("special", "ndtri logit", C(A(2, 3, lo=0.05, hi=0.95)))
case("special", "polygamma", C(0, A(2, 3, lo=0.3, hi=4)), C(1, A(2, 3, lo=0.3, hi=4)), C(3, A(3, lo=0.5, hi=4)))
case("special", "multigammaln", C(A(2, 3, lo=2, hi=5), 1), C(A(2, 3, lo=2, hi=5), 3))
case("special", "xlogy xlog1py", C(A(2, 3), A(2, 3, lo=0.3, hi=3)), C(A(2, 1), A(3, lo=0.3, hi=3)), C(D(0.0, 0.0), D(2.0, 0.5)))
case("special", "gammainc gammaincc", C(A(2, 3, lo=0.3, hi=5), A(2, 3, lo=0.3, hi=5)), C(A(2, 1, lo=2, hi=9), A(3, lo=2, hi=9)))
case("special", "zeta", C(A(2, 3, lo=1.5, hi=5), A(2, 3, lo=0.5, hi=4)))

# Linear algebra. What a factorization leaves open (signs, phases) is squared or multiplied out.
spd = lambda np, x: np.matmul(x, np.swapaxes(x, -1, -2)) + 4.0 * np.eye(x.shape[-1])
hermitian = lambda np, z: np.matmul(z, np.conj(np.swapaxes(z, -1, -2))) + 4.0 * np.eye(z.shape[-1])
lower = lambda np, x: np.tril(x) + 3.0 * np.eye(x.shape[-1])
case("linalg", "cholesky", C(A(3, 3), _via=lambda f, np, x: f(spd(np, x))), C(A(2, 4, 4), _via=lambda f, np, x: f(spd(np, x))), C(Z(3, 3), _via=lambda f, np, x: f(hermitian(np, x))))
case("linalg", "inv det", C(A(3, 3)), C(A(2, 4, 4)), C(Z(3, 3)))
case("linalg", "det", C(D((1.0, 2.0), (2.0, 4.0))), C(D((0.0, 1.0, 2.0), (0.0, 3.0, 1.0), (0.0, 1.0, 1.0))))
case("linalg", "slogdet", C(A(3, 3), _via=lambda f, np, x: f(x)[1]), C(A(2, 4, 4), _via=lambda f, np, x: f(x)[1]), C(A(3, 3)), C(Z(3, 3), _via=lambda f, np, x: f(x)[1]))
case("linalg", "solve", C(A(3, 3), A(3)), C(A(3, 3), A(3, 2)), C(A(2, 3, 3), A(2, 3, 2)), C(Z(3, 3), Z(3, 2)))
case("linalg", "solve_triangular", C(A(3, 3), A(3, 2), _via=lambda f, np, a, b: f(lower(np, a), b, lower=True)), C(A(3, 3), A(3), _via=lambda f, np, a, b: f(np.swapaxes(lower(np, a), 0, 1), b)),
     C(A(3, 3), A(3, 2), _via=lambda f, np, a, b: f(lower(np, a), b, lower=True, unit_diagonal=True)), C(A(2, 3, 3), A(2, 3, 2), _via=lambda f, np, a, b: f(lower(np, a), b, lower=True)))
case("linalg", "pinv", C(A(3, 3)), C(A(4, 3)), C(A(2, 3, 4)), C(A(4, 3), 1e-6))
case("linalg", "eigh", C(A(3, 3), _via=lambda f, np, x: f(spd(np, x))[0]), C(A(3, 3), _via=lambda f, np, x: np.square(f(spd(np, x))[1])), C(A(2, 4, 4), _via=lambda f, np, x: f(spd(np, x))[0]),
     C(Z(3, 3), _via=lambda f, np, x: np.square(np.abs(f(hermitian(np, x))[1]))), C(Z(3, 3), _via=lambda f, np, x: f(hermitian(np, x))[0]))
case("linalg", "svd", C(A(3, 3), compute_uv=False), C(A(2, 4, 3), compute_uv=False), C(A(3, 4), _via=lambda f, np, x: [np.square(v) for v in f(x, full_matrices=False)]),
     C(A(4, 3), _via=lambda f, np, x: (lambda u, s, v: np.matmul(u * np.sqrt(s), v))(*f(x, full_matrices=False))), C(Z(3, 3), compute_uv=False),
     C(Z(3, 2), _via=lambda f, np, x: [np.square(np.abs(v)) for v in f(x, full_matrices=False)]))
case("linalg", "qr", C(A(3, 3), "reduced", _via=lambda f, np, x, mode: [np.square(v) for v in f(x, mode)]), C(A(4, 3), "reduced", _via=lambda f, np, x, mode: [np.square(v) for v in f(x, mode)]),
     C(A(2, 4, 3), "r", _via=lambda f, np, x, mode: np.square(f(x, mode))))
case("linalg", "lu", C(A(3, 3), _via=lambda f, np, x: f(x)[0]), C(A(2, 4, 4), _via=lambda f, np, x: f(x)[0]), C(A(4, 3), _via=lambda f, np, x: f(x)[0]))
case("linalg", "matrix_power", C(A(3, 3), 3), C(A(3, 3), -2), C(A(2, 3, 3), 5), C(A(3, 3), 0))
case("linalg", "expm", C(A(3, 3)), C(A(2, 2, 2)), C(A(3, 3, lo=-8, hi=8)))
case("linalg", "multi_dot", C([A(2, 3), A(3, 4), A(4, 2)]), C([A(3), A(3, 2), A(2)]))
case("linalg", "tensorsolve", C(A(2, 3, 6), A(2, 3)))
case("linalg", "tensorinv", C(A(4, 2, 2), 1), C(A(2, 3, 6), 2))
case("linalg", "householder_product", C(A(4, 3), A(3)), C(A(2, 3, 3), A(2, 2)))
case("linalg", "eigvals", C(A(3, 3), _via=lambda f, np, x: np.sum(f(x) ** 3)), C(A(4, 4), _via=lambda f, np, x: np.sum(np.square(np.abs(f(x))))))
case("linalg", "eig", C(A(3, 3), _via=lambda f, np, x: np.sum(f(x)[0] ** 3)),
     C(A(3, 3), _via=lambda f, np, x: (lambda w, v: np.sum(np.square(np.abs(v)) * np.real(w), -1))(*f(x))))

# Fourier transforms.
case("fft", "fft ifft", *[C(Z(2, 5), *a) for a in ((None, -1, None), (8, -1, "ortho"), (3, 0, "forward"))], C(A(6), None, -1, None))
case("fft", "rfft ihfft", *[C(A(2, 6), *a) for a in ((None, -1, None), (8, -1, "ortho"), (5, -1, "forward"), (3, 0, None))])
case("fft", "irfft hfft", *[C(Z(3, 4), *a) for a in ((None, -1, None), (7, -1, "ortho"), (5, -1, "forward"), (4, 0, None))])
case("fft", "fftn ifftn", *[C(Z(3, 4), *a) for a in ((None, None, None), ((4, 5), (0, 1), "ortho"), (None, (0,), "forward"))])
case("fft", "rfftn", *[C(A(3, 4), *a) for a in ((None, None, None), ((4, 5), (0, 1), "ortho"), (None, (1, 0), "forward"))])
case("fft", "irfftn", *[C(Z(3, 4), *a) for a in ((None, None, None), ((4, 5), (0, 1), "ortho"), (None, (1, 0), "forward"))])
case("fft", "fftshift ifftshift", C(A(5), None), C(A(4, 3), 1), C(Z(3, 2), (0, 1)))


# What the table says about a call, apart from itself.
def options(keywords):
    return {k: v for k, v in keywords.items() if k != "_via"}, keywords.get("_via")


def leaves(value):
    """The arrays to differentiate for, in order."""
    if isinstance(value, Drawn):
        return [value]
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in leaves(v)]
    return []


def drawn_of(arguments, keywords):
    return [x for v in [*arguments, *options(keywords)[0].values()] for x in leaves(v)]


def filled(arguments, keywords, arrays):
    """The arguments and keywords with these arrays in their places."""
    arrays = iter(arrays)

    def fill(value):
        if isinstance(value, Drawn):
            return next(arrays)
        if isinstance(value, (list, tuple)) and leaves(value):
            return type(value)(fill(v) for v in value)
        return value

    return [fill(a) for a in arguments], {k: fill(v) for k, v in options(keywords)[0].items()}


def called(function, numpy, arguments, keywords, arrays):
    """The float and complex results of a call, as a list."""
    given, named = filled(arguments, keywords, arrays)
    via = options(keywords)[1]
    made = via(function, numpy, *given, **named) if via else function(*given, **named)

    def flat(value):
        return [x for v in value for x in flat(v)] if isinstance(value, (list, tuple)) else [value]

    return [x for x in flat(made) if str(x.dtype).startswith(("float", "complex", "torch.float", "torch.complex"))]
