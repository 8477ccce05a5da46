"""Reading, writing and rearranging as models write it, against NumPy, PyTorch and ONNX's reference evaluator."""
import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from .case import *


def onnx(op, inputs, **attributes):
    """One ONNX node (opset 18) through the reference evaluator of the onnx package."""
    names = [f"i{n}" for n in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    types = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in zip(names, inputs)]
    graph = helper.make_graph([node], "g", types, [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return ReferenceEvaluator(model).run(None, dict(zip(names, inputs)))[0]


def gathers(f):
    x = normal("table", (5, 4, 3))
    ids = np.array([[0, 4, 2], [2, 2, 1]], i32)
    for axis in (0, 1, 2, -2):
        chosen = ids % x.shape[axis]
        f.add(f"take_axis{axis}".replace("-", "m"), "take", [x, chosen], [np.take(x, chosen, axis)], "numpy.take", axis=axis)
    f.add("take_scalar", "take", [x, np.array(3, i64)], [x[3]], "numpy.take", axis=0)
    f.add("take_empty", "take", [x, np.zeros((0,), i32)], [x[:0]], "numpy.take", axis=0)
    wild = np.array([4, 5, -1, 0, 2 ** 40], i64)  # only 4 and 0 are in range
    f.add("take_fill", "take", [x, wild], [np.where(((wild >= 0) & (wild < 5))[:, None, None], x[np.clip(wild, 0, 4)], np.nan).astype(f32)],
          "numpy.take, NaN where out of range", axis=0, out_of_range="fill")
    f.add("take_clip", "take", [x, wild], [np.take(x, wild, 0, mode="clip")], "numpy.take, mode clip", axis=0, out_of_range="clip")
    table = normal("embedding", (11, 6))
    words = integers("words", (2, 5), 0, 11, i64)
    f.add("take_embedding", "take", [table, words], [table[words]], "numpy indexing", axis=0)
    for axis, dims in ((0, (2, 4, 3)), (1, (5, 6, 3)), (-1, (5, 4, 2))):
        chosen = integers(f"along{axis}", dims, 0, x.shape[axis], i64)
        f.add(f"take_along_axis{axis}".replace("-", "m"), "take_along_axis", [x, chosen], [np.take_along_axis(x, chosen, axis)], "numpy.take_along_axis", axis=axis)
    for name, indices, batch in (("rows", np.array([[0], [4], [0]]), 0), ("points", np.array([[0, 1, 2], [4, 3, 0]]), 0),
                                 ("pairs", np.array([[[0, 1], [4, 3]], [[2, 2], [1, 0]]]), 0), ("batch", integers("nd", (5, 2, 1), 0, 4, i64), 1),
                                 ("batch2", integers("nd2", (5, 4, 1), 0, 3, i64), 2)):
        f.add(f"gather_nd_{name}", "gather_nd", [x, indices], [onnx("GatherND", [x, indices], batch_dims=batch)], "ONNX GatherND, reference evaluator",
              batch_dims=batch)


def scatters(f):
    x = integers("scatter", (5, 4), -9, 9).astype(f32)
    indices = np.array([[0], [3], [0]])  # twice the same: reductions accumulate
    updates = integers("updates", (3, 4), -9, 9).astype(f32)
    points, values = np.array([[0, 1], [4, 3], [0, 1]]), np.array([7, -8, 9], f32)
    for reduction in ("none", "add", "mul", "max", "min"):
        if reduction != "none":  # overwriting the same place twice has no defined winner
            f.add(f"scatter_nd_{reduction}", "scatter_nd", [x, indices, updates], [onnx("ScatterND", [x, indices, updates], reduction=reduction)],
                  "ONNX ScatterND, reference evaluator", reduction=reduction)
            f.add(f"scatter_nd_points_{reduction}", "scatter_nd", [x, points, values], [onnx("ScatterND", [x, points, values], reduction=reduction)],
                  "ONNX ScatterND, reference evaluator", reduction=reduction)
    f.add("scatter_nd_none", "scatter_nd", [x, indices[:2], updates[:2]], [onnx("ScatterND", [x, indices[:2], updates[:2]])],
          "ONNX ScatterND, reference evaluator")
    for axis in (0, 1, -1):
        for reduction in ("none", "add", "mul", "max", "min"):
            n = x.shape[axis]
            where = integers(f"se{axis}{reduction}", (3, 3), 0, n, i64)
            if reduction == "none":  # no place twice: overwriting has no defined winner
                where = np.stack([np.roll(np.arange(n), k)[:3] for k in range(3)], axis=1 - axis % 2)
            values = integers(f"sev{axis}", (3, 3), -9, 9).astype(f32)
            f.add(f"scatter_elements_axis{axis}_{reduction}".replace("-", "m"), "scatter_elements", [x, where, values],
                  [onnx("ScatterElements", [x, where, values], axis=axis, reduction=reduction)], "ONNX ScatterElements, reference evaluator",
                  axis=axis, reduction=reduction)


    rows, places = normal("rows", (3, 6)), np.array([4, 1, 4], i32)
    y = np.zeros((5, 6))
    np.add.at(y, places, rows.astype(f64))
    f.add("scatter_add_rows", "scatter_add_rows", [rows, places], [y.astype(f32)], "numpy.add.at", size=5)
    y = np.zeros((3, 2, 6))
    np.add.at(y, (slice(None), np.array([1, 0, 1])), normal("rows1", (3, 3, 6), f64))
    f.add("scatter_add_rows_axis1", "scatter_add_rows", [normal("rows1", (3, 3, 6), f64), np.array([1, 0, 1])], [y], "numpy.add.at", size=2, axis=1)
    cache, entry = normal("cache", (2, 6, 3)), normal("entry", (2, 2, 3))
    for position, at in ((0, 0), (3, 3), (5, 4)):  # from 5 it would not fit
        y = cache.copy()
        y[:, at : at + 2] = entry
        f.add(f"kv_append_{position}", "kv_append", [cache, entry, np.array(position, i32)], [y], "numpy assignment", axis=1)


def shapes(f):
    x = integers("roll", (4, 5, 3), -99, 99)
    f.add("roll_two_axes", "roll", [x], [np.roll(x, (1, -7), (0, 1))], "numpy.roll", shifts=[1, -7], axes=[0, 1])
    f.add("roll_negative_axis", "roll", [x], [np.roll(x, 2, -1)], "numpy.roll", shifts=[2], axes=[-1])
    x = normal("tile", (2, 3))
    f.add("tile", "tile", [x], [np.tile(x, (3, 2))], "numpy.tile", reps=[3, 2])
    f.add("tile_once", "tile", [x], [x], "numpy.tile", reps=[1, 1])
    for dims in ((4, 4), (2, 3, 5), (5, 2)):
        x = normal(f"tri{dims}", dims)
        for diagonal in (0, 1, -2):
            for upper, function in ((False, np.tril), (True, np.triu)):
                f.add(f"{function.__name__}_{'x'.join(map(str, dims))}_{diagonal}".replace("-", "m"), "trilu", [x], [function(x, diagonal)],
                      f"numpy.{function.__name__}", upper=upper, diagonal=diagonal)
    x = normal("diag", (2, 3))
    for offset in (0, 1, -2):
        y = np.stack([np.diag(row, offset) for row in x])
        f.add(f"diag_{offset}".replace("-", "m"), "diag", [x], [y], "numpy.diag of each row", offset=offset)
        m = normal(f"diagonal{offset}", (2, 4, 5))
        f.add(f"diagonal_{offset}".replace("-", "m"), "diagonal", [m], [np.diagonal(m, offset, -2, -1).copy()], "numpy.diagonal", offset=offset)
    x = normal("parts", (4, 7, 2))
    f.add("narrow", "narrow", [x], [x[:, 2:6].copy()], "numpy indexing", axis=1, start=2, length=4)
    f.add("strided_slice", "strided_slice", [x], [x[:, 1:6:2].copy()], "numpy indexing", axis=1, start=1, length=3, step=2)
    f.add("strided_slice_backward", "strided_slice", [x], [x[:, 6:0:-3].copy()], "numpy indexing", axis=-2, start=6, length=2, step=-3)
    f.add("expand", "expand", [x[:, :1].copy()], [np.broadcast_to(x[:, :1], (3, 4, 7, 2)).copy()], "numpy.broadcast_to", dims=[3, 4, 7, 2])
    y = normal("parts2", (4, 7, 2))
    for axis in (0, 2, -1):
        f.add(f"stack_{axis}".replace("-", "m"), "stack", [x, y], [np.stack([x, y], axis)], "numpy.stack", axis=axis)
    f.add("split", "split", [x], [p.copy() for p in np.split(x, [3, 4], 1)], "numpy.split", axis=1, sizes=[3, 1, 3])
    x = normal("padmode", (2, 3, 4, 5))
    for mode, numpy_mode in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        pads = [(0, 0), (1, 2), (0, 3), (2, 0)]
        more = {"constant_values": -1.5} if mode == "constant" else {}
        f.add(f"pad_mode_{mode}", "pad_mode", [x], [np.pad(x, pads, numpy_mode, **more)], f"numpy.pad, mode {numpy_mode}", low=[p[0] for p in pads],
              high=[p[1] for p in pads], mode=mode, value=-1.5 if mode == "constant" else None)


def cases():
    f, g = Family("take"), Family("arrange")
    gathers(f)
    scatters(f)
    shapes(g)
    return [f, g]
