#!/usr/bin/env python3
"""all-MiniLM-L6-v2 as a Core ML package: as large as its weights, clean, and run with the numbers of the graph that it came from."""

import array
import sys
import unittest

from program import ProgramTest, read_npy, require_model, rlx, write_npy

MODEL = require_model()
SHAPE = (2, 16)


class MiniLM(ProgramTest):
    def test_a_package_gives_the_embeddings_of_the_graph(self):
        package = self.folder / "minilm.mlpackage"
        out = self.succeeds("convert", MODEL, "-o", package, "--dim", f"B={SHAPE[0]}", "--dim", f"S={SHAPE[1]}", "--narrow")
        self.assertIn("Runs on iOS 15", out)
        weights = (MODEL / "model.safetensors").stat().st_size
        whole = sum(f.stat().st_size for f in package.rglob("*") if f.is_file())
        self.assertLess(whole, weights * 1.01)
        self.assertEqual(rlx("lint", package).returncode, 0)
        n = SHAPE[0] * SHAPE[1]
        arrays = {"input_ids": [131 * i % 30000 for i in range(n)], "attention_mask": [1] * (n - 5) + [0] * 5,
                  "token_type_ids": [0] * n}
        for kind, descr, model in (("graph", "<i8", MODEL), ("package", "<i4", package)):
            given = []
            for name, values in arrays.items():
                path = self.folder / f"{kind}-{name}.npy"
                write_npy(path, descr, list(SHAPE), values)
                given += ["--input", f"{name}={path}"]
            self.succeeds("run", model, *given, "--output-dir", self.folder / kind)
        (wanted_file,) = (self.folder / "graph").glob("*.npy")
        (got_file,) = (self.folder / "package").glob("*.npy")
        shape, wanted = read_npy(wanted_file)
        got_shape, got = read_npy(got_file)
        self.assertEqual((shape, shape[0]), (got_shape, SHAPE[0]))
        self.assertIsInstance(got, array.array)
        self.assertLess(max(abs(a - b) for a, b in zip(got, wanted)), 1e-5)
        self.assertAlmostEqual(sum(x * x for x in got[: shape[1]]), 1, places=4)


if __name__ == "__main__":
    sys.exit(unittest.main())
