"""Solvers of the caller's whose derivatives are those of what they solve, not of the steps that they take."""

import numpy as np

from .. import tree
from .._array import as_array
from .._jit import Traced, _apply
from .._native import Error, at_user_line
from .._transforms import custom_jvp, custom_vjp, jvp, vjp

_DEPTH = 2  # derivatives of derivatives go by the rule, too; those beyond through the steps


def _types(arrays):
    return [(x.dtype_name, x.shape) for x in arrays]


def _flat(n):
    return tree.structure(tuple([0] * n))


def _arrays(value):
    leaves, structure = tree.flatten(value)
    return [as_array(x) for x in leaves], structure


def _graph_of(name, f, structure, arrays):
    """A function of a tree as a closed graph of its leaves and of what it captured, which must give a tree like it."""
    traced = Traced(lambda *xs: f(tree.unflatten(structure, xs)), _flat(len(arrays)), _types(arrays), printless=name)
    if traced.out_structure != structure or traced.out_types != _types(arrays):
        raise Error(at_user_line(f"the function of {name} gives {traced.out_types} as {tree.drawn(traced.out_structure)} for {_types(arrays)} as "
                                 f"{tree.drawn(structure)}; both are alike"), "shape_mismatch")
    return traced.graph, traced.captured


class _Solve:
    """A solver as a closed graph of (captured by the function, what it solves for, captured by the solver)."""

    def __init__(self, name, solve, of, captured, structure, arrays, has_aux):
        n = len(captured)

        def run(*values):
            captured, given = list(values[:n]), values[n:]
            f = lambda x: tree.unflatten(structure, of(captured, _arrays(x)[0]))
            made = solve(f, tree.unflatten(structure, given))
            self.aux_structure = None
            if has_aux:
                made, aux = made
                self.aux_structure = tree.structure(aux)
            x, its = _arrays(made)
            if its != structure or _types(x) != _types(arrays):
                raise Error(at_user_line(f"the solver of {name} gives {_types(x)} as {tree.drawn(its)} for {_types(arrays)} as {tree.drawn(structure)}"),
                            "shape_mismatch")
            return tuple(x) + tuple(_arrays(aux)[0] if has_aux else ())

        traced = Traced(run, _flat(n + len(arrays)), _types(captured + arrays), printless=name)
        self.graph, self.extra = traced.graph, traced.captured

    def __call__(self, values):
        return tuple(_apply(self.graph, list(values)))


def _unpacked(made, structure, count, solver, has_aux):
    x = tree.unflatten(structure, list(made[:count]))
    return (x, tree.unflatten(solver.aux_structure, list(made[count:]))) if has_aux else x


