#!/usr/bin/env python3
"""Writes src/cxx_exports.txt: the C++ symbols that an installed librlx.so shows, which are those that the headers in include/rlx declare.

    scripts/public_symbols.py LIBRARY > src/cxx_exports.txt       LIBRARY is the build folder's lib/librlx.so, which shows all
    scripts/public_symbols.py LIBRARY --check                      compares, and says what differs

clang++ (14 or later) reads the headers and says how each declaration is called in an object file. Of these the list has what the
library defines and no header does; the tables of virtual functions and the types of the headers' classes; and Attrs::kTable, whose
address says of which type attributes are, so that there must be one; handles of ops are seen by a pattern too. Names are those of Linux.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "src/cxx_exports.txt"
ALWAYS = {"_ZN3rlx5Attrs6kTableI*", "_ZN3rlx2op*"}
NAMED = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl", "VarDecl"}


def compiler():
    return next((found for name in ("clang++-14", "clang++") if (found := shutil.which(name))), None)


def declarations(clang, generated):
    """The mangled names that the headers declare, and their classes, each as the names around it and its own."""
    headers = [path.relative_to(ROOT / "include") for path in sorted((ROOT / "include/rlx").rglob("*.h"))]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "all.cpp"
        source.write_text("".join(f'#include "{each}"\n' for each in headers) + '#include "rlx/version.h"\n')
        command = [clang, "-std=c++20", "-fsyntax-only", f"-I{ROOT}/include", f"-I{generated}", "-Xclang", "-ast-dump=json",
                   "-Xclang", "-ast-dump-filter=rlx", source]  # fmt: skip
        text = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    names, classes = set(), set()

    def walk(node, around):
        kind = node.get("kind")
        if kind in NAMED:
            if "mangledName" in node:
                names.add(node["mangledName"])
            return
        if kind in ("NamespaceDecl", "CXXRecordDecl", "ClassTemplateSpecializationDecl") and "name" in node:
            around = (*around, node["name"])
            if kind == "CXXRecordDecl" and node.get("completeDefinition"):
                classes.add(around)
        for inner in node.get("inner", []):
            walk(inner, around)

    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        node, at = decoder.raw_decode(text, at)
        walk(node, ())
    return names, classes


def public_symbols(library, clang):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, encoding="utf-8").stdout.splitlines()
    kinds = {line.split()[2].split("@")[0]: line.split()[1] for line in lines}
    names, classes = declarations(clang, pathlib.Path(library).resolve().parents[1] / "include")
    # Whole objects and parts of one, destruction with and without its memory.
    forms = {name.replace(*change) for name in names for change in (("C1E", "C2E"), ("D1E", "D2E"), ("D1E", "D0E"), ("", ""))}
    found = {name for name in forms if name.startswith("_Z") and kinds.get(name, "W") in "TBDR"}
    for path in classes:
        mangled = "N" + "".join(f"{len(name)}{name}" for name in path) + "E"
        found |= {prefix + mangled for prefix in ("_ZTV", "_ZTI", "_ZTS") if prefix + mangled in kinds}
    return {name for name in found if not name.startswith("_ZN3rlx2op")} | ALWAYS


def main():
    clang = compiler()
    if not clang:
        print("skipped: clang++ reads the headers, and there is none here (Debian: clang-14)")
        return 77
    found = public_symbols(sys.argv[1], clang)
    if sys.argv[2:] != ["--check"]:
        print(*sorted(found), sep="\n")
        return 0
    listed = set(LIST.read_text(encoding="utf-8").split())
    for name in sorted(found - listed):
        print(f"{name} is declared in a header, and is not in {LIST.relative_to(ROOT)}")
    for name in sorted(listed - found):
        print(f"{name} is in {LIST.relative_to(ROOT)}, and no header declares it")
    if found != listed:
        print(f"`scripts/public_symbols.py {sys.argv[1]} > src/cxx_exports.txt` writes it anew; one that is gone breaks programs that were linked before")
    else:
        print(f"{len(found)} symbols, as listed")
    return found != listed


if __name__ == "__main__":
    sys.exit(main())
