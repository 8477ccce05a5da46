"""The README's example in a process that has the wheel alone: its numbers, and what libraries were loaded for it."""

import pathlib
import re
import sys


def mapped():
    return {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if ".so" in line and "/" in line}


import numpy as np  # noqa: E402

rng = np.random.default_rng(0)  # loads hashlib, and with it Python's libcrypto
before = mapped()
import rlx  # noqa: E402
import rlx.numpy as rnp  # noqa: E402

assert "site-packages" in rlx.__file__ or "installed" in rlx.__file__, rlx.__file__


@rlx.jit
def loss(w, x, y):
    return rnp.mean((rnp.tanh(x @ w) - y) ** 2)


w, x, y = rng.normal(size=(4, 3)), rng.normal(size=(8, 4)), rng.normal(size=(8, 3))
t = np.tanh(x @ w)
assert np.allclose(loss(w, x, y), np.mean((t - y) ** 2))
gradient = rlx.grad(loss)(w, x, y)
assert np.allclose(gradient, x.T @ (2 * (t - y) * (1 - t * t)) / y.size)
assert np.allclose(rlx.vmap(rlx.grad(loss), (None, 0, 0))(w, x, y).mean(0), gradient)
assert "tanh" in loss.lower(w, x, y).as_text() and loss.report()
s = x.T @ x
assert np.allclose(rlx.linalg.inv(s), np.linalg.inv(s)) and np.allclose(rlx.linalg.eigh(s)[0], np.linalg.eigh(s)[0])
big = rng.normal(size=(96, 96)).astype(np.float32)
assert np.allclose(rnp.asarray(big) @ big, big @ big, atol=1e-3)

# What came with rlx lies in the wheel, or is part of every system; a library that was there before may serve as well.
folder = str(pathlib.Path(rlx.__file__).resolve().parent / "_lib")
system = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so")
foreign = [p for p in mapped() - before if not p.startswith(folder) and not system.match(pathlib.Path(p).name)
           and not re.search(r"/lib-dynload/|numpy|ml_dtypes|/_?ctypes", p)]
foreign = [p for p in foreign if not pathlib.Path(p).name.startswith("libffi")]  # Python's ctypes
if foreign:
    sys.exit(f"loaded from outside the wheel: {foreign}")
