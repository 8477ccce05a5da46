#!/usr/bin/env python3
"""Params and flops of two models as PyTorch counts them (torch.utils.flop_counter: a multiplication and an addition are two), for
tests/cost/manifest_test.cpp. Prints what the test has as numbers. PyTorch 2.x; no weights are read.

    .deps/bench/venv/bin/python tests/cost/flops_of_torch.py
"""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        def split(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        y = nn.functional.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)))
        return self.norm(x + self.dense(y.transpose(1, 2).reshape(x.shape)))


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = Attention(width, heads)
        self.up, self.down, self.norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)

    def forward(self, x):
        x = self.attention(x)
        return self.norm(x + self.down(nn.functional.gelu(self.up(x))))


class MiniLM(nn.Module):
    """all-MiniLM-L6-v2 by its config.json, with the pooler that its file has and sentence vectors do not use."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.types = nn.Embedding(30522, 384), nn.Embedding(512, 384), nn.Embedding(2, 384)
        self.norm, self.pooler = nn.LayerNorm(384), nn.Linear(384, 384)
        self.layers = nn.ModuleList(Layer(384, 12, 1536) for _ in range(6))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])) + self.types(torch.zeros_like(ids)))
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inner, outer, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.short(x) + self.conv2(torch.relu(self.conv1(x))))


class SmallResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.block1, self.block2 = Block(16, 16, 1), Block(16, 32, 2)
        self.grouped = nn.Conv2d(32, 32, 3, 1, 1, groups=8, bias=False)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.grouped(self.block2(self.block1(torch.relu(self.stem(x))))).mean((2, 3)))


def show(name, model, given):
    with FlopCounterMode(display=False) as counter:
        model(given)
    print(f"{name}: {sum(p.numel() for p in model.parameters())} params, {counter.get_total_flops()} flops")
    for kind, flops in counter.get_flop_counts()["Global"].items():
        print(f"  {kind}: {flops}")


if __name__ == "__main__":
    print("torch", torch.__version__)
    torch.manual_seed(0)
    minilm = MiniLM().eval()
    with torch.no_grad():
        print("pooler:", sum(p.numel() for p in minilm.pooler.parameters()))
        for batch, length in (1, 128), (4, 16):
            show(f"minilm {batch} x {length}", minilm, torch.zeros(batch, length, dtype=torch.long))
        show("small resnet 2 x 3 x 64 x 64", SmallResNet().eval(), torch.zeros(2, 3, 64, 64))
