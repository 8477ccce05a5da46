"""Element-wise primitives on values where implementations differ: signed zeros, halves, infinities, NaN, wrap-around."""
import numpy as np
import scipy.special

from .case import *

HARD = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 3.75, -3.25, 1e-8, -1e-8, 1e-3, 0.3, -0.7, 10.0, -10.0, 20.0, -20.0,
        88.0, -87.0, 1000.25, -1000.75, np.inf, -np.inf, np.nan]
POSITIVE = [abs(x) for x in HARD if x == x] + [1e-30, 1e30, 7.0, 64.0, 0.1]


def logistic(x):
    return scipy.special.expit(x)


UNARY = {  # op: (f64 function, its values, where from)
    "abs": (np.abs, HARD, "numpy.abs"), "neg": (np.negative, HARD, "numpy.negative"), "sign": (np.sign, HARD, "numpy.sign"),
    "floor": (np.floor, HARD, "numpy.floor"), "ceil": (np.ceil, HARD, "numpy.ceil"),
    "round_nearest_even": (np.rint, HARD, "numpy.rint"),
    "round_nearest_afz": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), HARD, "copysign(floor(|x| + 1/2), x) in numpy"),
    "exp": (np.exp, HARD, "numpy.exp"), "expm1": (np.expm1, HARD, "numpy.expm1"),
    "log": (np.log, HARD + POSITIVE, "numpy.log"), "log1p": (np.log1p, HARD + POSITIVE, "numpy.log1p"),
    "sqrt": (np.sqrt, HARD + POSITIVE, "numpy.sqrt"), "rsqrt": (lambda x: 1 / np.sqrt(x), HARD + POSITIVE, "1 / numpy.sqrt"),
    "cbrt": (np.cbrt, HARD + POSITIVE, "numpy.cbrt"), "sin": (np.sin, HARD, "numpy.sin"), "cos": (np.cos, HARD, "numpy.cos"),
    "tan": (np.tan, HARD, "numpy.tan"), "tanh": (np.tanh, HARD, "numpy.tanh"), "logistic": (logistic, HARD, "scipy.special.expit"),
    "erf": (scipy.special.erf, HARD, "scipy.special.erf"),
}
ON_COMPLEX = {"neg": np.negative, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos}

BINARY = {  # op: (function, where from)
    "add": (np.add, "numpy.add"), "sub": (np.subtract, "numpy.subtract"), "mul": (np.multiply, "numpy.multiply"),
    "div": (np.divide, "numpy.divide"), "rem": (np.fmod, "numpy.fmod"), "pow": (np.power, "numpy.power"),
    "maximum": (np.maximum, "numpy.maximum"), "minimum": (np.minimum, "numpy.minimum"), "atan2": (np.arctan2, "numpy.arctan2"),
}
PAIRS = [(x, y) for x in (0.0, -0.0, 1.0, -1.0, 2.5, -7.25, 1e-3, 300.0, np.inf, -np.inf, np.nan)
         for y in (1.0, -1.0, 0.0, -0.0, 0.5, 3.0, -2.0, np.inf, -np.inf, np.nan)]


def truncating(x, y):
    """Integer division toward zero, as C and StableHLO divide; numpy's floors."""
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)


