"""all-MiniLM-L6-v2, or BERT of base size, as an ONNX model of standard ops, run by ONNX Runtime (also after its own optimizer for transformers) or
OpenVINO. The files are made once, in the cache. Reading them is part of the time to the first result."""

import os
import pathlib

from yardstick import serve

THREADS, VARIANT = serve.threads_and_variant()

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import minilm_weights, runtimes  # noqa: E402



class Builder:
    def __init__(self, kind):
        self.layers, self.width, _, self.heads = suites.ENCODERS[kind]
        self.weights, self.nodes, self.constants = minilm_weights.load(), [], []

    def constant(self, name, value, dtype=None):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype), name))
        return name

    def weight(self, name, transposed=False):
        return self.constant(name, self.weights[name].T if transposed else self.weights[name])

    def __call__(self, op, *operands, **attributes):
        result = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(operands), [result], name=f"{op}_{result}", **attributes))
        return result

    def linear(self, name, x):
        return self("Add", self.weight(name + ".bias"), self("MatMul", x, self.weight(name + ".weight", transposed=True)))

    def norm(self, name, x):
        return self("LayerNormalization", x, self.weight(name + ".weight"), self.weight(name + ".bias"), axis=-1, epsilon=1e-12)

    def in_heads(self, x, order):
        return self("Transpose", self("Reshape", x, "split"), perm=order)


def make(path, kind):
    b = Builder(kind)
    size = b.width // b.heads
    for name, value in {"sqrt2": 2**0.5, "one": 1, "half": 0.5, "scale": size**0.5, "lowest": -3.4028235e38, "eps": 1e-9}.items():
        b.constant(name, value, np.float32)
    for name, value in {"split": [0, 0, b.heads, size], "merge": [0, 0, b.width], "at0": [0], "at1": [1], "at2": [2]}.items():
        b.constant(name, value, np.int64)
    length = b("Slice", b("Shape", "input_ids"), "at1", "at2")
    positions = b("Slice", b.constant("positions", np.arange(512)[None], np.int64), "at0", length, "at1")
    x = b("Add", b("Gather", b.weight("embeddings.word_embeddings.weight"), "input_ids"),
          b("Gather", b.weight("embeddings.token_type_embeddings.weight"), "token_type_ids"))  # fmt: skip
    x = b("Add", x, b("Gather", b.weight("embeddings.position_embeddings.weight"), positions))
    x = b.norm("embeddings.LayerNorm", x)
    keep = b("Cast", b("Unsqueeze", b("Unsqueeze", "attention_mask", "at1"), "at2"), to=TensorProto.FLOAT)
    bias = b("Mul", b("Sub", "one", keep), "lowest")
    for layer in range(b.layers):
        p = f"encoder.layer.{layer}."
        q, k, v = (b.in_heads(b.linear(f"{p}attention.self.{name}", x), order) for name, order in
                   (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))  # fmt: skip
        weights = b("Softmax", b("Add", b("Div", b("MatMul", q, k), "scale"), bias), axis=-1)
        mixed = b("Reshape", b("Transpose", b("MatMul", weights, v), perm=[0, 2, 1, 3]), "merge")
        x = b.norm(p + "attention.output.LayerNorm", b("Add", b.linear(p + "attention.output.dense", mixed), x))
        u = b.linear(p + "intermediate.dense", x)
        gelu = b("Mul", b("Mul", u, b("Add", b("Erf", b("Div", u, "sqrt2")), "one")), "half")
        x = b.norm(p + "output.LayerNorm", b("Add", b.linear(p + "output.dense", gelu), x))
    kept = b("Cast", b("Unsqueeze", "attention_mask", "at2"), to=TensorProto.FLOAT)
    count = b("Max", b("ReduceSum", kept, "at1", keepdims=0), "eps")
    x = b("Div", b("ReduceSum", b("Mul", x, kept), "at1", keepdims=0), count)
    b("Div", x, b("ReduceL2", x, axes=[1], keepdims=1))
    b.nodes[-1].output[0] = "embedding"
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["B", "S"])
              for n in ("input_ids", "attention_mask", "token_type_ids")]  # fmt: skip
    result = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["B", b.width])
    graph = helper.make_graph(b.nodes, kind, inputs, [result], b.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def int8_path(plain, kind):
    """The model after ONNX Runtime's dynamic quantization of its products; for OpenVINO, after NNCF's quantization, which
    is calibrated with inputs like those that are measured."""
    if VARIANT == "openvino":
        inputs = [suites.minilm_inputs(case) for case in ("minilm_1x128", "minilm_8x128")]
        return runtimes.by_nncf(plain, inputs, keep_in=pathlib.Path(plain).with_name(f"{kind}_int8.xml"), is_transformer=True)
    path = pathlib.Path(plain).with_name(pathlib.Path(plain).stem + "_int8.onnx")
    if not path.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, str(path), op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": TensorProto.FLOAT})
    return str(path)


def model_path(kind):
    plain, fused = (minilm_weights.bench_cache() / f"{kind}{suffix}.onnx" for suffix in ("", "_fused"))
    if not plain.exists():
        make(plain, kind)
    if VARIANT != "onnxruntime-fused":
        return str(plain)
    if not fused.exists():
        from onnxruntime.transformers import optimizer

        optimizer.optimize_model(str(plain), model_type="bert", num_heads=suites.ENCODERS[kind][3],
                                 hidden_size=suites.ENCODERS[kind][1], opt_level=0).save_model_to_file(str(fused))  # fmt: skip
    return str(fused)


def prepare(case):
    inputs, kind = suites.minilm_inputs(case), suites.kind_of(case)
    net = kind if kind in suites.ENCODERS else "minilm"
    path = int8_path(model_path(net), net) if serve.COMPUTE == "int8" else model_path(net)
    if kind in suites.ENCODERS:
        return lambda: runtimes.runner(VARIANT)(path, inputs, THREADS)
    # From nothing each time, or with what an earlier start left.
    kept = None
    if kind == "restart":
        kept = str(minilm_weights.bench_cache() / f"restart_{VARIANT}{os.environ.get('YARDSTICK_ISA', '')}")
        runtimes.runner(VARIANT)(path, inputs, THREADS, kept)
    return lambda: lambda: runtimes.runner(VARIANT)(path, inputs, THREADS, kept)()


if __name__ == "__main__":
    serve.serve(prepare)
