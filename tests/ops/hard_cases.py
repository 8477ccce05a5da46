#!/usr/bin/env python3
"""Writes tests/ops/*_cases.inc: hard cases of the ops that move, index and slide, with values from other libraries.

Each row is a sentence, an op, its attributes, its inputs and the results that NumPy, JAX or PyTorch give. Run by hand when
a case is added, with numpy 2.4, jax 0.10 and torch 2.15; the tests only read what it wrote.
"""
import pathlib

import jax
import numpy as np
import torch
from jax import lax

jax.config.update("jax_enable_x64", True)
HERE = pathlib.Path(__file__).parent
NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
         "uint8": "u8", "uint64": "u64", "bool": "bool", "complex64": "c64", "complex128": "c128"}
FILL, CLIP = lax.GatherScatterMode.FILL_OR_DROP, lax.GatherScatterMode.CLIP
f16, f32, f64, i8, i32, i64, u8, u64, c64 = (np.dtype(t) for t in "float16 float32 float64 int8 int32 int64 uint8 uint64 complex64".split())


def number(v):
    if isinstance(v, (bool, np.bool_)):
        return "true" if v else "false"
    if isinstance(v, (complex, np.complexfloating)):
        return f"({number(v.real)}, {number(v.imag)})"
    if isinstance(v, (int, np.integer)):
        return str(int(v))
    v = float(v)
    return "nan" if np.isnan(v) else ("inf" if v > 0 else "-inf") if np.isinf(v) else str(int(v)) if v == int(v) and v else repr(v).replace("0.0", "0") if v == 0 else repr(v)


def text(x):
    x = np.asarray(x)
    return f"{NAMES[str(x.dtype)]}[{', '.join(map(str, x.shape))}] [{', '.join(number(v) for v in x.ravel())}]"


def attributes(**attrs):
    def value(v):
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(value(e) for e in v) + "]"
        return str(v).lower() if isinstance(v, bool) else str(v)
    return "{" + ", ".join(f"{k} = {value(v)}" for k, v in attrs.items()) + "}" if attrs else ""


class Table:
    def __init__(self, name):
        self.name, self.rows = name, []

    def add(self, title, op, inputs, results, **attrs):
        results = results if isinstance(results, list) else [results]
        quote = lambda s: '"' + s.replace('"', '\\"') + '"'
        inputs, results = (", ".join(quote(text(x)) for x in xs) for xs in (inputs, results))
        self.rows.append(f"{{{quote(title)},\n {quote(op)}, {quote(attributes(**attrs))},\n {{{inputs}}},\n {{{results}}}}},\n")

    def write(self):
        head = "// Written by hard_cases.py: do not edit. clang-format off\n"
        (HERE / f"{self.name}_cases.inc").write_text(head + "".join(self.rows) + "// clang-format on\n")


def arange(dims, dtype=f32, start=1):
    return np.arange(start, start + int(np.prod(dims))).reshape(dims).astype(dtype)


# ---- index: gather, scatter, dynamic slices, against JAX (StableHLO) and NumPy ----
def gather(t, title, x, at, sizes, offset, collapsed, start_map, x_batch=(), i_batch=(), mode="fill", vector_dim=None):
    numbers = lax.GatherDimensionNumbers(tuple(offset), tuple(collapsed), tuple(start_map), tuple(x_batch), tuple(i_batch))
    if vector_dim is None:
        vector_dim = at.ndim - 1
    jax_at = np.moveaxis(at, vector_dim, -1) if vector_dim < at.ndim else at[..., None]  # JAX has the vectors last
    y = np.asarray(lax.gather(x, jax_at, numbers, tuple(sizes), mode=FILL if mode == "fill" else CLIP))
    t.add(title, "gather", [x, at], y, offset_dims=offset, collapsed_slice_dims=collapsed, operand_batching_dims=x_batch,
          start_indices_batching_dims=i_batch, start_index_map=start_map, index_vector_dim=vector_dim, slice_sizes=sizes, out_of_range=mode)


def scatter(t, title, x, at, updates, kind, window, inserted, to, x_batch=(), i_batch=(), y=None, vector_dim=None):
    if vector_dim is None:
        vector_dim = at.ndim - 1
    if y is None:
        numbers = lax.ScatterDimensionNumbers(tuple(window), tuple(inserted), tuple(to), tuple(x_batch), tuple(i_batch))
        function = {"update": lax.scatter, "add": lax.scatter_add, "mul": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}[kind]
        y = np.asarray(function(x, at if vector_dim < at.ndim else at[..., None], updates, numbers, mode=FILL))
    t.add(title, "scatter", [x, at, updates], y, kind=kind, update_window_dims=window, inserted_window_dims=inserted, input_batching_dims=x_batch,
          scatter_indices_batching_dims=i_batch, scatter_dims_to_operand_dims=to, index_vector_dim=vector_dim)


