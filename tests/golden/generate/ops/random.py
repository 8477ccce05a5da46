"""Random numbers: those of jax.random, both with jax_threefry_partitionable and without; Philox by Random123's definition
in Python integers, checked against the vectors that Random123 publishes."""
import contextlib

import jax
import jax.numpy as jnp
import numpy as np

from .case import *
from .derivative import by_jax

KEYS = {"zero": 0, "one": 1, "large": 0x123456789ABCDEF, "ones": 2**64 - 1}


def philox_block(counter, key):
    """Random123, philox.h: Philox 4x32 of 10 rounds."""
    k0, k1 = key
    for i in range(10):
        if i:
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [p1 // 2**32 ^ counter[1] ^ k0, p1 % 2**32, p0 // 2**32 ^ counter[3] ^ k1, p0 % 2**32]
    return counter


# Random123, tests/kat_vectors, "philox4x32 10"
for counter, key, wanted in (
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])):
    assert philox_block(counter, key) == wanted


def philox(key, dims, dtype):
    count = int(np.prod(dims, dtype=np.int64))
    blocks = (count * dtype.itemsize + 15) // 16
    words = [w for n in range(blocks) for w in philox_block([n % 2**32, n >> 32, 0, 0], [int(k) for k in key])]
    return np.array(words, u32).view(np.uint8)[:count * dtype.itemsize].copy().view(dtype).reshape(dims)


@contextlib.contextmanager
def partitionable(value):
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", value)
    try:
        yield
    finally:
        jax.config.update("jax_threefry_partitionable", before)


def key_of(seed):
    return np.asarray(jax.random.key_data(jax.random.key(np.uint64(seed), impl="threefry2x32")))


def wrapped(key):
    return jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")


def both_forms(f, case, op, inputs, function, source, **attributes):
    """`function()` with JAX's newer and older counters."""
    for algorithm, value in (("threefry", True), ("threefry_original", False)):
        with partitionable(value):
            outputs = function()
        outputs = [np.asarray(y) for y in (outputs if isinstance(outputs, tuple) else (outputs,))]
        named = {"original": not value} if op == "rng_split" else {"algorithm": algorithm}
        f.add(f"{case}_{algorithm}", op, inputs, outputs, f"{source}, jax_threefry_partitionable={value}", **named, **attributes)


def bits(f):
    for name, seed in KEYS.items():
        key = key_of(seed)
        for dims, dtype in (((5,), u32), ((3, 4), u32), ((7,), u64), ((9,), u16), ((10, 3), u8)):
            tag = f"{name}_{NAMES[dtype][0]}_{'x'.join(map(str, dims))}"
            both_forms(f, f"bits_{tag}", "rng_bits", [key], lambda: jax.random.bits(wrapped(key), dims, dtype), "jax.random.bits",
                       dims=list(dims), dtype=dtype)
            f.add(f"bits_{tag}_philox", "rng_bits", [key], [philox(key, dims, dtype)], "Random123's definition of Philox 4x32-10 in Python integers",
                  dims=list(dims), dtype=dtype)
    key = key_of(77)
    for dims in ((), (1,), (2, 0), (1001,)):
        both_forms(f, f"bits_dims_{'x'.join(map(str, dims)) or 'none'}", "rng_bits", [key], lambda: jax.random.bits(wrapped(key), dims, u32),
                   "jax.random.bits", dims=list(dims))
    keys = np.stack([key_of(s) for s in (3, 4, 5)])
    both_forms(f, "bits_of_keys", "rng_bits", [keys], lambda: jax.vmap(lambda k: jax.random.bits(wrapped(k), (4,), u32))(keys),
               "jax.random.bits under vmap", dims=[4])


def keys(f):
    for name, seed in KEYS.items():
        key = key_of(seed)
        for dims in ((2,), (3, 2), (1,)):
            both_forms(f, f"split_{name}_{'x'.join(map(str, dims))}", "rng_split", [key],
                       lambda: jax.random.key_data(jax.random.split(wrapped(key), dims)), "jax.random.split", dims=list(dims))
        for data in (0, 1, 0xFFFFFFFF, 123456789):
            f.add(f"fold_in_{name}_{data}", "fold_in", [key, np.array(data, u32)], [jax.random.key_data(jax.random.fold_in(wrapped(key), np.uint32(data)))],
                  "jax.random.fold_in")


