// The CPU as a backend. The table of lowerings.def is its claim of what it supports.
#include "backends/cpu/cpu.h"

#include "backends/cpu/executable.h"
#include "backends/cpu/lowering.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/machine.h"
#include "backends/cpu/rewritings.h"
#include "kernels/conv/onednn.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/threads/external_pool.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/vector/instruction_set.h"
#include "rlx/ops/conv.h"

namespace rlx::cpu {
namespace {

using kernels::InstructionSetLimit;
using kernels::InstructionSetScope;

class CpuProgram final : public Program {
 public:
  CpuProgram(Graph legal, const InstructionSetLimit* limit) : graph_(std::move(legal)), limit_(limit) {}
  const Graph& graph() const override { return graph_; }
  std::unique_ptr<Executable> load(const LoadOptions& options) const override {
    use_measured_machine();
    return make_executable(graph_, options, limit_);
  }

 private:
  Graph graph_;
  const InstructionSetLimit* limit_;
};

/// What it is asked is answered, and what it makes computes, within `limit`.
class Cpu final : public Backend {
 public:
  explicit Cpu(const InstructionSetLimit* limit = nullptr) : limit_(limit) {}
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    const InstructionSetScope scope(limit_);
    return text_of(kernels::ThreadPool::hardware_threads(), " threads, ", kernels::used_instruction_set(),
                   ", vectors by Highway", kernels::has_onednn() ? ", some convolutions by oneDNN" : "");
  }
  int threads() const override {
    use_measured_machine();
    if (const auto* pool = kernels::external_pool())
      return std::clamp(pool->threads(), 1, kernels::ThreadPool::kMaxWorkers + 1);
    const int all = kernels::ThreadPool::hardware_threads(), measured = kernels::cost_model().threads;
    return measured > 0 ? std::min(all, measured) : all;
  }
  std::string unavailable() const override { return ""; }
  std::shared_ptr<const Backend> with_instruction_set(const std::string& name) const override {
    return std::make_shared<Cpu>(kernels::instruction_set_limit(name, "isa"));
  }
  std::vector<TargetFact> facts() const override {
    const InstructionSetScope scope(limit_);
    std::vector<TargetFact> facts{{"processor", kernels::instruction_set()}};
    // A program that is held to a set may call oneDNN in a process whose own set is that one, and not in another.
    if (!limit_) facts.push_back({"convolution library", kernels::has_onednn() ? "oneDNN" : "none"});
    return facts;
  }
  std::vector<std::string> registered_kernels(const Graph* program) const override {
    return registered_kernel_names(program);
  }
  Target target() const override {
    const InstructionSetScope scope(limit_);
    Target target{"cpu", [limit = limit_](const Question& q) -> std::optional<std::string> {
                    const InstructionSetScope while_asked(limit);
                    std::string why_not;
                    if (find_lowering(q, why_not)) return std::nullopt;
                    return why_not;
                  }};
    target.detail = kernels::used_instruction_set();
    target.rewritings = rewritings();
    target.interprets = [limit = limit_](const Question& q) {
      const InstructionSetScope while_asked(limit);
      std::string why_not;
      const Lowering* row = find_lowering(q, why_not);
      return row && runs_reference(*row);
    };
    target.remark = [](const Question& q) {
      std::string refusals;
      auto kernel = registered_kernel(q, refusals);
      return kernel ? text_of("by the registered kernel '", kernel->name, "'") : std::string();
    };
    // Whoever registers a kernel for convolutions wants to see it used: then they are not fused.
    target.fuses_convolutions = !has_registered_kernel(op::conv) && !has_registered_kernel(op::convolution);
    // oneDNN's kernels and multiply-adds (convolution_plan.h) are fastest with channels last. Our general ones prefer
    // channels first: their matrix has runs along the last dim.
    target.prefers_channels_last = kernels::has_onednn() || kernels::product_lanes(f32) >= 8;
    target.fuses_elementwise = [](const Node& node) { return is_machine_op(node) && !has_registered_kernel(*node.op); };
    target.updates_in_place = true;
    const kernels::ProductTarget products = kernels::product_target();
    if (products.has_bf16_dots || products.has_matrix_tiles) target.fast_float = bf16;
    return target;
  }
  size_t claims_hash() const override { return registered_kernels_hash(); }
  std::unique_ptr<Program> lower(Graph legal) const override {
    return std::make_unique<CpuProgram>(std::move(legal), limit_);
  }

 private:
  const InstructionSetLimit* limit_;
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
  kernels::apply_instruction_set_limit();
  return std::make_unique<Cpu>();
}

}  // namespace rlx::cpu
