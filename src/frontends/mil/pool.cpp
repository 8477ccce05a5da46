// Pools over the dims behind batch and channels.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {

struct Windows {
  ReduceWindowAttrs attrs;
  Padding explicit_padding;  ///< what counts as part of x in a mean; the rest is of ceil_mode
};

Windows windows(Call& op, Value x) {
  if (x.rank() < 3 || x.rank() > 5) op.wrong("x ", x.type(), " must be of rank 3, 4 or 5");
  size_t n = x.dims().size() - 2;
  Axes kernel = op.integers("kernel_sizes"), strides = op.integers("strides", Axes(n, 1));
  if (kernel.size() != n || strides.size() != n) op.wrong("kernel_sizes and strides take ", n, " numbers each");
  for (size_t i = 0; i < n; ++i)
    if (kernel[i] < 1 || strides[i] < 1) op.wrong("kernel_sizes and strides are at least 1");
  Dims spatial(x.dims().begin() + 2, x.dims().end());
  Padding p = padding_of(op, spatial, kernel, strides, Axes(n, 1), op.word("pad_type", "valid"));
  Windows w{{}, p};
  if (op.flag("ceil_mode", false))  // the last window begins within x or the padding in front of it (PyTorch's rule)
    for (size_t i = 0; i < n; ++i) {
      int64_t extent = static_dim(op, x, static_cast<int64_t>(i) + 2), low = p.low[i].value(), high = p.high[i].value();
      int64_t out = (extent + low + high - kernel[i] + strides[i] - 1) / strides[i] + 1;
      if ((out - 1) * strides[i] >= extent + low && (low > 0 || high > 0)) --out;
      p.high[i] = std::max(high, (out - 1) * strides[i] + kernel[i] - extent - low);
    }
  w.attrs.window_dims = {1, 1}, w.attrs.strides = {1, 1};
  w.attrs.padding_low = {0, 0}, w.attrs.padding_high = {0, 0};
  for (size_t i = 0; i < n; ++i) {
    w.attrs.window_dims.emplace_back(kernel[i]), w.attrs.strides.push_back(strides[i]);
    w.attrs.padding_low.push_back(p.low[i]), w.attrs.padding_high.push_back(p.high[i]);
  }
  return w;
}

Value windowed(Value x, Windows w, Reduction kind) {
  w.attrs.kind = kind;
  return reduce_window(x, w.attrs);
}

}  // namespace

MIL_OP(max_pool) {
  Value x = op("x");
  return one(windowed(x, windows(op, x), Reduction::max));
}

MIL_OP(avg_pool) {
  Value x = op("x");
  bool exclude = op.flag("exclude_padding_from_average", false);
  Windows w = windows(op, x);
  Value sum = windowed(x, w, Reduction::sum);
  // How many places of x (and of the padding, if that counts) each window has: windows over ones, of one image.
  Dims dims = x.dims();
  dims[0] = dims[1] = Dim(1);
  Windows over = w;
  if (!exclude)
    for (size_t i = 2; i < dims.size(); ++i) {
      const Padding& p = w.explicit_padding;
      dims[i] = dims[i] + p.low[i - 2] + p.high[i - 2];
      over.attrs.padding_low[i] = 0, over.attrs.padding_high[i] = w.attrs.padding_high[i] - p.high[i - 2];
    }
  Value count = windowed(full(op.graph(), 1, {x.dtype(), dims}), over, Reduction::sum);
  return one(sum / count);
}

MIL_OP(l2_pool) {
  Value x = op("x");
  return one(rlx::sqrt(windowed(rlx::square(x), windows(op, x), Reduction::sum)));
}

}  // namespace rlx::mlprogram
