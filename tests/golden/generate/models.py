"""Small whole models in the textual IR, and what NumPy computes for them in f64 from the same f32 weights.

usage: models.py
writes tests/golden/models/: NAME.rlx (the graph, N a symbol), NAME.safetensors (params by name, NAME of each input and
output under "in0/", "in1/", ...: several sizes of N), versions.json
"""
import math

import numpy as np
import recorded
from ops.case import write_safetensors

RNG = np.random.default_rng(20240229)
erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


class Model:
    """Collects the lines of a graph, its params, and runs of it."""

    def __init__(self, name):
        self.name, self.lines, self.count, self.params, self.runs = name, [], 0, {}, []

    def line(self, text, type_text, name=""):
        at = f"%{self.count}"
        self.lines.append(f"  {at} = {text}{name and f' @{chr(34)}{name}{chr(34)}'} : {type_text}")
        self.count += 1
        return at

    def input(self, name, type_text):
        return self.line("input()", type_text, name)

    def param(self, name, *shape, scale=None):
        value = RNG.standard_normal(shape) * (scale or 1 / math.sqrt(shape[-1]))
        self.params[name] = value.astype(np.float32)
        return self.line("param()", f"f32[{', '.join(map(str, shape))}]", name)

    def constant(self, value):
        return self.line(f"constant() {{value = f32[] [{value}]}}", "f32[]")

    def w(self, name):
        return self.params[name].astype(np.float64)

    def run(self, inputs, outputs):
        self.runs.append((inputs, outputs))

    def write(self, folder, outputs):
        returns = ", ".join(f'{value} @"{name}"' for value, name in outputs)
        text = f"rlx 1\ngraph @{self.name} {{\n" + "\n".join(self.lines) + f"\n  return {returns}\n}}\n"
        (folder / f"{self.name}.rlx").write_text(text, encoding="utf-8")
        tensors = dict(self.params)
        for i, (inputs, results) in enumerate(self.runs):
            for name, value in inputs.items():
                tensors[f"in{i}/{name}"] = value
            for name, value in results.items():
                tensors[f"out{i}/{name}"] = value.astype(np.float32)
        write_safetensors(folder / f"{self.name}.safetensors", tensors)
        print(f"{self.name}: {self.count} nodes, {len(self.params)} params, {len(self.runs)} runs")


def mlp():
    m = Model("mlp")
    x = m.input("x", "f32[N, 20]")
    w1, b1 = m.param("fc1.weight", 32, 20), m.param("fc1.bias", 32)
    w2, b2 = m.param("fc2.weight", 32, 32), m.param("fc2.bias", 32)
    w3 = m.param("head.weight", 7, 32)
    h = m.line(f"linear({x}, {w1}, {b1})", "f32[N, 32]", "fc1")
    h = m.line(f"gelu({h})", "f32[N, 32]", "fc1")
    k = m.line(f"linear({h}, {w2}, {b2})", "f32[N, 32]", "fc2")
    k = m.line(f"relu({k})", "f32[N, 32]", "fc2")
    k = m.line(f"add({k}, {h})", "f32[N, 32]", "fc2")
    y = m.line(f"linear({k}, {w3})", "f32[N, 7]", "head")
    p = m.line(f"softmax({y})", "f32[N, 7]", "head")
    for n in (1, 3, 17):
        value = RNG.standard_normal((n, 20)).astype(np.float32)
        hidden = gelu(value.astype(np.float64) @ m.w("fc1.weight").T + m.w("fc1.bias"))
        second = np.maximum(hidden @ m.w("fc2.weight").T + m.w("fc2.bias"), 0) + hidden
        logits = second @ m.w("head.weight").T
        m.run({"x": value}, {"logits": logits, "p": softmax(logits)})
    return m, [(y, "logits"), (p, "p")]


def convolved(x, w, stride, padding):
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, _, height, width = x.shape
    rows, columns = (height - w.shape[2]) // stride + 1, (width - w.shape[3]) // stride + 1
    y = np.zeros((n, w.shape[0], rows, columns))
    for i in range(rows):
        for j in range(columns):
            patch = x[:, :, i * stride:i * stride + w.shape[2], j * stride:j * stride + w.shape[3]]
            y[:, :, i, j] = np.tensordot(patch, w, axes=([1, 2, 3], [1, 2, 3]))
    return y


