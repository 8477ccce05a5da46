"""Hamiltonian Monte Carlo (Neal 2011) from a banana-shaped density; the energies stand for losses. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/hmc.py [--jax]
"""

import json
import sys
import time

import numpy

if "--jax" in sys.argv:
    import jax as lib
    import jax.numpy as np
else:
    import rlx as lib
    import rlx.numpy as np

draw = numpy.random.default_rng(8)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

moves, chances = normal(20, 64, 2), draw.uniform(0, 1, (20, 64)).astype("float32")  # drawn beforehand


def energy(q):
    return 0.5 * q[0] ** 2 + 2.0 * (q[1] - 0.5 * q[0] ** 2) ** 2


@lib.jit
def sample(q, p, chance):
    """One step of 64 chains: ten leaps, and the choice whether to stay."""
    gradient = lib.vmap(lib.grad(energy))
    total = lambda q, p: lib.vmap(energy)(q) + 0.5 * np.sum(p * p, axis=-1)
    h = 0.12

    def leap(_, state):
        q, p = state
        p = p - h / 2 * gradient(q)
        q = q + h * p
        return q, p - h / 2 * gradient(q)

    there, faster = lib.lax.fori_loop(0, 10, leap, (q, p))
    taken = np.log(chance) < total(q, p) - total(there, faster)
    q = np.where(taken[:, None], there, q)
    return q, np.mean(lib.vmap(energy)(q))


def main():
    q, losses, times = np.asarray(normal(64, 2)), [], []
    for p, chance in zip(moves, chances):
        start = time.perf_counter()
        q, value = sample(q, p, chance)
        losses.append(float(value))
        times.append(time.perf_counter() - start)
    print(json.dumps({"losses": losses, "first_ms": times[0] * 1e3, "step_ms": min(times[1:]) * 1e3}))


main()
