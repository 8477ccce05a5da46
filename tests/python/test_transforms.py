"""jit, derivatives, vmap and control flow: against formulas, finite differences and NumPy loops."""

import functools
import re

import numpy as np
import pytest
from conftest import close

import rlx
import rlx.numpy as rnp
from rlx import ops


def numeric(f, x, h=1e-6):
    """Central differences of a scalar function of a float64 array."""
    x = np.asarray(x, np.float64)
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        g[i] = (float(f(up)) - float(f(down))) / (2 * h)
    return g


FUNCTIONS = [
    lambda x: rnp.sum(rnp.tanh(x) ** 2), lambda x: rnp.mean(rnp.exp(x) * x), lambda x: rnp.prod(x + 3.0),
    lambda x: rnp.max(x * 2), lambda x: rnp.var(x), lambda x: rnp.sum(rlx.nn.softmax(x, axis=0) * x), lambda x: rnp.sum(x @ x.T),
    lambda x: rnp.sum(rnp.sort(x, axis=-1)[:, 1:] * 3), lambda x: rnp.sum(rnp.asarray(x)[[0, 2, 0]] ** 2), lambda x: rnp.sum(rnp.asarray(x).at[1].multiply(2.0) ** 3),
    lambda x: rnp.sum(rnp.cumsum(x, axis=1) ** 2), lambda x: rlx.nn.logsumexp(x), lambda x: rnp.sum(rnp.where(x > 0, x, x * x)),
    lambda x: rnp.sum(rnp.einsum("ij,kj->ik", x, x) ** 2), lambda x: rnp.sum(rnp.pad(x, 1, mode="reflect") ** 2),
    lambda x: rnp.sum(rnp.linspace(x[0, 0], 1.0, 4) ** 2), lambda x: rnp.quantile(x, 0.3), lambda x: rnp.sum(rnp.hypot(x, 2.0)),
]


@pytest.mark.parametrize("i", range(len(FUNCTIONS)))
def test_grad_is_the_gradient(i, rng):
    x = rng.normal(size=(3, 4))
    f = FUNCTIONS[i]
    close(rlx.grad(f)(x), numeric(f, x), 1e-5)
    close(rlx.jit(rlx.grad(f))(x), rlx.grad(f)(x))
    close(rlx.jvp(f, (x,), (np.ones_like(x),))[1], np.sum(numeric(f, x)), 1e-5)


def test_trees_argnums_and_aux(rng):
    params = {"w": rng.normal(size=(3, 2)), "b": [np.zeros(2), None]}
    x = rng.normal(size=(5, 3))

    def loss(p, x):
        y = x @ p["w"] + p["b"][0]
        return rnp.sum(y ** 2), {"y": y}

    (value, aux), grads = rlx.value_and_grad(loss, has_aux=True)(params, x)
    close(value, np.sum((x @ params["w"]) ** 2))
    close(aux["y"], x @ params["w"])
    close(grads, {"w": 2 * x.T @ (x @ params["w"]), "b": [2 * np.sum(x @ params["w"], 0), None]})
    gw, gx = rlx.grad(lambda p, x: loss(p, x)[0], argnums=(0, 1))(params, x)
    close(gx, 2 * (x @ params["w"]) @ params["w"].T)


def test_second_order(rng):
    v = rng.normal(size=4)
    f = lambda x: rnp.sum(rnp.sin(x) * x[0])
    h = rlx.hessian(f)(v)
    close(h, np.array([[(numeric(lambda y, i=i: rlx.grad(f)(y)[i], v))[j] for j in range(4)] for i in range(4)]), 1e-5)
    d = rng.normal(size=4)
    grad, product = rlx.hvp(f, (v,), (d,))
    close(product[0], np.asarray(h) @ d)
    close(rlx.grad(lambda x: rlx.grad(f)(x) @ d)(v), np.asarray(h) @ d)
    close(rlx.jacfwd(lambda x: x ** 2)(v), np.diag(2 * v))
    close(rlx.jacrev(lambda x: x[:2] * 3)(v), 3 * np.eye(4)[:2])


