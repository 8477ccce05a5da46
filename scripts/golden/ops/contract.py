"""Products: dot_general over every choice of batch and contracted dims, and matmul's broadcasting."""
import jax
import numpy as np

from .case import *

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
                       ("wide", (2, 33), (33, 70)), ("tall", (67, 19), (19, 3))):
        x, y = normal("mm" + name, l), normal("mm2" + name, r)
        f.add(f"matmul_{name}", "matmul", [x, y], in_f64(np.matmul, x, y), "numpy.matmul in f64")
    for dtype in (f64, f16, bf16):
        x, y = normal("mmd", (2, 7, 31), dtype), normal("mmd2", (31, 9), dtype)
        f.add(f"matmul_{NAMES[dtype][0]}", "matmul", [x, y], in_f64(np.matmul, x, y), "numpy.matmul in f64, rounded once")


def cases():
    f = Family("contract")
    dots(f)
    g = Family("matmul")
    products(g)
    return [f, g]
