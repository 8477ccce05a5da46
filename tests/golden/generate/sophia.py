"""Fifty steps of Sophia as published (Liu et al., ICLR 2024, algorithms 1 to 3), in NumPy and f64 with jax.random's numbers:
tests/golden/sophia/trajectories.safetensors holds the weights after each step, "hutchinson" on the linear regression of training.py,
"gauss_newton_bartlett" on a softmax regression.

usage: sophia.py
"""
import jax
import numpy as np

import recorded
from ops.case import f32, f64, write_safetensors
from training import STEPS, T, X

SEED, EVERY, BETA1, BETA2, GAMMA, EPSILON, DECAY = 7, 5, 0.9, 0.95, 0.05, 1e-15, 0.01


def key_of(step):
    key = jax.random.fold_in(jax.random.key(SEED), np.uint32(step))
    return jax.random.fold_in(key, np.uint32(0xFFFFFFFF))


def steps(w, gradient, estimate, lr):
    m, h, path = np.zeros_like(w), np.zeros_like(w), []
    for t in range(1, STEPS + 1):
        m = BETA1 * m + (1 - BETA1) * gradient(w)
        if t % EVERY == 1:
            h = BETA2 * h + (1 - BETA2) * estimate(w, key_of(t))
        w = w - lr * DECAY * w
        w = w - lr * np.clip(m / np.maximum(GAMMA * h, EPSILON), -1, 1)
        path.append(w.ravel().copy())
    return np.stack(path)


def hutchinson():
    x, t = X.astype(f64), T.astype(f64)
    hessian = 2 * x.T @ x

    def estimate(w, key):
        u = np.asarray(jax.random.normal(jax.random.fold_in(key, np.uint32(0)), (3, 1), np.float32), f64)
        return u * (hessian @ u)

    return steps(np.full((3, 1), np.float32(0.1), f64), lambda w: 2 * x.T @ (x @ w - t), estimate, 0.05)


def gauss_newton_bartlett():
    x, labels = X.astype(f64), np.arange(8) % 3

    def by_weights(w, wanted):
        e = np.exp(x @ w - np.max(x @ w, axis=1, keepdims=True))
        return x.T @ (e / e.sum(1, keepdims=True) - np.eye(3)[wanted]) / 8

    def estimate(w, key):
        drawn = np.asarray(jax.random.categorical(key, (x @ w).astype(f32), axis=-1))
        return 8 * by_weights(w, drawn) ** 2

    return steps(np.full((3, 3), np.float32(0.1), f64), lambda w: by_weights(w, labels), estimate, 0.02)


def main():
    paths = {"hutchinson": hutchinson(), "gauss_newton_bartlett": gauss_newton_bartlett()}
    out = recorded.folder("sophia")
    write_safetensors(out / "trajectories.safetensors", paths)
    recorded.write_versions(out, "sophia.py", ["numpy", "jax"], paths=sorted(paths))
    for name, path in paths.items():
        print(name, path[0], path[-1])


if __name__ == "__main__":
    main()
