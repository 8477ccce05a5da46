"""The general gather, scatter and dynamic slices, against JAX's, which are StableHLO's."""
import jax
import numpy as np
from jax import lax

from .case import *

jax.config.update("jax_enable_x64", True)
MODES = {"fill": lax.GatherScatterMode.FILL_OR_DROP, "clip": lax.GatherScatterMode.CLIP}


def gathers(f):
    for name, x, indices, sizes, offset, collapsed, batching, index_batching, start_map, dtype in (
            ("rows", (6, 3), [[0], [5], [2]], [1, 3], [1], [0], [], [], [0], f32),
            ("rows_out_of_range", (6, 3), [[0], [6], [-1]], [1, 3], [1], [0], [], [], [0], f32),
            ("out_of_range_i32", (6, 3), [[0], [6], [-1]], [1, 3], [1], [0], [], [], [0], i32),
            ("out_of_range_u8", (6, 3), [[7], [1]], [1, 3], [1], [0], [], [], [0], u8),
            ("blocks", (5, 7), [[0, 0], [2, 4], [3, 5], [4, 6]], [2, 3], [1, 2], [], [], [], [0, 1], f64),
            ("blocks_turned", (5, 7), [[[4, 0], [1, 2]], [[0, 3], [4, 3]]], [2, 3], [0, 3], [], [], [], [1, 0], f32),
            ("points", (4, 5, 6), [[1, 2, 3], [3, 4, 5]], [1, 1, 1], [], [0, 1, 2], [], [], [0, 1, 2], f64),
            ("middle_axis", (2, 5, 3), [[4], [0], [0], [1]], [2, 1, 3], [0, 2], [1], [], [], [1], i64),
            ("batching", (3, 5, 2), [[[1], [4]], [[0], [0]], [[2], [3]]], [1, 1, 2], [2], [1], [0], [0], [1], f32),
            ("batching_turned", (3, 5), [[[1], [4], [0]], [[3], [2], [2]]], [1, 1], [], [1], [0], [1], [1], f64)):
        a = integers("gather" + name, x, -99 if dtype != u8 else 0, 99).astype(dtype)
        at = np.array(indices, i32)
        numbers = lax.GatherDimensionNumbers(tuple(offset), tuple(collapsed), tuple(start_map), tuple(batching), tuple(index_batching))
        for mode in MODES if "out_of_range" in name or "blocks" in name else ["fill"]:
            y = np.asarray(lax.gather(a, at, numbers, tuple(sizes), mode=MODES[mode]))
            f.add(f"gather_{name}_{mode}", "gather", [a, at], [y], "jax.lax.gather", offset_dims=offset, collapsed_slice_dims=collapsed,
                  operand_batching_dims=batching, start_indices_batching_dims=index_batching, start_index_map=start_map, index_vector_dim=at.ndim - 1,
                  slice_sizes=sizes, out_of_range=mode)
    a, at = integers("gather_scalars", (6, 3), -99, 99).astype(f32), np.array([[5, 0], [2, 2]], i64)  # no dim holds vectors: each index is one
    f.add("gather_scalar_indices", "gather", [a, at], [a[at]], "numpy indexing", offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0],
          index_vector_dim=2, slice_sizes=[1, 3])


def scatters(f):
    kinds = {"update": lax.scatter, "add": lax.scatter_add, "mul": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}
    for name, x, indices, updates, window, inserted, batching, index_batching, to_map, dtype in (
            ("rows", (6, 3), [[0], [5], [2]], (3, 3), [1], [0], [], [], [0], f32), ("rows_again", (4, 2), [[1], [1], [3], [1]], (4, 2), [1], [0], [], [], [0], f64),
            ("dropped", (4, 2), [[1], [4], [-1]], (3, 2), [1], [0], [], [], [0], f32),
            ("blocks", (5, 7), [[0, 0], [3, 4], [4, 6]], (3, 2, 3), [1, 2], [], [], [], [0, 1], i32),
            ("points", (4, 5, 6), [[1, 2, 3], [3, 4, 5], [0, 0, 0]], (3,), [], [0, 1, 2], [], [], [0, 1, 2], f32),
            ("batching", (3, 5, 2), [[[1], [4]], [[0], [0]], [[2], [3]]], (3, 2, 2), [2], [1], [0], [0], [1], f32)):
        a, b, at = integers("scatter" + name, x, -9, 9).astype(dtype), integers("updates" + name, updates, -9, 9).astype(dtype), np.array(indices, i32)
        numbers = lax.ScatterDimensionNumbers(tuple(window), tuple(inserted), tuple(to_map), tuple(batching), tuple(index_batching))
        for kind, function in kinds.items():
            if kind == "update" and name in ("rows_again", "batching"):
                continue  # JAX promises no winner where two updates meet
            y = np.asarray(function(a, at, b, numbers, mode=lax.GatherScatterMode.FILL_OR_DROP))
            f.add(f"scatter_{name}_{kind}", "scatter", [a, at, b], [y], f"jax.lax.{function.__name__}", kind=kind, update_window_dims=window,
                  inserted_window_dims=inserted, input_batching_dims=batching, scatter_indices_batching_dims=index_batching,
                  scatter_dims_to_operand_dims=to_map, index_vector_dim=at.ndim - 1)


def slices(f):
    x = integers("dynamic", (5, 7), -99, 99).astype(f32)
    for name, starts in (("inside", [1, 3]), ("moved_back", [4, 6]), ("moved_forward", [-3, -1])):
        at = [np.array(s, i32) for s in starts]
        y = np.asarray(lax.dynamic_slice(x, np.array(np.clip(starts, 0, [3, 4]), i32), (2, 3)))  # JAX counts negative starts from the end; we do not
        f.add(f"dynamic_slice_{name}", "dynamic_slice", [x] + at, [y], "jax.lax.dynamic_slice, the start clipped", sizes=[2, 3])
        f.add(f"dynamic_slice_{name}_vector", "dynamic_slice", [x, np.array(starts, i64)], [y], "jax.lax.dynamic_slice, the start clipped", sizes=[2, 3])
        u = integers("dynamic_update", (2, 3), 100, 199).astype(f32)
        y = np.asarray(lax.dynamic_update_slice(x, u, np.array(np.clip(starts, 0, [3, 4]), i32)))
        f.add(f"dynamic_update_slice_{name}", "dynamic_update_slice", [x, u] + at, [y], "jax.lax.dynamic_update_slice, the start clipped")


def cases():
    f = Family("index")
    gathers(f)
    scatters(f)
    slices(f)
    return [f]
