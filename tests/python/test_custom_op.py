"""Ops of the user's, written in Python: each is held to its NumPy reference by `check`, under every transform; and what goes wrong is
said with the rule's name.
"""

import gc
import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

rng = np.random.default_rng(7)


def f32(*shape):
    return rng.normal(size=shape).astype(np.float32)


OPS = {}


def op(*samples, **options):
    """Decorates the reference of an op that is tested on these (operands, attributes)."""

    def made(f):
        custom = rlx.custom_op(f, **options)
        OPS[custom.name] = (custom, samples)
        return custom

    return made


@op(((f32(3, 5),), {"limit": 0.5}), ((f32(7),), {}), ((f32(2, 0),), {}), ((f32(4, 4).astype("f8"),), {"limit": 2.0}))
def my_clip_norm(x, *, limit=1.0):
    """The rows of x, each scaled down until its norm is at most `limit`."""
    norm = np.sqrt(np.sum(x * x, -1, keepdims=True))
    return (x * (limit / np.maximum(norm, x.dtype.type(limit)))).astype(x.dtype)


@my_clip_norm.decomposition
def _(x, *, limit):
    return x * (limit / rnp.maximum(rnp.sqrt(rnp.sum(x * x, -1, keepdims=True)), limit))


@op(((f32(4, 6),), {}), ((np.float32(0.5),), {"beta": 3.0}), elementwise=True)
def my_swish(x, *, beta=1.0):
    return (x / (1 + np.exp(-x.dtype.type(beta) * x))).astype(x.dtype)


@my_swish.shape_rule
def _(x, *, beta):
    return x


@my_swish.gradient
def _(operands, results, cotangents, *, beta):
    x, y = operands[0], results[0]
    s = 1 / (1 + rnp.exp(-beta * x))
    return cotangents[0] * (s + beta * y * (1 - s))


@op(((f32(3, 4), f32(3, 4)), {}), elementwise=True)
def my_hypot(a, b):
    return np.hypot(a, b)


@my_hypot.decomposition
def _(a, b):
    return rnp.sqrt(a * a + b * b)


@my_hypot.kernel(dtypes="float32")
def _(a, b):
    return np.hypot(a, b)


@op(((f32(3, 4),), {}), ((f32(9),), {}))
def my_running_max(x):
    return np.maximum.accumulate(x, -1)


@my_running_max.shape_rule
def _(x):
    return x


@op(((f32(5),), {"coefficients": (1.0, -2.0, 0.5)}), ((f32(2, 3),), {}))
def my_polynomial(x, *, coefficients=(0.0, 1.0)):
    return sum(x.dtype.type(c) * x ** n for n, c in enumerate(coefficients)) + np.zeros_like(x)


@my_polynomial.decomposition
def _(x, *, coefficients):
    return sum((c * x ** n for n, c in enumerate(coefficients)), rnp.zeros_like(x))


@op(((f32(3, 4),), {}), ((f32(5),), {"levels": 8}), differentiable=False)
def my_levels(x, *, levels=4):
    return np.clip(np.floor(x * levels), -128, 127).astype(np.int8)


@my_levels.shape_rule
def _(x, *, levels):
    if levels < 1:
        raise ValueError(f"levels is {levels}, and at least 1")
    return rlx.ShapeDtypeStruct(x.shape, np.int8)


@op(((f32(4, 3), np.array([2, 0, 1, 2])), {}))
def my_pick(x, index):
    """One element of each row."""
    return np.take_along_axis(x, index[:, None].astype(np.int64), 1)[:, 0]


@my_pick.shape_rule
def _(x, index):
    return rlx.ShapeDtypeStruct(x.shape[:1], x.dtype)


@my_pick.gradient
def _(operands, results, cotangents):
    x, index = operands
    return cotangents[0][:, None] * rnp.equal(rnp.arange(x.shape[1])[None, :], index[:, None]).astype(x.dtype), None


@op(((f32(6), f32(6)), {}))
def my_polar(x, y):
    """Two results."""
    return np.hypot(x, y), np.arctan2(y, x)


