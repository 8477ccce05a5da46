"""Quantized Hugging Face folders as AutoGPTQ, GPTQModel, AutoAWQ, bitsandbytes and mlx-lm lay them out, made of a model's matrices by rounding
to nearest, and the numbers that their formulas give. `judge_packed_folders.py` holds the layouts to the packages' own code."""

import json

import numpy as np
import torch
from safetensors.torch import save_file

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the column whose code stands in the lowest, second ... four bits of a word


def scaled(weight, group, bits, symmetric, scale_dtype=torch.float16):
    """Codes [in, out], zero points and scales [groups, out] of weight [out, in]."""
    w = weight.t().double()
    k, n = w.shape
    group = k if group < 0 else group
    parts = [w[i : i + group] for i in range(0, k, group)]
    top = 2**bits - 1
    if symmetric:
        scales = torch.stack([p.abs().amax(0) * 2 / top for p in parts])
        zeros = torch.full(scales.shape, 2 ** (bits - 1))
    else:
        low, high = torch.stack([p.amin(0).clamp(max=0) for p in parts]), torch.stack([p.amax(0).clamp(min=0) for p in parts])
        scales = (high - low) / top
        zeros = torch.round(-low / scales).clamp(1, top)  # the first version of GPTQ's files cannot say 0
    scales = scales.to(scale_dtype).clamp(min=1e-4)
    spread = lambda t: t.repeat_interleave(group, 0)[:k]
    codes = torch.round(w / spread(scales.double()) + spread(zeros)).clamp(0, top).to(torch.int64)
    return codes, zeros.to(torch.int64), scales


def value(codes, zeros, scales, group):
    """What they stand for, exactly, as f32 [out, in]."""
    spread = lambda t: t.repeat_interleave(codes.shape[0] if group < 0 else group, 0)[: codes.shape[0]]
    return ((codes - spread(zeros)).float() * spread(scales.float())).t().contiguous()


def words(codes, bits):
    """A stream of codes along dim 0 as words of 32 bits, the lowest bits first."""
    codes = codes.numpy().astype(np.uint8)
    stream = ((codes[:, None, :] >> np.arange(bits, dtype=np.uint8)[None, :, None]) & 1).reshape(-1, codes.shape[1])
    stream = np.pad(stream, ((0, -len(stream) % 32), (0, 0)))
    packed = np.packbits(stream.reshape(-1, 32, codes.shape[1]), axis=1, bitorder="little")  # [words, 4, columns]
    return torch.from_numpy(np.ascontiguousarray(packed.transpose(0, 2, 1)).view(np.uint32)[:, :, 0].astype(np.int32).copy())


def gptq(weight, bits=4, group=32, symmetric=True, act_order=False, version=1, seed=0):
    k = weight.shape[1]
    order = torch.randperm(k, generator=torch.Generator().manual_seed(seed)) if act_order else torch.arange(k)
    codes, zeros, scales = scaled(weight[:, order], group, bits, symmetric)
    size = k if group < 0 else group
    g_idx = torch.empty(k, dtype=torch.int32)
    g_idx[order] = (torch.arange(k) // size).to(torch.int32)
    place = torch.argsort(order)
    dequantized = value(codes, zeros, scales, group)[:, place]
    tensors = {"qweight": words(codes[place], bits), "qzeros": words((zeros - int(version == 1)).t(), bits).t(), "scales": scales, "g_idx": g_idx}
    return tensors, dequantized


def awq(weight, group=32):
    codes, zeros, scales = scaled(weight, group, 4, False)
    pack = lambda t: words(t.reshape(t.shape[0], -1, 8)[:, :, AWQ_ORDER].reshape(t.shape[0], -1).t(), 4).t()
    return {"qweight": pack(codes), "qzeros": pack(zeros), "scales": scales}, value(codes, zeros, scales, group)


def mlx(weight, bits=4, group=32, dtype=torch.float16):
    codes, zeros, scales = scaled(weight, group, bits, False, dtype)
    biases = (-zeros * scales.double()).to(dtype)
    spread = lambda t: t.repeat_interleave(group, 0).float()
    dequantized = (codes.float() * spread(scales) + spread(biases)).t().contiguous()
    packed = words(codes, bits).t().contiguous().numpy().view(np.uint32)
    return {"weight": torch.from_numpy(packed.copy()), "scales": scales.t(), "biases": biases.t()}, dequantized


def bitsandbytes(weight, kind="nf4", double=True):
    """By the package itself, on the CPU. Its kernel there reads rows wrongly that are not whole blocks, and a matrix of one row rightly."""
    from bitsandbytes import functional as f

    codes, state = f.quantize_4bit(weight.float().contiguous(), blocksize=64, compress_statistics=double, quant_type=kind)
    tensors = {"weight": codes, **{f"weight.{k}": v for k, v in state.as_dict(packed=True).items()}}
    state.shape = (1, weight.numel())
    return tensors, f.dequantize_4bit(codes, state).float().reshape(weight.shape)


def int8(weight):
    largest = weight.float().abs().amax(1)
    codes = torch.round(weight.float() * (127 / largest)[:, None]).to(torch.int8)
    tensors = {"weight": codes, "SCB": largest, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return tensors, codes.float() * (largest * np.float32(1 / 127))[:, None]


def gptq_config(bits=4, group=32, symmetric=True, act_order=False, version=1):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order, "sym": symmetric,
            "checkpoint_format": "gptq" if version == 1 else "gptq_v2", "true_sequential": True, "damp_percent": 0.01}  # fmt: skip


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True, "backend": "autoawq", "modules_to_not_convert": None}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_storage": "uint8", "bnb_4bit_compute_dtype": "float32"}