def index():
    t = Table("index")
    x = arange((3, 2))
    at = np.array([[2], [-1], [3], [0]], i32)
    for dtype, what in ((f32, "NaN"), (i8, "the lowest number"), (u8, "the highest number"), (np.dtype(bool), "true"), (c64, "NaN without an imaginary part"), (i64, "the lowest number")):
        gather(t, f"reading {dtype} out of range fills with {what}; a negative index is out of range", x.astype(dtype) if dtype != bool else x % 2 == 0, at, [1, 2], [1], [0], [0])
    gather(t, "clip reads the nearest row instead", x, at, [1, 2], [1], [0], [0], mode="clip")
    wide = arange((4, 5))
    corners = np.array([[0, 0], [2, 3], [3, 3], [-1, 1]], i32)
    gather(t, "a slice that sticks out anywhere is filled as a whole", wide, corners, [2, 2], [1, 2], [], [0, 1])
    gather(t, "clip moves a slice that sticks out back inside", wide, corners, [2, 2], [1, 2], [], [0, 1], mode="clip")
    gather(t, "no indices gather nothing", x, np.zeros((0, 1), i32), [1, 2], [1], [0], [0])
    gather(t, "slices may be empty", x, np.array([[0], [2]], i64), [1, 0], [1], [0], [0])
    gather(t, "a scalar index gathers one row", x, np.array(1, i32), [1, 2], [0], [0], [0], vector_dim=0)
    gather(t, "each index is a vector of one if index_vector_dim is their rank", x, np.array([[1, 0], [2, 2]], i64), [1, 2], [2], [0], [0], vector_dim=2)
    gather(t, "the vectors may stand in the first dim of the indices", wide, np.array([[0, 3], [1, 4]], i32), [1, 1], [], [0, 1], [0, 1], vector_dim=0)
    gather(t, "result dims that run through slices may come first", wide, np.array([[0], [3]], i32), [4, 1], [0], [1], [1])
    gather(t, "entries of an index vector stand for dims in the order of start_index_map", wide, np.array([[4, 0], [0, 3]], i32), [1, 1], [], [0, 1], [1, 0])
    cube = arange((2, 3, 2), i32)
    gather(t, "batching dims run together", cube, np.array([[[2], [0]], [[1], [1]]], i32), [1, 1, 2], [2], [1], [1], (0,), (0,))
    gather(t, "batching dims of x and of the indices may stand in different places", cube, np.array([[[2], [0]], [[1], [1]], [[0], [5]]], i32), [1, 1, 2], [2], [1], [1], (0,), (1,))
    gather(t, "an index of u8 counts beyond 127", arange((200,), i32), np.array([[199], [200]], u8), [1], [], [0], [0])
    t.add("an index beyond 2^63 is out of range", "gather", [np.array([1, 2], i32), np.array([[2**64 - 1], [1]], u64)], np.array([-2**31, 2], i32),
          offset_dims=[], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1, slice_sizes=[1])
    t.add("clip takes an index beyond 2^63 for the last", "gather", [np.array([1, 2], i32), np.array([[2**64 - 1], [0]], u64)], np.array([2, 1], i32),
          offset_dims=[], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1, slice_sizes=[1], out_of_range="clip")
    t.add("an empty table fills", "gather", [np.zeros((0, 2), i32), np.array([0, 1], i32)], np.full((2, 2), -2**31, i32),
          offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1, slice_sizes=[1, 2])

    x = arange((5,))
    at = np.array([[1], [1], [5], [-1], [4], [1]], i32)
    u = np.array([10, 20, 30, 40, 50, 2], f32)
    for kind in ("add", "mul", "max", "min"):
        scatter(t, f"{kind} combines all updates of one place, and drops those out of range", x, at, u, kind, [], [0], [0])
    last = x.copy()
    last[[1, 4]] = [2, 50]  # as NumPy's x[at] = u
    scatter(t, "update keeps the last of several", x, at, u, "update", [], [0], [0], y=last)
    wide = arange((3, 4))
    for kind in ("update", "add"):
        scatter(t, f"{kind} drops a slice that sticks out as a whole", wide, np.array([[0, 0], [1, 3], [2, 1], [-1, 0]], i32), arange((4, 2, 2), f32, 10), kind, [1, 2], [], [0, 1])
    scatter(t, "no updates leave x as it is", wide, np.zeros((0, 1), i32), np.zeros((0, 4), f32), "add", [1], [0], [0])
    scatter(t, "updates of an empty x are dropped", np.zeros((0, 2), f32), np.array([[0]], i32), np.ones((1, 2), f32), "add", [1], [0], [0])
    scatter(t, "a scalar index writes one row", wide, np.array(2, i64), arange((4,)), "update", [0], [0], [0], vector_dim=0)
    scatter(t, "a number has one place, which no index names", np.array(3, f32), np.zeros((2, 0), i32), np.array([4, 5], f32), "add", [], [], [], y=np.array(12, f32))  # XLA 0.10 fails here
    scatter(t, "a slice may be shorter than x", wide, np.array([[1], [2]], i32), arange((2, 3), f32, 10), "add", [1], [0], [0])
    scatter(t, "batching dims run together in scatters too", arange((2, 3), i32), np.array([[[0], [2]], [[1], [1]]], i32), np.array([[10, 20], [30, 40]], i32), "add", [], [1], [1], (0,), (0,))
    scatter(t, "NaN wins where numbers are compared", np.array([1, np.nan, 3], f32), np.array([[0], [1], [2], [0]], i32), np.array([np.nan, 5, 2, 7], f32), "max", [], [0], [0])
    scatter(t, "i8 sums wrap", np.array([120, -120], i8), np.array([[0], [1], [0]], i32), np.array([10, -10, 1], i8), "add", [], [0], [0])
    scatter(t, "the max of bools is or", np.array([False, True, False]), np.array([[0], [1]], i32), np.array([True, False]), "max", [], [0], [0])
    scatter(t, "complex updates add", np.array([1 + 2j, 3], c64), np.array([[0], [0]], i32), np.array([1j, 2], c64), "add", [], [0], [0])
    big = np.array([2048, 1], f16)
    scatter(t, "f16 sums round once", big, np.array([[0], [0], [1]], i32), np.array([1, 1, 1], f16), "add", [], [0], [0], y=np.array([2050, 2], f16))

    x = arange((4, 3), i32)
    for start in ([1, 1], [-5, 9], [3, -1], [2, 1]):
        inside = np.clip(start, 0, [2, 1])
        y = np.asarray(lax.dynamic_slice(x, inside, (2, 2)))  # JAX counts negative starts from the end, StableHLO does not
        t.add(f"a slice at {start[0]}, {start[1]} is moved inside", "dynamic_slice", [x] + [np.array(s, i32) for s in start], y, sizes=[2, 2])
        t.add(f"the starts {start[0]}, {start[1]} may be a vector", "dynamic_slice", [x, np.array(start, i64)], y, sizes=[2, 2])
        u = arange((2, 2), i32, 100)
        t.add(f"an update at {start[0]}, {start[1]} is moved inside", "dynamic_update_slice", [x, u] + [np.array(s, i32) for s in start],
              np.asarray(lax.dynamic_update_slice(x, u, inside)))
    t.add("a slice may have no elements", "dynamic_slice", [x, np.array([9, 9], u8)], x[4:, :2], sizes=[0, 2])
    t.add("the slice of a number is the number", "dynamic_slice", [np.array(7, f32)], np.array(7, f32), sizes=[])
    t.add("an update of a number replaces it", "dynamic_update_slice", [np.array(7, f32), np.array(8, f32)], np.array(8, f32))
    t.add("an empty update changes nothing", "dynamic_update_slice", [x, np.zeros((0, 3), i32), np.array([2, 0], i32)], x)
    t.add("a start beyond 2^63 is moved back", "dynamic_slice", [np.array([1, 2, 3], i32), np.array([2**64 - 1], u64)], np.array([2, 3], i32), sizes=[2])
    t.write()


