"""Elements at places that data say."""

import math

import numpy as np

from .. import _dtypes, ops
from .. import numpy as rnp
from .._array import as_array
from .._native import Error
from .table import of


@of("embedding.default")
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return rnp.take(weight, indices, axis=0)


@of("index_select.default")
def _index_select(x, dim, index):
    if x.ndim == 0:
        return rnp.reshape(rnp.take(_as_vector(x), _as_vector(index), axis=0), ())
    return rnp.take(x, _as_vector(index), axis=dim)


@of("gather.default")
def _gather(x, dim, index, sparse_grad=False):
    if x.ndim == 0 or index.ndim == 0:
        return rnp.reshape(rnp.take(_as_vector(x), _as_vector(index), axis=0), index.shape)
    if any(a != b for d, (a, b) in enumerate(zip(x.shape, index.shape)) if d != dim % x.ndim):
        x = x[tuple(slice(None) if d == dim % x.ndim else slice(0, n) for d, n in enumerate(index.shape))]
    return rnp.take_along_axis(x, index, axis=dim)


@of("index.Tensor", "_unsafe_index.Tensor")
def _index(x, indices):
    if any(i is not None and i.dtype_name == "bool" and i.is_traced for i in indices):
        raise Error("index by a mask, whose result has as many elements as data say", "unsupported")
    return x[tuple(slice(None) if i is None else i for i in indices)]


@of("_unsafe_masked_index.default")
def _masked_index(x, mask, indices, fill):
    inside = [None if i is None else rnp.clip(i, 0, n - 1) for i, n in zip(indices, x.shape)]
    return rnp.where(mask, _index(x, inside), as_array(fill, x.dtype_name))


@of("take.default")
def _take(x, index):
    return rnp.take(rnp.ravel(x), index)


def put_each(x, places, values):
    """The flat x with values at these of its places. Where several meet the last stays, and each has the derivative of its place, as
    in PyTorch: the second line adds nothing but that."""
    y = x.at[places].set(ops.stop_gradient(values))
    finite = rnp.where(rnp.isfinite(values), values, 0)
    return y.at[places].add(finite - ops.stop_gradient(finite))


@of("max_unpool2d.default")
def _max_unpool2d(x, indices, size):
    return _max_unpool(x, indices, size)


@of("max_unpool3d.default")
def _max_unpool3d(x, indices, size, stride, padding):
    return _max_unpool(x, indices, size)


def _max_unpool(x, indices, size):
    lead, count = x.shape[:x.ndim - len(size)], math.prod(size)
    images = rnp.reshape(rnp.arange(math.prod(lead), dtype="int64") * count, lead + (1,) * len(size))
    places = rnp.where(indices < 0, indices + count, indices) + images
    flat = put_each(rnp.zeros((math.prod(lead) * count,), x.dtype), rnp.ravel(places), rnp.ravel(x))
    return rnp.reshape(flat, lead + tuple(size))


