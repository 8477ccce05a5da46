// See the header.
#include "kernels/conv/convolution_slices.h"

#include <algorithm>
#include <cmath>

#include "base/rounded_up.h"
#include "kernels/partial_sums.h"

namespace rlx::kernels {
namespace {

/// Cuts each slice along one dim into at most `max_pieces`, whose extents are multiples of `multiple` but for the last.
/// count(slice) is the extent of that dim, and narrow(slice, begin, count) restricts a slice to a range of it.
template <class Count, class Narrow>
void cut(std::vector<ConvolutionSlice>& slices, int64_t max_pieces, int64_t multiple, Count count, Narrow narrow) {
  std::vector<ConvolutionSlice> all;
  for (const ConvolutionSlice& s : slices) {
    const int64_t multiples = divided_up(count(s), multiple), pieces = std::clamp<int64_t>(multiples, 1, max_pieces);
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t begin = multiples * i / pieces * multiple;
      const int64_t end = std::min(count(s), multiples * (i + 1) / pieces * multiple);
      ConvolutionSlice piece = s;
      narrow(piece, begin, end - begin);
      all.push_back(piece);
    }
  }
  slices = std::move(all);
}

/// How many images one call of oneDNN computes. oneDNN reorders images to a layout of its own, which should stay in the
/// second-level cache. If the weights are not packed in advance, and reordering them in each call would cost more, one
/// call computes all images.
int64_t images_per_call(const ConvolutionArgs& a, bool packs_weights) {
  constexpr int64_t kCacheBytes = 2 << 20;
  int64_t read = a.in_channels, made = a.out_channels, weights = a.out_channels * (a.in_channels / a.groups);
  for (int d = 0; d < a.spatial; ++d) read *= a.in_dims[d], made *= a.out_dims[d], weights *= a.kernel[d];
  if (!packs_weights && 4 * weights > read + made) return a.batch;
  return std::max<int64_t>(1, kCacheBytes / std::max<int64_t>(1, int64_t{4} * (read + made)));
}

/// Restricts a slice to the output rows [begin, begin + count) of the first spatial dim, and x to the rows they read.
void narrow_to_rows(ConvolutionSlice& s, int64_t begin, int64_t count) {
  ConvolutionArgs& a = s.args;
  const int64_t first = begin * a.stride[0] - a.low[0];
  const int64_t last = (begin + count - 1) * a.stride[0] - a.low[0] + (a.kernel[0] - 1) * a.rhs_dilation[0];
  const int64_t from = std::clamp<int64_t>(first, 0, a.in_dims[0] - 1), to = std::clamp(last, from, a.in_dims[0] - 1);
  s.offset[kX] += from * a.x_strides[0], s.offset[kY] += begin * a.y_strides[0];
  a.low[0] = from - first, a.in_dims[0] = to + 1 - from, a.out_dims[0] = count;
}

/// The longest running sum that keeps a sum of `terms` within the promise (see partial_sums.h): partial sums of L equal
/// terms lose up to L / 4 times 2^-24 of their sum and their addition little more, which the promise allows up to L
/// = 15.8 sqrt(terms).
int64_t longest_running_sum(double terms) {
  return std::max(kPartialSumTerms, static_cast<int64_t>(15 * std::sqrt(terms)));
}

/// Restricts a slice to the kernel rows [begin, begin + count) of the first spatial dim, and x to the rows they read.
void narrow_to_taps(ConvolutionSlice& s, int64_t begin, int64_t count) {
  ConvolutionArgs& a = s.args;
  const int64_t first = begin * a.rhs_dilation[0] - a.low[0];
  const int64_t last = (a.out_dims[0] - 1) * a.stride[0] + (begin + count - 1) * a.rhs_dilation[0] - a.low[0];
  const int64_t from = std::clamp<int64_t>(first, 0, a.in_dims[0] - 1), to = std::clamp(last, from, a.in_dims[0] - 1);
  s.offset[kX] += from * a.x_strides[0], s.offset[kW] += begin * a.w_strides[0];
  a.low[0] = from - first, a.in_dims[0] = to + 1 - from, a.kernel[0] = count;
}

}  // namespace

