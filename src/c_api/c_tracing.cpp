// The C ABI's calls that a binding makes once per traced op and once per run; see rlx/c.h.
#include <optional>
#include <sstream>

#include "c_api/closed_graph.h"
#include "ir/rewrite.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::text_of;

}  // namespace

extern "C" {

rlx_status rlx_graph_trace(rlx_graph* graph, const char* op, const rlx_value* operands, size_t operand_count,
                           const char* attrs, rlx_value* results, size_t room, size_t* count, char* types,
                           size_t types_room, size_t* types_size, rlx_error** error) {
  size_t made = 0;
  rlx_status status = rlx_graph_emit(graph, op, operands, operand_count, attrs, results, room, &made, error);
  if (count) *count = made;
  if (status != RLX_OK) return status;
  return guarded(error, [&] {
    std::ostringstream text;
    for (size_t r = 0; r < made; ++r) text << (r ? ";" : "") << graph->graph.type({results[r].node, results[r].result});
    write_text(text.str(), types, types_room, types_size);
  });
}
rlx_status rlx_graph_inline(rlx_graph* graph, const rlx_graph* from, const rlx_value* inputs, size_t input_count,
                            rlx_value* results, size_t room, size_t* count, rlx_error** error) {
  return guarded(error, [&] {
    rlx::Graph& to = required(graph, "graph").graph;
    // Nodes are added to `to` while those of `from` are read: of a graph that goes into itself, those that it has now.
    std::optional<rlx::Graph> as_it_is;
    if (from == graph) as_it_is = closed(from);
    const rlx::Graph& body = as_it_is ? *as_it_is : closed(from);
    array_from(inputs, input_count, "inputs");
    if (input_count != body.inputs().size())
      fail(ErrorCode::invalid_argument, "graph '", body.name(), "' has ", body.inputs().size(), " inputs, got ",
           input_count);
    std::vector<rlx::Value> values;
    for (size_t i = 0; i < input_count; ++i) {
      values.push_back(value_in(to, inputs[i]));
      if (values[i].type() != body.type(body.inputs()[i]))
        fail(ErrorCode::shape_mismatch, "input ", i, " of '", body.name(), "' is ", body.type(body.inputs()[i]),
             ", got ", values[i].type());
    }
    if (count) *count = body.outputs().size();
    if (body.outputs().size() > room)
      fail(ErrorCode::invalid_argument, "'", body.name(), "' has ", body.outputs().size(),
           " outputs, there is room for ", room);
    if (!body.outputs().empty()) required(results, "results");
    auto out = splice(to, body, values);
    for (size_t r = 0; r < out.size(); ++r) results[r] = handle_of(out[r]);
  });
}

size_t rlx_graph_count(const rlx_graph* graph, int kind) {
  if (!graph) return 0;
  const rlx::Graph& g = graph->graph;
  return kind == 0 ? g.inputs().size() : kind == 1 ? g.params().size() : kind == 2 ? g.outputs().size() : 0;
}
rlx_status rlx_graph_signature_type(const rlx_graph* graph, int kind, size_t index, char* buffer, size_t room,
                                    size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Graph& g = required(graph, "graph").graph;
    if (index >= rlx_graph_count(graph, kind))
      fail(ErrorCode::not_found, "there is no entry ", index, " of kind ", kind);
    rlx::Ref r = kind == 0 ? g.inputs()[index] : kind == 1 ? g.params()[index] : g.outputs()[index].ref;
    write_text(text_of(g.type(r)), buffer, room, size);
  });
}
rlx_status rlx_compiled_call(const rlx_compiled* compiled, const rlx_buffer* inputs, size_t input_count,
                             const rlx_buffer* outputs, size_t output_count, rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    const rlx::Signature& s = graph.signature();
    if (input_count != s.inputs.size() || output_count != s.outputs.size())
      fail(ErrorCode::invalid_argument, "the graph has ", s.inputs.size(), " inputs and ", s.outputs.size(),
           " outputs, got ", input_count, " and ", output_count);
    if (input_count) required(inputs, "inputs");
    if (output_count) required(outputs, "outputs");
    std::vector<rlx::Tensor> given;
    given.reserve(input_count);
    for (size_t i = 0; i < input_count; ++i) {
      const rlx::Type& type = s.inputs[i].type;
      auto bytes = rlx::with_context([&] { return text_of("taking input ", i); },
                                     [&] { return bytes_from(inputs[i].data, inputs[i].size); });
      given.push_back(rlx::Tensor::borrow(type.dtype, shape_of(type.dims), bytes));
      check_bools(given.back().type(), bytes);
    }
    std::vector<std::span<std::byte>> memory;
    memory.reserve(output_count);
    for (size_t i = 0; i < output_count; ++i)
      memory.push_back(rlx::with_context(
          [&] { return text_of("taking the memory of output ", i); },
          [&] { return array_from(static_cast<std::byte*>(outputs[i].data), outputs[i].size, "data"); }));
    graph.run_into_memory(given, memory);
  });
}

}  // extern "C"
