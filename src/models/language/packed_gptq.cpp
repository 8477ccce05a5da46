// GPTQ and AWQ, as AutoGPTQ, GPTQModel and AutoAWQ lay them out: words of 32 bits. GPTQ's codes lie along the input,
// from the lowest bits of a word on, AWQ's along the output in an order of their own.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "models/language/packed_weights.h"
#include "rlx/element.h"

namespace rlx::language {
namespace {

constexpr DType kWords[] = {i32};
/// Where AWQ has the code of each of eight columns in their word.
constexpr std::array<int, 8> kAwqShift = {0, 16, 4, 20, 8, 24, 12, 28};
constexpr DType kScales[] = {f16, bf16, f32};

std::vector<uint32_t> words_of(const Tensor& t) {
  std::vector<uint32_t> words(static_cast<size_t>(t.element_count()));
  std::memcpy(words.data(), t.data(), t.byte_count());
  return words;
}
/// Code number i of a stream of words, the lowest bits first; words stand `stride` apart.
uint8_t code_at(const uint32_t* words, int64_t stride, int64_t i, int64_t bits) {
  const int64_t first = i * bits, word = first / 32, shift = first % 32;
  uint64_t pair = words[word * stride];
  if (shift + bits > 32) pair |= static_cast<uint64_t>(words[(word + 1) * stride]) << 32;
  return static_cast<uint8_t>((pair >> shift) & ((uint64_t{1} << bits) - 1));
}

/// The tensor's dims, of which there are two; `what` says what they are.
Shape matrix_shape(const TensorSource& files, const std::string& name, const char* what) {
  const auto found = files.find(name);
  if (!found) fail(ErrorCode::not_found, "there is no tensor '", name, "' in ", files.place());
  if (found->dtype != i32 || found->shape.size() != 2 || found->shape[0] < 1 || found->shape[1] < 1)
    fail(ErrorCode::shape_mismatch, "tensor '", name, "' in ", files.place(), " is ", type_of(*found),
         "; it must be i32 ", what);
  return found->shape;
}

/// Rows by the group that g_idx gives them, each group's in their order; empty if they lie so already.
std::vector<int32_t> order_of(const Tensor& g_idx, const std::string& name, const std::string& place, int64_t group,
                              int64_t groups) {
  const auto values = g_idx.values<int32_t>();
  const auto in = static_cast<int64_t>(values.size());
  std::vector<int64_t> counts(static_cast<size_t>(groups));
  bool is_plain = true;
  for (int64_t i = 0; i < in; ++i) {
    const int32_t g = values[static_cast<size_t>(i)];
    if (g < 0 || g >= groups)
      fail(ErrorCode::parse, "tensor '", name, "' in ", place, " has ", g, " at ", i, "; there are groups 0 to ",
           groups - 1);
    ++counts[static_cast<size_t>(g)];
    is_plain &= g == i / group;
  }
  if (is_plain) return {};
  for (int64_t g = 0; g < groups; ++g)
    if (const int64_t wanted = std::min(group, in - g * group); counts[static_cast<size_t>(g)] != wanted)
      fail(ErrorCode::unsupported, "tensor '", name, "' in ", place, " gives group ", g, " ",
           counts[static_cast<size_t>(g)], " rows; it must have ", wanted, ", as 'group_size' says");
  std::vector<int32_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] < values[static_cast<size_t>(b)];
  });
  return order;
}

/// Sets what both methods have in the same way: scales, and zero points that `zero_at(group, column)` reads.
template <class ZeroAt>
void set_scales(PackedMatrix& m, const TensorSource& files, const std::string& module, ZeroAt zero_at) {
  const Tensor scales = required_tensor(files, module + ".scales", kScales, {m.groups(), m.out});
  m.scales = [scales](float* to) { read_floats(scales, to); };
  const int64_t groups = m.groups(), out = m.out;
  m.zero_points = [=](uint8_t* to) {
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t o = 0; o < out; ++o) *to++ = zero_at(g, o);
  };
  std::vector<uint8_t> zeros(static_cast<size_t>(groups * out));
  m.zero_points(zeros.data());
  m.has_middle_zeros = std::all_of(zeros.begin(), zeros.end(), [&](uint8_t zero) { return zero == 1 << (m.bits - 1); });
}

}  // namespace

