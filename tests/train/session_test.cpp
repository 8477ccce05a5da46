// Training sessions on problems whose answer is known.
#include <doctest/doctest.h>

#include <cmath>

#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

TrainConfig with(Optimizer optimizer, double lr) {
  TrainConfig config;
  config.optimizer = std::move(optimizer), config.learning_rate = lr;
  return config;
}
/// The loss of the first step and of the last of `more` further ones; each is finite.
std::pair<double, double> train(TrainingSession& session, const LinearRegression& problem, int more) {
  double first = session.step(problem.batch()).loss, last = first;
  for (int i = 0; i < more; ++i) {
    last = session.step(problem.batch()).loss;
    REQUIRE(std::isfinite(last));
  }
  return {first, last};
}
double weight(const TrainingSession& session, size_t i) { return load_number(session.param("w"), i); }

}  // namespace

TEST_CASE("gradient descent solves a linear regression") {
  LinearRegression problem;
  for (bool fused : {true, false}) {
    TrainConfig config = with(Optimizer::sgd(), 0.2);
    config.fused = fused;
    TrainingSession session(LinearRegression::loss(), problem.initial(0), config);
    CHECK(session.fused_active() == fused);
    auto [first, last] = train(session, problem, 60);
    CHECK(last < 1e-2 * first);
    CHECK(last < 1e-3);
    for (size_t i = 0; i < 3; ++i) CHECK(std::abs(weight(session, i) - LinearRegression::kSolution[i]) < 5e-2);
    CHECK(session.steps() == 61);
    CHECK(session.update_path() == (fused ? UpdatePath::fused : UpdatePath::gradient));
  }
}

TEST_CASE("every optimizer lowers the loss as far as it is known to") {
  LinearRegression problem;
  struct Case {
    Optimizer optimizer;
    double lr;
    int steps;
    double part;       // of the first loss
    double start = 0;  // of the weights
  };
  const Case cases[] = {{Optimizer::adamw(), 0.1, 200, 0.02},
                        {Optimizer::lion(), 0.02, 200, 0.5},
                        {Optimizer::muon(), 0.02, 50, 1},
                        {Optimizer::sophia(), 0.05, 50, 1},
                        {Optimizer::adam(), 0.1, 200, 0.02},
                        {Optimizer::adagrad(), 0.5, 200, 0.02},
                        {Optimizer::rmsprop(), 0.02, 200, 0.02},
                        {Optimizer::lamb(), 0.1, 200, 0.5, 0.1},
                        {Optimizer::adafactor(), 0.5, 200, 0.5, 0.1}};
  for (const Case& c : cases) {
    TrainingSession session(LinearRegression::loss(), problem.initial(c.start), with(c.optimizer, c.lr));
    double first = session.step(problem.batch()).loss, last = 0;
    for (int i = 0; i < c.steps; ++i) last = session.step(problem.batch()).loss;
    CHECK_MESSAGE(last < c.part * first, op_of(c.optimizer.rule).name, ": ", first, " to ", last);
  }
}

TEST_CASE("one graph and two give the same weights, whatever the optimizer") {
  LinearRegression problem;
  for (const Optimizer& optimizer :
       {Optimizer::sgd({.momentum = 0.9}), Optimizer::sgd({.momentum = 0.9, .nesterov = true}), Optimizer::adam(),
        Optimizer::adamw(), Optimizer::adagrad(), Optimizer::rmsprop({.momentum = 0.5, .centered = true}),
        Optimizer::rmsprop(), Optimizer::adafactor(), Optimizer::lamb(), Optimizer::lion(), Optimizer::muon(),
        Optimizer::sophia({}, {.every = 3})}) {
    TrainConfig config = with(optimizer, 0.05);
    config.clip_norm = 1, config.ema = 0.9;
    TrainingSession one(LinearRegression::loss(), problem.initial(0.05), config);
    config.fused = false;
    TrainingSession two(LinearRegression::loss(), problem.initial(0.05), config);
    auto [first, last] = train(one, problem, 40);
    train(two, problem, 40);
    for (size_t i = 0; i < 3; ++i)
      CHECK_MESSAGE(std::abs(weight(one, i) - weight(two, i)) <= 1e-6, op_of(optimizer.rule).name);
    CHECK_MESSAGE(last < first, op_of(optimizer.rule).name);
  }
}

