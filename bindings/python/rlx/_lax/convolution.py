"""The convolutions of jax.lax."""

import math
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from .._native import Error, at_user_line
from .._padding import pairs_of_numbers
from .types import ConvDimensionNumbers, check_precision


def padtype_to_pads(in_shape, window_shape, window_strides, padding):
    """(low, high) for each dim, of "VALID" (none), "SAME" (as many results as strides begin within) or "SAME_LOWER", which puts what
    is odd in front."""
    kind = padding.upper() if isinstance(padding, str) else padding
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise ValueError(at_user_line(f"the padding is {padding!r}; it is \"SAME\", \"SAME_LOWER\", \"VALID\" or pairs (low, high)"))
    made = []
    for n, k, stride in zip(in_shape, window_shape, window_strides):
        total = max((-(-n // stride) - 1) * stride + k - n, 0)
        made.append((total // 2, total - total // 2) if kind == "SAME" else (total - total // 2, total // 2))
    return made


def conv_general_permutations(dimension_numbers):
    """Dimension numbers in letters, ("NHWC", "HWIO", "NHWC"), as places: batch or output features first, then features, then the
    spatial dims in the order of rhs."""
    lhs, rhs, out = dimension_numbers
    if not all(isinstance(spec, str) for spec in (lhs, rhs, out)):
        raise TypeError(at_user_line(f"dimension numbers in letters are three texts, such as (\"NHWC\", \"HWIO\", \"NHWC\"), not {dimension_numbers!r}"))
    for name, spec, first, second in (("lhs", lhs, "N", "C"), ("rhs", rhs, "O", "I"), ("the result", out, "N", "C")):
        if spec.count(first) != 1 or spec.count(second) != 1 or len(set(spec)) != len(spec):
            raise ValueError(at_user_line(f"the dimension numbers of {name} are {spec!r}; each letter comes once, {first} and {second} among "
                                          "them"))
    spatial = [c for c in rhs if c not in "OI"]
    if sorted(spatial) != sorted(c for c in lhs if c not in "NC") or sorted(spatial) != sorted(c for c in out if c not in "NC"):
        raise ValueError(at_user_line(f"the dimension numbers {lhs!r}, {rhs!r} and {out!r} name different spatial dims"))
    order = lambda spec, first: tuple(spec.index(c) for c in [*first, *spatial])
    return order(lhs, "NC"), order(rhs, "OI"), order(out, "NC")


def conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers):
    """ConvDimensionNumbers of None (NC and spatial dims, OI and spatial dims), of three strings such as ("NHWC", "HWIO", "NHWC"), or
    of themselves."""
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(at_user_line(f"a convolution takes operands of one rank, got shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}"))
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(len(lhs_shape))),) * 3)
    if not isinstance(dimension_numbers, (list, tuple)) or len(dimension_numbers) != 3 or \
            not all(isinstance(s, str) and len(s) == len(lhs_shape) for s in dimension_numbers):
        raise TypeError(at_user_line(f"dimension_numbers are None, ConvDimensionNumbers, or three strings of {len(lhs_shape)} letters, got "
                                     f"{dimension_numbers!r}"))
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def _each(value, rank, what):
    value = (1,) * rank if value is None else tuple(operator.index(v) for v in value)
    if len(value) != rank:
        raise ValueError(at_user_line(f"{what} has one entry for each of the {rank} spatial dims, got {value}"))
    return value


def conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation=None, rhs_dilation=None, dimension_numbers=None,
                         feature_group_count=1, batch_group_count=1, precision=None, preferred_element_type=None):
    """Sums of products of the kernel rhs with windows of lhs (the kernel is not turned around). `padding` is "SAME", "SAME_LOWER",
    "VALID" or a pair (low, high) for each spatial dim; lhs_dilation puts zeros between elements of lhs, rhs_dilation of rhs;
    dimension_numbers say where dims stand (conv_dimension_numbers). Products are summed in preferred_element_type."""
    check_precision("conv_general_dilated", precision)
    lhs, rhs = as_array(lhs), as_array(rhs)
    if lhs.dtype_name != rhs.dtype_name:
        raise TypeError(at_user_line(f"a convolution takes operands of one dtype, got {lhs.dtype_name} and {rhs.dtype_name}"))
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    rank = lhs.ndim - 2
    if rank < 0 or rhs.ndim != lhs.ndim:
        raise Error(at_user_line(f"a convolution takes operands of one rank, of at least 2, got shapes {lhs.shape} and {rhs.shape}"), "shape_mismatch")
    strides = _each(window_strides, rank, "window_strides")
    lhs_dilation, rhs_dilation = _each(lhs_dilation, rank, "lhs_dilation"), _each(rhs_dilation, rank, "rhs_dilation")
    if isinstance(padding, str):
        if any(r != 1 for r in lhs_dilation):
            raise NotImplementedError(at_user_line("a convolution with lhs_dilation takes its padding as pairs; see conv_transpose"))
        extents = [lhs.shape[d] for d in numbers.lhs_spec[2:]]
        spread = [(rhs.shape[d] - 1) * r + 1 if rhs.shape[d] else 0 for d, r in zip(numbers.rhs_spec[2:], rhs_dilation)]
        padding = padtype_to_pads(extents, spread, strides, padding)
    pairs = pairs_of_numbers(padding, rank)
    result = None
    if preferred_element_type is not None:
        result = _dtypes.name_of(preferred_element_type)
        if _dtypes.bits(result) > _dtypes.bits(lhs.dtype_name):
            lhs, rhs = convert(lhs, result), convert(rhs, result)
    made = ops.convolution(lhs, rhs, strides=strides, padding_low=[a for a, _ in pairs], padding_high=[b for _, b in pairs],
                           lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation, feature_group_count=feature_group_count,
                           batch_group_count=batch_group_count, lhs_layout=tuple(numbers.lhs_spec), rhs_layout=tuple(numbers.rhs_spec),
                           out_layout=tuple(numbers.out_spec))
    return made if result is None else convert(made, result)


