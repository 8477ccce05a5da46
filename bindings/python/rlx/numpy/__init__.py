"""Functions of arrays as NumPy and jax.numpy have them: any dtype, axis and shape, traced or not.

They differ from NumPy where JAX does: results are arrays of RLX, defaults are float32 and int32, a float beside an integer
keeps its width, an index out of range reads as NaN, and nothing is changed in place (`x.at[index].set(values)`).

A dtype may be given as NumPy's ("float32", "f4", np.float32) or by RLX's name ("f32", "bf16"). Two strings are both, "i8" and
"u8": here they are NumPy's, int64 and uint64, while in `rlx.ops` and in the textual IR they are integers of 8 bits.
"""

import math as _math

import numpy as _np

from ._creation import (arange, array, asarray, astype, copy, empty, empty_like, eye, from_dlpack, full, full_like, geomspace, identity, linspace,
                        logspace, meshgrid, ones, ones_like, tri, zeros, zeros_like)
from ._elementwise import *  # noqa: F403
from ._elementwise import abs, round  # shadow the builtins on purpose
from ._indexing import take, take_along_axis
from ._linear import cross, diagonal, dot, einsum, inner, kron, matmul, outer, tensordot, trace, vdot
from ._reductions import (all, amax, amin, any, argmax, argmin, average, count_nonzero, cumprod, cumsum,
                          cumulative_prod, cumulative_sum, max, mean, min, prod, ptp, std, sum, var)
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
from ._sorting import (argpartition, argsort, argwhere, bincount, digitize, flatnonzero, isin, lexsort, nonzero, partition,  # noqa: E402
                       searchsorted, sort, sort_complex, where)
from ._statistics import (corrcoef, cov, gradient, histogram, histogram2d, histogram_bin_edges, histogramdd, median,  # noqa: E402
                          percentile, quantile)
from ._bits import packbits, unpackbits  # noqa: E402
from ._files import (array_repr, array_str, frombuffer, fromfile, fromiter, fromstring, get_printoptions, load, printoptions,  # noqa: E402
                     save, savez, set_printoptions)
from ._filters import convolve, correlate, ediff1d, interp, trapezoid  # noqa: E402
from ._functions import apply_along_axis, apply_over_axes, frompyfunc, ufunc, vectorize  # noqa: E402
from ._index_grids import (diag_indices, diag_indices_from, fromfunction, indices, ix_, mask_indices, ravel_multi_index,  # noqa: E402
                           tril_indices_from, triu_indices_from)
from ._index_tricks import c_, mgrid, ogrid, r_  # noqa: E402
from ._insertion import (append, compress, delete, extract, fill_diagonal, insert, place, put, put_along_axis, resize,  # noqa: E402
                         trim_zeros)
from ._more_arithmetic import array_equiv, bitwise_count, divmod, fabs, float_power, i0, modf, spacing, unwrap  # noqa: E402
from ._nan import (nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmedian, nanmin, nanpercentile, nanprod,  # noqa: E402
                   nanquantile, nanstd, nansum, nanvar)
from ._parts import block, dsplit, hsplit, rollaxis, unstack, vsplit  # noqa: E402
from ._polynomials import poly, polyadd, polyder, polydiv, polyfit, polyint, polymul, polysub, polyval, roots, vander  # noqa: E402
from ._products import einsum_path, matrix_transpose, matvec, vecdot, vecmat  # noqa: E402
from ._selection import choose, piecewise, select  # noqa: E402
from ._sets import (intersect1d, setdiff1d, setxor1d, union1d, unique, unique_all, unique_counts, unique_inverse,  # noqa: E402
                    unique_values)
from ._types import (can_cast, iscomplexobj, isdtype, isrealobj, isscalar, issubdtype, iterable, ndim, promote_types, result_type,  # noqa: E402
                     shape, size)
from ._windows import bartlett, blackman, hamming, hanning, kaiser  # noqa: E402

# The Array API's names, and NumPy's other ones.
acos, acosh, asin, asinh, atan, atan2, atanh = arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh  # noqa: F405
bitwise_invert, bitwise_left_shift, bitwise_right_shift = invert, left_shift, right_shift  # noqa: F405
around, pow = round, power  # noqa: F405

# Classes of dtypes, for issubdtype; they are NumPy's.
bool, int_, uint, float_, complex_ = _np.bool_, _np.int32, _np.uint32, _np.float32, _np.complex64
single, double, csingle, cdouble = _np.float32, _np.float64, _np.complex64, _np.complex128
generic, number, integer, signedinteger, unsignedinteger = _np.generic, _np.number, _np.integer, _np.signedinteger, _np.unsignedinteger
inexact, floating, complexfloating, character, flexible, object_ = (_np.inexact, _np.floating, _np.complexfloating, _np.character,
                                                                    _np.flexible, _np.object_)
dtype, euler_gamma, s_, index_exp = _np.dtype, _np.euler_gamma, _np.s_, _np.index_exp
