"""The tagger as an ONNX graph, run by ONNX Runtime or OpenVINO."""

import pathlib
import tempfile

from yardstick import serve

THREADS, VARIANT = serve.threads_and_variant()

import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import runtimes, tagger_net  # noqa: E402


def in_onnx_order(gates):
    """Rows of the gates i, f, g, o in ONNX's order i, o, f, g."""
    i, f, g, o = np.split(gates, 4, axis=1)
    return np.concatenate([i, o, f, g], axis=1)


def model_of(case):
    w = tagger_net.load()
    bias = in_onnx_order(w["bias"])
    constants = {"words": w["words"], "w_ih": in_onnx_order(w["w_ih"]), "w_hh": in_onnx_order(w["w_hh"]),
                 "bias": np.concatenate([bias, np.zeros_like(bias)], axis=1), "tags": w["tags"], "tag_bias": w["tag_bias"],
                 "merged": np.array([0, 0, 2 * suites.HIDDEN], np.int64)}  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["batch_first"]),
        helper.make_node("Transpose", ["batch_first"], ["x"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["x", "w_ih", "w_hh", "bias"], ["y"], hidden_size=suites.HIDDEN, direction="bidirectional", name="lstm"),
        helper.make_node("Transpose", ["y"], ["y_batch_first"], perm=[2, 0, 1, 3]),
        helper.make_node("Reshape", ["y_batch_first", "merged"], ["both"]),
        helper.make_node("MatMul", ["both", "tags"], ["product"], name="product"),
        helper.make_node("Add", ["product", "tag_bias"], ["scores"]),
    ]
    shape = suites.extents_of(case)
    graph = helper.make_graph(nodes, "tagger", [helper.make_tensor_value_info("ids", TensorProto.INT64, shape)],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [*shape, suites.TAGS])],
                              [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in constants.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def int8_of(model, inputs):
    with tempfile.TemporaryDirectory() as folder:
        plain, quantized = (str(pathlib.Path(folder) / name) for name in ("plain.onnx", "int8.onnx"))
        pathlib.Path(plain).write_bytes(model)
        if VARIANT == "openvino":
            return runtimes.by_nncf(plain, [inputs])
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, quantized, op_types_to_quantize=["MatMul", "LSTM"], per_channel=True, weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": TensorProto.FLOAT})  # fmt: skip
        return pathlib.Path(quantized).read_bytes()


def prepare(case):
    model, inputs = model_of(case), suites.tagger_inputs(case)
    if serve.COMPUTE == "int8":
        model = int8_of(model, inputs)
    return lambda: runtimes.runner(VARIANT)(model, inputs, THREADS)


if __name__ == "__main__":
    serve.serve(prepare)
