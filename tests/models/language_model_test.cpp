// Language models beside `transformers`: tests/golden/language_models (tests/golden/generate/language_models.py) has
// small ones of random weights and their logits. scripts/judge_language_models.py holds larger ones to more texts.
#include "rlx/language_model.h"
#include "models/checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "devices/simulated/faults.h"
#include "rlx/blocks.h"
#include "rlx/device_tensor.h"
#include "rlx/ops/linear.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::string kGolden = "tests/golden/language_models/";

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
std::vector<int32_t> ids_of(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(kGolden + name + "/ids.json")).get<std::vector<int32_t>>();
}
/// More than the model promises: two of them are stretched by the length.
LanguageModel loaded(const std::string& path, int64_t chunk = 512) {
  return LanguageModel::load(path, {.context = 256, .chunk = chunk});
}
constexpr float kTolerance = 1e-4F;  // of logits of some units: the issue's

}  // namespace

TEST_CASE("the logits of each model are those of transformers") {
  const auto names = golden_models();
  CHECK(names.size() == 14);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Tensor wanted = read_npy(kGolden + name + "/logits.npy");
    CHECK(worst_difference(loaded(kGolden + name).all_logits(ids_of(name)), wanted) < kTolerance);
  }
}

TEST_CASE("the GGUF file of a model, by llama.cpp's converter, has the same logits") {
  size_t count = 0;
  for (const std::string& name : golden_models()) {
    const std::string file = kGolden + name + ".gguf";
    if (!std::filesystem::exists(file)) continue;
    CAPTURE(name);
    const Tensor wanted = read_npy(kGolden + name + "/logits.npy");
    CHECK(worst_difference(loaded(file).all_logits(ids_of(name)), wanted) < kTolerance);
    ++count;
  }
  CHECK(count == 11);
}

TEST_CASE("token by token and in chunks, a text has the logits that it has at once") {
  for (const std::string& name : golden_models()) {
    CAPTURE(name);
    const Tensor wanted = read_npy(kGolden + name + "/logits.npy");
    for (int64_t chunk : {1, 7, 64}) {
      CAPTURE(chunk);
      CHECK(worst_difference(loaded(kGolden + name, chunk).all_logits(ids_of(name)), wanted) < kTolerance);
    }
  }
}

TEST_CASE("a text that grows beyond longrope's original context has the logits of the whole text") {
  const LanguageModel model = loaded(kGolden + "phi3_longrope", 16);
  const auto ids = ids_of("phi3_longrope");
  const std::span<const int32_t> text = ids;
  const Tensor wanted = read_npy(kGolden + "phi3_longrope/logits.npy");
  const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
  const auto last = Tensor::of<float>({model.config().vocabulary}, wanted.values<float>().last(vocabulary));
  LanguageModel::Sequence one = model.sequence();
  one.logits(text.first(40));
  Tensor behind;
  for (size_t i = 40; i < text.size(); ++i) behind = one.logits(text[i]);
  CHECK(worst_difference(behind, last) < kTolerance);
  // Back to where it is short: the keys are others again.
  one.rewind(static_cast<int64_t>(text.size()) - 30);
  CHECK(worst_difference(one.logits(text[30]), model.sequence().logits(text.first(31))) < kTolerance);
  CHECK(worst_difference(one.all_logits(text.subspan(31)),
                         Tensor::of<float>({static_cast<int64_t>(text.size()) - 31, model.config().vocabulary},
                                           wanted.values<float>().last((text.size() - 31) * vocabulary))) < kTolerance);
}

TEST_CASE("a configuration that was made by hand is checked") {
  LanguageModelConfig config;
  config.vocabulary = 32, config.hidden = 16, config.layers = 1, config.intermediate = 32;
  config.heads = config.kv_heads = 2, config.head_dim = 8, config.context = 64, config.rope.dims = 8;
  CHECK(decoder_graph(config).outputs().size() == 3);
  config.rope.scaling = RopeScaling::longrope, config.rope.original_context = 16;
  CHECK(message_of([&] { decoder_graph(config); }).find("short_factor has 0 factors") != std::string::npos);
  config.rope = {.dims = -4};
  CHECK(message_of([&] { decoder_graph(config); }).find("-4 elements of a head of 8") != std::string::npos);
  config.rope = {.scaling = RopeScaling::dynamic, .dims = 8};
  CHECK(message_of([&] { decoder_graph(config); }).find("an original context of 0") != std::string::npos);
  config.rope = {.dims = 8}, config.windowed = {true, true};
  CHECK(message_of([&] { decoder_graph(config); }).find("'windowed' has 2 items for 1 layers") != std::string::npos);
  config.windowed = {true};
  CHECK(message_of([&] { decoder_graph(config); }).find("a window of 0 tokens") != std::string::npos);
  config.layers = -1;
  CHECK(message_of([&] { decoder_graph(config); }).find("the number of layers is -1") != std::string::npos);
}

