#!/usr/bin/env python3
"""`rlx calibrate --device`, and `rlx devices --for MODEL`, which predicts by it; `--bound` of `rlx compile` and `rlx run`."""

import json
import unittest

from program import ProgramTest, f32, write_npy, write_safetensors

GRAPH = """rlx 1
graph @scores {
  %0 = input() @"x" : f32[N, 64]
  %1 = param() @"w" : f32[64, 64]
  %2 = matmul(%0, %1) : f32[N, 64]
  return %2 @"y"
}
"""


class Prediction(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "scores.rlx"
        self.model.write_text(GRAPH)
        self.cache = {"RLX_CACHE_DIR": str(self.folder / "cache")}

    def test_devices_are_sorted_by_what_was_measured(self):
        def predicted(*more):
            told = json.loads(self.succeeds("devices", "--for", self.model, "--dim", "N=8", "--threads", "1", "--json", *more,
                                            **self.cache))
            return {d["device"]: d for d in told}
        before = predicted()
        self.assertIsNone(before["cpu"]["us"])
        self.assertIn("with 1 thread: `rlx calibrate --threads 1` does so", before["cpu"]["why"])
        self.assertNotIn("loopback", before)
        speeds = json.loads(self.succeeds("calibrate", "--device", "cpu", "--threads", "1", "--json", **self.cache))
        self.assertEqual(speeds["device"], "cpu")
        self.assertGreater(speeds["product_256_gflops"], 0)
        after = predicted()
        self.assertEqual(next(iter(after)), "cpu")
        self.assertGreater(after["cpu"]["us"], 0)
        text = self.succeeds("devices", "--for", self.model, "--dim", "N=8", "--threads", "1", **self.cache)
        self.assertRegex(text, r"cpu +[\d.]+ (us|ms) ")
        shown = json.loads(self.succeeds("calibrate", "--device", "cpu", "--threads", "1", "--show", "--json", **self.cache))
        self.assertEqual(shown, speeds)

    def test_every_device_is_measured_where_none_is_named(self):
        here = {d["device"] for d in json.loads(self.succeeds("devices", "--json")) if d["available"]} - {"loopback", "tiny"}
        # What was measured before: nothing, and no device is an error.
        self.assertIn("cpu was not measured", self.succeeds("calibrate", "--device", "all", "--show", **self.cache))
        measured = json.loads(self.succeeds("calibrate", "--threads", "1", "--json", **self.cache))
        self.assertGreater(measured["machine"]["product_gflops"], 0)
        self.assertEqual({d["device"] for d in measured["devices"]}, here)
        self.assertEqual(json.loads(self.succeeds("calibrate", "--threads", "1", "--show", "--json", **self.cache)), measured)
        listed = json.loads(self.succeeds("calibrate", "--device", "all", "--threads", "1", "--show", "--json", **self.cache))
        self.assertEqual(listed, measured["devices"])
        told = json.loads(self.succeeds("devices", "--for", self.model, "--dim", "N=8", "--threads", "1", "--json", **self.cache))
        self.assertEqual({d["device"] for d in told if d["us"]}, here)
        # --out is for the machine's file alone.
        out = self.folder / "machine.json"
        self.succeeds("calibrate", "--out", out, RLX_CACHE_DIR=str(self.folder / "other"))
        self.assertGreater(json.loads(out.read_text())["product_gflops"], 0)
        self.assertFalse(list(self.folder.glob("other/*calib*")))

    def test_what_is_missing_or_mistyped_is_said(self):
        self.fails(2, "--dim gives numbers to the symbolic dims of a model", "devices", "--dim", "N=8")
        self.fails(2, "--dim takes NAME=NUMBER", "devices", "--for", self.model, "--dim", "N")
        self.fails(2, "--for needs a number for 'N': --dim N=NUMBER", "devices", "--for", self.model)
        self.fails(1, "a number is given for 'M'", "devices", "--for", self.model, "--dim", "N=4", "--dim", "M=4")
        self.assertEqual(self.succeeds("calibrate", "--device", "cpu", "--show", **self.cache), "cpu was not measured\n")
        self.fails(1, "there is no device 'gpu'", "calibrate", "--device", "gpu")
        self.fails(2, "--bound takes NAME=NUMBER", "run", self.model, "--bound", "N=many", "--input", "x=x.npy")

    def test_a_compiled_graph_carries_its_bounds(self):
        made, x, weights = self.folder / "scores.rlxc", self.folder / "x.npy", self.folder / "w.safetensors"
        self.succeeds("compile", self.model, "--without-params", "--bound", "N=4", "-o", made)
        self.assertEqual(json.loads(self.succeeds("inspect", made, "--json"))["options"]["bounds"], {"N": 4})
        identity = [float(i == j) for i in range(64) for j in range(64)]
        write_safetensors(weights, {"w": ("F32", [64, 64], f32(*identity))})
        write_npy(x, "<f4", (5, 64), [1] * 5 * 64)
        self.fails(1, "'N' is 5 in a run of 'scores', which was compiled for at most 4", "run", made, "--params", weights, "--input",
                   f"x={x}")
        write_npy(x, "<f4", (4, 64), [1] * 4 * 64)
        self.assertIn("y", self.succeeds("run", made, "--params", weights, "--input", f"x={x}"))
        self.fails(1, "at most 3", "run", self.model, "--bound", "N=3", "--params", weights, "--input", f"x={x}")


if __name__ == "__main__":
    unittest.main()
