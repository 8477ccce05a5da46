"""Sparse matrices: values by SciPy's sparse arrays and solvers, derivatives by JAX on the dense matrix.

JAX sees the matrix as zeros to which the values are added at their places, so what it derives by the values is right for
entries of one place, too. Where both compute a value they must agree to 1e-12; SciPy's is kept. Conjugate gradients that end
early are SciPy's `cg`, steps and all; its incomplete factors are a textbook's ILU(0) (Saad 2003, algorithm 10.4), row by row,
on the whole matrix.
"""
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from .case import *
from .derivative import by_jax, complex_normal, cotangents_of

FORMATS = ("csr", "csc", "coo")


def entries(name, rows, columns, density, dtype, positive=False):
    """A random matrix as (rows, columns, values), some places twice, in no order."""
    draw = rng(name)
    count = max(int(density * rows * columns), 1)
    r, c = draw.randint(0, rows, count), draw.randint(0, columns, count)
    values = draw.uniform(0.5, 2, count) if positive else draw.standard_normal(count)
    if not is_real(dtype):
        values = values + 1j * draw.standard_normal(count)
    return r, c, values.astype(dtype)


def grid(side, dtype):
    """The five-point Laplacian on a square grid: symmetric, positive definite."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    whole = sp.coo_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))
    return whole.coords[0], whole.coords[1], whole.data.astype(dtype)


def stored(entries, shape, form, index):
    """(first, second, values) in that format, and each entry's row and column."""
    r, c, v = entries
    if form == "coo":
        return r.astype(index), c.astype(index), v, r, c
    major, minor, lines = (r, c, shape[0]) if form == "csr" else (c, r, shape[1])
    order = np.argsort(major, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=lines))]).astype(index)
    return pointers, minor[order].astype(index), v[order], r[order], c[order]


def dense(values, r, c, shape):
    return jnp.zeros(values.shape[:-1] + shape, values.dtype).at[..., r, c].add(values)


def numbers(name, dims, dtype):
    return normal(name, dims, dtype) if is_real(dtype) else complex_normal(name, dims, dtype)


def wide(x):
    return x.astype(f64 if is_real(x.dtype) else c128) if x.dtype.kind in "fc" else x


def scipys(values, r, c, shape):
    return sp.csr_array(sp.coo_array((wide(np.asarray(values)), (r, c)), shape=shape))


def stacked(function, values, x):
    """SciPy's function of one matrix, over leading dims."""
    lead = x.shape[:-2]
    values = np.broadcast_to(values, lead + values.shape[-1:])
    return np.stack([function(v, m) for v, m in zip(values.reshape(-1, values.shape[-1]), x.reshape((-1,) + x.shape[-2:]))]).reshape(lead + (-1, x.shape[-1]))


def add(f, case, op, inputs, by_scipy, function, source, **attributes):
    outputs, cotangents, gradients = by_jax(case, function, inputs)
    wanted = np.asarray(by_scipy(*map(wide, inputs)))
    again = np.asarray(function(*(jnp.asarray(wide(x)) for x in inputs)))
    assert np.abs(again - wanted).max(initial=0) <= 1e-12 * (1 + np.abs(wanted).max(initial=0)), case
    f.add(case, op, inputs, [wanted.astype(outputs[0].dtype)], source, cotangents, gradients, **attributes)


def products():
    f = Family("sparse_products")
    for form in FORMATS:
        for dtype, index in ((f64, i32), (f64, i64), (f32, i32), (c128, i32), (c64, i64)):
            for name, rows, columns, lead, shared in (("tall", 23, 7, (), True), ("wide", 5, 31, (), True), ("batch", 9, 12, (3,), False),
                                                      ("shared", 12, 9, (2, 2), True)):
                for transposed in (False, True):
                    case = f"sparse_matmul_{form}_{name}_{'transposed_' * transposed}{NAMES[dtype][0]}_{NAMES[index][0]}"
                    shape = rows, columns
                    first, second, v, r, c = stored(entries(case, rows, columns, 0.4, dtype), shape, form, index)
                    if not shared:
                        v = numbers(case + "/values", lead + v.shape, dtype)
                    x = numbers(case + "/x", lead + (rows if transposed else columns, 4), dtype)
                    turned = lambda a: np.swapaxes(a, -1, -2) if transposed else a
                    one = lambda v, x: (scipys(v, r, c, shape).T if transposed else scipys(v, r, c, shape)) @ x
                    add(f, case, "sparse_matmul", [first, second, v, x], lambda _, __, v, x: stacked(one, v, x),
                        lambda _, __, v, x: turned(dense(v, r, c, shape)) @ x, "SciPy csr_array @; JAX", format=form, rows=rows, columns=columns,
                        transposed=transposed or None)
            case = f"{form}_{NAMES[dtype][0]}_{NAMES[index][0]}"
            shape = rows, columns = 11, 8
            first, second, v, r, c = stored(entries(case, rows, columns, 0.5, dtype), shape, form, index)
            u, w = numbers(case + "/u", (2, rows, 3), dtype), numbers(case + "/v", (2, columns, 3), dtype)
            add(f, f"sparse_sampled_matmul_{case}", "sparse_sampled_matmul", [first, second, u, w], lambda _, __, u, w: np.einsum("bek,bek->be", u[:, r], w[:, c]),
                lambda _, __, u, w: (u @ jnp.swapaxes(w, -1, -2))[:, r, c], "NumPy; JAX", format=form, rows=rows, columns=columns)
            add(f, f"sparse_to_dense_{case}", "sparse_to_dense", [first, second, v], lambda _, __, v: scipys(v, r, c, shape).toarray(),
                lambda _, __, v: dense(v, r, c, shape), "SciPy toarray; JAX", format=form, rows=rows, columns=columns)
            m = numbers(case + "/dense", shape, dtype)
            add(f, f"sparse_sample_{case}", "sparse_sample", [first, second, m], lambda _, __, m: m[r, c], lambda _, __, m: m[r, c], "NumPy; JAX",
                format=form, rows=rows, columns=columns)
    return f