def cnn():
    m = Model("cnn")
    x = m.input("image", "f32[2, 3, 12, 12]")
    w1 = m.param("conv1.weight", 8, 3, 3, 3, scale=0.2)
    gamma, beta = m.param("bn.weight", 8, scale=1), m.param("bn.bias", 8, scale=1)
    mean, variance = m.param("bn.mean", 8, scale=0.1), m.param("bn.variance", 8, scale=1)
    m.params["bn.variance"] = np.abs(m.params["bn.variance"]) + np.float32(0.5)
    w2, head = m.param("conv2.weight", 16, 8, 3, 3, scale=0.1), m.param("head.weight", 5, 16)
    y = m.line(f"conv({x}, {w1}) {{stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1}}", "f32[2, 8, 12, 12]", "conv1")
    y = m.line(f"batch_norm_inference({y}, {gamma}, {beta}, {mean}, {variance}) {{feature_axis = 1, epsilon = 1e-05}}", "f32[2, 8, 12, 12]", "conv1")
    y = m.line(f"relu({y})", "f32[2, 8, 12, 12]", "conv1")
    y = m.line(f"pool({y}) {{kind = max, kernel_size = [2, 2], stride = [2, 2], padding = [0, 0]}}", "f32[2, 8, 6, 6]", "conv1")
    y = m.line(f"conv({y}, {w2}) {{stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1}}", "f32[2, 16, 3, 3]", "conv2")
    y = m.line(f"silu({y})", "f32[2, 16, 3, 3]", "conv2")
    y = m.line(f"mean({y}) {{axes = [2, 3]}}", "f32[2, 16]", "head")
    y = m.line(f"linear({y}, {head})", "f32[2, 5]", "head")
    value = RNG.standard_normal((2, 3, 12, 12)).astype(np.float32)
    column = lambda name: m.w(name)[:, None, None]
    z = convolved(value.astype(np.float64), m.w("conv1.weight"), 1, 1)
    z = (z - column("bn.mean")) / np.sqrt(column("bn.variance") + 1e-5) * column("bn.weight") + column("bn.bias")
    z = np.maximum(z, 0).reshape(2, 8, 6, 2, 6, 2).max((3, 5))
    z = convolved(z, m.w("conv2.weight"), 2, 1)
    z = (z / (1 + np.exp(-z))).mean((2, 3)) @ m.w("head.weight").T
    m.run({"image": value}, {"logits": z})
    return m, [(y, "logits")]


