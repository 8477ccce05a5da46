"""Block formats: what random and extreme blocks stand for, and how numbers become blocks, by the PyPI package `gguf`.

usage: blocks.py
writes tests/golden/blocks/: blocks.safetensors, versions.json

FORMAT/blocks is u8[count, bytes of a block], FORMAT/values f32[count, elements]; FORMAT/numbers f32 and FORMAT/encoded u8 are
what an encoder takes and makes. block_formats.py says which formats gguf does not read and who decodes them.
"""
import numpy as np

import recorded
from block_formats import FORMATS, NOT_IN_GGUF, decode, encode, extreme_blocks, random_blocks
from ops.case import write_safetensors

ENCODED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4", "tq1_0", "tq2_0")


def numbers(name):
    """Rows of all kinds: normal ones, one sign, a single number, zeros, large and small ones."""
    elements = FORMATS[name][0]
    random = np.random.RandomState(7)
    rows = random.standard_normal((12, elements)).astype(np.float32)
    rows[1], rows[2], rows[3] = np.abs(rows[1]), -np.abs(rows[2]), 0
    rows[4, 1:], rows[5, :-1] = 0, 0
    rows[6] *= 1000
    rows[7] *= 1e-3
    rows[8] = rows[8, 0]
    rows[9] = np.linspace(-1, 1, elements)
    return rows


def main():
    out, tensors = recorded.folder("blocks"), {}
    for name in FORMATS:
        blocks = np.concatenate([random_blocks(name, 24, "golden"), extreme_blocks(name)])
        values = decode(name, blocks)
        assert np.isfinite(values).all() and values.dtype == np.float32, name
        tensors |= {f"{name}/blocks": blocks, f"{name}/values": values}
        if name in ENCODED:
            tensors |= {f"{name}/numbers": numbers(name), f"{name}/encoded": encode(name, numbers(name))}
    write_safetensors(out / "blocks.safetensors", tensors)
    recorded.write_versions(out, "blocks.py", ["gguf", "numpy"], formats=list(FORMATS), decoded_here=list(NOT_IN_GGUF), encoded=list(ENCODED))


if __name__ == "__main__":
    main()
