#!/usr/bin/env python3
"""docs/generated/ops.md is what `rlx ops --markdown` prints."""

import difflib
import sys

from program import ROOT, rlx


def main():
    result = rlx("ops", "--markdown")
    if result.returncode != 0:
        sys.exit(result.stderr)
    document = ROOT / "docs/generated/ops.md"
    written = document.read_text(encoding="utf-8") if document.exists() else ""
    difference = list(difflib.unified_diff(written.splitlines(), result.stdout.splitlines(), "docs/generated/ops.md", "rlx ops --markdown", lineterm=""))
    if difference:
        print("\n".join(difference[:60]))
        sys.exit("The op table has changed: rlx ops --markdown > docs/generated/ops.md")


if __name__ == "__main__":
    main()
