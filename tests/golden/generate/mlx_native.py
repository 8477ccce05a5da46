"""What MLX itself (mlx from PyPI) makes of products of rows with a chosen matrix each, of floats (mx.gather_mm) and packed (mx.gather_qmm), of
sums of outer products by segment (mx.segmented_mm), and of its random bits. Writes ../mlx/native.safetensors.

    python3 tests/golden/generate/mlx_native.py
"""
import json
import pathlib

import mlx.core as mx
import numpy as np

EXPERTS, INPUTS, OUTPUTS, ROWS = 4, 128, 6, 5
PACKED = {"affine_4_64": ("affine", 4, 64), "affine_8_32": ("affine", 8, 32), "mxfp4": ("mxfp4", 4, 32), "mxfp8": ("mxfp8", 8, 32), "nvfp4": ("nvfp4", 4, 16)}

here = pathlib.Path(__file__).parent.parent / "mlx"
random = np.random.default_rng(2612)
written, worst = {}, {}


def normal(*shape):
    return mx.array(random.normal(0, 0.5, shape).astype(np.float32))


def keep(name, x, w, index, y):
    """Beside the same products in f64."""
    rows = np.array(x).astype(np.float64)
    exact = np.stack([row @ np.array(w).astype(np.float64)[e] for row, e in zip(rows, np.array(index))])
    worst[name] = float(np.abs(exact - np.array(y)).max())
    written.update({f"{name}/x": x, f"{name}/index": index.astype(mx.int32), f"{name}/y": y})


index = mx.array([3, 0, 2, 3, 1], mx.uint32)
x, w = normal(ROWS, INPUTS), normal(EXPERTS, INPUTS, OUTPUTS)
written["floats/w"] = w
keep("floats", x, w, index, mx.gather_mm(mx.expand_dims(x, 1), w, None, index)[:, 0])
for name, (mode, bits, group) in PACKED.items():
    x = normal(ROWS, INPUTS)
    words, scales, *biases = mx.quantize(normal(EXPERTS, OUTPUTS, INPUTS), group_size=group, bits=bits, mode=mode)
    biases = biases[0] if biases else None
    dense = mx.dequantize(words, scales, biases, group, bits, mode).astype(mx.float32)
    y = mx.gather_qmm(mx.expand_dims(x, 1), words, scales, biases, None, index, True, group, bits, mode)[:, 0]
    keep(name, x, dense.transpose(0, 2, 1), index, y)
    written |= {f"{name}/words": words, f"{name}/scales": scales}
    if biases is not None:
        written[f"{name}/biases"] = biases
key = mx.array([7, 2600000000], mx.uint32)
written["bits/key"] = key
for count in (1, 2, 9):  # new keys are random bits of the old one
    written[f"bits/{count}"] = mx.random.split(key, count)
x, y, index = normal(17, 24), normal(17, OUTPUTS), np.array([2, 0, -1, 2, 4, 0, 0, 2, 3, 9, 2, 3, 3, 0, 2, 2, 4])  # segment 1 is empty, two rows are in none
of_segment = [np.flatnonzero(index == s) for s in range(5)]
order, ends = mx.array(np.concatenate(of_segment)), np.cumsum([len(rows) for rows in of_segment])
bounds = mx.array(np.stack([ends - [len(rows) for rows in of_segment], ends], 1), mx.uint32)
sums = mx.segmented_mm(x[order].T, y[order], bounds)
exact = np.stack([np.array(x, np.float64)[rows].T @ np.array(y, np.float64)[rows] for rows in of_segment])
worst["segments"] = float(np.abs(exact - np.array(sums)).max())
written |= {"segments/x": x, "segments/y": y, "segments/index": mx.array(index, mx.int32), "segments/sums": sums}
mx.eval(written)
mx.save_safetensors(str(here / "native.safetensors"), written)
(here / "native.json").write_text(json.dumps({"mlx": mx.__version__, "numpy": np.__version__, "from f64, at most": max(worst.values())}, indent=1) + "\n")
print(worst)
