#!/usr/bin/env python3
"""Writes sampler_cases.json: what the processors of the Python package transformers leave of logits, each alone and in the
order of `generate`. Needs `pip install torch transformers`.

    tests/sampling/sampler_cases.py
"""

import json
import pathlib

import numpy as np
import torch
from transformers.generation import logits_process as p

BUILD = {
    "logit_bias": lambda v: p.SequenceBiasLogitsProcessor([[[i], float(b)] for i, b in v]),
    "repetition_penalty": lambda v: p.RepetitionPenaltyLogitsProcessor(v),
    "temperature": lambda v: p.TemperatureLogitsWarper(v),
    "top_k": lambda v: p.TopKLogitsWarper(v),
    "top_p": lambda v: p.TopPLogitsWarper(v),
    "min_p": lambda v: p.MinPLogitsWarper(v),
    "typical_p": lambda v: p.TypicalLogitsWarper(v),
}
ORDER = list(BUILD)  # that of GenerationMixin._get_logits_processor

SETTINGS = [
    {}, {"temperature": 0.5}, {"temperature": 2.5}, {"top_k": 1}, {"top_k": 7}, {"top_k": 1000}, {"top_p": 0.01}, {"top_p": 0.5}, {"top_p": 0.9},
    {"top_p": 0.999}, {"min_p": 0.05}, {"min_p": 0.5}, {"min_p": 1.0}, {"typical_p": 0.2}, {"typical_p": 0.9}, {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7}, {"logit_bias": [[3, 5.0], [17, -4.0], [40, float("-inf")]]},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.8}, {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.02},
    {"repetition_penalty": 1.1, "temperature": 1.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.95},
    {"logit_bias": [[0, 2.0]], "repetition_penalty": 1.2, "temperature": 0.3, "min_p": 0.001, "typical_p": 0.5},
]


def main():
    rng = np.random.default_rng(11)
    rows = {
        "normal": rng.normal(0, 3, 200), "peaked": np.concatenate([[12.0], rng.normal(0, 1, 99)]), "flat": rng.normal(0, 0.01, 64),
        "with -inf": np.where(rng.random(80) < 0.4, -np.inf, rng.normal(0, 4, 80)), "large": rng.normal(0, 300, 50), "ties": np.round(rng.normal(0, 2, 60) * 2) / 2,
    }
    seen = [3, 5, 5, 17, 31, 2]
    cases = []
    for name, row in rows.items():
        logits = torch.tensor(row, dtype=torch.float32)[None]
        for settings in SETTINGS:
            # Which of equal logits a cut by rank takes is chance in torch, as it sorts them unstably.
            if name == "ties" and {"top_p", "typical_p"} & set(settings):
                continue
            scores = logits.clone()
            for key in ORDER:
                if key in settings:
                    scores = BUILD[key](settings[key])(torch.tensor([seen]), scores)
            chances = torch.softmax(scores.double(), -1)[0]
            kept = torch.nonzero(torch.isfinite(scores[0])).flatten().tolist()
            text = lambda v: [[i, "-inf" if b == float("-inf") else b] for i, b in v] if isinstance(v, list) else v
            cases.append({"row": name, "settings": {k: text(v) for k, v in settings.items()}, "kept": kept,
                          "probabilities": [float(f"{chances[i]:.9g}") for i in kept]})
    texts = {name: [float(x) if np.isfinite(x) else "-inf" for x in row.astype(np.float32)] for name, row in rows.items()}
    out = pathlib.Path(__file__).with_suffix(".json")
    out.write_text(json.dumps({"seen": seen, "rows": texts, "cases": cases}) + "\n")
    print(f"{len(cases)} cases, {out.stat().st_size} bytes")


main()
