// What stands behind a GraphState: the tensors of the inputs that a graph's runs update. A run of the caller's own
// thread, on a device that computes in the host's memory, takes them from here and puts them back; every other run is
// handed them as tensors on devices (submit.cpp).
#pragma once

#include "runtime/compiled_state.h"

namespace rlx {

struct GraphState::Impl {
  const Device device;
  const std::shared_ptr<const Backend> backend;
  const std::string graph;  // the name of the one that it was made for
  const std::vector<Entry> entries;

  mutable std::mutex mutex = {};  // guards what follows, through whole runs of the caller's own thread
  std::vector<std::shared_ptr<TensorOnDevice>> tensors = {};  // in the order of `entries`
  std::string torn = {};                                      // why the values cannot be read; empty: they can
  /// Its owner needs it no more: where the host computes, CompiledGraph::resized_state frees each of its tensors when
  /// the new one has the elements, so that there is never memory for two whole states. It is torn then.
  bool is_given_up = false;
  // Of the graph that it ran with last.
  uint64_t fitted = 0;                // its number
  std::vector<size_t> entry_of = {};  // by pair
  std::vector<Tensor> given = {}, results = {};

  // With the lock.
  /// Prepares runs of the graph; fails, with names, if the state does not fit.
  void fit(const CompiledGraph::State& graph);
  std::shared_ptr<TensorOnDevice>& tensor_of(size_t pair) { return tensors[entry_of[pair]]; }
  /// Fails if it is torn, as far as is known by now.
  void require_whole() const { fail_if_torn(why_torn()); }
  std::string why_torn() const;
  /// Waits for the runs so far, and fails if it is torn.
  void wait_until_whole() const;
  Tensor host_copy(size_t entry) const;

  void run_on_host(const CompiledGraph::State& graph, Tensors inputs, std::span<Tensor> outputs, RunOptions options);

 private:
  std::string text() const { return text_of("the state of '", graph, "' on ", device); }
  void fail_if_torn(const std::string& why) const;
};

}  // namespace rlx
