"""What users of NumPy, JAX and PyTorch expect without looking it up; where a call means nothing, an error and no numbers."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from conftest import close
from rlx import ops


# ---- windows ----
IMAGE = np.arange(2 * 3 * 7 * 6, dtype=np.float32).reshape(2, 3, 7, 6)


@pytest.mark.parametrize("call", [lambda: ops.pool(IMAGE, kernel_size=2), lambda: ops.interpolate(IMAGE, size=4),
                                  lambda: ops.resize_linear(IMAGE, size=4)])
def test_one_number_for_several_dims_is_refused(call):
    with pytest.raises(ValueError, match=r"the last dim alone; for all 2 spatial dims of an array of rank 4 it is \w+=\((2, 2|4, 4)\)"):
        call()


def test_a_number_for_each_dim_pools_those():
    got = ops.pool(IMAGE[..., :6, :], kernel_size=(2, 2), stride=(2, 2))
    assert np.array_equal(got, IMAGE[..., :6, :].reshape(2, 3, 3, 2, 3, 2).max((3, 5)))
    assert np.array_equal(ops.pool(IMAGE[0], kernel_size=2, stride=2), IMAGE[0].reshape(3, 7, 3, 2).max(3))


def convolved(x, w, strides, pads, dilation):
    """By the definition, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    out = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for i in range(out[0]):
        for j in range(out[1]):
            a, b = i * strides[0], j * strides[1]
            part = x[:, :, a:a + reach[0]:dilation[0], b:b + reach[1]:dilation[1]]
            y[:, :, i, j] = np.einsum("nchw,ochw->no", part, w)
    return y


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (1, 5)])
def test_convolutions_take_same_and_valid(rng, strides, dilation, kernel):
    w = rng.normal(size=(4, 3, *kernel)).astype(np.float32)
    pads = []  # tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2
    for n, s, k, d in zip(IMAGE.shape[2:], strides, kernel, dilation):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        pads.append((total // 2, total - total // 2))
    same = rlx.conv(IMAGE, w, strides, "SAME", dilation)
    assert same.shape[2:] == tuple(-(-n // s) for n, s in zip(IMAGE.shape[2:], strides))
    close(same, convolved(IMAGE, w, strides, pads, dilation).astype(np.float32), 1e-4)
    close(rlx.conv(IMAGE, w, strides, "valid", dilation), convolved(IMAGE, w, strides, [(0, 0)] * 2, dilation).astype(np.float32), 1e-4)
    for padding, wanted in (("SAME", pads), ("VALID", [(0, 0)] * 2), ([(1, 2), (0, 1)], [(1, 2), (0, 1)])):
        wanted = convolved(IMAGE, w, strides, wanted, dilation).astype(np.float32)
        close(ops.conv(IMAGE, w, strides, padding, dilation), wanted, 1e-4)
        close(rlx.jit(lambda x: ops.conv(x, w, strides, padding, dilation))(IMAGE), wanted, 1e-4)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 2)])
def test_pools_take_same_and_valid(stride, kernel):
    pads = []
    for n, s, k in zip(IMAGE.shape[2:], stride, kernel):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        pads.append((total // 2, total - total // 2))
    for padding, wanted in (("SAME", pads), ("valid", [(0, 0)] * 2), ([(1, 0), (0, 1)], [(1, 0), (0, 1)])):
        for kind, fill, combined in (("max", -np.inf, np.max), ("mean", 0, np.mean)):
            x = np.pad(IMAGE, [(0, 0), (0, 0), *wanted], constant_values=fill)
            windows = np.lib.stride_tricks.sliding_window_view(x, kernel, (2, 3))[:, :, ::stride[0], ::stride[1]]
            close(ops.pool(IMAGE, kind, kernel, stride, padding), combined(windows, (-2, -1)), 1e-5)
    assert ops.pool(IMAGE, "max", kernel, padding="SAME").shape == (2, 3, *[-(-n // k) for n, k in zip(IMAGE.shape[2:], kernel)])


def test_other_names_of_padding_are_errors():
    w = np.ones((4, 3, 2, 2), np.float32)
    with pytest.raises(ValueError, match="'REFLECT'"):
        rlx.conv(IMAGE, w, padding="REFLECT")
    for call in (lambda: ops.conv(IMAGE, w, padding="REFLECT"), lambda: ops.pool(IMAGE, "max", (2, 2), padding="REFLECT")):
        with pytest.raises(ValueError, match='(conv|pool): padding is \'REFLECT\'; it is "SAME", "VALID", '):
            call()
    with pytest.raises(ValueError, match="of one rank"):
        ops.conv(IMAGE[0], w, padding="SAME")
    with pytest.raises(ValueError, match=r"a pair \(low, high\) for each of the 2 spatial dims, got 1"):
        ops.conv(IMAGE, w, padding=[(1, 2)])
    with pytest.raises(ValueError, match="the last dim alone"):
        ops.pool(IMAGE, kernel_size=2, padding="SAME")
    with pytest.raises(TypeError, match="conv_transpose: padding is a list of int, not 'SAME'"):
        ops.conv_transpose(IMAGE, np.ones((3, 4, 2, 2), np.float32), padding="SAME")
    with pytest.raises(ValueError, match="of one rank"):
        rlx.conv(IMAGE[0], w)


# ---- attributes ----
@pytest.mark.parametrize("call", [lambda: ops.argmax(IMAGE, axis=1.7), lambda: ops.reverse(IMAGE, axes=(0.5,)),
                                  lambda: ops.argmax(IMAGE, keep_dims="no")])
def test_attributes_of_another_kind_are_type_errors(call):
    with pytest.raises(TypeError, match=r"(argmax: axis|argmax: keep_dims|reverse: axes) is (an integer|True or False), not (1.7|0.5|'no')"):
        call()


@pytest.mark.parametrize("kind", ["median", (2, 2), 2, "max, count_include_pad = false"], ids=str)
def test_another_choice_is_refused_with_those_that_there_are(kind):
    with pytest.raises(TypeError, match="pool: kind is one of max, mean, sum, min, prod, not "):
        ops.pool(IMAGE, kind, kernel_size=(2, 2))


@pytest.mark.parametrize("call", [lambda: ops.mean(IMAGE), lambda: ops.variance(IMAGE), lambda: ops.moments(IMAGE), lambda: ops.logsumexp(IMAGE), lambda: ops.norm(IMAGE),
                                  lambda: ops.reduce(IMAGE, kind="sum"), lambda: ops.reverse(IMAGE), lambda: ops.roll(IMAGE), lambda: ops.one_hot(np.int32([1])),
                                  lambda: ops.top_k(IMAGE)])
def test_what_an_op_is_to_go_over_has_to_be_said(call):
    with pytest.raises(TypeError, match=r"(axes|shifts|depth|k) is .*, not None"):
        call()


def test_operands_come_as_a_list_too():
    a, b = IMAGE[0, 0], IMAGE[1, 0]
    assert np.array_equal(ops.concatenate([a, rnp.asarray(b)], axis=0), np.concatenate([a, b]))
    assert np.array_equal(rlx.jit(lambda a, b: ops.stack((a, b), axis=0))(a, b), np.stack([a, b]))
    assert np.array_equal(ops.sort([3.0, 1.0, 2.0]), [1, 2, 3])


# ---- loops ----
LOOPS = {"scan": lambda body, init: rlx.scan(lambda c, _: (body(c), None), init, length=2)[0],
         "fori_loop": lambda body, init: rlx.fori_loop(0, 2, lambda i, c: body(c), init),
         "while_loop": lambda body, init: rlx.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, body(s[1])), (0, init))[1]}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_state_never_loses_what_it_was(loop):
    for init, dtype in ((np.float32(1.5), "int32"), (1.5, "int32"), (np.float32(1e9), "float16"), (np.complex64(1j), "float32"),
                        (np.int32(300), "uint8")):
        with pytest.raises(ValueError, match=r"(?s)(comes back as|for a state of).*convert the one or the other\n  at .*test_expectations"):
            loop(lambda c: rnp.real(c).astype(dtype), init)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_state_that_is_a_number_takes_the_dtype_of_the_body(loop):
    for init, factor, wanted in ((1, np.float16(1.5), np.float16(2.25)), (1, 1.5, np.float32(2.25)), (np.int32(1), 1.5, np.float32(2.25)),
                                 (1.5, rnp.asarray(2.0, "float64"), np.float64(6))):
        close(loop(lambda c: c * factor, init), wanted)


# ---- families ----
SQUARE = np.array([[2.0, 1.0], [5.0, 3.0]])
FIVE = np.arange(5, dtype=np.int32)


@pytest.mark.parametrize("call", [
    lambda: rlx.linalg.eigh(SQUARE, "x"), lambda: rlx.linalg.eigvalsh(SQUARE, 0), lambda: rlx.linalg.norm(np.ones(3), "fro"),
    lambda: rlx.linalg.norm(np.ones((2, 2, 2)), "fro"), lambda: rlx.linalg.norm(SQUARE, 1, (0, 5)), lambda: rlx.linalg.norm(SQUARE, axis=()),
    lambda: rlx.linalg.multi_dot([np.ones((2, 2, 2)), SQUARE, SQUARE]), lambda: rlx.linalg.tensorsolve(np.ones((2, 3, 6)), np.ones(6), axes=(7,)),
    lambda: rlx.linalg.pinv(SQUARE, np.array([0.1, 0.2])), lambda: rlx.linalg.solve_triangular(SQUARE, np.ones(2), 3),
    lambda: rlx.linalg.solve_triangular(SQUARE, np.ones(2), True), lambda: rlx.fft.fft(np.ones(3), -1), lambda: rlx.fft.irfft(np.ones(3), -1),
    lambda: rlx.fft.fft(np.ones(3), norm=""), lambda: rlx.fft.fft(np.ones(3), norm=0), lambda: rlx.special.polygamma(1.5, np.ones(2)),
    lambda: rlx.special.polygamma(np.array([1.0, 1.5]), np.ones(2)), lambda: rlx.special.polygamma(-1, np.ones(2)),
    lambda: rlx.special.multigammaln(np.ones(2) * 4, 0), lambda: rlx.nn.softmax(2.0, axis=7), lambda: rlx.nn.log_softmax(2.0, axis=1),
    lambda: rlx.lax.clamp(0.5, FIVE, 2), lambda: rlx.lax.clamp(np.zeros((5, 1), np.int32), FIVE, 2), lambda: rlx.lax.dynamic_slice(FIVE, (1.5,), (2,)),
    lambda: rlx.lax.dynamic_slice(FIVE, (1, 1), (2,)), lambda: rnp.asarray(FIVE).at[1].add(0.5), lambda: rnp.asarray(FIVE).at[1].multiply(0.5),
    lambda: rnp.asarray(FIVE).at[:2].max(np.float32([1.5, 2])), lambda: rnp.asarray([True, False]).at[0].max(-5), lambda: rnp.ones(3).at[0].set(1j), lambda: rnp.reshape(np.ones(4), (2.0, 2)),
    lambda: rnp.sort(FIVE, -1, "fastest"), lambda: rlx.linalg.cholesky(np.zeros((2, 0, 1))), lambda: rlx.linalg.tensorinv(1.5, 5),
    lambda: rlx.linalg.tensorsolve(np.ones((1, 1)), np.ones(1), -1), lambda: rlx.fft.irfftn(SQUARE, {"a": 1}), lambda: rnp.histogramdd([np.ones(3)], weights=np.ones((3, 1))), lambda: rnp.nan_to_num(np.ones(2), 5.0),
])
def test_what_means_nothing_is_refused(call):
    with pytest.raises((TypeError, ValueError, IndexError)):
        call()


def test_norms_are_those_of_numpy(rng):
    x = rng.normal(size=(2, 3, 4))
    for order, axis in ((None, None), (None, (0, 2)), ("fro", (1, 2)), ("nuc", (-1, 0)), (2, 1), (-np.inf, (2, 1)), (3, -1), (0, 0), (-2, (0, 1))):
        for keepdims in (False, True):
            close(rlx.linalg.norm(x, order, axis, keepdims), np.linalg.norm(x, order, axis, keepdims), 1e-10)


def test_a_tolerance_for_each_matrix():
    stack, least = np.stack([np.diag([1.0, 2, 3])] * 3), np.array([0.5, 1.5, 2.5])
    assert np.array_equal(rlx.linalg.matrix_rank(stack, least), np.linalg.matrix_rank(stack, least))
    assert np.array_equal(rlx.linalg.matrix_rank(np.zeros((2, 0, 3))), [0, 0])


@pytest.mark.parametrize("rcond", [-1, -0.5, np.nan, 2.0])
def test_pinv_takes_any_number_for_a_cutoff_as_numpy_does(rcond):
    close(rlx.linalg.pinv(SQUARE, float(rcond)), np.linalg.pinv(SQUARE, float(rcond)), 1e-10)


def test_pinv_of_a_hermitian_matrix_reads_one_triangle(rng):
    a = rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3))
    close(rlx.linalg.pinv(a, hermitian=True), np.linalg.pinv(a, hermitian=True), 1e-10)


@pytest.mark.parametrize("shape,columns", [((5, 3), ()), ((5, 3), (2,)), ((3, 3), (2,)), ((2, 4), ()), ((2, 4), (3,)), ((0, 3), ())])
def test_lstsq_gives_what_numpy_gives(rng, shape, columns):
    a, b = rng.normal(size=shape), rng.normal(size=shape[:1] + columns)
    wanted = np.linalg.lstsq(a, b)
    for got in (rlx.linalg.lstsq(a, b), rlx.jit(rlx.linalg.lstsq)(a, b)):
        close([got[0], *got[2:]], [wanted[0], *wanted[2:]], 1e-10)
        residuals = np.atleast_1d(np.sum((b - a @ wanted[0]) ** 2, 0))
        close(got[1], residuals, 1e-10)
        if shape[0] > shape[1]:
            close(got[1], wanted[1], 1e-10)
    a[:, 0] = a[:, 1]
    assert shape[0] == 0 or rlx.linalg.lstsq(a, b)[2] == np.linalg.lstsq(a, b)[2]


def test_arguments_stand_in_the_order_of_others(rng):
    import scipy.linalg
    for trans, lower in ((0, True), (1, True), ("T", False), (2, False)):
        close(rlx.linalg.solve_triangular(SQUARE, np.ones(2), trans, lower), scipy.linalg.solve_triangular(SQUARE, np.ones(2), trans, lower), 1e-10)
    assert np.array_equal(rnp.isin([1, 2, 3], [2], True), np.isin([1, 2, 3], [2], True))
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
    close(rnp.cross(a, b, 0), np.cross(a, b, 0), 1e-12)
    close(rnp.cross(a, b, 0, 1, 0), np.cross(a, b, 0, 1, 0), 1e-12)
    odd = np.array([np.nan, np.inf, 1.0])
    assert np.array_equal(rnp.nan_to_num(odd, True, 5.0), np.nan_to_num(odd, True, 5.0))
    for kind in ("stable", "quicksort"):
        assert np.array_equal(rnp.sort(b, 0, kind), np.sort(b, 0, kind)) and np.array_equal(rnp.argsort(b, 0, kind), np.argsort(b, 0, kind))
    x = rng.normal(size=(3, 4))
    for name in ("var", "std"):
        close(getattr(rnp, name)(x, 0, np.float32, None, 1, True), getattr(np, name)(x.astype(np.float32), 0, np.float32, None, 1, True))
        with pytest.raises(TypeError):
            getattr(rnp, name)(x, 0, 1)
    # jax.nn.standardize(x, axis, mean, variance, epsilon)
    close(rlx.nn.standardize(x, -1, 0.5, 2.0, 0.1), (x - 0.5) / np.sqrt(2.1), 1e-12)
    close(rlx.nn.standardize(x, 0, 0.5), (x - 0.5) / np.sqrt((x * x).mean(0) - 0.25 + 1e-5), 1e-12)


def test_no_class_for_what_is_no_whole_number():
    wanted = np.zeros((3, 3), np.float32)
    wanted[2, 1] = 1
    assert np.array_equal(rlx.nn.one_hot(np.float32([1.5, np.nan, 1]), 3), wanted)


def test_no_dtype_is_the_default_and_not_float64():
    key = rlx.random.key(0)
    for f, dtype in ((rlx.random.bits, np.uint32), (rlx.random.uniform, np.float32), (rlx.random.normal, np.float32),
                     (lambda k, *rest: rlx.random.randint(k, rest[0], 0, 9, *rest[1:]), np.int32), (lambda k, *rest: rlx.random.truncated_normal(k, -1, 1, *rest), np.float32)):
        got = f(key, (3,), None)
        assert got.dtype == dtype and np.array_equal(got, f(key, (3,)))
    assert rlx.nn.one_hot(np.int32([1]), 2, None).dtype == np.float32


def test_softmax_of_one_number_that_is_not_finite():
    assert rlx.nn.softmax(2.0) == 1 and rlx.nn.log_softmax(2.0) == 0
    for x in (np.float32(np.nan), np.float32(np.inf)):
        assert np.isnan(rlx.nn.softmax(x)) and np.isnan(rlx.nn.log_softmax(x))


def test_negative_starts_count_from_the_end():
    # jax.lax.dynamic_slice, whose allow_negative_indices is True
    for f in (lambda i: rlx.lax.dynamic_slice(FIVE, (i,), (2,)), rlx.jit(lambda i: rlx.lax.dynamic_slice(FIVE, (i,), (2,)))):
        assert [np.asarray(f(i)).tolist() for i in (-2, -5, -9, 9)] == [[3, 4], [0, 1], [0, 1], [3, 4]]
    assert np.array_equal(rlx.lax.dynamic_update_slice(FIVE, np.int32([7]), (-1,)), [0, 1, 2, 3, 7])


def test_integers_are_divided_as_in_jax():
    close(rnp.asarray(FIVE).at[1:].divide(2), np.float32([0, 0.5, 1, 1.5, 2]))


@pytest.mark.parametrize("s", [(-1,), (2, -1), (-1, 3)])
def test_minus_one_is_the_extent_there_is(rng, s):
    x = rng.normal(size=(3, 4))
    axes = tuple(range(-len(s), 0))
    close(rlx.fft.irfftn(x, s, axes), np.fft.irfftn(x, s, axes), 1e-10)
    close(rlx.fft.rfftn(x, s, axes), np.fft.rfftn(x, s, axes), 1e-10)


# ---- functions ----
def symmetrized_difference(f, a, step=1e-6):
    """The gradient of f over the Hermitian matrices: both elements of a pair move together."""
    g = np.zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            e = np.zeros_like(a)
            e[i, j] += step / 2
            e[j, i] += step / 2
            g[i, j] = (f(a + e) - f(a - e)) / (2 * step)
    return g


@pytest.mark.parametrize("upper", [False, True])
def test_the_gradient_of_cholesky_is_symmetric(rng, upper):
    w = rng.normal(size=(4, 4))
    a = rng.normal(size=(4, 4))
    a = a @ a.T + 4 * np.eye(4)
    got = rlx.grad(lambda m: rnp.sum(rlx.linalg.cholesky(m, upper=upper) * w))(a)
    close(got, symmetrized_difference(lambda m: np.sum((np.linalg.cholesky(m).T if upper else np.linalg.cholesky(m)) * w), a), 1e-7)
    lower = rlx.grad(lambda m: rnp.sum(rlx.linalg.cholesky(m, symmetrize_input=False) * w))(a)
    assert np.array_equal(np.triu(lower, 1), np.zeros((4, 4)))


def test_histograms_with_weights_that_are_bools():
    x, weights = np.array([1, 2, 3, 3.5, 9]), np.array([True, True, False, True, False])
    close(rnp.histogramdd([x, x], 3, weights=weights)[0], np.histogramdd([x, x], 3, weights=weights)[0], dtype=False)
    got, wanted = rnp.histogram(x, 3, weights=weights)[0], np.histogram(x, 3, weights=weights)[0]
    assert got.dtype == wanted.dtype and np.array_equal(got, wanted)


def test_a_bincount_with_weights_that_are_bools():
    x, weights = np.array([0, 1, 1, 3, 3]), np.array([True, True, True, False, True])
    close(rnp.bincount(x, weights), np.bincount(x, weights), dtype=False)


def test_what_numpy_refuses_is_refused():
    with pytest.raises(TypeError, match="bools"):
        rnp.gradient(np.array([[True, False], [True, True]]))
    for weights in ("fweights", "aweights"):
        with pytest.raises(TypeError, match=weights):
            rnp.cov(np.ones((2, 3)), **{weights: np.full(3, 1j)})
    for offset in (np.nan, 0.5):
        with pytest.raises(TypeError):
            rnp.diagonal(IMAGE, offset=offset)
    z = np.array([1j, 2, 3 - 1j], np.complex64)
    for f in (rnp.max, rnp.min, rnp.argmax, rnp.argmin):
        for x in (z, z.real):
            with pytest.raises(TypeError):
                f(x, keepdims=(0, 0))


@pytest.mark.parametrize("rcond", [0.0, 0.2, np.array([0.0, 0.5])], ids=str)
def test_pinv_with_a_cutoff_that_is_an_array(rng, rcond):
    a = rng.normal(size=(2, 4, 3))
    wanted = np.linalg.pinv(a, rcond)
    close(rlx.jit(lambda m, r: rlx.linalg.pinv(m, r))(a, np.asarray(rcond)), wanted, 1e-10)
    close(rlx.linalg.pinv(a, rcond), wanted, 1e-10)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4)])
def test_pinv_of_no_singular_values_with_a_cutoff_that_is_an_array(shape):
    a = np.zeros(shape)
    assert rlx.linalg.pinv(a, np.asarray(1e-6)).shape == np.linalg.pinv(a, 1e-6).shape


def test_silu_and_sigmoid_of_complex_numbers(rng):
    z = (rng.normal(size=8) + 1j * rng.normal(size=8)).astype(np.complex64)
    close(rlx.nn.sigmoid(z), (1 / (1 + np.exp(-z.astype(np.complex128)))).astype(np.complex64))
    close(rlx.nn.silu(z), (z / (1 + np.exp(-z.astype(np.complex128)))).astype(np.complex64))
    far = np.array([-100 + 1j, 100 - 2j, -1000, 1000 + 3j], np.complex64)
    wide = far.astype(np.complex128)
    with np.errstate(all="ignore"):
        wanted = np.where(far.real < 0, np.exp(wide), 1)
    for f, of in ((rlx.nn.sigmoid, wanted), (rlx.nn.silu, wide * wanted)):
        close(f(far), of.astype(np.complex64))
        assert np.all(np.isfinite(rlx.grad(lambda z: rnp.sum(rnp.real(f(z))))(far)))
