#!/usr/bin/env python3
"""The yardstick's arithmetic, its refusals, what it hides of the processor, and its rotation over programs that stand for
RLX and its peers."""

import contextlib
import ctypes
import importlib.util
import io
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import narrow  # noqa: E402
from yardstick import __main__ as yardstick  # noqa: E402
from yardstick import isa, machine, peers, report, suites  # noqa: E402

LIMITS = machine.Limits(threads=1, fma_gflops=100.0, fma_median_gflops=99.0, triad_gbs=10.0, read_gbs=8.0)

# Writes down who was asked what; its times are its own number, 1 ms more in each round.
FAKE = """
import json, os, sys
name, log, base = sys.argv[1], sys.argv[2], float(sys.argv[3])
def answer(case, iterations):
    with open(log, "a") as file:
        file.write(name + "\\n")
    rounds = open(log).read().split().count(name)
    return {"case": case, "times_ms": [base + rounds] * iterations, "cpu_ms": [base + rounds - 0.5] * iterations,
            "first_ms": 7 * base, "head": [1.0, base if name == "odd" else 2.0]}
if "--iters" in sys.argv:
    print(json.dumps(answer(sys.argv[-1], int(sys.argv[sys.argv.index("--iters") + 1]))))
else:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(request["case"], request["iterations"])), flush=True)
"""


class Counts(unittest.TestCase):
    def test_flops_and_bytes_by_hand(self):
        self.assertEqual(suites.flops_of("gemm_512"), 2 * 512**3)
        self.assertEqual(suites.flops_of("linear_16x1024x4096"), 2 * 16 * 1024 * 4096)
        self.assertEqual(suites.flops_of("sdpa_1x12x512x64"), 12 * 2 * (512 * 64 * 512) * 2)  # q kᵀ and the weighted sum
        self.assertEqual(suites.flops_of("conv3x3_8x64x56"), 2 * 8 * 64 * 64 * 9 * 56 * 56)
        # a layer of all-MiniLM-L6-v2 on S tokens: q, k, v and the output; scores and sums; the two of the inner part
        layer = 4 * 2 * 16 * 384 * 384 + 2 * 2 * 16 * 16 * 384 + 2 * 2 * 16 * 384 * 1536
        self.assertEqual(suites.flops_of("minilm_1x16"), 6 * layer)
        layer = 4 * 2 * 128 * 768 * 768 + 2 * 2 * 128 * 128 * 768 + 2 * 2 * 128 * 768 * 3072
        self.assertEqual(suites.flops_of("bert_1x128"), 12 * layer)
        # of a word: four gates of inputs and states in two directions, then 17 tags
        self.assertEqual(suites.flops_of("tagger_8x64"), 8 * 64 * (2 * 2 * 4 * 256 * (128 + 256) + 2 * 512 * 17))
        self.assertEqual(suites.bytes_of("softmax_4096x1024"), 2 * 4 * 4096 * 1024)
        self.assertEqual(suites.bytes_of("linear_1x4096x4096"), 4 * 4096 * 4096)
        self.assertEqual(suites.bytes_of("linear_16x1024x4096"), 0)

    def test_every_case_has_a_limit_but_training(self):
        for suite, cases in suites.SUITES.items():
            for case in cases:
                self.assertEqual(suites.limit_of(case) == "", suite in ("start", "train"), case)


