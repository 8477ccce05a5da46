"""Cotangents of the general gather, scatter and dynamic slices, by JAX, and of what models write, by JAX and PyTorch."""
from jax import lax

from .derivative import *

MODES = {"fill": lax.GatherScatterMode.FILL_OR_DROP, "clip": lax.GatherScatterMode.CLIP}


def gathers(f):
    for name, x, indices, sizes, offset, collapsed, batching, index_batching, start_map, dtype in (
            ("rows", (6, 3), [[0], [5], [2], [5]], [1, 3], [1], [0], [], [], [0], f32),
            ("rows_wide", (6, 3), [[0], [5], [2], [5]], [1, 3], [1], [0], [], [], [0], f64),
            ("rows_complex", (6, 3), [[0], [5], [2], [5]], [1, 3], [1], [0], [], [], [0], c64),
            ("blocks", (5, 7), [[0, 0], [2, 4], [3, 4], [3, 3]], [2, 3], [1, 2], [], [], [], [0, 1], f64),
            ("blocks_turned", (5, 7), [[[4, 0], [1, 2]], [[0, 3], [4, 3]]], [2, 3], [0, 3], [], [], [], [1, 0], f32),
            ("points", (4, 5, 6), [[1, 2, 3], [3, 4, 5], [1, 2, 3]], [1, 1, 1], [], [0, 1, 2], [], [], [0, 1, 2], f64),
            ("middle_axis", (2, 5, 3), [[4], [0], [0], [1]], [2, 1, 3], [0, 2], [1], [], [], [1], f32),
            ("batching", (3, 5, 2), [[[1], [4]], [[0], [0]], [[2], [3]]], [1, 1, 2], [2], [1], [0], [0], [1], f32),
            ("batching_turned", (3, 5), [[[1], [4], [0]], [[3], [2], [2]]], [1, 1], [], [1], [0], [1], [1], f64),
            ("out_of_range", (6, 3), [[0], [6], [-1], [5], [7]], [1, 3], [1], [0], [], [], [0], f64)):
        a = complex_normal("gather" + name, x, dtype) if dtype == c64 else normal("gather" + name, x, dtype)
        at = np.array(indices, i32)
        numbers = lax.GatherDimensionNumbers(tuple(offset), tuple(collapsed), tuple(start_map), tuple(batching), tuple(index_batching))
        for mode in MODES:
            f.add_derivative(f"d_gather_{name}_{mode}", "gather", [a, at], by_jax,
                             lambda a, at: lax.gather(a, at, numbers, tuple(sizes), mode=MODES[mode]), "jax.vjp of jax.lax.gather", offset_dims=offset,
                             collapsed_slice_dims=collapsed, operand_batching_dims=batching, start_indices_batching_dims=index_batching,
                             start_index_map=start_map, index_vector_dim=at.ndim - 1, slice_sizes=sizes, out_of_range=mode)


    x, at = normal("gather_scalars", (6, 3), f64), np.array([[5, 0], [2, 5]], i64)  # no dim holds vectors: each index is one
    f.add_derivative("d_gather_scalar_indices", "gather", [x, at], by_jax, lambda x, at: x[at], "jax.vjp of indexing", offset_dims=[2],
                     collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=2, slice_sizes=[1, 3])
    x, at = normal("gather_bf16", (3, 2), bf16), np.zeros((600, 1), i32)  # a running bf16 sum of these would stop growing
    f.add_derivative("d_gather_many_bf16", "gather", [x, at], by_jax, lambda x, at: x[at[:, 0]], "jax.vjp of indexing, in f64", offset_dims=[1],
                     collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1, slice_sizes=[1, 2])


JOIN = {"update": lambda at, u: at.set(u), "add": lambda at, u: at.add(u), "mul": lambda at, u: at.multiply(u), "max": lambda at, u: at.max(u),
        "min": lambda at, u: at.min(u)}


def one_after_another(kind):
    """Rows of x joined by rows of updates, one jnp update each: what several that meet mean, where JAX promises nothing."""
    def function(x, indices, updates):
        for i, at in enumerate(np.asarray(indices)[:, 0]):
            if 0 <= at < x.shape[0]:
                x = JOIN[kind](x.at[int(at)], updates[i])
        return x
    return function


