#!/usr/bin/env python3
"""Random calls of the whole namespace, with odd and wrong arguments, beside other packages: either both raise, or the values agree. What
RLX refuses and the other takes is counted, not judged: it is no silent surprise.

Half of the calls are of rlx.numpy beside NumPy; the others go in turn to rlx.linalg, rlx.fft, the methods, operators, indices and
updates of arrays beside NumPy, and to rlx.special beside SciPy. Where JAX is installed, as many are made beside it: of functions that
have its contract and not NumPy's, of rlx.nn, rlx.lax, rlx.random and those ops of the table that jax.lax or jax.nn have. What
JAX refuses and RLX takes is counted, for JAX takes no lists. The last line says whether it was there. Arguments that may be left
out go by keyword, or by position in the order of the other package.

    tests/attack/namespace.py --calls 2000 --seed 1
    tests/attack/namespace.py --calls 500 --family linalg norm pinv
"""

import argparse
import collections
import functools
import inspect
import operator
import pathlib
import sys
import warnings

import numpy as np
import scipy.linalg
import scipy.special

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

import rlx  # noqa: E402
import rlx.numpy as rnp  # noqa: E402
from accepted_differences import functions_of, why_accepted  # noqa: E402
from random_arguments import Calls  # noqa: E402

try:
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = jnp = None

SKIPPED = {"x", "y", "out", "order", "like", "subok", "casting", "signature", "copy", "device", "initial", "extobj", "optimize", "overwrite_input",
           "interpolation", "max_line_width", "stable", "period", "check_finite", "overwrite_a", "overwrite_b", "return_sign", "precision",
           "preferred_element_type", "index_dtype", "is_stable", "num_keys", "out_sharding", "mean", "variance", "where"}
# Vectors have a sign and a phase of their own, and among equal values any basis, and roots have no order; what belongs to the values is compared.
COMPARED = {
    "linalg.eigh": lambda r: (r[0], r[1].shape), "linalg.eig": lambda r: (np.sort(np.abs(r[0]), -1), r[1].shape),
    "linalg.eigvals": lambda r: np.sort(np.abs(r), -1), "linalg.qr": lambda r: tuple(np.abs(x) for x in r) if isinstance(r, tuple) else np.abs(r),
    "numpy.roots": lambda r: np.sort_complex(np.round(r, 2)),
    "linalg.lstsq": lambda r: (r[0], *r[2:]),  # NumPy leaves the residuals out where JAX does not
    "linalg.svd": lambda r: (r[0].shape, r[1], r[2].shape) if isinstance(r, tuple) else r,
}


class Family:
    """Functions that have one name here and in another package."""

    def __init__(self, name, judge, functions, makers=None):
        self.name, self.judge, self.functions, self.makers = name, judge, functions, makers or {}  # functions: name -> (ours, theirs)


def of_modules(ours, theirs, leave=()):
    """What both have by one name."""
    return {n: (getattr(ours, n), getattr(theirs, n)) for n in sorted(dir(ours)) if not n.startswith("_") and n not in leave
            and callable(getattr(ours, n)) and not isinstance(getattr(ours, n), type) and callable(getattr(theirs, n, None)) and hasattr(np if theirs is jnp else theirs, n)}


