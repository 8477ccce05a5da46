#!/usr/bin/env python3
"""Classifies real handwritten digits by covariance matrices, with a network whose layers stay on positive definite matrices.

    spd_digits.py [--epochs N] [--svg OUT.svg] [--least ACCURACY]

Each image of 8 by 8 becomes one covariance matrix of 13 numbers a pixel: where it is, how dark, and its derivatives (region
covariance, Tuzel, Porikli, Meer, ECCV 2006). SPDNet (Huang, Van Gool, AAAI 2017) reduces it by BiMap, floors its eigenvalues by
ReEig, takes its logarithm by LogEig, and ends in a linear layer. All gradients are RLX's; the BiMap weights keep orthonormal
rows by a QR after each step. Beside it: a linear classifier on the same matrices, trained in the same way.

Needs NumPy and the package `rlx` (bindings/python). Ends with exit code 1 below the accuracy of `--least`.
"""

import argparse
import pathlib
import sys
import time

import numpy as np

import rlx
import rlx.numpy as rnp

DATA = pathlib.Path(__file__).resolve().parent / "data/digits.npz"
CLASSES = 10


def covariances(images):
    """[n, 13, 13] f32: of the pixels' numbers, with a thousandth of the mean variance on the diagonal."""
    x = images / 16
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    at = lambda dy, dx: p[:, 1 + dy : 9 + dy, 1 + dx : 9 + dx]
    ix, iy = (at(0, 1) - at(0, -1)) / 2, (at(1, 0) - at(-1, 0)) / 2
    ixx, iyy = at(0, 1) - 2 * x + at(0, -1), at(1, 0) - 2 * x + at(-1, 0)
    ixy = (at(1, 1) - at(-1, 1) - at(1, -1) + at(-1, -1)) / 4
    gy, gx = (np.broadcast_to(g / 7 - 0.5, x.shape) for g in np.mgrid[:8, :8])
    numbers = np.stack([gx, gy, gx * gx, gx * gy, gy * gy, x, ix, iy, ixx, iyy, ixy, abs(ix), abs(iy)], -1).reshape(len(x), 64, -1)
    centered = numbers - numbers.mean(1, keepdims=True)
    c = np.einsum("npi,npj->nij", centered, centered) / 63
    size = c.shape[-1]
    return (c + np.eye(size) * (1e-3 * np.trace(c.mean(0)) / size)).astype(np.float32)


def flattened(x):
    """The upper triangles [n, k (k + 1) / 2]; off the diagonal times sqrt(2), so that inner products stay."""
    size = x.shape[-1]
    rows, columns = np.triu_indices(size)
    scale = np.where(rows == columns, 1, np.sqrt(2)).astype(np.float32)
    return rnp.take(rnp.reshape(x, (x.shape[0], size * size)), (rows * size + columns).astype(np.int32), axis=1) * scale


def spdnet(params, x):
    x = rlx.ops.reeig(rlx.ops.bimap(params["w1"], x), floor=1e-4)[0]
    x = rlx.ops.reeig(rlx.ops.bimap(params["w2"], x), floor=1e-4)[0]
    return flattened(rlx.ops.logeig(x, floor=1e-4)[0]) @ params["weight"] + params["bias"]


def linear(params, x):
    return flattened(x) @ params["weight"] + params["bias"]


def orthonormal_rows(w):
    q, r = np.linalg.qr(w.T)
    return (q * np.sign(np.diag(r))).T.astype(np.float32)


class Adam:
    def __init__(self, params, rate):
        self.rate, self.step = rate, 0
        self.mean = {k: np.zeros_like(v) for k, v in params.items()}
        self.square = {k: np.zeros_like(v) for k, v in params.items()}

    def __call__(self, params, gradients):
        self.step += 1
        moved = {}
        for name, value in params.items():
            g = np.asarray(gradients[name])
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * g
            self.square[name] = 0.999 * self.square[name] + 0.001 * g * g
            by = (self.mean[name] / (1 - 0.9**self.step)) / (np.sqrt(self.square[name] / (1 - 0.999**self.step)) + 1e-8)
            is_bimap = name in ("w1", "w2")
            moved[name] = (value - self.rate * (0.1 if is_bimap else 1) * by).astype(np.float32)
            if is_bimap:
                moved[name] = orthonormal_rows(moved[name])
        return moved


