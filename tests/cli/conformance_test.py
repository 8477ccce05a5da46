#!/usr/bin/env python3
"""`rlx conformance` on the cases of tests/mil (cases.tar.xz: recorded from coremltools' own op tests; models.tar.xz: models of
PyTorch), on damaged copies of them, and `rlx run` and `rlx inspect` on their packages."""

import json
import pathlib
import shutil
import tarfile
import tempfile
import unittest

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