# ---- window: against JAX (StableHLO) ----
REDUCERS = {"sum": (lax.add, 0), "prod": (lax.mul, 1), "max": (lax.max, None), "min": (lax.min, None), "any": (lax.bitwise_or, False), "all": (lax.bitwise_and, True)}


def reduce_window(t, title, x, kind, window, strides=None, base=None, dilation=None, low=None, high=None):
    ones = [1] * x.ndim
    f, init = REDUCERS[kind]
    if init is None:
        limits = (-np.inf, np.inf) if x.dtype.kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        init = limits[kind == "min"]
    padding = list(zip(low or [0] * x.ndim, high or [0] * x.ndim))
    y = np.asarray(lax.reduce_window(x, x.dtype.type(init), f, tuple(window), tuple(strides or ones), padding, tuple(base or ones), tuple(dilation or ones)))
    given = dict(strides=strides, base_dilation=base, window_dilation=dilation, padding_low=low, padding_high=high)
    t.add(title, "reduce_window", [x], y, kind=kind, window_dims=window, **{k: v for k, v in given.items() if v})


def convolution(t, title, x, w, strides=None, low=None, high=None, lhs_dilation=None, rhs_dilation=None, groups=1, batch_groups=1, layouts=None, accumulate=None):
    k = x.ndim - 2
    numbers = lax.ConvDimensionNumbers(*(tuple(l) for l in layouts)) if layouts else lax.ConvDimensionNumbers(*[tuple(range(k + 2))] * 3)
    padding = list(zip(low or [0] * k, high or [0] * k))
    wide = (lambda v: v.astype(np.dtype(accumulate))) if accumulate else (lambda v: v)
    y = np.asarray(lax.conv_general_dilated(wide(x), wide(w), tuple(strides or [1] * k), padding, tuple(lhs_dilation or [1] * k), tuple(rhs_dilation or [1] * k),
                                            numbers, groups, batch_groups, precision=lax.Precision.HIGHEST))
    given = dict(strides=strides, padding_low=low, padding_high=high, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation)
    given = {k: v for k, v in given.items() if v}
    if groups > 1:
        given["feature_group_count"] = groups
    if batch_groups > 1:
        given["batch_group_count"] = batch_groups
    if layouts:
        given.update(lhs_layout=layouts[0], rhs_layout=layouts[1], out_layout=layouts[2])
    if accumulate:
        given["accumulate"] = NAMES[accumulate]
    t.add(title, "convolution", [x, w], y, **given)


