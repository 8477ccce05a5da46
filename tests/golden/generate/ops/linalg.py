"""Linear algebra: values by NumPy, SciPy and JAX (LAPACK all three), derivatives by JAX and PyTorch.

Eigenvectors and singular vectors are unique up to a sign or a phase, eigenvalues of a general matrix up to their order;
`led` and `in_order` bring what the others give into the form of docs/ir.md, "Linear algebra", in JAX's terms, so that the
derivatives include it.
"""
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import torch
from jax._src.lax import linalg as lapack

from .case import *
from .derivative import by_jax, by_torch, complex_normal

REAL, ALL = (f64, f32), (f64, f32, c128, c64)
SHARE, SLANT = 0.45, 0.3
H = lambda x: jnp.conj(jnp.swapaxes(x, -1, -2))


# ---- inputs ----
def random(name, dims, dtype):
    return complex_normal(name, dims, dtype) if dtype in (c64, c128) else normal(name, dims, dtype)


def orthogonal(name, batch, n, dtype):
    return np.linalg.qr(random(name, (*batch, n, n), c128 if dtype in (c64, c128) else f64))[0]


def with_spectrum(name, batch, values, dtype):
    """Hermitian with these eigenvalues: so that the gaps, and the condition, are known."""
    q = orthogonal(name, batch, len(values), dtype)
    return (q * np.asarray(values) @ np.conj(np.swapaxes(q, -1, -2))).astype(dtype)


def with_singular_values(name, batch, m, n, values, dtype):
    u, v = orthogonal(name + "/u", batch, m, dtype), orthogonal(name + "/v", batch, n, dtype)
    k = min(m, n)
    return (u[..., :k] * np.asarray(values) @ np.conj(np.swapaxes(v, -1, -2))[..., :k, :]).astype(dtype)


def conditioned(name, dims, dtype):
    """Singular values 1, 1.25, 1.5, ..., so that f32 loses few digits."""
    *batch, m, n = dims
    return with_singular_values(name, tuple(batch), m, n, 1 + 0.25 * np.arange(min(m, n))[::-1], dtype)


def triangular(name, dims, dtype, lower):
    x = 0.5 * random(name, dims, dtype)
    x = np.tril(x) if lower else np.triu(x)
    return (x + 2 * np.eye(dims[-1])).astype(dtype)


# ---- what makes results unique ----
def leading(v):
    size = jnp.abs(v)
    place = jnp.argmax(size >= SHARE * jnp.max(size, axis=-2, keepdims=True), axis=-2, keepdims=True)
    pick = jnp.take_along_axis(v, place, -2)
    return pick / jnp.abs(pick)


def led(v):
    return v * jnp.conj(leading(v)) if v.size else v


def mirrored(x, reads):
    if reads == "both":
        return (x + H(x)) / 2
    part = jnp.tril(x, -1) if reads == "lower" else jnp.triu(x, 1)
    diagonal = jnp.diagonal(x, axis1=-2, axis2=-1).real
    return part + H(part) + diagonal[..., None] * jnp.eye(x.shape[-1])


def eigh(x, reads="both"):
    w, v = jnp.linalg.eigh(mirrored(x, reads), symmetrize_input=False)
    return w, led(v)


def svd(x):
    u, s, vt = jnp.linalg.svd(x, full_matrices=False)
    turn = leading(u) if u.size else 1
    return u * jnp.conj(turn), s, (vt * jnp.swapaxes(turn, -1, -2) if u.size else vt)


def in_order(w, v):
    order = jnp.argsort(w.real + SLANT * w.imag, axis=-1)
    v = jnp.take_along_axis(v, order[..., None, :], -1)
    return jnp.take_along_axis(w, order, -1), led(v / jnp.linalg.norm(v, axis=-2, keepdims=True))


def eig(x):
    return in_order(*lapack.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True))


# ---- families ----
def text(dims):
    return "x".join(map(str, dims)) if dims else "scalar"


