// Block formats against gguf (tests/golden/generate/blocks.py), bit by bit: decoded by the reference and on the default
// device, alone, many at once and as other floats; and encoded.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "reference/interpreter.h"
#include "rlx/blocks.h"
#include "rlx/io.h"
#include "rlx/ops/quantize.h"
#include "rlx/session.h"
#include "support/default_device.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

constexpr auto kPath = "tests/golden/blocks/blocks.safetensors";

template <class F>
void for_each_format(F f) {
  size_t formats = 0;
  for (size_t i = 0; i < kDTypeCount; ++i)
    if (auto t = static_cast<DType>(i); is_block(t)) f(t), ++formats;
  CHECK(formats == 26);
}

/// The bytes as a tensor of blocks, a row for each block.
Tensor blocks_of(DType format, const Tensor& bytes) {
  return Tensor::borrow(format, {bytes.shape()[0], info(format).block_elements}, bytes.bytes(), bytes.owner());
}
Graph decoding(const Tensor& blocks, DType dtype) {
  return trace(std::array{blocks.type()}, [&](Values v) { return dequantize_blocks(v[0], dtype); });
}

/// splitmix64 (Steele, Lea, Flood, 2014) from FNV-1a of the format's name on; block_sums() in
/// tests/golden/generate/gguf_files.py makes the same.
std::vector<std::byte> random_bytes(std::string_view name, size_t count) {
  std::vector<std::byte> bytes((count + 7) / 8 * 8);
  uint64_t state = fnv1a(name);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    std::memcpy(bytes.data() + i, &z, sizeof z);
  }
  bytes.resize(count);
  return bytes;
}
/// As numbers() in tests/golden/generate/k_quants.py.
Tensor numbers(const std::string& kind, int64_t blocks) {
  Tensor x(f32, {blocks, 256});
  const auto bytes = random_bytes(kind, x.element_count() * 8);
  std::span<float> to = x.mutable_values<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t parts[4];
    std::memcpy(parts, bytes.data() + 8 * i, sizeof parts);
    to[i] = (static_cast<float>(parts[0] + parts[1] + parts[2] + parts[3]) - 131070.0f) / 65536.0f;
    if (kind == "sizes") to[i] *= 0.25f * static_cast<float>(1 + i / 32 % 5);
    if (kind == "positive") to[i] = std::abs(to[i]);
  }
  return x;
}
double relative_error(const Tensor& x, const Tensor& y) {
  double error = 0, size = 0;
  for (size_t i = 0; i < x.element_count(); ++i) {
    const auto v = static_cast<double>(x.values<float>()[i]);
    error += std::pow(static_cast<double>(y.values<float>()[i]) - v, 2), size += v * v;
  }
  return std::sqrt(error / size);
}

/// The sum of bits[i] (2 i + 1); every NaN is one number.
uint64_t sum_of(std::span<const float> values) {
  uint64_t sum = 0, factor = 1;
  for (float v : values) {
    sum += factor * (std::isnan(v) ? 0x7fc00000u : std::bit_cast<uint32_t>(v));
    factor += 2;
  }
  return sum;
}

}  // namespace

