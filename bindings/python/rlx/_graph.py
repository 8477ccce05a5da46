"""A graph being built through the C ABI, and what is compiled from one."""

import contextlib
import ctypes
import json
import operator
import os
import struct
import weakref
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

import numpy as np

from . import _dtypes, _native
from ._attributes import Word, text_of
from ._native import CompileOptions, SessionOptions, Value, check, lib, path_bytes

_compiled_call, _empty = lib.rlx_compiled_call, np.empty


def parse_type(text):
    """"f32[N, 4]" -> ("f32", ("N", 4)). A dim that is no number stays text."""
    dtype, _, rest = text.partition("[")
    inside = rest[:-1]
    dims = tuple(int(d) if d.lstrip("-").isdigit() else d for d in inside.split(", ")) if inside else ()
    return dtype, dims


def type_text(dtype, dims):
    return f"{dtype}[{', '.join(map(str, dims))}]"


class Graph:
    """An owned rlx_graph. Values are `Value` structs, valid as long as the graph."""

    __slots__ = ("handle", "_results", "_types", "_count", "_size", "_error", "_inputs", "__weakref__", "_finalizer")

    def __init__(self, name="main", handle=None):
        if handle is None:
            handle = c_void_p()
            check(lib.rlx_graph_create, name.encode(), byref(handle))
        self.handle = handle
        self._finalizer = weakref.finalize(self, lib.rlx_graph_free, handle)
        self._results = (Value * 64)()
        self._types = ctypes.create_string_buffer(4096)
        self._count, self._size, self._error = c_size_t(), c_size_t(), c_void_p()
        self._inputs = 0

    @staticmethod
    def parse(text):
        handle, data = c_void_p(), text.encode()
        check(lib.rlx_graph_parse, data, len(data), byref(handle))
        return Graph(handle=handle)

    @staticmethod
    def load(path):
        handle = c_void_p()
        check(lib.rlx_graph_load, path_bytes(path), byref(handle))
        return Graph(handle=handle)

    def save(self, path):
        check(lib.rlx_graph_save, self.handle, path_bytes(path))

    def input(self, dtype, dims, name=None):
        value = Value()
        name = name or f"x{self._inputs}"
        self._inputs += 1
        check(lib.rlx_graph_input, self.handle, name.encode(), type_text(dtype, dims).encode(), byref(value))
        return value

    def constant(self, array):
        """A literal, from a NumPy array of one of our dtypes."""
        array = np.asarray(array, order="C")
        dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        tensor, value = c_void_p(), Value()
        dtype = _dtypes.FROM_NUMPY[array.dtype]
        check(lib.rlx_tensor_create, dtype.encode(), dims, array.ndim, array.ctypes.data, array.nbytes, byref(tensor))
        try:
            check(lib.rlx_graph_constant, self.handle, tensor, byref(value))
        finally:
            lib.rlx_tensor_free(tensor)
        return value

    def emit(self, op, operands, attrs=None):
        """Adds a node; its results as [(Value, dtype, dims)]. One C call."""
        n = len(operands)
        given = (Value * n)(*operands) if n else None
        status = lib.rlx_graph_trace(self.handle, op.encode(), given, n, attrs.encode() if attrs else None, self._results,
                                     64, byref(self._count), self._types, 4096, byref(self._size), byref(self._error))
        if status:
            error, self._error = self._error, c_void_p()
            raise _native.failed(status, error)
        types = self._types.value.decode().split(";")
        if self._size.value > 4096:  # many results with long types: ask one by one
            types = [self.type_of(self._results[i]) for i in range(self._count.value)]
        out = []
        for i in range(self._count.value):
            r = self._results[i]
            out.append((Value(r.node, r.result), *parse_type(types[i])))
        return out

    def inline(self, other, inputs):
        """The nodes of another graph; its outputs as [(Value, dtype, dims)]."""
        n, room = len(inputs), other.count(2)
        results, count = (Value * max(1, room))(), c_size_t()
        check(lib.rlx_graph_inline, self.handle, other.handle, (Value * max(1, n))(*inputs), n, results, room, byref(count))
        return [(Value(r.node, r.result), *parse_type(self.type_of(r))) for r in results[: count.value]]

    def type_of(self, value):
        return _native.text_from(lib.rlx_graph_type, self.handle, value)

    def output(self, value, name=None):
        check(lib.rlx_graph_output, self.handle, value, name.encode() if name else None)

    def count(self, kind):
        return lib.rlx_graph_count(self.handle, kind)

    def types(self, kind):
        """Of inputs (0), params (1) or outputs (2), as [(dtype, dims)]."""
        return [parse_type(_native.text_from(lib.rlx_graph_signature_type, self.handle, kind, i))
                for i in range(self.count(kind))]

    def text(self):
        return lib.rlx_graph_text(self.handle).decode()

    def body_text(self):
        """As the value of an attribute: without the version line."""
        text = self.text()
        return text.split("\n", 1)[1].rstrip() if text.startswith("rlx ") else text.rstrip()

    def vjp(self, wrt, given, with_outputs):
        out = c_void_p()
        check(lib.rlx_graph_vjp, self.handle, _native.mask(wrt), _native.mask(given), int(with_outputs), byref(out))
        return Graph(handle=out)

    def jvp(self, active):
        out = c_void_p()
        check(lib.rlx_graph_jvp, self.handle, _native.mask(active), byref(out))
        return Graph(handle=out)

    def batch(self, batched, size):
        out = c_void_p()
        check(lib.rlx_graph_batch, self.handle, _native.mask(batched), str(size).encode(), byref(out))
        return Graph(handle=out)


