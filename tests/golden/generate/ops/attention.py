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


def by_torch(q, k, v, scale, mask):
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    return F.scaled_dot_product_attention(*(torch.from_numpy(np.ascontiguousarray(x)) for x in (q, k, v)), attn_mask=torch.from_numpy(mask), scale=scale).numpy()


def in_sight(queries, keys, causal, window):
    """Query i stands at keys - queries + i; causal: it sees no key behind that; window: none further away than that."""
    at = np.arange(queries)[:, None] + keys - queries
    j = np.arange(keys)[None]
    return (j <= at if causal else j >= 0) & (np.abs(j - at) <= (window if window is not None else keys + queries))


LAYOUTS = {  # from [B, H, S, D]
    "bhsd": lambda x: x.copy(), "bshd": lambda x: x.transpose(0, 2, 1, 3).copy(),
    "packed": lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1).copy(),
    "packed2": lambda x: x[0].transpose(1, 0, 2).reshape(x.shape[2], -1).copy(),  # without a batch
}


def attention(f):
    def add(name, layout="bhsd", dims=(2, 3, 5, 8), keys=None, kv_heads=None, value_dim=None, dtype=f32, causal=False, window=None, scale=None,
            softcap=None, padding=None, bias=None, magnitude=1.0):
        b, h, s, d = dims
        keys, value_dim = keys or s, value_dim or d
        q = normal(name + "q", (b, h, s, d), dtype, magnitude)
        k = normal(name + "k", (b, kv_heads or h, keys, d), dtype, magnitude)
        v = normal(name + "v", (b, kv_heads or h, keys, value_dim), dtype)
        keep, more = in_sight(s, keys, causal, window)[None, None], []
        if padding is not None:
            more = [padding]
            keep = keep & (padding.reshape(-1, 1, 1, keys).astype(f64) >= 0.5)
        if bias is not None:
            more = [bias]
        keep = np.broadcast_to(keep, (b, h, s, keys)).copy()
        added = None if bias is None else np.broadcast_to(bias.astype(f64), keep.shape)
        used = scale or d ** -0.5
        truth = in_f64(lambda q, k, v: scaled_attention(q, k, v, used, softcap, keep, added), q, k, v)[0]
        blind = ~(keep.any(-1) if added is None else (keep & (added > -np.inf)).any(-1))
        truth[blind] = 0  # by definition; softmax of nothing is NaN
        if not softcap:
            mask = np.where(keep, 0 if added is None else added, -np.inf)
            other = in_f64(lambda q, k, v: by_torch(q, k, v, used, mask), q, k, v, dtype=f64)[0]
            other[blind] = 0
            assert np.allclose(truth.astype(f64), other, *{2: (8e-3, 1e-6), 4: (1e-6, 1e-7), 8: (1e-12, 1e-12)}[dtype.itemsize])
        to = LAYOUTS[layout]
        f.add(f"attention_{name}", "attention", [to(q), to(k), to(v)] + more, [to(truth)],
              "numpy in f64" + ("" if softcap else ", checked by torch scaled_dot_product_attention"), heads=h, kv_heads=kv_heads,
              layout=layout.removesuffix("2"), causal=causal or None, window=window, mask="key_padding" if padding is not None else "bias" if more else None,
              scale=scale, softcap=softcap)

    for layout in LAYOUTS:
        add(f"layout_{layout}", layout, dims=(1 if layout == "packed2" else 2, 3, 5, 8))
        add(f"causal_{layout}", layout, dims=(1 if layout == "packed2" else 2, 3, 5, 8), keys=7, causal=True)
        add(f"grouped_{layout}", layout, dims=(1 if layout == "packed2" else 2, 6, 4, 8), kv_heads=2, value_dim=3, causal=True)
    for dtype in (f64, f16, bf16):
        add(NAMES[dtype][0], dtype=dtype)
        add(f"causal_{NAMES[dtype][0]}", dtype=dtype, causal=True, keys=9)
    add("square_bhsd", dims=(2, 4, 4, 4))  # heads = positions = width: only the layout can tell them apart
    add("square_bshd", "bshd", dims=(2, 4, 4, 4))
    add("cross", keys=9)
    add("one_query", dims=(2, 3, 1, 8), keys=17, causal=True)
    add("one_key", keys=1)
    add("few_keys_causal", dims=(1, 2, 6, 4), keys=4, causal=True)  # the first two queries see nothing: zeros
    add("scale", scale=0.25)
    add("softcap", softcap=2.0, magnitude=3)
    add("softcap_scale_causal", softcap=5.0, scale=1.0, causal=True)
    add("softcap_bias", softcap=3.0, bias=normal("softcap_bias", (2, 3, 5, 5)))
    add("window", dims=(1, 2, 9, 4), causal=True, window=3)
    add("window_both_sides", dims=(1, 2, 9, 4), window=2)
    add("window_long", dims=(1, 2, 4, 4), keys=10, causal=True, window=2)
    add("window_zero", dims=(1, 2, 4, 4), causal=True, window=0)
    add("multi_query_causal", dims=(2, 4, 5, 8), kv_heads=1, causal=True)
    add("value_dim", value_dim=3)
    padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], f32)
    add("padding", padding=padding)
    add("padding_bool", padding=padding.astype(bool))
    add("padding_i64", padding=padding.astype(i64))
    add("padding_packed_causal", "packed", padding=padding, causal=True)
    add("padding_front", padding=padding[:, ::-1].copy(), causal=True)  # early queries see nothing
    add("padding_shared", padding=np.array([[1, 0.5, 0.49, 0, 1]], f32))
    add("padding_rank1", padding=np.array([1, 0, 1, 1, 0], f32))
    add("padding_rank4", padding=padding.reshape(2, 1, 1, 5))
    add("padding_nothing", padding=np.array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], f32))
    add("bias", bias=normal("bias", (2, 3, 5, 5)))
    add("bias_of_heads", bias=normal("bias_of_heads", (1, 3, 5, 5)))
    add("bias_of_keys", bias=normal("bias_of_keys", (2, 1, 1, 5)))
    add("bias_rank2", bias=normal("bias_rank2", (5, 5)), causal=True)
    add("bias_minus_inf", bias=np.where(rng("minus_inf").uniform(size=(2, 1, 5, 5)) < 0.5, -np.inf, 0).astype(f32))
    add("bias_large", bias=np.where(np.arange(5) < 3, 0, -1e9).astype(f32).reshape(1, 1, 1, 5))
    add("large_scores", magnitude=30)
    add("long", dims=(1, 2, 70, 16), causal=True)
    add("long_keys", dims=(1, 1, 3, 32), keys=300)


