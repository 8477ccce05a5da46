"""Small language models whose matrices are packed as AutoGPTQ, AutoAWQ, bitsandbytes and mlx-lm do it, and adapters of the package PEFT:
tests/golden/packed_language_models/. How they are packed is told in scripts/packed_folders.py; scripts/judge_packed_folders.py holds larger
ones to more texts, and the layouts to the packages' own code.

usage: packed_language_models.py

Each folder has a model, `ids.json` (one text) and `logits.npy` (f32 [tokens, vocabulary]) of transformers with the numbers that the packed
matrices stand for. `lora` and `rslora` are adapters of the models `llama3` (of ../language_models) and `awq`, and <adapter>_<model>.npy the
logits with them.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import recorded

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import judge_language_models as judge
import packed_folders as packed

TINY = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
# kind: the model, and what it has other than TINY
KEPT = {
    "gptq": ("llama", {"head_dim": 8}), "gptq_order": ("qwen2", {}), "gptq_column": ("llama", {"head_dim": 8, "num_hidden_layers": 1}),
    "gptq_3": ("llama", {"head_dim": 8, "num_hidden_layers": 1}), "gptq_8": ("llama", {"head_dim": 8, "num_hidden_layers": 1}), "awq": ("llama", {"head_dim": 8}),
    "nf4": ("llama", {"head_dim": 8}), "fp4": ("llama", {"head_dim": 8, "num_hidden_layers": 1}), "int8": ("llama", {"head_dim": 8, "num_hidden_layers": 1}),
    "mlx_4": ("qwen3", {"head_dim": 16}), "mlx_6": ("llama", {"head_dim": 8, "num_hidden_layers": 1}),
    "nf4_odd": ("mamba", {"state_size": 4, "time_step_rank": 3, "num_hidden_layers": 1}),  # a matrix with 11 outputs, one with 3 inputs
    "gptq_order_moe": ("qwen3_moe", {"head_dim": 16, "num_experts": 4, "moe_intermediate_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}),
}  # fmt: skip
ADAPTERS = {
    "lora": LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False),
    "rslora": LoraConfig(r=4, lora_alpha=4, use_rslora=True, target_modules=["k_proj", "o_proj", "gate_proj", "up_proj", "lm_head"],
                         rank_pattern={"k_proj": 2}, init_lora_weights=False),
}  # fmt: skip
TEXT = 24


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def main():
    folder = recorded.folder("packed_language_models")
    shutil.rmtree(folder, ignore_errors=True)
    ids, models = np.random.default_rng(5).integers(0, 41, TEXT).tolist(), {}
    for kind, (name, more) in KEPT.items():
        out = folder / kind
        models[kind] = packed.save(judge.made(name, **{**TINY, **more}), out, kind.removesuffix("_moe").removesuffix("_odd"))
        (out / "ids.json").write_text(json.dumps(ids) + "\n")
        np.save(out / "logits.npy", logits(models[kind], ids))
    plain = ROOT / "tests/golden/language_models/llama3"
    for name, config in ADAPTERS.items():
        for base in ("llama3", "awq"):
            # Adapters have the shapes of the model that they are for.
            path = f"{name}_{base}"
            model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32) if base == "llama3" else models[base]
            torch.manual_seed(3)
            adapted = get_peft_model(model, config).eval()
            adapted.save_pretrained(folder / path)
            (folder / path / "README.md").unlink(missing_ok=True)
            settings = json.loads((folder / path / "adapter_config.json").read_text())
            settings["target_modules"].sort()  # a set, in any order
            settings["base_model_name_or_path"] = None
            (folder / path / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
            np.save(folder / f"{path}.npy", logits(adapted, ids))
            adapted.unload()
    recorded.write_versions(folder, "packed_language_models.py", ["bitsandbytes", "peft", "transformers", "torch", "safetensors", "numpy"])


if __name__ == "__main__":
    main()
