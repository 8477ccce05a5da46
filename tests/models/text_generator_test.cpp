// The loop that writes a text, beside transformers' `generate`: tests/golden/generation has greedy texts of the models
// of tests/golden/language_models. Each token is a letter here.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "rlx/generation.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;
using nlohmann::json;

namespace {

const std::string kWritingModels = "tests/golden/language_models/";
const std::string kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno";

/// A golden model with a tokenizer, and what else a test writes beside it.
class Lettered {
 public:
  explicit Lettered(const std::string& name) {
    for (const auto& entry : std::filesystem::directory_iterator(kWritingModels + name))
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename().string());
    json vocabulary;
    for (size_t i = 0; i < kLetters.size(); ++i) vocabulary[std::string(1, kLetters[i])] = i;
    const json model = {{"type", "BPE"}, {"merges", json::array()}, {"vocab", vocabulary}};
    const json all = {{"version", "1.0"},
                      {"added_tokens", json::array()},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", nullptr},
                      {"post_processor", nullptr},
                      {"decoder", {{"type", "Fuse"}}},
                      {"model", model}};
    put_file(folder_ / "tokenizer.json", all.dump());
  }
  void advise(const json& advice) const { put_file(folder_ / "generation_config.json", advice.dump()); }
  LanguageModel load(int64_t context = 256, int64_t chunk = 512) const {
    LanguageModel model = LanguageModel::load(folder_ / "", {.context = context, .chunk = chunk});
    (void)model.tokenizer();  // while the folder is there
    return model;
  }

 private:
  TemporaryFolder folder_;
};

std::string all_of(TextGenerator& generator, std::span<const int32_t> prompt) {
  std::string text;
  generator.begin(prompt);
  while (const auto piece = generator.next()) {
    CHECK(!piece->empty());
    text += *piece;
  }
  CHECK(generator.finish());
  CHECK(!generator.next());
  return text;
}
std::string letters_of(std::span<const int32_t> ids) {
  std::string text;
  for (int32_t id : ids) text += kLetters[static_cast<size_t>(id)];
  return text;
}

}  // namespace

TEST_CASE("greedy texts are those of transformers") {
  const json golden = json::parse(std::ifstream("tests/golden/generation/greedy.json"));
  CHECK(golden.size() == 14);
  for (const auto& item : golden.items()) {
    const std::string& name = item.key();
    const json& each = item.value();
    CAPTURE(name);
    const auto prompt = each["prompt"].get<std::vector<int32_t>>(), wanted = each["tokens"].get<std::vector<int32_t>>();
    const LanguageModel model = Lettered(name).load();
    TextGenerator generator(model, {.sampling = {.temperature = 0}, .max_tokens = 40});
    const std::string text = all_of(generator, prompt);
    CHECK(generator.tokens() == wanted);
    const bool ends = wanted.back() == 2;
    CHECK(generator.finish() == (ends ? TextGenerator::Finish::end : TextGenerator::Finish::length));
    CHECK(text == letters_of(std::span(wanted).first(wanted.size() - (ends ? 1 : 0))));
    CHECK(generator.read_tokens() == prompt.size());
    CHECK(all_of(generator, prompt) == text);
    // A recurrence cannot take its tokens back.
    CHECK(generator.read_tokens() == (model.config().is_recurrent() ? prompt.size() : 1));
  }
}

TEST_CASE("of a conversation with a recurrent model only what is new is read, unless it goes another way") {
  const LanguageModel model = Lettered("mamba2").load();
  const TextGenerator::Options options{.sampling = {.temperature = 0}, .max_tokens = 6};
  TextGenerator generator(model, options);
  std::vector<int32_t> talk = {3, 4, 5, 6, 7};
  all_of(generator, talk);
  talk.insert(talk.end(), generator.tokens().begin(), generator.tokens().end());
  talk.insert(talk.end(), {8, 9});
  TextGenerator fresh(model, options);
  CHECK(all_of(generator, talk) == all_of(fresh, talk));
  CHECK(generator.read_tokens() == 3);  // the last that was drawn had not been read
  talk[2] = 11;
  TextGenerator again(model, options);
  CHECK(all_of(generator, talk) == all_of(again, talk));
  CHECK(generator.read_tokens() == talk.size());
}

