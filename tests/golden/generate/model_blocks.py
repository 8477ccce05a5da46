"""Blocks of models beside `transformers`, torchvision and torch.nn, computed in f64 from weights of f32: tests/golden/model_blocks/
blocks.safetensors. A case NAME has NAME/PARAM as the package names its params, NAME/in.* and NAME/out.*; tests/models/blocks_*_test.cpp
build the same.

usage: model_blocks.py
"""
import math

import numpy as np
import torch
import torchvision
import transformers
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

import recorded
from ops.case import write_safetensors

TENSORS = {}


def put(case, **tensors):
    for name, value in tensors.items():
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        value = value.astype({"f": np.float32, "i": np.int32, "b": np.bool_}[value.dtype.kind])
        TENSORS[f"{case}/{name.replace('__', '.', 1)}"] = np.ascontiguousarray(value)


def randomized(module, seed, scale=0.5):
    """All params random, those of norms too, rounded to f32; the module computes in f64."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if not value.is_floating_point(): continue
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
            if name.endswith("running_var"): noise = 0.5 + noise.abs()
            elif value.dim() > 1: noise = noise * (scale * 2 / math.sqrt(value[0].numel()))
            else: noise = noise * 0.2 + (1 if name.endswith("weight") else 0)
            value.copy_(noise)
    return module.double().eval()


def rounded(module, dtype):
    with torch.no_grad():
        for value in module.state_dict().values():
            if value.is_floating_point(): value.copy_(value.to(dtype))
    return module


def put_params(case, module, drop=(), rename=lambda name: name):
    for name, value in module.state_dict().items():
        if value.is_floating_point() and name not in drop: put(case, **{rename(name): value})


def noise(*shape, seed=0, scale=1.0):
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32) * scale).double()


# ---- rotary positions ----

ROPES = {
    "default": {},
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
    "yarn_mscale": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 1.25, "beta_fast": 8.0,
                    "beta_slow": 2.0, "truncate": False},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    "longrope": {"factor": 2.0, "short_factor": [1.0, 1.25, 1.5, 2.0, 2.5, 3.0], "long_factor": [2.0, 3.0, 5.0, 8.0, 13.0, 21.0],
                 "original_max_position_embeddings": 16},
    "proportional": {"factor": 2.0, "partial_rotary_factor": 0.6},
}  # fmt: skip


def ropes():
    for name, given in ROPES.items():
        parameters = {"rope_type": name, "rope_theta": 500.0} | given
        config = transformers.LlamaConfig(hidden_size=24, num_attention_heads=2, max_position_embeddings=16, rope_parameters=parameters)
        rope = LlamaRotaryEmbedding(config)
        for kind, count in (("short", 16), ("long", 37)):
            cosines, sines = rope(torch.zeros(1, 1), torch.arange(count)[None])
            put(f"rope_{name}", **{f"out__{kind}_cos": cosines[0, :, :6], f"out__{kind}_sin": sines[0, :, :6]})
    # Tokens that stand at three places: two batches of a text with an image of 3 x 4 patches, the second one shifted.
    places = torch.stack([torch.tensor([0, 1, *[2] * 12, 6, 7]), torch.tensor([0, 1, *[2 + i // 4 for i in range(12)], 6, 7]),
                          torch.tensor([0, 1, *[2 + i % 4 for i in range(12)], 6, 7])])  # fmt: skip
    places = torch.stack([places, places + 5], 1)
    put("rope_axes", in__places=places)
    given = {"hidden_size": 24, "num_attention_heads": 2, "max_position_embeddings": 16}
    for name, module, config, sections in (
            ("blocks", Qwen2VLRotaryEmbedding, transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLTextConfig, [1, 3, 2]),
            ("turns", Qwen3VLTextRotaryEmbedding, transformers.models.qwen3_vl.configuration_qwen3_vl.Qwen3VLTextConfig, [3, 2, 1])):  # fmt: skip
        parameters = {"rope_type": "default", "rope_theta": 500.0, "mrope_section": sections}
        rope = module(config(**given, head_dim=12, rope_parameters=parameters))
        cosines, sines = rope(torch.zeros(1, 1), places)
        put(f"rope_axes_{name}", out__cos=cosines[..., :6], out__sin=sines[..., :6])
    # Pairs 2i and 2i + 1, of the first 6 of 10 elements, as the first code of Llama turned them.
    x = noise(2, 5, 3, 10, seed=3)
    angle = torch.outer(torch.arange(5.0), 1 / 500.0 ** (torch.arange(0, 6, 2) / 6)).double()
    pairs = torch.view_as_complex(x[..., :6].reshape(2, 5, 3, 3, 2).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)[None, :, None]).flatten(3)
    put("rope_pairs", in__x=x, out__y=torch.cat([turned, x[..., 6:]], -1))


# ---- decoders ----

SIZES = {"vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "max_position_embeddings": 64,
         "attn_implementation": "eager", "experts_implementation": "eager", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
DECODERS = {
    "llama": ("Llama", {"num_key_value_heads": 2, "intermediate_size": 17, "tie_word_embeddings": False,
                        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                                            "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
    "mistral": ("Mistral", {"num_key_value_heads": 1, "intermediate_size": 17, "sliding_window": 3, "head_dim": 6}),
    "gemma2": ("Gemma2", {"num_key_value_heads": 3, "intermediate_size": 17, "sliding_window": 3, "head_dim": 10, "query_pre_attn_scalar": 7,
                          "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "hidden_activation": "gelu_pytorch_tanh"}),
    "qwen3": ("Qwen3", {"num_key_value_heads": 2, "intermediate_size": 17, "head_dim": 8, "tie_word_embeddings": True}),
    "phi3": ("Phi3", {"num_key_value_heads": 2, "intermediate_size": 17}),
    "mixtral": ("Mixtral", {"num_key_value_heads": 2, "intermediate_size": 13, "num_local_experts": 5, "num_experts_per_tok": 2,
                            "output_router_logits": True, "sliding_window": None}),
    "qwen2_moe": ("Qwen2Moe", {"num_key_value_heads": 2, "intermediate_size": 17, "moe_intermediate_size": 7, "num_experts": 4,
                               "num_experts_per_tok": 3, "shared_expert_intermediate_size": 9, "norm_topk_prob": False}),
}  # fmt: skip


def decoders():
    ids = torch.randint(0, 29, (2, 11), generator=torch.Generator().manual_seed(5))
    for seed, (name, (kind, given)) in enumerate(DECODERS.items()):
        config = getattr(transformers, f"{kind}Config")(**(SIZES | given))
        model = randomized(getattr(transformers, f"{kind}ForCausalLM")(config), 100 + seed)
        with torch.no_grad(): made = model(ids)
        tied = config.tie_word_embeddings
        put_params(name, model, drop=("lm_head.weight",) if tied else ())
        put(name, in__ids=ids, out__logits=made.logits)
        if name == "mixtral": put(name, out__aux_loss=made.aux_loss)
    # In halves: f64 on weights that were rounded.
    for dtype, name in ((torch.float16, "llama_f16"), (torch.bfloat16, "llama_bf16")):
        kind, given = DECODERS["llama"]
        model = rounded(randomized(transformers.LlamaForCausalLM(transformers.LlamaConfig(**(SIZES | given))), 100), dtype)
        with torch.no_grad(): logits = model(ids).logits
        put(name, in__ids=ids, out__logits=logits)


def balancing():
    logits = [noise(9, 5, seed=11).requires_grad_(), noise(9, 5, seed=12).requires_grad_()]
    mask = torch.tensor([1, 1, 0, 1, 1, 0, 0, 1, 1])
    for name, layers, given in (("one", logits[:1], None), ("two", logits, None), ("masked", logits, mask)):
        loss = load_balancing_loss_func(tuple(layers), 5, 2, given)
        gradients = torch.autograd.grad(loss, layers)
        put(f"balancing_{name}", out__loss=loss, **{f"in__logits{i}": x for i, x in enumerate(layers)},
            **{f"out__gradient{i}": g for i, g in enumerate(gradients)})  # fmt: skip
    put("balancing_masked", in__mask=mask)


# ---- layers of encoders ----

def encoder_layers():
    s, heads = 7, 3
    x, keep = noise(2, s, 12, seed=21), torch.tensor([[1] * 7, [1] * 4 + [0] * 3], dtype=torch.bool)
    i, j = torch.arange(s)[:, None], torch.arange(s)[None]
    bias = noise(2, heads, s, s, seed=22)
    # True: not seen.
    masks = {"none": {}, "causal": {"src_mask": j > i}, "sliding_window": {"src_mask": (j > i) | (j < i - 2)},
             "custom": {"src_key_padding_mask": ~keep}, "bias": {"src_mask": bias.reshape(2 * heads, s, s)},
             "near": {"src_mask": (i - j).abs() > 2}}  # fmt: skip
    for first in (False, True):
        name = "encoder_before" if first else "encoder_after"
        layer = randomized(nn.TransformerEncoderLayer(12, heads, 19, 0.0, "relu", batch_first=True, norm_first=first), 30)
        put_params(name, layer)
        put(name, in__x=x, in__keep=keep, in__bias=bias)
        for kind, mask in masks.items():
            with torch.enable_grad():  # without the fast path, whose masked tokens are zeros
                put(name, **{f"out__{kind}": layer(x, **mask)})
    attention = randomized(nn.MultiheadAttention(12, 2, batch_first=True, kdim=8, vdim=8), 31)
    memory, seen = noise(2, 5, 8, seed=23), torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0]], dtype=torch.bool)
    y, _ = attention(x, memory, memory, key_padding_mask=~seen)
    names = {"q_proj_weight": "q_proj.weight", "k_proj_weight": "k_proj.weight", "v_proj_weight": "v_proj.weight", "out_proj.weight": "o_proj.weight",
             "out_proj.bias": "o_proj.bias"}  # fmt: skip
    for name, value in attention.state_dict().items():
        if name == "in_proj_bias":
            for part, b in zip("qkv", value.chunk(3)): put("cross", **{f"self_attn.{part}_proj.bias": b})
        else:
            put("cross", **{f"self_attn.{names[name]}": value})
    put("cross", in__x=x, in__memory=memory, in__seen=seen, out__y=y)


# ---- images ----

def vision():
    vit = torchvision.models.VisionTransformer(image_size=12, patch_size=4, num_layers=2, num_heads=3, hidden_dim=12, mlp_dim=20, num_classes=5)
    vit = randomized(vit, 40)
    images = noise(3, 3, 12, 12, seed=41)
    put_params("vit", vit)
    tokens = vit.encoder(torch.cat([vit.class_token.expand(3, -1, -1), vit._process_input(images)], 1))
    put("vit", in__images=images, out__logits=vit(images), out__mean=tokens[:, 1:].mean(1))

    odd = noise(2, 3, 21, 17, seed=42)

    def conv(channels, out, kernel, stride=1, bias=False):
        return nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=bias)

    def put_stem(name, stem, images=odd):
        randomized(stem, 43)
        put_params(name, stem)
        put(name, in__x=images, out__y=stem(images))

    def ordered(**parts):
        net = nn.Sequential()
        for name, part in parts.items(): net.add_module(name, part)
        return net

    put_stem("stem_resnet", ordered(conv1=conv(3, 6, 7, 2), bn1=nn.BatchNorm2d(6), relu=nn.ReLU(), maxpool=nn.MaxPool2d(3, 2, 1)))
    deep = nn.Sequential(conv(3, 3, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), conv(3, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), conv(3, 6, 3))
    put_stem("stem_deep", ordered(conv1=deep, bn1=nn.BatchNorm2d(6), relu=nn.ReLU(), maxpool=nn.MaxPool2d(3, 2, 1)))
    put_stem("stem_small", ordered(conv1=conv(3, 6, 3), bn1=nn.BatchNorm2d(6), relu=nn.ReLU()))
    patches = nn.Sequential(nn.Conv2d(3, 6, 4, 4), torchvision.models.convnext.LayerNorm2d(6, eps=1e-6))
    put_stem("stem_patches", ordered(features=nn.Sequential(patches)))

    x = noise(2, 8, 9, 7, seed=44)
    down = lambda channels, out, stride: nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
    blocks = {"basic": BasicBlock(8, 8), "basic_strided": BasicBlock(8, 6, 2, down(8, 6, 2)), "bottleneck": Bottleneck(8, 2),
              "bottleneck_strided": Bottleneck(8, 3, 2, down(8, 12, 2)),
              "bottleneck_groups": Bottleneck(8, 4, 1, down(8, 16, 1), groups=2, base_width=32)}  # fmt: skip
    for seed, (name, block) in enumerate(blocks.items()):
        randomized(block, 50 + seed)
        put_params(name, block)
        put(name, in__x=x, out__y=block(x))
    training = randomized(BasicBlock(8, 8), 50).train()
    put_params("basic_training", training)
    put("basic_training", in__x=x, out__y=training(x), **{f"out__{n}": v for n, v in training.state_dict().items() if "running" in n})


# The names and the order of github.com/milesial/Pytorch-UNet.
class DoubleConv(nn.Module):
    def __init__(self, channels, out, middle=None, norm=nn.BatchNorm2d, activation=nn.ReLU):
        super().__init__()
        middle, bias = middle or out, norm is nn.Identity
        self.double_conv = nn.Sequential(nn.Conv2d(channels, middle, 3, padding=1, bias=bias), norm(middle), activation(),
                                         nn.Conv2d(middle, out, 3, padding=1, bias=bias), norm(out), activation())  # fmt: skip

    def forward(self, x): return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, channels, out, **given):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(channels, out, **given))

    def forward(self, x): return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, channels, out, resized, **given):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if resized else nn.ConvTranspose2d(channels, channels // 2, 2, 2)
        self.conv = DoubleConv(channels, out, channels // 2 if resized else None, **given)

    def forward(self, x, skip):
        x = self.up(x)
        rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        x = nn.functional.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([skip, x], 1))


def unets():
    kinds = {"batch": (False, {}), "resized": (True, {}), "plain": (False, {"norm": nn.Identity, "activation": nn.SiLU}),
             "group": (True, {"norm": lambda channels: nn.GroupNorm(2, channels)})}  # fmt: skip
    for seed, (name, (resized, given)) in enumerate(kinds.items()):
        # Of a resized one both halves have as many channels, so that their sum is what `up` is told.
        net = nn.ModuleDict({"inc": DoubleConv(2, 4, **given), "down1": Down(4, 4 if resized else 8, **given), "up1": Up(8, 4, resized, **given)})
        randomized(net, 60 + seed, 0.8)
        for size, (h, w) in {"odd": (9, 7), "even": (6, 8)}.items():
            x = noise(2, 2, h, w, seed=61)
            first = net["inc"](x)
            put(f"unet_{name}", **{f"in__{size}": x, f"out__{size}": net["up1"](net["down1"](first), first)})
        put_params(f"unet_{name}", net)


# ---- recurrent layers ----

def recurrent():
    x = noise(3, 5, 4, seed=70)
    kinds = {"lstm": (nn.LSTM, {}), "gru": (nn.GRU, {}), "rnn_tanh": (nn.RNN, {}), "rnn_relu": (nn.RNN, {"nonlinearity": "relu"})}
    for seed, (kind, (made, given)) in enumerate(kinds.items()):
        for name, layers, both, bias in (("deep", 2, True, True), ("plain", 1, False, False)):
            case, directions = f"{kind}_{name}", 2 if both else 1
            net = randomized(made(4, 6, layers, bias=bias, batch_first=True, bidirectional=both, **given), 71 + seed)
            put_params(case, net, rename=lambda n: f"rnn.{n}")
            h, c = (noise(layers * directions, 3, 6, seed=s) for s in (72, 73))
            start = (h, c) if kind == "lstm" else h
            put(case, in__x=x, in__h=h, in__c=c, out__from_zeros=net(x)[0])
            y, last = net(x, start)
            put(case, out__y=y, out__h=last[0] if kind == "lstm" else last, **({"out__c": last[1]} if kind == "lstm" else {}))
        cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}.get(kind, nn.RNNCell)
        cell = randomized(cell(4, 6, **given), 80 + seed)
        put_params(f"{kind}_cell", cell, rename=lambda n: f"cell.{n}")
        h, c = noise(3, 6, seed=81), noise(3, 6, seed=82)
        put(f"{kind}_cell", in__x=x[:, 0], in__h=h, in__c=c)
        made = cell(x[:, 0], (h, c) if kind == "lstm" else h)
        put(f"{kind}_cell", out__h=made[0] if kind == "lstm" else made, **({"out__c": made[1]} if kind == "lstm" else {}))


def main():
    for part in (ropes, decoders, balancing, encoder_layers, vision, unets, recurrent): part()
    out = recorded.folder("model_blocks")
    write_safetensors(out / "blocks.safetensors", TENSORS)
    cases = sorted({name.split("/")[0] for name in TENSORS})
    recorded.write_versions(out, "model_blocks.py", ["numpy", "torch", "torchvision", "transformers"], cases=cases)
    print(len(cases), "cases,", sum(t.nbytes for t in TENSORS.values()), "bytes")


if __name__ == "__main__":
    main()
