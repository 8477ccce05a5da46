"""Arrays from bytes, text and NumPy's files, and to them; how arrays are printed."""

import numpy as np

from .. import _dtypes
from .._array import as_array
from .._dtypes import bfloat16


def _layout(dtype):
    """How elements lie in bytes: `float` and `int` are NumPy's here, of 8 bytes."""
    return _dtypes.numpy_of(_dtypes.name_of(dtype)) if isinstance(dtype, str) else np.dtype(dtype)


def frombuffer(buffer, dtype=float, count=-1, offset=0):
    """The elements that lie in an object's bytes, from `offset` on, copied. `float` is 8 bytes here, as in NumPy."""
    return as_array(np.frombuffer(buffer, _layout(dtype), count, offset).copy())


def fromfile(file, dtype=float, count=-1, sep="", offset=0):
    """The elements in a file, as bytes, or with `sep` as text. `float` is 8 bytes here, as in NumPy."""
    return as_array(np.fromfile(file, _layout(dtype), count, sep, offset))


def fromiter(iter, dtype, count=-1):
    """The numbers that Python's iterable gives, as a vector."""
    name = _dtypes.name_of(dtype)
    return as_array(np.fromiter(iter, _dtypes.numpy_of(name), count))


def fromstring(string, dtype=float, count=-1, *, sep):
    """The numbers in a text, between which `sep` stands."""
    if not sep:
        raise ValueError("fromstring reads text, whose numbers a sep is between; bytes are frombuffer's")
    return as_array(np.fromstring(string, _dtypes.numpy_of(_dtypes.name_of(dtype)), count, sep=sep))


def _to_file(x):
    x = as_array(x)
    if x.dtype_name.startswith("f8"):
        raise TypeError(f"NumPy's files have no {x.dtype}; rlx.save writes it")
    return x._elements("it was to be saved")


def save(file, arr, allow_pickle=True):
    """Writes an array to a file of NumPy's format (.npy). Nothing is pickled, so that `allow_pickle` makes no difference."""
    np.save(file, _to_file(arr), allow_pickle=False)


def savez(file, *args, allow_pickle=True, **kwds):
    """Writes arrays to an archive of such files (.npz), by their names, or as arr_0, arr_1 ..."""
    np.savez(file, *[_to_file(x) for x in args], **{k: _to_file(x) for k, x in kwds.items()})


def load(file, mmap_mode=None, allow_pickle=False):
    """The array in a file of NumPy's format; of an archive NumPy's object, whose values are read when they are asked for. Objects, which
    are pickled, are no arrays."""
    if allow_pickle:
        raise ValueError("what is pickled is no array of RLX, and unpickling runs code from the file; load it with NumPy")
    made = np.load(file, mmap_mode, allow_pickle=False)
    if not isinstance(made, np.ndarray):
        return made
    if made.dtype == np.dtype("V2") and bfloat16 is not None:  # NumPy's format has no name for it
        made = made.view(bfloat16)
    return as_array(made)


def _printed(x, prefix, max_line_width, precision, suppress_small, separator):
    return np.array2string(x._elements("it was to be printed"), max_line_width, precision, suppress_small, separator, prefix)


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """repr of an array, with other widths than those of printoptions."""
    x = as_array(arr)
    return repr(x) if x.is_traced else f"Array({_printed(x, 'Array(', max_line_width, precision, suppress_small, ', ')}, dtype={x.dtype})"


def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    """str of an array, with other widths than those of printoptions."""
    x = as_array(a)
    return repr(x) if x.is_traced else _printed(x, "", max_line_width, precision, suppress_small, " ")


def get_printoptions():
    """How arrays are printed: NumPy's options, which hold for arrays of RLX too."""
    return np.get_printoptions()


def set_printoptions(*args, **kwargs):
    """Sets how arrays are printed: numpy.set_printoptions."""
    np.set_printoptions(*args, **kwargs)


def printoptions(*args, **kwargs):
    """Sets how arrays are printed within a `with`: numpy.printoptions."""
    return np.printoptions(*args, **kwargs)
