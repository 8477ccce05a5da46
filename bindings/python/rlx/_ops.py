"""How the generated wrappers emit: keyword arguments as the text of attributes."""

import numpy as np

from . import _dtypes, _graph
from ._array import Array, as_array, emit


def _text(value, kind):
    """An attribute as the textual IR writes it."""
    if kind.endswith(" or none"):
        return "none" if value is None else _text(value, kind[: -len(" or none")])
    if kind == "bool":
        return "true" if value else "false"
    if kind.startswith("list of "):
        inner = kind[len("list of "):]
        if isinstance(value, (int, np.integer)):
            value = (value,)
        return "[" + ", ".join(_text(v, inner) for v in value) + "]"
    if kind == "dtype":
        return _dtypes.own_name_of(value)
    if kind == "float":
        return repr(float(value))
    if kind in ("int", "dim"):
        return value if isinstance(value, str) else str(int(value))
    if kind == "graph":
        return "none" if value is None else value.body_text() if isinstance(value, _graph.Graph) else str(value)
    if kind == "type":
        return value if isinstance(value, str) else _graph.type_text(value.dtype_name, value.shape)
    if kind == "string":
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def emit_op(name, operands, attributes):
    """The op on these operands; those that are None were left out. One result is returned alone, several as a tuple."""
    arrays = [x if type(x) is Array else as_array(x) for x in operands if x is not None]
    attrs = None
    if attributes:
        given = [f"{key} = {_text(value, kind)}" for key, value, kind in attributes
                 if not (value is None and kind in ("graph", "tensor"))]
        attrs = "{" + ", ".join(given) + "}"
    out = emit(name, arrays, attrs)
    return out[0] if len(out) == 1 else tuple(out)
