// What runs a graph on a device of a backend from outside: the graph with numbers for its symbols, and the call that
// launches it.
#pragma once

#include <mutex>

#include "backends/backend.h"
#include "base/lru_list.h"
#include "c_api/backend/graph_view.h"
#include "c_api/backend/plugin_device.h"

namespace rlx::c {

/// A graph without symbols that the backend has compiled.
class PluginCompiled {
 public:
  PluginCompiled(PluginDevice& device, Graph graph, const LoadOptions& options);
  ~PluginCompiled();
  PluginCompiled(const PluginCompiled&) = delete;
  PluginCompiled& operator=(const PluginCompiled&) = delete;
  const Graph& graph() const { return graph_; }
  void* handle() const { return handle_; }

 private:
  PluginDevice& device_;
  const Graph graph_;
  const GraphView view_;
  void* handle_ = nullptr;
};

/// The forms of one legal graph: compiled for the sizes that runs ask for, the last few of them kept.
class PluginForms {
 public:
  /// Compiles at once what has no symbols.
  PluginForms(PluginDevice& device, const Graph& legal, const LoadOptions& options);
  /// For inputs of these types; fails naming the one that does not fit.
  std::shared_ptr<const PluginCompiled> form_for(const std::vector<Type>& inputs);
  const Graph& legal() const { return legal_; }

 private:
  PluginDevice& device_;
  const Graph legal_;
  const LoadOptions options_;
  std::mutex mutex_;
  static constexpr size_t kMostForms = 16;
  LruList<std::pair<Bindings, std::shared_ptr<const PluginCompiled>>> forms_{kMostForms};
};

/// Executables of a device with memory of its own, and of one that computes in the host's.
std::unique_ptr<Executable> make_device_executable(PluginDevice& device, const Graph& legal,
                                                   const LoadOptions& options);
std::unique_ptr<Executable> make_host_executable(PluginDevice& device, const Graph& legal, const LoadOptions& options);

/// A block of `PluginMemory`: what the backend's `allocate` gave.
struct PluginBlock final : Block {
  PluginBlock(PluginDevice& of, void* allocated) : device(of), buffer(allocated) {}
  ~PluginBlock() override;
  PluginDevice& device;
  void* const buffer;  // null of 0 bytes
};

}  // namespace rlx::c
