"""What scripts/apple_check saw, read from the outputs of the programs that it ran, and the report made of it. No program is
started here, so that tests/coreml_framework/apple_check_test.py holds it to recorded outputs on any system.

It runs on the Python 3.9 that Xcode's command line tools bring, with nothing else.
"""

import html
import json
import re

UNITS = ("coreml:cpu", "coreml:gpu", "coreml:ane", "coreml")  # the last: Core ML chooses
SIGNALS = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGBUS", 11: "SIGSEGV", 15: "SIGTERM"}
MOST = 20  # lines of a table of the worst


def ended(code):
    """How a program ended, in words: "exit code 1", "SIGSEGV", "no end in time" (None)."""
    if code is None:
        return "no end in time"
    if code < 0:
        return SIGNALS.get(-code, f"signal {-code}")
    return f"exit code {code}"


# ---- machine ----


def parse_machine(outputs):
    """`outputs`: what each command of apple_check.MACHINE printed, or None where it could not be run."""

    def line(name, pattern=r"(.+)"):
        found = re.search(pattern, outputs.get(name) or "")
        return found.group(1).strip() if found else None

    memory = line("memory", r"(\d+)")
    return {
        "chip": line("chip"),
        "model": line("model"),
        "memory_gib": round(int(memory) / 2**30, 1) if memory else None,
        "macos": line("system", r"ProductVersion:\s*(\S+)"),
        "build": line("system", r"BuildVersion:\s*(\S+)"),
        "xcode": line("xcode", r"Xcode (\S+)"),
        "tools": line("tools", r"version:\s*(\S+)"),
        "clang": line("clang", r"(.*clang version [^\n]*)"),
        "sdk": line("sdk"),
        "cmake": line("cmake", r"cmake version (\S+)"),
    }


# ---- build ----


def parse_build(name, code, log):
    """The outcome of configuring or building, with the first things that went wrong."""
    errors = []
    lines = log.splitlines()
    for i, text in enumerate(lines):
        if re.search(r"\b(fatal )?error:|CMake Error|^FAILED:|ld: |Undefined symbols", text):
            # A CMake error says in the lines below what it is about.
            more = [following.strip() for following in lines[i + 1 : i + 6] if following.strip()] if "CMake Error" in text else []
            errors.append(" ".join([text.strip(), *more])[:600])
    missing = sorted(set(re.findall(r"([^\s].*?) was not found: run scripts/deps", " ".join(lines))))
    missing = [re.sub(r"^.*CMake Error.*?\(message\):\s*", "", each).strip() for each in missing]
    return {"step": name, "passed": code == 0, "ended": ended(code), "errors": errors[:MOST] if code != 0 else [],
            "missing": missing, "warnings": len(re.findall(r"\bwarning:", log))}  # fmt: skip


def missing_formulas(deps, installed):
    """The libraries that scripts/deps (its text) asks Homebrew for, and that `brew list` does not name. Its tools are left out: another
    build system and a cache of compilations are not needed."""
    wanted = re.search(r"brew_packages\(\).*?local wanted=\(([^)]*)\)", deps, re.S)
    names = [name for name in (wanted.group(1).split() if wanted else []) if name not in ("cmake", "ninja", "ccache")]
    return [name for name in names if name not in installed.split()]


# ---- tests ----


def parse_doctest(suite, code, text):
    """Each test case of a doctest program, from its XML; which may end anywhere, where the program did."""
    tests = []
    for piece in re.split(r"(?=<TestCase )", text)[1:]:
        name = re.match(r'<TestCase name="([^"]*)"', piece)
        if not name:
            continue  # cut within the tag
        name = html.unescape(name.group(1))
        if re.match(r"<TestCase [^>]*skipped=\"true\"", piece):
            continue
        result = re.search(r'<OverallResultsAsserts ([^>]*?)/>', piece)
        why = []
        for kind in ("Exception", "Original", "Message", "Text"):
            why += [html.unescape(found).strip() for found in re.findall(rf"<{kind}[^>]*>\s*(.*?)\s*</{kind}>", piece, re.S)]
        if not result:
            tests.append({"suite": suite, "test": name, "result": "crashed", "seconds": None,
                          "why": (why or [ended(code)])[0][:300]})  # fmt: skip
            continue
        passed = 'test_case_success="true"' in result.group(1)
        if "test_case_success" not in result.group(1):
            passed = re.search(r'failures="0"', result.group(1)) is not None
        seconds = re.search(r'duration="([^"]+)"', result.group(1))
        tests.append({"suite": suite, "test": name, "result": "passed" if passed else "failed",
                      "seconds": float(seconds.group(1)) if seconds else None,
                      "why": "" if passed else "; ".join(why)[:300] or "an assertion failed"})  # fmt: skip
    whole = "</doctest>" in text
    if not tests and not whole:
        tests.append({"suite": suite, "test": "(all)", "result": "crashed", "seconds": None, "why": f"no results: {ended(code)}"})
    elif not whole and all(t["result"] != "crashed" for t in tests):
        tests.append({"suite": suite, "test": "(behind the last)", "result": "crashed", "seconds": None,
                      "why": f"the results break off: {ended(code)}"})  # fmt: skip
    elif code not in (0, 1) and all(t["result"] == "passed" for t in tests):
        tests.append({"suite": suite, "test": "(the end)", "result": "crashed", "seconds": None, "why": ended(code)})
    return tests


