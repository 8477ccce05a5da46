#!/usr/bin/env python3
"""A result for which there is no memory is an error that names the node: MLX's own allocator for the processor gives null, and its kernels write there."""

import pathlib
import resource
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

from program import PROGRAM, ProgramTest, write_npy

GRAPH = """rlx 1
graph @g {
  %0 = input() @"x" : f32[65536]
  %1 = broadcast_in_dim(%0) {dims = [65536, 65536], axes = [0]} : f32[65536, 65536]
  %2 = broadcast_in_dim(%0) {dims = [65536, 65536], axes = [1]} : f32[65536, 65536]
  %3 = mul(%1, %2) @"huge" : f32[65536, 65536]
  return %3 @"y"
}
"""
MOST = 6 << 30  # bytes of the process; the product takes 16 GiB


class MemoryLimit(ProgramTest):
    def test_a_result_without_memory_is_an_error_in_each_mode(self):
        if "mlx       yes" not in self.succeeds("devices"):
            self.skipTest("this build has no MLX")
        graph, x = self.file("g.rlx", GRAPH), str(pathlib.Path(self.folder) / "x.npy")
        write_npy(x, "<f4", (65536,), [1] * 65536)
        for mode in "lazy", "eager", "compiled":
            done = subprocess.run([PROGRAM, "run", graph, "--device", f"mlx:{mode}", "--input", f"x={x}", "--output-dir", self.folder],
                                  capture_output=True, text=True, timeout=300, check=False,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("there is no memory for its result of 17179869184 bytes\n  while running 'mul' of 'huge' on mlx", done.stderr)


if __name__ == "__main__":
    unittest.main()
