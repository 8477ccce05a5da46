"""Arrays, and the traces in which functions of them become graphs.

An `Array` either holds elements (a NumPy array) or stands for a value of the graph that is being traced. Functions of
arrays do the same with both: without a trace, `emit` runs each op as a graph of its own, compiled once for its types.
"""

import threading

import numpy as np

from . import _dlpack, _dtypes, _graph
from ._native import TracedValueError, at_user_line


class Trace:
    """A graph being built from Python. Values of enclosing traces are captured: they become further inputs."""

    def __init__(self, name="main"):
        self.graph = _graph.Graph(name)
        self.captured = []  # [(Array of an outer trace, or of elements; Array here)]
        self._seen = {}
        self._numbers = {}

    def input(self, dtype, dims):
        return Array(trace=self, value=self.graph.input(dtype, dims), dtype=dtype, shape=dims)

    def lift(self, array):
        """An array of elsewhere as a value here."""
        if array._trace is self:
            return array
        if array._trace is not None and array._trace not in _local.traces:
            raise _leaked(array)
        if array._trace is None:
            if array._data.nbytes <= 1024 or len(_local.traces) < 2:
                return Array(trace=self, value=self.graph.constant(array._data), dtype=array.dtype_name, shape=array.shape)
        key = id(array)
        if key not in self._seen:
            here = self.input(array.dtype_name, array.shape)
            self.captured.append((array, here))
            self._seen[key] = here
        return self._seen[key]

    def number(self, number, dtype, shape):
        """A Python number as an array of this dtype and shape: one constant, however often it is used."""
        key = (dtype, shape, type(number), repr(number))  # repr tells -0.0 from 0.0
        made = self._numbers.get(key)
        if made is None:
            made = self.lift(Array(np.asarray(number, _dtypes.numpy_of(dtype))))
            if shape:
                dims = ", ".join(map(str, shape))
                made = self.emit("broadcast_in_dim", [made], f"{{dims = [{dims}], axes = []}}")[0]
            self._numbers[key] = made
        return made

    def capture(self, arrays):
        for a in arrays:
            here = self.input(a.dtype_name, a.shape)
            self.captured.append((a, here))
            self._seen[id(a)] = here

    def emit(self, op, operands, attrs=None):
        return [Array(trace=self, value=v, dtype=dtype, shape=dims)
                for v, dtype, dims in self.graph.emit(op, [self.lift(x)._value for x in operands], attrs)]

    def inline(self, graph, operands):
        return [Array(trace=self, value=v, dtype=dtype, shape=dims)
                for v, dtype, dims in self.graph.inline(graph, [self.lift(x)._value for x in operands])]

    def __enter__(self):
        _local.traces.append(self)
        return self

    def __exit__(self, *_):
        _local.traces.pop()


class _Local(threading.local):
    """Each thread traces for itself."""

    def __init__(self):
        self.traces = []


_local = _Local()


def current_trace():
    traces = _local.traces
    return traces[-1] if traces else None


