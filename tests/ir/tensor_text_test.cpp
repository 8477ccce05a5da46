// Tensors as text: what is printed reads back with the same bits, whatever the bits are, and what is wrong is refused
// with the line that says so.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "rlx/element.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

std::string text(const Tensor& t) {
  std::ostringstream out;
  print(out, t);
  return out.str();
}
Tensor read(std::string_view from) {
  Scanner in(from);
  Tensor t;
  parse(in, t);
  if (!in.at_end()) in.unexpected("the end");
  return t;
}
Tensor from_bits(DType dtype, Shape shape, const std::vector<uint64_t>& bits) {
  Tensor t(dtype, std::move(shape));
  for (size_t i = 0; i < bits.size(); ++i) store<uint64_t>(t, i, bits[i]);
  return t;
}

}  // namespace

TEST_CASE("numbers print as the shortest text that reads back as the same number") {
  CHECK(text(Tensor::of<float>({4}, {1, -0.1f, 1e-45f, 3.4028235e38f})) == "f32[4] [1, -0.1, 1e-45, 3.4028235e+38]");
  CHECK(text(Tensor::of<double>({2}, {0.1, -1e300})) == "f64[2] [0.1, -1e+300]");
  CHECK(text(Tensor::of<float>({3}, {INFINITY, -INFINITY, -0.0f})) == "f32[3] [inf, -inf, -0]");
  CHECK(text(Tensor::of<Half>({2}, {to_half(65504), to_half(0.1)})) == "f16[2] [65504, 0.099975586]");
  CHECK(text(Tensor::of<BFloat16>({1}, {to_bfloat16(0.1)})) == "bf16[1] [0.100097656]");
  CHECK(text(Tensor::of<int8_t>({2}, {int8_t{-128}, int8_t{127}})) == "i8[2] [-128, 127]");
  CHECK(text(Tensor::of<uint64_t>({}, {~uint64_t{0}})) == "u64[] [18446744073709551615]");
  CHECK(text(Tensor::of<bool>({2}, {true, false})) == "bool[2] [true, false]");
  CHECK(text(Tensor::of<std::complex<float>>({1}, {{1, -2.5f}})) == "c64[1] [(1, -2.5)]");
  CHECK(text(Tensor(f32, {0, 2})) == "f32[0, 2] []");
  CHECK(text(Tensor::scalar<float>(7)) == "f32[] [7]");
}

TEST_CASE("a NaN keeps its sign and its payload, quiet or signalling, in every format") {
  CHECK(text(from_bits(f32, {1}, {0x7fc00000})) == "f32[1] [nan]");
  CHECK(text(from_bits(f32, {1}, {0x7f800001})) == "f32[1] [0x7f800001]");
  CHECK(text(from_bits(f16, {1}, {0xfe00})) == "f16[1] [0xfe00]");
  for (Tensor t :
       {from_bits(f32, {4}, {0x7fc00000, 0xffc00000, 0x7f800001, 0x7fc0dead}),
        from_bits(f64, {3}, {0x7ff8000000000000, 0x7ff0000000000001, 0xfff8000000000001}),
        from_bits(f16, {4}, {0x7e00, 0xfe00, 0x7c01, 0x7e55}), from_bits(bf16, {3}, {0x7fc0, 0xffc1, 0x7f81}),
        from_bits(f8e5m2, {3}, {0x7e, 0x7d, 0xff}), from_bits(f8e4m3fn, {2}, {0x7f, 0xff})})
    CHECK(read(text(t)) == t);
  Tensor complex(c64, {2});
  uint32_t parts[] = {0x7f800001, 0xffc00000, 0x3f800000, 0x80000000};
  std::memcpy(complex.mutable_data(), parts, sizeof parts);
  CHECK(read(text(complex)) == complex);
}

TEST_CASE("every code of every 8-bit and 16-bit float reads back, and random bits of every dtype do") {
  for (DType t : {f16, bf16, f8e4m3fn, f8e5m2, f8e4m3fnuz, f8e5m2fnuz, f8e8m0fnu}) {
    int64_t count = int64_t{1} << info(t).bits;
    Tensor all(t, {count});
    for (int64_t i = 0; i < count; ++i) store<uint64_t>(all, static_cast<size_t>(i), static_cast<uint64_t>(i));
    CHECK_MESSAGE(read(text(all)) == all, t);
  }
  std::mt19937_64 bits(std::strtoull(std::getenv("RLX_TEST_SEED"), nullptr, 10));
  for (size_t d = 0; d < kDTypeCount; ++d) {
    auto t = static_cast<DType>(d);
    Tensor x(t, {3, is_block(t) ? 512 : 40});
    for (size_t i = 0; i < x.byte_count(); ++i)
      x.mutable_data()[i] = static_cast<std::byte>(t == boolean ? bits() & 1 : bits());
    CHECK_MESSAGE(read(text(x)) == x, t);
  }
}

