"""Core ML packages, run and written on any system.

    model = rlx.coreml.load("Model.mlpackage")
    model.predict({"x": x})                              # {"y": array}: on Linux, what MLModel gives on a Mac

`MLModel` has the names and habits of coremltools' class: dictionaries of NumPy arrays (or PIL images) in and out, classifiers
give a label and a dictionary of probabilities, `make_state` and `predict(..., state=state)`, `get_spec`, descriptions. Programs
compute in the types they are written in: one in f16 rounds after every op. `precision="f32"` computes the same program in f32.
"""

import contextlib
import ctypes
import enum
import inspect
import json
import os
import types
import weakref
from ctypes import byref, c_char_p, c_uint64, c_void_p

import numpy as np

from . import _dtypes, _graph, _native, tree
from ._array import Array, Trace, as_array
from ._native import CoremlOptions, CoremlWriteOptions, Error, at_user_line, check, lib, owned_text, path_bytes
from ._jit import Lowered, ShapeDtype

__all__ = ["ComputeUnit", "MLModel", "MLState", "ane_available", "check_model_size", "chip_info", "convert", "load", "models"]

_PROGRAM = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "int8": np.int8, "int16": np.int16, "int32": np.int32,
            "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "bool": np.bool_}
# Codes of FeatureTypes.proto.
_ARRAY_TYPE = {"f32": 65568, "f64": 65600, "i32": 131104, "i8": 131080, "f16": 65552}
_COLOR = {"grayscale": 10, "rgb": 20, "bgr": 30, "grayscale_f16": 40}
_MODES = {"grayscale": "L", "rgb": "RGB", "bgr": "RGB", "grayscale_f16": "F"}


class ComputeUnit(enum.Enum):
    """Which of Apple's processors may be used. Here all of them are the CPU."""
    ALL = 1
    CPU_AND_GPU = 2
    CPU_ONLY = 3
    CPU_AND_NE = 4


_DEVICES = {ComputeUnit.ALL: "coreml", ComputeUnit.CPU_AND_GPU: "coreml:gpu", ComputeUnit.CPU_ONLY: "coreml:cpu",
            ComputeUnit.CPU_AND_NE: "coreml:ane"}


def _path(given):
    """A path as text; specifications and bytes are not taken, as they have no weights beside them."""
    try:
        return os.fsdecode(os.fspath(given))
    except TypeError:
        raise TypeError(at_user_line(f"a package is named by its path, not by {type(given).__name__}")) from None


def _compute_units(given):
    """One of ours for one of ours or of coremltools, or for its name."""
    name = getattr(given, "name", given)
    if name not in ComputeUnit.__members__:
        raise TypeError(at_user_line(f"compute_units is one of {', '.join(f'ComputeUnit.{n}' for n in ComputeUnit.__members__)}, not {given!r}"))
    return ComputeUnit[name]


class _Message(types.SimpleNamespace):
    """What stands for a message of the specification: its fields, and which of a choice is there."""

    def __init__(self, chosen=None, **fields):
        super().__init__(**fields)
        self.__dict__["_chosen"] = chosen

    def WhichOneof(self, group):
        return self._chosen

    def HasField(self, field):
        return getattr(self, field, None) is not None

    def __repr__(self):
        return "\n".join(f"{k}: {v}" for k, v in vars(self).items() if k != "_chosen")


class _Descriptions:
    """Names of features with their descriptions."""

    def __init__(self, features):
        self._texts = {f["name"]: f["doc"] for f in features}

    def __getitem__(self, name):
        if name not in self._texts:
            raise KeyError(f"there is no feature {name!r}; there are {', '.join(self._texts)}")
        return self._texts[name]

    def __iter__(self):
        return iter(self._texts)

    def __len__(self):
        return len(self._texts)

    def __contains__(self, name):
        return name in self._texts

    def __repr__(self):
        return f"Features({', '.join(self._texts)})"


