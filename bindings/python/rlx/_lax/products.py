"""The products of jax.lax."""

import operator

from .. import _dtypes, ops
from .._array import as_array, convert
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from .convolution import operands_of_one_dtype
from .types import RaggedDotDimensionNumbers, check_precision


def dot_general(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None):
    """Sums of products over the contracted dims for each index of the batch dims: dimension_numbers are ((lhs_contract, rhs_contract),
    (lhs_batch, rhs_batch)), the dims of the result the batch, the rest of lhs, the rest of rhs. Products are summed in
    preferred_element_type, which is the result's."""
    check_precision("dot_general", precision)
    lhs, rhs = as_array(lhs), as_array(rhs)
    result = None
    if preferred_element_type is not None:
        result = _dtypes.name_of(preferred_element_type)
        wide = result if all(_dtypes.bits(result) >= _dtypes.bits(x.dtype_name) for x in (lhs, rhs)) else _dtypes.promote(lhs.dtype_name, rhs.dtype_name)
        lhs, rhs = convert(lhs, wide), convert(rhs, wide)
    elif lhs.dtype_name != rhs.dtype_name:  # as JAX's, which takes them
        lhs, rhs = ew.promoted(lhs, rhs)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    made = ops.dot_general(lhs, rhs, lhs_batch=tuple(map(operator.index, lhs_batch)), rhs_batch=tuple(map(operator.index, rhs_batch)),
                           lhs_contract=tuple(map(operator.index, lhs_contract)), rhs_contract=tuple(map(operator.index, rhs_contract)))
    return made if result is None else convert(made, result)


