"""rlx.numpy beside NumPy: values, shapes and kinds of dtype, eagerly and traced."""

import zlib

import numpy as np
import pytest
from conftest import close
from numpy_cases import CASES

import rlx
import rlx.numpy as rnp


def _draw(spec, dtype, rng):
    if isinstance(spec, list):
        return [_draw(s, dtype, rng) for s in spec]
    if not (isinstance(spec, tuple) and spec and spec[0] in ("a", "m", "s")):
        return spec
    shape = spec[1]
    if spec[0] == "m":
        return rng.random(shape) < 0.5
    if spec[0] == "s":
        return np.sort(rng.normal(size=shape)).astype(dtype)
    lo, hi = spec[2], spec[3]
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(int(max(lo, 0) if dtype.kind == "u" else lo), int(np.ceil(hi)) + 1, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape)).astype(dtype)
    return rng.uniform(lo, hi, shape).astype(dtype)


ALL = [(name, dtype, i) for name, calls in CASES.items() for i, (dtypes, _, _) in enumerate(calls)
       for dtype in (dtypes.split() if dtypes else [None])]


def _is_array(x):
    return isinstance(x, np.ndarray) or isinstance(x, np.generic)


@pytest.mark.parametrize("name,dtype,i", ALL)
def test_agrees_with_numpy(name, dtype, i):
    _, arguments, keywords = CASES[name][i]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {i}".encode()))
    given = [_draw(a, dtype, rng) for a in arguments]
    ours, theirs = getattr(rnp, name), getattr(np, name)
    wide = given
    if dtype == "f2":  # NumPy rounds after each step, we once
        wide = [a.astype("f8") if _is_array(a) and a.dtype == np.float16 else
                [b.astype("f8") for b in a] if isinstance(a, list) and a and _is_array(a[0]) and a[0].dtype == np.float16 else a
                for a in given]
    with np.errstate(all="ignore"):
        wanted = theirs(*wide, **keywords)
    tolerance = 6e-3 if dtype == "f2" else None
    close(ours(*given, **keywords), wanted, tolerance)


TRACED = [(n, d, i) for n, d, i in ALL if d == "f4" and n not in
          ("nonzero", "argwhere", "unique", "bincount", "linspace", "logspace", "arange", "array_equal")]


@pytest.mark.parametrize("name,dtype,i", TRACED)
def test_traced_gives_what_it_gives_eagerly(name, dtype, i):
    _, arguments, keywords = CASES[name][i]
    rng = np.random.default_rng(7)
    given = [_draw(a, dtype, rng) for a in arguments]
    places = [k for k, a in enumerate(given) if _is_array(a) or (isinstance(a, list) and a and all(map(_is_array, a)))]
    assert places
    f = getattr(rnp, name)

    def traced(*arrays):
        full = list(given)
        for k, a in zip(places, arrays):
            full[k] = a
        return f(*full, **keywords)

    masks = [k for k in places if _is_array(given[k]) and given[k].dtype == bool]
    if name in ("where",) or not masks:
        close(rlx.jit(traced)(*[given[k] for k in places]), f(*given, **keywords))


@pytest.mark.parametrize("name", ["nonzero", "unique", "bincount"])
def test_sizes_that_elements_decide_are_asked_for_while_tracing(name):
    with pytest.raises(TypeError, match="not known while tracing"):
        rlx.jit(getattr(rnp, name))(np.array([1, 0, 2], np.int32))


def test_ranges_between_traced_ends():
    a, b = np.float64(0.2), np.float64(0.9)  # 0.2 + (0.9 - 0.2) is not 0.9
    made = rlx.jit(lambda a, b: rnp.linspace(a, b, 4))(a, b)
    close(made, np.linspace(a, b, 4))
    assert float(made[-1]) == b
    close(rlx.jit(lambda a, b: rnp.linspace(a, b, 4, endpoint=False))(a, b), np.linspace(a, b, 4, endpoint=False))
    for base in (10.0, 2.0):
        close(rlx.jit(lambda a, b: rnp.logspace(a, b, 5, base=base))(a, b), np.logspace(a, b, 5, base=base))
        close(rnp.logspace(a, b, 5, base=base), np.logspace(a, b, 5, base=base))


def test_sizes_given_while_tracing():
    x = np.array([[0, 3, 0], [5, 0, 7]], np.int32)
    close(rlx.jit(lambda a: rnp.nonzero(a, size=4, fill_value=-1))(x), (np.array([0, 1, 1, -1]), np.array([1, 0, 2, -1])))
    close(rlx.jit(lambda a: rnp.unique(a, size=5, fill_value=-1))(x), np.array([0, 3, 5, 7, -1]))
    close(rlx.jit(lambda a: rnp.bincount(a.ravel(), length=8))(x), np.bincount(x.ravel(), minlength=8))


