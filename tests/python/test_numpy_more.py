"""What rlx.numpy has beyond calls that NumPy takes as they are: sizes that are given while tracing, updates that give new arrays, functions of
functions, files, dtypes, and what is refused. Expected values are NumPy's."""

import io
import pickle

import numpy as np
import pytest
from conftest import close, jax

import rlx
import rlx.numpy as rnp

X = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])


def both(call, *arrays):
    """The same at once and traced; the result at once."""
    made = call(*arrays)
    close(rlx.jit(call)(*arrays), made)
    return made


# ---- sizes while tracing ----
def _filled(values, size, fill):
    values = np.asarray(values)[:size]
    return np.concatenate([values, np.full((size - len(values),) + values.shape[1:], fill, values.dtype)])


A, Z = np.int32([[5, 3, 3], [1, 9, 5]]), np.int32([9, 2, 3, 3, 7])
FLOATS = np.array([2.0, np.nan, 1.0, 2.0, np.nan, 0.5])


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("fill", [None, -7])
@pytest.mark.parametrize("x", [A, FLOATS, A > 3], ids=["i4", "f8", "b1"])
def test_unique_with_a_size(x, size, fill):
    values, index, inverse, counts = np.unique(x, True, True, True)
    if fill is not None and x.dtype == bool:
        fill = True
    got = both(lambda x: rnp.unique(x, True, True, True, size=size, fill_value=fill), x)
    least = values[0] if fill is None else fill
    close(got[0], _filled(values, size, least))
    close(got[1], _filled(index, size, index[0]))
    assert np.array_equal(got[2], inverse.reshape(x.shape))
    close(got[3], _filled(counts, size, 0))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices_with_a_size(axis):
    x = np.int32([[1, 2, 1], [0, 5, 0], [1, 2, 1], [0, 5, 1]])
    values, index, inverse, counts = np.unique(x, True, True, True, axis=axis)
    n = values.shape[axis]
    got = both(lambda x: rnp.unique(x, True, True, True, axis=axis, size=n + 1, fill_value=-1), x)
    close(np.moveaxis(np.asarray(got[0]), axis, 0), _filled(np.moveaxis(values, axis, 0), n + 1, -1))
    close(got[1], _filled(index, n + 1, index[0]))
    assert np.array_equal(got[2], inverse.ravel())
    close(got[3], _filled(counts, n + 1, 0))


def test_each_nan_is_one_where_that_is_asked_for():
    got = both(lambda x: rnp.unique(x, equal_nan=False, size=6), FLOATS)
    close(got, _filled(np.unique(FLOATS, equal_nan=False), 6, 0.5))
    values, counts = both(lambda x: rnp.unique_counts(x, size=5), FLOATS)
    close(values, np.unique(FLOATS, equal_nan=False))
    close(counts, np.int32([1, 1, 2, 1, 1]))
    assert rnp.unique_all(FLOATS).inverse_indices.shape == FLOATS.shape
    close(rlx.jit(lambda x: rnp.unique_inverse(x, size=5).values)(FLOATS), np.unique(FLOATS, equal_nan=False))


def test_unique_of_nothing():
    with pytest.raises(ValueError, match="fill_value"):
        rnp.unique(np.zeros(0, np.float32), size=2)
    close(rnp.unique(np.zeros(0, np.float32), size=2, fill_value=3), np.float32([3, 3]))
    assert rnp.unique(np.zeros(0, np.float32)).shape == (0,)


@pytest.mark.parametrize("name", ["union1d", "setdiff1d", "setxor1d", "intersect1d"])
@pytest.mark.parametrize("pair", [(A, Z), (Z, A), (A * 0.5, Z * 0.5), (np.zeros(0, np.int32), Z), (Z, np.zeros(0, np.int32))],
                         ids=["i4", "turned", "f8", "empty", "with nothing"])
@pytest.mark.parametrize("size,fill", [(3, None), (9, None), (9, -5), (0, None)])
def test_sets_with_a_size(name, pair, size, fill):
    wanted = getattr(np, name)(*pair)
    got = both(lambda a, b: getattr(rnp, name)(a, b, size=size, fill_value=fill), *pair)
    least = 0 if name == "setdiff1d" else wanted[0] if len(wanted) else None
    if fill is None and least is None and size:
        assert got.shape == (size,)  # nothing is there, and nothing says what stands for it
        return
    close(got, _filled(wanted, size, least if fill is None else fill), dtype=False)


def test_places_of_what_is_in_both():
    wanted = np.intersect1d(A, Z, return_indices=True)
    got = both(lambda a, b: rnp.intersect1d(a, b, return_indices=True, size=4), A, Z)
    close(got, (_filled(wanted[0], 4, wanted[0][0]), _filled(wanted[1], 4, A.size), _filled(wanted[2], 4, Z.size)), dtype=False)
    a, b = np.int32([4, 1, 8, 0]), np.int32([8, 0, 3, 4])
    wanted = np.intersect1d(a, b, True, True)
    close(both(lambda a, b: rnp.intersect1d(a, b, True, True, size=3), a, b), wanted, dtype=False)
    for name in ("setxor1d", "setdiff1d"):
        wanted = getattr(np, name)(a, b, assume_unique=True)
        close(both(lambda a, b: getattr(rnp, name)(a, b, assume_unique=True, size=len(wanted)), a, b), wanted, dtype=False)


