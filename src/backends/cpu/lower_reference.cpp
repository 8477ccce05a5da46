// Ops that have a reference and nothing else, as users register them: their reference runs as a step, on copies of its
// operands. It allocates as it likes, and it may throw; all other steps do neither.
#include <cstring>
#include <exception>
#include <new>

#include "backends/cpu/lowerings.h"
#include "reference/interpreter.h"

namespace rlx::cpu {
namespace {

// A run is noexcept from here up to the executable, and a reference runs on the thread that runs the schedule: kernels
// hand no sub-graph to the pool. So what it throws waits with that thread.
thread_local std::exception_ptr error_of_run;

/// Whatever the user's code throws arrives as an rlx::Error.
void with_errors_of_ours(const std::string& what, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_memory, what, " ran out of memory");
  } catch (const std::exception& e) {
    fail(ErrorCode::invalid_argument, what, " threw: ", e.what());
  } catch (...) {
    fail(ErrorCode::invalid_argument, what, " threw what is no std::exception");
  }
}

/// What is fixed when the step is made. The node's own attributes are needed: the schedule may outlive its graph.
struct Call {
  const OpDef* op;
  Attrs attrs;
  std::vector<std::pair<DType, Shape>> operands;
  std::vector<Type> results;

  void run(const StepArgs& args) const {
    std::vector<Tensor> in;
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& [dtype, shape] = operands[i];
      Tensor t = Tensor::uninitialized(dtype, shape);  // a copy: a result may lie where an operand does
      if (t.byte_count()) std::memcpy(t.mutable_data(), args.in(i), t.byte_count());
      in.push_back(std::move(t));
    }
    std::vector<Tensor> made = run_op(*op, attrs, in);
    if (made.size() != results.size())
      fail(ErrorCode::invalid_argument, "the reference gives ", made.size(), " results, its inference ",
           results.size());
    for (size_t r = 0; r < made.size(); ++r) {
      if (made[r].type() != results[r])
        fail(ErrorCode::invalid_argument, "result ", r, " of the reference is ", made[r].type(),
             "; its inference says ", results[r]);
      if (made[r].byte_count()) std::memcpy(args.out(r), made[r].data(), made[r].byte_count());
    }
  }
};

}  // namespace

void run_user_code(const UserCode& user, const StepArgs& args, const std::function<void()>& code) noexcept {
  try {
    with_context([&] { return text_of("running '", user.op, "'", user.node.empty() ? "" : " of '" + user.node + "'"); },
                 [&] { with_errors_of_ours(user.what, code); });
  } catch (...) {
    if (!error_of_run) error_of_run = std::current_exception();
    // The steps that follow still run: on zeros, not on what memory held.
    for (size_t r = 0; r < user.result_bytes.size(); ++r)
      if (user.result_bytes[r]) std::memset(args.out(r), 0, user.result_bytes[r]);
  }
}

Prepared lower_reference(const LoweringContext& c) {
  Call call{c.node.op, c.node.attrs, {}, c.node.types};
  for (const View& v : c.operands) call.operands.emplace_back(v.dtype, v.shape);
  UserCode user{"the reference", std::string(c.node.op->name), c.node.name, {}};
  for (const Type& t : c.node.types) user.result_bytes.push_back(byte_count(t.dtype, shape_of(t.dims)));
  return make_step("reference", 0, [call = std::move(call), user = std::move(user)](const StepArgs& args) {
    run_user_code(user, args, [&] { call.run(args); });
  });
}

void rethrow_step_error() {
  if (error_of_run) std::rethrow_exception(std::exchange(error_of_run, nullptr));
}
bool has_step_error() { return error_of_run != nullptr; }

}  // namespace rlx::cpu
