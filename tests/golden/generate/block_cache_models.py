"""What caches of q8_0 and q4_0 do to the logits of a small model: tests/golden/block_caches/, by the package `transformers`, whose attention
is given keys and values that `gguf` has rounded, 32 elements of a head at a time, as llama.cpp does with --cache-type-k and -v.

usage: block_cache_models.py

The folder has a model with heads of 32 elements, `ids.json` (one text), and logits_CACHE.npy (f32 [tokens, vocabulary]) for f32, q8_0 and
q4_0. Queries stay f32 here; llama.cpp rounds them, too, where its processor multiplies blocks with blocks.
"""

import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/block_caches"
CONFIG = transformers.Qwen3Config(vocab_size=41, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                                  head_dim=32, max_position_embeddings=256, tie_word_embeddings=False)
TEXT = 70


def made():
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIG, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1: p.add_(0.2 * torch.randn_like(p))
            else: p.copy_(torch.randn_like(p) * (1.0 if "embed" in name else 1.2 / p.shape[-1] ** 0.5))
    return model


def rounded(t, kind):
    kind = gguf.GGMLQuantizationType[kind.upper()]
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(np.ascontiguousarray(t.numpy()), kind), kind)).reshape(t.shape)


def logits(model, ids, cache):
    module = sys.modules[type(model).__module__]
    attend = module.eager_attention_forward

    def with_rounded(module, query, key, value, *args, **kwargs):
        return attend(module, query, rounded(key, cache), rounded(value, cache), *args, **kwargs)

    module.eager_attention_forward = attend if cache == "f32" else with_rounded
    try:
        with torch.no_grad(): return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    finally:
        module.eager_attention_forward = attend


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    model = made()
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    ids = np.random.default_rng(5).integers(0, CONFIG.vocab_size, TEXT).tolist()
    (FOLDER / "ids.json").write_text(json.dumps(ids) + "\n")
    for cache in ("f32", "q8_0", "q4_0"): np.save(FOLDER / f"logits_{cache}.npy", logits(model, ids, cache))
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__, "gguf": "0.19.0"}
    (FOLDER / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
