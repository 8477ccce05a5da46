"""What a program for JAX, NumPy or PyTorch takes for granted, and would not notice if it were otherwise: dtypes beside numbers that are
traced, arguments by keyword under vmap, static arguments that are equal and not the same. JAX's own results, where JAX is installed."""

import numpy as np
import pytest
from conftest import close, jax

import rlx
import rlx.numpy as rnp

HALF = np.float16([1, 2, 3])


# ---- Python's numbers are weak, also where they are traced ----

WAYS = {
    "jit": lambda m, lax: m.jit(lambda x, s: x * (1 - s) + s / 2)(HALF, 0.5),
    "jit of an integer": lambda m, lax: m.jit(lambda x, n: x + n)(np.int8([1, 2]), 3),
    "jit, beside an integer array": lambda m, lax: m.jit(lambda x, s: x * s)(np.int8([1, 2]), 0.5),
    "jit, by keyword": lambda m, lax: m.jit(lambda x, s: x * s)(HALF, s=0.5),
    "jit, in a tree": lambda m, lax: m.jit(lambda d: d["x"] * d["s"])({"x": HALF, "s": 0.5}),
    "jit of a scalar that is strong": lambda m, lax: m.jit(lambda x, s: x * s)(HALF, np.float32(0.5)),
    "jit, converted": lambda m, lax: m.jit(lambda x, s: x * m.numpy.asarray(s).astype("float32"))(HALF, 0.5),
    "jit, as an array of that dtype": lambda m, lax: m.jit(lambda x, s: x * m.numpy.asarray(s, "float32"))(HALF, 0.5),
    "jit, then a function": lambda m, lax: m.jit(lambda x, s: x * m.numpy.exp(s))(HALF, 0.5),
    "grad": lambda m, lax: m.grad(lambda x, s: (x * s).sum())(m.numpy.asarray(HALF), 0.5),
    "jit of grad": lambda m, lax: m.jit(lambda x, s: x - s * m.grad(lambda x: (x * s).sum())(x))(HALF, 0.5),
    "vmap": lambda m, lax: m.vmap(lambda x, s: x * s, in_axes=(0, None))(HALF, 0.5),
    "checkpoint": lambda m, lax: m.checkpoint(lambda x, s: x * s)(m.numpy.asarray(HALF), 0.5),
    "cond": lambda m, lax: lax.cond(True, lambda x, s: x * s, lambda x, s: x, HALF, 0.5),
    "scan": lambda m, lax: lax.scan(lambda c, x: (c + x, c * x), 0.0, HALF),
    "scan, a number that stays one": lambda m, lax: lax.scan(lambda c, x: (c + 1, x * c), 0.0, HALF),
    "fori_loop": lambda m, lax: lax.fori_loop(0, 3, lambda i, c: (c[0] + 1.0, c[1] * c[0]), (1.0, np.float16(1))),
    "while_loop": lambda m, lax: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, np.float16(1))),
    "scan in jit": lambda m, lax: m.jit(lambda s, xs: lax.scan(lambda c, x: (c * s, x * s), np.float16(1), xs))(0.5, HALF),
}
WANTED = {"jit": "float16", "jit of an integer": "int8", "jit, beside an integer array": "float32", "jit, by keyword": "float16", "jit, in a tree": "float16",
          "jit of a scalar that is strong": "float32", "jit, converted": "float32", "jit, as an array of that dtype": "float32",
          "jit, then a function": "float16", "grad": "float16", "jit of grad": "float16",
          "vmap": "float16", "checkpoint": "float16", "cond": "float16", "scan": "float16 float16", "scan, a number that stays one": "float32 float16",
          "fori_loop": "float32 float16", "while_loop": "int32 float16", "scan in jit": "float16 float16"}


@pytest.mark.parametrize("way", WAYS)
def test_a_number_takes_the_dtype_beside_it_where_it_is_traced(way):
    got = rlx.tree.leaves(WAYS[way](rlx, rlx.lax))
    assert " ".join(str(x.dtype) for x in got) == WANTED[way]
    if jax:
        theirs = jax.tree.leaves(WAYS[way](jax, jax.lax))
        assert " ".join(str(x.dtype) for x in theirs) == WANTED[way]
        close(got, theirs, 4e-3)


def test_what_jit_keeps_for_a_number_is_not_what_it_keeps_for_an_array():
    f = rlx.jit(lambda x, s: x * s)
    assert f(HALF, 2.0).dtype == np.float16 and f(HALF, np.float32(2)).dtype == np.float32 and f(HALF, 3.0).dtype == np.float16


