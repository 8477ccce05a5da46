#!/usr/bin/env python3
"""Compares the nearest lines that our embeddings find with those that PyTorch's found (tests/golden/search), for each
listed query. Reads .npy files by itself, so that it needs nothing but Python.

    scripts/check_hits.py CORPUS.npy QUERIES.npy
"""

import array
import ast
import json
import pathlib
import struct
import sys

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests/golden/search"


def rows(path):
    """The rows of a two-dimensional f32 .npy file (format 1.0 to 3.0, C order)."""
    with open(path, "rb") as file:
        magic = file.read(8)
        assert magic[:6] == b"\x93NUMPY", f"{path} is no .npy file"
        size = struct.unpack("<H", file.read(2)) if magic[6] == 1 else struct.unpack("<I", file.read(4))
        header = ast.literal_eval(file.read(*size).decode("utf-8"))
        assert header["descr"] == "<f4" and not header["fortran_order"], f"{path}: {header}"
        count, width = header["shape"]
        values = array.array("f", file.read(4 * count * width))
    return [values[i * width : (i + 1) * width] for i in range(count)]


def main():
    corpus, queries = rows(sys.argv[1]), rows(sys.argv[2])
    listed = [json.loads(line) for line in (GOLDEN / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = (GOLDEN / "corpus.txt").read_text(encoding="utf-8").splitlines()
    assert len(corpus) == len(lines) and len(queries) == len(listed), (len(corpus), len(lines), len(queries))
    equal = 0
    for query, wanted in zip(queries, listed):
        scores = [sum(map(float.__mul__, row, query)) for row in corpus]
        best = max(range(len(scores)), key=scores.__getitem__)
        equal += best == wanted["line"]
        print(f"{'same' if best == wanted['line'] else 'OTHER'}  {scores[best]:.3f}  {wanted['query']}")
        if best != wanted["line"]:
            print(f"       ours, line {best}: {lines[best]}\n       PyTorch's, line {wanted['line']}: {wanted['text']}")
    print(f"{equal} of {len(listed)} top hits are PyTorch's")
    sys.exit(equal != len(listed))


if __name__ == "__main__":
    main()
