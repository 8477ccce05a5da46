"""What moves elements, copies them, or makes them out of nothing."""

import math

import numpy as np

from .. import _dtypes
from .. import numpy as rnp
from .._array import as_array, convert
from .._native import Error
from .indexing import put_each
from .table import OPERATORS, dtype_of, of


@of("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default")
def _view(x, shape):
    return rnp.reshape(x, tuple(shape))


@of("permute.default", "permute_copy.default")
def _permute(x, dims):
    return rnp.transpose(x, tuple(d % x.ndim for d in dims))


@of("transpose.int", "transpose_copy.int")
def _transpose(x, a, b):
    return rnp.swapaxes(x, a, b)


@of("t.default", "t_copy.default")
def _t(x):
    return rnp.transpose(x)


@of("unsqueeze.default", "unsqueeze_copy.default")
def _unsqueeze(x, dim):
    return rnp.expand_dims(x, dim)


@of("squeeze.dim", "squeeze.dims", "squeeze.default", "squeeze_copy.dims", "squeeze_copy.dim")
def _squeeze(x, dim=None):
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else (dim,)
    axes = tuple(d % x.ndim for d in dims if x.shape[d] == 1) if x.ndim else ()
    return rnp.squeeze(x, axes) if axes else x


@of("expand.default", "expand_copy.default")
def _expand(x, size, implicit=False):
    kept = (1,) * (len(size) - x.ndim) + x.shape
    return rnp.broadcast_to(x, tuple(k if n == -1 else n for n, k in zip(size, kept)))


@of("cat.default")
def _cat(xs, dim=0):
    kept = [x for x in xs if x.shape != (0,)]  # PyTorch leaves those out
    return rnp.concatenate(kept or xs, axis=dim)


@of("stack.default")
def _stack(xs, dim=0):
    return rnp.stack(xs, axis=dim)


def _at(x, dim, index):
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


@of("slice.Tensor", "slice_copy.Tensor")
def _slice(x, dim=0, start=None, end=None, step=1):
    return _at(x, dim, slice(start, None if end is not None and end >= x.shape[dim] else end, step))


@of("select.int", "select_copy.int")
def _select(x, dim, index):
    return _at(x, dim, index)


@of("split_with_sizes.default", "split_with_sizes_copy.default")
def _split(x, sizes, dim=0):
    ends = np.cumsum(sizes)
    return [_at(x, dim, slice(int(e) - n, int(e))) for n, e in zip(sizes, ends)]


@of("split.Tensor")
def _split_tensor(x, size, dim=0):
    n = x.shape[dim]
    return _split(x, [min(size, n - at) for at in range(0, n, size)], dim)


@of("unbind.int", "unbind_copy.int")
def _unbind(x, dim=0):
    return [_at(x, dim, i) for i in range(x.shape[dim])]


@of("flip.default")
def _flip(x, dims):
    return rnp.flip(x, tuple(dims))


@of("repeat.default")
def _repeat(x, repeats):
    return rnp.tile(x, tuple(repeats))


@of("roll.default")
def _roll(x, shifts, dims=()):
    return rnp.roll(x, tuple(shifts), tuple(dims)) if dims else rnp.roll(x, shifts[0])


@of("constant_pad_nd.default")
def _pad(x, pad, value=0.0):
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)][::-1]
    if any(n < 0 for pair in pairs for n in pair):  # those take elements away
        x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape))]
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return rnp.pad(x, pairs, constant_values=value)


# ---- parts at places that are known here ----
def _put_at(x, places, values):
    """x with values at these of its places, an array of numbers that count its elements."""
    flat, places, values = rnp.ravel(x), places.ravel().astype(np.int32), rnp.ravel(rnp.broadcast_to(values, places.shape))
    flat = put_each(flat, places, values) if len(np.unique(places)) < places.size else flat.at[places].set(values)
    return rnp.reshape(flat, x.shape)


def _places(x):
    return np.arange(x.size).reshape(x.shape)


@of("select_scatter.default")
def _select_scatter(x, source, dim, index):
    return _put_at(x, np.take(_places(x), index, axis=dim), source)


@of("slice_scatter.default")
def _slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    return _put_at(x, _places(x)[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)], source)


@of("diagonal_scatter.default")
def _diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    return _put_at(x, np.diagonal(_places(x), offset, dim1, dim2), source)


@of("diagonal.default", "diagonal_copy.default")
def _diagonal(x, offset=0, dim1=0, dim2=1):
    return rnp.diagonal(x, offset, dim1, dim2)


@of("diag_embed.default")
def _diag_embed(x, offset=0, dim1=-2, dim2=-1):
    """A matrix for each vector along the last dim, with it as a diagonal and zeros elsewhere."""
    n = x.shape[-1] + abs(offset)
    wide = rnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, abs(offset))])
    rows, columns = np.arange(n)[:, None], np.arange(n)[None, :]
    y = rnp.where(columns - rows == offset, rnp.expand_dims(wide, -1 if offset >= 0 else -2), rnp.zeros((), x.dtype))
    dim1, dim2 = dim1 % y.ndim, dim2 % y.ndim
    return rnp.moveaxis(y, (-2, -1), (dim1, dim2))


def _strided_places(size, stride, offset):
    places = np.full((1,) * len(size), offset or 0)
    for d, (n, step) in enumerate(zip(size, stride)):
        places = places + (np.arange(n) * step).reshape([-1 if i == d else 1 for i in range(len(size))])
    return places.reshape(tuple(size))


