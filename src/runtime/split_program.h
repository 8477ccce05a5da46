// The program of a graph that is split over devices: the programs of its parts, and what hands values from one to
// another. Files are read by a backend that stands for all devices together; they are hostile input, and what they say
// of parts and values is checked against the graph.
#pragma once

#include "backends/backend.h"
#include "compile/split_plan.h"
#include "ir/text.h"

namespace rlx {

/// What runs share: nothing of it changes.
struct SplitProgramData {
  Graph source;  ///< as it was given
  Split split;
  SplitPlan plan;
  std::vector<std::shared_ptr<const Backend>> backends;  ///< by device
  std::vector<std::shared_ptr<const Program>> parts;
};

class SplitProgram final : public Program {
 public:
  explicit SplitProgram(SplitProgramData data) : data_(std::make_shared<const SplitProgramData>(std::move(data))) {}
  const Graph& graph() const override { return data_->source; }
  Payload payload() const override;
  std::unique_ptr<Executable> load(const LoadOptions& options) const override;
  bool updates_in_place(const std::set<std::string>& donated) const override {
    return rlx::updates_in_place(data_->split, data_->source, donated);
  }
  std::vector<std::string> registered_kernels(const Backend& backend) const override;

 private:
  std::shared_ptr<const SplitProgramData> data_;
};

/// The parts of a split graph, lowered each by its device's backend, the CPU's held to `isa`. `legal`: one graph for
/// each part, in their order.
std::unique_ptr<Program> lower_split(const Graph& source, Split split, std::vector<Graph> legal,
                                     const std::string& isa);

/// A wrapper around the backend of `main` with which files of graphs are read that are split over it and `others`: it
/// has the facts of all of these devices. `isa` holds the CPU among the others; `main` is held already.
std::unique_ptr<Backend> split_backend(std::shared_ptr<const Backend> main, const std::vector<Device>& others,
                                       const std::string& isa);

}  // namespace rlx
