#!/usr/bin/env python3
"""Follows CONTRIBUTING.md, "Add an op in ten minutes": takes its code blocks as they stand, builds them against the library
and runs the laws over the new op."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RLX_PROGRAM"]).resolve().parents[1]

MAIN = """
#include <cstdio>

#include "ops/elementwise_rules.h"
#include "rlx/ops.h"
#include "support/laws.h"

namespace rlx {
%(header)s
%(entry)s
#define RLX_OP(name) const OpDef op::name = define_##name();
%(line)s
#undef RLX_OP
}

int main() {
  int checks = 0, broken = 0;
  const rlx::OpDef& op = rlx::op::%(name)s;
  for (const rlx::laws::Law& law : rlx::laws::all_laws())
    for (const rlx::Sample& sample : op.samples()) {
      auto finding = rlx::laws::examine(law, op, sample);
      if (finding.outcome == rlx::laws::Outcome::not_applicable) continue;
      ++checks;
      if (finding.outcome == rlx::laws::Outcome::broken) {
        ++broken;
        std::printf("%%s: %%s\\n", std::string(law.name).c_str(), finding.why.c_str());
      }
    }
  std::printf("%%d checks, %%d broken\\n", checks, broken);
  return broken || checks < 10;
}
"""


def main():
    if BUILD.name != "release":  # the library of another preset wants its compiler and its sanitizers
        print("skipped: the recipe is followed in the release build")
        sys.exit(77)
    text = (SOURCE / "CONTRIBUTING.md").read_text()
    recipe = text.split("## Add an op in ten minutes")[1].split("\n## ")[0]
    blocks = [re.sub(r"(?m)^   ", "", b) for b in re.findall(r"(?ms)^   ```cpp\n(.*?)^   ```", recipe)]
    if len(blocks) != 3:
        sys.exit(f"CONTRIBUTING.md has {len(blocks)} code blocks in the recipe, not 3")
    name = re.match(r"RLX_OP\((\w+)\)", blocks[0]).group(1)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "laws"
        source = pathlib.Path(folder) / "recipe.cpp"
        source.write_text(MAIN % {"line": blocks[0], "header": blocks[1], "entry": blocks[2], "name": name})
        compiler = os.environ.get("CXX", "c++")
        command = [compiler, "-std=c++20", "-O0", source, SOURCE / "tests/support/laws.cpp", SOURCE / "tests/support/gradient_laws.cpp", SOURCE / "tests/support/compare.cpp",
                   "-I", SOURCE / "include", "-I", BUILD / "include", "-I", SOURCE / "src", "-I", SOURCE / "tests",
                   "-L", BUILD / "lib", "-lrlx", f"-Wl,-rpath,{BUILD / 'lib'}", "-o", program]
        subprocess.run([str(c) for c in command], check=True)
        result = subprocess.run([program], capture_output=True, text=True)
        print(result.stdout, end="")
        if result.returncode:
            sys.exit("the op of CONTRIBUTING.md breaks a law")


main()
