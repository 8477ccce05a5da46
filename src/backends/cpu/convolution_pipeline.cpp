// See the header.
#include "backends/cpu/convolution_pipeline.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "backends/cpu/convolution_steps.h"
#include "ir/leaves.h"
#include "kernels/conv/depthwise_channels_last.h"
#include "kernels/conv/few_channels.h"
#include "rlx/ops/fused_blocks.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;

/// The attributes of a channels-last f32 fused_conv over two spatial dims; null for other nodes.
const FusedConvAttrs* channels_last_attrs(const Graph& g, const Node& node) {
  if (node.op != &op::fused_conv) return nullptr;
  for (Ref r : node.operands)
    if (g.type(r).dtype != f32 || g.type(r).rank() == 3) return nullptr;
  const auto& a = node.attrs.as<FusedConvAttrs>();
  return a.channels_last && g.type(node.operands[0]).rank() == 4 ? &a : nullptr;
}
/// Whether the node is a pointwise convolution (a matrix product over the channels of each pixel) whose weights are a
/// leaf.
bool is_pointwise(const Graph& g, const Node& node) {
  const FusedConvAttrs* a = channels_last_attrs(g, node);
  const auto all = [](const Axes& axes, int64_t n) {
    return std::all_of(axes.begin(), axes.end(), [&](int64_t i) { return i == n; });
  };
  if (!a || a->groups != 1 || !all(a->stride, 1) || !all(a->padding, 0) || !all(a->padding_high, 0)) return false;
  const Dims& w = g.type(node.operands[1]).dims;
  return w[2] == Dim(1) && w[3] == Dim(1) && is_leaf(g.node(node.operands[1]));
}
bool is_depthwise(const Graph& g, const Node& node) {
  const FusedConvAttrs* a = channels_last_attrs(g, node);
  if (!a || a->has_residual) return false;
  const Dim& channels = g.type(node.operands[0]).dims[3];
  const Ref w = node.operands[1];
  return channels == Dim(a->groups) && g.type(w).dims[0] == channels && is_leaf(g.node(w));
}

/// A pointwise convolution of rows of pixels, as a matrix product.
class RowProduct {
 public:
  RowProduct() = default;
  RowProduct(const LoweringContext& c, const ConvolutionArgs& a)
      : row_pixels_(a.out_dims[1]), in_(a.in_channels), out_(a.out_channels),
        weights_(packed_floats(c, "few channels 1", a, kernels::few_channels_weights_count(a),
                               kernels::pack_few_channels_weights)) {}
  /// Multiplies `rows` rows of pixels of x, from row `x_row` on, and writes to y from row `y_row` on. The residual has
  /// y's layout.
  void run(int64_t rows, const float* x, int64_t x_row, float* y, int64_t y_row,
           kernels::ConvolutionEpilogue epilogue) const noexcept {
    const int64_t to = y_row * row_pixels_ * out_;
    if (epilogue.residual) epilogue.residual += to;
    kernels::skinny_product(
        {rows * row_pixels_, in_, out_, x + x_row * row_pixels_ * in_, floats_of(*weights_), y + to, epilogue});
  }

 private:
  int64_t row_pixels_ = 0, in_ = 0, out_ = 0;
  std::shared_ptr<const kernels::AlignedMemory> weights_;
};

struct Stage {
  ConvolutionArgs args;
  EpilogueOperands epilogue;  ///< as positions among the operands of the pipeline's step
};

