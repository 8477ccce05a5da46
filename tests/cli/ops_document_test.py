#!/usr/bin/env python3
"""docs/generated/ is what the program prints: ops.md `rlx ops --markdown`, train.md `rlx train --markdown`.
What the processor takes depends on its instructions in places, so the documents are of AVX2."""

import difflib
import sys

from program import ROOT, rlx


def main():
    stale = []
    for name in ("ops", "train"):
        result = rlx(name, "--markdown", RLX_ISA="avx2")
        if result.returncode != 0:
            sys.exit(result.stderr)
        document = ROOT / f"docs/generated/{name}.md"
        written = document.read_text(encoding="utf-8") if document.exists() else ""
        difference = list(difflib.unified_diff(written.splitlines(), result.stdout.splitlines(), f"docs/generated/{name}.md", f"rlx {name} --markdown", lineterm=""))
        if difference:
            print("\n".join(difference[:60]))
            stale.append(f"RLX_ISA=avx2 rlx {name} --markdown > docs/generated/{name}.md")
    if stale:
        sys.exit("The documents are no longer what is printed:\n" + "\n".join(stale))


if __name__ == "__main__":
    main()