def test_vjp_and_jvp_of_several_results(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=3)
    f = lambda a, b: (a * b, rnp.sum(a))
    out, pullback = rlx.vjp(f, a, b)
    close(out, (a * b, a.sum()))
    ga, gb = pullback((np.ones((2, 3)), 2.0))
    close((ga, gb), (np.broadcast_to(b, (2, 3)) + 2, a.sum(0)))
    with pytest.raises(rlx.Error, match="cotangent"):
        pullback((np.ones((2, 4)), 2.0))


def test_a_traced_value_and_its_pullback_run_the_function_once(rng):
    step = lambda carry, x: (rnp.tanh(carry * 0.5 + x), carry * x)
    functions = {
        "scan": (lambda x: rlx.scan(step, x[0], x)[1], [rng.normal(size=(5, 3)).astype(np.float32)], 2),  # and one back
        "lstm_layer": (lambda x, w: ops.lstm(x, w, w, w[:8], hidden_size=2)[0],
                       [rng.normal(size=dims).astype(np.float32) for dims in ((2, 3, 2), (16,))], 1),
    }
    for op, (f, args, count) in functions.items():
        def both(*args):
            value, pullback = rlx.vjp(f, *args)
            return value, pullback(rnp.ones_like(value))

        compiled = rlx.jit(both)
        value, cts = compiled(*args)
        alone, pullback = rlx.vjp(f, *args)
        close((value, cts), (alone, pullback(np.ones(alone.shape, np.float32))))
        found = [node["op"] for node in compiled.report()["nodes"]]
        assert found.count(op) == count, found
        assert "lstm" not in found


@pytest.mark.parametrize("in_axes,out_axes", [(0, 0), (1, 0), (-1, 1), ((0, None), 0), ((None, 1), 1)])
def test_vmap_is_a_loop(in_axes, out_axes, rng):
    both = (in_axes, in_axes) if isinstance(in_axes, int) else in_axes
    f = lambda a, b: rnp.outer(a, b) + a[0]
    a, b = rng.normal(size=3), rng.normal(size=2)
    n = 4
    stack = lambda x, axis: x if axis is None else np.stack([x + k for k in range(n)], axis)
    lane = lambda x, axis, k: x if axis is None else x + k
    wanted = np.stack([np.asarray(f(lane(a, both[0], k), lane(b, both[1], k))) for k in range(n)], out_axes)
    close(rlx.vmap(f, in_axes, out_axes)(stack(a, both[0]), stack(b, both[1])), wanted)


def test_vmap_nests_with_grad_and_itself(rng):
    w, x = rng.normal(size=3), rng.normal(size=(5, 3))
    f = lambda w, x: rnp.tanh(w @ x)
    close(rlx.vmap(rlx.grad(f), (None, 0))(w, x), np.stack([np.asarray(rlx.grad(f)(w, r)) for r in x]))
    close(rlx.vmap(rlx.vmap(lambda a, b: a * b, (None, 0)), (0, None))(w, x[0]), np.outer(w, x[0]))
    close(rlx.jit(rlx.vmap(lambda r: rlx.scan(lambda c, s: (c + s, c), 0.0 * r[0], r)[1]))(x), np.cumsum(x, 1) - x)


def test_control_flow(rng):
    x = rng.normal(size=(6, 2))
    carry, ys = rlx.scan(lambda c, row: (c * 0.5 + row, c.sum()), np.zeros(2), x)
    c, wanted = np.zeros(2), []
    for row in x:
        wanted.append(c.sum())
        c = c * 0.5 + row
    close((carry, ys), (c, np.array(wanted)))
    close(rlx.scan(lambda c, row: (c + row, c), np.zeros(2), x, reverse=True)[1], np.cumsum(x[::-1], 0)[::-1] - x)
    close(rlx.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * 2, s[1] + 1), (np.float32(3), 0)), (np.float32(192), np.int32(6)))
    close(rlx.fori_loop(0, 5, lambda i, v: v + i, 10.0), np.float32(20))
    close(rlx.map(lambda r: r * 2, x), x * 2)
    f = lambda p, v: rlx.cond(p, lambda a: a * 2, lambda a: a - float(x[0, 0]), v)
    close([f(True, 3.0), f(False, 3.0)], [np.float32(6), np.float32(3 - x[0, 0])])


