"""Keys: u32[2], made, split and folded as JAX's threefry2x32 does."""

import operator

import numpy as np

from .. import _dtypes, ops
from .._array import Array, as_array, convert
from .._native import at_user_line
from ..numpy._creation import shape_tuple


def key(seed, *, impl=None, dtype=None):
    """A key from a number: u32[2], its high and its low half. A key does not say which generator draws with it: `impl` and `dtype`
    are there for JAX's sake, and anything but None is an error; the functions that draw take `algorithm`."""
    for name, value in (("impl", impl), ("dtype", dtype)):
        if value is not None:
            raise ValueError(f"{name} is {value!r}, and a key does not choose a generator; the functions that draw do, by "
                             "algorithm=\"philox\", \"threefry\" or \"threefry_original\"")
    if isinstance(seed, Array) and seed.is_traced:
        from .. import numpy as rnp
        if not _dtypes.is_integer(seed.dtype_name):
            raise TypeError(at_user_line(f"a seed is an integer, got {seed!r}"))
        low = convert(seed, "u32")
        high = convert(seed >> 32, "u32") if seed.dtype_name in ("i64", "u64") else rnp.zeros_like(low)
        return rnp.stack([high, low], axis=-1)
    try:
        seed = operator.index(seed) & (2**64 - 1)
    except TypeError:
        raise TypeError(at_user_line(f"a seed is an integer, got {seed!r}")) from None
    return as_array(np.array([seed >> 32, seed & (2**32 - 1)], np.uint32))


PRNGKey = key


def split(key, num=2):
    """So many independent keys."""
    return ops.rng_split(key, dims=shape_tuple(num))


def fold_in(key, data):
    """A key that also depends on a number."""
    return ops.fold_in(key, as_array(np.uint32(data) if isinstance(data, int) else data))


def clone(key):
    """The key itself: nothing here keeps account of the keys that were used."""
    return as_array(key)


def key_data(keys):
    """The numbers of keys, u32[..., 2]: the keys themselves."""
    keys = as_array(keys)
    if keys.dtype_name != "u32" or keys.ndim == 0 or keys.shape[-1] != 2:
        raise TypeError(f"keys are u32[..., 2], got {keys.dtype_name}{list(keys.shape)}")
    return keys


def wrap_key_data(key_bits_array, *, impl=None, dtype=None):
    """Numbers as keys: u32[..., 2]. `impl` and `dtype` as in `key`."""
    if impl is not None or dtype is not None:
        key(0, impl=impl, dtype=dtype)
    return key_data(key_bits_array)


def split_for(algorithm, key, num=2):
    """The keys of the parts of a distribution, as a list: split as this generator's JAX does."""
    keys = ops.rng_split(key, dims=(num,), original=algorithm == "threefry_original")
    return [keys[i] for i in range(num)]
