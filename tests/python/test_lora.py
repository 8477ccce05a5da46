"""Low-rank adapters: beside NumPy, and beside adapters that the package PEFT made (tests/golden/peft)."""

import json
import pathlib

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from conftest import close
from rlx import lora, train

PEFT = pathlib.Path(__file__).resolve().parents[1] / "golden/peft/llama"


def loss(params, batch):
    hidden = rnp.tanh(batch["x"] @ params["up.weight"].T)
    return rnp.mean((hidden @ params["down.weight"].T - batch["t"]) ** 2)


@pytest.fixture
def problem(rng):
    params = {"up.weight": rng.normal(size=(5, 3)).astype("f4"), "down.weight": rng.normal(size=(2, 5)).astype("f4")}
    batch = {"x": rng.normal(size=(16, 3)).astype("f4"), "t": rng.normal(size=(16, 2)).astype("f4")}
    return train.graph(loss, params, batch), params, batch


def forward(params, batch):
    p = {n: np.asarray(v, "f8") for n, v in params.items()}
    up, down = (p[f"{n}.weight"] + (1.5 * p[f"{n}.lora_B.weight"] @ p[f"{n}.lora_A.weight"] if f"{n}.lora_A.weight" in p else 0)
                for n in ("up", "down"))
    return np.mean((np.tanh(batch["x"] @ up.T) @ down.T - batch["t"]) ** 2)


def test_adapters_train_and_merge_as_in_numpy(problem, tmp_path):
    graph, params, batch = problem
    made = lora.add(graph, ["up", "down"], rank=2, alpha=3)
    assert made.scale == 1.5
    assert [(m.name, m.weight, m.inputs, m.outputs) for m in made.modules] == [("up", "up.weight", 3, 5), ("down", "down.weight", 5, 2)]
    first = made.initial(seed=7)
    assert {n: v.shape for n, v in first.items()} == {"up.lora_A.weight": (2, 3), "up.lora_B.weight": (5, 2), "down.lora_A.weight": (2, 5),
                                                      "down.lora_B.weight": (2, 2)}
    a = np.asarray(first["up.lora_A.weight"])
    assert not np.any(first["up.lora_B.weight"]) and np.any(a) and np.all(np.abs(a) <= 3**-0.5)
    assert np.array_equal(made.initial(seed=7)["up.lora_A.weight"], a) and not np.array_equal(made.initial(seed=8)["up.lora_A.weight"], a)

    session = train.Session(made.graph, {**params, **first}, train.adam(0.02), groups=made.groups)
    losses = [session.step(batch).loss for _ in range(100)]
    assert losses[0] == pytest.approx(forward(params, batch), rel=1e-5)  # as without adapters
    assert losses[-1] < 0.7 * losses[0]
    trained = session.params
    for name, value in params.items():
        assert np.array_equal(trained[name], value)
    assert float(session.evaluate(batch)) == pytest.approx(forward(trained, batch), rel=1e-5)

    merged = made.merge(trained)
    assert set(merged) == set(params)
    for name in ("up", "down"):
        b, a = (np.asarray(trained[f"{name}.lora_{x}.weight"], "f8") for x in "BA")
        close(merged[f"{name}.weight"], (params[f"{name}.weight"] + 1.5 * b @ a).astype("f4"), 1e-6)

    made.save(tmp_path / "adapter", trained)
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (2, 3, "LORA")
    written = rlx.load(tmp_path / "adapter/adapter_model.safetensors")
    assert np.array_equal(written["base_model.model.up.lora_A.weight"], trained["up.lora_A.weight"])
    back = made.load(tmp_path / "adapter")
    assert set(back) == set(first) and all(np.array_equal(v, trained[n]) for n, v in back.items())
    with pytest.raises(rlx.Error, match="made with 'r' = 2, the graph with 3"):
        lora.add(graph, ["up", "down"], rank=3, alpha=3).load(tmp_path / "adapter")


def test_an_adapter_of_peft_merges_as_there():
    model = rlx.load(PEFT / "model.safetensors")
    tensors = lambda front: {n[len(front):]: v for n, v in model.items() if n.startswith(front)}
    base, wanted = tensors("base/"), tensors("merged/")

    def products(params, x):
        return [rlx.ops.linear(x["of " + name], w) for name, w in params.items()]

    graph = train.graph(products, base, {"of " + n: np.ones((1, w.shape[1]), "f4") for n, w in base.items()})
    made = lora.add(graph, ["q_proj", "v_proj", "down_proj"], rank=4, alpha=4)
    assert len(made.modules) == 6
    merged = made.merge({**base, **made.load(PEFT)})
    assert wanted
    for name, value in wanted.items():
        close(merged[name], value, 1e-6)
        assert np.max(np.abs(np.asarray(value) - np.asarray(base[name]))) > 1e-3
    assert all(np.array_equal(merged[n], v) for n, v in base.items() if n not in wanted)


def test_what_cannot_have_an_adapter_is_refused(problem):
    graph, params, _ = problem
    with pytest.raises(rlx.Error, match="(?s)'middle'.*up.*down"):
        lora.add(graph, ["middle"])
    with pytest.raises(rlx.Error, match="rank"):
        lora.add(graph, "up", rank=0)
    with pytest.raises(TypeError, match="targets is a name or a list of names, got 3"):
        lora.add(graph, 3)
    with pytest.raises(TypeError, match="adapters are put into an rlx.Graph, .* got function"):
        lora.add(loss, ["up"])
    with pytest.raises(rlx.Error, match="up.lora_A.weight"):
        lora.add(graph, "up").merge(params)
    with pytest.raises(FileNotFoundError):
        lora.add(graph, "up").load("/nowhere/at/all")
