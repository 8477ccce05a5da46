// Fake quantization and its straight-through derivatives. The two forward ops have a derivative by agreement, not by
// calculus (`surrogate_gradient`): the rounding is flat, and the gradient looks through it. The backward ops are
// functions like any other; what can be differentiated again is.
#include "rlx/ops/qat.h"

#include "ops/core/composite_rules.h"
#include "ops/core/special_rules.h"
#include "ops/quant/smallest_scale.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"

namespace rlx {

// ---- builders ----
namespace {

FakeQuantizeAttrs in_mode(FakeQuantizeAttrs a, ScaleMode mode) { return a.scale_mode = mode, a; }

}  // namespace
Value fake_quantize(Value x, FakeQuantizeAttrs a) {
  return emit(op::fake_quantize, {x}, in_mode(std::move(a), ScaleMode::per_batch));
}
Value fake_quantize_fixed(Value x, Value state, FakeQuantizeAttrs a) {
  return emit(op::fake_quantize, {x, state}, in_mode(std::move(a), ScaleMode::fixed));
}
FakeQuantized fake_quantize_ema(Value x, Value state, FakeQuantizeAttrs a) {
  auto out = x.graph().emit(op::fake_quantize, {x, state}, in_mode(std::move(a), ScaleMode::ema));
  return {out[0], out[1]};
}
Value fake_quantize_backward(Value x, Value ct, FakeQuantizeBackwardAttrs a, Value scale) {
  std::vector<Value> in = {x, ct};
  if (scale) in.push_back(scale);
  return emit(op::fake_quantize_backward, std::move(in), std::move(a));
}
Value fake_quantize_lsq(Value x, Value scale, FakeQuantizeLsqAttrs a) {
  return emit(op::fake_quantize_lsq, {x, scale}, std::move(a));
}
Value fake_quantize_lsq_backward_x(Value x, Value scale, Value ct, FakeQuantizeLsqAttrs a) {
  return emit(op::fake_quantize_lsq_backward_x, {x, scale, ct}, std::move(a));
}
Value fake_quantize_lsq_backward_scale(Value x, Value scale, Value ct, FakeQuantizeLsqAttrs a) {
  return emit(op::fake_quantize_lsq_backward_scale, {x, scale, ct}, std::move(a));
}
Value fake_quantize_affine(Value x, Value scale, Value zero_point, FakeQuantizeAffineAttrs a) {
  std::vector<Value> in = {x, scale};
  if (zero_point) in.push_back(zero_point);
  return emit(op::fake_quantize_affine, std::move(in), std::move(a));
}

namespace {

double most(int64_t bits) { return std::ldexp(1, static_cast<int>(bits) - 1) - 1; }
void require_scale_axes(const Type& x, const Axes& named) {
  Axes axes = valid_axes(named, x.rank());
  if (!std::is_sorted(axes.begin(), axes.end()))
    fail(ErrorCode::invalid_argument, "the axes of the scales must be in the order of x's dims");
}
template <class A>
void require_quantizable(const Type& x, const A& a) {
  require_kind(x, kReal, "x");
  if (a.bits < 2 || a.bits > 16) fail(ErrorCode::invalid_argument, "bits is ", a.bits, "; it goes from 2 to 16");
  require_scale_axes(x, a.axes);
}
Dims scale_dims(const Type& x, const Axes& axes) { return pick(x.dims, valid_axes(axes, x.rank())); }
void require_scale(const Type& scale, const Type& x, const Axes& axes, std::string_view name) {
  Type wanted{x.dtype, scale_dims(x, axes)};
  if (scale != wanted)
    fail(ErrorCode::shape_mismatch, name, " must be ", wanted, ", x's extents along its axes, got ", scale);
}

Value over(Value scale, Value x, const Axes& axes) {
  return broadcast_in_dim(scale, x.dims(), valid_axes(axes, x.dims().size()));
}
/// max|x| for each scale.
Value largest(Value x, const Axes& axes) {
  size_t rank = x.dims().size();
  Axes rest = other_axes(rank, valid_axes(axes, rank));
  // A scale over no elements has nothing to stand for: it becomes the least one.
  return maximum(reduce_max(abs(x), rest), scalar(x.graph(), 0, x.dtype()));
}
Value batch_scale(Value x, int64_t bits, const Axes& axes) {
  return at_least(largest(x, axes) / most(bits), kLeastScale);
}

Value clamped(Value v, double q) {
  return minimum(maximum(v, scalar(v.graph(), -q, v.dtype())), scalar(v.graph(), q, v.dtype()));
}
/// clamp(round(x / s), -q, q) s, s as wide as x.
Value rounded_to(Value x, Value s, int64_t bits) { return clamped(round_nearest_even(x / s), most(bits)) * s; }

/// The scale that the modes take from x and the state.
Value scale_of(Values in, const FakeQuantizeAttrs& a) {
  if (a.scale_mode == ScaleMode::fixed) return at_least(in[1], kLeastScale);
  Value current = batch_scale(in[0], a.bits, a.axes);
  if (a.scale_mode == ScaleMode::per_batch) return current;
  Value started = compare(in[1], zeros_like(in[1]), Comparison::gt);
  return select(started, in[1] * a.decay + current * (1 - a.decay), current);
}

/// Every batched lane has scales of its own: dim 0 is one of their axes.
Axes batched_axes(const Axes& axes, size_t rank) {
  Axes all = {0};
  for (int64_t axis : valid_axes(axes, rank)) all.push_back(axis + 1);
  return all;
}
template <class A>
A batched(Values in, A a) {
  a.axes = batched_axes(a.axes, in[0].dims().size() - 1);
  return a;
}

}  // namespace

OpDef define_fake_quantize() {
  using A = FakeQuantizeAttrs;
  return define<A>({
      .name = "fake_quantize",
      .doc = "clamp(round(x / s), -q, q) s, ties to even, q = 2^(bits - 1) - 1, with a scale s for each index along "
             "`axes`. per_batch: s = max(max|x| / q, 1e-12). fixed: s = max(state, 1e-12). ema: s = decay state + (1 - "
             "decay) of what per_batch has, or the latter while state <= 0, and s is a second result, the new state. "
             "Its derivative is that of `ste`, see fake_quantize_backward; the state has none",
      .source = "Jacob et al., CVPR 2018; straight-through estimators: Bengio, Leonard, Courville 2013",
      .operands = {"x", "state?"},
      .covers = {"FakeQuantize"},
      .surrogate_gradient = true,
      .infer =
          [](Types in, const A& a) {
            require_quantizable(in[0], a);
            bool state = a.scale_mode != ScaleMode::per_batch;
            if (in.size() != size_t{1} + state)
              fail(ErrorCode::invalid_argument, "scale_mode ", names_of(a.scale_mode)[size_t(a.scale_mode)],
                   state ? " takes x and a state" : " takes x alone", ", got ", in.size(),
                   in.size() == 1 ? " operand" : " operands");
            if (state) require_scale(in[1], in[0], a.axes, "the state");
            Many<Type> types = {in[0]};
            if (a.scale_mode == ScaleMode::ema) types.push_back(in[1]);
            return types;
          },
      .decompose =
          [](Values in, const A& a) {
            Value s = scale_of(in, a);
            Many<Value> out = {rounded_to(in[0], over(s, in[0], a.axes), a.bits)};
            if (a.scale_mode == ScaleMode::ema) out.push_back(s);
            return out;
          },
      .vjp =
          [](Values in, Values out, Values cts, const A& a) {
            Many<Value> d(in.size());
            if (!cts[0]) return d;
            Value scale = a.scale_mode == ScaleMode::per_batch ? Value()
                          : a.scale_mode == ScaleMode::fixed   ? at_least(in[1], kLeastScale)
                                                               : out[1];
            if (scale && a.ste == SteKind::identity) scale = {};
            d[0] = a.ste == SteKind::identity ? cts[0]
                                              : fake_quantize_backward(in[0], cts[0], {a.bits, a.axes, a.ste}, scale);
            return d;
          },
      .batch =
          [](Values in, const A& a) {
            return Many<Value>(in[0].graph().emit(op::fake_quantize, {in.begin(), in.end()}, batched(in, a)));
          },
      .samples =
          {{.dims = {{3, 4}}},
           {.dims = {{2, 3, 2}}, .attrs = A{.bits = 4, .axes = {1}, .ste = SteKind::clipped_identity}},
           {.dims = {{3, 4}, {}}, .attrs = A{.ste = SteKind::tanh, .scale_mode = ScaleMode::ema}},
           {.dims = {{3, 4}, {4}}, .attrs = A{8, {-1}, SteKind::hard_tanh, ScaleMode::ema, 0.5}, .lo = 0.1, .hi = 2},
           {.dims = {{3, 4}, {3}},
            .attrs = A{4, {0}, SteKind::clipped_identity, ScaleMode::fixed},
            .lo = 0.1,
            .hi = 0.4},
           {.dims = {{5}, {}}, .attrs = A{.bits = 2, .ste = SteKind::tanh, .scale_mode = ScaleMode::fixed}},
           {.dims = {{}}, .attrs = A{.bits = 2}},
           {.dims = {{0, 3}}, .attrs = A{.axes = {1}}}},
  });
}

OpDef define_fake_quantize_backward() {
  using A = FakeQuantizeBackwardAttrs;
  return define<A>({
      .name = "fake_quantize_backward",
      .doc =
          "ct times what stands for the derivative of fake_quantize, s being `scale` or, without it, max(max|x| / q, "
          "1e-12). identity: 1. clipped_identity: 1 where |x| <= q s, else 0. tanh: 1 - tanh(x / s)^2. hard_tanh: "
          "max(0, 1 - |x / (q s)|)",
      .source = "straight-through estimators: Bengio, Leonard, Courville 2013",
      .operands = {"x", "ct", "scale?"},
      .covers = {"FakeQuantizeBackward"},
      .infer =
          [](Types in, const A& a) {
            require_dtype(in, kReal);
            require_quantizable(in[0], a);
            require_dims(in[1], in[0].dims, "ct");
            if (in.size() > 2) require_scale(in[2], in[0], a.axes, "scale");
            return in[0];
          },
      .decompose =
          [](Values in, const A& a) {
            Value x = in[0], ct = in[1];
            double q = most(a.bits);
            // q s from max|x| itself: the largest element must not fall out by a rounding of the quotient.
            Value limit = in.size() > 2 ? in[2] * q : at_least(largest(x, a.axes), kLeastScale * q);
            limit = over(limit, x, a.axes);
            switch (a.ste) {
              case SteKind::identity: break;
              case SteKind::clipped_identity: return select(compare(abs(x), limit, Comparison::le), ct, zeros_like(ct));
              case SteKind::tanh: {
                Value s = in.size() > 2 ? in[2] : batch_scale(x, a.bits, a.axes);
                return ct * (1 - square(tanh(x / over(s, x, a.axes))));
              }
              case SteKind::hard_tanh: return ct * at_least(1 - abs(x / limit), 0);
            }
            return ct;
          },
      .batch =
          [](Values in, const A& a) {
            return emit(op::fake_quantize_backward, {in.begin(), in.end()}, batched(in, a));
          },
      .samples = {{.dims = {{3, 4}, {3, 4}}},
                  {.dims = {{2, 3, 2}, {2, 3, 2}}, .attrs = A{4, {1}, SteKind::clipped_identity}},
                  {.dims = {{3, 4}, {3, 4}}, .attrs = A{2, {}, SteKind::tanh}},
                  {.dims = {{3, 4}, {3, 4}, {4}}, .attrs = A{2, {-1}, SteKind::tanh}, .lo = 0.5, .hi = 2},
                  {.dims = {{3, 4}, {3, 4}, {}}, .attrs = A{2, {}, SteKind::hard_tanh}, .lo = 0.6, .hi = 2.5},
                  {.dims = {{3, 4}, {3, 4}, {3}}, .attrs = A{2, {0}, SteKind::clipped_identity}, .lo = 0.6, .hi = 2.5},
                  {.dims = {{}, {}}, .attrs = A{.ste = SteKind::tanh}},
                  {.dims = {{0, 3}, {0, 3}}, .attrs = A{8, {1}, SteKind::hard_tanh}}},
  });
}

OpDef define_fake_quantize_lsq() {
  using A = FakeQuantizeLsqAttrs;
  return define<A>({
      .name = "fake_quantize_lsq",
      .doc =
          "clamp(round(x / scale), -q, q) scale, ties to even, q = 2^(bits - 1) - 1, with a positive scale for each "
          "index along `axes`. Its derivatives are fake_quantize_lsq_backward_x and fake_quantize_lsq_backward_scale",
      .source = "Esser et al., ICLR 2020 (LSQ), without its gradient scale",
      .operands = {"x", "scale"},
      .covers = {"FakeQuantizeLSQ"},
      .surrogate_gradient = true,
      .infer =
          [](Types in, const A& a) {
            require_quantizable(in[0], a);
            require_scale(in[1], in[0], a.axes, "scale");
            return in[0];
          },
      .decompose = [](Values in, const A& a) { return rounded_to(in[0], over(in[1], in[0], a.axes), a.bits); },
      .vjp =
          [](Values in, Value, Value ct, const A& a) {
            return Many<Value>{fake_quantize_lsq_backward_x(in[0], in[1], ct, a),
                               fake_quantize_lsq_backward_scale(in[0], in[1], ct, a)};
          },
      .batch = [](Values in, const A& a) { return fake_quantize_lsq(in[0], in[1], batched(in, a)); },
      .samples = {{.dims = {{3, 4}, {}}, .attrs = A{4}, .lo = 0.1, .hi = 2},
                  {.dims = {{2, 3, 2}, {3}}, .attrs = A{8, {1}}, .lo = 0.01, .hi = 2},
                  {.dims = {{3, 4}, {3, 4}}, .attrs = A{2, {0, 1}}, .lo = 0.3, .hi = 2},
                  {.dims = {{}, {}}, .attrs = A{2}, .lo = 0.3, .hi = 2},
                  {.dims = {{0, 3}, {3}}, .attrs = A{8, {-1}}, .lo = 0.3}},
  });
}

namespace {

/// Of the operands x, scale and ct that both of its backward ops take.
void require_lsq_backward(Types in, const FakeQuantizeLsqAttrs& a) {
  require_dtype(in, kReal);
  require_quantizable(in[0], a);
  require_scale(in[1], in[0], a.axes, "scale");
  require_dims(in[2], in[0].dims, "ct");
}

}  // namespace

OpDef define_fake_quantize_lsq_backward_x() {
  using A = FakeQuantizeLsqAttrs;
  return define<A>({
      .name = "fake_quantize_lsq_backward_x",
      .doc = "ct where |x / scale| <= q, else 0",
      .source = "Esser et al., ICLR 2020 (LSQ), equation 5",
      .operands = {"x", "scale", "ct"},
      .covers = {"FakeQuantizeLSQBackwardX"},
      .infer = [](Types in, const A& a) { return require_lsq_backward(in, a), in[0]; },
      .decompose =
          [](Values in, const A& a) {
            Value z = abs(in[0] / over(in[1], in[0], a.axes));
            return select(compare(z, full_like(z, most(a.bits)), Comparison::le), in[2], zeros_like(in[2]));
          },
      .batch = [](Values in, const A& a) { return fake_quantize_lsq_backward_x(in[0], in[1], in[2], batched(in, a)); },
      .samples = {{.dims = {{3, 4}, {}, {3, 4}}, .attrs = A{4}, .lo = 0.1, .hi = 2},
                  {.dims = {{2, 3, 2}, {3}, {2, 3, 2}}, .attrs = A{2, {1}}, .lo = 0.5, .hi = 2},
                  {.dims = {{}, {}, {}}, .attrs = A{2}, .lo = 0.3, .hi = 2},
                  {.dims = {{0, 3}, {3}, {0, 3}}, .attrs = A{8, {-1}}, .lo = 0.3}},
  });
}

OpDef define_fake_quantize_lsq_backward_scale() {
  using A = FakeQuantizeLsqAttrs;
  return define<A>({
      .name = "fake_quantize_lsq_backward_scale",
      .doc = "the sum of ct psi over all dims but `axes`: psi = round(z) - z where |z| <= q, else sign(z) q; z = x / "
             "scale",
      .source = "Esser et al., ICLR 2020 (LSQ), equation 3, without its gradient scale",
      .operands = {"x", "scale", "ct"},
      .covers = {"FakeQuantizeLSQBackwardScale"},
      .infer = [](Types in, const A& a) { return require_lsq_backward(in, a), in[1]; },
      .decompose =
          [](Values in, const A& a) {
            double q = most(a.bits);
            Value z = in[0] / over(in[1], in[0], a.axes);
            Value inside = compare(abs(z), full_like(z, q), Comparison::le);
            Value psi = select(inside, round_nearest_even(z) - z, clamped(z, q));
            size_t rank = z.dims().size();
            return reduce_sum(in[2] * psi, other_axes(rank, valid_axes(a.axes, rank)));
          },
      .batch = [](Values in,
                  const A& a) { return fake_quantize_lsq_backward_scale(in[0], in[1], in[2], batched(in, a)); },
      .samples = {{.dims = {{3, 4}, {}, {3, 4}}, .attrs = A{4}, .lo = 0.1, .hi = 2},
                  {.dims = {{2, 3, 2}, {3}, {2, 3, 2}}, .attrs = A{2, {1}}, .lo = 0.5, .hi = 2},
                  {.dims = {{}, {}, {}}, .attrs = A{2}, .lo = 0.3, .hi = 2},
                  {.dims = {{3, 4}, {3, 4}, {3, 4}}, .attrs = A{2, {0, 1}}, .lo = 0.3, .hi = 2},
                  {.dims = {{0, 3}, {3}, {0, 3}}, .attrs = A{8, {-1}}, .lo = 0.3}},
  });
}

namespace {

/// x / s and the nearest whole numbers to it, as they are and clamped to the codes, all without the zero point.
struct AffineCodes {
  Value scale, exact, nearest, clamped;

