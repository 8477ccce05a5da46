"""Training in JAX, compiled by XLA, with Adam (rate 0.001). The workloads are those of train_torch.py; images have their
channels last."""

import os

from yardstick import serve

THREADS, _ = serve.threads_and_variant()
os.environ["JAX_PLATFORMS"] = "cpu"
if THREADS == 1:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from yardstick.programs import digits  # noqa: E402

random = np.random.default_rng(0)


def uniform(inputs, *shape):
    return jnp.asarray(random.uniform(-1, 1, shape).astype(np.float32) / inputs**0.5)


def linear(inputs, outputs):
    return {"w": uniform(inputs, inputs, outputs), "b": jnp.zeros(outputs)}


def apply(p, x):
    return x @ p["w"] + p["b"]


def norm_params():
    return {"gamma": jnp.ones(256), "beta": jnp.zeros(256)}


def norm(p, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p["gamma"] + p["beta"]


def convolve(x, w, b):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def params_of(case):
    if case == "train_mlp":
        return [linear(784, 256), linear(256, 128), linear(128, 10)]
    if case == "train_cnn":
        return {"w1": uniform(9, 3, 3, 1, 16), "b1": jnp.zeros(16), "w2": uniform(144, 3, 3, 16, 32), "b2": jnp.zeros(32), "f": linear(1568, 10)}
    layers = [{"n1": norm_params(), "n2": norm_params(), "qkv": linear(256, 768), "out": linear(256, 256),
               "up": linear(256, 1024), "down": linear(1024, 256)} for _ in range(4)]  # fmt: skip
    words, places = (jnp.asarray(random.standard_normal((n, 256), np.float32)) for n in (1000, 128))
    return {"words": words, "places": places * 0.02, "norm": norm_params(), "head": linear(256, 10), "layers": layers}


def net(case, p, x):
    relu = jax.nn.relu
    if case == "train_mlp":
        return apply(p[2], relu(apply(p[1], relu(apply(p[0], x)))))
    if case == "train_cnn":
        x = pool(relu(convolve(x.reshape(-1, 28, 28, 1), p["w1"], p["b1"])))
        x = pool(relu(convolve(x, p["w2"], p["b2"])))
        return apply(p["f"], x.reshape(x.shape[0], -1))
    x = p["words"][x] + p["places"]
    for layer in p["layers"]:
        batch, length, width = x.shape
        q, k, v = (t.reshape(batch, length, 8, 32).transpose(0, 2, 1, 3) for t in jnp.split(apply(layer["qkv"], norm(layer["n1"], x)), 3, -1))
        mixed = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * np.float32(32**-0.5), -1) @ v
        x = x + apply(layer["out"], mixed.transpose(0, 2, 1, 3).reshape(batch, length, width))
        x = x + apply(layer["down"], jax.nn.gelu(apply(layer["up"], norm(layer["n2"], x)), approximate=False))
    return apply(p["head"], norm(p["norm"], x).mean(1))


def step_of(case):
    def loss(p, x, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(net(case, p, x)), labels[:, None], 1).mean()

    def step(p, m, v, t, x, labels):
        value, gradient = jax.value_and_grad(loss)(p, x, labels)
        t, tree = t + 1, jax.tree.map
        m = tree(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
        v = tree(lambda a, g: 0.999 * a + 0.001 * g * g, v, gradient)
        moved = tree(lambda q, a, b: q - 1e-3 * (a / (1 - 0.9**t)) / (jnp.sqrt(b / (1 - 0.999**t)) + 1e-8), p, m, v)
        return moved, m, v, t, value

    return jax.jit(step, donate_argnums=(0, 1, 2))


def prepare(case):
    data = [digits.encoder_batch()] if case == "train_encoder" else digits.batches(*digits.load())
    data = [(jnp.asarray(x if x.dtype == np.float32 else x.astype(np.int32)), jnp.asarray(labels.astype(np.int32))) for x, labels in data]

    def build():
        step, p = step_of(case), params_of(case)
        state = [p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.float32(0)]

        def run():
            for x, labels in data:
                *state[:], loss = step(*state, x, labels)
            return loss.block_until_ready().reshape(1)

        return run

    return build


if __name__ == "__main__":
    serve.serve(prepare)
