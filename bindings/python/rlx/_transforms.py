"""Derivatives and vmap: transforms of Python functions of pytrees of arrays, which are traced into graphs (_jit.py) at each call;
nothing is kept between calls.
"""

import functools

import numpy as np

from . import _dtypes, _graph, tree
from ._array import as_array, current_trace, emit, is_foreign, is_number, weakened
from ._jit import Traced, _apply, _arrays, _trace, weak_leaves
from ._native import Error, at_user_line
from ._prints import Loop
from .numpy._creation import eye, zeros, zeros_like
from .numpy._shape import moveaxis, reshape


# ---- derivatives ----
def _has_derivative(dtype):
    return _dtypes.is_inexact(dtype)


def _positions(args, argnums):
    """For each leaf of args, whether it belongs to the arguments that are differentiated."""
    flags = []
    for i, arg in enumerate(args):
        flags += [i in argnums] * len(tree.leaves(arg))
    return flags


def _require_float(traced_types, flags, what):
    for (dtype, dims), wanted in zip(traced_types, flags):
        if wanted and not _has_derivative(dtype):
            raise Error(at_user_line(f"{what} of an argument of {_graph.type_text(dtype, dims)}: only floats and complex numbers have "
                                     "derivatives; convert it, or leave it out of argnums"))


def _giving_a_pair(f):
    """f, whose result must be a pair: what is differentiated, and what is not."""
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        out = f(*args, **kwargs)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(at_user_line(f"has_aux says that '{getattr(f, '__name__', 'f')}' returns a pair, what is differentiated and anything "
                                         f"else; it returned {f'{len(out)} values' if isinstance(out, (tuple, list)) else f'one value, {out!r}'}"))
        return out
    return wrapper


