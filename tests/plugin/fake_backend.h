// A backend in this process, registered through rlx/backend.h, which adds f32 and does what a test asks it for.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rlx/backend.h"
#include "rlx/ops.h"
#include "rlx/session.h"

namespace rlx::test {

struct FakeBackend {
  explicit FakeBackend(std::string name, bool memory = true, bool asynchronous = false)
      : name_(std::move(name)), has_memory(memory), is_asynchronous(asynchronous) {}
  FakeBackend(const FakeBackend&) = delete;
  FakeBackend& operator=(const FakeBackend&) = delete;

  rlx_backend table() {
    rlx_backend t{};
    t.struct_size = sizeof t;
    t.name = name_.c_str();
    t.context = this;
    t.open = open, t.supports = supports, t.compile = compile, t.free_executable = free_executable, t.launch = launch;
    if (has_memory) t.allocate = allocate, t.free = free_buffer, t.write = write, t.read = read;
    return t;
  }
  /// Registers it; there it stays.
  Device registered() {
    const rlx_backend t = table();
    rlx_error* error = nullptr;
    if (api().register_backend(&t, &error) != RLX_OK) {
      const std::string why = rlx_error_message(error);
      rlx_error_free(error);
      fail(ErrorCode::invalid_argument, why);
    }
    return Device(name_);
  }
  static const rlx_backend_api& api() { return *rlx_backend_functions(); }

  /// What a function does instead, if it is set: a status that is not RLX_OK ends it there.
  std::function<rlx_status(const std::string& function, rlx_error** error)> instead;
  /// How a piece of work ends, of an asynchronous backend; else it is ended once, on another thread.
  std::function<void(rlx_completion)> end;
  std::function<void(rlx_target&)> describe;
  std::function<void(const rlx_launch&)> at_launch;
  std::function<void(const rlx_graph_view&)> at_compile;

  const std::string name_;
  const bool has_memory, is_asynchronous;
  std::atomic<int> buffers{0}, executables{0}, compiles{0}, launches{0};

  /// "x" f32[n], "y" f32[n] -> "x" = x + y.
  static Graph adding(Dim n) {
    Graph g("adding");
    Value x = g.input("x", f32, {n}), y = g.input("y", f32, {n});
    g.output(x + y, "x");
    return g;
  }

 private:
  static FakeBackend& of(void* device) { return *static_cast<FakeBackend*>(device); }
  rlx_status asked(const char* function, rlx_error** error) { return instead ? instead(function, error) : RLX_OK; }
  rlx_status ended(rlx_completion c) {
    if (!is_asynchronous) return RLX_OK;
    if (end) end(c);
    else
      std::thread([c] {
        std::this_thread::sleep_for(std::chrono::microseconds(c.id % 3 * 100));
        api().complete(c, RLX_OK, nullptr);
      }).detach();
    return RLX_OK;
  }

  static rlx_status open(void* context, int, const char*, rlx_target* target, void** device, rlx_error** error) {
    *device = context;
    target->is_asynchronous = of(context).is_asynchronous;
    target->largest_buffer = 1 << 20;
    if (of(context).describe) of(context).describe(*target);
    return of(context).asked("open", error);
  }
  static rlx_status supports(void* device, const rlx_graph_view* g, rlx_error** error) {
    if (const rlx_status status = of(device).asked("supports", error)) return status;
    const rlx_node& node = *g->nodes[g->node_count - 1];
    if (node.op == std::string("add") && node.results[0]->dtype == std::string("f32")) return RLX_OK;
    return api().fail(error, RLX_UNSUPPORTED, "it adds f32, and nothing else");
  }
  static rlx_status compile(void* device, const rlx_compile_request* request, void** executable, rlx_error** error) {
    ++of(device).compiles;
    if (of(device).at_compile) of(device).at_compile(*request->graph);
    if (const rlx_status status = of(device).asked("compile", error)) return status;
    ++of(device).executables;
    *executable = const_cast<rlx_graph_view*>(request->graph);
    return RLX_OK;
  }
  static void free_executable(void* device, void*) { --of(device).executables; }
  static float* start_of(const rlx_argument* a) {
    return reinterpret_cast<float*>(static_cast<char*>(a->buffer) + a->offset);
  }
  static rlx_status launch(void* device, void* executable, const rlx_launch* run, rlx_error** error) {
    ++of(device).launches;
    if (of(device).at_launch) of(device).at_launch(*run);
    if (const rlx_status status = of(device).asked("launch", error)) return status;
    const auto& g = *static_cast<const rlx_graph_view*>(executable);
    std::vector<const float*> at(g.node_count);
    std::vector<std::vector<float>> made(g.node_count);
    for (size_t i = 0; i < g.input_count; ++i) at[static_cast<size_t>(g.inputs[i].node)] = start_of(run->inputs[i]);
    for (size_t i = 0; i < g.param_count; ++i) at[static_cast<size_t>(g.params[i].node)] = start_of(run->params[i]);
    for (size_t n = 0; n < g.node_count; ++n) {
      const rlx_node& node = *g.nodes[n];
      if (node.data) at[n] = static_cast<const float*>(node.data);
      if (node.op != std::string("add")) continue;
      made[n].resize(static_cast<size_t>(node.results[0]->size) / 4);
      for (size_t i = 0; i < made[n].size(); ++i)
        made[n][i] =
            at[static_cast<size_t>(node.operands[0].node)][i] + at[static_cast<size_t>(node.operands[1].node)][i];
      at[n] = made[n].data();
    }
    for (size_t i = 0; i < g.output_count; ++i)
      if (run->outputs[i]->size)
        std::memcpy(start_of(run->outputs[i]), at[static_cast<size_t>(g.outputs[i].node)], run->outputs[i]->size);
    return of(device).ended(run->completion);
  }
  static rlx_status allocate(void* device, size_t size, void** buffer, rlx_error** error) {
    if (const rlx_status status = of(device).asked("allocate", error)) return status;
    ++of(device).buffers;
    *buffer = new char[size];
    return RLX_OK;
  }
  static void free_buffer(void* device, void* buffer) {
    --of(device).buffers;
    delete[] static_cast<char*>(buffer);
  }
  static rlx_status write(void* device, void* to, size_t offset, const void* from, size_t size, rlx_completion c,
                          rlx_error** error) {
    if (const rlx_status status = of(device).asked("write", error)) return status;
    std::memcpy(static_cast<char*>(to) + offset, from, size);
    return of(device).ended(c);
  }
  static rlx_status read(void* device, void* to, const void* from, size_t offset, size_t size, rlx_completion c,
                         rlx_error** error) {
    if (const rlx_status status = of(device).asked("read", error)) return status;
    std::memcpy(to, static_cast<const char*>(from) + offset, size);
    return of(device).ended(c);
  }
};

}  // namespace rlx::test
