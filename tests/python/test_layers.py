"""rlx.nn, windows and indexed updates beside formulas in NumPy and SciPy: values over dtypes, axes and odd shapes."""

import numpy as np
import pytest
import scipy.linalg.lapack as lapack
import scipy.signal as signal
import scipy.special as sp
from conftest import close

import rlx
import rlx.linalg
import rlx.nn as nn
import rlx.numpy as rnp

SHAPES = [(), (1,), (0, 3), (3, 4), (2, 1, 5)]
DTYPES = ["f2", "f4", "f8"]
SELU = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717  # Klambauer et al. 2017
sigmoid, softplus = sp.expit, lambda x: np.logaddexp(x, 0)
hard = lambda x: np.clip(x + 3, 0, 6) / 6

ELEMENTWISE = {  # name: (formula, keywords)
    "relu": (lambda x: np.maximum(x, 0), {}), "relu6": (lambda x: np.clip(x, 0, 6), {}), "silu": (lambda x: x * sigmoid(x), {}),
    "gelu tanh": (lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), {}),
    "gelu exact": (lambda x: x * sp.ndtr(x), {"approximate": False}),
    "selu": (lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x)), {}),
    "celu": (lambda x: np.maximum(x, 0) + np.minimum(0, 1.5 * np.expm1(x / 1.5)), {"alpha": 1.5}),
    "elu": (lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), {"alpha": 0.5}),
    "leaky_relu": (lambda x: np.where(x >= 0, x, 0.2 * x), {"negative_slope": 0.2}),
    "leaky_relu default": (lambda x: np.where(x >= 0, x, 0.01 * x), {}), "mish": (lambda x: x * np.tanh(softplus(x)), {}),
    "softplus": (softplus, {}), "log_sigmoid": (lambda x: -softplus(-x), {}), "hard_sigmoid": (hard, {}), "hard_silu": (lambda x: x * hard(x), {}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_activations(name, dtype, rng):
    formula, options = ELEMENTWISE[name]
    f = getattr(nn, name.split()[0])
    for shape in SHAPES:
        x = np.asarray(rng.normal(size=shape) * 4).astype(dtype)
        got = f(x, **options)
        assert got.dtype == x.dtype
        close(got, formula(x.astype("f8")), 4e-3 if dtype == "f2" else 2e-6 if dtype == "f4" else 1e-12)
        close(rlx.jit(lambda v: f(v, **options))(x), got)
    far = np.array([-1e4, -90, 0, 90, 1e4]).astype(dtype)  # nothing overflows on the way
    with np.errstate(over="ignore"):
        close(f(far, **options), formula(far.astype("f8")), 4e-3 if dtype == "f2" else 2e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_along_an_axis(dtype, rng):
    for shape, axis in [((4,), -1), ((3, 4), 0), ((2, 6, 3), 1), ((2, 6, 3), -2), ((0, 4), 1)]:
        x = (rng.normal(size=shape) * 3).astype(dtype)
        wide = x.astype("f8")
        close(nn.log_softmax(x, axis=axis), sp.log_softmax(wide, axis=axis), 5e-3 if dtype == "f2" else None)
        a, b = np.split(wide, 2, axis) if shape[axis] % 2 == 0 else (None, None)
        if a is not None:
            close(nn.glu(x, axis=axis), a * sigmoid(b), 5e-3 if dtype == "f2" else None)
    with pytest.raises((ValueError, rlx.Error)):
        nn.glu(np.ones((2, 3), dtype))


def test_one_hot():
    labels = np.array([[0, 3], [-1, 2], [4, 1]])
    wanted = (labels[..., None] == np.arange(4)).astype("f4")
    close(nn.one_hot(labels, 4), wanted)
    close(nn.one_hot(labels, 4, axis=1), np.moveaxis(wanted, -1, 1))
    close(nn.one_hot(labels.astype("i1"), 4, dtype="f64"), wanted.astype("f8"))
    close(nn.one_hot(np.int32(2), 3), np.array([0.0, 0, 1]))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("name", ["set", "add", "mul", "min", "max"])
def test_indexed_updates(name, dtype, rng):
    at = {"add": np.add.at, "mul": np.multiply.at, "min": np.minimum.at, "max": np.maximum.at}
    x = (rng.normal(size=(5, 4)) * 9).astype(dtype)
    for index, shape in [(2, (4,)), (slice(1, 4), (3, 4)), ((slice(None), -1), (5,)), (np.array([0, 3, 3]), (3, 4)),
                         ((np.array([1, 4]), np.array([0, 2])), (2,)), ((Ellipsis, slice(None, None, 2)), (5, 2))]:  # fmt: skip
        values = (rng.normal(size=shape) * 9).astype(dtype)
        wanted = x.copy()
        if name == "set":
            wanted[index] = values
        else:
            at[name](wanted, index, values)
        close(getattr(rlx, f"index_{name}")(x, index, values), wanted)


def test_top_k(rng):
    for shape, k in [((7,), 3), ((2, 5), 5), ((3, 1), 1), ((2, 0, 4), 2)]:
        x = rng.permutation(int(np.prod(shape))).reshape(shape).astype("f4")
        values, places = rlx.top_k(x, k)
        order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
        close(places, order.astype("i4"))
        close(values, np.take_along_axis(x, order, -1))
    close(rlx.top_k(np.array([1.0, 2, 2, 2]), 2)[1], np.array([1, 2], "i4"))  # of equal ones the first


def correlated(x, w, strides, pads, dilation, groups):
    """Cross-correlation by SciPy, one pair of planes after the other."""
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    spread = np.zeros(w.shape[:2] + tuple((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)))
    spread[(slice(None), slice(None), *(slice(None, None, d) for d in dilation))] = w
    per, outs = w.shape[1], w.shape[0] // groups
    out = np.array([[sum(signal.correlate(image[o // outs * per + c], spread[o, c], "valid", "direct") for c in range(per))
                     for o in range(w.shape[0])] for image in x])
    return out[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("case", [
    ((2, 3, 9), (4, 3, 3), (1,), [(0, 0)], (1,), 1), ((1, 4, 8), (6, 2, 2), (2,), [(1, 0)], (3,), 2),
    ((2, 2, 7, 6), (3, 2, 3, 2), (1, 2), [(1, 1), (0, 2)], (1, 1), 1), ((1, 3, 5, 5), (3, 1, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 3),
    ((1, 2, 4, 5, 3), (2, 2, 2, 3, 1), (2, 1, 1), [(0, 1), (1, 0), (0, 0)], (1, 2, 1), 1)])  # fmt: skip
def test_convolutions(case, dtype, rng):
    x_shape, w_shape, strides, pads, dilation, groups = case
    x, w = rng.normal(size=x_shape).astype(dtype), rng.normal(size=w_shape).astype(dtype)
    close(rlx.conv(x, w, strides, pads, dilation, groups), correlated(x.astype("f8"), w.astype("f8"), strides, pads, dilation, groups))
    # The transposed one is the adjoint: <conv(u), x'> = <u, conv_transpose(x')> for every u.
    if all(a == b for a, b in pads):
        u = rng.normal(size=(2, w_shape[0], *(4 for _ in strides))).astype(dtype)
        made = np.asarray(rlx.conv_transpose(u, w, strides, [a for a, _ in pads], 0, dilation, groups))
        v = rng.normal(size=made.shape)
        forth = correlated(v, w.astype("f8"), strides, pads, dilation, groups)
        np.testing.assert_allclose((made * v).sum(), (forth * u).sum(), rtol=1e-4 if dtype == "f4" else 1e-10, atol=1e-4 if dtype == "f4" else 1e-10)


@pytest.mark.parametrize("kind, init, combine", [("max", -np.inf, np.max), ("min", np.inf, np.min), ("add", 0, np.sum), ("mul", 1, np.prod)])
def test_windows(kind, init, combine, rng):
    x = rng.normal(size=(5, 6))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(1, 0), (0, 2)], constant_values=init), (2, 3))
    close(rlx.reduce_window(x, kind, init, (2, 3), (1, 2), [(1, 0), (0, 2)]), combine(windows, (-2, -1))[:, ::2])


def test_reflections_and_eigenvectors(rng):
    for shape in [(4, 4), (5, 3), (3, 1)]:
        a, tau, _, _ = lapack.dgeqrf(rng.normal(size=shape))
        close(rlx.linalg.householder_product(a, tau), lapack.dorgqr(a, tau)[0], 1e-12)
    a = rng.normal(size=(2, 5, 5))
    values, vectors = (np.asarray(v) for v in rlx.linalg.eig(a))
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None, :], atol=1e-11)
    close(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(a)), 1e-11)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), 1, rtol=1e-12)
    assert np.linalg.cond(vectors).max() < 1e4