def padded():
    """Entries out of range are none, as in JAX's BCOO."""
    from jax.experimental import sparse as jsparse

    f = Family("sparse_padded")
    for dtype in (f64, f32):
        case = f"sparse_matmul_padded_{NAMES[dtype][0]}"
        r, c, v = entries(case, 6, 5, 0.6, dtype)
        r, c = np.append(r, [6, 6, 6]), np.append(c, [5, 5, 5])
        v, x = np.append(v, v[:3]), numbers(case + "/x", (5, 2), dtype)
        product = lambda _, __, v, x: jsparse.BCOO((v, jnp.stack([r, c], -1)), shape=(6, 5)) @ x
        f.add_derivative(case, "sparse_matmul", [r.astype(i32), c.astype(i32), v, x], by_jax, product, "JAX BCOO", format="coo", rows=6, columns=5)
    return f


def solving():
    f = Family("sparse_solving")
    for form in FORMATS:
        for dtype, index in ((f64, i32), (f64, i64), (f32, i32), (c128, i32), (c64, i64)):
            for name, n, lead, shift in (("random", 17, (), 8.0), ("batch", 9, (2,), 6.0), ("negative", 12, (), -9.0)):
                for transposed in (False, True):
                    case = f"sparse_solve_{form}_{name}_{'transposed_' * transposed}{NAMES[dtype][0]}_{NAMES[index][0]}"
                    shape = n, n
                    first, second, v, r, c = stored(entries(case, n, n, 0.3, dtype), shape, form, index)
                    if lead:
                        v = numbers(case + "/values", lead + v.shape, dtype)
                    b = numbers(case + "/b", lead + (n, 3), dtype)
                    unit = np.eye(n) * shift
                    turned = lambda a: jnp.swapaxes(a, -1, -2) if transposed else a
                    one = lambda v, b: spla.splu(sp.csc_array(scipys(v, r, c, shape) + sp.eye_array(n) * shift)).solve(b, trans="T" if transposed else "N")
                    add(f, case, "sparse_solve", [first, second, v, b], lambda _, __, v, b: stacked(one, v, b),
                        lambda _, __, v, b: jnp.linalg.solve(turned(dense(v, r, c, shape) + unit), b), "SciPy splu; JAX", format=form, rows=n, columns=n,
                        transposed=transposed or None, shift=shift)
            for lower in (True, False):
                for unit_diagonal, transposed in ((False, False), (True, True), (False, True)):
                    case = f"sparse_triangular_solve_{form}_{'lower' if lower else 'upper'}_{'unit_' * unit_diagonal}{'transposed_' * transposed}{NAMES[dtype][0]}_{NAMES[index][0]}"
                    n, shape = 13, (13, 13)
                    some = entries(case, n, n, 0.25, dtype)
                    some = tuple(np.concatenate([part, more]) for part, more in zip(some, (np.arange(n), np.arange(n), np.full(n, 3, dtype))))
                    first, second, v, r, c = stored(some, shape, form, index)
                    b = numbers(case + "/b", (n, 2), dtype)
                    kept = jnp.tril if lower else jnp.triu

                    def by_dense(_, __, v, b):
                        a = kept(dense(v, r, c, shape))
                        a = a - jnp.diag(jnp.diag(a)) + jnp.eye(n) if unit_diagonal else a
                        return jnp.linalg.solve(a.T if transposed else a, b)

                    def by_scipy(_, __, v, b):
                        a = (sp.tril if lower else sp.triu)(scipys(v, r, c, shape))
                        a = sp.csr_array(a.T if transposed else a)
                        return spla.spsolve_triangular(a, b, lower=lower != transposed, unit_diagonal=unit_diagonal)

                    add(f, case, "sparse_triangular_solve", [first, second, v, b], by_scipy, by_dense, "SciPy spsolve_triangular; JAX", format=form,
                        rows=n, columns=n, transposed=transposed or None, lower=None if lower else False, unit_diagonal=unit_diagonal or None)
    case, n = "sparse_solve_grid", 49
    first, second, v, r, c = stored(grid(7, f64), (n, n), "csr", i32)
    b = numbers(case + "/b", (n, 1), f64)
    add(f, case, "sparse_solve", [first, second, v, b], lambda _, __, v, b: spla.spsolve(sp.csc_array(scipys(v, r, c, (n, n))), b)[:, None],
        lambda _, __, v, b: jnp.linalg.solve(dense(v, r, c, (n, n)), b), "SciPy spsolve; JAX", format="csr", rows=n, columns=n)
    return f