def window():
    t = Table("window")
    x = np.array([[3, -1, 4, 1], [5, -9, 2, 6], [5, 3, -5, 8]], f32)
    reduce_window(t, "windows slide over every dim", x, "sum", [2, 3])
    reduce_window(t, "strides skip places, and what is left at the end is not read", x, "max", [1, 2], [2, 3])
    reduce_window(t, "padding is not the greatest of negative numbers", -np.abs(x), "max", [2, 2], None, None, None, [1, 1], [0, 1])
    reduce_window(t, "a window of nothing but padding gives what the reduction starts from", x[:1], "max", [1, 2], None, None, None, [0, 3], [0, 0])
    reduce_window(t, "the least of no i8 is 127", x[:1].astype(i8), "min", [1, 1], None, None, None, [0, 1], [0, 1])
    reduce_window(t, "negative padding cuts", x, "sum", [2, 2], None, None, None, [-1, 0], [0, -1])
    reduce_window(t, "a dilated window skips elements", x, "prod", [2, 2], None, None, [2, 3])
    reduce_window(t, "a dilated operand has gaps that count as nothing", x, "max", [1, 3], [1, 2], [1, 3])
    reduce_window(t, "both dilations with padding and strides", x, "sum", [2, 2], [2, 1], [2, 1], [1, 2], [1, 0], [1, 2])
    reduce_window(t, "no window fits", x, "sum", [4, 1])
    reduce_window(t, "an empty operand with padding", np.zeros((0, 2), f32), "sum", [1, 1], None, None, None, [2, 0], [0, 0])
    reduce_window(t, "a cumulative sum is a window over all that came before", arange((5,), i32), "sum", [5], None, None, None, [4], [0])
    reduce_window(t, "windows of bools", np.array([False, True, False, False]), "any", [2])
    reduce_window(t, "all of bools, with padding", np.array([False, True, True, True]), "all", [2], None, None, None, [1], [1])
    reduce_window(t, "i8 sums wrap", np.array([100, 100, -100], i8), "sum", [2])
    reduce_window(t, "complex windows add", np.array([1 + 1j, 2, 3j], c64), "sum", [2])
    reduce_window(t, "NaN wins", np.array([1, np.nan, 3, 4], f32), "max", [2])
    reduce_window(t, "a number is one window", np.array(5, f32), "sum", [])

    def select(title, x, source, window, strides, low, high):
        y = np.asarray(jax.vjp(lambda v: lax.reduce_window(v, -np.inf, lax.max, window, strides, list(zip(low, high))), x)[1](source)[0])
        t.add(title, "select_and_scatter", [x, source], y, select="ge", window_dims=window, strides=strides, padding_low=low, padding_high=high)
    tie = np.array([[2, 2, 1, 2]], f64)
    select("the first of equal maxima takes all", tie, np.array([[10, 20, 30]], f64), (1, 2), (1, 1), (0, 0), (0, 0))
    select("overlapping windows add", x.astype(f64), arange((2, 3), f64, 10), (2, 2), (1, 1), (0, 0), (0, 0))
    select("padding takes nothing", -np.abs(x).astype(f64), arange((2, 3), f64, 10), (2, 2), (2, 2), (1, 1), (0, 1))
    t.add("by gt the last of equal maxima takes all", "select_and_scatter", [tie, np.array([[10, 20, 30]], f64)], np.array([[0, 30, 0, 30]], f64), select="gt", window_dims=[1, 2])
    t.add("by le the least takes it", "select_and_scatter", [np.array([3, 1, 2], i32), np.array([10, 20], i32)], np.array([0, 30, 0], i32), select="le", window_dims=[2])
    t.add("a window of nothing but padding adds nothing", "select_and_scatter", [np.array([3], i32), np.array([10, 20], i32)], np.array([20], i32), select="ge", window_dims=[1],
          padding_low=[1])

    x, w = arange((1, 2, 4, 3)), arange((2, 2, 2, 2), f32, -3)
    convolution(t, "no padding, no stride", x, w)
    convolution(t, "strides and unequal padding", x, w, [2, 1], [1, 0], [0, 2])
    convolution(t, "negative padding cuts", x, w, None, [-1, 0], [0, -1])
    convolution(t, "both dilations", x, w, [2, 1], [1, 1], [1, 2], [2, 3], [3, 2])
    convolution(t, "feature groups", arange((1, 4, 3)), arange((6, 2, 2), f32, -5), groups=2)
    convolution(t, "a kernel for each feature", arange((2, 3, 4), i32), arange((6, 1, 2), i32, -5), groups=3)
    convolution(t, "batch groups", arange((4, 2, 3)), arange((6, 2, 2), f32, -5), batch_groups=2)
    convolution(t, "batch groups of one", arange((3, 1, 3), i32), arange((3, 1, 2), i32), batch_groups=3)
    nhwc, hwio = (0, 3, 1, 2), (3, 2, 0, 1)
    convolution(t, "channels last", arange((1, 3, 3, 2)), arange((2, 2, 2, 3), f32, -5), layouts=(nhwc, hwio, nhwc))
    convolution(t, "any layout", arange((3, 2, 1)), arange((2, 3, 2), f32, -5), layouts=((2, 1, 0), (1, 2, 0), (1, 2, 0)))
    convolution(t, "without spatial dims it is a product with the transposed kernel", arange((2, 3)), arange((4, 3), f32, -5))
    convolution(t, "three spatial dims", arange((1, 1, 2, 3, 2)), arange((1, 1, 2, 2, 2), f32, -5), [1, 2, 1], [0, 1, 0], [1, 0, 0])
    convolution(t, "no window fits", arange((1, 1, 2)), arange((1, 1, 3)))
    convolution(t, "an empty batch", np.zeros((0, 2, 3), f32), arange((1, 2, 2)))
    t.add("no input features sum to zero", "convolution", [np.zeros((1, 0, 3), f32), np.zeros((2, 0, 2), f32)], np.zeros((1, 2, 2), f32))
    convolution(t, "a window in padding alone", arange((1, 1, 2)), arange((1, 1, 2)), None, [3], [3])
    convolution(t, "i8 products in i32", np.array([[[100, 100, -100]]], i8), np.array([[[100, 100]]], i8), accumulate="int32")
    convolution(t, "i8 products wrap", np.array([[[100, 100, -100]]], i8), np.array([[[100, 1]]], i8))
    convolution(t, "complex products", np.array([[[1 + 1j, 2, 3j]]], c64), np.array([[[1j, 2]]], c64))
    t.add("f16 accumulates in f32", "convolution", [np.array([[[2048, 1, 1]]], f16), np.ones((1, 1, 3), f16)], np.array([[[2050]]], f16))
    t.write()