PROMOTIONS = [(a, b) for a in "b1 i1 i4 i8 u1 u4 f2 f4 f8 c8 c16".split() for b in "b1 i1 i4 i8 u1 u4 f2 f4 f8 c8 c16".split()]


@pytest.mark.parametrize("a,b", PROMOTIONS)
def test_promotion_is_that_of_jax(a, b):
    """The table of jax.numpy.promote_types with 64-bit types on, as its documentation gives it."""
    kind = lambda t: np.dtype(t).kind
    x, y = np.dtype(a), np.dtype(b)
    rank = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    if rank[x.kind] == rank[y.kind]:
        wanted = np.promote_types(x, y)
    else:
        low, high = sorted((x, y), key=lambda t: rank[t.kind])
        wanted = np.dtype(np.complex128) if high.kind == "c" and low == np.float64 else high
    assert (rnp.ones((2,), x) * rnp.ones((2,), y)).dtype == wanted


@pytest.mark.parametrize("dtype,number,wanted", [("f4", 2, "f4"), ("f4", 2.5, "f4"), ("i4", 2, "i4"), ("i4", 2.5, "f4"), ("f2", 2.5, "f2"),
                                                 ("f8", 1j, "c16"), ("b1", 2, "i4"), ("u1", 3, "u1"), ("c8", 2.5, "c8")])
def test_python_numbers_are_weak(dtype, number, wanted):
    assert (rnp.ones((2,), dtype) + number).dtype == np.dtype(wanted)


INDICES = [0, -1, slice(None), slice(1, None, 2), slice(None, None, -1), slice(3, 0, -2), None, Ellipsis, (0, 1), (slice(None), 2),
           (Ellipsis, 1), (None, Ellipsis, 0), [0, 2], np.array([[0, 1], [2, 2]]), (slice(None), [0, 3]), ([0, 1], [1, 2]),
           ([0, 1], slice(None), [1, 2]), (slice(None), [[0, 1], [1, 2]], None, [0, 1]), ([[0], [1]], [0, 1]), (1, slice(None), [0, 1]),
           ([0, 2], None, 1), (slice(0, 0),), np.int64(1), (slice(1, 2), Ellipsis, [1, -1])]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_that_of_numpy(index, rng):
    x = rng.normal(size=(3, 4, 5))
    close(rnp.asarray(x)[index], x[index])
    close(rlx.jit(lambda a: a[index])(x), x[index])


def test_masks_index_where_they_are_known(rng):
    x = rng.normal(size=(3, 4))
    close(rnp.asarray(x)[x > 0], x[x > 0])
    with pytest.raises(TypeError, match="mask that is traced"):
        rlx.jit(lambda a: a[a > 0])(x)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_updates_are_those_of_numpy(index, rng):
    x = rng.normal(size=(3, 4, 5))
    value = rng.normal(size=x[index].shape)
    wanted = x.copy()
    wanted[index] = value
    close(rnp.asarray(x).at[index].set(value), wanted)
    wanted = x.copy()
    np.add.at(wanted, index, value)
    close(rnp.asarray(x).at[index].add(value), wanted)
    wanted = x.copy()
    np.maximum.at(wanted, index, value)
    close(rnp.asarray(x).at[index].max(value), wanted)


