"""Control flow and the functions of `jax.lax` that programs use beside it, under its names and with its arguments.

Operands of one function have one dtype here, as in JAX; the functions of `rlx.numpy` promote.
"""

from . import _dtypes, ops, tree
from ._array import as_array
from ._native import at_user_line
from ._windows import conv as _conv
from ._associative_scan import associative_scan
from ._control import cond, fori_loop, map, scan, switch, while_loop
from .numpy import _elementwise as ew
from .numpy import concatenate as _concatenate
from .numpy._indexing import _from_front
from .numpy._shape import axis_of

__all__ = ["associative_scan", "clamp", "concatenate", "cond", "conv", "cummax", "cumprod", "cumsum", "dynamic_slice", "dynamic_update_slice",
           "erf", "erf_inv", "erfc", "expand_dims", "fori_loop", "lgamma", "digamma", "map", "rsqrt", "scan", "select", "stop_gradient",
           "switch", "top_k", "while_loop"]


def stop_gradient(x):
    """x, through which no gradient flows; also for trees of arrays."""
    return tree.map(ops.stop_gradient, x)


def top_k(operand, k, axis=-1):
    """The k largest elements along an axis, largest first, and where they stood (int32)."""
    return ops.top_k(as_array(operand), k=k, axis=axis)


def rsqrt(x):
    """1 / sqrt(x)."""
    return ops.rsqrt(ew.inexact(x))


def erf(x):
    """The error function."""
    return ops.erf(ew.inexact(x))


def erfc(x):
    """1 - erf(x), accurate where erf(x) is close to 1."""
    return ops.erfc(ew.inexact(x))


def erf_inv(x):
    """The number whose error function is x."""
    return ops.erfinv(ew.inexact(x))


def lgamma(x):
    """ln |gamma(x)|."""
    return ops.lgamma(ew.inexact(x))


def digamma(x):
    """The derivative of lgamma."""
    return ops.digamma(ew.inexact(x))


def select(pred, on_true, on_false):
    """on_true where pred holds, else on_false: arrays of one shape and dtype; pred has that shape or is a scalar."""
    pred, on_true, on_false = as_array(pred), as_array(on_true), as_array(on_false)
    return ops.select(ew.broadcast_to(pred, on_true.shape) if pred.ndim == 0 else pred, on_true, on_false)


def clamp(min, x, max):
    """x limited to [min, max], which have x's dtype, and its shape or rank 0. Python's numbers take its dtype where they lose nothing."""
    x = as_array(x)
    low, high = (_bound(bound, x) for bound in (min, max))
    return ew.minimum(ew.maximum(x, low), high)


def _bound(bound, x):
    is_weak = isinstance(bound, (int, float)) and (_dtypes.is_inexact(x.dtype_name) or isinstance(bound, int))
    bound = as_array(bound, x.dtype_name if is_weak else None)
    if bound.dtype_name != x.dtype_name or bound.shape not in ((), x.shape):
        raise TypeError(at_user_line(f"clamp: a bound of {x.dtype_name}{list(x.shape)} has its dtype, and its shape or rank 0; got "
                                     f"{bound.dtype_name}{list(bound.shape)}"))
    return bound


def concatenate(operands, dimension):
    """Arrays behind one another along a dim."""
    return _concatenate(operands, axis=dimension)


def conv(lhs, rhs, window_strides, padding):
    """Cross-correlation of lhs[n, c, spatial...] with rhs[out, c, kernel...]; `padding` is "SAME", "VALID", or a pair (low, high) for
    each spatial dim. rlx.conv has dilation and groups, too."""
    return _conv(lhs, rhs, tuple(window_strides), padding)


def expand_dims(array, dimensions):
    """New dims of extent 1 at these places of the result."""
    from .numpy import expand_dims as expanded
    return expanded(array, tuple(dimensions))


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


def dynamic_slice(operand, start_indices, slice_sizes):
    """The block of these extents that begins at start_indices, one for each dim, moved to lie within the array where it would
    reach out of it. Negative indices count from the end, as in JAX; those of rlx.ops.dynamic_slice do not."""
    x = as_array(operand)
    return ops.dynamic_slice(x, *_starts(x, start_indices), sizes=tuple(slice_sizes))


def dynamic_update_slice(operand, update, start_indices):
    """operand with `update` at start_indices, moved to lie within the array where it would reach out of it. Negative indices
    count from the end."""
    x = as_array(operand)
    return ops.dynamic_update_slice(x, as_array(update), *_starts(x, start_indices))


def _starts(x, indices):
    indices = [as_array(i) for i in indices]
    if len(indices) != x.ndim:
        raise TypeError(at_user_line(f"an array of rank {x.ndim} is sliced from {x.ndim} indices on, got {len(indices)}"))
    for i in indices:
        if not _dtypes.is_integer(i.dtype_name) or i.ndim != 0:
            raise TypeError(at_user_line(f"an index is one integer, got {i.dtype_name}{list(i.shape)}"))
    return [as_array(_from_front(i, n), "i32") for i, n in zip(indices, x.shape)]
