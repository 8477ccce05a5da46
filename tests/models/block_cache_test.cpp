// Caches of keys and values in blocks of q8_0 and q4_0, beside `transformers` with keys and values that gguf has
// rounded: tests/golden/block_caches (tests/golden/generate/block_cache_models.py). What caches of any dtype do is told
// in language_model_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/checks.h"
#include "rlx/blocks.h"
#include "rlx/device_tensor.h"
#include "rlx/execution_profile.h"
#include "rlx/language_model.h"
#include "rlx/models/cache_dtypes.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::string kModel = "tests/golden/block_caches";
constexpr DType kBlocks[] = {q8_0, q4_0};

LanguageModel cached_in(DType cache, int64_t chunk = 512, Device device = Device::cpu()) {
  return LanguageModel::load(kModel, {.device = std::move(device), .context = 256, .cache = cache, .chunk = chunk});
}
std::vector<int32_t> block_cache_ids() {
  return nlohmann::json::parse(std::ifstream(kModel + "/ids.json")).get<std::vector<int32_t>>();
}
Tensor golden_logits(DType cache) { return read_npy(text_of(kModel, "/logits_", cache, ".npy")); }

/// The first layer's keys and values behind one step on the text: nothing rounded comes before them.
std::map<std::string, Tensor> first_caches(const LanguageModel& model, const std::vector<int32_t>& ids) {
  const auto n = static_cast<int64_t>(ids.size());
  GraphState state = model.compiled().new_state({}, {{"capacity", 96}});
  model.compiled().run({{"tokens", Tensor::of<int32_t>({1, n}, ids)},
                        {"position", Tensor::scalar<int32_t>(0)},
                        {"total", Tensor(u8, {n, 0})},
                        {"rows", Tensor(u8, {1, 0})}},
                       state);
  return {{"keys", state.tensor("layers.0.keys")}, {"values", state.tensor("layers.0.values")}};
}

}  // namespace

TEST_CASE("caches of blocks hold what gguf's rounding makes of the keys and values") {
  const auto ids = block_cache_ids();
  const auto exact = first_caches(cached_in(f32), ids);
  for (const DType dtype : kBlocks) {
    CAPTURE(text_of(dtype));
    const auto packed = first_caches(cached_in(dtype), ids);
    for (const auto& item : exact) {
      CAPTURE(item.first);
      const Tensor& blocks = packed.at(item.first);
      CHECK(blocks.type() == Type{dtype, {1, 2, 96, 32}});
      const Tensor wanted = quantized(item.second, dtype);  // with gguf's bits: tests/golden/ops/block_caches.rlx
      const size_t head = blocks.byte_count() / 2, text = head / 96 * ids.size();
      for (const size_t at : {size_t{0}, head})
        CHECK(std::ranges::equal(blocks.bytes().subspan(at, text), wanted.bytes().subspan(at, text)));
    }
  }
}

TEST_CASE("logits with caches of blocks are those of transformers with such keys and values") {
  const auto ids = block_cache_ids();
  const Tensor exact = golden_logits(f32);
  CHECK(worst_difference(cached_in(f32).all_logits(ids), exact) < 1e-4F);
  for (const DType dtype : kBlocks) {
    CAPTURE(text_of(dtype));
    const Tensor wanted = golden_logits(dtype), made = cached_in(dtype).all_logits(ids);
    const float usual = worst_difference(wanted, exact), error = worst_difference(made, exact);
    CAPTURE(usual);
    // Two programs differ in the last bits of a key, which now and then is another code: such errors are a small part
    // of what blocks cost at all.
    CHECK(worst_difference(made, wanted) < 0.2F * usual);
    CHECK(error < 1.2F * usual);
    CHECK(error > usual / 1.2F);
  }
}

TEST_CASE("token by token and in chunks, a text has the logits that it has at once, also with caches of blocks") {
  const auto ids = block_cache_ids();
  for (const DType dtype : kBlocks) {
    CAPTURE(text_of(dtype));
    const float usual = worst_difference(golden_logits(dtype), golden_logits(f32));
    const Tensor at_once = cached_in(dtype).all_logits(ids);
    for (const int64_t chunk : {1, 7, 64}) {
      CAPTURE(chunk);
      CHECK(worst_difference(cached_in(dtype, chunk).all_logits(ids), at_once) < 0.2F * usual);
    }
  }
}