def test_a_carry_that_the_body_makes_an_array_widens_what_is_beside_it():
    """The number is one no more behind the first trip."""
    carry, _ = rlx.lax.scan(lambda c, x: ((rnp.float32(1) * c[0], c[1] * c[0]), x), (0.0, np.float16(1)), HALF)
    assert carry[0].dtype == np.float32 and carry[1].dtype == np.float32


# ---- NumPy's wide scalars are Python's numbers beside an array ----
@pytest.mark.parametrize("call", [
    lambda np_, x: x / np.sqrt(64), lambda np_, x: np.sqrt(64) * x, lambda np_, x: np_.maximum(x, np.log(2)), lambda np_, x: np_.where(x > 1, x, np.float64(0)),
    lambda np_, x: x + np.prod((2, 3)), lambda np_, x: x ** np.float64(2), lambda np_, x: np.arange(3.0).sum() - x])
def test_numpys_float64_widens_no_array(call):
    for x in (np.float32([1, 2, 4]), HALF):
        for got in (call(rnp, rnp.asarray(x)), rlx.jit(lambda x: call(rnp, x))(x)):
            assert got.dtype == x.dtype
            close(got, call(np, x).astype(x.dtype), 4e-3)
    assert call(rnp, rnp.asarray(np.float64([1, 2, 4]))).dtype == np.float64


def test_numpys_integers_widen_no_array_and_wide_arrays_do():
    assert (rnp.arange(3) + np.prod((2, 3))).dtype == np.int32 and (rnp.arange(3) * np.float64(0.5)).dtype == np.float32
    assert (rnp.ones(2) * np.ones(2)).dtype == np.float64 and rnp.add(np.float64(1), 2.0).dtype == np.float64
    assert rnp.result_type(rnp.ones(2), np.float64(1)) == np.float32 and rnp.asarray(np.float64(1)).dtype == np.float64
    assert rnp.array(range(3)).dtype == np.int32


# ---- vmap ----
def test_vmap_takes_examples_by_keyword_along_axis_0():
    x, y = np.arange(3, dtype=np.float32), np.float32([10, 20, 30])
    close(rlx.vmap(lambda x, y: x + y)(x, y=y), x + y)
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    close(rlx.vmap(lambda x, *, p: x * p["w"], in_axes=(None,))(np.float32(2), p={"w": w}), 2 * w)
    close(rlx.vmap(lambda x, flag: x if flag else -x)(x, flag=True), x)
    with pytest.raises(ValueError, match="one batch size"):
        rlx.vmap(lambda x, y: x)(x, y=y[:2])


def test_vmap_gives_no_single_result_where_they_differ():
    x = np.arange(3, dtype=np.float32)
    for f in (lambda x: x, lambda x: (rnp.ones(2), x * 2)[1], lambda x: rlx.lax.scan(lambda c, s: (c + s, c), x, rnp.ones(2))[0],
              lambda x: rlx.jit(rlx.grad(lambda v: v * v))(x)):
        with pytest.raises(ValueError, match="out_axes is None"):
            rlx.vmap(f, out_axes=None)(x)
    close(rlx.vmap(lambda x: rnp.ones(2) * 3, out_axes=None)(x), np.float32([3, 3]))
    a, b = rlx.vmap(lambda x, y: (x + y, y * 2), in_axes=(0, None), out_axes=(0, None))(x, np.float32(5))
    close(a, x + 5), close(b, np.float32(10))


# ---- static arguments ----
def test_static_arguments_that_are_equal_and_not_the_same():
    f = rlx.jit(lambda x, n: x * n, static_argnums=1)
    x = np.int32([1, 2])
    assert [str(f(x, n).dtype) for n in (1, 1.0, 1, 1j)] == ["int32", "float32", "int32", "complex64"]
    f = rlx.jit(lambda x, n: x * n[0], static_argnames="n")
    assert [str(f(x, n=(n,)).dtype) for n in (1, 1.0)] == ["int32", "float32"]
    f = rlx.jit(lambda x, n: x / n, static_argnums=1)
    assert np.asarray(f(np.float32([1]), 0.0))[0] == np.inf and np.asarray(f(np.float32([1]), -0.0))[0] == -np.inf


