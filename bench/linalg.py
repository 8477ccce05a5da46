#!/usr/bin/env python3
"""Linear algebra: `rlx bench`, NumPy and PyTorch in turn, case by case, on as many threads and the same numbers.

    bench/linalg.py [--threads T] [--rounds R] [--program build/release/bin/rlx] [CASE...]

Each runs in a process of its own, in every round. One JSON line a case: the least processor time of each (with one
thread; else wall time), how far the first results are apart, and the ratios, above 1 where RLX is faster.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = ["cholesky_512", "qr_512", "svd_256", "eigh_256", "solve_512"]


def arrays(case):
    import numpy as np
    kind, n = case.split("_")[0], int(case.split("_")[1])
    random = np.random.default_rng(0)
    a = random.uniform(-1, 1, (n, n)).astype(np.float32)
    if kind == "solve":
        return [a, random.uniform(-1, 1, (n, n)).astype(np.float32)]
    if kind in ("cholesky", "eigh"):
        a = (a + a.T) / 2 + np.float32(n if kind == "cholesky" else 0) * np.eye(n, dtype=np.float32)
    return [a]


def function(kind, linalg, full):
    """Its first result is what `head` shows."""
    return {"cholesky": linalg.cholesky, "qr": linalg.qr, "eigh": linalg.eigh, "solve": linalg.solve,
            "svd": lambda a: (lambda u, s, v: (s, u, v))(*linalg.svd(a, **full))}[kind]


def peer(name, case, threads):
    """One line as `rlx bench` prints it."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import numpy as np
    operands = arrays(case)
    if name == "torch":
        import torch
        torch.set_num_threads(threads)
        operands = [torch.from_numpy(a) for a in operands]
        run = function(case.split("_")[0], torch.linalg, {"full_matrices": False})
    else:
        run = function(case.split("_")[0], np.linalg, {"full_matrices": False})
    wall, cpu, end = [], [], time.perf_counter() + 3
    for _ in range(3):
        result = run(*operands)
    while len(wall) < 5 or (len(wall) < 50 and time.perf_counter() < end):
        began, spent = time.perf_counter(), time.process_time()
        run(*operands)
        wall.append(1e3 * (time.perf_counter() - began)), cpu.append(1e3 * (time.process_time() - spent))
    first = result[0] if isinstance(result, tuple) else result
    print(json.dumps({"case": case, "times_ms": wall, "cpu_ms": cpu, "head": [float(x) for x in np.asarray(first).ravel()[:8]]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", default=ROOT / "build/release/bin/rlx")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if options.peer:
        return peer(options.peer, options.cases[0], options.threads)
    threads = ["--threads", str(options.threads)]
    commands = {"rlx": [options.program, "bench", *threads, "--iters", "50", "--budget", "3"],
                "numpy": [sys.executable, __file__, *threads, "--peer", "numpy"],
                "torch": [sys.executable, __file__, *threads, "--peer", "torch"]}
    for case in options.cases or CASES:
        best, heads = {}, {}
        for _ in range(options.rounds):
            for name, command in commands.items():
                row = json.loads(subprocess.run([*command, case], stdout=subprocess.PIPE, text=True, check=True).stdout)
                best[name] = min(best.get(name, float("inf")), *row["cpu_ms" if options.threads == 1 else "times_ms"])
                heads[name] = row["head"]
        apart = max(abs(x - y) for name in ("numpy", "torch") for x, y in zip(heads["rlx"], heads[name]))
        print(json.dumps({"case": case, "threads": options.threads, **{f"{name}_ms": round(ms, 3) for name, ms in best.items()},
                          "apart": float(f"{apart:.1e}"), **{f"ratio_to_{name}": round(best[name] / best["rlx"], 2) for name in ("numpy", "torch")}}), flush=True)


if __name__ == "__main__":
    main()
