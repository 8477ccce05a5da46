"""Messages go to Python's logger "rlx", whose level is the library's."""

import logging
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import rlx


@pytest.fixture
def logger():
    logger = logging.getLogger("rlx")
    yield logger
    logger.setLevel(logging.NOTSET)


def compiles(constant):
    rlx.jit(lambda x: x * constant + 1)(np.ones(3, np.float32))


def test_info_tells_of_each_compile(logger, caplog):
    compiles(3.25)
    assert not caplog.records
    logger.setLevel("INFO")
    compiles(4.25)
    told = [record for record in caplog.records if record.name == "rlx"]
    assert told and all(record.levelno == logging.INFO for record in told)
    assert any("compiled " in record.getMessage() and " ms: " in record.getMessage() for record in told)


def test_debug_tells_of_each_pass_and_warning_of_none(logger, caplog):
    logger.setLevel(logging.DEBUG)
    compiles(5.25)
    assert any("legalize" in record.getMessage() for record in caplog.records)
    caplog.clear()
    logger.setLevel(logging.WARNING)
    compiles(6.25)
    assert not caplog.records


def test_a_damaged_cache_is_a_warning(logger, caplog, tmp_path):
    graph = rlx.Graph.parse('graph @kept {\n %0 = input() @"x" : f32[3]\n %1 = exp(%0) : f32[3]\n return %1 @"y"\n}\n')
    session = rlx.Session("cpu")
    session.compile(graph, cache_dir=str(tmp_path))
    entries = list(tmp_path.iterdir())
    assert entries
    for entry in entries:
        entry.write_bytes(b"nothing")
    rlx.Session("cpu").compile(graph, cache_dir=str(tmp_path))
    assert any(record.levelno == logging.WARNING and "left aside" in record.getMessage() for record in caplog.records)


def output_of(program, **environment):
    env = {name: value for name, value in os.environ.items() if name not in ("RLX_LOG", "RLX_VERBOSE")} | environment
    env["PYTHONPATH"] = str(pathlib.Path(rlx.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


COMPILES = "import numpy as np, rlx; rlx.jit(lambda x: x * 2.5)(np.ones(3, np.float32))"


def test_the_environment_sends_messages_to_standard_error():
    assert output_of(COMPILES) == ""
    assert "rlx: compiled " in output_of(COMPILES, RLX_LOG="info")
    assert "rlx: legalize" in output_of(COMPILES, RLX_VERBOSE="1")
    assert "RLX_LOG is 'loud'" in output_of(COMPILES, RLX_LOG="loud")


def test_a_level_that_was_set_before_the_import_counts():
    before = 'import logging; logging.basicConfig(); logging.getLogger("rlx").setLevel(logging.INFO); '
    assert "INFO:rlx:compiled " in output_of(before + COMPILES)
