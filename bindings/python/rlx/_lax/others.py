"""Fourier transforms and random bits as jax.lax has them."""


from .. import _dtypes, ops
from .._array import as_array
from .._native import at_user_line
from ..numpy._creation import shape_tuple
from .types import FftType, RandomAlgorithm


def fft(x, fft_type, fft_lengths):
    """Fourier transforms of the last dims, as many as there are fft_lengths, which are the extents (of "IRFFT" those of the result).
    fft_type is a member of FftType, or its name."""
    x = as_array(x)
    kind = FftType[fft_type.upper()] if isinstance(fft_type, str) else FftType(fft_type)
    lengths = tuple(fft_lengths)
    if not 1 <= len(lengths) <= min(3, x.ndim):
        raise ValueError(at_user_line(f"lax.fft takes one to three lengths, of the last dims of an array of rank {x.ndim}, got {lengths}"))
    expected = list(lengths)
    if kind is FftType.IRFFT:
        expected[-1] = lengths[-1] // 2 + 1
    if list(x.shape[x.ndim - len(lengths):]) != expected:
        raise ValueError(at_user_line(f"lax.fft of the kind {kind.name} with lengths {lengths} takes the last extents {tuple(expected)}, got {x.shape}"))
    is_real = kind is FftType.RFFT
    if _dtypes.is_complex(x.dtype_name) == is_real or not _dtypes.is_inexact(x.dtype_name):
        raise TypeError(at_user_line(f"lax.fft of the kind {kind.name} takes {'floats' if is_real else 'complex numbers'}, got {x.dtype_name}"))
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    return ops.fft(x, kind=kind.name.lower(), axes=axes, length=lengths[-1] if kind is FftType.IRFFT else 0)


def rng_bit_generator(key, shape, dtype="uint32", algorithm=RandomAlgorithm.RNG_DEFAULT):
    """(the next key, random bits): a key is u32[4]. Which bits come is RLX's own, as with JAX it is each device's."""
    if algorithm not in (RandomAlgorithm.RNG_DEFAULT, 0, "default"):
        raise NotImplementedError(at_user_line(f"rng_bit_generator has the algorithm RNG_DEFAULT, not {algorithm!r}; rlx.random.bits has "
                                               "algorithm=\"threefry\" and \"philox\""))
    from .. import numpy as rnp
    key = as_array(key)
    if key.dtype_name != "u32" or key.shape != (4,):
        raise TypeError(at_user_line(f"the key of rng_bit_generator is u32[4], got {key.dtype_name}{list(key.shape)}"))
    name = _dtypes.name_of(dtype)
    if name not in ("u8", "u16", "u32", "u64"):
        raise TypeError(at_user_line(f"rng_bit_generator gives unsigned integers, not {_dtypes.long_name(name)}"))
    use = ops.fold_in(ops.fold_in(key[:2], key[2]), key[3])
    keys = ops.rng_split(use, dims=(3,))
    return rnp.reshape(keys[:2], (4,)), ops.rng_bits(keys[2], dims=shape_tuple(shape), dtype=name)
