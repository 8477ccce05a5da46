#!/usr/bin/env python3
"""Makes tests/mil/models.tar.xz: models of PyTorch that coremltools converts, with PyTorch's numbers, as cases that
`rlx conformance` runs. Needs coremltools 9.0, torch and numpy < 2.4.

Weights are seeded. The archive holds packages, whose identifiers are random: it differs from run to run, and its numbers only
in their last bits.
"""

import collections
import copy
import io
import json
import pathlib
import shutil
import tarfile
import tempfile
import warnings

warnings.filterwarnings("ignore")
import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[3]
DTYPES = {65568: np.float32, 131104: np.int32, 65552: np.float16}


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, d=32, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 1, 1)
        self.group, self.instance = nn.GroupNorm(4, 8), nn.InstanceNorm2d(16)

    def forward(self, x):
        a = torch.relu(self.group(self.a(x)))
        b = torch.relu(self.instance(self.b(a)))
        larger = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)[:, :8]
        return self.last(torch.cat([a, self.up(b) + larger], 1))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = kind(6, 8, num_layers=2, batch_first=True, bidirectional=kind is nn.LSTM)

    def forward(self, x):
        return self.layers(x)[0]


class Packed(nn.Module):
    """Sequences of unequal lengths. coremltools takes the number of rows of the initial state from the longest length, not
    from the batch, as in its own TestLSTMWithPackedSequence."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 6)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True, padding_value=-1)[0]


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Embedding(20, 8), nn.Linear(8, 4)

    def forward(self, ids):
        values, places = torch.topk(self.linear(self.table(ids)).mean(1), 2)
        return values, places


class Miscellany(nn.Module):
    def forward(self, x):
        z = torch.cumsum(torch.where(x > 0, x, x * 0.1), 1)[:, ::2]
        w = F.pad(z, (1, 2))
        g = torch.gather(w, 1, torch.argsort(w, dim=1))
        return torch.einsum("bi,bj->bij", g, g).flip(1), torch.std(x, dim=1), torch.clamp(x, -0.5, 0.5).sum()


class Cache(nn.Module):
    """Attention of one token over what was seen so far: a cache of keys and values, as states."""

    def __init__(self, d=8, most=6):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.register_buffer("keys", torch.zeros(most, d))
        self.register_buffer("values", torch.zeros(most, d))

    def forward(self, x, here, seen):
        # `here` is 1 at the token's place, `seen` adds -1e4 to what lies behind it.
        self.keys[:] = self.keys + here[:, None] * self.k(x)
        self.values[:] = self.values + here[:, None] * self.v(x)
        return torch.softmax(self.q(x) @ self.keys.T / 8**0.5 + seen, -1) @ self.values


def classifier():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1))


def convert(model, example, precision, target=None, inputs=None, **more):
    traced = torch.jit.trace(model.eval(), example, check_trace=False)
    inputs = inputs or [ct.TensorType(name=f"x{i}", shape=e.shape,
                                      dtype=np.int32 if e.dtype == torch.int64 else np.float32)
                        for i, e in enumerate(example)]
    return ct.convert(traced, inputs=inputs, minimum_deployment_target=target or ct.target.iOS17,
                      compute_precision=getattr(ct.precision, {"fp32": "FLOAT32", "fp16": "FLOAT16"}[precision]),
                      skip_model_load=True, **more)


def save(folder, model, precision, steps, tolerance=(2e-3, 2e-3), function=None):
    """`steps`: pairs of inputs and expected outputs, as arrays, in the order of the description's features."""
    folder.mkdir(parents=True)
    if isinstance(model, pathlib.Path):
        shutil.copytree(model, folder / "model.mlpackage")
        spec = ct.utils.load_spec(str(model))
    else:
        model.save(str(folder / "model.mlpackage"))
        spec = model.get_spec()
    description = spec.description
    if function:
        description = next(f for f in description.functions if f.name == function)
    listed = []
    for s, (given, expected) in enumerate(steps):
        step = {"in": {}, "out": {}}
        for i, (feature, array) in enumerate(zip(description.input, given)):
            file = f"s{s}.in.{i}.npy"
            np.save(folder / file, np.asarray(array).astype(DTYPES.get(feature.type.multiArrayType.dataType, np.float32)))
            step["in"][feature.name] = file
        for i, (feature, array) in enumerate(zip(description.output, expected)):
            if array is None:
                continue
            np.save(folder / f"s{s}.out.{i}.npy", np.asarray(array))
            step["out"][feature.name] = f"s{s}.out.{i}.npy"
        listed.append(step)
    program = spec.mlProgram.functions[function or "main"]
    ops = collections.Counter(op.type for block in program.block_specializations.values() for op in block.operations)
    (folder / "case.json").write_text(json.dumps(
        {"precision": precision, "specificationVersion": spec.specificationVersion, "opset": [program.opset], "atol": 1e-4,
         "rtol": 1e-4, "tight": tolerance, "fp16_inside": precision == "fp16", "function": function, "ops": ops,
         "states": [], "steps": listed}, indent=1))


def flat(y):
    return [t.detach().numpy() for t in (y if isinstance(y, (tuple, list)) else [y])]


