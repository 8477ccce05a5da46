#!/usr/bin/env python3
"""What the installed librlx.so shows: the C++ symbols of src/cxx_exports.txt, the C functions of src/c_api/exports.txt, and, as RLX_PRIVATE, what the
program and the module of MLX call besides. That src/cxx_exports.txt is what the headers declare, scripts/public_symbols.py finds out, with clang.

    tests/api/cxx_exports.py INSTALLED_LIBRARY BUILD_LIBRARY [NM]
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_PRIVATE = 90  # a program and a module of ours that call more are a reason to look what the headers lack


def main():
    library, whole, nm = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "nm"
    lines = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    shown = dict(line.split()[2].split("@@") if "@@" in line else (line.split()[2], "") for line in lines if line.split()[1] != "A")
    of = {}
    for name, version in shown.items():
        of.setdefault(version.split("_")[1] if "_" in version else version, set()).add(name)
    c_functions = {line.split()[0] for line in (ROOT / "src/c_api/exports.txt").read_text().splitlines()}
    listed = set((ROOT / "src/cxx_exports.txt").read_text().split())
    tables = {name for name in of.get("CXX", ()) if name.startswith(("_ZN3rlx5Attrs6kTableI", "_ZN3rlx2op"))}
    wrong = [f"{name}: in src/cxx_exports.txt, and not in the library" for name in sorted(listed - of.get("CXX", set())) if "*" not in name]
    wrong += [f"{name}: in the library, and not in src/cxx_exports.txt" for name in sorted(of.get("CXX", set()) - listed - tables)]
    wrong += [f"{name}: one of both, the library and src/c_api/exports.txt" for name in sorted(c_functions ^ of.get("0.1", set()))]
    private = of.get("PRIVATE", set())
    if len(private) > MOST_PRIVATE:
        wrong.append(f"{len(private)} symbols are RLX_PRIVATE: {sorted(private)}")
    wrong += [f"{name} has the version '{version}'" for version, names in of.items() for name in names if version not in ("CXX", "0.1", "PRIVATE")]
    print(*wrong, sep="\n")
    print(f"{len(shown)} symbols: {len(of.get('CXX', ()))} of C++ ({len(tables)} of them handles of ops and tables of attributes), {len(c_functions)} of C, {len(private)} for our program and module")
    listed_right = subprocess.run([sys.executable, ROOT / "scripts/public_symbols.py", whole, "--check"], check=False).returncode
    return 1 if wrong or listed_right not in (0, 77) else 0


sys.exit(main())