TEST_CASE("caches of blocks take their bytes, are updated where they are, and are never numbers") {
  const auto ids = block_cache_ids();
  struct Kept {
    DType dtype;
    int bytes;  // of 32 elements
  };
  for (const Kept& kept : {Kept{f32, 128}, Kept{q8_0, 34}, Kept{q4_0, 18}}) {
    const DType dtype = kept.dtype;
    CAPTURE(text_of(dtype));
    const LanguageModel model = cached_in(dtype);
    LanguageModel::Sequence sequence = model.sequence();
    sequence.logits(ids);
    CHECK(model.compiled().updates_in_place());
    CHECK(sequence.memory_bytes() == static_cast<size_t>(2 * 3 * 2 * 128 * kept.bytes));
    size_t attended = 0;
    for (const size_t tokens : {size_t{1}, size_t{20}})
      for (const Profile::Step& step : sequence.profile(std::span(ids).first(tokens)).steps) {
        CAPTURE(step.op);
        CHECK(step.op != "copy");
        CHECK(step.op != "slice");
        CHECK(step.op != "dequantize_blocks");
        attended += step.op == "attention";
      }
    CHECK(attended == 6);
  }
}

TEST_CASE("sequences with caches of blocks are copied, cut and grown") {
  const auto ids = block_cache_ids();
  const std::span<const int32_t> text = ids;
  for (const DType dtype : kBlocks) {
    CAPTURE(text_of(dtype));
    const LanguageModel model = cached_in(dtype);
    LanguageModel::Sequence one = model.sequence();
    one.logits(text.first(40));
    LanguageModel::Sequence other = one;
    const Tensor here = one.logits(text.subspan(40, 5)), there = other.logits(text.subspan(60, 5));
    CHECK(worst_difference(here, there) > 0.01F);
    one.rewind(5);
    CHECK(one.logits(text.subspan(40, 5)) == here);
    other.rewind(5);
    CHECK(other.logits(text.subspan(60, 5)) == there);
    // From 128 tokens to twice as many: what was held is held, as one that had the room from the start.
    std::vector<int32_t> longer = ids;
    longer.insert(longer.end(), ids.begin(), ids.end());
    LanguageModel::Sequence grown = model.sequence();
    grown.logits(std::span(longer).first(100));
    CHECK(grown.memory_bytes() == static_cast<size_t>(2 * 3 * 2 * 128 * info(dtype).block_bytes));
    const Tensor behind = grown.logits(std::span(longer).subspan(100));
    CHECK(grown.memory_bytes() == static_cast<size_t>(2 * 3 * 2 * 256 * info(dtype).block_bytes));
    LanguageModel::Sequence roomy = model.sequence();
    roomy.logits(longer);
    roomy.rewind(40);
    const float usual = worst_difference(golden_logits(dtype), golden_logits(f32));
    CHECK(worst_difference(roomy.logits(std::span(longer).subspan(100)), behind) < 0.2F * usual);
  }
}

TEST_CASE("caches of blocks stay in the memory of a device") {
  const Device loopback("loopback");
  const auto ids = block_cache_ids();
  const LanguageModel model = cached_in(q8_0, 512, loopback);
  LanguageModel::Sequence sequence = model.sequence();
  sequence.logits(std::span(ids).first(50));
  LanguageModel::Sequence other = sequence;
  const Transfers before = transfers_of(loopback);
  const Tensor made = sequence.logits(ids[50]);
  const Transfers moved = transfers_of(loopback) - before;
  CHECK(moved.bytes_to_device == sizeof(int32_t) * 2);
  CHECK(moved.bytes_to_host == made.byte_count());
  CHECK(other.logits(ids[50]) == made);
}

TEST_CASE("what caches cannot be is said with what they can be") {
  const auto message = [](const std::string& path, DType cache) {
    return message_of([&] { LanguageModel::load(path, {.cache = cache}); });
  };
  CHECK(says(message(kModel, q5_0), "caches of q5_0; there are f32, f16, bf16, q8_0 and q4_0"));
  CHECK(
      says(message("tests/golden/language_models/llama3", q8_0),
           "a cache of q8_0, whose blocks have 32 elements, but heads have 8, which is no multiple of that; take f16"));
  Graph g;
  CHECK(says(message_of([&] { KeyValueCache::inputs(g, "cache", {1, 2, 16, 48}, q4_0); }), "but heads have 48"));
  // Without attention there is nothing to round.
  CHECK_NOTHROW(LanguageModel::load("tests/golden/language_models/mamba2", {.cache = q4_0}));
  for (const DType dtype : cache_dtypes()) {
    const auto profile = ExecutionProfile::parse(text_of("cache = \"", dtype, "\"\n"));
    CHECK(profile.common.cache == dtype);
  }
}
