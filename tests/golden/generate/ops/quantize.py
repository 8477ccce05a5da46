"""Quantized numbers: NumPy by the formulas (ONNX's evaluator must agree where it has the op), gguf for blocks, exact integer
arithmetic for products of codes. Sums are in f64, rounded once."""
import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from block_formats import FORMATS, decode, random_blocks

from .case import *
from .derivative import cotangents_of

RANGE = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15), "u2": (0, 3), "i16": (-32768, 32767), "u16": (0, 65535)}


def along(v, x, axis):
    v = np.asarray(v)
    return v if axis is None else v.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def quantized(x, scale, zero, axis, low, high):
    """In the dtype of x, as a backend computes it: f16 and bf16 in f32."""
    work = f64 if x.dtype == f64 else f32
    scaled = np.rint(x.astype(work) / along(scale.astype(work), x, axis))
    return np.clip(scaled + along(np.asarray(zero).astype(work), x, axis), low, high)


def by_onnx(x, scale, zero, axis, dtype):
    kinds = {f32: TensorProto.FLOAT, i8: TensorProto.INT8, u8: TensorProto.UINT8, i16: TensorProto.INT16, u16: TensorProto.UINT16}
    info = [helper.make_tensor_value_info(n, kinds[a.dtype], a.shape) for n, a in (("x", x), ("s", scale), ("z", zero))]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1 if axis is None else axis)
    out = helper.make_tensor_value_info("y", kinds[dtype], x.shape)
    model = helper.make_model(helper.make_graph([node], "g", info, [out]), opset_imports=[helper.make_opsetid("", 21)])
    return ReferenceEvaluator(model).run(None, {"x": x, "s": scale, "z": zero})[0]


def codes_of(values, name):
    return values.astype({"i8": i8, "u8": u8, "i16": i16, "u16": u16}[name]) if name in ("i8", "u8", "i16", "u16") else Packed.codes(name, values.astype(i32))


def quantizers(f):
    for name, dims, axis, code, dtype in (
            ("tensor_i8", (4, 9), None, "i8", f32), ("tensor_u8", (4, 9), None, "u8", f32), ("rows_i8", (4, 9), 0, "i8", f32),
            ("columns_u8", (4, 9), -1, "u8", f32), ("middle_i8", (2, 3, 5), 1, "i8", f32), ("i16", (3, 5), None, "i16", f32),
            ("u16", (3, 5), 0, "u16", f32), ("i4", (3, 5), None, "i4", f32), ("u4_rows", (3, 5), 0, "u4", f32), ("u2", (7,), None, "u2", f32),
            ("f64", (3, 5), 0, "i8", f64), ("f16", (3, 5), None, "i8", f16), ("bf16", (3, 5), 1, "u8", bf16), ("scalar", (), None, "i8", f32),
            ("empty", (0, 3), 1, "i8", f32)):
        low, high = RANGE[code]
        count = () if axis is None else (dims[axis],)
        x, scale = normal("q_x" + name, dims, dtype, 3), uniform("q_s" + name, count, 0.01, 0.1, dtype)
        zero = integers("q_z" + name, count, max(low, -100), min(high, 100), i32)
        symmetric, shifted = (quantized(x, scale, z, axis, low, high) for z in (0 * zero, zero))
        if dtype == f32 and code in ("i8", "u8", "i16", "u16") and dims and 0 not in dims:
            typed = zero.astype(codes_of(zero, code).dtype)
            assert (by_onnx(x, scale, typed, axis, typed.dtype) == codes_of(shifted, code)).all(), name
        attributes = dict(axis=axis, dtype=code if code != "i8" else None)
        f.add(f"quantize_{name}", "quantize", [x, scale], [codes_of(symmetric, code)], "numpy", **attributes)
        f.add(f"quantize_{name}_shifted", "quantize", [x, scale, zero], [codes_of(shifted, code)], "numpy, onnx QuantizeLinear", **attributes)
    ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 126.5, 127.5, 1e30, -1e30, np.inf, -np.inf], f32)
    f.add("quantize_ties", "quantize", [ties, f32.type(1)], [np.clip(np.rint(ties), -128, 127).astype(i8)], "numpy.rint")


