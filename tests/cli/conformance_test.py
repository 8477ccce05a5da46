#!/usr/bin/env python3
"""`rlx conformance` on the cases of tests/mil (cases.tar.xz: recorded from coremltools' own op tests; models.tar.xz: models of
PyTorch), on damaged copies of them, and `rlx run` and `rlx inspect` on their packages."""

import json
import math
import pathlib
import shutil
import struct
import tarfile
import tempfile
import unittest
import zlib

from program import ROOT, ProgramTest, read_npy, rlx, write_npy

HOLDER = tempfile.TemporaryDirectory()
CASES = pathlib.Path(HOLDER.name)
for name in ("cases", "models"):
    with tarfile.open(ROOT / f"tests/mil/{name}.tar.xz") as archive:
        archive.extractall(CASES / name)


def smallest_case(op):
    """The folder of an f32 case with that op whose package is small."""
    cases = [(p.parent, json.loads(p.read_text())) for p in (CASES / "cases").rglob("case.json")]
    found = [folder for folder, case in cases if op in case["ops"] and case["precision"] == "fp32"]
    return min(found, key=lambda f: sum(e.stat().st_size for e in f.rglob("*") if e.is_file()))


class Conformance(ProgramTest):
    def run_program(self, *arguments, code=0):
        done = rlx(*arguments)
        self.assertEqual(done.returncode, code, done.stdout[-3000:] + done.stderr)
        return done

    def test_all_cases_pass(self):
        count = len(list(CASES.rglob("case.json")))
        self.assertGreater(count, 100)
        report = self.folder / "report.json"
        done = self.run_program("conformance", CASES, "--json", report)
        self.assertEqual(done.stdout.splitlines()[-1], f"{count} passed, 0 failed", done.stdout[-3000:])
        details = json.loads(report.read_text())
        self.assertEqual(details["passed"], count)
        self.assertEqual(len(details["cases"]), count)

    def copy(self, op):
        case = smallest_case(op)
        target = self.folder / "cases" / "a" / "0"
        shutil.copytree(case, target)
        return target

    def test_a_wrong_number_is_seen(self):
        case = self.copy("square")
        step = json.loads((case / "case.json").read_text())["steps"][0]
        (file,) = step["out"].values()
        shape, values = read_npy(case / file)
        values[1] += 0.5
        write_npy(case / file, "<f4", list(shape), values)
        done = self.run_program("conformance", self.folder / "cases", code=1)
        self.assertIn("0 passed, 1 failed", done.stdout)
        self.assertIn("elements differ", done.stdout)

    def test_a_damaged_package_costs_its_case_only(self):
        case = self.copy("square")
        shutil.copytree(smallest_case("exp"), self.folder / "cases" / "b" / "0")
        model = case / "model.mlpackage/Data/com.apple.CoreML/model.mlmodel"
        model.chmod(0o600)
        model.write_bytes(model.read_bytes()[:-7])
        done = self.run_program("conformance", self.folder / "cases", code=1)
        self.assertIn("1 passed, 1 failed", done.stdout)

    def classifier_case(self, **step):
        """A case of an image classifier: the color whose sum over the picture is largest, blue being the first channel in the program."""
        graph = self.file("picture.rlx", '''rlx 1
graph @picture {
  %0 = input() @"picture" : f32[1, 3, 2, 2]
  %1 = reduce(%0) {kind = sum, axes = [2, 3]} : f32[1, 3]
  %2 = softmax(%1) {axis = 1} : f32[1, 3]
  return %2 @"scores"
}
''')
        case = self.folder / "image_cases/a"
        case.mkdir(parents=True, exist_ok=True)
        labels = self.file("labels.txt", "blue\ngreen\nred\n")
        self.succeeds("convert", graph, "-o", case / "model.mlpackage", "--image", "picture:bgr:0.01", "--classes", labels)
        (case / "case.json").write_text(json.dumps({"precision": "fp32", "atol": 1e-6, "rtol": 1e-5, "fp16_inside": False, "steps": [step]}))
        return case

    def test_images_and_labels_are_judged(self):
        red = bytes([200, 10, 30] * 4)  # RGB, 2 x 2
        rows = b"".join(b"\0" + red[6 * y : 6 * y + 6] for y in range(2))
        chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        sums = [math.exp(4 * 0.01 * v) for v in (30, 10, 200)]  # blue, green, red
        scores = [v / sum(sums) for v in sums]
        for file in ("red.png", "red.npy"):
            with self.subTest(file):
                case = self.classifier_case(**{"in": {"picture": file}, "out": {"classLabel_probs": "scores.npy"}, "label": "red"})
                (case / "red.png").write_bytes(png)
                write_npy(case / "red.npy", "|u1", [2, 2, 3], red)
                write_npy(case / "scores.npy", "<f4", [1, 3], scores)
                self.assertIn("1 passed, 0 failed", self.run_program("conformance", case.parent).stdout)
                said = self.run_program("run", case / "model.mlpackage", "--input", f"picture={case / file}", "--json").stdout
                self.assertEqual(json.loads(said)["label"], "red")
        case = self.classifier_case(**{"in": {"picture": "red.png"}, "out": {}, "label": "green"})
        done = self.run_program("conformance", case.parent, code=1)
        self.assertIn("the label is 'red', expected is 'green'", done.stdout)
        write_npy(case / "scores.npy", "<f4", [1, 3], scores[::-1])
        case = self.classifier_case(**{"in": {"picture": "red.png"}, "out": {"classLabel_probs": "scores.npy"}})
        self.assertIn("elements differ", self.run_program("conformance", case.parent, code=1).stdout)

    def test_nothing_to_judge_is_an_error(self):
        empty = self.folder / "empty"
        (empty / "a").mkdir(parents=True)
        done = self.run_program("conformance", empty, code=1)
        self.assertIn(f"no case.json lies below '{empty}'", done.stderr)
        self.copy("square")
        done = self.run_program("conformance", self.folder / "cases", "--op", "lstm", code=1)
        self.assertIn("none of the 1 cases below", done.stderr)

    def test_a_case_that_compares_nothing_or_leaves_its_folder_fails(self):
        case = self.copy("square")
        file = case / "case.json"
        content = json.loads(file.read_text())
        for damage, words in (({"steps": []}, "nothing to compare"),
                              ({"steps": [{"in": {"x": "../x.npy"}, "out": {"y": "y.npy"}}]}, "no name in its folder")):
            file.chmod(0o600)
            file.write_text(json.dumps(content | damage))
            done = self.run_program("conformance", self.folder / "cases", code=1)
            self.assertIn(words, done.stdout)

    def test_infinities_agree_by_sign_alone(self):
        case = self.copy("square")
        step = json.loads((case / "case.json").read_text())["steps"][0]
        (file,), (given,) = step["out"].values(), step["in"].values()
        shape, values = read_npy(case / file)
        for got, wanted, passes in ((1e30, float("inf"), True), (1e30, float("-inf"), False), (1, float("inf"), False)):
            ins, outs = [1.0] * len(values), [1.0] * len(values)
            ins[0], outs[0] = got, wanted
            write_npy(case / given, "<f4", list(shape), ins)
            write_npy(case / file, "<f4", list(shape), outs)
            done = self.run_program("conformance", self.folder / "cases", code=0 if passes else 1)
            self.assertIn("1 passed" if passes else "1 failed", done.stdout)

    def test_outputs_are_written_under_the_names_of_the_expected_ones(self):
        case = smallest_case("square")
        out = self.folder / "out"
        self.run_program("conformance", case.parent, "--outputs", out)
        step = json.loads((case / "case.json").read_text())["steps"][0]
        (file,) = step["out"].values()
        written = list(pathlib.Path(out).rglob(file))
        self.assertTrue(written)
        self.assertEqual(read_npy(written[0])[0], read_npy(case / file)[0])

    def test_run_and_inspect(self):
        case = smallest_case("square")
        step = json.loads((case / "case.json").read_text())["steps"][0]
        (name, file), (result, expected) = next(iter(step["in"].items())), next(iter(step["out"].items()))
        out = self.folder / "out"
        self.run_program("run", case / "model.mlpackage", "--input", f"{name}={case / file}", "--output-dir", out)
        for got, want in zip(read_npy(out / f"{result}.npy")[1], read_npy(case / expected)[1]):
            self.assertAlmostEqual(got, want, places=5)
        text = self.run_program("inspect", case / "model.mlpackage").stdout
        for word in ("function 'main' (CoreML5)", f"input   {name}", "square", "sizes"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