def conv(lhs, rhs, window_strides, padding, precision=None, preferred_element_type=None):
    """Cross-correlation of lhs[n, c, spatial...] with rhs[out, c, kernel...]; `padding` is "SAME", "VALID", or a pair (low, high) for
    each spatial dim. conv_general_dilated has dilation, groups and other layouts, too."""
    lhs, rhs = operands_of_one_dtype("conv", lhs, rhs)
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type)


def operands_of_one_dtype(name, lhs, rhs):
    lhs, rhs = as_array(lhs), as_array(rhs)
    if lhs.dtype_name != rhs.dtype_name:
        raise TypeError(at_user_line(f"lax.{name} takes operands of one dtype, got {lhs.dtype_name} and {rhs.dtype_name}"))
    return lhs, rhs


def conv_with_general_padding(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=None, preferred_element_type=None):
    """As conv, with dilations."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
                                preferred_element_type=preferred_element_type)


def _transposed_pads(kernel, stride, padding):
    """The padding around the lhs with gaps that undoes a convolution of this kernel, stride and padding."""
    if padding == "SAME":
        total = kernel + stride - 2
        low = kernel - 1 if stride > kernel - 1 else -(-total // 2)
    elif padding == "VALID":
        total = kernel + stride - 2 + max(kernel - stride, 0)
        low = kernel - 1
    elif isinstance(padding, (tuple, list)):
        low, total = kernel - 1 - padding[0], 2 * (kernel - 1) - sum(padding)
    else:
        raise ValueError(at_user_line(f"the padding is {padding!r}; it is \"SAME\", \"VALID\" or a pair (low, high)"))
    return low, total - low


def conv_transpose(lhs, rhs, strides, padding, rhs_dilation=None, dimension_numbers=None, transpose_kernel=False, precision=None,
                   preferred_element_type=None, use_consistent_padding=False):
    """A convolution whose lhs has strides - 1 zeros between elements: of the shape that a convolution with these strides and this
    padding would have had to have. Without dimension_numbers features stand last ("NHWC", "HWIO"). `transpose_kernel` turns the kernel
    around and exchanges its features: the gradient of a convolution. Pairs are the padding of the lhs with zeros itself, or with
    `use_consistent_padding` that of the convolution that is undone."""
    lhs, rhs = operands_of_one_dtype("conv_transpose", lhs, rhs)
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise Error(at_user_line(f"conv_transpose takes operands of one rank, of at least 2, got shapes {lhs.shape} and {rhs.shape}"), "shape_mismatch")
    if dimension_numbers is None:
        if lhs.ndim > 5:
            raise ValueError(at_user_line(f"conv_transpose of rank {lhs.ndim} takes dimension_numbers"))
        spatial = ("", "H", "HW", "HWD")[lhs.ndim - 2]
        dimension_numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    rank = lhs.ndim - 2
    strides, dilation = _each(strides, rank, "strides"), _each(rhs_dilation, rank, "rhs_dilation")
    if isinstance(padding, str) or use_consistent_padding:
        each = [padding.upper()] * rank if isinstance(padding, str) else padding
        kernel = [(rhs.shape[d] - 1) * r + 1 for d, r in zip(numbers.rhs_spec[2:], dilation)]
        padding = [_transposed_pads(k, s, p) for k, s, p in zip(kernel, strides, each)]
    if transpose_kernel:
        from .. import numpy as rnp
        if rank:
            rhs = ops.reverse(rhs, axes=tuple(numbers.rhs_spec[2:]))
        rhs = rnp.swapaxes(rhs, numbers.rhs_spec[0], numbers.rhs_spec[1])
    return conv_general_dilated(lhs, rhs, (1,) * rank, padding, strides, dilation, numbers, precision=precision,
                                preferred_element_type=preferred_element_type)


def conv_general_dilated_patches(lhs, filter_shape, window_strides, padding, lhs_dilation=None, rhs_dilation=None, dimension_numbers=None,
                                 precision=None, preferred_element_type=None):
    """The windows of lhs that a convolution would take: features of the result are those of lhs, each with all places of its
    window."""
    from .. import numpy as rnp
    lhs, filter_shape = as_array(lhs), tuple(filter_shape)
    numbers = conv_dimension_numbers(lhs.shape, (1, 1) + filter_shape, dimension_numbers)
    places, features = math.prod(filter_shape), lhs.shape[numbers.lhs_spec[1]]
    rhs = rnp.reshape(rnp.tile(rnp.eye(places, dtype=lhs.dtype), (features, 1)), (features * places, 1) + filter_shape)
    rhs = rnp.moveaxis(rhs, tuple(range(rhs.ndim)), tuple(numbers.rhs_spec))
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, numbers, feature_group_count=features,
                                precision=precision, preferred_element_type=preferred_element_type)


def conv_general_dilated_local(lhs, rhs, window_strides, padding, filter_shape, lhs_dilation=None, rhs_dilation=None,
                               dimension_numbers=None, precision=None):
    """A convolution with a kernel of its own at each place of the result: rhs has the features of conv_general_dilated_patches, and the
    spatial extents of the result."""
    from .. import numpy as rnp
    lhs, rhs = operands_of_one_dtype("conv_general_dilated_local", lhs, rhs)
    numbers = conv_dimension_numbers(lhs.shape, (1, 1) + tuple(filter_shape), dimension_numbers)
    patches = conv_general_dilated_patches(lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, numbers, precision)
    out, kernel = numbers.out_spec, numbers.rhs_spec
    made = ops.dot_general(patches, rhs, lhs_batch=tuple(out[2:]), rhs_batch=tuple(kernel[2:]), lhs_contract=(out[1],), rhs_contract=(kernel[1],))
    return rnp.moveaxis(made, tuple(range(made.ndim)), tuple(out[2:]) + (out[0], out[1]))


# ---- shapes ----
def conv_shape_tuple(lhs_shape, rhs_shape, strides, pads, batch_group_count=1):
    """The shape of a convolution of operands of these shapes, (n, c, spatial...) and (out, c, kernel...)."""
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(at_user_line(f"a convolution of {len(lhs_shape) - 2} spatial dims takes as many pads, got {len(pads)}"))
    spatial = [max(0, (n + low + high - k) // s + 1) for n, k, s, (low, high) in zip(lhs_shape[2:], rhs_shape[2:], strides, pads)]
    if batch_group_count > 1:
        return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)
    return (lhs_shape[0], rhs_shape[0], *spatial)


def _moved(shape, spec):
    return tuple(shape[d] for d in spec)


def conv_general_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """The shape of a convolution with these dimension numbers."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    return _moved(conv_shape_tuple(_moved(lhs_shape, lhs), _moved(rhs_shape, rhs), window_strides, padding), np.argsort(out))


def conv_transpose_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """The shape of a conv_transpose with these dimension numbers."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    lhs_shape, rhs_shape = _moved(lhs_shape, lhs), _moved(rhs_shape, rhs)
    pads = [_transposed_pads(k, s, padding.upper()) for k, s in zip(rhs_shape[2:], window_strides)] if isinstance(padding, str) else padding
    spatial = [(n - 1) * s + 2 - k + sum(p) for n, k, s, p in zip(lhs_shape[2:], rhs_shape[2:], window_strides, pads)]
    return _moved((lhs_shape[0], rhs_shape[0], *spatial), np.argsort(out))
