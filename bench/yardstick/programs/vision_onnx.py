"""The networks for images as ONNX graphs, run by ONNX Runtime or OpenVINO, which fold the norms themselves."""

import pathlib
import tempfile

from yardstick import serve

THREADS, VARIANT = serve.threads_and_variant()

import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import minilm_weights, runtimes, vision_nets  # noqa: E402

OPS = {"conv": "Conv", "norm": "BatchNormalization", "relu": "Relu", "relu6": "Clip", "add": "Add", "maxpool": "MaxPool",
       "mean": "ReduceMean", "linear": "Gemm"}  # fmt: skip


def model_of(net):
    constants = [numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.float32(6), "six"),
                 numpy_helper.from_array(np.array([2, 3], np.int64), "places")]  # fmt: skip
    nodes, extra = [], {"relu6": ["zero", "six"], "mean": ["places"]}
    for at, (op, inputs, arrays, given) in enumerate(net.layers, 1):
        names = [f"w{at}_{i}" for i in range(len(arrays))]
        constants += [numpy_helper.from_array(a, n) for a, n in zip(arrays, names)]
        attributes = {"conv": lambda: {"strides": [given["stride"]] * 2, "pads": [given["pad"]] * 4, "group": given["groups"]},
                      "maxpool": lambda: {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
                      "mean": lambda: {"keepdims": 0}, "norm": lambda: {"epsilon": 1e-5}}.get(op, dict)()  # fmt: skip
        nodes.append(helper.make_node(OPS[op], [f"v{i}" for i in inputs] + names + extra.get(op, []), [f"v{at}"], **attributes))
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, net.image.shape)],
        [helper.make_tensor_value_info(f"v{len(net.layers)}", TensorProto.FLOAT, None)], constants)  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def int8_of(model):
    """After ONNX Runtime's dynamic quantization of convolutions (DynamicQuantizeLinear, ConvInteger) and of the last
    product. It leaves norms alone, so they are folded before."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        folded, quantized = (str(pathlib.Path(folder) / name) for name in ("folded.onnx", "int8.onnx"))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath, options.log_severity_level = folded, 3
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        quantize_dynamic(folded, quantized, op_types_to_quantize=["Conv", "MatMul", "Gemm"], per_channel=True, weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": TensorProto.FLOAT})  # fmt: skip
        return pathlib.Path(quantized).read_bytes()


def prepare(case):
    net = vision_nets.NETS[suites.kind_of(case)](*suites.extents_of(case))
    model, inputs = model_of(net), {"v0": net.image}
    if serve.COMPUTE == "int8" and VARIANT == "onnxruntime":
        model = int8_of(model)
    elif serve.COMPUTE == "int8":
        model = runtimes.by_nncf(model, [inputs], keep_in=minilm_weights.bench_cache() / f"{case}_int8.xml")
    return lambda: runtimes.runner(VARIANT)(model, inputs, THREADS)


if __name__ == "__main__":
    serve.serve(prepare)