def main():
    torch.manual_seed(0)
    out = pathlib.Path(tempfile.mkdtemp())
    scratch = pathlib.Path(tempfile.mkdtemp())
    models = {
        "cnn": (classifier(), (torch.randn(2, 3, 16, 16),), {}),
        "vit_block": (Block(), (torch.randn(2, 7, 32),), {"target": ct.target.iOS18}),
        "unet": (UNet(), (torch.randn(1, 2, 16, 16),), {}),
        "lstm": (Recurrent(nn.LSTM), (torch.randn(2, 5, 6),), {}),
        "gru": (Recurrent(nn.GRU), (torch.randn(2, 5, 6),), {}),  # as loops over lists
        "rnn": (Recurrent(nn.RNN), (torch.randn(2, 5, 6),), {}),
        "embedding": (Embedding(), (torch.randint(0, 20, (2, 6)),), {}),
        "miscellany": (Miscellany(), (torch.randn(3, 9),), {}),
        "flexible": (Block(), (torch.randn(1, 5, 32),),
                     {"inputs": [ct.TensorType(name="x0", shape=(1, ct.RangeDim(1, 20), 32))]}),
    }
    for name, (model, example, more) in models.items():
        for precision in ("fp32", "fp16"):
            converted = convert(model, example, precision, **more)
            steps = [([e.numpy() for e in example], flat(model(*example)))]
            if name == "flexible":  # the same model on other sizes
                longer = torch.randn(1, 11, 32)
                steps.append(([longer.numpy()], flat(model(longer))))
            save(out / name / precision, converted, precision, steps)

    # Weights of fewer bits: what is expected is the model with the weights that coremltools writes back.
    mlp = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    x = torch.randn(3, 64)
    plain = convert(mlp, (x,), "fp32", ct.target.iOS18)
    configs = {
        "palettized": cto.palettize_weights, "int4": cto.linear_quantize_weights, "pruned": cto.prune_weights,
    }
    ops = {
        "palettized": cto.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=64),
        "int4": cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=16,
                                            weight_threshold=64),
        "pruned": cto.OpMagnitudePrunerConfig(target_sparsity=0.5, weight_threshold=64),
    }
    for name, compress in configs.items():
        small = compress(plain, cto.OptimizationConfig(global_config=ops[name]))
        weights = [op.outputs[0].op.materialized_val_inference() if op.op_type.startswith("constexpr") else None
                   for op in small._mil_program.functions["main"].operations] if small._mil_program else []
        weights = [w for w in weights if isinstance(w, np.ndarray) and w.ndim == 2]
        first, second = (w for w in weights if w.shape in ((64, 64), (8, 64)))
        hidden = torch.relu(F.linear(x, torch.tensor(first), mlp[0].bias))
        y = F.linear(hidden, torch.tensor(second), mlp[2].bias)
        save(out / name / "fp32", small, "fp32", [([x.numpy()], flat(y))])

    # A classifier of images: Core ML gives the probabilities by label.
    image = torch.randint(0, 256, (1, 3, 16, 16)).float()
    cnn = classifier().eval()
    converted = convert(cnn, (image,), "fp32", inputs=[ct.ImageType(name="image", shape=image.shape, scale=1 / 255)],
                        classifier_config=ct.ClassifierConfig([f"label {i}" for i in range(5)]))
    place = int(cnn(image / 255).argmax())
    save(out / "classifier" / "fp32", converted, "fp32", [([image.numpy()], [np.array([place]), None])])

    # Functions that share their weights.
    shared = nn.Linear(16, 16).eval()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = shared

        def forward(self, y):
            return self.linear(self.linear(y))

    x = torch.randn(2, 16)
    paths = {}
    for name, model in (("once", shared), ("twice", Twice())):
        paths[name] = scratch / f"{name}.mlpackage"
        convert(model, (x,), "fp32", ct.target.iOS18).save(str(paths[name]))
    both = ct.utils.MultiFunctionDescriptor()
    for name, path in paths.items():
        both.add_function(str(path), src_function_name="main", target_function_name=name)
    both.default_function_name = "once"
    ct.utils.save_multifunction(both, str(scratch / "both.mlpackage"))
    for name, model in (("once", shared), ("twice", Twice())):
        save(out / "functions" / name, scratch / "both.mlpackage", "fp32", [([x.numpy()], flat(model(x)))], function=name)

    # A cache of keys and values, over four predictions.
    cache = Cache().eval()
    example = (torch.randn(1, 8), torch.zeros(6), torch.zeros(6))
    fresh = copy.deepcopy(cache)  # tracing runs it, and writes to its buffers
    states = [ct.StateType(wrapped_type=ct.TensorType(shape=(6, 8), dtype=np.float16), name=n) for n in ("keys", "values")]
    converted = convert(cache, example, "fp16", ct.target.iOS18, states=states)
    steps = []
    for i in range(4):
        here, seen = torch.zeros(6), torch.zeros(6)
        here[i], seen[i + 1:] = 1, -1e4
        x = torch.randn(1, 8)
        steps.append(([x.numpy(), here.numpy(), seen.numpy()], flat(fresh(x, here, seen))))
    save(out / "cache" / "fp16", converted, "fp16", steps)

    packed = Packed().eval()
    steps = []
    for lengths in ([10, 5, 1], [10, 10, 7]):
        example = (torch.randn(3, 10, 4), torch.tensor(lengths))
        steps.append(([e.numpy() for e in example], flat(packed(*example))))
    for precision in ("fp32", "fp16"):
        save(out / "packed" / precision, convert(packed, example, precision), precision, steps)
    tar(out)


def tar(out):
    with tarfile.open(ROOT / "tests/mil/models.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(f for f in out.rglob("*") if f.is_file()):
            data = file.read_bytes()
            entry = tarfile.TarInfo(str(file.relative_to(out)))
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
