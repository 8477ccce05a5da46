// Convolutions by oneDNN, which runs single-threaded inside our pool. A convolution whose input is dilated is asked
// for as the gradient of a strided one for its input, and one whose kernel is an image as the gradient for weights: so
// neither multiplies zeros, and derivatives of derivatives come by the same way. Neighbours: convolution.h, which runs
// everywhere; backends/cpu/convolution_product.h.
#pragma once

#include <memory>
#include <string>

#include "kernels/convolution.h"
#include "kernels/convolution_finish.h"

namespace rlx::kernels {

class ThreadPool;

/// Weights that stay the same from run to run, in the layouts that oneDNN's kernels want: each is made once, by the
/// first plan that wants it, and shared by the plans of all shapes. May be used from several threads.
class ConvolutionWeights {
 public:
  virtual ~ConvolutionWeights() = default;
  virtual size_t bytes() const = 0;
};
/// `data`: where the operand w begins. Null where oneDNN is not built in.
std::shared_ptr<ConvolutionWeights> convolution_weights(const void* data);

/// A convolution that is ready to run; immutable, several runs may overlap.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual size_t scratch_bytes() const = 0;
  /// False if the weights were packed when the plan was made: `w` of a run is then not looked at.
  virtual bool reads_weights() const = 0;
  virtual std::string name() const = 0;
  /// Pointers to the first elements; the scratch memory is aligned to 64 bytes. Each piece of the result is finished
  /// where it was made, while the caches hold it: only for a y that is dense, with channels as dim 1 or last.
  virtual void run(const void* x, const void* w, void* y, const ConvolutionFinish& finish, void* scratch,
                   ThreadPool& pool) const noexcept = 0;
};

/// Null where oneDNN is not built in, or does not offer it (f32 alone is asked for) other than by its reference.
/// With `batch_groups`, x holds that many times args.batch, and each of these groups makes its own output channels.
/// The pointers of `args` are not looked at, nor is `reversed`: a kernel that is read backwards has negative strides.
/// With `weights`, the operand w is what they were made of.
std::shared_ptr<const ConvolutionPlan> plan_convolution(const ConvolutionArgs& args, int64_t batch_groups, int threads,
                                                        std::shared_ptr<ConvolutionWeights> weights = nullptr);

}  // namespace rlx::kernels
