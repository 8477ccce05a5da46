"""Tracing and jit: a Python function of pytrees of arrays becomes a graph, and `jit` compiles it once for each set of argument
types.

Arguments and results are trees of arrays (tuples, lists, dicts); arrays may be anything array-like. Derivatives and vmap, which
trace too: _transforms.py.
"""

import functools
import inspect
import math
import os
import weakref

import numpy as np

from . import _dtypes, _graph, tree
from ._array import Array, Programs, Trace, _local, _made, as_array, current_trace, is_foreign, is_weak, runner, weakened
from ._native import Error, at_user_line
from ._prints import show

_ndarray, _name_of = np.ndarray, _dtypes.FROM_NUMPY.get


class ShapeDtype:
    """A type in place of an array, for `jit(f).lower` and `eval_shape`. A dim may be a name: "N"."""

    def __init__(self, shape, dtype="f32"):
        self.shape, self.dtype_name = tuple(shape), _dtypes.name_of(dtype)

    @property
    def dtype(self):
        return _dtypes.numpy_of(self.dtype_name)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    def __eq__(self, other):
        return isinstance(other, ShapeDtype) and (self.shape, self.dtype_name) == (other.shape, other.dtype_name)

    def __hash__(self):
        return hash((self.shape, self.dtype_name))

    def __repr__(self):
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype})"


ShapeDtypeStruct = ShapeDtype


def _arrays(args, what="argument ", hint="", share=False):
    leaves, structure = tree.flatten(args)
    return [x if isinstance(x, ShapeDtype) or type(x) is Array else _leaf(leaves, i, structure, what, hint, share)
            for i, x in enumerate(leaves)], structure


def _leaf(leaves, i, structure, what, hint, share):
    try:
        return as_array(leaves[i], share=share)
    except (TypeError, ValueError) as error:
        if not is_foreign(leaves[i]):
            raise
        path = tree.paths(structure)[i]
        if hint:  # of jit: (positional, keywords)
            path = ("args" if path.startswith("[0]") else "kwargs") + path[3:]
        raise TypeError(at_user_line(f"{what}{path} is {_shown_leaf(leaves[i])}, which is no array. Arguments and results "
                                     f"are trees (tuples, lists, dicts) of arrays and numbers{hint}")) from error


def _shown_leaf(x):
    return f"a {type(x).__name__}, {str(x)[:40]!r}"


class Traced:
    """A function traced on some types: a closed graph, the tree of its results, and the outer values it captured.

    What it prints (debug.print) are further outputs of the graph, behind its results: `show` takes them. Zeros of the types
    `before` and `after` stand around them, in the places of what another branch prints. `printless` names who traces here and has no
    place for them. `batched` says which of the inputs differ from example to example, and `out_batched` then which results may; `weak`, which stand for Python's numbers,
    and `out_weak` which results do.
    """

    def __init__(self, f, structure, types, kwargs=None, captured=(), name=None, printless=None, before=(), after=(), batched=None,
                 weak=()):
        trace = Trace(name or getattr(f, "__name__", "f").replace("<", "").replace(">", "") or "f", printless)
        with trace:
            inputs = [trace.input(dtype, dims) for dtype, dims in types]
            weakened(inputs, weak)
            if batched is not None:
                trace.examples = {x._value.node for x, flag in zip(inputs, batched) if flag}
            trace.capture(captured)
            args = tree.unflatten(structure, inputs)
            out = f(*args, **(kwargs or {}))
            leaves, self.out_structure = _arrays(out, f"the result of '{name or getattr(f, '__name__', 'f')}'")
            self.out_weak = [is_weak(x) for x in leaves]
            leaves = [trace.lift(x) for x in leaves]
            before, after = ([trace.number(0, dtype, dims) for dtype, dims in types] for types in (before, after))
        self.out_types = [(x.dtype_name, x.shape) for x in leaves]
        self.out_batched = None if batched is None else [x._value.node in trace.examples for x in leaves]
        self.prints = trace.prints
        printed = [x for p in trace.prints for x in p.arrays]
        self.print_types = [(x.dtype_name, x.shape) for x in printed]
        for x in [*leaves, *before, *printed, *after]:
            trace.graph.output(x._value)
        self.graph, self.inputs = trace.graph, len(inputs)
        self.outputs = len(leaves) + len(before) + len(printed) + len(after)
        self.captured = [outer for outer, _ in trace.captured]

    def show(self, values, loop=None, when=None):
        """What the graph gave behind its results; `when` is a condition, and what it must be."""
        if not self.prints:
            return
        values = iter(values)
        prints = [p.of([next(values) for _ in p.arrays], loop) for p in self.prints]
        show(prints if when is None else [p.when(*when) for p in prints])


