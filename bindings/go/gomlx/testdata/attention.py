"""Writes attention.json: attention and its cotangents by NumPy in f64, for attention_test.go.

    python3 bindings/go/gomlx/testdata/attention.py
"""
import json
import pathlib

import numpy as np

BATCH, HEADS, KV_HEADS, QUERIES, SIZE = 2, 4, 2, 4, 3


def attention(q, k, v, ct, added):
    """softmax(q kT / sqrt(SIZE) + added) v, and the cotangents of q, k and v. All are [batch, heads, positions, size]."""
    scale, shared = SIZE**-0.5, HEADS // KV_HEADS
    keys, values = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
    scores = q @ keys.swapaxes(2, 3) * scale + added
    seen = np.isfinite(scores)
    most = np.max(np.where(seen, scores, -1e300), -1, keepdims=True)
    powers = np.where(seen, np.exp(np.where(seen, scores - most, 0)), 0)
    total = powers.sum(-1, keepdims=True)
    probabilities = powers / np.where(total == 0, 1, total)
    d_probabilities = ct @ values.swapaxes(2, 3)
    inner = (d_probabilities * probabilities).sum(-1, keepdims=True)
    d_scores = probabilities * (d_probabilities - inner) * scale
    d_keys, d_values = d_scores.swapaxes(2, 3) @ q, probabilities.swapaxes(2, 3) @ ct
    grouped = (BATCH, KV_HEADS, shared, QUERIES, SIZE)
    return probabilities @ values, d_scores @ keys, d_keys.reshape(grouped).sum(2), d_values.reshape(grouped).sum(2)


def main():
    draw = np.random.default_rng(7)
    q, ct = draw.standard_normal((2, BATCH, HEADS, QUERIES, SIZE)).astype(np.float32)
    k, v = draw.standard_normal((2, BATCH, KV_HEADS, QUERIES, SIZE)).astype(np.float32)
    bias = draw.standard_normal((HEADS, QUERIES, QUERIES)).astype(np.float32)
    place = np.arange(QUERIES)
    query_lengths, key_lengths = np.array([3, 2]), np.array([2, 4])
    within = (place < query_lengths[:, None])[:, None, :, None] & (place < key_lengths[:, None])[:, None, None, :]
    cases = {
        "causal": np.where(place[:, None] >= place, 0, -np.inf),
        "bias": bias,
        "lengths": np.where(within, 0, -np.inf),
    }
    given = {"q": q, "k": k, "v": v, "ct": ct, "bias": bias}
    made = {name: [x.ravel().tolist() for x in attention(*(x.astype(float) for x in (q, k, v, ct)), added)]
            for name, added in cases.items()}
    document = {"given": {name: x.ravel().tolist() for name, x in given.items()}, "expected": made}
    text = json.dumps(document, indent=1)
    pathlib.Path(__file__).with_suffix(".json").write_text(text + "\n")


main()