def dequantizers(f):
    for name, dims, axis, code, dtype in (
            ("tensor_i8", (4, 9), None, "i8", f32), ("rows_u8", (4, 9), 0, "u8", f32), ("middle_i8", (2, 3, 5), -2, "i8", f32), ("i16", (3, 5), None, "i16", f32),
            ("i4", (3, 5), 1, "i4", f32), ("u4", (5, 3), 0, "u4", f32), ("u2", (7,), None, "u2", f32), ("f64", (3, 5), 0, "i8", f64),
            ("f16", (3, 5), 0, "u8", f16), ("bf16", (3, 5), None, "i8", bf16)):
        low, high = RANGE[code]
        count = () if axis is None else (dims[axis],)
        q, scale = integers("d_q" + name, dims, low, high + 1), uniform("d_s" + name, count, 0.01, 0.1, dtype)
        zero = integers("d_z" + name, count, max(low, -100), min(high, 100), i32)
        for suffix, z in (("", None), ("_shifted", zero)):
            shifted = q.astype(f64) - along(0 if z is None else z.astype(f64), q, axis)
            y = (shifted * along(scale.astype(f64), q, axis)).astype(dtype)
            case = f"dequantize_{name}{suffix}"
            ct = cotangents_of(case, [y])
            rest = tuple(d for d in range(q.ndim) if axis is None or d != axis % q.ndim)
            d_scale = (ct[0].astype(f64) * shifted).sum(axis=rest).astype(dtype)
            f.add(case, "dequantize", [codes_of(q, code), scale] + ([] if z is None else [z]), [y], "numpy in f64", ct,
                  [None, d_scale] + ([] if z is None else [None]), axis=axis)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def code_tensor(name, code, dims):
    """Codes as the op takes them, and their values."""
    if code in ("f8e4m3fn", "f8e5m2"):
        x = normal(name, dims, f32, 4).astype(f8e4m3fn if code == "f8e4m3fn" else f8e5m2)
        return x, x.astype(f64)
    if code == "f4e2m1fn":
        q = integers(name, dims, 0, 16)
        return Packed.codes(code, q), E2M1[q]
    low, high = RANGE.get(code) or (0, 2 ** int(code[1:]) - 1)
    q = integers(name, dims, low, high + 1)
    return codes_of(q, code) if code in RANGE else Packed.codes(code, q), q.astype(f64)


def scale_tensor(name, kind, dims):
    if kind == "e4m3":
        s = uniform(name, dims, 0.02, 2).astype(f8e4m3fn)
    elif kind == "e8m0":
        s = (2.0 ** integers(name, dims, -4, 3)).astype(f8e8m0fnu)
    else:
        s = uniform(name, dims, 0.01, 0.1, kind)
    return s, s.astype(f64)


# name: codes, dims [k, n] or any, axis, block size, scales, what else there is
BLOCKWISE = {
    "int8_block": ("i8", (64, 6), 0, 32, f32, ""), "int8_block_rest": ("i8", (50, 5), 0, 16, f32, ""), "int8_asym": ("i8", (64, 7), 0, 16, f32, "z"),
    "int4_block": ("u4", (64, 6), 0, 32, f32, ""), "int4_asym": ("u4", (32, 4), 0, 8, f32, "z"), "int4_signed": ("i4", (32, 6), 0, 8, f32, ""),
    "fp8_e4m3": ("f8e4m3fn", (20, 5), 0, 0, f32, ""), "fp8_e5m2": ("f8e5m2", (20, 5), 0, 0, f32, ""), "nvfp4": ("f4e2m1fn", (48, 6), 0, 16, "e4m3", "g"),
    "mlx_affine_2": ("u2", (3, 64), -1, 32, f32, "b"), "mlx_affine_3": ("u3", (3, 64), -1, 32, f32, "b"), "mlx_affine_4": ("u4", (5, 64), -1, 32, f32, "b"),
    "mlx_affine_6": ("u6", (3, 64), -1, 32, f32, "b"), "mlx_affine_8": ("u8", (3, 64), -1, 64, f32, "b"), "mxfp4": ("f4e2m1fn", (3, 64), -1, 32, "e8m0", ""),
    "mxfp8": ("f8e4m3fn", (3, 64), -1, 32, "e8m0", ""), "middle_axis": ("i8", (2, 10, 3), 1, 4, f32, "z"), "ones": ("i8", (4, 3), 0, 1, f32, ""),
    "f64_scales": ("i8", (8, 3), 0, 4, f64, "z"), "bf16_scales": ("u8", (8, 3), 0, 4, bf16, "")}


