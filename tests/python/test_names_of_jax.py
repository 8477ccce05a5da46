"""What programs for JAX call, spelled as it spells it. Expected values are NumPy's; where JAX is installed the same calls are
made there too."""

import io
import contextlib
import operator
import pickle
import subprocess
import sys
import os
import pathlib

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from conftest import close, jax

X = np.float32([[3, 1, 2], [6, 5, 4]])


def both(call):
    """The result of a call that takes the package as JAX's and as ours; they agree where JAX is there."""
    ours = call(rlx, rnp)
    if jax is not None:
        close(ours, call(jax, jax.numpy))
    return ours


# ---- positional attributes, eps ----
def test_attributes_by_position():
    values, places = rlx.ops.top_k(X, 2)
    close(values, np.float32([[3, 2], [6, 5]]))
    assert np.array_equal(places, [[0, 2], [0, 1]])
    image, kernel = np.ones((1, 1, 5, 5), np.float32), np.ones((1, 1, 3, 3), np.float32)
    assert rlx.ops.conv(image, kernel, (2, 2), (1, 1)).shape == (1, 1, 3, 3) == rlx.conv(image, kernel, 2, 1).shape
    close(rlx.ops.cumsum(X, 1, True), np.cumsum(X[:, ::-1], 1)[:, ::-1])
    close(rlx.ops.softmax(X, 0), np.exp(X) / np.exp(X).sum(0))
    close(rlx.ops.one_hot(np.int32([1]), 3), np.float32([[0, 1, 0]]))
    assert [x.shape for x in rlx.ops.split(X, (2, 1), 1)] == [(2, 2), (2, 1)]  # jax.lax.split(operand, sizes, axis)
    close(rlx.ops.glu(X, 0), X[:1] / (1 + np.exp(-X[1:])))  # jax.nn.glu(x, axis)
    assert rlx.ops.rng_uniform(rlx.random.key(0), (2, 3)).shape == (2, 3)


def test_eps_is_epsilon():
    d = X - X.mean(-1, keepdims=True)
    wanted = d / np.sqrt((d * d).mean(-1, keepdims=True) + 0.1)
    close(rlx.ops.layer_norm(X, eps=0.1), wanted)
    close(rlx.ops.layer_norm(X, epsilon=0.1), wanted)
    close(rlx.nn.standardize(X, eps=0.1), wanted)
    assert rlx.train.adam(eps=1e-3) == rlx.train.adam(epsilon=1e-3)
    with pytest.raises(TypeError, match="one and the same"):
        rlx.ops.layer_norm(X, epsilon=0.1, eps=0.2)


# ---- errors ----
@pytest.mark.parametrize("call,kinds", [
    (lambda: rlx.ops.add(np.ones(2, np.float32), np.ones(3, np.float32)), (ValueError, TypeError)),
    (lambda: rlx.ops.sin(np.int32([1])), (TypeError, ValueError)),
    (lambda: rnp.ones(3) + rnp.ones(4), (ValueError,)),
    (lambda: rnp.sum(rnp.ones(3), axis=2), (ValueError, IndexError)),
    (lambda: rlx.ops.softmax(X, axis=5), (ValueError, IndexError)),
    (lambda: rlx.jit(lambda x: rlx.ops.softmax(x, axis=5))(X), (ValueError, IndexError)),
    (lambda: rlx.vmap(lambda x: x, in_axes=4)(X), (ValueError, IndexError)),
    (lambda: rlx.Graph.parse("rlx 1\ngraph"), (ValueError,)),
    (lambda: rlx.Graph.load("/no/such/file.rlx"), (FileNotFoundError, OSError, KeyError)),
    (lambda: rlx.grad(lambda x: x)(X), (ValueError, TypeError)),
    (lambda: rlx.cond(True, lambda: 1.0, lambda: (1.0, 2.0)), (ValueError, TypeError)),
    (lambda: rlx.switch(0, [], 1.0), (TypeError,)),
])
def test_errors_are_pythons_too(call, kinds):
    for kind in kinds:
        with pytest.raises(kind):
            call()


@pytest.mark.parametrize("status,kind", [("invalid_argument", ValueError), ("shape_mismatch", TypeError), ("axis_out_of_range", IndexError),
                                         ("unsupported", NotImplementedError), ("parse", ValueError), ("not_found", FileNotFoundError),
                                         ("not_found", KeyError), ("io", OSError), ("out_of_memory", MemoryError), ("internal", RuntimeError),
                                         ("another", Exception)])
