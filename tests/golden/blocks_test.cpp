// Block formats against gguf (tests/golden/generate/blocks.py), bit by bit: decoded by the reference and on the default
// device, alone, many at once and as other floats; and encoded.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/io.h"
#include "rlx/ops/quantize.h"
#include "rlx/session.h"
#include "support/default_device.h"

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

}  // namespace

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
  size_t encoders = 0;
  for_each_format([&](DType format) {
    if (!golden.find(text_of(format, "/encoded"))) {
      CHECK_MESSAGE(!block_encoder(format), format, " has an encoder that nothing is compared with");
      return;
    }
    Tensor made = quantized(golden.tensor(text_of(format, "/numbers")), format);
    CHECK_MESSAGE(made == blocks_of(format, golden.tensor(text_of(format, "/encoded"))), format);
    ++encoders;
  });
  CHECK(encoders == 8);
}
