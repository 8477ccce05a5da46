// See the header.
#include "tools/train_loop.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "io/atomic_file.h"
#include "rlx/element.h"
#include "rlx/metrics.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/quantization.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kKeys = 17;  // the stream of keys for dropout

std::atomic<bool> interrupted = false;

/// While it lives, the first interrupt asks the loop to stop; a second one ends the program as ever.
class Interrupts {
 public:
  Interrupts() {
    interrupted = false;
    for (int signal : {SIGINT, SIGTERM})
      std::signal(signal, [](int caught) {
        interrupted = true;
        std::signal(caught, SIG_DFL);
      });
  }
  ~Interrupts() {
    for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
};

Optimizer optimizer_of(const TrainSettings& s) {
  Optimizer o = Optimizer::named(s.optimizer);
  if (auto* sgd = std::get_if<SgdAttrs>(&o.rule)) sgd->momentum = s.momentum;
  if (auto* rmsprop = std::get_if<RmspropAttrs>(&o.rule)) rmsprop->momentum = s.momentum;
  if (auto* muon = std::get_if<MuonAttrs>(&o.rule); muon && s.momentum > 0) muon->momentum = s.momentum;
  return o;
}

LearningRate rate_of(const TrainSettings& s, int64_t steps) {
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

/// Sums over batches; a mean counts by the number of its examples.
class Totals {
 public:
  void add(std::span<const Tensor> outputs, const Graph& g, int64_t examples) {
    sums_.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].rank() == 0 && is_float(outputs[i].dtype()))
        sums_[i] += load_number(outputs[i], 0) * (g.outputs()[i].name == "correct" ? 1 : static_cast<double>(examples));
    examples_ += examples;
  }
  double mean(size_t output) const { return sums_[output] / static_cast<double>(examples_); }

 private:
  std::vector<double> sums_;
  int64_t examples_ = 0;
};

int64_t examples_in(const Loader::Batch& batch) { return batch.tensors.at(0).second.shape().at(0); }

class Run {
 public:
  explicit Run(const TrainRun& run)
      : run_(run), s_(run.settings), device_(Device::parse(run.device), {run.threads}), model_(make_model(s_)),
        quantized_(quantized_training(model_, s_, device_)), loader_(model_.data.train, loader_options(model_, s_)),
        early_(s_.patience) {
    batch_size_ = loader_options(model_, s_).batch_size;
    if (wants_tests()) test_loader(model_, s_);  // what cannot be batched is said now, not at the first test
    steps_per_epoch_ = std::max<int64_t>(1, loader_.batches_per_epoch() / s_.accumulate);
    steps_ = s_.steps > 0 ? s_.steps : (s_.epochs > 0 ? s_.epochs : 10) * steps_per_epoch_;
  }
  void operator()();

 private:
  std::string path(const char* name) const { return (fs::path(s_.out) / name).string(); }
  void open_folder();
  void resume();
  StepResult step();
  void log_step(const StepResult& r);
  bool wants_tests() const { return model_.data.test || s_.patience > 0; }
  /// Whether training goes on.
  bool evaluate();
  void save();
  void finish();
  /// What tests are made with and files are written of: the moving means, where there are any.
  NamedTensors best_known() const;

  const TrainRun& run_;
  const TrainSettings& s_;
  Session device_;
  TrainModel model_;
  std::optional<QuantizedTraining> quantized_;
  Loader loader_;
  EarlyStop early_;
  int64_t batch_size_ = 1, steps_ = 0, steps_per_epoch_ = 1, saved_at_ = -1;
  std::optional<TrainingSession> session_;
  std::optional<CompiledGraph> tested_;
  std::unique_ptr<MetricsLog> log_;
  Clock::time_point begin_ = Clock::now();
  int64_t begin_step_ = 0;
  double loss_ = 0;  // of the latest step
};

void Run::open_folder() {
  std::error_code error;
  bool there = fs::exists(path("checkpoint.safetensors"), error) || fs::exists(path("metrics.jsonl"), error);
  if (there && !run_.resume && !run_.overwrite)
    fail(
        ErrorCode::invalid_argument, "the folder '", s_.out,
        "' holds a training already; go on with it by --resume, begin anew by --overwrite, or name another: --out DIR");
  fs::create_directories(s_.out, error);
  if (error && !fs::is_directory(s_.out))
    fail(ErrorCode::io, "cannot make the folder '", s_.out, "': ", error.message());
  AtomicFile probe(path("checkpoint.safetensors"));
  if (run_.overwrite && !run_.resume)
    for (const char* name : {"checkpoint.safetensors", "metrics.jsonl", "params.safetensors", "best.safetensors",
                             "loss.svg", "sample.txt", "int8.rlx", "int8.safetensors"})
      fs::remove(path(name), error);
}

