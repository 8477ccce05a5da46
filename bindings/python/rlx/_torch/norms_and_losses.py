"""Normalizations, softmax and losses."""

import math

from .. import nn
from .. import numpy as rnp
from .._array import convert
from .._native import Error
from .table import dtype_of, of


def _normalized(x, axes, eps):
    """x with mean 0 and variance 1 over axes, the means, and 1 / the deviations: with dims of extent 1."""
    mean = rnp.mean(x, axes, keepdims=True)
    rstd = 1 / rnp.sqrt(rnp.var(x, axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


@of("native_layer_norm.default")
def _layer_norm(x, shape, weight, bias, eps):
    y, mean, rstd = _normalized(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, rstd


@of("native_group_norm.default")
def _group_norm(x, weight, bias, n, c, hw, groups, eps):
    y, mean, rstd = _normalized(rnp.reshape(x, (n, groups, -1)), (2,), eps)
    y, wide = rnp.reshape(y, x.shape), (1, c) + (1,) * (x.ndim - 2)
    y = y if weight is None else y * rnp.reshape(weight, wide)
    return y if bias is None else y + rnp.reshape(bias, wide), rnp.reshape(mean, (n, groups)), rnp.reshape(rstd, (n, groups))


# ---- batch norm: of a batch's own statistics in training, of running ones else ----
def _batch_norm(x, weight, bias, mean, variance, eps):
    wide = lambda v: rnp.reshape(v, (1, -1) + (1,) * (x.ndim - 2))
    y = (x - wide(mean)) / rnp.sqrt(wide(variance) + eps)
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias)


@of("_native_batch_norm_legit_no_training.default")
def _batch_norm_inference(x, weight, bias, mean, variance, momentum, eps):
    nothing = rnp.zeros((0,), x.dtype)
    return _batch_norm(x, weight, bias, mean, variance, eps), nothing, nothing


def _batch_norm_training(x, weight, bias, eps):
    """The result, the batch's means and 1 / deviations, and its variances."""
    y, mean, rstd = _normalized(x, (0, *range(2, x.ndim)), eps)
    wide = lambda v: rnp.reshape(v, (1, -1) + (1,) * (x.ndim - 2))
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias), rnp.ravel(mean), rnp.ravel(rstd)


@of("_native_batch_norm_legit.no_stats")
def _batch_norm_without_statistics(x, weight, bias, training, momentum, eps):
    return _batch_norm_training(x, weight, bias, eps)


@of("native_batch_norm.default", "_native_batch_norm_legit.default")
def _native_batch_norm(x, weight, bias, mean, variance, training, momentum, eps):
    return _batch_norm_training(x, weight, bias, eps) if training or mean is None else \
        _batch_norm_inference(x, weight, bias, mean, variance, momentum, eps)


@of("_native_batch_norm_legit_functional.default")
def _batch_norm_with_statistics(x, weight, bias, mean, variance, training, momentum, eps):
    """And the running statistics as they are afterwards."""
    made = _native_batch_norm(x, weight, bias, mean, variance, training, momentum, eps)
    if not training:
        return *made, mean, variance
    now, spread = rnp.mean(x, axes := (0, *range(2, x.ndim))), rnp.var(x, axes, ddof=1)
    moved = lambda old, new: None if old is None else old * (1 - momentum) + new * momentum
    return *made, moved(mean, now), moved(variance, spread)


@of("_batch_norm_with_update_functional.default")
def _batch_norm_with_update(x, weight, bias, mean, variance, momentum, eps):
    y, mean_now, rstd, new_mean, new_variance = _batch_norm_with_statistics(x, weight, bias, mean, variance, True, momentum, eps)
    return y, mean_now, rstd, rnp.zeros((0,), "uint8"), new_mean, new_variance


@of("_batch_norm_with_update.default")
def _batch_norm_update(x, weight, bias, mean, variance, momentum, eps):
    return *_batch_norm_training(x, weight, bias, eps), rnp.zeros((0,), "uint8")


@of("_batch_norm_no_update.default")
def _batch_norm_no_update(x, weight, bias, mean, variance, momentum, eps):
    return *_batch_norm_inference(x, weight, bias, mean, variance, momentum, eps), rnp.zeros((0,), "uint8")


@of("_softmax.default")
def _softmax(x, dim, half_to_float):
    return nn.softmax(rnp.astype(x, "f32") if half_to_float else x, dim)


@of("_log_softmax.default")
def _log_softmax(x, dim, half_to_float):
    return nn.log_softmax(rnp.astype(x, "f32") if half_to_float else x, dim)


@of("_safe_softmax.default")
def _safe_softmax(x, dim, dtype=None):
    """Zeros, and not NaN, where a whole row is -inf."""
    x = x if dtype is None else convert(x, dtype_of(dtype))
    hidden = rnp.all(x == -math.inf, dim if x.ndim else None, keepdims=True)
    return rnp.where(hidden, 0, nn.softmax(rnp.where(hidden, 0, x), dim))


@of("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(q, k, v, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    """The result, and the logarithms of the sums that its weights are divided by."""
    if dropout_p:
        raise Error("attention with dropout draws random numbers", "unsupported")
    scores = rnp.matmul(q, rnp.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = rnp.where(rnp.tri(*scores.shape[-2:], dtype="bool"), scores, -math.inf)
    if attn_mask is not None:
        scores = rnp.where(attn_mask, scores, -math.inf) if attn_mask.dtype_name == "bool" else scores + attn_mask
    return rnp.matmul(_safe_softmax(scores, -1), v), nn.logsumexp(scores, -1)


# ---- a linear layer and cross entropy at once, which PyTorch computes part by part to save memory ----
def _linear_cross_entropy(x, w, target, bias, weight, reduction, ignore_index, label_smoothing):
    scores = rnp.matmul(x, rnp.transpose(w))
    scores = scores if bias is None else scores + bias
    return nn.cross_entropy(scores, target, weight, axis=-1, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction)


def _own_gradient():
    raise Error("linear_cross_entropy: the gradient that PyTorch computes ahead", "unsupported")


@of("torch_nn._linear_cross_entropy_batch_chunked.default")
def _chunked(x, w, target, bias, weight, reduction, ignore_index, label_smoothing, *memory):
    return _linear_cross_entropy(x, w, target, bias, weight, reduction, ignore_index, label_smoothing), _own_gradient, _own_gradient, _own_gradient


@of("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default")
def _chunked_losses(x, w, target, bias, weight, ignore_index, *memory):
    return _linear_cross_entropy(x, w, target, bias, weight, "none", ignore_index, 0.0)
