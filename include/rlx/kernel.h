// Kernels from outside the library: a user's own way to run an op on the CPU, his op or one of ours. A registered
// kernel is a claim as a row of the CPU's own table is: it is asked before the table, its refusals go into the dispatch
// report, `strict` and `force_native` count it as native, `KernelDispatch::common` decomposes a composite in spite of
// it. What its functions throw arrives as an rlx::Error that names the kernel; an rlx::Error as it is.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// A dense, row-major tensor that a kernel is called with.
struct KernelTensor {
  DType dtype = f32;
  Shape shape;

  int64_t count() const;
};

/// What is known when a kernel is prepared: once for each node and each set of shapes.
struct KernelSite {
  const OpDef& op;
  const Attrs& attributes;
  std::vector<KernelTensor> operands, results;  ///< without operands that were left out
  int threads = 1;                              ///< the most that a run will use

  template <Attributes A>
  const A& attrs() const {
    return attributes.as<A>();
  }
};

/// One run. Operands are dense and may not be written; results are dense and hold anything; they overlap nothing, save
/// that result 0 may lie where the operand does that its op says it `overwrites`.
class KernelRun {
 public:
  KernelRun(void* const* operands, void* const* results, std::byte* scratch, int threads)
      : operands_(operands), results_(results), scratch_(scratch), threads_(threads) {}
  template <class T>
  const T* in(size_t operand) const {
    return static_cast<const T*>(operands_[operand]);
  }
  template <class T>
  T* out(size_t result = 0) const {
    return static_cast<T*>(results_[result]);
  }
  /// As many bytes as were asked for, aligned to 64.
  std::byte* scratch() const { return scratch_; }
  int threads() const { return threads_; }
  /// Calls part(0) ... part(parts - 1) on at most `threads()` threads, this one among them, and returns when all have
  /// returned. A part that throws ends the run with what it threw.
  template <class Part>
  void parallel_for(int64_t parts, const Part& part) const {
    call_parts(parts, std::cref(part));  // a reference: nothing is allocated for what the part captures
  }

 private:
  void call_parts(int64_t parts, const std::function<void(int64_t part)>& part) const;

  void* const* operands_;
  void* const* results_;
  std::byte* scratch_;
  int threads_;
};

struct PreparedKernel {
  /// May be called by several threads at once, each with its own operands, results and scratch. What it throws ends the
  /// run and arrives as an rlx::Error that names the node.
  std::function<void(const KernelRun&)> run;
  size_t scratch_bytes = 0;
};

struct CpuKernel {
  const OpDef* op = nullptr;
  std::string name;  ///< for reports and profiles; no two kernels of an op share one
  /// Empty if the kernel takes the node, else why not. Types may be symbolic. Absent: it takes every node whose
  /// elements have addresses (no packed integers, no blocks).
  std::function<std::string(Types operands, Types results, const Attrs&)> refusal = {};
  std::function<PreparedKernel(const KernelSite&)> prepare;
};

/// From now on graphs are compiled with this kernel wherever it takes a node; the latest one that does is chosen. Ops
/// that a pass has taken into another before (a product's bias, a chain of element-wise ops) never ask for it;
/// element-wise ops that have a kernel stay out of such chains. Fails if the op or a function is missing, or if the op
/// has a kernel of that name.
void register_cpu_kernel(CpuKernel kernel);
/// Forgets it; a graph that was compiled with it must be compiled again, and says so if it meets new shapes: no other
/// kernel takes its place unasked. Fails if there is none.
void unregister_cpu_kernel(const OpDef& op, std::string_view name);

}  // namespace rlx
