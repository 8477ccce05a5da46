// Manifests, beside what PyTorch counts of the same models: tests/cost/flops_of_torch.py prints the numbers.
#include "rlx/manifest.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "cost/graph_work.h"
#include "cost/manifest_rows.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "rlx/ops/control.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

// tests/cost/flops_of_torch.py, PyTorch 2.15.0.
constexpr int64_t kMiniLmParams = 22713216, kPoolerParams = 147840;
constexpr int64_t kMiniLmFlops_1x128 = 2868903936, kMiniLmAttention_1x128 = 150994944, kMiniLmFlops_4x16 = 1368391680;
constexpr int64_t kSmallResNetParams = 22778, kSmallResNetFlops = 44369152, kSmallResNetConvolutions = 44367872;

/// all-MiniLM-L6-v2 by its config.json.
Graph minilm() {
  BertConfig config;
  config.hidden_size = 384, config.layers = 6, config.heads = 12, config.intermediate_size = 1536;
  return sentence_encoder_graph(config);
}

/// SmallResNet of tests/cost/flops_of_torch.py.
Graph small_resnet() {
  Graph g("small_resnet");
  ModelBuilder b(g);
  const auto conv_layer = [&](Value x, const std::string& name, int64_t in, int64_t out, int64_t size, int64_t stride,
                              int64_t padding, int64_t groups = 1) {
    return b.within(name, [&] {
      ConvNdAttrs attrs;
      attrs.stride = {stride, stride}, attrs.padding = {padding, padding}, attrs.groups = groups;
      return conv(x, b.param("weight", {out, in / groups, size, size}), attrs);
    });
  };
  const auto block = [&](Value x, const std::string& name, int64_t in, int64_t out, int64_t stride) {
    return b.within(name, [&] {
      Value y = conv_layer(relu(conv_layer(x, "conv1", in, out, 3, stride, 1)), "conv2", out, out, 3, 1, 1);
      return relu((stride > 1 ? conv_layer(x, "short", in, out, 1, stride, 0) : x) + y);
    });
  };
  Value x = relu(conv_layer(g.input("x", f32, {2, 3, 64, 64}), "stem", 3, 16, 7, 2, 3));
  x = block(block(x, "block1", 16, 16, 1), "block2", 16, 32, 2);
  x = reduce_sum(conv_layer(x, "grouped", 32, 32, 3, 1, 1, 8), {2, 3}) * (1.0 / (32 * 32));
  g.output(b.linear(x, "head", 10), "logits");
  return g;
}

const ManifestLayer& layer_of(const ManifestLayer& at, const std::string& name) {
  for (const ManifestLayer& each : at.layers)
    if (each.name == name || name.starts_with(each.name + ".")) return each.name == name ? each : layer_of(each, name);
  FAIL("no layer ", name);
  return at;
}

}  // namespace

TEST_CASE("MiniLM has as many params and flops as PyTorch counts, for each size and in symbols") {
  const Manifest m = manifest_of(minilm(), {{"B", 1}, {"S", 128}});
  CHECK(m.whole.totals.params == Dim(kMiniLmParams - kPoolerParams));  // sentence vectors do without the pooler
  CHECK(m.whole.totals.param_bytes == Dim(4 * (kMiniLmParams - kPoolerParams)));
  CHECK(m.whole.totals.flops() == Dim(kMiniLmFlops_1x128));
  CHECK(m.whole.totals.attention_flops == Dim(kMiniLmAttention_1x128));
  CHECK(m.whole.totals.convolution_flops == Dim(0));
  CHECK(manifest_of(minilm(), {{"B", 4}, {"S", 16}}).whole.totals.flops() == Dim(kMiniLmFlops_4x16));

  const Manifest open = manifest_of(minilm());
  CHECK(open.symbols == std::vector<std::string>{"B", "S"});
  CHECK(open.whole.totals.flops().bound({{"B", 1}, {"S", 128}}) == Dim(kMiniLmFlops_1x128));
  CHECK(open.whole.totals.flops().bound({{"B", 4}, {"S", 16}}) == Dim(kMiniLmFlops_4x16));
  CHECK(text_of(open.whole.totals.flops()) == "21233664*B*S+9216*B*S*S");
  CHECK(open.whole.totals.bytes_moved.bound({{"B", 1}, {"S", 128}}) == m.whole.totals.bytes_moved);
}

