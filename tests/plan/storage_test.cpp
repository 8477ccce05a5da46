// The storage plan and the arena, judged by running graphs in them: each node's reference reads its operands from where
// the plan says that they are and writes its result where the plan says. What the plan gets wrong shows in the numbers.
#include <doctest/doctest.h>

#include <random>

#include "plan/arena.h"
#include "plan/storage.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

struct Memory {
  const Graph& g;
  const StoragePlan& plan;
  std::vector<size_t> offsets;   // of arena roots
  std::vector<std::byte> arena;  // filled with a pattern: nothing may count on zeros
  std::vector<std::vector<std::byte>> others;

  Memory(const Graph& graph, const StoragePlan& p) : g(graph), plan(p), others(p.roots.size()) {
    std::vector<BufferLife> lives;
    for (const Root& root : plan.roots)
      lives.push_back(root.kind == RootKind::arena ? BufferLife{root.bytes, root.first, root.last} : BufferLife{});
    ArenaPlan packed = plan_arena(lives);
    offsets = packed.offsets;
    arena.assign(packed.bytes, std::byte{0xa5});
    for (size_t r = 0; r < plan.roots.size(); ++r)
      if (plan.roots[r].kind != RootKind::arena) others[r].assign(plan.roots[r].bytes, std::byte{0xa5});
  }
  std::byte* start(size_t root) {
    return plan.roots[root].kind == RootKind::arena ? arena.data() + offsets[root] : others[root].data();
  }
  std::byte* at(Ref r, const Axes& index) {
    const Place& place = plan.of(r);
    int64_t element = place.offset;
    for (size_t d = 0; d < index.size(); ++d) element += index[d] * place.strides[d];
    size_t size = byte_size(g.type(r).dtype);
    REQUIRE(element >= 0);
    REQUIRE((static_cast<size_t>(element) + 1) * size <= plan.roots[place.root].bytes);
    return start(place.root) + static_cast<size_t>(element) * size;
  }
  Tensor read(Ref r) {
    Tensor t = Tensor::uninitialized(g.type(r).dtype, shape_of(g.type(r).dims));
    size_t size = byte_size(t.dtype()), i = 0;
    std::byte* to = t.mutable_data();
    for_each_index(t.shape(), [&](const Axes& index) { std::memcpy(to + size * i++, at(r, index), size); });
    return t;
  }
  void write(Ref r, const Tensor& t) {
    size_t size = byte_size(t.dtype()), i = 0;
    for_each_index(t.shape(), [&](const Axes& index) { std::memcpy(at(r, index), t.data() + size * i++, size); });
  }
};

std::vector<Tensor> run_planned(const Graph& g, const StoragePlan& plan, const StorageRules& rules, Tensors inputs) {
  Memory memory(g, plan);
  size_t next_input = 0;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (node.op == &op::input) {
      memory.write({static_cast<int32_t>(n), 0}, inputs[next_input++]);
      continue;
    }
    if (!plan.places[n].empty() && plan.places[n][0].is_view) continue;
    std::vector<Tensor> operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      Ref r = node.operands[i];
      Shape shape = shape_of(g.type(r).dims);
      CHECK((is_dense(shape, plan.of(r).strides) || rules.reads_strided(node, i, shape, plan.of(r).strides)));
      operands.push_back(memory.read(r));
    }
    auto results = run_op(*node.op, node.attrs, operands);
    for (size_t r = 0; r < results.size(); ++r)
      memory.write({static_cast<int32_t>(n), static_cast<int32_t>(r)}, results[r]);
  }
  std::vector<Tensor> outputs;
  for (const Output& o : g.outputs()) outputs.push_back(memory.read(o.ref));
  return outputs;
}

/// A target whose element-wise ops read any strides and may write over any operand.
const StorageRules kElementwise{
    [](const Node& node, size_t, const Shape&, std::span<const int64_t>) { return node.op->elementwise; },
    [](const Node& node, size_t) {
      std::vector<size_t> all;
      for (size_t i = 0; node.op->elementwise && i < node.operands.size(); ++i) all.push_back(i);
      return all;
    },
};

