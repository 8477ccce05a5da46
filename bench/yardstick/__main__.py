#!/usr/bin/env python3
"""RLX and its peers in turn on the same workloads, in one table.

    python3 bench/yardstick [SUITE...] [--threads T] [--rounds N] [--cases A,B] [--peers A,B] [--list]

Suites: kernels, minilm, bert, tagger, vision, start, train; default: kernels and minilm. For each case every program runs in turn, round after round
(A B C A B C), in a process of its own, so that what else the machine does meets all of them. Columns: the fastest and the
median run; the distance of the quartiles over the median; the fastest run over that of the best other program (below 1:
ahead); percent of the machine's limit that bounds the case (`build/release/bench/limits` measures it: multiply-adds,
bytes written and read, bytes read); the time to build, compile and run once; peak memory above what the process had.

With one thread, times are the processor's. A machine that is loaded or throttled is refused: --warn, or
RLX_ALLOW_THROTTLE=1, goes on and says so. The peers come from scripts/bench-deps, into .deps/bench; one that is not
installed is a row that says so. --ours adds another build of RLX, or takes another program in its place.

--isa NAME (sse4, avx2, avx512, avx512_vnni, amx, as RLX_ISA has them) hides from every program what the processor has
beyond that set: by CPUID faulting where processor and kernel have it, else by the variables that the programs' libraries
read. What each then executes is looked at (some 250 times a second, in runs that are not timed); a program whose
instructions go beyond is marked † and not judged: it is nobody's "best other". yardstick/isa.py says more.
"""

import argparse
import json
import os
import pathlib
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if not __package__:  # run as a folder
    sys.path[0] = str(ROOT / "bench")

from yardstick import isa, machine, peers, report, suites  # noqa: E402

NOTHING_HIDDEN = isa.Hiding()
SAMPLE_SECONDS = 1.0


