"""What debug.print keeps of a traced function until its values are there."""

import builtins
import itertools

from . import tree
from ._array import current_trace


class Loop:
    """A scan, or the examples of vmap, around prints."""

    def __init__(self, extent, backwards=False):
        self.extent, self.backwards = extent, backwards

    def places(self):
        return range(self.extent - 1, -1, -1) if self.backwards else range(self.extent)


class Printed:
    """One `print` of a traced function: its text, and which of its values are arrays that the graph gives. Where it stands within
    `loops` these have dims in front, one for each. It is shown where all `conditions` hold: (which of the arrays, what it must be, how
    many of the innermost loops it stands outside of). Without a text it shows nothing and only has its array computed."""

    def __init__(self, text, structure, values, arrays, loops=(), conditions=()):
        self.text, self.structure, self.values, self.arrays = text, structure, values, arrays
        self.loops, self.conditions = tuple(loops), tuple(conditions)

    def of(self, arrays, loop=None):
        """The same of other arrays, from which its trace was made a part of another one, within a loop if one is named."""
        loops = self.loops if loop is None else (loop, *self.loops)
        return Printed(self.text, self.structure, self.values, arrays, loops, self.conditions)

    def when(self, condition, wanted):
        """The same within a branch that runs where the scalar `condition` is `wanted`."""
        return Printed(self.text, self.structure, self.values, [*self.arrays, condition], self.loops,
                       (*self.conditions, (len(self.arrays), wanted, len(self.loops))))

    def write(self, place):
        """In these trips of its loops."""
        if all(bool(self.arrays[i][place[: len(place) - inner]]) == wanted for i, wanted, inner in self.conditions):
            found = iter(self.arrays)
            args, kwargs = tree.unflatten(self.structure, [next(found)[place] if v is ARRAY else v for v in self.values])
            builtins.print(self.text.format(*args, **kwargs), flush=True)


def show(prints):
    """Where nothing is traced any more they are printed, trip by trip of their loops; else the trace keeps them."""
    trace = current_trace()
    if trace is not None:
        trace.keep_prints(prints)
    else:
        write([p for p in prints if p.text is not None], ())


def write(prints, place):
    depth = len(place)
    for loop, those in itertools.groupby(prints, lambda p: p.loops[depth] if depth < len(p.loops) else None):
        those = list(those)
        if loop is None:
            for p in those:
                p.write(place)
        else:
            for trip in loop.places():
                write(those, (*place, trip))


def kept(token):
    """Makes the last token of a loop a result of the traced function, so that the loop is not left out."""
    show([Printed(None, None, (), [token])])


ARRAY = object()  # stands among a print's values for one of its arrays
