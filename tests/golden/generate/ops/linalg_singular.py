"""Linear algebra where results are not unique, and near the ends of the exponents: matrices without full rank, with equal or
almost equal eigenvalues, of 1e200 and 1e-200, without elements, with a NaN. Values by NumPy and SciPy; what the factors must
multiply to is the matrix itself, and their products with their adjoints are identities.
"""
import numpy as np
import scipy.linalg

from .case import *
from .linalg import H, complex_normal, orthogonal, random, with_spectrum

REAL_OF = {f64: f64, f32: f32, c128: f64, c64: f32}


class Graph(Nodes):
    """With the products that the cases are made of; values are (number, dtype, dims)."""
    def __init__(self, inputs):
        super().__init__(inputs)
        self.inputs = [(i, x.dtype, x.shape) for i, x in enumerate(inputs)]

    def node(self, op, operands, *types, **attributes):
        texts = [f"{NAMES[np.dtype(t)][0]}[{', '.join(map(str, dims))}]" for t, dims in types]
        numbers = self(op, [x[0] for x in operands], *texts, **attributes)
        return [(r, t, dims) for r, (t, dims) in zip(numbers, types)]

    def adjoint(self, x):
        order = list(range(len(x[2])))
        order[-2:] = order[-1], order[-2]
        y, = self.node("transpose", [x], (x[1], tuple(x[2][i] for i in order)), permutation=order)
        return self.node("conjugate", [y], (y[1], y[2]))[0] if x[1] in (c64, c128) else y

    def product(self, x, y):
        return self.node("matmul", [x, y], (x[1], (*x[2][:-1], y[2][-1])))[0]

    def times(self, x, y):
        return self.node("mul", [x, y], (x[1], x[2]))[0]

    def columns_times(self, x, s):
        """Column j of x times s[j]."""
        s, = self.node("convert", [s], (x[1], s[2]), dtype=x[1]) if s[1] != x[1] else [s]
        s, = self.node("broadcast_in_dim", [s], (x[1], x[2]), dims=list(x[2]), axes=[*range(len(x[2]) - 2), len(x[2]) - 1])
        return self.times(x, s)


def wide(x):
    return x.astype(c128 if x.dtype in (c64, c128) else f64)


def identities(x, n, dtype):
    return np.broadcast_to(np.eye(n, dtype=dtype), (*x.shape[:-2], n, n))


def svd(f, case, x, scale=1.0, full=False):
    """The values, the product and both factors' identities, of x that is `scale` times numbers near 1."""
    m, n, batch = x.shape[-2], x.shape[-1], x.shape[:-2]
    k, real = min(m, n), REAL_OF[x.dtype]
    inputs = [x, np.full((*batch, k), 1 / scale, real)]
    g = Graph(inputs)
    u, s, vt = g.node("svd", g.inputs[:1], (x.dtype, (*batch, m, m if full else k)), (real, (*batch, k)), (x.dtype, (*batch, n if full else k, n)), full=full)
    s = g.times(s, g.inputs[1])
    corners = [g.node("slice", [y], (x.dtype, dims), starts=[0] * len(dims), limits=list(dims), strides=[1] * len(dims))[0] if full else y
               for y, dims in ((u, (*batch, m, k)), (vt, (*batch, k, n)))]
    results = [s, g.product(g.columns_times(corners[0], s), corners[1]), g.product(g.adjoint(u), u), g.product(vt, g.adjoint(vt))]
    near_one = wide(x) / scale
    outputs = [np.linalg.svd(near_one, compute_uv=False), near_one, identities(x, u[2][-1], x.dtype), identities(x, vt[2][-2], x.dtype)]
    f.add_graph(case, g, [r[0] for r in results], inputs, [o.astype(r[1]) for o, r in zip(outputs, results)], "numpy.linalg.svd in f64; the matrix itself; identities")


