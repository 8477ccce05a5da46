"""Run by the peers' programs: answers requests on standard input, times what they name.

A request is a line {"case": ..., "iterations": N, "budget": S}. The answer is a line
  {"case", "times_ms": [...], "cpu_ms": [...], "first_ms", "first_cpu_ms", "head": [of the result], "peak_mib"}
or {"case", "error"}. With "sampler", a library of sample_instructions.c, the answer has "instructions": what it counted
while the case ran; with "result", the result is written to that file. The case of the last request stays prepared, so that rounds of one case build it once.
"""

import argparse
import contextlib
import ctypes
import json
import os
import sys
import time

COMPUTE = os.environ.get("YARDSTICK_COMPUTE", "f32")  # f32, bf16, f16, int8, auto: --compute of the yardstick


def autocast():
    """A context of PyTorch in which the products of f32 are computed as asked; left to itself it stays in f32."""
    import torch

    narrow = {"bf16": torch.bfloat16, "f16": torch.float16}.get(COMPUTE)
    return torch.autocast("cpu", dtype=narrow or torch.bfloat16, enabled=narrow is not None)


def narrowed(function):
    """The function in that context, with a result of f32."""

    def run(*tensors):
        with autocast():
            return function(*tensors).float()

    return run if COMPUTE in ("bf16", "f16") else function


def threads_and_variant():
    """The program's arguments, with every pool that reads the environment held to that many threads. To be called
    before NumPy and the peer are imported."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variant", default="")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    if options.threads == 1 and hasattr(os, "sched_setaffinity"):  # as `rlx bench` does
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return options.threads, options.variant


def _status(name):
    """A line of /proc/self/status in MiB; None where there is none."""
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), None)
    except OSError:
        return None


def _forget_peak():
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def measure(run, iterations, budget, warm=3, least=5):
    """(wall, processor) milliseconds of each run. No run begins after `budget` seconds once there are `least`."""
    for _ in range(warm):
        run()
    wall, cpu, end = [], [], time.perf_counter() + budget
    while len(wall) < iterations:
        cpu_begin, begin = time.process_time(), time.perf_counter()
        run()
        wall.append((time.perf_counter() - begin) * 1e3)
        cpu.append((time.process_time() - cpu_begin) * 1e3)
        if time.perf_counter() > end and len(wall) >= least:
            break
    return wall, cpu


@contextlib.contextmanager
def sampled(library):
    """A list that the counts are in afterwards; nothing where there is no library."""
    counts = []
    if not library:
        yield counts
        return
    sampler, found = ctypes.CDLL(library), (ctypes.c_ulong * 5)()
    if sampler.sample_begin() != 0:
        raise OSError("the kernel gives no timer of processor time")
    try:
        yield counts
    finally:
        sampler.sample_end(found)
    counts += found


def serve(prepare):
    """`prepare(case)` gives a function that builds: `build()` gives a function that runs, `run()` the result (an array,
    or what has __array__). What `build` and the first `run` take is the time to the first result."""
    import numpy as np

    answers = os.fdopen(os.dup(1), "w")  # what a peer prints by itself must not come between
    os.dup2(2, 1)
    last, run, first, peaks = None, None, None, {}
    for line in sys.stdin:
        request = json.loads(line)
        case = request["case"]
        try:
            before = None
            if case != last:
                last = run = None
                _forget_peak()
                before = _status("VmRSS")
                build = prepare(case)
                cpu_begin, begin = time.process_time(), time.perf_counter()
                run = build()
                run()
                first = (time.perf_counter() - begin) * 1e3, (time.process_time() - cpu_begin) * 1e3
                last = case
            with sampled(request.get("sampler")) as counts:
                wall, cpu = measure(run, request["iterations"], request["budget"])
            result = np.asarray(run())
            head = result.astype(np.float64).ravel()[:8]
            if "result" in request:
                np.save(request["result"], result)
            answer = {"case": case, "times_ms": wall, "cpu_ms": cpu, "first_ms": first[0],
                      "first_cpu_ms": first[1], "head": head.tolist()}
            if counts:
                answer["instructions"] = counts
            if before is not None and (peak := _status("VmHWM")) is not None:
                peaks[case] = max(0.0, peak - before)
            if case in peaks:
                answer["peak_mib"] = peaks[case]
        except Exception as error:  # a peer may fail in any way; the others go on
            last = None
            answer = {"case": case, "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)
