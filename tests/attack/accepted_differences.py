"""The functions and calls that namespace.py does not judge by NumPy, or by any package, each with its reason: RLX
differs from the other package on purpose, or no package defines the result."""

import numpy as np

# ---- by function ----
# Functions that are not called beside NumPy: who judges them instead, which they are, and why.
FUNCTIONS = [
    ("nobody", "set_printoptions get_printoptions printoptions array_repr array_str", "a setting, or the text of another array"),
    ("nobody", "save savez load fromfile", "writes files, or reads them"),
    ("nobody", "frompyfunc vectorize", "takes functions"),
    ("nobody", "result_type promote_types can_cast finfo iinfo", "gives dtypes, by JAX's rules, or describes one"),
    ("nobody", "dtype object_ ufunc generic ndarray bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128",
     "a type"),
    ("nobody", "empty empty_like", "its elements are undefined in NumPy"),
    ("nobody", "from_dlpack", "takes no lists"),
    ("nobody", "nextafter", "the neighbour of an f32 is not that of an f64"),
    ("nobody", "astype", "also of lists and numbers; it is a method in JAX"),
    ("nobody", "argsort", "of equals NumPy's default order is any"),
    ("nobody", "digitize searchsorted", "among what is not sorted it is any place"),
    ("nobody", "arange", "of an array with one element NumPy's depends on its version, and integers are int64 in JAX when it has those"),
    ("nobody", "square", "integers are int32, and int64 in JAX when it has those"),
    ("nobody", "sinc", "at infinity it is 0, its limit, and NaN in JAX"),
    ("nobody", "clip", "also without bounds of bools; bounds wrap around in an integer dtype in JAX"),
    ("nobody", "quantile nanquantile percentile", "of nothing it is NaN, as the mean; beside an infinity it is NaN in JAX"),
    ("nobody", "full full_like", "floats saturate when they become integers, and wrap around in JAX"),
    ("nobody", "cumsum cumprod", "floats saturate when they become integers; of bytes and float16 sums wrap and round as they go in JAX"),
    ("JAX", "mean", "floats saturate when they become integers"),
    ("JAX", "hsplit vsplit dsplit split unstack diag_indices_from tril_indices_from triu_indices_from", "also of lists"),
    ("JAX", "indices", "also of one extent"),
    ("JAX", "poly polyder polyint polyval roots", "also of a number, as in JAX"),
    ("JAX", "polydiv", "the remainder keeps its zeros, as in JAX"),
    ("JAX", "trapezoid", "bools are numbers, as in JAX"),
    ("JAX", "unique_values", "in order"),
    ("JAX", "trim_zeros", "of a list NumPy gives a list"),
    ("JAX", "around round positive", "also of bools"),
    ("JAX", "delete", "nothing is no float"),
    ("JAX", "ediff1d", "what is put at the ends is converted, as in JAX"),
    ("JAX", "where", "None is as if left out"),
    ("JAX", "average", "of weights whose sum is 0 it is NaN, as in JAX"),
    ("JAX", "broadcast_to", "True is no integer for NumPy"),
    ("JAX", "broadcast_shapes", "NumPy takes arrays for shapes"),
    ("JAX", "reciprocal", "of integers it is a float, as in JAX"),
    ("JAX", "take take_along_axis", "an index out of range is NaN, as in JAX"),
    ("JAX", "unravel_index", "what is out of range becomes the nearest in range, as in JAX"),
]


def functions_of(*judges):
    """The names of the functions that these judge instead of NumPy."""
    return {name for judge, names, why in FUNCTIONS if judge in judges for name in names.split()}


# ---- by call ----
class Call:
    """The arguments of a call, and the first two as arrays of numbers."""

    def __init__(self, args, keywords):
        self.args, self.keywords = args, keywords
        self.x, self.y = (numbers(args[i]) if len(args) > i else numbers(None) for i in (0, 1))


