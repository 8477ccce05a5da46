"""The kernels in PyTorch, eager or (--variant compile) by torch.compile."""

from yardstick import serve

THREADS, VARIANT = serve.threads_and_variant()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from yardstick import suites  # noqa: E402

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)
FUNCTIONS = {
    "gemm": lambda a, b: a @ b,
    "linear": lambda a, b: a @ b,
    "softmax": lambda a: F.softmax(a, -1),
    "layernorm": lambda a, w, b: F.layer_norm(a, a.shape[-1:], w, b, 1e-5),
    "ewchain": lambda x: F.gelu(x * 1.5 + 0.5) * x - F.relu(x),
    "sdpa": F.scaled_dot_product_attention,
    "conv3x3": lambda x, w: F.conv2d(x, w, padding=1),
    "dwconv3x3": lambda x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]),
    "sumrow": lambda x: x.sum(1),
    "sumcol": lambda x: x.sum(0),
}


def prepare(case):
    inputs, weights = suites.arrays_of(case)
    tensors = [torch.from_numpy(a) for a in inputs + weights]

    def build():
        function = serve.narrowed(FUNCTIONS[suites.kind_of(case)])
        if VARIANT == "compile":
            torch._dynamo.reset()
            function = torch.compile(function, dynamic=False)
        return lambda: function(*tensors)

    return build


if __name__ == "__main__":
    serve.serve(prepare)
