#!/usr/bin/env python3
"""Writes lapack_cases.inc: what SciPy's LAPACK (and for triangular systems scipy.linalg.solve_triangular) makes of small
matrices, in f64 and c128. Their elements are quarters, so that every dtype holds them; lapack_test.cpp has the same formula.

usage: lapack_cases.py > lapack_cases.inc        (SciPy 1.17.1, NumPy 2.4.6 when it was made)
"""
import numpy as np
import scipy.linalg


def matrix(m, n, of_complex, seed=0):
    i, j = np.indices((m, n))
    x = ((7 * i + 3 * j + i * j + seed) % 11 - 5) / 4
    return x + 1j * (((5 * i + 2 * j + seed) % 7 - 3) / 4) if of_complex else x


def led(v):
    """Columns whose first component of at least 0.45 times the largest magnitude is real and positive; the phases."""
    size = abs(v)
    pick = v[(size >= 0.45 * size.max(0)).argmax(0), np.arange(v.shape[1])]
    return v * np.conj(pick / abs(pick)), pick / abs(pick)


def permutation_of(pivots, m):
    places = np.arange(m)
    for i, p in enumerate(pivots):
        places[[i, p]] = places[[p, i]]
    return places


CASES = {}


def add(name, of_complex, *results):
    CASES[name + ("_complex" if of_complex else "")] = np.concatenate([np.asarray(r, np.complex128 if of_complex else np.float64).ravel() for r in results])


for of_complex in (False, True):
    for m, n in ((4, 4), (5, 3), (3, 5)):
        x = matrix(m, n, of_complex)
        lu, pivots = scipy.linalg.lapack.get_lapack_funcs("getrf", [x])(x)[:2]
        add(f"lu_{m}x{n}", of_complex, lu, pivots, permutation_of(pivots, m))
        packed, taus = scipy.linalg.lapack.get_lapack_funcs("geqrf", [x])(x)[:2]
        add(f"geqrf_{m}x{n}", of_complex, packed, taus)
        add(f"qr_{m}x{n}", of_complex, *scipy.linalg.qr(x, mode="economic"))
        add(f"qr_full_{m}x{n}", of_complex, *scipy.linalg.qr(x))
        if m >= n:
            orgqr = scipy.linalg.lapack.get_lapack_funcs("ungqr" if of_complex else "orgqr", [x])
            add(f"householder_product_{m}x{n}", of_complex, orgqr(packed, taus)[0])
            add(f"householder_product_{m}x{n}_of_2", of_complex, orgqr(packed, taus[:2])[0])
        # Of full rank: the vectors of a singular value of 0 have any sign.
        u, s, vt = scipy.linalg.svd(x + 4 * np.eye(m, n), full_matrices=False)
        u, phases = led(u)
        add(f"svd_{m}x{n}", of_complex, u, s, vt * phases[:, None])
    x = matrix(4, 4, of_complex)
    h = (x + x.conj().T) / 2
    add("cholesky", of_complex, scipy.linalg.cholesky(h + 8 * np.eye(4), lower=True))
    values, vectors = scipy.linalg.eigh(h)
    add("eigh", of_complex, values, led(vectors)[0])
    b, side = matrix(4, 3, of_complex, 5), matrix(3, 4, of_complex, 5)
    a = x + 4 * np.eye(4)
    for form in "NTC":
        add(f"solve_{form}", of_complex, scipy.linalg.solve({"N": a, "T": a.T, "C": a.conj().T}[form], b))
        for lower in (True, False):
            for unit in (True, False):
                name = f"{form}_{'lower' if lower else 'upper'}{'_unit' if unit else ''}"
                add(f"triangular_left_{name}", of_complex, scipy.linalg.solve_triangular(a, b, trans=form, lower=lower, unit_diagonal=unit))
                # x op(a) = b, transposed: op(a)ᵀ xᵀ = bᵀ.
                op = {"N": a.T, "T": a, "C": a.conj()}[form]
                turned = lower if form != "N" else not lower
                add(f"triangular_right_{name}", of_complex, scipy.linalg.solve_triangular(op, side.T, lower=turned, unit_diagonal=unit).T)

print("// Written by lapack_cases.py.")
for name, numbers in CASES.items():
    parts = numbers.view(np.float64)
    print(f'{{"{name}", {{{", ".join(repr(float(v) + 0.0) for v in parts)}}}}},')

for of_complex in (False, True):  # complex both: the values and vectors of any square matrix
    x = matrix(4, 4, of_complex)
    values, vectors = scipy.linalg.eig(x)
    order = np.argsort(values.real + 0.3 * values.imag)
    vectors = led(vectors[:, order] / np.linalg.norm(vectors[:, order], axis=0))[0].astype(np.complex128)
    parts = np.concatenate([values[order], vectors.ravel()]).view(np.float64)
    print(f'{{"eig{"_complex" if of_complex else ""}", {{{", ".join(repr(float(v) + 0.0) for v in parts)}}}}},')
