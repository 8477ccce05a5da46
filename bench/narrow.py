#!/usr/bin/env python3
"""Networks in f32, bf16 and 8 bits, RLX beside its peers, in one table of one run.

    python3 bench/narrow.py [--threads 1,2] [--cases A,B] [--rounds N] [--iters N] [--budget S] [--minutes M]

Three lines for each network and number of threads, and on each RLX's `--compute` beside what peers have of that kind:

    f32    ONNX Runtime (the faster of its model as it is and after its optimizer for transformers), OpenVINO told to use f32, PyTorch
    bf16   OpenVINO as it is by default, PyTorch's autocast (ONNX Runtime has no bf16 products for x86-64)
    int8   ONNX Runtime's quantize_dynamic, NNCF's quantize for OpenVINO, PyTorch's quantized layers

Networks: all-MiniLM-L6-v2, BERT-base and a tagger (an LSTM each way) of random weights, ResNet-50 and MobileNetV2 likewise. Programs
take turns on the same numbers, as in `bench/yardstick`, whose programs these are; a time is the fastest run, of the
processor on one thread, of the wall on more. Behind each time stands the least cosine of the rows of its result to those of
PyTorch in f32, and how many rows have their largest number where that has it (of embeddings: the same nearest row). The next
column is RLX's time over that of the fastest peer on the line, below 1 where RLX is ahead. The last is peak memory in MiB
above what each process had before the case, weights and compiling included, in the order of the columns: RLX, OpenVINO, ONNX
Runtime, PyTorch; of RLX, what its compiled graph holds stands in brackets: weights as they are kept, and arenas. The rest are
f32 weights, read from a file or drawn. What quantization needs once is kept in the cache; a first run takes some minutes more
for it. After --minutes no case begins, and those left out are named.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
from yardstick import machine, peers, report, suites  # noqa: E402

CASES = ["minilm_1x16", "minilm_1x128", "minilm_8x128", "minilm_32x128", "resnet50_1", "mobilenetv2_1", "bert_1x128", "tagger_8x64"]
# Of each line: the --compute of the yardstick's programs, and which of them take part with it.
LINES = {
    "f32": [("f32", ["onnxruntime", "onnxruntime-fused", "openvino", "pytorch"])],
    "bf16": [("auto", ["openvino"]), ("bf16", ["pytorch"])],
    "int8": [("int8", ["onnxruntime", "onnxruntime-fused", "openvino", "pytorch"])],
}
REFERENCE = ("f32", "pytorch")
HEADER = """| network | threads | in | RLX ms | OpenVINO | ONNX Runtime | PyTorch | RLX / best peer | peak MiB |
|---|---|---|---|---|---|---|---|---|"""


def suite_of(case):
    return next(suite for suite, cases in suites.SUITES.items() if case in cases or suites.kind_of(case) == suite)


def programs_of(suite, threads, options, environment):
    """{(line, name): program}, and {(line, name): why it cannot take part}."""
    ready, absent = {}, {}
    for line, kinds in LINES.items():
        ours = [*shlex.split(options.ours), "--threads", str(threads), *(["--compute", line] if line != "f32" else [])]
        ready[line, "rlx"] = peers.Command("rlx", ours, environment)
        for compute, names in kinds:
            found, missing = peers.peers_of(suite, options.python, threads, dict(environment, YARDSTICK_COMPUTE=compute), names)
            ready |= {(line, program.name): program for program in found}
            absent |= {(line, name): why for name, why in missing.items()}
    return ready, absent


def measured(case, programs, options, folder):
    """{(line, name): answers}, {(line, name): why not}, {(line, name): file of the result}."""
    answers, failed, files = {key: [] for key in programs}, {}, {}
    for turn in range(options.rounds):
        for key, program in programs.items():
            if key in failed:
                continue
            file = str(pathlib.Path(folder) / f"{'-'.join(key)}.npy") if turn == 0 else None
            try:
                answers[key].append(program.measure(case, options.iters, options.budget, file))
                files |= {key: file} if file else {}
            except peers.PeerError as error:
                failed[key] = str(error)
    return answers, failed, files


def agreements(case, files, options, environment):
    """{(line, name): {"cosine", "top1"}}"""
    if REFERENCE not in files:
        return {}
    words = ["--embeddings"] if suites.kind_of(case) in suites.ENCODERS else []
    command = [options.python, "-m", "yardstick.programs.agreement", *words, files[REFERENCE], *files.values()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return dict(zip(files, json.loads(done.stdout))) if done.returncode == 0 else {}


def cell(milliseconds, agreement):
    if milliseconds is None:
        return ""
    if not agreement:
        return f"{milliseconds:.3g}"
    top1 = "" if agreement["top1"] is None else f", {100 * agreement['top1']:.0f} %"
    return f"{milliseconds:.3g} ({agreement['cosine']:.5f}{top1})"


def peaks(answers):
    """The largest of what each program says of its memory, one text: "-" for who says nothing."""

    def most(given, what):
        return max((a[what] for a in given if a.get(what) is not None), default=None)

    known = [(most(given, "peak_mib"), most(given, "held_mib")) for given in answers]
    texts = ["-" if peak is None else f"{peak:.0f}" + (f" ({held:.0f})" if held is not None else "") for peak, held in known]
    return ", ".join(texts) if any(peak for peak, _ in known) else ""


def lines_of(case, threads, answers, failed, agreement):
    """The case's lines of the table."""
    lines = []
    for line in LINES:
        times = {name: min(t for a in given for t in report.times_of(a, threads))
                 for (of, name), given in answers.items() if of == line and given and (of, name) not in failed}  # fmt: skip
        columns, given = {}, []
        for column, names in {"rlx": ["rlx"], "openvino": ["openvino"], "onnxruntime": ["onnxruntime", "onnxruntime-fused"], "pytorch": ["pytorch"]}.items():
            best = min((n for n in names if n in times), key=times.get, default=None)
            columns[column] = (times[best], agreement.get((line, best))) if best else (None, None)
            given.append(answers[line, best] if best else [])
        others = [ms for column, (ms, _) in columns.items() if column != "rlx" and ms is not None]
        ours = columns["rlx"][0]
        ratio = f"{ours / min(others):.2f}" if ours is not None and others else ""
        cells = [case, str(threads), line, *(cell(*value) for value in columns.values()), ratio, peaks(given)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def arguments(words):
    parser = argparse.ArgumentParser(prog="python3 bench/narrow.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--cases", default=",".join(CASES), help="any of the yardstick's suites minilm, bert, tagger, vision")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--iters", type=int, default=12, help="runs in a round")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of a round after which no run begins")
    parser.add_argument("--minutes", type=float, default=20, help="after which no case begins")
    parser.add_argument("--ours", default=f"{ROOT / 'build/release/bin/rlx'} bench")
    parser.add_argument("--python", default=str(ROOT / ".deps/bench/venv/bin/python"), help="that has the peers")
    parser.add_argument("--model", default=os.environ.get("RLX_MODEL"), help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--warn", action="store_true", help="measure although the machine is loaded or throttled")
    options = parser.parse_args(words)
    options.threads = [int(t) for t in options.threads.split(",")]
    options.cases = options.cases.split(",")
    known = [case for suite in ("minilm", "bert", "tagger", "vision") for case in suites.SUITES[suite]]
    if unknown := [case for case in options.cases if case not in known]:
        parser.error(f"no case: {', '.join(unknown)}; there are {', '.join(known)}")
    return options


def main(words=None):
    options, begin = arguments(sys.argv[1:] if words is None else words), time.monotonic()
    cache = pathlib.Path(os.environ.get("RLX_CACHE") or pathlib.Path.home() / ".cache/rlx")
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "bench"), RLX_ROOT=str(ROOT), RLX_MODEL=options.model or str(cache / "all-MiniLM-L6-v2"))
    found = machine.look(None)
    for complaint in found:
        print(f"narrow: this machine: {complaint}", file=sys.stderr)
    if not machine.may_measure(found, options.warn):
        sys.exit("narrow: refused; --warn (or RLX_ALLOW_THROTTLE=1) measures all the same")
    print(f"{machine.processor_name()}: milliseconds (least cosine to PyTorch's f32, rows whose largest is the same)\n\n{HEADER}", flush=True)
    notes, left_out = set(), []
    for threads in options.threads:
        for suite in dict.fromkeys(map(suite_of, options.cases)):
            given = peers.environment_of(suite, options.python, environment)
            programs, absent = programs_of(suite, threads, options, given)
            notes |= {f"{line}, {name}, {suite}: {why}" for (line, name), why in absent.items()}
            try:
                for case in options.cases:
                    if suite_of(case) != suite:
                        continue
                    if time.monotonic() - begin > 60 * options.minutes:
                        left_out.append(f"{case} on {threads}")
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        answers, failed, files = measured(case, programs, options, folder)
                        agreement = agreements(case, files, options, given)
                    print("\n".join(lines_of(case, threads, answers, failed, agreement)), flush=True)
                    notes |= {f"{line}, {name}, {case}: {why}" for (line, name), why in failed.items()}
            finally:
                for program in programs.values():
                    program.close()
    print(f"\n{(time.monotonic() - begin) / 60:.1f} minutes")
    for note in sorted(notes):
        print(f"- {note}")
    if left_out:
        print(f"Left out, as --minutes had passed: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
