"""A graph being built through the C ABI, and what is compiled from one."""

import ctypes
import os
import struct
import weakref
from ctypes import byref, c_char_p, c_size_t, c_void_p

import numpy as np

from . import _dtypes, _native
from ._native import CompileOptions, SessionOptions, Value, check, lib

_compiled_call, _empty = lib.rlx_compiled_call, np.empty


def parse_type(text):
    """"f32[N, 4]" -> ("f32", ("N", 4)). A dim that is no number stays text."""
    dtype, _, rest = text.partition("[")
    inside = rest[:-1]
    dims = tuple(int(d) if d.lstrip("-").isdigit() else d for d in inside.split(", ")) if inside else ()
    return dtype, dims


def type_text(dtype, dims):
    return f"{dtype}[{', '.join(map(str, dims))}]"


class Graph:
    """An owned rlx_graph. Values are `Value` structs, valid as long as the graph."""

    __slots__ = ("handle", "_results", "_types", "_count", "_size", "_error", "_inputs", "__weakref__", "_finalizer")

    def __init__(self, name="main", handle=None):
        if handle is None:
            handle = c_void_p()
            check(lib.rlx_graph_create, name.encode(), byref(handle))
        self.handle = handle
        self._finalizer = weakref.finalize(self, lib.rlx_graph_free, handle)
        self._results = (Value * 64)()
        self._types = ctypes.create_string_buffer(4096)
        self._count, self._size, self._error = c_size_t(), c_size_t(), c_void_p()
        self._inputs = 0

    @staticmethod
    def parse(text):
        handle, data = c_void_p(), text.encode()
        check(lib.rlx_graph_parse, data, len(data), byref(handle))
        return Graph(handle=handle)

    @staticmethod
    def load(path):
        handle = c_void_p()
        check(lib.rlx_graph_load, str(path).encode(), byref(handle))
        return Graph(handle=handle)

    def save(self, path):
        check(lib.rlx_graph_save, self.handle, str(path).encode())

    def input(self, dtype, dims, name=None):
        value = Value()
        name = name or f"x{self._inputs}"
        self._inputs += 1
        check(lib.rlx_graph_input, self.handle, name.encode(), type_text(dtype, dims).encode(), byref(value))
        return value

    def constant(self, array):
        """A literal, from a NumPy array of one of our dtypes."""
        array = np.asarray(array, order="C")
        dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        tensor, value = c_void_p(), Value()
        dtype = _dtypes.FROM_NUMPY[array.dtype]
        check(lib.rlx_tensor_create, dtype.encode(), dims, array.ndim, array.ctypes.data, array.nbytes, byref(tensor))
        try:
            check(lib.rlx_graph_constant, self.handle, tensor, byref(value))
        finally:
            lib.rlx_tensor_free(tensor)
        return value

    def emit(self, op, operands, attrs=None):
        """Adds a node; its results as [(Value, dtype, dims)]. One C call."""
        n = len(operands)
        given = (Value * n)(*operands) if n else None
        status = lib.rlx_graph_trace(self.handle, op.encode(), given, n, attrs.encode() if attrs else None, self._results,
                                     64, byref(self._count), self._types, 4096, byref(self._size), byref(self._error))
        if status:
            error, self._error = self._error, c_void_p()
            raise _native.failed(status, error)
        types = self._types.value.decode().split(";")
        if self._size.value > 4096:  # many results with long types: ask one by one
            types = [self.type_of(self._results[i]) for i in range(self._count.value)]
        out = []
        for i in range(self._count.value):
            r = self._results[i]
            out.append((Value(r.node, r.result), *parse_type(types[i])))
        return out

    def inline(self, other, inputs):
        """The nodes of another graph; its outputs as [(Value, dtype, dims)]."""
        n, room = len(inputs), other.count(2)
        results, count = (Value * max(1, room))(), c_size_t()
        check(lib.rlx_graph_inline, self.handle, other.handle, (Value * max(1, n))(*inputs), n, results, room, byref(count))
        return [(Value(r.node, r.result), *parse_type(self.type_of(r))) for r in results[: count.value]]

    def type_of(self, value):
        return _native.text_from(lib.rlx_graph_type, self.handle, value)

    def output(self, value, name=None):
        check(lib.rlx_graph_output, self.handle, value, name.encode() if name else None)

    def count(self, kind):
        return lib.rlx_graph_count(self.handle, kind)

    def types(self, kind):
        """Of inputs (0), params (1) or outputs (2), as [(dtype, dims)]."""
        return [parse_type(_native.text_from(lib.rlx_graph_signature_type, self.handle, kind, i))
                for i in range(self.count(kind))]

    def text(self):
        return lib.rlx_graph_text(self.handle).decode()

    def body_text(self):
        """As the value of an attribute: without the version line."""
        text = self.text()
        return text.split("\n", 1)[1].rstrip() if text.startswith("rlx ") else text.rstrip()

    def vjp(self, wrt, given, with_outputs):
        out = c_void_p()
        check(lib.rlx_graph_vjp, self.handle, _native.mask(wrt), _native.mask(given), int(with_outputs), byref(out))
        return Graph(handle=out)

    def jvp(self, active):
        out = c_void_p()
        check(lib.rlx_graph_jvp, self.handle, _native.mask(active), byref(out))
        return Graph(handle=out)

    def batch(self, batched, size):
        out = c_void_p()
        check(lib.rlx_graph_batch, self.handle, _native.mask(batched), str(size).encode(), byref(out))
        return Graph(handle=out)


