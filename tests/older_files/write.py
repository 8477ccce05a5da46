#!/usr/bin/env python3
"""Writes the files of one version of RLX that later versions have to read, and by NumPy alone what they have to give.

    tests/older_files/write.py build/release/bin/rlx tests/older_files/0.1     # once for each version, by its own program

A folder that is there is not touched: what an old version wrote can be written by nobody again. older_files_test.py reads them all.
"""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np

# A graph as text, with attributes, a symbol, a region and two dtypes.
MODEL = """rlx 1
graph @small {
  %0 = input() @"x" : f32[N, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) @"dense" : f32[N, 2]
  %3 = gelu(%2) @"dense" : f32[N, 2]
  %4 = softmax(%3) {axis = 1} @"head" : f32[N, 2]
  return %3 @"y", %4 @"p"
}
"""
LOSS = """rlx 1
graph @line {
  %0 = input() @"x" : f32[8, 3]
  %1 = input() @"t" : f32[8, 2]
  %2 = param() @"w" : f32[3, 2]
  %3 = matmul(%0, %2) : f32[8, 2]
  %4 = mse(%3, %1) : f32[]
  return %4 @"loss"
}
"""
TRAIN = ["--batch-size", "8", "--optimizer", "sgd", "--learning-rate", "0.25", "--momentum", "0.9", "--weight-decay", "0", "--precision", "f32"]
RATE, MOMENTUM, STEPS, MORE = 0.25, 0.9, 3, 4


def run(*command):
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    x, w, w0, t = (rng.normal(size=s).astype(np.float32) for s in ((8, 3), (3, 2), (3, 2), (8, 2)))
    (folder / "model.rlx").write_text(MODEL)
    (folder / "loss.rlx").write_text(LOSS)
    np.save(folder / "x.npy", x)
    np.save(folder / "t.npy", t)
    write_safetensors(folder / "params.safetensors", {"w": w})
    write_safetensors(folder / "start.safetensors", {"w": w0})
    run(program, "compile", folder / "model.rlx", "--params", folder / "params.safetensors", "-o", folder / "model.rlxc")
    run(program, "train", folder / "loss.rlx", "--params", folder / "start.safetensors", "--data", f"x={folder}/x.npy", "--data", f"t={folder}/t.npy",
        "--steps", STEPS, "--out", folder / "trained", *TRAIN)

    z = x.astype(np.float64) @ w
    y = z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))  # gelu: Hendrycks, Gimpel (2016)
    p = np.exp(y - y.max(1, keepdims=True))
    value, velocity, after = w0.astype(np.float64), 0.0, {}
    for step in range(1, STEPS + MORE + 1):  # the heavy ball: Polyak (1964), as PyTorch's SGD has it
        velocity = MOMENTUM * velocity + 2 * x.astype(np.float64).T @ (x @ value - t) / t.size
        value = value - RATE * velocity
        after[step] = value.ravel().tolist()
    expected = {"y": y.ravel().tolist(), "p": (p / p.sum(1, keepdims=True)).ravel().tolist(), "train": TRAIN, "steps": STEPS,
                "w": after[STEPS], "more_steps": STEPS + MORE, "w_after_more": after[STEPS + MORE]}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
