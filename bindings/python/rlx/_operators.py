"""Array's operators and methods, in terms of rlx.numpy. Imported once, by the package."""

from . import numpy as rnp
from ._array import Array, is_foreign
from .numpy._elementwise import no_out
from .numpy._indexing import At, getitem


def _operator(f):
    """Whatever is no array may have an operator of its own: Python asks it next, and refuses if it has none."""
    return lambda x, y: f(x, y) if type(y) is Array or not is_foreign(y) else NotImplemented


def _swapped(f):
    return lambda x, y: f(y, x) if not is_foreign(y) else NotImplemented


_BINARY = {"add": rnp.add, "sub": rnp.subtract, "mul": rnp.multiply, "truediv": rnp.divide, "floordiv": rnp.floor_divide,
           "mod": rnp.remainder, "pow": rnp.power, "matmul": rnp.matmul, "and": rnp.bitwise_and, "or": rnp.bitwise_or,
           "xor": rnp.bitwise_xor, "lshift": rnp.left_shift, "rshift": rnp.right_shift}
for _name, _f in _BINARY.items():
    setattr(Array, f"__{_name}__", _operator(_f))
    setattr(Array, f"__r{_name}__", _swapped(_f))
for _name, _f in {"eq": rnp.equal, "ne": rnp.not_equal, "lt": rnp.less, "le": rnp.less_equal, "gt": rnp.greater,
                  "ge": rnp.greater_equal}.items():
    setattr(Array, f"__{_name}__", _operator(_f))
Array.__divmod__ = lambda x, y: (rnp.floor_divide(x, y), rnp.remainder(x, y))
Array.__rdivmod__ = lambda x, y: (rnp.floor_divide(y, x), rnp.remainder(y, x))
Array.__contains__ = lambda x, value: bool(rnp.any(rnp.equal(x, value)))
Array.__neg__ = rnp.negative
Array.__pos__ = rnp.positive
Array.__abs__ = rnp.abs
Array.__invert__ = rnp.bitwise_not
Array.__getitem__ = getitem
Array.__round__ = rnp.round
Array.at = property(At)
Array.T = property(rnp.transpose)
Array.mT = property(lambda x: rnp.swapaxes(x, -1, -2))
Array.real = property(rnp.real)
Array.imag = property(rnp.imag)


def _setitem(x, index, values):
    raise TypeError("arrays do not change; write x = x.at[index].set(values)")


def _method(f):
    """NumPy's own functions call the method of an argument that is no array of its own, with dtype=None and out=None."""
    def method(x, *args, out=None, **kwargs):
        no_out(out)
        if kwargs.get("dtype", x) is None:
            del kwargs["dtype"]
        return f(x, *args, **kwargs)
    method.__name__, method.__doc__ = f.__name__, f.__doc__
    return method


Array.__setitem__ = _setitem
Array._stack = staticmethod(rnp.stack)  # for lists of arrays, which _array.py takes where an array is expected
Array.reshape = lambda x, *shape, order="C", copy=None: rnp.reshape(x, *shape, order=order, copy=copy)
Array.transpose = lambda x, *axes: rnp.transpose(x, (axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes) or None)
for _name in ("astype", "sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod",
              "ravel", "squeeze", "swapaxes", "round", "conj", "clip", "dot", "take", "repeat", "trace", "diagonal", "argpartition",
              "argsort", "choose", "nonzero", "partition", "ptp", "searchsorted", "sort"):
    setattr(Array, _name, _method(getattr(rnp, _name)))
Array.flatten = Array.ravel
Array.copy = lambda x: x
