"""Runs the program `rlx` for the tests of this folder, and reads and writes arrays without NumPy.

RLX_PROGRAM names the program (ctest sets it); RLX_MODEL a folder with all-MiniLM-L6-v2, which scripts/fetch_minilm.py
otherwise leaves in the cache. Without a model a test that needs it exits with 77: skipped.
"""

import array
import ast
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
OF_THE_DEVICE = ("RLX_DEVICE", "RLX_LOOPBACK_FAULTS")  # what the program inherits of RLX's environment: ctest's *.on_loopback set it
PROGRAM = os.environ.get("RLX_PROGRAM") or str(ROOT / "build/release/bin/rlx")
TYPECODES = {"|b1": "b", "|u1": "B", "<f4": "f", "<f8": "d", "<i8": "q", "<i4": "i"}


def rlx(*arguments, stdin=None, **environment):
    """Runs to the end; returns the completed process with bytes decoded."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("RLX_") or key in OF_THE_DEVICE}
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, check=False,
                          encoding="utf-8", env=env | environment)


def model_folder():
    cache = pathlib.Path(os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache/rlx")
    folder = pathlib.Path(os.environ.get("RLX_MODEL") or cache / "all-MiniLM-L6-v2")
    return folder if (folder / "model.safetensors").is_file() else None


def require_model():
    """The folder of the model; ends the test as skipped if there is none."""
    folder = model_folder()
    if folder is None:
        print("skipped: all-MiniLM-L6-v2 is not here; scripts/fetch_minilm.py fetches it, RLX_MODEL names a folder")
        sys.exit(77)
    return folder


def write_npy(path, descr, shape, values):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = array.array(TYPECODES[descr], values).tobytes()
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def read_npy(path):
    """(shape, values) of a file in C order."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (size,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + size].decode())
    assert not header["fortran_order"]
    return header["shape"], array.array(TYPECODES[header["descr"]], data[10 + size :])


def read_safetensors(path):
    """(metadata, tensors as bytes)."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    body = data[8 + size :]
    metadata = header.pop("__metadata__", {})
    return metadata, {name: body[slice(*entry["data_offsets"])] for name, entry in header.items()}


def write_safetensors(path, tensors, metadata=None):
    """`tensors`: name to (dtype as the format spells it, shape, bytes); `metadata`: name to text."""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    body = b"".join(data for _, _, data in tensors.values())
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def f32(*values):
    return array.array("f", values).tobytes()


class ProgramTest(unittest.TestCase):
    """Each test has an empty folder of its own, `self.folder`."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def succeeds(self, *arguments, **how):
        result = rlx(*arguments, **how)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def fails(self, code, pattern, *arguments, **how):
        """Ends with that exit code and an error that says so, and nothing on standard output."""
        result = rlx(*arguments, **how)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        self.assertRegex(result.stderr, pattern)
        self.assertEqual(result.stdout, "")
        return result.stderr
