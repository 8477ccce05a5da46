"""`rlx convert --compute int8 | int4 | palette*` beside coremltools' own compression of the same package.

coremltools writes a network with random weights; it compresses them (linear_quantize_weights, palettize_weights), and so does
`rlx convert`. Integers and scales must be the same, and packages of them give the same numbers when they run. Palettes must be nearer to
the weights than coremltools' evenly spaced numbers, and as near as k-means by NumPy (coremltools' own needs one more package). The file of
weights must be as small. Needs an environment with coremltools 9.0: $RLX_COREMLTOOLS, or .deps/coremltools, which `scripts/deps --check`
makes. Without one the test is skipped, and says so.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RLX_PROGRAM") or str(ROOT / "build/release/bin/rlx")

if "--compares" not in sys.argv:  # the part that any Python runs
    for python in (os.environ.get("RLX_COREMLTOOLS"), ROOT / ".deps/coremltools/bin/python"):
        if python and pathlib.Path(python).exists():
            sys.exit(subprocess.run([str(python), __file__, "--compares"]).returncode)
    print("skipped: no environment with coremltools; `scripts/deps --check` makes .deps/coremltools")
    sys.exit(77)

import logging  # noqa: E402
import warnings  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as cto  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.frontend.milproto import load as loader  # noqa: E402


def network(path, opset, kernel):
    """A lookup, a product with each layout of weights, and a convolution, whose weights have outliers."""
    draw = np.random.default_rng(3)

    def weights(*shape):
        return (draw.standard_t(4, shape) * 0.1).astype(np.float32)

    @mb.program(input_specs=[mb.TensorSpec((1, 32), dtype=ct.converters.mil.mil.types.int32)], opset_version=opset)
    def program(ids):
        x = mb.gather(x=weights(96, 64), indices=ids, axis=0)
        x = mb.linear(x=x, weight=weights(128, 64), bias=weights(128))
        x = mb.matmul(x=mb.relu(x=x), y=weights(128, 96), transpose_y=False)
        x = mb.conv(x=mb.reshape(x=x, shape=(1, 96, 8, 4)), weight=weights(40, 96, kernel, kernel), pad_type="same")
        return mb.identity(x=x, name="y")

    model = ct.convert(program, compute_precision=ct.precision.FLOAT32, minimum_deployment_target=opset, skip_model_load=True)
    model.save(str(path))


def loaded(path):
    """{type and shape of each operation that makes weights: their numbers}, and the bytes of the file of weights."""
    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    program = loader.load(model_spec=spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    weights = {}
    for op in program.functions["main"].operations:
        if op.op_type.startswith("constexpr_"):
            numbers = op.materialized_val_inference()
            assert weights.setdefault(numbers.shape, numbers) is numbers, f"two weights of {numbers.shape}"
    size = (pathlib.Path(path) / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size
    return weights, size, spec.specificationVersion


def run(package, folder):
    np.savez(folder / "ids.npz", ids=(np.arange(32, dtype=np.int32) * 7 % 96).reshape(1, 32))
    done = subprocess.run([PROGRAM, "run", str(package), "--input", str(folder / "ids.npz"), "--output-dir", str(folder)],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy")


def error(numbers, truth):
    return sum(float(((numbers[shape] - truth[shape]) ** 2).sum()) for shape in truth) ** 0.5


def k_means(x, count):
    """x with each number replaced by the nearest of `count`: Lloyd (1982), from quantiles."""
    numbers = np.sort(x.ravel().astype(np.float64))
    centres = np.unique(np.quantile(numbers, (np.arange(count) + 0.5) / count))
    for _ in range(100):
        nearest = np.searchsorted((centres[1:] + centres[:-1]) / 2, numbers)
        sums, sizes = np.bincount(nearest, numbers, len(centres)), np.bincount(nearest, minlength=len(centres))
        centres = np.where(sizes > 0, sums / np.maximum(sizes, 1), centres)
    return centres[np.searchsorted((centres[1:] + centres[:-1]) / 2, x)]


def compressed_by_coremltools(model, form):
    if form.startswith("palette"):
        config = cto.OpPalettizerConfig(mode="uniform", nbits=int(form.removeprefix("palette")))
        return cto.palettize_weights(model, cto.OptimizationConfig(global_config=config))
    blocks = {"granularity": "per_block", "block_size": 32} if form == "int4" else {"granularity": "per_channel"}
    config = cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype=form, **blocks)
    return cto.linear_quantize_weights(model, cto.OptimizationConfig(global_config=config))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = [(form, 3) for form in ("int8", "int4", "palette8", "palette6", "palette4", "palette2")]
        for form, kernel in [*cases, ("int4", 1)]:
            source, theirs, ours = (folder / f"{form}_{kernel}_{which}.mlpackage" for which in ("source", "theirs", "ours"))
            network(source, ct.target.iOS18 if form == "int4" else ct.target.iOS16, kernel)
            truth = {value.shape: value for value in loaded_constants(source)}
            compressed_by_coremltools(ct.models.MLModel(str(source), skip_model_load=True), form).save(str(theirs))
            done = subprocess.run([PROGRAM, "convert", str(source), "-o", str(ours), "--compute", form],
                                  capture_output=True, text=True)  # fmt: skip
            assert done.returncode == 0, done.stderr
            (wanted, their_size, version), (got, size, our_version) = loaded(theirs), loaded(ours)
            assert got.keys() == wanted.keys(), (form, list(got), list(wanted))
            assert our_version == version, (form, our_version, version)
            # With int4, the taps of a kernel share their scales there and have their own here.
            finer = form == "int4" and kernel == 3
            assert size <= their_size * (1.12 if finer else 1.02) + 256, (form, size, their_size)
            truth = {shape: truth[shape] for shape in wanted}
            if finer:
                assert error(got, truth) < error(wanted, truth)
            elif form.startswith("int"):
                for shape, numbers in wanted.items():
                    np.testing.assert_allclose(got[shape], numbers, rtol=1e-6, atol=0, err_msg=f"{form} {shape}")
                np.testing.assert_allclose(run(ours, folder), run(theirs, folder), rtol=1e-5, atol=1e-5)
            else:
                ratio = error(got, truth) / error(wanted, truth)
                assert ratio < 0.9, (form, ratio)
                count = 2 ** int(form.removeprefix("palette"))
                beside = error(got, truth) / error({shape: k_means(w, count) for shape, w in truth.items()}, truth)
                assert beside < 1.01, (form, beside)
                print(f"{form}: {ratio:.4f} of coremltools' distance, {beside:.4f} of k-means by NumPy")
            print(f"{form}: {len(got)} weights, {size} bytes beside {their_size}")


def loaded_constants(path):
    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    program = loader.load(model_spec=spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    return [op.outputs[0].val for op in program.functions["main"].operations if op.op_type == "const" and isinstance(op.outputs[0].val, np.ndarray)]


main()
