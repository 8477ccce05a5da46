"""The functions of `jax.lax`, under its names and with its arguments.

Operands of one function have one dtype and shape here, as in JAX; the functions of `rlx.numpy` promote and broadcast. What JAX's
module has and this one has not is about several devices, or about JAX's own insides.
"""

from ._associative_scan import associative_scan
from ._control import cond, fori_loop, scan, switch, while_loop
from ._lax.convolution import (conv, conv_dimension_numbers, conv_general_dilated, conv_general_dilated_local, conv_general_dilated_patches,
                               conv_general_permutations, conv_general_shape_tuple, conv_shape_tuple, conv_transpose,
                               conv_transpose_shape_tuple, conv_with_general_padding, padtype_to_pads)
from ._lax.elementwise import (abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitcast_convert_type, bitwise_and, bitwise_not,
                               bitwise_or, bitwise_xor, cbrt, ceil, clamp, clz, complex, conj, convert_element_type, cos, cosh, div, dtype, eq,
                               exp, exp2, expm1, floor, ge, gt, imag, integer_pow, is_finite, le, log, log1p, logistic, lt, max, min, mul,
                               mulhi, ne, neg, nextafter, optimization_barrier, population_count, pow, real, reciprocal, reduce_precision,
                               rem, round, rsqrt, select, select_n, shift_left, shift_right_arithmetic, shift_right_logical, sign, sin, sinh,
                               sqrt, square, stop_gradient, sub, tan, tanh)
from ._lax.indexing import (dynamic_index_in_dim, dynamic_slice, dynamic_slice_in_dim, dynamic_update_index_in_dim, dynamic_update_slice,
                            dynamic_update_slice_in_dim, gather, index_take, scatter, scatter_add, scatter_apply, scatter_max, scatter_min,
                            scatter_mul, scatter_sub)
from ._lax.others import fft, rng_bit_generator
from ._lax.products import batch_matmul, dot, dot_general, ragged_dot, ragged_dot_general
from ._lax.reductions import (approx_max_k, approx_min_k, argmax, argmin, cumlogsumexp, cummax, cummin, cumprod, cumsum, reduce, reduce_and,
                              reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum, reduce_window, reduce_window_shape_tuple, reduce_xor,
                              sort, sort_key_val, top_k)
from ._lax.shapes import (broadcast, broadcast_in_dim, broadcast_like, broadcast_shapes, broadcast_to_rank, broadcasted_iota, collapse,
                          concatenate, empty, expand_dims, full, full_like, index_in_dim, iota, pad, reshape, rev, shape_as_value, slice,
                          slice_in_dim, split, squeeze, stack, tile, transpose, unstack)
from ._lax.solvers import custom_linear_solve, custom_root
from ._lax.special import (bessel_i0e, bessel_i1e, betainc, digamma, erf, erf_inv, erfc, igamma, igamma_grad_a, igammac, lgamma, polygamma,
                           random_gamma_grad, zeta)
from ._lax.types import (ConvDimensionNumbers, FftType, GatherDimensionNumbers, GatherScatterMode, Precision, RaggedDotDimensionNumbers,
                         RandomAlgorithm, RoundingMethod, ScatterDimensionNumbers)
from ._map import map

__all__ = [name for name in dir() if not name.startswith("_")]