def eigh(f, case, x, scale=1.0):
    n, batch, real = x.shape[-1], x.shape[:-2], REAL_OF[x.dtype]
    inputs = [x, np.full((*batch, n), 1 / scale, real)]
    g = Graph(inputs)
    w, v = g.node("eigh", g.inputs[:1], (real, (*batch, n)), (x.dtype, x.shape))
    w = g.times(w, g.inputs[1])
    results = [w, g.product(g.columns_times(v, w), g.adjoint(v)), g.product(g.adjoint(v), v)]
    near_one = wide(x) / scale
    outputs = [np.linalg.eigvalsh(near_one), near_one, identities(x, n, x.dtype)]
    f.add_graph(case, g, [r[0] for r in results], inputs, [o.astype(r[1]) for o, r in zip(outputs, results)], "numpy.linalg.eigvalsh in f64; the matrix itself; an identity")


def eig(f, case, x, scale=1.0):
    """Values in their order, and x v - v w."""
    n, t = x.shape[-1], c64 if x.dtype in (f32, c64) else c128
    inputs = [x, np.full((n,), 1 / scale, t), np.full((n, n), 1 / scale, t)]
    g = Graph(inputs)
    w, v = g.node("eig", g.inputs[:1], (t, (n,)), (t, (n, n)))
    w = g.times(w, g.inputs[1])
    of_x, = g.node("convert", g.inputs[:1], (t, x.shape), dtype=t) if x.dtype != t else g.inputs[:1]
    left = g.product(g.times(of_x, g.inputs[2]), v)
    results = [w, g.node("sub", [left, g.columns_times(v, w)], (t, (n, n)))[0]]
    values = np.linalg.eigvals(wide(x) / scale).astype(c128)
    values = values[np.argsort(values.real + 0.3 * values.imag)]
    f.add_graph(case, g, [r[0] for r in results], inputs, [values.astype(t), np.zeros((n, n), t)], "numpy.linalg.eigvals in f64; nothing is left of x v - v w")


def qr(f, case, x, full=False):
    m, n = x.shape[-2:]
    k = m if full else min(m, n)
    g = Graph([x])
    q, r = g.node("qr", g.inputs, (x.dtype, (m, k)), (x.dtype, (k, n)), full=full)
    results = [g.product(q, r), g.product(g.adjoint(q), q)]
    f.add_graph(case, g, [r[0] for r in results], [x], [x, identities(x, k, x.dtype)], "the matrix itself; an identity")


def thirds(name, m, n, rank, dtype):
    """Of small whole numbers, so that the rank is exactly this in every dtype."""
    def whole(part, *dims):
        x = integers(f"{name}/{part}", dims, -2, 3, i64).astype(f64)
        return x + 1j * integers(f"{name}/{part}/imag", dims, -2, 3, i64) if dtype in (c64, c128) else x
    return (whole("left", m, rank) @ whole("right", rank, n)).astype(dtype)


