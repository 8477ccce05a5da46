"""A convolutional network that tells bars from crosses. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/cnn.py [--jax]
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

draw = numpy.random.default_rng(1)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

x = normal(32, 1, 16, 16, scale=0.3)
t = (numpy.arange(32) % 2).astype("int32")
x[:, 0, 8] += 1.0
x[t == 1, 0, :, 8] += 1.0
params = {"a": normal(8, 1, 3, 3, scale=0.3), "b": normal(16, 8, 3, 3, scale=0.1), "w": normal(16 * 4 * 4, 2, scale=0.06)}
batch_of = lambda i: (x, t)


def pooled(x):
    n, c, h, w = x.shape
    return np.max(np.reshape(x, (n, c, h // 2, 2, w // 2, 2)), axis=(3, 5))


def loss(params, batch):
    x, t = batch
    x = pooled(lib.nn.relu(lib.lax.conv(x, params["a"], (1, 1), "SAME")))
    x = pooled(lib.nn.relu(lib.lax.conv(x, params["b"], (1, 1), "SAME")))
    logits = lib.nn.log_softmax(np.reshape(x, (x.shape[0], -1)) @ params["w"])
    return -np.mean(np.sum(logits * lib.nn.one_hot(t, 2), axis=1))


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
