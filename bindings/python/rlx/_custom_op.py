"""Ops of the caller's, written in Python: a NumPy function becomes an op of the table, with rules beside it.

Rules are called from C++, on whichever thread compiles or runs, and take Python's global lock while they run: two kernels in
Python never run at the same time, and what RLX computes itself goes on meanwhile. An exception of a rule ends the compile or the
run with an `rlx.Error`, whose cause it is.
"""

import ctypes
import functools
import inspect
import json
import operator
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

import numpy as np

from . import _dtypes, _graph, _native, _ops, tree
from ._array import _local, as_array
from ._jit import ShapeDtypeStruct, Traced
from ._native import Error, TracedValueError, at_user_line, check, lib


class _Call(Structure):
    _fields_ = [("struct_size", c_size_t), ("op", c_char_p), ("attributes", c_char_p), ("types", POINTER(c_char_p)), ("count", c_size_t)]


class _KernelArguments(Structure):
    _fields_ = [("struct_size", c_size_t), ("operands", POINTER(c_void_p)), ("results", POINTER(c_void_p)),
                ("result_types", POINTER(c_char_p)), ("result_count", c_size_t), ("threads", c_int), ("run", c_void_p)]


_INFER = CFUNCTYPE(c_int, c_void_p, POINTER(_Call), c_void_p, POINTER(c_void_p))
_REFERENCE = CFUNCTYPE(c_int, c_void_p, POINTER(_Call), POINTER(c_void_p), POINTER(c_void_p), c_size_t, POINTER(c_void_p))
_GRAPH = CFUNCTYPE(c_int, c_void_p, POINTER(_Call), POINTER(c_void_p), POINTER(c_void_p))
_KERNEL = CFUNCTYPE(c_int, c_void_p, POINTER(_Call), POINTER(_KernelArguments), POINTER(c_void_p))


class _Definition(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("doc", c_char_p), ("source", c_char_p), ("operands", c_char_p),
                ("attributes", c_char_p), ("samples", c_char_p), ("elementwise", c_int), ("not_differentiable", c_int),
                ("context", c_void_p), ("infer", _INFER), ("reference", _REFERENCE), ("decompose", _GRAPH), ("vjp", _GRAPH),
                ("kernel", _KERNEL), ("kernel_name", c_char_p), ("kernel_dtypes", c_char_p)]


_KINDS = {bool: "bool", int: "int", float: "float", str: "string"}
_registered = []  # ops that have a name, or had one
_retired = []     # their definitions of before: graphs may call these functions as long as the process lives
_lock = threading.Lock()


def _kind_of(name, parameter):
    """The kind of an attribute, from its default, or of an empty list from its annotation."""
    default = parameter.default
    if type(default) in _KINDS:
        return _KINDS[type(default)]
    if isinstance(default, (tuple, list)):
        if default and all(type(x) is int for x in default):
            return "list of int"
        if default and all(type(x) in (int, float) for x in default):
            return "list of float"
        text = str(parameter.annotation)
        if not default and "float" in text:
            return "list of float"
        if not default and "int" in text:
            return "list of int"
    raise TypeError(at_user_line(f"the attribute {name!r} needs a default that says its kind: a bool, an int, a float, a str, or a tuple of "
                                 f"ints or floats (an empty one is annotated, `{name}: tuple[int, ...] = ()`)"))


def _decoded(text, kinds):
    values = json.loads(text)

    def number(x):
        return float(x)  # "inf", "-inf" and "nan" too

    for name, kind in kinds.items():
        if kind == "float":
            values[name] = number(values[name])
        elif kind == "list of float":
            values[name] = tuple(map(number, values[name]))
        elif kind == "list of int":
            values[name] = tuple(values[name])
    return values


