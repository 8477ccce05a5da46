"""The template of a backend (examples/backend), copied and built outside of the tree against an installed RLX, by the commands of
CONTRIBUTING.md, "A backend in an hour". What is built here is gone when the process ends."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import PROGRAM, ROOT  # noqa: E402

if os.environ.get("RLX_SANITIZED"):  # the installed library would want the sanitizers' run time
    print("skipped: the template is built against the library of a build without sanitizers")
    sys.exit(77)

BUILD = pathlib.Path(PROGRAM).resolve().parents[1]
HOLDER = tempfile.TemporaryDirectory()
SCRATCH = pathlib.Path(HOLDER.name)
INSTALLED = SCRATCH / "installed"


def run(*command, **how):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **how)
    if result.returncode:
        sys.exit(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def compiler():
    return os.environ.get("CXX") or re.search(r"CMAKE_CXX_COMPILER:\w+=(.*)", (BUILD / "CMakeCache.txt").read_text())[1]


def build_template():
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## A backend in an hour\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"(?ms)^```sh\n(.*?)^```", text)
    configure, build, judge = block.strip().splitlines()
    said = "-D CMAKE_PREFIX_PATH=$HOME/rlx"
    if said not in configure or judge != "$HOME/rlx/bin/rlx --load build/plain.so test-device plain":
        sys.exit(f"CONTRIBUTING.md does not say how the template is built and judged:\n{block}")
    run("cmake", "--install", BUILD, "--prefix", INSTALLED)
    folder = SCRATCH / "mine"
    shutil.copytree(ROOT / "examples/backend", folder)
    run("sh", "-c", configure.replace(said, f"-D CMAKE_PREFIX_PATH={INSTALLED} -D CMAKE_CXX_COMPILER={compiler()}"), cwd=folder)
    run("sh", "-c", build, cwd=folder)
    return folder / "build/plain.so"


def installed(*arguments, **environment):
    """The program of the installation, run to its end."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("RLX_")}
    return subprocess.run([str(INSTALLED / "bin/rlx"), *map(str, arguments)], capture_output=True, text=True, check=False, env=env | environment)


PLAIN = build_template()
