"""Codes beside their scales: ml_dtypes reads and rounds, NumPy computes the scales by the formulas of OCP Microscaling 1.0
and of NVFP4, sums in f64, rounded once. A format without a dtype of its own comes from the tables of scaled_formats.py."""
from fractions import Fraction

from scaled_formats import NAMED, by_definition, by_ml_dtypes, nearest

from .case import *
from .derivative import cotangents_of
from .quantize import code_tensor, product_case, scale_tensor

CUSTOM = {"f8e3m4": (3, 4), "f5e2m2": (2, 2), "f7e5m1": (5, 1), "f8e1m6": (1, 6), "f6e5m0": (5, 0), "f8e4m3_bias7": (4, 3)}


class Format:
    def __init__(self, name):
        self.name, self.dtype = name, None
        if name in NAMED:
            self.dtype, e, m = NAMED[name]
            self.table = by_ml_dtypes(self.dtype, 1 + e + m)
        else:
            e, m = CUSTOM[name]
            self.table = by_definition(e, m, 2 ** (e - 1) - 1)
        self.sign_bit, self.mantissa_bits = 1 << (e + m), m
        self.ladder = sorted((Fraction(float(v)), c) for c, v in enumerate(self.table[:self.sign_bit]) if np.isfinite(v))
        self.largest = float(self.ladder[-1][0])

    def encoded(self, y):
        """Of an f32 or f64 array; NaN becomes 0, what is too large the largest."""
        finite = np.nan_to_num(np.clip(y, -self.largest, self.largest), nan=0.0)
        if self.dtype is not None and y.dtype == f32:
            codes = finite.astype(self.dtype).view(np.uint8)
            if not self.name.endswith("fnuz"):
                return codes
        return np.array([nearest(v, self.ladder, self.sign_bit, not self.name.endswith("fnuz"), self.mantissa_bits) for v in finite.ravel()], np.uint8).reshape(y.shape)

    def decoded(self, codes):
        return self.table[codes & (2 * self.sign_bit - 1)]


