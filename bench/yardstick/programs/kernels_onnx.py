"""The kernels as ONNX graphs of one op each (the chain: of six), run by ONNX Runtime or OpenVINO. Weights are constant."""

from yardstick import serve

THREADS, VARIANT = serve.threads_and_variant()

import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import runtimes  # noqa: E402


def model_of(case, inputs, weights):
    kind, d, nodes = suites.kind_of(case), suites.extents_of(case), []
    x, w = [f"x{i}" for i in range(len(inputs))], [f"w{i}" for i in range(len(weights))]
    constants = [numpy_helper.from_array(a, n) for a, n in zip(weights, w)]

    def constant(name, value, dtype=np.float32):
        constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(name, operands, result="y", **attributes):
        nodes.append(helper.make_node(name, operands, [result], **attributes))
        return result

    if kind in ("gemm", "linear"):
        op("MatMul", x + w)
    elif kind == "softmax":
        op("Softmax", x, axis=-1)
    elif kind == "layernorm":
        op("LayerNormalization", x + w, axis=-1, epsilon=1e-5)
    elif kind == "ewchain":
        scaled = op("Add", [op("Mul", ["x0", constant("a", 1.5)], "t0"), constant("b", 0.5)], "t1")
        product = op("Mul", [op("Gelu", [scaled], "t2"), "x0"], "t3")
        op("Sub", [product, op("Relu", ["x0"], "t4")])
    elif kind == "sdpa":
        scores = op("MatMul", ["x0", op("Transpose", ["x1"], "kt", perm=[0, 1, 3, 2])], "s0")
        weighted = op("Softmax", [op("Mul", [scores, constant("scale", d[3] ** -0.5)], "s1")], "s2", axis=-1)
        op("MatMul", [weighted, "x2"])
    elif kind in ("conv3x3", "dwconv3x3"):
        op("Conv", x + w, pads=[1] * 4, group=d[1] if kind == "dwconv3x3" else 1)
    else:
        op("ReduceSum", ["x0", constant("axes", [1 if kind == "sumrow" else 0], np.int64)], keepdims=0)
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(x, inputs)]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, case, types, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model.SerializeToString(), dict(zip(x, inputs))


def prepare(case):
    model, inputs = model_of(case, *suites.arrays_of(case))
    return lambda: runtimes.runner(VARIANT)(model, inputs, THREADS)


if __name__ == "__main__":
    serve.serve(prepare)
