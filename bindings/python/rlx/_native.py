"""The C ABI through ctypes: the library, its functions, its errors. Nothing else in the package calls C."""

import collections
import ctypes
import json
import os
import pathlib
import sys
import traceback
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint64, c_void_p

_HERE = pathlib.Path(__file__).resolve().parent
_PACKAGE = str(_HERE) + os.sep


class Error(Exception):
    """What RLX refuses or cannot do. `status` is the kind: "invalid_argument", "shape_mismatch", "unsupported", ... `report` is the
    dispatch report, a dictionary, of a compile that failed because the device does not run all of the graph; else None.

    Each kind is also the exception that Python has for it, so that `except ValueError` catches it as with NumPy and JAX:

    invalid_argument    ValueError and TypeError (a value, or a dtype, that no call accepts)
    shape_mismatch      ValueError and TypeError (NumPy raises the one, `jax.lax` the other)
    axis_out_of_range   ValueError and IndexError, as NumPy's AxisError
    unsupported         NotImplementedError
    parse               ValueError
    not_found           KeyError and FileNotFoundError (a name, a file, a device)
    io                  OSError
    out_of_memory       MemoryError
    internal            RuntimeError
    too_large           ValueError (a file would be larger than what reads it can take: `bytes` is what it would have, `limit` the most)
    """

    def __new__(cls, message="", status="invalid_argument"):
        kind = _OF_STATUS.get(status, Error) if cls is Error else cls
        # Only the message goes on: with two arguments OSError would take the first one for an error number.
        return (OSError if issubclass(kind, OSError) else Exception).__new__(kind, message)

    def __init__(self, message="", status="invalid_argument"):
        super().__init__(message)
        self.status, self.report = status, None

    def __str__(self):  # KeyError's would put it in quotes
        return str(self.args[0]) if self.args else ""

    def __reduce__(self):
        return TracedValueError if isinstance(self, TracedValueError) else Error, (str(self), self.status), vars(self)


class _InvalidArgument(Error, ValueError, TypeError):
    pass


class _ShapeMismatch(Error, ValueError, TypeError):
    pass


class _AxisOutOfRange(Error, ValueError, IndexError):
    pass


class _Unsupported(Error, NotImplementedError):
    pass


class _Parse(Error, ValueError):
    pass


class _NotFound(Error, FileNotFoundError, KeyError):
    pass


class _Io(Error, OSError):
    pass


class _OutOfMemory(Error, MemoryError):
    pass


class _Internal(Error, RuntimeError):
    pass


class _Cancelled(Error, RuntimeError):
    pass


class _DeviceLost(Error, RuntimeError):
    pass


class _TooLarge(Error, ValueError):
    bytes = limit = None  # what the file would have, and the most that it may have


_OF_STATUS = {"invalid_argument": _InvalidArgument, "shape_mismatch": _ShapeMismatch, "axis_out_of_range": _AxisOutOfRange,
              "unsupported": _Unsupported, "parse": _Parse, "not_found": _NotFound, "io": _Io, "out_of_memory": _OutOfMemory,
              "internal": _Internal, "cancelled": _Cancelled, "device_lost": _DeviceLost,
              "too_large": _TooLarge}
for _class in _OF_STATUS.values():
    _class.__name__ = _class.__qualname__ = "Error"  # what a traceback shows: rlx.Error, whichever kind it is
    _class.__module__ = "rlx"
Error.__module__ = "rlx"


class TracedValueError(Error, TypeError):
    """Python asked for the elements of a value that is being traced: there are none until the graph runs."""


TracedValueError.__module__ = "rlx"

_STATUS = ["ok", "invalid_argument", "shape_mismatch", "unsupported", "parse", "not_found", "io", "out_of_memory", "internal",
           "cancelled", "device_lost", "too_large"]


class Value(Structure):
    _fields_ = [("node", c_int32), ("result", c_int32)]


class SessionOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int), ("narrow", c_int)]


class CompileOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("strict", c_int), ("common", c_int), ("mode", c_int), ("accuracy", c_int),
                ("batch_invariant", c_int), ("donate", POINTER(c_char_p)), ("donate_count", c_size_t), ("more", c_char_p)]


class EncoderOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int), ("most_tokens", c_int64)]


class LanguageModelOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int), ("copied", c_int), ("context", c_int64), ("chunk", c_int64),
                ("cache", c_char_p), ("adapters", POINTER(c_char_p)), ("adapter_scales", POINTER(c_double)), ("adapter_count", c_size_t)]


class Buffer(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Memory(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("host_access", c_int), ("alignment", c_size_t),
                ("capacity", c_uint64), ("largest_buffer", c_uint64)]


class Transfers(Structure):
    _fields_ = [("struct_size", c_size_t), ("host_waits", c_uint64), ("copies_to_device", c_uint64), ("bytes_to_device", c_uint64),
                ("copies_to_host", c_uint64), ("bytes_to_host", c_uint64), ("donated_copies", c_uint64)]


class CoremlOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("function", c_char_p), ("f32", c_int), ("threads", c_int), ("seeded", c_int),
                ("seed", c_uint64)]


class CoremlWriteOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("minimum_ios", c_int), ("narrow", c_int), ("dims", c_char_p), ("description", c_char_p),
                ("author", c_char_p), ("version", c_char_p), ("license", c_char_p), ("precision", c_char_p), ("shapes", c_char_p),
                ("features", c_char_p), ("nearest", c_int)]


class MilOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("minimum_ios", c_int), ("description", c_char_p), ("author", c_char_p), ("version", c_char_p),
                ("license", c_char_p)]


class StepResultStruct(Structure):
    _fields_ = [("struct_size", c_size_t), ("loss", c_double), ("grad_norm", c_double), ("learning_rate", c_double),
                ("loss_scale", c_double), ("step", c_int64), ("path", c_int), ("skipped", c_int)]


def _load():
    """The library beside this file in a wheel; RLX_LIBRARY names another one, such as that of a build folder."""
    named = os.environ.get("RLX_LIBRARY")
    candidates = [pathlib.Path(named)] if named else [_HERE / "_lib" / "librlx_c.so", _HERE / "_lib" / "librlx_c.dylib"]
    for path in candidates:
        if path.exists():
            # RTLD_LOCAL: what it links to must not meet other packages' copies in the same process.
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
    raise ImportError(f"the RLX library is not at {', '.join(map(str, candidates))}; install the package with "
                      "`pip install .`, or set RLX_LIBRARY to a build's lib/librlx_c.so")


lib = _load()

