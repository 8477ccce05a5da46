// Elements in, elements out: every dtype that has a C++ type.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

template <class T>
T number(double v) {
  if constexpr (std::is_same_v<T, Half>) return to_half(v);
  else if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(v);
  else if constexpr (std::is_same_v<T, bool>) return v != 0;
  else if constexpr (std::is_same_v<T, std::complex<float>>) return {static_cast<float>(v), 0};
  else return static_cast<T>(v);
}

/// x + w for numbers, x or w for bools.
template <class T>
void adds() {
  const DType dtype = dtype_of<T>();
  CAPTURE(name_of(dtype));
  Graph g("g");
  Value x = g.input("x", dtype, {2, 2}), w = g.param("w", dtype, {2, 2});
  g.output(dtype == boolean ? bitwise_or(x, w) : x + w);
  g.output(w);
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  // std::vector<bool> has no elements to point at.
  const T ws[] = {number<T>(1), number<T>(2), number<T>(0), number<T>(0)};
  const T xs[] = {number<T>(3), number<T>(0), number<T>(5), number<T>(0)};
  const T sums[] = {number<T>(4), number<T>(2), number<T>(5), number<T>(0)};
  compiled.set_param_typed<T>("w", ws);
  if constexpr (std::is_same_v<T, bool>) {
    auto out = compiled.run({{"x", Tensor::of<bool>({2, 2}, std::span<const bool>(xs))}});
    for (size_t i = 0; i < 4; ++i) CHECK(out[0].values<bool>()[i] == (i < 3));
    for (size_t i = 0; i < 4; ++i) CHECK(out[1].values<bool>()[i] == ws[i]);
  } else {
    std::vector<std::pair<std::string, std::span<const T>>> in = {{"x", xs}};
    std::vector<std::vector<T>> out = compiled.run_typed<T>(in);
    REQUIRE(out.size() == 2);
    CHECK(out[0] == std::vector<T>(sums, sums + 4));
    CHECK(out[1] == std::vector<T>(ws, ws + 4));
  }
}

}  // namespace

TEST_CASE("params are bound and graphs run from elements of every dtype") {
  adds<bool>();
  adds<int8_t>();
  adds<int16_t>();
  adds<int32_t>();
  adds<int64_t>();
  adds<uint8_t>();
  adds<uint16_t>();
  adds<uint32_t>();
  adds<uint64_t>();
  adds<Half>();
  adds<BFloat16>();
  adds<float>();
  adds<double>();
  adds<std::complex<float>>();
  adds<std::complex<double>>();
}

TEST_CASE("dtypes without a C++ type are bound and given back as tensors") {
  for (size_t d = 0; d < kDTypeCount; ++d) {
    auto dtype = static_cast<DType>(d);
    CAPTURE(name_of(dtype));
    Tensor t(dtype, {2, is_block(dtype) ? 256 : 8});
    for (size_t i = 0; i < t.byte_count(); ++i)
      t.mutable_data()[i] = static_cast<std::byte>(dtype == boolean ? i % 2 : i * 37);
    Graph g("g");
    g.output(g.input("x", t.dtype(), t.type().dims), "x");
    g.output(g.param("w", t.dtype(), t.type().dims), "w");
    g.output(g.constant(t), "c");
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
    compiled.set_param("w", t);
    auto out = compiled.run({{"x", t}});
    for (const Tensor& y : out) CHECK(y == t);
  }
}

TEST_CASE("elements of another dtype or count than the graph's are refused") {
  Graph g("g");
  g.output(g.input("x", f32, {2}) * g.param("w", f32, {2}));
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  const double wide[] = {1, 2};
  const float narrow[] = {1, 2, 3};
  CHECK(message_of([&] { compiled.set_param_typed<double>("w", wide); }) == "param 'w' is f32[2], got f64[2]");
  CHECK(message_of([&] { compiled.set_param_typed<float>("w", narrow); }) ==
        "a tensor of type f32[2] has 2 elements, got 3 values");
  compiled.set_param_typed<float>("w", std::span(narrow).first(2));
  std::vector<std::pair<std::string, std::span<const double>>> in = {{"x", wide}};
  CHECK(message_of([&] { compiled.run_typed<double>(in); }).starts_with("input 'x' is f32[2], got f64[2]"));
}

TEST_CASE("elements narrower than a byte take other dims on the CPU") {
  const int8_t numbers[] = {1, 0, 1, 1, 0, 0, 1, 0};
  for (DType dtype : {DType::i4, DType::u4, DType::u3, DType::u2, DType::u1}) {
    CAPTURE(name_of(dtype));
    Graph g("g");
    Value x = convert(g.input("x", DType::i8, {2, 4}), dtype);
    g.output(convert(reshape(x, {2, 2, 2}), DType::i8));
    auto out = Session(Device::cpu(), {1})
                   .compile(g)
                   .run({{"x", Tensor::of<int8_t>({2, 4}, std::span<const int8_t>(numbers))}});
    for (size_t i = 0; i < 8; ++i) CHECK(out[0].values<int8_t>()[i] == numbers[i]);
  }
}
