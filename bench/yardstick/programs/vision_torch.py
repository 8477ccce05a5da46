"""The networks for images in PyTorch: eager, or with --variant compile by torch.compile; channels last in both."""

from yardstick import serve

THREADS, VARIANT = serve.threads_and_variant()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import vision_nets  # noqa: E402

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
FUNCTIONS = {
    "conv": lambda x, w, stride, pad, groups: F.conv2d(x, w, None, stride, pad, 1, groups),
    "norm": lambda x, gamma, beta, mean, variance: F.batch_norm(x, mean, variance, gamma, beta, False, 0, 1e-5),
    "relu": F.relu,
    "relu6": F.relu6,
    "add": torch.add,
    "maxpool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "mean": lambda x: x.mean((2, 3)),
    "linear": lambda x, w, b: x @ w + b,
}


def prepare(case):
    net = vision_nets.NETS[suites.kind_of(case)](*suites.extents_of(case))
    image = torch.from_numpy(net.image).to(memory_format=torch.channels_last)
    layers = [(FUNCTIONS[op], inputs, [_last(torch.from_numpy(a)) for a in arrays], attributes) for op, inputs, arrays, attributes in net.layers]

    def forward(x):
        values = [x]
        for function, inputs, arrays, attributes in layers:
            values.append(function(*[values[i] for i in inputs], *arrays, **attributes))
        return values[-1]

    def build():
        if serve.COMPUTE == "int8":
            function = quantized(net)
            return lambda: function(image)
        function = serve.narrowed(forward)
        if VARIANT == "compile":
            torch._dynamo.reset()
            function = torch.compile(function, dynamic=False)
        return lambda: function(image)

    return build


def quantized(net):
    """Convolutions and additions in 8 bits with scales of what the image gives, weights by channel; norms are folded."""
    ops, values = torch.ops.quantized, [torch.from_numpy(net.image)]
    layers = [(op, inputs, [torch.from_numpy(a) for a in arrays], given) for op, inputs, arrays, given in net.layers]
    for op, inputs, arrays, given in layers:
        values.append(FUNCTIONS[op](*[values[i] for i in inputs], *arrays, **given))

    def scale_of(value):
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        return (high - low) / 255, round(-low * 255 / (high - low))

    scales, steps, at = [scale_of(v) for v in values], [], 0
    while at < len(layers):
        op, inputs, arrays, given = layers[at]
        norm, at = layers[at + 1] if op == "conv" else None, at + (2 if op == "conv" else 1)
        has_relu = op in ("conv", "add") and at < len(layers) and layers[at][0] in ("relu", "relu6")  # the scale ends at 6
        at += has_relu
        scale, zero = scales[at]
        if op == "conv":
            gamma, beta, mean, variance = norm[2]
            factor = gamma / torch.sqrt(variance + 1e-5)
            w = arrays[0] * factor[:, None, None, None]
            codes = torch.quantize_per_channel(w, w.abs().amax((1, 2, 3)) / 127, torch.zeros(len(w), dtype=torch.int64), 0, torch.qint8)
            packed = ops.conv2d_prepack(codes, beta - mean * factor, [given["stride"]] * 2, [given["pad"]] * 2, [1, 1], given["groups"])
            function = ops.conv2d_relu.new if has_relu else ops.conv2d.new
            steps.append((at, inputs, lambda x, f=function, p=packed, s=scale, z=zero: f(x, p, s, z)))
        elif op == "add":
            function = ops.add_relu if has_relu else ops.add
            steps.append((at, inputs, lambda x, y, f=function, s=scale, z=zero: f(x, y, s, z)))
        elif op == "mean":
            steps.append((at, inputs, lambda x: x.dequantize().mean((2, 3))))
        else:
            steps.append((at, inputs, lambda *x, f=FUNCTIONS[op], a=arrays, g=given: f(*x, *a, **g)))

    def run(image):
        scale, zero = scales[0]
        made = {0: torch.quantize_per_tensor(image, scale, zero, torch.quint8)}
        for to, inputs, function in steps:
            made[to] = function(*[made[i] for i in inputs])
        return made[len(layers)]

    return run


def _last(w):
    return w.to(memory_format=torch.channels_last) if w.ndim == 4 else w


if __name__ == "__main__":
    serve.serve(prepare)
