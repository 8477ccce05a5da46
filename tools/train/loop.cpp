// See the header.
#include "tools/train/loop.h"

#include <sys/resource.h>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "io/atomic_file.h"
#include "rlx/graph_file.h"
#include "rlx/metrics.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/quantization.h"
#include "tools/subcommands.h"
#include "tools/train/examples.h"
#include "tools/train/session.h"
#include "tools/train/text.h"
#include "tools/train/verify.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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

class TrainLoop {
 public:
  explicit TrainLoop(const TrainRun& run)
      : run_(run), s_(run.settings), device_(Device::parse(run.device), {run.threads}), model_(make_model(s_)),
        quantized_(quantized_training(model_, s_, device_)), loader_(model_.data.train, loader_options(model_, s_)),
        early_(s_.patience) {
    batch_size_ = loader_options(model_, s_).batch_size;
    if (wants_tests()) test_loader(model_, s_);  // what cannot be batched is said now, not at the first test
    steps_per_epoch_ = std::max<int64_t>(1, loader_.batches_per_epoch() / s_.accumulate);
    constexpr int64_t kEpochs = 10;
    steps_ = s_.steps >= 0 ? s_.steps : (s_.epochs >= 0 ? s_.epochs : kEpochs) * steps_per_epoch_;
  }
  void operator()();

 private:
  std::string path(const char* name) const { return (fs::path(s_.out) / name).string(); }
  void require_own_params() const;
  void open_folder();
  void write_params(const char* name) const;
  void resume();
  StepResult step();
  void log_step(const StepResult& r);
  bool wants_tests() const { return model_.data.test || s_.patience > 0; }
  /// Whether training goes on.
  bool evaluate();
  void save();
  void finish();
  /// Text for a person, or with --json a line of JSON.
  void tell(const std::string& text) const {
    if (!run_.json) write_out(text);
  }
  void tell(const MetricsLog::Line& line) const;
  /// What the session holds, and the most that the process has held.
  std::string memory_text() const;
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

/// In the metadata of params: what tells those that `rlx train` wrote from what somebody put into the folder.
constexpr const char *kWrittenBy = "written_by", *kTrain = "rlx train";
/// What a training leaves in its folder.
constexpr const char* kFiles[] = {"checkpoint.safetensors", "metrics.jsonl", "params.safetensors",
                                  "best.safetensors",       "loss.svg",      "sample.txt",
                                  "inference.rlx",          "int8.rlx",      "int8.safetensors"};

/// Params may be all that is left of somebody's work: what no training wrote stays, whatever the options say.
void TrainLoop::require_own_params() const {
  for (const char* name : {"params.safetensors", "best.safetensors"}) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path(name), error))) continue;
    bool own = false;
    try {
      const auto file = SafetensorsFile::open(path(name));
      auto found = file.metadata().find(kWrittenBy);
      own = found != file.metadata().end() && found->second == kTrain;
    } catch (const Error&) {  // no file of params at all
    }
    if (!own)
      fail(ErrorCode::invalid_argument, "'", path(name), "' would be replaced, and `rlx train` did not write it: move ",
           "it away, or name another folder: --out DIR");
  }
}

void TrainLoop::open_folder() {
  std::error_code error;
  require_own_params();
  bool there = std::any_of(std::begin(kFiles), std::end(kFiles),
                           [&](const char* name) { return fs::exists(path(name), error); });
  if (there && !run_.resume && !run_.overwrite)
    fail(
        ErrorCode::invalid_argument, "the folder '", s_.out,
        "' holds a training already; go on with it by --resume, begin anew by --overwrite, or name another: --out DIR");
  fs::create_directories(s_.out, error);
  if (error && !fs::is_directory(s_.out))
    fail(ErrorCode::io, "cannot make the folder '", s_.out, "': ", error.message());
  AtomicFile probe(path("checkpoint.safetensors"));
  if (run_.overwrite && !run_.resume)
    for (const char* name : kFiles) fs::remove(path(name), error);
}