_ACCURACIES = ("f32", "exact", "row_relative")  # in the order of rlx_compile_options
_MODES = ("eager", "lazy", "aot")               # likewise
_DISPATCHES = ("native", "common")
_ROUNDINGS = ("strict", "relaxed")
_COMPUTES = ("f32", "f16", "bf16", "int8", "auto")


def _one_of(names, value, what):
    if value not in names:
        raise ValueError(_native.at_user_line(f"{what} is {', '.join(map(repr, names))}, not {value!r}"))
    return names.index(value)


def name_list(names, what):
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, (list, tuple, set, frozenset)) or not all(isinstance(n, str) for n in names):
        raise TypeError(_native.at_user_line(f"{what} is a name or a list of names, got {names!r}"))
    return sorted(names) if isinstance(names, (set, frozenset)) else list(names)


def placements(placement):
    """Pairs of a pattern and a device, or a dictionary of them, as C takes them."""
    pairs = list(placement.items() if isinstance(placement, dict) else placement)
    if not all(isinstance(p, (list, tuple)) and len(p) == 2 and all(isinstance(s, str) for s in p) for p in pairs):
        raise TypeError(_native.at_user_line(f"placement is a dictionary of patterns and devices, or a list of such pairs, got {placement!r}"))
    return [f"{nodes}={device}" for nodes, device in pairs]


def compile_options(strict=False, accuracy="f32", batch_invariant=False, rounding="strict", kernel_dispatch="native", mode="eager",
                    force_common=(), force_native=(), donate=(), skip_passes=(), cache_dir=None, compute="f32",
                    fallback=None, placement=(), narrow=False, bounds=None, isa=""):
    """The options of a compile as C takes them. `Session.compile` says what they mean."""
    more = dict(rounding=Word(_ROUNDINGS[_one_of(_ROUNDINGS, rounding, "rounding")]),
                compute=Word(_COMPUTES[_one_of(_COMPUTES, compute, "compute")]),
                force_common=name_list(force_common, "force_common"), force_native=name_list(force_native, "force_native"),
                skip_passes=name_list(skip_passes, "skip_passes"))
    donate = [n.encode() for n in name_list(donate, "donate")]
    if cache_dir is not None:
        more["cache_dir"] = os.fspath(cache_dir)
    if fallback is not None:
        more["fallback"] = name_list(fallback, "fallback")
    if placement:
        more["placement"] = placements(placement)
    if narrow:
        more["narrow"] = True
    if isa:
        if not isinstance(isa, str):
            raise TypeError(_native.at_user_line(f"isa is the name of an instruction set, got {isa!r}"))
        more["isa"] = isa
    if bounds:
        more["bounds"] = [f"{symbol}={operator.index(most)}" for symbol, most in bounds.items()]
    return CompileOptions(ctypes.sizeof(CompileOptions), int(bool(strict)), _one_of(_DISPATCHES, kernel_dispatch, "kernel_dispatch"),
                          _one_of(_MODES, mode, "mode"), _one_of(_ACCURACIES, accuracy, "accuracy"), int(bool(batch_invariant)),
                          (c_char_p * max(1, len(donate)))(*donate), len(donate), text_of(more).encode())


