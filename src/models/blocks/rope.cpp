// Rotary positions: frequencies, and the tables that follow from them; see rlx/models/rope.h.
#include "rlx/models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "models/language/limits.h"

namespace rlx {
namespace {

/// Where the ramp between the two kinds of frequencies begins and ends, in pairs (Peng et al. 2023, equation 23).
struct YarnRamp {
  double low, high;
  explicit YarnRamp(const RopeConfig& rope) {
    const auto pairs_of = [&](double rotations) {
      return static_cast<double>(rope.dims) *
             std::log(static_cast<double>(rope.original_context) / (rotations * 2 * std::numbers::pi)) /
             (2 * std::log(rope.theta));
    };
    low = pairs_of(rope.beta_fast), high = pairs_of(rope.beta_slow);
    if (rope.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, static_cast<double>(rope.dims - 1));
    if (low == high) high += 0.001;
  }
  /// 0 for pairs that keep their frequency, 1 for those that are divided by the factor.
  double at(size_t pair) const { return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0); }
};

/// Llama 3.1: wavelengths beyond the context that the model was trained with are stretched, short ones are not.
double llama3_frequency(const RopeConfig& rope, double frequency) {
  const auto context = static_cast<double>(rope.original_context);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < context / rope.high_frequency_factor) return frequency;
  if (wavelength > context / rope.low_frequency_factor) return frequency / rope.factor;
  const double smooth =
      (context / wavelength - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& rope, bool is_long) {
  language::check_rope(rope, rope.dims, "a RopeConfig", ErrorCode::invalid_argument);
  std::vector<float> all(static_cast<size_t>(rope.dims / 2));
  for (size_t i = 0; i < all.size(); ++i) {
    // theta^(2i/d) is rounded to f32, and so is its inverse: the model was trained with these.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.dims);
    const float wave = std::pow(static_cast<float>(rope.theta), exponent);
    double frequency = static_cast<double>(1.0F / wave);
    if (rope.scaling == RopeScaling::linear) frequency /= rope.factor;
    if (rope.scaling == RopeScaling::llama3) frequency = llama3_frequency(rope, frequency);
    if (rope.scaling == RopeScaling::yarn) {
      const double ramp = YarnRamp(rope).at(i);
      frequency = frequency / rope.factor * ramp + frequency * (1 - ramp);
    }
    if (rope.scaling == RopeScaling::longrope)
      frequency = static_cast<double>(
          1.0F / (static_cast<float>((is_long ? rope.long_factors : rope.short_factors)[i]) * wave));
    if (rope.scaling == RopeScaling::proportional)
      frequency = static_cast<double>(i) < std::floor(rope.proportion * static_cast<double>(rope.dims) / 2)
                      ? frequency / rope.factor
                      : 0;
    if (!rope.frequency_divisors.empty()) frequency /= rope.frequency_divisors[i];
    all[i] = static_cast<float>(frequency);
  }
  return all;
}

SequencePositions SequencePositions::inputs(Graph& g, const Dim& count) {
  SequencePositions p{.first = g.input("position", i32, {}), .count = count, .total = Dim::symbol("total")};
  g.input("total", u8, {p.total, 0});
  return p;
}

namespace {

/// The frequencies, of which some kinds depend on how many tokens there are: `total` makes that number of a dtype.
template <class Total>
Value frequencies(Graph& g, const RopeConfig& rope, const Total& total) {
  const Shape pairs = {rope.dims / 2};
  Value plain = g.constant(Tensor::of<float>(pairs, rope_frequencies(rope)));
  if (rope.scaling == RopeScaling::longrope) {
    Value longer = g.constant(Tensor::of<float>(pairs, rope_frequencies(rope, true)));
    Value is_long = compare(total(i32), scalar(g, static_cast<double>(rope.original_context), i32), Comparison::gt);
    return select(broadcast_in_dim(is_long, plain.dims(), {}), longer, plain);
  }
  if (rope.scaling != RopeScaling::dynamic) return plain;
  // theta' = theta (factor n / context - (factor - 1))^(d / (d - 2)), and frequency' = frequency (theta' /
  // theta)^(-2i/d).
  const auto context = static_cast<double>(rope.original_context), dims = static_cast<double>(rope.dims);
  Value length = maximum(total(f32), scalar(g, context, f32));
  Value growth = length * (rope.factor / context) - (rope.factor - 1);
  std::vector<float> exponents;
  for (int64_t i = 0; i < pairs[0]; ++i)
    exponents.push_back(static_cast<float>(-2.0 * static_cast<double>(i) / (dims - 2)));
  Value powers = g.constant(Tensor::of<float>(pairs, exponents));
  return plain * exp(powers * broadcast_in_dim(log(growth), powers.dims(), {}));
}

/// Which axis of multimodal positions each pair follows.
std::vector<size_t> axes_of_pairs(const RopeConfig& rope) {
  std::vector<size_t> axes;
  if (!rope.interleaves_sections) {
    for (size_t section = 0; section < rope.sections.size(); ++section)
      axes.insert(axes.end(), static_cast<size_t>(rope.sections[section]), section % 3);
    return axes;
  }
  axes.assign(static_cast<size_t>(rope.dims / 2), 0);
  for (size_t axis : {1, 2})
    for (size_t i = axis; i < std::min(axes.size(), 3 * static_cast<size_t>(rope.sections[axis])); i += 3)
      axes[i] = axis;
  return axes;
}

RopeTables tables_of_angles(const RopeConfig& rope, Value angles) {
  RopeTables made{.cosines = cos(angles), .sines = sin(angles), .dims = rope.dims, .style = rope.style};
  if (rope.attention_factor != 1)
    made.cosines = made.cosines * rope.attention_factor, made.sines = made.sines * rope.attention_factor;
  return made;
}

}  // namespace

RopeTables rope_tables(Graph& g, const RopeConfig& rope, const SequencePositions& positions) {
  const std::string scope = g.scope();
  g.set_scope("rope");
  const Dims table = {positions.count, Dim(rope.dims / 2)};
  Value places = positions.first ? convert(iota(g, {i32, {positions.count}}, 0) + positions.first, f32)
                                 : iota(g, {f32, {positions.count}}, 0);
  const Dim count = positions.first ? positions.total : positions.count;
  const auto total = [&](DType dtype) { return extent(g, count, dtype); };
  // A token of a text stands at one place on all axes.
  Value angles = broadcast_in_dim(places, table, {0}) * broadcast_in_dim(frequencies(g, rope, total), table, {1});
  const RopeTables made = tables_of_angles(rope, angles);
  g.set_scope(scope);
  return made;
}

RopeTables rope_tables(Graph& g, const RopeConfig& rope, Value positions) {
  const bool has_axes = !rope.sections.empty();
  if (!positions || !is_integer(positions.dtype()) || positions.rank() != 2 + int64_t{has_axes})
    fail(ErrorCode::shape_mismatch, "positions must be integers ", has_axes ? "[3, B, S]" : "[B, S]", ", got ",
         positions ? text_of(positions.type()) : "none");
  if (has_axes && positions.dim(0) != Dim(3))
    fail(ErrorCode::shape_mismatch, "positions of ", positions.dim(0), " axes; sections are of three, got ",
         positions.type());
  const std::string scope = g.scope();
  g.set_scope("rope");
  const auto total = [&](DType dtype) {
    Value all = reshape(positions, {element_count(positions.dims())});
    return convert(reduce_max(all, {0}), dtype) + 1.0;
  };
  Value speeds = frequencies(g, rope, total);
  Value places = convert(positions, f32);  // [axes, B, S]: a pair takes the place on its axis
  Dims table = positions.dims();
  if (has_axes) {
    std::vector<int32_t> axes;
    for (size_t axis : axes_of_pairs(rope)) axes.push_back(static_cast<int32_t>(axis));
    const int64_t pairs = rope.dims / 2;
    places = transpose(take(places, g.constant(Tensor::of<int32_t>({pairs}, axes))), {1, 2, 0});
    table = places.dims();
  } else {
    table.emplace_back(rope.dims / 2);
    places = broadcast_in_dim(places, table, {0, 1});
  }
  const RopeTables made = tables_of_angles(rope, places * broadcast_in_dim(speeds, table, {2}));
  g.set_scope(scope);
  return made;
}

Value turned(Value x, const RopeTables& tables, int64_t heads) {
  const bool is_packed = x.rank() == 3;
  const Dim head_dim = is_packed ? x.dim(2) / heads : x.dim(-1);
  RopeAttrs attrs{
      .heads = heads, .layout = is_packed ? AttentionLayout::packed : AttentionLayout::bshd, .style = tables.style};
  if (head_dim != Dim(tables.dims)) attrs.rotary_dims = tables.dims;
  return rope(x, tables.cosines, tables.sines, attrs);
}

}  // namespace rlx
