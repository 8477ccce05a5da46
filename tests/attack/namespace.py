#!/usr/bin/env python3
"""Random calls of rlx.numpy, with odd and wrong arguments, beside NumPy: either both raise, or the values agree. What RLX
refuses and NumPy takes is counted, not judged: it is no silent surprise.

Where JAX is installed, functions that have its contract and not NumPy's are called beside it, as many times again; what JAX
refuses and RLX takes is counted, for JAX takes no lists. The last line says whether it was there.

    tests/attack/namespace.py --calls 2000 --seed 1
"""

import argparse
import collections
import inspect
import pathlib
import sys
import warnings

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

import rlx.numpy as rnp  # noqa: E402

try:
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = jnp = None

# Functions whose results are no values of their arguments, or which NumPy has under another contract (JAX's, or the array
# API's, which the documentation of the function names).
LEFT_OUT = {
    "finfo": "describes a dtype", "iinfo": "describes a dtype",
    "empty": "its elements are undefined in NumPy", "ndarray": "a type", "from_dlpack": "takes no arrays of NumPy's lists",
    "bool_": "a type", "int8": "a type", "int16": "a type", "int32": "a type", "int64": "a type", "uint8": "a type", "uint16": "a type",
    "uint32": "a type", "uint64": "a type", "float16": "a type", "float32": "a type", "float64": "a type", "complex64": "a type",
    "complex128": "a type", "nextafter": "the neighbour of an f32 is not that of an f64", "astype": "also of lists and numbers",
    "clip": "also without bounds of bools", "positive": "also of bools", "sinc": "at infinity it is 0, its limit",
    "average": "of weights whose sum is 0 it is NaN, as in JAX", "mean": "floats saturate when they become integers",
    "argsort": "of equals NumPy's default order is any", "arange": "of an array with one element NumPy's depends on its version",
    "round": "also of bools", "digitize": "among what is not sorted it is any place", "cumprod": "floats saturate when they become integers",
    "cumsum": "likewise", "broadcast_to": "True is no integer for NumPy", "split": "also of lists", "square": "integers are int32", "quantile": "of nothing it is NaN, as the mean",
    "percentile": "likewise", "nanquantile": "likewise", "full": "floats saturate when they become integers", "full_like": "likewise", "searchsorted": "in what is not sorted it is any place", "reciprocal": "of integers is a float, as in JAX", "broadcast_shapes": "NumPy takes arrays for shapes", "take": "an index out of range is NaN, as in JAX",
    "take_along_axis": "likewise; also of lists", "unravel_index": "what is out of range becomes the nearest in range, as in JAX",
}
# Of those, what is no matter of values, has no contract in JAX either, or another one on purpose: in JAX sinc is NaN at infinity, floats and the
# bounds of clip wrap around in an integer dtype, percentiles beside an infinity are NaN, integers are int64 when it has
# those, and running sums of bytes and of float16 wrap and round as they go.
NOT_JAX = {"empty", "ndarray", "from_dlpack", "astype", "finfo", "iinfo", "nextafter", "argsort", "digitize", "searchsorted", "arange",
           "sinc", "clip", "square", "percentile", "quantile", "nanquantile", "full", "full_like", "cumsum",
           "cumprod"}
AXES = ("axis", "axes", "axis1", "axis2", "source", "destination", "axisa", "axisb", "axisc")


