#!/usr/bin/env python3
"""Manifests (`rlx inspect --manifest`), execution profiles (`--execution`) and pipelines (`rlx run X.toml`, stages of a plugin)."""

import json
import math
import pathlib
import unittest
import xml.etree.ElementTree

from program import PROGRAM, ROOT, ProgramTest, model_folder, read_npy, rlx, write_npy

STAGES = pathlib.Path(PROGRAM).resolve().parents[1] / "examples/edit_distance_stage.so"
GRAPH = """rlx 1
graph @product {
  %0 = input() @"x" : f32[B, 3]
  %1 = param() @"head.weight" : f32[4, 3]
  %2 = linear(%0, %1) @"head" : f32[B, 4]
  return %2 @"y"
}
"""
PROFILE = """device = "cpu"
threads = 1

[phase.one]
shapes = {B = 1}

[phase.some]
bounds = {B = 2}
accuracy = "exact"
"""


class Manifest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph = self.file("product.rlx", GRAPH)

    def manifest(self, *arguments):
        return json.loads(self.succeeds("inspect", self.graph, "--manifest", "--json", *arguments))

    def test_layers_have_params_flops_and_shapes_in_symbols_or_in_numbers(self):
        open_, closed = self.manifest(), self.manifest("--dim", "B=5")
        (head,) = open_["layers"][0]["layers"]
        self.assertEqual((head["name"], head["totals"]["params"], head["totals"]["flops"]), ("head", 12, "24*B"))
        self.assertEqual(open_["symbols"], ["B"])
        (head,) = closed["layers"][0]["layers"]
        self.assertEqual((head["totals"]["flops"], head["totals"]["bytes_moved"]), (2 * 5 * 3 * 4, 4 * (5 * 3 + 12 + 5 * 4)))
        self.assertEqual(head["outputs"], [{"dtype": "f32", "shape": [5, 4]}])

    def test_the_table_and_the_picture(self):
        svg = self.folder / "product.svg"
        text = self.succeeds("inspect", self.graph, "--manifest", "--dim", "B=5", "--svg", svg)
        self.assertRegex(text, r"(?m)^  head +linear +f32\[5, 4\] +12 +120 +188 B$")
        self.assertTrue(xml.etree.ElementTree.parse(svg).getroot().tag.endswith("svg"))
        self.assertIn("without numbers: B", self.succeeds("inspect", self.graph, "--manifest"))

    def test_what_is_wrong_is_said(self):
        self.fails(1, "has no such symbol; the nearest is 'B'", "inspect", self.graph, "--manifest", "--dim", "C=1")
        self.fails(1, "'B' of graph 'product' has none", "inspect", self.graph, "--manifest", "--svg", self.folder / "x.svg")
        self.fails(2, "--svg and --dim are for --manifest", "inspect", self.graph, "--dim", "B=1")

    def test_minilm(self):
        folder = model_folder()
        if folder is None:
            self.skipTest("all-MiniLM-L6-v2 is not here")
        found = json.loads(self.succeeds("inspect", folder, "--manifest", "--json", "--dim", "B=1", "--dim", "S=128"))
        # tests/cost/flops_of_torch.py; without the pooler.
        totals = found["layers"][0]["totals"]
        self.assertEqual((totals["params"], totals["flops"]), (22713216 - 147840, 2868903936))