def value_and_grad(f, argnums=0, has_aux=False):
    """(f(*args), gradients): of a function whose result is a float scalar (or, with `has_aux`, a pair of one and anything
    else). The gradients have the structure of the argument, or of a tuple of arguments where `argnums` is one."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        for n in numbers:
            if not -len(args) <= n < len(args):
                raise Error(at_user_line(f"argnums names argument {n}, the call has {len(args)}"))
        wanted = tuple(n % len(args) for n in numbers)
        traced, arrays = _trace(_giving_a_pair(f) if has_aux else f, args, kwargs)
        flags = _positions(args, wanted)
        _require_float([(x.dtype_name, x.shape) for x in arrays], flags, "the gradient")
        if not traced.out_types:
            raise Error(at_user_line(f"grad needs a function with a float scalar for result; '{getattr(f, '__name__', 'f')}' returned nothing"))
        dtype, dims = traced.out_types[0]
        if dims != () or not _dtypes.is_float(dtype) or (len(traced.out_types) > 1 and not has_aux):
            kinds = ", ".join(_graph.type_text(*t) for t in traced.out_types)
            raise Error(at_user_line(f"grad needs a function with a float scalar for result, got {kinds}; sum it, use vjp or jacrev, "
                                     "or say has_aux=True if only the first result is differentiated"))
        outs = len(traced.out_types)
        back = traced.graph.vjp(flags + [False] * len(traced.captured), [i == 0 for i in range(traced.outputs)], True)
        one = as_array(np.ones((), _dtypes.numpy_of(dtype)))
        results = _apply(back, arrays + traced.captured + [one])
        value = tree.unflatten(traced.out_structure, results[:outs])
        traced.show(results[outs:traced.outputs])
        given = iter(results[traced.outputs:])
        grads = []
        for i, arg in enumerate(args):
            if i in wanted:
                structure = tree.structure(arg)
                grads.append((i, tree.unflatten(structure, [next(given) for _ in tree.leaves(arg)])))
        by_number = dict(grads)
        picked = tuple(by_number[n] for n in wanted)
        return value, picked[0] if isinstance(argnums, int) else picked

    return wrapper


def grad(f, argnums=0, has_aux=False):
    """The gradient of a function with a float scalar for result, with respect to the arguments `argnums`; with `has_aux`,
    (gradient, the rest of what f returned)."""
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(f, *primals, has_aux=False):
    """(f(*primals), pullback): the pullback maps cotangents, of the structure of the result, to a tuple of cotangents of
    the primals. With `has_aux` f returns a pair, and a third value is its second part."""
    aux_out = []
    if has_aux:
        f = _giving_a_pair(f)

    def main(*args):
        out = f(*args)
        if not has_aux:
            return out
        aux_out.append(tree.structure(out[1]))
        return out

    traced, arrays = _trace(main, primals)
    outs = len(traced.out_types)
    main_outs = outs
    if has_aux:
        main_outs = outs - tree.count(aux_out[0])
        structure, aux_structure = traced.out_structure[-1]
    else:
        structure = traced.out_structure
    given = [i < main_outs and _has_derivative(dtype) for i, (dtype, _) in enumerate(traced.out_types)]
    silent = [False] * (traced.outputs - outs)
    wrt = [_has_derivative(x.dtype_name) for x in arrays]
    active = wrt + [False] * len(traced.captured)
    back = traced.graph.vjp(active, given + silent, False)
    # In a trace the value comes from the ops that `back` runs first too, which keep what the gradient wants: they are
    # merged, which those of the function as it was written may not be. Given no cotangent, that is all it has.
    forth = traced.graph.vjp(active, [False] * traced.outputs, True) if current_trace() is not None else traced.graph
    results = _apply(forth, arrays + traced.captured)
    traced.show(results[outs:traced.outputs])
    results = results[:outs]

    def pullback(ct):
        cts, its = tree.flatten(ct)
        if its != structure:
            raise Error(at_user_line(f"the cotangent has the structure {_drawn(ct)}, the result {_drawn(tree.unflatten(structure, results))}"))
        seeds = []
        for (dtype, dims), flag, x in zip(traced.out_types, given, cts):
            if not flag:
                continue
            x = as_array(x, dtype)
            if x.shape != dims:
                raise Error(at_user_line(f"a cotangent of {_graph.type_text(dtype, dims)} has the shape {x.shape}"), "shape_mismatch")
            seeds.append(x)
        found = iter(_apply(back, arrays + traced.captured + seeds))
        all_cts = [next(found) if flag else None for flag in wrt]
        return tuple(tree.unflatten(tree.structure(list(primals)), all_cts))

    value = tree.unflatten(structure, results[:main_outs])
    return (value, pullback, tree.unflatten(aux_structure, results[main_outs:])) if has_aux else (value, pullback)


def _drawn(value):
    """A tree with its leaves as stars."""
    return tree.drawn(tree.structure(value))


def jvp(f, primals, tangents):
    """(f(*primals), the tangents of the result) for tangents of the structure of the primals."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(at_user_line(f"primals and tangents are tuples with one entry for each argument, got {type(primals).__name__} and "
                                     f"{type(tangents).__name__}: write jvp(f, (x,), (t,))"))
    if tree.structure(tuple(primals)) != tree.structure(tuple(tangents)):
        raise Error(at_user_line(f"the primals have the structure {_drawn(tuple(primals))}, the tangents {_drawn(tuple(tangents))}"))
    traced, arrays = _trace(f, tuple(primals))
    moving = [as_array(t, x.dtype_name) if _has_derivative(x.dtype_name) else None
              for x, t in zip(arrays, tree.leaves(tuple(tangents)))]
    active = [t is not None for t in moving]
    for x, t in zip(arrays, moving):
        if t is not None and t.shape != x.shape:
            raise Error(at_user_line(f"a tangent of {_graph.type_text(x.dtype_name, x.shape)} has the shape {t.shape}"), "shape_mismatch")
    forth = traced.graph.jvp(active + [False] * len(traced.captured))
    results = _apply(forth, arrays + traced.captured + [t for t in moving if t is not None])
    outs = len(traced.out_types)
    traced.show(results[outs:traced.outputs])
    given = iter(results[traced.outputs:])
    moved = [next(given) if _has_derivative(dtype) else None for dtype, _ in traced.out_types]
    return tree.unflatten(traced.out_structure, results[:outs]), tree.unflatten(traced.out_structure, moved)


def hvp(f, primals, tangents):
    """(the gradient of f, the Hessian times the tangents), forward over reverse; f has a float scalar for result."""
    numbers = tuple(range(len(primals)))
    return jvp(lambda *args: grad(f, numbers)(*args), primals, tangents)


