#!/usr/bin/env python3
"""The manual pages and the shells' completions, which the program makes of its own command line."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from program import ProgramTest, rlx

SUBCOMMANDS = re.findall(r"(?m)^  ([\w-]+)  ", rlx("--help").stdout.split("Subcommands:")[1].split("\n\n")[0])


def long_options(help_text):
    names = re.findall(r"(?m)^  (-\S+)", help_text)  # "-h,--help"
    return {name for each in names for name in each.split(",") if name.startswith("--")}


class Completion(ProgramTest):
    def completed(self, *words):
        """What bash offers for the last of the words."""
        script = self.succeeds("completion", "bash") + (
            f'\nCOMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _rlx; printf "%s\\n" "${{COMPREPLY[@]}}"')
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_offers_subcommands_options_and_values(self):
        self.assertEqual(self.completed("rlx", "emb"), ["embed"])
        self.assertEqual(sorted(self.completed("rlx", "co")), sorted(name for name in SUBCOMMANDS if name.startswith("co")))
        self.assertIn("--npz-limit", self.completed("rlx", "--n"))
        self.assertEqual(self.completed("rlx", "run", "--accuracy", "e"), ["exact"])
        self.assertEqual(set(self.completed("rlx", "run", "--compute", '""')), {"f32", "f16", "bf16", "int8", "auto"})
        self.assertEqual(self.completed("rlx", "--load", "x.so", "embed", "--mo"), ["--model"])

    def test_bash_offers_each_option_that_the_help_has(self):
        for name in SUBCOMMANDS:
            with self.subTest(name):
                self.assertEqual(long_options(self.succeeds(name, "--help")), set(self.completed("rlx", name, "--")))

    def test_bash_offers_files_where_a_file_stands(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model.rlx").touch()
            self.assertEqual(self.completed("rlx", "run", f"{folder}/mo"), [f"{folder}/model.rlx"])
            self.assertEqual(self.completed("rlx", "run", "--params", f"{folder}/mo"), [f"{folder}/model.rlx"])

    def test_zsh_and_fish_can_read_theirs(self):
        for shell, words in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
            with self.subTest(shell):
                script = self.succeeds("completion", shell)
                for name in SUBCOMMANDS:
                    self.assertRegex(script, rf"\b{name}\b")
                self.assertIn("accuracy", script)
                if not shutil.which(shell):
                    self.skipTest(f"{shell} is not installed: its script was made and not parsed")
                done = subprocess.run([shell, *words], input=script, capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_another_shell_is_refused(self):
        self.fails(2, "tcsh", "completion", "tcsh")


class Manual(ProgramTest):
    def formatted(self, page):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed: the page was made and not formatted")
        done = subprocess.run(["groff", "-K", "utf8", "-man", "-ww", "-Tutf8", "-P-c"], input=page, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), "groff warns")
        return re.sub(r".\x08", "", done.stdout)

    def test_each_page_formats_without_warnings_and_has_each_option(self):
        for name in ["", *SUBCOMMANDS]:
            with self.subTest(name or "rlx"):
                text = self.formatted(self.succeeds("manual", *([name] if name else [])))
                self.assertRegex(text, r"NAME\n +rlx" + (f"-{name}" if name else "") + " +- ")
                for option in long_options(self.succeeds(*([name] if name else []), "--help")):
                    self.assertIn(option, text)

    def test_examples_stand_letter_by_letter(self):
        text = self.formatted(self.succeeds("manual", "run"))
        self.assertIn("rlx run digits --input x=seven.png --white 1", text)

    def test_an_unknown_subcommand_is_named(self):
        self.fails(1, "there is no subcommand 'embd'", "manual", "embd")

    def test_a_prefix_gets_them_all(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.succeeds("manual", "--install", folder), "")
            share = pathlib.Path(folder)
            self.assertEqual({path.name for path in (share / "man/man1").iterdir()},
                             {"rlx.1", *(f"rlx-{name}.1" for name in SUBCOMMANDS)})
            self.assertEqual((share / "bash-completion/completions/rlx").read_text(), self.succeeds("completion", "bash"))
            self.assertTrue((share / "zsh/site-functions/_rlx").is_file() and (share / "fish/vendor_completions.d/rlx.fish").is_file())
            os.chmod(folder, 0o555)
            if os.geteuid() != 0:  # root may write anywhere
                self.fails(1, "cannot", "manual", "--install", f"{folder}/no")
            os.chmod(folder, 0o755)


if __name__ == "__main__":
    unittest.main()
