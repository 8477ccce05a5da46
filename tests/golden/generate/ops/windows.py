"""Convolutions, transposed convolutions and pools in one to three dims, against PyTorch in f64."""
import jax
import numpy as np
import torch
import torch.nn.functional as F
from jax import lax

from .case import *

jax.config.update("jax_enable_x64", True)
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def general_convolutions(f):
    """The primitive, against JAX's: layouts, both dilations, uneven and negative padding, feature and batch groups."""
    nchw, nhwc = ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]), ([0, 3, 1, 2], [3, 2, 0, 1], [0, 3, 1, 2])
    one = ([0, 1, 2], [0, 1, 2], [0, 1, 2])
    for name, lhs, rhs, strides, low, high, lhs_dilation, rhs_dilation, groups, batches, layouts in (
            ("plain", (2, 3, 7, 8), (4, 3, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 1, 1, nchw),
            ("uneven", (1, 2, 6, 6), (3, 2, 3, 2), [2, 1], [0, 2], [1, 0], [1, 1], [1, 1], 1, 1, nchw),
            ("negative_padding", (1, 2, 8, 8), (2, 2, 3, 3), [1, 1], [-1, 0], [0, -2], [1, 1], [1, 1], 1, 1, nchw),
            ("lhs_dilation", (1, 2, 4, 5), (3, 2, 3, 3), [1, 1], [2, 1], [2, 3], [2, 3], [1, 1], 1, 1, nchw),
            ("everything", (2, 4, 7, 9), (6, 2, 3, 2), [2, 3], [3, 1], [2, 4], [2, 1], [1, 3], 2, 1, nchw),
            ("channels_last", (2, 5, 6, 3), (3, 3, 3, 4), [1, 2], [1, 1], [1, 1], [1, 1], [1, 1], 1, 1, nhwc),
            ("mixed_layouts", (2, 5, 6, 4), (3, 2, 2, 6), [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 2, 1, (nhwc[0], nhwc[1], [1, 0, 3, 2])),
            ("batch_groups", (4, 3, 6, 6), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1, 2, nchw),
            ("one_dim", (2, 3, 9), (4, 3, 4), [2], [1], [0], [1], [2], 1, 1, one)):
        numbers = lax.ConvDimensionNumbers(*map(tuple, layouts))
        for dtype in (f64, f32, bf16) if name == "plain" else (f32,):
            a, b = normal("gconv" + name, lhs, dtype), normal("gconvw" + name, rhs, dtype)
            y = in_f64(lambda a, b: np.asarray(lax.conv_general_dilated(a, b, strides, list(zip(low, high)), lhs_dilation, rhs_dilation, numbers, groups,
                                                                        batches, precision="highest")), a, b)
            rank = len(strides)
            drop = lambda values, neutral: None if all(v == neutral for v in values) else values
            plain = [list(l) == list(range(rank + 2)) for l in layouts]
            f.add(f"convolution_{name}_{NAMES[dtype][0]}", "convolution", [a, b], y, "jax.lax.conv_general_dilated in f64", strides=drop(strides, 1),
                  padding_low=drop(low, 0), padding_high=drop(high, 0), lhs_dilation=drop(lhs_dilation, 1), rhs_dilation=drop(rhs_dilation, 1),
                  feature_group_count=None if groups == 1 else groups, batch_group_count=None if batches == 1 else batches,
                  lhs_layout=None if plain[0] else layouts[0], rhs_layout=None if plain[1] else layouts[1], out_layout=None if plain[2] else layouts[2])


def windows(f):
    kinds = {"sum": (lax.add, 0.0), "prod": (lax.mul, 1.0), "max": (lax.max, -np.inf), "min": (lax.min, np.inf)}
    for name, dims, window, strides, base, dilation, low, high in (
            ("plain", (5, 6), [2, 3], [1, 1], [1, 1], [1, 1], [0, 0], [0, 0]), ("strided", (2, 7, 8), [1, 3, 2], [1, 2, 3], [1, 1, 1], [1, 1, 1], [0, 1, 0], [0, 0, 2]),
            ("dilated", (8, 9), [2, 3], [2, 1], [1, 1], [3, 2], [1, 0], [0, 2]), ("base_dilated", (4, 5), [3, 2], [1, 2], [2, 3], [1, 1], [1, 0], [1, 1]),
            ("negative_padding", (6, 6), [2, 2], [1, 1], [1, 1], [1, 1], [-1, 0], [0, -2])):
        for kind, (combine, start) in kinds.items():
            x = uniform("window" + name + kind, dims, -2, 2, f64)
            y = np.asarray(lax.reduce_window(x, start, combine, window, strides, list(zip(low, high)), base, dilation))
            f.add(f"reduce_window_{kind}_{name}", "reduce_window", [x], [y], "jax.lax.reduce_window", kind=kind, window_dims=window, strides=strides,
                  base_dilation=base, window_dilation=dilation, padding_low=low, padding_high=high)
    for name, dims, window, strides, low, high in (("apart", (4, 6), [2, 3], [2, 3], [0, 0], [0, 0]), ("overlapping", (1, 5, 7), [1, 3, 3], [1, 1, 2], [0, 1, 0], [0, 1, 1])):
        x = integers("select" + name, dims, 0, 5).astype(f64)  # ties: the first of a window gets it
        pooled, back = jax.vjp(lambda v: lax.reduce_window(v, -np.inf, lax.max, window, strides, list(zip(low, high))), x + 0.0)
        source = normal("select_source" + name, pooled.shape, f64)
        f.add(f"select_and_scatter_{name}", "select_and_scatter", [x, source], [np.asarray(back(source)[0])], "the gradient of a max pool in JAX",
              window_dims=window, strides=strides, padding_low=low, padding_high=high)


def convolutions(f):
    for name, x, w, stride, padding, dilation, groups in (
            ("1d", (2, 3, 11), (4, 3, 3), [1], [0], [1], 1), ("1d_all", (2, 4, 17), (6, 2, 4), [3], [2], [2], 2),
            ("2d", (2, 3, 7, 8), (4, 3, 3, 3), [1, 1], [0, 0], [1, 1], 1), ("2d_same", (1, 2, 5, 6), (3, 2, 3, 3), [1, 1], [1, 1], [1, 1], 1),
            ("2d_stride", (1, 3, 9, 11), (2, 3, 3, 2), [2, 3], [1, 0], [1, 1], 1), ("2d_dilated", (1, 2, 9, 9), (2, 2, 3, 3), [1, 1], [2, 1], [2, 3], 1),
            ("2d_groups", (2, 6, 5, 5), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], 2), ("2d_depthwise", (1, 5, 6, 6), (5, 1, 3, 3), [1, 1], [1, 1], [1, 1], 5),
            ("2d_depthwise_twice", (1, 3, 6, 6), (6, 1, 3, 3), [2, 2], [1, 1], [1, 1], 3), ("2d_pointwise", (2, 8, 4, 5), (6, 8, 1, 1), [1, 1], [0, 0], [1, 1], 1),
            ("2d_wide_padding", (1, 1, 3, 3), (1, 1, 2, 2), [1, 1], [3, 4], [1, 1], 1), ("3d", (1, 2, 4, 5, 6), (3, 2, 2, 3, 3), [1, 1, 1], [0, 1, 1], [1, 1, 1], 1),
            ("3d_all", (1, 4, 5, 6, 7), (4, 2, 2, 2, 3), [2, 1, 2], [1, 0, 2], [1, 2, 1], 2)):
        rank = len(x) - 2
        for dtype in (f64, f32, f16, bf16) if name == "2d" else (f32,):
            a, b = normal("conv" + name, x, dtype), normal("convw" + name, w, dtype)
            f.add(f"conv_{name}_{NAMES[dtype][0]}", "conv", [a, b],
                  in_f64(lambda a, b: CONV[rank](t(a), t(b), None, stride, padding, dilation, groups).numpy(), a, b), f"torch conv{rank}d in f64",
                  stride=stride, padding=padding, dilation=dilation, groups=groups)
    for name, x, w, stride, padding, output_padding, dilation, groups in (
            ("1d", (2, 3, 5), (3, 4, 4), [2], [1], [1], [1], 1), ("2d", (1, 3, 4, 5), (3, 2, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1], 1),
            ("2d_stride", (2, 4, 3, 4), (4, 3, 3, 2), [2, 3], [1, 0], [1, 2], [1, 1], 1), ("2d_all", (1, 4, 4, 4), (4, 2, 3, 3), [2, 2], [2, 1], [0, 1], [2, 1], 2),
            ("3d", (1, 2, 3, 3, 2), (2, 3, 2, 3, 2), [2, 1, 2], [0, 1, 0], [1, 0, 0], [1, 1, 1], 1)):
        rank = len(x) - 2
        a, b = normal("tconv" + name, x), normal("tconvw" + name, w)
        f.add(f"conv_transpose_{name}", "conv_transpose", [a, b],
              in_f64(lambda a, b: CONV_TRANSPOSE[rank](t(a), t(b), None, stride, padding, output_padding, groups, dilation).numpy(), a, b),
              f"torch conv_transpose{rank}d in f64", stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups)


def pools(f):
    for name, x, kernel, stride, padding in (
            ("1d", (2, 3, 9), [3], [2], [1]), ("2d", (2, 3, 6, 7), [2, 2], [2, 2], [0, 0]), ("2d_overlap", (1, 2, 7, 8), [3, 4], [1, 2], [1, 2]),
            ("3d", (1, 2, 4, 5, 6), [2, 3, 2], [2, 1, 2], [1, 1, 0]), ("2d_global", (2, 3, 4, 5), [4, 5], [1, 1], [0, 0])):
        rank = len(kernel)
        a = normal("pool" + name, x) - (3 if "overlap" in name else 0)  # all negative: a max that saw the padding's zeros would show
        for kind, function in (("max", lambda v: MAX_POOL[rank](t(v), kernel, stride, padding)), ("mean", lambda v: AVG_POOL[rank](t(v), kernel, stride, padding)),
                               ("sum", lambda v: AVG_POOL[rank](t(v), kernel, stride, padding) * float(np.prod(kernel)))):
            f.add(f"pool_{kind}_{name}", "pool", [a], in_f64(lambda v: function(v).numpy(), a), f"torch {'max' if kind == 'max' else 'avg'}_pool{rank}d in f64",
                  kind=kind, kernel_size=kernel, stride=stride, padding=padding)


def more_pools(f):
    x = normal("pools", (2, 3, 7, 6), f64) - 3
    least = lambda v: -F.max_pool2d(-t(v), [3, 2], [2, 1], [1, 1]).numpy()
    f.add("pool_min", "pool", [x], [least(x)], "-torch max_pool2d of -x", kind="min", kernel_size=[3, 2], stride=[2, 1], padding=[1, 1])
    product = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, ::2, ::3].prod((-2, -1))
    f.add("pool_prod", "pool", [x], [product], "numpy sliding_window_view", kind="prod", kernel_size=[2, 3])  # the stride is the kernel's extents
    f.add("pool_max_dilated", "pool", [x], [F.max_pool2d(t(x), [3, 2], [1, 2], [1, 0], dilation=[2, 3]).numpy()], "torch max_pool2d", kind="max",
          kernel_size=[3, 2], stride=[1, 2], padding=[1, 0], dilation=[2, 3])
    f.add("pool_mean_of_valid", "pool", [x], [F.avg_pool2d(t(x), [3, 3], [2, 2], [1, 1], count_include_pad=False).numpy()],
          "torch avg_pool2d, count_include_pad=False", kind="mean", kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], count_include_pad=False)
    right = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 2)], constant_values=-np.inf)
    f.add("pool_max_uneven", "pool", [x], [F.max_pool2d(t(right), [2, 2], [2, 2]).numpy()], "torch max_pool2d of numpy.pad", kind="max", kernel_size=[2, 2],
          stride=[2, 2], padding=[0, 0], padding_high=[1, 2])


