"""Training sessions from Python, beside the steps of PyTorch, Optax and published updates that tests/golden/generate records."""

import json
import os
import pathlib
import struct

import numpy as np
import pytest
from conftest import close

import rlx
import rlx.numpy as rnp
from rlx import train

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def golden(name):
    """The f64 arrays of a safetensors file."""
    data = (GOLDEN / name).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    arrays = {}
    for key, entry in header.items():
        if key != "__metadata__":
            begin, end = entry["data_offsets"]
            arrays[key] = np.frombuffer(data[8 + size + begin:8 + size + end], np.float64).reshape(entry["shape"])
    return arrays


# The linear regression of tests/golden/generate/training.py.
X = (((7 * np.arange(24) + 1) % 11) / 11 - 0.5).astype(np.float32).reshape(8, 3)
T = (X.astype(np.float64) @ np.array([[0.5], [-1.0], [2.0]])).astype(np.float32)
BATCH = {"x": X, "t": T}


def squares(params, batch):
    return rnp.sum((batch["x"] @ params["w"] - batch["t"]) ** 2)


def start(value=0.1):
    return {"w": np.full((3, 1), value, np.float32)}


CASES = {
    "sgd": train.sgd(0.2), "sgd_momentum": train.sgd(0.05, momentum=0.9),
    "sgd_nesterov": train.sgd(0.05, momentum=0.9, nesterov=True, weight_decay=0.01), "adam": train.adam(0.1),
    "adamw": train.adamw(0.1, weight_decay=0.1), "adagrad": train.adagrad(0.5), "rmsprop": train.rmsprop(0.02),
    "rmsprop_centered": train.rmsprop(0.02, momentum=0.5, centered=True), "adafactor": train.adafactor(0.1),
    "lamb": train.lamb(0.05, weight_decay=0.01), "lion": train.lion(0.02, weight_decay=0.01), "muon": train.muon(0.02),
    "linear": train.sgd(train.linear(0.2, 40, last=0.1)), "cosine": train.sgd(train.cosine(0.2, 40, warmup=10, last=0.1)),
    "one_cycle": train.sgd(train.one_cycle(0.2, 50)),
}


@pytest.mark.parametrize("name", sorted(golden("training/trajectories.safetensors")))
def test_trajectories(name):
    path = golden("training/trajectories.safetensors")[name]
    session = train.Session(squares, start(), CASES[name])
    for i, wanted in enumerate(path):
        result = session.step(BATCH)
        assert result.step == i + 1 and result.path == "fused" and result.aux is None
        assert np.max(np.abs(np.asarray(session.params["w"]).ravel() - wanted)) < 1e-5, i


def test_sophia():
    paths = golden("sophia/trajectories.safetensors")
    options = dict(beta1=0.9, gamma=0.05, weight_decay=0.01, every=5, beta2=0.95, algorithm="threefry")
    labels = (np.arange(8) % 3).astype(np.int32)

    def softmax_regression(params, x, labels, key=None):
        logits = x @ params["w"]
        picked = rnp.take_along_axis(rlx.nn.log_softmax(logits), labels[:, None], axis=1)
        return -rnp.mean(picked), {"logits": logits}

    def with_key(params, batch, key=None):
        return squares(params, batch)

    session = train.Session(with_key, start(), train.sophia(0.05, **options), seed=7)
    for wanted in paths["hutchinson"]:
        session.step(BATCH)
        assert np.max(np.abs(np.asarray(session.params["w"]).ravel() - wanted)) < 1e-5
    session = train.Session(softmax_regression, {"w": np.full((3, 3), 0.1, np.float32)},
                            train.sophia(0.02, estimate="gauss_newton_bartlett", logits="aux.logits", **options), seed=7)
    for wanted in paths["gauss_newton_bartlett"]:
        assert session.step(X, labels).aux["logits"].shape == (8, 3)
        assert np.max(np.abs(np.asarray(session.params["w"]).ravel() - wanted)) < 1e-5