def _results_of(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _view(address, dtype, shape):
    """Memory that is somebody else's as a NumPy array."""
    numpy_dtype = _dtypes.numpy_of(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * numpy_dtype.itemsize
    if size == 0:
        return np.empty(shape, numpy_dtype)
    return np.frombuffer((ctypes.c_char * size).from_address(address), numpy_dtype).reshape(shape)


def _checked(op, name, value, kind):
    """An attribute as its kind has it; no text passes for a number."""
    try:
        if kind == "bool":
            if not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
                raise TypeError
            return bool(value)
        if kind == "int":
            return operator.index(value)
        if kind == "float":
            if isinstance(value, str):
                raise TypeError
            return float(value)
        if kind == "string":
            if not isinstance(value, str):
                raise TypeError
            return value
        if isinstance(value, str):
            raise TypeError
        return tuple(_checked(op, name, x, kind[len("list of "):]) for x in value)
    except TracedValueError:
        raise
    except TypeError:
        raise TypeError(at_user_line(f"{op}: {name} is a {kind}, not {value!r}")) from None


def _described(exception):
    """What it is and says; its own text may fail, too."""
    try:
        return f"{type(exception).__name__}: {exception}"
    except Exception:  # of __str__
        return type(exception).__name__


class _Tracing(threading.local):
    def __init__(self):
        self.ops = []  # whose rules this thread is tracing, the outermost first


_tracing = _Tracing()


def _give_error(exception, error):
    """Stores it as an error of C, and returns its status. Nothing is raised here: the caller is C."""
    try:
        is_ours = isinstance(exception, Error)
        message = _described(exception)[len(type(exception).__name__) + 2:] if is_ours else _described(exception)
        status = exception.status if is_ours else "shape_mismatch" if isinstance(exception, ValueError) else \
            "out_of_memory" if isinstance(exception, MemoryError) else "invalid_argument"
        if status not in _native._STATUS:
            status = "invalid_argument"
        if not is_ours:
            _native.causes.append((message, exception))
        error[0] = lib.rlx_error_create(_native._STATUS.index(status), message.encode(errors="replace"))
        return _native._STATUS.index(status)
    except BaseException:
        return _native._STATUS.index("internal")


class CustomOp:
    """What `custom_op` makes: call it with arrays, inside `jit`, `grad`, `vmap` or without."""

    def __init__(self, reference, name, source, elementwise, differentiable, samples=()):
        self.name = name or reference.__name__
        if not (isinstance(self.name, str) and self.name.isascii() and self.name.isidentifier()):
            raise ValueError(at_user_line(f"custom_op: an op's name is a word of letters, digits and '_', not {self.name!r}; give name=\"...\""))
        self._rules = {"reference": reference}
        self._source, self._elementwise, self._differentiable = source, elementwise, differentiable
        self._samples = "\n".join([samples] if isinstance(samples, str) else samples)
        self._kernel_dtypes, self._handle, self._is_replaced = None, None, False
        functools.update_wrapper(self, reference)
        self._read_signature(inspect.signature(reference))

    def _read_signature(self, signature):
        self._operands, self._kinds, self._defaults = [], {}, {}
        for name, p in signature.parameters.items():
            if p.kind is p.VAR_KEYWORD:
                raise TypeError(at_user_line(f"custom_op: **{name} names no attributes; each is a keyword with a default"))
            if p.kind is p.KEYWORD_ONLY:
                self._kinds[name], self._defaults[name] = _kind_of(name, p), p.default
            elif p.kind is p.VAR_POSITIONAL:
                self._operands.append(f"{name}...")
            elif p.default is p.empty:
                self._operands.append(name)
            elif p.default is None:
                self._operands.append(f"{name}?")
            else:
                raise TypeError(at_user_line(f"custom_op: {name!r} is an operand, which has no default but None; attributes stand behind a "
                                             f"star, def {self.name}(x, *, {name}={p.default!r})"))
        if not self._operands:
            raise TypeError(at_user_line(f"custom_op: {self.name} has no operand"))

    # ---- rules ----
    def _rule(self, kind, f):
        if self._handle is not None:
            self.unregister()
        self._rules[kind] = f
        return f

    def shape_rule(self, f):
        """Decorates f(*types, **attributes): from ShapeDtypeStructs of the operands, whose dims may be names of symbols, to those of
        the results. Not needed where there is a decomposition, whose results have them. Raise ValueError for operands that do not fit."""
        return self._rule("shape_rule", f)

    def decomposition(self, f):
        """Decorates f(*arrays, **attributes): the same in ops of RLX, traced as under `jit`. With it the op runs on every device, and
        has derivatives."""
        return self._rule("decomposition", f)

    def gradient(self, f):
        """Decorates f(operands, results, cotangents, **attributes) -> a cotangent for each operand, traced as under `jit`. Operands and
        results that are neither float nor complex have none: None stands in their places."""
        return self._rule("gradient", f)

    def kernel(self, f=None, *, dtypes=None):
        """Decorates f(*arrays, **attributes): computes with NumPy on the processor, where the op would otherwise run its decomposition.
        Operands are copies. `dtypes`: those of operands that it takes."""
        if f is None:
            return lambda g: self.kernel(g, dtypes=dtypes)
        self._kernel_dtypes = None if dtypes is None else [_dtypes.name_of(d) for d in (dtypes if isinstance(dtypes, (list, tuple, set)) else [dtypes])]
        return self._rule("kernel", f)

    # ---- the table ----
    def register(self):
        """Makes the op known by its name, to the textual IR too. The first call does it. An op of the same name that Python has
        registered before is replaced, so that a notebook's cell may run twice."""
        with _lock:
            if self._handle is not None:
                return self
            if "shape_rule" not in self._rules and "decomposition" not in self._rules:
                raise TypeError(at_user_line(f"the op {self.name} needs a shape rule or a decomposition: @{self.name}.shape_rule"))
            definition = self._definition()
            for other in _registered:
                if other.name == self.name and other._handle is not None:
                    other._unregister()
                    other._is_replaced = True
            check(lib.rlx_op_register, byref(definition))
            self._handle, self._is_replaced = definition, False
            if not any(op is self for op in _registered):
                _registered.append(self)
            _ops.forget_programs()
            return self

    def unregister(self):
        """Forgets its name. What was traced with it still runs."""
        with _lock:
            if self._handle is not None:
                self._unregister()

    def _unregister(self):
        check(lib.rlx_op_unregister, self.name.encode())
        _retired.append(self._handle)
        self._handle = None
        _ops.forget_programs()

    def check(self, *operands, tolerance=None, **attributes):
        """Holds the op to the laws that the library's own ops are under, on these operands: the shape rule to what the reference
        returns; kernel, jit, decomposition (of float64, too), and every device that can run here to the reference; vmap to a loop over two
        examples, for each choice of the operands that have a batch; the graph to its text; extents that are symbols to
        numbers; the gradient, with all cotangents and with each alone, to differences of the reference in float64, jvp to it, and its own gradient
        and vmap to differences and loops.
        Raises AssertionError for the first that differs, and returns the names of what was compared. `tolerance` is relative to 1 +
        |value|; without it, it follows the dtype."""
        from . import _custom_op_check
        return _custom_op_check.check(self, operands, attributes, tolerance)

    def __call__(self, *operands, **attributes):
        if self._handle is None:
            if self._is_replaced:
                raise Error(at_user_line(f"another op was defined as {self.name!r} since; register() gives this one its name back"), "not_found")
            self.register()
        for name in attributes:
            if name not in self._kinds:
                if name in (o.rstrip("?.") for o in self._operands):
                    raise TypeError(at_user_line(f"{self.name}: {name} is an operand, which is given by its position"))
                raise TypeError(at_user_line(f"{self.name} has no attribute {name!r}; it has {', '.join(self._kinds) or 'none'}"))
        return _ops.emit_op(self.name, self._given_operands(operands), [(name, value, self._kinds[name])
                                                                         for name, value in self._full(attributes).items()])

    def _given_operands(self, operands):
        """Without those at the end that were left out."""
        operands = list(operands)
        while operands and operands[-1] is None:
            operands.pop()
        missing = [i for i, x in enumerate(operands) if x is None]
        if missing:
            raise TypeError(at_user_line(f"{self.name}: operand {missing[0]} is None and stands before one that is given; only the last "
                                         "ones may be left out"))
        return operands

    def _full(self, attributes):
        """Every attribute by its name, those that are not given with their defaults."""
        return {name: _checked(self.name, name, attributes.get(name, self._defaults[name]), kind) for name, kind in self._kinds.items()}

    def __repr__(self):
        return f"<rlx.custom_op {self.name}({', '.join(self._operands)})>"

    # ---- what C calls ----
    def _definition(self):
        rules = self._rules
        attributes = ", ".join(f"{name}: {kind} = {_ops._text(self._defaults[name], kind)}" for name, kind in self._kinds.items())
        doc = (rules["reference"].__doc__ or "").strip().split("\n")[0]
        d = _Definition(struct_size=ctypes.sizeof(_Definition), name=self.name.encode(), doc=doc.encode(),
                        source=(self._source or "").encode(), operands=" ".join(self._operands).encode(), attributes=attributes.encode(),
                        samples=self._samples.encode(), elementwise=int(self._elementwise), not_differentiable=int(not self._differentiable),
                        kernel_name=f"{self.name} in Python".encode())
        d.infer = _INFER(self._called(self._infer))
        d.reference = _REFERENCE(self._called(self._reference))
        if "decomposition" in rules:
            d.decompose = _GRAPH(self._called(self._decompose))
        if "gradient" in rules:
            d.vjp = _GRAPH(self._called(self._vjp))
        if "kernel" in rules:
            d.kernel = _KERNEL(self._called(self._run_kernel))
            if self._kernel_dtypes is not None:
                d.kernel_dtypes = " ".join(self._kernel_dtypes).encode()
        return d

    def _called(self, rule):
        """A rule as C calls it: exceptions become errors, and nothing is traced but what the rule traces itself."""

        def call(context, call, *arguments):
            *arguments, error = arguments
            traces, _local.traces = _local.traces, []
            try:
                given = call.contents
                types = [_graph.parse_type(given.types[i].decode()) for i in range(given.count)]
                rule(types, _decoded(given.attributes, self._kinds), *arguments)
                return 0
            except BaseException as exception:  # a KeyboardInterrupt too: it must not unwind C++
                return _give_error(exception, error)
            finally:
                _local.traces = traces

        return call

    def _result_types(self, types, attributes):
        if "shape_rule" in self._rules:
            given = [ShapeDtypeStruct(dims, _dtypes.long_name(dtype)) for dtype, dims in types]
            return [(getattr(t, "dtype_name", None) or _dtypes.own_name_of(t.dtype), tuple(t.shape))
                    for t in _results_of(self._rules["shape_rule"](*given, **attributes))]
        return self._traced("decomposition", types, attributes).out_types

    def _infer(self, types, attributes, results):
        for dtype, dims in self._result_types(types, attributes):
            check(lib.rlx_op_add_result, results, _graph.type_text(dtype, dims).encode())

    def _reference(self, types, attributes, operands, results, count):
        arrays = [_graph._array_of(operands[i]) for i in range(len(types))]  # copies, which a rule may keep
        for r, made in enumerate(self._computed("reference", arrays, attributes, count)):
            results[r] = _graph.tensor_of(made, f"result {r}", "result").value

    def _computed(self, kind, arrays, attributes, count):
        made = _results_of(self._rules[kind](*arrays, **attributes))
        if len(made) != count:
            raise ValueError(f"it returned {len(made)} results, and its shape rule gives {count}")
        made = [np.asarray(x) for x in made]
        return [x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("=")) for x in made]

    def _run_kernel(self, types, attributes, arguments):
        a = arguments.contents
        # Copies: a rule, or the frames of an exception in it, may keep its operands, whose memory is used again.
        arrays = [_view(a.operands[i], dtype, dims).copy() for i, (dtype, dims) in enumerate(types)]
        for r, value in enumerate(self._computed("kernel", arrays, attributes, a.result_count)):
            dtype, dims = _graph.parse_type(a.result_types[r].decode())
            if value.dtype != _dtypes.numpy_of(dtype) or value.shape != dims:
                raise ValueError(f"it returned {value.dtype}{list(value.shape)} for result {r}, which is {_graph.type_text(dtype, dims)}")
            if dtype == "bool":  # whatever byte NumPy has for True
                value = np.ascontiguousarray(value).reshape(dims).view(np.uint8) != 0
            np.copyto(_view(a.results[r], dtype, dims), value)

    def _traced(self, kind, types, attributes):
        f = self._rules[kind]
        tracing = _tracing.ops
        if any(op is self for op in tracing):
            path = [op.name for op in tracing[[op is self for op in tracing].index(True):]]
            raise ValueError(f"the {kind} of {self.name!r} uses {self.name!r} again ({' > '.join([*path, self.name])})")
        tracing.append(self)
        try:
            return self._trace(f, kind, types, attributes)
        finally:
            tracing.pop()

    def _trace(self, f, kind, types, attributes):
        traced = Traced(lambda *args: tuple(_results_of(f(*args, **attributes))), tree.structure((0,) * len(types)), types,
                        name=f"{self.name}_{kind}")
        if traced.captured:
            raise ValueError(f"the {kind} uses arrays of a trace around it; they are operands of the op")
        if traced.prints:
            raise ValueError(f"debug.print does not print from the {kind} of an op")
        return traced

    def _give(self, graph, to):
        graph._finalizer.detach()  # C frees it
        to[0] = graph.handle.value

    def _decompose(self, types, attributes, to):
        self._give(self._traced("decomposition", types, attributes).graph, to)

    def _vjp(self, types, attributes, to):
        results = self._result_types(types, attributes)
        has = [_dtypes.is_inexact(dtype) for dtype, _ in types]
        gives = [_dtypes.is_inexact(dtype) for dtype, _ in results]

        def pulled(*values):
            values = list(values)
            operands, out, cts = values[:len(types)], values[len(types):len(types) + len(results)], values[len(types) + len(results):]
            given = iter(cts)
            cotangents = [next(given) if g else None for g in gives]
            found = _results_of(self._rules["gradient"](operands, out, cotangents, **attributes))
            if len(found) != len(types):
                raise ValueError(f"the gradient returned {len(found)} cotangents for {len(types)} operands")
            made = []
            for i, (ct, (dtype, dims)) in enumerate(zip(found, types)):
                if not has[i]:
                    continue
                if ct is not None and _dtypes.is_complex(as_array(ct).dtype_name) and not _dtypes.is_complex(dtype):
                    raise ValueError(f"the cotangent of operand {i}, which is {dtype}, is complex; take its real part")
                ct = as_array(0.0 if ct is None else ct, dtype)
                if ct.shape != dims:
                    if ct.shape != ():
                        raise ValueError(f"the cotangent of operand {i} has the shape {ct.shape}, the operand {dims}")
                    ct = _ops.emit_op("broadcast_in_dim", [ct], [("dims", dims, "list of dim"), ("axes", (), "list of int")])
                made.append(ct)
            return tuple(made)

        inputs = list(types) + list(results) + [t for t, g in zip(results, gives) if g]
        traced = Traced(pulled, tree.structure((0,) * len(inputs)), inputs, name=f"{self.name}_gradient")
        if traced.captured or traced.prints:
            raise ValueError("the gradient uses arrays of a trace around it, or prints")
        self._give(traced.graph, to)


def custom_op(f=None, *, name=None, source=None, elementwise=False, differentiable=True, samples=()):
    """Makes an op of a function of NumPy arrays, its reference: positional parameters are operands (one with the default None may be
    left out, *xs is any number), keywords behind a star are attributes, whose defaults say their kinds.

        @rlx.custom_op
        def clip_norm(x, *, limit=1.0):
            "The rows of x, each scaled down until its norm is at most `limit`."
            return x * (limit / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), limit)).astype(x.dtype)

        @clip_norm.decomposition
        def _(x, *, limit):
            return x * (limit / rnp.maximum(rnp.sqrt(rnp.sum(x * x, -1, keepdims=True)), limit))

        clip_norm(x, limit=0.5)

    `shape_rule`, `decomposition`, `gradient` and `kernel` of the op add rules. With a decomposition it runs on every device; without
    one the processor calls the kernel, or else the reference, and every other device refuses it. `source` tells where the op is described, `elementwise` that each
    element of a result depends on those of the operands at its index alone, `differentiable=False` that its gradient is zero. `samples` are
    operands that exercise it, for `rlx test-device`: texts as "f64[3, 5], i32[5] {axis = 1} in [-1, 1]", where f64 stands for every
    dtype that the shape rule takes.
    """
    if f is None:
        return lambda g: CustomOp(g, name, source, elementwise, differentiable, samples)
    return CustomOp(f, name, source, elementwise, differentiable, samples)


_callbacks = {}  # by the function and what it takes and gives, so that tracing again makes no other op


def pure_callback(callback, result_shape_dtypes, *args):
    """callback(*args) on NumPy arrays, called when the values are there: inside jit each time it runs, under vmap once for each example.

    `result_shape_dtypes` is a tree of what the results are: `ShapeDtypeStruct`s, or arrays of their shapes and dtypes. The callback
    must depend on its arguments alone: it is called as often as the compiler likes, also not at all if nobody uses its result. It runs on
    the processor, and other devices refuse it. It has no derivative; `custom_vjp` around it gives one. As jax.pure_callback.
    """
    arrays, structure = tree.flatten(args)
    arrays = [as_array(x) for x in arrays]
    wanted, out_structure = tree.flatten(result_shape_dtypes)
    types = tuple((getattr(t, "dtype_name", None) or _dtypes.own_name_of(t.dtype), tuple(t.shape)) for t in wanted)
    if not types:
        raise ValueError(at_user_line("pure_callback: the tree of results has none; what nobody uses is never called"))
    key = (callback, structure, out_structure, types)
    with _lock:
        made = _callbacks.get(key)
        if made is None:
            made = _callbacks[key] = _callback_op(callback, structure, out_structure, types, len(arrays), len(_callbacks))
    out = made(*arrays) if arrays else made(np.zeros((), np.int32))
    return tree.unflatten(out_structure, _results_of(out))


def _callback_op(callback, structure, out_structure, types, count, number):
    def reference(*operands):
        made, its = tree.flatten(callback(*tree.unflatten(structure, list(operands[:count]))))
        if its != out_structure:
            raise TypeError(f"the callback returned a tree of the structure {tree.drawn(its)}, where {tree.drawn(out_structure)} was announced")
        return [np.asarray(x, _dtypes.numpy_of(dtype)) if isinstance(x, (bool, int, float, complex)) else np.asarray(x)
                for x, (dtype, _) in zip(made, types)]

    op = CustomOp(reference, f"callback_{number}_{getattr(callback, '__name__', 'f')}".replace("<", "").replace(">", ""), None, False, True)
    op.shape_rule(lambda *given: [ShapeDtypeStruct(dims, _dtypes.long_name(dtype)) for dtype, dims in types])
    return op