def images(f):
    x = normal("resize", (2, 3, 4, 5))
    f.add("resize_nearest2x", "resize_nearest2x", [x], [F.interpolate(t(x), scale_factor=2, mode="nearest").numpy()], "torch interpolate, nearest")
    for name, dims, size in (("up", (2, 3, 4, 5), [9, 7]), ("down", (2, 3, 8, 9), [3, 4]), ("one_dim", (2, 3, 7), [11]), ("volume", (1, 2, 3, 4, 5), [5, 2, 7])):
        x = normal("interpolate" + name, dims)
        f.add(f"interpolate_{name}", "interpolate", [x], [F.interpolate(t(x), size=size, mode="nearest").numpy()], "torch interpolate, nearest", size=size)
    for name, dims, size, align in (("up", (2, 3, 4, 5), [9, 7], False), ("down", (2, 3, 8, 9), [3, 4], False), ("corners", (2, 3, 4, 5), [9, 7], True),
                                    ("to_one", (1, 2, 4, 5), [1, 3], True), ("one_dim", (2, 3, 7), [11], False), ("volume", (1, 2, 3, 4, 5), [5, 2, 7], True)):
        mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
        for dtype in (f32, f64):
            x = normal("resize_linear" + name, dims, dtype)
            f.add(f"resize_linear_{name}" + ("_f64" if dtype is f64 else ""), "resize_linear", [x], [F.interpolate(t(x), size=size, mode=mode, align_corners=align).numpy()],
                  f"torch interpolate, {mode}", size=size, grid="align_corners" if align else "half_pixel")
    large = np.array([[[3e38, -3e38, 3.2e38, -2.5e38, -3.4e38]]], f32)  # the differences overflow, their means do not
    f.add("resize_linear_large", "resize_linear", [large], [F.interpolate(t(large), size=[10], mode="linear").numpy()], "torch interpolate, linear", size=[10], grid="half_pixel")
    infinite = np.array([[[1, np.inf, np.inf, 2, -np.inf, -np.inf]]], f32)
    f.add("resize_linear_infinite", "resize_linear", [infinite], [F.interpolate(t(infinite), size=[5], mode="linear").numpy()], "torch interpolate, linear", size=[5], grid="half_pixel")
    x = normal("columns", (2, 3, 5, 6))
    columns = F.unfold(t(x), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)).numpy()
    f.add("im2col", "im2col", [x], [columns.transpose(0, 2, 1).reshape(-1, 18).copy()], "torch unfold", kernel_size=[2, 3], stride=[1, 2], padding=[1, 0],
          dilation=[2, 1])


def cases():
    f, g, h, i = Family("windows"), Family("conv"), Family("pool"), Family("image")
    general_convolutions(f)
    windows(f)
    convolutions(g)
    pools(h)
    more_pools(h)
    images(i)
    return [f, g, h, i]
