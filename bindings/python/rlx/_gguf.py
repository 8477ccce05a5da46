"""GGUF files, as ggml and llama.cpp have them: weights in blocks, and metadata.

    file = rlx.GGUFFile("model-Q4_K_M.gguf")
    file.metadata["general.architecture"]         # 'llama'
    file.kind("output.weight")                    # 'Q6_K'
    file.tensor("output.weight", "bfloat16")      # Array: the elements of the blocks
    file.packed("output.weight")                  # PackedTensor: the blocks as they are in the file

    rlx.save_gguf("model.gguf", {"w": w, "v": file.packed("v")}, {"general.architecture": "mine", "layers": ("u32", 3)})
"""

import collections
import collections.abc
import ctypes
import json
import os
import weakref
from ctypes import byref, c_char_p, c_int64, c_void_p

import numpy as np

from . import _dtypes
from ._array import Array, as_array
from ._native import at_user_line, check, lib, path_bytes

PackedTensor = collections.namedtuple("PackedTensor", ["dtype", "shape", "data"])
PackedTensor.__doc__ = """Blocks as they are in memory: `dtype` is RLX's name, "q4_k"; `shape` that of the elements; `data` their bytes, uint8."""

_TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "u64", "i64", "f64")
_WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _numbers(value):
    return [_numbers(v) for v in value] if isinstance(value, list) else _WORDS.get(value, value)


class GGUFFile(collections.abc.Mapping):
    """A GGUF file of version 1 to 3, of either byte order; of a model in several files (X-00001-of-00003.gguf) all of them. It is a
    mapping from the names of tensors to arrays, each of which is read when it is asked for.

    path        a file, or any part of several
    mapped      tensors are pages of the file while they are copied from: nobody may cut or change it

    paths       the files
    version     1, 2 or 3
    byte_order  "little" or "big"
    alignment   of the data of each tensor, in bytes
    metadata    values by key, in the order of the file: numbers, bools, strings, and lists of one of them
    types       their types by key: "u32", "string", "array f32"

    Errors: a file that is damaged (rlx.Error, a ValueError too), one that is not there (FileNotFoundError), a name that is not in it
    (KeyError).
    """

    def __init__(self, path, mapped=False):
        self.path, self._handle, text = os.fspath(path), c_void_p(), c_char_p()
        check(lib.rlx_gguf_open, path_bytes(self.path), int(bool(mapped)), byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_gguf_free, self._handle)
        check(lib.rlx_gguf_describe, self._handle, byref(text))
        about = json.loads(text.value)
        self.paths, self.version, self.byte_order, self.alignment = (about[k] for k in ("paths", "version", "byte_order", "alignment"))
        self.types = {key: kind for key, (kind, _) in about["metadata"].items()}
        self.metadata = {key: _numbers(value) if kind.split()[-1] in ("f32", "f64") else value
                         for key, (kind, value) in about["metadata"].items()}
        self._entries = {entry["name"]: entry for entry in about["tensors"]}

    def __getitem__(self, name):
        return self.tensor(name)

    def __contains__(self, name):
        return name in self._entries

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)

    def __repr__(self):
        return f"GGUFFile({self.path!r}: {len(self)} tensors, {len(self.metadata)} values)"

    def kind(self, name):
        """What ggml calls the type of the tensor's elements: "F32", "Q4_K"."""
        return self._entry(name)["kind"]

    def shape(self, name):
        """Of its elements, the outermost dim first."""
        return tuple(self._entry(name)["shape"])

    def tensor(self, name, dtype="float32"):
        """The tensor as an array. Blocks become elements of `dtype`: float32, float64, float16 or bfloat16; other tensors keep theirs."""
        handle = self._tensor(name, _dtypes.name_of(dtype).encode())
        try:
            a = np.empty(self.shape(name), _dtypes.numpy_of(lib.rlx_tensor_dtype(handle).decode()))
            ctypes.memmove(a.ctypes.data, lib.rlx_tensor_data(handle), a.nbytes)
            return Array(a)
        finally:
            lib.rlx_tensor_free(handle)

    def packed(self, name):
        """The tensor's bytes, as a `PackedTensor`, which `save_gguf` takes."""
        handle = self._tensor(name, None)
        try:
            data = np.empty(lib.rlx_tensor_size(handle), np.uint8)
            ctypes.memmove(data.ctypes.data, lib.rlx_tensor_data(handle), data.nbytes)
            return PackedTensor(lib.rlx_tensor_dtype(handle).decode(), self.shape(name), data)
        finally:
            lib.rlx_tensor_free(handle)

    def _tensor(self, name, dtype):
        handle = c_void_p()
        check(lib.rlx_gguf_tensor, self._handle, name.encode(errors="replace"), dtype, byref(handle))
        return handle

    def _entry(self, name):
        if name not in self._entries:
            lib.rlx_tensor_free(self._tensor(name, None))  # whose error names the nearest ones
        return self._entries[name]