TEST_CASE("velocity steps in one graph as on the host, and takes the loss down") {
  LinearRegression problem;
  TrainConfig config = with(Optimizer::sgd({.momentum = 0.9}), 0.05);
  TrainingSession fused(LinearRegression::loss(), problem.initial(0.05), config);
  config.fused = false;
  TrainingSession host(LinearRegression::loss(), problem.initial(0.05), config);
  CHECK(fused.fused_active());
  CHECK_FALSE(host.fused_active());
  double first = 0, last = 0;
  for (int i = 0; i <= 40; ++i) {
    last = fused.step(problem.batch()).loss;
    if (i == 0) first = last;
    CHECK(host.step(problem.batch()).loss == doctest::Approx(last).epsilon(1e-5));
    for (size_t k = 0; k < 3; ++k) CHECK(std::abs(weight(fused, k) - weight(host, k)) <= 1e-6);
  }
  CHECK(last < 0.1 * first);
}

TEST_CASE("a session goes over from one graph to two and back, and the numbers stay") {
  LinearRegression problem;
  for (const Optimizer& optimizer : {Optimizer::sgd({.momentum = 0.9}), Optimizer::adamw(), Optimizer::muon()}) {
    TrainingSession plain(LinearRegression::loss(), problem.initial(0.05), with(optimizer, 0.05));
    TrainingSession turned(LinearRegression::loss(), problem.initial(0.05), with(optimizer, 0.05));
    train(plain, problem, 29);
    train(turned, problem, 9);
    CHECK_FALSE(turned.with_fused_optimizer(false).fused_active());
    CHECK(turned.step(problem.batch()).path == UpdatePath::gradient);
    train(turned, problem, 8);
    CHECK(turned.with_fused_optimizer().update_path() == UpdatePath::fused);
    train(turned, problem, 9);
    CHECK(turned.steps() == 30);
    for (size_t i = 0; i < 3; ++i) CHECK(std::abs(weight(plain, i) - weight(turned, i)) <= 1e-6);
  }
}

TEST_CASE("scaled channels, a pool and a linear layer learn two classes") {
  // Scaled channels, relu, 2x2 max-pool, a linear layer, summed cross entropy.
  Graph g("small_cnn");
  Value x = g.input("x", f32, {8, 2, 4, 4}), t = g.input("t", i32, {8});
  Value scale = g.param("S", f32, {1, 2, 1, 1}), w = g.param("W", f32, {8, 2});
  Value pooled = pool(relu(x * broadcast_to(scale, {8, 2, 4, 4})), {.kernel_size = {2, 2}, .stride = {2, 2}});
  g.output(reduce_sum(softmax_cross_entropy_with_logits(matmul(reshape(pooled, {8, 8}), w), t), {0}), "loss");
  Tensor images(f32, {8, 2, 4, 4}), labels(i32, {8}), ones(f32, {1, 2, 1, 1}), weights(f32, {8, 2});
  for (int64_t n = 0; n < 8; ++n) {
    store<int64_t>(labels, size_t(n), n % 2);
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t p = 0; p < 16; ++p)
        store<double>(images, size_t((n * 2 + c) * 16 + p), (c == n % 2 ? 1 : 0.1) * (1 + 0.05 * double(p)));
  }
  for (size_t i = 0; i < 2; ++i) store<double>(ones, i, 1);
  for (size_t i = 0; i < 16; ++i) store<double>(weights, i, 0.01);
  for (bool fused : {true, false}) {
    TrainConfig config = with(Optimizer::adam(), 0.05);
    config.fused = fused;
    TrainingSession session(g, {{"S", ones}, {"W", weights}}, config);
    double first = session.step({{"x", images}, {"t", labels}}).loss, last = first;
    CHECK(first == doctest::Approx(8 * std::log(2.0)));
    for (int i = 0; i < 40; ++i) {
      StepResult r = session.step({{"x", images}, {"t", labels}});
      REQUIRE(std::isfinite(last = r.loss));
      CHECK(r.path == (fused ? UpdatePath::fused : UpdatePath::gradient));
    }
    CHECK(last < 0.5 * first);
  }
}

