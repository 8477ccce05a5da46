"""Trees of arrays in safetensors files: `save` and `load`.

The format is that of the README of the reference implementation (Hugging Face, "safetensors", 2022): 8 bytes with the size of the
header, the header as JSON, the elements of all tensors one behind another. Names are the paths of the leaves, "layers.0.w", as
PyTorch's state dicts have them. What the names do not tell of the tree (lists, None, keys with dots) stands in the
metadata, under "rlx.tree".
"""

import collections
import json
import math
import os

import numpy as np

from . import _dtypes, tree
from ._array import Array, as_array
from ._native import Error, at_user_line

# In the order of the reference implementation, by alignment: large elements first keeps all of them aligned.
_NAMES = {"u64": "U64", "i64": "I64", "f64": "F64", "c64": "C64", "f32": "F32", "u32": "U32", "i32": "I32", "bf16": "BF16", "f16": "F16",
          "u16": "U16", "i16": "I16", "f8e5m2fnuz": "F8_E5M2FNUZ", "f8e4m3fnuz": "F8_E4M3FNUZ", "f8e8m0fnu": "F8_E8M0",
          "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2", "i8": "I8", "u8": "U8", "bool": "BOOL"}
_DTYPES = {theirs: ours for ours, theirs in _NAMES.items()}
_MOST_HEADER = 100_000_000  # the reference implementation's limit
_MOST_DIMS = 64
_TREE = "rlx.tree"


def _names_of(structure, before=""):
    """A name for each leaf: what leads to it, with dots between."""
    if structure == "*":
        return [before or "value"]
    if structure is None:
        return []
    names = []
    for step, part in zip(tree._steps(structure), structure[-1]):
        bare = step[1:] if step[0] == "." else str(_key_in(step))
        names += _names_of(part, f"{before}.{bare}" if before else bare)
    return names


def _key_in(step):
    """The key in "['w']" or "[0]"."""
    import ast
    try:
        return ast.literal_eval(step[1:-1])
    except (ValueError, SyntaxError):
        return step[1:-1]


def _described(structure, names):
    """A structure as JSON, a name for each leaf; of classes only what they are called."""
    if structure == "*":
        return next(names)
    if structure is None:
        return {"none": None}
    kind, parts = structure[0], [_described(s, names) for s in structure[-1]]
    if kind is list or kind is tuple:
        return {kind.__name__: parts}
    if kind is dict or kind is collections.OrderedDict:
        keys = structure[1]
        if all(isinstance(k, str) for k in keys) or all(type(k) is int for k in keys):
            return {kind.__name__: [list(keys), parts]}
        return {"class": f"{kind.__name__} with keys that are neither all strings nor all integers", "parts": parts}
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "parts": parts}