# ---- ops beside the reference ----


def parse_json_list(text):
    """The objects of a JSON array that may break off, and whether it does."""
    try:
        return json.loads(text), True
    except ValueError:
        pass
    objects, decoder = [], json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            break
        objects.append(value)
        at = text.find("{", end)
    return objects, False


def parse_device(unit, code, text, said):
    """`rlx test-device UNIT --json`: every case, whether all are there, and why it did not run at all, or None."""
    why = None
    if not text:
        absent = re.search(r"rlx: error: (.*?(?:no neural engine|is not available|no CoreML.framework|no backend).*)", said)
        if absent:
            why = absent.group(1).strip()
    cases, whole = parse_json_list(text) if text else ([], False)
    return {"unit": unit, "cases": [case for case in cases if isinstance(case, dict) and "op" in case],
            "whole": whole, "not_run": why, "ended": ended(code)}  # fmt: skip


def summed(devices):
    """Over several runs of one unit."""
    totals = {}
    for device in devices:
        unit = totals.setdefault(device["unit"], {"agrees": 0, "refused": 0, "wrong": 0, "microseconds": 0.0, "timed": 0})
        for case in device["cases"]:
            judgement = case.get("judgement", "wrong")
            unit[judgement if judgement in ("agrees", "refused") else "wrong"] += 1
            if case.get("microseconds"):
                unit["microseconds"] += case["microseconds"]
                unit["timed"] += 1
    return totals


def largest_differences(devices, most=MOST):
    """The cases with the largest error, the worst first: what is wrong before what agrees."""
    rows = []
    for device in devices:
        for case in device["cases"]:
            if case.get("judgement") == "refused":
                continue
            rows.append({"unit": device["unit"], "op": case["op"], "operands": case.get("operands", ""), "judgement": case.get("judgement", "wrong"),
                         "error": case.get("error"), "why": case.get("why", "")})  # fmt: skip

    def worst(row):
        error = row["error"]
        number = isinstance(error, (int, float)) and error == error
        return (row["judgement"] == "agrees", -(error if number else float("inf")))

    return sorted(rows, key=worst)[:most]


# ---- placements ----


def parse_placement(model, unit, code, text, said):
    """`rlx where MODEL --target UNIT --json`: how many operations run where, and who says so."""
    row = {"model": model, "unit": unit, "by": None, "ops": {}, "why": None}
    try:
        value = json.loads(text)
        for op in value["ops"]:
            device = op.get("device") or "unsaid"
            row["ops"][device] = row["ops"].get(device, 0) + 1
        row["by"] = "rules" if value["prediction"] else "MLComputePlan"
    except (ValueError, KeyError, TypeError, AttributeError):
        first = (said.strip().splitlines() or [""])[0]
        row["why"] = first[:300] or f"no placement: {ended(code)}"
    return row


# ---- times ----


def parse_bench(device, case, code, text, said):
    """A line of `rlx bench`: the fastest and the middle of the runs in ms, and the result's first numbers."""
    row = {"device": device, "case": case, "fastest_ms": None, "middle_ms": None, "first_ms": None, "head": [], "why": None}
    for line in text.splitlines():
        try:
            value = json.loads(line)
            times = sorted(float(t) for t in value["times_ms"])
            if not times:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            continue
        row.update(fastest_ms=times[0], middle_ms=times[len(times) // 2], first_ms=value.get("first_ms"), head=value.get("head") or [])
    if row["fastest_ms"] is None:
        first = next((line for line in said.splitlines() if "error" in line), "")
        row["why"] = first[:300] or f"no time: {ended(code)}"
    return row


def apart_from_cpu(rows):
    """For each case and unit, how far the first numbers are from those of RLX's own CPU, as a part of the largest of them."""
    own = {row["case"]: row["head"] for row in rows if row["device"] == "cpu"}
    apart = {}
    for row in rows:
        head = own.get(row["case"])
        if row["device"] == "cpu" or not head or len(head) != len(row["head"]):
            continue
        if not all(isinstance(x, (int, float)) for x in head + row["head"]):
            apart[(row["case"], row["device"])] = float("inf")  # NaN and infinities are no JSON numbers
            continue
        largest = max(abs(x) for x in head) or 1.0
        apart[(row["case"], row["device"])] = max(abs(x - y) for x, y in zip(head, row["head"])) / largest
    return apart


# ---- the report ----


def failures(report):
    """What went wrong, a line each; what could not be run is in report["not_run"]."""
    wrong = [f"{step['step']}: {step['ended']}" for step in report["build"] if not step["passed"]]
    wrong += [f"{t['suite']}: '{t['test']}' {t['result']}" for t in report["tests"] if t["result"] != "passed"]
    for device in report["devices"]:
        bad = [c for c in device["cases"] if c.get("judgement") not in ("agrees", "refused")]
        if bad:
            wrong.append(f"{device['unit']}: {len(bad)} cases of {', '.join(sorted({c['op'] for c in bad})[:8])} are wrong")
        if not device["whole"] and not device["not_run"]:
            wrong.append(f"{device['unit']}: the cases of {device.get('ops', 'some ops')} break off ({device['ended']})")
    wrong += [f"placement of {p['model']} on {p['unit']}: {p['why']}" for p in report["placements"] if p["why"]]
    wrong += [f"{b['case']} on {b['device']}: {b['why']}" for b in report["times"] if b["why"]]
    return wrong


def number(value):
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def table(header, rows):
    def cell(value):
        return str(value).replace("|", "\\|").replace("\n", " ")

    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(map(cell, row)) + " |" for row in rows)]


