"""What a compile can be told, and what can be asked before one: options, devices, reports, params."""

import inspect
import os
import pathlib
import pickle
import platform
import re

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from conftest import close

GRAPH = rlx.Graph.parse("""rlx 1
graph @layer {
  %0 = input() @"x" : f32[4, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) : f32[4, 2]
  %3 = softmax(%2) : f32[4, 2]
  return %3 @"y", %2 @"logits"
}
""")
OF_F64 = rlx.Graph.parse("""rlx 1
graph @wide {
  %0 = input() @"x" : f64[4]
  %1 = exp(%0) : f64[4]
  return %1 @"y"
}
""")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture
def data(rng):
    x, w = rng.normal(size=(4, 3)).astype("f4"), rng.normal(size=(3, 2)).astype("f4")
    return x, w, softmax(x.astype("f8") @ w.astype("f8"))


@pytest.mark.parametrize("options", [
    {}, {"strict": False}, {"accuracy": "exact"}, {"accuracy": "row_relative"}, {"batch_invariant": True}, {"rounding": "relaxed"},
    {"kernel_dispatch": "common"}, {"mode": "lazy"}, {"mode": "aot"}, {"force_common": "softmax"}, {"force_common": {"softmax"}},
    {"force_native": ["softmax"]}, {"donate": ["x"]}, {"skip_passes": ["fuse_elementwise"]}, {"cache_dir": ""}, {"compute": "f32"}, {"narrow": True}, {"bounds": {}},
    {"fallback": "tiny"}, {"fallback": ["loopback", "tiny"]}, {"placement": {"op:softmax": "tiny"}},
    {"placement": [("op:matmul", "loopback"), ("*", "cpu")]}], ids=str)
def test_every_option_of_a_compile_is_taken_and_means_the_same_numbers(data, options):
    x, w, wanted = data
    compiled = rlx.Session(threads=1).compile(GRAPH, **options)
    compiled.set_param("w", w)
    close(compiled.run({"x": x.copy()})["y"], wanted.astype("f4"), 1e-6)


@pytest.mark.parametrize("compute, digits", [("bf16", 2.0 ** -6), ("f16", 2.0 ** -9)])
def test_compute_rounds_products_and_keeps_the_types(data, compute, digits):
    x, w, wanted = data
    compiled = rlx.Session(threads=1).compile(GRAPH, compute=compute)
    assert compiled.report()["target"].endswith(f", f32 computed in {compute}")
    compiled.set_param("w", w)
    y = compiled.run({"x": x})["y"]
    assert y.dtype == np.float32
    close(y, wanted.astype("f4"), digits)
    assert not np.array_equal(np.asarray(y), wanted.astype("f4"))
    jitted = rlx.jit(lambda a, b: rlx.ops.softmax(a @ b), compute=compute)
    close(jitted(x, w), wanted.astype("f4"), digits)
    with pytest.raises(rlx.Error, match="accuracy exact.*give one of the two"):
        rlx.Session().compile(GRAPH, compute=compute, accuracy="exact")
    with pytest.raises(ValueError, match="compute"):
        rlx.Session().compile(GRAPH, compute="int3")


def test_int8_rounds_products_with_weights(rng):
    graph = rlx.Graph.parse("""rlx 1
graph @layer {
  %0 = input() @"x" : f32[4, 64]
  %1 = param() @"w" : f32[64, 32]
  %2 = matmul(%0, %1) : f32[4, 32]
  return %2 @"y"
}
""")
    x, w = rng.normal(size=(4, 64)).astype("f4"), rng.normal(size=(64, 32)).astype("f4")
    compiled = rlx.Session(threads=1).compile(graph, compute="int8")
    assert ", f32 computed in int8" in compiled.report()["target"]
    assert {line["op"]: line["verdict"] for line in compiled.report()["nodes"]}["dynamic_quantize_matmul"] == "native"
    compiled.set_param("w", w)
    y = np.asarray(compiled.run({"x": x})["y"])
    sx, sw = abs(x).max(1, keepdims=True) / np.float32(1023), abs(w).max(0) / np.float32(127)
    codes = np.rint(x * (np.float32(1) / sx)) @ np.rint(w * (np.float32(1) / sw))
    assert np.array_equal(y, codes.astype("f4") * np.minimum(sw, sx) * np.maximum(sw, sx))  # the lesser scale first
    assert 1e-4 < abs(y - x @ w).max() < 0.2
    with pytest.raises(rlx.Error, match="accuracy exact.*give one of the two"):
        rlx.Session().compile(graph, compute="int8", accuracy="exact")