TEST_CASE("gradients of equal batches that wait make one plain step") {
  LinearRegression problem;
  TrainingSession plain(LinearRegression::loss(), problem.initial(0.1), with(Optimizer::adam(), 0.1));
  TrainingSession waiting(LinearRegression::loss(), problem.initial(0.1), with(Optimizer::adam(), 0.1));
  plain.step(problem.batch());
  for (int i = 0; i < 3; ++i) waiting.accumulate(problem.batch());
  CHECK(waiting.pending_accumulation() == 3);
  CHECK_THROWS_WITH_AS(waiting.step(problem.batch()), doctest::Contains("the gradients of 3 batches wait"), Error);
  CHECK(waiting.steps() == 0);
  CHECK(waiting.step_accumulated() == 3);
  CHECK(waiting.pending_accumulation() == 0);
  for (size_t i = 0; i < 3; ++i) CHECK(std::abs(weight(plain, i) - weight(waiting, i)) < 1e-4);
  CHECK_THROWS_WITH_AS(waiting.step_accumulated(), doctest::Contains("call accumulate() first"), Error);
}

TEST_CASE("gradients that wait can be looked at, and stay as they were when more come") {
  // Of the sum of (x w - t)^2: 2 sum of x (x w - t), batch by batch.
  LinearRegression problem;
  TrainingSession session(LinearRegression::loss(), problem.initial(0.1), with(Optimizer::adam(), 0.1));
  CHECK(session.pending_gradients().empty());
  session.accumulate(problem.batch());
  const NamedTensors once = session.pending_gradients();
  session.accumulate(problem.batch());
  const NamedTensors twice = session.pending_gradients();
  REQUIRE(once.size() == 1);
  const auto& [name, gradient] = *once.begin();
  for (size_t d = 0; d < 3; ++d) {
    double wanted = 0;
    for (size_t n = 0; n < 8; ++n) {
      double error = -load_number(problem.t, n);
      for (size_t k = 0; k < 3; ++k) error += 0.1 * load_number(problem.x, 3 * n + k);
      wanted += 2 * load_number(problem.x, 3 * n + d) * error;
    }
    CHECK(load_number(gradient, d) == doctest::Approx(wanted).epsilon(1e-5));
    CHECK(load_number(twice.at(name), d) == doctest::Approx(2 * wanted).epsilon(1e-5));
  }
  session.step_accumulated();
  CHECK(session.pending_gradients().empty());
}

TEST_CASE("different batches that wait are averaged") {
  // The gradient of x w - t summed over a batch is linear in what is summed: two halves average to half of the whole.
  LinearRegression problem;
  LinearRegression other = problem;
  for (size_t i = 0; i < 24; ++i) store<double>(other.x, i, 2 * load_number(problem.x, i));
  auto gradient = [&](const LinearRegression& p) {
    TrainingSession s(LinearRegression::loss(), problem.initial(0.1), with(Optimizer::sgd(), 1));
    s.step(p.batch());
    return 0.1 - weight(s, 1);
  };
  TrainingSession waiting(LinearRegression::loss(), problem.initial(0.1), with(Optimizer::sgd(), 1));
  waiting.accumulate(problem.batch());
  waiting.accumulate(other.batch());
  waiting.step_accumulated();
  CHECK(0.1 - weight(waiting, 1) == doctest::Approx((gradient(problem) + gradient(other)) / 2).epsilon(1e-5));
}