@pytest.mark.parametrize("checkpoint", [None, "sqrt", "recursive", 3])
def test_gradients_go_through_scans(checkpoint, rng):
    x, w = rng.normal(size=(10, 3)), rng.normal(size=(3, 3)) * 0.5
    def run(w):
        return rnp.sum(rlx.scan(lambda h, r: (rnp.tanh(h @ w + r), None), np.zeros(3), x, checkpoint=checkpoint)[0] ** 2)
    close(rlx.grad(run)(w), numeric(run, w), 1e-5)
    close(rlx.jit(rlx.grad(run))(w), rlx.grad(run)(w))


def test_gradients_go_through_bounded_loops_and_branches():
    f = lambda v: rlx.while_loop(lambda s: s < 10.0, lambda s: s * s, v, max_trips=5)
    close(rlx.grad(f)(np.float64(1.5)), 8 * 1.5 ** 7)
    with pytest.raises(rlx.Error, match="max_trips"):
        rlx.grad(lambda v: rlx.while_loop(lambda s: s < 10.0, lambda s: s * s, v))(np.float64(1.5))
    g = lambda v: rlx.cond(v > 0, lambda a: a ** 2, lambda a: 1.0 / a, v)
    close([rlx.grad(g)(2.0), rlx.grad(g)(-2.0)], [4.0, -0.25], dtype=False)


def test_captured_values_have_gradients(rng):
    x = rng.normal(size=(4,))
    f = lambda s: rnp.sum(rlx.scan(lambda c, v: (c + v * s, None), 0.0 * s, x)[0])
    close(rlx.grad(f)(2.0), x.sum(), 1e-5, dtype=False)
    close(rlx.grad(lambda s: rnp.sum(rlx.vmap(lambda v: v * s)(x)))(2.0), x.sum(), 1e-5, dtype=False)
    close(rlx.grad(lambda s: rlx.grad(lambda t: t * t * s)(3.0))(2.0), 6.0, dtype=False)


def test_functions_with_derivatives_of_their_own():
    @rlx.custom_vjp
    def clipped(x, lo):
        return x * 1.0
    clipped.defvjp(lambda x, lo: (x * 1.0, lo), lambda lo, ct: (rnp.clip(ct, lo, 1.0), None))
    close(rlx.grad(lambda x: clipped(x, -1.0) * 5)(2.0), np.float32(1))
    close(rlx.vmap(rlx.grad(lambda x: clipped(x, -1.0) * 5))(np.ones(3, "f4")), np.ones(3, "f4"))

    @rlx.custom_jvp
    def log1pexp(x):
        return rnp.log1p(rnp.exp(x))
    @log1pexp.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return log1pexp(x), t * rlx.nn.sigmoid(x)
    close(rlx.grad(log1pexp)(100.0), np.float32(1))
    close(rlx.jvp(log1pexp, (1.0,), (2.0,))[1], np.float32(2 / (1 + np.exp(-1))))


def test_stop_gradient_and_checkpoint():
    close(rlx.grad(lambda x: rlx.stop_gradient(x) * x)(3.0), np.float32(3))
    f = lambda x: rnp.sum(rnp.sin(x @ x))
    x = np.random.default_rng(0).normal(size=(3, 3))
    close(rlx.grad(rlx.checkpoint(f))(x), rlx.grad(f)(x))
    assert "optimization_barrier" in rlx.jit(rlx.grad(rlx.checkpoint(f))).lower(x).as_text()


def test_jit_compiles_once_for_each_set_of_types():
    calls = []
    @rlx.jit
    def f(x, scale=2.0):
        calls.append(1)
        return {"y": x * scale}
    close(f(np.ones(3, "f4")), {"y": np.full(3, 2, "f4")})
    f(np.zeros(3, "f4"))
    assert len(calls) == 1
    f(np.zeros(4, "f4"))
    f(np.zeros(3, "f8"))
    assert len(calls) == 3
    g = rlx.jit(lambda x, n: x * n, static_argnums=1)
    close(g(np.ones(2, "f4"), 3), np.full(2, 3, "f4"))


def test_lower_shows_the_graph_and_where_it_runs(tmp_path):
    lowered = rlx.jit(lambda x: rnp.tanh(x) @ x).lower(rlx.ShapeDtype((3, 3), "f4"))
    assert "tanh(%0)" in lowered.as_text() and "matmul" in lowered.as_text()
    assert lowered.report()
    lowered.save(tmp_path / "f.rlx")
    assert rlx.Graph.load(tmp_path / "f.rlx").count(0) == 1


