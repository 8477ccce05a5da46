"""A Gaussian process whose hyperparameters maximize the marginal likelihood (Rasmussen, Williams 2006, 5.4). Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/gaussian_process.py [--jax]
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

draw = numpy.random.default_rng(5)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

x = numpy.sort(draw.uniform(-3, 3, 40)).astype("float32")
y = (numpy.sin(2 * x) + 0.1 * draw.normal(size=40)).astype("float32")
params = {"length": np.float32(0.0), "scale": np.float32(0.0), "noise": np.float32(-1.0)}  # logarithms
batch_of = lambda i: (x, y)


def loss(params, batch):
    x, y = batch
    length, scale, noise = (np.exp(params[name]) for name in ("length", "scale", "noise"))
    k = scale**2 * np.exp(-0.5 * ((x[:, None] - x[None]) / length) ** 2) + (noise**2 + 1e-4) * np.eye(x.shape[0])
    factor = np.linalg.cholesky(k)
    a = np.linalg.solve(k, y)
    return 0.5 * y @ a + np.sum(np.log(np.diagonal(factor))) + 0.5 * x.shape[0] * float(numpy.log(2 * numpy.pi))


def adam(params, gradient, state, rate):
    """Kingma, Ba 2015."""
    t, m, v = state
    t = t + 1
    m = lib.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
    v = lib.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)
    step = lambda p, m, v: p - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return lib.tree.map(step, params, m, v), (t, m, v)


@lib.jit
def update(params, state, batch):
    value, gradient = lib.value_and_grad(loss)(params, batch)
    params, state = adam(params, gradient, state, 0.1)
    return params, state, value


def main():
    zeros = lambda: lib.tree.map(lambda p: numpy.zeros(p.shape, "float32"), params)
    trained, state, losses, times = params, (np.float32(0), zeros(), zeros()), [], []
    for i in range(20):
        start = time.perf_counter()
        trained, state, value = update(trained, state, batch_of(i))
        losses.append(float(value))
        times.append(time.perf_counter() - start)
    print(json.dumps({"losses": losses, "first_ms": times[0] * 1e3, "step_ms": min(times[1:]) * 1e3}))


main()
