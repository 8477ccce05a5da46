#!/usr/bin/env python3
"""Writes the C program that calls each function of rlx/c.h with one argument after the other replaced by an odd one.

    tests/api/c_odd_arguments.py include/rlx/c.h OUT.c

The functions, their parameters and the option structs are read from the header, so a new function is called too, or this
script fails and asks for the valid arguments that it does not know. The build runs it. A function is first called with
valid arguments, which must succeed; then with NULL for a pointer, which must be refused by name unless the header allows
it; then with odd sizes, numbers and texts, of which nothing is asked but that the call returns, says why if it fails, and
then leaves its results alone.

    OUT SECONDS SEED

Then all arguments are drawn at once, valid ones and odd ones together, for that time.
"""

import re
import sys

# Valid arguments, by the parameter's name; with its type, or as `function.parameter`, where that needs another. C expressions over the
# objects `o` of c_objects.h.
VALID = {
    "error": "&error", "session": "o.session", "graph": "o.plain", "compiled": "o.compiled", "training": "o.training",
    "quantization": "o.quantization", "model": "o.coreml", "state": "o.state", "tensor": "o.x", "loss": "o.loss",
    "dtype": '"f32"', "dims": "kXDims", "rank": "2", "data": "kNumbers", "size": "sizeof kNumbers", "release": "NULL",
    "context": "NULL", "text": "kPlain", "path": "graph_path", "name": '"w"', "type": '"f32[2]"', "op": '"exp"',
    "operands": "one_value", "operand_count": "1", "attrs": "NULL", "results": "made_values", "room": "4", "count": "&made_count", "size_t count": "1",
    "types": "buffer", "types_room": "sizeof buffer", "types_size": "&made_size", "from": "other", "inputs": "inputs",
    "input_count": "1", "value": "first_value", "kind": "0", "index": "0", "buffer": "buffer", "wrt": "one_byte",
    "given": "one_byte", "with_outputs": "1", "active": "one_byte", "batched": "one_byte", "device": '"cpu"',
    "outputs": "made_tensors", "output_count": "1", "names": "kWName", "params": "params", "values": "params",
    "param_count": "1", "config": "NULL", "accumulate": "0", "averaged": "0", "rate": "0.1", "fused": "1", "policy": "NULL",
    "texts": "kXName", "ranges": "o.ranges", "batches": "inputs", "batch_count": "1", "options": "NULL",
    "made_names": "made_names", "made": "made_tensors", "table": "&made_text", "report": "&made_text", "json": "&made_json",
    "notes": "&made_json", "result": "&made_graph", "int8": "&made_graph",
    "tokenizer": "o.tokenizer", "encodings": "o.encodings", "encoder": "o.encoder", "lora": "o.lora", "const rlx_buffer* texts": "&text_memory",
    "pair": "0", "add_special_tokens": "1", "skip_special_tokens": "1", "ids": "kIds", "token": '"a"', "id": "1", "int32_t* id": "&made_id",
    "truncation": "NULL", "padding": "NULL", "what": '"ids"', "place": "0", "overflow": "&made_encodings", "folder": "folder",
    "compile": "NULL", "const rlx_tensor* ids": "o.ids", "const rlx_tensor* mask": "o.ids", "seed": "7", 
    "rlx_lora_add.graph": "o.model", "rlx_lora_add.config": '"{targets = [\\"w\\"]}"', "rlx_graph_report.graph": "o.model",
    "as_text": "1", "rlx_decode_stream* stream": "o.decode_stream", "rlx_decode_stream_put.text": "&made_text", "rlx_decode_stream_finish.text": "&made_text",
    "rlx_tokenizer_load.path": "vocabulary_path", "rlx_tokenizer_set.truncation": '"{max_length = 8}"', "rlx_tokenizer_set.padding": '""',
    "rlx_tokenizer_decode.text": "&made_text", "rlx_tokenizer_id_to_token.text": "&made_text", "rlx_devices.json": "&made_text",
    "rlx_device_target.json": "&made_text", "rlx_artifact_describe.json": "&made_text", "rlx_compiled_save.path": "written_path",
    "rlx_session_load.path": "artifact_path", "rlx_artifact_describe.path": "artifact_path", "rlx_artifact_graph.path": "artifact_path",
    "rlx_graph_report.json": "&made_text", "rlx_encoder_report.json": "&made_text", "rlx_lora_initial.room": "16", "rlx_lora_load.room": "16",
    "rlx_lora_merge.room": "16", "rlx_lora_load.path": "adapter_path", "rlx_lora_save.path": "written_adapter", "rlx_lora_merge.names": "kLoraNames",
    "rlx_lora_merge.params": "lora_params", "rlx_lora_merge.param_count": "3", "rlx_lora_save.names": "kLoraNames",
    "rlx_lora_save.params": "lora_params", "rlx_lora_save.param_count": "3",
    "chat_template": "o.chat_template", "messages": '"[]"', "settings": "NULL", "rlx_chat_template_parse.text": '"{{ messages }}"',
    "rlx_chat_template_parse.size": "strlen(\"{{ messages }}\")", "rlx_chat_template_load.path": "vocabulary_path",
    "rlx_chat_template_describe.json": "&made_text", "rlx_chat_template_apply.text": "&made_text", "->rlx_chat_template": "&made_chat_template",
    "language_model": "o.language_model", "sequence": "o.sequence", "sampler": "o.sampler", "generator": "o.generator",
    "->rlx_language_model": "&made_language_model", "->rlx_sequence": "&made_sequence", "->rlx_sampler": "&made_sampler",
    "->rlx_generator": "&made_generator", "rlx_language_model_load.path": "language_model_path", "tokens": "0", "logits": "kLogits",
    "rlx_language_model_describe.json": "&made_text", "rlx_language_model_report.json": "&made_text", "rlx_generator_describe.json": "&made_text",
    "rlx_tokenizer_decode.size": "&made_size", "rlx_tokenizer_id_to_token.size": "&made_size", "rlx_decode_stream_put.size": "&made_size",
    "rlx_decode_stream_finish.size": "&made_size", "rlx_chat_template_apply.size": "&made_size", "rlx_encodings_token.size": "&made_size",
    "rlx_generator_next.text": "&made_text", "rlx_generator_next.size": "&made_size", "rlx_language_model_prompt.text": '"a cat"', "rlx_language_model_prompt.size": 'strlen("a cat")',
    "rlx_sampler_chances.ids": "made_ids", "probabilities": "made_probabilities", "size_t* made": "&made_count",
    "file": "o.gguf", "mapped": "0", "metadata": "NULL", "rlx_gguf_open.path": "gguf_path", "rlx_gguf_write.path": "written_gguf",
    "rlx_state* state": "o.kept", "const rlx_state* state": "o.kept", "extents": "NULL", "rlx_state** state": "&made_kept",
    "rlx_state** result": "&made_kept", "rlx_compiled_load_state.path": "state_path", "rlx_state_save.path": "written_path",
    "rlx_state_type.size": "&made_size", "rlx_state_tensor.name": '"total"', "rlx_state_tensor.tensor": "&made_tensors[0]",
    "rlx_state_why_torn.text": "&made_text", "rlx_state_reset.names": "kTotalName", "rlx_state_reset.values": "halves",
    "rlx_compiled_new_state.names": "kTotalName", "rlx_compiled_new_state.values": "halves",
    "rlx_compiled_new_state.compiled": "o.summing", "rlx_compiled_load_state.compiled": "o.summing",
    "rlx_compiled_run_with_state.compiled": "o.summing", "rlx_compiled_run_async_with_state.compiled": "o.summing",
    "rlx_compiled_run_with_state.inputs": "halves", "rlx_compiled_run_async_with_state.inputs": "halves",
    # What a call gives.
    "->rlx_tokenizer": "&made_tokenizer", "->rlx_decode_stream": "&made_decode_stream", "->rlx_encodings": "&made_encodings", "->rlx_encoder": "&made_encoder", "->rlx_lora": "&made_lora", "->rlx_gguf": "&made_gguf",
    "->rlx_tensor": "&made_tensors[0]", "->rlx_graph": "&made_graph", "->rlx_session": "&made_session",
    "->rlx_compiled": "&made_compiled", "->rlx_training": "&made_training", "->rlx_quantization": "&made_quantization",
    "->rlx_coreml": "&made_coreml", "->rlx_coreml_state": "&made_state", "->rlx_value": "&made_values[0]",
    "rlx_error_message.error": "o.failure", "rlx_error_status.error": "o.failure", "rlx_error_report.error": "o.failure", "rlx_error_is_too_large.error": "o.failure",
    "rlx_graph_parse.size": "strlen(kPlain)", "rlx_graph_inline.inputs": "one_value", "rlx_graph_save.path": "written_path",
    "rlx_graph_input.name": '"fresh"', "rlx_graph_param.name": '"fresh"', "rlx_graph_output.name": '"fresh"',
    "rlx_graph_type.size": "&made_size", "rlx_graph_signature_type.size": "&made_size", "rlx_compiled_type.size": "&made_size",
    "rlx_graph_batch.size": '"4"', "rlx_compile.graph": "o.model", "rlx_compiled_set_param.tensor": "o.w",
    "rlx_compiled_call.inputs": "&in_memory", "rlx_compiled_call.outputs": "&out_memory", "rlx_coreml_load.path": "package_path",
    "rlx_coreml_state_read.name": '"total"', "rlx_coreml_state_write.name": '"total"', "rlx_coreml_state_write.tensor": "o.half",
    "rlx_coreml_predict.names": "kXName", "rlx_coreml_predict.inputs": "halves", "rlx_coreml_write.path": "written_package",
    "rlx_coreml_write.graph": "o.model", "rlx_training_step.names": "kXName", "rlx_training_step.values": "inputs",
    "rlx_training_step.result": "&made_step", "rlx_training_step.output_count": "0", "rlx_training_evaluate.names": "kXName",
    "rlx_training_evaluate.values": "inputs", "rlx_training_step_accumulated.count": "&made_steps",
    "rlx_training_save.path": "written_path", "rlx_training_load.path": "checkpoint_path", "rlx_calibrate.graph": "o.model",
    "rlx_calibrate.inputs": "kXName", "rlx_calibrate.ranges": "&made_text", "rlx_quantize.graph": "o.model", "rlx_quantize.training": "0",
    "rlx_device_tensor* tensor": "o.there", "const rlx_device_tensor* tensor": "o.there", "rlx_tensor* value": "o.x",
    "const rlx_tensor* value": "o.x", "event": "o.event", "run": "o.run", "rlx_device_tensor** result": "&made_device_tensors[0]",
    "rlx_tensor** result": "&made_tensors[0]", "rlx_device_tensor** outputs": "made_device_tensors",
    "const rlx_device_tensor* const* inputs": "there", "rlx_run** run": "&made_run", "rlx_event** event": "&made_event",
    "memory": "&made_memory", "transfers": "&made_transfers", "nanoseconds": "1000", "int* done": "&made_done", "int* is_compiled": "&made_done", "done_function done": "ignore_end",
    "rlx_compiled_set_param_on_device.tensor": "o.w_there", "rlx_export_int8.graph": "o.fake", "rlx_quantization_initial.room": "16",
    "rlx_compile_text.text": "kShifted", "rlx_compile_text.size": "strlen(kShifted)", "rlx_compile_text.names": "kShiftName",
    "rlx_compile_text.types": "kShiftType", "rlx_compile_text.values": "&shift_memory",
    "rlx_graph_parse_with.text": "kShifted", "rlx_graph_parse_with.size": "strlen(kShifted)",
    "rlx_graph_parse_with.names": "kShiftName", "rlx_graph_parse_with.types": "kShiftType",
    "rlx_graph_parse_with.values": "&shift_memory",
    "definition": "&kOp", "pool": "NULL", "rlx_op_unregister.name": '"c_twice"', "numbers": "NULL", "threads": "1", "rlx_predict_devices.json": "&made_text",
    "model_bytes": "&made_bytes", "weight_bytes": "&made_bytes", "bytes": "&made_bytes", "limit": "&made_bytes", "rlx_coreml_check_model_size.graph": "o.model", "rlx_coreml_chip.json": "&made_text",
    "rlx_compiled_placement.json": "&made_text", "rlx_coreml_placement.json": "&made_text", "rlx_coreml_placement.device": '"coreml:ane"', "rlx_log_set_sink.sink": "ignore_message", "most": "1",
    "mil": "o.mil", "->rlx_mil": "&made_mil", "shapes": "NULL", "image": "NULL", "int32_t* value": "&made_id", "int32_t value": "2", "first": "&made_id",
    "parameter": '"x"', "const int32_t* values": "kMilIds", "number": "0.5", "integer": "1", "integers": "kXDims", "flag": "1", "pred": "1",
    "condition": "1", "rlx_mil_set_text.text": '"same"', "rlx_mil_set_types.types": '"f32[2]"', "ios": "18", "rlx_mil_signature.text": "&made_text",
    "rlx_mil_state.type": '"f16[2]"', "rlx_mil_write.path": "written_package", "rlx_mil_type.size": "&made_size",
    "format": '"json"', "rlx_graph_manifest.text": "&made_text",
    "rlx_profile_phases.path": "profile_path", "rlx_profile_phases.json": "&made_text", "phase": '"decode"',
    "rlx_profile_options.path": "profile_path", "rlx_profile_options.json": "&made_text",
    "rlx_language_model_to_gguf.folder": "language_model_path", "rlx_language_model_to_gguf.path": "written_gguf",
    "rlx_language_model_to_gguf.notes": "&made_text", "rlx_language_model_to_folder.path": "gguf_path",
    "rlx_language_model_to_folder.folder": "written_adapter", "rlx_language_model_to_folder.notes": "&made_text",
}
# Pointers that may be NULL: by name, or by function and name.
OPTIONAL = set("""error sink pool bytes:rlx_error_is_too_large limit:rlx_error_is_too_large attrs count
    types types_size name:rlx_graph_output buffer options config policy release context
    data:rlx_tensor_create notes table:rlx_export_int8 report:rlx_coreml_write result:rlx_training_step outputs:rlx_training_step
    done:rlx_event_wait done:rlx_run_wait run:rlx_compiled_submit run:rlx_compiled_run_async
    run:rlx_compiled_run_async_with_state extents:rlx_compiled_new_state size:rlx_state_type
    size:rlx_graph_type size:rlx_graph_signature_type size:rlx_compiled_type ranges:rlx_quantization_initial truncation padding compile
    metadata settings dtype:rlx_gguf_tensor made:rlx_sampler_chances size:rlx_generator_next size:rlx_tokenizer_decode size:rlx_tokenizer_id_to_token
    numbers phase model_bytes weight_bytes size:rlx_decode_stream_put size:rlx_decode_stream_finish size:rlx_chat_template_apply size:rlx_encodings_token
    shapes image name:rlx_mil_constant name:rlx_mil_op name:rlx_mil_begin_cond name:rlx_mil_begin_while name:rlx_mil_output first:rlx_mil_op
    report:rlx_mil_write size:rlx_mil_type
    """.split())