TEST_CASE("gradients are clipped as they were asked to be, and their norm is told as it was") {
  LinearRegression problem;
  TrainConfig config = with(Optimizer::sgd(), 1);
  auto change = [&](const TrainConfig& c) {
    TrainingSession s(LinearRegression::loss(), problem.initial(0), c);
    StepResult r = s.step(problem.batch());
    std::vector<double> w;
    for (size_t i = 0; i < 3; ++i) w.push_back(weight(s, i));
    w.push_back(r.grad_norm);
    return w;
  };
  auto plain = change(config);
  double norm = std::hypot(plain[0], plain[1], plain[2]);
  CHECK(plain[3] == doctest::Approx(norm).epsilon(1e-6));
  config.clip_norm = norm / 4;
  auto scaled = change(config);
  for (size_t i = 0; i < 3; ++i) CHECK(scaled[i] == doctest::Approx(plain[i] / 4).epsilon(1e-5));
  CHECK(scaled[3] == doctest::Approx(norm).epsilon(1e-6));
  config.clip_norm = 0, config.clip_value = 0.5;
  auto clamped = change(config);
  for (size_t i = 0; i < 3; ++i) CHECK(clamped[i] == doctest::Approx(std::clamp(plain[i], -0.5, 0.5)));
}

TEST_CASE("a moving mean of the params is kept beside them") {
  LinearRegression problem;
  TrainConfig config = with(Optimizer::sgd(), 0.1);
  config.ema = 0.75;
  TrainingSession session(LinearRegression::loss(), problem.initial(1), config);
  double mean = 1;
  for (int i = 0; i < 5; ++i) {
    session.step(problem.batch());
    mean = 0.75 * mean + 0.25 * weight(session, 0);
  }
  CHECK(load_number(session.averaged_params().at("w"), 0) == doctest::Approx(mean).epsilon(1e-6));
  double now = load_number(session.evaluate(problem.batch())[0], 0);
  CHECK(load_number(session.evaluate(problem.batch(), true)[0], 0) > now);
}

TEST_CASE("groups freeze params and step them in ways of their own") {
  Graph g("two");
  Value x = g.input("x", f32, {2}), a = g.param("a/w", f32, {2}), b = g.param("b/w", f32, {2});
  g.output(reduce_sum(square(x * a) + square(x * b), {0}), "loss");
  NamedTensors initial = {{"a/w", Tensor::of<float>({2}, {1, 2})}, {"b/w", Tensor::of<float>({2}, {1, 2})}};
  std::vector<NamedTensor> batch = {{"x", Tensor::of<float>({2}, {1, 1})}};
  TrainConfig config = with(Optimizer::sgd(), 0.1);
  config.groups = {{.params = {"a/*"}, .lr_scale = 2, .weight_decay = 1}};
  TrainingSession session(g, initial, config);
  session.step(batch);
  // a: the gradient 2 w + 1 w at twice the rate; b: 2 w at the rate.
  CHECK(load_number(session.param("a/w"), 1) == doctest::Approx(2 - 0.2 * (2 * 2 + 2)));
  CHECK(load_number(session.param("b/w"), 1) == doctest::Approx(2 - 0.1 * 2 * 2));
  config.groups = {{.params = {"a/w"}, .frozen = true}};
  TrainingSession frozen(g, initial, config);
  frozen.step(batch);
  CHECK(load_number(frozen.param("a/w"), 1) == 2);
  CHECK(load_number(frozen.param("b/w"), 1) != 2);
}