@my_polar.decomposition
def _(x, y):
    return rnp.hypot(x, y), rnp.arctan2(y, x)


@op(((f32(3), f32(3), f32(3)), {}), ((f32(2, 2),), {}))
def my_total(*xs):
    return sum(xs[1:], xs[0].copy())


@my_total.decomposition
def _(*xs):
    return sum(xs[1:], xs[0])


@op(((f32(2, 3), f32(4, 3), f32(4)), {}), ((f32(2, 3), f32(4, 3)), {}))
def my_linear(x, w, bias=None):
    return x @ w.T + (0 if bias is None else bias)


@my_linear.decomposition
def _(x, w, bias=None):
    return x @ w.T if bias is None else x @ w.T + bias


@op((((f32(5) + 1j * f32(5)).astype(np.complex64),), {}))
def my_modulus(z):
    return np.abs(z)


@my_modulus.decomposition
def _(z):
    return rnp.abs(z)


@op(((np.array([True, False, True]), np.array([True, True, False])), {}), elementwise=True)
def my_implies(a, b):
    return ~a | b


@my_implies.shape_rule
def _(a, b):
    return a


@op(((f32(4, 5),), {"axes": (1, 0)}), ((f32(2, 3, 4),), {"axes": (2, 0, 1)}))
def my_permuted(x, *, axes=(0,)):
    return np.transpose(x, axes)


@my_permuted.decomposition
def _(x, *, axes):
    return rnp.transpose(x, axes)


@op(((f32(3, 4),), {"kind": "max"}), ((f32(3, 4),), {}))
def my_pool(x, *, kind: str = "mean"):
    return x.max(-1) if kind == "max" else x.mean(-1, dtype=np.float64).astype(x.dtype)


@my_pool.decomposition
def _(x, *, kind):
    return rnp.max(x, -1) if kind == "max" else rnp.mean(x, -1)


@op(((f32(3, 4).astype(np.float16),), {}))
def my_double(x):
    return x + x


@my_double.decomposition
def _(x):
    return x * 2


@op(((f32(8),), {"keep_sign": True}), ((f32(8),), {}))
def my_soft_log(x, *, keep_sign: bool = False):
    y = np.log1p(np.abs(x))
    return (np.sign(x) * y if keep_sign else y).astype(x.dtype)


@my_soft_log.decomposition
def _(x, *, keep_sign):
    y = rnp.log1p(rnp.abs(x))
    return rnp.sign(x) * y if keep_sign else y


@op(((f32(2, 6),), {"window": 3}), ((f32(5),), {}))
def my_moving_mean(x, *, window=2):
    return np.stack([x[..., i:i + window].mean(-1) for i in range(x.shape[-1] - window + 1)], -1).astype(x.dtype)


@my_moving_mean.shape_rule
def _(x, *, window):
    return rlx.ShapeDtypeStruct((*x.shape[:-1], x.shape[-1] - window + 1), x.dtype)


@my_moving_mean.gradient
def _(operands, results, cotangents, *, window):
    n = operands[0].shape[-1]
    ct = cotangents[0] / window
    zeros = lambda k: rnp.zeros((*ct.shape[:-1], k), ct.dtype)
    return sum(rnp.concatenate([zeros(i), ct, zeros(n - ct.shape[-1] - i)], -1) for i in range(window))


@op(((np.arange(6, dtype=np.uint8).reshape(2, 3),), {}))
def my_bits(x):
    return np.array([bin(int(v)).count("1") for v in x.ravel()], np.int32).reshape(x.shape)


@my_bits.shape_rule
def _(x):
    return rlx.ShapeDtypeStruct(x.shape, np.int32)


@op(((f32(3, 3),), {}))
def my_trace(x):
    return np.trace(x)


@my_trace.decomposition
def _(x):
    return rnp.trace(x)


@op(((f32(4), np.array(2, np.int32)), {}))
def my_rolled(x, shift):
    return np.roll(x, int(shift))


@my_rolled.shape_rule
def _(x, shift):
    return x


