"""Elements at places that data say."""

from .. import numpy as rnp
from .._array import as_array
from .._native import Error
from .table import of


@of("embedding.default")
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return rnp.take(weight, indices, axis=0)


@of("index_select.default")
def _index_select(x, dim, index):
    return rnp.take(x, index, axis=dim)


@of("gather.default")
def _gather(x, dim, index, sparse_grad=False):
    if any(a != b for d, (a, b) in enumerate(zip(x.shape, index.shape)) if d != dim % x.ndim):
        x = x[tuple(slice(None) if d == dim % x.ndim else slice(0, n) for d, n in enumerate(index.shape))]
    return rnp.take_along_axis(x, index, axis=dim)


@of("index.Tensor")
def _index(x, indices):
    if any(i is not None and i.dtype_name == "bool" for i in indices):
        raise Error("index by a mask, whose result has as many elements as data say", "unsupported")
    return x[tuple(slice(None) if i is None else i for i in indices)]


@of("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x, mask, value):
    return rnp.where(mask, as_array(value, x.dtype_name), x)