TEST_CASE("a small ResNet has as many params and flops as PyTorch counts, grouped and strided convolutions too") {
  const ManifestTotals t = manifest_of(small_resnet()).whole.totals;
  CHECK(t.params == Dim(kSmallResNetParams));
  CHECK(t.flops() == Dim(kSmallResNetFlops));
  CHECK(t.convolution_flops == Dim(kSmallResNetConvolutions));
}

TEST_CASE("the work in symbols is that in numbers, node by node") {
  const auto numbers = work_of(small_resnet());
  const auto symbols = symbolic_work_of(small_resnet());
  REQUIRE(numbers.size() == symbols.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(symbols[i].bytes.value()) == numbers[i].bytes);
    CHECK(static_cast<double>(symbols[i].convolution_flops.value()) == numbers[i].convolution_flops);
    CHECK(static_cast<double>(symbols[i].simple_elements.value()) == numbers[i].simple_elements);
    CHECK(static_cast<double>(symbols[i].function_elements.value()) == numbers[i].function_elements);
  }
}

TEST_CASE("layers are a tree by names, each with its own ops, params and what leaves it") {
  const Manifest m = manifest_of(minilm(), {{"B", 1}, {"S", 128}});
  const ManifestLayer& query = layer_of(m.whole, "encoder.layer.3.attention.self.query");
  REQUIRE(query.ops.size() == 1);
  CHECK(query.ops[0].op == "linear");
  CHECK(query.totals.product_flops == Dim(2 * 128 * 384 * 384));
  REQUIRE(query.params.size() == 2);
  CHECK(query.params[0].name == "encoder.layer.3.attention.self.query.weight");
  CHECK(query.params[0].bytes == Dim(4 * 384 * 384));
  CHECK(query.outputs == std::vector<Type>{{f32, {1, 128, 384}}});
  const ManifestLayer& layer = layer_of(m.whole, "encoder.layer.3");
  CHECK(layer.totals.params == Dim(4 * (384 * 384 + 384) + 2 * 384 * 1536 + 1536 + 384 + 4 * 384));
  CHECK(layer.outputs == std::vector<Type>{{f32, {1, 128, 384}}});
  CHECK(m.whole.outputs == std::vector<Type>{{f32, {1, 384}}});
  size_t ops = 0;
  for (const auto& each : m.whole.ops) ops += each.count;
  for (const ManifestLayer& each : m.whole.layers) ops += each.totals.ops;
  CHECK(ops == m.whole.totals.ops);
}

TEST_CASE("a loop counts as often as it runs, of a condition the larger branch, in numbers and in symbols") {
  Graph g("looped");
  Value x = g.input("x", f32, {8, 8});
  const Graph step = trace(std::vector<Type>{{f32, {8, 8}}}, [](Values in) { return matmul(in[0], in[0]); });
  ScanAttrs attrs;
  attrs.body = step, attrs.length = Dim::symbol("T"), attrs.carries = 1;
  Value t = g.input("t", f32, {Dim::symbol("T")});
  (void)t;
  g.output(g.emit(op::scan, {x}, attrs)[0]);
  CHECK(manifest_of(g).whole.totals.product_flops == Dim(2 * 8 * 8 * 8) * Dim::symbol("T"));
  CHECK(manifest_of(g, {{"T", 5}}).whole.totals.product_flops == Dim(5 * 2 * 8 * 8 * 8));
}

TEST_CASE("the JSON of a manifest is JSON, with amounts as numbers, or as text where there are symbols") {
  const auto closed = nlohmann::json::parse(manifest_of(minilm(), {{"B", 1}, {"S", 128}}).json());
  CHECK(closed.at("numbers") == nlohmann::json{{"B", 1}, {"S", 128}});
  const auto& whole = closed.at("layers").at(0);
  CHECK(whole.at("name") == "");
  CHECK(whole.at("totals").at("flops") == kMiniLmFlops_1x128);
  CHECK(whole.at("layers").at(0).at("name") == "embeddings");
  CHECK(whole.at("layers").at(0).at("layers").at(0).at("params").at(0).at("shape") == nlohmann::json{30522, 384});
  const auto open = nlohmann::json::parse(manifest_of(minilm()).json());
  CHECK(open.at("symbols") == nlohmann::json{"B", "S"});
  CHECK(open.at("inputs").at(0).at("shape") == nlohmann::json{"B", "S"});
  CHECK(open.at("layers").at(0).at("totals").at("flops") == "21233664*B*S+9216*B*S*S");
}

