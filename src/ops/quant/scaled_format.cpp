// Formats of at most 8 bits: their names, and what their codes mean.
#include <charconv>
#include <cmath>

#include "rlx/ops/scaled.h"

namespace rlx {
namespace {

constexpr DType kNamed[] = {DType::f8e4m3fn, DType::f8e5m2,   DType::f8e4m3fnuz, DType::f8e5m2fnuz,
                            DType::f6e2m3fn, DType::f6e3m2fn, DType::f4e2m1fn};

int64_t usual_bias(int64_t exponent_bits) { return (int64_t{1} << (exponent_bits - 1)) - 1; }
bool is_fnuz(const std::optional<DType>& t) { return t == DType::f8e4m3fnuz || t == DType::f8e5m2fnuz; }
/// Takes `prefix` and a number behind it.
bool take(std::string_view& text, std::string_view prefix, int64_t& number) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

ScaledFormat::ScaledFormat(DType dtype) : dtype_(dtype) {
  if (std::find(std::begin(kNamed), std::end(kNamed), dtype) == std::end(kNamed)) {
    std::string list;
    for (DType t : kNamed) list += (list.empty() ? "" : ", ") + std::string(name_of(t));
    fail(ErrorCode::invalid_argument, dtype, " is no format of codes with a scale; the dtypes that are: ", list);
  }
  exponent_bits_ = info(dtype).exponent_bits, mantissa_bits_ = info(dtype).mantissa_bits;
  bias_ = static_cast<int>(usual_bias(exponent_bits_)) + is_fnuz(dtype_);
}

ScaledFormat ScaledFormat::custom(int64_t exponent_bits, int64_t mantissa_bits, std::optional<int64_t> bias) {
  if (exponent_bits < 1 || mantissa_bits < 0 || exponent_bits > 7 || mantissa_bits > 7 - exponent_bits)
    fail(ErrorCode::invalid_argument, "a format of ", exponent_bits, " exponent and ", mantissa_bits,
         " mantissa bits: there are 8 bits with the sign, and at least one is the exponent's");
  int64_t b = bias.value_or(usual_bias(exponent_bits));
  int64_t least = 1 - b - mantissa_bits, most = (int64_t{1} << exponent_bits) - 1 - b;
  if (b < 0 || least < -126 || most > 127)
    fail(ErrorCode::invalid_argument, "with a bias of ", b, ", numbers of ", exponent_bits, " exponent and ",
         mantissa_bits, " mantissa bits would lie beyond those of f32; the usual bias is ", usual_bias(exponent_bits));
  ScaledFormat f;
  f.dtype_.reset();
  f.exponent_bits_ = static_cast<int>(exponent_bits), f.mantissa_bits_ = static_cast<int>(mantissa_bits);
  f.bias_ = static_cast<int>(b);
  // The formats of 4 and 6 bits that have dtypes are all finite, too: one format has one name.
  for (DType t : {DType::f6e2m3fn, DType::f6e3m2fn, DType::f4e2m1fn})
    if (ScaledFormat n(t);
        n.exponent_bits_ == f.exponent_bits_ && n.mantissa_bits_ == f.mantissa_bits_ && n.bias_ == f.bias_)
      return n;
  return f;
}

ScaledFormat ScaledFormat::named(std::string_view name) {
  for (DType t : kNamed)
    if (name_of(t) == name) return t;
  if (name == "f8e4m3") return DType::f8e4m3fn;
  if (name == "f8e5m2") return DType::f8e5m2;
  int64_t bits = 0, exponent = 0, mantissa = 0, bias = 0;
  std::string_view rest = name;
  if (take(rest, "f", bits) && take(rest, "e", exponent) && take(rest, "m", mantissa)) {
    bool has_bias = !rest.empty(), well_formed = !has_bias || (take(rest, "_bias", bias) && rest.empty());
    if (well_formed && exponent <= 8 && mantissa <= 8 && bits == 1 + exponent + mantissa)
      return custom(exponent, mantissa, has_bias ? std::optional(bias) : std::nullopt);
  }
  fail(ErrorCode::parse, "'", name, "' is no format: one is named as its dtype (f8e4m3fn, f8e5m2, f8e4m3fnuz, ",
       "f8e5m2fnuz, f6e2m3fn, f6e3m2fn, f4e2m1fn), or fNeXmY with N = 1 + X + Y bits, perhaps with _biasB behind");
}

void parse(Scanner& in, ScaledFormat& f) {
  std::string_view word = in.word();
  try {
    f = ScaledFormat::named(word);
  } catch (const Error&) {
    in.unexpected(text_of("a format such as f8e4m3fn or f6e3m2 instead of '", word, "'"));
  }
}

std::string ScaledFormat::name() const {
  if (dtype_) return std::string(name_of(*dtype_));
  std::string plain = text_of("f", bits(), "e", exponent_bits_, "m", mantissa_bits_);
  // f8e4m3 and f8e5m2 are the hardware's.
  bool taken = plain == "f8e4m3" || plain == "f8e5m2";
  return bias_ == usual_bias(exponent_bits_) && !taken ? plain : text_of(plain, "_bias", bias_);
}

uint8_t ScaledFormat::largest_code() const {
  int all = (1 << (bits() - 1)) - 1;
  if (dtype_ == DType::f8e4m3fn) --all;        // the last one is NaN
  if (dtype_ == DType::f8e5m2) all -= 1 << 2;  // the last exponent is infinity's and NaN's
  return static_cast<uint8_t>(all);
}
bool ScaledFormat::has_minus_zero() const { return !is_fnuz(dtype_); }

double ScaledFormat::decode(uint8_t code) const {
  int sign_bit = 1 << (bits() - 1), low = code & (sign_bit - 1);
  if (dtype_) return decode_float(*dtype_, static_cast<uint64_t>(code & (2 * sign_bit - 1)));
  int mantissa = low & ((1 << mantissa_bits_) - 1), exponent = low >> mantissa_bits_;
  int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits_);
  double v = std::ldexp(whole, std::max(exponent, 1) - bias_ - mantissa_bits_);
  return code & sign_bit ? -v : v;
}

uint8_t ScaledFormat::encode(double v) const {
  if (std::isnan(v)) return 0;
  double magnitude = std::min(std::abs(v), largest());
  int exponent = 0, least = 1 - bias_;
  std::frexp(magnitude, &exponent);  // magnitude = fraction * 2^exponent, fraction in [0.5, 1)
  exponent = magnitude == 0 ? least : std::max(exponent - 1, least);
  // Rounding up to the next power of two carries into the exponent by itself.
  int code = static_cast<int>(std::nearbyint(std::ldexp(magnitude, mantissa_bits_ - exponent))) +
             (exponent - least) * (1 << mantissa_bits_);
  bool negative = std::signbit(v) && (code != 0 || has_minus_zero());
  return static_cast<uint8_t>(negative ? code + (1 << (bits() - 1)) : code);
}

}  // namespace rlx
