#!/usr/bin/env python3
"""Follows CONTRIBUTING.md, taking its code blocks as they stand, and runs the laws over what comes of it: "Add an op in ten
minutes" is built against the library; "Add a primitive" is done to copies of the files that it names, from which, and from
the objects of this build for all others, a second library is linked."""

import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RLX_PROGRAM"]).resolve().parents[1]

MAIN = """
#include <cstdio>

#include "ops/core/elementwise_rules.h"
#include "rlx/ops.h"
#include "support/laws.h"

namespace rlx {
%(header)s
%(entry)s
#define RLX_OP(name) const OpDef op::name = define_##name();
%(line)s
#undef RLX_OP
}

int broken_laws(const rlx::OpDef& op) {
  int checks = 0, broken = 0, backends = 0;
  for (const rlx::laws::Law& law : rlx::laws::all_laws())
    for (const rlx::Sample& sample : op.samples()) {
      auto finding = rlx::laws::examine(law, op, sample);
      if (finding.outcome == rlx::laws::Outcome::not_applicable) continue;
      ++checks;
      backends += law.name == "backend_agrees(cpu)" && finding.outcome == rlx::laws::Outcome::holds;
      if (finding.outcome == rlx::laws::Outcome::broken) {
        ++broken;
        std::printf("%%s: %%s\\n", std::string(law.name).c_str(), finding.why.c_str());
      }
    }
  std::printf("%%s: %%d checks, %%d broken; the CPU agrees on %%d samples\\n", std::string(op.name).c_str(), checks, broken,
              backends);
  return broken + (checks < 10) + (backends < 2);
}

int main() { return broken_laws(rlx::op::%(name)s) + broken_laws(rlx::find_op("%(primitive)s")) != 0; }
"""


def recipe(title, blocks):
    """The section's text, and its code blocks without the indent of the list that they stand in."""
    text = (SOURCE / "CONTRIBUTING.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    found = [re.sub(r"(?m)^   ", "", b) for b in re.findall(r"(?ms)^   ```cpp\n(.*?)^   ```", text)]
    if len(found) != blocks:
        sys.exit(f"CONTRIBUTING.md has {len(found)} code blocks in '{title}', not {blocks}")
    return text, found


def commands():
    """How this build compiles and links the library: the arguments of each command by the file that it makes."""
    lines = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "rlx"], check=True, capture_output=True, text=True).stdout
    made = {}
    for line in lines.splitlines():
        arguments = shlex.split(line.removeprefix(": && ").split(" && ")[0])
        if "-o" in arguments:
            made[arguments[arguments.index("-o") + 1]] = arguments
    return made