def test_options_reach_the_compiler(tmp_path, monkeypatch):
    session = rlx.Session()
    verdict = lambda **options: {line["op"]: line["verdict"] for line in session.compile(GRAPH, **options).report()["nodes"]}
    assert verdict()["softmax"] == "native"
    assert verdict(force_common="softmax")["softmax"] == verdict(kernel_dispatch="common")["softmax"] == "composed"
    with pytest.raises(rlx.Error, match="softmax.*composed"):
        session.compile(GRAPH, strict=True, force_common=["softmax"])
    with pytest.raises(rlx.Error, match="sotfmax"):
        session.compile(GRAPH, force_common=["sotfmax"])
    report = session.compile(GRAPH, placement={"op:softmax": "tiny"}).report()
    assert {line["op"]: line["device"] for line in report["nodes"]}["softmax"] == "tiny"
    assert report["copies"] and report["host_reads"] == sum(c["to"] == "host" for c in report["copies"])
    with pytest.raises(rlx.Error, match="names no node"):
        session.compile(GRAPH, placement={"op:sotfmax": "tiny"})
    with pytest.raises(rlx.Error, match="no device|nowhere"):
        session.compile(GRAPH, fallback=["nowhere"])
    with pytest.raises(TypeError, match="placement is a dictionary"):
        session.compile(GRAPH, placement="op:softmax=tiny")
    with pytest.raises(rlx.Error, match="'no_pass'"):
        session.compile(GRAPH, skip_passes=["no_pass"])
    with pytest.raises(rlx.Error, match="'z'"):
        session.compile(GRAPH, donate=["z"])
    session.compile(GRAPH, cache_dir=tmp_path / "kept", skip_passes=["fuse_elementwise"])
    assert os.listdir(tmp_path / "kept")
    # With float16 in a chain that is fused, relaxed rounds once and strict after each op: the sum 2048 + 1 is lost between.
    small = np.full(8, 2048, np.float16)
    f = lambda x: (x + np.float16(1)) - np.float16(2048)
    assert np.array_equal(rlx.jit(f)(small), np.zeros(8)) and np.array_equal(rlx.jit(f, rounding="relaxed")(small), np.ones(8))
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "by environment"))
    rlx.Session().compile(GRAPH, accuracy="exact")
    assert os.listdir(tmp_path / "by environment")


def test_values_that_no_option_has_are_refused():
    session = rlx.Session()
    for options, message in [({"rounding": "loose"}, "rounding is 'strict', 'relaxed', not 'loose'"), ({"mode": 3}, "mode is 'eager', 'lazy', 'aot', not 3"),
                             ({"accuracy": "f16"}, "accuracy is 'f32', 'exact', 'row_relative', not 'f16'"),
                             ({"kernel_dispatch": ""}, "kernel_dispatch is 'native', 'common', not ''")]:
        with pytest.raises(ValueError, match=message):
            session.compile(GRAPH, **options)
        with pytest.raises(ValueError, match=message):
            rlx.jit(rnp.exp, **options)
    with pytest.raises(TypeError, match="donate is a name or a list of names, got 3"):
        session.compile(GRAPH, donate=3)
    with pytest.raises(TypeError, match="jit has no option 'donate'"):
        rlx.jit(rnp.exp, donate=["x"])


def test_jit_takes_a_device_threads_and_options(data):
    x, w, wanted = data
    f = lambda x, w: rlx.nn.softmax(x @ w)
    for device in ("cpu", "coreml"):
        made = rlx.jit(f, device=device, threads=1, rounding="relaxed", force_common=["softmax"])
        close(made(x, w), wanted.astype("f4"), 1e-6)
        assert made.report()["target"].startswith(device)
        assert {line["op"]: line["verdict"] for line in made.report()["nodes"]}["softmax"] == "composed"