class Session:
    """A device with its thread pool, and the programs that were compiled for it.

    ``device`` is a name that ``rlx.devices()`` gives; without one it is what the environment variable RLX_DEVICE names, else the
    processor. ``narrow`` is that option of every compile.
    """

    def __init__(self, device="", threads=0, narrow=False):
        self.handle = c_void_p()
        options = SessionOptions(ctypes.sizeof(SessionOptions), threads, int(bool(narrow)))
        check(lib.rlx_session_create, device.encode(), byref(options), byref(self.handle))
        self._finalizer = weakref.finalize(self, lib.rlx_session_free, self.handle)
        self.device = device or os.environ.get("RLX_DEVICE") or "cpu"

    def compile(self, graph, **options):
        """A `Compiled` of an `rlx.Graph`. An error of a graph that the device does not run carries the whole report.

        strict           True: a node that is not native is an error
        accuracy         of products of float32: "f32", "exact" or "row_relative", as `jit` has them
        batch_invariant  True: a row's bits do not depend on how many rows are multiplied with it
        rounding         "strict": every op rounds to its dtype; "relaxed": fused ops of float16 and bfloat16 compute in float32 and
                         round once
        kernel_dispatch  "native": the device's own kernels where it has them; "common": the common decomposition throughout
        force_common     names of ops to decompose
        force_native     names of ops that must not be decomposed
        mode             "eager": compiles now; "lazy": at the first run; "aot": now, and packs weights when the last one is bound
        donate           names of inputs whose memory a run may write over
        skip_passes      names of passes to leave out; the results do not change
        cache_dir        a folder that keeps compiled graphs between processes; None: what RLX_CACHE_DIR says, "": none
        compute          in what a graph of float32 is computed: "f32"; "bf16" or "f16" where products, convolutions, attention and what
                         stands between them allow it, with sums in float32; "int8": products with weights; "auto": in the float
                         that `fast_float` of the device's target names. Inputs, params and outputs keep their types
        fallback         names of devices that may run what this one does not take, in this order; None: what RLX_FALLBACK says
        placement        where nodes are to run: pairs of a pattern and a device, or a dictionary. A pattern is of nodes' names, with '*'
                         for any characters, or "op:NAME", or "%NUMBER" as the graph's text has it
        narrow           True: a device without numbers of 64 bits ("coreml") may compute int64 in int32 and float64 in float32. An
                         input or a param with a number that int32 does not hold is an error then
        bounds           a dictionary: the most that symbols can be. A run with more is an error. If every symbol has one, the
                         processor takes the memory of a run for these numbers at once
        isa              the most that the device "cpu" uses of the processor's instructions: a name that RLX_ISA has, such as "avx2";
                         "": what the process may use. Programs of different sets may run side by side
        """
        compiled, given = c_void_p(), compile_options(**options)
        check(lib.rlx_compile, self.handle, graph.handle, byref(given), byref(compiled))
        made = Compiled(compiled, graph.types(0), graph.types(2), self)
        made.graph, made.options = graph, given
        return made

    def load(self, path):
        """The `Compiled` of a file that `Compiled.save` or ``rlx compile`` wrote, with the params bound that it carries. The compiler
        does not run. An error says what was expected, what was found and what to do: for a file that is damaged, or was compiled by
        another version of RLX, for another device or machine, or with ops or kernels that are not registered here."""
        compiled = c_void_p()
        check(lib.rlx_session_load, self.handle, path_bytes(path), byref(compiled))

        def types(kind):
            return [parse_type(_native.text_from(lib.rlx_compiled_type, compiled, kind, i))
                    for i in range(lib.rlx_compiled_count(compiled, kind))]

        made = Compiled(compiled, types(0), types(2), self)
        made.is_fixed = True  # to be made again for another device there is artifact_graph
        return made

    def report(self, graph, **options):
        """Where each node of a graph would run here, and why: a dictionary. Nothing is compiled; an op that the device does not run is
        a line with the verdict "missing", and no error. Options are those of `compile`."""
        return dispatch_report(graph, self.device, **options)


