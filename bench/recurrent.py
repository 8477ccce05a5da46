#!/usr/bin/env python3
"""Sequence models: build/release/bench/recurrent and PyTorch in turn, case by case, on as many threads.

    bench/recurrent.py [--threads T] [--program build/release/bench/recurrent] [CASE...]

PyTorch runs nn.LSTM, nn.GRU and nn.RNN. It has no kernel for the others on a CPU; they are compared with the recurrences
as their authors' references write them, a loop over the steps of whole-batch operations. One JSON line a case: the
fastest time of each and the ratio, above 1 where RLX is faster.
"""
import argparse
import json
import pathlib
import re
import subprocess
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]


def selective_scan(x, delta, a, b, c):
    decay, added = torch.exp(delta[..., None] * a), (delta * x)[..., None] * b[:, :, None]
    state, out = torch.zeros(x.shape[0], x.shape[2], a.shape[1]), []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + added[:, t]
        out.append((state @ c[:, t, :, None]).squeeze(-1))
    return torch.stack(out, 1)


def mamba2(x, dt, a, b, c):
    decay, added = torch.exp(dt * a), dt[..., None] * x
    state, out = torch.zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[3]), []
    for t in range(x.shape[1]):
        state = decay[:, t, :, None, None] * state + added[:, t, ..., None] * b[:, t, :, None]
        out.append((state @ c[:, t, ..., None]).squeeze(-1))
    return torch.stack(out, 1)


def gated_delta_net(q, k, v, g, beta):
    state, out = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3]), []
    for t in range(q.shape[1]):
        state = state * torch.exp(g[:, t])[..., None, None]
        seen = (k[:, t, :, None] @ state).squeeze(2)
        state = state + k[:, t, ..., None] * ((v[:, t] - seen) * beta[:, t, :, None])[:, :, None]
        out.append((q[:, t, :, None] @ state).squeeze(2) * q.shape[3] ** -0.5)
    return torch.stack(out, 1)


def peer(case):
    """A function without arguments for a case's name."""
    kind, extents, batch, layers, both = re.fullmatch(r"(\w+?)_([\dx]+)_b(\d+)(?:_l(\d+))?(_both)?", case).groups()
    e, b = [int(n) for n in extents.split("x")], int(batch)
    r = lambda *dims: 0.1 * (torch.rand(*dims) - 0.5)
    modules = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
    if kind.endswith("_gradient"):
        module = modules[kind.removeprefix("scan_").removesuffix("_gradient")](e[1], e[1], batch_first=True)
        x, ct = r(b, e[0], e[1]).requires_grad_(), r(b, e[0], e[1])

        def forward_and_back():
            with torch.enable_grad():
                return torch.autograd.grad(module(x)[0], [x, *module.parameters()], ct)

        return forward_and_back
    if kind in modules:
        module = modules[kind](e[1], e[1], int(layers or 1), batch_first=True, bidirectional=bool(both))
        x = r(b, e[0], e[1])
        return lambda: module(x)
    if kind == "selective_scan":
        args = r(b, e[0], e[1]), r(b, e[0], e[1]), -r(e[1], e[2]).abs(), r(b, e[0], e[2]), r(b, e[0], e[2])
        return lambda: selective_scan(*args)
    if kind == "mamba2":
        args = r(b, e[0], e[1], e[2]), r(b, e[0], e[1]), -r(e[1]).abs(), r(b, e[0], e[1], e[3]), r(b, e[0], e[1], e[3])
        return lambda: mamba2(*args)
    args = *(r(b, e[0], e[1], e[2]) for _ in range(3)), -r(b, e[0], e[1]).abs(), r(b, e[0], e[1])
    return lambda: gated_delta_net(*args)


def fastest(run):
    best, end = float("inf"), time.perf_counter() + 0.6
    run()
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--program", default=ROOT / "build/release/bench/recurrent")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with torch.no_grad():
        ours = subprocess.Popen([options.program, "--threads", str(options.threads), *options.cases], stdout=subprocess.PIPE, text=True)
        measured = [json.loads(line) for line in ours.stdout]
        for row in measured:
            again = json.loads(subprocess.run([options.program, "--threads", str(options.threads), row["case"]], stdout=subprocess.PIPE, text=True, check=True).stdout)
            theirs = fastest(peer(row["case"]))
            mine = min(row["ms"], again["ms"])
            print(json.dumps({"case": row["case"], "threads": options.threads, "rlx_ms": mine, "torch_ms": round(theirs, 4), "ratio": round(theirs / mine, 2)}), flush=True)


if __name__ == "__main__":
    main()
