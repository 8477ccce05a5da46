"""The reductions, windows, running sums and orders of jax.lax."""

import operator

import numpy as np

from .. import _dtypes, ops, tree
from .._array import Array, as_array, convert, is_number
from .._associative_scan import associative_scan
from .._jit import Traced
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy._shape import axis_of
from . import elementwise as of
from .convolution import padtype_to_pads
from .shapes import dims_of

# The functions of which the library has reductions of its own, which have derivatives.
_KINDS = {of.add: "sum", of.mul: "prod", of.max: "max", of.min: "min"}


def _kind_of(computation, dtype):
    from .. import numpy as rnp
    kinds = {**_KINDS, rnp.add: "sum", rnp.multiply: "prod", rnp.maximum: "max", rnp.minimum: "min"}
    if dtype == "bool":
        kinds = {of.bitwise_and: "all", of.bitwise_or: "any", of.max: "any", of.min: "all", rnp.logical_and: "all", rnp.logical_or: "any",
                 rnp.bitwise_and: "all", rnp.bitwise_or: "any"}
    try:
        return kinds.get(computation)
    except TypeError:  # what cannot be hashed is none of them
        return None


_COMBINED = {"sum": ew.add, "prod": ew.multiply, "max": ops.maximum, "min": ops.minimum, "all": ops.bitwise_and, "any": ops.bitwise_or}


def _neutral(kind, dtype):
    if kind in ("sum", "prod"):
        return 0 if kind == "sum" else 1
    if kind in ("all", "any"):
        return kind == "all"
    info = _dtypes.finfo(dtype) if _dtypes.is_float(dtype) else _dtypes.iinfo(_dtypes.long_name(dtype))
    if _dtypes.is_float(dtype):
        return -np.inf if kind == "max" else np.inf
    return info.min if kind == "max" else info.max


def _started(made, kind, first):
    """A reduction that starts from `first` where it is not what changes nothing."""
    if not first.is_traced and first.item() == _neutral(kind, first.dtype_name):
        return made
    return _COMBINED[kind](made, ew.broadcast_to(first, made.shape))


def _operands(name, operands, init_values):
    arrays, structure = tree.flatten(operands)
    inits, its = tree.flatten(init_values)
    if its != structure or not arrays:
        raise Error(at_user_line(f"lax.{name} takes operands and initial values of one structure, got {tree.drawn(structure)} and "
                                 f"{tree.drawn(its)}"))
    arrays = [as_array(x) for x in arrays]
    if len({x.shape for x in arrays}) != 1:
        raise Error(at_user_line(f"lax.{name} takes operands of one shape, got {', '.join(str(x.shape) for x in arrays)}"), "shape_mismatch")
    made = []
    for x, init in zip(arrays, inits):
        init = as_array(init, x.dtype_name) if is_number(init) else as_array(init)
        if init.dtype_name != x.dtype_name or init.shape != ():
            raise TypeError(at_user_line(f"an initial value of lax.{name} is a scalar of its operand's dtype {x.dtype_name}, got "
                                         f"{init.dtype_name}{list(init.shape)}"))
        made.append(init)
    return arrays, made, structure


def _body(name, computation, structure, arrays):
    """The graph of a computation (accumulated, elements) -> combined, of scalars."""
    types = [(x.dtype_name, ()) for x in arrays]
    n = len(arrays)
    both = lambda *xs: computation(tree.unflatten(structure, xs[:n]), tree.unflatten(structure, xs[n:]))
    traced = Traced(both, tree.structure(tuple([0] * (2 * n))), types * 2, printless=f"lax.{name}")
    if traced.captured:
        raise Error(at_user_line(f"the computation of lax.{name} uses values that are traced outside of it; it takes its arguments only"),
                    "unsupported")
    if traced.out_types != types:
        raise Error(at_user_line(f"the computation of lax.{name} gives {traced.out_types} for {types}: it combines two of a kind to one"))
    return traced.graph


def _results(made, structure):
    made = [made] if isinstance(made, Array) else list(made)
    return tree.unflatten(structure, made)


def reduce(operands, init_values, computation, dimensions):
    """The elements along these dims combined by computation(a, b) from init_values on: arrays, or trees of arrays that are combined at
    once. The order is not told: the computation is associative, and init_values change nothing. Of add, mul, max and min there are
    derivatives."""
    arrays, inits, structure = _operands("reduce", operands, init_values)
    axes = dims_of("reduce", dimensions, arrays[0].ndim)
    kind = _kind_of(computation, arrays[0].dtype_name) if len(arrays) == 1 else None
    if kind is not None:
        x = arrays[0]
        return _results(_started(ops.reduce(x, kind=kind, axes=axes) if axes else x, kind, inits[0]), structure)
    return _results(ops.reduce(*arrays, *inits, kind="custom", axes=axes, body=_body("reduce", computation, structure, arrays)), structure)


def _reduction(name, kind, doc, allowed):
    def f(operand, axes):
        x = of._kinds(name, operand, allowed)
        axes = dims_of(name, axes, x.ndim)
        return ops.reduce(x, kind=kind, axes=axes) if axes else x
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