def numbers(x):
    """x as an array of numbers; what is none as an empty one of objects."""
    try:
        a = np.asarray(x)
    except (TypeError, ValueError):
        return np.empty(0, object)
    return a if a.dtype.kind in "biufc" else np.empty(0, object)


def any_is(condition):
    """Whether it holds of an element of the first argument."""
    return lambda call: call.x.size > 0 and bool(np.any(condition(call.x)))


def is_bool(call):
    return call.x.dtype.kind == "b"


def is_whole(call):
    return call.x.dtype.kind in "iub"


def is_number(call):
    return call.x.ndim == 0


def is_empty(call):
    return call.x.size == 0


def is_ill_conditioned(call, square=lambda a: a):
    a = square(call.x)
    if a.ndim < 2 or a.size == 0:
        return False
    return not np.all(np.isfinite(a)) or bool(np.any(np.linalg.cond(a) > 1e3))


def is_ill_conditioned_tensor(call):
    return is_ill_conditioned(call, lambda a: a.reshape(a.shape[0], -1) if a.ndim and a.size else a)


def has_two_triangles(call):
    a = call.x
    return a.ndim > 1 and a.shape[-1] == a.shape[-2] and not np.array_equal(a, np.conj(a.swapaxes(-1, -2)))


def is_unsigned(call):
    return call.x.dtype.kind == "u"


def has_nan(call):
    return any(a.dtype.kind == "f" and bool(np.any(np.isnan(a))) for a in (call.x, call.y))


def has_negative_axes(call):
    axes = call.keywords.get("axes", call.args[2] if len(call.args) > 2 else None)
    return axes is not None and bool(np.any(numbers(axes) < 0))


def has_minus_infinity(call):
    return any(a.dtype.kind == "f" and bool(np.any(a == -np.inf)) for a in (call.x, call.y))


def is_power_of_more_than_32_bits(call):
    """Either may be the exponent, as in rpow."""
    if call.x.dtype.kind not in "iub" or call.y.dtype.kind not in "iub":
        return False
    x, y = (float(np.max(np.abs(a.astype(float)), initial=0)) for a in (call.x, call.y))
    return bool(np.maximum(np.float64(x)**y, np.float64(y)**x) >= 2**31)


def shifts_too_far(call):
    return call.y.dtype.kind in "biuf" and bool(np.any((call.y < 0) | (call.y > 7)))


QUOTIENTS = "floor_divide remainder mod fmod divide true_divide gcd lcm div rem floordiv rfloordiv rmod divmod rdivmod"
SHIFTS = "left_shift right_shift lshift rlshift rshift rrshift shift_left shift_right_arithmetic shift_right_logical"
SOLVERS = "inv pinv solve lstsq matrix_power matrix_rank slogdet solve_triangular qr expm cholesky"

