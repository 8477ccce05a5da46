// The part of the C ABI that tells of states: what a compiled graph carries from run to run.
#include "c_api/handles.h"

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;

rlx::Bindings rlx::c::bindings_from(const char* text) {
  rlx::Bindings dims;
  std::string word;
  const std::string all = std::string(text ? text : "") + " ";
  for (char c : all) {
    if (c != ' ' && c != ',') {
      word += c;
      continue;
    }
    if (word.empty()) continue;
    size_t equals = word.find('=');
    std::string digits = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos ||
        equals == 0)
      fail(ErrorCode::invalid_argument, "dims are NAME=NUMBER, not '", word, "'");
    dims[word.substr(0, equals)] = std::stoll(digits);
    word.clear();
  }
  return dims;
}

namespace {

const rlx::CompiledGraph& graph_with_room(const rlx_compiled* compiled, const void* outputs, size_t count) {
  const rlx::CompiledGraph& graph = required(compiled, "compiled").compiled;
  const auto& is_update = graph.signature().is_update;
  const auto wanted = static_cast<size_t>(std::count(is_update.begin(), is_update.end(), false));
  if (count != wanted)
    fail(ErrorCode::invalid_argument, "the graph has ", wanted, " outputs that are not in its state, got room for ",
         count);
  if (count && !outputs) fail(ErrorCode::invalid_argument, "outputs is NULL");
  return graph;
}

/// The inputs that are not in a state, in the order of the graph.
std::vector<rlx::NamedTensor> free_inputs(const rlx::CompiledGraph& graph, const rlx_tensor* const* inputs,
                                          size_t count) {
  const rlx::Signature& signature = graph.signature();
  std::vector<std::string> names;
  for (size_t i = 0; i < signature.inputs.size(); ++i)
    if (signature.modes[i] != rlx::ArgumentMode::update) names.push_back(signature.inputs[i].name);
  const auto handles = array_from(inputs, count, "inputs");
  if (handles.size() != names.size())
    fail(ErrorCode::invalid_argument, "the graph has ", names.size(), " inputs that are not in its state, got ",
         handles.size());
  std::vector<rlx::NamedTensor> given;
  for (size_t i = 0; i < names.size(); ++i) given.emplace_back(names[i], required(handles[i], "an input").tensor);
  return given;
}

}  // namespace

extern "C" {

int rlx_compiled_output_is_update(const rlx_compiled* compiled, size_t index) {
  if (!compiled) return 0;
  const auto& is_update = compiled->compiled.signature().is_update;
  return index < is_update.size() && is_update[index];
}
rlx_status rlx_compiled_new_state(const rlx_compiled* compiled, const char* const* names,
                                  const rlx_tensor* const* values, size_t count, const char* extents, rlx_state** state,
                                  rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(state, "state");
    const auto& graph = required(compiled, "compiled").compiled;
    made = new rlx_state{graph.new_state(values_from(names, values, count), bindings_from(extents))};
  });
}
rlx_status rlx_compiled_load_state(const rlx_compiled* compiled, const char* path, rlx_state** state,
                                   rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(state, "state");
    made = new rlx_state{required(compiled, "compiled").compiled.load_state(required_text(path, "path"))};
  });
}
rlx_status rlx_compiled_run_with_state(const rlx_compiled* compiled, rlx_state* state, const rlx_tensor* const* inputs,
                                       size_t input_count, rlx_tensor** outputs, size_t output_count,
                                       rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = graph_with_room(compiled, outputs, output_count);
    rlx::GraphState& kept = required(state, "state").state;
    std::vector<rlx::Tensor> given;
    for (const rlx_tensor* input : array_from(inputs, input_count, "inputs"))
      given.push_back(required(input, "an input").tensor);
    std::vector<std::unique_ptr<rlx_tensor>> made;
    for (size_t i = 0; i < output_count; ++i) made.push_back(std::make_unique<rlx_tensor>());
    std::vector<rlx::Tensor> results = graph.run_ordered(given, kept);
    for (size_t i = 0; i < made.size(); ++i) {
      made[i]->tensor = std::move(results[i]);
      outputs[i] = made[i].release();
    }
  });
}
rlx_status rlx_compiled_run_async_with_state(const rlx_compiled* compiled, rlx_state* state,
                                             const rlx_tensor* const* inputs, size_t input_count,
                                             rlx_device_tensor** outputs, size_t output_count, rlx_run** run,
                                             rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = graph_with_room(compiled, outputs, output_count);
    rlx::GraphState& kept = required(state, "state").state;
    hand_out(graph.run_async(free_inputs(graph, inputs, input_count), kept), outputs, run);
  });
}

size_t rlx_state_count(const rlx_state* state) { return state ? state->state.entries().size() : 0; }
const char* rlx_state_name(const rlx_state* state, size_t index) {
  return index < rlx_state_count(state) ? state->state.entries()[index].name.c_str() : nullptr;
}
rlx_status rlx_state_type(const rlx_state* state, size_t index, char* buffer, size_t room, size_t* size,
                          rlx_error** error) {
  return guarded(error, [&] {
    const auto& entries = required(state, "state").state.entries();
    if (index >= entries.size())
      fail(ErrorCode::not_found, "the state has ", entries.size(), " tensors, and none at ", index);
    const rlx::Shape& shape = entries[index].shape;
    write_text(text_of(rlx::Type{entries[index].dtype, rlx::Dims(shape.begin(), shape.end())}), buffer, room, size);
  });
}
rlx_status rlx_state_tensor(const rlx_state* state, const char* name, rlx_tensor** tensor, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(tensor, "tensor");
    made = new rlx_tensor{required(state, "state").state.tensor(required_text(name, "name"))};
  });
}
rlx_status rlx_state_copy(const rlx_state* state, rlx_state** result, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(result, "result");
    made = new rlx_state{required(state, "state").state.copy()};
  });
}
rlx_status rlx_state_reset(rlx_state* state, const char* const* names, const rlx_tensor* const* values, size_t count,
                           rlx_error** error) {
  return guarded(error, [&] { required(state, "state").state.reset(values_from(names, values, count)); });
}
rlx_status rlx_state_save(const rlx_state* state, const char* path, rlx_error** error) {
  return guarded(error, [&] { required(state, "state").state.save(required_text(path, "path")); });
}
rlx_status rlx_state_why_torn(const rlx_state* state, char** text, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(text, "text");
    made = own_text(rlx::printable_text(required(state, "state").state.why_torn()));
  });
}
void rlx_state_free(rlx_state* state) { delete state; }

}  // extern "C"
