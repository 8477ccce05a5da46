"""Convolutions, transposed convolutions and pools in one to three dims, against PyTorch in f64."""
import numpy as np
import torch
import torch.nn.functional as F

from .case import *

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


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


def cases():
    f = Family("windows")
    convolutions(f)
    pools(f)
    return [f]