def test_a_jitted_function_within_another_gets_arrays_too():
    inner = rlx.jit(lambda w, y: (y.at[0].set(w)).sum())
    assert float(rlx.grad(lambda w: inner(w, np.ones(3, np.float32)))(2.0)) == 1

    given = np.zeros(3, np.float32)

    @rlx.jit
    def writes(w, y):
        y[0] = 5
        return w * y.sum()
    with pytest.raises(TypeError, match="do not change"):
        rlx.grad(lambda w: writes(w, given))(2.0)
    assert given[0] == 0
    by_row = rlx.jit(lambda x, how: x.sum(how["axis"]) if isinstance(how, dict) else x, static_argnums=1)
    close(rlx.jit(lambda x: by_row(x, {"axis": 0}))(np.ones((2, 3), np.float32)), np.full(3, 2, np.float32))


# ---- trees and rules ----
def test_a_tree_is_built_of_as_many_leaves_as_it_has():
    structure = rlx.tree.structure({"a": 1, "b": [2, 3]})
    for leaves, says in (([1, 2], "fewer"), ([1, 2, 3, 4], "more")):
        with pytest.raises(ValueError, match=says):
            rlx.tree.unflatten(structure, leaves)
    assert rlx.tree.unflatten(structure, iter([1, 2, 3])) == {"a": 1, "b": [2, 3]}


def test_a_backward_rule_gives_a_cotangent_for_each_argument():
    def of(backward, x):
        @rlx.custom_vjp
        def f(x):
            return rnp.sum(x["w"]) * 2 if isinstance(x, dict) else rnp.sum(x)
        f.defvjp(lambda x: (f(x), None), lambda kept, ct: backward(ct))
        return rlx.grad(f)(x)

    one, two = np.ones(1, np.float32), {"w": np.ones(2, np.float32), "v": np.ones(2, np.float32)}
    with pytest.raises(TypeError, match=r"a tuple .*\(ct,\)"):
        of(lambda ct: ct * rnp.ones(1), one)  # an array of one element is no tuple of one
    with pytest.raises(ValueError, match="the shape"):
        of(lambda ct: (ct,), np.ones(3, np.float32))
    with pytest.raises(ValueError, match="the cotangent"):
        of(lambda ct: (ct,), two)
    got = of(lambda ct: ({"v": None, "w": ct * rnp.ones(2) * 7},), two)
    close(got, {"v": np.zeros(2, np.float32), "w": np.full(2, 7, np.float32)})


def test_has_aux_is_a_pair():
    for f, says in ((lambda x: (x, x, x), "3 values"), (lambda x: x, "one value")):
        for call in (rlx.grad(f, has_aux=True), rlx.value_and_grad(f, has_aux=True), lambda x: rlx.vjp(f, x, has_aux=True)):
            with pytest.raises(TypeError, match=says):
                call(1.0)


def test_no_jacobian_of_integers():
    for jacobian in (rlx.jacrev, rlx.jacfwd):
        with pytest.raises(ValueError, match="have derivatives"):
            jacobian(rnp.argmax)(np.ones(2, np.float32))


# ---- numbers ----
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_mean_needs_neither_its_sum_nor_its_count_in_the_dtype(dtype):
    for n, value in ((70000, 2), (1000, 1000)):
        x = rnp.full(n, value, dtype)
        for got in (rnp.mean(x), rlx.jit(rnp.mean)(x), x.mean(0, keepdims=True)[0]):
            assert got.dtype == dtype and float(got) == float(rnp.asarray(value, dtype))


def test_integers_that_a_dtype_does_not_hold():
    for call in (lambda: rnp.array([300], "uint8"), lambda: rnp.array([[1], [-1]], "uint32"), lambda: rnp.asarray([1, 200], np.int8)):
        with pytest.raises(OverflowError):
            call()
    assert rnp.array([255, 0], "uint8").tolist() == [255, 0]


def test_integers_to_negative_powers_are_refused_while_tracing_too():
    x = np.int32([2, 3])
    for call in (lambda: rnp.asarray(x) ** -1, lambda: rlx.jit(lambda x: x ** -1)(x), lambda: rlx.vmap(lambda x: rnp.power(x, -2))(x)):
        with pytest.raises(ValueError, match="negative powers"):
            call()
    close(rlx.jit(lambda x: x ** -1)(np.float32([2, 4])), np.float32([0.5, 0.25]))


def test_seeds_and_shapes_are_integers():
    for call in (lambda: rlx.random.key(1.5), lambda: rlx.jit(rlx.random.key)(1.5), lambda: rnp.zeros(2.0)):
        with pytest.raises(TypeError, match="integer"):
            call()
    assert np.array_equal(rlx.random.key(np.int64(3)), rlx.random.key(3))
    with pytest.raises(rlx.TracedValueError, match="static"):
        rlx.jit(lambda x, n: x.reshape(n, -1))(np.ones(4), 2)


