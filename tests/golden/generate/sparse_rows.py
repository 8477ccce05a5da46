"""Tables of which a step reads some rows, by PyTorch's sparse gradients (Embedding with sparse=True): tests/golden/sparse_rows/steps.safetensors
holds, for SGD and Adagrad, the losses of ten steps, the norms of their gradients, the table and what Adagrad keeps of it.

usage: sparse_rows.py
"""
import numpy as np
import torch

import recorded
from ops.case import write_safetensors

STEPS, ROWS, WIDTH = 10, 60, 4


def numbers(shape, factor, add, modulus):
    """tests/train/sparse_rows_test.cpp makes the same ones."""
    return (((factor * np.arange(np.prod(shape)) + add) % modulus) / modulus - 0.5).reshape(shape)


def train(make):
    table = torch.nn.Embedding(ROWS, WIDTH, sparse=True).double()
    with torch.no_grad():
        table.weight.copy_(torch.tensor(numbers((ROWS, WIDTH), 5, 1, 13)))
    target = torch.tensor(numbers((6, WIDTH), 3, 2, 11))
    optimizer, losses, norms = make(table.parameters()), [], []
    for step in range(STEPS):
        # Rows that repeat within a lookup, in both, and from step to step.
        ids = torch.tensor((np.arange(6) * 7 + np.arange(6) // 4 * 11 + step) % 21 + 30)
        more = torch.tensor([[30 + step, 2], [2, 59]])
        optimizer.zero_grad()
        loss = ((table(ids) - target) ** 2).sum() + (table(more).sum(0) ** 3).sum() / 8
        loss.backward()
        norms.append(table.weight.grad.coalesce().values().norm().item())
        optimizer.step()
        losses.append(loss.item())
    made = {"losses": np.array(losses), "norms": np.array(norms), "table": table.weight.detach().numpy()}
    state = optimizer.state[table.weight]
    return made | ({"sum": state["sum"].numpy()} if "sum" in state else {})


def main():
    runs = {"sgd": train(lambda p: torch.optim.SGD(p, lr=0.1)), "adagrad": train(lambda p: torch.optim.Adagrad(p, lr=0.1))}
    arrays = {f"{name}/{key}": x for name, run in runs.items() for key, x in run.items()}
    out = recorded.folder("sparse_rows")
    write_safetensors(out / "steps.safetensors", arrays)
    recorded.write_versions(out, "sparse_rows.py", ["numpy", "torch"], arrays=sorted(arrays))
    print({key: x[[0, -1]] for key, x in arrays.items() if x.ndim == 1})


if __name__ == "__main__":
    main()
