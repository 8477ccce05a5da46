#!/usr/bin/env python3
"""`rlx compile`, and what runs its file in a process of its own: the bits are those of `rlx run` on the model itself, on each
device that is here, and a file for something else is refused with what differs."""

import json
import pathlib
import unittest

from program import PROGRAM, ProgramTest, f32, model_folder, write_npy, write_safetensors

PLUGIN = pathlib.Path(PROGRAM).resolve().parents[1] / "examples/clip_norm.so"
GRAPH = """rlx 1
graph @small {
  %0 = input() @"x" : f32[N, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) @"dense" : f32[N, 2]
  %3 = gelu(%2) @"dense" : f32[N, 2]
  return %3 @"y"
}
"""
CLIPPED = """rlx 1
graph @clipped {
  %0 = input() @"x" : f32[2, 3]
  %1 = clip_norm(%0) {limit = 2.0} @"head" : f32[2, 3]
  return %1 @"y"
}
"""
X = [0.5, -1.0, 2.0, 0.0, 3.0, -0.25]
DEVICES = ["cpu", "loopback", "tiny", "coreml"]


class Compile(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph = self.file("small.rlx", GRAPH)
        self.weights, self.x, self.out = self.folder / "w.safetensors", self.folder / "x.npy", self.folder / "small.rlxc"
        write_safetensors(self.weights, {"w": ("F32", [3, 2], f32(1.0, 2.0, -3.0, 0.5, 0.25, -1.5))})
        write_npy(self.x, "<f4", [2, 3], X)

    def outputs(self, *words):
        file = self.folder / "y.safetensors"
        self.succeeds(*words, "--output", file)
        return file.read_bytes()

    def test_a_file_runs_on_its_device_and_gives_the_bits_of_the_model(self):
        for device in DEVICES:
            with self.subTest(device):
                said = self.succeeds("compile", self.graph, "--params", self.weights, "--device", device, "-o", self.out)
                self.assertRegex(said, rf"small.rlxc': 'small' for {device}, 1 of 1 params, [\d.]+ ")
                wanted = self.outputs("run", self.graph, "--params", self.weights, "--input", f"x={self.x}", "--device", device)
                self.assertEqual(self.outputs("run", self.out, "--input", f"x={self.x}"), wanted)
                about = json.loads(self.succeeds("inspect", self.out, "--json"))
                self.assertEqual((about["kind"], about["graph"], about["device"], about["values"]), ("compiled graph", "small", device, ["w"]))
                self.assertEqual(about["inputs"], [{"name": "x", "type": "f32[N, 3]", "mode": "read"}])
                self.assertIn("matmul", self.succeeds("where", self.out))
                self.assertIn(f"compiled graph 'small' for {device}", self.succeeds("inspect", self.out))

    def test_json_says_what_the_file_holds(self):
        about = json.loads(self.succeeds("compile", self.graph, "--params", self.weights, "--json", "-o", self.out))
        self.assertEqual(about, json.loads(self.succeeds("inspect", self.out, "--json")))
        self.assertEqual((about["graph"], about["values"]), ("small", ["w"]))

    def test_params_may_be_left_out_and_given_later(self):
        self.succeeds("compile", self.graph, "--without-params", "-o", self.out)
        self.fails(1, r"params are not bound: 'w' \(f32\[3, 2\]\).*--params", "run", self.out, "--input", f"x={self.x}")
        wanted = self.outputs("run", self.graph, "--params", self.weights, "--input", f"x={self.x}")
        self.assertEqual(self.outputs("run", self.out, "--params", self.weights, "--input", f"x={self.x}"), wanted)
        self.fails(2, "give either --params or --without-params", "compile", self.graph, "--without-params", "--params", self.weights, "-o", self.out)

    def test_a_file_may_replace_some_of_the_params_that_are_carried(self):
        graph = self.file("two.rlx", GRAPH.replace("gelu(%2)", "add(%2, %5)").replace(
            "  %2 =", '  %4 = param() @"b" : f32[3, 2]\n  %5 = matmul(%0, %4) @"dense" : f32[N, 2]\n  %2 ='))
        w, b, new_b = (("F32", [3, 2], f32(*values)) for values in ((1, 2, -3, 0.5, 0.25, -1.5), (1, 2, 3, 4, 5, 6), (-4, 0.5, 2, 0, 1, 3)))
        both, other, mixed = (self.folder / f"{n}.safetensors" for n in ("both", "other", "mixed"))
        write_safetensors(both, {"w": w, "b": b})
        write_safetensors(other, {"b": new_b})
        write_safetensors(mixed, {"w": w, "b": new_b})
        self.succeeds("compile", graph, "--params", both, "-o", self.out)
        wanted = self.outputs("run", graph, "--params", mixed, "--input", f"x={self.x}")
        self.assertEqual(self.outputs("run", self.out, "--params", other, "--input", f"x={self.x}"), wanted)
        self.assertNotEqual(self.outputs("run", self.out, "--input", f"x={self.x}"), wanted)

    def test_another_device_is_refused_and_it_is_compiled_again_from_the_file(self):
        self.succeeds("compile", self.graph, "--params", self.weights, "-o", self.out)
        self.fails(1, "(?s)device: 'small' was compiled for cpu, and here it is tiny.*rlx compile FILE --device tiny -o FILE",
                   "run", self.out, "--input", f"x={self.x}", "--device", "tiny")
        again = self.folder / "again.rlxc"
        self.assertIn("for tiny, 1 of 1 params", self.succeeds("compile", self.out, "--device", "tiny", "-o", again))
        self.assertEqual(self.outputs("run", again, "--input", f"x={self.x}"), self.outputs("run", self.out, "--input", f"x={self.x}"))
        self.fails(2, "is compiled already", "run", self.out, "--input", f"x={self.x}", "--accuracy", "exact")

    def test_a_damaged_file_says_what_to_do(self):
        self.succeeds("compile", self.graph, "--params", self.weights, "-o", self.out)
        sound = self.out.read_bytes()
        self.out.write_bytes(sound[:-3])
        self.fails(1, "(?s)cut.*reading the compiled graph", "run", self.out, "--input", f"x={self.x}")
        self.out.write_bytes(sound[:-3] + bytes(b ^ 1 for b in sound[-3:]))
        self.fails(1, "(?s)does not have the checksum that it was written with; copy it again, or write it again with `rlx compile`",
                   "run", self.out, "--input", f"x={self.x}")
        self.fails(1, "writing the compiled graph", "compile", self.graph, "--params", self.weights, "-o", self.folder / "none/x.rlxc")

    def test_an_op_and_a_kernel_of_a_library_are_wanted_where_the_file_is_loaded(self):
        if not PLUGIN.exists():
            self.skipTest(f"{PLUGIN} was not built (RLX_EXAMPLES)")
        graph, out = self.file("clipped.rlx", CLIPPED), self.folder / "clipped.rlxc"
        self.succeeds("--load", PLUGIN, "compile", graph, "-o", out)
        self.fails(1, "(?s)ops: 'clipped' has the op 'clip_norm', which is not known here.*rlx --load", "run", out, "--input", f"x={self.x}")
        wanted = self.outputs("--load", PLUGIN, "run", graph, "--input", f"x={self.x}")
        self.assertEqual(self.outputs("--load", PLUGIN, "run", out, "--input", f"x={self.x}"), wanted)
        self.assertIn("clip_norm by 'clip_norm rows'", self.succeeds("inspect", out))

    def test_a_sentence_encoder(self):
        folder = model_folder()
        if folder is None:
            self.skipTest("all-MiniLM-L6-v2 is not here; scripts/fetch_minilm.py fetches it, RLX_MODEL names a folder")
        out = self.folder / "minilm.rlxc"
        self.succeeds("compile", folder, "-o", out)
        names = [i["name"] for i in json.loads(self.succeeds("inspect", out, "--json"))["inputs"]]
        given = []
        for name in names:
            file = self.folder / f"{name}.npy"
            write_npy(file, "<i8", [2, 5], [101, 2023, 2003, 1037, 102] * 2 if "ids" in name and "type" not in name else
                      [0] * 10 if "type" in name else [1] * 10)
            given += ["--input", f"{name}={file}"]
        self.assertEqual(self.outputs("run", out, *given), self.outputs("run", folder, *given))


if __name__ == "__main__":
    unittest.main()