class Calls:
    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)

    def one_of(self, *choices):
        return choices[self.draw.integers(len(choices))]

    def shape(self):
        return self.one_of((), (1,), (3,), (4,), (0,), (2, 3), (3, 2), (3, 3), (3, 1), (1, 3), (2, 0), (2, 2, 3), (2, 3, 4))

    def array(self, kinds="fiub"):
        shape, kind = self.shape(), self.one_of(*kinds)
        if kind == "f":
            a = (self.draw.normal(size=shape) * self.one_of(1, 1, 3, 100)).astype(self.one_of(np.float32, np.float64))
            if a.size and self.draw.random() < 0.2:
                a.reshape(-1)[self.draw.integers(a.size)] = self.one_of(np.nan, np.inf, -np.inf, -0.0, 1e30)
            return a
        if kind == "c":
            return (self.draw.normal(size=shape) + 1j * self.draw.normal(size=shape)).astype(np.complex64)
        if kind == "b":
            return self.draw.random(shape) < 0.5
        if kind == "u":
            return self.draw.integers(0, 6, shape).astype(self.one_of(np.uint8, np.uint32))
        return self.draw.integers(-5, 6, shape).astype(self.one_of(np.int32, np.int64))

    def argument(self, name):
        """An argument for a parameter of that name: mostly one that fits, sometimes one that does not."""
        odd = self.draw.random() < 0.15
        if odd and name not in AXES:
            return self.one_of(None, "x", 1.5, -7, (), [], True, np.nan, np.array([True, False]), (0, 0), [[1], [1, 2]], 2**20,
                               np.float32(2), {"a": 1}, slice(1))
        if name in AXES:
            return self.one_of(None, 0, 1, -1, 2, -3, (0, 1), (0, -1), (), np.int64(0), 1.5, True)
        if name in ("keepdims", "full_matrices", "endpoint", "retstep", "equal_nan", "density", "right", "return_index", "sparse"):
            return self.one_of(True, False)
        if name in ("shape", "newshape", "reps", "repeats", "shift", "pad_width", "dims"):
            return self.one_of((2, 3), (3,), 2, -1, (-1, 2), (0,), (), (6,), 3, (1, 1), ((1, 1), (0, 2)), np.array([1, 2, 0]))
        if name in ("n", "N", "M", "k", "num", "decimals", "offset", "bins", "minlength", "ddof", "indices_or_sections", "deg"):
            return self.one_of(0, 1, 2, 3, -1, 5)
        if name in ("q",):
            return self.one_of(0.5, 0, 1, 0.25, -0.1, 1.5, [0.1, 0.9])
        if name in ("indices", "ind"):
            return self.one_of(0, -1, 2, 7, [0, 1], np.array([[0, 1], [1, 0]]), np.array([-1, 5]))
        if name in ("arrays", "tup", "seq"):
            return [self.array("f") for _ in range(self.draw.integers(0, 4))]
        if name in ("mode", "method", "kind", "side"):
            return self.one_of("constant", "edge", "wrap", "clip", "raise", "left", "right", "linear", "lower", "reflect", "nothing")
        if name == "dtype":
            return self.one_of(None, "float32", np.float64, "float16", "nothing")  # floats saturate here when they become integers
        if name in ("condition", "where", "weights"):
            return self.one_of(self.array("b"), self.array("f"))
        return self.one_of(self.array("fffiub"), self.array("fffiub"), self.array("fffiub"), self.array("c"), 2, 0.5, -1, [1.0, 2.0, 3.0], [[1, 2], [3, 4]])


SKIPPED = {"x", "y", "out", "order", "like", "subok", "casting", "signature", "copy", "device", "initial", "extobj", "optimize", "overwrite_input",
           "interpolation", "max_line_width", "stable", "period"}


