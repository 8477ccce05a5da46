// The C ABI's derivatives and batches; see rlx/c.h.
#include "autodiff/transforms.h"
#include "c_api/closed_graph.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;

rlx::Mask mask_from(const uint8_t* bytes, size_t size, const char* what) {
  if (size && !bytes) fail(ErrorCode::invalid_argument, what, " is NULL");
  return rlx::Mask(bytes, bytes + size);
}
rlx::Dim dim_from(const char* text) {
  std::string source = required_text(text, "size");
  rlx::Scanner in(source);
  rlx::Dim dim;
  parse(in, dim);
  if (!in.at_end()) in.unexpected("the end of the dim");
  return dim;
}
rlx_graph* handle(rlx::Graph g) { return new rlx_graph{std::move(g), {}}; }

}  // namespace

extern "C" {

rlx_status rlx_graph_vjp(const rlx_graph* graph, const uint8_t* wrt, const uint8_t* given, int with_outputs,
                         rlx_graph** result, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Graph& g = closed(graph);
    auto of_inputs = mask_from(wrt, g.inputs().size(), "wrt"),
         of_outputs = mask_from(given, g.outputs().size(), "given");
    for (size_t i = 0; i < of_outputs.size(); ++i)
      if (of_outputs[i] && !rlx::has_derivative(g.output_types()[i].dtype))
        fail(ErrorCode::invalid_argument, "output ", i, " is ", g.output_types()[i], ": it has no cotangent");
    required(result, "result");
    *result = handle(with_outputs ? value_and_vjp(g, of_inputs, of_outputs) : vjp(g, of_inputs, of_outputs));
  });
}
rlx_status rlx_graph_jvp(const rlx_graph* graph, const uint8_t* active, rlx_graph** result, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Graph& g = closed(graph);
    auto mask = mask_from(active, g.inputs().size(), "active");
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i] && !rlx::has_derivative(g.input_types()[i].dtype))
        fail(ErrorCode::invalid_argument, "input ", i, " is ", g.input_types()[i], ": it has no tangent");
    required(result, "result");
    *result = handle(jvp(g, mask));
  });
}
rlx_status rlx_graph_batch(const rlx_graph* graph, const uint8_t* batched, const char* size, rlx_graph** result,
                           rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Graph& g = closed(graph);
    required(result, "result");
    *result = handle(batch(g, mask_from(batched, g.inputs().size(), "batched"), dim_from(size)));
  });
}

}  // extern "C"
