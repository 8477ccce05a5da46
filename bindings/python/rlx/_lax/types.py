"""The settings and dimension numbers of rlx.lax's functions, with the members of jax.lax's."""

import enum
from typing import NamedTuple, Sequence

from .._native import at_user_line


class Precision(enum.Enum):
    """How exactly products are computed, at the least. RLX always computes f32 as f32."""
    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class RoundingMethod(enum.Enum):
    """Where a number halfway between two integers goes."""
    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class GatherScatterMode(enum.Enum):
    """What becomes of slices that do not lie within the array."""
    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3


class FftType(enum.Enum):
    """The kinds of Fourier transforms."""
    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


class RandomAlgorithm(enum.Enum):
    """The generators of rng_bit_generator; RNG_DEFAULT is what there is."""
    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


class ConvDimensionNumbers(NamedTuple):
    """Where batch, feature and spatial dims stand in the operands and the result of a convolution: (batch, feature, spatial...),
    of rhs (output features, input features, spatial...)."""
    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


class GatherDimensionNumbers(NamedTuple):
    """How dims of the result, of the indices and of the operand of a gather belong together."""
    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """How dims of the updates, of the indices and of the operand of a scatter belong together."""
    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class RaggedDotDimensionNumbers:
    """The dims of ragged_dot_general: those of its dot_general, the ragged one of lhs, and that of the groups of rhs."""

    def __init__(self, dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions):
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dot_dimension_numbers
        self.dot_dimension_numbers = ((tuple(lhs_contract), tuple(rhs_contract)), (tuple(lhs_batch), tuple(rhs_batch)))
        self.lhs_ragged_dimensions, self.rhs_group_dimensions = tuple(lhs_ragged_dimensions), tuple(rhs_group_dimensions)


_PRECISIONS = {"default", "high", "highest", "fastest", "float32", "bfloat16", "bfloat16_3x", "tensorfloat32"}


def check_precision(name, precision):
    """What RLX computes is as exact as the greatest of them asks, so that each is honoured; algorithms by name are not there."""
    for each in precision if isinstance(precision, (tuple, list)) else (precision,):
        if each is not None and not isinstance(each, Precision) and not (isinstance(each, str) and each.lower() in _PRECISIONS):
            raise ValueError(at_user_line(f"the precision of {name} is {each!r}; it is None, a Precision, or its name"))


def check_accuracy(name, accuracy):
    if accuracy is not None:
        raise NotImplementedError(at_user_line(f"{name} takes no accuracy, got {accuracy!r}: each function has one"))
