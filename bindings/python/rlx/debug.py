"""Looking at values while a function runs, also where it is traced. As jax.debug."""

import builtins
import itertools

from . import tree
from ._array import Array, current_trace
from ._native import at_user_line


class Printed:
    """One `print` of a traced function: its text, and which of its values are arrays that the graph gives. Where it stands in a
    loop or under vmap these have dims in front, one for each of `loops`: (extent, whether the loop goes backwards)."""

    def __init__(self, text, structure, values, arrays, loops=()):
        self.text, self.structure, self.values, self.arrays, self.loops = text, structure, values, arrays, tuple(loops)

    def of(self, arrays, loop=None):
        """The same of other arrays, from which its trace was made a part of another one, within a loop if one is named."""
        return Printed(self.text, self.structure, self.values, arrays, self.loops if loop is None else (loop, *self.loops))

    def show(self):
        """Where nothing is traced any more it is printed, once for each trip of the loops; else the trace keeps it."""
        trace = current_trace()
        if trace is not None:
            trace.keep_print(self)
            return
        orders = [range(n - 1, -1, -1) if backwards else range(n) for n, backwards in self.loops]
        for place in itertools.product(*orders):
            found = iter(self.arrays)
            args, kwargs = tree.unflatten(self.structure, [next(found)[place] if v is _ARRAY else v for v in self.values])
            builtins.print(self.text.format(*args, **kwargs), flush=True)


_ARRAY = object()


def print(fmt, *args, ordered=False, **kwargs):
    """Prints fmt.format(*args, **kwargs) when the values are there: each time a jitted function runs, and once for each trip of a
    scan and for each example of vmap. Values are trees of arrays, or anything that formats.

    All is printed when the outermost jitted function has run, in the order of the program, so `ordered` changes nothing. Within
    cond, switch, while_loop and functions with derivatives of their own it is an error: what does not run, or runs as often as
    data say, has no values to give back.
    """
    if not isinstance(fmt, str):
        raise TypeError(at_user_line(f"debug.print takes a text with fields, as in debug.print(\"x = {{}}\", x), not a {type(fmt).__name__}"))
    leaves, structure = tree.flatten((args, kwargs))
    Printed(fmt, structure, [_ARRAY if isinstance(x, Array) else x for x in leaves], [x for x in leaves if isinstance(x, Array)]).show()
