"""Arrays out of nothing, and out of what other packages hold."""

import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, current_trace, device_put, is_number
from ._elementwise import broadcast_to


def asarray(x, dtype=None, copy=None):
    """Anything array-like as an array. Python's numbers are float32, int32 and complex64 unless `dtype` says otherwise.

    Arrays do not change, so memory that can still be written to is copied: only arrays of RLX and read-only arrays of NumPy are
    shared. `copy=False` gives the memory of x away instead (ValueError where `dtype` or the layout asks for a copy): writing to
    it afterwards changes the result. `copy=True` always copies.
    """
    dtype = None if dtype is None else _dtypes.name_of(dtype)
    if copy is None or isinstance(x, Array):
        return as_array(x, dtype)
    if copy:
        return as_array(np.array(x) if isinstance(x, np.ndarray) else x, dtype)
    made = as_array(x, None, share=True)
    if dtype not in (None, made.dtype_name) or not isinstance(x, np.ndarray) and not hasattr(x, "__dlpack__"):
        raise ValueError(f"copy=False, but a {type(x).__name__} of {made.dtype_name} becomes an array of {dtype or made.dtype_name} "
                         "only by a copy")
    return made


def array(x, dtype=None, copy=True):
    """Anything array-like as an array of its own, as NumPy's `array`; `copy` is that of `asarray`."""
    return asarray(x, dtype, copy)


