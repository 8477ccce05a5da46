"""Products with packed weights by MLX itself (mlx from PyPI): random weights quantized by mx.quantize in each of its
modes, and what mx.quantized_matmul makes of them. Writes ../mlx/packed.safetensors.

    python3 tests/golden/generate/mlx_packed.py
"""
import json
import pathlib

import mlx.core as mx
import numpy as np

INPUTS, OUTPUTS, ROWS = 256, 12, 3
CASES = {f"affine_{bits}_{group}": ("affine", bits, group) for bits, group in ((2, 32), (3, 64), (4, 32), (4, 64), (4, 128), (6, 64), (8, 32), (8, 128))}
CASES |= {"mxfp4": ("mxfp4", 4, 32), "mxfp8": ("mxfp8", 8, 32), "nvfp4": ("nvfp4", 4, 16)}

here = pathlib.Path(__file__).parent.parent / "mlx"
here.mkdir(exist_ok=True)
random = np.random.default_rng(26)
written, worst = {}, {}
for name, (mode, bits, group) in CASES.items():
    weights = mx.array(random.normal(0, 0.3, (OUTPUTS, INPUTS)).astype(np.float32))
    x = mx.array(random.normal(0, 1, (ROWS, INPUTS)).astype(np.float32))
    packed = mx.quantize(weights, group_size=group, bits=bits, mode=mode)
    words, scales, biases = (*packed, None)[:3]
    y = mx.quantized_matmul(x, words, scales, biases, True, group, bits, mode)
    mx.eval(y)
    # Beside the same product of what mx.dequantize gives, in f64.
    dense = np.array(mx.dequantize(words, scales, biases, group, bits, mode).astype(mx.float32)).astype(np.float64)
    worst[name] = float(np.abs(np.array(x).astype(np.float64) @ dense.T - np.array(y)).max())
    written |= {f"{name}/x": x, f"{name}/words": words, f"{name}/scales": scales, f"{name}/y": y}
    if biases is not None:
        written[f"{name}/biases"] = biases
mx.save_safetensors(str(here / "packed.safetensors"), written)
(here / "versions.json").write_text(json.dumps({"mlx": mx.__version__, "numpy": np.__version__, "from f64, at most": max(worst.values())}, indent=1) + "\n")
print(worst)
