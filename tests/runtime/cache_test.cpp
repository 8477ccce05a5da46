// Compiled graphs on disk: found again by what they are, made again where they are damaged, never trusted.
#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/artifact.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

/// A graph with a constant that stands beside the text.
Graph with_constant(uint64_t seed) {
  Graph g("with_constant");
  g.output(matmul(g.input("x", f32, {2, 16}), g.constant(random_tensor(f32, {16, 16}, seed))));
  return g;
}
CompileOptions kept_in(const std::string& folder) {
  CompileOptions options;
  options.cache_dir = folder;
  return options;
}
/// What `rlx` says on stderr meanwhile is expected; the tests look at results.
std::vector<Tensor> run(const Graph& g, const CompileOptions& options, Tensors inputs,
                        const test::Params& params = {}) {
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, options);  // a new session knows nothing of another's
  compiled.set_params(params);
  return compiled.run_ordered(inputs);
}
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    all[entry.path().filename().string()] = test::file_content(entry.path().string());
  return all;
}

}  // namespace

TEST_CASE("a graph compiled by one session is loaded by another from the folder that both name") {
  test::TemporaryFolder folder;
  Graph g = test::small_model();
  auto inputs = test::small_inputs(6);
  auto wanted = run(g, {}, inputs, test::small_params());
  auto options = kept_in(folder / "cache");
  CHECK(difference(run(g, options, inputs, test::small_params()), wanted, 0) == "");
  auto written = contents(folder / "cache");
  CHECK(written.size() == 1);
  std::string key = Session().compile(g, options).config().cache_key();
  CHECK(written.contains(key + ".rlxc"));
  CHECK(difference(run(g, options, inputs, test::small_params()), wanted, 0) == "");
  CHECK(contents(folder / "cache") == written);  // nothing was made again

  CompiledGraph loaded = Session().compile(g, options), made = Session().compile(g);
  CHECK(loaded.lowered() == made.lowered());
  CHECK(loaded.report().json() == made.report().json());
}

TEST_CASE("what is loaded is what was kept, not what would be compiled: the entry is really read") {
  test::TemporaryFolder folder;
  Graph g("g");
  g.output(exp(g.input("x", f32, {2})));
  auto options = kept_in(folder / "");
  std::vector<Tensor> in = {Tensor::of<float>({2}, {1, 2})};
  run(g, options, in);
  const std::string entry = folder / (Session().compile(g).config().cache_key() + ".rlxc");
  Graph other("g");
  other.output(-other.input("x", f32, {2}));
  Artifact changed = read_artifact(entry);
  changed.program.text = graph_file_of(other).text;
  write_artifact(entry, changed);  // as whoever writes entries would: with right sums
  CHECK(run(g, options, in)[0] == Tensor::of<float>({2}, {-1, -2}));
}

TEST_CASE("a damaged or foreign entry is compiled again and written anew, whatever the damage") {
  test::TemporaryFolder folder;
  Graph g = with_constant(1);
  std::vector<Tensor> in = {random_tensor(f32, {2, 16}, 2)};
  auto options = kept_in(folder / "cache");
  auto wanted = run(g, {}, in);
  run(g, options, in);
  auto sound = contents(folder / "cache");
  CHECK(sound.size() == 1);
  for (const auto& [name, content] : sound)
    for (int damage = 0; damage < 5; ++damage) {
      std::string bad = content, path = folder / ("cache/" + name);
      switch (damage) {
        case 0: bad = ""; break;
        case 1: bad.resize(bad.size() / 2); break;
        case 2: bad = "\xff\xfe nonsense {]"; break;
        case 3: bad = "rlx 1\ngraph @g { return }"; break;
        default: std::filesystem::remove(path);
      }
      if (damage < 4) test::put_file(path, bad);
      CAPTURE(path);
      CAPTURE(damage);
      CHECK(difference(run(g, options, in), wanted, 0) == "");
      CHECK(contents(folder / "cache") == sound);
    }
}