def draws(f):
    key = key_of(2024)
    k = wrapped(key)
    for dtype in (f32, f64, f16, bf16):
        tag = NAMES[dtype][0]
        both_forms(f, f"uniform_{tag}", "rng_uniform", [key], lambda: jax.random.uniform(k, (3, 5), dtype), "jax.random.uniform", dims=[3, 5], dtype=dtype)
    for dtype in (f32, f64):
        tag = NAMES[dtype][0]
        both_forms(f, f"uniform_range_{tag}", "rng_uniform", [key], lambda: jax.random.uniform(k, (17,), dtype, -3, 5), "jax.random.uniform",
                   dims=[17], dtype=dtype, low=-3.0, high=5.0)
        both_forms(f, f"normal_{tag}", "rng_normal", [key], lambda: jax.random.normal(k, (4, 25), dtype), "jax.random.normal", dims=[4, 25], dtype=dtype)
        both_forms(f, f"normal_scaled_{tag}", "rng_normal", [key], lambda: 2 + 3 * jax.random.normal(k, (9,), dtype), "2 + 3 jax.random.normal",
                   dims=[9], dtype=dtype, mean=2.0, scale=3.0)
        both_forms(f, f"truncated_normal_{tag}", "rng_truncated_normal", [key], lambda: jax.random.truncated_normal(k, -1.0, 2.5, (40,), dtype),
                   "jax.random.truncated_normal", dims=[40], dtype=dtype, lower=-1.0, upper=2.5)
    for dtype, low, high in ((i32, 0, 10), (i32, -5, 1_000_000_007), (i64, -10**15, 10**15), (u8, 0, 256), (u8, 3, 250), (i8, -128, 127),
                             (i16, -300, 300), (u16, 0, 65536), (u32, 1, 2**32 - 1), (u64, 7, 2**62)):
        both_forms(f, f"randint_{NAMES[dtype][0]}_{low}_{high}".replace("-", "m"), "rng_randint", [key],
                   lambda: jax.random.randint(k, (30,), low, high, dtype), "jax.random.randint", dims=[30], dtype=dtype, low=low, high=high)
    p = uniform("bernoulli_p", (4, 1), 0, 1)
    both_forms(f, "bernoulli", "rng_bernoulli", [key, p], lambda: jax.random.bernoulli(k, p, (4, 20)), "jax.random.bernoulli", dims=[4, 20])
    logits = normal("categorical", (5, 7), f32, 2)
    both_forms(f, "categorical", "rng_categorical", [key, logits], lambda: jax.random.categorical(k, logits).astype(i32), "jax.random.categorical")
    both_forms(f, "categorical_axis", "rng_categorical", [key, logits], lambda: jax.random.categorical(k, logits, axis=0, shape=(6, 7)).astype(i32),
               "jax.random.categorical", axis=0, dims=[6])
    for size in (1, 2, 10, 1000, 3000):
        both_forms(f, f"permutation_{size}", "rng_permutation", [key], lambda: jax.random.permutation(k, jnp.arange(size, dtype=i32)),
                   "jax.random.permutation", size=size)


def dropout(f):
    key = key_of(5)
    x = normal("dropout", (6, 5))
    for rate in (0.1, 0.5):
        keep = 1 - rate
        mask = jax.random.bernoulli(wrapped(key), np.float32(keep), x.shape)
        f.add_derivative(f"dropout_{rate}".replace(".", "_"), "dropout", [key, x], by_jax, lambda k, x: jnp.where(mask, x / keep, 0),
                         "where(jax.random.bernoulli, x / keep, 0) in f64", algorithm="threefry", rate=rate)


def sampled(logits, u, top_k, top_p, temperature):
    """The definition, in a loop."""
    tokens = []
    for row, r in zip(logits.astype(f64), u.astype(f64)):
        z = row / max(temperature, 1e-6)
        if top_k:
            z = np.where(z >= np.sort(z)[-min(top_k, len(z))], z, -np.inf)
        p = np.exp(z - z.max())
        p /= p.sum()
        if top_p < 1:
            order = np.argsort(-p, kind="stable")
            kept = int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1
            p[order[kept:]] = 0
            p /= p.sum()
        reached = np.cumsum(p)
        tokens.append(next(i for i in range(len(p)) if r * reached[-1] < reached[i]))
    return np.array(tokens, i32)


def sampling(f):
    key = key_of(99)
    for case, top_k, top_p, temperature in (("plain", 0, 1.0, 1.0), ("cold", 0, 1.0, 0.1), ("greedy", 0, 1.0, 0.0), ("top_k", 3, 1.0, 1.0),
                                            ("top_1", 1, 1.0, 1.0), ("top_p", 0, 0.7, 1.0), ("top_p_0", 0, 0.0, 1.0), ("both", 5, 0.8, 0.7)):
        logits = normal(f"sample_{case}", (50, 12), f32, 2)
        u = np.asarray(jax.random.uniform(wrapped(key), (50,), f32))
        f.add(f"sample_{case}", "sample", [key, logits], [sampled(logits, u, top_k, top_p, temperature)],
              "the definition in a numpy loop, with jax.random.uniform", algorithm="threefry", top_k=top_k, top_p=top_p, temperature=temperature)
    ties = np.array([[1, 3, 3, 3, 0]] * 20, f32)
    u = np.asarray(jax.random.uniform(wrapped(key), (20,), f32))
    f.add("sample_ties", "sample", [key, ties], [sampled(ties, u, 2, 1, 1)], "the definition in a numpy loop, with jax.random.uniform", algorithm="threefry", top_k=2)


def cases():
    f = Family("random")
    with partitionable(True):
        bits(f), keys(f), draws(f), dropout(f), sampling(f)
    return [f]
