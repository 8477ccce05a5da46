// Convolution and pooling: composites of convolution and reduce_window.
#include "rlx/ops/conv.h"

#include "ops/control/subgraph_rules.h"
#include "ops/core/elementwise_rules.h"
#include "ops/nn/window_rules.h"
#include "rlx/ops/backward.h"

namespace rlx {

// ---- builders ----
Value conv(Value x, Value w, ConvNdAttrs attrs) { return emit(op::conv, {x, w}, std::move(attrs)); }
Value conv_transpose(Value x, Value w, ConvTransposeAttrs attrs) {
  return emit(op::conv_transpose, {x, w}, std::move(attrs));
}
Value conv_backward_input(Value ct, Value w, ConvNdAttrs a, Dims size) {
  return emit(op::conv_backward_input, {ct, w},
              ConvBackwardAttrs{a.stride, a.padding, a.dilation, a.groups, std::move(size)});
}
Value conv_backward_weight(Value x, Value ct, ConvNdAttrs a, Dims size) {
  return emit(op::conv_backward_weight, {x, ct},
              ConvBackwardAttrs{a.stride, a.padding, a.dilation, a.groups, std::move(size)});
}
Value max_pool_backward(Value x, Value ct, PoolAttrs attrs) {
  return emit(op::max_pool_backward, {x, ct}, std::move(attrs));
}
Value pool(Value x, PoolAttrs attrs) { return emit(op::pool, {x}, std::move(attrs)); }
Value global_pool(Value x, PoolKind kind, int64_t spatial) {
  if (spatial < 0) spatial = std::max<int64_t>(x.rank() - 2, 0);
  if (spatial > x.rank()) fail(ErrorCode::invalid_argument, x.type(), " has fewer than ", spatial, " dims");
  return pool(x, {kind, Dims(x.dims().end() - spatial, x.dims().end()), Axes(size_t(spatial), 1)});
}
Value adaptive_mean_pool(Value x, Axes sizes) {
  if (int64_t(sizes.size()) > x.rank())
    fail(ErrorCode::invalid_argument, x.type(), " has fewer than ", sizes.size(), " dims");
  auto first = x.rank() - int64_t(sizes.size());
  DType dtype = x.dtype();
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t axis = first + int64_t(i), n = sizes[i];
    Dim extent = x.dim(axis);
    if (n < 1) fail(ErrorCode::invalid_argument, "a pool cannot have ", n, " windows");
    if (extent == Dim(n)) continue;
    if (n == 1 || (extent.is_static() && extent.value() % n == 0)) {
      Dims kernel(size_t(x.rank() - axis), Dim(1));
      kernel[0] = n == 1 ? extent : extent / n;
      Axes stride(kernel.size(), 1);
      if (n > 1) stride[0] = kernel[0].value();
      x = pool(x, {PoolKind::mean, kernel, stride});
      continue;
    }
    // Windows of unequal lengths: a product with a matrix that averages, in f32 or wider.
    if (is_low_precision(x.dtype())) x = convert(x, f32);
    int64_t count = extent.value();
    Array<double> weights(Shape{count, n});
    for (int64_t to = 0; to < n; ++to) {
      int64_t start = to * count / n, end = ((to + 1) * count + n - 1) / n;
      for (int64_t from = start; from < end; ++from) weights.at({from, to}) = 1 / double(end - start);
    }
    Value averaged = dot_general(x, x.graph().constant(weights.rounded_to(x.dtype())), {{}, {}, {axis}, {0}});
    Axes back = axes_from(0, size_t(x.rank()) - 1);
    back.insert(back.begin() + axis, x.rank() - 1);
    x = transpose(averaged, back);
  }
  return convert(x, dtype);
}