def both(f, case, op, inputs, function, source, derivative=True, **attributes):
    inputs = [np.asarray(x) for x in inputs]
    if derivative:
        f.add_derivative(case, op, inputs, by_jax, function, source, **attributes)
    else:
        wide = [x.astype(c128 if x.dtype in (c64, c128) else f64) if x.dtype.kind in "fc" else x for x in inputs]
        dtype, parts = inputs[0].dtype, {c64: f32, c128: f64}
        results = function(*map(jnp.asarray, wide))
        results = [np.asarray(r) for r in (results if isinstance(results, (tuple, list)) else [results])]

        def rounded(r):
            if r.dtype == c128:
                return r.astype(dtype if dtype in parts else {f32: c64, f64: c128}[dtype])
            return r.astype(parts.get(dtype, dtype)) if r.dtype == f64 else r

        f.add(case, op, inputs, [rounded(r) for r in results], source, **attributes)


def factorizations(f):
    for dims in ((3, 3), (5, 2), (2, 5), (2, 3, 3, 3), (1, 1), (6, 6)):
        for dtype in ALL:
            x = conditioned(f"lu{text(dims)}", dims, dtype)
            both(f, f"lu_{text(dims)}_{NAMES[dtype][0]}", "lu", [x], lambda x: list(jax.lax.linalg.lu(x)), "jax.lax.linalg.lu in f64")
    x = random("lu33", (33, 33), f64)
    both(f, "lu_33x33_f64", "lu", [x], lambda x: list(jax.lax.linalg.lu(x)), "jax.lax.linalg.lu", derivative=False)
    x = np.array([[0., 1, 2], [0, 0, 3], [0, 4, 5]])
    both(f, "lu_singular", "lu", [x], lambda x: list(jax.lax.linalg.lu(x)), "jax.lax.linalg.lu", derivative=False)

    for dims in ((3, 3), (2, 2, 4, 4), (1, 1), (7, 7)):
        for dtype in ALL:
            n = dims[-1]
            x = with_spectrum(f"chol{text(dims)}", dims[:-2], 1 + 0.5 * np.arange(n), dtype)
            both(f, f"cholesky_{text(dims)}_{NAMES[dtype][0]}", "cholesky", [x], lambda x: jnp.linalg.cholesky(x), "jax.numpy.linalg.cholesky in f64")
            if n != 1:
                reads = "lower" if n == 3 else "upper"
                # What is not read may hold anything.
                other = np.triu(random("chol_noise", dims, dtype), 1) if reads == "lower" else np.tril(random("chol_noise", dims, dtype), -1)
                y = (np.tril(x) if reads == "lower" else np.triu(x)) + other
                both(f, f"cholesky_upper_reads_{reads}_{text(dims)}_{NAMES[dtype][0]}", "cholesky", [y],
                     lambda x: H(jnp.linalg.cholesky(mirrored(x, reads), symmetrize_input=False)), "jax.numpy.linalg.cholesky in f64",
                     lower=False, reads=reads)
    x = np.array([[1., 2], [2, 1]])
    both(f, "cholesky_indefinite", "cholesky", [x], jnp.linalg.cholesky, "jax.numpy.linalg.cholesky: NaN", derivative=False)
    x = random("chol40", (40, 40), f64)
    both(f, "cholesky_40x40_f64", "cholesky", [x @ x.T + 40 * np.eye(40)], jnp.linalg.cholesky, "jax.numpy.linalg.cholesky", derivative=False)

    for dims in ((3, 3), (5, 2), (2, 3, 4, 3), (1, 1), (4, 1), (8, 8)):
        for dtype in ALL:
            x = conditioned(f"qr{text(dims)}", dims, dtype)
            both(f, f"qr_{text(dims)}_{NAMES[dtype][0]}", "qr", [x], lambda x: list(jnp.linalg.qr(x)), "jax.numpy.linalg.qr in f64")
    for dims in ((2, 5), (2, 2, 3), (1, 4)):
        for dtype in REAL:
            x = conditioned(f"qr{text(dims)}", dims, dtype)
            f.add_derivative(f"qr_{text(dims)}_{NAMES[dtype][0]}", "qr", [x], by_torch, torch.linalg.qr, "torch.linalg.qr in f64")
        x = conditioned(f"qr{text(dims)}", dims, c128)
        both(f, f"qr_{text(dims)}_c128", "qr", [x], lambda x: list(jnp.linalg.qr(x)), "jax.numpy.linalg.qr", derivative=False)
    for dims in ((5, 2), (2, 5), (2, 3, 3), (3, 1)):
        for dtype in ALL:
            x = conditioned(f"qr_full{text(dims)}", dims, dtype)
            both(f, f"qr_full_{text(dims)}_{NAMES[dtype][0]}", "qr", [x], lambda x: list(jnp.linalg.qr(x, mode="complete")), "jax.numpy.linalg.qr in f64",
                 derivative=False, full=True)
    for dims in ((0, 3), (3, 0), (0, 0)):
        both(f, f"qr_{text(dims)}", "qr", [np.zeros(dims)], lambda x: list(np.linalg.qr(np.asarray(x))), "numpy.linalg.qr", derivative=False)

    for dims in ((4, 4), (5, 3), (3, 5), (2, 4, 2)):
        for dtype in ALL:
            x = conditioned(f"geqrf{text(dims)}", dims, dtype)
            both(f, f"geqrf_{text(dims)}_{NAMES[dtype][0]}", "geqrf", [x], lambda x: list(lapack.geqrf(x)), "jax, LAPACK geqrf in f64", derivative=False)
    for dims, k in (((4, 4), 4), ((5, 3), 3), ((5, 3), 2), ((2, 4, 2), 2), ((3, 3), 0)):
        for dtype in ALL:
            packed, taus = (np.asarray(t) for t in lapack.geqrf(conditioned(f"hp{text(dims)}", dims, c128 if dtype in (c64, c128) else f64)))
            inputs = [packed.astype(dtype), taus[..., :k].astype(dtype)]
            case = f"householder_product_{text(dims)}_{k}_{NAMES[dtype][0]}"
            if dtype in REAL and k > 0:
                f.add_derivative(case, "householder_product", inputs, by_torch, torch.linalg.householder_product, "torch.linalg.householder_product in f64")
            else:
                both(f, case, "householder_product", inputs, lapack.householder_product, "jax, LAPACK orgqr in f64", derivative=False)


