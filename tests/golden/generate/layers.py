"""Layers with state in training, by PyTorch: tests/golden/layers/steps.safetensors holds the losses of ten steps of a net of an embedding
(whose indices repeat), batch norm and a linear layer, its params and running statistics afterwards, and its loss in eval mode.

usage: layers.py
"""
import numpy as np
import torch

import recorded
from ops.case import write_safetensors

STEPS, ROWS, WIDTH, CLASSES = 10, 7, 4, 3


def numbers(shape, factor, add, modulus):
    """tests/train/layers_test.cpp and tests/python/test_train.py make the same ones."""
    return (((factor * np.arange(np.prod(shape)) + add) % modulus) / modulus - 0.5).reshape(shape)


def main():
    ids = torch.tensor((np.arange(30) * 5 + np.arange(30) // 7) % ROWS).reshape(6, 5)
    labels = torch.tensor(np.arange(6) % CLASSES)
    embedding, norm, head = torch.nn.Embedding(ROWS, WIDTH), torch.nn.BatchNorm1d(WIDTH), torch.nn.Linear(WIDTH, CLASSES)
    net = torch.nn.ModuleDict({"embedding": embedding, "norm": norm, "head": head}).double()
    with torch.no_grad():
        embedding.weight.copy_(torch.tensor(numbers((ROWS, WIDTH), 5, 1, 13)))
        head.weight.copy_(torch.tensor(numbers((CLASSES, WIDTH), 3, 2, 11)))
        head.bias.zero_()

    def loss():
        x = norm(embedding(ids).transpose(1, 2))  # [6, WIDTH, 5]
        return torch.nn.functional.cross_entropy(head(torch.tanh(x).mean(2)), labels)

    optimizer, losses = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    arrays = {name: value.numpy() for name, value in net.state_dict().items() if value.is_floating_point()}
    net.eval()
    arrays["losses"], arrays["eval_loss"] = np.array(losses), np.array(loss().item())
    out = recorded.folder("layers")
    write_safetensors(out / "steps.safetensors", arrays)
    recorded.write_versions(out, "layers.py", ["numpy", "torch"], arrays=sorted(arrays))
    print(losses, arrays["eval_loss"], arrays["norm.running_mean"], arrays["norm.running_var"])


if __name__ == "__main__":
    main()