def test_a_tree_of_params_and_aux(rng):
    params = {"dense": [{"w": rng.normal(size=(4, 5)).astype(np.float32), "b": np.zeros(5, np.float32)},
                        {"w": rng.normal(size=(5, 2)).astype(np.float32), "b": np.zeros(2, np.float32)}]}

    def loss(params, x, t):
        for layer in params["dense"]:
            x = rnp.tanh(x @ layer["w"] + layer["b"])
        return rnp.mean((x - t) ** 2), {"prediction": x, "error": rnp.max(rnp.abs(x - t))}

    x, t = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=(6, 2)).astype(np.float32)
    session = train.TrainingSession(loss, params, train.sgd(0.1))
    close(session.params, params)
    (value, aux), gradients = rlx.value_and_grad(loss, has_aux=True)(params, x, t)
    result = session.step(x, t)
    close(result.loss, float(value), dtype=False)
    close(result.aux, aux)
    close(result.grad_norm, np.sqrt(sum(np.sum(np.asarray(g) ** 2) for g in rlx.tree.leaves(gradients))), 1e-5, dtype=False)
    close(session.params, rlx.tree.map(lambda p, g: p - np.float32(0.1) * np.asarray(g), params, gradients), 1e-5)
    assert session.names == ["dense.0.b", "dense.0.w", "dense.1.b", "dense.1.w"]
    close(session.param("dense.1.w"), session.params["dense"][1]["w"])
    after, aux = session.evaluate(x, t)
    assert float(after) < result.loss and set(aux) == {"prediction", "error"}
    # A batch of another size is traced once more and trains the same params.
    assert session.step(x[:4], t[:4]).step == 2
    assert session.step(x, t).step == 3


def test_accumulation_means_and_groups():
    plain = train.Session(squares, start(), train.adam(0.1))
    waiting = train.Session(squares, start(), train.adam(0.1), ema=0.5)
    plain.step(BATCH)
    assert waiting.pending_accumulation() == 0
    for _ in range(3):
        assert waiting.accumulate(BATCH).path == "gradient"
    assert waiting.pending_accumulation() == 3
    with pytest.raises(rlx.Error, match="the gradients of 3 batches wait"):
        waiting.step(BATCH)
    assert waiting.step_accumulated() == 3 and waiting.pending_accumulation() == 0
    assert np.max(np.abs(np.asarray(plain.params["w"]) - np.asarray(waiting.params["w"]))) < 1e-4
    close(waiting.averaged_params["w"], 0.5 * start()["w"] + 0.5 * np.asarray(waiting.params["w"]))
    assert float(waiting.evaluate(BATCH, averaged=True)) > float(waiting.evaluate(BATCH))

    def two(params, batch):
        return squares({"w": params["a"] + params["b"]}, batch)

    both = train.Session(two, {"a": start()["w"], "b": start()["w"]}, train.sgd(0.1),
                         groups=[train.Group("a", lr_scale=2.0), train.Group(["b*"], frozen=True)], ema=0.9)
    both.step(BATCH)
    close(both.params["b"], start()["w"])
    close(both.averaged_params["b"], start()["w"])
    assert np.all(np.asarray(both.params["a"]) != start()["w"])
    for listed in ("a", ["a"], ("a*",)):
        both = train.Session(two, {"a": start()["w"], "b": start()["w"]}, train.sgd(0.1), trained=listed, ema=0.9)
        both.step(BATCH)
        close(both.params["b"], start()["w"])
        close(both.averaged_params["b"], start()["w"])
        assert np.all(np.asarray(both.params["a"]) != start()["w"])