def test_an_error_of_each_status(status, kind):
    error = rlx.Error("what is wrong", status)
    assert isinstance(error, rlx.Error) and isinstance(error, kind)
    assert str(error) == "what is wrong" and error.status == status and repr(error) == "Error('what is wrong')"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.status == status and str(again) == str(error)


# ---- threads, devices ----
def test_threads_of_jit_and_their_default():
    f = rlx.jit(lambda x: x @ x, threads=1)
    close(f(np.eye(3)), np.eye(3))
    before = rlx.get_num_threads()
    g = rlx.jit(lambda x: rnp.sin(x))
    g(X)
    try:
        rlx.set_num_threads(1)
        assert rlx.get_num_threads() == 1
        close(g(X), np.sin(X))
        close(rnp.cos(rnp.asarray(X)), np.cos(X))
    finally:
        rlx.set_num_threads(0)
    assert rlx.get_num_threads() == before >= 1
    for wrong in (0, -1, 1.5, True, "2", 10**6):
        with pytest.raises(ValueError, match="threads is a number"):
            rlx.jit(lambda x: x, threads=wrong)
    close(rlx.jit(lambda x: x + 1, device="cpu")(X), X + 1)
    with pytest.raises(rlx.Error, match="nowhere"):
        rlx.jit(lambda x: x + 1, device="nowhere")(X)


def test_static_arguments_by_number_and_by_name():
    for f in (rlx.jit(lambda x, n: x[:n], static_argnums=1), rlx.jit(lambda x, n: x[:n], static_argnames="n"),
              rlx.jit(lambda x, n: x[:n], static_argnums=-1)):
        close(f(X, 1), X[:1])
        close(f(X, n=1), X[:1])
    close(rlx.jit(lambda x, n=2: x[:n], static_argnums=1)(X), X[:2])
    close(rlx.jit(lambda x: x * 2, donate_argnums=0)(X), X * 2)
    with pytest.raises(ValueError, match="static_argnames names 'm'"):
        rlx.jit(lambda x, n: x, static_argnames="m")


# ---- shapes without computing ----
def test_eval_shape():
    def f(x, y):
        return {"product": x @ y, "mask": x > 0, "none": None}
    types = rlx.eval_shape(f, rlx.ShapeDtypeStruct((5, 2), np.float32), X)
    assert (types["product"].shape, types["product"].dtype) == ((5, 3), np.float32)
    assert (types["mask"].shape, types["mask"].dtype) == ((5, 2), np.bool_) and types["none"] is None
    assert rlx.eval_shape(lambda x: x.astype("int8"), X) == rlx.ShapeDtypeStruct((2, 3), np.int8)
    assert types["product"].ndim == 2 and types["product"].size == 15
    with pytest.raises(ValueError):
        rlx.eval_shape(lambda x, y: x @ y, X, X)


def test_block_until_ready():
    tree = {"a": rnp.ones(2)}
    assert rlx.block_until_ready(tree) is tree
    close(rlx.jit(lambda x: x + 1)(X).block_until_ready(), X + 1)


# ---- control flow ----
@pytest.mark.parametrize("index", [-3, 0, 1, 2, 3, 9])
def test_switch(index):
    calls = lambda package: [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: -x, lambda x, y: y]
    wanted = [X + 2, X * 2, -X, np.full_like(X, 2)][min(max(index, 0), 3)]
    two = np.full_like(X, 2)
    close(both(lambda p, n: p.lax.switch(index, calls(p), X, two)), wanted)
    close(both(lambda p, n: p.jit(lambda i, x: p.lax.switch(i, calls(p), x, two))(index, X)), wanted)
    close(both(lambda p, n: p.grad(lambda x: p.lax.switch(index, calls(p), x, two).sum())(X)),
          np.full_like(X, [1, 2, -1, 0][min(max(index, 0), 3)]))