def test_operators(rng):
    x, y = rng.uniform(1, 3, (2, 3)), rng.uniform(1, 3, (2, 3))
    a, b = rnp.asarray(x), rnp.asarray(y)
    close([a + b, a - b, a * b, a / b, a // b, a % b, a ** b, -a, abs(-a), 2 - a, 2 / a, a @ b.T, a > b, a <= 2, a == b],
          [x + y, x - y, x * y, x / y, x // y, x % y, x ** y, -x, abs(-x), 2 - x, 2 / x, x @ y.T, x > y, x <= 2, x == y])
    assert float(rnp.asarray(2.5)) == 2.5 and len(a) == 2 and a.shape == (2, 3) and a.ndim == 2 and str(a.dtype) == "float64"
    close([row for row in a], [x[0], x[1]])
    with pytest.raises(TypeError, match=r"\.at\[index\]\.set"):
        a[0] = 1


@pytest.mark.parametrize("call,message", [
    (lambda: rnp.reshape(np.ones((2, 3)), (4,)), "elements"),
    (lambda: rnp.ones((2, 3)) @ rnp.ones((2, 3)), "inner extents 3 and 2 differ"),
    (lambda: rnp.ones((2, 3)) + rnp.ones((2, 4)), "could not be broadcast"),
    (lambda: rnp.sum(np.ones(3), axis=1), "axis 1 is out of range"),
    (lambda: rnp.ones(3)[5], "index 5 is out of range for axis 0 of extent 3"),
    (lambda: rnp.concatenate([np.ones((2, 3)), np.ones((3, 2))]), "agree"),
    (lambda: rnp.max(np.ones((0,))), "no value"),
    (lambda: rnp.einsum("ij,jk", np.ones((2, 3)), np.ones((4, 2))), "letter 'j' has extents 3 and 4"),
])
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises((rlx.Error, ValueError, IndexError, TypeError), match=message):
        call()


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "isposinf", "isneginf", "frexp"])
def test_complex_numbers_have_no_order(name):
    with pytest.raises(TypeError, match="takes real numbers, got c64"):
        getattr(rnp, name)(np.ones(3, np.complex64))


def test_branch_cuts_are_those_of_numpy():
    """On both sides of a cut: the sign of a zero imaginary part decides."""
    x = np.array([-3.0, -1.5, -0.5, 0.5, 1.5, 3.0])
    z = np.concatenate([x + 0j, np.conj(x + 0j), 1j * x, -np.conj(1j * x)])
    for name in "sqrt log arcsin arccos arctan arcsinh arccosh arctanh".split():
        close(getattr(rnp, name)(z), getattr(np, name)(z))


@pytest.mark.parametrize("text,wanted", [("i8", "i8"), ("u8", "u8"), ("i4", "i4"), ("f2", "f2"), ("f4", "f4"), ("int8", "i1"), ("uint8", "u1"),
                                         ("f32", "f4"), ("i32", "i4"), ("i64", "i8"), ("u64", "u8"), ("f16", "f2"), ("c64", "c8"), ("bool", "b1"),
                                         (">f4", "f4"), (float, "f4"), (int, "i4"), (np.int8, "i1"), (np.dtype("i8"), "i8")])
def test_a_dtype_that_is_a_string_is_numpys_where_it_may_be_both(text, wanted):
    """"i8" has 8 bytes here, and 8 bits in rlx.ops."""
    assert rnp.ones((2,), text).dtype == np.dtype(wanted)
    assert rnp.arange(3).astype(text).dtype == np.dtype(wanted)
    assert rlx.jit(lambda x: x.astype(text)).lower(rlx.ShapeDtype((2,), text)).as_text()


def test_i8_in_the_op_table_has_8_bits():
    assert rlx.ops.convert(np.ones(3, "f4"), dtype="i8").dtype == np.int8
    assert rlx.nn.one_hot(np.arange(3), 3, dtype="i8").dtype == np.int64
    assert rlx.scan(lambda c, x: (c + x, c), np.int8(1), np.ones(3, np.int8))[1].dtype == np.int8


def test_an_operand_that_may_be_left_out_is_there_when_it_is_given(rng):
    x, w, bias, residual = (rng.normal(size=dims).astype("f4") for dims in ((3, 4), (4, 5), (5,), (3, 5)))
    for got, wanted in [(rlx.ops.fused_matmul(x, w), x @ w), (rlx.ops.fused_matmul(x, w, bias), x @ w + bias),
                        (rlx.ops.fused_matmul(x, w, residual=residual), x @ w + residual),
                        (rlx.ops.fused_matmul(x, w, bias, residual), x @ w + bias + residual)]:
        close(got, wanted)
    centered = x - x.mean(-1, keepdims=True)
    normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    close(rlx.ops.layer_norm(x, w[:, 0], w[:, 1], epsilon=1e-5), normed * w[:, 0] + w[:, 1])


def test_arrays_of_other_layouts(rng):
    x = rng.normal(size=(4, 6)).astype("f4")
    f = rlx.jit(lambda a: rnp.tanh(a) @ a.T)
    wanted = np.tanh(x) @ x.T
    raw = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("f4").reshape(4, 6)  # not aligned, and read-only
    for a in (x, np.asfortranarray(x), x.astype(">f4"), raw, np.repeat(x, 2, 1)[:, ::2]):
        for _ in range(2):  # the second call takes the short way
            close(f(a), wanted)
    close(rlx.jit(lambda a: a * 2)(np.zeros((0, 3), "f4")), np.zeros((0, 3), "f4"))
    x.setflags(write=False)
    close(f(x), wanted)


class Foreign:
    """An array of another package: all that is known of it is DLPack."""

    def __init__(self, array):
        self.__dlpack_device__ = array.__dlpack_device__
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)


def test_dlpack_shares_memory_both_ways(rng):
    for dtype in ("f4", "f8", "f2", "i1", "i4", "i8", "u1", "b1", "c8"):
        x = (rng.normal(size=(2, 3)) * 4).astype(dtype)
        assert np.shares_memory(rnp.from_dlpack(Foreign(x)).numpy(), x)
        a = rnp.asarray(x) + rnp.zeros_like(x) if dtype != "b1" else rnp.logical_or(x, x)
        back = np.from_dlpack(a)
        assert np.shares_memory(back, a.numpy()) and a.__dlpack_device__() == (1, 0)
        close(back, x)
    with pytest.raises(TypeError, match="traced"):
        rlx.jit(lambda v: np.from_dlpack(v))(np.ones(3))