namespace {

Dims spatial_dims(Value x) { return Dims(x.dims().begin() + 2, x.dims().end()); }
Dims as_dims(const Axes& numbers) { return Dims(numbers.begin(), numbers.end()); }
Axes complete(const Axes& list, size_t count, int64_t otherwise, std::string_view what) {
  if (!list.empty() && list.size() != count)
    fail(ErrorCode::invalid_argument, what, " must have one entry for each of the ", count, " spatial dims, got ",
         list.size());
  return list.empty() ? Axes(count, otherwise) : list;
}

ConvAttrs as_convolution(const ConvNdAttrs& a) {
  return {.strides = a.stride,
          .padding_low = as_dims(a.padding),
          .padding_high = as_dims(a.padding),
          .rhs_dilation = a.dilation,
          .feature_group_count = a.groups};
}

ConvNdAttrs forward(const ConvBackwardAttrs& a) { return {a.stride, a.padding, a.dilation, a.groups}; }
/// What conv_backward_input and conv_backward_weight return: x, and w, of which `first` has dims 0 and 1.
Type spatial_type(const Type& like, Dims first, const ConvBackwardAttrs& a) {
  first.insert(first.end(), a.size.begin(), a.size.end());
  return {like.dtype, std::move(first)};
}
void require_conv_features(const Type& a, const Type& b, std::string_view first, std::string_view second) {
  if (a.rank() < 3 || b.rank() != a.rank() || a.dtype != b.dtype)
    fail(ErrorCode::shape_mismatch, first, " and ", second,
         " must be of one dtype and rank, with features and at least ", "one spatial dim, got ", a, " and ", b);
}
void require_ct(const Type& x, const Type& w, const Type& ct, const ConvBackwardAttrs& a) {
  Type wanted = infer_types(op::convolution, std::array{x, w}, as_convolution(forward(a)))[0];
  if (wanted != ct)
    fail(ErrorCode::shape_mismatch, "x ", x, " convolved with w ", w, " gives ", wanted, ", but its cotangent is ", ct,
         "; `size` is ", Type{x.dtype, a.size});
}
Type conv_input_type(Types in, const ConvBackwardAttrs& a) {
  require_conv_features(in[0], in[1], "ct", "w");
  Type x = spatial_type(in[0], {in[0].dims[0], in[1].dims[1] * a.groups}, a);
  return require_ct(x, in[1], in[0], a), x;
}
Type conv_weight_type(Types in, const ConvBackwardAttrs& a) {
  require_conv_features(in[0], in[1], "x", "ct");
  const Dim& features = in[0].dims[1];
  if (a.groups < 1 || (features.is_static() && features.value() % a.groups != 0))
    fail(ErrorCode::shape_mismatch, "the ", features, " features of ", in[0], " do not divide into ", a.groups,
         " groups");
  Type w = spatial_type(in[0], {in[1].dims[1], features / a.groups}, a);
  return require_ct(in[0], w, in[1], a), w;
}

/// The attributes of a transposed convolution, completed and checked: as a convolution of the spread-out x with the
/// flipped kernel.
ConvAttrs as_convolution(Types in, const ConvTransposeAttrs& a) {
  const Type &x = in[0], &w = in[1];
  if (x.rank() < 3 || w.rank() != x.rank() || x.dtype != w.dtype)
    fail(ErrorCode::shape_mismatch,
         "x [N, C, spatial...] and w [C, O / groups, kernel...] of one dtype are needed, got ", x, " and ", w);
  if (a.groups < 1 || x.dims[1] != w.dims[0] || (x.dims[1].is_static() && x.dims[1].value() % a.groups != 0))
    fail(ErrorCode::shape_mismatch, "the ", x.dims[1], " features of ", x, " must be the first dim of the kernel ", w,
         " and a multiple of the ", a.groups, " groups");
  size_t spatial = x.rank() - 2;
  Axes stride = complete(a.stride, spatial, 1, "stride"), padding = complete(a.padding, spatial, 0, "padding"),
       more = complete(a.output_padding, spatial, 0, "output_padding"),
       dilation = complete(a.dilation, spatial, 1, "dilation");
  ConvAttrs c{.lhs_dilation = stride, .rhs_dilation = dilation, .feature_group_count = a.groups};
  for (size_t d = 0; d < spatial; ++d) {
    if (more[d] < 0 || (more[d] > 0 && more[d] >= std::max(stride[d], dilation[d])))
      fail(ErrorCode::invalid_argument, "output_padding ", more[d], " along spatial dim ", d,
           " must not be negative, and be less than the stride ", stride[d], " or the dilation ", dilation[d]);
    Dim reach = (w.dims[d + 2] - Dim(1)) * dilation[d];
    c.padding_low.push_back(reach - Dim(padding[d]));
    c.padding_high.push_back(reach - Dim(padding[d]) + Dim(more[d]));
  }
  return c;
}
/// [C, O / groups, ...] -> [O, C / groups, ...], as dims.
Dims transposed_kernel(const Type& w, int64_t groups) {
  Dims dims = w.dims;
  dims[0] = w.dims[1] * groups, dims[1] = w.dims[0] / groups;
  return dims;
}

ReduceWindowAttrs as_reduce_window(const Type& x, const PoolAttrs& a) {
  size_t spatial = a.kernel_size.size(), outer = x.rank() - spatial;
  if (spatial > x.rank()) fail(ErrorCode::shape_mismatch, "a kernel of ", spatial, " dims does not slide over ", x);
  constexpr std::array kinds = {Reduction::max, Reduction::sum, Reduction::sum, Reduction::min, Reduction::prod};
  ReduceWindowAttrs r{kinds[size_t(a.kind)], Dims(outer, Dim(1)), Axes(outer, 1),     {},
                      Axes(outer, 1),        Dims(outer, Dim(0)), Dims(outer, Dim(0))};
  Axes padding = complete(a.padding, spatial, 0, "padding"), dilation = complete(a.dilation, spatial, 1, "dilation"),
       stride = a.stride.empty() ? shape_of(a.kernel_size) : complete(a.stride, spatial, 1, "stride");
  Axes high = a.padding_high.empty() ? padding : complete(a.padding_high, spatial, 0, "padding_high");
  for (size_t d = 0; d < spatial; ++d) {
    if (padding[d] < 0 || high[d] < 0)
      fail(ErrorCode::invalid_argument, "the padding of spatial dim ", d, " is ", padding[d], " and ", high[d],
           "; it cannot be negative");
    r.window_dims.push_back(a.kernel_size[d]);
    r.strides.push_back(stride[d]);
    r.window_dilation.push_back(dilation[d]);
    r.padding_low.emplace_back(padding[d]);
    r.padding_high.emplace_back(high[d]);
  }
  return r;
}
bool is_padded(const ReduceWindowAttrs& r) {
  auto some = [](const Dims& dims) {
    return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d != Dim(0); });
  };
  return some(r.padding_low) || some(r.padding_high);
}

}  // namespace