void Run::resume() {
  auto notes = session_->load(path("checkpoint.safetensors"));
  auto note = [&](const char* name) {
    auto found = notes.find(name);
    if (found == notes.end())
      fail(ErrorCode::parse, "'", path("checkpoint.safetensors"), "' has no note '", name,
           "': `rlx train` did not write it");
    return found->second;
  };
  loader_.restore(note("loader"));
  early_.restore(note("early_stop"));
  saved_at_ = session_->steps();
}

StepResult Run::step() {
  auto batch = [&] {
    return inputs_of(model_.loss, loader_.next().tensors, s_.seed,
                     session_->steps() * s_.accumulate + session_->pending_accumulation());
  };
  if (s_.accumulate == 1) return session_->step(batch());
  StepResult last;
  double loss = 0, norm = 0;
  for (int64_t i = 0; i < s_.accumulate; ++i) {
    last = session_->accumulate(batch());
    loss += last.loss / static_cast<double>(s_.accumulate);
    norm = std::max(norm, last.grad_norm);
  }
  if (session_->pending_accumulation() > 0) session_->step_accumulated();  // else all overflowed, and the scale falls
  last.loss = loss, last.grad_norm = norm, last.step = session_->steps();
  return last;
}

void Run::log_step(const StepResult& r) {
  double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  double done = static_cast<double>((r.step - begin_step_) * s_.accumulate * batch_size_);
  MetricsLog::Line line = {
      {"step", r.step},           {"epoch", loader_.position().epoch}, {"loss", r.loss},
      {"grad_norm", r.grad_norm}, {"learning_rate", r.learning_rate},  {"examples_per_second", done / seconds}};
  if (s_.precision == "f16") line.emplace_back("loss_scale", r.loss_scale);
  const auto& outputs = model_.loss.outputs();
  for (size_t i = 0; i < r.outputs.size(); ++i)
    if (r.outputs[i].rank() == 0 && outputs[i + 1].name != "correct")
      line.emplace_back(outputs[i + 1].name, load_number(r.outputs[i], 0));
  log_->write(line);
}

bool Run::evaluate() {
  if (!wants_tests()) return true;
  if (!tested_) tested_ = device_.compile(model_.tested);
  tested_->set_params(best_known());
  TestMeans means = test_means(*tested_, model_, s_, session_->steps());
  double loss = means.loss;
  MetricsLog::Line line = {{"step", session_->steps()}, {"test_loss", loss}};
  if (means.accuracy) line.emplace_back("test_accuracy", *means.accuracy);
  std::string text = text_of("step ", session_->steps(), " of ", steps_, "  test ", means.text());
  log_->write(line);
  bool best = early_.improves(loss);
  if (best && s_.patience > 0) write_safetensors(path("best.safetensors"), best_known());
  write_out(text + (best ? "  (the best so far)\n" : "\n"));
  flush_out();
  if (early_.should_stop())
    write_out(
        text_of("stopped: ", s_.patience, " tests in a row were no better than ", fixed_text(early_.best(), 4), "\n"));
  return !early_.should_stop();
}

NamedTensors Run::best_known() const {
  NamedTensors params = session_->params();
  if (s_.ema > 0)
    for (auto& [name, mean] : session_->averaged_params()) params[name] = mean;
  return params;
}

void Run::save() {
  if (saved_at_ == session_->steps()) return;
  session_->save(path("checkpoint.safetensors"), {{"loader", loader_.state()}, {"early_stop", early_.state()}});
  saved_at_ = session_->steps();
}

void Run::finish() {
  write_safetensors(path("params.safetensors"), best_known());
  std::vector<Curve> curves = {read_curve(path("metrics.jsonl"), "loss"),
                               read_curve(path("metrics.jsonl"), "test_loss")};
  if (curves[1].x.empty()) curves.pop_back();
  AtomicFile picture(path("loss.svg"));
  picture.write(curves_svg(curves, {.title = s_.model, .log_y = true}));
  picture.commit();
  double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::string reached =
      session_->steps() > begin_step_
          ? text_of("step ", session_->steps(), ": loss ", fixed_text(loss_, 4), ", ", fixed_text(seconds, 1), " s; ")
          : text_of("step ", session_->steps(), ", as it was; ");
  write_out(text_of(reached, path("params.safetensors"), " is written, the curve in ", path("loss.svg"), "\n"));
  if (quantized_) {
    write_out(write_int8(*quantized_, model_, best_known(), s_, device_, path("int8.rlx")));
    flush_out();
  }
  if (model_.writer) {
    std::string text = written_text(model_, best_known(), s_, device_);
    AtomicFile sample(path("sample.txt"));
    sample.write(text);
    sample.commit();
    write_out(text + "\n");
  }
}

