// Tables of which a step reads some rows beside PyTorch's sparse gradients (tests/golden/generate/sparse_rows.py).
#include <doctest/doctest.h>

#include <cmath>

#include "train/problems.h"
#include "train/step_graph.h"

using namespace rlx;
using test::numbers;

namespace {

constexpr int64_t kRows = 60, kWidth = 4;

Graph loss() {
  Graph g("rows");
  Value ids = g.input("ids", i64, {6}), more = g.input("more", i32, {2, 2}),
        target = g.input("target", f32, {6, kWidth}), table = g.param("table", f32, {kRows, kWidth});
  Value near = reduce_sum(square(take(table, ids) - target), {0, 1}), sums = reduce_sum(take(table, more), {0});
  g.output(near + reduce_sum(sums * square(sums), {0, 1}) / 8.0, "loss");
  return g;
}
std::vector<NamedTensor> batch(int64_t step) {
  Tensor ids(i64, {6}), more(i32, {2, 2});
  for (int64_t i = 0; i < 6; ++i) store<int64_t>(ids, static_cast<size_t>(i), (i * 7 + i / 4 * 11 + step) % 21 + 30);
  const int64_t rows[] = {30 + step, 2, 2, 59};
  for (size_t i = 0; i < 4; ++i) store<int64_t>(more, i, rows[i]);
  return {{"ids", ids}, {"more", more}, {"target", numbers({6, kWidth}, 3, 2, 11)}};
}
void check_near(const Tensor& got, const Tensor& wanted) {
  REQUIRE(got.shape() == wanted.shape());
  for (size_t i = 0; i < wanted.element_count(); ++i)
    CHECK_MESSAGE(std::abs(load_number(got, i) - load_number(wanted, i)) < 1e-5, "at ", i);
}

/// How many nodes of a step make something as large as the table.
int whole_tables(const TrainConfig& config) {
  Graph g = loss(), step = train::fused_graph(g, train::layout_of(g, config), config);
  int count = 0;
  for (const Node& node : step.nodes())
    for (const Type& t : node.types) count += node.op != &op::input && t.dims == Dims{kRows, kWidth};
  return count;
}
TrainConfig with(Optimizer optimizer) {
  TrainConfig config;
  config.optimizer = std::move(optimizer), config.learning_rate = 0.1;
  return config;
}

}  // namespace

TEST_CASE("of a table only the rows that were read step, as in PyTorch") {
  auto golden = SafetensorsFile::open("tests/golden/sparse_rows/steps.safetensors");
  const std::pair<std::string, Optimizer> optimizers[] = {{"sgd", Optimizer::sgd()}, {"adagrad", Optimizer::adagrad()}};
  for (const auto& [name, optimizer] : optimizers)
    for (bool fused : {true, false}) {
      TrainConfig config = with(optimizer);
      config.fused = fused;
      TrainingSession session(loss(), {{"table", numbers({kRows, kWidth}, 5, 1, 13)}}, config);
      Tensor losses = golden.tensor(name + "/losses"), norms = golden.tensor(name + "/norms");
      for (size_t i = 0; i < losses.element_count(); ++i) {
        StepResult r = session.step(batch(static_cast<int64_t>(i)));
        CHECK(std::abs(r.loss - load_number(losses, i)) < 1e-5);
        CHECK(std::abs(r.grad_norm - load_number(norms, i)) < 1e-5);
      }
      check_near(session.param("table"), golden.tensor(name + "/table"));
    }
}

TEST_CASE("what a step makes of a table is the table with those rows put in, once for it and once for each state") {
  CHECK(whole_tables(with(Optimizer::sgd())) == 1);
  CHECK(whole_tables(with(Optimizer::adagrad())) == 2);
  TrainConfig clipped = with(Optimizer::adagrad());
  clipped.clip_norm = 1, clipped.clip_value = 0.5;
  CHECK(whole_tables(clipped) == 2);
}

TEST_CASE("rules that move rows without a gradient step the whole table") {
  TrainConfig averaged = with(Optimizer::sgd());
  averaged.ema = 0.9;
  for (const TrainConfig& config :
       {with(Optimizer::sgd({.momentum = 0.9})), with(Optimizer::sgd({.weight_decay = 0.1})), with(Optimizer::adam()),
        with(Optimizer::adagrad({.weight_decay = 0.1})), with(Optimizer::rmsprop()), averaged})
    CHECK(whole_tables(config) > 3);
}

TEST_CASE("rows stay behind a bad step, and those out of range belong to nobody") {
  TrainConfig config = with(Optimizer::adagrad());
  Tensor start = numbers({kRows, kWidth}, 5, 1, 13);
  TrainingSession session(loss(), {{"table", start}}, config);
  auto bad = batch(0);
  store<double>(bad[2].second, 0, NAN);
  CHECK_THROWS_AS(session.step(bad), Error);
  check_near(session.param("table"), start);

  Graph g("outside");
  Value ids = g.input("ids", i32, {5}), table = g.param("table", f32, {kRows, kWidth});
  g.output(reduce_sum(square(take(table, ids, 0, OutOfRange::clip)), {0, 1}), "loss");
  Tensor places(i32, {5});
  const int64_t given[] = {-3, 100, 59, 0, 7};
  for (size_t i = 0; i < 5; ++i) store<int64_t>(places, i, given[i]);
  for (bool fused : {true, false}) {  // two times row 0, two times row 59: 2 * 2 x each
    TrainConfig plain = with(Optimizer::sgd());
    plain.fused = fused;
    TrainingSession clipping(g, {{"table", start}}, plain);
    clipping.step({{"ids", places}});
    Tensor wanted = clipping.param("table");
    for (int64_t row : {0, 7, 59, 30})
      for (int64_t d = 0; d < kWidth; ++d) {
        auto at = static_cast<size_t>(row * kWidth + d);
        double factor = row == 30 ? 1 : row == 7 ? 0.8 : 0.6;
        CHECK(load_number(wanted, at) == doctest::Approx(factor * load_number(start, at)).epsilon(1e-6));
      }
  }
}
