"""`CustomOp.check`: the laws that the library's own ops are under, on the operands at hand. The reference is the judge of each."""

import itertools

import numpy as np

from . import _device, _dtypes, _graph, _jit, _transforms
from ._array import as_array
from ._native import Error

_TOLERANCES = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "c64": 2e-5, "f64": 1e-10, "c128": 1e-10}


def _compare(what, got, wanted, tolerance=None):
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


def _is_float(x):
    return _dtypes.is_float(_dtypes.FROM_NUMPY[x.dtype])


def check(op, operands, attributes, tolerance):
    op.register()
    arrays = [np.asarray(as_array(x)) for x in op._given_operands(operands)]
    full = op._full(attributes)
    reference = lambda *xs: [np.asarray(y) for y in _as_list(op._rules["reference"](*xs, **full))]
    wanted = reference(*arrays)
    call = lambda *xs: tuple(_as_list(op(*xs, **attributes)))
    done = ["reference"]

    def law(name, broken_or_not):
        if broken_or_not is not False:  # False: it says nothing of these operands
            done.append(name)

    law("shape rule", _shape_rule(call, arrays, wanted))
    law(*_runs(op, call, arrays, wanted, tolerance))
    _compare("jit", _jit.jit(call)(*arrays), wanted, tolerance)
    done.append("jit")
    law("decomposition", "decomposition" in op._rules and _decomposition(call, arrays, reference, wanted, tolerance))
    law("vmap", _vmap(call, arrays, reference, tolerance))
    law("text", _text(call, arrays))
    law("symbols", _symbols(call, arrays, wanted, tolerance))
    for device in _device.devices():
        if device != "cpu":
            law(device, _runs_there(call, arrays, wanted, device, tolerance))
    if op._differentiable and ("decomposition" in op._rules or "gradient" in op._rules) and _has_gradient(arrays, wanted):
        _Derivatives(arrays, reference, call).check()
        done += ["gradient", "jvp", "gradient of the gradient"]
    return done


def _types(arrays):
    return [_jit.ShapeDtypeStruct(x.shape, _dtypes.long_name(_dtypes.FROM_NUMPY[x.dtype])) for x in arrays]


def _shape_rule(call, arrays, wanted):
    stated = _as_list(_jit.eval_shape(call, *_types(arrays)))
    assert len(stated) == len(wanted), f"shape rule: {len(stated)} results, the reference has {len(wanted)}"
    for r, (t, w) in enumerate(zip(stated, wanted)):
        assert t.shape == w.shape and t.dtype == w.dtype, \
            f"shape rule: result {r} is {t.dtype}{list(t.shape)}, the reference gives {w.dtype}{list(w.shape)}"


def _runs(op, call, arrays, wanted, tolerance):
    nodes = _jit.jit(call).lower(*arrays).report()["nodes"]
    what = "kernel" if any(n["op"] == op.name and f"{op.name} in Python" in n["reason"] for n in nodes) else "run"
    return what, _compare(what, call(*arrays), wanted, tolerance)


def _decomposition(call, arrays, reference, wanted, tolerance):
    """On the operands as they are, and in float64, where the same formula differs by rounding alone."""
    run = _jit.jit(call, kernel_dispatch="common")
    _compare("decomposition", run(*arrays), wanted, tolerance)
    if not any(_is_float(x) for x in arrays):
        return
    wide = [x.astype(np.float64) if _is_float(x) else x for x in arrays]
    exact = reference(*wide)
    if all(y.dtype == np.float64 or not _is_float(y) for y in exact):
        _compare("decomposition of float64", run(*wide), exact, tolerance)


def _vmap(call, arrays, reference, tolerance):
    """Two examples that differ, for each choice of the operands that have a batch: the loop over them."""
    # Three quarters of an operand: still sorted, positive, a symmetric or a triangular matrix, if it was that.
    rows = [np.stack([x, x * x.dtype.type(0.75)]) if _dtypes.is_inexact(_dtypes.FROM_NUMPY[x.dtype]) else np.stack([x, x]) for x in arrays]
    axes = [a for a in itertools.product((0, None), repeat=len(arrays)) if 0 in a]
    if len(arrays) > 3:
        axes = [a for a in axes if a.count(0) in (1, len(arrays))]
    for a in axes:
        given = [rows[i] if axis == 0 else arrays[i] for i, axis in enumerate(a)]
        loop = [reference(*(g[k] if axis == 0 else g for g, axis in zip(given, a))) for k in range(2)]
        _compare(f"vmap, in_axes={a}", _transforms.vmap(call, in_axes=a)(*given), [np.stack(y) for y in zip(*loop)], tolerance)


def _text(call, arrays):
    text = _jit.jit(call).lower(*_types(arrays)).as_text()
    again = _graph.Graph.parse(text).text()
    assert again == text, f"text: it is read as another graph\n{text}\n{again}"


def _symbols(call, arrays, wanted, tolerance):
    """Extents that are symbols, equal ones the same one. A rule that does not take them is refused, and that is right, too."""
    names = lambda x: tuple(f"S{n}" if n > 1 else n for n in x.shape)
    if not any(n > 1 for x in arrays for n in x.shape):
        return False
    types = [_jit.ShapeDtypeStruct(names(x), t.dtype) for x, t in zip(arrays, _types(arrays))]
    try:
        lowered = _jit.jit(call).lower(*types)
        compiled = lowered.compile()
    except (Error, TypeError, ValueError):
        return False
    _compare("symbols", compiled.call(arrays), wanted, tolerance)