reduce_sum = _reduction("reduce_sum", "sum", "The sum of the elements along these dims.", "ifc")
reduce_prod = _reduction("reduce_prod", "prod", "The product of the elements along these dims.", "ifc")


def _greatest(name, kind, of_bools, doc):
    def f(operand, axes):
        x = of._kinds(name, operand, "bif")
        axes = dims_of(name, axes, x.ndim)
        return ops.reduce(x, kind=of_bools if x.dtype_name == "bool" else kind, axes=axes) if axes else x
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


reduce_max = _greatest("reduce_max", "max", "any", "The greatest of the elements along these dims.")
reduce_min = _greatest("reduce_min", "min", "all", "The least of the elements along these dims.")


def _bits(name, combine, of_bools, start, doc):
    def f(operand, axes):
        x = of._kinds(name, operand, "bi")
        axes = dims_of(name, axes, x.ndim)
        if x.dtype_name == "bool" and of_bools and axes:
            return ops.reduce(x, kind=of_bools, axes=axes)
        first = False if x.dtype_name == "bool" else 0
        init = as_array(np.asarray(first, x.dtype))
        return reduce(x, ops.bitwise_not(init) if start else init, combine, axes)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


reduce_and = _bits("reduce_and", of.bitwise_and, "all", True, "The bits that are 1 in all elements along these dims.")
reduce_or = _bits("reduce_or", of.bitwise_or, "any", False, "The bits that are 1 in any of the elements along these dims.")
reduce_xor = _bits("reduce_xor", of.bitwise_xor, None, False, "The bits that are 1 in an odd number of the elements along these dims.")


# ---- windows ----
def _window_settings(name, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation):
    rank = len(shape)
    each = lambda value, what: _one_each(name, (1,) * rank if value is None else value, rank, what)
    window = each(window_dimensions, "window_dimensions")
    strides, base, dilation = each(window_strides, "window_strides"), each(base_dilation, "base_dilation"), each(window_dilation, "window_dilation")
    if isinstance(padding, str):
        spread = [(n - 1) * d + 1 if n else 0 for n, d in zip(shape, base)]
        padding = padtype_to_pads(spread, [(k - 1) * d + 1 for k, d in zip(window, dilation)], strides, padding)
    pairs = [(int(a), int(b)) for a, b in padding]
    if len(pairs) != rank:
        raise ValueError(at_user_line(f"the padding of lax.{name} has a pair for each of the {rank} dims, got {len(pairs)}"))
    return window, strides, pairs, base, dilation


def _one_each(name, value, rank, what):
    value = tuple(operator.index(v) for v in value)
    if len(value) != rank:
        raise ValueError(at_user_line(f"{what} of lax.{name} has an entry for each of the {rank} dims, got {value}"))
    return value


def reduce_window(operand, init_value, computation, window_dimensions, window_strides=None, padding="VALID", base_dilation=None,
                  window_dilation=None):
    """The elements of each window over all dims combined by computation(a, b) from init_value on, which is what stands in the
    padding, too. Operands may be trees of arrays, as in reduce, and as there add, mul, max and min have derivatives."""
    arrays, inits, structure = _operands("reduce_window", operand, init_value)
    window, strides, pairs, base, dilation = _window_settings("reduce_window", arrays[0].shape, window_dimensions, window_strides, padding,
                                                              base_dilation, window_dilation)
    settings = dict(window_dims=window, strides=strides, base_dilation=base, window_dilation=dilation, padding_low=[a for a, _ in pairs],
                    padding_high=[b for _, b in pairs])
    kind = _kind_of(computation, arrays[0].dtype_name) if len(arrays) == 1 else None
    if kind is not None and not inits[0].is_traced and inits[0].item() == _neutral(kind, inits[0].dtype_name):
        return _results(ops.reduce_window(arrays[0], kind=kind, **settings), structure)
    return _results(ops.reduce_window(*arrays, *inits, kind="custom", body=_body("reduce_window", computation, structure, arrays), **settings),
                    structure)