def custom_linear_solve(matvec, b, solve, transpose_solve=None, symmetric=False, has_aux=False):
    """x with matvec(x) = b, as solve(matvec, b) finds it. Derivatives are those of the equation: forward ones need nothing more, reverse
    ones transpose_solve(vecmat, b) or that the function is `symmetric`. With has_aux the solvers give (x, anything else)."""
    name = "lax.custom_linear_solve"
    arrays, structure = _arrays(b)
    graph, captured = _graph_of(name, matvec, structure, arrays)
    forth = lambda captured, x: list(_apply(graph, list(x) + list(captured)))
    solver = _Solve(name, solve, forth, captured, structure, arrays, has_aux)
    n, m = len(captured), len(arrays)
    given = captured + arrays + solver.extra

    def back(captured, x):
        return list(vjp(lambda *x: tuple(forth(captured, x)), *[0 * v for v in x])[1](tuple(x)))

    if symmetric:
        back = forth
    if transpose_solve is None and symmetric:
        transpose_solve = solve

    if transpose_solve is None:
        def by_forward(depth):
            f = custom_jvp(lambda *values: solver(values))

            def rule(primals, tangents):
                made = by_forward(depth - 1)(*primals) if depth else solver(primals)
                moved = jvp(lambda *c: tuple(forth(c, made[:m])), primals[:n], _zeros_for_none(primals[:n], tangents[:n]))[1] if n else [None] * m
                right = [t if d is None else t - d for t, d in zip(tangents[n:n + m], moved)]
                found = (by_forward(depth - 1)(*primals[:n], *right, *primals[n + m:]) if depth else solver([*primals[:n], *right, *primals[n + m:]]))
                return made, tuple(found[:m]) + tuple(0 * x for x in made[m:])

            f.defjvp(rule)
            return f

        return _unpacked(by_forward(_DEPTH)(*given), structure, m, solver, has_aux)

    transposed = _Solve(name, transpose_solve, back, captured, structure, arrays, has_aux)

    def by_reverse(mine, other, its_matvec, depth):
        """The rule of one of both solvers; in that of its derivative stands the other one."""
        f = custom_vjp(lambda *values: mine(values[:n + m] + values[n + m:n + m + len(mine.extra)]))

        def fwd(*values):
            made = by_reverse(mine, other, its_matvec, depth - 1)(*values) if depth else mine(values[:n + m + len(mine.extra)])
            return made, (values, made)

        def bwd(kept, cts):
            values, made = kept
            across = list(values[:n]) + list(cts[:m]) + list(values[n + m + len(mine.extra):]) + list(values[n + m:n + m + len(mine.extra)])
            turned = (by_reverse(other, mine, back if mine is solver else forth, depth - 1)(*across) if depth else other(across[:n + m + len(other.extra)]))[:m]
            of_captured = [None] * n
            if n:
                pulled = vjp(lambda *c: tuple(its_matvec(c, made[:m])), *values[:n])[1](tuple(-x for x in turned))
                of_captured = list(pulled)
            return tuple(of_captured) + tuple(turned) + (None,) * (len(values) - n - m)

        f.defvjp(fwd, bwd)
        return f

    made = by_reverse(solver, transposed, forth, _DEPTH)(*given, *transposed.extra)
    return _unpacked(made, structure, m, solver, has_aux)


def _zeros_for_none(primals, tangents):
    return tuple(np.zeros(x.shape, x.dtype) if t is None else t for x, t in zip(primals, tangents))


def custom_root(f, initial_guess, solve, tangent_solve, has_aux=False):
    """x with f(x) = 0, as solve(f, initial_guess) finds it. Its derivatives are those of the equation, for which tangent_solve(g, y) gives
    x with g(x) = y, where g is linear; reverse ones need it to have a derivative by y. With has_aux solve gives (x, anything else)."""
    name = "lax.custom_root"
    arrays, structure = _arrays(initial_guess)
    graph, captured = _graph_of(name, f, structure, arrays)
    forth = lambda captured, x: list(_apply(graph, list(x) + list(captured)))
    solver = _Solve(name, solve, forth, captured, structure, arrays, has_aux)
    n, m = len(captured), len(arrays)

    def root(depth):
        made_root = custom_jvp(lambda *values: solver(values))

        def rule(primals, tangents):
            made = root(depth - 1)(*primals) if depth else solver(primals)
            x = made[:m]
            if not n:
                return made, tuple(0 * v for v in made)
            pushed = jvp(lambda *c: tuple(forth(c, x)), primals[:n], _zeros_for_none(primals[:n], tangents[:n]))[1]

            def linear(v):
                v = _arrays(v)[0]
                return tree.unflatten(structure, list(jvp(lambda *x: tuple(forth(primals[:n], x)), tuple(x), tuple(v))[1]))

            found = _arrays(tangent_solve(linear, tree.unflatten(structure, list(pushed))))[0]
            return made, tuple(-v for v in found) + tuple(0 * v for v in made[m:])

        made_root.defjvp(rule)
        return made_root

    return _unpacked(root(_DEPTH)(*captured, *arrays, *solver.extra), structure, m, solver, has_aux)