def test_symbolic_dims_run_at_every_size():
    lowered = rlx.jit(lambda x: rnp.sum(rnp.tanh(x), axis=1)).lower(rlx.ShapeDtype(("N", 4), "f4"))
    compiled = lowered.compile()
    for n in (1, 5, 0):
        x = np.random.default_rng(n).normal(size=(n, 4)).astype("f4")
        close(compiled.call([x]), [np.tanh(x).sum(1)])


@pytest.mark.parametrize("call,message", [
    (lambda: rlx.grad(lambda x: x)(np.ones(3)), "float scalar"),
    (lambda: rlx.grad(lambda x: x * 1.0)(np.int32(3)), "only floats and complex"),
    (lambda: rlx.jit(lambda x: float(x))(1.0), "no elements until the graph runs"),
    (lambda: rlx.cond(True, lambda: rnp.ones(2), lambda: rnp.ones(3)), "branches differ"),
    (lambda: rlx.scan(lambda c, x: (rnp.ones(3), x), 0.0, np.ones(4)), "carry was"),
    (lambda: rlx.vmap(lambda a, b: a)(np.ones(3), np.ones(4)), "one batch size"),
    (lambda: rlx.ops.matmul(np.ones((2, 3)), np.ones((2, 3))), "inner dimensions differ"),
    (lambda: rlx.grad(lambda x: rnp.sum(rlx.ops.bitcast(x, dtype="f32")))(np.ones(3, "f4")), "'bitcast' has no gradient"),
])
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises((rlx.Error, TypeError), match=message):
        call()


KEPT = []


@pytest.mark.parametrize("call,asked,instead", [
    (lambda: rlx.jit(lambda x: float(x))(1.0), r"float\(\) was asked for", "static_argnums"),
    (lambda: rlx.jit(lambda x: int(x))(1.0), r"int\(\) was asked for", "rank 0"),
    (lambda: rlx.jit(lambda x: x if x > 0 else -x)(1.0), "its truth was asked for", r"rlx\.cond"),
    (lambda: rlx.grad(lambda x: x if x > 0 and x < 2 else -x)(1.0), "its truth was asked for", r"rlx\.numpy\.where"),
    (lambda: rlx.jit(lambda x: np.sin(x))(np.ones(3)), "a NumPy array was asked for", "rlx.numpy instead of that of numpy"),
    (lambda: rlx.vmap(lambda x: np.asarray(x))(np.ones(3)), "a NumPy array was asked for", "return the value"),
    (lambda: rlx.jit(lambda x: [0 for _ in range(x)])(3), "a Python index was asked for", "fori_loop"),
    (lambda: rlx.jit(lambda n: rnp.ones(n))(3), "a Python index was asked for", "static"),
    (lambda: rlx.jit(lambda x: x.tolist())(1.0), "its elements were asked for", "Return it"),
    (lambda: (rlx.jit(lambda x: KEPT.append(x) or x)(1.0), KEPT[0] + 1), "a trace that has ended", "exists only in what it returns"),
    (lambda: (rlx.jit(lambda x: KEPT.append(x) or x)(1.0), rlx.jit(lambda y: y * KEPT[0])(1.0)), "a trace that has ended", "returns"),
])
def test_what_tracing_forbids_is_explained(call, asked, instead):
    with pytest.raises(rlx.TracedValueError, match=asked) as caught:
        call()
    text = str(caught.value)
    assert re.search(instead, text) and re.search(r"\n  at .*test_transforms\.py:\d+$", text), text
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, rlx.Error)