def _trace(f, args, kwargs=None, captured=(), printless=None):
    arrays, structure = _arrays(args)
    return Traced(f, structure, [(x.dtype_name, x.shape) for x in arrays], kwargs, captured, printless=printless,
                  weak=weak_leaves(args)), arrays


def weak_leaves(args):
    """Which leaves are Python's numbers."""
    return [is_weak(x) for x in tree.leaves(args)]


def _apply(graph, arrays):
    """A closed graph on arrays: into the current trace, or compiled and run."""
    trace = current_trace()
    if trace is not None:
        return trace.inline(graph, arrays)
    for x in arrays:
        x._require_no_trace()
    return _listed(runner(_graph.default_session().compile(graph))(*arrays))


def _listed(out):
    return [out] if type(out) is Array else out


# ---- jit ----
class Lowered:
    """What `jit(f).lower(...)` gives: the graph, before it runs."""

    def __init__(self, traced, session=None, options=None):
        self._traced, self._session, self._options = traced, session, options or {}
        self._compiled = None

    def as_text(self):
        """The textual IR."""
        return self._traced.graph.text()

    def compile(self):
        if self._compiled is None:
            self._compiled = (self._session or _graph.default_session()).compile(self._traced.graph, **self._options)
        return self._compiled

    def report(self):
        """Where each node would run, and why there: a dictionary. Nothing is compiled, and an op that the device does not run is a line
        with the verdict "missing"."""
        return (self._session or _graph.default_session()).report(self._traced.graph, **self._options)

    def save(self, path):
        """Writes a .rlx file, which the program `rlx` and other languages load."""
        self._traced.graph.save(path)


def _static_of(f, nums, names, kind="static"):
    """The static (or donated) arguments by number and by name: each under both where the function tells, as it may be given either way."""
    nums = (nums,) if isinstance(nums, int) else tuple(nums)
    names = (names,) if isinstance(names, str) else tuple(names)
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return nums, names
    placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not any(p.kind == p.VAR_POSITIONAL for p in parameters):
        for n in nums:
            if not -len(placed) <= n < len(placed):
                raise Error(at_user_line(f"{kind}_argnums names argument {n}, and '{getattr(f, '__name__', 'f')}' has {len(placed)}"))
        nums = tuple(n % len(placed) for n in nums)
    if not any(p.kind == p.VAR_KEYWORD for p in parameters):
        for name in names:
            if name not in {p.name for p in parameters}:
                raise Error(at_user_line(f"{kind}_argnames names {name!r}, and '{getattr(f, '__name__', 'f')}' has "
                                              f"{', '.join(p.name for p in parameters)}"))
    both = {*nums, *(placed.index(name) for name in names if name in placed)}
    return tuple(sorted(both)), (*names, *(placed[n] for n in nums if 0 <= n < len(placed)))


def _without_numpy(x):
    if type(x) is Array:
        return x
    return tree.map(lambda leaf: as_array(leaf) if isinstance(leaf, (_ndarray, np.generic)) else leaf, x)