@op(((f32(6),), {"scales": (0.5, 2.0)}), ((f32(6),), {}))
def my_wavelet(x, *, scales: "tuple[float, ...]" = ()):
    return np.stack([np.exp(-(x * x.dtype.type(s)) ** 2) for s in (*scales, 1.0)]).astype(x.dtype)


@my_wavelet.decomposition
def _(x, *, scales):
    return rnp.stack([rnp.exp(-(x * s) ** 2) for s in (*scales, 1.0)])


@pytest.mark.parametrize("name", OPS)
def test_every_rule_agrees_with_the_reference(name):
    custom, samples = OPS[name]
    done = set()
    for operands, attributes in samples:
        done.update(custom.check(*operands, **attributes))
    assert {"reference", "shape rule", "jit", "vmap", "text"} <= done
    if "gradient" in done:
        assert {"jvp", "gradient of the gradient"} <= done
    others = {d for d in rlx.devices() if d != "cpu"}
    takes_all = "decomposition" in custom._rules
    assert not takes_all or others <= done
    for kind, said in (("decomposition", "decomposition"), ("kernel", "kernel"), ("gradient", "gradient")):
        assert kind not in custom._rules or said in done


def broken(name, **rules):
    """my_clip_norm with other rules."""
    made = rlx.custom_op(rules.pop("reference", lambda x: x * x), name=name)
    made.decomposition(rules.pop("decomposition", lambda x: x * x))
    for kind, f in rules.items():
        getattr(made, kind)(f)
    return made


@pytest.mark.parametrize(("law", "rules"), [
    ("shape rule", {"shape_rule": lambda x: rlx.ShapeDtypeStruct((*x.shape, 1), x.dtype), "decomposition": lambda x: (x * x)[..., None]}),
    ("kernel", {"kernel": lambda x: x * x * np.float32(1.001)}),
    ("run", {"decomposition": lambda x: x * x * 1.001}),
    ("decomposition of float64", {"decomposition": lambda x: x * x * (1 + 1e-7)}),
    ("symbols", {"decomposition": lambda x: x * x * (1.01 if isinstance(x.shape[0], str) else 1.0)}),
    ("gradient", {"gradient": lambda operands, results, cotangents: 2.01 * operands[0] * cotangents[0]}),
])
def test_a_rule_that_is_wrong_breaks_its_law(law, rules):
    op = broken("my_planted", **rules)
    with pytest.raises(AssertionError, match=f"^{law}"):
        op.check(np.array([1.5, -2.0, 0.5], np.float32))


def test_a_gradient_is_held_for_each_cotangent_alone():
    two = fresh(lambda x: (x * 2, x * 3), "my_two")
    two.decomposition(lambda x: (x * 2, x * 3))
    two.gradient(lambda operands, results, cotangents: 2 * cotangents[0] + 3 * cotangents[1])
    assert "gradient" in two.check(f32(4))
    # Right where both cotangents are alike, as those of a sum are.
    two.gradient(lambda operands, results, cotangents: 3 * cotangents[0] + 2 * cotangents[1])
    with pytest.raises(AssertionError, match="^gradient"):
        two.check(f32(4))


