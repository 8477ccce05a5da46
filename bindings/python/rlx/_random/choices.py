"""Choices among things: categorical, choice, permutation."""

import math

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy._creation import shape_tuple
from ..numpy._shape import axis_of
from .by_inversion import gumbel
from .draws import bits, drawn_shape, randint, uniform
from .keys import split_for


def categorical(key, logits, axis=-1, shape=None, replace=True, mode=None, *, algorithm="philox"):
    """Indices drawn from the distributions e^logits along an axis. `shape` ends in that of the logits without the axis; without
    `replace` no index comes twice for one distribution. `mode` as in gumbel."""
    from .. import numpy as rnp
    logits = ew.inexact(ew.not_complex(logits, "categorical"))
    axis = axis_of(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1:]
    shape = batch if shape is None else shape_tuple(shape)
    if len(shape) < len(batch) or any(n not in (1, m) for n, m in zip(batch, shape[len(shape) - len(batch):])):
        raise Error(at_user_line(f"categorical of shape {shape} for distributions of shape {batch}; it ends in that"), "shape_mismatch")
    before = shape[:len(shape) - len(batch)]
    if replace and mode in (None, "low") and shape[len(before):] == batch:
        return ops.rng_categorical(key, logits, axis=axis, dims=before, algorithm=algorithm)
    if replace:
        inner = list(shape[len(before):])
        inner.insert(axis, logits.shape[axis])
        noise = gumbel(key, before + tuple(inner), logits.dtype_name, mode, algorithm=algorithm)
        return ops.argmax(noise + logits, axis=axis + len(before))
    count = math.prod(before)
    if count > logits.shape[axis]:
        raise Error(at_user_line(f"{count} draws without replacement of {logits.shape[axis]} classes"), "shape_mismatch")
    if shape[len(before):] != batch:
        raise Error(at_user_line(f"categorical of shape {shape} without replacement for distributions of shape {batch}; it ends in that"),
                    "shape_mismatch")
    noisy = logits + gumbel(key, logits.shape, logits.dtype_name, mode, algorithm=algorithm)
    places = ops.top_k(rnp.moveaxis(noisy, axis, -1), k=count, axis=-1)[1]
    return rnp.reshape(rnp.moveaxis(places, -1, 0), shape)


def _is_number_of_things(x):
    return isinstance(x, (int, np.integer)) or (not isinstance(x, (list, tuple)) and as_array(x).ndim == 0)


def _number_of_things(name, x):
    if not _dtypes.is_integer(as_array(x).dtype_name):
        raise TypeError(at_user_line(f"{name} takes a whole number or an array with a dim, got the scalar {x}"))
    return int(x)


def permutation(key, x, axis=0, independent=False, *, algorithm="philox"):
    """The numbers below x, or what stands along an axis of x, in random order; with `independent` each line along it in one of its
    own."""
    from .. import numpy as rnp
    if _is_number_of_things(x):
        return ops.rng_permutation(key, size=_number_of_things("permutation", x), algorithm=algorithm)
    x = as_array(x)
    axis = axis_of(axis, x.ndim)
    if not independent or x.ndim == 1:
        return rnp.take(x, ops.rng_permutation(key, size=x.shape[axis], algorithm=algorithm), axis=axis)
    for _ in range(math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))):  # so that ties hardly matter
        key, use = split_for(algorithm, key)
        x = ops.sort(bits(use, x.shape, algorithm=algorithm), x, axis=axis)[1]
    return x


def choice(key, a, shape=(), replace=True, p=None, axis=0, mode=None, *, algorithm="philox"):
    """Elements of a along an axis (or numbers below a), each as likely as the next or as p says; without `replace` none comes twice.
    `mode` as in gumbel."""
    from .. import numpy as rnp
    if isinstance(shape, (int, str)):
        raise TypeError(at_user_line(f"the shape of choice is a sequence, got {shape!r}"))
    shape = shape_tuple(shape)
    of_numbers = _is_number_of_things(a)
    if of_numbers:
        things, count = None, _number_of_things("choice", a)
    else:
        things = as_array(a)
        axis = axis_of(axis, things.ndim)
        count = things.shape[axis]
    draws = math.prod(shape)
    if draws == 0:
        return rnp.zeros(shape, "int32" if of_numbers else things.dtype)
    if count <= 0:
        raise ValueError(at_user_line("choice among nothing"))
    if not replace and draws > count:
        raise ValueError(at_user_line(f"choice of {draws} among {count} without replacement"))
    if p is None:
        if replace:
            places = randint(key, shape, 0, count, algorithm=algorithm)
        else:
            places = ops.rng_permutation(key, size=count, algorithm=algorithm)[:draws]
    else:
        p = ew.inexact(ew.not_complex(p, "choice"))
        if p.shape != (count,):
            raise Error(at_user_line(f"choice among {count} with p of shape {p.shape}; there is one probability for each"), "shape_mismatch")
        if replace:
            up_to = ops.cumsum(p, axis=0)
            at = up_to[-1] * (1 - uniform(key, shape, p.dtype_name, algorithm=algorithm))
            places = convert(rnp.searchsorted(up_to, at), "i32")
        else:
            places = ops.top_k(gumbel(key, (count,), p.dtype_name, mode, algorithm=algorithm) + ops.log(p), k=draws)[1]
    places = rnp.reshape(places, shape)
    return places if of_numbers else rnp.take(things, places, axis=axis)