def spread(f):
    for dtype in (f64, f32, c128, c64):
        tag = NAMES[dtype][0]
        for name, x in (("zero_3x3", np.zeros((3, 3))), ("zero_4x2", np.zeros((4, 2))), ("zero_2x4", np.zeros((2, 4))), ("ones_4x4", np.ones((4, 4))),
                        ("one_column", np.eye(4)[:, [2, 2, 2]]), ("identity", np.eye(4)), ("minus_identity", -np.eye(3)), ("cycle", np.roll(np.eye(4), 1, 0)),
                        ("rank_1_5x3", thirds("r1", 5, 3, 1, dtype)), ("rank_1_3x5", thirds("r1w", 3, 5, 1, dtype)), ("rank_2_5x5", thirds("r2", 5, 5, 2, dtype)),
                        ("rank_3_8x6", thirds("r3", 8, 6, 3, dtype)), ("falling", np.diag([1, 1e-20, 0])), ("stack", np.stack([np.zeros((3, 2)), np.ones((3, 2)), np.eye(3)[:, :2]]))):
            svd(f, f"svd_{name}_{tag}", np.asarray(x, dtype))
        for name, x in (("zero", np.zeros((3, 2))), ("rank_1", thirds("r1f", 4, 3, 1, dtype)), ("rank_1_wide", thirds("r1g", 2, 4, 1, dtype))):
            svd(f, f"svd_full_{name}_{tag}", np.asarray(x, dtype), full=True)
        large = 1e200 if dtype in (f64, c128) else 1e30
        for name, scale in (("large", large), ("small", 1 / large)):
            for dims in ((3, 3), (5, 2), (2, 4)):
                svd(f, f"svd_{name}_{dims[0]}x{dims[1]}_{tag}", (scale * random(f"svd_{name}", dims, wide(np.zeros((), dtype)).dtype)).astype(dtype), scale)
            h = random(f"eigh_{name}", (4, 4), wide(np.zeros((), dtype)).dtype)
            eigh(f, f"eigh_{name}_{tag}", (scale * (h + H(h).__array__())).astype(dtype), scale)
            eig(f, f"eig_{name}_{tag}", (scale * random(f"eig_{name}", (4, 4), wide(np.zeros((), dtype)).dtype)).astype(dtype), scale)
        q = orthogonal("clusters", (), 4, dtype)
        hermitian = lambda values: np.asarray((q * np.asarray(values)) @ np.conj(q.T))
        for name, x in (("zero", np.zeros((3, 3))), ("identity", np.eye(4)), ("ones", np.ones((4, 4))), ("pairs", hermitian([1., 1, 2, 2])), ("clustered", hermitian([1., 1 + 1e-9, 1 + 2e-9, 3])),
                        ("projection", hermitian([0., 0, 0, 1])), ("signs", hermitian([-1., -1, 1, 1])), ("stack", np.stack([np.zeros((2, 2)), np.eye(2), np.ones((2, 2))]))):
            x = np.asarray(x, dtype)
            eigh(f, f"eigh_{name}_{tag}", ((x + np.conj(np.swapaxes(x, -1, -2))) / 2).astype(dtype))
        for name, x in (("zero", np.zeros((3, 3))), ("ones", np.ones((4, 3))), ("rank_1", thirds("qr1", 5, 3, 1, dtype)), ("rank_2_wide", thirds("qr2", 3, 5, 2, dtype))):
            qr(f, f"qr_{name}_{tag}", np.asarray(x, dtype)), qr(f, f"qr_full_{name}_{tag}", np.asarray(x, dtype), full=True)
        bad = np.eye(3, dtype=dtype)
        bad[2, 0] = np.nan
        nan = lambda *dims: np.full(dims, np.nan)
        real, other = REAL_OF[dtype], c64 if dtype in (f32, c64) else c128
        # NumPy raises LinAlgError or returns NaN; where nothing is raised here it can only be NaN.
        f.add(f"eigh_nan_{tag}", "eigh", [bad], [nan(3).astype(real), nan(3, 3).astype(dtype)], "NaN, as NumPy's where it does not raise")
        f.add(f"svd_nan_{tag}", "svd", [bad], [nan(3, 3).astype(dtype), nan(3).astype(real), nan(3, 3).astype(dtype)], "NaN, as NumPy's where it does not raise")
        # Equal eigenvalues (singular values) with equal cotangents: what every choice of vectors gives.
        ct = np.array([0.5, 0.5, -1, 2])
        values = np.array([1., 1, 2, 3])
        x = hermitian(values).astype(dtype)
        g = Graph([x])
        w, _ = g.node("eigh", g.inputs, (real, (4,)), (x.dtype, x.shape))
        f.add_graph(f"eigh_values_of_pairs_{tag}", g, [w[0]], [x], [values.astype(real)], "Q diag(ct) of Q* for x made as Q diag(values) Q*", [ct.astype(real)], [np.conj(hermitian(ct)).astype(dtype)])
        p = orthogonal("clusters_right", (), 4, dtype)
        x = ((q * values[::-1]) @ np.conj(p.T)).astype(dtype)
        g = Graph([x])
        _, s, _ = g.node("svd", g.inputs, (x.dtype, x.shape), (real, (4,)), (x.dtype, x.shape))
        f.add_graph(f"svd_values_of_pairs_{tag}", g, [s[0]], [x], [values[::-1].astype(real)], "U diag(ct) V* for x made as U diag(values) V*", [ct[::-1].astype(real)],
                    [np.conj((q * ct[::-1]) @ np.conj(p.T)).astype(dtype)])


