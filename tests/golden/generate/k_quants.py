"""How far the blocks that ggml makes of numbers are from them, for the K formats, whose quantizers search.

usage: k_quants.py LLAMA_CPP
writes tests/golden/blocks/k_quants.json

LLAMA_CPP is a folder with llama.cpp's sources, such as vendor/llama.cpp of the PyPI source package llama_cpp_python; its ggml-quants.c
alone is compiled. The numbers are sums of four 16-bit parts of splitmix64's words (gguf_files.py), nearly normal; of a second kind each
sub-block of 32 has a size of its own, and a third is not negative. An error is the root of the squared error's share of the squares.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import recorded
from block_formats import FORMATS, decode
from gguf_files import random_bytes

BLOCKS = 500


def numbers(kind):
    parts = random_bytes(kind, BLOCKS * 256 * 8).view("<u2").reshape(-1, 4).astype(np.float32)
    x = (parts.sum(axis=1) - np.float32(131070)) / np.float32(65536)
    if kind == "sizes":
        x = x * np.float32(0.25) * (1 + np.arange(x.size) // 32 % 5).astype(np.float32)
    return np.abs(x) if kind == "positive" else x


def library(sources):
    """ggml-quants.c with what it asks of the rest of ggml, which is never called here."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "rest.c").write_text("#include <stdlib.h>\nvoid ggml_abort(const char* f, int l, const char* m, ...) { abort(); }\n"
                                   "size_t ggml_row_size(int t, long n) { abort(); }\nconst char* ggml_type_name(int t) { abort(); }\n"
                                   "size_t ggml_type_size(int t) { abort(); }\n")
    ggml = pathlib.Path(sources) / "ggml"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ggml}/src", f"-I{ggml}/include", ggml / "src/ggml-quants.c", folder / "rest.c",
                    "-o", folder / "quants.so", "-lm"], check=True)
    return ctypes.CDLL(str(folder / "quants.so"))


def main():
    quants, errors = library(sys.argv[1]), {}
    for name in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k"):
        quantize = getattr(quants, f"quantize_row_{name[:3]}K_ref")
        errors[name] = {}
        for kind in ("normal", "sizes", "positive"):
            x = np.ascontiguousarray(numbers(kind), np.float32)
            blocks = np.zeros((BLOCKS, FORMATS[name][1]), np.uint8)
            quantize(x.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(x.size))
            difference = decode(name, blocks).reshape(-1).astype(np.float64) - x
            errors[name][kind] = float(np.sqrt((difference**2).sum() / (x.astype(np.float64) ** 2).sum()))
    about = {"blocks": BLOCKS, "made_by": "llama_cpp_python 0.3.36, ggml-quants.c", "errors": errors}
    (recorded.folder("blocks") / "k_quants.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
