#!/usr/bin/env python3
"""Writes tests/golden/mlpackage: files of weights and packages by Apple's own writers, and what is in them.

Needs coremltools 9.0 and numpy < 2.4 (Python 3.13 at most), which the project itself does not:

    python3 -m venv VENV && VENV/bin/pip install coremltools==9.0 'numpy<2.4' && VENV/bin/python tests/golden/generate/packages.py
"""

import json
import pathlib
import shutil

import coremltools as ct
import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import get_new_symbol, types
from coremltools.libmilstoragepython import _BlobStorageReader, _BlobStorageWriter

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/mlpackage"


def weights():
    """One blob of each type that Apple's writer has, of a count that leaves bits unused in the sub-byte ones."""
    path = FOLDER / "every_type.bin"
    writer = _BlobStorageWriter(str(path))
    expected = []
    random = np.random.default_rng(6)
    floats = random.standard_normal(13).astype(np.float32)
    # f16 goes in by its bits; the widths below a byte are given as bytes.
    for name, values in [
        ("f32", floats), ("f16", floats.astype(np.float16)), ("u8", random.integers(0, 256, 13).astype(np.uint8)),
        ("i8", random.integers(-128, 128, 13).astype(np.int8)), ("i16", random.integers(-2**15, 2**15, 13).astype(np.int16)),
        ("u16", random.integers(0, 2**16, 13).astype(np.uint16)), ("i32", random.integers(-2**31, 2**31, 13).astype(np.int32)),
        ("u32", random.integers(0, 2**32, 13).astype(np.uint32)), ("i4", random.integers(-8, 8, 13).astype(np.int8)),
        ("u1", random.integers(0, 2, 13).astype(np.uint8)), ("u2", random.integers(0, 4, 13).astype(np.uint8)),
        ("u3", random.integers(0, 8, 13).astype(np.uint8)), ("u4", random.integers(0, 16, 13).astype(np.uint8)),
        ("u6", random.integers(0, 64, 13).astype(np.uint8)),
    ]:
        kind = {"f32": "float", "f16": "fp16", **{f"{s}{b}": f"{'u' if s == 'u' else ''}int{b}" for s in "iu" for b in (1, 2, 3, 4, 6, 8, 16, 32)}}[name]
        given = values.view(np.uint16) if name == "f16" else values
        offset = getattr(writer, f"write_{kind}_data")(given)
        expected.append({"dtype": name, "offset": int(offset), "values": [float(v) for v in values]})
    del writer
    reader = _BlobStorageReader(str(path))
    assert np.array_equal(reader.read_float_data(expected[0]["offset"]), floats)
    return expected


def packages():
    """A program with a loop, a list of strings' kind of literals, weights in and out of the file of weights."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3)), mb.TensorSpec(shape=(1,), dtype=types.int32)],
                opset_version=ct.target.iOS17)
    def program(x, n):
        w = mb.const(val=np.arange(12, dtype=np.float32).reshape(3, 4), name="large")
        y = mb.matmul(x=x, y=w, name="product")
        i = mb.squeeze(x=n, axes=[0], name="count")
        out = mb.while_loop(_cond=lambda i, y: mb.greater(x=i, y=0),
                            _body=lambda i, y: (mb.sub(x=i, y=1), mb.gelu(x=y, mode="TANH_APPROXIMATION")), loop_vars=(i, y))
        z = mb.cast(x=out[1], dtype="fp16", name="half")
        return mb.cast(x=z, dtype="fp32", name="result")

    model = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17,
                       compute_precision=ct.precision.FLOAT32)
    model.short_description, model.author, model.version = "A loop", "RLX", "3"
    model.input_description["x"] = "what is multiplied"
    model.save(str(FOLDER / "loop.mlpackage"))

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, get_new_symbol(), get_new_symbol()))], opset_version=ct.target.iOS15)
    def flexible(image):
        return mb.relu(x=image, name="rectified")

    ranges = ct.Shape(shape=(1, 3, ct.RangeDim(2, 9, default=4), ct.RangeDim(1, 8, default=4)))
    model = ct.convert(flexible, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS15,
                       inputs=[ct.TensorType(name="image", shape=ranges)], compute_precision=ct.precision.FLOAT32)
    model.save(str(FOLDER / "ranges.mlpackage"))


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "every_type.json").write_text(json.dumps(weights(), indent=1) + "\n")
    packages()
    for file in FOLDER.rglob("*"):
        if file.is_file():
            file.chmod(0o644)
