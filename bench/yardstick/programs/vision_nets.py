"""Two networks for images of 224 x 224, as lists of layers: ResNet-50 (He et al., CVPR 2016, strides in the 3 x 3) and
MobileNetV2 (Sandler et al., CVPR 2018), with random weights that `rlx bench` draws too (tools/bench/vision.cpp)."""

import numpy as np

SIZE = 224


class Net:
    """layers: (op, numbers of the layers that it reads, arrays, attributes); layer 0 is the image."""

    def __init__(self, batch):
        self.random, self.layers, self.macs = np.random.default_rng(0), [], 0
        self.image = self.draw((batch, 3, SIZE, SIZE))
        self.shapes = [(3, SIZE)]

    def draw(self, shape, scale=1.0, shift=0.0):
        return self.random.uniform(-1, 1, shape).astype(np.float32) * np.float32(scale) + np.float32(shift)

    def add(self, op, inputs, shape, arrays=(), **attributes):
        self.layers.append((op, inputs, arrays, attributes))
        self.shapes.append(shape)
        return len(self.layers)

    def conv(self, x, out, kernel, stride=1, groups=1, act=None):
        channels, size = self.shapes[x]
        made, fan = (size - 1) // stride + 1, channels // groups * kernel * kernel
        self.macs += out * made * made * fan
        w = self.draw((out, channels // groups, kernel, kernel), (3 / fan) ** 0.5)
        x = self.add("conv", [x], (out, made), (w,), stride=stride, pad=kernel // 2, groups=groups)
        norm = self.draw(out, 0.5, 1), self.draw(out, 0.1), self.draw(out, 0.1), self.draw(out, 0.5, 1)
        x = self.add("norm", [x], (out, made), norm)
        return self.add(act, [x], (out, made)) if act else x

    def head(self, x):
        channels = self.shapes[x][0]
        x = self.add("mean", [x], (channels,))
        self.macs += channels * 1000
        self.add("linear", [x], (1000,), (self.draw((channels, 1000), (3 / channels) ** 0.5), self.draw(1000, 0.1)))
        return self


def resnet50(batch):
    n = Net(batch)
    x = n.conv(0, 64, 7, 2, act="relu")
    x = n.add("maxpool", [x], (64, 56))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = n.conv(x, width, 1, act="relu")
            y = n.conv(y, width, 3, stride, act="relu")
            y = n.conv(y, 4 * width, 1)
            if not block:
                x = n.conv(x, 4 * width, 1, stride)
            x = n.add("relu", [n.add("add", [y, x], n.shapes[y])], n.shapes[y])
    return n.head(x)


def mobilenetv2(batch):
    n = Net(batch)
    x = n.conv(0, 32, 3, 2, act="relu6")
    for expand, out, blocks, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            channels, stride = n.shapes[x][0], first if not block else 1
            y = n.conv(x, channels * expand, 1, act="relu6") if expand > 1 else x
            y = n.conv(y, channels * expand, 3, stride, channels * expand, act="relu6")
            y = n.conv(y, out, 1)
            x = n.add("add", [y, x], n.shapes[y]) if stride == 1 and channels == out else y
    return n.head(n.conv(x, 1280, 1, act="relu6"))


NETS = {"resnet50": resnet50, "mobilenetv2": mobilenetv2}