def unary(f):
    for op, (function, values, source) in UNARY.items():
        for dtype in (f64, f32):
            x = np.array(values, dtype)
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x], in_f64(function, x), source)
    for op in ("exp", "tanh", "sqrt", "round_nearest_even", "neg", "erf"):
        for dtype in (f16, bf16):
            x = np.array(UNARY[op][1], f64).astype(dtype)
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x], in_f64(UNARY[op][0], x), UNARY[op][2] + " in f64, rounded once")
    for op, function in ON_COMPLEX.items():
        x = (normal(op + "re", (9,), f64) + 1j * normal(op + "im", (9,), f64)).astype(c64)
        f.add(f"{op}_c64", op, [x], in_f64(function, x), f"numpy.{function.__name__} in c128")
    z = (normal("abs_re", (7,)) + 1j * normal("abs_im", (7,))).astype(c64)
    f.add("abs_c64", "abs", [z], in_f64(np.abs, z, dtype=f32), "numpy.abs")
    f.add("real_c64", "real", [z], [z.real.copy()], "numpy.real")
    f.add("imag_c64", "imag", [z], [z.imag.copy()], "numpy.imag")
    f.add("complex_f32", "complex", [z.real.copy(), z.imag.copy()], [z], "re + 1j * im in numpy")
    x = np.array(HARD, f32)
    f.add("is_finite_f32", "is_finite", [x], [np.isfinite(x)], "numpy.isfinite")
    for dtype in (i8, i32, i64):
        x = np.array([0, 1, -1, 5, -5, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        for op in ("abs", "neg", "sign"):
            with np.errstate(all="ignore"):
                f.add(f"{op}_{NAMES[dtype][0]}", op, [x], [UNARY[op][0](x)], UNARY[op][2] + "; the least integer wraps to itself")
    for dtype in (u8, i32, u64):
        x = integers("bits" + dtype.name, (12,), 0, 2 ** 30).astype(dtype)
        x[:4] = np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).max // 2 + 1 if dtype.kind == "u" else -1], dtype)
        width = 8 * dtype.itemsize
        raw = [int(v) % 2 ** width for v in x]
        f.add(f"bitwise_not_{NAMES[dtype][0]}", "bitwise_not", [x], [~x], "numpy.invert")
        f.add(f"popcnt_{NAMES[dtype][0]}", "popcnt", [x], [np.array([v.bit_count() for v in raw], dtype)], "int.bit_count")
        f.add(f"clz_{NAMES[dtype][0]}", "clz", [x], [np.array([width - v.bit_length() for v in raw], dtype)], "width - int.bit_length")
    b = np.array([True, False])
    f.add("bitwise_not_bool", "bitwise_not", [b], [~b], "numpy.logical_not")


def binary(f):
    for op, (function, source) in BINARY.items():
        for dtype in (f64, f32):
            x, y = (np.array(side, dtype) for side in zip(*PAIRS))
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x, y], in_f64(function, x, y), source)
    for op in ("add", "mul", "div", "maximum"):
        for dtype in (f16, bf16):
            x, y = normal(op + "x", (24,), dtype, 100), normal(op + "y", (24,), dtype, 3)
            f.add(f"{op}_{NAMES[dtype][0]}", op, [x, y], in_f64(BINARY[op][0], x, y), BINARY[op][1] + " in f64, rounded once")
    for op in ("add", "sub", "mul", "div"):
        x, y = ((normal(op + a, (9,), f64) + 1j * normal(op + b, (9,), f64)).astype(c64) for a, b in ("ab", "cd"))
        f.add(f"{op}_c64", op, [x, y], in_f64(BINARY[op][0], x, y), BINARY[op][1] + " in c128")
    for dtype in (i8, i32, i64, u8, u32):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = np.array([7, 8, 100, least, most, most, 3, 0, 77, 5], dtype)
        y = np.array([2, 3, 7, 2, 2, most, 100, 9, 77, 1], dtype)
        if dtype.kind == "i":
            x, y = np.concatenate([x, -x]), np.concatenate([y, np.where(np.arange(10) % 2, -y, y)])
        with np.errstate(all="ignore"):
            for op in ("add", "sub", "mul", "maximum", "minimum"):
                f.add(f"{op}_{NAMES[dtype][0]}", op, [x, y], [BINARY[op][0](x, y)], BINARY[op][1] + ", wrapping")
            keep = ~((x == least) & (y == np.array(-1).astype(dtype)))  # the quotient that overflows is not numpy's to say
            f.add(f"div_{NAMES[dtype][0]}", "div", [x[keep], y[keep]], [truncating(x[keep].astype(object), y[keep].astype(object)).astype(dtype)
                  if dtype == i64 else truncating(x[keep].astype(i64), y[keep].astype(i64)).astype(dtype)], "sign(x y) (|x| // |y|)")
            f.add(f"rem_{NAMES[dtype][0]}", "rem", [x[keep], y[keep]], [np.fmod(x[keep], y[keep])], "numpy.fmod")
            small = np.array([0, 1, 2, 3, 5, 10], dtype), np.array([0, 7, 5, 3, 2, 1], dtype)
            f.add(f"pow_{NAMES[dtype][0]}", "pow", small, [np.power(*small)], "numpy.power, wrapping")
    for dtype in (u8, i32, boolean):
        x, y = (integers("bitwise" + side, (16,), 0, 2 if dtype == boolean else 250).astype(dtype) for side in "xy")
        for op in ("and", "or", "xor"):
            f.add(f"bitwise_{op}_{NAMES[dtype][0]}", f"bitwise_{op}", [x, y], [getattr(np, f"bitwise_{op}")(x, y)], f"numpy.bitwise_{op}")
    for dtype in (u8, i8, i32, u32):
        width = 8 * dtype.itemsize
        x = np.repeat(np.array([1, 5, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype), 5)
        count = np.tile(np.array([0, 1, 3, width - 1, width], dtype), 5)
        pairs = [(int(a), int(n)) for a, n in zip(x, count)]
        wrap = lambda values: np.array([v % 2 ** width for v in values], f"u{dtype.itemsize}").view(dtype)
        source = "Python's integers, modulo 2^width"
        f.add(f"shift_left_{NAMES[dtype][0]}", "shift_left", [x, count], [wrap([a << n for a, n in pairs])], source)
        f.add(f"shift_right_logical_{NAMES[dtype][0]}", "shift_right_logical", [x, count], [wrap([(a % 2 ** width) >> n for a, n in pairs])], source)
        signed = [a - 2 ** width if a >= 2 ** (width - 1) else a for a, _ in pairs]
        f.add(f"shift_right_arithmetic_{NAMES[dtype][0]}", "shift_right_arithmetic", [x, count],
              [wrap([a >> n for a, (_, n) in zip(signed, pairs)])], source + ", the sign bit repeated")


def choosing(f):
    names = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    x, y = (np.array(side, f32) for side in zip(*PAIRS))
    for word, function in names.items():
        f.add(f"compare_{word}_f32", "compare", [x, y], [function(x, y)], f"numpy.{function.__name__}", direction=word)
    a, b = np.array([-3, 0, 5, 5], i32), np.array([2, 0, 5, -5], i32)
    f.add("compare_lt_i32", "compare", [a, b], [a < b], "numpy.less", direction="lt")
    u, v = np.array([0, 200, 255, 3], u8), np.array([255, 100, 255, 4], u8)
    f.add("compare_gt_u8", "compare", [u, v], [u > v], "numpy.greater", direction="gt")
    # IEEE 754-2019, 5.10: the order of the bits as sign and magnitude
    key = lambda t: np.where(t.view(i32) < 0, t.view(i32) ^ 0x7FFFFFFF, t.view(i32))
    order = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], f32)
    order.view(u32)[0] = 0xFFC00000
    order.view(u32)[7] = 0x7FC00000
    left, right = (t.ravel().copy() for t in np.meshgrid(order, order, indexing="ij"))
    for word in ("lt", "ge", "eq"):
        f.add(f"compare_total_{word}_f32", "compare", [left, right], [names[word](key(left), key(right))], "integer order of the bits",
              direction=word, total_order=True)
    p = np.array([True, False, True, False, True, True])
    for dtype in (f32, i64, c64, boolean):
        t, e = integers("t", (6,), 0, 9).astype(dtype), integers("e", (6,), 0, 9).astype(dtype)
        f.add(f"select_{NAMES[dtype][0]}", "select", [p, t, e], [np.where(p, t, e)], "numpy.where")


