// Rules for params, and learning rates; see rlx/train.h.
#include <cmath>
#include <numbers>

#include "rlx/train.h"

namespace rlx {

Optimizer Optimizer::named(std::string_view name) {
  const std::pair<std::string_view, Optimizer> kAll[] = {
      {"sgd", sgd()},         {"adam", adam()},           {"adamw", adamw()}, {"adagrad", adagrad()},
      {"rmsprop", rmsprop()}, {"adafactor", adafactor()}, {"lamb", lamb()},   {"lion", lion()},
      {"muon", muon()},       {"sophia", sophia()},
  };
  std::string names;
  for (const auto& [known, optimizer] : kAll) {
    if (known == name) return optimizer;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  fail(ErrorCode::not_found, "there is no optimizer '", name, "'; there are ", names);
}

const OptimizerRule& Optimizer::rule_for(const Type& param) const {
  return for_vectors && param.rank() < 2 ? *for_vectors : rule;
}

namespace {

LearningRate falling(LearningRate::Shape shape, double peak, int64_t steps, LearningRate::Options options) {
  if (steps < 1) fail(ErrorCode::invalid_argument, "a learning rate falls over at least 1 step, got ", steps);
  if (options.warmup < 0 || options.warmup >= steps)
    fail(ErrorCode::invalid_argument, "the warm-up is ", options.warmup, " steps of ", steps, "; it goes from 0 to ",
         steps - 1);
  LearningRate rate(peak);
  rate.shape = shape, rate.steps = steps, rate.options = options;
  return rate;
}
/// From `begin` to `end` along half a cosine; `part` from 0 to 1.
double along_cosine(double begin, double end, double part) {
  return end + (begin - end) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

LearningRate LearningRate::constant(double peak, int64_t warmup) {
  if (warmup < 0) fail(ErrorCode::invalid_argument, "the warm-up is ", warmup, " steps; it counts from 0");
  LearningRate rate(peak);
  rate.options.warmup = warmup;
  return rate;
}
LearningRate LearningRate::linear(double peak, int64_t steps, Options options) {
  return falling(Shape::linear, peak, steps, options);
}
LearningRate LearningRate::cosine(double peak, int64_t steps, Options options) {
  return falling(Shape::cosine, peak, steps, options);
}
LearningRate LearningRate::one_cycle(double peak, int64_t steps) {
  return falling(Shape::one_cycle, peak, steps, Options{});
}

double LearningRate::at(int64_t step) const {
  auto now = static_cast<double>(std::clamp<int64_t>(step - 1, 0, std::max<int64_t>(steps, 0)));
  auto all = static_cast<double>(steps), rising = static_cast<double>(options.warmup);
  switch (shape) {
    case Shape::constant: {
      auto risen = static_cast<double>(std::max<int64_t>(step - 1, 0));
      return risen < rising ? peak * risen / rising : peak;
    }
    case Shape::linear:
    case Shape::cosine: {
      if (now < rising) return peak * now / rising;
      double part = (now - rising) / (all - rising), last = peak * options.last;
      return shape == Shape::linear ? peak + (last - peak) * part : along_cosine(peak, last, part);
    }
    case Shape::one_cycle: {
      double top = std::floor(0.3 * all), first = peak / 25;
      if (now < top) return along_cosine(first, peak, now / top);
      return along_cosine(peak, first / 1e4, (now - top) / (all - top));
    }
  }
  return peak;
}

}  // namespace rlx
