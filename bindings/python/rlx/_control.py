"""Control flow that is traced: cond, switch, while_loop, fori_loop, scan, map."""

import functools

import numpy as np

from . import _dtypes, _graph, _prints, tree
from ._array import as_array, convert, current_trace, emit, is_weak, weakened
from ._native import Error, at_user_line
from ._jit import Traced, weak_leaves


def _types(arrays):
    return [(x.dtype_name, x.shape) for x in arrays]


def _traced_alike(functions, structures, types, printless=(None, None), zeros=({}, {}), weak=()):
    """Two functions as graphs that capture the same outer values in the same order. `zeros`: `before` and `after` of Traced."""
    captured = []
    while True:
        graphs = [Traced(f, s, t, captured=captured, printless=p, weak=weak, **z)
                  for f, s, t, p, z in zip(functions, structures, types, printless, zeros)]
        seen = {id(x) for x in captured}
        more = []
        for g in graphs:
            for x in g.captured:
                if id(x) not in seen:
                    seen.add(id(x))
                    more.append(x)
        if not more:
            return graphs, captured
        captured = captured + more


def tree_of(operands):
    leaves, structure = tree.flatten(operands)
    return [as_array(x) for x in leaves], structure


def _as_the_body_gives(leaves, arrays, types):
    """The state in the dtypes that the body gives back for it, where they hold all of it: a Python number takes the body's as it does
    beside an array, an array of a lesser dtype becomes it. None else: a float that began as an integer's would lose its fraction."""
    if [s for _, s in types] != [x.shape for x in arrays]:
        return None
    for leaf, x, (dtype, _) in zip(leaves, arrays, types):
        if (_dtypes.beside_weak(dtype, x.dtype_name) if is_weak(leaf) else _dtypes.promote(x.dtype_name, dtype)) != dtype:
            return None
    return [convert(x, dtype) for x, (dtype, _) in zip(arrays, types)]


def _settled(leaves, arrays, weak, body):
    """The state as the body gives it, which parts of it are Python's numbers before and behind it, and whether both are what they were
    when it was traced."""
    n = len(arrays)
    widened = None
    if body.out_types[:n] != _types(arrays):
        widened = _as_the_body_gives(leaves, arrays, body.out_types[:n])
    still = [before and behind for before, behind in zip(weak, body.out_weak)]
    if len(still) < n or not widened and still == weak:
        return arrays, weak, True
    return widened or arrays, still, False


_NO_OPERAND = object()


def _with_operand(name, operands, operand):
    """The operands of cond and switch, of which JAX also takes a single one by its name."""
    if operand is _NO_OPERAND:
        return operands
    if operands:
        raise TypeError(at_user_line(f"{name} takes its operands by position, or one as `operand`, not both"))
    return (operand,)


def cond(pred, true_fun, false_fun, *operands, operand=_NO_OPERAND):
    """true_fun(*operands) where the scalar `pred` holds, else false_fun(*operands); the other one does not run. Both give
    results of one structure and type. `operand` is another form for a single operand."""
    return _cond(pred, true_fun, false_fun, _with_operand("cond", operands, operand))


def _cond(pred, true_fun, false_fun, operands):
    arrays, structure = tree_of(operands)
    pred = as_array(pred)
    if pred.shape != ():
        raise Error(at_user_line(f"the condition must be a scalar, got the shape {pred.shape}; see where for one for each element"),
                    "shape_mismatch")
    traced = functools.partial(_traced_alike, [true_fun, false_fun], [structure] * 2, [_types(arrays)] * 2, weak=weak_leaves(operands))
    (a, b), captured = traced()
    if a.out_structure != b.out_structure or a.out_types != b.out_types:
        raise Error(at_user_line(f"the branches differ in their results: {_shown(a)} and {_shown(b)}"), "shape_mismatch")
    if a.prints or b.prints:
        (a, b), captured = traced(zeros=({"after": b.print_types}, {"before": a.print_types}))
    pred = convert(pred, "bool")
    out = []
    if a.outputs:
        out = emit("if_else", [pred] + arrays + captured,
                   f"{{then_branch = {a.graph.body_text()}, else_branch = {b.graph.body_text()}}}")
    results, prints = len(a.out_types), len(a.print_types)
    weakened(out[:results], [x and y for x, y in zip(a.out_weak, b.out_weak)])
    a.show(out[results:], when=(pred, True))
    b.show(out[results + prints:], when=(pred, False))
    return tree.unflatten(a.out_structure, out[:results])


