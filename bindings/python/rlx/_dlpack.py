"""DLPack beyond what NumPy does: bf16, which it refuses. The elements travel as 16-bit integers, and the capsule says bf16.

Layouts of DLManagedTensor and DLManagedTensorVersioned: dlpack.h, version 1.0.
"""

import ctypes

import numpy as np

from . import _dtypes

_UINT, _BFLOAT = 1, 4  # DLDataTypeCode
# Where DLDataType (code, bits: one byte each) stands behind the capsule's pointer, by the capsule's name.
_DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _dtype_of(capsule):
    """The code and the bits of a capsule's elements, to be read and written; None for a kind of capsule that is not known."""
    name = _name(capsule)
    if name not in _DTYPE_AT:
        return None
    return (ctypes.c_uint8 * 2).from_address(_pointer(capsule, name) + _DTYPE_AT[name])


class _Given:
    """A capsule that was already asked for, as what np.from_dlpack takes."""

    def __init__(self, capsule, device):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def from_dlpack(x):
    """A NumPy array that shares the memory of another package's array."""
    device = tuple(int(v) for v in x.__dlpack_device__())
    capsule = x.__dlpack__()
    dtype = _dtype_of(capsule)
    if dtype is None or tuple(dtype) != (_BFLOAT, 16):
        return np.from_dlpack(_Given(capsule, device))
    dtype[0] = _UINT
    return np.from_dlpack(_Given(capsule, device)).view(_dtypes.numpy_of("bf16"))


def to_dlpack(a, **options):
    """A capsule that shares the memory of a NumPy array. It says that nobody may write there, if whoever asks knows version 1 of
    the protocol: a capsule of before cannot."""
    if (options.get("max_version") or (0, 0))[0] >= 1:
        a = a.view()
        a.flags.writeable = False
    if a.dtype != _dtypes.bfloat16:
        return a.__dlpack__(**options)
    capsule = a.view(np.uint16).__dlpack__(**options)
    _dtype_of(capsule)[0] = _BFLOAT
    return capsule