def dispatch_report(graph, device="", **options):
    """Where each node of a graph would run on a device, and why: a dictionary with the target and its nodes, as of `Compiled.report`.
    Nothing is compiled, and nothing need be able to run here: "coreml", "null" are devices for reports, too."""
    given = compile_options(**options)
    return json.loads(_native.owned_text(lib.rlx_graph_report, graph.handle, str(device).encode(), byref(given)))


def predict_devices(graph, dims=None, threads=0, **options):
    """How long a run of a graph takes on each device that can run here, the fastest first, as dictionaries with the device, the
    microseconds ("us", None without a prediction) and why. It is computed from what ``rlx calibrate`` has measured; nothing
    is run. `dims` are numbers for the symbols: {"B": 1, "S": 128}; options are those of `Session.compile`."""
    numbers = " ".join(f"{symbol}={operator.index(n)}" for symbol, n in (dims or {}).items())
    given = compile_options(**options)
    return json.loads(_native.owned_text(lib.rlx_predict_devices, graph.handle, numbers.encode(), threads, byref(given)))


def load_compiled(path, device=None, threads=0):
    """The `Compiled` of a file that `Compiled.save` or ``rlx compile`` wrote; ``device`` is the one that it was compiled for, unless
    it is given. `Session.load` has the rest."""
    return Session(artifact_info(path)["device"] if device is None else device, threads).load(path)


def artifact_info(path):
    """What a file of a compiled graph says of itself, as a dictionary: the device, version and facts that it was compiled for, the
    options, the inputs, params and outputs with their types, the names of the params whose values it carries, and the dispatch
    report. It need not fit this machine."""
    return json.loads(_native.owned_text(lib.rlx_artifact_describe, path_bytes(path)))


def artifact_graph(path):
    """The `Graph` that a file of a compiled graph was made from, to be compiled again for another device or by another version."""
    handle = c_void_p()
    check(lib.rlx_artifact_graph, path_bytes(path), byref(handle))
    return Graph(handle=handle)


def tensor_of(value, name, what="param"):
    """An owned rlx_tensor with a copy of the elements of a param."""
    array = np.asarray(value)
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype not in _dtypes.FROM_NUMPY:
        raise TypeError(_native.at_user_line(f"the {what} {name!r} is given as {array.dtype}, which is no dtype of RLX"))
    dims, tensor = (ctypes.c_int64 * max(1, array.ndim))(*array.shape), c_void_p()
    check(lib.rlx_tensor_create, _dtypes.FROM_NUMPY[array.dtype].encode(), dims, array.ndim, array.ctypes.data, array.nbytes,
          byref(tensor))
    return tensor


@contextlib.contextmanager
def _named_tensors(values, what="param"):
    """A dict of arrays as C takes it: names, tensors and their number."""
    names, tensors = (c_char_p * max(1, len(values)))(*[name.encode() for name in values]), (c_void_p * max(1, len(values)))()
    try:
        for i, (name, value) in enumerate(values.items()):
            tensors[i] = tensor_of(value, name, what).value
        yield names, tensors, len(values)
    finally:
        for tensor in tensors:
            lib.rlx_tensor_free(tensor)


def _array_of(tensor):
    """A NumPy array with a copy of the elements of an rlx_tensor."""
    shape = tuple(lib.rlx_tensor_dims(tensor)[: lib.rlx_tensor_rank(tensor)])
    a = np.empty(shape, _dtypes.numpy_of(lib.rlx_tensor_dtype(tensor).decode()))
    ctypes.memmove(a.ctypes.data, lib.rlx_tensor_data(tensor), a.nbytes)
    return a


def _with_tensors(call, arrays, count):
    """Calls `call(inputs, input count, outputs, output count)` with rlx_tensors of the arrays; the `count` outputs as arrays."""
    tensors, outputs = (c_void_p * max(1, len(arrays)))(), (c_void_p * max(1, count))()
    try:
        for i, a in enumerate(arrays):
            dims, handle = (ctypes.c_int64 * max(1, a.ndim))(*a.shape), c_void_p()
            check(lib.rlx_tensor_create, _dtypes.FROM_NUMPY[a.dtype].encode(), dims, a.ndim, a.ctypes.data, a.nbytes, byref(handle))
            tensors[i] = handle.value
        call(tensors, len(arrays), outputs, count)
        return [_array_of(outputs[i]) for i in range(count)]
    finally:
        for handle in list(tensors) + list(outputs):
            lib.rlx_tensor_free(handle)


