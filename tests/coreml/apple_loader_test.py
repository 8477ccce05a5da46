"""Apple's loader takes every package that the tests of tests/coreml write, and no damaged one.

    tests/coreml/apple_loader_test.py [PACKAGE FOLDER [--no-faults]]   # without a folder the packages are written first, by $RLX_TESTS

coremltools rebuilds a program op by op: that the op is in the opset, its arguments' names and types, which of them must be
constants, and that the types it infers are those the package declares. What that leaves out is looked at here: names in the
description, the manifest, and the faults that are planted. It needs an environment with coremltools 9.0 and NumPy before 2.4:
$RLX_COREMLTOOLS, or .deps/coremltools, which `scripts/deps --check` makes. Without one the test is skipped, and says so.
With RLX_CHECK_ALL (`make check-all`) every sample of every op is loaded, else a part of them.
"""

import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def environment():
    """The interpreter of an environment with coremltools, or None."""
    for python in (os.environ.get("RLX_COREMLTOOLS"), ROOT / ".deps/coremltools/bin/python"):
        if python and pathlib.Path(python).exists():
            return str(python)
    return None


if "--loads" not in sys.argv:  # the part that any Python runs
    python = environment()
    if python is None:
        print("skipped: no environment with coremltools; `scripts/deps --check` makes .deps/coremltools")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        given = sys.argv[1:]
        if not given:
            program = os.environ.get("RLX_TESTS") or ROOT / "build/release/tests/coreml"
            written = subprocess.run([str(program)], env={**os.environ, "RLX_COREML_CASES": folder, "RLX_COREML_WRITE_ONLY": "1"},
                                     capture_output=True, text=True)
            if written.returncode:
                sys.exit(f"the packages were not written:\n{written.stdout[-4000:]}{written.stderr[-2000:]}")
        sys.exit(subprocess.run([python, __file__, "--loads", *(given or [folder, "--written"])]).returncode)

import warnings  # noqa: E402

warnings.filterwarnings("ignore")
import logging  # noqa: E402

logging.disable(logging.WARNING)
import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
from coremltools import proto  # noqa: E402
from coremltools.converters.mil.frontend.milproto import load as loader  # noqa: E402
from coremltools.libmodelpackage import ModelPackage  # noqa: E402

INNER = pathlib.Path("Data/com.apple.CoreML")


def plain_bools(load_value=loader._load_value):
    """NumPy 2 takes no bool of its own as keepdims=, which coremltools 9.0 hands it where it folds a reduction of constants."""

    def loaded(context, value):
        got = load_value(context, value)
        return bool(got) if isinstance(got, np.bool_) else got

    loader._load_value = loaded


def features_of(spec):
    described = {f.name: f for f in spec.description.functions} or {"main": spec.description}
    for name, function in spec.mlProgram.functions.items():
        block = function.block_specializations[function.opset]
        if list(i.name for i in function.inputs) != [f.name for f in described[name].input] + [
            f.name for f in described[name].state
        ]:
            raise ValueError(f"the inputs of {name} are not those of the description")
        if list(block.outputs) != [f.name for f in described[name].output]:
            raise ValueError(f"the outputs of {name} are not those of the description")
        defined = {o.name for op in block.operations for o in op.outputs} | {i.name for i in function.inputs}
        if missing := [name for name in block.outputs if name not in defined]:
            raise ValueError(f"outputs that nothing defines: {missing}")


def why_not(package):
    """Nothing if Apple's code takes the package, else what it says."""
    try:
        if not ModelPackage.isValid(str(package)):
            return "the manifest is refused"
        model = ModelPackage(str(package)).getRootModel().path()
        spec = proto.Model_pb2.Model()
        spec.ParseFromString(pathlib.Path(model).read_bytes())
        features_of(spec)
        loader.load(spec, spec.specificationVersion, str(package / INNER / "weights")).validate()
    except Exception as error:  # whatever the loader raises is its verdict
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


def edited(change):
    def fault(package):
        path = package / INNER / "model.mlmodel"
        spec = proto.Model_pb2.Model()
        spec.ParseFromString(path.read_bytes())
        (function,) = spec.mlProgram.functions.values()
        change(spec, function, function.block_specializations[function.opset])
        path.write_bytes(spec.SerializeToString())

    return fault


def an_op(block):
    return next(op for op in block.operations if op.type not in ("const", "identity", "cast") and op.inputs)


@edited
def unknown_op(spec, function, block):
    an_op(block).type = "no_such_op"


@edited
def other_type(spec, function, block):
    an_op(block).outputs[0].type.tensorType.dimensions[0].constant.size += 1


@edited
def undefined_name(spec, function, block):
    next(iter(an_op(block).inputs.values())).arguments[0].name = "nowhere"


@edited
def other_feature(spec, function, block):
    spec.description.output[0].name += "_"


def cut_weights(package):
    path = package / INNER / "weights/weight.bin"
    path.write_bytes(path.read_bytes()[:100])


def no_model_in_manifest(package):
    path = package / "Manifest.json"
    path.write_text(path.read_text().replace("model.mlmodel", "other.mlmodel"))


FAULTS = [unknown_op, other_type, undefined_name, other_feature, cut_weights, no_model_in_manifest]


def main():
    plain_bools()
    folder = pathlib.Path(sys.argv[sys.argv.index("--loads") + 1])
    packages = sorted(folder.rglob("*.mlpackage"))
    if "--written" in sys.argv and not os.environ.get("RLX_CHECK_ALL"):
        # A part of them: each op's first sample in each form, everything with options, and every fourth of the others.
        packages = [p for i, p in enumerate(packages) if i % 4 == 0 or p.parent.name.startswith("options") or p.parent.name.endswith(".0")]
    with multiprocessing.get_context("fork").Pool() as pool:
        verdicts = dict(zip(packages, pool.map(why_not, packages, chunksize=16)))
    refused = {p: why for p, why in verdicts.items() if why}
    for package, why in refused.items():
        print(f"FAILED  {package.relative_to(folder)}: {why}")
    print(f"{len(packages) - len(refused)} of {len(packages)} packages load; coremltools {ct.__version__}")
    if "--no-faults" in sys.argv:
        sys.exit(1 if refused or not packages else 0)
    # One with weights and an op, for each fault.
    sound = next((p for p in packages if not verdicts[p] and (p / INNER / "weights").exists()), None)
    missed = [] if sound else ["no package has weights"]
    with tempfile.TemporaryDirectory() as temporary:
        for fault in FAULTS if sound else []:
            copy = pathlib.Path(temporary) / f"{getattr(fault, '__name__', 'fault')}.mlpackage"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(sound, copy)
            fault(copy)
            if why_not(copy) is None:
                missed.append(str(fault))
    print(f"{len(FAULTS) - len(missed)} of {len(FAULTS)} planted faults are caught {missed or ''}")
    least = 1000 if "--written" in sys.argv else 1  # the tests write more
    sys.exit(1 if refused or missed or len(packages) < least else 0)


main()