def blocks(x, size):
    """[..., ceil(k / size), size], zeros behind."""
    k = x.shape[-1]
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -k % size)]).reshape(*x.shape[:-1], -(-k // size), size)


def block_of(layout, block_size):
    return block_size or {"mx": 32, "nvfp4": 16}.get(layout, 0)


def scale_of(x, f, layout, block_size=0, rounding="floor"):
    work = f64 if x.dtype == f64 else f32
    size = block_of(layout, block_size)
    a = np.abs(x.astype(work))
    most = blocks(a, size).max(axis=-1) if size else a.max() if a.size else np.zeros((), work)
    if layout == "mx":
        if rounding == "floor":
            k = np.floor(np.log2(np.where(most > 0, most, 1).astype(f64))) - np.floor(np.log2(f.largest))
        else:
            k = np.ceil(np.log2(np.where(most > 0, most, f.largest).astype(f64) / f.largest))
        k = np.where(most > 0, np.clip(k, -127, 127), 0)
        return np.ldexp(1.0, k.astype(int)).astype(f8e8m0fnu)
    s = np.where(most == 0, work.type(1), most / work.type(f.largest))
    return np.minimum(np.maximum(s, work.type(2.0 ** -9)), work.type(448)).astype(f8e4m3fn) if layout == "nvfp4" else s.astype(work)


def stretched(scale, x, layout, block_size=0):
    size = block_of(layout, block_size)
    return np.repeat(scale, size, axis=-1)[..., :x.shape[-1]] if size else scale


def attributes_of(layout, block_size=0):
    return dict(layout=layout if layout != "per_tensor" else None, block_size=block_size or None)


LAYOUTS = (("per_tensor", 0), ("mx", 0), ("mx", 8), ("nvfp4", 0))


def roundings(f):
    for name in (*NAMED, *CUSTOM):
        form = Format(name)
        for layout, size in LAYOUTS:
            if layout == "nvfp4" and name != "f4e2m1fn" or size == 8 and name not in ("f6e3m2fn", "f8e3m4"):
                continue
            for dtype, dims in ((f32, (5, 70)), (bf16, (3, 33)), (f16, (2, 3, 40)), (f64, (4, 37))):
                if dtype != f32 and name not in ("f8e4m3fn", "f4e2m1fn", "f5e2m2"):
                    continue
                case = f"{name}_{layout}{size or ''}_{NAMES[dtype][0]}"
                x = (normal("sx" + case, dims, f64) * 10.0 ** integers("sy" + case, dims, -2, 2)).astype(dtype)
                x[0] = 0
                wide = x.astype(f64 if dtype == f64 else f32)
                rest = attributes_of(layout, size)
                s = scale_of(x, form, layout, size)
                f.add("scale_" + case, "scaled_quant_scale", [x], [s], "numpy, ml_dtypes", format=name, **rest)
                codes = form.encoded(wide / stretched(s.astype(wide.dtype), wide, layout, size))
                f.add("quantize_" + case, "scaled_quantize", [x, s], [codes], "ml_dtypes" if form.dtype else "rational arithmetic", format=name, **rest)
                y = form.decoded(codes) * stretched(s.astype(f64), wide, layout, size)
                f.add("dequantize_" + case, "scaled_dequantize", [codes, s], [y.astype(wide.dtype)], "ml_dtypes, numpy in f64", format=name, **rest,
                      dtype=wide.dtype if layout != "per_tensor" and dtype == f64 else None)
                f.add("round_" + case, "scaled_round", [x], [y.astype(dtype)], "the same", format=name, **rest)
        if name in ("f8e4m3fn", "f6e2m3fn", "f4e2m1fn", "f8e3m4"):
            x = normal("ceil" + name, (4, 64), f32, 3)
            f.add(f"scale_ceil_{name}", "scaled_quant_scale", [x], [scale_of(x, form, "mx", 0, "ceil")], "numpy, ml_dtypes", format=name, layout="mx", rounding="ceil")
    # Zeros, what is too small for a scale, what is too large, not finite
    x = np.array([[0] * 32, [1e-40] * 32, [3e38] * 32, [448] * 32, [449] * 32, [2.0 ** -126] * 32, [6] * 31 + [-7.999]], f32)
    f.add("scale_extremes", "scaled_quant_scale", [x], [scale_of(x, Format("f4e2m1fn"), "mx")], "numpy, ml_dtypes", format="f4e2m1fn", layout="mx")
    f.add("scale_extremes_nv", "scaled_quant_scale", [x], [scale_of(x, Format("f4e2m1fn"), "nvfp4")], "numpy, ml_dtypes", format="f4e2m1fn", layout="nvfp4")
    with_nan = normal("nan", (3, 64))
    with_nan[1, 40] = np.nan
    wanted = scale_of(np.nan_to_num(with_nan), Format("f8e4m3fn"), "mx")
    wanted[1, 1] = np.nan
    f.add("scale_nan", "scaled_quant_scale", [with_nan], [wanted], "numpy, ml_dtypes", layout="mx")
    infinite = normal("inf", (2, 32))
    infinite[0, 3] = -np.inf
    wanted = scale_of(np.nan_to_num(infinite), Format("f8e4m3fn"), "mx")
    wanted[0, 0] = 2.0 ** 119  # the largest f32 is just below 2^128; the format's largest power of two is 2^8
    f.add("scale_infinite", "scaled_quant_scale", [infinite], [wanted], "numpy, ml_dtypes", layout="mx")
    f.add("quantize_not_finite", "scaled_quantize", [np.array([np.nan, np.inf, -np.inf, 500, -500, 1e-9, -1e-9], f32), f32.type(1)],
          [np.array([0, 0x7E, 0xFE, 0x7E, 0xFE, 0, 0x80], u8)], "OCP 8-bit floating point 1.0, table 1")


def drawn(name, dims, form, layout, size):
    """Finite codes and scales."""
    codes = integers(name, dims, 0, 2 * form.sign_bit).astype(u8)
    codes[~np.isfinite(form.decoded(codes))] = 1
    if layout == "per_tensor":
        return codes, uniform(name + "s", (), 0.01, 0.1)
    size = block_of(layout, size)
    count = (*dims[:-1], -(-dims[-1] // size))
    if layout == "mx":
        return codes, (2.0 ** integers(name + "s", count, -4, 3)).astype(f8e8m0fnu)
    return codes, uniform(name + "s", count, 0.02, 2).astype(f8e4m3fn)


def products(f):
    kinds = (("f8e4m3fn", "f8e4m3fn", "per_tensor", 0), ("f8e4m3fn", "f8e5m2", "per_tensor", 0), ("f8e4m3fnuz", "f8e5m2fnuz", "per_tensor", 0),
             ("f8e4m3fn", "f8e4m3fn", "mx", 0), ("f6e3m2fn", "f6e2m3fn", "mx", 0), ("f4e2m1fn", "f4e2m1fn", "mx", 0), ("f8e4m3fn", "f4e2m1fn", "mx", 8),
             ("f4e2m1fn", "f4e2m1fn", "nvfp4", 0), ("f8e3m4", "f5e2m2", "per_tensor", 0), ("f7e5m1", "f8e1m6", "mx", 16))
    for left, right, layout, size in kinds:
        a, b = Format(left), Format(right)
        for case, lhs_dims, n, dtype, has_bias in (("plain", (4, 64), 5, f32, False), ("odd", (3, 37), 7, f32, True), ("row", (33,), 4, f32, False),
                                                   ("stack", (2, 2, 32), 3, bf16, True), ("f64", (3, 50), 2, f64, True)):
            if case in ("stack", "f64") and left not in ("f8e4m3fn", "f4e2m1fn"):
                continue
            name = f"scaled_matmul_{left}_{right}_{layout}{size or ''}_{case}"
            k = lhs_dims[-1]
            lhs, ls = drawn(name + "l", lhs_dims, a, layout, size)
            rhs, rs = drawn(name + "r", (n, k), b, layout, size)
            x = a.decoded(lhs) * stretched(ls.astype(f64), lhs, layout, size)
            w = b.decoded(rhs) * stretched(rs.astype(f64), rhs, layout, size)
            y, bias = x @ w.T, normal(name + "b", (n,), dtype)
            cts, gradients = (), ()
            if has_bias:
                y = y + bias.astype(f64)
            out = y.astype(dtype)
            if layout == "per_tensor" and dtype != bf16:
                cts = cotangents_of(name, [out])
                ct = cts[0].astype(f64)
                gradients = [None, None] + [np.asarray((ct * (x @ w.T)).sum() / s.astype(f64)).astype(s.dtype) for s in (ls, rs)]
                if has_bias:
                    gradients.append(ct.reshape(-1, n).sum(axis=0).astype(dtype))
            f.add(name, "scaled_matmul", [lhs, rhs, ls, rs] + ([bias] if has_bias else []), [out], "ml_dtypes, numpy in f64", cts, gradients,
                  lhs_format=left, rhs_format=right, **attributes_of(layout, size), has_bias=has_bias or None, dtype=dtype if dtype != f32 else None)
    for left, right, layout in (("f8e4m3fn", "f8e4m3fn", "per_tensor"), ("f8e4m3fn", "f4e2m1fn", "mx"), ("f4e2m1fn", "f4e2m1fn", "nvfp4"), ("f6e2m3fn", "f8e3m4", "mx")):
        a, b = Format(left), Format(right)
        for case, m, k, n, has_bias in (("plain", 6, 64, 5, False), ("bias", 5, 37, 3, True)):
            name = f"scaled_grouped_matmul_{left}_{right}_{layout}_{case}"
            lhs, ls = drawn(name + "l", (m, k), a, layout, 0)
            rhs, rs = drawn(name + "r", (3, n, k), b, layout, 0)
            x = a.decoded(lhs) * stretched(ls.astype(f64), lhs, layout)
            w = b.decoded(rhs) * stretched(rs.astype(f64), rhs, layout)
            index = np.array([2, 0, 1, -1, 3, 2], i32)[:m]
            bias, y = normal(name + "b", (3, n)), np.full((m, n), np.nan)
            for i, e in enumerate(index):
                if 0 <= e < 3:
                    y[i] = x[i] @ w[e].T + (bias[e] if has_bias else 0)
            f.add(name, "scaled_grouped_matmul", [lhs, rhs, ls, rs, index] + ([bias] if has_bias else []), [y.astype(f32)], "ml_dtypes, numpy in f64",
                  lhs_format=left, rhs_format=right, **attributes_of(layout), has_bias=has_bias or None)
    # Codes in the dtype of their format
    form = Format("f4e2m1fn")
    codes, scale = drawn("own", (3, 40), form, "nvfp4", 0)
    y = form.decoded(codes) * stretched(scale.astype(f64), codes, "nvfp4")
    f.add("dequantize_own_dtype", "scaled_dequantize", [Packed.codes("f4e2m1fn", codes), scale], [y.astype(f32)], "ml_dtypes", format="f4e2m1fn", layout="nvfp4")
    whole = normal("own8", (3, 5), f32, 30).astype(f8e4m3fn)
    f.add("dequantize_own_dtype_8", "scaled_dequantize", [whole, f32.type(0.5)], [(whole.astype(f64) * 0.5).astype(f32)], "ml_dtypes")


def packed(f):
    """MLX's experts, affine and MX, and residual MXFP4: codes of quantize.py along the last dim."""
    for name, code, bits_block, kind, more in (("affine_2", "u2", 32, f32, "b"), ("affine_3", "u3", 32, f32, "b"), ("affine_4", "u4", 32, f32, "b"),
                                               ("affine_6", "u6", 64, f32, "b"), ("affine_8", "u8", 64, f32, "b"), ("affine_4_bf16", "u4", 32, bf16, "b"),
                                               ("mxfp4", "f4e2m1fn", 32, "e8m0", ""), ("mxfp8", "f8e4m3fn", 32, "e8m0", ""),
                                               ("nvfp4", "f4e2m1fn", 16, "e4m3", "g"), ("int8_asym", "i8", 0, f32, "z")):
        dims = (3, 5, 64)
        q, values = code_tensor("pe" + name, code, dims)
        count = (3, 5, 64 // bits_block if bits_block else 1)
        scale, s = scale_tensor("pes" + name, kind, count)
        operands, flags, wide = [scale], {}, lambda v: np.repeat(v.astype(f64), bits_block or 64, axis=-1)
        if more == "z":
            operands.append(integers("pez", count, -5, 5, i8))
            values, flags = values - wide(operands[-1]), dict(has_zero_point=True)
        values = values * wide(s)
        if more == "b":
            operands.append(uniform("peb" + name, count, -1, 1, scale.dtype))
            values, flags = values + wide(operands[-1]), dict(has_bias=True)
        if more == "g":
            operands.append(f32.type(0.37))
            values, flags = values * float(operands[-1]), dict(has_global=True)
        index = np.array([2, 0, 2, 1, -1, 3], i32)
        x = normal("pex" + name, (6, 64), bf16 if kind == bf16 else f32)
        y = np.full((6, 5), np.nan)
        for i, e in enumerate(index):
            if 0 <= e < 3:
                y[i] = x[i].astype(f64) @ values[e].T
        f.add(f"dequant_grouped_matmul_{name}", "dequant_grouped_matmul", [x, q, index] + operands, [y.astype(x.dtype)], "numpy in f64",
              block_size=bits_block or None, has_scale=True, **flags)
    for name, code, size, kind, n, k in (("mxfp4", "f4e2m1fn", 32, "e8m0", 5, 96), ("mxfp4_odd", "f4e2m1fn", 32, "e8m0", 7, 45), ("int8", "i8", 16, f32, 4, 40)):
        q, values = code_tensor("pr" + name, code, (2, n, k))
        scale, s = scale_tensor("prs" + name, kind, (2, n, -(-k // size)))
        w = (values * np.repeat(s, size, axis=-1)[..., :k]).sum(axis=0)
        for rows in (1, 5):
            product_case(f, f"dequant_matmul_residual_{name}_{rows}", "dequant_matmul", normal(f"prx{name}", (rows, k)), [q, scale], w.T, "numpy in f64",
                         transpose_rhs=True, block_size=size, has_scale=True, planes=2)


def cases():
    f, g, h = Family("scaled"), Family("scaled_products"), Family("packed_experts")
    roundings(f)
    products(g)
    packed(h)
    return [f, g, h]