def _require_float_results(f, results):
    for y in results:
        if not _has_derivative(y.dtype_name):
            raise Error(at_user_line(f"a Jacobian of '{getattr(f, '__name__', 'f')}', which gives {_graph.type_text(y.dtype_name, y.shape)}: only "
                                     "floats and complex numbers have derivatives"))


def _jacobian(f, argnums, forward):
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(f)
    def wrapper(*args, **kwargs):

        def one(number):
            arg = args[number]
            leaves, structure = tree.flatten(arg)
            arrays = [as_array(x) for x in leaves]

            def of(*values):
                full = list(args)
                full[number] = tree.unflatten(structure, values)
                return f(*full, **kwargs)

            if forward:
                columns = []
                for i, x in enumerate(arrays):
                    def push(unit, i=i):
                        tangents = [unit if j == i else zeros_like(a) for j, a in enumerate(arrays)]
                        value, moved = jvp(of, arrays, tangents)
                        _require_float_results(f, tree.leaves(value))
                        return moved
                    units = reshape(eye(x.size, dtype=x.dtype), (x.size,) + x.shape)
                    out = vmap(push)(units)
                    columns.append(tree.map(lambda y, x=x: reshape(moveaxis(y, 0, -1), y.shape[1:] + x.shape), out))
                first, its = tree.flatten(columns[0])
                per_out = [[tree.leaves(c)[k] for c in columns] for k in range(len(first))]
                return tree.unflatten(its, [tree.unflatten(structure, row) for row in per_out]) if structure != "*" \
                    else columns[0]
            value, pullback = vjp(of, *arrays)
            outs, its = tree.flatten(value)
            _require_float_results(f, outs)
            rows = []
            for k, y in enumerate(outs):
                units = reshape(eye(y.size, dtype=y.dtype), (y.size,) + y.shape)

                def pull(unit, k=k):
                    cts = [unit if j == k else zeros_like(o) for j, o in enumerate(outs)]
                    return pullback(tree.unflatten(its, cts))
                grads = vmap(pull)(units)
                rows.append(tree.unflatten(structure, [reshape(g, y.shape + x.shape) for g, x in zip(grads, arrays)]))
            return tree.unflatten(its, rows)

        made = tuple(one(n) for n in numbers)
        return made[0] if isinstance(argnums, int) else made

    return wrapper


def jacfwd(f, argnums=0):
    """The Jacobian by forward mode: dims of the result, then dims of the argument."""
    return _jacobian(f, argnums, True)


def jacrev(f, argnums=0):
    """The Jacobian by reverse mode: dims of the result, then dims of the argument."""
    return _jacobian(f, argnums, False)


def hessian(f, argnums=0):
    """The second derivatives, forward over reverse: dims of the result, then those of the argument twice."""
    return jacfwd(jacrev(f, argnums), argnums)