TEST_CASE("a list of trained params leaves all others as they are, and says which of its names it cannot train") {
  Graph g("listed");
  Value x = g.input("x", f32, {2}), n = g.param("n", i32, {2});
  Value a = g.param("a/w", f32, {2}), b = g.param("a/b", f32, {2}), c = g.param("c", f32, {2});
  g.output(reduce_sum(square(x * a) + square(x * b) + square(x * c) + convert(n, f32), {0}), "loss");
  const Tensor ones = Tensor::of<float>({2}, {1, 1});
  const NamedTensors initial = {{"a/w", ones}, {"a/b", ones}, {"c", ones}, {"n", Tensor(i32, {2})}};
  auto moved = [&](TrainConfig config) {  // the names of the params that a step changes
    std::vector<std::string> names;
    TrainingSession session(g, initial, std::move(config));
    session.step({{"x", ones}});
    for (const auto& [name, value] : session.params())
      if (value != initial.at(name)) names.push_back(name);
    return names;
  };
  using Names = std::vector<std::string>;
  TrainConfig config = with(Optimizer::sgd(), 0.1);
  CHECK(moved(config) == Names{"a/b", "a/w", "c"});
  config.trained = {"c"};
  CHECK(moved(config) == Names{"c"});
  config.trained = {"a/*"};
  CHECK(moved(config) == Names{"a/b", "a/w"});
  config.groups = {{.params = {"a/w"}, .frozen = true}, {.params = {"a/b"}, .lr_scale = 0.5}};
  CHECK(moved(config) == Names{"a/b"});
  config.trained = {"*"};
  CHECK(moved(config) == Names{"a/b", "c"});

  auto refused = [&](const char* message) {
    CHECK_THROWS_WITH_AS(TrainingSession(g, initial, config), doctest::Contains(message), Error);
  };
  config.trained = {"c", "a/v"};
  refused("the trained params name the param 'a/v', which graph 'listed' has not; it has n, a/w, a/b, c");
  config.trained = {"c", "a/w"};
  refused("the param 'a/w' (f32[2]) is listed as trained, but a group freezes it; leave it out of the list");
  config.groups.clear(), config.trained = {"n"};
  refused("the param 'n' (i32[2]) is listed as trained, but optimizers step floats alone");
  config.trained = {"n*"};
  refused("has no param to train: 4 params, none of them a float that is listed as trained and that no group freezes");
  g.output(c, "new");
  config.trained = {"a/w", "c"}, config.written = {{"c", "new"}};
  refused("the param 'c' (f32[2]) is listed as trained, but `written` names it too");
}

TEST_CASE("a complex param is not silently left as it is") {
  // PyTorch and Optax step complex params as pairs of real ones; a session says that it does not.
  Graph g("complex");
  const Value w = g.param("w", c64, {3});
  g.output(reduce_sum(complex_norm_sq(w), {0}) + reduce_sum(g.param("b", f32, {3}), {0}), "loss");
  const NamedTensors initial = {{"w", Tensor(c64, {3})}, {"b", Tensor(f32, {3})}};
  CHECK_THROWS_WITH_AS(
      TrainingSession(g, initial),
      doctest::Contains("the param 'w' is c64[3]; optimizers step real numbers alone. Keep its real and "
                        "imaginary parts as two params, joined by `complex` in the graph, or freeze it"),
      Error);
  TrainConfig frozen;
  frozen.groups = {{.params = {"w"}, .frozen = true}};
  TrainingSession session(g, initial, frozen);
  session.step({});
  CHECK(session.params().at("w") == Tensor(c64, {3}));
}