TEST_CASE("an entry with one digit changed is compiled again, though it is a graph still") {
  test::TemporaryFolder folder;
  Graph g("g");
  const Value x = g.input("x", f32, {2, 4}), scale = g.input("scale", f32, {4}), bias = g.input("bias", f32, {4});
  g.output(layer_norm(x, scale, bias, 1e-12));
  std::vector<Tensor> in = {Tensor::of<float>({2, 4}, {.1f, .2f, .1f, .3f, .2f, .1f, .3f, .1f}),
                            Tensor::of<float>({4}, {1, 1, 1, 1}), Tensor::of<float>({4}, {0, 0, 0, 0})};
  const auto options = kept_in(folder / "cache");
  const auto wanted = run(g, options, in);
  const std::string key = Session().compile(g).config().cache_key();
  const std::string path = folder / ("cache/" + key + ".rlxc"), sound = test::file_content(path);
  std::string changed = sound;
  const size_t at = changed.find("1e-12");
  REQUIRE(at != std::string::npos);
  test::put_file(path, changed.replace(at, 5, "1e-02"));
  CHECK(difference(run(g, options, in), wanted, 0) == "");
  CHECK(test::file_content(path) == sound);

  // Nor is any other byte of any file believed: each is changed in turn, in its lowest bit.
  const auto kept = contents(folder / "cache");
  for (const auto& [name, content] : kept)
    for (size_t i = 0; i < content.size(); i += 31) {
      std::string bad = content;
      bad[i] = static_cast<char>(bad[i] ^ 1);
      test::put_file(folder / ("cache/" + name), bad);
      CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, options);
      REQUIRE(contents(folder / "cache") == kept);  // made again
    }
}

TEST_CASE("an entry of another graph under the same key is not taken for this one's") {
  test::TemporaryFolder folder;
  auto options = kept_in(folder / "cache");
  std::vector<Tensor> in = {random_tensor(f32, {2, 16}, 2)};
  run(with_constant(1), options, in);
  std::string first = Session().compile(with_constant(1)).config().cache_key();
  std::string second = Session().compile(with_constant(2)).config().cache_key();
  CHECK(first != second);
  for (const auto& [name, content] : contents(folder / "cache"))
    test::put_file(folder / ("cache/" + second + name.substr(first.size())), content);
  CHECK(difference(run(with_constant(2), options, in), interpret(with_constant(2), in), 1e-5) == "");
}

TEST_CASE("options that change the program have entries of their own") {
  test::TemporaryFolder folder;
  Graph g("g");
  g.output(softmax(gelu(g.input("x", f32, {2, 3}))));
  auto options = kept_in(folder / "cache");
  std::vector<Tensor> in = {random_tensor(f32, {2, 3}, 1)};
  size_t entries = 0;
  auto adds_one = [&](const CompileOptions& o) {
    run(g, o, in);
    entries += 1;
    CHECK(contents(folder / "cache").size() == entries);
  };
  adds_one(options);
  auto common = options;
  common.kernel_dispatch = KernelDispatch::common;
  adds_one(common);
  auto skipping = options;
  skipping.skip_passes = {"simplify"};
  adds_one(skipping);
  auto forced = options;
  forced.force_common = {"softmax"};
  adds_one(forced);
  auto other = options;
  other.force_common = {"gelu"};
  adds_one(other);
  auto donating = options;
  donating.donate = {"x"};
  adds_one(donating);
}

TEST_CASE("a cache folder that cannot be written costs a line on stderr, not the run") {
  test::TemporaryFolder folder;
  test::put_file(folder / "file", "in the way");
  Graph g("g");
  g.output(exp(g.input("x", f32, {2})));
  std::vector<Tensor> in = {Tensor(f32, {2})};
  CHECK(run(g, kept_in(folder / "file"), in)[0] == Tensor::of<float>({2}, {1, 1}));
  CHECK(run(g, kept_in(folder / "file/below"), in)[0] == Tensor::of<float>({2}, {1, 1}));
  CHECK(test::file_content(folder / "file") == "in the way");
}

TEST_CASE("a kept graph that was tampered with is verified before it runs") {
  test::TemporaryFolder folder;
  Graph g("g");
  g.output(exp(g.input("x", f32, {2})));
  auto options = kept_in(folder / "");
  std::vector<Tensor> in = {Tensor(f32, {2})};
  run(g, options, in);
  const std::string entry = folder / (Session().compile(g).config().cache_key() + ".rlxc");
  Graph wider("g");  // another signature than the graph that was asked for
  wider.output(exp(wider.input("x", f32, {200})));
  Artifact changed = read_artifact(entry);
  changed.program.text = graph_file_of(wider).text;
  write_artifact(entry, changed);
  CHECK(run(g, options, in)[0] == Tensor::of<float>({2}, {1, 1}));
}
