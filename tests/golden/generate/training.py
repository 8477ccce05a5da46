"""Fifty steps of each optimizer on a linear regression, in f64: tests/golden/training/trajectories.safetensors holds the weights after each
step. PyTorch and Optax step; Muon and Sophia are the published updates in NumPy (ops/optimizers.py has them).

usage: training.py
"""
import jax
import numpy as np
import optax
import torch

import recorded
from ops.case import f32, f64, write_safetensors
from ops.optimizers import muon

jax.config.update("jax_enable_x64", True)
STEPS = 50

# Loss = the sum of (x W - t)^2, as tests/train/problems.h has it: its numbers are f32.
X = (((7 * np.arange(24) + 1) % 11) / 11 - 0.5).astype(f32).reshape(8, 3)
T = (X.astype(f64) @ np.array([[0.5], [-1.0], [2.0]])).astype(f32)


def gradient(w):
    x, t = X.astype(f64), T.astype(f64)
    return 2 * x.T @ (x @ w - t)


def start():
    return np.full((3, 1), np.float32(0.1), f64)


def by_torch(make):
    p = torch.nn.Parameter(torch.tensor(start()))
    optimizer, path = make([p]), []
    for _ in range(STEPS):
        p.grad = torch.tensor(gradient(p.detach().numpy()))
        optimizer.step()
        path.append(p.detach().numpy().ravel().copy())
    return np.stack(path)


def by_optax(optimizer):
    w = start()
    state, path = optimizer.init(w), []
    for _ in range(STEPS):
        change, state = optimizer.update(gradient(w), state, w)
        w = w + np.asarray(change)
        path.append(w.ravel().copy())
    return np.stack(path)


def by_numpy(update, states, lr):
    w, path = start(), []
    kept = [np.zeros_like(w) for _ in range(states)]
    for step in range(1, STEPS + 1):
        w, *kept = update(w, gradient(w), lr, step, kept)
        path.append(w.ravel().copy())
    return np.stack(path)


def main():
    optim, lr = torch.optim, np.float32
    paths = {
        "sgd": by_torch(lambda p: optim.SGD(p, lr=0.2)),
        "sgd_momentum": by_torch(lambda p: optim.SGD(p, lr=0.05, momentum=0.9)),
        "sgd_nesterov": by_torch(lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)),
        "adam": by_torch(lambda p: optim.Adam(p, lr=0.1)),
        "adamw": by_torch(lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1)),
        "adagrad": by_torch(lambda p: optim.Adagrad(p, lr=0.5)),
        "rmsprop": by_torch(lambda p: optim.RMSprop(p, lr=0.02)),
        "rmsprop_centered": by_torch(lambda p: optim.RMSprop(p, lr=0.02, momentum=0.5, centered=True)),
        "adafactor": by_torch(lambda p: optim.Adafactor(p, lr=0.1, eps=(2.0 ** -23, 1e-3))),
        "lamb": by_optax(optax.lamb(0.05, weight_decay=0.01)),
        "lion": by_optax(optax.lion(0.02, b1=0.9, b2=0.99, weight_decay=0.01)),
        "muon": by_numpy(muon(), 1, 0.02),
        # Rates that change: the same descent under schedules.
        "linear": by_optax(optax.sgd(optax.linear_schedule(0.2, 0.02, 40))),
        "cosine": by_optax(optax.sgd(optax.warmup_cosine_decay_schedule(0.0, 0.2, 10, 40, 0.02))),
        "one_cycle": by_optax(optax.sgd(optax.cosine_onecycle_schedule(50, 0.2, 0.3, 25.0, 1e4))),
    }
    out = recorded.folder("training")
    write_safetensors(out / "trajectories.safetensors", paths)
    recorded.write_versions(out, "training.py", ["numpy", "torch", "jax", "optax"], paths=sorted(paths))
    for name, path in paths.items():
        print(f"{name}: {path[0]} ... {path[-1]}")


if __name__ == "__main__":
    main()
