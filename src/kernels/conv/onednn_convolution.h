// Convolutions by oneDNN, of f32, and of bf16 into f32. It runs single-threaded in each thread of our pool (onednn.h).
// In f32, a convolution with a dilated input is passed to oneDNN as the input gradient of a strided convolution, and
// one whose kernel is larger than its result as a weight gradient. So oneDNN multiplies no inserted zeros, and
// gradients of gradients need no code of their own. Long sums are divided into several convolutions, because oneDNN
// adds up each sum in one running sum (partial_sums.h). Neighbours: direct.h, which runs everywhere;
// backends/cpu/convolution_product.h.
#pragma once

#include <memory>
#include <string>

#include "kernels/conv/direct.h"
#include "kernels/conv/epilogue.h"

namespace rlx::kernels {

class ThreadPool;

/// Constant weights, packed into the layouts that oneDNN's kernels read. Each layout is packed once, by the first plan
/// that needs it, and shared by the plans for all shapes. Safe to use from several threads.
class ConvolutionWeights {
 public:
  virtual ~ConvolutionWeights() = default;
  virtual size_t bytes() const = 0;  ///< of all layouts packed so far
};
/// `data` is what runs would be given as `w`; it must stay valid while plans are made. Null where oneDNN is not built
/// in.
std::shared_ptr<ConvolutionWeights> convolution_weights(const void* data);

/// A convolution that is ready to run. It is immutable; runs may overlap if each has scratch memory of its own.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual size_t scratch_bytes() const = 0;  ///< of one run, for all its threads
  /// False if the weights were packed when the plan was made: run() then ignores `w`, which may be null.
  virtual bool reads_weights() const = 0;
  virtual std::string name() const = 0;  ///< oneDNN's name of its implementation
  /// `x`, `w` and `y` point to the first elements, `scratch` is aligned to 64 bytes. Each task applies the epilogue to
  /// its slice of y while the cache still holds it; with an epilogue y must be dense, and its channels dim 1 or last.
  virtual void run(const void* x, const void* w, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
                   ThreadPool& pool) const noexcept = 0;
};

/// Null where oneDNN is not built in, where `args` are neither f32 nor bf16 into f32, or where oneDNN has only its
/// reference implementation. x holds batch_groups * args.batch images; each of these groups of images computes its own
/// out_channels / batch_groups output channels. The pointers of `args` are ignored. A kernel that is read
/// backwards is given by negative strides of w. `weights`, if not null, must have been made from the operand w.
std::shared_ptr<const ConvolutionPlan> plan_convolution(const ConvolutionArgs& args, int64_t batch_groups, int threads,
                                                        std::shared_ptr<ConvolutionWeights> weights = nullptr);

}  // namespace rlx::kernels