# A state that the package has must come along; the rest may fail with other words, as the valid call does.
ELSE_REFUSED = {"rlx_coreml_predict.state"}
# The processor is one place; a graph with fake quantization has params that are not given here; what lies at the path is a graph and no library; RLX may
# have been built without chat templates; the model has a vocab.txt alone, which no GGUF file is made of, and the GGUF file is none of a model.
FAILS_WHEN_VALID = {"rlx_compiled_placement", "rlx_export_int8", "rlx_load_plugin", "rlx_chat_template_parse", "rlx_chat_template_load", "rlx_chat_template_describe",
                    "rlx_chat_template_apply", "rlx_language_model_chat_template", "rlx_language_model_to_gguf", "rlx_language_model_to_folder"}
# These belong to a rule that the library has called, and are tested within one (c_ops_test.c).
WITHIN_RULES = {"rlx_error_create", "rlx_op_add_result", "rlx_kernel_parallel_for"}
MIL_COND, MIL_WHILE = "OK(rlx_mil_begin_cond(o.mil, 1, NULL, &error));", "OK(rlx_mil_begin_while(o.mil, kMilIds, 1, NULL, &made_id, &error));"
PREPARE = {"rlx_mil_op": 'OK(rlx_mil_set_values(o.mil, "x", kMilIds, 1, &error));', "rlx_mil_begin_else": MIL_COND, "rlx_mil_abandon": MIL_COND,
           "rlx_mil_end_cond": MIL_COND + " OK(rlx_mil_begin_else(o.mil, kMilIds, 1, &error));", "rlx_mil_begin_body": MIL_WHILE,
           "rlx_mil_end_while": MIL_WHILE + " OK(rlx_mil_begin_body(o.mil, 1, &made_id, &error));",
           "rlx_training_step_accumulated": "OK(rlx_training_step(o.training, kXName, inputs, 1, 1, NULL, NULL, 0, &error));"}

