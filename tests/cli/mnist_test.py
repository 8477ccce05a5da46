#!/usr/bin/env python3
"""The first epoch of examples/mnist_mlp.toml and mnist_cnn.toml on real digits: most are read right already. The whole runs are
those of examples/README.md. Without the digits, which scripts/fetch_mnist.py fetches, the test is skipped."""

import json
import os
import pathlib
import re
import sys
import unittest

from program import ROOT, ProgramTest

CACHE = pathlib.Path(os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache/rlx") / "mnist"


class Mnist(ProgramTest):
    def files(self, net):
        files = [f"{CACHE}/{name}" for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")]
        data = [word for pair in zip(("--data", "--data", "--test", "--test"), (f"{n}={f}" for n, f in zip("xtxt", files))) for word in pair]
        return ["--config", ROOT / f"examples/mnist_{net}.toml", *data]

    def accuracy(self, net, *more):
        out = self.folder / net
        text = self.succeeds("train", *self.files(net), "--epochs", 1, *more, "--out", out)
        self.assertIn("9000 examples to learn from, 1000 to be tested by; 141 steps of 64", text)
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][-1]["test_accuracy"]

    def test_the_mlp_reads_most_digits_after_an_epoch(self):
        self.assertGreater(self.accuracy("mlp"), 0.88)

    @unittest.skipIf("RLX_SANITIZED" in os.environ, "the sanitized library takes minutes for this")
    def test_the_cnn_reads_most_digits_after_an_epoch(self):
        self.assertGreater(self.accuracy("cnn"), 0.87)

    @unittest.skipIf("RLX_SANITIZED" in os.environ, "the sanitized library takes minutes for this")
    def test_the_cnn_in_codes_of_8_bits_loses_at_most_half_a_point(self):
        before = 100 * self.accuracy("cnn")
        params = self.folder / "cnn/params.safetensors"
        text = self.succeeds("quantize", *self.files("cnn"), "--params", params, "--out", self.folder / "calibrated")
        self.assertGreaterEqual(float(re.search(r"^int8 .* accuracy ([0-9.]+) %", text, re.M)[1]), before - 0.5)
        text = self.succeeds("train", *self.files("cnn"), "--params", params, "--activation-scales", "ema", "--epochs", 1, "--learning-rate", 0.0005, "--out", self.folder / "learned")
        self.assertGreaterEqual(float(re.search(r"^int8 .* accuracy ([0-9.]+) %", text, re.M)[1]), before - 0.5)

    def test_shifted_digits_are_harder_but_learned(self):
        self.assertGreater(self.accuracy("mlp", "--shift", 2), 0.6)


if __name__ == "__main__":
    if not (CACHE / "t10k-labels-idx1-ubyte").is_file():
        print("skipped: the digits are not here; scripts/fetch_mnist.py fetches them")
        sys.exit(77)
    unittest.main()