OpDef define_conv() {
  return define<ConvNdAttrs>({
      .name = "conv",
      .doc = "x [N, C, spatial...] with the kernels w [O, C / groups, kernel...]: cross-correlation, zeros around x, "
             "as much padding after as before",
      .operands = {"x", "w"},
      .covers = {"Conv", "Conv3d"},
      .infer = [](Types in, const ConvNdAttrs& a) { return infer_types(op::convolution, in, as_convolution(a)); },
      .decompose = [](Values in, const ConvNdAttrs& a) { return convolution(in[0], in[1], as_convolution(a)); },
      .vjp = [](Values in, Value, Value ct, const ConvNdAttrs& a) -> Many<Value> {
        if (in[0].dims().size() < 3)  // no spatial dims: a product
          return {convolution_ct_of_lhs(in[0].type(), in[1], ct, as_convolution(a)),
                  convolution_ct_of_rhs(in[0], in[1].type(), ct, as_convolution(a))};
        return {conv_backward_input(ct, in[1], a, spatial_dims(in[0])),
                conv_backward_weight(in[0], ct, a, spatial_dims(in[1]))};
      },
      .samples = {{.dims = {{2, 3, 5, 6}, {4, 3, 3, 3}}, .attrs = ConvNdAttrs{{}, {1, 1}}},
                  {.dims = {{1, 4, 7}, {6, 2, 3}}, .attrs = ConvNdAttrs{{2}, {1}, {2}, 2}},
                  {.dims = {{1, 2, 3, 4, 3}, {2, 1, 2, 2, 2}}, .attrs = ConvNdAttrs{{}, {}, {}, 2}},
                  {.dims = {{2, 3}, {4, 3}}},
                  {.dims = {{0, 2, 4}, {3, 2, 1}}, .attrs = ConvNdAttrs{{3}}}},
  });
}