TEST_CASE(
    "the logits behind the last token are the last row of transformers' logits, and so are those behind one more") {
  for (const std::string& name : golden_models()) {
    CAPTURE(name);
    const LanguageModel model = loaded(kGolden + name, 32);
    const auto ids = ids_of(name);
    const std::span<const int32_t> text = ids;
    const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
    const Tensor wanted = read_npy(kGolden + name + "/logits.npy");
    const auto row = [&](size_t i) {
      return Tensor::of<float>({model.config().vocabulary}, wanted.values<float>().subspan(i * vocabulary, vocabulary));
    };
    LanguageModel::Sequence sequence = model.sequence();
    const Tensor last = sequence.logits(text.first(text.size() - 1));
    CHECK(last.shape() == Shape{model.config().vocabulary});
    const Tensor next = sequence.logits(text.back());
    CHECK(sequence.position() == static_cast<int64_t>(text.size()));
    if (name != "llama_dynamic") {  // its angles depend on how long the text is when it is read
      CHECK(worst_difference(last, row(text.size() - 2)) < kTolerance);
      CHECK(worst_difference(next, row(text.size() - 1)) < kTolerance);
    }
    CHECK(worst_difference(model.sequence().logits(text), row(text.size() - 1)) < kTolerance);
  }
}

TEST_CASE("of the last layer, little is computed of the tokens whose logits nobody asks for") {
  LanguageModelConfig config;
  config.vocabulary = 32, config.hidden = 16, config.layers = 2, config.intermediate = 24;
  config.heads = 4, config.kv_heads = 2, config.head_dim = 8, config.rope.dims = 8, config.context = 64;
  const Graph g = decoder_graph(config);
  const Dim n = Dim::symbol("n"), rows = Dim::symbol("rows");
  // Products of each layer for all tokens, and for those alone.
  std::map<std::string, std::pair<int, int>> products;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& node = g.nodes()[i];
    if (node.op != &op::linear) continue;
    auto& [all, some] = products[std::string(node.name.substr(0, node.name.find('.', 7)))];
    (node.types[0].dims[1] == n ? all : some) += 1;
    CHECK((node.types[0].dims[1] == n || node.types[0].dims[1] == rows));
  }
  CHECK(products["layers.0"] == std::pair(7, 0));
  CHECK(products["layers.1"] == std::pair(2, 5));  // keys and values; queries, output, and the feed-forward
}

TEST_CASE("a copy of a sequence goes on by itself, and a sequence can go back") {
  const LanguageModel model = loaded(kGolden + "gemma2_plain_scale");
  const auto ids = ids_of("gemma2_plain_scale");
  const std::span<const int32_t> text = ids;
  LanguageModel::Sequence one = model.sequence();
  one.logits(text.first(40));
  LanguageModel::Sequence other = one;
  const Tensor here = one.logits(text.subspan(40, 5)), there = other.logits(text.subspan(60, 5));
  CHECK(worst_difference(here, there) > 0.01F);
  CHECK(one.logits(int32_t{3}).bytes().size() == 41 * sizeof(float));
  one.rewind(6);
  CHECK(one.position() == 40);
  CHECK(one.logits(text.subspan(40, 5)) == here);
  other.rewind(5);
  CHECK(other.logits(text.subspan(60, 5)) == there);
  // The caches grew from 128 tokens to twice as many, and hold what they held.
  std::vector<int32_t> longer = ids;
  longer.insert(longer.end(), ids.begin(), ids.end());
  longer.insert(longer.end(), ids.begin(), ids.begin() + 20);
  LanguageModel::Sequence grown = model.sequence();
  for (size_t at = 0; at + 1 < longer.size(); ++at) grown.logits(longer[at]);
  LanguageModel::Sequence at_once = model.sequence();
  CHECK(worst_difference(grown.logits(longer.back()), at_once.logits(longer)) < kTolerance);
  CHECK(grown.memory_bytes() == 2 * 2 * 2 * 256 * 8 * sizeof(float));
}