class PipelineStep final : public Step {
 public:
  /// Computes `rows` output rows of the depthwise convolution at a time. There are three stages, or two if the first
  /// pointwise convolution is missing.
  PipelineStep(std::span<const LoweringContext* const> contexts, std::vector<Stage> stages, int64_t rows)
      : has_first_(stages.size() == 3), threads_(contexts[0]->threads), depthwise_(stages[stages.size() - 2]),
        last_epilogue_(stages.back().epilogue), rows_(rows) {
    const ConvolutionArgs& d = depthwise_.args;
    reach_ = (d.kernel[0] - 1) * d.rhs_dilation[0];
    const int64_t seen = std::min(d.in_dims[0], (rows - 1) * d.stride[0] + reach_ + 1);
    if (has_first_) {
      first_epilogue_ = stages[0].epilogue;
      first_ = RowProduct(*contexts[0], stages[0].args);
      first_bytes_ = aligned(static_cast<size_t>(seen * d.in_dims[1] * d.in_channels) * sizeof(float));
    }
    last_ = RowProduct(*contexts.back(), stages.back().args);
    depthwise_bytes_ = aligned(static_cast<size_t>(rows * d.out_dims[1] * d.out_channels) * sizeof(float));
    thread_bytes_ = first_bytes_ + depthwise_bytes_;
    const LoweringContext& c = *contexts[contexts.size() - 2];
    weights_ = packed_floats(c, "depthwise of channels 1", d, kernels::depthwise_weights_count(d),
                             kernels::pack_depthwise_weights);
    size_t at = 0;
    for (const LoweringContext* stage : contexts) {
      packed_operands_.push_back(at + 1);
      at += stage->operands.size() - 1;
    }
  }
  size_t scratch_bytes() const override { return thread_bytes_ * static_cast<size_t>(threads_); }
  bool reads_operand(size_t i) const override {
    return std::find(packed_operands_.begin(), packed_operands_.end(), i) == packed_operands_.end();
  }
  std::string kernel() const override {
    return text_of(has_first_ ? "product, " : "", "depthwise convolution, product; ", rows_, " rows at a time");
  }
  void run(const StepArgs& step) const noexcept override {
    const int64_t of_image = depthwise_.args.out_dims[0], rows = depthwise_.args.batch * of_image;
    // Each task computes the halo at its beginning again, which the task before it has computed. So there is one task
    // per thread; if there are many bands there are a few more, so that a thread that was interrupted does not delay
    // the others.
    const int64_t bands = divided_up(rows, rows_), many = 4 * step.width;
    const int64_t tasks = std::min<int64_t>(rows, bands < 4 * many ? step.width : many);
    thread_pool().parallel_for(step.width, tasks, [&](int64_t task, int slot) {
      Seen seen;
      for (int64_t row = rows * task / tasks, last = rows * (task + 1) / tasks; row < last;) {
        const int64_t begin = row % of_image, end = std::min({begin + rows_, of_image, begin + last - row});
        run_band(step, {row / of_image, begin, end}, seen, step.scratch + thread_bytes_ * static_cast<size_t>(slot));
        row += end - begin;
      }
    });
  }

 private:
  /// The rows [begin, end) of an image that the first product has computed and scratch memory still holds.
  struct Seen {
    int64_t image = -1, begin = 0, end = 0;
  };

  /// A band of rows of the final result, at most rows_ of them.
  struct Band {
    int64_t image, begin, end;
  };
  void run_band(const StepArgs& step, const Band& band, Seen& seen, std::byte* own) const noexcept {
    ConvolutionArgs d = depthwise_.args;
    const auto [image, begin, end] = band;
    auto* const made = reinterpret_cast<float*>(own + first_bytes_);
    const int64_t from = begin * d.stride[0] - d.low[0];  // the first row that is read, padding included
    d.x = step.in<float>(0) + image * d.x_batch_stride, d.y = made;
    d.low[0] = -from, d.out_dims[0] = end - begin, d.batch = 1;
    if (has_first_) {
      const int64_t rows = d.in_dims[0], first = std::clamp<int64_t>(from, 0, rows);
      const int64_t last = std::clamp(from + (end - begin - 1) * d.stride[0] + reach_ + 1, first, rows);
      compute_first(step, image, first, last, seen, own);
      d.x = own, d.in_dims[0] = last - first, d.low[0] = first - from;
    }
    kernels::depthwise_of_channels(d, floats_of(*weights_), depthwise_.epilogue.of(step), 0, end - begin);
    last_.run(end - begin, made, 0, step.out<float>(), image * depthwise_.args.out_dims[0] + begin,
              last_epilogue_.of(step));
  }
  /// Computes the rows [begin, end) of the first product and writes them to the front of scratch. Rows that are in
  /// `seen` are moved there instead.
  void compute_first(const StepArgs& step, int64_t image, int64_t begin, int64_t end, Seen& seen,
                     std::byte* own) const noexcept {
    const ConvolutionArgs& d = depthwise_.args;
    auto* const rows = reinterpret_cast<float*>(own);
    const int64_t row = d.in_dims[1] * d.in_channels;
    if (seen.image != image || begin >= seen.end || begin < seen.begin) seen = {image, begin, begin};
    if (begin > seen.begin)
      std::memmove(rows, rows + (begin - seen.begin) * row,
                   static_cast<size_t>((seen.end - begin) * row) * sizeof(float));
    if (end > seen.end)
      first_.run(end - seen.end, step.in<float>(0), image * d.in_dims[0] + seen.end, rows, seen.end - begin,
                 first_epilogue_.of(step));
    seen.begin = begin, seen.end = std::max(end, seen.end);
  }