def turned(style, heads, rotary):
    """[B, S, heads * D] turned by tables that broadcast to [B, S, rotary / 2]; a rotation is a complex product."""
    def turn(x, cos, sin):
        y = x.reshape(*x.shape[:2], heads, -1).copy()
        first = slice(0, rotary // 2) if style == "neox" else slice(0, rotary, 2)
        second = slice(rotary // 2, rotary) if style == "neox" else slice(1, rotary, 2)
        z = (y[..., first] + 1j * y[..., second]) * (cos + 1j * sin)[..., None, :]
        y[..., first], y[..., second] = z.real, z.imag
        return y.reshape(x.shape)

    return turn


def rope(f):
    def add(name, style, heads, width, rotary, positions, dtype=f32, layout="packed", table=lambda t: t[0], spare=0):
        batch, length = 2, positions.shape[-1]
        x = normal(name + style, (batch, length, heads * width), dtype)
        angle = np.broadcast_to(positions, (batch, length))[..., None] / 10000.0 ** (np.arange(0, rotary, 2) / rotary)
        cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)
        y = in_f64(turned(style, heads, rotary), x, cos, sin)[0]
        widened = [table(np.concatenate([t, np.full((batch, length, spare), 77, dtype)], -1)) for t in (cos, sin)]
        to = LAYOUTS[layout]
        unpacked = lambda v: to(v.reshape(batch, length, heads, width).transpose(0, 2, 1, 3))
        f.add(f"rope_{style}_{name}", "rope", [unpacked(x)] + widened, [unpacked(y)], "complex products in numpy, f64", heads=heads, layout=layout,
              rotary_dims=None if rotary == width else rotary, style=style)

    count = np.arange(6)
    for style in ("neox", "gptj"):
        add("one_head", style, 1, 8, 8, count)
        add("heads", style, 3, 8, 8, count)
        add("heads_f64", style, 3, 8, 8, count, dtype=f64)
        add("heads_bf16", style, 3, 8, 8, count, dtype=bf16)
        add("heads_bhsd", style, 3, 8, 8, count, layout="bhsd")
        add("heads_bshd", style, 3, 8, 8, count, layout="bshd")
        add("partial", style, 2, 8, 4, count)
        add("partial_wide_table", style, 2, 8, 4, count, spare=2)
        add("offset", style, 2, 6, 6, count + 100)
        ragged = np.array([[0, 1, 2, 3, 4, 5], [7, 8, 0, 1, 2, 3]])
        add("ragged_rows", style, 2, 8, 8, ragged, table=lambda t: t.reshape(12, -1).copy())
        add("ragged_batches", style, 2, 8, 8, ragged, table=lambda t: t.copy())
        add("flat_table", style, 2, 8, 8, count, table=lambda t: t[0].ravel().copy())

    end_x, end_y, heads, width, repeat = 3, 2, 2, 8, 2
    for repeat in (1, 2):
        x = normal(f"axial{repeat}", (2, end_x * end_y * repeat, heads * width))
        place = np.arange(x.shape[1]) // repeat
        turns = 100.0 ** (-4 * np.arange(width // 4) / width)
        angle = np.concatenate([(place % end_x)[:, None] * turns, (place // end_x)[:, None] * turns], axis=1)[None]
        y = in_f64(lambda x: turned("gptj", heads, width)(x, np.cos(angle), np.sin(angle)), x)
        f.add(f"axial_rope2d_repeat{repeat}", "axial_rope2d", [x], y, "complex products in numpy, f64", end_x=end_x, end_y=end_y, theta=100.0,
              repeat_factor=repeat, heads=heads)


def cases():
    f, g = Family("attention"), Family("rope")
    attention(f)
    rope(g)
    return [f, g]