def of_arrays():
    """Methods, operators, indices and updates of arrays; the array is NumPy's in the one case and ours in the other."""
    made = {}
    methods = {"sum": "axis keepdims", "prod": "axis keepdims", "mean": "axis keepdims", "var": "axis ddof keepdims", "std": "axis ddof keepdims",
               "max": "axis keepdims", "min": "axis keepdims", "any": "axis keepdims", "all": "axis keepdims", "argmax": "axis", "argmin": "axis",
               "cumsum": "axis", "cumprod": "axis", "squeeze": "axis", "swapaxes": "*axis1 *axis2", "round": "decimals", "clip": "min max",
               "repeat": "*repeats axis", "trace": "offset axis1 axis2", "diagonal": "offset axis1 axis2", "reshape": "*shape", "transpose": "axes",
               "ravel": "", "flatten": "", "conj": "", "copy": "", "tolist": "", "item": "", "dot": "*b"}
    for name, parameters in methods.items():
        made[name] = (method(name, parameters, rnp.asarray), method(name, parameters, np.asarray))
    two = ("add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le gt ge eq ne").split()
    for name in two:
        f = getattr(operator, name)
        made[name] = (lambda x1, x2, f=f: f(rnp.asarray(x1), x2), lambda x1, x2, f=f: f(np.asarray(x1), x2))
        made["r" + name] = (lambda x1, x2, f=f: f(x1, rnp.asarray(x2)), lambda x1, x2, f=f: f(x1, np.asarray(x2)))
    for f in (operator.neg, operator.pos, operator.invert, operator.abs, float, int, bool, complex, len, list):
        made[f.__name__] = (lambda x1, f=f: f(rnp.asarray(x1)), lambda x1, f=f: f(np.asarray(x1)))
    made["rdivmod"] = (lambda x1, x2: divmod(x1, rnp.asarray(x2)), lambda x1, x2: divmod(x1, np.asarray(x2)))
    made["divmod"] = (lambda x1, x2: divmod(rnp.asarray(x1), x2), lambda x1, x2: divmod(np.asarray(x1), x2))
    return made