def test_a_session_changes_how_it_steps():
    plain, turned = (train.Session(squares, start(), train.adam(0.05)) for _ in range(2))
    assert turned.with_fused_optimizer(False) is turned and not turned.fused_active()
    assert turned.step(BATCH).path == "gradient" and plain.step(BATCH).path == "fused"
    assert turned.with_fused_optimizer().fused_active() and turned.update_path() == "fused"
    for _ in range(10):
        plain.step(BATCH), turned.step(BATCH)
    assert np.max(np.abs(np.asarray(plain.params["w"]) - np.asarray(turned.params["w"]))) <= 1e-6
    first = turned.with_precision_policy("f16", train.LossScale(1024.0)).step(BATCH)
    assert first.loss_scale == 1024 and turned.loss_scale == 1024
    for _ in range(200):
        last = turned.step(BATCH)
    assert last.loss < 0.1 * first.loss
    assert turned.with_precision_policy("float32").loss_scale == 1
    with pytest.raises(rlx.Error, match="precision is 'f32', 'f16' or 'bf16', got 'f8'"):
        turned.with_precision_policy("f8")
    before = train.Session(squares, start(), train.sgd(0.05)).with_precision_policy("bf16").with_fused_optimizer(False)
    assert before.step(BATCH).path == "gradient" and not before.fused_active()


def test_rates():
    seen = [train.Session(squares, start(), train.sgd(rate)) for rate in
            (train.constant(0.2, warmup=4), lambda step: 0.2 * min(1.0, (step - 1) / 4))]
    for _ in range(8):
        a, b = (s.step(BATCH) for s in seen)
        assert a.learning_rate == pytest.approx(b.learning_rate, abs=1e-9)
    assert a.learning_rate == pytest.approx(0.2)
    close(seen[0].params, seen[1].params)


def test_half_precision():
    session = train.Session(squares, start(0.0), train.sgd(0.2), precision="float16", loss_scale=train.LossScale(2.0**24, interval=5))
    results = [session.step(BATCH) for _ in range(61)]
    assert all(np.isfinite(r.loss) for r in results)
    assert results[-1].loss < 0.1 * results[0].loss
    assert results[0].skipped and results[0].loss_scale == 2.0**24 and results[1].loss_scale == 2.0**23
    assert session.steps == sum(not r.skipped for r in results)
    assert session.loss_scale < 2.0**24
    assert session.params["w"].dtype == np.float32


def test_state_key_and_checkpoint(tmp_path):
    """A running mean that steps write, dropout by the session's key, and a session that goes on from a file."""
    def loss(params, state, x, key):
        mean = 0.9 * state["mean"] + 0.1 * rnp.mean(x, axis=0)
        kept = rlx.random.bernoulli(key, 0.5, x.shape)
        y = rnp.where(kept, (x - state["mean"]) * params["w"], 0.0)
        return rnp.mean(y ** 2), {"mean": mean}, {"kept": rnp.sum(kept)}

    x = np.random.default_rng(3).normal(size=(32, 4)).astype(np.float32) + 1
    make = lambda: train.Session(loss, {"w": np.ones(4, np.float32)}, train.adamw(train.cosine(0.1, 20)), seed=5, ema=0.9,
                                 state={"mean": np.zeros(4, np.float32)})
    whole, mean = make(), np.zeros(4)
    counts = set()
    for _ in range(6):
        counts.add(int(whole.step(x).aux["kept"]))
        mean = 0.9 * mean + 0.1 * x.mean(0)
    assert len(counts) > 1
    close(whole.state["mean"], mean.astype(np.float32), 1e-6)
    path = tmp_path / "run.safetensors"
    whole.save(path, {"epoch": 2, "row": "17"})
    resumed = make()
    with pytest.raises(rlx.Error, match="the loss is traced when its first batch comes"):
        resumed.load(path)
    assert resumed.load(path, x) == {"epoch": "2", "row": "17"}
    for _ in range(5):
        a, b = whole.step(x), resumed.step(x)
        assert a.loss == b.loss and int(a.aux["kept"]) == int(b.aux["kept"])
    assert np.array_equal(whole.params["w"], resumed.params["w"])
    assert np.array_equal(whole.averaged_params["w"], resumed.averaged_params["w"])
    other = train.Session(squares, start(), train.adam(0.1))
    with pytest.raises(rlx.Error, match="it was trained as"):
        other.load(path, BATCH)


