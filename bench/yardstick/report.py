"""What the measured times say: statistics of each peer, and the table."""

import dataclasses
import math
import statistics

from . import suites


@dataclasses.dataclass
class Row:
    """A peer in one case. Times in milliseconds; `spread` is the distance of the quartiles over the median."""

    peer: str
    minimum: float
    median: float
    spread: float
    runs: int
    percent_of_limit: float = None
    first_ms: float = None
    peak_mib: float = None
    why_not_judged: str = ""  # it did not keep to the instruction set that all were to be measured with


def times_of(answer, threads):
    """With one thread the processor's time, which other programs hardly change; else the wall's."""
    return answer["cpu_ms"] if threads == 1 and answer.get("cpu_ms") else answer["times_ms"]


def percent_of_limit(case, milliseconds, limits):
    """Of the arithmetic or the bandwidth that the machine has; None where the case has no such bound."""
    bound = suites.limit_of(case)
    if not limits or not bound or milliseconds <= 0:
        return None
    work = suites.flops_of(case) if bound == "fma" else suites.bytes_of(case)
    return 100 * (work / milliseconds * 1e-6) / limits.of(bound)


def row_of(peer, case, answers, threads, limits):
    """`answers`: one for each round."""
    times = [t for answer in answers for t in times_of(answer, threads)]
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    median = statistics.median(times)
    first = "first_cpu_ms" if threads == 1 and all("first_cpu_ms" in a for a in answers) else "first_ms"
    firsts = [a[first] for a in answers if a.get(first) is not None]
    peaks = [a["peak_mib"] for a in answers if a.get("peak_mib") is not None]
    return Row(peer, min(times), median, (quartiles[2] - quartiles[0]) / median if median else 0.0, len(times),
               percent_of_limit(case, min(times), limits), min(firsts, default=None), max(peaks, default=None))  # fmt: skip


def differences(heads, tolerance=1e-3):
    """Peers whose first numbers differ from what most of the others have, beyond `tolerance` of the largest."""
    if len(heads) < 2:
        return []
    middle = [statistics.median(column) for column in zip(*heads.values())]
    scale = max(map(abs, middle), default=0) or 1
    return [p for p, h in heads.items() if any(not math.isclose(a, b, abs_tol=tolerance * scale) for a, b in zip(h, middle))]


def _number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}" if value < 1000 else f"{value:.0f}"


HEADER = """| case | peer | min ms | median ms | spread | min / best other | % of limit | first ms | peak MiB |
|---|---|---|---|---|---|---|---|---|"""


def _ratio(row, rows):
    """To the best of the others that are judged; "" for what is not judged itself."""
    others = [r.minimum for r in rows if r is not row and not r.why_not_judged]
    return f"{row.minimum / min(others):.2f}" if others and not row.why_not_judged else ""


def table_lines(case, rows, absent):
    """The case's lines of the table, the fastest first; the ratio is to the best of the others, so that below 1 is ahead.
    † marks what is shown, not judged."""
    lines = []
    for row in sorted(rows, key=lambda r: r.minimum):
        bound = suites.limit_of(case)
        percent = "" if row.percent_of_limit is None else f"{row.percent_of_limit:.0f} {bound}"
        name = row.peer + (" †" if row.why_not_judged else "")
        cells = [case, name, _number(row.minimum), _number(row.median), f"{100 * row.spread:.0f} %", _ratio(row, rows), percent,
                 _number(row.first_ms), _number(row.peak_mib)]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    for peer, why in absent.items():
        lines.append(f"| {case} | {peer} | {why} | | | | | | |")
    return lines


def footnotes(rows_of_cases):
    """What † means, a line for each row that has it. `rows_of_cases`: {case: rows}."""
    found = [f"- {row.peer}, {case}: {row.why_not_judged}"
             for case, rows in rows_of_cases.items() for row in rows if row.why_not_judged]  # fmt: skip
    return ["† not held to the instruction set asked for: shown, not judged, and no best other.", *found] if found else []
