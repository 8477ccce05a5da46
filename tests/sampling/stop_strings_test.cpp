// Stop strings: what is given is the text before the first of them, however the text comes in pieces.
#include <doctest/doctest.h>

#include <random>

#include "rlx/error.h"
#include "rlx/sampler.h"

using namespace rlx;

namespace {

struct Cut {
  std::string text;
  std::optional<std::string> stop;
  bool operator==(const Cut&) const = default;
};

/// By the definition: the stop string that ends first, of two the longer.
Cut expected(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& stop : stops)
      if (std::string_view(text).substr(0, end).ends_with(stop) && (!best || stop.size() > best->size())) best = &stop;
    if (best) return {text.substr(0, end - best->size()), *best};
  }
  return {text, std::nullopt};
}

}  // namespace

TEST_CASE("a text is cut before its first stop string, and nothing of that is given") {
  std::mt19937 random(3);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  auto word = [&](size_t least, size_t most) {
    std::string made;
    for (size_t i = least + below(most - least + 1); i > 0; --i) made += std::array{"a", "b", "é"}[below(3)];
    return made;
  };
  size_t stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = below(4); i > 0; --i) stops.push_back(word(1, 5));
    const std::string text = word(0, 30);
    const Cut wanted = expected(text, stops);
    StopStrings cutter(stops);
    std::string given;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + below(6);
      given += cutter.put(std::string_view(text).substr(at, size));
      at += size;
      // At every moment: a beginning of what is wanted.
      REQUIRE(wanted.text.starts_with(given));
    }
    const std::optional<std::string> stop = cutter.found() ? std::optional(*cutter.found()) : std::nullopt;
    given += cutter.finish();
    CAPTURE(text);
    REQUIRE(Cut{given, stop} == wanted);
    stopped += stop.has_value();
  }
  CHECK(stopped > 1000);
}

TEST_CASE("no more is held back than may become a stop string") {
  StopStrings cutter({"\n\nUser:", "<|end|>"});
  CHECK(cutter.put("Hello <") == "Hello ");
  CHECK(cutter.put("b>\n") == "<b>");
  CHECK(cutter.put("\nUse it.") == "\n\nUse it.");
  CHECK(cutter.put("<|en") == "");
  CHECK(cutter.put("d|> more") == "");
  REQUIRE(cutter.found());
  CHECK(*cutter.found() == "<|end|>");
  CHECK(cutter.put("text") == "");
  CHECK(cutter.finish() == "");
  REQUIRE(cutter.found());  // until the next text begins
  CHECK(*cutter.found() == "<|end|>");
  CHECK(cutter.put("next <|") == "next ");
  CHECK(!cutter.found());
  CHECK(cutter.finish() == "<|");
  CHECK(StopStrings().put("all of it") == "all of it");
  CHECK_THROWS_WITH_AS(StopStrings({"a", ""}), doctest::Contains("a stop string is empty"), Error);
}
