// See the header.
#include "backends/cpu/convolution_chain.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "backends/cpu/convolution_steps.h"
#include "ir/leaves.h"
#include "kernels/depthwise_channels.h"
#include "kernels/few_channels.h"
#include "rlx/ops/fused_blocks.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;

const FusedConvAttrs* finished_convolution(const Graph& g, const Node& node) {
  if (node.op != &op::fused_conv) return nullptr;
  for (Ref r : node.operands)
    if (g.type(r).dtype != f32 || g.type(r).rank() == 3) return nullptr;
  const auto& a = node.attrs.as<FusedConvAttrs>();
  return a.channels_last && g.type(node.operands[0]).rank() == 4 ? &a : nullptr;
}
/// A product of the channels of each place, by weights that are known.
bool is_product(const Graph& g, const Node& node) {
  const FusedConvAttrs* a = finished_convolution(g, node);
  const auto all = [](const Axes& axes, int64_t n) {
    return std::all_of(axes.begin(), axes.end(), [&](int64_t i) { return i == n; });
  };
  if (!a || a->groups != 1 || !all(a->stride, 1) || !all(a->padding, 0) || !all(a->padding_high, 0)) return false;
  const Dims& w = g.type(node.operands[1]).dims;
  return w[2] == Dim(1) && w[3] == Dim(1) && is_leaf(g.node(node.operands[1]));
}
bool is_depthwise(const Graph& g, const Node& node) {
  const FusedConvAttrs* a = finished_convolution(g, node);
  if (!a || a->has_residual) return false;
  const Dim& channels = g.type(node.operands[0]).dims[3];
  const Ref w = node.operands[1];
  return channels == Dim(a->groups) && g.type(w).dims[0] == channels && is_leaf(g.node(w));
}

/// A product of each row of places.
class RowProduct {
 public:
  RowProduct() = default;
  RowProduct(const LoweringContext& c, const ConvolutionArgs& a)
      : places_(a.out_dims[1]), in_(a.in_channels), out_(a.out_channels),
        weights_(
            c.packed.rows(*c.bound(1), a, kernels::few_channels_weights_count, kernels::pack_few_channels_weights)) {}
  /// `rows` from row `x_row` of x to row `y_row` of y, of which the residual's are counterparts.
  void run(int64_t rows, const float* x, int64_t x_row, float* y, int64_t y_row,
           kernels::ConvolutionFinish finish) const noexcept {
    const int64_t to = y_row * places_ * out_;
    if (finish.residual) finish.residual += to;
    kernels::thin_product({rows * places_, in_, out_, x + x_row * places_ * in_, weights_->data(), y + to, finish});
  }

 private:
  int64_t places_ = 0, in_ = 0, out_ = 0;
  std::shared_ptr<const std::vector<float>> weights_;
};

struct Link {
  ConvolutionArgs args;
  FinishOperands finish;  ///< by positions among the chain's operands
};