def test_dlpack_carries_bf16():
    """NumPy has no bf16; PyTorch and JAX hand it over so."""
    x = rnp.asarray(np.arange(6).reshape(2, 3)).astype(rnp.bfloat16)
    back = rnp.from_dlpack(Foreign(x))
    assert back.dtype == rnp.bfloat16 and np.shares_memory(back.numpy().view(np.uint16), x.numpy().view(np.uint16))
    close((back * 2).astype("f4"), np.arange(6).reshape(2, 3) * 2, dtype=False)
    with pytest.raises((TypeError, BufferError, RuntimeError)):
        np.from_dlpack(x)  # the capsule says bf16


def test_floats_of_one_byte_are_those_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([[0.7, -3.2, 5.9] + [0] * 29, [1e-3] * 32], np.float32)
    scale = np.asarray(rlx.ops.scaled_quant_scale(x, format="f4e2m1fn", layout="mx"))
    assert scale.dtype == ml_dtypes.float8_e8m0fnu
    # OCP Microscaling 1.0, 6.3: the largest power of two not above the largest number, over that of the format, 4.
    np.testing.assert_array_equal(scale.astype(np.float32), [[2.0 ** (2 - 2)], [2.0 ** (-10 - 2)]])
    codes = rlx.ops.scaled_quantize(x, scale, format="f4e2m1fn", layout="mx")  # and in again
    wide = np.asarray(rlx.ops.scaled_dequantize(codes, scale, format="f4e2m1fn", layout="mx"))
    np.testing.assert_array_equal(wide[0, :3], [0.5, -3, 6])


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "amax", "std", "var", "all", "any", "argmax", "argmin", "cumsum", "cumprod",
                                  "median", "percentile", "ravel", "squeeze", "round", "conj", "nonzero", "sort", "transpose", "clip", "take",
                                  "repeat", "concatenate", "dot", "exp", "add", "linalg.norm", "unique", "histogram"])  # fmt: skip
def test_numpys_own_functions_take_our_arrays(name):
    f = np
    for part in name.split("."):
        f = getattr(f, part)
    more = {"percentile": (30,), "clip": (2, 4), "take": ([1, 0, 3],), "repeat": (2,), "dot": (np.ones(3),), "add": (1,)}.get(name, ())
    x = np.arange(6.0).reshape(2, 3) + 1
    for options in [{}, {"axis": 1}] if name in ("sum", "mean", "prod", "max", "amax", "std", "var", "all", "argmax", "cumsum") else [{}]:
        got, wanted = f(rnp.asarray(x), *more, **options), f(x, *more, **options)
        for g, w in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
            np.testing.assert_allclose(np.asarray(g), w, rtol=1e-15)
    with pytest.raises(TypeError):
        np.sum(rnp.asarray(x), out=np.zeros(()))
    with pytest.raises(IndexError, match="index -7 is out of range for axis 0 of 6 elements"):
        np.take(rnp.asarray(x), [0, -7])


def test_a_byte_of_a_bool_that_is_neither_0_nor_1_is_refused():
    """NumPy makes such an array by `view`; in C++ it would be no bool."""
    x = np.array([0, 1, 2, 0], np.uint8).view(bool)
    f = rlx.jit(lambda a: rlx.ops.bitwise_not(a))
    assert f(np.array([False, True])).tolist() == [True, False]
    for call in (f, rlx.ops.bitwise_not):
        with pytest.raises(rlx.Error, match=r"element 2 of bool\[4\] is 2; a bool is 0 or 1"):
            call(x)
    assert f(x.view(np.uint8) != 0).tolist() == [True, False, False, True]


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_variance_keeps_its_digits_far_from_zero_and_takes_any_ddof(dtype):
    r = np.random.default_rng(0)
    x = (1e6 if dtype != "float16" else 500) + 0.2 * r.normal(size=(3, 4096))
    x = (x + 1j * x[::-1]).astype(dtype) if dtype == "complex64" else x.astype(dtype)
    wide = x.astype("complex128" if dtype == "complex64" else "float64")
    for axis in None, 0, 1:
        for ddof in 0, 1, 0.5, -1, 2:
            want = np.var(wide, axis=axis, ddof=ddof)
            got = np.asarray(rnp.var(rnp.asarray(x), axis=axis, ddof=ddof), np.float64)
            assert np.allclose(got, want, rtol=1e-3 if dtype == "float16" else 1e-5, equal_nan=True), (axis, ddof)
