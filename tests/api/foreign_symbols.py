#!/usr/bin/env python3
"""No function of a header of others (nlohmann::json, Eigen, oneDNN, Highway) is seen from outside librlx.so: another library of a
process, with the same header in another version, would call it (cmake/symbol_versions.cmake).

    tests/api/foreign_symbols.py LIBRARY [NM]

Templates of the standard library over such types remain: who compiles them has the same type.
"""

import re
import subprocess
import sys

library, nm = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "nm"
lines = subprocess.run([nm, "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
names = [line.split(maxsplit=2)[2] for line in lines]
# The name itself, behind what a template returns and before its arguments; types of arguments are no definitions.
foreign = [n for n in names if re.match(r"((vtable|typeinfo|typeinfo name|guard variable) for |[a-z ]+\*? )?(nlohmann|Eigen|dnnl|hwy)::", n)]
print(*foreign[:20], sep="\n")
print(f"{len(names)} symbols are seen from outside, {len(foreign)} of them of headers of others")
sys.exit(1 if foreign or not names else 0)
