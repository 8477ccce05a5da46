"""The 10,000 digits that scripts/fetch_mnist.py fetches, as arrays, in one fixed order."""

import pathlib
import subprocess
import sys

import numpy as np

BATCH = 64


def load():
    """images f32 [N, 784] in 0 ... 1, labels i64 [N]"""
    root = pathlib.Path(__file__).resolve().parents[3]
    found = subprocess.run([sys.executable, root / "scripts/fetch_mnist.py"], stdout=subprocess.PIPE, text=True, check=True)
    folder = pathlib.Path(found.stdout.strip())

    def idx(name):
        data = (folder / name).read_bytes()
        shape = np.frombuffer(data, ">i4", data[3], 4)
        return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)

    images, labels = (np.concatenate([idx(f"{part}-{what}-ubyte") for part in ("train", "t10k")]) for what in ("images-idx3", "labels-idx1"))
    order = np.random.default_rng(0).permutation(len(images))
    return (images.reshape(len(images), -1)[order] / np.float32(255)), labels[order].astype(np.int64)


def batches(images, labels):
    last = len(images) - BATCH + 1
    return [(images[i : i + BATCH], labels[i : i + BATCH]) for i in range(0, last, BATCH)]


def encoder_batch():
    """tokens i64 [16, 128], labels i64 [16]"""
    return np.random.default_rng(0).integers(0, 1000, (16, 128)), np.arange(16) % 10
