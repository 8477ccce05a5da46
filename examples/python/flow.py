"""A normalizing flow of affine coupling layers (Dinh, Sohl-Dickstein, Bengio 2017) for two moons. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/flow.py [--jax]
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

draw = numpy.random.default_rng(11)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

angle = draw.uniform(0, 3.14, 256)
side = numpy.arange(256) % 2
x = numpy.stack([numpy.cos(angle) * (1 - 2 * side) + side, numpy.sin(angle) * (1 - 2 * side) + 0.5 * side], 1)
x = (x + 0.05 * draw.normal(size=x.shape)).astype("float32")
dense = lambda a, b, scale=1.0: {"w": normal(a, b, scale=scale * a**-0.5), "b": numpy.zeros(b, "float32")}
params = [{"hidden": dense(1, 32), "scale": dense(32, 1, 0.1), "shift": dense(32, 1, 0.1)} for _ in range(6)]
batch_of = lambda i: x


def loss(params, x):
    linear = lambda x, p: x @ p["w"] + p["b"]
    a, b, logdet = x[:, :1], x[:, 1:], 0.0
    for p in params:
        h = np.tanh(linear(a, p["hidden"]))
        scale = np.tanh(linear(h, p["scale"]))
        a, b = b * np.exp(scale) + linear(h, p["shift"]), a
        logdet = logdet + scale[:, 0]
    return np.mean(0.5 * (a[:, 0] ** 2 + b[:, 0] ** 2) + float(numpy.log(2 * numpy.pi)) - logdet)


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
