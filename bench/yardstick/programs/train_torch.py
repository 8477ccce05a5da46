"""Training in PyTorch, eager, with its fused Adam (rate 0.001).

train_mlp: an epoch of 156 batches of 64 digits through 784-256-128-10. train_cnn: the same through two 3 by 3 convolutions
(16 and 32 channels), each with a pool, and one linear layer. train_encoder: one step of 4 pre-norm encoder layers (width 256,
8 heads, inner 1024) on 16 rows of 128 tokens.
"""

from yardstick import serve

THREADS, _ = serve.threads_and_variant()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from yardstick.programs import digits  # noqa: E402

torch.set_num_threads(THREADS)


class Layer(nn.Module):
    def __init__(self, width=256, heads=8, inner=1024):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 256), nn.Parameter(torch.randn(128, 256) * 0.02)
        self.layers, self.norm, self.head = nn.Sequential(*(Layer() for _ in range(4))), nn.LayerNorm(256), nn.Linear(256, 10)

    def forward(self, tokens):
        return self.head(self.norm(self.layers(self.words(tokens) + self.places)).mean(1))


def net(case):
    if case == "train_mlp":
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    if case == "train_encoder":
        return Encoder()
    pools = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), *pools, nn.Flatten(), nn.Linear(1568, 10))


def prepare(case):
    data = [digits.encoder_batch()] if case == "train_encoder" else digits.batches(*digits.load())
    data = [tuple(map(torch.from_numpy, pair)) for pair in data]

    def build():
        torch.manual_seed(0)
        model = net(case)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

        def run():
            for x, labels in data:
                optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(model(x), labels)
                loss.backward()
                optimizer.step()
            return loss.detach().reshape(1)

        return run

    return build


if __name__ == "__main__":
    serve.serve(prepare)
