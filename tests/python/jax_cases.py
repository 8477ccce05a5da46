"""Calls of jax.lax, jax.nn, jax.random and jax.scipy.special, as they are made to RLX, too. tests/golden/generate/python_jax.py writes what JAX
gives to tests/golden/python_jax; test_jax_functions.py compares."""

import itertools

import numpy as np

f4, i4, u4 = np.float32, np.int32, np.uint32


class Of:
    """An argument that is made of the package: a function or an enumeration of it."""

    def __init__(self, make):
        self.make = make


def _of_rlx(package):
    return package.__name__ == "rlx"


class Case:
    """module.name(*args, **kwargs). `grad`: by which arguments the derivative of the sum is compared; `tolerance`: relative and absolute."""

    def __init__(self, module, name, args, kwargs, grad=(), tolerance=None, vmap=True):
        self.module, self.name, self.args, self.kwargs = module, name, args, kwargs
        self.grad, self.tolerance, self.vmap = grad, tolerance, vmap

    def function(self, package):
        """The call as a function of its arrays, and the arrays."""
        spots = [i for i, a in enumerate(self.args) if isinstance(a, np.ndarray)]
        module, ours = package, {}
        path = self.module.split(".")
        if _of_rlx(package):
            path = [p for p in path if p != "scipy"]
            ours = {"algorithm": "threefry"} if path == ["random"] else {}
        for part in path:
            module = getattr(module, part)
        resolve = lambda a: a.make(package) if isinstance(a, Of) else a

        def f(*arrays):
            args = [resolve(a) for a in self.args]
            for i, a in zip(spots, arrays):
                args[i] = a
            return getattr(module, self.name)(*args, **{k: resolve(v) for k, v in self.kwargs.items()}, **ours)

        return f, [self.args[i] for i in spots]


CASES = {}
_count = itertools.count()


def case(module, name, *args, grad=(), tolerance=None, vmap=True, **kwargs):
    made = Case(module, name, args, kwargs, grad, tolerance, vmap)
    same = sum(1 for k in CASES if k.split("-")[0] == f"{module}.{name}")
    CASES[f"{module}.{name}-{same}"] = made


def lax(name, *args, **kwargs):
    case("lax", name, *args, **kwargs)


rng = np.random.default_rng(20261129)
normal = lambda *shape, dtype=f4: rng.standard_normal(shape).astype(dtype)
uniform = lambda *shape, low=0.0, high=1.0: rng.uniform(low, high, shape).astype(f4)
whole = lambda *shape, low=-9, high=10, dtype=i4: rng.integers(low, high, shape).astype(dtype)
both = lambda *shape: (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)

# ---- element-wise ----
X, P, U = normal(2, 5), uniform(2, 5, low=0.1, high=4), uniform(2, 5, low=-0.95, high=0.95)
Z, I, N, B = both(2, 5), whole(2, 5), whole(2, 5, low=0, high=200, dtype=u4), rng.random((2, 5)) < 0.5
SPECIAL = f4([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-30, 3e38])
for name in "abs neg sign exp exp2 expm1 sin cos tan tanh sinh cosh asinh atan erf erfc logistic square".split():
    lax(name, X, grad=(0,))
    lax(name, SPECIAL, vmap=False)
for name in "log log1p sqrt rsqrt cbrt reciprocal lgamma digamma bessel_i0e bessel_i1e".split():
    lax(name, P, grad=(0,))
for name in "asin acos atanh erf_inv".split():
    lax(name, U, grad=(0,))
lax("acosh", P + 1, grad=(0,))
for name in "abs neg sign exp log sqrt sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh real imag conj square reciprocal".split():
    lax(name, Z, tolerance=1e-4)
for name in "floor ceil is_finite".split():
    lax(name, X * 3)
    lax(name, SPECIAL)
lax("round", X * 3), lax("round", f4([0.5, 1.5, -2.5, 2.4]), Of(lambda p: p.lax.RoundingMethod.TO_NEAREST_EVEN)), lax("round", f4([0.5, 1.5, -2.5]))
for name in "abs neg sign bitwise_not population_count clz".split():
    lax(name, I)
    lax(name, N) if name not in ("neg", "abs") else None
