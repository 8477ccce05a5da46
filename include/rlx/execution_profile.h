// How models are to be executed, from a file: devices, precision, threads and shapes, for each phase of their use
// (prefill and decode of a language model, or any other names). It determines the options of sessions, compiling and
// language models. docs/profiles.md describes the file. (Profile, in rlx/session.h, is about a run's times.)
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlx/language_model.h"

namespace rlx {

/// What a file of TOML says, a key for each member.
struct ExecutionSettings {
  /// Devices by preference. The first one that is available runs the graph, and later ones run the nodes that it does
  /// not support (CompileOptions::fallback). Empty: RLX_DEVICE, else the CPU.
  std::vector<std::string> device = {};
  int64_t threads = 0;  ///< 0: as SessionOptions::threads
  Compute compute = Compute::as_f32;
  Accuracy accuracy = Accuracy::as_f32;
  Rounding rounding = Rounding::strict;
  KernelDispatch kernel_dispatch = KernelDispatch::native;
  CompileMode mode = CompileMode::eager;
  bool batch_invariant = false, strict = false, narrow = false;
  std::string isa = {};                     ///< CompileOptions::isa: "avx2"; empty: what the process may use
  std::vector<std::string> placement = {};  ///< "PATTERN=DEVICE", as Placement::parse reads it
  Bindings shapes = {};                     ///< numbers of symbols: the graph is compiled for these
  Bindings bounds = {};                     ///< upper bounds of symbols (CompileOptions::bounds)
  // For language models (LanguageModel::Options). 0: the model's own context, the default chunk.
  DType cache = f32;
  int64_t context = 0, chunk = 0;

  RLX_FIELDS(ExecutionSettings, field("device", &ExecutionSettings::device),
             field("threads", &ExecutionSettings::threads), field("compute", &ExecutionSettings::compute),
             field("accuracy", &ExecutionSettings::accuracy), field("rounding", &ExecutionSettings::rounding),
             field("kernel_dispatch", &ExecutionSettings::kernel_dispatch), field("mode", &ExecutionSettings::mode),
             field("batch_invariant", &ExecutionSettings::batch_invariant), field("strict", &ExecutionSettings::strict),
             field("narrow", &ExecutionSettings::narrow), field("isa", &ExecutionSettings::isa),
             field("placement", &ExecutionSettings::placement), field("shapes", &ExecutionSettings::shapes),
             field("bounds", &ExecutionSettings::bounds), field("cache", &ExecutionSettings::cache),
             field("context", &ExecutionSettings::context), field("chunk", &ExecutionSettings::chunk));
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

  /// The graph with `shapes` substituted for its symbols. Fails for a symbol that the graph lacks, naming the nearest.
  Graph specialized(const Graph& g) const;
  /// A session of the device, and the specialized graph compiled by it.
  CompiledGraph compiled(const Graph& g) const;
};

struct ExecutionProfile {
  ExecutionSettings common = {};  ///< at the head of the file: what phases have unless they say otherwise
  /// [phase.NAME], in the order of the file, with what `common` has where the file leaves it out.
  std::vector<std::pair<std::string, ExecutionSettings>> phases = {};

  /// Reads the text of a file. Fails, with the line, for an unknown key (naming the nearest), a value that the key does
  /// not take, and a device, a symbol or a placement that makes no sense.
  static ExecutionProfile parse(std::string_view toml);
  /// The same for a file. Errors name it.
  static ExecutionProfile load(const std::string& path);
  /// The text of a file that reads back as the same; a phase has what differs from `common`.
  std::string toml() const;
  void save(const std::string& path) const;

  /// The settings of a phase. An empty name means the only phase, or `common` if there are none. Fails for an unknown
  /// name, and for an empty one if there are several phases.
  const ExecutionSettings& phase(std::string_view name = {}) const;
  /// The options of the phase on this machine. The environment decides what CompileOptions::from_environment() reads,
  /// where the settings leave it to the default. Fails if none of its devices is available, with the reasons.
  ExecutionOptions options(std::string_view phase = {}) const;
  /// The options of a language model, which reads prompts (phase "prefill") and continues them ("decode") with one
  /// graph. The two phases must agree in all but `chunk`, which is that of prefill; if they do not, this fails and
  /// names the key. With a name, or without both phases, it takes one phase, as `options` does. `shapes` and `bounds`
  /// are errors: a language model has the sizes `chunk` and `context`.
  LanguageModel::Options language_model_options(std::string_view phase = {}) const;
  bool operator==(const ExecutionProfile&) const = default;
};

}  // namespace rlx
