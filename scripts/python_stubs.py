#!/usr/bin/env python3
"""Writes the type stubs of the package's modules of functions (rlx.numpy, nn, linalg, fft, special, random) from the
functions themselves: their parameters and defaults, and the types that the names of parameters have throughout the package.
The stubs of the ops come from the op table (scripts/python_ops.py); those of the rest are written by hand.

    RLX_LIBRARY=build/release/lib/librlx_c.so .deps/venv/bin/python scripts/python_stubs.py            # writes them
    RLX_LIBRARY=build/release/lib/librlx_c.so .deps/venv/bin/python scripts/python_stubs.py --check    # fails if they differ
"""

import importlib
import inspect
import pathlib
import re
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "bindings/python/rlx"
sys.path.insert(0, str(PACKAGE.parent))

MODULES = {"numpy": "numpy/__init__.pyi", "nn": "nn.pyi", "linalg": "linalg.pyi", "fft": "fft.pyi", "special": "special.pyi",
           "random": "random.pyi"}

# By the name of the parameter; "function.parameter" goes before. What is not here is an operand: ArrayLike.
TYPES = {
    "axis": "Axes", "axes": "Axes", "keepdims": "bool", "dtype": "DTypeLike | None", "shape": "Shape", "ddof": "float",
    "decimals": "int", "k": "int", "n": "int", "m": "int | None", "num": "int", "endpoint": "bool", "offset": "int", "axis1": "int",
    "axis2": "int", "reps": "int | Sequence[int]", "repeats": "int | Sequence[int]", "mode": "str | None", "side": 'Literal["left", "right"]',
    "method": 'Literal["linear", "lower", "higher", "midpoint", "nearest"]', "indexing": 'Literal["xy", "ij"]',
    "norm": 'Literal["backward", "ortho", "forward"] | None', "rtol": "float", "atol": "float", "equal_nan": "bool",
    "descending": "bool", "stable": "bool", "size": "int | None", "length": "int | None", "minlength": "int", "density": "bool",
    "return_index": "bool", "return_inverse": "bool", "return_counts": "bool", "rowvar": "bool", "bias": "bool", "invert": "bool",
    "deg": "bool", "right": "bool", "upper": "bool", "lower": "bool", "unit_diagonal": "bool", "full_matrices": "bool",
    "compute_uv": "bool", "hermitian": "bool", "UPLO": 'Literal["L", "U"]', "rcond": "float | None", "tol": "ArrayLike | None",
    "approximate": "bool", "negative_slope": "float", "alpha": "float", "num_classes": "int", "epsilon": "float", "eps": "float | None", "d": "int",
    "arrays": "Sequence[ArrayLike]", "subscripts": "str", "pad_width": "int | Sequence[Any]", "copy": "bool | None", "device": "str | None",
    "base": "float", "bins": "int | ArrayLike", "range": "Any", "ord": "Any", "indices_or_sections": "int | Sequence[int]",
    "source": "int | Sequence[int]", "destination": "int | Sequence[int]", "shift": "int | Sequence[int]", "s": "Sequence[int] | None",
    "ind": "int", "trans": 'Literal[0, 1, 2, "N", "T", "C"]', "seed": "int", "weights": "ArrayLike | None", "y": "ArrayLike",
    "algorithm": 'Literal["philox", "threefry", "threefry_original"]', "fweights": "ArrayLike | None", "aweights": "ArrayLike | None",
    "fill_value": "Any", "posinf": "float | None", "neginf": "float | None", "nan": "float", "min": "ArrayLike | None",
    "max": "ArrayLike | None", "minval": "float", "maxval": "float", "training": "bool", "momentum": "float", "rate": "float",
    "batch_norm.axis": "int", "cross_entropy.axis": "int", "smooth_labels.axis": "int", "ignore_index": "int", "label_smoothing": "float",
    "smoothing": "float", "delta": "float", "log_target": "bool", "reduction": 'Literal["none", "mean", "sum", "batch_mean"]',
    "cross_entropy.reduction": 'Literal["none", "mean", "sum"]',
    "expand_dims.axis": "int | Sequence[int]", "transpose.axes": "Sequence[int] | None", "rot90.axes": "Sequence[int]",
    "argmax.axis": "Axis", "argmin.axis": "Axis", "cumsum.axis": "Axis", "cumprod.axis": "Axis", "sort.axis": "Axis",
    "argsort.axis": "Axis", "take.axis": "Axis", "take_along_axis.axis": "Axis", "repeat.axis": "Axis", "concatenate.axis": "Axis",
    "stack.axis": "int", "split.axis": "int", "array_split.axis": "int", "cross.axis": "int", "diff.axis": "int", "glu.axis": "int",
    "one_hot.axis": "int", "unique.axis": "Axis", "fft.axis": "int", "ifft.axis": "int", "rfft.axis": "int", "irfft.axis": "int",
    "hfft.axis": "int", "ihfft.axis": "int", "tensordot.axes": "int | tuple[int | Sequence[int], int | Sequence[int]]",
    "tensorsolve.axes": "Sequence[int] | None", "fft.n": "int | None", "ifft.n": "int | None", "rfft.n": "int | None",
    "irfft.n": "int | None", "hfft.n": "int | None", "ihfft.n": "int | None", "fftfreq.d": "float", "rfftfreq.d": "float",
    "polygamma.n": "ArrayLike", "vstack.xs": "Sequence[ArrayLike]", "hstack.xs": "Sequence[ArrayLike]", "dstack.xs": "Sequence[ArrayLike]",
    "column_stack.xs": "Sequence[ArrayLike]", "reshape.rest": "Dim", "eye.m": "int | None", "cov.ddof": "int | None",
    "cov.y": "ArrayLike | None", "corrcoef.y": "ArrayLike | None", "pad.mode": 'Literal["constant", "edge", "reflect", "symmetric", "wrap"]',
    "where.x": "ArrayLike | None", "where.y": "ArrayLike | None", "qr.mode": 'Literal["reduced", "complete", "r"]',
    "take.mode": 'Literal["fill", "clip", "wrap"] | None', "histogramdd.bins": "int | Sequence[int | ArrayLike]",
    "histogramdd.sample": "ArrayLike", "split.key": "ArrayLike", "split.num": "Shape", "randint.minval": "int", "randint.maxval": "int",
    "truncated_normal.lower": "float", "truncated_normal.upper": "float", "bernoulli.shape": "Shape | None", "permutation.x": "ArrayLike",
    "arange.start": "Any", "arange.stop": "Any", "arange.step": "Any", "broadcast_shapes.shapes": "Sequence[Dim]",
    "zeros_like.shape": "Shape | None", "ones_like.shape": "Shape | None", "full_like.shape": "Shape | None",
    "astype.dtype": "DTypeLike", "unravel_index.shape": "int | Sequence[int]", "matrix_power.n": "int", "logspace.start": "float",
    "logspace.stop": "float", "fftshift.axes": "Axes", "arange.dtype": "DTypeLike | None", "norm.ord": "Any", "sort.kind": "str | None", "argsort.kind": "str | None", "sort.order": "None", "argsort.order": "None", "out": "None",
    "assume_unique": "bool", "axisa": "int", "axisb": "int", "axisc": "int", "nan_to_num.copy": "Literal[True]",
}
ARRAYS = "list[Array]"
PAIR, TRIPLE, MANY = "tuple[Array, Array]", "tuple[Array, Array, Array]", "tuple[Array, ...]"
RESULTS = {
    "split": ARRAYS, "array_split": ARRAYS, "meshgrid": ARRAYS, "broadcast_arrays": ARRAYS, "frexp": PAIR, "histogram": PAIR,
    "histogramdd": "tuple[Array, list[Array]]", "nonzero": MANY, "tril_indices": MANY, "triu_indices": MANY, "unravel_index": MANY,
    "unique": "Any", "gradient": "Any", "atleast_1d": "Any", "atleast_2d": "Any", "atleast_3d": "Any", "broadcast_shapes": "tuple[Dim, ...]",
    "qr": "Any", "svd": "Any", "eigh": PAIR, "eig": PAIR, "lu": TRIPLE, "slogdet": PAIR, "random.split": "Array",
    "batch_norm": TRIPLE, "lstsq": "tuple[Array, Array, Array, Array]",
}


