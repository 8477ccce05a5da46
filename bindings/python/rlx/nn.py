"""Functions of neural networks, as jax.nn has them. Integers become float32. `eps` is a second name for `epsilon`."""

import math

import numpy as np

from . import _dtypes, ops
from ._array import as_array
from ._native import Error, at_user_line
from ._ops import epsilon_of
from ._nn.activations import identity, log1mexp, sparse_plus, sparse_sigmoid, squareplus, tanh
from ._nn.attention import dot_product_attention
from .numpy import _elementwise as ew
from .numpy._reductions import _reduced
from .numpy._shape import axes_of, axis_of, reshape, split
from . import numpy as rnp


def relu(x):
    """max(x, 0); the derivative at 0 is 0."""
    return ops.relu(as_array(x))


def relu6(x):
    """x limited to [0, 6]."""
    return ops.relu6(ew.inexact(x))


def silu(x):
    """x sigmoid(x)."""
    x = ew.inexact(x)
    return ew.multiply(x, sigmoid(x)) if _dtypes.is_complex(x.dtype_name) else ops.silu(x)


swish = silu


def gelu(x, approximate=True):
    """x Phi(x); by a hyperbolic tangent where `approximate`."""
    x = ew.inexact(x)
    return ops.gelu_tanh(x) if approximate else ops.gelu(x)


def selu(x):
    """Scaled exponential linear unit (Klambauer et al. 2017)."""
    return ops.selu(ew.inexact(x))


def celu(x, alpha=1.0):
    """x where it is positive, else alpha (e^(x / alpha) - 1)."""
    return ops.celu(ew.inexact(x), alpha=alpha)


def elu(x, alpha=1.0):
    """x where it is positive, else alpha (e^x - 1)."""
    return ops.elu(ew.inexact(x), alpha=alpha)


def leaky_relu(x, negative_slope=0.01):
    """x where it is not negative, else negative_slope x."""
    return ops.leaky_relu(ew.inexact(x), slope=negative_slope)


def mish(x):
    """x tanh(softplus(x))."""
    return ops.mish(ew.inexact(x))


def softplus(x):
    """ln(1 + e^x)."""
    return ops.softplus(ew.inexact(x))


def soft_sign(x):
    """x / (1 + |x|)."""
    return ops.softsign(ew.inexact(x))


def log_sigmoid(x):
    """ln(sigmoid(x))."""
    return ops.log_sigmoid(ew.inexact(x))


def sigmoid(x):
    """1 / (1 + e^-x)."""
    x = ew.inexact(x)
    if not _dtypes.is_complex(x.dtype_name):
        return ops.logistic(x)
    # Only of the half plane where e^z is at most 1: an infinite one would make NaN of its parts.
    is_right = ew.greater_equal(ops.real(x), 0)
    e = ew.exp(rnp.where(is_right, ew.negative(x), x))
    return ew.divide(rnp.where(is_right, ew.add(ew.multiply(e, 0), 1), e), ew.add(e, 1))


def hard_sigmoid(x):
    """x / 6 + 1 / 2 limited to [0, 1]."""
    return ops.hard_sigmoid(ew.inexact(x))


def hard_silu(x):
    """x hard_sigmoid(x)."""
    return ops.hard_swish(ew.inexact(x))


hard_swish = hard_silu


def hard_tanh(x):
    """x limited to [-1, 1]."""
    return rnp.clip(ew.inexact(x), -1, 1)


def glu(x, axis=-1):
    """The first half along an axis times the sigmoid of the second."""
    x = ew.inexact(x)
    n = x.shape[axis_of(axis, x.ndim)]
    if n % 2:
        raise ValueError(f"glu takes an even extent, got {n} along axis {axis}")
    a, b = split(x, 2, axis)
    return a * sigmoid(b)


def _masked(x, where, fill):
    """x where `where` holds, else the number `fill`; for reductions that leave places out."""
    return x if where is None else rnp.where(where, x, ew.constant_like(x, fill))


def _of_one(x, axis):
    """log_softmax of an array of rank 0, whose axis is its only element: 0, or NaN where it is not finite."""
    axes_of(axis, 1)
    return x - x


def softmax(x, axis=-1, where=None):
    """e^x over its sum along an axis (or several); places where `where` does not hold count for nothing, and give 0."""
    x = ew.inexact(x)
    if where is not None:
        return _masked(softmax(_masked(x, where, -np.inf), axis), where, 0)
    if x.ndim == 0:
        return ew.exp(_of_one(x, axis))
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return ops.softmax(x, axis=axes[0])
    shift = ops.stop_gradient(_reduced(x, "max", axes, True))
    e = ew.exp(x - shift)
    return e / _reduced(e, "sum", axes, True)


