"""all-MiniLM-L6-v2 in JAX, compiled by XLA with the weights as constants."""

import os

from yardstick import serve

THREADS, _ = serve.threads_and_variant()
os.environ["JAX_PLATFORMS"] = "cpu"
if THREADS == 1:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import minilm_weights  # noqa: E402

WEIGHTS = {name: jnp.asarray(w) for name, w in minilm_weights.load().items()}


def linear(name, x):
    return x @ WEIGHTS[name + ".weight"].T + WEIGHTS[name + ".bias"]


def norm(name, x):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * WEIGHTS[name + ".weight"] + WEIGHTS[name + ".bias"]


def net(ids, mask, types):
    batch, length = ids.shape
    words, places, kinds = (WEIGHTS[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
    x = norm("embeddings.LayerNorm", words[ids] + places[:length] + kinds[types])
    keep = mask.astype(jnp.float32)
    bias = ((1 - keep) * -1e9)[:, None, None, :]
    for layer in range(suites.ENCODERS["minilm"][0]):
        p = f"encoder.layer.{layer}."
        q, k, v = (linear(f"{p}attention.self.{n}", x).reshape(batch, length, 12, 32).transpose(0, 2, 1, 3)
                   for n in ("query", "key", "value"))  # fmt: skip
        mixed = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * np.float32(32**-0.5) + bias, -1) @ v
        mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(p + "attention.output.LayerNorm", x + linear(p + "attention.output.dense", mixed))
        inner = jax.nn.gelu(linear(p + "intermediate.dense", x), approximate=False)
        x = norm(p + "output.LayerNorm", x + linear(p + "output.dense", inner))
    x = (x * keep[:, :, None]).sum(1) / jnp.maximum(keep.sum(1, keepdims=True), 1e-9)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def prepare(case):
    inputs = [jnp.asarray(a.astype(np.int32)) for a in suites.minilm_inputs(case).values()]

    def build():
        function = jax.jit(net)
        return lambda: function(*inputs).block_until_ready()

    return build


if __name__ == "__main__":
    serve.serve(prepare)
