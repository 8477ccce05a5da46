// The C ABI over the C++ library; see rlx/c.h. Every function that can fail runs inside `guarded`, where exceptions
// end. Derivatives, batches and the calls that bindings make most stand in c_transforms.cpp.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "ir/binding_text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "rlx/device_speed.h"
#include "rlx/graph_file.h"
#include "rlx/machine.h"
#include "rlx/op_def.h"
#include "rlx/version.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::field;
using rlx::text_of;

const std::vector<rlx::Signature::Entry>* entries_of(const rlx_compiled* compiled, int kind) {
  if (!compiled) return nullptr;
  const rlx::Signature& s = compiled->compiled.signature();
  return kind == 0 ? &s.inputs : kind == 1 ? &s.params : kind == 2 ? &s.outputs : nullptr;
}

/// What rlx_compile_options has as text.
struct CompileText {
  rlx::Rounding rounding = rlx::Rounding::strict;
  rlx::Compute compute = rlx::Compute::as_f32;
  std::vector<std::string> force_common, force_native, skip_passes;
  std::string cache_dir, isa;
  std::vector<std::string> fallback, placement, bounds;
  bool narrow = false;
  RLX_FIELDS(CompileText, field("rounding", &CompileText::rounding), field("compute", &CompileText::compute),
             field("force_common", &CompileText::force_common), field("force_native", &CompileText::force_native),
             field("skip_passes", &CompileText::skip_passes), field("cache_dir", &CompileText::cache_dir),
             field("fallback", &CompileText::fallback), field("placement", &CompileText::placement),
             field("bounds", &CompileText::bounds), field("narrow", &CompileText::narrow),
             field("isa", &CompileText::isa));
};

}  // namespace

rlx::CompileOptions rlx::c::compile_options_from(const rlx_compile_options* options) {
  const auto given = options_of(options);
  if (given.mode < 0 || given.mode > 2) fail(ErrorCode::invalid_argument, "mode is ", given.mode, "; it is 0, 1 or 2");
  if (given.accuracy < 0 || given.accuracy > 2)
    fail(ErrorCode::invalid_argument, "accuracy is ", given.accuracy, "; it is 0, 1 or 2");
  auto all = rlx::CompileOptions::from_environment();
  all.accuracy = static_cast<rlx::Accuracy>(given.accuracy), all.batch_invariant = given.batch_invariant != 0;
  all.strict = given.strict != 0, all.mode = static_cast<rlx::CompileMode>(given.mode);
  if (given.common) all.kernel_dispatch = rlx::KernelDispatch::common;
  for (const char* name : array_from(given.donate, given.donate_count, "donate"))
    all.donate.insert(required_text(name, "a name of donate"));
  if (!given.more) return all;
  CompileText before;
  before.cache_dir = all.cache_dir, before.fallback = all.fallback;
  const auto more = read_over(before, given.more, "options of a compile");
  all.rounding = more.rounding, all.compute = more.compute, all.cache_dir = more.cache_dir,
  all.fallback = more.fallback, all.narrow = more.narrow, all.isa = more.isa;
  for (const std::string& each : more.bounds) add_binding(all.bounds, each, "bounds");
  for (const std::string& each : more.placement) all.placement.push_back(rlx::Placement::parse(each));
  all.force_common.insert(more.force_common.begin(), more.force_common.end());
  all.force_native.insert(more.force_native.begin(), more.force_native.end());
  all.skip_passes.insert(more.skip_passes.begin(), more.skip_passes.end());  // beside those of RLX_SKIP
  return all;
}
std::string rlx::c::placement_json(const rlx::PlacementReport& report) {
  std::string ops;
  for (const rlx::PlacedOp& p : report.ops)
    ops += (ops.empty() ? "" : ",\n ") + ("{\"op\": " + rlx::json_quoted(p.op)) +
           ", \"name\": " + rlx::json_quoted(p.name) + ", \"device\": " + rlx::json_quoted(p.device) +
           ", \"reason\": " + rlx::json_quoted(p.reason) + "}";
  return text_of("{\"predicted\": ", report.predicted ? "true" : "false", ", \"ops\": [", ops, "]}");
}

