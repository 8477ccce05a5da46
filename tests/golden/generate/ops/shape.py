"""Ops that move elements: every rank, negative and missing extents, scalars, empty dims."""
import numpy as np

from .case import *


def moving(f):
    x = normal("broadcast", (2, 1, 3))
    f.add("broadcast_stretch", "broadcast_in_dim", [x], [np.broadcast_to(x, (2, 4, 3)).copy()], "numpy.broadcast_to", dims=[2, 4, 3], axes=[0, 1, 2])
    f.add("broadcast_new_dims", "broadcast_in_dim", [x], [np.broadcast_to(x[:, None], (5, 2, 2, 4, 3)).copy()], "numpy.broadcast_to",
          dims=[5, 2, 2, 4, 3], axes=[1, 3, 4])
    s = np.array(2.5, f64)
    f.add("broadcast_scalar", "broadcast_in_dim", [s], [np.full((2, 3), 2.5)], "numpy.full", dims=[2, 3], axes=[])
    e = np.zeros((0, 3), f32)
    f.add("broadcast_empty", "broadcast_in_dim", [e], [np.zeros((2, 0, 3), f32)], "numpy.zeros", dims=[2, 0, 3], axes=[1, 2])
    x = integers("reshape", (2, 3, 4), -9, 9)
    f.add("reshape_merge", "reshape", [x], [x.reshape(6, 4)], "numpy.reshape", dims=[6, 4])
    f.add("reshape_split", "reshape", [x], [x.reshape(2, 3, 2, 2, 1)], "numpy.reshape", dims=[2, 3, 2, 2, 1])
    f.add("reshape_scalar", "reshape", [np.array([[7]], i64)], [np.array(7, i64)], "numpy.reshape", dims=[])
    for dtype in (f32, i8, c64, boolean):
        x = integers("transpose", (2, 3, 4), 0, 2 if dtype == boolean else 99).astype(dtype)
        f.add(f"transpose_{NAMES[dtype][0]}", "transpose", [x], [x.transpose(2, 0, 1).copy()], "numpy.transpose", permutation=[2, 0, 1])
    x = normal("transpose5", (2, 3, 1, 4, 2))
    f.add("transpose_rank5", "transpose", [x], [x.transpose(3, 1, 4, 0, 2).copy()], "numpy.transpose", permutation=[3, 1, 4, 0, 2])
    x = normal("slice", (5, 7, 3))
    f.add("slice_steps", "slice", [x], [x[1:5:2, 0:7:3, 1:2].copy()], "numpy indexing", starts=[1, 0, 1], limits=[5, 7, 2], strides=[2, 3, 1])
    f.add("slice_empty", "slice", [x], [x[2:2].copy()], "numpy indexing", starts=[2, 0, 0], limits=[2, 7, 3])
    x, y, z = normal("cat0", (2, 3)), normal("cat1", (2, 1)), normal("cat2", (2, 4))
    f.add("concatenate_last", "concatenate", [x, y, z], [np.concatenate([x, y, z], 1)], "numpy.concatenate", axis=-1)
    f.add("concatenate_first", "concatenate", [x, e, x], [np.concatenate([x, e, x], 0)], "numpy.concatenate", axis=0)
    x = normal("reverse", (3, 4, 2))
    f.add("reverse", "reverse", [x], [np.flip(x, (0, 2)).copy()], "numpy.flip", axes=[0, 2])
    f.add("reverse_negative_axis", "reverse", [x], [np.flip(x, 1).copy()], "numpy.flip", axes=[-2])
    for dtype in (i32, f32, u8):
        f.add(f"iota_{NAMES[dtype][0]}", "iota", [], [np.broadcast_to(np.arange(3, dtype=dtype)[:, None], (2, 3, 4)).copy()], "numpy.arange",
              type=f"{NAMES[dtype][0]}[2, 3, 4]", axis=1)


def padded(x, value, low, high, interior):
    """StableHLO pad from its definition: result index = low + i (interior + 1); what falls outside is dropped."""
    dims = [l + h + n + max(n - 1, 0) * k for n, l, h, k in zip(x.shape, low, high, interior)]
    y = np.full(dims, value, x.dtype)
    for index in np.ndindex(*x.shape):
        to = tuple(l + i * (k + 1) for i, l, k in zip(index, low, interior))
        if all(0 <= t < n for t, n in zip(to, dims)):
            y[to] = x[index]
    return y


def padding(f):
    for name, dims, dtype, low, high, interior in (
            ("around", (2, 3), f32, [1, 0], [2, 3], [0, 0]), ("interior", (2, 3, 2), f64, [0, 1, 0], [1, 0, 2], [1, 2, 0]),
            ("cutting", (5, 6), i32, [-1, -2], [-2, 1], [0, 0]), ("cutting_between", (4, 3), f32, [-1, 0], [0, -1], [1, 1])):
        x = integers("pad" + name, dims, -99, 99).astype(dtype)
        value = np.array(5, dtype)
        f.add(f"pad_{name}", "pad", [x, value], [padded(x, value, low, high, interior)], "the definition of StableHLO's pad, in a Python loop",
              low=low, high=high, interior=interior if any(interior) else None)


def cases():
    f = Family("shape")
    moving(f)
    padding(f)
    return [f]