def markdown(report):
    wrong, not_run = failures(report), report["not_run"]
    out = ["# RLX on Core ML", ""]
    out += [f"**{'FAILED' if wrong else 'Passed'}**: {len(wrong)} things went wrong, {len(not_run)} could not be run.", ""]
    if report.get("rehearsal"):
        out += ["**A rehearsal without CoreML.framework: packages ran by RLX's own front end on the CPU. Nothing here is a result of Core ML.**", ""]
    if wrong:
        out += ["## What went wrong", "", *(f"- {each}" for each in wrong), ""]
    out += ["## What could not be run", "", *(f"- {each}" for each in not_run or ["nothing was left out"]), ""]
    out += ["## Machine", "", *table(["", ""], [(k, "not known" if v is None else v) for k, v in report["machine"].items()]), ""]
    out += ["## Build", ""]
    out += table(["step", "outcome", "warnings"], [(s["step"], "done" if s["passed"] else s["ended"], s["warnings"]) for s in report["build"]])
    for step in report["build"]:
        out += [f"- missing: {each} (`scripts/apple_check --install` has Homebrew install it)" for each in step["missing"]]
        out += [f"- `{each}`" for each in step["errors"]]
    out += ["", "## Tests", ""]
    suites = {}
    for t in report["tests"]:
        suites.setdefault(t["suite"], []).append(t)
    out += table(["suite", "passed", "failed", "crashed", "seconds"],
                 [(name, *(sum(t["result"] == r for t in tests) for r in ("passed", "failed", "crashed")),
                   number(float(sum(t["seconds"] or 0 for t in tests)))) for name, tests in suites.items()])  # fmt: skip
    out += [""] + [f"- {t['suite']}: '{t['test']}' {t['result']}: {t['why']}" for t in report["tests"] if t["result"] != "passed"]
    out += ["", "<details><summary>each test</summary>", "", *table(["suite", "test", "result", "seconds"],
            [(t["suite"], t["test"], t["result"], number(t["seconds"])) for t in report["tests"]]), "", "</details>", ""]  # fmt: skip
    out += ["## Every op beside the reference, by compute units", ""]
    totals = summed(report["devices"])
    out += table(["units", "agree", "refused", "wrong", "mean us of a case"],
                 [(unit, t["agrees"], t["refused"], t["wrong"], number(t["microseconds"] / t["timed"] if t["timed"] else None))
                  for unit, t in totals.items()])  # fmt: skip
    out += ["", "The largest differences (error: |got - wanted| / (1 + |wanted|)):", ""]
    out += table(["units", "op", "operands", "judgement", "error", "why"],
                 [(r["unit"], r["op"], r["operands"], r["judgement"], number(r["error"]), r["why"]) for r in largest_differences(report["devices"])])  # fmt: skip
    out += ["", "## Where operations run", ""]
    devices = sorted({d for p in report["placements"] for d in p["ops"]})
    out += table(["model", "units", "said by", *devices],
                 [(p["model"], p["unit"], p["by"] or p["why"], *(p["ops"].get(d, 0) for d in devices)) for p in report["placements"]])  # fmt: skip
    out += ["", "## Times by compute units", "", "The fastest run in ms; behind it how far the result is from that of RLX on the CPU, as a part of the largest number.", ""]  # fmt: skip
    units = [u for u in ("cpu", *UNITS) if any(b["device"] == u for b in report["times"])]
    by = {(b["case"], b["device"]): b for b in report["times"]}
    apart = apart_from_cpu(report["times"])

    def time_cell(case, unit):
        row = by.get((case, unit))
        if row is None or row["fastest_ms"] is None:
            return "-" if row is None else "failed"
        far = apart.get((case, unit))
        return number(row["fastest_ms"]) + (f" ({number(far)})" if far is not None else "")

    out += table(["case", *(f"{u} (RLX)" if u == "cpu" else u for u in units)],
                 [(case, *(time_cell(case, u) for u in units)) for case in dict.fromkeys(b["case"] for b in report["times"])])  # fmt: skip
    return "\n".join(out) + "\n"
