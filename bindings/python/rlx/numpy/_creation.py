"""Arrays out of nothing, and out of what other packages hold."""

import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert, current_trace, device_put, is_number, strong as of_that_dtype
from ._elementwise import broadcast_to


def _on(x, device):
    """x on the device of that name; where it is for None."""
    return x if device is None else device_put(x, device)


def asarray(a, dtype=None, order=None, *, copy=None, device=None):
    """Anything array-like as an array. Python's numbers are float32, int32 and complex64 unless `dtype` says otherwise.

    Arrays do not change, so memory that can still be written to is copied: only arrays of RLX and read-only arrays of NumPy are
    shared. `copy=False` gives the memory of x away instead (ValueError where `dtype` or the layout asks for a copy): writing to
    it afterwards changes the result. `copy=True` always copies. Arrays lie in row-major order: `order` is None, "C", "A" or "K", and
    "F" is a ValueError. `device` is that of `device_put`.
    """
    return _on(_as_array(a, dtype, order, copy), device)


def _as_array(x, dtype, order, copy):
    if order not in (None, "C", "A", "K"):
        raise ValueError(f"order is {order!r}; arrays of RLX lie in row-major order, which is None, \"C\", \"A\" and \"K\"")
    dtype = None if dtype is None else _dtypes.name_of(dtype)
    if copy is None or isinstance(x, Array):
        return as_array(x) if dtype is None else of_that_dtype(as_array(x, dtype))
    if copy:
        return as_array(np.array(x) if isinstance(x, np.ndarray) else x, dtype)
    made = as_array(x, None, share=True)
    if dtype not in (None, made.dtype_name) or not isinstance(x, np.ndarray) and not hasattr(x, "__dlpack__"):
        raise ValueError(f"copy=False, but a {type(x).__name__} of {made.dtype_name} becomes an array of {dtype or made.dtype_name} "
                         "only by a copy")
    return made


def array(object, dtype=None, *, copy=True, order="K", ndmin=0, device=None):
    """Anything array-like as an array of its own, as NumPy's `array`, with dims of 1 in front up to a rank of `ndmin`; the rest is as
    for `asarray`."""
    x = asarray(object, dtype, order, copy=copy, device=device)
    ndmin = operator.index(ndmin)
    return x if x.ndim >= ndmin else ops.reshape(x, dims=(1,) * (ndmin - x.ndim) + x.shape)