_ACCURACIES = ("f32", "exact", "row_relative")  # in the order of rlx_compile_options


class Session:
    """A device with its thread pool, and the programs that were compiled for it.

    ``device`` is a name that ``rlx devices`` lists; without one it is what the environment variable RLX_DEVICE names, else the
    processor.
    """

    def __init__(self, device="", threads=0):
        self.handle = c_void_p()
        options = SessionOptions(ctypes.sizeof(SessionOptions), threads)
        check(lib.rlx_session_create, device.encode(), byref(options), byref(self.handle))
        self._finalizer = weakref.finalize(self, lib.rlx_session_free, self.handle)
        self.device = device or os.environ.get("RLX_DEVICE") or "cpu"

    def compile(self, graph, strict=False, accuracy="f32", batch_invariant=False):
        compiled = c_void_p()
        if accuracy not in _ACCURACIES:
            raise ValueError(f"accuracy is {', '.join(map(repr, _ACCURACIES))}, not {accuracy!r}")
        options = CompileOptions(ctypes.sizeof(CompileOptions), int(strict), 0, 0, _ACCURACIES.index(accuracy),
                                 int(batch_invariant))
        check(lib.rlx_compile, self.handle, graph.handle, byref(options), byref(compiled))
        return Compiled(compiled, graph.types(0), graph.types(2), self)


def address(a):
    """Where the elements of a NumPy array lie. The buffer protocol is four times as fast as NumPy's own attributes; arrays
    that are empty, read-only or of bf16 have no such buffer."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(a))
    except (TypeError, ValueError, BufferError):
        return a.__array_interface__["data"][0]


class Compiled:
    """A compiled graph. `call` takes and gives NumPy arrays in the graph's order."""

    def __init__(self, handle, inputs, outputs, session):
        self.handle, self.session = handle, session
        self.inputs, self.outputs = inputs, outputs
        self._finalizer = weakref.finalize(self, lib.rlx_compiled_free, handle)
        self.is_static = all(isinstance(d, int) for _, dims in inputs + outputs for d in dims)
        # Arrays of rlx_buffer as bytes: an address and a size for each.
        self._given = struct.Struct(f"={2 * len(inputs)}Q").pack
        self._room = struct.Struct(f"={2 * len(outputs)}Q").pack
        self._made = [(dims, _dtypes.numpy_of(dtype)) for dtype, dims in outputs]

    def call(self, arrays):
        """Contiguous arrays of the declared types in, new arrays out. One C call."""
        if not self.is_static:
            return self._call_dynamic(arrays)
        given, room, results = [], [], []
        for a in arrays:
            given.append(address(a))
            given.append(a.nbytes)
        for dims, dtype in self._made:
            a = _empty(dims, dtype)
            results.append(a)
            room.append(address(a))
            room.append(a.nbytes)
        error = c_void_p()
        status = _compiled_call(self.handle, self._given(*given), len(arrays), self._room(*room), len(results), byref(error))
        if status:
            raise _native.failed(status, error)
        return results

    def _call_dynamic(self, arrays):
        tensors = (c_void_p * max(1, len(arrays)))()
        outputs = (c_void_p * max(1, len(self.outputs)))()
        try:
            for i, a in enumerate(arrays):
                dims, handle = (ctypes.c_int64 * max(1, a.ndim))(*a.shape), c_void_p()
                check(lib.rlx_tensor_create, _dtypes.FROM_NUMPY[a.dtype].encode(), dims, a.ndim, a.ctypes.data, a.nbytes,
                      byref(handle))
                tensors[i] = handle.value
            check(lib.rlx_compiled_run, self.handle, tensors, len(arrays), outputs, len(self.outputs))
            results = []
            for i, (dtype, _) in enumerate(self.outputs):
                shape = tuple(lib.rlx_tensor_dims(outputs[i])[: lib.rlx_tensor_rank(outputs[i])])
                a = np.empty(shape, _dtypes.numpy_of(dtype))
                ctypes.memmove(a.ctypes.data, lib.rlx_tensor_data(outputs[i]), a.nbytes)
                results.append(a)
            return results
        finally:
            for handle in list(tensors) + list(outputs):
                lib.rlx_tensor_free(handle)

    def report(self):
        """Where each node runs and why, as the dictionary of `rlx where --json`."""
        import json
        text = c_char_p()
        check(lib.rlx_compiled_report, self.handle, byref(text))
        return json.loads(text.value)


_sessions = {}
_default_threads = 0  # as many as the machine has cores


def session_of(device="", threads=None):
    """The session that all share who ask for this device and number of threads."""
    device = str(device) or os.environ.get("RLX_DEVICE") or "cpu"
    key = (device, _default_threads if threads is None else threads)
    if key not in _sessions:
        _sessions[key] = Session(*key)
    return _sessions[key]


def default_session():
    return session_of()


def default_threads():
    return _default_threads


def set_default_threads(threads):
    global _default_threads
    _default_threads = threads
