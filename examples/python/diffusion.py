"""A diffusion model (Ho, Jain, Abbeel 2020) of points on a ring, which learns to predict the noise. Runs with RLX; with `--jax` the same program runs with JAX.

    python examples/python/diffusion.py [--jax]
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

draw = numpy.random.default_rng(10)
normal = lambda *shape, scale=1.0: (draw.normal(size=shape) * scale).astype("float32")

angle = draw.uniform(0, 6.28, 256)
x = numpy.stack([numpy.cos(angle), numpy.sin(angle)], 1).astype("float32")
kept = numpy.cumprod(1 - numpy.linspace(1e-3, 0.2, 50)).astype("float32")
noise, steps = normal(20, 256, 2), draw.integers(0, 50, (20, 256)).astype("int32")  # drawn beforehand
params = [{"w": normal(a, b, scale=a**-0.5), "b": numpy.zeros(b, "float32")} for a, b in ((2 + 16, 64), (64, 64), (64, 2))]
batch_of = lambda i: (x, noise[i], steps[i])


def loss(params, batch):
    x, noise, step = batch
    share = np.asarray(kept)[step][:, None]
    blurred = np.sqrt(share) * x + np.sqrt(1 - share) * noise
    waves = step[:, None].astype("float32") * 2.0 ** -np.arange(8)
    y = np.concatenate([blurred, np.sin(waves), np.cos(waves)], axis=-1)
    for layer in params[:-1]:
        y = lib.nn.silu(y @ layer["w"] + layer["b"])
    return np.mean((y @ params[-1]["w"] + params[-1]["b"] - noise) ** 2)


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