std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed) {
  std::vector<Tensor> all;
  for (const Type& t : g.input_types()) all.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + all.size()));
  return all;
}

/// Values of [4, 6] and what views make of them, combined at random.
Graph random_graph(std::mt19937_64& bits) {
  Graph g;
  auto below = [&](size_t n) { return bits() % n; };
  std::vector<Value> full = {g.input("a", f64, {4, 6}), g.input("b", f64, {4, 6})};
  full.push_back(g.constant(random_tensor(f64, {4, 6}, bits())));
  size_t count = 3 + below(12);
  for (size_t i = 0; i < count; ++i) {
    Value x = full[below(full.size())], y = full[below(full.size())];
    switch (below(10)) {
      case 0: full.push_back(x + y); break;
      case 1: full.push_back(x * x); break;
      case 2: full.push_back(neg(x)); break;
      case 3: full.push_back(transpose(neg(transpose(x, {1, 0})), {1, 0})); break;
      case 4: full.push_back(reshape(tanh(reshape(x, {2, 12})), {4, 6})); break;
      case 5: full.push_back(y * slice(concatenate({x, y}, 0), {2, 0}, {6, 6})); break;
      case 6: full.push_back(x - broadcast_in_dim(slice(y, {1, 0}, {2, 6}), {4, 6}, {0, 1})); break;
      case 7: full.push_back(slice(concatenate({y, x, y}, 1), {0, 3}, {4, 15}, {1, 2})); break;
      case 8: full.push_back(optimization_barrier({x})[0] + y); break;
      default: full.push_back(maximum(transpose(reshape(x, {6, 4}), {1, 0}), y)); break;
    }
  }
  size_t outputs = 1 + below(3);
  for (size_t o = 0; o < outputs; ++o) g.output(full[full.size() - 1 - below(std::min<size_t>(full.size(), 4))]);
  return g;
}

}  // namespace

TEST_CASE("graphs run in their storage plan give the numbers that they give with a tensor for each value") {
  uint64_t seed = std::strtoull(std::getenv("RLX_TEST_SEED"), nullptr, 10);
  size_t in_place = 0, views = 0, values = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    std::mt19937_64 bits(seed + i);
    Graph g = random_graph(bits);
    auto inputs = random_inputs(g, seed);
    for (bool donated : {false, true}) {
      StoragePlan plan = plan_storage(g, kElementwise, {donated, donated});
      std::string why = difference(run_planned(g, plan, kElementwise, inputs), interpret(g, inputs), 0);
      CHECK_MESSAGE(why.empty(), "graph ", i, donated ? " with its inputs donated: " : ": ", why);
      in_place += plan.in_place;
      for (const auto& places : plan.places)
        for (const Place& place : places) views += place.is_view, ++values;
    }
  }
  MESSAGE(values, " values: ", in_place, " in place, ", views, " views");
  CHECK(in_place > values / 20);
  CHECK(views > values / 10);
}

TEST_CASE("a plan that overwrites a live operand is shown to be caught (a test of the tests)") {
  // %1 = exp(%0) is still needed when %2 = add(%1, %0) takes its place.
  std::vector<Type> types = {{f64, {3}}};
  Graph g = trace(types, [](Values in) {
    Value e = exp(in[0]);
    return neg((e + in[0]) * e);
  });
  StoragePlan plan = plan_storage(g, kElementwise);
  auto inputs = random_inputs(g, 1);
  CHECK(difference(run_planned(g, plan, kElementwise, inputs), interpret(g, inputs), 0).empty());
  CHECK(plan.of({2, 0}).root != plan.of({1, 0}).root);
  plan.places[2][0].root = plan.of({1, 0}).root;
  CHECK(!difference(run_planned(g, plan, kElementwise, inputs), interpret(g, inputs), 0).empty());
}