TEST_CASE("a text that is given up or refused leaves the next one as it would be") {
  const LanguageModel model = Lettered("qwen2").load(20);
  const TextGenerator::Options options{.sampling = {.temperature = 0}, .max_tokens = 6};
  const std::vector<int32_t> prompt = {3, 4, 5, 6, 7}, other = {3, 4, 9};
  TextGenerator fresh(model, options), generator(model, options);
  const std::string wanted = all_of(fresh, prompt);
  CHECK(!generator.next());
  CHECK(!generator.finish());
  generator.begin(other);
  CHECK(generator.next());
  const std::vector<int32_t> long_one(20, 5), unknown = {3, 41};
  CHECK(message_of([&] { generator.begin(long_one); }).find("leave no room in a context of 20") != std::string::npos);
  CHECK(message_of([&] { generator.begin({}); }).find("no tokens to go on with") != std::string::npos);
  CHECK(message_of([&] { generator.begin(unknown); }).find("token 1 is 41") != std::string::npos);
  CHECK(generator.next());  // what was begun goes on
  CHECK(all_of(generator, prompt) == wanted);
}

TEST_CASE("reading a prompt is cancelled by another thread, and the next text is as it would be") {
  for (const char* name : {"llama3", "mamba2"}) {
    CAPTURE(name);
    const Lettered folder(name);
    const LanguageModel model = folder.load(256, 1);  // read token by token
    const TextGenerator::Options options{.sampling = {.temperature = 0}, .max_tokens = 5};
    const std::vector<int32_t> prompt(200, 5), short_one = {3, 7};
    TextGenerator generator(model, options), other(model, options);
    const std::string wanted = all_of(other, prompt);
    generator.cancel();  // nothing is being read
    CHECK(all_of(generator, short_one) != "");
    size_t cancelled = 0;
    // On a busy machine the other thread may not run while a prompt is read: then another round follows.
    for (int round = 0; round < 5 || (cancelled == 0 && round < 500); ++round) {
      std::atomic<bool> has_begun = false, ended = false;
      std::thread canceller([&] {
        for (; !ended; has_begun = true) generator.cancel();
      });
      while (!has_begun) std::this_thread::yield();
      try {
        generator.begin(prompt);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::cancelled);
        ++cancelled;
      }
      ended = true;
      canceller.join();
    }
    CHECK(cancelled > 0);
    CHECK(all_of(generator, prompt) == wanted);
  }
}

TEST_CASE("what the files advise, and prompts") {
  const Lettered folder("gpt2");
  CHECK(advised_sampling(folder.load()).temperature == 1);
  folder.advise(
      {{"do_sample", true}, {"temperature", 0.5}, {"top_k", 7}, {"top_p", 0.25}, {"repetition_penalty", 1.5}});
  const LanguageModel model = folder.load();
  const SamplerOptions advised = advised_sampling(model);
  CHECK(advised.temperature == 0.5);
  CHECK(advised.top_k == 7);
  CHECK(advised.top_p == 0.25);
  CHECK(advised.min_p == 0);
  CHECK(advised.repetition_penalty == 1.5);
  for (auto kind : {PromptKind::text, PromptKind::plain, PromptKind::templated}) {
    CHECK(prompt_tokens(model, "CA", kind) == std::vector<int32_t>{2, 0});
    CHECK(prompt_tokens(model, "", kind) == std::vector<int32_t>{1});
  }
  CHECK(message_of([&] { TextGenerator(model, {.max_tokens = 0}); }).find("max_tokens is 0") != std::string::npos);
  CHECK(message_of([&] {
          TextGenerator(model, {.stops = {"a", ""}});
        }).find("stop string is empty") != std::string::npos);
}