def save(path, value, metadata=None):
    """Writes a tree of arrays to a safetensors file, which other packages read too. bf16 and f8 stay what they are. A file that is
    there is replaced in one step, when all is written.

    Each leaf is an array or a number, and is named by its path: "layers.0.w". `metadata` are strings by strings. Errors: a leaf that is
    no array, or of c128, for which the format has no name (rlx.Error, which is a TypeError too); two leaves of one name; what the
    operating system refuses (OSError).
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(at_user_line(f"save takes the path first: save(\"params.safetensors\", tree), not a {type(path).__name__}"))
    leaves, structure = tree.flatten(value)
    names = _names_of(structure)
    twice = [name for name, n in collections.Counter(names).items() if n > 1]
    if twice:
        raise Error(at_user_line(f"two leaves of the tree are called {twice[0]!r} in a file; rename a key"))
    if "__metadata__" in names:
        raise Error(at_user_line("\"__metadata__\" is no name for a tensor in a safetensors file; rename the key"))
    arrays = {}
    for name, where, leaf in zip(names, tree.paths(structure), leaves):
        try:
            x = as_array(leaf, share=True)
        except (TypeError, ValueError) as error:
            raise TypeError(at_user_line(f"the leaf at {where or 'the top'} is a {type(leaf).__name__}, {str(leaf)[:40]!r}; a file holds "
                                         "arrays and numbers")) from error
        if x.dtype_name not in _NAMES:
            raise Error(at_user_line(f"the array at {where or 'the top'} is of {x.dtype_name}, which a safetensors file has no name for; save its "
                                     "real and imaginary parts"))
        arrays[name] = x
    notes = dict(metadata or {})
    for key, text in notes.items():
        if not isinstance(key, str) or not isinstance(text, str) or key == _TREE:
            raise TypeError(at_user_line(f"metadata are strings by strings, and {_TREE!r} is taken; got {key!r}: {text!r}"))
    notes[_TREE] = json.dumps(_described(structure, iter(names)))
    header, at, order = {"__metadata__": notes}, 0, sorted(arrays, key=lambda n: (list(_NAMES).index(arrays[n].dtype_name), n))
    for name in order:
        x = arrays[name]
        header[name] = {"dtype": _NAMES[x.dtype_name], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise Error(at_user_line(f"the names and the structure take {len(text)} bytes, and the format allows {_MOST_HEADER}"))
    _write(os.fspath(path), [len(text).to_bytes(8, "little"), text, *(_bytes_of(arrays[name]) for name in order)])


def _bytes_of(x):
    a = np.ascontiguousarray(x._elements("its elements were to be saved"))
    return a.reshape(-1).view(np.uint8).data if a.size else b""


def _write(path, parts):
    """All or nothing: into a file beside it, which then takes its name."""
    path = os.path.realpath(path)
    import tempfile  # it brings compression libraries along, which not every import of the package should
    handle, made = tempfile.mkstemp(dir=os.path.dirname(path), prefix=os.path.basename(path) + ".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as f:
            for part in parts:
                f.write(part)
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(made, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666 & ~mask)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def _once(pairs):
    found = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} stands in it twice")
        found[key] = value
    return found


def _damaged(path, what):
    return Error(at_user_line(f"'{path}' is no safetensors file, or a damaged one: {what}"), "parse")


def _is_size(n):
    return type(n) is int and 0 <= n < 2**63


def _read(path):
    """(the arrays by name, the metadata). A file is hostile input: everything is checked before it is believed."""
    path = os.fspath(path)
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        first = f.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > size - 8 or length > _MOST_HEADER:
            raise _damaged(path, f"its header would have {length} bytes, and the file has {size}" if len(first) == 8 else
                           f"it has {size} bytes")
        text = f.read(length)
        try:
            header = json.loads(text.decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, f"its header is not the JSON that is expected ({error})") from None
        if not isinstance(header, dict):
            raise _damaged(path, f"its header is a JSON {type(header).__name__}, not an object")
        notes = header.pop("__metadata__", None) or {}
        if not isinstance(notes, dict) or not all(isinstance(v, str) for v in notes.values()):
            raise _damaged(path, "its metadata are not strings by strings")
        end, entries = 0, []
        for name, entry in header.items():
            if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
                raise _damaged(path, f"the tensor {name!r} has not dtype, shape and data_offsets alone")
            dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
            if not isinstance(dtype, str) or dtype not in _DTYPES:
                raise Error(at_user_line(f"the tensor {name!r} in '{path}' is of {dtype!r}, which NumPy has no arrays of; there are "
                                         f"{', '.join(_DTYPES)}"), "unsupported")
            if not isinstance(shape, list) or len(shape) > _MOST_DIMS or not all(_is_size(n) for n in shape):
                raise _damaged(path, f"the tensor {name!r} has the shape {str(shape)[:60]}")
            if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(n) for n in offsets):
                raise _damaged(path, f"the tensor {name!r} has the data_offsets {str(offsets)[:60]}")
            wanted = math.prod(shape) * _dtypes.numpy_of(_DTYPES[dtype]).itemsize
            if offsets[1] - offsets[0] != wanted:
                raise _damaged(path, f"the tensor {name!r}, {dtype}{shape}, has {offsets[1] - offsets[0]} bytes instead of {wanted}")
            entries.append((offsets[0], offsets[1], name, _DTYPES[dtype], shape))
        for begin, stop, name, _, _ in sorted(entries, key=lambda e: e[:2]):
            if begin != end:
                raise _damaged(path, f"the tensor {name!r} begins at byte {begin} of the elements, where {end} was expected")
            end = stop
        if end != size - 8 - length:
            raise _damaged(path, f"the tensors have {end} bytes of elements, and the file {size - 8 - length}")
        arrays = {}
        for begin, stop, name, dtype, shape in sorted(entries, key=lambda e: e[:2]):
            a = np.empty(shape, _dtypes.numpy_of(dtype))
            if a.nbytes and f.readinto(a.reshape(-1).view(np.uint8).data) != a.nbytes:
                raise _damaged(path, f"it ended within the tensor {name!r}")
            if dtype == "bool" and a.size and a.reshape(-1).view(np.uint8).max() > 1:
                raise _damaged(path, f"the tensor {name!r} of bools has bytes that are neither 0 nor 1")
            arrays[name] = Array(a)
    return {name: arrays[name] for name in header}, notes


def _rebuilt(described, arrays, path, depth=0):
    if depth > 200:
        raise _damaged(path, "the structure of its tree is too deep")
    if isinstance(described, str):
        if described not in arrays:
            raise _damaged(path, f"the tree has a leaf {described!r}, and there is no such tensor")
        return arrays[described]
    if not isinstance(described, dict) or not described:
        raise _damaged(path, "the structure of its tree makes no sense")
    if set(described) == {"class", "parts"}:
        raise Error(at_user_line(f"'{path}' was saved from a tree with a {str(described['class'])[:200]}, which the file does not hold; load it into one: "
                                 "load(path, like=tree)"))
    (kind, parts), = described.items() if len(described) == 1 else [(None, None)]
    if kind == "none":
        return None
    if kind in ("list", "tuple") and isinstance(parts, list):
        return {"list": list, "tuple": tuple}[kind](_rebuilt(p, arrays, path, depth + 1) for p in parts)
    if kind in ("dict", "OrderedDict") and isinstance(parts, list) and len(parts) == 2 and all(isinstance(p, list) for p in parts) \
            and len(parts[0]) == len(parts[1]) and all(isinstance(k, (str, int)) for k in parts[0]):
        return {"dict": dict, "OrderedDict": collections.OrderedDict}[kind](
            zip(parts[0], [_rebuilt(p, arrays, path, depth + 1) for p in parts[1]]))
    raise _damaged(path, "the structure of its tree makes no sense")


def load(path, like=None):
    """The tree of arrays that `save` wrote to a safetensors file; of a file from elsewhere a dict of arrays by their names.

    like   a tree of that structure (of arrays, or of ShapeDtypeStruct), into which the arrays go by their paths. It is needed for
           named tuples, dataclasses and registered classes, which a file cannot make; names, shapes and dtypes must agree.

    Errors: a file that is damaged or not of this format (rlx.Error, a ValueError too), one that does not fit `like`, one that is not
    there (FileNotFoundError).
    """
    arrays, notes = _read(path)
    if like is None:
        if _TREE not in notes:
            return arrays
        try:
            described = json.loads(notes[_TREE], object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, f"the structure of its tree is no JSON ({error})") from None
        return _rebuilt(described, arrays, path)
    leaves, structure = tree.flatten(like)
    names = _names_of(structure)
    missing, more = [n for n in names if n not in arrays], [n for n in arrays if n not in set(names)]
    if missing or more:
        said = [f"it has no {', '.join(map(repr, missing[:5]))}" + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")] if missing else []
        said += [f"`like` has no {', '.join(map(repr, more[:5]))}" + (f" and {len(more) - 5} more" if len(more) > 5 else "")] if more else []
        raise Error(at_user_line(f"'{path}' is not of the tree `like`: {'; '.join(said)}"), "not_found")
    for name, leaf in zip(names, leaves):
        shape, dtype = (leaf.shape, leaf.dtype_name) if hasattr(leaf, "dtype_name") else (np.shape(leaf), as_array(leaf, share=True).dtype_name)
        x = arrays[name]
        if tuple(shape) != x.shape or dtype != x.dtype_name:
            raise Error(at_user_line(f"'{path}' has {name!r} as {x.dtype_name}{list(x.shape)}, and `like` as {dtype}{list(shape)}"), "shape_mismatch")
    return tree.unflatten(structure, [arrays[name] for name in names])
