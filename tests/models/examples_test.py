#!/usr/bin/env python3
"""The programs of examples/models/ on small models, beside what PyTorch made of them in f64 (tests/golden/generate/model_examples.py): within
1e-5 of the largest output, or of 1 if that is less. Each stays under 60 lines. Skipped, visibly, where the examples are not built."""

import array
import ast
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/model_examples"
PROGRAMS = pathlib.Path(os.environ["RLX_PROGRAM"]).parents[1] / "examples/models"
TOLERANCE = 1e-5


def read_npy(path):
    """The shape and the elements of an f32 array: the tests need no NumPy."""
    data = path.read_bytes()
    (size,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + size].decode("latin-1"))
    assert data[:8] == b"\x93NUMPY\x01\x00" and header["descr"] == "<f4" and not header["fortran_order"], header
    values = array.array("f", data[10 + size :])
    return header["shape"], values


class Examples(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=300)

    def test_each_model_makes_what_pytorch_makes(self):
        models = json.loads((GOLDEN / "versions.json").read_text())["arguments"]
        self.assertEqual(len(models), 8)
        for name, (program, *rest) in models.items():
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "made.npy"
                run = self.run_program(PROGRAMS / program, GOLDEN / name / "weights.safetensors", GOLDEN / name / "input.npy", out, *rest)
                self.assertEqual(run.returncode, 0, run.stderr)
                (shape, made), (wanted_shape, wanted) = read_npy(out), read_npy(GOLDEN / name / "output.npy")
                self.assertEqual(shape, wanted_shape)
                error = max(abs(a - b) for a, b in zip(made, wanted)) / max(1.0, max(map(abs, wanted)))
                self.assertLess(error, TOLERANCE)  # false for NaN, too
                print(f"{name}: {error:.1e}")

    def test_a_file_that_is_none_is_an_error_that_names_it(self):
        for program in ("bert", "vit", "resnet", "unet", "llama"):
            with self.subTest(program=program):
                run = self.run_program(PROGRAMS / program, "nowhere.safetensors", GOLDEN / "bert/input.npy", "out.npy", *(["2"] if program == "llama" else []))
                self.assertEqual(run.returncode, 1)
                self.assertIn("nowhere.safetensors", run.stderr)
                self.assertEqual(self.run_program(PROGRAMS / program).returncode, 2)

    def test_weights_of_another_model_are_an_error_that_names_the_tensor(self):
        run = self.run_program(PROGRAMS / "bert", GOLDEN / "vit/weights.safetensors", GOLDEN / "bert/input.npy", "out.npy")
        self.assertEqual(run.returncode, 1)
        self.assertIn("embeddings.word_embeddings.weight", run.stderr)

    def test_each_example_has_fewer_than_60_lines(self):
        sources = sorted((ROOT / "examples/models").glob("*.cpp"))
        self.assertEqual([s.stem for s in sources], ["bert", "llama", "resnet", "unet", "vit"])
        for source in sources:
            self.assertLess(len(source.read_text().splitlines()), 60, source.name)


if __name__ == "__main__":
    if not (PROGRAMS / "bert").exists():
        print(f"skipped: {PROGRAMS} has no programs; build the examples (RLX_EXAMPLES)")
        sys.exit(77)
    unittest.main()
