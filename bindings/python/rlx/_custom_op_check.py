"""`CustomOp.check`: the rules of an op held to each other."""

import numpy as np

from . import _dtypes, _jit, _transforms
from ._array import as_array

_TOLERANCES = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "c64": 2e-5, "f64": 1e-10, "c128": 1e-10}


def _compare(what, got, wanted, tolerance):
    assert len(got) == len(wanted), f"{what}: {len(got)} results, the reference has {len(wanted)}"
    for r, (g, w) in enumerate(zip(got, wanted)):
        g, w = np.asarray(g), np.asarray(w)
        assert g.dtype == w.dtype and g.shape == w.shape, \
            f"{what}: result {r} is {g.dtype}{list(g.shape)}, the reference gives {w.dtype}{list(w.shape)}"
        name = _dtypes.FROM_NUMPY[w.dtype]
        if not _dtypes.is_inexact(name):
            assert np.array_equal(g, w), f"{what}: result {r} differs from the reference"
            continue
        limit = _TOLERANCES.get(name, 1e-2) if tolerance is None else tolerance
        wide = np.complex128 if _dtypes.is_complex(name) else np.float64
        g, w = g.astype(wide), w.astype(wide)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0, np.abs(g - w) / (1 + np.abs(w)))
        apart = np.where(np.isnan(apart), np.inf, apart)
        if apart.size and apart.max() > limit:
            at = np.unravel_index(apart.argmax(), apart.shape)
            raise AssertionError(f"{what}: result {r} is {g[at]} at {tuple(map(int, at))}, the reference gives {w[at]}, apart by "
                                 f"{apart[at]:.3g} of 1 + |value|, where {limit:.3g} is allowed")


def _as_list(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def check(op, operands, attributes, tolerance):
    op.register()
    arrays = [np.asarray(as_array(x)) for x in op._given_operands(operands)]
    full = op._full(attributes)
    reference = lambda *xs: _as_list(op._rules["reference"](*xs, **full))
    wanted = [np.asarray(y) for y in reference(*arrays)]
    call = lambda *xs: tuple(_as_list(op(*xs, **attributes)))
    done = ["reference"]

    types = [_jit.ShapeDtypeStruct(x.shape, _dtypes.long_name(_dtypes.FROM_NUMPY[x.dtype])) for x in arrays]
    stated = _as_list(_jit.eval_shape(call, *types))
    for r, (t, w) in enumerate(zip(stated, wanted)):
        assert t.shape == w.shape and t.dtype == w.dtype, \
            f"shape rule: result {r} is {t.dtype}{list(t.shape)}, the reference gives {w.dtype}{list(w.shape)}"
    done.append("shape rule")
    jitted = _jit.jit(call)
    nodes = jitted.lower(*arrays).report()["nodes"]
    what = "kernel" if any(n["op"] == op.name and f"{op.name} in Python" in n["reason"] for n in nodes) else "run"
    _compare(what, call(*arrays), wanted, tolerance)
    done.append(what)
    _compare("jit", jitted(*arrays), wanted, tolerance)
    done.append("jit")
    if "decomposition" in op._rules:
        _compare("decomposition", _jit.jit(call, kernel_dispatch="common")(*arrays), wanted, tolerance)
        done.append("decomposition")
    rows = [np.stack([x, x]) for x in arrays]
    _compare("vmap", _transforms.vmap(call)(*rows), [np.stack([w, w]) for w in wanted], tolerance)
    done.append("vmap")
    if op._differentiable and ("decomposition" in op._rules or "gradient" in op._rules) and _has_gradient(arrays, wanted):
        _check_gradient(op, arrays, reference, call)
        done.append("gradient")
    return done


def _has_gradient(arrays, wanted):
    name = lambda x: _dtypes.FROM_NUMPY[x.dtype]
    return any(_dtypes.is_float(name(x)) and x.size for x in arrays) and any(_dtypes.is_float(name(y)) and y.size for y in wanted) \
        and not any(_dtypes.is_complex(name(x)) for x in [*arrays, *wanted])


def _check_gradient(op, arrays, reference, call):
    """Along three directions: what the pullback says beside differences of the reference, both in float64."""
    rng = np.random.default_rng(0)
    is_float = [_dtypes.is_float(_dtypes.FROM_NUMPY[x.dtype]) for x in arrays]
    arrays = [x.astype(np.float64) if f else x for x, f in zip(arrays, is_float)]
    wanted = [np.asarray(y) for y in reference(*arrays)]
    assert all(y.dtype == np.float64 or not _dtypes.is_float(_dtypes.FROM_NUMPY[y.dtype]) for y in wanted), \
        "gradient: the reference of float64 does not give float64, so that there are no differences to hold it to"
    moved = lambda h, d: reference(*(x + h * t if f else x for x, t, f in zip(arrays, d, is_float)))
    for _ in range(3):
        directions = [rng.normal(size=x.shape) if f else None for x, f in zip(arrays, is_float)]
        cts = [rng.normal(size=y.shape) if y.dtype == np.float64 else None for y in wanted]
        scalar = lambda *xs: sum((y * ct).sum() for y, ct in zip(call(*xs), cts) if ct is not None)
        grads = _transforms.grad(scalar, tuple(i for i, f in enumerate(is_float) if f))(*arrays)
        got = sum(float(np.sum(np.asarray(g) * directions[i]))
                  for g, i in zip(grads, [i for i, f in enumerate(is_float) if f]))
        value = lambda h: sum(float(np.sum(np.asarray(y, np.float64) * ct)) for y, ct in zip(moved(h, directions), cts) if ct is not None)
        h = 1e-4  # fourth order: the error is of h^4 and of 1e-16 / h
        slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
        assert abs(got - slope) <= 1e-5 * (1 + abs(slope)), \
            f"gradient: along a random direction it is {got}, differences of the reference give {slope}"
