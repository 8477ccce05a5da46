"""Small convolutional models in the textual IR, and what PyTorch computes for them in f64 from the same f32 weights: a
residual network and one of inverted residuals, with norms, strided and uneven convolutions, pools, and squeeze and
excitation.

usage: vision.py
writes tests/golden/vision/: residual.rlx, inverted.rlx (the graph, N a symbol) and their .safetensors, as models.py does;
versions.json
"""
import models
import numpy as np
import recorded
import torch
import torch.nn.functional as F

RNG = np.random.default_rng(20261123)


class Net(models.Model):
    """Each layer is a line of the graph and a function of what PyTorch computed so far."""

    def __init__(self, name, channels, size):
        super().__init__(name)
        self.steps, self.dims = [], {}
        self.image = self.input("image", f"f32[N, {channels}, {size}, {size}]")
        self.shape = {self.image: (channels, size, size)}

    def add(self, text, operands, shape, f, name=""):
        dims = ", ".join(["N", *map(str, shape)])
        at = self.line(text, f"f32[{dims}]", name)
        self.shape[at] = shape
        self.steps.append((at, operands, f))
        return at

    def weight(self, name, *shape, low=None, high=None):
        value = RNG.uniform(low, high, shape) if low is not None else RNG.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        self.params[name] = value.astype(np.float32)
        return self.line("param()", f"f32[{', '.join(map(str, shape))}]", name), torch.from_numpy(self.params[name]).double()

    def conv(self, x, name, out, kernel, stride=1, groups=1, norm=True, bias=False):
        c, h, w = self.shape[x]
        pad = kernel // 2
        at, weight = self.weight(f"{name}.weight", out, c // groups, kernel, kernel)
        shape = (out, (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1)
        y = self.add(f"conv({x}, {at}) {{stride = [{stride}, {stride}], padding = [{pad}, {pad}], groups = {groups}}}", [x], shape,
                     lambda v: F.conv2d(v, weight, None, stride, pad, 1, groups), name)
        if bias:
            at, b = self.weight(f"{name}.bias", out, low=-1, high=1)
            dims = ", ".join(["N", *map(str, shape)])
            wide = self.line(f"broadcast_in_dim({at}) {{dims = [{dims}], axes = [1]}}", f"f32[{dims}]")
            y = self.add(f"add({y}, {wide})", [y], shape, lambda v: v + b[:, None, None], name)
        if norm:
            given = [self.weight(f"{name}.{part}", out, low=low, high=high) for part, low, high in
                     (("gamma", 0.5, 1.5), ("beta", -0.5, 0.5), ("mean", -0.2, 0.2), ("variance", 0.5, 2))]
            names, (gamma, beta, mean, variance) = ", ".join(n for n, _ in given), [v for _, v in given]
            y = self.add(f"batch_norm_inference({y}, {names}) {{feature_axis = 1}}", [y], shape,
                         lambda v: F.batch_norm(v, mean, variance, gamma, beta, False, 0, 1e-5), f"{name}.norm")
        return y

    def act(self, x, kind):
        f = {"relu": F.relu, "relu6": F.relu6, "hard_swish": F.hardswish, "logistic": torch.sigmoid, "silu": F.silu}[kind]
        return self.add(f"{kind}({x})", [x], self.shape[x], f)

    def sum(self, x, y):
        return self.add(f"add({x}, {y})", [x, y], self.shape[x], torch.add)

    def pool(self, x):
        c, h, w = self.shape[x]
        return self.add(f"pool({x}) {{kind = max, kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]}}", [x],
                        (c, (h - 1) // 2 + 1, (w - 1) // 2 + 1), lambda v: F.max_pool2d(v, 3, 2, 1))

    def excite(self, x, name):
        c, h, w = self.shape[x]
        m = self.add(f"mean({x}) {{axes = [2, 3]}}", [x], (c,), lambda v: v.mean((2, 3)))
        m = self.add(f"reshape({m}) {{dims = [N, {c}, 1, 1]}}", [m], (c, 1, 1), lambda v: v[:, :, None, None])
        s = self.act(self.conv(m, f"{name}.down", c // 4, 1, norm=False, bias=True), "relu")
        s = self.act(self.conv(s, f"{name}.up", c, 1, norm=False, bias=True), "logistic")
        wide = self.add(f"broadcast_in_dim({s}) {{dims = [N, {c}, {h}, {w}], axes = [0, 1, 2, 3]}}", [s], (c, h, w), lambda v: v.expand(-1, -1, h, w))
        return self.add(f"mul({x}, {wide})", [x, wide], (c, h, w), torch.mul)

    def classify(self, x, classes):
        c = self.shape[x][0]
        m = self.add(f"mean({x}) {{axes = [2, 3]}}", [x], (c,), lambda v: v.mean((2, 3)), "head")
        at, weight = self.weight("head.weight", classes, c)
        y = self.add(f"linear({m}, {at})", [m], (classes,), lambda v: v @ weight.T, "head")
        for n in (1, 3):
            image = RNG.standard_normal((n, *self.shape[self.image])).astype(np.float32)
            values = {self.image: torch.from_numpy(image).double()}
            for result, operands, f in self.steps:
                values[result] = f(*[values[o] for o in operands])
            self.run({"image": image}, {"logits": values[y].numpy()})
        return self, [(y, "logits")]


def residual():
    n = Net("residual", 3, 33)
    x = n.pool(n.act(n.conv(n.image, "stem", 16, 7, 2), "relu"))
    y = n.conv(n.act(n.conv(x, "basic.1", 16, 3), "relu"), "basic.2", 16, 3)
    x = n.act(n.sum(y, x), "relu")
    y = n.act(n.conv(x, "bottleneck.1", 12, 1), "relu")
    y = n.act(n.conv(y, "bottleneck.2", 12, 3, 2), "relu")
    y = n.conv(y, "bottleneck.3", 40, 1)
    x = n.act(n.sum(n.conv(x, "shortcut", 40, 1, 2), y), "relu")
    return n.classify(x, 10)


def inverted():
    n = Net("inverted", 3, 20)
    x = n.act(n.conv(n.image, "stem", 8, 3, 2), "relu6")
    y = n.act(n.conv(x, "expand", 19, 1), "relu6")
    y = n.act(n.conv(y, "depthwise", 19, 3, groups=19), "relu6")
    x = n.sum(n.conv(y, "project", 8, 1), x)
    y = n.act(n.conv(x, "expand.2", 32, 1, bias=True), "hard_swish")
    y = n.excite(n.act(n.conv(y, "depthwise.2", 32, 5, 2, groups=32), "hard_swish"), "excite")
    x = n.conv(y, "project.2", 12, 1)
    x = n.act(n.conv(x, "grouped", 24, 3, groups=4), "silu")
    return n.classify(x, 7)


if __name__ == "__main__":
    folder = recorded.folder("vision")
    for make in (residual, inverted):
        model, outputs = make()
        model.write(folder, outputs)
    recorded.write_versions(folder, "vision.py", ["torch", "numpy"])