TEST_CASE("what cannot be trained is said when the session is made") {
  LinearRegression problem;
  Graph g = LinearRegression::loss();
  TrainConfig config;
  CHECK_THROWS_WITH_AS(TrainingSession(g, {}, config), doctest::Contains("'w' (f32[3, 1]) has no initial value"),
                       Error);
  CHECK_THROWS_WITH_AS(TrainingSession(g, {{"w", Tensor(f64, {3, 1})}}, config),
                       doctest::Contains("the param 'w' is f32[3, 1], its initial value f64[3, 1]"), Error);
  auto more = problem.initial(0);
  more["v"] = Tensor(f32, {1});
  CHECK_THROWS_WITH_AS(TrainingSession(g, more, config), doctest::Contains("'v', which is no param"), Error);
  config.groups = {{.params = {"layer*"}}};
  CHECK_THROWS_WITH_AS(TrainingSession(g, problem.initial(0), config),
                       doctest::Contains("'layer*', which graph 'regression' has not; it has w"), Error);
  config.groups = {{.params = {"w"}, .frozen = true}};
  CHECK_THROWS_WITH_AS(TrainingSession(g, problem.initial(0), config), doctest::Contains("has no param to train"),
                       Error);
  config.groups.clear();
  Graph unused = g;
  unused.param("u", f32, {2});
  auto both = problem.initial(0);
  both["u"] = Tensor(f32, {2});
  CHECK_THROWS_WITH_AS(TrainingSession(unused, both, config),
                       doctest::Contains("does not depend on the param 'u' (f32[2]); freeze it"), Error);
  config.allow_unused = true;
  TrainingSession allowed(unused, both, config);
  allowed.step(problem.batch());
  CHECK(load_number(allowed.param("u"), 0) == 0);
}

TEST_CASE("a loss that is no number stops the session and names where it came from") {
  Graph g("logs");
  Value x = g.input("x", f32, {2}), w = g.param("w", f32, {2});
  g.output(reduce_sum(log(x * w), {0}), "loss");
  TrainConfig config = with(Optimizer::sgd(), 0.1);
  TrainingSession session(g, {{"w", Tensor::of<float>({2}, {1, 1})}}, config);
  CHECK_THROWS_WITH_AS(session.step({{"x", Tensor::of<float>({2}, {1, -1})}}),
                       doctest::Contains("is nan, element 1 of f32[2], made by node 3, 'log'"), Error);
  CHECK(session.steps() == 0);
  CHECK(load_number(session.param("w"), 0) == 1);
  CHECK(session.step({{"x", Tensor::of<float>({2}, {1, 1})}}).step == 1);
  CHECK_THROWS_WITH_AS(session.step({{"y", Tensor(f32, {2})}}), doctest::Contains("the batch has no 'x' (f32[2])"),
                       Error);
}

TEST_CASE("the node that is named is the one that the loss's NaN comes from") {
  // Scores are -inf where they are masked, and 0 / 0 is left out by a select: neither is to blame. One row is masked
  // altogether.
  Graph g("masked");
  Value x = g.input("x", f32, {2, 3}), keep = g.input("keep", boolean, {2, 3}), w = g.param("w", f32, {3});
  Value left_out = select(keep, x, x / (x - x));
  Value scores = select(keep, left_out * broadcast_to(w, {2, 3}), full_like(x, -INFINITY));
  g.output(reduce_sum(square(softmax(scores)), {0, 1}), "loss");
  Tensor masked(boolean, {2, 3});
  for (size_t i = 0; i < 6; ++i) store<int64_t>(masked, i, i != 1);
  std::vector<NamedTensor> batch = {{"x", Tensor::of<float>({2, 3}, {1, 2, 3, 1, 2, 3})}, {"keep", masked}};
  TrainingSession session(g, {{"w", Tensor::of<float>({3}, {1, 1, 1})}}, with(Optimizer::sgd(), 0.1));
  CHECK(std::isfinite(session.evaluate(batch)[0].values<float>()[0]));
  for (size_t i = 0; i < 3; ++i) store<int64_t>(batch[1].second, i, 0);
  CHECK_THROWS_WITH_AS(session.step(batch), doctest::Contains("'softmax', of operands with -inf, made by node"), Error);
  CHECK_THROWS_WITH_AS(session.step(batch), doctest::Contains("'constant'. Nothing"), Error);
  TrainingSession broken(LinearRegression::loss(), {{"w", Tensor::of<float>({3, 1}, {0, NAN, 0})}}, {});
  CHECK_THROWS_WITH_AS(broken.step(LinearRegression().batch()),
                       doctest::Contains("is nan, element 1 of f32[3, 1], in the param 'w'"), Error);
  LinearRegression data;
  store<double>(data.x, 4, INFINITY);
  TrainingSession fed(LinearRegression::loss(), data.initial(1), {});
  CHECK_THROWS_WITH_AS(fed.step(data.batch()), doctest::Contains("is inf, element 4 of f32[8, 3], in the input 'x'"),
                       Error);
}

