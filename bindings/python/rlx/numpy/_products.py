"""Products of vectors and matrices in stacks, as the Array API has them, and the order of einsum's products."""

from .._array import as_array
from . import _elementwise as ew
from ._linear import in_dtype, matmul
from ._shape import expand_dims, moveaxis, squeeze, swapaxes


def matrix_transpose(x):
    """The last two dims exchanged."""
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(f"a matrix has at least two dims, got the shape {x.shape}")
    return swapaxes(x, -1, -2)


def vecdot(x1, x2, *, axis=-1, preferred_element_type=None):
    """The sum of products along an axis, x1 conjugated; the other dims broadcast."""
    if preferred_element_type is not None:
        return in_dtype(vecdot, preferred_element_type, x1, x2, axis=axis)
    a, b = ew.promoted(x1, x2)
    if not a.ndim or not b.ndim:
        raise ValueError(f"vecdot takes vectors, or stacks of them, got ranks {a.ndim} and {b.ndim}")
    a, b = moveaxis(ew.conj(a), axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"vecdot of vectors of {a.shape[-1]} and {b.shape[-1]} elements")
    return squeeze(matmul(expand_dims(a, -2), expand_dims(b, -1)), (-1, -2))


def matvec(x1, x2):
    """Matrices times vectors, in stacks that broadcast."""
    a, b = ew.promoted(x1, x2)
    if a.ndim < 2 or b.ndim < 1:
        raise ValueError(f"matvec takes a matrix and a vector, or stacks of them, got ranks {a.ndim} and {b.ndim}")
    return squeeze(matmul(a, expand_dims(b, -1)), -1)


def vecmat(x1, x2):
    """Vectors, conjugated, times matrices, in stacks that broadcast."""
    a, b = ew.promoted(x1, x2)
    if a.ndim < 1 or b.ndim < 2:
        raise ValueError(f"vecmat takes a vector and a matrix, or stacks of them, got ranks {a.ndim} and {b.ndim}")
    return squeeze(matmul(expand_dims(ew.conj(a), -2), b), -2)


def einsum_path(subscripts, *operands, optimize="auto"):
    """(the order of the products that einsum takes with `optimize`, a text about their cost), as NumPy's."""
    from ._linear import einsum_order
    return einsum_order(subscripts, [as_array(x).shape for x in operands], optimize)
