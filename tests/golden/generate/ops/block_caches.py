"""Keys and values in blocks, as caches of q8_0 and q4_0 have them: made by GGML's rounding, written by rows, attended to."""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from block_formats import decode

from .attention import LAYOUTS, by_torch, in_sight, scaled_attention
from .case import *

CACHES = ("q8_0", "q4_0")
WITHOUT_SEARCH = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1")  # whose bits are given


def quantized(name, x):
    """x as blocks: u8[..., bytes of a row]."""
    return gguf.quants.quantize(np.ascontiguousarray(x, np.float32), Type[name.upper()])


def packed(name, x):
    """x as blocks, and their values, of x's dims."""
    blocks = quantized(name, x)
    return Packed(name, x.shape, blocks), decode(name, blocks).reshape(x.shape)


def hard_rows():
    """No number but 0, numbers halfway between codes, one number alone, subnormal scales, both signs of the largest."""
    ties = np.concatenate([np.arange(31) - 15.5, [127]])
    q4_ties = np.concatenate([np.arange(31) / 2 - 7.75, [-8]])
    alone = np.where(np.arange(32) == 5, -3.0, 0)
    both = np.where(np.arange(32) % 2 == 0, 2.5, -2.5)
    return np.stack([np.zeros(32), ties, q4_ties, alone, both, ties * 1e-7, ties * 1e-12, ties * 400]).astype(f32)


def quantizers(f):
    for name in WITHOUT_SEARCH:
        for case, x in (("random", normal("qb" + name, (7, 3, 64))), ("hard", hard_rows()), ("large", normal("ql" + name, (60, 96), f32, 40))):
            f.add(f"quantize_blocks_{name}_{case}", "quantize_blocks", [x], [packed(name, x)[0]], "gguf", dtype=Named(name))
    for name in CACHES:
        for dtype in (f16, bf16, f64):
            x = normal("qd" + name, (5, 64), dtype)
            f.add(f"quantize_blocks_{name}_{NAMES[dtype][0]}", "quantize_blocks", [x], [packed(name, x.astype(f32))[0]], "gguf", dtype=Named(name))


class Named:
    """A dtype that NumPy has not, as an attribute."""
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


def updates(f):
    for name in CACHES:
        cache, new = normal("uc" + name, (2, 3, 9, 64)), normal("un" + name, (2, 3, 2, 64))
        for case, at in (("first", 0), ("middle", 4), ("behind", 30)):
            rows = quantized(name, cache)
            start = min(at, 7)
            rows[:, :, start:start + 2] = quantized(name, new)
            f.add(f"dynamic_update_slice_{name}_{case}", "dynamic_update_slice", [packed(name, cache)[0], packed(name, new)[0], np.array([0, 0, at, 0], i32)],
                  [Packed(name, cache.shape, rows)], "gguf, numpy on bytes")


def attention(f):
    def add(name, kind, layout="bhsd", dims=(2, 4, 3, 64), keys=11, kv_heads=2, value_dim=None, dtype=f32, causal=True, window=None, softcap=None, scale=None,
            padding=None, magnitude=1.0, kinds=(True, True)):
        b, h, s, d = dims
        q = normal(name + "q", (b, h, s, d), dtype, magnitude)
        k, v = normal(name + "k", (b, kv_heads, keys, d), dtype), normal(name + "v", (b, kv_heads, keys, value_dim or d), dtype)
        to = LAYOUTS[layout]
        keep = np.broadcast_to(in_sight(s, keys, causal, window)[None, None], (b, h, s, keys)).copy()
        if padding is not None:
            keep = keep & padding.reshape(-1, 1, 1, keys)
        values = [decode(kind, quantized(kind, x.astype(f32))).reshape(x.shape) if is_packed else x for x, is_packed in zip((k, v), kinds)]
        used = scale or d ** -0.5
        truth = in_f64(lambda q, k, v: scaled_attention(q, k, v, used, softcap, keep), q, *values)[0]
        if not softcap:
            other = in_f64(lambda q, k, v: by_torch(q, k, v, used, np.where(keep, 0, -np.inf)), q, *values, dtype=f64)[0]
            assert np.allclose(truth.astype(f64), other, *{2: (8e-3, 1e-6), 4: (1e-6, 1e-7), 8: (1e-12, 1e-12)}[dtype.itemsize])
        operands = [packed(kind, to(x).astype(f32))[0] if is_packed else to(x) for x, is_packed in zip((k, v), kinds)]
        more = [] if padding is None else [padding]
        f.add(f"attention_{kind}_{name}", "attention", [to(q)] + operands + more, [to(truth)],
              "gguf, numpy in f64" + ("" if softcap else ", checked by torch scaled_dot_product_attention"), heads=h, kv_heads=kv_heads,
              layout=layout.removesuffix("2"), causal=causal or None, window=window, mask="key_padding" if more else None, scale=scale, softcap=softcap)

    for kind in CACHES:
        for layout in LAYOUTS:
            add(f"layout_{layout}", kind, layout, dims=(1 if layout == "packed2" else 2, 4, 3, 64))
            add(f"one_query_{layout}", kind, layout, dims=(1 if layout == "packed2" else 2, 4, 1, 32), keys=40)
        for dtype in (f16, bf16, f64):
            add(NAMES[dtype][0], kind, dtype=dtype)
        add("head_128", kind, dims=(1, 4, 1, 128), keys=150)
        add("many_queries", kind, dims=(1, 4, 70, 32), keys=150)
        add("group_of_8", kind, dims=(1, 16, 1, 64), keys=140)
        add("no_group", kind, dims=(2, 2, 1, 96), keys=33)
        add("window", kind, dims=(1, 4, 1, 64), keys=150, window=37)
        add("window_long", kind, dims=(1, 4, 40, 64), keys=150, window=37)
        add("softcap_scale", kind, softcap=2.0, scale=0.25, magnitude=3)
        add("padding", kind, keys=5, causal=False, padding=np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool))
        add("value_dim", kind, value_dim=32)
        add("keys_alone", kind, kinds=(True, False))
        add("values_alone", kind, dims=(1, 4, 1, 64), keys=140, kinds=(False, True))


def cases():
    f = Family("block_caches")
    quantizers(f)
    updates(f)
    attention(f)
    return [f]
