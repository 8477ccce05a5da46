#!/usr/bin/env python3
"""The command line: what helps, what is refused with exit code 2, and how output that nobody reads ends."""

import json
import os
import re
import subprocess
import unittest

from program import PROGRAM, ROOT, ProgramTest, rlx

SUBCOMMANDS = re.findall(r"(?m)^  ([\w-]+)  ", rlx("--help").stdout.split("Subcommands:")[1].split("\n\n")[0])


class Usage(ProgramTest):
    def test_help_of_each_subcommand_shows_its_use(self):
        self.assertIn("SUBCOMMAND", self.succeeds("--help"))
        self.assertGreater(len(SUBCOMMANDS), 15)
        for name in SUBCOMMANDS:
            with self.subTest(name):
                text = self.succeeds(name, "--help")
                self.assertIn(f"Usage: rlx {name}", text)
                self.assertTrue(name == "devices" or f"  rlx {name}" in text or f"| rlx {name}" in text, "no example")

    def test_each_subcommand_that_reports_does_so_as_json_too(self):
        for name in set(SUBCOMMANDS) - {"completion", "manual", "chat"}:  # scripts, pages, and what a person reads
            with self.subTest(name):
                self.assertIn("--json", self.succeeds(name, "--help"))

    def test_version_is_one_line(self):
        self.assertRegex(self.succeeds("--version"), r"^rlx \d+\.\d+\.\d+\n$")

    def test_wrong_usage_ends_with_2_and_names_the_help(self):
        for arguments in (
            [], ["no-such-command"], ["--no-such-option"], ["embed"], ["embed", "--model"], ["embed", "--bogus", "x"],
            ["embed", "--model", "m", "--threads", "0", "x"], ["embed", "--model", "m", "--threads", "many", "x"],
            ["embed", "--model", "m", "--file", "f", "a sentence"], ["search", "--model", "m", "--corpus", "c"],
            ["search", "--model", "m", "query"], ["run"], ["run", "a.rlx", "b.rlx"], ["where"], ["where", "a", "b"],
            ["inspect"], ["devices", "cpu"], ["bench"], ["bench", "gemm_512", "--iters", "-1"],
            ["ops", "--json", "--markdown"], ["ops", "--json", "--coverage"],
        ):  # fmt: skip
            with self.subTest(arguments):
                self.fails(2, r"See `rlx.* --help`", *arguments)

    def test_a_mistyped_word_is_named_with_the_nearest(self):
        for words, message in (
            (["trian"], "there is no subcommand 'trian'; did you mean train?"), (["embd", "x"], "no subcommand 'embd'; did you mean embed?"),
            (["--load", "lib.so", "serach", "q"], "no subcommand 'serach'; did you mean search?"), (["--laod", "x", "ops"], "no option '--laod'; did you mean --load?"),
            (["run", "--inptu", "x=y"], "rlx run: there is no option '--inptu'; did you mean --input?"),
            (["search", "--model", "m", "--corpus", "c", "--josn", "q"], "no option '--josn'; did you mean --json?"),
            (["convert", "m", "--weihgts=w", "-o", "y.mlpackage"], "no option '--weihgts'; did you mean --weights?"),
            (["train", "mlp", "--learning_rate", "1"], "no option '--learning_rate'; did you mean --learning-rate?"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertIn(message, self.fails(2, "See `rlx.* --help`", *words))

    def test_a_word_that_is_near_to_none_is_named_with_those_that_there_are(self):
        self.assertIn("no subcommand 'frobnicate'; there are embed, tokenize, detokenize, ", self.fails(2, "help", "frobnicate"))
        text = self.fails(2, "no option '--qqqqqq'", "where", "m", "--qqqqqq")
        self.assertNotIn("did you mean", text)

    def test_an_unknown_benchmark_lists_those_that_there_are(self):
        for name in ("gemm", "gemm_0", "gemm_2x2", "gemm_512x", "mlps", "minilm_1x16x2", "x", "99999999999999999999"):
            with self.subTest(name):
                self.assertIn("softmax_4096x1024", self.fails(2, f"there is no case '{name}'", "bench", "small_graph", name))
        self.fails(2, "need a model", "bench", "1x16")

    def test_the_usual_benchmarks_are_listed_one_a_line(self):
        names = self.succeeds("bench", "--list").splitlines()
        for name in ("minilm_8x128", "ewchain_4096x4096", "small_graph"):
            self.assertIn(name, names)

    def test_devices_tell_what_is_here(self):
        by_name = {d["device"]: d for d in json.loads(self.succeeds("devices", "--json"))}
        self.assertTrue(by_name["cpu"]["available"])
        self.assertFalse(by_name["null"]["available"])
        self.assertIn("cpu", self.succeeds("devices"))
        self.assertEqual(by_name["tiny"]["target"]["limits"], {"largest_buffer": 1 << 20, "buffers_per_launch": 8, "index_bits": 32})
        self.assertIn("processor", by_name["cpu"]["target"]["facts"])
        self.assertIn("matmul", by_name["cpu"]["target"]["claims"])
        self.assertIsNone(by_name["cuda"]["target"])

    def test_ops_tell_operands_attributes_and_support(self):
        (softmax,) = json.loads(self.succeeds("ops", "softmax", "--json"))["ops"]
        self.assertEqual((softmax["operands"], softmax["kind"], softmax["primitive"]), (["x"], "composite", False))
        self.assertEqual((softmax["covers"], softmax["claims"]["cpu"]), (["Softmax"], softmax["support"]["cpu"]["support"]))
        self.assertIn(softmax["claims"]["cpu"], ("native", "some"))
        self.assertGreaterEqual(softmax["samples"], 3)
        self.assertEqual(softmax["attributes"], [{"name": "axis", "kind": "int", "default": "-1"}])
        self.assertIn("cpu", softmax["support"])
        self.fails(1, "there is no op 'sofmax'; is 'softmax' meant", "ops", "sofmax")

    def test_the_published_names_are_listed_once_and_every_op_spells_them_right(self):
        listed = re.findall(r'^RLX_PUBLISHED(?:_AS)?\("[^"]+", (\w+)', (ROOT / "src/ops/published_names.def").read_text(encoding="utf-8"), re.M)
        self.assertEqual((len(listed), len(set(listed))), (187, 187))
        for op in json.loads(self.succeeds("ops", "--json"))["ops"]:
            self.assertLessEqual(set(op["covers"]), set(listed), op["name"])

    def test_coverage_counts_what_the_ops_cover_and_names_the_rest(self):
        text = self.succeeds("ops", "--coverage")
        covered = {name for op in json.loads(self.succeeds("ops", "--json"))["ops"] for name in op["covers"]} | {"Custom"}
        self.assertTrue(text.startswith(f"{len(covered)} of 187\n"), text)
        missing = {name for line in text.splitlines()[3:] for name in line.split(": ")[1].split(", ")}
        self.assertEqual(len(missing), 187 - len(covered))
        self.assertFalse(missing & covered)
        self.assertLessEqual({"MatMul", "GatherElements", "SoftmaxCrossEntropyBackward"}, covered)

    def test_a_reader_that_leaves_ends_the_program_quietly(self):
        process = subprocess.Popen([PROGRAM, "ops", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        error = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(), error), (0, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([PROGRAM, "devices"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"standard output", result.stderr)

    def test_errors_say_what_was_being_done(self):
        result = rlx("run", self.folder / "none.rlx")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"(?s)^rlx: error: .*none\.rlx.*")


if __name__ == "__main__":
    unittest.main()
