"""all-MiniLM-L6-v2 learns for 20 steps, in PyTorch: all its params, and low-rank adapters (Hu et al. 2021) on query and value alone.
tests/golden/fine_tuning: the batches (8 sentences, then what is left of each without every third word; token ids, 0 where there is
none), the losses of each step, and the vectors of the first batch behind the last step of the adapters.

usage: fine_tuning.py MODEL
"""
import sys

import numpy as np
import torch
import torch.nn.functional as F

import recorded
from encoder import LAYERS, Encoder
from ops.case import write_safetensors

STEPS, PAIRS, SCALE, RANK, ALPHA = 20, 8, 20.0, 8, 16.0
ADAPTED = [f"encoder.layer.{layer}.attention.self.{part}" for layer in range(LAYERS) for part in ("query", "value")]


def batches(encoder):
    lines = (recorded.GOLDEN / "search/corpus.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in dict.fromkeys(lines) if 7 <= len(line.split()) <= 20][: STEPS * PAIRS]
    for at in range(0, len(lines), PAIRS):
        anchors = lines[at : at + PAIRS]
        yield encoder.padded(anchors + [" ".join(w for i, w in enumerate(a.split()) if i % 3 != 2) for a in anchors])


def loss_of(encoder, ids, keep):
    """Each sentence is told from the others' counterparts: van den Oord et al. 2018, the temperature being 1 / SCALE."""
    rows = encoder.forward(torch.from_numpy(ids), torch.from_numpy(keep))
    return F.cross_entropy(SCALE * rows[:PAIRS] @ rows[PAIRS:].T, torch.arange(PAIRS))


def train(encoder, params, data, **adamw):
    optimizer, losses = torch.optim.AdamW(params, **adamw), []
    for ids, keep in data:
        optimizer.zero_grad()
        loss = loss_of(encoder, ids, keep)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def all_params(folder, dtype, data):
    encoder = Encoder(folder, dtype)
    params = [w.requires_grad_() for name, w in encoder.weights.items() if not name.startswith("pooler")]
    return train(encoder, params, data, lr=2e-5, weight_decay=0.01)


class Adapted(Encoder):
    def __init__(self, folder, dtype):
        super().__init__(folder, dtype)
        width = 384
        i = torch.arange(RANK * width, dtype=torch.float64)
        a = ((37 * i + 11) % 101 / 101 - 0.5).to(torch.float32).to(dtype).reshape(RANK, width) / width**0.5
        self.a = {name: a.clone().requires_grad_() for name in ADAPTED}
        self.b = {name: torch.zeros(width, RANK, dtype=dtype, requires_grad=True) for name in ADAPTED}

    def linear(self, x, name):
        y = super().linear(x, name)
        return y if name not in self.a else y + F.linear(F.linear(x, self.a[name]), self.b[name]) * (ALPHA / RANK)


def adapters(folder, dtype, data):
    encoder = Adapted(folder, dtype)
    losses = train(encoder, [*encoder.a.values(), *encoder.b.values()], data, lr=2e-3, weight_decay=0.01)
    with torch.no_grad():
        rows = encoder.forward(*(torch.from_numpy(x) for x in data[0])).numpy()
    trained = sum(w.numel() for w in [*encoder.a.values(), *encoder.b.values()])
    return losses, rows, trained / (trained + sum(w.numel() for n, w in encoder.weights.items() if not n.startswith("pooler")))


def main():
    torch.set_grad_enabled(True)
    folder = sys.argv[1]
    data = list(batches(Encoder(folder)))
    assert len(data) == STEPS
    length = max(ids.shape[1] for ids, _ in data)
    ids = np.zeros((STEPS, 2 * PAIRS, length), np.int32)
    for step, (batch, _) in enumerate(data):
        ids[step, :, : batch.shape[1]] = batch
    tensors, facts = {"ids": ids}, {}
    tensors["all"] = all_params(folder, torch.float32, data)
    facts["all, f32 from f64"] = float(np.abs(tensors["all"] - all_params(folder, torch.float64, data)).max())
    tensors["lora"], rows, share = adapters(folder, torch.float32, data)
    tensors["lora_rows"] = rows.astype(np.float32)
    other, other_rows, _ = adapters(folder, torch.float64, data)
    facts["lora, f32 from f64"] = float(np.abs(tensors["lora"] - other).max())
    facts["lora rows, f32 from f64"] = float(np.abs(rows - other_rows).max())
    facts["lora, trained part"] = share
    out = recorded.folder("fine_tuning")
    write_safetensors(out / "minilm.safetensors", tensors)
    recorded.write_versions(out, "fine_tuning.py", ["numpy", "torch", "tokenizers"], **facts)
    print(facts, tensors["all"], tensors["lora"], length)


if __name__ == "__main__":
    main()
