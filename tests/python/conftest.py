"""What the tests of the Python package share. The library is that of the installed package, or of RLX_LIBRARY."""

import pathlib
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
