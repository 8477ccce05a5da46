// Steps from which convolution_plan.h chooses, and which lower_convolution.cpp and lower_fused_convolution.cpp share.
// They are made there, in lower_amx_convolution.cpp, lower_fma_convolution.cpp and narrow_convolution.cpp. A new
// kernel is a rule of the plan and a case in both lowerings.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "backends/cpu/convolution_plan.h"
#include "backends/cpu/lowerings.h"
#include "kernels/conv/onednn_convolution.h"
#include "rlx/ops/window.h"

namespace rlx::cpu {

/// The arguments of a convolution, with extents and strides from the views. The pointers stay null.
kernels::ConvolutionArgs convolution_args(const ConvAttrs& a, const View& x, const View& w, const View& y);

/// The weights of a convolution as a kernel packs them, from the cache. `kernel` is the kernel's name with the version
/// of its layout, which is raised when `pack` writes anything else. `pack(args, out)` writes `bytes` bytes.
std::shared_ptr<const kernels::AlignedMemory> packed_convolution(
    const LoweringContext& c, std::string_view kernel, const kernels::ConvolutionArgs& args, size_t bytes,
    const std::function<void(const kernels::ConvolutionArgs&, char*)>& pack);
/// The same for kernels that pack `count` floats.
std::shared_ptr<const kernels::AlignedMemory> packed_floats(const LoweringContext& c, std::string_view kernel,
                                                            const kernels::ConvolutionArgs& args, int64_t count,
                                                            void (*pack)(const kernels::ConvolutionArgs&, float*));
inline const float* floats_of(const kernels::AlignedMemory& memory) {
  return reinterpret_cast<const float*>(memory.get());
}

/// The epilogue of a convolution. Its operands are given as positions among the node's operands, -1 if absent.
struct EpilogueOperands {
  kernels::Activation activation = kernels::Activation::none;
  int bias = -1, residual = -1;

  kernels::ConvolutionEpilogue of(const StepArgs& step) const {
    const auto operand = [&](int i) { return i >= 0 ? step.in<float>(static_cast<size_t>(i)) : nullptr; };
    return {activation, operand(bias), operand(residual)};
  }
};

/// The step for the first rule of convolution_plan.h that holds and for whose kernel `make` returns a step that is not
/// null.
template <class Make>
Prepared planned_convolution(const ConvolutionProblem& problem, Make make) {
  for (const ConvolutionRule& rule : convolution_rules()) {
    if (!rule.holds(problem)) continue;
    Prepared step = make(rule.kernel);
    if (!step) continue;
    const std::string product = step->strategy();
    step->set_strategy([text = product.empty() ? rule.text() : text_of(rule.text(), "; ", product)] { return text; });
    return step;
  }
  return nullptr;
}

/// A step on matrix tiles (kernels/conv/amx_convolution.h). Null if the weights are not bound, or if tiles do not
/// support the convolution.
Prepared tiled_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& args, int64_t batch_groups,
                           const EpilogueOperands& epilogue = {});
/// A step by multiply-adds (kernels/conv/fma_convolution.h), which packs weights that are not bound in each run. Null
/// if it does not support the convolution.
Prepared fma_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& args, int64_t batch_groups,
                         const EpilogueOperands& epilogue = {});
/// A step that calls oneDNN. Null if oneDNN does not support it.
Prepared onednn_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& args, int64_t batch_groups,
                            const EpilogueOperands& epilogue = {});
/// A step of our own kernels, which supports every convolution. Operands 0 and 1 are x and w.
Prepared own_convolution(const kernels::ConvolutionArgs& args, int64_t batch_groups, int threads);

/// Whether bf16 are convolved faster than f32 here: by oneDNN, with instructions for them.
bool has_narrow_convolutions();
/// A convolution of bf16 whose sums are f32, in scratch memory, and whose epilogue rounds them: by oneDNN, or by our
/// own kernels where that does not support it. Our own are so slow in bf16 that oneDNN pays for small convolutions too.
Prepared narrow_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& args,
                            const EpilogueOperands& epilogue);
/// The same with weights that are bound, by kernels/conv/narrow_tiles.h.
Prepared narrow_tiles(const LoweringContext& c, const kernels::ConvolutionArgs& args, const EpilogueOperands& epilogue);
/// The same by kernels/conv/depthwise_narrow.h. Null if it has a residual.
Prepared narrow_depthwise(const LoweringContext& c, const kernels::ConvolutionArgs& args,
                          const EpilogueOperands& epilogue);

}  // namespace rlx::cpu