def solving(f):
    forms = {"none": dict(transpose_a=False, conjugate_a=False), "transpose": dict(transpose_a=True, conjugate_a=False),
             "adjoint": dict(transpose_a=True, conjugate_a=True)}
    for form, flags in forms.items():
        for left in (True, False):
            for lower in (True, False):
                for dtype in (f64, f32, c128) if form != "transpose" else (f64, c64):
                    for unit in (False, True) if dtype == f64 else (False,):
                        name = f"triangular_{form}_{'left' if left else 'right'}_{'lower' if lower else 'upper'}{'_unit' if unit else ''}_{NAMES[dtype][0]}"
                        batch = (2,) if lower else ()
                        a = triangular(name + "a", (*batch, 4, 4), dtype, lower) + (np.triu if lower else np.tril)(
                            random(name + "noise", (*batch, 4, 4), dtype), 1 if lower else -1)
                        b = random(name + "b", (*batch, 4, 3) if left else (*batch, 2, 4), dtype)
                        both(f, name, "triangular_solve", [a, b],
                             lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=left, lower=lower, unit_diagonal=unit, **flags),
                             "jax.lax.linalg.triangular_solve in f64", left_side=left, lower=lower,
                             transposition=form, unit_diagonal=unit or None)

    def solve(a, b, form):
        a = {"none": lambda x: x, "transpose": lambda x: jnp.swapaxes(x, -1, -2), "adjoint": H}[form](a)
        return jnp.linalg.solve(a, b[..., None])[..., 0] if b.ndim + 1 == a.ndim else jnp.linalg.solve(a, b)

    for a_dims, b_dims in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 4, 4), (2, 4)), ((2, 2, 3, 3), (2, 2, 3, 1)), ((1, 1), (1, 1))):
        for dtype in ALL:
            a, b = conditioned(f"solve{text(a_dims)}", a_dims, dtype), random(f"side{text(b_dims)}", b_dims, dtype)
            both(f, f"solve_{text(a_dims)}_{text(b_dims)}_{NAMES[dtype][0]}", "solve", [a, b], lambda a, b: solve(a, b, "none"), "jax.numpy.linalg.solve in f64")
    for form in ("transpose", "adjoint"):
        for dtype in (f64, c64, c128):
            a, b = conditioned(f"solve{form}", (2, 3, 3), dtype), random(f"side{form}", (2, 3, 2), dtype)
            both(f, f"solve_{form}_{NAMES[dtype][0]}", "solve", [a, b], lambda a, b: solve(a, b, form), "jax.numpy.linalg.solve in f64", transposition=form)
    for dtype in ALL:
        for dims in ((3, 3), (2, 2, 2), (1, 1)):
            x = conditioned(f"inv{text(dims)}", dims, dtype)
            both(f, f"inverse_{text(dims)}_{NAMES[dtype][0]}", "inverse", [x], jnp.linalg.inv, "jax.numpy.linalg.inv in f64")
            both(f, f"det_{text(dims)}_{NAMES[dtype][0]}", "det", [x], jnp.linalg.det, "jax.numpy.linalg.det in f64")
            both(f, f"slogdet_{text(dims)}_{NAMES[dtype][0]}", "slogdet", [x], lambda x: list(jnp.linalg.slogdet(x)), "jax.numpy.linalg.slogdet in f64")
    x = conditioned("det7", (7, 7), f64)
    both(f, "det_7x7", "det", [x], jnp.linalg.det, "jax.numpy.linalg.det")
    for name, x in (("rank_2", np.array([[1., 2, 3], [2, 4, 6], [1, 0, 1]])), ("rank_1", np.outer([1., 2, 3], [4., 5, 6]))):
        both(f, f"det_{name}", "det", [x], jnp.linalg.det, "jax.numpy.linalg.det")
    both(f, "slogdet_singular", "slogdet", [np.array([[1., 2], [2, 4]])], lambda x: list(jnp.linalg.slogdet(x)), "jax.numpy.linalg.slogdet", derivative=False)
    both(f, "det_empty", "det", [np.zeros((2, 0, 0))], lambda x: np.linalg.det(np.asarray(x)), "numpy.linalg.det", derivative=False)
    both(f, "inverse_empty", "inverse", [np.zeros((0, 0))], lambda x: np.linalg.inv(np.asarray(x)), "numpy.linalg.inv", derivative=False)