TEST_CASE("sequences of one model run on several threads at once") {
  const LanguageModel model = LanguageModel::load(kGolden + "llama3", {.threads = 1});
  const auto ids = ids_of("llama3");
  const Tensor wanted = model.all_logits(ids);
  std::vector<std::thread> threads;
  std::vector<Tensor> made(4);
  for (Tensor& result : made)
    threads.emplace_back([&] {
      LanguageModel::Sequence sequence = model.sequence();
      for (int32_t id : ids) result = sequence.logits(id);
    });
  for (std::thread& t : threads) t.join();
  const Tensor last = Tensor::of<float>({41}, wanted.values<float>().last(41));
  for (const Tensor& result : made) CHECK(worst_difference(result, last) < kTolerance);
}

TEST_CASE("caches are updated where they are") {
  const LanguageModel model = loaded(kGolden + "qwen2");
  LanguageModel::Sequence sequence = model.sequence();
  const auto ids = ids_of("qwen2");
  sequence.logits(ids);
  CHECK(model.compiled().updates_in_place());
  // The steps of a token: none of them copies a cache of [1, 2, 128, 4] elements, or the part of it that is read.
  const Profile profile = sequence.profile(std::span(ids).first(1));
  CHECK(!profile.steps.empty());
  for (const Profile::Step& step : profile.steps) {
    CAPTURE(step.op);
    CHECK(step.op != "copy");
    CHECK(step.op != "slice");
  }
}

TEST_CASE("on a device with memory of its own, a step moves tokens and logits, and no cache") {
  const Device loopback("loopback");
  const LanguageModel model = LanguageModel::load(kGolden + "llama3", {.device = loopback, .context = 256});
  const auto ids = ids_of("llama3");
  const std::span<const int32_t> text = ids;
  LanguageModel::Sequence sequence = model.sequence();
  sequence.logits(text.first(50));
  CHECK(sequence.memory_bytes() > 4096);
  LanguageModel::Sequence other = sequence;
  const Transfers before = transfers_of(loopback);
  const Tensor made = sequence.logits(text[50]);
  const Transfers moved = transfers_of(loopback) - before;
  CHECK(moved.bytes_to_device == sizeof(int32_t) * 2);  // the token and its position
  CHECK(moved.bytes_to_host == made.byte_count());
  CHECK(other.logits(text[50]) == made);
}

TEST_CASE("a step that fails halfway leaves the sequence as long as before") {
  const Device loopback("loopback");
  const LanguageModel model = LanguageModel::load(kGolden + "llama3", {.device = loopback, .context = 256});
  const auto ids = ids_of("llama3");
  const std::span<const int32_t> text = ids;
  const Tensor wanted = read_npy(kGolden + "llama3/logits.npy");
  const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
  const auto row = [&](size_t i) {
    return Tensor::of<float>({model.config().vocabulary}, wanted.values<float>().subspan(i * vocabulary, vocabulary));
  };
  for (simulated::Fault fault :
       {simulated::Fault::launch, simulated::Fault::allocate, simulated::Fault::write, simulated::Fault::read}) {
    CAPTURE(static_cast<int>(fault));
    LanguageModel::Sequence sequence = model.sequence();
    sequence.logits(text.first(30));
    simulated::loopback_faults().ask(fault, 1);
    CHECK_THROWS_AS(sequence.logits(text.subspan(30, 5)), Error);
    simulated::loopback_faults().reset();
    CHECK(sequence.position() == 30);
    CHECK(!sequence.profile(text.subspan(30, 5)).steps.empty());
    CHECK(worst_difference(sequence.logits(text.subspan(30, 5)), row(34)) < kTolerance);
    sequence.rewind(10);
    CHECK(worst_difference(sequence.logits(text.subspan(25, 1)), row(25)) < kTolerance);
  }
}

TEST_CASE("caches of 16 bits take half the memory, and round keys, values and queries alone") {
  // How far the logits of transformers are from its f32 ones with such rounding (generate/language_model_caches.py).
  const auto errors = nlohmann::json::parse(std::ifstream(kGolden + "rounded_caches.json"));
  for (const auto& item : errors.items()) {
    const std::string& name = item.key();
    CAPTURE(name);
    const auto ids = ids_of(name);
    const Tensor wanted = read_npy(kGolden + name + "/logits.npy");
    for (const DType dtype : {f16, bf16}) {
      CAPTURE(text_of(dtype));
      const LanguageModel model = LanguageModel::load(kGolden + name, {.context = 256, .cache = dtype});
      const float error = worst_difference(model.all_logits(ids), wanted);
      const auto usual = errors.at(name).at(text_of(dtype)).get<float>();
      CHECK(error < 1.5F * usual);
      CHECK(error > usual / 1.5F);
      LanguageModel::Sequence sequence = model.sequence();
      sequence.logits(ids);
      const LanguageModelConfig& c = model.config();
      CHECK(sequence.memory_bytes() == static_cast<size_t>(2 * c.layers * c.kv_heads * 128 * c.head_dim * 2));
      // Nor is a cache of 16 bits copied, or turned to another dtype.
      for (const Profile::Step& step : sequence.profile(std::span(ids).first(1)).steps) {
        CHECK(step.op != "copy");
        CHECK(step.op != "slice");
      }
    }
  }
  CHECK(message_of([&] {
          LanguageModel::load(kGolden + "gpt2", {.cache = f64});
        }).find("caches of f64; there are f32") != std::string::npos);
}