class Array:
    """An n-dimensional array of one dtype: elements, or a value that is being traced.

    It has NumPy's operators, indexing and the usual attributes; functions stand in `rlx.numpy`.
    """

    __slots__ = ("_data", "_trace", "_value", "_dtype", "_shape", "__weakref__")
    __array_priority__ = 100

    def __init__(self, data=None, trace=None, value=None, dtype=None, shape=None):
        self._data, self._trace, self._value = data, trace, value
        self._dtype = dtype if data is None else _dtypes.FROM_NUMPY[data.dtype]
        self._shape = tuple(shape) if data is None else data.shape

    # ---- what it is ----
    @property
    def dtype_name(self):
        return self._dtype

    @property
    def dtype(self):
        return _dtypes.numpy_of(self._dtype)

    @property
    def shape(self):
        return self._shape

    @property
    def ndim(self):
        return len(self._shape)

    @property
    def size(self):
        return int(np.prod([d for d in self._shape], dtype=np.int64)) if self._shape else 1

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    @property
    def is_traced(self):
        return self._trace is not None

    def _elements(self, asked="its elements were asked for",
                  instead="Return it from the traced function and look at the result, or use rlx.cond, rlx.while_loop and rlx.scan "
                          "for what depends on values"):
        if self._data is None:
            raise TracedValueError(at_user_line(
                f"{asked}, but {_graph.type_text(self._dtype, self._shape)} stands for a value that is being traced (by jit, grad, "
                f"vmap, scan ...): it has no elements until the graph runs. {instead}"))
        return self._data

    def __array__(self, dtype=None, copy=None):
        data = self._elements("a NumPy array was asked for", "Call the function of rlx.numpy instead of that of numpy; return the "
                              "value to look at its elements")
        if dtype is None or data.dtype == dtype:
            return data.copy() if copy else _read_only(data)
        if copy is False:
            raise ValueError(f"an array of {data.dtype} does not become one of {np.dtype(dtype)} without a copy")
        return data.astype(dtype)

    def __dlpack__(self, **options):
        return _dlpack.to_dlpack(self._elements("a DLPack capsule was asked for"), **options)

    def __dlpack_device__(self):
        return self._elements().__dlpack_device__()

    def numpy(self):
        """The elements as a NumPy array that is read-only: a view, not a copy, and arrays do not change."""
        return _read_only(self._elements())

    def item(self, *index):
        return self._elements().item(*index)

    def tolist(self):
        return self._elements().tolist()

    def __float__(self):
        return float(self._elements("float() was asked for", _NUMBER))

    def __int__(self):
        return int(self._elements("int() was asked for", _NUMBER))

    def __complex__(self):
        return complex(self._elements("complex() was asked for", _NUMBER))

    def __bool__(self):
        return bool(self._elements("its truth was asked for (by if, while, and, or, not, assert)", _TRUTH))

    def __index__(self):
        return self._elements("a Python index was asked for (by range, an axis, a shape or a list)", _INDEX).__index__()

    def __len__(self):
        if not self._shape:
            raise TypeError("len() of an array of rank 0")
        return self._shape[0]

    def __iter__(self):
        if not self._shape:
            raise TypeError("iteration over an array of rank 0")
        if not isinstance(self._shape[0], int):
            raise TypeError(f"iteration over the symbolic dim {self._shape[0]}")
        return (self[i] for i in range(self._shape[0]))

    def __hash__(self):
        return id(self)

    def __repr__(self):
        if self._data is None:
            return f"Array({_graph.type_text(self._dtype, self._shape)}, traced)"
        return f"Array({np.array2string(self._data, separator=', ', prefix='Array(')}, dtype={self.dtype})"

    def __str__(self):
        return repr(self) if self._data is None else str(self._data)

    def __format__(self, spec):
        return format(self.item() if self._data is not None and self.ndim == 0 and spec else str(self), spec)


_NUMBER = ("Keep it an array: arrays of rank 0 go wherever numbers do. If it does not depend on what is traced, compute it outside, "
           "or mark the argument static: rlx.jit(f, static_argnums=...)")
_TRUTH = ("Choose with rlx.numpy.where (both sides computed) or rlx.cond (one), loop with rlx.while_loop, combine with & and |. If it "
          "is a setting and no data, mark the argument static: rlx.jit(f, static_argnums=...)")
_INDEX = ("To pick an element, index an array: x[i] takes traced indices. Shapes, axes and the bounds of range are fixed while tracing: "
          "mark the argument static, rlx.jit(f, static_argnums=...), or loop with rlx.fori_loop")


def is_foreign(x):
    """Neither an array nor a number nor a list of those."""
    return not isinstance(x, (np.ndarray, np.generic, Array, int, float, complex, list, tuple)) and not hasattr(x, "__array__") \
        and not hasattr(x, "__dlpack__")


def is_number(x):
    return isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)


def _read_only(a):
    view = a.view()
    view.flags.writeable = False
    return view