def spectra(f):
    for dims in ((3, 3), (2, 2, 4, 4), (1, 1), (5, 5)):
        for dtype in ALL:
            n = dims[-1]
            x = with_spectrum(f"eigh{text(dims)}", dims[:-2], np.arange(n) - 1.5, dtype)
            both(f, f"eigh_{text(dims)}_{NAMES[dtype][0]}", "eigh", [x], lambda x: list(eigh(x)), "jax.numpy.linalg.eigh in f64")
    for reads in ("lower", "upper"):
        for dtype in ALL:
            x = with_spectrum(f"eigh{reads}", (2,), [-1.0, 0.25, 2.0], dtype)
            noise = random("eigh_noise", x.shape, dtype)
            x = np.tril(x) + np.triu(noise, 1) if reads == "lower" else np.triu(x) + np.tril(noise, -1)
            both(f, f"eigh_reads_{reads}_{NAMES[dtype][0]}", "eigh", [x], lambda x: list(eigh(x, reads)), "jax.numpy.linalg.eigh in f64", reads=reads)
    both(f, "eigh_33x33", "eigh", [random("eigh33", (33, 33), f64)], lambda x: list(eigh(x)), "jax.numpy.linalg.eigh", derivative=False)
    both(f, "eigh_20x20_c128", "eigh", [random("eigh20", (20, 20), c128)], lambda x: list(eigh(x)), "jax.numpy.linalg.eigh", derivative=False)
    both(f, "eigh_tied_components", "eigh", [np.array([[2., 1], [1, 2]])], lambda x: list(eigh(x)), "jax.numpy.linalg.eigh")
    both(f, "eigh_large", "eigh", [1e200 * with_spectrum("eighl", (), [1., 2, 3], f64)], lambda x: list(eigh(x)), "jax.numpy.linalg.eigh", derivative=False)
    both(f, "eigh_empty", "eigh", [np.zeros((2, 0, 0))], lambda x: list(np.linalg.eigh(np.asarray(x))), "numpy.linalg.eigh", derivative=False)

    for dims in ((3,), (2, 4)):
        for dtype in ALL:
            real = f32 if dtype in (f32, c64) else f64
            n = dims[-1]
            x = with_spectrum(f"back{text(dims)}", dims[:-1], np.arange(n) - 0.5, c128 if dtype in (c64, c128) else f64)
            (w, v), vjp = jax.vjp(eigh, x)
            ct_w, ct_v = normal("back_w", w.shape, real), random("back_v", v.shape, dtype)
            made = vjp((jnp.asarray(ct_w, f64), jnp.asarray(ct_v, v.dtype)))[0]
            f.add(f"eigh_backward_{text(dims)}_{NAMES[dtype][0]}", "eigh_backward", [np.asarray(w, real), np.asarray(v, dtype), ct_w, ct_v], [np.asarray(made, dtype)],
                  "jax.vjp of jax.numpy.linalg.eigh in f64")

    for dims in ((3, 3), (5, 2), (2, 5), (2, 2, 4, 3), (1, 1), (3, 1), (1, 4), (6, 6)):
        for dtype in ALL:
            x = conditioned(f"svd{text(dims)}", dims, dtype)
            # Vectors in f32 are off by a rounding over the gap of their values, and derivatives by as much again: of six values
            # that is more than f32 results are compared by, in LAPACK's own sgesdd too.
            exact = dims != (6, 6) or dtype in (f64, c128)
            both(f, f"svd_{text(dims)}_{NAMES[dtype][0]}", "svd", [x], lambda x: list(svd(x)), "jax.numpy.linalg.svd in f64", derivative=exact)
    for dims in ((33, 17), (17, 33)):
        both(f, f"svd_{text(dims)}", "svd", [random(f"svd{text(dims)}", dims, f64)], lambda x: list(svd(x)), "jax.numpy.linalg.svd", derivative=False)
    for dims in ((4, 2), (2, 4), (2, 3, 1)):
        for dtype in (f64, f32, c128):
            def full(x):
                u, s, vt = svd(x)
                complete = lambda q: jnp.concatenate([q, jnp.linalg.qr(q, mode="complete")[0][..., q.shape[-1]:]], -1)
                return [complete(u), s, H(complete(H(vt)))]
            x = conditioned(f"svd_full{text(dims)}", dims, dtype)
            both(f, f"svd_full_{text(dims)}_{NAMES[dtype][0]}", "svd", [x], full, "jax.numpy.linalg.svd, completed by jax.numpy.linalg.qr, in f64", derivative=False, full=True)
    both(f, "svd_empty", "svd", [np.zeros((2, 0, 3))], lambda x: list(np.linalg.svd(np.asarray(x), full_matrices=False)), "numpy.linalg.svd", derivative=False)

    for n in (2, 3, 4):
        for dtype in ALL:
            wide = c128 if dtype in (c64, c128) else f64
            basis = orthogonal(f"eig{n}", (), n, wide) + 0.3 * np.eye(n)
            values = np.array([1., -1, 2, 3][:n]) * (1 + 0.5j if wide == c128 else 1)
            x = (basis @ np.diag(values) @ np.linalg.inv(basis)).astype(dtype)
            both(f, f"eig_{n}x{n}_{NAMES[dtype][0]}", "eig", [x], lambda x: list(eig(x)), "jax.lax.linalg.eig in f64")
    for dtype in REAL:
        x = np.array([[1., -2, 0.5], [2, 1, 0], [0, 0.25, 3]], dtype)
        both(f, f"eig_pairs_{NAMES[dtype][0]}", "eig", [x], lambda x: list(eig(x)), "jax.lax.linalg.eig in f64")
    both(f, "eig_2x3x3", "eig", [random("eigb", (2, 3, 3), f64)], lambda x: list(eig(x)), "jax.lax.linalg.eig")
    both(f, "eig_cycle", "eig", [np.roll(np.eye(4), 1, 0)], lambda x: list(eig(x)), "jax.lax.linalg.eig", derivative=False)
    both(f, "eig_17x17", "eig", [random("eig17", (17, 17), f64)], lambda x: list(eig(x)), "jax.lax.linalg.eig", derivative=False)
    both(f, "eig_12x12_c128", "eig", [random("eig12", (12, 12), c128)], lambda x: list(eig(x)), "jax.lax.linalg.eig", derivative=False)


