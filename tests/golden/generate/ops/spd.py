"""Positive definite matrices: values and derivatives by SciPy, from other formulas than the library's.

The library takes symmetric eigenpairs and divided differences. Here nothing is diagonalized: P^1/2 log(P^-1/2 X P^-1/2) P^1/2
is P log(P^-1 X) with SciPy's Schur-based logm and sqrtm, and derivatives are forward ones, a direction for each element of
each operand, through linear equations that equal eigenvalues do not trouble: Sylvester's for the root (R dR + dR R = dX), the
inverse of SciPy's expm_frechet for the logarithm, max(x, floor) = (x + floor + ((x - floor)^2)^1/2) / 2. The Karcher mean is
iterated, with its derivatives, until neither changes.
"""
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from .case import *
from .derivative import by_jax, cotangents_of
from .linalg import led, text, with_spectrum

REAL = (f64, f32)


class Dual:
    """A matrix or a number, and its changes in all directions."""
    def __init__(self, value, changes):
        self.value, self.changes = np.asarray(value, f64), np.asarray(changes, f64)

    def __add__(self, other):
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.changes)
        return Dual(self.value + other.value, self.changes + other.changes)

    def __mul__(self, number):
        if not isinstance(number, Dual):
            return Dual(self.value * number, self.changes * number)
        return Dual(self.value * number.value, self.changes * number.value + self.value * number.changes[:, None, None])

    def __matmul__(self, other):
        return Dual(self.value @ other.value, self.changes @ other.value + self.value @ other.changes)

    @property
    def T(self):
        return Dual(self.value.T, np.swapaxes(self.changes, -1, -2))


def symmetric(x):
    return (x + x.T) * 0.5


def inverse(x):
    y = np.linalg.inv(x.value)
    return Dual(y, -y @ x.changes @ y)


def real(x):
    assert np.abs(np.imag(x)).max(initial=0) < 1e-12 * (1 + np.abs(x).max(initial=0))
    return np.real(x)


def exp(x):
    return Dual(scipy.linalg.expm(x.value), [scipy.linalg.expm_frechet(x.value, change, compute_expm=False) for change in x.changes])


def log(x):
    n, y = len(x.value), real(scipy.linalg.logm(x.value))
    basis = np.eye(n * n).reshape(n * n, n, n)
    kernel = np.stack([scipy.linalg.expm_frechet(y, e, compute_expm=False).ravel() for e in basis], axis=1)
    changes = np.linalg.solve(kernel, x.changes.reshape(-1, n * n).T).T
    return Dual(y, changes.reshape(x.changes.shape))


def sqrt(x):
    y = real(scipy.linalg.sqrtm(x.value))
    return Dual(y, [scipy.linalg.solve_sylvester(y, y, change) for change in x.changes])


def above(x, floor):
    """max(x, floor); no eigenvalue may be at the floor."""
    if floor is None:
        return x
    n = np.eye(len(x.value))
    y = x + -floor * n
    size = sqrt(y @ y)
    return (x + floor * n + size) * 0.5


def inverse_sqrt(x):
    return inverse(sqrt(x))


FUNCTIONS = {"log": log, "exp": exp, "sqrt": sqrt, "inverse_sqrt": inverse_sqrt, "identity": lambda x: x}


def log_map(base, x):
    base, x = symmetric(base), symmetric(x)
    return base @ log(inverse(base) @ x)


def exp_map(base, v):
    base, v = symmetric(base), symmetric(v)
    return base @ exp(inverse(base) @ v)


def transport(source, target, v):
    e = sqrt(symmetric(target) @ inverse(symmetric(source)))
    return e @ v @ e.T


def karcher(x, weights):
    """x: a list; weights: numbers. M exp(sum w_i log(M^-1 x_i)) from the arithmetic mean on."""
    total = weights[0]
    for w in weights[1:]:
        total = total + w
    shares = [Dual(w.value / total.value, w.changes / total.value - w.value * total.changes / total.value**2) for w in weights]
    mean = sum((symmetric(m) * w for m, w in zip(x[1:], shares[1:])), symmetric(x[0]) * shares[0])
    for _ in range(400):
        back = inverse(mean)
        steps = [log(back @ symmetric(m)) * w for m, w in zip(x, shares)]
        step = sum(steps[1:], steps[0])
        mean = symmetric(mean @ exp(step))
        if max(np.abs(step.value).max(), np.abs(step.changes).max(initial=0)) < 2e-14:
            return mean
    raise AssertionError("the mean did not converge")


