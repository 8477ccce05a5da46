"""Products: dot_general over every choice of batch and contracted dims, and matmul's broadcasting."""
import jax
import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from .derivative import *

jax.config.update("jax_enable_x64", True)


def general(lhs, rhs, batch, contract):
    return np.asarray(jax.lax.dot_general(lhs, rhs, ((contract[0], contract[1]), (batch[0], batch[1])), precision="highest"))


def dots(f):
    for name, l, r, batch, contract in (
            ("plain", (3, 4), (4, 5), ((), ()), ((1,), (0,))), ("transposed", (4, 3), (5, 4), ((), ()), ((0,), (1,))),
            ("batch", (2, 3, 4), (2, 4, 5), ((0,), (0,)), ((2,), (1,))), ("batch_behind", (3, 4, 2), (5, 2, 4), ((2,), (1,)), ((1,), (2,))),
            ("two_contracted", (2, 3, 4), (4, 5, 3), ((), ()), ((1, 2), (2, 0))), ("outer", (3,), (4,), ((), ()), ((), ())),
            ("inner", (7,), (7,), ((), ()), ((0,), (0,))), ("two_batches", (2, 3, 4, 5), (3, 6, 2, 5), ((0, 1), (2, 0)), ((3,), (3,))),
            ("empty_contraction", (2, 0), (0, 3), ((), ()), ((1,), (0,))), ("vector_matrix", (4,), (4, 3), ((), ()), ((0,), (0,)))):
        for dtype in (f64, f32):
            x, y = normal(name + "x", l, dtype), normal(name + "y", r, dtype)
            f.add(f"dot_{name}_{NAMES[dtype][0]}", "dot_general", [x, y], in_f64(lambda a, b: general(a, b, batch, contract), x, y),
                  "jax.lax.dot_general in f64", lhs_batch=batch[0], rhs_batch=batch[1], lhs_contract=contract[0], rhs_contract=contract[1])
    plain = dict(lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0])
    for dtype in (f16, bf16):
        x, y = normal("low_x", (5, 40), dtype), normal("low_y", (40, 6), dtype)
        f.add(f"dot_{NAMES[dtype][0]}", "dot_general", [x, y], in_f64(np.matmul, x, y), "numpy.matmul in f64, rounded once", **plain)
        f.add(f"dot_{NAMES[dtype][0]}_to_f32", "dot_general", [x, y], in_f64(np.matmul, x, y, dtype=f32), "numpy.matmul in f64, rounded once", **plain,
              accumulate=f32)
    x, y = integers("ix", (3, 20), -128, 128, i8), integers("iy", (20, 4), -128, 128, i8)
    f.add("dot_i8_to_i32", "dot_general", [x, y], [x.astype(i32) @ y.astype(i32)], "numpy.matmul", **plain, accumulate=i32)
    x, y = integers("jx", (3, 5), -99, 99), integers("jy", (5, 4), -99, 99)
    f.add("dot_i32", "dot_general", [x, y], [x @ y], "numpy.matmul", **plain)
    x, y = ((normal(a, d, f64) + 1j * normal(b, d, f64)).astype(c64) for a, b, d in (("a", "b", (3, 4)), ("c", "d", (4, 2))))
    f.add("dot_c64", "dot_general", [x, y], in_f64(np.matmul, x, y), "numpy.matmul in c128", **plain)


def products(f):
    for name, l, r in (("2d", (3, 4), (4, 5)), ("batched", (2, 3, 4), (2, 4, 5)), ("broadcast_right", (2, 6, 3, 4), (4, 5)),
                       ("broadcast_left", (3, 4), (2, 4, 5)), ("broadcast_both", (2, 1, 3, 4), (1, 3, 4, 2)), ("row", (1, 17), (17, 1)),
                       ("wide", (2, 33), (33, 70)), ("tall", (67, 19), (19, 3)), ("vector_matrix", (4,), (2, 4, 5)), ("matrix_vector", (2, 3, 4), (4,)),
                       ("vectors", (5,), (5,)), ("empty", (0, 4), (4, 3)), ("nothing_to_sum", (2, 0), (0, 3))):
        x, y = normal("mm" + name, l), normal("mm2" + name, r)
        f.add(f"matmul_{name}", "matmul", [x, y], in_f64(np.matmul, x, y), "numpy.matmul in f64")
    for dtype in (f64, f16, bf16):
        x, y = normal("mmd", (2, 7, 31), dtype), normal("mmd2", (31, 9), dtype)
        f.add(f"matmul_{NAMES[dtype][0]}", "matmul", [x, y], in_f64(np.matmul, x, y), "numpy.matmul in f64, rounded once")


    x, y = integers("mmi", (4, 6), -9, 9), integers("mmi2", (6, 5), -9, 9)
    f.add("matmul_i32", "matmul", [x, y], [x @ y], "numpy.matmul")


ACTIVATION = {"none": lambda x: x, "relu": lambda x: np.maximum(x, 0), "gelu": lambda x: F.gelu(torch.from_numpy(x)).numpy(),
              "gelu_tanh": lambda x: F.gelu(torch.from_numpy(x), approximate="tanh").numpy(), "silu": lambda x: x * scipy.special.expit(x),
              "sigmoid": scipy.special.expit, "tanh": np.tanh}