@pytest.mark.skipif(jax is None, reason="beside JAX, which is not here")
@pytest.mark.parametrize("size,fill", [(3, None), (9, None), (9, -5)])
def test_sets_with_a_size_are_those_of_jax(size, fill):
    for name in ("union1d", "setdiff1d", "setxor1d", "intersect1d"):
        close(getattr(rnp, name)(A, Z, size=size, fill_value=fill), getattr(jax.numpy, name)(A, Z, size=size, fill_value=fill))
    close(rnp.unique(A, True, True, True, size=size, fill_value=fill), jax.numpy.unique(A, True, True, True, size=size, fill_value=fill))


def test_places_with_a_size():
    x = np.int32([[0, 3, 0], [5, 0, 7]])
    close(both(lambda x: rnp.where(x, size=4, fill_value=-1), x), (np.int32([0, 1, 1, -1]), np.int32([1, 0, 2, -1])))
    close(both(lambda x: rnp.flatnonzero(x, size=4, fill_value=9), x), np.int32([1, 3, 5, 9]))
    close(both(lambda x: rnp.argwhere(x, size=2), x), np.int32([[0, 1], [1, 0]]))
    close(both(lambda x: rnp.extract(x > 2, x, size=4, fill_value=-1), x), np.int32([3, 5, 7, -1]))
    close(both(lambda x: rnp.compress(x[0] > 0, x, axis=1, size=2, fill_value=8), x), np.int32([[3, 8], [0, 8]]))
    close(both(lambda x: rnp.mask_indices(3, lambda m, k: rnp.triu(m, k), size=6), x), np.mask_indices(3, np.triu), dtype=False)


def test_repeats_that_are_traced():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    for repeats in ([2, 0, 1], [0, 3, 0], [1, 1, 1]):
        wanted = np.repeat(x, repeats, axis=0)
        n = len(wanted)
        got = both(lambda x, r: rnp.repeat(x, r, axis=0, total_repeat_length=n + 1), x, np.int32(repeats))
        close(got[:n], wanted)
        close(got[n], x[2])  # the last element
        close(both(lambda x, r: rnp.repeat(x, r, axis=0, total_repeat_length=1), x, np.int32(repeats)), wanted[:1])
    with pytest.raises(TypeError, match="total_repeat_length"):
        rlx.jit(rnp.repeat)(x, np.int32([1, 2, 3, 1, 1, 1]))


@pytest.mark.parametrize("call,what", [
    (lambda x: rnp.unique(x), "unique a size"), (lambda x: rnp.union1d(x, x), "union1d a size"), (lambda x: rnp.setdiff1d(x, x), "a size"),
    (lambda x: rnp.setxor1d(x, x), "a size"), (lambda x: rnp.intersect1d(x, x), "a size"), (lambda x: rnp.where(x), "a size"),
    (lambda x: rnp.flatnonzero(x), "a size"), (lambda x: rnp.argwhere(x), "a size"), (lambda x: rnp.extract(x > 0, x), "a size"),
    (lambda x: rnp.compress(x > 0, x), "a size"), (lambda x: rnp.delete(x, rnp.asarray(x, "i4")), "assume_unique_indices"),
    (lambda x: rnp.trim_zeros(x), "outside"), (lambda x: rnp.roots(x), "strip_zeros=False"),
    (lambda x: rnp.polymul(x, x, trim_leading_zeros=True), "trim_leading_zeros=False"), (lambda x: rnp.choose(rnp.asarray(x, "i4"), [1, 2]), "wrap or clip"),
    (lambda x: rnp.ravel_multi_index((rnp.asarray(x, "i4"),), (9,)), "clip or wrap"), (lambda x: rnp.unique_all(x), "a size"),
    (lambda x: rnp.ix_(x > 0), "a size"), (lambda x: rnp.insert(x, x > 0, 1), "the places"),
    (lambda x: rlx.linalg.lstsq(rnp.outer(x, x), x, numpy_resid=True), "numpy_resid"),
])
def test_what_depends_on_elements_names_its_remedy_while_tracing(call, what):
    x = np.float32([1, 0, 2])
    with pytest.raises(TypeError, match="not known while tracing") as raised:
        rlx.jit(call)(x)
    assert what in str(raised.value)


def test_roots_that_are_traced():
    for p in ([1.0, -3.0, 2.0], [0.0, 2.0, 0.0, -8.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]):
        p, wanted = np.array(p), np.roots(p)
        got = np.asarray(rlx.jit(lambda p: rnp.roots(p, strip_zeros=False))(p))
        assert got.shape == (len(p) - 1,) and np.isnan(got).sum() == len(got) - len(wanted)
        np.testing.assert_allclose(np.sort_complex(got[~np.isnan(got)]), np.sort_complex(wanted.astype(complex)), atol=1e-12)


def test_places_of_values_that_are_traced():
    x = np.arange(5.0)
    close(rlx.jit(lambda x, i: rnp.delete(x, i, assume_unique_indices=True))(x, np.int32([3, -5])), np.delete(x, [3, 0]))
    close(rlx.jit(lambda x, i: rnp.insert(x, i, [10.0, 20.0]))(x, np.int32([4, 1])), np.insert(x, [4, 1], [10.0, 20.0]))
    close(rlx.jit(lambda x, i: rnp.insert(x, i, 9.0))(x, np.int32(-2)), np.insert(x, -2, 9.0))


