#!/usr/bin/env python3
"""Picks the cases of tests/mil/cases.tar.xz from a folder of recorded ones: mil_cases.py FOLDER.

The cases are packages that coremltools 9.0 wrote in its own op tests, with the inputs and the outputs that those tests expect (from
NumPy, PyTorch or TensorFlow). Of each op, opset and precision the smallest one is kept.
"""

import io
import json
import pathlib
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[3]


def size(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(root):
    root = pathlib.Path(root)
    cases = sorted((size(path.parent), str(path.parent)) for path in root.rglob("case.json"))
    kept, covered = [], set()
    for _, folder in cases:
        case = json.loads((pathlib.Path(folder) / "case.json").read_text())
        keys = {(op, tuple(case["opset"]), case["precision"]) for op in case["ops"] if op != "const"}
        if not keys <= covered:
            kept.append(pathlib.Path(folder))
            covered |= keys
    with tarfile.open(ROOT / "tests/mil/cases.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for folder in sorted(kept):
            for file in sorted(f for f in folder.rglob("*") if f.is_file()):
                data = file.read_bytes()
                entry = tarfile.TarInfo(str(file.relative_to(root)))  # no times, owners or modes of this machine
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
    print(len(kept), "cases")


if __name__ == "__main__":
    main(sys.argv[1])
