#!/usr/bin/env python3
"""scripts/apple_check without a Mac: it and what it reads outputs with are linted, its reading is held to outputs that were recorded here
and to made-up ones of a Mac (also broken off, of a failing build, of a crash, without a neural engine), and its steps run on stand-ins
of the programs."""

import ast
import builtins
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT, READER = ROOT / "scripts/apple_check", ROOT / "scripts/apple_check_report.py"
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("apple_check_report", READER)
report_of = importlib.util.module_from_spec(spec)
spec.loader.exec_module(report_of)

# ---- recorded: of this repository's programs on Linux ----

XML = """<?xml version="1.0" encoding="UTF-8"?>
<doctest binary="build/release/tests/coreml_framework" version="2.4.9">
  <Options order_by="file" rand_seed="0" first="0"/>
  <TestSuite>
    <TestCase name="a key is of the content and of the system" filename="cache_test.cpp" line="34">
      <OverallResultsAsserts successes="15" failures="0" test_case_success="true" duration="0.092164"/>
    </TestCase>
    <TestCase name="arrays &lt;with&gt; any strides" filename="strided_test.cpp" line="39">
      <Expression success="false" type="CHECK" filename="strided_test.cpp" line="44">
        <Original>
          x == y
        </Original>
        <Expanded>
          1 == 2
        </Expanded>
      </Expression>
      <OverallResultsAsserts successes="471" failures="1" test_case_success="false" duration="5.7e-05"/>
    </TestCase>
  </TestSuite>
  <OverallResultsAsserts successes="486" failures="1"/>
  <OverallResultsTestCases successes="1" failures="1"/>
</doctest>
"""
CASES = """[
 {
  "op": "softmax", "operands": "[f64[4, 7]] {}", "gradient": false, "params": false, "dtype": "f64", "judgement": "refused",
  "runs": "missing", "error": 0.0, "microseconds": 0.0, "why": "reduce: Core ML has no f64"
 },
 {
  "op": "softmax", "operands": "[f32[4, 7]] {}", "gradient": false, "params": false, "dtype": "f32", "judgement": "agrees",
  "runs": "native", "error": 3.3e-08, "microseconds": 1.272, "why": ""
 },
 {
  "op": "add", "operands": "[f16[3, 4], f16[3, 4]]", "gradient": false, "params": false, "dtype": "f16", "judgement": "wrong",
  "runs": "native", "error": 0.25, "microseconds": 2.0, "why": "0.5 instead of 0.25"
 }
]
"""
WHERE = '{"target": "coreml:ane", "prediction": true, "ops": [{"name": "linear_0", "op": "linear", "device": "ane", "reason": "f16"}]}\n'
BENCH = ('{"peer": "ours", "case": "small_graph", "threads": 1, "times_ms": [0.003, 0.002, 0.0025], "cpu_ms": [0.003], "first_ms": 7.9, '
         '"first_cpu_ms": 2.5, "head": [-0.25, 1.0], "peak_mib": 4.7}\n')  # fmt: skip

# ---- made up: what Apple's tools print, by their documentation ----

MACHINE = {
    "chip": "Apple M2 Pro\n",
    "model": "Mac14,9\n",
    "memory": "17179869184\n",
    "system": "ProductName:\t\tmacOS\nProductVersion:\t\t15.1\nBuildVersion:\t\t24B83\n",
    "xcode": None,
    "tools": "package-id: com.apple.pkg.CLTools_Executables\nversion: 16.1.0.0.1.1729049160\nvolume: /\n",
    "clang": "Apple clang version 16.0.0 (clang-1600.0.26.4)\nTarget: arm64-apple-darwin24.1.0\n",
    "sdk": "15.1\n",
    "cmake": "cmake version 3.30.5\n\nCMake suite maintained and supported by Kitware\n",
}
NO_HIGHWAY = """-- The CXX compiler identification is AppleClang 16.0.0.16000026
CMake Error at cmake/dependencies.cmake:8 (message):
  Highway (libhwy-dev) was not found: run scripts/deps, which installs what
  the build needs
Call Stack (most recent call first):
  cmake/dependencies.cmake:15 (rlx_require)
-- Configuring incomplete, errors occurred!
"""
NO_MEMBER = """[12/480] Building OBJCXX object CMakeFiles/rlx.dir/src/backends/coreml_framework/framework.mm.o
src/x.cpp:3:4: warning: unused variable 'a' [-Wunused-variable]
FAILED: CMakeFiles/rlx.dir/src/backends/coreml_framework/framework.mm.o
src/backends/coreml_framework/framework.mm:159:30: error: property 'preferred' not found on object of type 'MLComputePlan *'
1 error generated.
ninja: build stopped: subcommand failed.
"""
NO_ENGINE = "rlx: error: coreml:ane: Core ML says that this system (Intel) has no neural engine; coreml takes what there is\n"