def log_softmax(x, axis=-1, where=None):
    """The logarithm of softmax; places where `where` does not hold count for nothing, and give -inf."""
    x = ew.inexact(x)
    if where is not None:
        return _masked(log_softmax(_masked(x, where, -np.inf), axis), where, -np.inf)
    if x.ndim == 0:
        return _of_one(x, axis)
    axes = axes_of(axis, x.ndim)
    return ops.log_softmax(x, axis=axes[0]) if len(axes) == 1 else x - logsumexp(x, axes, keepdims=True)


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False, where=None):
    """ln of the sum of b e^a over these axes, without b of e^a; NaN where the sum is negative, unless return_sign asks for (ln of its
    magnitude, its sign). Places where `where` does not hold are left out."""
    a = ew.inexact(a)
    if b is None and not return_sign:
        a = _masked(a, where, -np.inf)
        return ops.logsumexp(a, axes=axes_of(axis, a.ndim), keep_dims=keepdims)
    a, b = ew.together(a, 1 if b is None else b)
    a = _masked(rnp.where(b == 0, -np.inf, a), where, -np.inf)  # what counts nothing is not looked at
    axes = axes_of(axis, a.ndim)
    shift = ops.stop_gradient(_reduced(a, "max", axes, True))
    shift = rnp.where(rnp.isfinite(shift), shift, 0)
    total = _reduced(b * ew.exp(a - shift), "sum", axes, True)
    sign = ew.sign(total)
    made = ew.log(ew.abs(total) if return_sign else total) + shift
    if not keepdims:
        made, sign = (rnp.squeeze(v, axes) if axes else v for v in (made, sign))
    return (made, sign) if return_sign else made


def logmeanexp(x, axis=None, where=None, keepdims=False):
    """ln of the mean of e^x over these axes, of the places where `where` holds."""
    x = ew.inexact(x)
    ones = rnp.ones(x.shape, x.dtype)
    count = rnp.sum(_masked(ones, where, 0), axes_of(axis, x.ndim), keepdims=keepdims)
    return logsumexp(x, axis, keepdims=keepdims, where=where) - ew.log(count)


def standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5, where=None, *, algorithm="fast", eps=None):
    """x less its mean, over its standard deviation; `mean` and `variance` are found where they are not given, of the places where
    `where` holds. Beside a mean that is given, the variance is the mean of the squares less the square of that mean, as in JAX, and
    with the `algorithm` "stable" the mean of the squared differences to it. It is computed of differences to x's own mean in either
    case, so that no digits are lost where that is large."""
    if algorithm not in ("stable", "fast"):
        raise ValueError(at_user_line(f"algorithm is {algorithm!r}; it is \"stable\" or \"fast\""))
    x, epsilon = ew.inexact(x), epsilon_of(epsilon, 1e-5, eps)
    mean, variance = (v if v is None else as_array(v, x.dtype_name if isinstance(v, (int, float)) else None) for v in (mean, variance))
    axes = axes_of(axis, x.ndim)
    count = None if where is None else rnp.sum(_masked(rnp.ones(x.shape, x.dtype), where, 0), axes, keepdims=True)
    averaged = lambda v: rnp.mean(v, axes, keepdims=True) if where is None else rnp.sum(_masked(v, where, 0), axes, keepdims=True) / count
    own = averaged(x) if mean is None or variance is None else None
    if variance is None:
        variance = averaged(ops.square(x - own))
        if mean is not None and algorithm == "fast":
            variance = rnp.maximum(variance + ops.square(own) - ops.square(mean), 0)
        elif mean is not None:
            variance = variance + ops.square(own - mean)
    return (x - (own if mean is None else mean)) * ops.rsqrt(ew.inexact(variance + epsilon))


def one_hot(x, num_classes, dtype="f32", axis=-1):
    """1 where the position along a new axis equals the index, else 0; all 0 where the index is out of range, or no whole number."""
    x, dtype = as_array(x), "f32" if dtype is None else _dtypes.name_of(dtype)
    if not _dtypes.is_integer(x.dtype_name):
        whole = rnp.astype(x, "i32")
        x = whole if x.dtype_name == "bool" else rnp.where(rnp.equal(rnp.astype(whole, x.dtype_name), x), whole, -1)
    return ops.one_hot(x, depth=num_classes, axis=axis, dtype=dtype)


def dropout(key, x, rate=0.5):
    """Each element of x is 0 with probability `rate`, else x / (1 - rate)."""
    return ops.dropout(as_array(key), ew.inexact(x), rate=rate)