OpDef define_conv_transpose() {
  return define<ConvTransposeAttrs>({
      .name = "conv_transpose",
      .doc =
          "the transpose of conv as a linear map of x: each element of x [N, C, spatial...] adds its multiple of the "
          "kernels w [C, O / groups, "
          "kernel...] to the result; `padding` places are cut off on both sides, `output_padding` are added at the end",
      .source = "torch.nn.ConvTranspose2d",
      .operands = {"x", "w"},
      .covers = {"ConvTranspose2d", "ConvTranspose3d"},
      .infer =
          [](Types in, const ConvTransposeAttrs& a) {
            ConvAttrs c = as_convolution(in, a);
            return infer_types(op::convolution,
                               std::array{in[0], Type{in[1].dtype, transposed_kernel(in[1], a.groups)}}, c);
          },
      .decompose =
          [](Values in, const ConvTransposeAttrs& a) {
            ConvAttrs c = as_convolution(std::array{in[0].type(), in[1].type()}, a);
            Value w = reverse(in[1], axes_from(2, in[1].dims().size() - 2));
            if (a.groups == 1) {
              c.rhs_layout = axes_from(0, w.dims().size());
              std::swap(c.rhs_layout[0], c.rhs_layout[1]);
              return convolution(in[0], w, c);
            }
            Dims parts = w.dims();
            parts[0] = parts[0] / a.groups;
            parts.insert(parts.begin(), Dim(a.groups));
            Axes order = axes_from(0, parts.size());
            std::swap(order[1], order[2]);
            w = reshape(transpose(reshape(w, parts), order), transposed_kernel(in[1].type(), a.groups));
            return convolution(in[0], w, c);
          },
      .samples = {{.dims = {{1, 3, 4}, {3, 2, 3}}, .attrs = ConvTransposeAttrs{{2}, {1}, {1}}},
                  {.dims = {{1, 4, 3, 3}, {4, 1, 2, 3}},
                   .attrs = ConvTransposeAttrs{{2, 1}, {0, 1}, {1, 0}, {1, 2}, 2}},
                  {.dims = {{2, 2, 2, 2, 2}, {2, 1, 2, 2, 2}}},
                  {.dims = {{1, 1, 1}, {1, 2, 3}}, .attrs = ConvTransposeAttrs{{1}, {}, {2}, {3}}}},
  });
}

OpDef define_conv_backward_input() {
  return define<ConvBackwardAttrs>({
      .name = "conv_backward_input",
      .doc = "the cotangent of x of conv(x, w), whose attributes it takes besides `size`, the spatial dims of x",
      .operands = {"ct", "w"},
      .covers = {"Conv2dBackwardInput", "Conv3dBackwardInput"},
      .infer = [](Types in, const ConvBackwardAttrs& a) { return conv_input_type(in, a); },
      .decompose =
          [](Values in, const ConvBackwardAttrs& a) {
            Type x = conv_input_type(std::array{in[0].type(), in[1].type()}, a);
            return convolution_ct_of_lhs(x, in[1], in[0], as_convolution(forward(a)));
          },
      .samples = {{.dims = {{2, 4, 5, 6}, {4, 3, 3, 3}}, .attrs = ConvBackwardAttrs{{}, {1, 1}, {}, 1, {5, 6}}},
                  {.dims = {{1, 6, 3}, {6, 2, 3}}, .attrs = ConvBackwardAttrs{{2}, {1}, {2}, 2, {7}}},
                  {.dims = {{1, 6, 3}, {6, 2, 3}}, .attrs = ConvBackwardAttrs{{2}, {1}, {2}, 2, {8}}},
                  {.dims = {{1, 2, 2, 3, 2}, {2, 1, 2, 2, 2}}, .attrs = ConvBackwardAttrs{{}, {}, {}, 2, {3, 4, 3}}},
                  {.dims = {{2, 3, 0}, {3, 1, 4}}, .attrs = ConvBackwardAttrs{{}, {}, {}, 1, {2}}}},
  });
}

