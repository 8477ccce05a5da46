"""What moves elements, copies them, or makes them out of nothing."""

import numpy as np

from .. import _dtypes
from .. import numpy as rnp
from .._array import convert
from .._native import Error
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
    if any(n < 0 for pair in pairs for n in pair):
        raise Error("constant_pad_nd with negative widths", "unsupported")
    return rnp.pad(x, pairs, constant_values=value)


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
    if results[i] is None:
        raise Error("it asks for the places that a pooling took its values from", "unsupported")
    return results[i]
