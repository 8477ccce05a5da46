// See the header. A folder has a scale for a group of 32, 64, 128 or more inputs; blocks have one for 32, so that a
// group's scale is written several times. Layouts of blocks: GGUF specification, ggml-common.h.
#include "models/language/gguf_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "rlx/element.h"

namespace rlx::language {
namespace {

constexpr int64_t kBlock = 32;

/// A weight's parts, read one by one.
class Codes {
 public:
  explicit Codes(const PackedWeight& weight) : w_(weight) {
    const Shape& shape = weight.codes.shape();
    is_stacked_ = shape.size() == 3;
    experts = is_stacked_ ? shape[0] : 1;
    in = shape[shape.size() - 2], out = shape.back();
    groups = (in + weight.type.group - 1) / weight.type.group;
    scales_ = weight.scales.values<float>().data();
    if (weight.type.has_zero_points) zeros_ = weight.zero_points.values<uint8_t>().data();
    if (weight.type.has_biases) biases_ = weight.biases.values<float>().data();
    if (weight.type.table > 0) table_ = weight.table.values<float>().data();
    if (weight.type.has_order) order_ = weight.order.values<int32_t>().data();
    bytes_ = reinterpret_cast<const uint8_t*>(weight.codes.data());
  }

  int64_t experts = 1, in = 0, out = 0, groups = 0;

  bool has_table() const { return table_ != nullptr; }
  bool has_order() const { return order_ != nullptr; }
  bool has_biases() const { return biases_ != nullptr; }
  Shape shape_of_numbers() const { return is_stacked_ ? Shape{experts, out, in} : Shape{out, in}; }

  int code(int64_t e, int64_t i, int64_t o) const {
    const int64_t at = (e * in + i) * out + o;
    switch (w_.type.dtype) {
      case u8: return bytes_[at];
      case i8: return static_cast<int8_t>(bytes_[at]);
      default: break;
    }
    const int half = bytes_[at / 2] >> (at % 2 * 4) & 15;
    return w_.type.dtype == i4 && half > 7 ? half - 16 : half;
  }
  /// The code less its zero point.
  int step(int64_t e, int64_t i, int64_t o) const { return code(e, i, o) - (zeros_ ? int{zeros_[part(e, i, o)]} : 0); }
  float scale(int64_t e, int64_t i, int64_t o) const { return scales_[part(e, i, o)]; }
  float bias(int64_t e, int64_t i, int64_t o) const { return biases_ ? biases_[part(e, i, o)] : 0; }
  /// The element of x that row i is multiplied with.
  int64_t place(int64_t e, int64_t i) const { return order_ ? order_[e * in + i] : i; }
  float number(int64_t e, int64_t i, int64_t o) const {
    const float value = table_ ? table_[code(e, i, o)] : static_cast<float>(step(e, i, o));
    return value * scale(e, i, o) + bias(e, i, o);
  }

 private:
  int64_t part(int64_t e, int64_t i, int64_t o) const { return (e * groups + i / w_.type.group) * out + o; }

