"""The programs of examples/python, each of which runs with RLX and with JAX: losses fall, and where JAX is installed they
are its own to 1e-4."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import rlx
from conftest import jax

PROGRAMS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples/python").glob("*.py"))


@functools.lru_cache(maxsize=None)
def losses(program, *options):
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(rlx.__file__).parents[1]), JAX_PLATFORMS="cpu")
    done = subprocess.run([sys.executable, str(program), *options], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout)["losses"])


def test_there_are_twelve():
    assert len(PROGRAMS) == 12


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_a_program_learns(program):
    ours = losses(program)
    assert np.all(np.isfinite(ours)) and ours[-3:].mean() < ours[0]


@pytest.mark.skipif(jax is None, reason="JAX is not installed")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_its_losses_are_those_of_jax(program):
    np.testing.assert_allclose(losses(program), losses(program, "--jax"), rtol=1e-4, atol=1e-4)
