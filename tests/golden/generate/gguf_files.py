"""GGUF files, by the PyPI package `gguf`: every kind of tensor, every type of value, both byte orders, parts; and what they hold.

usage: gguf_files.py
writes tests/golden/gguf/: every_kind.gguf, big_endian.gguf, version1.gguf, version2.gguf, parts-0000N-of-00003.gguf,
expected.safetensors, metadata.json, versions.json; and tests/golden/blocks/many.json

expected.safetensors has NAME/bytes, the tensor as RLX has it in memory, and NAME/values, its elements in f32. The package writes
version 3; version 2 differs in its number alone, and version 1 is put together here by its description: counts, lengths and extents
are u32 in it. many.json has for each block format a sum over the f32 bits of 10,000 blocks of random bytes, which block_sums() makes.
"""
import json
import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFEndian, GGUFValueType as Value
from gguf.scripts.gguf_convert_endian import byteswap_tensors

import recorded
from block_formats import FORMATS, NOT_IN_GGUF, decode, random_blocks
from ops.case import write_safetensors

PLAIN = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64}
IN_FILES = [name for name in FORMATS if name != "q2_0"]  # the package has no number for it
NUMBERS = {Value.UINT8: 200, Value.INT8: -100, Value.UINT16: 60000, Value.INT16: -30000, Value.UINT32: 4_000_000_000, Value.INT32: -2_000_000_000,
           Value.FLOAT32: 0.1, Value.UINT64: 2**64 - 1, Value.INT64: -(2**63), Value.FLOAT64: 1e300}
SHORT = {Value.UINT8: "u8", Value.INT8: "i8", Value.UINT16: "u16", Value.INT16: "i16", Value.UINT32: "u32", Value.INT32: "i32",
         Value.FLOAT32: "f32", Value.BOOL: "bool", Value.STRING: "string", Value.UINT64: "u64", Value.INT64: "i64", Value.FLOAT64: "f64"}


def metadata():
    """(key, value, type, type of the items)."""
    all = [(f"one.{SHORT[t]}", v, t, None) for t, v in NUMBERS.items()]
    all += [("one.bool", True, Value.BOOL, None), ("one.string", "naïve 文 \n\t\"quoted\"", Value.STRING, None)]
    all += [(f"many.{SHORT[t]}", [v, 1, 0], Value.ARRAY, t) for t, v in NUMBERS.items()]
    all += [("many.bool", [True, False, True], Value.ARRAY, Value.BOOL), ("many.string", ["", "a", "é"], Value.ARRAY, Value.STRING)]
    return all


def described(values):
    """The metadata as rlx::gguf_json has them."""
    out = {}
    for key, value, t, items in values:
        number = np.float32 if SHORT.get(items or t) == "f32" else lambda v: v
        shown = [float(number(v)) if items == Value.FLOAT32 else v for v in value] if t == Value.ARRAY else float(number(value)) if t == Value.FLOAT32 else value
        out[key] = ["array " + SHORT[items] if t == Value.ARRAY else SHORT[t], shown]
    return out


def plain_tensors():
    random = np.random.RandomState(3)
    tensors = {"scalar": np.float32(2.5).reshape(()), "empty": np.zeros((0, 4), np.float32), "deep": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)}
    for name, dtype in PLAIN.items():
        tensors[f"plain.{name}"] = (random.standard_normal((3, 5)) * 50).astype(dtype)
    return tensors


def bf16_values():
    return (np.random.RandomState(5).standard_normal((2, 6)).astype(np.float32).view(np.uint32) & 0xffff0000).view(np.float32)


def blocks(name):
    """Rows of two blocks (of NVFP4 eight), as RLX has them: u8[3, bytes]."""
    per_row = 8 if name == "nvfp4" else 2
    return random_blocks(name, 3 * per_row, "file").reshape(3, -1), per_row


def in_file(name, rows):
    """NVFP4's four scales stand before the codes of their four blocks."""
    if name != "nvfp4":
        return rows
    four = rows.reshape(-1, 4, 9)
    return np.concatenate([four[:, :, 0], four[:, :, 1:].reshape(-1, 32)], axis=1).reshape(len(rows), -1)


def swapped(name, rows):
    class Tensor:
        data = rows.reshape(-1).copy()
    size = FORMATS[name][1] * (4 if name == "nvfp4" else 1)
    for at in range(0, Tensor.data.size, size):
        byteswap_tensors[getattr(Type, name.upper())](Tensor, at)
    return Tensor.data.reshape(rows.shape)


