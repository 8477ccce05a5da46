#!/usr/bin/env python3
"""`rlx test-device`, and the device that RLX_DEVICE names."""

import json
import re
import unittest

from program import ProgramTest, rlx


class TestDevice(ProgramTest):
    def counts(self, *arguments):
        """(passed, failed, skipped) of the last line."""
        last = self.succeeds("test-device", *arguments).splitlines()[-1]
        return tuple(map(int, re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", last).groups()))

    def test_an_op_is_run_in_each_dtype_and_counted(self):
        passed, failed, skipped = self.counts("cpu", "--op", "softmax")
        self.assertGreater(passed, 10)
        self.assertEqual((failed, skipped), (0, 0))
        with_gradients, failed, _ = self.counts("cpu", "--op", "softmax", "--grad")
        self.assertGreater(with_gradients, passed)
        self.assertEqual(failed, 0)

    def test_gradients_whose_sums_cancel_are_held_to_f64(self):
        passed, failed, _ = self.counts("cpu", "--op", "group_norm_backward", "--op", "dynamic_quantize_conv", "--grad")
        self.assertGreater(passed, 0)
        self.assertEqual(failed, 0)

    def test_what_a_device_refuses_is_skipped_with_its_reason(self):
        table = self.succeeds("test-device", "coreml", "--op", "tanh")
        self.assertIn("Core ML has no f64", table)
        passed, failed, skipped = self.counts("coreml", "--op", "tanh")
        self.assertGreater(passed, 0)
        self.assertEqual(failed, 0)
        self.assertGreater(skipped, 0)

    def test_every_case_is_written_as_json(self):
        file = self.folder / "cases.json"
        passed, _, _ = self.counts("cpu", "--op", "add", "--op", "top_k", "--perf", "--json", file)
        cases = json.loads(file.read_text())
        self.assertEqual({case["op"] for case in cases}, {"add", "top_k"})
        self.assertEqual(sum(case["judgement"] == "agrees" for case in cases), passed)
        for case in cases:
            self.assertGreater(case["microseconds"], 0)
            self.assertGreaterEqual(case["error"], 0)
        self.assertTrue({"f32", "f16", "i64"} <= {case["dtype"] for case in cases})

    def test_a_device_that_cannot_run_and_names_that_there_are_not_are_errors(self):
        self.fails(1, "claims every primitive and runs none", "test-device", "null")
        self.fails(1, "this build has no backend for it", "test-device", "tpu")
        self.fails(1, "there is no device 'toaster'; there are cpu, ", "test-device", "toaster")
        self.fails(1, "warble", "test-device", "cpu", "--op", "warble")

    def test_the_environment_names_the_default_device(self):
        graph = """rlx 1
graph @g {
  %0 = input() @"x" : f64[2]
  %1 = tanh(%0) : f64[2]
  return %1 @"y"
}
"""
        file = self.file("g.rlx", graph)
        self.assertIn("cpu", self.succeeds("where", file))
        self.assertIn("Core ML has no f64", rlx("where", file, RLX_DEVICE="coreml").stdout)
        self.assertNotIn("Core ML", self.succeeds("where", file, "--target", "cpu", RLX_DEVICE="coreml"))
        self.fails(1, "there is no device 'toaster'", "where", file, RLX_DEVICE="toaster")


if __name__ == "__main__":
    unittest.main()