def dot(lhs, rhs, *, dimension_numbers=None, precision=None, preferred_element_type=None):
    """Vector with vector, matrix with vector, vector with matrix or matrix with matrix; with dimension_numbers as dot_general."""
    lhs, rhs = as_array(lhs), as_array(rhs)
    if dimension_numbers is None:
        if not (1 <= lhs.ndim <= 2 and 1 <= rhs.ndim <= 2 and lhs.shape[-1] == rhs.shape[0]):
            raise Error(at_user_line(f"lax.dot takes vectors and matrices whose inner dims fit, or dimension_numbers, got shapes {lhs.shape} and "
                                     f"{rhs.shape}"), "shape_mismatch")
        dimension_numbers = (((lhs.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs, rhs, precision=None):
    """lhs[..., m, k] @ rhs[..., k, n] with the same dims before."""
    lhs, rhs = operands_of_one_dtype("batch_matmul", lhs, rhs)
    if lhs.ndim < 2 or lhs.ndim != rhs.ndim:
        raise Error(at_user_line(f"batch_matmul takes operands of one rank, of at least 2, got shapes {lhs.shape} and {rhs.shape}"), "shape_mismatch")
    batch = tuple(range(lhs.ndim - 2))
    return dot_general(lhs, rhs, (((lhs.ndim - 1,), (rhs.ndim - 2,)), (batch, batch)), precision)


def ragged_dot(lhs, rhs, group_sizes, precision=None, preferred_element_type=None, group_offset=None):
    """lhs[m, k] times a matrix of rhs[g, k, n] for each row: the first group_sizes[0] rows with the first, and so on. Rows behind all
    groups give 0."""
    from .. import numpy as rnp
    check_precision("ragged_dot", precision)
    if group_offset is not None:
        raise NotImplementedError(at_user_line("ragged_dot takes no group_offset"))
    lhs, rhs = operands_of_one_dtype("ragged_dot", lhs, rhs)
    sizes = _group_sizes("ragged_dot", group_sizes)
    if lhs.ndim != 2 or rhs.ndim != 3 or sizes.shape != (rhs.shape[0],):
        raise Error(at_user_line(f"ragged_dot takes lhs[m, k], rhs[g, k, n] and group_sizes[g], got shapes {lhs.shape}, {rhs.shape} and "
                                 f"{sizes.shape}"), "shape_mismatch")
    result = lhs.dtype_name if preferred_element_type is None else _dtypes.name_of(preferred_element_type)
    if _dtypes.bits(result) > _dtypes.bits(lhs.dtype_name):
        lhs, rhs = convert(lhs, result), convert(rhs, result)
    group = _groups_of_rows(lhs.shape[0], sizes)
    made = ops.grouped_matmul(lhs, rhs, group)  # NaN behind all groups, with a gradient of 0
    return convert(rnp.where(rnp.expand_dims(group < rhs.shape[0], 1), made, rnp.zeros_like(made)), result)


def _group_sizes(name, group_sizes):
    sizes = as_array(group_sizes)
    if not _dtypes.is_integer(sizes.dtype_name):
        raise TypeError(at_user_line(f"{name} takes integers as group_sizes, got {sizes.dtype_name}"))
    return sizes


def _groups_of_rows(rows, sizes):
    """The group of each row; the number of groups for those behind all of them."""
    from .. import numpy as rnp
    ends = ops.cumsum(convert(sizes, "i32"), axis=0)
    return rnp.sum(rnp.expand_dims(ends, 0) <= rnp.expand_dims(rnp.arange(rows, dtype="int32"), 1), 1, dtype="int32")


def _ragged_sums(lhs, rhs, group_sizes, result):
    """lhs[m, k] and rhs[m, n] contracted over the rows of each group: [g, k, n]."""
    lhs, rhs = operands_of_one_dtype("ragged_dot_general", lhs, rhs)
    sizes = _group_sizes("ragged_dot_general", group_sizes)
    if sizes.ndim != 1:
        raise Error(at_user_line(f"ragged_dot_general takes group_sizes[g] here, got the shape {sizes.shape}"), "shape_mismatch")
    result = lhs.dtype_name if result is None else _dtypes.name_of(result)
    if _dtypes.bits(result) > _dtypes.bits(lhs.dtype_name):
        lhs, rhs = convert(lhs, result), convert(rhs, result)
    return convert(ops.segment_matmul(lhs, rhs, _groups_of_rows(lhs.shape[0], sizes), segments=sizes.shape[0]), result)


def ragged_dot_general(lhs, rhs, group_sizes, ragged_dot_dimension_numbers, precision=None, preferred_element_type=None, group_offset=None):
    """ragged_dot with its dims anywhere: one ragged dim of lhs, which is not contracted, one contracted dim, one of groups. With the
    ragged dim contracted, and no dim of groups, lhs and rhs are of rank 2: the sums over the rows of each group, [g, ...]."""
    from .. import numpy as rnp
    numbers = ragged_dot_dimension_numbers
    if not isinstance(numbers, RaggedDotDimensionNumbers):
        raise TypeError(at_user_line("ragged_dot_general takes RaggedDotDimensionNumbers"))
    (lhs_contract, rhs_contract), batch = numbers.dot_dimension_numbers
    lhs, rhs = as_array(lhs), as_array(rhs)
    if batch == ((), ()) and len(lhs_contract) == 1 and numbers.lhs_ragged_dimensions == lhs_contract and not numbers.rhs_group_dimensions and \
            lhs.ndim == rhs.ndim == 2 and group_offset is None:
        check_precision("ragged_dot_general", precision)
        return _ragged_sums(rnp.moveaxis(lhs, lhs_contract[0], 0), rnp.moveaxis(rhs, rhs_contract[0], 0), group_sizes, preferred_element_type)
    if batch != ((), ()) or len(lhs_contract) != 1 or len(numbers.lhs_ragged_dimensions) != 1 or len(numbers.rhs_group_dimensions) != 1 or \
            numbers.lhs_ragged_dimensions[0] in lhs_contract or lhs.ndim != 2 or rhs.ndim != 3:
        raise NotImplementedError(at_user_line("ragged_dot_general takes lhs of rank 2 and rhs of rank 3, with one ragged dim that is not contracted, "
                                               "one contracted dim and one of groups, or both of rank 2 with the ragged dim contracted; other forms are "
                                               "not there"))
    group, inner = numbers.rhs_group_dimensions[0], rhs_contract[0]
    return ragged_dot(rnp.moveaxis(lhs, lhs_contract[0], 1), rnp.moveaxis(rhs, (group, inner), (0, 1)), group_sizes, precision,
                      preferred_element_type, group_offset)