def method(name, parameters, asarray):
    """A method of an array as a function of it; a parameter with a star is needed."""
    def call(x1, *given, **keywords):
        return getattr(asarray(x1), name)(*given, **keywords)
    of = [inspect.Parameter("x1", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    of += [inspect.Parameter(p.strip("*"), inspect.Parameter.POSITIONAL_OR_KEYWORD, default=inspect.Parameter.empty if p[0] == "*" else None)
           for p in parameters.split()]
    call.__signature__ = inspect.Signature(of)
    call.by_keyword_alone = True
    return call


def of_indices(asarray, at):
    """x[index] and x.at[index].set(values) and its like; `at` gives the updated array."""
    def update(how):
        return lambda array, place, values: at(array, place, values, how)
    return {"getitem": lambda array, index: asarray(array)[index], **{how: update(how) for how in UPDATES}}


UPDATES = {"set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "min": np.minimum, "max": np.maximum}


def updated_by_numpy(array, place, values, how):
    y = np.array(array)
    if how == "set":
        y[place] = values
    else:
        UPDATES[how].at(y, place, np.broadcast_to(values, y[place].shape))  # which it must have: NumPy 2.4 ends the process with more dims
    return y


def indexed(calls):
    """An array, and an index of it: both are kept, for the one is drawn by the other's shape."""
    calls.indexed = calls.array("ffib")
    return calls.indexed


INDEXED = {"array": indexed, "index": lambda c: c.index_of(np.shape(c.indexed)), "place": lambda c: c.index_of(np.shape(c.indexed), True),
           "values": lambda c: c.one_of(2.0, 3, 2, np.float32(1.5), -1.0, np.int32(4), c.array("fi"), [1.0, 2.0], 1j)}
LINALG = {"a": Calls.matrix, "b": Calls.right_side, "arrays": Calls.chain, "n": lambda c: c.one_of(0, 1, 2, 3, -1, -2, 5, 1.5)}
# SciPy's softmax subtracts bytes, and takes True for an axis in some of its functions.
SPECIAL = {"x": lambda c: c.array("fffi") if c.often(0.8) else c.one_of(2, 0.5, [1.0, 2.0, 3.0], 1j), "a": lambda c: np.abs(c.array("ff")) + 3, "d": lambda c: c.one_of(1, 2, 3, 5, 0, -1, 1.5),
           "axis": lambda c: c.one_of(None, 0, 1, -1, (0, 1), 2), "n": lambda c: c.one_of(0, 1, 2, 3, np.array([0, 2]), -1, 1.5)}
FFT = {"a": lambda c: c.array("fffic"), "n": lambda c: c.one_of(None, 1, 2, 3, 5, 8, 0, -1, 1.5), "d": lambda c: c.one_of(1.0, 0.5, 2, -1.0, 0.1)}
LIKEWISE = {p: Calls.likewise for p in ("x", "y", "lhs", "rhs", "operand", "min", "max", "on_true", "on_false", "update", "count", "a", "q", "s")}
EXTENTS = lambda c: c.one_of((2,), (1, 2), (2, 1), (1,), (3, 1), (), (2, -1), (0,), (1, 1, 1), 2)
LAX = {**LIKEWISE, "k": lambda c: c.one_of(0, 1, 2, 3, -1, 9), "pred": lambda c: c.one_of(True, np.bool_(False), c.draw.random(c.common_shape) < 0.5, c.array("b")),
       "start_indices": lambda c: tuple(int(i) for i in c.draw.integers(-4, 5, len(c.common_shape))), "slice_sizes": EXTENTS,
       "dimension": lambda c: c.one_of(0, 1, -1, 2), "operands": lambda c: [c.likewise() for _ in range(c.draw.integers(1, 4))],
       "dimensions": lambda c: c.one_of((0,), (1,), (0, 2), (-1,), (), (5,), 0), "condition": lambda c: c.draw.random(c.common_shape) < 0.5}
NN = {"x": lambda c: c.one_of(c.array("fffi"), c.array("fffi"), c.array("fffib"), 2.0), "alpha": lambda c: c.one_of(1.0, 0.5, 2, -1.0),
      "negative_slope": lambda c: c.one_of(0.01, 0.5, -1.0, 0), "axis": lambda c: c.one_of(0, -1, 1, (0, 1), None, 5, -3)}
RANDOM = {"key": lambda c: np.array([0, int(c.draw.integers(100))], np.uint32), "shape": lambda c: c.one_of((), (3,), (2, 3), (0,), 3, (-1,), (2.5,), [2, 2], None),
          "minval": lambda c: c.one_of(0, -3, 5, 2.5, np.array([0, 1])), "maxval": lambda c: c.one_of(1, 10, 4, 0, np.array([3, 4])),
          "p": lambda c: c.one_of(0.5, 0.0, 1.0, 0.1, np.array([0.2, 0.9], np.float32)), "lower": lambda c: c.one_of(-1.0, 0.0, 2.0), "num": lambda c: c.one_of(1, 2, 5, 0, -1, (2, 2)),
          "upper": lambda c: c.one_of(1.0, 3.0, -2.0), "logits": lambda c: c.array("f").astype(np.float32), "data": lambda c: c.one_of(0, 7, 2**31, -1, 1.5), "x": lambda c: c.one_of(5, 0, 1, c.array("fi"), -1), "dtype": lambda c: c.one_of(None, "float32", np.float32, "int32", np.uint32, "nothing")}


def families():
    """The whole namespace: first what NumPy and SciPy judge, then what JAX does."""
    of_linalg = of_modules(rlx.linalg, np.linalg)
    of_linalg |= {n: (getattr(rlx.linalg, n), getattr(scipy.linalg, n)) for n in ("solve_triangular", "expm")}
    arrays = of_arrays()
    one = of_indices(rnp.asarray, lambda array, place, values, how: getattr(rnp.asarray(array).at[place], how)(values))
    other = of_indices(np.asarray, updated_by_numpy)
    main = [Family("numpy", "NumPy", of_modules(rnp, np, functions_of("JAX", "nobody")))]
    rest = [Family("linalg", "NumPy and SciPy", of_linalg, LINALG), Family("fft", "NumPy", of_modules(rlx.fft, np.fft), FFT),
            Family("special", "SciPy", of_modules(rlx.special, scipy.special, {"multigammaln", "expit"}), SPECIAL), Family("array", "NumPy", arrays),
            Family("index", "NumPy", {n: (one[n], other[n]) for n in one}, INDEXED)]
    if jax is None:
        return main, rest, [], []
    theirs = [Family("numpy", "JAX", of_modules(rnp, jnp, set(dir(rnp)) - functions_of("JAX")))]
    lax = {n: (getattr(rlx.ops, n), getattr(jax.lax, n, None) or getattr(jax.nn, n)) for n in ONE_ARRAY + TWO_ARRAYS}
    lax |= {n: (getattr(rlx.ops, n), f) for n, f in WITH_ATTRIBUTES(jax.lax).items()}
    by_jax = of_indices(jnp.asarray, lambda array, place, values, how: getattr(jnp.asarray(array).at[place], how)(values))
    return main, rest, theirs, [
        Family("special", "JAX", {n: (getattr(rlx.special, n), getattr(jax.scipy.special, n)) for n in ("multigammaln", "expit")}, SPECIAL), Family("nn", "JAX", of_modules(rlx.nn, jax.nn), NN), Family("lax", "JAX", of_modules(rlx.lax, jax.lax, CONTROL_FLOW), LAX),
        Family("ops", "JAX", lax, {**LAX, "dims": EXTENTS, "sizes": EXTENTS, "axis": lambda c: c.one_of(0, 1, -1, 2)}),
        Family("random", "JAX", {n: (with_threefry(getattr(rlx.random, n)), in_32_bits(getattr(jax.random, n))) for n in RANDOM_NAMES}, RANDOM),
        Family("index", "JAX", {n: (one[n], by_jax[n]) for n in one if n != "getitem"}, INDEXED)]


CONTROL_FLOW = {"associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop", "stop_gradient", "dtype"}
RANDOM_NAMES = ("split", "fold_in", "bits", "uniform", "normal", "truncated_normal", "randint", "bernoulli", "categorical", "permutation")
ONE_ARRAY = ("abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil cos cosh digamma erf erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg "
             "real reciprocal relu relu6 rsqrt selu sign silu sin sinh softplus sqrt square tan tanh log_sigmoid mish hard_swish").split()
TWO_ARRAYS = "add atan2 bitwise_and bitwise_or bitwise_xor complex div igamma igammac mul pow rem sub zeta shift_left shift_right_arithmetic shift_right_logical".split()


def WITH_ATTRIBUTES(lax):
    """JAX's functions with our parameters, which stand in its order."""
    return {"argmax": lambda x, axis: lax.argmax(x, axis, np.int32), "argmin": lambda x, axis: lax.argmin(x, axis, np.int32),
            "cumsum": lambda x, axis, reverse: lax.cumsum(x, axis, reverse), "cumprod": lambda x, axis, reverse: lax.cumprod(x, axis, reverse),
            "cummax": lambda x, axis, reverse: lax.cummax(x, axis, reverse), "top_k": lambda x, k: lax.top_k(x, k), "sort_values": lambda x, axis: lax.sort(x, axis),
            "softmax": lambda x, axis: jax.nn.softmax(x, axis), "log_softmax": lambda x, axis: jax.nn.log_softmax(x, axis), "glu": lambda x, axis: jax.nn.glu(x, axis),
            "reshape": lambda x, dims: lax.reshape(x, dims), "transpose": lambda x, axes: lax.transpose(x, axes), "split": lambda x, sizes, axis: lax.split(x, sizes, axis),
            "tile": lambda x, reps: lax.tile(x, reps), "select": lambda condition, on_true, on_false: lax.select(condition, on_true, on_false),
            "slice": lambda x, starts, limits, strides: lax.slice(x, starts, limits, strides), "one_hot": lambda x, num_classes: jax.nn.one_hot(x, num_classes),
            "broadcast_in_dim": lambda x, dims, axes: lax.broadcast_in_dim(x, dims, axes)}


def in_32_bits(f):
    """JAX's function with its usual defaults, float32 and int32."""
    @functools.wraps(f)
    def call(*args, **keywords):
        with jax.enable_x64(False):
            return f(*args, **keywords)
    return call


def with_threefry(f):
    """JAX's generator, whose numbers are then its own."""
    if "algorithm" not in inspect.signature(f).parameters:
        return f
    def call(*args, **keywords):
        return f(*args, **keywords, algorithm="threefry")
    parameters = [p for p in inspect.signature(f).parameters.values() if p.name != "algorithm"]
    call.__signature__ = inspect.Signature(parameters)
    return call


def parameters(ours, theirs):
    """What a call needs, what it may have by keyword, and what by position behind the needed ones, in the other's order."""
    if isinstance(theirs, np.ufunc):
        return [f"x{i}" for i in range(theirs.nin)], [], []
    if getattr(theirs, "__name__", "") == "<lambda>":  # written here, with our parameters: all are needed
        return list(inspect.signature(theirs).parameters), [], []
    try:
        known = inspect.signature(theirs).parameters
    except ValueError:
        known = {}
    own = inspect.signature(ours).parameters
    positional = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    needed = [p.name for p in own.values() if p.kind in positional and p.default is p.empty]
    if any(p.kind == p.VAR_POSITIONAL for p in own.values()):
        needed += ["x", "x"]
    extra = [p for p in own if p in known and p not in needed and p not in SKIPPED and known[p].default is not inspect.Parameter.empty]
    behind = []
    for p in list(known.values())[len(needed):]:
        if p.kind not in positional or getattr(ours, "by_keyword_alone", False):
            break
        behind.append(p)
    return needed, extra, behind


def by_position(calls, behind, makers):
    """Values for the first few of them."""
    made = []
    for p in behind[:calls.draw.integers(1, len(behind) + 1)]:
        value = calls.argument(p.name, makers) if p.name not in SKIPPED else p.default
        if value is not None and type(value).__name__ in ("_NoValueType", "_NoValue"):
            break
        made.append(value)
    return made


def outcome(f, args, keywords):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(*args, **keywords), None
        except Exception as error:  # whatever a user would see
            return None, error


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [np.asarray(value)]


def difference(got, wanted):
    """What is different, in a few words; empty if nothing is. Floats are compared as f32 sums: NumPy may have computed in f64."""
    got, wanted = leaves(got), leaves(wanted)
    if len(got) != len(wanted):
        return f"{len(got)} results for {len(wanted)}"
    for g, w in zip(got, wanted):
        if g.shape != w.shape:
            return f"shape {g.shape} for {w.shape}"
        if w.dtype.kind not in "biufc":
            return f"dtype {w.dtype} of NumPy"
        wide = np.complex128 if "c" in (g.dtype.kind, w.dtype.kind) else np.float64
        if g.dtype.kind == "f" and w.dtype.kind == "f":  # what NumPy computed in f64 may be beyond our dtype
            w = np.where(np.abs(w) > np.finfo(g.dtype).max, np.copysign(np.inf, w), w)
        if g.dtype.kind == w.dtype.kind == "i":  # what an index out of range reads: the least number of the dtype, which may be a narrower one
            w = np.where(w == np.iinfo(w.dtype).min, np.iinfo(g.dtype).min, w)
        with np.errstate(all="ignore"):
            if not np.allclose(g.astype(wide), w.astype(wide), rtol=2e-3, atol=2e-3, equal_nan=True):
                return f"values {g.reshape(-1)[:4]} for {w.reshape(-1)[:4]}"
    return ""


def shown(x):
    return f"{x.dtype}{list(x.shape)}:{x.reshape(-1)[:4].tolist()}" if isinstance(x, np.ndarray) else repr(x)


REFUSALS = (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, NotImplementedError, MemoryError)


def verdict(family, name, args, keywords):
    """A word for the tally, and what is silently different, if anything is."""
    ours, theirs = family.functions[name]
    wanted, their_error = outcome(theirs, args, keywords)
    got, our_error = outcome(ours, args, keywords)
    if our_error is not None and not isinstance(our_error, REFUSALS) and type(our_error).__module__.split(".")[0] != "rlx":
        return "silently different", f"fails inside: {type(our_error).__name__}: {str(our_error)[:80]}"
    if our_error is not None:
        return "both raise" if their_error is not None else "refused here alone", ""
    if their_error is not None and family.judge == "JAX":
        return "refused there alone", ""
    if isinstance(their_error, ZeroDivisionError) and all(np.all(np.isnan(x)) for x in leaves(got)):
        return "divided by zero, NaN as in JAX", ""
    if isinstance(their_error, np.linalg.LinAlgError) and any(not np.all(np.isfinite(x)) for x in leaves(got)):
        return "no such matrix, NaN or infinite as in JAX", ""
    if name == "lstsq" and isinstance(their_error, np.linalg.LinAlgError) and np.ndim(args[0]) > 2:
        return "of stacks of matrices, which NumPy's lstsq does not take", ""
    if isinstance(their_error, IndexError) and "out of bounds" in str(their_error) and family.name == "index":
        return "an index out of range, read as NaN and not updated", ""
    if their_error is not None:
        return "silently different", f"{family.judge} raises {type(their_error).__name__}: {str(their_error)[:70]}"
    compared = COMPARED.get(f"{family.name}.{name}", lambda r: r)
    kind = difference(compared(got), compared(wanted))
    return ("silently different", kind) if kind else ("the same", "")


def run(families, count, seed, only=()):
    """As many calls, the families and their names in turn."""
    calls, tally, reasons, findings = Calls(seed), collections.Counter(), collections.Counter(), collections.defaultdict(list)
    each = [[(f, n) for n in f.functions if not only or n in only] for f in families]
    each = [names for names in each if names]
    for i in range(count if each else 0):
        names = each[i % len(each)]
        family, name = names[i // len(each) % len(names)]
        calls.begin()
        needed, extra, behind = parameters(*family.functions[name])
        args = [calls.argument(p, family.makers) for p in needed]
        keywords = {}
        if behind and calls.often(0.2):
            args += by_position(calls, behind, family.makers)
        else:
            keywords = {p: calls.argument(p, family.makers) for p in extra if calls.often(0.4)}
        if name in ("concatenate", "concat"):
            keywords.pop("dtype", None)  # NumPy's has a rule of its own for which casts are allowed
        why = why_accepted(family, name, args, keywords)
        if why:
            tally["accepted"] += 1
            reasons[why] += 1
            continue
        word, kind = verdict(family, name, args, keywords)
        tally[word] += 1
        if kind:
            findings[f"{family.name}.{name}"].append((f"{family.name}.{name}({', '.join([shown(a) for a in args] + [f'{k}={shown(v)}' for k, v in keywords.items()])})", kind))
    return tally, findings, reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", help="one of them alone: numpy, linalg, fft, special, array, index; beside JAX numpy, nn, lax, ops, random, index")
    parser.add_argument("--accepted", action="store_true", help="print also which differences were accepted, and how often")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    is_wrong = False
    for parts, label in zip(((0, 1), (2, 3)), (f"seed {given.seed}", f"beside JAX {jax.__version__}" if jax else "")):
        made = families()
        chosen = [[f for f in made[p] if given.family in (None, f.name)] for p in parts]
        if not label:
            print("JAX is not installed: functions that have its contract were called beside nothing")
            break
        tally, accepted = collections.Counter(), collections.Counter()
        for part in chosen:
            share = given.calls if given.family else given.calls // 2
            counted, findings, reasons = run(part, share, given.seed, given.names)
            tally, accepted = tally + counted, accepted + reasons
            is_wrong |= bool(findings)
            for name, found in sorted(findings.items()):
                for call, kind in found[:4]:
                    print(f"{call}\n    {kind}")
        print(f"{label}: {sum(tally.values())} calls, " + ", ".join(f"{n} {what}" for what, n in sorted(tally.items())))
        for why, n in accepted.most_common() if given.accepted else ():
            print(f"    {n} accepted: {why}")
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
