"""Execution profiles and manifests in Python."""

import json
import xml.etree.ElementTree

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

PROFILE = """device = "cpu"
threads = 1
compute = "bf16"

[phase.prefill]
shapes = {B = 1}

[phase.decode]
compute = "f32"
accuracy = "exact"
isa = "native"
bounds = {B = 4}
placement = ["op:softmax=cpu"]
"""
GRAPH = rlx.Graph.parse("""rlx 1
graph @product {
  %0 = input() @"x" : f32[B, 3]
  %1 = input() @"w" : f32[4, 3]
  %2 = linear(%0, %1) @"head" : f32[B, 4]
  return %2 @"y"
}
""")


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(PROFILE)
    return rlx.ExecutionProfile.load(path)


def test_options_of_a_phase_are_those_of_jit_and_of_compile(profile):
    assert profile.phases == ("prefill", "decode")
    options = profile.options("decode")
    assert options["device"] == "cpu" and options["threads"] == 1 and options["accuracy"] == "exact"
    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    out = rlx.jit(lambda x: rlx.nn.softmax(x), **options)(x)
    np.testing.assert_allclose(np.asarray(out).sum(-1), 1, rtol=1e-6)
    compiled = profile.session("decode").compile(rlx.Graph.parse(GRAPH.text()), **{**profile.compile_options("decode"), "placement": ()})
    assert compiled is not None
    assert profile.compile_options("decode")["bounds"] == {"B": 4}
    assert profile.settings("prefill")["shapes"] == {"B": 1}
    assert (profile.options("decode")["isa"], profile.options("prefill")["isa"]) == ("native", "")
    half = rlx.jit(lambda x, w: x @ w.T, **profile.options("prefill"))
    assert "bf16" in json.dumps(half.lower(x, np.ones((4, 3), np.float32)).report())


def test_mistakes_have_their_line(tmp_path, profile):
    with pytest.raises(rlx.Error, match="the profile has several phases, 'prefill', 'decode'"):
        profile.options()
    with pytest.raises(rlx.Error, match="no phase 'decod'; the nearest are 'decode'"):
        profile.options("decod")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("threads = 1\ndevise = 'cpu'\n")
    with pytest.raises(rlx.Error, match="line 2: .* no key 'devise'; the nearest are 'device'"):
        rlx.ExecutionProfile.load(wrong)


def test_a_device_that_is_not_here_is_warned_of(tmp_path):
    if "cuda" in rlx.devices():
        pytest.skip("there is a cuda device")
    path = tmp_path / "p.toml"
    path.write_text('device = ["cuda", "cpu"]\n')
    with pytest.warns(UserWarning, match="not available: cuda"):
        assert rlx.ExecutionProfile.load(path).options()["device"] == "cpu"


def test_a_manifest_of_a_graph_in_symbols_and_in_numbers(tmp_path):
    open_, closed = rlx.manifest(GRAPH), rlx.manifest(GRAPH, dims={"B": 5})
    assert open_.layer("head")["totals"]["flops"] == "24*B" and open_.data["symbols"] == ["B"]
    assert closed.totals["flops"] == 2 * 5 * 3 * 4
    assert closed.layer("head")["outputs"] == [{"dtype": "f32", "shape": [5, 4]}]
    closed.save_svg(tmp_path / "m.svg")
    assert xml.etree.ElementTree.parse(tmp_path / "m.svg").getroot().tag.endswith("svg")
    assert closed._repr_svg_().startswith("<svg") and open_._repr_svg_() is None
    with pytest.raises(rlx.Error, match="'B' of graph 'product' has none"):
        open_.svg()
    with pytest.raises(rlx.Error, match="the nearest is 'B'"):
        rlx.manifest(GRAPH, dims={"C": 1})
    with pytest.raises(KeyError):
        closed.layer("tail")


def test_a_manifest_of_a_function():
    def f(x, w):
        return rnp.tanh(x @ w)

    x, w = np.ones((8, 16), np.float32), np.ones((16, 32), np.float32)
    for found in (rlx.manifest(f, x, w), rlx.manifest(rlx.jit(f), x, w)):
        assert found.totals["flops"] == 2 * 8 * 16 * 32
        assert {o["op"] for o in found.data["layers"][0]["ops"]} == {"matmul", "tanh"}
    assert rlx.manifest(f, rlx.ShapeDtypeStruct(("N", 16)), rlx.ShapeDtypeStruct((16, 32))).totals["flops"] == "1024*N"
    with pytest.raises(TypeError, match="takes no further arguments"):
        rlx.manifest(GRAPH, x)