def _of_one_kind(value):
    """A static value as a part of a key: 1, 1.0 and True are equal, and so are 0.0 and -0.0, but functions give other results for them."""
    if isinstance(value, tuple):
        return (type(value), *[_of_one_kind(v) for v in value])
    return (type(value), repr(value) if isinstance(value, (float, complex)) else value)


class Jit:
    """A function that is traced and compiled once for each set of argument types and static arguments."""

    every = weakref.WeakSet()

    def __init__(self, f, static_argnums=(), static_argnames=(), device=None, threads=None, donate_argnums=(),
                 donate_argnames=(), **options):
        functools.update_wrapper(self, f)
        self._f, self._device, self._threads, self._options = f, device, threads, options
        self._static, self._static_names = _static_of(f, static_argnums, static_argnames)
        self._donate, self._donate_names = _static_of(f, donate_argnums, donate_argnames, "donate")
        self._plain = not self._static
        self._cache = {}
        self._fast = {}
        Jit.every.add(self)

    def _session(self):
        return _graph.session_of(self._device or "", self._threads)

    def __call__(self, *args, **kwargs):
        if _local.traces:
            return self._within_trace(args, kwargs)
        if not self._plain or kwargs:
            return self._slow(args, kwargs, None)
        # The common case, arrays alone, with as little Python as possible.
        arrays, key = [], []
        for a in args:
            if type(a) is not Array:
                name = _name_of(a.dtype) if type(a) is _ndarray else None
                if name is None:
                    break
                a = _made(a, name, a.shape, None)
            arrays.append(a)
            key.append(a._dtype)
            key.append(a._shape)
        else:
            key = tuple(key)
            hit = self._fast.get(key)
            return self._slow(args, kwargs, key) if hit is None else self._hit(hit, arrays)
        # Trees of arrays.
        leaves, structure = tree.flatten(args)
        arrays, key = [], [structure]
        for a in leaves:
            if type(a) is not Array:
                name = _name_of(a.dtype) if type(a) is _ndarray else None
                if name is None:
                    return self._slow(args, kwargs, None)
                a = _made(a, name, a.shape, None)
            arrays.append(a)
            key.append(a._dtype)
            key.append(a._shape)
        try:
            key = tuple(key)
            hit = self._fast.get(key)
        except TypeError:  # the slow way names what is not hashable
            hit = None
        return self._slow(args, kwargs, key) if hit is None else self._hit(hit, arrays)

    def __get__(self, instance, owner=None):
        """Of a method: the object comes first; it is an argument like others, a tree of arrays or static."""
        return self if instance is None else functools.partial(self, instance)

    @staticmethod
    def _hit(hit, arrays):
        run, traced = hit
        out = run(*arrays)
        if traced.out_structure == "*" and not traced.prints:
            return out
        return Jit._results(traced, _listed(out))

    @staticmethod
    def _results(traced, out):
        n = len(traced.out_types)
        if traced.prints:
            traced.show(out[n:])
        return tree.unflatten(traced.out_structure, out[:n])

    def _split(self, args, kwargs):
        static = tuple((i, args[i]) for i in self._static if i < len(args))
        placed = {i for i, _ in static}
        names = {k: v for k, v in kwargs.items() if k in self._static_names}
        dynamic = tuple(a for i, a in enumerate(args) if i not in placed)
        rest = {k: v for k, v in kwargs.items() if k not in names}
        return static, names, dynamic, rest

    def _call_traced(self, static, names):
        fixed = dict(static)

        def call(dynamic, rest):
            args, given = [], iter(dynamic)
            for i in range(len(dynamic) + len(static)):
                args.append(fixed[i] if i in fixed else next(given))
            return self._f(*args, **names, **rest)
        return call

    def _unhashable(self, static, names, structure, error):
        unhashable = [v for v in (*(v for _, v in static), *names.values()) if getattr(v, "__hash__", None) is None]
        if not unhashable:
            raise TypeError(at_user_line(f"an argument of '{getattr(self._f, '__name__', 'f')}' has a static field that is not hashable "
                                         f"({error}): it belongs to the structure, for each of which jit keeps one program")) from error
        raise TypeError(at_user_line(f"a static argument of '{getattr(self._f, '__name__', 'f')}' is {_shown_leaf(unhashable[0])}, which is "
                                     "not hashable: jit keeps one program for each value; pass a tuple, or an array that is not "
                                     "static")) from error

    def _donated_inputs(self, dynamic, rest):
        """The names of the graph's inputs that are leaves of donated arguments."""
        kept = [i for i in range(len(dynamic) + len(self._static)) if i not in self._static]
        flags = []
        for i, argument in zip(kept, dynamic):
            flags += [i in self._donate] * len(tree.leaves(argument))
        names = {k: k in self._donate_names for k in rest}
        flags += tree.leaves({k: tree.map(lambda _, donated=names[k]: donated, v) for k, v in rest.items()})
        return tuple(f"x{i}" for i, donated in enumerate(flags) if donated)

    def _within_trace(self, args, kwargs):
        """The function itself. NumPy's arrays become arrays here as they do where it is compiled: it may update them, with .at, and must
        not write to them."""
        args = [a if i in self._static else _without_numpy(a) for i, a in enumerate(args)]
        return self._f(*args, **{k: v if k in self._static_names else _without_numpy(v) for k, v in kwargs.items()})

    def _lookup(self, args, kwargs):
        static, names, dynamic, rest = self._split(args, kwargs)
        arrays, structure = _arrays((dynamic, rest), f"an argument of '{getattr(self._f, '__name__', 'f')}', ",
                                    ", or marked static: rlx.jit(f, static_argnums=...)", share=True)
        types, weak = tuple((x.dtype_name, x.shape) for x in arrays), tuple(weak_leaves((dynamic, rest)))
        key = (structure, types, weak, _of_one_kind(static), _of_one_kind(tuple(sorted(names.items()))))
        try:
            entry = self._cache.get(key)
        except TypeError as error:
            self._unhashable(static, names, structure, error)
        if entry is None:
            traced = Traced(self._call_traced(static, names), structure, types, name=getattr(self._f, "__name__", "f"), weak=weak)
            compiled = self._session().compile(traced.graph, **self._options)
            compiled.is_fixed, compiled.threads = self._device is not None, self._threads
            compiled.donate = self._donated_inputs(dynamic, rest)
            entry = self._cache[key] = (runner(compiled), traced, compiled)
        return entry, arrays

    def _slow(self, args, kwargs, key):
        (run, traced, _), arrays = self._lookup(args, kwargs)
        if traced.captured:
            raise Error("a jitted function used a value of a trace that has ended; pass it as an argument")
        if key is not None:
            self._fast[key] = (run, traced)
        for x in arrays:
            x._require_no_trace()
        return self._results(traced, _listed(run(*arrays)))

    def lower(self, *args, **kwargs):
        static, names, dynamic, rest = self._split(args, kwargs)
        arrays, structure = _arrays((dynamic, rest))
        return Lowered(Traced(self._call_traced(static, names), structure, [(x.dtype_name, x.shape) for x in arrays],
                              name=getattr(self._f, "__name__", "f"), weak=weak_leaves((dynamic, rest))), self._session(), self._options)

    def compiled(self):
        """What was compiled last."""
        if not self._cache:
            raise Error("nothing was compiled yet: call the function first, or use lower(...)")
        return list(self._cache.values())[-1][2]

    def report(self):
        """The dispatch report of what was compiled last."""
        return self.compiled().report()

    def clear_cache(self):
        """Forgets what was traced and compiled."""
        self._cache.clear()
        self._fast.clear()