def train(name, model, params, rate, data, epochs, batch=32):
    """Returns what it predicts of the test images."""
    x, y, test_x, test_y = data

    @rlx.jit
    def step(params, x, y):
        def loss(params):
            scores = rlx.nn.log_softmax(model(params, x))
            return -rnp.mean(rnp.sum(scores * rlx.nn.one_hot(y, CLASSES), axis=-1))

        return rlx.value_and_grad(loss)(params)

    predict = rlx.jit(lambda params, x: rnp.argmax(model(params, x), axis=-1))
    accuracy = lambda x, y: float((np.asarray(predict(params, x)) == y).mean())
    move, order = Adam(params, rate), np.random.default_rng(1)
    begin = time.perf_counter()
    for epoch in range(1, epochs + 1):
        move.rate = rate * (1 + np.cos(np.pi * (epoch - 1) / epochs)) / 2
        shuffled, losses = order.permutation(len(x)), []
        for first in range(0, len(x) - batch + 1, batch):
            some = shuffled[first : first + batch]
            value, gradients = step(params, x[some], y[some])
            params = move(params, gradients)
            losses.append(float(value))
        print(f"{name:7} epoch {epoch:3}  loss {np.mean(losses):6.3f}  train {accuracy(x, y):6.2%}  test {accuracy(test_x, test_y):6.2%}", flush=True)
    seconds = time.perf_counter() - begin
    print(f"{name:7} {sum(v.size for v in params.values())} parameters, {seconds / max(epochs, 1):.2f} s an epoch", flush=True)
    return np.asarray(predict(params, test_x))


def svg(counts, title):
    """The confusion matrix as a picture: rows are the digits that were written, columns those that were read."""
    cell, left, top = 44, 60, 70
    size = cell * CLASSES
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + size + 20}" height="{top + size + 50}" font-family="sans-serif" text-anchor="middle">',
             '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left + size / 2}" y="24" font-size="16">{title}</text>',
             f'<text x="{left + size / 2}" y="{top + size + 36}" font-size="13">read as</text>',
             f'<text transform="translate(18 {top + size / 2}) rotate(-90)" font-size="13">written</text>']
    for r in range(CLASSES):
        middle = top + cell * r + cell / 2 + 5
        parts += [f'<text x="{left - 14}" y="{middle}" font-size="13">{r}</text>', f'<text x="{left + cell * r + cell / 2}" y="{top - 10}" font-size="13">{r}</text>']
        for c in range(CLASSES):
            share = counts[r, c] / max(counts[r].sum(), 1)
            color = f"rgb({255 - int(225 * share)},{255 - int(150 * share)},{255 - int(70 * share)})" if r == c else f"rgb(255,{255 - int(215 * min(5 * share, 1))},{255 - int(215 * min(5 * share, 1))})"
            parts.append(f'<rect x="{left + cell * c}" y="{top + cell * r}" width="{cell}" height="{cell}" fill="{color}" stroke="#ccc"/>')
            if counts[r, c]:
                parts.append(f'<text x="{left + cell * c + cell / 2}" y="{middle}" font-size="13" fill="{"white" if r == c else "black"}">{counts[r, c]}</text>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--svg", type=pathlib.Path, help="write the confusion matrix of SPDNet there")
    options.add_argument("--least", type=float, default=0.0, help="exit code 1 if SPDNet's accuracy is below")
    options = options.parse_args()

    with np.load(DATA) as data:
        x, y = covariances(data["images"].astype(np.float64)), data["labels"].astype(np.int32)
    draw = np.random.default_rng(0)
    order = draw.permutation(len(y))
    train_of, test_of = order[:1347], order[1347:]
    # Both classifiers see the matrices from their mean: M^-1/2 X M^-1/2, whose logarithms are near 0.
    white = rlx.ops.spd_matrix_fn(x[train_of].mean(0), function="inverse_sqrt")
    x = np.asarray(rlx.ops.bimap(white, x))
    data = x[train_of], y[train_of], x[test_of], y[test_of]
    print(f"{len(train_of)} digits to learn from, {len(test_of)} to be tested by, {x.shape[1]} by {x.shape[2]} covariance matrices")

    first, second, third = x.shape[1], 11, 9
    features = lambda n: n * (n + 1) // 2
    spd = {"w1": orthonormal_rows(draw.standard_normal((second, first))), "w2": orthonormal_rows(draw.standard_normal((third, second))),
           "weight": (0.1 * draw.standard_normal((features(third), CLASSES))).astype(np.float32), "bias": np.zeros(CLASSES, np.float32)}
    plain = {"weight": np.zeros((features(first), CLASSES), np.float32), "bias": np.zeros(CLASSES, np.float32)}

    read_linear = train("linear", linear, plain, 0.02, data, options.epochs)
    read = train("SPDNet", spdnet, spd, 0.02, data, options.epochs)
    truth = y[test_of]
    counts = np.zeros((CLASSES, CLASSES), int)
    np.add.at(counts, (truth, read), 1)
    accuracy = (read == truth).mean()
    print("\nwritten (rows) and read (columns) by SPDNet:")
    print("\n".join(f"{digit}  " + " ".join(f"{n:3}" if n else "  ." for n in row) for digit, row in enumerate(counts)))
    print(f"\ntest accuracy: SPDNet {accuracy:.2%}, linear on the same matrices {(read_linear == truth).mean():.2%}")
    if options.svg:
        options.svg.write_text(svg(counts, f"SPDNet on covariance matrices of digits: {accuracy:.1%}"), encoding="utf-8")
        print(f"wrote {options.svg}")
    if accuracy < options.least:
        sys.exit(f"the accuracy is below {options.least:.2%}")


if __name__ == "__main__":
    main()
