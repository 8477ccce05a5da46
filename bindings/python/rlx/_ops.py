"""How the generated wrappers emit: keyword arguments as the text of attributes."""

import operator

import numpy as np

from . import _dtypes, _graph
from ._array import Array, as_array, emit
from ._native import TracedValueError, at_user_line

# Attributes with a number for each of the last dims: of an array with several, one number would silently be the very last's.
_OF_THE_LAST_DIMS = {("pool", "kernel_size"), ("interpolate", "size"), ("resize_linear", "size")}


def _text(value, kind):
    """An attribute as the textual IR writes it."""
    if kind.endswith(" or none"):
        return "none" if value is None else _text(value, kind[: -len(" or none")])
    if kind == "bool":
        if not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
            raise TypeError(f"True or False, not {value!r}")
        return "true" if value else "false"
    if kind.startswith("list of "):
        inner = kind[len("list of "):]
        if isinstance(value, str):
            raise TypeError(f"a {kind}, not {value!r}")
        if isinstance(value, (int, np.integer)):
            value = (value,)
        return "[" + ", ".join(_text(v, inner) for v in value) + "]"
    if kind == "dtype":
        return _dtypes.own_name_of(value)
    if kind == "float":
        return repr(float(value))
    if kind in ("int", "dim"):
        if isinstance(value, str):
            return value
        try:
            return str(operator.index(value))
        except TracedValueError:
            raise
        except TypeError:
            raise TypeError(f"an integer, not {value!r}") from None
    if kind == "graph":
        return "none" if value is None else value.body_text() if isinstance(value, _graph.Graph) else str(value)
    if kind == "type":
        return value if isinstance(value, str) else _graph.type_text(value.dtype_name, value.shape)
    if kind == "string":
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def _attribute(op, operands, key, value, kind):
    if (op, key) in _OF_THE_LAST_DIMS and isinstance(value, (int, np.integer)) and operands[0].ndim > 3:
        spatial = operands[0].ndim - 2
        raise ValueError(at_user_line(
            f"{op}: {key} has a number for each of the last dims, and {key}={value} would be that of the last dim alone; for all {spatial} "
            f"spatial dims of an array of rank {operands[0].ndim} it is {key}=({', '.join([str(value)] * spatial)}), for the last one "
            f"({value},)"))
    try:
        return _text(value, kind)
    except TracedValueError:
        raise
    except TypeError as error:
        raise TypeError(at_user_line(f"{op}: {key} is {error}")) from None


def emit_op(name, operands, attributes):
    """The op on these operands; those that are None were left out. One result is returned alone, several as a tuple."""
    arrays = [x if type(x) is Array else as_array(x) for x in operands if x is not None]
    attrs = None
    if attributes:
        given = [f"{key} = {_attribute(name, arrays, key, value, kind)}" for key, value, kind in attributes
                 if not (value is None and kind in ("graph", "tensor"))]
        attrs = "{" + ", ".join(given) + "}"
    out = emit(name, arrays, attrs)
    return out[0] if len(out) == 1 else tuple(out)