# ---- cases ----
def differentiated(f, case, op, inputs, function, source, /, **attributes):
    """`function` of one matrix of each operand -> one matrix; operands are stacks alike."""
    inputs = [np.asarray(x) for x in inputs]
    batch, sizes = inputs[0].shape[:-2], [int(np.prod(x.shape[-2:])) for x in inputs]

    def changes_of(i, shape):
        all_of = np.zeros((sum(sizes), *shape))
        all_of[sum(sizes[:i]):sum(sizes[:i + 1])] = np.eye(sizes[i]).reshape(-1, *shape)
        return all_of

    results = {}
    for at in np.ndindex(*batch):
        results[at] = function(*(Dual(x[at], changes_of(i, x.shape[-2:])) for i, x in enumerate(inputs)))
    shape = next(iter(results.values())).value.shape
    outputs = np.zeros((*batch, *shape))
    for at, y in results.items():
        outputs[at] = y.value
    add(f, case, op, inputs, outputs, source,
        lambda ct: [stacked([(results[at].changes * ct[at]).sum((-1, -2))[sum(sizes[:i]):sum(sizes[:i + 1])] for at in np.ndindex(*batch)], x.shape)
                    for i, x in enumerate(inputs)], **attributes)


def stacked(parts, shape):
    return np.stack(parts).reshape(shape)


def add(f, case, op, inputs, output, source, gradients, /, **attributes):
    dtype = inputs[0].dtype
    output = output.astype(dtype)
    ct = cotangents_of(case, [output])
    f.add(case, op, inputs, [output], source, ct, [g.astype(x.dtype) for g, x in zip(gradients(ct[0].astype(f64)), inputs)], **attributes)


def positive(name, n, dtype=f64, batch=(), least=0.5, step=0.5):
    return with_spectrum(name, batch, least + step * np.arange(n), dtype)


def plain(name, dims, dtype=f64, scale=0.5):
    x = normal(name, dims, f64, scale)
    return ((x + np.swapaxes(x, -1, -2)) / 2).astype(dtype)


EQUAL = {"identity": 2.0 * np.eye(3), "pair": np.array([[3.0, 1, 0], [1, 3, 0], [0, 0, 4]]), "diagonal": np.diag([2.0, 2, 5]),
         "near": np.diag([2.0, 2 + 1e-9, 2 + 3e-5]), "turned": with_spectrum("equal", (), [1.0, 1, 3], f64)}


def functions(f):
    for function, apply in FUNCTIONS.items():
        source = {"exp": "scipy.linalg.expm and expm_frechet", "log": "scipy.linalg.logm, the inverse of expm_frechet",
                  "identity": "the definition"}.get(function, "scipy.linalg.sqrtm, Sylvester's equation")
        for dims in ((3, 3), (2, 2, 4, 4), (1, 1)):
            for dtype in REAL:
                x = positive(f"fn{text(dims)}", dims[-1], dtype, dims[:-2])
                differentiated(f, f"spd_matrix_fn_{function}_{text(dims)}_{NAMES[dtype][0]}", "spd_matrix_fn", [x],
                               lambda x: apply(symmetric(x)), source, function=function)
        for name, x in EQUAL.items():
            differentiated(f, f"spd_matrix_fn_{function}_equal_{name}", "spd_matrix_fn", [x], lambda x: apply(symmetric(x)), source, function=function)
        for floor, values in ((0.75, [-1.0, 0.25, 1, 2]), (0.5, [-1.0, 0.1, 0.1, 2]), (1.5, [0.25, 2, 2, 3])):
            x = with_spectrum(f"floor{function}", (), values, f64)
            differentiated(f, f"spd_matrix_fn_{function}_floor_{int(100 * floor)}", "spd_matrix_fn", [x],
                           lambda x: apply(above(symmetric(x), floor)), source + "; the floor by the root of a square", function=function, floor=floor)
        for dims in ((3, 3), (2, 3, 3)):
            x, ct = positive(f"fnb{text(dims)}", 3, f64, dims[:-2]), normal(f"fnbct{text(dims)}", dims, f64)

            def backward(at):
                return np.tensordot(changes(apply, x[at]), ct[at], [[-2, -1], [0, 1]]).reshape(3, 3)

            y = np.stack([backward(at) for at in np.ndindex(*dims[:-2])]).reshape(dims)
            f.add(f"spd_matrix_fn_backward_{function}_{text(dims)}", "spd_matrix_fn_backward", [x, ct], [y], source, function=function)
    wide = np.diag([1e-6, 1.0, 1e6])
    for function in ("log", "sqrt", "inverse_sqrt"):
        differentiated(f, f"spd_matrix_fn_{function}_wide", "spd_matrix_fn", [wide], lambda x: FUNCTIONS[function](symmetric(x)), "scipy.linalg", function=function)
    x = with_spectrum("indefinite", (), [-1.0, 1, 2], f64)
    for function in ("log", "sqrt", "inverse_sqrt"):
        f.add(f"spd_matrix_fn_{function}_indefinite", "spd_matrix_fn", [np.stack([x, np.eye(3)])],
              [np.stack([np.full((3, 3), np.nan), 0 * np.eye(3) if function == "log" else np.eye(3)])], "no real function of it; of 1", function=function)
    f.add("spd_matrix_fn_empty", "spd_matrix_fn", [np.zeros((2, 0, 0))], [np.zeros((2, 0, 0))], "nothing")


