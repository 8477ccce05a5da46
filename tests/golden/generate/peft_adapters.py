"""Adapters by the package PEFT: tests/golden/peft/bert and llama hold what `save_pretrained` wrote of adapters with random numbers on tiny models
of `transformers` (also random), and model.safetensors with the models' own weights (`base/...`; of llama those of the adapted modules), the
weights that `merge_and_unload` made of the adapted ones (`merged/...`), and for bert a batch and what the adapted model makes of it.

usage: peft_adapters.py              writes that
       peft_adapters.py FOLDER       loads FOLDER, written by RLX's save_lora from bert's adapter (tests/lora/peft_test.cpp, with
                                     RLX_PEFT_FOLDER=FOLDER), into PEFT and compares what the model makes of the batch
"""
import sys

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

import recorded


def bert():
    torch.manual_seed(1)
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=12)
    return BertModel(config, add_pooling_layer=False).eval()


def llama():
    torch.manual_seed(2)
    config = LlamaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24)
    return LlamaModel(config).eval()


CONFIGS = {"bert": LoraConfig(r=3, lora_alpha=7, target_modules=["query", "value", "output.dense"], init_lora_weights=False),
           "llama": LoraConfig(r=4, lora_alpha=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)}
IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def hidden(model):
    with torch.no_grad():
        return model(input_ids=IDS, attention_mask=MASK).last_hidden_state.numpy()


def write(name, model):
    out = recorded.folder(f"peft/{name}")
    base = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    torch.manual_seed(3)
    adapted = get_peft_model(model, CONFIGS[name])
    adapted.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    modules = {key.removeprefix("base_model.model.").rpartition(".lora_")[0] for key in load_file(out / "adapter_model.safetensors")}
    arrays = {}
    if name == "bert":
        arrays |= {"ids": IDS.numpy(), "mask": MASK.numpy(), "hidden": hidden(adapted.eval())}
    merged = {key: value.numpy() for key, value in adapted.merge_and_unload().state_dict().items()}
    assert set(merged) == set(base)
    for key, value in base.items():
        changed = key.removesuffix(".weight") in modules
        assert np.array_equal(value, merged[key]) != changed
        if changed:
            arrays[f"merged/{key}"] = merged[key]
        if changed or name == "bert" and value.dtype == np.float32:
            arrays[f"base/{key}"] = value
    save_file(arrays, out / "model.safetensors")
    print(name, len(modules), "modules", sum(x.nbytes for x in arrays.values()), "bytes")


def check(folder):
    golden = load_file(recorded.folder("peft/bert") / "model.safetensors")
    off = np.abs(hidden(PeftModel.from_pretrained(bert(), folder).eval()) - golden["hidden"]).max()
    plain = np.abs(hidden(bert()) - golden["hidden"]).max()
    print(f"PEFT with the adapter of {folder} is off by {off:.2g}; without any by {plain:.2g}")
    return 0 if off < 1e-6 < plain else 1


def main():
    if len(sys.argv) > 1:
        return check(sys.argv[1])
    write("bert", bert())
    write("llama", llama())
    recorded.write_versions(recorded.folder("peft"), "peft_adapters.py", ["peft", "transformers", "torch", "safetensors", "numpy"])


if __name__ == "__main__":
    sys.exit(main())