def annotated(module, name, parameter):
    kind = TYPES.get(f"{name}.{parameter.name}", TYPES.get(parameter.name, "ArrayLike"))
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}: {kind}"
    if parameter.default is parameter.empty:
        return f"{parameter.name}: {kind}"
    if parameter.default is None and "None" not in kind and kind not in ("Any", "Axes", "Axis"):
        kind += " | None"
    return f"{parameter.name}: {kind} = ..."


def stub(module, name, function):
    parameters, keyword_only = [], False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(q.startswith("*") for q in parameters):
                parameters.append("*")
        parameters.append(annotated(module, function.__name__, p))
    result = RESULTS.get(f"{module}.{name}", RESULTS.get(name, "Array"))
    line = f"def {name}({', '.join(parameters)}) -> {result}: ..."
    return line if len(line) <= 120 else f"def {name}(\n" + "".join(f"    {p},\n" for p in parameters) + f") -> {result}: ..."


def text_of(short):
    import numpy as np
    module = importlib.import_module("rlx." + short)
    dots = "." * (2 if short == "numpy" else 1)
    functions, others = [], []
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or inspect.ismodule(value):
            continue
        if inspect.isfunction(value) and value.__module__.startswith("rlx."):
            # A helper that a module took from another one is no part of it; a second name for one of its own is.
            own = value.__module__ == module.__name__ or value.__module__.startswith(module.__name__ + ".")
            if own:
                functions.append(stub(short, name, value))
        elif short == "numpy" and isinstance(value, float):
            others.append(f"{name}: float")
        elif short == "numpy" and isinstance(value, type) and issubclass(value, np.generic):
            others.append(f"{name} = np.{value.__name__}")
    if short == "numpy":
        others += ["bfloat16: np.dtype[Any] | None", "newaxis: None", "ndarray = Array", "def finfo(dtype: Any) -> Any: ...",
                   "def iinfo(dtype: Any) -> Any: ..."]
    body = "\n".join(others) + ("\n\n" if others else "") + "\n".join(functions) + "\n"
    head = f"# The types of rlx.{short}, from its functions. Generated by scripts/python_stubs.py.\n"
    uses = lambda word: re.search(rf"\b{word}\b", body)
    words = [w for w in ("Any", "Literal") if uses(w)]
    head += "from collections.abc import Sequence\n" if uses("Sequence") else ""
    head += f"from typing import {', '.join(words)}\n" if words else ""
    head += "\nimport numpy as np\n" if "np." in body else ""
    kinds = [k for k in ("ArrayLike", "Axes", "Axis", "Dim", "DTypeLike", "Shape") if uses(k)]
    head += f"\nfrom {dots}_array import Array\n"
    head += f"from {dots}_typing import {', '.join(kinds)}\n" if kinds else ""
    head += "from .. import fft as fft\nfrom .. import linalg as linalg\n" if short == "numpy" else ""
    head += "\n"
    return head + body


def main():
    for short, path in MODULES.items():
        text = text_of(short)
        if "--check" in sys.argv:
            if not (PACKAGE / path).exists() or (PACKAGE / path).read_text() != text:
                sys.exit(f"{path} is not what its functions say; run scripts/python_stubs.py")
        else:
            (PACKAGE / path).write_text(text)


main()