def load_gguf(path, dtype="float32"):
    """All tensors of a GGUF file, a dict of arrays by their names. Blocks become elements of `dtype`, as `GGUFFile.tensor` has it."""
    file = GGUFFile(path)
    return {name: file.tensor(name, dtype) for name in file}


def _typed(value):
    """[type, value] of a value of metadata."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0].split()[-1] in _TYPES:
        return [value[0], _plain(value[1])]
    if isinstance(value, (list, np.ndarray)):
        items = [_typed(v) for v in value]
        kinds = {kind for kind, _ in items}
        if len(kinds) > 1 and kinds <= {"u32", "i32", "i64"}:
            kinds = {"i64"} if min(v for _, v in items) < -2**31 or max(v for _, v in items) >= 2**31 else {"i32"}
        if len(kinds) != 1:
            raise TypeError(at_user_line(f"a list of metadata has values of one type, and {value!r:.60} has {', '.join(sorted(kinds)) or 'none'}; "
                                         "say which: (\"array u32\", [...])"))
        return ["array " + kinds.pop(), [v for _, v in items]]
    if isinstance(value, np.generic):
        name = _dtypes.name_of(value.dtype)
        if name in _TYPES:
            return [name, _plain(value.item())]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["u32" if 0 <= value < 2**32 else "i32" if -2**31 <= value < 0 else "i64" if value < 2**63 else "u64", value]
    if isinstance(value, float):
        return ["f32", _plain(value)]
    if isinstance(value, str):
        return ["string", value]
    raise TypeError(at_user_line(f"metadata are numbers, bools, strings and lists of them, and not {value!r:.60}"))


def _plain(value):
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


def save_gguf(path, tensors, metadata=None, *, version=3, big_endian=False, most_part_bytes=0):
    """Writes tensors by name, in this order, to a GGUF file: arrays of float16, bfloat16, float32, float64 and int8 to int64, and
    `PackedTensor`s. A file that is there is replaced in one step, when all is written.

    metadata         values by key. A value's type follows from it (int: u32, i32, i64 or u64; float: f32), or is given: ("u64", 7),
                     ("array i32", [1, 2]).
    most_part_bytes  begins a new file X-00001-of-00002.gguf where one would have more bytes of tensors; 0: all in one

    Errors: what the format cannot hold, such as an array of bool, or five dims (rlx.Error, a NotImplementedError too).
    """
    handles, names = [], []
    try:
        for name, value in tensors.items():
            if isinstance(value, PackedTensor):
                dtype, shape, data = value.dtype, tuple(value.shape), np.ascontiguousarray(value.data, np.uint8)
            else:
                x = as_array(value, share=True)
                dtype, shape, data = x.dtype_name, x.shape, np.ascontiguousarray(x._elements("its elements were to be saved"))
            handle, dims = c_void_p(), (c_int64 * max(1, len(shape)))(*shape)
            check(lib.rlx_tensor_create, dtype.encode(), dims, len(shape), data.ctypes.data, data.nbytes, byref(handle))
            handles.append(handle)
            names.append(name.encode())
        count = len(names)
        given = json.dumps({key: _typed(value) for key, value in (metadata or {}).items()}).encode()
        options = f"{{version = {int(version)}, big_endian = {'true' if big_endian else 'false'}, most_part_bytes = {int(most_part_bytes)}}}"
        check(lib.rlx_gguf_write, path_bytes(path), (c_char_p * max(1, count))(*names),
              (c_void_p * max(1, count))(*(h.value for h in handles)), count, given, options.encode())
    finally:
        for handle in handles:
            lib.rlx_tensor_free(handle)