@of("as_strided.default", "as_strided_copy.default")
def _as_strided(x, size, stride, storage_offset=None):
    """Of elements in row-major order."""
    places = _strided_places(size, stride, storage_offset)
    return rnp.reshape(rnp.take(rnp.ravel(x), places.ravel().astype(np.int32)), places.shape)


@of("as_strided_scatter.default", "prims.as_strided_scatter.default")
def _as_strided_scatter(x, source, size, stride, storage_offset=None):
    return _put_at(x, _strided_places(size, stride, storage_offset), source)


@of("prims.broadcast_in_dim.default")
def _broadcast_in_dim(x, shape, dims):
    return rnp.broadcast_to(rnp.reshape(x, [x.shape[dims.index(d)] if d in dims else 1 for d in range(len(shape))]), tuple(shape))


@of("copy.default")
def _copy(into, x, non_blocking=False):
    return rnp.broadcast_to(_to_copy(x, into.dtype), into.shape)


@of("squeeze_.dim")
def _squeeze_in_place(x, dim):
    return _squeeze(x, dim)


@of("resize.default")
def _resize(x, size, memory_format=None):
    """The first elements under another shape; what would be more is left as it is, which no program may ask for."""
    count = math.prod(size)
    flat = rnp.ravel(x)[:count]
    return rnp.reshape(rnp.pad(flat, [(0, count - flat.shape[0])]), tuple(size))


@of("block_diag.default")
def _block_diag(xs):
    xs = [rnp.atleast_2d(x) for x in xs]
    width, left, rows = sum(x.shape[1] for x in xs), 0, []
    for x in xs:
        rows.append(rnp.pad(x, [(0, 0), (left, width - left - x.shape[1])]))
        left += x.shape[1]
    return rnp.concatenate(rows)


@of("tril.default")
def _tril(x, diagonal=0):
    return rnp.tril(x, diagonal)


@of("triu.default")
def _triu(x, diagonal=0):
    return rnp.triu(x, diagonal)


@of("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default", "alias_copy.default")
def _same(x, memory_format=None):
    return x


@of("_to_copy.default", "to.dtype")
def _to_copy(x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if dtype is None:
        return x
    wanted = dtype_of(dtype)
    return x != 0 if wanted == "bool" and x.dtype_name != "bool" else convert(x, wanted)


@of("full.default")
def _full(size, value, dtype=None, layout=None, device=None, pin_memory=None):
    name = dtype_of(dtype) if dtype is not None else "bool" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f32"
    return rnp.full(tuple(size), value, _dtypes.long_name(name))


@of("full_like.default")
def _full_like(x, value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return rnp.full_like(x, value, None if dtype is None else _dtypes.long_name(dtype_of(dtype)))


@of("scalar_tensor.default")
def _scalar_tensor(value, dtype=None, layout=None, device=None, pin_memory=None):
    return _full((), value, dtype)


@of("arange.start_step")
def _arange(start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None):
    whole = all(isinstance(v, int) for v in (start, end, step))
    return rnp.arange(start, end, step, dtype="int64" if dtype is None and whole else "float32" if dtype is None else _dtypes.long_name(dtype_of(dtype)))


# What torch.export checked of a tensor's type when it traced; there is nothing left to compute.
OPERATORS["_assert_tensor_metadata.default"] = lambda *args, **kwargs: None


@of("getitem")
def _getitem(results, i):
    if callable(results[i]):  # what costs much and is seldom asked for
        return results[i]()
    return results[i]


# ---- numbers between two ----
def _steps(start, end, steps):
    """From both ends inwards, as PyTorch counts them."""
    i = np.arange(steps, dtype=np.float32)
    if steps < 2:
        return rnp.broadcast_to(rnp.astype(start, "float32"), (steps,))
    start, end = (rnp.astype(as_array(v, "f32") if isinstance(v, (int, float)) else v, "float32") for v in (start, end))
    step = (end - start) / (steps - 1)
    return rnp.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i))


def _cast(x, dtype):
    wanted = "f32" if dtype is None else dtype_of(dtype)
    return x if wanted == x.dtype_name else convert(rnp.trunc(x) if _dtypes.is_integer(wanted) else x, wanted)


@of("linspace.default", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def _linspace(start, end, steps, dtype=None, layout=None, device=None, pin_memory=None):
    return _cast(_steps(start, end, steps), dtype)


@of("logspace.default", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def _logspace(start, end, steps, base=10.0, dtype=None, layout=None, device=None, pin_memory=None):
    return _cast(rnp.power(np.float32(base), _steps(start, end, steps)), dtype)


@of("eye.default")
def _eye(n, dtype=None, layout=None, device=None, pin_memory=None):
    return rnp.eye(n, dtype="float32" if dtype is None else _dtypes.long_name(dtype_of(dtype)))


@of("eye.m")
def _eye_m(n, m, dtype=None, layout=None, device=None, pin_memory=None):
    return rnp.eye(n, m, dtype="float32" if dtype is None else _dtypes.long_name(dtype_of(dtype)))


@of("empty.memory_format")
def _empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return rnp.zeros(tuple(size), "float32" if dtype is None else _dtypes.long_name(dtype_of(dtype)))


@of("empty_permuted.default", "empty_strided.default", "prims.empty_strided.default", "prims.empty_permuted.default")
def _empty_in_order(size, order, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    return _empty(size, dtype)