def changes(apply, x, floor=None):
    """The derivative of a function of a symmetric matrix in the direction of each element, [n * n, n, n]."""
    n = len(x)
    return apply(above(symmetric(Dual(x, np.eye(n * n).reshape(n * n, n, n))), floor)).changes


def layers(f):
    for w_dims, x_dims in (((2, 3), (3, 3)), ((4, 2), (3, 2, 2)), ((1, 1), (1, 1)), ((3, 2, 4), (3, 4, 4))):
        for dtype in REAL:
            w, x = normal(f"bimapw{text(w_dims)}", w_dims, dtype), positive(f"bimap{text(x_dims)}", x_dims[-1], dtype, x_dims[:-2])
            f.add_derivative(f"bimap_{text(w_dims)}_{text(x_dims)}_{NAMES[dtype][0]}", "bimap", [w, x], by_jax,
                             lambda w, x: jnp.einsum("...ij,...jk,...lk->...il", w, x, w), "jax.numpy.einsum in f64")
    for op, apply in (("reeig", lambda x: x), ("logeig", log)):
        inputs = {"3x3": (with_spectrum("eig3", (), [-0.5, 0.25, 2], f64), 0.5), "2x4x4": (with_spectrum("eig4", (2,), [-1.0, 0.1, 1, 2], f64), 0.125),
                  "f32": (with_spectrum("eig32", (), [0.25, 1, 2], f32), 0.5), "1x1": (np.array([[2.0]]), 1e-4),
                  "equal": (np.diag([2.0, 2, 5]), 1e-4), "equal_below": (np.diag([0.25, 0.25, 2]), 0.5), "below": (np.diag([0.125, 0.25]), 0.5)}
        for name, (x, floor) in inputs.items():
            x64, batch, n = x.astype(f64), x.shape[:-2], x.shape[-1]
            w, v = np.linalg.eigh(x64)
            v = np.asarray(led(v))
            y = np.zeros(x.shape)
            for at in np.ndindex(*batch):
                y[at] = apply(above(Dual(x64[at], np.zeros((1, n, n))), floor)).value
            outputs = [a.astype(x.dtype) for a in (y, w, v)]
            ct = normal(f"{op}_{name}/ct", x.shape, x.dtype)
            gradient = np.stack([np.tensordot(changes(apply, x64[at], floor), ct[at].astype(f64), [[-2, -1], [0, 1]]) for at in np.ndindex(*batch)]).reshape(x.shape)
            source = "numpy.linalg.eigh; derivative: Sylvester's equation, the inverse of scipy.linalg.expm_frechet"
            f.add(f"{op}_{name}", op, [x], outputs, source, [ct, None, None], [gradient.astype(x.dtype)], floor=floor)
            if x.dtype == f64:
                f.add(f"{op}_backward_{name}", f"{op}_backward", [w, v, ct], [gradient], source, floor=floor)


