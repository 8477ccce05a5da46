// What a plan that moves makes anew (plan/movable_plan.h). That it computes what a plan made for its extents computes
// is tested with the CPU's kernels, in tests/runtime/moved_plans_test.cpp.
#include "plan/movable_plan.h"

#include <doctest/doctest.h>

#include "ir/rewrite.h"
#include "rlx/ops.h"

using namespace rlx;

namespace {

struct Nothing final : Launch {
  void run(const LaunchArgs&) const noexcept override {}
};

/// Counts the launches that it makes, and the questions about strides.
struct CountingMaker final : LaunchMaker {
  size_t launches = 0, questions = 0;
  StorageRules storage_rules() override {
    return {[this](const Node&, size_t, const Shape&, std::span<const int64_t>) { return ++questions, true; },
            [](const Node&, size_t) { return std::vector<size_t>(); }};
  }
  MadeLaunch launch(PlacedNode) override { return ++launches, MadeLaunch{std::make_unique<Nothing>()}; }
  std::unique_ptr<Launch> copy(const View&, const View&) override { return std::make_unique<Nothing>(); }
};

struct Moved {
  size_t launches, questions;
  std::vector<const Launch*> made;
};
/// What one move of the graph from N = 4 to N = 5 asks for.
Moved moved(const Graph& symbolic) {
  CountingMaker maker;
  const Bindings four = {{"N", 4}}, five = {{"N", 5}};
  Graph numbered = substitute(symbolic, four);
  Planned planned = plan_graph({numbered, maker});
  const std::vector<const Tensor*> fixed(planned.plan.buffers.size());
  REQUIRE(MovablePlan::can_move(symbolic, planned));
  MovablePlan plan(symbolic, numbered, four, maker, std::move(planned), {}, fixed);
  const size_t launches = maker.launches, questions = maker.questions;
  REQUIRE(plan.move(five));
  Moved result{maker.launches - launches, maker.questions - questions, {}};
  for (const auto& launch : plan.launches()) result.made.push_back(launch.get());
  return result;
}

const Dim kN = Dim::symbol("N");

}  // namespace

TEST_CASE("one launch does what nodes alike do, if their operands and results lie alike") {
  Graph g;
  for (int layer = 0; layer < 4; ++layer) {
    Value x = g.input("x" + std::to_string(layer), f32, {kN, 6});
    g.output(softmax(exp(x), 1));
  }
  const Moved all = moved(g);
  CHECK(all.launches == 2);
  REQUIRE(all.made.size() == 8);
  for (size_t step = 2; step < 8; ++step) CHECK(all.made[step] == all.made[step % 2]);
}

TEST_CASE("nodes alike have launches of their own where strides or values may differ") {
  Graph strided;
  Value x = strided.input("x", f32, {kN, 6}), y = strided.input("y", f32, {6, kN});
  strided.output(softmax(x, 1));
  strided.output(softmax(transpose(y, {1, 0}), 1));
  CHECK(moved(strided).launches == 2);

  Graph weighted;
  for (const char* name : {"a", "b"})
    weighted.output(linear(weighted.input(text_of("x of ", name), f32, {kN, 6}), weighted.param(name, f32, {3, 6})));
  CHECK(moved(weighted).launches == 2);

  Graph scaled;
  for (float factor : {2.0F, 3.0F}) {
    Value w = scaled.constant(Tensor::of<float>({1, 6}, std::vector<float>(6, factor)));
    scaled.output(linear(scaled.input(text_of("x", factor), f32, {kN, 6}), w));
  }
  CHECK(moved(scaled).launches == 2);
}

TEST_CASE("whether a value is a view is asked once for nodes alike whose users are alike") {
  const auto layers = [](int count) {
    Graph g;
    for (int layer = 0; layer < count; ++layer) {
      Value x = g.input("x" + std::to_string(layer), f32, {6, kN});
      g.output(softmax(transpose(x, {1, 0}), 1));
    }
    return moved(g);
  };
  REQUIRE(layers(1).questions > 0);
  CHECK(layers(4).questions == layers(1).questions);

  Graph other_users;
  Value a = other_users.input("a", f32, {6, kN}), b = other_users.input("b", f32, {6, kN});
  other_users.output(softmax(transpose(a, {1, 0}), 1));
  other_users.output(exp(transpose(b, {1, 0})));
  CHECK(moved(other_users).questions == 2 * layers(1).questions);
}
