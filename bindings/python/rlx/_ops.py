"""How the generated wrappers emit: keyword arguments as the text of attributes."""

import operator

import numpy as np

from . import _dtypes, _graph
from ._array import Array, Programs, _local, as_array, emit, program_of
from ._native import Error, TracedValueError, at_user_line
from ._padding import pairs_of

# Attributes with a number for each of the last dims: of an array with several, one number would silently be the very last's.
_OF_THE_LAST_DIMS = {("pool", "kernel_size"), ("interpolate", "size"), ("resize_linear", "size")}


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


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
        if value is None or isinstance(value, str):
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
    if "|" in kind and value not in kind.split("|"):
        raise TypeError(f"one of {', '.join(kind.split('|'))}, not {value!r}")
    if kind == "string":
        return '"' + "".join(_ESCAPES.get(c) or (f"\\x{ord(c):02x}" if c < " " or c == "\x7f" else c) for c in value) + '"'
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


def _given(name, arrays, attributes):
    """The attributes as the textual IR writes them, in braces."""
    given = [f"{key} = {_attribute(name, arrays, key, value, kind)}" for key, value, kind in attributes
             if not (value is None and kind in ("graph", "tensor"))]
    return "{" + ", ".join(given) + "}"


# What prints as it is: two such values that print alike are alike.
_PLAIN = frozenset((int, float, bool, str, type(None), range))
_programs = Programs()


def forget_programs():
    """Drops what was compiled to be run at once: a name is about to mean another op."""
    for programs in Programs.everywhere:
        programs.clear()


def _key(name, arrays, attributes):
    """What tells one call of an op without a trace from all others; None if some attribute is neither plain nor made of what is."""
    values = []
    for _, value, _ in attributes:
        if type(value) not in _PLAIN:
            if type(value) not in (tuple, list):
                return None
            for each in value:
                if type(each) not in _PLAIN:
                    return None
        values.append(value)
    return (name, repr(values) if values else None, *[(x._dtype, x._shape) for x in arrays])


def several(operands):
    """Any number of operands: one by one, or as one list of arrays. A list of numbers is an array."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)) and any(isinstance(x, (Array, np.ndarray)) for x in operands[0]):
        return operands[0]
    return operands


def emit_op(name, operands, attributes):
    """The op on these operands; those that are None were left out. One result is returned alone, several as a tuple."""
    arrays = [x if type(x) is Array else as_array(x) for x in operands if x is not None]
    if not _local.traces:
        key = _key(name, arrays, attributes)
        run = _programs.get(key)
        if run is None:
            try:
                run = program_of(name, arrays, _given(name, arrays, attributes) if attributes else None)
            except Error as error:
                raise _of_axis(error, arrays, attributes) from None
            if key is not None:
                _programs.keep(key, run)
        out = run(*arrays)
        return out if type(out) is Array else tuple(out)
    try:
        out = emit(name, arrays, _given(name, arrays, attributes) if attributes else None)
    except Error as error:
        raise _of_axis(error, arrays, attributes) from None
    return out[0] if len(out) == 1 else tuple(out)


def emit_windows(name, operands, attributes):
    """The same for conv and pool, whose padding may also be "SAME", "VALID", or a pair (low, high) for each dim, as in JAX. Where it is
    not the same on both sides, a convolution is the op `convolution`."""
    given = {key: value for key, value, _ in attributes}
    padding = given["padding"]
    if not isinstance(padding, str) and not (isinstance(padding, (tuple, list)) and any(isinstance(p, (tuple, list)) for p in padding)):
        return emit_op(name, operands, attributes)
    x, *rest = operands = [as_array(v) for v in operands]
    per_dim = lambda value, otherwise: tuple(otherwise) if value == () else (value,) if isinstance(value, int) else tuple(value)
    if name == "pool" and given["padding_high"] != ():
        raise ValueError(at_user_line(f"pool: padding is {padding!r}, which says both sides; padding_high is for numbers"))
    if name == "conv" and (rest[0].ndim != x.ndim or x.ndim < 2):
        raise ValueError(at_user_line(f"conv takes x [N, C, spatial...] and w [O, C / groups, kernel...] of one rank, got the shapes {x.shape} "
                                      f"and {rest[0].shape}"))
    _given(name, operands, [a for a in attributes if a[0] != "padding"])  # what is no list of numbers is refused as without a name
    kernel = rest[0].shape[2:] if name == "conv" else per_dim(given["kernel_size"], ())
    stride = per_dim(given["stride"], [1] * len(kernel) if name == "conv" else kernel)
    dilation = per_dim(given["dilation"], [1] * len(kernel))
    if not len(kernel) == len(stride) == len(dilation) or len(kernel) > x.ndim:
        raise ValueError(at_user_line(f"{name}: stride and dilation have a number for each of the {len(kernel)} dims that the window slides "
                                      f"over, got {stride} and {dilation}"))
    try:
        pairs = pairs_of(padding, x.shape[x.ndim - len(kernel):], kernel, stride, dilation)
    except ValueError as error:
        raise ValueError(at_user_line(f"{name}: {error}")) from None
    low, high = [a for a, _ in pairs], [b for _, b in pairs]
    if name == "pool":
        replaced = {"padding": low, "padding_high": high}
        return emit_op(name, operands, [(key, replaced.get(key, value), kind) for key, value, kind in attributes])
    return emit_op("convolution", operands, [
        ("strides", stride, "list of int"), ("padding_low", low, "list of int"), ("padding_high", high, "list of int"),
        ("rhs_dilation", dilation, "list of int"), ("feature_group_count", given["groups"], "int")])


def _of_axis(error, arrays, attributes):
    """The error, as an IndexError too if an axis was out of range."""
    if not arrays or error.status != "invalid_argument":
        return error
    rank = arrays[0].ndim
    named = [v for key, value, _ in attributes if key in ("axis", "axes") for v in (value if isinstance(value, (tuple, list)) else [value])]
    if any(isinstance(v, int) and not -rank <= v < rank for v in named):
        return Error(str(error), "axis_out_of_range").with_traceback(error.__traceback__)
    return error


def epsilon_of(epsilon, default, eps):
    """The attribute `epsilon`, for which `eps` is a second name."""
    if eps is None:
        return epsilon
    if epsilon != default:
        raise TypeError(at_user_line(f"eps and epsilon are one and the same; give one of them, not {eps} and {epsilon}"))
    return eps
