#!/usr/bin/env python3
"""Graphs that are split over devices on the command line: `--fallback`, `--place`, RLX_FALLBACK, the plan, and files."""

import json
import unittest

from program import ProgramTest, model_folder, read_npy, write_npy

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
        report = json.loads(self.succeeds("where", self.graph, "--target", "tiny", "--fallback", "cpu", "--json"))
        self.assertEqual([node["device"] for node in report["nodes"]], ["cpu", "cpu", "cpu", "tiny"])
        self.assertEqual([(c["from"], c["to"], c["bytes"]) for c in report["copies"]], [("tiny", "host", 24), ("host", "tiny", 24)])
        self.assertEqual(report["host_reads"], 1)
        out = self.folder / "out"
        self.succeeds("run", self.graph, "--device", "tiny", "--fallback", "loopback,cpu", "--input", f"x={self.x}", "--output-dir", out)
        self.assertEqual(list(read_npy(out / "y.npy")[-1]), [-v * v for v in X])

    def test_the_plan_has_the_copies(self):
        plan = self.succeeds("where", self.graph, "--target", "cpu", "--place", "end=tiny", "--plan")
        self.assertIn('device "cpu" in "host"', plan)
        self.assertIn("copy write", plan)
        self.assertIn("copy read", plan)

    def test_permission_comes_from_the_environment_too_and_what_is_wrong_is_said(self):
        self.fails(1, "CompileOptions::fallback", "run", self.graph, "--device", "tiny", "--input", f"x={self.x}")
        self.succeeds("run", self.graph, "--device", "tiny", "--input", f"x={self.x}", RLX_FALLBACK="cpu")
        self.fails(1, "names no node", "run", self.graph, "--device", "cpu", "--place", "nothing=tiny", "--input", f"x={self.x}")
        self.fails(2, "PATTERN=DEVICE", "run", self.graph, "--place", "nothing", "--input", f"x={self.x}")

    def test_a_file_of_a_split_graph_runs_again(self):
        kept, out = self.folder / "wide.rlxc", self.folder / "out"
        self.succeeds("compile", self.graph, "--device", "tiny", "--fallback", "cpu", "-o", kept)
        self.succeeds("run", kept, "--input", f"x={self.x}", "--output-dir", out)
        self.assertEqual(list(read_npy(out / "y.npy")[-1]), [-v * v for v in X])
        about = json.loads(self.succeeds("inspect", kept, "--json"))
        self.assertEqual((about["form"], about["options"]["fallback"]), ("split", ["cpu"]))

    def test_a_dump_has_the_stages_of_each_part(self):
        dump = self.folder / "dump"
        self.succeeds("run", self.graph, "--device", "cpu", "--place", "end=tiny", "--input", f"x={self.x}", RLX_DUMP=str(dump))
        names = [path.name for path in dump.iterdir()]
        for part in ("part0_00_given.rlx", "part1_00_given.rlx"):
            self.assertIn(part, names)

    @unittest.skipUnless(model_folder(), "all-MiniLM-L6-v2 is not here")
    def test_minilm_on_a_device_of_small_buffers_gives_the_numbers_of_the_processor(self):
        embed = ["embed", "--model", model_folder(), "--json", "A cat sits on the mat.", "The market fell today."]
        wanted = [json.loads(line) for line in self.succeeds(*embed, "--device", "cpu").splitlines()]
        split = [json.loads(line) for line in self.succeeds(*embed, "--device", "tiny", "--fallback", "cpu").splitlines()]
        for a, b in zip(wanted, split, strict=True):
            self.assertLess(max(abs(x - y) for x, y in zip(a, b, strict=True)), 1e-5)


if __name__ == "__main__":
    unittest.main()