OpDef define_conv_backward_weight() {
  return define<ConvBackwardAttrs>({
      .name = "conv_backward_weight",
      .doc = "the cotangent of w of conv(x, w), whose attributes it takes besides `size`, the kernel's extents",
      .operands = {"x", "ct"},
      .covers = {"Conv2dBackwardWeight", "Conv3dBackwardWeight"},
      .infer = [](Types in, const ConvBackwardAttrs& a) { return conv_weight_type(in, a); },
      .decompose =
          [](Values in, const ConvBackwardAttrs& a) {
            Type w = conv_weight_type(std::array{in[0].type(), in[1].type()}, a);
            return convolution_ct_of_rhs(in[0], w, in[1], as_convolution(forward(a)));
          },
      .samples = {{.dims = {{2, 3, 5, 6}, {2, 4, 5, 6}}, .attrs = ConvBackwardAttrs{{}, {1, 1}, {}, 1, {3, 3}}},
                  {.dims = {{1, 4, 7}, {1, 6, 3}}, .attrs = ConvBackwardAttrs{{2}, {1}, {2}, 2, {3}}},
                  {.dims = {{1, 4, 8}, {1, 6, 3}}, .attrs = ConvBackwardAttrs{{2}, {1}, {2}, 2, {3}}},
                  {.dims = {{1, 2, 3, 4, 3}, {1, 2, 2, 3, 2}}, .attrs = ConvBackwardAttrs{{}, {}, {}, 2, {2, 2, 2}}},
                  {.dims = {{2, 1, 2}, {2, 3, 0}}, .attrs = ConvBackwardAttrs{{}, {}, {}, 1, {4}}}},
  });
}

OpDef define_max_pool_backward() {
  return define<PoolAttrs>({
      .name = "max_pool_backward",
      .doc =
          "the cotangent of x of a max or min pool, whose attributes it takes: zeros, to which each element of ct is "
          "added where its window has its first extreme",
      .operands = {"x", "ct"},
      .covers = {"MaxPool2dBackward", "MaxPool3dBackward"},
      .infer =
          [](Types in, const PoolAttrs& a) {
            if (a.kind != PoolKind::max && a.kind != PoolKind::min)
              fail(ErrorCode::invalid_argument, "the kind is '", names_of(a.kind)[size_t(a.kind)],
                   "'; only max and min choose an element");
            require_kind(in[0], kReal);
            Type wanted = infer_types(op::reduce_window, in.first(1), as_reduce_window(in[0], a))[0];
            if (in[1] != wanted)
              fail(ErrorCode::shape_mismatch, "the windows of ", in[0], " need a cotangent ", wanted, ", got ", in[1]);
            return in[0];
          },
      .decompose =
          [](Values in, const PoolAttrs& a) {
            return window_extreme_ct(in[0], in[1], as_reduce_window(in[0].type(), a));
          },
      .samples = {{.dims = {{2, 3, 6, 6}, {2, 3, 3, 3}}, .attrs = PoolAttrs{PoolKind::max, {2, 2}}},
                  {.dims = {{1, 2, 5, 7}, {1, 2, 3, 4}}, .attrs = PoolAttrs{PoolKind::max, {3, 2}, {2, 2}, {1, 1}}},
                  {.dims = {{1, 7}, {1, 2}}, .attrs = PoolAttrs{PoolKind::min, {3}, {2}, {1}, {0}, {2}}},
                  {.dims = {{1, 1, 3, 4, 3}, {1, 1, 2, 2, 1}}, .attrs = PoolAttrs{PoolKind::max, {2, 3, 3}, {1, 1, 1}}},
                  {.dims = {{2, 0}, {2, 0}}, .attrs = PoolAttrs{PoolKind::max, {2}}}},
  });
}