def test_switch_of_one_branch_and_wrong_ones():
    close(rlx.switch(5, [lambda x: x], X), X)
    for index, kind in ((1.5, TypeError), (np.ones(2, np.int32), ValueError)):
        with pytest.raises(kind):
            rlx.switch(index, [lambda x: x, lambda x: -x], X)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 8, 33])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    x = np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32)
    turned = x[::-1] if reverse else x
    sums = np.cumsum(turned, 0)
    close(both(lambda p, m: p.lax.associative_scan(m.add, x, reverse=reverse)), sums[::-1] if reverse else sums, 1e-5)
    close(rlx.jit(lambda v: rlx.associative_scan(rnp.maximum, v, reverse=reverse))(x), np.maximum.accumulate(turned)[::-1 if reverse else 1] if n else x)
    close(rlx.associative_scan(operator.add, x.T, axis=1, reverse=reverse), (sums[::-1] if reverse else sums).T, 1e-5)


def test_associative_scan_of_a_recurrence():
    """y_t = a_t y_(t-1) + b_t, whose steps (a, b) combine to steps."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=9), rng.normal(size=9)
    combine = lambda s, t: {"a": t["a"] * s["a"], "b": t["a"] * s["b"] + t["b"]}
    y, wanted = 0.0, []
    for at, bt in zip(a, b):
        y = at * y + bt
        wanted.append(y)
    close(rlx.lax.associative_scan(combine, {"a": a, "b": b})["b"], np.array(wanted))
    with pytest.raises(ValueError, match="one extent"):
        rlx.associative_scan(combine, {"a": a, "b": b[:3]})


def test_functions_of_lax():
    v = np.float32([0.5, -1.5, 2.5])
    for name in ("erf", "erfc", "lgamma", "digamma", "rsqrt"):
        both(lambda p, n: getattr(p.lax, name)(np.abs(v)))
    close(both(lambda p, n: p.lax.rsqrt(np.float32([4, 16]))), np.float32([0.5, 0.25]))
    close(both(lambda p, n: p.lax.select(v > 0, v, -v)), np.abs(v))
    close(both(lambda p, n: p.lax.clamp(np.float32(-1), v, np.float32(1))), np.clip(v, -1, 1))
    close(both(lambda p, n: p.lax.cumsum(X, 1, reverse=True)), np.cumsum(X[:, ::-1], 1)[:, ::-1])
    close(both(lambda p, n: p.lax.cumprod(X)), np.cumprod(X, 0))
    close(both(lambda p, n: p.lax.cummax(X, 1)), np.maximum.accumulate(X, 1))
    close(both(lambda p, n: p.lax.dynamic_slice(X, (1, 2), (1, 2))), X[1:, 1:])
    close(both(lambda p, n: p.lax.dynamic_update_slice(X, np.zeros((1, 2), np.float32), (0, 9))), np.float32([[3, 0, 0], [6, 5, 4]]))
    close(both(lambda p, n: p.lax.concatenate([X, X], 1)), np.concatenate([X, X], 1))
    close(both(lambda p, n: p.lax.expand_dims(X, (0, 3))), X[None, :, :, None])
    close(both(lambda p, n: p.lax.top_k(v, 2)[0]), np.float32([2.5, 0.5]))
    close(both(lambda p, n: p.grad(lambda x: p.lax.stop_gradient(x) * x)(3.0)), 3.0)
    close(both(lambda p, n: p.lax.fori_loop(0, 3, lambda i, s: s + i, 0)), 3)
    close(both(lambda p, n: p.lax.scan(lambda c, x: (c + x, c), np.zeros(3, np.float32), X, unroll=2)[0]), X.sum(0))


# ---- dtypes, names ----
def test_finfo_and_iinfo():
    for dtype in (np.float16, np.float32, np.float64, "bfloat16", np.complex64):
        info = rnp.finfo(dtype)
        kind = rlx.bfloat16 if dtype == "bfloat16" else np.dtype(np.float32 if dtype is np.complex64 else dtype)
        # eps is the step from 1 to the next number.
        one, step = np.ones((), kind), np.asarray(info.eps).astype(kind)
        assert one + step > one and not one + np.asarray(float(info.eps) / 2).astype(kind) > one and info.bits == 8 * kind.itemsize
    assert rnp.finfo(rnp.ones(2)).max == np.finfo(np.float32).max and rnp.finfo("bf16").bits == 16
    assert rnp.iinfo("int8").max == 127 and rnp.iinfo(np.uint16).max == 65535 and rnp.iinfo(rnp.arange(3)).min == -(2**31)
    for wrong in (lambda: rnp.finfo("int32"), lambda: rnp.iinfo(np.float32), lambda: rnp.iinfo(bool)):
        with pytest.raises(TypeError):
            wrong()


def test_linalg_and_fft_stand_under_numpy_too():
    import rlx.numpy.fft
    import rlx.numpy.linalg
    from rlx.numpy.linalg import norm
    assert rlx.numpy.linalg is rlx.linalg and rlx.numpy.fft is rlx.fft
    close(norm(X), np.linalg.norm(X))
    close(rnp.fft.fft(X), np.fft.fft(X).astype(np.complex64))


# ---- debug.print ----
def printed(call):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        call()
    return out.getvalue().split("\n")[:-1]


def show(p):
    def f(x):
        p.debug.print("x = {} and {name}", x, name="text")
        return x * 2
    return f


def test_prints_of_jitted_functions_come_each_time_they_run():
    x = np.float32(1.5)
    f = rlx.jit(show(rlx))
    assert [printed(lambda: f(x + i)) for i in range(3)] == [[f"x = {1.5 + i} and text"] for i in range(3)]
    assert printed(lambda: show(rlx)(rnp.asarray(x))) == ["x = 1.5 and text"]


@pytest.mark.parametrize("transform", [
    lambda p, f: p.jit(p.grad(f)), lambda p, f: p.grad(f), lambda p, f: p.jit(lambda x: p.vjp(f, x)[0]), lambda p, f: p.jit(lambda x: p.jvp(f, (x,), (x,))),
    lambda p, f: p.jit(p.checkpoint(f)), lambda p, f: p.value_and_grad(f), lambda p, f: p.jit(p.grad(p.checkpoint(f)))])
def test_prints_go_through_transforms(transform):
    lines = printed(lambda: transform(rlx, show(rlx))(np.float32(1.5)))
    assert lines == ["x = 1.5 and text"]


def test_prints_of_examples_and_of_steps():
    x = np.float32([1, 2, 3])
    assert printed(lambda: rlx.jit(rlx.vmap(show(rlx)))(x)) == [f"x = {v} and text" for v in x]
    assert printed(lambda: rlx.vmap(rlx.grad(show(rlx)))(x)) == [f"x = {v} and text" for v in x]

    def step(carry, v):
        rlx.debug.print("{c} {v}", c=carry, v=v)
        return carry + v, None
    assert printed(lambda: rlx.jit(lambda x: rlx.scan(step, np.float32(0), x)[0])(x)) == ["0.0 1.0", "1.0 2.0", "3.0 3.0"]
    assert printed(lambda: rlx.scan(step, np.float32(0), x, reverse=True)) == ["0.0 3.0", "3.0 2.0", "5.0 1.0"]
    nested = rlx.jit(lambda a: rlx.vmap(lambda row: rlx.scan(step, np.float32(0), row)[0])(a))
    assert printed(lambda: nested(np.float32([[1, 2], [3, 4]]))) == ["0.0 1.0", "1.0 2.0", "0.0 3.0", "3.0 4.0"]


def says(text, make):
    def f(x):
        rlx.debug.print(text + " {}", x)
        return make(x)
    return f


@pytest.mark.parametrize("jitted", [True, False])
def test_prints_of_branches_come_from_the_one_that_is_taken(jitted):
    run = rlx.jit if jitted else lambda f: f
    one = run(lambda p, x: rlx.cond(p, says("then", lambda x: x + 1), says("else", lambda x: x * 2), x))
    assert printed(lambda: one(True, np.float32(3))) == ["then 3.0"]
    assert printed(lambda: one(False, np.float32(3))) == ["else 3.0"]
    assert float(one(False, np.float32(3))) == 6
    many = run(lambda i, x: rlx.switch(i, [says(f"branch {n}", lambda x: x) for n in range(5)], x))
    assert [printed(lambda: many(i, np.float32(i))) for i in range(5)] == [[f"branch {i} {float(i)}"] for i in range(5)]
    only = run(lambda p: rlx.cond(p, lambda: rlx.debug.print("only"), lambda: None))
    assert printed(lambda: only(True)) == ["only"] and printed(lambda: only(False)) == []

    def branch(v):
        rlx.scan(lambda c, x: (c + x, rlx.debug.print("step {} {}", c, x)), np.float32(0), v)
        return rlx.cond(v[0] > 1, says("large", lambda v: v), says("small", lambda v: v), v)
    nested = run(lambda p, v: rlx.cond(p, branch, lambda v: v, v))
    assert printed(lambda: nested(True, np.float32([2, 3]))) == ["step 0.0 2.0", "step 2.0 3.0", "large [2. 3.]"]
    assert printed(lambda: nested(True, np.float32([1, 3]))) == ["step 0.0 1.0", "step 1.0 3.0", "small [1. 3.]"]
    assert printed(lambda: nested(False, np.float32([1, 3]))) == []


def test_prints_of_branches_within_loops_and_examples():
    def step(c, x):
        return c + 1, rlx.cond(x > 0, says("up", lambda x: x), says("down", lambda x: -x), x)
    scanned = rlx.jit(lambda v: rlx.scan(step, np.int32(0), v)[1])
    assert printed(lambda: scanned(np.float32([1, -2, 3]))) == ["up 1.0", "down -2.0", "up 3.0"]
    each = rlx.jit(rlx.vmap(lambda x: rlx.cond(x > 0, says("up", lambda x: x), says("down", lambda x: -x), x)))
    assert printed(lambda: each(np.float32([1, -2, 3]))) == ["up 1.0", "down -2.0", "up 3.0"]
    slope = rlx.jit(rlx.grad(lambda x: rlx.cond(x > 0, says("up", lambda x: x * x), says("down", lambda x: -x), x)))
    assert printed(lambda: slope(np.float32(2))) == ["up 2.0"] and float(slope(np.float32(2))) == 4


@pytest.mark.parametrize("jitted", [True, False])
def test_prints_of_a_while_loop_come_with_each_trip(jitted):
    run = rlx.jit if jitted else lambda f: f
    counted = run(lambda n: rlx.while_loop(lambda i: i < n, lambda i: says("trip", lambda i: i + 1)(i), 0))
    assert printed(lambda: counted(3)) == ["trip 0", "trip 1", "trip 2"]
    assert printed(lambda: counted(0)) == []
    unread = run(lambda n: (rlx.while_loop(lambda i: i < n, lambda i: says("unread", lambda i: i + 1)(i), 0), n)[1])
    assert printed(lambda: unread(2)) == ["unread 0", "unread 1"]

    def outer(s):
        i, n = s
        rlx.debug.print("outer {}", i)
        rlx.while_loop(lambda j: j < i, says("inner", lambda j: j + 1), 0)
        rlx.cond(i % 2 == 0, lambda: rlx.debug.print("even"), lambda: None)
        rlx.debug.print("end {name}", name=i)
        return i + 1, n
    nested = run(lambda n: rlx.while_loop(lambda s: s[0] < s[1], outer, (0, n)))
    assert printed(lambda: nested(3)) == ["outer 0", "even", "end 0", "outer 1", "inner 0", "end 1",
                                          "outer 2", "inner 0", "inner 1", "even", "end 2"]
    within = run(lambda p, n: rlx.cond(p, lambda n: rlx.while_loop(lambda i: i < n, says("in", lambda i: i + 1), 0), lambda n: n, n))
    assert printed(lambda: within(True, 2)) == ["in 0", "in 1"] and printed(lambda: within(False, 2)) == []
    scanned = run(lambda v: rlx.scan(lambda c, n: (c, rlx.while_loop(lambda i: i < n, says("in", lambda i: i + 1), 0)), 0, v)[1])
    assert printed(lambda: scanned(np.int32([1, 2]))) == ["in 0", "in 0", "in 1"]
    slope = run(rlx.grad(lambda x: rlx.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, says("x", lambda x: x * x)(s[1])), (0, x), max_trips=4)[1]))
    lines = printed(lambda: slope(np.float32(2)))
    assert lines[:2] == ["x 2.0", "x 4.0"] and float(slope(np.float32(2))) == 32


def test_equal_prints_of_while_loops_are_one_op():
    from rlx import _custom_op

    def call():
        rlx.while_loop(lambda i: i < 1, says("once", lambda i: i + 1), 0)
    printed(call)
    before = len(_custom_op._callbacks)
    assert [printed(call) for _ in range(3)] == [["once 0"]] * 3
    assert len(_custom_op._callbacks) == before


def test_prints_that_cannot_be_are_refused():
    with pytest.raises(NotImplementedError, match="debug.print stands in a function that the condition of while_loop traces"):
        rlx.while_loop(lambda x: (rlx.debug.print("{}", x), x < 0)[1], lambda x: x, 1.0)
    with pytest.raises(TypeError, match="takes a text"):
        rlx.debug.print(1.0)


# ---- functions called at once ----
def test_what_is_called_at_once_is_kept_by_types_and_not_by_values():
    x = rnp.asarray(np.float32([1, 2, 3]))
    for _ in range(2):
        for number in (2, 2.0, -0.0, 0.5, 3):
            for f in (operator.add, operator.mul, operator.truediv, operator.mod, operator.gt, operator.eq, operator.floordiv):
                with np.errstate(all="ignore"):
                    close(f(x, number), f(np.asarray(x), np.float32(number)))
                    close(f(number, x), f(np.float32(number), np.asarray(x)))
        assert np.signbit(np.asarray(x * 0.0 * -0.0)).all()
    i = rnp.asarray(np.int32([1, 2, 3]))
    for _ in range(2):
        assert (i + 1).dtype == np.int32 and (i + 1.5).dtype == np.float32 and (i < 2**40).tolist() == [True] * 3
        with pytest.raises(OverflowError):
            i + 2**40
        close(i / 2, np.float32([0.5, 1, 1.5]))
        assert (rnp.asarray(np.uint8([250])) + 10).tolist() == [4]


def test_elements_of_other_layouts_are_read_in_their_order():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    for other in (a.T, a[:, ::2], a[::-1], np.broadcast_to(a[0], (4, 3)), a[:0], np.asfortranarray(a)):
        x = rnp.asarray(other)
        close(x + x, other + other)
        close(rnp.sin(x), np.sin(other))
        close(rlx.jit(lambda v: v + 1)(other), other + 1)
        close(rlx.jit(lambda v: v + 1)(x), other + 1)


def test_arrays_in_the_other_byte_order():
    big = np.arange(3, dtype=">f4")
    f = rlx.jit(lambda x: x + 1)
    for _ in range(2):
        close(f(big), np.float32([1, 2, 3]))
        close(f(np.arange(3, dtype=">i4")), np.int32([1, 2, 3]))


def test_a_value_of_a_trace_that_has_ended_is_refused_by_what_was_compiled():
    kept = []
    rnp.ones(3) + rnp.ones(3), rnp.sin(rnp.ones(3)), rnp.ones(3) + 1.0, rnp.sum(rnp.ones(3))
    rlx.jit(lambda x: kept.append(x) or x)(np.ones(3, np.float32))
    for call in (lambda: kept[0] + kept[0], lambda: rnp.sin(kept[0]), lambda: kept[0] + 1.0, lambda: rnp.sum(kept[0]), lambda: 2.0 * kept[0]):
        with pytest.raises(rlx.TracedValueError):
            call()


def test_several_threads_call_at_once():
    code = """
import threading, numpy as np, rlx.numpy as rnp
bad = []
def work(k):
    x = rnp.asarray(np.full(50, k, np.float32))
    for i in range(300):
        y = rnp.sin(x) * 2 + float(i)
        if not np.allclose(y, np.sin(np.float32(k)) * 2 + i, rtol=1e-6): bad.append((k, i))
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not bad, bad[:3]
"""
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(rlx.__file__).parents[1]))
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_arrays_are_pickled_and_copied_by_their_elements():
    """Not by where those lie, which is kept for calls."""
    import copy
    x = rnp.asarray(np.arange(4, dtype=np.float32))
    x + x
    for again in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), copy.deepcopy({"a": x})["a"]):
        close(again + again, np.float32([0, 2, 4, 6]))
    code = "import pickle, sys, numpy as np; x = pickle.loads(sys.stdin.buffer.read()); assert np.array_equal(np.asarray(x + x), [0, 2, 4, 6])"
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(rlx.__file__).parents[1]))
    subprocess.run([sys.executable, "-c", code], env=environment, input=pickle.dumps(x), check=True)
    kept = []
    rlx.jit(lambda v: kept.append(v) or v)(x)
    with pytest.raises(rlx.TracedValueError):
        pickle.dumps(kept[0])
