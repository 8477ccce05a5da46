// Tensors as text: `f32[2, 2] [1, 2, 3, 4]`, flat in row-major order. Floats print as the shortest number that
// reads back with the same bits; what no number reads back as (a NaN with a payload) prints as `0x...` bits.
#include <cmath>
#include <map>

#include "rlx/element.h"

namespace rlx {
namespace {

int elsewhere_slot() {
  static const int slot = std::ios_base::xalloc();
  return slot;
}

/// One float, from its bits: a NaN is told from the usual one only by them.
void print_real(std::ostream& out, DType dtype, uint64_t bits) {
  double v = decode_float(dtype, bits);
  if (std::isnan(v)) {
    if (bits == encode_float(dtype, NAN)) out << "nan";
    else out << "0x" << std::hex << bits << std::dec;
    return;
  }
  char text[32];
  // A float prints shorter than the double of the same value, and rounds back to it.
  auto end = dtype == f64 ? std::to_chars(text, text + sizeof text, v).ptr
                          : std::to_chars(text, text + sizeof text, static_cast<float>(v)).ptr;
  out << std::string_view(text, static_cast<size_t>(end - text));
}
uint64_t parse_real(Scanner& in, DType dtype) {
  if (!in.accept("0x")) return encode_float(dtype, in.number<double>());
  std::string_view digits = in.word();
  uint64_t bits = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  int most = info(dtype).bits;
  if (error != std::errc{} || end != digits.data() + digits.size() || (most < 64 && bits >> most != 0))
    in.unexpected(text_of("hexadecimal digits of ", most, " bits instead of '", digits, "'"));
  return bits;
}

/// The bits of part 0 or 1 of a complex element.
uint64_t part_bits(const Tensor& t, size_t i, size_t part) {
  size_t size = byte_size(t.dtype()) / 2;
  uint64_t bits = 0;
  std::memcpy(&bits, t.data() + (2 * i + part) * size, size);
  return bits;
}
/// Elements of a complex dtype from the bits of their parts.
Tensor from_parts(DType dtype, Shape shape, const std::vector<uint64_t>& parts) {
  Tensor t = Tensor::uninitialized(dtype, std::move(shape));
  size_t size = byte_size(dtype) / 2;
  std::byte* to = t.mutable_data();
  for (size_t i = 0; i < parts.size(); ++i) std::memcpy(to + i * size, &parts[i], size);
  return t;
}

template <class T>
void print_element(std::ostream& out, const Tensor& t, size_t i) {
  if constexpr (std::is_same_v<T, double>) print_real(out, t.dtype(), load<uint64_t>(t, i));
  else if constexpr (std::is_same_v<T, Complex>) {
    print_real(out << "(", real_part(t.dtype()), part_bits(t, i, 0));
    print_real(out << ", ", real_part(t.dtype()), part_bits(t, i, 1));
    out << ")";
  } else if (t.dtype() == boolean) print(out, load<T>(t, i) != 0);
  else out << load<T>(t, i);
}
template <class T>
T parse_integer(Scanner& in, DType dtype) {
  if (dtype == boolean) {
    bool v;
    parse(in, v);
    return v;
  }
  T v = in.number<T>();
  int bits = info(dtype).bits;
  bool fits =
      bits == 64 || (std::is_signed_v<T> ? v >= -(T{1} << (bits - 1)) && v < (T{1} << (bits - 1)) : v < (T{1} << bits));
  if (!fits) in.unexpected(text_of("a number that ", dtype, " can hold instead of ", v));
  return v;
}

}  // namespace

ConstantsElsewhere::ConstantsElsewhere(std::ostream& out, size_t least, std::function<std::string(const Tensor&)> f)
    : least_bytes(least), take(std::move(f)), out_(out) {
  out_.pword(elsewhere_slot()) = this;
}
ConstantsElsewhere::~ConstantsElsewhere() { out_.pword(elsewhere_slot()) = nullptr; }

void print(std::ostream& out, const Tensor& t) {
  print(out, t.type());
  auto* elsewhere = static_cast<ConstantsElsewhere*>(out.pword(elsewhere_slot()));
  if (elsewhere && t.byte_count() >= elsewhere->least_bytes) {
    write_quoted(out << " @", elsewhere->take(t));
    return;
  }
  out << " [";
  if (is_block(t.dtype())) {
    for (size_t i = 0; i < t.byte_count(); ++i) out << (i ? ", " : "") << std::to_integer<int>(t.data()[i]);
  } else {
    with_element_type(t.dtype(), [&]<class T>() {
      for (size_t i = 0; i < t.element_count(); ++i) print_element<T>(out << (i ? ", " : ""), t, i);
    });
  }
  out << "]";
}

void parse(Scanner& in, Tensor& t) {
  Type type;
  parse(in, type);
  if (!is_static(type.dims)) in.unexpected(text_of("a constant with static dims instead of ", type));
  if (in.accept("@")) {
    std::string name = in.quoted();
    if (!in.tensors) in.unexpected(text_of("the elements of constant '", name, "' (this text has no file beside it)"));
    t = (*in.tensors)(name);
    if (t.type() != type)
      in.unexpected(text_of("constant '", name, "' to be ", type, "; the file beside this text has ", t.type()));
    return;
  }
  in.expect("[");
  // The text must hold as many elements as the type says before that much memory is taken: grow as they come.
  auto count = static_cast<size_t>(element_count(shape_of(type.dims)));
  auto separate = [&](size_t i) {
    if (i > 0) in.expect(",");
  };
  if (is_block(type.dtype)) {
    std::vector<std::byte> bytes;
    size_t wanted = byte_count(type.dtype, shape_of(type.dims));
    for (size_t i = 0; i < wanted; ++i) separate(i), bytes.push_back(static_cast<std::byte>(in.number<uint8_t>()));
    t = Tensor::uninitialized(type.dtype, shape_of(type.dims));
    if (wanted) std::memcpy(t.mutable_data(), bytes.data(), wanted);
  } else {
    t = with_element_type(type.dtype, [&]<class T>() {
      // Floats are read as their bits: a NaN's payload would not survive a double.
      using Held = std::conditional_t<std::is_same_v<T, int64_t>, int64_t, uint64_t>;
      Array<Held> values;
      values.shape = shape_of(type.dims);
      for (size_t i = 0; i < count; ++i) {
        separate(i);
        if constexpr (std::is_same_v<T, double>) values.data.push_back(parse_real(in, type.dtype));
        else if constexpr (std::is_same_v<T, Complex>) {
          in.expect("(");
          values.data.push_back(parse_real(in, real_part(type.dtype)));
          in.expect(",");
          values.data.push_back(parse_real(in, real_part(type.dtype)));
          in.expect(")");
        } else values.data.push_back(parse_integer<T>(in, type.dtype));
      }
      if constexpr (std::is_same_v<T, Complex>) return from_parts(type.dtype, values.shape, values.data);
      else return values.rounded_to(type.dtype);
    });
  }
  in.expect("]");
}

size_t hash_of(const Tensor& t) {
  size_t h = mix(hash_of(t.dtype()), hash_of(t.shape()));
  return mix(h, std::hash<std::string_view>{}({reinterpret_cast<const char*>(t.data()), t.byte_count()}));
}

}  // namespace rlx