NUMBERS = {"size_t": ["0", "SIZE_MAX", "SIZE_MAX / 2 + 1", "SIZE_MAX - 7"], "int": ["-1", "2", "3", "INT_MAX", "INT_MIN"],
           "int64_t": ["-1", "INT64_MAX", "INT64_MIN"], "int32_t": ["-1", "INT32_MAX", "INT32_MIN"], "uint64_t": ["UINT64_MAX"], "double": ["NAN", "INFINITY", "-1", "1e308"]}
# An array of one cannot be told from a longer one: only counts that no memory holds are odd.
TEXTS = ['""', '"\\xff\\xfe"', '"%s%n"', "deep_text", '"{"', '"[]"', '"\\""']
ARRAYS = {"const int64_t*": ["negative_dims", "huge_dims"], "const rlx_value*": ["odd_values", "odd_values + 1", "odd_values + 2", "odd_values + 3"],
          "rlx_value": ["odd_values[0]", "odd_values[1]", "odd_values[2]", "odd_values[3]"],
          "const char* const*": ["no_texts", "odd_texts"], "const rlx_tensor* const*": ["no_tensors", "wrong_tensors"],
          "const rlx_device_tensor* const*": ["no_device_tensors", "wrong_device_tensors"],
          "const rlx_buffer*": ["&no_memory", "&small_memory", "&huge_memory", "&empty_memory"], "const uint8_t*": ["odd_bytes"]}


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def parameters(text):
    text = re.sub(r"void \(\*release\)\(void\* context\)", "release_function release", text)
    text = re.sub(r"void \(\*done\)\(void\* context, rlx_status status, const char\* message\)", "done_function done", text)
    for each in re.split(r",\s*", " ".join(text.split())):
        if each == "void":
            continue
        yield re.fullmatch(r"(.*?[ *])(\w+)", each).groups()


