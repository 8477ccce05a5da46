"""A residual network (He et al. 2016) with group norm (Wu, He 2018). Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/resnet.py [--jax]
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

draw = numpy.random.default_rng(9)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

x = normal(16, 3, 16, 16, scale=0.5)
t = (numpy.arange(16) % 2).astype("int32")
x[t == 1, 0] += 0.5
kernel = lambda a, b: normal(b, a, 3, 3, scale=(9 * a) ** -0.5)
norm = lambda c: {"g": numpy.ones((c, 1, 1), "float32"), "b": numpy.zeros((c, 1, 1), "float32")}
block = lambda c: {"a": kernel(c, c), "na": norm(c), "b": kernel(c, c), "nb": norm(c)}
params = {"stem": kernel(3, 16), "first": block(16), "down": kernel(16, 32), "second": block(32), "head": normal(32, 2, scale=0.2)}
batch_of = lambda i: (x, t)


def normed(x, p):
    n, c, h, w = x.shape
    groups = np.reshape(x, (n, 4, -1))
    groups = (groups - np.mean(groups, -1, keepdims=True)) / np.sqrt(np.var(groups, -1, keepdims=True) + 1e-5)
    return np.reshape(groups, x.shape) * p["g"] + p["b"]


def residual(x, p):
    y = lib.nn.relu(normed(lib.lax.conv(x, p["a"], (1, 1), "SAME"), p["na"]))
    return lib.nn.relu(x + normed(lib.lax.conv(y, p["b"], (1, 1), "SAME"), p["nb"]))


def loss(params, batch):
    x, t = batch
    x = residual(lib.lax.conv(x, params["stem"], (1, 1), "SAME"), params["first"])
    x = residual(lib.lax.conv(x, params["down"], (2, 2), "SAME"), params["second"])
    logits = lib.nn.log_softmax(np.mean(x, axis=(2, 3)) @ params["head"])
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
