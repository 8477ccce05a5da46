#!/usr/bin/env python3
"""A step of an embedding of 100,000 rows of 256 numbers of which a batch reads 512: RLX and PyTorch (dense gradients, and Embedding with
sparse=True where its optimizers take them) in turn, processor time on one thread. One JSON line an optimizer.

    RLX_LIBRARY=build/release/lib/librlx_c.so PYTHONPATH=bindings/python bench/sparse_gradients.py [ROWS WIDTH BATCH]
"""
import json
import sys
import time

import numpy as np
import torch

import rlx
import rlx.numpy as rnp
from rlx import train

ROWS, WIDTH, BATCH = (int(x) for x in sys.argv[1:4]) if len(sys.argv) > 3 else (100_000, 256, 512)


def fastest(step, runs=7):
    step(), step()
    times = []
    for _ in range(runs):
        begin = time.process_time()
        step()
        times.append(time.process_time() - begin)
    return round(1e3 * min(times), 3)


def main():
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    table = random.normal(size=(ROWS, WIDTH)).astype("f4")
    ids = (random.zipf(1.3, BATCH) % ROWS).astype("i4")
    target = random.normal(size=(BATCH, WIDTH)).astype("f4")

    def ours(optimizer):
        session = train.Session(lambda p, ids, t: rnp.sum((p["table"][ids] - t) ** 2), {"table": table}, optimizer, session=rlx.Session(threads=1))
        return lambda: session.step(ids, target)

    def theirs(make, sparse):
        embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(table.copy()), freeze=False, sparse=sparse)
        optimizer, at, t = make(embedding.parameters()), torch.from_numpy(ids.astype("i8")), torch.from_numpy(target)

        def step():
            optimizer.zero_grad(set_to_none=True)
            ((embedding(at) - t) ** 2).sum().backward()
            optimizer.step()

        return step

    rows = {"sgd": (train.sgd(1e-2), lambda p: torch.optim.SGD(p, 1e-2), True), "adagrad": (train.adagrad(1e-2), lambda p: torch.optim.Adagrad(p, 1e-2), True),
            "adam": (train.adam(1e-3), lambda p: torch.optim.Adam(p, 1e-3), False)}
    for name, (optimizer, make, sparse) in rows.items():
        row = {"optimizer": name, "rows": ROWS, "width": WIDTH, "batch": BATCH, "rlx_ms": fastest(ours(optimizer)), "torch_dense_ms": fastest(theirs(make, False))}
        if sparse:
            row["torch_sparse_ms"] = fastest(theirs(make, True))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
