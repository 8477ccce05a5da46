#!/usr/bin/env python3
"""The nets of examples/mnist_mlp.toml and mnist_cnn.toml in PyTorch, on the same digits with the same hyperparameters, for their
accuracy to be compared with `rlx train`'s: three seeds each, and their mean. Order of the examples and initial values are
PyTorch's own.

    mnist_pytorch.py FOLDER [--seeds 3] [--shift 0] [--epochs N] [--net mlp] [--net cnn]      FOLDER: as scripts/fetch_mnist.py prints it
"""

import argparse
import pathlib
import time

import numpy as np
import torch
from torch import nn

BATCH, RATE, DECAY, EPOCHS = 64, 0.002, 0.01, {"mlp": 15, "cnn": 12}


def idx(path):
    data = path.read_bytes()
    shape = np.frombuffer(data, ">i4", data[3], 4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape).copy())


def net(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    pools = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(nn.Unflatten(1, (1, 28)), *pools, nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))


def shifted(images, most):
    """Each by up to `most` places up or down and left or right; zeros come in."""
    around = nn.functional.pad(images, (most,) * 4)
    down, right = torch.randint(0, 2 * most + 1, (2, len(images)))
    return torch.stack([around[i, d : d + 28, r : r + 28] for i, (d, r) in enumerate(zip(down, right))])


def accuracy(name, data, seed, shift, epochs):
    torch.manual_seed(seed)
    model, (x, t, test_x, test_t) = net(name), data
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2]}, {"params": vectors, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=DECAY)
    steps = epochs * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + np.cos(np.pi * step / steps)))
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(BATCH):
            images = shifted(x[batch], shift) if shift else x[batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), t[batch]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return (model(test_x).argmax(1) == test_t).float().mean().item()


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--shift", type=int, default=0)
    options.add_argument("--epochs", type=int)
    options.add_argument("--net", action="append", choices=list(EPOCHS))
    given = options.parse_args()
    torch.set_num_threads(1)
    x, test_x = (idx(given.folder / f"{part}-images-idx3-ubyte").float() / 255 for part in ("train", "t10k"))
    t, test_t = (idx(given.folder / f"{part}-labels-idx1-ubyte").long() for part in ("train", "t10k"))
    for name in given.net or EPOCHS:
        begin = time.process_time()
        found = [accuracy(name, (x, t, test_x, test_t), seed, given.shift, given.epochs or EPOCHS[name]) for seed in range(given.seeds)]
        print(f"{name}, shift {given.shift}: mean {100 * np.mean(found):.2f} %, {[f'{100 * a:.1f}' for a in found]}, "
              f"{(time.process_time() - begin) / given.seeds:.0f} s of processor time a seed", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
