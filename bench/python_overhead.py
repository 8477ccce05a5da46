#!/usr/bin/env python3
"""What Python costs on top of the runs themselves: tracing 1,000 ops, one call of a jitted function, and functions called
at once, without jit.

    PYTHONPATH=bindings/python RLX_LIBRARY=build/release/lib/librlx_c.so .deps/venv/bin/python bench/python_overhead.py

CPU time of this thread, the least of many repetitions: other work on the machine does not count. The call's overhead is
that of the whole call less that of the C call in it, on arrays of four elements. Calls at once are on 8 elements; where JAX is
installed its own stand beside them, and each of its calls waits for the result.
"""

import argparse
import ctypes
import json
import time

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import _graph


def least(f, inner, repetitions):
    """CPU time of one f(), in seconds."""
    f()
    best = float("inf")
    for _ in range(repetitions):
        start = time.thread_time()
        for _ in range(inner):
            f()
        best = min(best, (time.thread_time() - start) / inner)
    return best


def trace_of(step, count):
    def f(x):
        for _ in range(count):
            x = step(x)
        return x
    return lambda: rlx.jit(f).lower(np.ones((3, 4), np.float32))


def call_overhead(f, *args):
    whole = least(lambda: f(*args), 200, 60)
    compiled = f.compiled()
    # The same C call with everything made before.
    given = [np.ascontiguousarray(x) for x in rlx.tree.leaves(args)]
    made = [np.empty(dims, dtype) for dims, dtype in compiled._made]
    buffers = compiled._given(*[v for a in given for v in (_graph.address(a), a.nbytes)])
    room = compiled._room(*[v for a in made for v in (_graph.address(a), a.nbytes)])
    error = ctypes.c_void_p()
    bare = least(lambda: _graph.lib.rlx_compiled_call(compiled.handle, buffers, len(given), room, len(made), ctypes.byref(error)), 200, 60)
    return whole, bare


def at_once(numpy, matrix, x, wait=lambda value: value):
    """CPU time of calls without jit, by name."""
    calls = {"add": lambda: x + x, "sin_times_2_plus_1": lambda: numpy.sin(x) * 2 + 1, "sum": lambda: numpy.sum(x),
             "mean_of_rows": lambda: numpy.mean(matrix, axis=1), "matmul": lambda: matrix @ matrix, "element": lambda: x[2]}
    return {f"at_once_{name}_us": least(lambda: wait(f()), 200, 15) * 1e6 for name, f in calls.items()}


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    result = {"trace_1000_tanh_ms": least(trace_of(rnp.tanh, 1000), 1, 15) * 1e3,
              "trace_1000_add_of_arrays_ms": least(trace_of(lambda x: x + x, 1000), 1, 15) * 1e3,
              "trace_1000_add_of_number_ms": least(trace_of(lambda x: x + 1.0, 1000), 1, 8) * 1e3}
    x = np.ones(4, np.float32)
    calls = {"one_array": (rlx.jit(lambda x: x + 1), x), "three_arrays": (rlx.jit(lambda x, y, z: x + y * z), x, x, x),
             "dict_of_two": (rlx.jit(lambda p: {"s": p["w"] + p["b"]}), {"w": x, "b": x})}
    for name, (f, *args) in calls.items():
        whole, bare = call_overhead(f, *args)
        result[f"call_{name}_us"] = whole * 1e6
        result[f"call_{name}_overhead_us"] = (whole - bare) * 1e6
    result |= at_once(rnp, rnp.ones((8, 8)), rnp.ones(8))
    try:
        import jax.numpy as jnp
    except ImportError:
        pass
    else:
        theirs = at_once(jnp, jnp.ones((8, 8)), jnp.ones(8), lambda value: value.block_until_ready())
        result |= {f"jax_{name}": value for name, value in theirs.items()}
    print(json.dumps({k: round(v, 2) for k, v in result.items()}))


main()
