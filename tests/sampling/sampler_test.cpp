// Samplers against the processors of the Python package transformers (sampler_cases.py writes sampler_cases.json),
// their draws against the probabilities, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "rlx/error.h"
#include "rlx/sampler.h"

using namespace rlx;
using nlohmann::json;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double number(const json& value) { return value.is_string() ? -kInfinity : value.get<double>(); }

SamplerOptions options_of(const json& s) {
  SamplerOptions o;
  o.repetition_penalty = s.value("repetition_penalty", 1.0);
  o.temperature = s.value("temperature", 1.0);
  o.top_k = s.value("top_k", int64_t{0});
  o.top_p = s.value("top_p", 1.0);
  o.min_p = s.value("min_p", 0.0);
  o.typical_p = s.value("typical_p", 1.0);
  if (s.contains("logit_bias"))
    for (const json& pair : s["logit_bias"]) o.logit_bias.emplace_back(pair[0].get<int32_t>(), number(pair[1]));
  return o;
}

/// Repeatable logits of about a normal distribution.
std::vector<float> wide_logits(size_t count) {
  std::vector<float> logits(count);
  uint32_t state = 12345;
  for (float& logit : logits) {
    float sum = -6;
    for (int i = 0; i < 12; ++i)
      state = state * 1664525u + 1013904223u, sum += static_cast<float>(state >> 8) * 0x1p-24f;
    logit = 3 * sum;
  }
  return logits;
}

}  // namespace

TEST_CASE("samplers leave what the processors of transformers leave, as likely") {
  const json recorded = json::parse(std::ifstream("tests/sampling/sampler_cases.json"));
  const std::vector<int32_t> seen = recorded["seen"];
  for (const json& wanted : recorded["cases"]) {
    CAPTURE(wanted["row"].get<std::string>());
    CAPTURE(wanted["settings"].dump());
    std::vector<float> logits;
    for (const json& logit : recorded["rows"][wanted["row"].get<std::string>()])
      logits.push_back(static_cast<float>(number(logit)));
    Sampler sampler(options_of(wanted["settings"]));
    sampler.see(seen);
    const auto chances = sampler.chances(logits);
    std::map<int32_t, double> got;
    for (size_t i = 0; i < chances.size(); ++i) {
      got[chances[i].id] = chances[i].probability;
      if (i > 0) CHECK(chances[i - 1].probability >= chances[i].probability);
    }
    std::vector<int32_t> kept;
    for (const auto& [id, probability] : got) kept.push_back(id);
    CHECK(json(kept).dump() == wanted["kept"].dump());
    if (json(kept) != wanted["kept"]) continue;
    size_t at = 0;
    for (const auto& each : got) {
      const int32_t id = each.first;
      const double probability = each.second;
      CAPTURE(id);
      // transformers rounds each step to f32; large logits have errors of their size.
      CHECK(std::abs(probability - wanted["probabilities"][at++].get<double>()) < 2e-4 * probability + 1e-12);
    }
  }
  CHECK(recorded["cases"].size() > 100);
}

TEST_CASE("draws are as frequent as they are likely") {
  const std::vector<float> logits{0.5f, -1, 2, -kInfinity, 1.5f, 0, -3, 1};
  for (auto [temperature, top_k, top_p] : {std::tuple{1.0, 0, 1.0}, {0.7, 5, 1.0}, {1.3, 0, 0.9}}) {
    Sampler sampler({.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = 7});
    const auto chances = sampler.chances(logits);
    constexpr int kDraws = 20000;
    std::map<int32_t, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[sampler.sample(logits)];
    double chi_square = 0;
    int drawn = 0;
    for (const TokenChance& c : chances) {
      const double expected = c.probability * kDraws;
      chi_square += (counts[c.id] - expected) * (counts[c.id] - expected) / expected;
      drawn += counts[c.id];
    }
    CHECK(drawn == kDraws);
    CHECK(chi_square < 24.3);  // of 7 degrees of freedom, or fewer, in one of a thousand runs
  }
}

