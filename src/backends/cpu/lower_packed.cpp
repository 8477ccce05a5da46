// Conversions from and to elements narrower than a byte, one element after another. Such dtypes are for storage; ops
// that read them often have kernels of their own (kernels/quant/quantized_weights.h).
#include "backends/cpu/lowerings.h"
#include "rlx/ops/elementwise.h"

namespace rlx::cpu {
namespace {

/// The bits of element i; elements narrower than a byte are packed from the low bit up.
uint64_t read_bits(const std::byte* data, int bits, int64_t i) {
  uint64_t pattern = 0;
  if (bits >= 8) {
    std::memcpy(&pattern, data + i * (bits / 8), static_cast<size_t>(bits / 8));
    return pattern;
  }
  for (int64_t b = 0, first = i * bits; b < bits; ++b)
    pattern |= static_cast<uint64_t>((std::to_integer<unsigned>(data[(first + b) / 8]) >> ((first + b) % 8)) & 1u) << b;
  return pattern;
}
void write_bits(std::byte* data, int bits, int64_t i, uint64_t pattern) {
  if (bits >= 8) {
    std::memcpy(data + i * (bits / 8), &pattern, static_cast<size_t>(bits / 8));
    return;
  }
  for (int64_t b = 0, first = i * bits; b < bits; ++b) {
    std::byte mask{static_cast<unsigned char>(1u << ((first + b) % 8))};
    std::byte& at = data[(first + b) / 8];
    at = (pattern >> b) & 1 ? at | mask : at & ~mask;
  }
}

int64_t sign_extended(uint64_t pattern, int bits) {
  return static_cast<int64_t>(pattern << (64 - bits)) >> (64 - bits);
}
/// A float as the bits of an integer, by the rules of `convert`: truncated, saturated, NaN becomes 0.
uint64_t float_to_integer(double v, DType to) {
  int bits = info(to).bits;
  if (std::isnan(v)) return 0;
  v = std::trunc(v);
  if (kind_of(to) == Kind::signed_int) {
    double limit = std::ldexp(1, bits - 1);
    if (v >= limit) return (uint64_t{1} << (bits - 1)) - 1;
    return static_cast<uint64_t>(static_cast<int64_t>(std::max(v, -limit)));
  }
  double limit = std::ldexp(1, bits);
  if (v >= limit) return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return v <= 0 ? 0 : static_cast<uint64_t>(v);
}
uint64_t converted_bits(uint64_t pattern, DType from, DType to) {
  auto from_number = [&](auto v) -> uint64_t {
    if (to == boolean) return v != 0;
    if (is_float(to)) return encode_float(to, static_cast<double>(v));
    if constexpr (std::is_same_v<decltype(v), double>) return float_to_integer(v, to);
    else return static_cast<uint64_t>(v);
  };
  if (is_float(from)) return from_number(decode_float(from, pattern));
  if (kind_of(from) == Kind::signed_int) return from_number(sign_extended(pattern, info(from).bits));
  return from_number(pattern);
}

}  // namespace

std::string when_packed_convert(const Question& q) {
  for (const Type& t : {q.operands[0], q.node.types[0]})
    if (is_complex(t.dtype) || is_block(t.dtype)) return text_of("no kernel converts packed elements and ", t);
  return "";
}
Prepared lower_packed_convert(const LoweringContext& c) {
  DType from = c.operands[0].dtype, to = c.results[0].dtype;
  int from_bits = info(from).bits, to_bits = info(to).bits;
  int64_t count = c.operands[0].count();
  size_t bytes = byte_count(to, c.results[0].shape);
  return make_step(text_of("convert ", from, " to ", to), 0, [=](const StepArgs& args) {
    if (to_bits < 8) std::memset(args.out(), 0, bytes);  // sets the bits behind the last element, and all others, to 0
    // Ranges are multiples of eight elements, because eight elements begin at a byte, whatever their width.
    for_ranges(args, count, 8, static_cast<double>(count) * 10, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i)
        write_bits(args.out<std::byte>(), to_bits, i,
                   converted_bits(read_bits(args.in<std::byte>(0), from_bits, i), from, to));
    });
  });
}

}  // namespace rlx::cpu
