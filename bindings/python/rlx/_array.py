"""Arrays, and the traces in which functions of them become graphs.

An `Array` either holds elements (a NumPy array) or stands for a value of the graph that is being traced. Functions of
arrays do the same with both: without a trace, `emit` runs each op as a graph of its own, compiled once for its types, and
`at_once` makes one program of all that a function does. What one such call costs is bench/python_overhead.py's to tell.
"""

import ctypes
import functools
import struct
import threading

import numpy as np

from . import _device, _dlpack, _dtypes, _graph, tree
from ._native import Error, TracedValueError, at_user_line, failed, lib

_empty, _address_of, _from_buffer = np.empty, ctypes.addressof, ctypes.c_char.from_buffer


class Trace:
    """A graph being built from Python. Values of enclosing traces are captured: they become further inputs."""

    def __init__(self, name="main", printless=None):
        self.graph = _graph.Graph(name)
        self.prints = []  # debug.Printed, of arrays of this trace
        self.printless = printless  # who traces here and cannot take prints; None if they can be taken
        self.token = None  # of the body of a while_loop: what its next print takes, and gives to the one behind it
        self.captured = []  # [(Array of an outer trace, or of elements; Array here)]
        self.weak = set()  # results that stand for Python's numbers, and what was computed of those alone: they take the dtype of what is beside them
        self.examples = None  # while vmap traces: the nodes of what may differ from example to example
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
            if array.nbytes <= 1024 or len(_local.traces) < 2:
                return Array(trace=self, value=self.graph.constant(array._elements()), dtype=array.dtype_name, shape=array.shape)
        key = id(array)
        if key not in self._seen:
            here = self.input(array.dtype_name, array.shape)
            self.captured.append((array, here))
            self._seen[key] = here
            weakened([here], [is_weak(array)])
        return self._seen[key]

    def number(self, number, dtype, shape):
        """A Python number as an array of this dtype and shape: one constant, however often it is used."""
        key = (dtype, shape, type(number), repr(number))  # repr tells -0.0 from 0.0
        made = self._numbers.get(key)
        if made is None:
            made = self.lift(Array(np.asarray(number, _dtypes.numpy_of(dtype))))
            weakened([made], [True])
            if shape:
                dims = ", ".join(map(str, shape))
                made = self.emit("broadcast_in_dim", [made], f"{{dims = [{dims}], axes = []}}")[0]
            self._numbers[key] = made
        return made

    def keep_prints(self, prints):
        if self.printless is not None:
            raise Error(at_user_line(f"debug.print stands in a function that {self.printless} traces, which gives back no values of its "
                                     "insides; return the value and print the result"), "unsupported")
        prints = [p.of([self.lift(x) for x in p.arrays]) for p in prints]
        if self.token is not None:
            self.token = self.print_while_running(prints, self.token)  # of _loop_prints.py
        else:
            self.prints += prints

    def capture(self, arrays):
        for a in arrays:
            here = self.input(a.dtype_name, a.shape)
            self.captured.append((a, here))
            self._seen[id(a)] = here
            weakened([here], [is_weak(a)])

    def emit(self, op, operands, attrs=None):
        operands = [self.lift(x)._value for x in operands]
        made = self._made_of(operands, self.graph.emit(op, operands, attrs))
        # An op that states a dtype has it by decision; of one with sub-graphs these decide, and its caller says what they did.
        is_open = attrs is None or "dtype = " not in attrs and attrs.count("{") < 2
        if self.weak and operands and is_open and all((x.node, x.result) in self.weak for x in operands):
            weakened(made, [True] * len(made))
        return made

    def inline(self, graph, operands):
        operands = [self.lift(x)._value for x in operands]
        return self._made_of(operands, self.graph.inline(graph, operands))

    def _made_of(self, operands, results):
        if self.examples and any(x.node in self.examples for x in operands):
            self.examples.update(v.node for v, _, _ in results)
        return [Array(trace=self, value=v, dtype=dtype, shape=dims) for v, dtype, dims in results]

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

    # Elements are in `_data`, or without a trace in `_value`, an OnDevice; both for one that was put on the processor by name.

    __slots__ = ("_data", "_trace", "_value", "_dtype", "_shape", "_address", "__weakref__")
    __array_priority__ = 100

    def __init__(self, data=None, trace=None, value=None, dtype=None, shape=None):
        self._data, self._trace, self._value, self._address = data, trace, value, None
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

    @property
    def device(self):
        """The name of the device that the elements are on: "cpu", or what `device_put` was told."""
        self._require_no_trace("its device was asked for")
        return "cpu" if self._value is None else self._value if type(self._value) is str else self._value.device

    def block_until_ready(self):
        """The array, when its elements are computed. Raises what prevented it, and for one that was donated."""
        if self._trace is None and type(self._value) is _OnDevice:
            self._value.wait()
        return self

    def _require_no_trace(self, *asked):
        if self._trace is not None:
            self._elements(*asked)

    def _elements(self, asked="its elements were asked for",
                  instead="Return it from the traced function and look at the result, or use rlx.cond, rlx.while_loop and rlx.scan "
                          "for what depends on values"):
        if self._data is None:
            if self._trace is None and type(self._value) is _OnDevice:
                return self._value.to_host()
            raise TracedValueError(at_user_line(
                f"{asked}, but {_graph.type_text(self._dtype, self._shape)} stands for a value that is being traced (by jit, grad, "
                f"vmap, scan ...): it has no elements until the graph runs. {instead}"))
        return self._data

    def __array__(self, dtype=None, copy=None):
        data = self._elements("a NumPy array was asked for", "Call the function of rlx.numpy instead of that of numpy; return the "
                              "value to look at its elements")
        if copy is False and data is not self._data:
            raise ValueError(f"an array on {self.device} does not become one of NumPy without a copy")
        if dtype is None or data.dtype == dtype:
            return data.copy() if copy else _read_only(data)
        if copy is False:
            raise ValueError(f"an array of {data.dtype} does not become one of {np.dtype(dtype)} without a copy")
        return data.astype(dtype)

    def __dlpack__(self, **options):
        self._require_no_trace("a DLPack capsule was asked for")
        return _dlpack.to_dlpack(self, **options)

    def __dlpack_device__(self):
        self._require_no_trace("its DLPack device was asked for")
        return _dlpack.device_of(self)

    def __reduce__(self):  # where the elements lie holds for this process alone
        return Array, (self._elements("it was to be pickled"),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

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
        if self._trace is not None:
            return f"Array({_graph.type_text(self._dtype, self._shape)}, traced)"
        if self._data is None and (why := self._value.why_gone()):
            return f"Array({_graph.type_text(self._dtype, self._shape)}, gone: {why})"
        return f"Array({np.array2string(self._elements(), separator=', ', prefix='Array(')}, dtype={self.dtype})"

    def __str__(self):
        return repr(self) if self._trace is not None else str(self._elements())

    def __format__(self, spec):
        return format(self.item() if self._trace is None and self.ndim == 0 and spec else str(self), spec)


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


WIDE_NUMBERS = {np.float64, np.int64, np.complex128}  # NumPy's scalars that are as wide as Python's numbers


def is_weak(x):
    """A Python number, or an array that stands for one while it is traced."""
    if isinstance(x, Array):
        return x._trace is not None and (x._value.node, x._value.result) in x._trace.weak
    return is_number(x)


def weakened(arrays, flags):
    """Says of traced arrays which of them stand for Python's numbers."""
    for x, flag in zip(arrays, flags):
        if x._trace is not None:
            (x._trace.weak.add if flag else x._trace.weak.discard)((x._value.node, x._value.result))
    return arrays


def strong(x):
    """x, which has its dtype by decision: it does not take that of what is beside it."""
    return emit("convert", [x], f"{{dtype = {x._dtype}}}")[0] if isinstance(x, Array) and is_weak(x) else x


def convert_weakly(x, dtype):
    """x in the dtype of what is beside it: a number that is traced stays one."""
    made = convert(x, dtype)
    return weakened([made], [True])[0] if made is not x and is_weak(x) else made


def number_beside(x, dtypes):
    """A NumPy scalar as wide as Python's numbers as one of those, unless an integer does not fit arrays of these dtypes: it widens them."""
    if type(x) is np.int64:
        bounds = [_dtypes.iinfo(_dtypes.long_name(d)) for d in dtypes if _dtypes.is_integer(d)]
        if not all(b.min <= x <= b.max for b in bounds):
            return x
    return x.item()


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
    if a is None or isinstance(a, bytes):
        return True
    try:  # of another object that lends its memory, as np.frombuffer takes them
        with memoryview(a) as lent:
            return lent.readonly and (lent.obj is a or _is_frozen(lent.obj))
    except TypeError:  # whatever it is, nothing says that it stays as it is
        return False


def as_array(x, dtype=None, share=False):
    """Anything array-like as an Array. Python numbers take `dtype`, else the default of their kind. Memory that somebody else
    may write to is copied, unless `share` says that it is only read before this call's caller returns, or was given away."""
    if isinstance(x, Array):
        return x if dtype is None or x.dtype_name == dtype else convert(x, dtype)
    if is_number(x):
        return Array(np.asarray(x, _dtypes.numpy_of(dtype or _dtypes.weak_dtype(x))))
    if isinstance(x, (list, tuple, range)):
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
    if any(isinstance(leaf, Array) for leaf in tree.leaves(x)):
        made = Array._stack([as_array(each) for each in x])  # of _operators.py
        return made if dtype is None else convert(made, dtype)
    strong = any(isinstance(leaf, (np.generic, np.ndarray)) for leaf in tree.leaves(x))
    a = np.asarray(x)
    if dtype is None and not strong and a.dtype in (np.float64, np.int64, np.complex128):
        dtype = {np.float64: "f32", np.int64: "i32", np.complex128: "c64"}[a.dtype.type]
        if dtype == "i32" and a.size and (a.min() < -(2**31) or a.max() >= 2**31):
            dtype = "i64"
    if dtype is not None:
        if not strong and a.size and a.dtype.kind in "iu" and _dtypes.is_integer(dtype):
            bounds = _dtypes.iinfo(_dtypes.long_name(dtype))
            for number in (a.min(), a.max()):
                if not bounds.min <= number <= bounds.max:
                    raise OverflowError(at_user_line(f"{number} is no {_dtypes.long_name(dtype)}, which holds {bounds.min} to {bounds.max}"))
        a = a.astype(_dtypes.numpy_of(dtype))
    return Array(a)


def convert(x, dtype):
    """x in another dtype, by RLX's rules: floats truncate and saturate when they become integers."""
    if x.dtype_name == dtype:
        return x
    return emit("convert", [x], f"{{dtype = {dtype}}}")[0]


# ---- running without a trace ----
def _locate(x):
    """Where the elements of x lie, in order; kept, for they do not move."""
    a = x._data
    if a is None:
        raise _Elsewhere if x._trace is None else _leaked(x)
    try:  # the buffer protocol is four times as fast as NumPy's own attributes
        at = _address_of(_from_buffer(a))
    except (TypeError, ValueError, BufferError):  # arrays that are empty, read-only or of bf16 have no such buffer
        a = x._data = contiguous(a)
        at = a.__array_interface__["data"][0]
    x._address = at
    return at


def _made(data, dtype, shape, address):
    x = _new(Array)
    x._data, x._trace, x._value, x._dtype, x._shape, x._address = data, None, None, dtype, shape, address
    return x


_new = object.__new__
_call = lib.rlx_compiled_call


def _refused(handle, given, n, room, m):
    """The exception for a call that failed: it fails again, and this time says why."""
    error = ctypes.c_void_p()
    status = _call(handle, given, n, room, m, ctypes.byref(error))
    return failed(status, error) if status else Error("a run failed once, and not when it was repeated", "internal")


class _Elsewhere(Exception):
    """A run was given an array that is not in the host's memory."""


_OnDevice = _device.OnDevice


def device_of(arrays):
    """The device that a function of these arrays runs on: that of those that were put on one by name; None if none was. Fails if
    they were put on several."""
    found = None
    for x in arrays:
        if x._trace is None and x._value is not None:
            if found is None:
                found = x.device
            elif x.device != found:
                raise Error(at_user_line(f"the arrays are on different devices, {found} and {x.device}; move them to one with device_put"))
    return found


def _run_there(compiled, arrays):
    """A compiled graph on arrays of which at least one is on a device: there, and its results stay there. One array, or a list."""
    device = device_of(arrays)
    compiled = compiled.on(device)
    given = []
    for x in arrays:
        if x._data is None and x._address is None:
            given.append(x._value)
            continue
        a = x._data
        if a is None:  # a Python number, of which only the address was kept
            a = np.frombuffer(ctypes.string_at(x._address, _dtypes.bytes_of(x._dtype, x._shape)), x.dtype).reshape(x._shape)
        given.append(_device.put(a, device))
    out = []
    for t, (dtype, dims) in zip(_device.submit(compiled, given), compiled.outputs):
        shape = dims if all(isinstance(d, int) for d in dims) else t.shape()
        out.append(Array(value=t, dtype=dtype, shape=shape))
    return out[0] if len(out) == 1 else out


def device_put(x, device=None):
    """x, an array or a tree of them, on a device by its name: an array that functions run with where it stands. Without a name on
    the default device. Shared where it is there already."""
    name = str(device) if device is not None else _device.default_device()
    if not lib.rlx_device_available(name.encode()):
        raise Error(at_user_line(f"device {name!r} is not here; there are {', '.join(_device.devices())}"), "not_found")
    return tree.map(lambda each: _put(as_array(each), name), x)


def _put(x, device):
    x._require_no_trace("it was to be put on a device")
    if type(x._value) is _OnDevice:
        if x._value.device == device:
            return x
        if device != "cpu":
            return Array(value=x._value.to(device), dtype=x._dtype, shape=x._shape)
    if device != "cpu":
        return Array(value=_device.put(x._data, device), dtype=x._dtype, shape=x._shape)
    made = Array(x._elements())
    made._value = device  # said by name, so that it is not moved beside arrays of another one
    return made


def runner(compiled):
    """A compiled graph as a function of arrays that gives an array, or a list of them if there are not just one. One C call; it
    has no room for an error, which costs as much as the rest, and is called again if it failed."""
    if not compiled.is_static:
        def run_dynamic(*xs):
            if any(x._data is None and x._trace is None for x in xs):
                return _run_there(compiled, xs)
            out = [Array(a) for a in compiled.call([contiguous(x._elements()) for x in xs])]
            return out[0] if len(out) == 1 else out
        return run_dynamic
    handle, n, m = compiled.handle.value, len(compiled.inputs), len(compiled.outputs)
    sizes = [_dtypes.bytes_of(dtype, dims) for dtype, dims in compiled.inputs]
    pack = struct.Struct(f"={2 * n}Q").pack
    outputs = [(dims, made, dtype, _dtypes.bytes_of(dtype, dims)) for (dtype, dims), (_, made) in zip(compiled.outputs, compiled._made)]
    if m != 1 or n not in (1, 2) or not outputs[0][3] or made_apart(outputs[0][2]):
        packed = struct.Struct(f"={2 * m}Q").pack

        def run_many(*xs, keep=compiled):
            given, room, out = [], [], []
            try:
                for x, size in zip(xs, sizes):
                    at = x._address
                    given += (_locate(x) if at is None else at, size)
            except _Elsewhere:
                return _run_there(compiled, xs)
            for dims, numpy_dtype, dtype, size in outputs:
                y = _made(_empty(dims, numpy_dtype), dtype, dims, None)
                room += (_locate(y), size)
                out.append(y)
            given, room = pack(*given), packed(*room)
            if _call(handle, given, n, room, m, None):
                raise _refused(handle, given, n, room, m)
            return out[0] if m == 1 else out
        return run_many
    dims, numpy_dtype, dtype, out_size = outputs[0]
    pack_out = struct.Struct("=2Q").pack
    if n == 1:
        size = sizes[0]

        def run_one(x, keep=compiled):
            at = x._address
            try:
                given = pack_out(_locate(x) if at is None else at, size)
            except _Elsewhere:
                return _run_there(keep, (x,))
            a = _empty(dims, numpy_dtype)
            there = _address_of(_from_buffer(a))
            room = pack_out(there, out_size)
            if _call(handle, given, 1, room, 1, None):
                raise _refused(handle, given, 1, room, 1)
            return _made(a, dtype, dims, there)
        return run_one
    size1, size2 = sizes

    def run_two(x, y, keep=compiled):
        at1, at2 = x._address, y._address
        try:
            given = pack(_locate(x) if at1 is None else at1, size1, _locate(y) if at2 is None else at2, size2)
        except _Elsewhere:
            return _run_there(keep, (x, y))
        a = _empty(dims, numpy_dtype)
        there = _address_of(_from_buffer(a))
        room = pack_out(there, out_size)
        if _call(handle, given, 2, room, 1, None):
            raise _refused(handle, given, 2, room, 1)
        return _made(a, dtype, dims, there)
    return run_two


def made_apart(dtype):
    """Whether NumPy's arrays of that dtype have no buffer of their own, as those of ml_dtypes."""
    return dtype == "bf16" or dtype[:2] == "f8"


class Programs(dict):
    """What was compiled to be run at once, by what was asked for. It begins anew when it is full, or when the default number of
    threads changes."""

    everywhere = []

    def __init__(self):
        super().__init__()
        Programs.everywhere.append(self)

    def keep(self, key, run):
        if len(self) >= 4096:
            self.clear()
        self[key] = run
        return run


_compiled_ops = Programs()


def emit(op, operands, attrs=None):
    """An op on arrays: into the current trace, or at once. Returns the list of its results."""
    if _local.traces:
        return _local.traces[-1].emit(op, operands, attrs)
    out = program_of(op, operands, attrs)(*operands)
    return [out] if type(out) is Array else out


def program_of(op, operands, attrs):
    """One op on operands of these types, to be run."""
    key = (op, attrs, *[(x._dtype, x._shape) for x in operands])
    run = _compiled_ops.get(key)
    if run is None:
        for x in operands:
            if x._trace is not None:
                raise _leaked(x)
        graph = _graph.Graph(op)
        values = [graph.input(x.dtype_name, x.shape) for x in operands]
        for value, _, _ in graph.emit(op, values, attrs):
            graph.output(value)
        run = _compiled_ops.keep(key, runner(_graph.default_session().compile(graph)))
    return run


_NUMBERS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
_FITTING = {"i32": (-(2**31), 2**31), "i64": (-(2**63), 2**63)}


def _traced_program(f, types):
    """f on arrays of these types as one program; None if it cannot be traced, as where it looks at elements or refuses."""
    trace = Trace(getattr(f, "__name__", "f"))
    try:
        with trace:
            out = f(*[trace.input(dtype, dims) for dtype, dims in types])
            if type(out) is not Array or trace.prints:
                return None
            trace.graph.output(trace.lift(out)._value)
        return None if trace.captured else runner(_graph.default_session().compile(trace.graph))
    except Exception:  # f itself says what is wrong, when it is called without a trace
        return None


def at_once(arity):
    """Decorates a function of one array, or of two of which one may be a number: without a trace, all it does is one program,
    compiled once for the types. Not for what looks at elements, or at the value of a number."""
    return _of_one if arity == 1 else _of_two


_GIVEN_BY_NAME = object()
_PLAIN = frozenset((int, float, bool, str, type(None), type, np.dtype))


def at_once_with(f):
    """As at_once(1), of a function with further arguments (axes, dtypes) that are plain: a program for each set of them, too."""
    programs = Programs()

    @functools.wraps(f)
    def of_one(x=_GIVEN_BY_NAME, *args, **kwargs):
        if _local.traces or type(x) is not Array or x._trace is not None:
            return f(**kwargs) if x is _GIVEN_BY_NAME else f(x, *args, **kwargs)
        for value in (*args, *kwargs.values()):
            if type(value) not in _PLAIN and (type(value) is not tuple or any(type(v) is not int for v in value)):
                return f(x, *args, **kwargs)
        key = (x._dtype, x._shape, repr(args), repr(kwargs) if kwargs else None)
        run = programs.get(key)
        if run is None:
            if key not in programs:
                run = programs.keep(key, _traced_program(lambda y: f(y, *args, **kwargs), [key[:2]]))
            if run is None:
                return f(x, *args, **kwargs)
        return run(x)
    return of_one


def _of_one(f):
    programs = Programs()

    @functools.wraps(f)
    def of_one(x):
        if _local.traces or type(x) is not Array:
            return f(x)
        key = (x._dtype, x._shape)
        run = programs.get(key)
        if run is None:
            if key in programs or x._trace is not None:
                return f(x)
            run = programs.keep(key, _traced_program(f, [key]))
            if run is None:
                return f(x)
        return run(x)
    return of_one


def _of_two(f):
    programs = Programs()

    def first(key, types, x, y):
        """On a miss: compiles, or lets f do it."""
        run = None
        if key not in programs and not any(type(v) is Array and v._trace is not None for v in (x, y)):
            run = programs.keep(key, _traced_program(f, types))
        return run

    def beside_number(x, number, turned):
        """x and a Python number of the dtype that both have, turned where the number comes first."""
        kind, name = type(number), x._dtype
        key = (name, x._shape, kind, turned)
        found = programs.get(key)
        if found is None:
            if key in programs or name not in _NUMBERS or x._trace is not None:
                return f(number, x) if turned else f(x, number)
            dtype = _dtypes.with_weak(name, number)
            types = [(name, x._shape), (dtype, ())]
            run = _traced_program(f, types[::-1] if turned else types) if dtype in _NUMBERS else None
            found = programs.keep(key, None if run is None else (run, dtype, _NUMBERS[dtype], _FITTING.get(dtype)))
            if found is None:
                return f(number, x) if turned else f(x, number)
        run, dtype, c_type, bounds = found
        if bounds is not None and not bounds[0] <= number < bounds[1]:
            return f(number, x) if turned else f(x, number)
        held = c_type(number)
        y = _made(None, dtype, (), _address_of(held))  # lives as long as `held`: for this call
        return run(y, x) if turned else run(x, y)

    @functools.wraps(f)
    def of_two(x1, x2):
        if _local.traces:
            return f(x1, x2)
        t1, t2 = type(x1), type(x2)
        if t1 is Array and t2 in WIDE_NUMBERS:
            x2 = number_beside(x2, [x1._dtype])
            t2 = type(x2)
        elif t2 is Array and t1 in WIDE_NUMBERS:
            x1 = number_beside(x1, [x2._dtype])
            t1 = type(x1)
        if t1 is Array:
            if t2 is Array:
                key = (x1._dtype, x1._shape, x2._dtype, x2._shape)
                run = programs.get(key) or first(key, [key[:2], key[2:]], x1, x2)
                return f(x1, x2) if run is None else run(x1, x2)
            if t2 is float or t2 is int:
                return beside_number(x1, x2, False)
        elif t2 is Array and (t1 is float or t1 is int):
            return beside_number(x2, x1, True)
        return f(x1, x2)
    return of_two


def contiguous(a):
    return a if a.flags.c_contiguous else np.asarray(a, order="C")


def _leaked(x):
    return TracedValueError(at_user_line(
        f"{x!r} was kept from a trace that has ended (in a global, a list or an attribute): a traced function runs once for each set "
        "of types, and what it computes exists only in what it returns"))