class State:
    """What a compiled graph carries from run to run, on its device: the tensors of the inputs that its runs update. A decoder's cache
    is one, for one sequence; a graph may have any number of them. `Compiled.new_state` and `Compiled.load_state` make one,
    `Compiled.run(inputs, state)` updates it, and it is gone with its last reference.

    A state fits every compiled graph on its device that updates inputs of the same names and types. A run that fails or is cancelled
    after it has begun leaves it torn: using it is an error then, until `reset`. What several threads ask of a state happens one after
    another.
    """

    def __init__(self, handle, device):
        self.handle, self.device = handle, device
        self._finalizer = weakref.finalize(self, lib.rlx_state_free, handle)

    @property
    def names(self):
        """The names of its arrays, in the order of the graph's inputs."""
        return [lib.rlx_state_name(self.handle, i).decode() for i in range(lib.rlx_state_count(self.handle))]

    @property
    def types(self):
        """The dtype and shape of each array, by name: {"k": ("f32", (1, 8, 512, 64))}."""
        return {name: parse_type(_native.text_from(lib.rlx_state_type, self.handle, i)) for i, name in enumerate(self.names)}

    @property
    def why_torn(self):
        """Why it is torn; "" if it is not."""
        return _native.owned_text(lib.rlx_state_why_torn, self.handle)

    def __getitem__(self, name):
        """A copy of one of its arrays. Waits for the runs so far."""
        tensor = c_void_p()
        check(lib.rlx_state_tensor, self.handle, name.encode(), byref(tensor))
        try:
            return _array_of(tensor)
        finally:
            lib.rlx_tensor_free(tensor)

    def copy(self):
        """Another state with the same values, which both go their own way from now on."""
        handle = c_void_p()
        check(lib.rlx_state_copy, self.handle, byref(handle))
        return State(handle, self.device)

    __copy__ = copy

    def __deepcopy__(self, memo):
        return self.copy()

    def reset(self, values=None):
        """Sets all of its arrays: to the `values` that are given, by name, and the others to zeros. A torn state is whole again."""
        with _named_tensors(values or {}, "value") as (names, tensors, count):
            check(lib.rlx_state_reset, self.handle, names, tensors, count)

    def save(self, path):
        """Writes it to a safetensors file, which `Compiled.load_state` reads. Waits for the runs so far."""
        check(lib.rlx_state_save, self.handle, path_bytes(path))


