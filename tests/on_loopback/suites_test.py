#!/usr/bin/env python3
"""The suites that ctest runs on the simulated accelerator do run there: where the device is lost at its first launch, one case of each fails and says so.

The suites are those that ctest lists as `*.on_loopback`; each has its case below, so that none is forgotten."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["RLX_TESTS"]).parents[1]
ENTRY = ".on_loopback"
# Behind the suite's own command: one case, which ends at its first failure.
ONE_CASE = {
    "e2e": ["--test-case=an LSTM that is a scan*", "--abort-after=1"],
    "golden": ["--test-case=the default device gives them with one thread*", "--abort-after=1"],
    "laws": ["--abort-after=1"],
    "minilm": ["encoder_test.Embed.test_the_environment_can_name_the_model"],
    "models": ["--test-case=the logits behind the last token*", "--abort-after=1"],
    "python": ["-x", "-k", "test_a_jitted_function_runs_on_the_default_device"],
    "train": ["--test-case=gradient descent solves a linear regression", "--abort-after=1"],
}
# What the command of an entry runs in whole, and one case does not.
DROPPED = {"minilm": ["encoder_test.Embed", "encoder_test.Search", "package_minilm_test"]}
SKIPPED = 77


def entries():
    """Name of the suite: its command, folder and environment, as ctest has them."""
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1", "-R", r"\.on_loopback$"], capture_output=True, text=True, check=True)
    for test in json.loads(listed.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        environment = dict(one.split("=", 1) for one in properties["ENVIRONMENT"])
        yield test["name"].removesuffix(ENTRY), test["command"], properties["WORKING_DIRECTORY"], environment


class Suites(unittest.TestCase):
    def test_every_suite_fails_where_the_device_is_lost(self):
        suites = list(entries())
        self.assertTrue(suites)
        for suite, command, folder, environment in suites:
            with self.subTest(suite):
                self.assertEqual(environment["RLX_DEVICE"], "loopback")
                self.assertIn(suite, ONE_CASE, f"{suite}{ENTRY} needs a case in {__file__}")
                one = [word for word in command if word not in DROPPED.get(suite, [])] + ONE_CASE[suite]
                done = subprocess.run(one, cwd=folder, env=os.environ | environment | {"RLX_LOOPBACK_FAULTS": "lose:1"}, capture_output=True, text=True)
                said = done.stdout + done.stderr
                if suite == "minilm" and done.returncode == SKIPPED:
                    print(said)
                    continue
                self.assertNotEqual(done.returncode, 0, f"{suite} passes without its device:\n{said}")
                self.assertRegex(said, "loopback (was|is) lost", f"{suite} fails of something else")


if __name__ == "__main__":
    sys.exit(unittest.main())