def batch_norm(x, gamma, beta, mean, variance, training=True, momentum=0.1, epsilon=1e-5, axis=1, eps=None):
    """(normalized x, new mean, new variance): each place along `axis` normalized by the running statistics, which come back as they
    are, or in `training` by those of the batch, towards which the running ones move by `momentum` (the variance towards that of a
    sample, as in PyTorch)."""
    epsilon = epsilon_of(epsilon, 1e-5, eps)
    x, mean, variance = ew.inexact(x), as_array(mean), as_array(variance)
    if not training:
        return ops.batch_norm_inference(x, gamma, beta, mean, variance, epsilon=epsilon, feature_axis=axis), mean, variance
    others = tuple(a for a in range(x.ndim) if a != axis_of(axis, x.ndim))
    extents = [x.shape[a] for a in others]
    if not any(isinstance(n, str) for n in extents) and (count := math.prod(extents)) < 2:
        raise Error(at_user_line(f"batch_norm in training takes the variance of each channel, of more than one value; {x.shape} has {count}"))
    now, spread = rnp.mean(x, others), rnp.var(x, others)
    y = ops.batch_norm_inference(x, gamma, beta, now, spread, epsilon=epsilon, feature_axis=axis)
    moved = lambda old, new: old * (1 - momentum) + ops.stop_gradient(new) * momentum
    return y, moved(mean, now), moved(variance, rnp.var(x, others, ddof=1))


# ---- losses ----
def _pair(name, x, target):
    """Two operands of one dtype; losses do not broadcast: (n, 1) against (n,) would be n * n of them."""
    x, target = ew.promoted(ew.inexact(x), target)
    if x.shape != target.shape:
        raise ValueError(at_user_line(f"{name} compares arrays of one shape, got {x.shape} and {target.shape}"))
    return x, target


def cross_entropy(logits, labels, weight=None, axis=-1, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """-log_softmax of the logits at the labels, as torch.nn.functional.cross_entropy; the classes stand along `axis`. Labels are
    integers, of which those that are `ignore_index` do not count, or such numbers as floats (one that is not whole gives NaN); or
    they are the weights of all classes, floats of the logits' shape. `weight`
    (classes,) counts each class by its own: the mean over labels that are integers is over the weights that count. `reduction`:
    "none", "mean", "sum"."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(at_user_line(f"reduction is 'none', 'mean' or 'sum', got {reduction!r}"))
    logits, labels = ew.inexact(logits), as_array(labels)
    if weight is not None:
        weight = rnp.astype(as_array(weight), logits.dtype_name)
    if _dtypes.is_float(labels.dtype_name) and labels.ndim == logits.ndim - 1:
        whole = rnp.astype(labels, "int32")
        labels = rnp.where(rnp.astype(whole, labels.dtype_name) == labels, whole, np.int32(np.iinfo(np.int32).min))
    if _dtypes.is_integer(labels.dtype_name):
        return ops.cross_entropy(logits, labels, weight, axis=axis, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction)
    logits, targets = _pair("cross_entropy with weights of all classes", logits, labels)
    if label_smoothing:
        targets = smooth_labels(targets, label_smoothing, axis)
    if weight is not None:
        shape = [1] * logits.ndim
        shape[axis_of(axis, logits.ndim)] = -1
        targets = targets * reshape(weight, shape)
    losses = ops.softmax_cross_entropy(logits, targets, axis=axis)
    return losses if reduction == "none" else rnp.mean(losses) if reduction == "mean" else rnp.sum(losses)


def smooth_labels(targets, smoothing, axis=-1):
    """(1 - smoothing) targets + smoothing / classes, the classes along an axis."""
    return ops.smooth_labels(ew.inexact(targets), smoothing=smoothing, axis=axis)


def mse(prediction, target, reduction="mean"):
    """(prediction - target)^2. `reduction`, here and below: "none", "mean", "sum", "batch_mean" (the sum over the first extent)."""
    return ops.mse(*_pair("mse", prediction, target), reduction=reduction)


def huber(prediction, target, delta=1.0, reduction="mean"):
    """d^2 / 2 where d = |prediction - target| is at most `delta`, beyond it delta (d - delta / 2)."""
    return ops.huber(*_pair("huber", prediction, target), delta=delta, reduction=reduction)


def binary_cross_entropy_with_logits(logits, target, reduction="mean"):
    """-(target ln s + (1 - target) ln (1 - s)), s = sigmoid(logits)."""
    return ops.binary_cross_entropy_with_logits(*_pair("binary_cross_entropy_with_logits", logits, target), reduction=reduction)


def kl_divergence(log_prediction, target, log_target=False, reduction="mean"):
    """target (ln target - log_prediction), 0 where the target is 0; with `log_target` the target has logarithms too, of which -inf gives NaN, as PyTorch's does. "batch_mean"
    is the mean divergence of a batch of distributions."""
    return ops.kl_divergence(*_pair("kl_divergence", log_prediction, target), log_target=log_target, reduction=reduction)
