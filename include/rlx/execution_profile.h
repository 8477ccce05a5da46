// How models are to be executed, from a file: devices, precision, threads and shapes, for each phase of their use
// (prefill and decode of a language model, or any other names). Options of sessions, compiles and language models
// follow from it. docs/profiles.md describes the file. (The times of a run's steps are a Profile; rlx/session.h.)
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlx/language_model.h"

namespace rlx {

/// What a file of TOML says, a key for each member.
struct ExecutionSettings {
  /// Devices by preference. The first one that is available runs the graph, and those behind it what it does not take
  /// (CompileOptions::fallback). Empty: RLX_DEVICE, else the processor.
  std::vector<std::string> device = {};
  int64_t threads = 0;  ///< 0: as SessionOptions::threads
  Compute compute = Compute::as_f32;
  Accuracy accuracy = Accuracy::as_f32;
  Rounding rounding = Rounding::strict;
  KernelDispatch kernel_dispatch = KernelDispatch::native;
  CompileMode mode = CompileMode::eager;
  bool batch_invariant = false, strict = false, narrow = false;
  std::vector<std::string> placement = {};  ///< "PATTERN=DEVICE", as Placement::parse reads it
  Bindings shapes = {};                     ///< what symbols are: the graph is compiled for these numbers
  Bindings bounds = {};                     ///< the most that symbols can be (CompileOptions::bounds)
  // Of language models (LanguageModel::Options); 0 where it is left to the model, or to its default.
  DType cache = f32;
  int64_t context = 0, chunk = 0;

  RLX_FIELDS(ExecutionSettings, field("device", &ExecutionSettings::device),
             field("threads", &ExecutionSettings::threads), field("compute", &ExecutionSettings::compute),
             field("accuracy", &ExecutionSettings::accuracy), field("rounding", &ExecutionSettings::rounding),
             field("kernel_dispatch", &ExecutionSettings::kernel_dispatch), field("mode", &ExecutionSettings::mode),
             field("batch_invariant", &ExecutionSettings::batch_invariant), field("strict", &ExecutionSettings::strict),
             field("narrow", &ExecutionSettings::narrow), field("placement", &ExecutionSettings::placement),
             field("shapes", &ExecutionSettings::shapes), field("bounds", &ExecutionSettings::bounds),
             field("cache", &ExecutionSettings::cache), field("context", &ExecutionSettings::context),
             field("chunk", &ExecutionSettings::chunk));
};

/// What the settings of a phase mean on this machine.
struct ExecutionOptions {
  std::string phase = {};
  Device device = Device::from_environment();
  SessionOptions session = {};
  CompileOptions compile = CompileOptions::from_environment();
  Bindings shapes = {};
  /// Devices that come before `device` in the settings and are not available, with the reason: "cuda: ...".
  std::vector<std::string> passed_over = {};

  /// The graph with its symbols as `shapes` has them. Fails for a symbol that it has not, naming the nearest.
  Graph specialized(const Graph& g) const;
  /// A session of the device, and the specialized graph compiled by it.
  CompiledGraph compiled(const Graph& g) const;
};

struct ExecutionProfile {
  ExecutionSettings common = {};  ///< at the head of the file: what phases have unless they say otherwise
  /// [phase.NAME], in the order of the file, with what `common` has where the file leaves it out.
  std::vector<std::pair<std::string, ExecutionSettings>> phases = {};

  /// From the text of a file. Fails, with the line, for a key that there is not (naming the nearest), a value that the
  /// key does not take, and a device, a symbol or a placement that makes no sense.
  static ExecutionProfile parse(std::string_view toml);
  /// The same of a file, which errors name.
  static ExecutionProfile load(const std::string& path);
  /// The text of a file that reads back as the same; a phase has what differs from `common`.
  std::string toml() const;
  void save(const std::string& path) const;

  /// Of a phase. An empty name is that of the only phase, or `common` if there is none. Fails for a name that there is
  /// not, and for an empty one of several.
  const ExecutionSettings& phase(std::string_view name = {}) const;
  /// What the phase means here. What neither it nor `common` says is as the environment has it
  /// (CompileOptions::from_environment). Fails if none of its devices is available, with the reasons.
  ExecutionOptions options(std::string_view phase = {}) const;
  /// Of a language model, whose one graph reads prompts (phase "prefill") and goes on with them ("decode"). The two
  /// must agree in all but `chunk`, which is that of prefill; if they do not, this fails and names the key. With a
  /// name, or without these two phases, as `options`. `shapes` and `bounds` are not for language models, whose sizes
  /// `chunk` and `context` say; they are errors.
  LanguageModel::Options language_model_options(std::string_view phase = {}) const;
  bool operator==(const ExecutionProfile&) const = default;
};

}  // namespace rlx
