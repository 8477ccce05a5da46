"""Questions about dtypes, and about what is an array: answered in Python, traced or not."""

import numpy as np

from .. import _dtypes
from .._array import WIDE_NUMBERS, Array, as_array, is_number
from .._dtypes import bfloat16

# Python's types and numbers are weak: they take the dtype of what is beside them.
_WEAK = {bool: False, int: 0, float: 0.0, complex: 0j}


def dtype_of(x):
    """RLX's name for the dtype of an array, or for what means a dtype."""
    if isinstance(x, Array):
        return x.dtype_name
    if isinstance(x, (np.ndarray, np.generic, list, tuple)) or hasattr(x, "__array__") and not isinstance(x, type):
        return as_array(x).dtype_name
    return _dtypes.name_of(x)


def result_type(*arrays_and_dtypes):
    """The dtype that arrays and dtypes promote to together, as in JAX: Python's numbers, and its types int, float, complex and bool,
    take that of the others."""
    if not arrays_and_dtypes:
        raise ValueError("result_type takes at least one array or dtype")
    name, weak = None, []
    has_array = any(isinstance(x, (Array, np.ndarray)) for x in arrays_and_dtypes)
    for x in arrays_and_dtypes:
        if is_number(x) or has_array and type(x) in WIDE_NUMBERS:
            weak.append(x)
        elif isinstance(x, type) and x in _WEAK:
            weak.append(_WEAK[x])
        else:
            other = dtype_of(x)
            name = other if name is None else _dtypes.promote(name, other)
    for x in weak:
        name = _dtypes.weak_dtype(x) if name is None else _dtypes.with_weak(name, x)
    return _dtypes.numpy_of(name)


def promote_types(a, b):
    """The dtype that two of them promote to, as in JAX."""
    return result_type(*[_dtypes.name_of(x) if isinstance(x, str) else x for x in (a, b)])


def can_cast(from_, to, casting="safe"):
    """Whether an array or dtype becomes another dtype by NumPy's rule of that name: no, equiv, safe, same_kind or unsafe."""
    return np.can_cast(_dtypes.numpy_of(dtype_of(from_)), _dtypes.numpy_of(_dtypes.name_of(to)), casting)


def _is_of_ml_dtypes(x):
    """Floats that NumPy has no class for."""
    try:
        dtype = np.dtype(x)
    except TypeError:
        return x == "bf16"
    return dtype == bfloat16 or dtype in _dtypes.FROM_NUMPY and _dtypes.FROM_NUMPY[dtype].startswith("f8")


def issubdtype(arg1, arg2):
    """Whether a dtype is another one, or of a class of NumPy's: np.integer, np.floating ... bfloat16 is a floating one."""
    if isinstance(arg1, str) and arg1 in _dtypes.TO_NUMPY:
        arg1 = _dtypes.numpy_of(_dtypes.name_of(arg1))
    if isinstance(arg2, str) and arg2 in _dtypes.TO_NUMPY:
        arg2 = _dtypes.numpy_of(_dtypes.name_of(arg2))
    if not (isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1.__module__ == "numpy") and _is_of_ml_dtypes(arg1):
        if isinstance(arg2, type) and issubclass(arg2, np.generic) and arg2.__module__ == "numpy":
            return issubclass(np.floating, arg2)
        return np.dtype(arg1) == np.dtype(arg2)
    return np.issubdtype(arg1, arg2)


def isdtype(dtype, kind):
    """Whether a dtype is `kind`: another dtype, or one of "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating" and "numeric", or one of several of those."""
    name = _dtypes.name_of(dtype)
    kinds = {"bool": name == "bool", "signed integer": name[0] == "i", "unsigned integer": name[0] == "u",
             "integral": name[0] in "iu", "real floating": _dtypes.is_float(name), "complex floating": _dtypes.is_complex(name),
             "numeric": name != "bool"}
    for each in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(each, str) and each in kinds:
            if kinds[each]:
                return True
        elif isinstance(each, str) and each not in _dtypes.TO_NUMPY and each not in _dtypes._LONG:
            raise ValueError(f"there is no kind {each!r} of dtypes; there are {', '.join(kinds)}")
        elif _dtypes.name_of(each) == name:
            return True
    return False


def iscomplexobj(x):
    """Whether the dtype is complex, whatever the elements are."""
    return False if x is None else _dtypes.is_complex(as_array(x).dtype_name)


def isrealobj(x):
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element):
    """Whether it is a number, or an array of rank 0, as in JAX."""
    return element.ndim == 0 if isinstance(element, (Array, np.ndarray)) else is_number(element) or isinstance(element, np.generic)


def iterable(y):
    """Whether Python can go over it."""
    try:
        iter(y)
    except TypeError:
        return False
    return True


def ndim(a):
    """How many dims there are."""
    return as_array(a).ndim


def shape(a):
    """The extents."""
    return as_array(a).shape


def size(a, axis=None):
    """How many elements there are, in all or along an axis or several."""
    from ._shape import axes_of
    x, count = as_array(a), 1
    for d in axes_of(axis, x.ndim):
        count *= x.shape[d]
    return count
