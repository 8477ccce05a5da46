"""Quantization from Python, beside the net that tests/golden/generate/quantization.py computes in integers and trains with PyTorch."""

import json
import os
import pathlib
import struct

import numpy as np
import pytest

import rlx
from rlx import quantization, train

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/quantization"
NET = """rlx 1
graph @net {
  %0 = input() @"x" : DT[N, 1, 8, 8]
  INPUT
  %2 = param() @"conv.weight" : DT[3, 1, 3, 3]
  %3 = param() @"conv.bias" : DT[3]
  %4 = param() @"out.weight" : DT[4, 48]
  %5 = param() @"out.bias" : DT[4]
  %6 = conv(%0, %2) {padding = [1, 1]} : DT[N, 3, 8, 8]
  %7 = broadcast_in_dim(%3) {dims = [N, 3, 8, 8], axes = [1]} : DT[N, 3, 8, 8]
  %8 = add(%6, %7) : DT[N, 3, 8, 8]
  %9 = relu(%8) : DT[N, 3, 8, 8]
  %10 = pool(%9) {kernel_size = [2, 2]} : DT[N, 3, 4, 4]
  %11 = reshape(%10) {dims = [N, 48]} : DT[N, 48]
  %12 = linear(%11, %4, %5) : DT[N, 4]
  OUTPUT
}
"""


def net(dtype="f32", loss=False):
    text = NET.replace("DT", dtype)
    if not loss:
        return rlx.Graph.parse(text.replace("  INPUT\n", "").replace("OUTPUT", 'return %12 @"y"'))
    text = text.replace("INPUT", '%1 = input() @"t" : i32[N]').replace("[N", "[8")
    tail = f"%13 = softmax_cross_entropy_with_logits(%12, %1) : {dtype}[8]\n  %14 = mean(%13) {{axes = [0]}} : {dtype}[]\n  return %14 @\"loss\""
    return rlx.Graph.parse(text.replace("OUTPUT", tail).replace("dims = [N", "dims = [8"))


def golden(name):
    data = (GOLDEN / name).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    dtypes = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I8": np.int8}
    return {key: np.frombuffer(data[8 + size:][slice(*e["data_offsets"])], dtypes[e["dtype"]]).reshape(e["shape"])
            for key, e in json.loads(data[8:8 + size]).items() if key != "__metadata__"}


def params_of(arrays, prefix=""):
    return {name: arrays[prefix + name] for name in ("conv.weight", "conv.bias", "out.weight", "out.bias")}


def test_codes_are_those_of_integer_arithmetic(tmp_path):
    g = golden("codes.safetensors")
    params = params_of(g)
    ranges = quantization.calibrate(net(), params, [{"x": g["calibration"]}])
    assert [e["name"] for e in ranges.entries] == ["conv.output", "out.output", "x"]
    assert "conv.output" in ranges.table()
    ranges.save(tmp_path / "ranges.json")
    made = quantization.add(net())
    assert {p["name"] for p in made.points} == {"x", "conv.output", "out.output", "conv.weight", "out.weight"}
    scales = made.initial(params, quantization.Ranges.load(tmp_path / "ranges.json"))
    for name, (scale, zero) in zip(("x", "conv.output", "out.output"), g["scales"]):
        assert np.isclose(float(scales[name + ".scale"]), scale, rtol=1e-6)
        assert int(scales[name + ".zero_point"]) == zero
    int8 = quantization.export(made.graph, {**params, **scales})
    assert "qconv2d" in int8.table and "qmatmul" in int8.table
    int8.graph.save(tmp_path / "int8.rlx")
    y, = rlx.Session().compile(rlx.Graph.load(tmp_path / "int8.rlx")).call([g["x"]])
    assert np.array_equal(y, g["y"])


def test_ranges_that_cannot_be_written_leave_the_old_ones(tmp_path):
    path = tmp_path / "ranges.json"
    ranges = quantization.Ranges('{"activations": []}')
    ranges.save(path)
    ranges._json = "\ud800"  # no UTF-8: fails while it is written
    with pytest.raises(UnicodeEncodeError):
        ranges.save(path)
    assert path.read_text() == '{"activations": []}'
    assert os.listdir(tmp_path) == ["ranges.json"]


def test_steps_with_moving_means_follow_pytorch():
    g = golden("steps.safetensors")
    start = params_of(g, "start/")
    made = quantization.add(net("f64", loss=True), training=True, activations="ema", decay=0.9)
    assert made.written["x.range"] == "new/x.range"
    session = train.Session(made.graph, {**start, **made.initial(start)}, train.sgd(1 / 32), groups=made.groups, written=made.written)
    losses = [session.step({"x": g["x"], "t": g["t"]}).loss for _ in g["ema_per_batch/losses"]]
    np.testing.assert_allclose(losses, g["ema_per_batch/losses"], atol=1e-5)
    np.testing.assert_allclose(np.asarray(session.params["out.output.range"]), g["ema_per_batch/out.output.range"], atol=1e-5)
    int8 = quantization.export(quantization.add(net("f64"), activations="ema").graph, session.params)
    assert "qmatmul" in int8.table


def test_learnt_scales_have_a_group_of_their_own():
    made = quantization.add(net(), activations="learned", weights="fixed", classes={"conv": {"weight_bits": 4}})
    assert [(g.frozen, g.weight_decay) for g in made.groups] == [(True, None), (False, 0)]
    assert {p["name"]: p["high"] for p in made.points}["conv.weight"] == 7


def test_what_is_refused():
    g = golden("codes.safetensors")
    with pytest.raises(rlx.Error, match="there are no calibration data"):
        quantization.calibrate(net(), params_of(g), [])
    with pytest.raises(rlx.Error, match="calibrate the graph first"):
        quantization.add(net()).initial(params_of(g))
    with pytest.raises(rlx.Error, match="no fake quantization"):
        quantization.export(net(), params_of(g))
    with pytest.raises(rlx.Error, match="is quantized already"):
        quantization.add(quantization.add(net()).graph)
    with pytest.raises(TypeError, match="no setting of quantization is called 'bits'"):
        quantization.add(net(), bits=4)
    with pytest.raises(rlx.Error, match="belongs to a loss that is a graph"):
        train.Session(lambda params, batch: batch, {"w": np.zeros(1, np.float32)}, written={"a": "b"})
    with pytest.raises(rlx.Error, match="differ in what they name"):
        quantization.calibrate(net(), params_of(g), [{"x": g["x"]}, {"y": g["x"]}])
