// mlx-lm's affine packing: codes along the input, the lowest bits of each word of 32 first, and a scale and a bias for
// each group.
#include <cstring>

#include "models/language/packed_weights.h"
#include "rlx/element.h"

namespace rlx::language {
namespace {

constexpr DType kMlxWords[] = {u32};
constexpr DType kMlxScales[] = {f16, bf16, f32};

}  // namespace

PackedMatrix mlx_matrix(const TensorSource& files, const WeightPacking& packing, const std::string& module) {
  PackedMatrix m{.tensor = module + ".weight"};
  const auto codes = files.find(m.tensor), scales = files.find(module + ".scales");
  if (!scales)
    fail(ErrorCode::not_found, "there is no tensor '", module, ".scales' in ", files.place(), ", which '", m.tensor,
         "' needs");
  const auto own = packing.modules.find(module);
  m.bits = own == packing.modules.end() ? packing.bits : own->second.bits;
  m.group = own == packing.modules.end() ? packing.group : own->second.group;
  if (codes->dtype != u32 || codes->shape.size() != 2 || scales->shape.size() != 2 || codes->shape[1] < 1)
    fail(ErrorCode::shape_mismatch, "tensor '", m.tensor, "' in ", files.place(), " is ", type_of(*codes),
         ", and its scales ", type_of(*scales),
         "; they must be u32[outputs, inputs * bits / 32] and [outputs, groups]");
  m.out = codes->shape[0];
  m.in = codes->shape[1] * 32 / m.bits;
  if (codes->shape[1] * 32 % m.bits != 0 || m.in % m.group != 0)
    fail(ErrorCode::shape_mismatch, "tensor '", m.tensor, "' in ", files.place(), " is ", type_of(*codes),
         ", which are no whole groups of ", m.group, " codes of ", m.bits, " bits");
  const int64_t in = m.in, out = m.out, bits = m.bits, groups = m.groups();
  const Tensor words = required_tensor(files, m.tensor, kMlxWords, codes->shape);
  const auto turned = [=](const Tensor& t) {
    return [=](float* to) {
      std::vector<float> values(static_cast<size_t>(out * groups));
      read_floats(t, values.data());
      for (int64_t o = 0; o < out; ++o)
        for (int64_t g = 0; g < groups; ++g) to[g * out + o] = values[static_cast<size_t>(o * groups + g)];
    };
  };
  m.scales = turned(required_tensor(files, module + ".scales", kMlxScales, {out, groups}));
  m.biases = turned(required_tensor(files, module + ".biases", kMlxScales, {out, groups}));
  m.codes = [=](uint8_t* to) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(words.data());
    const int64_t row_bytes = in * bits / 8;
    write_turned(in, out, to, [&](int64_t o, int64_t i) {
      const int64_t first = i * bits, byte = first / 8, shift = first % 8;
      unsigned pair = bytes[o * row_bytes + byte];
      if (shift + bits > 8) pair |= static_cast<unsigned>(bytes[o * row_bytes + byte + 1]) << 8;
      return static_cast<uint8_t>((pair >> shift) & ((1U << bits) - 1));
    });
  };
  return m;
}

}  // namespace rlx::language