# ---- take: against NumPy, PyTorch and JAX ----
def take():
    t = Table("take")
    table = arange((3, 2))
    at = np.array([[2, 0], [-1, 3]], i32)
    t.add("take fills out of range, and does not count from the end", "take", [table, at], np.asarray(jax.numpy.take(table, np.where(at < 0, 99, at), 0, mode="fill")), axis=0)
    t.add("take clips if told", "take", [table, at], np.take(table, at, 0, mode="clip"), axis=0, out_of_range="clip")
    t.add("take along a negative axis", "take", [table, np.array([1, 1, 0], i64)], np.take(table, [1, 1, 0], -1), axis=-1)
    t.add("take in the middle puts the indices' dims there", "take", [arange((2, 3, 2), i32), np.array([[2, 0]], u8)], np.take(arange((2, 3, 2), i32), [[2, 0]], 1), axis=1)
    t.add("take at a scalar drops the axis", "take", [table, np.array(1, i32)], table[1], axis=0)
    t.add("take at no indices", "take", [table, np.zeros((2, 0), i32)], np.take(table, np.zeros((2, 0), int), 0), axis=0)
    t.add("take from an empty table fills", "take", [np.zeros((0, 2), f32), np.array([0], i32)], np.full((1, 2), np.nan, f32), axis=0)
    x = arange((3, 4), i32)
    at = np.array([[0, 3, 3], [1, 1, 0]], i64)
    t.add("take_along_axis with fewer rows of indices", "take_along_axis", [x, at], torch.gather(torch.from_numpy(x), 1, torch.from_numpy(at)).numpy(), axis=1)
    t.add("take_along_axis along a negative axis", "take_along_axis", [x, np.array([[2, 0, 1, 0]], i32)], np.take_along_axis(x, np.array([[2, 0, 1, 0]]), -2), axis=-2)
    t.add("take_along_axis fills out of range", "take_along_axis", [np.array([1, 2], f32), np.array([1, 2, -1], i32)], np.array([2, np.nan, np.nan], f32), axis=0)
    t.add("take_along_axis of no indices", "take_along_axis", [x, np.zeros((3, 0), i32)], np.zeros((3, 0), i32), axis=1)
    cube = arange((2, 3, 2), i32)
    t.add("gather_nd of empty vectors is x each time", "gather_nd", [table, np.zeros((2, 0), i32)], np.stack([table, table]))
    t.add("gather_nd with full vectors gives elements", "gather_nd", [cube, np.array([[1, 2, 0], [0, 0, 1]], i32)], cube[[1, 0], [2, 0], [0, 1]])
    t.add("gather_nd in batches", "gather_nd", [cube, np.array([[[2]], [[0]]], i64)], np.stack([cube[0][[2]], cube[1][[0]]]), batch_dims=1)
    t.add("gather_nd fills a row whose vector is out of range", "gather_nd", [table, np.array([[3], [1]], i32)], np.array([[np.nan, np.nan], [3, 4]], f32))
    u = arange((4, 2))
    rows = np.array([2, 0, 2, 7], i32)
    total = np.zeros((3, 2), f32)
    np.add.at(total, rows[:3], u[:3])
    t.add("scatter_add_rows adds up what meets and drops what is out of range", "scatter_add_rows", [u, rows], total, size=3, axis=0)
    total = np.zeros((2, 3), i32)
    np.add.at(total.T, [0, 0, 1, 2], arange((2, 4), i32).T)
    t.add("scatter_add_rows along the last axis", "scatter_add_rows", [arange((2, 4), i32), np.array([0, 0, 1, 2], i64)], total, size=3, axis=-1)
    t.add("scatter_add_rows of nothing gives zeros", "scatter_add_rows", [np.zeros((0, 2), f32), np.zeros((0,), i32)], np.zeros((3, 2), f32), size=3)
    x = arange((4,))
    for reduction, f in (("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        y = x.copy()
        f.at(y, [1, 1, 3], np.array([10, 20, -5], f32))
        t.add(f"scatter_nd by {reduction}, with a duplicate", "scatter_nd", [x, np.array([[1], [1], [3], [4]], i32), np.array([10, 20, -5, 9], f32)], y, reduction=reduction)
    y = x.copy()
    y[[1, 1, 3]] = [10, 20, -5]
    t.add("scatter_nd keeps the last of duplicates", "scatter_nd", [x, np.array([[1], [1], [3]], i32), np.array([10, 20, -5], f32)], y)
    wide = arange((3, 4), i32)
    y = wide.copy()
    y[[2, 0]] = arange((2, 4), i32, 50)
    t.add("scatter_nd writes rows", "scatter_nd", [wide, np.array([[2], [0]], i64), arange((2, 4), i32, 50)], y)
    for axis in (0, 1):
        at, u = np.array([[0, 2, 1], [1, 2, 1]], i64), arange((2, 3), i32, 10)
        for reduction, name in (("none", None), ("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin")):
            a, i, v = (torch.from_numpy(z) for z in (wide, at, u))
            if reduction == "none" and axis == 1:
                i = torch.tensor([[0, 2, 1], [1, 2, 3]])  # each place once
            if reduction == "none" and axis == 0:
                i = torch.tensor([[0, 2, 1], [1, 0, 2]])
            y = a.scatter(axis, i, v) if name is None else a.scatter_reduce(axis, i, v, name)
            t.add(f"scatter_elements along {axis} by {reduction}, with updates smaller than x", "scatter_elements", [wide, i.numpy(), u], y.numpy(), axis=axis, reduction=reduction)
    t.add("scatter_elements drops what is out of range", "scatter_elements", [x, np.array([4, -1, 0], i32), np.array([7, 8, 9], f32)], np.array([9, 2, 3, 4], f32), axis=-1)
    t.add("scatter_elements of equal dims uses no coordinates", "scatter_elements", [wide, np.array([[3, 3, 0, 1]] * 3, u8), arange((3, 4), i32, 10)],
          torch.from_numpy(wide).scatter_reduce(1, torch.tensor([[3, 3, 0, 1]] * 3), torch.from_numpy(arange((3, 4), i32, 10)), "sum").numpy(), axis=1, reduction="add")
    cache = np.zeros((2, 4, 1), f32)
    y = cache.copy()
    y[:, 2:3] = [[[5]], [[6]]]
    t.add("kv_append writes at its position", "kv_append", [cache, np.array([[[5]], [[6]]], f32), np.array(2, i32)], y, axis=1)
    y = np.zeros((4, 1), f32)
    y[2:] = [[5], [6]]
    t.add("kv_append moves an entry back that does not fit", "kv_append", [np.zeros((4, 1), f32), np.array([[5], [6]], f32), np.array(9, i64)], y, axis=0)
    t.write()


# ---- arrange: against NumPy ----
def arrange():
    t = Table("arrange")
    x = arange((3, 4), i32)
    t.add("narrow along a negative axis", "narrow", [x], x[:, 1:3].copy(), axis=-1, start=1, length=2)
    t.add("narrow to nothing", "narrow", [x], x[3:3].copy(), axis=0, start=3, length=0)
    t.add("a negative step runs backward", "strided_slice", [x], x[:, ::-2].copy(), axis=1, start=3, length=2, step=-2)
    t.add("backward to the first place", "strided_slice", [x], x[2::-1].copy(), axis=0, start=2, length=3, step=-1)
    t.add("a step beyond the end takes one place", "strided_slice", [x], x[1:2].copy(), axis=0, start=1, length=1, step=9)
    t.add("expand adds leading dims", "expand", [x[:, :1].copy()], np.broadcast_to(x[:, :1], (2, 3, 2)).copy(), dims=[2, 3, 2])
    t.add("expand a number", "expand", [np.array(True)], np.full((2, 1), True), dims=[2, 1])
    t.add("expand 1 to 0", "expand", [np.ones((1,), f32)], np.ones((0,), f32), dims=[0])
    t.add("stack numbers", "stack", [np.array(v, f64) for v in (1, 2, 3)], np.array([1, 2, 3], f64), axis=0)
    t.add("stack behind the last axis", "stack", [x, x + 100], np.stack([x, x + 100], -1), axis=-1)
    t.add("split with an empty part", "split", [x], [x[:, :1].copy(), x[:, 1:1].copy(), x[:, 1:].copy()], axis=-1, sizes=[1, 0, 3])
    t.add("tile in both dims", "tile", [x[:2, :2].copy()], np.tile(x[:2, :2], (2, 3)), reps=[2, 3])
    t.add("tile zero times", "tile", [x], np.tile(x, (0, 1)), reps=[0, 1])
    t.add("tile a number", "tile", [np.array(3, f32)], np.array(3, f32), reps=[])
    t.add("roll more than once around", "roll", [x], np.roll(x, (7, -9), (0, 1)), shifts=[7, -9], axes=[0, 1])
    t.add("roll one axis twice", "roll", [x], np.roll(x, (1, 2), (1, 1)), shifts=[1, 2], axes=[1, -1])
    t.add("roll nothing", "roll", [np.zeros((0, 2), f32)], np.zeros((0, 2), f32), shifts=[3], axes=[0])
    pads, low, high = [(2, 1), (0, 3)], [2, 0], [1, 3]
    for mode, name in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        t.add(f"pad_mode {mode}, as far as it goes", "pad_mode", [x], np.pad(x, pads, name), mode=mode, low=low, high=high)
    t.add("pad_mode constant cuts too", "pad_mode", [x], np.pad(x, [(0, 0), (2, 0)], constant_values=-7)[1:], mode="constant", low=[-1, 2], high=[0, 0], value=-7)
    t.add("the edge of one place is all there is", "pad_mode", [np.array([5], u8)], np.pad(np.array([5], u8), (2, 3), "edge"), mode="replicate", low=[2], high=[3])
    t.add("no padding of an empty dim", "pad_mode", [np.zeros((0,), f32)], np.zeros((0,), f32), mode="reflect", low=[0], high=[0])
    cube = arange((2, 3, 4), f32)
    cube[0, 2, 0] = np.nan
    for k in (0, 2, -1, 9, -9):
        t.add(f"the upper triangle from diagonal {k}", "trilu", [cube], np.triu(cube, k), upper=True, diagonal=k)
        t.add(f"the lower triangle to diagonal {k}", "trilu", [cube], np.tril(cube, k), upper=False, diagonal=k)
    t.add("triangles of no rows", "trilu", [np.zeros((0, 3), i8)], np.zeros((0, 3), i8))
    for k in (0, 2, -1):
        t.add(f"a matrix with its diagonal {k}", "diag", [np.array([1, 2, 3], i32)], np.diag(np.array([1, 2, 3], i32), k), offset=k)
        t.add(f"the diagonal {k} of matrices", "diagonal", [arange((2, 3, 4), i32)], np.diagonal(arange((2, 3, 4), i32), k, 1, 2).copy(), offset=k)
    t.add("a diagonal beyond the corner is empty", "diagonal", [arange((2, 2))], np.diagonal(arange((2, 2)), 5), offset=5)
    t.add("the diagonal of no rows", "diagonal", [np.zeros((0, 3), f32)], np.zeros((0,), f32))
    t.add("a diagonal of nothing", "diag", [np.zeros((0,), f32)], np.zeros((1, 1), f32), offset=1)
    for descending in (False, True):
        a = np.array([[3, np.nan, -1, 3, -np.inf, 0]], f32)
        order = np.argsort(a, 1, kind="stable") if not descending else np.array([[1, 0, 3, 5, 2, 4]])
        t.add(f"NaN is the largest when sorting {'down' if descending else 'up'}", "sort_values", [a], np.take_along_axis(a, order, 1), axis=-1, descending=descending)
        t.add(f"argsort keeps the order of equals {'down' if descending else 'up'}", "argsort", [a], order.astype(i32), axis=1, descending=descending)
    t.add("sorting bools along the first axis", "sort_values", [np.array([[True], [False]])], np.array([[False], [True]]), axis=0)
    t.add("argsort of nothing", "argsort", [np.zeros((2, 0), f32)], np.zeros((2, 0), i32))
    t.write()


# ---- conv and image: against PyTorch in f64 ----
def conv():
    t = Table("conv")
    F = torch.nn.functional
    T = lambda v: torch.from_numpy(np.ascontiguousarray(v))

    def one(title, op, x, w, f, stride, padding, dilation, groups, **more):
        extra = {"output_padding": more["output_padding"]} if more else {}
        y = f(T(x), T(w), None, stride=stride, padding=padding, dilation=dilation, groups=groups, **more).numpy()
        t.add(title, op, [x, w], y, stride=stride, padding=padding, **extra, dilation=dilation, groups=groups)
    one("conv in one dim", "conv", arange((2, 2, 5), f64), arange((3, 2, 3), f64, -8), F.conv1d, [2], [2], [2], 1)
    one("conv in groups", "conv", arange((1, 4, 3, 3), f64), arange((2, 2, 2, 2), f64, -8), F.conv2d, [1, 2], [0, 1], [1, 1], 2)
    one("conv in three dims", "conv", arange((1, 1, 2, 3, 3), f64), arange((1, 1, 2, 1, 2), f64, -2), F.conv3d, [1, 1, 2], [1, 0, 1], [1, 1, 2], 1)
    for groups in (1, 2):
        one(f"conv_transpose in {groups} groups", "conv_transpose", arange((1, 2, 2, 3), f64), arange((2, 2, 2, 3), f64, -9), F.conv_transpose2d, [2, 1], [1, 0], [1, 2], groups,
            output_padding=[1, 0])
    one("conv_transpose with padding beyond the kernel cuts", "conv_transpose", arange((1, 1, 4), f64), arange((1, 1, 2), f64), F.conv_transpose1d, [1], [2], [1], 1, output_padding=[0])
    one("conv_transpose in three dims", "conv_transpose", arange((1, 1, 2, 1, 2), f64), arange((1, 2, 2, 2, 1), f64), F.conv_transpose3d, [1, 2, 3], [0, 1, 0], [1, 1, 1], 1,
        output_padding=[0, 1, 2])
    x = np.array([[[[3, -1, 4, 1], [5, -9, 2, 6], [5, 3, -5, 8]]]], f64)
    for count in (True, False):
        t.add(f"a mean that divides by {'the whole kernel' if count else 'what lies within x'}", "pool", [x], F.avg_pool2d(T(x), [2, 2], [2, 1], [1, 1], count_include_pad=count).numpy(),
              kind="mean", kernel_size=[2, 2], stride=[2, 1], padding=[1, 1], count_include_pad=count)
    t.add("a max pool never takes the padding", "pool", [-np.abs(x)], F.max_pool2d(T(-np.abs(x)), [2, 2], [2, 1], [1, 1]).numpy(), kind="max", kernel_size=[2, 2], stride=[2, 1], padding=[1, 1])
    t.add("a dilated max pool", "pool", [x], F.max_pool2d(T(x), [2, 2], [1, 1], 0, [2, 3]).numpy(), kind="max", kernel_size=[2, 2], stride=[1, 1], dilation=[2, 3])
    t.add("a stride left out is the kernel's extent", "pool", [x], F.max_pool2d(T(x), [1, 2]).numpy(), kind="max", kernel_size=[1, 2])
    t.add("NaN passes a max pool", "pool", [np.array([[[1, np.nan, 2, 3]]], f64)], np.array([[[np.nan, 3]]], f64), kind="max", kernel_size=[2])
    t.add("padding after may differ from padding before", "pool", [np.array([[1, 2, 3]], i32)], np.array([[3, 5, 3]], i32), kind="sum", kernel_size=[2], stride=[1], padding=[0], padding_high=[1])
    t.add("products and least elements", "pool", [np.array([[2, 3, 4]], i32)], np.array([[6, 12]], i32), kind="prod", kernel_size=[2], stride=[1])
    t.add("one window over all", "pool", [x], x.mean((2, 3), keepdims=True), kind="mean", kernel_size=[3, 4])
    t.add("some dims whole, others in windows", "pool", [x], F.avg_pool2d(T(x), [3, 2]).numpy(), kind="mean", kernel_size=[3, 2])
    half = np.full((1, 1, 70), 1000, f16)
    t.add("a mean of f16 does not overflow on its way", "pool", [half], np.full((1, 1, 1), 1000, f16), kind="mean", kernel_size=[70])
    t.write()

    t = Table("image")
    x = arange((1, 2, 2, 3), f32)
    t.add("twice in each dim", "resize_nearest2x", [x], x.repeat(2, 2).repeat(2, 3))
    for size in ([4, 6], [3, 5], [1, 2], [2, 3], [5, 1]):
        y = F.interpolate(T(x), size=size, mode="nearest").numpy()
        t.add(f"nearest to {size[0]} by {size[1]}", "interpolate", [x], y, size=size)
    t.add("one dim", "interpolate", [arange((1, 1, 5), i32)], arange((1, 1, 5), i32)[..., [i * 5 // 7 for i in range(7)]], size=[7])
    t.add("nothing to nothing", "interpolate", [np.zeros((1, 0), f32)], np.zeros((1, 0), f32), size=[0])
    t.add("to nothing", "interpolate", [x], x[..., :0].copy(), size=[0])

    def columns(title, x, kernel, stride, padding, dilation):
        y = F.unfold(T(x), kernel, dilation, padding, stride).numpy().transpose(0, 2, 1)
        t.add(title, "im2col", [x], y.reshape(-1, y.shape[2]).copy(), kernel_size=kernel, stride=stride, padding=padding, dilation=dilation)
    columns("windows with padding", x, [2, 2], [1, 2], [1, 1], [1, 1])
    columns("dilated windows of two images", arange((2, 1, 3, 3)), [2, 2], [1, 1], [0, 0], [2, 1])
    t.add("windows of one dim", "im2col", [arange((1, 2, 4), i32)], np.array([[1, 2, 5, 6], [3, 4, 7, 8]], i32), kernel_size=[2], stride=[2])
    t.write()


for family in (index, window, take, arrange, conv):
    family()