def test_a_graph_and_what_a_session_says():
    graph = rlx.Graph.parse("""graph @regression {
      %0 = input() @"x" : f32[8, 3]
      %1 = input() @"t" : f32[8, 1]
      %2 = param() @"w" : f32[3, 1]
      %3 = matmul(%0, %2) : f32[8, 1]
      %4 = mse(%3, %1) {reduction = sum} : f32[]
      return %4 @"loss", %3 @"prediction"
    }""")
    session = train.Session(graph, start(), train.sgd(0.2), fused=False)
    result = session.step(BATCH)
    close(result.aux[0], X @ start()["w"], 1e-5)
    assert session.update_path() == "gradient" and result.path == "gradient"
    told = session.eligibility()
    assert told.device == (os.environ.get("RLX_DEVICE") or "cpu") and not told.supported and told.reason
    memory = session.memory()
    assert memory.params == 12 and memory.total >= memory.params
    assert any(node["op"] == "matmul" for node in session.report()["nodes"])


def test_parts_change_nothing(rng):
    params = [rng.normal(size=(16, 16)).astype(np.float32) * 0.3 for _ in range(8)]

    def loss(params, x):
        for w in params:
            x = rnp.tanh(x @ w)
        return rnp.mean(x ** 2)

    x = rng.normal(size=(128, 16)).astype(np.float32)
    plain, parts = (train.Session(loss, params, train.sgd(0.1), checkpoints=n) for n in (0, 4))
    for _ in range(3):
        assert plain.step(x).loss == pytest.approx(parts.step(x).loss, rel=1e-5)
    assert parts.memory().program < plain.memory().program


def test_mistakes():
    with pytest.raises(rlx.Error, match="precision is 'f32', 'f16' or 'bf16', got 'f8'"):
        train.Session(squares, start(), precision="f8")
    with pytest.raises(TypeError, match="an optimizer is made by"):
        train.Session(squares, start(), 0.1)
    with pytest.raises(TypeError, match=r"params\['w'\] is a str"):
        train.Session(squares, {"w": "three"})
    with pytest.raises(rlx.Error, match="would both be called 'a.b'"):
        train.Session(squares, {"a.b": np.zeros(1, np.float32), "a": {"b": np.zeros(1, np.float32)}})
    with pytest.raises(rlx.Error, match="needs a float scalar"):
        train.Session(lambda p, b: b["x"] @ p["w"], start()).step(BATCH)
    with pytest.raises(rlx.Error, match="does not depend on the param 'u'"):
        train.Session(squares, {**start(), "u": np.zeros(2, np.float32)}).step(BATCH)
    with pytest.raises(rlx.Error, match="or .loss, aux., got a tuple of 3"):
        train.Session(lambda p, b: (squares(p, b), 1.0, 2.0), start()).step(BATCH)
    with pytest.raises(rlx.Error, match="a group names the param 'v'"):
        train.Session(squares, start(), groups=[train.Group("v", frozen=True)]).step(BATCH)
    with pytest.raises(rlx.Error, match="the trained params name the param 'v', which graph 'squares' has not; it has w"):
        train.Session(squares, start(), trained=["w", "v"]).step(BATCH)
    with pytest.raises(rlx.Error, match="`trained` lists no param; leave it out to train them all"):
        train.Session(squares, start(), trained=[])
    with pytest.raises(TypeError, match="trained params are names, .* got 3"):
        train.Session(squares, start(), trained=3)
    with pytest.raises(rlx.Error, match="the loss is nan at step 1"):
        train.Session(lambda p, x: rnp.sum(rnp.log(x * p["w"])), {"w": np.ones(2, np.float32)}).step(np.array([1, -1], np.float32))
    with pytest.raises(TypeError, match="the params of a group are names, .* got 3"):
        train.Session(squares, start(), groups=train.Group(3))
    with pytest.raises(TypeError, match=r"a group is made by rlx.train.Group\(...\), got dict"):
        train.Session(squares, start(), groups=[{"params": "w"}])
    for rate in (-0.1, float("nan"), lambda step: float("inf")):
        with pytest.raises(rlx.Error, match="the learning rate is .*; it is finite and not below 0"):
            train.Session(squares, start(), train.sgd(rate)).step(BATCH)
    with pytest.raises(rlx.Error, match=r"label 1 is 3, and the classes of f32\[2, 3\] go from 0 to 2"):
        train.Session(lambda p, t: rlx.nn.cross_entropy(p, t), np.ones((2, 3), np.float32)).step(np.array([0, 3]))
    with pytest.raises(rlx.Error, match="before this"):
        train.Session(squares, start()).save("nowhere.safetensors")


