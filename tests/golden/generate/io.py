#!/usr/bin/env python3
"""Writes tests/golden/io/: small files made by the Python packages `safetensors` and `numpy`, and expected.json, which
tells for each array what is in it, as NumPy sees it. Run by hand, from the top of the source tree:

    pip install numpy==2.4.6 safetensors==0.8.0
    python3 tests/golden/generate/io.py
"""

import io
import json
import pathlib
import warnings
import zipfile

import numpy as np
import safetensors

OUT = pathlib.Path("tests/golden/io")
NAMES = {"bool": "bool", "complex64": "c64", "complex128": "c128"}  # ours; the others follow from kind and bits
expected = {"made_by": {"numpy": np.__version__, "safetensors": safetensors.__version__}, "npy": {}, "npz": {}}


def describe(array):
    """Dtype, shape and the bytes that the array has in C order, little-endian."""
    name = NAMES.get(array.dtype.name) or array.dtype.kind + str(8 * array.dtype.itemsize)
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return {"dtype": name, "shape": list(array.shape), "hex": little.tobytes().hex()}


def sample(dtype, shape):
    """Numbers that use the whole range of the dtype."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        values = np.arange(count) % 3 == 0
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.array([limits.min, limits.max, 0, 1] + [limits.max // 7 * k for k in range(1, 8)] * 20, dtype.newbyteorder("="))[:count]
    elif dtype.kind == "f":
        limits = np.finfo(dtype)
        special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal]
        values = np.array(special + [k / 3 for k in range(100)], dtype.newbyteorder("="))[:count]
    else:
        values = (np.arange(count) / 3 - 2j * np.arange(count) / 7)
    return values.astype(dtype).reshape(shape)


def write(name, data):
    (OUT / name).write_bytes(data)


def npy_bytes(array, version=None):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns that others may not read version 3
        np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def make_npy():
    def put(name, array, version=None):
        write(name + ".npy", npy_bytes(array, version))
        expected["npy"][name] = describe(array)

    for code in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]:
        put(code, sample(np.dtype(code).newbyteorder("<"), (3, 4)))
    for code in ["i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"]:
        put("big_" + code, sample(np.dtype(code).newbyteorder(">"), (3, 4)))
    put("fortran", np.asfortranarray(sample("<f4", (2, 3, 4))))
    put("fortran_big", np.asfortranarray(sample(">i2", (5, 3))))
    put("scalar", np.array(2.5, "<f4"))
    put("vector", sample("<f4", (7,)))
    put("empty", np.zeros((0, 3), "<f4"))
    put("deep", sample("<i4", (1,) * 31 + (3,)))
    put("version2", sample("<f4", (3, 4)), (2, 0))
    put("version3", sample("<f4", (3, 4)), (3, 0))

    # What is no tensor.
    write("structured.npy", npy_bytes(np.zeros(2, [("x", "<f4"), ("y", "<i4")])))
    out = io.BytesIO()
    np.save(out, np.array([1, "a", None], object), allow_pickle=True)
    write("object.npy", out.getvalue())
    write("text.npy", npy_bytes(np.array(["ab", "c"])))
    write("date.npy", npy_bytes(np.array(["2024-02-29"], "datetime64[D]")))


def make_npz():
    arrays = {"weight": sample("<f4", (3, 4)), "mask": sample("b1", (5,)), "schritt_ä": np.array(7, "<i8"),
              "nested/bias": np.zeros(1000, "<f2")}
    for name, save in [("stored.npz", np.savez), ("deflated.npz", np.savez_compressed)]:
        save(OUT / name, **arrays)
    with zipfile.ZipFile(OUT / "stored.npz", "a") as archive:  # a member that is no array
        archive.writestr(zipfile.ZipInfo("README.txt"), "not an array")
    expected["npz"] = {name: describe(array) for name, array in arrays.items()}


def spec(dtype, shape, data):
    array = np.frombuffer(data, np.uint8)
    return array, safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=array.ctypes.data, data_len=array.nbytes)


def make_safetensors():
    # Each dtype that the package writes: its name there, ours, bytes of an element (of a pair for the 4-bit float).
    dtypes = [("bool", "bool", 1), ("uint8", "u8", 1), ("int8", "i8", 1), ("float8_e5m2", "f8e5m2", 1),
              ("float8_e4m3fn", "f8e4m3fn", 1), ("float8_e8m0fnu", "f8e8m0fnu", 1), ("float8_e4m3fnuz", "f8e4m3fnuz", 1),
              ("float8_e5m2fnuz", "f8e5m2fnuz", 1), ("float4_e2m1fn_x2", "f4e2m1fn", 1), ("int16", "i16", 2),
              ("uint16", "u16", 2), ("float16", "f16", 2), ("bfloat16", "bf16", 2), ("int32", "i32", 4),
              ("uint32", "u32", 4), ("float32", "f32", 4), ("complex64", "c64", 8), ("float64", "f64", 8),
              ("int64", "i64", 8), ("uint64", "u64", 8)]
    keep, specs, tensors = [], {}, {}
    random = np.random.default_rng(3)
    for theirs, ours, size in dtypes:
        for name, shape in [("matrix." + ours, [3, 2]), ("scalar." + ours, []), ("empty." + ours, [0, 5])]:
            if theirs == "float4_e2m1fn_x2" and name.startswith("scalar"):
                continue
            count = int(np.prod(shape))
            data = random.integers(0, 2 if ours == "bool" else 256, count * size, np.uint8).tobytes()
            array, specs[name] = spec(theirs, shape, data)
            keep.append(array)
            logical = shape[:-1] + [2 * shape[-1]] if theirs == "float4_e2m1fn_x2" else shape
            tensors[name] = {"dtype": ours, "shape": logical, "hex": data.hex()}
    write("all_dtypes.safetensors", safetensors.serialize(specs, None))
    expected["all_dtypes.safetensors"] = tensors

    # Names and metadata that JSON must escape. One metadata entry: the package does not keep their order.
    array, one = spec("float32", [2], np.array([1, 2], "<f4").tobytes())
    keep.append(array)
    names = ['plain', 'quote"', "back\\slash", "new\nline", "bell\x07", "ü 漢字 🙂", "", "del\x7f", "slash/"]
    write("names.safetensors", safetensors.serialize({n: one for n in names}, {'format "x"\n': "pt ü\t"}))
    expected["names.safetensors"] = names
    write("nothing.safetensors", safetensors.serialize({}, None))

    # Written by hand, as the package no longer does: the 6-bit floats, whose names the reader knows; data in an order
    # that leaves a tensor unaligned; a field that no version of the format has had so far.
    def by_hand(header, data):
        text = json.dumps(header, separators=(",", ":")).encode()
        return len(text).to_bytes(8, "little") + text + data

    unaligned = by_hand({"b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9], "note": {"x": [1, None]}},
                         "__metadata__": {}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}},
                        b"\x07" + np.array([0.5, -3], "<f4").tobytes())
    write("unaligned.safetensors", unaligned)
    six = by_hand({"x": {"dtype": "F6_E2M3", "shape": [2, 4], "data_offsets": [0, 6]},
                   "y": {"dtype": "F6_E3M2", "shape": [4], "data_offsets": [6, 9]}}, bytes(range(9)))
    write("six_bits.safetensors", six)
    for data in [unaligned, six]:
        safetensors.deserialize(data)  # the package accepts them


OUT.mkdir(parents=True, exist_ok=True)
make_npy()
make_npz()
make_safetensors()
text = json.dumps(expected, indent=1, ensure_ascii=False)
(OUT / "expected.json").write_text(text + "\n")
