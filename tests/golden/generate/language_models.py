"""Small language models and their logits, tests/golden/language_models/: by the package `transformers`, with random weights. What they
are is told in scripts/judge_language_models.py, which holds larger ones to more texts.

usage: language_models.py LLAMA_CPP    (a folder of llama.cpp's sources, whose converter makes the GGUF files)
       then language_model_caches.py and generation.py, whose expectations are of these models

Each folder has a model, `ids.json` (one text) and `logits.npy` (f32 [tokens, vocabulary], of the text read at once). A .gguf beside it is
the same model. Seeds are those of the judge; PyTorch draws the same numbers on every machine.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import judge_language_models as judge

FOLDER = ROOT / "tests/golden/language_models"
TINY = {"vocab_size": 41, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
FACTORS = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 5.0]}
KEPT = {  # and whether as GGUF
    "llama3": (True, {"head_dim": 8}),
    "llama_biases_tied": (False, {}),
    "llama_dynamic": (False, {}),
    "mistral_window": (False, {"head_dim": 6, "sliding_window": 5}),
    "qwen2": (True, {}),
    "qwen3_yarn": (True, {"head_dim": 8}),
    "gemma2_plain_scale": (True, {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "gemma3": (True, {"head_dim": 8, "query_pre_attn_scalar": 8, "num_hidden_layers": 7, "hidden_size": 8, "intermediate_size": 8}),
    "phi3_longrope": (True, {"rope_parameters": {**judge.LONG, **FACTORS}}),
    "gpt2": (True, {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 41}),
    "qwen3_moe": (True, {"head_dim": 8, "num_experts": 4, "moe_intermediate_size": 8}),
    "qwen3_next": (True, {"head_dim": 8, "num_experts": 4, "moe_intermediate_size": 8, "num_hidden_layers": 4, "shared_expert_intermediate_size": 12,
                          "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}),
    "mamba": (True, {"time_step_rank": 3}),
    "mamba2": (True, {"num_heads": 4, "head_dim": 8, "state_size": 8, "n_groups": 2}),
}
TEXT = 70  # tokens: beyond the context that longrope and dynamic scaling are stretched from


def main():
    llama = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, (has_gguf, more) in KEPT.items():
        model = judge.made(name, **{**TINY, **more} if name != "gpt2" else more)
        folder = FOLDER / name
        # Two of them in several files.
        model.save_pretrained(folder, max_shard_size="8KB" if name in ("qwen2", "qwen3_moe") else "1GB")
        (folder / "generation_config.json").unlink(missing_ok=True)
        ids = np.random.default_rng(5).integers(0, 41, TEXT).tolist()
        (folder / "ids.json").write_text(json.dumps(ids) + "\n")
        with torch.no_grad():
            np.save(folder / "logits.npy", model(torch.tensor([ids]), use_cache=False).logits[0].numpy())
        if has_gguf: judge.to_gguf(folder, llama, FOLDER / f"{name}.gguf")
        (folder / "tokenizer.json").unlink(missing_ok=True)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
