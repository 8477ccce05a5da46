"""all-MiniLM-L6-v2, or BERT of base size, in PyTorch, eager, with its fused attention."""

from yardstick import serve

THREADS, _ = serve.threads_and_variant()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import minilm_weights  # noqa: E402

torch.set_num_threads(THREADS)


def read_weights():
    return {name: torch.from_numpy(w) for name, w in minilm_weights.load().items()}


WEIGHTS = read_weights()


def quantized(name):
    """A layer as torch.ao.quantization.quantize_dynamic packs it, with a scale for each output."""
    w = WEIGHTS[name + ".weight"]
    codes = torch.quantize_per_channel(w, w.abs().amax(1) / 127, torch.zeros(len(w), dtype=torch.int64), 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(codes, WEIGHTS[name + ".bias"])


INT8 = {}
if serve.COMPUTE == "int8":
    INT8 = {name: quantized(name) for name in (key.removesuffix(".weight") for key, w in WEIGHTS.items()
                                               if key.startswith("encoder.") and w.ndim == 2)}  # fmt: skip


def linear(name, x):
    if name in INT8:
        return torch.ops.quantized.linear_dynamic(x, INT8[name])
    return F.linear(x, WEIGHTS[name + ".weight"], WEIGHTS[name + ".bias"])


def norm(name, x):
    return F.layer_norm(x, x.shape[-1:], WEIGHTS[name + ".weight"], WEIGHTS[name + ".bias"], 1e-12)


def net(encoder, ids, mask, types):
    layers, width, _, heads = encoder
    batch, length = ids.shape
    words, places, kinds = (WEIGHTS[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
    x = norm("embeddings.LayerNorm", words[ids] + places[:length] + kinds[types])
    keep = mask.to(torch.float32)
    bias = ((1 - keep) * -1e9)[:, None, None, :]
    for layer in range(layers):
        p = f"encoder.layer.{layer}."
        q, k, v = (linear(f"{p}attention.self.{n}", x).view(batch, length, heads, width // heads).transpose(1, 2) for n in ("query", "key", "value"))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(x.shape)
        x = norm(p + "attention.output.LayerNorm", x + linear(p + "attention.output.dense", mixed))
        x = norm(p + "output.LayerNorm", x + linear(p + "output.dense", F.gelu(linear(p + "intermediate.dense", x))))
    return F.normalize((x * keep[:, :, None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1e-9), dim=-1).float()


def prepare(case):
    inputs = [torch.from_numpy(a) for a in suites.minilm_inputs(case).values()]
    encoder = suites.ENCODERS.get(suites.kind_of(case), suites.ENCODERS["minilm"])

    def run():
        with torch.inference_mode(), serve.autocast():
            return net(encoder, *inputs)

    if suites.kind_of(case) == "restart":
        raise ValueError("PyTorch compiles nothing here, and leaves nothing for the next start")

    def start():  # with the weights read anew
        global WEIGHTS
        WEIGHTS = read_weights()
        return run()

    return lambda: start if suites.kind_of(case) == "first" else run


if __name__ == "__main__":
    serve.serve(prepare)