def functions(f):
    for dims in ((3, 3), (2, 2, 2), (1, 1), (5, 5)):
        for dtype in ALL:
            x = (0.5 * random(f"expm{text(dims)}", dims, dtype)).astype(dtype)
            both(f, f"expm_{text(dims)}_{NAMES[dtype][0]}", "expm", [x], jax.scipy.linalg.expm, "jax.scipy.linalg.expm in f64")
    for name, x in (("large", np.array([[-49., 24], [-64, 31]])), ("skew", 20 * np.array([[0., 1, 2], [-1, 0, 3], [-2, -3, 0]])),
                    ("nilpotent", np.array([[0., 1e3], [0, 0]])), ("zero", np.zeros((2, 2))), ("batch_of_norms", np.stack([1e-3 * np.ones((2, 2)), np.eye(2) * 9]))):
        f.add(f"expm_{name}", "expm", [x], [scipy.linalg.expm(x)], "scipy.linalg.expm")
    for dims in ((3, 2), (2, 3), (3, 3), (2, 4, 2)):
        for dtype in ALL:
            x = conditioned(f"pinv{text(dims)}", dims, dtype)
            both(f, f"pinv_{text(dims)}_{NAMES[dtype][0]}", "pinv", [x], jnp.linalg.pinv, "jax.numpy.linalg.pinv in f64")
    x = with_singular_values("pinv_rank", (), 4, 3, [2., 1, 0], f64)
    both(f, "pinv_deficient", "pinv", [x], lambda x: jnp.linalg.pinv(x, rtol=1e-10), "jax.numpy.linalg.pinv", derivative=False, cutoff=1e-10)
    for a_dims, b_dims in (((4, 2), (4,)), ((2, 4), (2, 3)), ((3, 3), (3, 1))):
        for dtype in ALL:
            a, b = conditioned(f"lstsq{text(a_dims)}", a_dims, dtype), random(f"lside{text(b_dims)}", b_dims, dtype)
            both(f, f"lstsq_{text(a_dims)}_{NAMES[dtype][0]}", "lstsq", [a, b], lambda a, b: np.linalg.lstsq(np.asarray(a), np.asarray(b), rcond=None)[0],
                 "numpy.linalg.lstsq in f64", derivative=False)


def cases():
    families = [Family(name) for name in ("linalg_factorizations", "linalg_solving", "linalg_spectra", "linalg_functions")]
    for build, family in zip((factorizations, solving, spectra, functions), families):
        build(family)
    return families
