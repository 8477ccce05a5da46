// See the header.
#include "tools/train/session.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/name_pattern.h"

namespace rlx::tools {
namespace {

constexpr uint32_t kKeys = 17;  // the stream of keys for dropout

// An attribute of a rule, if it has one of that name.
template <class A>
double* beta1_of(A& a) {
  if constexpr (requires { a.beta1; }) return &a.beta1;
  else return nullptr;
}
template <class A>
double* beta2_of(A& a) {
  if constexpr (requires { a.beta2; }) return &a.beta2;
  else return nullptr;
}
template <class A>
double* epsilon_of(A& a) {
  if constexpr (requires { a.epsilon; }) return &a.epsilon;
  else return nullptr;
}

Optimizer optimizer_of(const TrainSettings& s) {
  Optimizer o = Optimizer::named(s.optimizer);
  if (auto* sgd = std::get_if<SgdAttrs>(&o.rule)) sgd->momentum = s.momentum;
  if (auto* rmsprop = std::get_if<RmspropAttrs>(&o.rule)) rmsprop->momentum = s.momentum;
  if (auto* muon = std::get_if<MuonAttrs>(&o.rule); muon && s.momentum > 0) muon->momentum = s.momentum;
  if (s.nesterov) {
    auto* sgd = std::get_if<SgdAttrs>(&o.rule);
    if (!sgd) fail(ErrorCode::invalid_argument, "nesterov is a way of sgd, not of '", s.optimizer, "'");
    sgd->nesterov = true;
  }
  std::visit(
      [&](auto& attrs) {
        for (auto [key, value, to] : {std::tuple{"beta1", s.beta1, beta1_of(attrs)},
                                      {"beta2", s.beta2, beta2_of(attrs)},
                                      {"epsilon", s.epsilon, epsilon_of(attrs)}}) {
          if (value == TrainSettings::kOwn) continue;
          if (!to) fail(ErrorCode::invalid_argument, "the optimizer '", s.optimizer, "' has no ", key);
          *to = value;
        }
      },
      o.rule);
  return o;
}

/// "NAME=X" of lr_scale: patterns and factors. Fails for what is none, or names no param.
std::vector<std::pair<std::string, double>> lr_scales(const TrainSettings& s, const Graph& loss) {
  std::vector<std::pair<std::string, double>> scales;
  for (const std::string& text : s.lr_scale) {
    size_t equals = text.rfind('=');
    std::string name = text.substr(0, equals);
    double scale = -1;
    if (equals != std::string::npos) {
      const char *begin = text.data() + equals + 1, *end = text.data() + text.size();
      if (auto [stop, error] = std::from_chars(begin, end, scale); error != std::errc() || stop != end) scale = -1;
    }
    if (name.empty() || !(scale >= 0 && std::isfinite(scale)))
      fail(ErrorCode::invalid_argument, "lr_scale is '", text, "'; it is NAME=X, X finite and not below 0");
    if (std::none_of(loss.params().begin(), loss.params().end(),
                     [&](Ref r) { return matches_name(name, loss.node(r).name); }))
      fail(ErrorCode::not_found, "lr_scale names the param '", name, "', which the model has not");
    scales.emplace_back(name, scale);
  }
  return scales;
}

LearningRate rate_of(const TrainSettings& s, int64_t steps) {
  if (steps == 0) return s.learning_rate;  // nothing is trained, so nothing falls
  LearningRate::Options options{.warmup = s.warmup, .last = s.last};
  if (s.schedule == "linear") return LearningRate::linear(s.learning_rate, steps, options);
  if (s.schedule == "cosine") return LearningRate::cosine(s.learning_rate, steps, options);
  if (s.schedule == "one_cycle") return LearningRate::one_cycle(s.learning_rate, steps);
  if (s.schedule != "constant")
    fail(ErrorCode::not_found, "there is no schedule '", s.schedule,
         "'; there are constant, linear, cosine, one_cycle");
  return LearningRate::constant(s.learning_rate, s.warmup);
}

PrecisionPolicy precision_of(const TrainSettings& s) {
  if (s.precision == "f32") return {};
  if (s.precision == "f16") return PrecisionPolicy::auto_mixed(f16);
  if (s.precision == "bf16") return PrecisionPolicy::auto_mixed(bf16);
  fail(ErrorCode::not_found, "there is no precision '", s.precision, "'; there are f32, f16, bf16");
}

}  // namespace

TrainConfig train_config(const TrainSettings& s, const TrainModel& model, int64_t steps) {
  TrainConfig config;
  config.written = model.written, config.groups = model.groups;
  config.optimizer = optimizer_of(s);
  config.learning_rate = rate_of(s, steps);
  config.clip_norm = s.clip_norm, config.clip_value = s.clip_value, config.ema = s.ema;
  config.allow_unused = s.allow_unused;
  config.fused = s.accumulate == 1;
  config.precision = precision_of(s), config.checkpoints = s.checkpoints, config.seed = static_cast<uint64_t>(s.seed);
  config.trained = s.trained;
  if (!s.freeze.empty()) config.groups.push_back({s.freeze, 1, {}, true});
  // A group for each param: by its rate, and by its rank, for biases and the factors of norms are not pulled towards 0.
  auto scales = lr_scales(s, model.loss);
  for (Ref r : model.loss.params()) {
    const Node& param = model.loss.node(r);
    ParamGroup group{{param.name}};
    for (const auto& [pattern, scale] : scales)
      if (matches_name(pattern, param.name)) {
        group.lr_scale = scale;
        break;
      }
    if (param.types[0].rank() < 2) group.weight_decay = 0;
    else if (s.weight_decay != TrainSettings::kOwn) group.weight_decay = s.weight_decay;
    if (group.lr_scale != 1 || group.weight_decay) config.groups.push_back(std::move(group));
  }
  return config;
}

std::vector<NamedTensor> inputs_of(const Graph& loss, std::vector<NamedTensor> batch, int64_t seed, int64_t step) {
  for (Ref r : loss.inputs()) {
    const Node& input = loss.node(r);
    bool given = std::any_of(batch.begin(), batch.end(), [&](const NamedTensor& t) { return t.first == input.name; });
    if (given || input.name != "key" || input.types[0] != Type{u32, {2}}) continue;
    RandomStream random(static_cast<uint64_t>(seed), kKeys, static_cast<uint32_t>(step));
    uint32_t first = random.next();
    batch.emplace_back("key", Tensor::of<uint32_t>({2}, {first, random.next()}));
  }
  return batch;
}

LoaderOptions loader_options(const TrainModel& model, const TrainSettings& s) {
  LoaderOptions options{.batch_size = s.batch_size, .seed = static_cast<uint64_t>(s.seed)};
  // A graph whose batch is a number takes batches of that size alone.
  for (Ref r : model.loss.inputs()) {
    const Dims& dims = model.loss.node(r).types[0].dims;
    if (!dims.empty() && dims[0].is_static() && model.loss.node(r).name != "key")
      options.batch_size = dims[0].value(), options.drop_last = true;
  }
  if (s.shift > 0) {
    if (model.images.empty())
      fail(ErrorCode::invalid_argument, "shift moves images, of which the model '", s.model, "' has none");
    options.transforms.push_back(random_shifts(model.images, s.shift));
  }
  return options;
}

Loader test_loader(const TrainModel& model, const TrainSettings& s) {
  LoaderOptions options = loader_options(model, s);
  options.shuffle = false, options.transforms.clear();
  if (!options.drop_last) options.batch_size = std::max<int64_t>(options.batch_size, 100);
  return Loader(model.data.test ? model.data.test : model.data.train, options);
}

}  // namespace rlx::tools