def scatters(f):
    kinds = {"update": lax.scatter, "add": lax.scatter_add, "mul": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}
    for name, x, indices, updates, window, inserted, batching, index_batching, to_map, dtype in (
            ("rows", (6, 3), [[0], [5], [2]], (3, 3), [1], [0], [], [], [0], f32), ("rows_wide", (6, 3), [[0], [5], [2]], (3, 3), [1], [0], [], [], [0], f64),
            ("dropped", (4, 2), [[1], [4], [-1]], (3, 2), [1], [0], [], [], [0], f32),
            ("blocks", (5, 7), [[0, 0], [3, 4]], (2, 2, 3), [1, 2], [], [], [], [0, 1], f64),
            ("points", (4, 5, 6), [[1, 2, 3], [3, 4, 5], [0, 0, 0]], (3,), [], [0, 1, 2], [], [], [0, 1, 2], f32),
            ("batching", (3, 5, 2), [[[1], [4]], [[0], [2]], [[2], [3]]], (3, 2, 2), [2], [1], [0], [0], [1], f64)):
        a, b, at = normal("d_scatter" + name, x, dtype), normal("d_updates" + name, updates, dtype), np.array(indices, i32)
        numbers = lax.ScatterDimensionNumbers(tuple(window), tuple(inserted), tuple(to_map), tuple(batching), tuple(index_batching))
        for kind, function in kinds.items():
            f.add_derivative(f"d_scatter_{name}_{kind}", "scatter", [a, at, b], by_jax,
                             lambda a, at, b: function(a, at, b, numbers, unique_indices=True, mode=lax.GatherScatterMode.FILL_OR_DROP),
                             f"jax.vjp of jax.lax.{function.__name__}", kind=kind, update_window_dims=window, inserted_window_dims=inserted,
                             input_batching_dims=batching, scatter_indices_batching_dims=index_batching, scatter_dims_to_operand_dims=to_map,
                             index_vector_dim=at.ndim - 1)
    rows = dict(update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1)
    at = np.array([[1], [3], [1], [4], [1], [-1], [3]], i64)
    for kind in kinds:
        for dtype in (f32, f64):
            x, updates = normal("d_meet", (4, 2), dtype), normal("d_meeting", (7, 2), dtype)
            f.add_derivative(f"d_scatter_meet_{kind}_{dtype.name}", "scatter", [x, at, updates], by_jax, one_after_another(kind),
                             "jax.vjp of one update after another", kind=kind, **rows)
    updates = normal("d_zeros", (7, 2), f64)
    updates[0, 0] = updates[1, 1] = updates[6, 1] = updates[3, 0] = 0  # of the products, those with one zero and with two
    f.add_derivative("d_scatter_mul_zeros", "scatter", [normal("d_meet", (4, 2), f64), at, updates], by_jax, one_after_another("mul"),
                     "jax.vjp of one update after another", kind="mul", **rows)
    for kind in ("max", "min"):  # equals share; JAX's own rule, which the fold above has not
        x, updates = integers("d_ties" + kind, (4, 2), -1, 2).astype(f64), integers("d_tied" + kind, (5, 2), -1, 2).astype(f64)
        where = np.array([[1], [3], [1], [0], [1]], i32)
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        f.add_derivative(f"d_scatter_ties_{kind}", "scatter", [x, where, updates], by_jax,
                         lambda a, at, b: kinds[kind](a, at, b, numbers, mode=lax.GatherScatterMode.FILL_OR_DROP), "jax.vjp of jax.lax.scatter_" + kind, kind=kind, **rows)


