"""Packages of `rlx convert` in f32, f16, int8 and int4, read back by coremltools: how large they are, and what their weights are.

A small convolutional network, whose package coremltools writes, and all-MiniLM-L6-v2 where $RLX_MODEL names its folder. Bytes are those
of the whole package. coremltools' reader gives the numbers that the constants and the `constexpr_*` operations stand for, which must be
near those of the f32 package; the network's results, by `rlx run`, too. Prints the table. Needs an environment with coremltools 9.0, as
compressed_weights_test.py; without one the test is skipped, and says so.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RLX_PROGRAM") or str(ROOT / "build/release/bin/rlx")

if "--reads" not in sys.argv:  # the part that any Python runs
    for python in (os.environ.get("RLX_COREMLTOOLS"), ROOT / ".deps/coremltools/bin/python"):
        if python and pathlib.Path(python).exists():
            sys.exit(subprocess.run([str(python), __file__, "--reads"]).returncode)
    print("skipped: no environment with coremltools; `scripts/deps --check` makes .deps/coremltools")
    sys.exit(77)

import logging  # noqa: E402
import warnings  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.frontend.milproto import load as loader  # noqa: E402

# Of each form: the options, the most of the f32 package's bytes, how far the weights may be (the root of the mean square of the
# difference over that of the weights), and the least cosine of the network's results.
FORMS = {
    "f16": (["--precision", "f16"], 0.52, 0.0005, 0.99999),
    "int8": (["--compute", "int8"], 0.3, 0.012, 0.999),
    "int4": (["--precision", "f16", "--compute", "int4"], 0.2, 0.13, 0.97),
}


def network(path):
    """[1, 3, 32, 32] to 10 numbers by four convolutions and a product: some 80,000 weights."""
    draw = np.random.default_rng(5)

    def weights(*shape):
        return (draw.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5).astype(np.float32)

    @mb.program(input_specs=[mb.TensorSpec((1, 3, 32, 32))], opset_version=ct.target.iOS18)
    def program(image):
        x = image
        for outputs, inputs, stride in ((16, 3, 1), (32, 16, 2), (64, 32, 2), (96, 64, 2)):
            x = mb.relu(x=mb.conv(x=x, weight=weights(outputs, inputs, 3, 3), strides=(stride, stride), pad_type="same"))
        x = mb.reduce_mean(x=x, axes=[2, 3])
        return mb.linear(x=x, weight=weights(64, 96), name="y")

    model = ct.convert(program, compute_precision=ct.precision.FLOAT32, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
    model.save(str(path))


def convert(source, package, *options):
    done = subprocess.run([PROGRAM, "convert", str(source), "-o", str(package), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def size_of(package):
    return sum(f.stat().st_size for f in pathlib.Path(package).rglob("*") if f.is_file())


def weights_of(package):
    """The weights of 2,048 numbers and more that coremltools reads, in f64, by shape and in order."""
    model = ct.models.MLModel(str(package), skip_model_load=True)
    spec = model.get_spec()
    program = loader.load(model_spec=spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    found = {}
    for op in program.functions["main"].operations:
        if op.op_type.startswith("constexpr_"):
            numbers = op.materialized_val_inference()
        elif op.op_type == "const" and not all(use.op_type.startswith("constexpr_") for use in op.outputs[0].child_ops):
            numbers = op.outputs[0].val
        else:
            continue
        if isinstance(numbers, np.ndarray) and numbers.dtype.kind == "f" and numbers.size >= 2048:
            found.setdefault(numbers.shape, []).append(numbers.astype(np.float64))
    return found


def distance(numbers, truth):
    """Of the weights that both have, nearly all: a table of which the program reads some rows may be cut to these, or not."""
    common = {shape for shape in truth if len(numbers.get(shape, ())) == len(truth[shape])}
    of_both = sum(w.size for shape in common for w in truth[shape])
    assert of_both >= 0.95 * sum(w.size for all_ in truth.values() for w in all_), (list(numbers), list(truth))
    off = sum(float(((a - b) ** 2).sum()) for shape in common for a, b in zip(numbers[shape], truth[shape]))
    return (off / sum(float((b**2).sum()) for shape in common for b in truth[shape])) ** 0.5


def run(package, folder):
    np.savez(folder / "image.npz", image=np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32))
    done = subprocess.run([PROGRAM, "run", str(package), "--input", str(folder / "image.npz"), "--output-dir", str(folder)],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy").astype(np.float64).ravel()


def judged(name, source, folder, runs, *options):
    whole = folder / f"{name}_f32.mlpackage"
    convert(source, whole, *options)
    truth, size = weights_of(whole), size_of(whole)
    wanted = run(whole, folder) if runs else None
    lines = [f"| {name} | f32 | {size / 1000:,.0f} | | | |"]
    for form, (words, share, most, least) in FORMS.items():
        package = folder / f"{name}_{form}.mlpackage"
        convert(source, package, *options, *words)
        bytes_, off = size_of(package), distance(weights_of(package), truth)
        cosine = ""
        if runs:
            got = run(package, folder)
            value = float(got @ wanted / np.linalg.norm(got) / np.linalg.norm(wanted))
            assert value >= least, (name, form, value)
            cosine = f"{value:.6f}"
        lines.append(f"| {name} | {form} | {bytes_ / 1000:,.0f} | {bytes_ / size:.3f} | {off:.5f} | {cosine} |")
        assert bytes_ <= share * size, lines[-1]
        assert off <= most, lines[-1]
    return lines


def main():
    lines = ["| network | package | kB | of f32 | weights moved by, of their root mean square | cosine of the result |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        network(folder / "source.mlpackage")
        lines += judged("CNN", folder / "source.mlpackage", folder, True)
        model = os.environ.get("RLX_MODEL")
        if model and (pathlib.Path(model) / "model.safetensors").exists():
            lines += judged("MiniLM", model, folder, False, "--dim", "B=1", "--dim", "S=16", "--narrow")
        else:
            print("without MiniLM: RLX_MODEL names no folder of it")
    print("\n".join(lines))


main()
