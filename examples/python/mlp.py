"""A multilayer perceptron that tells two spirals apart. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/mlp.py [--jax]
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

draw = numpy.random.default_rng(0)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

angle = numpy.linspace(0, 9, 200, dtype="float32")
spiral = lambda turn: numpy.stack([angle * numpy.cos(angle + turn), angle * numpy.sin(angle + turn)], 1) / 9
x = numpy.concatenate([spiral(0), spiral(numpy.pi)]).astype("float32")
t = numpy.repeat(numpy.int32([0, 1]), 200)
params = [{"w": normal(a, b, scale=a**-0.5), "b": numpy.zeros(b, "float32")} for a, b in ((2, 64), (64, 64), (64, 2))]
batch_of = lambda i: (x, t)


def loss(params, batch):
    x, t = batch
    for layer in params[:-1]:
        x = np.tanh(x @ layer["w"] + layer["b"])
    logits = lib.nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"])
    return -np.mean(np.take_along_axis(logits, t[:, None], axis=1))


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
    params, state = adam(params, gradient, state, 0.003)
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
