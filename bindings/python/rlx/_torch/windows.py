"""Pooling and resizing of images."""

from .. import ops
from .. import numpy as rnp
from .._native import Error
from .table import of


@of("max_pool2d_with_indices.default")
def _max_pool(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    if ceil_mode:
        raise Error("max_pool2d with ceil_mode", "unsupported")
    wide = lambda values: tuple(values) * 2 if len(values) == 1 else tuple(values)
    y = ops.pool(x, kind="max", kernel_size=wide(kernel), stride=wide(stride or kernel), padding=wide(padding), dilation=wide(dilation))
    return y, None  # the places are an operator's own affair unless something asks for them


@of("avg_pool2d.default")
def _avg_pool(x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
    if ceil_mode or divisor_override is not None or (not count_include_pad and any(padding)):
        raise Error("avg_pool2d with ceil_mode, divisor_override, or padding that does not count", "unsupported")
    wide = lambda values: tuple(values) * 2 if len(values) == 1 else tuple(values)
    (kh, kw), (ph, pw) = wide(kernel), wide(padding)
    padded = rnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(ph, ph), (pw, pw)]) if ph or pw else x
    total = ops.reduce_window(padded, kind="sum", window_dims=(1,) * (x.ndim - 2) + (kh, kw), strides=(1,) * (x.ndim - 2) + wide(stride or kernel),
                              window_dilation=(1,) * x.ndim, padding_low=(0,) * x.ndim, padding_high=(0,) * x.ndim)
    return total / (kh * kw)


@of("_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default")
def _adaptive_avg_pool(x, size):
    if any(n % m for n, m in zip(x.shape[-2:], size)):
        raise Error(f"adaptive_avg_pool2d from {x.shape[-2:]} to {tuple(size)}, which does not divide it", "unsupported")
    h, w = size
    return rnp.mean(rnp.reshape(x, x.shape[:-2] + (h, x.shape[-2] // h, w, x.shape[-1] // w)), (-3, -1))


@of("upsample_nearest2d.vec")
def _upsample_nearest(x, size, scale_factors):
    h, w = x.shape[-2:]
    to = tuple(size) if size is not None else (int(h * scale_factors[0]), int(w * scale_factors[1]))
    if to[0] % h or to[1] % w:
        raise Error(f"upsample_nearest2d from {(h, w)} to {to}, which is no multiple", "unsupported")
    return rnp.repeat(rnp.repeat(x, to[0] // h, axis=-2), to[1] // w, axis=-1)