def parameters(name):
    """The parameters of RLX's function that NumPy's has too; what of NumPy's comes first and has no default is needed."""
    theirs, ours = getattr(np, name), inspect.signature(getattr(rnp, name))
    if isinstance(theirs, np.ufunc):
        return [f"x{i}" for i in range(theirs.nin)], []
    try:
        known = inspect.signature(theirs).parameters
    except ValueError:
        known = {}
    needed = [p.name for p in ours.parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    if any(p.kind == p.VAR_POSITIONAL for p in ours.parameters.values()):
        needed += ["x", "x"]
    extra = [p for p in ours.parameters if p in known and p not in needed and p not in SKIPPED and known[p].default is not inspect.Parameter.empty]
    return needed, extra


def is_undefined(name, args):
    """Integers divided by zero: NumPy warns and says 0."""
    if name not in ("floor_divide", "remainder", "mod", "fmod", "divide", "true_divide", "gcd", "lcm", "left_shift", "right_shift"):
        return False
    try:
        return not np.all(np.asarray(args[1])) or "shift" in name and (np.any(np.asarray(args[1]) < 0) or np.any(np.asarray(args[1]) > 7))
    except (TypeError, ValueError):
        return False


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


def run(count, seed, only=None, judge=np):
    """The calls beside `judge`: NumPy, or jax.numpy for the functions that are left out of NumPy's."""
    calls, tally, findings = Calls(seed), collections.Counter(), collections.defaultdict(list)
    is_numpy = judge is np
    taken = (lambda n: n not in LEFT_OUT) if is_numpy else (lambda n: n in LEFT_OUT and LEFT_OUT[n] != "a type" and n not in NOT_JAX)
    names = sorted(n for n in dir(rnp) if not n.startswith("_") and taken(n) and callable(getattr(rnp, n)) and callable(getattr(judge, n, None))
                   and hasattr(np, n))
    if only:
        names = [n for n in only if n in names] if not is_numpy else only
    for i in range(count if names else 0):
        name = names[i % len(names)]
        needed, extra = parameters(name)
        args = [calls.argument(p) for p in needed]
        keywords = {p: calls.argument(p) for p in extra if calls.draw.random() < 0.4}
        if name in ("concatenate", "concat"):
            keywords.pop("dtype", None)  # NumPy's has a rule of its own for which casts are allowed
        if name == "pad" and not getattr(args[0], "shape", ()) or name == "diff" and isinstance(keywords.get("n"), int) and keywords["n"] == 0:
            continue  # of a list NumPy gives the list; of rank 0 its widths mean nothing
        if not is_numpy and name == "take_along_axis" and not getattr(args[0], "size", 1):
            continue  # out of nothing JAX takes 0
        if is_undefined(name, args):
            tally["undefined"] += 1
            continue
        wanted, their_error = outcome(getattr(judge, name), args, keywords)
        got, our_error = outcome(getattr(rnp, name), args, keywords)
        if our_error is not None and not isinstance(our_error, (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, NotImplementedError, MemoryError)) \
                and type(our_error).__module__.split(".")[0] != "rlx":
            kind = f"fails inside: {type(our_error).__name__}: {str(our_error)[:80]}"
        elif our_error is not None:
            tally["both raise" if their_error is not None else "refused here alone"] += 1
            continue
        elif their_error is not None and not is_numpy:
            tally["refused there alone"] += 1
            continue
        elif isinstance(their_error, ZeroDivisionError) and all(np.all(np.isnan(x)) for x in leaves(got)):
            tally["divided by zero, NaN as in JAX"] += 1
            continue
        elif their_error is not None:
            kind = f"NumPy raises {type(their_error).__name__}: {str(their_error)[:70]}"
        else:
            kind = difference(got, wanted)
            if not kind:
                tally["the same"] += 1
                continue
        tally["silently different"] += 1
        findings[name].append((f"{name}({', '.join([shown(a) for a in args] + [f'{k}={shown(v)}' for k, v in keywords.items()])})", kind))
    return tally, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    tally, findings = run(given.calls, given.seed, given.names)
    for name, found in sorted(findings.items()):
        for call, kind in found[:4]:
            print(f"{call}\n    {kind}")
    print(f"seed {given.seed}: {given.calls} calls, " + ", ".join(f"{n} {what}" for what, n in sorted(tally.items())))
    if jax is None:
        print("JAX is not installed: functions that have its contract were called beside nothing")
        return 1 if findings else 0
    tally, theirs = run(given.calls, given.seed, given.names, jnp)
    for name, found in sorted(theirs.items()):
        for call, kind in found[:4]:
            print(f"{call}\n    {kind.replace('NumPy', 'JAX')}")
    print(f"beside JAX {jax.__version__}: " + ", ".join(f"{n} {what}" for what, n in sorted(tally.items())))
    return 1 if findings or theirs else 0


if __name__ == "__main__":
    sys.exit(main())
