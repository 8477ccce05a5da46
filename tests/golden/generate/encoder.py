"""all-MiniLM-L6-v2 in PyTorch, written from the names in its model.safetensors: the judge of embeddings.py and
search.py. Post-norm BERT, 6 layers of 384 = 12 heads x 32, mean pooling over the mask, L2 norm.
"""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

MAX_TOKENS = 256  # max_seq_length of sentence_bert_config.json
HEADS, LAYERS, EPS = 12, 6, 1e-12

torch.set_grad_enabled(False)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)  # one summation order on every machine of a kind


class Encoder:
    def __init__(self, folder, dtype=torch.float32):
        folder = pathlib.Path(folder)
        self.weights = {name: w.to(dtype) for name, w in load_file(folder / "model.safetensors").items() if w.is_floating_point()}
        self.dtype = dtype
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"], self.weights[name + ".bias"], EPS)

    def attention(self, x, keep, name):
        batch, length, width = x.shape
        q, k, v = (self.linear(x, f"{name}.self.{part}").view(batch, length, HEADS, -1).transpose(1, 2) for part in ("query", "key", "value"))
        scores = q @ k.transpose(-1, -2) / (width // HEADS) ** 0.5
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return self.linear(context, name + ".output.dense")

    def forward(self, ids, keep):
        """ids and keep (True = a token, False = padding): [batch, length]. Returns unit rows [batch, 384]."""
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self.norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            x = self.norm(x + self.attention(x, keep, name + ".attention"), name + ".attention.output.LayerNorm")
            inner = F.gelu(self.linear(x, name + ".intermediate.dense"))  # the erf form
            x = self.norm(x + self.linear(inner, name + ".output.dense"), name + ".output.LayerNorm")
        weight = keep.to(self.dtype)[:, :, None]
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=-1)

    def embed(self, sentences):
        """Each sentence by itself, without padding: no mask can be wrong."""
        rows = []
        for sentence in sentences:
            ids = torch.tensor([self.tokenizer.encode(sentence).ids])
            rows.append(self.forward(ids, torch.ones_like(ids, dtype=torch.bool)))
        return torch.cat(rows).numpy()

    def padded(self, sentences):
        """(ids, keep) of a batch, padded with [PAD] (0) to the longest."""
        encoded = [self.tokenizer.encode(s).ids for s in sentences]
        ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
        keep = np.zeros(ids.shape, bool)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            keep[row, : len(tokens)] = True
        return ids, keep

    def embed_padded(self, sentences, batch):
        rows = []
        for at in range(0, len(sentences), batch):
            ids, keep = self.padded(sentences[at : at + batch])
            rows.append(self.forward(torch.from_numpy(ids), torch.from_numpy(keep)))
        return torch.cat(rows).numpy()
