"""Choices between arrays: select, piecewise, choose."""

from .. import _dtypes
from .._array import as_array
from . import _elementwise as ew
from ._indexing import take_along_axis
from ._shape import stack


def select(condlist, choicelist, default=0):
    """For each place the element of the first choice whose condition holds there, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"each of the {len(choicelist)} choices has a condition, got {len(condlist)}")
    if not len(condlist):
        raise ValueError("select takes one condition or more")
    made, *choices = ew.promoted(default, *choicelist)
    shape = ew.broadcast_shapes(made.shape, *[as_array(x).shape for x in (*condlist, *choices)])
    for condition, choice in reversed(list(zip(condlist, choices))):
        condition = as_array(condition)
        if condition.dtype_name != "bool":
            raise TypeError(f"conditions are bools, got {condition.dtype_name}")
        made = ew.where(condition, choice, made)
    return ew.broadcast_to(made, shape)


def piecewise(x, condlist, funclist, *args, **kw):
    """The last of the functions whose condition holds, of each element; 0, or what one function more than conditions gives, where none
    does. A function is one of arrays, or a number. All of them are computed, of all elements."""
    x = as_array(x)
    single = not isinstance(condlist, (list, tuple)) and as_array(condlist).ndim == 0
    if single or x.ndim and len(condlist) and not isinstance(condlist[0], (list, tuple)) and getattr(condlist[0], "ndim", 0) == 0:
        condlist = [condlist]  # one condition alone
    conditions = list(condlist)
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        made = functions.pop()
    elif len(functions) == len(conditions):
        made = 0
    else:
        raise ValueError(f"{len(conditions)} conditions take as many functions, or one more, got {len(functions)}")
    value = lambda f: as_array(f(x, *args, **kw) if callable(f) else f, x.dtype_name)
    made = ew.broadcast_to(value(made), x.shape)
    for condition, f in zip(conditions, functions):
        made = ew.where(ew.truth(condition), ew.broadcast_to(value(f), x.shape), made)
    return made


def choose(a, choices, out=None, mode="raise"):
    """For each place the element of the choice with that number. `mode` says what a number out of range does: raise (it must be known, so
    not traced), wrap or clip."""
    ew.no_out(out)
    a = as_array(a)
    if not _dtypes.is_integer(a.dtype_name):
        raise TypeError(f"choices have numbers, got {a.dtype_name}")
    choices = ew.broadcast_arrays(*ew.promoted(*choices))
    n = len(choices)
    if mode == "raise":
        if a.is_traced:
            raise TypeError("whether a number is out of range is not known while tracing; give choose the mode wrap or clip")
        known = a.numpy()
        if ((known < 0) | (known >= n)).any():
            raise ValueError(f"there are {n} choices, and the numbers are from {known.min()} to {known.max()}")
    elif mode == "wrap":
        a = ew.remainder(a, n)
    elif mode == "clip":
        a = ew.clip(a, 0, n - 1)
    else:
        raise ValueError(f"mode is {mode!r}; it is raise, wrap or clip")
    shape = ew.broadcast_shapes(a.shape, choices[0].shape)
    together = stack([ew.broadcast_to(c, shape) for c in choices])
    return take_along_axis(together, ew.broadcast_to(a, (1, *shape)), 0)[0]
