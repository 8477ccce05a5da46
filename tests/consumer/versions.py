#!/usr/bin/env python3
"""Compares what an installation says of its version, in every place that says one, with the policy of docs/versions.md.

    tests/consumer/versions.py PREFIX CHECKOUT CMAKE
"""

import pathlib
import re
import subprocess
import sys
import tempfile

prefix, checkout, cmake = (pathlib.Path(a) for a in sys.argv[1:4])
wrong = []


def same(what, got, wanted):
    if got != wanted:
        wrong.append(f"{what} is {got!r}, not {wanted!r}")


def one(pattern, path):
    found = re.search(pattern, path.read_text(), flags=re.M)
    return found.group(1) if found else None


def output(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True).stdout


version = one(r"^project\(rlx VERSION (\d+\.\d+\.\d+) ", checkout / "CMakeLists.txt")
major, minor, patch = (int(part) for part in version.split("."))
soname = f"{major}.{minor}" if major == 0 else f"{major}"

# What the policy says of SONAMEs and find_package is what the table in the document says.
policy = (checkout / "docs/versions.md").read_text()
for said in (f"`librlx.so.{soname}`", f"`find_package(rlx {major}.{minor})`"):
    if said not in policy:
        wrong.append(f"docs/versions.md does not say {said}; its table is of another version")
heading = re.search(r"^## (\S+?),? ", (checkout / "CHANGELOG.md").read_text() + " ", flags=re.M)
same("the first heading of CHANGELOG.md", heading.group(1) if heading else None, version)
same("pyproject.toml", one(r'^version = "(.*)"', checkout / "pyproject.toml"), version)
same("rlx --version", output(prefix / "bin/rlx", "--version"), f"rlx {version}\n")
same("rlx/version.h", one(r'RLX_VERSION "(.*)"', prefix / "include/rlx/version.h"), version)
library = next(iter(prefix.rglob("librlx.so")))
same("the library's file", library.resolve().name, f"librlx.so.{version}")
same("its SONAME", re.search(r"soname: \[(.*)\]", output("readelf", "-d", library)).group(1), f"librlx.so.{soname}")
pc = next(iter(prefix.rglob("rlx.pc")))
same("rlx.pc", one(r"^Version: (.*)", pc), version)

# No function is of a version that is still to come, and there are none of other MAJORs.
for line in (checkout / "src/c_api/exports.txt").read_text().splitlines():
    since = tuple(int(part) for part in line.split()[1].split("."))
    if since[0] != major or since > (major, minor):
        wrong.append(f"src/c_api/exports.txt: {line}, and this is {version}")

# Whom CMake's package accepts: the same MINOR while MAJOR is 0, the same MAJOR later; never what is newer than it is.
with tempfile.TemporaryDirectory() as folder:
    for asked, accepted in ((f"{major}.{minor}", True), (version, True), (f"{major}.{minor}.{patch + 1}", False),
                            (f"{major}.{minor + 1}", False), (f"{major + 1}.0", False), (f"{major}.0", minor == 0 or major > 0)):
        script = pathlib.Path(folder, "ask.cmake")
        script.write_text(f'set(PACKAGE_FIND_VERSION "{asked}")\nset(CMAKE_SIZEOF_VOID_P 8)\n'
                          + "".join(f"set(PACKAGE_FIND_VERSION_{n} {v})\n" for n, v in zip(("MAJOR", "MINOR", "PATCH"), (asked + ".0").split(".")))
                          + f'include("{next(iter(prefix.rglob("rlxConfigVersion.cmake")))}")\n'
                          + 'if(PACKAGE_VERSION_COMPATIBLE AND NOT PACKAGE_VERSION_UNSUITABLE)\n  message(STATUS accepted)\nendif()\n')
        same(f"find_package(rlx {asked})", "accepted" in output(cmake, "-P", script), accepted)

print(*wrong, sep="\n") if wrong else print(f"RLX {version}: every place says so, SONAME librlx.so.{soname}")
sys.exit(1 if wrong else 0)
