// Compiled graphs on disk: found again by what they are, made again where they are damaged, never trusted.
#include <doctest/doctest.h>

#include <filesystem>

#include "rlx/graph_file.h"
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
  CHECK(written.size() == 3);
  std::string key = Session().compile(g, options).config().cache_key();
  CHECK(written.contains(key + ".rlx"));
  CHECK(written.contains(key + ".given.rlx"));
  CHECK(written.contains(key + ".json"));
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
  std::string legal = folder / (Session().compile(g).config().cache_key() + ".rlx");
  Graph other("g");
  other.output(-other.input("x", f32, {2}));
  save_graph(legal, other);
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
  CHECK(sound.size() == 5);  // the graphs' constants stand beside them
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
    entries += 3;
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
  std::string legal = folder / (Session().compile(g).config().cache_key() + ".rlx");
  Graph wider("g");  // another signature than the graph that was asked for
  wider.output(exp(wider.input("x", f32, {200})));
  save_graph(legal, wider);
  CHECK(run(g, options, in)[0] == Tensor::of<float>({2}, {1, 1}));
}
