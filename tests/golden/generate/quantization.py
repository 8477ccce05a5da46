"""Quantization of models, tests/golden/quantization/: ranges by the observers of torch.ao and the calibrators of ONNX Runtime, steps of
quantization-aware training by PyTorch's autograd, and a net of 8-bit codes in integer arithmetic by NumPy.

usage: quantization.py
"""
import numpy as np
import torch
import torch.nn.functional as F
from onnxruntime.quantization.calibrate import HistogramCollector
from torch.ao.quantization import observer

import recorded
from ops.case import f32, f64, i32, i64, normal, uniform, write_safetensors

STEPS, DECAY = 10, 0.9
RATE, RATE_OF_LEARNT = 1 / 32, 1 / 1024  # scales are small numbers with large gradients
LOW, HIGH, MOST = -128, 127, 127


# ---- ranges ----
def batches_of(name):
    """What an activation may be: lopsided, with a long tail, behind a relu, wider in each batch, all on one side."""
    draw = {"lopsided": lambda i: normal(f"ob{name}{i}", (40, 25)) * 0.7 + 0.4, "tail": lambda i: normal(f"ob{name}{i}", (30, 50)) ** 3,
            "relu": lambda i: np.maximum(normal(f"ob{name}{i}", (20, 60)), 0), "widens": lambda i: normal(f"ob{name}{i}", (500,)) * (1 + 2 * i),
            "above": lambda i: uniform(f"ob{name}{i}", (3, 300), 0.5, 2.5), "zeros_first": lambda i: normal(f"ob{name}{i}", (300,)) * min(i, 1)}[name]
    return [np.asarray(draw(i), f32) for i in range(4)]


def collected(batches, method, bins, percentile):
    collector = HistogramCollector(method=method, symmetric=False, num_bins=bins, num_quantized_bins=128, percentile=percentile, scenario="same")
    for batch in batches:
        collector.collect({"x": [batch]})
    return np.array([float(v) for v in collector.compute_collection_result()["x"][:2]])


def ranges():
    tensors = {}
    for name in ("lopsided", "tail", "relu", "widens", "above", "zeros_first"):
        batches = batches_of(name)
        tensors |= {f"{name}/batch{i}": b for i, b in enumerate(batches)}
        least, moving = observer.MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_affine), observer.MovingAverageMinMaxObserver(dtype=torch.qint8, averaging_constant=0.1)
        symmetric = observer.MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-127, quant_max=127)
        for batch in batches:
            for o in (least, moving, symmetric):
                o(torch.from_numpy(batch))
        tensors[f"{name}/min_max"] = np.array([float(least.min_val), float(least.max_val)])
        tensors[f"{name}/moving_average"] = np.array([float(moving.min_val), float(moving.max_val)])
        tensors[f"{name}/affine"] = np.array([float(v) for v in least.calculate_qparams()])
        tensors[f"{name}/symmetric"] = np.array([float(v) for v in symmetric.calculate_qparams()])
        for bins in (512, 2048):
            tensors[f"{name}/entropy_{bins}"] = collected(batches, "entropy", bins, 99.99)
            for percentile in (99.0, 99.9):
                tensors[f"{name}/percentile_{percentile}_{bins}"] = collected(batches, "percentile", bins, percentile)
    return tensors


# ---- a net: conv, relu, max-pool, linear ----
SHAPES = {"conv.weight": (3, 1, 3, 3), "conv.bias": (3,), "out.weight": (4, 48), "out.bias": (4,)}


def start(dtype):
    return {name: normal("qat" + name, dims, f32, 0.3).astype(dtype) for name, dims in SHAPES.items()}


def data(rows, name="qat"):
    x = (uniform(name + "x", (rows, 1, 8, 8), 0, 1) * (uniform(name + "m", (rows, 1, 8, 8), 0, 1) > 0.4)).astype(f32)
    return x, np.asarray(uniform(name + "t", (rows,), 0, 4), i32)


def by_range(low, high):
    """torch.ao's scale and zero point of an affine range, in f64."""
    low, high = torch.clamp(low, max=0), torch.clamp(high, min=0)
    scale = (high - low) / (HIGH - LOW)
    return scale, torch.clamp(LOW - torch.round(low / scale), LOW, HIGH)


