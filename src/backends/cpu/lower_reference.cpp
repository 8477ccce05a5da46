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
template <class F>
void with_errors_of_ours(F f) {
  try {
    f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_memory, "the reference ran out of memory");
  } catch (const std::exception& e) {
    fail(ErrorCode::invalid_argument, "the reference threw: ", e.what());
  }
}

/// What is fixed when the step is made. The node's own attributes are needed: the schedule may outlive its graph.
struct Call {
  const OpDef* op;
  Attrs attrs;
  std::string node;
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
    std::vector<Tensor> made;
    with_errors_of_ours([&] { made = run_op(*op, attrs, in); });
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

Prepared lower_reference(const LoweringContext& c) {
  Call call{c.node.op, c.node.attrs, c.node.name, {}, c.node.types};
  for (const View& v : c.operands) call.operands.emplace_back(v.dtype, v.shape);
  return make_step("reference", 0, [call = std::move(call)](const StepArgs& args) {
    try {
      with_context(
          [&] { return text_of("running '", call.op->name, "'", call.node.empty() ? "" : " of '" + call.node + "'"); },
          [&] { call.run(args); });
    } catch (...) {
      if (!error_of_run) error_of_run = std::current_exception();
      // The steps that follow still run: on zeros, not on what memory held.
      for (size_t r = 0; r < call.results.size(); ++r)
        if (size_t bytes = byte_count(call.results[r].dtype, shape_of(call.results[r].dims)))
          std::memset(args.out(r), 0, bytes);
    }
  });
}

void rethrow_step_error() {
  if (error_of_run) std::rethrow_exception(std::exchange(error_of_run, nullptr));
}
bool has_step_error() { return error_of_run != nullptr; }

}  // namespace rlx::cpu
