"""Block formats: random valid blocks, and what they stand for.

The values are those of the PyPI package `gguf` (gguf.quants.dequantize), for all that it reads. Three it does not read, and
they are decoded here, in NumPy, from their description in ggml: Q8_K (f32 d, 256 i8), Q1_0 (f16 d, 128 sign bits) and Q2_0
(f16 d, 128 two-bit codes, (q - 1) d). NVFP4 is gguf's, regrouped: a GGUF file stores four scales and then the codes of four
groups of 16; RLX has the blocks one by one, a scale and its 16 codes.
"""
import zlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

# name: (elements, bytes, where scales stand that decide whether a block is valid). dtype.h has the same table.
FORMATS = {
    "q4_0": (32, 18, [(0, "f16")]), "q4_1": (32, 20, [(0, "f16"), (2, "f16")]), "q5_0": (32, 22, [(0, "f16")]),
    "q5_1": (32, 24, [(0, "f16"), (2, "f16")]), "q8_0": (32, 34, [(0, "f16")]), "q2_k": (256, 84, [(80, "f16"), (82, "f16")]),
    "q3_k": (256, 110, [(108, "f16")]), "q4_k": (256, 144, [(0, "f16"), (2, "f16")]), "q5_k": (256, 176, [(0, "f16"), (2, "f16")]),
    "q6_k": (256, 210, [(208, "f16")]), "q8_k": (256, 292, [(0, "f32")]), "iq1_s": (256, 50, [(0, "f16")]),
    "iq1_m": (256, 56, [(48, "split")]), "iq2_xxs": (256, 66, [(0, "f16")]), "iq2_xs": (256, 74, [(0, "f16")]),
    "iq2_s": (256, 82, [(0, "f16")]), "iq3_xxs": (256, 98, [(0, "f16")]), "iq3_s": (256, 110, [(0, "f16")]),
    "iq4_nl": (32, 18, [(0, "f16")]), "iq4_xs": (256, 136, [(0, "f16")]), "tq1_0": (256, 54, [(52, "f16")]),
    "tq2_0": (256, 66, [(64, "f16")]), "q1_0": (128, 18, [(0, "f16")]), "q2_0": (128, 34, [(0, "f16")]),
    "mxfp4": (32, 17, [(0, "e8m0")]), "nvfp4": (16, 9, [(0, "e4m3")])}
NOT_IN_GGUF = ("q8_k", "q1_0", "q2_0")


def put_scale(blocks, at, kind, values):
    """Writes f64 values as the scales of all blocks."""
    if kind in ("f16", "f32"):
        raw = values.astype(np.float16 if kind == "f16" else np.float32).view(np.uint8).reshape(len(values), -1)
        blocks[:, at:at + raw.shape[1]] = raw
    elif kind == "split":  # a f16 in the top nibbles of four u16
        bits = values.astype(np.float16).view(np.uint16)
        for i in range(4):
            blocks[:, at + 2 * i + 1] = (blocks[:, at + 2 * i + 1] & 15) | ((bits >> (4 * i) & 15) << 4).astype(np.uint8)
    elif kind == "e8m0":
        blocks[:, at] = np.clip(np.floor(np.log2(np.maximum(np.abs(values), 1e-30))) + 127, 0, 254)
    else:  # e4m3, without a sign
        blocks[:, at] = np.clip(np.floor(np.abs(values) * 64) + 8, 0, 0x7e)


def random_blocks(name, count, seed, scale=0.02):
    """u8[count, bytes]: every code is as likely as any other, and the scales are normal random numbers."""
    elements, size, scales = FORMATS[name]
    random = np.random.RandomState(zlib.crc32(f"{name}/{seed}".encode()))
    blocks = random.randint(0, 256, (count, size)).astype(np.uint8)
    for at, kind in scales:
        put_scale(blocks, at, kind, scale * random.standard_normal(count))
    return blocks


def extreme_blocks(name):
    """No bit, all bits, scales at the ends of their range, of both signs."""
    elements, size, scales = FORMATS[name]
    blocks = np.concatenate([np.zeros((4, size), np.uint8), np.full((4, size), 255, np.uint8), random_blocks(name, 4, "extreme")])
    least, most = (2.0 ** -24, 65504.0) if name != "q8_k" else (2.0 ** -149, 2.0 ** 100)
    if name in ("mxfp4", "nvfp4"):
        least, most = 2.0 ** -126, 2.0 ** 100
    for at, kind in scales:
        put_scale(blocks, at, kind, np.array([least, most, -1.0, 0.0] * 3))
    return blocks


def decode(name, blocks):
    """f32[count, elements]"""
    elements, size, _ = FORMATS[name]
    blocks = np.ascontiguousarray(blocks).reshape(-1, size)
    if name == "q8_k":
        return np.ascontiguousarray(blocks[:, :4]).view(np.float32) * blocks[:, 4:260].view(np.int8).astype(np.float32)
    if name in ("q1_0", "q2_0"):
        d = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
        if name == "q1_0":
            bits = np.unpackbits(np.ascontiguousarray(blocks[:, 2:]), axis=1, bitorder="little")
            return np.where(bits == 1, d, -d)
        codes = (blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        return d * (codes.reshape(len(blocks), 128).astype(np.float32) - np.float32(1))
    if name == "nvfp4":
        padded = np.concatenate([blocks, np.zeros((-len(blocks) % 4, size), np.uint8)])
        grouped = np.concatenate([padded[:, :1].reshape(-1, 4), padded[:, 1:].reshape(-1, 32)], axis=1)
        values = gguf.quants.dequantize(np.ascontiguousarray(grouped), Type.NVFP4)
        return values.reshape(-1, 16)[:len(blocks)].astype(np.float32)
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks, getattr(Type, name.upper())).reshape(len(blocks), elements)


def encode(name, x):
    """u8[count, bytes] as gguf writes them."""
    elements, size, _ = FORMATS[name]
    return gguf.quants.quantize(x.reshape(-1, elements), getattr(Type, name.upper())).reshape(-1, size)