std::vector<ConvolutionSlice> slices_for_threads(const ConvolutionArgs& args, int64_t batch_groups,
                                                 ConvolutionForm form, int threads, bool packs_weights) {
  constexpr int64_t kChannels = 16;  // f32 lanes of a vector, which oneDNN fills with channels
  std::vector<ConvolutionSlice> slices = {{args, batch_groups}};
  // How many pieces each slice must be cut into for every thread to have one.
  const auto missing = [&] { return std::max<int64_t>(1, threads / static_cast<int64_t>(slices.size())); };
  const auto batch = [&] {
    if (batch_groups > 1 || missing() == 1) return;
    cut(
        slices, missing(), form == ConvolutionForm::weights ? kChannels : 1,
        [](const ConvolutionSlice& s) { return s.args.batch; },
        [](ConvolutionSlice& s, int64_t begin, int64_t count) {
          s.offset[kX] += begin * s.args.x_batch_stride, s.offset[kY] += begin * s.args.y_batch_stride;
          s.args.batch = count;
        });
  };
  const auto channels = [&] {
    if (missing() == 1) return;
    const int64_t groups = std::max(args.groups, batch_groups), of_group = args.out_channels / groups;
    const int64_t multiple = groups > 1 ? std::max<int64_t>(1, kChannels / of_group) : kChannels;
    cut(
        slices, missing(), multiple,
        [&](const ConvolutionSlice& s) { return groups > 1 ? groups : s.args.out_channels; },
        [&](ConvolutionSlice& s, int64_t begin, int64_t count) {
          const int64_t made = groups > 1 ? of_group : 1;
          s.offset[kW] += begin * made * s.args.w_out_stride, s.offset[kY] += begin * made * s.args.y_channel_stride;
          s.args.out_channels = count * made, s.channel += begin * made;
          if (args.groups > 1) {
            const int64_t read = args.in_channels / args.groups;
            s.offset[kX] += begin * read * s.args.x_channel_stride;
            s.args.groups = count, s.args.in_channels = count * read;
          } else if (batch_groups > 1) {
            s.offset[kX] += begin * s.args.batch * s.args.x_batch_stride;
            s.batch_groups = count;
          }
        });
  };
  if (form == ConvolutionForm::weights) {
    channels(), batch();
    return slices;
  }
  // Channels-last images are split by rows: oneDNN's kernels then need all channels of a pixel.
  const bool channels_last = args.spatial > 1 && args.x_channel_stride == 1 && args.y_channel_stride == 1;
  const bool splits_rows = channels_last && form == ConvolutionForm::forward && batch_groups == 1 && args.groups == 1;
  batch();
  if (splits_rows && missing() > 1)
    cut(
        slices, missing(), 1, [](const ConvolutionSlice& s) { return s.args.out_dims[0]; }, narrow_to_rows);
  channels();
  if (batch_groups == 1) {
    const int64_t batch_count = slices.front().args.batch, together = images_per_call(args, packs_weights);
    cut(
        slices, divided_up(batch_count, together), 1, [](const ConvolutionSlice& s) { return s.args.batch; },
        [](ConvolutionSlice& s, int64_t begin, int64_t count) {
          s.offset[kX] += begin * s.args.x_batch_stride, s.offset[kY] += begin * s.args.y_batch_stride;
          s.args.batch = count;
        });
  }
  return slices;
}

std::vector<ConvolutionSlice> partial_sums_of(const ConvolutionSlice& s, ConvolutionForm form) {
  const ConvolutionArgs& a = s.args;
  const int64_t channels = a.in_channels / a.groups;
  double terms = static_cast<double>(channels), of_channel = 1;
  for (int d = 0; d < a.spatial; ++d)
    of_channel *= static_cast<double>(a.kernel[d]) / static_cast<double>(std::min(a.lhs_dilation[d], a.kernel[d]));
  terms *= of_channel;
  const auto longest = static_cast<double>(longest_running_sum(terms));
  std::vector<ConvolutionSlice> slices = {s};
  if (terms <= longest) return slices;
  int64_t channels_of_slice = channels;
  if (a.groups == 1) {
    // The multiple is a whole vector of channels. (The channels of a weight gradient are images, of which any number
    // will do.)
    const int64_t multiple = form == ConvolutionForm::weights ? 1 : 16;
    const auto together = std::max<int64_t>(multiple, static_cast<int64_t>(longest / of_channel) / multiple * multiple);
    cut(
        slices, divided_up(channels, together), multiple,
        [](const ConvolutionSlice& slice) { return slice.args.in_channels; },
        [](ConvolutionSlice& slice, int64_t begin, int64_t count) {
          slice.offset[kX] += begin * slice.args.x_channel_stride, slice.offset[kW] += begin * slice.args.w_in_stride;
          slice.args.in_channels = count;
        });
    channels_of_slice = std::min(together, channels);
  }
  if (const double of_slice = static_cast<double>(channels_of_slice) * of_channel; of_slice > longest) {
    const double of_row = of_slice / static_cast<double>(a.kernel[0]);
    if (a.lhs_dilation[0] != 1 || of_row > longest) return {};
    cut(
        slices, divided_up(a.kernel[0], static_cast<int64_t>(longest / of_row)), 1,
        [](const ConvolutionSlice& slice) { return slice.args.kernel[0]; }, narrow_to_taps);
  }
  return slices;
}

}  // namespace rlx::kernels
