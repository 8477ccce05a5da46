"""Fourier transforms, with PyTorch's three kinds of norm: 0 none, 1 by 1 / sqrt(n), 2 by 1 / n."""

import math

from .. import fft
from .. import numpy as rnp
from .table import of


def _scaled(y, kind, count):
    return y if kind == 0 else y * (1 / math.sqrt(count) if kind == 1 else 1 / count)


def _count(x, dims, last=None):
    extents = [x.shape[d] for d in dims]
    return math.prod(extents if last is None else [*extents[:-1], last])


@of("_fft_r2c.default")
def _of_real(x, dims, norm, onesided):
    dims = tuple(dims)
    y = fft.rfftn(x, axes=dims) if onesided else fft.fftn(x, axes=dims)
    return _scaled(y, norm, _count(x, dims))


@of("_fft_c2c.default")
def _of_complex(x, dims, norm, forward):
    dims = tuple(dims)
    return _scaled(fft.fftn(x, axes=dims) if forward else fft.ifftn(x, axes=dims, norm="forward"), norm, _count(x, dims))


@of("_fft_c2r.default")
def _to_real(x, dims, norm, last):
    dims = tuple(dims)
    y = fft.irfftn(x, s=[*(x.shape[d] for d in dims[:-1]), last], axes=dims, norm="forward")
    return _scaled(y, norm, _count(x, dims, last))