@pytest.mark.parametrize("call,message", [
    (lambda: rlx.jit(lambda x: "text")(1.0), r"the result of '.*' is a str, 'text', which is no array"),
    (lambda: rlx.jit(lambda x, mode: x)(1.0, "fast"), r"args\[1\] is a str, 'fast'.*static_argnums"),
    (lambda: rlx.jit(lambda x, mode: x)(1.0, mode={"a": object()}), r"kwargs\['mode'\]\['a'\] is a object"),
    (lambda: rlx.jit(lambda x, n: x, static_argnums=1)(1.0, [1]), r"is a list, '\[1\]', which is not hashable"),
    (lambda: rlx.jit(lambda x: x, static_argnums=1)(1.0), r"static_argnums names argument 1, and '.*' has 1"),
    (lambda: rlx.grad(lambda a: a.sum(), argnums=2)(np.ones(3)), "argnums names argument 2, the call has 1"),
    (lambda: rlx.grad(lambda a: None)(np.ones(3)), "returned nothing"),
    (lambda: rlx.jvp(rnp.sum, np.ones(3), np.ones(3)), r"write jvp\(f, \(x,\), \(t,\)\)"),
    (lambda: rlx.jvp(lambda p: p["a"], ({"a": np.ones(3)},), (np.ones(3),)), r"\(\{'a': \*\},\), the tangents \(\*,\)"),
    (lambda: rlx.jvp(rnp.sum, (np.ones(3),), (np.ones(4),)), r"a tangent of f64\[3\] has the shape \(4,\)"),
    (lambda: rlx.vjp(lambda a: (a, a), np.ones(3, "f4"))[1](np.ones(3, "f4")), r"the structure \*, the result \(\*, \*\)"),
    (lambda: rlx.vmap(lambda a, b: a)(np.ones(3), np.ones(4)), r"f64\[3\] along 0, f64\[4\] along 0"),
    (lambda: rlx.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": np.ones(3)}), r"in_axes \{'b': 0\} does not fit"),
    (lambda: rnp.asarray("abc"), "an array is needed, got str: 'abc'"),
    (lambda: rnp.asarray(np.array(["2020-01-01"], "M8[D]")), "datetime64"),
])
def test_wrong_trees_and_dtypes_name_what_and_where(call, message):
    with pytest.raises((rlx.Error, TypeError), match=message) as caught:
        call()
    assert re.search(r"\n  at .*test_transforms\.py:\d+$", str(caught.value)), str(caught.value)


def test_operators_leave_what_is_no_array_to_python():
    a = rnp.ones(3)
    assert (a == None) is False and (a != "x") is True  # noqa: E711
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Array' and 'NoneType'"):
        a + None

    class Own:
        def __radd__(self, other):
            return "own"

    assert a + Own() == "own"
    assert 1.0 in a and 2.0 not in a
    close(divmod(rnp.asarray([5.0, 7.0]), 2), (np.array([2.0, 3.0]), np.array([1.0, 1.0])))


def test_jitted_methods_and_keys_of_several_kinds():
    class Model:
        def __init__(self, k):
            self.k = k

        @functools.partial(rlx.jit, static_argnums=0)
        def scaled(self, x):
            return x * self.k

    close(Model(2.0).scaled(np.ones(2)), np.full(2, 2.0))
    close(Model(3.0).scaled(np.ones(2)), np.full(2, 3.0))
    close(rlx.jit(lambda d: d[1] - d["a"])({"a": np.ones(2), 1: np.zeros(2)}), -np.ones(2))


def test_threads_trace_and_run_for_themselves():
    import threading
    x, results = np.arange(6, dtype=np.float32).reshape(2, 3), {}

    def work(n):
        for i in range(5):
            f = rlx.jit(lambda a: rnp.sum(rnp.tanh(a) * (n + i)) + rlx.scan(lambda c, r: (c + r.sum(), None), 0.0 * a[0, 0], a)[0])
            results[n, i] = float(f(x)), np.asarray(rlx.grad(f)(x))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 20
    for (n, i), (value, gradient) in results.items():
        close(np.float32(value), np.float32(np.tanh(x).sum() * (n + i) + x.sum()))
        close(gradient, (1 - np.tanh(x) ** 2) * (n + i) + 1)


def test_an_error_names_the_line_of_the_user():
    with pytest.raises(rlx.Error, match=r"test_transforms\.py:\d+"):
        rlx.ops.matmul(np.ones((2, 3)), np.ones((2, 3)))


def test_a_value_that_left_its_trace_is_refused():
    kept = []
    rlx.jit(lambda x: kept.append(x) or x * 2)(1.0)
    with pytest.raises((TypeError, rlx.Error)):
        kept[0] + 1


def test_dlpack_goes_both_ways():
    x = np.arange(6, dtype="f4").reshape(2, 3)
    a = rnp.asarray(x)
    assert np.array_equal(np.from_dlpack(a * 1.0), x)
