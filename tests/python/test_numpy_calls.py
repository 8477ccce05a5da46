"""The functions of rlx.numpy in tests/python/numpy_calls.py beside NumPy's: at once, traced by jit, under vmap, and their gradients beside finite
differences of NumPy's results."""

import warnings
import zlib

import numpy as np
import pytest
from conftest import close
from numpy_calls import CALLS

import rlx
import rlx.numpy as rnp


def _drawn(arrays, seed):
    rng = np.random.default_rng(seed)
    return [_draw(a, rng) for a in arrays]


def _draw(spec, rng):
    if not (isinstance(spec, tuple) and spec and isinstance(spec[0], str) and spec[0] == "draw"):
        return spec
    _, shape, dtype, lo, hi = spec
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(lo, hi + 1, shape).astype(dtype)
    if dtype.kind == "c":
        return rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape)
    return np.asarray(rng.uniform(lo, hi, shape))


def _ids():
    seen = {}
    for name, *_ in CALLS:
        seen[name] = seen.get(name, -1) + 1
        yield f"{name}-{seen[name]}"


IDS = list(_ids())
NUMBERED = list(zip(IDS, CALLS))
of = lambda letter: [pytest.param(*c, id=i) for i, c in NUMBERED if letter in c[3] and c[3] not in ("roots", "32", "skip")]


def _wanted(f, given):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, of slices that are all NaN
        return f(np, *given)


def _tolerance(how):
    return 2e-6 if how == "32" else None


@pytest.mark.parametrize("name,f,arrays,how", [pytest.param(*c, id=i) for i, c in NUMBERED])
def test_agrees_with_numpy(name, f, arrays, how):
    if not hasattr(np, name):
        pytest.skip(f"this NumPy has no {name}")
    given = _drawn(arrays, zlib.crc32(name.encode()))
    wanted, got = _wanted(f, given), f(rnp, *given)
    if how == "roots":  # in any order
        got, wanted = np.sort_complex(np.asarray(got)), np.sort_complex(wanted)
        assert got.shape == wanted.shape and np.allclose(got, wanted, atol=1e-7)
        return
    if how == "skip":
        assert got == wanted
        return
    close(got, wanted, _tolerance(how))


@pytest.mark.parametrize("name,f,arrays,how", of("j"))
def test_traced_by_jit(name, f, arrays, how):
    given = _drawn(arrays, 3)
    close(rlx.jit(lambda *xs: f(rnp, *xs))(*given), f(rnp, *given))


@pytest.mark.parametrize("name,f,arrays,how", of("v"))
def test_under_vmap(name, f, arrays, how):
    first, second = _drawn(arrays, 5), _drawn(arrays, 6)
    if not first:
        return
    got = rlx.vmap(lambda *xs: f(rnp, *xs))(*[np.stack(pair) for pair in zip(first, second)])
    wanted = [rlx.tree.leaves(f(rnp, *given)) for given in (first, second)]
    close(rlx.tree.leaves(got), [np.stack([np.asarray(a), np.asarray(b)]) for a, b in zip(*wanted)])


def _floats(results):
    return [np.asarray(r) for r in (results if isinstance(results, (tuple, list)) else [results])]


@pytest.mark.parametrize("name,f,arrays,how", of("g"))
def test_gradient_is_that_of_finite_differences(name, f, arrays, how):
    given = _drawn(arrays, 11)
    places = [i for i, a in enumerate(given) if a.dtype.kind == "f" and a.size]
    if not places:
        return
    weights = [np.cos(np.arange(r.size)).reshape(r.shape) for r in _floats(_wanted(f, given))]

    def loss(n, *xs):
        made = f(n, *xs)
        parts = made if isinstance(made, (tuple, list)) else [made]
        return sum((n.sum(p * w) for p, w in zip(parts, weights)), 0.0)

    got = rlx.grad(lambda *xs: loss(rnp, *xs), tuple(places))(*given)
    for i, g in zip(places, got if isinstance(got, (tuple, list)) else (got,)):
        numeric = np.zeros(given[i].shape)
        for at in np.ndindex(given[i].shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [a.copy() for a in given]
                moved[i][at] += step
                with np.errstate(all="ignore"):
                    sides.append(float(loss(np, *moved)))
            numeric[at] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(np.asarray(g), numeric, rtol=2e-5, atol=2e-7)
