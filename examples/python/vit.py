"""A vision transformer over patches of small images. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/vit.py [--jax]
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

draw = numpy.random.default_rng(3)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

HEADS, WIDTH = 4, 32
norm = lambda: {"g": numpy.ones(WIDTH, "float32"), "b": numpy.zeros(WIDTH, "float32")}
layer = lambda: {**{k: normal(WIDTH, WIDTH, scale=WIDTH**-0.5) for k in "qkvo"}, "n1": norm(), "n2": norm(),
                 "up": normal(WIDTH, 4 * WIDTH, scale=WIDTH**-0.5), "down": normal(4 * WIDTH, WIDTH, scale=0.5 * WIDTH**-0.5)}
PATCH = 4
x = normal(16, 16, 16, scale=0.5)
t = (numpy.arange(16) % 2).astype("int32")
x[t == 1, :8, :8] += 1.0
params = {"patch": normal(PATCH * PATCH, WIDTH, scale=0.25), "places": normal(16, WIDTH, scale=0.1), "layers": [layer(), layer()], "norm": norm(),
          "head": normal(WIDTH, 2, scale=0.2)}
batch_of = lambda i: (x, t)


def normed(x, p):
    d = x - np.mean(x, -1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, -1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def attention(x, p, mask=None):
    n, length, width = x.shape
    heads = lambda y: np.transpose(np.reshape(y, (n, length, HEADS, width // HEADS)), (0, 2, 1, 3))
    q, k, v = (heads(x @ p[name]) for name in ("q", "k", "v"))
    scores = q @ np.swapaxes(k, -1, -2) / (width // HEADS) ** 0.5
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    y = lib.nn.softmax(scores, axis=-1) @ v
    return np.reshape(np.transpose(y, (0, 2, 1, 3)), x.shape) @ p["o"]


def block(x, p, mask=None):
    x = x + attention(normed(x, p["n1"]), p, mask)
    return x + lib.nn.gelu(normed(x, p["n2"]) @ p["up"]) @ p["down"]


def loss(params, batch):
    x, t = batch
    n = x.shape[0]
    patches = np.transpose(np.reshape(x, (n, 4, PATCH, 4, PATCH)), (0, 1, 3, 2, 4))
    x = np.reshape(patches, (n, 16, PATCH * PATCH)) @ params["patch"] + params["places"]
    for p in params["layers"]:
        x = block(x, p)
    logits = lib.nn.log_softmax(np.mean(normed(x, params["norm"]), axis=1) @ params["head"])
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