def test_layers_with_state():
    """An embedding whose indices repeat and batch norm, beside PyTorch's (tests/golden/generate/layers.py)."""
    wanted = golden("layers/steps.safetensors")
    numbers = lambda shape, factor, add, modulus: \
        ((((factor * np.arange(np.prod(shape)) + add) % modulus) / modulus) - 0.5).reshape(shape).astype(np.float32)
    ids = ((np.arange(30) * 5 + np.arange(30) // 7) % 7).reshape(6, 5)
    labels = np.arange(6) % 3
    params = {"embedding": {"weight": numbers((7, 4), 5, 1, 13)}, "head": {"weight": numbers((3, 4), 3, 2, 11), "bias": np.zeros(3, np.float32)},
              "norm": {"weight": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}}
    state = {"running_mean": np.zeros(4, np.float32), "running_var": np.ones(4, np.float32)}

    def net(params, state, ids, labels, training=True):
        x = rnp.transpose(rnp.take(params["embedding"]["weight"], ids, axis=0), (0, 2, 1))
        x, mean, variance = rlx.nn.batch_norm(x, params["norm"]["weight"], params["norm"]["bias"], state["running_mean"],
                                              state["running_var"], training=training)
        logits = rnp.mean(rnp.tanh(x), axis=2) @ params["head"]["weight"].T + params["head"]["bias"]
        loss = rnp.mean(rlx.ops.softmax_cross_entropy_with_logits(logits, labels))
        return loss, {"running_mean": mean, "running_var": variance}

    session = train.Session(net, params, train.sgd(0.1, momentum=0.9), state=state)
    for value in wanted["losses"]:
        assert abs(session.step(ids, labels).loss - value) < 1e-5
    for name, part in {**session.params, "norm": {**session.params["norm"], **session.state}}.items():
        for key, value in part.items():
            assert np.max(np.abs(np.asarray(value) - wanted[f"{name}.{key}"])) < 1e-5, (name, key)
    loss, _ = rlx.jit(lambda p, s: net(p, s, ids, labels, training=False))(session.params, session.state)
    assert abs(float(loss) - wanted["eval_loss"]) < 1e-5


def test_batch_norm_has_no_variance_of_one_value_to_learn_from():
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    with pytest.raises(rlx.Error, match=r"more than one value; \(1, 3\) has 1"):
        rlx.nn.batch_norm(np.ones((1, 3), np.float32), ones, zeros, zeros, ones)
    rlx.nn.batch_norm(np.ones((1, 3), np.float32), ones, zeros, zeros, ones, training=False)


def test_a_function_as_a_graph(tmp_path, rng):
    """A loss with open dims becomes a graph that trains as the function does, is saved, and is quantized."""
    weights = lambda *shape: rng.normal(size=shape).astype(np.float32) * 0.3
    params = {"layers": [{"weight": weights(8, 16), "bias": weights(16)}, {"weight": weights(16, 3), "bias": weights(3)}]}

    def net(params, x):
        first, second = params["layers"]
        return rlx.nn.relu(x @ first["weight"] + first["bias"]) @ second["weight"] + second["bias"]

    def loss(params, x, t):
        y = net(params, x)
        return rlx.nn.cross_entropy(y, t), {"logits": y}

    open_rows = rlx.ShapeDtype(("N", 8)), rlx.ShapeDtype(("N",), "i32")
    graph = train.graph(loss, params, *open_rows)
    named = train.named_params(params)
    assert sorted(named) == ["layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight"]
    graph.save(tmp_path / "loss.rlx")
    by_graph = train.Session(rlx.Graph.load(tmp_path / "loss.rlx"), named, train.adamw(0.01))
    by_function = train.Session(loss, params, train.adamw(0.01))
    x = rng.normal(size=(12, 8)).astype(np.float32)
    t = (x[:, 0] > 0).astype(np.int32)
    for rows in (12, 5, 1, 12):
        a, b = by_graph.step({"x": x[:rows], "t": t[:rows]}), by_function.step(x[:rows], t[:rows])
        assert a.loss == pytest.approx(b.loss, rel=1e-6) and a.aux[0].shape == (rows, 3)
    learning = rlx.quantization.add(graph, training=True, activations="ema")
    session = train.Session(learning.graph, {**named, **learning.initial(named)}, train.adamw(0.01), groups=learning.groups, written=learning.written)
    first = session.step({"x": x, "t": t}).loss
    for _ in range(50):
        last = session.step({"x": x, "t": t}).loss
    assert last < 0.5 * first
    int8 = rlx.quantization.export(rlx.quantization.add(train.graph(net, params, open_rows[0]), activations="ema").graph, session.params)
    assert int8.table.count("qmatmul") == 2

    dropped = train.graph(lambda p, batch, key: rnp.mean(rlx.nn.dropout(key, batch["x"] @ p, 0.5) ** 2), weights(8), {"x": x, "more": (t, t)}, key=True)
    assert dropped.count(0) == 4 and 'input() @"more.1"' in dropped.text() and 'input() @"key" : u32[2]' in dropped.text()
    assert train.graph(lambda p: {"a": p, "b": p * 2}, weights(2)).text().count('@"b"') == 1
    # Each result has a name, and a scalar that is no result of its own is no loss.
    for f, names in ((lambda p: (rnp.sum(p), p), ["loss", "aux"]), (lambda p: (rnp.sum(p), p, {"twice": p * 2}), ["loss", "aux.0", "aux.1.twice"]),
                     (lambda p: ((rnp.sum(p), p), p * 2), ["0.0", "0.1", "1"]), (lambda p: rnp.sum(p), ["loss"]), (lambda p: p, ["y"])):
        text = train.graph(f, weights(2)).text()
        assert [name for name in names if f'@"{name}"' in text.split("return")[1]] == names, text
    # Means and variances over dims that are open, and batch norm by them.
    ones, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    def normed(p, x):
        y, mean, variance = rlx.nn.batch_norm(x * p, ones, zeros, zeros, ones)
        return rnp.mean(y**4), {"mean": mean, "variance": variance, "all": rnp.var(x), "std": rnp.std(x, axis=0, ddof=1)}
    by_graph = train.Session(train.graph(normed, ones, open_rows[0]), {"params": ones}, train.sgd(0.1))
    for rows in (12, 3):
        (value, aux), (wanted, wanted_aux) = by_graph.evaluate({"x": x[:rows]}), normed(ones, x[:rows])
        close(value, wanted, 1e-6)
        close(aux, [wanted_aux[k] for k in sorted(wanted_aux)], 1e-6)
    outer = []
    rlx.jit(lambda v: outer.append(v) or v)(x)
    with pytest.raises(rlx.Error):
        train.graph(lambda p, x: rnp.sum(p * outer[0][0]), weights(8), x)
    with pytest.raises(rlx.Error, match="already has an input named 'a'"):
        train.graph(lambda p, x, y: p, weights(2), {"a": x}, {"a": x})
