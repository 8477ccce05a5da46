#!/usr/bin/env python3
"""What a classifier of real digits keeps of its accuracy when its weights and inputs are numbers of 8, 6 or 4 bits.

    narrow_formats.py [--least ACCURACY]

A linear classifier on digits of 8 by 8 pixels is trained in f32 (ridge regression on one-hot labels). Then its product is computed by
`scaled_matmul` from codes and scales in each format: FP8, FP6 and FP4 of the OCP, one scale a tensor, one a block of 32 (MX),
or one a group of 16 (NVFP4). Needs NumPy and the package `rlx`. `--least`: exit code 1 if a format of 8 bits is below.
"""
import argparse
import pathlib
import sys

import numpy as np

import rlx

DATA = pathlib.Path(__file__).resolve().parent / "data/digits.npz"
FORMATS = [("f8e4m3fn", "per_tensor", 8), ("f8e5m2", "per_tensor", 8), ("f8e4m3fn", "mx", 8), ("f8e5m2", "mx", 8), ("f6e3m2fn", "mx", 6),
           ("f6e2m3fn", "mx", 6), ("f4e2m1fn", "mx", 4), ("f4e2m1fn", "nvfp4", 4)]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--least", type=float, default=0.0)
    options = options.parse_args()
    with np.load(DATA) as data:
        x, y = data["images"].reshape(-1, 64).astype(np.float32) / 16, data["labels"]
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:1347], order[1347:]
    mean = x[train].mean(0)
    x = x - mean
    targets = np.eye(10, dtype=np.float32)[y[train]] - 0.1
    w = np.linalg.solve(x[train].T @ x[train] + 5 * np.eye(64, dtype=np.float32), x[train].T @ targets)
    accuracy = lambda scores: float((np.argmax(np.asarray(scores), 1) == y[test]).mean())
    exact = x[test] @ w
    print(f"{'format':9} {'scales':11} {'bits':>4} {'signal to noise':>16} {'accuracy':>9}")
    print(f"{'f32':9} {'-':11} {32:4} {'-':>16} {accuracy(exact):9.2%}")
    worst = 1.0
    for name, layout, bits in FORMATS:
        kind = dict(format=name, layout=layout)
        rows, columns = x[test], np.ascontiguousarray(w.T)
        scales = [rlx.ops.scaled_quant_scale(t, **kind) for t in (rows, columns)]
        codes = [rlx.ops.scaled_quantize(t, s, **kind) for t, s in zip((rows, columns), scales)]
        scores = np.asarray(rlx.ops.scaled_matmul(*codes, *scales, lhs_format=name, rhs_format=name, layout=layout, dtype=np.float32))
        noise = 10 * np.log10((exact**2).sum() / ((scores - exact) ** 2).sum())
        print(f"{name:9} {layout:11} {bits:4} {noise:13.1f} dB {accuracy(scores):9.2%}")
        if bits == 8:
            worst = min(worst, accuracy(scores))
    return int(worst < options.least)


if __name__ == "__main__":
    sys.exit(main())
