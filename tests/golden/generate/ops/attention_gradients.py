"""Cotangents of attention, in every layout, mask, scale and grouping, and of the rotary embeddings: by PyTorch's automatic
differentiation of the formulas written out, of scaled_dot_product_attention where it has the case, and by JAX."""
import jax.numpy as jnp
import torch
import torch.nn.functional as F

from .attention import in_sight
from .case import *
from .derivative import by_jax, by_torch


def unpacked(x, layout, heads):
    """To [B, H, S, D]."""
    if layout == "bhsd":
        return x
    if layout == "packed":
        x = x.reshape(*((1,) if x.ndim == 2 else ()), *x.shape[:-1], heads, -1)
    return x.transpose(1, 2)


def packed(y, layout, rank):
    if layout == "bhsd":
        return y
    y = y.transpose(1, 2)
    return y if layout == "bshd" else y.flatten(2) if rank == 3 else y.flatten(2)[0]


def eager(a, keep):
    """softmax(cap(q k' scale) + bias where kept) v, and zeros where nothing is."""
    def run(q, k, v, *mask):
        rank = q.ndim
        q = unpacked(q, a["layout"], a["heads"])
        k, v = (unpacked(x, a["layout"], a["kv_heads"]).repeat_interleave(a["heads"] // a["kv_heads"], 1) for x in (k, v))
        scores = q @ k.transpose(2, 3) * (a["scale"] or q.shape[-1] ** -0.5)
        if a["softcap"]:
            scores = a["softcap"] * torch.tanh(scores / a["softcap"])
        seen = torch.from_numpy(keep)
        if mask and a["mask"] == "bias":
            scores = scores + mask[0]
        elif mask:
            seen = seen & (mask[0].reshape(-1, 1, 1, k.shape[2]) >= 0.5)
        blind = ~seen.any(-1, keepdim=True)
        weights = torch.softmax(torch.where(blind, 0, scores.masked_fill(~seen, -torch.inf)), -1)
        return packed(torch.where(blind, 0, weights) @ v, a["layout"], rank)

    return run


def by_library(a, keep):
    def run(q, k, v, *mask):
        rank = q.ndim
        q, k, v = unpacked(q, a["layout"], a["heads"]), unpacked(k, a["layout"], a["kv_heads"]), unpacked(v, a["layout"], a["kv_heads"])
        seen = torch.from_numpy(keep)
        if mask and a["mask"] == "key_padding":
            seen = seen & (mask[0].reshape(-1, 1, 1, k.shape[2]) >= 0.5)
        added = torch.where(seen, 0.0, -torch.inf).double()
        if mask and a["mask"] == "bias":
            added = added + mask[0]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=a["scale"], enable_gqa=a["heads"] != a["kv_heads"])
        return packed(y, a["layout"], rank)

    return run


def attention(f):
    def add(name, layout="bhsd", batch=2, heads=2, kv_heads=None, queries=4, keys=None, width=5, values=None, dtype=f32, causal=False, window=None,
            scale=None, softcap=None, padding=None, bias=None, library=False, magnitude=1.0):
        case, rank2 = f"attention_gradient_{name}", layout == "packed2"
        layout, keys, values, kv = layout.removesuffix("2"), keys or queries, values or width, kv_heads or heads
        def drawn(which, h, s, d):
            dims = {"bhsd": (batch, h, s, d), "bshd": (batch, s, h, d), "packed": (s, h * d) if rank2 else (batch, s, h * d)}[layout]
            return normal(case + which, dims, dtype, magnitude)

        inputs = [drawn("q", heads, queries, width), drawn("k", kv, keys, width), drawn("v", kv, keys, values)]
        mask = "none" if padding is None and bias is None else "bias" if padding is None else "key_padding"
        inputs += [m for m in (padding, bias) if m is not None]
        a = {"layout": layout, "heads": heads, "kv_heads": kv, "scale": scale, "softcap": softcap, "mask": mask}
        keep = in_sight(queries, keys, causal, window)[None, None]
        outputs = by_torch(case, eager(a, keep), inputs)
        if library:
            for got, wanted in zip(sum(by_torch(case, by_library(a, keep), inputs), []), sum(outputs, [])):
                assert (got is None) == (wanted is None) and (got is None or np.allclose(got.astype(f64), wanted.astype(f64), 1e-5, 1e-6)), case
        f.add(case, "attention", inputs, outputs[0], "torch, f64" + (", checked by scaled_dot_product_attention" if library else ""), *outputs[1:],
              heads=heads, kv_heads=kv_heads, layout=layout, causal=causal or None, window=window, mask=None if mask == "none" else mask, scale=scale,
              softcap=softcap)

    for layout in ("bhsd", "bshd", "packed", "packed2"):
        b = {"batch": 1} if layout == "packed2" else {}
        add(f"{layout}", layout, library=True, **b)
        add(f"{layout}_causal_long_keys", layout, keys=7, causal=True, library=True, **b)
        add(f"{layout}_window", layout, queries=6, window=2, library=True, **b)
        add(f"{layout}_causal_window", layout, queries=6, keys=8, window=2, causal=True, library=True, **b)
        add(f"{layout}_grouped_values", layout, heads=4, kv_heads=2, values=3, **b)
        add(f"{layout}_softcap_scale", layout, scale=0.7, softcap=1.5, causal=True, magnitude=2.0, **b)
    pad = np.array([[1, 1, 0, 1, 0.5], [1, 0.49, 0, 0, 1]], f32)
    for layout in ("bhsd", "bshd", "packed"):
        add(f"{layout}_padding", layout, keys=5, padding=pad, library=True)
        add(f"{layout}_padding_grouped_causal", layout, heads=4, kv_heads=1, keys=5, padding=pad >= 0.5, causal=True)
        add(f"{layout}_bias", layout, keys=5, bias=normal("gradient_bias", (2, 2, 4, 5)), library=True)
        add(f"{layout}_bias_softcap_window", layout, keys=5, bias=normal("gradient_bias2", (1, 2, 1, 5)), softcap=2.0, window=2)
    for dtype in (f64, f16, bf16):
        add(f"{NAMES[dtype][0]}", dtype=dtype, causal=True)
        add(f"{NAMES[dtype][0]}_softcap_grouped", dtype=dtype, heads=4, kv_heads=2, softcap=1.2, keys=6)
        add(f"{NAMES[dtype][0]}_bias", dtype=dtype, bias=normal("gradient_bias3", (2, 1, 4, 4), dtype), library=dtype == f64)
    add("queries_behind_keys", queries=6, keys=4, causal=True)  # the first two see nothing
    add("padding_front", keys=4, padding=np.array([[0, 0, 1, 1], [0, 0, 0, 0]], f32), causal=True)
    add("bias_of_keys", bias=normal("gradient_bias4", (4,)), heads=3)
    add("bias_of_heads_long", queries=9, keys=33, bias=normal("gradient_bias5", (3, 1, 1)), heads=3, width=16, library=True)
    add("window_0", window=0)
    add("one_key", keys=1, queries=1)
    add("many_positions", queries=40, keys=70, batch=1, heads=1, width=8, causal=True, window=20, library=True)
    # In f64: the roundings of scores of some 40 are what f32 would compare.
    add("large_scores", magnitude=6.0, dtype=f64)
    add("width_1", width=1, values=4)


def turn(style, rotary, width, heads, layout):
    """Rotation as two products, of [B, S, H, D] by tables that broadcast to [B, S, 1, rotary / 2]."""
    def run(x, cos, sin):
        y = x.transpose(0, 2, 1, 3) if layout == "bhsd" else x.reshape(*x.shape[:2], heads, width)
        batch, length = y.shape[:2]
        rows = lambda t: t.reshape(-1, length, t.size // length // (t.shape[0] // length if t.ndim == 2 and t.shape[0] > length else t.shape[0] if t.ndim == 3 else 1))
        c, s = (rows(t)[:, :, None, :rotary // 2] for t in (cos, sin))
        head, rest = y[..., :rotary], y[..., rotary:]
        l, r = (head[..., :rotary // 2], head[..., rotary // 2:]) if style == "neox" else (head[..., ::2], head[..., 1::2])
        parts = l * c - r * s, r * c + l * s
        head = jnp.concatenate(parts, -1) if style == "neox" else jnp.stack(parts, -1).reshape(head.shape)
        y = jnp.concatenate([head, rest], -1)
        return y.transpose(0, 2, 1, 3) if layout == "bhsd" else y.reshape(x.shape)

    return run


def rope(f):
    def add(name, style, layout="packed", batch=2, length=5, heads=2, width=8, rotary=None, spare=0, table="shared", dtype=f32):
        case, used = f"rope_gradient_{style}_{name}", rotary or width
        dims = {"packed": (batch, length, heads * width), "bshd": (batch, length, heads, width), "bhsd": (batch, heads, length, width)}[layout]
        rows = {"shared": (length,), "rows": (batch * length,), "batches": (batch, length), "one": (1, length)}[table]
        tables = [normal(f"{case}{i}", (*rows, used // 2 + spare), dtype) for i in range(2)]  # any: no angle need belong to them
        f.add_derivative(case, "rope", [normal(case, dims, dtype), *tables], by_jax, turn(style, used, width, heads, layout), "jax, f64", heads=heads,
                         layout=layout, rotary_dims=rotary, style=style)

    for style in ("neox", "gptj"):
        for layout in ("packed", "bshd", "bhsd"):
            add(layout, style, layout)
        add("partial", style, rotary=4)
        add("partial_wide_rows", style, "bhsd", rotary=4, spare=2)
        add("ragged_rows", style, "bshd", table="rows", rotary=6)
        add("ragged_batches", style, "bhsd", table="batches", spare=1)
        add("one_batch_of_tables", style, table="one")
        add("f64", style, dtype=f64, heads=3, width=6)
        add("f16", style, dtype=f16)
        add("two_elements", style, width=2, heads=1, length=1)

    for name, layout, dims, a in (("packed", "packed", (2, 6, 16), {"end_x": 3, "end_y": 2, "theta": 100.0, "heads": 2}),
                                  ("repeated_bhsd", "bhsd", (1, 2, 8, 4), {"end_x": 2, "end_y": 2, "repeat_factor": 2, "heads": 2}),
                                  ("bshd_f64", "bshd", (2, 6, 1, 8), {"end_x": 2, "end_y": 3, "theta": 50.0, "heads": 1})):
        heads, width = a["heads"], dims[-1] // a["heads"] if layout == "packed" else dims[-1]
        length = dims[2] if layout == "bhsd" else dims[1]
        place = np.arange(length) // a.get("repeat_factor", 1)
        turns = a.get("theta", 10000.0) ** (-4 * np.arange(width // 4) / width)
        angle = np.concatenate([(place % a["end_x"])[:, None] * turns, (place // a["end_x"])[:, None] * turns], 1)
        run = turn("gptj", width, width, heads, layout)
        f.add_derivative(f"axial_rope2d_gradient_{name}", "axial_rope2d", [normal("axial" + name, dims, f64 if "f64" in name else f32)], by_jax,
                         lambda x: run(x, np.cos(angle), np.sin(angle)), "jax, f64", layout=layout, **a)


def cases():
    f, g = Family("attention_gradients"), Family("rope_gradients")
    attention(f)
    rope(g)
    return [f, g]