def add_primitive(scratch):
    """The five changes, in copies; returns the op's name. `scratch`/lib then holds a library that has it."""
    text, (header, entry, row, function) = recipe("Add a primitive", 4)
    line = re.search(r"`(RLX_OP\((\w+)\))`", text)
    paths = dict.fromkeys(re.findall(r"`((?:src|include)/[\w/]+\.\w+)`", text))
    table, header_path, entry_path, rows, function_path = (pathlib.Path(p) for p in paths)

    def change(path, added, at):
        """`added` before the last line that begins with `at`."""
        before = (SOURCE / path).read_text() if at else ""
        at = before.rindex("\n" + at) + 1 if at else 0
        (scratch / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch / path).write_text(before[:at] + added + before[at:])

    change(table, line[1] + "\n", "RLX_OP(")
    change(header_path, header, "}  // namespace rlx")
    change(entry_path, entry, "}  // namespace rlx")
    change(rows, row, "RLX_LOWERING(")
    change(function_path, function, None)
    if any(len(block.splitlines()) != 1 for block in (line[1], row)):
        sys.exit("a line of ops.def or a row of the table has become several")

    made = commands()
    objects = {}

    def compile_as(made_before, source):
        """Compiles `source` as the object `made_before` was, but with the changed headers in front."""
        arguments = list(made[made_before])
        new = scratch / (source.name + ".o")
        for flag, value in (("-o", new), ("-c", source), ("-MF", scratch / (source.name + ".d")), ("-MT", new)):
            arguments[arguments.index(flag) + 1] = str(value)
        first = next(i for i, a in enumerate(arguments) if a.startswith("-I"))
        arguments[first:first] = [f"-I{scratch / 'include'}", f"-I{scratch / 'src'}"]
        subprocess.run(arguments, check=True, cwd=BUILD)
        return str(new)

    # What includes a list must be compiled again; nothing else is. A unit is a file, or several (CMAKE_UNITY_BUILD).
    changed = (entry_path, pathlib.Path("src/ops/core/table.cpp"), pathlib.Path("src/backends/cpu/lowerings.cpp"))
    for made_before, arguments in made.items():
        if "-c" not in arguments:
            continue
        source = BUILD / arguments[arguments.index("-c") + 1]
        held = [p for p in changed if source.samefile(SOURCE / p) or (source.parent.name == "Unity" and f"/{p}" in source.read_text())]
        if not held:
            continue
        unit = scratch / source.name
        own = {p: scratch / p if (scratch / p).exists() else SOURCE / p for p in held}
        files = re.findall(r'#include "(.*)"', source.read_text()) if source.parent.name == "Unity" else [str(SOURCE / held[0])]
        unit.write_text("".join(f'#include "{next((own[p] for p in held if f.endswith(f"/{p}")), f)}"\n' for f in files))
        objects[made_before] = compile_as(made_before, unit)
        if entry_path in held:  # the new function is compiled as its neighbours are
            objects[None] = compile_as(made_before, scratch / function_path)
    link = next(list(a) for a in made.values() if "-shared" in a)
    # The shell's way to write a dollar between double quotes, which shlex leaves as it is.
    link = [str(objects.get(a, a)).replace("\\$", "$") for a in link]
    (scratch / "lib").mkdir()
    soname = next(a for a in link if a.startswith("-Wl,-soname,")).split(",")[2]
    link[link.index("-o") + 1] = str(scratch / "lib" / soname)
    link.insert(link.index("-o") + 2, objects[None])
    subprocess.run(link, check=True, cwd=BUILD)
    (scratch / "lib" / "librlx.so").symlink_to(soname)
    (scratch / "lib" / "rlx").symlink_to(BUILD / "lib" / "rlx")  # what the library looks for beside itself
    print("changed:", ", ".join(str(p.relative_to(scratch)) for p in sorted(scratch.rglob("*")) if p.suffix in (".h", ".cpp", ".def")))
    return line[2]


def main():
    if BUILD.name != "release":  # the library of another preset wants its compiler and its sanitizers
        print("skipped: the recipes are followed in the release build")
        sys.exit(77)
    if platform.system() != "Linux" or not (BUILD / "build.ninja").exists():
        print("skipped: a library is linked a second time as Ninja does it on Linux")
        sys.exit(77)
    _, (line, header, entry) = recipe("Add an op in ten minutes", 3)
    name = re.match(r"RLX_OP\((\w+)\)", line).group(1)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        primitive = add_primitive(scratch)
        lib, environment = scratch / "lib", dict(os.environ, LD_LIBRARY_PATH=str(scratch / "lib"))

        graph = scratch / "graph.rlx"
        graph.write_text(f'rlx 1\ngraph @g {{\n  %0 = input() @"x" : f32[n, 8]\n  %1 = {primitive}(%0) : f32[n, 8]\n  return %1 @"y"\n}}\n')
        rlx = lambda *arguments: subprocess.run([os.environ["RLX_PROGRAM"], *arguments], check=True, capture_output=True, text=True, env=environment).stdout
        report = rlx("where", graph, "--strict", "--nodes")
        if not re.search(rf"\b{primitive}\s+f32\s+native\b", report):
            sys.exit(f"'{primitive}' does not run natively:\n{report}")
        if primitive not in rlx("ops"):
            sys.exit(f"`rlx ops` does not list '{primitive}'")

        program, source = scratch / "laws", scratch / "recipe.cpp"
        source.write_text(MAIN % {"line": line, "header": header, "entry": entry, "name": name, "primitive": primitive})
        compiler = os.environ.get("CXX", "c++")
        command = [compiler, "-std=c++20", "-O0", source, *(SOURCE / "tests/support" / f for f in ("laws.cpp", "gradient_laws.cpp", "compare.cpp")),
                   "-I", SOURCE / "include", "-I", BUILD / "include", "-I", SOURCE / "src", "-I", SOURCE / "tests",
                   "-L", lib, "-lrlx", f"-Wl,-rpath,{lib}", "-o", program]
        subprocess.run([str(c) for c in command], check=True)
        result = subprocess.run([program], capture_output=True, text=True)
        print(result.stdout, end="")
        if result.returncode:
            sys.exit("an op of CONTRIBUTING.md breaks a law")


main()
