#!/usr/bin/env python3
"""Writes compare_cases.tar.xz: one small encoder of equal layers, as coremltools writes it in different ways.

    compare_cases.py        # in an environment with coremltools 9.0: .deps/coremltools/bin/python

plain/      as it was built: norms and gelu written out, products and biases apart, no pass run (PassPipeline.EMPTY)
fused/      by coremltools' usual passes: gelu and linear are one operation each, transposes are moved
half/       fused, in f16
int8/       fused, weights in 8 bits (linear_quantize_weights)
palette/    fused, weights as indices of 6 bits (palettize_weights)
x.npy       an input

Every package holds the same numbers but for the rounding of its weights and types, so what is aligned of two is close.
"""

import io
import logging
import pathlib
import tarfile
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import coremltools as ct  # noqa: E402
import coremltools.optimize.coreml as compress  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402

LAYERS, WIDTH, TOKENS, HEADS = 3, 16, 8, 4
random = np.random.default_rng(0)
SHAPES = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH), "up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH)}
WEIGHTS = [{name: (random.normal(size=shape) / np.sqrt(shape[1])).astype(np.float32) for name, shape in SHAPES.items()} for _ in range(LAYERS)]


def program():
    """Anew each time: a conversion changes what it is given."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, TOKENS, WIDTH))], opset_version=ct.target.iOS17)
    def encoder(x):
        bias = np.linspace(-0.1, 0.1, WIDTH).astype(np.float32)

        def product(x, weight, bias):
            return mb.add(x=mb.matmul(x=x, y=weight, transpose_y=True), y=bias)

        def heads(x):
            return mb.transpose(x=mb.reshape(x=x, shape=[1, TOKENS, HEADS, WIDTH // HEADS]), perm=[0, 2, 1, 3])

        for weights in WEIGHTS:
            centred = mb.sub(x=x, y=mb.reduce_mean(x=x, axes=[-1], keep_dims=True))
            variance = mb.reduce_mean(x=mb.mul(x=centred, y=centred), axes=[-1], keep_dims=True)
            normed = mb.mul(x=centred, y=mb.rsqrt(x=mb.add(x=variance, y=np.float32(1e-5))))
            q, k, v = (heads(product(normed, weights[name], bias)) for name in "qkv")
            scores = mb.mul(x=mb.matmul(x=q, y=k, transpose_y=True), y=np.float32((WIDTH // HEADS) ** -0.5))
            seen = mb.transpose(x=mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v), perm=[0, 2, 1, 3])
            x = mb.add(x=x, y=product(mb.reshape(x=seen, shape=[1, TOKENS, WIDTH]), weights["o"], bias))
            wide = product(x, weights["up"], np.full(4 * WIDTH, 0.01, np.float32))
            erf = mb.erf(x=mb.mul(x=wide, y=np.float32(0.5**0.5)))
            gelu = mb.mul(x=mb.mul(x=wide, y=np.float32(0.5)), y=mb.add(x=erf, y=np.float32(1)))
            x = mb.add(x=x, y=product(gelu, weights["down"], bias))
        return mb.identity(x=x, name="y")

    return encoder


def converted(**options):
    options = {"compute_precision": ct.precision.FLOAT32, **options}
    return ct.convert(program(), convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17, skip_model_load=True, **options)


def main():
    fused = converted()
    linear = compress.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=100)
    palette = compress.OpPalettizerConfig(mode="uniform", nbits=6, weight_threshold=100)
    models = {
        "plain": converted(pass_pipeline=ct.PassPipeline.EMPTY),
        "fused": fused,
        "half": converted(compute_precision=ct.precision.FLOAT16),
        "int8": compress.linear_quantize_weights(fused, compress.OptimizationConfig(global_config=linear)),
        "palette": compress.palettize_weights(fused, compress.OptimizationConfig(global_config=palette)),
    }
    with tempfile.TemporaryDirectory() as holder:
        folder = pathlib.Path(holder)
        for name, model in models.items():
            (folder / name).mkdir()
            model.save(str(folder / name / "model.mlpackage"))
        np.save(folder / "x.npy", random.normal(size=(1, TOKENS, WIDTH)).astype(np.float32))
        with tarfile.open(pathlib.Path(__file__).with_suffix(".tar.xz"), "w:xz", format=tarfile.USTAR_FORMAT) as archive:
            for file in sorted(f for f in folder.rglob("*") if f.is_file()):
                data = file.read_bytes()
                entry = tarfile.TarInfo(str(file.relative_to(folder)))  # no times, owners or modes of this machine
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