# Of a compile, those that are no parameters of `jit` itself. (What is donated it says by argument.)
_COMPILE_OPTIONS = ("strict", "rounding", "kernel_dispatch", "mode", "force_common", "force_native", "skip_passes", "cache_dir",
                    "compute", "fallback", "placement", "narrow", "isa")


def jit(f=None, *, static_argnums=(), static_argnames=(), accuracy="f32", batch_invariant=False, threads=None, device=None,
        donate_argnums=(), donate_argnames=(), **options):
    """f compiled: traced once for each set of argument types, then run without Python.

    Arguments named static, by number or by name, are passed to f as they are and must be hashable; the others are trees of arrays.

    accuracy         of products of float32: "f32" (errors as sums of f32 have them, element by element), "exact" (computed in
                     float64 and rounded once, slower), "row_relative" (errors relative to the largest number of a row, faster
                     on processors with matrix tiles)
    batch_invariant  True: a row's bits do not depend on how many rows are multiplied with it
    threads          among how many its work is split, the caller's included; None: the default (`set_num_threads`)
    device           where it runs, "cpu" if nothing else is said
    donate_argnums, donate_argnames   arguments whose memory the run may overwrite: using such an array afterwards is an error. It
                     concerns arrays on devices (`device_put`); those in the host's memory are never written to
    options          the others of `Session.compile`: strict, rounding, kernel_dispatch, mode, force_common, force_native, skip_passes,
                     cache_dir, compute, fallback, placement, narrow, isa
    """
    unknown = [n for n in options if n not in _COMPILE_OPTIONS]
    if unknown:
        raise TypeError(at_user_line(f"jit has no option {unknown[0]!r}; it has {', '.join(_COMPILE_OPTIONS)}, and those that it names"))
    _graph.compile_options(accuracy=accuracy, batch_invariant=batch_invariant, **options)  # what is wrong is said now
    if threads is not None:
        threads = _thread_count(threads)
    options.update(static_argnums=static_argnums, static_argnames=static_argnames, accuracy=accuracy, batch_invariant=batch_invariant,
                   threads=threads, device=device, donate_argnums=donate_argnums, donate_argnames=donate_argnames)
    return functools.partial(jit, **options) if f is None else Jit(f, **options)


