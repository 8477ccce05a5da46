// The planner of convolutions (backends/cpu/convolution_plan.h): what must hold of its tables, whatever the machine.
// The numbers of each kernel are tested in fused_convolution_test.cpp and its neighbours.
#include "backends/cpu/convolution_plan.h"

#include <doctest/doctest.h>
#include <set>
#include <string_view>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::cpu;

namespace {

/// A dense channels-last convolution with a square kernel that keeps the size of the image.
kernels::ConvolutionArgs channels_last(int64_t height, int64_t width, int64_t in, int64_t out, int64_t kernel,
                                       int64_t groups = 1) {
  kernels::ConvolutionArgs a;
  a.spatial = 2, a.batch = 1, a.in_channels = in, a.out_channels = out, a.groups = groups;
  for (int d = 0; d < 2; ++d) {
    a.in_dims[d] = a.out_dims[d] = d == 0 ? height : width;
    a.kernel[d] = kernel, a.stride[d] = 1, a.lhs_dilation[d] = a.rhs_dilation[d] = 1, a.low[d] = kernel / 2;
    a.x_strides[d] = (d == 0 ? width : 1) * in, a.y_strides[d] = (d == 0 ? width : 1) * out;
    a.w_strides[d] = d == 0 ? kernel : 1;
  }
  a.x_channel_stride = a.y_channel_stride = 1;
  a.x_batch_stride = height * width * in, a.y_batch_stride = height * width * out;
  a.w_in_stride = kernel * kernel, a.w_out_stride = kernel * kernel * in / groups;
  return a;
}

ConvolutionProblem problem_of(const kernels::ConvolutionArgs& args) {
  ConvolutionProblem problem;
  problem.args = args;
  return problem;
}

PipelineStrategy pipeline(int64_t size, int64_t in, int64_t middle, int64_t out, int64_t l2_bytes) {
  const auto first = channels_last(size, size, in, middle, 1);
  const auto depthwise = channels_last(size, size, middle, middle, 3, middle);
  const auto last = channels_last(size, size, middle, out, 1);
  kernels::CacheSizes caches;
  caches.l2_bytes = l2_bytes;
  return plan_pipeline({&first, depthwise, last}, caches);
}

}  // namespace

TEST_CASE("each rule of convolutions has a reason of its own, and the last one holds always") {
  std::set<std::string_view> reasons;
  for (const ConvolutionRule& rule : convolution_rules()) {
    CHECK(reasons.insert(rule.reason).second);
    CHECK(rule.text().find(rule.reason) != std::string::npos);
  }
  CHECK(convolution_rules().back().holds(problem_of(channels_last(3, 3, 1, 1, 3))));
  CHECK(convolution_rules().back().kernel == ConvolutionKernel::general);
}

TEST_CASE(
    "without matrix tiles, multiply-adds of wide vectors compute f32 with constant weights, and others for many "
    "pixels") {
  const auto first_rule = [](const ConvolutionProblem& problem) {
    for (const ConvolutionRule& rule : convolution_rules())
      if (rule.holds(problem)) return rule.kernel;
    return ConvolutionKernel::general;
  };
  test::for_each_target([&] {
    if (kernels::has_matrix_tiles()) return;  // which come first there
    const bool are_wide = kernels::product_lanes(f32) >= 8;
    ConvolutionProblem problem = problem_of(channels_last(14, 14, 256, 256, 3));
    CHECK(first_rule(problem) != ConvolutionKernel::multiply_adds);  // 196 pixels
    problem.args.batch = 16;
    CHECK((first_rule(problem) == ConvolutionKernel::multiply_adds) == are_wide);
    problem.args.batch = 1, problem.are_weights_constant = true;
    CHECK((first_rule(problem) == ConvolutionKernel::multiply_adds) == are_wide);
    problem.args.w_strides[1] = -1;  // nothing packs a constant backwards
    CHECK(first_rule(problem) != ConvolutionKernel::multiply_adds);
    problem = problem_of(channels_last(28, 28, 64, 64, 3, 2));
    problem.are_weights_constant = true;
    CHECK(first_rule(problem) != ConvolutionKernel::multiply_adds);  // groups
  });
}

TEST_CASE("more pixels never turn a convolution that is worth a kernel of oneDNN into one that is not") {
  for (const ConvolutionRule& rule : convolution_rules()) {
    if (rule.kernel != ConvolutionKernel::onednn) continue;
    bool before = false;
    for (int64_t size = 1; size <= 64; size *= 2) {
      const bool holds = rule.holds(problem_of(channels_last(size, size, 16, 16, 3)));
      CHECK(holds >= before);
      before = holds;
    }
    CHECK(before);
    CHECK(!rule.holds(problem_of(channels_last(0, 5, 16, 16, 3))));
  }
}

TEST_CASE("a pipeline computes some of the rows at a time, more with a larger cache, and never more than there are") {
  int64_t before = 0;
  for (int64_t l2_bytes = 64 << 10; l2_bytes <= 8 << 20; l2_bytes *= 2) {
    const int64_t rows = pipeline(112, 16, 96, 24, l2_bytes).rows;
    CHECK(rows >= 1);
    CHECK(rows >= before);
    CHECK(rows <= 112);
    before = rows;
  }
  CHECK(before < 112);  // 768 KiB are the limit
  bool was_used = false;
  for (int64_t size = 7; size <= 224; size *= 2) {
    const PipelineStrategy s = pipeline(size, 16, 96, 24, 1 << 20);
    CHECK(!s.reason.empty());
    CHECK((s.rows > 0) >= was_used);
    was_used = s.rows > 0;
  }
  CHECK(was_used);
  CHECK(pipeline(112, 64, 96, 24, 1 << 20).rows == 0);  // products that are not skinny
  CHECK(pipeline(112, 16, 96, 64, 1 << 20).rows == 0);
}