def reduce_window_shape_tuple(operand_shape, window_dimensions, window_strides, padding, base_dilation=None, window_dilation=None):
    """The shape of a reduce_window."""
    window, strides, pairs, base, dilation = _window_settings("reduce_window_shape_tuple", operand_shape, window_dimensions, window_strides,
                                                              padding, base_dilation, window_dilation)
    spread = [(n - 1) * d + 1 if n else 0 for n, d in zip(operand_shape, base)]
    return tuple(max(0, (n + low + high - ((k - 1) * d + 1)) // s + 1)
                 for n, (low, high), k, d, s in zip(spread, pairs, window, dilation, strides))


# ---- running ----
def cumsum(operand, axis=0, reverse=False):
    """The sums of the elements up to each one along an axis, or from it on with `reverse`."""
    x = as_array(operand)
    return ops.cumsum(x, axis=axis_of(axis, x.ndim), reverse=reverse)


def cumprod(operand, axis=0, reverse=False):
    """The products of the elements up to each one along an axis, or from it on with `reverse`."""
    x = as_array(operand)
    return ops.cumprod(x, axis=axis_of(axis, x.ndim), reverse=reverse)


def cummax(operand, axis=0, reverse=False):
    """The largest one of the elements up to each one along an axis, or from it on with `reverse`."""
    x = as_array(operand)
    return ops.cummax(x, axis=axis_of(axis, x.ndim), reverse=reverse)


def cummin(operand, axis=0, reverse=False):
    """The least one of the elements up to each one along an axis, or from it on with `reverse`."""
    x = as_array(operand)
    turned = ops.neg if _dtypes.is_float(x.dtype_name) else ops.bitwise_not  # of integers -x has no place for the least one
    return turned(ops.cummax(turned(x), axis=axis_of(axis, x.ndim), reverse=reverse))


def cumlogsumexp(operand, axis=0, reverse=False):
    """ln of the sums of e^x up to each element along an axis, or from it on with `reverse`."""
    x = of._kinds("cumlogsumexp", operand, "f")
    return associative_scan(ops.logaddexp, x, reverse=bool(reverse), axis=axis_of(axis, x.ndim))


# ---- order ----
def _place(name, op):
    def f(operand, axis, index_dtype):
        x, index_dtype = as_array(operand), _dtypes.name_of(index_dtype)
        if not _dtypes.is_integer(index_dtype):
            raise TypeError(at_user_line(f"the places of lax.{name} are integers, not {_dtypes.long_name(index_dtype)}"))
        if x.dtype_name == "bool":
            x = convert(x, "i32")
        axis = axis_of(axis, x.ndim)
        if x.shape[axis] == 0:
            raise ValueError(at_user_line(f"lax.{name} along an axis of extent 0"))
        return convert(op(x, axis=axis), index_dtype)
    f.__name__ = f.__qualname__ = name
    return f


argmax = _place("argmax", ops.argmax)
argmax.__doc__ = "Where the greatest element along an axis stands, the first of several; a NaN counts as the greatest."
argmin = _place("argmin", ops.argmin)
argmin.__doc__ = "Where the least element along an axis stands, the first of several; a NaN counts as the least."


def sort(operand, dimension=-1, is_stable=True, num_keys=1):
    """The elements along a dim in ascending order, NaN last; of a tuple of arrays all in the order of the first ones, num_keys of them,
    of which the later ones count where those before are equal. It is always stable."""
    several = isinstance(operand, (tuple, list))
    arrays = [as_array(x) for x in (operand if several else (operand,))]
    if not 1 <= num_keys <= len(arrays):
        raise ValueError(at_user_line(f"num_keys is {num_keys}; there are {len(arrays)} operands"))
    if len({x.shape for x in arrays}) != 1:
        raise Error(at_user_line(f"lax.sort takes operands of one shape, got {', '.join(str(x.shape) for x in arrays)}"), "shape_mismatch")
    axis = axis_of(dimension, arrays[0].ndim)
    if len(arrays) == 1:
        made = ops.sort(arrays[0], axis=axis)
        made = [made] if isinstance(made, Array) else list(made)
        return tuple(made) if several else made[0]
    for key in reversed(range(num_keys)):  # stable: the last key first
        order = [key] + [i for i in range(len(arrays)) if i != key]
        found = ops.sort(*[arrays[i] for i in order], axis=axis)
        for i, x in zip(order, found):
            arrays[i] = x
    return tuple(arrays)


def sort_key_val(keys, values, dimension=-1, is_stable=True):
    """(keys in ascending order along a dim, values in the same order)."""
    return sort((keys, values), dimension, is_stable, 1)


def top_k(operand, k, axis=-1):
    """The k largest elements along an axis, largest first, and where they stood (int32)."""
    return ops.top_k(as_array(operand), k=k, axis=axis)


def _check_approximate(name, recall_target, aggregate_to_topk):
    if not 0 < recall_target <= 1:
        raise ValueError(at_user_line(f"the recall_target of {name} is in (0, 1], got {recall_target}"))
    if not aggregate_to_topk:
        raise NotImplementedError(at_user_line(f"{name} gives the k elements themselves: aggregate_to_topk=False is not there"))


def approx_max_k(operand, k, reduction_dimension=-1, recall_target=0.95, reduction_input_size_override=-1, aggregate_to_topk=True):
    """As top_k: all of the k largest elements are found, whatever recall_target and reduction_input_size_override allow to miss."""
    _check_approximate("approx_max_k", recall_target, aggregate_to_topk)
    return top_k(operand, k, reduction_dimension)


def approx_min_k(operand, k, reduction_dimension=-1, recall_target=0.95, reduction_input_size_override=-1, aggregate_to_topk=True):
    """The k least elements along an axis, least first, and where they stood; all of them, as in approx_max_k."""
    _check_approximate("approx_min_k", recall_target, aggregate_to_topk)
    x = of._kinds("approx_min_k", operand, "f")
    values, places = top_k(ops.neg(x), k, reduction_dimension)
    return ops.neg(values), places