def test_traced_and_eager_agree(rng):
    x, w = rng.normal(size=(1, 2, 6)), rng.normal(size=(2, 2, 3))
    close(rlx.jit(lambda x, w: rlx.conv(x, w))(x, w), rlx.conv(x, w))
    close(rlx.jit(lambda x: rlx.top_k(x, 2))(x), rlx.top_k(x, 2))
    close(rlx.jit(lambda x: rlx.index_add(x, 0, rnp.ones((2, 6))))(x), rlx.index_add(x, 0, np.ones((2, 6))))


def test_windows_that_padding_below_nothing_cuts_off(rng):
    """The gradient in f32, which has a kernel for pairs, is that in f64, which has none."""
    def f(x):
        return rnp.sum(rlx.reduce_window(x, "max", -np.inf, (1, 1, 2, 2), (1, 1, 2, 2), [(0, 0), (0, -2), (0, 0), (0, 0)]))

    x = rng.normal(size=(2, 5, 4, 6))
    wanted = np.asarray(rlx.jit(rlx.grad(f))(x))
    assert wanted[:, 3:].max() == 0 and wanted[:, :3].sum() == 2 * 3 * 6
    close(rlx.jit(rlx.grad(f))(x.astype("f4")), wanted.astype("f4"))


def test_empty_convolutions():
    for x, w, groups in [((1, 1, 0), (1, 1, 1), 1), ((1, 4, 8, 0), (4, 1, 1, 1), 4), ((0, 2, 5), (2, 1, 3), 2)]:
        made = rlx.jit(lambda x, w, groups=groups: rlx.conv(x, w, groups=groups))(np.zeros(x, "f4"), np.ones(w, "f4"))
        assert made.shape == (x[0], w[0], *(n - k + 1 for n, k in zip(x[2:], w[2:])))


