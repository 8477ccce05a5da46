#!/usr/bin/env python3
"""Reads real handwritten digits with a network that learns its own activations, and draws them.

    spline_digits.py [--epochs N] [--svg OUT.svg] [--least ACCURACY]

64 pixels, 24 hidden channels, 10 classes. Each hidden channel has a curve of 9 bumps (spline_activation; FastKAN, Li,
arXiv:2405.06721) that starts as a ReLU and is trained with the rest. Beside it: the same network with ReLU. The picture shows
each channel's curve over a histogram of what enters it.

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
CLASSES, HIDDEN, BUMPS, REACH, BINS = 10, 24, 9, 4.0, 40


def entering(params, x):
    return x @ params["first"] + params["shift"]


def curve(params, x):
    return rlx.ops.spline_activation(x, params["curve"], grid_min=-REACH, grid_max=REACH)


def spline(params, x):
    return curve(params, entering(params, x)) @ params["second"] + params["bias"]


def relu(params, x):
    return rlx.nn.relu(entering(params, x)) @ params["second"] + params["bias"]


def curve_like_relu():
    """The bumps whose sum is nearest to max(x, 0) on [-REACH, REACH]."""
    x = np.linspace(-REACH, REACH, 400)
    centres = np.linspace(-REACH, REACH, BUMPS)
    bumps = np.exp(-(((x[:, None] - centres) / (centres[1] - centres[0])) ** 2))
    return np.linalg.lstsq(bumps, np.maximum(x, 0), rcond=None)[0].astype(np.float32)


def train(name, model, params, data, epochs, batch=32, rate=5e-3):
    """Returns the params that were learned and the accuracy on the test images."""
    x, y, test_x, test_y = data

    @rlx.jit
    def step(params, means, squares, x, y, number, rate):
        def loss(params):
            scores = rlx.nn.log_softmax(model(params, x))
            return -rnp.mean(rnp.sum(scores * rlx.nn.one_hot(y, CLASSES), axis=-1))

        value, gradients = rlx.value_and_grad(loss)(params)
        moved = {k: rlx.ops.adam_update(params[k], gradients[k], rate, number, means[k], squares[k]) for k in params}
        return value, *({k: m[i] for k, m in moved.items()} for i in range(3))

    predict = rlx.jit(lambda params, x: rnp.argmax(model(params, x), axis=-1))
    accuracy = lambda x, y: float((np.asarray(predict(params, x)) == y).mean())
    means = {k: np.zeros_like(v) for k, v in params.items()}
    squares = {k: np.zeros_like(v) for k, v in params.items()}
    order, number, begin = np.random.default_rng(1), 0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        rate_now = np.float32(rate * (1 + np.cos(np.pi * (epoch - 1) / epochs)) / 2)
        shuffled, losses = order.permutation(len(x)), []
        for first in range(0, len(x) - batch + 1, batch):
            some = shuffled[first : first + batch]
            number += 1
            value, params, means, squares = step(params, means, squares, x[some], y[some], np.int64(number), rate_now)
            losses.append(float(value))
        if epoch % 5 == 0 or epoch == epochs:
            print(f"{name:6} epoch {epoch:3}  loss {np.mean(losses):6.3f}  train {accuracy(x, y):6.2%}  test {accuracy(test_x, test_y):6.2%}", flush=True)
    seconds = time.perf_counter() - begin
    print(f"{name:6} {sum(v.size for v in params.values())} parameters, {seconds / max(epochs, 1):.2f} s an epoch", flush=True)
    return params, accuracy(test_x, test_y)


def svg(params, x, title):
    """A panel a channel: how often values enter it, and the curve that it learned, from -REACH to REACH."""
    columns, wide, high, gap, top = 6, 130, 90, 14, 50
    rows = -(-HIDDEN // columns)
    places = np.linspace(-REACH, REACH, 81, dtype=np.float32)
    curves = np.asarray(curve(params, np.repeat(places[:, None], HIDDEN, 1)))
    inside = np.asarray(entering(params, x))
    counts = np.stack([np.asarray(rlx.ops.histogram(np.ascontiguousarray(inside[:, c]), bins=BINS, min=-REACH, max=REACH)) for c in range(HIDDEN)])
    low, top_value = min(curves.min(), 0), curves.max()
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * (wide + gap) + gap}" height="{top + rows * (high + gap)}" font-family="sans-serif">',
             '<rect width="100%" height="100%" fill="white"/>', f'<text x="{gap}" y="24" font-size="16">{title}</text>',
             f'<text x="{gap}" y="42" font-size="12" fill="#555">from -{REACH:g} to {REACH:g}; grey: how often a value enters; blue: what becomes of it</text>']
    for c in range(HIDDEN):
        left, down = gap + (c % columns) * (wide + gap), top + (c // columns) * (high + gap)
        parts.append(f'<rect x="{left}" y="{down}" width="{wide}" height="{high}" fill="#fafafa" stroke="#ddd"/>')
        for b, n in enumerate(counts[c] / max(counts[c].max(), 1)):
            parts.append(f'<rect x="{left + wide * b / BINS:.1f}" y="{down + high * (1 - n):.1f}" width="{wide / BINS:.1f}" height="{high * n:.1f}" fill="#ddd"/>')
        at = [f"{left + wide * (p + REACH) / (2 * REACH):.1f},{down + high * (top_value - v) / (top_value - low):.1f}" for p, v in zip(places, curves[:, c])]
        parts.append(f'<polyline points="{" ".join(at)}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--svg", type=pathlib.Path, help="write the curves that were learned there")
    options.add_argument("--least", type=float, default=0.0, help="exit code 1 if the accuracy with learned curves is below")
    options = options.parse_args()

    with np.load(DATA) as data:
        x, y = (data["images"].reshape(-1, 64) / 16).astype(np.float32), data["labels"].astype(np.int32)
    draw = np.random.default_rng(0)
    order = draw.permutation(len(y))
    train_of, test_of = order[:1347], order[1347:]
    data = x[train_of] - x[train_of].mean(0), y[train_of], x[test_of] - x[train_of].mean(0), y[test_of]
    weights = {"first": (draw.standard_normal((64, HIDDEN)) * 0.3).astype(np.float32), "shift": np.zeros(HIDDEN, np.float32),
               "second": (draw.standard_normal((HIDDEN, CLASSES)) * 0.2).astype(np.float32), "bias": np.zeros(CLASSES, np.float32)}
    print(f"{len(train_of)} digits to learn from, {len(test_of)} to be tested by")
    _, plain = train("relu", relu, dict(weights), data, options.epochs)
    params, accuracy = train("spline", spline, {**weights, "curve": np.tile(curve_like_relu(), (HIDDEN, 1))}, data, options.epochs)
    print(f"\ntest accuracy: learned curves {accuracy:.2%}, ReLU {plain:.2%}")
    if options.svg:
        options.svg.write_text(svg(params, data[0], f"{HIDDEN} activations learned from digits: {accuracy:.1%}"), encoding="utf-8")
        print(f"wrote {options.svg}")
    if accuracy < options.least:
        sys.exit(f"the accuracy is below {options.least:.2%}")


if __name__ == "__main__":
    main()
