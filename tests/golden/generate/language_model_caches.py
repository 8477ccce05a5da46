"""What caches of 16 bits do to the logits of the models in tests/golden/language_models/: rounded_caches.json, by the package
`transformers`, whose attention is given queries, keys and values that were rounded to f16 or bf16, and whose result is rounded again.

usage: language_model_caches.py

For each model and dtype the worst difference to the logits without rounding. Two programs that round numbers which differ in their last
bits get other logits, but errors of the same size.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/language_models"


def rounding(attend, dtype):
    def rounded(module, query, key, value, *args, **kwargs):
        made, weights = attend(module, *(t.to(dtype).float() for t in (query, key, value)), *args, **kwargs)
        return made.to(dtype).float(), weights
    return rounded


def worst_error(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    module = sys.modules[type(model).__module__]
    attend = module.eager_attention_forward
    module.eager_attention_forward = rounding(attend, dtype)
    try:
        ids = json.loads((folder / "ids.json").read_text())
        with torch.no_grad(): made = model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    finally:
        module.eager_attention_forward = attend
    return float(np.abs(made - np.load(folder / "logits.npy")).max())


RECURRENT = ("mamba", "mamba2", "qwen3_next")  # layers without keys and values, which no dtype of caches rounds


def main():
    dtypes = {"f16": torch.float16, "bf16": torch.bfloat16}
    errors = {f.name: {name: worst_error(f, dtype) for name, dtype in dtypes.items()} for f in sorted(FOLDER.iterdir()) if f.is_dir() and f.name not in RECURRENT}
    (FOLDER / "rounded_caches.json").write_text(json.dumps(errors, indent=2) + "\n")


if __name__ == "__main__":
    main()
