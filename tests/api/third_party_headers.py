#!/usr/bin/env python3
"""Each header of others that the library or the program was compiled with is known to the list of licences: what a header brings
is part of them. Reads what the compiler said of the files it opened, as Ninja keeps it.

    tests/api/third_party_headers.py BUILD_DIR PARTS

A header of something new belongs beside where CMake finds it: rlx_compiles_in (cmake/third_party.cmake).
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import third_party  # noqa: E402

# Their headers declare functions of a library that is linked to and, in a wheel, carried with its licence.
DECLARATIONS = {"libzip", "onednn-devel-cpu-gomp", "pcre2", "utf8proc", "zlib"}
# The C library's, the kernel's and the compiler's own headers; the licence of the compiler's excepts what is compiled with them.
SYSTEM = {"glibc", "linux", "gcc", "llvm-toolchain", "libxcrypt"}


def headers_of(build):
    said = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True).stdout
    target, found = "", {}
    for line in said.splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
        elif re.match(r"(CMakeFiles/rlx\.dir|tools/CMakeFiles)/", target):
            header = line.strip()
            if local := re.search(r"\.deps/.*", header):  # ccache makes a path within the checkout a relative one
                found.setdefault(str(ROOT / local.group()), target)
            elif header.startswith("/"):
                found.setdefault(os.path.normpath(header), target)
    return found


def debian_sources(paths):
    """The source package of each path that dpkg knows, without the digits of a version."""
    said = subprocess.run(["dpkg-query", "-S", *sorted(paths)], capture_output=True, text=True).stdout
    owner = {line.split(": ", 1)[1]: line.split(":")[0].split(",")[0] for line in said.splitlines() if ": " in line}
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${source:Package}\n", *sorted(set(owner.values()))], capture_output=True, text=True).stdout
    source = dict(line.split("\t") for line in shown.splitlines())
    return {path: re.sub(r"-[\d.]+$", "", source.get(package, package)) for path, package in owner.items()}


def main():
    build, parts = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    listed = set()
    for line in parts.read_text().splitlines():
        kind, path, _ = line.split("\t")
        path = pathlib.Path(path)
        if kind in ("header", "carried") and (package := third_party.debian(path) or third_party.from_pip(path.resolve())):
            listed.add(package.folder)
    ours = (f"{ROOT}/src/", f"{ROOT}/include/", f"{ROOT}/tools/", f"{ROOT}/extras/", f"{build.resolve()}/")
    headers = {h: t for h, t in headers_of(build).items() if not h.startswith(ours)}
    known, unknown, seen = debian_sources(headers), [], set()
    for header, target in headers.items():
        name = known.get(header)
        if name is None:
            package = third_party.from_pip(pathlib.Path(header).resolve())
            name = package.folder if package else "no package"
        seen.add(name)
        if name not in listed | DECLARATIONS | SYSTEM:
            unknown.append(f"{header}, of {name}, is compiled into {target}, and no licence goes with it")
    print(*unknown[:20], sep="\n")
    print(f"{len(headers)} headers, of {', '.join(sorted(seen))}; {len(unknown)} that no licence goes with")
    sys.exit(1 if unknown or len(headers) < 20 else 0)


main()
