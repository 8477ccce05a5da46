"""Random numbers: a key is a value, equal keys give equal numbers, and a key is split for each use.

    key = rlx.random.key(42)
    key, use = rlx.random.split(key)
    x = rlx.random.normal(use, (3, 4))

Philox 4x32-10 by default; `algorithm="threefry"` gives JAX's numbers bit for bit.
"""

import numpy as np

from . import _dtypes, ops
from ._array import as_array
from .numpy._creation import shape_tuple


def key(seed):
    """A key from a number: u32[2], its high and its low half."""
    seed = int(seed) & (2**64 - 1)
    return as_array(np.array([seed >> 32, seed & (2**32 - 1)], np.uint32))


PRNGKey = key


def split(key, num=2):
    """So many independent keys."""
    return ops.rng_split(key, dims=shape_tuple(num))


def fold_in(key, data):
    """A key that also depends on a number."""
    return ops.fold_in(key, as_array(np.uint32(data) if isinstance(data, int) else data))


def _named(dtype, default):
    """RLX's name of a dtype. None is the default, as in JAX, and not NumPy's float64."""
    return default if dtype is None else _dtypes.name_of(dtype)


def bits(key, shape=(), dtype="u32", algorithm="philox"):
    """Random bits."""
    return ops.rng_bits(key, dims=shape_tuple(shape), dtype=_named(dtype, "u32"), algorithm=algorithm)


def uniform(key, shape=(), dtype="f32", minval=0.0, maxval=1.0, algorithm="philox"):
    """Numbers in [minval, maxval)."""
    return ops.rng_uniform(key, dims=shape_tuple(shape), dtype=_named(dtype, "f32"), low=minval, high=maxval, algorithm=algorithm)


def normal(key, shape=(), dtype="f32", algorithm="philox"):
    """Numbers of the normal distribution with mean 0 and variance 1."""
    return ops.rng_normal(key, dims=shape_tuple(shape), dtype=_named(dtype, "f32"), algorithm=algorithm)


def truncated_normal(key, lower, upper, shape=(), dtype="f32", algorithm="philox"):
    """Numbers of the normal distribution between two bounds."""
    return ops.rng_truncated_normal(key, dims=shape_tuple(shape), dtype=_named(dtype, "f32"), lower=lower, upper=upper, algorithm=algorithm)


def randint(key, shape, minval, maxval, dtype="i32", algorithm="philox"):
    """Integers in [minval, maxval)."""
    return ops.rng_randint(key, dims=shape_tuple(shape), low=minval, high=maxval, dtype=_named(dtype, "i32"), algorithm=algorithm)


def bernoulli(key, p=0.5, shape=None, algorithm="philox"):
    """True with probability p."""
    p = as_array(p)
    return ops.rng_bernoulli(key, p, dims=p.shape if shape is None else shape_tuple(shape), algorithm=algorithm)


def categorical(key, logits, axis=-1, shape=(), algorithm="philox"):
    """Indices drawn from the distributions e^logits along an axis."""
    return ops.rng_categorical(key, as_array(logits), axis=axis, dims=shape_tuple(shape), algorithm=algorithm)


def permutation(key, x, algorithm="philox"):
    """The numbers below x, or the rows of x, in random order."""
    from . import numpy as rnp
    if isinstance(x, (int, np.integer)):
        return ops.rng_permutation(key, size=int(x), algorithm=algorithm)
    x = as_array(x)
    return rnp.take(x, ops.rng_permutation(key, size=x.shape[0], algorithm=algorithm), axis=0)