def test_losses(rng):
    """Beside the formulas in float64; tests/golden/ops/loss_gradients.* has PyTorch's numbers and derivatives."""
    x, labels, w = rng.normal(size=(6, 4)).astype("f4"), np.array([0, 3, -100, 2, 1, 0]), rng.uniform(size=4).astype("f4")
    logp, keep = sp.log_softmax(x.astype("f8"), axis=1), labels >= 0
    safe = np.where(keep, labels, 0)
    each = np.where(keep, -logp[np.arange(6), safe], 0)
    close(nn.cross_entropy(x, labels, reduction="none"), each, 1e-6)
    close(nn.cross_entropy(x, labels), each.sum() / 5, 1e-6)
    close(nn.cross_entropy(x.T, labels, axis=0, reduction="sum"), each.sum(), 1e-6)
    for dtype in ("f2", "f4", "f8"):  # labels as floats name the same classes, or none
        close(nn.cross_entropy(x, labels.astype(dtype)), each.sum() / 5, 1e-6)
    close(nn.cross_entropy(x, np.array([0, 0.5, -100, np.nan, np.inf, -0.0], "f4"), reduction="none"),
          np.array([each[0], np.nan, 0, np.nan, np.nan, each[5]]), 1e-6)
    smooth = np.where(keep, 0.8 * each - 0.2 * logp.mean(1), 0)
    close(nn.cross_entropy(x, labels, label_smoothing=0.2), smooth.sum() / 5, 1e-6)
    counted = w[safe] * keep
    close(nn.cross_entropy(x, labels, weight=w), (counted * each).sum() / counted.sum(), 1e-6)
    targets = sp.softmax(rng.normal(size=(6, 4)), axis=1)
    close(nn.cross_entropy(x, targets.astype("f4"), w, label_smoothing=0.1), -((0.9 * targets + 0.025) * w * logp).sum() / 6, 1e-6)
    close(nn.smooth_labels(targets, 0.1), 0.9 * targets + 0.025)
    a, b = (rng.normal(size=(3, 5)) * 2 for _ in range(2))
    d = np.abs(a - b)
    close(nn.mse(a, b), (d**2).mean())
    close(nn.huber(a, b, delta=0.5, reduction="none"), np.where(d <= 0.5, d**2 / 2, 0.5 * (d - 0.25)))
    close(nn.binary_cross_entropy_with_logits(a, d > 1, reduction="sum"), (softplus(a) - a * (d > 1)).sum())
    q, p = sp.log_softmax(a, axis=1), sp.softmax(b, axis=1)
    close(nn.kl_divergence(q, p, reduction="batch_mean"), (p * (np.log(p) - q)).sum() / 3)
    close(nn.kl_divergence(q, np.log(p), log_target=True), (p * (np.log(p) - q)).mean())
    for loss in (nn.mse, nn.huber, nn.kl_divergence, nn.binary_cross_entropy_with_logits):
        with pytest.raises(ValueError, match=r"compares arrays of one shape, got \(3, 1\) and \(3,\)"):
            loss(np.ones((3, 1)), np.ones(3))
    with pytest.raises(rlx.Error, match=r"weight must be f32\[4\], one for each class"):
        nn.cross_entropy(x, labels, w[:3])