TEST_CASE("a buffer that is freed too early in the arena is shown to be caught (a test of the tests)") {
  std::vector<Type> types = {{f64, {40}}};
  Graph g = trace(types, [](Values in) {
    Value first = reverse(in[0], {0}), second = reverse(tanh(in[0]), {0});
    return neg(first + second);
  });
  StorageRules dense{[](const Node&, size_t, const Shape&, std::span<const int64_t>) { return false; },
                     [](const Node&, size_t) { return std::vector<size_t>(); }};
  StoragePlan plan = plan_storage(g, dense);
  auto inputs = random_inputs(g, 2);
  CHECK(difference(run_planned(g, plan, dense, inputs), interpret(g, inputs), 0).empty());
  plan.roots[plan.of({1, 0}).root].last = 1;
  CHECK(!difference(run_planned(g, plan, dense, inputs), interpret(g, inputs), 0).empty());
}

TEST_CASE("an input that is not donated is never overwritten, a donated one is where it is dead") {
  std::vector<Type> types = {{f64, {5}}};
  Graph g = trace(types, [](Values in) { return exp(neg(in[0])); });
  CHECK(plan_storage(g, kElementwise, {false}).of({1, 0}).root != 0);
  CHECK(plan_storage(g, kElementwise, {true}).of({1, 0}).root == 0);
  Graph twice = trace(types, [](Values in) { return neg(in[0]) * in[0]; });
  CHECK(plan_storage(twice, kElementwise, {true}).of({1, 0}).root != 0);  // it is read again behind
}

TEST_CASE("buffers whose lives overlap do not overlap in the arena, and others share it") {
  std::mt19937_64 bits(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<BufferLife> lives;
    for (size_t i = 0, n = 1 + bits() % 30; i < n; ++i) {
      size_t first = bits() % 20;
      lives.push_back({bits() % 5 == 0 ? 0 : 1 + bits() % 5000, first, first + bits() % 8});
    }
    ArenaPlan plan = plan_arena(lives);
    size_t most_alive = 0, most_places = 0, total = 0;
    for (size_t step = 0; step < 30; ++step) {
      size_t alive = 0, places = 0;
      for (const BufferLife& b : lives)
        if (b.first <= step && step <= b.last) alive += b.bytes, places += (b.bytes + 63) / 64 * 64;
      most_alive = std::max(most_alive, alive), most_places = std::max(most_places, places);
    }
    CHECK(largest_live_bytes(lives) == most_places);
    CHECK(largest_live_bytes(lives) <= plan.bytes);
    for (size_t i = 0; i < lives.size(); ++i) {
      total += (lives[i].bytes + 63) / 64 * 64;
      CHECK(plan.offsets[i] % 64 == 0);
      CHECK(plan.offsets[i] + lives[i].bytes <= plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                     plan.offsets[j] + lives[j].bytes <= plan.offsets[i] || !lives[i].bytes || !lives[j].bytes;
        CHECK((!together || apart));
      }
    }
    CHECK(plan.bytes >= most_alive);
    CHECK(plan.bytes <= total);
  }
}

TEST_CASE("where the largest buffers first leave a gap, another order does without it") {
  // The largest would stand at 0 in steps 2 and 3, and the first one above it from step 0 to 4: 576 bytes.
  const BufferLife lives[] = {{192, 0, 4}, {192, 4, 4}, {128, 4, 5}, {256, 2, 3}};
  CHECK(plan_arena(lives).bytes == 512);
  CHECK(largest_live_bytes(lives) == 512);
}

TEST_CASE("buffers that are too large together are out of memory, not a small sum") {
  std::vector<BufferLife> lives(17, {size_t{1} << 60, 0, 1});  // 2^64 + 2^60 bytes
  Error error = test::error_of([&] { plan_arena(lives); });
  CHECK(error.code() == ErrorCode::out_of_memory);
}

TEST_CASE("what has no elements is dense, so a chain over it is not copied") {
  for (const Shape& shape : {Shape{2, 0, 3}, Shape{0}, Shape{3, 0}, Shape{2, 1, 3}, Shape{}})
    CHECK(is_dense(shape, dense_strides(shape)));
  CHECK_FALSE(is_dense({2, 3}, std::vector<int64_t>{1, 2}));
}
