"""The packages of tests/mil, which coremltools wrote, are built again op by op, and Apple's loader takes what comes out.

    tests/mil/rebuild_test.py     # $RLX_TESTS is the program of tests/mil, whose rebuild_test.cpp does it

Apple's part needs an environment with coremltools, as tests/coreml/apple_loader_test.py says; without one it is left out, and that is said.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

with tempfile.TemporaryDirectory() as temporary:
    given, rebuilt = pathlib.Path(temporary) / "given", pathlib.Path(temporary) / "rebuilt"
    for archive in ("cases", "models"):
        with tarfile.open(ROOT / f"tests/mil/{archive}.tar.xz") as packed:
            packed.extractall(given / archive)
    program = os.environ.get("RLX_TESTS") or ROOT / "build/release/tests/mil"
    done = subprocess.run([str(program), "--test-case=a program that is built again *"], text=True, capture_output=True,
                          env={**os.environ, "RLX_MIL_PACKAGES": str(given), "RLX_MIL_REBUILT": str(rebuilt)})
    print(done.stdout[-6000:], done.stderr[-2000:])
    if done.returncode or "predict the same" not in done.stdout:
        sys.exit("the programs were not built again")
    judged = subprocess.run([sys.executable, str(ROOT / "tests/coreml/apple_loader_test.py"), str(rebuilt), "--no-faults"])
    sys.exit(judged.returncode if judged.returncode != 77 else 0)
