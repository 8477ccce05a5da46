// What a compiled graph carries from run to run: the tensors of the inputs that its runs update in place, on the
// device: the cache of a decoder whose graph a caller runs, one for each sequence.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/device.h"
#include "rlx/tensor.h"

namespace rlx {

/// The values of all inputs of mode ArgumentMode::update, that is, of those that were donated when the graph was
/// compiled and are outputs of the same name and type. CompiledGraph::new_state makes one; a graph may have any number
/// of them, one for each sequence. A run with a state takes the other inputs, gives the other outputs, and writes the
/// new values over the old ones: where CompiledGraph::updates_in_place, nothing of a state is copied, and it stays
/// where it is in memory.
///
/// A state fits every compiled graph on its device that updates inputs of the same names and types. A run that fails or
/// is cancelled after it has begun leaves the state torn: some of it may be overwritten. Using a torn state is an error
/// that says what ended the run, until `reset`. An asynchronous run (`run_async`, and any on a device with
/// memory of its own) has begun once it is submitted: it tears the state also where an op fails on its extents, or
/// where it is cancelled before its turn.
///
/// A state may be used by several threads: what is asked of it happens one after another, runs too. Runs with different
/// states go side by side. It may be destroyed while a run with it goes on.
class GraphState {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
  };

  GraphState(GraphState&&) noexcept;
  GraphState& operator=(GraphState&&) noexcept;
  ~GraphState();

  const Device& device() const;
  /// In the order of the inputs of the graph that it was made for.
  const std::vector<Entry>& entries() const;
  size_t byte_count() const;

  /// Another state with the same values, on the same device, which both go their own way from now on.
  GraphState copy() const;
  /// A copy of one tensor on the host. Waits for the runs so far.
  Tensor tensor(std::string_view name) const;
  std::map<std::string, Tensor, std::less<>> tensors() const;
  /// Sets all tensors: to the values that are given, by name, and the others to zeros. A torn state is whole again.
  void reset(const std::map<std::string, Tensor, std::less<>>& values = {});
  /// Writes all tensors to a safetensors file, which CompiledGraph::load_state reads. Waits for the runs so far.
  void save(const std::string& path) const;
  /// Why the state is torn; empty if it is not, or if a run that will tear it has not ended yet. It waits for no run
  /// but one that another thread is in.
  std::string why_torn() const;

  struct Impl;  ///< used by the library only, as are the others below
  explicit GraphState(std::unique_ptr<Impl> impl);
  Impl& impl() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
