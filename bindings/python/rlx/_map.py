"""map, a loop over slices or over batches of them, which vmap makes."""

import numpy as np

from . import numpy as rnp, tree
from ._control import scan, tree_of
from ._native import Error, at_user_line
from ._transforms import vmap


def map(f, xs, *, batch_size=None):
    """f over the slices of xs along axis 0, one after another; see vmap for all at once. With batch_size so many at once: their
    batches one after another, the rest as a batch of its own."""
    one_by_one = lambda f, xs: scan(lambda carry, x: (carry, f(x)), (), xs)[1]
    if batch_size is None:
        return one_by_one(f, xs)
    if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
        raise ValueError(at_user_line(f"batch_size is a positive number, got {batch_size!r}"))
    leaves, structure = tree_of(xs)
    extents = {x.shape[0] if x.ndim else None for x in leaves}
    if len(extents) != 1 or not isinstance(length := next(iter(extents)), int):
        raise Error(at_user_line(f"map with a batch_size takes arrays of one known extent along axis 0, got {sorted(map(str, extents))}"), "shape_mismatch")
    count, rest = divmod(length, batch_size)
    whole = [x[:count * batch_size] for x in leaves]
    made = []
    if count:
        batches = tree.unflatten(structure, [rnp.reshape(x, (count, batch_size) + x.shape[1:]) for x in whole])
        made.append(tree.map(lambda y: rnp.reshape(y, (count * batch_size,) + y.shape[2:]), one_by_one(vmap(f), batches)))
    if rest or not count:
        made.append(vmap(f)(tree.unflatten(structure, [x[count * batch_size:] for x in leaves])))
    return made[0] if len(made) == 1 else tree.map(lambda a, b: rnp.concatenate([a, b], axis=0), *made)
