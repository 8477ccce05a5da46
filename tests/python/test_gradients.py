"""Derivatives of every name of the namespace beside those of JAX, PyTorch and closed forms, backward and forward, in f64 and f32.

The calls stand in `gradient_cases.py`, the numbers in tests/golden/python_gradients (tests/golden/generate/python_gradients.py)."""

import json
import pathlib
import struct

import numpy as np
import pytest
from gradient_cases import CASES, NO_DERIVATIVE, called, drawn_of
from test_namespace import MODULES, forms

import rlx
import rlx.numpy as rnp

PATH = pathlib.Path(__file__).resolve().parents[1] / "golden" / "python_gradients" / "cases.safetensors"


def read(path):
    """https://github.com/huggingface/safetensors, format: header size, JSON header, data. All is f64; a name that ends in z is that of
    complex numbers, as pairs."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    made = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        array = np.frombuffer(raw[begin:end], np.float64).reshape(entry["shape"])
        made[name.removesuffix("z")] = array[..., 0] + 1j * array[..., 1] if name.endswith("z") else array
    return made


GOLDEN = read(PATH)
NARROW = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}

# Greatest errors, relative to the largest number of an array: rounding of f64 and f32 through some tens of operations. Where the
# calculation is less well conditioned than that, the call is named with its bound.
WIDE, SINGLE = 1e-11, 2e-5
LOOSER = {
    "nn.logsumexp/3": (WIDE, 1e-4),  # the result, 900, has a unit of 6e-5 in f32, and e^(x - result) is the derivative (PyTorch's too)
}


def recorded(key, role):
    made = []
    while f"{key}/{role}{len(made)}" in GOLDEN:
        made.append(GOLDEN[f"{key}/{role}{len(made)}"])
    return made


def function_of(name):
    module, _, attribute = name.partition(".")
    return getattr(MODULES[module], attribute)


def cast(arrays, dtype):
    return [a if dtype == "f8" else a.astype(NARROW[a.dtype]) for a in arrays]


def agree(got, wanted, tolerance, what):
    assert len(got) == len(wanted), what
    for i, (g, w) in enumerate(zip(got, wanted)):
        g = np.asarray(g)
        assert g.shape == w.shape, f"{what}{i}"
        assert np.array_equal(np.isfinite(g), np.isfinite(w)), f"{what}{i}: {g} for {w}"
        finite = np.isfinite(w)
        assert np.array_equal(np.sign(g[~finite]), np.sign(w[~finite]), equal_nan=True), f"{what}{i}: {g} for {w}"
        if finite.any():
            scale = max(np.abs(w[finite]).max(), 1e-3)
            error = np.abs(g[finite].astype(w.dtype) - w[finite]).max() / scale
            assert error <= tolerance, f"{what}{i} is off by {error:.2g}:\n{g}\nfor\n{w}"


CALLS = [(f"{name}/{number}", dtype) for name, calls in CASES.items() for number in range(len(calls)) for dtype in ("f8", "f4")]


@pytest.mark.parametrize("key,dtype", CALLS)
def test_derivatives_are_those_of_others(key, dtype):
    name, _, number = key.rpartition("/")
    arguments, keywords = CASES[name][int(number)]
    inputs, cotangents, tangents = (cast(recorded(key, role), dtype) for role in ("in", "ct", "t"))
    assert len(inputs) == len(drawn_of(arguments, keywords))
    f = lambda *xs: called(function_of(name), rnp, arguments, keywords, xs)

    @rlx.jit
    def derivatives(xs, cts, ts):
        values, pull = rlx.vjp(f, *xs)
        return values, pull([ct.astype(v.dtype) for ct, v in zip(cts, values)]), rlx.jvp(f, tuple(xs), tuple(ts))[1]

    _, d, jv = derivatives(inputs, cotangents, tangents)
    tolerance = LOOSER.get(key, LOOSER.get(name, (WIDE, SINGLE)))[dtype == "f4"]
    agree(d, recorded(key, "d"), tolerance, "cotangent ")
    agree(jv, recorded(key, "jv"), tolerance, "tangent ")


@pytest.mark.parametrize("name", CASES)
def test_grad_is_the_cotangent_of_a_sum(name):
    """rlx.grad, eagerly: of the real part of the results times their cotangents."""
    key = f"{name}/0"
    arguments, keywords = CASES[name][0]
    inputs, cotangents = recorded(key, "in"), recorded(key, "ct")

    def loss(*xs):
        values = called(function_of(name), rnp, arguments, keywords, xs)
        return sum(rnp.sum(rnp.real(v * ct)) for v, ct in zip(values, cotangents))

    d = rlx.grad(loss, argnums=tuple(range(len(inputs))))(*inputs)
    agree(d, recorded(key, "d"), LOOSER.get(key, LOOSER.get(name, (WIDE, SINGLE)))[0], "gradient ")


def test_each_name_has_derivatives_or_a_reason():
    names = {f"{module}.{name}" for module, name, _, _ in forms()}
    assert not set(CASES) & set(NO_DERIVATIVE) and all(NO_DERIVATIVE.values())
    assert set(CASES) | set(NO_DERIVATIVE) == names and len(names) == 263
    calls = {f"{name}/{number}" for name, calls in CASES.items() for number in range(len(calls))}
    assert {key.rpartition("/")[0] for key in GOLDEN} == calls
