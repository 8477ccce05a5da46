"""Arguments for calls of functions of arrays, drawn by the names of their parameters: mostly such as fit, sometimes such as do not.
For namespace.py."""

import numpy as np

AXES = ("axis", "axes", "axis1", "axis2", "source", "destination", "axisa", "axisb", "axisc", "dimension")
FLAGS = ("keepdims", "full_matrices", "endpoint", "retstep", "equal_nan", "density", "right", "return_index", "sparse", "invert", "assume_unique",
         "copy", "compute_uv", "lower", "unit_diagonal", "upper", "hermitian", "reverse", "approximate", "stable", "descending")


class Calls:
    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)
        self.begin()

    def begin(self):
        """A call begins: what its arguments have in common is drawn anew."""
        self.indexed = np.zeros(())
        self.common_shape, self.common_dtype, self.extent = self.shape(), self.one_of("f", "f", "f", "i", "b", "c"), int(self.draw.integers(1, 5))

    def one_of(self, *choices):
        return choices[self.draw.integers(len(choices))]

    def often(self, share):
        return self.draw.random() < share

    def shape(self):
        return self.one_of((), (1,), (3,), (4,), (0,), (2, 3), (3, 2), (3, 3), (3, 1), (1, 3), (2, 0), (2, 2, 3), (2, 3, 4))

    def array(self, kinds="fiub", shape=None):
        shape, kind = self.shape() if shape is None else shape, self.one_of(*kinds)
        if kind == "f":
            a = (self.draw.normal(size=shape) * self.one_of(1, 1, 3, 100)).astype(self.one_of(np.float32, np.float64))
            if a.size and self.often(0.2):
                a.reshape(-1)[self.draw.integers(a.size)] = self.one_of(np.nan, np.inf, -np.inf, -0.0, 1e30)
            return a
        if kind == "c":
            return (self.draw.normal(size=shape) + 1j * self.draw.normal(size=shape)).astype(np.complex64)
        if kind == "b":
            return self.draw.random(shape) < 0.5
        if kind == "u":
            return self.draw.integers(0, 6, shape).astype(self.one_of(np.uint8, np.uint32))
        return self.draw.integers(-5, 6, shape).astype(self.one_of(np.int32, np.int64))

    # ---- arguments of certain families ----
    def likewise(self):
        """An array of the shape and the dtype that this call's others mostly have, as functions take them that do not promote."""
        if self.often(0.1):
            return self.one_of(self.array("fiub"), 2, 0.5, [1.0, 2.0])
        kind = self.common_dtype
        if kind == "f":
            return (self.draw.normal(size=self.common_shape) * self.one_of(1, 1, 30)).astype(np.float32)
        return {"i": lambda: self.draw.integers(-5, 6, self.common_shape).astype(np.int32), "b": lambda: self.draw.random(self.common_shape) < 0.5,
                "c": lambda: self.array("c", self.common_shape)}[kind]()

    def matrix(self):
        """Mostly square, of this call's extent, f64 or what becomes f32."""
        if self.often(0.15):
            return self.array("fic")
        n = self.extent
        shape = (n, n) if self.often(0.6) else self.one_of((2, n, n), (n, n + 1), (n + 1, n), (0, 0), (2, 0, n), (1, 1))
        a = self.draw.normal(size=shape)
        if self.often(0.3) and shape[-1] == shape[-2]:
            a = a @ a.swapaxes(-1, -2) + np.eye(shape[-1])
        if self.often(0.15):
            a = a + 1j * self.draw.normal(size=shape)
        elif self.often(0.2):
            a = self.draw.integers(-4, 5, shape)
        if a.size and a.dtype.kind == "f" and self.often(0.05):
            a.reshape(-1)[self.draw.integers(a.size)] = self.one_of(np.nan, np.inf)
        return a.astype(np.float32) if a.dtype.kind == "f" and self.often(0.3) else a

    def right_side(self):
        n = self.extent
        return self.draw.normal(size=self.one_of((n,), (n, 1), (n, 2), (2, n, 1), (2, n), (n + 1,), (), (1, n)))

    def chain(self):
        """Matrices that can be multiplied one by the next, sometimes between vectors."""
        extents = self.draw.integers(1, 4, self.draw.integers(2, 6))
        made = [self.draw.normal(size=(a, b)) for a, b in zip(extents, extents[1:])]
        if made and self.often(0.3):
            made[0] = made[0][0]
        if self.often(0.1):
            made.insert(0, self.draw.normal(size=(2, 2, int(extents[0]))))
        return made

    def one_index(self, extent, is_update):
        choice = self.draw.integers(12)
        if choice < 3:
            return int(self.draw.integers(-extent - 1, extent + 1)) if extent else 0
        if choice < 6:
            ends = lambda: self.one_of(None, 0, 1, -1, 2, -2, 7, -7)
            return slice(ends(), ends(), self.one_of(None, 1, 2, -1, -2, 3))
        if choice == 6:
            return self.one_of(None, Ellipsis, None, Ellipsis, 1.5, "x", True, slice(0, 1, 0), np.float32(1), slice(0.5, 2))
        if choice < 9 and extent:
            where = self.draw.integers(-extent, extent, self.one_of((), (1,), (2,), (2, 2), (0,)))
            if is_update and where.ndim:  # of several values for one place NumPy's last one stays, and JAX's is any
                where = np.unique(where % extent)
            return self.one_of(where, where, where.astype(np.int32), where.tolist(), where.astype(np.int8))
        if choice == 9:
            return np.array(self.draw.integers(-9, 9, 2)) if not is_update else np.array([0])
        extents = (extent,) if self.often(0.8) else (extent + 1,)
        return self.draw.random(extents) < 0.5

    def index_of(self, shape, is_update=False):
        if shape and self.often(0.15):
            return self.draw.random(shape[:self.draw.integers(1, len(shape) + 1)] if self.often(0.7) else (*shape[:-1], shape[-1] + 1)) < 0.5
        parts = [self.one_index(n, is_update) for n in shape]
        if self.often(0.3):
            parts.insert(self.draw.integers(len(parts) + 1), self.one_of(None, Ellipsis))
        parts = parts[:self.draw.integers(len(parts) + 1) if self.often(0.4) else len(parts)]
        return parts[0] if len(parts) == 1 and self.often(0.7) else tuple(parts)

    # ---- by name ----
    def argument(self, name, makers=None):
        """An argument for a parameter of that name: mostly one that fits, sometimes one that does not. `makers` are a family's own."""
        odd = self.often(0.15)
        if makers and name in makers and not (odd and self.often(0.4)):
            return makers[name](self)
        if odd and name not in AXES:
            return self.one_of(None, "x", 1.5, -7, (), [], True, np.nan, np.array([True, False]), (0, 0), [[1], [1, 2]], 2**20,
                               np.float32(2), {"a": 1}, slice(1))
        if name in AXES:
            return self.one_of(None, 0, 1, -1, 2, -3, (0, 1), (0, -1), (), np.int64(0), 1.5, True)
        if name in FLAGS:
            return self.one_of(True, False)
        if name in ("shape", "newshape", "reps", "repeats", "shift", "pad_width", "dims", "new_sizes"):
            return self.one_of((2, 3), (3,), 2, -1, (-1, 2), (0,), (), (6,), 3, (1, 1), ((1, 1), (0, 2)), np.array([1, 2, 0]), (2.0, 3), (1.5,), 2.5)
        if name in ("n", "N", "M", "k", "num", "decimals", "offset", "bins", "minlength", "ddof", "indices_or_sections", "deg", "num_classes", "d", "ind"):
            return self.one_of(0, 1, 2, 3, -1, 5)
        if name in ("q",):
            return self.one_of(0.5, 0, 1, 0.25, -0.1, 1.5, [0.1, 0.9])
        if name in ("indices",):
            return self.one_of(0, -1, 2, 7, [0, 1], np.array([[0, 1], [1, 0]]), np.array([-1, 5]))
        if name in ("arrays", "tup", "seq", "operands"):
            return [self.array("f") for _ in range(self.draw.integers(0, 4))]
        if name == "norm":
            return self.one_of(None, None, "ortho", "forward", "backward", "x", "", 0)
        if name == "s":
            return self.one_of(None, None, (2,), (2, 3), (4, 2), (-1,), (3, -1), 3, (2, 3, 4), (0,), (1.5,))
        if name == "ord":
            return self.one_of(None, None, 1, 2, -1, -2, 0, 3, np.inf, -np.inf, "fro", "nuc", 1.5, "x")
        if name in ("rcond", "tol", "rtol"):
            return self.one_of(None, None, 0.1, 0.5, 0.0, np.array([0.1, 0.5]), 1e-3)
        if name in ("mode", "method", "kind", "side", "UPLO", "trans"):
            return self.one_of("constant", "edge", "wrap", "clip", "raise", "left", "right", "linear", "lower", "reflect", "nothing", "L", "U", "u", 0, 1, 2,
                               "T", "reduced", "complete", "r", "stable", "quicksort")
        if name == "dtype":
            return self.one_of(None, "float32", np.float64, "float16", "nothing")  # floats saturate here when they become integers
        if name in ("condition", "where", "weights"):
            return self.one_of(self.array("b"), self.array("f"))
        return self.one_of(self.array("fffiub"), self.array("fffiub"), self.array("fffiub"), self.array("c"), 2, 0.5, -1, [1.0, 2.0, 3.0], [[1, 2], [3, 4]])
