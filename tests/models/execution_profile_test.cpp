// Execution profiles: what a file says, what follows from it here, and each mistake with its line.
#include "rlx/execution_profile.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

constexpr const char* kProfile = R"(# how a decoder is served
device = ["cpu"]
threads = 1
compute = "bf16"

[phase.prefill]
shapes = {B = 1, S = 128}

[phase.decode]
compute = "f32"
accuracy = "exact"
isa = "native"
shapes = {B = 1}
bounds = {S = 512}
)";

Graph product_of_symbols() {
  Graph g("product");
  Value x = g.input("x", f32, {Dim::symbol("B"), Dim::symbol("S")});
  g.output(matmul(x, g.input("w", f32, {Dim::symbol("S"), 4})), "y");
  return g;
}

}  // namespace

TEST_CASE("a profile gives each phase what it says, and what the head of the file says otherwise") {
  const ExecutionProfile p = ExecutionProfile::parse(kProfile);
  REQUIRE(p.phases.size() == 2);
  CHECK(p.phases[0].first == "prefill");
  const ExecutionOptions prefill = p.options("prefill"), decode = p.options("decode");
  CHECK(prefill.device == Device::cpu());
  CHECK(prefill.session.threads == 1);
  CHECK(prefill.compile.compute == Compute::as_bf16);
  CHECK(prefill.shapes == Bindings{{"B", 1}, {"S", 128}});
  CHECK(prefill.compile.bounds.empty());
  CHECK(decode.compile.compute == Compute::as_f32);
  CHECK(decode.compile.accuracy == Accuracy::exact);
  CHECK(decode.compile.isa == "native");
  CHECK(prefill.compile.isa.empty());
  CHECK(decode.shapes == Bindings{{"B", 1}});
  CHECK(decode.compile.bounds == Bindings{{"S", 512}});
}

TEST_CASE("a profile that is written reads back as the same") {
  ExecutionProfile p = ExecutionProfile::parse(kProfile);
  CHECK(ExecutionProfile::parse(p.toml()) == p);
  p.common.placement = {"head \"x\"*=cpu", "op:softmax=cpu"};
  p.common.cache = bf16;
  p.common.isa = "avx2";
  p.phases[1].second.placement = {};
  test::TemporaryFolder folder;
  p.save(folder / "p.toml");
  CHECK(ExecutionProfile::load(folder / "p.toml") == p);
  CHECK(ExecutionProfile::parse(ExecutionProfile().toml()) == ExecutionProfile());
}

TEST_CASE("a graph is compiled for the phase's shapes, on its device, and a run of other ones fails") {
  const ExecutionProfile p = ExecutionProfile::parse(kProfile);
  const CompiledGraph compiled = p.options("prefill").compiled(product_of_symbols());
  CHECK(compiled.signature().inputs[0].type == Type{f32, {1, 128}});
  CHECK(compiled.threads() == 1);
  const Tensor x(f32, {1, 128}), w(f32, {128, 4});
  CHECK(compiled.run({{"x", x}, {"w", w}})[0].shape() == Shape{1, 4});
  CHECK_THROWS_AS((void)compiled.run({{"x", Tensor(f32, {2, 128})}, {"w", w}}), Error);
  const CompiledGraph bounded = p.options("decode").compiled(product_of_symbols());
  CHECK(bounded.run({{"x", x}, {"w", w}})[0].shape() == Shape{1, 4});
  CHECK_THROWS_AS((void)bounded.run({{"x", Tensor(f32, {1, 513})}, {"w", Tensor(f32, {513, 4})}}), Error);
}

TEST_CASE("the first device that is available runs it, with those behind it as its fallbacks") {
  const auto options = [](const std::string& devices) {
    return ExecutionProfile::parse("device = " + devices).options();
  };
  const ExecutionOptions o = options(R"(["cuda", "cpu", "coreml"])");
  if (!is_available(Device::cuda())) {
    CHECK(o.device == Device::cpu());
    CHECK(o.compile.fallback == std::vector<std::string>{"coreml"});
    REQUIRE(o.passed_over.size() == 1);
    CHECK(o.passed_over[0].starts_with("cuda: "));
    CHECK(
        message_of([&] { (void)options("\"cuda\""); }).starts_with("none of the devices is available here:\n  cuda: "));
  }
  CHECK(options("\"cpu\"").device == Device::cpu());
}