def blockwise_operands(name):
    """The codes, what stands beside them, and the weights in f64."""
    code, dims, axis, block, kind, more = BLOCKWISE[name]
    q, values = code_tensor(name + "q", code, dims)
    count = list(dims)
    count[axis] = -(-dims[axis] // block) if block else 1

    def stretched(v):
        return np.take(np.repeat(v, block or dims[axis], axis=axis), np.arange(dims[axis]), axis=axis)

    scale, s = scale_tensor(name + "s", kind, count)
    operands, flags = [scale], {}
    if "z" in more:
        zero = integers(name + "z", count, 0, 9, i8) if kind == f64 else uniform(name + "z", count, -5, 5, f32)
        operands.append(zero)
        values, flags["has_zero_point"] = values - stretched(zero.astype(f64)), True
    values = values * stretched(s)
    if "b" in more:
        operands.append(uniform(name + "b", count, -1, 1, kind))
        values, flags["has_bias"] = values + stretched(operands[-1].astype(f64)), True
    if "g" in more:
        operands.append(f32.type(0.37))
        values, flags["has_global"] = values * float(operands[-1]), True
    return q, operands, flags, values, (kind if isinstance(kind, np.dtype) else f32)


def blockwise(f):
    for name, (code, dims, axis, block, kind, more) in BLOCKWISE.items():
        q, operands, flags, values, dtype = blockwise_operands(name)
        f.add(f"dequantize_blockwise_{name}", "dequantize_blockwise", [q] + operands, [values.astype(dtype)], "numpy in f64",
              axis=axis if axis != -1 else None, block_size=block, **flags)
    q, operands, flags, values, _ = blockwise_operands("nvfp4")
    f.add("dequantize_blockwise_nvfp4_to_f16", "dequantize_blockwise", [q] + operands, [values.astype(f16)], "numpy in f64", axis=0, block_size=16,
          dtype=f16, **flags)


def product_case(f, case, op, x, others, w, source, **attributes):
    """y = x w, w[k, n] in f64; with x's cotangent where x is no f16."""
    y = (x.astype(f64) @ w).astype(x.dtype)
    ct = cotangents_of(case, [y])
    dx = (ct[0].astype(f64) @ w.T).astype(x.dtype)
    f.add(case, op, [x] + others, [y], source, ct, [dx], **attributes)


def code_products(f):
    for name, (code, dims, axis, block, kind, more) in BLOCKWISE.items():
        if len(dims) != 2:
            continue
        q, operands, flags, values, dtype = blockwise_operands(name)
        transposed = axis == -1
        w = values.T if transposed else values
        for rows in (1, 5):
            product_case(f, f"dequant_matmul_{name}_{rows}", "dequant_matmul", normal(f"dm{name}", (rows, w.shape[0]), dtype), [q] + operands, w,
                         "numpy in f64", transpose_rhs=transposed or None, block_size=block, has_scale=True, **flags)


def block_rows(name, dims, seed, scale=0.02):
    """Blocks as a tensor of these dims, and its values."""
    elements, size, _ = FORMATS[name]
    blocks = random_blocks(name, int(np.prod(dims)) // elements, seed, scale)
    return Packed(name, dims, blocks), decode(name, blocks).reshape(dims).astype(f64)


def block_products(f):
    for name, (elements, _, _) in FORMATS.items():
        k = max(elements, 96)  # an odd number of blocks
        w, values = block_rows(name, (5, k), "product")
        product_case(f, f"dequant_matmul_{name}", "dequant_matmul", normal("bm" + name, (3, k)), [w], values.T, "gguf, numpy in f64")
        product_case(f, f"linear_{name}", "linear", normal("bl" + name, (10, k)), [w], values.T, "gguf, numpy in f64")
    # Those with kernels of their own, and one without; scales with which the weights are about 0.1.
    for name, scale in (("q8_0", 0.002), ("q4_0", 0.02), ("q4_k", 2e-4), ("q6_k", 5e-5), ("iq2_s", 2e-3)):
        k = 160 if FORMATS[name][0] == 32 else 256
        w, values = block_rows(name, (40, k), "wide", scale)
        for rows in (1, 2, 4, 8, 9, 33):
            product_case(f, f"dequant_matmul_{name}_rows_{rows}", "dequant_matmul", normal(f"bw{name}", (rows, k)), [w], values.T, "gguf, numpy in f64")
        for dtype in (f16, bf16, f64):
            for rows in (2, 11):
                x = normal(f"bt{name}", (rows, k), dtype)
                f.add(f"linear_{name}_{NAMES[dtype][0]}_{rows}", "linear", [x, w], [(x.astype(f64) @ values.T).astype(dtype)], "gguf, numpy in f64, rounded once")
        x, bias, residual = normal("br", (2, 3, k)), normal("bb", (40,)), normal("bc", (2, 3, 40))
        y = x.astype(f64) @ values.T + bias.astype(f64)
        f.add(f"linear_{name}_bias", "linear", [x, w, bias], [y.astype(f32)], "gguf, numpy in f64")
        fused = np.maximum(y, 0) + residual.astype(f64)
        f.add(f"fused_matmul_{name}", "fused_matmul", [x, w, bias, residual], [fused.astype(f32)], "gguf, numpy in f64", transpose_rhs=True,
              has_bias=True, has_residual=True, activation="relu")
        x, residual = normal("bx", (20, k)), normal("by", (20, 40))
        fused = np.tanh(x.astype(f64) @ values.T) + residual.astype(f64)
        f.add(f"fused_matmul_{name}_many", "fused_matmul", [x, w, residual], [fused.astype(f32)], "gguf, numpy in f64", transpose_rhs=True,
              has_residual=True, activation="tanh")


def experts(f):
    for name in ("q4_k", "q8_0", "q6_k", "iq4_nl", "mxfp4", "nvfp4"):
        k = 256
        w, values = block_rows(name, (3, 5, k), "experts")
        index = np.array([2, 0, 2, 1, -1, 3], i32)
        for dtype in (f32, f16):
            x = normal("ex" + name, (6, k), dtype)
            y = np.full((6, 5), np.nan)
            for i, e in enumerate(index):
                if 0 <= e < 3:
                    y[i] = x[i].astype(f64) @ values[e].T
            f.add(f"dequant_grouped_matmul_{name}_{NAMES[dtype][0]}", "dequant_grouped_matmul", [x, w, index], [y.astype(dtype)], "gguf, numpy in f64")
        f.add(f"dequant_moe_weights_{name}", "dequant_moe_weights", [w], [values.transpose(0, 2, 1).astype(f32)], "gguf")
    f.add("dequant_moe_weights_bf16", "dequant_moe_weights", [w], [values.transpose(0, 2, 1).astype(bf16)], "gguf", dtype=bf16)


def moves(f):
    """Rows of blocks that are moved: as bytes."""
    for name in ("q4_k", "q8_0", "nvfp4"):
        elements, size, _ = FORMATS[name]
        w, _ = block_rows(name, (6, 2 * elements), "moves")
        rows = w.data.reshape(6, 2 * size)
        packed = lambda data, dims: Packed(name, (*dims, 2 * elements), data)
        at = np.array([[5, 0], [3, 3], [1, 6]], i32)
        taken = np.where((at < 6)[..., None], rows[np.minimum(at, 5)], 0)
        f.add(f"take_{name}", "take", [w, at], [packed(taken, (3, 2))], "numpy.take on bytes")
        f.add(f"take_{name}_clip", "take", [w, at], [packed(rows[np.minimum(at, 5)], (3, 2))], "numpy.take on bytes", out_of_range="clip")
        f.add(f"slice_{name}", "slice", [w], [packed(rows[1:6:2], (3,))], "numpy on bytes", starts=[1, 0], limits=[6, 2 * elements], strides=[2, 1])
        f.add(f"concatenate_{name}", "concatenate", [w, w], [packed(np.concatenate([rows, rows]), (12,))], "numpy on bytes", axis=0)
        f.add(f"reverse_{name}", "reverse", [w], [packed(rows[::-1], (6,))], "numpy on bytes", axes=[0])
        f.add(f"reshape_{name}", "reshape", [w], [packed(rows, (2, 3))], "numpy on bytes", dims=[2, 3, 2 * elements])
        stack = Packed(name, (2, 3, 2 * elements), rows)
        f.add(f"concatenate_{name}_middle", "concatenate", [stack, stack], [packed(np.concatenate([rows.reshape(2, 3, -1)] * 2, axis=1), (2, 6))],
              "numpy on bytes", axis=1)
        f.add(f"transpose_{name}", "transpose", [stack], [packed(rows.reshape(2, 3, -1).swapaxes(0, 1), (3, 2))], "numpy on bytes", permutation=[1, 0, 2])
        f.add(f"broadcast_{name}", "broadcast_in_dim", [w], [packed(np.broadcast_to(rows, (3, 6, 2 * size)), (3, 6))], "numpy on bytes",
              dims=[3, 6, 2 * elements], axes=[1, 2])


def requantized(acc, multiplier, zero, dtype):
    """acc: exact integers; they wrap to i32, and the product is one of f32."""
    wrapped = acc.astype(np.int64).astype(i32)
    low, high = RANGE[NAMES[dtype][0]]
    return np.clip(np.rint(wrapped.astype(f32) * np.asarray(multiplier, f32)) + f32.type(zero), low, high).astype(dtype)


def integer_products(f):
    for name, m, k, n, x_dtype, w_dtype, xz, wz, oz, multiplier in (
            ("plain", (3,), 4, 5, i8, i8, 0, 0, 0, 0.01), ("zero_points", (5,), 33, 70, i8, i8, -3, 5, 7, 0.0017), ("u8", (4,), 17, 9, u8, i8, 120, 0, 128, 0.003),
            ("u8_both", (2, 3), 20, 16, u8, u8, 128, 127, 3, 0.0021), ("row", (), 40, 33, i8, i8, 1, -1, 0, 0.0009), ("saturates", (6,), 64, 8, i8, i8, -128, -128, 0, 0.05),
            ("one", (1,), 300, 100, i8, i8, 9, 4, -5, 0.0003), ("half", (4,), 2, 3, i8, i8, 0, 0, 0, 0.5), ("no_depth", (2,), 0, 3, i8, i8, 0, 0, 1, 0.5),
            ("i8_u8", (9,), 31, 18, i8, u8, -7, 140, 11, 0.0015)):
        low, high = RANGE[NAMES[x_dtype][0]]
        x, bias = integers("qx" + name, (*m, k), low, high + 1, x_dtype), integers("qb" + name, (n,), -5000, 5000)
        w = integers("qw" + name, (k, n), *(RANGE[NAMES[w_dtype][0]]), w_dtype)
        acc = (x.astype(i64) - xz) @ (w.astype(i64) - wz) + bias
        f.add(f"qmatmul_{name}", "qmatmul", [x, w, bias], [requantized(acc, multiplier, oz, x_dtype)], "numpy in i64", x_zero_point=xz, w_zero_point=wz,
              out_zero_point=oz, multiplier=multiplier)
    for name, x_dims, w_dims, x_dtype, zeros, multiplier, attributes in (
            ("plain", (1, 2, 5, 6), (3, 2, 3, 3), i8, (0, 0, 0), 0.004, {}), ("padded", (2, 3, 6, 5), (4, 3, 3, 3), i8, (-5, 3, 9), 0.002, dict(padding=[1, 1])),
            ("strided", (1, 3, 9, 8), (4, 3, 3, 2), u8, (128, 0, 120), 0.003, dict(stride=[2, 3], padding=[1, 0])),
            ("dilated", (1, 2, 9, 9), (2, 2, 3, 3), i8, (4, -2, 0), 0.003, dict(dilation=[2, 3])),
            ("groups", (2, 6, 5, 5), (4, 3, 3, 3), i8, (1, 1, 1), 0.002, dict(groups=2, padding=[1, 1])),
            ("depthwise", (1, 4, 6, 6), (4, 1, 3, 3), u8, (100, 2, 128), 0.005, dict(groups=4, padding=[1, 1])),
            ("pointwise", (2, 8, 4, 4), (5, 8, 1, 1), i8, (0, 0, 0), 0.001, {})):
        low, high = RANGE[NAMES[x_dtype][0]]
        x, w = integers("cx" + name, x_dims, low, high + 1, x_dtype), integers("cw" + name, w_dims, -128, 128, i8)
        bias, (xz, wz, oz) = integers("cb" + name, (w_dims[0],), -3000, 3000), zeros
        acc = torch.nn.functional.conv2d(torch.from_numpy(x.astype(f64) - xz), torch.from_numpy(w.astype(f64) - wz), torch.from_numpy(bias.astype(f64)),
                                         **{k: v for k, v in attributes.items()}).numpy()
        assert (acc == np.rint(acc)).all()
        f.add(f"qconv2d_{name}", "qconv2d", [x, w, bias], [requantized(acc, multiplier, oz, x_dtype)], "torch conv2d in f64, which is exact here", **attributes,
              x_zero_point=xz, w_zero_point=wz, out_zero_point=oz, multiplier=multiplier)
    # A multiplier for each column or output feature.
    for name, m, k, n, x_dtype, xz, oz in (("columns", (5,), 33, 70, i8, -3, 7), ("columns_u8", (2, 3), 17, 9, u8, 120, 128), ("column", (4,), 8, 1, i8, 0, 0)):
        x = integers("mx" + name, (*m, k), *(RANGE[NAMES[x_dtype][0]]), x_dtype)
        w, bias = integers("mw" + name, (k, n), -127, 128, i8), integers("mb" + name, (n,), -5000, 5000)
        multipliers = uniform("mm" + name, (n,), 0.0002, 0.004)
        acc = (x.astype(i64) - xz) @ w.astype(i64) + bias
        f.add(f"qmatmul_{name}", "qmatmul", [x, w, bias, multipliers], [requantized(acc, multipliers, oz, x_dtype)], "numpy in i64", x_zero_point=xz, out_zero_point=oz)
    x, w, bias = integers("mcx", (2, 3, 6, 5), -128, 128, i8), integers("mcw", (4, 3, 3, 3), -127, 128, i8), integers("mcb", (4,), -3000, 3000)
    multipliers = uniform("mcm", (4,), 0.0005, 0.004)
    acc = torch.nn.functional.conv2d(torch.from_numpy(x.astype(f64) + 5), torch.from_numpy(w.astype(f64)), torch.from_numpy(bias.astype(f64)), padding=1).numpy()
    f.add("qconv2d_features", "qconv2d", [x, w, bias, multipliers], [requantized(acc, multipliers.reshape(4, 1, 1), 9, i8)], "torch conv2d in f64, which is exact here",
          padding=[1, 1], x_zero_point=-5, out_zero_point=9)


def dynamically_quantized(x, axes, most=127, outliers=0):
    """Codes as integers, and scales with dims of 1 along `axes`, in x's dtype: each operation rounds."""
    number = x.dtype.type
    largest = np.abs(x).max(axis=axes, keepdims=True, initial=0)
    step = largest / number(most)
    if outliers:
        rows = np.moveaxis(np.abs(x), axes, range(-len(axes), 0))
        rows = rows.reshape(*rows.shape[:x.ndim - len(axes)], -1)
        rows = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, outliers + 1)])
        usual = -np.sort(-rows, axis=-1)[..., outliers].reshape(largest.shape)
        step = np.maximum(usual / number(most), largest / number(16383))
    scale = np.where(np.isfinite(largest), np.maximum(step, number(2.0 ** -126)), number(np.nan))
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.rint(x * (x.dtype.type(1) / scale))).astype(i64), scale