def read(header):
    """The functions as (result, name, [(type, name), ...]), and the option structs as {name: [(type, member), ...]}."""
    text = without_comments(header)
    structs = {}
    for body, name in re.findall(r"typedef struct \w+ \{([^{}]*)\} (\w+_options|rlx_step_result|rlx_memory|rlx_transfers);", text, re.S):
        members = []
        for line in (" ".join(each.split()) for each in body.split(";")):
            kind, stars, names = (re.match(r"((?:const )?\w+) ?((?:\* const\*)|\*?)(.*)", line).groups() if line.strip() else ("", "", ""))
            members += [(kind + stars, each.strip(" *")) for each in names.split(",") if each.strip()]
        structs[name] = members
    text = re.sub(r"typedef (struct|enum) \w+ \{[^{}]*\} \w+;", "", text, flags=re.S)
    functions = []
    for result, name, arguments in re.findall(r"^([\w ]+?[ *]+)(rlx_\w+)\((.*?)\);", text, re.S | re.M):
        if name in WITHIN_RULES:
            continue
        functions.append((result.strip(), name, [(kind.strip(), each) for kind, each in parameters(arguments)]))
    return functions, structs


def is_result(kind):
    return re.fullmatch(r"rlx_\w+\*\*|rlx_value\*", kind) is not None