class Statistics(unittest.TestCase):
    def test_a_row_by_hand(self):
        answers = [{"times_ms": [9, 9], "cpu_ms": [2.0, 4.0], "first_ms": 30, "peak_mib": 5},
                   {"times_ms": [9, 9, 9], "cpu_ms": [6.0, 8.0, 10.0], "first_ms": 20, "peak_mib": 7}]  # fmt: skip
        row = report.row_of("p", "gemm_512", answers, 1, LIMITS)
        self.assertEqual((row.minimum, row.median, row.runs, row.first_ms, row.peak_mib), (2, 6, 5, 20, 7))
        self.assertAlmostEqual(row.spread, (9 - 3) / 6)  # quartiles of 2 4 6 8 10
        # 2 * 512^3 operations in 2 ms, of 100 GF/s
        self.assertAlmostEqual(row.percent_of_limit, 134.2, delta=0.1)

    def test_with_more_threads_the_wall_counts(self):
        answers = [{"times_ms": [9.0], "cpu_ms": [2.0]}]
        self.assertEqual(report.row_of("p", "gemm_512", answers, 2, None).minimum, 9)
        self.assertEqual(report.row_of("p", "gemm_512", answers, 1, None).minimum, 2)
        answers[0] |= {"first_ms": 30, "first_cpu_ms": 20}
        self.assertEqual([report.row_of("p", "gemm_512", answers, threads, None).first_ms for threads in (1, 2)], [20, 30])

    def test_bandwidth_is_of_what_is_read_or_written(self):
        # 67 MB in 8 ms is 8.4 GB/s: of 8 read, of 10 written and read
        self.assertAlmostEqual(report.percent_of_limit("sumrow_4096x4096", 8, LIMITS), 104.9, delta=0.1)
        self.assertAlmostEqual(report.percent_of_limit("ewchain_4096x4096", 16, LIMITS), 83.9, delta=0.1)
        self.assertIsNone(report.percent_of_limit("train_mlp", 8, LIMITS))
        self.assertIsNone(report.percent_of_limit("gemm_512", 8, None))

    def test_the_odd_one_out_is_named(self):
        heads = {"a": [1.0, 2.0], "b": [1.0, 2.0005], "c": [1.0, 2.5]}
        self.assertEqual(report.differences(heads), ["c"])
        self.assertEqual(report.differences({"a": [1.0]}), [])

    def test_the_table_is_sorted_and_says_what_is_absent(self):
        rows = [report.Row("slow", 4, 5, 0.1, 10, 50, 20, None), report.Row("fast", 2, 3, 0.2, 10, 100, None, 6.4)]
        lines = report.table_lines("gemm_512", rows, {"absent": "not installed: absent"})
        self.assertEqual(lines[0], "| gemm_512 | fast | 2 | 3 | 20 % | 0.50 | 100 fma |  | 6.4 |")
        self.assertEqual(lines[1], "| gemm_512 | slow | 4 | 5 | 10 % | 2.00 | 50 fma | 20 |  |")
        self.assertIn("| gemm_512 | absent | not installed: absent |", lines[2])
        for line in lines:
            self.assertEqual(line.count("|"), report.HEADER.splitlines()[0].count("|"), line)


class Machine(unittest.TestCase):
    def test_the_busy_share_is_read_from_the_kernel(self):
        before, after = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1", "cpu  160 0 60 810 60 0 0 10 0 0\ncpu0 2"
        self.assertAlmostEqual(machine.busy_share(before, after), 80 / 100)  # 60 user, 10 system, 10 stolen; 20 idle
        self.assertEqual(machine.busy_share(before, before), 0)

    def test_what_is_refused(self):
        self.assertEqual(machine.complaints(0.05, LIMITS, 0), [])
        self.assertEqual(machine.complaints(None, None, None), [])
        throttled = machine.Limits(1, 100, 80, 10, 8)
        for found, word in ((machine.complaints(0.5, LIMITS, 0), "50 %"), (machine.complaints(0, throttled, 0), "80 %"),
                            (machine.complaints(0, LIMITS, 3), "3 times")):  # fmt: skip
            self.assertEqual(len(found), 1)
            self.assertIn(word, found[0])
            self.assertFalse(machine.may_measure(found, False, {}))
            self.assertTrue(machine.may_measure(found, True, {}))
            self.assertTrue(machine.may_measure(found, False, {"RLX_ALLOW_THROTTLE": "1"}))
        self.assertTrue(machine.may_measure([], False, {}))