def by_torch(x, axis, codes, scale):
    """PyTorch quantizes by the same scales: its codes are the same but where x / scale and x (1 / scale) round apart."""
    theirs = torch.quantize_per_channel(torch.from_numpy(x), torch.from_numpy(scale.ravel()).double(), torch.zeros(scale.size, dtype=torch.int64), axis, torch.qint8)
    assert np.abs(theirs.int_repr().numpy().astype(i64) - codes).max() <= 1 and (theirs.int_repr().numpy() != codes).mean() < 0.01


def hostile_rows(name, dims):
    """Rows of very different sizes, one of zeros, one of subnormal numbers, one with an infinity, one with a NaN."""
    sizes = np.array([1, 1e30, 0, 1e-40, 1e-44, 3e-20, 250, 3e38], f32)
    x = uniform(name, dims, -1, 1) * sizes[np.arange(np.prod(dims[:-1])) % 8].reshape(*dims[:-1], 1)
    x.reshape(-1, dims[-1])[5, 2], x.reshape(-1, dims[-1])[6, 0] = np.inf, np.nan
    return x


def dynamic_products(f):
    for name, dims, axes, dtype, most in (("rows", (5, 37), (1,), f32, 127), ("columns", (20, 6), (0,), f32, 127), ("tensor", (3, 4, 5), (0, 1, 2), f32, 127),
                                          ("kernels", (4, 3, 3, 2), (1, 2, 3), f32, 127), ("f64", (3, 9), (-1,), f64, 127), ("none", (7,), (), f32, 100), ("wide", (6, 50), (1,), f32, 1023)):
        x = normal("dy" + name, dims, dtype, 3)
        codes, scale = dynamically_quantized(x, axes, most)
        if len(dims) == 2 and dtype == f32 and most == 127:
            by_torch(x, 1 - axes[0], codes, scale)
        f.add(f"dynamic_quantize_{name}", "dynamic_quantize", [x], [codes.astype(i8 if most <= 127 else i16), scale.squeeze(axes)], "numpy, torch quantize_per_channel", axes=list(axes),
              largest=most)
    for name, dims, axes, dtype, most, outliers in (("rows", (9, 37), (1,), f32, 127, 3), ("image", (2, 3, 4, 5), (1, 2, 3), f32, 100, 2), ("f64", (4, 9), (-1,), f64, 127, 1),
                                                    ("few", (3, 2), (1,), f32, 127, 4), ("fewer_bits", (6, 50), (0,), f32, 7, 5)):
        x = normal("dyo" + name, dims, dtype, 3)
        x.ravel()[::7] *= 40
        x.ravel()[-1] *= 1e4
        codes, scale = dynamically_quantized(x, axes, most, outliers)
        f.add(f"dynamic_quantize_outliers_{name}", "dynamic_quantize", [x], [codes.astype(i16), scale.squeeze(axes)], "numpy", axes=list(axes), largest=most, outliers=outliers)
    x = hostile_rows("dyohostile", (16, 19))
    x[8:15, 3] *= 100
    codes, scale = dynamically_quantized(x, (1,), 127, 3)
    f.add("dynamic_quantize_outliers_hostile", "dynamic_quantize", [x], [codes.astype(i16), scale[:, 0]], "numpy", axes=[1], outliers=3)
    x = hostile_rows("dyhostile", (8, 19))
    codes, scale = dynamically_quantized(x, (1,))
    f.add("dynamic_quantize_hostile", "dynamic_quantize", [x], [codes.astype(i8), scale[:, 0]], "numpy", axes=[1])
    with_outliers = normal("dmo", (35, 70), f32)
    for i, row in enumerate(with_outliers):
        row[i % 5::23] *= 25
    hostile_outliers = hostile_rows("dmoh", (16, 50))
    hostile_outliers[8:15, [7, 41]] *= 200
    for name, x, n, transposed, bias, residual, activation, most, outliers in (
            ("plain", normal("dmp", (3, 40), f32), 20, False, False, False, None, 127, 0), ("linear", normal("dml", (2, 5, 33), f32), 18, True, True, False, None, 1023, 0),
            ("relu", normal("dmr", (9, 64), f32), 33, True, True, True, "relu", 1023, 0), ("row", normal("dmw", (48,), f32), 16, False, True, False, "relu6", 300, 0),
            ("hostile", hostile_rows("dmh", (8, 50)), 17, False, True, False, None, 1023, 0), ("no_depth", normal("dmn", (2, 0), f32), 5, True, True, False, None, 127, 0),
            ("outliers", with_outliers, 33, True, True, True, "relu", 127, 3), ("outliers_hostile", hostile_outliers, 17, False, True, False, None, 127, 2),
            ("outliers_few", normal("dmof", (3, 2), f32), 5, False, False, False, None, 100, 3)):
        w = integers("dw" + name, (n, x.shape[-1]) if transposed else (x.shape[-1], n), -127, 128, i8)
        w_scale, b, r = uniform("ds" + name, (n,), 1e-3, 0.05), normal("db" + name, (n,), f32), normal("dr" + name, (*x.shape[:-1], n), f32)
        codes, scale = dynamically_quantized(x, (-1,), most, outliers)
        with np.errstate(over="ignore"):
            y = (codes @ (w.T if transposed else w).astype(i64)).astype(i32).astype(f32) * w_scale * scale
        y = y + b if bias else y
        y = {"relu": lambda v: np.maximum(v, 0), "relu6": lambda v: np.clip(v, 0, 6), None: lambda v: v}[activation](y)
        y = y + r if residual else y
        f.add(f"dynamic_quantize_matmul_{name}", "dynamic_quantize_matmul", [x, w, w_scale] + [b] * bias + [r] * residual, [y], "numpy, sums in i64",
              transpose_rhs=transposed, has_bias=bias, has_residual=residual, activation=activation, x_largest=most,
              **({"x_outliers": outliers} if outliers else {}))


