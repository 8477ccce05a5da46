"""rlx, coremltools and onnxruntime in one process, imported in the order of the arguments: each does its work, then each
once more. Both others carry protobuf and thread pools of their own."""

import importlib
import sys

import numpy as np

x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
w = np.arange(8, dtype=np.float32).reshape(4, 2)
wanted = np.tanh(x @ w)


def with_rlx():
    import rlx
    import rlx.numpy as rnp
    got = rlx.jit(lambda a, b: rnp.tanh(a @ b))(x, w)
    assert np.allclose(got, wanted, atol=1e-6)
    assert np.allclose(rlx.grad(lambda b: rnp.sum(rnp.tanh(x @ b)))(w), x.T @ (1 - wanted**2), atol=1e-5)
    s = (x.T @ x + np.eye(4)).astype(np.float32)
    assert np.allclose(rlx.linalg.inv(s), np.linalg.inv(s), atol=1e-4)
    try:  # an exception crosses from C++ to Python
        rlx.ops.matmul(x, x)
        raise AssertionError("a wrong product was taken")
    except rlx.Error:
        pass


def with_onnxruntime():
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4]),
                               helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x, "w": w})[0], wanted, atol=1e-6)


def with_coremltools():
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec(shape=(3, 4))])
    def program(x):
        return mb.tanh(x=mb.matmul(x=x, y=w), name="y")

    # On Linux a model is built and written, by protobuf; only macOS predicts with it.
    model = ct.convert(program, convert_to="neuralnetwork")
    again = ct.models.MLModel(model.get_spec(), skip_model_load=True)
    assert [o.name for o in again.get_spec().description.output] == ["y"]


WORK = {"rlx": with_rlx, "onnxruntime": with_onnxruntime, "coremltools": with_coremltools}
for name in sys.argv[1:]:
    importlib.import_module(name)
for name in sys.argv[1:] + sys.argv[1:][::-1]:
    WORK[name]()
