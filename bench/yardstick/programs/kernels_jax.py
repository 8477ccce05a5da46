"""The kernels in JAX, compiled by XLA."""

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


def layer_norm(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def attention(q, k, v):
    return jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * np.float32(q.shape[-1] ** -0.5), -1) @ v


FUNCTIONS = {
    "gemm": lambda a, b: a @ b,
    "linear": lambda a, b: a @ b,
    "softmax": lambda a: jax.nn.softmax(a, -1),
    "layernorm": layer_norm,
    "ewchain": lambda x: jax.nn.gelu(x * 1.5 + 0.5, approximate=False) * x - jax.nn.relu(x),
    "sdpa": attention,
    "conv3x3": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
    "dwconv3x3": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=x.shape[1]),
    "sumrow": lambda x: x.sum(1),
    "sumcol": lambda x: x.sum(0),
}


def prepare(case):
    inputs, weights = suites.arrays_of(case)
    arrays = [jnp.asarray(a) for a in inputs + weights]

    def build():
        function = jax.jit(FUNCTIONS[suites.kind_of(case)])
        return lambda: function(*arrays).block_until_ready()

    return build


if __name__ == "__main__":
    serve.serve(prepare)
