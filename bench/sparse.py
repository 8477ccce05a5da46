#!/usr/bin/env python3
"""Sparse matrices: RLX and SciPy in turn, on the same numbers, with one thread: the Laplacian on a square grid in csr.

    bench/sparse.py [--rounds R] [CASE...]          CASE: matvec_300 matmul_300x32 transposed_300 solve_100 cg_100, the grid's side

One JSON line a case: the least processor time of each in milliseconds, how far the results are apart, and SciPy's time over
RLX's: above 1 where RLX is faster. Needs SciPy and the package `rlx`. Peers: csr_array @, splu with COLAMD (analysis included,
as SciPy has it; RLX keeps it while the pattern stays) and cg.
"""

import argparse
import json
import os
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import rlx

CASES = ["matvec_300", "matmul_300x32", "transposed_300", "solve_100", "cg_100"]


def grid(side):
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    a = sp.csr_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))
    a.indptr, a.indices = a.indptr.astype(np.int32), a.indices.astype(np.int32)
    return a


def runs(case):
    """RLX's function and SciPy's, of nothing."""
    kind, size = case.split("_")
    side, width = (list(map(int, size.split("x"))) + [1])[:2]
    a = grid(side)
    n = a.shape[0]
    x = np.random.default_rng(0).standard_normal((n, width))
    shape = {"format": "csr", "rows": n, "columns": n}
    op = {"matvec": lambda *v: rlx.ops.sparse_matmul(*v, **shape), "matmul": lambda *v: rlx.ops.sparse_matmul(*v, **shape),
          "transposed": lambda *v: rlx.ops.sparse_matmul(*v, **shape, transposed=True), "solve": lambda *v: rlx.ops.sparse_solve(*v, **shape),
          "cg": lambda *v: rlx.ops.sparse_cg(*v, **shape, tolerance=1e-8, preconditioner="jacobi")[0]}[kind]
    compiled, operands = rlx.jit(op), [rlx.numpy.asarray(v) for v in (a.indptr, a.indices, a.data, x)]
    diagonal = a.diagonal()[:, None]
    jacobi = spla.LinearOperator(a.shape, lambda r: r.reshape(n, -1) / diagonal)
    scipys = {"matvec": lambda: a @ x, "matmul": lambda: a @ x, "transposed": lambda: a.T @ x,
              "solve": lambda: spla.splu(sp.csc_array(a)).solve(x), "cg": lambda: spla.cg(a, x[:, 0], rtol=1e-8, atol=0, M=jacobi)[0][:, None]}[kind]
    return lambda: np.asarray(compiled(*operands)), scipys


def least(run, seconds=2.0):
    best, end, result = float("inf"), time.perf_counter() + seconds, None
    for count in range(200):
        began = time.process_time()
        result = run()
        best = min(best, 1e3 * (time.process_time() - began))
        if count >= 4 and time.perf_counter() > end:
            break
    return best, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("cases", nargs="*", default=CASES)
    options = parser.parse_args()
    for case in options.cases:
        ours, theirs = runs(case)
        times = {"rlx": float("inf"), "scipy": float("inf")}
        for _ in range(options.rounds):
            for name, run in (("rlx", ours), ("scipy", theirs)):
                took, result = least(run)
                times[name] = min(times[name], took)
                if name == "rlx":
                    kept = result
        apart = float(np.abs(kept - result).max() / (1 + np.abs(result).max()))
        print(json.dumps({"case": case, "rlx_ms": round(times["rlx"], 3), "scipy_ms": round(times["scipy"], 3), "apart": apart,
                          "scipy_over_rlx": round(times["scipy"] / times["rlx"], 2)}), flush=True)


if __name__ == "__main__":
    main()
