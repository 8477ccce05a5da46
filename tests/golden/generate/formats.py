"""Narrow float formats: what each code means, and which code a number rounds to.

usage: formats.py
writes tests/golden/formats/: formats.npz, versions.json

FORMAT/decoded   the value of every code, as ml_dtypes (f16: NumPy) converts it to f64
FORMAT/values    f64: random magnitudes, ties between neighbours and the doubles beside each tie
FORMAT/codes     the code of the nearest number, by exact rational arithmetic over `decoded`; ties to the even code
                 (f8e8m0fnu, which has no mantissa: to the larger number). Too large: infinity where there is one,
                 else the largest number. Numbers that f32 holds and that do not overflow are also rounded by
                 ml_dtypes, and must agree: from wider ones it may round twice.
"""
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import recorded

FORMATS = {
    "f16": (np.float16, 16), "bf16": (ml_dtypes.bfloat16, 16),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 8), "f8e5m2": (ml_dtypes.float8_e5m2, 8),
    "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8), "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8),
    "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, 8), "f6e2m3fn": (ml_dtypes.float6_e2m3fn, 6),
    "f6e3m2fn": (ml_dtypes.float6_e3m2fn, 6), "f4e2m1fn": (ml_dtypes.float4_e2m1fn, 4),
}


def decoded(dtype, bits):
    codes = np.arange(1 << bits, dtype=np.uint16 if bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return codes.view(dtype).astype(np.float64)


def magnitudes(table):
    """(code, value) of the finite numbers without sign, ascending; and the code of infinity, if there is one."""
    finite = sorted((float(v), code) for code, v in enumerate(table) if np.isfinite(v) and not np.signbit(v))
    infinity = [code for code, v in enumerate(table) if v == np.inf]
    return [Fraction(v) for v, _ in finite], [code for _, code in finite], infinity[0] if infinity else None


def rounded(x, values, codes, infinity, sign_bit, ties_up):
    negative = np.signbit(x)
    if sign_bit is None:
        if negative or x == 0:
            return codes[0]
        sign = 0
    else:
        sign = sign_bit if negative else 0
    if np.isinf(x):
        return sign | (infinity if infinity is not None else codes[-1])
    v = abs(Fraction(float(x)))
    beyond = values[-1] + (values[-1] - values[-2]) / (1 if not ties_up else Fraction(1, 2))
    ladder, names = values + [beyond], codes + [infinity if infinity is not None else codes[-1]]
    if v >= ladder[-1]:
        return sign | names[-1]
    low, high = 0, len(ladder) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ladder[middle] <= v else (low, middle)
    if v < ladder[0]:
        return sign | names[0]
    below, above = v - ladder[low], ladder[high] - v
    if below == above:
        up = ties_up or names[low] % 2 == 1
    else:
        up = above < below
    return sign | names[high if up else low]


def main():
    arrays, checked = {}, 0
    for name, (dtype, bits) in FORMATS.items():
        draw = random.Random(name)
        table = decoded(dtype, bits)
        values, codes, infinity = magnitudes(table)
        signed = name != "f8e8m0fnu"
        numbers = [0.0, -0.0, np.inf, -np.inf]
        numbers += [draw.choice((-1, 1)) * draw.uniform(1, 2) * 2.0 ** draw.randint(-160, 140) for _ in range(300)]
        reach = int(np.log2(float(values[-1]))) + 1
        lowest = int(np.log2(float(next(v for v in values if v)))) - 2
        numbers += [draw.choice((-1, 1)) * draw.uniform(1, 2) * 2.0 ** draw.randint(lowest, reach) for _ in range(700)]
        numbers += [float(np.float32(x)) for x in numbers[-500:]]  # what ml_dtypes can judge
        pairs = list(zip(values, values[1:]))
        if len(pairs) > 300:
            pairs = pairs[:20] + draw.sample(pairs, 260) + pairs[-20:]
        for low, high in pairs:
            tie = float((low + high) / 2)
            numbers += [tie, -tie, np.nextafter(tie, 0), np.nextafter(tie, np.inf)]
        top = float(values[-1] + (values[-1] - values[-2]) / 2)
        numbers += [top, -top, np.nextafter(top, 0), np.nextafter(top, np.inf), float(values[-1])]
        numbers = np.array(numbers, np.float64)
        sign_bit = 1 << (bits - 1) if signed else None
        result = np.array([rounded(x, values, codes, infinity, sign_bit, not signed) for x in numbers])
        if name.endswith("fnuz"):
            result[result == sign_bit] = 0  # there is no minus zero
        with np.errstate(over="ignore"):
            narrow = numbers.astype(np.float32)
            theirs = narrow.astype(dtype).view(np.uint16 if bits == 16 else np.uint8)
        largest = float(values[-1])
        usable = (narrow.astype(np.float64) == numbers) & (np.abs(numbers) <= largest)
        if not signed:
            usable &= numbers > 0
        wrong = usable & (theirs != result)
        assert not wrong.any(), (name, numbers[wrong][:5], theirs[wrong][:5], result[wrong][:5])
        checked += int(usable.sum())
        with np.errstate(invalid="ignore"):
            arrays[f"{name}/decoded"] = table.astype(np.float32)
        assert (arrays[f"{name}/decoded"].astype(np.float64) == table)[~np.isnan(table)].all()
        arrays[f"{name}/values"] = numbers
        arrays[f"{name}/codes"] = result.astype(np.uint16)
        print(f"{name}: {len(table)} codes, {len(numbers)} numbers, {int(usable.sum())} of them as ml_dtypes rounds")
    out = recorded.folder("formats")
    np.savez_compressed(out / "formats.npz", **arrays)
    recorded.write_versions(out, "formats.py", ["numpy", "ml_dtypes"], rounded_as_ml_dtypes=checked)


if __name__ == "__main__":
    main()
