"""RLX: a compiler and runtime for machine learning.

    import rlx, rlx.numpy as rnp

    @rlx.jit
    def loss(w, x, y):
        return rnp.mean((rnp.tanh(x @ w) - y) ** 2)

    gradient = rlx.grad(loss)(w, x, y)        # NumPy in, arrays out

Functions of arrays stand in `rlx.numpy`, `rlx.nn`, `rlx.linalg`, `rlx.fft` and `rlx.special`, the ops of the table in
`rlx.ops`, training in `rlx.train`, `rlx.lora` and `rlx.quantization`, tokenizers and sentence encoders in `rlx.models`,
language models in `rlx.llm`, Core ML packages in `rlx.coreml`; transforms and control flow here, the latter also in `rlx.lax`. docs/python.md is the guide.
"""

import logging as _logging
import sys as _sys

from . import _array, _control, _graph, _jit, _log, _native, _transforms, ops, tree, tree_util
from . import numpy
from . import _loop_prints, _operators, fft, linalg, nn, random, special
from . import debug, lax
from ._windows import conv, conv_transpose, reduce_window
from ._array import Array, device_put
from ._custom_op import CustomOp, custom_op, pure_callback
from ._associative_scan import associative_scan
from ._control import cond, fori_loop, scan, switch, while_loop
from ._files import load, save
from ._gguf import GGUFFile, PackedTensor, load_gguf, save_gguf
from ._device import DeviceInfo, Transfers, device_infos, device_target, devices, load_plugin, transfers
from ._graph import Graph, Session, State, artifact_graph, artifact_info, dispatch_report, load_compiled, predict_devices
from ._native import Error, TracedValueError, __version__
from ._map import map
from ._profiles import ExecutionProfile, Manifest, manifest
from ._torch import TorchModule, from_torch
from ._jit import (Jit, Lowered, ShapeDtype, ShapeDtypeStruct, block_until_ready, eval_shape, get_num_threads, jit,
                   set_num_threads)
from ._transforms import checkpoint, custom_jvp, custom_vjp, grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp, vmap
from . import train
from . import llm, lora, models, quantization
from .numpy import bfloat16
from . import coreml

remat = checkpoint
# As in NumPy and jax.numpy, also for `import rlx.numpy.linalg`.
numpy.linalg, numpy.fft = linalg, fft
_sys.modules[__name__ + ".numpy.linalg"], _sys.modules[__name__ + ".numpy.fft"] = linalg, fft


def pick_best_device(graph=None, dims=None, threads=0):
    """The name of a device that can run here, as `Session` takes it. Of a `Graph`: of the device for which `predict_devices` has the
    shortest time, and where nothing was measured, of the first that runs it; the logger `rlx` says why at the level INFO. Without a
    graph: an accelerator if there is one, else the processor."""
    first = _native.lib.rlx_pick_best_device().decode()
    if graph is None:
        return first
    predicted = predict_devices(graph, dims, threads)
    reasons = "".join(f"\n  {p['device']}: {p['why']}" for p in predicted)
    if predicted and predicted[0]["us"] is not None:
        best, by = predicted[0]["device"], "by the predicted times"
    else:
        runs = [d for d in [first, *(p["device"] for p in predicted)]
                if all(n["verdict"] != "missing" for n in dispatch_report(graph, d)["nodes"])]
        if not runs:
            raise Error(_native.at_user_line(f"no device here runs all of the graph:{reasons}"), "unsupported")
        best, by = runs[0], "the first that runs it, as none of those was measured"
    _logging.getLogger("rlx").info("%s, %s:%s", best, by, reasons)
    return best


def stop_gradient(x):
    """x, through which no gradient flows; also for trees of arrays."""
    return tree.map(ops.stop_gradient, x)


def top_k(x, k):
    """The k largest elements along the last axis, largest first, and where they stood (int32)."""
    x = _array.as_array(x)
    return ops.top_k(x, k=k, axis=-1)


def index_set(x, index, values):
    """x with `values` at x[index]; of several for one place the last one stays."""
    return _array.as_array(x).at[index].set(values)


def index_add(x, index, values):
    """x with `values` added at x[index]; repeated indices accumulate."""
    return _array.as_array(x).at[index].add(values)


def index_mul(x, index, values):
    """x with x[index] multiplied by `values`; repeated indices accumulate."""
    return _array.as_array(x).at[index].multiply(values)


def index_min(x, index, values):
    """x with the lesser one of x[index] and `values`."""
    return _array.as_array(x).at[index].min(values)


def index_max(x, index, values):
    """x with the greater one of x[index] and `values`."""
    return _array.as_array(x).at[index].max(values)