def test_the_program_lists_and_judges_ops_of_a_python_file(tmp_path):
    file = tmp_path / "my_ops.py"
    file.write_text("""
import numpy as np, rlx, rlx.numpy as rnp

@rlx.custom_op(samples=["f32[3, 5]", "f32[4] {limit = 0.5} in [-3, 3]"])
def listed_clip(x, *, limit=1.0):
    "The rows of x, each scaled down until its norm is at most `limit`."
    norm = np.sqrt(np.sum(x * x, -1, keepdims=True))
    return (x * (limit / np.maximum(norm, x.dtype.type(limit)))).astype(x.dtype)

@listed_clip.decomposition
def _(x, *, limit):
    return x * (limit / rnp.maximum(rnp.sqrt(rnp.sum(x * x, -1, keepdims=True)), limit))

@rlx.custom_op(samples="f64[3]")
def listed_wrong(x):
    return x + 1

@listed_wrong.decomposition
def _(x):
    return x + 1.25
""")
    here = {**os.environ, "PYTHONPATH": str(pathlib.Path(rlx.__file__).parents[1])}
    run = lambda *words: subprocess.run([sys.executable, "-m", "rlx", "--load", str(file), *words], capture_output=True, text=True, env=here)
    listed = run("ops", "listed_clip", "--json")
    assert listed.returncode == 0, listed.stderr
    (entry,) = json.loads(listed.stdout)["ops"]
    assert (entry["kind"], entry["samples"], entry["attributes"]) == ("composite", 2, [{"name": "limit", "kind": "float", "default": "1"}])
    assert "each scaled down" in entry["doc"]
    for device in ("cpu", "coreml", "loopback"):
        judged = run("test-device", device, "--op", "listed_clip")
        assert judged.returncode == 0, judged.stdout + judged.stderr
    wrong = run("test-device", "cpu", "--op", "listed_wrong")
    assert wrong.returncode == 1 and "listed_wrong" in wrong.stdout
    file.write_text("raise RuntimeError('no luck')")
    failed = run("ops")
    assert failed.returncode == 1 and "RuntimeError: no luck" in failed.stderr and str(file) in failed.stderr


def test_there_are_twenty():
    assert len(OPS) >= 20


def fresh(reference, name, **options):
    return rlx.custom_op(reference, name=name, **options)


def test_an_op_is_one_of_the_table_and_stands_in_texts_and_files(tmp_path):
    my_clip_norm.register()
    graph = rlx.Graph.parse("""graph @g {
  %0 = input() @"x" : f32[N, 4]
  %1 = my_clip_norm(%0) {limit = 0.5} : f32[N, 4]
  return %1 @"y"
}""")
    assert "my_clip_norm(%0) {limit = 0.5}" in graph.text()
    x = f32(3, 4)
    wanted = my_clip_norm.__wrapped__(x, limit=0.5)
    compiled = rlx.Session(threads=1).compile(graph)
    np.testing.assert_allclose(compiled.run({"x": x})["y"], wanted, 1e-6)
    compiled.save(tmp_path / "clip.rlxc")
    np.testing.assert_allclose(rlx.load_compiled(tmp_path / "clip.rlxc").run({"x": x})["y"], wanted, 1e-6)
    assert "{limit" not in rlx.Graph.parse(graph.text().replace("limit = 0.5", "limit = 1.0")).text()  # the default
    with pytest.raises(rlx.Error, match=r"a known attribute \(limit\)"):
        rlx.Graph.parse(graph.text().replace("limit = 0.5", "norm = 0.5"))


def test_reports_say_which_kernel_runs_and_that_a_primitive_is_interpreted():
    report = rlx.jit(lambda a, b: my_running_max(my_hypot(a, b))).lower(f32(3, 4), f32(3, 4)).report()
    by_op = {n["op"]: n for n in report["nodes"]}
    assert by_op["my_hypot"]["verdict"] == "native" and "my_hypot in Python" in by_op["my_hypot"]["reason"]
    assert by_op["my_running_max"]["verdict"] == "interpreted"


def test_derivatives_of_every_order_and_kind():
    x = f32(5)
    plain = lambda x: rnp.sum(x * rlx.nn.sigmoid(2.0 * x) ** 1)
    own = lambda x: rnp.sum(my_swish(x, beta=2.0))
    np.testing.assert_allclose(rlx.grad(own)(x), rlx.grad(plain)(x), 1e-5, 1e-6)
    np.testing.assert_allclose(rlx.hessian(own)(x), rlx.hessian(plain)(x), 1e-4, 1e-5)
    y, t = rlx.jvp(own, (x,), (np.ones_like(x),))
    wy, wt = rlx.jvp(plain, (x,), (np.ones_like(x),))
    np.testing.assert_allclose([y, t], [wy, wt], 1e-5)
    np.testing.assert_allclose(rlx.jit(rlx.vmap(rlx.grad(own)))(f32(3, 5)).shape, (3, 5))
    with pytest.raises(rlx.Error, match="my_running_max"):
        rlx.grad(lambda x: rnp.sum(my_running_max(x)))(x)
    assert not np.any(rlx.grad(lambda x: rnp.sum(my_levels(x).astype("f4")) + rnp.sum(x) * 0)(x))


