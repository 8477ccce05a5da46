"""A neural ordinary differential equation (Chen et al. 2018): a field that is integrated by Runge and Kutta's method. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/neural_ode.py [--jax]
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

draw = numpy.random.default_rng(6)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

turn = numpy.linspace(0, 3, 16, dtype="float32")
wanted = numpy.stack([numpy.cos(turn), -numpy.sin(turn)], 1) * numpy.exp(-0.2 * turn)[:, None]
params = [{"w": normal(a, b, scale=a**-0.5), "b": numpy.zeros(b, "float32")} for a, b in ((2, 32), (32, 2))]
batch_of = lambda i: wanted.astype("float32")


def loss(params, wanted):
    field = lambda y: np.tanh(y @ params[0]["w"] + params[0]["b"]) @ params[1]["w"] + params[1]["b"]
    h = 0.2

    def step(y, _):
        a = field(y)
        b = field(y + h / 2 * a)
        c = field(y + h / 2 * b)
        d = field(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    _, path = lib.lax.scan(step, wanted[0], None, length=15)
    return np.mean((path - wanted[1:]) ** 2)


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
