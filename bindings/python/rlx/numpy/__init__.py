"""Functions of arrays as NumPy and jax.numpy have them: any dtype, axis and shape, traced or not.

They differ from NumPy where JAX does: results are arrays of RLX, defaults are float32 and int32, a float beside an integer
keeps its width, an index out of range reads as NaN, and nothing is changed in place (`x.at[index].set(values)`).

A dtype may be given as NumPy's ("float32", "f4", np.float32) or by RLX's name ("f32", "bf16"). Two strings are both, "i8" and
"u8": here they are NumPy's, int64 and uint64, while in `rlx.ops` and in the textual IR they are integers of 8 bits.
"""

import math as _math

import numpy as _np

from ._creation import (arange, array, asarray, astype, empty, eye, from_dlpack, full, full_like, identity, linspace, logspace, meshgrid,
                        ones, ones_like, tri, zeros, zeros_like)
from ._elementwise import *  # noqa: F403
from ._elementwise import abs, round  # shadow the builtins on purpose
from ._indexing import take, take_along_axis
from ._linear import cross, diagonal, dot, einsum, inner, kron, matmul, outer, tensordot, trace, vdot
from ._reductions import (all, amax, amin, any, argmax, argmin, average, count_nonzero, cumprod, cumsum, max, mean, min, prod,
                          std, sum, var)
from ._shape import (array_split, concat, concatenate, expand_dims, flip, moveaxis, pad, permute_dims, ravel, repeat, reshape,
                     roll, split, squeeze, stack, swapaxes, tile, transpose)

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
bool_, int8, int16, int32, int64 = _np.bool_, _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float16, float32, float64, complex64, complex128 = _np.float16, _np.float32, _np.float64, _np.complex64, _np.complex128
from .._dtypes import bfloat16, finfo, iinfo  # noqa: E402
from .._array import Array as ndarray  # noqa: E402
from ._more_elementwise import (allclose, angle, array_equal, copysign, deg2rad, degrees, fmax, fmin, frexp, gcd, heaviside, hypot,  # noqa: E402
                                isclose, iscomplex, isneginf, isposinf, isreal, lcm, ldexp, logaddexp2, nan_to_num, nextafter,
                                rad2deg, radians, signbit, sinc)
from ._more_shape import (atleast_1d, atleast_2d, atleast_3d, column_stack, diag, diagflat, diff, dstack, fliplr, flipud, hstack,  # noqa: E402
                          rot90, tril, tril_indices, triu, triu_indices, unravel_index, vstack)
from ._sorting import argsort, argwhere, bincount, digitize, isin, nonzero, searchsorted, sort, unique  # noqa: E402
from ._statistics import (corrcoef, cov, gradient, histogram, histogram_bin_edges, histogramdd, median, nanmean, nanquantile, nansum,  # noqa: E402
                          percentile, quantile)
