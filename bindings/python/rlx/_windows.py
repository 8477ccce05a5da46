"""Convolutions and windows, as the package's top level has them: NC* layout, PyTorch's definitions."""

from . import ops
from ._array import as_array, convert
from ._padding import pairs_of, pairs_of_numbers, per_axis
from .numpy import _elementwise as ew


def conv(x, w, strides=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of x[n, c, spatial...] with w[out, c / groups, kernel...]. `padding` is a number, a number or a pair
    (low, high) for each spatial dim, "VALID" (none) or "SAME" (as many results as strides begin in x)."""
    x, w = ew.promoted(x, w)
    rank = x.ndim - 2
    if rank < 0 or w.ndim != x.ndim:
        raise ValueError(f"conv takes x[n, c, spatial...] and w[out, c / groups, kernel...] of one rank, got shapes {x.shape} and "
                         f"{w.shape}")
    strides, dilation = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
    pairs = pairs_of(padding, x.shape[2:], w.shape[2:], strides, dilation)
    return ops.convolution(x, w, strides=strides, padding_low=[a for a, _ in pairs], padding_high=[b for _, b in pairs],
                           rhs_dilation=dilation, feature_group_count=groups)


def conv_transpose(x, w, strides=1, padding=0, output_padding=0, dilation=1, groups=1):
    """The gradient of conv with respect to its input, as PyTorch's conv_transpose: x[n, c, ...], w[c, out / groups, kernel...]."""
    x, w = ew.promoted(x, w)
    rank = x.ndim - 2
    strides, padding = per_axis(strides, rank, "strides"), per_axis(padding, rank, "padding")
    extra, dilation = per_axis(output_padding, rank, "output_padding"), per_axis(dilation, rank, "dilation")
    c, out = w.shape[:2]
    # The kernel turned around, its input and output features exchanged within each group.
    k = ops.reverse(w, axes=range(2, w.ndim)) if rank else w
    k = ops.reshape(k, dims=(groups, c // groups, out) + w.shape[2:])
    k = ops.transpose(k, permutation=(0, 2, 1) + tuple(range(3, 3 + rank)))
    k = ops.reshape(k, dims=(groups * out, c // groups) + w.shape[2:])
    low = [d * (n - 1) - p for d, n, p in zip(dilation, w.shape[2:], padding)]
    return ops.convolution(x, k, padding_low=low, padding_high=[a + e for a, e in zip(low, extra)], lhs_dilation=strides,
                           rhs_dilation=dilation, feature_group_count=groups)


_KINDS = {"max": "max", "min": "min", "add": "sum", "sum": "sum", "mul": "prod", "prod": "prod"}


def reduce_window(x, kind, init, window, strides=None, padding=None, dilation=None):
    """Elements combined (`kind`: max, min, add, mul) within windows over all dims, from `init` on; padding holds `init`."""
    x = as_array(x)
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; it is one of max, min, add, mul")
    pairs = [(0, 0)] * x.ndim if padding is None else pairs_of_numbers(padding, x.ndim)
    made = ops.reduce_window(x, kind=_KINDS[kind], window_dims=tuple(window),
                             strides=tuple(strides) if strides is not None else (1,) * x.ndim,
                             window_dilation=tuple(dilation) if dilation is not None else (1,) * x.ndim,
                             padding_low=[a for a, _ in pairs], padding_high=[b for _, b in pairs])
    first = convert(as_array(init), x.dtype_name)
    combine = {"max": ew.maximum, "min": ew.minimum, "sum": ew.add, "prod": ew.multiply}[_KINDS[kind]]
    neutral = {"sum": 0, "prod": 1}.get(_KINDS[kind])
    if neutral is not None and not first.is_traced and first.item() == neutral:
        return made
    if neutral is None and not first.is_traced and first.item() in (float("-inf"), float("inf")):
        return made
    return combine(made, first)
