#!/usr/bin/env python3
"""`rlx lint`, `rlx compare`, `rlx where --target coreml` and `rlx run --compare` on the packages of tests/mil, which coremltools
wrote, and on damaged copies."""

import json
import pathlib
import shutil
import tarfile
import tempfile
import unittest

from program import ROOT, ProgramTest, rlx, write_npy

HOLDER = tempfile.TemporaryDirectory()
CASES = pathlib.Path(HOLDER.name)
for name in ("cases", "models"):
    with tarfile.open(ROOT / f"tests/mil/{name}.tar.xz") as archive:
        archive.extractall(CASES / name)
PACKAGES = sorted(CASES.rglob("*.mlpackage"))
CNN = CASES / "models/cnn/fp16"


def case_input(folder):
    """NAME=FILE of the case's only input."""
    ((name, file),) = json.loads((folder / "case.json").read_text())["steps"][0]["in"].items()
    return name, folder / file


class PackageTest(ProgramTest):
    def says(self, code, text, *arguments):
        """A verdict on standard output, and the reason for the exit code."""
        done = rlx(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertTrue(done.stdout)


class Lint(ProgramTest):
    def test_packages_that_apple_wrote_are_clean(self):
        self.assertGreater(len(PACKAGES), 100)
        done = rlx("lint", *PACKAGES)
        self.assertEqual(done.returncode, 0, "\n".join(line for line in done.stdout.splitlines() if not line.endswith("clean")))
        self.assertEqual(done.stdout.count(": clean"), len(PACKAGES))

    def damaged(self, change):
        package = self.folder / "damaged.mlpackage"
        shutil.copytree(CNN / "model.mlpackage", package)
        try:
            change(package)
            done = rlx("lint", package, "--json")
            self.assertEqual(done.returncode, 1, done.stdout)
            (verdict,) = json.loads(done.stdout)
            return verdict["findings"]
        finally:
            shutil.rmtree(package)

    def test_damage_is_found(self):
        model, weights = "Data/com.apple.CoreML/model.mlmodel", "Data/com.apple.CoreML/weights/weight.bin"

        def replaced(file, old, new):
            def change(package):
                data = (package / file).read_bytes()
                self.assertIn(old, data)
                self.assertEqual(len(old), len(new))
                (package / file).write_bytes(data.replace(old, new))
            return change

        def cut(file, part):
            return lambda package: (package / file).write_bytes((package / file).read_bytes()[: int((package / file).stat().st_size * part)])

        def manifest(change):
            def apply(package):
                path = package / "Manifest.json"
                content = json.loads(path.read_text())
                change(content)
                path.write_text(json.dumps(content))
            return apply

        def zip_slip(content):
            for item in content["itemInfoEntries"].values():
                item["path"] = "../../" + item["path"]

        for what, change, rule in (
            ("an op that there is not", replaced(model, b"\n\x04relu", b"\n\x04relv"), "op"),
            ("a sentinel", replaced(weights, b"\xef\xbe\xad\xde", b"\xef\xbe\xad\xdf"), "blob"),
            ("weights that are cut", cut(weights, 0.5), "blob"),
            ("a model that is cut", cut(model, 0.7), "layout"),
            ("a path that leads out", manifest(zip_slip), "layout"),
            ("no root", manifest(lambda m: m.pop("rootModelIdentifier")), "layout"),
            ("no manifest", lambda package: (package / "Manifest.json").unlink(), "layout"),
            ("an opset that there is not", replaced(model, b"CoreML7", b"CoreML4"), "version"),
        ):
            with self.subTest(what):
                found = self.damaged(change)
                self.assertIn(rule, {f["rule"] for f in found}, found)

    def test_usage(self):
        self.fails(2, "lint takes Core ML packages", "lint", "model.rlx")
        self.fails(1, "nowhere", "lint", self.folder / "nowhere.mlpackage")


class Run(PackageTest):
    def test_the_label_is_the_predicted_feature_wherever_it_stands(self):
        # The first output is a number that is far beyond the labels.
        graph = self.file("m.rlx", '''rlx 1
graph @m {
  %0 = input() @"x" : f32[1, 3]
  %1 = reduce(%0) {kind = sum, axes = [0, 1]} : f32[]
  %2 = softmax(%0) {axis = 1} : f32[1, 3]
  return %1 @"sum", %2 @"scores"
}
''')
        labels, package = self.file("labels.txt", "red\ngreen\nblue\n"), self.folder / "m.mlpackage"
        self.succeeds("convert", graph, "-o", package, "--classes", labels, "--probabilities", "scores")
        write_npy(self.folder / "x.npy", "<f4", [1, 3], [1e6, 3e6, 2e6])
        out = self.succeeds("run", package, "--input", f"x={self.folder / 'x.npy'}")
        self.assertIn("\nlabel green\n", out)


class Convert(PackageTest):
    LAYER = '''rlx 1
graph @layer {
  %0 = input() @"x" : f32[B, S]
  %1 = softmax(%0) {axis = 1} : f32[B, S]
  return %1 @"y"
}
'''

    def test_sizes_stay_open(self):
        graph, package = self.file("open.rlx", self.LAYER), self.folder / "open.mlpackage"
        self.succeeds("convert", graph, "-o", package, "--shapes", "B=1..4", "--shapes", "S=2..")
        self.assertIn("[?, ?]", self.succeeds("inspect", package))
        self.assertIn("clean", self.succeeds("lint", package))
        for rows, columns in ((1, 2), (3, 5)):
            write_npy(self.folder / "x.npy", "<f4", [rows, columns], [0] * (rows * columns))
            out = self.succeeds("run", package, "--input", f"x={self.folder / 'x.npy'}")
            self.assertRegex(out, rf"y +f32\[{rows}, {columns}\] +{1 / columns:g} ")
        self.fails(1, "neither a number nor sizes", "convert", graph, "-o", package, "--shapes", "B=1..4")
        self.fails(1, "NAME=LEAST..MOST", "convert", graph, "-o", package, "--shapes", "B=few")
        self.succeeds("convert", graph, "-o", package, "--dim", "B=1", "--shapes", "S=16,32")
        self.fails(1, "a number is given for T, which is no symbol of an input; there are B, S", "convert", graph, "-o", package,
                   "--dim", "T=1", "--dim", "B=1", "--shapes", "S=2..")

    def test_arrays_are_taken_in_any_dtype_that_keeps_their_values(self):
        def package(dtype):
            text = f'rlx 1\ngraph @m {{\n  %0 = input() @"x" : {dtype}[2]\n  %1 = add(%0, %0) : {dtype}[2]\n  return %1 @"y"\n}}\n'
            path = self.folder / f"{dtype}.mlpackage"
            self.succeeds("convert", self.file(f"{dtype}.rlx", text), "-o", path, "--minimum-ios", "16")
            return path

        def run(path, kind, values, *more):
            write_npy(self.folder / "x.npy", kind, [2], values)
            return self.succeeds("run", path, "--input", f"x={self.folder / 'x.npy'}", *more)

        half, whole = package("f16"), package("i32")
        self.assertRegex(run(half, "<f4", [0.1, 2]), r"f16\[2\] +0.199951 4")
        self.assertIn("as it is written, and in f32", run(half, "<f8", [0.1, 2], "--compare"))
        self.assertRegex(run(whole, "<i8", [-3, 2]), r"i32\[2\] +-6 4")
        self.assertRegex(run(whole, "<f4", [-3, 2]), r"i32\[2\] +-6 4")
        for kind, values, held in (("<f4", [0.5, 2], "0.5"), ("<i8", [1, 2**40], r"1.09951e\+12")):
            write_npy(self.folder / "x.npy", kind, [2], values)
            self.fails(1, f"holds {held}", "run", whole, "--input", f"x={self.folder / 'x.npy'}")

    def test_what_is_an_image_or_a_state_stays_one_when_a_package_is_written_anew(self):
        graph = self.file("picture.rlx", '''rlx 1
graph @picture {
  %0 = input() @"picture" : f32[1, 3, 4, 5]
  %1 = reduce(%0) {kind = sum, axes = [2, 3]} : f32[1, 3]
  %2 = softmax(%1) {axis = 1} : f32[1, 3]
  return %2 @"scores"
}
''')
        first, second = (self.folder / f"{name}.mlpackage" for name in ("first", "second"))

        def features(package):
            """Its inputs, outputs and states, as far as they do not depend on what it is called."""
            return [line for line in self.succeeds("inspect", package).splitlines() if "f16[" in line or "f32[" in line or "i32[" in line]

        labels = self.file("labels.txt", "red\ngreen\nblue\n")
        self.succeeds("convert", graph, "-o", first, "--image", "picture:bgr:0.5", "--classes", labels)
        said = self.succeeds("convert", first, "-o", second)
        self.assertRegex(said, r"the package is a classifier, whose labels are not kept: 'classLabel' becomes the label's number; --classes FILE")
        self.assertRegex(features(first)[0], r"^ *input +picture +image ")
        self.assertEqual(features(first)[0], features(second)[0])

        graph = self.file("counter.rlx", '''rlx 1
graph @counter {
  %0 = input() @"x" : f16[2]
  %1 = input() @"count" : f16[2]
  %2 = add(%0, %1) : f16[2]
  return %2 @"y", %2 @"next"
}
''')
        self.succeeds("convert", graph, "-o", first, "--state", "count=next")
        self.succeeds("convert", first, "-o", second)
        self.assertEqual(sum("count" in line for line in features(first)), 1)
        self.assertEqual(features(first), features(second))

    def test_a_package_is_written_anew(self):
        name, file = case_input(CNN)
        package = self.folder / "wide.mlpackage"
        self.assertIn("computes in f32", self.succeeds("convert", CNN / "model.mlpackage", "-o", package, "--precision", "f32"))
        self.assertNotIn("f16", self.succeeds("inspect", package))
        done = rlx("compare", CNN / "model.mlpackage", package, "--input", f"{name}={file}", "--bound", "0.02")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for wrong, why in (("wrong", "there is no input 'wrong'; there are '"), (name, f"input '{name}' is given twice")):
            self.fails(1, why, "run", package, "--input", f"{name}={file}", "--input", f"{wrong}={file}")


class Compare(PackageTest):
    def test_two_precisions_differ_by_the_rounding_of_f16(self):
        name, file = case_input(CNN)
        done = rlx("compare", CNN / "model.mlpackage", "--input", f"{name}={file}", "--bound", "1e-9", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[-1], r"^first beyond 1e-09: '\w+' of \w+, ")
        parts = [float(line.split()[3]) for line in lines[1:-1]]
        self.assertEqual(parts, sorted(parts, reverse=True))  # the worst first
        self.assertTrue(0 < parts[0] < 0.05, parts[0])
        loose = rlx("compare", CNN / "model.mlpackage", "--input", f"{name}={file}", "--bound", "0.1", "--strict")
        self.assertEqual(loose.returncode, 0, loose.stderr)
        self.assertRegex(loose.stdout.splitlines()[-1], r"^all \d+ values within 0.1$")
        self.says(1, "differ by more than", "compare", CNN / "model.mlpackage", "--bound", "1e-9", "--strict")

    def test_a_model_beside_itself_is_the_same(self):
        package = CASES / "models/cnn/fp32/model.mlpackage"
        out = self.succeeds("compare", package, package, "--bound", "0")
        self.assertIn("inputs are made up", out)
        self.assertRegex(out.splitlines()[-1], r"^all \d+ values within 0$")

    def test_graphs_are_compared_by_their_parts(self):
        text = 'rlx 1\ngraph @m {{\n  %0 = input() @"x" : f32[4]\n  %1 = {op}(%0) @"act" : f32[4]\n  return %1 @"y"\n}}\n'
        a, b = self.file("a.rlx", text.format(op="tanh")), self.file("b.rlx", text.format(op="sin"))
        write_npy(self.folder / "x.npy", "<f4", [4], [0, 0.25, 0.5, 1])
        out = self.succeeds("compare", a, b, "--input", f"x={self.folder / 'x.npy'}")
        self.assertIn("first beyond 0.001: 'act' of tanh", out)  # before the output y
        self.assertIn("[3] 0.761594 and 0.841471", out)
        self.fails(2, "with itself in f32 by --compute", "compare", a)

    def test_a_graph_is_compared_with_itself_in_less_than_f32(self):
        graph = self.file("g.rlx", 'rlx 1\ngraph @m {\n  %0 = input() @"x" : f32[4, 64]\n  %1 = iota() {type = f32[64, 32], axis = 0} : f32[64, 32]\n'
                          '  %2 = cos(%1) : f32[64, 32]\n  %3 = matmul(%0, %2) @"dense" : f32[4, 32]\n  return %3 @"y"\n}\n')  # fmt: skip
        for compute, least, most in (("int8", 1e-5, 0.02), ("bf16", 1e-5, 0.02), ("f32", 0, 0)):
            with self.subTest(compute):
                said = json.loads(self.succeeds("compare", graph, graph, "--compute", compute, "--json"))
                by_name = {value["name"]: value for value in said["values"]}
                self.assertEqual(set(by_name), {"dense", "y"})
                self.assertTrue(least <= by_name["y"]["relative"] <= most, by_name)
                self.assertTrue(0.9995 <= by_name["y"]["cosine"] <= 1.000001, by_name)
        text = self.succeeds("compare", graph, "--compute", "int8", "--bound", "0.02")
        self.assertIn("cosine", text)
        self.assertRegex(text.splitlines()[-1], r"^all 2 values within 0.02$")
        self.fails(2, "is a package", "compare", CNN / "model.mlpackage", "--compute", "int8")

    def test_run_compares_too(self):
        name, file = case_input(CNN)
        out = self.succeeds("run", CNN / "model.mlpackage", "--input", f"{name}={file}", "--compare")
        self.assertIn("as it is written, and in f32:", out)
        self.assertIn("of largest", out)


class Where(PackageTest):
    def test_a_package_has_a_prediction_with_reasons(self):
        package = CNN / "model.mlpackage"
        said = json.loads(self.succeeds("where", package, "--target", "coreml:ane", "--json"))
        self.assertIs(said["prediction"], True)
        self.assertTrue(said["ops"])
        for op in said["ops"]:
            self.assertIn(op["device"], ("ane", "cpu", "load"))
            self.assertTrue(op["reason"])
        by_op = {op["op"]: op["device"] for op in said["ops"]}
        self.assertEqual(by_op["conv"], "ane")
        out = self.succeeds("where", package, "--target", "coreml:ane")
        self.assertTrue(out.startswith("A prediction from published rules"))
        # An f32 program is not for the neural engine.
        wide = json.loads(self.succeeds("where", CASES / "models/cnn/fp32/model.mlpackage", "--target", "coreml:ane", "--json"))
        self.assertEqual({op["device"] for op in wide["ops"]} & {"ane"}, set())
        self.says(1, "would not run on the ane", "where", CASES / "models/cnn/fp32/model.mlpackage", "--target", "coreml:ane", "--strict")
        flexible = json.loads(self.succeeds("where", CASES / "models/flexible/fp16/model.mlpackage", "--target", "coreml:ane", "--json"))
        self.assertTrue(any("is a range" in op["reason"] for op in flexible["ops"]))
        self.assertEqual({op["device"] for op in flexible["ops"]} & {"ane"}, set())

    def test_graphs_and_devices_still_have_reports(self):
        graph = self.file("m.rlx", 'rlx 1\ngraph @m {\n  %0 = input() @"x" : f32[4]\n  %1 = tanh(%0) : f32[4]\n  return %1 @"y"\n}\n')
        self.assertIn("no CoreML.framework here", self.succeeds("where", graph, "--target", "coreml"))
        self.assertIn("on cpu", self.succeeds("where", CNN / "model.mlpackage"))
        self.fails(2, "--function is for", "where", graph, "--function", "f")
        devices = {d["device"]: d for d in json.loads(self.succeeds("devices", "--json"))}
        self.assertTrue(devices["coreml"]["available"])
        self.assertIn("CoreML.framework", devices["coreml"]["description"])


if __name__ == "__main__":
    unittest.main()
