#!/usr/bin/env python3
"""`rlx convert MODEL -o X.mlxfn`: a Python that has mlx imports the function and runs it, with the
numbers that NumPy computed (tests/golden/models). Skipped where this build, or Python, has no MLX."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

from program import rlx

MODELS = ROOT / "tests/golden/models"
# Prints how far the outputs are from those wanted. Arguments: the function, the file of tensors, the case, then the
# names of inputs, "->", and of outputs.
IMPORTS = """
import sys
import mlx.core as mx
path, file, case, *names = sys.argv[1:]
tensors, at = mx.load(file), names.index("->")
given = {name: tensors[f"in{case}/{name}"] for name in names[:at]}
function = mx.import_function(path)
outputs = function(*given.values())
assert len(outputs) == len(names) - at - 1
for name, got in zip(names[at + 1:], outputs):
    wanted = tensors[f"out{case}/{name}"]
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (name, got.shape, got.dtype)
    print(mx.abs(got - wanted).max().item())
"""


def python_with_mlx():
    for python in (sys.executable, ROOT / ".deps/venv/bin/python3"):
        if pathlib.Path(python).exists() and subprocess.run([python, "-c", "import mlx.core"], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Function(unittest.TestCase):
    def differences(self, model, case, inputs, outputs, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{model}.mlxfn"
            tensors = MODELS / f"{model}.safetensors"
            made = rlx("convert", MODELS / f"{model}.rlx", "--params", tensors, "-o", path, "--json", *options)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual(json.loads(made.stdout)["bytes"], path.stat().st_size)
            ran = subprocess.run([PYTHON, "-c", IMPORTS, path, tensors, case, *inputs, "->", *outputs], capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            return [float(line) for line in ran.stdout.split()]

    def test_a_perceptron_with_two_outputs(self):
        found = self.differences("mlp", "2", ["x"], ["logits", "p"], "--dim", "N=17")
        self.assertEqual(len(found), 2)
        self.assertLess(max(found), 2e-5)

    def test_a_convolutional_net(self):
        self.assertLess(max(self.differences("cnn", "0", ["image"], ["logits"])), 2e-5)

    def test_an_encoder(self):
        self.assertLess(max(self.differences("encoder", "3", ["ids", "mask"], ["hidden", "unit"], "--dim", "N=31")), 2e-5)

    def test_what_is_no_function_of_mlx_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.mlxfn"
            graph = pathlib.Path(folder) / "g.rlx"
            open_shape = rlx("convert", MODELS / "mlp.rlx", "--params", MODELS / "mlp.safetensors", "-o", path)
            self.assertEqual(open_shape.returncode, 1)
            self.assertIn("fixed extents", open_shape.stderr)
            graph.write_text('rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[4, 4]\n  %1 = inverse(%0) @"factor" : f32[4, 4]\n  return %1 @"y"\n}\n', encoding="utf-8")
            looping = rlx("convert", graph, "-o", path)
            self.assertEqual(looping.returncode, 1)
            self.assertIn("'scan' of 'factor'", looping.stderr)
            self.assertFalse(path.exists())


if __name__ == "__main__":
    mlx = next(d for d in json.loads(rlx("devices", "--json").stdout) if d["device"] == "mlx")
    PYTHON = python_with_mlx()
    if not mlx["available"] or not PYTHON:
        print(f"skipped: {mlx['description'] if not mlx['available'] else 'no Python here has mlx'}")
        sys.exit(77)
    unittest.main()