extern "C" {

const char* rlx_version_string(void) { return rlx::version(); }

const char* rlx_error_message(const rlx_error* error) { return error ? error->message.c_str() : ""; }
rlx_status rlx_error_status(const rlx_error* error) { return error ? error->status : RLX_OK; }
const char* rlx_error_report(const rlx_error* error) { return error ? error->report.c_str() : ""; }
int rlx_error_is_too_large(const rlx_error* error, uint64_t* bytes, uint64_t* limit) {
  if (!error || error->bytes == 0) return 0;
  if (bytes) *bytes = error->bytes;
  if (limit) *limit = error->limit;
  return 1;
}
void rlx_error_free(rlx_error* error) { delete error; }

// ---- tensors ----
rlx_status rlx_tensor_create(const char* dtype, const int64_t* dims, size_t rank, const void* data, size_t size,
                             rlx_tensor** tensor, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    rlx::Tensor made(rlx::dtype_named(required_text(dtype, "dtype")), shape_from(dims, rank));
    if (data) {
      if (size != made.byte_count())
        fail(ErrorCode::shape_mismatch, made.type(), " has ", made.byte_count(), " bytes, got ", size);
      check_bools(made.type(), bytes_from(data, size));
      if (size) std::memcpy(made.mutable_data(), data, size);
    }
    result = new rlx_tensor{std::move(made)};
  });
}
rlx_status rlx_tensor_borrow(const char* dtype, const int64_t* dims, size_t rank, const void* data, size_t size,
                             void (*release)(void* context), void* context, rlx_tensor** tensor, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    rlx::DType type = rlx::dtype_named(required_text(dtype, "dtype"));
    auto shape = shape_from(dims, rank);
    auto bytes = bytes_from(data, size);
    rlx::Tensor checked = rlx::Tensor::borrow(type, shape, bytes);  // fails before the bytes are ours to release
    check_bools(checked.type(), bytes);
    std::shared_ptr<const void> owner;
    if (release) owner = std::shared_ptr<const void>(data, [release, context](const void*) { release(context); });
    result = new rlx_tensor{rlx::Tensor::borrow(type, std::move(shape), bytes, std::move(owner))};
  });
}
const char* rlx_tensor_dtype(const rlx_tensor* tensor) { return tensor ? name_of(tensor->tensor.dtype()).data() : ""; }
size_t rlx_tensor_rank(const rlx_tensor* tensor) { return tensor ? tensor->tensor.rank() : 0; }
const int64_t* rlx_tensor_dims(const rlx_tensor* tensor) { return tensor ? tensor->tensor.shape().data() : nullptr; }
size_t rlx_tensor_size(const rlx_tensor* tensor) { return tensor ? tensor->tensor.byte_count() : 0; }
const void* rlx_tensor_data(const rlx_tensor* tensor) { return tensor ? tensor->tensor.data() : nullptr; }
void rlx_tensor_free(rlx_tensor* tensor) { delete tensor; }