def maps(f):
    source = "scipy.linalg: P log(P^-1 X), P exp(P^-1 V), sqrtm(Q P^-1); Sylvester's equation, expm_frechet and its inverse"
    for dims in ((3, 3), (2, 4, 4), (2, 2, 2, 2), (1, 1)):
        for dtype in REAL:
            n, batch, tail = dims[-1], dims[:-2], f"{text(dims)}_{NAMES[dtype][0]}"
            # In f32 nearer to the identity, so that few digits are lost.
            p = positive(f"base{text(dims)}", n, dtype, batch, *((0.5, 0.5) if dtype == f64 else (1, 0.25)))
            q = positive(f"to{text(dims)}", n, dtype, batch, 0.75, 0.25)
            v = plain(f"tangent{text(dims)}", dims, dtype, 0.5 if dtype == f64 else 0.25)
            differentiated(f, f"spd_log_map_{tail}", "spd_log_map", [p, q], log_map, source)
            differentiated(f, f"spd_exp_map_{tail}", "spd_exp_map", [p, v], exp_map, source)
            differentiated(f, f"spd_parallel_transport_{tail}", "spd_parallel_transport", [p, q, v], transport, source)
    for name, x in EQUAL.items():
        p, v = positive("base3", 3), plain("tangent3", (3, 3))
        differentiated(f, f"spd_log_map_from_{name}", "spd_log_map", [x, p], log_map, source)
        differentiated(f, f"spd_log_map_to_itself_{name}", "spd_log_map", [x, x], log_map, source)
        differentiated(f, f"spd_exp_map_{name}_of_zero", "spd_exp_map", [x, np.zeros((3, 3))], exp_map, source)
        differentiated(f, f"spd_parallel_transport_nowhere_{name}", "spd_parallel_transport", [x, x, v], transport, source)
        differentiated(f, f"spd_parallel_transport_to_{name}", "spd_parallel_transport", [p, x, v], transport, source)
    for op, function, dims in (("spd_log_map", log_map, 2), ("spd_exp_map", exp_map, 2), ("spd_parallel_transport", transport, 3)):
        p, q, v = positive("bp", 3), positive("bq", 3, least=0.75, step=0.25), plain("bv", (3, 3))
        inputs = {"spd_log_map": [p, q], "spd_exp_map": [p, v]}.get(op, [p, q, v])
        ct = normal(f"{op}_backward/ct", (3, 3), f64)
        k = len(inputs)
        y = function(*(Dual(x, np.concatenate([np.eye(9).reshape(9, 3, 3) * (i == j) for j in range(k)])) for i, x in enumerate(inputs)))
        gradients = (y.changes * ct).sum((-1, -2)).reshape(k, 3, 3)
        f.add(f"{op}_backward", f"{op}_backward", [*inputs, ct], list(gradients), source)
    x = np.array([[1.0, 2], [2, 1]])
    f.add("spd_log_map_indefinite", "spd_log_map", [np.eye(2), x], [np.full((2, 2), np.nan)], "no real logarithm")
    f.add("spd_log_map_from_indefinite", "spd_log_map", [x, np.eye(2)], [np.full((2, 2), np.nan)], "no metric there")


