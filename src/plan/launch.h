// One launch of a plan, made by a backend: a kernel with everything decided that shapes and weights decide. Running it
// neither allocates nor throws; pointers come in at each run.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancel_flag.h"
#include "rlx/op_def.h"

namespace rlx {

/// A value's dtype, shape and strides, once shapes are numbers. Its address comes with each run.
struct View {
  DType dtype = f32;
  Shape shape;
  std::vector<int64_t> strides;  ///< in elements

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t count() const;
  size_t element_bytes() const { return byte_size(dtype); }
};
bool is_dense(const View&);

/// What a run shares with its launches. The thread that runs the plan reads and writes these members, and no other;
/// another thread may set the flag that `cancel` points at.
struct RunControl {
  const CancelFlag* cancel = nullptr;  ///< set by whoever cancels the run; null: nobody can
  std::exception_ptr error = nullptr;  ///< the first that a user's code threw

  /// Whether the run is to end: no further launch begins, and loops inside a launch stop, as a launch that failed or
  /// was cancelled has not written its results.
  bool ends() const noexcept { return error || is_cancelled(cancel); }
};

struct LaunchArgs {
  void* const* operands;
  void* const* results;
  std::byte* scratch;  ///< aligned to 64 bytes
  int width;           ///< threads that may be used
  RunControl& control;

  template <class T = void>
  const T* in(size_t i) const {
    return static_cast<const T*>(operands[i]);
  }
  template <class T = void>
  T* out(size_t i = 0) const {
    return static_cast<T*>(results[i]);
  }
};

class Launch {
 public:
  virtual ~Launch() = default;
  virtual size_t scratch_bytes() const { return 0; }
  /// False for an operand that was read when the launch was made: packed weights.
  virtual bool reads_operand(size_t) const { return true; }
  /// Which kernel it is, for profiles: "onednn f32 128x384x1152".
  virtual std::string kernel() const { return ""; }
  /// How it is computed and why, where a planner of kernels chose among several ways.
  virtual std::string strategy() const { return ""; }
  virtual void run(const LaunchArgs& args) const noexcept = 0;
};

/// How long each launch of a run took.
struct StepTime {
  std::string op, node, kernel;
  double start_us = 0, duration_us = 0;  ///< since the run began
};

}  // namespace rlx