def _is_frozen(a):
    """Whether nobody can write to the memory of a NumPy array, neither through it nor through what it is a view of."""
    while isinstance(a, np.ndarray):
        if a.flags.writeable:
            return False
        a = a.base
    return True


def as_array(x, dtype=None, share=False):
    """Anything array-like as an Array. Python numbers take `dtype`, else the default of their kind. Memory that somebody else
    may write to is copied, unless `share` says that it is only read before this call's caller returns, or was given away."""
    if isinstance(x, Array):
        return x if dtype is None or x.dtype_name == dtype else convert(x, dtype)
    if is_number(x):
        return Array(np.asarray(x, _dtypes.numpy_of(dtype or _dtypes.weak_dtype(x))))
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    is_foreign_memory = not isinstance(x, (np.ndarray, np.generic)) and hasattr(x, "__dlpack__")
    if is_foreign_memory:  # NumPy takes it for read-only where the capsule does not say
        x = _dlpack.from_dlpack(x)
    a = np.asarray(x)
    if not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    elif not share and not isinstance(x, np.generic) and a.dtype in _dtypes.FROM_NUMPY and (is_foreign_memory or not _is_frozen(a)):
        a = a.copy()
    if a.dtype not in _dtypes.FROM_NUMPY:
        if a.dtype.kind in "OUSV":
            raise TypeError(at_user_line(f"an array is needed, got {type(x).__name__}: {str(x)[:60]!r}"))
        raise TypeError(at_user_line(f"an array of {a.dtype} is no array of RLX; there are {', '.join(_dtypes.TO_NUMPY)}"))
    a = Array(a)
    return a if dtype is None or a.dtype_name == dtype else convert(a, dtype)


def _from_sequence(x, dtype):
    from . import tree
    if any(isinstance(leaf, Array) for leaf in tree.leaves(x)):
        from . import numpy as rnp
        made = rnp.stack([as_array(each) for each in x])
        return made if dtype is None else convert(made, dtype)
    strong = any(isinstance(leaf, (np.generic, np.ndarray)) for leaf in tree.leaves(x))
    a = np.asarray(x)
    if dtype is None and not strong and a.dtype in (np.float64, np.int64, np.complex128):
        dtype = {np.float64: "f32", np.int64: "i32", np.complex128: "c64"}[a.dtype.type]
        if dtype == "i32" and a.size and (a.min() < -(2**31) or a.max() >= 2**31):
            dtype = "i64"
    if dtype is not None:
        a = a.astype(_dtypes.numpy_of(dtype))
    return Array(a)


def convert(x, dtype):
    """x in another dtype, by RLX's rules: floats truncate and saturate when they become integers."""
    if x.dtype_name == dtype:
        return x
    return emit("convert", [x], f"{{dtype = {dtype}}}")[0]


# ---- running one op without a trace ----
_compiled_ops = {}


def emit(op, operands, attrs=None):
    """An op on arrays: into the current trace, or at once. Returns the list of its results."""
    trace = current_trace()
    if trace is not None:
        return trace.emit(op, operands, attrs)
    for x in operands:
        if x._trace is not None:
            raise _leaked(x)
    key = (op, attrs, tuple((x.dtype_name, x.shape) for x in operands))
    compiled = _compiled_ops.get(key)
    if compiled is None:
        graph = _graph.Graph(op)
        values = [graph.input(x.dtype_name, x.shape) for x in operands]
        for value, _, _ in graph.emit(op, values, attrs):
            graph.output(value)
        compiled = _graph.default_session().compile(graph)
        if len(_compiled_ops) > 4096:
            _compiled_ops.clear()
        _compiled_ops[key] = compiled
    return [Array(a) for a in compiled.call([contiguous(x._data) for x in operands])]


def contiguous(a):
    return a if a.flags.c_contiguous else np.asarray(a, order="C")


def _leaked(x):
    return TracedValueError(at_user_line(
        f"{x!r} was kept from a trace that has ended (in a global, a list or an attribute): a traced function runs once for each set "
        "of types, and what it computes exists only in what it returns"))

