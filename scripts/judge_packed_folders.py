#!/usr/bin/env python3
"""Holds packed Hugging Face folders (AWQ, GPTQ, bitsandbytes, mlx-lm) to transformers, with the numbers that the packed matrices stand for.

    scripts/judge_packed_folders.py build/release/bin/rlx [--only KIND]... [--texts N]
    scripts/judge_packed_folders.py build/release/bin/rlx --adapters       # the package PEFT beside plain and packed models
    scripts/judge_packed_folders.py --layouts PACKAGES     # no program: scripts/packed_folders.py beside the packages' own code

Each architecture and kind is saved (scripts/packed_folders.py) and read by `rlx logits` at once, by 1 and by 7; the logits must be within 1e-4
of transformers' in f32, and the most likely token the same, as judge_language_models.py has it. With --adapters a model has one or two adapters of PEFT
with random numbers beside all of its products.

PACKAGES is a folder with auto_gptq/ (of the wheel auto-gptq 0.7.1) and awq/ (of the source package autoawq 0.2.9). AutoGPTQ's QuantLinear multiplies
with the tensors, AutoAWQ's dequantize_gemm unpacks them; both run on a CPU. bitsandbytes writes its tensors itself.

Needs torch, transformers, safetensors, numpy, bitsandbytes; --adapters peft.
"""

import argparse
import importlib.util
import pathlib
import sys
import tempfile

import judge_language_models as judge
import numpy as np
import packed_folders as packed
import torch

SIZES = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "vocab_size": 136, "moe_intermediate_size": 32}
MODELS = {
    "llama": {}, "qwen2": {}, "qwen3": {"head_dim": 32}, "gemma2": {}, "phi3": {}, "qwen3_moe": {"num_experts": 4},
}  # fmt: skip


def sized(name):
    _, options = judge.MODELS[name]
    sizes = {k: v for k, v in {**SIZES, **MODELS[name]}.items() if k in options or k in judge.SMALL or k == "head_dim"}
    if name == "phi3": sizes.pop("head_dim")
    return judge.made(name, **sizes)


def module_of(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge_layouts(packages):
    gptq = module_of(next(packages.rglob("auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py")), "qlinear")
    by_order = module_of(next(packages.rglob("auto_gptq/nn_modules/qlinear/qlinear_cuda.py")), "qlinear_order")
    awq = module_of(next(packages.rglob("awq/utils/packing_utils.py")), "packing_utils")
    torch.manual_seed(3)
    weight, wrong = torch.randn(64, 96), 0

    def tell(label, got, wanted):
        nonlocal wrong
        worst = (got - wanted).abs().max().item()
        wrong += worst > 1e-6
        print(f"{label:50} worst difference {worst:.1e}{'' if worst <= 1e-6 else '  WRONG'}")

    for bits in (2, 3, 4, 8):
        for symmetric in (True, False):
            for order in (False, True):
                tensors, wanted = packed.gptq(weight, bits=bits, symmetric=symmetric, act_order=order)
                linear = (by_order if order else gptq).QuantLinear(bits, 32, 96, 64, False, weight_dtype=torch.float32)
                linear.load_state_dict({k: v.float() if k == "scales" else v.contiguous() for k, v in tensors.items()})
                tell(f"GPTQ, {bits} bits{', symmetric' if symmetric else ''}{', by g_idx' if order else ''}", linear(torch.eye(96)).t(), wanted)
    tensors, wanted = packed.awq(weight)
    got = awq.dequantize_gemm(tensors["qweight"].contiguous(), tensors["qzeros"].contiguous(), tensors["scales"].float(), 4, 32)
    tell("AWQ", got.t(), wanted)
    return wrong


def judge_adapters(rlx, folder, count):
    from peft import LoraConfig, get_peft_model

    wrong = 0
    for name, kind in (("llama", None), ("llama", "awq"), ("qwen2", "gptq_order"), ("qwen3", "mlx_4"), ("gemma2", "nf4"), ("phi3", "gptq_8"),
                       ("gpt2", None), ("llama_biases_tied", None)):  # fmt: skip
        model = sized(name) if kind else judge.made(name)
        if kind: packed.save(model, folder / "model", kind)
        else: model.save_pretrained(folder / "model")
        texts, adapters = judge.texts_for(model, count), []
        for number, options in enumerate(({"r": 4, "lora_alpha": 6}, {"r": 8, "lora_alpha": 3, "use_rslora": True})):
            torch.manual_seed(number)
            config = LoraConfig(target_modules="all-linear", init_lora_weights=False, fan_in_fan_out=name == "gpt2", **options)
            model = get_peft_model(model, config) if not number else model
            if number: model.add_adapter("other", config)
            adapters += ["--lora", folder / f"adapter_{number}" / ("other" if number else "")]
            model.save_pretrained(folder / f"adapter_{number}", selected_adapters=["other" if number else "default"])
            model.base_model.set_adapter(["default", "other"][: number + 1])
            wanted = judge.reference(model.eval(), texts, False)
            for chunk in (512, 7):
                label = f"{name}, {kind or 'plain'}, {number + 1} adapters, {'at once' if chunk == 512 else f'by {chunk}'}"
                try:
                    wrong += not judge.compare(label, judge.logits(rlx, folder / "model", texts, chunk, folder, "--context", "256", *adapters), wanted)
                except RuntimeError as error:
                    wrong += 1
                    print(f"{label:44} WRONG: {error}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlx", type=pathlib.Path, nargs="?", help="the program")
    parser.add_argument("--layouts", type=pathlib.Path, help="folder of the packages: the layouts alone")
    parser.add_argument("--adapters", action="store_true", help="adapters beside the package PEFT")
    parser.add_argument("--only", action="append", help="this kind or model alone; may be given several times")
    parser.add_argument("--texts", type=int, default=16, help="texts for each model (default 16)")
    parser.add_argument("--keep", type=pathlib.Path, help="folder in which the models stay")
    args = parser.parse_args()
    if args.adapters:
        with tempfile.TemporaryDirectory() as temporary: wrong = judge_adapters(args.rlx.resolve(), pathlib.Path(temporary), args.texts)
        print(f"{wrong} wrong")
        return 1 if wrong else 0
    if args.layouts:
        wrong = judge_layouts(args.layouts)
        print(f"{wrong} wrong")
        return 1 if wrong else 0
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in MODELS:
            for kind in packed.KINDS:
                if args.only and not {name, kind} & set(args.only): continue
                folder = (args.keep or pathlib.Path(temporary)) / f"{name}_{kind}"
                model = packed.save(sized(name), folder, kind)
                texts = judge.texts_for(model, args.texts)
                wanted = judge.reference(model, texts, False)
                for chunk in (512, 1, 7):
                    label = f"{name}, {kind}, {'at once' if chunk == 512 else f'by {chunk}'}"
                    try:
                        got = judge.logits(args.rlx.resolve(), folder, texts, chunk, pathlib.Path(temporary), "--context", "256")
                        wrong += not judge.compare(label, got, wanted)
                    except RuntimeError as error:
                        wrong += 1
                        print(f"{label:44} WRONG: {error}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