# name: key and value in config.json, how a matrix is packed, and whether the table of tokens is, too.
KINDS = {
    "gptq": ("quantization_config", gptq_config(), gptq, {}),
    "gptq_order": ("quantization_config", gptq_config(symmetric=False, act_order=True), gptq, {"symmetric": False, "act_order": True}),
    "gptq_column": ("quantization_config", gptq_config(group=-1, version=2), gptq, {"group": -1, "version": 2}),
    "gptq_8": ("quantization_config", gptq_config(bits=8, symmetric=False, version=2), gptq, {"bits": 8, "symmetric": False, "version": 2}),
    "gptq_8_sym": ("quantization_config", gptq_config(bits=8), gptq, {"bits": 8}),
    "gptq_3": ("quantization_config", gptq_config(bits=3, symmetric=False), gptq, {"bits": 3, "symmetric": False}),
    "gptq_2": ("quantization_config", gptq_config(bits=2), gptq, {"bits": 2}),
    "awq": ("quantization_config", AWQ, awq, {}),
    "awq_16": ("quantization_config", {**AWQ, "group_size": 16}, awq, {"group": 16}),
    "nf4": ("quantization_config", {**BNB, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}, bitsandbytes, {}),
    "nf4_plain": ("quantization_config", {**BNB, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False}, bitsandbytes, {"double": False}),
    "fp4": ("quantization_config", {**BNB, "bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": True}, bitsandbytes, {"kind": "fp4"}),
    "int8": ("quantization_config", {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}, int8, {}),
    "mlx_4": ("quantization", {"group_size": 32, "bits": 4}, mlx, {}),
    "mlx_3": ("quantization", {"group_size": 32, "bits": 3, "mode": "affine"}, mlx, {"bits": 3, "dtype": torch.bfloat16}),
    "mlx_6": ("quantization", {"group_size": 32, "bits": 6}, mlx, {"bits": 6}),
    "mlx_8": ("quantization", {"group_size": 16, "bits": 8}, mlx, {"bits": 8, "group": 16}),
}  # fmt: skip


def split_experts(state):
    """Names as files have them: transformers 5 keeps experts together, [experts, 2 * width, hidden] for gate and up."""
    out = {}
    for name, t in state.items():
        if name.endswith("experts.gate_up_proj"):
            for e, one in enumerate(t):
                for part, half in zip(("gate_proj", "up_proj"), one.chunk(2)):
                    out[name.replace("gate_up_proj", f"{e}.{part}.weight")] = half
        elif name.endswith("experts.down_proj"):
            for e, one in enumerate(t): out[name.replace("down_proj", f"{e}.down_proj.weight")] = one
        else: out[name] = t
    return out


def save(model, folder, kind, left_alone=("lm_head", "mlp.gate")):
    """Writes the folder, and gives the model the numbers that the packed matrices stand for."""
    key, config, pack, options = KINDS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    is_mlx, tensors, numbers = pack is mlx, {}, {}
    state = split_experts({k: v.detach() for k, v in model.state_dict().items()})
    if model.config.tie_word_embeddings: state.pop("lm_head.weight", None)
    for name, t in state.items():
        module = name.removesuffix(".weight")
        is_matrix = t.dim() == 2 and name.endswith(".weight") and (is_mlx or "embed" not in name)
        if not is_matrix or module.endswith(left_alone):
            tensors[name], numbers[name] = t, t
            continue
        parts, numbers[name] = pack(t, **options)
        for part, p in parts.items(): tensors[f"{module}.{part}"] = p
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: config}, indent=2) + "\n")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("experts.gate_up_proj"):
                at = name.replace("gate_up_proj", "{}.{}.weight")
                p.copy_(torch.stack([torch.cat([numbers[at.format(e, part)] for part in ("gate_proj", "up_proj")]) for e in range(len(p))]))
            elif name.endswith("experts.down_proj"):
                p.copy_(torch.stack([numbers[name.replace("down_proj", f"{e}.down_proj.weight")] for e in range(len(p))]))
            elif name in numbers: p.copy_(numbers[name])
    return model