PackedMatrix gptq_matrix(const TensorSource& files, const WeightPacking& packing, const std::string& module) {
  PackedMatrix m{.tensor = module + ".qweight"};
  const int64_t bits = m.bits = packing.bits;
  const Shape shape = matrix_shape(files, m.tensor, "[inputs * bits / 32, outputs]");
  if (shape[0] * 32 % bits != 0)
    fail(ErrorCode::shape_mismatch, "tensor '", m.tensor, "' in ", files.place(), " has ", shape[0],
         " words a column, which are no whole number of codes of ", bits, " bits");
  m.in = shape[0] * 32 / bits, m.out = shape[1];
  m.group = packing.group < 0 ? m.in : std::min(packing.group, m.in);
  const int64_t in = m.in, out = m.out, zero_words = (out * bits + 31) / 32;
  const Tensor words = required_tensor(files, m.tensor, kWords, shape);
  const auto zeros = std::make_shared<const std::vector<uint32_t>>(
      words_of(required_tensor(files, module + ".qzeros", kWords, {m.groups(), zero_words})));
  // The first version keeps zero points less one. The sum wraps as in AutoGPTQ's own product, where that of 3 bits does
  // not.
  const int add = packing.zeros_less_one ? 1 : 0, mask = bits == 3 ? 15 : (1 << bits) - 1;
  set_scales(m, files, module, [=](int64_t g, int64_t o) {
    return static_cast<uint8_t>((code_at(zeros->data() + g * zero_words, 1, o, bits) + add) & mask);
  });
  if (const std::string name = module + ".g_idx"; files.find(name))
    m.order = order_of(required_tensor(files, name, kWords, {m.in}), name, files.place(), m.group, m.groups());
  m.codes = [words, in, out, bits, order = m.order](uint8_t* to) {
    const std::vector<uint32_t> all = words_of(words);
    for (int64_t i = 0; i < in; ++i) {
      const int64_t row = order.empty() ? i : order[static_cast<size_t>(i)];
      const int64_t first = row * bits, shift = first % 32;
      const uint32_t* from = all.data() + first / 32 * out;
      if (shift + bits <= 32)
        for (int64_t o = 0; o < out; ++o)
          to[i * out + o] = static_cast<uint8_t>((from[o] >> shift) & ((1U << bits) - 1));
      else
        for (int64_t o = 0; o < out; ++o) to[i * out + o] = code_at(all.data() + o, out, row, bits);
    }
  };
  return m;
}

PackedMatrix awq_matrix(const TensorSource& files, const WeightPacking& packing, const std::string& module) {
  PackedMatrix m{.tensor = module + ".qweight"};
  const Shape shape = matrix_shape(files, m.tensor, "[inputs, outputs / 8]");
  m.in = shape[0], m.out = shape[1] * 8, m.bits = 4;
  m.group = packing.group < 0 ? m.in : std::min(packing.group, m.in);
  const int64_t across = shape[1];
  const Tensor words = required_tensor(files, m.tensor, kWords, shape);
  const auto zeros = std::make_shared<const std::vector<uint32_t>>(
      words_of(required_tensor(files, module + ".qzeros", kWords, {m.groups(), across})));
  set_scales(m, files, module, [=](int64_t g, int64_t o) {
    return static_cast<uint8_t>(
        (*zeros)[static_cast<size_t>(g * across + o / 8)] >> kAwqShift[static_cast<size_t>(o % 8)] & 15);
  });
  m.codes = [words](uint8_t* to) {
    for (const uint32_t word : words_of(words))
      for (const int shift : kAwqShift) *to++ = static_cast<uint8_t>(word >> shift & 15);
  };
  return m;
}

}  // namespace rlx::language