class Lint(unittest.TestCase):
    def test_they_are_python_of_the_command_line_tools(self):
        for file in (SCRIPT, READER):
            text = file.read_text(encoding="utf-8")
            ast.parse(text, str(file), feature_version=(3, 9))
            for newer in ("tomllib", "itertools.pairwise", "strict=True", "enterContext", "datetime.UTC"):
                self.assertNotIn(newer, text)

    def test_they_import_the_standard_library_alone(self):
        for file in (SCRIPT, READER):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) else []
                for name in names:
                    self.assertTrue(name in sys.stdlib_module_names or name == "apple_check_report", f"{file.name} imports {name}")

    def test_every_name_is_defined_and_every_import_used(self):
        """What pyflakes would say, of modules and functions: without it, by the names that are read and bound."""
        for file in (SCRIPT, READER):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            bound, read = set(dir(builtins)) | {"__file__"}, set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
                elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    bound.add(node.name)
                elif isinstance(node, ast.arg):
                    bound.add(node.arg)
                elif isinstance(node, ast.ExceptHandler) and node.name:
                    bound.add(node.name)
                elif isinstance(node, ast.alias):
                    bound.add((node.asname or node.name).split(".")[0])
            self.assertEqual(read - bound, set(), file.name)
            imported = {(a.asname or a.name).split(".")[0] for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
            self.assertEqual(imported - read, set(), file.name)

    def test_linters_that_are_here_find_nothing(self):
        for command in (["ruff", "check", "--line-length", "160"], ["pyflakes"], [sys.executable, "-m", "pyflakes"]):
            if not shutil.which(command[0]):
                continue
            done = subprocess.run([*command, str(SCRIPT), str(READER)], capture_output=True, text=True, check=False)
            if "No module named pyflakes" in done.stderr:
                continue
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_says_how_it_is_used_and_what_it_needs(self):
        said = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
        for text in ("--quick", "--build DIR", "--install", "Xcode", "CMake 3.25", "Highway", "exit code"):
            self.assertIn(text, said)

    def test_what_it_says_of_libraries_is_what_the_build_asks_for(self):
        asked = (ROOT / "cmake/dependencies.cmake").read_text() + (ROOT / "tools/CMakeLists.txt").read_text() + (ROOT / "tests/CMakeLists.txt").read_text()
        said = SCRIPT.read_text().lower()
        for name in re.findall(r'rlx_require\(\w+ "([^"(]+) \(', asked):
            self.assertIn(name.lower().replace("nlohmann/json", "nlohmann-json"), said)
        libraries = ["highway", "nlohmann-json", "cli11", "utf8proc", "pcre2", "libzip", "doctest", "eigen", "tomlplusplus"]
        deps = (ROOT / "scripts/deps").read_text()
        self.assertEqual(sorted(report_of.missing_formulas(deps, "")), sorted(libraries))
        self.assertEqual(report_of.missing_formulas(deps, "zlib\n" + "\n".join(libraries[1:])), ["highway"])
        made = (ROOT / "cmake/libraries/CMakeLists.txt").read_text()
        self.assertEqual(sorted(re.findall(r"^(?:rlx_library|ExternalProject_Add)\((\w+)", made, re.M)), sorted(n.replace("-", "_") for n in libraries))
        self.assertEqual(len(re.findall(r"\b[0-9a-f]{64}\b", made)), len(libraries))

    def test_the_libraries_configure_with_nothing_but_cmake(self):
        if not shutil.which("cmake"):
            self.skipTest("there is no CMake")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["cmake", "-S", ROOT / "cmake/libraries", "-B", folder, f"-DCMAKE_INSTALL_PREFIX={folder}/installed"],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Reading(unittest.TestCase):
    def test_the_machine(self):
        m = report_of.parse_machine(MACHINE)
        self.assertEqual((m["chip"], m["macos"], m["memory_gib"], m["xcode"], m["cmake"]), ("Apple M2 Pro", "15.1", 16.0, None, "3.30.5"))
        self.assertIn("clang version 16.0.0", m["clang"])
        self.assertEqual(set(report_of.parse_machine({}).values()), {None})

    def test_a_library_that_is_missing(self):
        step = report_of.parse_build("configure", 1, NO_HIGHWAY)
        self.assertFalse(step["passed"])
        self.assertEqual(step["missing"], ["Highway (libhwy-dev)"])
        self.assertIn("Highway (libhwy-dev) was not found", step["errors"][0])

    def test_a_build_that_fails(self):
        step = report_of.parse_build("build", 1, NO_MEMBER)
        self.assertEqual((step["passed"], step["ended"], step["warnings"], step["missing"]), (False, "exit code 1", 1, []))
        self.assertTrue(any("property 'preferred' not found" in e for e in step["errors"]), step["errors"])
        self.assertEqual(report_of.parse_build("build", 0, NO_MEMBER)["errors"], [])
        self.assertEqual(report_of.parse_build("build", None, "")["ended"], "no end in time")

    def test_tests(self):
        passed, failed = report_of.parse_doctest("coreml_framework", 1, XML)
        self.assertEqual((passed["result"], passed["seconds"], passed["why"]), ("passed", 0.092164, ""))
        self.assertEqual((failed["test"], failed["result"]), ("arrays <with> any strides", "failed"))
        self.assertIn("x == y", failed["why"])

    def test_tests_that_break_off_anywhere(self):
        """Wherever it ends, no test passes that did not, and a program that crashed is never one that passed."""
        whole = {t["test"]: t["result"] for t in report_of.parse_doctest("s", 1, XML)}
        for cut in range(0, len(XML) - len("</doctest>\n")):
            tests = report_of.parse_doctest("s", -11, XML[:cut])
            self.assertTrue(any(t["result"] == "crashed" for t in tests), cut)
            for t in tests:
                self.assertTrue(t["result"] == "crashed" or whole[t["test"]] == t["result"], (cut, t))
        (only,) = report_of.parse_doctest("s", -6, "")
        self.assertEqual((only["result"], only["why"]), ("crashed", "no results: SIGABRT"))
        begun = XML.index("<Expression")
        self.assertEqual(report_of.parse_doctest("s", -11, XML[:begun])[-1]["why"], "SIGSEGV")
        sound = XML.replace('test_case_success="false"', 'test_case_success="true"')
        self.assertEqual([t["result"] for t in report_of.parse_doctest("s", -11, sound)], ["passed", "passed", "crashed"])

    def test_an_exception_is_the_reason(self):
        text = XML.replace("<Expression success", '<Exception crash="true">\n  SIGBUS - bus error\n </Exception>\n<Expression success')
        self.assertIn("SIGBUS - bus error", report_of.parse_doctest("s", 1, text)[1]["why"])

    def test_ops(self):
        device = report_of.parse_device("coreml:gpu", 1, CASES, "")
        self.assertTrue(device["whole"])
        self.assertEqual(report_of.summed([device, device])["coreml:gpu"]["wrong"], 2)
        worst = report_of.largest_differences([device])
        self.assertEqual([(row["op"], row["error"]) for row in worst], [("add", 0.25), ("softmax", 3.3e-08)])
        for cut in range(1, len(CASES) - 2):
            broken = report_of.parse_device("coreml:gpu", -11, CASES[:cut], "")
            self.assertFalse(broken["whole"])
            self.assertLessEqual(len(broken["cases"]), 3)
        gone = report_of.parse_device("coreml:gpu", -11, "", "")
        self.assertEqual((gone["whole"], gone["not_run"], gone["ended"]), (False, None, "SIGSEGV"))

    def test_errors_that_are_no_numbers_are_the_worst(self):
        cases = json.dumps([{"op": "a", "judgement": "wrong", "error": None}, {"op": "b", "judgement": "wrong", "error": 2.0},
                            {"op": "c", "judgement": "odd", "error": 1.0}])  # fmt: skip
        device = report_of.parse_device("coreml", 1, cases, "")
        self.assertEqual([row["op"] for row in report_of.largest_differences([device])], ["a", "b", "c"])
        self.assertEqual(report_of.summed([device])["coreml"]["wrong"], 3)

    def test_no_neural_engine_is_no_failure(self):
        device = report_of.parse_device("coreml:ane", 1, "", NO_ENGINE)
        self.assertIn("has no neural engine", device["not_run"])
        self.assertEqual(report_of.failures({"build": [], "tests": [], "devices": [device], "placements": [], "times": []}), [])

    def test_placements(self):
        row = report_of.parse_placement("cnn/fp16", "coreml:ane", 0, WHERE, "")
        self.assertEqual((row["by"], row["ops"], row["why"]), ("rules", {"ane": 1}, None))
        planned = report_of.parse_placement("m", "coreml", 0, WHERE.replace("true", "false").replace('"ane"', '""'), "")
        self.assertEqual((planned["by"], planned["ops"]), ("MLComputePlan", {"unsaid": 1}))
        for text, said, why in (("", "rlx: error: no such package\nmore", "rlx: error: no such package"), (WHERE[:40], "", "no placement: exit code 1"),
                                ("[]", "", "no placement: exit code 1")):  # fmt: skip
            self.assertEqual(report_of.parse_placement("m", "coreml", 1, text, said)["why"], why)

    def test_times(self):
        row = report_of.parse_bench("coreml:gpu", "small_graph", 0, "some line\n" + BENCH, "")
        self.assertEqual((row["fastest_ms"], row["middle_ms"], row["why"]), (0.002, 0.0025, None))
        self.assertEqual(report_of.parse_bench("coreml", "x", -9, BENCH[:50], "")["why"], "no time: SIGKILL")
        self.assertEqual(report_of.parse_bench("coreml", "x", 1, '{"times_ms": []}', "rlx: error: no device\n")["why"], "rlx: error: no device")
        own = report_of.parse_bench("cpu", "small_graph", 0, BENCH.replace("1.0]", "2.0]"), "")
        self.assertEqual(report_of.apart_from_cpu([own, row]), {("small_graph", "coreml:gpu"): 0.5})


def report(**changes):
    return {"rehearsal": False, "machine": report_of.parse_machine(MACHINE), "build": [report_of.parse_build("build", 0, "")],
            "tests": report_of.parse_doctest("s", 0, XML.replace('test_case_success="false"', 'test_case_success="true"')),
            "devices": [report_of.parse_device("coreml:cpu", 0, CASES.replace('"wrong"', '"agrees"'), "")],
            "placements": [report_of.parse_placement("cnn/fp16", "coreml:ane", 0, WHERE, "")],
            "times": [report_of.parse_bench(u, "small_graph", 0, BENCH, "") for u in ("cpu", "coreml:cpu")], "not_run": [], **changes}  # fmt: skip


class Report(unittest.TestCase):
    def test_it_holds_what_was_asked_for(self):
        text = report_of.markdown(report(not_run=["coreml:ane: no neural engine"]))
        for part in ("Apple M2 Pro", "15.1", "**Passed**", "## What could not be run", "no neural engine", "## Build", "arrays <with> any strides",
                     "| coreml:cpu | 2 | 1 | 0 |", "softmax", "| cnn/fp16 | coreml:ane | rules | 1 |", "| small_graph | 0.002 | 0.002 (0) |"):  # fmt: skip
            self.assertIn(part, text)

    def test_each_thing_that_fails_is_told(self):
        for changes, what in (
            ({"build": [report_of.parse_build("build", 1, NO_MEMBER)]}, "build: exit code 1"),
            ({"tests": report_of.parse_doctest("s", 1, XML)}, "'arrays <with> any strides' failed"),
            ({"tests": report_of.parse_doctest("s", -11, XML[:300])}, "crashed"),
            ({"devices": [report_of.parse_device("coreml:gpu", 1, CASES, "")]}, "1 cases of add are wrong"),
            ({"devices": [report_of.parse_device("coreml:gpu", -11, CASES[:600], "")]}, "break off (SIGSEGV)"),
            ({"placements": [report_of.parse_placement("m", "coreml", 1, "", "")]}, "placement of m on coreml"),
            ({"times": [report_of.parse_bench("coreml", "x", None, "", "")]}, "x on coreml: no time: no end in time"),
        ):
            with self.subTest(what):
                made = report(**changes)
                self.assertIn(what, "\n".join(report_of.failures(made)))
                self.assertIn("**FAILED**", report_of.markdown(made))

    def test_a_pipe_does_not_break_a_table(self):
        self.assertIn("a\\|b c", "\n".join(report_of.table(["x"], [["a|b\nc"]])))


STAND_IN = '''#!{python}
import sys, pathlib
words = sys.argv[1:]
name = pathlib.Path(sys.argv[0]).name
def say(text): sys.stdout.write(text)
if name != "rlx":  # a doctest program
    out = next(w[6:] for w in words if w.startswith("--out="))
    text = pathlib.Path({xml!r}).read_text()
    if "{crash}" == name:
        pathlib.Path(out).write_text(text[:400])
        import os, signal; os.kill(os.getpid(), signal.SIGSEGV)
    pathlib.Path(out).write_text(text)
elif words[0] == "devices":
    say('[{{"device": "cpu"}}, {{"device": "coreml", "available": true, "description": "{about}"}}]')
elif words[0] == "test-device":
    if words[1] == "coreml:ane":
        sys.stderr.write({no_engine!r}); sys.exit(1)
    chosen = [words[i + 1] for i, w in enumerate(words) if w == "--op"]
    if "{crash}" in chosen:
        import os; os.abort()
    pathlib.Path(words[words.index("--json") + 1]).write_text({cases!r})
elif words[0] == "where": say({where!r})
elif words[0] == "bench": say({bench!r})
'''


class Steps(unittest.TestCase):
    """The script itself, on programs that answer as `rlx` and the tests do."""

    def run_on(self, crash="", cases=CASES.replace('"wrong"', '"agrees"'), about="no CoreML.framework here", options=("--rehearse",)):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        folder = pathlib.Path(holder.name)
        xml = folder / "results.xml"
        xml.write_text(XML.replace('test_case_success="false"', 'test_case_success="true"'))
        text = STAND_IN.format(python=sys.executable, xml=str(xml), crash=crash, about=about, no_engine=NO_ENGINE, cases=cases, where=WHERE, bench=BENCH)
        for name in ("bin/rlx", "tests/coreml", "tests/coreml_device", "tests/coreml_framework"):
            path = folder / "build" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        env = {k: v for k, v in os.environ.items() if not k.startswith("RLX_")}
        done = subprocess.run([sys.executable, SCRIPT, "--quick", "--build", folder / "build", "--out", folder / "out", "--jobs", "1", *options],
                              capture_output=True, text=True, check=False, env=env)  # fmt: skip
        found = folder / "out/report.json"
        return done, json.loads(found.read_text()) if found.exists() else None, folder / "out"

    def test_what_passes(self):
        done, said, out = self.run_on()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(said["failures"], [])
        self.assertEqual({d["unit"] for d in said["devices"]}, {"coreml:cpu", "coreml:gpu", "coreml"})
        self.assertTrue(any("coreml:ane" in each and "no neural engine" in each for each in said["not_run"]))
        self.assertTrue(any("MLComputePlan" in each for each in said["not_run"]))
        self.assertTrue(any("RLX_MODEL" in each for each in said["not_run"]))
        self.assertIn("not run: coreml:ane", done.stdout)
        text = (out / "report.md").read_text()
        self.assertIn("A rehearsal without CoreML.framework", text)
        self.assertTrue(list((out / "logs").glob("*.log")))

    def test_a_test_that_crashes(self):
        done, said, _ = self.run_on(crash="coreml_device")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(any(t["suite"] == "coreml_device" and t["result"] == "crashed" for t in said["tests"]))
        self.assertEqual({t["suite"] for t in said["tests"]}, {"coreml", "coreml_device", "coreml_framework"})

    def test_an_op_that_crashes_takes_no_other_with_it(self):
        done, said, _ = self.run_on(crash="softmax")
        self.assertEqual(done.returncode, 1)
        broken = [d for d in said["devices"] if not d["whole"]]
        self.assertEqual({(d["unit"], d["ops"], d["ended"]) for d in broken}, {(u, "softmax", "SIGABRT") for u in ("coreml:cpu", "coreml:gpu", "coreml")})
        self.assertGreater(sum(d["whole"] for d in said["devices"]), 10)

    def test_wrong_numbers(self):
        done, said, _ = self.run_on(cases=CASES)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cases of add are wrong", "\n".join(said["failures"]))

    def test_a_build_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, SCRIPT, "--rehearse", "--build", folder, "--out", pathlib.Path(folder) / "out"], capture_output=True,
                                  text=True, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("there is no build", (pathlib.Path(folder) / "out/report.md").read_text())

    def test_a_build_from_nothing(self):
        """Configuring and building by a stand-in for CMake: what it is asked for, and what fails."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            cmake = place / "cmake"
            for answer, passed in (("sys.stderr.write(open(%r).read()); sys.exit(1)" % str(place / "said"), False), ("pass", True)):
                (place / "said").write_text(NO_HIGHWAY)
                cmake.write_text(f"#!{sys.executable}\nimport sys\nif '--version' in sys.argv: print('cmake version 3.25.1')\nelse:\n    open({str(place / 'asked')!r}, 'a')"
                                 f".write(' '.join(sys.argv[1:]) + '\\n')\n    {answer}\n")  # fmt: skip
                cmake.chmod(0o755)
                env = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
                done = subprocess.run([sys.executable, SCRIPT, "--rehearse", "--out", place / "out", "--jobs", "3"], capture_output=True, text=True, check=False,
                                      env=env)  # fmt: skip
                said = json.loads((place / "out/report.json").read_text())
                self.assertEqual(done.returncode, 1, done.stderr)  # the stand-in built nothing
                asked = (place / "asked").read_text().splitlines()
                self.assertIn("-DRLX_MLX=OFF", asked[0])
                self.assertEqual([s["step"] for s in said["build"]][:2], ["configure", "build"] if passed else ["libraries, from sources", "configure"])
                if passed:
                    self.assertIn("--parallel 3 --target rlx_program", asked[-1])
                else:
                    self.assertEqual(said["build"][1]["missing"][0], "Highway (libhwy-dev)")
                    self.assertIn("there is no build", "\n".join(said["not_run"]))

    def test_libraries_that_are_missing_are_made(self):
        """By a stand-in for CMake, which finds them in the prefix alone."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "said").write_text(NO_HIGHWAY)
            cmake = place / "cmake"
            cmake.write_text(f"#!{sys.executable}\nimport sys\nwords = ' '.join(sys.argv[1:])\nif '--version' in words: print('cmake version 3.25.1')\nelse:\n"
                             f"    open({str(place / 'asked')!r}, 'a').write(words + '\\n')\n"
                             f"    if '-DRLX_MLX=OFF' in words and 'CMAKE_PREFIX_PATH' not in words:\n"
                             f"        sys.stderr.write(open({str(place / 'said')!r}).read()); sys.exit(1)\n")  # fmt: skip
            cmake.chmod(0o755)
            env = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
            for options, steps in ((["--offline"], ["configure"]), ([], ["libraries, from sources", "configure", "build"])):
                (place / "asked").unlink(missing_ok=True)
                subprocess.run([sys.executable, SCRIPT, "--rehearse", "--out", place / "out", "--jobs", "3", *options], capture_output=True, check=False, env=env)
                said = json.loads((place / "out/report.json").read_text())
                self.assertEqual([s["step"] for s in said["build"]][: len(steps)], steps)
                asked = (place / "asked").read_text().splitlines()
            self.assertIn("cmake/libraries", asked[1])
            self.assertIn("libraries --parallel 3", asked[2])
            self.assertIn("libraries/installed", asked[3])
            self.assertIn("--target rlx_program", asked[4])

    def test_elsewhere_it_does_not_begin(self):
        if platform.system() == "Darwin":
            self.skipTest("this is a Mac")
        done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rehearse", done.stderr)


if __name__ == "__main__":
    unittest.main()