def arguments(words):
    parser = argparse.ArgumentParser(prog="python3 bench/yardstick", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="kernels, minilm, bert, tagger, vision, start, train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iters", type=int, default=10, help="runs in a round")
    parser.add_argument("--budget", type=float, default=2, help="seconds of a round after which no run begins")
    parser.add_argument("--cases", help="names, with commas between")
    parser.add_argument("--peers", help="names, with commas between; empty: RLX alone")
    parser.add_argument("--ours", action="append", metavar="[NAME=]COMMAND",
                        help="what to run as RLX (default: build/release/bin/rlx bench)")  # fmt: skip
    parser.add_argument("--compute", choices=["f32", "bf16", "f16", "int8", "auto"], default="f32",
                        help="in what each program computes (default f32): RLX's option, OpenVINO's hint, PyTorch's autocast; int8: "
                        "ONNX Runtime's dynamic quantization, OpenVINO's by NNCF, PyTorch's dynamic one, of vision with scales of the image; auto: what each does if left to choose. What has no such choice keeps f32, and its name says so")  # fmt: skip
    parser.add_argument("--isa", metavar="NAME", help="the most that any program is to use of the processor's instructions: "
                        f"{', '.join(isa.SETS)} (default: what the processor has)")  # fmt: skip
    parser.add_argument("--limits", default=str(ROOT / "build/release/bench/limits"), help="the program that measures them")
    parser.add_argument("--python", default=str(ROOT / ".deps/bench/venv/bin/python"), help="that has the peers")
    parser.add_argument("--model", default=os.environ.get("RLX_MODEL"), help="folder of all-MiniLM-L6-v2 (default: where scripts/fetch_minilm.py leaves it)")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write every answer there")
    parser.add_argument("--list", action="store_true", help="the cases and peers of each suite, and which are installed")
    parser.add_argument("--warn", action="store_true", help="measure although the machine is loaded or throttled")
    options = parser.parse_args(words)
    options.suites = options.suites or ["kernels", "minilm"]
    for suite in options.suites:
        if suite not in suites.SUITES:
            parser.error(f"there is no suite '{suite}'; there are {', '.join(suites.SUITES)}")
    known = [c for suite in options.suites for c in suites.SUITES[suite]]
    options.cases = options.cases.split(",") if options.cases else known
    if unknown := [c for c in options.cases if c not in known]:
        parser.error(f"no case of {', '.join(options.suites)}: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.isa is not None and options.isa not in isa.SETS:
        parser.error(f"--isa {options.isa} is no instruction set; there are {', '.join(isa.SETS)}")
    if options.peers is not None:
        options.peers = [name for name in options.peers.split(",") if name] or ["none"]
        all_peers = {name for suite in options.suites for name in peers.PROGRAMS[suite]} | {"none"}
        if unknown := [name for name in options.peers if name not in all_peers]:
            parser.error(f"no peer of {', '.join(options.suites)}: {', '.join(unknown)}; there are {', '.join(sorted(all_peers - {'none'}))}")
    return options


def our_programs(options, environment):
    programs, compute = [], ["--compute", options.compute] if options.compute != "f32" else []
    for given in options.ours or [f"{ROOT / 'build/release/bin/rlx'} bench"]:
        name, separator, command = given.partition("=")
        if not separator or " " in name:
            name, command = "rlx", given
        programs.append(peers.Command(name, [*shlex.split(command), "--threads", str(options.threads), *compute], environment))
    return programs


def list_all(options):
    for suite in options.suites:
        print(f"{suite}: {', '.join(suites.SUITES[suite])}")
        for name, (_, _, packages) in peers.PROGRAMS[suite].items():
            missing = peers.missing_packages(options.python, packages)
            print(f"  {name}: {'not installed: ' + ', '.join(missing) if missing else 'installed'}")


def enough_samples(take):
    """The sums of up to three answers: a program that gets little of a loaded machine is seen at little in one."""
    counts = [0] * len(isa.SETS)
    for _ in range(3):
        counts = [a + b for a, b in zip(counts, take() or [0] * len(counts))]
        if sum(counts) >= isa.LEAST_SAMPLES:
            break
    return counts


def instructions_of(case, programs, failed, hiding):
    """{peer: samples of its instructions by set} of those that run, where something is hidden from them."""
    found = {}
    for program in programs if hiding.hidden else []:
        if program.name in failed:
            continue
        try:
            found[program.name] = enough_samples(lambda p=program: p.sample(case, SAMPLE_SECONDS, hiding.sampler))
        except peers.PeerError as error:
            failed[program.name] = str(error)
    return found


def run_case(case, programs, options, limits, hiding=NOTHING_HIDDEN):
    """(rows, {peer: why not}, answers, {peer: samples}) of one case: every program in each round, in turn."""
    answers, failed = {p.name: [] for p in programs}, {}
    for _ in range(options.rounds):
        for program in programs:
            if program.name in failed:
                continue
            try:
                answers[program.name].append(program.measure(case, options.iters, options.budget))
            except peers.PeerError as error:
                failed[program.name] = str(error)
    samples = instructions_of(case, programs, failed, hiding)
    rows = [report.row_of(name, case, given, options.threads, limits)
            for name, given in answers.items() if given and name not in failed]  # fmt: skip
    for row in rows:
        row.why_not_judged = isa.why_not_judged(hiding.isa, samples[row.peer]) if row.peer in samples else ""
    if suites.kind_of(case) == "train":  # each begins with weights of its own
        return rows, failed, answers, samples
    heads = {name: given[0]["head"] for name, given in answers.items() if given and given[0].get("head")}
    for name in report.differences(heads, {"f32": 1e-3, "int8": 0.1}.get(options.compute, 0.05)):
        print(f"yardstick: {case}: the numbers of {name} differ from the others'", file=sys.stderr)
    return rows, failed, answers, samples


def isa_record(hiding, rows, samples):
    """For --json: what was hidden, how, and which programs kept to it."""
    programs = {row.peer: {"hidden_by": hiding.way, "judged": not row.why_not_judged, "why_not_judged": row.why_not_judged,
                           "instructions": dict(zip(isa.SETS, samples.get(row.peer, [])))} for row in rows}  # fmt: skip
    return {"asked": hiding.isa, "hidden_by": hiding.way, "hidden": list(hiding.hidden), "programs": programs}


def limits_under(hiding, options, limits, environment):
    """(the limits that "percent of the limit" is of, a line that says what is hidden or "")."""
    if hiding.isa is None:
        return limits, ""
    if not hiding.hidden:
        return limits, f"--isa {hiding.isa}: this machine has no more, so nothing is hidden"
    line = f"--isa {hiding.isa}: hidden by {hiding.way}: {', '.join(hiding.hidden)}"
    if hiding.way == "cpuid":
        return machine.measure_limits(options.limits, options.threads, environment), line
    return None, line + "; % of limit is left out, as the limits cannot be measured with variables"


def main(words=None):
    options = arguments(sys.argv[1:] if words is None else words)
    if options.list:
        return list_all(options)
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "bench"), RLX_ROOT=str(ROOT),
                       YARDSTICK_COMPUTE=options.compute)
    cache = pathlib.Path(os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache/rlx")
    environment["RLX_MODEL"] = options.model or str(cache / "all-MiniLM-L6-v2")
    if options.compute != "f32" and "start" in options.suites:
        sys.exit("yardstick: the suite start is measured in f32 alone")
    try:
        hiding = isa.prepare(options.isa)
    except isa.IsaError as error:
        sys.exit(f"yardstick: {error}")
    environment = hiding.applied(environment)
    limits = machine.measure_limits(options.limits, options.threads)
    found = machine.look(limits)
    for complaint in found:
        print(f"yardstick: this machine: {complaint}", file=sys.stderr)
    if not machine.may_measure(found, options.warn):
        sys.exit("yardstick: refused; --warn (or RLX_ALLOW_THROTTLE=1) measures all the same")
    print(f"{machine.processor_name()}, threads: {options.threads}; " + (
        f"{limits.fma_gflops:.0f} GF/s of f32 multiply-adds, {limits.triad_gbs:.1f} GB/s written and read, {limits.read_gbs:.1f} GB/s read"
        if limits else f"limits not measured: {options.limits} is not built") + (" (measured on an unfit machine)" if found else ""))  # fmt: skip
    limits, line = limits_under(hiding, options, limits, environment)
    if line:
        print(line)
    print("\n" + report.HEADER, flush=True)
    everything, rows_of_cases = [], {}
    for suite in options.suites:
        of_suite = peers.environment_of(suite, options.python, environment)
        ready, absent = peers.peers_of(suite, options.python, options.threads, of_suite, options.peers)
        programs = our_programs(options, of_suite) + ready
        try:
            for case in suites.SUITES[suite]:
                if case not in options.cases:
                    continue
                rows, failed, answers, samples = run_case(case, programs, options, limits, hiding)
                rows_of_cases[case] = rows
                print("\n".join(report.table_lines(case, rows, failed | absent)), flush=True)
                everything.append({"case": case, "threads": options.threads, "answers": answers, "absent": failed | absent,
                                   "isa": isa_record(hiding, rows, samples)})  # fmt: skip
        finally:
            for program in programs:
                program.close()
    if notes := report.footnotes(rows_of_cases):
        print("\n" + "\n".join(notes))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything), encoding="utf-8")


if __name__ == "__main__":
    main()
