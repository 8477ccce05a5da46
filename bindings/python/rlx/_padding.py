"""Strides and padding of convolutions and windows, as callers write them: a number, one for each spatial dim, pairs, or a name."""


def per_axis(value, rank, what):
    if isinstance(value, str):
        raise ValueError(f"{what} is {value!r}; it is a number, or one for each of the {rank} spatial dims")
    value = (value,) * rank if isinstance(value, int) else tuple(int(v) for v in value)
    if len(value) != rank:
        raise ValueError(f"{what} must have one entry for each of the {rank} spatial dims, got {len(value)}")
    return value


def pairs_of_numbers(padding, rank):
    if isinstance(padding, int):
        return [(padding, padding)] * rank
    pairs = [(p, p) if isinstance(p, int) else (int(p[0]), int(p[1])) for p in padding]
    if len(pairs) != rank:
        raise ValueError(f"padding must have a pair (low, high) for each of the {rank} spatial dims, got {len(pairs)}")
    return pairs


def _named_padding(name, extents, kernel, strides, dilation):
    """The pairs that "SAME" and "VALID" stand for, as in jax.lax.padtype_to_pads: with "SAME" there is a result for each stride
    that begins within x, and where the padding is odd the end gets one more."""
    kind = name.upper()
    if kind == "VALID":
        return [(0, 0)] * len(extents)
    if kind != "SAME":
        raise ValueError(f"padding is {name!r}; it is \"SAME\", \"VALID\", a number, or a number or pair (low, high) for each spatial "
                         "dim")
    pairs = []
    for n, k, stride, d in zip(extents, kernel, strides, dilation):
        reach = (k - 1) * d + 1
        if isinstance(n, str) and stride != 1:
            raise ValueError(f"padding \"SAME\" with stride {stride} depends on the extent of the symbolic dim {n}; give the padding "
                             "as numbers")
        total = reach - 1 if stride == 1 else max((-(-n // stride) - 1) * stride + reach - n, 0)
        pairs.append((total // 2, total - total // 2))
    return pairs


def pairs_of(padding, extents, kernel, strides, dilation):
    """(low, high) for each spatial dim, of a name, a number, or numbers and pairs."""
    return _named_padding(padding, extents, kernel, strides, dilation) if isinstance(padding, str) else pairs_of_numbers(padding, len(extents))