def switch(index, branches, *operands, operand=_NO_OPERAND):
    """branches[index](*operands), where an index out of range means the nearest one; the others do not run. All give results of
    one structure and type. `operand` is another form for a single operand. As jax.lax.switch."""
    operands = _with_operand("switch", operands, operand)
    branches = list(branches)
    if not branches or not all(callable(f) for f in branches):
        raise TypeError(at_user_line("switch takes a list of at least one function: switch(index, [f, g], x)"))
    index = as_array(index)
    if index.shape != ():
        raise Error(at_user_line(f"the index must be a scalar, got the shape {index.shape}"), "shape_mismatch")
    if not _dtypes.is_integer(index.dtype_name):
        raise TypeError(at_user_line(f"the index must be an integer, got {index.dtype_name}"))
    if len(branches) == 1:
        return branches[0](*operands)
    return _switch(index, branches, 0, operands)


def _switch(index, branches, first, operands):
    """The half of the branches that has the one in question, and so on: as many conditions run as the logarithm of their number."""
    if len(branches) == 1:
        return branches[0](*operands)
    half = (len(branches) + 1) // 2
    return _cond(index < first + half, lambda *xs: _switch(index, branches[:half], first, xs),
                 lambda *xs: _switch(index, branches[half:], first + half, xs), operands)


def _shown(traced):
    return ", ".join(_graph.type_text(*t) for t in traced.out_types) + f" as {tree.drawn(traced.out_structure)}"


def while_loop(cond_fun, body_fun, init_val, max_trips=None):
    """The state after body_fun was applied while cond_fun holds. Reverse mode needs `max_trips`, a bound on the trips."""
    arrays, structure = tree_of(init_val)
    body_of = lambda *leaves: body_fun(tree.unflatten(structure, leaves))
    cond_of = lambda *leaves: cond_fun(tree.unflatten(structure, leaves))
    flat = tree.structure(tuple([0] * len(arrays)))
    # What the body makes of the initial state decides the types: a Python number may have been weak.
    weak, is_settled = weak_leaves(init_val), False
    while not is_settled:
        first = Traced(body_of, flat, _types(arrays), weak=weak)
        if first.prints:
            return _printing_while_loop(cond_fun, body_fun, tree.unflatten(structure, arrays), max_trips)
        arrays, weak, is_settled = _settled(tree.leaves(init_val), arrays, weak, first)
    (body, test), captured = _traced_alike([body_of, cond_of], [flat] * 2, [_types(arrays)] * 2, (None, "the condition of while_loop"), weak=weak)
    if body.out_structure != structure or body.out_types != _types(arrays):
        raise Error(at_user_line(f"the body gives {_shown(body)} for a state of "
                                 f"{', '.join(_graph.type_text(*t) for t in _types(arrays))} as {tree.drawn(structure)}; both are of one "
                                 "form and type: convert the one or the other"))
    if test.out_types != [("bool", ())]:
        raise Error(f"the condition gives {_shown(test)} instead of bool[]")
    bound = f", max_trips = {max_trips}" if max_trips is not None else ""
    out = emit("while_loop", arrays + captured,
               f"{{carries = {len(arrays)}, condition = {test.graph.body_text()}, body = {body.graph.body_text()}{bound}}}")
    weakened(out, weak)
    return tree.unflatten(structure, out)


def _printing_while_loop(cond_fun, body_fun, init, max_trips):
    """The same where the body prints: with one more number in the state, which goes through all prints."""
    def body_of(state):
        trace = current_trace()
        trace.token = state[1]
        made = body_fun(state[0])
        return made, trace.token

    outer = current_trace()
    is_within = outer is not None and outer.token is not None  # another such loop, whose prints stand before and behind
    token = outer.token if is_within else convert(as_array(0), "i32")
    made, token = while_loop(lambda state: cond_fun(state[0]), body_of, (init, token), max_trips)
    if is_within:
        outer.token = token
    else:
        _prints.kept(token)
    return made