class ChainStep final : public Step {
 public:
  /// `rows` of the depthwise convolution at a time. The first link may be missing.
  ChainStep(std::span<const LoweringContext* const> contexts, std::vector<Link> links, int64_t rows)
      : has_first_(links.size() == 3), threads_(contexts[0]->threads), depthwise_(links[links.size() - 2]),
        last_finish_(links.back().finish), rows_(rows) {
    const ConvolutionArgs& d = depthwise_.args;
    reach_ = (d.kernel[0] - 1) * d.rhs_dilation[0];
    const int64_t seen = std::min(d.in_dims[0], (rows - 1) * d.stride[0] + reach_ + 1);
    if (has_first_) {
      first_finish_ = links[0].finish;
      first_ = RowProduct(*contexts[0], links[0].args);
      seen_bytes_ = aligned(static_cast<size_t>(seen * d.in_dims[1] * d.in_channels) * sizeof(float));
    }
    last_ = RowProduct(*contexts.back(), links.back().args);
    made_bytes_ = aligned(static_cast<size_t>(rows * d.out_dims[1] * d.out_channels) * sizeof(float));
    own_ = seen_bytes_ + made_bytes_;
    const LoweringContext& c = *contexts[contexts.size() - 2];
    weights_ = c.packed.rows(*c.bound(1), d, kernels::depthwise_weights_count, kernels::pack_depthwise_weights);
    size_t at = 0;
    for (const LoweringContext* link : contexts) {
      packed_operands_.push_back(at + 1);
      at += link->operands.size() - 1;
    }
  }
  size_t scratch_bytes() const override { return own_ * static_cast<size_t>(threads_); }
  bool reads_operand(size_t i) const override {
    return std::find(packed_operands_.begin(), packed_operands_.end(), i) == packed_operands_.end();
  }
  std::string kernel() const override {
    return text_of(has_first_ ? "product, " : "", "depthwise convolution, product; ", rows_, " rows at a time");
  }
  void run(const StepArgs& step) const noexcept override {
    const int64_t of_image = depthwise_.args.out_dims[0], rows = depthwise_.args.batch * of_image;
    // A part begins with rows that the one before it has made as well: no more of them than threads, unless there are
    // bands enough for some more, so that a thread that was interrupted does not hold up the others.
    const int64_t bands = divided_up(rows, rows_), many = 4 * step.width;
    const int64_t parts = std::min<int64_t>(rows, bands < 4 * many ? step.width : many);
    step.pool.parallel_for(step.width, parts, [&](int64_t part, int slot) {
      Seen seen;
      for (int64_t row = rows * part / parts, last = rows * (part + 1) / parts; row < last;) {
        const int64_t begin = row % of_image, end = std::min({begin + rows_, of_image, begin + last - row});
        run_band(step, {row / of_image, begin, end}, seen, step.scratch + own_ * static_cast<size_t>(slot));
        row += end - begin;
      }
    });
  }

 private:
  /// Rows of an image that the first product has made: [begin, end).
  struct Seen {
    int64_t image = -1, begin = 0, end = 0;
  };

  /// Rows of the last result; no more than rows_.
  struct Band {
    int64_t image, begin, end;
  };
  void run_band(const StepArgs& step, const Band& band, Seen& seen, std::byte* own) const noexcept {
    ConvolutionArgs d = depthwise_.args;
    const auto [image, begin, end] = band;
    auto* const made = reinterpret_cast<float*>(own + seen_bytes_);
    const int64_t from = begin * d.stride[0] - d.low[0];  // the first row that is read, padding included
    d.x = step.in<float>(0) + image * d.x_batch_stride, d.y = made;
    d.low[0] = -from, d.out_dims[0] = end - begin, d.batch = 1;
    if (has_first_) {
      const int64_t rows = d.in_dims[0], first = std::clamp<int64_t>(from, 0, rows);
      const int64_t last = std::clamp(from + (end - begin - 1) * d.stride[0] + reach_ + 1, first, rows);
      make(step, image, first, last, seen, own);
      d.x = own, d.in_dims[0] = last - first, d.low[0] = first - from;
    }
    kernels::depthwise_of_channels(d, weights_->data(), depthwise_.finish.of(step), 0, end - begin);
    last_.run(end - begin, made, 0, step.out<float>(), image * depthwise_.args.out_dims[0] + begin,
              last_finish_.of(step));
  }
  /// The rows [begin, end) of the first product; those that are there already move to the front.
  void make(const StepArgs& step, int64_t image, int64_t begin, int64_t end, Seen& seen,
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
                 first_finish_.of(step));
    seen.begin = begin, seen.end = std::max(end, seen.end);
  }

  bool has_first_;
  int threads_;
  Link depthwise_;
  FinishOperands first_finish_, last_finish_;
  int64_t rows_, reach_ = 0;
  RowProduct first_, last_;
  std::shared_ptr<const std::vector<float>> weights_;
  size_t seen_bytes_ = 0, made_bytes_ = 0, own_ = 0;
  std::vector<size_t> packed_operands_;
};

}  // namespace