def from_dlpack(x, *, device=None, copy=None):
    """The elements of another package's array, whose memory is shared and so given away: writing to it afterwards changes the
    result. `copy=True` copies it, and so does the `device` that it is to go to, where the host cannot point into its memory."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an object with __dlpack__, not {type(x).__name__}")
    x = as_array(x, share=not copy)
    return x if device is None else device_put(x, device)


def astype(x, dtype, *, copy=True, device=None):
    """x in another dtype. Floats truncate and saturate when they become integers; NaN becomes 0. Arrays do not change, so that
    `copy` makes no difference."""
    return _on(of_that_dtype(convert(as_array(x), _dtypes.name_of(dtype))), device)


def shape_tuple(shape):
    if isinstance(shape, Array) and shape.ndim == 0:
        shape = shape.__index__()
    if isinstance(shape, (bool, np.bool_)):
        raise TypeError(f"a shape is an integer or several, not {shape}")
    if isinstance(shape, (float, np.floating)):
        raise TypeError(f"a shape is an integer or several, not {shape!r}; write int({shape!r}) if that is meant")
    return (shape,) if isinstance(shape, (int, str, np.integer)) else tuple(shape)


def full(shape, fill_value, dtype=None, *, device=None):
    """An array of that shape, every element `fill_value`."""
    value = as_array(fill_value, None if dtype is None else _dtypes.name_of(dtype))
    return _on(broadcast_to(value if dtype is None else of_that_dtype(value), shape_tuple(shape)), device)


def zeros(shape, dtype=None, *, device=None):
    """Zeros, float32 unless `dtype` says otherwise."""
    return full(shape, 0, "f32" if dtype is None else dtype, device=device)


def ones(shape, dtype=None, *, device=None):
    """Ones, float32 unless `dtype` says otherwise."""
    return full(shape, 1, "f32" if dtype is None else dtype, device=device)


def empty(shape, dtype=None, *, device=None):
    """Zeros: there are no elements that nobody wrote."""
    return zeros(shape, dtype, device=device)


def _like(x, dtype, shape):
    x = as_array(x)
    return x.shape if shape is None else shape_tuple(shape), x.dtype_name if dtype is None else _dtypes.name_of(dtype)


def full_like(a, fill_value, dtype=None, shape=None, *, device=None):
    """The shape and dtype of a, every element `fill_value`."""
    shape, dtype = _like(a, dtype, shape)
    return _on(broadcast_to(of_that_dtype(as_array(fill_value, dtype)), shape), device)


def zeros_like(a, dtype=None, shape=None, *, device=None):
    """Zeros of the shape and dtype of a."""
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(a, dtype=None, shape=None, *, device=None):
    """Ones of the shape and dtype of a."""
    return full_like(a, 1, dtype, shape, device=device)


def empty_like(prototype, dtype=None, shape=None, *, device=None):
    """Zeros of the shape and dtype of the prototype: there are no elements that nobody wrote."""
    return zeros_like(prototype, dtype, shape, device=device)


def copy(a, order="K"):
    """The same elements; as arrays do not change, an array of RLX is its own copy. `order` is as for `asarray`."""
    return asarray(a, None, order)


def _small(values, dtype):
    """A literal; the elements are known while tracing."""
    return Array(np.asarray(values, order="C", dtype=_dtypes.numpy_of(dtype)))


def arange(start, stop=None, step=None, dtype=None, *, device=None):
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
    return _on(_small(np.arange(*numbers), name), device)


def _of_steps(*ends):
    """The dtype of what lies between them: floats or complex numbers, of 64 or 128 bits if one of them is so wide."""
    names = [x.dtype_name for x in ends]
    wide = "f64" in names or "c128" in names
    return ("c128" if wide else "c64") if any(_dtypes.is_complex(n) for n in names) else "f64" if wide else "f32"


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """`num` numbers from start to stop, along an axis of the result where those are arrays. With `retstep` the step too."""
    made = _moved(_spaced(start, stop, num, endpoint, dtype), axis, device)
    if not retstep:
        return made
    from ._elementwise import divide, subtract
    apart = subtract(*[convert(x, _of_steps(as_array(start), as_array(stop))) for x in (as_array(stop), as_array(start))])
    parts = num - 1 if endpoint else num
    return made, divide(apart, parts) if parts > 0 else full((), np.nan, apart.dtype)  # of all, as in NumPy


def _moved(x, axis, device=None):
    """The first axis, along which numbers lie, at another place."""
    from ._shape import moveaxis
    return _on(x if axis == 0 else moveaxis(x, 0, axis), device)


def _spaced(start, stop, num, endpoint=True, dtype=None):
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"num is {num}; there are 0 numbers or more")
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


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """base to the powers of linspace."""
    return _moved(_powers(start, stop, num, endpoint, base, dtype), axis)


def _powers(start, stop, num, endpoint, base, dtype):
    given = [as_array(x) for x in (start, stop, base)]
    if current_trace() is None or not any(x.is_traced for x in given):
        name = _dtypes.name_of(dtype) if dtype is not None else _of_steps(*given)
        start, stop, base = (x.numpy() if hasattr(x, "numpy") else x for x in (start, stop, base))
        return _small(np.logspace(start, stop, num, endpoint=endpoint, base=base), name)
    from ._elementwise import power
    made = power(base, linspace(start, stop, num, endpoint))
    return made if dtype is None else astype(made, dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` numbers from start to stop, each the one before times the same factor."""
    given = [as_array(x) for x in (start, stop)]
    if current_trace() is None or not any(x.is_traced for x in given):
        name = _dtypes.name_of(dtype) if dtype is not None else _of_steps(*given)
        return _moved(_small(np.geomspace(*[x.numpy() for x in given], num, endpoint=endpoint), name), axis)
    from ._elementwise import divide, exp, inexact, log, multiply, promoted, where
    first, last = (inexact(x) for x in promoted(*given))
    if _dtypes.is_complex(first.dtype_name):
        raise TypeError("geomspace of complex numbers is not traced: the turn that it takes depends on them; call it outside")
    # The factors' logarithms; both ends are on one side of 0.
    steps = convert(_small(np.linspace(0, 1, num, endpoint=endpoint), "f64"), first.dtype_name)
    steps = ops.reshape(steps, dims=steps.shape + (1,) * max(first.ndim, last.ndim))
    made = multiply(first, exp(multiply(steps, log(divide(last, first)))))
    if endpoint and num > 1:
        made = where(ops.compare(steps, ops.broadcast_in_dim(as_array(1, steps.dtype_name), dims=steps.shape, axes=[])), last, made)
    return _moved(made if dtype is None else astype(made, dtype), axis)


def eye(N, M=None, k=0, dtype=None, *, device=None):
    """Ones on a diagonal, zeros elsewhere."""
    n, m = N, M
    name = _dtypes.name_of("f32" if dtype is None else dtype)
    k = operator.index(k)
    m = n if m is None else m
    rows = ops.iota(type=f"i32[{n}, {m}]", axis=0)
    columns = ops.iota(type=f"i32[{n}, {m}]", axis=1)
    from ._elementwise import add
    return _on(convert(ops.compare(add(rows, k), columns), name), device)


def identity(n, dtype=None):
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(N, M=None, k=0, dtype=None):
    """Ones at and below a diagonal, zeros elsewhere."""
    return _small(np.tri(N, M, k), _dtypes.name_of("f32" if dtype is None else dtype))


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Coordinates of a grid, one array for each axis; where `sparse`, with an extent of 1 along the other axes. Arrays do not change,
    so that `copy` makes no difference."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is {indexing!r}; it is \"xy\" or \"ij\"")
    arrays = [ops.reshape(as_array(x), dims=(as_array(x).size,)) for x in xi]
    shape = [x.size for x in arrays]
    grids = []
    for i, x in enumerate(arrays):
        dims = [1] * len(arrays)
        dims[i] = x.size
        x = ops.reshape(x, dims=dims)
        grids.append(x if sparse else broadcast_to(x, shape))
    if indexing == "xy" and len(grids) > 1:
        order = (1, 0) + tuple(range(2, len(grids)))
        grids = [ops.transpose(g, permutation=order) for g in grids]
    return grids
