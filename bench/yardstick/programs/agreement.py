"""How far results are from another: python3 -m yardstick.programs.agreement REFERENCE.npy RESULT.npy... prints a JSON list with
{"cosine", "top1"} or null for each result. cosine: the least of the rows (of the last dim). top1: the share of the rows in
which the largest number stands where the reference has it; of embeddings, the share of rows whose nearest other row is
the same; null where there is one row alone."""

import json
import sys

import numpy as np


def rows_of(path):
    values = np.load(path).astype(np.float64)
    return values.reshape(-1, values.shape[-1])


def nearest(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    like = unit @ unit.T
    np.fill_diagonal(like, -np.inf)
    return like.argmax(1)


def compare(reference, result, are_embeddings):
    cosines = (reference * result).sum(1) / (np.linalg.norm(reference, axis=1) * np.linalg.norm(result, axis=1))
    if are_embeddings and len(reference) < 3:
        return {"cosine": float(cosines.min()), "top1": None}
    best = nearest if are_embeddings else lambda rows: rows.argmax(1)
    return {"cosine": float(cosines.min()), "top1": float((best(reference) == best(result)).mean())}


def main(words):
    are_embeddings = words[0] == "--embeddings"
    reference, *results = words[are_embeddings:]
    rows = rows_of(reference)
    answers = []
    for path in results:
        result = rows_of(path)
        answers.append(compare(rows, result, are_embeddings) if result.shape == rows.shape else None)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1:])