def test_within_loops_and_branches():
    x = f32(4)
    y = rlx.jit(lambda x: rlx.fori_loop(0, 3, lambda i, v: my_swish(v), x))(x)
    wanted = x
    for _ in range(3):
        wanted = my_swish.__wrapped__(wanted)
    np.testing.assert_allclose(y, wanted, 1e-5, 1e-6)
    z = rlx.jit(lambda p, x: rlx.cond(p, my_running_max, lambda v: v, x))(True, x)
    np.testing.assert_array_equal(z, np.maximum.accumulate(x))


@pytest.mark.parametrize("device", ["loopback", "tiny", "coreml"])
def test_other_devices_run_the_decomposition(device):
    x = f32(3, 4)
    np.testing.assert_allclose(rlx.jit(my_clip_norm, device=device)(x), my_clip_norm.__wrapped__(x), 1e-5)


def test_coreml_refuses_an_op_without_a_decomposition():
    with pytest.raises(rlx.Error, match="my_running_max"):
        rlx.jit(my_running_max, device="coreml")(f32(3, 4))


def test_exceptions_of_rules_are_errors_with_the_exception_as_cause():
    def broken(x):
        raise RuntimeError("no luck")
    bad = fresh(broken, "my_broken")
    bad.shape_rule(lambda x: x)
    with pytest.raises(rlx.Error, match="the reference of 'my_broken' failed: RuntimeError: no luck") as caught:
        bad(f32(3))
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ValueError, match="levels is 0, and at least 1"):
        my_levels(f32(3), levels=0)
    bad.kernel(lambda x: x[1:])
    with pytest.raises(rlx.Error, match=r"it returned float32\[2\] for result 0, which is f32\[3\]"):
        bad(f32(3))
    bad.kernel(lambda x: (x, x))
    with pytest.raises(rlx.Error, match="it returned 2 results, and its shape rule gives 1"):
        bad(f32(3))
    bad.shape_rule(lambda x: rlx.ShapeDtypeStruct(("Q?",), np.float32))
    with pytest.raises(rlx.Error, match="the shape rule of 'my_broken'"):
        bad(f32(3))

    def interrupted(x):
        raise KeyboardInterrupt
    bad.shape_rule(interrupted)
    with pytest.raises(KeyboardInterrupt):
        bad(f32(3))


def test_operands_of_a_kernel_are_its_own():
    kept = []
    hoarder = fresh(lambda x: x + 1, "my_hoarder")
    hoarder.shape_rule(lambda x: x)

    def kernel(x):
        kept.append(x[1:])
        y = x + 1
        x[:] = 99
        return y
    hoarder.kernel(kernel)
    x = rnp.arange(3, dtype="float32")
    np.testing.assert_array_equal(hoarder(x), [1, 2, 3])
    np.testing.assert_array_equal(rlx.jit(lambda x: hoarder(hoarder(x * 1)))(x), [2, 3, 4])
    np.testing.assert_array_equal(x, [0, 1, 2])
    assert all(np.all(k == 99) for k in kept)
    hoarder.kernel(lambda x: x)
    np.testing.assert_array_equal(hoarder(x), x)


def test_a_bool_is_zero_or_one_whatever_byte_the_kernel_gives():
    odd = fresh(lambda x: x, "my_odd_bool")
    odd.shape_rule(lambda x: x)
    odd.kernel(lambda x: np.array([2, 0, 1], np.uint8).view(bool))
    assert rlx.jit(lambda x: rnp.sum(odd(x).astype("i4")))(np.ones(3, bool)) == 2


