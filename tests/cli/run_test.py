#!/usr/bin/env python3
"""`rlx run`, `inspect` and `where` on a small graph whose results are computed here, and what `rlx bench` prints."""

import json
import math
import re
import unittest

from program import ProgramTest, f32, read_npy, rlx, write_npy, write_safetensors

GRAPH = """rlx 1
graph @small {
  %0 = input() @"x" : f32[2, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) @"dense" : f32[2, 2]
  %3 = gelu(%2) @"dense" : f32[2, 2]
  return %3 @"y", %2 @"before"
}
"""
TAGGER = [-0.0336879, -0.0260264, 0.013299, 0.0325051, -0.0210367, 0.0504085, 0.0559732, -0.0657006]  # from PyTorch
X = [0.5, -1.0, 2.0, 0.0, 3.0, -0.25]
W = [1.0, 2.0, -3.0, 0.5, 0.25, -1.5]


def product(rows, inner, columns, x, w):
    return [sum(x[r * inner + k] * w[k * columns + c] for k in range(inner)) for r in range(rows) for c in range(columns)]


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


class Run(ProgramTest):
    def setUp(self):
        super().setUp()
        self.graph = self.file("small.rlx", GRAPH)
        self.weights, self.x = self.folder / "w.safetensors", self.folder / "x.npy"
        write_safetensors(self.weights, {"unused": ("F32", [1], f32(0)), "w": ("F32", [3, 2], f32(*W))})
        write_npy(self.x, "<f4", [2, 3], X)
        self.arguments = ["run", self.graph, "--params", self.weights, "--input", f"x={self.x}"]

    def close(self, values, wanted):
        self.assertEqual(len(values), len(wanted))
        for value, want in zip(values, wanted):
            self.assertAlmostEqual(value, want, delta=1e-5)

    def test_outputs_are_files_with_the_names_of_the_outputs(self):
        out = self.folder / "a/b"
        self.assertEqual(self.succeeds(*self.arguments, "--output-dir", out), "")
        wanted = product(2, 3, 2, X, W)
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["before.npy", "y.npy"])
        shape, before = read_npy(out / "before.npy")
        self.assertEqual(shape, (2, 2))
        self.close(before, wanted)
        self.close(read_npy(out / "y.npy")[1], map_list(gelu, wanted))

    def test_without_a_folder_the_outputs_are_printed(self):
        text = self.succeeds(*self.arguments, "--threads", 1, "--device", "cpu")
        self.assertRegex(text, r"y +f32\[2, 2\] ")

    def test_verbose_tells_each_pass_and_the_dispatch_table(self):
        result = rlx(*self.arguments, RLX_VERBOSE="1")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"rlx: legalize +[\d.]+ ms +\d+ -> +\d+ nodes")
        table = result.stderr[result.stderr.index("rlx: 'small' for "):]
        self.assertRegex(table, r"op +dtypes +native")
        self.assertIn("matmul", table)

    def test_all_outputs_go_to_one_safetensors_file_which_feeds_a_run_again(self):
        out = self.folder / "out.safetensors"
        self.succeeds(*self.arguments, "--output", out)
        self.assertRegex(self.succeeds("inspect", out), r"before +f32\[2, 2\] +16 B")
        again = self.file("again.rlx", 'rlx 1\ngraph @g {\n  %0 = input() @"before" : f32[2, 2]\n'
                          '  %1 = input() @"y" : f32[2, 2]\n  %2 = sub(%0, %1) : f32[2, 2]\n  return %2 @"d"\n}\n')
        self.succeeds("run", again, "--input", out, "--output-dir", self.folder / "d")
        wanted = product(2, 3, 2, X, W)
        self.close(read_npy(self.folder / "d/d.npy")[1], [x - gelu(x) for x in wanted])

    def test_a_profile_is_a_trace_of_complete_events(self):
        trace = self.folder / "trace.json"
        self.assertIn("us", self.succeeds(*self.arguments, "--profile", trace, "--output-dir", self.folder / "o"))
        events = json.loads(trace.read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        self.assertTrue(any(e.get("ph") == "X" and "dur" in e for e in events))

    def test_a_profile_of_a_device_with_memory_of_its_own_shows_its_queues_and_what_was_copied(self):
        trace = self.folder / "trace.json"
        table = self.succeeds(*self.arguments, "--device", "loopback", "--profile", trace, "--output-dir", self.folder / "o")
        # x is f32[2, 3], the two results f32[2, 2]; the param was there before.
        self.assertRegex(table, r"1 copies to the device \(24 bytes\), 2 to the host \(32 bytes\), 0 of donated inputs; the host waited 2 times")
        events = json.loads(trace.read_text())["traceEvents"]
        copy_in, launch, *copies_out = [e for e in events if e["cat"] == "queue"]
        self.assertEqual(len(copies_out), 2)
        self.assertRegex(launch["name"], "a run of '.*'")
        self.assertLessEqual(copy_in["ts"] + copy_in["dur"], launch["ts"])
        for copy_out in copies_out:
            self.assertLessEqual(launch["ts"] + launch["dur"], copy_out["ts"])
        steps = [e for e in events if e["cat"] != "queue"]
        self.assertTrue(steps)
        self.assertTrue(all(launch["ts"] <= e["ts"] <= launch["ts"] + launch["dur"] for e in steps))

    def test_a_profile_replaces_an_older_one_whole(self):
        trace, kept = self.file("trace.json", "old"), self.folder / "kept.json"
        kept.hardlink_to(trace)
        self.succeeds(*self.arguments, "--profile", trace, "--output-dir", self.folder / "o")
        self.assertEqual(kept.read_text(), "old")
        self.assertIn("traceEvents", json.loads(trace.read_text()))

    def test_inspect_shows_signature_ops_and_layers(self):
        text = self.succeeds("inspect", self.graph)
        for line in (r"graph 'small': 2 ops, 1 params of 6 elements \(24 B\)", r"x +f32\[2, 3\]", r"w +f32\[3, 2\] +24 B",
                     r"y +f32\[2, 2\]", r"gelu, matmul", r"dense +gelu, matmul"):
            self.assertRegex(text, line)
        self.assertRegex(self.succeeds("inspect", self.x), r"f32\[2, 3\] +24 B")

    def test_where_names_each_node_with_its_verdict(self):
        report = json.loads(self.succeeds("where", self.graph, "--json"))
        self.assertRegex(report["target"], r"^cpu \(\w+\)$")
        self.assertIn("matmul", [n["op"] for n in report["nodes"]])
        self.assertTrue(all(n["verdict"] in ("native", "composed", "rewritten") for n in report["nodes"]))
        self.assertIn("dense", self.succeeds("where", self.graph, "--nodes"))

    def test_the_memory_of_a_run_stands_beside_the_least_there_is(self):
        graph = self.file("square.rlx", """rlx 1
graph @g {
  %0 = input() @"x" : f32[n, 16]
  %1 = param() @"w" : f32[16, 16]
  %2 = matmul(%0, %1) : f32[n, 16]
  %3 = matmul(%2, %1) : f32[n, 16]
  %4 = matmul(%3, %1) : f32[n, 16]
  return %4 @"y"
}
""")
        plan = json.loads(self.succeeds("where", graph, "--memory", "--dim", "n=32", "--json"))
        self.assertEqual((plan["steps"], plan["param_bytes"]), (3, 16 * 16 * 4))
        # Two products between the first and the last live at one time, each of 32 x 16 elements of 4 bytes.
        self.assertGreaterEqual(plan["largest_live_bytes"], 2 * 32 * 16 * 4)
        self.assertGreaterEqual(plan["arena_bytes"], plan["largest_live_bytes"])
        self.assertLessEqual(plan["arena_bytes"], 1.1 * plan["largest_live_bytes"])
        self.assertRegex(self.succeeds("where", graph, "--memory", "--dim", "n=32"), r"largest live set +\d")
        self.fails(2, "needs a number for 'n': --dim n=NUMBER", "where", graph, "--memory")
        self.fails(2, "--dim is for --memory, --strategies and --plan", "where", graph, "--dim", "n=32")
        self.fails(2, "no symbolic dim 'm'", "where", graph, "--memory", "--dim", "n=32", "--dim", "m=2")
        self.fails(2, "about dispatch", "where", graph, "--memory", "--dim", "n=32", "--strict")

    def test_each_product_is_listed_with_its_strategy_and_the_reason(self):
        graph = self.file("two.rlx", """rlx 1
graph @g {
  %0 = input() @"x" : f32[n, 96]
  %1 = param() @"w" : f32[96, 64]
  %2 = matmul(%0, %1) @"first" : f32[n, 64]
  %3 = transpose(%2) {permutation = [1, 0]} : f32[64, n]
  %4 = matmul(%2, %3) @"second" : f32[n, n]
  return %4 @"y"
}
""")
        few = json.loads(self.succeeds("where", graph, "--strategies", "--dim", "n=2", "--json"))
        self.assertEqual([p["node"] for p in few["steps"]], ["first", "second"])
        for product in few["steps"]:
            self.assertRegex(product["strategy"], r"^(multiply-adds|bf16 tiles), .*task.*: \w")
        # More rows are never divided into fewer tasks.
        tasks = [1]
        for n in (64, 512, 4096):
            line = self.succeeds("where", graph, "--strategies", "--dim", f"n={n}", "--threads", "2").splitlines()[1]
            rows, columns = re.search(r"(\d+) x (\d+) tasks?: ", line).groups()
            tasks.append(int(rows) * int(columns))
        self.assertEqual(tasks, sorted(tasks))
        self.assertGreater(tasks[-1], 1)
        exact = self.succeeds("where", graph, "--strategies", "--dim", "n=64", "--batch-invariant")
        self.assertIn("multiply-adds", exact)
        self.assertNotIn("tiles,", exact)
        self.fails(2, "give one of them", "where", graph, "--strategies", "--memory", "--dim", "n=2")
        self.fails(2, "--strategies needs a number for 'n'", "where", graph, "--strategies")

    def test_the_rules_of_the_planners_are_printed_and_strategies_name_their_reasons(self):
        rules = json.loads(self.succeeds("devices", "--rules", "--json"))
        self.assertEqual(list(dict.fromkeys(r["of"] for r in rules)), ["products", "convolutions", "attention"])
        for family in ("products", "convolutions", "attention"):
            reasons = [r["reason"] for r in rules if r["of"] == family]
            self.assertGreater(len(reasons), 3)
            self.assertEqual(len(set(reasons)), len(reasons))
        self.assertEqual(len(self.succeeds("devices", "--rules").splitlines()), len(rules) + 1)
        graph = self.file("product.rlx", """rlx 1
graph @g {
  %0 = input() @"x" : f32[8, 96]
  %1 = param() @"w" : f32[96, 64]
  %2 = matmul(%0, %1) : f32[8, 64]
  return %2 @"y"
}
""")
        strategy = json.loads(self.succeeds("where", graph, "--strategies", "--json"))["steps"][0]["strategy"]
        self.assertIn(strategy.split(": ", 1)[1], [r["reason"] for r in rules if r["of"] == "products"])
        self.fails(2, "give one of them", "devices", "--rules", "--for", graph)

    def test_the_plan_of_a_run_is_printed_as_text(self):
        graph = self.file("two.rlx", """rlx 1
graph @g {
  %0 = input() @"x" : f32[n, 16]
  %1 = param() @"w" : f32[16, 16]
  %2 = matmul(%0, %1) @"first" : f32[n, 16]
  %3 = softmax(%2) : f32[n, 16]
  return %3 @"y", %0 @"same"
}
""")
        plan = self.succeeds("where", graph, "--plan", "--dim", "n=32")
        self.assertRegex(plan, r'^plan @"g" \{\n  arena \d+\n  %0 = input\(0\) : 2048 holds v0\n  %1 = param\(0\) : 1024 holds v1\n')
        self.assertRegex(plan, r'#0 = launch matmul @"first" "[^"]+" \(%0 v0 f32\[32, 16\], %1 v1 f32\[16, 16\]( packed)?\) -> \(%\d v2 f32\[32, 16\]\)')
        self.assertRegex(plan, r"#1 = launch softmax .* -> \(%\d v3 f32\[32, 16\]\)")
        self.assertRegex(plan, r'#2 = copy copy @"same" .*\(%0 v0 f32\[32, 16\]\) -> \(%\d v0 f32\[32, 16\]\)')
        self.assertRegex(plan, r'\n  return %\d v3 @"y", %\d v0 @"same"\n\}\n$')
        self.fails(2, "--plan needs a number for 'n'", "where", graph, "--plan")
        self.fails(2, "not JSON", "where", graph, "--plan", "--json", "--dim", "n=2")
        self.fails(2, "give one of them", "where", graph, "--plan", "--memory", "--dim", "n=2")
        self.fails(2, "--plan is for --target cpu", "where", graph, "--plan", "--dim", "n=2", "--target", "null")

    def test_attention_is_listed_with_its_blocks_and_the_reason(self):
        graph = self.file("heads.rlx", """rlx 1
graph @g {
  %0 = input() @"q" : f32[2, 4, s, 64]
  %1 = attention(%0, %0, %0) {heads = 4} @"heads" : f32[2, 4, s, 64]
  return %1 @"y"
}
""")
        few = json.loads(self.succeeds("where", graph, "--strategies", "--dim", "s=8", "--json"))["steps"]
        self.assertEqual([(p["node"], p["op"]) for p in few], [("heads", "attention")])
        self.assertRegex(few[0]["strategy"], r"^score blocks of \d+ queries by 128 keys, sums in f32, 1 task: \w")
        # With two threads, more queries have more tasks.
        many = self.succeeds("where", graph, "--strategies", "--dim", "s=2048", "--threads", "2").splitlines()[1]
        self.assertRegex(many, r"(score blocks|matrix tiles).* 8 tasks: \w")

    def test_strict_makes_a_composed_node_an_error(self):
        self.succeeds("where", self.graph, "--target", "null")
        self.assertEqual(self.run_code("where", self.graph, "--target", "null", "--strict"), 1)

    def run_code(self, *arguments):
        from program import rlx

        result = rlx(*arguments)
        self.assertRegex(result.stderr, "not native on null")
        return result.returncode


def map_list(f, values):
    return [f(v) for v in values]


class Bench(ProgramTest):
    """The heads are NumPy's results on numpy.random.default_rng(0).uniform(-1, 1) as float32."""

    def lines(self, *arguments):
        return [json.loads(line) for line in self.succeeds("bench", *arguments).splitlines()]

    def test_flags_and_cases_stand_in_any_order(self):
        first, second = self.lines("--threads", 2, "sumrow_8x5000", "--iters", 6, "--budget", 9, "small_graph")
        self.assertEqual((first["peer"], first["case"], first["threads"]), ("ours", "sumrow_8x5000", 2))
        self.assertEqual((len(first["times_ms"]), len(first["cpu_ms"]), second["case"]), (6, 6, "small_graph"))
        self.assertGreater(first["first_ms"], 0)

    def test_training_cases_have_the_names_of_other_drivers_too(self):
        own, others = self.lines("train_encoder", "tfenc", "--iters", 1)
        self.assertEqual((own["case"], others["case"]), ("train_encoder", "train_tfenc_step"))
        self.assertEqual(own["head"], others["head"])

    def test_the_budget_ends_a_case_but_leaves_it_five_runs(self):
        (line,) = self.lines("sumrow_8x5000", "--iters", 1000000, "--budget", 0)
        self.assertEqual(len(line["times_ms"]), 5)

    def test_the_arrays_are_those_of_numpy(self):
        linear, rows = self.lines("linear_1x1x8", "sumrow_8x5000", "--iters", 1)
        numpy_linear = [-0.12612159550189972, -0.2514761686325073, -0.26486876606941223, 0.1716240793466568,
                        0.2261267900466919, 0.05842006206512451, 0.12572893500328064, 0.023899808526039124]
        numpy_rows = [-13.645626333007385, 1.8588272454580874, 61.50581586198314, 54.65854581241729, -41.68877225923643,
                      1.8140517867577728, -20.90922121226322, 54.977788002919624]
        for line, wanted, delta in ((linear, numpy_linear, 1e-7), (rows, numpy_rows, 1e-3)):
            self.assertEqual(len(line["head"]), 8)
            for value, want in zip(line["head"], wanted):
                self.assertAlmostEqual(value, want, delta=delta)

    def test_the_result_can_be_written(self):
        file = self.folder / "scores.npy"
        (line,) = self.lines("tagger_2x3", "--iters", 1, "--result", file)
        shape, scores = read_npy(file)
        self.assertEqual(shape, (2, 3, 17))
        self.assertEqual([f32(v) for v in line["head"]], [f32(v) for v in scores[:8]])
        # torch.nn.Embedding, LSTM(bidirectional=True) and Linear with the weights of bench/yardstick/programs/tagger_net.py
        for value, wanted in zip(scores, TAGGER):
            self.assertAlmostEqual(value, wanted, delta=1e-5)
        for compute in ("bf16", "int8"):
            (line,) = self.lines("tagger_2x3", "--iters", 1, "--compute", compute)
            for value, wanted in zip(line["head"], TAGGER):
                self.assertAlmostEqual(value, wanted, delta=1e-3)
            (fast,) = (d["target"]["fast_float"] for d in json.loads(rlx("devices", "--json").stdout) if d["device"] == "cpu")
            if compute == "bf16" or fast != "f32":  # else int8 leaves an lstm as it is
                self.assertNotEqual([f32(v) for v in line["head"]], [f32(v) for v in scores[:8]])

    def test_every_kernel_case_runs(self):
        cases = ["gemm_8", "softmax_4x8", "layernorm_4x8", "ewchain_4x8", "sdpa_1x2x8x4", "conv3x3_1x4x6",
                 "dwconv3x3_2x4x6", "sumcol_4x8", "linear_i8_2x128x64", "linear_i4_2x128x64", "qmatmul_2x8x8", "digits_2",
                 "digits_i8_2"]
        self.assertEqual([line["case"] for line in self.lines(*cases, "--iters", 1)], cases)


if __name__ == "__main__":
    unittest.main()