def address(a):
    """Where the elements of a NumPy array lie. The buffer protocol is four times as fast as NumPy's own attributes; arrays
    that are empty, read-only or of bf16 have no such buffer."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(a))
    except (TypeError, ValueError, BufferError):
        return a.__array_interface__["data"][0]


class Compiled:
    """A compiled graph. `call` takes and gives NumPy arrays in the graph's order."""

    def __init__(self, handle, inputs, outputs, session):
        self.handle, self.session = handle, session
        self.inputs, self.outputs = inputs, outputs
        self.graph, self.options = None, None  # what it was made of, to be made again for another device
        self.donate, self.is_fixed, self.threads = (), False, None
        self._elsewhere = {}
        self._finalizer = weakref.finalize(self, lib.rlx_compiled_free, handle)
        self.is_static = all(isinstance(d, int) for _, dims in inputs + outputs for d in dims)
        # Arrays of rlx_buffer as bytes: an address and a size for each.
        self._given = struct.Struct(f"={2 * len(inputs)}Q").pack
        self._room = struct.Struct(f"={2 * len(outputs)}Q").pack
        # Blocks have no dtype in NumPy. What a run with a state updates never becomes an array.
        self._made = [(dims, None if _dtypes.is_block(dtype) and lib.rlx_compiled_output_is_update(handle, i) else _dtypes.numpy_of(dtype))
                      for i, (dtype, dims) in enumerate(outputs)]
        self.input_names, self.param_names, self.output_names = (
            [lib.rlx_compiled_name(handle, kind, i).decode() for i in range(lib.rlx_compiled_count(handle, kind))] for kind in range(3))

    def set_param(self, name, value):
        """Binds a value to a param of the graph, for all runs from now on. It is copied."""
        if name not in self.param_names:
            raise _native.Error(_native.at_user_line(f"the graph has no param {name!r}; it has {', '.join(self.param_names) or 'none'}"),
                                "not_found")
        tensor = tensor_of(value, name)
        try:
            check(lib.rlx_compiled_set_param, self.handle, name.encode(), tensor)
        finally:
            lib.rlx_tensor_free(tensor)

    def set_params(self, params):
        """Binds a dict of params by their names."""
        for name, value in params.items():
            self.set_param(name, value)

    def save(self, path, params=None):
        """Writes it to a file that `load_compiled` or ``rlx run`` runs again, in any process, without the compiler. `params` is a dict
        of the values that the file carries; the params that it does not carry are bound after it was loaded."""
        with _named_tensors(params or {}) as (names, tensors, count):
            check(lib.rlx_compiled_save, self.handle, path_bytes(path), names, tensors, count)

    def new_state(self, values=None, extents=None):
        """A `State` of this graph: the tensors of the inputs that were donated and are outputs of the same name and type, which a run
        with the state updates where they are. `values` is a dict of first values by name, for the others there are zeros; `extents` is
        a dict of numbers for the symbols in their types that no value gives."""
        handle = c_void_p()
        numbers = " ".join(f"{symbol}={int(n)}" for symbol, n in (extents or {}).items())
        with _named_tensors(values or {}, "value") as (names, tensors, count):
            check(lib.rlx_compiled_new_state, self.handle, names, tensors, count, numbers.encode(), byref(handle))
        return State(handle, self.session.device)

    def load_state(self, path):
        """The `State` that `State.save` wrote, or of any safetensors file that has just the arrays of a state of this graph."""
        handle = c_void_p()
        check(lib.rlx_compiled_load_state, self.handle, path_bytes(path), byref(handle))
        return State(handle, self.session.device)

    def run(self, inputs, state=None):
        """One run on a dict of inputs by their names; a dict of the outputs by theirs. Those of one name are told apart by `call`. With
        a `State`, which is updated, inputs and outputs are those that are not in it."""
        takes = list(range(len(self.inputs)))
        if state is not None:
            if not isinstance(state, State):
                raise TypeError(_native.at_user_line(f"state is a State, as new_state() gives one, not a {type(state).__name__}"))
            takes = [i for i in takes if lib.rlx_compiled_input_mode(self.handle, i) != 1]
        arrays = self._arrays_of(inputs, takes, " besides its state" if state is not None else "")
        if state is None:
            self._require_arrays()
            return dict(zip(self.output_names, self.call(arrays)))
        gives = [i for i in range(len(self.outputs)) if not lib.rlx_compiled_output_is_update(self.handle, i)]

        def call(*rest):
            check(lib.rlx_compiled_run_with_state, self.handle, state.handle, *rest)
        return dict(zip([self.output_names[i] for i in gives], _with_tensors(call, arrays, len(gives))))

    def commit_no_wait(self, inputs):
        """Begins a run on a dict of inputs by their names, and returns. They are copied. What runs the graph and waits (`run`, `call`)
        waits first for what was committed; `sync_pending` gives the outputs."""
        self._require_arrays()
        arrays = self._arrays_of(inputs, range(len(self.inputs)))

        def commit(given, count, _, __):
            check(lib.rlx_compiled_commit_no_wait, self.handle, given, count)
        _with_tensors(commit, arrays, 0)

    def sync_pending(self):
        """Waits for all runs that were committed since the last call: the outputs of the last one, a dict by their names; None if there
        was none. An error that ended one of them is raised here."""
        outputs = (c_void_p * max(1, len(self.outputs)))()
        check(lib.rlx_compiled_sync_pending, self.handle, outputs, len(self.outputs))
        try:
            made = [_array_of(t) for t in outputs if t]
        finally:
            for handle in list(outputs):
                lib.rlx_tensor_free(handle)
        return dict(zip(self.output_names, made)) if made else None

    def _require_arrays(self):
        for (_, made), (dtype, _) in zip(self._made, self.outputs):
            if made is None:
                raise TypeError(_native.at_user_line(f"NumPy has no {dtype}: give a state, as new_state() makes one"))

    def _arrays_of(self, inputs, takes, besides=""):
        wanted = [self.input_names[i] for i in takes]
        missing = [n for n in wanted if n not in inputs]
        unknown = [n for n in inputs if n not in wanted]
        if missing or unknown:
            raise _native.Error(_native.at_user_line(
                f"the graph takes the inputs {', '.join(wanted) or 'none'}{besides}; "
                + (f"{missing[0]!r} is not given" if missing else f"{unknown[0]!r} is none of them")))
        arrays = []
        for i in takes:
            name, (dtype, _) = self.input_names[i], self.inputs[i]
            a = np.asarray(inputs[name])
            if _dtypes.FROM_NUMPY.get(a.dtype) != dtype:
                raise TypeError(_native.at_user_line(f"the input {name!r} is {dtype}, got {a.dtype}; convert it"))
            arrays.append(np.ascontiguousarray(a).reshape(a.shape))
        return arrays

    def call(self, arrays):
        """Contiguous arrays of the declared types in, new arrays out. One C call."""
        if not self.is_static:
            return self._call_dynamic(arrays)
        given, room, results = [], [], []
        for a in arrays:
            given.append(address(a))
            given.append(a.nbytes)
        for dims, dtype in self._made:
            a = _empty(dims, dtype)
            results.append(a)
            room.append(address(a))
            room.append(a.nbytes)
        error = c_void_p()
        status = _compiled_call(self.handle, self._given(*given), len(arrays), self._room(*room), len(results), byref(error))
        if status:
            raise _native.failed(status, error)
        return results

    def _call_dynamic(self, arrays):
        def call(*rest):
            check(lib.rlx_compiled_run, self.handle, *rest)
        return _with_tensors(call, arrays, len(self.outputs))

    def on(self, device):
        """The same graph for that device, where arrays stand that it was given. Only there are inputs donated: elsewhere
        arrays are NumPy's, which are never written to."""
        if device == self.session.device and not self.donate:
            return self
        if self.is_fixed and device != self.session.device:
            raise _native.Error(_native.at_user_line(f"an argument is on {device}, and the function was compiled for "
                                                     f"{self.session.device}; move it there with device_put"))
        made = self._elsewhere.get(device)
        if made is None:
            options = CompileOptions.from_buffer_copy(self.options)
            if self.donate:
                names = (c_char_p * len(self.donate))(*[name.encode() for name in self.donate])
                options.donate, options.donate_count = names, len(self.donate)
            handle, session = c_void_p(), session_of(device, self.threads)
            check(lib.rlx_compile, session.handle, self.graph.handle, byref(options), byref(handle))
            made = self._elsewhere[device] = Compiled(handle, self.inputs, self.outputs, session)
        return made

    def placement(self):
        """On which of the device's processors each operation runs: {"predicted", "ops": [{"op", "name", "device", "reason"}]}. Of "coreml"
        it is what MLComputePlan says on Apple's systems, and a prediction elsewhere. All params must be bound; a device with one
        processor has none."""
        return json.loads(_native.owned_text(lib.rlx_compiled_placement, self.handle))

    def is_compiled(self):
        """Whether runs replay functions that the device has traced once, which "mlx" does in its mode "compiled"."""
        result = c_int()
        check(lib.rlx_compiled_is_compiled, self.handle, byref(result))
        return bool(result.value)

    def report(self):
        """Where each node runs and why, as the dictionary of `rlx where --json`."""
        text = c_char_p()
        check(lib.rlx_compiled_report, self.handle, byref(text))
        return json.loads(text.value)


_sessions = {}
_default_threads = 0  # as many as the machine has cores


def session_of(device="", threads=None):
    """The session that all share who ask for this device and number of threads."""
    device = str(device) or os.environ.get("RLX_DEVICE") or "cpu"
    key = (device, _default_threads if threads is None else threads)
    if key not in _sessions:
        _sessions[key] = Session(*key)
    return _sessions[key]


def default_session():
    return session_of()


def default_threads():
    return _default_threads


def set_default_threads(threads):
    global _default_threads
    _default_threads = threads
