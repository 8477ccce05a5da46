"""Files of data and what is in them: tests/golden/data. IDX files written with struct, a CSV file by Python's csv module; numbers
of Philox 4x32-10 by the definition (Salmon et al. 2011), checked against the known answers of Random123's kat_vectors.

usage: data.py
"""
import csv
import json
import struct

import numpy as np

import recorded
from ops.case import write_safetensors

KNOWN = [  # counter, key, result: kat_vectors, philox4x32 10
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
SEED, PURPOSE, FIRST, SECOND = 2**40 + 7, 1, 3, 5


def philox(counter, key):
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = q >> 32 ^ b ^ k, q & 0xFFFFFFFF, p >> 32 ^ d ^ l, p & 0xFFFFFFFF
        k, l = (k + 0x9E3779B9) & 0xFFFFFFFF, (l + 0xBB67AE85) & 0xFFFFFFFF
    return a, b, c, d


def words():
    block = 0
    while True:
        yield from philox((block, FIRST, SECOND, PURPOSE), (SEED & 0xFFFFFFFF, SEED >> 32))
        block += 1


def shuffled(n):
    stream, order = words(), list(range(n))
    for i in range(n - 1, 0, -1):
        low = next(stream)
        j = ((next(stream) << 32 | low) * (i + 1)) >> 64
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


def write_idx(path, array):
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[array.dtype.str[1:]]
    header = struct.pack(">HBB", 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(array.dtype.newbyteorder(">")).tobytes())


def main():
    for counter, key, result in KNOWN:
        assert philox(counter, key) == result, (counter, key)
    out, random, tensors = recorded.folder("data"), np.random.default_rng(7), {}
    for name, dtype, shape in [("u8", "u1", (3, 4, 5)), ("i8", "i1", (7,)), ("i16", "i2", (2, 3)), ("i32", "i4", (4, 1)),
                               ("f32", "f4", (2, 2, 2)), ("f64", "f8", (3,)), ("none", "f4", (0, 3))]:  # fmt: skip
        x = random.integers(-(2**62), 2**62, shape).astype(dtype) if dtype[0] != "f" else random.normal(size=shape).astype(dtype)
        write_idx(out / f"{name}.idx", x)
        tensors[f"idx/{name}"] = x

    texts = ["plain", 'a "quoted" word', "comma, inside", "two\nlines", "", " spaces kept ", "größer", "CR\r\nLF", '"']
    counts = [0, -5, 12345678901234567, 7, 7, 2**63 - 1, -(2**63), 1, 2]
    numbers = [0.5, -1e300, 3.0, None, 1e-310, 2.0**-20, 123456.789, float("inf"), 0.1]
    flags = [True, False, True, True, False, True, False, False, True]
    with open(out / "table.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)  # CRLF between records, as RFC 4180 has it
        writer.writerow(["name, quoted", "count", "number", "flag"])
        for row in zip(texts, counts, numbers, flags):
            writer.writerow([row[0], row[1], "" if row[2] is None else repr(row[2]), row[3]])
    (out / "table_text.json").write_text(json.dumps(texts, ensure_ascii=False) + "\n", encoding="utf-8")
    tensors["csv/count"] = np.array(counts, np.int64)
    tensors["csv/number"] = np.array([np.nan if n is None else n for n in numbers])
    tensors["csv/flag"] = np.array(flags).astype(np.uint8)

    stream = words()
    tensors["random/words"] = np.array([next(stream) for _ in range(11)], np.uint32)
    tensors["random/shuffled"] = shuffled(100)
    write_safetensors(out / "data.safetensors", tensors)
    recorded.write_versions(out, "data.py", ["numpy"])


if __name__ == "__main__":
    main()
