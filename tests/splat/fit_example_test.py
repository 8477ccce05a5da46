#!/usr/bin/env python3
"""The example splat_fit, for some steps: the pictures of the fitted scene come nearer to those it is fitted to, and are
written."""

import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RLX_PROGRAM") or ROOT / "build/release/bin/rlx").parents[1]


def fitted(folder, steps):
    """The last line's PSNR, in decibels."""
    run = subprocess.run([BUILD / "examples/splat_fit", folder, str(steps)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert f"{steps}/{steps}" in run.stdout, run.stdout
    return float(re.search(r"Gaussians, 8 views, PSNR ([0-9.]+) dB\n$", run.stdout)[1])


def main():
    if not (BUILD / "examples/splat_fit").exists():
        print("the examples are not built")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        first, later = fitted(folder, 1), fitted(folder, 40)
        print(f"PSNR {first} dB after 1 step, {later} dB after 40")
        assert later > first + 2
        png = (folder / "fit.png").read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (8 * 96, 2 * 96)
        assert (folder / "fit.ply").read_bytes().startswith(b"ply\nformat binary_little_endian 1.0\nelement vertex 240\n")
        wrong = subprocess.run([BUILD / "examples/splat_fit"], capture_output=True, text=True, check=False)
        assert wrong.returncode == 2 and wrong.stderr.startswith("usage: "), wrong
    return 0


if __name__ == "__main__":
    sys.exit(main())
