"""Arrays out of nothing, and out of what other packages hold."""

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, current_trace, is_number
from ._elementwise import broadcast_to


def asarray(x, dtype=None, copy=None):
    """Anything array-like as an array. Python's numbers are float32, int32 and complex64 unless `dtype` says otherwise."""
    return as_array(x, None if dtype is None else _dtypes.name_of(dtype))


array = asarray


def astype(x, dtype):
    """x in another dtype. Floats truncate and saturate when they become integers; NaN becomes 0."""
    return convert(as_array(x), _dtypes.name_of(dtype))


def shape_tuple(shape):
    if isinstance(shape, Array) and shape.ndim == 0:
        shape = shape.__index__()
    return (shape,) if isinstance(shape, (int, str, np.integer)) else tuple(shape)


def full(shape, fill_value, dtype=None):
    """An array of that shape, every element `fill_value`."""
    value = as_array(fill_value, None if dtype is None else _dtypes.name_of(dtype))
    return broadcast_to(value, shape_tuple(shape))


def zeros(shape, dtype=None):
    """Zeros, float32 unless `dtype` says otherwise."""
    return full(shape, 0, dtype or "f32")


def ones(shape, dtype=None):
    """Ones, float32 unless `dtype` says otherwise."""
    return full(shape, 1, dtype or "f32")


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
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    numbers = [x.item() if isinstance(x, (Array, np.generic, np.ndarray)) else x for x in (start, stop, step)]
    if dtype is None:
        strong = [as_array(x).dtype_name for x in (start, stop, step) if not is_number(x)]
        name = strong[0] if strong else ("f32" if any(isinstance(n, float) for n in numbers) else "i32")
    else:
        name = _dtypes.name_of(dtype)
    return _small(np.arange(*numbers), name)


def linspace(start, stop, num=50, endpoint=True, dtype=None):
    """`num` numbers from start to stop."""
    start, stop = (as_array(x) for x in (start, stop))
    if current_trace() is None or not (start.is_traced or stop.is_traced):
        name = _dtypes.name_of(dtype) if dtype else "f64" if "f64" in (start.dtype_name, stop.dtype_name) else "f32"
        return _small(np.linspace(start.numpy(), stop.numpy(), num, endpoint=endpoint), name)
    from ._elementwise import add, inexact, multiply, subtract
    steps = _small(np.linspace(0, 1, num, endpoint=endpoint), "f64")
    a, b = inexact(start), inexact(stop)
    steps = convert(steps, a.dtype_name)
    steps = ops.reshape(steps, dims=(num,) + (1,) * a.ndim)
    made = add(a, multiply(steps, subtract(b, a)))
    if endpoint and num > 1:
        from ._elementwise import equal, where
        made = where(equal(steps, 1), b, made)  # the last one is `stop` to the bit
    return made if dtype is None else astype(made, dtype)


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None):
    """base to the powers of linspace."""
    given = [as_array(x) for x in (start, stop, base)]
    if current_trace() is None or not any(x.is_traced for x in given):
        name = _dtypes.name_of(dtype) if dtype else "f64" if "f64" in [x.dtype_name for x in given] else "f32"
        start, stop, base = (x.numpy() if hasattr(x, "numpy") else x for x in (start, stop, base))
        return _small(np.logspace(start, stop, num, endpoint=endpoint, base=base), name)
    from ._elementwise import power
    made = power(base, linspace(start, stop, num, endpoint))
    return made if dtype is None else astype(made, dtype)


def eye(n, m=None, k=0, dtype=None):
    """Ones on a diagonal, zeros elsewhere."""
    name = _dtypes.name_of(dtype or "f32")
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
    return _small(np.tri(n, m, k), _dtypes.name_of(dtype or "f32"))


def meshgrid(*xs, indexing="xy"):
    """Coordinates of a grid, one array for each axis."""
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
