#!/usr/bin/env python3
"""Writes src/tensor/blocks/grids.inc: the grids of the IQ formats, from the PyPI package `gguf`, which holds ggml's.

A grid is a list of points of 8 or 4 coordinates that take few values. Here a point is one number: two bits a coordinate (four
for those with eight values), low bits first; which value a code stands for is said in iq_blocks.cpp. Run by hand, with
gguf 0.19.0 and NumPy; the build needs neither.
"""
import pathlib

import numpy as np
from gguf import quants

OUT = pathlib.Path(__file__).resolve().parents[1] / "src" / "tensor" / "blocks" / "grids.inc"


def codes(kind):
    kind.init_grid()
    points = kind.grid.reshape(kind.grid_shape)
    values = np.array(kind.grid_map, np.float32)
    index = np.searchsorted(values, points)
    assert (values[index] == points).all() and (np.diff(values) > 0).all()
    bits = 2 if len(values) == 3 else 4
    assert bits * points.shape[1] == 16
    return (index.astype(np.uint32) << (bits * np.arange(points.shape[1], dtype=np.uint32))).sum(axis=1)


def main():
    lines = ["// Written by scripts/block_grids.py: do not edit. clang-format off\n"]
    for name in ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"):
        grid = codes(getattr(quants, name))
        lines.append(f"constexpr uint16_t k{name.title().replace('_', '')}[{len(grid)}] = {{\n")
        for i in range(0, len(grid), 16):
            lines.append("  " + ", ".join(f"0x{c:04x}" for c in grid[i:i + 16]) + ",\n")
        lines.append("};\n")
    lines.append("// clang-format on\n")
    OUT.write_text("".join(lines))


if __name__ == "__main__":
    main()