// ---- graphs ----
rlx_status rlx_graph_parse(const char* text, size_t size, rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(graph, "graph");
    required(text, "text");
    check_count(size, 1, "the bytes of the text");
    std::string_view source(text, size);
    rlx::Scanner first(source);
    rlx::Graph g = first.accept_word("rlx") ? rlx::parse_graph_text(source) : rlx::parse_graph(source);
    rlx::verify(g);
    result = new rlx_graph{std::move(g), {}};
  });
}
rlx_status rlx_graph_load(const char* path, rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(graph, "graph");
    result = new rlx_graph{rlx::load_graph(required_text(path, "path")), {}};
  });
}
rlx_status rlx_graph_save(const rlx_graph* graph, const char* path, rlx_error** error) {
  return guarded(error, [&] { rlx::save_graph(required_text(path, "path"), required(graph, "graph").graph); });
}
rlx_status rlx_graph_create(const char* name, rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(graph, "graph");
    result = new rlx_graph{rlx::Graph(required_text(name, "name")), {}};
  });
}
rlx_status rlx_graph_input(rlx_graph* graph, const char* name, const char* type, rlx_value* value, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(value, "value");
    result = handle_of(required(graph, "graph").graph.input(required_text(name, "name"), type_from(type)));
  });
}
rlx_status rlx_graph_param(rlx_graph* graph, const char* name, const char* type, rlx_value* value, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(value, "value");
    result = handle_of(required(graph, "graph").graph.param(required_text(name, "name"), type_from(type)));
  });
}
rlx_status rlx_graph_constant(rlx_graph* graph, const rlx_tensor* tensor, rlx_value* value, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(value, "value");
    result = handle_of(required(graph, "graph").graph.constant(required(tensor, "tensor").tensor));
  });
}
rlx_status rlx_graph_emit(rlx_graph* graph, const char* op, const rlx_value* operands, size_t operand_count,
                          const char* attrs, rlx_value* results, size_t room, size_t* count, rlx_error** error) {
  return guarded(error, [&] {
    rlx::Graph& g = required(graph, "graph").graph;
    const rlx::OpDef& def = rlx::find_op(required_text(op, "op"));
    std::vector<rlx::Value> values;
    std::vector<rlx::Type> types;
    for (rlx_value operand : array_from(operands, operand_count, "operands")) {
      values.push_back(value_in(g, operand));
      types.push_back(values.back().type());
    }
    rlx::Attrs parsed;
    if (attrs) {
      rlx::Scanner in(attrs);
      parsed = def.parse_attrs(in);
      if (!in.at_end()) in.unexpected("the end of the attributes");
    }
    size_t made = infer_types(def, types, parsed).size();
    if (count) *count = made;
    if (made > room)
      fail(ErrorCode::invalid_argument, "'", def.name, "' has ", made, " results, there is room for ", room);
    if (made) required(results, "results");
    auto emitted = g.emit(def, std::move(values), std::move(parsed));
    for (size_t r = 0; r < made; ++r) results[r] = handle_of(emitted[r]);
  });
}
rlx_status rlx_graph_output(rlx_graph* graph, rlx_value value, const char* name, rlx_error** error) {
  return guarded(error, [&] {
    rlx::Graph& g = required(graph, "graph").graph;
    g.output(value_in(g, value), name ? name : "");
  });
}
rlx_status rlx_graph_type(const rlx_graph* graph, rlx_value value, char* buffer, size_t room, size_t* size,
                          rlx_error** error) {
  return guarded(error, [&] {
    auto& g = const_cast<rlx::Graph&>(required(graph, "graph").graph);  // only read
    write_text(text_of(value_in(g, value).type()), buffer, room, size);
  });
}
const char* rlx_graph_text(rlx_graph* graph) {
  if (!graph) return "";
  if (guarded(nullptr, [&] { graph->text = rlx::graph_text(graph->graph); }) != RLX_OK) return "";
  return graph->text.c_str();
}
void rlx_graph_free(rlx_graph* graph) { delete graph; }

// ---- devices and sessions ----
int rlx_device_available(const char* device) {
  int available = 0;
  guarded(nullptr, [&] { available = rlx::is_available(rlx::Device::parse(required_text(device, "device"))); });
  return available;
}
const char* rlx_pick_best_device(void) {
  static const std::string name = [] {
    std::string best;
    guarded(nullptr, [&] { best = rlx::pick_best_device().name(); });
    return best;
  }();
  return name.c_str();
}
rlx_status rlx_session_create(const char* device, const rlx_session_options* options, rlx_session** session,
                              rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(session, "session");
    auto given = options_of(options);
    result = new rlx_session{rlx::Session(device_from(device), {given.threads, given.narrow != 0})};
  });
}
void rlx_session_free(rlx_session* session) { delete session; }

rlx_status rlx_compile(rlx_session* session, const rlx_graph* graph, const rlx_compile_options* options,
                       rlx_compiled** compiled, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(compiled, "compiled");
    result = new rlx_compiled{
        required(session, "session").session.compile(required(graph, "graph").graph, compile_options_from(options)),
        {}};
  });
}

