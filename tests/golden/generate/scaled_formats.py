"""Formats of at most 8 bits that have a scale beside them: what every code means, and which code a number becomes.

usage: scaled_formats.py
writes tests/golden/scaled_formats/: formats.npz, versions.json

FORMAT/decoded   f32: the value of every code. Of a format that has a dtype, as ml_dtypes converts it; of the others, by
                 the definition of a float, in rational arithmetic. Those that ml_dtypes knows under another name (with
                 infinities in place of the largest numbers) must agree in what they share.
FORMAT/values    f32: every number of the format, the middles between neighbours, the floats beside each middle, what is
                 too large, infinities, NaN, both signs
FORMAT/codes     the code of the nearest one, by rational arithmetic; the largest for what is too large, 0 for NaN. Ties go
                 to the even mantissa, which is the even code; without a mantissa to the larger number, but to 0 from its
                 neighbour (IEEE 754-2019, 4.3.1). ml_dtypes must agree where it does not overflow.
"""
from fractions import Fraction

import ml_dtypes
import numpy as np
import recorded

NAMED = {
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 4, 3), "f8e5m2": (ml_dtypes.float8_e5m2, 5, 2),
    "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 4, 3), "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 5, 2),
    "f6e2m3fn": (ml_dtypes.float6_e2m3fn, 2, 3), "f6e3m2fn": (ml_dtypes.float6_e3m2fn, 3, 2),
    "f4e2m1fn": (ml_dtypes.float4_e2m1fn, 2, 1),
}
# Custom formats that share numbers with one of ml_dtypes: (exponent, mantissa, bias) -> that one
RELATED = {(4, 3, 7): ml_dtypes.float8_e4m3, (3, 4, 3): ml_dtypes.float8_e3m4, (5, 2, 15): ml_dtypes.float8_e5m2,
           (4, 3, 11): ml_dtypes.float8_e4m3b11fnuz, (2, 3, 1): ml_dtypes.float6_e2m3fn, (3, 2, 3): ml_dtypes.float6_e3m2fn,
           (2, 1, 1): ml_dtypes.float4_e2m1fn, (4, 3, 8): ml_dtypes.float8_e4m3fnuz, (5, 2, 16): ml_dtypes.float8_e5m2fnuz}


def by_ml_dtypes(dtype, bits):
    with np.errstate(invalid="ignore"):
        return np.arange(1 << bits, dtype=np.uint8).view(dtype).astype(np.float64)


def by_definition(exponent_bits, mantissa_bits, bias):
    values = []
    for code in range(1 << (exponent_bits + mantissa_bits)):
        exponent, mantissa = code >> mantissa_bits, Fraction(code & ((1 << mantissa_bits) - 1), 1 << mantissa_bits)
        values.append(mantissa * Fraction(2) ** (1 - bias) if exponent == 0 else (1 + mantissa) * Fraction(2) ** (exponent - bias))
    return np.array([float(v) for v in values] + [-float(v) for v in values])


def nearest(x, ladder, sign_bit, minus_zero, mantissa_bits):
    """ladder: (value, code) of the finite numbers without sign, ascending."""
    if np.isnan(x):
        return 0
    v = Fraction(abs(float(x))) if np.isfinite(x) else ladder[-1][0]
    v = min(v, ladder[-1][0])
    low, high = 0, len(ladder) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ladder[middle][0] <= v else (low, middle)
    below, above = v - ladder[low][0], ladder[high][0] - v
    up = ladder[low][1] % 2 == 1 if mantissa_bits else ladder[low][1] != 0
    code = ladder[high if above < below or (above == below and up) else low][1]
    return code | sign_bit if np.signbit(x) and (code or minus_zero) else code


def numbers_of(ladder):
    finite = [float(v) for v, _ in ladder]
    all_ = list(finite)
    for low, high in zip(ladder, ladder[1:]):
        middle = np.float32(float((low[0] + high[0]) / 2))
        all_ += [middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))]
    most, step = finite[-1], finite[-1] - finite[-2]
    with np.errstate(over="ignore"):
        all_ += [most + step / 2, most + step, most * 3, 3.0e38, np.inf, 1e-38, 1e-45, 0.0]
        numbers = np.array(all_, np.float32)
    return np.concatenate([numbers, -numbers, np.array([np.nan, -np.nan], np.float32)])


def main():
    arrays, kinds, judged, shared = {}, {}, 0, 0
    for name, (dtype, e, m) in NAMED.items():
        kinds[name] = (by_ml_dtypes(dtype, 1 + e + m), e, m, dtype)
    named = {"f8e4m3": "f8e4m3_bias7", "f8e5m2": "f8e5m2_bias15"}  # the plain names are the hardware's
    for e in range(1, 8):
        for m in range(0, 8 - e):
            plain = f"f{1 + e + m}e{e}m{m}"
            kinds[named.get(plain, plain)] = (by_definition(e, m, 2 ** (e - 1) - 1), e, m, None)
    assert len(kinds) == 7 + 28
    for e, m, bias in ((4, 3, 11), (4, 3, 8), (5, 2, 16), (2, 1, 0), (1, 2, 3), (3, 0, 9), (7, 0, 40)):
        kinds[f"f{1 + e + m}e{e}m{m}_bias{bias}"] = (by_definition(e, m, bias), e, m, None)
    for name, (table, e, m, dtype) in kinds.items():
        bias = int(name.split("_bias")[1]) if "_bias" in name else 2 ** (e - 1) - 1
        if dtype is None and (e, m, bias) in RELATED:
            theirs = by_ml_dtypes(RELATED[e, m, bias], 1 + e + m)
            both = np.isfinite(theirs)
            assert (theirs[both] == table[both]).all() and both.sum() >= len(table) - 2 ** (m + 1), name
            shared += int(both.sum())
        sign_bit = 1 << (e + m)
        ladder = sorted((Fraction(float(v)), code) for code, v in enumerate(table[:sign_bit]) if np.isfinite(v))
        values = numbers_of(ladder)
        codes = np.array([nearest(x, ladder, sign_bit, not name.endswith("fnuz"), m) for x in values], np.uint8)
        if dtype is not None:
            within = np.abs(values) <= float(ladder[-1][0])
            theirs = values[within].astype(dtype).view(np.uint8)
            assert (theirs == codes[within]).all(), name
            judged += int(within.sum())
        arrays[f"{name}/decoded"], arrays[f"{name}/values"], arrays[f"{name}/codes"] = table.astype(np.float32), values, codes
        finite = ~np.isnan(table)
        assert (arrays[f"{name}/decoded"].astype(np.float64)[finite] == table[finite]).all()
    out = recorded.folder("scaled_formats")
    np.savez_compressed(out / "formats.npz", **arrays)
    count = sum(len(a) for n, a in arrays.items() if n.endswith("/codes"))
    recorded.write_versions(out, "scaled_formats.py", ["numpy", "ml_dtypes"], formats=len(kinds), roundings=count, rounded_as_ml_dtypes=judged,
                            codes_of_related_formats=shared)
    print(f"{len(kinds)} formats, {count} roundings, {judged} of them as ml_dtypes rounds; {shared} codes of related formats")


if __name__ == "__main__":
    main()
