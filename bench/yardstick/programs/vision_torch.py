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
        function = serve.narrowed(forward)
        if VARIANT == "compile":
            torch._dynamo.reset()
            function = torch.compile(function, dynamic=False)
        return lambda: function(image)

    return build


def _last(w):
    return w.to(memory_format=torch.channels_last) if w.ndim == 4 else w


if __name__ == "__main__":
    serve.serve(prepare)
