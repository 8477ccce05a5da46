#!/usr/bin/env python3
"""Writes the functions of the C ABI that a library without some of its parts has no code for (cmake/choices.cmake). Each fails
with RLX_UNSUPPORTED and says which part it belongs to; one without a status gives 0, "" or NULL. So every program and
every binding is linked to and loaded with a small library as with a whole one.

    scripts/left_out_functions.py ROOT OUT.cpp [PART=SOURCE ...]

ROOT is the folder of the sources, SOURCE one below it that is left out.
"""

import pathlib
import re
import sys

ROOT, OUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
HEAD = """// Written by scripts/left_out_functions.py: functions of parts that this library was built without.
#include "c_api/handles.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace {

rlx_status left_out(const char* function, const char* part, rlx_error** error) {
  return rlx::c::guarded(error, [&] {
    rlx::fail(rlx::ErrorCode::unsupported, function, " belongs to '", part, "', which was left out of this library; build one "
              "with '", part, "' in RLX_PARTS (docs/building.md)");
  });
}

}  // namespace

extern "C" {
"""


def declarations():
    """Each function of rlx/c.h: what stands before its name, and its parameters."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "include/rlx/c.h").read_text(encoding="utf-8"), flags=re.S)
    found = re.finditer(r"^(?!static |typedef )(\w[\w *]*?)\b(rlx_\w+)\(([^;]*)\);", text, re.M)
    return {match[2]: (match[1].strip(), match[3]) for match in found}


def main():
    declared = declarations()
    text = HEAD
    for given in sys.argv[3:]:
        part, source = given.split("=", 1)
        defined = re.findall(r"^(?:extern \"C\" )?[a-z][\w *]*\b(rlx_\w+)\([^;]*?\) *\{", (ROOT / source).read_text(encoding="utf-8"), re.M)
        functions = [name for name in defined if name in declared]
        if not functions:
            sys.exit(f"{source} defines no function of rlx/c.h")
        for name in functions:
            result, parameters = declared[name]
            gives = {"rlx_status": f'return left_out("{name}", "{part}", error);', "void": "", "const char*": 'return "";'}
            body = gives.get(result, "return {};")
            if result == "rlx_status" and not re.search(r"\brlx_error\*\* error$", parameters):
                body = "return RLX_UNSUPPORTED;"
            text += f"{result} {name}({parameters}) {{ {body} }}\n"
    OUT.write_text(text + '}  // extern "C"\n', encoding="utf-8")


main()
