#!/usr/bin/env python3
"""Writes src/ops/core/special_coefficients.h: the polynomials of which src/ops/core/special.cpp and gamma.cpp are made.

usage: special_coefficients.py        (needs mpmath; the versions that it used are written into the header)

Each is the Chebyshev series of a function that is smooth on an interval, computed with 50 digits, cut where its terms
fall below 1e-17 (for f64) or 1e-9 (for f32) of the function, and expanded in powers of t, which runs through [-1, 1] as
the function's argument runs through the interval. The header says how much an error of the powers may grow.
"""
import pathlib

import mpmath as mp
from mpmath import mpf

mp.mp.dps = 50
HEADER = pathlib.Path(__file__).resolve().parents[1] / "src/ops/core/special_coefficients.h"


def chebyshev(f, low, high, n):
    nodes = [mp.cos(mp.pi * (k + mpf(1) / 2) / n) for k in range(n)]
    values = [f((high - low) / 2 * x + (low + high) / 2) for x in nodes]
    return [(2 if j else 1) * mp.fsum(v * mp.cos(mp.pi * j * (k + mpf(1) / 2) / n) for k, v in enumerate(values)) / n
            for j in range(n)], values


def powers(series):
    """sum_j c_j T_j(t) as coefficients of t^0, t^1, ..."""
    total = [mpf(0)] * len(series)
    before, now = [mpf(1)], [mpf(0), mpf(1)]
    for j, c in enumerate(series):
        term = before if j == 0 else now
        for i, x in enumerate(term):
            total[i] += c * x
        if j > 0:
            following = [mpf(0)] + [2 * x for x in now]
            for i, x in enumerate(before):
                following[i] -= x
            before, now = now, following
    return total


def fit(f, low, high, tolerance, n=56):
    series, values = chebyshev(f, mpf(low), mpf(high), n)
    least = min(abs(v) for v in values)
    assert abs(series[-1]) < mpf(10) ** -19 * max(map(abs, values)), "more nodes are needed"
    kept = max((j for j, c in enumerate(series) if abs(c) > tolerance * least), default=0) + 1
    coefficients = powers(series[:kept])
    return coefficients, mp.fsum(map(abs, coefficients)) / least


def number(x):
    return repr(float(x))


def table(lines, name, doc, f, low, high, n=56):
    wide, growth = fit(f, low, high, mpf("1e-17"), n)
    narrow, _ = fit(f, low, high, mpf("1e-9"), n)
    lines.append(f"// {doc}; errors grow by {float(growth):.1f}.")
    for suffix, coefficients in (("Wide", wide), ("Narrow", narrow)):
        lines.append(f"inline constexpr double k{name}{suffix}[] = {{{', '.join(map(number, coefficients))}}};")
    lines.append(f"inline constexpr Polynomial k{name} = {{k{name}Wide, k{name}Narrow}};")
    print(name, len(wide), len(narrow), float(growth))


