#!/usr/bin/env python3
"""The Objective-C++ file behind Device::coreml on Apple's systems, checked by clang against headers that declare what it uses:
its syntax, its selectors, its types. And that planted mistakes are found."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUBS = ROOT / "tests/coreml_framework/stubs"
SHIM = ROOT / "src/backends/coreml_framework/framework.mm"
CLANG = next((c for c in ("clang++", "clang++-16", "clang++-15", "clang++-14") if shutil.which(c)), None)
PROGRAM = os.environ.get("RLX_PROGRAM")
BUILD = pathlib.Path(PROGRAM).resolve().parents[1] if PROGRAM else ROOT / "build/release"


def check(source):
    """What clang says of the text as the shim."""
    command = [CLANG, "-x", "objective-c++", "-fsyntax-only", "-fobjc-arc", "-fblocks", "-fobjc-runtime=macosx-13", "-std=c++20",
               "-Wall", "-Wextra", "-Werror", "-D__APPLE__=1", f"-I{STUBS}", f"-I{ROOT}/include", f"-I{ROOT}/src",
               f"-I{BUILD}/include", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


class Shim(unittest.TestCase):
    def test_it_is_well_formed(self):
        code, said = check(SHIM.read_text())
        self.assertEqual(code, 0, said)

    def test_mistakes_are_found(self):
        planted = {
            "compileModelAtURL:": "compileModelFromURL:",  # a selector that there is not
            "fileURLWithPath:ns(compiled.path)": "fileURLWithPath:configuration",  # an argument of another class
            "MLComputeUnitsCPUOnly;": "MLComputeUnitsOnlyCPU;",  # a name that there is not
            "[array dataType]": "[array dataTypes]",  # a property that there is not
        }
        text = SHIM.read_text()
        for old, new in planted.items():
            self.assertEqual(text.count(old), 1, f"'{old}' stands {text.count(old)} times in the shim")
            text = text.replace(old, new)
        code, said = check(text)
        self.assertNotEqual(code, 0, "clang accepts it")
        for new in planted.values():
            line = text[: text.index(new)].count("\n") + 1
            self.assertRegex(said, rf"<stdin>:{line}:\d+: error:", new)


if __name__ == "__main__":
    if CLANG is None:
        print("no clang here")
        sys.exit(77)
    unittest.main()