def layers(f):
    x, w, b, r = normal("layer_x", (2, 3, 8)), normal("layer_w", (5, 8)), normal("layer_b", (5,)), normal("layer_r", (2, 3, 5))
    f.add("linear", "linear", [x, w], in_f64(lambda x, w: x @ w.T, x, w), "numpy.matmul in f64")
    f.add("linear_bias", "linear", [x, w, b], in_f64(lambda x, w, b: x @ w.T + b, x, w, b), "numpy.matmul in f64")
    for activation, function in ACTIVATION.items():
        f.add(f"fused_matmul_{activation}", "fused_matmul", [x, w, b], in_f64(lambda x, w, b: function(x @ w.T + b), x, w, b), "numpy and torch in f64",
              transpose_rhs=True, has_bias=True, activation=activation)
    f.add("fused_matmul_residual", "fused_matmul", [x, w.T.copy(), r], in_f64(lambda x, w, r: x @ w + r, x, w.T, r), "numpy in f64", has_residual=True)
    f.add("fused_matmul_all", "fused_matmul", [x, w.T.copy(), b, r], in_f64(lambda x, w, b, r: ACTIVATION["gelu"](x @ w + b) + r, x, w.T, b, r),
          "numpy and torch in f64", has_bias=True, has_residual=True, activation="gelu")
    h = [t.astype(bf16) for t in (x, w, b)]
    f.add("fused_matmul_bf16", "fused_matmul", h, in_f64(lambda x, w, b: ACTIVATION["relu"](x @ w.T + b), *h), "numpy in f64, rounded once",
          transpose_rhs=True, has_bias=True, activation="relu")
    u, v = normal("lora_a", (8, 2)), normal("lora_b", (2, 5))
    f.add("lora_matmul", "lora_matmul", [x, w.T.copy(), u, v], in_f64(lambda x, w, u, v: x @ w + 0.5 * (x @ u) @ v, x, w.T, u, v), "numpy in f64", scale=0.5)
    x, w, expert = normal("experts_x", (6, 4)), normal("experts_w", (3, 4, 5)), np.array([2, 0, 2, 2, 1, 0], i32)
    f.add("grouped_matmul", "grouped_matmul", [x, w, expert], in_f64(lambda x, w, e: np.einsum("mk,mkn->mn", x, w[e]), x, w, expert), "numpy.einsum in f64")


def ragged(index, groups):
    """The rows in the order of their groups, those of none last, and how many each group has: how JAX has them."""
    index = np.asarray(index)
    within = (index >= 0) & (index < groups)
    order = np.argsort(np.where(within, index, groups), kind="stable")
    return order, np.bincount(index[within], minlength=groups).astype(i32)


def segment_sums(x, y, index, segments):
    """By jax.lax.ragged_dot_general, whose form with a ragged contracting dim JAX cannot differentiate."""
    order, sizes = ragged(index, segments)
    numbers = jax.lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    return jax.lax.ragged_dot_general(jnp.asarray(x)[order], jnp.asarray(y)[order], sizes, numbers)


def experts(f):
    """Products of a mixture of experts."""
    for name, rows, inputs, outputs, groups, dtype, index_dtype in (
            ("few", 6, 4, 5, 3, f64, i32), ("many", 150, 33, 20, 4, f32, i64), ("more_groups", 20, 7, 9, 32, f32, u8), ("f16", 40, 16, 8, 3, f16, i32),
            ("bf16", 40, 16, 8, 3, bf16, i32), ("one_row", 1, 24, 17, 5, f32, i32)):
        index = integers("grouped" + name, (rows,), 0, groups, index_dtype)
        x, w = normal("grouped_x" + name, (rows, inputs), dtype), normal("grouped_w" + name, (groups, inputs, outputs), dtype)

        def product(x, w, index):
            order, sizes = ragged(index, groups)
            return jax.lax.ragged_dot(x[order], w, sizes)[np.argsort(order)]

        f.add_derivative("grouped_matmul_" + name, "grouped_matmul", [x, w, index], by_jax, product, "jax.lax.ragged_dot and its vjp in f64")
        index = integers("segments" + name, (rows,), 0 if index_dtype == u8 else -1, groups + 1, index_dtype)
        y = normal("segments_y" + name, (rows, outputs), dtype)

        def sums(x, y, index):
            within = np.asarray((index >= 0) & (index < groups))
            return jax.ops.segment_sum((x[:, :, None] * y[:, None])[within], index[within], groups)

        f.add_derivative("segment_matmul_" + name, "segment_matmul", [x, y, index], by_jax, sums,
                         "jax.lax.ragged_dot_general, the vjp of jax.ops.segment_sum, in f64", segments=groups)
        exact = np.asarray(segment_sums(wide(x), wide(y), index, groups)).astype(dtype)
        f.tensors[f"segment_matmul_{name}/out0"] = exact


def cases():
    f, g = Family("contract"), Family("matmul")
    dots(f)
    products(g)
    layers(g)
    experts(g)
    return [f, g]
