"""Dtypes: RLX's names beside NumPy's, and how they promote.

Two strings mean one thing to NumPy and another to RLX's op table: "i8" and "u8", 8 bytes there and 8 bits here. Wherever the
package follows NumPy (rlx.numpy, nn, linalg, random, astype, ShapeDtype ...) they are NumPy's int64 and uint64; in rlx.ops and
in the textual IR they are 8-bit integers. "int8" and np.int8 mean the same everywhere.

Promotion is that of JAX: Python's numbers are weak and take the other operand's dtype; an integer beside a float becomes
that float; f16 beside bf16 becomes f32. Defaults are float32, int32 and complex64.
"""

import math
import re

import numpy as np

try:
    import ml_dtypes
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # bf16 arrays need it; everything else does not
    bfloat16 = None

_NAMES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64,
    "c128": np.complex128,
}
TO_NUMPY = {name: np.dtype(t) for name, t in _NAMES.items()}
# Floats of one byte, by their names in ml_dtypes.
_NARROW = {"f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
           "f8e8m0fnu": "float8_e8m0fnu"}
if bfloat16 is not None:
    TO_NUMPY["bf16"] = bfloat16
    TO_NUMPY.update((name, np.dtype(getattr(ml_dtypes, theirs))) for name, theirs in _NARROW.items() if hasattr(ml_dtypes, theirs))
FROM_NUMPY = {t: name for name, t in TO_NUMPY.items()}
_LONG = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
         "float": "f32", "int": "i32", "complex": "c64", "bool_": "bool",
         **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)}, **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)}}


_OF_NUMPY = {"i8": "i64", "u8": "u64"}
# Block formats of GGUF, which NumPy has no dtype for. The library says whether there is such a one.
_BLOCKS = re.compile(r"i?q\d_\w+|tq\d_0|mxfp4|nvfp4")


def name_of(dtype):
    """RLX's name for anything that means a dtype: "f32", np.float32, "float32", "f4", float. "i8" and "u8" are NumPy's:
    int64 and uint64."""
    return _OF_NUMPY[dtype] if isinstance(dtype, str) and dtype in _OF_NUMPY else own_name_of(dtype)


def own_name_of(dtype):
    """As name_of, but "i8" and "u8" are RLX's: integers of 8 bits. For the attributes of ops."""
    if dtype is float:
        return "f32"
    if dtype is int:
        return "i32"
    if dtype is complex:
        return "c64"
    if dtype is bool:
        return "bool"
    if isinstance(dtype, str):
        if dtype in TO_NUMPY or dtype == "bf16":
            return dtype
        if dtype in _LONG:
            return _LONG[dtype]
        if _BLOCKS.fullmatch(dtype):
            return dtype
    t = np.dtype(dtype).newbyteorder("=")
    if t not in FROM_NUMPY:
        raise TypeError(f"{t} is no dtype of RLX; there are {', '.join(TO_NUMPY)}")
    return FROM_NUMPY[t]


def numpy_of(name):
    if name not in TO_NUMPY:
        if name == "bf16" or name in _NARROW:
            raise TypeError(f"{name} arrays need the package ml_dtypes: pip install ml_dtypes")
        raise TypeError(f"NumPy has no {name}: convert it, or keep it inside of a function under rlx.jit")
    return TO_NUMPY[name]


def is_block(name):
    return bool(_BLOCKS.fullmatch(name))


def is_float(name):
    return name[0] == "f" or name == "bf16"


def is_complex(name):
    return name[0] == "c"


def is_integer(name):
    return name[0] in "iu"


def is_inexact(name):
    return is_float(name) or is_complex(name)


def bits(name):
    return 8 if name == "bool" else int(name.lstrip("bfiuc"))


def long_name(name):
    """The name that means the same everywhere: "int8" for "i8", which to NumPy is an integer of 8 bytes."""
    return {short: long for long, short in _LONG.items() if long not in ("float", "int", "complex", "bool_")}.get(name, name)


def bytes_of(name, dims):
    """How many bytes an array of these (known) dims has."""
    return math.prod(dims) * TO_NUMPY[name].itemsize


def real_part(name):
    return {"c64": "f32", "c128": "f64"}.get(name, name)


def _category(name):
    return 0 if name == "bool" else 1 if is_integer(name) else 2 if is_float(name) else 3


def promote(a, b):
    """The dtype of both, by JAX's lattice."""
    if a == b:
        return a
    if _category(a) != _category(b):
        low, high = sorted((a, b), key=_category)
        if high[0] == "c" and low == "f64":
            return "c128"
        return high
    if _category(a) == 1:
        if a[0] == b[0]:
            return a if bits(a) > bits(b) else b
        signed, unsigned = (a, b) if a[0] == "i" else (b, a)
        if bits(signed) > bits(unsigned):
            return signed
        return f"i{2 * bits(unsigned)}" if bits(unsigned) < 64 else "f32"
    if {a, b} == {"f16", "bf16"}:
        return "f32"
    return a if bits(a) > bits(b) else b


def weak_dtype(number):
    """What a Python number is where nothing else says."""
    if isinstance(number, bool):
        return "bool"
    if isinstance(number, int):
        return "i32" if -(2**31) <= number < 2**31 else "i64"
    return "f32" if isinstance(number, float) else "c64"


def with_weak(strong, number):
    """The dtype of an array of dtype `strong` beside a Python number."""
    return beside_weak(strong, weak_dtype(number))


def beside_weak(strong, weak):
    """The same where the number has the dtype `weak`."""
    return strong if _category(weak) <= _category(strong) else promote_category(strong, weak)


def promote_category(strong, weak):
    if weak == "f32" and _category(strong) < 2:
        return "f32"
    if weak == "c64":
        return "c128" if strong == "f64" else "c64"
    return weak


def finfo(dtype):
    """What a float dtype (or that of a complex one's parts) can hold: bits, eps, max, min, tiny, ... as numpy.finfo, also of
    bfloat16 and the floats of one byte. TypeError of other dtypes."""
    name = real_part(_name_in(dtype))
    if not is_float(name):
        raise TypeError(f"finfo is of floats, and {name} is none; iinfo is of integers")
    return np.finfo(numpy_of(name)) if name in ("f16", "f32", "f64") else ml_dtypes.finfo(numpy_of(name))


def iinfo(dtype):
    """What an integer dtype can hold: bits, max, min, as numpy.iinfo. TypeError of other dtypes."""
    name = _name_in(dtype)
    if name == "bool" or not is_integer(name):
        raise TypeError(f"iinfo is of integers, and {name} is none; finfo is of floats")
    return np.iinfo(numpy_of(name))


def _name_in(dtype):
    """Of a dtype, or of an array's."""
    if isinstance(dtype, (bool, int, float, complex)):
        return weak_dtype(dtype)
    return getattr(dtype, "dtype_name", None) or name_of(dtype.dtype if isinstance(dtype, (np.ndarray, np.generic)) else dtype)