void TrainLoop::resume() {
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

void TrainLoop::tell(const MetricsLog::Line& line) const {
  if (!run_.json) return;
  std::string text = "{";
  for (const auto& [name, value] : line) {
    text += (text.size() > 1 ? ", " : "") + json_text(name) + ": ";
    if (const auto* words = std::get_if<std::string>(&value)) text += json_text(*words);
    else if (const auto* number = std::get_if<double>(&value)) text += number_text(*number);
    else text += std::to_string(std::get<int64_t>(value));
  }
  write_out(text + "}\n");
  flush_out();
}

StepResult TrainLoop::step() {
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

void TrainLoop::log_step(const StepResult& r) {
  double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  double done = static_cast<double>((r.step - begin_step_) * s_.accumulate * batch_size_);
  MetricsLog::Line line = {{"step", r.step},
                           {"epoch", loader_.position().epoch},
                           {"loss", r.loss},
                           {"grad_norm", r.grad_norm},
                           {"learning_rate", r.learning_rate},
                           {"examples_per_second", done / seconds},
                           {"memory_bytes", static_cast<int64_t>(session_->memory().total())}};
  if (s_.precision == "f16") line.emplace_back("loss_scale", r.loss_scale);
  const auto& outputs = model_.loss.outputs();
  for (size_t i = 0; i < r.outputs.size(); ++i)
    if (r.outputs[i].rank() == 0 && outputs[i + 1].name != "correct")
      line.emplace_back(outputs[i + 1].name, load_number(r.outputs[i], 0));
  log_->write(line);
  tell(line);
}

bool TrainLoop::evaluate() {
  if (!wants_tests()) return true;
  if (!tested_) tested_ = device_.compile(model_.tested);
  tested_->set_params(best_known());
  TestMeans means = test_means(*tested_, model_, s_, session_->steps());
  double loss = means.loss;
  MetricsLog::Line line = {{"step", session_->steps()}, {"test_loss", loss}};
  if (means.accuracy) line.emplace_back("test_accuracy", *means.accuracy);
  std::string text = text_of("step ", session_->steps(), " of ", steps_, "  test ", means.text());
  log_->write(line);
  tell(line);
  bool best = early_.improves(loss);
  if (best && s_.patience > 0) write_params("best.safetensors");
  tell(text + (best ? "  (the best so far)\n" : "\n"));
  flush_out();
  if (early_.should_stop())
    tell(text_of("stopped: ", s_.patience, " tests in a row were no better than ", fixed_text(early_.best(), 4), "\n"));
  return !early_.should_stop();
}

NamedTensors TrainLoop::best_known() const {
  NamedTensors params = session_->params();
  if (s_.ema > 0)
    for (auto& [name, mean] : session_->averaged_params()) params[name] = mean;
  return params;
}

void TrainLoop::write_params(const char* name) const {
  require_own_params();  // one may have been put there meanwhile
  write_safetensors(path(name), best_known(), {{kWrittenBy, kTrain}});
}

void TrainLoop::save() {
  if (saved_at_ == session_->steps()) return;
  session_->save(path("checkpoint.safetensors"), {{"loader", loader_.state()}, {"early_stop", early_.state()}});
  saved_at_ = session_->steps();
}

std::string TrainLoop::memory_text() const {
  TrainingMemory m = session_->memory();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  constexpr double kUnit = 1;
#else
  constexpr double kUnit = 1024;
#endif
  auto bytes = [](size_t n) { return bytes_text(static_cast<double>(n)); };
  return text_of("memory ", bytes(m.total()), " (params ", bytes(m.params), ", states ", bytes(m.states),
                 ", activations and gradients ", bytes(m.program + m.gradients + m.spare), "), of the process at most ",
                 bytes_text(static_cast<double>(usage.ru_maxrss) * kUnit));
}

void TrainLoop::finish() {
  write_params("params.safetensors");
  std::vector<Curve> curves = {read_curve(path("metrics.jsonl"), "loss"),
                               read_curve(path("metrics.jsonl"), "test_loss")};
  if (curves[1].x.empty()) curves.pop_back();
  AtomicFile picture(path("loss.svg"));
  picture.write(curves_svg(curves, {.title = s_.model, .log_y = true}));
  picture.commit();
  double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::string reached = session_->steps() > begin_step_
                            ? text_of("step ", session_->steps(), ": loss ", fixed_text(loss_, 4), ", ",
                                      fixed_text(seconds, 1), " s, ", memory_text(), "; ")
                            : text_of("step ", session_->steps(), ", as it was; ");
  std::string model;
  if (model_.answering) {
    save_graph(path("inference.rlx"), *model_.answering);
    model = text_of(", the model that takes x and gives y in ", path("inference.rlx"));
  }
  tell(text_of(reached, path("params.safetensors"), " is written", model, ", the curve in ", path("loss.svg"), "\n"));
  MetricsLog::Line written = {{"step", session_->steps()},
                              {"loss", loss_},
                              {"seconds", seconds},
                              {"params", path("params.safetensors")},
                              {"curve", path("loss.svg")}};
  if (model_.answering) written.emplace_back("model", path("inference.rlx"));
  tell(written);
  if (quantized_) {
    tell(write_int8(*quantized_, model_, best_known(), s_, device_, path("int8.rlx")));
    flush_out();
  }
  if (model_.writer) {
    std::string text = written_text(model_, best_known(), s_, device_);
    AtomicFile sample(path("sample.txt"));
    sample.write(text);
    sample.commit();
    tell(text + "\n");
    tell(MetricsLog::Line{{"sample", text}});
  }
}

void TrainLoop::operator()() {
  session_.emplace(model_.loss, model_.initial, train_config(s_, model_, steps_), device_);
  open_folder();
  model_.initial.clear();
  if (run_.resume) resume();
  log_ = std::make_unique<MetricsLog>(path("metrics.jsonl"), session_->steps());
  int64_t params = 0;
  for (const auto& [name, value] : session_->params()) params += static_cast<int64_t>(value.element_count());
  tell(text_of(s_.model, ": ", params, " params, ", model_.data.train->size(), " examples to learn from",
               model_.data.test ? text_of(", ", model_.data.test->size(), " to be tested by") : "", "; ",
               run_.resume ? text_of("goes on behind step ", session_->steps(), " of ") : "", steps_, " steps of ",
               s_.accumulate > 1 ? text_of(s_.accumulate, " times ") : "", batch_size_, "; writes ", s_.out, "/\n"));
  if (!model_.bytes.empty()) tell(model_.bytes + "\n");
  if (!model_.data.columns.empty()) tell(model_.data.columns + "\n");
  flush_out();

  Interrupts interrupts;
  bool going = true;
  begin_ = Clock::now(), begin_step_ = session_->steps();
  if (steps_ == 0) evaluate();  // only the test was asked for
  {
    ProgressBar bar("training");
    auto is_due = [&](int64_t every) { return session_->steps() % (every > 0 ? every : steps_per_epoch_) == 0; };
    while (going && !interrupted && session_->steps() < steps_) {
      int64_t before = session_->steps();
      StepResult r = with_context(
          [&] {
            std::string bad = not_finite_in(*model_.data.train);
            return bad.empty() ? text_of("making step ", before + 1) : "learning from data of which " + bad;
          },
          [&] { return step(); });
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
    tell(text_of("interrupted behind step ", session_->steps(), " of ", steps_, "; ", path("checkpoint.safetensors"),
                 " is written: go on with --resume\n"));
    tell(MetricsLog::Line{{"interrupted_at", session_->steps()}, {"checkpoint", path("checkpoint.safetensors")}});
    return;
  }
  finish();
}

}  // namespace

void train(const TrainRun& run) {
  check_settings(run.settings);
  TrainLoop loop(run);
  loop();
}

}  // namespace rlx::tools
