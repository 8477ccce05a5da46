"""Cotangents of ops that rearrange, reduce and accumulate, by JAX and PyTorch."""
import torch.nn.functional as F

from .derivative import *


def arrangements(f):
    x, square = normal("d_arrange", (4, 7, 2), f64), normal("d_matrix", (2, 4, 5), f32)
    add = lambda case, op, inputs, function, **attributes: f.add_derivative(f"d_{case}", op, inputs, by_jax, function, "jax.vjp of jax.numpy", **attributes)
    add("narrow", "narrow", [x], lambda x: x[:, 2:6], axis=1, start=2, length=4)
    add("narrow_negative", "narrow", [x], lambda x: x[..., 1:], axis=-1, start=1, length=1)
    add("strided_slice", "strided_slice", [x], lambda x: x[:, 1:7:3], axis=1, start=1, length=2, step=3)
    add("strided_slice_back", "strided_slice", [x], lambda x: x[:, 6:1:-2], axis=-2, start=6, length=3, step=-2)
    add("expand", "expand", [normal("d_row", (4, 1, 2))], lambda x: jnp.broadcast_to(x, (3, 4, 7, 2)), dims=[3, 4, 7, 2])
    add("expand_scalar", "expand", [normal("d_scalar", (), f64)], lambda x: jnp.broadcast_to(x, (3, 2)), dims=[3, 2])
    for axis in (0, 1, -1):
        add(f"stack_{axis}".replace("-", "m"), "stack", [x, 2 * x], lambda x, y: jnp.stack([x, y], axis), axis=axis)
    add("split", "split", [x], lambda x: jnp.split(x, [3, 4], 1), axis=1, sizes=[3, 1, 3])
    add("split_f32", "split", [x.astype(f32)], lambda x: jnp.split(x, [1], -1), axis=-1, sizes=[1, 1])
    for reps in ([1, 1, 1], [2, 1, 3], [1, 4, 0]):
        add("tile_" + "_".join(map(str, reps)), "tile", [x], lambda x: jnp.tile(x, reps), reps=reps)
    for shifts, axes in (([2], [-2]), ([-5, 1], [0, 2]), ([3, 3], [1, 1])):
        add(f"roll_{shifts[0]}_{len(axes)}_{axes[-1]}".replace("-", "m"), "roll", [x], lambda x: jnp.roll(x, shifts, axes), shifts=shifts, axes=axes)
    for mode, name in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        low, high = [1, 0, 1], [2, 3, 0]
        for dtype in (f32, f64):
            add(f"pad_{mode}_{dtype.name}", "pad_mode", [x.astype(dtype)], lambda x: jnp.pad(x, list(zip(low, high)), mode=name), low=low, high=high, mode=mode)
    for upper in (True, False):
        for diagonal in (-1, 0, 2):
            add(f"trilu_{upper}_{diagonal}".replace("-", "m"), "trilu", [square], lambda x: (jnp.triu if upper else jnp.tril)(x, diagonal), upper=upper, diagonal=diagonal)
    for offset in (-2, 0, 1):
        add(f"diag_{offset}".replace("-", "m"), "diag", [square[0]], lambda x: jax.vmap(lambda v: jnp.diag(v, offset))(x), offset=offset)
        add(f"diagonal_{offset}".replace("-", "m"), "diagonal", [square], lambda x: jnp.diagonal(x, offset, 1, 2), offset=offset)


def images(f):
    x = normal("d_image", (2, 3, 4, 5), f64)
    add = lambda case, op, inputs, function, **attributes: f.add_derivative(f"d_{case}", op, inputs, by_torch, function, "PyTorch, backward", **attributes)
    add("resize_nearest2x", "resize_nearest2x", [x.astype(f32)], lambda x: F.interpolate(x, scale_factor=2))
    for size in ([8, 10], [3, 7], [1, 5]):
        add("interpolate_" + "_".join(map(str, size)), "interpolate", [x], lambda x: F.interpolate(x, size), size=size)
    rows = lambda y: y.transpose(1, 2).reshape(-1, y.shape[1])
    add("im2col", "im2col", [x], lambda x: rows(F.unfold(x, (2, 3))), kernel_size=[2, 3])
    add("im2col_strided", "im2col", [x], lambda x: rows(F.unfold(x, (3, 2), (2, 1), (1, 0), (1, 2))), kernel_size=[3, 2], stride=[1, 2], padding=[1, 0], dilation=[2, 1])