TEST_CASE("what a sequence cannot do is said with its numbers, and changes nothing") {
  const LanguageModel model = LanguageModel::load(kGolden + "gpt2", {.context = 20});
  LanguageModel::Sequence sequence = model.sequence();
  const std::vector<int32_t> some(15, 3);
  const Tensor before = sequence.logits(some);
  const auto message = [&](auto f) { return message_of(f); };
  CHECK(message([&] { sequence.logits(std::span<const int32_t>{}); }).find("no tokens were given") !=
        std::string::npos);
  CHECK(message([&] { sequence.logits(int32_t{41}); }).find("token 0 is 41, but the vocabulary has 0 to 40") == 0);
  CHECK(message([&] { sequence.logits(int32_t{-1}); }).find("token 0 is -1") == 0);
  CHECK(message([&] { sequence.logits(some); }).find("15 tokens and 15 more do not fit a context of 20") == 0);
  CHECK(message([&] { sequence.rewind(16); }).find("cannot take back 16 tokens of 15") == 0);
  CHECK(sequence.position() == 15);
  sequence.rewind(1);
  CHECK(worst_difference(sequence.logits(int32_t{3}), before) < kTolerance);
  CHECK(message_of([&] {
          LanguageModel::load(kGolden + "gpt2", {.context = 257});
        }).find("the model's table has 256 positions") != std::string::npos);
  CHECK(message_of([&] { LanguageModel::load(kGolden + "gpt2", {.chunk = 0}); }).find("a chunk of 0 tokens") == 0);
}

TEST_CASE("a model of one's own is made of the blocks") {
  LanguageModelConfig config;
  config.vocabulary = 256, config.hidden = 64, config.layers = 2, config.intermediate = 128;
  config.heads = config.kv_heads = 4, config.head_dim = 16, config.context = 512;
  config.rope.dims = 16, config.windowed = {false, true}, config.window = 32;
  const Graph whole = decoder_graph(config);  // as docs/language_models.md has it
  CHECK(whole.outputs().size() == 1 + 2 * 2);

  // One layer without a cache of its own making, between two of the user's.
  Graph g("mine");
  const Dim n = Dim::symbol("n");
  DecoderBlocks blocks(g, config, [](const std::string& name) { return name == "mine.weight" ? q8_0 : f32; });
  const DecoderBlocks::Positions positions{g.input("position", i32, {}), n, n};
  DecoderBlocks::Cache cache{};
  cache.keys = g.input("keys", f32, {1, 4, 512, 16}), cache.values = g.input("values", f32, {1, 4, 512, 16});
  Value x = blocks.linear(g.input("x", f32, {1, n, 64}), "mine", 64);
  x = blocks.layer(x, 1, positions, cache);
  g.output(tanh(x), "y");
  g.output(cache.keys, "keys");
  CHECK(g.type(g.params()[0]) == Type{q8_0, {64, 64}});
  CompiledGraph compiled = Session().compile(g);
  for (const auto& param : compiled.signature().params) {
    const Tensor zeros(f32, shape_of(param.type.dims));
    compiled.set_param(param.name, param.type.dtype == q8_0 ? quantized(zeros, q8_0) : zeros);
  }
  const auto out = compiled.run({{"position", Tensor::scalar<int32_t>(0)},
                                 {"x", Tensor(f32, {1, 3, 64})},
                                 {"keys", Tensor(f32, {1, 4, 512, 16})},
                                 {"values", Tensor(f32, {1, 4, 512, 16})}});
  CHECK(out[0].shape() == Shape{1, 3, 64});
  CHECK(message_of([&] {
          blocks.param("embedding.weight", {3}), blocks.param("embedding.weight", {4});
        }).find("param 'embedding.weight' is f32[3], and f32[4] elsewhere") == 0);
  CHECK(message_of([&] {
          blocks.float_param("mine.weight", {64, 64});
        }).find("it must be f32, f16 or bf16") != std::string::npos);
}
