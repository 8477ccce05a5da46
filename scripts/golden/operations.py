"""Golden cases of single ops, computed by NumPy, SciPy, PyTorch, JAX and ONNX's reference evaluator.

usage: operations.py [MODULE...]        (modules of ops/; all of them if none is named)
writes tests/golden/ops/: FAMILY.rlx (graphs), FAMILY.safetensors (their inputs and outputs), versions.json
"""
import importlib
import sys

import recorded

MODULES = ["elementwise", "activations", "shape", "index", "index_gradients", "take", "arrange_gradients", "reduce", "contract",
           "norms", "attention", "attention_gradients", "windows", "window_gradients", "network_gradients", "recurrent",
           "quantize", "qat", "linalg", "linalg_singular", "random", "fft", "special"]


def main(names):
    out, count, ops = recorded.folder("ops"), 0, set()
    for module in names or MODULES:
        for family in importlib.import_module(f"ops.{module}").cases():
            family.write(out)
            count += len(family.graphs)
            ops |= family.ops
            print(f"{family.name}: {len(family.graphs)} cases of {len(family.ops)} ops")
    if not names:
        recorded.write_versions(out, "operations.py", ["numpy", "scipy", "torch", "jax", "jaxlib", "onnx", "ml_dtypes", "gguf", "mpmath"], cases=count, ops=sorted(ops))


if __name__ == "__main__":
    main(sys.argv[1:])