class Quantize:
    """Fake quantization in f64, straight-through. Kinds of scales are those of rlx::ScaleKind."""
    def __init__(self, activations, weights, identity):
        self.activations, self.weights, self.identity, self.learnt, self.state = activations, weights, identity, {}, {}

    def rounded(self, x, scale, zero, low, high, factor):
        if factor is not None:  # Esser et al., appendix A: the scale's gradient is times `factor`
            scale = (scale - scale * factor).detach() + scale * factor
        exact = x / scale
        codes = torch.clamp((torch.round(exact) - exact).detach() + exact, low - zero, high - zero)
        inside = (torch.round(exact) >= low - zero) & (torch.round(exact) <= high - zero)
        codes = torch.where(inside, (torch.round(exact) - exact).detach() + exact, codes.detach())
        y = codes * scale
        if factor is None:
            y = y.detach() + torch.where(inside | self.identity, x - x.detach(), 0)
        return y

    def activation(self, name, x):
        if self.activations in ("fixed", "learned"):
            if name not in self.state:
                self.state[name] = by_range(x.detach().min(), x.detach().max())
            scale, zero = self.state[name]
            if self.activations == "fixed":
                return self.rounded(x, scale, zero, LOW, HIGH, None)
            if name not in self.learnt:
                self.learnt[name] = scale.clone().requires_grad_()
            return self.rounded(x, self.learnt[name], zero, LOW, HIGH, 1 / np.sqrt(x[0].numel() * (HIGH - LOW)))
        now = torch.stack([x.detach().min(), x.detach().max()])
        if self.activations == "ema":
            now = self.state[name] = self.state[name] * DECAY + now * (1 - DECAY) if name in self.state else now
        return self.rounded(x, *by_range(*now), LOW, HIGH, None)

    def weight(self, name, w):
        flat = w.detach().reshape(len(w), -1).abs().amax(1) / MOST
        wide = [-1] + [1] * (w.ndim - 1)
        if self.weights == "per_batch":
            return self.rounded(w, flat.reshape(wide), 0, -MOST, MOST, None)
        if name not in self.state:
            self.state[name] = flat
        if self.weights == "ema":
            self.state[name] = self.state[name] * DECAY + flat * (1 - DECAY) if name + "begun" in self.state else flat
            self.state[name + "begun"] = True
        if self.weights == "learned":
            if name not in self.learnt:
                self.learnt[name] = flat.clone().requires_grad_()
            return self.rounded(w, self.learnt[name].reshape(wide), 0, -MOST, MOST, 1 / np.sqrt(w[0].numel() * MOST))
        return self.rounded(w, self.state[name].reshape(wide), 0, -MOST, MOST, None)


def logits(q, p, x):
    h = F.conv2d(q.activation("x", x), q.weight("conv.weight", p["conv.weight"]), padding=1) + p["conv.bias"].reshape(1, -1, 1, 1)
    h = F.max_pool2d(q.activation("conv.output", torch.relu(h)), 2).reshape(len(x), -1)
    return q.activation("out.output", h @ q.weight("out.weight", p["out.weight"]).T + p["out.bias"])


def trained(activations, weights, identity):
    """SGD by the gradients of torch; ranges that are fixed, and where learnt ones begin, are those of the first batch unquantized."""
    p = {name: torch.tensor(value, requires_grad=True) for name, value in start(f64).items()}
    q, losses, tensors = Quantize(activations, weights, identity), [], {}
    x, t = data(8)
    x, t = torch.tensor(x.astype(f64)), torch.tensor(t.astype(i64))
    if activations in ("fixed", "learned"):  # before anything is quantized
        h = torch.relu(F.conv2d(x, p["conv.weight"], padding=1) + p["conv.bias"].reshape(1, -1, 1, 1))
        y = F.max_pool2d(h, 2).reshape(len(x), -1) @ p["out.weight"].T + p["out.bias"]
        for name, value in (("x", x), ("conv.output", h), ("out.output", y)):
            # The last one narrower than what is seen, so that codes are clamped.
            low, high = value.detach().min(), value.detach().max()
            q.state[name] = by_range(low, high * (0.5 if name == "out.output" else 1))
            tensors[f"range/{name}"] = np.array([float(low), float(high) * (0.5 if name == "out.output" else 1)])
    for _ in range(STEPS):
        loss = F.cross_entropy(logits(q, p, x), t)
        params = p | {name + ".scale": scale for name, scale in q.learnt.items()}
        gradients = torch.autograd.grad(loss, list(params.values()))
        losses.append(loss.item())
        with torch.no_grad():
            for (name, param), d in zip(params.items(), gradients):
                param -= (RATE_OF_LEARNT if q.learnt else RATE) * d
    tensors |= {name: value.detach().numpy() for name, value in p.items()}
    tensors |= {name + ".scale": value.detach().numpy() for name, value in q.learnt.items()}
    if activations == "ema":
        tensors |= {name + ".range": value.numpy() for name, value in q.state.items() if name in ("x", "conv.output", "out.output")}
    return {"losses": np.array(losses)} | tensors


# ---- codes ----
def requantized(acc, multipliers, zero):
    return np.clip(np.rint(acc.astype(f32) * multipliers.astype(f32)) + f32.type(zero), LOW, HIGH).astype(i64)