def by_onnx_runtime(x, w, sums, attributes):
    """ConvInteger of the codes, which are at most 127 in magnitude, shifted to u8."""
    spatial = x.ndim - 2
    low = attributes.get("padding") or [0] * spatial
    pads = [*low, *(attributes.get("padding_high") or low)]
    node = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=pads, strides=attributes.get("stride") or [1] * spatial,
                            dilations=attributes.get("dilation") or [1] * spatial, group=attributes.get("groups") or 1)
    info = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape), helper.make_tensor_value_info("w", TensorProto.INT8, w.shape)]
    zero = helper.make_tensor("z", TensorProto.UINT8, (), [128])
    graph = helper.make_graph([node], "g", info, [helper.make_tensor_value_info("y", TensorProto.INT32, sums.shape)], [zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": (x + 128).astype(u8), "w": w})[0]
    assert (theirs == sums).all()


def convolved_codes(codes, w, attributes):
    """Sums of products of codes, exact in f64, by PyTorch."""
    spatial = codes.ndim - 2
    low = attributes.get("padding") or [0] * spatial
    high = attributes.get("padding_high") or low
    padded = torch.nn.functional.pad(torch.from_numpy(codes.astype(f64)), [p for d in reversed(range(spatial)) for p in (low[d], high[d])])
    conv = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}[spatial]
    return conv(padded, torch.from_numpy(w.astype(f64)), stride=attributes.get("stride") or 1, dilation=attributes.get("dilation") or 1,
                groups=attributes.get("groups") or 1).numpy().astype(i64)


def dynamic_convolutions(f):
    for name, dims, kernel, parts, most, attributes in (
            ("plain", (2, 5, 7, 6), (20, 5, 3, 3), "", 127, dict()),
            ("pointwise", (3, 34, 4, 5), (19, 34, 1, 1), "b", 1023, dict()),
            ("pointwise_odd", (2, 33, 5, 3), (16, 33, 1, 1), "br", 127, dict(activation="relu")),
            ("pointwise_strided", (2, 18, 6, 7), (17, 18, 1, 1), "b", 1023, dict(stride=[2, 3], activation="relu6")),
            ("padded", (2, 6, 9, 8), (21, 6, 3, 3), "br", 1023, dict(padding=[1, 1], activation="relu")),
            ("same_last", (2, 6, 9, 8), (21, 6, 3, 3), "br", 1023, dict(padding=[1, 1], activation="relu", channels_last=True)),
            ("stem", (1, 3, 19, 17), (24, 3, 7, 7), "b", 1023, dict(stride=[2, 2], padding=[3, 3], activation="relu", channels_last=True)),
            ("uneven", (2, 4, 6, 5), (18, 4, 2, 3), "b", 300, dict(stride=[1, 2], padding=[0, 2], padding_high=[1, 0], channels_last=True)),
            ("dilated", (1, 7, 11, 9), (16, 7, 3, 3), "", 127, dict(padding=[2, 3], dilation=[2, 3])),
            ("dilated_last", (1, 7, 11, 9), (16, 7, 3, 3), "r", 1023, dict(padding=[2, 3], dilation=[2, 3], channels_last=True)),
            ("grouped", (2, 12, 6, 6), (40, 3, 3, 3), "b", 127, dict(padding=[1, 1], groups=4)),
            ("grouped_last", (2, 12, 6, 6), (40, 3, 3, 3), "br", 1023, dict(padding=[1, 1], stride=[2, 1], groups=4, channels_last=True)),
            ("depthwise", (1, 6, 5, 5), (6, 1, 3, 3), "b", 127, dict(padding=[1, 1], groups=6, channels_last=True)),
            ("line", (3, 9, 21), (17, 9, 5), "b", 1023, dict(padding=[2], stride=[2])),
            ("line_last", (3, 9, 21), (17, 9, 5), "br", 127, dict(padding=[4], dilation=[2], channels_last=True)),
            ("volume", (2, 4, 5, 4, 6), (16, 4, 3, 2, 3), "b", 1023, dict(padding=[1, 0, 1], stride=[1, 2, 1], activation="relu")),
            ("volume_last", (1, 4, 5, 4, 6), (33, 4, 3, 2, 3), "br", 1023, dict(padding=[1, 1, 1], dilation=[2, 1, 1], channels_last=True)),
            ("all_padding", (1, 3, 2, 2), (16, 3, 1, 1), "b", 127, dict(padding=[3, 3], stride=[2, 2], channels_last=True)),
            ("hostile", (8, 5, 6, 4), (17, 5, 3, 3), "b", 1023, dict(padding=[1, 1])),
            ("hostile_last", (8, 5, 6, 4), (17, 5, 3, 3), "br", 127, dict(padding=[1, 1], activation="relu", channels_last=True)),
            ("hostile_pointwise", (8, 18, 6, 4), (17, 18, 1, 1), "b", 1023, dict(channels_last=True)),
            ("no_channels", (2, 0, 4, 3), (16, 0, 3, 3), "b", 127, dict(padding=[1, 1])),
            ("no_pixels", (2, 3, 0, 4), (16, 3, 3, 3), "b", 1023, dict(padding=[2, 1], channels_last=True)),
            ("no_images", (0, 3, 5, 4), (16, 3, 3, 3), "br", 127, dict(padding=[1, 1], channels_last=True))):
        x, w = normal("dcx" + name, dims, f32, 3), integers("dcw" + name, kernel, -127, 128, i8)
        if name.startswith("hostile"):  # images of very different sizes, one with an infinity, one with a NaN
            x = uniform("dcx" + name, dims, -1, 1) * np.array([1, 1e30, 0, 1e-40, 1e-44, 3e-20, 250, 3e38], f32).reshape(8, 1, 1, 1)
            x[5, 2, 1, 1], x[6, 0, 3, 2] = np.inf, np.nan
        w_scale, b = uniform("dcs" + name, kernel[:1], 1e-3, 0.05), normal("dcb" + name, kernel[:1], f32)
        image = tuple(range(1, len(dims)))
        codes, scale = dynamically_quantized(x, image, most)
        if 0 in dims:  # PyTorch refuses some of these: what each sum has terms of is nothing, or zeros of the padding
            extents = [dims[d] + sum((attributes.get(p) or attributes.get("padding") or [0] * 9)[d - 2] for p in ("padding", "padding_high")) - kernel[d] + 1 for d in range(2, len(dims))]
            sums = np.zeros((dims[0], kernel[0], *extents), i64)
        else:
            sums = convolved_codes(codes, w, attributes)
            if most == 127 and len(dims) < 5:
                by_onnx_runtime(codes, w, sums.astype(i32), attributes)
        channel = (1, -1) + (1,) * (len(dims) - 2)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # the lesser scale first
            scales = np.broadcast_to(w_scale.reshape(channel), (dims[0], kernel[0], *channel[2:])), np.broadcast_to(scale, (dims[0], kernel[0], *channel[2:]))
            y = sums.astype(i32).astype(f32) * np.minimum(*scales) * np.maximum(*scales)
        r = normal("dcr" + name, y.shape, f32)
        y = y + b.reshape(channel) if "b" in parts else y
        y = y + r if "r" in parts else y
        y = {"relu": lambda v: np.maximum(v, 0), "relu6": lambda v: np.clip(v, 0, 6), None: lambda v: v}[attributes.get("activation")](y)
        assert y.dtype == f32
        if attributes.get("channels_last"):
            x, r, y = (np.ascontiguousarray(np.moveaxis(v, 1, -1)) for v in (x, r, y))
        f.add(f"dynamic_quantize_conv_{name}", "dynamic_quantize_conv", [x, w, w_scale] + [b] * ("b" in parts) + [r] * ("r" in parts), [y],
              "numpy, sums by torch in f64, onnxruntime ConvInteger", **attributes, has_bias="b" in parts, has_residual="r" in parts, x_largest=most)


def cases():
    f, g, h, d = Family("quantize"), Family("packed_weights"), Family("integer_products"), Family("dynamic_products")
    dynamic_products(d)
    dynamic_convolutions(d)
    quantizers(f)
    dequantizers(f)
    blockwise(f)
    code_products(g)
    block_products(g)
    experts(g)
    moves(g)
    integer_products(h)
    return [f, g, h, d]