def test_a_long_loop_counts_its_trips():
    assert int(rlx.lax.fori_loop(5, 2**17, lambda i, c: c + i % 2, 0)) == sum(i % 2 for i in range(5, 2**17))
    assert float(rlx.grad(lambda x: rlx.lax.fori_loop(0, 70000, lambda i, c: c + x, 0.0))(1.0)) == 70000


# ---- special functions beside SciPy ----
def test_zeta_below_one_and_beta_of_large_numbers_are_scipys():
    special = pytest.importorskip("scipy.special")
    x = np.array([-20.5, -4, -3, -2, -1, -0.5, -1e-3, 0, 1e-3, 0.3, 0.5, 0.99, 1, 1.01, 2, 30, np.inf, np.nan, -np.inf])
    close(rlx.special.zeta(x), special.zeta(x), 1e-11)
    close(rlx.special.zeta(x.astype(np.float32)), special.zeta(x.astype(np.float32)), 2e-4)
    h = 1e-5
    for at in (-2.5, -2.0, 0.4, 3.0):
        close(rlx.grad(rlx.special.zeta)(np.float64(at)), (special.zeta(at + h) - special.zeta(at - h)) / (2 * h), 1e-5)
    a = np.float32([1e6, 3, 0.5, 1e-3, 20, 8, 1e10, 2, -1.5, 0, np.inf, 7.5, 1e5])
    b = np.float32([2, 1e5, 9, 1e4, 1e3, 8, 3, 3, 9, 2, 2, 0.1, 1e5])
    wanted = special.betaln(a.astype(np.float64), b.astype(np.float64))
    close(rlx.special.betaln(a, b).astype("float64"), wanted, 2e-6)
    for b in (9.0, 2.0, 1e4):
        close(rlx.grad(rlx.special.betaln)(np.float64(0.5), b), special.digamma(0.5) - special.digamma(0.5 + b), 1e-9)


def test_beta_at_its_poles_and_quotients_of_large_gammas_are_scipys():
    special = pytest.importorskip("scipy.special")
    a = np.float64([0, -1, -1, -3, -3, -3, 0, -1, -2, 2, 1, 0.3, -7.6, -2.5, 4, np.nan])
    b = np.float64([0, -1, 1, 2, 4, 1.5, 2, 0, 2, -2, -1, -1, -1, 3, -5, 1])
    for name in ("beta", "betaln"):
        close(getattr(rlx.special, name)(a, b), getattr(special, name)(a, b), 1e-11)
        close(getattr(rlx.special, name)(np.int32([[1, 2], [3, 4]]), -1), np.float32(getattr(special, name)(np.int32([[1, 2], [3, 4]]), -1)), 2e-5)
    z, m = np.float32([2**20, 1e5, 20, 9, 100]), np.float32([[1], [3], [0.5], [5]])
    close(rlx.special.poch(z, m).astype("float64") / special.poch(z.astype(np.float64), m), np.ones((4, 5)), 1e-4)


def test_steps_and_ranks_are_numpys():
    for num in (0, 1):
        for endpoint in (True, False):
            got, wanted = (np_.linspace(np.float32([0, 1]), np.float32([3, 5]), num, endpoint, True) for np_ in (rnp, np))
            assert got[0].shape == wanted[0].shape and np.shape(got[1]) == np.shape(wanted[1])
            close(got[1], np.asarray(wanted[1], np.float32), 1e-6)
    with pytest.raises(TypeError):
        rnp.array([1, 2], ndmin=0.5)


@pytest.mark.parametrize("call", [lambda: rnp.polydiv(np.ones(3), np.ones((2, 2))), lambda: rnp.polydiv(np.ones(3), np.ones(0)),
                                  lambda: rlx.lax.conv_general_permutations([1.0, 2.0, 3.0])])
def test_what_means_nothing_is_refused(call):
    with pytest.raises((TypeError, ValueError)):
        call()


def test_integrals_of_high_order_take_memory_for_their_coefficients_alone():
    for order in (3, 170, 200):
        p = np.arange(1, 4, dtype=np.float64)
        np.testing.assert_allclose(np.asarray(rnp.polyint(p, order)), np.polyint(p, order), rtol=1e-13, atol=1e-307)  # below: no normal numbers
    assert rnp.polyint(np.ones(3), 20_000).shape == (20_003,)  # a list of 20,000 arrays of 160 kB before
    assert rnp.polyder(np.ones(40_000, np.float32), 20_000).shape == (20_000,)


