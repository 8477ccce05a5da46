"""Attention in every layout, mask, scale and grouping, and rotary position embeddings."""
import numpy as np
import torch
import torch.nn.functional as F

from .case import *


def scaled_attention(q, k, v, scale, cap=None, keep=None, bias=None):
    """[B, H, S, D] in f64: scores, scale, soft cap, then bias and mask, softmax, product. Grouped heads are repeated."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if cap:
        scores = cap * np.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    weights = torch.softmax(torch.from_numpy(np.ascontiguousarray(scores)), -1).numpy()
    return np.einsum("bhqk,bhkd->bhqd", weights, v)


def by_torch(q, k, v, scale, keep=None, bias=None):
    mask = None if keep is None and bias is None else torch.from_numpy(np.ascontiguousarray(keep if bias is None else bias))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    return F.scaled_dot_product_attention(*(torch.from_numpy(np.ascontiguousarray(x)) for x in (q, k, v)), attn_mask=mask, scale=scale).numpy()


def window(queries, keys, left, right=0):
    """Query i stands at keys - queries + i and sees the keys from left before it to right behind it."""
    at = np.arange(queries)[:, None] + keys - queries
    j = np.arange(keys)[None]
    return (j >= at - left) & (j <= at + right)


LAYOUTS = {  # name: (from [B, H, S, D], back)
    "bhsd": (lambda x: x.copy(), None), "bshd": (lambda x: x.transpose(0, 2, 1, 3).copy(), None),
    "bsd": (lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1).copy(), None),
    "sd": (lambda x: x[0].transpose(1, 0, 2).reshape(x.shape[2], -1).copy(), None),
}


def attention(f):
    def add(name, layout="bhsd", dims=(2, 3, 5, 8), keys=None, kv_heads=None, value_dim=None, dtype=f32, kind="none", width=None, scale=None,
            cap=None, mask=None, magnitude=1.0):
        b, h, s, d = dims
        keys, kv_heads, value_dim = keys or s, kv_heads or h, value_dim or d
        q = normal(name + "q", (b, h, s, d), dtype, magnitude)
        k = normal(name + "k", (b, kv_heads, keys, d), dtype, magnitude)
        v = normal(name + "v", (b, kv_heads, keys, value_dim), dtype)
        keep = bias = None
        extra = []
        if kind == "causal":
            keep = np.broadcast_to(window(s, keys, keys), (b, h, s, keys))
        elif kind == "sliding_window":
            keep = np.broadcast_to(window(s, keys, width), (b, h, s, keys))
        elif kind == "custom":
            extra = [mask]
            keep = np.broadcast_to(mask.reshape(mask.shape[0], 1, 1, keys).astype(f64) >= 0.5, (b, h, s, keys))
        elif kind == "bias":
            extra = [mask]
            bias = np.broadcast_to(mask.astype(f64), (b, h, s, keys))
        used = scale or d ** -0.5
        truth = in_f64(lambda q, k, v: scaled_attention(q, k, v, used, cap, keep, bias), q, k, v)
        if not cap:
            other = in_f64(lambda q, k, v: by_torch(q, k, v, used, keep, bias), q, k, v)
            assert np.array_equal(truth[0], other[0]) or np.abs(truth[0].astype(f64) - other[0].astype(f64)).max() < (1e-6 if dtype.itemsize > 2 else 1e-2)
        to = LAYOUTS[layout][0]
        f.add(f"attention_{name}", "attention", [to(q), to(k), to(v)] + extra, [to(truth[0])],
              "numpy in f64" + ("" if cap else ", equal to torch scaled_dot_product_attention"),
              num_heads=h, head_dim=d, mask_kind=kind, window=width, score_scale=scale, softcap=cap, layout=layout)

    for layout in LAYOUTS:
        add(f"layout_{layout}", layout, dims=(1 if layout == "sd" else 2, 3, 5, 8))
        add(f"causal_{layout}", layout, dims=(1 if layout == "sd" else 2, 3, 5, 8), keys=7, kind="causal")
    add("f64", dtype=f64)
    add("f16", dtype=f16)
    add("bf16", dtype=bf16)
    add("square", dims=(2, 4, 4, 4), layout="bhsd")
    add("square_bshd", dims=(2, 4, 4, 4), layout="bshd")
    add("cross", keys=9)
    add("one_query", dims=(2, 3, 1, 8), keys=17, kind="causal")
    add("scale", scale=0.25)
    add("softcap", cap=2.0, magnitude=3)
    add("softcap_scale_causal", cap=5.0, scale=1.0, kind="causal")
    add("window", dims=(1, 2, 9, 4), kind="sliding_window", width=3)
    add("window_long", dims=(1, 2, 4, 4), keys=10, kind="sliding_window", width=2)
    add("grouped", dims=(2, 6, 5, 8), kv_heads=2)
    add("multi_query_causal", dims=(2, 4, 5, 8), kv_heads=1, kind="causal")
    add("value_dim", value_dim=3)
    padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], f32)
    add("padding", kind="custom", mask=padding)
    add("padding_bsd", layout="bsd", kind="custom", mask=padding)
    add("padding_shared", kind="custom", mask=np.array([[1, 0.5, 0.49, 0, 1]], f32))
    add("bias", kind="bias", mask=normal("bias", (2, 3, 5, 5)))
    add("large_scores", magnitude=30)
    add("long", dims=(1, 2, 70, 16), kind="causal")


def rope(f):
    """Angles position / theta^(2i / n_rot); the two styles pair dims i with i + n_rot/2, or 2i with 2i + 1."""
    for style in ("neox", "gptj"):
        for name, heads, head_dim, n_rot, positions in (("full", 1, 8, 8, range(6)), ("heads", 3, 8, 8, range(6)), ("partial", 2, 8, 4, range(6)),
                                                        ("offset", 2, 6, 6, range(100, 106))):
            for dtype in (f64, f32) if name == "heads" else (f32,):
                x = normal(style + name, (2, 6, heads * head_dim), dtype)
                angle = np.arange(positions.start, positions.stop)[:, None] / 10000.0 ** (np.arange(0, n_rot, 2) / n_rot)
                cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)

                def turned(x, cos, sin):
                    y = x.reshape(2, 6, heads, head_dim).copy()
                    first = slice(0, n_rot // 2) if style == "neox" else slice(0, n_rot, 2)
                    second = slice(n_rot // 2, n_rot) if style == "neox" else slice(1, n_rot, 2)
                    z = (y[..., first] + 1j * y[..., second]) * (cos + 1j * sin)[None, :, None]  # a rotation is a complex product
                    y[..., first], y[..., second] = z.real, z.imag
                    return y.reshape(x.shape)

                f.add(f"rope_{style}_{name}_{NAMES[dtype][0]}", "rope", [x, cos, sin], in_f64(turned, x, cos, sin), "complex products in numpy, f64",
                      head_dim=head_dim, n_rot=n_rot, style=style)


def cases():
    f = Family("attention")
    attention(f)
    rope(f)
    return [f]