@pytest.mark.parametrize("text", ["a\nb", "\r\n", "tab\there", "nul\0 \x01\x7f", 'quoted "\\ \\n', "é😀\u2028", "", "{k = 1}"])
def test_a_text_reaches_the_rule_as_it_is(text):
    seen = []

    @rlx.custom_op
    def told(x, *, text: str = "\n"):
        seen.append(text)
        return x

    @told.shape_rule
    def _(x, *, text):
        return x

    x = np.ones(2, np.float32)
    told(x, text=text)
    graph = rlx.Graph.parse(rlx.jit(lambda x: told(x, text=text)).lower(x).as_text())
    compiled = rlx.Session().compile(graph)
    compiled.run({compiled.input_names[0]: x})
    told(x)
    assert seen == [text, text, "\n"]
    told.unregister()


def test_calls_with_other_attributes_are_other_calls():
    clipped = fresh(lambda x, *, lo=0.0, hi=9.0: np.clip(x, lo, hi), "my_clipped")
    clipped.shape_rule(lambda x, *, lo, hi: x)
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(clipped(x, lo=2.0), [2, 2, 3])
    np.testing.assert_array_equal(clipped(x, hi=2.0), [1, 2, 2])
    told = fresh(lambda x, *, f=1.0, i=1, b=False, li=(1,): np.array([f, np.signbit(f), i, b, *li], np.float64), "my_told")
    told.shape_rule(lambda x, *, f, i, b, li: rlx.ShapeDtypeStruct((4 + len(li),), np.float64))
    np.testing.assert_array_equal(told(x, f=-0.0, i=2**62, b=True, li=[5, -6]), [0, 1, 2.0**62, 1, 5, -6])
    assert np.isnan(told(x, f=float("nan"))[0]) and told(x, f=-np.inf)[0] == -np.inf
    for wrong in ({"i": "8, f = 3.0"}, {"f": "0.5"}, {"i": 1.5}, {"li": "12"}, {"li": ("1", "2")}, {"b": 2}, {"b": "true"}):
        with pytest.raises(TypeError, match="my_told: "):
            told(x, **wrong)


def test_only_the_last_operands_may_be_left_out():
    three = fresh(lambda x, a=None, b=None: x + (0 if a is None else 10 * a) + (0 if b is None else b), "my_three")
    three.shape_rule(lambda x, a=None, b=None: x)
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(three(x, None, None), x)
    np.testing.assert_array_equal(three(x, x), 11 * x)
    with pytest.raises(TypeError, match="operand 1 is None and stands before one that is given"):
        three(x, None, x)
    with pytest.raises(TypeError, match="my_three: a is an operand, which is given by its position"):
        three(x, a=x)
    total = fresh(lambda *xs: sum(xs), "my_sum_of_none")
    total.shape_rule(lambda *xs: rlx.ShapeDtypeStruct((), np.float32))
    total.decomposition(lambda *xs: sum(xs, rnp.zeros(())))
    assert rlx.jit(lambda x: total() + x)(np.float32(1)) == 1  # of none


def test_a_rule_that_uses_its_own_op_is_refused_with_the_way_there():
    x = np.ones(2, np.float32)
    one, other, alone = (fresh(lambda x: x, name) for name in ("my_first", "my_second", "my_alone"))
    one.shape_rule(lambda x: x)
    other.shape_rule(lambda x: x)
    one.decomposition(lambda x: other(x) * 1)
    other.decomposition(lambda x: one(x) * 1)
    with pytest.raises(rlx.Error, match="the decomposition of 'my_(first|second)' uses 'my_(first|second)' again"):
        rlx.jit(one, kernel_dispatch="common")(x)
    alone.decomposition(lambda x: alone(x) + 1)
    with pytest.raises(rlx.Error, match=r"the decomposition of 'my_alone' uses 'my_alone' again \(my_alone > my_alone\)"):
        rlx.jit(alone)(x)


