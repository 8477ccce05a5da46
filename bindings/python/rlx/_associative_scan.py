"""associative_scan, which is made of slices and concatenations of rlx.numpy and needs no loop."""

from . import numpy as rnp, tree
from ._control import tree_of
from ._native import Error, at_user_line
from .numpy._shape import axis_of


def associative_scan(fn, elems, reverse=False, axis=0):
    """All prefixes of `elems` along an axis combined by the associative function fn(a, b), which takes and gives trees of slices and
    is called on several pairs at once: the result at i is of the elements 0 to i. With `reverse`, of those from i to the last. As
    jax.lax.associative_scan: as many steps as the logarithm of the extent (Blelloch, "Prefix sums and their applications", 1990)."""
    if not callable(fn):
        raise TypeError(at_user_line("associative_scan takes the function first: associative_scan(fn, elems)"))
    arrays, structure = tree_of(elems)
    if not arrays:
        raise Error(at_user_line("associative_scan of a tree without arrays"))
    fronted = [rnp.moveaxis(x, axis_of(axis, x.ndim), 0) for x in arrays]
    extents = {x.shape[0] for x in fronted}
    if len(extents) != 1:
        raise Error(at_user_line(f"associative_scan needs one extent along axis {axis}, got {sorted(str(n) for n in extents)}"), "shape_mismatch")
    if not isinstance(next(iter(extents)), int):
        raise Error(at_user_line(f"associative_scan over the symbolic dim {next(iter(extents))}; use scan"), "unsupported")
    if reverse:
        fronted = [rnp.flip(x, 0) for x in fronted]

    def combine(a, b):
        out, its = tree_of(fn(tree.unflatten(structure, a), tree.unflatten(structure, b)))
        if its != structure:
            raise Error(at_user_line(f"the function of associative_scan takes {tree.drawn(structure)} and gives {tree.drawn(its)}"))
        return out

    def prefixes(xs):
        n = xs[0].shape[0]
        if n < 2:
            return xs
        odd = prefixes(combine([x[: n - 1: 2] for x in xs], [x[1::2] for x in xs]))  # at 1, 3, ...
        even = combine([x[: (n - 1) // 2] for x in odd], [x[2::2] for x in xs]) if n > 2 else [x[:0] for x in xs]  # at 2, 4, ...
        return [_interleaved(rnp.concatenate([x[:1], e], axis=0), o) for x, e, o in zip(xs, even, odd)]

    found = prefixes(fronted)
    if reverse:
        found = [rnp.flip(x, 0) for x in found]
    return tree.unflatten(structure, [rnp.moveaxis(x, 0, axis_of(axis, x.ndim)) for x in found])


def _interleaved(even, odd):
    """even[0], odd[0], even[1], ...; of the even ones there may be one more."""
    n = odd.shape[0]
    pairs = rnp.reshape(rnp.stack([even[:n], odd], axis=1), (2 * n,) + even.shape[1:])
    return pairs if even.shape[0] == n else rnp.concatenate([pairs, even[n:]], axis=0)