def test_trapezoids_of_complex_width_are_complex():
    y = np.array([[0, 4, -4], [1, 2, 3]], np.int32)
    for dx in (np.array([0.5 - 2j], np.complex64), 0.5 - 2j, 0.5, 2):
        np.testing.assert_allclose(np.asarray(rnp.trapezoid(y, dx=dx)), np.trapezoid(y, dx=dx) if hasattr(np, "trapezoid") else np.trapz(y, dx=dx), rtol=1e-6)
    assert rnp.trapezoid(np.ones(3, np.float32), dx=0.5).dtype == np.float32


def test_what_has_its_dtype_by_decision_stays_strong_where_numbers_are_traced():
    """Cases of which JAX gives the same dtypes; (function, arguments, dtype)."""
    lax = rlx.lax
    half, small = np.float16([1, 2]), np.int8([1])
    for f, args, wanted in [
        (lambda x, s: x * lax.convert_element_type(s, "float32"), (half, 0.5), "float32"),
        (lambda x, s: x * rnp.full((2,), s, "float32"), (half, 0.5), "float32"),
        (lambda x, s: x * rnp.sum(s, dtype="float32"), (half, 0.5), "float32"),
        (lambda x, s: x * s, (half, 0.5), "float16"),
        (lambda x, s: x * (s + 1.5), (half, 1), "float16"),
        (lambda x, s: x * rnp.sin(s), (half, 1), "float16"),
        (lambda n, y: lax.while_loop(lambda s: s < 10, lambda s: rnp.asarray(s + 1, "int32"), n) + y, (3, small), "int32"),
        (lambda n, y: lax.while_loop(lambda s: s < 10, lambda s: s + 1, n) + y, (3, small), "int8"),
        (lambda p, y: lax.cond(p, lambda s: s, lambda s: rnp.asarray(s, "int32"), 3) + y, (True, small), "int32"),
        (lambda s, x: lax.scan(lambda c, v: (c, v * rnp.asarray(s, "float32")), 0, x)[1], (0.5, half), "float32"),
        (lambda s, x: lax.scan(lambda c, v: (c, v * s), 0, x)[1], (0.5, half), "float16"),
        (lambda s, x: x * rlx.vmap(lambda v: v * 0 + rnp.asarray(s, "float32"))(x), (0.5, half), "float32"),
    ]:
        assert rlx.jit(f)(*args).dtype == wanted
    if jax is not None:
        import jax.numpy as jnp
        assert jax.jit(lambda x, s: x * jax.lax.convert_element_type(s, "float32"))(half, 0.5).dtype == jnp.float32


def test_a_numpy_integer_that_does_not_fit_widens():
    x = rnp.asarray([1, 2])
    assert x.dtype == np.int32 and (x + np.int64(2)).dtype == np.int32
    assert (x + np.int64(2**40)).dtype == np.int64 and np.asarray(x + np.int64(2**40)).tolist() == [1 + 2**40, 2 + 2**40]
    assert np.asarray(x < np.int64(2**40)).tolist() == [True, True]
    assert rlx.jit(lambda x: x + np.int64(2**40))(x).dtype == np.int64


def test_static_arguments_within_tuples_have_kinds():
    import collections
    Pair = collections.namedtuple("Pair", "a b")
    f = rlx.jit(lambda x, p: x * p.a, static_argnums=1)
    assert f(np.int32([3]), Pair(1, 0)).dtype == np.int32
    assert f(np.int32([3]), Pair(1.0, 0)).dtype == np.float32


def test_derivatives_of_igamma_are_nan_where_it_is():
    a, x = np.float32([0.66, -0.6, 0.0, np.nan, 2]), np.float32([0.68, 0.5, 0.0, 1, -1])
    is_nan = np.isnan(np.asarray(rlx.lax.igamma(a, x)))
    assert is_nan.tolist() == [False, True, True, True, True]
    assert np.isnan(np.asarray(rlx.lax.igamma_grad_a(a, x))).tolist() == is_nan.tolist()
    by_x = rlx.vmap(rlx.grad(lambda x, a: rlx.lax.igamma(a, x)))(rnp.asarray(x), rnp.asarray(a))
    assert np.isnan(np.asarray(by_x)).tolist() == is_nan.tolist()
    with pytest.raises(TypeError, match="indices are integers"):
        rnp.unravel_index(1.5, (2, 3))
