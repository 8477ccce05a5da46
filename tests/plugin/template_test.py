#!/usr/bin/env python3
"""The template of a backend: built outside of the tree (template.py), judged, loaded by Python; and plugins that do wrong are told off."""

import os
import platform
import re
import shutil
import unittest

from template import BUILD, INSTALLED, PLAIN, ROOT, SCRATCH, compiler, installed, run

PYTHON = ROOT / ".deps/venv/bin/python"


class Template(unittest.TestCase):
    def test_it_is_short_and_stands_alone(self):
        lines = sum(len(path.read_text().splitlines()) for path in (ROOT / "examples/backend").iterdir() if path.suffix != ".md")
        print(f"the template has {lines} lines")
        self.assertLessEqual(lines, 300)
        source = (ROOT / "examples/backend/backend.cpp").read_text()
        self.assertEqual(re.findall(r'#include "(.*)"', source), ["rlx/backend.h"])
        if platform.system() == "Linux":  # it links to nothing of RLX, and opens no device of it
            self.assertNotIn("librlx", run("ldd", PLAIN))
            undefined = [line.split()[-1] for line in run("nm", "-D", "--undefined-only", PLAIN).splitlines()]
            self.assertEqual([name for name in undefined if "rlx" in name], [])

    def test_the_judge_finds_nothing_wrong_with_it(self):
        result = installed("--load", PLAIN, "test-device", "plain")
        passed, failed, skipped = map(int, re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", result.stdout.splitlines()[-1]).groups())
        print(result.stdout.splitlines()[-1])
        self.assertEqual((result.returncode, failed), (0, 0), result.stderr)
        self.assertGreaterEqual(passed, 500)
        self.assertGreater(skipped, 0)

    def test_it_is_listed_and_named_like_any_other_device(self):
        self.assertRegex(installed("--load", PLAIN, "devices").stdout, r"(?m)^plain +yes +plain loops over memory of its own$")
        graph = SCRATCH / "sum.rlx"
        graph.write_text('rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[2]\n  %1 = add(%0, %0) : f32[2]\n  return %1 @"y"\n}\n')
        self.assertIn("on plain:", installed("--load", PLAIN, "where", graph, RLX_DEVICE="plain").stdout)
        without = installed("where", graph, RLX_DEVICE="plain")
        self.assertEqual(without.returncode, 1)
        self.assertIn("there is no device 'plain'", without.stderr)

    def test_python_loads_it(self):
        library = BUILD / "lib/librlx_c.so"
        if not PYTHON.exists() or not library.exists():
            self.skipTest("the Python package's library or its environment is not here")
        script = f"""
import numpy as np, rlx
rlx.load_plugin({str(PLAIN)!r})
assert "plain" in rlx.devices()
x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
f = rlx.jit(lambda a: rlx.numpy.exp(a) @ a.T, device="plain")
y = f(x)
assert np.abs(np.asarray(y) - np.exp(x) @ x.T).max() < 1e-4
there = rlx.device_put(x, "plain")
assert there.device == "plain" and np.array_equal(np.asarray(there), x)
for bad, why in [("none.so", "no library that can be loaded"), ({str(BUILD / 'lib/librlx.so')!r}, "another copy of RLX"), ({str(PLAIN)!r}, "")]:
    try:
        rlx.load_plugin(bad)
    except rlx.Error as e:
        assert why in str(e), e
    else:
        assert not why or bad == {str(PLAIN)!r}
print("fine")
"""
        env = dict(os.environ, RLX_LIBRARY=str(library), PYTHONPATH=str(ROOT / "bindings/python"), PYTHONDONTWRITEBYTECODE="1")
        self.assertIn("fine", run(PYTHON, "-c", script, env=env))


class Bad(unittest.TestCase):
    def plugin(self, way):
        path = SCRATCH / f"bad_{way}.so"
        run(compiler(), "-std=c++20", "-shared", "-fPIC", f"-D{way}", ROOT / "tests/plugin/bad_plugin.cpp", "-I", INSTALLED / "include", "-o", path)
        return path

    def test_each_is_an_error_that_says_what_and_where(self):
        for way, code, why in [("THROWS", 1, "rlx_register_backends threw: it came apart"), ("WRONG_SIZE", 1, "has no name"),
                               ("CLASHES", 1, "there is a backend 'cpu' already"), ("SAYS_NOTHING", 1, "gave no reason")]:
            with self.subTest(way):
                path = self.plugin(way)
                result = installed("--load", path, "devices")
                self.assertEqual((result.returncode, result.stdout), (code, ""))
                self.assertIn(why, result.stderr)
                self.assertIn(f"while loading '{path}'", result.stderr)

    def test_a_backend_that_is_loaded_twice_is_there_already(self):
        copy = SCRATCH / "again.so"
        shutil.copy(PLAIN, copy)
        self.assertIn("there is a backend 'plain' already", installed("--load", PLAIN, "--load", copy, "devices").stderr)

    def test_the_judge_finds_a_liar(self):
        result = installed("--load", self.plugin("LIES"), "test-device", "liar", "--op", "add")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout.splitlines()[-1], r"^0 passed, [1-9]\d* failed, 0 skipped$")
        self.assertIn("the report takes it, and it does not run: the backend 'liar'", result.stdout)


if __name__ == "__main__":
    unittest.main()