def incomplete(a):
    """ILU(0) of the whole matrix, as a preconditioner."""
    pattern, m, n = a != 0, a.copy(), len(a)
    for i in range(1, n):
        for k in range(i):
            if pattern[i, k]:
                m[i, k] /= m[k, k]
                for j in range(k + 1, n):
                    if pattern[i, j]:
                        m[i, j] -= m[i, k] * m[k, j]
    lower, upper = np.tril(m, -1) + np.eye(n), np.triu(m)
    return spla.LinearOperator(a.shape, lambda r: np.linalg.solve(upper, np.linalg.solve(lower, r)))


def gradients():
    f = Family("sparse_cg")
    for form, index in (("csr", i32), ("csc", i64), ("coo", i32)):
        for kind in ("none", "jacobi", "ilu0"):
            side, shape = 6, (36, 36)
            case = f"sparse_cg_{form}_{kind}"
            r, c, v = grid(side, f64)
            # Scaled, so that the diagonal says something: D A D is symmetric and positive definite, too. Not where no
            # preconditioner undoes it: after so many steps the last bits decide what the early end looks like.
            scale = np.ones(36) if kind == "none" else uniform(case + "/scale", (36,), 0.5, 2, f64)
            first, second, v, r, c = stored((r, c, v * scale[r] * scale[c]), shape, form, index)
            b = normal(case + "/b", (36, 2), f64)
            for shift in (0.0, 0.5):
                a = scipys(v, r, c, shape).toarray() + shift * np.eye(36)
                conditioner = {"none": None, "jacobi": spla.LinearOperator(shape, lambda z: z / np.diag(a)), "ilu0": incomplete(a)}[kind]
                solutions, counts = [], []
                for column in b.T:
                    steps = []
                    x, info = spla.cg(a, column, rtol=1e-6, atol=0, M=conditioner, callback=steps.append)
                    assert info == 0
                    solutions.append(x), counts.append(len(steps))
                f.add(f"{case}_shift_{'half' if shift else 'none'}", "sparse_cg", [first, second, v, b], [np.stack(solutions, -1), np.array(counts, np.int32)],
                      "SciPy cg", format=form, rows=36, columns=36, tolerance=1e-6, preconditioner=kind, shift=shift or None)

            # To the end, with derivatives: of the entries on and below the diagonal, which stand for both triangles.
            def by_dense(_, __, v, b):
                low = jnp.tril(dense(v, r, c, shape))
                return jnp.linalg.solve(low + low.T - jnp.diag(jnp.diag(low)), b)

            inputs = [first, second, v, b]
            case += "_derivative"
            outputs, cotangents, found = by_jax(case, by_dense, inputs)
            wanted = spla.spsolve(sp.csc_array(scipys(v, r, c, shape)), b)
            assert np.abs(outputs[0] - wanted).max() < 1e-12
            nodes = Nodes(inputs)
            results = nodes("sparse_cg", range(4), type_text(wanted), type_text(np.zeros(2, np.int32)), format=form, rows=36, columns=36, tolerance=1e-15, preconditioner=kind)
            f.add_graph(case, nodes, results[:1], inputs, [wanted], "SciPy spsolve; JAX", cotangents, found)
    case = "sparse_cg_stopped"
    first, second, v, r, c = stored(grid(6, f64), (36, 36), "csr", i32)
    b = normal(case, (36, 1), f64)
    x, info = spla.cg(scipys(v, r, c, (36, 36)), b[:, 0], rtol=1e-12, atol=0, maxiter=5)
    assert info == 5
    f.add(case, "sparse_cg", [first, second, v, b], [x[:, None], np.array([-5], np.int32)], "SciPy cg", format="csr", rows=36, columns=36, tolerance=1e-12,
          max_iterations=5)
    return f


def cases():
    return [products(), padded(), solving(), gradients()]
