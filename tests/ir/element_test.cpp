// Elements against ml_dtypes: what every code of every narrow float format means, and which code a number rounds to.
// Packed integers and what a store of any kind keeps. tests/golden/generate/formats.py made the tables.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "rlx/element.h"
#include "rlx/io.h"

using namespace rlx;

namespace {

const DType kNarrowFloats[] = {f16,        bf16,      f8e4m3fn, f8e5m2,   f8e4m3fnuz,
                               f8e5m2fnuz, f8e8m0fnu, f6e2m3fn, f6e3m2fn, f4e2m1fn};

std::string name(DType t, const char* what) { return std::string(name_of(t)) + "/" + what; }

}  // namespace

TEST_CASE("every code of every narrow float format means what ml_dtypes says") {
  auto tables = NpzFile::open("tests/golden/formats/formats.npz");
  for (DType t : kNarrowFloats) {
    Tensor decoded = tables.array(name(t, "decoded"));
    REQUIRE(decoded.element_count() == size_t{1} << info(t).bits);
    size_t wrong = 0;
    for (uint64_t code = 0; code < decoded.element_count(); ++code) {
      double want = static_cast<double>(decoded.values<float>()[code]), got = decode_float(t, code);
      bool same = std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
      if (!same && ++wrong < 4) FAIL_CHECK(t, " code ", code, " is ", got, " instead of ", want);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a number rounds to the nearest one of its format, ties to even") {
  auto tables = NpzFile::open("tests/golden/formats/formats.npz");
  size_t count = 0;
  for (DType t : kNarrowFloats) {
    Tensor values = tables.array(name(t, "values")), codes = tables.array(name(t, "codes"));
    REQUIRE(values.element_count() == codes.element_count());
    size_t wrong = 0;
    for (size_t i = 0; i < values.element_count(); ++i, ++count) {
      uint64_t got = encode_float(t, values.values<double>()[i]), want = codes.values<uint16_t>()[i];
      if (got != want && ++wrong < 4)
        FAIL_CHECK(values.values<double>()[i], " becomes ", t, " code ", got, " instead of ", want);
    }
    CHECK(wrong == 0);
  }
  MESSAGE(count, " roundings");
}

TEST_CASE("every code that is not NaN comes back when its value is encoded") {
  for (DType t : kNarrowFloats)
    for (uint64_t code = 0; code < uint64_t{1} << info(t).bits; ++code) {
      double v = decode_float(t, code);
      if (std::isnan(v)) CHECK((std::isnan(decode_float(t, encode_float(t, v)))));
      else if (encode_float(t, v) != code) FAIL_CHECK(t, " code ", code, " comes back as ", encode_float(t, v));
    }
}

TEST_CASE("f32 and f64 are the processor's own, with the sign of zero and infinities") {
  for (double v : {0.0, -0.0, 1.0, -1.5, 1e-45, 1e-310, 3.4e38, 1e39, HUGE_VAL, -HUGE_VAL, 0.1}) {
    CHECK(encode_float(f64, v) == std::bit_cast<uint64_t>(v));
    CHECK(encode_float(f32, v) == std::bit_cast<uint32_t>(static_cast<float>(v)));
    CHECK(decode_float(f64, encode_float(f64, v)) == v);
  }
}

TEST_CASE("packed elements stand one after another from the low bit up, and writing one leaves its neighbours alone") {
  for (DType t : {i4, u1, u2, u3, u4, u6}) {
    const int64_t count = 24;
    Tensor x(t, {count});
    CHECK(x.byte_count() == static_cast<size_t>(count * info(t).bits / 8));
    auto value = [&](int64_t i) {
      int64_t v = (i * 37 + 11) % (int64_t{1} << info(t).bits);
      return kind_of(t) == Kind::signed_int ? v - (int64_t{1} << (info(t).bits - 1)) : v;
    };
    for (int64_t i = count; i-- > 0;) {  // backwards, each twice: first all ones, then the value
      auto put = [&](int64_t v) {
        if (kind_of(t) == Kind::signed_int) store<int64_t>(x, static_cast<size_t>(i), v);
        else store<uint64_t>(x, static_cast<size_t>(i), static_cast<uint64_t>(v));
      };
      put(-1);
      put(value(i));
    }
    for (int64_t i = 0; i < count; ++i) {
      CHECK(load_index(x, static_cast<size_t>(i)) == value(i));
      uint64_t bits = 0;  // by the definition of the layout
      for (int b = 0; b < info(t).bits; ++b) {
        auto bit = static_cast<size_t>(i * info(t).bits + b);
        bits |= static_cast<uint64_t>((std::to_integer<unsigned>(x.data()[bit / 8]) >> (bit % 8)) & 1u) << b;
      }
      CHECK(bits == (static_cast<uint64_t>(value(i)) & ((uint64_t{1} << info(t).bits) - 1)));
    }
  }
}

TEST_CASE("integers wrap where they are stored, and any number but 0 is true") {
  Tensor small(i8, {2}), wide(u16, {1}), truth(boolean, {3});
  store<int64_t>(small, 0, 300);
  store<int64_t>(small, 1, -129);
  CHECK(small.values<int8_t>()[0] == 44);
  CHECK(small.values<int8_t>()[1] == 127);
  store<uint64_t>(wide, 0, 65536 + 7);
  CHECK(wide.values<uint16_t>()[0] == 7);
  store<uint64_t>(truth, 0, 256);
  store<uint64_t>(truth, 1, 0);
  store<uint64_t>(truth, 2, 1);
  CHECK(load<uint64_t>(truth, 0) == 1);
  CHECK(load<uint64_t>(truth, 1) == 0);
  CHECK(load<uint64_t>(truth, 2) == 1);
}

TEST_CASE("full fills with the number, through the sign of an unsigned dtype, and positions are row-major") {
  CHECK(full(i16, {2}, -3).values<int16_t>()[1] == -3);
  CHECK(full(u8, {2}, -1).values<uint8_t>()[0] == 255);
  CHECK(full(u64, {1}, -1).values<uint64_t>()[0] == ~uint64_t{0});
  CHECK(full(boolean, {1}, 0.5).values<bool>()[0]);
  CHECK(full(c64, {1}, 2.5).values<std::complex<float>>()[0] == std::complex<float>(2.5f, 0));
  CHECK(to_double(full(f16, {1}, 1e9).values<Half>()[0]) == INFINITY);
  CHECK(full(f32, {0, 3}, 1).element_count() == 0);
  CHECK(offset_of({2, 3, 4}, {1, 2, 3}) == 23);
  CHECK(offset_of({}, {}) == 0);
  size_t calls = 0;
  for_each_index({2, 0, 3}, [&](const Axes&) { ++calls; });
  CHECK(calls == 0);
  for_each_index({}, [&](const Axes& index) { calls += 1 + index.size(); });
  CHECK(calls == 1);
}

TEST_CASE("elements are read and written in the type of their kind alone") {
  Tensor integers(i32, {2}), floats(f32, {2}), numbers(c64, {2}), flags(boolean, {2});
  CHECK_THROWS_WITH_AS(store<double>(integers, 0, 1.0),
                       doctest::Contains("elements of i32 are not read and written as double"), Error);
  CHECK_THROWS_AS(load<double>(integers, 0), Error);
  CHECK_THROWS_AS(store<double>(flags, 0, 1.0), Error);
  CHECK_THROWS_AS(store<double>(numbers, 0, 1.0), Error);
  CHECK_THROWS_AS(store<int64_t>(floats, 0, 1), Error);
  CHECK_THROWS_AS(load<uint64_t>(numbers, 0), Error);
  CHECK_THROWS_AS(load<int64_t>(numbers, 0), Error);
  CHECK_THROWS_AS(store<Complex>(floats, 0, Complex(1, 0)), Error);
  CHECK_THROWS_AS(load<Complex>(flags, 0), Error);
  // Integers of either sign go as both.
  store<uint64_t>(integers, 1, 7);
  CHECK(load<int64_t>(integers, 1) == 7);
  CHECK(load_number(full(i32, {1}, 3.0), 0) == 3);
}
