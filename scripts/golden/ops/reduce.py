"""Reductions, running sums, order and places of extremes: every axis, ties, NaN, empty extents, wide sums of narrow types."""
import numpy as np
import torch

from .case import *

KINDS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
AXES = {"last": (2,), "first": (0,), "middle": (1,), "outer": (0, 2), "all": (0, 1, 2), "none": ()}


def reductions(f):
    for kind, function in KINDS.items():
        for where, axes in AXES.items():
            x = normal(f"reduce_{kind}_{where}", (3, 4, 5), f64)
            f.add(f"reduce_{kind}_{where}", "reduce", [x], [function(x, axis=axes)], f"numpy.{function.__name__}", kind=kind, axes=list(axes))
        x = normal(f"reduce_{kind}_f32", (7, 33))
        f.add(f"reduce_{kind}_f32", "reduce", [x], in_f64(lambda v: function(v, axis=1), x), f"numpy.{function.__name__} in f64", kind=kind, axes=[1])
        n = integers(f"reduce_{kind}_i32", (3, 6), -9, 9)
        f.add(f"reduce_{kind}_i32", "reduce", [n], [function(n, axis=0).astype(i32)], f"numpy.{function.__name__}", kind=kind, axes=[0])
    for dtype in (f16, bf16):
        ones = np.ones((2, 5000), dtype)  # a running sum in the narrow type would stop growing
        f.add(f"reduce_sum_{NAMES[dtype][0]}_of_ones", "reduce", [ones], [np.full(2, 5000).astype(dtype)], "numpy, rounded once", kind="sum", axes=[1])
    b = integers("bools", (3, 5), 0, 2).astype(bool)
    b[0], b[1] = True, False
    f.add("reduce_all", "reduce", [b], [b.all(1)], "numpy.all", kind="all", axes=[1])
    f.add("reduce_any", "reduce", [b], [b.any(1)], "numpy.any", kind="any", axes=[1])
    x = np.array([[1, np.nan, 3], [np.inf, 2, -np.inf], [-0.0, 0.0, -1]], f32)
    for kind, function in KINDS.items():
        with np.errstate(all="ignore"):
            f.add(f"reduce_{kind}_special", "reduce", [x], [function(x, axis=1)], f"numpy.{function.__name__}", kind=kind, axes=[1])
    e = np.zeros((2, 0), f32)
    f.add("reduce_sum_empty", "reduce", [e], [np.zeros(2, f32)], "numpy.sum", kind="sum", axes=[1])
    f.add("reduce_prod_empty", "reduce", [e], [np.ones(2, f32)], "numpy.prod", kind="prod", axes=[1])
    f.add("reduce_max_empty", "reduce", [e], [np.full(2, -np.inf, f32)], "the neutral element", kind="max", axes=[1])
    z = (normal("sum_re", (3, 4)) + 1j * normal("sum_im", (3, 4))).astype(c64)
    f.add("reduce_sum_c64", "reduce", [z], in_f64(lambda v: v.sum(0), z), "numpy.sum in c128", kind="sum", axes=[0])


def first_descending(x, axis):
    """A stable descending order: numpy sorts ascending, so sort the reversed data and turn it round."""
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def ordering(f):
    x = integers("sort", (3, 7, 2), 0, 5).astype(f32)  # ties everywhere
    for axis in (0, 1, -1):
        f.add(f"sort_axis{axis % 3}", "sort", [x], [np.sort(x, axis)], "numpy.sort", axis=axis)
    f.add("sort_descending", "sort", [x], [np.flip(np.sort(x, 1), 1).copy()], "numpy.sort, flipped", axis=1, descending=True)
    keys, values = integers("keys", (4, 9), 0, 4), np.tile(np.arange(9, dtype=i64), (4, 1))
    for descending in (False, True):
        order = first_descending(keys, 1) if descending else np.argsort(keys, 1, kind="stable")
        f.add(f"sort_pairs{'_descending' if descending else ''}", "sort", [keys, values],
              [np.take_along_axis(keys, order, 1), np.take_along_axis(values, order, 1)], "numpy.argsort, stable", axis=-1,
              descending=True if descending else None)
    n = np.array([3, np.nan, -np.inf, np.inf, -1, 2, np.nan, -5], f64)
    f.add("sort_nan", "sort", [n], [np.sort(n)], "numpy.sort", axis=0)
    f.add("sort_i64", "sort", [integers("sort64", (11,), -9, 9, i64)], [np.sort(integers("sort64", (11,), -9, 9, i64))], "numpy.sort", axis=0)
    x = integers("top_k", (4, 10), 0, 6).astype(f32)
    order = first_descending(x, 1)[:, :4]
    f.add("top_k_ties", "top_k", [x], [np.take_along_axis(x, order, 1), order.astype(i32)], "numpy.argsort, stable and descending", k=4, axis=-1)
    x = normal("top_k0", (8, 3), f64)
    values, indices = torch.topk(torch.from_numpy(x), 5, 0)
    f.add("top_k_axis0", "top_k", [x], [values.numpy(), indices.numpy().astype(i32)], "torch.topk", k=5, axis=0)


def cases():
    f = Family("reduce")
    reductions(f)
    ordering(f)
    return [f]
