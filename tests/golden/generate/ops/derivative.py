"""Cotangents by JAX and by PyTorch: of a function's inputs, from random ones of its outputs.

Both compute in f64 (c128) from the inputs as stored and round once, so they are as exact as the outputs are. The pairing
is JAX's: the cotangent of x is the transpose of dy/dx, without a conjugation (docs/ir.md); `by_torch`, which conjugates,
takes real numbers only.
"""
import jax
import jax.numpy as jnp
import numpy as np
import torch

from .case import *

jax.config.update("jax_enable_x64", True)


def moves(array):
    return is_real(array.dtype) or array.dtype in (c64, c128)


def wide(x):
    return x.astype(f64) if is_real(x.dtype) else x.astype(c128) if x.dtype == c64 else x


def rounded(x, dtype):
    """To the width of a float dtype, real or complex as x is."""
    x = np.asarray(x)
    if not moves(x):
        return x
    real, complexes = {c64: f32, c128: f64}, {f32: c64, f64: c128}
    return x.astype(complexes.get(dtype, dtype) if x.dtype == c128 else real.get(dtype, dtype))


def cotangents_of(case, outputs):
    """Normal random numbers; of integers there are none."""
    def one(name, y):
        return normal(name, y.shape, y.dtype) if is_real(y.dtype) else complex_normal(name, y.shape, y.dtype) if moves(y) else None

    return [one(f"{case}/ct{i}", y) for i, y in enumerate(outputs)]


def complex_normal(name, dims, dtype):
    return (normal(name, dims, f64) + 1j * normal(name + "/imag", dims, f64)).astype(dtype)


def listed(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def by_jax(case, function, inputs):
    dtype = next(x.dtype for x in inputs if moves(x))

    def of_moving(*moving):
        moving = iter(moving)
        return listed(function(*(next(moving) if moves(x) else jnp.asarray(x) for x in inputs)))

    with np.errstate(all="ignore"):
        values, vjp = jax.vjp(of_moving, *(jnp.asarray(wide(x)) for x in inputs if moves(x)))
    outputs = [rounded(y, dtype) for y in values]
    cotangents = cotangents_of(case, outputs)
    none = [np.zeros(y.shape, jax.dtypes.float0) for y in values]
    pulled = iter(vjp([jnp.asarray(wide(ct)) if ct is not None else zero for ct, zero in zip(cotangents, none)]))
    return outputs, cotangents, [np.asarray(next(pulled)).astype(x.dtype) if moves(x) else None for x in inputs]


def by_torch(case, function, inputs):
    dtype = next(x.dtype for x in inputs if moves(x))
    tensors = [torch.from_numpy(np.array(wide(x))).requires_grad_(is_real(x.dtype)) for x in inputs]
    values = listed(function(*tensors))
    outputs = [rounded(y.detach().numpy(), dtype) for y in values]
    cotangents = cotangents_of(case, outputs)
    pairs = [(y, torch.from_numpy(np.array(wide(ct)))) for y, ct in zip(values, cotangents) if ct is not None and y.requires_grad]
    torch.autograd.backward([y for y, _ in pairs], [ct for _, ct in pairs])

    def gradient(x, t):
        if not is_real(x.dtype):
            return None
        return (np.zeros(x.shape) if t.grad is None else t.grad.numpy()).astype(x.dtype)

    return outputs, cotangents, [gradient(x, t) for x, t in zip(inputs, tensors)]
