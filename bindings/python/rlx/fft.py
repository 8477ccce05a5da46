"""Discrete Fourier transforms as numpy.fft has them, of any length. float32 becomes complex64, float64 complex128."""

import operator

from . import _dtypes, ops
from ._array import as_array, convert
from . import numpy as rnp
from .numpy._elementwise import inexact
from .numpy._shape import axis_of, roll, slice_axis

_NORMS = ("backward", "ortho", "forward")


def _norm(norm):
    norm = "backward" if norm is None else norm
    if norm not in _NORMS:
        raise ValueError(f"norm is {norm!r}; it is backward, ortho or forward")
    return norm


def _complex(x):
    x = inexact(x)
    if _dtypes.is_complex(x.dtype_name):
        return x
    return convert(x, "c128" if x.dtype_name == "f64" else "c64")


def _real(x):
    x = inexact(x)
    if _dtypes.is_complex(x.dtype_name):
        raise TypeError(f"a transform of real numbers, got {x.dtype_name}")
    return x if x.dtype_name == "f64" else convert(x, "f32")


def resized(x, axis, n):
    """Cut or padded with zeros at the end to extent n."""
    axis = axis_of(axis, x.ndim)
    if n is None or x.shape[axis] == n:
        return x
    if n < 1:
        raise ValueError(f"a transform of {n} points")
    if x.shape[axis] > n:
        return slice_axis(x, axis, 0, n)
    return rnp.pad(x, [(0, n - x.shape[axis]) if d == axis else (0, 0) for d in range(x.ndim)])


def _axes(x, s, axes):
    if axes is None:
        axes = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    axes = [axis_of(a, x.ndim) for a in axes]
    s = [None] * len(axes) if s is None else [None if n in (None, -1) else n for n in s]
    if len(s) != len(axes):
        raise ValueError("s and axes must have one entry for each transformed axis")
    return axes, s


def _resized(x, s, axes):
    axes, s = _axes(x, s, axes)
    for axis, n in zip(axes, s):
        x = resized(x, axis, n)
    return x, axes


def fftn(a, s=None, axes=None, norm=None):
    """Over several axes, all by default."""
    x, axes = _resized(_complex(a), s, axes)
    return ops.fft(x, kind="fft", axes=axes, norm=_norm(norm)) if axes else x


def ifftn(a, s=None, axes=None, norm=None):
    """The inverse of fftn."""
    x, axes = _resized(_complex(a), s, axes)
    return ops.fft(x, kind="ifft", axes=axes, norm=_norm(norm)) if axes else x


def rfftn(a, s=None, axes=None, norm=None):
    """Of real numbers: along the last of the axes the first half, n // 2 + 1 numbers."""
    x, axes = _resized(_real(a), s, axes)
    return ops.fft(x, kind="rfft", axes=axes, norm=_norm(norm))


def irfftn(a, s=None, axes=None, norm=None):
    """The inverse of rfftn; the extent along the last of the axes is s[-1], 2 (n - 1) by default."""
    x, s = _complex(a), None if s is None else tuple(s)
    is_default = not s or s[-1] is None  # -1 is the extent that x has
    axes, s = _axes(x, s, axes)
    for axis, n in zip(axes[:-1], s[:-1]):
        x = resized(x, axis, n)
    length = s[-1] if s[-1] is not None else 2 * (x.shape[axes[-1]] - 1) if is_default else x.shape[axes[-1]]
    if length < 1:
        raise ValueError(f"a transform of {length} points")
    x = resized(x, axes[-1], length // 2 + 1)
    return ops.fft(x, kind="irfft", axes=axes, norm=_norm(norm), length=length)


def _points(n):
    """The extents of a transform along one axis. There is no -1 that stands for the extent there is, as among several."""
    if n is None:
        return None
    if operator.index(n) < 1:
        raise ValueError(f"a transform of {n} points")
    return (n,)


def fft(a, n=None, axis=-1, norm=None):
    """Along one axis, cut or padded with zeros to n points."""
    return fftn(a, _points(n), (axis,), norm)


def ifft(a, n=None, axis=-1, norm=None):
    """The inverse of fft."""
    return ifftn(a, _points(n), (axis,), norm)


def rfft(a, n=None, axis=-1, norm=None):
    """Of real numbers: the first n // 2 + 1 of the results."""
    return rfftn(a, _points(n), (axis,), norm)


def irfft(a, n=None, axis=-1, norm=None):
    """The inverse of rfft; n points, 2 (m - 1) by default."""
    return irfftn(a, _points(n), (axis,), norm)


_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(a, n=None, axis=-1, norm=None):
    """Of numbers with Hermitian symmetry, of which the first half is given: real results."""
    return irfft(rnp.conj(_complex(a)), n, axis, _OTHER[_norm(norm)])


def ihfft(a, n=None, axis=-1, norm=None):
    """The inverse of hfft."""
    return rnp.conj(rfft(a, n, axis, _OTHER[_norm(norm)]))


def fft2(a, s=None, axes=(-2, -1), norm=None):
    """Over two axes."""
    return fftn(a, s, axes, norm)


def ifft2(a, s=None, axes=(-2, -1), norm=None):
    """The inverse of fft2."""
    return ifftn(a, s, axes, norm)


def rfft2(a, s=None, axes=(-2, -1), norm=None):
    """Of real numbers over two axes."""
    return rfftn(a, s, axes, norm)


def irfft2(a, s=None, axes=(-2, -1), norm=None):
    """The inverse of rfft2."""
    return irfftn(a, s, axes, norm)


def _shift(x, axes, half):
    x = as_array(x)
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    for a in axes:
        a = axis_of(a, x.ndim)
        x = roll(x, half(x.shape[a]), a)
    return x


def fftshift(x, axes=None):
    """The frequency 0 in the middle."""
    return _shift(x, axes, lambda n: n // 2)


def ifftshift(x, axes=None):
    """The inverse of fftshift."""
    return _shift(x, axes, lambda n: -(n // 2))


def fftfreq(n, d=1.0, *, dtype=None, device=None):
    """The frequencies of fft's results for samples `d` apart, float32 unless `dtype` says otherwise."""
    import numpy as np
    return rnp.asarray(np.fft.fftfreq(n, d), "f32" if dtype is None else dtype, device=device)


def rfftfreq(n, d=1.0, *, dtype=None, device=None):
    """The frequencies of rfft's results for samples `d` apart, float32 unless `dtype` says otherwise."""
    import numpy as np
    return rnp.asarray(np.fft.rfftfreq(n, d), "f32" if dtype is None else dtype, device=device)
