"""Core ML packages from Python: the models of tests/mil/models.tar.xz, which coremltools converted from PyTorch, beside PyTorch's
numbers; and packages written here."""

import json
import pathlib
import sys
import tarfile

import numpy as np
import pytest

import rlx
import rlx.coreml
import rlx.numpy as rnp
from rlx import coreml

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    with tarfile.open(ROOT / "tests/mil/models.tar.xz") as archive:
        archive.extractall(folder)
    return folder


def steps(folder):
    """The case's steps: inputs and expected outputs by name."""
    case = json.loads((folder / "case.json").read_text())
    for step in case["steps"]:
        yield tuple({name: np.load(folder / file) for name, file in step[side].items()} for side in ("in", "out"))


def agree(got, wanted, rtol, atol):
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape or got.size == wanted.size == 1
    np.testing.assert_allclose(np.asarray(got, np.float64).reshape(wanted.shape), wanted.astype(np.float64), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", ["cnn", "vit_block", "lstm", "unet", "flexible", "palettized", "int4", "embedding", "miscellany"])
def test_models_of_pytorch_give_its_numbers(models, name):
    folder = models / name / "fp32"
    model = rlx.coreml.load(folder / "model.mlpackage")
    for given, wanted in steps(folder):
        got = model.predict(given)
        assert list(got) == [f for f in model.output_description]
        for key, value in wanted.items():
            agree(got[key], value, 1e-3, 1e-4)


def test_an_f16_program_rounds_and_the_same_in_f32_does_not(models):
    folder = models / "cnn" / "fp16"
    (given, _), = steps(folder)
    path = folder / "model.mlpackage"
    (exact, wanted), = steps(models / "cnn" / "fp32")
    narrow, wide = rlx.coreml.load(path).predict(given), rlx.coreml.load(path, precision="f32").predict(given)
    for name in narrow:
        difference = np.abs(np.asarray(narrow[name], np.float64) - wide[name]).max()
        assert 0 < difference < 0.05
        assert wide[name].dtype == np.float32


def test_states_live_between_predictions(models):
    folder = models / "cache" / "fp16"
    model = rlx.coreml.load(folder / "model.mlpackage")
    state = model.make_state()
    names = [f.name for f in model.get_spec().description.state]
    assert names
    before = state.read_state(names[0])
    assert not before.any()
    with pytest.raises(rlx.Error, match="make_state"):
        model.predict(next(steps(folder))[0])
    for given, wanted in steps(folder):
        got = model.predict(given, state=state)
        for key, value in wanted.items():
            agree(got[key], value, 2e-2, 2e-2)
    after = state.read_state(names[0])
    assert after.any()
    # Written back as it was, the first step gives what it gave.
    first, wanted = next(steps(folder))
    for name in names:
        state.write_state(name, np.zeros_like(state.read_state(name)))
    again = model.predict(first, state=state)
    for key, value in wanted.items():
        agree(again[key], value, 2e-2, 2e-2)
    with pytest.raises(rlx.Error, match="no state 'x'"):
        state.read_state("x")
    with pytest.raises(rlx.Error, match="shape"):
        state.write_state(names[0], np.zeros(3))


def test_functions_are_chosen_by_name(models):
    packages = list((models / "functions").rglob("model.mlpackage"))
    model = rlx.coreml.load(packages[0])
    assert len(model.functions) > 1
    for name in model.functions:
        chosen = rlx.coreml.load(packages[0], function=name)
        assert chosen.function_name == name
    with pytest.raises(rlx.Error, match="no function 'nowhere'"):
        rlx.coreml.load(packages[0], function="nowhere")
    for folder in {p.parent for p in packages}:
        case = json.loads((folder / "case.json").read_text())
        for given, wanted in steps(folder):
            got = rlx.coreml.load(folder / "model.mlpackage", function=case["function"]).predict(given)
            for key, value in wanted.items():
                agree(got[key], value, 2e-2, 2e-2)


@pytest.mark.parametrize("given_as", ["array", "PIL"])
def test_a_classifier_takes_an_image_and_gives_a_label(models, given_as):
    folder = models / "classifier" / "fp32"
    model = rlx.coreml.load(folder / "model.mlpackage")
    spec = model.get_spec()
    feature, = spec.description.input
    assert feature.type.WhichOneof("Type") == "imageType"
    h, w = feature.type.imageType.height, feature.type.imageType.width
    (given, wanted), = steps(folder)
    tensor = given[feature.name]
    assert tensor.shape == (1, 3, h, w)
    # The case holds the label's place; the model's labels are "label 0", "label 1", ...
    label = f"label {np.asarray(wanted[spec.description.predictedFeatureName]).reshape(-1)[0]}"
    image = np.moveaxis(tensor[0], 0, 2)
    assert np.array_equal(image, image.astype(np.uint8))  # else it would be no image
    image = image.astype(np.uint8)
    got = model.predict({feature.name: image if given_as == "array" else pytest.importorskip("PIL.Image").fromarray(image)})
    assert got[spec.description.predictedFeatureName] == label
    probabilities = got.get(spec.description.predictedProbabilitiesName)
    if probabilities is not None:
        assert max(probabilities, key=probabilities.get) == label
        assert abs(sum(probabilities.values()) - 1) < 1e-5
    with pytest.raises(rlx.Error, match="resize it"):
        model.predict({feature.name: np.zeros((h + 1, w, 3), np.uint8)})
    with pytest.raises(rlx.Error, match="HxWx3"):
        model.predict({feature.name: np.zeros((h, w), np.uint8)})
    # What may have been scaled before is no image: the model would scale it again.
    for other in (tensor, image.astype(np.float32) / 255, image[None], np.moveaxis(image, 2, 0)[None]):
        with pytest.raises(rlx.Error, match=f"it takes one of PIL, or an array of uint8 HxWx3.*not an array of {other.dtype}"):
            model.predict({feature.name: other})


def test_the_description_is_that_of_the_package(models):
    model = rlx.coreml.load(models / "flexible" / "fp32" / "model.mlpackage")
    spec = model.get_spec()
    assert spec.WhichOneof("Type") == "mlProgram" and 6 <= spec.specificationVersion <= 10
    feature = spec.description.input[0]
    assert feature.type.WhichOneof("Type") == "multiArrayType"
    assert feature.type.multiArrayType.dataType == 65568  # FLOAT32
    assert feature.type.multiArrayType.WhichOneof("ShapeFlexibility") in ("shapeRange", "enumeratedShapes")
    assert "com.github.apple.coremltools.version" in model.user_defined_metadata
    assert list(model.input_description) == [f.name for f in spec.description.input]
    assert feature.name in repr(model)
    with pytest.raises(KeyError):
        model.input_description["nothing"]


def test_wrong_inputs_are_named(models):
    model = rlx.coreml.load(models / "cnn" / "fp32" / "model.mlpackage")
    (given, _), = steps(models / "cnn" / "fp32")
    name, = given
    with pytest.raises(rlx.Error, match=f"there is no input 'wrong'; there are {name}"):
        model.predict({"wrong": given[name]})
    with pytest.raises(rlx.Error, match=f"input '{name}' is not given"):
        model.predict({})
    with pytest.raises(TypeError):
        model.predict(given[name])
    with pytest.raises(TypeError):
        model.predict({name: "text"})
    with pytest.raises(rlx.Error):
        model.predict({name: given[name][..., :-1]})
    # Lists, other dtypes and several predictions at once are taken.
    once = model.predict(given)
    twice = model.predict([{name: given[name].tolist()}, {name: given[name].astype(np.float64)}])
    for other in twice:
        for key in once:
            np.testing.assert_array_equal(other[key], once[key])


def test_a_function_is_written_and_read_back(tmp_path):
    w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def layer(x, scale):
        return {"hidden": rnp.tanh(x @ w), "scaled": x * scale}

    x, scale = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(0.5)
    path = tmp_path / "layer.mlpackage"
    report = rlx.coreml.convert(layer, path, x, scale, short_description="a layer", author="me", version="1.2", license="none")
    assert "iOS 15" in report
    model = rlx.coreml.load(path)
    assert (model.short_description, model.author, model.version, model.license) == ("a layer", "me", "1.2", "none")
    assert list(model.input_description) == ["x", "scale"] and list(model.output_description) == ["hidden", "scaled"]
    got = model.predict({"x": x, "scale": 0.5})
    np.testing.assert_allclose(got["hidden"], np.tanh(x @ w), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["scaled"], x * scale, rtol=1e-6)


def test_what_is_lowered_is_written_for_the_system_asked_for(tmp_path):
    traced = rlx.jit(lambda x: rnp.exp(x) + 1).lower(rlx.ShapeDtype((2, 3), np.float32))
    rlx.coreml.convert(traced, tmp_path / "exp.mlpackage", minimum_ios=17)
    model = rlx.coreml.load(tmp_path / "exp.mlpackage")
    assert model.get_spec().specificationVersion == 6  # CoreML5: what it needs, though iOS 17 was asked for
    rlx.coreml.convert(traced, tmp_path / "new.mlpackage", minimum_ios=18)
    assert rlx.coreml.load(tmp_path / "new.mlpackage").get_spec().specificationVersion == 9  # CoreML8
    x = np.ones((2, 3), np.float32)
    got, = model.predict({list(model.input_description)[0]: x}).values()
    np.testing.assert_allclose(got, np.e + 1, rtol=1e-6)
    with pytest.raises(rlx.Error, match="minimum of iOS 12"):
        rlx.coreml.convert(traced, tmp_path / "old.mlpackage", minimum_ios=12)
    with pytest.raises(rlx.Error, match="NAME=NUMBER"):
        rlx.coreml.convert(traced, tmp_path / "old.mlpackage", dims={"B": "many"})
    with pytest.raises(TypeError):
        rlx.coreml.convert(3, tmp_path / "old.mlpackage")
    with pytest.raises(rlx.Error):
        rlx.coreml.load(tmp_path / "nothing.mlpackage")


@pytest.mark.parametrize("precision,inside,outside", [("f32", "f32", "f32"), ("f16", "f16", "f16"), ("mixed", "f16", "f32")])
def test_a_package_computes_in_the_precision_asked_for(tmp_path, precision, inside, outside):
    w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    path = tmp_path / "layer.mlpackage"
    rlx.coreml.convert(lambda x: rnp.tanh(x @ w), path, x, precision=precision)
    model = rlx.coreml.load(path)
    got, = model.predict({"x": x}).values()
    wanted = np.tanh(x @ w)
    error = np.abs(got.astype(np.float64) - wanted).max()
    assert error < 1e-6 if inside == "f32" else 1e-6 < error < 2e-3
    assert np.asarray(got).dtype == {"f32": np.float32, "f16": np.float16}[outside]
    with pytest.raises(rlx.Error, match="f32, f16 or mixed, not 'f8'"):
        rlx.coreml.convert(lambda x: rnp.tanh(x @ w), path, x, precision="f8")


def test_a_graph_is_written_with_its_params_and_dims(tmp_path):
    graph = rlx.Graph.parse("""graph @layer {
      %0 = input() @"x" : f32[N, 2]
      %1 = param() @"w" : f32[2, 3]
      %2 = matmul(%0, %1) : f32[N, 3]
      return %2 @"out"
    }""")
    w, x = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((4, 2), np.float32)
    rlx.coreml.convert(graph, tmp_path / "layer.mlpackage", params={"w": w}, dims={"N": 4})
    got = rlx.coreml.load(tmp_path / "layer.mlpackage").predict({"x": x})
    np.testing.assert_allclose(got["out"], x @ w)
    with pytest.raises(rlx.Error, match="the param 'w'"):
        rlx.coreml.convert(graph, tmp_path / "layer.mlpackage", dims={"N": 4})


def test_shapes_stay_open(tmp_path):
    graph = rlx.Graph.parse("""graph @sum {
      %0 = input() @"x" : f32[B, S]
      %1 = softmax(%0) {axis = 1} : f32[B, S]
      return %1 @"y"
    }""")
    path = tmp_path / "open.mlpackage"
    for shapes, chosen in (({"B": (1, 4), "S": (2, None)}, "shapeRange"), ({"B": range(1, 5), "S": (2, 9)}, "shapeRange"),
                           ({"B": [1, 3], "S": [2, 5]}, "enumeratedShapes")):
        rlx.coreml.convert(graph, path, shapes=shapes)
        model = rlx.coreml.load(path)
        array = model.get_spec().description.input[0].type.multiArrayType
        assert array.WhichOneof("ShapeFlexibility") == chosen
        for shape in ((1, 2), (3, 5)):
            x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
            e = np.exp(x - x.max(1, keepdims=True))
            np.testing.assert_allclose(model.predict({"x": x})["y"], e / e.sum(1, keepdims=True), rtol=1e-5)
    assert [list(s.shape) for s in array.enumeratedShapes.shapes] == [[1, 2], [3, 5]]
    with pytest.raises(rlx.Error, match="neither a number nor sizes"):
        rlx.coreml.convert(graph, path, shapes={"B": (1, 4)})
    with pytest.raises(rlx.Error, match=r"the sizes of B are a range .* not 3"):
        rlx.coreml.convert(graph, path, shapes={"B": 3})


def test_states_are_kept_between_predictions(tmp_path):
    path = tmp_path / "counter.mlpackage"

    def step(x, total):
        return {"y": x + total, "next": x + total}

    x = np.ones((1, 4), np.float32)
    rlx.coreml.convert(step, path, x, np.zeros((1, 4), np.float32), states={"total": "next"})
    model = rlx.coreml.load(path)
    state = model.make_state()
    assert [model.predict({"x": x}, state=state)["y"][0, 0] for _ in range(3)] == [1, 2, 3]
    assert state.read_state("total")[0, 0] == 3


def test_images_and_labels_are_written(tmp_path):
    path = tmp_path / "colors.mlpackage"

    def color(image):
        means = rnp.mean(image, axis=(2, 3))
        return {"brightness": rnp.sum(means), "scores": means * 5}

    rlx.coreml.convert(color, path, np.zeros((1, 3, 4, 5), np.float32), images={"image": {"color": "bgr", "scale": 1 / 127.5, "bias": [-1, -1, -1]}},
                       classes=["blue", "green", "red"], probabilities="scores", feature_descriptions={"image": "a picture"})
    model = rlx.coreml.load(path)
    assert model.input_description["image"] == "a picture"
    picture = np.zeros((4, 5, 3), np.uint8)
    picture[..., 0] = 255  # red, of RGB
    got = model.predict({"image": picture})
    assert got["classLabel"] == "red"
    assert got["classLabel_probs"] == pytest.approx({"blue": -5, "green": -5, "red": 5})
    np.testing.assert_allclose(got["brightness"], [-1], atol=1e-6)
    with pytest.raises(rlx.Error, match="rgb, bgr or gray, not 'cmyk'"):
        rlx.coreml.convert(color, path, np.zeros((1, 3, 4, 5), np.float32), images={"image": "cmyk"})
    with pytest.raises(rlx.Error, match="have no 'colour'"):
        rlx.coreml.convert(color, path, np.zeros((1, 3, 4, 5), np.float32), images={"image": {"colour": "rgb"}})


def test_the_readme_keeps_its_word(models, tmp_path, monkeypatch):
    """The five lines under "Test a Core ML model without a Mac", pasted."""
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## Test a Core ML model without a Mac"):]
    lines = section.split("```python\n")[1].split("```")[0]
    assert 0 < len([line for line in lines.splitlines() if line.strip()]) <= 5
    folder = models / "cnn" / "fp32"
    (given, wanted), = steps(folder)
    (x_name, x), (y_name, y) = list(given.items())[0], list(wanted.items())[0]
    (tmp_path / "Model.mlpackage").symlink_to(folder / "model.mlpackage")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    monkeypatch.chdir(tmp_path)
    code = lines.replace('"x"', repr(x_name)).replace('"y"', repr(y_name))
    assert code != lines or (x_name, y_name) == ("x", "y")
    exec(compile(code, "README.md", "exec"), {})
    np.save(tmp_path / "y.npy", y + 1)
    with pytest.raises(AssertionError):
        exec(compile(code, "README.md", "exec"), {})


def test_what_is_asked_for_wrongly_is_named(models, tmp_path):
    path = models / "cnn" / "fp32" / "model.mlpackage"
    for units in (rlx.coreml.ComputeUnit.CPU_ONLY, "CPU_AND_NE"):
        assert rlx.coreml.MLModel(path, compute_units=units).compute_unit in rlx.coreml.ComputeUnit
    with pytest.raises(TypeError, match="compute_units is one of ComputeUnit.ALL, .*, not 'GPU_PLEASE'"):
        rlx.coreml.MLModel(path, compute_units="GPU_PLEASE")
    with pytest.raises(TypeError, match="a package is named by its path, not by NoneType"):
        rlx.coreml.load(None)
    x = np.ones((2, 3), np.float32)
    with pytest.raises(rlx.Error, match="a package is called X.mlpackage, and not '.*z.foo'"):
        rlx.coreml.convert(lambda a: a + 1, tmp_path / "z.foo", x)
    with pytest.raises(rlx.Error, match="has no outputs, and Core ML takes no such program"):
        rlx.coreml.convert(lambda a: None, tmp_path / "z.mlpackage", x)
    with pytest.raises(rlx.Error, match=r"narrowed to f32 only on request \(--narrow, narrow=True\)"):
        rlx.coreml.convert(lambda a: a + 1, tmp_path / "z.mlpackage", x.astype(np.float64))
    with pytest.raises(rlx.Error, match="a number is given for B, which is no symbol of an input; there are none"):
        rlx.coreml.convert(lambda a: a + 1, tmp_path / "z.mlpackage", x, dims={"B": 2})
    assert not list(tmp_path.iterdir())


def test_a_package_is_saved_elsewhere(models, tmp_path):
    model = rlx.coreml.load(models / "cnn" / "fp32" / "model.mlpackage")
    (given, wanted), = steps(models / "cnn" / "fp32")
    for _ in range(2):  # what is there is replaced
        model.save(tmp_path / "copy.mlpackage")
    assert [p.name for p in tmp_path.iterdir()] == ["copy.mlpackage"]
    again = rlx.coreml.load(tmp_path / "copy.mlpackage").predict(given)
    for name, value in model.predict(given).items():
        np.testing.assert_array_equal(again[name], value)
    with pytest.raises(rlx.Error, match="a package is called X.mlpackage"):
        model.save(tmp_path / "copy")


def test_the_size_of_a_package_is_known_before_it_is_written(tmp_path):
    w = np.random.default_rng(3).normal(size=(300, 200)).astype(np.float32)
    f = lambda x: x @ w
    for options in ({}, {"weights": "int8"}, {"precision": "f16"}):
        model, weights = coreml.check_model_size(f, rlx.ShapeDtypeStruct((2, 300)), **options)
        path = tmp_path / "sized.mlpackage"
        coreml.convert(f, path, rlx.ShapeDtypeStruct((2, 300)), **options)
        data = path / "Data/com.apple.CoreML"
        assert (model, weights) == ((data / "model.mlmodel").stat().st_size, (data / "weights/weight.bin").stat().st_size)
    with pytest.raises(rlx.Error, match="N"):
        coreml.check_model_size(rlx.Graph.parse('graph @g {\n %0 = input() @"x" : f32[N]\n %1 = exp(%0) : f32[N]\n return %1 @"y"\n}'))


def test_the_chip_is_told_and_off_apple_that_there_is_none():
    chip = coreml.chip_info()
    assert set(chip) == {"name", "has_framework", "has_neural_engine", "why_not"}
    assert coreml.ane_available() == chip["has_neural_engine"]
    if sys.platform != "darwin":
        assert chip["name"] == "" and not chip["has_framework"] and "on Apple's systems only" in chip["why_not"]


def test_each_operation_of_a_package_has_its_processor(tmp_path):
    path = tmp_path / "halves.mlpackage"
    coreml.convert(lambda x: rnp.tanh(x @ x), path, np.ones((4, 4), np.float16), minimum_ios=16)
    model = coreml.load(path)
    for units, kind in ((None, "ane"), (coreml.ComputeUnit.CPU_AND_NE, "ane"), ("CPU_ONLY", "cpu"), ("CPU_AND_GPU", "gpu")):
        placed = model.placement(units)
        assert placed["predicted"] == (not coreml.chip_info()["has_framework"])
        found = {op["op"]: op["device"] for op in placed["ops"]}
        assert {"matmul", "tanh"} <= set(found)
        if placed["predicted"]:
            assert found["matmul"] == kind and all(op["reason"] for op in placed["ops"])
    assert coreml.MLModel(path, compute_units=coreml.ComputeUnit.CPU_ONLY).placement() == model.placement("CPU_ONLY")
    with pytest.raises(TypeError, match="compute_units is one of"):
        model.placement("TPU")


def test_each_operation_has_its_processor():
    compiled = rlx.Session("coreml").compile(rlx.Graph.parse('graph @g {\n %0 = input() @"x" : f32[4]\n %1 = exp(%0) : f32[4]\n return %1 @"y"\n}'))
    placed = compiled.placement()
    assert placed["predicted"] == (not coreml.chip_info()["has_framework"])
    assert [op["op"] for op in placed["ops"] if op["op"] == "exp"] == ["exp"]
    assert all(op["device"] in ("cpu", "gpu", "ane", "load", "") for op in placed["ops"])
    with pytest.raises(rlx.Error, match="processor"):
        rlx.Session("cpu").compile(rlx.Graph.parse('graph @g {\n %0 = input() @"x" : f32[4]\n return %0 @"y"\n}')).placement()
