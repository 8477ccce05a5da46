#!/usr/bin/env python3
"""LAPACK by choice: the tests of linear algebra with each library that is here beside the one that RLX was linked to, and what is said of one
that cannot be loaded. MKL is found in RLX_TEST_MKL (the file of libmkl_rt), or where `pip install --target .deps/mkl mkl` puts it."""

import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["RLX_PROGRAM"]
TESTS = pathlib.Path(os.environ["RLX_TESTS"]).parent  # the executables of the areas lie side by side
# Of each area, the tests that call LAPACK.
SUITES = {"kernels": "--source-file=*lapack_test.cpp", "ops": "--source-file=*linalg_test.cpp",
          "golden": "--test-case=the default device gives them with one thread*"}  # fmt: skip


def mkl():
    named = os.environ.get("RLX_TEST_MKL")
    found = [pathlib.Path(named)] if named else sorted((ROOT / ".deps/mkl").glob("**/libmkl_rt.so.*"))
    return found[-1] if found and found[-1].is_file() else None


def run(*command, **environment):
    """Without the instruction sets and devices that tests of others choose."""
    env = {key: value for key, value in os.environ.items() if key not in ("RLX_BLAS", "RLX_DEVICE")}
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, env=env | environment)


class Blas(unittest.TestCase):
    def used(self, name):
        result = run(PROGRAM, "devices", RLX_BLAS=str(name))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()[-1].removeprefix("LAPACK on the CPU: ")

    def suites(self, name):
        for area, which in SUITES.items():
            with self.subTest(area=area):
                result = run(TESTS / area, which, RLX_BLAS=str(name))
                self.assertEqual(result.returncode, 0, result.stdout[-4000:] + result.stderr[-2000:])
                self.assertNotRegex(result.stdout, r"test cases: +0 ")

    def test_what_is_used_is_named(self):
        self.assertRegex(self.used(""), r"OpenBLAS|LAPACK|^none")

    def test_mkl(self):
        library = mkl()
        if not library:
            self.skipTest("no MKL: RLX_TEST_MKL names no file, and nothing is in .deps/mkl")
        self.assertRegex(self.used(library), r"Math Kernel Library.*libmkl_rt\.so")
        self.suites(library)

    def test_the_reference_lapack(self):
        used = self.used("reference")
        if "cannot be loaded" in used or "OpenBLAS" in used:
            self.skipTest(f"no reference LAPACK: {used}")
        self.suites("reference")

    def test_one_that_is_not_there_is_an_error_that_says_how_to_get_it(self):
        if subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout.count("libmkl_rt"):
            self.skipTest("the loader finds MKL by its name here")
        self.assertRegex(self.used("mkl"), r"RLX_BLAS is 'mkl', and that cannot be loaded \(.*\); `pip install mkl` brings it")
        result = run(TESTS / "kernels", "--source-file=*lapack_test.cpp", RLX_BLAS="mkl")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("pip install mkl", result.stdout)

    def test_a_library_that_is_no_lapack_is_refused(self):
        self.assertRegex(self.used("libz.so.1"), r"which has no function sgetrf_: it is no LAPACK with 32-bit integers")
        self.assertRegex(self.used("/nowhere/libblas.so"), r"cannot be loaded .*give the file of a LAPACK")


if __name__ == "__main__":
    unittest.main(verbosity=2)