# ---- what NumPy does in place ----
def test_updates_are_new_arrays():
    x = np.arange(12.0).reshape(3, 4)
    for name, wanted, call in [
        ("put", lambda y: np.put(y, [0, -1, 5], [70.5, 80.5]), lambda x: rnp.put(x, [0, -1, 5], [70.5, 80.5], inplace=False)),
        ("put", lambda y: np.put(y, [0, 99], 70.5, mode="clip"), lambda x: rnp.put(x, [0, 99], 70.5, mode="clip", inplace=False)),
        ("put", lambda y: np.put(y, [13, 99], 70.5, mode="wrap"), lambda x: rnp.put(x, [13, 99], 70.5, mode="wrap", inplace=False)),
        ("place", lambda y: np.place(y, y % 2 == 0, [70.5, 80.5, 90.5]), lambda x: rnp.place(x, x % 2 == 0, [70.5, 80.5, 90.5], inplace=False)),
        ("put_along_axis", lambda y: np.put_along_axis(y, np.array([[1], [0], [3]]), 70.5, 1),
         lambda x: rnp.put_along_axis(x, np.array([[1], [0], [3]]), 70.5, 1, inplace=False)),
        ("put_along_axis", lambda y: np.put_along_axis(y, np.array([[1, 0, 2, 1]]), np.array([[70.5, 80, 90, 100]]), 0),
         lambda x: rnp.put_along_axis(x, np.array([[1, 0, 2, 1]]), np.array([[70.5, 80, 90, 100]]), 0, inplace=False)),
        ("put_along_axis", lambda y: np.put_along_axis(y, np.array([1, -1]), 70.5, None),
         lambda x: rnp.put_along_axis(x, np.array([1, -1]), 70.5, None, inplace=False)),
        ("fill_diagonal", lambda y: np.fill_diagonal(y, 70.5), lambda x: rnp.fill_diagonal(x, 70.5, inplace=False)),
        ("fill_diagonal", lambda y: np.fill_diagonal(y, [70.5, 80.5]), lambda x: rnp.fill_diagonal(x, [70.5, 80.5], inplace=False)),
    ]:
        y = x.copy()
        wanted(y)
        close(both(call, x), y)
        g = rlx.grad(lambda x: rnp.sum(call(x)))(x)  # what was replaced has no part in it
        assert np.array_equal(np.asarray(g) == 1, y == x)
        with pytest.raises(ValueError, match="inplace=False"):
            getattr(rnp, name)(x, *([[0], 1.0] if name != "fill_diagonal" else [1.0]), *([0] if name == "put_along_axis" else []))
    for shape, wrap in (((7, 3), True), ((7, 3), False), ((3, 7), True), ((3, 3, 3), False)):
        y = np.zeros(shape)
        np.fill_diagonal(y, 4.0, wrap)
        close(rnp.fill_diagonal(np.zeros(shape), 4.0, wrap, inplace=False), y)
    with pytest.raises(IndexError):
        rnp.put(x, [99], 1.0, mode="raise", inplace=False)
    close(rnp.put(x, [99], 1.0, inplace=False), x)  # dropped
    with pytest.raises(ValueError, match="mode"):
        rnp.put(x, [0], 1.0, mode="skip", inplace=False)


# ---- functions of functions ----
def test_vectorize():
    f = lambda a, b: rnp.where(a > b, a - b, a + b)
    a, b = np.array([1.0, 2, 3, 4]), np.array([[2.0], [3.0]])
    wanted = np.vectorize(lambda a, b: a - b if a > b else a + b)(a, b)
    close(both(rnp.vectorize(f), a, b), wanted)
    close(rnp.vectorize(f)(a, b=b), wanted)
    close(rnp.vectorize(f)(a[:, None], 2.0), np.vectorize(lambda a: a - 2 if a > 2 else a + 2)(a)[:, None])
    assert rnp.vectorize(f)(np.ones((1, 4)), np.ones((1, 1))).shape == (1, 4)
    x, m = np.random.default_rng(0).normal(size=(5, 1, 3)), np.random.default_rng(1).normal(size=(2, 4, 3))
    product = rnp.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)")
    close(both(product, m, x), np.einsum("bnm,abm->abn", m, np.broadcast_to(x, (5, 2, 3))))
    close(rnp.vectorize(lambda v: (v.sum(), v * 2), signature="(n)->(),(n)")(x), (x.sum(-1), x * 2))
    close(rnp.vectorize(lambda p, x: rnp.polyval(p, x), excluded={0})([1.0, 2.0, 3.0], a), np.polyval([1, 2, 3], a))
    close(rnp.vectorize(lambda x, k: x * k, excluded={"k"})(a, k=3.0), a * 3)
    close(rlx.grad(lambda a: rnp.sum(rnp.vectorize(f)(a, b)))(a), rlx.grad(lambda a: rnp.sum(f(a, b)))(a))
    for bad in ("(n", "n->n", "(n)(n)->(n)"):
        with pytest.raises(ValueError, match="signature"):
            rnp.vectorize(f, signature=bad)
    with pytest.raises(ValueError, match="extents"):
        product(m, np.ones(4))
    with pytest.raises(ValueError, match="signature says"):
        rnp.vectorize(lambda v: v, signature="(n)->()")(a)
    with pytest.raises(TypeError, match="arguments"):
        product(m)


