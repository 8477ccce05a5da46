"""Derivatives of convolutions, pools, other windows and images, by JAX and PyTorch, and the backward kinds of the first
two, whose results are the same cotangents."""
import jax.numpy as jnp
import torch
import torch.nn.functional as F
from jax import lax

from .derivative import *

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def drop(values, neutral):
    return None if all(v == neutral for v in values) else list(values)


def general_convolutions(f):
    """The primitive: layouts, both dilations, uneven and negative padding, feature and batch groups."""
    nchw, nhwc = ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]), ([0, 3, 1, 2], [3, 2, 0, 1], [0, 3, 1, 2])
    one, three = ([0, 1, 2],) * 3, ([0, 1, 2, 3, 4],) * 3
    for name, lhs, rhs, strides, low, high, lhs_dilation, rhs_dilation, groups, batches, layouts in (
            ("plain", (2, 3, 7, 8), (4, 3, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 1, 1, nchw),
            ("uneven", (1, 2, 6, 6), (3, 2, 3, 2), [2, 1], [0, 2], [1, 0], [1, 1], [1, 1], 1, 1, nchw),
            ("negative_padding", (1, 2, 8, 8), (2, 2, 3, 3), [1, 2], [-1, 0], [0, -2], [1, 1], [1, 1], 1, 1, nchw),
            ("wide_padding", (1, 2, 3, 3), (2, 2, 2, 2), [1, 1], [4, 3], [2, 5], [1, 1], [1, 1], 1, 1, nchw),
            ("lhs_dilation", (1, 2, 4, 5), (3, 2, 3, 3), [1, 1], [2, 1], [2, 3], [2, 3], [1, 1], 1, 1, nchw),
            ("both_dilations", (1, 2, 5, 5), (3, 2, 3, 3), [1, 1], [4, 3], [3, 4], [3, 2], [2, 3], 1, 1, nchw),
            ("stride_of_dilated", (1, 2, 7, 6), (3, 2, 3, 2), [3, 2], [1, 2], [2, 1], [2, 4], [1, 1], 1, 1, nchw),
            ("everything", (2, 4, 7, 9), (6, 2, 3, 2), [2, 3], [3, 1], [2, 4], [2, 1], [1, 3], 2, 1, nchw),
            ("leftover", (1, 2, 8, 9), (2, 2, 3, 2), [3, 4], [0, 0], [0, 0], [1, 1], [1, 1], 1, 1, nchw),
            ("channels_last", (2, 5, 6, 3), (3, 3, 3, 4), [1, 2], [1, 1], [1, 1], [1, 1], [1, 1], 1, 1, nhwc),
            ("mixed_layouts", (2, 5, 6, 4), (3, 2, 2, 6), [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 2, 1, (nhwc[0], nhwc[1], [1, 0, 3, 2])),
            ("depthwise", (2, 4, 6, 6), (8, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 4, 1, nchw),
            ("batch_groups", (4, 3, 6, 6), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1, 2, nchw),
            ("batch_groups_last", (6, 5, 5, 2), (3, 3, 2, 3), [2, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1, 3, nhwc),
            ("large_kernel", (2, 2, 9, 10), (3, 2, 8, 9), [1, 1], [0, 1], [0, 0], [1, 1], [1, 1], 1, 1, nchw),
            ("one_dim", (2, 3, 9), (4, 3, 4), [2], [1], [0], [1], [2], 1, 1, one),
            ("one_dim_groups", (2, 6, 12), (4, 3, 5), [3], [2], [2], [2], [1], 2, 1, one),
            ("three_dims", (1, 2, 4, 5, 4), (3, 2, 2, 3, 2), [1, 2, 1], [0, 1, 1], [1, 1, 0], [1, 1, 2], [2, 1, 1], 1, 1, three)):
        numbers = lax.ConvDimensionNumbers(*map(tuple, layouts))
        rank = len(strides)
        plain = [list(l) == list(range(rank + 2)) for l in layouts]
        for dtype in (f64, f32, bf16, c64) if name == "plain" else (f32, f64) if name == "everything" else (f32,):
            make = complex_normal if dtype == c64 else normal
            a, b = make("dgconv" + name, lhs, dtype), make("dgconvw" + name, rhs, dtype)
            f.add_derivative(f"d_convolution_{name}_{NAMES[dtype][0]}", "convolution", [a, b], by_jax,
                             lambda a, b: lax.conv_general_dilated(a, b, strides, list(zip(low, high)), lhs_dilation, rhs_dilation, numbers, groups, batches,
                                                                   precision="highest"), "jax.vjp of jax.lax.conv_general_dilated", strides=drop(strides, 1),
                             padding_low=drop(low, 0), padding_high=drop(high, 0), lhs_dilation=drop(lhs_dilation, 1), rhs_dilation=drop(rhs_dilation, 1),
                             feature_group_count=None if groups == 1 else groups, batch_group_count=None if batches == 1 else batches,
                             lhs_layout=None if plain[0] else layouts[0], rhs_layout=None if plain[1] else layouts[1],
                             out_layout=None if plain[2] else layouts[2])


def windows(f):
    kinds = {"sum": (jnp.sum, 0.0), "max": (jnp.max, -np.inf), "min": (jnp.min, np.inf), "prod": (jnp.prod, 1.0)}
    for name, dims, window, strides, base, dilation, low, high in (
            ("plain", (5, 6), [2, 3], [1, 1], [1, 1], [1, 1], [0, 0], [0, 0]), ("strided", (2, 7, 8), [1, 3, 2], [1, 2, 3], [1, 1, 1], [1, 1, 1], [0, 1, 0], [0, 0, 2]),
            ("dilated", (8, 9), [2, 3], [2, 1], [1, 1], [3, 2], [1, 0], [0, 2]), ("base_dilated", (4, 5), [3, 2], [1, 2], [2, 3], [1, 1], [1, 0], [1, 1]),
            ("negative_padding", (6, 6), [2, 2], [1, 1], [1, 1], [1, 1], [-1, 0], [0, -2])):
        for kind, (combine, start) in kinds.items():
            x = uniform("dwindow" + name + kind, dims, -2, 2, f64)
            # JAX differentiates no max with dilations or negative padding. So: which element stands at each tap, or -1.
            places = np.full([(n - 1) * d + 1 for n, d in zip(dims, base)], -1)
            places[tuple(slice(None, None, d) for d in base)] = np.arange(x.size).reshape(dims)
            for axis, (l, h) in enumerate(zip(low, high)):
                places = np.pad(places, [(max(l, 0), max(h, 0)) if a == axis else (0, 0) for a in range(x.ndim)], constant_values=-1)
                places = places[(slice(None),) * axis + (slice(max(-l, 0), places.shape[axis] - max(-h, 0)),)]
            taken = np.lib.stride_tricks.sliding_window_view(places, [(w - 1) * d + 1 for w, d in zip(window, dilation)])
            taken = taken[tuple(slice(None, None, s) for s in strides)][(...,) + tuple(slice(None, None, d) for d in dilation)]
            taken = taken.reshape(taken.shape[:x.ndim] + (-1,))

            def function(v):
                return combine(jnp.where(taken < 0, start, jnp.take(v.ravel(), jnp.maximum(taken, 0))), axis=-1)

            if kind == "prod":
                x[(1,) * x.ndim] = 0
            f.add_derivative(f"d_reduce_window_{kind}_{name}", "reduce_window", [x], by_jax, function, "jax.vjp of the windows' elements in jax.numpy", kind=kind,
                             window_dims=window, strides=strides, base_dilation=base, window_dilation=dilation, padding_low=low, padding_high=high)
    for name, dims, window, strides, low, high in (("apart", (4, 6), [2, 3], [2, 3], [0, 0], [0, 0]), ("overlapping", (1, 5, 7), [1, 3, 3], [1, 1, 2], [0, 1, 0], [0, 1, 1])):
        x = integers("dselect" + name, dims, 0, 5).astype(f64)  # ties: the first of a window gets it
        pads = list(zip(low, high))
        _, back = jax.vjp(lambda v: lax.reduce_window(v, -np.inf, lax.max, window, strides, pads), x + 0.0)
        shape = lax.reduce_window(x, -np.inf, lax.max, window, strides, pads).shape
        f.add_derivative(f"d_select_and_scatter_{name}", "select_and_scatter", [x, normal("dselect_source" + name, shape, f64)], by_jax,
                         lambda v, s: back(s)[0] + 0 * v, "jax.vjp of the gradient of a max pool", window_dims=window, strides=strides, padding_low=low,
                         padding_high=high)


def with_kinds(f, case, op, kinds, inputs, function, source, **attributes):
    """The derivative of one op, and each of `kinds`: (backward op, which inputs, whether the cotangent comes first,
    which gradient is its result, more attributes)."""
    outputs, cotangents, gradients = by_torch(case, function, [np.asarray(x) for x in inputs])
    f.add("d_" + case, op, inputs, outputs, source, cotangents, gradients, **attributes)
    for kind, taken, ct_first, result, more in kinds:
        chosen = [inputs[i] for i in taken]
        operands = [cotangents[0]] + chosen if ct_first else chosen + [cotangents[0]]
        f.add(f"{kind}_{case}", kind, operands, [gradients[result]], source, **attributes, **more)


def convolutions(f):
    for name, x, w, stride, padding, dilation, groups in (
            ("1d", (2, 3, 11), (4, 3, 3), [1], [0], [1], 1), ("1d_all", (2, 4, 17), (6, 2, 4), [3], [2], [2], 2),
            ("1d_long_kernel", (2, 2, 40), (3, 2, 33), [1], [0], [1], 1), ("2d", (2, 3, 7, 8), (4, 3, 3, 3), [1, 1], [0, 0], [1, 1], 1),
            ("2d_same", (1, 2, 5, 6), (3, 2, 3, 3), [1, 1], [1, 1], [1, 1], 1), ("2d_stride", (1, 3, 9, 11), (2, 3, 3, 2), [2, 3], [1, 0], [1, 1], 1),
            ("2d_leftover", (2, 2, 8, 10), (3, 2, 3, 3), [3, 2], [1, 1], [1, 1], 1), ("2d_dilated", (1, 2, 9, 9), (2, 2, 3, 3), [1, 1], [2, 1], [2, 3], 1),
            ("2d_stride_dilated", (1, 2, 12, 11), (3, 2, 3, 2), [2, 3], [1, 2], [3, 2], 1), ("2d_groups", (2, 6, 5, 5), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], 2),
            ("2d_depthwise", (1, 5, 6, 6), (5, 1, 3, 3), [1, 1], [1, 1], [1, 1], 5), ("2d_depthwise_twice", (1, 3, 6, 6), (6, 1, 3, 3), [2, 2], [1, 1], [1, 1], 3),
            ("2d_pointwise", (2, 8, 4, 5), (6, 8, 1, 1), [1, 1], [0, 0], [1, 1], 1), ("2d_pointwise_stride", (2, 4, 5, 6), (3, 4, 1, 1), [2, 2], [0, 0], [1, 1], 1),
            ("2d_wide_padding", (1, 1, 3, 3), (1, 1, 2, 2), [1, 1], [3, 4], [1, 1], 1), ("2d_image", (2, 4, 14, 14), (5, 4, 3, 3), [1, 1], [1, 1], [1, 1], 1),
            ("3d", (1, 2, 4, 5, 6), (3, 2, 2, 3, 3), [1, 1, 1], [0, 1, 1], [1, 1, 1], 1),
            ("3d_stride", (2, 2, 5, 6, 5), (3, 2, 3, 2, 3), [2, 1, 2], [1, 0, 1], [1, 1, 1], 1),
            ("3d_all", (1, 4, 5, 6, 7), (4, 2, 2, 2, 3), [2, 1, 2], [1, 0, 2], [1, 2, 1], 2)):
        rank = len(x) - 2
        for dtype in (f64, f32, f16, bf16) if name == "2d" else (f64, f32) if name == "2d_image" else (f32,):
            a, b = normal("dconv" + name, x, dtype), normal("dconvw" + name, w, dtype)
            with_kinds(f, f"conv_{name}_{NAMES[dtype][0]}", "conv",
                       [("conv_backward_input", [1], True, 0, dict(size=list(x[2:]))), ("conv_backward_weight", [0], False, 1, dict(size=list(w[2:])))], [a, b],
                       lambda a, b: CONV[rank](a, b, None, stride, padding, dilation, groups), f"torch autograd of conv{rank}d in f64", stride=stride,
                       padding=padding, dilation=dilation, groups=groups)
    for name, x, w, stride, padding, output_padding, dilation, groups in (
            ("1d", (2, 3, 5), (3, 4, 4), [2], [1], [1], [1], 1), ("2d", (1, 3, 4, 5), (3, 2, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1], 1),
            ("2d_stride", (2, 4, 3, 4), (4, 3, 3, 2), [2, 3], [1, 0], [1, 2], [1, 1], 1), ("2d_all", (1, 4, 4, 4), (4, 2, 3, 3), [2, 2], [2, 1], [0, 1], [2, 1], 2),
            ("2d_depthwise", (2, 3, 4, 4), (3, 1, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], 3),
            ("3d", (1, 2, 3, 3, 2), (2, 3, 2, 3, 2), [2, 1, 2], [0, 1, 0], [1, 0, 0], [1, 1, 1], 1)):
        rank = len(x) - 2
        f.add_derivative(f"d_conv_transpose_{name}", "conv_transpose", [normal("dtconv" + name, x), normal("dtconvw" + name, w)], by_torch,
                         lambda a, b: CONV_TRANSPOSE[rank](a, b, None, stride, padding, output_padding, groups, dilation),
                         f"torch autograd of conv_transpose{rank}d in f64", stride=stride, padding=padding, output_padding=output_padding, dilation=dilation,
                         groups=groups)


def pools(f):
    for name, x, kernel, stride, padding in (
            ("1d", (2, 3, 9), [3], [2], [1]), ("2d", (2, 3, 6, 7), [2, 2], [2, 2], [0, 0]), ("2d_overlap", (1, 2, 7, 8), [3, 4], [1, 2], [1, 2]),
            ("3d", (1, 2, 4, 5, 6), [2, 3, 2], [2, 1, 2], [1, 1, 0]), ("3d_apart", (2, 1, 4, 4, 4), [2, 2, 2], [2, 2, 2], [0, 0, 0]),
            ("2d_global", (2, 3, 4, 5), [4, 5], [1, 1], [0, 0])):
        rank = len(kernel)
        attributes = dict(kernel_size=kernel, stride=stride, padding=padding)
        source = f"torch autograd of {{}}_pool{rank}d in f64"
        for ties in (False, True):
            a = integers("dpools" + name, x, -3, 3).astype(f32) if ties else normal("dpool" + name, x)
            kinds = [("max_pool_backward", [0], False, 0, {})]
            with_kinds(f, f"pool_max_{name}" + "_ties" * ties, "pool", kinds, [a], lambda v: MAX_POOL[rank](v, kernel, stride, padding), source.format("max"),
                       kind="max", **attributes)
        with_kinds(f, f"pool_min_{name}", "pool", kinds, [a], lambda v: -MAX_POOL[rank](-v, kernel, stride, padding), source.format("max"), kind="min",
                   **attributes)
        a = normal("dpool" + name, x)
        f.add_derivative(f"d_pool_mean_{name}", "pool", [a], by_torch, lambda v: AVG_POOL[rank](v, kernel, stride, padding), source.format("avg"), kind="mean",
                         **attributes)
        f.add_derivative(f"d_pool_mean_of_valid_{name}", "pool", [a], by_torch, lambda v: AVG_POOL[rank](v, kernel, stride, padding, count_include_pad=False),
                         source.format("avg"), kind="mean", count_include_pad=False, **attributes)
        f.add_derivative(f"d_pool_sum_{name}", "pool", [a], by_torch, lambda v: AVG_POOL[rank](v, kernel, stride, padding) * float(np.prod(kernel)),
                         source.format("avg"), kind="sum", **attributes)
    x = normal("dpools", (2, 3, 7, 6), f64)
    unfolded = lambda v: F.unfold(v, [2, 3], stride=[2, 1]).reshape(2, 3, 6, 3, 4).prod(2)
    f.add_derivative("d_pool_prod", "pool", [x], by_torch, unfolded, "torch autograd of unfold and prod", kind="prod", kernel_size=[2, 3], stride=[2, 1])
    with_kinds(f, "pool_max_dilated", "pool", [("max_pool_backward", [0], False, 0, {})], [x],
               lambda v: F.max_pool2d(v, [3, 2], [1, 2], [1, 0], dilation=[2, 3]), "torch autograd of max_pool2d", kind="max", kernel_size=[3, 2], stride=[1, 2],
               padding=[1, 0], dilation=[2, 3])
    with_kinds(f, "pool_max_uneven", "pool", [("max_pool_backward", [0], False, 0, {})], [x],
               lambda v: F.max_pool2d(F.pad(v, (0, 2, 0, 1), value=-np.inf), [2, 2], [2, 2]), "torch autograd of max_pool2d of pad", kind="max",
               kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], padding_high=[1, 2])


def images(f):
    for dtype, tag in ((f32, ""), (f64, "_f64")):
        f.add_derivative("d_resize_nearest2x" + tag, "resize_nearest2x", [normal("dresize", (2, 3, 4, 5), dtype)], by_torch,
                         lambda v: F.interpolate(v, scale_factor=2, mode="nearest"), "torch autograd of interpolate, nearest")
        for name, dims, size in (("up", (2, 3, 4, 5), [9, 7]), ("down", (2, 3, 8, 9), [3, 4]), ("one_dim", (2, 3, 7), [11]),
                                 ("volume", (1, 2, 3, 4, 5), [5, 2, 7])):
            f.add_derivative(f"d_interpolate_{name}{tag}", "interpolate", [normal("dinterpolate" + name, dims, dtype)], by_torch,
                             lambda v: F.interpolate(v, size=size, mode="nearest"), "torch autograd of interpolate, nearest", size=size)
        for name, dims, size, align in (("up", (2, 3, 4, 5), [9, 7], False), ("corners", (2, 3, 8, 9), [3, 4], True)):
            f.add_derivative(f"d_resize_linear_{name}{tag}", "resize_linear", [normal("dresize_linear" + name, dims, dtype)], by_torch,
                             lambda v: F.interpolate(v, size=size, mode="bilinear", align_corners=align), "torch autograd of interpolate, bilinear", size=size,
                             grid="align_corners" if align else "half_pixel")
        for name, dims, kernel, stride, padding, dilation in (("plain", (2, 3, 4, 5), [2, 3], [1, 1], [0, 0], [1, 1]),
                                                              ("all", (2, 3, 5, 6), [2, 3], [1, 2], [1, 0], [2, 1])):
            f.add_derivative(f"d_im2col_{name}{tag}", "im2col", [normal("dcolumns" + name, dims, dtype)], by_torch,
                             lambda v: F.unfold(v, kernel, dilation, padding, stride).transpose(1, 2).reshape(-1, dims[1] * kernel[0] * kernel[1]),
                             "torch autograd of unfold", kernel_size=kernel, stride=stride, padding=padding, dilation=dilation)


def cases():
    f, g, h, i = Family("window_gradients"), Family("conv_gradients"), Family("pool_gradients"), Family("image_gradients")
    general_convolutions(f)
    windows(f)
    convolutions(g)
    pools(h)
    images(i)
    return [f, g, h, i]
