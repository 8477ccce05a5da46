// A plugin that does wrong, for tests/plugin/template_test.py, which compiles it once for each of the ways.
#include <stdexcept>

#include "rlx/backend.h"

namespace {

const rlx_backend_api* rlx = nullptr;

rlx_backend table_of(const char* name) {
  rlx_backend t{};
  t.struct_size = sizeof t;
  t.name = name;
  t.open = [](void*, int, const char*, rlx_target*, void**, rlx_error**) { return RLX_OK; };
  t.supports = [](void*, const rlx_graph_view*, rlx_error**) { return RLX_OK; };  // and runs none of it
  t.compile = [](void*, const rlx_compile_request* request, void**, rlx_error** error) {
    return rlx->fail(error, RLX_UNSUPPORTED, request->graph->name);
  };
  t.launch = [](void*, void*, const rlx_launch*, rlx_error**) { return RLX_OK; };
  return t;
}

}  // namespace

extern "C" rlx_status rlx_register_backends(const rlx_backend_api* api, rlx_error** error) {
  rlx = api;
#if defined(THROWS)
  throw std::runtime_error("it came apart");
#elif defined(WRONG_SIZE)
  rlx_backend t = table_of("bad");
  t.struct_size = 8;
  return api->register_backend(&t, error);
#elif defined(CLASHES)
  const rlx_backend t = table_of("cpu");
  return api->register_backend(&t, error);
#elif defined(SAYS_NOTHING)
  return RLX_IO_ERROR;
#else
  const rlx_backend t = table_of("liar");
  return api->register_backend(&t, error);
#endif
}
