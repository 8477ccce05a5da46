// The C ABI of compiled graphs in files.
#include "c_api/handles.h"
#include "rlx/artifact.h"

namespace {

using namespace rlx::c;

}  // namespace

extern "C" {

rlx_status rlx_compiled_save(const rlx_compiled* compiled, const char* path, const char* const* names,
                             const rlx_tensor* const* params, size_t param_count, rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    graph.save(required_text(path, "path"), params_from(names, params, param_count));
  });
}
rlx_status rlx_session_load(rlx_session* session, const char* path, rlx_compiled** compiled, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(compiled, "compiled");
    result = new rlx_compiled{required(session, "session").session.load(required_text(path, "path")), {}};
  });
}
rlx_status rlx_artifact_describe(const char* path, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    result = own_text(rlx::artifact_info(required_text(path, "path")).json());
  });
}
rlx_status rlx_artifact_graph(const char* path, rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(graph, "graph");
    result = new rlx_graph{rlx::artifact_graph(required_text(path, "path")), {}};
  });
}

}  // extern "C"