@of("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def _index_put(x, indices, values, accumulate=False, unsafe=False):
    at = x.at[tuple(slice(None) if i is None else i for i in indices)]
    return at.add(values) if accumulate else at.set(values)


@of("_unsafe_masked_index_put_accumulate.default")
def _masked_index_put(x, mask, indices, values):
    inside = [None if i is None else rnp.clip(i, 0, n - 1) for i, n in zip(indices, x.shape)]
    return _index_put(x, inside, rnp.where(mask, values, rnp.zeros_like(values)), True)


# ---- elements put, or combined, at places along a dim ----
def _along(dim, index, rank):
    return (slice(None),) * (dim % rank if rank else 0) + (index,)


def _as_vector(x):
    return rnp.reshape(x, (1,)) if x.ndim == 0 else x


@of("index_add.default")
def _index_add(x, dim, index, source, alpha=1):
    source = source if alpha == 1 else source * alpha
    y = _as_vector(x).at[_along(dim, _as_vector(index), x.ndim)].add(_as_vector(source))
    return rnp.reshape(y, x.shape)


@of("index_copy.default")
def _index_copy(x, dim, index, source):
    return rnp.reshape(_as_vector(x).at[_along(dim, _as_vector(index), x.ndim)].set(_as_vector(source)), x.shape)


@of("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(x, dim, index, value):
    return rnp.reshape(_as_vector(x).at[_along(dim, _as_vector(index), x.ndim)].set(as_array(value, x.dtype_name)), x.shape)


@of("put.default")
def _put(x, index, source, accumulate=False):
    at = rnp.ravel(x).at[rnp.ravel(index)]
    return rnp.reshape(at.add(rnp.ravel(source)) if accumulate else at.set(rnp.ravel(source)), x.shape)


def _flat_places(shape, dim, index):
    """Where, among all elements of an array of that shape, those lie that scatter means by an index along dim."""
    steps = [math.prod(shape[d + 1:]) for d in range(len(shape))]
    rest = np.zeros(index.shape, np.int32)
    for d, n in enumerate(index.shape):
        if d != dim:
            rest = rest + (np.arange(n, dtype=np.int32) * steps[d]).reshape([-1 if i == d else 1 for i in range(len(shape))]).astype(np.int32)
    index = rnp.astype(index, "int32")
    return rnp.where(index < 0, index + shape[dim], index) * steps[dim] + rest


_COMBINED = {None: "set", "add": "add", "sum": "add", "multiply": "multiply", "prod": "multiply", "amax": "max", "amin": "min"}


def _scattered(x, dim, index, source, reduction=None):
    if not index.size:
        return x
    if not x.ndim:
        return rnp.reshape(_scattered(_as_vector(x), 0, _as_vector(index), _as_vector(source), reduction), ())
    dim, index = dim % x.ndim, _as_vector(index)
    source = source[tuple(slice(0, n) for n in index.shape)] if source.ndim else rnp.broadcast_to(source, index.shape)
    at = rnp.ravel(x).at[rnp.ravel(_flat_places(x.shape, dim, index))]
    return rnp.reshape(getattr(at, _COMBINED[reduction])(rnp.ravel(source)), x.shape)


@of("scatter.src", "scatter.value")
def _scatter(x, dim, index, source):
    return _scattered(x, dim, index, as_array(source, x.dtype_name))


@of("scatter.reduce", "scatter.value_reduce")
def _scatter_reduced(x, dim, index, source, reduce):
    return _scattered(x, dim, index, as_array(source, x.dtype_name), reduce)


@of("scatter_add.default")
def _scatter_add(x, dim, index, source):
    return _scattered(x, dim, index, source, "add")


@of("scatter_reduce.two")
def _scatter_reduce(x, dim, index, source, reduce, include_self=True):
    if not index.size:
        return x
    kind = "sum" if reduce == "mean" else reduce
    if not include_self:  # what something is put on begins with what changes nothing
        whole = _dtypes.is_integer(x.dtype_name)
        least, most = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if whole else (-math.inf, math.inf)
        x = _scattered(x, dim, index, as_array({"sum": 0, "prod": 1, "amax": least, "amin": most}[kind], x.dtype_name))
    y = _scattered(x, dim, index, source, kind)
    if reduce == "mean":
        ones = rnp.ones(index.shape, "int32")
        count = _scattered(rnp.full(x.shape, int(include_self), "int32"), dim, index, ones, "add")
        count = rnp.astype(rnp.maximum(count, 1), x.dtype)
        y = rnp.floor_divide(y, count) if _dtypes.is_integer(x.dtype_name) else y / count
    return y


@of("index_reduce.default")
def _index_reduce(x, dim, index, source, reduce, include_self=True):
    if x.ndim:
        shape = [-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]
        index = rnp.broadcast_to(rnp.reshape(index, shape), source.shape)
    return _scatter_reduce(x, dim, index, source, reduce, include_self)


# ---- by masks ----
@of("masked_scatter.default")
def _masked_scatter(x, mask, source):
    """The elements of source, in order, where the mask holds."""
    mask, x = rnp.broadcast_arrays(mask, x)
    if not source.size:
        return x
    place = rnp.cumsum(rnp.ravel(mask), 0) - 1
    taken = rnp.take(rnp.ravel(source), rnp.clip(place, 0, source.size - 1))
    return rnp.where(mask, rnp.reshape(taken, x.shape), x)


@of("masked_select.default")
def _masked_select(x, mask):
    if mask.is_traced:
        raise Error("masked_select, whose result has as many elements as data say", "unsupported")
    shape = rnp.broadcast_shapes(x.shape, mask.shape) or (1,)
    known = np.broadcast_to(mask.numpy(), shape)
    return rnp.broadcast_to(x, shape)[known]


# ---- as many results as data say: of known elements only ----
@of("nonzero.default")
def _nonzero(x):
    found = rnp.nonzero(_as_vector(x))
    return rnp.astype(rnp.stack(found, 1) if x.ndim else rnp.zeros((found[0].shape[0], 0)), "int64")


@of("nonzero_static.default")
def _nonzero_static(x, size, fill_value=-1):
    if not x.ndim or not size:
        return rnp.full((size, x.ndim), fill_value, "int64")
    if not x.size:
        return rnp.full((size, x.ndim), fill_value, "int64")
    return rnp.astype(rnp.stack(rnp.nonzero(x, size=size, fill_value=fill_value), 1), "int64")


@of("_unique2.default", "_unique.default")
def _unique(x, sorted=True, return_inverse=False, return_counts=False):
    values, inverse, counts = rnp.unique(x, return_inverse=True, return_counts=True)
    nothing = rnp.zeros((0,), "int64")
    return (values, rnp.astype(rnp.reshape(inverse, x.shape), "int64") if return_inverse or return_counts else nothing,
            rnp.astype(counts, "int64") if return_counts else nothing)


@of("unique_dim.default")
def _unique_dim(x, dim, sorted=True, return_inverse=False, return_counts=False):
    values, inverse, counts = rnp.unique(x, return_inverse=True, return_counts=True, axis=dim)
    return values, rnp.astype(rnp.ravel(inverse), "int64"), rnp.astype(counts, "int64")


def _runs(x, changes):
    """The places where runs begin, the run of each element, and the runs' lengths."""
    n = changes.shape[0] + 1
    first = rnp.concatenate([rnp.ones((1,), "bool"), changes])
    starts = rnp.nonzero(first)[0]
    ends = rnp.concatenate([starts[1:], rnp.full((1,), n, "int32")])
    return starts, rnp.astype(rnp.cumsum(first, 0) - 1, "int64"), rnp.astype(ends - starts, "int64")


@of("unique_consecutive.default")
def _unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    nothing = rnp.zeros((0,), "int64")
    if dim is None:
        rows, axis = rnp.ravel(x), 0
        changes = rows[1:] != rows[:-1]
    else:
        rows, axis = x, dim
        front = rnp.reshape(rnp.moveaxis(x, dim, 0), (x.shape[dim], -1))
        changes = rnp.any(front[1:] != front[:-1], 1)
    if not rows.shape[axis]:
        return rows, nothing, nothing
    starts, run, lengths = _runs(rows, changes)
    run = rnp.reshape(run, x.shape) if dim is None else run
    return rnp.take(rows, starts, axis=axis), run if return_inverse else nothing, lengths if return_counts else nothing


@of("repeat_interleave.Tensor")
def _repeat_interleave(repeats, output_size=None):
    """0 so many times as the first number says, 1 as the second says, and so on."""
    ends = rnp.cumsum(repeats, 0)
    if output_size is None:
        if ends.is_traced:
            raise Error("repeat_interleave, whose result has as many elements as data say", "unsupported")
        output_size = int(ends[-1]) if repeats.shape[0] else 0
    at = rnp.expand_dims(rnp.arange(output_size, dtype="int64"), 1)
    return rnp.astype(rnp.sum(rnp.expand_dims(ends, 0) <= at, 1), repeats.dtype)


# ---- sums of rows of a table ----
@of("_embedding_bag_forward_only.default", "_embedding_bag.default")
def _embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False,
                   padding_idx=-1):
    """Rows of a table combined bag by bag: mode 0 sums, 1 means, 2 maxima. offsets say where each bag begins among the indices."""
    bags = offsets.shape[0] - int(include_last_offset)
    n = indices.shape[0]
    at = rnp.expand_dims(rnp.arange(n, dtype="int64"), 1)
    bag = rnp.sum(rnp.expand_dims(offsets[:bags], 0) <= at, 1) - 1
    counts = rnp.ones((n,), "bool")
    if padding_idx >= 0:
        counts = indices != padding_idx
        bag = rnp.where(counts, bag, bags)  # out of range: left out
    rows = rnp.take(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = rows * rnp.expand_dims(per_sample_weights, 1)
    size = rnp.zeros((bags,), "int64").at[bag].add(rnp.astype(counts, "int64"))
    filled = rnp.expand_dims(size > 0, 1)
    if mode == 2:
        y = rnp.full((bags, weight.shape[1]), -math.inf, weight.dtype).at[bag].max(rows)
        y = rnp.where(filled, y, 0)
    else:
        y = rnp.zeros((bags, weight.shape[1]), weight.dtype).at[bag].add(rows)
        y = y / rnp.astype(rnp.maximum(rnp.expand_dims(size, 1), 1), weight.dtype) if mode == 1 else y

    def largest():
        raise Error("embedding_bag: the places that its maxima come from", "unsupported")
    return y, rnp.astype(bag, "int64"), size, largest


@of("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x, mask, value):
    return rnp.where(mask, as_array(value, x.dtype_name), x)
