"""A variational autoencoder (Kingma, Welling 2014) of noisy sines. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/vae.py [--jax]
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

draw = numpy.random.default_rng(4)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

phase = draw.uniform(0, 6.28, (64, 1))
x = (0.5 + 0.4 * numpy.sin(numpy.linspace(0, 6.28, 32) + phase)).astype("float32")
dense = lambda a, b: {"w": normal(a, b, scale=a**-0.5), "b": numpy.zeros(b, "float32")}
params = {"encoder": dense(32, 64), "mean": dense(64, 2), "log_variance": dense(64, 2), "decoder": dense(2, 64), "out": dense(64, 32)}
noise = normal(20, 64, 2)  # drawn beforehand, so that both programs see the same numbers
batch_of = lambda i: (x, noise[i])


def loss(params, batch):
    x, noise = batch
    linear = lambda x, p: x @ p["w"] + p["b"]
    h = np.tanh(linear(x, params["encoder"]))
    mean, log_variance = linear(h, params["mean"]), linear(h, params["log_variance"])
    z = mean + np.exp(0.5 * log_variance) * noise
    logits = linear(np.tanh(linear(z, params["decoder"])), params["out"])
    reconstruction = np.sum(np.maximum(logits, 0) - logits * x + np.log1p(np.exp(-np.abs(logits))), axis=-1)
    divergence = -0.5 * np.sum(1 + log_variance - mean**2 - np.exp(log_variance), axis=-1)
    return np.mean(reconstruction + divergence)


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