  const PackedWeight& w_;
  bool is_stacked_ = false;
  const float *scales_ = nullptr, *biases_ = nullptr, *table_ = nullptr;
  const uint8_t *bytes_ = nullptr, *zeros_ = nullptr;
  const int32_t* order_ = nullptr;
};

/// A kind of block: number = step * scale for steps from `least` to `most`, or code * scale + bias.
struct BlockKind {
  DType dtype;
  bool has_bias;
  int least, most;
};
constexpr BlockKind kKinds[] = {
    {q4_0, false, -8, 7}, {q5_0, false, -16, 15}, {q8_0, false, -128, 127}, {q4_1, true, 0, 15}, {q5_1, true, 0, 31}};

bool is_half(float v) {
  const Half half = to_half(static_cast<double>(v));
  return static_cast<float>(to_double(half)) == v;
}
std::byte* put_half(std::byte* to, float v) {
  const Half half = to_half(static_cast<double>(v));
  std::memcpy(to, &half.bits, sizeof half.bits);
  return to + sizeof half.bits;
}

/// One block: its scale, its bias, and 32 codes that begin at 0 (of q8_0 at -128).
void write_block(const BlockKind& kind, float scale, float bias, const int* steps, std::byte* to) {
  to = put_half(to, scale);
  if (kind.has_bias) to = put_half(to, bias);
  if (kind.dtype == q8_0) {
    for (int64_t i = 0; i < kBlock; ++i) to[i] = static_cast<std::byte>(static_cast<int8_t>(steps[i]));
    return;
  }
  if (kind.dtype == q5_0 || kind.dtype == q5_1) {
    uint32_t fifth = 0;
    for (int64_t i = 0; i < kBlock; ++i) fifth |= static_cast<uint32_t>((steps[i] - kind.least) >> 4 & 1) << i;
    std::memcpy(to, &fifth, sizeof fifth);
    to += sizeof fifth;
  }
  for (int64_t i = 0; i < kBlock / 2; ++i) {
    const int low = (steps[i] - kind.least) & 15, high = (steps[i + kBlock / 2] - kind.least) & 15;
    to[i] = static_cast<std::byte>(low | high << 4);
  }
}

}  // namespace

Tensor floats_of_packed(const PackedWeight& weight, DType dtype) {
  const Codes codes(weight);
  Tensor all = Tensor::uninitialized(dtype, codes.shape_of_numbers());
  std::byte* to = all.mutable_data();
  const auto write = [&](auto put) {
    for (int64_t e = 0; e < codes.experts; ++e)
      for (int64_t i = 0; i < codes.in; ++i)
        for (int64_t o = 0; o < codes.out; ++o)
          put((e * codes.out + o) * codes.in + codes.place(e, i), codes.number(e, i, o));
  };
  if (dtype == f32) write([&](int64_t at, float v) { std::memcpy(to + at * int64_t{sizeof v}, &v, sizeof v); });
  else
    write([&](int64_t at, float v) {
      const auto bits = static_cast<uint16_t>(encode_float(dtype, static_cast<double>(v)));
      std::memcpy(to + at * int64_t{sizeof bits}, &bits, sizeof bits);
    });
  return all;
}

Tensor blocks_of_packed(const PackedWeight& weight, const std::string& name) {
  const Codes codes(weight);
  const auto refuse = [&](const auto&... why) {
    fail(ErrorCode::unsupported, "the codes of weight '", name, "' are no blocks of GGUF, bit for bit: ", why...,
         "; dequantize packed weights (--dequantize bf16) to write their numbers");
  };
  const int64_t group = std::min(weight.type.group, codes.in);
  if (codes.has_table()) refuse("their numbers come from a table");
  if (codes.has_order()) refuse("groups lie across the inputs (g_idx, desc_act)");
  if (codes.in % kBlock != 0) refuse("rows of ", codes.in, " elements are no whole blocks of ", kBlock);
  if (group % kBlock != 0 && group != codes.in)
    refuse("groups of ", group, " elements are no whole blocks of ", kBlock);
  int least = std::numeric_limits<int>::max(), most = std::numeric_limits<int>::min();
  for (int64_t e = 0; e < codes.experts; ++e)
    for (int64_t i = 0; i < codes.in; ++i)
      for (int64_t o = 0; o < codes.out; ++o) {
        const int step = codes.step(e, i, o);
        least = std::min(least, step), most = std::max(most, step);
        if (i % group != 0) continue;
        if (const float s = codes.scale(e, i, o); !is_half(s)) refuse("the scale ", s, " is no number of f16");
        if (const float b = codes.bias(e, i, o); !is_half(b)) refuse("the bias ", b, " is no number of f16");
      }
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const BlockKind& k) {
    return k.has_bias == codes.has_biases() && least >= k.least && most <= k.most;
  });
  if (kind == std::end(kKinds))
    refuse("codes from ", least, " to ", most, codes.has_biases() ? " with a bias" : "", " fit no kind");
  const auto block_bytes = static_cast<int64_t>(info(kind->dtype).block_bytes);
  Tensor all = Tensor::uninitialized(kind->dtype, codes.shape_of_numbers());
  std::byte* to = all.mutable_data();
  int steps[kBlock];
  for (int64_t e = 0; e < codes.experts; ++e)
    for (int64_t o = 0; o < codes.out; ++o)
      for (int64_t first = 0; first < codes.in; first += kBlock, to += block_bytes) {
        for (int64_t i = 0; i < kBlock; ++i) steps[i] = codes.step(e, first + i, o);
        write_block(*kind, codes.scale(e, first, o), codes.bias(e, first, o), steps, to);
      }
  return all;
}

}  // namespace rlx::language
