// Ops that have only a reference implementation, such as those that users register. The reference runs as a step, on
// copies of its operands. It may allocate and throw, which no other step does.
#include <cstring>
#include <exception>

#include "backends/cpu/lowerings.h"
#include "base/user_code.h"
#include "reference/interpreter.h"

namespace rlx::cpu {
namespace {

/// What is known when the step is made. It owns the node's attributes, because the launch may outlive its graph.
struct Call {
  const OpDef* op;
  Attrs attrs;
  std::vector<std::pair<DType, Shape>> operands;
  std::vector<Type> results;

  void run(const StepArgs& args) const {
    std::vector<Tensor> in;
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& [dtype, shape] = operands[i];
      Tensor t = Tensor::uninitialized(dtype, shape);  // a copy: a result may share memory with an operand
      if (t.byte_count()) std::memcpy(t.mutable_data(), args.in(i), t.byte_count());
      in.push_back(std::move(t));
    }
    const std::vector<Tensor> made = run_op(*op, attrs, in, results);
    for (size_t r = 0; r < made.size(); ++r)
      if (made[r].byte_count() > 0) std::memcpy(args.out(r), made[r].data(), made[r].byte_count());
  }
};

}  // namespace

void run_user_code(const UserCode& user, const StepArgs& args, const std::function<void()>& code) noexcept {
  try {
    with_context([&] { return text_of("running '", user.op, "'", user.node.empty() ? "" : " of '" + user.node + "'"); },
                 [&] { user_code(user.what, code); });
  } catch (...) {
    // A run is noexcept from here up to the executable. User code is called by the thread that runs the plan, as
    // kernels never give sub-graphs to the pool.
    if (!args.control.error) args.control.error = std::current_exception();
  }
}

Prepared lower_reference(const LoweringContext& c) {
  Call call{c.node.op, c.node.attrs, {}, c.node.types};
  for (const View& v : c.operands) call.operands.emplace_back(v.dtype, v.shape);
  UserCode user{"the reference", std::string(c.node.op->name), c.node.name};
  return make_step("reference", 0, [call = std::move(call), user = std::move(user)](const StepArgs& args) {
    run_user_code(user, args, [&] { call.run(args); });
  });
}

}  // namespace rlx::cpu
