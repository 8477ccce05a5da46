#!/usr/bin/env python3
"""The yardstick's arithmetic, its refusals, and its rotation over programs that stand for RLX and its peers."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from yardstick import __main__ as yardstick  # noqa: E402
from yardstick import machine, peers, report, suites  # noqa: E402

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

    def run_case(self, programs, rounds=2):
        options = yardstick.arguments(["--rounds", str(rounds), "--iters", "3"])
        for program in programs:
            self.addCleanup(program.close)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            found = yardstick.run_case("gemm_512", programs, options, LIMITS)
        return *found, errors.getvalue()

    def test_programs_take_turns(self):
        programs = [peers.Command("ours", self.command("ours", 10), None), peers.Server("a", self.command("a", 20), None),
                    peers.Server("b", self.command("b", 30), None)]  # fmt: skip
        rows, failed, _, errors = self.run_case(programs)
        self.assertEqual(self.log.read_text().split(), ["ours", "a", "b", "ours", "a", "b"])
        self.assertEqual((failed, errors), ({}, ""))
        # times of the first round are one above the base, of the second two; the processor's are half a millisecond less
        self.assertEqual([(r.peer, r.minimum, r.median, r.runs) for r in rows],
                         [("ours", 10.5, 11, 6), ("a", 20.5, 21, 6), ("b", 30.5, 31, 6)])  # fmt: skip

    def test_a_peer_that_fails_is_a_row_and_the_others_go_on(self):
        bad = [sys.executable, "-c", "import sys; sys.exit('no such library')"]
        programs = [peers.Server("bad", bad, None), peers.Command("worse", bad, None), peers.Server("a", self.command("a", 20), None)]
        rows, failed, _, _ = self.run_case(programs)
        self.assertEqual([r.peer for r in rows], ["a"])
        self.assertIn("no such library", failed["bad"])
        self.assertIn("no such library", failed["worse"])

    def test_numbers_that_differ_are_told(self):
        programs = [peers.Server(n, self.command(n, 20), None) for n in ("a", "b", "odd")]
        self.assertIn("gemm_512: the numbers of odd differ", self.run_case(programs, rounds=1)[3])


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
                              (["--peers", "tensorflow"], "onnxruntime")):  # fmt: skip
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