def _type_message(f):
    kind = f["kind"]
    if kind == "image":
        h, w = f["shape"] if len(f["shape"]) == 2 else (0, 0)
        image = _Message(width=w, height=h, colorSpace=_COLOR.get(f["color_space"], 0))
        return _Message("imageType", imageType=image, isOptional=f["optional"])
    if kind in ("array", "state"):
        chosen = "enumeratedShapes" if f["shapes"] else "shapeRange" if f["ranges"] else None
        array = _Message(chosen, shape=list(f["shape"]), dataType=_ARRAY_TYPE.get(f["dtype"], 0),
                         enumeratedShapes=_Message(shapes=[_Message(shape=s) for s in f["shapes"]]),
                         shapeRange=_Message(sizeRanges=[_Message(lowerBound=low, upperBound=-1 if up is None else up)
                                                         for low, up in f["ranges"]]))
        if kind == "state":
            return _Message("stateType", stateType=_Message(arrayType=array), isOptional=False)
        return _Message("multiArrayType", multiArrayType=array, isOptional=f["optional"])
    name = {"string": "stringType", "int64": "int64Type", "double": "doubleType", "dictionary": "dictionaryType",
            "sequence": "sequenceType"}.get(kind)
    inside = _Message()
    if kind == "dictionary":
        inside = _Message("stringKeyType" if f["string_keys"] else "int64KeyType")
    return _Message(name, isOptional=f["optional"], **({name: inside} if name else {}))


def _feature_message(f):
    return _Message(name=f["name"], shortDescription=f["doc"], type=_type_message(f))


def _tensor(a):
    """A NumPy array as an rlx_tensor, copied."""
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    handle, dims = c_void_p(), (ctypes.c_int64 * max(1, a.ndim))(*a.shape)
    check(lib.rlx_tensor_create, _dtypes.FROM_NUMPY[a.dtype].encode(), dims, a.ndim, a.ctypes.data, a.nbytes, byref(handle))
    return handle


def _array(handle):
    """An rlx_tensor as a NumPy array, copied."""
    shape = tuple(lib.rlx_tensor_dims(handle)[: lib.rlx_tensor_rank(handle)])
    a = np.empty(shape, _dtypes.numpy_of(lib.rlx_tensor_dtype(handle).decode()))
    ctypes.memmove(a.ctypes.data, lib.rlx_tensor_data(handle), a.nbytes)
    return a


class MLState:
    """What a model with states keeps from one prediction to the next; made by `MLModel.make_state`, all zeros."""

    def __init__(self, handle, names):
        self.handle, self._names = handle, names
        self._finalizer = weakref.finalize(self, lib.rlx_coreml_state_free, handle)

    def read_state(self, name):
        """A copy of the state's value."""
        tensor = c_void_p()
        check(lib.rlx_coreml_state_read, self.handle, name.encode(), byref(tensor))
        try:
            return _array(tensor)
        finally:
            lib.rlx_tensor_free(tensor)

    def write_state(self, name, value):
        """Sets the state, which keeps its shape and dtype."""
        now = self.read_state(name)
        value = np.asarray(value)
        if value.shape != now.shape:
            raise Error(at_user_line(f"the state '{name}' is of shape {now.shape}, got {value.shape}"), "shape_mismatch")
        tensor = _tensor(value.astype(now.dtype))
        try:
            check(lib.rlx_coreml_state_write, self.handle, name.encode(), tensor)
        finally:
            lib.rlx_tensor_free(tensor)

    def __repr__(self):
        return f"MLState({', '.join(self._names)})"