def reductions(f):
    add = lambda case, op, inputs, vjp, function, **attributes: f.add_derivative(
        f"d_{case}", op, inputs, vjp, function, "jax.vjp of jax.numpy" if vjp is by_jax else "PyTorch, backward", **attributes)
    for dtype in (f32, f64):
        x = normal("d_reduced", (2, 3, 4), dtype)
        for axes, keep in (([1], False), ([0, -1], True), ([0, 1, 2], False)):
            case = f"{len(axes)}_{dtype.name}"
            add(f"mean_{case}", "mean", [x], by_jax, lambda x: jnp.mean(x, tuple(axes), keepdims=keep), axes=axes, keep_dims=keep)
            add(f"variance_{case}", "variance", [x], by_jax, lambda x: jnp.var(x, tuple(axes), keepdims=keep, ddof=1), axes=axes, keep_dims=keep, correction=1)
            add(f"moments_{case}", "moments", [x], by_jax, lambda x: [jnp.mean(x, tuple(axes), keepdims=keep), jnp.var(x, tuple(axes), keepdims=keep)], axes=axes, keep_dims=keep)
            for kind, order in (("l1", 1), ("l2", 2)):
                add(f"norm_{kind}_{case}", "norm", [x], by_torch, lambda x: torch.linalg.vector_norm(x, order, axes, keep), kind=kind, axes=axes, keep_dims=keep)
        for kind, reduced in (("sum", jnp.sum), ("prod", jnp.prod), ("max", jnp.max), ("min", jnp.min)):
            add(f"reduce_{kind}_{dtype.name}", "reduce", [x], by_jax, lambda x: reduced(x, (0, 2)), kind=kind, axes=[0, 2])
    zeros = normal("d_with_zeros", (3, 4), f64)
    zeros[0] = 0  # a row of zeros: the norm's derivative there is 0
    zeros[1, 2] = zeros[2, 0] = zeros[2, 3] = 0
    for kind, order in (("l1", 1), ("l2", 2)):
        add(f"norm_{kind}_of_zeros", "norm", [zeros], by_torch, lambda x: torch.linalg.vector_norm(x, order, 1), kind=kind, axes=[1])
        add(f"norm_{kind}_complex", "norm", [complex_normal("d_norm_complex", (3, 4), c64)], by_jax, lambda x: jnp.linalg.norm(x, order, 1), kind=kind, axes=[1])
    ties = np.array([[1, 3, 3], [2, 2, 2]], f64)
    for kind, reduced in (("max", jnp.max), ("min", jnp.min), ("prod", jnp.prod)):
        add(f"reduce_{kind}_ties", "reduce", [ties], by_jax, lambda x: reduced(x, 1), kind=kind, axes=[1])
    add("reduce_prod_zeros", "reduce", [zeros], by_torch, lambda x: x.prod(1), kind="prod", axes=[1])
    add("cumprod_zeros", "cumprod", [zeros], by_torch, lambda x: x.cumprod(1), axis=1)
    for dtype in (f32, f64):
        x = normal("d_cumulated", (3, 5), dtype)
        for axis in (0, -1):
            case = f"{axis}_{dtype.name}".replace("-", "m")
            add(f"cumsum_{case}", "cumsum", [x], by_torch, lambda x: x.cumsum(axis), axis=axis)
            add(f"cumprod_{case}", "cumprod", [x], by_torch, lambda x: x.cumprod(axis), axis=axis)
            add(f"cummax_{case}", "cummax", [x], by_torch, lambda x: x.cummax(axis).values, axis=axis)
        for op, total in (("cumsum", lax_cumsum), ("cumprod", lax_cumprod), ("cummax", lax_cummax)):
            add(f"{op}_reverse_{dtype.name}", op, [x], by_jax, lambda x: total(x, 1, reverse=True), axis=1, reverse=True)
        add(f"cumsum_exclusive_{dtype.name}", "cumsum", [x], by_jax, lambda x: jnp.cumsum(x, 1) - x, axis=1, exclusive=True)


lax_cumsum, lax_cumprod, lax_cummax = jax.lax.cumsum, jax.lax.cumprod, jax.lax.cummax


def cases():
    f = Family("arrange_gradients")
    for make in (arrangements, images, reductions):
        make(f)
    return [f]