def whole(f):
    """Ops whose results are unique, of matrices that are singular, and of none."""
    for dtype in (f64, f32, c128, c64):
        tag, real = NAMES[dtype][0], REAL_OF[dtype]
        cutoff = 1e-9 if dtype in (f64, c128) else 1e-5
        for name, x in (("zero", np.zeros((3, 2))), ("ones", np.ones((3, 3))), ("rank_1", thirds("p1", 4, 3, 1, dtype)), ("rank_2", thirds("p2", 3, 5, 2, dtype))):
            x = np.asarray(x, dtype)
            f.add(f"pinv_{name}_{tag}", "pinv", [x], [np.linalg.pinv(wide(x), rcond=cutoff).astype(dtype)], "numpy.linalg.pinv in f64", cutoff=cutoff)
            b = random(f"lstsq_{name}", (x.shape[0], 2), dtype)
            f.add(f"lstsq_{name}_{tag}", "lstsq", [x, b], [np.linalg.lstsq(wide(x), wide(b), rcond=cutoff)[0].astype(dtype)], "numpy.linalg.lstsq in f64", cutoff=cutoff)
        for name, x in (("zero", np.zeros((3, 3))), ("zero_row", np.diag([1., 0, 3])), ("equal_rows", np.array([[1., 2, 4], [1, 2, 4], [0, 1, 5]]))):
            x = np.asarray(x, dtype)
            f.add(f"det_{name}_{tag}", "det", [x], [np.linalg.det(wide(x)).astype(dtype)], "numpy.linalg.det in f64")
            sign, log = np.linalg.slogdet(wide(x))
            f.add(f"slogdet_{name}_{tag}", "slogdet", [x], [sign.astype(dtype), log.astype(real)], "numpy.linalg.slogdet in f64")
            lu, pivots = scipy.linalg.lapack.get_lapack_funcs("getrf", [wide(x)])(wide(x))[:2]
            places = np.arange(3)
            for i, p in enumerate(pivots):
                places[[i, p]] = places[[p, i]]
            f.add(f"lu_{name}_{tag}", "lu", [x], [lu.astype(dtype), pivots.astype(i32), places.astype(i32)], "SciPy's LAPACK getrf in f64")
        f.add(f"slogdet_beyond_{tag}", "slogdet", [(1e30 * np.diag(np.arange(1., 13))).astype(dtype)],
              [np.ones((), dtype), np.asarray(np.log(np.diag((1e30 * np.diag(np.arange(1., 13))).astype(dtype)).real.astype(f64)).sum(), real)], "the sum of numpy.log of the diagonal")
        # A zero on the diagonal is as indefinite as a negative number.
        for name, on in (("zero", 0.0), ("semidefinite", 1.0)):
            x = np.full((3, 3), on, dtype)
            f.add(f"cholesky_{name}_{tag}", "cholesky", [x], [np.tril(np.full((3, 3), np.nan)).astype(dtype)], "NaN where numpy.linalg.cholesky raises")
        none, t = np.zeros((0, 3, 3), dtype), c64 if dtype in (f32, c64) else c128
        for op, outputs in (("lu", [none, np.zeros((0, 3), i32), np.zeros((0, 3), i32)]), ("cholesky", [none]), ("qr", [none, none]), ("geqrf", [none, none[..., 0]]), ("inverse", [none]),
                            ("det", [np.zeros(0, dtype)]), ("slogdet", [np.zeros(0, dtype), np.zeros(0, real)]), ("eigh", [none[..., 0].real.astype(real), none]),
                            ("svd", [none, none[..., 0].real.astype(real), none]), ("eig", [none[..., 0].astype(t), none.astype(t)]), ("pinv", [none]), ("expm", [none])):
            f.add(f"{op}_no_matrices_{tag}", op, [none], outputs, "nothing of nothing")
        for op in ("solve", "triangular_solve", "lstsq"):
            f.add(f"{op}_no_matrices_{tag}", op, [none, none[..., :2]], [none[..., :2]], "nothing of nothing")
        one = np.asarray([[-2.5]], dtype)
        f.add(f"eigh_of_one_{tag}", "eigh", [one], [np.asarray([-2.5], real), np.ones((1, 1), dtype)], "by its definition")
        f.add(f"svd_of_one_{tag}", "svd", [one], [np.ones((1, 1), dtype), np.asarray([2.5], real), -np.ones((1, 1), dtype)], "by its definition")


def cases():
    families = [Family("linalg_spread"), Family("linalg_singular")]
    for build, family in zip((spread, whole), families):
        build(family)
    return families
