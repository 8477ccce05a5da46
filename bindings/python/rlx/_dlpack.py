"""DLPack beyond what NumPy does: bf16, which it refuses. The elements travel as 16-bit integers, and the capsule says bf16.

Layouts of DLManagedTensor and DLManagedTensorVersioned: dlpack.h, version 1.0.
"""

import ctypes

import numpy as np

from . import _device, _dtypes
from ._native import at_user_line

_UINT, _BFLOAT = 1, 4  # DLDataTypeCode
_EXTENSION = 12  # of DLDeviceType: what has no kind of its own
_KNOWS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
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


_CPU = 1  # DLDeviceType
_KINDS = {1: "CPU", 2: "CUDA", 3: "CUDA's pinned memory", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 12: "an extension's",
          13: "CUDA's managed memory", 14: "oneAPI", 15: "WebGPU"}


def _named(device):
    return f"{_KINDS.get(device[0], f'kind {device[0]}')} (DLPack device {device})"


def from_dlpack(x):
    """A NumPy array that shares the memory of another package's array, or has a copy of it, where the host cannot point into it and
    the other package copies on demand."""
    device = tuple(int(v) for v in x.__dlpack_device__())
    if device[0] == _CPU:
        capsule = x.__dlpack__()
    else:  # Whose memory the host cannot point into.
        try:
            capsule = x.__dlpack__(max_version=(1, 0), dl_device=(_CPU, 0))
        except (TypeError, BufferError, RuntimeError, ValueError) as error:
            raise BufferError(at_user_line(f"the array is on {_named(device)}, into whose memory the host cannot point, and its package "
                                           f"does not copy it ({error}); copy it to the host first")) from error
        device = (_CPU, 0)
    dtype = _dtype_of(capsule)
    if dtype is None or tuple(dtype) != (_BFLOAT, 16):
        return np.from_dlpack(_Given(capsule, device))
    dtype[0] = _UINT
    return np.from_dlpack(_Given(capsule, device)).view(_dtypes.numpy_of("bf16"))


def device_of(x):
    """DLPack's name of where an array is. A device whose memory the host cannot point into has none there: the kind for extensions."""
    return (_CPU, 0) if x._data is not None or _device.is_on_host(x.device) else (_EXTENSION, 0)


def to_dlpack(x, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A capsule that shares the memory of an array, or has a copy of it. It says that nobody may write there, if whoever asks knows
    version 1 of the protocol and the memory is shared: a capsule of before cannot."""
    here = device_of(x)
    target = here if dl_device is None else tuple(int(v) for v in dl_device)
    is_copied = here != (_CPU, 0)
    if is_copied and dl_device is None and not copy:
        raise BufferError(at_user_line(f"the array is on {x.device}, into whose memory the host cannot point: copy it with np.asarray(x) or "
                                       "device_put(x, 'cpu'), or ask for copy=True or dl_device=(1, 0)"))
    if target != (_CPU, 0) and dl_device is not None:
        raise BufferError(at_user_line(f"the array is on {x.device}, and its elements are handed out in the host's memory alone, not in that "
                                       f"of {_named(target)}"))
    if is_copied and copy is False:
        raise BufferError(at_user_line(f"the array is on {x.device}: its elements come to the host by a copy, and copy=False forbids it"))
    if stream is not None:
        raise BufferError(at_user_line(f"stream is {stream!r}; elements are handed out in the host's memory, which has no streams: it is None"))
    a = x._elements()
    if copy and not is_copied:
        a, is_copied = a.copy(), True
    has_version = (max_version or (0, 0))[0] >= 1
    if has_version and not is_copied:
        a = a.view()
        a.flags.writeable = False
    options = {"max_version": max_version} if has_version and _KNOWS_VERSIONS else {}
    if a.dtype != _dtypes.bfloat16:
        return a.__dlpack__(**options)
    capsule = a.view(np.uint16).__dlpack__(**options)
    _dtype_of(capsule)[0] = _BFLOAT
    return capsule