def test_functions_of_two_scalars():
    f = rnp.frompyfunc(lambda a, b: a * 2 + b, 2, 1)
    theirs = np.frompyfunc(lambda a, b: a * 2 + b, 2, 1)
    x = np.arange(6.0).reshape(2, 3)
    close(f(x, x[0]), theirs(x, x[0]).astype(float))
    close(f.outer(x, x[0]), theirs.outer(x, x[0]).astype(float))
    for axis in (0, 1, -1):
        close(both(lambda x: f.reduce(x, axis=axis), x), theirs.reduce(x, axis=axis).astype(float))
        close(both(lambda x: f.accumulate(x, axis=axis), x), theirs.accumulate(x, axis=axis).astype(float))
    close(f.reduce(x, axis=1, keepdims=True, initial=1.0), theirs.reduce(np.concatenate([np.ones((2, 1)), x], 1), axis=1)[:, None].astype(float))
    close(f.reduce(x, axis=None), np.float64(theirs.reduce(x.ravel())))
    y = x[0].copy()
    np.add.at(y, [0, 2, 2], [1.0, 2.0, 3.0])
    close(both(lambda x: rnp.frompyfunc(lambda a, b: a + b, 2, 1).at(x, rnp.array([0, 2, 2]), rnp.array([1.0, 2.0, 3.0]), inplace=False), x[0]), y)
    total = rnp.frompyfunc(lambda a, b: a + b, 2, 1, identity=0)
    close(total.reduce(x, axis=1, where=x > 1), np.add.reduce(x, axis=1, where=x > 1))
    assert total.reduce(np.zeros((0, 2))).shape == (2,)
    with pytest.raises(ValueError, match="initial"):
        f.reduce(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="inplace=False"):
        f.at(x, 0, 1.0)
    with pytest.raises(TypeError, match="arguments"):
        f(x)


# ---- linear algebra ----
M = np.random.default_rng(4).normal(size=(2, 4, 3))
S = np.random.default_rng(5).normal(size=(2, 3, 3))


