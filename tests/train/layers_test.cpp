// Layers with state in training beside PyTorch's: embeddings whose indices repeat, batch norm
// (tests/golden/generate/layers.py).
#include <doctest/doctest.h>

#include <cmath>

#include "rlx/models.h"
#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using test::numbers;

namespace {

constexpr int64_t kRows = 7, kWidth = 4, kClasses = 3;

Tensor filled(Shape shape, double value) {
  Tensor t(f32, std::move(shape));
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(t, i, value);
  return t;
}

struct Net {
  Graph graph{"net"};
  std::map<std::string, std::string, std::less<>> written = {};

  explicit Net(bool training) {
    ModelBuilder b(graph);
    Value ids = graph.input("ids", i64, {6, 5}), labels = graph.input("labels", i64, {6});
    Value x = transpose(b.embedding(ids, "embedding", kRows, kWidth), {0, 2, 1});
    x = b.linear(mean(tanh(b.batch_norm(x, "norm", training)), {2}), "head", kClasses);
    graph.output(mean(softmax_cross_entropy_with_logits(x, labels), {0}), "loss");
    written = b.output_written();
  }
};
std::vector<NamedTensor> batch() {
  Tensor ids(i64, {6, 5}), labels(i64, {6});
  for (int64_t i = 0; i < 30; ++i) store<int64_t>(ids, static_cast<size_t>(i), (i * 5 + i / 7) % kRows);
  for (int64_t i = 0; i < 6; ++i) store<int64_t>(labels, static_cast<size_t>(i), i % kClasses);
  return {{"ids", ids}, {"labels", labels}};
}

}  // namespace

TEST_CASE("embeddings and batch norm train as PyTorch's do, and their running statistics follow") {
  auto golden = SafetensorsFile::open("tests/golden/layers/steps.safetensors");
  NamedTensors initial = {{"embedding.weight", numbers({kRows, kWidth}, 5, 1, 13)},
                          {"norm.weight", filled({kWidth}, 1)},
                          {"norm.bias", filled({kWidth}, 0)},
                          {"norm.running_mean", filled({kWidth}, 0)},
                          {"norm.running_var", filled({kWidth}, 1)},
                          {"head.weight", numbers({kClasses, kWidth}, 3, 2, 11)},
                          {"head.bias", filled({kClasses}, 0)}};
  Net net(true);
  for (bool fused : {true, false}) {
    TrainConfig config;
    config.optimizer = Optimizer::sgd({.momentum = 0.9}), config.learning_rate = 0.1;
    config.written = net.written, config.fused = fused;
    TrainingSession session(net.graph, initial, config);
    Tensor losses = golden.tensor("losses");
    for (size_t i = 0; i < losses.element_count(); ++i)
      CHECK(std::abs(session.step(batch()).loss - load_number(losses, i)) < 1e-5);
    for (const auto& param : initial) {
      Tensor wanted = golden.tensor(param.first), got = session.param(param.first);
      for (size_t i = 0; i < wanted.element_count(); ++i)
        CHECK_MESSAGE(std::abs(load_number(got, i) - load_number(wanted, i)) < 1e-5, param.first, " at ", i);
    }
    // The running statistics serve in the graph that does not train.
    Net still(false);
    CompiledGraph forward = Session().compile(still.graph);
    forward.set_params(session.params());
    CHECK(std::abs(load_number(forward.run(batch())[0], 0) - load_number(golden.tensor("eval_loss"), 0)) < 1e-5);
  }
}

TEST_CASE("batch norm has no variance of one value to learn from") {
  auto build = [](int64_t n) {
    Graph graph("one");
    ModelBuilder b(graph);
    Value x = graph.input("x", f32, {n, 3});
    b.batch_norm(x, "norm", true);
  };
  CHECK(test::message_of([&] { build(1); }).find("of more than one value; f32[1, 3] has 1") != std::string::npos);
  build(2);
}