std::vector<ConvolutionChain> convolution_chains(const Graph& g) {
  const auto& nodes = g.nodes();
  // Schedules are made for each shape: most graphs are done with here.
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &op::fused_conv; })) return {};
  std::map<Ref, int> readers;
  for (const Node& node : nodes)
    for (Ref r : node.operands) ++readers[r];
  for (const Output& o : g.outputs()) ++readers[o.ref];
  // The node that alone reads the one before it, and has nothing but leaves in between.
  const auto before = [&](size_t n) -> std::optional<size_t> {
    const Ref x = nodes[n].operands[0];
    const auto from = static_cast<size_t>(x.node);
    if (readers[x] != 1) return {};
    for (size_t i = from + 1; i < n; ++i)
      if (!is_leaf(nodes[i])) return {};
    return from;
  };
  std::vector<ConvolutionChain> chains;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!is_product(g, nodes[n])) continue;
    const auto middle = before(n);
    if (!middle || !is_depthwise(g, nodes[*middle])) continue;
    const auto first = before(*middle);
    const bool has_first =
        first && is_product(g, nodes[*first]) && !nodes[*first].attrs.as<FusedConvAttrs>().has_residual;
    if (has_first) chains.push_back({{*first, *middle, n}});
    else chains.push_back({{*middle, n}});
  }
  return chains;
}

std::unique_ptr<Step> lower_convolution_chain(std::span<const LoweringContext* const> contexts) {
  constexpr int64_t kThin = 48, kFewestPlaces = 784, kCacheBytes = 768 << 10, kWorthBytes = 3 << 19, kMostRows = 64;
  std::vector<Link> links;
  int at = 0;
  for (const LoweringContext* c : contexts) {
    const auto& a = c->attrs<FusedConvAttrs>();
    if (!c->bound(1) || !is_dense(c->operands[0]) || !is_dense(c->results[0])) return nullptr;
    links.push_back(
        {convolution_args(as_convolution(a, 4), c->operands[0], c->operands[1], c->results[0]),
         {kernel_activation(a.activation), a.has_bias ? at + 2 : -1, a.has_residual ? at + 2 + a.has_bias : -1}});
    at += static_cast<int>(c->operands.size()) - 1;
  }
  const ConvolutionArgs& d = links[links.size() - 2].args;
  if (!kernels::is_depthwise_of_channels(d) || d.low[0] < 0 || d.low[0] > d.kernel[0] * d.rhs_dilation[0] ||
      d.stride[0] > kMostRows || d.rhs_dilation[0] > kMostRows || d.kernel[0] > kMostRows)
    return nullptr;
  // Wider products are faster by themselves, by tiles or panel by panel.
  if ((links.size() == 3 && links[0].args.in_channels > kThin) || links.back().args.out_channels > kThin)
    return nullptr;
  const int64_t in_row = d.in_dims[1] * d.in_channels * 4, out_row = d.out_dims[1] * d.out_channels * 4;
  if (d.in_dims[0] * d.in_dims[1] < kFewestPlaces || d.out_dims[0] * d.out_dims[1] == 0 ||
      d.batch * (in_row * d.in_dims[0] + out_row * d.out_dims[0]) < kWorthBytes)
    return nullptr;
  // As many rows as the cache holds, and no shorter a band at the end than need be.
  const int64_t halo = std::max<int64_t>(0, (d.kernel[0] - 1) * d.rhs_dilation[0] + 1 - d.stride[0]) * in_row;
  const int64_t row = out_row + d.stride[0] * in_row;
  int64_t rows = std::clamp<int64_t>((kCacheBytes - halo) / row, 1, std::min(kMostRows, d.out_dims[0]));
  rows = divided_up(d.out_dims[0], divided_up(d.out_dims[0], rows));
  return std::make_unique<ChainStep>(contexts, std::move(links), rows);
}

}  // namespace rlx::cpu