TEST_CASE("ten thousand random blocks of every format are decoded as gguf decodes them") {
  const auto golden = nlohmann::json::parse(test::file_content("tests/golden/blocks/many.json"));
  const auto blocks = golden.at("blocks").get<int64_t>();
  CHECK(blocks == 10'000);
  for_each_format([&](DType format) {
    const auto size = static_cast<size_t>(info(format).block_bytes);
    auto bytes = random_bytes(name_of(format), static_cast<size_t>(blocks) * size);
    if (format == nvfp4)  // its scales have no sign
      for (size_t i = 0; i < bytes.size(); i += size) bytes[i] &= std::byte{0x7f};
    const Tensor values = dequantized(Tensor::borrow(format, {blocks, info(format).block_elements}, bytes));
    CHECK_MESSAGE(hex_text(sum_of(values.values<float>())) == golden.at("sums").at(std::string(name_of(format))),
                  format);
  });
}

TEST_CASE("every block format is decoded as gguf decodes it, bit by bit") {
  auto golden = SafetensorsFile::open(kPath);
  const Device device = Device::from_environment();
  Session one(device, {1}), several(device, {3});
  for_each_format([&](DType format) {
    Tensor blocks = blocks_of(format, golden.tensor(text_of(format, "/blocks")));
    Tensor wanted = golden.tensor(text_of(format, "/values"));
    Graph g = decoding(blocks, f32);
    CHECK_MESSAGE(interpret(g, std::array{blocks})[0] == wanted, format, " by the reference");
    CHECK_MESSAGE(one.compile(g).run_ordered(std::array{blocks})[0] == wanted, format, " on one thread");
    CHECK_MESSAGE(several.compile(g).run_ordered(std::array{blocks})[0] == wanted, format, " on three threads");

    // One long row: many blocks behind each other.
    Tensor row = blocks.reshaped({static_cast<int64_t>(blocks.element_count())});
    CHECK_MESSAGE(one.compile(decoding(row, f32)).run_ordered(std::array{row})[0] == wanted.reshaped(row.shape()),
                  format, " as one row");
  });
}

TEST_CASE("decoding to another float rounds once") {
  auto golden = SafetensorsFile::open(kPath);
  test::DefaultDevice device(1);
  for_each_format([&](DType format) {
    Tensor blocks = blocks_of(format, golden.tensor(text_of(format, "/blocks")));
    Tensor values = golden.tensor(text_of(format, "/values"));
    for (DType dtype : {f64, f16, bf16}) {
      Tensor wanted = run_op(op::convert, ConvertAttrs{dtype}, std::array{values})[0];
      Graph g = decoding(blocks, dtype);
      CHECK_MESSAGE(interpret(g, std::array{blocks})[0] == wanted, format, " as ", dtype, " by the reference");
      if (const auto compiled = device.compile(g))
        CHECK_MESSAGE(compiled->run_ordered(std::array{blocks})[0] == wanted, format, " as ", dtype, " on the device");
    }
  });
}

TEST_CASE("numbers become the blocks that gguf makes of them") {
  auto golden = SafetensorsFile::open(kPath);
  const auto searched = nlohmann::json::parse(test::file_content("tests/golden/blocks/k_quants.json")).at("errors");
  size_t encoders = 0;
  for_each_format([&](DType format) {
    if (!golden.find(text_of(format, "/encoded"))) {
      const bool is_searched = searched.contains(std::string(name_of(format)));  // the test below
      CHECK_MESSAGE((block_encoder(format) != nullptr) == is_searched, format);
      return;
    }
    Tensor made = quantized(golden.tensor(text_of(format, "/numbers")), format);
    CHECK_MESSAGE(made == blocks_of(format, golden.tensor(text_of(format, "/encoded"))), format);
    ++encoders;
  });
  CHECK(encoders == 8);
}

TEST_CASE("a NaN among the numbers of a block makes all of it NaN, as gguf 0.19 has it, wherever it stands") {
  for (DType format : {q4_0, q4_1, q5_0, q5_1, q8_0, tq1_0, tq2_0}) {
    CAPTURE(format);
    const int64_t length = info(format).block_elements;
    for (const int64_t at : {int64_t{0}, int64_t{7}, length - 1}) {
      CAPTURE(at);
      Tensor x(f32, {3, length});
      std::span<float> v = x.mutable_values<float>();
      for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 5) - 1.5f;
      v[static_cast<size_t>(length + at)] = NAN;
      const Tensor y = dequantized(quantized(x, format));
      for (size_t i = 0; i < v.size(); ++i)
        CHECK(std::isnan(y.values<float>()[i]) == (i / static_cast<size_t>(length) == 1));
    }
  }
}

TEST_CASE("blocks that are searched for are no farther from the numbers than those that ggml finds") {
  const auto golden = nlohmann::json::parse(test::file_content("tests/golden/blocks/k_quants.json"));
  for (DType format : {q2_k, q3_k, q4_k, q5_k, q6_k})
    for (const std::string kind : {"normal", "sizes", "positive"}) {
      CAPTURE(format);
      CAPTURE(kind);
      const Tensor x = numbers(kind, golden.at("blocks").get<int64_t>());
      const double error = relative_error(x, dequantized(quantized(x, format)));
      CHECK(error <= golden.at("errors").at(std::string(name_of(format))).at(kind).get<double>());
      CHECK(error > 0.005);
    }
}

TEST_CASE("numbers without an order of size become blocks of the K formats all the same") {
  for (DType format : {q2_k, q3_k, q4_k, q5_k, q6_k}) {
    CAPTURE(format);
    Tensor x(f32, {7, 256});
    std::span<float> v = x.mutable_values<float>();
    for (size_t i = 0; i < 256; ++i) {
      v[256 + i] = 3;                         // one positive number
      v[512 + i] = -3;                        // one negative number
      v[768 + i] = i == 17 ? 1e30f : 1e-30f;  // beyond f16
      v[1024 + i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
      v[1280 + i] = std::ldexp(1.0f, -149);  // the least number
      v[1536 + i] = i == 200 ? 1.0f : 0.0f;
    }
    const Tensor y = dequantized(quantized(x, format));
    std::span<const float> w = y.values<float>();
    for (size_t i = 0; i < 256; ++i) {
      CHECK(w[i] == 0);
      CHECK(w[256 + i] == doctest::Approx(3).epsilon(0.05));
      CHECK(w[512 + i] == doctest::Approx(-3).epsilon(0.05));
      CHECK(std::isfinite(w[768 + i]));
      CHECK(w[1024 + i] == 0);
      CHECK(w[1280 + i] == 0);
      CHECK(w[1536 + i] == doctest::Approx(i == 200 ? 1 : 0).epsilon(0.05));
    }
  }
}
