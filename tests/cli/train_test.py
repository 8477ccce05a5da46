#!/usr/bin/env python3
"""`rlx train`: models that learn, config files, going on after an end of any sort, the audit, and what is refused."""

import json
import os
import random
import resource
import signal
import struct
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest, f32, read_npy, read_safetensors, write_npy, write_safetensors

GRAPH = """rlx 1
graph @g {
  %0 = input() @"x" : f32[N, 3]
  %1 = input() @"t" : f32[N, 1]
  %2 = param() @"w" : f32[3, 1]
  %3 = matmul(%0, %2) @"dense" : f32[N, 1]
  %4 = mse(%3, %1) : f32[]
  return %4 @"loss"
}
"""
UNREACHED = GRAPH.replace('%3 = matmul(%0, %2)', '%5 = param() @"v" : f32[3, 1]\n  %6 = stop_gradient(%5) : f32[3, 1]\n'
                          '  %7 = add(%2, %6) : f32[3, 1]\n  %3 = matmul(%0, %7)')  # fmt: skip


def metrics(folder, key):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[key] for line in lines if key in line}


def checkpoint(folder, name="checkpoint.safetensors"):
    """(metadata, tensors as bytes) of the checkpoint, or of another file of safetensors."""
    return read_safetensors(folder / name)


