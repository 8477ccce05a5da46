#!/usr/bin/env python3
"""Graphs that are split over devices on the command line: `--fallback`, `--place`, RLX_FALLBACK, the plan, and files."""

import json
import os
import unittest

from program import ProgramTest, read_npy, write_npy

GRAPH = """rlx 1
graph @wide {
  %0 = input() @"x" : f32[2, 3]
  %1 = convert(%0) {dtype = f64} @"middle" : f64[2, 3]
  %2 = mul(%1, %1) @"middle" : f64[2, 3]
  %3 = convert(%2) {dtype = f32} @"middle" : f32[2, 3]
  %4 = neg(%3) @"end" : f32[2, 3]
  return %4 @"y"
}
"""
X = [0.5, -1.0, 2.0, 0.0, 3.0, -0.25]


class Split(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph, self.x = self.file("wide.rlx", GRAPH), self.folder / "x.npy"
        write_npy(self.x, "<f4", [2, 3], X)

    def test_what_a_device_lacks_runs_on_the_next_with_permission_alone(self):
        report = json.loads(self.rlx("where", self.graph, "--target", "tiny", "--fallback", "cpu", "--json").stdout)
        self.assertEqual([node["device"] for node in report["nodes"]], ["cpu", "cpu", "cpu", "tiny"])
        self.assertEqual([(c["from"], c["to"], c["bytes"]) for c in report["copies"]], [("tiny", "host", 24), ("host", "tiny", 24)])
        self.assertEqual(report["host_reads"], 1)
        out = self.folder / "out"
        self.rlx("run", self.graph, "--device", "tiny", "--fallback", "loopback,cpu", "--input", f"x={self.x}", "--output-dir", out)
        self.assertEqual(list(read_npy(out / "y.npy")[2]), [-v * v for v in X])

    def test_the_plan_has_the_copies(self):
        plan = self.rlx("where", self.graph, "--place", "end=tiny", "--plan").stdout
        self.assertIn('device "cpu" in "host"', plan)
        self.assertIn("copy write", plan)
        self.assertIn("copy read", plan)


if __name__ == "__main__":
    unittest.main()