def batches(f):
    """Ops with a batch that is theirs: the directions are those of all matrices at once."""
    def directions(shapes):
        sizes = [int(np.prod(s)) for s in shapes]
        return [np.concatenate([np.eye(size).reshape(size, *s) if i == j else np.zeros((sizes[j], *s)) for j in range(len(shapes))])
                for i, (size, s) in enumerate(zip(sizes, shapes))], sizes

    def whole(case, op, inputs, function, source, backward=None, **attributes):
        inputs = [np.asarray(x) for x in inputs]
        seeds, sizes = directions([x.shape for x in inputs])
        ys = function(*(list(zip(x.astype(f64), np.moveaxis(s, 1, 0))) if x.shape != inputs[0].shape[1:] else Dual(x, s) for x, s in zip(inputs, seeds)))
        many = isinstance(ys, list)
        value = np.stack([y.value for y in ys]) if many else ys.value
        tangents = np.stack([y.changes for y in ys], axis=1) if many else ys.changes

        def gradients(ct):
            flat = (tangents.reshape(len(tangents), -1) @ ct.ravel())
            return [part.reshape(x.shape) for part, x in zip(np.split(flat, np.cumsum(sizes)[:-1]), inputs)]

        add(f, case, op, inputs, value, source, gradients, **attributes)
        if backward:
            ct = normal(f"{case}/backward_ct", value.shape, f64)
            operands, wanted = backward(inputs, value, ct, gradients(ct))
            f.add(f"{op}_backward_{case}", f"{op}_backward", operands, wanted, source, **attributes)

    def batch_norm(x, mean, g):
        s, r = inverse_sqrt(symmetric(mean)), sqrt(symmetric(g))
        return [r @ s @ Dual(*m) @ s @ r for m in x]

    source = "scipy.linalg.sqrtm, Sylvester's equation"
    for dims in ((3, 3, 3), (2, 1, 1), (1, 4, 4)):
        for dtype in REAL:
            n, tail = dims[-1], f"{text(dims)}_{NAMES[dtype][0]}"
            x, mean, g = positive(f"bn{tail}", n, dtype, dims[:1]), positive(f"bnm{tail}", n, dtype), positive(f"bng{tail}", n, dtype, (), 0.75, 0.25)
            whole(f"spd_batch_norm_{tail}", "spd_batch_norm", [x, mean, g], batch_norm, source,
                  (lambda inputs, y, ct, ds: ([*inputs, ct], ds)) if dtype == f64 else None)
    for name, m in EQUAL.items():
        whole(f"spd_batch_norm_{name}", "spd_batch_norm", [positive("bneq", 3, f64, (2,)), m, m], batch_norm, source)

    def mean_of(x, weights=None):
        points = [Dual(*m) for m in x]
        weights = [Dual(*w) for w in weights] if weights else [Dual(1.0, np.zeros(len(points[0].changes)))] * len(points)
        return karcher(points, weights)

    source = "NumPy and SciPy: M exp(sum w_i log(M^-1 x_i)) and its derivatives, iterated until neither changes"
    unweighted = lambda inputs, y, ct, ds: ([inputs[0], y, ct], ds)
    weighted = lambda inputs, y, ct, ds: ([inputs[0], y, ct, inputs[1]], ds)
    for b, n in ((3, 3), (2, 2), (4, 2), (1, 2), (3, 1)):
        for dtype in REAL:
            tail = f"{b}x{n}x{n}_{NAMES[dtype][0]}"
            x, w = positive(f"mean{tail}", n, dtype, (b,), 0.5, 0.5), uniform(f"weights{tail}", (b,), 0.25, 2, dtype)
            wide = dtype == f64
            whole(f"spd_karcher_mean_{tail}", "spd_karcher_mean", [x], mean_of, source, unweighted if wide else None)
            whole(f"spd_karcher_mean_weighted_{tail}", "spd_karcher_mean", [x, w], mean_of, source, weighted if wide else None)
    same = positive("same", 3)
    sets = {"same": np.stack([same] * 3), "diagonal": np.stack([np.diag([1.0, 1, 2]), np.diag([2.0, 2, 2]), np.diag([4.0, 4, 1])]),
            "identity": np.stack([np.eye(3), np.eye(3)]), "pair": np.stack([EQUAL["pair"], EQUAL["identity"]]),
            "inverses": np.stack([same, np.linalg.inv(same)])}
    for name, x in sets.items():
        whole(f"spd_karcher_mean_{name}", "spd_karcher_mean", [x], mean_of, source, unweighted)
        w = np.arange(1.0, len(x) + 1)
        whole(f"spd_karcher_mean_weighted_{name}", "spd_karcher_mean", [x, w], mean_of, source, weighted)
    f.add("spd_karcher_mean_commuting", "spd_karcher_mean", [np.stack([np.diag([1.0, 4, 9]), np.diag([4.0, 1, 1])])], [np.diag([2.0, 2, 3])],
          "geometric means of the diagonals")
    f.add("spd_karcher_mean_far", "spd_karcher_mean", [np.stack([np.diag([1e-4, 1.0, 1e4]), np.diag([1e2, 1e-2, 1.0])])], [np.diag([0.1, 0.1, 100.0])],
          "geometric means of the diagonals")
    f.add("spd_karcher_mean_indefinite", "spd_karcher_mean", [np.stack([np.eye(2), np.diag([1.0, -0.5])])], [np.full((2, 2), np.nan)], "no such mean")


def cases():
    families = [Family(name) for name in ("spd_functions", "spd_layers", "spd_maps", "spd_batches")]
    for build, family in zip((functions, layers, maps, batches), families):
        build(family)
    return families
