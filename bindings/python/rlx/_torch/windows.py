"""Pooling, resizing and sampling of images, in any number of spatial dims."""

import itertools
import math

import numpy as np

from .. import ops
from .. import numpy as rnp
from .table import of


def _wide(values, rank):
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def _patches(x, places):
    """The elements of windows over the last dims: [..., windows of each dim, elements of a window]. places[d], an array known here, has a
    row for each window along a dim, of where its elements lie."""
    rank = len(places)
    lead = x.ndim - rank
    for d, rows in enumerate(places):
        axis = lead + 2 * d
        x = rnp.take(x, rows.ravel().astype(np.int32), axis=axis)
        x = rnp.reshape(x, x.shape[:axis] + rows.shape + x.shape[axis + 1:])
    x = rnp.transpose(x, (*range(lead), *range(lead, lead + 2 * rank, 2), *range(lead + 1, lead + 2 * rank, 2)))
    return rnp.reshape(x, x.shape[:lead + rank] + (math.prod(x.shape[lead + rank:]),))


def _flat_places(extents, places):
    """Where the elements of _patches lie among all of an image."""
    rank = len(extents)
    flat = np.zeros((1,) * (2 * rank), np.int32)
    for d, rows in enumerate(places):
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = rows.shape
        flat = flat + rows.reshape(shape).astype(np.int32) * np.int32(math.prod(extents[d + 1:]))
    return flat.reshape(flat.shape[:rank] + (-1,))


def _largest(patches, flat):
    """The largest element of each window, and where it lies."""
    at = rnp.expand_dims(rnp.argmax(patches, -1), -1)
    flat = rnp.broadcast_to(flat, patches.shape)
    return rnp.squeeze(rnp.take_along_axis(patches, at, -1), -1), rnp.astype(rnp.squeeze(rnp.take_along_axis(flat, at, -1), -1), "int64")