  bool has_first_;
  int threads_;
  Stage depthwise_;
  EpilogueOperands first_epilogue_, last_epilogue_;
  int64_t rows_, reach_ = 0;
  RowProduct first_, last_;
  std::shared_ptr<const kernels::AlignedMemory> weights_;
  size_t first_bytes_ = 0, depthwise_bytes_ = 0, thread_bytes_ = 0;
  std::vector<size_t> packed_operands_;
};

}  // namespace

std::vector<ConvolutionPipeline> convolution_pipelines(const Graph& g) {
  const auto& nodes = g.nodes();
  // Schedules are made anew for each shape, and many graphs have no such node: return early for those.
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &op::fused_conv; })) return {};
  std::map<Ref, int> readers;
  for (const Node& node : nodes)
    for (Ref r : node.operands) ++readers[r];
  for (const Output& o : g.outputs()) ++readers[o.ref];
  // The node that computes operand 0 of node n. Nothing if another node reads it too, or if nodes that are no leaves
  // lie between the two.
  const auto before = [&](size_t n) -> std::optional<size_t> {
    const Ref x = nodes[n].operands[0];
    const auto from = static_cast<size_t>(x.node);
    if (readers[x] != 1) return {};
    for (size_t i = from + 1; i < n; ++i)
      if (!is_leaf(nodes[i])) return {};
    return from;
  };
  std::vector<ConvolutionPipeline> pipelines;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!is_pointwise(g, nodes[n])) continue;
    const auto middle = before(n);
    if (!middle || !is_depthwise(g, nodes[*middle])) continue;
    const auto first = before(*middle);
    const bool has_first =
        first && is_pointwise(g, nodes[*first]) && !nodes[*first].attrs.as<FusedConvAttrs>().has_residual;
    if (has_first) pipelines.push_back({{*first, *middle, n}});
    else pipelines.push_back({{*middle, n}});
  }
  return pipelines;
}

std::unique_ptr<Step> lower_convolution_pipeline(std::span<const LoweringContext* const> contexts) {
  std::vector<Stage> stages;
  int at = 0;
  for (const LoweringContext* c : contexts) {
    const auto& a = c->attrs<FusedConvAttrs>();
    if (!c->bound(1) || !is_dense(c->operands[0]) || !is_dense(c->results[0])) return nullptr;
    stages.push_back(
        {convolution_args(as_convolution(a, 4), c->operands[0], c->operands[1], c->results[0]),
         {kernel_activation(a.activation), a.has_bias ? at + 2 : -1, a.has_residual ? at + 2 + a.has_bias : -1}});
    at += static_cast<int>(c->operands.size()) - 1;
  }
  const PipelineStrategy strategy = plan_pipeline(
      {stages.size() == 3 ? &stages[0].args : nullptr, stages[stages.size() - 2].args, stages.back().args},
      kernels::cache_sizes());
  if (strategy.rows == 0) return nullptr;
  auto step = std::make_unique<PipelineStep>(contexts, std::move(stages), strategy.rows);
  step->set_strategy([reason = strategy.reason] { return text_of("pipeline: ", reason); });
  return step;
}

}  // namespace rlx::cpu
