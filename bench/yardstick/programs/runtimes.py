"""ONNX Runtime and OpenVINO behind one function: a model and its inputs give a function that runs. `kept`: where what was
compiled is looked for, and left for the next time."""

import pathlib

from yardstick import serve


def onnxruntime_runner(model, inputs, threads, kept=None):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if kept and pathlib.Path(kept + ".onnx").exists():
        model, options.graph_optimization_level = kept + ".onnx", onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif kept:
        options.optimized_model_filepath = kept + ".onnx"
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for wanted in session.get_inputs():
        value = inputs[wanted.name]
        if "int32" in wanted.type:
            value = value.astype("int32")
        binding.bind_ortvalue_input(wanted.name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    binding.bind_output(session.get_outputs()[0].name, "cpu")

    def run():
        session.run_with_iobinding(binding)
        return _Bound(binding)

    return run


class _Bound:
    """The result, copied only where it is looked at."""

    def __init__(self, binding):
        self.binding = binding

    def __array__(self, dtype=None, copy=None):
        return self.binding.get_outputs()[0].numpy().astype(dtype)


def openvino_runner(model, inputs, threads, kept=None):
    import openvino

    core = openvino.Core()
    if kept:
        core.set_property({"CACHE_DIR": kept})
    read = model if isinstance(model, openvino.Model) else core.read_model(model)
    read.reshape({name: list(value.shape) for name, value in inputs.items()})
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                "ENABLE_CPU_PINNING": False}  # fmt: skip
    if serve.COMPUTE not in ("auto", "int8"):  # which leave the rest as it is by default
        settings["INFERENCE_PRECISION_HINT"] = serve.COMPUTE
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    tensors = {name: openvino.Tensor(value) for name, value in inputs.items()}

    def run():
        request.infer(tensors, share_inputs=True, share_outputs=True)
        return request.get_output_tensor(0).data

    return run


def by_nncf(model, inputs, keep_in=None, is_transformer=False):
    """The model after NNCF's quantization, calibrated with these inputs; `keep_in`: the file that holds it from then on."""
    import openvino

    if keep_in and keep_in.exists():
        return str(keep_in)
    import nncf

    kind = {"model_type": nncf.ModelType.TRANSFORMER} if is_transformer else {}
    quantized = nncf.quantize(openvino.Core().read_model(model), nncf.Dataset(inputs), **kind)
    if not keep_in:
        return quantized
    openvino.save_model(quantized, str(keep_in), compress_to_fp16=False)
    return str(keep_in)


def runner(variant):
    return openvino_runner if variant == "openvino" else onnxruntime_runner
