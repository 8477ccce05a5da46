// The C ABI of training sessions; see rlx/c.h. A config comes as text in the form of attributes.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::field;

// ---- the config as text ----
struct RateText {
  double peak = 1e-3;
  rlx::LearningRate::Shape shape = rlx::LearningRate::Shape::constant;
  int64_t steps = 0, warmup = 0;
  double last = 0;
  RLX_FIELDS(RateText, field("peak", &RateText::peak), field("shape", &RateText::shape),
             field("steps", &RateText::steps), field("warmup", &RateText::warmup), field("last", &RateText::last));

  rlx::LearningRate rate() const {
    using Rate = rlx::LearningRate;
    switch (shape) {
      case Rate::Shape::constant: return Rate::constant(peak, warmup);
      case Rate::Shape::linear: return Rate::linear(peak, steps, {.warmup = warmup, .last = last});
      case Rate::Shape::cosine: return Rate::cosine(peak, steps, {.warmup = warmup, .last = last});
      case Rate::Shape::one_cycle: return Rate::one_cycle(peak, steps);
    }
    return peak;
  }
};
struct ScaleText {
  double initial = 65536, growth = 2, backoff = 0.5;
  int64_t interval = 2000;
  RLX_FIELDS(ScaleText, field("initial", &ScaleText::initial), field("growth", &ScaleText::growth),
             field("backoff", &ScaleText::backoff), field("interval", &ScaleText::interval));
};
/// A part of the config that can be given by itself.
struct PrecisionText {
  rlx::DType precision = rlx::f32;
  ScaleText loss_scale;
  RLX_FIELDS(PrecisionText, field("precision", &PrecisionText::precision),
             field("loss_scale", &PrecisionText::loss_scale));
};
rlx::PrecisionPolicy policy_of(rlx::DType precision, const ScaleText& scale) {
  return {precision, scale.initial, scale.growth, scale.backoff, scale.interval};
}
struct WrittenText {
  std::string param, output;
  RLX_FIELDS(WrittenText, field("param", &WrittenText::param), field("output", &WrittenText::output));
};
struct GroupText {
  std::vector<std::string> params;
  double lr_scale = 1;
  std::optional<double> weight_decay;
  bool frozen = false;
  RLX_FIELDS(GroupText, field("params", &GroupText::params), field("lr_scale", &GroupText::lr_scale),
             field("weight_decay", &GroupText::weight_decay), field("frozen", &GroupText::frozen));
};
struct HessianText {
  rlx::HessianEstimate::Kind kind = rlx::HessianEstimate::Kind::hutchinson;
  int64_t every = 10;
  double beta2 = 0.99;
  std::string logits;
  rlx::RngAlgorithm algorithm = rlx::RngAlgorithm::philox;
  RLX_FIELDS(HessianText, field("kind", &HessianText::kind), field("every", &HessianText::every),
             field("beta2", &HessianText::beta2), field("logits", &HessianText::logits),
             field("algorithm", &HessianText::algorithm));
};
struct TrainText {
  std::string optimizer = "adam", attributes = "{}", others = "{}";
  RateText learning_rate;
  double clip_value = 0, clip_norm = 0, ema = 0;
  bool fused = true, allow_unused = false;
  rlx::DType precision = rlx::f32;
  ScaleText loss_scale;
  int64_t seed = 0;
  std::string key_input;
  std::vector<WrittenText> written;
  int64_t checkpoints = 0;
  std::vector<GroupText> groups;
  std::vector<std::string> trained;
  HessianText hessian;
  RLX_FIELDS(TrainText, field("optimizer", &TrainText::optimizer), field("attributes", &TrainText::attributes),
             field("others", &TrainText::others), field("learning_rate", &TrainText::learning_rate),
             field("clip_value", &TrainText::clip_value), field("clip_norm", &TrainText::clip_norm),
             field("ema", &TrainText::ema), field("fused", &TrainText::fused),
             field("allow_unused", &TrainText::allow_unused), field("precision", &TrainText::precision),
             field("loss_scale", &TrainText::loss_scale), field("seed", &TrainText::seed),
             field("key_input", &TrainText::key_input), field("written", &TrainText::written),
             field("checkpoints", &TrainText::checkpoints), field("groups", &TrainText::groups),
             field("trained", &TrainText::trained), field("hessian", &TrainText::hessian));
};

