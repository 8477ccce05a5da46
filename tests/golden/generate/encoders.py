"""Small encoders of texts and what they make, tests/golden/encoders/: by the packages `transformers` and `sentence_transformers`, with
random weights. What they are is told in scripts/judge_encoders.py, which holds larger ones to more texts.

usage: encoders.py

Models with a head have `ids.json`, three texts of different lengths, and `logits.npy`: what transformers makes of them in one padded batch,
f32 [3, longest, vocabulary] with zeros for the padding, or [3, classes]. Folders of sentence_transformers have `sentences.txt` and
`embeddings.npy`, a row a line.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import sentence_transformers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import judge_encoders as judge

FOLDER = ROOT / "tests/golden/encoders"
TINY = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_hidden_layers": 4}
HEADS = ("modernbert_mlm", "modernbert_biases", "modernbert_cls", "modernbert_cls_mean", "modernbert_older_file", "bert_mlm", "bert_cls")
SENTENCES = ("modernbert_first", "modernbert_all_modes")
LENGTHS = (23, 1, 40)  # beyond the windows


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in HEADS:
        kind, _, options = judge.MODELS[name]
        folder = FOLDER / name
        model = judge.made(name, **TINY, vocab_size=41)
        model.save_pretrained(folder)
        if "file" in options: model = judge.as_in_file(folder, options["file"], kind)
        random = np.random.default_rng(5)
        texts = [random.integers(0, 41, n).tolist() for n in LENGTHS]
        (folder / "ids.json").write_text(json.dumps(texts) + "\n")
        ids = torch.tensor([text + [0] * (max(LENGTHS) - len(text)) for text in texts])
        mask = torch.tensor([[1] * n + [0] * (max(LENGTHS) - n) for n in LENGTHS])
        with torch.no_grad():
            made = model(ids, attention_mask=mask).logits
        np.save(folder / "logits.npy", (made * mask[:, :, None] if made.dim() == 3 else made).numpy())
    for name in SENTENCES:
        model = judge.save_sentences(name, FOLDER / name, **TINY)
        lines = judge.sentences_for(12, seed=3)
        (FOLDER / name / "sentences.txt").write_text("".join(line + "\n" for line in lines))
        np.save(FOLDER / name / "embeddings.npy", np.stack([model.encode(line) for line in lines]))
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__,
                "sentence_transformers": sentence_transformers.__version__}  # fmt: skip
    (FOLDER / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
