#!/usr/bin/env python3
"""`rlx --load`: a library that brings an op and a kernel (examples/plugins/clip_norm.cpp) is listed, reported and run."""

import json
import math
import pathlib
import sys
import unittest

from program import PROGRAM, ProgramTest, read_npy, rlx, write_npy

PLUGIN = pathlib.Path(PROGRAM).resolve().parents[1] / "examples/clip_norm.so"
GRAPH = """rlx 1
graph @clipped {
  %%0 = input() @"x" : %s[2, 3]
  %%1 = clip_norm(%%0) {limit = 2.0} @"head" : %s[2, 3]
  return %%1 @"y"
}
"""
X = [1.0, -2.0, 2.0, 0.5, 0.25, 0.0]


class Plugin(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph = self.file("clipped.rlx", GRAPH % ("f32", "f32"))

    def lines(self, *arguments, **environment):
        report = json.loads(self.succeeds("--load", PLUGIN, "where", *arguments, "--json", **environment))
        return {line["op"]: (line["verdict"], line["reason"]) for line in report["nodes"]}

    def test_without_it_the_op_is_unknown(self):
        self.fails(1, "there is no op 'clip_norm'", "where", self.graph)

    def test_where_says_that_the_kernel_takes_it_or_why_not(self):
        native = ("native", "by the registered kernel 'clip_norm rows'")
        self.assertEqual(self.lines(self.graph)["clip_norm"], native)
        self.assertIn("clip_norm", self.succeeds("--load", PLUGIN, "where", self.graph, "--strict"))
        other = self.file("other.rlx", GRAPH % ("f64", "f64"))
        self.assertEqual(self.lines(other)["clip_norm"], ("composed", "not by the kernel 'clip_norm rows': f64[2, 3] is not f32"))
        common = self.lines(self.graph, RLX_KERNEL_DISPATCH="common")["clip_norm"]
        self.assertEqual(common, ("composed", "the common form was asked for"))

    def test_run_gives_the_same_by_the_kernel_and_without_it_and_reports_on_request(self):
        write_npy(self.folder / "x.npy", "<f4", [2, 3], X)
        wanted = [v * min(1, 2 / math.sqrt(sum(w * w for w in row))) for row in (X[:3], X[3:]) for v in row]
        for dispatch in ("native", "common"):
            result = rlx("--load", PLUGIN, "run", self.graph, "--input", f"x={self.folder / 'x.npy'}", "--output-dir",
                         self.folder / dispatch, RLX_KERNEL_DISPATCH=dispatch, RLX_DISPATCH_REPORT="1")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("1 x clip_norm native: by the registered kernel 'clip_norm rows'" in result.stderr, dispatch == "native")
            self.assertEqual("1 x clip_norm composed" in result.stderr, dispatch == "common")
            shape, values = read_npy(self.folder / dispatch / "y.npy")
            self.assertEqual(shape, (2, 3))
            for value, right in zip(values, wanted):
                self.assertAlmostEqual(value, right, delta=1e-6)

    def test_ops_lists_it_with_its_support(self):
        (entry,) = json.loads(self.succeeds("--load", PLUGIN, "ops", "clip_norm", "--json"))["ops"]
        self.assertEqual((entry["kind"], entry["samples"]), ("composite", 4))
        self.assertEqual(entry["attributes"], [{"name": "limit", "kind": "float", "default": "1"}])
        self.assertEqual(entry["claims"]["cpu"], "some")

    def test_what_is_no_library_is_an_error(self):
        self.fails(1, r"(?s)no library that can be loaded: .*while loading '.*clipped\.rlx'", "--load", self.graph, "devices")
        self.fails(1, "no library that can be loaded", "--load", "none.so", "devices")
        self.fails(1, "it has no function rlx_register", "--load", PLUGIN.parents[1] / "lib/librlx.so", "devices")
        self.fails(1, "(?s)there is an op 'clip_norm' already.*while loading", "--load", PLUGIN, "--load", self.copy(), "devices")

    def copy(self):
        path = self.folder / "again.so"
        path.write_bytes(PLUGIN.read_bytes())
        return path


if __name__ == "__main__":
    if not PLUGIN.is_file():
        print(f"skipped: {PLUGIN} was not built (RLX_EXAMPLES)")
        sys.exit(77)
    unittest.main()