def written(path, values, tensors, formats, endian=GGUFEndian.LITTLE, **options):
    """A file by the package; (expected tensors)."""
    w, expected = gguf.GGUFWriter(path, "none", endianess=endian, **options), {}
    for key, value, t, items in values:
        w.add_key_value(key, value, t, items)
    for name, x in tensors.items():
        w.add_tensor(name, x)
        expected |= {f"{name}/bytes": np.frombuffer(x.tobytes(), np.uint8), f"{name}/values": x.astype(np.float32)}
    b = bf16_values()
    raw = (b.view(np.uint32) >> 16).astype(np.uint16)
    w.add_tensor("plain.BF16", raw, raw_shape=b.shape, raw_dtype=Type.BF16)
    expected |= {"plain.BF16/bytes": np.frombuffer(raw.tobytes(), np.uint8), "plain.BF16/values": b}
    for name in formats:
        rows, per_row = blocks(name)
        stored = in_file(name, rows)
        w.add_tensor(f"blocks.{name}", stored if endian == GGUFEndian.LITTLE else swapped(name, stored), raw_dtype=getattr(Type, name.upper()))
        expected |= {f"blocks.{name}/bytes": rows.reshape(-1), f"blocks.{name}/values": decode(name, rows).reshape(3, -1)}
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return expected


def version1():
    """Two values, a tensor of 3 by 2."""
    def text(s):
        return struct.pack("<I", len(s)) + s
    x = np.arange(6, dtype=np.float32)
    out = b"GGUF" + struct.pack("<III", 1, 1, 2)
    out += text(b"general.architecture") + struct.pack("<I", 8) + text(b"none")
    out += text(b"numbers") + struct.pack("<III", 9, 5, 3) + struct.pack("<iii", 1, -2, 3)
    out += text(b"w") + struct.pack("<IIIIQ", 2, 2, 3, 0, 0)
    return out + bytes(-len(out) % 32) + x.tobytes() + bytes(-x.nbytes % 32)


def random_bytes(name, count):
    """splitmix64 (Steele, Lea, Flood, 2014) from FNV-1a of the name on; words are little-endian."""
    seed = 0xcbf29ce484222325
    for c in name.encode():
        seed = (seed ^ c) * 0x100000001b3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, (count + 7) // 8 + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return (z ^ (z >> np.uint64(31))).view(np.uint8)[:count].copy()


def block_sums(count=10_000):
    """For each format the sum of bits[i] (2 i + 1), modulo 2^64, over the f32 bits of all elements; every NaN is 0x7fc00000. The
    bytes of a block are random, also its scales, but that NVFP4's have no sign."""
    sums = {}
    for name, (elements, size, _) in FORMATS.items():
        raw = random_bytes(name, count * size).reshape(count, size)
        if name == "nvfp4":
            raw[:, 0] &= 0x7f
        with np.errstate(all="ignore"):
            bits = np.ascontiguousarray(decode(name, raw), np.float32).reshape(-1)
        assert bits.size == count * elements, name
        bits = np.where(np.isnan(bits), np.float32(np.nan), bits).astype(np.float32).view(np.uint32).copy()
        bits[bits == 0xffc00000] = 0x7fc00000
        with np.errstate(over="ignore"):
            total = (bits.astype(np.uint64) * (2 * np.arange(bits.size, dtype=np.uint64) + np.uint64(1))).sum(dtype=np.uint64)
        sums[name] = f"{int(total):016x}"
    return {"blocks": count, "sums": sums}


def main():
    out = recorded.folder("gguf")
    architecture = [("general.architecture", "none", Value.STRING, None)]
    expected = written(out / "every_kind.gguf", metadata(), plain_tensors(), IN_FILES)
    big = [name for name in IN_FILES if getattr(Type, name.upper()) in byteswap_tensors]
    written(out / "big_endian.gguf", metadata(), plain_tensors(), big, GGUFEndian.BIG)
    written(out / "parts.gguf", metadata()[:2], plain_tensors(), [], split_max_tensors=4)
    (out / "version1.gguf").write_bytes(version1())
    data = bytearray((out / "every_kind.gguf").read_bytes())
    data[4] = 2
    (out / "version2.gguf").write_bytes(data)
    write_safetensors(out / "expected.safetensors", expected)
    about = {"every_kind": described(architecture + metadata()), "parts": described(architecture + metadata()[:2]),
             "version1": {"general.architecture": ["string", "none"], "numbers": ["array i32", [1, -2, 3]]}}
    (out / "metadata.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    recorded.write_versions(out, pathlib.Path(__file__).name, ["gguf", "numpy"], big_endian_blocks=big, decoded_here=list(NOT_IN_GGUF))
    (recorded.folder("blocks") / "many.json").write_text(json.dumps(block_sums(), indent=1) + "\n")


if __name__ == "__main__":
    main()