def test_a_rule_may_run_functions_of_rlx_itself():
    padded = fresh(lambda x: np.concatenate([x, x]), "my_padded")
    padded.shape_rule(lambda x: rlx.ShapeDtypeStruct((int(rlx.jit(lambda n: n * 2)(np.int32(x.shape[0]))),), x.dtype))
    np.testing.assert_array_equal(rlx.jit(lambda x: padded(x) + 1)(np.ones(2, np.float32)), np.full(4, 2, np.float32))


def test_what_is_compiled_of_an_op_is_not_kept_for_other_processes(tmp_path):
    for factor in (2, 3):
        times = fresh(lambda x: x * np.float32(factor), "my_times")
        times.decomposition(lambda x: x * factor)
        np.testing.assert_array_equal(rlx.jit(lambda x: times(x), cache_dir=str(tmp_path))(np.ones(2, np.float32)), [factor] * 2)
    assert not list(tmp_path.rglob("*.rlxc"))


def test_an_exception_without_a_text_is_still_an_error():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def broken(x):
        raise Mute
    mute = fresh(broken, "my_mute")
    mute.shape_rule(lambda x: x)
    with pytest.raises(rlx.Error, match="the reference of 'my_mute' failed: Mute"):
        mute(f32(2))
    mute.shape_rule(lambda x: rlx.ShapeDtypeStruct(("M",), np.float32))
    with pytest.raises(rlx.Error, match=r"the shape rule of 'my_mute' gave f32\[M\], and no operand has the symbol 'M'"):
        mute(f32(2))


def test_rules_that_build_graphs_are_held_to_the_types():
    wrong = fresh(lambda x: x, "my_wrong")
    wrong.shape_rule(lambda x: x)
    wrong.decomposition(lambda x: rnp.sum(x))
    with pytest.raises(rlx.Error, match=r"the decomposition of 'my_wrong' is a graph whose outputs \[0\] is f32\[\], where f32\[3\] was expected"):
        rlx.jit(wrong, kernel_dispatch="common")(f32(3))
    wrong.decomposition(lambda x: x * 1)
    wrong.gradient(lambda operands, results, cotangents: (cotangents[0], cotangents[0]))
    with pytest.raises(rlx.Error, match="the gradient returned 2 cotangents for 1 operands"):
        rlx.grad(lambda x: rnp.sum(wrong(x)))(f32(3))
    wrong.gradient(lambda operands, results, cotangents: cotangents[0] * 2)
    with pytest.raises(AssertionError, match="gradient: along a random direction"):
        wrong.check(f32(3))
    wrong.decomposition(lambda x: x * 1.001)
    with pytest.raises(AssertionError, match="run: result 0|jit: result 0|decomposition: result 0"):
        wrong.check(f32(3))


def test_a_definition_that_cannot_be_is_refused_with_what_is_wrong():
    with pytest.raises(TypeError, match="attribute 'a' needs a default that says its kind"):
        rlx.custom_op(lambda x, *, a: x, name="my_none")
    with pytest.raises(TypeError, match="'a' is an operand, which has no default but None"):
        rlx.custom_op(lambda x, a=1: x, name="my_none")
    with pytest.raises(TypeError, match="has no operand"):
        rlx.custom_op(lambda *, a=1: a, name="my_none")
    with pytest.raises(TypeError, match="names no attributes"):
        rlx.custom_op(lambda x, **rest: x, name="my_none")
    with pytest.raises(TypeError, match="needs a shape rule or a decomposition"):
        fresh(lambda x: x, "my_none")(f32(2))
    for name in ("two words", "1x", "x\0y", "<lambda>", ""):
        if name:
            with pytest.raises(ValueError, match="a word of letters, digits"):
                fresh(lambda x: x, name)
    with pytest.raises(ValueError, match="not '<lambda>'"):
        rlx.custom_op(lambda x: x)
    taken = fresh(lambda x: x, "softmax")
    taken.shape_rule(lambda x: x)
    with pytest.raises(rlx.Error, match="there is an op 'softmax' already"):
        taken(f32(2))
    with pytest.raises(TypeError, match="my_swish has no attribute 'gamma'; it has beta"):
        my_swish(f32(2), gamma=1)
    with pytest.raises(rlx.Error, match=r"my_hypot takes \(a, b\), got 1 operand"):
        my_hypot(f32(2))


