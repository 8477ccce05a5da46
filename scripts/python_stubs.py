#!/usr/bin/env python3
"""Writes the type stubs of the package's modules of functions (rlx.numpy, nn, lax, linalg, fft, special, random) from the
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
           "random": "random.pyi", "lax": "lax.pyi"}

GUMBEL = 'Literal["low", "high", "highest"] | None'
# By the name of the parameter; "function.parameter" goes before. What is not here is an operand: ArrayLike.
TYPES = {
    "axis": "Axes", "axes": "Axes", "keepdims": "bool", "dtype": "DTypeLike | None", "shape": "Shape", "ddof": "float",
    "decimals": "int", "k": "int", "n": "int", "m": "int | None", "num": "int", "endpoint": "bool", "offset": "int", "axis1": "int",
    "axis2": "int", "reps": "int | Sequence[int]", "repeats": "int | Sequence[int]", "mode": "str | None", "side": 'Literal["left", "right"]',
    "method": 'Literal["linear", "lower", "higher", "midpoint", "nearest"]', "indexing": 'Literal["xy", "ij"]',
    "norm": 'Literal["backward", "ortho", "forward"] | None', "rtol": "float", "cond.p": "Any", "matrix_rank.rtol": "ArrayLike | None",
    "pinv.rtol": "ArrayLike | None", "matrix_rank.M": "ArrayLike", "atol": "float", "equal_nan": "bool",
    "descending": "bool", "stable": "bool", "size": "int | None", "length": "int | None", "minlength": "int", "density": "bool",
    "return_index": "bool", "return_inverse": "bool", "return_counts": "bool", "rowvar": "bool", "bias": "bool", "invert": "bool",
    "deg": "bool", "right": "bool", "upper": "bool", "lower": "bool", "unit_diagonal": "bool", "full_matrices": "bool",
    "compute_uv": "bool", "hermitian": "bool", "UPLO": 'Literal["L", "U"]', "rcond": "ArrayLike | None", "tol": "ArrayLike | None",
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
    "histogramdd.bins": "int | Sequence[int | ArrayLike]",
    "histogramdd.sample": "ArrayLike", "split.key": "ArrayLike", "split.num": "Shape", "randint.minval": "int", "randint.maxval": "int",
    "truncated_normal.lower": "float", "truncated_normal.upper": "float", "bernoulli.shape": "Shape | None", "permutation.x": "ArrayLike",
    "arange.start": "Any", "arange.stop": "Any", "arange.step": "Any", "broadcast_shapes.shapes": "Sequence[Dim]",
    "impl": "None", "key.dtype": "None", "wrap_key_data.dtype": "None", "replace": "bool", "independent": "bool", "gumbel.mode": GUMBEL,
    "categorical.mode": GUMBEL, "choice.mode": GUMBEL, "bernoulli.mode": 'Literal["low", "high"]', "triangular.mode": "ArrayLike",
    "categorical.axis": "int", "permutation.axis": "int", "choice.axis": "int", "orthogonal.n": "int", "ball.d": "int", "unroll": "int | bool",
    "multivariate_normal.method": 'Literal["cholesky", "eigh", "svd"]', "binomial.n": "ArrayLike", "multinomial.n": "ArrayLike",
    **dict.fromkeys([f"{name}.shape" for name in ("beta", "binomial", "categorical", "chisquare", "dirichlet", "f", "gamma", "geometric", "loggamma",
                     "lognormal", "multinomial", "multivariate_normal", "pareto", "poisson", "rayleigh", "t", "triangular", "truncated_normal",
                     "wald")], "Shape | None"),
    "uniform.minval": "ArrayLike", "uniform.maxval": "ArrayLike",
    "return_sign": "bool", "exact": "bool", "repetition": "bool", "expn.n": "ArrayLike", "comb.k": "ArrayLike",
    "factorial.n": "ArrayLike", "poch.m": "ArrayLike", "series_order": "int", "logsumexp.b": "ArrayLike | None", "standardize.algorithm": 'Literal["stable", "fast"]',
    "scale": "ArrayLike", "dot_product_attention.scale": "float | None", "is_causal": "bool", "local_window_size": "int | tuple[int, int] | None",
    "implementation": 'Literal["xla"] | None', "return_residual": "bool", "dot_product_attention.bias": "ArrayLike | None", "mask": "ArrayLike | None",
    "query_seq_lengths": "ArrayLike | None", "key_value_seq_lengths": "ArrayLike | None", "zeta.q": "ArrayLike | None",
    "zeros_like.shape": "Shape | None", "ones_like.shape": "Shape | None", "full_like.shape": "Shape | None",
    "astype.dtype": "DTypeLike", "unravel_index.shape": "int | Sequence[int]", "matrix_power.n": "int", "logspace.start": "float",
    "logspace.stop": "float", "out": "None", "initial": "ArrayLike | None", "where": "ArrayLike | None", "promote_integers": "bool",
    "correction": "float | None", "overwrite_input": "bool", "returned": "bool", "retstep": "bool",
    "include_initial": "bool", "order": "str | None", "sort.order": "None", "argsort.order": "None",
    "reshape.order": 'Literal["C", "F", "A"]', "ravel.order": 'Literal["C", "F", "A", "K"]',
    "ravel_multi_index.order": 'Literal["C", "F"]', "unravel_index.order": 'Literal["C", "F"]', "kind": "str | None", "isdtype.kind": "Any",
    "ndmin": "int", "object": "Any", "total_repeat_length": "int | None",
    "tup": "Sequence[ArrayLike]", "M": "int", "N": "int", "eye.M": "int | None", "tri.M": "int | None", "vander.N": "int | None",
    "take.mode": "str | None", "unique_indices": "bool", "indices_are_sorted": "bool", "wrap_negative_indices": "bool", "axisa": "int",
    "axisb": "int", "axisc": "int", "edge_order": "Literal[1, 2]", "assume_unique": "bool", "assume_unique_indices": "bool", "sorted": "bool",
    "return_indices": "bool", "isin.method": "str", "searchsorted.method": "str", "digitize.method": "str | None", "slogdet.method": "str | None",
    "optimize": "Any", "bitorder": 'Literal["big", "little"]', "count": "int", "unpackbits.count": "int | None",
    "sparse": "bool", "casting": "str", "can_cast.from_": "Any", "can_cast.to": "DTypeLike", "issubdtype.arg1": "Any", "issubdtype.arg2": "Any",
    "isdtype.dtype": "DTypeLike", "promote_types.a": "DTypeLike", "promote_types.b": "DTypeLike", "arrays_and_dtypes": "Any", "element": "Any",
    "isin.element": "ArrayLike", "iterable.y": "Any",
    "iscomplexobj.x": "Any", "isrealobj.x": "Any", "condlist": "Any", "funclist": "Sequence[Any]", "choicelist": "Sequence[ArrayLike]",
    "choices": "Sequence[ArrayLike]", "choose.mode": 'Literal["raise", "wrap", "clip"]', "inplace": "bool", "wrap": "bool", "obj": "Any",
    "put.mode": 'Literal["raise", "wrap", "clip"] | None', "put_along_axis.mode": 'Literal["drop", "clip"] | None',
    "new_shape": "int | Sequence[int]",
    "take_along_axis.mode": 'Literal["fill", "clip"] | None', "put_along_axis.axis": "Axis", "append.axis": "Axis", "insert.axis": "Axis",
    "delete.axis": "Axis", "compress.axis": "Axis",
    "packbits.axis": "Axis", "unpackbits.axis": "Axis", "partition.axis": "Axis", "argpartition.axis": "Axis", "lexsort.axis": "int",
    "unstack.axis": "int", "rollaxis.axis": "int", "rollaxis.start": "int", "unwrap.axis": "int", "trapezoid.axis": "int", "vecdot.axis": "int",
    "linspace.axis": "int",
    "logspace.axis": "int", "geomspace.axis": "int", "apply_along_axis.axis": "int", "apply_over_axes.axes": "int | Sequence[int]",
    "nancumsum.axis": "Axis", "nancumprod.axis": "Axis", "nanargmax.axis": "Axis", "nanargmin.axis": "Axis", "cumulative_sum.axis": "Axis",
    "cumulative_prod.axis": "Axis", "trim": "str", "kth": "int | Sequence[int]", "keys": "ArrayLike", "multi_index": "Sequence[ArrayLike]",
    "dims": "int | Sequence[int]", "ravel_multi_index.mode": "str | Sequence[str]", "dimensions": "int | Sequence[int]", "ndim": "int",
    "func": "Callable[..., Any]",
    "func1d": "Callable[..., Any]", "function": "Callable[..., Any]", "pyfunc": "Callable[..., Any]", "mask_func": "Callable[..., Any]",
    "excluded": "Collection[int | str]", "signature": "str | None", "nin": "int", "nout": "int", "identity": "Any",
    "convolve.mode": 'Literal["full", "same", "valid"]',
    "correlate.mode": 'Literal["full", "same", "valid"]', "beta": "ArrayLike", "increasing": "bool", "strip_zeros": "bool",
    "trim_leading_zeros": "bool",
    "polyval.unroll": "int", "place.mask": "ArrayLike", "polyfit.deg": "int", "polyfit.full": "bool", "polyfit.cov": 'bool | Literal["unscaled"]', "polyfit.rcond": "float | None",
    "polyder.m": "int", "polyint.m": "int", "file": "Any", "buffer": "Any", "iter": "Iterable[Any]", "string": "str", "sep": "str",
    "mmap_mode": "str | None", "allow_pickle": "bool", "max_line_width": "int | None", "precision": "int | None", "suppress_small": "bool | None",
    "printoptions.args": "Any", "set_printoptions.args": "Any", "apply_along_axis.args": "Any", "piecewise.args": "Any", "fromfile.offset": "int",
    "block.arrays": "Any", "symmetrize_input": "bool", "subset_by_index": "tuple[int, int] | None", "numpy_resid": "bool",
    "eigh.UPLO": 'Literal["L", "U"] | None',
    "lstsq.rcond": "float | None", "fromfunction.shape": "int | Sequence[int]", "size.axis": "Axes", "fromiter.dtype": "DTypeLike",
    "frombuffer.dtype": "DTypeLike", "fromfile.dtype": "DTypeLike",
    "fromstring.dtype": "DTypeLike", "fromfunction.dtype": "DTypeLike", "histogram2d.bins": "Any", "nan_to_num.copy": "Literal[True]",
    "quantile.method": "str", "nanquantile.method": "str",
    "percentile.method": "str", "nanpercentile.method": "str", "unwrap.period": "ArrayLike", "fftshift.axes": "Axes",
    "arange.dtype": "DTypeLike | None", "norm.ord": "Any",
}
# What means something else in rlx.lax.
OF_LAX = {
    **dict.fromkeys("accuracy padding dimension_numbers precision computation operands init_values rounding_method mode algorithm ragged_dot_dimension_numbers "
                    "padding_config fft_type matvec solve transpose_solve tangent_solve func b initial_guess group_offset".split(), "Any"),
    **dict.fromkeys("window_strides lhs_dilation rhs_dilation window_dimensions base_dilation window_dilation strides filter_shape slice_sizes sizes "
                    "dimensions permutation fft_lengths lhs_shape rhs_shape pads in_shape window_shape operand_shape update_shape start_indices limit_indices "
                    "broadcast_dimensions shapes".split(), "Sequence[Any]"),
    **dict.fromkeys("feature_group_count batch_group_count exponent_bits mantissa_bits dimension start_dimension stop_dimension stride reduction_dimension "
                    "reduction_input_size_override num_keys rank".split(), "int"),
    **dict.fromkeys("use_consistent_padding transpose_kernel unique_indices indices_are_sorted is_stable reverse aggregate_to_topk allow_negative_indices "
                    "symmetric has_aux keepdims".split(), "bool"),
    **dict.fromkeys("preferred_element_type out_dtype".split(), "DTypeLike | None"), "new_dtype": "DTypeLike", "index_dtype": "DTypeLike",
    "new_sizes": "Shape", "recall_target": "float",
    "axes": "Sequence[int]", "axis": "int", "split.axis": "int", "size": "int", "shape": "Shape", "x": "ArrayLike", "y": "ArrayLike", "min": "ArrayLike", "max": "ArrayLike", "m": "ArrayLike",
    "a": "ArrayLike", "dtype": "DTypeLike", "full.dtype": "DTypeLike | None", "full_like.dtype": "DTypeLike | None", "full_like.shape": "Shape | None",
    "integer_pow.y": "int", "f": "Any", "reps": "Sequence[int]", "start_index": "Any", "limit_index": "int | None", "start_indices": "Any",
    "gather.start_indices": "ArrayLike", "conv_shape_tuple.strides": "Sequence[int]", "slice.strides": "Sequence[int] | None", "which": "ArrayLike",
    "igamma.x": "ArrayLike", "betainc.b": "ArrayLike", "init_value": "Any", "reduce_window.operand": "Any", "optimization_barrier.operand": "Any",
    "stack.operands": "Sequence[ArrayLike]", "concatenate.operands": "Sequence[ArrayLike]", "sort.operand": "Any", "idxs": "Sequence[ArrayLike]",
    "stop_gradient.x": "Any", "batch_group_count": "int", "shape_as_value.shape": "Sequence[int]",
}
ARRAYS = "list[Array]"
PAIR, TRIPLE, MANY = "tuple[Array, Array]", "tuple[Array, Array, Array]", "tuple[Array, ...]"
RESULTS = {
    "split": ARRAYS, "array_split": ARRAYS, "meshgrid": ARRAYS, "broadcast_arrays": ARRAYS, "frexp": PAIR, "histogram": PAIR,
    "histogramdd": "tuple[Array, list[Array]]", "nonzero": MANY, "tril_indices": MANY, "triu_indices": MANY, "unravel_index": MANY,
    "unique": "Any", "gradient": "Any", "atleast_1d": "Any", "atleast_2d": "Any", "atleast_3d": "Any", "broadcast_shapes": "tuple[Dim, ...]",
    "qr": "Any", "svd": "Any", "lu": TRIPLE, "random.split": "Array",
    "fresnel": PAIR, "sici": PAIR, "logsumexp": "Any", "dot_product_attention": "Any",
    **dict.fromkeys(("lax.top_k", "lax.approx_max_k", "lax.approx_min_k", "lax.rng_bit_generator", "lax.sort_key_val"), PAIR), "lax.unstack": MANY,
    **dict.fromkeys([f"lax.{name}" for name in ("sort", "reduce", "reduce_window", "optimization_barrier", "stop_gradient", "custom_root",
                     "custom_linear_solve", "dtype")], "Any"),
    **dict.fromkeys([f"lax.{name}" for name in ("conv_shape_tuple", "conv_general_shape_tuple", "conv_transpose_shape_tuple",
                     "reduce_window_shape_tuple")], "tuple[int, ...]"),
    "lax.conv_dimension_numbers": "ConvDimensionNumbers", "lax.conv_general_permutations": "tuple[tuple[int, ...], ...]",
    "lax.padtype_to_pads": "list[tuple[int, int]]",
    "batch_norm": TRIPLE, "linspace": "Any", "einsum_path": "tuple[list[Any], str]", "average": "Any", "where": "Any", "divmod": PAIR, "modf": PAIR,
    **dict.fromkeys("unstack ix_ diag_indices diag_indices_from mask_indices tril_indices_from triu_indices_from".split(), MANY),
    **dict.fromkeys("hsplit vsplit dsplit".split(), ARRAYS), "indices": "Any", "fromfunction": "Any", "apply_along_axis": "Any", "intersect1d": "Any",
    "unique_all": "tuple[Array, Array, Array, Array]", "unique_counts": PAIR, "unique_inverse": PAIR, "polydiv": PAIR, "polyfit": "Any",
    "histogram2d": TRIPLE, "vectorize": "Callable[..., Any]", "frompyfunc": "ufunc", "load": "Any", "save": "None", "savez": "None",
    "set_printoptions": "None", "get_printoptions": "dict[str, Any]", "printoptions": "Any", "array_repr": "str", "array_str": "str",
    "result_type": "np.dtype[Any]", "promote_types": "np.dtype[Any]", "shape": "tuple[Dim, ...]", "ndim": "int", "size": "int",
    **dict.fromkeys("can_cast isdtype issubdtype iscomplexobj isrealobj isscalar iterable".split(), "bool"),
    "lstsq": "tuple[Array, Array, Array, Array]", "eigh": "EighResult", "eig": "EigResult", "slogdet": "SlogdetResult",
}
# What a module has of another one, as a part of its own.
TAKEN = {"linalg": ("lstsq", "matmul", "tensordot", "vecdot", "matrix_transpose")}
CLASSES = {
    "numpy": """class ufunc:
    nin: int
    nout: int
    nargs: int
    identity: Any
    def __init__(self, func: Callable[..., Any], nin: int, nout: int, *, name: str | None = ..., identity: Any = ...) -> None: ...
    def __call__(self, *args: ArrayLike, out: None = ..., where: None = ...) -> Any: ...
    def outer(self, A: ArrayLike, B: ArrayLike) -> Array: ...
    def reduce(self, a: ArrayLike, axis: Axis = ..., dtype: DTypeLike | None = ..., out: None = ..., keepdims: bool = ..., initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array: ...
    def accumulate(self, a: ArrayLike, axis: int = ..., dtype: DTypeLike | None = ..., out: None = ...) -> Array: ...
    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = ..., *, inplace: bool = ...) -> Array: ...
