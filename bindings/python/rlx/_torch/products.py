"""Products of matrices, convolutions."""

from .. import numpy as rnp
from .._windows import conv, conv_transpose
from .table import of


@of("mm.default", "bmm.default", "matmul.default", "mv.default")
def _matmul(x, y):
    return rnp.matmul(x, y)


@of("dot.default")
def _dot(x, y):
    return rnp.sum(x * y)


def _added(c, product, beta, alpha):
    """beta c + alpha times a product; where beta is 0 the elements of c, NaN among them, do not count."""
    product = product if alpha == 1 else product * alpha
    return rnp.astype(product, c.dtype) if beta == 0 else (c if beta == 1 else c * beta) + product


@of("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(c, a, b, beta=1, alpha=1):
    return _added(c, rnp.matmul(a, b), beta, alpha)


@of("linear.default")
def _linear(x, w, bias=None):
    y = rnp.matmul(x, rnp.transpose(w))
    return y if bias is None else y + bias


@of("convolution.default")
def _convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = x.ndim - 2
    wide = lambda values: tuple(values) * rank if len(values) == 1 else tuple(values)
    y = conv_transpose(x, w, wide(stride), wide(padding), wide(output_padding), wide(dilation), groups) if transposed else \
        conv(x, w, wide(stride), wide(padding), wide(dilation), groups)
    return y if bias is None else y + rnp.reshape(bias, (-1,) + (1,) * rank)


@of("addbmm.default")
def _addbmm(c, a, b, beta=1, alpha=1):
    return _added(c, rnp.sum(rnp.matmul(a, b), 0), beta, alpha)


@of("vdot.default")
def _vdot(x, y):
    return rnp.sum(rnp.conj(x) * y)


@of("_trilinear.default")
def _trilinear(a, b, c, expand_a, expand_b, expand_c, summed, unroll_dim=1):
    wide = lambda x, dims: rnp.expand_dims(x, tuple(dims)) if dims else x
    y = wide(a, expand_a) * wide(b, expand_b) * wide(c, expand_c)
    return rnp.sum(y, tuple(summed)) if summed else y