def encoder(layers=2, width=24, heads=3, words=40):
    m = Model("encoder")
    size = width // heads
    ids, mask = m.input("ids", "i32[N]"), m.input("mask", "f32[N]")
    table = m.param("embedding.weight", words, width, scale=0.5)
    x = m.line(f"take({table}, {ids})", f"f32[N, {width}]", "embedding")
    one, large = m.constant("1"), m.constant("-10000")
    one = m.line(f"broadcast_in_dim({one}) {{dims = [N], axes = []}}", "f32[N]")
    large = m.line(f"broadcast_in_dim({large}) {{dims = [N], axes = []}}", "f32[N]")
    bias = m.line(f"sub({one}, {mask})", "f32[N]")
    bias = m.line(f"mul({bias}, {large})", "f32[N]")
    bias = m.line(f"broadcast_in_dim({bias}) {{dims = [{heads}, N, N], axes = [2]}}", f"f32[{heads}, N, N]")
    scale = m.constant(repr(float(np.float32(1 / math.sqrt(size)))))
    scale = m.line(f"broadcast_in_dim({scale}) {{dims = [{heads}, N, N], axes = []}}", f"f32[{heads}, N, N]")
    for layer in range(layers):
        at = f"layer.{layer}"
        named = {n: m.param(f"{at}.{n}.weight", width, width) for n in "qkvo"}
        biases = {n: m.param(f"{at}.{n}.bias", width, scale=0.1) for n in "qkvo"}
        norms = [m.param(f"{at}.norm{i}.{part}", width, scale=1) for i in (1, 2) for part in ("weight", "bias")]
        up, down = m.param(f"{at}.up.weight", 4 * width, width), m.param(f"{at}.down.weight", width, 4 * width)
        split = {}
        for n in "qkv":
            y = m.line(f"linear({x}, {named[n]}, {biases[n]})", f"f32[N, {width}]", f"{at}.attention")
            y = m.line(f"reshape({y}) {{dims = [N, {heads}, {size}]}}", f"f32[N, {heads}, {size}]", f"{at}.attention")
            order = "[1, 2, 0]" if n == "k" else "[1, 0, 2]"
            dims = f"f32[{heads}, {size}, N]" if n == "k" else f"f32[{heads}, N, {size}]"
            split[n] = m.line(f"transpose({y}) {{permutation = {order}}}", dims, f"{at}.attention")
        s = m.line(f"matmul({split['q']}, {split['k']})", f"f32[{heads}, N, N]", f"{at}.attention")
        s = m.line(f"mul({s}, {scale})", f"f32[{heads}, N, N]", f"{at}.attention")
        s = m.line(f"add({s}, {bias})", f"f32[{heads}, N, N]", f"{at}.attention")
        s = m.line(f"softmax({s})", f"f32[{heads}, N, N]", f"{at}.attention")
        y = m.line(f"matmul({s}, {split['v']})", f"f32[{heads}, N, {size}]", f"{at}.attention")
        y = m.line(f"transpose({y}) {{permutation = [1, 0, 2]}}", f"f32[N, {heads}, {size}]", f"{at}.attention")
        y = m.line(f"reshape({y}) {{dims = [N, {width}]}}", f"f32[N, {width}]", f"{at}.attention")
        y = m.line(f"linear({y}, {named['o']}, {biases['o']})", f"f32[N, {width}]", f"{at}.attention")
        x = m.line(f"add({y}, {x})", f"f32[N, {width}]", f"{at}.attention")
        x = m.line(f"layer_norm({x}, {norms[0]}, {norms[1]}) {{epsilon = 1e-12}}", f"f32[N, {width}]", f"{at}.attention")
        y = m.line(f"linear({x}, {up})", f"f32[N, {4 * width}]", f"{at}.ffn")
        y = m.line(f"gelu({y})", f"f32[N, {4 * width}]", f"{at}.ffn")
        y = m.line(f"linear({y}, {down})", f"f32[N, {width}]", f"{at}.ffn")
        x = m.line(f"add({y}, {x})", f"f32[N, {width}]", f"{at}.ffn")
        x = m.line(f"layer_norm({x}, {norms[2]}, {norms[3]}) {{epsilon = 1e-12}}", f"f32[N, {width}]", f"{at}.ffn")
    pooled = m.line(f"mean({x}) {{axes = [0]}}", f"f32[{width}]", "pooling")
    unit = m.line(f"l2_normalize({pooled})", f"f32[{width}]", "pooling")
    for n in (1, 2, 9, 31):
        tokens = RNG.integers(0, words, n).astype(np.int32)
        keep = np.ones(n, np.float32)
        keep[n // 2 + 1:] = RNG.integers(0, 2, n - n // 2 - 1)
        h = m.w("embedding.weight")[tokens]
        added = (1 - keep.astype(np.float64)) * -10000
        for layer in range(layers):
            p = lambda name: m.w(f"layer.{layer}.{name}")
            parts = {c: (h @ p(f"{c}.weight").T + p(f"{c}.bias")).reshape(n, heads, size).transpose(1, 0, 2) for c in "qkv"}
            scores = parts["q"] @ parts["k"].transpose(0, 2, 1) * float(np.float32(1 / math.sqrt(size))) + added
            mixed = (softmax(scores) @ parts["v"]).transpose(1, 0, 2).reshape(n, width)
            h = layer_norm(mixed @ p("o.weight").T + p("o.bias") + h, p("norm1.weight"), p("norm1.bias"), 1e-12)
            h = layer_norm(gelu(h @ p("up.weight").T) @ p("down.weight").T + h, p("norm2.weight"), p("norm2.bias"), 1e-12)
        mean = h.mean(0)
        m.run({"ids": tokens, "mask": keep}, {"hidden": h, "unit": mean / np.sqrt((mean ** 2).sum())})
    return m, [(x, "hidden"), (unit, "unit")]


def main():
    out = recorded.folder("models")
    for make in (mlp, cnn, encoder):
        model, outputs = make()
        model.write(out, outputs)
    recorded.write_versions(out, "models.py", ["numpy"])


if __name__ == "__main__":
    main()
