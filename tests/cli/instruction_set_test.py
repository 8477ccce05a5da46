#!/usr/bin/env python3
"""RLX_ISA and --isa: what `rlx devices` and `rlx where` say of them, and a product and a tanh with fewer instructions than
the processor has, beside the same numbers in f64."""

import math
import random
import struct
import unittest

from program import ProgramTest, f32, read_npy, rlx, write_npy, write_safetensors

ROWS, DEPTH, COLUMNS = 33, 129, 65
GRAPH = f"""rlx 1
graph @g {{
  %0 = input() @"x" : f32[{ROWS}, {DEPTH}]
  %1 = param() @"w" : f32[{DEPTH}, {COLUMNS}]
  %2 = matmul(%0, %1) : f32[{ROWS}, {COLUMNS}]
  %3 = tanh(%2) : f32[{ROWS}, {COLUMNS}]
  return %3 @"y"
}}
"""
IMAGE = """rlx 1
graph @g {
  %0 = input() @"x" : f32[1, 3, 20, 20]
  %1 = constant() {value = f32[] [0.1]} : f32[]
  %2 = broadcast_in_dim(%1) {dims = [16, 3, 3, 3]} : f32[16, 3, 3, 3]
  %3 = conv(%0, %2) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1} : f32[1, 16, 20, 20]
  %4 = relu(%3) : f32[1, 16, 20, 20]
  return %4 @"y"
}
"""
SETS = ["sse4", "avx2", "avx512", "avx512_vnni", "amx"]


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class InstructionSets(ProgramTest):
    def best(self):
        words = self.succeeds("devices", RLX_ISA="")
        if ", native, vectors by Highway" in words:
            self.skipTest("RLX_ISA knows no instruction sets of this architecture")
        if ", neon" in words:
            self.skipTest("these are the instruction sets of x86-64; this processor is an Arm")
        return next(i for i, name in enumerate(SETS) if f", {name}, vectors by Highway" in words)

    def available(self):
        """The sets up to the one in use without a limit; of a build for one set alone, those from that one on."""
        sets = []
        for name in SETS[: self.best() + 1]:
            result = rlx("devices", RLX_ISA=name)
            if result.returncode == 0:
                sets.append(name)
                self.assertIn(f", {name}, vectors by Highway", result.stdout)
            else:
                self.assertRegex(result.stderr, f"RLX_ISA={name}: this build has kernels for [a-z0-9]+ at least")
        return sets

    def test_devices_name_the_limit(self):
        self.assertEqual(self.available()[-1], SETS[self.best()])

    def test_numbers_agree_with_f64(self):
        draw = random.Random(1)
        x = [rounded(draw.gauss(0, 1)) for _ in range(ROWS * DEPTH)]
        w = [rounded(draw.gauss(0, 0.1)) for _ in range(DEPTH * COLUMNS)]
        graph, weights, inputs = self.file("g.rlx", GRAPH), self.folder / "w.safetensors", self.folder / "x.npy"
        write_safetensors(weights, {"w": ("F32", [DEPTH, COLUMNS], f32(*w))})
        write_npy(inputs, "<f4", [ROWS, DEPTH], x)
        want = [
            math.tanh(math.fsum(x[i * DEPTH + k] * w[k * COLUMNS + j] for k in range(DEPTH)))
            for i in range(ROWS)
            for j in range(COLUMNS)
        ]
        for name in self.available():
            with self.subTest(name):
                out = self.folder / name
                self.succeeds(
                    "run", graph, "--params", weights, "--input", f"x={inputs}", "--output-dir", out, RLX_ISA=name
                )
                _, got = read_npy(out / "y.npy")
                held = self.folder / f"held-{name}"
                self.succeeds("run", graph, "--params", weights, "--input", f"x={inputs}", "--output-dir", held, "--isa", name)
                self.assertEqual((held / "y.npy").read_bytes(), (out / "y.npy").read_bytes())
                self.assertEqual(len(got), len(want))
                # 129 terms of size 0.1, each sum within 2^-22 of its terms' magnitudes: 129 * 0.064 * 2^-22.
                self.assertLess(max(abs(a - b) for a, b in zip(got, want)), 4e-6)

    def test_an_unknown_name_and_a_missing_set_are_refused(self):
        graph = self.file("g.rlx", GRAPH)
        error = self.fails(1, "RLX_ISA=avx1024 is no instruction set: take one of (scalar, )?sse4, avx2, ", "where", graph,
                           RLX_ISA="avx1024")
        self.assertIn("native", error)
        self.fails(1, "RLX_ISA=neon_dot is no instruction set of this processor: take one of (scalar, )?sse4, ", "where", graph, RLX_ISA="neon_dot")
        for name in SETS[self.best() + 1 :]:
            self.fails(1, f"RLX_ISA={name}: this processor, or this build, has [a-z0-9_]+ at most", "where", graph, RLX_ISA=name)

    def test_where_names_the_set_of_the_program(self):
        graph = self.file("g.rlx", GRAPH)
        for name in self.available():
            self.assertIn(f"on cpu ({name}):", self.succeeds("where", graph, "--isa", name))
            self.assertIn(f"on cpu ({name}):", self.succeeds("where", graph, RLX_ISA=name))
            profile = self.file("profile.toml", f'isa = "{name}"\n')
            self.assertIn(f"on cpu ({name}):", self.succeeds("where", graph, "--execution", profile))
            # Sets may be planned alike: without tiles the words are those of multiply-adds for each width of vectors.
            self.assertEqual(self.succeeds("where", graph, "--strategies", "--isa", name),
                             self.succeeds("where", graph, "--strategies", RLX_ISA=name))

    def test_a_program_cannot_be_given_more_than_the_process_has(self):
        graph = self.file("g.rlx", GRAPH)
        self.fails(1, "isa=avx1024 is no instruction set: take one of ", "where", graph, "--isa", "avx1024")
        self.fails(1, "isa=avx2 is an option of the device cpu, and this is compiled for coreml", "where", graph, "--target", "coreml",
                   "--isa", "avx2")
        sets = self.available()
        for least, more in zip(sets, sets[1:]):
            error = self.fails(1, f"isa={more}: this processor, or this build, has {least} at most", "where", graph, "--isa", more,
                               RLX_ISA=least)
            self.assertIn(f"under RLX_ISA={least}", error)

    def test_a_compiled_graph_runs_where_its_set_is_the_process_s_own(self):
        """Also one with a convolution, which oneDNN may compute there and not here."""
        graph, inputs, out = self.file("i.rlx", IMAGE), self.folder / "x.npy", self.folder / "out"
        write_npy(inputs, "<f4", [1, 3, 20, 20], [0.5] * 1200)
        compiled = self.folder / "i.rlxc"
        for name in self.available():
            results = []
            for of_compile, of_run in ({}, {"RLX_ISA": name}), ({"RLX_ISA": name}, {}):
                self.succeeds("compile", graph, "-o", compiled, "--isa", name, **of_compile)
                self.assertIn(f"on cpu ({name}):", self.succeeds("where", compiled, **of_run))
                self.succeeds("run", compiled, "--input", f"x={inputs}", "--output-dir", out, **of_run)
                results.append(read_npy(out / "y.npy")[1])
            self.assertLess(max(abs(a - b) for a, b in zip(*results)), 1e-5)
        self.fails(2, "is compiled already", "where", compiled, "--isa", name)

    def test_native_is_no_limit(self):
        graph = self.file("g.rlx", GRAPH)
        for target in "cpu", "tiny", "coreml":
            self.assertEqual(self.succeeds("where", graph, "--target", target, "--isa", "native"),
                             self.succeeds("where", graph, "--target", target))
        self.assertIn("on tiny:", self.succeeds("where", graph, "--target", "tiny"))

    def test_scalar_is_there_or_says_why_not(self):
        result = rlx("devices", RLX_ISA="scalar")
        if result.returncode == 0:
            self.assertIn(", scalar, vectors by Highway", result.stdout)
        else:
            self.assertIn("RLX_ISA=scalar: this build has no kernels without vector instructions: Highway's emulation",
                          result.stderr)


if __name__ == "__main__":
    unittest.main()