class MLModel:
    """A function of a package, with the names of coremltools' MLModel. What is not needed here (`compute_units`,
    `skip_model_load`) is taken and passes without effect."""

    def __init__(self, model, compute_units=ComputeUnit.ALL, function_name=None, precision=None, threads=0, seed=None,
                 skip_model_load=False):
        path = _path(model)
        compute_units = _compute_units(compute_units)
        if precision not in (None, "f16", "f32"):
            raise Error(at_user_line(f"precision is None (as the program says), 'f16' (the same) or 'f32', not {precision!r}"))
        self.handle = c_void_p()
        self._wide, self.compute_unit = precision == "f32", compute_units
        self._labels = None
        options = CoremlOptions(ctypes.sizeof(CoremlOptions), function_name.encode() if function_name else None, int(self._wide), threads,
                                int(seed is not None), seed or 0)
        check(lib.rlx_coreml_load, path_bytes(path), byref(options), byref(self.handle))
        self._finalizer = weakref.finalize(self, lib.rlx_coreml_free, self.handle)
        self.package_path = path
        text = c_char_p()
        check(lib.rlx_coreml_description, self.handle, byref(text))
        self._about = json.loads(text.value)
        self._inputs = {f["name"]: f for f in self._about["inputs"]}
        self._outputs = {f["name"]: f for f in self._about["outputs"]}
        self._names = [lib.rlx_coreml_output_name(self.handle, i).decode() for i in range(lib.rlx_coreml_output_count(self.handle))]

    # ---- what it is ----
    @property
    def short_description(self):
        return self._about["metadata"]["description"]

    @property
    def author(self):
        return self._about["metadata"]["author"]

    @property
    def license(self):
        return self._about["metadata"]["license"]

    @property
    def version(self):
        return self._about["metadata"]["version"]

    @property
    def user_defined_metadata(self):
        return dict(self._about["metadata"]["user"])

    @property
    def input_description(self):
        return _Descriptions(self._about["inputs"])

    @property
    def output_description(self):
        return _Descriptions(self._about["outputs"])

    @property
    def function_name(self):
        return self._about["function"]

    @property
    def functions(self):
        """{name: (opset, {op: how many})} of all functions of the package."""
        return {f["name"]: (f["opset"], f["ops"]) for f in self._about["functions"]}

    def get_spec(self):
        """The specification as plain objects: `specificationVersion`, `description` (input, output, state, metadata,
        functions), `mlProgram.functions`; features have `name`, `shortDescription` and `type`, as in the format."""
        about, m = self._about, self._about["metadata"]
        metadata = _Message(shortDescription=m["description"], versionString=m["version"], author=m["author"], license=m["license"],
                            userDefined=dict(m["user"]))
        description = _Message(
            input=[_feature_message(f) for f in about["inputs"]], output=[_feature_message(f) for f in about["outputs"]],
            state=[_feature_message(f) for f in about["states"]], metadata=metadata, predictedFeatureName=about["predicted_feature"],
            predictedProbabilitiesName=about["predicted_probabilities"], defaultFunctionName=about["default_function"],
            functions=[_Message(name=f["name"]) for f in about["functions"]])
        functions = {f["name"]: _Message(opset=f["opset"], ops=dict(f["ops"])) for f in about["functions"]}
        return _Message("mlProgram", specificationVersion=about["specification_version"], description=description,
                        mlProgram=_Message(functions=functions))

    def __repr__(self):
        lines = [f"MLModel of an ML Program, function '{self.function_name}'"]
        for what in ("inputs", "outputs", "states"):
            lines += [f"  {what[:-1]} {f['name']}: {f['kind']} {f['dtype'] or ''}{f['shape']}" for f in self._about[what]]
        return "\n".join(lines)

    def placement(self, compute_units=None):
        """Where Core ML runs each operation: {"predicted", "ops": [{"op", "name", "device", "reason"}]}, the devices being "ane", "gpu",
        "cpu" and "load" (computed when the model is loaded). On Apple's systems that have it, MLComputePlan says so; elsewhere it is
        predicted from published rules. `compute_units`: what it may use, else those of the model."""
        unit = self.compute_unit if compute_units is None else _compute_units(compute_units)
        return json.loads(owned_text(lib.rlx_coreml_placement, self.handle, _DEVICES[unit].encode()))

    def save(self, save_path):
        """Copies the package, as it is, to another path; one that is there is replaced."""
        target = _path(save_path)
        if not target.endswith(".mlpackage"):
            raise Error(at_user_line(f"a package is called X.mlpackage, and not '{target}'"))
        if os.path.abspath(target) == os.path.abspath(self.package_path):
            return
        if os.path.lexists(target) and not os.path.isfile(os.path.join(target, "Manifest.json")):
            raise Error(at_user_line(f"'{target}' is there and no package; it is left as it is"))
        import shutil  # here, for it brings libraries of compression into the process

        beside, before = (f"{target}.{os.getpid()}.{kind}" for kind in ("tmp", "old"))
        try:
            shutil.copytree(self.package_path, beside)
            if os.path.lexists(target):  # moved aside, so that one of the two is there whatever happens
                os.rename(target, before)
            os.rename(beside, target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            if os.path.lexists(before):
                if not os.path.lexists(target):
                    os.rename(before, target)
                elif os.path.islink(before):
                    os.unlink(before)
                else:
                    shutil.rmtree(before)

    # ---- running it ----
    def make_state(self):
        """All states, zero."""
        state = c_void_p()
        check(lib.rlx_coreml_make_state, self.handle, byref(state))
        return MLState(state, [f["name"] for f in self._about["states"]])

    def predict(self, data, state=None):
        """Outputs by their names, for inputs by theirs: arrays (or lists, numbers, tensors of other packages), and PIL images or
        HxWxC arrays of uint8 where the model takes an image. A list of dictionaries gives a list of dictionaries. `state` is
        read and written."""
        if isinstance(data, (list, tuple)):
            if state is not None:
                raise Error(at_user_line("a list of predictions has no order, and so no state: predict them one by one"))
            return [self.predict(each) for each in data]
        if not isinstance(data, dict):
            raise TypeError(at_user_line(f"predict takes a dictionary of inputs by name (or a list of such), not {type(data).__name__}"))
        given = {name: self._given(name, value) for name, value in data.items()}
        outputs = (c_void_p * max(1, len(self._names)))()
        tensors = []
        try:
            tensors = [_tensor(a) for a in given.values()]
            names = (c_char_p * max(1, len(given)))(*[n.encode() for n in given])
            check(lib.rlx_coreml_predict, self.handle, names, (c_void_p * max(1, len(given)))(*[t.value for t in tensors]), len(given),
                  state.handle if state is not None else None, outputs, len(self._names))
            results = [_array(outputs[i]) for i in range(len(self._names))]
        finally:
            for handle in tensors + list(outputs):
                lib.rlx_tensor_free(handle)
        return self._taken(dict(zip(self._names, results)))

    def _dtype(self, feature):
        program = feature["program"]
        dtype = np.dtype(_PROGRAM.get(program["dtype"], np.float32)) if program else np.dtype(np.float32)
        return np.dtype(np.float32) if self._wide and dtype == np.float16 else dtype

    def _given(self, name, value):
        feature = self._inputs.get(name)
        if feature is None:
            raise Error(at_user_line(f"there is no input '{name}'; there are {', '.join(self._inputs) or 'none'}"), "not_found")
        dtype = self._dtype(feature)
        if feature["kind"] == "image":
            return _image_tensor(name, feature, value).astype(dtype)
        if hasattr(value, "detach"):  # of PyTorch
            value = value.detach().cpu().numpy()
        a = np.asarray(value)
        if a.dtype.kind not in "biuf" and a.dtype not in _dtypes.FROM_NUMPY:
            raise TypeError(at_user_line(f"input '{name}' is given as {type(value).__name__} of {a.dtype}; it takes an array of {dtype}"))
        if dtype.kind in "iu" and a.dtype.kind == "f" and not np.array_equal(a, np.trunc(a)):
            raise Error(at_user_line(f"input '{name}' is of {dtype}, and the array of {a.dtype} holds fractions"), "shape_mismatch")
        program = feature["program"]
        if a.ndim == 0 and program and program["shape"] == [1]:
            a = a.reshape(1)
        given = a.astype(dtype)
        if dtype.kind in "iu" and a.dtype.kind in "iuf" and not np.array_equal(given, a):
            raise Error(at_user_line(f"input '{name}' is of {dtype}, and the array of {a.dtype} holds numbers beyond it"), "shape_mismatch")
        return given

    def _taken(self, results):
        text = c_char_p()
        about = self._about
        label, probabilities = about["predicted_feature"], about["predicted_probabilities"]
        if label in results or probabilities in results:
            if self._labels is None:  # known after the first prediction, and the same from then on
                check(lib.rlx_coreml_labels, self.handle, byref(text))
                self._labels = json.loads(text.value)
            labels = self._labels
            if label in results:
                place = int(results[label].reshape(()))
                results[label] = labels[place] if labels and isinstance(labels[0], str) else place
            if probabilities in results and labels:
                results[probabilities] = {n: float(p) for n, p in zip(labels, results[probabilities].reshape(-1))}
        for name, value in results.items():
            feature = self._outputs.get(name)
            if not isinstance(value, np.ndarray):
                continue
            if feature and feature["kind"] == "image":
                results[name] = _image_of(feature, value)
            elif value.ndim == 0:
                results[name] = value.reshape(1)  # features have no rank 0
        return results


def _image_tensor(name, feature, value):
    """An image as [1, channels, height, width], in the order of channels that the model takes. The model scales what an image
    holds, bytes from 0 to 255, by itself: so an array that could have been scaled before is refused."""
    color, gray = feature["color_space"], feature["color_space"].startswith("gray")
    wanted = _MODES.get(color, "RGB")
    mode = getattr(value, "mode", None)
    if mode is not None and not isinstance(value, np.ndarray) and mode != wanted:
        raise Error(at_user_line(f"input '{name}' takes an image of mode {wanted}, got {mode}: image.convert('{wanted}')"))
    if hasattr(value, "detach"):  # of PyTorch
        value = value.detach().cpu().numpy()
    a = np.asarray(value)
    elements = (np.float16, np.float32) if color == "grayscale_f16" else (np.uint8,)
    if a.dtype not in elements or a.ndim not in (2, 3):
        raise Error(at_user_line(
            f"input '{name}' is an image: it takes one of PIL, or an array of {elements[0].__name__} {'HxW' if gray else 'HxWx3'} "
            f"(bytes as the file holds them; the model scales and orders them), not an array of {a.dtype} of shape {a.shape}"),
            "shape_mismatch")
    if a.ndim == 3 and a.shape[2] == 1:
        a = a[:, :, 0]
    if a.ndim != (2 if gray else 3) or (not gray and a.shape[2] != 3):
        raise Error(at_user_line(f"input '{name}' takes an image {'HxW' if gray else 'HxWx3'}, got an array of shape {a.shape}"), "shape_mismatch")
    if not feature["shapes"] and not feature["ranges"] and list(a.shape[:2]) != feature["shape"]:
        h, w = feature["shape"]
        raise Error(at_user_line(f"input '{name}' takes an image of {w}x{h}, got one of {a.shape[1]}x{a.shape[0]}: resize it"),
                    "shape_mismatch")
    if gray:
        return a[None, None]
    return np.moveaxis(a[:, :, ::-1] if color == "bgr" else a, 2, 0)[None]


def _image_of(feature, value):
    """An output [1, channels, height, width] as a PIL image, or as HxWxC without PIL."""
    color = feature["color_space"]
    a = np.moveaxis(value[0], 0, 2).astype(np.float32)
    if color == "bgr":
        a = a[:, :, ::-1]
    if color.startswith("gray"):
        a = a[:, :, 0]
    if color != "grayscale_f16":
        a = np.clip(np.rint(a), 0, 255).astype(np.uint8)
    try:
        from PIL import Image
    except ImportError:
        return a
    return Image.fromarray(np.ascontiguousarray(a))


models = types.SimpleNamespace(MLModel=MLModel)  # as coremltools has it: models.MLModel


def load(path, function=None, precision=None, threads=0, seed=None):
    """The package at `path`: its function of that name, or the default one. `precision` "f32" computes in f32 what the program
    computes in f16; `seed` is that of random ops that have none."""
    return MLModel(path, function_name=function, precision=precision, threads=threads, seed=seed)


def convert(source, path, *args, inputs=None, outputs=None, params=None, minimum_ios=0, narrow=False, dims=None, short_description="",
            author="", version="", license="", precision=None, shapes=None, states=None, images=None, classes=None,
            probabilities=None, feature_descriptions=None, nearest=False, native_random=False, weights=None):
    """Writes an ML Program to `path` and returns what became of it, as text.

    source: a function of arrays, with example arguments or `rlx.ShapeDtype`s behind the path; what `rlx.jit(f).lower(...)` gives; or an
    `rlx.Graph`, with `params` by name where it has some. Features of a function are called as its parameters, results "y" or
    "y0", "y1", ..., or as `inputs` and `outputs` say. `minimum_ios` 15 to 18 chooses the oldest system that must run it (0: the
    oldest that can); `narrow` lets i64 and f64 become i32 and f32; `dims` gives numbers to symbols;
    `precision` "f32", "f16" or "mixed" (products alone in f16) changes what it computes in.

    What a package may be besides:
    shapes: sizes for symbols that stay open, {"B": (1, 8), "S": (1, None)} as ranges (None: without end) or {"S": [16, 32]} as
        lists, all of one kind.
    states: {input: output}: what an output leaves is what the input has in the next prediction (iOS 18, f16).
    images: inputs [1, channels, height, width] that are given as images, {name: "rgb" or "bgr" or "gray"}, or {name: {"color": ...,
        "scale": number, "bias": [a number for each channel]}}: the graph gets bytes * scale + bias.
    classes: labels of a classifier, whose `probabilities` name the output that has one for each; the only output if left out.
    feature_descriptions: texts for inputs, outputs and states. nearest: blocks without an exact form become the nearest codes.
    native_random: random numbers by Core ML's own operations: anew in each prediction, whatever the key.
    weights: "int8" (a scale for each output channel, iOS 16), "int4" (a scale for 32 numbers, iOS 18), or "palette8", "palette6", "palette4",
        "palette2" (indices into the nearest numbers, iOS 16): weights in fewer bits. The text says how far they moved.
    """
    graph = _source_graph(source, args, inputs, outputs)
    path = _path(path)
    if not path.endswith(".mlpackage"):
        raise Error(at_user_line(f"a package is called X.mlpackage, and not '{path}'"))
    if not callable(source) and (args or inputs or outputs):
        raise Error(at_user_line("example arguments and names are for functions; a graph has its own"))
    report = c_void_p()
    options = dict(minimum_ios=minimum_ios, narrow=narrow, dims=dims, short_description=short_description, author=author, version=version,
                   license=license, precision=precision, shapes=shapes, nearest=nearest,
                   features=_features_text(states, images, classes, probabilities, feature_descriptions, native_random, weights))
    with _write_arguments(params, **options) as given:
        check(lib.rlx_coreml_write, path_bytes(path), graph.handle, *given, byref(report))
    try:
        return ctypes.string_at(report.value).decode()
    finally:
        lib.rlx_text_free(report)


def check_model_size(source, *args, inputs=None, outputs=None, params=None, states=None, images=None, classes=None, probabilities=None,
                     feature_descriptions=None, native_random=False, weights=None, **options):
    """(bytes of model.mlmodel, bytes of weight.bin) that `convert` would write for these arguments, without writing anything. It fails
    where `convert` would, as for a model that is too large for Core ML: the message says how many bytes it has and may have."""
    graph = _source_graph(source, args, inputs, outputs)
    sizes = [c_uint64(), c_uint64()]
    features = _features_text(states, images, classes, probabilities, feature_descriptions, native_random, weights)
    with _write_arguments(params, features=features, **options) as given:
        check(lib.rlx_coreml_check_model_size, graph.handle, *given, byref(sizes[0]), byref(sizes[1]))
    return sizes[0].value, sizes[1].value


def chip_info():
    """The processor that Core ML would use here: {"name": "Apple M2 Pro", "has_framework", "has_neural_engine", "why_not"}. Off Apple's
    systems the name is empty and "why_not" says so."""
    return json.loads(owned_text(lib.rlx_coreml_chip))


def ane_available():
    """Whether Core ML may use a neural engine here."""
    return chip_info()["has_neural_engine"]


def _source_graph(source, args, inputs, outputs):
    if callable(source) and not isinstance(source, (_graph.Graph, Lowered)):
        return _named_graph(source, args, inputs, outputs)
    if not isinstance(source, (_graph.Graph, Lowered)):
        raise TypeError(at_user_line(f"convert takes a function, an rlx.Graph or what rlx.jit(f).lower(...) gives, not {type(source).__name__}"))
    return source if isinstance(source, _graph.Graph) else source._traced.graph


@contextlib.contextmanager
def _write_arguments(params, minimum_ios=0, narrow=False, dims=None, short_description="", author="", version="", license="", precision=None,
                     shapes=None, nearest=False, features=""):
    """What writing a package takes besides the graph: names, tensors, their number, and the options."""
    params, tensors = dict(params or {}), []
    try:
        for value in params.values():
            tensors.append(_tensor(as_array(value, share=True).numpy()))
        names = (c_char_p * max(1, len(params)))(*[n.encode() for n in params])
        options = CoremlWriteOptions(ctypes.sizeof(CoremlWriteOptions), minimum_ios, int(narrow),
                                     " ".join(f"{k}={v}" for k, v in (dims or {}).items()).encode(), short_description.encode(),
                                     author.encode(), version.encode(), license.encode(),
                                     (precision or "").encode(), _shapes_text(shapes).encode(), features.encode(), int(nearest))
        yield names, (c_void_p * max(1, len(params)))(*[t.value for t in tensors]), len(params), byref(options)
    finally:
        for handle in tensors:
            lib.rlx_tensor_free(handle)


def _shapes_text(shapes):
    """{"B": (1, 8), "S": [16, 32]} as "B=1..8 S=16,32"."""
    words = []
    for name, sizes in (shapes or {}).items():
        if isinstance(sizes, range) and sizes.step == 1 and len(sizes):
            sizes = (sizes.start, sizes.stop - 1)
        if isinstance(sizes, tuple) and len(sizes) == 2:
            least, most = sizes
            words.append(f"{name}={int(least)}..{'' if most is None else int(most)}")
        elif isinstance(sizes, list) and sizes:
            words.append(f"{name}={','.join(str(int(n)) for n in sizes)}")
        else:
            raise Error(at_user_line(f"the sizes of {name} are a range (least, most) or a list of numbers, not {sizes!r}"))
    return " ".join(words)


def _features_text(states, images, classes, probabilities, texts, native_random, weights):
    """What inputs and outputs are to whoever calls the model, as JSON; see rlx_coreml_write_options."""
    features = {}
    if states:
        features["states"] = [[i, o] for i, o in dict(states).items()]
    if images:
        features["images"] = {name: {"color": image} if isinstance(image, str) else dict(image) for name, image in images.items()}
    if classes:
        features["classes"] = [str(label) for label in classes]
    if probabilities:
        features["probabilities"] = probabilities
    if texts:
        features["texts"] = dict(texts)
    if native_random:
        features["native_random"] = True
    if weights:
        features["weights"] = weights
    return json.dumps(features) if features else ""


def _named_graph(f, args, inputs, outputs):
    """f traced on the types of `args`, with names for what goes in and comes out."""
    f = getattr(f, "_f", f)  # of a jitted function
    leaves, structure = tree.flatten(args)
    leaves = [x if isinstance(x, ShapeDtype) else as_array(x) for x in leaves]
    if inputs is None:
        try:
            positional = [p.name for p in inspect.signature(f).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        except (TypeError, ValueError):
            positional = []
        whole = len(leaves) == len(args) and len(positional) >= len(args)
        inputs = positional[: len(args)] if whole else [f"x{i}" for i in range(len(leaves))]
    if len(inputs) != len(leaves):
        raise Error(at_user_line(f"{len(inputs)} names are given for {len(leaves)} inputs"))
    trace = Trace(getattr(f, "__name__", "main").replace("<", "").replace(">", "") or "main")
    with trace:
        values = [Array(trace=trace, value=trace.graph.input(x.dtype_name, x.shape, name), dtype=x.dtype_name, shape=x.shape)
                  for name, x in zip(inputs, leaves)]
        result = f(*tree.unflatten(structure, values))
        found = tree.leaves(result)
        if outputs is None:
            if isinstance(result, dict) and len(found) == len(result):
                outputs = sorted(result)
            else:
                outputs = ["y"] if len(found) == 1 else [f"y{i}" for i in range(len(found))]
        if len(outputs) != len(found):
            raise Error(at_user_line(f"{len(outputs)} names are given for {len(found)} outputs"))
        for name, x in zip(outputs, found):
            trace.graph.output(trace.lift(as_array(x))._value, name)
    if trace.captured:
        raise Error(at_user_line("the function uses a value of a trace that has not ended: write it as an argument"))
    return trace.graph
