// Control flow: a branch is a schedule of its own, whose arena is this step's scratch.
#include "backends/cpu/lowerings.h"
#include "backends/cpu/schedule.h"
#include "rlx/ops.h"

namespace rlx::cpu {

Prepared lower_if(const LoweringContext& c) {
  const auto& a = c.attrs<IfAttrs>();
  std::shared_ptr<const Schedule> branches[] = {c.nested(*a.else_branch), c.nested(*a.then_branch)};
  size_t arena = std::max(branches[0]->arena_bytes(), branches[1]->arena_bytes());
  size_t pointers = std::max(branches[0]->pointer_count(), branches[1]->pointer_count()) * sizeof(void*);
  size_t operands = c.operands.size() - 1, results = c.results.size();
  arena = (arena + 63) / 64 * 64;
  return make_step("if", arena + pointers,
                   [=, then_branch = branches[1], else_branch = branches[0]](const StepArgs& args) {
                     const Schedule& taken = *args.in<bool>(0) ? *then_branch : *else_branch;
                     auto** slots = reinterpret_cast<void**>(args.scratch + arena);
                     taken.resolve(slots, args.scratch);
                     taken.run(slots, args.scratch, {args.operands + 1, operands}, {args.results, results}, args.width);
                   });
}

}  // namespace rlx::cpu