  AffineCodes(Values in, const FakeQuantizeAffineAttrs& a) {
    Value x = in[0];
    scale = over(at_least(in[1], kLeastScale), x, a.axes);
    exact = x / scale;
    nearest = round_nearest_even(exact);
    Value low = full_like(x, static_cast<double>(a.low)), high = full_like(x, static_cast<double>(a.high));
    if (in.size() > 2) {
      Value zero_point = over(convert(in[2], x.dtype()), x, a.axes);
      low = low - zero_point, high = high - zero_point;
    }
    clamped = minimum(maximum(nearest, low), high);
  }
};

}  // namespace

OpDef define_fake_quantize_affine() {
  using A = FakeQuantizeAffineAttrs;
  return define<A>({
      .name = "fake_quantize_affine",
      .doc =
          "(clamp(round(x / s) + zero_point, low, high) - zero_point) s, ties to even, s = max(scale, 1e-12) for each "
          "index along `axes`. Derivatives: of x, 1 or, by clipped_identity, 0 where a code is clamped; of the scale, "
          "gradient_scale times the sum of ct psi, psi = round(x / s) - x / s, or the code less zero_point where it is "
          "clamped",
      .source = "Jacob et al., CVPR 2018; of the scale: Esser et al., ICLR 2020 (LSQ), equation 3",
      .operands = {"x", "scale", "zero_point?"},
      .surrogate_gradient = true,
      .infer =
          [](Types in, const A& a) {
            require_kind(in[0], kReal, "x");
            require_scale_axes(in[0], a.axes);
            require_scale(in[1], in[0], a.axes, "scale");
            if (in.size() > 2) {
              if (!is_integer(in[2].dtype))
                fail(ErrorCode::invalid_argument, "zero_point must be an integer, got ", in[2]);
              require_dims(in[2], in[1].dims, "zero_point");
            }
            constexpr int64_t kMost = 1 << 16;
            if (a.low >= a.high || a.low < -kMost || a.high > kMost)
              fail(ErrorCode::invalid_argument, "the codes go from ", a.low, " to ", a.high,
                   "; they must rise, from -65536 at least to 65536 at most");
            if (a.ste != SteKind::identity && a.ste != SteKind::clipped_identity)
              fail(ErrorCode::invalid_argument, "ste ", names_of(a.ste)[size_t(a.ste)],
                   " is symmetric around 0: fake_quantize has it; here there are identity and clipped_identity");
            if (!std::isfinite(a.gradient_scale))
              fail(ErrorCode::invalid_argument, "gradient_scale is ", a.gradient_scale, "; it must be a finite number");
            return in[0];
          },
      .decompose =
          [](Values in, const A& a) {
            AffineCodes codes(in, a);
            return codes.clamped * codes.scale;
          },
      .vjp =
          [](Values in, Value, Value ct, const A& a) {
            AffineCodes codes(in, a);
            Many<Value> d(in.size());
            Value inside = compare(codes.nearest, codes.clamped, Comparison::eq);
            d[0] = a.ste == SteKind::identity ? ct : select(inside, ct, zeros_like(ct));
            if (a.gradient_scale != 0) {
              Value psi = codes.clamped - select(inside, codes.exact, zeros_like(ct));
              size_t rank = in[0].dims().size();
              d[1] = reduce_sum(ct * psi, other_axes(rank, valid_axes(a.axes, rank))) * a.gradient_scale;
            }
            return d;
          },
      .batch =
          [](Values in, const A& a) {
            return emit(op::fake_quantize_affine, {in.begin(), in.end()}, batched(in, a));
          },
      .samples = {{.dims = {{3, 4}, {}}, .lo = 0.1, .hi = 2},
                  {.dims = {{2, 3, 2}, {3}}, .attrs = A{-7, 7, {1}, SteKind::identity}, .lo = 0.1, .hi = 2},
                  {.dims = {{3, 4}, {}, {}},
                   .dtypes = {f64, f64, i32},
                   .attrs = A{-128, 127, {}, SteKind::clipped_identity, 0.25},
                   .lo = 0.1,
                   .hi = 2},
                  {.dims = {{3, 4}, {4}, {4}}, .dtypes = {f64, f64, u8}, .attrs = A{0, 3, {-1}}, .lo = 0.5, .hi = 3},
                  {.dims = {{}, {}}, .attrs = A{-1, 1, {}, SteKind::identity, 1}, .lo = 0.3, .hi = 2},
                  {.dims = {{0, 3}, {3}}, .attrs = A{.axes = {1}, .gradient_scale = 0.5}, .lo = 0.3}},
  });
}

}  // namespace rlx