rlx::Optimizer optimizer_from(const TrainText& c) {
  auto o = rlx::Optimizer::named(c.optimizer);
  auto read_into = [&](rlx::OptimizerRule& rule, const std::string& text, const std::string& what) {
    std::visit([&](auto& attributes) { attributes = read_over(attributes, text, what); }, rule);
  };
  read_into(o.rule, c.attributes, "attributes of the optimizer '" + c.optimizer + "'");
  if (o.for_vectors) read_into(*o.for_vectors, c.others, "others");
  o.hessian = {c.hessian.kind, c.hessian.every, c.hessian.beta2, c.hessian.logits, c.hessian.algorithm};
  return o;
}

rlx::TrainConfig config_from(const char* text) {
  rlx::TrainConfig config;
  if (!text) return config;
  auto c = read_over(TrainText{}, text, "config");
  config.optimizer = optimizer_from(c), config.learning_rate = c.learning_rate.rate();
  config.clip_value = c.clip_value, config.clip_norm = c.clip_norm, config.ema = c.ema;
  config.fused = c.fused, config.allow_unused = c.allow_unused;
  config.precision = policy_of(c.precision, c.loss_scale);
  config.seed = static_cast<uint64_t>(c.seed), config.key_input = c.key_input, config.checkpoints = c.checkpoints;
  for (const WrittenText& w : c.written) config.written[w.param] = w.output;
  config.trained = c.trained;
  for (const GroupText& g : c.groups) config.groups.push_back({g.params, g.lr_scale, g.weight_decay, g.frozen});
  return config;
}

// ---- batches and results ----
void store_outputs(std::vector<rlx::Tensor> from, rlx_tensor** outputs, size_t count) {
  if (!outputs && count == 0) return;
  if (from.size() != count)
    fail(ErrorCode::invalid_argument, "there are ", from.size(), " outputs, got room for ", count);
  if (count) required(outputs, "outputs");
  std::vector<std::unique_ptr<rlx_tensor>> made;
  for (rlx::Tensor& t : from) made.push_back(std::make_unique<rlx_tensor>(rlx_tensor{std::move(t)}));
  for (size_t i = 0; i < count; ++i) outputs[i] = made[i].release();
}

}  // namespace