# ---- vmap ----
def _axes_for(axes, args, what):
    """One axis for each leaf, from a prefix tree."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree.leaves(args))
    if isinstance(axes, (tuple, list)):
        if not isinstance(args, (tuple, list)) or len(axes) != len(args):
            raise Error(at_user_line(f"{what} {axes} does not fit {len(args) if isinstance(args, (tuple, list)) else 1} values"))
        return [a for axis, arg in zip(axes, args) for a in _axes_for(axis, arg, what)]
    if isinstance(axes, dict):
        if not isinstance(args, dict) or set(args) != set(axes):
            raise Error(at_user_line(f"{what} {axes} does not fit {_drawn(args)}"))
        return [a for k in sorted(args) for a in _axes_for(axes[k], args[k], what)]
    raise Error(f"{what} must be made of integers and None, got {axes!r}")


def vmap(f, in_axes=0, out_axes=0):
    """f for a batch of examples at once. `in_axes` says along which axis of each argument they stand (None: all share it),
    `out_axes` where they shall stand in the results (None: in none, of a result that is the same for all). In arguments by keyword they
    stand along axis 0; what is no array there, such as a flag, is shared."""

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        by_name = {k: v for k, v in kwargs.items() if any(not is_number(x) and not is_foreign(x) for x in tree.leaves(v))}
        shared = {k: v for k, v in kwargs.items() if k not in by_name}
        arrays, structure = _arrays((args, by_name))
        axes = _axes_for(in_axes, args, "in_axes") + [0] * len(tree.leaves(by_name))
        sizes = {x.shape[_axis(axis, x.ndim)] for x, axis in zip(arrays, axes) if axis is not None}
        if len(sizes) != 1:
            found = ", ".join(_graph.type_text(x.dtype_name, x.shape) + ("" if axis is None else f" along {axis}") for x, axis in zip(arrays, axes))
            raise Error(at_user_line(f"vmap needs one batch size, got {sorted(map(str, sizes)) if sizes else 'no batched argument'}: {found}"))
        size = sizes.pop()
        fronted = [x if axis is None else moveaxis(x, axis, 0) for x, axis in zip(arrays, axes)]
        types = [(x.dtype_name, x.shape if axis is None else x.shape[1:]) for x, axis in zip(fronted, axes)]
        traced = Traced(lambda args, by_name: f(*args, **by_name, **shared), structure, types, name=getattr(f, "__name__", "f"),
                        batched=[axis is not None for axis in axes], weak=weak_leaves((args, by_name)))
        batched = [axis is not None for axis in axes] + [False] * len(traced.captured)
        results = _apply(traced.graph.batch(batched, size), fronted + traced.captured)
        weakened(results, traced.out_weak)
        outs = len(traced.out_types)
        if traced.prints:
            if not isinstance(size, int):
                raise Error(at_user_line(f"debug.print under vmap prints once for each example, and the batch has the symbolic extent {size}"))
            traced.show(results[outs:], Loop(size))
        results = results[:outs]
        out = tree.unflatten(traced.out_structure, results)
        where = _axes_for(out_axes, out, "out_axes")
        for path, axis, varies in zip(tree.paths(traced.out_structure), where, traced.out_batched):
            if axis is None and varies:
                raise Error(at_user_line(f"out_axes is None for the result{path} of '{getattr(f, '__name__', 'f')}', which is not the same for all "
                                         "examples; say along which axis they shall stand, or reduce over them outside of vmap"))
        moved = [x if axis == 0 else (x[0] if axis is None else moveaxis(x, 0, axis)) for x, axis in zip(results, where)]
        return tree.unflatten(traced.out_structure, moved)

    return wrapper


def _axis(axis, rank):
    if not -rank <= axis < rank:
        raise Error(at_user_line(f"axis {axis} is out of range for rank {rank}"), "axis_out_of_range")
    return axis % rank


# ---- functions with derivatives of their own ----
def checkpoint(f):
    """f, whose insides reverse mode computes again instead of keeping them (rematerialization)."""

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        traced, arrays = _trace(f, args, kwargs)
        out = emit("remat", arrays + traced.captured, f"{{body = {traced.graph.body_text()}}}")
        outs = len(traced.out_types)
        traced.show(out[outs:])
        return tree.unflatten(traced.out_structure, out[:outs])

    return wrapper


class _Custom:
    def __init__(self, f, nondiff_argnums=()):
        functools.update_wrapper(self, f)
        self._f = f
        self._nondiff = tuple(nondiff_argnums)
        self._in_rule = False  # a rule that calls the function itself means what it computes, not its rules again

    def _split(self, args):
        fixed = {i: args[i] for i in self._nondiff}
        return fixed, tuple(a for i, a in enumerate(args) if i not in fixed)

    def _trace_rule(self, rule, types):
        self._in_rule = True
        try:
            return Traced(rule, tree.structure(tuple([0] * len(types))), types, printless=type(self).__name__)
        finally:
            self._in_rule = False

    @staticmethod
    def _merge(fixed, given):
        given, args = list(given), []
        for i in range(len(fixed) + len(given)):
            args.append(fixed[i] if i in fixed else given.pop(0))
        return args


class custom_vjp(_Custom):
    """A function with its own reverse mode: `f.defvjp(fwd, bwd)`, where fwd(*args) gives (result, kept) and bwd(kept,
    cotangent) a tuple with a cotangent for each argument (None for zero)."""

    def defvjp(self, fwd, bwd):
        self._fwd, self._bwd = fwd, bwd
        return self

    def __call__(self, *args):
        if self._in_rule:
            return self._f(*args)
        if not hasattr(self, "_fwd"):
            raise Error(f"custom_vjp of {self._f.__name__} has no rule yet; call defvjp(fwd, bwd)")
        fixed, given = self._split(args)
        traced, arrays = _trace(lambda *a: self._f(*self._merge(fixed, a)), given, printless=type(self).__name__)
        inputs = [(x.dtype_name, x.shape) for x in arrays + traced.captured]
        outs = traced.out_types
        floats = [t for t in outs if _has_derivative(t[0])]

        def backward(*values):
            values = list(values)
            primals, cts = values[: len(arrays)], values[len(inputs) + len(outs):]
            _, kept = self._fwd(*self._merge(fixed, tree.unflatten(tree.structure(tuple(given)), primals)))
            moving = iter(cts)
            all_cts = [next(moving) if _has_derivative(d) else zeros(s, _dtypes.numpy_of(d)) for d, s in outs]
            found = self._bwd(*fixed.values(), kept, tree.unflatten(traced.out_structure, all_cts))
            if not isinstance(found, (tuple, list)):
                raise TypeError(at_user_line(f"the backward rule of {self._f.__name__} gives a tuple with a cotangent for each argument, got "
                                             f"{type(found).__name__}; of one argument it is (ct,)"))
            if len(found) != len(given):
                raise Error(f"the backward rule of {self._f.__name__} gave {len(found)} cotangents for {len(given)} arguments")
            result, at = [], 0
            for arg, ct in zip(given, found):
                n = len(tree.leaves(arg))
                parts = [None] * n if ct is None else tree.leaves(ct)
                if len(parts) != n:  # a None in it is zero
                    parts = tree.leaves(ct, is_leaf=lambda v: v is None)
                if len(parts) != n:
                    raise Error(at_user_line(f"the backward rule of {self._f.__name__} gave the cotangent {_drawn(ct)} for the argument {_drawn(arg)}"))
                for x, part in zip(arrays[at: at + n], parts):
                    if _has_derivative(x.dtype_name):
                        part = zeros(x.shape, x.dtype) if part is None else as_array(part, x.dtype_name)
                        if part.shape != x.shape:
                            raise Error(at_user_line(f"the backward rule of {self._f.__name__} gave a cotangent of the shape {part.shape} for "
                                                     f"{_graph.type_text(x.dtype_name, x.shape)}"), "shape_mismatch")
                        result.append(part)
                at += n
            result += [zeros(s, _dtypes.numpy_of(d)) for d, s in inputs[len(arrays):] if _has_derivative(d)]
            return tuple(result)

        types = inputs + outs + floats
        back = self._trace_rule(backward, types)
        if back.captured:
            raise Error("a backward rule may use its arguments only; pass what else it needs through `kept`")
        out = emit("custom_fn", arrays + traced.captured,
                   f"{{forward = {traced.graph.body_text()}, backward = {back.graph.body_text()}}}")
        return tree.unflatten(traced.out_structure, out)


class custom_jvp(_Custom):
    """A function with its own forward mode: `f.defjvp(rule)`, where rule(primals, tangents) gives (result, tangent)."""

    def defjvp(self, rule):
        self._rule = rule
        return rule

    def __call__(self, *args):
        if self._in_rule:
            return self._f(*args)
        if not hasattr(self, "_rule"):
            raise Error(f"custom_jvp of {self._f.__name__} has no rule yet; call defjvp(rule)")
        fixed, given = self._split(args)
        traced, arrays = _trace(lambda *a: self._f(*self._merge(fixed, a)), given, printless=type(self).__name__)
        everything = arrays + traced.captured
        inputs = [(x.dtype_name, x.shape) for x in everything]
        floats = [t for t in inputs if _has_derivative(t[0])]

        def tangent(*values):
            values = list(values)
            moving = iter(values[len(inputs):])
            tangents = [next(moving) if _has_derivative(d) else zeros(s, _dtypes.numpy_of(d)) for d, s in inputs][: len(arrays)]
            structure = tree.structure(tuple(given))
            _, t = self._rule(*fixed.values(), tree.unflatten(structure, values[: len(arrays)]),
                              tree.unflatten(structure, tangents))
            return tuple(as_array(x, d) for x, (d, _) in zip(tree.leaves(t), traced.out_types) if _has_derivative(d))

        types = inputs + floats
        forth = self._trace_rule(tangent, types)
        if forth.captured:
            raise Error("a tangent rule may use its arguments only")
        out = emit("custom_fn", everything,
                   f"{{forward = {traced.graph.body_text()}, tangent = {forth.graph.body_text()}}}")
        return tree.unflatten(traced.out_structure, out)