TEST_CASE("a seed gives its tokens, here as elsewhere") {
  const std::vector<float> logits = wide_logits(1000);
  auto tokens = [&](uint64_t seed) {
    Sampler sampler({.top_k = 50, .seed = seed});
    std::vector<int32_t> made;
    for (int i = 0; i < 20; ++i) made.push_back(sampler.sample(logits));
    return made;
  };
  CHECK(tokens(1) == tokens(1));
  CHECK(tokens(1) != tokens(2));
  CHECK(tokens(1) != tokens((uint64_t{1} << 32) + 1));
  Sampler sampler({.presence_penalty = 1, .seed = 3});
  const int32_t first = sampler.sample(logits), second = sampler.sample(logits);
  sampler.reset();
  CHECK(sampler.sample(logits) == first);
  CHECK(sampler.sample(logits) == second);
  // Philox 4x32-10 of the counter 0 and the key 0 begins with 6627e8d5 e169c58d (Random123's kat_vectors): u = 0.88052.
  const std::vector<float> even(1000, 0.0f);
  CHECK(Sampler({.seed = 0}).sample(even) == 880);
}

TEST_CASE("greedy takes the greatest logit, of equal ones the lower id") {
  const std::vector<float> logits{1, 3, 3, 2};
  CHECK(Sampler({.temperature = 0}).sample(logits) == 1);
  CHECK(Sampler({.temperature = 0, .top_k = 1, .top_p = 0.1, .seed = 5}).sample(logits) == 1);
  Sampler penal({.presence_penalty = 1.5, .temperature = 0});
  CHECK(penal.sample(logits) == 1);
  CHECK(penal.sample(logits) == 2);
  CHECK(penal.sample(logits) == 3);
  Sampler often({.frequency_penalty = 0.6, .temperature = 0});
  std::vector<int32_t> drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(often.sample(logits));
  CHECK(drawn == std::vector<int32_t>{1, 2, 1, 2, 3, 1});
  CHECK(Sampler({.logit_bias = {{0, 9.0}}, .temperature = 0}).sample(logits) == 0);
  CHECK(Sampler({.temperature = 0}).sample(Tensor::of<float>({4}, {0, 1, 5, 2})) == 2);
  const auto chances = Sampler({.top_p = 0.5}).chances(std::vector<float>{0, 0, 0, 0});
  CHECK(chances.size() == 2);
  CHECK(chances[0].id == 0);
  CHECK(chances[1].id == 1);
}

TEST_CASE("samplers say what they cannot use") {
  auto says = [](SamplerOptions options, std::vector<float> logits, const char* message) {
    CHECK_THROWS_WITH_AS(Sampler(options).sample(logits), doctest::Contains(message), Error);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (double temperature : {0.0, 1.0}) {
    says({.temperature = temperature}, {1, nan, 2}, "the logit of token 1 is nan");
    says({.temperature = temperature}, {1, 2, kInfinity}, "the logit of token 2 is inf");
    says({.temperature = temperature}, {-kInfinity, -kInfinity}, "all 2 logits are -inf");
    says({.temperature = temperature}, {}, "from 0 logits");
  }
  says({.temperature = -1}, {1}, "temperature is -1; it is 0 for greedy, or above");
  says({.temperature = NAN}, {1}, "temperature is nan");
  says({.top_k = -1}, {1}, "top_k is -1");
  says({.top_p = 0}, {1}, "top_p is 0; it is above 0 and at most 1");
  says({.min_p = 1.5}, {1}, "min_p is 1.5");
  says({.typical_p = 0}, {1}, "typical_p is 0");
  says({.repetition_penalty = 0}, {1}, "repetition_penalty is 0");
  says({.frequency_penalty = NAN}, {1}, "frequency_penalty is nan");
  says({.logit_bias = {{4, 1.0}}}, {1, 2}, "logit_bias names token 4; there are 2 logits");
  says({.logit_bias = {{0, NAN}}}, {1, 2}, "the logit_bias of token 0 is nan");
  CHECK_THROWS_AS(Sampler().sample(Tensor::of<float>({1, 2}, {0, 1})), Error);
}
