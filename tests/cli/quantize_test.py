#!/usr/bin/env python3
"""`rlx quantize` and the [quantize] section of `rlx train`: int8 models that do what the table says, and what is refused."""

import json
import math
import random
import re
import struct
import unittest

from program import ProgramTest, read_npy, read_safetensors, write_npy

LOSS = """rlx 1
graph @g {
  %0 = input() @"x" : f32[N, 3]
  %1 = input() @"t" : f32[N, 1]
  %2 = param() @"w" : f32[3, 1]
  %3 = matmul(%0, %2) @"dense" : f32[N, 1]
  %4 = mse(%3, %1) : f32[]
  return %4 @"loss"
}
"""
PLAIN = """rlx 1
graph @plain {
  %0 = input() @"x" : f32[N, 3]
  %1 = param() @"w" : f32[3, 1]
  %2 = matmul(%0, %1) : f32[N, 1]
  return %2 @"y"
}
"""


def figures(line):
    """(loss, accuracy in percent) of a line of the table."""
    found = re.search(r"loss ([\d.]+)(?:  accuracy ([\d.]+) %)?", line)
    return float(found[1]), found[2] and float(found[2])


class Quantize(ProgramTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        draw = random.Random(5)
        # Four classes by the signs of two sums, 16 numbers each.
        rows = [[draw.gauss(0, 1) for _ in range(16)] for _ in range(400)]
        labels = [2 * (sum(r[:8]) > 0) + (sum(r[8:]) > 0) for r in rows]
        self.x, self.labels = [v for r in rows for v in r], labels
        write_npy(self.folder / "x.npy", "<f4", [400, 16], self.x)
        write_npy(self.folder / "t.npy", "<i4", [400], labels)
        self.data = ["--data", f"x={self.folder}/x.npy", "--data", f"t={self.folder}/t.npy"]

    def trained(self):
        self.succeeds("train", "mlp", *self.data, "--hidden", "32", "--epochs", 15, "--learning-rate", 0.01, "--threads", 1, "--out", self.out)
        return ["mlp", *self.data, "--hidden", "32", "--threads", 1]

    def accuracy_of(self, graph):
        """Of the int8 graph itself, run by `rlx run`."""
        self.succeeds("run", graph, "--input", f"x={self.folder}/x.npy", "--output-dir", self.folder / "ran")
        shape, values = read_npy(self.folder / "ran" / "y.npy")
        self.assertEqual(list(shape), [400, 4])
        rows = [list(values[4 * i : 4 * i + 4]) for i in range(400)]
        return sum(row.index(max(row)) == label for row, label in zip(rows, self.labels)) / 4

    def test_the_int8_model_does_what_the_table_says_and_is_smaller(self):
        model = self.trained()
        for method in ("min_max", "moving_average", "percentile", "entropy"):
            text = self.succeeds("quantize", *model, "--out", self.out, "--calibration", method)
            lines = {line.split()[0]: line for line in text.splitlines() if line}
            self.assertIn("qmatmul", lines["hidden.0"])
            self.assertIn("qmatmul", lines["out"])
            before, after = figures(lines["float"]), figures(lines["int8"])
            self.assertGreater(before[1], 90)
            self.assertLess(abs(before[1] - after[1]), 3)
            self.assertAlmostEqual(self.accuracy_of(self.out / "int8.rlx"), after[1], delta=0.26)
        told = json.loads(self.succeeds("quantize", *model, "--out", self.out, "--calibration", "entropy", "--json"))
        self.assertEqual((told["model"], told["examples"]), (str(self.out / "int8.rlx"), 400))
        for kind, (loss, accuracy) in (("float", before), ("int8", after)):
            self.assertAlmostEqual(told[kind]["loss"], loss, places=3)
            self.assertAlmostEqual(100 * told[kind]["accuracy"], accuracy, places=1)
        size = {name: (self.out / name).stat().st_size for name in ("int8.safetensors", "params.safetensors")}
        self.assertLess(size["int8.safetensors"], size["params.safetensors"] * 0.6)
        ranges = json.loads((self.out / "ranges.json").read_text())
        self.assertEqual(ranges["method"], "entropy")
        self.assertEqual({e["name"] for e in ranges["activations"]}, {"x", "hidden.0.output", "out.output"})
        again = self.succeeds("quantize", *model, "--out", self.folder / "again", "--params", self.out / "params.safetensors", "--ranges", self.out / "ranges.json")
        self.assertEqual(figures(again.split("int8   ")[1]), after)

    def test_training_by_a_config_with_a_quantize_section(self):
        self.trained()
        (self.folder / "qat.toml").write_text(
            '[model]\nname = "mlp"\nhidden = [32]\nparams = "out/params.safetensors"\n[data]\nx = "x.npy"\nt = "t.npy"\n'
            '[quantize]\nactivation_scales = "learned"\nweight_scales = "learned"\nweight_bits = 4\nactivation_bits = 4\n'
            '[train]\nepochs = 4\n')
        text = self.succeeds("train", "--config", self.folder / "qat.toml", "--threads", 1, "--out", self.folder / "qat")
        line = next(line for line in text.splitlines() if line.startswith("int8 "))
        self.assertGreater(figures(line)[1], 85)
        self.assertAlmostEqual(self.accuracy_of(self.folder / "qat/int8.rlx"), figures(line)[1], delta=0.26)
        for kind in ("ema", "fixed", "per_batch"):
            text = self.succeeds("train", "--config", self.folder / "qat.toml", "--activation-scales", kind, "--weight-scales", "per_batch",
                                 "--epochs", 1, "--threads", 1, "--out", self.folder / kind)
            self.assertEqual("int8.rlx is written" in text, kind != "per_batch")
            self.assertEqual("no int8 model is written" in text, kind == "per_batch")

    def test_what_was_trained_with_scales_is_trained_on_and_calibrated_anew(self):
        run = ["mlp", *self.data, "--hidden", "32", "--threads", 1]
        self.succeeds("train", *run, "--activation-scales", "ema", "--epochs", 15, "--learning-rate", 0.01, "--out", self.out)
        params = self.out / "params.safetensors"
        # Moving means go on from where they were; by a rate too small for f32 nothing else changes.
        more = ["--params", params, "--steps", 1, "--optimizer", "sgd", "--learning-rate", 1e-40]
        self.succeeds("train", *run, *more, "--activation-scales", "ema", "--scale-decay", 0.999, "--out", self.folder / "more")
        (_, first), (_, then) = (read_safetensors(f) for f in (params, self.folder / "more/params.safetensors"))
        self.assertEqual(set(first), set(then))
        ranges = {name for name in first if name.endswith(".range")}
        self.assertEqual(ranges, {"x.range", "hidden.0.output.range", "out.output.range"})
        for name, data in first.items():
            if name not in ranges:
                self.assertEqual(data, then[name], name)
                continue
            for a, b in zip(struct.unpack("<2f", data), struct.unpack("<2f", then[name]), strict=True):
                self.assertAlmostEqual(a, b, delta=0.01)
        self.fails(1, "has 'hidden.0.output.range', which is no param .* train with the same --activation-scales",
                   "train", *run, "--params", params, "--out", self.folder / "floats")
        self.fails(1, "has 'hidden.0.output.range'", "train", *run, "--params", params, "--activation-scales", "fixed",
                   "--out", self.folder / "fixed")  # fmt: skip
        text = self.succeeds("quantize", *run, "--out", self.out)
        self.assertIn("'hidden.0.output.range' of", text)
        self.assertGreater(figures(next(line for line in text.splitlines() if line.startswith("int8 ")))[1], 85)
        audit = self.succeeds("train", *run, "--params", params, "--activation-scales", "ema", "--audit")
        self.assertRegex(audit, r"hidden.0.weight +f32\[[0-9]+, [0-9]+\] +\d")
        self.assertNotIn("range", audit)  # they move, and no gradient moves them
        # Learned scales are params like others.
        audit = self.succeeds("train", *run, "--activation-scales", "learned", "--audit")
        self.assertRegex(audit, r"hidden.0.*\.scale +f32\[.*\] +\d")

    def test_a_model_that_writes_does_so_by_its_scales(self):
        (self.folder / "text.txt").write_text("the cat sat on the mat. " * 40)
        run = ["train", "char_lm", "--data", f"text={self.folder}/text.txt", "--context", 8, "--width", 16, "--layers", 1, "--heads", 2,
               "--batch-size", 4, "--steps", 3, "--learning-rate", 1e-5, "--length", 20, "--prompt", "the ", "--threads", 1]
        for kind in ("ema", "fixed", "learned", "per_batch"):
            self.succeeds(*run, "--activation-scales", kind, "--out", self.folder / kind)
            sample = (self.folder / kind / "sample.txt").read_text()
            self.assertTrue(sample.startswith("the "))
            self.assertEqual(len(sample), 24)

    def test_a_training_that_was_interrupted_goes_on_to_the_same_codes(self):
        run = ["train", "mlp", *self.data, "--hidden", "32", "--activation-scales", "ema", "--threads", 1]
        self.succeeds(*run, "--steps", 30, "--out", self.folder / "whole")
        self.succeeds(*run, "--steps", 12, "--out", self.folder / "parts")
        self.succeeds(*run, "--steps", 30, "--out", self.folder / "parts", "--resume")
        for name in ("params.safetensors", "int8.rlx", "int8.safetensors"):
            self.assertEqual((self.folder / "whole" / name).read_bytes(), (self.folder / "parts" / name).read_bytes(), name)

    def test_graphs_from_files(self):
        (self.folder / "g.rlx").write_text(LOSS)
        (self.folder / "plain.rlx").write_text(PLAIN)
        x = self.x[: 3 * 64]
        t = [a - 2 * b + 0.5 * c for a, b, c in zip(x[::3], x[1::3], x[2::3])]
        write_npy(self.folder / "x3.npy", "<f4", [64, 3], x)
        write_npy(self.folder / "t3.npy", "<f4", [64, 1], t)
        data = ["--data", f"x={self.folder}/x3.npy"]
        both = [*data, "--data", f"t={self.folder}/t3.npy"]
        self.succeeds("train", self.folder / "g.rlx", *both, "--steps", 300, "--learning-rate", 0.05, "--threads", 1, "--out", self.out)
        text = self.succeeds("quantize", self.folder / "g.rlx", *both, "--out", self.out, "--threads", 1)
        self.assertIn("64 examples, those of the calibration", text)
        before, after = (figures(line)[0] for line in text.splitlines() if line.startswith(("float", "int8")))
        self.assertLess(before, 1e-2)
        self.assertLess(after, 5e-2)
        text = self.succeeds("quantize", self.folder / "plain.rlx", *data, "--params", self.out / "params.safetensors", "--out", self.folder / "p", "--threads", 1)
        moved, size = map(float, re.search(r"^y +(\S+) +(\S+)$", text, re.M).groups())
        self.assertGreater(size, 1)
        self.assertLess(moved, 0.02 * size)
        self.assertFalse(math.isnan(moved))

    def test_what_is_refused(self):
        model = self.trained()
        for arguments, words in (
            (["--calibration", "median"], "there is no calibration 'median'; there are min_max, moving_average, percentile, entropy"),
            (["--keep-float", "head"], "'head', which is to stay floats, is no layer of graph 'mlp'; there are 'hidden.0', 'out'"),
            (["--weight-bits", "9"], "9 bits; it goes from 2 to 8"),
            (["--percentile", "20", "--calibration", "percentile"], "percentile is 20; it must be above 50"),
            (["--calibration-batches", "0"], "calibration_batches is 0; it must be from 1 to 4294967296"),
            (["--params", self.folder / "none.safetensors"], "none.safetensors"),
            (["--ranges", self.folder / "x.npy"], "they are no ranges"),
        ):
            self.fails(1, re.escape(words), "quantize", *model, "--out", self.out, *arguments)
        self.fails(1, "there is no activation_scales 'mean'", "train", *model, "--activation-scales", "mean", "--out", self.folder / "new")
        write_npy(self.folder / "x.npy", "<f4", [400, 16], [math.nan] + self.x[1:])
        self.fails(1, "the activation '[^']+' in batch", "quantize", *model, "--out", self.out)


if __name__ == "__main__":
    unittest.main()
