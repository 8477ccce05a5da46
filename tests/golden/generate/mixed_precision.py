"""Training with automatic mixed precision by PyTorch: tests/golden/mixed_precision/steps.safetensors holds, for f16 with a gradient
scaler and for bf16, the losses of forty steps of gradient descent on a small net, and the scale before each step. A loss that is
multiplied by 60 in f16 makes the scaler skip steps.

usage: mixed_precision.py
"""
import numpy as np
import torch

import recorded
from ops.case import f32, write_safetensors

STEPS = 40


def data():
    """Numbers that tests/train/mixed_precision_test.cpp makes again: no file holds them."""
    x = (((7 * np.arange(16 * 6) + 1) % 23) / 23 - 0.5).astype(f32).reshape(16, 6)
    w1 = (((5 * np.arange(6 * 12) + 3) % 19) / 19 - 0.5).astype(f32).reshape(6, 12)
    w2 = (((3 * np.arange(12 * 4) + 2) % 17) / 17 - 0.5).astype(f32).reshape(12, 4)
    labels = (np.arange(16) * 3) % 4
    return x, w1, w2, labels


def trained(dtype, scale, factor=1.0):
    x, w1, w2, labels = (torch.tensor(v) for v in data())
    w1, w2 = torch.nn.Parameter(w1), torch.nn.Parameter(w2)
    optimizer = torch.optim.SGD([w1, w2], lr=0.5 / factor)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=4, enabled=dtype == torch.float16)
    losses, scales = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            logits = torch.relu(x @ w1) @ w2
            loss = torch.nn.functional.cross_entropy(logits.float(), labels) * factor
        losses.append(loss.item())
        scales.append(scaler.get_scale())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return np.array([losses, scales])


def main():
    runs = {"f16": trained(torch.float16, 1024.0), "f16_overflowing": trained(torch.float16, 2.0**22, 60.0),
            "bf16": trained(torch.bfloat16, 1.0)}
    out = recorded.folder("mixed_precision")
    write_safetensors(out / "steps.safetensors", runs)
    recorded.write_versions(out, "mixed_precision.py", ["numpy", "torch"], runs=sorted(runs))
    for name, (losses, scales) in runs.items():
        print(name, losses[:4], losses[-1], scales)


if __name__ == "__main__":
    main()
