"""dot_product_attention as jax.nn has it."""

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from .. import numpy as rnp


def _window(local_window_size):
    if isinstance(local_window_size, (int, np.integer)):
        return int(local_window_size), int(local_window_size)
    left, right = local_window_size
    return int(left), int(right)


def dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False, query_seq_lengths=None,
                          key_value_seq_lengths=None, local_window_size=None, implementation=None, return_residual=False):
    """softmax(query key scale + bias) value, of query[b, t, heads, h], key and value [b, s, kv_heads, h], of which each one serves as
    many heads as there are to one; all may lack the b. `scale` is 1 / sqrt(h) by default. A query sees the keys that `mask` (which
    broadcasts to [b, heads, t, s], as the bias does) says, with `is_causal` none behind its own place, with local_window_size none
    further to the left or right, and those below key_value_seq_lengths[b]; one that sees none takes all alike, and those from
    query_seq_lengths[b] on give 0. With return_residual (result, the logarithms of the sums of e^logits,
    which have no derivative)."""
    if implementation not in (None, "xla"):
        raise NotImplementedError(at_user_line(f"implementation is {implementation!r}; there is one, which None and \"xla\" mean"))
    q, k, v = as_array(query), as_array(key), as_array(value)
    if len({x.dtype_name for x in (q, k, v)}) != 1 or not _dtypes.is_float(q.dtype_name):
        raise TypeError(at_user_line(f"dot_product_attention takes floats of one dtype, got {q.dtype_name}, {k.dtype_name}, {v.dtype_name}"))
    alone = q.ndim == 3
    if alone:
        q, k, v = (rnp.expand_dims(x, 0) for x in (q, k, v))
    if any(x.ndim != 4 for x in (q, k, v)) or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]) or q.shape[2] % k.shape[2]:
        raise Error(at_user_line(f"dot_product_attention takes query[b, t, heads, h] and key and value [b, s, kv_heads, h], heads a multiple of "
                                 f"kv_heads, got shapes {q.shape}, {k.shape}, {v.shape}"), "shape_mismatch")
    (b, t, heads, h), (s, kv_heads) = q.shape, k.shape[1:3]
    scale = 1 / float(np.sqrt(h)) if scale is None else float(scale)
    plain = all(x is None for x in (bias, mask, query_seq_lengths, key_value_seq_lengths, local_window_size)) and not return_residual
    if plain and (not is_causal or t == s):
        made = ops.attention(q, k, v, heads=heads, kv_heads=kv_heads, layout="bshd", causal=bool(is_causal), scale=scale)
        return made[0] if alone else made

    def four(x, name):
        x = as_array(x)
        x = rnp.reshape(x, (1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x
        if any(n not in (1, m) for n, m in zip(x.shape, (b, heads, t, s))):
            raise Error(at_user_line(f"the {name} has the shape {x.shape}, and must broadcast to {(b, heads, t, s)}"), "shape_mismatch")
        return x

    repeats = heads // kv_heads
    k, v = (rnp.repeat(x, repeats, axis=2) if repeats > 1 else x for x in (k, v))
    wide = "f64" if q.dtype_name == "f64" else "f32"
    logits = ops.dot_general(convert(q, wide), convert(k, wide), lhs_batch=(0, 2), rhs_batch=(0, 2), lhs_contract=(3,), rhs_contract=(3,)) * scale
    if bias is not None:
        logits = logits + convert(four(bias, "bias"), wide)
    seen = None
    both = lambda a, b: b if a is None else ops.bitwise_and(*ew.together(a, b))
    if mask is not None:
        mask = four(mask, "mask")
        if mask.dtype_name != "bool":
            raise TypeError(at_user_line(f"the mask is of bools, got {mask.dtype_name}"))
        seen = mask
    at_query, at_key = rnp.reshape(rnp.arange(t, dtype="int32"), (1, 1, t, 1)), rnp.reshape(rnp.arange(s, dtype="int32"), (1, 1, 1, s))
    if is_causal:
        seen = both(seen, at_key <= at_query)
    if local_window_size is not None:
        left, right = _window(local_window_size)
        seen = both(seen, (at_key >= at_query - left) & (at_key <= at_query + right))
    lengths = lambda n: rnp.reshape(convert(as_array(n), "i32"), (-1, 1, 1, 1))
    if key_value_seq_lengths is not None:
        seen = both(seen, at_key < lengths(key_value_seq_lengths))
    if query_seq_lengths is not None:
        seen = both(seen, at_query < lengths(query_seq_lengths))
    if seen is not None:
        logits = rnp.where(seen, logits, -0.7 * float(_dtypes.finfo(wide).max))
    made = ops.dot_general(convert(ops.softmax(logits, axis=-1), q.dtype_name), v, lhs_batch=(0, 1), rhs_batch=(0, 2), lhs_contract=(3,), rhs_contract=(1,))
    made = rnp.moveaxis(made, 1, 2)
    if query_seq_lengths is not None:
        made = rnp.where(rnp.moveaxis(at_query, 2, 1) < lengths(query_seq_lengths), made, rnp.zeros_like(made))
    made = made[0] if alone else made
    if not return_residual:
        return made
    sums = ops.stop_gradient(convert(rnp.moveaxis(ops.logsumexp(logits, axes=(3,)), 1, 2), q.dtype_name))
    return made, sums[0] if alone else sums