_p = c_void_p
_err = POINTER(c_void_p)
_SIGNATURES = {
    "rlx_version_string": (c_char_p, []),
    "rlx_error_message": (c_char_p, [_p]),
    "rlx_error_status": (c_int, [_p]),
    "rlx_error_report": (c_char_p, [_p]),
    "rlx_log_get_level": (c_int, []),
    "rlx_log_set_level": (c_int, [c_int, _err]),
    "rlx_log_set_sink": (c_int, [_p, _p, _err]),
    "rlx_error_is_too_large": (c_int, [_p, POINTER(c_uint64), POINTER(c_uint64)]),
    "rlx_error_free": (None, [_p]),
    "rlx_tensor_create": (c_int, [c_char_p, POINTER(c_int64), c_size_t, _p, c_size_t, POINTER(_p), _err]),
    "rlx_tensor_borrow": (c_int, [c_char_p, POINTER(c_int64), c_size_t, _p, c_size_t, _p, _p, POINTER(_p), _err]),
    "rlx_tensor_dtype": (c_char_p, [_p]),
    "rlx_tensor_rank": (c_size_t, [_p]),
    "rlx_tensor_dims": (POINTER(c_int64), [_p]),
    "rlx_tensor_size": (c_size_t, [_p]),
    "rlx_tensor_data": (_p, [_p]),
    "rlx_tensor_free": (None, [_p]),
    "rlx_graph_create": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_graph_parse": (c_int, [c_char_p, c_size_t, POINTER(_p), _err]),
    "rlx_graph_load": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_graph_save": (c_int, [_p, c_char_p, _err]),
    "rlx_graph_input": (c_int, [_p, c_char_p, c_char_p, POINTER(Value), _err]),
    "rlx_graph_param": (c_int, [_p, c_char_p, c_char_p, POINTER(Value), _err]),
    "rlx_graph_constant": (c_int, [_p, _p, POINTER(Value), _err]),
    "rlx_graph_trace": (c_int, [_p, c_char_p, POINTER(Value), c_size_t, c_char_p, POINTER(Value), c_size_t,
                                POINTER(c_size_t), c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_graph_inline": (c_int, [_p, _p, POINTER(Value), c_size_t, POINTER(Value), c_size_t, POINTER(c_size_t), _err]),
    "rlx_graph_output": (c_int, [_p, Value, c_char_p, _err]),
    "rlx_graph_type": (c_int, [_p, Value, c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_graph_text": (c_char_p, [_p]),
    "rlx_graph_count": (c_size_t, [_p, c_int]),
    "rlx_graph_signature_type": (c_int, [_p, c_int, c_size_t, c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_graph_free": (None, [_p]),
    "rlx_error_create": (_p, [c_int, c_char_p]),
    "rlx_op_register": (c_int, [_p, _err]),
    "rlx_op_unregister": (c_int, [c_char_p, _err]),
    "rlx_op_add_result": (c_int, [_p, c_char_p, _err]),
    "rlx_graph_vjp": (c_int, [_p, POINTER(c_uint8), POINTER(c_uint8), c_int, POINTER(_p), _err]),
    "rlx_graph_jvp": (c_int, [_p, POINTER(c_uint8), POINTER(_p), _err]),
    "rlx_graph_batch": (c_int, [_p, POINTER(c_uint8), c_char_p, POINTER(_p), _err]),
    "rlx_device_available": (c_int, [c_char_p]),
    "rlx_device_memory": (c_int, [c_char_p, POINTER(Memory), _err]),
    "rlx_device_transfers": (c_int, [c_char_p, POINTER(Transfers), _err]),
    "rlx_device_put": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_device_tensor_dtype": (c_char_p, [_p]),
    "rlx_device_tensor_rank": (c_size_t, [_p]),
    "rlx_device_tensor_dims": (POINTER(c_int64), [_p]),
    "rlx_device_tensor_why_gone": (c_char_p, [_p]),
    "rlx_device_tensor_ready": (c_int, [_p, POINTER(_p), _err]),
    "rlx_device_tensor_to_host": (c_int, [_p, POINTER(_p), _err]),
    "rlx_device_tensor_to": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_device_tensor_free": (None, [_p]),
    "rlx_event_wait": (c_int, [_p, c_int64, POINTER(c_int), _err]),
    "rlx_event_free": (None, [_p]),
    "rlx_compiled_submit": (c_int, [_p, POINTER(_p), c_size_t, POINTER(_p), c_size_t, POINTER(_p), _err]),
    "rlx_pick_best_device": (c_char_p, []),
    "rlx_predict_devices": (c_int, [_p, c_char_p, c_int, POINTER(CompileOptions), POINTER(_p), _err]),
    "rlx_graph_manifest": (c_int, [_p, c_char_p, c_char_p, POINTER(_p), _err]),
    "rlx_profile_phases": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_profile_options": (c_int, [c_char_p, c_char_p, POINTER(_p), _err]),
    "rlx_session_create": (c_int, [c_char_p, POINTER(SessionOptions), POINTER(_p), _err]),
    "rlx_session_free": (None, [_p]),
    "rlx_devices": (c_int, [POINTER(_p), _err]),
    "rlx_load_plugin": (c_int, [c_char_p, _err]),
    "rlx_graph_report": (c_int, [_p, c_char_p, POINTER(CompileOptions), POINTER(_p), _err]),
    "rlx_device_target": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_compiled_save": (c_int, [_p, c_char_p, POINTER(c_char_p), POINTER(_p), c_size_t, _err]),
    "rlx_session_load": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_artifact_describe": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_artifact_graph": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_compile": (c_int, [_p, _p, POINTER(CompileOptions), POINTER(_p), _err]),
    "rlx_compiled_set_param": (c_int, [_p, c_char_p, _p, _err]),
    "rlx_compiled_count": (c_size_t, [_p, c_int]),
    "rlx_compiled_name": (c_char_p, [_p, c_int, c_size_t]),
    "rlx_compiled_type": (c_int, [_p, c_int, c_size_t, c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_compiled_run": (c_int, [_p, POINTER(_p), c_size_t, POINTER(_p), c_size_t, _err]),
    "rlx_compiled_commit_no_wait": (c_int, [_p, POINTER(_p), c_size_t, _err]),
    "rlx_compiled_sync_pending": (c_int, [_p, POINTER(_p), c_size_t, _err]),
    "rlx_compiled_call": (c_int, [_p, _p, c_size_t, _p, c_size_t, _err]),  # buffers as bytes
    "rlx_compiled_report": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_compiled_free": (None, [_p]),
    "rlx_compiled_input_mode": (c_int, [_p, c_size_t]),
    "rlx_compiled_output_is_update": (c_int, [_p, c_size_t]),
    "rlx_compiled_new_state": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, c_char_p, POINTER(_p), _err]),
    "rlx_compiled_load_state": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_compiled_run_with_state": (c_int, [_p, _p, POINTER(_p), c_size_t, POINTER(_p), c_size_t, _err]),
    "rlx_state_count": (c_size_t, [_p]),
    "rlx_state_name": (c_char_p, [_p, c_size_t]),
    "rlx_state_type": (c_int, [_p, c_size_t, c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_state_tensor": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_state_copy": (c_int, [_p, POINTER(_p), _err]),
    "rlx_state_reset": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, _err]),
    "rlx_state_save": (c_int, [_p, c_char_p, _err]),
    "rlx_state_why_torn": (c_int, [_p, POINTER(_p), _err]),
    "rlx_state_free": (None, [_p]),
    "rlx_coreml_load": (c_int, [c_char_p, POINTER(CoremlOptions), POINTER(_p), _err]),
    "rlx_coreml_description": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_coreml_make_state": (c_int, [_p, POINTER(_p), _err]),
    "rlx_coreml_state_read": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_coreml_state_write": (c_int, [_p, c_char_p, _p, _err]),
    "rlx_coreml_state_free": (None, [_p]),
    "rlx_coreml_output_count": (c_size_t, [_p]),
    "rlx_coreml_output_name": (c_char_p, [_p, c_size_t]),
    "rlx_coreml_predict": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, _p, POINTER(_p), c_size_t, _err]),
    "rlx_coreml_labels": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_coreml_placement": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_coreml_free": (None, [_p]),
    "rlx_coreml_write": (c_int, [c_char_p, _p, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(CoremlWriteOptions), POINTER(_p),
                                 _err]),
    "rlx_coreml_check_model_size": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(CoremlWriteOptions), POINTER(c_uint64),
                                            POINTER(c_uint64), _err]),
    "rlx_coreml_chip": (c_int, [POINTER(_p), _err]),
    "rlx_compiled_is_compiled": (c_int, [_p, POINTER(c_int), _err]),
    "rlx_compiled_placement": (c_int, [_p, POINTER(_p), _err]),
    "rlx_text_free": (None, [_p]),
    "rlx_mil_create": (c_int, [POINTER(MilOptions), POINTER(_p), _err]),
    "rlx_mil_function": (c_int, [_p, c_char_p, _err]),
    "rlx_mil_input": (c_int, [_p, c_char_p, c_char_p, c_char_p, c_char_p, POINTER(c_int32), _err]),
    "rlx_mil_state": (c_int, [_p, c_char_p, c_char_p, POINTER(c_int32), _err]),
    "rlx_mil_constant": (c_int, [_p, _p, c_char_p, POINTER(c_int32), _err]),
    "rlx_mil_set_values": (c_int, [_p, c_char_p, POINTER(c_int32), c_size_t, _err]),
    "rlx_mil_set_tensor": (c_int, [_p, c_char_p, _p, _err]),
    "rlx_mil_set_number": (c_int, [_p, c_char_p, c_double, _err]),
    "rlx_mil_set_integer": (c_int, [_p, c_char_p, c_int64, _err]),
    "rlx_mil_set_integers": (c_int, [_p, c_char_p, POINTER(c_int64), c_size_t, _err]),
    "rlx_mil_set_flag": (c_int, [_p, c_char_p, c_int, _err]),
    "rlx_mil_set_text": (c_int, [_p, c_char_p, c_char_p, _err]),
    "rlx_mil_set_texts": (c_int, [_p, c_char_p, POINTER(c_char_p), c_size_t, _err]),
    "rlx_mil_set_types": (c_int, [_p, c_char_p, _err]),
    "rlx_mil_op": (c_int, [_p, c_char_p, c_char_p, POINTER(c_int32), POINTER(c_size_t), _err]),
    "rlx_mil_begin_cond": (c_int, [_p, c_int32, c_char_p, _err]),
    "rlx_mil_begin_else": (c_int, [_p, POINTER(c_int32), c_size_t, _err]),
    "rlx_mil_end_cond": (c_int, [_p, POINTER(c_int32), c_size_t, POINTER(c_int32), _err]),
    "rlx_mil_begin_while": (c_int, [_p, POINTER(c_int32), c_size_t, c_char_p, POINTER(c_int32), _err]),
    "rlx_mil_begin_body": (c_int, [_p, c_int32, POINTER(c_int32), _err]),
    "rlx_mil_end_while": (c_int, [_p, POINTER(c_int32), c_size_t, POINTER(c_int32), _err]),
    "rlx_mil_abandon": (c_int, [_p, _err]),
    "rlx_mil_output": (c_int, [_p, c_int32, c_char_p, _err]),
    "rlx_mil_type": (c_int, [_p, c_int32, c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_mil_name": (c_char_p, [_p, c_int32]),
    "rlx_mil_write": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_mil_load": (c_int, [_p, POINTER(CoremlOptions), POINTER(_p), _err]),
    "rlx_mil_signature": (c_int, [c_char_p, c_int, POINTER(_p), _err]),
    "rlx_mil_free": (None, [_p]),
    "rlx_training_create": (c_int, [_p, _p, POINTER(c_char_p), POINTER(_p), c_size_t, c_char_p, POINTER(_p), _err]),
    "rlx_training_step": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, c_int, POINTER(StepResultStruct), POINTER(_p),
                                  c_size_t, _err]),
    "rlx_training_step_accumulated": (c_int, [_p, POINTER(c_int64), _err]),
    "rlx_training_evaluate": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, c_int, POINTER(_p), c_size_t, _err]),
    "rlx_training_set_loss": (c_int, [_p, _p, _err]),
    "rlx_training_set_learning_rate": (c_int, [_p, c_double, _err]),
    "rlx_training_with_fused_optimizer": (c_int, [_p, c_int, _err]),
    "rlx_training_with_precision_policy": (c_int, [_p, c_char_p, _err]),
    "rlx_training_fused_active": (c_int, [_p]),
    "rlx_training_steps": (c_int64, [_p]),
    "rlx_training_pending": (c_int64, [_p]),
    "rlx_training_param": (c_int, [_p, c_char_p, c_int, POINTER(_p), _err]),
    "rlx_training_save": (c_int, [_p, c_char_p, POINTER(c_char_p), POINTER(c_char_p), c_size_t, _err]),
    "rlx_training_load": (c_int, [_p, c_char_p, POINTER(c_char_p), _err]),
    "rlx_training_report": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_training_status": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_training_free": (None, [_p]),
    "rlx_calibrate": (c_int, [_p, _p, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(c_char_p), c_size_t, POINTER(_p), c_size_t,
                              c_char_p, c_char_p, POINTER(_p), _err]),
    "rlx_ranges_table": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_quantize": (c_int, [_p, c_char_p, c_int, POINTER(_p), _err]),
    "rlx_quantization_graph": (c_int, [_p, POINTER(_p), _err]),
    "rlx_quantization_describe": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_quantization_initial": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, c_char_p, POINTER(c_char_p), POINTER(_p),
                                         c_size_t, POINTER(c_size_t), _err]),
    "rlx_quantization_free": (None, [_p]),
    "rlx_export_int8": (c_int, [_p, _p, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(_p), POINTER(_p), _err]),
    "rlx_gguf_open": (c_int, [c_char_p, c_int, POINTER(_p), _err]),
    "rlx_gguf_describe": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_gguf_tensor": (c_int, [_p, c_char_p, c_char_p, POINTER(_p), _err]),
    "rlx_gguf_write": (c_int, [c_char_p, POINTER(c_char_p), POINTER(_p), c_size_t, c_char_p, c_char_p, _err]),
    "rlx_gguf_free": (None, [_p]),
    "rlx_tokenizer_load": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_tokenizer_set": (c_int, [_p, c_char_p, c_char_p, _err]),
    "rlx_tokenizer_describe": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_tokenizer_encode": (c_int, [_p, POINTER(Buffer), c_size_t, c_int, c_int, POINTER(_p), _err]),
    "rlx_tokenizer_decode": (c_int, [_p, POINTER(c_int32), c_size_t, c_int, POINTER(_p), POINTER(c_size_t), _err]),
    "rlx_tokenizer_token_to_id": (c_int, [_p, c_char_p, POINTER(c_int32), _err]),
    "rlx_tokenizer_id_to_token": (c_int, [_p, c_int32, POINTER(_p), POINTER(c_size_t), _err]),
    "rlx_tokenizer_set_encode_special_tokens": (c_int, [_p, c_int, _err]),
    "rlx_chat_template_parse": (c_int, [c_char_p, c_size_t, POINTER(_p), _err]),
    "rlx_chat_template_load": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_chat_template_describe": (c_int, [_p, POINTER(_p), _err]),
    "rlx_chat_template_apply": (c_int, [_p, c_char_p, c_char_p, POINTER(_p), POINTER(c_size_t), _err]),
    "rlx_chat_template_free": (None, [_p]),
    "rlx_tokenizer_free": (None, [_p]),
    "rlx_decode_stream_new": (c_int, [_p, c_int, POINTER(_p), _err]),
    "rlx_decode_stream_put": (c_int, [_p, c_int32, POINTER(_p), POINTER(c_size_t), _err]),
    "rlx_decode_stream_finish": (c_int, [_p, POINTER(_p), POINTER(c_size_t), _err]),
    "rlx_decode_stream_free": (None, [_p]),
    "rlx_encodings_count": (c_size_t, [_p]),
    "rlx_encodings_tensor": (c_int, [_p, c_size_t, c_char_p, POINTER(_p), _err]),
    "rlx_encodings_token": (_p, [_p, c_size_t, c_size_t, POINTER(c_size_t)]),
    "rlx_encodings_overflow": (c_int, [_p, c_size_t, POINTER(_p), _err]),
    "rlx_encodings_free": (None, [_p]),
    "rlx_encoder_load": (c_int, [c_char_p, c_char_p, POINTER(EncoderOptions), POINTER(CompileOptions), POINTER(_p), _err]),
    "rlx_encoder_embed": (c_int, [_p, POINTER(Buffer), c_size_t, POINTER(_p), _err]),
    "rlx_encoder_embed_ids": (c_int, [_p, _p, _p, POINTER(_p), _err]),
    "rlx_encoder_width": (c_int64, [_p]),
    "rlx_encoder_tokenizer": (c_int, [_p, POINTER(_p), _err]),
    "rlx_encoder_report": (c_int, [_p, POINTER(_p), _err]),
    "rlx_encoder_free": (None, [_p]),
    "rlx_language_model_load": (c_int, [c_char_p, c_char_p, POINTER(LanguageModelOptions), POINTER(CompileOptions), POINTER(_p), _err]),
    "rlx_language_model_describe": (c_int, [_p, POINTER(_p), _err]),
    "rlx_language_model_tokenizer": (c_int, [_p, POINTER(_p), _err]),
    "rlx_language_model_chat_template": (c_int, [_p, POINTER(_p), _err]),
    "rlx_language_model_prompt": (c_int, [_p, c_char_p, c_size_t, c_int, POINTER(_p), _err]),
    "rlx_language_model_all_logits": (c_int, [_p, POINTER(c_int32), c_size_t, POINTER(_p), _err]),
    "rlx_language_model_report": (c_int, [_p, POINTER(_p), _err]),
    "rlx_language_model_to_gguf": (c_int, [c_char_p, c_char_p, c_char_p, POINTER(_p), _err]),
    "rlx_language_model_to_folder": (c_int, [c_char_p, c_char_p, c_char_p, POINTER(_p), _err]),
    "rlx_language_model_free": (None, [_p]),
    "rlx_sequence_new": (c_int, [_p, POINTER(_p), _err]),
    "rlx_sequence_copy": (c_int, [_p, POINTER(_p), _err]),
    "rlx_sequence_logits": (c_int, [_p, POINTER(c_int32), c_size_t, POINTER(_p), _err]),
    "rlx_sequence_all_logits": (c_int, [_p, POINTER(c_int32), c_size_t, POINTER(_p), _err]),
    "rlx_sequence_position": (c_int64, [_p]),
    "rlx_sequence_rewind": (c_int, [_p, c_int64, _err]),
    "rlx_sequence_memory_bytes": (c_size_t, [_p]),
    "rlx_sequence_free": (None, [_p]),
    "rlx_sampler_new": (c_int, [c_char_p, POINTER(_p), _err]),
    "rlx_sampler_see": (c_int, [_p, POINTER(c_int32), c_size_t, _err]),
    "rlx_sampler_sample": (c_int, [_p, _p, c_size_t, POINTER(c_int32), _err]),
    "rlx_sampler_chances": (c_int, [_p, _p, c_size_t, _p, _p, c_size_t, POINTER(c_size_t), _err]),
    "rlx_sampler_reset": (c_int, [_p, _err]),
    "rlx_sampler_free": (None, [_p]),
    "rlx_generator_new": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_generator_begin": (c_int, [_p, POINTER(c_int32), c_size_t, _err]),
    "rlx_generator_next": (c_int, [_p, POINTER(_p), POINTER(c_size_t), _err]),
    "rlx_generator_describe": (c_int, [_p, POINTER(_p), _err]),
    "rlx_generator_reset": (c_int, [_p, _err]),
    "rlx_generator_free": (None, [_p]),
    "rlx_lora_add": (c_int, [_p, c_char_p, POINTER(_p), _err]),
    "rlx_lora_graph": (c_int, [_p, POINTER(_p), _err]),
    "rlx_lora_describe": (c_int, [_p, POINTER(c_char_p), _err]),
    "rlx_lora_initial": (c_int, [_p, c_uint64, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(c_size_t), _err]),
    "rlx_lora_load": (c_int, [_p, c_char_p, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(c_size_t), _err]),
    "rlx_lora_merge": (c_int, [_p, POINTER(c_char_p), POINTER(_p), c_size_t, POINTER(c_char_p), POINTER(_p), c_size_t,
                               POINTER(c_size_t), _err]),
    "rlx_lora_save": (c_int, [_p, c_char_p, POINTER(c_char_p), POINTER(_p), c_size_t, _err]),
    "rlx_lora_free": (None, [_p]),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments


def user_line():
    """The innermost frame outside this package: where the user stands, as "file:line"."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None


def at_user_line(message):
    """The message, and below it where the user stands."""
    where = user_line()
    return f"{message}\n  at {where}" if where else message


causes = collections.deque(maxlen=16)  # of functions that C called: their messages and exceptions, the latest last


def failed(status, error):
    """The exception for an error out-parameter, which is freed."""
    message = lib.rlx_error_message(error).decode() if error else _STATUS[status]
    report = lib.rlx_error_report(error)
    sizes = c_uint64(), c_uint64()
    is_too_large = lib.rlx_error_is_too_large(error, byref(sizes[0]), byref(sizes[1]))
    lib.rlx_error_free(error)
    made = Error(at_user_line(message), _STATUS[status])
    if is_too_large:
        made.bytes, made.limit = (size.value for size in sizes)
    if report:
        made.report = json.loads(report)
    for told, cause in reversed(list(causes)):
        if told in message:
            causes.clear()
            if not isinstance(cause, Exception):  # an interrupt
                return cause
            made.__cause__ = cause
            break
    return made


def check(function, *arguments):
    """Calls a C function whose last parameter is the error."""
    error = c_void_p()
    status = function(*arguments, byref(error))
    if status:
        raise failed(status, error)


def text_from(function, *arguments):
    """Calls one that writes text like snprintf."""
    size = c_size_t()
    buffer = ctypes.create_string_buffer(256)
    check(function, *arguments, buffer, 256, byref(size))
    if size.value > 256:
        buffer = ctypes.create_string_buffer(size.value)
        check(function, *arguments, buffer, size.value, byref(size))
    return buffer.value.decode()


def path_bytes(path):
    """A path as C takes it: text, bytes and os.PathLike alike. Behind a NUL C would see nothing, and open another file."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"the path {path!r} holds a NUL character")
    return encoded


def owned_text(function, *arguments):
    """The text that a C function gives as the last parameter before the error."""
    text = c_void_p()
    check(function, *arguments, byref(text))
    try:
        return ctypes.string_at(text).decode()
    finally:
        lib.rlx_text_free(text)


def owned_sized_text(function, *arguments):
    """The same of a function that tells the text's size, too: there may be NULs in it."""
    text, size = c_void_p(), c_size_t()
    check(function, *arguments, byref(text), byref(size))
    try:
        return ctypes.string_at(text, size.value).decode()
    finally:
        lib.rlx_text_free(text)


def mask(flags):
    return (c_uint8 * max(1, len(flags)))(*[1 if f else 0 for f in flags])


__version__ = lib.rlx_version_string().decode()
