#!/usr/bin/env python3
"""Times the benchmark cases of GoMLX's conformance suite, steps of training and a nearly empty call on RLX, XLA's CPU plugin
and GoMLX's own backend.

    pip download --no-deps xla-cpu-pjrt==0.0.1      # the wheel holds xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so
    bench/gomlx/run.py LIBRARY PLUGIN [--turns 7] [--cpu 0] [--backends rlx,xla,go]

LIBRARY is librlx_c of a build. The backends take turns, each in a process of its own; of each case the median of the turns
counts, and of each group the geometric mean of its cases. What is measured is processor time: --cpu binds every process to
one processor, on which nothing of it runs beside another. GoMLX's own backend is compiled with GOEXPERIMENT=simd.
What XLA's backend has no fused op for is decomposed, as GoMLX does it, and fused by XLA's compiler (unfused.go).
"""
import argparse
import collections
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = re.compile(r"^BenchmarkCases/\w+/(\S+?)(?:-\d+)?\s", re.M)
TIME = re.compile(r"^processor ns: ([\d.]+)$", re.M)


def group_of(case):
    """DotGeneral's cases are grouped by the model that they come from, Softmax and the like by how they are written."""
    parts = case.split("/")
    return "/".join(parts[:2])


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("library")
    parse.add_argument("plugin")
    parse.add_argument("--turns", type=int, default=7)
    parse.add_argument("--cpu")
    parse.add_argument("--backends", default="rlx,xla,go")
    parse.add_argument("--cases", default=".")
    options = parse.parse_args()
    backends = options.backends.split(",")
    environment = dict(os.environ, RLX_LIBRARY=str(pathlib.Path(options.library).resolve()), GOWORK="off",
                       PJRT_PLUGIN=str(pathlib.Path(options.plugin).resolve()), GOEXPERIMENT="simd", GOFLAGS="-mod=mod")
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    with tempfile.TemporaryDirectory() as scratch:
        binary = pathlib.Path(scratch) / "bench"
        subprocess.run(["go", "test", "-c", "-o", binary, "."], cwd=HERE, env=environment, check=True)
        bound = ["taskset", "-c", options.cpu] if options.cpu else []
        for turn in range(options.turns):
            for name in backends[turn % len(backends):] + backends[:turn % len(backends)]:
                done = subprocess.run([*bound, binary, "-test.run=^$", f"-test.bench=^BenchmarkCases$/^{name}$/{options.cases}",
                                       "-test.benchtime=1x"], env=environment, text=True, stdout=subprocess.PIPE)
                cases, spent = NAME.findall(done.stdout), TIME.findall(done.stdout)
                if done.returncode or len(cases) != len(spent):
                    sys.exit(f"{name}: {len(cases)} cases, {len(spent)} times:\n{done.stdout[-2000:]}")
                for case, each in zip(cases, spent):
                    times[case][name].append(float(each))
            print(f"turn {turn + 1} of {options.turns}", file=sys.stderr)
    others = [each for each in backends if each != "rlx"]
    ratios = collections.defaultdict(lambda: collections.defaultdict(list))
    print("| case | " + " | ".join(f"{each} us" for each in backends) + " | " + " | ".join(f"{each} / rlx" for each in others) + " |")
    print("| --- |" + " --: |" * (len(backends) + len(others)))
    for case, by in times.items():
        middle = {each: statistics.median(by[each]) if by[each] else math.nan for each in backends}
        for each in others:
            if by[each] and by["rlx"]:
                ratios[group_of(case)][each].append(middle[each] / middle["rlx"])
        print(f"| {case} | " + " | ".join(f"{middle[each] / 1000:.1f}" for each in backends) + " | "
              + " | ".join(f"{middle[each] / middle['rlx']:.2f}" for each in others) + " |")
    print()
    print("| group (cases) | " + " | ".join(f"{each} / rlx" for each in others) + " |")
    print("| --- |" + " --: |" * len(others))
    for group, by in ratios.items():
        size = max(len(each) for each in by.values())
        print(f"| {group} ({size}) | " + " | ".join(f"{statistics.geometric_mean(by[each]):.2f}" if by[each] else "" for each in others) + " |")


main()
