"""Golden cases of single ops, computed by NumPy, SciPy, PyTorch, JAX and ONNX's reference evaluator.

usage: operations.py [MODULE...]        (modules of ops/; all of them if none is named)
writes tests/golden/ops/: FAMILY.rlx (graphs), FAMILY.safetensors (their inputs and outputs), versions.json
"""
import importlib
import re
import sys

import recorded

MODULES = ["elementwise", "elementwise_gradients", "activations", "shape", "index", "index_gradients", "take", "arrange_gradients", "reduce", "contract",
           "norms", "attention", "attention_gradients", "windows", "window_gradients", "network_gradients", "recurrent",
           "quantize", "block_caches", "scaled", "qat", "linalg", "spd", "sparse", "linalg_singular", "random", "fft", "signal", "special", "splat", "optimizers"]


def main(names):
    out = recorded.folder("ops")
    for module in names or MODULES:
        for family in importlib.import_module(f"ops.{module}").cases():
            family.write(out)
            print(f"{family.name}: {len(family.graphs)} cases of {len(family.ops)} ops")
    # Counted in the files, so that a run of some modules counts the others too.
    graphs = [g for path in sorted(out.glob("*.rlx")) for g in path.read_text(encoding="ascii").split("graph @")[1:]]
    ops = {op for g in graphs for op in re.findall(r"= (\w+)\(", g)} - {"input"}
    recorded.write_versions(out, "operations.py", ["numpy", "scipy", "torch", "jax", "jaxlib", "onnx", "ml_dtypes", "gguf", "mpmath", "optax"], cases=len(graphs), ops=sorted(ops))


if __name__ == "__main__":
    main(sys.argv[1:])
