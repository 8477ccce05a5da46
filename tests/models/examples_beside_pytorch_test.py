#!/usr/bin/env python3
"""The programs of examples/models/ beside PyTorch itself, which makes models with random weights, ResNet-18 and -50 among them, and runs them
here (tests/golden/generate/model_examples.py --check). Skipped, visibly, without PyTorch, torchvision and transformers; RLX_TORCH_PYTHON names
a Python that has them."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ["RLX_PROGRAM"]).parents[1] / "examples/models"
NEEDED = "torch, torchvision, transformers, safetensors, ml_dtypes"


def main():
    named = os.environ.get("RLX_TORCH_PYTHON")
    candidates = [named] if named else [str(ROOT / p) for p in (".deps/bench/venv/bin/python", ".deps/venv/bin/python")]
    found = [p for p in candidates
             if pathlib.Path(p).exists() and subprocess.run([p, "-c", f"import {NEEDED}"], capture_output=True).returncode == 0]  # fmt: skip
    if not (PROGRAMS / "bert").exists():
        print(f"skipped: {PROGRAMS} has no programs; build the examples (RLX_EXAMPLES)")
        return 77
    if not found:
        print(f"skipped: no Python with {NEEDED} among {', '.join(candidates)}; RLX_TORCH_PYTHON names one")
        return 1 if named else 77
    generator = ROOT / "tests/golden/generate/model_examples.py"
    return subprocess.run([found[0], str(generator), "--check", str(PROGRAMS)], env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
