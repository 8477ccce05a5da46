#!/usr/bin/env python3
"""A library with less than all (docs/building.md): the list of ops that `rlx ops --used-by` writes, what CMake makes of it, and what a
library says of an op that it has not. For that, the two files that read the list are compiled again, and the library is linked a second
time from them and from this build's objects. scripts/check_small_library builds a small one whole, which takes minutes."""

import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RLX_PROGRAM"]).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cli"))
from program import model_folder, rlx, write_npy  # noqa: E402

GRAPH = """rlx 1
graph @small {
  %0 = input() @"x" : f32[4, 4]
  %1 = gelu(%0) : f32[4, 4]
  %2 = softmax(%1) : f32[4, 4]
  return %2 @"y"
}
"""
# What the parts of CMakeLists.txt stand on that choices.cmake speaks to.
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(choices LANGUAGES NONE)
set(PROJECT_SOURCE_DIR "{root}")
add_library(rlx_compiler_settings INTERFACE)
include("{root}/cmake/choices.cmake")
message(STATUS "left out: ${{rlx_left_out_sources}}")
"""


def names_in(listed):
    return [line for line in listed.splitlines() if not line.startswith("#")]


class Choices(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def used_by(self, *models):
        result = rlx("ops", "--used-by", *models)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def graph(self):
        path = self.folder / "small.rlx"
        path.write_text(GRAPH)
        return path

    def configured(self, **options):
        """What CMake says, and the header that it writes."""
        (self.folder / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT))
        build = self.folder / "build"
        command = ["cmake", "-S", self.folder, "-B", build, *(f"-D{name}={value}" for name, value in options.items())]
        result = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
        header = build / "include/rlx_choices.h"
        return result.returncode, re.sub(r"\s+", " ", result.stdout + result.stderr), header.read_text() if header.exists() else ""

    def test_a_list_has_the_ops_of_a_graph_and_none_that_it_has_no_use_for(self):
        names = names_in(self.used_by(self.graph()))
        self.assertEqual(names, sorted(set(names)))
        self.assertLessEqual({"gelu", "softmax"}, set(names))
        self.assertFalse({"cholesky", "adam_update", "fft", "conv"} & set(names))

    def test_a_list_is_refused_for_what_is_no_model(self):
        result = rlx("ops", "--used-by", self.folder / "none.rlx")
        self.assertEqual(result.returncode, 1)
        self.assertIn("none.rlx", result.stderr)

    def test_a_list_makes_a_header_with_its_ops_and_those_that_every_graph_has(self):
        (self.folder / "my.ops").write_text("# of mine\nsoftmax\n\nadd\n")
        code, said, header = self.configured(RLX_OPS=f"{self.folder}/my.ops;exp", RLX_PARTS="encoders")
        self.assertEqual(code, 0, said)
        self.assertEqual(re.findall(r'"(\w+)"', header), ["add", "constant", "exp", "input", "param", "softmax"])
        self.assertIn("#define RLX_PART_ENCODERS 1", header)
        self.assertIn("#define RLX_PART_TRAINING 0", header)
        self.assertIn("src/(ops|kernels)/linalg/", said)
        self.assertIn("src/(train|data)/", said)

    def test_a_folder_of_src_ops_stands_for_its_ops(self):
        code, said, header = self.configured(RLX_OPS="linalg", RLX_PARTS="NONE")
        self.assertEqual(code, 0, said)
        names = re.findall(r'"(\w+)"', header)
        self.assertIn("cholesky", names)
        self.assertNotIn("softmax", names)
        self.assertNotIn("src/(ops|kernels)/linalg/", said)
        self.assertIn("src/(ops|kernels)/signal/", said)

    def test_a_choice_that_there_is_not_is_an_error_that_names_what_there_is(self):
        (self.folder / "wrong.ops").write_text("softmaxx\n")
        for options, wanted in [({"RLX_OPS": "softmaxx"}, "has 'softmaxx', which is no op, none of the folders .*linalg"),
                                ({"RLX_OPS": self.folder / "wrong.ops"}, "there is no op 'softmaxx'"),
                                ({"RLX_PARTS": "trainig"}, "has 'trainig'; it is ALL, NONE, or a list of training, "),
                                ({"RLX_PARTS": "NONE", "RLX_PROGRAM": "ON"}, "configure with -DRLX_PROGRAM=OFF")]:  # fmt: skip
            code, said, _ = self.configured(**options)
            self.assertNotEqual(code, 0, said)
            self.assertRegex(said, wanted)

    def test_the_whole_library_has_every_op(self):
        code, said, header = self.configured()
        self.assertEqual(code, 0, said)
        self.assertIn("{ return true; }", header)
        self.assertNotIn(" 0\n", header)
        self.assertEqual((BUILD / "include/rlx_choices.h").read_text(), header)

    def test_the_functions_of_a_part_that_is_left_out_are_written_for_each_that_the_header_declares(self):
        out = self.folder / "left_out.cpp"
        sources = [f"part={path.relative_to(ROOT)}" for path in sorted((ROOT / "src/c_api").glob("c_*.cpp"))]
        subprocess.run([ROOT / "scripts/left_out_functions.py", ROOT, out, *sources], check=True)
        written = set(re.findall(r"^\w[\w *]*\b(rlx_\w+)\(", out.read_text(), re.M))
        backend = {line for line in (ROOT / "include/rlx/backend.h").read_text().splitlines() if "(" in line}
        listed = {line.split()[0] for line in (ROOT / "src/c_api/exports.txt").read_text().splitlines()}
        missing = {name for name in listed - written if not any(f" {name}(" in line for line in backend)}
        self.assertEqual(missing - {"rlx_load_plugin"}, set())


class LeftOut(unittest.TestCase):
    """A library whose table and lowerings were compiled with the ops of MiniLM, or of a small graph, alone."""

    @classmethod
    def setUpClass(cls):
        if BUILD.name != "release" or platform.system() != "Linux" or not (BUILD / "build.ninja").exists():
            raise unittest.SkipTest("a library is linked a second time as Ninja does it on Linux, in the release build")
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = pathlib.Path(cls.holder.name)
        (cls.folder / "small.rlx").write_text(GRAPH)
        cls.model = model_folder()
        models = [cls.folder / "small.rlx", *([cls.model] if cls.model else [])]
        cls.names = names_in(rlx("ops", "--used-by", *models).stdout)
        header = (BUILD / "include/rlx_choices.h").read_text()
        listed = ", ".join(f'"{name}"' for name in sorted({*cls.names, "input", "param", "constant"}))
        test = f"constexpr std::string_view kOps[] = {{{listed}}}; for (std::string_view op : kOps) if (op == name) return true; return false;"
        cut = header.replace("has_op(std::string_view) { return true; }", "has_op(std::string_view name) { " + test + " }")
        assert cut != header
        (cls.folder / "rlx_choices.h").write_text(cut)
        cls.link()

    @classmethod
    def link(cls):
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "rlx"], check=True, capture_output=True, text=True).stdout
        link, objects = None, {}
        for line in commands.splitlines():
            arguments = shlex.split(line.removeprefix(": && ").split(" && ")[0])
            if "-shared" in arguments:
                link = arguments
            if "-c" not in arguments:
                continue
            source = BUILD / arguments[arguments.index("-c") + 1]
            held = source.read_text() if source.parent.name == "Unity" else str(source)
            if not re.search(r"/src/(ops/core/table|backends/cpu/lowerings)\.cpp", held):
                continue
            made = cls.folder / (source.name + ".o")
            objects[arguments[arguments.index("-o") + 1]] = str(made)
            for flag, value in (("-o", made), ("-MF", f"{made}.d"), ("-MT", made)):
                arguments[arguments.index(flag) + 1] = str(value)
            first = next(i for i, a in enumerate(arguments) if a.startswith("-I"))
            arguments.insert(first, f"-I{cls.folder}")
            subprocess.run(arguments, check=True, cwd=BUILD)
        assert len(objects) == 2, objects
        cls.lib = cls.folder / "lib"
        cls.lib.mkdir()
        link = [objects.get(a, a).replace("\\$", "$") for a in link]
        soname = next(a for a in link if a.startswith("-Wl,-soname,")).split(",")[2]
        link[link.index("-o") + 1] = str(cls.lib / soname)
        subprocess.run(link, check=True, cwd=BUILD)
        (cls.lib / "rlx").symlink_to(BUILD / "lib/rlx")

    def small(self, *arguments):
        return rlx(*arguments, LD_LIBRARY_PATH=str(self.lib))

    def test_it_lists_the_ops_of_the_list_alone(self):
        listed = self.small("ops", "softmax").stdout
        self.assertIn("softmax", listed)
        whole = self.small("ops", "--json").stdout
        self.assertEqual({*re.findall(r'^   "name": "(\w+)"', whole, re.M)} - {*self.names, "input", "param", "constant"},
                         set(re.findall(r"^RLX_OP\((\w+)\)", "".join(path.read_text() for path in ROOT.glob("extras/*/ops.def")), re.M)))

    def test_an_op_that_it_has_not_is_an_error_that_names_it_and_the_option(self):
        graph = self.folder / "cholesky.rlx"
        graph.write_text('rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[2, 2]\n  %1 = cholesky(%0) : f32[2, 2]\n  return %1 @"y"\n}\n')
        result = self.small("where", graph)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, r"the op 'cholesky' was left out of this library; build one with -DRLX_OPS=ALL, or add 'cholesky'")
        # A builder makes such a node, not a reader of text: a Core ML package with the op.
        made = rlx("convert", graph, "-o", self.folder / "cholesky.mlpackage")
        self.assertEqual(made.returncode, 0, made.stderr)
        result = self.small("where", self.folder / "cholesky.mlpackage")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, r"the op '\w+' was left out of this library")

    def test_a_graph_of_the_list_gives_the_same_numbers(self):
        write_npy(self.folder / "x.npy", "<f4", [4, 4], [0.3 * i - 2 for i in range(16)])
        words = ["run", self.folder / "small.rlx", "--input", f"x={self.folder / 'x.npy'}", "--output-dir"]
        small, whole = self.small(*words, self.folder / "small"), rlx(*words, self.folder / "whole")
        self.assertEqual((small.returncode, whole.returncode), (0, 0), small.stderr + whole.stderr)
        self.assertEqual((self.folder / "small/y.npy").read_bytes(), (self.folder / "whole/y.npy").read_bytes())

    def test_minilm_gives_the_same_vectors(self):
        if not self.model:
            self.skipTest("all-MiniLM-L6-v2 is not here; scripts/fetch_minilm.py fetches it, RLX_MODEL names a folder")
        self.assertLess(len(self.names), 60)
        made = []
        for name, run in (("small", self.small), ("whole", rlx)):
            result = run("embed", "--model", self.model, "--npy", self.folder / f"{name}.npy", "A cat sleeps.", "word " * 200, "Größe")
            self.assertEqual(result.returncode, 0, result.stderr)
            made.append((self.folder / f"{name}.npy").read_bytes())
        self.assertEqual(*made)


if __name__ == "__main__":
    unittest.main()