def slices(f):
    x, update = normal("d_dynamic", (5, 7)), normal("d_update", (2, 3))
    for name, starts in (("inside", [1, 3]), ("moved_back", [4, 6]), ("moved_forward", [-3, -1])):
        at, clipped = [np.array(s, i32) for s in starts], np.clip(starts, 0, [3, 4])  # JAX counts negative starts from the end; we do not
        f.add_derivative(f"d_dynamic_slice_{name}", "dynamic_slice", [x, *at], by_jax, lambda x, *_: lax.dynamic_slice(x, clipped, (2, 3)),
                         "jax.vjp of jax.lax.dynamic_slice", sizes=[2, 3])
        f.add_derivative(f"d_dynamic_update_slice_{name}", "dynamic_update_slice", [x, update, *at], by_jax,
                         lambda x, u, *_: lax.dynamic_update_slice(x, u, clipped), "jax.vjp of jax.lax.dynamic_update_slice")
    wide = normal("d_dynamic64", (2, 3, 4), f64)
    f.add_derivative("d_dynamic_slice_vector", "dynamic_slice", [wide, np.array([1, 0, 2], i64)], by_jax, lambda x, _: lax.dynamic_slice(x, (1, 0, 2), (1, 3, 2)),
                     "jax.vjp of jax.lax.dynamic_slice", sizes=[1, 3, 2])
    cache, entry = normal("d_cache", (2, 6, 3)), normal("d_entry", (2, 2, 3))
    for position, at in ((0, 0), (3, 3), (5, 4)):  # from 5 it would not fit
        f.add_derivative(f"d_kv_append_{position}", "kv_append", [cache, entry, np.array(position, i32)], by_jax,
                         lambda c, e, _: lax.dynamic_update_slice(c, e, (0, at, 0)), "jax.vjp of jax.lax.dynamic_update_slice", axis=1)


def takes(f):
    for dtype in (f32, f64):
        x, ids, wild = normal("d_table", (5, 4, 3), dtype), np.array([[0, 2, 2], [2, 2, 1]], i32), np.array([4, 5, -1, 0, 4, 2 ** 40], i64)
        for axis in (0, 1, -1):
            f.add_derivative(f"d_take_{axis}_{dtype.name}".replace("-", "m"), "take", [x, ids], by_jax, lambda x, i: jnp.take(x, i, axis), "jax.vjp of jnp.take", axis=axis)
        f.add_derivative(f"d_take_fill_{dtype.name}", "take", [x, wild], by_jax, lambda x, i: jnp.take(x, jnp.where((i < 0) | (i > 4), 99, i), 0, mode="fill"),
                         "jax.vjp of jnp.take, mode fill", axis=0)
        f.add_derivative(f"d_take_clip_{dtype.name}", "take", [x, wild], by_jax, lambda x, i: jnp.take(x, i, 0, mode="clip"), "jax.vjp of jnp.take, mode clip", axis=0,
                         out_of_range="clip")
        for axis, dims in ((0, (7, 4, 3)), (1, (5, 2, 3)), (-1, (5, 4, 2))):
            chosen = integers(f"d_along{axis}", dims, 0, x.shape[axis], i64)
            f.add_derivative(f"d_take_along_axis{axis}_{dtype.name}".replace("-", "m"), "take_along_axis", [x, chosen], by_torch,
                             lambda x, i: torch.gather(x, axis, i), "torch.gather, backward", axis=axis)
        for name, indices in (("rows", np.array([[0], [4], [0]])), ("points", np.array([[0, 1, 2], [4, 3, 0], [0, 1, 2]]))):
            f.add_derivative(f"d_gather_nd_{name}_{dtype.name}", "gather_nd", [x, indices], by_jax, lambda x, i: x[tuple(jnp.moveaxis(i, -1, 0))], "jax.vjp of indexing")
        batch = integers("d_nd", (5, 2, 1), 0, 4, i64)
        f.add_derivative(f"d_gather_nd_batch_{dtype.name}", "gather_nd", [x, batch], by_jax, lambda x, i: jax.vmap(lambda x, i: x[i[:, 0]])(x, i), "jax.vjp of jax.vmap of indexing",
                         batch_dims=1)
        rows, places = normal("d_rows", (3, 6), dtype), np.array([4, 1, 4], i32)
        f.add_derivative(f"d_scatter_add_rows_{dtype.name}", "scatter_add_rows", [rows, places], by_jax, lambda u, i: jnp.zeros((5, 6)).at[i].add(u), "jax.vjp of at[].add", size=5)
        f.add_derivative(f"d_scatter_add_rows_axis1_{dtype.name}", "scatter_add_rows", [normal("d_rows1", (3, 3, 6), dtype), np.array([1, 0, 1])], by_jax,
                         lambda u, i: jnp.zeros((3, 2, 6)).at[:, i].add(u), "jax.vjp of at[].add", size=2, axis=1)


