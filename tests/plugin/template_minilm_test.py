#!/usr/bin/env python3
"""The template of a backend, built outside of the tree (template.py), runs all-MiniLM-L6-v2 as PyTorch does (tests/golden)."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import GOLDEN, read_npy, require_model  # noqa: E402

MODEL = require_model()

from template import PLAIN, SCRATCH, installed  # noqa: E402  (takes seconds: not without the model)

SENTENCES = 4  # of the golden ones: the template's loops are plain


class MiniLm(unittest.TestCase):
    def test_it_runs_minilm_as_pytorch_does(self):
        report = installed("--load", PLAIN, "where", MODEL, "--target", "plain")
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertRegex(report.stdout, r"attention +f32, bool -> f32 +- +6 +- +- +-")
        self.assertRegex(report.stdout, r"(?m)^all +\d+ +\d+ +- +- +-$")  # nothing interpreted, nothing missing
        sentences = (GOLDEN / "embeddings/sentences.txt").read_text().splitlines()[:SENTENCES]
        (SCRATCH / "lines.txt").write_text("".join(line + "\n" for line in sentences))
        out = SCRATCH / "e.npy"
        result = installed("--load", PLAIN, "embed", "--model", MODEL, "--file", SCRATCH / "lines.txt", "--npy", out, RLX_DEVICE="plain")
        self.assertEqual(result.returncode, 0, result.stderr)
        (_, width), wanted = read_npy(GOLDEN / "embeddings/embeddings.npy")
        (count, _), ours = read_npy(out)
        self.assertEqual(count, SENTENCES)
        self.assertLessEqual(max(abs(a - b) for a, b in zip(ours, wanted[: count * width])), 1e-5)


if __name__ == "__main__":
    unittest.main()
