"""The weights of all-MiniLM-L6-v2, for the peers' programs: RLX_MODEL names its folder, else scripts/fetch_minilm.py's cache.
Run as a program it writes a BERT-base of random weights into the bench's cache, unless it is there, and prints its folder."""

import json
import os
import pathlib


def folder():
    cache = pathlib.Path(os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache/rlx")
    found = pathlib.Path(os.environ.get("RLX_MODEL") or cache / "all-MiniLM-L6-v2")
    if not (found / "model.safetensors").is_file():
        raise FileNotFoundError(f"{found} has no model.safetensors; scripts/fetch_minilm.py fetches it, RLX_MODEL names a folder")
    return found


def load():
    from safetensors.numpy import load_file

    weights = load_file(folder() / "model.safetensors")
    return {name: w for name, w in weights.items() if "position_ids" not in name and "pooler" not in name}


def bench_cache():
    """Where files that are made once for the yardstick lie."""
    cache = pathlib.Path(os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache/rlx") / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def random_bert():
    """The folder of a BERT of base size, whose weights are drawn as BERT's are before training (normal, 0.02)."""
    import numpy as np
    from safetensors.numpy import save_file
    from yardstick.suites import ENCODERS

    target = bench_cache() / "bert_base_random"
    if (target / "model.safetensors").is_file():
        return target
    layers, width, inner, heads = ENCODERS["bert"]
    random, weights = np.random.default_rng(0), {}

    def linear(name, out, inputs):
        weights[name + ".weight"] = random.standard_normal((out, inputs), np.float32) * np.float32(0.02)
        weights[name + ".bias"] = random.standard_normal(out, np.float32) * np.float32(0.02)

    def norm(name):
        weights[name + ".weight"], weights[name + ".bias"] = np.ones(width, np.float32), np.zeros(width, np.float32)

    for name, rows in {"word": 30522, "position": 512, "token_type": 2}.items():
        weights[f"embeddings.{name}_embeddings.weight"] = random.standard_normal((rows, width), np.float32) * np.float32(0.02)
    norm("embeddings.LayerNorm")
    for layer in range(layers):
        p = f"encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            linear(f"{p}attention.self.{name}", width, width)
        linear(p + "attention.output.dense", width, width)
        norm(p + "attention.output.LayerNorm")
        linear(p + "intermediate.dense", inner, width)
        linear(p + "output.dense", width, inner)
        norm(p + "output.LayerNorm")
    target.mkdir(exist_ok=True)
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": width, "intermediate_size": inner,
              "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": heads, "num_hidden_layers": layers,
              "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 30522}  # fmt: skip
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(weights, target / "unfinished.safetensors")
    (target / "unfinished.safetensors").rename(target / "model.safetensors")
    return target


if __name__ == "__main__":
    print(random_bert())