OpDef define_pool() {
  return define<PoolAttrs>({
      .name = "pool",
      .doc = "max, mean, sum, min or prod of windows of the last dims. Padding is never the greatest or the least; a "
             "mean divides by the kernel's whole "
             "area, or without count_include_pad by its part within x",
      .operands = {"x"},
      .covers = {"Pool"},
      .infer =
          [](Types in, const PoolAttrs& a) {
            if (a.kind == PoolKind::mean) require_kind(in[0], kReal | kComplex);
            return infer_types(op::reduce_window, in, as_reduce_window(in[0], a));
          },
      .decompose =
          [](Graph& g, Values in, const PoolAttrs& a) {
            Value x = in[0];
            ReduceWindowAttrs window = as_reduce_window(x.type(), a);
            bool padded = is_padded(window);
            auto pooled = [&](Value v, const ReduceWindowAttrs& r) {
              if (padded || r.window_dims.size() != v.dims().size()) return reduce_window(v, r);
              Axes whole;  // one window over all of a dim: no window is needed
              for (size_t d = 0; d < r.window_dims.size(); ++d) {
                if (r.window_dims[d] == v.dims()[d] && r.window_dilation[d] == 1) whole.push_back(int64_t(d));
                else if (r.window_dims[d] != Dim(1) || r.strides[d] != 1) return reduce_window(v, r);
              }
              Dims dims = v.dims();
              for (int64_t d : whole) dims[size_t(d)] = 1;
              return reshape(reduce(v, r.kind, whole), dims);
            };
            Value y = pooled(x, window);
            if (a.kind != PoolKind::mean) return y;
            if (a.count_include_pad || !padded)
              return y / broadcast_to(extent(g, element_count(a.kernel_size), x.dtype()), y.dims());
            auto outer = std::ptrdiff_t(x.dims().size() - a.kernel_size.size());
            auto cut = [&](auto& list) { list.erase(list.begin(), list.begin() + outer); };
            cut(window.window_dims), cut(window.strides), cut(window.window_dilation), cut(window.padding_low),
                cut(window.padding_high);
            return y / reduce_window(full(g, 1, {x.dtype(), Dims(x.dims().begin() + outer, x.dims().end())}), window);
          },
      .vjp = [](Values in, Values, Values cts, const PoolAttrs& a, const Transforms& t) -> Many<Value> {
        if (a.kind == PoolKind::max || a.kind == PoolKind::min) return max_pool_backward(in[0], cts[0], a);
        Graph parts = trace(types_of_values(in), [&](Graph& g, Values v) { return decompose(g, op::pool, v, a); });
        return inlined(in[0].graph(), t.vjp(parts, {true}, {true}), joined(in, cts));
      },
      .samples = {{.dims = {{2, 3, 6, 6}}, .attrs = PoolAttrs{PoolKind::max, {2, 2}}},
                  {.dims = {{1, 2, 5, 7}}, .attrs = PoolAttrs{PoolKind::mean, {3, 2}, {2, 2}, {1, 1}}},
                  {.dims = {{2, 3, 7}}, .attrs = PoolAttrs{PoolKind::mean, {3}, {2}, {1}, {0}, {}, false}},
                  {.dims = {{1, 2, 4, 5}}, .attrs = PoolAttrs{PoolKind::mean, {4, 5}}},
                  {.dims = {{1, 6}}, .attrs = PoolAttrs{PoolKind::min, {2}, {1}, {1}, {}, {2}}},
                  {.dims = {{1, 1, 3, 3, 4}}, .attrs = PoolAttrs{PoolKind::prod, {2, 2, 2}, {1, 1, 2}}},
                  {.dims = {{1, 4}}, .dtypes = {i32}, .attrs = PoolAttrs{PoolKind::sum, {2}}, .lo = -9, .hi = 9}},
  });
}

}  // namespace rlx
