// How windows slide, as numbers: the attributes of the window primitives, completed and checked. Neighbour:
// window_rules.h, the derivatives that follow from it.
#pragma once

#include "rlx/ops/window.h"

namespace rlx {

/// The number of positions that `extent` elements take if neighbours are `dilation` apart.
Dim dilated(const Dim& extent, int64_t dilation);

/// Sliding windows. Each list has an entry for each dim.
struct Sliding {
  Dims window, low, high;
  Axes stride, base, dilation;

  Sliding(size_t rank, Dims window_dims, const Axes& strides, const Axes& base_dilation, const Axes& window_dilation,
          const Dims& padding_low, const Dims& padding_high);
  Sliding(const ReduceWindowAttrs& a, size_t rank);
  Sliding(const SelectAndScatterAttrs& a, size_t rank);

  Dim count(size_t d, const Dim& extent) const;
  Dims counts(const Dims& extents) const;
  /// For dims that are numbers: the index in the operand of element `k` of window number `place`, or -1 for padding and
  /// gaps.
  int64_t position(size_t d, int64_t place, int64_t k, int64_t extent) const;
  /// The windows of the transposed operation, which slide over one element per window (with gaps) and give one result
  /// for each element of `extents`. The window of such a result contains exactly the windows that contained its
  /// element, in reversed order.
  Sliding back(const Dims& extents) const;

  ReduceWindowAttrs attrs(Reduction kind, const Subgraph& body = {}) const;
  ConvAttrs conv_attrs() const;
  bool is_padded() const;  ///< whether padding is added, or elements are cut
};

/// The layouts of a convolution, completed and checked.
struct ConvLayout {
  Axes lhs, rhs, out, lhs_spatial, rhs_spatial, out_spatial;

  ConvLayout(const ConvAttrs& a, Types in);
  Sliding sliding(const ConvAttrs& a, Types in) const;
};

}  // namespace rlx
