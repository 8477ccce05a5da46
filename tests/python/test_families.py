"""rlx.linalg, rlx.fft and rlx.special beside NumPy and SciPy, in f64."""

import numpy as np
import pytest
import scipy.linalg as sl
import scipy.special as sp
from conftest import close

import rlx
import rlx.numpy as rnp

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(2, 4, 4)), RNG.normal(size=(2, 4, 3))
S = A @ A.swapaxes(1, 2) + 4 * np.eye(4)
X = RNG.normal(size=(3, 10))
C = X + 1j * RNG.normal(size=(3, 10))
P, Q = RNG.uniform(0.2, 3, (3, 4)), RNG.uniform(1.2, 3, (3, 4))

LINALG = {
    "cholesky": (lambda f: f.cholesky(S)), "inv": (lambda f: f.inv(A)), "det": (lambda f: f.det(A)), "solve": (lambda f: f.solve(A, B)),
    "slogdet": (lambda f: tuple(f.slogdet(A))), "eigh values": (lambda f: f.eigh(S)[0]), "svd": (lambda f: f.svd(A, compute_uv=False)),
    "pinv": (lambda f: f.pinv(B)), "qr": (lambda f: tuple(f.qr(B))), "matrix_power": (lambda f: f.matrix_power(A, -3)),
    "multi_dot": (lambda f: f.multi_dot([A[0], B[0], B[0].T])), "tensorinv": (lambda f: f.tensorinv(np.eye(24).reshape(4, 6, 8, 3))),
    "tensorsolve": (lambda f: f.tensorsolve(np.eye(6).reshape(2, 3, 6) * 2, np.ones((2, 3)))),
}


@pytest.mark.parametrize("name", LINALG)
def test_linalg_is_that_of_numpy(name):
    close(LINALG[name](rlx.linalg), LINALG[name](np.linalg), 1e-9)


def test_linalg_beside_scipy():
    close(rlx.linalg.expm(A[0]), sl.expm(A[0]), 1e-9)
    close(rlx.linalg.lu(A[0])[0], sl.lu_factor(A[0])[0], 1e-9)
    wanted = np.stack([sl.solve_triangular(x, y, lower=True) for x, y in zip(S, B)])
    close(rlx.linalg.solve_triangular(S, B, lower=True), wanted, 1e-9)
    close(np.sort(np.abs(rlx.linalg.eigvals(A[0]))), np.sort(np.abs(np.linalg.eigvals(A[0]))), 1e-9)


REAL_INPUT = ("rfft", "ihfft", "rfftn")


@pytest.mark.parametrize("name", "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftshift ifftshift".split())
def test_fft_is_that_of_numpy(name):
    x = X if name in REAL_INPUT else C
    close(getattr(rlx.fft, name)(x), getattr(np.fft, name)(x), 1e-11)
    if "shift" not in name and not name.endswith("n"):
        close(getattr(rlx.fft, name)(x, 7, 0, "ortho"), getattr(np.fft, name)(x, 7, 0, "ortho"), 1e-11)


SPECIAL = {"gammaln": (P,), "digamma": (P,), "erf": (X,), "erfc": (X,), "erfcx": (X,), "erfinv": (P / 4,), "ndtr": (X,), "log_ndtr": (X,),
           "ndtri": (P / 4,), "entr": (P,), "i0": (X,), "i1": (X,), "i0e": (X,), "i1e": (X,), "logit": (P / 4,), "xlogy": (P, Q),
           "xlog1py": (P, Q), "zeta": (Q, P), "gammainc": (P, Q), "gammaincc": (P, Q)}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_is_that_of_scipy(name):
    close(getattr(rlx.special, name)(*SPECIAL[name]), getattr(sp, name)(*SPECIAL[name]), 1e-10)


def test_special_functions_of_an_order():
    close(rlx.special.polygamma(2, P), sp.polygamma(2, P), 1e-10)
    close(rlx.special.multigammaln(Q + 2, 3), np.vectorize(lambda v: sp.multigammaln(v, 3))(Q + 2), 1e-10)


def test_keys_make_numbers():
    key = rlx.random.key(3)
    close(rlx.random.normal(key, (4,)), rlx.random.normal(key, (4,)))
    a, b = rlx.random.split(key)
    assert not np.array_equal(np.asarray(rlx.random.bits(a, (4,))), np.asarray(rlx.random.bits(b, (4,))))
    u = np.asarray(rlx.random.uniform(key, (10000,)))
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.02


def test_gradients_of_factorizations():
    close(rlx.grad(lambda a: rlx.linalg.slogdet(a)[1])(S[0]), np.linalg.inv(S[0]).T, 1e-9)