def valid(function, kind, name):
    found = VALID.get(f"{function}.{name}", VALID.get(f"{kind} {name}"))
    if found is None and name not in ("results", "outputs", "made", "error") and is_result(kind):
        found = VALID.get("->" + kind.rstrip("*"))
    found = found or VALID.get(name)
    if found is None:
        sys.exit(f"{__file__}: {function} has a parameter '{kind} {name}'; add a valid argument for it to VALID")
    return found


def is_optional(function, name):
    return name in OPTIONAL or f"{name}:{function}" in OPTIONAL


def odd(kind, structs):
    """Arguments that a parameter of that type may be given by mistake, as (expression, what is said of it)."""
    for each in NUMBERS.get(kind, []):
        yield each
    if kind == "const char*":
        yield from TEXTS
    yield from ARRAYS.get(kind, [])
    struct = re.fullmatch(r"(?:const )?(rlx_\w+)\*", kind)
    if struct and struct[1] in structs:
        name = struct[1]
        for size in ("0", "1", "sizeof(size_t)", "4097", "SIZE_MAX"):
            yield f"&({name}){{.struct_size = {size}}}"
        if name.endswith("_options"):
            for member_kind, member in structs[name][1:]:
                for value in NUMBERS.get(member_kind, []) + (TEXTS if member_kind == "const char*" else []):
                    yield f"&({name}){{.struct_size = sizeof({name}), .{member} = {value}}}"


