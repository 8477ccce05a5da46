#!/usr/bin/env python3
"""Files that older versions of RLX wrote give today what they gave then: each folder beside this file is named for a version,
write.py says how it was made, and expected.json holds NumPy's numbers. docs/versions.md promises what is tested here."""

import array
import json
import pathlib
import platform
import re
import shutil
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
from program import ProgramTest, read_safetensors, rlx  # noqa: E402

# The version in the making has files, too: they can be written only as long as it is that.
THIS = re.search(r"^project\(rlx VERSION (\d+\.\d+)\.", (HERE.parents[1] / "CMakeLists.txt").read_text(), flags=re.M).group(1)
VERSIONS = sorted(p.name for p in HERE.iterdir() if (p / "expected.json").is_file())


def floats_of(path):
    """The tensors of a safetensors file of f32, by name."""
    return {name: array.array("f", data) for name, data in read_safetensors(path)[1].items()}


class OlderFiles(ProgramTest):
    def close(self, got, wanted, what):
        self.assertEqual(len(got), len(wanted), what)
        for i, (a, b) in enumerate(zip(got, wanted)):
            self.assertAlmostEqual(a, b, delta=2e-6 * max(1, abs(b)), msg=f"{what}, element {i}")

    def outputs(self, *words):
        self.succeeds(*words, "--output", self.folder / "out.safetensors")
        return floats_of(self.folder / "out.safetensors")

    def each(self):
        self.assertIn(THIS, VERSIONS, "write.py writes its files")
        for version in VERSIONS:
            yield version, HERE / version, json.loads((HERE / version / "expected.json").read_text())

    def test_a_graph_and_its_params_give_their_numbers(self):
        for version, folder, expected in self.each():
            got = self.outputs("run", folder / "model.rlx", "--params", folder / "params.safetensors", "--input", f"x={folder / 'x.npy'}")
            for name in ("y", "p"):
                self.close(got[name], expected[name], f"{name} of {version}")

    def test_a_compiled_graph_is_compiled_again_and_gives_its_numbers(self):
        for version, folder, expected in self.each():
            about = json.loads(self.succeeds("inspect", folder / "model.rlxc", "--json"))
            self.assertEqual((about["kind"], about["graph"], about["values"]), ("compiled graph", "small", ["w"]))
            self.succeeds("compile", folder / "model.rlxc", "-o", self.folder / "again.rlxc")
            got = self.outputs("run", self.folder / "again.rlxc", "--input", f"x={folder / 'x.npy'}")
            for name in ("y", "p"):
                self.close(got[name], expected[name], f"{name} of {version}")

    def test_a_compiled_graph_of_another_machine_or_version_says_what_to_do(self):
        """As it stands it runs where it was written only; elsewhere it is refused, by name, and never wrong."""
        for version, folder, expected in self.each():
            words = ["run", folder / "model.rlxc", "--input", f"x={folder / 'x.npy'}", "--output", self.folder / "out.safetensors"]
            elsewhere = {}
            if platform.machine() == "x86_64":  # the file is for avx2; a build for one processor may have no kernels for less
                others = [name for name in ("sse4", "avx512") if rlx("devices", RLX_ISA=name).returncode == 0]
                if not others:
                    self.skipTest("this processor and this build have kernels for avx2 alone")
                elsewhere["RLX_ISA"] = others[0]
            self.fails(1, "(version of RLX|processor): 'small' was compiled for .*rlx compile", *words, **elsewhere)

    def test_a_checkpoint_is_gone_on_with(self):
        for version, folder, expected in self.each():
            shutil.copytree(folder / "trained", self.folder / version)
            self.close(floats_of(self.folder / version / "checkpoint.safetensors")["w"], expected["w"], f"the checkpoint of {version}")
            said = self.succeeds("train", folder / "loss.rlx", "--data", f"x={folder / 'x.npy'}", "--data", f"t={folder / 't.npy'}",
                                 "--steps", expected["more_steps"], "--out", self.folder / version, "--resume", *expected["train"])
            self.assertRegex(said, f"goes on behind step {expected['steps']} of {expected['more_steps']} steps")
            self.close(floats_of(self.folder / version / "params.safetensors")["w"], expected["w_after_more"], f"the params of {version}")


if __name__ == "__main__":
    unittest.main()