def from_dlpack(x, copy=None, device=None):
    """The elements of another package's array, whose memory is shared and so given away: writing to it afterwards changes the
    result. `copy=True` copies it, and so does the `device` that it is to go to, where the host cannot point into its memory."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an object with __dlpack__, not {type(x).__name__}")
    x = as_array(x, share=not copy)
    return x if device is None else device_put(x, device)


def astype(x, dtype):
    """x in another dtype. Floats truncate and saturate when they become integers; NaN becomes 0."""
    return convert(as_array(x), _dtypes.name_of(dtype))


def shape_tuple(shape):
    if isinstance(shape, Array) and shape.ndim == 0:
        shape = shape.__index__()
    if isinstance(shape, (bool, np.bool_)):
        raise TypeError(f"a shape is an integer or several, not {shape}")
    return (shape,) if isinstance(shape, (int, str, np.integer)) else tuple(shape)


def full(shape, fill_value, dtype=None):
    """An array of that shape, every element `fill_value`."""
    value = as_array(fill_value, None if dtype is None else _dtypes.name_of(dtype))
    return broadcast_to(value, shape_tuple(shape))


def zeros(shape, dtype=None):
    """Zeros, float32 unless `dtype` says otherwise."""
    return full(shape, 0, "f32" if dtype is None else dtype)


def ones(shape, dtype=None):
    """Ones, float32 unless `dtype` says otherwise."""
    return full(shape, 1, "f32" if dtype is None else dtype)


def empty(shape, dtype=None):
    """Zeros: there are no elements that nobody wrote."""
    return zeros(shape, dtype)


def _like(x, dtype, shape):
    x = as_array(x)
    return x.shape if shape is None else shape_tuple(shape), x.dtype_name if dtype is None else _dtypes.name_of(dtype)


def full_like(x, fill_value, dtype=None, shape=None):
    """The shape and dtype of x, every element `fill_value`."""
    shape, dtype = _like(x, dtype, shape)
    return broadcast_to(as_array(fill_value, dtype), shape)


def zeros_like(x, dtype=None, shape=None):
    """Zeros of the shape and dtype of x."""
    return full_like(x, 0, dtype, shape)


def ones_like(x, dtype=None, shape=None):
    """Ones of the shape and dtype of x."""
    return full_like(x, 1, dtype, shape)


def _small(values, dtype):
    """A literal; the elements are known while tracing."""
    return Array(np.asarray(values, order="C", dtype=_dtypes.numpy_of(dtype)))


def arange(start, stop=None, step=None, dtype=None):
    """start, start + step, ... before stop."""
    if start is None:
        raise TypeError("arange takes a number to stop at, not None")
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    for x in (start, stop, step):
        if getattr(x, "ndim", 0):
            raise TypeError(f"arange takes numbers, got an array of shape {x.shape}")
    numbers = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else x for x in (start, stop, step)]
    if dtype is None:
        strong = [as_array(x).dtype_name for x in (start, stop, step) if not is_number(x)]
        name = strong[0] if strong else ("f32" if any(isinstance(n, float) for n in numbers) else "i32")
    else:
        name = _dtypes.name_of(dtype)
    return _small(np.arange(*numbers), name)


def _of_steps(*ends):
    """The dtype of what lies between them: floats or complex numbers, of 64 or 128 bits if one of them is so wide."""
    names = [x.dtype_name for x in ends]
    wide = "f64" in names or "c128" in names
    return ("c128" if wide else "c64") if any(_dtypes.is_complex(n) for n in names) else "f64" if wide else "f32"


def linspace(start, stop, num=50, endpoint=True, dtype=None):
    """`num` numbers from start to stop."""
    start, stop = (as_array(x) for x in (start, stop))
    if dtype is not None and _dtypes.is_complex(_of_steps(start, stop)) and not _dtypes.is_complex(_dtypes.name_of(dtype)):
        raise TypeError(f"numbers between complex ones are complex, and not {_dtypes.name_of(dtype)}")
    if current_trace() is None or not (start.is_traced or stop.is_traced):
        name = _dtypes.name_of(dtype) if dtype is not None else _of_steps(start, stop)
        steps = np.linspace(start.numpy(), stop.numpy(), num, endpoint=endpoint)
        return _small(np.floor(steps) if _dtypes.is_integer(name) else steps, name)
    from ._elementwise import add, inexact, multiply, subtract
    steps = _small(np.linspace(0, 1, num, endpoint=endpoint), "f64")
    a, b = inexact(start), inexact(stop)
    steps = convert(steps, a.dtype_name)
    steps = ops.reshape(steps, dims=(num,) + (1,) * a.ndim)
    made = add(a, multiply(steps, subtract(b, a)))
    if endpoint and num > 1:
        from ._elementwise import equal, where
        made = where(equal(steps, 1), b, made)  # the last one is `stop` to the bit
    if dtype is not None and _dtypes.is_integer(_dtypes.name_of(dtype)):
        made = ops.floor(made)
    return made if dtype is None else astype(made, dtype)


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None):
    """base to the powers of linspace."""
    given = [as_array(x) for x in (start, stop, base)]
    if current_trace() is None or not any(x.is_traced for x in given):
        name = _dtypes.name_of(dtype) if dtype is not None else _of_steps(*given)
        start, stop, base = (x.numpy() if hasattr(x, "numpy") else x for x in (start, stop, base))
        return _small(np.logspace(start, stop, num, endpoint=endpoint, base=base), name)
    from ._elementwise import power
    made = power(base, linspace(start, stop, num, endpoint))
    return made if dtype is None else astype(made, dtype)


def eye(n, m=None, k=0, dtype=None):
    """Ones on a diagonal, zeros elsewhere."""
    name = _dtypes.name_of("f32" if dtype is None else dtype)
    k = operator.index(k)
    m = n if m is None else m
    rows = ops.iota(type=f"i32[{n}, {m}]", axis=0)
    columns = ops.iota(type=f"i32[{n}, {m}]", axis=1)
    from ._elementwise import add
    return convert(ops.compare(add(rows, k), columns), name)


def identity(n, dtype=None):
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(n, m=None, k=0, dtype=None):
    """Ones at and below a diagonal, zeros elsewhere."""
    return _small(np.tri(n, m, k), _dtypes.name_of("f32" if dtype is None else dtype))


def meshgrid(*xs, indexing="xy"):
    """Coordinates of a grid, one array for each axis."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is {indexing!r}; it is \"xy\" or \"ij\"")
    arrays = [ops.reshape(as_array(x), dims=(as_array(x).size,)) for x in xs]
    shape = [x.size for x in arrays]
    grids = []
    for i, x in enumerate(arrays):
        dims = [1] * len(arrays)
        dims[i] = x.size
        grids.append(broadcast_to(ops.reshape(x, dims=dims), shape))
    if indexing == "xy" and len(grids) > 1:
        order = (1, 0) + tuple(range(2, len(grids)))
        grids = [ops.transpose(g, permutation=order) for g in grids]
    return grids