lax("bitwise_not", B), lax("clz", np.uint8([0, 1, 7, 255])), lax("population_count", np.int64([-1, 5]).astype(np.int16))
for name in "add sub mul div max min atan2 pow nextafter rem".split():
    y = normal(2, 5)
    lax(name, P if name == "pow" else X, y, grad=() if name in ("nextafter", "rem") else (0, 1))
    lax(name, P if name == "pow" else X, 2.0)
    lax(name, SPECIAL, SPECIAL[::-1].copy()) if name not in ("pow", "nextafter") else None
for name in "add sub mul div max min rem bitwise_and bitwise_or bitwise_xor shift_left shift_right_logical shift_right_arithmetic".split():
    lax(name, I, whole(2, 5, low=1, high=6))
    lax(name, N, whole(2, 5, low=1, high=6, dtype=u4))
for name in "bitwise_and bitwise_or bitwise_xor eq ne".split():
    lax(name, B, ~B[::-1])
for name in "add sub mul div eq ne pow".split():
    lax(name, Z, both(2, 5), tolerance=1e-4)
for name in "eq ne lt le gt ge".split():
    lax(name, I, I[::-1].copy()), lax(name, SPECIAL, SPECIAL[::-1].copy()), lax(name, X, 0.0)
lax("pow", P, whole(2, 5, low=-2, high=3))
for y in (-2, 0, 1, 5):
    lax("integer_pow", X, y, grad=(0,))
lax("integer_pow", I, 3)
lax("mulhi", i4([2**31 - 1, -(2**31), 70000, -5]), i4([2**31 - 1, 2**31 - 1, 70000, 7]))
lax("mulhi", u4([2**32 - 1, 70000]), u4([2**32 - 1, 70000]))
lax("complex", X, normal(2, 5))
for dtype in ("int32", "float16", "bool", "uint8", "complex64"):
    lax("convert_element_type", np.abs(X) * 3, dtype)
lax("convert_element_type", I, "float32"), lax("convert_element_type", B, "float32"), lax("convert_element_type", X, "bfloat16")
lax("bitcast_convert_type", X, "int32"), lax("bitcast_convert_type", X, "uint16"), lax("bitcast_convert_type", whole(3, 2, dtype=np.int16), "float32")
for bits in ((5, 10), (8, 7), (5, 2), (4, 3), (8, 23), (3, 23)):
    lax("reduce_precision", np.concatenate([X.ravel() * 100, SPECIAL, f4([1e-5, 1e-8, 65520, 65519])]), *bits)
lax("select", B, X, -X, grad=(1, 2)), lax("select", True, X, -X)
lax("select_n", B, X, -X, grad=(1, 2)), lax("select_n", whole(2, 5, low=0, high=3), X, -X, X * 2, grad=(1, 2, 3)), lax("select_n", i4(1).reshape(()), I, -I)
lax("clamp", -0.5, X, 0.5, grad=(1,)), lax("clamp", -np.abs(X) / 2, X, np.abs(X) / 3), lax("clamp", 0, I, 3)

# ---- special ----
lax("igamma", P, P[::-1].copy(), grad=(0, 1), tolerance=1e-4), lax("igammac", P, P[::-1].copy(), grad=(0, 1), tolerance=1e-4)
lax("zeta", P + 1.2, P[::-1].copy(), tolerance=1e-4), lax("polygamma", f4([0, 1, 2, 3]), f4([0.5, 1.5, 2.5, 7]), tolerance=1e-4)
lax("igamma_grad_a", P, P[::-1].copy(), tolerance=1e-4), lax("random_gamma_grad", P, P[::-1].copy(), tolerance=1e-4)
lax("betainc", f4([0.5, 2, 5, 30, 0.1, 1, 1]), f4([0.5, 3, 1, 20, 7, 1, 2]), f4([0.3, 0.9, 0.2, 0.6, 0.01, 0, 1]), grad=(2,), tolerance=1e-4)
lax("betainc", f4([-1, 1, np.nan]), f4([1, 1, 1]), f4([0.5, 1.5, 0.5]))