def _thread_count(threads, least=1):
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or not least <= threads <= 256:
        raise ValueError(at_user_line(f"threads is a number from {least} to 256, not {threads!r}"))
    return int(threads)


def set_num_threads(threads):
    """Among how many threads work is split where nothing else is said (`jit(threads=...)`, `Session`): jitted functions, functions
    called at once, training. 0: as many as the machine has cores. What was compiled before is compiled anew."""
    _graph.set_default_threads(_thread_count(threads, 0))
    for made in Jit.every:
        if made._threads is None:
            made.clear_cache()
    for programs in Programs.everywhere:
        programs.clear()


def get_num_threads():
    """The default number of threads: what `set_num_threads` said, else the number of cores that this thread may run on. (A session takes fewer
    where a control group's quota, as of a container, permits fewer.)"""
    return _graph.default_threads() or _cores()


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def eval_shape(f, *args, **kwargs):
    """The types of f(*args, **kwargs) as a tree of ShapeDtypeStruct, without computing anything. Arguments are trees of arrays or of
    ShapeDtypeStruct."""
    arrays, structure = _arrays((args, kwargs))
    traced = Traced(lambda args, kwargs: f(*args, **kwargs), structure, [(x.dtype_name, x.shape) for x in arrays],
                    name=getattr(f, "__name__", "f"), weak=weak_leaves((args, kwargs)))
    return tree.unflatten(traced.out_structure, [ShapeDtype(shape, _dtypes.long_name(dtype)) for dtype, shape in traced.out_types])


def block_until_ready(x):
    """x, a tree, when its arrays are computed; raises what prevented it. As jax.block_until_ready."""
    for leaf in tree.leaves(x):
        if type(leaf) is Array:
            leaf.block_until_ready()
    return x