class Train(ProgramTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        draw = random.Random(3)
        self.x = [draw.gauss(0, 1) for _ in range(3 * 60)]
        self.t = [0.5 * a - b + 2 * c for a, b, c in zip(self.x[::3], self.x[1::3], self.x[2::3])]
        write_npy(self.folder / "x.npy", "<f4", [60, 3], self.x)
        write_npy(self.folder / "t.npy", "<f4", [60, 1], self.t)
        self.data = ["--data", f"x={self.folder}/x.npy", "--data", f"t={self.folder}/t.npy"]

    def train(self, *arguments):
        return self.succeeds("train", *arguments, "--threads", 1)

    def test_the_regression_needs_no_data_and_is_learned(self):
        text = self.train("linear", "--steps", 300, "--learning-rate", 0.05, "--batch-size", 16, "--out", self.out)
        self.assertRegex(text, r"linear: 4 params, 64 examples to learn from; 300 steps of 16")
        losses = metrics(self.out, "loss")
        self.assertLess(losses[300], 1e-2 * losses[1])
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["checkpoint.safetensors", "inference.rlx", "loss.svg", "metrics.jsonl", "params.safetensors"])
        self.assertIn("<polyline", (self.out / "loss.svg").read_text())
        self.assertRegex(self.succeeds("inspect", self.out / "params.safetensors"), r"out.weight +f32\[1, 3\]")

    def test_it_learns_in_narrow_floats_and_with_parts_computed_again(self):
        arguments = ["linear", "--steps", 200, "--learning-rate", 0.05, "--batch-size", 16]
        self.train(*arguments, "--out", self.out)
        wanted = metrics(self.out, "loss")
        for name, more in (("f16", ["--precision", "f16"]), ("bf16", ["--precision", "bf16"]), ("parts", ["--checkpoints", 2]),
                           ("batches", ["--precision", "f16", "--accumulate", 2])):
            with self.subTest(name):
                out = self.folder / name
                self.train(*arguments, *more, "--out", out)
                losses = metrics(out, "loss")
                self.assertLess(losses[200], 0.1 * losses[1])
                if name == "f16":
                    self.assertIn(metrics(out, "loss_scale")[200], [2.0**k for k in range(17)])  # halved where it overflowed
                if name == "parts":
                    self.assertEqual(losses, wanted)
        self.fails(1, "there are f32, f16, bf16", "train", *arguments, "--precision", "f8", "--out", self.folder / "no")

    def test_steps_that_overflow_are_no_tests(self):
        # t is so large that the first scales overflow: patience counts tests behind steps that were made.
        write_npy(self.folder / "t.npy", "<f4", [60, 1], [40 * v for v in self.t])
        graph = self.file("g.rlx", GRAPH)
        self.train(graph, *self.data, "--precision", "f16", "--patience", 3, "--epochs", 20, "--hold-out", 0.2, "--batch-size", 48, "--learning-rate", 0.5,
                   "--out", self.out)  # fmt: skip
        lines = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        self.assertLess(lines[0]["loss_scale"], 65536)
        tested = [line["step"] for line in lines if "test_loss" in line]
        self.assertEqual(tested, sorted(set(tested)))
        self.assertEqual((tested[0], len(tested)), (1, 20))

    def test_sophia_steps_by_the_curvature(self):
        self.train("linear", "--steps", 200, "--learning-rate", 0.02, "--optimizer", "sophia", "--out", self.out)
        losses = metrics(self.out, "loss")
        self.assertLess(losses[200], 0.5 * losses[1])

    def test_a_graph_learns_from_every_kind_of_file(self):
        graph = self.file("g.rlx", GRAPH)
        rows = "".join(f"{self.x[3 * i]},{self.x[3 * i + 1]},{self.x[3 * i + 2]},{self.t[i]}\r\n" for i in range(60))
        table = self.file("table.csv", 'a,b,"c, last",t\r\n' + rows)
        write_safetensors(self.folder / "d.safetensors", {"t": ("F32", [60, 1], f32(*self.t))})
        raw = struct.pack(">HBBII", 0, 13, 2, 60, 3) + struct.pack(">180f", *self.x)
        (self.folder / "x-idx2").write_bytes(raw)
        write_safetensors(self.folder / "start.safetensors", {"w": ("F32", [3, 1], f32(0, 0, 0))})
        last = set()
        for x, t in [("x.npy", "t.npy"), ("x-idx2", "d.safetensors:t"), ("x-idx2", "table.csv:t")]:
            self.train(graph, "--data", f"x={self.folder / x}", "--data", f"t={self.folder / t}", "--steps", 40, "--optimizer",
                       "sgd", "--momentum", 0, "--learning-rate", 0.1, "--params", self.folder / "start.safetensors", "--overwrite",
                       "--out", self.out)  # fmt: skip
            last.add(metrics(self.out, "loss")[40])
        self.assertEqual(len(last), 1)  # the same numbers, whatever they came from
        self.assertLess(last.pop(), 1e-3)
        write_npy(self.folder / "i.npy", "<i8", [60], range(60))
        self.fails(1, r"'x' is f32\[N, 3\], its data are f32\[N\]", "train", graph, "--data", f"x={self.folder}/i.npy", *self.data[2:], "--out", self.out)
        self.fails(1, "no column 'c' among 4", "train", graph, "--data", f"x={table}:c,last", *self.data[2:], "--out", self.out)
        self.fails(1, "say which: .*table.csv:COLUMN", "train", graph, "--data", f"x={table}", *self.data[2:], "--out", self.out)

    def test_a_config_file_says_what_options_say_and_options_come_first(self):
        config = self.file("c.toml", '# a comment\n[model]\nname = "linear"\n[data]\nx = "x.npy"\nt = ["t.npy"]\n'
                           '[optimizer]\nlearning_rate = 1\nschedule = "cosine"\n[train]\nsteps = 500\nbatch_size = 20\nhold_out = 0.25\n')  # fmt: skip
        text = self.train("--config", config, "--epochs", 4, "--learning-rate", 0.125, "--out", self.out)
        self.assertRegex(text, "45 examples to learn from, 15 to be tested by; 12 steps of 20")
        self.assertEqual(metrics(self.out, "learning_rate")[1], 0.125)
        self.assertEqual(sorted(metrics(self.out, "test_loss")), [3, 6, 9, 12])

    def test_a_config_file_that_is_wrong_is_refused_with_the_line(self):
        for line, message in {
            "[modle]\n": "line 1: there is no section 'modle'; the nearest are 'model'",
            "[train]\n\nepoch = 3\n": r"line 3: section \[train\] has no key 'epoch'; the nearest are 'epochs'",
            "[train]\nepochs = 3.5\n": "line 2: 'epochs' wants a whole number",
            "[train]\nepochs = \n": "line 2, column",
            '[model]\nhidden = [1, "x"]\n': "line 2: 'hidden' wants a whole number",
            '[model]\nname = "lin': "line 2, column",
            "train = 3\n": "line 1: 'train' is a section",
            "[train]\nepochs = 3\nepochs = 4\n": "line 3",
        }.items():
            with self.subTest(line):
                self.fails(1, f"(?s){message}.*while reading the config file", "train", "--config", self.file("c.toml", line))

    def test_wrong_use_ends_with_2_and_wrong_values_with_1(self):
        self.fails(2, "name a MODEL", "train")
        self.fails(2, "--epochs wants a whole number, not 'many'", "train", "linear", "--epochs", "many")
        self.fails(2, "--data is NAME=FILE", "train", "linear", "--data", "x.npy")
        self.fails(2, "--steps is 99999999999999999999, which no whole number of 64 bits holds", "train", "linear", "--steps", 10**20 - 1)
        self.fails(2, "--momentum is 1e999, which no f64 holds", "train", "linear", "--momentum", "1e999")
        self.fails(2, "either --resume or --overwrite", "train", "linear", "--resume", "--overwrite")
        for arguments, message in [
            (["mpl"], "no model 'mpl'; there are linear, mlp, cnn, char_lm"), (["mlp"], "no data are named"),
            (["linear", "--optimizer", "adma"], "no optimizer 'adma'"), (["linear", "--batch-size", 0], "batch_size is 0"),
            (["linear", "--schedule", "x"], "no schedule 'x'"), (["linear", "--dropout", 1], "dropout is 1"),
            (["linear", "--steps", 3, "--epochs", 3], "either epochs or steps"), (["linear", "--shift", 2], "shift moves images"),
            (["linear", "--data", "x=/nonexistent.npy"], "(?s)nonexistent.npy.*reading the data 'x'"),
            (["linear", "--weight-decay", -0.1], "weight_decay is -0.1; it must be at least 0 and finite"),
            (["linear", "--weight-decay", "inf"], "weight_decay is inf; it must be at least 0 and finite"),
            (["linear", "--batch-size", 10**12], "batch_size is 1000000000000; it must be from 1 to 4294967296"),
            (["linear", "--accumulate", 10**12], "accumulate is 1000000000000; it must be from 1 to 4294967296"),
            (["linear", "--learning-rate", "inf"], "learning_rate is inf; it must be above 0 and finite"),
            (["linear", "--clip-norm", -1], "clip_norm is -1; it must be at least 0"),
            (["linear", "--temperature", "inf"], "temperature is inf; it must be above 0 and finite"),
            (["linear", "--freeze", "nothing"], "'nothing'"), (["linear", "--freeze", "out*"], "no param to train"),
            (["linear", "--trained", "nothing"], "the trained params name the param 'nothing', which graph 'linear' has not; it has out"),
        ]:  # fmt: skip
            with self.subTest(arguments):
                self.fails(1, message, "train", *arguments, "--out", self.out)
        self.fails(1, "'linear' takes 'x' and the answers 't'", "train", "linear", *self.data, "--data", f"z={self.folder}/x.npy", "--out", self.out)

    def test_no_epoch_and_no_step_leave_the_params_as_they_are(self):
        self.train("mlp", *self.data, "--hidden", "8", "--epochs", 1, "--hold-out", 0.2, "--out", self.out)
        params = self.out / "params.safetensors"
        for i, none in enumerate((["--epochs", 0, "--schedule", "cosine", "--warmup", 5], ["--steps", 0])):
            out = self.folder / f"none{i}"
            text = self.train("mlp", *self.data, "--hidden", "8", "--hold-out", 0.2, "--params", params, *none, "--out", out)
            self.assertRegex(text, r"; 0 steps of 32")
            self.assertRegex(text, r"step 0 of 0  test loss")
            self.assertEqual(list(metrics(out, "test_loss").values()), list(metrics(self.out, "test_loss").values()))
            self.assertEqual(checkpoint(out, "params.safetensors")[1], checkpoint(self.out, "params.safetensors")[1])
        self.fails(1, "epochs is -1; it must be at least 0", "train", "linear", "--epochs", -1, "--out", self.out)

    def test_the_optimizer_and_its_groups_are_as_they_were_named(self):
        self.file("c.toml", '[model]\nname = "mlp"\nhidden = [8]\n[optimizer]\noptimizer = "adamw"\nbeta1 = 0.8\nbeta2 = 0.95\nepsilon = 1e-6\n'
                  'weight_decay = 0.25\nlr_scale = ["out.*=0.5", "hidden.0.bias=2"]\n[train]\nsteps = 2\n')  # fmt: skip
        self.train("--config", self.folder / "c.toml", *self.data, "--out", self.out)
        rules = dict(line.split(": ", 1) for line in checkpoint(self.out)[0]["rules"].splitlines())
        adamw = "adam_update {beta1 = 0.8, beta2 = 0.95, epsilon = 1e-06, %sdecoupled = true} at %s times the rate"
        self.assertEqual(rules, {"hidden.0.weight": adamw % ("weight_decay = 0.25, ", 1), "hidden.0.bias": adamw % ("", 2),
                                 "out.weight": adamw % ("weight_decay = 0.25, ", 0.5), "out.bias": adamw % ("", 0.5)})  # fmt: skip
        sgd = self.folder / "sgd"
        self.train("mlp", *self.data, "--hidden", "8", "--steps", 2, "--optimizer", "sgd", "--nesterov", "--out", sgd)
        self.assertIn("hidden.0.weight: sgd_update {momentum = 0.9, nesterov = true} at 1 times", checkpoint(sgd)[0]["rules"])
        for arguments, message in [
            (["--optimizer", "sgd", "--beta1", 0.5], "the optimizer 'sgd' has no beta1"), (["--nesterov"], "nesterov is a way of sgd, not of 'adamw'"),
            (["--beta1", 1], "beta1 is 1; it goes from 0 to below 1"), (["--lr-scale", "out.*"], r"lr_scale is 'out.\*'; it is NAME=X"),
            (["--lr-scale", "nowhere=2"], "lr_scale names the param 'nowhere', which the model has not"),
            (["--lr-scale", "out.bias=-2"], "X finite and not below 0"),
        ]:  # fmt: skip
            with self.subTest(arguments):
                self.fails(1, message, "train", "mlp", *self.data, *arguments, "--out", self.folder / "no")

    def test_memory_is_told_and_less_with_parts_computed_again(self):
        arguments = ["mlp", *self.data, "--hidden", ",".join(["8"] * 24), "--batch-size", 60, "--steps", 3]
        text = self.train(*arguments, "--out", self.out)
        self.assertRegex(text, r"memory [\d.]+ kB \(params [\d.]+ kB, states [\d.]+ kB, activations and gradients [\d.]+ kB\), of the process at most [\d.]+ MB")
        self.train(*arguments, "--checkpoints", 4, "--out", self.folder / "parts")
        self.assertLess(metrics(self.folder / "parts", "memory_bytes")[3], 0.8 * metrics(self.out, "memory_bytes")[3])

    def test_damaged_data_are_refused(self):
        (self.folder / "cut.npz").write_bytes(b"PK\3\4 cut")
        (self.folder / "cut.idx").write_bytes(struct.pack(">HBBII", 0, 13, 2, 60, 3) + bytes(100))
        self.file("cut.csv", "a,b\n1,2\n3")
        for source, message in [("cut.npz:x", "no whole zip archive"), ("cut.idx", "it is cut: copy it again"),
                                ("cut.csv:a", "line 3 has 1 cell, the first record 2")]:  # fmt: skip
            self.fails(1, message, "train", "linear", "--data", f"x={self.folder / source}", *self.data[2:], "--out", self.out)

    def test_a_folder_with_a_training_is_not_overwritten_by_accident(self):
        short = ["linear", "--steps", 4, "--out", self.out]
        self.train(*short)
        self.fails(1, "holds a training already; go on with it by --resume", "train", *short)
        self.train(*short, "--overwrite")
        self.assertEqual(sorted(metrics(self.out, "loss")), [1, 4])

    def test_params_that_no_training_wrote_are_never_overwritten(self):
        short = ["linear", "--steps", 4, "--out", self.out]
        mine = {"out.weight": ("F32", [1, 3], f32(1, 2, 3))}
        for name in ("params.safetensors", "best.safetensors"):
            with self.subTest(name):
                self.out.mkdir(exist_ok=True)
                write_safetensors(self.out / name, mine)
                before = (self.out / name).read_bytes()
                for how in ([], ["--overwrite"], ["--resume"]):
                    self.fails(1, f"{name}' would be replaced, and `rlx train` did not write it: move it away", "train", *short, *how)
                self.assertEqual([path.name for path in self.out.iterdir()], [name])
                self.assertEqual((self.out / name).read_bytes(), before)
                (self.out / name).unlink()
        self.train(*short)
        self.train("linear", "--steps", 6, "--out", self.out, "--resume")
        self.train(*short, "--overwrite")
        # What is left of a training is one too.
        for name in ("checkpoint.safetensors", "metrics.jsonl", "loss.svg"):
            (self.out / name).unlink()
        self.fails(1, "holds a training already", "train", *short)
        write_safetensors(self.out / "params.safetensors", mine)
        self.fails(1, "did not write it", "train", *short, "--overwrite")

    def test_complex_data_are_refused_with_what_to_do(self):
        header = b"{'descr': '<c8', 'fortran_order': False, 'shape': (60, 3), }"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        z = self.folder / "z.npy"
        z.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(60 * 3 * 8))
        for name, data in (("x", [f"x={z}", self.data[3]]), ("t", [self.data[1], f"t={z}"])):
            self.fails(1, rf"the data '{name}' are c64\[60, 3\]; the model 'linear' takes real numbers.*concatenate\(\[{name}.real, {name}.imag\]",
                       "train", "linear", "--data", data[0], "--data", data[1], "--out", self.out)

    def arguments(self, out):
        return ["train", "mlp", *self.data, "--hidden", "8", "--dropout", 0.2, "--batch-size", 7, "--steps", 3000, "--optimizer", "adamw",
                "--schedule", "cosine", "--learning-rate", 0.01, "--log-every", 1, "--checkpoint-every", 40, "--hold-out", 0.1,
                "--threads", 1, "--out", out]  # fmt: skip

    def start(self, *arguments, **how):
        env = {key: value for key, value in os.environ.items() if not key.startswith("RLX_")}
        return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **how)

    def wait_for(self, path, process):
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
            time.sleep(0.002)
        self.assertTrue(path.exists())

    def test_a_run_that_was_killed_or_interrupted_goes_on_as_if_nothing_had_happened(self):
        whole = self.folder / "whole"
        self.succeeds(*self.arguments(whole))
        for how, code in ((signal.SIGKILL, -9), (signal.SIGINT, 0), (signal.SIGTERM, 0)):
            with self.subTest(how):
                out = self.folder / how.name
                process = self.start(*self.arguments(out))
                self.wait_for(out / "checkpoint.safetensors", process)
                process.send_signal(how)
                text, errors = process.communicate(timeout=60)
                self.assertEqual((process.returncode, errors), (code, ""))
                steps = int(checkpoint(out)[0]["steps"])
                self.assertTrue(40 <= steps < 3000, steps)
                if how == signal.SIGKILL:
                    self.assertEqual(steps % 40, 0)
                else:
                    self.assertRegex(text, rf"interrupted behind step {steps} of 3000; .* go on with --resume")
                    self.assertFalse((out / "params.safetensors").exists())
                self.assertRegex(self.succeeds(*self.arguments(out), "--resume"), f"goes on behind step {steps} of 3000 steps")
                self.assertEqual(checkpoint(out), checkpoint(whole))
                self.assertEqual(metrics(out, "loss"), metrics(whole, "loss"))
                self.assertEqual(metrics(out, "test_loss"), metrics(whole, "test_loss"))

    def test_a_checkpoint_of_something_else_is_refused_with_the_difference(self):
        self.train("mlp", *self.data, "--hidden", "8", "--steps", 2, "--out", self.out)
        again = ["train", "mlp", *self.data, "--steps", 4, "--out", self.out, "--resume"]
        self.fails(1, r"(?s)'hidden.0.weight'.*f32\[8, 3\].*f32\[9, 3\].*loading the checkpoint", *again, "--hidden", "9")
        self.fails(1, r"trained as 'hidden.0.weight: adam_update.*this session as 'hidden.0.weight: lion", *again, "--hidden", "8", "--optimizer", "lion")
        self.fails(1, "this session trains 'hidden.1.bias' and 1 more, it does not", *again, "--hidden", "8,8")
        self.fails(1, "'batch_size=32'; this one has 'batch_size=16'", *again, "--hidden", "8", "--batch-size", 16)
        self.fails(1, "checkpoint.safetensors", "train", "linear", "--out", self.folder / "none", "--resume")

    def test_a_full_disk_leaves_the_old_checkpoint(self):
        self.train("mlp", *self.data, "--hidden", "200,200", "--steps", 2, "--out", self.out)
        before = checkpoint(self.out)

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        # Python ignores the signal of a file that grows too large, and so does what it starts: writing fails instead.
        process = self.start("train", "mlp", *self.data, "--hidden", "200,200", "--steps", 4, "--out", self.out, "--resume",
                             preexec_fn=small_files, restore_signals=False)  # fmt: skip
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(errors, r"(?s)checkpoint.safetensors.*File too large")
        self.assertEqual(checkpoint(self.out), before)
        self.assertEqual([p.name for p in self.out.iterdir() if "checkpoint" in p.name], ["checkpoint.safetensors"])

    def test_a_loss_that_is_no_number_ends_it_with_the_node(self):
        self.fails_after(r"the loss is (inf|nan) at step \d+; .*", "train", "linear", *self.data, "--optimizer", "sgd", "--momentum", 0,
                         "--learning-rate", 1e30, "--steps", 50, "--out", self.out)  # fmt: skip

    def test_a_nan_in_the_data_is_found(self):
        write_npy(self.folder / "x.npy", "<f4", [60, 2], range(120))
        write_npy(self.folder / "t.npy", "<f4", [60], [float("nan") if a == 41 else a for a in range(60)])
        self.fails_after(r"(?s)the loss is nan at step 1; .* in the input 't'.*while learning from data of which example 41 of 't' has nan", "train", "linear",
                         "--data", f"x={self.folder / 'x.npy'}", "--data", f"t={self.folder / 't.npy'}", "--batch-size", 64, "--out", self.out)  # fmt: skip

    def test_a_hole_in_a_table_is_found_before_anything_is_learned(self):
        rows = "".join(f"{a},{a + 1},{'' if a == 41 else a}\n" for a in range(60))
        table = self.file("holes.csv", "a,b,t\n" + rows)
        self.fails(1, "row 43 of '.*holes.csv', column 't', has no value", "train", "linear", "--data", f"x={table}:a,b", "--data", f"t={table}:t",
                   "--out", self.out)  # fmt: skip

    def fails_after(self, pattern, *arguments):
        from program import rlx

        result = rlx(*arguments)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, pattern)

    def test_the_audit_lists_gradients_and_refuses_what_none_reaches(self):
        graph = self.file("g.rlx", GRAPH)
        write_safetensors(self.folder / "start.safetensors", {"w": ("F32", [3, 1], f32(0, 0, 0))})
        text = self.succeeds("train", graph, *self.data, "--params", self.folder / "start.safetensors", "--batch-size", 60, "--audit", "--out", self.out)
        # At w = 0 the gradient of the mean of the squares is -2/60 sum of x t.
        gradient = [-2 / 60 * sum(self.x[3 * n + d] * self.t[n] for n in range(60)) for d in range(3)]
        self.assertRegex(text, r"w +f32\[3, 1\] +\d")
        self.assertAlmostEqual(float(text.splitlines()[1].split()[-1]), sum(g * g for g in gradient) ** 0.5, delta=1e-4)
        self.assertFalse(self.out.exists())
        unreached = self.file("u.rlx", UNREACHED)
        from program import rlx

        result = rlx("train", unreached, *self.data, "--audit")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"v +f32\[3, 1\] +0 +unreached")
        self.assertRegex(result.stderr, "no gradient reaches 'v'; freeze what is not to be trained")
        self.succeeds("train", unreached, *self.data, "--audit", "--allow-unused")
        self.succeeds("train", unreached, *self.data, "--audit", "--freeze", "v")

    def test_answers_of_yes_and_no_are_labels(self):
        write_npy(self.folder / "yes.npy", "|b1", [60], [v > 0 for v in self.t])
        data = [*self.data[:2], "--data", f"t={self.folder}/yes.npy"]
        self.train("linear", *data, "--epochs", 20, "--learning-rate", 0.05, "--hold-out", 0.2, "--out", self.out)
        self.assertGreaterEqual(metrics(self.out, "test_accuracy")[40], 0.9)
        write_npy(self.folder / "no.npy", "<i8", [60], [0] * 59 + [-1])
        self.fails(1, "the label of example 59 is -1; labels count from 0", "train", "linear", *data[:3], f"t={self.folder}/no.npy", "--out", self.folder / "no")

    def test_patience_ends_it_early_and_keeps_the_best(self):
        text = self.train("linear", "--learning-rate", 1e-9, "--epochs", 50, "--patience", 3, "--hold-out", 0.2, "--weight-decay", 0,
                          "--optimizer", "lion", "--out", self.out)  # fmt: skip
        self.assertRegex(text, "the best so far")
        rising = self.folder / "rising"
        text = self.train("linear", "--optimizer", "lion", "--learning-rate", 10, "--epochs", 50, "--patience", 2, "--hold-out", 0.2, "--out", rising,
                          "--ema", 0.5)  # fmt: skip
        self.assertRegex(text, "stopped: 2 tests in a row were no better")
        self.assertLess(max(metrics(rising, "test_loss")), 50 * 2)
        # What was tested is what is written: the moving mean, which is not the param.
        state, (_, written), (_, best) = checkpoint(rising)[1], *(checkpoint(rising, f"{name}.safetensors") for name in ("params", "best"))
        self.assertEqual(written["out.weight"], state["mean/out.weight"])
        self.assertNotEqual(written["out.weight"], state["out.weight"])
        self.assertNotEqual(best["out.weight"], written["out.weight"])

    def test_small_images_and_text_are_learned(self):
        draw = random.Random(5)
        labels = [i % 2 for i in range(40)]
        # Class 0 is bright on the left, class 1 on the right.
        pixels = bytes(min(255, draw.randrange(60) + (150 if (x < 4) == (k == 0) else 0)) for k in labels for _ in range(8) for x in range(8))
        (self.folder / "i.idx").write_bytes(struct.pack(">HBBIII", 0, 8, 3, 40, 8, 8) + pixels)
        (self.folder / "l.idx").write_bytes(struct.pack(">HBBI", 0, 8, 1, 40) + bytes(labels))
        write_npy(self.folder / "i.npy", "|u1", [40, 8, 8], pixels)
        self.train("cnn", "--channels", "4", "--hidden", "8", "--data", f"x={self.folder}/i.idx", "--data", f"t={self.folder}/l.idx",
                   "--hold-out", 0.2, "--epochs", 12, "--batch-size", 8, "--learning-rate", 0.01, "--shift", 1, "--accumulate", 2,
                   "--out", self.out)  # fmt: skip
        self.assertEqual(list(metrics(self.out, "test_accuracy").values())[-1], 1)

        # What becomes of bytes is said, is the user's to choose, and is part of the model that is written.
        for words, said, factor in (((), "x holds bytes, which the model multiplies by 0.00392157 (--byte-scale)", "0.0039"),
                                    (("--byte-scale", 0.5), "x holds bytes, which the model multiplies by 0.5 (--byte-scale)", "0.5"),
                                    (("--byte-scale", 1), "x holds bytes, which the model multiplies by 1 (--byte-scale)", None)):  # fmt: skip
            out = self.folder / f"scaled by {words[1] if words else 'default'}"
            text = self.train("linear", "--data", f"x={self.folder}/i.idx", "--data", f"t={self.folder}/l.idx", "--steps", 1, *words, "--out", out)
            self.assertIn(said, text)
            written = (out / "inference.rlx").read_text()
            self.assertEqual(factor is not None, "mul(" in written)
            self.assertIn(factor or "", written)
            # The model and its params are all that `rlx run` needs.
            run = ["run", out / "inference.rlx", "--params", out / "params.safetensors", "--input", f"x={self.folder}/i.npy"]
            self.succeeds(*run, "--output-dir", out / "answers")
            shape, scores = read_npy(out / "answers/y.npy")
            self.assertEqual(shape, (40, 2))
            weight = struct.unpack("<128f", read_safetensors(out / "params.safetensors")[1]["out.weight"])
            bias = struct.unpack("<2f", read_safetensors(out / "params.safetensors")[1]["out.bias"])
            scale = words[1] if words else 1 / 255
            for i in (0, 39):
                for k in (0, 1):
                    want = bias[k] + sum(scale * p * w for p, w in zip(pixels[64 * i : 64 * i + 64], weight[64 * k : 64 * k + 64]))
                    self.assertAlmostEqual(scores[2 * i + k], want, delta=1e-5 * (1 + abs(want)))
        self.fails(1, "byte_scale is 0; it must be finite, and not 0", "train", "linear", "--byte-scale", 0)

        self.file("a.md", "abc größe " * 60)
        out = self.folder / "lm"
        text = self.train("char_lm", "--data", f"text={self.folder}", "--layers", 1, "--width", 16, "--heads", 2, "--context", 16, "--steps", 60,
                          "--learning-rate", 0.01, "--batch-size", 8, "--prompt", "abc", "--length", 30, "--out", out)  # fmt: skip
        losses = metrics(out, "loss")
        self.assertLess(losses[60], 0.5 * losses[1])
        sample = (out / "sample.txt").read_text(encoding="utf-8")
        self.assertEqual(len(sample), 33)
        self.assertTrue(sample.startswith("abc") and set(sample) <= set("abc größe "))
        self.assertTrue(text.endswith(sample + "\n"))


if __name__ == "__main__":
    unittest.main()