# ---- shapes ----
A = normal(2, 3, 4)
lax("iota", "int32", 5), lax("iota", "float32", 5), lax("broadcasted_iota", "int32", (2, 3), 1)
lax("full", (2, 3), 1.5), lax("full", (2,), 1, "int8"), lax("full_like", A, 2), lax("full_like", I, 2.0, "float32", (3,)), lax("empty", (2, 2), "float32")
lax("broadcast", A, (2,), grad=(0,)), lax("broadcast_in_dim", A, (2, 5, 3, 4), (0, 2, 3), grad=(0,)), lax("broadcast_to_rank", A, 5)
lax("broadcast_in_dim", normal(1, 3), (2, 3, 4), (0, 1))
lax("broadcast_like", normal(3, 1), A), lax("reshape", A, (4, 6), grad=(0,)), lax("reshape", A, (4, 6), (2, 0, 1)), lax("transpose", A, (2, 0, 1), grad=(0,))
lax("rev", A, (0, 2), grad=(0,)), lax("squeeze", normal(1, 3, 1), (0, -1)), lax("expand_dims", A, (0, 2)), lax("collapse", A, 0, 2), lax("collapse", A, 1)
lax("collapse", A, 0, -1)
lax("tile", A, (1, 2, 3), grad=(0,)), lax("pad", A, 0.5, ((1, 2, 0), (-1, 0, 1), (0, -2, 2)), grad=(0,)), lax("pad", I, 7, ((0, 0, 1), (1, -1, 0)))
lax("slice", A, (0, 1, 0), (2, 3, 4), (1, 1, 2), grad=(0,)), lax("slice", A, (1, 1, 1), (2, 2, 3)), lax("slice_in_dim", A, -3, None, 2, 2)
lax("slice_in_dim", A, 0, -1, axis=1, grad=(0,)), lax("index_in_dim", A, -1, 1), lax("index_in_dim", A, 0, 2, False, grad=(0,))
lax("split", A, (1, 2), 1), lax("unstack", A, 1), lax("shape_as_value", (2, 3)), lax("square", f4([]))
lax("rev", I, (1,)), lax("transpose", I, (1, 0))

# ---- reductions, windows, order ----
for name in "reduce_sum reduce_prod reduce_max reduce_min".split():
    lax(name, A, (0, 2), grad=(0,)), lax(name, I, (1,)), lax(name, A, ()), lax(name, A, (0, 1, 2))
for name in "reduce_and reduce_or reduce_xor".split():
    lax(name, I, (1,)), lax(name, B, (0,)), lax(name, N, (0, 1))
lax("reduce_max", B, (1,)), lax("reduce_min", B, (1,))
lax("reduce", A, 0.0, Of(lambda p: p.lax.add), (1,), grad=(0,)), lax("reduce", A, -np.inf, Of(lambda p: p.lax.max), (0, 2), grad=(0,))
lax("reduce", A, 1.0, Of(lambda p: p.lax.mul), (2,), grad=(0,)), lax("reduce", A, np.inf, Of(lambda p: lambda a, b: p.numpy.minimum(a, b)), (2,))
lax("reduce", B, False, Of(lambda p: p.lax.bitwise_or), (1,)), lax("reduce", I, 0, Of(lambda p: p.lax.bitwise_xor), (1,))
W = normal(2, 6, 7)
for window in (dict(window_dimensions=(1, 2, 3)), dict(window_dimensions=(1, 3, 3), window_strides=(1, 2, 2), padding="SAME"),
               dict(window_dimensions=(1, 2, 2), window_strides=(1, 1, 2), padding=((0, 0), (1, 0), (0, 2)), window_dilation=(1, 2, 1)),
               dict(window_dimensions=(1, 2, 2), padding="SAME_LOWER", window_strides=(1, 2, 3)),
               dict(window_dimensions=(2, 2, 2), base_dilation=(1, 2, 1), padding="VALID")):
    lax("reduce_window", W, 0.0, Of(lambda p: p.lax.add), grad=(0,), **window)
    lax("reduce_window", W, -np.inf, Of(lambda p: p.lax.max), grad=() if "base_dilation" in window or "window_dilation" in window else (0,), **window)
    lax("reduce_window", W, np.inf, Of(lambda p: p.lax.min), **window)
    lax("reduce_window", W, 1.0, Of(lambda p: lambda a, b: a * b), **window)
lax("reduce_window", I, 0, Of(lambda p: p.lax.add), (1, 2)), lax("reduce_window", W, 0.0, Of(lambda p: p.lax.max), (1, 2, 2))
for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
    lax(name, A, 1, grad=(0,)), lax(name, A, 2, True, grad=(0,))
