// How windows slide, as numbers: the attributes of the window primitives, completed and checked. Neighbour:
// window_rules.h, the derivatives that follow from it.
#pragma once

#include "rlx/ops/window.h"

namespace rlx {

/// The extent of `extent` elements that stand `dilation` apart.
Dim dilated(const Dim& extent, int64_t dilation);

/// A sliding window with an entry for each dim in every list.
struct Sliding {
  Dims window, low, high;
  Axes stride, base, dilation;

  Sliding(size_t rank, Dims window_dims, const Axes& strides, const Axes& base_dilation, const Axes& window_dilation,
          const Dims& padding_low, const Dims& padding_high);
  Sliding(const ReduceWindowAttrs& a, size_t rank);
  Sliding(const SelectAndScatterAttrs& a, size_t rank);

  Dim count(size_t d, const Dim& extent) const;
  Dims counts(const Dims& extents) const;
  /// With numbers: where in the operand the window at `place` has its element `k`, or -1 in padding and gaps.
  int64_t position(size_t d, int64_t place, int64_t k, int64_t extent) const;
  /// What slides back: over one element for each window, spread out, to what the windows slid over. The windows that
  /// hold an element are then those that its window holds, in opposite order.
  Sliding back(const Dims& extents) const;

  ReduceWindowAttrs attrs(Reduction kind, const Subgraph& body = {}) const;
  ConvAttrs conv_attrs() const;
  bool is_padded() const;  ///< or cut
};

/// The layouts of a convolution, completed and checked.
struct ConvLayout {
  Axes lhs, rhs, out, lhs_spatial, rhs_spatial, out_spatial;

  ConvLayout(const ConvAttrs& a, Types in);
  Sliding sliding(const ConvAttrs& a, Types in) const;
};

}  // namespace rlx