# ---- the functions ----
def erfinv_quotient(w):
    """erfinv(x) / x for w = -ln(1 - x^2)."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    complement = mp.exp(-w) / (1 + x)  # erfc of the result
    y = mp.sqrt(max(w - 1, w / 4)) if w > 1 else x * mp.sqrt(mp.pi) / 2
    for _ in range(80):
        step = mp.log(mp.erfc(y) / complement) * mp.erfc(y) / (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y -= step
        if abs(step) < mpf(10) ** -45 * y:
            return y / x
    raise ArithmeticError(w)


def scaled_erfc(t):
    """(1 + 2x) e^(x^2) erfc(x) for t = 1 - 7.5 / (x + 3.75)."""
    if t == 1:
        return 2 / mp.sqrt(mp.pi)
    x = mpf("3.75") * (1 + t) / (1 - t)
    if x > 3000:  # DLMF 7.12.1
        e = mp.fsum((-1) ** n * mp.fac2(2 * n - 1) / (2 * x * x) ** n for n in range(8)) / (x * mp.sqrt(mp.pi))
    else:
        e = mp.exp(x * x) * mp.erfc(x)
    return (1 + 2 * x) * e


def bessel_scaled(order):
    return lambda x: mp.exp(-x) * mp.besseli(order, x) / (x if order else 1)


def bessel_tail(order):
    return lambda u: mp.sqrt(8 / u) * mp.exp(-8 / u) * mp.besseli(order, 8 / u)


def lgamma_quotient(y):
    return mp.loggamma(y) / ((y - 1) * (y - 2))


ROOT = mp.findroot(mp.digamma, mpf("1.4616321449683623"))


def digamma_quotient(y):
    return mp.digamma(y) / (y - ROOT)


def log1p_remainder(m):
    """2 (m - ln(1 + m)) / m^2"""
    return 2 * (m - mp.log1p(m)) / m**2


# ---- Temme's coefficients: DLMF 8.12.9 and 8.12.10 ----
def product(a, b, n):
    return [mp.fsum(a[i] * b[k - i] for i in range(k + 1)) for k in range(n)]


def temme_series(orders, n):
    """Taylor coefficients in eta of c_0 ... c_(orders - 1); m = lambda - 1 has m m' = eta (1 + m)."""
    n += 2 * orders + 4
    m = [mpf(0), mpf(1)]
    for k in range(2, n):
        # The coefficient of eta^k in m m' = eta + eta m, for m_k the newest unknown: (k + 1) m_1 m_k + known.
        known = mp.fsum(m[i] * (k - i + 1) * m[k - i + 1] for i in range(2, k))
        m.append((m[k - 1] - known) / (k + 1))
    # eta / m, by division of power series.
    q = m[1:]
    inverse = [mpf(1)]
    for k in range(1, len(q)):
        inverse.append(-mp.fsum(q[i] * inverse[k - i] for i in range(1, k + 1)))
    # 1/m = inverse / eta; c_0 = 1/m - 1/eta.
    series = [inverse[1:]]
    stirling = stirling_coefficients(orders)
    for k in range(1, orders):
        before = series[-1]
        # c_k = c_(k-1)' / eta + (-1)^k g_k / m; the terms in 1/eta cancel.
        derivative = [(i + 1) * before[i + 1] for i in range(len(before) - 1)]
        g = (-1) ** k * stirling[k]
        assert abs(derivative[0] + g * inverse[0]) < mpf(10) ** -35, k
        series.append([derivative[i + 1] + g * inverse[i + 1] for i in range(len(derivative) - 1)])
    return series


def stirling_coefficients(n):
    """g_k of DLMF 5.11.3: exp(sum_j B_2j / (2j (2j - 1)) z^(1 - 2j)) in powers of 1/z."""
    exponent = [mpf(0)] * n
    for j in range(1, n):
        if 2 * j - 1 < n:
            exponent[2 * j - 1] = mp.bernoulli(2 * j) / (2 * j * (2 * j - 1))
    g = [mpf(1)]
    for k in range(1, n):
        g.append(mp.fsum(i * exponent[i] * g[k - i] for i in range(1, k + 1)) / k)
    return g


def temme(lines):
    low, high = (-mp.sqrt(2 * (m - mp.log1p(m))) if m < 0 else mp.sqrt(2 * (m - mp.log1p(m))) for m in (mpf(-1) / 2, mpf(1)))
    names = []
    for k, series in enumerate(temme_series(13, 40)):
        f = lambda eta: mp.polyval(series[::-1], eta)
        coefficients, values = chebyshev(f, low, high, 40)
        for suffix, tolerance in (("Wide", mpf("1e-17")), ("Narrow", mpf("1e-9"))):
            # c_k / a^k beside 1, a >= 20
            kept = max((j for j, c in enumerate(coefficients) if abs(c) > tolerance * mpf(20) ** k / 3), default=-1) + 1
            lines.append(f"inline constexpr double kTemme{k}{suffix}[] = {{{', '.join(map(number, powers(coefficients[:kept]) if kept else [0]))}}};")
            print("temme", k, suffix, kept)
        names.append(f"{{kTemme{k}Wide, kTemme{k}Narrow}}")
    lines.append(f"inline constexpr Polynomial kTemme[] = {{{', '.join(names)}}};")
    lines.append(f"inline constexpr double kTemmeLow = {number(low)}, kTemmeHigh = {number(high)};")