""",
    "linalg": "LinAlgError = np.linalg.LinAlgError\n" + "".join(
        f"class {name}(NamedTuple):\n" + "".join(f"    {field}: Array\n" for field in fields.split())
        for name, fields in (("QRResult", "Q R"), ("SVDResult", "U S Vh"), ("EighResult", "eigenvalues eigenvectors"),
                             ("EigResult", "eigenvalues eigenvectors"), ("SlogdetResult", "sign logabsdet"))),
}


def annotated(module, name, parameter):
    kind = TYPES.get(f"{name}.{parameter.name}", TYPES.get(parameter.name, "ArrayLike"))
    if module == "lax":
        kind = OF_LAX.get(f"{name}.{parameter.name}", OF_LAX.get(parameter.name, kind))
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}: {kind}"
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}: Any"
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
    only = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_ONLY]
    if only:
        parameters.insert(len(only), "/")
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
            own = value.__module__ == module.__name__ or value.__module__.startswith((module.__name__ + ".", f"rlx._{short}.")) \
                or name in TAKEN.get(short, ())
            if own:
                functions.append(stub(short, name, value))
            elif short == "lax" and value.__module__ in ("rlx._associative_scan", "rlx._control", "rlx._map"):
                others.append(f"from . import {name} as {name}")
        elif short == "lax" and isinstance(value, type):
            others.append(f"from ._lax.types import {name} as {name}")
        elif short == "numpy" and isinstance(value, float):
            others.append(f"{name}: float")
        elif short == "numpy" and isinstance(value, type) and issubclass(value, np.generic):
            others.append(f"{name} = np.{value.__name__}")
    if short == "numpy":
        others += ["bfloat16: np.dtype[Any] | None", "newaxis: None", "ndarray = Array", "dtype = np.dtype", "c_: Any", "r_: Any", "s_: Any",
                   "index_exp: Any", "mgrid: Any", "ogrid: Any", "def finfo(dtype: Any) -> Any: ...",
                   "def iinfo(dtype: Any) -> Any: ..."]
    body = "\n".join(others) + ("\n\n" if others else "") + CLASSES.get(short, "") + "\n".join(functions) + "\n"
    if short == "numpy":  # it has a `bool` of its own, NumPy's
        body = re.sub(r"(: |-> |\| )bool\b", r"\1_bool", body)
    head = f"# The types of rlx.{short}, from its functions. Generated by scripts/python_stubs.py.\n"
    uses = lambda word: re.search(rf"\b{word}\b", body)
    words = [w for w in ("Any", "Literal", "NamedTuple") if uses(w)]
    head += "from builtins import bool as _bool\n" if uses("_bool") else ""
    kinds = [w for w in ("Callable", "Collection", "Iterable", "Sequence") if uses(w)]
    head += f"from collections.abc import {', '.join(kinds)}\n" if kinds else ""
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
