// Kernels from outside the library: a user's own way to run an op on the CPU, be it an op of the user's or of the
// library. A registered kernel is like a row of the CPU's own table: it is queried before the table, its refusals
// appear in the dispatch report, `strict` and `force_native` count it as native, and `KernelDispatch::common`
// decomposes an op even if it supports it. An exception that its functions throw becomes an rlx::Error that names the
// kernel; an rlx::Error is passed on as it is.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// A dense, row-major tensor that is passed to a kernel.
struct KernelTensor {
  DType dtype = f32;
  Shape shape;

  int64_t count() const;
};

/// What is known when a kernel is prepared, which happens once for each node and each set of shapes.
struct KernelSite {
  const OpDef& op;
  const Attrs& attributes;
  std::vector<KernelTensor> operands, results;  ///< without operands that were left out
  int threads = 1;                              ///< the most threads that a run will use

  template <Attributes A>
  const A& attrs() const {
    return attributes.as<A>();
  }
};

/// The arguments of one run. Operands are dense and must not be written. Results are dense and uninitialized. They
/// overlap nothing, except that result 0 may have the memory of the operand that its op says it `overwrites`.
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
  /// Scratch memory of the size that `prepare` requested, aligned to 64 bytes.
  std::byte* scratch() const { return scratch_; }
  int threads() const { return threads_; }
  /// Calls part(0) ... part(parts - 1) on at most `threads()` threads, one of which is this one, and returns when all
  /// calls have returned. If a call throws, the run ends with that exception.
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
  /// Computes a run. It may be called by several threads at once, each with its own operands, results and scratch. What
  /// it throws ends the run and becomes an rlx::Error that names the node.
  std::function<void(const KernelRun&)> run;
  size_t scratch_bytes = 0;
};

struct CpuKernel {
  const OpDef* op = nullptr;
  std::string name;  ///< for reports and profiles; kernels of the same op must have different names
  /// Returns an empty text if the kernel supports the node, else the reason why not. Types may be symbolic. It is not
  /// asked about packed integers and blocks, whose elements have no addresses; without it all others are supported.
  std::function<std::string(Types operands, Types results, const Attrs&)> refusal = {};
  std::function<PreparedKernel(const KernelSite&)> prepare;
};

/// Compiles graphs from now on with this kernel, wherever it supports a node; of several kernels that do, the latest
/// one is used. An op that a pass has already fused into another (a product's bias, for example) does not reach this
/// kernel; element-wise ops that have a registered kernel are not fused. Fails if the op, the name or `prepare` is
/// missing, or if the op has a kernel of that name.
void register_cpu_kernel(CpuKernel kernel);
/// Removes the kernel. A graph that was compiled with it fails at new shapes until it is compiled again: no other
/// kernel replaces this one silently. At shapes that it has had, it may still run this one. Fails if there is no such
/// kernel.
void unregister_cpu_kernel(const OpDef& op, std::string_view name);

}  // namespace rlx