def converting(f):
    fractions = np.array([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.999, -2.999, 100.0, -100.0, 126.6], f64)
    for source, target in ((f64, f32), (f64, f16), (f64, bf16), (f32, i32), (f32, i8), (f64, i64), (f32, boolean), (f16, f32), (bf16, f32)):
        x = fractions.astype(source)
        f.add(f"convert_{NAMES[source][0]}_{NAMES[target][0]}", "convert", [x], [x.astype(target)], "numpy astype", dtype=target)
    fine = np.array([1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11, 65519.0, 65520.0, 1e-8, 2.0 ** -24, 2.0 ** -25, -70000.0, np.inf, -np.inf, np.nan], f32)
    f.add("convert_f32_f16_rounding", "convert", [fine], [fine.astype(f16)], "numpy astype", dtype=f16)
    fine = np.array([1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, 3.4028235e38, 1e-40, np.inf, -np.inf, np.nan, -1.00390625], f32)
    f.add("convert_f32_bf16_rounding", "convert", [fine], [fine.astype(bf16)], "ml_dtypes", dtype=bf16)
    whole = np.array([0, 1, -1, 127, -128, 255, 256, -129, 2 ** 24 + 1, 2 ** 31 - 1, -2 ** 31], i64)
    for target in (f32, f64, i32, i8, u8, boolean):
        f.add(f"convert_i64_{NAMES[target][0]}", "convert", [whole], [whole.astype(target)], "numpy astype, integers wrap", dtype=target)
    flags = np.array([True, False])
    for target in (f32, i32):
        f.add(f"convert_bool_{NAMES[target][0]}", "convert", [flags], [flags.astype(target)], "numpy astype", dtype=target)
    u = np.array([0, 255, 128], u8)
    f.add("convert_u8_f32", "convert", [u], [u.astype(f32)], "numpy astype", dtype=f32)
    f.add("convert_u8_i8", "convert", [u], [u.astype(i8)], "numpy astype", dtype=i8)
    x = normal("bitcast", (2, 3))
    f.add("bitcast_f32_i32", "bitcast", [x], [x.view(i32)], "numpy view", dtype=i32)
    f.add("bitcast_f32_u8", "bitcast", [x], [x[..., None].view(u8)], "numpy view, little endian", dtype=u8)
    b = integers("bitcast", (3, 2), 0, 60000).astype(u16)
    f.add("bitcast_u16_u32", "bitcast", [b], [b.view(u32)[..., 0]], "numpy view, little endian", dtype=u32)


def cases():
    f = Family("elementwise")
    unary(f)
    binary(f)
    choosing(f)
    converting(f)
    return [f]
