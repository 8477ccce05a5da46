"""Reductions, running sums, order and places of extremes: every axis, ties, NaN, empty extents, wide sums of narrow types."""
import numpy as np
import scipy.special
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

    x = integers("argsort", (3, 8, 2), 0, 4).astype(f32)
    for descending in (False, True):
        order = first_descending(x, 1) if descending else np.argsort(x, 1, kind="stable")
        f.add(f"argsort{'_descending' if descending else ''}", "argsort", [x], [order.astype(i32)], "numpy.argsort, stable", axis=1,
              descending=descending or None)


def statistics(f):
    for dtype in (f64, f32, bf16):
        x = (normal("statistics", (3, 4, 5), f64) + 3).astype(dtype)
        t = NAMES[dtype][0]
        for axes in ((0, 2), (1,), (0, 1, 2)):
            name = f"{''.join(map(str, axes))}_{t}"
            f.add(f"mean_{name}", "mean", [x], in_f64(lambda v: v.mean(axes), x), "numpy.mean in f64", axes=axes)
            f.add(f"variance_{name}", "variance", [x], in_f64(lambda v: v.var(axes), x), "numpy.var in f64", axes=axes)
            f.add(f"moments_{name}", "moments", [x], in_f64(lambda v: (v.mean(axes, keepdims=True), v.var(axes, keepdims=True)), x),
                  "numpy.mean and numpy.var in f64", axes=axes, keep_dims=True)
            f.add(f"norm_l1_{name}", "norm", [x], in_f64(lambda v: np.abs(v).sum(axes), x), "numpy in f64", kind="l1", axes=axes)
            f.add(f"norm_l2_{name}", "norm", [x], in_f64(lambda v: np.sqrt((v * v).sum(axes, keepdims=True)), x), "numpy in f64", kind="l2", axes=axes,
                  keep_dims=True)
            f.add(f"logsumexp_{name}", "logsumexp", [x], in_f64(lambda v: scipy.special.logsumexp(v, axis=axes), x), "scipy.special.logsumexp in f64", axes=axes)
    x = normal("sample", (4, 6), f64)
    f.add("variance_sample", "variance", [x], [x.var(1, ddof=1, keepdims=True)], "numpy.var, ddof 1", axes=[1], keep_dims=True, correction=1)
    x = (normal("offset", (3, 200), f64) + 1000).astype(f32)
    f.add("variance_offset", "variance", [x], in_f64(lambda v: v.var(1), x), "numpy.var in f64: mean of squares minus square of mean would cancel", axes=[1])
    x = np.array([[1e4, 1e4], [-1e4, -2e4], [-np.inf, 0], [-np.inf, -np.inf], [np.inf, 1]], f32)
    f.add("logsumexp_extreme", "logsumexp", [x], in_f64(lambda v: scipy.special.logsumexp(v, axis=1, keepdims=True), x), "scipy.special.logsumexp in f64",
          axes=[1], keep_dims=True)


def running(f):
    x = uniform("running", (3, 4, 5), -2, 2, f64)
    for axis in (0, 1, -1):
        for op, function, start in (("cumsum", np.cumsum, 0), ("cumprod", np.cumprod, 1), ("cummax", np.maximum.accumulate, -np.inf)):
            source = "numpy.maximum.accumulate" if op == "cummax" else f"numpy.{op}"
            for exclusive in (False, True):
                for reverse in (False, True):
                    y = function(np.flip(x, axis) if reverse else x, axis=axis)
                    if exclusive:
                        y = np.roll(y, 1, axis)
                        y[tuple(0 if a == axis % 3 else slice(None) for a in range(3))] = start
                    y = np.flip(y, axis) if reverse else y
                    name = f"{op}_axis{axis % 3}{'_exclusive' if exclusive else ''}{'_reverse' if reverse else ''}"
                    f.add(name, op, [x], [y.copy()], source + (", shifted by one" if exclusive else "") + (", from the end" if reverse else ""), axis=axis,
                          exclusive=exclusive or None, reverse=reverse or None)
    n = integers("cumsum32", (4, 6), -9, 9)
    f.add("cumsum_i32", "cumsum", [n], [np.cumsum(n, 1).astype(i32)], "numpy.cumsum", axis=1)
    ones = np.ones(3000, bf16)  # a running sum in bf16 would stop at 256
    f.add("cumsum_bf16_of_ones", "cumsum", [ones], [np.arange(1, 3001).astype(f64).astype(bf16)], "numpy.arange, rounded once")
    m = np.array([1, np.nan, 3, -np.inf, 7], f32)
    f.add("cummax_nan", "cummax", [m], [np.maximum.accumulate(m)], "numpy.maximum.accumulate", axis=0)


def places(f):
    x = integers("argmax", (3, 6, 2), 0, 4).astype(f32)  # ties: the first wins
    for op, function in (("argmax", np.argmax), ("argmin", np.argmin)):
        for axis in (0, 1, -1):
            f.add(f"{op}_axis{axis % 3}", op, [x], [function(x, axis).astype(i32)], f"numpy.{op}", axis=axis)
        f.add(f"{op}_keep", op, [x], [function(x, 1, keepdims=True).astype(i32)], f"numpy.{op}", axis=1, keep_dims=True)
        n = np.array([[1, np.nan, 9, np.nan], [np.inf, np.inf, -np.inf, -np.inf]], f64)
        f.add(f"{op}_nan", op, [n], [function(n, 1).astype(i32)], f"numpy.{op}", axis=1)
        i = np.array([3, -7, -7, 100, 100], i64)
        f.add(f"{op}_i64", op, [i], [np.asarray(function(i)).astype(i32)], f"numpy.{op}", axis=0)
    index = np.array([[0, 3, -1], [4, 2, 1]], i32)
    hot = lambda depth: index[..., None] == np.arange(depth)
    f.add("one_hot", "one_hot", [index], [hot(4).astype(f32)], "== numpy.arange", depth=4)
    f.add("one_hot_axis1", "one_hot", [index], [np.where(np.moveaxis(hot(3), -1, 1), 5, -2).astype(i64)], "== numpy.arange", depth=3, axis=1, dtype=i64,
          on_value=5.0, off_value=-2.0)
    x = np.concatenate([normal("histogram", (50,)), [-2, 2, 2, -2.5, 3, 0]]).astype(f32)
    f.add("histogram", "histogram", [x], [torch.histc(torch.from_numpy(x), 8, -2, 2).numpy().astype(i32)], "torch.histc", bins=8, min=-2.0, max=2.0)


def cases():
    f, g = Family("reduce"), Family("statistics")
    reductions(f)
    ordering(f)
    statistics(g)
    running(g)
    places(g)
    return [f, g]
