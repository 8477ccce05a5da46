"""The weights of all-MiniLM-L6-v2, for the peers' programs: RLX_MODEL names its folder, else scripts/fetch_minilm.py's cache."""

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