void Run::operator()() {
  session_.emplace(model_.loss, model_.initial, train_config(s_, model_, steps_), device_);
  open_folder();
  model_.initial.clear();
  if (run_.resume) resume();
  log_ = std::make_unique<MetricsLog>(path("metrics.jsonl"), session_->steps());
  int64_t params = 0;
  for (const auto& [name, value] : session_->params()) params += static_cast<int64_t>(value.element_count());
  write_out(text_of(s_.model, ": ", params, " params, ", model_.data.train->size(), " examples to learn from",
                    model_.data.test ? text_of(", ", model_.data.test->size(), " to be tested by") : "", "; ",
                    run_.resume ? text_of("goes on behind step ", session_->steps(), " of ") : "", steps_, " steps of ",
                    s_.accumulate > 1 ? text_of(s_.accumulate, " times ") : "", batch_size_, "; writes ", s_.out,
                    "/\n"));
  flush_out();

  Interrupts interrupts;
  bool going = true;
  begin_ = Clock::now(), begin_step_ = session_->steps();
  {
    ProgressBar bar("training");
    auto is_due = [&](int64_t every) { return session_->steps() % (every > 0 ? every : steps_per_epoch_) == 0; };
    while (going && !interrupted && session_->steps() < steps_) {
      int64_t before = session_->steps();
      StepResult r = step();
      loss_ = r.loss;
      if (session_->steps() == before) continue;  // it overflowed in f16, and the scale is lower now
      bool last = r.step == steps_;
      if (r.step % s_.log_every == 0 || r.step == 1 || last) log_step(r);
      bar.show(static_cast<size_t>(r.step), static_cast<size_t>(steps_));
      if (last || is_due(s_.evaluate_every)) going = evaluate();
      if (is_due(s_.checkpoint_every)) save();
    }
  }
  save();
  if (interrupted && session_->steps() < steps_) {
    write_out(text_of("interrupted behind step ", session_->steps(), " of ", steps_, "; ",
                      path("checkpoint.safetensors"), " is written: go on with --resume\n"));
    return;
  }
  finish();
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
  if (s.weight_decay >= 0) config.groups.push_back({{"*"}, 1, s.weight_decay});
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

TestMeans test_means(const CompiledGraph& tested, const TrainModel& model, const TrainSettings& s, int64_t step) {
  Loader all = test_loader(model, s);
  Totals totals;
  for (int64_t i = 0; i < all.batches_per_epoch(); ++i) {
    Loader::Batch batch = all.next();
    int64_t examples = examples_in(batch);
    totals.add(tested.run(inputs_of(model.tested, std::move(batch.tensors), s.seed, step)), model.tested, examples);
  }
  TestMeans means{totals.mean(0)};
  for (size_t i = 1; model.answers > 0 && i < model.tested.outputs().size(); ++i)
    if (model.tested.outputs()[i].name == "correct")
      means.accuracy = totals.mean(i) / static_cast<double>(model.answers);
  return means;
}

std::string TestMeans::text() const {
  return "loss " + fixed_text(loss, 4) + (accuracy ? "  accuracy " + fixed_text(100 * *accuracy, 2) + " %" : "");
}

void train(const TrainRun& run) {
  check_settings(run.settings);
  Run loop(run);
  loop();
}

std::string written_text(const TrainModel& model, const NamedTensors& params, const TrainSettings& s,
                         const Session& device) {
  CompiledGraph writer = device.compile(*model.writer);
  writer.set_params(params);
  Tensor start = model.characters.encode(s.prompt);
  auto values = start.values<int32_t>();
  std::vector<int32_t> written(values.begin(), values.end());
  if (written.empty()) written.push_back(0);
  std::string text = s.prompt;
  RandomStream random(static_cast<uint64_t>(s.seed), kKeys + 1);
  for (int64_t i = 0; i < s.length; ++i) {
    // What stands behind a place does not change it: the model is causal.
    size_t seen = std::min(written.size(), static_cast<size_t>(s.context));
    Tensor x(i32, {1, s.context});
    std::copy(written.end() - static_cast<std::ptrdiff_t>(seen), written.end(), x.mutable_values<int32_t>().begin());
    uint32_t first = random.next();
    Tensor next = writer.run({{"x", x}, {"key", Tensor::of<uint32_t>({2}, {first, random.next()})}})[0];
    written.push_back(next.values<int32_t>()[seen - 1]);
    text += model.characters.all[static_cast<size_t>(written.back())];
  }
  return text;
}

}  // namespace rlx::tools