@pytest.mark.parametrize("call", [
    *[lambda n, p=p: n.linalg.cond(S, p) for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro")], lambda n: n.linalg.cond(M[0]),
    *[lambda n, o=o: n.linalg.matrix_norm(M, ord=o, keepdims=True) for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[lambda n, o=o, a=a: n.linalg.vector_norm(M, ord=o, axis=a) for o in (0, 1, 2, 3, 0.5, np.inf, -np.inf) for a in (None, 0, (0, 2))],
    lambda n: n.linalg.vector_norm(M * 1j + 1, keepdims=True), lambda n: n.linalg.cross(S, S[::-1]), lambda n: n.linalg.cross(S, S[::-1], axis=1),
    lambda n: n.linalg.diagonal(S, offset=1), lambda n: n.linalg.trace(S), lambda n: n.linalg.trace(S, offset=-1, dtype=np.float32),
    lambda n: n.linalg.outer(S[0, 0], M[0, 0]), lambda n: n.linalg.tensordot(M, S, axes=((2,), (1,))), lambda n: n.linalg.vecdot(S, S[0]),
    lambda n: n.linalg.matrix_transpose(M), lambda n: n.linalg.matrix_rank(M), lambda n: n.linalg.matrix_rank(M, 1.5),
    lambda n: n.linalg.matrix_rank(M, rtol=0.5), lambda n: n.linalg.matrix_rank(np.ones((3, 3)), hermitian=True), lambda n: n.linalg.matrix_rank(np.zeros(3)),
    lambda n: n.linalg.matrix_rank(M, tol=np.array([0.5, 2.0])), lambda n: n.linalg.pinv(M, rtol=0.3), lambda n: n.linalg.pinv(S + np.swapaxes(S, 1, 2), hermitian=True),
    lambda n: n.linalg.lstsq(M[0], np.arange(4.0))[0], lambda n: n.linalg.lstsq(M[0], M[1])[0], lambda n: n.linalg.lstsq(M[0], M[1])[1],
    lambda n: n.linalg.lstsq(M[0], M[1])[2], lambda n: n.linalg.lstsq(M[0], M[1])[3], lambda n: n.linalg.lstsq(M[0], np.arange(4.0))[1],
    lambda n: n.linalg.eigvalsh(S), lambda n: n.linalg.eigvalsh(S, UPLO="U"), lambda n: n.linalg.svd(S + np.swapaxes(S, 1, 2), hermitian=True).S,
    lambda n: n.linalg.slogdet(S).logabsdet, lambda n: n.linalg.eigh(S).eigenvalues, lambda n: n.linalg.qr(S, mode="r"),
])
def test_linear_algebra_is_that_of_numpy(call):
    wanted = call(np)
    close(call(rlx.numpy), wanted, 1e-9)
    close(rlx.jit(lambda: call(rlx.numpy))(), wanted, 1e-9)


def test_decompositions_of_hermitian_matrices():
    h = S + np.swapaxes(S, 1, 2)
    u, s, vh = rlx.linalg.svd(h, hermitian=True)
    close(rnp.matmul(u * s[:, None, :], vh), h, 1e-10)
    u, s, vh = rlx.linalg.svd(M, full_matrices=False, subset_by_index=(0, 2))
    theirs = np.linalg.svd(M, full_matrices=False)
    close(rnp.matmul(u * s[:, None, :], vh), (theirs[0][..., :2] * theirs[1][:, None, :2]) @ theirs[2][..., :2, :], 1e-10)
    close(rlx.linalg.eigvalsh(S, symmetrize_input=True), np.linalg.eigvalsh(h / 2))
    close(rlx.linalg.cond(np.zeros((2, 2)), 1), np.inf)
    assert np.isnan(rlx.linalg.cond(np.full((2, 2), np.nan)))
    with pytest.raises(ValueError, match="full_matrices=False"):
        rlx.linalg.svd(M, subset_by_index=(0, 2))
    for call in (lambda: rlx.linalg.pinv(M, 0.1, rtol=0.1), lambda: rlx.linalg.matrix_rank(M, 0.1, rtol=0.1), lambda: rlx.linalg.eigh(S, "X"),
                 lambda: rlx.linalg.slogdet(S, method="qr"), lambda: rlx.linalg.outer(S, S), lambda: rlx.linalg.cross(M[0, :, :2], M[0, :, :2]),
                 lambda: rlx.linalg.vector_norm(M, ord="fro"), lambda: rlx.linalg.cond(M, 1), lambda: rlx.linalg.matrix_norm(M, ord=5)):
        with pytest.raises(ValueError):
            call()


def test_residuals_as_numpy_has_them():
    a, b = np.outer([1.0, 2, 3, 4], [1.0, 2.0]), np.arange(4.0)
    assert rlx.linalg.lstsq(a, b)[1].shape == (1,)
    wanted, got = np.linalg.lstsq(a, b, rcond=None), rlx.linalg.lstsq(a, b, numpy_resid=True)
    close(got, wanted, 1e-10)


# ---- dtypes ----
def test_questions_about_dtypes():
    assert rnp.result_type(np.int8, 2) == np.int8 and rnp.result_type(np.int8, 2.5) == np.float32
    assert rnp.result_type(np.zeros(2, np.int32), np.float16) == np.float16 and rnp.result_type(3) == np.int32
    assert rnp.result_type(int, np.uint8) == np.uint8 and rnp.result_type(1j, np.float64) == np.complex128
    assert rnp.promote_types("bfloat16", np.float16) == np.float32 and rnp.promote_types(np.uint8, np.int8) == np.int16
    assert rnp.promote_types("i4", "f2") == np.float16 and rnp.promote_types(int, "float32") == np.float32
    for a in ("i1", "u4", "f2", "f8", "c8", "b1"):
        for b in ("i1", "u4", "f2", "f8", "c8", "b1"):
            for casting in ("no", "safe", "same_kind", "unsafe"):
                assert rnp.can_cast(a, b, casting) == np.can_cast(a, b, casting)
        for kind in (np.integer, np.floating, np.inexact, np.number, np.generic, np.signedinteger, np.dtype(a)):
            assert rnp.issubdtype(np.dtype(a), kind) == np.issubdtype(np.dtype(a), kind)
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", np.float64):
            assert rnp.isdtype(np.dtype(a), kind) == np.isdtype(np.dtype(a), kind)
    assert rnp.issubdtype("bfloat16", rnp.floating) and not rnp.issubdtype("bfloat16", rnp.integer) and rnp.issubdtype(rnp.bfloat16, "bfloat16")
    assert rnp.isdtype("bfloat16", "real floating") and rnp.isdtype(np.int8, ("bool", "integral"))
    assert rnp.iscomplexobj(1j) and not rnp.iscomplexobj(X) and rnp.isrealobj(X)
    assert rnp.isscalar(3) and rnp.isscalar(np.float32(1)) and not rnp.isscalar([1]) and not rnp.isscalar("a") and rnp.iterable([1]) and not rnp.iterable(1)
    assert rnp.shape([[1, 2]]) == (1, 2) and rnp.ndim(X) == 2 and rnp.size(X) == 6 and rnp.size(X, 0) == 2 and rnp.size(X, (0, 1)) == 6
    with pytest.raises(ValueError, match="kind"):
        rnp.isdtype(np.int8, "integer")
    with pytest.raises(ValueError):
        rnp.result_type()
    for name in ("argsort", "cumsum"):
        assert getattr(rnp, name)(np.int32([2, 1]), dtype=np.int64).dtype == np.int64


@pytest.mark.parametrize("f,dtype,wanted", [
    (rnp.sum, "i1", "i4"), (lambda x: rnp.sum(x, promote_integers=False), "i1", "i1"), (lambda x: rnp.prod(x, promote_integers=False), "u1", "u1"),
    (lambda x: rnp.sum(x, initial=2.5), "f2", "f2"), (lambda x: rnp.mean(x, where=True), "f2", "f2"), (lambda x: rnp.var(x, where=True), "f2", "f2"),
    (lambda x: rnp.var(x, dtype=np.float64), "f4", "f8"), (lambda x: rnp.var(x, dtype=np.float64), "c8", "f8"), (rnp.nanmean, "i4", "f4"), (rnp.ptp, "i1", "i1"),
    (rnp.nanmax, "f2", "f2"), (rnp.i0, "i4", "f4"), (lambda x: rnp.float_power(x, 2), "i4", "f4"), (rnp.polyder, "i4", "f4"), (lambda x: rnp.convolve(x, x), "i4", "i4"),
    (lambda x: rnp.trapezoid(x), "i4", "f4"), (lambda x: rnp.vander(x), "u1", "u1"), (lambda x: rnp.linspace(x[0], x[1], 3, dtype="f2"), "f4", "f2"),
    (lambda x: rnp.median(x), "i4", "f4"), (lambda x: rnp.modf(x)[0], "f2", "f2"), (lambda x: rnp.interp(x, [0.0, 1.0], [2.0, 3.0]), "f4", "f4"),
    (lambda x: rnp.cumulative_sum(x), "i1", "i4"), (lambda x: rnp.packbits(x), "b1", "u1"), (rnp.sort_complex, "f4", "c8"),
    (lambda x: rnp.kaiser(4, x[0]), "f8", "f4"),
])
def test_dtypes_of_results(f, dtype, wanted):
    assert f(rnp.ones((3,), dtype)).dtype == np.dtype(wanted)


# ---- places out of range ----
def test_take_with_a_value_for_what_is_out_of_range():
    x, places = np.array([[1.0, 2, 3], [4, 5, 6]]), np.int32([0, 5, -1, -9])
    wanted = np.where([True, False, True, False], x[:, [0, 0, -1, 0]], 7.0)
    close(both(lambda x, i: rnp.take(x, i, axis=1, fill_value=7.0), x, places), wanted)
    close(both(lambda x, i: rnp.take(x, i, axis=0, fill_value=7.0), x.T, places), wanted.T)
    close(both(lambda x, i: rnp.take(x, i, 1, mode="clip"), x, places), x[:, [0, 2, 0, 0]])
    along = np.int32([[0, 9], [-1, -9]])
    close(both(lambda x, i: rnp.take_along_axis(x, i, 1, fill_value=-1.0), x, along), np.array([[1.0, -1], [6, -1]]))
    close(both(lambda x, i: rnp.take_along_axis(x, i, 1, mode="clip", wrap_negative_indices=False), x, along), np.array([[1.0, 3], [4, 4]]))
    close(both(lambda x, i: rnp.take_along_axis(x, i, 1, fill_value=0.5, wrap_negative_indices=False), x, along), np.array([[1.0, 0.5], [0.5, 0.5]]))
    with pytest.raises(ValueError, match="mode"):
        rnp.take_along_axis(x, along, 1, mode="wrap")


# ---- files, bytes, text ----
def test_files_of_numpy(tmp_path):
    for x in (X, np.arange(3, dtype=np.int8), rnp.ones((2,), "bfloat16"), np.array(True)):
        rnp.save(tmp_path / "x.npy", x)
        back = rnp.load(tmp_path / "x.npy")
        close(back, x)
        assert back.dtype == x.dtype
    rnp.savez(tmp_path / "x.npz", X, named=rnp.arange(3))
    with rnp.load(tmp_path / "x.npz") as archive:
        close(archive["arr_0"], X)
        close(archive["named"], np.arange(3, dtype=np.int32))
    np.save(tmp_path / "y.npy", X)
    close(rnp.load(str(tmp_path / "y.npy")), X)
    held = io.BytesIO(pickle.dumps([1]))
    with pytest.raises(ValueError):
        rnp.load(held)
    with pytest.raises(ValueError, match="pickled"):
        rnp.load(tmp_path / "y.npy", allow_pickle=True)
    with pytest.raises(rlx.TracedValueError):
        rlx.jit(lambda x: rnp.save(tmp_path / "z.npy", x))(X)
    data = np.arange(4, dtype="<f4").tobytes()
    close(rnp.frombuffer(data, "f4", 2, 4), np.float32([1, 2]))
    close(rnp.frombuffer(np.arange(3.0).tobytes()), np.arange(3.0))
    (tmp_path / "raw").write_bytes(data)
    close(rnp.fromfile(tmp_path / "raw", np.float32), np.arange(4, dtype=np.float32))
    close(rnp.fromstring("1, 2, 3", int, sep=","), np.int32([1, 2, 3]))
    close(rnp.fromiter((i * i for i in range(4)), np.float32), np.float32([0, 1, 4, 9]))
    writable = bytearray(data)
    held = rnp.frombuffer(writable, np.float32)
    writable[:4] = b"\xff\xff\xff\xff"
    close(held, np.arange(4, dtype=np.float32))


def test_printing():
    x = rnp.array([1 / 3, 2.0])
    assert rnp.array_str(x, precision=2) == "[0.33 2.  ]" and rnp.array_repr(x, precision=2) == "Array([0.33, 2.  ], dtype=float32)"
    with rnp.printoptions(precision=3):
        assert str(x) == "[0.333 2.   ]" and rnp.get_printoptions()["precision"] == 3
    before = rnp.get_printoptions()
    rnp.set_printoptions(precision=4)
    try:
        assert "0.3333," in repr(x)
    finally:
        rnp.set_printoptions(**before)


def test_index_tricks():
    for key in (np.s_[0:3], np.s_[0:3, 1:2:0.25], np.s_[0:1:3j, 0:2]):
        close(rnp.mgrid[key], np.mgrid[key])
        close(rnp.ogrid[key], np.ogrid[key])
    for f in (lambda n: n.r_[0:3, [7, 8], 5], lambda n: n.r_["0,2", [1, 2], [3, 4]], lambda n: n.r_["-1", X, X], lambda n: n.c_[n.arange(3), n.arange(3)],
              lambda n: n.r_["0,3,0", [1, 2], [3, 4]], lambda n: n.c_[X, [[1.0], [2.0]]], lambda n: n.r_[-1:1:5j]):
        close(f(rnp), f(np))
    close(rlx.jit(lambda x: rnp.r_[x, 0.0, x])(X[0]), np.r_[X[0], 0.0, X[0]])
    with pytest.raises(ValueError, match="integers"):
        rnp.r_["r", [1]]


# ---- what is refused ----
OUT = ("sum prod max min amax amin any all mean var std argmax argmin cumsum cumprod median ptp nansum nanmean nanmax nanvar nanstd nanmedian isneginf "
       "isposinf round around clip").split()


@pytest.mark.parametrize("name", OUT)
def test_there_is_nothing_to_write_to(name):
    with pytest.raises(TypeError, match="out= has nothing to write to"):
        getattr(rnp, name)(rnp.ones(3), out=np.ones(()))


@pytest.mark.parametrize("call", [
    lambda: rnp.max(X, where=X > 1), lambda: rnp.sum(X, initial=[1.0, 2.0]), lambda: rnp.max(X, initial=[1.0, 2.0]), lambda: rnp.sum(X, where=np.ones(5, bool)),
    lambda: rnp.sort(X, kind="bogo"), lambda: rnp.sort(X, order="f"), lambda: rnp.argsort(X, kind="bogo"), lambda: rnp.searchsorted(X[0], 1.0, method="bogo"),
    lambda: rnp.searchsorted(X[0], 1.0, sorter=[0]), lambda: rnp.quantile(X, 0.5, method="bogo"), lambda: rnp.quantile(X, 0.5, weights=X),
    lambda: rnp.reshape(X, (3, 2), order="K"), lambda: rnp.ravel(X, order="X"), lambda: rnp.array(X, order="F"), lambda: rnp.asarray(X, order="F"),
    lambda: rnp.nan_to_num(X, copy=False), lambda: rnp.var(X, ddof=1, correction=1), lambda: rnp.gradient(X, edge_order=3), lambda: rnp.convolve(X, X),
    lambda: rnp.convolve([1.0], []), lambda: rnp.convolve([1.0], [1.0], "most"), lambda: rnp.interp(0.5, [0.0, 1.0], [1.0]), lambda: rnp.interp(0.5, [], []),
    lambda: rnp.interp(0.5, [0.0], [1.0], period=0), lambda: rnp.select([], []), lambda: rnp.select([X > 1], [X, X]), lambda: rnp.piecewise(X, [X > 1], [1, 2, 3]),
    lambda: rnp.choose([0, 5], [1, 2]), lambda: rnp.choose([0], [1, 2], mode="most"), lambda: rnp.where(X > 1, X, X, size=2), lambda: rnp.block([[X], X]),
    lambda: rnp.block([]), lambda: rnp.vsplit(X[0], 1), lambda: rnp.dsplit(X, 1), lambda: rnp.unpackbits(np.uint8([1]), bitorder="mid"),
    lambda: rnp.ravel_multi_index((3,), (3,)), lambda: rnp.ravel_multi_index((0, 0), (3,)), lambda: rnp.ravel_multi_index((0,), (3,), mode="most"),
    lambda: rnp.ix_(X), lambda: rnp.vander(X), lambda: rnp.vander(X[0], -1), lambda: rnp.polyfit(X[0], X[0], -1), lambda: rnp.polyder(X[0], -1),
    lambda: rnp.polyint(X[0], 2, [1.0, 2.0, 3.0]), lambda: rnp.roots(X), lambda: rnp.poly(X), lambda: rnp.fill_diagonal(X[0], 1, inplace=False),
    lambda: rnp.diag_indices_from(X), lambda: rnp.tril_indices_from(X[0]), lambda: rnp.resize(X, (-1,)), lambda: rnp.trim_zeros(X, "x"),
    lambda: rnp.linspace(0, 1, -1), lambda: rnp.isin(X, X, kind="bogo"), lambda: rnp.lexsort(([1, 2], [1])), lambda: rnp.partition(X, 1, kind="bogo"),
    lambda: rnp.average(X, axis=0, weights=[1.0, 2.0, 3.0]), lambda: rnp.vecdot(X[0], X[0, :2]), lambda: rnp.place(X, X > 1, [], inplace=False),
    lambda: rnp.place(X, [True], 1.0, inplace=False), lambda: rnp.fromstring("1", sep=""), lambda: rnp.compress([True] * 3, X, axis=1, size=9),
    lambda: rnp.histogram_bin_edges(X, weights=[1.0]), lambda: rnp.delete(X, [True], axis=1), lambda: rnp.cumulative_sum(X), lambda: rnp.rollaxis(X, 0, 5),
    lambda: rnp.insert(X[0], [[0]], 1.0), lambda: rnp.matrix_transpose(X[0]), lambda: rnp.kaiser(-1, 2.0)[0],
])
def test_wrong_arguments_are_errors_of_value(call):
    with pytest.raises((ValueError, IndexError)):
        call()


@pytest.mark.parametrize("call", [
    lambda: rnp.where(X > 1, X), lambda: rnp.clip(X, 0, a_min=0), lambda: rnp.packbits(X), lambda: rnp.unpackbits([1]), lambda: rnp.bitwise_count(X),
    lambda: rnp.modf(1j), lambda: rnp.spacing(1j), lambda: rnp.unwrap(X * 1j), lambda: rnp.fabs(1j), lambda: rnp.quantile(X * 1j, 0.5),
    lambda: rnp.choose([0.5], [1, 2]), lambda: rnp.ravel_multi_index((0.5,), (3,)), lambda: rnp.block((X, X)), lambda: rnp.select([X], [X]),
    lambda: rnp.polyfit(X[0], X, 1), lambda: rnp.polyfit([], [], 1), lambda: rnp.var(X, dtype=np.int32), lambda: rnp.argsort(X, dtype=np.float32),
    lambda: rnp.add(X, X, where=X > 1), lambda: rnp.partition(X, 0.5), lambda: rnp.cov(X, dtype=np.int32), lambda: rnp.delete(X[0], [0.5]),
])
def test_wrong_arguments_are_errors_of_type(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("call", [lambda: rnp.delete(X[0], 3), lambda: rnp.delete(X[0], [0, -4]), lambda: rnp.insert(X[0], 4, 1.0), lambda: rnp.partition(X, 3)])
def test_places_out_of_range_are_errors(call):
    with pytest.raises(IndexError):
        call()


@pytest.mark.parametrize("kth", [0, 2, -1, [1, 3]])
def test_partitions(kth):
    x = np.random.default_rng(0).normal(size=(3, 5))
    for axis in (0, 1, None):
        if axis == 0 and kth == [1, 3]:
            continue
        got = np.asarray(rnp.partition(x, kth, axis=axis))
        for k in np.atleast_1d(kth):  # NumPy promises what stands there, and what is on its sides
            assert np.array_equal(np.take(got, k, axis), np.take(np.partition(x, kth, axis), k, axis))
        places = np.asarray(rnp.argpartition(x, kth, axis=axis))
        flat = x.ravel() if axis is None else x
        assert np.array_equal(np.take_along_axis(flat, places, axis or 0), got)


def test_devices_by_name():
    for make in (lambda d: rnp.zeros(3, device=d), lambda d: rnp.ones((2,), device=d), lambda d: rnp.full(2, 1.0, device=d), lambda d: rnp.arange(3, device=d),
                 lambda d: rnp.array(X, device=d), lambda d: rnp.asarray(X, device=d), lambda d: rnp.eye(2, device=d), lambda d: rnp.linspace(0, 1, 3, device=d),
                 lambda d: rnp.zeros_like(X, device=d), lambda d: rnp.empty_like(X, device=d), lambda d: rnp.astype(X, "f4", device=d), lambda d: rnp.full_like(X, 1, device=d)):
        assert make("cpu").device == "cpu"
        close(make("cpu"), make(None))
        with pytest.raises(rlx.Error, match="is not here"):
            make("nowhere")


def test_polynomials_are_divided():
    u, v = np.array([2.0, -3.0, 1.0, 5.0]), np.array([1.0, 0.5])
    q, r = np.polydiv(u, v)
    mine = rnp.polydiv(u, v)
    close(mine[0], q)
    close(mine[1], np.concatenate([np.zeros(4 - len(r)), r]))
    close(rnp.polydiv(u, v, trim_leading_zeros=True)[1], r)
    close(rnp.polymul([0.0, 1.0, 2.0], [0.0, 3.0], trim_leading_zeros=True), np.polymul([1.0, 2.0], [3.0]), dtype=False)
    close(rnp.polyadd(1.0, [1.0, 2.0]), np.polyadd(1.0, [1.0, 2.0]), dtype=False)


def test_an_order_of_products_is_taken():
    """The chain a (b c) makes a matrix of 1000 numbers less than (a b) c where c is narrow: the graph has the smaller one."""
    a, b, c = (np.ones(s, np.float32) for s in ((100, 100), (100, 100), (100, 2)))
    from_right = str(rlx.jit(lambda a, b, c: rnp.einsum("ij,jk,kl->il", a, b, c)).lower(a, b, c))
    from_left = str(rlx.jit(lambda a, b, c: rnp.einsum("ij,jk,kl->il", a, b, c, optimize=False)).lower(a, b, c))
    assert from_right != from_left


@pytest.mark.parametrize("call", [
    lambda n, a, b, **k: n.matmul(a, b, **k), lambda n, a, b, **k: n.dot(a, b, **k), lambda n, a, b, **k: n.inner(a, b.T, **k),
    lambda n, a, b, **k: n.vdot(a, a, **k), lambda n, a, b, **k: n.tensordot(a, b, axes=1, **k), lambda n, a, b, **k: n.einsum("ij,jk->ik", a, b, **k),
    lambda n, a, b, **k: n.vecdot(a, a, axis=0, **k), lambda n, a, b, **k: n.convolve(a[0], b[:, 0], mode="same", **k),
    lambda n, a, b, **k: n.correlate(a[0], b[:, 0], mode="full", **k),
])
def test_products_in_a_dtype_that_is_preferred(call):
    a, b = np.int8([[100, 99, -98], [97, 3, 4]]), np.int8([[100, 1], [99, 2], [98, 3]])
    got = call(rnp, a, b, preferred_element_type=np.int32)
    assert got.dtype == np.int32  # in int8 these sums wrap around
    close(got, call(np, a.astype(np.int32), b.astype(np.int32)))
    close(rlx.jit(lambda a, b: call(rnp, a, b, preferred_element_type=np.int32))(a, b), got)
    f = a.astype(np.float32) / 7, b.astype(np.float32) / 7
    close(call(rnp, *f, preferred_element_type=np.float16), call(np, *f).astype(np.float16), 2e-3)
    with pytest.raises(TypeError, match="complex"):
        call(rnp, a * 1j, b * 1j, preferred_element_type=np.float32)