def _runs_there(call, arrays, wanted, device, tolerance):
    """What the device's report takes, runs there as the reference; what it refuses, a call refuses."""
    run = _jit.jit(call, device=device)
    missing = any(n["verdict"] == "missing" for n in run.lower(*arrays).report()["nodes"])
    try:
        got = run(*arrays)
    except Error as error:
        assert missing, f"{device}: the report takes it, and it fails: {error}"
        return False
    assert not missing, f"{device}: the report refuses it, and it runs"
    # Devices without a dtype compute in a wider or a composed one, and may round once more.
    _compare(device, got, wanted, tolerance or max((10 * _TOLERANCES.get(_dtypes.FROM_NUMPY[w.dtype], 1e-3) for w in wanted), default=0))


def _has_gradient(arrays, wanted):
    return any(_is_float(x) and x.size for x in arrays) and any(_is_float(y) and y.size for y in wanted) \
        and not any(_dtypes.is_complex(_dtypes.FROM_NUMPY[x.dtype]) for x in [*arrays, *wanted])


class _Derivatives:
    """In float64, along random directions: differences of the reference, and what the derivatives say of each other."""

    STEP = 1e-4  # of fourth order: the error is of h^4 and of 1e-16 / h

    def __init__(self, arrays, reference, call):
        self.call, self.reference = call, reference
        self.moves = [i for i, x in enumerate(arrays) if _is_float(x)]
        self.arrays = [x.astype(np.float64) if i in self.moves else x for i, x in enumerate(arrays)]
        self.wanted = reference(*self.arrays)
        assert all(y.dtype == np.float64 or not _is_float(y) for y in self.wanted), \
            "gradient: the reference of float64 does not give float64, so that there are no differences to hold it to"
        self.floats = [r for r, y in enumerate(self.wanted) if y.dtype == np.float64]
        self.rng = np.random.default_rng(0)

    def cotangents(self, some):
        return [self.rng.normal(size=y.shape) if r in some else None for r, y in enumerate(self.wanted)]

    def direction(self):
        return {i: self.rng.normal(size=self.arrays[i].shape) for i in self.moves}

    def moved(self, h, direction):
        return [x + h * direction[i] if i in direction else x for i, x in enumerate(self.arrays)]

    @staticmethod
    def dot(results, cts):
        return sum((y * ct).sum() for y, ct in zip(results, cts) if ct is not None)

    def slope(self, f):
        h = self.STEP
        return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)

    def gradients(self, cts, arrays=None, moves=None):
        """Of <results, cts>, for each operand that moves."""
        moves = self.moves if moves is None else moves
        scalar = lambda *xs: self.dot(self.call(*xs), cts)
        return dict(zip(moves, map(np.asarray, _transforms.grad(scalar, tuple(moves))(*(arrays or self.arrays)))))

    def check(self):
        self.is_gradient()
        self.agrees_with_jvp()
        self.is_a_function_like_any_other()

    def is_gradient(self):
        """With all cotangents and with each alone, for all operands and for each alone."""
        some = [self.floats] + ([[r] for r in self.floats] if len(self.floats) > 1 else [])
        for chosen in [*some, self.floats, self.floats]:
            cts, direction = self.cotangents(chosen), self.direction()
            grads = self.gradients(cts)
            got = sum(float(np.sum(grads[i] * direction[i])) for i in self.moves)
            slope = self.slope(lambda h: float(self.dot([np.asarray(y, np.float64) for y in self.reference(*self.moved(h, direction))], cts)))
            assert abs(got - slope) <= 1e-5 * (1 + abs(slope)), \
                f"gradient: along a random direction it is {got}, differences of the reference give {slope}"
            for i in self.moves if len(self.moves) > 1 else []:
                _compare(f"gradient of operand {i} alone", [self.gradients(cts, moves=[i])[i]], [grads[i]], 1e-10)

    def agrees_with_jvp(self):
        """<ct, J v> = <J^T ct, v>."""
        cts, direction = self.cotangents(self.floats), self.direction()
        tangents = [direction.get(i, np.zeros(x.shape)) for i, x in enumerate(self.arrays)]
        out = _transforms.jvp(self.call, tuple(self.arrays), tuple(tangents))[1]
        forward = float(self.dot([np.asarray(t) for t in out], cts))
        grads = self.gradients(cts)
        reverse = sum(float(np.sum(grads[i] * direction[i])) for i in self.moves)
        assert abs(forward - reverse) <= 1e-9 * (1 + abs(reverse)), f"jvp: <ct, J v> is {forward}, <J^T ct, v> is {reverse}"

    def is_a_function_like_any_other(self):
        """vmap of the gradient is the loop over it, and its own gradient is that of its differences."""
        cts, direction = self.cotangents(self.floats), self.direction()
        scalar = lambda *xs: self.dot(self.call(*xs), cts)
        gradient = _transforms.grad(scalar, tuple(self.moves))
        pair = [self.arrays, self.moved(1e-3, direction)]
        rows = [np.stack(both) for both in zip(*pair)]
        loop = [self.gradients(cts, arrays) for arrays in pair]
        _compare("vmap of the gradient", _transforms.vmap(gradient)(*rows), [np.stack([g[i] for g in loop]) for i in self.moves], 1e-9)
        other = self.direction()
        along = lambda arrays: sum(float(np.sum(g * other[i])) for i, g in self.gradients(cts, arrays).items())
        second = _transforms.grad(lambda *xs: sum((g * other[i]).sum() for i, g in zip(self.moves, gradient(*xs))), tuple(self.moves))
        got = sum(float(np.sum(np.asarray(g) * direction[i])) for i, g in zip(self.moves, second(*self.arrays)))
        slope = self.slope(lambda h: along(self.moved(h, direction)))
        assert abs(got - slope) <= 1e-5 * (1 + abs(slope)), \
            f"gradient of the gradient: along random directions it is {got}, differences of the gradient give {slope}"
