// f32 convolutions by multiply-adds, with sums in registers: a few pixels by a few vectors of output channels. Weights
// are packed panel by panel, once or, if they are given at run time, before each run. The pixels that a task reads are
// copied to scratch memory, padding included, unless the channels are contiguous in x and no tap reads padding.
// Neighbours: gemm/fma, matrix products; amx_convolution.h, the same on matrix tiles; onednn_convolution.h, what
// backends/cpu/convolution_plan.cpp does not give to this class.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv/direct.h"
#include "kernels/conv/epilogue.h"

namespace rlx::kernels {

class ThreadPool;

class FmaConvolution {
 public:
  /// Whether this class computes the convolution: of f32, with 2 spatial dims, one group of channels and of the batch,
  /// 8 input channels and 8 output channels or more. x is not dilated; the kernel may be reversed. In x, and in y,
  /// either channels or columns are contiguous. Very large extents are refused; supports() begins with the limits.
  static bool supports(const ConvolutionArgs& args, int64_t batch_groups);

  /// supports() must accept `args`, whose pointers are ignored.
  FmaConvolution(const ConvolutionArgs& args, int threads);

  size_t weights_bytes() const;
  /// Packs weights, whose strides are those of the args; `w` is the first one (of a reversed kernel the last in
  /// memory). The order depends on the width of the vectors in use, so run() must be called with the same instruction
  /// set.
  void pack(const void* w, void* packed, ThreadPool& pool) const noexcept;

  size_t scratch_bytes() const;  ///< of one run, for all its threads
  /// With an epilogue, y must be dense, and the residual has its layout. `packed` and `scratch` are aligned to 64
  /// bytes. Where a tap of the kernel reads padding, a weight that is not finite gives NaN (0 * inf).
  void run(const void* x, const void* packed, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
           ThreadPool& pool) const noexcept;

  // The next two are public for the loops, which are compiled once per instruction set in the .cpp.

  /// Consecutive terms of a sum whose elements are adjacent in the image that is read: x, or its copy.
  struct Run {
    int64_t x;      ///< where they begin, in elements from the pixel of an output's first tap
    uint64_t taps;  ///< a bit for each tap that they belong to; all bits if the kernel has more than 64 taps
  };
  /// The terms of a partial sum, at most kPartialSumTerms: some runs of the same length.
  struct Block {
    int64_t first_run, runs, terms;  ///< terms of each run
  };

 private:
  void divide_terms();
  void divide_outputs();
  int64_t packed_floats() const;  ///< of weights; a float for each panel follows them, 0 if its weights are finite

  ConvolutionArgs a_;
  int threads_;
  bool copies_;                  ///< the image is copied
  int64_t pixel_ = 0, row_ = 0;  ///< strides of the image that is read, in elements
  std::vector<Run> runs_;
  std::vector<Block> blocks_;
  int64_t terms_;                  ///< of a sum
  int64_t images_ = 1, rows_ = 1;  ///< of the outputs of a task, at most
  int64_t image_tasks_ = 1, row_tasks_ = 1, panel_tasks_ = 1;
  size_t thread_bytes_ = 0;
};

}  // namespace rlx::kernels
