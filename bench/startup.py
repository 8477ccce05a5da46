#!/usr/bin/env python3
"""Time from process start to the first embedding, and peak memory, of one sentence of 128 tokens (batch 1).

    bench/startup.py --model DIR [--program build/release/bin/rlx] [--threads T] [--rounds N] [-- OTHER PROGRAM...]

Runs `rlx embed --json` in a process of its own, round after round, and measures from before the process is started to
when its first line has been read; peak memory is the largest resident set that the system saw, mapped pages of the
weights included. What stands behind `--` is another program to measure in turn: it is to print a line when it has its
first embedding. One JSON line a program: the fastest and the median time, and memory over the bytes of the weights.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def measure(command):
    """(milliseconds to the first line, milliseconds to the end, peak bytes)"""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    line = process.stdout.readline()
    first = time.perf_counter()
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    end = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)  # else Popen would wait for it
    if process.returncode != 0 or not line:
        sys.exit(f"startup: {command[0]} ended with {process.returncode} and printed {len(line)} bytes")
    unit = 1 if sys.platform == "darwin" else 1024
    return (first - begin) * 1e3, (end - begin) * 1e3, usage.ru_maxrss * unit


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    arguments, other = words[:at], words[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("RLX_MODEL"), required="RLX_MODEL" not in os.environ)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/rlx"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    sentence = " ".join(["word"] * 126)  # and [CLS], [SEP]
    ours = [options.program, "embed", "--model", options.model, "--threads", str(options.threads), "--json", sentence]
    programs = {"rlx": ours} | ({pathlib.Path(other[0]).name: other} if other else {})
    results = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, command in programs.items():
            results[name].append(measure(command))
    weights = (pathlib.Path(options.model) / "model.safetensors").stat().st_size
    for name, rows in results.items():
        first, total, peak = zip(*rows)
        print(json.dumps({
            "program": name, "threads": options.threads, "first_embedding_ms": round(min(first), 1),
            "first_embedding_median_ms": round(statistics.median(first), 1), "total_ms": round(min(total), 1),
            "peak_bytes": max(peak), "peak_over_weights": round(max(peak) / weights, 3)}))  # fmt: skip



if __name__ == "__main__":
    main()