rlx_status rlx_devices(char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const rlx::DeviceInfo& d : rlx::devices())
      all.push_back({{"name", d.device.name()},
                     {"available", d.available},
                     {"accelerates", d.accelerates},
                     {"description", rlx::printable_text(d.description)}});
    result = own_text(all.dump());
  });
}
rlx_status rlx_device_target(const char* device, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    result = own_text(rlx::target_json(device_from(device)));
  });
}
rlx_status rlx_graph_report(const rlx_graph* graph, const char* device, const rlx_compile_options* options, char** json,
                            rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    result = own_text(
        rlx::dispatch_report(required(graph, "graph").graph, device_from(device), compile_options_from(options))
            .json());
  });
}

rlx_status rlx_predict_devices(const rlx_graph* graph, const char* numbers, int threads,
                               const rlx_compile_options* options, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    if (threads < 0 || threads > 256) fail(ErrorCode::invalid_argument, "threads must be 0 to 256, got ", threads);
    std::string all;
    for (const rlx::DevicePrediction& p : rlx::predict_devices(required(graph, "graph").graph, bindings_from(numbers),
                                                               threads, compile_options_from(options)))
      all += (all.empty() ? "" : ",\n ") + ("{\"device\": " + rlx::json_quoted(p.device.name())) +
             ", \"us\": " + (p.us ? rlx::text_of(*p.us) : "null") + ", \"why\": " + rlx::json_quoted(p.why) + "}";
    result = own_text("[" + all + "]");
  });
}

// ---- compiled graphs ----
rlx_status rlx_compiled_placement(const rlx_compiled* compiled, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    result = own_text(placement_json(required(compiled, "compiled").compiled.placement()));
  });
}
rlx_status rlx_compiled_is_compiled(const rlx_compiled* compiled, int* is_compiled, rlx_error** error) {
  return guarded(error, [&] {
    required(is_compiled, "is_compiled") = required(compiled, "compiled").compiled.is_compiled() ? 1 : 0;
  });
}
rlx_status rlx_compiled_set_param(rlx_compiled* compiled, const char* name, const rlx_tensor* tensor,
                                  rlx_error** error) {
  return guarded(error, [&] {
    required(compiled, "compiled").compiled.set_param(required_text(name, "name"), required(tensor, "tensor").tensor);
  });
}
size_t rlx_compiled_count(const rlx_compiled* compiled, int kind) {
  const auto* entries = entries_of(compiled, kind);
  return entries ? entries->size() : 0;
}
const char* rlx_compiled_name(const rlx_compiled* compiled, int kind, size_t index) {
  const auto* entries = entries_of(compiled, kind);
  return entries && index < entries->size() ? (*entries)[index].name.c_str() : nullptr;
}
rlx_status rlx_compiled_type(const rlx_compiled* compiled, int kind, size_t index, char* buffer, size_t room,
                             size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    const auto* entries = entries_of(&required(compiled, "compiled"), kind);
    if (!entries || index >= entries->size())
      fail(ErrorCode::not_found, "there is no entry ", index, " of kind ", kind);
    write_text(text_of((*entries)[index].type), buffer, room, size);
  });
}
rlx_status rlx_compiled_run(const rlx_compiled* compiled, const rlx_tensor* const* inputs, size_t input_count,
                            rlx_tensor** outputs, size_t output_count, rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    if (output_count != graph.signature().outputs.size())
      fail(ErrorCode::invalid_argument, "the graph has ", graph.signature().outputs.size(), " outputs, got room for ",
           output_count);
    if (output_count) required(outputs, "outputs");
    std::vector<rlx::Tensor> given;
    for (const rlx_tensor* input : array_from(inputs, input_count, "inputs"))
      given.push_back(required(input, "an input").tensor);
    auto results = graph.run_ordered(given);
    std::vector<std::unique_ptr<rlx_tensor>> made;
    for (rlx::Tensor& t : results) made.push_back(std::make_unique<rlx_tensor>(rlx_tensor{std::move(t)}));
    for (size_t i = 0; i < made.size(); ++i) outputs[i] = made[i].release();
  });
}
rlx_status rlx_compiled_report(rlx_compiled* compiled, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& c = required(compiled, "compiled");
    c.report = c.compiled.report().json();
    result = c.report.c_str();
  });
}
void rlx_compiled_free(rlx_compiled* compiled) { delete compiled; }

}  // extern "C"