def codes():
    """The net in integers: exact sums, a multiplier for each output channel, a bias of 32 bits."""
    p, (calibration, _), (x, _) = start(f32), data(16, "calibration"), data(8, "codes")
    c = torch.from_numpy(calibration)
    w1, w2 = torch.from_numpy(p["conv.weight"]), torch.from_numpy(p["out.weight"])
    h = torch.relu(F.conv2d(c, w1, torch.from_numpy(p["conv.bias"]), padding=1))
    y = F.max_pool2d(h, 2).reshape(16, -1) @ w2.T + torch.from_numpy(p["out.bias"])
    scales = {}
    for name, value in (("x", c), ("conv.output", h), ("out.output", y)):
        o = observer.MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_affine)
        o(value)
        s, z = o.calculate_qparams()
        scales[name] = (f32.type(float(s)), int(z))
    weights = {}
    for name, w in (("conv.weight", w1), ("out.weight", w2)):
        o = observer.PerChannelMinMaxObserver(ch_axis=0, dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-MOST, quant_max=MOST)
        o(w)
        weights[name] = o.calculate_qparams()[0].numpy().astype(f32)

    def fake(name, v):
        return torch.fake_quantize_per_tensor_affine(v, float(scales[name][0]), scales[name][1], LOW, HIGH)

    def fake_weight(name, w):
        return torch.fake_quantize_per_channel_affine(w, torch.from_numpy(weights[name]), torch.zeros(len(w), dtype=torch.int32), 0, -MOST, MOST)

    h = fake("conv.output", torch.relu(F.conv2d(fake("x", torch.from_numpy(x)), fake_weight("conv.weight", w1), torch.from_numpy(p["conv.bias"]), padding=1)))
    faked = fake("out.output", F.max_pool2d(h, 2).reshape(8, -1) @ fake_weight("out.weight", w2).T + torch.from_numpy(p["out.bias"])).numpy()

    def weight_codes(name, w):
        return np.clip(np.rint(w / weights[name].reshape([-1] + [1] * (w.ndim - 1))), -MOST, MOST).astype(i64)

    def of(name):
        return f64.type(scales[name][0]), scales[name][1]

    (sx, zx), (sh, zh), (sy, zy) = of("x"), of("conv.output"), of("out.output")
    at = np.clip(np.rint(x / f32.type(sx)) + zx, LOW, HIGH).astype(i64)
    s1 = sx * weights["conv.weight"].astype(f64)
    acc = F.conv2d(torch.from_numpy((at - zx).astype(f64)), torch.from_numpy(weight_codes("conv.weight", p["conv.weight"]).astype(f64)), padding=1).numpy().astype(i64)
    acc += np.rint(p["conv.bias"].astype(f64) / s1).astype(i64).reshape(1, -1, 1, 1)
    at = np.maximum(requantized(acc, (s1 / sh).reshape(1, -1, 1, 1), zh), zh)
    at = at.reshape(8, 3, 4, 2, 4, 2).max((3, 5)).reshape(8, -1)
    s2 = sh * weights["out.weight"].astype(f64)
    acc = (at - zh) @ weight_codes("out.weight", p["out.weight"]).T + np.rint(p["out.bias"].astype(f64) / s2).astype(i64)
    at = requantized(acc, s2 / sy, zy)
    integer = ((at - zy).astype(f32) * f32.type(sy)).astype(f32)
    assert np.abs(integer - faked).max() <= float(sy) * 1.001
    return p | {"calibration": calibration, "x": x, "fake": faked, "codes": at.astype(np.int8), "y": integer,
                "scales": np.array([[float(scales[n][0]), scales[n][1]] for n in ("x", "conv.output", "out.output")])}


def main():
    out = recorded.folder("quantization")
    write_safetensors(out / "ranges.safetensors", ranges())
    runs = {}
    for activations, weights, identity in (("fixed", "per_batch", False), ("fixed", "fixed", True), ("ema", "per_batch", False), ("ema", "ema", False), ("per_batch", "per_batch", False),
                                           ("learned", "learned", False), ("learned", "per_batch", False)):
        name = f"{activations}_{weights}{'_identity' if identity else ''}"
        run = trained(activations, weights, identity)
        print(name, run["losses"][0], run["losses"][-1])
        runs |= {f"{name}/{k}": v for k, v in run.items()}
    x, t = data(8)
    runs |= {"x": x.astype(f64), "t": t} | {f"start/{k}": v for k, v in start(f64).items()}
    write_safetensors(out / "steps.safetensors", {k: np.asarray(v) for k, v in runs.items()})
    write_safetensors(out / "codes.safetensors", codes())
    recorded.write_versions(out, "quantization.py", ["numpy", "torch", "onnxruntime"], steps=STEPS, rates=[RATE, RATE_OF_LEARNT], decay=DECAY)


if __name__ == "__main__":
    main()