# ---- windows of one size ----
def _count(n, k, stride, pad, dilation, ceil_mode):
    """How many windows there are along a dim: PyTorch's rule, by which the last one begins within the image or the padding before it."""
    room = n + 2 * pad - dilation * (k - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= n + pad else count


def _max_pool(rank):
    def of_rank(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        kernel, padding, dilation = (_wide(v, rank) for v in (kernel, padding, dilation))
        stride = _wide(stride, rank) if stride else kernel
        extents = x.shape[-rank:]
        counts = [_count(*sizes, ceil_mode) for sizes in zip(extents, kernel, stride, padding, dilation)]
        high = [max((c - 1) * s + d * (k - 1) + 1 - n - p, 0) for n, k, s, p, d, c in zip(extents, kernel, stride, padding, dilation, counts)]
        y = ops.pool(x, kind="max", kernel_size=kernel, stride=stride, padding=padding, padding_high=high, dilation=dilation)
        y = y[(..., *(slice(0, c) for c in counts))]

        def places():
            rows = [np.arange(c)[:, None] * s + np.arange(k)[None, :] * d for c, s, k, d in zip(counts, stride, kernel, dilation)]
            lowest = -math.inf if x.dtype_name[0] in "fb" else np.iinfo(x.dtype).min
            room = [(p, max(h, int(r.max()) + 1 - n - p)) for p, h, r, n in zip(padding, high, rows, extents)]
            padded = rnp.pad(x, [(0, 0)] * (x.ndim - rank) + room, constant_values=lowest)
            # Padding never wins over an element, but a window of -inf throughout names its first element, not the padding before it.
            inside = [np.clip(r - p, 0, n - 1) for r, p, n in zip(rows, padding, extents)]
            return _largest(_patches(padded, rows), _flat_places(extents, inside))[1]

        return y, places
    return of_rank


for _rank in (2, 3):
    of(f"max_pool{_rank}d_with_indices.default")(_max_pool(_rank))


def _avg_pool(rank):
    def of_rank(x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        kernel, padding = _wide(kernel, rank), _wide(padding, rank)
        stride = _wide(stride, rank) if stride else kernel
        extents, lead = x.shape[-rank:], (1,) * (x.ndim - rank)
        counts = [_count(n, k, s, p, 1, ceil_mode) for n, k, s, p in zip(extents, kernel, stride, padding)]
        high = [max((c - 1) * s + k - n - p, 0) for n, k, s, p, c in zip(extents, kernel, stride, padding, counts)]
        none = (0,) * len(lead)
        total = ops.reduce_window(x, kind="sum", window_dims=lead + kernel, strides=lead + stride, window_dilation=(1,) * x.ndim,
                                  padding_low=none + padding, padding_high=none + tuple(high))
        total = total[(..., *(slice(0, c) for c in counts))]
        if divisor_override is not None:
            return total / divisor_override
        divisors = np.ones((1,) * rank, np.float32)
        for d, (n, k, s, p, c) in enumerate(zip(extents, kernel, stride, padding, counts)):
            begin = np.arange(c) * s - p
            end = np.minimum(begin + k, n + p)
            if not count_include_pad:
                begin, end = np.maximum(begin, 0), np.minimum(end, n)
            divisors = divisors * (end - begin).astype(np.float32).reshape([-1 if i == d else 1 for i in range(rank)])
        return total / rnp.astype(divisors, x.dtype)
    return of_rank


for _rank in (1, 2, 3):
    of(f"avg_pool{_rank}d.default")(_avg_pool(_rank))


# ---- windows that divide an image ----
def _bounds(n, m):
    """The m windows of n elements, as beginnings and ends."""
    i = np.arange(m)
    return i * n // m, -(-(i + 1) * n // m)


def _adaptive_avg_pool(x, size):
    rank = len(size)
    for axis, m in zip(range(x.ndim - rank, x.ndim), size):
        n = x.shape[axis]
        if m and n % m == 0:
            x = rnp.mean(rnp.reshape(x, x.shape[:axis] + (m, n // m) + x.shape[axis + 1:]), axis + 1)
        else:
            begin, end = (v[:, None] for v in _bounds(n, m))
            at = np.arange(n)[None, :]
            weights = ((at >= begin) & (at < end)) / (end - begin)
            x = rnp.moveaxis(rnp.matmul(rnp.moveaxis(x, axis, -1), rnp.astype(weights.T.astype(np.float32), x.dtype)), -1, axis)
    return x


def _adaptive_places(extents, size):
    """Rows for _patches; windows that are smaller than others have their last place several times."""
    rows = []
    for n, m in zip(extents, size):
        begin, end = _bounds(n, m)
        rows.append(np.minimum(begin[:, None] + np.arange(int((end - begin).max()) if m else 0)[None, :], end[:, None] - 1))
    return rows


def _adaptive_max_pool(x, size):
    extents = x.shape[x.ndim - len(size):]
    rows = _adaptive_places(extents, size)
    if not math.prod(size) or not x.size:
        shape = x.shape[:x.ndim - len(size)] + tuple(size)
        return rnp.zeros(shape, x.dtype), rnp.zeros(shape, "int64")
    return _largest(_patches(x, rows), _flat_places(extents, rows))


for _rank in (1, 2, 3):
    of(f"_adaptive_avg_pool{_rank}d.default", f"adaptive_avg_pool{_rank}d.default")(_adaptive_avg_pool)
    of(f"adaptive_max_pool{_rank}d.default")(_adaptive_max_pool)


# ---- resizing and sampling ----
def _upsample_nearest(exact):
    def of_any(x, size, scales=None, *more):
        scales = scales if isinstance(scales, (list, tuple)) else (scales, *more)
        rank = x.ndim - 2
        scales = list(scales) if scales and scales[0] is not None else [None] * rank
        for d in range(rank):
            n = x.shape[2 + d]
            m = size[d] if size is not None else math.floor(n * scales[d])
            step = np.float32(n / m if scales[d] is None else 1 / scales[d])
            at = np.minimum(np.floor((np.arange(m, dtype=np.float32) + np.float32(0.5 if exact else 0)) * step).astype(np.int32), n - 1)
            x = rnp.repeat(x, m // n, axis=2 + d) if np.array_equal(at, np.arange(m) // max(m // n, 1)) and m % n == 0 else rnp.take(x, at, axis=2 + d)
        return x
    return of_any


for _rank, _overload in itertools.product((1, 2, 3), ("vec", "default")):
    of(f"upsample_nearest{_rank}d.{_overload}")(_upsample_nearest(False))
    of(f"_upsample_nearest_exact{_rank}d.{_overload}")(_upsample_nearest(True))


def _smoothed(n, m, scale, cubic, align_corners):
    """The weights of n elements in each of m, by a filter that widens as they become fewer: PyTorch's (and Pillow's) antialiasing."""
    step = ((n - 1) / (m - 1) if m > 1 else 0.0) if align_corners else 1 / scale if scale else n / m
    width = max(step, 1.0)
    support = (2 if cubic else 1) * width
    weights = np.zeros((m, n))
    for i in range(m):
        center = step * (i + 0.5)
        low, high = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), n)
        t = np.abs((np.arange(low, high) - center + 0.5) / width)
        a = -0.5
        near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((t - 5) * t + 8) * t * a - 4 * a
        w = np.where(t < 1, near, np.where(t < 2, far, 0)) if cubic else np.maximum(1 - t, 0)
        weights[i, low:high] = w / w.sum()
    return weights.astype(np.float32)


def _antialiased(cubic):
    def of_images(x, size, align_corners, *scales, scales_h=None, scales_w=None):
        scales = (scales or (scales_h, scales_w))[:2]
        for axis, m, scale in zip((-2, -1), size, scales):
            weights = rnp.astype(_smoothed(x.shape[axis], m, scale, cubic, align_corners).T, x.dtype)
            x = rnp.moveaxis(rnp.matmul(rnp.moveaxis(x, axis, -1), weights), -1, axis)
        return x
    return of_images


of("_upsample_bilinear2d_aa.default")(_antialiased(False))
of("_upsample_bicubic2d_aa.default")(_antialiased(True))


def _reflected(at, low, high):
    """Places reflected at both ends until they lie between them; low and high are twice the ends."""
    if low == high:
        return rnp.zeros_like(at)
    least, span = low / 2, (high - low) / 2
    off = rnp.abs(at - least)
    extra = rnp.fmod(off, span)
    even = rnp.fmod(rnp.floor(off / span), 2) == 0
    return rnp.where(even, extra + least, span - extra + least)


@of("grid_sampler_3d.default")
def _grid_sampler_3d(x, grid, mode, padding, align_corners):
    """Values at the points of a grid whose coordinates run from -1 to 1. mode: 0 linear, 1 nearest; padding: 0 zeros, 1 border, 2 reflection."""
    extents = x.shape[2:]
    points = []
    for d, n in enumerate(extents):
        at = grid[..., len(extents) - 1 - d]  # the last dim's coordinate is the first
        at = (at + 1) / 2 * (n - 1) if align_corners else ((at + 1) * n - 1) / 2
        if padding == 2:
            at = _reflected(at, 0, 2 * (n - 1)) if align_corners else _reflected(at, -1, 2 * n - 1)
        points.append(at if padding == 0 else rnp.clip(at, 0, n - 1))
    flat = rnp.reshape(x, x.shape[:2] + (math.prod(extents),))

    def values(corner):
        inside, place = None, None
        for at, n in zip(corner, extents):
            fits = (at >= 0) & (at < n)
            inside = fits if inside is None else inside & fits
            at = rnp.astype(rnp.clip(at, 0, n - 1), "int32")
            place = at if place is None else place * n + at
        place = rnp.broadcast_to(rnp.reshape(place, (x.shape[0], 1, -1)), x.shape[:2] + (math.prod(grid.shape[1:-1]),))
        taken = rnp.reshape(rnp.take_along_axis(flat, place, -1), x.shape[:2] + grid.shape[1:-1])
        return rnp.where(rnp.expand_dims(inside, 1), taken, 0)

    if mode == 1:
        return values([rnp.round(at) for at in points])
    total = 0
    for ends in itertools.product((0, 1), repeat=len(extents)):
        corner = [rnp.floor(at) + e for at, e in zip(points, ends)]
        weight = math.prod(at - rnp.floor(at) if e else 1 - (at - rnp.floor(at)) for at, e in zip(points, ends))
        total = total + values(corner) * rnp.expand_dims(weight, 1)
    return total


@of("unfold.default", "unfold_copy.default")
def _unfold(x, dim, size, step):
    if x.ndim == 0:
        return rnp.reshape(x, (1,))[:size]
    dim %= x.ndim
    rows = np.arange((x.shape[dim] - size) // step + 1)[:, None] * step + np.arange(size)[None, :]
    y = rnp.take(x, rows.ravel().astype(np.int32), axis=dim)
    return rnp.moveaxis(rnp.reshape(y, x.shape[:dim] + rows.shape + x.shape[dim + 1:]), dim + 1, -1)
