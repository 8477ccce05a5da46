"""Writes quantized.json: blocks of GGML and what the package gguf reads from them, for quantized_test.go.

    python3 bindings/go/gomlx/testdata/quantized.py      # with gguf 0.19
"""
import base64
import json
import pathlib

import gguf
import numpy as np

ROWS = 3
# Where the halves stand that scale a block: bytes by chance would make infinities of them.
HALVES = {"Q4_0": [0], "Q8_0": [0], "IQ4_NL": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def main():
    draw = np.random.default_rng(11)
    document = {}
    for name, places in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        values, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = draw.integers(0, 256, (ROWS, 512 // values, size), dtype=np.uint8)
        for at in places:
            scale = (draw.standard_normal(blocks.shape[:2]) * 0.02).astype(np.float16)
            blocks[:, :, at : at + 2] = scale[..., None].view(np.uint8)
        rows = blocks.reshape(ROWS, -1)
        read = gguf.dequantize(rows, kind).astype(np.float32)
        x = draw.standard_normal((2, 512)).astype(np.float32)
        document[name] = {
            "bytes": base64.b64encode(rows.tobytes()).decode(),
            "row": base64.b64encode(read[1].tobytes()).decode(),
            "x": base64.b64encode(x.tobytes()).decode(),
            "product": (x.astype(float) @ read.T.astype(float)).ravel().tolist(),
        }
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")


main()