TEST_CASE(
    "constants with too few or too many numbers are refused, and nothing is allocated for numbers that are not there") {
  CHECK(message_of([] { read("f32[3] [1, 2]"); }) == R"(line 1: expected ',' before "]")");
  CHECK(message_of([] { read("f32[2] [1, 2, 3]"); }) == R"(line 1: expected ']' before ", 3]")");
  CHECK(message_of([] { read("f32[0] [1]"); }) == R"(line 1: expected ']' before "1]")");
  CHECK(message_of([] { read("f32[1000000000000] [1]"); }) == R"(line 1: expected ',' before "]")");
  CHECK(message_of([] { read("q8_0[1000000000001] [1]"); }) ==
        "q8_0 holds blocks of 32 along the last dim, which is 1000000000001\n  while reading line 1");
  CHECK(message_of([] { read("q8_0[3200000000000] [1]"); }) == R"(line 1: expected ',' before "]")");
  CHECK(message_of([] { read("f32[72057594037927936, 2] []"); }) ==
        "more elements than memory can ever hold: an extent of 2 times 72057594037927936\n  while reading line 1");
}

TEST_CASE("numbers that a dtype cannot hold are refused") {
  CHECK(message_of([] { read("i8[1] [128]"); }) ==
        R"(line 1: expected a number that i8 can hold instead of 128 before "]")");
  CHECK(message_of([] { read("i4[1] [-9]"); }) ==
        R"(line 1: expected a number that i4 can hold instead of -9 before "]")");
  CHECK(message_of([] { read("u3[1] [8]"); }) ==
        R"(line 1: expected a number that u3 can hold instead of 8 before "]")");
  CHECK(message_of([] { read("u8[1] [-1]"); }) == R"(line 1: expected a number before "-1]")");
  CHECK(message_of([] { read("i64[1] [9223372036854775808]"); }) ==
        R"(line 1: expected a number that its type can hold before "9223372036854775808]")");
  CHECK(message_of([] { read("bool[1] [1]"); }) == R"(line 1: expected true or false before "1]")");
  CHECK(message_of([] { read("i32[1] [1.5]"); }) == R"(line 1: expected ']' before ".5]")");
  CHECK(message_of([] { read("f16[1] [0x10000]"); }) ==
        R"(line 1: expected hexadecimal digits of 16 bits instead of '10000' before "]")");
  CHECK(message_of([] { read("f32[1] [0xzz]"); }) ==
        R"(line 1: expected hexadecimal digits of 32 bits instead of 'zz' before "]")");
  CHECK(message_of([] { read("q8_0[32] [256]"); }) ==
        R"(line 1: expected a number that its type can hold before "256]")");
  CHECK(message_of([] { read("c64[1] [1]"); }) == R"(line 1: expected '(' before "1]")");
}

TEST_CASE("a constant needs static, non-negative dims and a dtype that there is") {
  CHECK(message_of([] { read("f32[N] [1]"); }) ==
        R"(line 1: expected a constant with static dims instead of f32[N] before " [1]")");
  CHECK(message_of([] { read("f32[-1] [1]"); }) ==
        R"(line 1: expected non-negative dims instead of f32[-1] before " [1]")");
  CHECK(message_of([] { read("f33[1] [1]"); }).starts_with("there is no dtype 'f33'; there are bool, i4, i8"));
  CHECK(message_of([] { read("f32[1] @\"w\""); }) ==
        "line 1: expected the elements of constant 'w' (this text has no file beside it) before the end of the text");
}

TEST_CASE("tensors say what was asked of them that they are not") {
  Tensor t = Tensor::of<float>({2}, {1, 2});
  CHECK(message_of([&] { t.values<double>(); }) == "this tensor is f32[2]; its elements cannot be taken for f64");
  CHECK(message_of([&] {
          Tensor::of<float>({3}, {1.0f, 2.0f});
        }) == "a tensor of type f32[3] has 3 elements, got 2 values");
  CHECK(message_of([&] { t.reshaped({3}); }) == "a tensor of type f32[2] has 2 elements, f32[3] has 3");
  CHECK(message_of([&] { Tensor::borrow(f32, {2}, t.bytes().first(4)); }) ==
        "a tensor of type f32[2] needs 8 bytes, got 4");
  CHECK(message_of([&] { Tensor(f32, {-1}); }) == "an extent of -1 is negative");
  CHECK(message_of([&] { Tensor(q4_0, {2, 33}); }) == "q4_0 holds blocks of 32 along the last dim, which is 33");
  CHECK(message_of([&] { load_number(Tensor(c64, {1}), 0); }) == "a complex element is no real number");
  CHECK(message_of([&] { load_index(t, 0); }) == "an index must be an integer, not f32");
}

TEST_CASE("copies share their elements until one of them is written") {
  Tensor a = Tensor::of<float>({2}, {1, 2}), b = a;
  CHECK(a.data() == b.data());
  CHECK(!a.is_unshared());
  b.mutable_values<float>()[0] = 9;
  CHECK(a.values<float>()[0] == 1);
  CHECK(a.is_unshared());
  std::vector<float> mine = {5, 6};
  Tensor borrowed = Tensor::borrow(f32, {2}, std::as_bytes(std::span<const float>(mine)));
  CHECK(!borrowed.is_unshared());
  borrowed.mutable_values<float>()[0] = 7;
  CHECK(mine[0] == 5);
  int64_t strides[] = {4, 8};
  Tensor turned = Tensor::from_strided(f32, {2, 2}, Tensor::of<float>({2, 2}, {1, 2, 3, 4}).data(), strides);
  CHECK(turned == Tensor::of<float>({2, 2}, {1, 3, 2, 4}));
}
