#!/usr/bin/env python3
"""Two builds of RLX in turn on the yardstick's workloads: did a change cost speed?

    python3 bench/compare_builds.py BEFORE AFTER [--pairs N] [--cases A,B] [--json FILE]

BEFORE and AFTER are folders of builds (build/release) with bin/rlx and, for the rows of bench/loops.cpp, bench/loops. In each of
N rounds every case is run once by AFTER and twice by BEFORE, each time in a process of its own, in an order that changes from
round to round, on one thread. What counts is the processor's time of the fastest run in a process. "ratio" is the median over
the rounds of AFTER / BEFORE, with its quartiles; "control" is the same of BEFORE's second run over its first: where it is far
from 1, the machine was too noisy for the row. Ends with 1 if a ratio exceeds --limit.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from yardstick import suites  # noqa: E402

CASES = [c for suite in ("kernels", "minilm", "vision", "start") for c in suites.SUITES[suite]]
CASES += ["small_graph", *suites.SUITES["train"]]
PROGRAMS = ("before", "after", "again")  # again: BEFORE once more, the control


def answer_of(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        errors = done.stderr.strip().splitlines() or ["it printed nothing"]
        sys.exit(f"compare_builds: {' '.join(command)} ended with {done.returncode}: {errors[0][:300]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def bench_times(build, case, options, environment):
    """{case: milliseconds of the fastest run}"""
    [answer] = answer_of([f"{build}/bin/rlx", "bench", "--threads", "1", "--iters", str(options.iters), "--budget",
                          str(options.budget), case], environment)  # fmt: skip
    return {case: min(answer.get("cpu_ms") or answer["times_ms"])}


def loop_times(build, environment):
    """{case: milliseconds of a step}"""
    return {a["case"]: a["step_ns"] * 1e-6 for a in answer_of([f"{build}/bench/loops"], environment)}


def ratios(times, one, other):
    return [a / b for a, b in zip(times[one], times[other])]


def line_of(case, times, limit):
    ratio, control = ratios(times, "after", "before"), ratios(times, "again", "before")
    low, middle, high = statistics.quantiles(ratio, n=4)
    mark = " **" if middle > limit else ""
    return (f"| {case} | {statistics.median(times['before']):.4g} | {statistics.median(times['after']):.4g} | {middle:.3f}{mark} | "
            f"{low:.3f} to {high:.3f} | {statistics.median(control):.3f} |")  # fmt: skip


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--cases", help=f"names, with commas between; default: {', '.join(CASES)} and loops")
    parser.add_argument("--iters", type=int, default=10, help="runs in a process")
    parser.add_argument("--budget", type=float, default=0.4, help="seconds of a process after which no run begins")
    parser.add_argument("--limit", type=float, default=1.02, help="the largest ratio that is no loss")
    parser.add_argument("--json", metavar="FILE", help="write every time there")
    options = parser.parse_args(words)
    options.cases = options.cases.split(",") if options.cases else [*CASES, "loops"]
    if options.pairs < 2:
        parser.error("--pairs is at least 2: there are quartiles to tell")
    if unknown := [c for c in options.cases if c not in (*CASES, "loops")]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}, loops")
    return options


def main(words=None):
    options = arguments(words)
    environment = dict(os.environ, RLX_ROOT=str(ROOT))
    environment.setdefault("RLX_MODEL", str(pathlib.Path.home() / ".cache/rlx/all-MiniLM-L6-v2"))
    builds = {"before": options.before, "after": options.after, "again": options.before}
    everything, slower = {}, []
    print("| case | before ms | after ms | ratio | quartiles | control |\n|---|---|---|---|---|---|", flush=True)
    for case in options.cases:
        rows = {}
        for pair in range(options.pairs):
            if sys.stderr.isatty():
                print(f"\r{case}: {pair + 1} of {options.pairs}\033[K", end="", file=sys.stderr, flush=True)
            turn = pair % len(PROGRAMS)
            for program in PROGRAMS[turn:] + PROGRAMS[:turn]:
                build = builds[program]
                given = loop_times(build, environment) if case == "loops" else bench_times(build, case, options, environment)
                for name, time in given.items():
                    rows.setdefault(name, {p: [] for p in PROGRAMS})[program].append(time)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        for name, times in rows.items():
            print(line_of(name, times, options.limit), flush=True)
            everything[name] = times
            if statistics.median(ratios(times, "after", "before")) > options.limit:
                slower.append(name)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything), encoding="utf-8")
    print(f"\n{len(everything)} rows of {options.pairs} pairs; beyond {options.limit}: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
