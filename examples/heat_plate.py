#!/usr/bin/env python3
"""Finds how strongly the heaters of a plate must heat, by derivatives through a sparse solve, and draws the temperatures.

    heat_plate.py [--size 48] [--steps 5] [--png OUT.png] [--most ERROR]

The plate is a grid whose edge is kept at 0; the temperature T solves A T = heat, A the five-point Laplacian as a CSR matrix.
Three heaters are wanted to give 1, 2 and 3 degrees at three thermometers away from them. Gradient and Hessian of the squared error
run through `sparse_cg`, whose derivative is another solve; `sparse_solve` (LU) checks the result. Needs NumPy and the package `rlx`.
"""
import argparse
import struct
import sys
import zlib

import numpy as np

import rlx
import rlx.numpy as rnp


def laplacian(n):
    """Of an n by n grid: row pointers, columns and values."""
    at = np.arange(n * n).reshape(n, n)
    rows, columns, values = [at.ravel()], [at.ravel()], [np.full(n * n, 4.0)]
    for one, other in ((at[1:], at[:-1]), (at[:, 1:], at[:, :-1])):
        rows += [one.ravel(), other.ravel()]
        columns += [other.ravel(), one.ravel()]
        values += [np.full(2 * one.size, -1.0)]
    rows, columns, values = map(np.concatenate, (rows, columns, values))
    order = np.lexsort((columns, rows))
    pointers = np.searchsorted(rows[order], np.arange(n * n + 1))
    return pointers.astype(np.int32), columns[order].astype(np.int32), values[order]


def png(pixels):
    """[height, width, 3] u8 as the bytes of a PNG file (W3C PNG, third edition)."""
    height, width = pixels.shape[:2]
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def colors(t):
    """From dark blue through red to yellow."""
    t = np.clip(t / t.max(), 0, 1)[..., None]
    stops = np.array([[12, 16, 60], [130, 30, 110], [225, 80, 45], [255, 235, 120]], float)
    place = t * 3
    low = np.clip(place.astype(int), 0, 2)[..., 0]
    return (stops[low] + (place - low[..., None]) * (stops[low + 1] - stops[low])).astype(np.uint8)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=48)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--png", help="write the temperatures there")
    options.add_argument("--most", type=float, default=float("inf"), help="exit code 1 if a thermometer is further off")
    options = options.parse_args()
    n = options.size
    pointers, columns, values = laplacian(n)
    place = lambda y, x: int(y * n) * n + int(x * n)
    heaters = np.array([place(0.3, 0.25), place(0.3, 0.75), place(0.75, 0.5)], np.int32)
    seen = np.array([place(0.5, 0.2), place(0.55, 0.8), place(0.6, 0.45)], np.int32)
    wanted = np.array([1.0, 2.0, 3.0])
    matrix = dict(format="csr", rows=n * n, columns=n * n)
    spread = np.zeros((n * n, 3))
    spread[heaters, range(3)] = 1

    def temperatures(strength):
        return rlx.ops.sparse_cg(pointers, columns, values, rnp.reshape(spread @ strength, (n * n, 1)), preconditioner="jacobi", tolerance=1e-10, max_iterations=4 * n, **matrix)[0]

    @rlx.jit
    def step(strength):
        error = lambda s: rnp.sum((rnp.take(rnp.reshape(temperatures(s), (n * n,)), seen, axis=0) - wanted) ** 2)
        return rlx.value_and_grad(error)(strength), rlx.hessian(error)(strength)

    strength = np.zeros(3)
    for i in range(1, options.steps + 1):
        (loss, gradient), curvature = step(strength)
        strength = strength - np.linalg.solve(np.asarray(curvature), np.asarray(gradient))  # the error is quadratic: Newton's step
        print(f"step {i:3}  error {float(loss):.3e}  heaters {np.array2string(strength, precision=4)}", flush=True)
        if float(loss) < 1e-16:
            break
    heat = (spread @ strength).reshape(-1, 1)
    by_lu = np.asarray(rlx.ops.sparse_solve(pointers, columns, values, heat, **matrix)).ravel()
    off = np.abs(by_lu[seen] - wanted).max()
    print(f"{n * n} unknowns, {len(values)} entries; the thermometers, by LU: {by_lu[seen]}, off by at most {off:.1e}")
    if options.png:
        picture = np.kron(colors(by_lu.reshape(n, n)), np.ones((8, 8, 1), np.uint8))
        with open(options.png, "wb") as out:
            out.write(png(picture))
        print("wrote", options.png)
    return int(off > options.most)


if __name__ == "__main__":
    sys.exit(main())
