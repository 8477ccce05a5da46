#!/usr/bin/env python3
"""Compares what librlx_c exports with src/c_api/exports.txt, which is committed, and with the functions of rlx/c.h and
rlx/backend.h.

    tests/api/exports.py LIBRARY [NM]

A name that is gone, or that came with another version, breaks programs that were built before: it is an error. A new one
belongs into the list, with the version that it comes with. What has the version RLX_PRIVATE is for our own programs.
"""

import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
listed_in = here.parent.parent / "src/c_api/exports.txt"


def main():
    library, nm = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "nm"
    symbols = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    # name@@RLX_0.1; the versions themselves are absolute symbols (A).
    exported = {line.split()[-1].replace("@@RLX_", " ") for line in symbols.splitlines() if line.split()[-2] in "TWVBDR" and "@@RLX_PRIVATE" not in line}
    headers = "".join((here.parent.parent / "include/rlx" / name).read_text() for name in ("c.h", "backend.h"))
    headers = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    # A declaration begins its line; members of tables are indented, and types of functions are typedefs.
    declared = set(re.findall(r"^(?!static |typedef )\w[\w *]*\b(rlx_\w+)\(", headers, flags=re.M))
    listed = set(listed_in.read_text().splitlines())
    names = {each.split()[0] for each in exported}
    wrong = [f"{name} is in {what} and not in {where}" for name, what, where in
             [(n, "exports.txt", "the library: programs that call it break") for n in sorted(listed - exported)] +
             [(n, "the library", "exports.txt") for n in sorted(exported - listed)] +
             [(n, "a header", "the library: it is declared alone") for n in sorted(declared - names)] +
             [(n, "the library", "rlx/c.h or rlx/backend.h: nobody may call it") for n in sorted(names - declared)]]
    print("\n".join(wrong) or f"{len(exported)} functions, as listed")
    return 1 if wrong else 0


sys.exit(main())
