// See the header.
#include "tools/train_session.h"

namespace rlx::tools {
namespace {

constexpr uint32_t kKeys = 17;  // the stream of keys for dropout

Optimizer optimizer_of(const TrainSettings& s) {
  Optimizer o = Optimizer::named(s.optimizer);
  if (auto* sgd = std::get_if<SgdAttrs>(&o.rule)) sgd->momentum = s.momentum;
  if (auto* rmsprop = std::get_if<RmspropAttrs>(&o.rule)) rmsprop->momentum = s.momentum;
  if (auto* muon = std::get_if<MuonAttrs>(&o.rule); muon && s.momentum > 0) muon->momentum = s.momentum;
  return o;
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
  if (!s.freeze.empty()) config.groups.push_back({s.freeze, 1, {}, true});
  // Biases and the factors of norms are not pulled towards 0.
  ParamGroup vectors;
  vectors.weight_decay = 0;
  for (Ref r : model.loss.params())
    if (model.loss.node(r).types[0].rank() < 2) vectors.params.push_back(model.loss.node(r).name);
  if (!vectors.params.empty()) config.groups.push_back(std::move(vectors));
  if (s.weight_decay != TrainSettings::kOwn) config.groups.push_back({{"*"}, 1, s.weight_decay});
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