extern "C" {

rlx_status rlx_training_create(rlx_session* session, const rlx_graph* loss, const char* const* names,
                               const rlx_tensor* const* values, size_t count, const char* config,
                               rlx_training** training, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(training, "training");
    rlx::NamedTensors initial;
    for (auto& [name, value] : named(names, values, count)) initial[name] = std::move(value);
    result = new rlx_training{rlx::TrainingSession(required(loss, "loss").graph, std::move(initial),
                                                   config_from(config), required(session, "session").session),
                              {}};
  });
}
rlx_status rlx_training_step(rlx_training* training, const char* const* names, const rlx_tensor* const* values,
                             size_t count, int accumulate, rlx_step_result* result, rlx_tensor** outputs,
                             size_t output_count, rlx_error** error) {
  return guarded(error, [&] {
    rlx::TrainingSession& s = required(training, "training").session;
    auto batch = named(names, values, count);
    if (result && (result->struct_size < sizeof(size_t) || result->struct_size > 4096))
      fail(ErrorCode::invalid_argument, "struct_size is ", result->struct_size, "; set it to sizeof the struct");
    if (outputs && output_count != s.output_count())
      fail(ErrorCode::invalid_argument, "the loss has ", s.output_count(), " outputs behind it, got room for ",
           output_count);
    rlx::StepResult r = accumulate ? s.accumulate(batch) : s.step(batch);
    if (outputs) store_outputs(std::move(r.outputs), outputs, output_count);
    if (!result) return;
    rlx_step_result full{result->struct_size,      r.loss,   r.grad_norm, r.learning_rate, r.loss_scale, r.step,
                         static_cast<int>(r.path), r.skipped};
    std::memcpy(result, &full, std::min(result->struct_size, sizeof full));
  });
}
rlx_status rlx_training_step_accumulated(rlx_training* training, int64_t* count, rlx_error** error) {
  return guarded(error, [&] {
    int64_t of = required(training, "training").session.step_accumulated();
    if (count) *count = of;
  });
}
rlx_status rlx_training_evaluate(rlx_training* training, const char* const* names, const rlx_tensor* const* values,
                                 size_t count, int averaged, rlx_tensor** outputs, size_t output_count,
                                 rlx_error** error) {
  return guarded(error, [&] {
    rlx::TrainingSession& s = required(training, "training").session;
    store_outputs(s.evaluate(named(names, values, count), averaged != 0), &required(outputs, "outputs"), output_count);
  });
}
rlx_status rlx_training_set_loss(rlx_training* training, const rlx_graph* loss, rlx_error** error) {
  return guarded(error, [&] { required(training, "training").session.set_loss(required(loss, "loss").graph); });
}
rlx_status rlx_training_set_learning_rate(rlx_training* training, double rate, rlx_error** error) {
  return guarded(error, [&] { required(training, "training").session.set_learning_rate(rate); });
}
rlx_status rlx_training_with_fused_optimizer(rlx_training* training, int fused, rlx_error** error) {
  return guarded(error, [&] { required(training, "training").session.with_fused_optimizer(fused != 0); });
}
rlx_status rlx_training_with_precision_policy(rlx_training* training, const char* policy, rlx_error** error) {
  return guarded(error, [&] {
    auto p = policy ? read_over(PrecisionText{}, policy, "policy") : PrecisionText{};
    required(training, "training").session.with_precision_policy(policy_of(p.precision, p.loss_scale));
  });
}
int rlx_training_fused_active(const rlx_training* training) {
  return training && training->session.fused_active() ? 1 : 0;
}
int64_t rlx_training_steps(const rlx_training* training) { return training ? training->session.steps() : 0; }
int64_t rlx_training_pending(const rlx_training* training) {
  return training ? training->session.pending_accumulation() : 0;
}
rlx_status rlx_training_param(const rlx_training* training, const char* name, int averaged, rlx_tensor** tensor,
                              rlx_error** error) {
  return guarded(error, [&] {
    const rlx::TrainingSession& s = required(training, "training").session;
    std::string wanted = required_text(name, "name");
    auto& result = required(tensor, "tensor");
    if (!averaged) {
      result = new rlx_tensor{s.param(wanted)};
      return;
    }
    auto means = s.averaged_params();
    auto found = means.find(wanted);
    if (found == means.end()) fail(ErrorCode::not_found, "there is no moving mean of '", wanted, "'");
    result = new rlx_tensor{found->second};
  });
}
rlx_status rlx_training_save(const rlx_training* training, const char* path, const char* const* names,
                             const char* const* texts, size_t count, rlx_error** error) {
  return guarded(error, [&] {
    array_from(names, count, "names"), array_from(texts, count, "texts");
    rlx::TrainingSession::Notes notes;
    for (size_t i = 0; i < count; ++i) notes[required_text(names[i], "a name")] = required_text(texts[i], "a text");
    required(training, "training").session.save(required_text(path, "path"), notes);
  });
}
rlx_status rlx_training_load(rlx_training* training, const char* path, const char** notes, rlx_error** error) {
  return guarded(error, [&] {
    auto& t = required(training, "training");
    nlohmann::json all = nlohmann::json::object();
    for (const auto& [name, text] : t.session.load(required_text(path, "path"))) all[name] = text;
    t.json = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (notes) *notes = t.json.c_str();
  });
}
rlx_status rlx_training_report(rlx_training* training, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& t = required(training, "training");
    t.json = t.session.report().json();
    result = t.json.c_str();
  });
}
rlx_status rlx_training_status(rlx_training* training, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& t = required(training, "training");
    rlx::UpdateEligibility native = t.session.eligibility();
    rlx::TrainingMemory m = t.session.memory();
    nlohmann::json all = {
        {"update_path", names_of(t.session.update_path())[static_cast<size_t>(t.session.update_path())]},
        {"eligibility", {{"device", native.device.name()}, {"supported", native.supported}, {"reason", native.reason}}},
        {"memory",
         {{"params", m.params},
          {"states", m.states},
          {"gradients", m.gradients},
          {"spare", m.spare},
          {"program", m.program},
          {"total", m.total()}}},
        {"loss_scale", t.session.loss_scale()}};
    t.json = all.dump();
    result = t.json.c_str();
  });
}
void rlx_training_free(rlx_training* training) { delete training; }

}  // extern "C"
