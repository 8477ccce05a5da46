"""What the tests of the Python package share. The library is that of the installed package, or of RLX_LIBRARY."""

import collections
import os
import pathlib
import re
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

try:  # tests that compare with JAX are skipped, visibly, where it is not
    import jax
except ImportError:
    jax = None

TOLERANCE = {np.dtype(np.float64): 1e-11, np.dtype(np.complex128): 1e-11, np.dtype(np.float32): 2e-5,
             np.dtype(np.complex64): 2e-5, np.dtype(np.float16): 4e-3}


def close(got, wanted, tolerance=None, dtype=True):
    """Trees of arrays agree: shapes, kinds of dtype, and elements within the tolerance of the dtype."""
    import rlx.tree
    got, wanted = rlx.tree.leaves(got), rlx.tree.leaves(wanted)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape, (g.shape, w.shape)
        if dtype:
            assert g.dtype.kind == w.dtype.kind or g.dtype.kind + w.dtype.kind in ("iu", "ui"), (g.dtype, w.dtype)
        if g.dtype.kind in "biu" and w.dtype.kind in "biu":
            assert np.array_equal(g, w), (g, w)
            continue
        t = tolerance or max(TOLERANCE.get(g.dtype, 0), TOLERANCE.get(w.dtype, 0))
        wide = np.complex128 if "c" in g.dtype.kind + w.dtype.kind else np.float64
        np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=t, atol=t)


@pytest.fixture
def rng():
    return np.random.default_rng(20261122)


# ---- on a device that lacks dtypes ----
# Much of what is tested here is of f64, NumPy's float. Where RLX_DEVICE names a device without it, a test may end in the refusal of a
# graph: it then counts as skipped, with what the device's report calls missing. The report must name nothing but dtypes that are
# not there, and most tests must run.
DEFAULT_DEVICE = os.environ.get("RLX_DEVICE") or "cpu"
COUNTS = collections.Counter()


def dtypes_that_are_missing(error):
    """Which dtypes a graph was refused for on the default device; none if it was for anything else, or on another device."""
    if getattr(error, "status", "") != "unsupported" or not getattr(error, "report", None) or DEFAULT_DEVICE == "cpu":
        return set()
    if not str(error).startswith(f"{DEFAULT_DEVICE} cannot run this graph"):
        return set()
    missing = [re.match(r"there is no (f64|c128)\b", node["reason"]) for node in error.report["nodes"] if node["verdict"] == "missing"]
    return {m[1] for m in missing} if missing and all(missing) else set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        result = yield
    except Exception as error:
        if not (dtypes := dtypes_that_are_missing(error)):
            raise
        COUNTS["refused"] += 1
        # Raised here, before pytest writes the traceback of a failure, which takes it a tenth of a second.
        pytest.skip(f"{DEFAULT_DEVICE} has no {' and no '.join(sorted(dtypes))}, and says so")
    COUNTS["passed"] += 1
    return result


def pytest_terminal_summary(terminalreporter):
    if COUNTS["refused"]:
        terminalreporter.write_line(f"{DEFAULT_DEVICE} ran {COUNTS['passed']} tests; it refused the graphs of {COUNTS['refused']} for their dtypes")


def pytest_sessionfinish(session, exitstatus):
    is_whole = COUNTS["refused"] + COUNTS["passed"] > 1000  # not one file of many
    if is_whole and COUNTS["refused"] > COUNTS["passed"] and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