def test_a_program_is_held_to_an_instruction_set(data):
    """By its report; tests/runtime/instruction_sets_test.cpp compares bits with those of a process under RLX_ISA."""
    x, w, wanted = data
    used = rlx.Session("cpu").compile(GRAPH).report()["target"]
    least = "sse4" if platform.machine() in ("x86_64", "AMD64") else "neon"
    compiled = rlx.Session("cpu", threads=1).compile(GRAPH, isa=least)
    assert compiled.report()["target"] == f"cpu ({least})" and rlx.Session("cpu").compile(GRAPH).report()["target"] == used
    compiled.set_param("w", w)
    close(compiled.run({"x": x.copy()})["y"], wanted.astype("f4"), 1e-6)
    assert rlx.jit(lambda x, w: rlx.nn.softmax(x @ w), device="cpu", isa=least)(x, w).shape == wanted.shape
    with pytest.raises(rlx.Error, match="isa=mmx is no instruction set: take one of "):
        rlx.Session("cpu").compile(GRAPH, isa="mmx")
    with pytest.raises(rlx.Error, match="is an option of the device cpu"):
        rlx.Session("coreml").compile(GRAPH, isa=least)
    with pytest.raises(TypeError, match="isa is the name of an instruction set, got 3"):
        rlx.Session("cpu").compile(GRAPH, isa=3)


def test_devices_say_what_they_are():
    all_of_them = {d.name: d for d in rlx.device_infos()}
    assert all_of_them["cpu"].available and not all_of_them["cpu"].accelerates and all_of_them["cpu"].description
    assert {"coreml", "null"} <= set(all_of_them) and not all_of_them["null"].available and all_of_them["null"].description
    assert rlx.devices() == [name for name, d in all_of_them.items() if d.available] and rlx.pick_best_device() in rlx.devices()


def test_a_report_comes_before_a_compile():
    """Also for devices that run nothing here; an op that is missing is a line."""
    before, after = rlx.Session().report(GRAPH), rlx.Session().compile(GRAPH).report()
    assert before == after and before == rlx.dispatch_report(GRAPH)
    assert [line["op"] for line in before["nodes"]].count("softmax") == 1
    assert rlx.dispatch_report(GRAPH, force_common=["softmax"])["nodes"] != before["nodes"]
    missing = [line for line in rlx.dispatch_report(OF_F64, "coreml")["nodes"] if line["verdict"] == "missing"]
    assert missing and all("Core ML has no f64" in line["reason"] for line in missing)
    lowered = rlx.jit(rnp.exp, device="coreml").lower(rlx.ShapeDtypeStruct((4,), np.float64))
    assert any(line["verdict"] == "missing" for line in lowered.report()["nodes"])
    with pytest.raises(rlx.Error, match="Core ML has no f64"):
        lowered.compile()
    with pytest.raises(rlx.Error, match="'quantum'"):
        rlx.dispatch_report(GRAPH, "quantum")


def test_a_compile_that_fails_carries_the_whole_report():
    with pytest.raises(NotImplementedError, match="Core ML has no f64") as raised:
        rlx.Session("coreml").compile(OF_F64)
    assert raised.value.report == rlx.dispatch_report(OF_F64, "coreml")
    assert pickle.loads(pickle.dumps(raised.value)).report == raised.value.report
    with pytest.raises(rlx.Error) as raised:
        rlx.Session().compile(GRAPH, strict=True, force_common=["softmax"])
    # The nodes that are not at fault are in it too.
    assert {line["op"]: line["verdict"] for line in raised.value.report["nodes"]} == {"matmul": "native", "softmax": "composed"}
    with pytest.raises(rlx.Error) as raised:
        rlx.Graph.load("/nowhere/at/all.rlx")
    assert raised.value.report is None


def test_params_are_bound_by_name(data):
    x, w, wanted = data
    compiled = rlx.Session().compile(GRAPH)
    assert (compiled.input_names, compiled.param_names, compiled.output_names) == (["x"], ["w"], ["y", "logits"])
    with pytest.raises(rlx.Error, match="'w'"):
        compiled.run({"x": x})
    compiled.set_params({"w": rnp.asarray(w)})
    out = compiled.run({"x": x})
    close(out["y"], wanted.astype("f4"), 1e-6)
    close(out["logits"], x @ w, 1e-5)
    compiled.set_param("w", 2 * w)
    close(compiled.run({"x": x})["logits"], 2 * (x @ w), 1e-5)
    for wrong, message in [(("v", w), "the graph has no param 'v'; it has w"), (("w", w.T), r"f32\[2, 3\]"), (("w", w.astype("f8")), r"f64\[3, 2\]")]:
        with pytest.raises(rlx.Error, match=message):
            compiled.set_param(*wrong)
    with pytest.raises(rlx.Error, match="the graph takes the inputs x; 'x' is not given"):
        compiled.run({})
    with pytest.raises(rlx.Error, match="the graph takes the inputs x; 'z' is none of them"):
        compiled.run({"x": x, "z": x})
    with pytest.raises(TypeError, match="the input 'x' is f32, got float64"):
        compiled.run({"x": x.astype("f8")})


