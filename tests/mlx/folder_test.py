#!/usr/bin/env python3
"""Folders of packed language models as mlx-lm lays them out, written by `rlx convert`: Python's `mlx` reads the triples of weights, scales and biases by what
config.json says of them, and its numbers and products are those of the same model in floats. Skipped where Python has no MLX."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

from program import rlx

PACKED = ROOT / "tests/golden/packed_language_models"
# Prints how many matrices are packed, with how many bits, and how far their numbers and products are from those wanted. Arguments: the packed folder,
# and one in floats.
READS = """
import json, pathlib, sys
import mlx.core as mx
import numpy as np
packed, dense = map(pathlib.Path, sys.argv[1:])
said = json.loads((packed / "config.json").read_text())["quantization"]
tensors, wanted = mx.load(str(packed / "model.safetensors")), mx.load(str(dense / "model.safetensors"))
assert set(wanted) == {name for name in tensors if not name.endswith((".scales", ".biases"))}
count, numbers, products, kinds = 0, 0.0, 0.0, set()
for name, words in tensors.items():
    module = name.removesuffix(".weight")
    scales = tensors.get(module + ".scales")
    if scales is None or not name.endswith(".weight"):
        continue
    how = said.get(module, said)
    group, bits = how["group_size"], how["bits"]
    scales, biases = scales.astype(mx.float32), tensors[module + ".biases"].astype(mx.float32)
    exact = wanted[name].astype(mx.float32)
    numbers = max(numbers, mx.abs(mx.dequantize(words, scales, biases, group, bits) - exact).max().item())
    x = np.random.default_rng(count).normal(0, 1, (3, exact.shape[1])).astype(np.float32)
    y = mx.quantized_matmul(mx.array(x), words, scales, biases, True, group, bits)
    products = max(products, float(np.abs(np.array(y) - x.astype(np.float64) @ np.array(exact).astype(np.float64).T).max()))
    count += 1
    kinds.add(bits)
print(json.dumps([count, sorted(kinds), numbers, products]))
"""


def python_with_mlx():
    for python in (sys.executable, ROOT / ".deps/venv/bin/python3"):
        if pathlib.Path(python).exists() and subprocess.run([python, "-c", "import mlx.core"], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Folder(unittest.TestCase):
    def converted(self, *words):
        made = rlx("convert", *words)
        self.assertEqual(made.returncode, 0, made.stderr)

    def read(self, packed, dense):
        ran = subprocess.run([PYTHON, "-c", READS, packed, dense], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)

    def check(self, source, bits, *options):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.converted(source, "-o", folder / "m.gguf", *options)
            self.converted(folder / "m.gguf", "-o", folder / "packed")
            self.converted(folder / "m.gguf", "-o", folder / "dense", "--dequantize", "f32")
            count, kinds, numbers, products = self.read(folder / "packed", folder / "dense")
            self.assertGreater(count, 5)
            self.assertEqual(kinds, bits)
            self.assertLess(numbers, 1e-6)
            self.assertLess(products, 1e-4)

    def test_a_model_that_is_quantized(self):
        for kind, bits in (("q8_0", 8), ("q4_1", 4), ("q4_0", 4)):
            self.check(PACKED / "mlx_4", [bits], "--dequantize", "f32", "--quantize", kind)

    def test_a_model_that_mlx_packed_comes_back_as_it_was(self):
        self.check(PACKED / "mlx_4", [4])
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.converted(PACKED / "mlx_4", "-o", folder / "m.gguf")
            self.converted(folder / "m.gguf", "-o", folder / "packed")
            same = ("import sys, pathlib, mlx.core as mx\n"
                    "a, b = (mx.load(str(pathlib.Path(p) / 'model.safetensors')) for p in sys.argv[1:])\n"
                    "names = [n for n in a if n.removesuffix('.weight') + '.scales' in a and n.endswith('.weight')]\n"
                    "print(len(names), sum(bool(mx.array_equal(a[n], b[n]).item()) for n in names))")
            ran = subprocess.run([PYTHON, "-c", same, PACKED / "mlx_4", folder / "packed"], capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            count, equal = map(int, ran.stdout.split())
            self.assertGreater(count, 5)
            self.assertEqual(count, equal)


if __name__ == "__main__":
    PYTHON = python_with_mlx()
    if not PYTHON:
        print("skipped: no Python here has mlx")
        sys.exit(77)
    unittest.main()
