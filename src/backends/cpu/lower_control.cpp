// `if`: each branch has a plan of its own, and both share an arena in this step's scratch, because only one runs.
// Loops: lower_while.cpp, lower_scan.cpp.
#include "backends/cpu/lowerings.h"
#include "rlx/ops.h"

namespace rlx::cpu {

Prepared lower_if(const LoweringContext& c) {
  const auto& a = c.attrs<IfAttrs>();
  size_t operands = c.operands.size() - 1, results = c.results.size();
  std::vector<const Tensor*> bound;
  for (size_t i = 0; i < operands; ++i) bound.push_back(c.bound(i + 1));
  BodyPlan branches[] = {c.body_plan({*a.else_branch, bound}), c.body_plan({*a.then_branch, bound})};
  size_t arena = std::max(branches[0].arena_bytes(), branches[1].arena_bytes());
  size_t table = std::max(branches[0].table_bytes(), branches[1].table_bytes());
  return make_step("if", arena + table,
                   [=, then_branch = branches[1], else_branch = branches[0]](const StepArgs& args) {
                     const BodyPlan& taken = *args.in<bool>(0) ? then_branch : else_branch;
                     auto branch = taken.ready(args.scratch, args.scratch + arena);
                     std::copy_n(args.operands + 1, operands, branch.inputs.begin());
                     std::copy_n(args.results, results, branch.outputs.begin());
                     branch.run(args.width, args.control);
                   });
}

}  // namespace rlx::cpu
