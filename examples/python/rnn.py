"""A gated recurrent network (Cho et al. 2014) that adds the numbers it was told to. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/rnn.py [--jax]
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

draw = numpy.random.default_rng(7)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

values, marks = draw.uniform(0, 1, (64, 12)), numpy.zeros((64, 12))
marks[numpy.arange(64), draw.integers(0, 6, 64)] = 1
marks[numpy.arange(64), draw.integers(6, 12, 64)] = 1
x, t = numpy.stack([values, marks], -1).astype("float32"), (values * marks).sum(1).astype("float32")
gate = lambda: {"x": normal(2, 24, scale=0.7), "h": normal(24, 24, scale=0.2), "b": numpy.zeros(24, "float32")}
params = {"reset": gate(), "update": gate(), "new": gate(), "out": normal(24, scale=0.2)}
batch_of = lambda i: (x, t)


def loss(params, batch):
    x, t = batch
    of = lambda p, x, h: x @ p["x"] + h @ p["h"] + p["b"]

    def step(h, x):
        r, z = lib.nn.sigmoid(of(params["reset"], x, h)), lib.nn.sigmoid(of(params["update"], x, h))
        return (1 - z) * h + z * np.tanh(of(params["new"], x, r * h)), None

    h, _ = lib.lax.scan(step, np.zeros((x.shape[0], 24)), np.swapaxes(x, 0, 1))
    return np.mean((h @ params["out"] - t) ** 2)


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
    params, state = adam(params, gradient, state, 0.01)
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