TEST_CASE("a label that is no class is told with its place") {
  Graph g("classes");
  Value x = g.input("x", f32, {4, 2}), t = g.input("t", i64, {4}), w = g.param("w", f32, {2, 3});
  g.output(mean(softmax_cross_entropy_with_logits(matmul(x, w), t), {0}), "loss");
  Tensor labels = Tensor::of<int64_t>({4}, {0, 1, 3, 2});
  TrainingSession session(g, {{"w", Tensor(f32, {2, 3})}}, {});
  CHECK_THROWS_WITH_AS(session.step({{"x", Tensor(f32, {4, 2})}, {"t", labels}}),
                       doctest::Contains("label 2 is 3, and the classes of f32[4, 3] go from 0 to 2"), Error);
  Graph floats("floats");
  x = floats.input("x", f32, {4, 2}), t = floats.input("t", f32, {4}), w = floats.param("w", f32, {2, 3});
  floats.output(mean(softmax_cross_entropy_with_logits(matmul(x, w), t), {0}), "loss");
  TrainingSession of_floats(floats, {{"w", Tensor(f32, {2, 3})}}, {});
  CHECK_THROWS_WITH_AS(of_floats.step({{"x", Tensor(f32, {4, 2})}, {"t", Tensor::of<float>({4}, {0, 1, 2, 1.5f})}}),
                       doctest::Contains("label 3 is no whole number, and the classes of f32[4, 3] go from 0 to 2"),
                       Error);
}

TEST_CASE("outputs of a loss may be called as what a step tells, and a batch names each input once") {
  Graph g("told");
  Value x = g.input("x", f32, {2}), w = g.param("w", f32, {2});
  g.output(reduce_sum(square(w * x), {0}), "loss");
  for (const char* name : {"grad_norm", "ok", "w", "x"}) g.output(w, name);
  Tensor ones = Tensor::of<float>({2}, {1, 1});
  for (bool fused : {true, false}) {
    TrainConfig config = with(Optimizer::sgd(), 0.1);
    config.fused = fused;
    TrainingSession session(g, {{"w", ones}}, config);
    CHECK(session.step({{"x", ones}}).outputs.size() == 4);
    CHECK(session.step({{"x", ones}}).loss == doctest::Approx(2 * 0.64));
    CHECK_THROWS_WITH_AS(session.step({{"x", ones}, {"x", ones}}), doctest::Contains("the batch has 'x' twice"), Error);
  }
}

TEST_CASE("rates that would spoil the params are refused") {
  LinearRegression problem;
  auto refused = [&](const TrainConfig& config, const char* message) {
    CHECK_THROWS_WITH_AS(TrainingSession(LinearRegression::loss(), problem.initial(0), config),
                         doctest::Contains(message), Error);
  };
  for (double rate : {-0.1, double(NAN), double(INFINITY)}) {
    refused(with(Optimizer::sgd(), rate), "; it is finite and not below 0");
    TrainingSession session(LinearRegression::loss(), problem.initial(0), with(Optimizer::sgd(), 0.1));
    CHECK_THROWS_WITH_AS(session.set_learning_rate(rate), doctest::Contains("the learning rate is"), Error);
    TrainConfig config;
    config.groups = {{.params = {"w"}, .lr_scale = rate}};
    refused(config, "the group of 'w' steps at lr_scale = ");
  }
  for (double last : {-0.5, double(NAN), double(INFINITY)}) {
    TrainConfig config = with(Optimizer::sgd(), 0.1);
    config.learning_rate.options.last = last;
    refused(config, "the last learning rate is");
  }
  TrainConfig config;
  config.clip_norm = NAN;
  refused(config, "gradients are clipped at a number above 0");
}