TEST_CASE("names from files may be anything: they nest no deeper than a limit, and stay text in JSON and in pictures") {
  Graph g("a \"<&>\" \x1b name");
  std::string deep = "a";
  for (int i = 0; i < 5000; ++i) deep += ".b";
  g.set_scope(deep);
  Value x = g.input("x", f32, {2, 2});
  Value y = x + x;
  g.set_scope("..\"<script>\xff");
  g.output(y * y);
  const Manifest m = manifest_of(g);
  CHECK(m.whole.totals.ops == 2);
  CHECK(nlohmann::json::parse(m.json()).at("layers").size() == 1);
  const std::string svg = m.svg();
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find('\x1b') == std::string::npos);
  CHECK(svg.find('\xff') == std::string::npos);
}

TEST_CASE("rows fold layers that are alike, and there are never more than wanted") {
  const Manifest m = manifest_of(minilm(), {{"B", 1}, {"S", 128}});
  const auto rows = manifest_rows(m, 60);
  const auto folded = std::find_if(rows.begin(), rows.end(), [](const ManifestRow& r) { return r.label == "0 … 5"; });
  REQUIRE(folded != rows.end());
  CHECK(folded->times == 6);
  CHECK(folded->each.flops() == Dim(kMiniLmFlops_1x128 / 6));
  for (size_t most : {3, 10, 20}) CHECK(manifest_rows(m, most).size() <= most);
  Graph flat("flat");
  Value x = flat.input("x", f32, {4, 4});
  const char* letters = "abcdefghijklmnopqrstuvwxyz";
  for (int i = 0; i < 200; ++i) {
    flat.set_scope(std::string(1, letters[i % 26]) + letters[i / 26]);
    x = i == 120 ? matmul(x, x) : i % 2 ? exp(x) : x + x;
  }
  flat.output(x);
  const auto shown = manifest_rows(manifest_of(flat), 30);
  REQUIRE(shown.size() == 30);
  CHECK(shown.back().label == "172 more");
  CHECK(std::any_of(shown.begin(), shown.end(), [](const ManifestRow& r) { return r.ops == "matmul"; }));
}

TEST_CASE("the picture in docs/manifest.md is the one that is drawn") {
  std::ifstream file("docs/manifest.svg");  // tests run at the root
  const std::string kept((std::istreambuf_iterator<char>(file)), {});
  // If it is to change: rlx inspect all-MiniLM-L6-v2 --manifest --dim B=1 --dim S=128 --svg docs/manifest.svg
  CHECK(manifest_of(minilm(), {{"B", 1}, {"S", 128}}).svg() == kept);
}

TEST_CASE("what a manifest cannot say is an error that names what is missing") {
  CHECK(message_of([] {
          (void)manifest_of(minilm(), {{"C", 1}});
        }) ==
        "the manifest has a number for 'C', and graph 'sentence_encoder' has no such symbol; the nearest are 'B' and "
        "'S'");
  CHECK(message_of([] {
          (void)manifest_of(minilm(), {{"B", 1}}).svg();
        }) == "bars need numbers, and 'S' of graph 'sentence_encoder' has none; give one: S=1");
  Graph huge("huge");
  const Dim big = Dim::symbol("N");
  Value x = huge.input("x", f32, {big, big});
  huge.output(matmul(x, x));
  CHECK(message_of([&] {
          (void)manifest_of(huge, {{"N", int64_t{1} << 31}});
        }).starts_with("more elements than memory can ever hold"));
  CHECK(message_of([&] { (void)manifest_of(huge, {{"N", int64_t{1} << 24}}); }).starts_with("a dim overflows"));
}