def main():
    lines = [
        "// Written by scripts/special_coefficients.py (mpmath " + mp.__version__ + "), which says what these are. Not to be edited.",
        "#pragma once", "", "#include <span>", "", "namespace rlx {", "",
        "/// Coefficients of t^0, t^1, ... for f64 and for f32.",
        "struct Polynomial {", "  std::span<const double> wide, narrow;", "};", "", "// clang-format off"]
    table(lines, "ErfinvNear", "erfinv(x) / x, w = -ln(1 - x^2) in [0, 6.25]", erfinv_quotient, 0, 6.25)
    table(lines, "ErfinvMiddle", "the same, sqrt w in [2.5, 5]", lambda s: erfinv_quotient(s * s), 2.5, 5)
    table(lines, "ErfinvFar", "the same divided by sqrt w, 1 / sqrt w in [1/27.5, 1/5]", lambda u: erfinv_quotient(1 / u**2) * u,
          1 / mpf("27.5"), mpf(1) / 5)
    table(lines, "ScaledErfc", "(1 + 2x) e^(x^2) erfc(x), t = 1 - 7.5 / (x + 3.75): Shepherd, Laframboise, Math. Comp. 36 (1981)",
          scaled_erfc, -1, 1, 90)
    table(lines, "I0Near", "e^-x I0(x), x in [0, 8]", bessel_scaled(0), 0, 8)
    table(lines, "I0Far", "sqrt x e^-x I0(x), 8 / x in [0, 1]", bessel_tail(0), 0, 1)
    table(lines, "I1Near", "e^-x I1(x) / x, x in [0, 8]", bessel_scaled(1), 0, 8)
    table(lines, "I1Far", "sqrt x e^-x I1(x), 8 / x in [0, 1]", bessel_tail(1), 0, 1)
    table(lines, "Lgamma", "lgamma(y) / ((y - 1) (y - 2)), y in [1, 2]", lgamma_quotient, 1, 2)
    table(lines, "Digamma", "digamma(y) / (y - its root), y in [1, 2]", digamma_quotient, 1, 2)
    lines.append(f"inline constexpr double kDigammaRoot = {number(ROOT)}, kDigammaRootRest = {number(ROOT - mpf(float(ROOT)))};")
    table(lines, "Log1pRemainder", "2 (m - ln(1 + m)) / m^2, m in [-1/2, 1]", log1p_remainder, mpf(-1) / 2, 1)
    lines.append("// c_k(eta) of DLMF 8.12.9, eta between kTemmeLow and kTemmeHigh (x / a in [1/2, 2]).")
    temme(lines)
    lines.append("// B_2j / (2j (2j - 1)): Stirling's series, DLMF 5.11.1.")
    lines.append(f"inline constexpr double kStirling[] = {{{', '.join(number(mp.bernoulli(2 * j) / (2 * j * (2 * j - 1))) for j in range(1, 10))}}};")
    lines.append("// B_2j / (2j): the series of digamma, DLMF 5.11.2.")
    lines.append(f"inline constexpr double kDigammaSeries[] = {{{', '.join(number(mp.bernoulli(2 * j) / (2 * j)) for j in range(1, 10))}}};")
    lines.append("// B_2j / (2j)!: the Euler-Maclaurin formula, DLMF 2.10.1.")
    lines.append(f"inline constexpr double kEulerMaclaurin[] = {{{', '.join(number(mp.bernoulli(2 * j) / mp.factorial(2 * j)) for j in range(1, 14))}}};")
    lines += ["// clang-format on", "", "}  // namespace rlx", ""]
    HEADER.write_text("\n".join(lines), encoding="ascii", newline="\n")


if __name__ == "__main__":
    main()
