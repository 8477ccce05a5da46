"""Looking at values while a function runs, also where it is traced. As jax.debug."""

from . import tree
from ._array import Array
from ._native import at_user_line
from ._prints import ARRAY, Printed, show as _show


def print(fmt, *args, ordered=False, **kwargs):
    """Prints fmt.format(*args, **kwargs) when the values are there: each time a jitted function runs, and once for each trip of a
    scan, for each example of vmap, and where a branch of cond or switch is taken. Values are trees of arrays, or anything that formats.

    All is printed when the outermost jitted function has run, in the order of the program, so `ordered` changes nothing; but what
    stands within a while_loop is printed as its trips run, on the processor alone, where vmap prints also for examples that have
    ended. In the condition of a while_loop and in functions with derivatives of their own it is an error.
    """
    if not isinstance(fmt, str):
        raise TypeError(at_user_line(f"debug.print takes a text with fields, as in debug.print(\"x = {{}}\", x), not a {type(fmt).__name__}"))
    leaves, structure = tree.flatten((args, kwargs))
    _show([Printed(fmt, structure, [ARRAY if isinstance(x, Array) else x for x in leaves], [x for x in leaves if isinstance(x, Array)])])