class Rotation(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.log, self.fake = pathlib.Path(holder.name) / "log", pathlib.Path(holder.name) / "fake.py"
        self.fake.write_text(FAKE, encoding="utf-8")
        self.log.write_text("", encoding="utf-8")

    def command(self, name, base):
        return [sys.executable, str(self.fake), name, str(self.log), str(base)]

    def run_case(self, programs, rounds=2, hiding=yardstick.NOTHING_HIDDEN):
        options = yardstick.arguments(["--rounds", str(rounds), "--iters", "3"])
        for program in programs:
            self.addCleanup(program.close)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            found = yardstick.run_case("gemm_512", programs, options, LIMITS, hiding)
        return *found, errors.getvalue()

    def test_programs_take_turns(self):
        programs = [peers.Command("ours", self.command("ours", 10), None), peers.Server("a", self.command("a", 20), None),
                    peers.Server("b", self.command("b", 30), None)]  # fmt: skip
        rows, failed, _, _, errors = self.run_case(programs)
        self.assertEqual(self.log.read_text().split(), ["ours", "a", "b", "ours", "a", "b"])
        self.assertEqual((failed, errors), ({}, ""))
        # times of the first round are one above the base, of the second two; the processor's are half a millisecond less
        self.assertEqual([(r.peer, r.minimum, r.median, r.runs) for r in rows],
                         [("ours", 10.5, 11, 6), ("a", 20.5, 21, 6), ("b", 30.5, 31, 6)])  # fmt: skip

    def test_a_peer_that_fails_is_a_row_and_the_others_go_on(self):
        bad = [sys.executable, "-c", "import sys; sys.exit('no such library')"]
        programs = [peers.Server("bad", bad, None), peers.Command("worse", bad, None), peers.Server("a", self.command("a", 20), None)]
        rows, failed, *_ = self.run_case(programs)
        self.assertEqual([r.peer for r in rows], ["a"])
        self.assertIn("no such library", failed["bad"])
        self.assertIn("no such library", failed["worse"])

    def test_an_error_of_many_lines_is_one_cell(self):
        with self.assertRaises(peers.PeerError) as error:
            peers._answer(json.dumps({"case": "gemm_512", "error": "RuntimeError: at\nbad combination\n\n"}))
        self.assertEqual(str(error.exception), "RuntimeError: at bad combination")

    def test_numbers_that_differ_are_told(self):
        programs = [peers.Server(n, self.command(n, 20), None) for n in ("a", "b", "odd")]
        self.assertIn("gemm_512: the numbers of odd differ", self.run_case(programs, rounds=1)[-1])

    def test_who_goes_beyond_the_set_is_shown_and_not_judged(self):
        counts = {"ours": [300, 0, 0, 0, 0], "wide": [40, 260, 0, 0, 0], "held": [299, 1, 0, 0, 0], "short": [5, 0, 0, 0, 0]}
        asked = []
        programs = []
        for base, (name, samples) in enumerate(counts.items(), 1):
            program = peers.Command(name, self.command(name, 10 * base), None)
            program.sample = lambda case, budget, library, name=name, samples=samples: asked.append(name) or samples
            programs.append(program)
        hiding = isa.Hiding("sse4", "variables", ("avx2",), {}, "library")
        rows, failed, _, samples, _ = self.run_case(programs, 1, hiding)
        self.assertEqual((failed, samples), ({}, counts | {"short": [15, 0, 0, 0, 0]}))
        self.assertEqual(asked, ["ours", "wide", "held", "short", "short", "short"])  # as long as it was seen too rarely
        self.assertEqual([(r.peer, bool(r.why_not_judged)) for r in rows],
                         [("ours", False), ("wide", True), ("held", False), ("short", True)])  # fmt: skip
        # 10.5 ms over 30.5 of `held`: neither `wide` nor `short` is anybody's best other
        ratios = {line.split("|")[2].strip(): line.split("|")[6].strip() for line in report.table_lines("gemm_512", rows, {})}
        self.assertEqual(ratios, {"ours": "0.34", "wide †": "", "held": "2.90", "short †": ""})
        notes = report.footnotes({"gemm_512": rows})
        self.assertEqual(len(notes), 3)
        self.assertIn("- wide, gemm_512: 87 % of 300 instructions that were looked at are beyond sse4, up to avx2", notes)
        record = yardstick.isa_record(hiding, rows, samples)
        self.assertEqual((record["asked"], record["hidden_by"], record["hidden"]), ("sse4", "variables", ["avx2"]))
        self.assertEqual(record["programs"]["wide"]["judged"], False)
        self.assertEqual(record["programs"]["wide"]["instructions"]["avx2"], 260)
        self.assertEqual(record["programs"]["held"]["judged"], True)

    def test_nobody_is_looked_at_where_nothing_is_hidden(self):
        def sample(*_):
            raise AssertionError("sampled")

        program = peers.Command("ours", self.command("ours", 10), None)
        program.sample = sample
        for hiding in (isa.Hiding(), isa.Hiding("avx2")):
            rows, *_ = self.run_case([program], 1, hiding)
            self.assertEqual([(r.peer, r.why_not_judged) for r in rows], [("ours", "")])


def cpu_flags(*names):
    return set(" ".join(names).split())


SSE4 = "sse4_1 sse4_2"
ZEN3 = SSE4 + " avx f16c fma avx2 vaes vpclmulqdq"
SKYLAKE = SSE4 + " avx f16c fma avx2 avx512f avx512cd avx512dq avx512bw avx512vl"
SAPPHIRE_RAPIDS = SKYLAKE + " avx_vnni avx512_bf16 avx512_vnni avx512_fp16 amx_bf16 amx_tile amx_int8"
IS_X86_LINUX = platform.system() == "Linux" and platform.machine() == "x86_64"


class InstructionSets(unittest.TestCase):
    def test_the_names_are_those_of_rlx_isa(self):
        source = (ROOT / "src/kernels/vector/instruction_set.cpp").read_text(encoding="utf-8")
        names = source.split("kNames[] = {", 1)[1].split("}", 1)[0].replace('"', "").replace(",", " ").split()
        # Nobody can be denied what every x86-64 has: scalar is RLX's alone.
        self.assertEqual([n for n in names if not n.startswith("neon") and n != "scalar"], list(isa.SETS))

    def test_what_a_processor_has(self):
        for flags, best in ((SSE4, "sse4"), (ZEN3, "avx2"), (ZEN3 + " avx_vnni", "avx2"), (SKYLAKE, "avx512"),
                            (SKYLAKE + " avx512_bf16", "avx512_vnni"), (SAPPHIRE_RAPIDS, "amx"), ("sse2", None),
                            (ZEN3 + " avx512f", "avx2"), (SKYLAKE.replace("fma", ""), "sse4")):  # fmt: skip
            self.assertEqual(isa.best_of(cpu_flags(flags)), best, flags)

    def test_what_is_hidden_of_it(self):
        self.assertEqual(isa.hidden_features("avx2", cpu_flags(ZEN3)), ())
        self.assertEqual(isa.hidden_features("sse4", cpu_flags(ZEN3)), ("avx", "avx2", "f16c", "fma", "vaes", "vpclmulqdq"))
        self.assertEqual(isa.hidden_features("avx2", cpu_flags(ZEN3, "avx_vnni")), ("avx_vnni",))
        beyond = ("amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx_vnni")
        self.assertEqual(isa.hidden_features("avx512", cpu_flags(SAPPHIRE_RAPIDS)), beyond)
        self.assertEqual(isa.hidden_features("avx512_vnni", cpu_flags(SAPPHIRE_RAPIDS)), ("amx_bf16", "amx_int8", "amx_tile", "avx512_fp16"))
        self.assertEqual(isa.hidden_features("amx", cpu_flags(SAPPHIRE_RAPIDS)), ())

    def test_the_bits_of_cpuid(self):
        """Against Intel's Software Developer's Manual, volume 2A, CPUID."""
        self.assertEqual(isa.cpuid_rules("amx"), "")
        tiles = dict(rule.rsplit(":", 1) for rule in isa.cpuid_rules("avx512_vnni").split(","))
        self.assertEqual(tiles, {"7:0:3": f"{1 << 22 | 1 << 23 | 1 << 24 | 1 << 25:x}", "7:1:0": f"{1 << 21:x}",
                                 "7:1:3": f"{1 << 8 | 1 << 19:x}", "d:0:0": f"{1 << 17 | 1 << 18:x}",
                                 **{f"{leaf}:*:{register}": "ffffffff" for leaf in ("1d", "1e", "24") for register in range(4)}})  # fmt: skip
        rules = dict(rule.rsplit(":", 1) for rule in isa.cpuid_rules("sse4").split(","))
        self.assertEqual(rules["1:*:2"], f"{1 << 12 | 1 << 28 | 1 << 29:x}")
        self.assertEqual(rules["d:0:0"], f"{1 << 2 | 7 << 5 | 3 << 17:x}")
        self.assertEqual(int(rules["7:0:1"], 16) >> 5 & 1, 1)
        self.assertNotIn("1:*:2", isa.cpuid_rules("avx2"))

    @unittest.skipUnless(IS_X86_LINUX, "--isa is for x86-64 on Linux")
    def test_what_is_refused_and_what_is_trivial(self):
        with self.assertRaises(isa.IsaError) as error:
            isa.prepare("avx512", cpu_flags(ZEN3))
        self.assertIn("--isa avx512: this machine has avx2 at most; take one of sse4, avx2", str(error.exception))
        for name, flags in ((None, ZEN3), ("avx2", ZEN3), ("amx", SAPPHIRE_RAPIDS)):
            hiding = isa.prepare(name, cpu_flags(flags))
            self.assertEqual((hiding.isa, hiding.way, hiding.hidden, hiding.environment), (name, "nothing", (), {}))

    @unittest.skipUnless(IS_X86_LINUX and shutil.which("cc"), "needs a C compiler on x86-64")
    def test_the_variables(self):
        hiding = isa.prepare("avx2", cpu_flags(SKYLAKE), by_kernel=False)
        self.assertEqual(hiding.way, "variables")
        found = hiding.applied({"XLA_FLAGS": "--a", "RLX_ISA": "native", "GLIBC_TUNABLES": "glibc.malloc.check=1", "HOME": "/h"})
        self.assertEqual((found["RLX_ISA"], found["ONEDNN_MAX_CPU_ISA"], found["ATEN_CPU_CAPABILITY"], found["HOME"]),
                         ("avx2", "AVX2", "avx2", "/h"))  # fmt: skip
        self.assertEqual(found["XLA_FLAGS"], "--a --xla_cpu_max_isa=AVX2")
        self.assertEqual(found["GLIBC_TUNABLES"], "glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW")
        self.assertNotIn("LD_PRELOAD", found)
        self.assertNotIn("FBGEMM_ENABLE_INSTRUCTIONS", isa.variables_of("sse4"))  # it knows none so small
        self.assertEqual(isa.variables_of("avx512_vnni")["ONEDNN_MAX_CPU_ISA"], "AVX512_CORE_BF16")
        for values in isa.VARIABLES.values():
            self.assertEqual(len(values), len(isa.SETS) - 1)

    def test_how_many_samples_are_enough(self):
        self.assertEqual(isa.why_not_judged("avx2", [10, 40, 0, 0, 0]), "")
        self.assertEqual(isa.why_not_judged("avx2", [10, 89, 0, 1, 0]), "")
        self.assertIn("up to amx", isa.why_not_judged("avx2", [10, 80, 5, 0, 5]))
        self.assertIn("10 % of 100", isa.why_not_judged("avx2", [10, 80, 5, 0, 5]))
        self.assertIn("only 0", isa.why_not_judged("avx2", []))

    def test_limits_are_measured_with_what_is_left_or_left_out(self):
        options = yardstick.arguments(["--isa", "sse4", "--limits", "/no/such/program"])
        self.assertEqual(yardstick.limits_under(isa.Hiding(), options, LIMITS, {}), (LIMITS, ""))
        self.assertIs(yardstick.limits_under(isa.Hiding("avx2"), options, LIMITS, {})[0], LIMITS)
        limits, line = yardstick.limits_under(isa.Hiding("sse4", "variables", ("avx2",)), options, LIMITS, {})
        self.assertIsNone(limits)
        self.assertIn("% of limit is left out", line)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "limits"
            held = {"threads": 1, "fma_gflops": 40, "fma_median_gflops": 40, "triad_gbs": 10, "read_gbs": 8}
            program.write_text(f"#!/bin/sh\n[ \"$YARDSTICK_HIDE\" ] && echo '{json.dumps(held)}'\n", encoding="utf-8")
            program.chmod(0o755)
            options.limits = str(program)
            hiding = isa.Hiding("sse4", "cpuid", ("avx2",), {"YARDSTICK_HIDE": "7:0:1:20"})
            found, _ = yardstick.limits_under(hiding, options, LIMITS, hiding.applied(os.environ))
            self.assertEqual(found.fma_gflops, 40)


# Runs CPUID where it faults: its two bytes end a page that may not be executed, and the next page goes on. The fault that
# the processor raises then is not CPUID's own, so that the handler passes it on to the program's, which says that it is;
# all after that is what happens under faulting. With a fourth argument, a fault that nobody handles.
FAULT = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

void hide_on_fault(int, siginfo_t*, void*);
int hide_parse(const char*);
int hide_install(void);
static int faults = 0;

static void as_if_of_cpuid(int number, siginfo_t* info, void* context) {
  ++faults;
  info->si_code = SI_KERNEL;
  hide_on_fault(number, info, context);
}

int main(int argc, char** argv) {
  if (argc < 4 || hide_parse(argv[1]) < 0 || hide_install() != 0) return 2;
  if (argc > 4) *(volatile int*)0 = 1;
  uint8_t* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(pages + 4094, "\x0F\xA2", 2);
  pages[4096] = 0xC3;
  mprotect(pages, 4096, PROT_READ);
  mprotect(pages + 4096, 4096, PROT_READ | PROT_EXEC);
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  action.sa_sigaction = as_if_of_cpuid;
  struct sigaction old = {.sa_handler = SIG_IGN};
  sigaction(SIGSEGV, &action, &old);
  if (old.sa_handler != SIG_DFL) return 3;  // the program does not see the handler that was there before its own
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  for (int is_plain = 0; is_plain < 2; ++is_plain) {
    uint32_t a = strtoul(argv[2], NULL, 16), c = strtoul(argv[3], NULL, 16), b, d;
    if (is_plain)
      __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    else
      __asm__ volatile("call *%4" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : "r"(pages + 4094) : "memory");
    printf("%u %u %u %u\n", a, b, c, d);
  }
  printf("%d\n", faults);
}
"""


@unittest.skipUnless(IS_X86_LINUX and shutil.which("cc"), "needs a C compiler on x86-64")
class HiddenCpuid(unittest.TestCase):
    """hide_cpu_features.c but for the faulting itself, which few processors have."""

    def setUp(self):
        self.library = ctypes.CDLL(isa.compiled_handler())

    def masked(self, leaf, subleaf, registers):
        given = (ctypes.c_uint32 * 4)(*registers)
        self.library.hide_mask(ctypes.c_uint32(leaf), ctypes.c_uint32(subleaf), given)
        return list(given)

    def test_bits_are_taken_from_the_leaf_that_is_asked(self):
        full = [isa.WHOLE] * 4
        self.assertGreater(self.library.hide_parse(isa.cpuid_rules("avx512").encode()), 0)
        self.assertEqual(self.masked(7, 0, full), [isa.WHOLE, isa.WHOLE, isa.WHOLE ^ 1 << 11, isa.WHOLE ^ 0xF << 22])
        self.assertEqual(self.masked(7, 2, full), full)
        self.assertEqual(self.masked(1, 0, full), full)
        self.assertEqual(self.masked(0x1E, 5, full), [0] * 4)
        self.library.hide_parse(isa.cpuid_rules("sse4").encode())
        self.assertEqual(self.masked(1, 99, full)[2], isa.WHOLE ^ (1 << 12 | 1 << 28 | 1 << 29))  # whatever ecx held
        self.assertEqual(self.masked(0x80000001, 0, full)[2], isa.WHOLE ^ (1 << 11 | 1 << 16))
        self.assertEqual(self.masked(0xD, 1, full), full)

    def test_rules_that_are_none(self):
        for text in ("7", "7:0", "7:0:1", "7:0:4:20", "7:0:1:", "7:0:1:20 ", "x:0:1:20", "7:0:1:20," + "1:0:0:1," * 64):
            self.assertEqual(self.library.hide_parse(text.encode()), -1, text)
        self.assertEqual(self.library.hide_parse(b"7:0:1:20,1d:*:3:ffffffff"), 2)

    def test_a_fault_is_answered_and_the_program_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "fault.c", pathlib.Path(folder) / "fault"
            source.write_text(FAULT, encoding="utf-8")
            subprocess.run(["cc", "-O1", str(source), isa.compiled_handler(), "-o", str(program)], check=True)
            for leaf, subleaf, rules, masks in (("7", "0", "7:0:1:fffffff0,7:0:3:3", (0, 0xFFFFFFF0, 0, 3)), ("0", "0", "7:0:1:20", (0,) * 4)):
                done = subprocess.run([str(program), rules, leaf, subleaf], capture_output=True, text=True, check=True)
                faulted, plain, faults = ([int(v) for v in line.split()] for line in done.stdout.splitlines())
                self.assertEqual(faults, [1])  # the second time it ran where it may
                self.assertEqual(faulted, [v & ~m for v, m in zip(plain, masks)])
                self.assertNotEqual(plain, [0] * 4)
            crashed = subprocess.run([str(program), "7:0:1:20", "7", "0", "crash"], capture_output=True, check=False)
            self.assertEqual(crashed.returncode, -signal.SIGSEGV)

    def test_a_program_is_not_run_with_what_could_not_be_hidden(self):
        environment = {**os.environ, "LD_PRELOAD": isa.compiled_handler(), "YARDSTICK_HIDE": "7:0:1"}
        done = subprocess.run([sys.executable, "-c", "print('ran')"], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual((done.returncode, done.stdout), (127, ""))
        self.assertIn("YARDSTICK_HIDE=7:0:1", done.stderr)

    @unittest.skipUnless(isa.kernel_hides() if IS_X86_LINUX else False, "this processor has no CPUID faulting")
    def test_faulting_itself(self):
        rules = isa.cpuid_rules("sse4")
        self.assertEqual(isa.check_preload(isa.compiled_handler(), {"LD_PRELOAD": isa.compiled_handler(), "YARDSTICK_HIDE": rules}), "")


# What `as` makes of an instruction, and the set that it needs.
ENCODED = {
    "sse4": ["0f 58 c1", "f3 0f 58 c1", "66 0f 38 40 c1", "48 89 c8", "c4 e2 70 f2 c2", "c4 e2 f3 f6 c2", "c4 e3 7b f0 c1 05",
             "0f a2", "c3"],  # addps, addss, pmulld, mov, andn, mulx, rorx
    "avx2": ["c5 f0 58 c2", "c5 f4 58 c2", "c4 e2 75 b8 c2", "c4 e2 7d 13 c1", "c5 f8 77", "c4 e3 75 46 c2 31",
             "65 c5 fc 28 00", "67 c5 fc 28 00"],  # vaddps, vfmadd231ps, vcvtph2ps, vzeroupper, vperm2i128, vmovaps
    "avx512": ["62 f1 74 48 58 c2", "62 f2 75 48 b8 c2", "62 f1 74 28 58 c2", "c5 f8 92 c8", "c5 f4 41 c2", "c4 e3 f9 32 c9 01"],
    "avx512_vnni": ["62 f2 75 48 50 c2", "c4 e2 75 50 c2", "62 f2 76 48 52 c2", "62 f2 7e 48 72 c1", "c4 e2 73 50 c2"],
    "amx": ["c4 e2 72 5c c2", "c4 e2 73 5e c2", "c4 e2 7b 4b 04 08", "c4 e2 78 49 c0", "62 f5 74 48 58 c2", "62 f6 75 48 b8 c2"],
}  # fmt: skip

# Both programs run for half a second of the processor's time, however fast it is: 125 samples, where 20 are needed.
LOOP = r"""
#include <stdio.h>
#include <time.h>
int main(void) {
  while (clock() < CLOCKS_PER_SEC / 2)
    for (int i = 0; i < 1000000; ++i) __asm__ volatile("INSTRUCTION \n INSTRUCTION \n INSTRUCTION");
  return puts("{\"times_ms\": [1]}") < 0;
}
"""

COPIES = r"""
#include <stdio.h>
#include <string.h>
#include <time.h>
static char from[65536], to[65536];
int main(void) {
  void* (*volatile copy)(void*, const void*, size_t) = memcpy;
  while (clock() < CLOCKS_PER_SEC / 2)
    for (int i = 0; i < 50000; ++i) copy(to, from, 1500);
  return puts("{\"times_ms\": [1]}") < 0;
}
"""


@unittest.skipUnless(IS_X86_LINUX and shutil.which("cc"), "needs a C compiler on x86-64")
class SampledInstructions(unittest.TestCase):
    def test_the_set_that_an_instruction_needs(self):
        set_of = ctypes.CDLL(isa.compiled("sample_instructions.c")).set_of_instruction
        for name, instructions in ENCODED.items():
            for text in instructions:
                self.assertEqual(isa.SETS[set_of(bytes.fromhex(text))], name, text)

    def test_a_program_is_seen_at_what_it_executes(self):
        """A loop of SSE or of AVX, in a program of its own, as `rlx bench` is."""
        library = isa.compiled("sample_instructions.c")
        with tempfile.TemporaryDirectory() as folder:
            for instruction, at in (("addps %xmm1, %xmm1", 0), ("vaddps %xmm1, %xmm1, %xmm1", 1)):
                if at and "avx" not in isa.cpu_flags():
                    continue
                source, program = pathlib.Path(folder) / f"{at}.c", pathlib.Path(folder) / f"{at}"
                source.write_text(LOOP.replace("INSTRUCTION", instruction), encoding="utf-8")
                subprocess.run(["cc", "-O2", str(source), "-o", str(program)], check=True)
                counts = peers.Command("p", [str(program)], None).sample("gemm_512", 1, library)
                self.assertGreater(sum(counts), isa.LEAST_SAMPLES)
                self.assertEqual(isa.why_not_judged("sse4", counts) == "", at == 0, counts)
                self.assertEqual(isa.why_not_judged("avx2", counts), "")

    @unittest.skipUnless("avx2" in isa.cpu_flags(), "this processor has no AVX2")
    def test_the_c_library_is_held_too(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "copies.c", pathlib.Path(folder) / "copies"
            source.write_text(COPIES, encoding="utf-8")
            subprocess.run(["cc", "-O2", str(source), "-o", str(program)], check=True)
            environment = {**os.environ, "GLIBC_TUNABLES": isa.glibc_tunables("sse4")}
            counts = peers.Command("p", [str(program)], environment).sample("gemm_512", 1, isa.compiled("sample_instructions.c"))
            self.assertEqual(isa.why_not_judged("sse4", counts), "", counts)

    def test_a_server_counts_what_runs_between(self):
        from yardstick import serve

        with serve.sampled(isa.compiled("sample_instructions.c")) as counts:
            end = sum(os.times()[:2]) + 0.3
            while sum(os.times()[:2]) < end:
                pass
        self.assertEqual(len(counts), len(isa.SETS))
        self.assertGreater(sum(counts), 10)
        with serve.sampled(None) as counts:
            pass
        self.assertEqual(counts, [])


class ReducedPrecision(unittest.TestCase):
    ANSWERS = {("f32", "rlx"): [{"times_ms": [9], "cpu_ms": [4.0], "peak_mib": 30.4}, {"times_ms": [9], "cpu_ms": [3.0], "peak_mib": 31.6, "held_mib": 7.2}],
               ("f32", "onnxruntime"): [{"times_ms": [9], "cpu_ms": [6.0]}],
               ("f32", "onnxruntime-fused"): [{"times_ms": [9], "cpu_ms": [5.0]}],
               ("f32", "pytorch"): [{"times_ms": [9], "cpu_ms": [8.0], "peak_mib": 70.0}],
               ("bf16", "rlx"): [{"times_ms": [2.0], "cpu_ms": [2.0]}],
               ("bf16", "openvino"): [{"times_ms": [1.0], "cpu_ms": [1.0]}],
               ("int8", "rlx"): [{"times_ms": [1.0], "cpu_ms": [1.0]}], ("int8", "pytorch"): []}  # fmt: skip

    def test_the_lines_of_a_case(self):
        agreement = {("f32", "rlx"): {"cosine": 1.0, "top1": None}, ("bf16", "openvino"): {"cosine": 0.9998, "top1": 0.96875}}
        lines = narrow.lines_of("minilm_1x16", 1, self.ANSWERS, {("int8", "pytorch"): "why"}, agreement)
        self.assertEqual(lines, ["| minilm_1x16 | 1 | f32 | 3 (1.00000) |  | 5 | 8 | 0.60 | 32 (7), -, -, 70 |",
                                 "| minilm_1x16 | 1 | bf16 | 2 | 1 (0.99980, 97 %) |  |  | 2.00 |  |",
                                 "| minilm_1x16 | 1 | int8 | 1 |  |  |  |  |  |"])  # fmt: skip
        for line in lines:
            self.assertEqual(line.count("|"), narrow.HEADER.splitlines()[0].count("|"), line)
        self.assertIn("| f32 | 9 |", narrow.lines_of("minilm_1x16", 2, self.ANSWERS, {}, {})[0])  # the wall

    def test_every_program_that_a_line_names_can_be_asked_so(self):
        for line, kinds in narrow.LINES.items():
            for compute, names in kinds:
                for suite in map(narrow.suite_of, narrow.CASES):
                    for name in names:
                        if name in peers.PROGRAMS[suite] and compute != "f32":
                            known = (suite, name) in peers.TAKES_INT8 if compute == "int8" else name in peers.TAKES_FLOATS
                            self.assertTrue(known, (line, suite, name))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_agreement_by_hand(self):
        import numpy as np
        from yardstick.programs import agreement

        reference, result = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[4.0, 3.0], [2.0, 0.0]])
        self.assertEqual(agreement.compare(reference, reference, False), {"cosine": 1.0, "top1": 1.0})
        found = agreement.compare(reference, result, False)
        self.assertAlmostEqual(found["cosine"], 24 / 25)
        self.assertEqual(found["top1"], 0.5)
        rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        self.assertEqual(agreement.compare(rows, rows[:, ::-1], True)["top1"], 1.0)  # the same neighbours
        self.assertIsNone(agreement.compare(reference, result, True)["top1"])


class Program(unittest.TestCase):
    def yardstick(self, *words, **environment):
        return subprocess.run([sys.executable, str(ROOT / "bench/yardstick"), *words], capture_output=True, text=True,
                              check=False, env=environment or None)  # fmt: skip

    def test_the_list_says_what_is_not_installed(self):
        done = self.yardstick("--list", "train", "--python", "/no/such/python")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("train: train_mlp, train_cnn, train_encoder", done.stdout)
        self.assertIn("pytorch: not installed: torch", done.stdout)

    def test_wrong_names_are_refused_with_those_that_there_are(self):
        for words, wanted in ((["kernel"], "there is no suite 'kernel'"), (["--cases", "gemm_1"], "gemm_512"),
                              (["--peers", "tensorflow"], "onnxruntime"), (["--isa", "avx"], "sse4, avx2, avx512")):  # fmt: skip
            done = self.yardstick(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(wanted, done.stderr)

    def test_a_throttled_machine_is_refused_unless_told_otherwise(self):
        with tempfile.TemporaryDirectory() as folder:
            limits = pathlib.Path(folder) / "limits"
            slow = {"threads": 1, "fma_gflops": 100, "fma_median_gflops": 50, "triad_gbs": 10, "read_gbs": 8}
            limits.write_text(f"#!/bin/sh\necho '{json.dumps(slow)}'\n", encoding="utf-8")
            limits.chmod(0o755)
            log, fake = pathlib.Path(folder) / "log", pathlib.Path(folder) / "fake.py"
            log.write_text("", encoding="utf-8")
            fake.write_text(FAKE, encoding="utf-8")
            words = ["kernels", "--cases", "gemm_512", "--peers", "", "--rounds", "1", "--limits", str(limits), "--ours",
                     f"ours={sys.executable} {fake} ours {log} 10"]  # fmt: skip
            refused = self.yardstick(*words)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("at 50 % of its best", refused.stderr)
            self.assertEqual(log.read_text(), "")
            for more, environment in ((["--warn"], {}), ([], {"RLX_ALLOW_THROTTLE": "1", "PATH": "/usr/bin:/bin"})):
                log.write_text("", encoding="utf-8")
                done = self.yardstick(*words, *more, **environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("measured on an unfit machine", done.stdout)
                self.assertIn("| gemm_512 | ours | 10.5 |", done.stdout)


if __name__ == "__main__":
    unittest.main()
