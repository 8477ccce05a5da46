"""bench/python_overhead.py runs and prints what it says; what Python costs is read there, for a test that is timed fails
on a busy machine."""

import json
import os
import pathlib
import subprocess
import sys

import rlx

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_benchmark_of_tracing_and_calls_runs():
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(rlx.__file__).parents[1]))
    text = subprocess.run([sys.executable, str(ROOT / "bench/python_overhead.py")], env=environment, check=True, capture_output=True, text=True)
    figures = json.loads(text.stdout)
    assert {"trace_1000_tanh_ms", "call_one_array_us", "call_dict_of_two_overhead_us"} <= set(figures)
    assert all(value > 0 for name, value in figures.items() if "overhead" not in name)