class Execution(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph, self.profile = self.file("product.rlx", GRAPH), self.file("p.toml", PROFILE)
        self.weights = self.folder / "w.npz"
        self.x1, self.x3 = self.folder / "x1.npy", self.folder / "x3.npy"
        write_npy(self.x1, "<f4", [1, 3], [1, 2, 3])
        write_npy(self.x3, "<f4", [3, 3], range(9))

    def where(self, phase, *more):
        return json.loads(self.succeeds("where", self.graph, "--execution", f"{self.profile}:{phase}", "--json", *more))

    def test_the_phase_runs_on_its_first_device_that_is_available_and_the_others_are_named(self):
        self.assertTrue(self.where("one")["target"].startswith("cpu"))
        several = self.file("several.toml", 'device = ["cuda", "loopback", "cpu"]\n')
        result = rlx("where", self.graph, "--execution", several, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        devices = {d["device"]: d["available"] for d in json.loads(self.succeeds("devices", "--json"))}
        if not devices["cuda"]:
            self.assertTrue(json.loads(result.stdout)["target"].startswith("loopback"))
            self.assertRegex(result.stderr, "^rlx: not available: cuda: .+")

    def test_a_profile_fixes_shapes_and_bounds_of_what_is_compiled(self):
        for phase, wanted in (("one", "f32[1, 3]"), ("some", "f32[B, 3]")):
            kept = self.folder / f"{phase}.rlxc"
            self.succeeds("compile", self.graph, "--without-params", "--execution", f"{self.profile}:{phase}", "-o", kept)
            about = json.loads(self.succeeds("inspect", kept, "--json"))
            self.assertIn(wanted, json.dumps(about["signature"] if "signature" in about else about))

    def test_options_of_the_command_line_come_before_the_profile(self):
        plan = self.succeeds("where", self.graph, "--execution", f"{self.profile}:one", "--plan")
        self.assertIn("f32[1, 4]", plan)
        other = self.succeeds("where", self.graph, "--execution", f"{self.profile}:one", "--plan", "--dim", "B=7")
        self.assertIn("f32[7, 4]", other)
        self.fails(1, "there is no device|unknown|no backend", "where", self.graph, "--execution", f"{self.profile}:one", "--target", "abacus")

    def test_what_is_wrong_is_said_with_the_line(self):
        self.fails(1, "the profile has several phases, 'one', 'some'", "where", self.graph, "--execution", self.profile)
        self.fails(1, "no phase 'oen'; the nearest are 'one' and 'some'", "where", self.graph, "--execution", f"{self.profile}:oen")
        wrong = self.file("wrong.toml", "threads = 1\nacuracy = 3\n")
        self.fails(1, r"(?s)line 2: .*no key 'acuracy'; the nearest are 'accuracy'.*while reading the execution profile", "where", self.graph, "--execution", wrong)
        other = self.file("other.toml", "shapes = {C = 3}\n")
        self.fails(1, "the profile has a number for 'C', and graph 'product' has no such symbol", "where", self.graph, "--execution", other)


class Pipelines(ProgramTest):
    def test_ops_and_graphs_are_stages(self):
        self.file("double.rlx", 'rlx 1\ngraph @double {\n  %0 = input() @"a" : f32[N, 2]\n  %1 = add(%0, %0) : f32[N, 2]\n  return %1 @"b"\n}\n')
        pipeline = self.file("p.toml", 'inputs = {a = "f32[N, 2]"}\n[[stage]]\nname = "graph"\nsettings = {path = "double.rlx"}\n'
                             '[[stage]]\nname = "softmax"\ntakes = "b"\ngives = "chance"\n')  # fmt: skip
        write_npy(self.folder / "a.npy", "<f4", [1, 2], [0.0, 0.5])
        self.succeeds("run", pipeline, "--input", f"a={self.folder / 'a.npy'}", "--output-dir", self.folder / "out")
        _, (low, high) = read_npy(self.folder / "out/chance.npy")
        self.assertAlmostEqual(high, 1 / (1 + math.exp(-1)), delta=1e-6)
        self.assertAlmostEqual(low + high, 1, delta=1e-6)

    def test_the_pipeline_of_the_document_gives_what_embed_gives(self):
        folder = model_folder()
        if folder is None:
            self.skipTest("all-MiniLM-L6-v2 is not here")
        text = (ROOT / "docs/pipelines.md").read_text().split("```toml\n")[1].split("```")[0]
        pipeline = self.file("p.toml", text.replace("~/.cache/rlx/all-MiniLM-L6-v2", str(folder)))
        sentences = self.file("lines.txt", "a cat sat on the mat\ngraphs\n")
        (found,) = json.loads(self.succeeds("run", pipeline, "--input", f"texts={sentences}", "--json"))["outputs"]
        self.succeeds("embed", "--model", folder, "--file", sentences, "--npy", self.folder / "e.npy")
        shape, wanted = read_npy(self.folder / "e.npy")
        self.assertEqual((found["shape"], len(found["values"])), (list(shape), 2 * 384))
        for value, right in zip(found["values"], wanted):
            self.assertAlmostEqual(value, right, delta=2e-6)

    @unittest.skipUnless(STAGES.is_file(), "the examples were not built")
    def test_stages_of_a_plugin_run_on_the_host_and_in_the_graph(self):
        pipeline = self.file("p.toml", 'inputs = {texts = "texts"}\noutputs = ["distances", "weights", "best"]\n'
                             '[[stage]]\nname = "edit_distances"\nsettings = {known = ["kitten", "graph"]}\n'
                             '[[stage]]\nname = "soft_vote"\nsettings = {sharpness = 2}\n'
                             '[[stage]]\nname = "argmax"\nsettings = {axis = 1}\ntakes = "weights"\ngives = "best"\n')  # fmt: skip
        texts = self.file("texts.txt", "sitting\ngraphs\n")
        found = json.loads(self.succeeds("--load", STAGES, "run", pipeline, "--input", f"texts={texts}", "--json"))
        outputs = {o["name"]: o["values"] for o in found["outputs"]}
        self.assertEqual(outputs["distances"], [3, 7, 6, 1])  # Levenshtein's own example: kitten, sitting, 3
        self.assertEqual(outputs["best"], [0, 1])
        self.assertAlmostEqual(outputs["weights"][0], 1 / (1 + math.exp(-8)), delta=1e-6)
        self.fails(1, r"(?s)no stage and no op 'edit_distances'.*while reading the stage in line 3|no stage and no op 'edit_distances'", "run", pipeline, "--input", f"texts={texts}")

    def test_what_is_wrong_is_said(self):
        pipeline = self.file("p.toml", 'inputs = {x = "f32[2]"}\n[[stage]]\nname = "softmax"\ntakes = "z"\ngives = "y"\n')
        self.fails(1, r"(?s)nothing before it gives 'z'; the nearest is 'x'.*while building stage 1, 'softmax'.*while loading the pipeline", "run", pipeline)
        self.fails(2, "are not for pipelines", "run", pipeline, "--profile", "t.json")


if __name__ == "__main__":
    unittest.main()