TEST_CASE("a language model takes what prefill and decode both say, and the chunk of prefill") {
  const auto p = ExecutionProfile::parse(
      "cache = \"bf16\"\ncontext = 2048\nthreads = 1\n[phase.prefill]\nchunk = 64\n[phase.decode]\n");
  const LanguageModel::Options o = p.language_model_options();
  CHECK(o.chunk == 64);
  CHECK(o.context == 2048);
  CHECK(o.cache == bf16);
  CHECK(o.threads == 1);
  CHECK(ExecutionProfile::parse("threads = 1\n").language_model_options().chunk == LanguageModel::Options().chunk);
  const auto other = ExecutionProfile::parse("[phase.prefill]\ncompute = \"bf16\"\n[phase.decode]\n");
  CHECK(message_of([&] { (void)other.language_model_options(); }) ==
        "the phases prefill and decode have different values for 'compute', and a language model runs both with one "
        "compiled graph; name a phase, or say it at the head of the file");
  CHECK(other.language_model_options("prefill").compile.compute == Compute::as_bf16);
  CHECK(message_of([] {
          (void)ExecutionProfile::parse("shapes = {n = 8}").language_model_options();
        }).starts_with("'shapes' has a number for 'n', and a language model has no such sizes"));
}

TEST_CASE("each mistake in a profile is an error with its line, that names what was meant") {
  const auto message = [](const std::string& text) { return message_of([&] { (void)ExecutionProfile::parse(text); }); };
  CHECK(message("thraeds = 2") ==
        "line 1: the head of a profile has no key 'thraeds'; the nearest are 'threads', 'shapes' and 'bounds'");
  CHECK(message("threads = 1\n[phase.decode]\n\naccurracy = \"f32\"")
            .starts_with("line 4: [phase.decode] has no key 'accurracy'; the nearest are 'accuracy'"));
  CHECK(message("compute = \"f8\"") ==
        "line 1: 'compute' wants one of \"f32\", \"f16\", \"bf16\", \"int8\", \"auto\", got 'f8'");
  CHECK(message("threads = \"two\"") == "line 1: 'threads' wants a whole number, got a string");
  CHECK(message("threads = 257") == "'threads' is 257; it must be 0 to 256\n  while reading 'threads' in line 1");
  CHECK(message("\nshapes = {B = 0}") == "line 2: 'B' is 0; a symbol is at least 1");
  CHECK(message("shapes = 4") == "line 1: 'shapes' wants numbers for symbols, {B = 1, S = 128}, got a whole number");
  CHECK(message("shapes = {B = 1}\nbounds = {B = 2}") ==
        "'B' is 1 by 'shapes' and at most 2 by 'bounds'; give one of them\n  while reading 'bounds' in line 2");
  CHECK(message("device = \"gpu\"").find("while reading 'device' in line 1") != std::string::npos);
  CHECK(message("device = [\"cpu\", \"cpu\"]") ==
        "device 'cpu' stands there twice\n  while reading 'device' in line 1");
  CHECK(message("placement = [\"softmax\"]").find("while reading 'placement' in line 1") != std::string::npos);
  CHECK(message("cache = \"f64\"")
            .starts_with("'cache' is f64; keys and values are kept in f32, f16, bf16, q8_0 or q4_0"));
  CHECK(message("cache = \"float\"").starts_with("there is no dtype 'float'"));
  CHECK(message("phase = 3") == "line 1: 'phase' is a whole number; phases are tables: [phase.decode]");
  CHECK(message("[phase]\ndecode = 1") == "line 2: [phase.decode] is a whole number; a table is wanted");
  CHECK(message("[phase.\"a b\"]").find("a phase is called 'a b'") != std::string::npos);
  CHECK(message("threads = 1\n[=phase]\n") == "line 2: it is no TOML: behind '[' stands what is no name");
  CHECK(message("threads = \n").starts_with("line 1, column"));
  CHECK(message("threads = 1\nthreads = 2").starts_with("line 2"));
  CHECK(message("threads = 1979-05-27") == "line 1: 'threads' wants a whole number, got a date or time");

  const ExecutionProfile p = ExecutionProfile::parse(kProfile);
  CHECK(message_of([&] { (void)p.options(); }) ==
        "the profile has several phases, 'prefill', 'decode': name one of them");
  CHECK(message_of([&] { (void)p.options("decod"); }) ==
        "the profile has no phase 'decod'; the nearest are 'decode' and 'prefill'");
  Graph g("other");
  g.output(g.input("x", f32, {Dim::symbol("N")}));
  CHECK(message_of([&] { (void)p.options("prefill").compiled(g); })
            .starts_with("phase 'prefill' of the profile has a number for 'B', and graph 'other' has no such symbol; "
                         "the nearest is 'N'"));
  CHECK(message_of([] {
          (void)ExecutionProfile::load("none.toml");
        }).ends_with("while reading the execution profile 'none.toml'"));
}

TEST_CASE("a profile of any bytes is read or refused") {
  const std::string valid = kProfile;
  for (size_t at = 0; at < valid.size(); ++at)
    for (char c : {'\0', '"', '{', '\xff', '='}) {
      std::string text = valid;
      text[at] = c;
      try {
        (void)ExecutionProfile::parse(text);
      } catch (const Error&) {
      }
    }
  const std::string deep = "device = " + std::string(5000, '[');
  CHECK_THROWS_AS((void)ExecutionProfile::parse(deep), Error);
}