TORCH = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def scatters_of_models(f):
    for reduction in ("none", "add", "mul", "max", "min"):
        x, updates, points, values = normal("d_nd", (5, 4), f64), normal("d_nd_updates", (2, 4), f64), np.array([[0, 1], [4, 3]]), normal("d_nd_values", (2,), f64)
        join = JOIN["update" if reduction == "none" else reduction]
        f.add_derivative(f"d_scatter_nd_{reduction}", "scatter_nd", [x, np.array([[0], [3]]), updates], by_jax,
                         lambda x, i, u: join(x.at[i[:, 0]], u, ) if reduction != "mul" else x.at[i[:, 0]].multiply(u, unique_indices=True), "jax.vjp of at[]", reduction=reduction)
        f.add_derivative(f"d_scatter_nd_points_{reduction}", "scatter_nd", [x, points, values], by_jax,
                         lambda x, i, u: join(x.at[i[:, 0], i[:, 1]], u) if reduction != "mul" else x.at[i[:, 0], i[:, 1]].multiply(u, unique_indices=True), "jax.vjp of at[]",
                         reduction=reduction)
        for axis in (0, 1, -1):
            where = integers(f"d_se{axis}{reduction}", (3, 3), 0, x.shape[axis], i64)
            if reduction == "none":  # no place twice: PyTorch promises no winner
                where = np.stack([np.roll(np.arange(x.shape[axis]), k)[:3] for k in range(3)], axis=1 - axis % 2)

            def scattered(x, i, u):
                return x.scatter(axis, i, u) if reduction == "none" else x.scatter_reduce(axis, i, u, TORCH[reduction])
            f.add_derivative(f"d_scatter_elements_axis{axis}_{reduction}".replace("-", "m"), "scatter_elements", [x, where, normal(f"d_sev{axis}", (3, 3), f64)], by_torch, scattered,
                             "torch scatter and scatter_reduce, backward", axis=axis, reduction=reduction)


def orders(f):
    for dtype in (f32, f64):
        x, y = normal("d_sort", (4, 5, 2), dtype), normal("d_sorted_along", (4, 5, 2), dtype)
        for axis in (0, 1, -1):
            case = f"{axis}_{dtype.name}".replace("-", "m")
            f.add_derivative(f"d_sort_{case}", "sort", [x, y], by_jax, lambda x, y: lax.sort((x, y), axis % 3, num_keys=1), "jax.vjp of jax.lax.sort", axis=axis)
            f.add_derivative(f"d_sort_values_{case}", "sort_values", [x], by_torch, lambda x: x.sort(axis, descending=True).values, "torch.sort, backward", axis=axis, descending=True)
        f.add_derivative(f"d_top_k_{dtype.name}", "top_k", [x[..., 0]], by_jax, lambda x: lax.top_k(x, 3), "jax.vjp of jax.lax.top_k", k=3)
        f.add_derivative(f"d_top_k_axis0_{dtype.name}", "top_k", [x[..., 1]], by_torch, lambda x: [v if v.is_floating_point() else v.int() for v in x.topk(2, 0)],
                         "torch.topk, backward", k=2, axis=0)
    ties = np.array([2, 1, 2, 1, 2], f64)  # stable: the first of equals comes first
    f.add_derivative("d_sort_ties", "sort", [ties], by_jax, lambda x: lax.sort(x, is_stable=True), "jax.vjp of jax.lax.sort")


def cases():
    f = Family("index_gradients")
    for make in (gathers, scatters, slices, takes, scatters_of_models, orders):
        make(f)
    return [f]
