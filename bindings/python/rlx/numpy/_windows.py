"""Windows of signal processing: weights of M samples, float32."""

import operator

import numpy as np

from .._array import as_array, convert
from . import _elementwise as ew
from ._creation import full
from ._more_arithmetic import i0


def _window(weights, M):
    """Weights that are computed in float64 and rounded once."""
    M = operator.index(M)
    if M < 2:
        return full((max(M, 0),), 1.0, "f32")
    return as_array(weights(np.arange(M, dtype=np.float64), M).astype(np.float32))


def bartlett(M):
    """A triangle, 0 at both ends."""
    return _window(lambda n, M: 1 - np.abs(2 * n + 1 - M) / (M - 1), M)


def blackman(M):
    """0.42 - 0.5 cos + 0.08 cos of the double angle."""
    return _window(lambda n, M: 0.42 - 0.5 * np.cos(2 * np.pi * n / (M - 1)) + 0.08 * np.cos(4 * np.pi * n / (M - 1)), M)


def hamming(M):
    """0.54 - 0.46 cos."""
    return _window(lambda n, M: 0.54 - 0.46 * np.cos(2 * np.pi * n / (M - 1)), M)


def hanning(M):
    """0.5 - 0.5 cos."""
    return _window(lambda n, M: 0.5 - 0.5 * np.cos(2 * np.pi * n / (M - 1)), M)


def kaiser(M, beta):
    """I0(beta sqrt(1 - t^2)) / I0(beta), t from -1 to 1; beta may be traced."""
    M = operator.index(M)
    if as_array(beta).ndim:
        raise ValueError(f"beta is one number, got the shape {as_array(beta).shape}")
    if M < 2:
        return full((max(M, 0),), 1.0, "f32")
    t = (2 * np.arange(M, dtype=np.float64) - (M - 1)) / (M - 1)
    beta = convert(as_array(beta), "f32")
    root = as_array(np.sqrt(np.maximum(1 - t * t, 0)).astype(np.float32))
    return ew.divide(i0(ew.multiply(root, beta)), i0(beta))