_NUMBERED = 2**16  # trips whose numbers a fori_loop keeps in an array; those of more it counts


def fori_loop(lower, upper, body_fun, init_val, *, unroll=None):
    """init_val after body_fun(i, state) for i from lower up to, and not including, upper. `unroll` is taken as JAX has it, and changes
    nothing."""
    if isinstance(lower, (int, np.integer)) and isinstance(upper, (int, np.integer)):
        trips = max(0, int(upper) - int(lower))
        if trips <= _NUMBERED:
            return scan(lambda state, i: (body_fun(i, state), None), init_val, as_array(np.arange(lower, lower + trips).astype(np.int32)))[0]
        return scan(lambda s, _: ((s[0] + 1, body_fun(s[0], s[1])), None), (as_array(int(lower)), init_val), length=trips)[0][1]
    state = while_loop(lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1], body_fun(s[0], s[2])),
                       (as_array(lower), as_array(upper), init_val))
    return state[2]


def scan(f, init, xs=None, length=None, reverse=False, unroll=1, *, checkpoint=None):
    """(carry, ys): f(carry, x) -> (carry, y) over the slices of xs along axis 0, the ys stacked.

    `checkpoint`: which steps' carries reverse mode keeps: None (all), "sqrt", "recursive", or a number k (every k-th). `unroll` is
    taken as JAX has it, and changes nothing.
    """
    carries, structure = tree_of(init)
    slices, xs_structure = tree_of(xs)
    lengths = {x.shape[0] for x in slices if x.ndim}
    if any(x.ndim == 0 for x in slices):
        raise Error("xs must have an axis to scan over; one of them has rank 0")
    if length is not None:
        lengths.add(length)
    if len(lengths) != 1:
        raise Error(f"scan needs one length, got {sorted(str(n) for n in lengths)}")
    length = lengths.pop()
    n = len(carries)
    flat = tree.structure(tuple([0] * (n + len(slices))))

    def step(*leaves):
        return f(tree.unflatten(structure, leaves[:n]), tree.unflatten(xs_structure, leaves[n:]))

    types = lambda: _types(carries) + [(x.dtype_name, x.shape[1:]) for x in slices]
    weak, is_settled = weak_leaves(init), False
    while not is_settled:  # what the body makes of the carry decides its dtypes, as in while_loop
        body = Traced(step, flat, types(), weak=weak)
        if body.out_structure is None or body.out_structure[0] is not tuple or len(body.out_structure[-1]) != 2:
            raise Error("the function of a scan gives a pair: the next carry and what is stacked")
        carries, weak, is_settled = _settled(tree.leaves(init), carries, weak, body)
    carry_structure, y_structure = body.out_structure[-1]
    if carry_structure != structure or body.out_types[:n] != _types(carries):
        raise Error(at_user_line(
            f"the carry was {', '.join(_graph.type_text(*t) for t in _types(carries))} as {tree.drawn(structure)}, and comes back as "
            f"{', '.join(_graph.type_text(*t) for t in body.out_types[:n])} as {tree.drawn(carry_structure)}; both are of one form and type: "
            "convert the one or the other"))
    attrs = (f"carries = {n}, xs = {len(slices)}, length = {length}, reverse = {'true' if reverse else 'false'}, "
             f"body = {body.graph.body_text()}")
    op = "scan"
    if checkpoint is not None:
        op = "checkpointed_scan"
        attrs += f", checkpointing = {checkpoint}" if isinstance(checkpoint, str) else f", checkpointing = every, every = {checkpoint}"
    operands = carries + slices + body.captured
    if not operands:
        raise Error("a scan without carries, xs and captured values computes nothing")
    out = emit(op, operands, "{" + attrs + "}")
    outs = len(body.out_types)
    weakened(out[:outs], weak + body.out_weak[n:])
    if body.prints:
        if not isinstance(length, int):
            raise Error(at_user_line(f"debug.print in a scan prints once for each step, and there are as many as the symbolic {length}"))
        body.show(out[outs:], _prints.Loop(length, bool(reverse)))
    return tree.unflatten(structure, out[:n]), tree.unflatten(y_structure, out[n:outs])
