#!/usr/bin/env python3
"""docs/generated/mlx.md is what `rlx ops --lowerings mlx` prints. Skipped where this build has no MLX, and on Apple's
GPU, which takes more: the document is written where there is none."""

import difflib
import json
import sys

from program import ROOT, rlx


def main():
    devices = rlx("devices", "--json")
    if devices.returncode != 0:
        sys.exit(devices.stderr)
    mlx = next(d for d in json.loads(devices.stdout) if d["device"] == "mlx")
    if not mlx["available"]:
        print(f"skipped: {mlx['description']}")
        sys.exit(77)
    result = rlx("ops", "--lowerings", "mlx")
    if result.returncode != 0:
        sys.exit(result.stderr)
    if "a Metal kernel of our own" in result.stdout:
        print("skipped: kernels of Metal run here")
        sys.exit(77)
    name = "docs/generated/mlx.md"
    document = ROOT / name
    written = document.read_text(encoding="utf-8") if document.exists() else ""
    difference = list(difflib.unified_diff(written.splitlines(), result.stdout.splitlines(), name, "printed", lineterm=""))
    if difference:
        print("\n".join(difference[:60]))
        sys.exit(f"The document is no longer what is printed:\nrlx ops --lowerings mlx > {name}")


if __name__ == "__main__":
    main()
