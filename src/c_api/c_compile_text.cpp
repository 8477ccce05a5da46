// The C ABI's compile of a graph that a binding has recorded as text, with its constants beside it: one call instead of
// one for each node, for a binding that pays for calls (Go). rlx_graph_parse and rlx_compile are its parts.
#include "c_api/handles.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;

/// The constants that the text names. Each is copied: the caller's memory is its own again after the call.
rlx::NamedTensors constants_from(const char* const* names, const char* const* types, const rlx_buffer* values,
                                 size_t count) {
  array_from(names, count, "names"), array_from(types, count, "types"), array_from(values, count, "values");
  rlx::NamedTensors constants;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = required_text(names[i], "a name");
    rlx::with_context([&] { return rlx::text_of("taking the constant '", name, "'"); },
                      [&] {
                        const rlx::Type type = type_from(required_text(types[i], "a type").c_str());
                        const auto bytes = bytes_from(values[i].data, values[i].size);
                        // Borrowed first: a type that is larger than its bytes fails before memory is asked for.
                        const rlx::Tensor given = rlx::Tensor::borrow(type.dtype, shape_of(type.dims), bytes);
                        check_bools(given.type(), bytes);
                        rlx::Tensor copy(type.dtype, given.shape());
                        if (!bytes.empty()) std::memcpy(copy.mutable_data(), bytes.data(), bytes.size());
                        if (!constants.emplace(name, std::move(copy)).second)
                          fail(ErrorCode::invalid_argument, "it is given twice");
                      });
  }
  return constants;
}

rlx::Graph graph_from(const char* text, size_t size, const char* const* names, const char* const* types,
                      const rlx_buffer* values, size_t count) {
  required(text, "text");
  check_count(size, 1, "the bytes of the text");
  const auto constants = constants_from(names, types, values, count);
  const std::function<rlx::Tensor(std::string_view)> find = [&](std::string_view name) {
    const auto found = constants.find(std::string(name));
    if (found == constants.end())
      fail(ErrorCode::not_found, "the text names the constant '", name, "', which is not among the ", count,
           " that were given");
    return found->second;
  };
  rlx::Scanner in(std::string_view(text, size));
  in.tensors = &find;
  if (in.accept_word("rlx"))
    if (const auto version = in.number<int64_t>(); version != 1)
      fail(ErrorCode::unsupported, "this is version ", version, " of the text; this build reads version 1");
  rlx::Graph graph = rlx::parse_graph(in);
  if (!in.at_end()) in.unexpected("the end of the text");
  rlx::verify(graph);
  return graph;
}

}  // namespace

extern "C" rlx_status rlx_compile_text(rlx_session* session, const char* text, size_t size, const char* const* names,
                                       const char* const* types, const rlx_buffer* values, size_t count,
                                       const rlx_compile_options* options, rlx_compiled** compiled, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(compiled, "compiled");
    rlx::Session& on = required(session, "session").session;
    const rlx::Graph graph = graph_from(text, size, names, types, values, count);
    result = new rlx_compiled{on.compile(graph, compile_options_from(options)), {}};
  });
}

extern "C" rlx_status rlx_graph_parse_with(const char* text, size_t size, const char* const* names,
                                           const char* const* types, const rlx_buffer* values, size_t count,
                                           rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(graph, "graph");
    result = new rlx_graph{graph_from(text, size, names, types, values, count), {}};
  });
}
