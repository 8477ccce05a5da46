"""Convolutions and windows, as the package's top level has them: NC* layout, PyTorch's definitions."""

from . import ops
from ._array import as_array, convert
from .numpy._elementwise import promoted


def _per_axis(value, rank, what):
    if isinstance(value, str):
        raise ValueError(f"{what} is {value!r}; it is a number, or one for each of the {rank} spatial dims")
    value = (value,) * rank if isinstance(value, int) else tuple(int(v) for v in value)
    if len(value) != rank:
        raise ValueError(f"{what} must have one entry for each of the {rank} spatial dims, got {len(value)}")
    return value


def _pairs(padding, rank):
    if isinstance(padding, int):
        return [(padding, padding)] * rank
    pairs = [(p, p) if isinstance(p, int) else (int(p[0]), int(p[1])) for p in padding]
    if len(pairs) != rank:
        raise ValueError(f"padding must have a pair (low, high) for each of the {rank} spatial dims, got {len(pairs)}")
    return pairs


def _named_padding(name, extents, kernel, strides, dilation):
    """The pairs that "SAME" and "VALID" stand for, as in jax.lax.padtype_to_pads: with "SAME" there is a result for each stride
    that begins within x, and where the padding is odd the end gets one more."""
    kind = name.upper()
    if kind == "VALID":
        return [(0, 0)] * len(extents)
    if kind != "SAME":
        raise ValueError(f"padding is {name!r}; it is \"SAME\", \"VALID\", a number, or a number or pair (low, high) for each spatial "
                         "dim")
    pairs = []
    for n, k, stride, d in zip(extents, kernel, strides, dilation):
        reach = (k - 1) * d + 1
        if isinstance(n, str) and stride != 1:
            raise ValueError(f"padding \"SAME\" with stride {stride} depends on the extent of the symbolic dim {n}; give the padding "
                             "as numbers")
        total = reach - 1 if stride == 1 else max((-(-n // stride) - 1) * stride + reach - n, 0)
        pairs.append((total // 2, total - total // 2))
    return pairs


def pairs_of(padding, extents, kernel, strides, dilation):
    """(low, high) for each spatial dim, of a name, a number, or numbers and pairs."""
    return _named_padding(padding, extents, kernel, strides, dilation) if isinstance(padding, str) else _pairs(padding, len(extents))


def conv(x, w, strides=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of x[n, c, spatial...] with w[out, c / groups, kernel...]. `padding` is a number, a number or a pair
    (low, high) for each spatial dim, "VALID" (none) or "SAME" (as many results as strides begin in x)."""
    x, w = promoted(x, w)
    rank = x.ndim - 2
    if rank < 0 or w.ndim != x.ndim:
        raise ValueError(f"conv takes x[n, c, spatial...] and w[out, c / groups, kernel...] of one rank, got shapes {x.shape} and "
                         f"{w.shape}")
    strides, dilation = _per_axis(strides, rank, "strides"), _per_axis(dilation, rank, "dilation")
    pairs = pairs_of(padding, x.shape[2:], w.shape[2:], strides, dilation)
    return ops.convolution(x, w, strides=strides, padding_low=[a for a, _ in pairs], padding_high=[b for _, b in pairs],
                           rhs_dilation=dilation, feature_group_count=groups)


def conv_transpose(x, w, strides=1, padding=0, output_padding=0, dilation=1, groups=1):
    """The gradient of conv with respect to its input, as PyTorch's conv_transpose: x[n, c, ...], w[c, out / groups, kernel...]."""
    x, w = promoted(x, w)
    rank = x.ndim - 2
    strides, padding = _per_axis(strides, rank, "strides"), _per_axis(padding, rank, "padding")
    extra, dilation = _per_axis(output_padding, rank, "output_padding"), _per_axis(dilation, rank, "dilation")
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
    pairs = [(0, 0)] * x.ndim if padding is None else _pairs(padding, x.ndim)
    made = ops.reduce_window(x, kind=_KINDS[kind], window_dims=tuple(window),
                             strides=tuple(strides) if strides is not None else (1,) * x.ndim,
                             window_dilation=tuple(dilation) if dilation is not None else (1,) * x.ndim,
                             padding_low=[a for a, _ in pairs], padding_high=[b for _, b in pairs])
    first = convert(as_array(init), x.dtype_name)
    from . import numpy as rnp
    combine = {"max": rnp.maximum, "min": rnp.minimum, "sum": rnp.add, "prod": rnp.multiply}[_KINDS[kind]]
    neutral = {"sum": 0, "prod": 1}.get(_KINDS[kind])
    if neutral is not None and not first.is_traced and first.item() == neutral:
        return made
    if neutral is None and not first.is_traced and first.item() in (float("-inf"), float("inf")):
        return made
    return combine(made, first)