ACCEPTED = [
    # families             functions               judge    when               why
    ("numpy array ops lax", QUOTIENTS, "any", lambda c: not np.all(c.y), "integers divided by zero: NumPy warns and says 0"),
    ("numpy array ops lax", SHIFTS, "any", shifts_too_far, "a shift by more bits than there are, or by fewer than 0, is undefined in C"),
    ("numpy", "pad", "any", is_number, "the widths of no dims mean nothing"),
    ("numpy", "diff", "any", lambda c: type(c.keywords.get("n")) is int and c.keywords["n"] == 0, "of order 0 NumPy gives the list that it got"),
    ("numpy", "take_along_axis", "JAX", is_empty, "JAX takes 0 out of nothing"),
    ("numpy", "histogram", "any", lambda c: is_number(c) and bool(c.x == 2**20), "f32 has too few digits for ten bins beside that number"),
    ("linalg", SOLVERS, "any", is_ill_conditioned, "no digit of such a matrix's result is right"),
    ("linalg", "tensorinv tensorsolve", "any", is_ill_conditioned_tensor, "no digit of such a matrix's result is right"),
    ("linalg", "cholesky", "any", has_two_triangles, "NumPy reads one of two triangles that differ; here their mean counts, as in JAX"),
    ("linalg", "tensorsolve", "any", has_negative_axes, "axes below 0 count from the end, which NumPy's list of axes does not find"),
    ("fft", "all", "any", any_is(lambda x: ~np.isfinite(x.astype(complex))), "which infinities meet in a sum is decided by its order"),
    ("fft", "fftshift ifftshift", "any", is_number, "NumPy fails for want of an axis, and not on purpose"),
    ("fft", "irfft irfft2 irfftn", "any", is_empty, "NumPy gives memory that nobody wrote to"),
    ("numpy", "einsum_path", "any", lambda c: True, "gives a text"),
    ("numpy", "insert", "NumPy", lambda c: c.y.dtype.kind == "u", "NumPy fails inside: it adds int64 to bytes in place"),
    ("numpy", "ldexp", "NumPy", is_whole, "of integers NumPy takes float16"),
    ("numpy", "nanvar nanstd", "NumPy", is_whole, "of too few elements it is NaN, as of floats; of integers NumPy divides by 0"),
    ("numpy", "unwrap", "NumPy", is_empty, "of no steps the discontinuity is not looked at, as in JAX"),
    ("numpy", "unwrap", "NumPy", is_unsigned, "NumPy's differences of bytes wrap around; here they are those of the numbers, as in JAX"),
    ("numpy array", "power pow rpow float_power", "NumPy", is_power_of_more_than_32_bits, "integers are int32, as in JAX, and their powers wrap around"),
    ("array", "clip round", "any", is_bool, "clip and round take bools, too"),
    ("index", "divide", "any", is_bool, "JAX multiplies truths by truths"),
    ("index", "divide", "NumPy", is_whole, "JAX gives floats, which NumPy cuts to integers"),
    ("index", "divide", "JAX", lambda c: is_whole(c) and numbers(c.args[2]).dtype.kind not in "iu", "JAX cuts divisors to integers first"),
    ("index", "all", "any", lambda c: is_whole(c) and c.args[-1] is np.nan, "a NaN that becomes an integer is 0 here, and any number there"),
    ("nn", "standardize", "JAX", any_is(lambda x: np.abs(x) > 1e18), "JAX's squares are infinite; here they are of differences to the mean"),
    ("special", "logsumexp softmax log_softmax", "SciPy", lambda c: is_empty(c) or is_number(c), "SciPy fails inside, or gives one dim more"),
    ("special", "i0 i1", "SciPy", any_is(lambda x: np.isinf(x.astype(complex))), "SciPy's in f32 gives NaN"),
    ("special", "sici", "SciPy", any_is(lambda x: x.real < 0), "the second value is NaN below 0, as in JAX"),
    ("special", "comb", "SciPy", lambda c: has_nan(c) and bool(np.any(numbers(c.keywords.get("repetition", 0)))), "of NaN it is 0 with repetition, too, as in JAX"),
    ("special", "expn", "SciPy", any_is(lambda x: x.real != np.floor(x.real)), "orders are integers; SciPy cuts others"),
    ("special", "zeta", "SciPy", any_is(lambda x: np.abs(x) > 1e9), "SciPy's series gives up at such an exponent"),
    ("special", "betaln beta", "SciPy", has_minus_infinity, "at minus infinity it is NaN, as in JAX"),
    ("special", "poch", "SciPy", any_is(lambda x: x.real <= 0), "two poles of the gamma function make NaN, as in JAX"),
]


def why_accepted(family, name, args, keywords):
    """Why this call is not judged; "" if it is."""
    call = Call(args, keywords)
    for families, functions, judge, when, why in ACCEPTED:
        if family.name in families.split() and judge in ("any", family.judge) and (functions == "all" or name in functions.split()):
            with np.errstate(all="ignore"):
                if when(call):
                    return why
    return ""