def test_inputs_are_left_alone_unless_they_are_donated():
    graph = rlx.Graph.parse("""rlx 1
graph @next {
  %0 = input() @"state" : f32[1024]
  %1 = exp(%0) : f32[1024]
  return %1 @"state"
}
""")
    start = np.linspace(-1, 1, 1024, dtype="f4")
    for donate in ([], ["state"]):
        given = start.copy()
        close(rlx.Session().compile(graph, donate=donate).run({"state": given})["state"], np.exp(start), 1e-6)
        if not donate:
            assert np.array_equal(given, start)


def test_a_run_beyond_the_bounds_of_its_compile_is_an_error():
    graph = rlx.Graph.parse("""graph @doubled {
  %0 = input() @"x" : f32[N, 2]
  %1 = add(%0, %0) : f32[N, 2]
  return %1 @"y"
}""")
    compiled = rlx.Session(threads=1).compile(graph, bounds={"N": 4})
    np.testing.assert_array_equal(compiled.run({"x": np.ones((4, 2), "f4")})["y"], np.full((4, 2), 2, "f4"))
    with pytest.raises(rlx.Error, match="'N' is 5 in a run of 'doubled', which was compiled for at most 4"):
        compiled.run({"x": np.ones((5, 2), "f4")})
    for bounds, message in (({"M": 4}, "no symbol 'M'"), ({"N": 0}, "bounds takes NAME=NUMBER with a number of at least 1")):
        with pytest.raises(rlx.Error, match=message):
            rlx.Session(threads=1).compile(graph, bounds=bounds)
    with pytest.raises(TypeError):
        rlx.Session(threads=1).compile(graph, bounds={"N": 4.5})


def test_narrow_permits_coreml_to_compute_in_32_bits_what_has_64():
    graph = rlx.Graph.parse("""rlx 1
graph @sums {
  %0 = input() @"x" : i64[2, 3]
  %1 = reduce(%0) {kind = sum, axes = [1]} : i64[2]
  return %1 @"y"
}
""")
    x = np.array([[1, 2, 3], [-4, 5, 2**31 - 1]])
    with pytest.raises(rlx.Error, match="Core ML has no integers of 64 bits.*narrow=True"):
        rlx.Session("coreml").compile(graph)
    for compiled in (rlx.Session("coreml").compile(graph, narrow=True), rlx.Session("coreml", narrow=True).compile(graph)):
        y = compiled.run({"x": x})["y"]
        assert y.dtype == np.int64
        np.testing.assert_array_equal(y, x.astype("i4").sum(1, dtype="i4"))
        with pytest.raises(rlx.Error, match=r"the input 'x' has 4294967296 at \[0, 1\]"):
            compiled.run({"x": np.array([[1, 2**32, 3], [0, 0, 0]])})
    y = rlx.Session("coreml", narrow=True).compile(OF_F64).run({"x": np.array([0.0, 1, -1, 2])})["y"]
    close(np.asarray(y), np.exp([0.0, 1, -1, 2]), 1e-6)


def test_a_compile_takes_every_member_of_the_options_in_cpp():
    header = pathlib.Path(__file__).resolve().parents[2] / "include/rlx/compile.h"
    body = re.search(r"struct CompileOptions \{(.*?)static CompileOptions", header.read_text(), re.S).group(1)
    members = set(re.findall(r"[ >](\w+)\s*(?:=[^;]*)?;", re.sub(r"//.*", "", body)))
    assert len(members) >= 16
    assert members == set(inspect.signature(rlx._graph.compile_options).parameters)
    documented = rlx.Session.compile.__doc__
    assert all(re.search(rf"^        {m} ", documented, re.M) for m in members)


def test_the_pick_for_a_graph_is_told_with_its_reasons(caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    with caplog.at_level("INFO", "rlx"):
        assert rlx.pick_best_device(GRAPH) == rlx.pick_best_device()
    assert "none of those was measured" in caplog.text and "coreml: it was not measured here" in caplog.text
    own = rlx.custom_op(lambda x: x + 1, name="my_of_one_device")
    own.shape_rule(lambda x: x)
    text = own.register() and 'graph @g {\n %0 = input() @"x" : f32[2]\n %1 = my_of_one_device(%0) : f32[2]\n return %1\n}'
    assert rlx.pick_best_device(rlx.Graph.parse(text)) == "cpu"
    own.unregister()
