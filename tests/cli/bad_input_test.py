#!/usr/bin/env python3
"""Files and values that are not right: each ends with exit code 1 and a message that says what and where, and leaves
no half-written file behind."""

import os
import resource
import struct
import subprocess
import unittest

from program import PROGRAM, ProgramTest, f32, rlx, write_npy, write_safetensors

GRAPH = """rlx 1
graph @g {
  %0 = input() @"x" : f32[2, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) @"head" : f32[2, 2]
  return %2 @"y"
}
"""


class BadInput(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph = self.file("g.rlx", GRAPH)
        self.weights, self.x, self.out = self.folder / "w.safetensors", self.folder / "x.npy", self.folder / "out"
        write_safetensors(self.weights, {"w": ("F32", [3, 2], f32(*range(6)))})
        write_npy(self.x, "<f4", [2, 3], range(6))

    def run_fails(self, pattern, graph=None, weights=None, x=None, more=()):
        words = ["run", graph or self.graph, "--output-dir", self.out, "--input", f"x={x or self.x}"]
        words += ["--params", weights or self.weights] if weights != "" else []
        error = self.fails(1, pattern, *words, *more)
        self.assertFalse(self.out.exists(), "the output folder was made")
        return error

    def test_the_unchanged_graph_runs(self):
        self.succeeds("run", self.graph, "--params", self.weights, "--input", f"x={self.x}", "--output-dir", self.out)

    def test_a_cut_weight_file(self):
        whole = self.weights.read_bytes()
        cut = self.folder / "cut.safetensors"
        for size in range(len(whole)):
            cut.write_bytes(whole[:size])
            with self.subTest(size):
                result = rlx("inspect", cut)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn("cut.safetensors", result.stderr)
        cut.write_bytes(whole[:-1])
        self.run_fails("cut.safetensors", weights=cut)

    def test_hostile_header_sizes(self):
        bad = self.folder / "bad.safetensors"
        for size in (2**64 - 1, 2**63, 2**40, 0):
            bad.write_bytes(struct.pack("<Q", size) + b"{}")
            with self.subTest(size):
                self.run_fails("bad.safetensors", weights=bad)

    def test_a_missing_tensor_is_named(self):
        write_safetensors(self.weights, {"weight": ("F32", [3, 2], f32(*range(6)))})
        self.run_fails(r"(?s)'w'.*weight")

    def test_a_param_of_another_dtype_or_shape(self):
        write_safetensors(self.weights, {"w": ("F16", [3, 2], bytes(12))})
        self.run_fails(r"(?s)f16.*binding param 'w' \(f32\[3, 2\]\)")
        write_safetensors(self.weights, {"w": ("F32", [2, 3], bytes(24))})
        self.run_fails(r"\[2, 3\]")

    def test_a_param_that_is_not_bound(self):
        self.run_fails(r"not bound: 'w' \(f32\[3, 2\]\); .*--params", weights="")

    def test_an_unknown_op_or_attribute(self):
        self.run_fails("there is no op 'matmull'; is 'matmul' meant", self.file("a.rlx", GRAPH.replace("matmul(", "matmull(")))
        softmax = 'rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[2, 3]\n  %1 = softmax(%0) {axes = 1} : f32[2, 3]\n  return %1 @"y"\n}\n'
        self.run_fails(r"known attribute \(axis\) instead of 'axes'", self.file("b.rlx", softmax))

    def test_a_value_that_is_not_there_yet(self):
        for wrong, said in {
            "%0, %2": r"line 5: expected a value defined above instead of %2 \(a graph is a DAG",  # of itself: a cycle
            "%0, %9": r"line 5: expected a value defined above instead of %9 \(a graph is a DAG",
            "%0, %-1": "line 5: expected ",
            "%0": "(?s)matmul.*operand.*line 5",
        }.items():
            with self.subTest(wrong):
                self.run_fails(said, self.file("cyclic.rlx", GRAPH.replace("%0, %1", wrong)))

    def test_text_that_is_no_graph(self):
        for name, text in {"empty": "", "version": GRAPH.replace("rlx 1", "rlx 999"), "cut": GRAPH[:90], "none": "hello",
                           "deep": "rlx 1\n" + "graph @g { " * 10000}.items():  # fmt: skip
            with self.subTest(name):
                self.run_fails(name, self.file(f"{name}.rlx", text))

    def test_an_input_of_the_wrong_length_dtype_or_name(self):
        short = self.folder / "short.npy"
        write_npy(short, "<f4", [2, 2], range(4))
        self.run_fails(r"(?s)x.*f32\[2, 3\].*f32\[2, 2\]", x=short)
        write_npy(short, "<f8", [2, 3], range(6))
        self.run_fails(r"f64\[2, 3\]", x=short)
        self.run_fails(r"'z'", more=["--input", f"z={self.x}"])
        self.run_fails(r"twice", more=["--input", f"x={self.x}"])
        short.write_bytes(self.x.read_bytes()[:-1])
        self.run_fails(r"short.npy", x=short)
        self.fails(1, r"input 'x' \(f32\[2, 3\]\).*not given", "run", self.graph, "--params", self.weights)
        self.fails(2, r"NAME=FILE", "run", self.graph, "--params", self.weights, "--input", "x")

    def test_an_unknown_device_lists_those_that_there_are(self):
        self.run_fails("there is no device 'gpu'; there are cpu,", more=["--device", "gpu"])
        self.run_fails("'null' is not available", more=["--device", "null"])
        self.fails(1, "there is no device 'x'", "where", self.graph, "--target", "x")

    def test_output_that_cannot_be_written_is_said_before_running(self):
        taken = self.file("taken", "a file, no folder")
        arguments = ["run", self.graph, "--params", self.weights, "--input", f"x={self.x}"]
        self.fails(1, "taken", *arguments, "--output-dir", taken)
        self.fails(1, "taken", *arguments, "--output-dir", taken / "below")
        self.fails(1, "nowhere", *arguments, "--output", self.folder / "nowhere/y.safetensors")
        self.fails(1, "nowhere", *arguments, "--profile", self.folder / "nowhere/trace.json")
        self.assertEqual(taken.read_text(), "a file, no folder")
        if os.path.isdir("/proc"):
            self.fails(1, "/proc/rlx", *arguments, "--output-dir", "/proc/rlx")

    def test_a_disk_that_fills_up_leaves_no_half_of_a_file(self):
        text = 'rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[64, 64]\n  %1 = exp(%0) : f32[64, 64]\n  return %1 @"y"\n}\n'
        graph, large = self.file("large.rlx", text), self.folder / "large.npy"
        write_npy(large, "<f4", [64, 64], [0] * 4096)
        places = {"--output-dir": self.out, "--output": self.folder / "y.safetensors"}
        for option, place in places.items():
            with self.subTest(option):
                before = sorted(self.folder.rglob("*"))
                # SIGXFSZ stays ignored, as Python has it: a write beyond the limit fails as on a full disk.
                result = subprocess.run(
                    [PROGRAM, "run", graph, "--input", f"x={large}", option, place], capture_output=True, check=False,
                    encoding="utf-8", restore_signals=False,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))  # fmt: skip
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertRegex(result.stderr, rf"{place.name}.*File too large")
                self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_an_output_that_is_no_file_name_stays_in_its_folder(self):
        outside = self.file("outside.rlx", GRAPH.replace('@"y"', '@"../y"'))
        self.run_fails("output '../y' cannot name a file", outside)
        self.assertFalse((self.folder / "y.npy").exists())

    def test_a_dtype_that_numpy_lacks_is_refused_before_running(self):
        text = 'rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[2, 3]\n  %1 = convert(%0) {dtype = bf16} : bf16[2, 3]\n  return %1 @"y"\n}\n'
        self.run_fails("bf16, which NumPy does not have; .*--output", self.file("bf16.rlx", text))

    def test_models_that_are_not_there(self):
        nowhere = self.folder / "nowhere"
        for arguments in (["where", nowhere], ["inspect", nowhere], ["run", nowhere], ["embed", "--model", nowhere, "x"],
                          ["tokenize", "--model", nowhere, "x"], ["bench", "1x16", "--model", nowhere]):  # fmt: skip
            with self.subTest(arguments[0]):
                self.fails(1, "nowhere", *arguments)
        self.fails(1, "config.json", "embed", "--model", self.folder, "x")
        self.fails(1, "holds arrays, not a graph", "where", self.weights)
        self.fails(1, "no-such-file", "tokenize", "--model", nowhere, "--file", self.folder / "no-such-file")


if __name__ == "__main__":
    unittest.main()