def test_a_cell_that_runs_twice_replaces_the_op():
    def define(factor):
        scaled = fresh(lambda x: x * np.float32(factor), "my_scaled")
        scaled.shape_rule(lambda x: x)
        return scaled
    x = f32(3)
    first, second = define(2), define(3)
    np.testing.assert_allclose(first(x), x * 2, 1e-6)
    traced = rlx.jit(lambda x: first(x))
    np.testing.assert_allclose(traced(x), x * 2, 1e-6)
    np.testing.assert_allclose(second(x), x * 3, 1e-6)
    np.testing.assert_allclose(traced(x), x * 2, 1e-6)  # it was traced with the first
    with pytest.raises(rlx.Error, match="another op was defined as 'my_scaled' since"):
        first(x)
    np.testing.assert_allclose(first.register()(x), x * 2, 1e-6)
    np.testing.assert_allclose(second.register()(x), x * 3, 1e-6)
    second.unregister()
    with pytest.raises(rlx.Error, match="there is no op 'my_scaled'"):
        rlx.Graph.parse('graph @g {\n %0 = input() @"x" : f32[2]\n %1 = my_scaled(%0) : f32[2]\n return %1\n}')


def test_several_threads_run_python_kernels():
    compiled = rlx.jit(lambda a, b: my_hypot(a, b) + 1, threads=1)
    x, y = f32(64), f32(64)
    compiled(x, y)
    wrong = []

    def work():
        for _ in range(50):
            if not np.allclose(compiled(x, y), np.hypot(x, y) + 1, 1e-5):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    gc.collect()


def test_a_callback_is_called_when_the_values_are_there():
    calls = []

    def divided(x, scale):
        calls.append(x.shape)
        return {"quotient": x // scale["by"], "count": 7}
    announced = {"quotient": rlx.ShapeDtypeStruct((3,), np.float32), "count": np.zeros((), np.int32)}
    f = rlx.jit(lambda x: rlx.pure_callback(divided, announced, x * 2, {"by": np.float32(3)}))
    x = np.arange(3, dtype=np.float32)
    for _ in range(2):
        out = f(x)
        np.testing.assert_array_equal(out["quotient"], x * 2 // 3)
        assert out["count"] == 7 and out["count"].dtype == np.int32
    assert len(calls) == 2
    np.testing.assert_array_equal(rlx.pure_callback(divided, announced, x, {"by": np.float32(2)})["quotient"], x // 2)  # without jit
    rows = rlx.vmap(lambda x: rlx.pure_callback(lambda v: v[::-1].copy(), rlx.ShapeDtypeStruct((3,), np.float32), x))(np.stack([x, x + 1]))
    np.testing.assert_array_equal(rows, [x[::-1], x[::-1] + 1])
    z = rlx.jit(lambda p: rlx.cond(p, lambda: rlx.pure_callback(lambda: np.float32(5), np.zeros((), np.float32)), lambda: rnp.float32(1)))
    assert z(True) == 5 and z(False) == 1


def test_a_callback_that_returns_other_than_announced_is_an_error():
    one = rlx.ShapeDtypeStruct((2,), np.float32)
    for callback, message in ((lambda x: x[:1], r"gave f32\[1\] for result 0, which its shape rule says is f32\[2\]"),
                              (lambda x: (x, x), "returned a tree of the structure"),
                              (lambda x: x.astype(np.float64), r"gave f64\[2\] for result 0"),
                              (lambda x: 1 / 0, "ZeroDivisionError: division by zero")):
        with pytest.raises(rlx.Error, match=message):
            rlx.pure_callback(callback, one, f32(2))
    with pytest.raises(rlx.Error, match="callback_"):
        rlx.grad(lambda x: rnp.sum(rlx.pure_callback(lambda v: v, one, x)))(f32(2))
    with pytest.raises(ValueError, match="the tree of results has none"):
        rlx.pure_callback(lambda x: None, (), f32(2))