def calls(function, result, params, structs):
    """(arguments, what is asked, what is said) of each call."""
    plain = [valid(function, kind, name) for kind, name in params]
    said = function + "({})"
    as_status = result == "rlx_status" and function != "rlx_error_status"
    yield plain, "ANY" if function in FAILS_WHEN_VALID or not as_status else "WORKS", said.format("valid arguments")
    for i, (kind, name) in enumerate(params):
        def replaced(value):
            return plain[:i] + [value] + plain[i + 1:]
        if "*" in kind or kind in ("release_function", "done_function"):
            asked = "ANY"
            if as_status and not is_optional(function, name):
                asked = "REFUSED" if f"{function}.{name}" in ELSE_REFUSED else "REFUSES_NULL"
            if function in FAILS_WHEN_VALID and not is_optional(function, name):
                asked = "REFUSED"
            yield replaced("NULL"), asked, said.format(f"{name} = NULL")
        # How long a text is is said beside it: a longer size than its own would have the function read what is not there.
        has_size = kind == "const char*" and params[i + 1:i + 2] == [("size_t", "size")]
        for value in odd(kind, structs):
            arguments = replaced(value)
            if has_size:
                arguments[i + 1] = f"strlen({value})"
            yield arguments, "ANY", said.format(f"{name} = {value}".replace('"', "'").replace("\\", "\\\\").replace("%", "%%"))


