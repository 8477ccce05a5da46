// See the header.
#include "backends/coreml/weights.h"

#include <cmath>
#include <unordered_map>

namespace rlx::coreml {
namespace {

/// Fields of `bits` bits behind each other, from the low bit of byte 0 on: what iOS 16 has for indices.
Tensor bit_fields(const Tensor& indices, int bits) {
  size_t count = indices.element_count();
  Tensor bytes(u8, {static_cast<int64_t>((count * static_cast<size_t>(bits) + 7) / 8)});
  uint8_t* to = bytes.mutable_values<uint8_t>().data();
  for (size_t i = 0; i < count; ++i) {
    auto value = static_cast<uint64_t>(load_index(indices, i));
    for (int b = 0; b < bits; ++b) {
      size_t at = i * static_cast<size_t>(bits) + static_cast<size_t>(b);
      to[at / 8] = static_cast<uint8_t>(to[at / 8] | ((value >> b & 1) << (at % 8)));
    }
  }
  return bytes;
}

constexpr DType kIndexTypes[] = {u1, u2, u3, u4, u6, u8};

DType index_type(size_t entries) {
  for (DType t : kIndexTypes)
    if (entries <= size_t{1} << info(t).bits) return t;
  return u8;
}

template <class Word>
std::optional<Palette> palette_of_words(const Tensor& t) {
  const auto* words = reinterpret_cast<const Word*>(t.data());
  size_t count = t.element_count();
  std::unordered_map<Word, int64_t> places;
  std::vector<size_t> first;
  for (size_t i = 0; i < count; ++i)
    if (places.emplace(words[i], static_cast<int64_t>(first.size())).second) {
      first.push_back(i);
      if (first.size() > 256) return std::nullopt;
    }
  DType type = index_type(first.size());
  size_t entries = size_t{1} << info(type).bits;
  Palette p{Tensor(type, t.shape()), Tensor(t.dtype(), {static_cast<int64_t>(entries)})};
  for (size_t i = 0; i < entries; ++i) copy_element(p.entries, i, t, first[std::min(i, first.size() - 1)]);
  for (size_t i = 0; i < count; ++i) store<int64_t>(p.indices, i, places.at(words[i]));
  return p;
}

}  // namespace

bool are_codes(DType dtype) { return is_block(dtype) || (is_integer(dtype) && info(dtype).bits <= 8); }

std::optional<Palette> palette_of(const Tensor& t) {
  if (t.rank() < 2 || t.element_count() < kManyWeights) return std::nullopt;
  if (t.dtype() == f32) return palette_of_words<uint32_t>(t);
  if (t.dtype() == f16) return palette_of_words<uint16_t>(t);
  return std::nullopt;
}

Var looked_up(Emitter& e, const Palette& palette) {
  const Shape& shape = palette.indices.shape();
  DType dtype = palette.entries.dtype();
  if (e.opset() >= 8) {
    Shape table(shape.size() + 2, 1);
    table[shape.size()] = static_cast<int64_t>(palette.entries.element_count());
    return e.emit_literals("constexpr_lut_to_dense",
                           {{"indices", palette.indices}, {"lut", palette.entries.reshaped(table)}}, dtype, shape);
  }
  int bits = info(palette.indices.dtype()).bits;
  Tensor entries = palette.entries;
  if (bits == 3) {  // a table of eight is for iOS 18
    bits = 4;
    entries = Tensor(dtype, {16});
    for (size_t i = 0; i < 16; ++i) copy_element(entries, i, palette.entries, i % 8);
  }
  std::vector<uint32_t> dims(shape.begin(), shape.end());
  return e.emit_attributes("constexpr_lut_to_dense",
                           {{"indices", bit_fields(palette.indices, bits)},
                            {"lut", entries},
                            {"shape", Tensor::of<uint32_t>({static_cast<int64_t>(dims.size())}, dims)}},
                           dtype, shape);
}

Var affine(Emitter& e, const Tensor& codes, const Tensor& scale, const std::optional<Tensor>& zero_point,
           int64_t axis) {
  auto line = [](const Tensor& t) {
    return t.element_count() == 1 ? t.reshaped({}) : t.reshaped({static_cast<int64_t>(t.element_count())});
  };
  Tensor zero = zero_point ? line(*zero_point) : Tensor(codes.dtype(), {});
  return e.emit_attributes("constexpr_affine_dequantize",
                           {{"quantized_data", codes},
                            {"zero_point", zero},
                            {"scale", line(scale)},
                            {"axis", Tensor::scalar(static_cast<int32_t>(axis))}},
                           scale.dtype(), codes.shape());
}

Nearest nearest_codes(const Tensor& x, int64_t run) {
  Shape shape = x.shape(), runs = shape;
  size_t size = static_cast<size_t>(run);
  if (run > 0) {
    runs.back() /= run;
  } else {
    runs.assign(shape.size(), 1);
    runs[0] = shape[0];
    size = x.element_count() / static_cast<size_t>(shape[0]);
  }
  Nearest n{Tensor(i8, shape), Tensor(f32, runs)};
  const float* from = x.values<float>().data();
  for (size_t r = 0; r < n.scales.element_count(); ++r) {
    float most = 0;
    for (size_t i = 0; i < size; ++i) most = std::max(most, std::abs(from[r * size + i]));
    float scale = most / 127;
    n.scales.mutable_values<float>()[r] = scale;
    for (size_t i = 0; i < size; ++i) {
      float v = from[r * size + i], code = scale > 0 ? std::nearbyint(v / scale) : 0;
      code = std::clamp(code, -127.0F, 127.0F);
      n.codes.mutable_values<int8_t>()[r * size + i] = static_cast<int8_t>(code);
      n.change = std::max(n.change, std::abs(static_cast<double>(code * scale) - static_cast<double>(v)));
    }
  }
  return n;
}

}  // namespace rlx::coreml