for name in "cumsum cumprod cummax cummin".split():
    lax(name, I, 1), lax(name, N, 0, True)
lax("argmax", A, 1, "int32"), lax("argmin", A, 2, "uint8"), lax("argmax", SPECIAL, 0, "int32"), lax("argmin", SPECIAL, 0, "int32"), lax("argmax", B, 1, "int32")
lax("sort", A, 1, grad=(0,)), lax("sort", I), lax("sort", SPECIAL), lax("sort_key_val", whole(3, 6, low=0, high=3), normal(3, 6)), lax("sort", N, 0)
lax("top_k", A, 2, grad=()), lax("approx_max_k", A, 2), lax("approx_min_k", A, 2, 1)

# ---- products ----
L, R = normal(2, 3, 4), normal(2, 4, 5)
lax("dot_general", L, R, (((2,), (1,)), ((0,), (0,))), grad=(0, 1)), lax("dot_general", L, normal(4, 3), (((2, 1), (0, 1)), ((), ())), grad=(0, 1))
lax("dot_general", L, R, (((), ()), ((0,), (0,)))), lax("dot_general", whole(3, 4, dtype=np.int8), whole(4, 2, dtype=np.int8), (((1,), (0,)), ((), ())), preferred_element_type="int32")
lax("dot_general", L.astype(np.float16), R.astype(np.float16), (((2,), (1,)), ((0,), (0,))), preferred_element_type="float32", tolerance=2e-3)
lax("dot_general", L, R, (((2,), (1,)), ((0,), (0,))), precision="highest"), lax("dot_general", I, I, (((1,), (1,)), ((0,), (0,))))
lax("dot", normal(4), normal(4), grad=(0, 1)), lax("dot", normal(3, 4), normal(4)), lax("dot", normal(3, 4), normal(4, 2), grad=(0, 1)), lax("dot", both(3, 4), both(4, 2))
lax("batch_matmul", L, R, grad=(0, 1)), lax("ragged_dot", normal(7, 4), normal(3, 4, 2), i4([2, 0, 3]), grad=(0, 1)), lax("ragged_dot", normal(5, 4), normal(2, 4, 2), i4([1, 4]))

# ---- convolutions ----
image, kernel = normal(2, 4, 7, 6), normal(6, 4, 3, 2)
for settings in (dict(window_strides=(1, 1), padding="SAME"), dict(window_strides=(2, 1), padding="VALID"), dict(window_strides=(2, 3), padding="SAME"),
                 dict(window_strides=(1, 2), padding=((1, 2), (0, -1)), rhs_dilation=(2, 1)), dict(window_strides=(1, 1), padding=((0, 1), (2, 0)), lhs_dilation=(2, 3)),
                 dict(window_strides=(2, 2), padding="SAME_LOWER", rhs_dilation=(1, 2))):
    lax("conv_general_dilated", image, kernel, grad=(0, 1), tolerance=1e-4, **settings)
lax("conv_general_dilated", image, normal(6, 2, 3, 2), (1, 1), "SAME", feature_group_count=2, grad=(0, 1), tolerance=1e-4)
lax("conv_general_dilated", image, normal(6, 4, 3, 2), (1, 1), "SAME", batch_group_count=2, grad=(0, 1), tolerance=1e-4)
for numbers in (("NHWC", "HWIO", "NHWC"), ("NHWC", "OIHW", "NCHW"), ("CNHW", "IHWO", "HWNC"), ("NCWH", "OIHW", "NHWC")):
    place = lambda x, spec, names: np.ascontiguousarray(np.transpose(x, [names.index(c) for c in spec]))
    lax("conv_general_dilated", place(image, numbers[0], "NCHW"), place(kernel, numbers[1], "OIHW"), (2, 1), "SAME", dimension_numbers=numbers, grad=(0, 1), tolerance=1e-4)
