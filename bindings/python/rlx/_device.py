"""Arrays on devices: handles of the C ABI, and how elements come there and back."""

import ctypes
import json
import os
import weakref
from ctypes import byref, c_void_p
from typing import NamedTuple

import numpy as np

from . import _dtypes, _native
from ._native import Error, at_user_line, check, lib, path_bytes


class DeviceInfo(NamedTuple):
    """A device, as `device_infos()` lists it."""

    name: str          # what `Session`, `jit(device=...)` and `dispatch_report` take
    available: bool    # whether it can run here
    accelerates: bool  # whether it computes faster than the processor that this program runs on
    description: str   # what it is here, or why it is not available


class Transfers(NamedTuple):
    """What the host and a device exchanged, as `transfers()` gives it."""

    host_waits: int        # waits of the host: for elements, or for the end of a run that has none to give
    copies_to_device: int
    bytes_to_device: int
    copies_to_host: int
    bytes_to_host: int
    donated_copies: int    # donated inputs that were copied first, because their old values are still read


def transfers(device=None):
    """What the host and a device with memory of its own exchanged since the process began, as `Transfers`; all 0 for a device that
    computes in the host's memory, as "cpu" does. Without a name: the default device. Raises KeyError for a device that is not known."""
    counts = _native.Transfers(ctypes.sizeof(_native.Transfers))
    check(lib.rlx_device_transfers, (device or default_device()).encode(), byref(counts))
    return Transfers(*[getattr(counts, field) for field in Transfers._fields])


def device_infos():
    """Every device that RLX knows, as `DeviceInfo`s; those that are not available say why."""
    return [DeviceInfo(**d) for d in json.loads(_native.owned_text(lib.rlx_devices))]


def devices():
    """The names of the devices that can run here, as a list; the processor, "cpu", is one."""
    return [d.name for d in device_infos() if d.available]


def device_target(device=""):
    """What the compiler knows of a device, as a dictionary: the dtypes that it lacks, its memory, its limits (None where there is
    none), the ops that it claims, what it fuses, its own passes, and the facts that its compiled graphs depend on. docs/runtime.md,
    "What a device is, as data", explains each. The hardware need not be there."""
    return json.loads(_native.owned_text(lib.rlx_device_target, str(device).encode()))


def load_plugin(path):
    """Loads a shared library that brings backends (`rlx/backend.h`): its devices are listed and named like any other from then on. It stays
    loaded. Fails if it cannot be loaded, brings nothing, or is linked to a copy of RLX of its own; a backend needs the header alone."""
    check(lib.rlx_load_plugin, path_bytes(path))


def default_device():
    return os.environ.get("RLX_DEVICE") or "cpu"


def is_on_host(device):
    """Whether the host may point into the memory that the device's arrays are in."""
    if device not in _host_access:
        about = _native.Memory(ctypes.sizeof(_native.Memory))
        check(lib.rlx_device_memory, device.encode(), byref(about))
        _host_access[device] = about.host_access
    return _host_access[device] == 0


_host_access = {}


class OnDevice:
    """A tensor in a device's memory: an owned rlx_device_tensor."""

    __slots__ = ("handle", "device", "_finalizer", "__weakref__")

    def __init__(self, handle, device):
        self.handle, self.device = handle, device
        self._finalizer = weakref.finalize(self, lib.rlx_device_tensor_free, handle)

    def why_gone(self):
        return lib.rlx_device_tensor_why_gone(self.handle).decode()

    def shape(self):
        return tuple(lib.rlx_device_tensor_dims(self.handle)[: lib.rlx_device_tensor_rank(self.handle)])

    def dtype_name(self):
        return lib.rlx_device_tensor_dtype(self.handle).decode()

    def to_host(self):
        """A NumPy array of the elements; waits for them, and raises what prevented them."""
        tensor = c_void_p()
        check(lib.rlx_device_tensor_to_host, self.handle, byref(tensor))
        try:
            a = np.empty(self.shape(), _dtypes.numpy_of(self.dtype_name()))
            ctypes.memmove(a.ctypes.data, lib.rlx_tensor_data(tensor), a.nbytes)
            return a
        finally:
            lib.rlx_tensor_free(tensor)

    def to(self, device):
        handle = c_void_p()
        check(lib.rlx_device_tensor_to, self.handle, device.encode(), byref(handle))
        return OnDevice(handle, device)

    def wait(self):
        """Returns when the elements are there; raises what prevented them."""
        if why := self.why_gone():
            raise Error(at_user_line(f"the array of {self.dtype_name()} on {self.device} is gone: {why}"))
        event = c_void_p()
        check(lib.rlx_device_tensor_ready, self.handle, byref(event))
        try:
            check(lib.rlx_event_wait, event, -1, None)
        finally:
            lib.rlx_event_free(event)


def put(a, device):
    """The elements of a NumPy array on a device."""
    a = np.asarray(a, order="C")
    dims = (ctypes.c_int64 * max(1, a.ndim))(*a.shape)
    tensor, handle = c_void_p(), c_void_p()
    check(lib.rlx_tensor_create, _dtypes.FROM_NUMPY[a.dtype].encode(), dims, a.ndim, a.ctypes.data, a.nbytes, byref(tensor))
    try:
        check(lib.rlx_device_put, tensor, device.encode(), byref(handle))
    finally:
        lib.rlx_tensor_free(tensor)
    return OnDevice(handle, device)


def submit(compiled, given):
    """Begins a run on tensors of the device that it was compiled for; what it gives, as OnDevice."""
    n, m = len(given), len(compiled.outputs)
    inputs, outputs = (c_void_p * max(1, n))(*[t.handle.value for t in given]), (c_void_p * max(1, m))()
    check(lib.rlx_compiled_submit, compiled.handle, inputs, n, outputs, m, None)
    return [OnDevice(c_void_p(outputs[i]), compiled.session.device) for i in range(m)]