def drawn_call(function, result, params, structs):
    """The lines of a function that makes a call with drawn arguments: the valid one more often than each odd one."""
    choices = []
    for kind, name in params:
        all_of_it = [valid(function, kind, name)] * 3
        if "*" in kind or kind in ("release_function", "done_function"):
            all_of_it.append("NULL")
        choices.append(all_of_it + list(odd(kind, structs)))
    arguments = []
    for i, each in enumerate(choices):
        # How long a text is goes with it.
        if i > 0 and params[i] == ("size_t", "size") and params[i - 1][0] == "const char*":
            lengths = [f"strlen({text})" if text != "NULL" else "0" for text in choices[i - 1]]
            each, at = lengths, i - 1
        else:
            at = i
        text = each[-1]
        for k in range(len(each) - 2, -1, -1):
            text = f"drawn[{at}] == {k} ? {each[k]} : {text}"
        arguments.append("NULL" if set(each) == {"NULL"} else f"({text})")
    call = f"{function}({', '.join(arguments)})"
    lines = [f"static void drawn_{function}(void) {{", "  BEGIN"]
    if function in PREPARE:
        lines.append("  " + PREPARE[function])
    lines += ["  for (int round = 0; round < 8; ++round) {", f"    int drawn[{max(len(choices), 1)}] = {{0}};"]
    lines += [f"    drawn[{i}] = draw({len(each)});" for i, each in enumerate(choices)]
    lines.append(f'    say_drawn("{function}", drawn, {len(choices)});')
    if result == "rlx_status" and function != "rlx_error_status":
        error = next((i for i, (_, name) in enumerate(params) if name == "error"), None)
        lines.append(f"    after({call}, ANY, {'0' if error is None else f'drawn[{error}] < 3'});")
    else:
        lines.append(f"    (void){call};")
    return lines + ["    FREE_RESULTS", "  }", "  END", "}", ""]


def main():
    header, out = sys.argv[1:]
    functions, structs = read(open(header).read())
    lines = ['/* Written by tests/api/c_odd_arguments.py. */', '#define _POSIX_C_SOURCE 200809L', '#include "api/c_odd_arguments.h"', ""]
    count = 0
    for result, name, params in functions:
        lines += [f"static void odd_{name}(void) {{", "  BEGIN"]
        if name in PREPARE:
            lines.append("  " + PREPARE[name])
        if name.endswith("_free"):  # NULL is all that it can be given here
            lines += [f'  BEFORE("{name}(NULL)")', f"  {name}(NULL);"]
            count += 1
        else:
            for arguments, asked, said in calls(name, result, params, structs):
                count += 1
                call = f"{name}({', '.join(arguments)})"
                lines.append(f'  BEFORE("{said}")')
                if result == "rlx_status" and name != "rlx_error_status":
                    has_error = any(a == "&error" for a in arguments)
                    lines.append(f"  after({call}, {asked}, {int(has_error)});")
                else:
                    lines.append(f"  (void){call};")
                lines.append("  FREE_RESULTS")
        lines += ["  END", "}", ""]
    called = [(result, name, params) for result, name, params in functions if not name.endswith("_free")]
    for result, name, params in called:
        lines += drawn_call(name, result, params, structs)
    lines += ["static void (*const kDrawn[])(void) = {"] + [f"    drawn_{name}," for _, name, _ in called] + ["};", ""]
    lines += ["int main(int argc, char** argv) {", "  prepare();",
              "  if (argc == 3) return draw_for(atof(argv[1]), strtoull(argv[2], NULL, 10), kDrawn, sizeof kDrawn / sizeof *kDrawn);"]
    lines += [f"  odd_{name}();" for _, name, _ in functions]
    lines += [f"  return finish({len(functions)}, {count});", "}", ""]
    with open(out, "w") as file:
        file.write("\n".join(lines))


main()