lax("conv_general_dilated", normal(2, 5, 3), normal(3, 3, 4), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), grad=(0, 1), tolerance=1e-4)
lax("conv_general_dilated", normal(1, 2, 4, 4, 4), normal(3, 2, 2, 2, 2), (1, 1, 1), "VALID", tolerance=1e-4), lax("conv_general_dilated", normal(2, 3), normal(4, 3), (), "VALID")
lax("conv_general_dilated", image.astype(np.float16), kernel.astype(np.float16), (1, 1), "SAME", preferred_element_type="float32", tolerance=1e-2)
lax("conv", image, kernel, (2, 1), "SAME", tolerance=1e-4), lax("conv_with_general_padding", image, kernel, (1, 1), ((1, 1), (2, 0)), (1, 2), (2, 1), tolerance=1e-4)
features_last, its_kernel = normal(2, 5, 4, 3), normal(3, 2, 3, 6)
for padding in ("SAME", "VALID", ((1, 2), (0, 1))):
    for strides in ((1, 1), (2, 3)):
        lax("conv_transpose", features_last, its_kernel, strides, padding, grad=(0, 1), tolerance=1e-4)
lax("conv_transpose", features_last, normal(3, 2, 6, 3), (2, 2), "SAME", transpose_kernel=True, tolerance=1e-4)
lax("conv_transpose", features_last, its_kernel, (2, 2), ((0, 1), (1, 1)), rhs_dilation=(2, 1), use_consistent_padding=True, tolerance=1e-4)
lax("conv_transpose", image, kernel, (2, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), tolerance=1e-4)
lax("conv_transpose", normal(2, 5, 3), normal(4, 3, 6), (2,), "VALID", tolerance=1e-4)
lax("conv_general_dilated_patches", image, (3, 2), (2, 1), "SAME", grad=(0,)), lax("conv_general_dilated_patches", normal(2, 5, 4, 3), (2, 2), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
lax("conv_general_dilated_local", normal(2, 3, 4, 5), normal(6, 3 * 4, 3, 4), (1, 1), "VALID", (2, 2), grad=(0, 1), tolerance=1e-4)
lax("conv_general_dilated_local", normal(2, 4, 5, 3), normal(3, 4, 3 * 4, 6), (1, 1), "VALID", (2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC"), tolerance=1e-4)
lax("conv_dimension_numbers", (2, 5, 6, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")), lax("conv_general_permutations", ("NHWC", "HWIO", "CNHW"))
lax("conv_shape_tuple", (2, 4, 7, 6), (6, 4, 3, 2), (2, 1), ((1, 1), (0, 0))), lax("conv_general_shape_tuple", (2, 7, 6, 4), (3, 2, 4, 6), (2, 1), "SAME", ("NHWC", "HWIO", "NCHW"))
lax("conv_transpose_shape_tuple", (2, 5, 4, 3), (3, 2, 3, 6), (2, 3), "SAME", ("NHWC", "HWIO", "NHWC")), lax("padtype_to_pads", (7, 6), (3, 2), (2, 2), "SAME")
lax("padtype_to_pads", (7, 6), (3, 2), (2, 2), "SAME_LOWER"), lax("reduce_window_shape_tuple", (2, 6, 7), (1, 3, 2), (1, 2, 2), ((0, 0), (1, 1), (0, 0)), (1, 2, 1), (1, 1, 2))
lax("broadcast_shapes", (2, 1), (3,))

# ---- gather, scatter, dynamic ----
gather_numbers = Of(lambda p: p.lax.GatherDimensionNumbers((1,), (0,), (0,)))
T, at = normal(5, 4), i4([[0], [4], [2], [7], [-1]])
lax("gather", T, at, gather_numbers, (1, 4)), lax("gather", T, at, gather_numbers, (1, 4), mode="clip", grad=(0,)), lax("gather", T, at, gather_numbers, (1, 4), mode="fill", fill_value=3.0)
lax("gather", T, at, gather_numbers, (1, 4), mode=Of(lambda p: p.lax.GatherScatterMode.CLIP)), lax("gather", whole(5, 4), at, gather_numbers, (1, 4), mode="fill"), lax("gather", T, at, gather_numbers, (1, 4), mode="fill", grad=(0,))
lax("gather", T, i4([[1, 2], [4, 3], [0, 0]]), Of(lambda p: p.lax.GatherDimensionNumbers((), (0, 1), (0, 1))), (1, 1), grad=(0,))
lax("gather", T, i4([[1, 1], [3, 0]]), Of(lambda p: p.lax.GatherDimensionNumbers((1, 2), (), (0, 1))), (2, 3), grad=(0,))
lax("gather", normal(3, 5, 2), i4([[[1], [4]], [[0], [2]], [[3], [3]]]),
    Of(lambda p: p.lax.GatherDimensionNumbers((2,), (1,), (1,), operand_batching_dims=(0,), start_indices_batching_dims=(0,))), (1, 1, 2), grad=(0,))
row_numbers = Of(lambda p: p.lax.ScatterDimensionNumbers((1,), (0,), (0,)))
inside, outside = i4([[0], [4], [2], [0]]), i4([[0], [4], [7], [-1]])
for name in "scatter scatter_add scatter_mul scatter_min scatter_max scatter_sub".split():
    where = i4([[0], [4], [2], [1]]) if name in ("scatter", "scatter_mul") else inside
    lax(name, T, where, normal(4, 4), row_numbers, grad=() if name in ("scatter_min", "scatter_max", "scatter_mul") else (0, 2)), lax(name, T, outside, normal(4, 4), row_numbers)
    lax(name, T, i4([[0], [4], [7], [2]]) if name == "scatter" else outside, normal(4, 4), row_numbers, mode="drop")
    lax(name, whole(5, 4), where, whole(4, 4), row_numbers)
lax("scatter_add", T, outside, normal(4, 4), row_numbers, mode="clip", grad=(0, 2))
lax("scatter_add", T, i4([[3, 2], [1, 0]]), normal(2, 2, 3), Of(lambda p: p.lax.ScatterDimensionNumbers((1, 2), (), (0, 1))), mode="clip")
lax("scatter_apply", T, i4([[0], [3]]), Of(lambda p: p.numpy.sin), row_numbers, update_shape=(2, 4))
lax("dynamic_slice", A, (0, 1, 2), (1, 2, 2), grad=(0,)), lax("dynamic_slice", A, i4([1, -2, 9]), (1, 2, 2), grad=(0,)), lax("dynamic_slice", A, i4([-1, -2, 9]), (1, 2, 2), allow_negative_indices=False)
lax("dynamic_update_slice", A, normal(1, 2, 2), (1, -2, 3), grad=(0, 1)), lax("dynamic_update_slice", A, normal(1, 2, 2), i4([0, 1, 1]))
lax("dynamic_slice_in_dim", A, i4(2).reshape(()), 2, 1), lax("dynamic_slice_in_dim", A, -1, 1, 2, grad=(0,)), lax("dynamic_index_in_dim", A, i4(-1).reshape(()), 2, False), lax("dynamic_index_in_dim", A, 1)
lax("dynamic_update_slice_in_dim", A, normal(2, 1, 4), 1, 1, grad=(0, 1)), lax("dynamic_update_index_in_dim", A, normal(2, 4), 2, 1, grad=(0, 1)), lax("dynamic_update_index_in_dim", A, normal(2, 3, 1), -1, 2)
lax("index_take", A, (i4([0, 1, 0]), i4([2, 0, 1])), (0, 1))

# ---- the rest ----
lax("fft", both(2, 8), "fft", (8,), tolerance=1e-4), lax("fft", both(3, 4, 6), "ifft", (4, 6), tolerance=1e-4), lax("fft", normal(3, 7), Of(lambda p: p.lax.FftType.RFFT), (7,), tolerance=1e-4)
lax("fft", both(3, 4), "IRFFT", (7,), tolerance=1e-4), lax("fft", both(3, 4), "IRFFT", (6,), tolerance=1e-4)
lax("map", Of(lambda p: lambda x: x * x), normal(7, 2), batch_size=3, grad=(1,)), lax("map", Of(lambda p: lambda x: x + 1), normal(4), batch_size=4), lax("map", Of(lambda p: p.numpy.sum), normal(2, 3), batch_size=5)
lax("cond", True, Of(lambda p: lambda x: x * 2), Of(lambda p: lambda x: x), operand=2.0), lax("switch", 1, Of(lambda p: [lambda x: x, lambda x: x * 3]), operand=2.0)
lax("while_loop", Of(lambda p: lambda x: x < 20), Of(lambda p: lambda x: x * 2), init_val=1), lax("fori_loop", 0, 3, Of(lambda p: lambda i, x: x + i), init_val=1)

# ---- nn ----
nn = lambda name, *args, **kwargs: case("nn", name, *args, **kwargs)
seen = rng.random((2, 5)) < 0.6
seen[:, 0] = True
for name in "softmax log_softmax".split():
    nn(name, X, where=seen), nn(name, X, (0, 1), seen), nn(name, X, grad=(0,)), nn(name, X, (0, 1), grad=(0,))
nn("softmax", X, where=seen, grad=(0,))
nn("logsumexp", X, 1, uniform(2, 5), grad=(0, 2)), nn("logsumexp", X, None, normal(2, 5), return_sign=True), nn("logsumexp", X, 0, normal(2, 5), True, True)
nn("logsumexp", X, 1, where=seen), nn("logsumexp", f4([-np.inf, -np.inf])), nn("logsumexp", f4([1, 2]), None, f4([1, -1])), nn("logsumexp", X, keepdims=True)
nn("logmeanexp", X, 1, grad=(0,)), nn("logmeanexp", X, None, seen), nn("standardize", X, grad=(0,), tolerance=1e-4), nn("standardize", X, 0, where=seen, tolerance=1e-3)
nn("standardize", X, 1, f4([[0.5], [1]]), f4([[2], [3]])), nn("standardize", X, (0, 1), epsilon=0.1, tolerance=1e-4), nn("standardize", X, algorithm="fast", tolerance=1e-4)
for name in "identity tanh squareplus sparse_plus sparse_sigmoid".split():
    nn(name, X * 2, grad=(0,))
nn("squareplus", X, 2.0), nn("log1mexp", P, grad=(0,)), nn("identity", I)
q, k, v = normal(2, 5, 4, 8), normal(2, 6, 2, 8), normal(2, 6, 2, 8)
attention = dict(grad=(0, 1, 2), tolerance=1e-4)
nn("dot_product_attention", q, k, v, **attention), nn("dot_product_attention", q, k, v, is_causal=True, **attention), nn("dot_product_attention", q, k[:, :5], v[:, :5], is_causal=True, scale=0.7, **attention)
nn("dot_product_attention", q, k, v, normal(1, 4, 5, 6), rng.random((2, 1, 5, 6)) < 0.7, **attention), nn("dot_product_attention", q[0], k[0], v[0], tolerance=1e-4)
nn("dot_product_attention", q, k, v, query_seq_lengths=i4([3, 5]), key_value_seq_lengths=i4([6, 2]), **attention), nn("dot_product_attention", q, k, v, local_window_size=1, **attention)
nn("dot_product_attention", q, k, v, local_window_size=(2, 0), implementation="xla", return_residual=True, **attention)

# ---- scipy.special ----
special = lambda name, *args, **kwargs: case("scipy.special", name, *args, **{"tolerance": 1e-4, **kwargs})
for name in "gamma exp1 spence loggamma".split():
    special(name, P, grad=(0,))
for name in "expi dawsn fresnel sici gammasgn".split():
    special(name, f4([0.2, 0.7, 1.5, 3, 7, 12]), grad=() if name in ("gammasgn", "sici", "fresnel") else (0,))
special("gammasgn", f4([-0.5, -1.5, -2, 0, 3])), special("gamma", f4([-0.5, -1.5, 5]))
for name in "beta betaln rel_entr kl_div boxcox boxcox1p poch".split():
    special(name, P, P[::-1].copy() / 2, grad=(0, 1) if name not in ("boxcox", "boxcox1p") else (0,))
special("boxcox", P, f4(0).reshape(())), special("rel_entr", f4([0, 0, -1, 1]), f4([0, 1, 1, 0])), special("kl_div", f4([0, 0, -1, 1]), f4([0, 1, 1, 0]))
special("betainc", P, P[::-1].copy(), uniform(2, 5), grad=(2,)), special("comb", f4([5, 10, 4, 3]), f4([2, 3, 5, -1])), special("comb", f4([5, 10]), f4([2, 3]), repetition=True)
special("factorial", i4([0, 1, 5, 10])), special("expn", i4([0, 1, 2, 5]), f4([0.5, 0.5, 3, 7])), special("bernoulli", 8), special("hyp1f1", f4(1.3).reshape(()), f4(2.7).reshape(()), X * 3, grad=(2,))
special("log_softmax", X), special("log_softmax", X, axis=0), special("softmax", X), special("logsumexp", X, 1, uniform(2, 5), True), special("log_ndtr", X * 5, series_order=3), special("gammainc", P, P[::-1].copy()), special("ndtri", uniform(4))

# ---- random: JAX's numbers ----
KEY = u4([7, 42])


def random(name, *args, **kwargs):
    case("random", name, KEY, *args, vmap=False, **{"tolerance": 1e-5, **kwargs})


for name in "cauchy exponential gumbel laplace logistic rademacher maxwell".split():
    random(name, (50,)), random(name)
random("gumbel", (20,), "float32", "high"), random("gumbel", (20,), "float32", "highest"), random("exponential", (20,), "float16", tolerance=5e-3), random("normal", (20,), "complex64")
random("pareto", f4([1.5, 2]), (20, 2), grad=(1,)), random("rayleigh", f4([2, 3])), random("triangular", f4(-1).reshape(()), f4(0.5).reshape(()), f4(2).reshape(()), (30,)), random("weibull_min", 2.0, 1.5, (30,))
random("geometric", f4([0.2, 0.7]), (30, 2)), random("lognormal", f4([0.5, 1])), random("lognormal", 0.5, (3,)), random("double_sided_maxwell", 0.5, f4([2, 3]), (10,)), random("wald", f4([2, 3]), (30, 2), tolerance=1e-4)
random("multivariate_normal", f4([1, 2]), f4([[2, 0.5], [0.5, 1]]), (10,), grad=(1, 2)), random("multivariate_normal", normal(3, 1, 2), np.stack([np.eye(2, dtype=f4), f4([[2, 1], [1, 3]])]))
random("orthogonal", 3, (2,)), random("orthogonal", 3, (), "float32", 5), random("orthogonal", 5, m=3)
random("gamma", f4([0.3, 1, 5]), (40, 3), grad=(1,), tolerance=1e-4), random("loggamma", f4([0.3, 1, 5]), (40, 3), grad=(1,), tolerance=1e-3), random("beta", f4([0.5, 2]), 2.0), random("dirichlet", f4([1, 2, 3]), (10,))
random("chisquare", f4(3).reshape(()), (30,)), random("f", 3.0, f4([5, 7])), random("t", f4([3, 9])), random("generalized_normal", 1.5, (30,)), random("ball", 3, 2, (10,)), random("ball", 2, 1.0, ())
random("poisson", f4([0, 0.5, 3, 9, 11, 50, 1000]), (40, 7)), random("poisson", 4.0, (), "int16"), random("binomial", f4([5, 20, 100, 1000, 7, -1]), f4([0.3, 0.7, 0.5, 0.9, 1, 0.5]), (40, 6)), random("multinomial", f4(20).reshape(()), f4([0.2, 0.3, 0.5]))
random("categorical", f4([[1, 2, 3], [3, 2, 1]])), random("categorical", f4([[1, 2, 3], [3, 2, 1]]), 0, (4, 3)), random("categorical", f4([[1, 2, 3], [3, 2, 1]]), -1, (2, 2), False), random("categorical", f4([1, 2, 3]), shape=(20,), mode="high")
random("permutation", 12), random("permutation", whole(3, 4), 1), random("permutation", whole(3, 4), 0, True), random("permutation", whole(3, 4), 1, True), random("permutation", whole(6))
random("choice", 10, (5,)), random("choice", 10, (5,), False), random("choice", f4([1, 2, 3, 4]), (3, 2), True, f4([0.1, 0.2, 0.3, 0.4])), random("choice", f4([1, 2, 3, 4]), (3,), False, f4([0.1, 0.2, 0.3, 0.4]))
random("choice", whole(3, 4), (2,), False, None, 1), random("choice", whole(3, 4), (2, 2), axis=1), random("choice", 5), random("bernoulli", 0.3, (30,), "high"), random("bernoulli", f4([0.3, 0.8]))
random("randint", (30, 2), i4([0, -5]), i4([10, 2**31 - 1])), random("randint", (30, 2), i4([0, -5]), i4([300, 100]), "int8"), random("randint", (30,), 0, 255, "uint8")
random("uniform", (30, 2), "float32", f4([0, 1]), f4([2, 5]), grad=(3, 4)), random("truncated_normal", f4([-1, 0]), f4([1, 3]), (30, 2)), random("truncated_normal", f4([-1, 0]), f4([1, 3]))
